"""The order of an epoch: weights kept, and the same from the same seed; and what a limit keeps."""

from collections import Counter

import numpy as np
import pytest

from limner.config import build
from limner.errors import ConfigError
from limner.research.datasets.pairs import Pair
from limner.research.systems.dual import DualConfig
from limner.research.systems.limner import LimnerConfig
from limner.research.training.corpus import epoch_order, limited


def test_weights_say_how_often_a_row_comes():
    weights = np.array([1.0] * 10 + [2.3] * 10 + [0.5] * 10)
    counts = np.zeros(30)
    for epoch in range(200):
        order = epoch_order(weights, 0, epoch)
        own = np.bincount(order, minlength=30)
        assert len(order) == 38
        assert (own >= np.floor(weights)).all()
        assert (own <= np.ceil(weights)).all()
        counts += own
    np.testing.assert_allclose(counts / 200, weights, atol=0.2)


def test_the_same_seed_gives_the_same_order_and_another_epoch_another():
    weights = np.full(50, 1.5)
    np.testing.assert_array_equal(epoch_order(weights, 3, 1), epoch_order(weights, 3, 1))
    assert not np.array_equal(epoch_order(weights, 3, 1), epoch_order(weights, 3, 2))
    assert not np.array_equal(epoch_order(weights, 3, 1), epoch_order(weights, 4, 1))


def test_with_equal_weights_it_is_a_permutation():
    assert sorted(epoch_order(np.ones(20), 0, 0)) == list(range(20))


@pytest.mark.parametrize("weights", [[0.0, 0.0], [1.0, -1.0], [np.nan]])
def test_weights_that_say_nothing_are_refused(weights):
    with pytest.raises(ConfigError, match="weights"):
        epoch_order(np.array(weights), 0, 0)


def test_a_system_that_cannot_heed_weights_refuses_them():
    data = {"set": "mixture", "mixture": {"one": {"set": "stories", "weight": 2.0}}}
    assert build(LimnerConfig, {"data": data}, "test").data.mixture["one"].weight == 2
    with pytest.raises(ConfigError, match=r"every row once per epoch; remove data.mixture.one.weight"):
        build(DualConfig, {"data": data}, "test")


def test_a_limit_keeps_whole_stories_of_every_split():
    pairs = [
        Pair(id=f"{story}{page}", text="t", image="i", split=split, seq=story)
        for story, split, pages in (("a", "train", 3), ("b", "val", 5), ("c", "train", 2), ("d", "train", 1))
        for page in range(pages)
    ]
    assert Counter(pair.seq for pair in limited(pairs, 4)) == {"a": 3, "b": 5, "d": 1}
    assert limited(pairs, 100) == tuple(pairs)
    alone = [pair.model_copy(update={"seq": ""}) for pair in pairs]
    assert Counter(pair.split for pair in limited(alone, 4)) == {"train": 4, "val": 4}
