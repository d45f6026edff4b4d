"""Mean and spread of a text's cosines over a whole gallery, without looking at the gallery again.

The cosines of a text q with rows v have mean q·mean(v) and variance qᵀ cov(v) q, so the first two
moments of a space answer for every text. It does not search, and it does not store anything.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from limner.errors import NumericsError
from limner.retrieval.coarse import let_go
from limner.retrieval.gallery import Space
from limner.retrieval.scan import over_blocks
from limner.shapes import expect
from limner.similarity import FloatArray

Float64Array = NDArray[np.float64]

CENTRE_ROWS = 1_000
"""Rows whose mean is taken for about that of all."""

FEW_TEXTS = 64
"""Texts up to which sums are taken one by one."""

DOUBTFUL = 1e-3
"""Variance, in parts of the covariance's norm, below which float32 is not exact enough."""

SMALLEST_STD = 1e-6
"""Below this the cosines of a text are all equal up to rounding; their spread counts as 0."""


@dataclass(frozen=True)
class Moments:
    """First two moments of the present rows of a space.

    Attributes:
        count: number of present rows.
        mean: (D,) their mean.
        covariance: (D, D) their covariance, divisor `count`.
    """

    count: int
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
        if len(queries) <= FEW_TEXTS:
            # Waking the product's threads, which then spin, takes longer than the sums.
            variance = _quadratic(queries, np.einsum("nd,de->ne", queries, self.covariance))
        else:
            single, size = self._single
            variance = _quadratic(queries, np.asarray(texts, dtype=np.float32) @ single)
            close = np.flatnonzero(variance < DOUBTFUL * size)  # a small difference of large numbers
            variance[close] = _quadratic(queries[close], queries[close] @ self.covariance)
        std = np.sqrt(np.maximum(variance, 0.0))
        return queries @ self.mean, np.where(std < SMALLEST_STD, 0.0, std)

    @cached_property
    def _single(self) -> tuple[FloatArray, float]:
        """The covariance in float32, and its norm."""
        return self.covariance.astype(np.float32), float(np.linalg.norm(self.covariance))


def _quadratic(queries: Float64Array, turned: Float64Array | FloatArray) -> Float64Array:
    return np.asarray(np.einsum("nd,nd->n", turned, queries), dtype=np.float64)


def moments(space: Space, *, block_rows: int = 4_096) -> Moments:
    """Moments of the present rows of a space, in one pass of blocks.

    The mean of the first rows is taken off everything before the products, so that a narrow cone of
    vectors loses no digits; sums over blocks are float64.

    Args:
        space: (M, D) rows and which of them are present.
        block_rows: rows held in float32 at a time.
    Raises:
        NumericsError: a present row is not finite.
    """
    import torch

    rows, width = space.matrix.shape
    count = int(np.count_nonzero(space.present))
    total = torch.zeros(width, dtype=torch.float64)
    products = torch.zeros(width, width, dtype=torch.float64)
    some = np.flatnonzero(space.present)[:CENTRE_ROWS]
    centre = torch.from_numpy(space.matrix[some]).float().mean(dim=0) if count else torch.zeros(width)

    def sums(start: int, stop: int) -> tuple[torch.Tensor, torch.Tensor]:
        block = _present(space, start, stop).sub_(centre)
        return block.sum(dim=0), block.T @ block

    for _, (one, two) in over_blocks(rows, block_rows, sums):
        total += one
        products += two
        let_go(space.matrix)
    if not bool(torch.isfinite(total).all()):
        raise NumericsError("moments: the space has a row that is not finite; index its pictures again")
    shift = total / max(count, 1)
    covariance = products / max(count, 1) - torch.outer(shift, shift)
    return Moments(count, (shift + centre).numpy(), covariance.numpy())


def _present(space: Space, start: int, stop: int) -> "torch.Tensor":  # type: ignore[name-defined] # noqa: F821
    """The present rows of one block, (R, D) float32."""
    import torch

    present = space.present[start:stop]
    block = space.matrix[start:stop]
    kept = np.array(block) if present.all() else block[present]
    return torch.from_numpy(kept).float()
