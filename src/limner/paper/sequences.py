"""The result tables of stories: recall, story recall and the looks of what was found, by story.

Every system is compared with the paper's own on the same steps, with one correction per table.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from limner.errors import ConfigError, DataError, unknown
from limner.evaluation.caption_scores import TextScores
from limner.evaluation.results import CUTS, Decoding, Found, Pictures, SequenceResult, Told
from limner.evaluation.uncertainty import RESAMPLES, Values, Weights
from limner.paper.comparison import (
    Cohort,
    Figure,
    Line,
    Statistic,
    average,
    compared,
    marks,
    rank_figure,
    seeds,
    versus,
)
from limner.paper.table import Block, Cell, Kind, Row, Table, reference


@dataclass(frozen=True)
class Column:
    """One measure of a table.

    Attributes:
        name: heading.
        published: key of the paper's figure, "" for none.
        values: what was found → (N,) of every step, NaN of steps that do not count, or None where it was not
            measured.
        kind: how it is written; of a rank the median is taken, and less is better.
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


_RECALL = tuple(_within("R", "own", k) for k in CUTS)
_STORY = _within("StR", "story", 1)
LAYOUTS: Mapping[str, Mapping[str, tuple[Column, ...]]] = {
    "vrss-1": {
        "retrieval": (*_RECALL, _STORY),
        "nouns": tuple(_within("VSR", "noun", k) for k in CUTS),
        "stories": tuple(_within("VSR", "sequence", k) for k in CUTS),
        "features": (
            Column("VFS", "VFS", lambda f: np.array(f.similarity) if f.similarity else None, "precision"),
        ),
    },
    "gsda-1": {
        "retrieval": (*_RECALL, Column("MedR", "MedR", lambda f: np.array(f.own), "rank"), _STORY),
        "features": (
            Column(
                "coherence",
                "",
                lambda f: np.array(f.coherence, dtype=np.float64) if f.coherence else None,
                "precision",
            ),
        ),
    },
}


def figure_of(
    column: Column,
    runs: Sequence[SequenceResult],
    decoding: Decoding,
    *,
    owner: NDArray[np.int64],
    groups: int,
    printed: float | None,
) -> Figure:
    """A column's figure of one system: the mean over its seeds.

    Args:
        column: which.
        runs: one per seed, on the same steps.
        decoding: how pictures were chosen.
        owner: (N,) number of every step's story.
        groups: of stories.
        printed: the paper's figure, per cent where the column is.
    """
    if printed is not None and column.kind == "percent":
        printed /= 100
    found = [_values(column, run, decoding) for run in runs]
    there = [values for values in found if values is not None]
    # a mean of fewer seeds is another figure
    whole = bool(there) and len(there) == len(found)
    applies = whole or not runs
    if column.kind == "rank":
        pools = [(np.arange(len(owner)), values) for values in there] if whole else []
        return rank_figure("MedR", pools, owner, groups, printed, applies=applies)
    statistic = average(np.mean(there, axis=0), owner, groups) if whole else None
    return Figure(column.kind, statistic, printed, applies=applies)


def _values(column: Column, run: SequenceResult, decoding: Decoding) -> Values | None:
    return column.values(run.found[decoding]) if decoding in run.found else None


_PICTURES: Mapping[Pictures, str] = {"true": "true pictures", "found": "found pictures"}
_SCORES: Mapping[str, Callable[[TextScores], float]] = {"BLEU-4": lambda s: s.bleu, "chrF": lambda s: s.chrf}


def caption_table(cohort: Cohort[SequenceResult], where: str, control: str, resamples: int) -> Table:
    """A row per system whose runs all tell stories, the mean over its seeds.

    Args:
        cohort: runs on the same steps.
        where: data set and split.
        control: system the others' perplexities are compared with.
        resamples: of every interval and comparison.
    """
    told = {}
    for name, runs in cohort.systems.items():
        own = [run.told for run in runs if run.told is not None]
        if len(own) == len(runs):
            told[name] = own
    # what is guessed must be the same for perplexities to compare
    every = [one for some in told.values() for one in some]
    alike = all((one.tokens, one.unknown) == (every[0].tokens, every[0].unknown) for one in every)
    figures = {
        name: [
            Figure("rank", _perplexity(some, kind, cohort.owner, cohort.groups), higher_is_better=False)
            for kind in _PICTURES
        ]
        for name, some in told.items()
    }
    lines = [
        Line(
            name,
            versus(own, figures[control]) if alike and control in figures and name != control else own,
            seeds(told[name]),
            _scores(told[name]),
        )
        for name, own in figures.items()
    ]
    rows, count = compared(lines, len(cohort.owner), cohort.groups, resamples)
    return Table(
        name="gsda-1-captions",
        title=f"Stories told back ({where})",
        corner="system",
        blocks=(
            Block(title="perplexity", columns=tuple(_PICTURES.values())),
            Block(title="told from true pictures", columns=tuple(_SCORES)),
        ),
        rows=rows,
        notes=(*_caption_notes(every, alike), marks(control, count, resamples, "story")),
    )


