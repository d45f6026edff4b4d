"""The result table of stepwise illustration: recall, story recall and the looks of what was found, by story.

Every system is compared with VRSS on the same steps, with one correction per table; a table per decoding, and
single seeds beside their mean. Nothing is trained or scored here; a cell without a result stays empty.
"""

import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np
from numpy.typing import NDArray

from limner.errors import ConfigError, DataError, unknown
from limner.evaluation.choice_cohorts import plain_name
from limner.evaluation.coherence_scene import parted
from limner.evaluation.comparison import Figure, compare
from limner.evaluation.sequence_results import CUTS, Decoding, Found, SequenceResult
from limner.evaluation.tables import Block, Cell, Kind, Row, Table
from limner.evaluation.uncertainty import RESAMPLES, Values, Weights, group_numbers

TABLES = ("vrss-1",)
SPLITS = ("grouped", "released", "random")
DECODINGS: Mapping[Decoding, str] = {
    "steps": "every step by itself",
    "distinct": "no first picture twice in a story",
}


@dataclass(frozen=True)
class Column:
    """One measure of the table.

    Attributes:
        name: heading.
        published: key of the paper's figure, "" for none.
        values: what was found → (N,) of every step, or None where it was not measured.
        kind: how it is written.
    """

    name: str
    published: str
    values: Callable[[Found], Values | None]
    kind: Kind = "percent"


def _within(name: str, part: str, k: int) -> Column:
    def values(found: Found) -> Values | None:
        ranks = found.saliency.get(part) if part in ("noun", "sequence") else getattr(found, part)  # type: ignore[call-overload]
        return None if ranks is None else np.array(np.asarray(ranks) <= k, dtype=np.float64)

    return Column(f"{name}@{k}", f"{name}@{k}" if part != "sequence" else "", values)


_BLOCKS: Mapping[str, tuple[Column, ...]] = {
    "retrieval": (*(_within("R", "own", k) for k in CUTS), _within("StR", "story", 1)),
    "nouns": tuple(_within("VSR", "noun", k) for k in CUTS),
    "stories": tuple(_within("VSR", "sequence", k) for k in CUTS),
    "features": (
        Column("VFS", "VFS", lambda f: np.array(f.similarity) if f.similarity else None, "precision"),
    ),
}
_COLUMNS = tuple(column for columns in _BLOCKS.values() for column in columns)


@cache
def reference() -> Mapping[str, Any]:
    """Published figures of VRSS, as in ``reference/vrss.toml``."""
    return tomllib.loads((files("limner.evaluation") / "reference" / "vrss.toml").read_text("utf-8"))


def build(
    name: str, results: Sequence[SequenceResult], *, data: str | None = None, resamples: int = RESAMPLES
) -> list[Table]:
    """Per data set, split and decoding one table, and one of single seeds.

    Args:
        name: one of `TABLES`.
        results: as `sequence_results.read_sequence_results` gives them; validation is left aside.
        data: the only data set shown; None shows all that were measured.
        resamples: of every interval and comparison.
    Raises:
        ConfigError: no such table.
        DataError: runs on one data set were measured on other steps or with other picture features.
    """
    if name not in TABLES:
        raise ConfigError(unknown("table", name, TABLES))
    chosen = [r for r in results if r.about.part == "test" and data in (None, r.about.data)]
    tables: list[Table] = []
    for one in sorted({r.about.data for r in chosen}):
        for split in SPLITS:
            own = [r for r in chosen if (r.about.data, r.about.split) == (one, split)]
            if own:
                tables += _of_one_set(own, f"{one}, {split} split", resamples)
    return tables or [_table({}, [], "not measured", "steps", resamples)]


def _of_one_set(results: Sequence[SequenceResult], where: str, resamples: int) -> list[Table]:
    first = results[0]
    for result in results:
        if (result.ids, result.stories) != (first.ids, first.stories):
            raise DataError(
                f"vrss-1 ({where}): {result.about.system} and {first.about.system} were measured on different"
                " steps; measure both on one split seed"
            )
        if result.features != first.features:
            raise DataError(
                f"vrss-1 ({where}): {result.about.system} was measured with features {result.features!r} and"
                f" {first.about.system} with {first.features!r}; measure both with one backbone"
            )
    presets = {result.about.preset for result in results}
    systems: dict[str, list[SequenceResult]] = {}
    for result in sorted(results, key=lambda one: one.about.seed):
        systems.setdefault(plain_name(result.about, presets), []).append(result)
    tables = []
    for decoding in DECODINGS:
        tables.append(_table(systems, results, where, decoding, resamples))
        if any(len(runs) > 1 for runs in systems.values()):
            tables.append(_seeds(systems, where, decoding))
    return tables


