"""Losses of generative models: Gaussian KL and likelihood, hinge on generated vectors, token likelihood.

They return one value per step or sentence; the caller reduces them.
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
    """KL(q ‖ p) of diagonal Gaussians, in nats.

    Args:
        mean: (S, Z) means of q.
        log_variance: (S, Z) natural log-variances of q.
        prior_mean: (S, Z) means of p.
        prior_log_variance: (S, Z) natural log-variances of p.
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
    """−ln N(target; mean, σ²), summed over dimensions, in nats.

    Args:
        target: (S, F) true vectors.
        mean: (S, F) means.
        log_variance: (S, F) natural log-variances.
    Returns:
        (S,), which may be negative, because densities can exceed 1.
    Raises:
        ShapeError: sizes differ.
    Source: VRSS 2020, Eq. 4; docs/methods/vrss.md §3.1, `literal`.
    """
    _same(target, mean, log_variance)
    terms = log_variance + (target - mean).square() * (-log_variance).exp() + LOG_TWO_PI
    return 0.5 * terms.sum(dim=1)


def half_square(target: Tensor, mean: Tensor) -> Tensor:
    """½‖target − mean‖², (S, F) → (S,): the negative log-density for unit variance, up to a constant.

    Raises:
        ShapeError: sizes differ.
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
    """Hinge of each step over wrong pictures, over wrong generated vectors, or both.

    Args:
        scores: (S, S) cosines, generated rows, real columns; true pairs on the diagonal.
        margin: score units, > 0.
        neg: (S, S) bool, symmetric, the truly wrong pairs.
        anchor: "gen_anchor" compares each generated vector with wrong pictures, as retrieval does;
            "gold_anchor" compares each picture with wrong generated vectors, as the paper has it; "both" adds
            the two.
        over: "mean" over the wrong candidates of a step, or their "sum", as printed.
    Returns:
        (S,); 0 for a step without a wrong candidate.
    Raises:
        ShapeError, NumericsError: as `limner.research.losses.ranking.sum_hinge`.
    Source: VRSS 2020, Eq. 5; docs/methods/vrss.md §3.2. Departs: s is a similarity, although the paper
        says distance; duplicates do not count as wrong.
    """
    table = score_table("generated_hinge", scores, neg)
    of_rows, of_columns = pair_costs(table, margin, neg)
    costs = table.new_zeros(len(table))
    if anchor in ("both", "gen_anchor"):
        costs = costs + of_rows.sum(dim=1)
    if anchor in ("both", "gold_anchor"):
        costs = costs + of_columns.sum(dim=0)
    # `neg` is symmetric: a step has as many wrong pictures as its picture has wrong steps
    return costs / neg.sum(dim=1).clamp(min=1) if over == "mean" else costs


def sentence_losses(logits: Tensor, targets: Tensor, tokens: Tensor) -> Tensor:
    """Mean negative log-likelihood of the tokens of each sentence.

    Args:
        logits: (N, V) unnormalised, for the tokens of S sentences, concatenated.
        targets: (N,) int64 in 0…V − 1, true tokens, including the end of each sentence.
        tokens: (S,) int64, tokens per sentence, at least 1, with sum N.
    Returns:
        (S,) nats per token, ≥ 0, at least float32.
    Raises:
        ShapeError: the sizes contradict each other.
        NumericsError: a logit is not finite.
    Source: GSDA 2021, Eq. 7; docs/methods/gsda.md §4.4. Departs: the mean over a sentence's tokens
        instead of the sum, so that long sentences do not outweigh the retrieval loss.
    """
    expect("sentence_losses", logits=(logits, "N V"), targets=(targets, "N"), tokens=(tokens, "S"))
    finite("sentence_losses", "logit", logits)
    costs = nn.functional.cross_entropy(wide(logits), targets, reduction="none")  # (N,)
    return _sums("sentence_losses", costs, tokens) / tokens.to(costs)


def story_losses(losses: Tensor, steps: Tensor) -> Tensor:
    """Sum of the losses of each story's sentences.

    Applied to `sentence_losses`, its detached negative is the reward of a retriever: how likely the true
    sentences are, given the pictures that it chose.

    Args:
        losses: (S,) losses of sentences, the stories concatenated.
        steps: (B,) int64, sentences per story, at least 1, with sum S.
    Returns:
        (B,) sums.
    Raises:
        ShapeError: the sizes contradict each other.
        NumericsError: a loss is not finite.
    Source: GSDA 2021, Eq. 7; docs/methods/gsda.md §4.4.
    """
    expect("story_losses", losses=(losses, "S"), steps=(steps, "B"))
    finite("story_losses", "loss", losses)
    return _sums("story_losses", losses, steps)


def _sums(where: str, values: Tensor, counts: Tensor) -> Tensor:
    """Sum (N,) values in consecutive groups of (B,) counts → (B,)."""
    sizes = counts.tolist()
    if min(sizes, default=0) < 1 or sum(sizes) != len(values):
        raise ShapeError(
            f"{where}: {len(values)} values in parts of {sizes[:9]}, expected parts of at least 1 that sum to"
            f" {len(values)}"
        )
    owner = torch.arange(len(sizes)).repeat_interleave(counts.cpu()).to(values.device)
    return values.new_zeros(len(sizes)).index_add(0, owner, values)
