"""Stories as sequences: how every step ranks all pictures if its pictures say something for each other.

greedy, beam: from left to right. chain: neighbours agree. anchor: all steps agree with one latent picture.
Steps may share a picture. It sees scores only, never pictures.
"""

import numpy as np
from numpy.typing import NDArray

from limner.arrays import expect

Float64Array = NDArray[np.float64]
IntArray = NDArray[np.int64]

BEAM_WIDTH = 8
CELLS = 4_000_000
"""Scores of latent pictures, steps and pictures held at a time."""


def left_to_right(scores: Float64Array, pair: Float64Array, width: int = BEAM_WIDTH) -> IntArray:
    """The picture of each step in the best beginning of a chain that grows step by step.

    Args:
        scores: (S, M) of steps with pictures.
        pair: (M, M) of a picture with the one before it.
        width: beginnings kept; 1 is greedy.
    Returns:
        (S,) columns; of equal beginnings the first.
    """
    expect("left to right", scores=(scores, "S M"), pair=(pair, "M M"))
    paths, values = np.zeros((1, 0), np.int64), np.zeros(1)
    for step, own in enumerate(scores):
        grown = values[:, None] + own + (pair[paths[:, -1]] if step else 0.0)
        best = np.argsort(-grown, axis=None, kind="stable")[:width]
        origin, column = np.unravel_index(best, grown.shape)
        paths, values = np.column_stack([paths[origin], column]), grown.ravel()[best]
    found: IntArray = paths[0]
    return found


def max_marginals(scores: Float64Array, pair: Float64Array, decoder: str) -> Float64Array:
    """Value of the best whole story in which a step shows a picture, exactly.

    Args:
        scores: (S, M) of steps with pictures.
        pair: (M, M) of two pictures, symmetric.
        decoder: whose sum is meant: "chain" of neighbours, "anchor" of all steps with a latent picture.
    Returns:
        (S, M), in the unit of the scores.
    Source: the Viterbi algorithm, both ways; docs/methods/evaluation.md §11.3.
    """
    expect(decoder, scores=(scores, "S M"), pair=(pair, "M M"))
    return {"chain": _chain, "anchor": _anchor}[decoder](scores, pair)


def _chain(scores: Float64Array, pair: Float64Array) -> Float64Array:
    found, behind = scores.copy(), np.zeros(len(pair))
    for step in range(len(scores) - 2, -1, -1):
        found[step] += (pair + found[step + 1]).max(axis=1)
    for step in range(1, len(scores)):
        behind = (pair.T + (behind + scores[step - 1])).max(axis=1)
        found[step] += behind
    return found


def _anchor(scores: Float64Array, pair: Float64Array) -> Float64Array:
    found = np.full(scores.shape, -np.inf)
    size = max(1, CELLS // max(1, scores.size))
    for start in range(0, len(pair), size):
        values = pair[start : start + size, None] + scores  # (A, S, M) under each latent picture
        best = values.max(axis=2)
        others = best.sum(axis=1, keepdims=True) - best
        np.maximum(found, (values + others[:, :, None]).max(axis=0), out=found)
    return found
