"""Ranks against a sorting oracle, ties by construction, and the two canaries."""

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from limner.errors import ConfigError, DataError, NumericsError, ShapeError
from limner.research.evaluation import ranking
from limner.research.evaluation.ranking import Metric, rank, rank_blocks

POLICIES = ("mean", "pessimistic", "optimistic")


def diagonal(n):
    return [[i] for i in range(n)]


def loop_rank(row, right, ties):
    best = max(row[j] for j in right)
    better = sum(row[j] > best for j in range(len(row)) if j not in right)
    equal = sum(row[j] == best for j in range(len(row)) if j not in right)
    return 1 + better + {"mean": 0.5, "pessimistic": 1, "optimistic": 0}[ties] * equal


@given(arrays(np.float64, (5, 7), elements=st.floats(-9, 9), unique=True), st.data())
@settings(max_examples=60, deadline=None)
def test_without_ties_every_policy_is_the_place_in_the_sorted_row(scores, data):
    relevant = [data.draw(st.sets(st.integers(0, 6), min_size=1)) for _ in range(5)]
    ranking = rank(scores, [sorted(right) for right in relevant])
    order = np.argsort(-scores, axis=1)
    oracle = [
        1 + min(int(np.flatnonzero(order[i] == j)[0]) for j in right) for i, right in enumerate(relevant)
    ]
    # a relevant picture never stands in the way of another
    places = [1 + better for better in ranking.better]
    between = [sum(j in right for j in order[i][: oracle[i] - 1]) for i, right in enumerate(relevant)]
    assert between == [0] * 5
    assert places == oracle
    for ties in POLICIES:
        assert ranking.ranks(ties).tolist() == oracle


@given(arrays(np.int8, (4, 6), elements=st.integers(0, 2)), st.data())
@settings(max_examples=60, deadline=None)
def test_with_ties_every_policy_is_the_loop(scores, data):
    scores = scores.astype(np.float32)
    relevant = [sorted(data.draw(st.sets(st.integers(0, 5), min_size=1))) for _ in range(4)]
    for ties in POLICIES:
        oracle = [loop_rank(row, right, ties) for row, right in zip(scores, relevant, strict=True)]
        assert rank(scores, relevant).ranks(ties).tolist() == oracle


def test_hand_values():
    scores = np.array([[0.9, 0.5, 0.5, 0.5], [0.1, 0.2, 0.3, 0.4], [0.0, 0.7, 0.7, 0.1]])
    ranking = rank(scores, [[1], [3], [1, 2]])
    assert ranking.ranks("mean").tolist() == [3.0, 1.0, 1.0]
    assert ranking.ranks("pessimistic").tolist() == [4.0, 1.0, 1.0]
    assert ranking.ranks("optimistic").tolist() == [2.0, 1.0, 1.0]
    assert ranking.tied.tolist() == [1, 1, 2]
    assert ranking.tie_share == pytest.approx(1 / 3)
    assert Metric("R", 1)(ranking) == pytest.approx(2 / 3)
    assert Metric("MedR")(ranking) == 1.0
    assert Metric("MRR")(ranking) == pytest.approx((1 / 3 + 1 + 1) / 3)
    assert Metric("ER", 2)(ranking) == pytest.approx((1 / 3 + 1 + 1) / 3)


def test_median_rank_is_the_mean_of_the_two_middle_values():
    scores = np.array([[3.0, 2, 1, 0]] * 4)
    assert Metric("MedR")(rank(scores, diagonal(4))) == 2.5


@pytest.mark.parametrize("k", [1, 2, 3, 4, 5, 9])
def test_expected_recall_is_the_share_of_tie_orders(k):
    row = np.array([[2.0, 1, 1, 1, 1, 0]])
    right = {1, 4}
    hits = 0
    orders = list(permutations(range(6)))
    for order in orders:
        place = sorted(range(6), key=lambda j: (-row[0][j], order[j]))
        hits += bool(right & set(place[:k]))
    assert rank(row, [sorted(right)]).expected_hits(k)[0] == pytest.approx(hits / len(orders))


def test_row_and_column_order_never_matter():
    rng = np.random.default_rng(3)
    scores = rng.integers(0, 3, (20, 30)).astype(np.float32)
    mask = rng.random((20, 30)) < 0.1
    mask[np.arange(20), rng.integers(0, 30, 20)] = True
    rows, columns = rng.permutation(20), rng.permutation(30)
    before = rank(scores, [np.flatnonzero(row) for row in mask]).ranks()
    after = rank(scores[rows][:, columns], [np.flatnonzero(row) for row in mask[rows][:, columns]]).ranks()
    assert after.tolist() == before[rows].tolist()


