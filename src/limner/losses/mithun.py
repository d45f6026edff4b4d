"""The hinge on the hardest candidate, weighted by how badly the true one ranks in its batch.

A rival of the neighbourhood weights: it looks at the batch only. It knows no neighbours and no memory.
"""

from torch import Tensor

from limner.errors import ConfigError
from limner.losses.checks import masked_table, score_table
from limner.losses.ranking import Reduction, hardest_costs, reduced


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
    Source: SPEC 6.7. Departs: a query's candidates are its wrong items and the true one, so that B is smaller
    where the batch holds duplicates; ties share the mean of their ranks.
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
    Source: SPEC 6.7, `own`.
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
