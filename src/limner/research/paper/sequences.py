"""The result tables of stories: recall, story recall and the looks of what was found, by story.

Every system is compared with the paper's own on the same steps, with one correction per table.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from limner.counts import counted
from limner.errors import DataError
from limner.research.evaluation.caption_scores import TextScores
from limner.research.evaluation.results import CUTS, Captions, Decoding, Found, Pictures, SequenceResult
from limner.research.evaluation.uncertainty import RESAMPLES, Values, Weights
from limner.research.paper.cohort import Cohort
from limner.research.paper.comparison import Figure, Statistic, average, compared, framed, lines_of
from limner.research.paper.conditions import settings_of
from limner.research.paper.table import Cell, Kind, Row, Table, reference


@dataclass(frozen=True)
class Column:
    """One measure of a table.

    Attributes:
        name: heading.
        published: key of the paper's figure, "" for none.
        values: what was found → (N,) of every step, NaN of steps that do not count, or None where it was not
            measured.
        kind: how it is written; of a rank the median is taken, and less is better.
        ordered: whether more is better, or less; where neither is, nothing is marked.
    """

    name: str
    published: str
    values: Callable[[Found], Values | None]
    kind: Kind = "percent"
    ordered: bool = True


def _within(
    name: str, k: int, ranks: Callable[[Found], Sequence[float] | None], *, printed: bool = True
) -> Column:
    def values(found: Found) -> Values | None:
        own = ranks(found)
        return None if own is None else np.array(np.asarray(own) <= k, dtype=np.float64)

    return Column(f"{name}@{k}", f"{name}@{k}" if printed else "", values)


def _cosine(
    name: str, printed: str, cosines: Callable[[Found], Sequence[float | None]], *, ordered: bool = True
) -> Column:
    def values(found: Found) -> Values | None:
        return np.array(cosines(found), dtype=np.float64) if cosines(found) else None

    return Column(name, printed, values, "precision", ordered)


_RECALL = tuple(_within("R", k, lambda found: found.own) for k in CUTS)
_STORY = _within("StR", 1, lambda found: found.story)
_MEDIAN = Column("MedR", "", lambda found: np.array(found.own), "rank")
_MED_R = Column("Med r", "Med r", lambda found: None)
"""GSDA's column of that name, which is no median rank: it rises with recall. Nothing of ours stands there."""
LAYOUTS: Mapping[str, Mapping[str, tuple[Column, ...]]] = {
    "vrss-1": {
        "retrieval": (*_RECALL, _STORY),
        "nouns": tuple(_within("VSR", k, lambda found: found.saliency.get("noun")) for k in CUTS),
        "stories": tuple(
            _within("VSR", k, lambda found: found.saliency.get("sequence"), printed=False) for k in CUTS
        ),
        "features": (_cosine("VFS", "VFS", lambda found: found.similarity),),
    },
    "gsda-1": {
        "retrieval": (*_RECALL, _MEDIAN, _MED_R, _STORY),
        "features": (_cosine("coherence", "", lambda found: found.coherence, ordered=False),),
    },
}
SPLITS = ("grouped", "released", "random")
DECODINGS: Mapping[Decoding, str] = {
    "steps": "every step by itself",
    "distinct": "no first picture twice in a story",
}
_PICTURES: Mapping[Pictures, str] = {"true": "true pictures", "found": "found pictures"}
_SCORES: Mapping[str, Callable[[TextScores], float]] = {"BLEU-4": lambda s: s.bleu, "chrF": lambda s: s.chrf}


@dataclass(frozen=True)
class Scene:
    """All results on one split of one data set, and the table to be made of them.

    Attributes:
        name: of the table.
        where: data set and split, in words.
        cohort: the results.
        resamples: of every interval and comparison.
    """

    name: str
    where: str
    cohort: Cohort[SequenceResult]
    resamples: int

    @property
    def columns(self) -> list[Column]:
        """Of all blocks."""
        return [column for own in LAYOUTS[self.name].values() for column in own]

    @property
    def blocks(self) -> dict[str, list[str]]:
        """Title → headings."""
        return {title: [column.name for column in own] for title, own in LAYOUTS[self.name].items()}

    def control(self, systems: Collection[str]) -> str:
        """What others are compared with: the paper's own system, or its only other preset if not run."""
        control: str = reference()[self.name]["control"]
        presets = [name for name in systems if name.startswith(f"{control} [")]
        return presets[0] if control not in systems and len(presets) == 1 else control


