"""Result files: what one evaluated run found, query by query, so that tables can resample and compare.

A figure alone cannot be paired with another system's; ranks and probabilities can. Tables and figures read
these files and nothing else.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import ConfigDict, Field, ValidationError, model_validator

from limner.datasets.pairs import Pair
from limner.datasets.splits import duplicate_groups, text_id
from limner.errors import DataError, MissingError, ShapeError
from limner.evaluation.caption_scores import TextScores
from limner.evaluation.choice import answer, stored_choices
from limner.evaluation.pools import POOL_COUNT, POOL_SIZE, Pool, draw
from limner.evaluation.ranking import rank
from limner.files import write_text
from limner.records import Record

TOP = 5
Scores = NDArray[np.floating]
Refine = Callable[[Scores, NDArray[np.int64], NDArray[np.int64]], Scores]
"""(Q, P) plain scores of a pool, its (Q,) rows and (P,) columns → (Q, P) refined scores."""


class PoolRanks(Record):
    """Ranks in one pool.

    Attributes:
        seed: what drew the pool; None for the full set.
        pictures: in the pool.
        queries: rows of the result, in the order of the ranks.
        plain: 1-based ranks, ties counted half.
        refined: those after refinement; empty where there is none.
        gaps: plain score of the best picture minus that of the second; empty where the pool has one picture.
    """

    seed: int | None
    pictures: int = Field(ge=1)
    queries: tuple[int, ...]
    plain: tuple[float, ...]
    refined: tuple[float, ...] = ()
    gaps: tuple[float, ...] = ()

    @model_validator(mode="after")
    def _lengths(self) -> "PoolRanks":
        due = len(self.queries)
        if len(self.plain) != due or len(self.refined) not in (0, due) or len(self.gaps) not in (0, due):
            raise ValueError("as many ranks as queries are due")
        return self


class About(Record):
    """What a result is of; every result file says it.

    Attributes:
        system: row of the tables, such as ``CMCM_Story``.
        data: data set.
        split: grouped, released or random.
        part: val or test.
        seed: of training.
        preset: paper, release, sound, or "" where none applies.
        commit: of the code, "" where unknown.
        missing: pairs left out because of their picture.
        refinement: its settings, chosen on validation; empty where there is none.
        config: of the run, as resolved.
    """

    model_config = ConfigDict(ser_json_inf_nan="strings")

    system: str = Field(min_length=1)
    data: str
    split: Literal["grouped", "released", "random"]
    part: Literal["val", "test"] = "test"
    seed: int = 0
    preset: str = ""
    commit: str = ""
    missing: int = Field(default=0, ge=0)
    refinement: Mapping[str, float] = Field(default_factory=dict)
    config: Mapping[str, Any] = Field(default_factory=dict)

    @property
    def name(self) -> str:
        """``<data>-<split>-<part>``, as its files are called."""
        return f"{self.data}-{self.split}-{self.part}"

    @property
    def identity(self) -> dict[str, object]:
        """What no two runs that are compared may share, by name."""
        return {
            "system": self.system,
            "data": self.data,
            "split": self.split,
            "part": self.part,
            "preset": self.preset,
            "seed": self.seed,
        }


class ResultFile(Record):
    """What all result files share.

    Attributes:
        format: of the file.
        about: what it is of.
    """

    model_config = ConfigDict(ser_json_inf_nan="strings")
    FOLDER: ClassVar[str]
    """Below the folder of a run."""
    WHAT: ClassVar[str]
    MAKER: ClassVar[str]

    format: str
    about: About

    @property
    def identity(self) -> dict[str, object]:
        """What no two results that are compared may share, by name."""
        return self.about.identity

    def write(self, run: Path | str) -> Path:
        """Write ``<FOLDER>/<data>-<split>-<part>.json`` of a run folder, whole or not at all."""
        return self._write(Path(run) / self.FOLDER / f"{self.about.name}.json")

    def _write(self, target: Path) -> Path:
        target.parent.mkdir(parents=True, exist_ok=True)
        write_text(target, self.model_dump_json())
        return target

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read one file.

        Raises:
            MissingError: no such file.
            DataError: it is not one.
        """
        try:
            return cls.model_validate_json(path.read_bytes())
        except FileNotFoundError:
            raise MissingError(f"{path}: not there; {cls.MAKER} first") from None
        except OSError as error:
            raise DataError(f"{path}: cannot be read ({error}); expected {cls.WHAT}") from error
        except ValidationError as error:
            wrong = error.errors()[0]
            key = ".".join(str(part) for part in wrong["loc"]) or "the file"
            raise DataError(f"{path}: {key}: {wrong['msg']}; expected {cls.WHAT} of this version") from error

    @classmethod
    def read_part(cls, run: Path, part: Literal["val", "test"]) -> Self:
        """What was measured of one run on one part.

        Raises:
            DataError: it was not measured, or the file is damaged.
        """
        found = sorted((run / cls.FOLDER).glob(f"*-{part}.json"))
        if len(found) != 1:
            how = "" if part == "test" else f" --part {part}"
            raise DataError(
                f"{run}: {cls.WHAT} of its {part} part: {len(found)} found, expected one;"
                f" run 'limner measure {run}{how}' first"
            )
        return cls.read(found[0])

    @classmethod
    def read_all(cls, runs: Path | str, *, variants: bool = False) -> list[Self]:
        """All such files of the run folders below a folder, in the order of their paths.

        Args:
            runs: the folder.
            variants: accept runs that differ in their settings alone, as a curve over a setting needs.
        Raises:
            MissingError: no such folder.
            DataError: a file is none, or two are of the same system, data, split, part, preset, seed and c.
        """
        folder = Path(runs)
        if not folder.is_dir():
            raise MissingError(f"{folder}: not a folder; give the one that holds the runs")
        found: dict[Path, Self] = {}
        for path in sorted(folder.glob(f"**/{cls.FOLDER}/*.json")):
            result = cls.read(path)
            twin = next((other for other, one in found.items() if one.identity == result.identity), None)
            if twin and not variants:
                *names, last = result.identity
                raise DataError(
                    f"{path}: same {', '.join(names)} and {last} as {twin};"
                    " keep one of them below this folder"
                )
            found[path] = result
        return list(found.values())


