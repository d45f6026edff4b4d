"""The figures of a table, resampled and compared.

All figures see the same draws of groups, so that differences are paired, and one correction covers them.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from limner.research.evaluation.results import ResultFile
from limner.research.evaluation.uncertainty import (
    RESAMPLES,
    Values,
    Weights,
    bootstrap,
    difference_of,
    holm,
    interval_of,
    weighted_median,
)
from limner.research.paper.conditions import seeds, settings_of, uneven
from limner.research.paper.table import Block, Cell, Kind, Row, Settings, Table, reference

LEVEL = 0.05
FEWEST_GROUPS = 10
METRICS = ("MedR", "R@1", "R@5", "R@10")
Statistic = Callable[[Weights], Values]
"""Counts of every group, (R, G) → (R,)."""
Ranked = tuple[NDArray[np.int64], Values]
"""Rows of the queries of one pool and their ranks."""


@dataclass(frozen=True, eq=False)
class Figure:
    """A figure before it is resampled.

    Attributes:
        kind: how it is written.
        statistic: None where no result exists.
        paper: the published figure, as printed.
        paper_deviation, release, release_deviation: as in `Cell`.
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


ZERO = Figure("percent", lambda weights: np.zeros(len(weights)))
"""What a difference is compared with."""


@dataclass(frozen=True)
class Line:
    """A row before it is resampled.

    Attributes:
        name: of the system or relation.
        figures: of the first columns.
        remark: beside the name.
        more: cells of the columns after them.
        settings: as in `Row`.
        uneven: as in `Row`.
    """

    name: str
    figures: Sequence[Figure]
    remark: str = ""
    more: Sequence[Cell] = ()
    settings: Settings | None = None
    uneven: str = ""


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
        applies: as in `Figure`.
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
        applies=applies,
        against=ZERO if first.comparable else None,
        uneven=bool(apart),
    )


def versus(figures: Sequence[Figure], control: Sequence[Figure], apart: str = "") -> list[Figure]:
    """The same figures, each compared with the control's in its place if there are groups enough.

    Args:
        figures: of one row.
        control: of the row that it is compared with.
        apart: what the settings of both differ in, "" for nothing.
    """
    return [
        replace(own, against=other if own.comparable else None, uneven=bool(apart))
        for own, other in zip(figures, control, strict=True)
    ]


def lines_of(
    figures: Mapping[str, Sequence[Figure]],
    control: str,
    runs: Callable[[str], Sequence[Sequence[ResultFile]]],
) -> list[Line]:
    """A line per system, all but the control's compared with it if it is among them.

    Args:
        figures: by name of the line.
        control: name of one line.
        runs: name of a line → its runs, by what they were measured on.
    """
    known = control in figures
    lines = []
    for name, own in figures.items():
        by_set = runs(name)
        compares = known and name != control
        apart = joined(map(uneven, by_set, runs(control))) if compares else ""
        lines.append(
            Line(
                name,
                versus(own, figures[control], apart) if compares else own,
                seeds(*by_set),
                settings=settings_of(run for some in by_set for run in some),
                uneven=apart,
            )
        )
    return lines


def joined(differences: Iterable[str]) -> str:
    """What settings differ in, of several pairs of rows; each once."""
    return "; ".join(dict.fromkeys(one for one in differences if one))


def compare(
    figures: Sequence[Figure], rows: int, groups: int, *, resamples: int = RESAMPLES
) -> tuple[list[Cell], int]:
    """Resample all figures together; mark those that differ from the one they are compared with.

    Args:
        figures: of one table.
        rows: N, what a statistic counts.
        groups: number of groups.
        resamples: of the bootstrap.
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


def compared(
    table: str,
    title: str,
    lines: Sequence[Line | Row],
    size: tuple[int, int],
    resamples: int,
    *,
    blocks: Mapping[str, Sequence[str]],
    notes: Sequence[str] = (),
    control: str = "",
    more: Sequence[str] = (),
    columns_of: Mapping[str, Settings] | None = None,
) -> Table:
    """A table whose figures are resampled together; see `compare`.

    Args:
        table: its entry in ``reference/tables.toml``.
        title: one line.
        lines: from top to bottom; rows that are finished stay as they are.
        size: rows and groups, as in `compare`.
        resamples: as in `compare`.
        blocks: title → columns.
        notes: above those of the entry.
        control: name of what all others are compared with, unless the entry has it.
        more: notes below that on the marks.
        columns_of: as in `Table`.
    """
    figures = [figure for line in lines if isinstance(line, Line) for figure in line.figures]
    cells, count = compare(figures, *size, resamples=resamples)
    rest = iter(cells)
    rows = []
    for line in lines:
        if isinstance(line, Line):
            own = (*(next(rest) for _ in line.figures), *line.more)
            rows.append(
                Row(
                    name=line.name,
                    remark=line.remark,
                    cells=own,
                    settings=line.settings,
                    uneven=line.uneven,
                )
            )
        else:
            rows.append(line)
    entry = reference()["tables"][table]
    marks = _marks(control or entry["control"], count, resamples, entry.get("unit", "duplicate group"))
    made = framed(table, title, rows, blocks=blocks, above=notes, below=(marks, *more))
    return made.model_copy(update={"columns_of": dict(columns_of or {})})


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
        table: as in `compared`.
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
        blocks=tuple(Block(title=head, columns=tuple(own)) for head, own in blocks.items()),
        rows=tuple(rows),
        notes=(*above, *entry.get("notes", ()), *below),
    )


def _marks(control: str, count: int, resamples: int, unit: str) -> str:
    """What the marks of a table mean."""
    if not count:
        units = "stories" if unit == "story" else "duplicate groups"
        return f"No marks: nothing to compare with {control}, or fewer than ten {units}."
    return (
        f"* better, † worse than {control}: paired bootstrap of {resamples} resamples by {unit},"
        f" p < .05 after Holm's correction for {count} comparisons."
    )


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
