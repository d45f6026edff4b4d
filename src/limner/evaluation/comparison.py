"""Many figures resampled together and compared with control figures, corrected for being many.

All figures of one table see the same draws of groups, so that differences are paired. It knows no table, no
system and no file.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from limner.evaluation.ranking import Metric
from limner.evaluation.relations import precision_statistic
from limner.evaluation.uncertainty import (
    RESAMPLES,
    Difference,
    Values,
    Weights,
    bootstrap,
    difference_of,
    holm,
    interval_of,
    weighted_median,
)
from limner.paper.table import Cell, Kind, Mark

LEVEL = 0.05
FEWEST_GROUPS = 10
Ranked = tuple[NDArray[np.int64], Values]
"""Rows of the queries of one pool and their ranks."""


@dataclass(frozen=True)
class Figure:
    """A figure before it is resampled.

    Attributes:
        kind: how it is written.
        statistic: counts of every group, (R, G) → (R,); None where no result exists.
        paper: the published figure.
        higher_is_better: its direction.
        applies: False where the row has no such figure.
    """

    kind: Kind
    statistic: Callable[[Weights], Values] | None
    paper: float | None
    higher_is_better: bool = True
    applies: bool = True


def rank_figure(
    metric: str,
    pools: Sequence[Ranked],
    owner: NDArray[np.int64],
    groups: int,
    paper: float | None = None,
    *,
    applies: bool = True,
) -> Figure:
    """A metric of ranks, taken in every pool and averaged over the pools (and so over the seeds).

    Args:
        metric: R@k or MedR.
        pools: queries and ranks of every pool of every seed; empty where no result exists.
        owner: (N,) group number of every row.
        groups: number of groups.
        paper: as in `Figure`.
        applies: as in `Figure`.
    """
    chosen = Metric.parse(metric)
    kind: Kind = "rank" if chosen.statistic == "median" else "percent"
    statistic = None
    if pools:
        make = _medians if chosen.statistic == "median" else _recalls
        statistic = make(chosen, pools, owner, groups)
    return Figure(kind, statistic, paper, chosen.higher_is_better, applies)


def precision_figure(
    scores: Values, truth: Sequence[int], owner: NDArray[np.int64], paper: float | None = None
) -> Figure:
    """Average precision of a relation, averaged over seeds.

    Args:
        scores: (S, N) of S seeds; S = 0 where no result exists.
        truth: (N,) labels; a relation without a positive has no precision and gives an empty figure.
        owner: (N,) group number of every row.
        paper: as in `Figure`.
    """
    there = len(scores) > 0 and any(truth)
    return Figure("precision", precision_statistic(scores, truth, owner) if there else None, paper)


def compare(
    figures: Sequence[Figure],
    against: Sequence[int | None],
    owner: NDArray[np.int64],
    groups: int,
    *,
    gains: Sequence[tuple[int, int]] = (),
    resamples: int = RESAMPLES,
) -> tuple[list[Cell], int]:
    """Resample all figures together; mark those that differ from another one.

    Args:
        figures: of one table.
        against: per figure the place of its control, or None.
        owner: (N,) group number of every row.
        groups: number of groups.
        gains: (place, place) of figures whose difference, first minus second, is a cell of its own.
        resamples: of the bootstrap.
    Returns:
        One cell per figure and then one per gain, all corrected together, and the number of comparisons that
        Holm's correction is for: none where there are fewer than ten groups, of which a bootstrap says too
        little.
    """
    places = [place for place, figure in enumerate(figures) if figure.statistic is not None]
    statistics = [figure.statistic for figure in figures if figure.statistic is not None]
    values: dict[int, float] = {}
    drawn: dict[int, Values] = {}
    if statistics:
        found = bootstrap(statistics, groups, resamples=resamples, width=len(owner))
        once = np.ones((1, groups), dtype=np.int64)
        drawn = dict(zip(places, found, strict=True))
        values = {
            place: float(statistic(once)[0]) for place, statistic in zip(places, statistics, strict=True)
        }
    gaps: dict[int, Difference] = {}
    asked = [*enumerate(against), *gains]
    for number, (place, control) in enumerate(asked):
        enough = groups >= FEWEST_GROUPS or number >= len(figures)
        if enough and control is not None and place in values and control in values:
            moved = drawn[place] - drawn[control]
            gaps[number] = difference_of(values[place] - values[control], moved, groups)
    family = list(gaps) if groups >= FEWEST_GROUPS else []
    corrected = dict(zip(family, holm([gaps[number].p_value for number in family]), strict=True))
    cells = []
    for place, figure in enumerate(figures):
        if place not in values:
            cells.append(Cell(kind=figure.kind, paper=figure.paper, applies=figure.applies))
            continue
        span = interval_of(values[place], drawn[place], groups)
        mark = _mark(gaps.get(place), corrected.get(place, 1.0), figure)
        cells.append(
            Cell(
                value=span.value,
                low=span.low,
                high=span.high,
                paper=figure.paper,
                mark=mark,
                kind=figure.kind,
            )
        )
    for number, (place, _) in enumerate(gains, start=len(figures)):
        figure, gap = figures[place], gaps.get(number)
        if gap is None:
            cells.append(Cell(kind=figure.kind, applies=False))
            continue
        mark = _mark(gap, corrected.get(number, 1.0), figure)
        cells.append(Cell(value=gap.value, low=gap.low, high=gap.high, mark=mark, kind=figure.kind))
    return cells, len(family)


def marks(control: str, compared: int, resamples: int) -> str:
    """What the marks of a table mean, as a note below it.

    Args:
        control: name of the system all others are compared with.
        compared: comparisons, as `compare` counts them.
        resamples: of the bootstrap, whose groups are stories.
    """
    if not compared:
        return f"No marks: nothing to compare with {control}, or fewer than ten stories."
    return (
        f"* better, † worse than {control}: paired bootstrap of {resamples} resamples by story,"
        f" p < .05 after Holm's correction for {compared} comparisons."
    )


def _mark(gap: Difference | None, chance: float, figure: Figure) -> Mark:
    """The mark of a difference whose corrected p-value is `chance`."""
    if gap is None or chance >= LEVEL:
        return ""
    return "*" if (gap.value > 0) == figure.higher_is_better else "†"


def _recalls(
    metric: Metric, pools: Sequence[Ranked], owner: NDArray[np.int64], groups: int
) -> Callable[[Weights], Values]:
    """Mean over the pools of the share of hits."""
    hits = np.stack([np.bincount(owner[rows], ranks <= metric.k, groups) for rows, ranks in pools], axis=1)
    sizes = np.stack([np.bincount(owner[rows], minlength=groups) for rows, _ in pools], axis=1)

    def recalls(weights: Weights) -> Values:
        drawn = weights.astype(np.float64)  # floats go through BLAS, integers do not
        found, size = drawn @ hits, drawn @ sizes
        return _mean(np.divide(found, size, out=np.full_like(found, np.nan), where=size > 0))

    return recalls


def _medians(
    metric: Metric, pools: Sequence[Ranked], owner: NDArray[np.int64], groups: int
) -> Callable[[Weights], Values]:
    """Mean over the pools of the median rank."""
    del metric, groups
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
