"""Weights of pairs from their neighbourhoods (T&K 2022): the scores DIV and DIS, and the weighted hinge.

The paper's formulas are ambiguous; each interpretation is an option. No gradient flows through a weight.
"""

from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import embedding_bag

from limner.arrays import expect
from limner.errors import NumericsError, ShapeError
from limner.research.losses.ranking import finite, pair_costs, pair_weights, score_table, wide

if TYPE_CHECKING:
    from scipy.sparse import csr_array


Mode = Literal["absdiff", "sum", "x", "y", "max", "product"]
Reading = Literal["literal", "lambda_both", "lambda_out", "sound"]


def combined_stats(
    div: Tensor, dis: Tensor, every_div: Tensor, every_dis: Tensor, *, sound: bool = False
) -> Tensor:
    """Combine DIV and DIS: each times the mean · standard deviation of its raw scores, then summed.

    Args:
        div: (n,) DIV scores of one modality.
        dis: (n,) DIS scores of the same modality.
        every_div: DIV scores of both modalities, for the statistics.
        every_dis: DIS scores of both modalities, for the statistics.
        sound: whether to standardise each score first.
    Returns:
        (n,) combined scores.
    Source: T&K 2022, Eq. 8, in the interpretation that matches its Table 1; docs/methods/complementary.md
    §6.3.
    """
    parts = []
    for scores, every in ((div, every_div), (dis, every_dis)):
        factor = every.mean() * every.std(correction=0)
        parts.append(factor * (z_scores(scores) if sound else scores))
    return parts[0] + parts[1]


def z_scores(values: Tensor) -> Tensor:
    """Standardise (n,) values to mean 0 and standard deviation 1; zeros if all are equal."""
    apart = values - values.mean()
    deviation = values.std(correction=0)
    return apart / deviation if float(deviation) > 0 else torch.zeros_like(apart)


def batch_weights(
    x: Tensor,
    y: Tensor,
    *,
    lam: float,
    gamma: int = -1,
    mode: Mode = "absdiff",
    reading: Reading = "lambda_both",
    tau: float = 1.0,
) -> Tensor:
    """Weights of a batch's pairs from their scores.

    α_M = softmax(Γ·score_M) per modality M, combined by `mode`, then a second softmax; `reading` says where λ
    is applied.

    Args:
        x: (B,) scores of the pictures.
        y: (B,) scores of the texts.
        lam: λ > 0.
        gamma: Γ: −1, 0 or 1.
        mode: combination of α_X and α_Y: |α_X − α_Y|, their sum, one of them, the larger, or their product.
        reading: "literal" applies λ inside the second softmax (weights sum to 1); "lambda_both" inside and
            outside; "lambda_out" outside; "sound" combines the (standardised) scores themselves:
            λ·softmax(combine(Γ·x, Γ·y)/τ).
        tau: τ > 0, used by "sound".
    Returns:
        (B,) at least 0, with sum λ (1 for "literal"), without gradient.
    Raises:
        NumericsError: a score is not finite.
    Source: T&K 2022, Eqs. 3 and 6; docs/methods/complementary.md §6.1, §6.2; the mode gives the
    input of the second softmax, also for "x" and "y".
    """
    expect("weighting", x=(x, "B"), y=(y, "B"))
    scores = torch.stack([x, y]).detach() * gamma
    finite("weighting", "score", scores)
    if reading == "sound":
        return lam * torch.softmax(_joined(scores, mode) / tau, dim=0)
    inside = lam if reading in ("literal", "lambda_both") else 1.0
    outside = lam if reading in ("lambda_both", "lambda_out") else 1.0
    return outside * torch.softmax(_joined(inside * torch.softmax(scores, dim=1), mode), dim=0)


def spread(alpha: Tensor) -> tuple[float, float]:
    """Ratio of the largest to the smallest weight of a batch, and entropy of the weights in nats."""
    shares = alpha.detach().double() / alpha.detach().double().sum()
    entropy = -(shares * shares.clamp(min=1e-300).log()).sum()
    return float(alpha.max() / alpha.min().clamp(min=1e-30)), float(entropy)


