"""The result tables of complementary samples: c-way accuracy of all systems, their ranks, and the ablation.

Several data sets share one draw of groups, each a part of it, so that their mean is a figure like others.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from limner.counts import counted
from limner.research.evaluation.choice import default_choices
from limner.research.evaluation.results import ChoiceResult, Result
from limner.research.evaluation.uncertainty import RESAMPLES, Values, group_numbers
from limner.research.paper.cmcm import pools_of
from limner.research.paper.cohort import Cohort, by_system, check_alike
from limner.research.paper.comparison import (
    FEWEST_GROUPS,
    METRICS,
    Figure,
    Line,
    Statistic,
    average,
    compared,
    difference,
    framed,
    joined,
    lines_of,
)
from limner.research.paper.conditions import settings_of, uneven
from limner.research.paper.table import Cell, Row, Table, reference

SPLITS = ("grouped", "released", "random")
MEASURES = ("DIVERSITY", "DISCREPANCY")
DIRECTIONS = ("I→T", "T→I")
EQUAL = "Γ=0"  # the weighted loss with all pairs weighing the same
CONTRASTS = (
    (EQUAL, "PVSE"),
    ("DISCREPANCY", EQUAL),
    ("DIVERSITY", EQUAL),
    ("COMBINED-VAL", EQUAL),
    ("COMBINED-STATS", EQUAL),
    ("DIVERSITY", "DISCREPANCY"),
    ("DIVERSITY", "HAL"),
    ("DISCREPANCY", "HAL"),
    ("COMBINED-VAL", "HAL"),
    ("COMBINED-STATS", "HAL"),
)


@dataclass(frozen=True)
class Questions(Cohort[ChoiceResult]):
    """All runs on one set of questions.

    Attributes:
        data: name of the data set.
        c: options per question.
        start: where its groups begin among those of all data sets.
    """

    data: str
    c: int
    start: int = 0

    @property
    def as_published(self) -> bool:
        """Whether the paper has figures of this data set with as many options."""
        return self.data in reference()["sets"] and default_choices(self.data) == self.c

    @property
    def title(self) -> str:
        """Data set, options and size."""
        name = reference()["sets"].get(self.data, {}).get("title", self.data)
        return f"{name} {self.c}-way" + (f", {counted(len(self.owner), 'pair')}" if len(self.owner) else "")

    def credits(self, system: str, direction: int) -> Values | None:
        """(N,) credit of a system, mean over its seeds; None where it was not measured.

        Args:
            system: its name.
            direction: place in `DIRECTIONS`, or 2 for the mean of both.
        """
        runs = self.runs(system)
        if not runs:
            return None
        return np.asarray(np.mean([credits_of(run, direction) for run in runs], axis=0), dtype=np.float64)

    def accuracy(
        self, system: str, direction: int, paper: float | None = None, *, applies: bool = True
    ) -> Figure:
        """Accuracy of a system, see `credits`; the paper's is of its own number of options."""
        values = self.credits(system, direction)
        return Figure(
            "percent",
            None if values is None else average(values, self.owner, self.groups, self.start),
            paper if self.as_published else None,
            applies=applies,
            comparable=self.groups >= FEWEST_GROUPS,
        )


def credits_of(run: ChoiceResult, direction: int) -> Values:
    """(N,) credit of one run with the picture given (0), with the text given (1), or their mean (2)."""
    both = (np.array(run.picture_to_text), np.array(run.text_to_picture))
    return both[direction] if direction < 2 else (both[0] + both[1]) / 2


