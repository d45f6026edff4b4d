"""Losses of a latent recurrence: how far two Gaussians lie apart, and how well a vector is generated.

All are per step, so that steps of padding can be left out by whoever calls. They draw nothing.
"""

import math

from torch import Tensor

from limner.errors import ShapeError

LOG_TWO_PI = math.log(2 * math.pi)


def gaussian_kl(mean: Tensor, log_variance: Tensor, prior_mean: Tensor, prior_log_variance: Tensor) -> Tensor:
    """KL(q ‖ p) of diagonal Gaussians in nats.

    Args:
        mean: (S, Z) of q.
        log_variance: (S, Z) of q, natural logarithm.
        prior_mean: (S, Z) of p.
        prior_log_variance: (S, Z) of p.
    Returns:
        (S,) at least 0.
    Raises:
        ShapeError: sizes differ.
    Source: SPEC 5.5: ½ Σ [ln σ²_p/σ²_q + (σ²_q + (μ_q − μ_p)²)/σ²_p − 1].
    """
    _same(mean, log_variance, prior_mean, prior_log_variance)
    apart = log_variance - prior_log_variance
    terms = apart.exp() + (mean - prior_mean).square() * (-prior_log_variance).exp() - 1 - apart
    return 0.5 * terms.sum(dim=1)


def gaussian_nll(target: Tensor, mean: Tensor, log_variance: Tensor) -> Tensor:
    """−ln N(target; mean, σ²) in nats, summed over dimensions.

    Args:
        target: (S, F).
        mean: (S, F).
        log_variance: (S, F).
    Returns:
        (S,), which can be far below 0: a density is no probability.
    Raises:
        ShapeError: sizes differ.
    Source: SPEC 5.5, `literal`.
    """
    _same(target, mean, log_variance)
    terms = log_variance + (target - mean).square() * (-log_variance).exp() + LOG_TWO_PI
    return 0.5 * terms.sum(dim=1)


def half_square(target: Tensor, mean: Tensor) -> Tensor:
    """½‖target − mean‖² of (S, F) and (S, F) → (S,). Source: SPEC 5.5: the density of unit variance."""
    _same(target, mean)
    return 0.5 * (target - mean).square().sum(dim=1)


def _same(*parts: Tensor) -> None:
    if parts[0].ndim != 2 or any(part.shape != parts[0].shape for part in parts):
        raise ShapeError(f"variational: shapes {[tuple(p.shape) for p in parts]}, expected equal (S, …)")
