"""The result tables of CMCM, built from result files: retrieval, retrieval per relation, predicted relations.

It chooses the results of one data set and split, and the table they become. It trains and scores nothing.
"""

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from limner.errors import ConfigError, DataError, unknown
from limner.evaluation import relations as labels
from limner.evaluation.comparison import Figure, Ranked, compare, precision_figure, rank_figure
from limner.evaluation.results import PoolRanks, Result
from limner.evaluation.uncertainty import RESAMPLES, group_numbers
from limner.paper.table import Block, Cell, Row, Table

METRICS = ("MedR", "R@1", "R@5", "R@10")
CONTROL = "CMCA"
Stage = Literal["plain", "refined"]


@cache
def reference() -> Mapping[str, Any]:
    """Published figures of CMCM, as in ``reference/cmcm.toml``."""
    return tomllib.loads((files("limner.paper") / "reference" / "cmcm.toml").read_text("utf-8"))


@dataclass(frozen=True)
class Scene:
    """All results on one part of one split.

    Attributes:
        name: of the table.
        where: data set and split, in words.
        systems: name → its runs, one per seed.
        owner: (N,) group of every row.
        groups: number of groups.
        resamples: of every bootstrap.
        published: whether the paper gives figures of this data set.
    """

    name: str
    where: str
    systems: Mapping[str, Sequence[Result]]
    owner: NDArray[np.int64]
    groups: int
    resamples: int
    published: bool

    @classmethod
    def of(
        cls, name: str, where: str, results: Sequence[Result], resamples: int, *, published: bool
    ) -> "Scene":
        """Sort results by system; all must be of the same rows."""
        systems: dict[str, list[Result]] = {}
        for result in results:
            if result.ids != results[0].ids:
                raise DataError(
                    f"{name} ({where}): {result.about.system} and {results[0].about.system} were evaluated on"
                    " different pairs; evaluate both on one split seed"
                )
            preset = result.about.preset
            # presets are never averaged: another one than the default is a row of its own
            name_of = (
                result.about.system if preset in ("", "release") else f"{result.about.system} [{preset}]"
            )
            systems.setdefault(name_of, []).append(result)
        owner, groups = group_numbers(results[0].groups if results else [])
        return cls(name, where, systems, owner, groups, resamples, published)

    def runs(self, system: str, alias: str = "") -> Sequence[Result]:
        """Runs of a system under either of its names."""
        return self.systems.get(system) or self.systems.get(alias) or ()

    def title(self, tail: str = "") -> str:
        """What is shown and where its figures are from; the published table is named where it is redone."""
        title = str(reference()[self.name]["title"])
        if not self.published:
            title = title.partition(": ")[2].capitalize()
        return f"{title} ({self.where}{tail})"


def pools_of(runs: Sequence[Result], stage: Stage, *, full: bool) -> list[Ranked]:
    """Queries and ranks of every pool of every run; empty where the stage was not measured."""
    return [
        (np.array(pool.queries, dtype=np.int64), np.array(getattr(pool, stage), dtype=np.float64))
        for run in runs
        for pool in chosen(run, full=full)
        if len(getattr(pool, stage))
    ]


def chosen(run: Result, *, full: bool) -> tuple[PoolRanks, ...]:
    """The full gallery of a run, or the pools that were drawn."""
    if not full:
        return run.drawn
    return (run.full,) if run.full is not None else ()


def scaled(table: Mapping[str, float], metric: str) -> float | None:
    """A printed figure as a rank or a fraction."""
    if metric not in table:
        return None
    return table[metric] if metric == "MedR" else table[metric] / 100


def parted(cells: Sequence[Cell], width: int) -> Iterator[Sequence[Cell]]:
    """Cells row by row."""
    for start in range(0, len(cells), width):
        yield cells[start : start + width]


def seeds(runs: Sequence[Result]) -> str:
    """How many runs a row averages, where it is more than one."""
    return f"{len(runs)} seeds" if len(runs) > 1 else ""