def drift(before: Tensor, after: Tensor) -> float:
    """Spearman's correlation of scores with those of the previous epoch; 0 if either is constant."""
    from scipy.stats import rankdata

    ranks = [torch.from_numpy(rankdata(part.detach().cpu().numpy())) for part in (before, after)]
    first, second = (z_scores(part) for part in ranks)
    return float((first * second).mean())


def _joined(parts: Tensor, mode: Mode) -> Tensor:
    """Combine the two modalities: (2, B) → (B,)."""
    x, y = parts
    joined: dict[Mode, Tensor] = {"absdiff": (x - y).abs(), "sum": x + y, "x": x, "y": y}
    joined |= {"max": torch.maximum(x, y), "product": x * y}
    return joined[mode]


def weighted_hinge(
    scores: Tensor, alpha: Tensor, margin: float, neg: Tensor, *, image_alpha: Tensor | None = None
) -> Tensor:
    """Hinge on every wrong candidate, both directions, each query weighted by the weight of its true pair.

    Args:
        scores: (B, B) text rows, image columns; true pairs on the diagonal; cosine, unitless.
        alpha: (B,) at least 0; no gradient flows to it.
        margin: score units, > 0.
        neg: (B, B) bool, see `ranking.negatives`; transposed for the direction from picture to text.
        image_alpha: (B,) weights for the direction from picture to text; None uses `alpha`.
    Returns:
        (): the weighted sum ÷ 2B²; 0 for a batch without a wrong candidate.
    Raises:
        ShapeError: sizes differ, or the mask is invalid.
        NumericsError: a score or weight is not finite, or a weight negative.
    Source: T&K 2022, Eq. 1; docs/methods/complementary.md §7.1, §8.4 for weights per direction. Departs:
    duplicates are not candidates; the divisor stays 2B², so that duplicates do not increase the weight of
    other pairs.
    """
    table = score_table("weighted_hinge", scores, neg)
    size = len(table)
    of_text = pair_weights("weighted_hinge", alpha, size)
    of_image = of_text if image_alpha is None else pair_weights("weighted_hinge", image_alpha, size)
    by_text, by_image = pair_costs(table, margin, neg)
    return (of_text[:, None] * by_text + of_image * by_image).sum() / (2 * size**2)


_BLOCK = 1 << 22  # neighbours of neighbours in memory at once


class NeighbourMatrix(NamedTuple):
    """The row-stochastic matrix A of a neighbour graph: A_ij = 1/N_i for the N_i neighbours j of i.

    Attributes:
        indices: (E,) neighbours of row 0, then of row 1, …; int32 if possible, else int64.
        offsets: (n,) int64, start of each row's neighbours in `indices`.
        counts: (n,) int64, numbers of neighbours N_i.
    """

    indices: Tensor
    offsets: Tensor
    counts: Tensor


def neighbour_matrix(neighbours: Tensor) -> NeighbourMatrix:
    """Convert a table of neighbours to its matrix.

    Args:
        neighbours: (n, N) row numbers; −1 if a row has fewer.
    Raises:
        ShapeError: a row number is too large.
    """
    size = expect("neighbourhoods", neighbours=(neighbours, "n N"))["n"]
    real = neighbours >= 0
    counts = real.sum(dim=1)
    indices = neighbours[real]
    indices = indices.to(torch.int32 if len(indices) < 1 << 31 else torch.int64)
    if len(indices) and int(indices.max()) >= size:
        raise ShapeError(
            f"neighbourhoods: neighbour {int(indices.max())} of {size} rows, expected at most {size - 1}"
        )
    return NeighbourMatrix(indices, counts.cumsum(0) - counts, counts)


def means(matrix: NeighbourMatrix, vectors: Tensor) -> Tensor:
    """Mean of each row's neighbours (A E); zero if it has none.

    Args:
        matrix: neighbour matrix A of n rows.
        vectors: (n, H) vectors E.
    Returns:
        (n, H) means.
    Raises:
        ShapeError: the vectors are not (n, H).
        NumericsError: a vector is not finite.
    Source: docs/methods/complementary.md §5.
    """
    if vectors.ndim != 2 or len(vectors) != len(matrix.counts):
        raise ShapeError(
            f"neighbourhoods: vectors {tuple(vectors.shape)}, expected ({len(matrix.counts)}, H)"
        )
    if not bool(torch.isfinite(vectors).all()):
        raise NumericsError("neighbourhoods: a stored embedding is not finite; lower the learning rate")
    held = wide(vectors.detach())
    indices, offsets = matrix.indices.to(held.device), matrix.offsets.to(held.device, matrix.indices.dtype)
    return embedding_bag(indices, held, offsets, mode="mean")


