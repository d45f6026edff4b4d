"""Hinge of generated vectors against real ones, in each direction, averaged over the wrong ones.

For systems whose query is a generated picture vector. It generates nothing.
"""

from typing import Literal, get_args

from torch import Tensor

from limner.errors import ConfigError, unknown
from limner.losses.checks import score_table
from limner.losses.ranking import pair_costs

Anchor = Literal["both", "gen_anchor", "gold_anchor"]
Negatives = Literal["mean", "sum"]


def generated_hinge(
    scores: Tensor, margin: float, neg: Tensor, anchor: Anchor = "both", over: Negatives = "mean"
) -> Tensor:
    """What wrong pictures, or wrong generated vectors, cost every step.

    Args:
        scores: (S, S) cosines, generated rows, real columns; true pairs on the diagonal.
        margin: score units, > 0.
        neg: (S, S) bool, symmetric, the truly wrong pairs.
        anchor: "gen_anchor" compares a generated vector with wrong pictures, which is what retrieval does;
            "gold_anchor" a picture with wrong generated vectors, the literal reading that works; "both" adds
            them.
        over: "mean" of the wrong ones of a step, or their "sum", as printed.
    Returns:
        (S,); 0 for a step without a wrong one.
    Raises:
        ShapeError, NumericsError, ConfigError: as `limner.losses.ranking.sum_hinge`; or no such anchor.
    Source: SPEC 5.6 (VRSS, Equation 5). Departs: s is a similarity, where the paper says distance, and
        duplicates are not wrong.
    """
    if anchor not in get_args(Anchor):
        raise ConfigError("generated_hinge: " + unknown("anchor", anchor, get_args(Anchor)))
    table = score_table("generated_hinge", scores, margin, neg)
    of_rows, of_columns = pair_costs(table, margin, neg)
    found = table.new_zeros(len(table))
    if anchor in ("both", "gen_anchor"):
        found = found + of_rows.sum(dim=1)
    if anchor in ("both", "gold_anchor"):
        found = found + of_columns.sum(dim=0)
    # symmetric, so a step has as many wrong pictures as its picture has wrong steps
    return found / neg.sum(dim=1).clamp(min=1) if over == "mean" else found
