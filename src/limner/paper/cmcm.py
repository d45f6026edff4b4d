"""The result tables of CMCM: retrieval, retrieval per relation, and predicted relations."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from limner.errors import ConfigError, unknown
from limner.evaluation import relations as labels
from limner.evaluation.results import PoolRanks, Result
from limner.evaluation.uncertainty import RESAMPLES
from limner.paper.comparison import (
    METRICS,
    Cohort,
    Figure,
    Line,
    Ranked,
    compared,
    difference,
    marks,
    precision_figure,
    rank_figure,
    seeds,
    versus,
)
from limner.paper.table import Block, Cell, Row, Table, reference

CONTROL = "CMCA"
Stage = Literal["plain", "refined"]


@dataclass(frozen=True)
class Scene:
    """All results on one part of one split, and the table to be made of them.

    Attributes:
        name: of the table.
        where: data set and split, in words.
        cohort: the results.
        resamples: of every bootstrap.
        published: whether the paper gives figures of this data set.
    """

    name: str
    where: str
    cohort: Cohort[Result]
    resamples: int
    published: bool

    def runs(self, system: str, alias: str = "") -> Sequence[Result]:
        """Runs of a system under either of its names."""
        return self.cohort.systems.get(system) or self.cohort.systems.get(alias) or ()

    def title(self, tail: str = "") -> str:
        """What is shown and where its figures are from; the published table is named where it is redone."""
        title = str(reference()[self.name]["title"])
        if not self.published:
            title = title.partition(": ")[2].capitalize()
        return f"{title} ({self.where}{tail})"


def pools_of(runs: Sequence[Result], stage: Stage, *, full: bool) -> list[Ranked]:
    """Queries and ranks of every pool of every run; empty where the stage was not measured."""
    pools = [pool for run in runs for pool in chosen(run, full=full)]
    staged = [(pool, pool.plain if stage == "plain" else pool.refined) for pool in pools]
    return [
        (np.array(pool.queries, dtype=np.int64), np.array(ranks, dtype=np.float64))
        for pool, ranks in staged
        if ranks
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


MODELS = ("Base", "CMCA", "CMCM-NoAttn", "CMCM")


def retrieval(scene: Scene, *, full: bool) -> Table:
    """Plain and refined ranks on the same pools, every row against the control's plain figures."""
    cohort, published = scene.cohort, reference()[scene.name]["rows"]
    if not scene.published:  # the figures of another data set are no reference, its rows no gap
        published = {n: {} for n in published if n in MODELS and (scene.runs(n) or n == CONTROL)}
    known = {*published, *(entry.get("alias") for entry in published.values())}
    extra = [name for name, runs in cohort.systems.items() if runs[0].pools and name not in known]
    rows = {n: scene.runs(n, published.get(n, {}).get("alias", "")) for n in (*published, *extra)}
    measured = [run for runs in rows.values() for run in runs]
    refines = any(run.pools and run.pools[0].refined for run in measured)
    stages: list[Stage] = ["plain", "refined"] if refines or scene.published else ["plain"]
    figures: dict[str, dict[Stage, list[Figure]]] = {}
    for name, runs in rows.items():
        single = name in ("Base", CONTROL)  # these refine nothing
        figures[name] = {}
        for stage in stages:
            pools = pools_of(runs, stage, full=full)
            printed = _printed(published.get(name, {}), stage, refines=not single)
            applies = stage == "plain" or (not single and (bool(pools) or not runs))
            figures[name][stage] = [
                rank_figure(metric, pools, cohort.owner, cohort.groups, printed.get(metric), applies=applies)
                for metric in METRICS
            ]
    lines = []
    for name, own in figures.items():
        cells = [figure for stage in stages for figure in own[stage]]
        if name != CONTROL:
            cells = versus(cells, figures[CONTROL]["plain"] * len(stages))
        if refines:  # of the same queries of the same pools, so they are paired
            cells += [difference(*both) for both in zip(own["refined"], own["plain"], strict=True)]
        lines.append(Line(name, cells, seeds(rows[name])))
    body, count = compared(lines, len(cohort.owner), cohort.groups, scene.resamples)
    pools_shown = [chosen(run, full=full) for run in measured]
    size = next((pool.pictures for own in pools_shown for pool in own), 0)
    drawn = next((len(own) for own in pools_shown), 0)
    tail = ", all pictures" if full else ", pools"
    if size:
        tail = f", all {size} pictures" if full else f", {drawn} pools of {size}"
    intervals = "Brackets: 95 % bootstrap interval by duplicate group, over all seeds and pools."
    if scene.published:
        intervals += (
            " Parentheses: the paper's figure, after refinement where the model has a coherence module, on"
            " its own pools."
        )
    notes = [intervals, marks(f"{CONTROL} (plain) on the same pools", count, scene.resamples)]
    if refines:
        notes.append("Refined minus plain: paired, its marks against no difference, in the same correction.")
    titles = [*stages, *(["refined minus plain"] if refines else [])]
    return Table(
        name=scene.name,
        title=scene.title(tail),
        corner="model",
        blocks=tuple(Block(title=title, columns=METRICS) for title in titles),
        rows=body,
        notes=tuple(notes),
    )


