"""Left to right with a few best beginnings kept: what the exact chain decoder is compared with.

Width 1 is the greedy decoder. It obeys the rule against repeats but proves nothing.
"""

import numpy as np

from limner.errors import ConfigError
from limner.retrieval.assignment import assign
from limner.retrieval.lattice import BLANK, Decoding, Lattice
from limner.retrieval.trellis import Trellis


def decode_beam(problem: Lattice, *, width: int = 8) -> Decoding:
    """Extend the best beginnings of the chain step by step.

    Same objective as `chain.decode_chain`. Where every beginning runs out of pictures, the answer
    is the assignment that ignores the neighbours.

    Args:
        problem: the lattice.
        width: beginnings kept, at least 1.
    Raises:
        ConfigError: width below 1.
        DataError: the steps cannot all be served.
    """
    if width < 1:
        raise ConfigError(f"beam: width is {width}, expected at least 1")
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
            used = problem.group[before, np.where(shown, paths[:, before], 0)] if candidates else None
            if used is not None:
                clash = (problem.group[s] == used[:, None]) & shown[:, None]
                grown[:, :-1][clash] = -np.inf
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
        columns, _ = assign(trellis.unary[:, :-1], problem.group, problem.blank)
        path = np.where(columns == BLANK, candidates, columns)
    return Decoding(np.where(path == candidates, BLANK, path), trellis.value(path))
