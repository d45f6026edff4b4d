"""Assignment of steps to groups of near-duplicates with the largest sum of log-odds."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from limner.errors import NumericsError

IntArray = NDArray[np.int64]
Float64Array = NDArray[np.float64]

BLANK = -1
"""Column of a step that shows no picture."""
_BIDS = 5
"""Average number of bids per step before augmenting paths assign the rest; more bids take longer than they
save.
"""


def assign(
    worth: Float64Array,
    groups: IntArray,
    fixed: Mapping[int, int | None] | None = None,
    *,
    allow_repeats: bool = False,
) -> IntArray:
    """Choose a candidate for every step so that the sum of worth is largest and each group is used at most
    once.

    A step stays blank only if it is fixed as blank or no candidate is left for it.

    Args:
        worth: (S, K) value of showing each candidate, at least 0; −inf for those that the step may not show.
        groups: (S, K) near-duplicate group of each candidate, from 0.
        fixed: column that a step shows in any case, by step, or `BLANK` or None. Fixed pictures may repeat,
            but no other step shows their group.
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
    # Every step may also stay blank, which is worth less than any picture.
    values = np.concatenate([open_worth + 2.0, np.ones((len(free), 1))], axis=1)
    names = np.concatenate([groups[free], groups.max() + 1 + np.arange(len(free))[:, None]], axis=1)
    matched = _matching(-values, np.unique(names, return_inverse=True)[1].reshape(names.shape))
    columns[free] = np.where(matched < worth.shape[1], matched, BLANK)
    return columns


def _matching(costs: Float64Array, names: IntArray) -> IntArray:
    """Assign one of its cells to every row so that no name repeats and the sum of costs is lowest.

    Rows first bid for their cheapest names, up to the cost of their second choice. Then shortest augmenting
    paths reassign rows for those whose names are taken, along the cheapest path. The values of rows and names
    are the dual variables; with them, no cell has a negative reduced cost.

    Args:
        costs: (S, K) costs, inf for cells that a row may not have; a full assignment must exist.
        names: (S, K) names of the cells, from 0.
    Returns:
        (S,) columns.
    Source: Jonker and Volgenant, A Shortest Augmenting Path Algorithm for Dense and Sparse Linear Assignment
        Problems, 1987, augmenting row reduction and augmentation.
    Departs: a bounded number of bids; rows that list their own cells instead of a full matrix.
    """
    rows = range(len(costs))
    chosen: IntArray = np.zeros(len(costs), dtype=np.int64)
    row_value, name_value = np.zeros(len(costs)), np.zeros(names.max() + 1)
    owner = np.full(len(name_value), -1)
    free = deque(rows)
    for _ in range(_BIDS * len(costs)):
        if not free:
            break
        row = free.popleft()
        left = costs[row] - name_value[names[row]]
        best = int(left.argmin())
        name = int(names[row, best])
        row_value[row] = second = left[names[row] != name].min()
        name_value[name] -= second - left[best]
        if owner[name] >= 0:
            free.append(int(owner[name]))
        owner[name], chosen[row] = row, best
    for start in free:
        waiting, reached = np.full((2, len(name_value)), np.inf)
        row_before, cell_before = np.zeros((2, len(name_value)), dtype=np.int64)
        settled: dict[int, float] = {}
        row, length = start, 0.0
        while True:
            lengths = length + costs[row] - row_value[row] - name_value[names[row]]
            better = np.flatnonzero(lengths < reached[names[row]])
            better = better[np.argsort(-lengths[better])]  # the cheapest of a name overwrites the others
            found = names[row, better]
            waiting[found] = reached[found] = lengths[better]
            row_before[found], cell_before[found] = row, better
            name = int(waiting.argmin())
            length, waiting[name], reached[name] = float(waiting[name]), np.inf, -np.inf
            if owner[name] < 0:
                break
            settled[name] = length
            row = int(owner[name])
        row_value[start] += length
        for one, reached_at in settled.items():
            row_value[owner[one]] += length - reached_at
            name_value[one] -= length - reached_at
        row = -1
        while row != start:  # the row that reached a name gets it, and frees its own
            row, cell = int(row_before[name]), int(cell_before[name])
            left = int(names[row, chosen[row]])
            owner[name], chosen[row], name = row, cell, left
    return chosen
