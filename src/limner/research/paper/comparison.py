"""Measured runs as the rows of a table: their figures, resampled together, compared and marked.

All figures see the same draws of groups, so that differences are paired, and one correction covers them.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from limner.errors import DataError
from limner.research.evaluation.ranking import Metric
from limner.research.evaluation.results import ChoiceResult, Result, ResultFile, SequenceResult
from limner.research.evaluation.uncertainty import (
    RESAMPLES,
    Values,
    Weights,
    bootstrap,
    difference_of,
    group_numbers,
    holm,
    interval_of,
    weighted_median,
)
from limner.research.paper.conditions import seeds, settings_of, uneven
from limner.research.paper.table import Cell, ColumnBlock, Kind, Row, RunSettings, Table, reference

LAPTOP = "laptop"
LEVEL = 0.05
FEWEST_GROUPS = 10
METRICS = ("MedR", "R@1", "R@5", "R@10")
Statistic = Callable[[Weights], Values]
"""Counts of every group, (R, G) → (R,)."""
Ranked = tuple[NDArray[np.int64], Values]
"""Rows of the queries of one pool and their ranks."""
R = TypeVar("R", Result, ChoiceResult, SequenceResult)


@dataclass(frozen=True, eq=False)
class Figure:
    """A figure before it is resampled.

    Attributes:
        kind: how it is written.
        statistic: None if no result exists.
        paper: the published figure, as printed.
        deviation, paper_deviation, release, release_deviation: as in `Cell`.
        higher_is_better: its direction.
        applies: False where the row has no such figure.
        minus: what is taken from the statistic, of a figure that is a difference.
        against: the figure that it is compared with, or None.
        comparable: False where there are too few groups to compare it with another.
        uneven: whether it is compared with one of other settings.
    """

    kind: Kind
    statistic: Statistic | None
    paper: float | None = None
    higher_is_better: bool = True
    applies: bool = True
    minus: Statistic | None = None
    against: "Figure | None" = None
    comparable: bool = True
    release: float | None = None
    uneven: bool = False
    paper_deviation: float | None = None
    release_deviation: float | None = None
    deviation: float | None = None


ZERO = Figure("percent", lambda weights: np.zeros(len(weights)))
"""Reference of a difference."""


@dataclass(frozen=True)
class Cohort(Generic[R]):
    """Runs that were measured on the same rows.

    Attributes:
        systems: name → its runs, one per seed.
        owner: (N,) group number of every row.
        groups: number of groups, the units of the bootstrap.
        data, c, start: of runs that answered questions: their data set, options per question, and where the
            groups begin among those of all data sets of a table.
    """

    systems: Mapping[str, Sequence[R]]
    owner: NDArray[np.int64]
    groups: int
    data: str = ""
    c: int = 0
    start: int = 0

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
    ) -> Figure:
        """A metric of ranks, taken in every pool and averaged over the pools (and so over the seeds).

        Args:
            metric: R@k or MedR.
            pools: queries and ranks of every pool of every seed; empty if no result exists.
            paper: see `Figure`.
            applies: see `Figure`.
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
    """Reject results that differ in what they were evaluated on.

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


def average(values: Values, owner: NDArray[np.int64], groups: int, start: int = 0) -> Statistic:
    """Mean of the values of rows.

    Args:
        values: (N,), NaN of rows that do not count.
        owner: (N,) group number of every row.
        groups: number of groups.
        start: place of the first of them among those that are drawn.
    """
    counted = ~np.isnan(values)
    sums = np.bincount(owner[counted], values[counted], groups)
    sizes = np.bincount(owner[counted], minlength=groups).astype(np.float64)

    def share(weights: Weights) -> Values:
        drawn = weights[:, start : start + groups].astype(np.float64)
        total, size = drawn @ sums, drawn @ sizes
        found: Values = np.divide(total, size, out=np.full_like(total, np.nan), where=size > 0)
        return found

    return share


def recalls_of(k: int, pools: Sequence[Ranked], owner: NDArray[np.int64], groups: int) -> Statistic:
    """Mean over the pools of the share of hits.

    Args:
        k: places that count as a hit.
        pools: queries and ranks.
        owner: (N,) group number of every row.
        groups: number of groups.
    """
    hits = np.stack([np.bincount(owner[rows], ranks <= k, groups) for rows, ranks in pools], axis=1)
    sizes = np.stack([np.bincount(owner[rows], minlength=groups) for rows, _ in pools], axis=1)

    def recalls(weights: Weights) -> Values:
        drawn = weights.astype(np.float64)  # floats go through BLAS, integers do not
        found, size = drawn @ hits, drawn @ sizes
        return _mean(np.divide(found, size, out=np.full_like(found, np.nan), where=size > 0))

    return recalls


def medians_of(pools: Sequence[Ranked], owner: NDArray[np.int64]) -> Statistic:
    """Mean over the pools of the median rank; see `recalls_of`."""
    sorted_pools = []
    for rows, ranks in pools:
        order = np.argsort(ranks, kind="stable")
        sorted_pools.append((owner[rows][order], ranks[order]))

    def medians(weights: Weights) -> Values:
        narrow = weights.astype(np.int32)
        each = [weighted_median(ranks, narrow[:, owners]) for owners, ranks in sorted_pools]
        return _mean(np.stack(each, axis=1))

    return medians


def _mean(values: Values) -> Values:
    """(R, pools) → (R,) mean over the pools in which a resample has any query; NaN where in none."""
    there = ~np.isnan(values)
    count = there.sum(axis=1)
    total = np.where(there, values, 0.0).sum(axis=1)
    means: Values = np.divide(total, count, out=np.full(len(values), np.nan), where=count > 0)
    return means


def difference(
    first: Figure,
    second: Figure,
    paper: float | None = None,
    *,
    applies: bool = False,
    apart: str = "",
) -> Figure:
    """First minus second, compared with no difference; without a result where one of them has none.

    Args:
        first: what is counted.
        second: what is taken from it, on the same rows.
        paper: the published difference.
        applies: see `Figure`.
        apart: what their settings differ in, "" for nothing.
    """
    there = first.statistic is not None and second.statistic is not None
    return replace(
        first,
        statistic=first.statistic if there else None,
        minus=second.statistic,
        paper=paper,
        paper_deviation=None,
        release=None,
        release_deviation=None,
        deviation=None,
        applies=applies,
        against=ZERO if first.comparable else None,
        uneven=bool(apart),
    )


def joined(differences: Iterable[str]) -> str:
    """Settings that differ in any of several pairs of rows, each once."""
    return "; ".join(dict.fromkeys(one for one in differences if one))


def compare(
    figures: Sequence[Figure], rows: int, groups: int, *, resamples: int = RESAMPLES
) -> tuple[list[Cell], int]:
    """Resample all figures together; mark those that differ from the one they are compared with.

    Args:
        figures: figures of one table.
        rows: N, what a statistic counts.
        groups: number of groups.
        resamples: resamples of the bootstrap.
    Returns:
        A cell per figure, and the number of comparisons that Holm's correction is for: none where there are
        fewer than ten groups, of which a bootstrap says too little.
    """
    needed = [one for figure in figures for one in (figure, figure.against) if one is not None]
    every = dict.fromkeys(one for figure in needed for one in (figure.statistic, figure.minus) if one)
    drawn: dict[Statistic, Values] = {}
    if any(figure.statistic for figure in figures):
        once = np.ones((1, groups), dtype=np.int64)
        found = bootstrap(list(every), groups, resamples=resamples, width=rows)
        # on the data themselves, then on every resample
        drawn = {one: np.concatenate([one(once), own]) for one, own in zip(every, found, strict=True)}

    def given(figure: Figure) -> dict[str, Any]:
        return {
            "kind": figure.kind,
            "paper": figure.paper,
            "paper_deviation": figure.paper_deviation,
            "release": figure.release,
            "release_deviation": figure.release_deviation,
            "deviation": figure.deviation,
            "uneven": figure.uneven,
        }

    def values_of(figure: Figure) -> Values | None:
        if figure.statistic is None:
            return None
        return drawn[figure.statistic] - (drawn[figure.minus] if figure.minus else 0.0)

    cells = []
    tested: list[tuple[int, bool, float]] = []
    for place, figure in enumerate(figures):
        own = values_of(figure)
        if own is None:
            cells.append(Cell(**given(figure), applies=figure.applies))
            continue
        control = values_of(figure.against) if figure.against else None
        if groups >= FEWEST_GROUPS and control is not None:
            gaps = own - control
            better = (gaps[0] > 0) == figure.higher_is_better
            tested.append((place, better, difference_of(gaps[0], gaps[1:], groups).p_value))
        span = interval_of(float(own[0]), own[1:], groups)
        cells.append(Cell(value=span.value, low=span.low, high=span.high, **given(figure)))
    corrected = holm([p_value for *_, p_value in tested])
    for (place, better, _), p_value in zip(tested, corrected, strict=True):
        if p_value < LEVEL:
            cells[place] = cells[place].model_copy(update={"mark": "*" if better else "†"})
    return cells, len(tested)


Made = tuple[Figure | Cell, Sequence[ResultFile]]
"""A figure before it is resampled, or a finished cell, and the runs that it is of."""


def compared(
    table: str,
    title: str,
    columns: Sequence[tuple[str, str]],
    rows: Mapping[str, Sequence[Made]],
    *,
    size: tuple[int, int],
    resamples: int,
    control: str = "",
    called: str = "",
    against: Mapping[str, Sequence[Figure | Cell | None]] | None = None,
    labels: Mapping[str, str] | None = None,
    remarks: Mapping[str, str] | None = None,
    apart: Mapping[str, str] | None = None,
    above: Sequence[str] = (),
    below: Sequence[str] = (),
    columns_of: Mapping[str, RunSettings] | None = None,
) -> Table:
    """A table whose figures are resampled together; see `compare`.

    Args:
        table: its entry in ``reference/tables.toml``.
        title: one line.
        columns: heading above neighbouring columns, and heading of its own, from left to right.
        rows: by name, from top to bottom; one figure per column.
        size: rows and groups, as in `compare`.
        resamples: see `compare`.
        control: row that all others are compared with, column by column, if it is among them.
        called: what the notes call it, unless the entry does.
        against: row → what its figures are compared with, instead of the control's; None keeps what a figure
            says of itself.
        labels: row → what it is called, where that is not its name.
        remarks: row → what stands beside its name, instead of the number of its seeds.
        apart: row → what its settings and those of what it is compared with differ in, instead of what the
            runs of both say.
        above: notes before those of the entry.
        below: notes after that on the marks.
        columns_of: as in `Table`; its rows have no settings then.
    """
    due = dict(against or {})
    if against is None and control in rows:
        due = {name: [one for one, _ in rows[control]] for name in rows if name != control}
    words, figures = dict(apart or {}), dict[str, list[Figure | Cell]]()
    for name, own in rows.items():
        others = due.get(name) or [None] * len(own)
        if apart is None and any(others):
            words[name] = joined(
                uneven(runs, theirs) for (_, runs), (_, theirs) in zip(own, rows[control], strict=True)
            )
        figures[name] = [
            replace(one, against=other if one.comparable else None, uneven=bool(words.get(name)))
            if isinstance(one, Figure) and isinstance(other, Figure)
            else one
            for (one, _), other in zip(own, others, strict=True)
        ]
    every = [one for own in figures.values() for one in own if isinstance(one, Figure)]
    made, count = compare(every, *size, resamples=resamples)
    cells = iter(made)
    done = {
        name: [next(cells) if isinstance(one, Figure) else one for one in own]
        for name, own in figures.items()
    }
    entry = reference()["tables"][table]
    for place in range(len(columns)) if "best" in entry else ():
        _mark_best(entry["best"], [own[place] for own in figures.values()], done, place)
    found = []
    for name, own in rows.items():
        runs = [some for _, some in own]
        found.append(
            Row(
                name=(labels or {}).get(name, name),
                remark=seeds(*runs) if remarks is None else remarks.get(name, ""),
                cells=tuple(done[name]),
                settings=None if columns_of else settings_of(run for some in runs for run in some),
                uneven=words.get(name, ""),
            )
        )
    marks = _marks(called or entry["control"], count, resamples, entry.get("unit", "duplicate group"))
    best = [entry["best_note"]] if any(cell.best for row in found for cell in row.cells) else []
    whole = framed(table, title, found, blocks=gathered(columns), above=above, below=(*best, marks, *below))
    return whole.model_copy(update={"columns_of": dict(columns_of or {})})


def gathered(columns: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """Heading above → the headings below it."""
    found: dict[str, list[str]] = {}
    for block, name in columns:
        found.setdefault(block, []).append(name)
    return found


def _mark_best(
    count: int, column: Sequence[Figure | Cell], done: Mapping[str, list[Cell]], place: int
) -> None:
    """Mark the best so many cells of a column in which more is better, or less; ties share the mark."""
    known = [one for one in column if isinstance(one, Figure) and one.statistic is not None]
    values = [own[place].value for own in done.values()]
    there = [value for value in values if value is not None]
    if len(known) != len(there) or len(there) <= count or not all(one.comparable for one in known):
        return
    due = sorted(there, reverse=known[0].higher_is_better)[count - 1]
    for own, value in zip(done.values(), values, strict=True):
        if value is not None and (value >= due if known[0].higher_is_better else value <= due):
            own[place] = own[place].model_copy(update={"best": True})


def framed(
    table: str,
    title: str,
    rows: Sequence[Row],
    *,
    blocks: Mapping[str, Sequence[str]],
    above: Sequence[str] = (),
    below: Sequence[str] = (),
) -> Table:
    """Finished rows as a table.

    Args:
        table: see `compared`.
        title: one line.
        rows: from top to bottom.
        blocks: title → columns.
        above: notes before those of the entry.
        below: notes after them.
    """
    entry = reference()["tables"][table]
    return Table(
        name=entry.get("name", table),
        title=title,
        corner=entry["corner"],
        blocks=tuple(ColumnBlock(title=head, columns=tuple(own)) for head, own in blocks.items()),
        rows=tuple(rows),
        notes=(*above, *entry.get("notes", ()), *below),
    )


def _marks(control: str, count: int, resamples: int, unit: str) -> str:
    """Legend of a table's marks."""
    if not count:
        units = "stories" if unit == "story" else "duplicate groups"
        return f"No marks: nothing to compare with {control}, or fewer than ten {units}."
    return (
        f"* better, † worse than {control}: paired bootstrap of {resamples} resamples by {unit},"
        f" p < .05 after Holm's correction for {count} comparisons."
    )
