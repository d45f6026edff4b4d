"""What lies around a pair: diversity and discrepancy of neighbourhoods, exact for a whole data set.

Two passes over neighbour lists give both, where the paper samples for every batch. It builds no neighbour
graph and keeps no memory of embeddings; no gradient flows through a score.
"""

from typing import TYPE_CHECKING, Literal, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import embedding_bag

from limner.errors import ConfigError, NumericsError, ShapeError, unknown
from limner.shapes import expect

if TYPE_CHECKING:
    from scipy.sparse import csr_array

_BLOCK = 1 << 22  # neighbours of neighbours looked at together


class NeighbourMatrix(NamedTuple):
    """The row-stochastic matrix A of a neighbour graph: A_ij = 1/N_i for the N_i neighbours j of i.

    Attributes:
        indices: (E,) int64, the neighbours of row 0, then of row 1 …
        offsets: (n,) int64, where each row's begin.
        counts: (n,) int64, N_i.
    """

    indices: Tensor
    offsets: Tensor
    counts: Tensor


def neighbour_matrix(neighbours: Tensor) -> NeighbourMatrix:
    """The matrix of a table of neighbours.

    Args:
        neighbours: (n, N) integers, −1 where a row has fewer.
    Raises:
        ShapeError: a neighbour is no row.
    """
    size = expect("neighbourhoods", neighbours=(neighbours, "n N"))["n"]
    real = neighbours >= 0
    counts = real.sum(dim=1)
    indices = neighbours[real].long()
    if len(indices) and int(indices.max()) >= size:
        raise ShapeError(f"neighbourhoods: neighbour {int(indices.max())} of {size} rows")
    return NeighbourMatrix(indices, counts.cumsum(0) - counts, counts)


def means(matrix: NeighbourMatrix, vectors: Tensor) -> Tensor:
    """A E: the mean of every row's neighbours, zero where it has none.

    Args:
        matrix: of n rows.
        vectors: (n, H) float.
    Returns:
        (n, H).
    Source: SPEC 3.5.
    """
    if vectors.ndim != 2 or len(vectors) != len(matrix.counts):
        raise ShapeError(
            f"neighbourhoods: vectors {tuple(vectors.shape)}, expected ({len(matrix.counts)}, H)"
        )
    if not bool(torch.isfinite(vectors).all()):
        raise NumericsError("neighbourhoods: a vector of the memory is not finite; lower the learning rate")
    wide = vectors.detach()
    wide = wide if wide.dtype == torch.float64 else wide.float()
    indices, offsets = matrix.indices.to(wide.device), matrix.offsets.to(wide.device)
    return embedding_bag(indices, wide, offsets, mode="mean")


def diversity(
    matrix: NeighbourMatrix,
    vectors: Tensor,
    diagonal: Literal["keep", "drop"] = "keep",
    *,
    near: Tensor | None = None,
) -> Tensor:
    """DIV: mean similarity among the neighbours of every row; large where they are much alike.

    Args:
        matrix: of n rows.
        vectors: (n, H), usually means of K unit heads.
        diagonal: "keep" a neighbour's similarity with itself among the N², or "drop" it.
        near: `means` of the vectors, where they are known already.
    Returns:
        (n,), 0 where a row has no neighbour (or, without the diagonal, only one).
    Source: SPEC 3.5 (T&K, Equation 4), by shortcuts 4, 5 and 9 of SPEC 1.12.
    """
    own = (means(matrix, vectors) if near is None else near).square().sum(dim=1)
    if diagonal == "keep":
        return own
    if diagonal != "drop":
        raise ConfigError("neighbourhoods: " + unknown("choice of diagonal", diagonal, ("keep", "drop")))
    count = matrix.counts.to(own)
    lengths = vectors.detach().to(own).square().sum(dim=1, keepdim=True)
    self_part = means(matrix, lengths).squeeze(1) * count  # Σ‖e‖² over the neighbours
    return torch.where(
        count > 1,
        (count.square() * own - self_part) / (count * (count - 1)).clamp(min=1),
        torch.zeros_like(own),
    )


