"""All steps share the world of one latent picture: exact maximisation over that picture.

The value of an anchor is a linear assignment of steps to pictures; a bound without the rule
against repeats decides which anchors need one. It sees scores only, never vectors.
"""

import numpy as np

from limner.retrieval.assignment import assign
from limner.retrieval.lattice import Decoding, Float64Array, IntArray, Lattice

TABLE_CELLS = 4_000_000
"""Pair scores held at a time."""


def anchors_of(problem: Lattice) -> IntArray:
    """Candidate numbers that may be the anchor: the pinned pictures, or without pins every candidate."""
    if len(problem.pinned):
        return problem.pinned
    return np.unique(problem.items[problem.unary > -np.inf])


def decode_anchor(problem: Lattice, *, limit: int = 2_000) -> Decoding:
    """Maximise over anchors a: Σ over shown steps of [unary + pair(picture, a)] plus blank prices.

    Args:
        problem: the lattice.
        limit: assignments solved at most; beyond it `bound` tells how much could be missing.
    Returns:
        The choice with its anchor; exact unless the limit was hit.
    Raises:
        DataError: the steps cannot all be served.
    """
    anchors = anchors_of(problem)
    if not len(anchors):
        columns, value = assign(problem.unary, problem.group, problem.blank)
        return Decoding(columns, value, value)
    bounds = step_bests(problem, anchors).sum(axis=1)
    order = np.argsort(-bounds, kind="stable")
    best = Decoding(np.zeros(0, dtype=np.int64), -np.inf)
    ceiling = -np.inf
    for count, number in enumerate(order):
        if count and (bounds[number] <= best.objective or count >= limit):
            ceiling = float(bounds[number])
            break
        anchor = int(anchors[number])
        columns, value = assign(problem.unary + pull_of(problem, anchor), problem.group, problem.blank)
        if value > best.objective:
            best = Decoding(columns, value, anchor=anchor)
    return Decoding(best.columns, best.objective, max(best.objective, ceiling), best.anchor)


def anchor_marginals(problem: Lattice) -> Float64Array:
    """Value of the best whole choice in which a step shows a candidate, repeats allowed.

    Args:
        problem: the lattice; its groups are ignored.
    Returns:
        (S, K) nats, −inf where the step may not show the candidate.
    """
    anchors = anchors_of(problem)
    result = np.full(problem.unary.shape, -np.inf)
    steps = len(problem.unary)
    if not len(anchors):
        return result
    numbers, where = np.unique(problem.items, return_inverse=True)
    where = where.reshape(problem.items.shape)
    best = step_bests(problem, anchors)
    others = best.sum(axis=1, keepdims=True) - best
    size = max(1, TABLE_CELLS // len(numbers))
    for start in range(0, len(anchors), size):
        part = slice(start, start + size)
        pulls = problem.pair.block(anchors[part], numbers)
        for s in range(steps):
            top = (pulls + others[part, s : s + 1]).max(axis=0)
            np.maximum(result[s], top[where[s]] + problem.unary[s], out=result[s])
    return result


def step_bests(problem: Lattice, anchors: IntArray) -> Float64Array:
    """(A, S) best value of each step under each anchor, repeats allowed."""
    numbers, where = np.unique(problem.items, return_inverse=True)
    where = where.reshape(problem.items.shape)
    best = np.broadcast_to(problem.blank, (len(anchors), len(problem.blank))).copy()
    if not problem.items.size:
        return best
    size = max(1, TABLE_CELLS // len(numbers))
    for start in range(0, len(anchors), size):
        part = slice(start, start + size)
        pulls = problem.pair.block(anchors[part], numbers)
        for s in range(len(problem.blank)):
            allowed = problem.unary[s] > -np.inf
            if allowed.any():
                values = pulls[:, where[s, allowed]] + problem.unary[s, allowed]
                np.maximum(best[part, s], values.max(axis=1), out=best[part, s])
    return best


def pull_of(problem: Lattice, anchor: int) -> Float64Array:
    """(S, K) pull of one anchor on every cell."""
    numbers, where = np.unique(problem.items, return_inverse=True)
    pulls: Float64Array = problem.pair.block(np.array([anchor]), numbers)[0]
    return pulls[where.reshape(problem.items.shape)]
