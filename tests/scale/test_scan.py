"""The pass over blocks in threads, and the pool of best values."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from limner.errors import NumericsError, ShapeError
from limner.scale import search
from limner.scale.search import RoughTop, exact_scores
from limner.scale.vectors import TableMoments, float_rows, moments, over_blocks, single, sums


@pytest.mark.parametrize(("rows", "block"), [(0, 3), (1, 3), (10, 3), (9, 3), (1_000, 7)])
def test_every_row_comes_once_and_in_order(rows, block):
    met = list(over_blocks(rows, block, lambda start, stop: list(range(start, stop))))
    assert [start for start, _ in met] == list(range(0, rows, block))
    assert [row for _, some in met for row in some] == list(range(rows))


def test_failure_comes_through():
    def fail(start, stop):
        if start >= 5:
            raise ValueError(f"block {start}")
        return stop

    with pytest.raises(ValueError, match="block 5"):
        list(over_blocks(100, 1, fail))


@given(
    seed=st.integers(0, 10**6),
    kept=st.integers(1, 30),
    blocks=st.integers(1, 8),
    slack=st.sampled_from([0.01, 0.2, 9.0]),
    digits=st.integers(0, 6),
)
@settings(deadline=None, max_examples=60)
def test_pools_keep_the_best_and_what_may_be_among_them(seed, kept, blocks, slack, *, digits):
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(3, 25 * blocks)).round(digits).astype(np.float32)
    slacks = slack * np.array([1.0, 2.0, 3.0])
    pools = RoughTop(kept, slacks)
    for start in range(0, 25 * blocks, 25):
        pools.add(pools.near(values[:, start : start + 25], start))
    found = pools.cut()
    for text, own in enumerate(values):
        last = np.sort(own)[::-1][kept - 1] if kept < len(own) else np.inf
        every = kept >= len(own)
        due = np.flatnonzero((own > last - slacks[text] + 1e-5) | every)
        met = found.rows[found.texts == text]
        assert np.isin(due, met).all()
        assert np.array_equal(met, np.sort(met))
        assert np.array_equal(found.values[found.texts == text], own[met])
        assert ((own[met] > last - slacks[text] - 1e-5) | every).all()


def test_pools_of_nothing_stay_empty():
    pools = RoughTop(0, np.array([0.1]))
    pools.add(pools.near(np.full((1, 3), -np.inf, np.float32), 0))
    found = pools.cut()
    assert len(found.rows) == 0
    assert (found.values.dtype, found.rows.dtype) == (np.float32, np.int64)
    assert RoughTop(1, np.array([0.1])).near(np.ones((1, 3), np.float32), 0).values.dtype == np.float32


def test_halves_become_singles_to_the_bit():
    """All 65,536 of them: small ones without an exponent, zeros of both signs, infinities."""
    every = np.arange(2**16, dtype=np.uint16).view(np.float16)
    for rows in (every, every[np.isfinite(every)]):
        found, due = single(rows), rows.astype(np.float32)
        assert np.array_equal(found, due, equal_nan=True)
        assert np.array_equal(np.signbit(found), np.signbit(due))
    assert single(np.ones((6, 4), np.float16)[::2, 1:]).tolist() == [[1.0] * 3] * 3
    assert single(np.zeros((0, 3), np.float16)).shape == (0, 3)


def test_texts_of_another_width_than_the_moments_are_refused():
    with pytest.raises(ShapeError, match=r"^moments.of_cosines: mean has shape"):
        TableMoments(np.zeros(3), np.eye(3)).of_cosines(np.zeros((2, 4), np.float32))


@pytest.mark.parametrize(("gathered", "step"), [(7, 3), (7, 7), (100, 4), (7, 1)])
def test_exact_scores_are_those_of_one_product_whatever_the_blocks(monkeypatch, gathered, step):
    rng = np.random.default_rng(1)
    texts, matrix = rng.normal(size=(3, 5)).astype(np.float32), rng.normal(size=(40, 5)).astype(np.float16)
    rows = rng.integers(0, 40, 31)
    monkeypatch.setattr(search, "GATHERED_ROWS", gathered)
    monkeypatch.setattr(search, "SMALLEST_GATHER", 2)
    monkeypatch.setattr(search, "ALONE_PRODUCTS", step * texts.size)
    due = texts.astype(np.float64) @ matrix[rows].astype(np.float64).T
    found = exact_scores(texts, matrix, rows)
    assert found.dtype == np.float32
    assert found == pytest.approx(due, abs=1e-5)


def test_rows_and_scores_that_are_not_finite_are_refused():
    rows = np.ones((5, 2), np.float16)
    assert float_rows(rows, 1, 4).dtype == np.float32
    rows[3, 1] = np.inf
    with pytest.raises(NumericsError, match=r"^space: a row from 1 to 3 is not finite; index its pictures"):
        float_rows(rows, 1, 4)
    assert len(float_rows(rows, 0, 3)) == 3
    with pytest.raises(NumericsError, match=r"^space: a cosine is not finite; check the vectors$"):
        exact_scores(np.ones((1, 2), np.float32), rows, np.arange(5))


@pytest.mark.parametrize("chosen", [None, [0, 3, 3, 9_999]])
def test_sums_are_exact_whatever_the_blocks(chosen, monkeypatch):
    """Where float32 would round: integers in units of 2⁻¹⁸ and 2⁻³⁶ are added up without loss."""
    rows = np.random.default_rng(0).normal(size=(10_000, 3)).astype(np.float16)
    whole = [[round(float(x) * 2**18) for x in row] for row in (rows if chosen is None else rows[chosen])]
    due = [[sum(column) for column in zip(*whole, strict=True)]]
    due += [[sum(row[a] * row[b] for row in whole) for b in range(3)] for a in range(3)]
    for block in (4_096, 7):
        monkeypatch.setattr("limner.scale.vectors.BLOCK_ROWS", block)
        found = sums(rows, None if chosen is None else np.array(chosen))
        assert found.dtype == np.int64
        assert found.tolist() == due
    assert not moments(np.zeros((4, 3), np.int64), 0).mean.any()
