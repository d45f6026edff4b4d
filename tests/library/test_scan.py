"""The pass over blocks in threads, and the pool of best values."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from limner.arrays import unit_rows
from limner.errors import ShapeError
from limner.library import coarse
from limner.library.coarse import MARGIN, ByteRows, exact_scores, over_blocks, round_into, rounded_texts
from limner.library.scan import Moments, Pools


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
    sources=st.integers(0, 2),
)
@settings(deadline=None, max_examples=60)
def test_pools_keep_the_best_and_what_may_be_among_them(seed, kept, blocks, slack, *, digits, sources):
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(3, 25 * blocks)).round(digits).astype(np.float32)
    errors = rng.random((sources, 25 * blocks)).astype(np.float32)
    factors = rng.random((3, sources)) * 0.3
    slacks = slack * np.array([1.0, 2.0, 3.0])
    pools = Pools(kept, slacks, factors)
    for start in range(0, 25 * blocks, 25):
        part = slice(start, start + 25)
        pools.add(pools.near(values[:, part], errors[:, part], start))
    found = pools.cut()
    for text, (own, off) in enumerate(zip(values, factors @ errors, strict=True)):
        sure = np.sort(own - off)[::-1][kept - 1] if kept < len(own) else np.inf
        every = kept >= len(own)
        due = np.flatnonzero((own + off > sure - slacks[text] + 1e-5) | every)
        met = found.rows[found.texts == text]
        assert np.isin(due, met).all()
        assert np.array_equal(met, np.sort(met))
        assert np.array_equal(found.values[found.texts == text], own[met])
        assert ((own[met] + off[met] > sure - slacks[text] - 1e-5) | every).all()


def test_pools_of_nothing_stay_empty():
    pools = Pools(0, np.array([0.1]), np.zeros((1, 1)))
    pools.add(pools.near(np.full((1, 3), -np.inf, np.float32), np.zeros((1, 3), np.float32), 0))
    found = pools.cut()
    assert len(found.rows) == 0
    assert (found.values.dtype, found.rows.dtype) == (np.float32, np.int64)


class Stored:
    """A space in memory, of which nothing is kept beside it."""

    def __init__(self, matrix):
        self.matrix = matrix.astype(np.float16)
        self.copy = np.empty((len(matrix), matrix.shape[1] + MARGIN), np.int8)
        round_into(self.copy, self.matrix)

    def coarse(self, start, stop):
        return self.copy[start:stop]

    def check(self, rows):
        pass


@given(seed=st.integers(0, 10**6), width=st.integers(1, 90), peak=st.sampled_from([1.0, 8.0, 1e4]))
@settings(deadline=None, max_examples=60)
def test_bytes_err_no_more_than_they_say(seed, width, peak):
    """Also where one number outweighs all others, and of rows and texts of zeros."""
    rng = np.random.default_rng(seed)
    rows, texts = rng.normal(size=(40, width)), rng.normal(size=(5, width))
    rows[:9, 0] *= peak
    texts[:2, -1] *= peak
    rows[3] = texts[3] = 0
    rows, texts = (unit_rows("test", some.astype(np.float32)) for some in (rows, texts))
    space = Stored(rows)
    compared = ByteRows(texts, space)
    found, astray = compared.rough(0, 40)
    exact = texts.astype(np.float64) @ space.matrix.astype(np.float64).T
    allowed = compared.errors[:, None] + np.linalg.norm(texts, axis=1)[:, None] * astray
    assert (np.abs(found - exact) <= allowed).all()
    assert found[:, 3] == pytest.approx(0)
    assert astray[3] == 0


def test_bounds_of_bytes_are_those_of_what_was_rounded():
    """By hand: of a row only what lies between its steps, and of a text a 254th of that."""
    row, text = np.array([[1.0, 0.5, 2.25 / 127]]) / 2, np.array([[0.5, 0.25, 0.125 + 0.3 / 254]], np.float32)
    space = Stored(row)
    steps, away = space.copy[0, 3:].view(np.float32)
    assert steps == np.float32(0.5) / 127
    assert space.copy[0, :3].tolist() == [127, 64, 2]  # 63.5 goes to the even one
    assert away == pytest.approx(float(steps) * np.hypot(0.5, 0.25), rel=1e-2)
    told, steps, away = rounded_texts(text)
    assert told.tolist() == [[127, 64, 32], [0, -127, 13]]
    left = 254 * 127 * (0.25 + 0.6 / 254) - 254 * 32
    assert away[0] == pytest.approx(steps[0] * abs(left - round(left)) / 254, rel=5e-3)


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
