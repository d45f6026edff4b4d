"""Cosines with more rows than are held in float32, block by block on every core.

Where the processor multiplies bytes, a copy in them finds which rows may be among the best, by bounds on what
rounding took from each row, and those alone are read in full. Elsewhere the rows become float32 a few at a
time, within the cache of a core. A space may be a memory map larger than memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from limner import devices
from limner.arrays import FloatArray, sum_errors
from limner.errors import NumericsError
from limner.library.scan import ALONE_PRODUCTS, BLOCK_ROWS, HalfArray, IntArray, float_rows, let_go
from limner.threads import one_core_each

T = TypeVar("T")

ByteArray = NDArray[np.int8]

MOST = 127
"""Of the numbers of a byte, of which the largest of a row becomes one."""

PARTS = 2 * MOST
"""Parts of a step of its bytes that a text is told in: what its first bytes leave is within half a step."""

MARGIN = 8
"""Bytes behind those of a row: its step, and how far it lies from them, a float32 each."""

GATHERED_ROWS = 512
"""Scattered rows read before the pages around them are let go."""

CACHED_BYTES = 1 << 20
"""Of rows in float32, made and used at a time."""

SMALLEST_GATHER = 8
"""Rows below which it is not worth it to multiply on one core."""


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
    threads = torch.get_num_threads()
    if threads < 2:
        yield from ((start, work(start, stop)) for start, stop in blocks)
        return
    yield from one_core_each(blocks, lambda block: (block[0], work(*block)), workers=threads)


def single(rows: HalfArray) -> Tensor:
    """(R, D) rows in float32; NumPy takes ten times as long for it."""
    return torch.tensor(rows, dtype=torch.float32)


def steps_of(rows: FloatArray) -> FloatArray:
    """(R,) steps in which the largest number of each row is `MOST`; 1 of a row of zeros."""
    largest = np.abs(rows).max(axis=1, initial=0)
    return np.where(largest > 0, largest / MOST, np.float32(1))


def round_into(copy: ByteArray, matrix: HalfArray) -> None:
    """Round a space to bytes.

    Args:
        copy: (M, D + `MARGIN`) bytes, filled here: those of each row, its step, and its distance from them.
        matrix: (M, D) rows.
    Raises:
        NumericsError: a row is not finite.
    """
    width = matrix.shape[1]

    def rounded(start: int, stop: int) -> None:
        exact = float_rows(matrix, start, stop)
        steps = steps_of(exact)
        whole = np.rint(exact / steps[:, None])
        copy[start:stop, :width] = whole
        whole *= steps[:, None]
        away = np.linalg.norm(exact - whole, axis=1)
        copy[start:stop, width:] = np.stack([steps, away], axis=1).view(np.int8)

    for _ in over_blocks(len(matrix), BLOCK_ROWS, rounded):
        pass


def rounded_texts(texts: FloatArray) -> tuple[ByteArray, FloatArray, FloatArray]:
    """Texts in bytes, twice: rounded, and what that left in parts of a step.

    Args:
        texts: (N, D) rows of length at most 1.
    Returns:
        (2N, D) bytes, first all rounded texts and then all rests; (N,) their steps; and (N,) how far what
        both say is from each text.
    """
    steps = steps_of(texts)
    scaled = texts.astype(np.float64) / steps[:, None]
    whole = np.rint(scaled)
    rest = np.rint(PARTS * (scaled - whole))
    away = np.linalg.norm(scaled - whole - rest / PARTS, axis=1) * steps
    return np.concatenate([whole, rest]).astype(np.int8), steps, away.astype(np.float32)


def exact_scores(texts: FloatArray, matrix: HalfArray, rows: IntArray, *, release: bool = True) -> FloatArray:
    """Cosines of every text with some rows, in float32; of a memory map, few pages stay behind.

    A system may map megabytes around every row touched; letting go now and then bounds that.

    Args:
        texts: (N, D) rows of unit length.
        matrix: (M, D) rows.
        rows: (R,) row numbers.
        release: False where all pages are soon read again.
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
        some = single(plain[chosen]).numpy()
        if release:
            let_go(matrix[chosen.min() : chosen.max() + 1])
        for start in range(first, last, step):
            stop = min(start + step, last)
            table[:, start:stop] = texts @ some[start - first : stop - first].T

    for _ in over_blocks(len(rows), GATHERED_ROWS, fill):
        pass
    if not np.isfinite(table).all():
        raise NumericsError("space: a cosine is not finite; check the vectors")
    return table


