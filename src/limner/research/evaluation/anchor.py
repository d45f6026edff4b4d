"""Decoding with one latent picture that all steps agree with, maximised exactly.

The value of an anchor is a linear assignment of steps to pictures. Prices on pictures that several
steps want (Lagrange multipliers of the rule against repeats) bound it from above, so that few
anchors need the assignment itself. It sees scores only, never vectors.
"""

import numpy as np

from limner.research.evaluation.lattice import Decoding, Float64Array, IntArray, Lattice, assign, prices

TABLE_CELLS = 4_000_000
"""Pair scores held at a time."""

PAIRS = 100_000_000
"""Pairs of an anchor and a candidate looked at; with more candidates, fewer of them may be the anchor."""

WORK_CELLS = 500_000_000
"""Cells looked at before an unfinished proof is given up: seconds, whatever the size."""

ROUNDS, SOLVED = 30, 100
"""Price updates per anchor before its assignment is solved, and about as many as that takes."""

FEW = 32
"""Anchors that are cheaper to look into one by one than to bound together."""

RUN = 24
"""Cells of a step looked at together, the best first."""


def anchors_of(problem: Lattice) -> IntArray:
    """Candidate numbers that may be the anchor: the pinned pictures, or without pins every candidate."""
    return problem.pinned if len(problem.pinned) else problem.anchors


def leading(problem: Lattice, most: int) -> IntArray:
    """The anchors to begin with: the best candidate of every step, the second best, and so on.

    Args:
        problem: the lattice.
        most: anchors at most, ≥ 1.
    """
    anchors = anchors_of(problem)
    if len(anchors) <= most:
        return anchors
    order = np.argsort(-problem.unary, kind="stable")
    ranked = np.take_along_axis(problem.items, order, axis=1).T.ravel()
    names, first = np.unique(ranked, return_index=True)
    kept = np.isin(names, anchors)
    return np.sort(names[kept][np.argsort(first[kept])[:most]])