def test_two_copies_of_one_picture_are_both_relevant():
    scores = np.array([[0.8, 0.8, 0.3]])
    assert rank(scores, [[0, 1]]).ranks("pessimistic").tolist() == [1.0]
    assert rank(scores, [[0]]).ranks("pessimistic").tolist() == [2.0]


def test_many_texts_per_picture():
    scores = np.array([[0.9, 0.1], [0.2, 0.1], [0.5, 0.6]])
    assert rank(scores, [[0], [0], [0]]).ranks().tolist() == [1.0, 1.0, 2.0]


@pytest.mark.parametrize("block", [1, 2, 3, 7, 50])
def test_blocks_equal_naive(block):
    rng = np.random.default_rng(5)
    scores = rng.integers(0, 5, (11, 13)).astype(np.float32)
    relevant = [[int(j)] for j in rng.integers(0, 13, 11)]
    asked = []

    def rows(start, stop):
        asked.append(stop - start)
        return scores[start:stop]

    blocked = rank_blocks(rows, scores.shape, relevant, block=block)
    for name in ("better", "equal", "tied"):
        assert getattr(blocked, name).tolist() == getattr(rank(scores, relevant), name).tolist()
    assert max(asked) <= block
    assert sum(asked) == 11


def test_a_query_with_nothing_to_find_is_refused():
    with pytest.raises(DataError, match=r"query 0 has no relevant picture \(1 of 2 queries\)"):
        rank(np.eye(2), [[], [1]])
    with pytest.raises(
        DataError,
        match=r"^rank: query 12 has no relevant picture \(1 of 3 queries\); leave such queries out$",
    ):
        rank(np.eye(3), [[0], [1], []], first=10)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_score_that_is_no_number_names_its_row(bad):
    scores = np.zeros((5, 4))
    scores[3, 2] = bad
    with pytest.raises(
        NumericsError,
        match=r"^rank: .*query 3 and picture 2 .*, expected a finite number; check the encoder's input for",
    ):
        rank_blocks(lambda start, stop: scores[start:stop], (5, 4), [*diagonal(4), [0]], block=2)


@pytest.mark.parametrize(
    ("scores", "relevant", "error", "words"),
    [
        (np.zeros(3), [[0]], ShapeError, r"scores has shape \(3,\), expected \(N, M\)"),
        (np.zeros((2, 2)), [[0]], ShapeError, "relevance for 1 query, scores for 2"),
        (np.zeros((2, 2)), [[0], [2]], DataError, r"query 1 names a picture outside 0…1: \[2\]"),
        (np.zeros((2, 2)), [[0, -1], [0]], DataError, r"query 0 names a picture outside 0…1: \[0, -1\]"),
    ],
)
def test_what_does_not_fit_is_refused(scores, relevant, error, words):
    with pytest.raises(error, match=f"^rank: {words}$"):
        rank(scores, relevant)


def test_the_words_of_refusals_say_what_was_found_and_expected():
    for name, words in (
        ("R@x", "'R@x' has cut-off 'x', expected an integer such as R@10"),
        ("MedR@3", "MedR takes no cut-off, found 3; write MedR"),
    ):
        with pytest.raises(ConfigError, match=f"^metric: {words}$"):
            Metric.parse(name)
    with pytest.raises(ConfigError, match=r"^metric R@k: cut-off 0, expected an integer of at least 1$"):
        Metric("R")
    with pytest.raises(DataError, match=r"^metric MRR: no queries; expected at least one$"):
        Metric("MRR")(rank(np.zeros((0, 3)), []))
    with pytest.raises(ShapeError, match=r"^rank: rows 0:2 have shape \(1, 2\), expected \(2, 2\)$"):
        rank_blocks(lambda start, stop: np.zeros((1, 2)), (2, 2), diagonal(2))


def test_infinite_scores_of_both_signs_are_refused_without_a_warning():
    with pytest.raises(NumericsError, match=r"^rank: score of query 0 and picture 0 is inf, expected"):
        rank(np.array([[np.inf, -np.inf]]), [[0]])


def test_wrong_policies_and_blocks_are_refused():
    with pytest.raises(ConfigError, match=r"^ranking: .*tie policy.*did you mean 'mean'"):
        rank(np.eye(2), diagonal(2)).ranks("meen")
    with pytest.raises(ConfigError, match=r"^expected recall: cut-off 0, expected"):
        rank(np.eye(2), diagonal(2)).expected_hits(0)
    with pytest.raises(ConfigError, match=r"^metric: .*'Q'"):
        Metric("Q", 1)
    with pytest.raises(ShapeError, match="rows 0:2"):
        rank_blocks(lambda start, stop: np.zeros((1, 2)), (2, 2), diagonal(2))
    with pytest.raises(DataError, match="no queries"):
        Metric("R", 1)(rank(np.zeros((0, 3)), []))


