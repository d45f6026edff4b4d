"""The best picture for every step when pictures are indifferent to each other but none may repeat.

One linear assignment of steps to groups; blanks are private columns. It is what "off" means, the
inner problem of the anchor decoder, and a first feasible answer for the chain.
"""

import numpy as np

from limner.errors import DataError
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

    kept = [_best_per_group(unary[s], group[s], steps) for s in range(steps)]
    names = np.unique(np.concatenate([group[s, columns] for s, columns in enumerate(kept)]))
    cost = np.full((steps, len(names) + steps), np.inf)
    chosen = np.full(cost.shape, BLANK, dtype=np.int64)
    for s, columns in enumerate(kept):
        where = np.searchsorted(names, group[s, columns])
        cost[s, where], chosen[s, where] = -unary[s, columns], columns
    cost[np.arange(steps), len(names) + np.arange(steps)] = -blank
    try:
        rows, columns = linear_sum_assignment(cost)
    except ValueError:
        raise DataError(
            f"{steps} steps cannot all get a picture of their own from {len(names)} groups; "
            "allow repeats or blanks, or index more pictures"
        ) from None
    return chosen[rows, columns], float(-cost[rows, columns].sum())


def _best_per_group(values: Float64Array, group: IntArray, limit: int) -> IntArray:
    """Columns of the best cell of each of the `limit` best groups."""
    order = np.argsort(-values, kind="stable")
    order = order[: np.count_nonzero(values > -np.inf)]
    _, first = np.unique(group[order], return_index=True)
    return order[np.sort(first)[:limit]]
