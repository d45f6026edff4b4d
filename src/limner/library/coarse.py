"""Cosines with more rows than are held in float32, block by block on every core.

Where the processor multiplies in bfloat16, a copy in it finds which rows may be among the best, by a bound on
its rounding, and those alone are read in full. Elsewhere the rows become float32 a few at a time, within the
cache of a core. A space may be a memory map larger than memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from limner import devices
from limner.arrays import FloatArray, scores, sum_errors
from limner.errors import NumericsError
from limner.library.scan import BLOCK_ROWS, HalfArray, IntArray, float_rows, let_go
from limner.threads import one_core_each

T = TypeVar("T")

ROUNDOFF = 2.0**-8
"""Distance of neighbouring bfloat16 numbers near 1 (8 significant bits); twice the error of rounding."""

GATHERED_ROWS = 512
"""Scattered rows read before the pages around them are let go."""

CACHED_BYTES = 1 << 20
"""Of rows in float32, made and used at a time."""

ALONE_PRODUCTS, SMALLEST_GATHER = 250_000, 8
"""Multiplications below which a product runs on one core, and rows below which that is not worth it.

A larger product wakes threads that go on spinning, and so take the cores from the next pass.
"""


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
    if min(threads, len(blocks)) < 2:
        yield from ((start, work(start, stop)) for start, stop in blocks)
        return
    yield from one_core_each(blocks, lambda block: (block[0], work(*block)), workers=threads)


def single(rows: HalfArray) -> Tensor:
    """(R, D) rows in float32; NumPy takes ten times as long for it."""
    return torch.tensor(rows, dtype=torch.float32)


def round_into(copy: NDArray[np.int16], matrix: HalfArray) -> None:
    """Round a space to bfloat16.

    Args:
        copy: (M, D) bits of the bfloat16 rows, filled here.
        matrix: (M, D) rows.
    Raises:
        NumericsError: a row is not finite.
    """

    def rounded(start: int, stop: int) -> None:
        exact = torch.from_numpy(float_rows(matrix, start, stop))
        copy[start:stop] = exact.bfloat16().view(torch.int16).numpy()

    for _ in over_blocks(len(matrix), BLOCK_ROWS, rounded):
        pass


def rounded_texts(texts: FloatArray) -> tuple[Tensor, FloatArray]:
    """Texts as a bfloat16 matrix, and how wrong a product with a row in bfloat16 can be.

    Args:
        texts: (N, D) rows of length at most 1.
    Returns:
        (D, N) bfloat16, and (N,) bounds of |q·v − q̂·v̂|: ‖q − q̂‖‖v̂‖ + ‖q‖‖v − v̂‖, and the rounding of
        the product itself, of a cosine below 1.
    """
    exact = torch.from_numpy(np.array(texts, dtype=np.float32))
    rounded = exact.bfloat16()
    own = (exact - rounded.float()).norm(dim=1)
    # Unit rows kept as float16 may be longer than 1 by its rounding; 1 % covers both copies.
    bound = 1.01 * (own + exact.norm(dim=1) * ROUNDOFF / 2) + 1e-6 + 1.02 * ROUNDOFF
    return rounded.T.contiguous(), bound.numpy()


def widened(product: Tensor) -> FloatArray:
    """(R, N) bfloat16 → (N, R) float32, exact.

    In NumPy on purpose: passes this short cost more in waking torch's threads than in work.
    """
    bits = product.view(torch.int16).numpy().view(np.uint16).T.astype(np.uint32, order="C")
    bits <<= 16
    return bits.view(np.float32)


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
        some = single(plain[rows[first:last]]).numpy()
        if release:
            let_go(matrix)
        for start in range(first, last, step):
            stop = min(start + step, last)
            table[:, start:stop] = scores(texts, some[start - first : stop - first])

    for _ in over_blocks(len(rows), GATHERED_ROWS, fill):
        pass
    return table


class Rows(Protocol):
    """What a `limner.library.gallery.Space` offers."""

    @property
    def matrix(self) -> HalfArray:
        """(M, D) rows."""

    def coarse(self, start: int = 0, stop: int | None = None) -> Tensor:
        """Some of them in bfloat16."""

    def check(self, rows: IntArray | range) -> None:
        """Refuse damaged ones."""


class Rounded:
    """Cosines of some texts with the rows of a space, roughly and in full.

    Roughly by its bfloat16 copy, or by the rows in float32 where the processor does not multiply in bfloat16.
    """

    def __init__(self, texts: FloatArray, space: Rows) -> None:
        """Round the texts, or take them as they are.

        Args:
            texts: (N, D) rows of length at most 1.
            space: what they are compared with.
        """
        self._texts, self._space = texts, space
        self._halves = devices.multiplies_halves()
        if self._halves:
            self._asked, self.errors = rounded_texts(texts)
        else:
            self._asked, self.errors = torch.from_numpy(np.array(texts, np.float32).T), sum_errors(texts)

    def rough(self, start: int, stop: int) -> FloatArray:
        """(N, R) cosines with a stretch of rows, within `errors`, (N,), of those of `exact`.

        Raises:
            NumericsError: a row is not finite.
            CheckpointError: as `Space.check`.
        """
        if self._halves:
            return widened(self._space.coarse(start, stop) @ self._asked)
        self._space.check(range(start, stop))
        matrix = np.asarray(self._space.matrix)  # a memory map takes longer over each selection
        step = max(CACHED_BYTES // (4 * matrix.shape[1]), 1)
        table: FloatArray = np.empty((len(self._texts), stop - start), dtype=np.float32)
        for first in range(start, stop, step):
            last = min(first + step, stop)
            table[:, first - start : last - start] = (self._asked.T @ single(matrix[first:last]).T).numpy()
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
        # All rows are soon read again where they have no copy.
        return exact_scores(self._texts, self._space.matrix, rows, release=self._halves)