class Result(ResultFile):
    """One evaluated run on one part of one split.

    Attributes:
        ids: (N,) pairs, in the order of all that follows.
        groups: (N,) duplicate groups, the units of the bootstrap.
        pairs: (N,) equal for rows with the same text and the same picture.
        labels: relation → (N,) 0 or 1.
        probabilities: relation → (N,) predicted for the pair itself; absent where not predicted.
        pools: ranks per pool, the full set among them; empty for a system that retrieves nothing.
        top: (N,) per row the `Pair.id` of the first row with each of the five best pictures of the full set.
    """

    FOLDER: ClassVar[str] = "results"
    WHAT: ClassVar[str] = "a result file"
    MAKER: ClassVar[str] = "evaluate the run"

    format: Literal["limner-result-1"] = "limner-result-1"
    about: About
    ids: tuple[str, ...]
    groups: tuple[str, ...]
    pairs: tuple[int, ...]
    labels: Mapping[str, tuple[int, ...]]
    probabilities: Mapping[str, tuple[float, ...]] = Field(default_factory=dict)
    pools: tuple[PoolRanks, ...] = ()
    top: tuple[tuple[str, ...], ...] = ()

    @model_validator(mode="after")
    def _lengths(self) -> "Result":
        rows = len(self.ids)
        counted = (("groups", self.groups), ("pairs", self.pairs))
        for what, values in (*counted, *self.labels.items(), *self.probabilities.items()):
            if len(values) != rows:
                raise ValueError(f"{what} has {len(values)} values for {rows} pairs")
        for pool in self.pools:
            if pool.queries and not 0 <= min(pool.queries) <= max(pool.queries) < rows:
                raise ValueError(f"a pool names a query outside 0…{rows - 1}")
        return self

    @property
    def full(self) -> PoolRanks | None:
        """Ranks against all pictures, or None."""
        return next((pool for pool in self.pools if pool.seed is None), None)

    @property
    def drawn(self) -> tuple[PoolRanks, ...]:
        """Ranks in the pools that were drawn."""
        return tuple(pool for pool in self.pools if pool.seed is not None)


