"""The result tables of complementary samples: c-way accuracy of all rivals, and the ablation of the weights.

Every system is compared with one control on the same questions, with one correction per table, and figures of
single seeds stand beside their mean. Nothing is trained or scored here; a cell without a result stays empty.
"""

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np

from limner.errors import ConfigError, DataError, unknown
from limner.evaluation.comparison import Figure, compare, rank_figure
from limner.evaluation.results import About, ChoiceResult, PoolRanks, Result
from limner.evaluation.uncertainty import RESAMPLES, group_numbers
from limner.paper.cohorts import (
    DIRECTIONS,
    Cohort,
    cohorts,
    credits_of,
    figure,
    mean_of,
    minus,
    nothing,
    plain_name,
)
from limner.paper.table import Block, Cell, Row, Table

TABLES = ("complementary-2", "complementary-3")
SPLITS = ("grouped", "released", "random")
MEASURES = ("DIVERSITY", "DISCREPANCY")
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
DEFAULT_CHOICES = 5


@cache
def reference() -> Mapping[str, Any]:
    """Published figures of complementary samples, as in ``reference/complementary.toml``."""
    return tomllib.loads((files("limner.paper") / "reference" / "complementary.toml").read_text("utf-8"))


def default_choices(data: str) -> int:
    """Options per question that the paper uses on a data set, and 5, its most frequent number, on others."""
    known: Mapping[str, Any] = reference()["sets"]
    return int(known[data]["choices"]) if data in known else DEFAULT_CHOICES


def build(
    name: str, results: Sequence[ChoiceResult], *, data: str | None = None, resamples: int = RESAMPLES
) -> list[Table]:
    """One published table per split, with the tables that go with it.

    ``complementary-2``: accuracies of all systems on all data sets, the same by seed, and the contrasts that
    the paper claims. ``complementary-3``: the ablation, per data set and c.

    Args:
        name: one of `TABLES`.
        results: as `choice_results.read_choice_results` gives them; validation is left aside.
        data: the only data set shown; None shows all that were measured.
        resamples: of every interval and comparison.
    Raises:
        ConfigError: no such table.
        DataError: runs on one data set answered different questions.
    """
    if name not in TABLES:
        raise ConfigError(unknown("table", name, TABLES))
    tables: list[Table] = []
    chosen = [r for r in results if r.about.part == "test" and data in (None, r.about.data)]
    for split in SPLITS:
        found = cohorts([r for r in chosen if r.about.split == split], tuple(reference()["sets"]))
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


def _accuracies(found: Sequence[Cohort], where: str, resamples: int) -> Table:
    """All systems on all data sets, both directions, and the average."""
    entry = reference()["complementary-2"]
    published, control = entry["rows"], entry["control"]
    whole = [(one.data, one.c) for one in found] == [
        (d, s["choices"]) for d, s in reference()["sets"].items()
    ]
    names = [*published, *_others(found, published)]
    figures: list[Figure] = []
    against: list[int | None] = []
    width = 2 * len(found) + 1
    for name in names:
        row = published.get(name, {})
        for number, one in enumerate(found):
            for direction in range(2):
                printed = row.get(one.data, (None, None))[direction] if _as_published(one) else None
                applies = bool(row) or name in one.systems
                figures.append(figure(one.statistic(name, direction), printed, applies=applies))
                compared = name != control and one.comparable
                against.append(width * names.index(control) + 2 * number + direction if compared else None)
        average = mean_of([one.statistic(name, 2) for one in found])
        applies = bool(row) or average is not None
        figures.append(figure(average, row.get("average") if whole else None, applies=applies))
        compared = name != control and all(one.comparable for one in found)
        against.append(width * names.index(control) + width - 1 if compared else None)
    cells, compared_count = _compared(figures, against, found, resamples)
    blocks = [Block(title=_title(one), columns=DIRECTIONS) for one in found]
    blocks.append(Block(title="all", columns=("mean",)))
    rest = [one for one in reference()["sets"] if all(c.data != one for c in found)]
    if rest:  # the paper's figures on data that were not measured
        columns = [f"{reference()['sets'][d]['title']} {reference()['sets'][d]['choices']}-way" for d in rest]
        blocks.append(Block(title="the paper's", columns=(*columns, "mean of its 8")))
    rows = []
    for place, name in enumerate(names):
        own = list(cells[place * width : (place + 1) * width])
        if rest:
            own += _papers(published.get(name, {}), rest)
        rows.append(Row(name=name, remark=_remark(found, name), cells=tuple(own)))
    return Table(
        name="complementary-2",
        title=f"{entry['title']} ({where})",
        corner="system",
        blocks=tuple(blocks),
        rows=tuple(rows),
        notes=(
            "I→T: the picture is given; T→I: the text is given. Chance: "
            + "; ".join(f"{_title(one)} {100 / one.c:.1f}" for one in found)
            + ". Options that tie for the best share the credit.",
            "Brackets: 95 % bootstrap interval by duplicate group of the mean over seeds. Parentheses: the"
            " paper's figure, of one training.",
            _marks_note(control, compared_count, resamples),
        ),
    )


