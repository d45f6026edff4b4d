"""Vectors of a space in float32: all at once where there are few, their moments, and the pool of the best.

A space may be a memory map larger than memory, so that a pass over it lets go of the pages it has read.
`limner.store.coarse` searches what is larger.
"""

from __future__ import annotations

import contextlib
import mmap
import sys
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from limner.arrays import FloatArray, expect, scores, sum_errors
from limner.errors import NumericsError

HalfArray = NDArray[np.float16]
BoolArray = NDArray[np.bool_]
IntArray = NDArray[np.int64]
Float64Array = NDArray[np.float64]
BLOCK_ROWS = 4_096
"""Rows held in float32 at a time."""

UNITS = np.float64(2**18)
"""Of the numbers that `sums` adds up; what it multiplies becomes float64."""

FEW_TEXTS = 64
"""Texts up to which products are made in parts that one core computes."""

ALONE_PRODUCTS = 250_000
"""Multiplications below which a product runs on one core.

A larger one wakes threads that go on spinning, and so take the cores from the next pass.
"""

SMALLEST_STD = 1e-6
"""Below this the cosines of a text are all equal up to rounding; their spread counts as 0."""


@dataclass(frozen=True)
class Near:
    """Rows that may be among the best of some texts, in any order.

    Attributes:
        texts, rows: (R,) numbers of both.
        values: (R,) rough scores.
    """

    texts: IntArray
    rows: IntArray
    values: FloatArray

    def where(self, kept: BoolArray | IntArray) -> Near:
        """Some of them, by flags or by numbers."""
        return Near(self.texts[kept], self.rows[kept], self.values[kept])


class Pools:
    """Of N texts, the rows whose exact score may be among the best."""

    def __init__(self, kept: int, slack: Float64Array) -> None:
        """Start empty.

        Args:
            kept: how many are wanted of each.
            slack: (N,) how far below the last of these a row may be and yet belong to them, above 0.
        """
        self._kept, self._slack = kept, slack.astype(np.float32)
        self._floor: FloatArray = np.full(len(slack), -np.inf, dtype=np.float32)
        self._found: list[Near] = []
        self._waiting, self._room = 0, 2 * kept * len(slack)

    def near(self, values: FloatArray, start: int) -> Near:
        """What may matter of a block; may be called by threads.

        Args:
            values: (N, R) rough scores.
            start: row of the first.
        """
        floor = self._floor
        if self._kept < values.shape[1] and np.isneginf(floor).any():
            floor = np.partition(values, -self._kept, axis=1)[:, -self._kept] - self._slack
            self._floor = np.maximum(self._floor, floor)  # one that another thread overwrites is found again
        texts, places = np.divmod(np.flatnonzero(values > floor[:, None]), values.shape[1])
        return Near(texts, places + start, values[texts, places])

    def add(self, found: Near) -> None:
        """Take in what `near` found in a block."""
        self._found.append(found)
        self._waiting += len(found.rows)
        if self._waiting > self._room:
            self._room = 2 * max(self._room, len(self.cut().rows))

    def cut(self) -> Near:
        """Drop what cannot be among the best; what is left, text by text and in order of row."""
        none = np.zeros(0, dtype=np.int64)
        pieces = [Near(none, none, np.zeros(0, dtype=np.float32)), *self._found]
        every = Near(
            np.concatenate([one.texts for one in pieces]),
            np.concatenate([one.rows for one in pieces]),
            np.concatenate([one.values for one in pieces]),
        )
        every = every.where(np.argsort(every.texts, kind="stable"))
        bounds = np.searchsorted(every.texts, np.arange(len(self._floor) + 1))
        floor = self._floor.copy()
        for text, (first, last) in enumerate(pairwise(bounds)):
            if self._kept < last - first:
                values = every.values[first:last]
                floor[text] = np.partition(values, -self._kept)[-self._kept] - self._slack[text]
        self._floor = np.maximum(self._floor, floor)
        left = every.where(every.values > floor[every.texts])
        self._found, self._waiting = [left], len(left.rows)
        return left


def float_rows(matrix: HalfArray, start: int, stop: int) -> FloatArray:
    """Some rows in float32; of a memory map, pages already read are let go.

    Args:
        matrix: (M, D) rows.
        start: first.
        stop: after the last.
    Raises:
        NumericsError: a row is not finite.
    """
    exact = np.asarray(matrix[start:stop]).astype(np.float32)
    let_go(matrix)
    if not np.isfinite(float(exact.sum())):
        raise NumericsError(
            f"space: a row from {start} to {stop - 1} is not finite; index its pictures again"
        )
    return exact


