"""Decoders of stories: rank all pictures for each step when a pairwise term couples the steps.

greedy, beam: left to right. chain: adjacent steps are coupled. anchor: all steps are coupled to one latent
picture. Several steps may show the same picture.
"""

import numpy as np
from numpy.typing import NDArray

from limner.arrays import expect

Float64Array = NDArray[np.float64]
IntArray = NDArray[np.int64]

BEAM_WIDTH = 8
CELLS = 4_000_000
"""Most scores in memory at a time: latent pictures × steps × pictures."""


def left_to_right(scores: Float64Array, pair: Float64Array, width: int = BEAM_WIDTH) -> IntArray:
    """Decode a story step by step, by greedy or beam search.

    Args:
        scores: (S, M) scores; rows are steps, columns are pictures.
        pair: (M, M) pairwise term; rows are pictures of the previous step, columns those of the current one.
        width: beam width; 1 is greedy.
    Returns:
        (S,) column of each step's picture; of equally good sequences the first.
    Raises:
        ShapeError: the sizes differ.
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
    """Max-marginals: the value of the best complete story that shows a given picture at a given step; exact.

    Args:
        scores: (S, M) scores; rows are steps, columns are pictures.
        pair: (M, M) pairwise term of two pictures, symmetric.
        decoder: where the pairwise term applies: "chain" between adjacent steps, "anchor" between each step
            and one latent picture.
    Returns:
        (S, M), in the unit of the scores.
    Raises:
        ShapeError: the sizes differ.
    Source: the Viterbi algorithm, forward and backward, for the chain.
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
        values = pair[start : start + size, None] + scores  # (A, S, M): one table per latent picture
        best = values.max(axis=2)
        others = best.sum(axis=1, keepdims=True) - best
        np.maximum(found, (values + others[:, :, None]).max(axis=0), out=found)
    return found