def measure(
    about: About,
    pairs: Sequence[Pair],
    relations: Sequence[str],
    *,
    scores: Scores | None = None,
    refine: Refine | None = None,
    probabilities: Mapping[str, NDArray[np.floating]] | None = None,
    pool_size: int = POOL_SIZE,
    pool_count: int = POOL_COUNT,
) -> Result:
    """Rank every text's picture in the shared pools and in the full set, plain and refined.

    Probabilities are kept for every row; of a pair that is repeated only the first row is a query.

    Args:
        about: what is measured.
        pairs: (N,) all rows of the part, with groups filled in.
        relations: whose labels are kept.
        scores: (N, M) rows are texts, columns the different pictures in order of first appearance
            (by `Pair.image_id`); None for a system that retrieves nothing.
        refine: scores of a pool → refined scores; None where nothing refines.
        probabilities: relation → (N,) predicted for each pair.
        pool_size: pictures per pool; a set with fewer gets the full set alone.
        pool_count: pools drawn, seeds 0…count−1.
    Raises:
        ShapeError: the score table does not fit the pairs.
        DataError: a pair has no group or lacks a label.
    Source: docs/methods/evaluation.md §2; docs/methods/cmcm.md §4.2.
    """
    lost = next((pair for pair in pairs if any(name not in pair.labels for name in relations)), None)
    if lost is not None:
        raise DataError(f"{about.data}: pair {lost.id!r} lacks a label; split the set first")
    copies, queries, columns, full = _different(about, pairs, scores)
    pools: list[PoolRanks] = []
    top: list[tuple[str, ...]] = []
    if scores is not None:
        size = scores.shape[1]
        images = [pairs[row].image_id for row in queries]
        drawn = draw(images, "pools", size=pool_size, count=pool_count)[1] if size >= pool_size else []
        names = [pairs[queries[row]].id for row in np.unique(columns, return_index=True)[1]]
        order = np.argsort(-scores, axis=1, kind="stable")[:, :TOP]
        top = [tuple(names[column] for column in row) for row in order]
        pools = [_ranks(scores, refine, pool, queries, columns) for pool in (*drawn, full)]
    return Result(
        about=about,
        ids=tuple(pair.id for pair in pairs),
        groups=tuple(pair.group for pair in pairs),
        pairs=tuple(copies),
        labels={name: tuple(pair.labels[name] for pair in pairs) for name in relations},
        probabilities={
            name: tuple(float(value) for value in values) for name, values in (probabilities or {}).items()
        },
        pools=tuple(pools),
        top=tuple(top),
    )


def _different(
    about: About, pairs: Sequence[Pair], scores: Scores | None
) -> tuple[list[int], NDArray[np.int64], NDArray[np.int64], Pool]:
    """Different pairs of a part, to whose pictures the score table must fit.

    Returns:
        (N,) number of every row's pair, (Q,) first row of every pair, (Q,) column of its picture, and the
        pool of all pictures.
    """
    lost = next((pair.id for pair in pairs if not pair.group), None)
    if lost is not None or not pairs:
        raise DataError(f"{about.data}: pair {lost!r} has no group; split the set first")
    copies = duplicate_groups([[(text_id(pair.text), pair.image_id)] for pair in pairs])
    rows = np.unique(np.array(copies, np.int64), return_index=True)[1]
    columns, (full,) = draw([pairs[row].image_id for row in rows], "full")
    due = len(pairs), len(full.pictures)
    if scores is not None and scores.shape != due:
        raise ShapeError(
            f"{about.data}: scores have shape {scores.shape}, expected {due} (texts, different pictures)"
        )
    return copies, rows, columns, full


def _ranks(
    scores: Scores,
    refine: Refine | None,
    pool: Pool,
    queries: NDArray[np.int64],
    columns: NDArray[np.int64],
) -> PoolRanks:
    """Ranks of one pool; its relevant column is the one picture of each query."""
    rows = queries[pool.queries]
    table = scores[np.ix_(rows, pool.pictures)]
    right = np.searchsorted(pool.pictures, columns[pool.queries])[:, None].tolist()
    plain = rank(table, right).ranks()
    refined = rank(refine(table, rows, pool.pictures), right).ranks() if refine is not None else ()
    return PoolRanks(
        seed=pool.seed,
        pictures=len(pool.pictures),
        queries=tuple(int(row) for row in rows),
        plain=tuple(float(value) for value in plain),
        refined=tuple(float(value) for value in refined),
        gaps=tuple(float(value) for value in _gaps(table)),
    )


def _gaps(table: Scores) -> NDArray[np.float64]:
    """(Q,) best minus second best score of every query; (0,) for a pool of one picture."""
    if table.shape[1] < 2:
        return np.zeros(0)
    best = np.partition(table, -2, axis=1)[:, -2:].astype(np.float64)
    return best[:, 1] - best[:, 0]