class Whole:
    """Cosines of some texts with all rows of a space that are held in float32."""

    def __init__(self, texts: FloatArray, rows: FloatArray) -> None:
        """Take both.

        Args:
            texts: (N, D) rows of length at most 1.
            rows: (M, D) likewise.
        """
        self._texts, self._rows = texts, rows
        self.errors = sum_errors(texts)

    def rough(self, start: int, stop: int) -> FloatArray:
        """(N, R) cosines with a stretch of rows, within `errors` of those of `exact`."""
        return self._texts @ self._rows[start:stop].T

    def exact(self, rows: IntArray) -> FloatArray:
        """(N, R) cosines with some rows.

        Raises:
            NumericsError: a cosine is not finite.
        """
        return scores(self._texts, self._rows[rows])


def let_go(rows: NDArray[Any]) -> None:
    """Tell the system that the pages of a read-only memory map may leave this process.

    Args:
        rows: those of the map that were read; anything but a read-only map is left alone.
    """
    owner: object = rows
    while isinstance(owner, np.ndarray):
        owner = owner.base
    # A writable private map would lose what was written to it.
    if isinstance(owner, mmap.mmap) and not rows.flags.writeable and sys.platform != "win32":
        begin = rows.ctypes.data - np.frombuffer(owner, np.uint8).ctypes.data
        begin -= begin % mmap.PAGESIZE
        with contextlib.suppress(OSError):  # advice only: the pages simply stay
            owner.madvise(mmap.MADV_DONTNEED, begin, rows.nbytes)


@dataclass(frozen=True)
class Moments:
    """First two moments of the present rows of a space.

    Attributes:
        mean: (D,) their mean.
        covariance: (D, D) their covariance; the divisor is their number.
    """

    mean: Float64Array
    covariance: Float64Array

    def of_cosines(self, texts: FloatArray) -> tuple[Float64Array, Float64Array]:
        """Mean and standard deviation of each text's cosines over the present rows.

        Args:
            texts: (N, D) rows of unit length.
        Returns:
            (N,) means and (N,) standard deviations; a spread that is only rounding is 0.
        """
        expect("moments.of_cosines", texts=(texts, "N D"), mean=(self.mean, "D"))
        # Waking the product's threads, which then spin, takes longer than products too small for them.
        width = texts.shape[1]
        step = max(ALONE_PRODUCTS // max(texts.size, 1), 1) if len(texts) <= FEW_TEXTS else width
        parts = range(0, width, step)
        turned = np.hstack([texts @ self.covariance[:, first : first + step] for first in parts])
        std = np.sqrt(np.maximum(np.einsum("nd,nd->n", turned, texts), 0.0))
        return texts @ self.mean, np.where(std < SMALLEST_STD, 0.0, std)


def sums(matrix: HalfArray, rows: IntArray | None = None) -> IntArray:
    """Sums over rows of a space from which its `Moments` follow: exact, so that their order is all one.

    Each number is rounded to a multiple of 2⁻¹⁸, which leaves all of float16 from 2⁻⁸ on as it is. Sums of a
    block's products then stay below 2⁵³ in float64, those of 10⁸ rows below 2⁶³.

    Args:
        matrix: (M, D) rows of length about 1.
        rows: which of them count; None for all.
    Returns:
        (D + 1, D) their sum in units of 2⁻¹⁸, and that of their products in units of 2⁻³⁶.
    Raises:
        NumericsError: a row is not finite.
    """
    width, count = matrix.shape[1], len(matrix) if rows is None else len(rows)
    total = np.zeros((width + 1, width), np.int64)
    for start in range(0, count, BLOCK_ROWS):
        stop = min(start + BLOCK_ROWS, count)
        if rows is None:
            exact = float_rows(matrix, start, stop)
        else:
            exact = float_rows(np.asarray(matrix)[rows[start:stop]], 0, stop - start)
            let_go(matrix)
        block = np.rint(exact * UNITS)
        total[0] += block.sum(axis=0).astype(np.int64)
        total[1:] += (block.T @ block).astype(np.int64)
    return total


def moments(total: IntArray, count: int) -> Moments:
    """Moments of so many rows from their `sums`; zero of none.

    Args:
        total: (D + 1, D).
        count: of the rows.
    """
    found = total / max(count, 1)
    mean = found[0] / UNITS
    return Moments(mean, found[1:] / UNITS**2 - np.outer(mean, mean))
