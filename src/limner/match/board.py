"""The storyboard with the largest sum of log-odds: one assignment of steps to groups of near-duplicates."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from limner.errors import NumericsError

IntArray = NDArray[np.int64]
Float64Array = NDArray[np.float64]

BLANK = -1
"""Column of a step that shows no picture."""


def assign(
    worth: Float64Array,
    groups: IntArray,
    fixed: Mapping[int, int | None] | None = None,
    *,
    allow_repeats: bool = False,
) -> IntArray:
    """Choose a candidate for every step so that the sum of their worth is largest and no group comes twice.

    A step shows nothing only where it is fixed so, or where no candidate is left for it.

    Args:
        worth: (S, K) of the candidates, at least 0; −inf where a step may not show one.
        groups: (S, K) near-duplicate group of each candidate, from 0.
        fixed: step → column that it shows whatever the others do, or `BLANK` or None; such a picture may even
            come twice, yet no other step shows its group.
        allow_repeats: whether steps may share a group.
    Returns:
        (S,) columns, or `BLANK`.
    Raises:
        NumericsError: a worth is NaN, negative or infinite.
    """
    allowed = worth > -np.inf
    if np.isnan(worth).any() or (worth[allowed] < 0).any() or np.isposinf(worth).any():
        raise NumericsError("board: a candidate's worth is not a finite number of at least 0")
    kept = {step: BLANK if column is None else column for step, column in (fixed or {}).items()}
    free = np.array([step for step in range(len(worth)) if step not in kept], dtype=np.int64)
    columns = np.full(len(worth), BLANK, dtype=np.int64)
    columns[list(kept)] = list(kept.values())
    if not allow_repeats:
        used = [groups[step, column] for step, column in kept.items() if column != BLANK]
        allowed &= ~np.isin(groups, used)
    if not len(free) or not worth.shape[1]:
        return columns
    open_worth = np.where(allowed, worth, -np.inf)[free]
    best = open_worth.argmax(axis=1)
    shown = open_worth[np.arange(len(free)), best] > -np.inf
    wanted = groups[free, best][shown]
    if allow_repeats or len(np.unique(wanted)) == len(wanted):
        columns[free] = np.where(shown, best, BLANK)
        return columns
    from scipy.sparse import coo_array  # only where two steps want one picture
    from scipy.sparse.csgraph import min_weight_full_bipartite_matching

    # Of one group only the best candidate of a step can matter, and only the S best groups of each step.
    rows, cells = np.nonzero(open_worth > -np.inf)
    values = open_worth[rows, cells]
    order = np.lexsort((cells, -values, groups[free][rows, cells], rows))
    rows, cells, values = rows[order], cells[order], values[order]
    names = groups[free][rows, cells]
    first = np.r_[True, (np.diff(rows) != 0) | (np.diff(names) != 0)]
    rows, cells, values, names = rows[first], cells[first], values[first], names[first]
    kinds, node = np.unique(names, return_inverse=True)
    count, steps = len(kinds), np.arange(len(free))
    # Every step may also stay blank, which is worth less than any picture.
    weights = np.concatenate([values + 2.0, np.full(len(free), 1.0)])
    graph = coo_array(
        (weights, (np.r_[rows, steps], np.r_[node, count + steps])), shape=(len(free), count + len(free))
    ).tocsr()
    matched_rows, matched = min_weight_full_bipartite_matching(graph, maximize=True)
    place = dict(zip(zip(rows.tolist(), node.tolist(), strict=True), cells.tolist(), strict=True))
    for row, one in zip(matched_rows.tolist(), matched.tolist(), strict=True):
        columns[free[row]] = place.get((row, one), BLANK)
    return columns
