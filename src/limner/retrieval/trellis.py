"""A lattice laid out for dynamic programming along the story, and the Viterbi pass over it.

Both the exact chain decoder and the beam walk it. It ignores the rule against repeats.
"""

import numpy as np

from limner.retrieval.lattice import Float64Array, IntArray, Lattice


class Trellis:
    """S steps of K candidates and a blank, which is column K.

    Attributes:
        unary: (S, K + 1) nats with the pull of the pinned pictures; last column is the blank.
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