def questions_of(results: Sequence[ChoiceResult], first: Sequence[str] = ()) -> list[Questions]:
    """Sort results of one split by data set and c.

    Args:
        results: of one split and part.
        first: data sets that come before the others, which follow by name.
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
            found.append(Questions(by_system(same), owner, groups, data, c, start))
        start += groups
    return found


def build(
    name: str, results: Sequence[ChoiceResult], *, data: str | None = None, resamples: int = RESAMPLES
) -> list[Table]:
    """One published table per split, with the tables that go with it.

    ``complementary-2``: accuracies of all systems on all data sets, the same by seed, and the contrasts that
    the paper claims. ``complementary-3``: the ablation, per data set and c.

    Args:
        name: complementary-2 or complementary-3.
        results: as `ResultFile.read_all` gives them; validation is left aside.
        data: the only data set shown; None shows all that were measured.
        resamples: of every interval and comparison.
    Raises:
        DataError: runs on one data set answered different questions.
    """
    tables: list[Table] = []
    chosen = [r for r in results if r.about.part == "test" and data in (None, r.about.data)]
    for split in SPLITS:
        found = questions_of([r for r in chosen if r.about.split == split], tuple(reference()["sets"]))
        where = f"{split} split"
        if name == "complementary-2" and found:
            tables += [_accuracies(found, where, resamples), _seeds(found, where)]
            contrasts = _contrasts(found, where, resamples)
            tables += [contrasts] if contrasts.rows else []
        elif name == "complementary-3":
            tables += [_ablation(replace(one, start=0), where, resamples) for one in found if _ablated(one)]
    if tables:
        return tables
    sets = list(reference()["sets"]) if data is None else [data]
    if name == "complementary-2":
        return [_accuracies([_unmeasured(one) for one in sets], "not measured", resamples)]
    return [_ablation(_unmeasured(data or reference()[name]["data"]), "not measured", resamples)]


def _accuracies(found: Sequence[Questions], where: str, resamples: int) -> Table:
    """All systems on all data sets, both directions, and the average."""
    entry, sets = reference()["complementary-2"], reference()["sets"]
    published, control = entry["rows"], entry["control"]
    whole = [(one.data, one.c) for one in found] == [(data, default_choices(data)) for data in sets]
    figures = {}
    for name in (*published, *_others(found, published)):
        row = published.get(name, {})
        figures[name] = [
            one.accuracy(
                name,
                direction,
                row.get(one.data, (None, None))[direction],
                applies=bool(row) or name in one.systems,
            )
            for one in found
            for direction in range(2)
        ]
        means = [one.accuracy(name, 2) for one in found]
        mean = _mean_of([one.statistic for one in means])
        figures[name].append(
            Figure(
                "percent",
                mean,
                row.get("average") if whole else None,
                applies=bool(row) or mean is not None,
                comparable=all(one.comparable for one in means),
            )
        )
    chance = "; ".join(f"{one.title} {100 / one.c:.1f}" for one in found)
    rest = [one for one in sets if all(c.data != one for c in found)]
    blocks: dict[str, Sequence[str]] = {one.title: DIRECTIONS for one in found} | {"all": ("mean",)}
    lines = lines_of(figures, control, lambda name: [one.runs(name) for one in found])
    if rest:  # the paper's figures on data that were not measured
        columns = [f"{sets[d]['title']} {default_choices(d)}-way" for d in rest]
        blocks["the paper's"] = (*columns, "mean of its 8")
        lines = [replace(line, more=_papers(published.get(line.name, {}), rest)) for line in lines]
    return compared(
        "complementary-2",
        f"{entry['title']} ({where})",
        lines,
        _size(found),
        resamples,
        blocks=blocks,
        notes=[
            f"I→T: the picture is given; T→I: the text is given. Chance: {chance}. Options that tie for the"
            " best share the credit."
        ],
    )


def _seeds(found: Sequence[Questions], where: str) -> Table:
    """Mean of both directions by training seed, and the deviation between seeds."""
    published = reference()["complementary-2"]["rows"]
    trained = [sorted({run.about.seed for runs in one.systems.values() for run in runs}) for one in found]
    rows = []
    for name in (*published, *_others(found, published)):
        cells: list[Cell] = []
        for one, own in zip(found, trained, strict=True):
            by_seed = {run.about.seed: float(credits_of(run, 2).mean()) for run in one.runs(name)}
            cells += [Cell(value=by_seed.get(seed), applies=seed in by_seed) for seed in own]
            spread = float(np.std(list(by_seed.values()), ddof=1)) if len(by_seed) > 1 else None
            cells.append(Cell(value=spread, applies=spread is not None))
        if any(cell.applies for cell in cells):
            about = settings_of(run for one in found for run in one.runs(name))
            rows.append(Row(name=name, cells=tuple(cells), settings=about))
    title = f"c-way accuracy by training seed, mean of both directions ({where})"
    blocks = {
        one.title: [*(f"seed {seed}" for seed in own), "sd"] for one, own in zip(found, trained, strict=True)
    }
    return framed("complementary-2-seeds", title, rows, blocks=blocks)


def _contrasts(found: Sequence[Questions], where: str, resamples: int) -> Table:
    """What the paper claims, as paired differences of the mean of both directions.

    Beside them what it leaves open: whether it is the weights that help, or the form of the loss they enter.
    """
    published = reference()["complementary-2"]["rows"]
    lines = []
    for first, second in CONTRASTS:
        figures, differences = [], []
        for one in found:
            apart = uneven(one.runs(first), one.runs(second))
            differences.append(apart)
            printed = None
            if one.as_published and EQUAL not in (first, second):
                printed = float(np.mean(published[first][one.data]) - np.mean(published[second][one.data]))
            both = one.accuracy(first, 2), one.accuracy(second, 2)
            figures.append(difference(*both, printed, applies=True, apart=apart))
        if any(figure.statistic for figure in figures):
            about = settings_of(run for one in found for name in (first, second) for run in one.runs(name))
            lines.append(Line(f"{first} − {second}", figures, settings=about, uneven=joined(differences)))
    return compared(
        "complementary-2-differences",
        f"Differences in c-way accuracy, points, mean of both directions ({where})",
        lines,
        _size(found),
        resamples,
        blocks={"": [one.title for one in found]},
    )


def _ablation(one: Questions, where: str, resamples: int) -> Table:
    """Rows of Table 3 and every other variant of either measure, beside uniform weights of the same sum."""
    entry = reference()["complementary-3"]
    shown: dict[str, tuple[str, str]] = {row: tuple(found["runs"]) for row, found in entry["rows"].items()}
    named = {name for runs in shown.values() for name in runs}
    for name in one.systems:
        measure, _, tail = name.partition(" ")
        if measure in MEASURES and tail and name not in named:
            shown.setdefault(tail, (f"{MEASURES[0]} {tail}", f"{MEASURES[1]} {tail}"))
    figures = {}
    for row, runs in shown.items():
        own = entry["rows"].get(row, {})
        printed = own if one.data == entry["data"] else {}
        figures[row] = [
            one.accuracy(
                name,
                direction,
                printed.get(measure.lower(), (None, None))[direction],
                applies=bool(own) or name in one.systems,
            )
            for measure, name in zip(MEASURES, runs, strict=True)
            for direction in range(2)
        ]
    return compared(
        "complementary-3",
        f"{entry['title']} ({one.title}, {where})",
        lines_of(figures, entry["control"], lambda row: [one.runs(name) for name in shown[row]]),
        _size([one]),
        resamples,
        blocks=dict.fromkeys(MEASURES, DIRECTIONS),
    )


def _mean_of(statistics: Sequence[Statistic | None]) -> Statistic | None:
    """Their mean; None where one is missing, because a mean of fewer is another figure."""
    there = [one for one in statistics if one is not None]
    if not there or len(there) < len(statistics):
        return None
    return lambda weights: np.asarray(np.mean([one(weights) for one in there], axis=0), dtype=np.float64)


def _size(found: Sequence[Questions]) -> tuple[int, int]:
    """Pairs and groups of all data sets, those of several numbers of options once."""
    once = {one.start: one for one in found}.values()
    return sum(len(one.owner) for one in once), sum(one.groups for one in once)


def _papers(row: Mapping[str, Any], sets: Sequence[str]) -> list[Cell]:
    """The paper's own figures, means of both directions; nothing where it has none."""
    values = [float(np.mean(row[name])) if name in row else None for name in sets]
    return [Cell(value=value, applies=value is not None) for value in (*values, row.get("average"))]