def diversity(matrix: NeighbourMatrix, vectors: Tensor, *, near: Tensor | None = None) -> Tensor:
    """DIV: mean similarity among the neighbours of each row; large if they are similar.

    Args:
        matrix: neighbour matrix of n rows.
        vectors: (n, H), usually means of K unit heads.
        near: `means` of the vectors, if already computed.
    Returns:
        (n,); 0 for rows without neighbours.
    Source: T&K 2022, Eq. 4; docs/methods/complementary.md §5.1: the mean of all N² products is the squared
    length of the mean.
    """
    return (means(matrix, vectors) if near is None else near).square().sum(dim=1)


def discrepancy(
    matrix: NeighbourMatrix,
    vectors: Tensor,
    *,
    own: Literal["keep", "drop"] = "keep",
    nn: Literal["multiset", "unique"] = "multiset",
    hops: Literal[1, 2] = 2,
    near: Tensor | None = None,
) -> Tensor:
    """DIS: mean similarity of each row with the neighbours of its neighbours.

    Args:
        matrix: neighbour matrix of n rows.
        vectors: (n, H) vectors.
        own: whether to "keep" or "drop" paths that return to the row itself.
        nn: "multiset" counts a row once per path, as the paper's N² implies; "unique" counts it once.
        hops: 2, or 1 for the direct neighbours, which occur once and never include the row itself.
        near: `means` of the vectors, if already computed.
    Returns:
        (n,); 0 for rows with nothing to compare with.
    Source: T&K 2022, Eq. 2; docs/methods/complementary.md §5.2. A path i → j → k has weight 1/N_i · 1/N_j;
    with N neighbours everywhere that is the mean over N² rows.
    """
    held = wide(vectors.detach())
    if nn == "unique" and hops == 2:
        return _over_unique(matrix, held, own)
    near = means(matrix, vectors) if near is None else near
    similarity = (held * (means(matrix, near) if hops == 2 else near)).sum(dim=1)
    if own == "keep" or hops == 1:
        return similarity
    back = _returns(matrix).to(similarity)
    rest = similarity - back * held.square().sum(dim=1)
    return torch.where(back < 1 - 1e-9, rest / (1 - back).clamp(min=1e-9), torch.zeros_like(similarity))


