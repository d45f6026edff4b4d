"""Runs that answered the same c-way questions, and their accuracies as figures that resample together.

Systems are comparable only on the same questions, so results are sorted here and refused otherwise; several
data sets share one draw of groups, each its own part of it. It writes no table.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from limner.errors import DataError
from limner.evaluation.comparison import FEWEST_GROUPS, Figure
from limner.evaluation.results import About, ChoiceResult
from limner.evaluation.uncertainty import Values, Weights, group_numbers

Statistic = Callable[[Weights], Values]
DIRECTIONS = ("I→T", "T→I")


@dataclass(frozen=True)
class Cohort:
    """All runs on one set of questions.

    Attributes:
        data: name of the data set.
        c: options per question.
        systems: name → its runs, one per seed.
        sizes: (G,) pairs of every group.
        owner: (N,) group number of every pair.
        start: where its groups begin among those of all data sets.
    """

    data: str
    c: int
    systems: Mapping[str, Sequence[ChoiceResult]]
    sizes: Values
    owner: "np.ndarray[tuple[int], np.dtype[np.int64]]"
    start: int

    @property
    def groups(self) -> int:
        """G."""
        return len(self.sizes)

    @property
    def pairs(self) -> int:
        """N."""
        return len(self.owner)

    @property
    def comparable(self) -> bool:
        """Whether it has groups enough for a bootstrap to say something."""
        return self.groups >= FEWEST_GROUPS

    @property
    def seeds(self) -> tuple[int, ...]:
        """Training seeds of any system, ascending."""
        return tuple(sorted({run.about.seed for runs in self.systems.values() for run in runs}))

    def credits(self, system: str, direction: int) -> Values | None:
        """(N,) credit of a system, mean over its seeds; None where it was not measured.

        Args:
            system: its name.
            direction: place in `DIRECTIONS`, or 2 for the mean of both.
        """
        runs = self.systems.get(system)
        if not runs:
            return None
        return np.asarray(np.mean([credits_of(run, direction) for run in runs], axis=0), dtype=np.float64)

    def statistic(self, system: str, direction: int) -> Statistic | None:
        """Accuracy as a function of how often every group was drawn; see `credits`."""
        values = self.credits(system, direction)
        if values is None:
            return None
        sums = np.bincount(self.owner, values, self.groups)
        start, sizes = self.start, self.sizes

        def accuracy(weights: Weights) -> Values:
            drawn = weights[:, start : start + len(sizes)].astype(np.float64)
            found, size = drawn @ sums, drawn @ sizes
            share: Values = np.divide(found, size, out=np.full(len(found), np.nan), where=size > 0)
            return share

        return accuracy


def credits_of(run: ChoiceResult, direction: int) -> Values:
    """(N,) credit of one run with the picture given (0), with the text given (1), or their mean (2)."""
    both = (np.array(run.picture_to_text), np.array(run.text_to_picture))
    return both[direction] if direction < 2 else (both[0] + both[1]) / 2


def cohorts(results: Sequence[ChoiceResult], first: Sequence[str] = ()) -> list[Cohort]:
    """Sort results of one split by data set and c.

    Args:
        results: of one split and part.
        first: data sets that come before the others, which follow by name.
    Raises:
        DataError: two runs on one data set answered different questions.
    """
    where: dict[str, list[ChoiceResult]] = {}
    for result in results:
        where.setdefault(result.about.data, []).append(result)
    order = [name for name in first if name in where] + sorted(where.keys() - set(first))
    found, start = [], 0
    for data in order:
        owner, groups = group_numbers(where[data][0].groups)
        sizes = np.bincount(owner, minlength=groups).astype(np.float64)
        for c in sorted({result.c for result in where[data]}):
            same = [result for result in where[data] if result.c == c]
            for result in same:
                if result.ids != where[data][0].ids or result.choices != same[0].choices:
                    raise DataError(
                        f"{data}, {c}-way: {result.about.system} (seed {result.about.seed}) and"
                        f" {same[0].about.system} answered different questions; measure both on one split"
                        " seed with one folder of distractors"
                    )
            found.append(Cohort(data, c, _systems(same), sizes, owner, start))
        start += groups
    return found


def figure(statistic: Statistic | None, paper: float | None = None, *, applies: bool = True) -> Figure:
    """An accuracy as a figure of `comparison.compare`."""
    return Figure("percent", statistic, paper, True, applies)


def mean_of(statistics: Sequence[Statistic | None]) -> Statistic | None:
    """Their mean; None where one is missing, because a mean of fewer is another figure."""
    there = [one for one in statistics if one is not None]
    if not there or len(there) < len(statistics):
        return None
    return lambda weights: np.asarray(np.mean([one(weights) for one in there], axis=0), dtype=np.float64)


def minus(first: Statistic | None, second: Statistic | None) -> Statistic | None:
    """Their paired difference; None where one is missing."""
    if first is None or second is None:
        return None
    return lambda weights: first(weights) - second(weights)


def nothing(weights: Weights) -> Values:
    """Zero in every resample: what a difference is compared with."""
    return np.zeros(len(weights))


def plain_name(about: About, runs: Sequence[About]) -> str:
    """Name of a run's row: presets are never averaged, so another one than the plain one is named.

    Args:
        about: the run.
        runs: all of them; ``paper`` is the plain preset of a system where it occurs, else ``release``.
    """
    presets = {one.preset for one in runs if one.system == about.system}
    plain = ("", "paper" if "paper" in presets else "release")
    return about.system if about.preset in plain else f"{about.system} [{about.preset}]"


def _systems(results: Sequence[ChoiceResult]) -> dict[str, list[ChoiceResult]]:
    runs = [result.about for result in results]
    found: dict[str, list[ChoiceResult]] = {}
    for result in results:
        found.setdefault(plain_name(result.about, runs), []).append(result)
    return found
