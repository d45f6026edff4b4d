"""One wrong candidate per query, drawn so that distances occur about equally often.

On a sphere nearly all points are about √2 apart; weights that undo this make close candidates likelier. The
draw is apart from the losses, so that they are functions of what was drawn.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from limner.errors import ConfigError, ShapeError
from limner.losses.checks import masked_table, positive, score_table
from limner.shapes import expect

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
    Source: SPEC 6.9: (2 − n) ln d − ((n − 3)/2) ln(1 − d²/4), with d = √(2 − 2s).
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
    Source: SPEC 6.9.
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
    Source: SPEC 6.9, T&K's form.
    """
    table = score_table("distance_weighted", scores, margin, neg)
    costs = [(margin - true + wrong).clamp(min=0) for true, wrong in _pairs(table, drawn, neg)]
    return _mean(torch.cat(costs))


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
    Source: SPEC 6.9, the original form: [d(a,p) − β + .2]₊ + [β − d(a,n) + .2]₊.
    """
    positive("distance_weighted", "beta", beta)
    positive("distance_weighted", "width", width)
    table = masked_table("distance_weighted", scores, neg)
    costs = []
    for true, wrong in _pairs(table, drawn, neg):
        to_true, to_wrong = ((2 - 2 * s).clamp(min=_CLOSEST).sqrt() for s in (true, wrong))
        costs.append((to_true - beta + width).clamp(min=0) + (beta - to_wrong + width).clamp(min=0))
    return _mean(torch.cat(costs))


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


def _mean(costs: Tensor) -> Tensor:
    return costs.sum() / max(len(costs), 1)
