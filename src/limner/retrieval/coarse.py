"""A bfloat16 copy of a space, for a first pass over all pictures that reads half the memory.

It knows how far its products can be from exact ones, which is what lets `index` prove that a
cut by coarse scores lost nothing. It does not rank.
"""

import contextlib
import mmap
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from limner.errors import NumericsError
from limner.retrieval.gallery import BoolArray, HalfArray, Space
from limner.retrieval.scan import over_blocks
from limner.similarity import FloatArray, scores

if TYPE_CHECKING:
    from torch import Tensor

IntArray = NDArray[np.int64]

ROUNDOFF = 2.0**-8
"""Largest relative error of rounding to bfloat16 (8 significant bits)."""

GATHERED_ROWS = 512
"""Scattered rows read before the pages around them are let go."""

ALONE_PRODUCTS, SMALLEST_GATHER = 250_000, 8
"""Multiplications below which a product runs on one core, and rows below which that is not worth it.

A larger product wakes threads that go on spinning, and so take the cores from the next pass.
"""


@dataclass(frozen=True)
class Coarse:
    """A space in bfloat16.

    Attributes:
        matrix: (M, D) bfloat16 rows.
        present: (M,) bool, or None where every picture is present.
        error: largest Euclidean distance between a row and its copy.
    """

    matrix: "Tensor"
    present: BoolArray | None
    error: float

    def query(self, texts: FloatArray) -> tuple["Tensor", FloatArray]:
        """Texts as a bfloat16 matrix, and how wrong a product with a row can be.

        Args:
            texts: (N, D) rows of length at most 1.
        Returns:
            (D, N) bfloat16, and (N,) bounds of |q·v − q̂·v̂| before the product is rounded:
            ‖q − q̂‖‖v̂‖ + ‖q‖‖v − v̂‖.
        """
        import torch

        exact = torch.from_numpy(np.array(texts, dtype=np.float32))
        rounded = exact.bfloat16()
        own = (exact - rounded.float()).norm(dim=1)
        # Unit rows kept as float16 may be longer than 1 by its rounding; 1 % covers both copies.
        bound = 1.01 * (own + exact.norm(dim=1) * self.error) + 1e-6
        return rounded.T.contiguous(), bound.numpy()


def coarse(name: str, space: Space) -> Coarse:
    """Copy a space to bfloat16.

    Args:
        name: of the space, for messages.
        space: (M, D) rows.
    Raises:
        NumericsError: a row is not finite.
    """
    import torch

    copy = torch.empty(space.matrix.shape, dtype=torch.bfloat16)
    start, error = 0, 0.0
    for block, worst in rounded_blocks(name, space):
        copy[start : start + len(block)] = block
        start, error = start + len(block), max(error, worst)
    present = None if space.present.all() else np.array(space.present)
    return Coarse(copy, present, error)


def rounded_blocks(name: str, space: Space, *, block_rows: int = 4_096) -> Iterator[tuple["Tensor", float]]:
    """Blocks of a space in bfloat16; of a memory map, pages already copied are let go.

    Args:
        name: of the space, for messages.
        space: (M, D) rows.
        block_rows: rows held in float32 at a time.
    Yields:
        (R, D) bfloat16, and the largest Euclidean distance between one of these rows and its copy.
    Raises:
        NumericsError: a row is not finite.
    """
    import torch

    def rounded(start: int, stop: int) -> tuple["Tensor", float]:
        exact = torch.from_numpy(np.array(space.matrix[start:stop])).float()
        block = exact.bfloat16()
        return block, float(exact.sub_(block).square_().sum(dim=1).max().sqrt())

    for start, (block, worst) in over_blocks(len(space.matrix), block_rows, rounded):
        if not np.isfinite(worst):
            raise NumericsError(
                f"space {name}: a row from {start} to {start + len(block) - 1} is not finite; "
                "index its pictures again"
            )
        yield block, worst
        let_go(space.matrix)


def widened(product: "Tensor") -> FloatArray:
    """(R, N) bfloat16 → (N, R) float32, exact.

    In NumPy on purpose: passes this short cost more in waking torch's threads than in work.
    """
    import torch

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
    if isinstance(owner, mmap.mmap) and not matrix.flags.writeable and hasattr(mmap, "MADV_DONTNEED"):
        with contextlib.suppress(OSError):  # advice only: the pages simply stay
            owner.madvise(mmap.MADV_DONTNEED)
