"""Cosines with more rows than are held in float32, block by block on every core.

The rows become float32 a few at a time, within the cache of a core. A space may be a memory map larger than
memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol, TypeVar

import numpy as np

from limner.arrays import FloatArray, sum_errors
from limner.errors import NumericsError
from limner.store.scan import ALONE_PRODUCTS, HalfArray, IntArray
from limner.threads import ahead, cores, one_core_products

T = TypeVar("T")

GATHERED_ROWS = 512
"""Scattered rows that one thread reads."""

CACHED_BYTES = 1 << 20
"""Of rows in float32, made and used at a time."""

SMALLEST_GATHER = 8
"""Rows below which it is not worth it to multiply on one core."""

_PLACES, _MASK, _SCALE, _ABOVE = 13, np.int32(-0x70002000), np.float32(2.0**112), 65536.0
"""Of float16 in float32: how far bits move, which are its own, what its exponent lacks, its infinity."""


def over_blocks(rows: int, block_rows: int, work: Callable[[int, int], T]) -> Iterator[tuple[int, T]]:
    """Call `work` for every block of rows, several at a time.

    Args:
        rows: how many there are.
        block_rows: rows of a block.
        work: (first row, row after the last) → result; called in threads.
    Yields:
        First row and result of each block, in order; few results wait at a time.
    """
    blocks = [(start, min(start + block_rows, rows)) for start in range(0, rows, block_rows)]
    workers = cores()
    with one_core_products():
        yield from ahead(
            blocks,
            lambda block: (block[0], work(*block)),
            workers=workers,
            in_flight=2 * workers + 1,
        )


def single(rows: HalfArray) -> FloatArray:
    """(R, D) rows in float32, by their bits: half the time that NumPy takes for it."""
    wide = np.left_shift(np.ascontiguousarray(rows).view(np.int16), _PLACES, dtype=np.int32)
    wide &= _MASK
    found: FloatArray = wide.view(np.float32)
    found *= _SCALE
    if found.size and not -_ABOVE < found.min() <= found.max() < _ABOVE:
        return rows.astype(np.float32)  # infinity and what is no number have no exponent of their own
    return found


def exact_scores(texts: FloatArray, matrix: HalfArray, rows: IntArray) -> FloatArray:
    """Cosines of every text with some rows, in float32.

    Args:
        texts: (N, D) rows of unit length.
        matrix: (M, D) rows.
        rows: (R,) row numbers.
    Returns:
        (N, R).
    Raises:
        NumericsError: a score is not finite.
    """
    step = ALONE_PRODUCTS // max(texts.size, 1)
    if step < SMALLEST_GATHER:
        step = GATHERED_ROWS
    table: FloatArray = np.empty((len(texts), len(rows)), dtype=np.float32)
    plain = np.asarray(matrix)  # a memory map takes longer over each selection

    def fill(first: int, last: int) -> None:
        chosen = rows[first:last]
        some = single(plain[chosen])
        for start in range(first, last, step):
            stop = min(start + step, last)
            table[:, start:stop] = texts @ some[start - first : stop - first].T

    for _ in over_blocks(len(rows), GATHERED_ROWS, fill):
        pass
    if not np.isfinite(table).all():
        raise NumericsError("space: a cosine is not finite; check the vectors")
    return table


class Rows(Protocol):
    """What a `limner.store.gallery.Space` offers."""

    @property
    def matrix(self) -> HalfArray:
        """(M, D) rows."""

    def check(self, rows: IntArray | range) -> None:
        """Refuse damaged ones."""


class FullRows:
    """Cosines of some texts with the stored rows of a space, a few of which are in float32 at a time."""

    def __init__(self, texts: FloatArray, space: Rows) -> None:
        """Take both.

        Args:
            texts: (N, D) rows of length at most 1.
            space: what they are compared with.
        """
        self._texts, self._space = np.array(texts), space
        self.errors = sum_errors(texts)

    def rough(self, start: int, stop: int) -> FloatArray:
        """(N, R) cosines with a stretch of rows, within `errors` of those of `exact`.

        Raises:
            NumericsError: a row is not finite.
            CheckpointError: as `Space.check`.
        """
        self._space.check(range(start, stop))
        matrix = np.asarray(self._space.matrix)  # a memory map takes longer over each selection
        step = max(CACHED_BYTES // (4 * matrix.shape[1]), 1)
        table: FloatArray = np.empty((len(self._texts), stop - start), dtype=np.float32)
        for first in range(start, stop, step):
            last = min(first + step, stop)
            table[:, first - start : last - start] = self._texts @ single(matrix[first:last]).T
        if not np.isfinite(float(table.sum())):
            raise NumericsError(
                f"space: a row from {start} to {stop - 1} is not finite; index its pictures again"
            )
        return table

    def exact(self, rows: IntArray) -> FloatArray:
        """(N, R) cosines with some rows, in float32.

        Raises:
            NumericsError: a cosine is not finite.
            CheckpointError: as `Space.check`.
        """
        self._space.check(rows)
        return exact_scores(self._texts, self._space.matrix, rows)
