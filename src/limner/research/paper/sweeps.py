"""Sweeps: grid search over settings, selected on validation.

Settings are selected by the mean over seeds; the deviation between seeds is reported, so that differences
within the noise can be recognised.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

from pydantic import ConfigDict, ValidationError

from limner.checksums import seal, unseal
from limner.config import Record, differences
from limner.errors import ConfigError, DataError
from limner.files import write_text
from limner.research.paper.conditions import settings_from
from limner.research.paper.table import Cell, ColumnBlock, Kind, Row, RunSettings, Table
from limner.research.runs.measure import about_of
from limner.research.runs.train import Note, Progress, measured, read_config, replaced_by_smoke, shrunk, train
from limner.research.systems.base import system
from limner.research.training import checkpoint
from limner.research.training.checkpoint import BEST

POINT = "point.json"
SEED = "loop.seed"
FRACTIONS = ("R@", "ER@", "StR@", "C@", "MRR", "mAP")


class Point(Record):
    """One run of a sweep.

    Attributes:
        settings: key → value as text, for the varied settings, without the seed.
        seed: seed of training.
        epoch: best epoch, from 0.
        validation: metric → value at that epoch.
        about: description of the run; None in older files.
    """

    settings: Mapping[str, str]
    seed: int
    epoch: int
    validation: Mapping[str, float]
    about: RunSettings | None = None

    @property
    def name(self) -> str:
        """Its settings in one line, keys without table names."""
        return name_of(self.settings)


class Done(Record):
    """A finished run of a sweep, with its resolved settings."""

    model_config = ConfigDict(ser_json_inf_nan="constants")

    config: dict[str, Any]
    point: Point


def name_of(settings: Mapping[str, str]) -> str:
    """Settings in one line: ``lam=32, tau=1``."""
    return ", ".join(f"{key.rpartition('.')[2]}={value}" for key, value in settings.items())


@dataclass(frozen=True)
class Axis:
    """An axis of the grid: settings that vary together.

    Attributes:
        keys: keys of the settings, at least one.
        values: for each choice one value per key, as text.
    """

    keys: tuple[str, ...]
    values: tuple[tuple[str, ...], ...]

    @classmethod
    def parse(cls, text: str) -> Axis:
        """Parse ``key=value,value`` or, for keys that vary together, ``key,key=value:value,value:value``.

        Raises:
            ConfigError: a key or value is missing or repeated, or the numbers of values and keys differ.
        """
        left, equals, right = text.partition("=")
        keys = tuple(key.strip() for key in left.split(","))
        if not equals or not all(keys) or not right.strip():
            raise ConfigError(f"--over {text!r}: expected key=value,value, such as loop.lr=1e-4,2e-4")
        values = []
        for choice in right.split(","):
            parts = choice.split(":") if len(keys) > 1 else [choice]
            parts = [part.strip() for part in parts]
            if len(parts) != len(keys) or not all(parts):
                raise ConfigError(
                    f"--over {text!r}: {choice.strip()!r} has {len(parts)} values for {len(keys)} keys; write"
                    " values that go together as 1:2"
                )
            values.append(tuple(parts))
        if len(set(values)) < len(values) or len(set(keys)) < len(keys):
            raise ConfigError(f"--over {text!r}: a key or value is repeated; name each once")
        if SEED in keys:
            raise ConfigError(f"--over {text!r}: seeds cannot be chosen by a sweep; use --seed")
        return cls(keys, tuple(values))


def grid(axes: Sequence[Axis]) -> list[dict[str, str]]:
    """All combinations of the axes' choices, the last axis varying fastest.

    Raises:
        ConfigError: there is no axis, or two have a common key.
    """
    keys = [key for axis in axes for key in axis.keys]
    if not keys:
        raise ConfigError("sweep: no setting to vary; pass --over key=value,value")
    twice = sorted({key for key in keys if keys.count(key) > 1})
    if twice:
        raise ConfigError(f"sweep: {twice[0]} is varied twice; name each key once")
    found = []
    for choices in product(*(axis.values for axis in axes)):
        values = [value for choice in choices for value in choice]
        found.append(dict(zip(keys, values, strict=True)))
    return found


def sweep(
    config: Path,
    combinations: Sequence[dict[str, str]],
    seeds: Sequence[int],
    to: Path,
    *,
    data: str = "",
    overrides: Sequence[str] = (),
    smoke: bool = False,
    weights: Path | None = None,
    device: str = "cpu",
    metric: str = "",
    report: Callable[[str, bool], None] = lambda name, done: None,
    progress: Callable[[], AbstractContextManager[Progress]] = lambda: nullcontext(lambda news: None),
) -> Iterator[Point]:
    """Train each combination with each seed, each in its own folder; finished runs are read instead.

    Args:
        config: settings file.
        combinations: see `grid`.
        seeds: seeds of training.
        to: folder of the sweep.
        data: see `limner.research.runs.train.train`.
        overrides: ``key=value`` for all runs.
        smoke: see `limner.research.runs.train.train`.
        weights: see `limner.research.runs.train.train`.
        device: torch device.
        metric: validation metric that selects; "" for loop.metric.
        report: called with the name of each run, and whether it was already finished.
        progress: context manager that gives the progress callback of a run.
    Yields:
        One point per run.
    Raises:
        ConfigError: a key or value is wrong, or a run would not measure `metric`; checked before the first
            run.
        DataError: a folder has a run with other settings.
        StoppedError: `progress` asked to stop.
    """
    due = []
    for settings in combinations:
        for seed in seeds:
            words = (*overrides, *(f"{key}={value}" for key, value in settings.items()), f"{SEED}={seed}")
            read = read_config(config, words, data)
            can = system(read.system).capabilities(read)
            whole = shrunk(read, weights) if smoke else read
            figures = measured(whole.loop.metric, can)
            if metric and metric not in figures:
                raise ConfigError(
                    f"sweep: these runs do not measure {metric!r} on validation, only {', '.join(figures)};"
                    f" choose one of them, or train with --set loop.metric={metric}"
                )
            due.append((settings, seed, read, whole, settings_from([about_of(whole, can, whole.data.set)])))
    for settings, seed, read, whole, about in due:
        folder = to / folder_name(settings, seed)
        resolved = whole.model_dump(mode="json")
        point = _done(folder / POINT, resolved)
        report(folder.name, point is not None)
        if point is None:
            with progress() as watch:
                for line in replaced_by_smoke(read, whole, [*overrides, *settings]):
                    watch(Note(line))
                train(whole, to=folder, weights=weights, device=device, progress=watch)
            _, state = checkpoint.load(folder / BEST)
            ended = {"epoch": state["epoch"], "validation": state["validation"]}
            point = Point(settings=settings, seed=seed, about=about, **ended)
            write_text(folder / POINT, seal(Done(config=resolved, point=point).model_dump_json() + "\n"))
        yield point


def folder_name(settings: dict[str, str], seed: int) -> str:
    """Folder name of a run: its settings and seed, in characters that all file systems allow."""
    words = [f"{key}={value}" for key, value in settings.items()]
    safe = "_".join("".join(c if c.isalnum() or c in "=.-+" else "-" for c in word) for word in words)
    return f"{safe}_seed={seed}"


def read_point(file: Path) -> Done:
    """Read a finished run of a sweep.

    Raises:
        DataError: the file is not one.
    """
    try:
        return Done.model_validate_json(unseal(file.read_bytes(), file, "remove its folder"))
    except ValidationError as error:
        raise DataError(
            f"{file}: not a finished run of a sweep ({error.errors()[0]['msg']}); remove its folder"
        ) from error


def _done(file: Path, resolved: dict[str, Any]) -> Point | None:
    """The point of a finished run; None if it is not finished."""
    if not file.is_file():
        return None
    done = read_point(file)
    if changed := differences({"config": done.config}, {"config": resolved}):
        raise DataError(
            f"{file.parent}: was trained with other settings ({changed}); sweep into another folder"
        )
    return done.point


def by_setting(points: Sequence[Point], metric: str) -> dict[str, list[float]]:
    """Setting → figures of all seeds, in order of first appearance.

    Raises:
        DataError: there are no points, a point lacks the metric, or a figure is NaN.
    """
    if not points:
        raise DataError("sweep: no finished run; run the sweep first")
    found: dict[str, list[float]] = {}
    for point in points:
        value = point.validation.get(metric, math.nan)
        if math.isnan(value):
            raise DataError(
                f"sweep: {point.name} (seed {point.seed}) has no validation metric {metric!r};"
                f" it has {', '.join(point.validation) or 'none'}"
            )
        found.setdefault(point.name, []).append(value)
    return found


def best(points: Sequence[Point], metric: str, *, maximise: bool) -> Mapping[str, str]:
    """The settings with the best mean over seeds; of equally good ones, the first.

    Args:
        points: points of one sweep.
        metric: validation figure.
        maximise: whether higher values are better.
    Raises:
        DataError: see `by_setting`.
    """
    means = {name: statistics.fmean(values) for name, values in by_setting(points, metric).items()}
    chosen = (max if maximise else min)(means, key=lambda name: means[name])
    return next(point.settings for point in points if point.name == chosen)


def sweep_table(points: Sequence[Point], metric: str, *, maximise: bool, title: str) -> Table:
    """Mean and deviation over seeds of each setting, and the means of all other validation figures.

    Args:
        points: points of one sweep.
        metric: validation figure for selection.
        maximise: whether higher values are better.
        title: title of the table.
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
        about = mine[0].about
        remarks = [f"{len(values)} seeds"] if len(values) > 1 else []
        rows.append(
            Row(
                name=name,
                remark=", ".join([*remarks, *(["best"] if name == chosen else [])]),
                cells=tuple(cells),
                settings=about and about.model_copy(update={"seeds": tuple(point.seed for point in mine)}),
            )
        )
    means = [row.cells[0].value for row in rows if row.cells[0].value is not None]
    note = f"Validation rows only, at each run's best epoch by {metric}."
    if len(means) > 1:
        spread_note = Cell(value=statistics.stdev(means), kind=kind_of(metric)).parts()[0]
        note += f" Standard deviation of {metric} over the settings: {spread_note}."
    equal = means.count((max if maximise else min)(means))
    if equal > 1:
        note += f" {equal} settings are equally good; the first is selected."
    return Table(
        name="sweep",
        title=title,
        corner="settings",
        blocks=(ColumnBlock(title="validation", columns=(metric, f"sd of {metric}", *others)),),
        rows=tuple(rows),
        notes=(note,),
    )


def kind_of(metric: str) -> Kind:
    """Format of a validation metric."""
    if metric.startswith(FRACTIONS):
        return "percent"
    return "rank" if metric == "MedR" else "precision"
