"""The best picture for every step when pictures are indifferent to each other but none may repeat.

One linear assignment of steps to groups; blanks are private columns. It is what "off" means, the
inner problem of the anchor decoder, and a first feasible answer for the chain.
"""

import numpy as np

from limner.errors import DataError
from limner.retrieval.gallery import BoolArray
from limner.retrieval.lattice import BLANK, Float64Array, IntArray


def assign(unary: Float64Array, group: IntArray, blank: Float64Array) -> tuple[IntArray, float]:
    """Maximise the sum over steps with no group used twice.

    Only the S best groups of a step can matter: the other steps take at most S − 1 of them.

    Args:
        unary: (S, K) nats, −inf where not allowed.
        group: (S, K) group of each cell.
        blank: (S,) nats of a blank, −inf where not allowed.
    Returns:
        (S,) columns or `BLANK`, and the sum.
    Raises:
        DataError: the steps cannot all be served.
    """
    from scipy.optimize import linear_sum_assignment

    steps = len(unary)
    padded = np.column_stack([unary, blank])
    best = padded.argmax(axis=1)
    shown = best < unary.shape[1]
    used = group[np.flatnonzero(shown), best[shown]]
    top = padded[np.arange(steps), best]
    if len(np.unique(used)) == len(used) and np.isfinite(top).all():
        return np.where(shown, best, BLANK), float(top.sum())

    rows, cells = np.nonzero(_worth(unary, group))
    values = unary[rows, cells]
    order = np.lexsort((-cells, values)) if _doubled(group) else slice(None)  # of one group, the best is last
    rows, cells, values = rows[order], cells[order], values[order]
    names, where = np.unique(group[rows, cells], return_inverse=True)
    cost = np.full((steps, len(names) + steps), np.inf)
    chosen = np.full(cost.shape, BLANK, dtype=np.int64)
    cost[rows, where], chosen[rows, where] = -values, cells
    cost[np.arange(steps), len(names) + np.arange(steps)] = -blank
    try:
        rows, columns = linear_sum_assignment(cost)
    except ValueError:
        raise DataError(
            f"{steps} steps cannot all get a picture of their own from {len(names)} groups; "
            "allow repeats or blanks, or index more pictures"
        ) from None
    return chosen[rows, columns], float(-cost[rows, columns].sum())


def prices(unary: Float64Array, group: IntArray, blank: Float64Array, columns: IntArray) -> Float64Array:
    """What the best assignment would gain if a group could be used once more: its dual.

    With these prices, every step that takes what is best for it alone, price deducted, reaches the value
    of the assignment: Σ prices + Σ over steps of max(blank, unary − price). For other scores the same sum
    is a bound.

    Args:
        unary: (S, K) nats, −inf where not allowed.
        group: (S, K) groups, numbered from 0 to G − 1.
        blank: (S,) nats of a blank.
        columns: (S,) a best assignment, see `assign`.
    Returns:
        (G,) nats ≥ 0; 0 for groups that are not used.
    Source: Shapley & Shubik 1971 (the assignment game), the lowest competitive prices.
    """
    found = np.zeros(int(group.max(initial=-1)) + 1)
    owners = np.flatnonzero(columns != BLANK)
    own = blank.copy()
    own[owners] = unary[owners, columns[owners]]
    names = group[owners, columns[owners]]
    slot = np.full(len(found), -1)
    slot[names] = np.arange(len(owners))
    rows, cells = np.nonzero((slot[group] >= 0) & (unary > -np.inf))
    order = np.argsort(unary[rows, cells], kind="stable")  # of one group, the best is written last
    rows, cells = rows[order], cells[order]
    # What a step would gain by moving to the group of another one.
    gain = np.full((len(unary), len(owners)), -np.inf)
    gain[rows, slot[group[rows, cells]]] = unary[rows, cells]
    gain -= own[:, None]
    gain[owners, np.arange(len(owners))] = -np.inf
    freed = np.zeros(len(unary))
    for _ in range(len(unary)):  # longest paths: who moves frees a group for someone else
        raised = np.maximum((gain + freed[:, None]).max(axis=0, initial=0.0), 0.0)
        if np.array_equal(raised, freed[owners]):
            break
        freed[owners] = raised
    found[names] = freed[owners]
    return found


def _doubled(group: IntArray) -> int:
    """How many cells of one step share their group with another cell of it, at most."""
    ordered = np.sort(group, axis=1)
    return int((ordered[:, 1:] == ordered[:, :-1]).sum(axis=1).max(initial=0))


def _worth(unary: Float64Array, group: IntArray) -> BoolArray:
    """(S, K) cells that may be chosen: allowed, and of one of the S best groups of their step."""
    allowed: BoolArray = unary > -np.inf
    least = len(unary) + _doubled(group)
    if least < unary.shape[1]:
        floor = -np.partition(-unary, least - 1, axis=1)[:, least - 1 : least]
        allowed &= unary >= floor
    return allowed
