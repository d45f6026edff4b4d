"""Losses of predicted coherence relations, with weights that balance rare ones.

Relations are not exclusive, so each is a yes-or-no of its own. It predicts nothing and draws no batches.
"""

from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional

from limner.arrays import expect
from limner.counts import counted
from limner.errors import DataError
from limner.research.losses.checks import finite, wide

Form = Literal["release", "paper"]
_SMALLEST, _LARGEST = 1e-3, 1e3


def class_weights(labels: Tensor, form: Form) -> Tensor:
    """Weight per relation from how often it holds in training.

    Args:
        labels: (N, C) of the training rows, 0 or 1.
        form: "release" gives (1 − p)/p, for the positive term; "paper" gives 1/p, for both terms.
    Returns:
        (C,) float32 in [10⁻³, 10³].
    Raises:
        DataError: no rows, or a label that is neither 0 nor 1.
    Source: CMCM 2022, below Eq. 2, and its release; docs/methods/cmcm.md §3.2. Departs: 1/p is clipped too,
    since a relation may be absent from a small training set.
    """
    expect("class_weights", labels=(labels, "N C"))
    if not len(labels) or not bool(((labels == 0) | (labels == 1)).all()):
        raise DataError(
            f"class weights: {counted(len(labels), 'row')} of labels, expected at least one and only 0 or 1"
        )
    rate = labels.double().mean(dim=0)
    weights = 1 / rate if form == "paper" else (1 - rate) / rate
    return weights.clamp(_SMALLEST, _LARGEST).float()


def relation_loss(logits: Tensor, labels: Tensor, weights: Tensor, form: Form = "release") -> Tensor:
    """Weighted binary cross-entropy of every relation of a batch.

    Args:
        logits: (B, C); their sigmoid is the probability that the relation holds.
        labels: (B, C), 0 or 1.
        weights: (C,), as `class_weights` gives them for the same form.
        form: "release" weighs the positive term and takes the mean over B and C; "paper" weighs both
            terms, sums over C and takes the mean over B.
    Returns:
        (): at least 0, in nats.
    Raises:
        ShapeError: sizes differ.
        NumericsError: a logit or label is not finite.
    Source: CMCM 2022, Eq. 2; docs/methods/cmcm.md §3.2. Departs: the minus sign that Equation 2 lacks.
    """
    expect("relation_loss", logits=(logits, "B C"), labels=(labels, "B C"), weights=(weights, "C"))
    finite("relation_loss", "logit", logits)
    finite("relation_loss", "label", labels)
    table = wide(logits)
    due, by = labels.to(table.dtype), weights.to(table.dtype)
    if form == "paper":
        each = functional.binary_cross_entropy_with_logits(table, due, reduction="none")
        return (each * by).sum(dim=1).mean()
    return functional.binary_cross_entropy_with_logits(table, due, pos_weight=by)


def indifference_loss(logits: Tensor, neg: Tensor) -> Tensor:
    """Cross-entropy of wrong pairs against one half: a pair that does not belong together says nothing.

    Args:
        logits: (B, B, C) of every text with every picture of a batch.
        neg: (B, B) bool, the wrong pairs.
    Returns:
        (): at least ln 2, where every wrong pair is undecided; 0 if there is no wrong pair.
    Raises:
        ShapeError: sizes differ.
        NumericsError: a logit is not finite.
    Source: docs/methods/cmcm.md §3.4, ours: mismatched pairs with target one half.
    """
    expect("indifference_loss", logits=(logits, "B B C"), neg=(neg, "B B"))
    finite("indifference_loss", "logit", logits)
    wrong = wide(logits)[neg]  # (pairs, C)
    if not len(wrong):
        return logits.sum() * 0
    return functional.binary_cross_entropy_with_logits(wrong, torch.full_like(wrong, 0.5))
