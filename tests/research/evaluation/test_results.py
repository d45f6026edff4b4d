"""Result files: ranks in shared pools, refinement on the same pools, and a round trip."""

import numpy as np
import pytest
from made_up_scores import tabled

from limner.checksums import unseal
from limner.errors import DataError, MissingError, ShapeError
from limner.research.datasets.pairs import Pair
from limner.research.evaluation.results import About, Result
from limner.research.evaluation.retrieval import measure

ABOUT = About(system="CMCM", data="made-up", split="grouped", seed=1, refinement={"threshold": float("inf")})


def pairs_of(pictures):
    """One text per entry; equal entries are one picture."""
    return [
        Pair(id=str(n), text=f"t{n}", image=name, group=f"g{name}", labels={"a": n % 2, "b": 1})
        for n, name in enumerate(pictures)
    ]


def slow_rank(row, column, among):
    """1 + better + half of the ties, counted one by one."""
    better = sum(row[other] > row[column] for other in among)
    return 1 + better + sum(row[other] == row[column] for other in among if other != column) / 2


@pytest.fixture
def scene():
    rng = np.random.default_rng(4)
    names = [f"p{n}" for n in (0, 1, 2, 0, 3, 4, 5, 5, 6, 7)]
    return pairs_of(names), [int(name[1:]) for name in names], rng.integers(0, 5, (10, 8)) / 5


def test_ranks_equal_counting_in_every_pool_and_copies_share_a_column(scene):
    pairs, column, scores = scene
    found = measure(ABOUT, pairs, ("a",), score=tabled(scores), pool_size=4, pool_count=3)
    assert [(pool.seed, pool.pictures) for pool in found.pools] == [(0, 4), (1, 4), (2, 4), (None, 8)]
    for pool in found.pools:
        among = sorted({column[query] for query in pool.queries})
        assert len(among) == pool.pictures
        due = [slow_rank(scores[query], column[query], among) for query in pool.queries]
        assert list(pool.plain) == due
        assert pool.refined == ()
    assert found.full.queries == tuple(range(10))
    assert found.groups[0] == found.groups[3]
    assert found.labels == {"a": (0, 1) * 5}


def test_refinement_sees_the_pool_and_is_ranked_on_the_same_one(scene):
    pairs, _, scores = scene
    seen = []

    def reversed_order(table, rows, columns):
        assert np.array_equal(table, scores[np.ix_(rows, columns)])
        seen.append(table.shape)
        return -table

    found = measure(ABOUT, pairs, (), score=tabled(scores), refine=reversed_order, pool_size=4, pool_count=2)
    assert found.refined_top == measure(ABOUT, pairs, (), score=tabled(-scores), pool_size=4).top
    assert found.refined_top != found.top
    assert Result.model_validate_json(found.model_dump_json()) == found
    opposite = measure(ABOUT, pairs, (), score=tabled(-scores), pool_size=4, pool_count=2)
    assert seen == [(len(pool.queries), pool.pictures) for pool in found.pools]
    assert [pool.refined for pool in found.pools] == [pool.plain for pool in opposite.pools]
    assert [pool.queries for pool in found.pools] == [pool.queries for pool in opposite.pools]


def test_pools_are_the_same_for_every_system(scene):
    pairs, _, scores = scene
    one = measure(ABOUT, pairs, (), score=tabled(scores), pool_size=5)
    two = measure(ABOUT, pairs, (), score=tabled(scores[:, ::-1]), pool_size=5)
    assert len(one.drawn) == 10
    assert [p.queries for p in one.pools] == [p.queries for p in two.pools]


def test_a_repeated_pair_is_one_query_but_keeps_its_rows(scene):
    pairs, _, scores = scene
    again = pairs[2].model_copy(update={"id": "again", "labels": {"a": 1, "b": 0}})
    found = measure(
        ABOUT,
        [*pairs, again],
        ("a",),
        score=tabled(np.vstack([scores, scores[2]])),
        probabilities={"a": np.linspace(0, 1, 11)},
    )
    assert found.full == measure(ABOUT, pairs, (), score=tabled(scores)).full
    assert (found.pairs[10], len(found.probabilities["a"]), found.labels["a"][10]) == (found.pairs[2], 11, 1)