def marks_note(control: str, compared: int, resamples: int) -> str:
    """What the marks of a table mean."""
    if not compared:
        return f"No marks: nothing to compare with {control}, or fewer than ten duplicate groups."
    return (
        f"* better, † worse than {control}: paired bootstrap of {resamples} resamples by duplicate group,"
        f" p < .05 after Holm's correction for {compared} comparisons."
    )


MODELS = ("Base", "CMCA", "CMCM-NoAttn", "CMCM")


def retrieval(scene: Scene, *, full: bool) -> Table:
    """Plain and refined ranks on the same pools, every row against the control's plain figures."""
    published = reference()[scene.name]["rows"]
    if not scene.published:  # the figures of another data set are no reference, its rows no gap
        published = {n: {} for n in published if n in MODELS and (scene.runs(n) or n == CONTROL)}
    extra = [name for name, runs in scene.systems.items() if runs[0].pools and not _known(name, published)]
    figures: list[Figure] = []
    rows: list[tuple[str, Sequence[Result]]] = []
    for name in (*published, *extra):
        entry = published.get(name, {})
        runs = scene.runs(name, entry.get("alias", ""))
        rows.append((name, runs))
        for stage in ("plain", "refined"):
            pools = pools_of(runs, stage, full=full)
            printed = _printed(entry, stage, refines=name not in ("Base", CONTROL))
            applies = stage == "plain" or (name not in ("Base", CONTROL) and (bool(pools) or not runs))
            for metric in METRICS:
                figures.append(
                    rank_figure(
                        metric, pools, scene.owner, scene.groups, printed.get(metric), applies=applies
                    )
                )
    control = [name for name, _ in rows].index(CONTROL) * 2 * len(METRICS)
    against = [
        None if start == control else control + offset % len(METRICS)
        for start in range(0, len(figures), 2 * len(METRICS))
        for offset in range(2 * len(METRICS))
    ]
    width = len(METRICS)
    refines = any(r.pools and r.pools[0].refined for _, runs in rows for r in runs)
    # plain and refined of one system come from the same queries of the same pools, so they are paired
    gains = [
        (start + width + place, start + place)
        for start in range(0, len(figures) if refines else 0, 2 * width)
        for place in range(width)
    ]
    cells, compared = compare(
        figures, against, scene.owner, scene.groups, gains=gains, resamples=scene.resamples
    )
    lines = list(parted(cells[: len(figures)], 2 * width))
    if refines:
        gained = parted(cells[len(figures) :], width)
        lines = [(*own, *gain) for own, gain in zip(lines, gained, strict=True)]
    elif not scene.published:
        lines = [own[:width] for own in lines]
    size = next((p.pictures for _, runs in rows for r in runs for p in chosen(r, full=full)), 0)
    count = next((len(chosen(r, full=full)) for _, runs in rows for r in runs), 0)
    tail = (
        f", {f'all {size} pictures' if full else f'{count} pools of {size}'}"
        if size
        else (", all pictures" if full else ", pools")
    )
    intervals = "Brackets: 95 % bootstrap interval by duplicate group, over all seeds and pools."
    if scene.published:
        intervals += (
            " Parentheses: the paper's figure, after refinement where the model has a coherence module, on"
            " its own pools."
        )
    notes = [intervals, marks_note(f"{CONTROL} (plain) on the same pools", compared, scene.resamples)]
    stages = ["plain"]
    if refines or scene.published:
        stages.append("refined")
    if refines:
        stages.append("refined minus plain")
        notes.append("Refined minus plain: paired, its marks against no difference, in the same correction.")
    return Table(
        name=scene.name,
        title=scene.title(tail),
        corner="model",
        blocks=tuple(Block(title=title, columns=METRICS) for title in stages),
        rows=tuple(
            Row(name=name, remark=seeds(runs), cells=tuple(part))
            for (name, runs), part in zip(rows, lines, strict=True)
        ),
        notes=tuple(notes),
    )


