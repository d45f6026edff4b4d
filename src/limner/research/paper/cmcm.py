"""The result tables of CMCM: retrieval, retrieval per relation, and predicted relations."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from limner.counts import counted
from limner.research.datasets.registry import data_set
from limner.research.evaluation import relations as labels
from limner.research.evaluation.results import PoolRanks, Result
from limner.research.evaluation.uncertainty import RESAMPLES
from limner.research.paper.cohort import Cohort
from limner.research.paper.comparison import (
    METRICS,
    Figure,
    Line,
    Ranked,
    compared,
    difference,
    joined,
    versus,
)
from limner.research.paper.conditions import seeds, settings_of, uneven
from limner.research.paper.table import Cell, Row, Table, reference, written

CONTROL = "CMCA"
MODELS = ("Base", "CMCA", "CMCM-NoAttn", "CMCM")
TEXT_ONLY = "text only"
LIMNER = "limner-1"
SPLITS = ("grouped", "released")
Stage = Literal["plain", "refined"]


@dataclass(frozen=True)
class Scene:
    """All results on one part of one split, and the table to be made of them.

    Attributes:
        name: of the table.
        data: data set.
        split: of it.
        cohort: the results.
        resamples: of every bootstrap.
        published: whether the paper gives figures of this data set.
        control: system whose plain figures all others are compared with.
    """

    name: str
    data: str
    split: str
    cohort: Cohort[Result]
    resamples: int
    published: bool
    control: str = CONTROL

    @property
    def rows(self) -> Mapping[str, Any]:
        """The paper's rows; none of another data set."""
        return reference()[self.name]["rows"] if self.published else {}

    @property
    def legacy(self) -> tuple[str, ...]:
        """What is to be said of the pools of the release; nothing where others were measured."""
        every = [run for runs in self.cohort.systems.values() for run in runs]
        if not any(run.about.protocol == "legacy" for run in every):
            return ()
        return ("Legacy protocol: pools repeat pictures, as the release's do; for comparison with it alone.",)

    @property
    def relations(self) -> tuple[str, ...]:
        """Relations of the results, in their order; the published ones where there is no result."""
        for runs in self.cohort.systems.values():
            return tuple(runs[0].labels)
        return data_set(self.data).relations

    def title(self, tail: str = "") -> str:
        """What is shown and where its figures are from; the published table is named where it is redone."""
        title = str(reference()[self.name]["title"])
        if not self.published:
            title = title.partition(": ")[2].capitalize()
        return f"{title} ({self.data}, {self.split} split{tail})"


def pools_of(runs: Sequence[Result], stage: Stage, *, full: bool) -> list[Ranked]:
    """Queries and ranks of every pool of every run; empty where the stage was not measured."""
    pools = [pool for run in runs for pool in chosen(run, full=full)]
    return [
        (np.array(pool.queries, dtype=np.int64), np.array(ranks, dtype=np.float64))
        for pool in pools
        if (ranks := pool.plain if stage == "plain" else pool.refined)
    ]


def chosen(run: Result, *, full: bool) -> tuple[PoolRanks, ...]:
    """The full gallery of a run, or its drawn pools; in the legacy protocol what stands for them."""
    if run.first is not None:  # the release took the first rows for its pools, and draws for its full set
        return run.drawn if full else (run.first,)
    if not full:
        return run.drawn
    return (run.full,) if run.full is not None else ()


def scaled(table: Mapping[str, float], metric: str) -> float | None:
    """A printed figure as a rank or a fraction."""
    if metric not in table:
        return None
    return table[metric] if metric == "MedR" else table[metric] / 100


