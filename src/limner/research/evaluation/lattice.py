"""The problem a decoder solves: S steps, K candidate pictures each, and what they say of each other.

Pins and the rule against repeats are folded in here, so that decoders see only
scores and groups. It chooses nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from limner.arrays import expect
from limner.errors import DataError, NumericsError, counted
from limner.store.catalogue import BoolArray

IntArray = NDArray[np.int64]
Float64Array = NDArray[np.float64]

BLANK = -1
"""Column of a step that shows no picture."""


class Pairwise(Protocol):
    """What two pictures of one storyboard say for each other, in nats; symmetric."""

    def block(self, rows: IntArray, columns: IntArray) -> Float64Array:
        """Candidate numbers (R,) and (Q,) → (R, Q) finite nats."""


@dataclass(frozen=True)
class Lattice:
    """Steps, candidates and prices, ready to decode; made by `lattice`.

    Attributes:
        unary: (S, K) nats; −inf where the step may not show the candidate.
        items: (S, K) candidate numbers 0..C−1.
        group: (S, K) two steps may not choose cells of one group.
        blank: (S,) nats of showing nothing; −inf where that is not allowed.
        pair: what candidates say for each other.
        pinned: candidate numbers the user fixed.
        anchors: candidate numbers that may be the latent picture where none is pinned.
    """

    unary: Float64Array
    items: IntArray
    group: IntArray
    blank: Float64Array
    pair: Pairwise
    pinned: IntArray
    anchors: IntArray

    @cached_property
    def numbered(self) -> tuple[IntArray, IntArray]:
        """(C',) candidate numbers that some cell has, ascending, and (S, K) which of them each cell has."""
        numbers, where = np.unique(self.items, return_inverse=True)
        return numbers, where.reshape(self.items.shape)

    def pairwise(self, candidate: int) -> Float64Array:
        """(S, K) pairwise term of one candidate with each cell."""
        numbers, where = self.numbered
        terms: Float64Array = self.pair.block(np.array([candidate]), numbers)[0]
        return terms[where]

    def world(self) -> Float64Array:
        """(S, K) mean pairwise term of the pinned pictures with each cell; 0 without pins and at pins."""
        if not len(self.pinned):
            return np.zeros(self.unary.shape)
        numbers, where = self.numbered
        mean = self.pair.block(numbers, self.pinned).mean(axis=1)
        return np.where(np.isin(self.items, self.pinned), 0.0, mean[where])


@dataclass(frozen=True)
class Decoding:
    """A choice for every step.

    Attributes:
        columns: (S,) chosen column of each step, or `BLANK`.
        objective: value reached, nats.
        bound: no choice can exceed it, nats; equal to `objective` up to rounding when proven best.
        anchor: candidate number of the shared latent picture, for the anchor decoder.
    """

    columns: IntArray
    objective: float
    bound: float = np.inf
    anchor: int | None = None

    @property
    def exact(self) -> bool:
        """Whether the choice is proven best."""
        return self.bound - self.objective <= 1e-6 * max(1.0, abs(self.objective))


def lattice(
    unary: Float64Array,
    groups: IntArray,
    pair: Pairwise,
    *,
    items: IntArray | None = None,
    blank: Float64Array | None = None,
    locks: Mapping[int, int | None] | None = None,
    held: Collection[int] = (),
    allow_repeats: bool = False,
) -> Lattice:
    """Fold pins and the rule against repeats into one problem.

    A pinned picture stays whatever else happens, even twice; no other step may then show its group.
    A held one stays likewise, but guides the others no more than any picture that the decoder chose.

    Args:
        unary: (S, K) nats; −inf where a step may not show a candidate.
        groups: (C,) near-duplicate group of each candidate.
        pair: what candidates say for each other.
        items: (S, K) candidate numbers; None when every step's list is 0..K−1.
        blank: (S,) nats of showing nothing; None or −inf forbids it.
        locks: step of the S → column it must show, or None to keep it blank.
        held: those of the locked steps that nobody pinned: they only stay as they are.
        allow_repeats: whether steps may share a group.
    Raises:
        DataError: a step is left with nothing.
        ShapeError: the arrays do not fit.
        NumericsError: a score is NaN or +inf.
    """
    values = np.array(unary, dtype=np.float64)
    if items is None:
        items = np.broadcast_to(np.arange(values.shape[-1]), values.shape)
    prices = np.full(len(values), -np.inf) if blank is None else np.array(blank, dtype=np.float64)
    expect("lattice", unary=(values, "S K"), items=(items, "S K"), blank=(prices, "S"), groups=(groups, "C"))
    for name, array in (("unary", values), ("blank", prices)):
        if not (array < np.inf).all():
            raise NumericsError(f"lattice: {name} has NaN or +inf; expected nats or −inf")
    steps, width = values.shape
    locks = locks or {}
    fixed = {step: items[step, column] for step, column in locks.items() if column is not None}
    pinned = sorted({item for step, item in fixed.items() if step not in held})
    group = groups[items]
    if allow_repeats:
        group = np.arange(values.size).reshape(values.shape)
    else:
        free = ~np.isin(np.arange(steps), list(fixed))[:, None]
        values[np.isin(group, [groups[item] for item in fixed.values()]) & free] = -np.inf
    possible = values > -np.inf  # what a held step could have shown may still be the latent picture
    for step, column in locks.items():
        values[step, np.arange(width) != column] = -np.inf
        if column is not None:
            prices[step] = -np.inf
            group[step] = -1 - step  # a pin is exempt from the rule
        elif prices[step] == -np.inf:
            prices[step] = 0.0
        if step not in held:
            possible[step] = False
    stuck = np.flatnonzero(np.isneginf(np.column_stack([values, prices])).all(axis=1))
    if len(stuck):
        raise DataError(
            f"step {stuck[0] + 1}: every candidate is banned or taken and blanks are not allowed; "
            "ban less, allow repeats or allow blanks"
        )
    pins = np.array(pinned, dtype=np.int64)
    return Lattice(values, items, group, prices, pair, pins, np.unique(items[possible]))


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
    steps = len(unary)
    padded = np.column_stack([unary, blank])
    best = padded.argmax(axis=1)
    shown = best < unary.shape[1]
    used = group[np.flatnonzero(shown), best[shown]]
    top = padded[np.arange(steps), best]
    if len(np.unique(used)) == len(used) and np.isfinite(top).all():
        return np.where(shown, best, BLANK), float(top.sum())
    from scipy.optimize import linear_sum_assignment

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
            f"{counted(steps, 'step')} cannot all get a picture of their own"
            f" from {counted(len(names), 'group')}; allow repeats or blanks, or index more pictures"
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
    # What a step would gain by moving to the group of another one.
    gain = np.full((len(unary), len(owners)), -np.inf)
    np.maximum.at(gain, (rows, slot[group[rows, cells]]), unary[rows, cells])
    gain -= own[:, None]
    gain[owners, np.arange(len(owners))] = -np.inf
    freed = np.zeros(len(unary))
    for _ in range(len(unary)):  # longest paths: who moves frees a group for someone else
        raised = (gain + freed[:, None]).max(axis=0, initial=0.0)
        if np.array_equal(raised, freed[owners]):
            break
        freed[owners] = raised
    found[names] = freed[owners]
    return found


def _doubled(group: IntArray) -> int:
    """How many cells of one step share their group with another cell of it, at most."""
    ordered = np.sort(group)
    return int((ordered[:, 1:] == ordered[:, :-1]).sum(axis=1).max(initial=0))


def _worth(unary: Float64Array, group: IntArray) -> BoolArray:
    """(S, K) cells that may be chosen: allowed, and of one of the S best groups of their step."""
    allowed: BoolArray = unary > -np.inf
    least = len(unary) + _doubled(group)
    if least < unary.shape[1]:
        allowed &= unary >= np.partition(unary, -least)[:, -least, None]
    return allowed
