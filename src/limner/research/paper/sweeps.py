"""Sweeps: training every setting of a plain grid, and choosing one by its validation figures.

The published sweeps have six and nine settings, so every one is trained. A setting is chosen by its mean over
seeds; their spread stands beside it, so that a choice within the noise is seen to be one.
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
    """One training of a sweep.

    Attributes:
        settings: key → value as text, what the sweep varies; without the seed.
        seed: seed of training.
        epoch: the best one, from 0.
        validation: metric → figure at that epoch.
        about: preset, backbone, data and more of the training; None in older files.
    """

    settings: Mapping[str, str]
    seed: int
    epoch: int
    validation: Mapping[str, float]
    about: RunSettings | None = None

    @property
    def name(self) -> str:
        """Its settings in one line, keys without their tables."""
        return name_of(self.settings)


class Done(Record):
    """A training of a sweep that ended, with its settings as resolved."""

    model_config = ConfigDict(ser_json_inf_nan="constants")

    config: dict[str, Any]
    point: Point


def name_of(settings: Mapping[str, str]) -> str:
    """Settings in one line: ``lam=32, tau=1``."""
    return ", ".join(f"{key.rpartition('.')[2]}={value}" for key, value in settings.items())


@dataclass(frozen=True)
class Axis:
    """Settings that vary together.

    Attributes:
        keys: at least one.
        values: per choice as many texts as keys.
    """

    keys: tuple[str, ...]
    values: tuple[tuple[str, ...], ...]

    @classmethod
    def parse(cls, text: str) -> Axis:
        """From ``key=value,value`` or, for keys that vary together, ``key,key=value:value,value:value``.

        Raises:
            ConfigError: no key, no value, a value that comes twice, or another number of values than keys.
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
            raise ConfigError(f"--over {text!r}: a key or value comes twice; name each once")
        if SEED in keys:
            raise ConfigError(f"--over {text!r}: seeds are no setting to choose; use --seed")
        return cls(keys, tuple(values))


def grid(axes: Sequence[Axis]) -> list[dict[str, str]]:
    """Every combination of the axes' choices, the last axis fastest.

    Raises:
        ConfigError: no axis, or two share a key.
    """
    keys = [key for axis in axes for key in axis.keys]
    if not keys:
        raise ConfigError("sweep: nothing to vary; pass --over key=value,value")
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
    """Train every combination with every seed, in folders of their own; those that are done are read.

    Args:
        config: settings file.
        combinations: see `grid`.
        seeds: seeds of training.
        to: folder of the sweep.
        data: what is laid over the file, see `limner.research.runs.train.overlays`.
        overrides: key=value for all trainings.
        smoke: shrink everything.
        weights: weights of the backbone; with `smoke`, without them, a tiny one of random weights takes its
            place.
        device: torch device that trains.
        metric: validation figure that will choose; "" for loop.metric.
        report: called with the name of every training and whether it was done before.
        progress: makes what is told of one training, a context; see `limner.research.runs.train.train`.
    Yields:
        A point per training.
    Raises:
        ConfigError: a key or value is wrong, or a training would not measure `metric`; checked for all before
            the first training.
        DataError: a folder holds a training with other settings.
        StoppedError: `progress` asked to stop.
    """
    due = []
    for settings in combinations:
        for seed in seeds:
            words = (*overrides, *(f"{key}={value}" for key, value in settings.items()), f"{SEED}={seed}")
            read = read_config(config, words, data)
            can = system(read.system).capabilities(read)
            figures = measured(read.loop.metric, can)
            if metric and metric not in figures:
                raise ConfigError(
                    f"sweep: these trainings measure no {metric!r} on validation, only {', '.join(figures)};"
                    f" choose one of them, or train with --set loop.metric={metric}"
                )
            whole = shrunk(read, weights) if smoke else read
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
    """Name of a training's folder: its settings and seed, in letters that any file system takes."""
    words = [f"{key}={value}" for key, value in settings.items()]
    safe = "_".join("".join(c if c.isalnum() or c in "=.-+" else "-" for c in word) for word in words)
    return f"{safe}_seed={seed}"


def read_point(file: Path) -> Done:
    """A training of a sweep that ended.

    Raises:
        DataError: the file is none.
    """
    try:
        return Done.model_validate_json(unseal(file.read_bytes(), file, "remove its folder"))
    except ValidationError as error:
        raise DataError(
            f"{file}: not a finished training of a sweep ({error.errors()[0]['msg']}); remove its folder"
        ) from error


def _done(file: Path, resolved: dict[str, Any]) -> Point | None:
    """The point of a training that ended, None if it did not."""
    if not file.is_file():
        return None
    done = read_point(file)
    if changed := differences({"config": done.config}, {"config": resolved}):
        raise DataError(
            f"{file.parent}: was trained with other settings ({changed}); sweep into another folder"
        )
    return done.point


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
        points: points of one sweep.
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
        points: points of one sweep.
        metric: what chooses.
        maximise: whether more of it is better.
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
        blocks=(ColumnBlock(title="validation", columns=(metric, f"sd of {metric}", *others)),),
        rows=tuple(rows),
        notes=(note,),
    )


def kind_of(metric: str) -> Kind:
    """Format of a validation figure."""
    if metric.startswith(FRACTIONS):
        return "percent"
    return "rank" if metric == "MedR" else "precision"
