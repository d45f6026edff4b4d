"""A bfloat16 copy of a space, for a first pass over all pictures that reads half the memory.

It knows how far its products can be from exact ones, which is what lets `index` prove that a
cut by coarse scores lost nothing. It does not rank.
"""

import contextlib
import mmap
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from limner.errors import NumericsError
from limner.retrieval.gallery import BoolArray, HalfArray, Space
from limner.similarity import FloatArray

if TYPE_CHECKING:
    from torch import Tensor

IntArray = NDArray[np.int64]

ROUNDOFF = 2.0**-8
"""Largest relative error of rounding to bfloat16 (8 significant bits)."""

GATHERED_ROWS = 128
"""Scattered rows read before the pages around them are let go."""


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


def coarse(name: str, space: Space, *, block_rows: int = 4_096) -> Coarse:
    """Copy a space to bfloat16 in blocks; of a memory map, pages already copied are let go.

    Args:
        name: of the space, for messages.
        space: (M, D) rows.
        block_rows: rows held in float32 at a time.
    Raises:
        NumericsError: a row is not finite.
    """
    import torch

    rows, width = space.matrix.shape
    copy = torch.empty(rows, width, dtype=torch.bfloat16)
    error = 0.0
    for start in range(0, rows, block_rows):
        stop = min(start + block_rows, rows)
        exact = torch.from_numpy(np.array(space.matrix[start:stop])).float()
        copy[start:stop] = exact
        worst = float((exact - copy[start:stop].float()).square_().sum(dim=1).max().sqrt())
        if not np.isfinite(worst):
            raise NumericsError(
                f"space {name}: a row between {start} and {stop - 1} is not finite; index its pictures again"
            )
        error = max(error, worst)
        let_go(space.matrix)
    present = None if space.present.all() else np.array(space.present)
    return Coarse(copy, present, error)


def widened(product: "Tensor") -> FloatArray:
    """(R, N) bfloat16 → (N, R) float32, exact.

    In NumPy on purpose: passes this short cost more in waking torch's threads than in work.
    """
    import torch

    bits = product.view(torch.int16).numpy().view(np.uint16).T.astype(np.uint32, order="C")
    bits <<= 16
    return bits.view(np.float32)


def exact_rows(matrix: HalfArray, rows: IntArray) -> FloatArray:
    """Some rows in float32, (R, D); of a memory map, few neighbouring pages stay behind.

    A system may map megabytes around every row touched; letting go now and then bounds that.

    Args:
        matrix: (M, D) rows.
        rows: (R,) row numbers.
    """
    exact: FloatArray = np.empty((len(rows), matrix.shape[1]), dtype=np.float32)
    for start in range(0, len(rows), GATHERED_ROWS):
        exact[start : start + GATHERED_ROWS] = matrix[rows[start : start + GATHERED_ROWS]]
        let_go(matrix)
    return exact


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
