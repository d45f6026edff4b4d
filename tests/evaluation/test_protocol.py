"""Pools: no repeats, and the same for everybody."""

import numpy as np
import pytest

from limner.errors import ConfigError, DataError
from limner.evaluation.pools import different, draw


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
