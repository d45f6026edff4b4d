"""Hinge losses that rank a true pair above the wrong ones of its batch, the extra losses of PVSE, and checks.

Each hinge takes a mask of negatives, because a duplicate of the true picture would otherwise be the hardest
candidate. The functions at the end check the arguments of all losses; margins and temperatures are settings,
which are checked when they are read.
"""

from typing import Literal

import torch
from torch import Tensor
from torch.nn.functional import normalize

from limner.arrays import expect
from limner.errors import NumericsError, ShapeError

Geometry = Literal["euclidean", "cosine"]
_CLOSEST = 1e-12  # squared distances are at least this, where the root's gradient is finite


def negatives(text_ids: Tensor, image_ids: Tensor) -> Tensor:
    """Mask of the negatives (wrong pairs) of a batch: another text and another picture.

    Args:
        text_ids: (B,) integers, equal for equal texts.
        image_ids: (B,) integers, equal for equal pictures.
    Returns:
        (B, B) bool, symmetric, False on the diagonal.
    Source: docs/methods/index.md §2.2.
    """
    expect("negatives", text_ids=(text_ids, "B"), image_ids=(image_ids, "B"))
    return (text_ids[:, None] != text_ids) & (image_ids[:, None] != image_ids)


def sum_hinge(scores: Tensor, margin: float, neg: Tensor) -> Tensor:
    """Hinge on every wrong candidate, both directions.

    Args:
        scores: (B, B) text rows, image columns; true pairs on the diagonal; cosine, unitless.
        margin: score units, > 0.
        neg: (B, B) bool, see `negatives`; transposed for the direction from picture to text.
    Returns:
        (): mean over the pairs; 0 for a batch without a wrong candidate.
    Raises:
        ShapeError: the scores are not square.
        NumericsError: a score is not finite.
    Source: VSE++ 2018, its VSE0; docs/methods/index.md §4.1. Departs: duplicates are not candidates; mean
    over the pairs where the authors sum.
    """
    table = score_table("sum_hinge", scores, neg)
    by_text, by_image = pair_costs(table, margin, neg)
    return (by_text + by_image).sum() / len(table)


def max_hinge(scores: Tensor, margin: float, neg: Tensor) -> Tensor:
    """Hinge on the hardest wrong candidate, both directions.

    Args:
        scores: see `sum_hinge`.
        margin: see `sum_hinge`.
        neg: as in `sum_hinge`; a query without a wrong candidate adds 0.
    Returns:
        (): mean over the pairs; the gradient goes to the true pair and the hardest candidate only.
    Raises:
        ShapeError: the scores are not square.
        NumericsError: a score is not finite.
    Source: VSE++ 2018; docs/methods/index.md §4.2; CMCM 2022, Eq. 1; docs/methods/cmcm.md §3.1.
    Departs: duplicates are not candidates; violations are penalised, while Equation 1 as printed rewards
    them.
    """
    table = score_table("max_hinge", scores, neg)
    by_text, by_image = hardest_costs(table, margin, neg)
    return (by_text + by_image).sum() / len(table)


def batch_hard(
    texts: Tensor,
    images: Tensor,
    margin: float,
    neg: Tensor,
    *,
    geometry: Geometry = "euclidean",
    within: bool = True,
) -> Tensor:
    """Hinge on the closest wrong item of a batch; each text and each picture is an anchor.

    Args:
        texts: (B, D) unit vectors; row i belongs to row i of `images`.
        images: (B, D) unit vectors.
        margin: distance units, > 0.
        neg: (B, B) bool, symmetric, see `negatives`.
        geometry: "euclidean" distance, or "cosine" distance 1 − s.
        within: whether wrong items may also be of the anchor's modality (text–text, picture–picture).
    Returns:
        (): mean over the anchors that have a wrong candidate.
    Raises:
        ShapeError: sizes differ, or no anchor has a wrong candidate (B = 1).
        NumericsError: an embedding is not finite.
    Source: the release of CMCM 2022; docs/methods/cmcm.md §3.1. Departs: duplicates are not candidates, and
    anchors without candidates do not count in the mean.
    """
    size = expect("batch_hard", texts=(texts, "B D"), images=(images, "B D"), neg=(neg, "B B"))["B"]
    stacked = wide(torch.cat([images, texts]))  # (2B, D)
    finite("batch_hard", "embedding", stacked)
    products = product(stacked, stacked.t())
    if geometry == "cosine":
        apart = 1 - products
    else:
        squares = (stacked * stacked).sum(dim=1)
        apart = (squares[:, None] + squares - 2 * products).clamp(min=_CLOSEST).sqrt()
    same_modality = neg if within else torch.zeros_like(neg)
    wrong = torch.cat(
        [torch.cat([same_modality, neg], dim=1), torch.cat([neg, same_modality], dim=1)]
    )  # (2B, 2B)
    usable = wrong.any(dim=1)
    if not bool(usable.any()):
        raise ShapeError(f"batch_hard: none of {size} pairs has a wrong candidate; use larger batches")
    to_true = apart.diagonal(size).repeat(2)
    to_wrong = apart.masked_fill(~wrong, torch.inf).min(dim=1).values
    return (to_true - to_wrong + margin).clamp(min=0)[usable].mean()


def pair_costs(table: Tensor, margin: float, neg: Tensor) -> tuple[Tensor, Tensor]:
    """Hinge of each query and wrong candidate; arguments as in `sum_hinge`, checked by the caller.

    Returns:
        (B, B) costs of text i with picture j, and (B, B) of picture j with text i, both with text rows and
        image columns; 0 for pairs that are not negatives.
    """
    true = table.diagonal()
    by_text = (margin - true[:, None] + table).clamp(min=0).masked_fill(~neg, 0)
    by_image = (margin - true + table).clamp(min=0).masked_fill(~neg.t(), 0)
    return by_text, by_image


