"""Mean and spread of a text's cosines over a whole gallery, without looking at the gallery again.

The cosines of a text q with rows v have mean q·mean(v) and variance qᵀ cov(v) q, so the first two
moments of a space answer for every text. It does not search, and it does not store anything.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from limner.errors import NumericsError
from limner.retrieval.coarse import let_go
from limner.retrieval.gallery import Space
from limner.shapes import expect
from limner.similarity import FloatArray

Float64Array = NDArray[np.float64]

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
        variance = np.einsum("nd,nd->n", queries @ self.covariance, queries)
        std = np.sqrt(np.maximum(variance, 0.0))
        return queries @ self.mean, np.where(std < SMALLEST_STD, 0.0, std)


def moments(space: Space, *, block_rows: int = 4_096) -> Moments:
    """Moments of the present rows of a space, in blocks.

    The mean comes first and is taken off before the products, so that a narrow cone of vectors
    loses no digits.

    Args:
        space: (M, D) rows and which of them are present.
        block_rows: rows held in float32 at a time.
    Raises:
        NumericsError: a present row is not finite.
    """
    import torch

    rows, width = space.matrix.shape
    starts = range(0, rows, block_rows)
    count = int(np.count_nonzero(space.present))
    mean = torch.zeros(width, dtype=torch.float64)
    for start in starts:
        mean += _present(space, start, block_rows).sum(dim=0, dtype=torch.float64)
        let_go(space.matrix)
    if not bool(torch.isfinite(mean).all()):
        raise NumericsError("moments: the space has a row that is not finite; index its pictures again")
    mean /= max(count, 1)
    centre = mean.float()
    covariance = torch.zeros(width, width, dtype=torch.float64)
    for start in starts:
        block = _present(space, start, block_rows).sub_(centre)
        covariance += block.T @ block
        let_go(space.matrix)
    return Moments(count, mean.numpy(), (covariance / max(count, 1)).numpy())


def _present(space: Space, start: int, block_rows: int) -> "torch.Tensor":  # type: ignore[name-defined] # noqa: F821
    """The present rows of one block, (R, D) float32."""
    import torch

    stop = start + block_rows
    present = space.present[start:stop]
    block = space.matrix[start:stop]
    kept = np.array(block) if present.all() else block[present]
    return torch.from_numpy(kept).float()