def _others(found: Sequence[Questions], published: Mapping[str, Any]) -> list[str]:
    """Systems of no published row and no row of the ablation, by first appearance."""
    ablation = {name for row in reference()["complementary-3"]["rows"].values() for name in row["runs"]}
    names = dict.fromkeys(name for one in found for name in one.systems)
    return [name for name in names if name not in {*published, *ablation} and not _variant(name)]


def _variant(name: str) -> bool:
    """Whether a system is a variant of a measure that the ablation shows; a preset is a system of its own."""
    measure, _, tail = name.partition(" ")
    return measure in MEASURES and bool(tail) and not tail.startswith("[")


def _ablated(one: Questions) -> bool:
    """Whether anything of Table 3 alone was measured."""
    return any(name in ("random α", EQUAL) or _variant(name) for name in one.systems)


def _unmeasured(data: str) -> Questions:
    """A published data set without results."""
    return Questions({}, np.zeros(0, np.int64), 0, data, default_choices(data))


def rank_tables(
    results: Sequence[Result], answered: Sequence[ChoiceResult], *, resamples: int = RESAMPLES
) -> list[Table]:
    """One table per data set and split, of the test results whose runs also answered c-way questions.

    Args:
        results: as `ResultFile.read_all` gives them.
        answered: whose runs are shown.
        resamples: of every interval and comparison.
    Raises:
        DataError: two runs on one data set were evaluated on different pairs.
    """
    shown = [one.about.identity for one in answered if one.about.part == "test"]
    where: dict[str, list[Result]] = {}
    for result in results:
        if result.about.identity in shown and result.full is not None:
            where.setdefault(f"{result.about.data}, {result.about.split} split", []).append(result)
    return [_ranks(name, own, resamples) for name, own in sorted(where.items())]


def _ranks(where: str, results: Sequence[Result], resamples: int) -> Table:
    entry = reference()["complementary-2"]
    cohort = Cohort.of(where, results, lambda result: result.groups)
    figures = {}
    for name in dict.fromkeys([*(one for one in entry["rows"] if cohort.runs(one)), *cohort.systems]):
        pools = pools_of(cohort.runs(name), "plain", full=True)
        figures[name] = [cohort.ranked(metric, pools) for metric in METRICS]
    size = next(result.full.pictures for result in results if result.full is not None)
    return compared(
        "complementary-2-ranks",
        f"Text to picture, all {size} pictures ({where})",
        lines_of(figures, entry["control"], lambda name: [cohort.runs(name)]),
        cohort.size,
        resamples,
        blocks={"": METRICS},
    )