def test_the_best_pictures_and_the_gap_between_them_are_kept(scene):
    pairs, column, scores = scene
    found = measure(ABOUT, pairs, (), score=tabled(scores))
    for row, names in enumerate(found.top):
        shown = [column[int(name)] for name in names]
        assert len(set(shown)) == 5
        assert [scores[row, c] for c in shown] == sorted(scores[row], reverse=True)[:5]
        assert all(int(name) == column.index(c) for name, c in zip(names, shown, strict=True))
    due = [sorted(row)[-1] - sorted(row)[-2] for row in scores]
    assert list(found.full.gaps) == pytest.approx(due)


def test_a_small_set_has_the_full_pool_alone(scene):
    pairs, _, scores = scene
    assert [pool.seed for pool in measure(ABOUT, pairs, (), score=tabled(scores)).pools] == [None]


def test_a_result_round_trips(scene, tmp_path):
    pairs, _, scores = scene
    probabilities = {"a": np.linspace(0, 1, 10), "b": np.full(10, 1 / 3)}
    found = measure(ABOUT, pairs, ("a", "b"), score=tabled(scores), probabilities=probabilities, pool_size=4)
    path = found.write(tmp_path / "run")
    assert path == tmp_path / "run" / "results" / "made-up-grouped-test.json"
    assert Result.read(path) == found
    assert Result.read(path).about.refinement["threshold"] == float("inf")
    assert Result.read_all(tmp_path) == [found]
    found.write(tmp_path / "copy")
    with pytest.raises(DataError, match="same system"):
        Result.read_all(tmp_path)
    assert Result.read_all(tmp_path, variants=True) == [found, found]


@pytest.mark.parametrize("change", [('"plain":[', '"plain":[7,'), ('"format"', '"former"'), ("{", "")])
def test_a_damaged_file_is_refused(scene, tmp_path, change):
    pairs, _, scores = scene
    path = measure(ABOUT, pairs, (), score=tabled(scores)).write(tmp_path)
    written = unseal(path.read_bytes(), path, "").decode()
    path.write_text(written.replace(*change, 1))  # as an earlier version wrote it, without a checksum
    with pytest.raises(DataError, match="expected a result file"):
        Result.read(path)


def test_a_flipped_bit_is_found_or_changes_nothing(scene, tmp_path):
    pairs, _, scores = scene
    due = measure(ABOUT, pairs, (), score=tabled(scores))
    path, found = due.write(tmp_path), 0
    whole = path.read_bytes()
    for place in range(0, len(whole), 7):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1 << place % 8]) + whole[place + 1 :])
        try:
            assert Result.read(path) == due
        except DataError:
            found += 1
    assert found > len(whole) / 7 - 8
    path.write_text(due.model_dump_json())
    assert Result.read(path) == due  # of an earlier version


def test_what_does_not_fit_is_refused(scene, tmp_path):
    pairs, _, scores = scene
    with pytest.raises(ShapeError, match=r"expected \(10, 8\)"):
        measure(ABOUT, pairs, (), score=tabled(scores[:, :7]))
    with pytest.raises(DataError, match="lacks a label"):
        measure(ABOUT, pairs, ("c",), score=tabled(scores))
    with pytest.raises(DataError, match="has no group"):
        measure(ABOUT, [pairs[0].model_copy(update={"group": ""})], (), score=tabled(scores[:1, :1]))
    with pytest.raises(MissingError, match="not a folder"):
        Result.read_all(tmp_path / "nowhere")
    with pytest.raises(MissingError, match="evaluate the run first"):
        Result.read(tmp_path / "x.json")
