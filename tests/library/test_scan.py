"""The pass over blocks in threads, and the pool of best values."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from limner.errors import ShapeError
from limner.library import coarse
from limner.library.coarse import exact_scores, over_blocks, rounded_texts, widened
from limner.library.scan import Moments, Pool


@pytest.mark.parametrize(("rows", "block"), [(0, 3), (1, 3), (10, 3), (9, 3), (1_000, 7)])
def test_every_row_comes_once_and_in_order(rows, block):
    met = list(over_blocks(rows, block, lambda start, stop: list(range(start, stop))))
    assert [start for start, _ in met] == list(range(0, rows, block))
    assert [row for _, some in met for row in some] == list(range(rows))


def test_failure_comes_through_and_threads_are_set_back():
    before = torch.get_num_threads()

    def fail(start, stop):
        if start >= 5:
            raise ValueError(f"block {start}")
        return stop

    with pytest.raises(ValueError, match="block 5"):
        list(over_blocks(100, 1, fail))
    assert torch.get_num_threads() == before


@given(
    seed=st.integers(0, 10**6),
    kept=st.integers(1, 30),
    blocks=st.integers(1, 8),
    slack=st.sampled_from([0.01, 0.2, 9.0]),
    digits=st.integers(0, 6),
)
@settings(deadline=None, max_examples=60)
def test_pool_keeps_the_best_and_what_is_near_them(seed, kept, blocks, slack, digits):
    values = np.random.default_rng(seed).normal(size=(blocks, 25)).round(digits).astype(np.float32)
    pool = Pool(kept, slack)
    for number, some in enumerate(values):
        pool.add(some, 25 * number)
    pool.cut()
    flat = values.ravel()
    order = np.argsort(-flat, kind="stable")
    last = flat[order[min(kept, len(flat)) - 1]]
    due = np.flatnonzero(flat > float(last) - slack) if kept < len(flat) else np.sort(order)
    assert np.array_equal(pool.rows, due)
    assert np.array_equal(pool.values, flat[due])


def test_a_pool_of_nothing_stays_empty():
    pool = Pool(0, 0.1)
    pool.add(np.full(3, -np.inf, dtype=np.float32), 0)
    pool.cut()
    assert len(pool.rows) == 0
    assert (pool.values.dtype, pool.rows.dtype) == (np.float32, np.int64)


def test_the_bound_covers_roundings_that_all_err_one_way():
    """The text, the row and their product are each rounded down by all that bfloat16 can."""
    text, row = np.zeros((1, 65), np.float32), np.zeros((1, 65), np.float32)
    text[0, :60] = row[0, :60] = (1 + 2**-8) / 8
    text[0, 60], row[0, 60] = 1 / 16, 0.0019 * 16
    exact = float(row[0].astype(np.float64) @ text[0])
    half, bound = rounded_texts(text)
    found = float(widened(torch.from_numpy(row).bfloat16() @ half)[0, 0])
    assert 0.009 < exact - found <= bound[0] < 0.01


def test_every_text_has_a_bound_of_its_own():
    texts = np.random.default_rng(2).normal(size=(4, 6)).astype(np.float32)
    texts /= np.linalg.norm(texts, axis=1, keepdims=True)
    texts[3] /= 2
    _, bounds = rounded_texts(texts)
    for text, bound in zip(texts, bounds, strict=True):
        short = torch.from_numpy(text).bfloat16().float().numpy()
        due = 1.01 * (np.linalg.norm(text - short) + np.linalg.norm(text) / 512) + 1e-6 + 1.02 / 256
        assert bound == pytest.approx(due, abs=2e-8)


def test_texts_of_another_width_than_the_moments_are_refused():
    with pytest.raises(ShapeError, match=r"^moments.of_cosines: mean has shape"):
        Moments(np.zeros(3), np.eye(3)).of_cosines(np.zeros((2, 4), np.float32))


@pytest.mark.parametrize(("gathered", "step"), [(7, 3), (7, 7), (100, 4)])
def test_exact_scores_are_those_of_one_product_whatever_the_blocks(monkeypatch, gathered, step):
    rng = np.random.default_rng(1)
    texts, matrix = rng.normal(size=(3, 5)).astype(np.float32), rng.normal(size=(40, 5)).astype(np.float16)
    rows = rng.integers(0, 40, 31)
    monkeypatch.setattr(coarse, "GATHERED_ROWS", gathered)
    monkeypatch.setattr(coarse, "SMALLEST_GATHER", 2)
    monkeypatch.setattr(coarse, "ALONE_PRODUCTS", step * texts.size)
    due = texts.astype(np.float64) @ matrix[rows].astype(np.float64).T
    found = exact_scores(texts, matrix, rows)
    assert found.dtype == np.float32
    assert found == pytest.approx(due, abs=1e-5)