class ChoiceResult(ResultFile):
    """One run's answers to one set of questions.

    Attributes:
        c: options per question; chance is 1/c.
        draw: seed of the distractors.
        choices: digest of the questions, see `Choices.digest`.
        ids: (N,) different pairs, in order.
        groups: (N,) duplicate groups, the units of the bootstrap.
        picture_to_text: (N,) credit where the picture was given: 1, 0, or a share under ties.
        text_to_picture: (N,) credit where the text was given.
    """

    FOLDER: ClassVar[str] = "choices"
    WHAT: ClassVar[str] = "a c-way result"
    MAKER: ClassVar[str] = "run 'limner measure' with --choices"

    format: Literal["limner-choice-result-1"] = "limner-choice-result-1"
    about: About
    c: int = Field(ge=2)
    draw: int = 0
    choices: str
    ids: tuple[str, ...] = Field(min_length=1)
    groups: tuple[str, ...]
    picture_to_text: tuple[float, ...]
    text_to_picture: tuple[float, ...]

    @model_validator(mode="after")
    def _lengths(self) -> "ChoiceResult":
        due = len(self.ids)
        for name in ("groups", "picture_to_text", "text_to_picture"):
            if len(getattr(self, name)) != due:
                raise ValueError(f"{name} has {len(getattr(self, name))} values for {due} pairs")
        if any(not 0 <= value <= 1 for value in (*self.picture_to_text, *self.text_to_picture)):
            raise ValueError("a credit is outside 0…1")
        return self

    @property
    def identity(self) -> dict[str, object]:
        """Runs may answer questions of several numbers of options."""
        return {**self.about.identity, "c": self.c}

    def write(self, run: Path | str) -> Path:
        """Write ``choices/<data>-<split>-<part>-<c>way.json`` of a run folder, whole or not at all."""
        return self._write(Path(run) / self.FOLDER / f"{self.about.name}-{self.c}way.json")

    @property
    def accuracy(self) -> tuple[float, float]:
        """Accuracy with the picture given and with the text given, fractions."""
        return float(np.mean(self.picture_to_text)), float(np.mean(self.text_to_picture))


def measure_choices(
    about: About,
    pairs: Sequence[Pair],
    scores: Scores,
    c: int,
    *,
    distractors: Path,
    seed: int = 0,
) -> ChoiceResult:
    """Answer c-way questions about the different pairs of a part.

    Args:
        about: what is measured.
        pairs: all rows of the part, with groups filled in; of a repeated pair the first row counts.
        scores: (rows, M) texts × different pictures in order of first appearance, as in `results.measure`.
        c: options per question.
        distractors: folder of stored questions that all runs share.
        seed: of the questions.
    Raises:
        ShapeError: the score table does not fit.
        DataError: a pair has no group, too few pairs, or the stored file is damaged.
    Source: docs/methods/evaluation.md §4.
    """
    _, rows, columns, _ = _different(about, pairs, scores)
    texts, images = [text_id(pairs[row].text) for row in rows], [pairs[row].image_id for row in rows]
    choices = stored_choices(distractors, about.name.replace("/", "-"), texts, images, c=c, seed=seed)
    answers = answer(lambda start, stop: scores[rows[start:stop]], scores.shape[1], columns, choices)
    return ChoiceResult(
        about=about,
        c=c,
        draw=seed,
        choices=choices.digest,
        ids=tuple(pairs[row].id for row in rows),
        groups=tuple(pairs[row].group for row in rows),
        picture_to_text=tuple(answers.picture_to_text.tolist()),
        text_to_picture=tuple(answers.text_to_picture.tolist()),
    )


CUTS = (1, 5, 10)
Decoding = Literal["steps", "distinct"]
Definition = Literal["noun", "sequence"]
Pictures = Literal["true", "found"]


class Found(Record):
    """What one way of choosing pictures found, step by step.

    Attributes:
        own: (N,) rank of the best picture of the step itself, ties counted half.
        story: (N,) rank of the best picture of its story.
        top: (N,) per step the `Pair.id` of the first row with each of the five best pictures.
        similarity: (N,) cosine between the features of the first picture and of the step's own one.
        saliency: definition → (N,) place of the step's own labels for the first picture, infinity where the
            step has none; VSR@k counts places of at most k.
        coherence: (N,) cosine between the features of the first picture and of that of the step before, None
            where a story begins.
    """

    model_config = ConfigDict(ser_json_inf_nan="strings")

    own: tuple[float, ...]
    story: tuple[float, ...]
    top: tuple[tuple[str, ...], ...]
    similarity: tuple[float, ...] = ()
    saliency: Mapping[Definition, tuple[float, ...]] = Field(default_factory=dict)
    coherence: tuple[float | None, ...] = ()