def figure_of(column: Column, scene: Scene, system: str, decoding: Decoding, printed: float | None) -> Figure:
    """A column's figure of one system: the mean over its seeds.

    Args:
        column: which.
        scene: of the runs, one per seed, on the same steps.
        system: whose.
        decoding: how pictures were chosen.
        printed: the paper's figure, per cent where the column is.
    """
    if printed is not None and column.kind == "percent":
        printed /= 100
    cohort, runs = scene.cohort, scene.cohort.runs(system)
    found = [_values(column, run, decoding) for run in runs]
    there = [values for values in found if values is not None]
    # a mean of fewer seeds is another figure
    whole = bool(there) and len(there) == len(found)
    applies = (whole or not runs) and column is not _MED_R
    if column.kind == "rank":
        pools = [(np.arange(len(cohort.owner)), values) for values in there] if whole else []
        return cohort.ranked("MedR", pools, printed, applies=applies)
    statistic = average(np.mean(there, axis=0), cohort.owner, cohort.groups) if whole else None
    shown = printed if applies or column is _MED_R else None
    return Figure(column.kind, statistic, shown, applies=applies, comparable=column.ordered)


def _values(column: Column, run: SequenceResult, decoding: Decoding) -> Values | None:
    return column.values(run.found[decoding]) if decoding in run.found else None


def caption_table(scene: Scene, generated: Mapping[str, Sequence[Captions]]) -> Table:
    """A row per system whose runs all generate stories, the mean over its seeds.

    Args:
        scene: runs on the same steps.
        generated: by system, what its runs generated.
    """
    cohort, control = scene.cohort, scene.control(generated)
    # what is guessed must be the same for perplexities to compare
    every = [one for some in generated.values() for one in some]
    alike = all((one.tokens, one.unknown) == (every[0].tokens, every[0].unknown) for one in every)
    figures = {
        name: [Figure("rank", _perplexity(some, kind, cohort), higher_is_better=False) for kind in _PICTURES]
        for name, some in generated.items()
    }
    lines = lines_of(figures, control if alike else "", lambda name: [cohort.runs(name)])
    return compared(
        "gsda-1-captions",
        f"Stories generated from pictures ({scene.where})",
        [replace(line, more=_scores(generated[line.name])) for line in lines],
        cohort.size,
        scene.resamples,
        blocks={"perplexity": list(_PICTURES.values()), "generated from true pictures": list(_SCORES)},
        notes=_caption_notes(every, alike),
        control=control,
    )


def _perplexity(
    generated: Sequence[Captions], pictures: Pictures, cohort: Cohort[SequenceResult]
) -> Statistic:
    """Mean over seeds; within one all tokens weigh alike."""
    owner, groups = cohort.owner, cohort.groups
    nats = np.stack([np.bincount(owner, one.nats[pictures], groups) for one in generated], axis=1)
    tokens = np.stack([np.bincount(owner, one.tokens, groups) for one in generated], axis=1)

    def perplexity(weights: Weights) -> Values:
        drawn = weights.astype(np.float64)
        found: Values = np.exp((drawn @ nats) / (drawn @ tokens)).mean(axis=1)
        return found

    return perplexity


def _scores(generated: Sequence[Captions]) -> list[Cell]:
    found = [one.scores for one in generated if one.scores is not None]
    if not found or len(found) < len(generated):
        return [Cell(applies=False)] * len(_SCORES)
    return [Cell(value=float(np.mean([score(one) for one in found]))) for score in _SCORES.values()]


def _caption_notes(every: Sequence[Captions], alike: bool) -> list[str]:
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


