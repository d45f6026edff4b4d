"""Table rows from measured runs: resamples all figures together, compares them with a control, marks them.

All figures use the same resamples of groups, so that differences are paired; Holm's correction covers all
comparisons of a table.
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
from limner.research.paper.table import Best, Cell, ColumnBlock, Kind, Row, RunSettings, Table, reference

LAPTOP = "laptop"
LEVEL = 0.05
FEWEST_GROUPS = 10
METRICS = ("MedR", "R@1", "R@5", "R@10")
Statistic = Callable[[Weights], Values]
"""(R, G) counts of groups → (R,) values of a statistic."""
Ranked = tuple[NDArray[np.int64], Values]
"""Rows of a pool's queries, and their ranks."""
R = TypeVar("R", Result, ChoiceResult, SequenceResult)


@dataclass(frozen=True, eq=False)
class Figure:
    """A figure (a number in a table) before resampling.

    Attributes:
        kind: format of the figure.
        statistic: its statistic; None if there is no result.
        paper: the published figure, in the same unit.
        deviation, paper_deviation, release, release_deviation: see `Cell`.
        higher_is_better: direction of the figure.
        applies: False if the row cannot have this figure.
        minus: for a difference, the statistic that is subtracted.
        against: figure that it is compared with; None for no comparison.
        comparable: False if there are too few groups for a comparison.
        uneven: whether the figure that it is compared with has other settings.
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
"""The figure that a difference is compared with."""


@dataclass(frozen=True)
class Cohort(Generic[R]):
    """Runs measured on the same rows.

    Attributes:
        systems: name → its runs, one per seed.
        owner: (N,) group number of each row.
        groups: number of groups, the units of the bootstrap.
        data, c, start: for c-way questions: data set, options per question, and index of the first group
            among those of all data sets of a table.
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
        """Collect results by system.

        Args:
            where: table, data set and split, for messages.
            results: results, in order.
            units: result → group of each row.
            what: name of the rows, for messages.
            plain: see `by_system`.
        Raises:
            DataError: two runs were evaluated on different rows.
        """
        check_alike(where, results, lambda result: result.ids, what)
        owner, groups = group_numbers(units(results[0]) if results else ())
        return cls(by_system(results, plain), owner, groups)

    @property
    def size(self) -> tuple[int, int]:
        """Numbers of rows and groups."""
        return len(self.owner), self.groups

    def runs(self, *names: str) -> Sequence[R]:
        """Runs of the first of these systems that was measured; empty if none was."""
        return next((self.systems[name] for name in names if name in self.systems), ())

    def ranked(
        self, metric: str, pools: Sequence[Ranked], paper: float | None = None, *, applies: bool = True
    ) -> Figure:
        """A rank metric, averaged over the pools of all seeds.

        Args:
            metric: R@k or MedR.
            pools: queries and ranks of all pools of all seeds; empty if there is no result.
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
    """Check that results were evaluated on the same rows.

    Args:
        where: table, data set and split, for messages.
        results: results to compare.
        rows: result → value that must be equal.
        what: name of that value, for messages.
        how: advice on how to evaluate them alike, for messages.
    Raises:
        DataError: two results differ.
    """
    for result in results:
        if rows(result) != rows(results[0]):
            one, other = result.about, results[0].about
            raise DataError(
                f"{where}: {one.system} (seed {one.seed}) and {other.system} were evaluated on different"
                f" {what}; evaluate both {how}"
            )


def by_system(results: Iterable[R], plain: Sequence[str] = ("paper", "release")) -> dict[str, list[R]]:
    """Runs by row. Presets are never averaged; all but one preset of a system are part of the row's name.

    Args:
        results: results, in order.
        plain: presets in order of preference: the first that was run is not named; if none was, the laptop
            preset is not named.
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
    """Name of a preset; "laptop" is left out unless it is needed to distinguish rows."""
    whole = "+".join(part for part in preset.split("+") if part != LAPTOP)
    return preset if not whole or whole in presets else whole


