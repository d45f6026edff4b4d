"""Semantic neighbourhoods: pictures stay near pictures of like texts, and texts near like texts.

A rival that draws one neighbour per pair and pulls it close instead of weighing pairs. It draws no
neighbours; it gets their similarities.
"""

from typing import Literal, NamedTuple, get_args

import torch
from torch import Tensor
from torch.nn import functional

from limner.errors import ConfigError, unknown
from limner.losses.checks import finite, masked_table, positive, score_table, wide
from limner.losses.ranking import pair_costs
from limner.shapes import expect

Form = Literal["triplet", "angular"]
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


def neighbour_loss(items: Neighbourhood, margin: float, form: Form = "triplet") -> Tensor:
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
    Source: SPEC 6.5.
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
    form: Form = "triplet",
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
    Source: SPEC 6.5 (T&K replace the authors' angular loss by the triplet). Departs: each mean is over the
    truly wrong pairs, duplicates left out.
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
    if form not in get_args(Form):
        raise ConfigError("thomas_loss: " + unknown("form", form, get_args(Form)))
