"""Average precision against values by hand, a loop, scikit-learn and copied rows."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from limner.errors import DataError, NumericsError
from limner.research.evaluation.ranking import (
    average_precision,
    disagreement_ceiling,
    precision_statistic,
    prevalence,
)
from limner.research.evaluation.uncertainty import bootstrap, group_numbers, interval_of


def loop(scores, labels):
    """Thresholds from the highest score down, counted one by one."""
    total, before = 0.0, 0
    for threshold in sorted(set(scores), reverse=True):
        taken = [label for score, label in zip(scores, labels, strict=True) if score >= threshold]
        total += (sum(taken) - before) / sum(labels) * (sum(taken) / len(taken))
        before = sum(taken)
    return total


def test_a_perfect_order_is_one():
    assert average_precision(np.array([0.9, 0.8, 0.2, 0.1]), [1, 1, 0, 0]) == 1.0


def test_the_reversed_order_has_the_value_by_hand():
    # positives at ranks 3 and 4 of 4: (1/3 + 2/4) / 2
    assert average_precision(np.array([0.1, 0.2, 0.8, 0.9]), [1, 1, 0, 0]) == pytest.approx(5 / 12)


@pytest.mark.parametrize("positives", [1, 3, 9, 10])
def test_constant_scores_are_the_prevalence(positives):
    labels = [1] * positives + [0] * (10 - positives)
    assert average_precision(np.full(10, 0.3), labels) == pytest.approx(positives / 10)
    assert prevalence(labels, range(10), resamples=50).value == pytest.approx(positives / 10)


def test_ties_are_one_threshold_whatever_the_order_of_rows():
    scores, labels = np.array([0.9, 0.5, 0.5, 0.5, 0.1]), np.array([0, 1, 0, 1, 1])
    expected = (2 / 3) * (2 / 4) + (1 / 3) * (3 / 5)
    for seed in range(6):
        order = np.random.default_rng(seed).permutation(5)
        assert average_precision(scores[order], labels[order]) == pytest.approx(expected)


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 1)), min_size=1, max_size=30))
def test_equals_the_loop_and_scikit_learn(rows):
    from sklearn.metrics import average_precision_score

    scores, labels = [float(s) for s, _ in rows], [y for _, y in rows]
    if not any(labels):
        with pytest.raises(DataError, match="no positive"):
            average_precision(np.array(scores), labels)
        return
    found = average_precision(np.array(scores), labels)
    assert found == pytest.approx(loop(scores, labels))
    assert found == pytest.approx(average_precision_score(labels, scores))


def test_seeds_are_averaged():
    labels = [1, 0, 1, 0]
    runs = np.array([[4.0, 3, 2, 1], [1.0, 2, 3, 4]])
    each = [average_precision(run, labels) for run in runs]
    assert each[0] != each[1]
    assert average_precision(runs, labels) == pytest.approx(np.mean(each))


def copied(scores, labels, groups, resamples, seed):
    """Precision of every resample, its rows really copied; None without a positive."""
    names = list(dict.fromkeys(groups))
    rng = np.random.default_rng(seed)
    out = []
    for counts in rng.multinomial(len(names), np.full(len(names), 1 / len(names)), size=resamples):
        rows = [row for row, group in enumerate(groups) for _ in range(counts[names.index(group)])]
        taken = [labels[row] for row in rows]
        out.append(loop([scores[row] for row in rows], taken) if any(taken) else np.nan)
    return np.array(out)


def resampled(scores, labels, groups, resamples, seed=0):
    owner, count = group_numbers(groups)
    statistics = [precision_statistic(one, labels, owner) for one in scores]
    return bootstrap(statistics, count, resamples=resamples, seed=seed, width=len(labels)), count


def test_the_interval_equals_copying_rows():
    rng = np.random.default_rng(3)
    groups = rng.integers(0, 8, 30).tolist()
    labels = rng.integers(0, 2, 30)
    first, second = rng.integers(0, 6, 30).astype(float), rng.random(30)
    found = [copied(values, labels, groups, 200, 5) for values in (first, second)]
    drawn, _ = resampled((first, second), labels, groups, 200, 5)
    assert np.allclose(drawn, found, equal_nan=True)


def test_resamples_without_a_positive_are_left_out_and_counted():
    labels = [1, 1, 0, 0, 0, 0]
    groups = ["a", "b", "c", "d", "e", "f"]
    scores = np.arange(6.0)[::-1]
    oracle = copied(scores, labels, groups, 300, 0)
    (drawn,), count = resampled([scores], labels, groups, 300)
    found = interval_of(average_precision(scores, labels), drawn, count)
    assert 0 < np.isnan(oracle).sum() < 150
    assert found.resamples == 300 - np.isnan(oracle).sum()


def test_a_relation_of_one_group_among_many_gives_an_interval_only_when_half_hold_it():
    rare = [1] + [0] * 9
    (drawn,), count = resampled([np.arange(10.0)], rare, range(10), 200)
    assert interval_of(0.1, drawn, count).resamples < 200
    (drawn,), count = resampled([np.arange(2.0)], [1, 0], ["a", "b"], 1, _seed_without_first())
    with pytest.raises(DataError, match="undefined in"):
        interval_of(0.5, drawn, count)


def _seed_without_first():
    return next(s for s in range(100) if np.random.default_rng(s).multinomial(2, [0.5, 0.5])[0] == 0)


def test_the_ceiling_by_hand():
    pairs = ["p", "p", "q", "q", "r", "s"]
    assert disagreement_ceiling(pairs, [1, 1, 0, 0, 1, 0]) == 1.0
    # r first (1 of 1), then the two copies of p tied: 2 of 3
    assert disagreement_ceiling(pairs, [1, 0, 0, 0, 1, 0]) == pytest.approx(0.5 * 1 + 0.5 * 2 / 3)


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: average_precision(np.zeros(2), [0, 0]), DataError),
        (lambda: average_precision(np.array([0.0, np.nan]), [0, 1]), NumericsError),
    ],
)
def test_what_cannot_be_measured_is_refused(call, error):
    with pytest.raises(error):
        call()