def _table(
    systems: Mapping[str, Sequence[SequenceResult]],
    results: Sequence[SequenceResult],
    where: str,
    decoding: Decoding,
    resamples: int,
) -> Table:
    """All systems, the mean over their seeds with its interval by story, against the control."""
    entry = reference()["vrss-1"]
    published, control = entry["rows"], entry["control"]
    names = [*published, *(name for name in systems if name not in published)]
    owner, groups = group_numbers(results[0].stories if results else [])
    figures: list[Figure] = []
    against: list[int | None] = []
    for name in names:
        runs = systems.get(name, ())
        for place, column in enumerate(_COLUMNS):
            values = _mean(runs, decoding, column)
            printed = published.get(name, {}).get(column.published)
            if printed is not None and column.kind == "percent":
                printed /= 100
            statistic = None if values is None else _average(values, owner, groups)
            figures.append(Figure(column.kind, statistic, printed, applies=values is not None or not runs))
            compared = name != control and control in names
            against.append(names.index(control) * len(_COLUMNS) + place if compared else None)
    cells, count = compare(figures, against, owner, groups, resamples=resamples)
    rows = tuple(
        Row(name=name, remark=_remark(systems.get(name, ())), cells=tuple(own))
        for name, own in zip(names, parted(cells, len(_COLUMNS)), strict=True)
    )
    return Table(
        name="vrss-1",
        title=f"{entry['title']} ({where}, {DECODINGS[decoding]})",
        corner="system",
        blocks=tuple(
            Block(title=title, columns=tuple(c.name for c in own)) for title, own in _BLOCKS.items()
        ),
        rows=rows,
        notes=(*_notes(results, decoding), _marks(control, count, resamples)),
    )


def _seeds(systems: Mapping[str, Sequence[SequenceResult]], where: str, decoding: Decoding) -> Table:
    """Every run by itself, and the deviation between the seeds of a system."""
    rows = []
    for name, runs in systems.items():
        found = []
        for run in runs:
            values = [_mean([run], decoding, column) for column in _COLUMNS]
            found.append([None if one is None else float(one.mean()) for one in values])
            rows.append(Row(name=f"{name}, seed {run.about.seed}", cells=_plain(found[-1])))
        if len(runs) > 1:
            spread = [
                None if any(one is None for one in column) else float(np.std(column, ddof=1))
                for column in (list(column) for column in zip(*found, strict=True))
            ]
            rows.append(Row(name=f"{name}, deviation", cells=_plain(spread)))
    return Table(
        name="vrss-1-seeds",
        title=f"Single runs ({where}, {DECODINGS[decoding]})",
        corner="run",
        blocks=tuple(
            Block(title=title, columns=tuple(c.name for c in own)) for title, own in _BLOCKS.items()
        ),
        rows=tuple(rows),
        notes=("Deviation: of the seeds, with n − 1.",),
    )


def _remark(runs: Sequence[SequenceResult]) -> str:
    """How many runs a row averages, where it is more than one."""
    return f"{len(runs)} seeds" if len(runs) > 1 else ""


def _plain(values: Sequence[float | None]) -> tuple[Cell, ...]:
    return tuple(
        Cell(value=value, kind=column.kind, applies=value is not None)
        for value, column in zip(values, _COLUMNS, strict=True)
    )


def _mean(runs: Sequence[SequenceResult], decoding: Decoding, column: Column) -> Values | None:
    """(N,) mean over a system's seeds; None where a seed lacks it, for a mean of fewer is another figure."""
    found = [column.values(run.found[decoding]) if decoding in run.found else None for run in runs]
    there = [values for values in found if values is not None]
    if not there or len(there) < len(found):
        return None
    return np.asarray(np.mean(there, axis=0), dtype=np.float64)


def _average(values: Values, owner: NDArray[np.int64], groups: int) -> Callable[[Weights], Values]:
    sums = np.bincount(owner, values, groups)
    sizes = np.bincount(owner, minlength=groups).astype(np.float64)

    def average(weights: Weights) -> Values:
        drawn = weights.astype(np.float64)
        share: Values = (drawn @ sums) / (drawn @ sizes)
        return share

    return average


def _notes(results: Sequence[SequenceResult], decoding: Decoding) -> tuple[str, ...]:
    """Sizes, chance, and what cells mean."""
    notes = []
    for first in results[:1]:
        groups = len(set(first.stories))
        notes.append(f"{len(first.ids)} steps of {groups} stories, {first.pictures} different pictures.")
        for name, level in first.levels.items():
            random, gold = (", ".join(f"{100 * v:.1f}" for v in some) for some in (level.random, level.gold))
            title = "nouns" if name == "noun" else "stories"
            cuts = "/".join(str(k) for k in CUTS)
            notes.append(f"VSR@{cuts} ({title}): {random} with random pictures, {gold} with the right ones.")
        if first.random_similarity is not None:
            notes.append(f"VFS: {first.random_similarity:.2f} with random pictures.")
        if first.features:
            notes.append(f"What pictures look like is asked of {first.features}.")
    if decoding == "distinct":
        notes.append("A picture that an earlier step of the story puts first ranks behind all others.")
    return (
        *notes,
        "VSR: a noun of the step's text (nouns) or its story (stories) is among the k labels that a"
        " linear model of the test pictures, five-fold, thinks likeliest for the first picture.",
        "Brackets: 95 % bootstrap interval by story of the mean over seeds. Parentheses: the paper's figure,"
        f" on its own {reference()['vrss-1']['data']}; for ordering only.",
    )


def _marks(control: str, compared: int, resamples: int) -> str:
    """What the marks mean."""
    if not compared:
        return f"No marks: nothing to compare with {control}, or fewer than ten stories."
    return (
        f"* better, † worse than {control}: paired bootstrap of {resamples} resamples by story,"
        f" p < .05 after Holm's correction for {compared} comparisons."
    )
