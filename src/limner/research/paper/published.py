"""The published tables, filled with the figures of measured runs.

The TOML files in ``reference/`` hold rows, controls, notes and the papers' figures. This module maps runs to
rows and columns; `limner.research.paper.comparison` resamples and marks the figures.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np
from numpy.typing import NDArray

from limner.config import Record
from limner.errors import ConfigError, DataError, counted, unknown
from limner.research.evaluation import ranking as labels
from limner.research.evaluation.choice import default_choices
from limner.research.evaluation.results import (
    CUTS,
    About,
    Captions,
    ChoiceResult,
    Decoding,
    FoundPictures,
    Pictures,
    PoolRanks,
    Protocol,
    Result,
    ResultFile,
    SequenceResult,
)
from limner.research.evaluation.uncertainty import RESAMPLES, Values, Weights, group_numbers
from limner.research.paper.comparison import (
    FEWEST_GROUPS,
    METRICS,
    Cohort,
    Figure,
    Made,
    Ranked,
    Statistic,
    average,
    by_system,
    check_alike,
    compared,
    difference,
    framed,
    gathered,
    joined,
)
from limner.research.paper.conditions import seeds, settings_of, uneven
from limner.research.paper.table import Cell, Format, Kind, Row, Table, reference, render, written

if TYPE_CHECKING:
    from limner.research.runs.measure import Measured

NAMES = (
    "cmcm-1",
    "cmcm-2",
    "cmcm-4",
    "cmcm-5",
    "cmcm-7",
    "cmcm-8",
    "complementary-1",
    "complementary-2",
    "complementary-3",
    "vrss-1",
    "gsda-1",
    "limner-1",
)
FOLDERS = ("cmcm-1", "cmcm-2", "complementary-1")
"""Tables made from data sets or run folders, not from results."""
LEGACY = ("cmcm-4", "cmcm-5", "cmcm-7")
SPLITS = ("grouped", "released", "random")


class PaperTables(Record):
    """The tables for one table of a paper, such as one per split.

    Attributes:
        name: name, such as ``cmcm-5``.
        tables: tables in order.
    """

    name: str
    tables: tuple[Table, ...]

    @property
    def empty(self) -> int:
        """Number of cells that lack a result."""
        return sum(table.empty for table in self.tables)

    def render(self, form: Format) -> str:
        """Render all tables, see `limner.research.paper.table.render`."""
        return render(self.tables, form)

    def markdown(self) -> str:
        """As Markdown."""
        return self.render("md")

    def latex(self) -> str:
        """As LaTeX; requires the package booktabs."""
        return self.render("latex")

    def html(self) -> str:
        """As HTML without styles."""
        return self.render("html")

    def __str__(self) -> str:
        """As Markdown."""
        return self.markdown()

    def _repr_html_(self) -> str:
        """HTML for a notebook."""
        return self.html()


def build(
    name: str,
    runs: str | os.PathLike[str] | None = None,
    *,
    data: str | None = None,
    protocol: Protocol = "pools",
    resamples: int = RESAMPLES,
    measured: Sequence[Measured] | None = None,
) -> PaperTables:
    """Build a published table with the figures of measured runs.

    Args:
        name: cmcm-1 (frequency of relations in CITE++), cmcm-2 (the same for Clue), cmcm-4 (retrieval on
            CITE++), cmcm-5 (retrieval on Clue), cmcm-7 (retrieval per relation), cmcm-8 (predicted
            relations), complementary-1 (settings and dispersion of the measures), complementary-2 (c-way
            accuracy of all systems, with their ranks), complementary-3 (ablation of the weights), vrss-1
            (steps of stories), gsda-1 (the same with the coherence of retrieved pictures) or limner-1
            (limner's own model against the plain dual encoder).
        runs: folder of measured runs; if None, only published figures are shown.
        data: data set of the results; None uses the published one (for cmcm-7 those of the two that were
            measured; for complementary-…, vrss-1, gsda-1 and limner-1 all). A note lists results that a table
            of CMCM does not show.
        protocol: protocol of the pools; ``legacy`` only for cmcm-4, cmcm-5 and cmcm-7.
        resamples: number of resamples for intervals and comparisons.
        measured: runs in memory, instead of those in `runs`.
    Raises:
        ConfigError: unknown table, or one without the legacy protocol.
        MissingError: `runs` is not a folder.
        DataError: two systems were evaluated on different pairs.

    Example:
        >>> print(limner.tables.build("vrss-1"))
        **VRSS, Table 1: pictures for the steps of stories (not measured, each step on its own)**
        ...
    """
    if name not in NAMES:
        raise ConfigError(unknown("table", name, NAMES))
    if not isinstance(runs, str | os.PathLike | None):
        raise ConfigError(f"table: runs: {runs!r:.60} is of type {type(runs).__name__}; expected a path")
    if protocol == "legacy" and name not in LEGACY:
        raise ConfigError(f"table: {name} has no legacy protocol; only {', '.join(LEGACY)} have one")
    place = None if runs is None else Path(runs).expanduser()
    if name in FOLDERS:
        if measured is not None:
            raise ConfigError(f"table: {name} reads data sets in folders, not results; give --runs or --data")
        from limner.research.paper import sets

        of_runs = name == "complementary-1"
        table = sets.dispersion(place, data) if of_runs else sets.rates(name, data, resamples)
        return PaperTables(name=name, tables=(table,))
    kinds = _READ.get(reference()[name]["form"], (Result,))
    if measured is not None:
        results: list[ResultFile] = [
            result for one in measured for result in (one.result, *one.choices, one.sequences) if result
        ]
    else:
        results = [] if place is None else [one for kind in kinds for one in kind.read_all(place)]
    if not name.startswith("cmcm"):
        return PaperTables(name=name, tables=tuple(tables_of(name, results, data=data, resamples=resamples)))
    chosen = results[0].about.data if measured else data
    shown = [one for one in results if one.about.protocol == protocol]
    tables = tables_of(name, shown, data=chosen, resamples=resamples)
    ranked = [one.about for one in results if isinstance(one, Result)]
    note = passed_over(ranked, shown_sets(name, shown, chosen), protocol, asked=data)
    if note:
        tables[:1] = [one.model_copy(update={"notes": (*one.notes, note)}) for one in tables[:1]]
    return PaperTables(name=name, tables=tuple(tables))


def passed_over(every: Iterable[About], sets: Sequence[str], protocol: str, *, asked: str | None) -> str:
    """A note on test results that a table of CMCM does not show, and how to show them; "" for none.

    Args:
        every: descriptions of all results.
        sets: data sets that are shown.
        protocol: protocol that is shown.
        asked: data set that the user named; results on others are then not mentioned.
    """
    others: Counter[tuple[str, ...]] = Counter()
    for one in every:
        options: tuple[str, ...] = () if one.data in sets else (f"--data {one.data}",)
        if one.protocol != protocol:
            options += (f"--protocol {one.protocol}",)
        if one.part == "test" and options and not (asked is not None and one.data not in sets):
            others[(one.data, *options)] += 1
    each = [
        f"{counted(count, 'result')} on {data} ({' '.join(options)} shows {'it' if count == 1 else 'them'})"
        for (data, *options), count in sorted(others.items())
    ]
    return f"Not shown: {'; '.join(each)}." if each else ""


def tables_of(
    name: str, results: Sequence[ResultFile], *, data: str | None = None, resamples: int = RESAMPLES
) -> list[Table]:
    """Build the tables for a published table: one per data set and split, with supplementary ones.

    Args:
        name: see `build`; a table made from results.
        results: see `ResultFile.read_all`; validation results are ignored.
        data: the only data set to show; None as in `build`.
        resamples: number of resamples for intervals and comparisons.
    Raises:
        DataError: two runs were measured on different rows or with different features.
    """
    chosen = [one for one in results if one.about.part == "test"]
    return _FORMS[reference()[name]["form"]](name, chosen, data, resamples)


# --- Ranks of texts: CMCM, and limner's own model.

Stage = Literal["plain", "refined"]


def published_sets(name: str) -> tuple[str, ...]:
    """Data sets for which the paper has figures in a table of CMCM."""
    return tuple(reference()[name]["data"])


def shown_sets(name: str, results: Sequence[ResultFile], data: str | None) -> tuple[str, ...]:
    """Data sets of a table of CMCM: the requested one, else those of the paper that were measured."""
    if data is not None:
        return (data,)
    known = published_sets(name)
    measured = {one.about.data for one in results if one.about.part == "test"}
    return tuple(one for one in known if one in measured) or known


@dataclass(frozen=True)
class Scene:
    """The results on one split of a data set, for one table.

    Attributes:
        name: name of the table.
        data: data set.
        split: its split.
        cohort: the results.
        resamples: number of bootstrap resamples.
        published: whether the paper has figures for this data set.
        control: system whose unrefined figures all others are compared with.
    """

    name: str
    data: str
    split: str
    cohort: Cohort[Result]
    resamples: int
    published: bool
    control: str

    @property
    def rows(self) -> Mapping[str, Any]:
        """The paper's rows; empty for another data set."""
        return reference()[self.name]["rows"] if self.published else {}

    @property
    def legacy(self) -> tuple[str, ...]:
        """Notes on the legacy pools; empty for other pools."""
        every = [run for runs in self.cohort.systems.values() for run in runs]
        legacy = any(run.about.protocol == "legacy" for run in every)
        return (reference()["notes"]["legacy"],) if legacy else ()

    @property
    def relations(self) -> tuple[str, ...]:
        """Relations of the results in order; those of the paper if there is no result."""
        for runs in self.cohort.systems.values():
            return tuple(runs[0].labels)
        return tuple(reference()["relations"][self.data])

    def title(self, tail: str = "") -> str:
        """Title of a table: its content, data set and split."""
        title = str(reference()[self.name]["title"])
        if not self.published:
            title = title.partition(": ")[2].capitalize()
        return f"{title} ({self.data}, {self.split} split{tail})"


def _of_texts(name: str, results: Sequence[ResultFile], data: str | None, resamples: int) -> list[Table]:
    """Tables of CMCM: one per split, and for retrieval one per kind of pool."""
    entry = reference()[name]
    make = {"ranks": _retrieval, "per relation": _per_relation, "precision": _precisions}[entry["form"]]
    tables: list[Table] = []
    for one in shown_sets(name, results, data):
        for split in SPLITS:
            shown = [r for r in results if isinstance(r, Result) and r.about.split == split]
            own = [r for r in shown if r.about.data == one]
            published = one in published_sets(name)
            if own or (published and split in ("grouped", "released")):  # the paper's figures stand there
                where = f"{name} ({one}, {split} split)"
                cohort = Cohort.of(where, own, lambda result: result.groups, plain=("release",))
                control = entry.get("control", "")
                tables += make(Scene(name, one, split, cohort, resamples, published, control))
    return tables


def _own_model(name: str, results: Sequence[ResultFile], data: str | None, resamples: int) -> list[Table]:
    """Retrieval among all pictures of each data set, compared with the plain dual encoder."""
    shown = [one for one in results if isinstance(one, Result) and one.about.protocol == "pools"]
    tables: list[Table] = []
    for place in dict.fromkeys((one.about.data, one.about.split) for one in shown):
        if data in (None, place[0]):
            own = [one for one in shown if (one.about.data, one.about.split) == place]
            where = f"{name} ({place[0]}, {place[1]} split)"
            cohort = Cohort.of(where, own, lambda result: result.groups, plain=("release",))
            control = str(reference()["tables"][name]["control"])
            scene = Scene(name, *place, cohort, resamples, published=False, control=control)
            tables.append(_ranked(scene, full=True))
    return tables


def pools_of(runs: Sequence[Result], stage: Stage, *, full: bool) -> list[Ranked]:
    """Queries and ranks of all pools of all runs, before or after refinement; empty if not measured."""
    return [
        (np.array(pool.queries, dtype=np.int64), np.array(ranks, dtype=np.float64))
        for run in runs
        for pool in _chosen(run, full=full)
        if (ranks := pool.plain if stage == "plain" else pool.refined)
    ]


def _chosen(run: Result, *, full: bool) -> tuple[PoolRanks, ...]:
    """The full gallery or the sampled pools of a run, or their counterparts in the legacy protocol."""
    if run.first is not None:  # the release uses the first rows as its pool, and samples as its full set
        return run.drawn if full else (run.first,)
    if not full:
        return run.drawn
    return (run.full,) if run.full is not None else ()


def _scaled(printed: Mapping[str, float], metric: str) -> float | None:
    """Convert a printed figure to a rank or a fraction."""
    if metric not in printed:
        return None
    return printed[metric] if metric == "MedR" else printed[metric] / 100


def _retrieval(scene: Scene) -> list[Table]:
    runs = [run for own in scene.cohort.systems.values() for run in own]
    if scene.legacy:
        return [_ranked(scene, full=False)]
    # a small set has no pools
    wholes = [False, True] if not runs or any(run.drawn for run in runs) else [True]
    return [_ranked(scene, full=full) for full in wholes]


def _ranked(scene: Scene, *, full: bool) -> Table:
    """Ranks before and after refinement on the same pools, compared with the control before refinement."""
    cohort, entries, entry = scene.cohort, scene.rows, reference()[scene.name]
    if not scene.published:  # figures of another data set are not comparable, and missing rows are not gaps
        models = (*reference()["models"], scene.control)
        entries = {n: {} for n in models if cohort.runs(n) or n == scene.control}
    known = {*entries, *(one.get("alias") for one in entries.values())}
    extra = [name for name, runs in cohort.systems.items() if runs[0].pools and name not in known]
    rows = {n: cohort.runs(n, entries.get(n, {}).get("alias", "")) for n in (*entries, *extra)}
    every = [run for runs in rows.values() for run in runs]
    refines = any(run.pools and run.pools[0].refined for run in every)
    stages: list[Stage] = ["plain", "refined"] if refines or scene.published else ["plain"]

    def ranked(name: str, stage: Stage) -> list[Figure]:
        single = name in entry.get("unrefined", ())
        pools, own = pools_of(rows[name], stage, full=full), entries.get(name, {})
        printed = own.get("printed", {}) if single == (stage == "plain") else {}
        applies = stage == "plain" or (not single and (bool(pools) or not rows[name]))
        found = [cohort.ranked(one, pools, _scaled(printed, one), applies=applies) for one in METRICS]
        spreads = [_spread(run, stage) for run in rows[name] if pools and not (full or scene.legacy)]
        release, spread = own.get(stage, (None, None))  # from the release's files, for the same model
        found[0] = replace(
            found[0],
            deviation=float(np.mean(spreads)) if spreads else None,
            paper_deviation=own.get("deviation") if printed else None,
            release=release,
            release_deviation=spread,
        )
        return found

    figures = {name: [one for stage in stages for one in ranked(name, stage)] for name in rows}
    theirs = figures[scene.control][: len(METRICS)] * len(stages)
    blocks: list[str] = list(stages)
    if refines:  # on the same queries and pools, so the difference is paired
        blocks += ["refined minus plain"]
        for own in figures.values():
            own += [difference(one, other) for one, other in zip(own[len(METRICS) :], own, strict=False)]
    nobody = [None] * len(METRICS) if refines else []
    shown = [pools for run in every if (pools := _chosen(run, full=full))]
    tail = ", all pictures" if full else ", pools"
    if scene.legacy:
        tail = f", legacy protocol, the first {shown[0][0].pictures} pairs"
    elif shown:
        size = shown[0][0].pictures
        tail = f", all {size} pictures" if full else f", {len(shown[0])} pools of {size}"
    notes = reference()["notes"]
    return compared(
        scene.name,
        scene.title(tail),
        [(block, metric) for block in blocks for metric in METRICS],
        {name: [(one, rows[name]) for one in own] for name, own in figures.items()},
        size=cohort.size,
        resamples=scene.resamples,
        control=scene.control,
        against={name: [*theirs, *nobody] for name in rows if name != scene.control},
        above=[
            notes["intervals"]
            + ("" if full or scene.legacy or not shown else notes["deviation"])
            + (notes["parentheses"] if scene.published else ""),
            *_confidence(entries, full=full),
            *scene.legacy,
        ],
        below=[notes["paired"]] if refines else [],
    )


def _spread(run: Result, stage: Stage) -> float:
    """Population standard deviation of the median rank over a run's pools."""
    return float(np.std([np.median(ranks) for _, ranks in pools_of([run], stage, full=False)]))


def _confidence(entries: Mapping[str, Any], *, full: bool) -> list[str]:
    """Note on the release's files: ranks only by confidence in the relations, on its pools."""
    known = {name: one["confidence"] for name, one in entries.items() if "confidence" in one}
    words = ", ".join(f"{name} {written(value, 'rank', ours=True)}" for name, value in known.items())
    return [] if full or not known else [reference()["notes"]["confidence"].format(words)]


def _per_relation(scene: Scene) -> list[Table]:
    """Retrieval for queries with and without each relation, among all pictures."""
    cohort, lines = scene.cohort, dict[str, tuple[str, bool]]()
    for relation in scene.relations:
        lines |= {relation: (relation, True), f"not {relation}": (relation, False)}
    counts: dict[str, int] = {}

    def figure(name: str, system: str, stage: Stage, metric: str) -> Figure:
        relation, holds = lines[name]
        pools = []
        for rows, ranks in pools_of(cohort.runs(system), stage, full=True):
            keep = _majority(cohort, relation)[rows] == holds
            counts[name] = len(np.unique(rows[keep]))
            if counts[name]:
                pools.append((rows[keep], ranks[keep]))
        shown = holds and (stage != "plain" or system == scene.control)
        printed = scene.rows.get(relation, {}).get(system, {}) if shown else {}
        return cohort.ranked(metric, pools, _scaled(printed, metric))

    blocks: Mapping[str, tuple[str, Stage]] = reference()[scene.name]["blocks"]
    rows: dict[str, list[Made]] = {
        name: [
            (figure(name, *of, metric), cohort.runs(of[0])) for of in blocks.values() for metric in METRICS
        ]
        for name in lines
    }
    first = len(METRICS)
    systems = dict.fromkeys(system for system, _ in blocks.values())
    apart = joined(uneven(cohort.runs(one), cohort.runs(scene.control)) for one in systems)
    table = compared(
        scene.name,
        scene.title(", legacy protocol, draws with replacement" if scene.legacy else ", all pictures"),
        [(block, metric) for block in blocks for metric in METRICS],
        rows,
        size=cohort.size,
        resamples=scene.resamples,
        against={
            name: [*[None] * first, *[one for one, _ in own[:first]] * (len(blocks) - 1)]
            for name, own in rows.items()
        },
        remarks={name: counted(counts.get(name, 0), "query") for name in rows},
        apart=dict.fromkeys(rows, apart),
        above=scene.legacy,
        columns_of={one: own for one in systems if (own := settings_of(cohort.runs(one))) is not None},
    )
    return [table]


def _majority(cohort: Cohort[Result], relation: str) -> NDArray[np.bool_]:
    """(N,) whether the majority of the annotations of each row's pair has the relation; ties count as yes."""
    result = next(iter(cohort.systems.values()))[0]
    pairs, stated = np.array(result.pairs), np.array(result.labels[relation])
    positives, sizes = np.bincount(pairs, stated), np.bincount(pairs)
    majority: NDArray[np.bool_] = (2 * positives >= sizes)[pairs]
    return majority


def _precisions(scene: Scene) -> list[Table]:
    """Average precision of predicted relations, with prevalence, text-only controls and upper bound."""
    cohort, entry = scene.cohort, reference()[scene.name]
    aliases = {one["alias"]: n for n, one in reference()["cmcm-4"]["rows"].items() if "alias" in one}
    controls = [n for n in cohort.systems if n.startswith(entry["control"])] or [entry["control"]]
    singles, lowest, highest = (entry[name] for name in ("singles", "lowest", "highest"))
    known = {*entry["rows"], *controls, *(f"CMCM_{r}" for r in scene.relations), *aliases.values()}
    others = [n for n, runs in cohort.systems.items() if n not in known and runs[0].probabilities]

    def runs_of(name: str, relation: str) -> list[Result]:
        system = f"CMCM_{relation}" if name == singles else name
        return [r for r in cohort.runs(system, aliases.get(system, "")) if relation in r.probabilities]

    def figure(name: str, relation: str) -> Figure | Cell:
        first = next(iter(cohort.systems.values()))[0] if cohort.systems else None
        truth = first.labels[relation] if first else ()
        if name == lowest and first:
            one = labels.prevalence(truth, first.groups, resamples=scene.resamples)
            return Cell(value=one.value, low=one.low, high=one.high, kind="precision")
        if name == highest and first:
            value = labels.disagreement_ceiling(first.pairs, truth) if any(truth) else None
            return Cell(value=value, kind="precision")
        runs, statistic = runs_of(name, relation), None
        if runs and any(runs[0].labels[relation]):  # average precision is undefined without a positive
            scores = np.array([run.probabilities[relation] for run in runs])
            statistic = labels.precision_statistic(scores, runs[0].labels[relation], cohort.owner)
        return Figure("precision", statistic, scene.rows.get(name, {}).get("printed", {}).get(relation))

    first = [runs[0] for runs in cohort.systems.values()][:1]
    disagree = [highest] if first and len(set(first[0].pairs)) < len(first[0].pairs) else []
    names = [*([lowest] if first else []), *controls, *entry["rows"], *others, *disagree]
    rows: dict[str, list[Made]] = {
        name: [(figure(name, one), runs_of(name, one)) for one in scene.relations] for name in names
    }
    theirs = [one for one, _ in rows[controls[0]]]
    table = compared(
        scene.name,
        scene.title(),
        [("average precision", one) for one in scene.relations],
        rows,
        size=cohort.size,
        resamples=scene.resamples,
        control=controls[0],
        called=f"the row '{controls[0]}'",
        against={name: theirs for name in names if name not in controls},
        labels={singles: f"{singles} (own relation)"},
        remarks={name: seeds(cohort.runs(name)) for name in names},
    )
    return [table]


# --- Answers to c-way questions: complementary samples.

DIRECTIONS = ("I→T", "T→I")
Questions = Cohort[ChoiceResult]


def questions_of(results: Sequence[ChoiceResult], first: Sequence[str] = ()) -> list[Questions]:
    """Collect results of one split by data set and c; all data sets are resampled together.

    Args:
        results: results of one split and part.
        first: data sets that come first; the others follow by name.
    Raises:
        DataError: two runs on one data set answered different questions.
    """
    where: dict[str, list[ChoiceResult]] = {}
    for result in results:
        where.setdefault(result.about.data, []).append(result)
    found, start = [], 0
    for data in [name for name in first if name in where] + sorted(where.keys() - set(first)):
        how = "on one split seed with one folder of distractors"
        check_alike(data, where[data], lambda result: result.ids, "questions", how)
        owner, groups = group_numbers(where[data][0].groups)
        for c in sorted({result.c for result in where[data]}):
            same = [result for result in where[data] if result.c == c]
            check_alike(f"{data}, {c}-way", same, lambda result: result.choices, "questions", how)
            found.append(Cohort(by_system(same), owner, groups, data, c, start))
        start += groups
    return found


def credits_of(runs: Sequence[ChoiceResult], direction: int) -> Values | None:
    """(N,) credit of a system, averaged over its seeds; None if it was not measured.

    Args:
        runs: its runs.
        direction: index in `DIRECTIONS` (picture given, text given), or 2 for the mean of both.
    """
    both = [np.array((run.picture_to_text, run.text_to_picture)) for run in runs]
    made = [one[direction] if direction < 2 else one.mean(axis=0) for one in both]
    return np.asarray(np.mean(made, axis=0), dtype=np.float64) if made else None


def _as_published(one: Questions) -> bool:
    """Whether the paper has figures for this data set and number of options."""
    return one.data in reference()["sets"] and default_choices(one.data) == one.c


def _titled(one: Questions) -> str:
    """Data set, options and size."""
    name = reference()["sets"].get(one.data, {}).get("title", one.data)
    return f"{name} {one.c}-way" + (f", {counted(len(one.owner), 'pair')}" if len(one.owner) else "")


def _accuracy(
    one: Questions, system: str, direction: int, paper: float | None = None, *, applies: bool = True
) -> Figure:
    """Accuracy of a system, see `credits_of`; the paper's figure is for its number of options."""
    values = credits_of(one.runs(system), direction)
    return Figure(
        "exact percent",
        None if values is None else average(values, one.owner, one.groups, one.start),
        paper if _as_published(one) else None,
        applies=applies,
        comparable=one.groups >= FEWEST_GROUPS,
    )


def _choices(name: str, results: Sequence[ResultFile], data: str | None, resamples: int) -> list[Table]:
    """Tables per data set and c: accuracies (means and seeds), the paper's claims, ranks; or the ablation."""
    tables: list[Table] = []
    chosen = [r for r in results if isinstance(r, ChoiceResult) and data in (None, r.about.data)]
    ablation, sets = reference()[name]["form"] == "ablation", tuple(reference()["sets"])
    for split in SPLITS:
        found = questions_of([r for r in chosen if r.about.split == split], sets)
        where = f"{split} split"
        if ablation:
            tables += [_ablation(replace(one, start=0), where, resamples) for one in found if _ablated(one)]
        elif found:
            tables += [_accuracies(found, where, resamples), _seeds_of_choices(found, where)]
            contrasts = _contrasts(found, where, resamples)
            tables += [contrasts] if contrasts.rows else []
    if not tables:
        some = [data] if data is not None else [reference()[name]["data"]] if ablation else sets
        none = [Cohort({}, np.zeros(0, np.int64), 0, one, default_choices(one)) for one in some]
        make = _ablation if ablation else _accuracies
        tables = [make(none[0] if ablation else none, "not measured", resamples)]  # type: ignore[arg-type]
    if not ablation:
        ranked = [r for r in results if isinstance(r, Result)]
        tables += _rank_tables(ranked, chosen, resamples)
    return tables


def _accuracies(found: Sequence[Questions], where: str, resamples: int) -> Table:
    """All systems on all data sets, both directions, and the average."""
    entry, sets = reference()["complementary-2"], reference()["sets"]
    published = entry["rows"]
    whole = [(one.data, one.c) for one in found] == [(one, default_choices(one)) for one in sets]

    def figure(name: str, one: Questions, direction: int) -> Figure:
        printed = published.get(name, {}).get(one.data, (None, None))[direction]
        applies = bool(published.get(name)) or name in one.systems
        return _accuracy(one, name, direction, printed, applies=applies)

    def mean(name: str) -> Figure:
        means = [_accuracy(one, name, 2) for one in found]
        statistic = _mean_of([one.statistic for one in means])
        applies = bool(published.get(name)) or statistic is not None
        printed = published.get(name, {}).get("average") if whole else None
        comparable = all(one.comparable for one in means)
        return Figure("exact percent", statistic, printed, applies=applies, comparable=comparable)

    def papers(row: Mapping[str, Any], key: str) -> Cell:
        value = float(np.mean(row[key])) if key in row else None
        return Cell(value=value, kind="exact percent", applies=value is not None)

    other = [one for one in sets if all(questions.data != one for questions in found)]
    rest = {f"{sets[one]['title']} {default_choices(one)}-way": one for one in other}
    if rest:  # the paper's figures on sets that were not measured
        rest["mean of its 8"] = "average"
    rows: dict[str, list[Made]] = {}
    for name in (*published, *_others(found, published)):
        rows[name] = [(figure(name, one, way), one.runs(name)) for one in found for way in range(2)]
        rows[name].append((mean(name), ()))
        rows[name] += [(papers(published.get(name, {}), key), ()) for key in rest.values()]
    columns = [(_titled(one), way) for one in found for way in DIRECTIONS]
    chance = "; ".join(f"{_titled(one)} {100 / one.c:.1f}" for one in found)
    return compared(
        "complementary-2",
        f"{entry['title']} ({where})",
        [*columns, ("all", "mean"), *(("the paper's, means recomputed", title) for title in rest)],
        rows,
        size=_size(found),
        resamples=resamples,
        control=entry["control"],
        above=[reference()["notes"]["directions"].format(chance)],
    )


def _seeds_of_choices(found: Sequence[Questions], where: str) -> Table:
    """Accuracy (mean of both directions) by training seed, and the deviation between seeds."""
    published = reference()["complementary-2"]["rows"]
    trained = [sorted({run.about.seed for runs in one.systems.values() for run in runs}) for one in found]
    rows = []
    for name in (*published, *_others(found, published)):
        cells: list[Cell] = []
        for one, own in zip(found, trained, strict=True):
            by_seed = {run.about.seed: float(np.mean(credits_of([run], 2))) for run in one.runs(name)}  # type: ignore[arg-type]
            spread = float(np.std(list(by_seed.values()), ddof=1)) if len(by_seed) > 1 else None
            shown = [*(by_seed.get(seed) for seed in own), spread]
            cells += [Cell(value=one, kind="exact percent", applies=one is not None) for one in shown]
        if any(cell.applies for cell in cells):
            about = settings_of(run for one in found for run in one.runs(name))
            rows.append(Row(name=name, cells=tuple(cells), settings=about))
    title = f"c-way accuracy by training seed, mean of both directions ({where})"
    blocks = {
        _titled(one): [*(f"seed {seed}" for seed in own), "sd"]
        for one, own in zip(found, trained, strict=True)
    }
    return framed("complementary-2-seeds", title, rows, blocks=blocks)


def _contrasts(found: Sequence[Questions], where: str, resamples: int) -> Table:
    """The paper's claims as paired differences in accuracy (mean of both directions).

    Further rows test whether the weights help, or only the form of the loss.
    """
    entry = reference()["complementary-2"]
    published = entry["rows"]
    pairs = {f"{first} − {second}": (first, second) for first, second in entry["contrasts"]}

    def figure(name: str, one: Questions) -> Figure:
        first, second = pairs[name]
        printed = None
        if _as_published(one) and {first, second} <= published.keys():
            means = [float(np.mean(published[system].get(one.data, np.nan))) for system in (first, second)]
            printed = None if np.isnan(means).any() else means[0] - means[1]
        both = _accuracy(one, first, 2), _accuracy(one, second, 2)
        apart = uneven(one.runs(first), one.runs(second))
        return difference(*both, printed, applies=True, apart=apart)

    rows: dict[str, list[Made]] = {
        name: [(figure(name, one), [*one.runs(first), *one.runs(second)]) for one in found]
        for name, (first, second) in pairs.items()
        if any(one.runs(first) and one.runs(second) for one in found)
    }
    return compared(
        "complementary-2-differences",
        f"Differences in c-way accuracy, points, mean of both directions ({where})",
        [("", _titled(one)) for one in found],
        rows,
        size=_size(found),
        resamples=resamples,
        remarks={},
        apart={
            name: joined(uneven(one.runs(first), one.runs(second)) for one in found)
            for name, (first, second) in pairs.items()
        },
    )


def _ablation(one: Questions, where: str, resamples: int) -> Table:
    """Rows of Table 3 and all other variants of both measures, compared with uniform weights of equal sum."""
    entry = reference()["complementary-3"]
    measures = tuple(reference()["measures"].values())
    shown: dict[str, tuple[str, str]] = {row: tuple(found["runs"]) for row, found in entry["rows"].items()}
    named = {name for runs in shown.values() for name in runs}
    for name in one.systems:
        measure, _, tail = name.partition(" ")
        if measure in measures and tail and name not in named:
            shown.setdefault(tail, (f"{measures[0]} {tail}", f"{measures[1]} {tail}"))

    def figure(row: str, place: int, direction: int) -> Figure:
        own, system = entry["rows"].get(row, {}), shown[row][place]
        printed = own if one.data == entry["data"] else {}
        paper = printed.get(measures[place].lower(), (None, None))[direction]
        return _accuracy(one, system, direction, paper, applies=bool(own) or system in one.systems)

    return compared(
        "complementary-3",
        f"{entry['title']} ({_titled(one)}, {where})",
        [(measure, way) for measure in measures for way in DIRECTIONS],
        {
            row: [
                (figure(row, place, way), one.runs(systems[place])) for place in range(2) for way in range(2)
            ]
            for row, systems in shown.items()
        },
        size=_size([one]),
        resamples=resamples,
        control=entry["control"],
    )


def _mean_of(statistics: Sequence[Statistic | None]) -> Statistic | None:
    """Mean of statistics; None if one is missing, because a mean of fewer is not comparable."""
    there = [one for one in statistics if one is not None]
    if not there or len(there) < len(statistics):
        return None
    return lambda weights: np.asarray(np.mean([one(weights) for one in there], axis=0), dtype=np.float64)


def _size(found: Sequence[Questions]) -> tuple[int, int]:
    """Numbers of pairs and groups of all data sets, each counted once."""
    once = {one.start: one for one in found}.values()
    return sum(len(one.owner) for one in once), sum(one.groups for one in once)


def _others(found: Sequence[Questions], published: Mapping[str, Any]) -> list[str]:
    """Systems in neither a published row nor a row of the ablation, in order of appearance."""
    ablation = {name for row in reference()["complementary-3"]["rows"].values() for name in row["runs"]}
    names = dict.fromkeys(name for one in found for name in one.systems)
    return [name for name in names if name not in {*published, *ablation} and not _variant(name)]


def _variant(name: str) -> bool:
    """Whether a system is a variant shown in the ablation; presets count as separate systems."""
    measure, _, tail = name.partition(" ")
    return measure in reference()["measures"].values() and bool(tail) and not tail.startswith("[")


def _ablated(one: Questions) -> bool:
    """Whether any row that is only in Table 3 was measured."""
    alone = ("random α", reference()["complementary-2"]["equal"])
    return any(name in alone or _variant(name) for name in one.systems)


def _rank_tables(results: Sequence[Result], answered: Sequence[ChoiceResult], resamples: int) -> list[Table]:
    """Tables of ranks among all pictures, for runs that also answered c-way questions."""
    entry = reference()["complementary-2"]
    shown = [one.about.identity for one in answered]
    where: dict[str, list[Result]] = {}
    for result in results:
        if result.about.identity in shown and result.full is not None:
            where.setdefault(f"{result.about.data}, {result.about.split} split", []).append(result)
    tables = []
    for title, own in sorted(where.items()):
        cohort = Cohort.of(title, own, lambda result: result.groups)
        size = next(result.full.pictures for result in own if result.full is not None)

        names = dict.fromkeys([*(one for one in entry["rows"] if cohort.runs(one)), *cohort.systems])
        pools = {name: pools_of(cohort.runs(name), "plain", full=True) for name in names}
        tables.append(
            compared(
                "complementary-2-ranks",
                f"Text to picture, all {size} pictures ({title})",
                [("", metric) for metric in entry["ranks"]],
                {
                    name: [(cohort.ranked(one, own), cohort.runs(name)) for one in entry["ranks"]]
                    for name, own in pools.items()
                },
                size=cohort.size,
                resamples=resamples,
                control=entry["control"],
            )
        )
    return tables


# --- Steps of stories: VRSS and GSDA.

_PICTURES: Mapping[str, Pictures] = {"true pictures": "true", "found pictures": "found"}
_RANKS: Mapping[str, Callable[[FoundPictures], Sequence[float] | None]] = {
    "R": lambda found: found.own,
    "StR": lambda found: found.story,
    "VSR noun": lambda found: found.saliency.get("noun"),
    "VSR sequence": lambda found: found.saliency.get("sequence"),
}
_VALUES: Mapping[str, Callable[[FoundPictures], Sequence[float | None]]] = {
    "MedR": lambda found: found.own,
    "VFS": lambda found: found.similarity,
    "coherence": lambda found: found.coherence,
}


def _values(measure: str, run: SequenceResult, decoding: Decoding) -> Values | None:
    """(N,) values of the steps, NaN for steps that do not count; None if not measured."""
    found = run.found.get(decoding)
    if found is None:
        return None
    name, _, k = measure.partition("@")
    if name in _RANKS:
        ranks = _RANKS[name](found)
        return None if ranks is None else np.array(np.asarray(ranks) <= int(k), dtype=np.float64)
    values = _VALUES[name](found) if name in _VALUES else ()
    return np.array(values, dtype=np.float64) if values else None


@dataclass(frozen=True)
class _StoryColumn:
    """One column of a table of stories: heading, measure, format, and whether the paper has it."""

    block: str
    name: str
    measure: str
    kind: Kind
    printed: bool = True
    ordered: bool = True


def _steps(name: str) -> list[_StoryColumn]:
    """Columns of a table of stories, from its entry."""
    found = []
    for block in reference()[name]["blocks"]:
        kinds = {"MedR": "rank", "VFS": "precision", "coherence": "precision"}
        for heading in block["columns"]:
            measure = heading.replace("@", f" {block['of']}@") if "of" in block else heading
            kind = cast("Kind", kinds.get(heading, reference()[name].get("percent", "percent")))
            found.append(
                _StoryColumn(
                    block["title"],
                    heading,
                    measure,
                    kind,
                    block.get("printed", True),
                    block.get("ordered", True),
                )
            )
    return found


def _stories(name: str, results: Sequence[ResultFile], data: str | None, resamples: int) -> list[Table]:
    """Two tables (means and seeds) per data set, split and decoding; for gsda-1 one of captions too."""
    chosen = [r for r in results if isinstance(r, SequenceResult) and data in (None, r.about.data)]
    tables: list[Table] = []
    for one in sorted({r.about.data for r in chosen}):
        for split in SPLITS:
            own = [r for r in chosen if (r.about.data, r.about.split) == (one, split)]
            if own:
                tables += _of_one_set(name, own, f"{one}, {split} split", resamples)
    if tables:
        return tables
    nobody: Cohort[SequenceResult] = Cohort({}, np.zeros(0, np.int64), 0)
    return [_story_table(name, "not measured", nobody, "steps", resamples)]


def _of_one_set(name: str, results: Sequence[SequenceResult], where: str, resamples: int) -> Iterator[Table]:
    by_seed = sorted(results, key=lambda one: one.about.seed)
    cohort = Cohort.of(f"{name} ({where})", by_seed, lambda result: result.stories, "steps")
    first, usual = results[0], reference()["judge"]
    for result in results:
        if result.features != first.features:
            raise DataError(
                f"{name} ({where}): {result.about.system} was measured with features {result.features!r} and"
                f" {first.about.system} with {first.features!r}; measure both with one backbone"
            )
        if _judge(result) != _judge(first):
            raise DataError(
                f"{name} ({where}): VSR of {result.about.system} is judged by {_judge(result) or usual}, that"
                f" of {first.about.system} by {_judge(first) or usual}; measure both with one --judge"
            )
    for decoding in reference()["decodings"]:
        yield _story_table(name, where, cohort, decoding, resamples)
        if any(len(runs) > 1 for runs in cohort.systems.values()):
            yield _story_seeds(name, where, cohort, decoding)
    generated = {
        one: own
        for one, runs in cohort.systems.items()
        if len(own := [run.captions for run in runs if run.captions]) == len(runs)
    }
    if name == "gsda-1" and generated:
        yield _caption_table(where, cohort, generated, resamples)


def _judge(result: SequenceResult) -> str:
    """Picture classifier used for VSR; "" if not measured, or for the linear one described in the notes."""
    usual: str = reference()["judge"]
    return "" if result.judge == usual else result.judge


def _control(name: str, systems: Iterable[str]) -> str:
    """The row that others are compared with: the paper's system, or its only other preset."""
    control, every = str(reference()[name]["control"]), list(systems)
    presets = [one for one in every if one.startswith(f"{control} [")]
    return presets[0] if control not in every and len(presets) == 1 else control


def _story_table(
    name: str, where: str, cohort: Cohort[SequenceResult], decoding: Decoding, resamples: int
) -> Table:
    """All systems, averaged over seeds with intervals by story, compared with the control."""
    entry, control = reference()[name], _control(name, cohort.systems)
    rows = []
    for one in entry["rows"]:  # the paper's rows, each followed by its other presets; then all others
        rows += [one, *(system for system in cohort.systems if system.startswith(f"{one} ["))]
    rows += [one for one in cohort.systems if one not in rows]

    def figure(system: str, step: _StoryColumn) -> Figure:
        printed = entry["rows"].get(system, {}).get(step.name) if step.printed else None
        if printed is not None and step.kind.endswith("percent"):
            printed /= 100
        runs = cohort.runs(system)
        found = [_values(step.measure, run, decoding) for run in runs]
        there = [values for values in found if values is not None]
        # a mean over fewer seeds is not comparable
        whole, foreign = bool(there) and len(there) == len(found), step.name in entry.get("foreign", ())
        applies = (whole or not runs) and not foreign
        if step.kind == "rank":
            pools = [(np.arange(len(cohort.owner)), values) for values in there] if whole else []
            return cohort.ranked("MedR", pools, printed, applies=applies)
        statistic = average(np.mean(there, axis=0), cohort.owner, cohort.groups) if whole else None
        shown = printed if applies or foreign else None
        return Figure(step.kind, statistic, shown, applies=applies, comparable=step.ordered)

    results = [run for runs in cohort.systems.values() for run in runs]
    return compared(
        name,
        f"{entry['title']} ({where}, {reference()['decodings'][decoding]})",
        [(one.block, one.name) for one in _steps(name)],
        {row: [(figure(row, one), cohort.runs(row)) for one in _steps(name)] for row in rows},
        size=cohort.size,
        resamples=resamples,
        control=control,
        called=control,
        above=_story_notes(name, results, decoding),
    )


def _story_seeds(name: str, where: str, cohort: Cohort[SequenceResult], decoding: Decoding) -> Table:
    """Each run separately, and the deviation between the seeds of a system."""
    rows, steps = list[Row](), _steps(name)

    def add(title: str, values: Iterable[float | None], runs: Sequence[SequenceResult]) -> None:
        both = zip(values, steps, strict=True)
        cells = (Cell(value=value, kind=step.kind, applies=value is not None) for value, step in both)
        rows.append(Row(name=title, cells=tuple(cells), settings=settings_of(runs)))

    def single(step: _StoryColumn, run: SequenceResult) -> float | None:
        values = _values(step.measure, run, decoding)
        if values is None or np.isnan(values).all():
            return None
        return float((np.nanmedian if step.kind == "rank" else np.nanmean)(values))

    for system, runs in cohort.systems.items():
        found = [[single(step, run) for step in steps] for run in runs]
        for run, values in zip(runs, found, strict=True):
            add(f"{system}, seed {run.about.seed}", values, [run])
        if len(runs) > 1:
            columns = zip(*found, strict=True)
            spread = (None if None in own else float(np.std(own, ddof=1)) for own in columns)
            add(f"{system}, deviation", spread, runs)
    blocks = gathered((step.block, step.name) for step in steps)
    title = f"Single runs ({where}, {reference()['decodings'][decoding]})"
    return framed(f"{name}-seeds", title, rows, blocks=blocks)


def _story_notes(name: str, results: Sequence[SequenceResult], decoding: Decoding) -> list[str]:
    """Notes on sizes, random baselines, features and decoding."""
    found, notes = list[str](), reference()["notes"]
    for first in results[:1]:
        found.append(
            f"{counted(len(first.ids), 'step')} of {counted(len(set(first.stories)), 'story')},"
            f" {counted(first.pictures, 'distinct picture')}."
        )
        if name == "vrss-1":
            found += [f"VSR: judged by {_judge(first)} instead of the linear model."] if _judge(first) else []
            cuts = "/".join(str(k) for k in CUTS)
            for label, level in first.levels.items():
                both = (level.random, level.gold)
                random, gold = (", ".join(f"{100 * value:.1f}" for value in some) for some in both)
                title = "nouns" if label == "noun" else "stories"
                words = f"{random} with random pictures, {gold} with the right ones"
                found.append(f"VSR@{cuts} ({title}): {words}.")
            if first.random_similarity is not None:
                found.append(f"VFS: {first.random_similarity:.2f} with random pictures.")
        else:  # all results are of one gallery and its features
            alike = [one.gold_coherence for one in results if one.gold_coherence is not None]
            found += [f"Coherence of the right pictures: {one:.2f}." for one in alike[:1]]
        if first.features:
            found.append(f"Picture features: {first.features}.")
    return [*found, *([notes[decoding]] if decoding in notes else [])]


def _caption_table(
    where: str, cohort: Cohort[SequenceResult], generated: Mapping[str, Sequence[Captions]], resamples: int
) -> Table:
    """Captions: one row per system whose runs all have a captioner, averaged over seeds."""
    control, notes = _control("gsda-1", generated), reference()["notes"]
    # perplexities are comparable only for equal tokens
    every = [one for some in generated.values() for one in some]
    first = every[0]
    alike = all((one.tokens, one.unknown) == (first.tokens, first.unknown) for one in every)

    def figure(system: str, kind: Pictures) -> Figure:
        return Figure("rank", _perplexity(generated[system], kind, cohort), higher_is_better=False)

    def score(system: str, name: str) -> Cell:
        found = [one.scores for one in generated[system] if one.scores is not None]
        if not found or len(found) < len(generated[system]):
            return Cell(applies=False)
        return Cell(value=float(np.mean([{"BLEU-4": one.bleu, "chrF": one.chrf}[name] for one in found])))

    scores = ("BLEU-4", "chrF")
    columns = [("perplexity", title) for title in _PICTURES]
    rows: dict[str, list[Made]] = {
        name: [
            *((figure(name, kind), cohort.runs(name)) for kind in _PICTURES.values()),
            *((score(name, one), cohort.runs(name)) for one in scores),
        ]
        for name in generated
    }
    share = 100 * sum(first.unknown) / sum(first.tokens)
    return compared(
        "gsda-1-captions",
        f"Stories generated from pictures ({where})",
        [*columns, *(("generated from true pictures", one) for one in scores)],
        rows,
        size=cohort.size,
        resamples=resamples,
        control=control if alike else "",
        called=control,
        above=[
            notes["perplexity"].format(sum(first.tokens), share),
            notes["scores"],
            *([] if alike else [notes["words"]]),
        ],
    )


def _perplexity(
    generated: Sequence[Captions], pictures: Pictures, cohort: Cohort[SequenceResult]
) -> Statistic:
    """Statistic: perplexity per token, averaged over seeds."""
    owner, groups = cohort.owner, cohort.groups
    nats = np.stack([np.bincount(owner, one.nats[pictures], groups) for one in generated], axis=1)
    tokens = np.stack([np.bincount(owner, one.tokens, groups) for one in generated], axis=1)

    def perplexity(weights: Weights) -> Values:
        drawn = weights.astype(np.float64)
        found: Values = np.exp((drawn @ nats) / (drawn @ tokens)).mean(axis=1)
        return found

    return perplexity


Form = Callable[[str, Sequence[ResultFile], "str | None", int], list[Table]]
_FORMS: Mapping[str, Form] = {
    "ranks": _of_texts,
    "per relation": _of_texts,
    "precision": _of_texts,
    "own ranks": _own_model,
    "choices": _choices,
    "ablation": _choices,
    "steps": lambda *given: list(_stories(*given)),
}
_READ: Mapping[str, Sequence[type[ResultFile]]] = {
    "choices": (ChoiceResult, Result),
    "ablation": (ChoiceResult,),
    "steps": (SequenceResult,),
}
"""Form of a table → kinds of results that it needs, if not ranks."""
