"""Weights of the pairs of a batch from scores of their neighbourhoods, in every reading of the paper.

Also what is said of weights: their spread in a batch and the drift of scores between epochs. It scores no
neighbourhood; no gradient flows through a weight.
"""

from typing import Literal, get_args

import torch
from torch import Tensor

from limner.errors import ConfigError, NumericsError, unknown
from limner.shapes import expect

Mode = Literal["absdiff", "sum", "x", "y", "max", "product"]
Reading = Literal["literal", "lambda_both", "lambda_out", "sound"]


def combined_val(div: Tensor, dis: Tensor, beta: float, gamma_hat: float) -> Tensor:
    """β̂·DIV + γ̂·DIS of one modality; the factors are chosen on validation. Source: SPEC 3.8."""
    return beta * div + gamma_hat * dis


def combined_stats(
    div: Tensor, dis: Tensor, every_div: Tensor, every_dis: Tensor, *, sound: bool = False
) -> Tensor:
    """Each measure times mean · deviation of its raw scores, added up.

    Args:
        div: (n,) of one modality.
        dis: (n,) of the same.
        every_div: scores of both modalities, for the statistics.
        every_dis: the same.
        sound: standardise each measure first.
    Source: SPEC 3.8 (T&K, Equation 8, read as the products of Table 1 read it).
    """
    parts = []
    for own, every in ((div, every_div), (dis, every_dis)):
        factor = every.mean() * every.std(correction=0)
        parts.append(factor * (z_scores(own) if sound else own))
    return parts[0] + parts[1]


def z_scores(values: Tensor) -> Tensor:
    """(n,) with mean 0 and deviation 1; zeros where all are equal."""
    apart = values - values.mean()
    deviation = values.std(correction=0)
    return apart / deviation if float(deviation) > 0 else torch.zeros_like(apart)


def batch_weights(
    x: Tensor,
    y: Tensor,
    *,
    lam: float,
    gamma: int = -1,
    mode: Mode = "absdiff",
    reading: Reading = "lambda_both",
    tau: float = 1.0,
) -> Tensor:
    """Weights of a batch from its pairs' scores.

    α_M = softmax(Γ·score_M) per modality, joined by `mode`, and a softmax of that; where λ goes is `reading`.

    Args:
        x: (B,) scores of the pictures.
        y: (B,) scores of the texts.
        lam: λ > 0.
        gamma: Γ, −1, 0 or 1.
        mode: |α_X − α_Y|, their sum, one of them, the larger, or their product.
        reading: "literal" has λ inside, and sum 1; "lambda_both" inside and outside; "lambda_out" outside;
            "sound" joins the (standardised) scores themselves: λ·softmax(join(Γ·x, Γ·y)/τ).
        tau: τ of "sound", > 0.
    Returns:
        (B,) at least 0, with sum λ (1 for "literal"), without gradient.
    Raises:
        ConfigError: no such mode or reading, or λ, Γ or τ out of range.
        NumericsError: a score is not finite.
    Source: SPEC 3.6, 3.7; the mode replaces what the second softmax takes, also for "x" and "y".
    """
    if mode not in get_args(Mode):
        raise ConfigError("weighting: " + unknown("mode", mode, get_args(Mode)))
    if reading not in get_args(Reading):
        raise ConfigError("weighting: " + unknown("reading", reading, get_args(Reading)))
    if lam <= 0 or tau <= 0 or gamma not in (-1, 0, 1):
        raise ConfigError(
            f"weighting: λ {lam}, τ {tau}, Γ {gamma}; expected positive λ and τ, Γ of −1, 0 or 1"
        )
    expect("weighting", x=(x, "B"), y=(y, "B"))
    scores = torch.stack([x, y]).detach() * gamma
    if not bool(torch.isfinite(scores).all()):
        raise NumericsError("weighting: a score is not finite")
    if reading == "sound":
        return lam * torch.softmax(_joined(scores, mode) / tau, dim=0)
    inside = lam if reading in ("literal", "lambda_both") else 1.0
    outside = lam if reading in ("lambda_both", "lambda_out") else 1.0
    return outside * torch.softmax(_joined(inside * torch.softmax(scores, dim=1), mode), dim=0)


def spread(alpha: Tensor) -> tuple[float, float]:
    """Largest ÷ smallest weight of a batch, and the entropy of their shares in nats (at most ln B)."""
    shares = alpha.detach().double() / alpha.detach().double().sum()
    entropy = -(shares * shares.clamp(min=1e-300).log()).sum()
    return float(alpha.max() / alpha.min().clamp(min=1e-30)), float(entropy)


def drift(before: Tensor, after: Tensor) -> float:
    """Spearman's correlation of scores with those of the epoch before; 0 where either is constant."""
    from scipy.stats import rankdata

    ranks = [torch.from_numpy(rankdata(part.detach().cpu().numpy())) for part in (before, after)]
    first, second = (z_scores(part) for part in ranks)
    return float((first * second).mean())


def _joined(parts: Tensor, mode: Mode) -> Tensor:
    """(2, B) → (B,)."""
    x, y = parts
    joined: dict[Mode, Tensor] = {"absdiff": (x - y).abs(), "sum": x + y, "x": x, "y": y}
    joined |= {"max": torch.maximum(x, y), "product": x * y}
    return joined[mode]