def retrieval(scene: Scene, *, full: bool) -> Table:
    """Plain and refined ranks on the same pools, every row against the control's plain figures."""
    cohort, published = scene.cohort, scene.rows
    if not scene.published:  # the figures of another data set are no reference, its rows no gap
        published = {n: {} for n in (*MODELS, scene.control) if cohort.runs(n) or n == scene.control}
    known = {*published, *(entry.get("alias") for entry in published.values())}
    extra = [name for name, runs in cohort.systems.items() if runs[0].pools and name not in known]
    rows = {n: cohort.runs(n, published.get(n, {}).get("alias", "")) for n in (*published, *extra)}
    measured = [run for runs in rows.values() for run in runs]
    refines = any(run.pools and run.pools[0].refined for run in measured)
    stages: list[Stage] = ["plain", "refined"] if refines or scene.published else ["plain"]

    def ranked(name: str, stage: Stage) -> list[Figure]:
        single = name in ("Base", CONTROL)  # these refine nothing
        pools = pools_of(rows[name], stage, full=full)
        printed = _printed(published.get(name, {}), stage, refines=not single)
        applies = stage == "plain" or (not single and (bool(pools) or not rows[name]))
        found = [cohort.ranked(metric, pools, printed.get(metric), applies=applies) for metric in METRICS]
        entry = published.get(name, {})
        if "MedR" in printed:
            found[0] = replace(found[0], paper_deviation=entry.get("deviation"))
        if stage in entry:  # what the release's files give of the same model
            release, spread = entry[stage]
            found[0] = replace(found[0], release=release, release_deviation=spread)
        return found

    figures = {name: {stage: ranked(name, stage) for stage in stages} for name in rows}
    lines = []
    for name, own in figures.items():
        cells = [figure for stage in stages for figure in own[stage]]
        apart = uneven(rows[name], rows[scene.control]) if name != scene.control else ""
        if name != scene.control:
            cells = versus(cells, figures[scene.control]["plain"] * len(stages), apart)
        if refines:  # of the same queries of the same pools, so they are paired
            cells += [difference(*both) for both in zip(own["refined"], own["plain"], strict=True)]
        about = settings_of(rows[name])
        lines.append(Line(name, cells, seeds(rows[name]), settings=about, uneven=apart))
    shown = [pools for run in measured if (pools := chosen(run, full=full))]
    tail = ", all pictures" if full else ", pools"
    if scene.legacy:
        tail = f", legacy protocol, the first {shown[0][0].pictures} pairs"
    elif shown:
        size = shown[0][0].pictures
        tail = f", all {size} pictures" if full else f", {len(shown[0])} pools of {size}"
    intervals = "Brackets: 95 % bootstrap interval by duplicate group, over all seeds and pools."
    if scene.published:
        intervals += (
            " Parentheses: the paper's figure, after refinement where the model has a coherence module, on"
            " its own pools, ± over ten pools of one training; 'release' is what the release's own files of"
            " these pools give, to two decimals."
        )
    paired = "Refined minus plain: paired, its marks against no difference, in the same correction."
    return compared(
        scene.name,
        scene.title(tail),
        lines,
        cohort.size,
        scene.resamples,
        blocks=dict.fromkeys([*stages, *(["refined minus plain"] if refines else [])], METRICS),
        notes=[intervals, *_confidence(published, full=full), *scene.legacy],
        more=[paired] if refines else [],
    )


def _confidence(published: Mapping[str, Any], *, full: bool) -> list[str]:
    """What the release's files say of a ranking by the predicted relations alone, on its pools."""
    known = {name: entry["confidence"] for name, entry in published.items() if "confidence" in entry}
    if full or not known:
        return []
    words = ", ".join(f"{name} {written(value, 'rank')}" for name, value in known.items())
    return [
        f"Median rank by confidence alone, without the similarity, of the release's files, on its pools of"
        f" 500: {words}; nothing of ours is ranked so."
    ]


def _printed(entry: Mapping[str, Any], stage: Stage, *, refines: bool) -> dict[str, float]:
    """Published figures of one row at one stage, as fractions and ranks."""
    table = entry.get("printed", {}) if refines == (stage == "refined") else {}
    found = {metric: scaled(table, metric) for metric in METRICS}
    return {metric: value for metric, value in found.items() if value is not None}


