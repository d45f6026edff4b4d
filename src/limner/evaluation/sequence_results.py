"""Sequence results: for every step of every test story where its picture and its story's pictures stand.

A file of its own below the run's results, because steps, decodings and the looks of found pictures are no
part of a result that any system has. It measures nothing and makes no table.
"""

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Literal

from pydantic import ConfigDict, Field, model_validator

from limner.data.records import Record
from limner.evaluation.captions import TextScores
from limner.evaluation.result_files import gather, read_as, write_whole
from limner.evaluation.results import FOLDER as RESULTS
from limner.evaluation.results import About

FOLDER = f"{RESULTS}/sequences"
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
        tokens: (N,) of the step's true text, see `limner.evaluation.captions.perplexity`.
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


class SequenceResult(Record):
    """One run on the stories of one part of one split.

    Attributes:
        format: of the file.
        about: what it is of.
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


def write_sequence_result(result: SequenceResult, run: Path | str) -> Path:
    """Write ``results/sequences/<data>-<split>-<part>.json`` of a run folder, whole or not at all."""
    return write_whole(result, Path(run) / FOLDER / f"{result.about.name}.json")


def read_sequence_result(path: Path) -> SequenceResult:
    """Read one file.

    Raises:
        MissingError: no such file.
        DataError: it is not one.
    """
    return read_as(path, SequenceResult, "a sequence result", "run 'limner measure' on a set of stories")


def read_sequence_results(runs: Path | str) -> list[SequenceResult]:
    """All sequence results of the run folders below a folder, in the order of their paths.

    Raises:
        MissingError: no such folder.
        DataError: a file is none, or two are of the same system, data, split, part, preset and seed.
    """
    return gather(runs, f"**/{FOLDER}/*.json", read_sequence_result, lambda result: result.about.identity)