class Told(Record):
    """How well a run's captioner tells the stories, step by step.

    Attributes:
        tokens: (N,) of the step's true text, see `limner.evaluation.caption_scores.perplexity`.
        unknown: (N,) of them that the captioner's vocabulary lacks.
        nats: what the true text costs, (N,) from the true pictures and from the first found ones.
        scores: texts told from the true pictures, the likeliest word each time, against the true ones; None
            where the packages that compare texts are absent.
    """

    tokens: tuple[int, ...]
    unknown: tuple[int, ...]
    nats: Mapping[Pictures, tuple[float, ...]]
    scores: TextScores | None = None

    @model_validator(mode="after")
    def _fit(self) -> "Told":
        counts = (self.unknown, *self.nats.values())
        if set(self.nats) != {"true", "found"} or any(len(one) != len(self.tokens) for one in counts):
            raise ValueError("expected as many unknown words, and nats of both kinds, as tokens")
        if not all(t >= 2 and 0 <= u <= t for t, u in zip(self.tokens, self.unknown, strict=True)):
            raise ValueError("expected 2 tokens or more of a text, and unknown words among them")
        if not all(0 <= value < math.inf for some in self.nats.values() for value in some):
            raise ValueError("expected finite nats of at least 0")
        return self


class Level(Record):
    """VSR@k to compare with, for k of `CUTS`.

    Attributes:
        random: of a picture drawn at random, exactly.
        gold: of the step's own picture.
    """

    random: tuple[float, ...] = Field(min_length=len(CUTS), max_length=len(CUTS))
    gold: tuple[float, ...] = Field(min_length=len(CUTS), max_length=len(CUTS))


class SequenceResult(ResultFile):
    """One run on the stories of one part of one split.

    Attributes:
        ids: (N,) pair of every step: a step with several pictures has several right answers.
        stories: (N,) story of every step, the units of the bootstrap.
        pictures: different ones, all of them the gallery of every step.
        features: what similarity and saliency look at; "" where nothing was looked at.
        found: decoding → what it found: ``steps`` ranks every step by itself, ``distinct`` in the order of
            the steps without the first pictures of the steps before.
        levels: definition → what its VSR compares with.
        random_similarity: mean similarity of pictures drawn at random, exactly; None where none was measured.
        gold_coherence: mean coherence of the steps' own pictures; None where none was measured.
        told: of a run that tells stories back; None of others.
    """

    FOLDER: ClassVar[str] = "results/sequences"
    WHAT: ClassVar[str] = "a sequence result"
    MAKER: ClassVar[str] = "run 'limner measure' on a set of stories"

    format: Literal["limner-sequence-result-1"] = "limner-sequence-result-1"
    about: About
    ids: tuple[str, ...] = Field(min_length=1)
    stories: tuple[str, ...]
    pictures: int = Field(ge=1)
    features: str = ""
    found: Mapping[Decoding, Found] = Field(min_length=1)
    levels: Mapping[Definition, Level] = Field(default_factory=dict)
    random_similarity: float | None = Field(default=None, ge=-1.01, le=1.01)
    gold_coherence: float | None = Field(default=None, ge=-1.01, le=1.01)
    told: Told | None = None

    @model_validator(mode="after")
    def _fit(self) -> "SequenceResult":
        due = len(self.ids)
        if len(set(self.ids)) != due or len(self.stories) != due:
            raise ValueError(f"{due} ids, expected different ones and a story each")
        for name, one in self.found.items():
            for ranks in (one.own, one.story):
                if len(ranks) != due or not all(1 <= value <= self.pictures for value in ranks):
                    raise ValueError(f"{name}: expected {due} ranks in 1…{self.pictures}")
            if len(one.top) != due or not all(one.top):
                raise ValueError(f"{name}: expected {due} rows of found pictures")
            if len(one.similarity) not in (0, due) or not all(-1.01 <= c <= 1.01 for c in one.similarity):
                raise ValueError(f"{name}: expected {due} cosines, or none")
            if one.coherence and not _fit_stories(one.coherence, self.stories):
                raise ValueError(f"{name}: expected {due} cosines, none where a story begins")
            for places in one.saliency.values():
                if len(places) != due or not all(value >= 1 for value in places):
                    raise ValueError(f"{name}: expected {due} places of labels, of at least 1")
            if set(one.saliency) != set(self.levels):
                raise ValueError(f"{name}: saliency and levels name different definitions")
        shares = [share for level in self.levels.values() for share in (*level.random, *level.gold)]
        if not all(0 <= share <= 1 for share in shares):
            raise ValueError("a level is outside 0…1")
        if self.told is not None and len(self.told.tokens) != due:
            raise ValueError(f"told: expected {due} texts")
        return self


def _fit_stories(coherence: Sequence[float | None], stories: Sequence[str]) -> bool:
    """Whether there is a cosine for every step but the first of a story."""
    later = [False, *(one == other for one, other in pairwise(stories))]
    return len(coherence) == len(later) and all(
        (cosine is not None and -1.01 <= cosine <= 1.01) if due else cosine is None
        for cosine, due in zip(coherence, later, strict=True)
    )
