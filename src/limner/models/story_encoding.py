"""Encoding whole stories outside of training, some at a time; what all models that hear a story share.

It knows no model.
"""

from collections.abc import Callable, Sequence

import numpy as np
from torch import Tensor, nn

from limner.arrays import FloatArray
from limner.models.encoding import Evaluating

ENCODE_STORIES = 32


def encode_stories(
    model: nn.Module,
    stories: Sequence[Sequence[str]],
    encode: Callable[[list[Sequence[str]]], Tensor],
    dim: int,
    at_once: int = ENCODE_STORIES,
) -> list[FloatArray]:
    """Encode stories, in evaluation mode and without gradients.

    Args:
        model: set to evaluation mode while it encodes.
        stories: any number, of which some may be empty.
        encode: stories that are not empty → (S, D), their steps one after the other.
        dim: D.
        at_once: stories given to `encode` together.
    Returns:
        Per story (T, D) float32.
    """
    found = [np.zeros((0, dim), np.float32) for _ in stories]
    told = [number for number, story in enumerate(stories) if story]
    with Evaluating(model):
        for start in range(0, len(told), at_once):
            some = told[start : start + at_once]
            made = encode([stories[number] for number in some]).float().cpu().numpy()
            ends = np.cumsum([len(stories[number]) for number in some])[:-1]
            for number, part in zip(some, np.split(made, ends), strict=True):
                found[number] = part
    return found


def encode_alone(
    encode: Callable[[Sequence[Sequence[str]]], list[FloatArray]], texts: Sequence[str], dim: int
) -> FloatArray:
    """Texts → (N, D) float32, each encoded as a story of one step."""
    parts = encode([[text] for text in texts])
    return np.concatenate(parts) if parts else np.zeros((0, dim), np.float32)