def hardest_costs(table: Tensor, margin: float, neg: Tensor) -> tuple[Tensor, Tensor]:
    """Hinge of each query and its hardest wrong candidate; arguments as in `max_hinge`, already checked.

    Returns:
        (B,) of the texts and (B,) of the pictures; 0 for a query without a wrong candidate.
    """
    true = table.diagonal()
    hardest_image = table.masked_fill(~neg, -torch.inf).max(dim=1).values
    hardest_text = table.masked_fill(~neg.t(), -torch.inf).max(dim=0).values
    # −inf, for a query without a wrong candidate, is clamped to 0
    return (margin - true + hardest_image).clamp(min=0), (margin - true + hardest_text).clamp(min=0)


_SMALL = 1e-12  # smaller squares have root and gradient 0
GAMMA = 0.5  # bandwidth of the kernel of `domain_loss`


def diversity_loss(residuals: Tensor) -> Tensor:
    """Redundancy of the heads of an item: mean_i ‖G_i − I‖_F / K².

    Args:
        residuals: (B, K, H) output of each head; G_i are the cosines between the K rows of item i.
    Returns:
        (): 0 if all heads are orthogonal, and always for K = 1.
    Raises:
        ShapeError: `residuals` is not three-dimensional.
        NumericsError: a residual is not finite.
    Source: PVSE 2019, diversity loss; docs/methods/complementary.md §2.3.
    """
    heads = expect("diversity_loss", residuals=(residuals, "B K H"))["K"]
    finite("diversity_loss", "residual", residuals)
    rows = normalize(residuals, dim=2)
    gram = product(rows, rows.transpose(1, 2))
    off = ~torch.eye(heads, dtype=torch.bool, device=gram.device)
    squares = gram.square().masked_fill(~off, 0).sum(dim=(1, 2))
    return _root(squares).mean() / heads**2


def domain_loss(x: Tensor, y: Tensor) -> Tensor:
    """Maximum mean discrepancy of two sets of vectors: mean k(x, x) − 2 mean k(x, y) + mean k(y, y).

    The kernel is exp(−½‖a − b‖); the distance is not squared.

    Args:
        x: (N, H) vectors.
        y: (M, H) vectors.
    Returns:
        (): at least 0, except for rounding; 0 for equal sets.
    Raises:
        ShapeError: widths differ.
        NumericsError: a vector is not finite.
    Source: PVSE 2019, maximum mean discrepancy as computed in its release; docs/methods/complementary.md
    §2.3.
    """
    expect("domain_loss", x=(x, "N H"), y=(y, "M H"))
    finite("domain_loss", "vector", x)
    finite("domain_loss", "vector", y)

    def kernel(one: Tensor, other: Tensor) -> Tensor:
        lengths = one.square().sum(dim=1)[:, None] + other.square().sum(dim=1)
        squares = lengths - 2 * product(one, other.t())
        # For equal vectors only rounding errors remain, whose root would not be near 0.
        return torch.exp(-GAMMA * _root(squares, 8 * torch.finfo(squares.dtype).eps * lengths)).mean()

    return kernel(x, x) - 2 * kernel(x, y) + kernel(y, y)


def _root(squares: Tensor, nothing: Tensor | float = _SMALL) -> Tensor:
    """The square root; values up to `nothing` give 0 with gradient 0."""
    none = squares <= nothing
    return torch.where(none, 0.0, torch.where(none, 1.0, squares).sqrt())


def score_table(where: str, scores: Tensor, neg: Tensor) -> Tensor:
    """Check the scores of a batch and its mask; return the scores in at least single precision.

    Args:
        where: name of the loss, for messages.
        scores: (B, B) text rows, image columns; true pairs on the diagonal.
        neg: (B, B) bool, False on the diagonal.
    Returns:
        (B, B) float32, or float64 if given as such.
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
    """Convert to float32, because half precision cannot represent the sums; float64 is kept."""
    return values if values.dtype == torch.float64 else values.float()


def product(one: Tensor, other: Tensor) -> Tensor:
    """``one @ other`` in at least single precision, even under autocast.

    In bfloat16 cosines near 1 have a resolution of 1/256, and small distances between long vectors are lost.
    """
    with torch.autocast(one.device.type, enabled=False):
        return wide(one) @ wide(other)


def finite(where: str, what: str, values: Tensor) -> None:
    """Reject NaN and infinity.

    Args:
        where: name of the loss, for messages.
        what: name of the values, for messages.
        values: (B, …).
    Raises:
        NumericsError: a value is not finite; the message names the first such row.
    """
    fine = values.isfinite().reshape(len(values), -1).all(dim=1)
    if not bool(fine.all()):
        row = int((~fine).nonzero()[0])
        raise NumericsError(f"{where}: {what} in row {row} of {len(values)} is not finite; check that sample")


def pair_weights(where: str, alpha: Tensor, size: int) -> Tensor:
    """Check and detach the weights of a batch's pairs.

    Args:
        where: name of the loss, for messages.
        alpha: (B,) weights, finite, at least 0.
        size: B, number of pairs.
    Returns:
        (B,) in at least single precision, without gradient.
    Raises:
        ShapeError: the number of weights is not B.
        NumericsError: a weight is not finite, or is negative.
    Source: docs/methods/index.md §4.3.
    """
    expect(where, alpha=(alpha, str(size)))
    finite(where, "weight", alpha)
    if bool((alpha < 0).any()):
        row = int((alpha < 0).nonzero()[0])
        raise NumericsError(f"{where}: weight {float(alpha[row])} of row {row}, expected at least 0")
    return wide(alpha.detach())