def build(
    name: str, results: Sequence[SequenceResult], *, data: str | None = None, resamples: int = RESAMPLES
) -> list[Table]:
    """Per data set, split and decoding one table, and one of single seeds; gsda-1 adds one of captions.

    Args:
        name: one of `LAYOUTS`.
        results: as `ResultFile.read_all` gives them; validation is left aside.
        data: the only data set shown; None shows all that were measured.
        resamples: of every interval and comparison.
    Raises:
        DataError: runs on one data set were measured on other steps or with other picture features.
    """
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
    return [_table(Scene(name, "not measured", nobody, resamples), "steps")]


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
    scene, tables = Scene(name, where, cohort, resamples), []
    for decoding in DECODINGS:
        tables.append(_table(scene, decoding))
        if any(len(runs) > 1 for runs in cohort.systems.values()):
            tables.append(_seeds(scene, decoding))
    captions = {one: [run.captions for run in runs if run.captions] for one, runs in cohort.systems.items()}
    generated = {one: own for one, own in captions.items() if len(own) == len(cohort.runs(one))}
    if name == "gsda-1" and generated:
        tables.append(caption_table(scene, generated))
    return tables


def _table(scene: Scene, decoding: Decoding) -> Table:
    """All systems, the mean over their seeds with its interval by story, against the control."""
    entry, cohort = reference()[scene.name], scene.cohort
    published, control = entry["rows"], scene.control(cohort.systems)
    figures = {
        name: [
            figure_of(column, scene, name, decoding, published.get(name, {}).get(column.published))
            for column in scene.columns
        ]
        for name in _rows(published, cohort.systems)
    }
    results = [run for runs in cohort.systems.values() for run in runs]
    return compared(
        scene.name,
        f"{entry['title']} ({scene.where}, {DECODINGS[decoding]})",
        lines_of(figures, control, lambda name: [cohort.runs(name)]),
        cohort.size,
        scene.resamples,
        blocks=scene.blocks,
        notes=_notes(scene.name, results, decoding),
        control=control,
    )


def _rows(published: Iterable[str], systems: Collection[str]) -> list[str]:
    """The paper's rows, each with its other presets below it, and then all else."""
    names = []
    for name in published:
        names += [name, *(one for one in systems if one.startswith(f"{name} ["))]
    return [*names, *(one for one in systems if one not in names)]


def _seeds(scene: Scene, decoding: Decoding) -> Table:
    """Every run by itself, and the deviation between the seeds of a system."""
    rows = []

    def add(name: str, values: Iterable[float | None], runs: Sequence[SequenceResult]) -> None:
        both = zip(values, scene.columns, strict=True)
        cells = (Cell(value=value, kind=column.kind, applies=value is not None) for value, column in both)
        rows.append(Row(name=name, cells=tuple(cells), settings=settings_of(runs)))

    for name, runs in scene.cohort.systems.items():
        found = [[_single(column, run, decoding) for column in scene.columns] for run in runs]
        for run, values in zip(runs, found, strict=True):
            add(f"{name}, seed {run.about.seed}", values, [run])
        if len(runs) > 1:
            columns = zip(*found, strict=True)
            spread = (None if None in own else float(np.std(own, ddof=1)) for own in columns)
            add(f"{name}, deviation", spread, runs)
    title = f"Single runs ({scene.where}, {DECODINGS[decoding]})"
    return framed(f"{scene.name}-seeds", title, rows, blocks=scene.blocks)


def _single(column: Column, run: SequenceResult, decoding: Decoding) -> float | None:
    """A column's figure of one run; None where it was not measured."""
    values = _values(column, run, decoding)
    if values is None or np.isnan(values).all():
        return None
    return float((np.nanmedian if column.kind == "rank" else np.nanmean)(values))


def _notes(table: str, results: Sequence[SequenceResult], decoding: Decoding) -> list[str]:
    """Sizes and chance."""
    notes = []
    for first in results[:1]:
        groups = len(set(first.stories))
        notes.append(
            f"{counted(len(first.ids), 'step')} of {counted(groups, 'story')},"
            f" {counted(first.pictures, 'different picture')}."
        )
        notes += _looks(first) if table == "vrss-1" else _coherence(results)
        if first.features:
            notes.append(f"What pictures look like is asked of {first.features}.")
    if decoding == "distinct":
        notes.append("A picture that an earlier step of the story puts first ranks behind all others.")
    return notes


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
