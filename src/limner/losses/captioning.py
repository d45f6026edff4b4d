"""What true sentences cost a captioner: cross-entropy of their tokens, averaged by sentence, summed by story.

Ragged from end to end: tokens of sentences and sentences of stories lie one after the other with their
counts, so that no padding is ever scored. It knows no captioner.
"""

import torch
from torch import Tensor, nn

from limner.errors import ShapeError
from limner.losses.checks import finite, wide
from limner.shapes import expect


def sentence_losses(logits: Tensor, targets: Tensor, tokens: Tensor) -> Tensor:
    """Mean negative log-likelihood of the tokens of each sentence.

    Args:
        logits: (N, V) unnormalised, the tokens of S sentences one after the other.
        targets: (N,) int64 in 0…V − 1, the true tokens, each sentence's end among them.
        tokens: (S,) int64, tokens of each sentence, at least 1, with sum N.
    Returns:
        (S,) nats per token, ≥ 0, at least float32.
    Raises:
        ShapeError: sizes do not fit.
        NumericsError: a logit is not finite.
    Source: SPEC 4.8 (GSDA, Equation 7). Departs: a mean over a sentence's tokens where the paper sums, so
        that long sentences do not outweigh the retrieval loss.
    """
    expect("sentence_losses", logits=(logits, "N V"), targets=(targets, "N"), tokens=(tokens, "S"))
    finite("sentence_losses", "logit", logits)
    costs = nn.functional.cross_entropy(wide(logits), targets, reduction="none")  # (N,)
    return _sums("sentence_losses", costs, tokens) / tokens.to(costs)


def story_losses(losses: Tensor, steps: Tensor) -> Tensor:
    """Sum of the losses of each story's sentences.

    The negative of it, detached, is the reward of a retriever that learns by what its choice lets be told.

    Args:
        losses: (S,) of the sentences of B stories, one after the other.
        steps: (B,) int64, sentences of each, at least 1, with sum S.
    Returns:
        (B,).
    Raises:
        ShapeError: sizes do not fit.
        NumericsError: a loss is not finite.
    Source: SPEC 4.8.
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
