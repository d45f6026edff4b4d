"""Checks of the arguments of losses.

Kept in one place so that all losses refuse the same things with the same words. Margins, temperatures and
forms are settings, checked where settings are read.
"""

import torch
from torch import Tensor

from limner.arrays import expect
from limner.errors import NumericsError, ShapeError


def score_table(where: str, scores: Tensor, neg: Tensor) -> Tensor:
    """Scores of a batch in at least single precision, once they and the mask hold.

    Args:
        where: the loss, for the message.
        scores: (B, B) text rows, image columns; true pairs on the diagonal.
        neg: (B, B) bool, False on the diagonal.
    Returns:
        (B, B) float32, or float64 where that was given.
    Raises:
        ShapeError: the scores are not square, or the mask is invalid.
        NumericsError: a score is not finite.
    """
    size = expect(where, scores=(scores, "B B"), neg=(neg, "B B"))["B"]
    if neg.dtype != torch.bool or bool(neg.diagonal().any()):
        raise ShapeError(f"{where}: mask must be bool and False on the diagonal of its {size} true pairs")
    finite(where, "score", scores)
    return wide(scores)


def wide(values: Tensor) -> Tensor:
    """At least single precision, because half of it cannot hold the sums."""
    return values if values.dtype == torch.float64 else values.float()


def product(one: Tensor, other: Tensor) -> Tensor:
    """``one @ other`` in at least single precision, also where autocast would round it to half.

    Half of it tells cosines apart by 1/256 near 1, and loses small distances between long vectors.
    """
    with torch.autocast(one.device.type, enabled=False):
        return wide(one) @ wide(other)


def finite(where: str, what: str, values: Tensor) -> None:
    """Reject NaN and infinity.

    Args:
        where: the loss, for the message.
        what: what a value is, for the message.
        values: (B,) or (B, anything).
    Raises:
        NumericsError: naming the first row that holds one.
    """
    fine = values.isfinite().reshape(len(values), -1).all(dim=1)
    if not bool(fine.all()):
        row = int((~fine).nonzero()[0])
        raise NumericsError(f"{where}: {what} in row {row} of {len(values)} is not finite; check that sample")


def pair_weights(where: str, alpha: Tensor, size: int) -> Tensor:
    """Weights of the pairs of a batch, cut from any graph they came from.

    Args:
        where: the loss, for the message.
        alpha: (B,), finite, at least 0.
        size: B.
    Returns:
        (B,) at least single precision, without gradient.
    Raises:
        ShapeError: not one weight per pair.
        NumericsError: a weight is not finite or negative.
    Source: docs/methods/index.md §4.3.
    """
    expect(where, alpha=(alpha, str(size)))
    finite(where, "weight", alpha)
    if bool((alpha < 0).any()):
        row = int((alpha < 0).nonzero()[0])
        raise NumericsError(f"{where}: weight {float(alpha[row])} of row {row}, expected at least 0")
    return wide(alpha.detach())
