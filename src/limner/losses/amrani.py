"""Weights from how dense the whole set is around a pair: AMRANI, reconstructed.

Its code was never published and its equations could not be read, so results must be labelled "AMRANI
(reconstructed)". It keeps no bank; it gets the similarities with one.
"""

from typing import Literal, get_args

import torch
from torch import Tensor

from limner.errors import ConfigError, DataError, ShapeError, unknown
from limner.losses.checks import finite, pair_weights, positive, wide
from limner.shapes import expect

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
    Source: SPEC 6.8, a reconstruction.
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
    Source: SPEC 6.8, a reconstruction.
    """
    positive("amrani_weights", "total", total)
    held = pair_weights("amrani_weights", density, len(density))
    if not bool(held.sum() > 0):
        raise DataError(
            "amrani_weights: all densities are 0, expected one above; the embeddings have collapsed"
        )
    return total * held / held.sum()