def discrepancy(
    matrix: NeighbourMatrix,
    vectors: Tensor,
    *,
    own: Literal["keep", "drop"] = "keep",
    nn: Literal["multiset", "unique"] = "multiset",
    near: Tensor | None = None,
) -> Tensor:
    """DIS: mean similarity of every row with the neighbours of its neighbours.

    Args:
        matrix: of n rows.
        vectors: (n, H).
        own: "keep" or "drop" the returns to the row itself.
        nn: "multiset" counts a row as often as it is met, as the paper's N² says; "unique" once.
        near: `means` of the vectors, where they are known already.
    Returns:
        (n,), 0 where nothing is left to compare with.
    Raises:
        ConfigError: no such choice.
    Source: SPEC 3.5 (T&K, Equation 2), by shortcuts 6 and 7 of SPEC 1.12. The weight of a row that is met is
        1/N_i · 1/N_j along the way; with N neighbours each that is the mean over N² rows.
    """
    for name, value, choices in (("own", own, ("keep", "drop")), ("nn", nn, ("multiset", "unique"))):
        if value not in choices:
            raise ConfigError("neighbourhoods: " + unknown(f"choice of {name}", value, choices))
    wide = vectors.detach()
    wide = wide if wide.dtype == torch.float64 else wide.float()
    if nn == "unique":
        return _over_unique(matrix, wide, own)
    found = (wide * means(matrix, means(matrix, vectors) if near is None else near)).sum(dim=1)
    if own == "keep":
        return found
    back = _returns(matrix).to(found)
    rest = found - back * wide.square().sum(dim=1)
    return torch.where(back < 1 - 1e-9, rest / (1 - back).clamp(min=1e-9), torch.zeros_like(found))


def sampled_discrepancy(
    matrix: NeighbourMatrix, vectors: Tensor, *, samples: int = 1000, seed: int = 0
) -> Tensor:
    """DIS as the paper estimates it: over neighbours of neighbours drawn with replacement.

    Args:
        matrix: of n rows.
        vectors: (n, H).
        samples: drawn per row, at least 1.
        seed: of the draws.
    Returns:
        (n,), in expectation what `discrepancy` gives, where every neighbour has neighbours.
    Source: SPEC 3.5, `sampled1000`; for comparison only, the exact value is cheaper.
    """
    if samples < 1:
        raise ConfigError(f"neighbourhoods: {samples} samples, expected at least 1")
    generator = torch.Generator().manual_seed(seed)
    indices, offsets, counts = (part.cpu() for part in matrix)
    wide = vectors.detach().float()
    found = torch.zeros(len(counts), device=wide.device)
    rows = (counts > 0).nonzero().squeeze(1)
    for some in torch.split(rows, max(1, _BLOCK // samples)):
        at = some[:, None].expand(-1, samples)
        for _ in range(2):
            drawn = (torch.rand(at.shape, generator=generator) * counts[at]).long()
            drawn = torch.minimum(drawn, (counts[at] - 1).clamp(min=0))
            # a neighbour without neighbours of its own stands for itself
            at = torch.where(counts[at] > 0, indices[(offsets[at] + drawn).clamp(max=len(indices) - 1)], at)
        near = embedding_bag(at.to(wide.device), wide, mode="mean")
        found[some] = (wide[some] * near).sum(dim=1)
    return found


def _returns(matrix: NeighbourMatrix) -> Tensor:
    """(n,) float64: how much of a row's neighbours of neighbours is the row itself."""
    held = _sparse(matrix)
    # (A Aᵗʰ)_ii = Σ_j A_ij A_ji, without the product
    return torch.from_numpy(held.multiply(held.T).sum(axis=1))


def _sparse(matrix: NeighbourMatrix) -> "csr_array":
    """A as scipy's sparse array."""
    import numpy as np
    from scipy.sparse import csr_array

    counts = matrix.counts.cpu().numpy()
    starts = np.concatenate([[0], np.cumsum(counts)])
    values = np.repeat(1.0 / np.maximum(counts, 1), counts)
    size = len(counts)
    return csr_array((values, matrix.indices.cpu().numpy(), starts), shape=(size, size))


def _over_unique(matrix: NeighbourMatrix, vectors: Tensor, own: str) -> Tensor:
    """DIS over the set of neighbours of neighbours, some rows at a time."""
    held = _sparse(matrix)
    held.data[:] = 1.0
    size = len(matrix.counts)
    most = max(1, int(matrix.counts.max()) if size else 1)
    step = max(1, _BLOCK // most**2)
    found = torch.zeros(size, dtype=vectors.dtype, device=vectors.device)
    for start in range(0, size, step):
        met = (held[start : start + step] @ held).tocsr()
        if own == "drop":
            met = met.tolil()
            for row in range(met.shape[0]):
                met[row, start + row] = 0
            met = met.tocsr()
            met.eliminate_zeros()
        indices = torch.from_numpy(met.indices).long().to(vectors.device)
        offsets = torch.from_numpy(met.indptr[:-1]).long().to(vectors.device)
        near = embedding_bag(indices, vectors, offsets, mode="mean")
        found[start : start + step] = (vectors[start : start + len(near)] * near).sum(dim=1)
    return found