def best_heads(neighbours: Tensor, heads: Tensor, *, diverse: bool, hops: Literal[1, 2] = 2) -> Tensor:
    """DIV or DIS with the largest of K² cosines as similarity; compares every pair explicitly.

    Args:
        neighbours: (n, N) row numbers; −1 if a row has fewer. The cost grows with N² · K² · H.
        heads: (n, K, H) unit vectors.
        diverse: whether to compute DIV; otherwise DIS.
        hops: hops of DIS.
    Returns:
        (n,) means as in `diversity` and `discrepancy`; 0 for rows with nothing to compare with.
    Source: T&K 2022, Section 3.1, whose similarity is the largest of K²; docs/methods/complementary.md §5.3.
    """
    sizes = expect("best_heads", neighbours=(neighbours, "n N"), heads=(heads, "n K H"))
    held, table = wide(heads.detach()), neighbours.to(heads.device).long()
    real = table >= 0
    share = real.to(held) / real.sum(dim=1, keepdim=True).clamp(min=1)  # (n, N), a row of A
    twice = not diverse and hops == 2
    step = max(1, _BLOCK // max(1, sizes["N"] ** (2 if twice else 1) * sizes["K"] * sizes["H"]))
    result = torch.zeros(sizes["n"], dtype=held.dtype, device=held.device)
    for some in torch.split(torch.arange(sizes["n"], device=held.device), step):
        near, weight = table[some], share[some]  # (b, N); entries of −1 have weight 0
        asked, asks = held[some][:, None], torch.ones_like(weight[:, :1])
        if diverse:
            asked, asks = held[near], weight
        elif twice:
            weight = (weight[:, :, None] * share[near]).flatten(1)
            near = table[near].flatten(1)  # (b, N²)
        cosines = torch.einsum("bakh,bcjh->bacjk", asked, held[near]).amax(dim=(3, 4))
        result[some] = torch.einsum("bac,ba,bc->b", cosines, asks, weight)
    return result


def fewer(neighbours: Tensor, most: int, *, seed: int) -> Tensor:
    """Sample at most `most` neighbours per row without replacement: (n, N) → (n, ≤ most), padded with −1."""
    if neighbours.shape[1] <= most:
        return neighbours
    keys = torch.rand(neighbours.shape, generator=torch.Generator().manual_seed(seed))
    chosen = keys.masked_fill(neighbours < 0, 2.0).topk(most, dim=1, largest=False).indices
    return neighbours.gather(1, chosen)


def sampled_discrepancy(
    matrix: NeighbourMatrix, vectors: Tensor, *, samples: int = 1000, seed: int
) -> Tensor:
    """DIS as estimated in the paper, from neighbours of neighbours sampled with replacement.

    Args:
        matrix: neighbour matrix of n rows.
        vectors: (n, H) vectors.
        samples: number of samples per row, at least 1.
        seed: seed of the samples.
    Returns:
        (n,), with the expectation of `discrepancy` if every neighbour has neighbours.
    Source: T&K 2022, Section 3.5; docs/methods/complementary.md §5.2; only for comparison, because the exact
    value is cheaper.
    """
    generator = torch.Generator().manual_seed(seed)
    indices, offsets, counts = (part.cpu() for part in matrix)
    held = vectors.detach().float()
    result = torch.zeros(len(counts), device=held.device)
    rows = (counts > 0).nonzero().squeeze(1)
    for some in torch.split(rows, max(1, _BLOCK // samples)):
        at = some[:, None].expand(-1, samples)
        for _ in range(2):
            drawn = (torch.rand(at.shape, generator=generator) * counts[at]).long()
            # a path that reaches a row without neighbours stays there
            at = torch.where(counts[at] > 0, indices[(offsets[at] + drawn).clamp(max=len(indices) - 1)], at)
        near = embedding_bag(at.to(held.device), held, mode="mean")
        result[some] = (held[some] * near).sum(dim=1)
    return result


def _returns(matrix: NeighbourMatrix) -> Tensor:
    """(n,) float64: weight of the two-hop paths that return to the row."""
    held = _sparse(matrix)
    # (A Aᵗʰ)_ii = Σ_j A_ij A_ji, without the product
    return torch.from_numpy(held.multiply(held.T).sum(axis=1))


def _sparse(matrix: NeighbourMatrix) -> "csr_array":
    """A as a scipy sparse array."""
    from scipy.sparse import csr_array

    counts = matrix.counts.cpu().numpy()
    starts = np.concatenate([[0], np.cumsum(counts)])
    values = np.repeat(1.0 / np.maximum(counts, 1), counts)
    size = len(counts)
    return csr_array((values, matrix.indices.cpu().numpy(), starts), shape=(size, size))


def _over_unique(matrix: NeighbourMatrix, vectors: Tensor, own: str) -> Tensor:
    """DIS over the set of neighbours of neighbours, in blocks of rows."""
    held = _sparse(matrix)
    held.data[:] = 1.0
    size = len(matrix.counts)
    most = max(1, int(matrix.counts.max()) if size else 1)
    step = max(1, _BLOCK // most**2)
    result = torch.zeros(size, dtype=vectors.dtype, device=vectors.device)
    for start in range(0, size, step):
        met = (held[start : start + step] @ held).tocsr()
        if own == "drop":
            met = met.tolil()
            met.setdiag(0, k=start)
            met = met.tocsr()
            met.eliminate_zeros()
        indices = torch.from_numpy(met.indices).long().to(vectors.device)
        offsets = torch.from_numpy(met.indptr[:-1]).long().to(vectors.device)
        near = embedding_bag(indices, vectors, offsets, mode="mean")
        result[start : start + step] = (vectors[start : start + len(near)] * near).sum(dim=1)
    return result
