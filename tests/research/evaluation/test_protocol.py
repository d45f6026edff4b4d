"""Pools: no repeats, and the same for everybody; and those of the release, which repeat pictures."""

import numpy as np
import pytest
from made_up_scores import tabled

from limner.errors import ConfigError, DataError
from limner.research.datasets.pairs import Pair
from limner.research.evaluation.ranking import different
from limner.research.evaluation.results import About
from limner.research.evaluation.retrieval import draw, draw_legacy, measure


def test_pools_hold_different_pictures_and_are_the_same_for_everybody():
    columns, _ = different([f"p{i}" for i in range(860)])
    pools, again = draw(columns), draw(columns.copy())
    assert columns.tolist() == list(range(860))
    assert [pool.seed for pool in pools] == list(range(10))
    for pool, twin in zip(pools, again, strict=True):
        assert len(set(pool.pictures.tolist())) == 500
        assert pool.pictures.tolist() == twin.pictures.tolist()
    assert len({tuple(pool.pictures.tolist()) for pool in pools}) == 10


def test_a_pool_is_a_set_of_pictures_and_takes_all_their_texts():
    columns, first = different(["a", "b", "a", "c", "b", "a"])
    assert columns.tolist() == [0, 1, 0, 2, 1, 0]
    assert first.tolist() == [0, 1, 3]
    for pool in draw(columns, size=2, count=5):
        expected = [row for row, column in enumerate(columns) if column in pool.pictures]
        assert pool.queries.tolist() == expected
        assert set(columns[pool.queries].tolist()) == set(pool.pictures.tolist())


def test_what_cannot_be_drawn_is_refused():
    with pytest.raises(DataError, match="3 different pictures, expected at least 500"):
        draw(np.array([0, 1, 2, 0]))
    with pytest.raises(DataError, match="no queries"):
        different([])
    with pytest.raises(ConfigError, match="expected at least 1"):
        draw(np.array([0]), size=0)


def test_legacy_draws_hold_about_379_different_pictures_of_860():
    first, *drawn = draw_legacy(np.arange(860), count=200)
    assert first.pictures.tolist() == first.queries.tolist() == list(range(500))
    assert first.seed is None
    sizes = [len(np.unique(pool.pictures)) for pool in drawn]
    expected = 860 * (1 - (1 - 1 / 860) ** 500)
    assert expected == pytest.approx(379.4, abs=0.2)
    assert abs(np.mean(sizes) - expected) < 3 * np.std(sizes) / np.sqrt(200)
    assert all(len(pool.pictures) == len(pool.queries) == 500 for pool in drawn)
    assert [pool.seed for pool in drawn] == list(range(200))


def test_a_legacy_pool_holds_the_picture_of_each_of_its_rows_as_often_as_they_name_it():
    columns, _ = different(["b", "a", "b", "c"])
    first, drawn = draw_legacy(columns, size=3, count=1)
    assert first.pictures.tolist() == [0, 0, 1]
    assert first.queries.tolist() == [0, 2, 1]
    rows = np.random.default_rng(0).integers(4, size=3)
    assert sorted(drawn.queries.tolist()) == sorted(rows.tolist())
    assert drawn.pictures.tolist() == columns[drawn.queries].tolist() == sorted(drawn.pictures.tolist())
    assert len(draw_legacy(columns, size=9, count=1)[0].queries) == 4  # no more rows than there are
    with pytest.raises(ConfigError, match="expected at least 1"):
        draw_legacy(columns, size=0)


def test_copies_of_the_right_picture_tie_with_it():
    """By hand: three rows, the first two of one picture; scores put every row's own picture first."""
    pairs = [Pair(id=str(n), text=f"t{n}", image=i, group=str(n)) for n, i in enumerate("aab")]
    scores = np.array([[0.9, 0.1], [0.8, 0.2], [0.3, 0.7]])
    about = About(system="s", data="d", split="grouped", protocol="legacy")
    result = measure(about, pairs, (), score=tabled(scores), pool_size=3, pool_count=2)
    assert result.full is None
    assert result.first.queries == (0, 1, 2)
    assert result.first.plain == (1.5, 1.5, 1.0)
    for pool in result.drawn:
        names = np.array([0, 0, 1])[list(pool.queries)]
        copies = [int((names == name).sum()) for name in names]
        assert pool.plain == tuple(1 + (n - 1) / 2 for n in copies)
    assert about.name == "d-grouped-test-legacy"
