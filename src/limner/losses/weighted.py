"""The hinge over all wrong candidates with a weight per true pair.

Loosely aligned pairs get weights from their neighbourhoods, and rivals from elsewhere; all minimise this.
It makes no weights.
"""

from torch import Tensor

from limner.losses.checks import pair_weights, score_table
from limner.losses.ranking import pair_costs


def weighted_hinge(
    scores: Tensor, alpha: Tensor, margin: float, neg: Tensor, *, image_alpha: Tensor | None = None
) -> Tensor:
    """Hinge on every wrong candidate, both directions, each query weighted by its true pair.

    Args:
        scores: (B, B) text rows, image columns; true pairs on the diagonal; cosine, unitless.
        alpha: (B,) at least 0; no gradient flows to it.
        margin: score units, > 0.
        neg: (B, B) bool, as `ranking.negatives` gives it; also rules the transposed direction.
        image_alpha: (B,) other weights where pictures ask for texts; None takes `alpha` there too.
    Returns:
        (): the weighted sum ÷ 2B²; 0 for a batch without a wrong candidate.
    Raises:
        ShapeError: sizes differ, or no such mask.
        NumericsError: a score or weight is not finite, or a weight negative.
        ConfigError: margin not positive.
    Source: SPEC 3.9 (T&K, Equation 1); weights per direction for SPEC 6.7. Departs: duplicates are no
    candidates; the divisor stays 2B², so that a batch with duplicates does not weigh its other pairs more.
    """
    table = score_table("weighted_hinge", scores, margin, neg)
    size = len(table)
    of_text = pair_weights("weighted_hinge", alpha, size)
    of_image = of_text if image_alpha is None else pair_weights("weighted_hinge", image_alpha, size)
    by_text, by_image = pair_costs(table, margin, neg)
    return (of_text[:, None] * by_text + of_image * by_image).sum() / (2 * size**2)