def _seeds(found: Sequence[Cohort], where: str) -> Table:
    """Mean of both directions by training seed, and the deviation between seeds."""
    published = reference()["complementary-2"]["rows"]
    rows = []
    for name in (*published, *_others(found, published)):
        cells: list[Cell] = []
        for one in found:
            by_seed = {r.about.seed: float(credits_of(r, 2).mean()) for r in one.systems.get(name, ())}
            cells += [Cell(value=by_seed.get(seed), applies=seed in by_seed) for seed in one.seeds]
            there = len(by_seed) > 1
            cells.append(
                Cell(value=float(np.std(list(by_seed.values()), ddof=1)) if there else None, applies=there)
            )
        if any(cell.applies for cell in cells):
            rows.append(Row(name=name, cells=tuple(cells)))
    return Table(
        name="complementary-2",
        title=f"c-way accuracy by training seed, mean of both directions ({where})",
        corner="system",
        blocks=tuple(
            Block(title=_title(one), columns=(*(f"seed {seed}" for seed in one.seeds), "sd")) for one in found
        ),
        rows=tuple(rows),
        notes=("sd: sample standard deviation over the seeds. The paper repeats no training.",),
    )


def _contrasts(found: Sequence[Cohort], where: str, resamples: int) -> Table:
    """What the paper claims, as paired differences of the mean of both directions.

    Beside them what it leaves open: whether it is the weights that help, or the form of the loss they enter.
    """
    published = reference()["complementary-2"]["rows"]
    figures: list[Figure] = []
    names: list[str] = []
    for first, second in CONTRASTS:
        own = [minus(one.statistic(first, 2), one.statistic(second, 2)) for one in found]
        if all(one is None for one in own):
            continue
        names.append(f"{first} − {second}")
        for one, statistic in zip(found, own, strict=True):
            printed = None
            if _as_published(one) and EQUAL not in (first, second):
                printed = float(np.mean(published[first][one.data]) - np.mean(published[second][one.data]))
            figures.append(figure(statistic, printed))
    width = len(found)
    zero = len(figures)
    against = [zero if found[place % width].comparable else None for place in range(zero)]
    cells, compared = _compared([*figures, figure(nothing)], [*against, None], found, resamples)
    return Table(
        name="complementary-2",
        title=f"Differences in c-way accuracy, points, mean of both directions ({where})",
        corner="difference",
        blocks=(Block(title="", columns=tuple(_title(one) for one in found)),),
        rows=tuple(
            Row(name=name, cells=tuple(cells[place * width : (place + 1) * width]))
            for place, name in enumerate(names)
        ),
        notes=(
            "Brackets: 95 % paired bootstrap interval by duplicate group of the mean over seeds. Parentheses:"
            " the paper's.",
            _marks_note("no difference", compared, resamples),
        ),
    )


