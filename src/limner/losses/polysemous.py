"""What keeps several embeddings of one item apart, and those of texts and pictures together.

PVSE's two regularisers. They rank nothing.
"""

import torch
from torch import Tensor
from torch.nn.functional import normalize

from limner.errors import ConfigError
from limner.losses.checks import finite, positive
from limner.shapes import expect

_SMALL = 1e-12  # squares below it have no root with a gradient


def diversity_loss(residuals: Tensor) -> Tensor:
    """How alike the heads of an item are: mean_i ‖G_i − I‖_F / K².

    Args:
        residuals: (B, K, H) what each head adds; G_i holds the cosines of the K rows.
    Returns:
        (): 0 where all heads are orthogonal, and always for K = 1.
    Raises:
        ShapeError: not three axes.
        NumericsError: a residual is not finite.
    Source: SPEC 3.2 (PVSE, diversity loss).
    """
    heads = expect("diversity_loss", residuals=(residuals, "B K H"))["K"]
    finite("diversity_loss", "residual", residuals)
    rows = normalize(residuals, dim=2)
    gram = rows @ rows.transpose(1, 2)
    off = ~torch.eye(heads, dtype=torch.bool, device=gram.device)
    squares = gram.square().masked_fill(~off, 0).sum(dim=(1, 2))
    return _root(squares).mean() / heads**2


def domain_loss(x: Tensor, y: Tensor, gamma: float = 0.5) -> Tensor:
    """How far two clouds of vectors lie apart: mean k(x, x) − 2 mean k(x, y) + mean k(y, y).

    Args:
        x: (N, H).
        y: (M, H).
        gamma: γ of the kernel exp(−γ‖a − b‖), > 0; the distance is not squared.
    Returns:
        (): 0 for equal clouds, never below 0 but for rounding.
    Raises:
        ShapeError: widths differ.
        ConfigError: γ not positive, or a cloud is empty.
        NumericsError: a vector is not finite.
    Source: SPEC 3.2 (PVSE, maximum mean discrepancy as its code computes it).
    """
    sizes = expect("domain_loss", x=(x, "N H"), y=(y, "M H"))
    positive("domain_loss", "gamma", gamma)
    if not sizes["N"] or not sizes["M"]:
        raise ConfigError(f"domain_loss: {sizes['N']} and {sizes['M']} vectors, expected some of both")
    finite("domain_loss", "vector", x)
    finite("domain_loss", "vector", y)

    def kernel(one: Tensor, other: Tensor) -> Tensor:
        lengths = one.square().sum(dim=1)[:, None] + other.square().sum(dim=1)
        squares = lengths - 2 * one @ other.t()
        # What is left of two equal vectors is rounding, whose root would be far from 0.
        return torch.exp(-gamma * _root(squares, 8 * torch.finfo(squares.dtype).eps * lengths)).mean()

    return kernel(x, x) - 2 * kernel(x, y) + kernel(y, y)


def _root(squares: Tensor, nothing: Tensor | float = _SMALL) -> Tensor:
    """The root, 0 with gradient 0 where there is next to nothing."""
    none = squares <= nothing
    return torch.where(none, 0.0, torch.where(none, 1.0, squares).sqrt())