def per_relation(scene: Scene) -> Table:
    """Queries for which a relation holds, and those for which it does not, against all pictures."""
    cohort = scene.cohort
    columns: dict[str, tuple[str, Stage]] = {
        "CMCA": (CONTROL, "plain"),
        "CMCM": ("CMCM", "plain"),
        "CMCM refined": ("CMCM", "refined"),
    }
    apart = uneven(cohort.runs("CMCM"), cohort.runs(CONTROL))
    lines = []
    for relation in scene.relations:
        for holds in (True, False):
            figures, count = [], 0
            for system, stage in columns.values():
                pools = []
                for rows, ranks in pools_of(cohort.runs(system), stage, full=True):
                    keep = _majority(scene, relation)[rows] == holds
                    count = len(np.unique(rows[keep]))
                    if count:
                        pools.append((rows[keep], ranks[keep]))
                shown = holds and (stage != "plain" or system == CONTROL)
                printed = scene.rows.get(relation, {}).get(system, {}) if shown else {}
                figures += [cohort.ranked(m, pools, scaled(printed, m)) for m in METRICS]
            first, rest = figures[: len(METRICS)], figures[len(METRICS) :]
            name = relation if holds else f"not {relation}"
            cells = [*first, *versus(rest, 2 * first, apart)]
            lines.append(Line(name, cells, f"{counted(count, 'query')}", uneven=apart))
    return compared(
        scene.name,
        scene.title(", legacy protocol, draws with replacement" if scene.legacy else ", all pictures"),
        lines,
        cohort.size,
        scene.resamples,
        blocks=dict.fromkeys(columns, METRICS),
        notes=scene.legacy,
        columns_of={
            name: found for name in (CONTROL, "CMCM") if (found := settings_of(cohort.runs(name))) is not None
        },
    )


def precisions(scene: Scene) -> Table:
    """Average precision of every predicted relation beside prevalence, text-only controls and the ceiling."""
    cohort, relations = scene.cohort, scene.relations
    aliases = {
        entry["alias"]: name for name, entry in reference()["cmcm-4"]["rows"].items() if "alias" in entry
    }
    controls = [name for name in cohort.systems if name.startswith(TEXT_ONLY)] or [TEXT_ONLY]
    known = {"CMCM-NoAttn", "CMCM", *controls, *(f"CMCM_{r}" for r in relations), *aliases.values()}
    others = [n for n, runs in cohort.systems.items() if n not in known and runs[0].probabilities]

    def runs_of(name: str, relation: str) -> list[Result]:
        system = f"CMCM_{relation}" if name == "CMCM_c" else name
        return [r for r in cohort.runs(system, aliases.get(system, "")) if relation in r.probabilities]

    def precision(name: str, relation: str) -> Figure:
        runs = runs_of(name, relation)
        printed = scene.rows.get(name, {}).get("printed", {}).get(relation)
        statistic = None
        if runs and any(runs[0].labels[relation]):  # a relation without a positive has no precision
            scores = np.array([run.probabilities[relation] for run in runs])
            statistic = labels.precision_statistic(scores, runs[0].labels[relation], cohort.owner)
        return Figure("precision", statistic, printed)

    lines: list[Line | Row] = []
    control: list[Figure] = []
    for name in (*controls, "CMCM-NoAttn", "CMCM", "CMCM_c", *others):
        own = [precision(name, relation) for relation in relations]
        control = control or own
        title = f"{name} (own relation)" if name == "CMCM_c" else name
        by_relation = [runs_of(name, relation) for relation in relations]
        apart = ""
        if name not in controls:
            apart = joined(
                uneven(some, runs_of(controls[0], r)) for some, r in zip(by_relation, relations, strict=True)
            )
            own = versus(own, control, apart)
        about = settings_of(run for some in by_relation for run in some)
        lines.append(Line(title, own, seeds(cohort.runs(name)), settings=about, uneven=apart))
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
    return compared(
        scene.name,
        scene.title(),
        lines,
        cohort.size,
        scene.resamples,
        blocks={"average precision": relations},
        control=f"the row '{controls[0]}'",
    )


