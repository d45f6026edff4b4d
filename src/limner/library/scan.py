"""Passes over the vectors of a space, block by block on every core: a bfloat16 copy, moments, exact scores.

A space may be a memory map larger than memory, so that every pass lets go of the pages it has read.
"""

import contextlib
import mmap
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from limner.arrays import FloatArray, expect, scores
from limner.errors import NumericsError
from limner.threads import one_core_each

HalfArray = NDArray[np.float16]
BoolArray = NDArray[np.bool_]
IntArray = NDArray[np.int64]
Float64Array = NDArray[np.float64]
T = TypeVar("T")

ROUNDOFF = 2.0**-8
"""Distance of neighbouring bfloat16 numbers near 1 (8 significant bits); twice the error of rounding."""

BLOCK_ROWS = 4_096
"""Rows held in float32 at a time."""

GATHERED_ROWS = 512
"""Scattered rows read before the pages around them are let go."""

ALONE_PRODUCTS, SMALLEST_GATHER = 250_000, 8
"""Multiplications below which a product runs on one core, and rows below which that is not worth it.

A larger product wakes threads that go on spinning, and so take the cores from the next pass.
"""

CENTRE_ROWS = 1_000
"""Rows whose mean is taken for about that of all."""

FEW_TEXTS = 64
"""Texts up to which sums are taken one by one."""

SMALLEST_STD = 1e-6
"""Below this the cosines of a text are all equal up to rounding; their spread counts as 0."""


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


class Pool:
    """The rows of one text whose exact score may be among the best.

    Attributes:
        values: (R,) float32 coarse scores so far.
        rows: (R,) theirs.
    """

    def __init__(self, kept: int, slack: float) -> None:
        """Start empty.

        Args:
            kept: how many are wanted.
            slack: how far below the last of these a row may be and yet belong to them, above 0.
        """
        self._kept, self._slack, self._floor = kept, slack, -np.inf
        self._room = 2 * kept
        self.values: FloatArray = np.zeros(0, dtype=np.float32)
        self.rows: IntArray = np.zeros(0, dtype=np.int64)

    def add(self, values: FloatArray, start: int) -> None:
        """Take in the values of one block; only those above the floor can matter.

        Args:
            values: (R,).
            start: row of the first, above all before.
        """
        found = np.flatnonzero(values > self._floor)
        self.values = np.concatenate([self.values, values[found]])
        self.rows = np.concatenate([self.rows, found + start])
        if len(self.values) > self._room:
            self.cut()
            self._room = 2 * max(self._kept, len(self.values))

    def cut(self) -> None:
        """Drop what cannot be among the best."""
        if 0 < self._kept < len(self.values):
            last = np.partition(self.values, -self._kept)[-self._kept]
            self._floor = float(last) - self._slack
            near = self.values > self._floor
            self.values, self.rows = self.values[near], self.rows[near]


def over_rows(matrix: HalfArray, work: Callable[[Tensor, slice], T]) -> Iterator[T]:
    """`over_blocks` of a matrix in float32; of a memory map, pages already read are let go.

    Args:
        matrix: (M, D) rows.
        work: (R, D) float32 and their place → result; called in threads.
    Yields:
        The result of each block, in order.
    Raises:
        NumericsError: a row is not finite.
    """

    def one(start: int, stop: int) -> T:
        exact = torch.from_numpy(np.array(matrix[start:stop])).float()
        if not np.isfinite(float(exact.sum())):
            raise NumericsError(
                f"space: a row from {start} to {stop - 1} is not finite; index its pictures again"
            )
        return work(exact, slice(start, stop))

    for _, made in over_blocks(len(matrix), BLOCK_ROWS, one):
        yield made
        let_go(matrix)


def round_into(copy: NDArray[np.int16], matrix: HalfArray) -> None:
    """Round a space to bfloat16.

    Args:
        copy: (M, D) bits of the bfloat16 rows, filled here.
        matrix: (M, D) rows.
    Raises:
        NumericsError: a row is not finite.
    """

    def rounded(exact: Tensor, place: slice) -> None:
        copy[place] = exact.bfloat16().view(torch.int16).numpy()

    for _ in over_rows(matrix, rounded):
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


def exact_scores(texts: FloatArray, matrix: HalfArray, rows: IntArray) -> FloatArray:
    """Cosines of every text with some rows, in float32; of a memory map, few pages stay behind.

    A system may map megabytes around every row touched; letting go now and then bounds that.

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
        some = plain[rows[first:last]].astype(np.float32)
        let_go(matrix)
        for start in range(first, last, step):
            stop = min(start + step, last)
            table[:, start:stop] = scores(texts, some[start - first : stop - first])

    for _ in over_blocks(len(rows), GATHERED_ROWS, fill):
        pass
    return table


def let_go(matrix: HalfArray) -> None:
    """Tell the system that the pages of a read-only memory map may leave this process.

    Args:
        matrix: (M, D) rows; anything but a read-only map is left alone.
    """
    owner: object = matrix
    while isinstance(owner, np.ndarray):
        owner = owner.base
    # A writable private map would lose what was written to it.
    if isinstance(owner, mmap.mmap) and not matrix.flags.writeable and sys.platform != "win32":
        with contextlib.suppress(OSError):  # advice only: the pages simply stay
            owner.madvise(mmap.MADV_DONTNEED)


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
        queries = np.asarray(texts, dtype=np.float64)
        # Waking the product's threads, which then spin, takes longer than a few sums.
        few = len(queries) <= FEW_TEXTS
        turned = np.einsum("nd,de->ne", queries, self.covariance) if few else queries @ self.covariance
        std = np.sqrt(np.maximum(np.einsum("nd,nd->n", turned, queries), 0.0))
        return queries @ self.mean, np.where(std < SMALLEST_STD, 0.0, std)


def moments(matrix: HalfArray, present: BoolArray) -> Moments:
    """Moments of the present rows of a space, in one pass of blocks.

    The mean of the first rows is taken off everything before the products, so that a narrow cone of
    vectors loses no digits; sums over blocks are float64.

    Args:
        matrix: (M, D) rows.
        present: (M,) which of them count.
    Raises:
        NumericsError: a row is not finite.
    """
    width, count = matrix.shape[1], max(int(np.count_nonzero(present)), 1)
    total = torch.zeros(width, dtype=torch.float64)
    products = torch.zeros(width, width, dtype=torch.float64)
    some = torch.from_numpy(matrix[np.flatnonzero(present)[:CENTRE_ROWS]]).float()
    centre = some.mean(dim=0) if len(some) else torch.zeros(width)

    def sums(exact: Tensor, place: slice) -> tuple[Tensor, Tensor]:
        own = present[place]
        block = (exact if own.all() else exact[torch.from_numpy(own)]).sub_(centre)
        return block.sum(dim=0), block.T @ block

    for one, two in over_rows(matrix, sums):
        total += one
        products += two
    shift = total / count
    covariance = products / count - torch.outer(shift, shift)
    return Moments((shift + centre).numpy(), covariance.numpy())