def average(values: Values, owner: NDArray[np.int64], groups: int, start: int = 0) -> Statistic:
    """Statistic: mean of the values over rows.

    Args:
        values: (N,) values; NaN for rows that do not count.
        owner: (N,) group number of each row.
        groups: number of groups.
        start: index of the first group among all resampled groups.
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
    """Statistic: recall at k, averaged over pools.

    Args:
        k: largest rank that is a hit.
        pools: queries and ranks of each pool.
        owner: (N,) group number of each row.
        groups: number of groups.
    """
    hits = np.stack([np.bincount(owner[rows], ranks <= k, groups) for rows, ranks in pools], axis=1)
    sizes = np.stack([np.bincount(owner[rows], minlength=groups) for rows, _ in pools], axis=1)

    def recalls(weights: Weights) -> Values:
        drawn = weights.astype(np.float64)  # floats use BLAS, integers do not
        found, size = drawn @ hits, drawn @ sizes
        return _mean(np.divide(found, size, out=np.full_like(found, np.nan), where=size > 0))

    return recalls


def medians_of(pools: Sequence[Ranked], owner: NDArray[np.int64]) -> Statistic:
    """Statistic: median rank, averaged over pools; see `recalls_of`."""
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
    """(R, pools) → (R,) mean over pools in which a resample has queries; NaN if there are none."""
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
    """The difference of two figures, compared with 0; without a result if either has none.

    Args:
        first: minuend.
        second: subtrahend, on the same rows.
        paper: the published difference.
        applies: see `Figure`.
        apart: differences between their settings; "" for none.
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
    """Union of the settings that differ in several pairs of rows."""
    return "; ".join(dict.fromkeys(one for one in differences if one))


def compare(
    figures: Sequence[Figure], rows: int, groups: int, *, resamples: int = RESAMPLES
) -> tuple[list[Cell], int]:
    """Resample all figures together and mark significant differences from their references.

    Args:
        figures: figures of one table.
        rows: number of rows, N.
        groups: number of groups.
        resamples: number of bootstrap resamples.
    Returns:
        One cell per figure; and the number of comparisons in Holm's correction, 0 if there are fewer than ten
        groups, too few for a bootstrap.
    """
    needed = [one for figure in figures for one in (figure, figure.against) if one is not None]
    every = dict.fromkeys(one for figure in needed for one in (figure.statistic, figure.minus) if one)
    drawn: dict[Statistic, Values] = {}
    if any(figure.statistic for figure in figures):
        once = np.ones((1, groups), dtype=np.int64)
        found = bootstrap(list(every), groups, resamples=resamples, width=rows)
        # first on the data, then on the resamples
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
"""A figure before resampling or a finished cell, and its runs."""


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
    """Build a table whose figures are resampled together; see `compare`.

    Args:
        table: its entry in ``reference/tables.toml``.
        title: one line.
        columns: heading of the block, and heading of the column, from left to right.
        rows: name → figures, one per column, from top to bottom.
        size: numbers of rows and groups, see `compare`.
        resamples: see `compare`.
        control: row that all others are compared with, column by column, if it is in the table.
        called: name of the control in notes; "" for the one in the entry.
        against: row → figures to compare with, instead of the control's; None keeps what a figure itself
            names.
        labels: row → label, if it is not the name.
        remarks: row → remark next to the name, instead of the number of seeds.
        apart: row → differences between its settings and those of the row it is compared with; None finds
            them from the runs.
        above: notes before those of the entry.
        below: notes after the one on the marks.
        columns_of: see `Table`; rows then have no settings.
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
    """Heading of a block → headings of its columns."""
    found: dict[str, list[str]] = {}
    for block, name in columns:
        found.setdefault(block, []).append(name)
    return found


def _mark_best(
    styles: Sequence[Best], column: Sequence[Figure | Cell], done: Mapping[str, list[Cell]], place: int
) -> None:
    """Mark the best values of a column, one style each; equal values share it."""
    known = [one for one in column if isinstance(one, Figure) and one.statistic is not None]
    values = {own[place].value for own in done.values()} - {None}
    there = [own for own in done.values() if own[place].value is not None]
    if len(known) != len(there) or len(there) <= len(styles) or not all(one.comparable for one in known):
        return
    ranked = sorted((value for value in values if value is not None), reverse=known[0].higher_is_better)
    for own in there:
        for style, value in zip(styles, ranked, strict=False):
            if own[place].value == value:
                own[place] = own[place].model_copy(update={"best": style})


def framed(
    table: str,
    title: str,
    rows: Sequence[Row],
    *,
    blocks: Mapping[str, Sequence[str]],
    above: Sequence[str] = (),
    below: Sequence[str] = (),
) -> Table:
    """Build a table from finished rows.

    Args:
        table: see `compared`.
        title: one line.
        rows: rows from top to bottom.
        blocks: heading of a block → headings of its columns.
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
        return f"No marks: no row to compare with {control}, or fewer than ten {units}."
    return (
        f"* better, † worse than {control}: paired bootstrap of {resamples} resamples by {unit},"
        f" p < .05 after Holm's correction for {count} comparisons."
    )
