"""The vectorised bootstrap against copying values, and its coverage."""

import numpy as np
import pytest

from limner.errors import ConfigError, DataError, NumericsError, ShapeError
from limner.research.evaluation.uncertainty import difference, holm, interval, interval_of, weighted_median

STATISTIC = {"mean": np.mean, "median": np.median}


def naive(values, groups, statistic, resamples, seed):
    """Copies the values of the drawn groups, one resample after the other."""
    names = list(dict.fromkeys(groups))
    members = {name: [v for v, g in zip(values, groups, strict=True) if g == name] for name in names}
    rng = np.random.default_rng(seed)
    out = []
    for counts in rng.multinomial(len(names), np.full(len(names), 1 / len(names)), size=resamples):
        drawn = [v for name, count in zip(names, counts, strict=True) for v in members[name] * int(count)]
        out.append(STATISTIC[statistic](drawn))
    return np.array(out)


@pytest.mark.parametrize("statistic", ["mean", "median"])
def test_equals_copying_whole_groups(statistic):
    rng = np.random.default_rng(0)
    groups = [f"g{i}" for i in rng.integers(0, 9, 41)]
    values = rng.integers(0, 6, 41).astype(float)
    oracle = naive(values, groups, statistic, 400, seed=7)
    found = interval(values, groups, statistic, resamples=400, seed=7)
    low, high = np.percentile(oracle, [2.5, 97.5], method="closest_observation")
    assert found.value == STATISTIC[statistic](values)
    assert (found.low, found.high) == (pytest.approx(low), pytest.approx(high))
    assert found.groups == len(set(groups))
    assert found.low <= found.value <= found.high


def test_the_mean_is_what_is_resampled_where_nothing_else_is_asked_for():
    values, groups = np.array([0.0, 0.0, 9.0, 3.0]), list("abcd")
    assert interval(values, groups) == interval(values, groups, "mean")
    assert interval(values, groups).value == 3.0
    assert difference(values, values[::-1], groups) == difference(values, values[::-1], groups, "mean")
    assert difference(values, np.zeros(4), groups).value == 3.0


def test_paired_difference_equals_two_runs_of_the_same_draws():
    rng = np.random.default_rng(1)
    groups = rng.integers(0, 12, 60).tolist()
    first, second = rng.random(60), rng.random(60)
    gaps = naive(first, groups, "mean", 300, 3) - naive(second, groups, "mean", 300, 3)
    found = difference(first, second, groups, resamples=300, seed=3)
    low, high = np.percentile(gaps, [2.5, 97.5], method="closest_observation")
    assert (found.low, found.high) == (pytest.approx(low), pytest.approx(high))
    assert found.value == pytest.approx(first.mean() - second.mean())
    tail = min((gaps <= 0).sum(), (gaps >= 0).sum())
    assert found.p_value == pytest.approx(min(1, 2 * (tail + 1) / 301))


def test_equal_systems_differ_by_nothing_and_better_ones_significantly():
    values = np.arange(30.0)
    same = difference(values, values, list(range(30)), resamples=200)
    assert (same.value, same.low, same.high, same.p_value) == (0, 0, 0, 1)
    better = difference(values + 1, values, list(range(30)), resamples=200)
    assert (better.low, better.high) == (pytest.approx(1), pytest.approx(1))
    assert better.p_value == pytest.approx(2 / 201)


def test_whole_groups_move_together():
    """Ten copies of a page in one story are no more evidence than one."""
    values = np.array([0.0, 1.0, 1.0, 0.0, 1.0, 0.0])
    lone = interval(values, list(range(6)), resamples=2000)
    copied = interval(np.repeat(values, 10), np.repeat(np.arange(6), 10).tolist(), resamples=2000)
    apart = interval(np.repeat(values, 10), list(range(60)), resamples=2000)
    assert (copied.low, copied.high) == (lone.low, lone.high)
    assert apart.high - apart.low < (copied.high - copied.low) / 2


