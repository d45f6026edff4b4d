"""HAL: log-sum-exp over wrong candidates, with weights that push away hubs.

A rival that looks for hubs in the whole set through a bank of embeddings. It keeps no bank; it gets the
similarities with one.
"""

from typing import Literal, NamedTuple, get_args

import torch
from torch import Tensor

from limner.errors import ConfigError, DataError, ShapeError, unknown
from limner.losses.checks import finite, masked_table, pair_weights, positive, wide
from limner.shapes import expect

Form = Literal["release", "correct"]


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
    Source: SPEC 6.6, `own`. Departs: true pairs and duplicates are left out of the sums, which the release
    only sets to 0 and so lets contribute.
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
    form: Form = "release",
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
    Source: SPEC 6.6. Departs: `nearest` is bound by the bank's size, not by the batch's.
    """
    positive("hal_weights", "alpha", alpha)
    positive("hal_weights", "beta", beta)
    positive("hal_weights", "nearest", nearest)
    if form not in get_args(Form):
        raise ConfigError("hal_weights: " + unknown("form", form, get_args(Form)))
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
    Source: SPEC 6.6, `alpha`.
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