def _ablation(one: Cohort, where: str, resamples: int) -> Table:
    """Rows of Table 3 and every other variant of either measure, beside uniform weights of the same sum."""
    entry = reference()["complementary-3"]
    shown: dict[str, tuple[str, str]] = {row: tuple(found["runs"]) for row, found in entry["rows"].items()}
    named = {name for runs in shown.values() for name in runs}
    for name in one.systems:
        measure, _, tail = name.partition(" ")
        if measure in MEASURES and tail and name not in named:
            shown.setdefault(tail, (f"{MEASURES[0]} {tail}", f"{MEASURES[1]} {tail}"))
    as_published = _as_published(one) and one.data == entry["data"]
    control = list(shown).index(entry["control"]) * 4
    figures: list[Figure] = []
    against: list[int | None] = []
    for row, runs in shown.items():
        for number, (measure, name) in enumerate(zip(MEASURES, runs, strict=True)):
            for direction in range(2):
                printed = entry["rows"].get(row, {}).get(measure.lower(), (None, None))[direction]
                applies = row in entry["rows"] or name in one.systems
                figures.append(
                    figure(one.statistic(name, direction), printed if as_published else None, applies=applies)
                )
                compared = row != entry["control"] and one.comparable
                against.append(control + 2 * number + direction if compared else None)
    cells, count = _compared(figures, against, [one], resamples)
    return Table(
        name="complementary-3",
        title=f"{entry['title']} ({_title(one)}, {where})",
        corner="weights",
        blocks=tuple(Block(title=measure, columns=DIRECTIONS) for measure in MEASURES),
        rows=tuple(
            Row(name=row, remark=_remark([one], *shown[row]), cells=tuple(cells[4 * place : 4 * place + 4]))
            for place, row in enumerate(shown)
        ),
        notes=(
            "Γ = −1 and |α_X − α_Y| are the same runs, the paper's choice; Γ = 0 weighs all pairs λ/B."
            " Brackets: 95 % bootstrap interval by duplicate group of the mean over seeds. Parentheses:"
            f" the paper's figure ({reference()['sets'][entry['data']]['title']}).",
            _marks_note("Γ = 0", count, resamples),
        ),
    )


def _compared(
    figures: Sequence[Figure], against: Sequence[int | None], found: Sequence[Cohort], resamples: int
) -> tuple[list[Cell], int]:
    """Cells of figures over the groups of all data sets at once."""
    owners = {one.start: one.owner for one in found}
    groups = sum({one.start: one.groups for one in found}.values())
    every = np.concatenate(list(owners.values())) if owners else np.zeros(0, np.int64)
    return compare(figures, against, every, groups, resamples=resamples)


def _papers(row: Mapping[str, Any], sets: Sequence[str]) -> list[Cell]:
    """The paper's own figures, means of both directions; nothing where it has none."""
    values = [float(np.mean(row[name])) if name in row else None for name in sets]
    return [Cell(value=value, applies=value is not None) for value in (*values, row.get("average"))]


def _others(found: Sequence[Cohort], published: Mapping[str, Any]) -> list[str]:
    """Systems of no published row and no row of the ablation, by first appearance."""
    ablation = {name for row in reference()["complementary-3"]["rows"].values() for name in row["runs"]}
    names = dict.fromkeys(name for one in found for name in one.systems)
    return [name for name in names if name not in {*published, *ablation} and not _variant(name)]


def _variant(name: str) -> bool:
    """Whether a system is a variant of a measure that the ablation shows; a preset is a system of its own."""
    measure, _, tail = name.partition(" ")
    return measure in MEASURES and bool(tail) and not tail.startswith("[")


def _ablated(one: Cohort) -> bool:
    """Whether anything of Table 3 alone was measured."""
    single = {"random α", "Γ=0"}
    return any(name in single or _variant(name) for name in one.systems)


def _as_published(one: Cohort) -> bool:
    """Whether the paper has figures of this data set with as many options."""
    return one.data in reference()["sets"] and reference()["sets"][one.data]["choices"] == one.c


def _unmeasured(data: str) -> Cohort:
    """A published data set without results."""
    nobody = np.zeros(0, np.int64)
    return Cohort(data, default_choices(data), {}, np.zeros(0), nobody, 0)


def _title(one: Cohort) -> str:
    name = reference()["sets"].get(one.data, {}).get("title", one.data)
    return f"{name} {one.c}-way" + (f", {one.pairs} pairs" if one.pairs else "")