def _majority(scene: Scene, relation: str) -> NDArray[np.bool_]:
    """(N,) whether most annotations of a row's pair state the relation; a tie counts as stated."""
    result = next(iter(scene.cohort.systems.values()))[0]
    pairs, stated = np.array(result.pairs), np.array(result.labels[relation])
    positives, sizes = np.bincount(pairs, stated), np.bincount(pairs)
    majority: NDArray[np.bool_] = (2 * positives >= sizes)[pairs]
    return majority


def build(
    name: str, results: Sequence[Result], *, data: str | None = None, resamples: int = RESAMPLES
) -> list[Table]:
    """One published table: per split, and for retrieval per kind of pool.

    Args:
        name: cmcm-4, cmcm-5, cmcm-7 or cmcm-8.
        results: as `ResultFile.read_all` gives them; other data sets and validation are left aside.
        data: data set; None takes those of the published table, of cmcm-7's two those that were measured.
        resamples: of every interval and comparison.
    Raises:
        DataError: two systems were evaluated on different pairs.
    """
    tables: list[Table] = []
    known = published_sets(name)
    for one in shown_sets(name, results, data):
        for split in SPLITS:
            due = ("test", one, split)
            own = [r for r in results if (r.about.part, r.about.data, r.about.split) == due]
            if not own and one not in known:
                continue  # nothing published and nothing measured
            cohort = Cohort.of(
                f"{name} ({one}, {split} split)", own, lambda result: result.groups, plain=("release",)
            )
            scene = Scene(name, one, split, cohort, resamples, one in known)
            if name == "cmcm-7":
                tables.append(per_relation(scene))
            elif name == "cmcm-8":
                tables.append(precisions(scene))
            else:
                # a small set has no pools to draw
                wholes = [False, True] if not own or any(result.drawn for result in own) else [True]
                wholes = [False] if scene.legacy else wholes
                tables += [retrieval(scene, full=full) for full in wholes]
    return tables


def published_sets(name: str) -> tuple[str, ...]:
    """Data sets of which a table of the paper has figures."""
    return ("clue", "cite++") if name == "cmcm-7" else (reference()[name]["data"],)


def shown_sets(name: str, results: Sequence[Result], data: str | None) -> tuple[str, ...]:
    """Data sets of a table: the one asked for, else those of the paper, as far as any was measured."""
    if data is not None:
        return (data,)
    known = published_sets(name)
    measured = {one.about.data for one in results if one.about.part == "test"}
    return tuple(one for one in known if one in measured) or known


def own_model(
    results: Sequence[Result], *, data: str | None = None, resamples: int = RESAMPLES
) -> list[Table]:
    """Retrieval among all pictures of every data set, against limner's plain dual encoder.

    Args:
        results: as `ResultFile.read_all` gives them; validation is left aside.
        data: data set; None takes all.
        resamples: of every interval and comparison.
    Raises:
        DataError: two systems were evaluated on different pairs.
    """
    shown = [one for one in results if one.about.part == "test" and one.about.protocol == "pools"]
    places = dict.fromkeys((one.about.data, one.about.split) for one in shown)
    tables = []
    for place in places:
        if data in (None, place[0]):
            own = [one for one in shown if (one.about.data, one.about.split) == place]
            where = f"{LIMNER} ({place[0]}, {place[1]} split)"
            cohort = Cohort.of(where, own, lambda result: result.groups, plain=("release",))
            control = str(reference()["tables"][LIMNER]["control"])
            tables.append(retrieval(Scene(LIMNER, *place, cohort, resamples, False, control), full=True))
    return tables