class Rows(Protocol):
    """What a `limner.library.gallery.Space` offers."""

    @property
    def matrix(self) -> HalfArray:
        """(M, D) rows."""

    def coarse(self, start: int = 0, stop: int | None = None) -> ByteArray:
        """Some of them in bytes, as `round_into` leaves them."""

    def check(self, rows: IntArray | range) -> None:
        """Refuse damaged ones."""


class FullRows:
    """Cosines of some texts with the stored rows of a space, a few of which are in float32 at a time."""

    released = False
    """Whether pages of a memory map may leave once read; here all rows are soon read again."""

    def __init__(self, texts: FloatArray, space: Rows) -> None:
        """Take both.

        Args:
            texts: (N, D) rows of length at most 1.
            space: what they are compared with.
        """
        self._texts, self._space = np.array(texts), space
        self.errors = sum_errors(texts)

    def rough(self, start: int, stop: int) -> tuple[FloatArray, FloatArray | None]:
        """Cosines with a stretch of rows, nearly those of `exact`.

        Returns:
            (N, R) cosines, and (R,) what rounding took from each row, None for nothing. A cosine is off by at
            most the text's `errors` and the text's length times what its row lost.
        Raises:
            NumericsError: a row is not finite.
            CheckpointError: as `Space.check`.
        """
        self._space.check(range(start, stop))
        matrix = np.asarray(self._space.matrix)  # a memory map takes longer over each selection
        asked = torch.from_numpy(self._texts)
        step = max(CACHED_BYTES // (4 * matrix.shape[1]), 1)
        table: FloatArray = np.empty((len(self._texts), stop - start), dtype=np.float32)
        for first in range(start, stop, step):
            last = min(first + step, stop)
            table[:, first - start : last - start] = (asked @ single(matrix[first:last]).T).numpy()
        if not np.isfinite(float(table.sum())):
            raise NumericsError(
                f"space: a row from {start} to {stop - 1} is not finite; index its pictures again"
            )
        return table, None

    def exact(self, rows: IntArray) -> FloatArray:
        """(N, R) cosines with some rows, in float32.

        Raises:
            NumericsError: a cosine is not finite.
            CheckpointError: as `Space.check`.
        """
        self._space.check(rows)
        return exact_scores(self._texts, self._space.matrix, rows, release=self.released)


class ByteRows(FullRows):
    """The same by a copy of the rows in bytes, which alone is read of those that cannot be among the best."""

    released = True

    def __init__(self, texts: FloatArray, space: Rows) -> None:
        """As `FullRows`."""
        super().__init__(texts, space)
        asked, steps, away = rounded_texts(texts)
        self._asked, self._steps = torch.from_numpy(asked), torch.from_numpy(steps)[:, None]
        # |q·v − q̂·v̂| ≤ ‖q − q̂‖‖v̂‖ + ‖q‖‖v − v̂‖. Rows kept as float16, and their copies, may be longer than 1.
        self.errors = self.errors + np.float32(1.02) * away + np.float32(1e-6)

    def rough(self, start: int, stop: int) -> tuple[FloatArray, FloatArray | None]:
        """As `FullRows`.

        Raises:
            CheckpointError: as `Space.coarse`.
        """
        copy, count = self._space.coarse(start, stop), len(self._texts)
        found = torch._int_mm(self._asked, torch.from_numpy(copy)[:, :-MARGIN].T)
        margin = copy[:, -MARGIN:].copy().view(np.float32)
        table = torch.add(found[:count].float(), found[count:], alpha=1 / PARTS)
        table *= self._steps
        table *= torch.from_numpy(margin[:, 0])
        return table.numpy(), 1.01 * margin[:, 1]


def cosines_of(texts: FloatArray, space: Rows) -> FullRows:
    """What compares texts with a space the quickest here."""
    return (ByteRows if devices.multiplies_bytes() else FullRows)(texts, space)