def _printed(entry: Mapping[str, Any], stage: Stage, *, refines: bool) -> dict[str, float]:
    """Published figures of one row at one stage, as fractions and ranks."""
    table = entry.get("printed", {}) if refines == (stage == "refined") else {}
    found = {metric: scaled(table, metric) for metric in METRICS if metric in table}
    if stage in entry:  # the medians behind Figure 5 have one more digit
        found["MedR"] = entry[stage][0]
    return {metric: value for metric, value in found.items() if value is not None}


def _known(name: str, published: Mapping[str, Any]) -> bool:
    return name in published or any(entry.get("alias") == name for entry in published.values())


TEXT_ONLY = "text only"


def per_relation(scene: Scene) -> Table:
    """Queries for which a relation holds, and those for which it does not, against all pictures."""
    published = reference()[scene.name]["rows"] if scene.published else {}
    columns: tuple[tuple[str, str, Stage], ...] = (
        ("CMCA", CONTROL, "plain"),
        ("CMCM", "CMCM", "plain"),
        ("CMCM refined", "CMCM", "refined"),
    )
    figures: list[Figure] = []
    names: list[tuple[str, str]] = []
    for relation in _relations(scene):
        for holds in (True, False):
            count = 0
            for _, system, stage in columns:
                pools = []
                for rows, ranks in pools_of(scene.runs(system), stage, full=True):
                    keep = _majority(scene, relation)[rows] == holds
                    pools.append((rows[keep], ranks[keep]))
                    count = int(keep.sum())
                printed = published.get(relation, {}).get(system, {}) if holds and stage != "plain" else {}
                if holds and system == CONTROL:
                    printed = published.get(relation, {}).get(system, {})
                usable = [pool for pool in pools if len(pool[0])]
                figures += [
                    rank_figure(m, usable, scene.owner, scene.groups, scaled(printed, m)) for m in METRICS
                ]
            names.append((relation if holds else f"not {relation}", f"{count} queries"))
    width = len(columns) * len(METRICS)
    against = [
        None if place % width < len(METRICS) else place // width * width + place % len(METRICS)
        for place in range(len(figures))
    ]
    cells, compared = compare(figures, against, scene.owner, scene.groups, resamples=scene.resamples)
    return Table(
        name=scene.name,
        title=scene.title(", all pictures"),
        corner="relation",
        blocks=tuple(Block(title=title, columns=METRICS) for title, _, _ in columns),
        rows=tuple(
            Row(name=name, remark=remark, cells=tuple(part))
            for (name, remark), part in zip(names, parted(cells, width), strict=True)
        ),
        notes=(
            "Brackets: 95 % bootstrap interval by duplicate group. Parentheses: the paper's figure.",
            marks_note(f"{CONTROL} on the same queries", compared, scene.resamples),
        ),
    )