def decode_anchor(problem: Lattice, *, limit: int | None = None) -> Decoding:
    """Maximise over anchors a: Σ over shown steps of [unary + pair(picture, a)] plus blank prices.

    Args:
        problem: the lattice.
        limit: about as much work as so many assignments, None for some seconds' worth; beyond it `bound`
            tells how much could be missing.
    Returns:
        The choice with its anchor; exact unless the limit was hit, over all anchors or, where these and the
        candidates make more than `PAIRS` pairs, over as many of the `leading` ones.
    Raises:
        DataError: the steps cannot all be served.
    """
    search = _Search(problem)
    anchors = leading(problem, max(1, PAIRS // max(1, len(search.numbers))))
    columns, value = assign(problem.unary, problem.group, problem.blank)
    if not len(anchors):
        return Decoding(columns, value, value)
    if len(anchors) == 1:
        columns, value = assign(search.values(int(anchors[0])), search.group, problem.blank)
        return Decoding(columns, value, value, int(anchors[0]))
    price = prices(problem.unary, search.group, problem.blank, columns)
    bounds = search.bounds(anchors, price)
    left = WORK_CELLS // max(1, problem.unary.size) if limit is None else limit * SOLVED
    best, solved = Decoding(np.zeros(0, dtype=np.int64), -np.inf), 0
    while True:
        number = int(bounds.argmax())
        if solved and (bounds[number] <= best.objective or left <= 0):
            break
        anchor = int(anchors[number])
        values = search.values(anchor)
        if solved:
            rounds, bounds[number] = search.tightened(values, price, bounds[number], best.objective)
            left -= rounds
            if bounds[number] <= best.objective:
                continue
        columns, value = assign(values, search.group, problem.blank)
        own = prices(values, search.group, problem.blank, columns)
        # What earlier anchors had to pay is where the next one starts: their mean.
        price = (solved * price + own) / (solved + 1)
        bounds[number], solved, left = -np.inf, solved + 1, left - SOLVED
        if value > best.objective:
            best = Decoding(columns, value, anchor=anchor)
        if solved.bit_count() == 1:  # after 1, 2, 4, 8 … assignments
            open_ = np.flatnonzero(bounds > best.objective)
            if len(open_) > FEW:
                bounds[open_] = np.minimum(bounds[open_], search.bounds(anchors[open_], price))
    return Decoding(best.columns, best.objective, max(best.objective, float(bounds[number])), best.anchor)


class _Search:
    """A lattice with its candidates and groups numbered."""

    def __init__(self, problem: Lattice) -> None:
        self.problem = problem
        every, allowed = np.unique(problem.items), np.unique(problem.items[problem.unary > -np.inf])
        # A pair term may know more of a whole table; half of one is worth leaving out.
        self.numbers = allowed if 0 < 2 * len(allowed) < len(every) else every
        place = np.minimum(np.searchsorted(self.numbers, problem.items), max(0, len(self.numbers) - 1))
        self.where = place  # of cells that are not allowed, any
        self.group = np.unique(problem.group, return_inverse=True)[1].reshape(problem.group.shape)

    def values(self, anchor: int) -> Float64Array:
        """(S, K) unary and the pairwise term of one anchor."""
        terms: Float64Array = self.problem.pair.block(np.array([anchor]), self.numbers)[0]
        return np.asarray(self.problem.unary + terms[self.where], dtype=np.float64)

    def bounds(self, anchors: IntArray, price: Float64Array) -> Float64Array:
        """(A,) no choice under an anchor exceeds its bound; see `prices` of `evaluation.lattice`."""
        result = np.empty(len(anchors))
        dear = self.problem.unary - price[self.group]
        order = np.argsort(-dear)
        sizes = np.count_nonzero(dear > -np.inf, axis=1)
        size = max(1, TABLE_CELLS // max(1, len(self.numbers)))
        for start in range(0, len(anchors), size):
            part = slice(start, start + size)
            terms = self.problem.pair.block(self.numbers, anchors[part])  # (C, A): a row is copied whole
            most = terms.max(initial=-np.inf)
            total = np.full(terms.shape[1], price.sum())
            for s in range(len(dear)):
                best = np.full(terms.shape[1], self.problem.blank[s])
                for run in range(0, sizes[s], RUN):
                    cells = order[s, run : min(run + RUN, sizes[s])]
                    if dear[s, cells[0]] + most <= best.min():
                        break  # nor can any later cell exceed what is there
                    own = terms[self.where[s, cells]]
                    own += dear[s, cells, None]
                    np.maximum(best, own.max(axis=0), out=best)
                total += best
            result[part] = total
        return result

    def tightened(
        self, values: Float64Array, price: Float64Array, bound: float, target: float
    ) -> tuple[int, float]:
        """Subgradient steps on the prices until one anchor is proven to stay below a target.

        Returns:
            rounds taken, and the lowest bound met.
        Source: Polyak 1969 (the length of a step).
        """
        blank, steps = self.problem.blank, np.arange(len(values))
        rounds = 0
        while rounds < ROUNDS:
            rounds += 1
            dear = values - price[self.group]
            best = dear.argmax(axis=1)
            top = dear[steps, best]
            shown = top > blank
            reached = float(np.maximum(top, blank).sum() + price.sum())
            bound = min(bound, reached)
            used = np.bincount(self.group[steps[shown], best[shown]], minlength=len(price))
            slope = np.where((price > 0) | (used > 1), used - 1.0, 0.0)
            norm = float(slope @ slope)
            if bound <= target or norm == 0.0:
                break
            price = np.maximum(price + (reached - target) / norm * slope, 0.0)
        return rounds, bound


def anchor_marginals(problem: Lattice) -> Float64Array:
    """Value of the best whole choice in which a step shows a candidate, repeats allowed.

    Args:
        problem: the lattice; its groups are ignored.
    Returns:
        (S, K) nats, −inf where the step may not show the candidate.
    """
    result = np.full(problem.unary.shape, -np.inf)
    anchors = anchors_of(problem)
    numbers, where = problem.numbered
    size = max(1, TABLE_CELLS // max(1, where.size))
    for start in range(0, len(anchors), size):
        values = problem.pair.block(anchors[start : start + size], numbers)[:, where] + problem.unary
        best = np.maximum(values.max(axis=2), problem.blank)  # (A, S) of each step under each anchor
        others = best.sum(axis=1, keepdims=True) - best
        np.maximum(result, (values + others[:, :, None]).max(axis=0), out=result)
    return result