@pytest.mark.parametrize(("name", "value"), [("MedR", 1.0), ("MRR", (1 + 1 + 1 / 3) / 3), ("R@2", 2 / 3)])
def test_an_interval_is_of_the_metric_itself(name, value):
    scores = np.array([[3.0, 2, 1], [3, 2, 1], [3, 2, 1]])
    found = Metric.parse(name).interval(rank(scores, [[0], [0], [2]]), ["a", "b", "c"], 50)
    assert found.value == pytest.approx(value, abs=1e-12)
    assert (found.resamples, found.groups) == (50, 3)


@given(st.sampled_from(("R", "ER", "StR")), st.integers(1, 10**6))
def test_recall_names_round_trip(kind, k):
    metric = Metric.parse(f"{kind}@{k}")
    assert str(metric) == f"{kind}@{k}"
    assert Metric.parse(str(metric)) == metric
    assert len({metric, Metric(kind, k)}) == 1
    assert metric.higher_is_better


@pytest.mark.parametrize("name", ["MedR", "MRR"])
def test_other_names_round_trip(name):
    assert str(Metric.parse(name)) == name
    assert Metric.parse(name).higher_is_better == (name == "MRR")


@pytest.mark.parametrize(
    "name", ["R", "R@", "R@0", "R@-1", "R@1.5", "R@01", "MedR@3", "r@1", "", "@5", "R@1@2", "R@²"]
)
def test_names_that_are_none_are_refused(name):
    with pytest.raises(ConfigError):
        Metric.parse(name)


def test_story_recall_hits_on_any_picture_of_the_story():
    scores = np.array([[0.9, 0.5, 0.1], [0.2, 0.9, 0.5]])
    own = [[0, 1], [0, 2]]
    story = rank(scores, own)
    assert Metric.parse("StR@1")(story) == 0.5
    assert Metric.parse("StR@2")(story) == 1.0


class TestCanaries:
    """A scorer that knows nothing must look like one."""

    def test_a_constant_scorer_is_at_or_below_chance(self):
        n = 200
        ranking = rank(np.full((n, n), 0.25), diagonal(n))
        for k in (1, 5, 10):
            for ties in ("mean", "pessimistic"):
                assert Metric("R", k)(ranking, ties) <= k / n
            assert Metric("ER", k)(ranking) == pytest.approx(k / n)
        assert Metric("MedR")(ranking) == (n + 1) / 2
        assert Metric("MedR")(ranking, "pessimistic") == n
        assert ranking.tie_share == 1.0

    def test_a_collapsed_encoder_is_at_or_below_chance(self):
        one = np.ones((64, 8), dtype=np.float32) / np.sqrt(8, dtype=np.float32)
        assert Metric("R", 10)(rank(one @ one.T, diagonal(64))) <= 10 / 64

    @pytest.mark.parametrize("k", [1, 5, 10, 50])
    def test_a_random_scorer_is_within_three_standard_errors_of_chance(self, k):
        queries, n = 4000, 150
        rng = np.random.default_rng(17)
        relevant = [[int(j)] for j in rng.integers(0, n, queries)]
        found = Metric("R", k)(rank(rng.random((queries, n)), relevant))
        chance = k / n
        assert abs(found - chance) < 3 * np.sqrt(chance * (1 - chance) / queries)


def test_slices_of_any_size_count_alike(monkeypatch):
    rng = np.random.default_rng(3)
    scores = rng.integers(0, 50, (60, 40)).astype(np.float32)
    relevant = [rng.choice(40, size=rng.integers(1, 4), replace=False).tolist() for _ in range(60)]
    alone = rank(scores, relevant)
    monkeypatch.setattr(ranking, "_CACHED_CELLS", 7 * 40)
    sliced = rank(scores, relevant)
    for name in ("better", "equal", "tied"):
        assert np.array_equal(getattr(alone, name), getattr(sliced, name))
    scores[41, 3] = np.nan
    with pytest.raises(NumericsError, match="query 41 and picture 3"):
        rank(scores, relevant)


def test_a_column_named_twice_is_one_picture():
    once, twice = rank(np.array([[0.5, 0.5, 0.1]]), [[0]]), rank(np.array([[0.5, 0.5, 0.1]]), [[0, 0]])
    assert (twice.better[0], twice.equal[0], twice.tied[0]) == (once.better[0], once.equal[0], once.tied[0])


def test_scores_whose_sum_overflows_are_still_finite_scores():
    scores = np.full((1, 4), 3e38, np.float32)
    scores[0, 1] = 0
    assert rank(scores, [[1]]).better[0] == 3