def precisions(scene: Scene) -> Table:
    """Average precision of every predicted relation beside prevalence, text-only controls and the ceiling."""
    relations = _relations(scene)
    published = reference()[scene.name]["rows"] if scene.published else {}
    aliases = {
        entry["alias"]: name for name, entry in reference()["cmcm-4"]["rows"].items() if "alias" in entry
    }
    controls = [name for name in scene.systems if name.startswith(TEXT_ONLY)] or [TEXT_ONLY]
    known = {"CMCM-NoAttn", "CMCM", *controls, *(f"CMCM_{r}" for r in relations), *aliases.values()}
    others = [n for n, runs in scene.systems.items() if n not in known and runs[0].probabilities]
    every = next(iter(scene.systems.values()), [None])[0]
    rows: list[Row] = []
    if every is not None:
        base = [
            labels.prevalence(every.labels[r], every.groups, resamples=scene.resamples) for r in relations
        ]
        cells = [Cell(value=b.value, low=b.low, high=b.high, kind="precision") for b in base]
        rows.append(Row(name="prevalence (chance)", cells=tuple(cells)))
    figures: list[Figure] = []
    names = [*controls, "CMCM-NoAttn", "CMCM", "CMCM_c", *others]
    for name in names:
        for relation in relations:
            system = f"CMCM_{relation}" if name == "CMCM_c" else name
            runs = [r for r in scene.runs(system, aliases.get(system, "")) if relation in r.probabilities]
            printed = published.get(name, {}).get("printed", {}).get(relation)
            scores = np.array([run.probabilities[relation] for run in runs])
            truth = runs[0].labels[relation] if runs else ()
            figures.append(precision_figure(scores, truth, scene.owner, printed))
    width = len(relations)
    against = [None if place < width * len(controls) else place % width for place in range(len(figures))]
    cells, compared = compare(figures, against, scene.owner, scene.groups, resamples=scene.resamples)
    rows += [
        Row(
            name=f"{name} (own relation)" if name == "CMCM_c" else name,
            remark=seeds(scene.runs(name)),
            cells=tuple(part),
        )
        for name, part in zip(names, parted(cells, width) if width else [[]] * len(names), strict=True)
    ]
    if every is not None and len(set(every.pairs)) < len(every.pairs):
        top = [
            labels.disagreement_ceiling(every.pairs, every.labels[r]) if any(every.labels[r]) else None
            for r in relations
        ]
        cells = [Cell(value=value, kind="precision") for value in top]
        rows.append(Row(name="ceiling (annotators disagree on repeated pairs)", cells=tuple(cells)))
    return Table(
        name=scene.name,
        title=scene.title(),
        corner="model",
        blocks=(Block(title="average precision", columns=relations),),
        rows=tuple(rows),
        notes=(
            "Brackets: 95 % bootstrap interval by duplicate group. Parentheses: the paper's figure (released"
            " split).",
            marks_note(f"the row '{controls[0]}'", compared, scene.resamples),
        ),
    )


def _relations(scene: Scene) -> tuple[str, ...]:
    """Relations of the results, in their order; the published ones where there is no result."""
    for runs in scene.systems.values():
        return tuple(runs[0].labels)
    return tuple(reference()["cmcm-8"]["rows"]["CMCM"]["printed"])


def _majority(scene: Scene, relation: str) -> NDArray[np.bool_]:
    """(N,) whether most annotations of a row's pair state the relation; a tie counts as stated."""
    result = next(iter(scene.systems.values()))[0]
    pairs, stated = np.array(result.pairs), np.array(result.labels[relation])
    positives, sizes = np.bincount(pairs, stated), np.bincount(pairs)
    majority: NDArray[np.bool_] = (2 * positives >= sizes)[pairs]
    return majority


TABLES = ("cmcm-4", "cmcm-5", "cmcm-7", "cmcm-8")
SPLITS = ("grouped", "released")


def build(
    name: str, results: Sequence[Result], *, data: str | None = None, resamples: int = RESAMPLES
) -> list[Table]:
    """One published table: per split, and for retrieval per kind of pool.

    Args:
        name: one of `TABLES`.
        results: as `results.read_results` gives them; other data sets and validation are left aside.
        data: data set; None takes that of the published table (Clue for cmcm-7).
        resamples: of every interval and comparison.
    Raises:
        ConfigError: no such table.
        DataError: two systems were evaluated on different pairs.
    """
    if name not in TABLES:
        raise ConfigError(unknown("table", name, TABLES))
    tables: list[Table] = []
    published = reference()[name].get("data", "clue")
    known = ("clue", "cite++") if name == "cmcm-7" else (published,)
    chosen = data or published
    for split in SPLITS:
        own = [
            r for r in results if r.about.part == "test" and (r.about.data, r.about.split) == (chosen, split)
        ]
        if not own and chosen != published:
            continue  # nothing published and nothing measured
        scene = Scene.of(name, f"{chosen}, {split} split", own, resamples, published=chosen in known)
        if name == "cmcm-7":
            tables.append(per_relation(scene))
        elif name == "cmcm-8":
            tables.append(precisions(scene))
        else:
            if not own or any(result.drawn for result in own):  # a small set has no pools to draw
                tables.append(retrieval(scene, full=False))
            tables.append(retrieval(scene, full=True))
    return tables
