"""Evidence of when and where: what a text says of its pictures' days and places, and what the pictures say.

A statement multiplies the odds of a picture by c · [it is true] / (share of the pictures of which it is true)
+ 1 − c, with c = .9 for times and .8 for places. A picture without a time or place says nothing, nor does a
statement that is true of no picture. Nothing is fitted.

Source: docs/methods/storyboard.md §6.
"""

from __future__ import annotations

import calendar
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from limner.match.calibration import Calibration
from limner.match.candidates import Float64Array, IntArray, Pool
from limner.pictures.places import places
from limner.store import Taken
from limner.store.vectors import BoolArray
from limner.text.dates import MONTH, WEEKDAY, Date, Said

TIME, PLACE = 0.9, 0.8
"""Probability that what a text says of the time, or of the place, is true of its picture."""


@dataclass(frozen=True)
class Statement:
    """What a text says of the time, or of the place, for some steps.

    Attributes:
        true: (M,) pictures of which it is true.
        known: (M,) pictures searched of which the time, or place, is known.
        certainty: `TIME` or `PLACE`.
        own: whether the step itself says it.
        named: dates, or numbers of places.
    """

    true: BoolArray
    known: BoolArray
    certainty: float
    own: bool
    named: tuple[Date, ...] | tuple[int, ...]

    def ratios(self, rows: IntArray) -> Float64Array:
        """By what it multiplies the odds (K,) of pictures."""
        odds = self.certainty * self.true[rows] * self.known.sum() / self.true.sum() + 1 - self.certainty
        return np.where(self.known[rows], odds, 1.0)


class WhenWhere:
    """What a text says of when and where, compared with the pictures of a library."""

    def __init__(
        self, said: Sequence[Sequence[Said]], taken: Taken, among: Iterable[str] | None = None
    ) -> None:
        """Find the statements that are true of any picture.

        Args:
            said: what holds for each step, see `limner.text.dates.said_in`.
            taken: when and where the M pictures of the library were taken.
            among: ids of those that are searched; None for all.
        """
        self._said, self._taken = said, taken
        self._searched = np.full(len(taken.days), among is None)
        self._searched[[] if among is None else taken.of(among)] = True
        self._days, self._day = np.unique(taken.days, return_inverse=True)
        here = np.unique(taken.places[self._searched[taken.rows]]).tolist()
        self._called = places().called(here) if here else {}
        every = [[self._time(chain), self._place(chain)] for chain in said]
        self._steps = [[one for one in each if one and one.true.any()] for each in every]

    def __bool__(self) -> bool:
        """Whether there is any statement."""
        return any(self._steps)

    def _time(self, chain: Sequence[Said]) -> Statement | None:
        dated = [(depth, one.dates) for depth, one in enumerate(chain) if one.dates]
        if not dated:
            return None
        known = self._searched & (self._taken.days > 0)
        depth, dates = dated[0]
        of = dated[: 1 + (dates[0].fineness == WEEKDAY)]  # a weekday is one of its heading's days
        true = known & np.all([self._on(named, known) for _, named in of], axis=0)
        return Statement(true, known, TIME, not depth, dates)

    def _on(self, dates: Sequence[Date], known: BoolArray) -> BoolArray:
        """Pictures of some dates; the days of the text are days of the pictures, if those are as many."""
        found = np.any([date.holds(self._days) for date in dates], axis=0)[self._day]
        numbers = {date.nth for chain in self._said for one in chain for date in one.dates} - {0}
        days = np.unique(self._taken.days[known]) if numbers else ()
        if numbers == set(range(1, len(days) + 1)):
            found |= np.isin(self._taken.days, [days[date.nth - 1] for date in dates if date.nth])
        return np.asarray(found)

    def _place(self, chain: Sequence[Said]) -> Statement | None:
        for depth, one in enumerate(chain):
            numbers = [number for name in one.names for number in self._called.get(name, ())]
            if numbers:
                finest = min(map(places().kind, numbers))
                named = tuple(number for number in numbers if places().kind(number) == finest)
                true, known = np.zeros((2, len(self._searched)), dtype=bool)
                true[self._taken.rows[np.isin(self._taken.places, named)]] = known[self._taken.rows] = True
                return Statement(true & self._searched, known & self._searched, PLACE, not depth, named)
        return None

    def ratios(self, pictures: Iterable[str], *, once: bool = False) -> Float64Array:
        """By what it multiplies the odds (S, K) of pictures, by id.

        Args:
            pictures: ids of the library.
            once: whether all that is said of the time counts as one statement, and of the place: a wrong
                clock is one error, whatever the number of steps.
        """
        return self._ratios(self._taken.of(pictures), once=once)

    def _ratios(self, rows: IntArray, *, once: bool = False) -> Float64Array:
        found = np.ones((len(self._steps), len(rows)))
        steps = Counter(one.certainty for each in self._steps for one in each)
        for step, each in enumerate(self._steps):
            for one in each:
                found[step] *= one.ratios(rows) ** (1 / steps[one.certainty] if once else 1)
        return found

    def within(self, pictures: Iterable[str]) -> Float64Array:
        """The same among some pictures alone."""
        rows = self._taken.of(pictures)
        place, order = np.isin(self._taken.rows, rows), np.argsort(rows)
        inside = order[np.searchsorted(rows, self._taken.rows[place], sorter=order)]
        taken = Taken({}, self._taken.days[rows], inside, self._taken.places[place])
        return WhenWhere(self._said, taken)._ratios(np.arange(len(rows)))

    @property
    def odds(self) -> float:
        """By what it multiplies the odds that the text is about the pictures searched."""
        certain = {one.certainty for each in self._steps for one in each}
        return prod(one / (1 - one) for one in certain)

    def fitting(self, pictures: Iterable[str]) -> list[tuple[int, BoolArray]]:
        """Steps, each with a mask (K,) of the pictures of which anything that it says is true."""
        rows, steps = self._taken.of(pictures), enumerate(self._steps)
        return [(step, np.any([one.true[rows] for one in each], axis=0)) for step, each in steps if each]

    def evidence(self, pool: Pool, calibration: Calibration) -> Float64Array:
        """What times and places add (S, K) to the evidence of candidates, so as to count in full."""
        found = np.log(self.ratios(pool.gallery.ids[row] for row in pool.rows.tolist()))
        return found[np.arange(len(pool.items))[:, None], pool.items] / calibration.agreement.weights["own"]

    def reason(self, step: int, picture: str) -> str:
        """Why a picture fits: "taken on 14 May in Siena, as the step says"; "" for no such reason."""
        row = int(self._taken.of([picture])[0])
        true = [one for one in self._steps[step] if one.true[row]]
        year, rest = divmod(int(self._taken.days[row]), 10_000)
        here, parts = self._taken.places[self._taken.rows == row].tolist(), []
        for one in true:
            if isinstance(one.named[0], Date):
                day = f"on {rest % 100} {calendar.month_name[rest // 100]}"
                parts.append(f"{day} {year}" if one.named[0].fineness >= MONTH else day)
            else:
                parts.append(f"in {places().names(next(at for at in here if at in one.named))[0]}")
        says = "the step says" if all(one.own for one in true) else "the text says"
        return f"taken {' '.join(parts)}, as {says}" if parts else ""
