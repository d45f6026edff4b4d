"""Neighbouring steps agree: Viterbi, made exact under the rule against repeats.

Viterbi ignores the rule and so bounds every choice from above. Prices on repeated groups
(Lagrange multipliers) lower the bound, and branching on a repeated group closes what is left.
A blank has no pairwise term: the chain starts anew after it. It sees scores only.
"""

import heapq

import numpy as np

from limner.research.evaluation.lattice import BLANK, Decoding, Float64Array, IntArray, Lattice, assign


class Trellis:
    """S steps of K candidates and a blank, which is column K.

    Attributes:
        unary: (S, K + 1) nats with the mean pairwise term of the pinned pictures; last column is the blank.
        pairs: S − 1 arrays (K + 1, K + 1); 0 where either is blank.
    """

    def __init__(self, problem: Lattice) -> None:
        self.unary: Float64Array = np.column_stack([problem.unary + problem.world(), problem.blank])
        self.pairs: list[Float64Array] = []
        for s in range(1, len(self.unary)):
            before, here = problem.items[s - 1], problem.items[s]
            if s > 1 and (problem.items[s - 2 : s + 1] == here).all():
                self.pairs.append(self.pairs[-1])  # the same lists again: the same table
                continue
            table = np.zeros((len(before) + 1, len(here) + 1))
            table[:-1, :-1] = problem.pair.block(before, here)
            self.pairs.append(table)

    def value(self, path: IntArray) -> float:
        """Value of one column per step; the blank is column K."""
        steps = np.arange(len(path))
        total = float(self.unary[steps, path].sum())
        return total + float(sum(table[path[s], path[s + 1]] for s, table in enumerate(self.pairs)))

    def ahead(self, unary: Float64Array) -> Float64Array:
        """(S, K + 1) best value from each cell to the end, itself included."""
        values = unary.copy()
        for s in range(len(unary) - 2, -1, -1):
            values[s] += (self.pairs[s] + values[s + 1]).max(axis=1)
        return values

    def viterbi(self, unary: Float64Array) -> tuple[float, IntArray]:
        """Best value and path when repeats are allowed."""
        values = self.ahead(unary)
        path = np.empty(len(unary), dtype=np.int64)
        path[0] = values[0].argmax()
        for s, table in enumerate(self.pairs):
            path[s + 1] = (table[path[s]] + values[s + 1]).argmax()
        return float(values[0, path[0]]), path


def decode_beam(problem: Lattice, *, width: int = 8) -> Decoding:
    """Extend the best beginnings of the chain step by step.

    Same objective as `chain.decode_chain`. Where every beginning runs out of pictures, the answer
    is the assignment that ignores the neighbours.

    Args:
        problem: the lattice.
        width: beginnings kept, ≥ 1.
    Raises:
        DataError: the steps cannot all be served.
    """
    trellis = Trellis(problem)
    steps, candidates = problem.unary.shape
    paths = np.zeros((1, 0), dtype=np.int64)
    values = np.zeros(1)
    for s in range(steps):
        grown = values[:, None] + trellis.unary[s]
        if s:
            grown = grown + trellis.pairs[s - 1][paths[:, -1]]
        for before in range(s):
            shown = paths[:, before] < candidates
            if shown.any():
                used = problem.group[before, np.where(shown, paths[:, before], 0)]
                grown[:, :-1][(problem.group[s] == used[:, None]) & shown[:, None]] = -np.inf
        flat = np.argsort(-grown, axis=None, kind="stable")[:width]
        flat = flat[grown.ravel()[flat] > -np.inf]
        origin, column = np.unravel_index(flat, grown.shape)
        paths = np.column_stack([paths[origin], column])
        values = grown.ravel()[flat]
        if not len(values):
            break
    if len(values):
        path = paths[0]
    else:
        # `BLANK`, which is −1, is the last column too.
        path, _ = assign(trellis.unary[:, :-1], problem.group, problem.blank)
    return Decoding(np.where(path == candidates, BLANK, path), trellis.value(path))