def _perplexity(told: Sequence[Told], pictures: Pictures, owner: NDArray[np.int64], groups: int) -> Statistic:
    """Mean over seeds; within one all tokens weigh alike."""
    nats = np.stack([np.bincount(owner, one.nats[pictures], groups) for one in told], axis=1)
    tokens = np.stack([np.bincount(owner, one.tokens, groups) for one in told], axis=1)

    def perplexity(weights: Weights) -> Values:
        drawn = weights.astype(np.float64)
        found: Values = np.exp((drawn @ nats) / (drawn @ tokens)).mean(axis=1)
        return found

    return perplexity


def _scores(told: Sequence[Told]) -> list[Cell]:
    found = [one.scores for one in told if one.scores is not None]
    if not found or len(found) < len(told):
        return [Cell(applies=False)] * len(_SCORES)
    return [Cell(value=float(np.mean([score(one) for one in found]))) for score in _SCORES.values()]


def _caption_notes(every: Sequence[Told], alike: bool) -> list[str]:
    first = every[0]
    notes = [
        "Perplexity of the true sentences, given the true pictures or those found first; ends of sentences"
        f" count, starts do not. {sum(first.tokens)} tokens,"
        f" {100 * sum(first.unknown) / sum(first.tokens):.1f} % of them unknown words, which are one class.",
        "BLEU-4 and chrF2 (per cent): the likeliest words at every step against the one true text.",
    ]
    if not alike:
        notes.append("The runs know different words or cut sentences elsewhere: perplexities do not compare.")
    return notes


TABLES = tuple(LAYOUTS)
SPLITS = ("grouped", "released", "random")
DECODINGS: Mapping[Decoding, str] = {
    "steps": "every step by itself",
    "distinct": "no first picture twice in a story",
}


def build(
    name: str, results: Sequence[SequenceResult], *, data: str | None = None, resamples: int = RESAMPLES
) -> list[Table]:
    """Per data set, split and decoding one table, and one of single seeds; gsda-1 adds one of captions.

    Args:
        name: one of `TABLES`.
        results: as `ResultFile.read_all` gives them; validation is left aside.
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
                tables += _of_one_set(name, own, f"{one}, {split} split", resamples)
    if tables:
        return tables
    nobody: Cohort[SequenceResult] = Cohort({}, np.zeros(0, np.int64), 0)
    return [_table(name, nobody, "not measured", "steps", resamples)]


def _of_one_set(name: str, results: Sequence[SequenceResult], where: str, resamples: int) -> list[Table]:
    by_seed = sorted(results, key=lambda one: one.about.seed)
    cohort = Cohort.of(f"{name} ({where})", by_seed, lambda result: result.stories, "steps")
    first = results[0]
    for result in results:
        if result.features != first.features:
            raise DataError(
                f"{name} ({where}): {result.about.system} was measured with features {result.features!r} and"
                f" {first.about.system} with {first.features!r}; measure both with one backbone"
            )
    tables = []
    for decoding in DECODINGS:
        tables.append(_table(name, cohort, where, decoding, resamples))
        if any(len(runs) > 1 for runs in cohort.systems.values()):
            tables.append(_seeds(name, cohort, where, decoding))
    told = [one for one, runs in cohort.systems.items() if all(run.told is not None for run in runs)]
    if name == "gsda-1" and told:
        tables.append(caption_table(cohort, where, _control(name, told), resamples))
    return tables


def _table(
    table: str, cohort: Cohort[SequenceResult], where: str, decoding: Decoding, resamples: int
) -> Table:
    """All systems, the mean over their seeds with its interval by story, against the control."""
    entry, systems = reference()[table], cohort.systems
    columns = [column for own in LAYOUTS[table].values() for column in own]
    published, control = entry["rows"], _control(table, systems)
    figures = {
        name: [
            figure_of(
                column,
                systems.get(name, ()),
                decoding,
                owner=cohort.owner,
                groups=cohort.groups,
                printed=published.get(name, {}).get(column.published),
            )
            for column in columns
        ]
        for name in _rows(published, systems)
    }
    lines = [
        Line(
            name,
            versus(own, figures[control]) if control in figures and name != control else own,
            seeds(systems.get(name, ())),
        )
        for name, own in figures.items()
    ]
    rows, count = compared(lines, len(cohort.owner), cohort.groups, resamples)
    results = [run for runs in systems.values() for run in runs]
    return Table(
        name=table,
        title=f"{entry['title']} ({where}, {DECODINGS[decoding]})",
        corner="system",
        blocks=_blocks(table),
        rows=rows,
        notes=(*_notes(table, results, decoding), marks(control, count, resamples, "story")),
    )


def _control(table: str, systems: Collection[str]) -> str:
    """The system others are compared with: the paper's own, or its only other preset if it was not run."""
    control: str = reference()[table]["control"]
    presets = [name for name in systems if name.startswith(f"{control} [")]
    return presets[0] if control not in systems and len(presets) == 1 else control


