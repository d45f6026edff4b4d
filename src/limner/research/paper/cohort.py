"""Measured runs grouped into the rows of a table: those of one system and preset, on the same data."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from limner.errors import DataError
from limner.research.evaluation.ranking import Metric
from limner.research.evaluation.results import ChoiceResult, Result, SequenceResult
from limner.research.evaluation.uncertainty import group_numbers
from limner.research.paper.comparison import Figure, Ranked, medians_of, recalls_of
from limner.research.paper.table import Kind

LAPTOP = "laptop"
R = TypeVar("R", Result, ChoiceResult, SequenceResult)


@dataclass(frozen=True)
class Cohort(Generic[R]):
    """Runs that were measured on the same rows.

    Attributes:
        systems: name → its runs, one per seed.
        owner: (N,) group number of every row.
        groups: number of groups, the units of the bootstrap.
    """

    systems: Mapping[str, Sequence[R]]
    owner: NDArray[np.int64]
    groups: int

    @classmethod
    def of(
        cls,
        where: str,
        results: Sequence[R],
        units: Callable[[R], Sequence[str]],
        what: str = "pairs",
        plain: Sequence[str] = ("paper", "release"),
    ) -> "Cohort[R]":
        """Sort results by system.

        Args:
            where: table, data set and split, for the message.
            results: in order.
            units: group of every row of a result.
            what: the rows, for the message.
            plain: see `by_system`.
        Raises:
            DataError: two runs were evaluated on different rows.
        """
        check_alike(where, results, lambda result: result.ids, what)
        owner, groups = group_numbers(units(results[0]) if results else ())
        return cls(by_system(results, plain), owner, groups)

    @property
    def size(self) -> tuple[int, int]:
        """Rows and groups."""
        return len(self.owner), self.groups

    def runs(self, *names: str) -> Sequence[R]:
        """Runs of a system under the first of its names that was measured; none where none was."""
        return next((self.systems[name] for name in names if name in self.systems), ())

    def ranked(
        self, metric: str, pools: Sequence[Ranked], paper: float | None = None, *, applies: bool = True
    ) -> "Figure":
        """A metric of ranks, taken in every pool and averaged over the pools (and so over the seeds).

        Args:
            metric: R@k or MedR.
            pools: queries and ranks of every pool of every seed; empty where no result exists.
            paper: as in `Figure`.
            applies: as in `Figure`.
        """
        chosen = Metric.parse(metric)
        median = chosen.statistic == "median"
        statistic = None
        if pools:
            owner, groups = self.owner, self.groups
            statistic = medians_of(pools, owner) if median else recalls_of(chosen.k, pools, owner, groups)
        kind: Kind = "rank" if median else "percent"
        return Figure(kind, statistic, paper, chosen.higher_is_better, applies)


def check_alike(
    where: str, results: Sequence[R], rows: Callable[[R], object], what: str, how: str = "on one split seed"
) -> None:
    """Refuse results that differ in what they were evaluated on.

    Args:
        where: for the message.
        results: to be compared.
        rows: what must be equal.
        what: that, in words.
        how: to evaluate them alike.
    Raises:
        DataError: two differ.
    """
    for result in results:
        if rows(result) != rows(results[0]):
            one, other = result.about, results[0].about
            raise DataError(
                f"{where}: {one.system} (seed {one.seed}) and {other.system} were evaluated on different"
                f" {what}; evaluate both {how}"
            )


def by_system(results: Iterable[R], plain: Sequence[str] = ("paper", "release")) -> dict[str, list[R]]:
    """Runs by the row they belong to: presets are never averaged, so another one than the plain one is named.

    Args:
        results: in order.
        plain: the first of these presets that a system was run with needs no name; of a system that was run
            with none of them, the one that makes them small enough for a laptop.
    """
    runs = list(results)
    found: dict[str, list[R]] = {}
    for run in runs:
        system = run.about.system
        presets = {one.about.preset for one in runs if one.about.system == system}
        named = {preset: _label(preset, presets) for preset in presets}
        unnamed = next((one for one in (*plain, LAPTOP) if one in named.values()), "")
        own = named[run.about.preset]
        found.setdefault(system if own in ("", unnamed) else f"{system} [{own}]", []).append(run)
    return found


def _label(preset: str, presets: Collection[str]) -> str:
    """A preset without that of laptops, which stands beside the row, unless that tells it from another."""
    whole = "+".join(part for part in preset.split("+") if part != LAPTOP)
    return preset if not whole or whole in presets else whole