TOLERANCE = 1e-9
"""Relative difference of values counted as equal."""

ROOT_ROUNDS, NODE_ROUNDS, REPAIR_EVERY = 120, 8, 10
"""Price updates before branching, after each branching, and between attempts at a valid path."""

WORK_CELLS = 1_500_000_000
"""Pair scores looked at before an unfinished proof is given up: seconds, whatever the size."""


def chain_marginals(problem: Lattice) -> Float64Array:
    """Value of the best whole choice in which a step shows a candidate, repeats allowed.

    Args:
        problem: the lattice; its groups are ignored.
    Returns:
        (S, K) nats, −inf where the step may not show the candidate.
    """
    trellis = Trellis(problem)
    values = trellis.ahead(trellis.unary)
    behind = np.zeros(trellis.unary.shape[1])
    for s, table in enumerate(trellis.pairs):
        behind = (table.T + (behind + trellis.unary[s])).max(axis=1)
        values[s + 1] += behind
    return values[:, :-1]


class _Search:
    """Branch and bound over which step may use a repeated group."""

    def __init__(self, problem: Lattice, limit: int) -> None:
        self.trellis = Trellis(problem)
        self.left = limit
        steps, width = problem.unary.shape
        start = decode_beam(problem)
        self.path, self.best = start.columns, start.objective
        # Number the groups that two steps can reach; all others can never clash and share number 0.
        self.group = np.zeros((steps, width + 1), dtype=np.int64)
        allowed = problem.unary > -np.inf
        reached = [np.unique(problem.group[s, allowed[s]]) for s in range(steps)]
        names, counts = np.unique(np.concatenate(reached), return_counts=True)
        names = names[counts > 1]
        self.count = len(names) + 1
        if len(names):
            where = np.minimum(np.searchsorted(names, problem.group), len(names) - 1)
            self.group[:, :-1] = np.where(names[where] == problem.group, where + 1, 0)

    def offer(self, path: IntArray) -> None:
        """Keep a path that obeys the rule if it is the best so far."""
        value = self.trellis.value(path)
        if value > self.best:
            self.best, self.path = value, path

    def uses(self, path: IntArray) -> IntArray:
        """Number of uses of each numbered group; number 0 counts as unused."""
        counts = np.bincount(self.group[np.arange(len(path)), path], minlength=self.count)
        counts[0] = 0
        return counts

    def done(self, bound: float) -> bool:
        """Whether nothing under this bound can beat what is known."""
        return bound <= self.best + TOLERANCE * max(1.0, abs(self.best))

    def relax(self, unary: Float64Array, prices: Float64Array) -> tuple[float, IntArray]:
        """Bound and path when using group g costs prices[g] and each price is paid back once."""
        self.left -= 1
        value, path = self.trellis.viterbi(unary - prices[self.group])
        return value + float(prices.sum()), path

    def repair(self, unary: Float64Array, prices: Float64Array, path: IntArray) -> None:
        """Turn a path with repeats into one without, and offer it; prices keep it off dear groups."""
        unary = unary - prices[self.group]
        while self.left > 0:
            repeated = np.flatnonzero(self.uses(path) > 1)
            if not len(repeated):
                self.offer(path)
                return
            for group in repeated:
                cells = self.group == group
                steps = np.flatnonzero(self.group[np.arange(len(path)), path] == group)
                keep = steps[unary[steps, path[steps]].argmax()]
                cells[keep] = False
                unary[cells] = -np.inf
            self.left -= 1
            value, path = self.trellis.viterbi(unary)
            if not np.isfinite(value):
                return

    def tighten(
        self, unary: Float64Array, prices: Float64Array, rounds: int
    ) -> tuple[float, IntArray, Float64Array]:
        """Subgradient steps on the prices; the lowest bound met, its path and its prices."""
        bound, path = self.relax(unary, prices)
        lowest = (bound, path, prices)
        pace, stale = 1.0, 0
        for turn in range(1, rounds + 1):
            counts = self.uses(path)
            if self.left <= 0 or self.done(lowest[0]) or not np.isfinite(bound):
                break
            slope = np.where((prices > 0) | (counts > 1), counts - 1.0, 0.0)
            slope[0] = 0.0
            norm = float(slope @ slope)
            if norm == 0.0:  # no repeat, no price left to lower: the path is best here
                break
            prices = np.maximum(prices + pace * (lowest[0] - self.best) / norm * slope, 0.0)
            bound, path = self.relax(unary, prices)
            if (self.uses(path) <= 1).all():
                self.offer(path)
            elif turn % REPAIR_EVERY == 0:
                self.repair(unary, prices, path)
            if bound < lowest[0]:
                lowest, stale = (bound, path, prices), 0
            else:
                stale += 1
                if stale >= 3:
                    pace, stale = pace / 2, 0
        return lowest

    def settle(
        self, unary: Float64Array, bound: float, path: IntArray, prices: Float64Array
    ) -> tuple[float, IntArray]:
        """Drop prices of unused groups until the path repeats something or is proven best."""
        while not self.done(bound) and (self.uses(path) <= 1).all():
            self.offer(path)
            idle = (self.uses(path) == 0) & (prices > 0)
            if not idle.any() or self.left <= 0:
                break
            prices = np.where(idle, 0.0, prices)
            value, path = self.relax(unary, prices)
            bound = min(bound, value)
        return bound, path

    def run(self) -> float:
        """Search; returns the proven bound."""
        steps = np.arange(len(self.group))
        closed = np.zeros(self.group.shape, dtype=bool)
        # The most promising part of the search space first: −bound, serial number, closed cells, prices.
        heap = [(-np.inf, 0, closed, np.zeros(self.count))]
        serial = 0
        while heap:
            key, _, closed, prices = heapq.heappop(heap)
            if self.done(-key):
                return self.best
            if self.left <= 0:
                return -key
            unary = np.where(closed, -np.inf, self.trellis.unary)
            if np.isneginf(unary).all(axis=1).any():
                continue
            rounds = NODE_ROUNDS if serial else ROOT_ROUNDS
            bound, path, prices = self.tighten(unary, prices, rounds)
            if serial % REPAIR_EVERY == 0:
                self.repair(unary, prices, path)
            bound, path = self.settle(unary, min(bound, -key), path, prices)
            counts = self.uses(path)
            if self.done(bound) or not np.isfinite(bound):
                continue
            if counts.max() <= 1:  # out of budget while settling
                return bound if not heap else max(bound, -heap[0][0])
            group = int(counts.argmax())
            users = np.flatnonzero(self.group[steps, path] == group)
            step = users[unary[users, path[users]].argmax()]
            for others in (True, False):  # only this step may use the group, or it may not
                serial += 1
                shut = (self.group == group) & ((steps != step) == others)[:, None]
                heapq.heappush(heap, (-bound, serial, closed | shut, prices))
        return self.best


def decode_chain(problem: Lattice, *, limit: int | None = None) -> Decoding:
    """Maximise Σ unary + Σ pair(neighbours both shown) + blank prices, no group twice.

    With pins, every other step also gains the mean pairwise term of the pinned pictures, so that a pin
    counts twice for its neighbours: once as a neighbour, once as the world of the story.

    Args:
        problem: the lattice.
        limit: dynamic programmes run at most, None for some seconds' worth; beyond it `bound` tells
            how much could be missing.
    Returns:
        The choice; exact unless the limit was hit.
    Raises:
        DataError: the steps cannot all be served.
    """
    steps, width = problem.unary.shape
    affordable = WORK_CELLS // (steps * (width + 1) ** 2)
    search = _Search(problem, min(max(affordable, 20), 3_000) if limit is None else limit)
    bound = search.run()
    columns = np.where(search.path == width, BLANK, search.path)
    return Decoding(columns, search.best, max(bound, search.best))