def test_intervals_hold_the_truth_about_as_often_as_they_say():
    rng = np.random.default_rng(11)
    held = 0
    for trial in range(300):
        found = interval(rng.random(40), list(range(40)), resamples=300, level=0.9, seed=trial)
        held += found.low <= 0.5 <= found.high
    assert 0.9 - 4 * np.sqrt(0.09 / 300) - 0.03 < held / 300 < 0.9 + 4 * np.sqrt(0.09 / 300)


def test_a_seed_is_a_result():
    values, groups = np.random.default_rng(2).random(20), list(range(20))
    assert interval(values, groups, seed=4) == interval(values, groups, seed=4)
    assert interval(values, groups) == interval(values, groups, seed=0)
    others = values[::-1]
    assert difference(values, others, groups) == difference(values, others, groups, seed=0)
    assert interval(values, groups, seed=4).low != interval(values, groups, seed=5).low
    assert interval(values, groups).resamples == 10_000


def test_missed_queries_keep_a_median():
    found = interval(np.array([1.0, 2.0, np.inf]), ["a", "b", "c"], "median", resamples=200)
    assert found.value == 2.0
    assert found.high == np.inf


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: interval(np.zeros(2), ["a"]), ShapeError, r"values have shape \(2,\), groups \(1,\)$"),
        (lambda: interval(np.zeros(0), []), DataError, "no values; expected at least one$"),
        (lambda: interval(np.array([1, np.nan]), ["a", "b"], "median"), NumericsError, "value 1 is nan$"),
        (lambda: interval(np.array([1, np.inf]), ["a", "b"]), NumericsError, "value 1 is inf$"),
        (lambda: interval(np.zeros(1), ["a"], resamples=0), ConfigError, "0 resamples, expected at least 1$"),
        (lambda: interval(np.zeros(1), ["a"], level=1.0), ConfigError, "level 1.0, expected more than 0 and"),
        (lambda: difference(np.zeros(1), np.zeros(2), ["a"]), ShapeError, "values have shape"),
    ],
)
def test_what_cannot_be_resampled_is_refused(call, error, words):
    with pytest.raises(error, match="^bootstrap: " + words):
        call()


def test_one_resample_is_enough():
    found = interval(np.array([1.0, 3.0]), ["a", "a"], resamples=1)
    assert (found.low, found.high, found.resamples) == (2.0, 2.0, 1)


def test_undefined_resamples_are_left_out_counted_and_refused_when_most():
    drawn = np.array([1.0, np.nan, 2.0, 3.0])
    found = interval_of(2.0, drawn, 4)
    assert (found.resamples, found.low, found.high) == (3, 1.0, 3.0)
    with pytest.raises(DataError, match=r"undefined in 3 of 4 .* have data; use more data, or report no"):
        interval_of(2.0, np.array([1.0, np.nan, np.nan, np.nan]), 4)


def test_a_weighted_median_equals_the_median_of_copies_and_is_undefined_for_none():
    values = np.array([5.0, 1.0, 3.0])
    weights = np.array([[1, 2, 0], [1, 1, 1], [0, 0, 0], [3, 1, 0]])
    found = weighted_median(values, weights)
    copies = [np.median(np.repeat(values, row)) for row in weights[[0, 1, 3]]]
    assert found[[0, 1, 3]].tolist() == copies
    assert np.isnan(found[2])


def test_holm_by_hand_and_by_the_procedure_itself():
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([]) == []
    rng = np.random.default_rng(0)
    for _ in range(50):
        p_values = (rng.random(6) ** 3).tolist()
        rejected, order = set(), sorted(range(6), key=lambda i: p_values[i])
        for place, index in enumerate(order):
            if p_values[index] > 0.05 / (6 - place):
                break
            rejected.add(index)
        assert {i for i, p in enumerate(holm(p_values)) if p <= 0.05} == rejected
