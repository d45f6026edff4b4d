"""Pools: no repeats, the same for everybody, and what drawing with replacement really holds."""

import numpy as np
import pytest

from limner.errors import ConfigError, DataError
from limner.evaluation.pools import draw


def test_pools_hold_different_pictures_and_are_the_same_for_everybody():
    pictures = [f"p{i}" for i in range(860)]
    columns, pools = draw(pictures)
    again = draw(list(pictures))[1]
    assert columns.tolist() == list(range(860))
    assert [pool.seed for pool in pools] == list(range(10))
    for pool, twin in zip(pools, again, strict=True):
        assert len(set(pool.pictures.tolist())) == 500
        assert pool.pictures.tolist() == twin.pictures.tolist()
    assert len({tuple(pool.pictures.tolist()) for pool in pools}) == 10


def test_a_pool_is_a_set_of_pictures_and_takes_all_their_texts():
    picture_of = ["a", "b", "a", "c", "b", "a"]
    columns, pools = draw(picture_of, size=2, count=5)
    assert columns.tolist() == [0, 1, 0, 2, 1, 0]
    for pool in pools:
        expected = [row for row, column in enumerate(columns) if column in pool.pictures]
        assert pool.queries.tolist() == expected
        assert set(columns[pool.queries].tolist()) == set(pool.pictures.tolist())


def test_legacy_draws_hold_about_379_different_pictures_of_860():
    _, pools = draw(list(range(860)), "legacy", count=200)
    sizes = [len(pool.pictures) for pool in pools]
    expected = 860 * (1 - (1 - 1 / 860) ** 500)
    assert expected == pytest.approx(379.4, abs=0.2)
    assert abs(np.mean(sizes) - expected) < 3 * np.std(sizes) / np.sqrt(200)
    assert all(len(pool.queries) == len(pool.pictures) for pool in pools)


def test_full_is_one_pool_of_everything():
    columns, pools = draw(["x", "y", "x"], "full")
    assert columns.tolist() == [0, 1, 0]
    assert [pool.pictures.tolist() for pool in pools] == [[0, 1]]
    assert pools[0].queries.tolist() == [0, 1, 2]
    assert pools[0].seed is None


def test_what_cannot_be_drawn_is_refused():
    with pytest.raises(DataError, match="3 different pictures, expected at least 500"):
        draw(["a", "b", "c", "a"])
    with pytest.raises(DataError, match="no queries"):
        draw([])
    with pytest.raises(ConfigError, match="did you mean 'legacy'"):
        draw(["a"], "legasy")
    with pytest.raises(ConfigError, match="expected at least 1"):
        draw(["a"], size=0)
