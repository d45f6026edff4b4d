"""How much a candidate is like what the other steps are expected to show, against a plain double loop."""

import tracemalloc

import numpy as np
import pytest
from boards import space
from hypothesis import given, settings
from hypothesis import strategies as st

from limner.match.candidates import SHY, ExpectedSimilarity, Pool
from limner.store.vectors import Gallery


def plain(pool, shares):
    """a_tj by its definition, pair by pair, in float64."""
    held = pool.gallery.space("looks")
    everything = held.matrix[held.present].astype(np.float64)
    found = np.zeros(pool.items.shape)

    def standard(i, j):
        one, other = (held.matrix[pool.rows[n]].astype(np.float64) for n in (i, j))
        z = []
        for own in (one, other):
            cosines = everything @ own
            z.append((one @ other - cosines.mean()) / cosines.std())
        return (z[0] + z[1]) / 2

    for step, own in enumerate(pool.items):
        for place, j in enumerate(own):
            if not pool.there[step, place] or not held.present[pool.rows[j]]:
                continue
            total = whole = 0.0
            for other, items in enumerate(pool.items):
                for column, i in enumerate(items):
                    if other == step or not held.present[pool.rows[i]]:
                        continue
                    whole += shares[other, column]
                    if pool.groups[i] != pool.groups[j]:
                        total += shares[other, column] * standard(i, j)
            found[step, place] = total / (whole + SHY)
    return found


def drawn_pool(seed, steps, candidates, width, *, missing=0.0, groups=30):
    """Some pictures of a gallery of 12, in lists of different lengths."""
    rng = np.random.default_rng(seed)
    vectors = rng.normal(size=(12, 5)) + 0.5
    gallery = Gallery(
        [str(n) for n in range(12)],
        list("abcdefghijkl"),
        {"looks": space(vectors, rng.random(12) >= missing)},
    )
    rows = np.sort(rng.choice(12, candidates, replace=False))
    lists = [np.sort(rng.choice(candidates, rng.integers(width + 1), replace=False)) for _ in range(steps)]
    items, there = np.zeros((steps, width), np.int64), np.zeros((steps, width), bool)
    for step, own in enumerate(lists):
        items[step, : len(own)], there[step, : len(own)] = own, True
    names = rng.integers(groups, size=candidates)
    numbered = np.unique(names, return_inverse=True)[1].reshape(-1)
    shares = np.where(there, rng.random((steps, width)) / max(width, 1), 0.0)
    return Pool(gallery, rows, numbered, items, there, {}, 12, there), shares


@pytest.mark.slow
@settings(max_examples=60)
@given(
    seed=st.integers(0, 2**32 - 1),
    steps=st.integers(1, 4),
    width=st.integers(0, 5),
    missing=st.sampled_from([0.0, 0.4]),
    groups=st.sampled_from([2, 30]),
)
def test_it_equals_the_definition(seed, steps, width, missing, groups):
    pool, shares = drawn_pool(seed, steps, width + 3, width, missing=missing, groups=groups)
    if np.count_nonzero(pool.gallery.space("looks").present) < 2:
        return
    np.testing.assert_allclose(ExpectedSimilarity(pool, "looks").of(shares), plain(pool, shares), atol=2e-4)


def test_a_space_that_nobody_has_says_nothing():
    pool, shares = drawn_pool(0, 3, 6, 4, missing=1.0)
    assert not ExpectedSimilarity(pool, "looks").of(shares).any()


def test_pictures_of_one_group_say_nothing_of_each_other():
    pool, shares = drawn_pool(1, 3, 6, 6, groups=1)
    assert ExpectedSimilarity(pool, "looks").of(shares) == pytest.approx(0.0, abs=1e-5)


@pytest.mark.slow
def test_a_long_burst_of_one_scene_fits_into_memory():
    """The vectors of all its pairs would be 12 GB."""
    count = 2_000
    vectors = np.random.default_rng(0).normal(size=(count, 384))
    gallery = Gallery([str(n) for n in range(count)], ["burst"] * count, {"looks": space(vectors)})
    items = np.arange(6).reshape(2, 3)
    there = np.ones((2, 3), bool)
    groups = np.zeros(count, np.int64)
    pool = Pool(gallery, np.arange(count), groups, items, there, {}, count, there)
    tracemalloc.start()
    try:
        assert ExpectedSimilarity(pool, "looks").of(there / 3) == pytest.approx(0.0, abs=1e-4)
        assert tracemalloc.get_traced_memory()[1] < 2**30
    finally:
        tracemalloc.stop()
