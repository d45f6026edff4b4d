"""What a sweep over settings found on validation, as a table and as a choice.

Settings are chosen by their mean over seeds on validation rows and by nothing else, and the spread between
seeds stands beside it, so that a choice within the noise is seen to be one. It trains nothing.
"""

import math
import statistics
from collections.abc import Mapping, Sequence

from limner.errors import DataError
from limner.paper.table import Block, Cell, Kind, Row, Table
from limner.records import Record

FRACTIONS = ("R@", "ER@", "StR@", "C@", "MRR", "mAP")


class Point(Record):
    """One training of a sweep.

    Attributes:
        settings: key → value as text, what the sweep varies; without the seed.
        seed: of training.
        epoch: the best one, from 0.
        validation: metric → figure at that epoch.
    """

    settings: Mapping[str, str]
    seed: int
    epoch: int
    validation: Mapping[str, float]

    @property
    def name(self) -> str:
        """Its settings in one line, keys without their tables."""
        return name_of(self.settings)


def name_of(settings: Mapping[str, str]) -> str:
    """Settings in one line: ``lam=32, tau=1``."""
    return ", ".join(f"{key.rpartition('.')[2]}={value}" for key, value in settings.items())


def by_setting(points: Sequence[Point], metric: str) -> dict[str, list[float]]:
    """Figures of all seeds per setting, in order of first appearance.

    Raises:
        DataError: no points, a point lacks the metric, or a figure is no number.
    """
    if not points:
        raise DataError("sweep: no finished training; run the sweep first")
    found: dict[str, list[float]] = {}
    for point in points:
        value = point.validation.get(metric, math.nan)
        if math.isnan(value):
            raise DataError(
                f"sweep: {point.name} (seed {point.seed}) has no validation figure {metric!r};"
                f" it has {', '.join(point.validation) or 'none'}"
            )
        found.setdefault(point.name, []).append(value)
    return found


def best(points: Sequence[Point], metric: str, *, maximise: bool) -> Mapping[str, str]:
    """The settings whose mean over seeds is best; the first of equal ones.

    Args:
        points: of one sweep.
        metric: validation figure.
        maximise: whether more of it is better.
    Raises:
        DataError: see `by_setting`.
    """
    means = {name: statistics.fmean(values) for name, values in by_setting(points, metric).items()}
    chosen = (max if maximise else min)(means, key=lambda name: means[name])
    return next(point.settings for point in points if point.name == chosen)


def sweep_table(points: Sequence[Point], metric: str, *, maximise: bool, title: str) -> Table:
    """Mean and deviation over seeds of every setting, and the means of all other validation figures.

    Args:
        points: of one sweep.
        metric: what chooses.
        maximise: whether more of it is better.
        title: of the table.
    Raises:
        DataError: see `by_setting`.
    """
    chosen = name_of(best(points, metric, maximise=maximise))
    others = [name for name in points[0].validation if name != metric]
    rows = []
    for name, values in by_setting(points, metric).items():
        mine = [point for point in points if point.name == name]
        spread = statistics.stdev(values) if len(values) > 1 else None
        cells = [
            Cell(value=statistics.fmean(values), kind=kind_of(metric)),
            Cell(value=spread, kind=kind_of(metric), applies=spread is not None),
        ]
        for other in others:
            known = [point.validation[other] for point in mine if other in point.validation]
            cells.append(Cell(value=statistics.fmean(known) if known else None, kind=kind_of(other)))
        remarks = [f"{len(values)} seeds"] if len(values) > 1 else []
        rows.append(
            Row(
                name=name,
                remark=", ".join([*remarks, *(["best"] if name == chosen else [])]),
                cells=tuple(cells),
            )
        )
    means = [row.cells[0].value for row in rows if row.cells[0].value is not None]
    note = f"Validation rows only, at each training's best epoch by {metric}."
    if len(means) > 1:
        spread_note = Cell(value=statistics.stdev(means), kind=kind_of(metric)).parts()[0]
        note += f" Standard deviation of {metric} over the settings: {spread_note}."
    equal = means.count((max if maximise else min)(means))
    if equal > 1:
        note += f" {equal} settings are equally good; the first of them is taken."
    return Table(
        name="sweep",
        title=title,
        corner="settings",
        blocks=(Block(title="validation", columns=(metric, f"sd of {metric}", *others)),),
        rows=tuple(rows),
        notes=(note,),
    )


def kind_of(metric: str) -> Kind:
    """How a validation figure is written."""
    if metric.startswith(FRACTIONS):
        return "percent"
    return "rank" if metric == "MedR" else "precision"