def _printed(entry: Mapping[str, Any], stage: Stage, *, refines: bool) -> dict[str, float]:
    """Published figures of one row at one stage, as fractions and ranks."""
    table = entry.get("printed", {}) if refines == (stage == "refined") else {}
    found = {metric: scaled(table, metric) for metric in METRICS}
    if stage in entry:  # the medians behind Figure 5 have one more digit
        found["MedR"] = entry[stage][0]
    return {metric: value for metric, value in found.items() if value is not None}


TEXT_ONLY = "text only"


def per_relation(scene: Scene) -> Table:
    """Queries for which a relation holds, and those for which it does not, against all pictures."""
    cohort = scene.cohort
    published = reference()[scene.name]["rows"] if scene.published else {}
    columns: tuple[tuple[str, str, Stage], ...] = (
        ("CMCA", CONTROL, "plain"),
        ("CMCM", "CMCM", "plain"),
        ("CMCM refined", "CMCM", "refined"),
    )
    lines = []
    for relation in _relations(scene):
        for holds in (True, False):
            figures, count = [], 0
            for _, system, stage in columns:
                pools = []
                for rows, ranks in pools_of(scene.runs(system), stage, full=True):
                    keep = _majority(scene, relation)[rows] == holds
                    count = int(keep.sum())
                    if count:
                        pools.append((rows[keep], ranks[keep]))
                shown = holds and (stage != "plain" or system == CONTROL)
                printed = published.get(relation, {}).get(system, {}) if shown else {}
                figures += [
                    rank_figure(m, pools, cohort.owner, cohort.groups, scaled(printed, m)) for m in METRICS
                ]
            first, rest = figures[: len(METRICS)], figures[len(METRICS) :]
            name = relation if holds else f"not {relation}"
            lines.append(Line(name, [*first, *versus(rest, 2 * first)], f"{count} queries"))
    body, compared_count = compared(lines, len(cohort.owner), cohort.groups, scene.resamples)
    return Table(
        name=scene.name,
        title=scene.title(", all pictures"),
        corner="relation",
        blocks=tuple(Block(title=title, columns=METRICS) for title, _, _ in columns),
        rows=body,
        notes=(
            "Brackets: 95 % bootstrap interval by duplicate group. Parentheses: the paper's figure.",
            marks(f"{CONTROL} on the same queries", compared_count, scene.resamples),
        ),
    )