def _remark(found: Sequence[Cohort], *names: str) -> str:
    """Numbers of seeds, where there are several or they differ."""
    counts = sorted({len(one.systems[name]) for one in found for name in names if name in one.systems})
    if not counts or counts == [1]:
        return ""
    return f"{'–'.join(str(count) for count in dict.fromkeys((counts[0], counts[-1])))} seeds"


def _marks_note(control: str, compared: int, resamples: int) -> str:
    if not compared:
        return f"No marks: nothing to compare with {control}, or fewer than ten duplicate groups."
    return (
        f"* better, † worse than {control}: paired bootstrap of {resamples} resamples by duplicate group,"
        f" p < .05 after Holm's correction for {compared} comparisons."
    )


METRICS = ("MedR", "R@1", "R@5", "R@10")


def rank_tables(
    results: Sequence[Result],
    answered: Sequence[ChoiceResult],
    order: Sequence[str],
    control: str,
    *,
    resamples: int = RESAMPLES,
) -> list[Table]:
    """One table per data set and split, of the test results whose runs also answered c-way questions.

    Args:
        results: as `results.read_results` gives them.
        answered: whose runs are shown.
        order: systems that come first, where they were measured.
        control: what every other system is compared with.
        resamples: of every interval and comparison.
    Raises:
        DataError: two runs on one data set were evaluated on different pairs.
    """
    shown = {_run(one.about) for one in answered if one.about.part == "test"}
    where: dict[tuple[str, str], list[Result]] = {}
    for result in results:
        if _run(result.about) in shown and result.about.part == "test" and result.full is not None:
            where.setdefault((result.about.data, result.about.split), []).append(result)
    return [
        _table(f"{data}, {split} split", where[data, split], order, control, resamples)
        for data, split in sorted(where)
    ]


def _run(about: About) -> tuple[object, ...]:
    return about.system, about.preset, about.data, about.split, about.seed


def _table(
    where: str, results: Sequence[Result], order: Sequence[str], control: str, resamples: int
) -> Table:
    abouts = [result.about for result in results]
    systems: dict[str, list[Result]] = {}
    for result in results:
        if result.ids != results[0].ids:
            raise DataError(
                f"{where}: {result.about.system} and {results[0].about.system} were evaluated on different"
                " pairs; evaluate both on one split seed"
            )
        systems.setdefault(plain_name(result.about, abouts), []).append(result)
    owner, groups = group_numbers(results[0].groups)
    names = [*(name for name in order if name in systems), *(name for name in systems if name not in order)]
    figures: list[Figure] = []
    for name in names:
        pools = [
            (np.array(pool.queries, dtype=np.int64), np.array(pool.plain, dtype=np.float64))
            for pool in _full(systems[name])
        ]
        figures += [rank_figure(metric, pools, owner, groups) for metric in METRICS]
    width = len(METRICS)
    first = names.index(control) * width if control in names else None
    against = [
        None if first is None or place // width * width == first else first + place % width
        for place in range(len(figures))
    ]
    cells, compared = compare(figures, against, owner, groups, resamples=resamples)
    size = next(pool.pictures for pool in _full(results))
    return Table(
        name="complementary-2",
        title=f"Text to picture, all {size} pictures ({where})",
        corner="system",
        blocks=(Block(title="", columns=METRICS),),
        rows=tuple(
            Row(
                name=name,
                remark=f"{len(systems[name])} seeds" if len(systems[name]) > 1 else "",
                cells=tuple(cells[place * width : (place + 1) * width]),
            )
            for place, name in enumerate(names)
        ),
        notes=(
            "Brackets: 95 % bootstrap interval by duplicate group of the mean over seeds. The paper gives no"
            " ranks.",
            f"* better, † worse than {control}: paired bootstrap of {resamples} resamples by duplicate group,"
            f" p < .05 after Holm's correction for {compared} comparisons."
            if compared
            else f"No marks: nothing to compare with {control}, or fewer than ten duplicate groups.",
        ),
    )


def _full(results: Iterable[Result]) -> list[PoolRanks]:
    """Ranks against all pictures, where there are some."""
    return [result.full for result in results if result.full is not None]
