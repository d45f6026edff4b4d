"""Losses of a latent recurrence: how far two Gaussians lie apart, and how well a vector is generated.

All are per step, so that steps of padding can be left out by whoever calls. They draw nothing.
"""

import math
from typing import Literal

import torch
from torch import Tensor, nn

from limner.arrays import expect
from limner.errors import ShapeError
from limner.research.losses.ranking import finite, pair_costs, score_table, wide

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
    Source: VRSS 2020, Eq. 4; docs/methods/vrss.md §3.1: ½ Σ [ln σ²_p/σ²_q + (σ²_q + (μ_q − μ_p)²)/σ²_p − 1].
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
    Source: VRSS 2020, Eq. 4; docs/methods/vrss.md §3.1, `literal`.
    """
    _same(target, mean, log_variance)
    terms = log_variance + (target - mean).square() * (-log_variance).exp() + LOG_TWO_PI
    return 0.5 * terms.sum(dim=1)


def half_square(target: Tensor, mean: Tensor) -> Tensor:
    """½‖target − mean‖² of (S, F) and (S, F) → (S,): the density of unit variance.

    Source: VRSS 2020, Eq. 4; docs/methods/vrss.md §3.1.
    """
    _same(target, mean)
    return 0.5 * (target - mean).square().sum(dim=1)


def _same(*parts: Tensor) -> None:
    if parts[0].ndim != 2 or any(part.shape != parts[0].shape for part in parts):
        raise ShapeError(f"variational: shapes {[tuple(p.shape) for p in parts]}, expected equal (S, …)")


Anchor = Literal["both", "gen_anchor", "gold_anchor"]
Negatives = Literal["mean", "sum"]


def generated_hinge(
    scores: Tensor, margin: float, neg: Tensor, anchor: Anchor = "both", over: Negatives = "mean"
) -> Tensor:
    """Hinge of every step over wrong pictures, or over wrong generated vectors.

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
        ShapeError, NumericsError: as `limner.research.losses.ranking.sum_hinge`.
    Source: VRSS 2020, Eq. 5; docs/methods/vrss.md §3.2. Departs: s is a similarity, where the paper says
        distance, and duplicates are not wrong.
    """
    table = score_table("generated_hinge", scores, neg)
    of_rows, of_columns = pair_costs(table, margin, neg)
    found = table.new_zeros(len(table))
    if anchor in ("both", "gen_anchor"):
        found = found + of_rows.sum(dim=1)
    if anchor in ("both", "gold_anchor"):
        found = found + of_columns.sum(dim=0)
    # symmetric, so a step has as many wrong pictures as its picture has wrong steps
    return found / neg.sum(dim=1).clamp(min=1) if over == "mean" else found


def sentence_losses(logits: Tensor, targets: Tensor, tokens: Tensor) -> Tensor:
    """Mean negative log-likelihood of the tokens of each sentence.

    Args:
        logits: (N, V) unnormalised, the tokens of S sentences one after the other.
        targets: (N,) int64 in 0…V − 1, the true tokens, each sentence's end among them.
        tokens: (S,) int64, tokens of each sentence, at least 1, with sum N.
    Returns:
        (S,) nats per token, ≥ 0, at least float32.
    Raises:
        ShapeError: the sizes contradict each other.
        NumericsError: a logit is not finite.
    Source: GSDA 2021, Eq. 7; docs/methods/gsda.md §4.4. Departs: a mean over a sentence's tokens where the
        paper sums, so that long sentences do not outweigh the retrieval loss.
    """
    expect("sentence_losses", logits=(logits, "N V"), targets=(targets, "N"), tokens=(tokens, "S"))
    finite("sentence_losses", "logit", logits)
    costs = nn.functional.cross_entropy(wide(logits), targets, reduction="none")  # (N,)
    return _sums("sentence_losses", costs, tokens) / tokens.to(costs)


def story_losses(losses: Tensor, steps: Tensor) -> Tensor:
    """Sum of the losses of each story's sentences.

    The negative of it, detached, rewards a retriever for what can be generated from its choice.

    Args:
        losses: (S,) of the sentences of B stories, one after the other.
        steps: (B,) int64, sentences of each, at least 1, with sum S.
    Returns:
        (B,).
    Raises:
        ShapeError: the sizes contradict each other.
        NumericsError: a loss is not finite.
    Source: GSDA 2021, Eq. 7; docs/methods/gsda.md §4.4.
    """
    expect("story_losses", losses=(losses, "S"), steps=(steps, "B"))
    finite("story_losses", "loss", losses)
    return _sums("story_losses", losses, steps)


def _sums(where: str, values: Tensor, counts: Tensor) -> Tensor:
    """(N,) values in parts of (B,) counts → (B,) sums."""
    sizes = counts.tolist()
    if min(sizes, default=0) < 1 or sum(sizes) != len(values):
        raise ShapeError(
            f"{where}: {len(values)} values in parts of {sizes[:9]}, expected parts of at least 1 that sum to"
            f" {len(values)}"
        )
    owner = torch.arange(len(sizes)).repeat_interleave(counts.cpu()).to(values.device)
    return values.new_zeros(len(sizes)).index_add(0, owner, values)