def _rows(published: Iterable[str], systems: Collection[str]) -> list[str]:
    """The paper's rows, each with its other presets below it, and then all else."""
    names = []
    for name in published:
        names += [name, *(one for one in systems if one.startswith(f"{name} ["))]
    return [*names, *(one for one in systems if one not in names)]


def _seeds(table: str, cohort: Cohort[SequenceResult], where: str, decoding: Decoding) -> Table:
    """Every run by itself, and the deviation between the seeds of a system."""
    columns = [column for own in LAYOUTS[table].values() for column in own]

    def row(name: str, values: Iterable[float | None]) -> Row:
        both = zip(values, columns, strict=True)
        cells = (Cell(value=value, kind=column.kind, applies=value is not None) for value, column in both)
        return Row(name=name, cells=tuple(cells))

    rows = []
    for name, runs in cohort.systems.items():
        found = []
        for run in runs:
            found.append([_single(column, run, decoding) for column in columns])
            rows.append(row(f"{name}, seed {run.about.seed}", found[-1]))
        if len(runs) > 1:
            spread = (
                None if None in values else float(np.std(values, ddof=1))
                for values in zip(*found, strict=True)
            )
            rows.append(row(f"{name}, deviation", spread))
    return Table(
        name=f"{table}-seeds",
        title=f"Single runs ({where}, {DECODINGS[decoding]})",
        corner="run",
        blocks=_blocks(table),
        rows=tuple(rows),
        notes=("Deviation: of the seeds, with n − 1.",),
    )


def _single(column: Column, run: SequenceResult, decoding: Decoding) -> float | None:
    """A column's figure of one run; None where it was not measured."""
    values = _values(column, run, decoding)
    if values is None or np.isnan(values).all():
        return None
    return float((np.nanmedian if column.kind == "rank" else np.nanmean)(values))


def _blocks(table: str) -> tuple[Block, ...]:
    return tuple(
        Block(title=title, columns=tuple(column.name for column in own))
        for title, own in LAYOUTS[table].items()
    )


def _notes(table: str, results: Sequence[SequenceResult], decoding: Decoding) -> tuple[str, ...]:
    """Sizes, chance, and what cells mean."""
    notes = []
    for first in results[:1]:
        groups = len(set(first.stories))
        notes.append(f"{len(first.ids)} steps of {groups} stories, {first.pictures} different pictures.")
        notes += _looks(first) if table == "vrss-1" else _coherence(results)
        if first.features:
            notes.append(f"What pictures look like is asked of {first.features}.")
    if decoding == "distinct":
        notes.append("A picture that an earlier step of the story puts first ranks behind all others.")
    if table == "vrss-1":
        notes.append(
            "VSR: a noun of the step's text (nouns) or its story (stories) is among the k labels that a"
            " linear model of the test pictures, five-fold, thinks likeliest for the first picture."
        )
    else:
        notes += [
            "Coherence: mean cosine of the features of pictures found for consecutive steps; a picture found"
            " twice in a row counts as 1, so more is not better beyond that of the right pictures.",
            'The paper\'s "Med r" cannot be a median rank: it rises with recall.',
        ]
    return (
        *notes,
        "Brackets: 95 % bootstrap interval by story of the mean over seeds. Parentheses: the paper's figure,"
        f" on its own {reference()[table]['data']}; for ordering only.",
    )


def _looks(first: SequenceResult) -> Iterator[str]:
    """VSR and VFS to compare with."""
    for name, level in first.levels.items():
        random, gold = (", ".join(f"{100 * v:.1f}" for v in some) for some in (level.random, level.gold))
        title = "nouns" if name == "noun" else "stories"
        cuts = "/".join(str(k) for k in CUTS)
        yield f"VSR@{cuts} ({title}): {random} with random pictures, {gold} with the right ones."
    if first.random_similarity is not None:
        yield f"VFS: {first.random_similarity:.2f} with random pictures."


def _coherence(results: Sequence[SequenceResult]) -> Iterator[str]:
    """That of the right pictures, from any result that has it: all are of one gallery and its features."""
    for one in results:
        if one.gold_coherence is not None:
            yield f"Coherence of the right pictures: {one.gold_coherence:.2f}."
            return