def precisions(scene: Scene) -> Table:
    """Average precision of every predicted relation beside prevalence, text-only controls and the ceiling."""
    cohort, relations = scene.cohort, _relations(scene)
    published = reference()[scene.name]["rows"] if scene.published else {}
    aliases = {
        entry["alias"]: name for name, entry in reference()["cmcm-4"]["rows"].items() if "alias" in entry
    }
    controls = [name for name in cohort.systems if name.startswith(TEXT_ONLY)] or [TEXT_ONLY]
    known = {"CMCM-NoAttn", "CMCM", *controls, *(f"CMCM_{r}" for r in relations), *aliases.values()}
    others = [n for n, runs in cohort.systems.items() if n not in known and runs[0].probabilities]
    figures: dict[str, list[Figure]] = {}
    for name in (*controls, "CMCM-NoAttn", "CMCM", "CMCM_c", *others):
        figures[name] = []
        for relation in relations:
            system = f"CMCM_{relation}" if name == "CMCM_c" else name
            runs = [r for r in scene.runs(system, aliases.get(system, "")) if relation in r.probabilities]
            printed = published.get(name, {}).get("printed", {}).get(relation)
            scores = np.array([run.probabilities[relation] for run in runs])
            truth = runs[0].labels[relation] if runs else ()
            figures[name].append(precision_figure(scores, truth, cohort.owner, printed))
    lines: list[Line | Row] = [
        Line(
            f"{name} (own relation)" if name == "CMCM_c" else name,
            own if name in controls else versus(own, figures[controls[0]]),
            seeds(scene.runs(name)),
        )
        for name, own in figures.items()
    ]
    for first in [runs[0] for runs in cohort.systems.values()][:1]:
        shares = [
            labels.prevalence(first.labels[r], first.groups, resamples=scene.resamples) for r in relations
        ]
        chance = [Cell(value=one.value, low=one.low, high=one.high, kind="precision") for one in shares]
        lines.insert(0, Row(name="prevalence (chance)", cells=tuple(chance)))
        if len(set(first.pairs)) < len(first.pairs):
            top = [
                labels.disagreement_ceiling(first.pairs, first.labels[r]) if any(first.labels[r]) else None
                for r in relations
            ]
            ceiling = tuple(Cell(value=value, kind="precision") for value in top)
            lines.append(Row(name="ceiling (annotators disagree on repeated pairs)", cells=ceiling))
    body, count = compared(lines, len(cohort.owner), cohort.groups, scene.resamples)
    return Table(
        name=scene.name,
        title=scene.title(),
        corner="model",
        blocks=(Block(title="average precision", columns=relations),),
        rows=body,
        notes=(
            "Brackets: 95 % bootstrap interval by duplicate group. Parentheses: the paper's figure (released"
            " split).",
            marks(f"the row '{controls[0]}'", count, scene.resamples),
        ),
    )


def _relations(scene: Scene) -> tuple[str, ...]:
    """Relations of the results, in their order; the published ones where there is no result."""
    for runs in scene.cohort.systems.values():
        return tuple(runs[0].labels)
    return tuple(reference()["cmcm-8"]["rows"]["CMCM"]["printed"])


def _majority(scene: Scene, relation: str) -> NDArray[np.bool_]:
    """(N,) whether most annotations of a row's pair state the relation; a tie counts as stated."""
    result = next(iter(scene.cohort.systems.values()))[0]
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
        results: as `ResultFile.read_all` gives them; other data sets and validation are left aside.
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
        where = f"{chosen}, {split} split"
        cohort = Cohort.of(f"{name} ({where})", own, lambda result: result.groups, plain=("release",))
        scene = Scene(name, where, cohort, resamples, chosen in known)
        if name == "cmcm-7":
            tables.append(per_relation(scene))
        elif name == "cmcm-8":
            tables.append(precisions(scene))
        else:
            if not own or any(result.drawn for result in own):  # a small set has no pools to draw
                tables.append(retrieval(scene, full=False))
            tables.append(retrieval(scene, full=True))
    return tables
