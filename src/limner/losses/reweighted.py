"""HAL: log-sum-exp over wrong candidates, with weights that push away hubs.

A rival that looks for hubs in the whole set through a bank of embeddings. It keeps no bank; it gets the
similarities with one.
"""

from typing import Literal, NamedTuple, get_args

import torch
from torch import Tensor
from torch.nn import functional

from limner.arrays import expect
from limner.errors import ConfigError, DataError, ShapeError, unknown
from limner.losses.checks import finite, masked_table, pair_weights, positive, score_table, wide
from limner.losses.ranking import Reduction, hardest_costs, pair_costs, reduced

HalForm = Literal["release", "correct"]


class HalWeights(NamedTuple):
    """Weights of the entries of a batch's score table, without gradient.

    Attributes:
        pairs: (B, B) float64 in [0, 1], text rows, image columns; the diagonal is not used.
        true: (B,) float64 in [0, 1], of the true pairs.
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
    """Smooth maximum over the wrong candidates, both directions, minus the logarithm of the true score.

    Args:
        scores: (B, B) text rows, image columns; true pairs on the diagonal; cosine, unitless.
        neg: (B, B) bool, as `ranking.negatives` gives it; also rules the transposed direction.
        gamma: sharpness, > 0, per score unit.
        epsilon: score below which a wrong candidate hardly counts.
        weights: as `hal_weights` gives them; None is 1 everywhere, HAL without a bank.
    Returns:
        (): mean over the pairs; can be negative.
    Raises:
        ShapeError: sizes differ, or no such mask.
        NumericsError: a score or weight is not finite, or a weight negative.
        ConfigError: gamma not positive.
    Source: the release of HAL 2020; docs/methods/complementary.md §8.3. Departs: true pairs and duplicates
    are left out of the sums, which the release only sets to 0 and so lets contribute.
    """
    positive("hal_loss", "gamma", gamma)
    table = masked_table("hal_loss", scores, neg)
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
    nearest: int = 250,
    alpha: float = 40.0,
    beta: float = 40.0,
    true_epsilon: float = 0.2,
    wrong_epsilon: float = 0.1,
    form: HalForm = "release",
) -> HalWeights:
    """Weights from how near a batch's items are to the wrong items of the whole set.

    Args:
        scores: (B, B) as in `hal_loss`.
        text_bank: (B, M) the batch's texts with the bank's pictures; cosine.
        image_bank: (B, M) the batch's pictures with the bank's texts; cosine.
        usable: (B, M) bool, bank pairs that are truly wrong for the batch's pair: another text and picture.
        nearest: bank items that count, the most similar ones; all where fewer are usable.
        alpha: sharpness for true pairs, > 0.
        beta: sharpness for wrong pairs, > 0.
        true_epsilon: score offset for true pairs.
        wrong_epsilon: offset for wrong pairs.
        form: "release" adds exp(βS − ε); "correct" exp(β(S − ε)), with the parentheses of the true branch.
    Returns:
        Weights for `hal_loss`; near 1 where an item has many near bank items.
    Raises:
        ShapeError: sizes differ, `usable` not bool.
        NumericsError: a score is not finite.
        ConfigError: a sharpness or `nearest` not positive, or no such form.
        DataError: a row has no usable bank pair.
    Source: the release of HAL 2020; docs/methods/complementary.md §8.3. Departs: `nearest` is bound by the
    bank's size, not by the batch's.
    """
    positive("hal_weights", "alpha", alpha)
    positive("hal_weights", "beta", beta)
    positive("hal_weights", "nearest", nearest)
    if form not in get_args(HalForm):
        raise ConfigError("hal_weights: " + unknown("form", form, get_args(HalForm)))
    expect(
        "hal_weights",
        scores=(scores, "B B"),
        text_bank=(text_bank, "B M"),
        image_bank=(image_bank, "B M"),
        usable=(usable, "B M"),
    )
    if usable.dtype != torch.bool:
        raise ShapeError(f"hal_weights: usable is {usable.dtype}, expected bool")
    if not bool(usable.any(dim=1).all()):
        row = int((~usable.any(dim=1)).nonzero()[0])
        raise DataError(f"hal_weights: the bank holds no wrong pair for row {row}; use a larger bank")
    for name, values in (("score", scores), ("text_bank", text_bank), ("image_bank", image_bank)):
        finite("hal_weights", name, values)
    # Logarithms in double precision: the sums themselves span more than single precision holds.
    true = scores.detach().diagonal().double()
    of_text = _nearest(text_bank, usable, nearest)
    of_image = _nearest(image_bank, usable, nearest)
    offset = wrong_epsilon if form == "release" else beta * wrong_epsilon
    q = (beta * of_text - offset).logsumexp(dim=1)
    p = (beta * of_image - offset).logsumexp(dim=1)
    hubs = torch.logaddexp(q[:, None], p)  # (B, B)
    own = torch.logaddexp(beta * true[:, None], beta * true)
    around = torch.logaddexp(
        (alpha * (of_text - true_epsilon)).logsumexp(dim=1),
        (alpha * (of_image - true_epsilon)).logsumexp(dim=1),
    )
    return HalWeights((hubs - own).sigmoid(), (around - alpha * (true - true_epsilon)).sigmoid())


def hal_alpha(true: Tensor, total: float) -> Tensor:
    """HAL's weights of the true pairs for the weighted hinge.

    Args:
        true: (B,) as `HalWeights.true`; ones without a bank.
        total: λ, what the weights sum to, > 0.
    Returns:
        (B,) without gradient.
    Raises:
        NumericsError: a weight is not finite or negative.
        ConfigError: total not positive.
        DataError: all weights are 0.
    Source: docs/methods/complementary.md §8.3, `alpha`.
    """
    positive("hal_alpha", "total", total)
    held = pair_weights("hal_alpha", true, len(true))
    if not bool(held.sum() > 0):
        raise DataError("hal_alpha: all weights are 0; lower alpha of hal_weights")
    return total * held / held.sum()


def _nearest(similarities: Tensor, usable: Tensor, nearest: int) -> Tensor:
    """(B, k) the largest usable ones; −∞, which adds nothing, where there are fewer."""
    held = wide(similarities.detach()).masked_fill(~usable, -torch.inf)
    return held.topk(min(nearest, held.shape[1]), dim=1).values.double()


def _log_1_plus_sum(exponents: Tensor, wrong: Tensor) -> Tensor:
    """(B,) ln(1 + Σ eᶻ) over the wrong entries of each row."""
    nothing = torch.zeros_like(exponents[:, :1])
    return torch.cat([nothing, exponents.masked_fill(~wrong, -torch.inf)], dim=1).logsumexp(dim=1)


ThomasForm = Literal["triplet", "angular"]
ANGULAR = 1.0  # tan² 45°


class Neighbourhood(NamedTuple):
    """Similarities inside one modality, of a batch and of one drawn neighbour per item.

    Attributes:
        among: (B, B) item i with item j; the diagonal is not read.
        near: (B,) item i with its neighbour i′.
        from_near: (B, B) neighbour i′ of item i with item j; "angular" only.
        neg: (B, B) bool, wrong items j for anchor i: other ids than i and than i′. Need not be symmetric.
    """

    among: Tensor
    near: Tensor
    neg: Tensor
    from_near: Tensor | None = None


def neighbour_loss(items: Neighbourhood, margin: float, form: ThomasForm = "triplet") -> Tensor:
    """An item is closer to its neighbour than to other items of its batch.

    Args:
        items: cosines, unitless.
        margin: score units, > 0; "triplet" only.
        form: "triplet" hinge, mean over anchors and wrong items; or "angular", mean over anchors of
            ln(1 + Σ exp(4a (p + q)·n − 2 (1 + a) p·q)) with anchor p, neighbour q and wrong items n.
    Returns:
        (): at least 0; 0 where nothing is wrong.
    Raises:
        ShapeError: sizes differ, or the mask is not bool and False on its diagonal.
        NumericsError: a similarity is not finite.
        ConfigError: no such form, margin not positive, or `from_near` missing.
    Source: THOMAS 2020; docs/methods/complementary.md §8.2.
    """
    _known(form)
    positive("neighbour_loss", "margin", margin)
    expect("neighbour_loss", among=(items.among, "B B"), near=(items.near, "B"))
    finite("neighbour_loss", "neighbour similarity", items.near)
    among = masked_table("neighbour_loss", items.among, items.neg)
    near = wide(items.near)
    if form == "triplet":
        return _mean((margin - near[:, None] + among).clamp(min=0), items.neg)
    if items.from_near is None:
        raise ConfigError("neighbour_loss: 'angular' needs from_near, the neighbours against the batch")
    return _angular(near, among, masked_table("neighbour_loss", items.from_near, items.neg), items.neg)


def thomas_loss(
    scores: Tensor,
    texts: Neighbourhood,
    images: Neighbourhood,
    margin: float,
    neg: Tensor,
    *,
    weights: tuple[float, float, float] = (1.0, 0.3, 0.2),
    form: ThomasForm = "triplet",
) -> Tensor:
    """Both retrieval directions and both neighbourhoods.

    Args:
        scores: (B, B) text rows, image columns; true pairs on the diagonal; cosine, unitless.
        texts: the batch's texts and their neighbours.
        images: its pictures and their neighbours.
        margin: score units, > 0.
        neg: (B, B) bool, as `ranking.negatives` gives it.
        weights: of text-to-image, of the pictures' and of the texts' neighbourhood; image-to-text has 1.
        form: as in `neighbour_loss`, for all four terms; "angular" takes `among` of the other modality as
            the similarity of positives with wrong items.
    Returns:
        (): at least 0.
    Raises:
        ShapeError: sizes differ, or no such masks.
        NumericsError: a similarity is not finite.
        ConfigError: no such form, margin not positive, a weight below 0, or `from_near` missing.
    Source: THOMAS 2020; T&K 2022 replace its angular loss by the triplet; docs/methods/complementary.md §8.2.
    Departs: each mean is over the truly wrong pairs, duplicates left out.
    """
    _known(form)
    if not all(weight >= 0 for weight in weights):
        raise ConfigError(f"thomas_loss: weights {weights}, expected at least 0")
    table = score_table("thomas_loss", scores, margin, neg)
    expect("thomas_loss", scores=(scores, "B B"), texts=(texts.among, "B B"), images=(images.among, "B B"))
    if form == "triplet":
        by_text, by_image = pair_costs(table, margin, neg)
        to_image, to_text = _mean(by_text, neg), _mean(by_image, neg.t())
    else:
        true = table.diagonal()
        to_image = _angular(true, table, masked_table("thomas_loss", images.among, neg), neg)
        to_text = _angular(true, table.t(), masked_table("thomas_loss", texts.among, neg), neg)
    by_t2i, by_images, by_texts = weights
    return (
        to_text
        + by_t2i * to_image
        + by_images * neighbour_loss(images, margin, form)
        + by_texts * neighbour_loss(texts, margin, form)
    )


def _angular(true: Tensor, of_anchor: Tensor, of_positive: Tensor, neg: Tensor) -> Tensor:
    """Mean over anchors; row i holds anchor i against the wrong items, and its positive against them."""
    exponents = 4 * ANGULAR * (of_anchor + of_positive) - 2 * (1 + ANGULAR) * true[:, None]
    # ln(1 + Σ eᶻ) = softplus(ln Σ eᶻ). Rows without a wrong item are 0 and left out before the logarithm,
    # whose gradient they would make NaN.
    usable = neg.any(dim=1)
    if not bool(usable.any()):
        return exponents.sum() * 0
    sums = exponents.masked_fill(~neg, -torch.inf)[usable].logsumexp(dim=1)
    return functional.softplus(sums).sum() / len(neg)


def _mean(costs: Tensor, wrong: Tensor) -> Tensor:
    return costs.masked_fill(~wrong, 0).sum() / wrong.sum().clamp(min=1)


def _known(form: str) -> None:
    if form not in get_args(ThomasForm):
        raise ConfigError("thomas_loss: " + unknown("form", form, get_args(ThomasForm)))


NOTHING = -1  # in place of a candidate, for a query without a wrong one
_CLOSEST = 1e-12  # squared distance below which the gradient of the root is cut


class Drawn(NamedTuple):
    """Wrong candidates of a batch.

    Attributes:
        images: (B,) int64, the picture drawn for each text, or `NOTHING`.
        texts: (B,) int64, the text drawn for each picture, or `NOTHING`.
    """

    images: Tensor
    texts: Tensor


def log_weights(
    scores: Tensor, neg: Tensor, dim: int, *, closest: float = 0.5, farthest: float = 1.4
) -> Tensor:
    """Logarithm of how likely each candidate of each row is to be drawn, up to a constant per row.

    Args:
        scores: (B, B) queries by candidates, true pairs on the diagonal; cosine.
        neg: (B, B) bool, as `ranking.negatives` gives it.
        dim: n, the sphere's dimension, at least 2; large ones draw almost only the closest distance.
        closest: distance that nearer candidates are taken to have, > 0.
        farthest: distance from which on candidates are not drawn, below 2.
    Returns:
        (B, B) float64 without gradient: −∞ for what is never drawn; 0 for all wrong candidates of a row none
        of which is near enough.
    Raises:
        ShapeError: not square, or no such mask.
        NumericsError: a score is not finite.
        ConfigError: dim below 2, or not 0 < closest < farthest < 2.
    Source: Wu 2017; docs/methods/complementary.md §8.6:
    (2 − n) ln d − ((n − 3)/2) ln(1 − d²/4), with d = √(2 − 2s).
    """
    if dim < 2 or not 0 < closest < farthest < 2:
        raise ConfigError(
            f"distance_weighted: dim {dim}, distances {closest} to {farthest}, "
            "expected at least 2 and 0 < closest < farthest < 2"
        )
    table = masked_table("distance_weighted", scores, neg).detach().double()
    apart = (2 - 2 * table).clamp(min=0).sqrt()
    near = neg & (apart < farthest)
    held = apart.clamp(closest, farthest)
    weights = (2 - dim) * held.log() - (dim - 3) / 2 * (1 - held * held / 4).log()
    weights = weights.masked_fill(~near, -torch.inf)
    fallback = torch.zeros_like(weights).masked_fill(~neg, -torch.inf)
    return torch.where(near.any(dim=1, keepdim=True), weights, fallback)


def draw(
    scores: Tensor,
    neg: Tensor,
    dim: int,
    *,
    closest: float = 0.5,
    farthest: float = 1.4,
    generator: torch.Generator | None = None,
) -> Drawn:
    """One wrong candidate per text and per picture.

    Args:
        scores: (B, B) text rows, image columns; true pairs on the diagonal; cosine, unitless.
        neg: (B, B) bool; also rules the transposed direction.
        dim: as in `log_weights`, and so `closest` and `farthest`.
        closest: as in `log_weights`.
        farthest: as in `log_weights`.
        generator: on the CPU; None takes torch's global one.
    Returns:
        Candidates; equally likely ones where none is near enough.
    Raises:
        ShapeError: not square, or no such mask.
        NumericsError: a score is not finite.
        ConfigError: as in `log_weights`.
    Source: Wu 2017; docs/methods/complementary.md §8.6.
    """
    found = []
    for table in (scores, scores.t()):
        weights = log_weights(table, neg, dim, closest=closest, farthest=farthest)
        # Adding Gumbel noise and taking the largest draws from the softmax without leaving the logarithms.
        waits = torch.empty(weights.shape, dtype=torch.float64).exponential_(generator=generator)
        noisy = weights - waits.to(weights.device).log()
        found.append(noisy.argmax(dim=1).masked_fill(~neg.any(dim=1), NOTHING))
    return Drawn(*found)


def triplet_loss(scores: Tensor, drawn: Drawn, margin: float, neg: Tensor) -> Tensor:
    """Hinge on the drawn candidate, both directions.

    Args:
        scores: (B, B) text rows, image columns; true pairs on the diagonal; cosine, unitless.
        drawn: as `draw` gives it for the same batch.
        margin: score units, > 0.
        neg: (B, B) bool, the mask it was drawn under.
    Returns:
        (): mean over the queries that have a wrong candidate; 0 where none has.
    Raises:
        ShapeError: sizes differ, or what was drawn is not wrong.
        NumericsError: a score is not finite.
        ConfigError: margin not positive.
    Source: T&K 2022, Section 4.1; docs/methods/complementary.md §8.6.
    """
    table = score_table("distance_weighted", scores, margin, neg)
    costs = [(margin - true + wrong).clamp(min=0) for true, wrong in _pairs(table, drawn, neg)]
    return _mean_of(torch.cat(costs))


def margin_loss(
    scores: Tensor, drawn: Drawn, neg: Tensor, *, beta: float = 1.2, width: float = 0.2
) -> Tensor:
    """True pairs closer than a boundary, drawn ones farther, both by half of a gap.

    Args:
        scores: as in `triplet_loss`.
        drawn: as in `triplet_loss`.
        neg: as in `triplet_loss`.
        beta: boundary, a distance between unit vectors, > 0.
        width: half of the gap, distance units, > 0.
    Returns:
        (): mean over the queries that have a wrong candidate; 0 where none has.
    Raises:
        ShapeError: sizes differ, or what was drawn is not wrong.
        NumericsError: a score is not finite.
        ConfigError: beta or width not positive.
    Source: Wu 2017; docs/methods/complementary.md §8.6: [d(a,p) − β + .2]₊ + [β − d(a,n) + .2]₊.
    """
    positive("distance_weighted", "beta", beta)
    positive("distance_weighted", "width", width)
    table = masked_table("distance_weighted", scores, neg)
    costs = []
    for true, wrong in _pairs(table, drawn, neg):
        to_true, to_wrong = ((2 - 2 * s).clamp(min=_CLOSEST).sqrt() for s in (true, wrong))
        costs.append((to_true - beta + width).clamp(min=0) + (beta - to_wrong + width).clamp(min=0))
    return _mean_of(torch.cat(costs))


def _pairs(table: Tensor, drawn: Drawn, neg: Tensor) -> list[tuple[Tensor, Tensor]]:
    """True and drawn scores of the queries that have a candidate, per direction."""
    expect("distance_weighted", scores=(table, "B B"), images=(drawn.images, "B"), texts=(drawn.texts, "B"))
    found = []
    for rows, columns in ((table, drawn.images), (table.t(), drawn.texts)):
        usable = (columns != NOTHING).nonzero().squeeze(1)
        picked = columns[usable]
        if bool((picked < 0).any()) or bool((picked >= len(table)).any()):
            raise ShapeError(f"distance_weighted: a drawn candidate is not one of 0 to {len(table) - 1}")
        if not bool(neg[usable, picked].all()):
            raise ShapeError(
                "distance_weighted: a drawn candidate is not a wrong one; draw for the same batch"
            )
        found.append((rows[usable, usable], rows[usable, picked]))
    return found


def _mean_of(costs: Tensor) -> Tensor:
    return costs.sum() / max(len(costs), 1)


Combination = Literal["min", "product"]


def pair_density(
    texts: Tensor, images: Tensor, usable: Tensor, *, nearest: int = 50, combine: Combination = "min"
) -> Tensor:
    """Mean similarity of each pair to the pairs nearest to it in both modalities.

    Args:
        texts: (B, M) the batch's texts with the bank's texts; cosine.
        images: (B, M) the batch's pictures with the bank's pictures; cosine.
        usable: (B, M) bool, bank pairs with another text and another picture than the batch's pair.
        nearest: how many count; all where fewer are usable.
        combine: a pair is as similar as its less similar modality ("min"), or as their "product".
    Returns:
        (B,) in [0, 1], large in tight clusters; without gradient.
    Raises:
        ShapeError: sizes differ, `usable` not bool.
        NumericsError: a similarity is not finite.
        ConfigError: `nearest` not positive, or no such combination.
        DataError: a row has no usable bank pair.
    Source: AMRANI 2021, reconstructed; docs/methods/complementary.md §8.5.
    """
    expect("pair_density", texts=(texts, "B M"), images=(images, "B M"), usable=(usable, "B M"))
    positive("pair_density", "nearest", nearest)
    if combine not in get_args(Combination):
        raise ConfigError("pair_density: " + unknown("combination", combine, get_args(Combination)))
    if usable.dtype != torch.bool:
        raise ShapeError(f"pair_density: usable is {usable.dtype}, expected bool")
    finite("pair_density", "text similarity", texts)
    finite("pair_density", "picture similarity", images)
    counts = usable.sum(dim=1)
    if not bool(counts.all()):
        row = int((counts == 0).nonzero()[0])
        raise DataError(f"pair_density: the bank holds no other pair for row {row}; use a larger bank")
    # Rounding may leave a cosine just outside [−1, 1].
    of_text, of_image = ((1 + wide(s.detach()).clamp(-1, 1)) / 2 for s in (texts, images))
    both = torch.minimum(of_text, of_image) if combine == "min" else of_text * of_image
    # What is not usable is below everything that is, and adds 0 where it is taken for want of others.
    largest = both.masked_fill(~usable, -1).topk(min(nearest, both.shape[1]), dim=1).values.clamp(min=0)
    return largest.sum(dim=1) / counts.clamp(max=nearest)


def amrani_weights(density: Tensor, total: float) -> Tensor:
    """Weights for the weighted hinge, larger in denser places.

    Args:
        density: (B,) as `pair_density` gives it.
        total: λ, what the weights sum to, > 0; λ = B gives weights of mean 1.
    Returns:
        (B,) without gradient.
    Raises:
        NumericsError: a density is not finite or negative.
        ConfigError: total not positive.
        DataError: all densities are 0.
    Source: AMRANI 2021, reconstructed; docs/methods/complementary.md §8.5.
    """
    positive("amrani_weights", "total", total)
    held = pair_weights("amrani_weights", density, len(density))
    if not bool(held.sum() > 0):
        raise DataError(
            "amrani_weights: all densities are 0, expected one above; the embeddings have collapsed"
        )
    return total * held / held.sum()


def mithun_weights(scores: Tensor, neg: Tensor, beta: float = 1.0) -> tuple[Tensor, Tensor]:
    """Weight of each pair from the rank of its true item among the candidates of its batch.

    Args:
        scores: (B, B) text rows, image columns; true pairs on the diagonal; cosine, unitless.
        neg: (B, B) bool, as `ranking.negatives` gives it; also rules the transposed direction.
        beta: unitless, at least 0.
    Returns:
        (B,) where texts ask and (B,) where pictures ask, in (1, 1 + β]; without gradient. For
        `weighted_hinge` they are `alpha` and `image_alpha`.
    Raises:
        ShapeError: not square, or no such mask.
        NumericsError: a score is not finite.
        ConfigError: beta below 0.
    Source: the release of MITHUN 2018; docs/methods/complementary.md §8.4. Departs: a query's candidates are
    its wrong items and the true one, so that B is smaller where the batch holds duplicates; ties share the
    mean of their ranks.
    """
    if not beta >= 0:
        raise ConfigError(f"mithun_weights: beta {beta}, expected at least 0")
    table = masked_table("mithun_weights", scores, neg).detach()
    true = table.diagonal()
    by_text = _weights(table - true[:, None], neg, beta)
    by_image = _weights(table.t() - true[:, None], neg, beta)
    return by_text, by_image


def mithun_loss(
    scores: Tensor, margin: float, neg: Tensor, beta: float = 1.0, reduction: Reduction = "sum"
) -> Tensor:
    """Hinge on the hardest wrong candidate, both directions, each query weighted by its rank.

    Args:
        scores: as in `mithun_weights`.
        margin: score units, > 0.
        neg: as in `mithun_weights`; a query without a wrong candidate adds 0.
        beta: as in `mithun_weights`; 0 gives `ranking.max_hinge`.
        reduction: "sum" over the pairs, or "mean" per pair (÷ B).
    Returns:
        (): the gradient goes to the true and the hardest candidate only, none through the ranks.
    Raises:
        ShapeError: not square, or no such mask.
        NumericsError: a score is not finite.
        ConfigError: margin not positive, beta below 0, or no such reduction.
    Source: the release of MITHUN 2018; docs/methods/complementary.md §8.4.
    """
    table = score_table("mithun_loss", scores, margin, neg)
    of_text, of_image = mithun_weights(table, neg, beta)
    by_text, by_image = hardest_costs(table, margin, neg)
    return reduced((of_text * by_text + of_image * by_image).sum(), len(table), reduction)


def _weights(above: Tensor, neg: Tensor, beta: float) -> Tensor:
    """Per row, from how far each candidate lies above the true one."""
    better = ((above > 0) & neg).sum(dim=1) + ((above == 0) & neg).sum(dim=1) / 2
    # Rank r = 1 + better, of n + 1 candidates: (n + 1) − r + 1 = n + 1 − better.
    return 1 + beta / (neg.sum(dim=1) + 1 - better).to(above.dtype)
