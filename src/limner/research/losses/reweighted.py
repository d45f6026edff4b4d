"""Losses of the baselines of T&K 2022: HAL, THOMAS, distance-weighted sampling, AMRANI and MITHUN.

Similarities with a memory bank of the training set are arguments.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from limner.arrays import expect
from limner.errors import DataError
from limner.research.losses.ranking import finite, hardest_costs, pair_costs, pair_weights, score_table, wide

SHARPNESS = 40.0  # α and β of HAL's weights
TRUE_OFFSET, WRONG_OFFSET = 0.2, 0.1  # ε of true and of wrong pairs


class HalWeights(NamedTuple):
    """Weights of a batch's scores, without gradient.

    Attributes:
        pairs: (B, B) float64 in [0, 1], text rows, image columns; the diagonal is not used.
        true: (B,) float64 in [0, 1], weights of the true pairs.
    """

    pairs: Tensor
    true: Tensor


def hal_loss(
    scores: Tensor,
    neg: Tensor,
    *,
    gamma: float = 30.0,
    epsilon: float = 0.3,
    weights: HalWeights | None = None,
) -> Tensor:
    """Smooth maximum over the wrong candidates, both directions, minus ln(1 + true score).

    Args:
        scores: (B, B) text rows, image columns; true pairs on the diagonal; cosine, unitless.
        neg: (B, B) bool, see `ranking.negatives`; transposed for the direction from picture to text.
        gamma: sharpness, > 0, per score unit.
        epsilon: score below which a wrong candidate adds little.
        weights: see `hal_weights`; None means 1 everywhere (HAL without a bank).
    Returns:
        (): mean over the pairs; can be negative.
    Raises:
        ShapeError: sizes differ, or the mask is invalid.
        NumericsError: a score or weight is not finite, or a weight negative.
    Source: the release of HAL 2020; docs/methods/complementary.md §8.3. Departs: true pairs and duplicates
    are left out of the sums; the release sets them to 0, so that they still contribute.
    """
    table = score_table("hal_loss", scores, neg)
    if weights is None:
        weighted, true = table - epsilon, table.diagonal()
    else:
        finite("hal_loss", "weight", weights.pairs)
        expect("hal_loss", scores=(scores, "B B"), pairs=(weights.pairs, "B B"))
        weighted = weights.pairs.detach().to(table.dtype) * (table - epsilon)
        true = pair_weights("hal_loss", weights.true, len(table)).to(table.dtype) * table.diagonal()
    by_text = _log_1_plus_sum(gamma * weighted, neg)
    by_image = _log_1_plus_sum(gamma * weighted.t(), neg)
    return ((by_text + by_image) / gamma - true.clamp(min=0).log1p()).mean()


def hal_weights(
    scores: Tensor,
    text_bank: Tensor,
    image_bank: Tensor,
    usable: Tensor,
    *,
    nearest: int,
) -> HalWeights:
    """HAL's weights, from the similarity of a batch's items to the wrong items of the bank.

    Args:
        scores: (B, B), see `hal_loss`.
        text_bank: (B, M) cosines of the batch's texts with the bank's pictures.
        image_bank: (B, M) cosines of the batch's pictures with the bank's texts.
        usable: (B, M) bool, bank pairs that are wrong for the batch's pair: another text and picture.
        nearest: number of most similar bank items that count; all if fewer are usable.
    Returns:
        Weights for `hal_loss`; near 1 for items with many similar bank items.
    Raises:
        ShapeError: sizes differ.
        NumericsError: a score is not finite.
        DataError: a row has no usable bank pair.
    Source: the release of HAL 2020; docs/methods/complementary.md §8.3. Departs: `nearest` is limited by
    the size of the bank, not of the batch. As in the release, a wrong pair adds exp(βS − ε) and a true one
    exp(α(S − ε)).
    """
    expect(
        "hal_weights",
        scores=(scores, "B B"),
        text_bank=(text_bank, "B M"),
        image_bank=(image_bank, "B M"),
        usable=(usable, "B M"),
    )
    for name, values in (("score", scores), ("text_bank", text_bank), ("image_bank", image_bank)):
        finite("hal_weights", name, values)
    # log-sums in double precision, because the sums exceed the range of single precision
    true = scores.detach().diagonal().double()
    of_text, of_image = (
        _nearest("hal_weights", bank, usable, nearest).double() for bank in (text_bank, image_bank)
    )
    q = (SHARPNESS * of_text - WRONG_OFFSET).logsumexp(dim=1)
    p = (SHARPNESS * of_image - WRONG_OFFSET).logsumexp(dim=1)
    hubs = torch.logaddexp(q[:, None], p)  # (B, B)
    true_pairs = torch.logaddexp(SHARPNESS * true[:, None], SHARPNESS * true)
    around = torch.logaddexp(
        (SHARPNESS * (of_text - TRUE_OFFSET)).logsumexp(dim=1),
        (SHARPNESS * (of_image - TRUE_OFFSET)).logsumexp(dim=1),
    )
    return HalWeights((hubs - true_pairs).sigmoid(), (around - SHARPNESS * (true - TRUE_OFFSET)).sigmoid())


def in_proportion(values: Tensor, total: float) -> Tensor:
    """Weights for the weighted hinge, proportional to values such as `HalWeights.true` or `pair_density`.

    Args:
        values: (B,) values, at least 0.
        total: λ > 0, sum of the weights; λ = B gives weights of mean 1.
    Returns:
        (B,) weights without gradient.
    Raises:
        NumericsError: a value is not finite or negative.
        DataError: all are 0.
    Source: docs/methods/complementary.md §8.3, `alpha`; §8.5, AMRANI 2021, reconstructed.
    """
    held = pair_weights("in_proportion", values, len(values))
    if not bool(held.sum() > 0):
        raise DataError("weights: all are 0, expected a positive one; the embeddings have collapsed")
    return total * held / held.sum()


def _nearest(where: str, similarities: Tensor, usable: Tensor, nearest: int) -> Tensor:
    """(B, k) largest usable similarities; −∞ if there are fewer."""
    some = usable.any(dim=1)
    if not bool(some.all()):
        row = int((~some).nonzero()[0])
        raise DataError(f"{where}: the bank holds no other pair for row {row}; use a larger bank")
    held = wide(similarities.detach()).masked_fill(~usable, -torch.inf)
    return held.topk(min(nearest, held.shape[1]), dim=1).values


def _log_1_plus_sum(exponents: Tensor, wrong: Tensor) -> Tensor:
    """(B,) ln(1 + Σ eᶻ) over the wrong entries of each row."""
    nothing = torch.zeros_like(exponents[:, :1])
    return torch.cat([nothing, exponents.masked_fill(~wrong, -torch.inf)], dim=1).logsumexp(dim=1)


IMAGES_WEIGHT, TEXTS_WEIGHT = 0.3, 0.2  # weights of the neighbourhood losses


class Neighbourhood(NamedTuple):
    """Similarities within one modality, of a batch and of one sampled neighbour per item.

    Attributes:
        among: (B, B) similarity of items i and j; the diagonal is not used.
        from_near: (B, B) similarity of neighbour i′ of item i with item j.
        neg: (B, B) bool, wrong items j for anchor i, with another id than i and i′; need not be symmetric.
    """

    among: Tensor
    from_near: Tensor
    neg: Tensor


def neighbour_loss(items: Neighbourhood, margin: float) -> Tensor:
    """Hinge: an item should be closer to its neighbour than to other items of the batch.

    Args:
        items: cosines, unitless.
        margin: score units, > 0.
    Returns:
        (): mean over anchors and wrong items, at least 0; 0 if there are none.
    Raises:
        ShapeError: sizes differ, or the mask is not bool and False on its diagonal.
        NumericsError: a similarity is not finite.
    Source: THOMAS 2020; docs/methods/complementary.md §8.2.
    """
    among = score_table("neighbour_loss", items.among, items.neg)
    from_near = score_table("neighbour_loss", items.from_near, items.neg)
    return _mean((margin - from_near.diagonal()[:, None] + among).clamp(min=0), items.neg)


def thomas_loss(
    scores: Tensor,
    texts: Neighbourhood,
    images: Neighbourhood,
    margin: float,
    neg: Tensor,
) -> Tensor:
    """Hinge in both directions, plus 0.3 × the pictures' and 0.2 × the texts' neighbourhood loss.

    Args:
        scores: (B, B) text rows, image columns; true pairs on the diagonal; cosine, unitless.
        texts: similarities of the batch's texts and their neighbours.
        images: similarities of the batch's pictures and their neighbours.
        margin: score units, > 0.
        neg: (B, B) bool, see `ranking.negatives`.
    Returns:
        (): at least 0.
    Raises:
        ShapeError: sizes differ, or a mask is invalid.
        NumericsError: a similarity is not finite.
    Source: THOMAS 2020, with its angular loss replaced by a triplet loss as in T&K 2022;
    docs/methods/complementary.md §8.2. Departs: each mean is over the truly wrong pairs, without duplicates.
    """
    table = score_table("thomas_loss", scores, neg)
    expect("thomas_loss", scores=(scores, "B B"), texts=(texts.among, "B B"), images=(images.among, "B B"))
    by_text, by_image = pair_costs(table, margin, neg)
    to_image, to_text = _mean(by_text, neg), _mean(by_image, neg.t())
    return (
        to_text
        + to_image
        + IMAGES_WEIGHT * neighbour_loss(images, margin)
        + TEXTS_WEIGHT * neighbour_loss(texts, margin)
    )


def _mean(costs: Tensor, wrong: Tensor) -> Tensor:
    return costs.masked_fill(~wrong, 0).sum() / wrong.sum().clamp(min=1)


NOTHING = -1  # for a query without a wrong candidate
CLOSEST, FARTHEST = 0.5, 1.4  # distances are at least CLOSEST; candidates at FARTHEST or more are not sampled


class Drawn(NamedTuple):
    """Wrong candidates of a batch.

    Attributes:
        images: (B,) int64, the picture sampled for each text, or `NOTHING`.
        texts: (B,) int64, the text sampled for each picture, or `NOTHING`.
    """

    images: Tensor
    texts: Tensor


def log_weights(scores: Tensor, neg: Tensor, dim: int) -> Tensor:
    """Log-probability of sampling each candidate of each row, up to a constant per row.

    Args:
        scores: (B, B) queries by candidates, true pairs on the diagonal; cosine.
        neg: (B, B) bool, see `ranking.negatives`.
        dim: n ≥ 2, dimension of the sphere; for large n almost only the closest candidates are sampled.
    Returns:
        (B, B) float64 without gradient; −∞ for candidates that are never sampled. If a row has no wrong
        candidate nearer than `FARTHEST`, all its wrong candidates have 0.
    Raises:
        ShapeError: the scores are not square, or the mask is invalid.
        NumericsError: a score is not finite.
    Source: Wu 2017; docs/methods/complementary.md §8.6:
    (2 − n) ln d − ((n − 3)/2) ln(1 − d²/4), with d = √(2 − 2s).
    """
    table = score_table("distance_weighted", scores, neg).detach().double()
    apart = (2 - 2 * table).clamp(min=0).sqrt()
    near = neg & (apart < FARTHEST)
    held = apart.clamp(CLOSEST, FARTHEST)
    weights = (2 - dim) * held.log() - (dim - 3) / 2 * (1 - held * held / 4).log()
    weights = weights.masked_fill(~near, -torch.inf)
    fallback = torch.zeros_like(weights).masked_fill(~neg, -torch.inf)
    return torch.where(near.any(dim=1, keepdim=True), weights, fallback)


def draw(
    scores: Tensor,
    neg: Tensor,
    dim: int,
    *,
    generator: torch.Generator | None = None,
) -> Drawn:
    """Sample one wrong candidate per text and per picture, weighted by distance.

    Args:
        scores: (B, B) text rows, image columns; true pairs on the diagonal; cosine, unitless.
        neg: (B, B) bool; transposed for the direction from picture to text.
        dim: see `log_weights`.
        generator: generator on the CPU; None uses torch's global one.
    Returns:
        The candidates, sampled uniformly if none is nearer than `FARTHEST`.
    Raises:
        ShapeError: the scores are not square, or the mask is invalid.
        NumericsError: a score is not finite.
    Source: Wu 2017; docs/methods/complementary.md §8.6.
    """
    candidates = []
    for table in (scores, scores.t()):
        weights = log_weights(table, neg, dim)
        # Gumbel-max trick: samples from the softmax of the log-weights.
        waits = torch.empty(weights.shape, dtype=torch.float64).exponential_(generator=generator)
        noisy = weights - waits.to(weights.device).log()
        candidates.append(noisy.argmax(dim=1).masked_fill(~neg.any(dim=1), NOTHING))
    return Drawn(*candidates)


def triplet_loss(scores: Tensor, drawn: Drawn, margin: float, neg: Tensor) -> Tensor:
    """Hinge on the sampled candidate, both directions.

    Args:
        scores: (B, B) text rows, image columns; true pairs on the diagonal; cosine, unitless.
        drawn: candidates sampled by `draw` for this batch.
        margin: score units, > 0.
        neg: (B, B) bool, the mask given to `draw`.
    Returns:
        (): mean over the queries with a wrong candidate; 0 if there are none.
    Raises:
        ShapeError: sizes differ, or the mask is invalid.
        NumericsError: a score is not finite.
    Source: T&K 2022, Section 4.1; docs/methods/complementary.md §8.6.
    """
    table = score_table("distance_weighted", scores, neg)
    costs = [(margin - true + wrong).clamp(min=0) for true, wrong in _pairs(table, drawn)]
    return _mean_of(torch.cat(costs))


def _pairs(table: Tensor, drawn: Drawn) -> list[tuple[Tensor, Tensor]]:
    """True and sampled scores of the queries that have a candidate, for each direction."""
    scores = []
    for rows, columns in ((table, drawn.images), (table.t(), drawn.texts)):
        usable = (columns != NOTHING).nonzero().squeeze(1)
        scores.append((rows[usable, usable], rows[usable, columns[usable]]))
    return scores


def _mean_of(costs: Tensor) -> Tensor:
    return costs.sum() / max(len(costs), 1)


def pair_density(texts: Tensor, images: Tensor, usable: Tensor, *, nearest: int) -> Tensor:
    """Mean similarity of each pair to its nearest bank pairs; similarity is the smaller of both modalities'.

    Args:
        texts: (B, M) cosines of the batch's texts with the bank's texts.
        images: (B, M) cosines of the batch's pictures with the bank's pictures.
        usable: (B, M) bool, bank pairs with another text and another picture.
        nearest: number of nearest pairs; all if fewer are usable.
    Returns:
        (B,) in [0, 1], large in dense clusters; without gradient.
    Raises:
        ShapeError: sizes differ.
        NumericsError: a similarity is not finite.
        DataError: a row has no usable bank pair.
    Source: AMRANI 2021, reconstructed; docs/methods/complementary.md §8.5.
    """
    expect("pair_density", texts=(texts, "B M"), images=(images, "B M"), usable=(usable, "B M"))
    finite("pair_density", "text similarity", texts)
    finite("pair_density", "picture similarity", images)
    # clamp, because rounding can leave a cosine just outside [−1, 1]
    of_text, of_image = ((1 + wide(s.detach()).clamp(-1, 1)) / 2 for s in (texts, images))
    largest = _nearest("pair_density", torch.minimum(of_text, of_image), usable, nearest).clamp(min=0)
    return largest.sum(dim=1) / usable.sum(dim=1).clamp(max=nearest)


def mithun_weights(scores: Tensor, neg: Tensor) -> tuple[Tensor, Tensor]:
    """Weight of each pair from the rank of its true item among the candidates of its batch.

    Args:
        scores: (B, B) text rows, image columns; true pairs on the diagonal; cosine, unitless.
        neg: (B, B) bool, see `ranking.negatives`; transposed for the direction from picture to text.
    Returns:
        (B,) for texts as queries and (B,) for pictures as queries, in (1, 2], without gradient: `alpha` and
        `image_alpha` of `weighted_hinge`.
    Raises:
        ShapeError: the scores are not square, or the mask is invalid.
        NumericsError: a score is not finite.
    Source: the release of MITHUN 2018; docs/methods/complementary.md §8.4. Departs: a query's candidates are
    its wrong items and the true one, so B is smaller if the batch has duplicates; ties share their mean rank.
    """
    table = score_table("mithun_weights", scores, neg).detach()
    true = table.diagonal()
    by_text = _weights(table - true[:, None], neg)
    by_image = _weights(table.t() - true[:, None], neg)
    return by_text, by_image


def mithun_loss(scores: Tensor, margin: float, neg: Tensor) -> Tensor:
    """Hinge on the hardest wrong candidate, both directions, each query weighted by its rank.

    Args:
        scores: see `mithun_weights`.
        margin: score units, > 0.
        neg: see `mithun_weights`; a query without a wrong candidate adds 0.
    Returns:
        (): mean over the pairs; the gradient goes to the true and the hardest candidate only, not
            through the ranks.
    Raises:
        ShapeError: the scores are not square, or the mask is invalid.
        NumericsError: a score is not finite.
    Source: the release of MITHUN 2018; docs/methods/complementary.md §8.4.
    """
    table = score_table("mithun_loss", scores, neg)
    of_text, of_image = mithun_weights(table, neg)
    by_text, by_image = hardest_costs(table, margin, neg)
    return (of_text * by_text + of_image * by_image).sum() / len(table)


def _weights(above: Tensor, neg: Tensor) -> Tensor:
    """Weight of each row, given how much each candidate's score exceeds the true one's."""
    better = ((above > 0) & neg).sum(dim=1) + ((above == 0) & neg).sum(dim=1) / 2
    # Rank r = 1 + better, of n + 1 candidates: (n + 1) − r + 1 = n + 1 − better.
    return 1 + 1 / (neg.sum(dim=1) + 1 - better).to(above.dtype)
