"""Result files: what one evaluated run found, query by query, so that tables can resample and compare.

A figure alone cannot be paired with another system's; ranks and probabilities can. Tables and figures read
these files and nothing else.
"""

import subprocess
from collections.abc import Mapping, Sized
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from pydantic import ConfigDict, Field, ValidationError, model_validator

from limner.checksums import noting, seal, unseal
from limner.config import Record
from limner.errors import DataError, MissingError
from limner.files import write_text

TOP = 5
Protocol = Literal["pools", "legacy"]
Rank = Annotated[float, Field(ge=1)]
Share = Annotated[float, Field(ge=0, le=1)]
Cosine = Annotated[float, Field(ge=-1.01, le=1.01)]
Nats = Annotated[float, Field(ge=0, allow_inf_nan=False)]


def commit() -> str | None:
    """Commit of the code that runs, with ``+`` for uncommitted changes; None if git does not track it."""
    here = Path(__file__)

    def git(*words: str) -> str:
        command = ["git", "-C", str(here.parent), *words]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    try:
        # an installed copy may lie inside somebody else's repository, which must not lend its commit
        git("ls-files", "--error-unmatch", here.name)
        return git("rev-parse", "HEAD") + ("+" if git("status", "--porcelain", "--", "../..") else "")
    except (OSError, subprocess.CalledProcessError):
        return None


def _fit(due: int, columns: Mapping[Any, Sized]) -> None:
    """Reject columns that have not as many values as there are rows."""
    for name, values in columns.items():
        if len(values) != due:
            raise ValueError(f"{name} has {len(values)} values for {due} rows")


class PoolRanks(Record):
    """Ranks in one pool.

    Attributes:
        seed: what drew the pool; None for the full set, or for the first rows of the legacy protocol.
        pictures: in the pool.
        queries: rows of the result, in the order of the ranks.
        plain: 1-based ranks, ties counted half.
        refined: those after refinement; empty if there is none.
        gaps: plain score of the best picture minus that of the second; empty if the pool has one picture.
    """

    seed: int | None
    pictures: int = Field(ge=1)
    queries: tuple[int, ...]
    plain: tuple[float, ...]
    refined: tuple[float, ...] = ()
    gaps: tuple[float, ...] = ()

    @model_validator(mode="after")
    def _lengths(self) -> "PoolRanks":
        ranks = {"plain": self.plain, "refined": self.refined or self.plain, "gaps": self.gaps or self.plain}
        _fit(len(self.queries), ranks)
        return self


class About(Record):
    """Subject of a result, stored in every result file.

    Attributes:
        system: row of the tables, such as ``CMCM_Story``.
        data: data set.
        split: grouped, released or random.
        part: val or test.
        seed: seed of training.
        preset: preset of the settings, one name or several joined by "+"; "" if none applies.
        deviations: ``key=value`` of every setting that the preset would give otherwise; None if an older
            file does not say.
        backbone: architecture and whether it was frozen or trained, and of a frozen one the beginning of its
            weights' SHA-256, such as ``resnet50 frozen, weights 0123456789ab``; "" if an
            older file does not say, or no pictures are looked at.
        commit: commit of the code, "" if unknown.
        missing: pairs left out because of their picture.
        protocol: protocol of the pools; ``legacy`` repeats those of the CMCM release.
        refinement: its settings, chosen on validation; empty if there is none.
        config: config of the run, as resolved.
    """

    model_config = ConfigDict(ser_json_inf_nan="strings")

    system: str = Field(min_length=1)
    data: str
    split: Literal["grouped", "released", "random"]
    part: Literal["val", "test"] = "test"
    seed: int = 0
    preset: str = ""
    deviations: tuple[str, ...] | None = None
    backbone: str = ""
    commit: str = ""
    missing: int = Field(default=0, ge=0)
    protocol: Protocol = "pools"
    refinement: Mapping[str, float] = Field(default_factory=dict)
    config: Mapping[str, Any] = Field(default_factory=dict)

    @property
    def name(self) -> str:
        """``<data>-<split>-<part>``, as its files are called; ``-legacy`` follows where it is."""
        tail = "-legacy" if self.protocol == "legacy" else ""
        return f"{self.data}-{self.split}-{self.part}{tail}"

    @property
    def identity(self) -> dict[str, object]:
        """Facts that must differ between compared runs, by name."""
        names = ("system", "data", "split", "part", "protocol", "preset", "seed")
        return {name: getattr(self, name) for name in names}


class ResultFile(Record):
    """Base of all result files.

    Attributes:
        format: format of the file.
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
        """Facts that must differ between compared results, by name."""
        return self.about.identity

    @property
    def name(self) -> str:
        """Name of its file, without the extension."""
        return self.about.name

    def write(self, run: Path | str) -> Path:
        """Write ``<FOLDER>/<name>.json`` of a run folder, whole or not at all."""
        target = Path(run) / self.FOLDER / f"{self.name}.json"
        target.parent.mkdir(parents=True, exist_ok=True)
        with noting(Path(run), f"{self.FOLDER}/{target.name}"):
            write_text(target, seal(self.model_dump_json()))
        return target

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read one file.

        Raises:
            MissingError: the file does not exist.
            DataError: it is not one.
        """
        try:
            return cls.model_validate_json(unseal(path.read_bytes(), path, f"{cls.MAKER} again"))
        except FileNotFoundError:
            raise MissingError(f"{path}: does not exist; {cls.MAKER} first") from None
        except OSError as error:
            raise DataError(f"{path}: cannot be read ({error}); expected {cls.WHAT}") from error
        except ValidationError as error:
            wrong = error.errors()[0]
            key = ".".join(str(part) for part in wrong["loc"]) or "the file"
            raise DataError(f"{path}: {key}: {wrong['msg']}; expected {cls.WHAT} of this version") from error

    @classmethod
    def read_part(cls, run: Path, part: Literal["val", "test"]) -> Self:
        """Measurements of one run on one part.

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
        """Read all such files of the run folders below a folder, in the order of their paths.

        Args:
            runs: the folder.
            variants: accept runs that differ in their settings alone, as a curve over a setting needs.
        Raises:
            MissingError: the folder does not exist.
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
        refined_top: the same after refinement; empty if there is none, or an older file does not say.
    """

    FOLDER: ClassVar[str] = "results"
    WHAT: ClassVar[str] = "a result file"
    MAKER: ClassVar[str] = "evaluate the run"

    format: Literal["limner-result-1"] = "limner-result-1"
    about: About
    ids: tuple[str, ...]
    groups: tuple[str, ...]
    pairs: tuple[int, ...]
    labels: Mapping[str, tuple[Annotated[int, Field(ge=0, le=1)], ...]]
    probabilities: Mapping[str, tuple[Annotated[float, Field(allow_inf_nan=False)], ...]] = Field(
        default_factory=dict
    )
    pools: tuple[PoolRanks, ...] = ()
    top: tuple[tuple[str, ...], ...] = ()
    refined_top: tuple[tuple[str, ...], ...] = ()

    @model_validator(mode="after")
    def _lengths(self) -> "Result":
        rows = len(self.ids)
        for columns in ({"groups": self.groups, "pairs": self.pairs}, self.labels, self.probabilities):
            _fit(rows, columns)
        for pool in self.pools:
            if pool.queries and not 0 <= min(pool.queries) <= max(pool.queries) < rows:
                raise ValueError(f"a pool names a query outside 0…{rows - 1}")
        return self

    @property
    def full(self) -> PoolRanks | None:
        """Ranks against all pictures, or None."""
        return self._undrawn if self.about.protocol == "pools" else None

    @property
    def first(self) -> PoolRanks | None:
        """Ranks in the first rows, of the legacy protocol alone."""
        return self._undrawn if self.about.protocol == "legacy" else None

    @property
    def _undrawn(self) -> PoolRanks | None:
        return next((pool for pool in self.pools if pool.seed is None), None)

    @property
    def drawn(self) -> tuple[PoolRanks, ...]:
        """Ranks in the pools that were drawn."""
        return tuple(pool for pool in self.pools if pool.seed is not None)


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
    picture_to_text: tuple[Share, ...]
    text_to_picture: tuple[Share, ...]

    @model_validator(mode="after")
    def _lengths(self) -> "ChoiceResult":
        answers = {"picture_to_text": self.picture_to_text, "text_to_picture": self.text_to_picture}
        _fit(len(self.ids), {"groups": self.groups, **answers})
        return self

    @property
    def identity(self) -> dict[str, object]:
        """Runs may answer questions of several numbers of options."""
        return {**self.about.identity, "c": self.c}

    @property
    def name(self) -> str:
        """``<data>-<split>-<part>-<c>way``."""
        return f"{self.about.name}-{self.c}way"

    @property
    def accuracy(self) -> tuple[float, float]:
        """Accuracy with the picture given and with the text given, fractions."""
        return float(np.mean(self.picture_to_text)), float(np.mean(self.text_to_picture))


CUTS = (1, 5, 10)
Decoding = Literal["steps", "distinct"]
Definition = Literal["noun", "sequence"]
Pictures = Literal["true", "found"]


class FoundPictures(Record):
    """Pictures chosen by one decoding, step by step.

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

    own: tuple[Rank, ...]
    story: tuple[Rank, ...]
    top: tuple[Annotated[tuple[str, ...], Field(min_length=1)], ...]
    similarity: tuple[Cosine, ...] = ()
    saliency: Mapping[Definition, tuple[Rank, ...]] = Field(default_factory=dict)
    coherence: tuple[Cosine | None, ...] = ()


class TextScores(Record):
    """Generated texts against true ones, fractions, 1 is best; letter case does not count.

    Attributes:
        bleu: BLEU-4 of the corpus.
        chrf: chrF2 of the corpus.
        texts: how many were compared.
        settings: sacrebleu's signatures of both, which name version, tokeniser and smoothing.
    """

    bleu: float
    chrf: float
    texts: int
    settings: tuple[str, str]


class Captions(Record):
    """Evaluation of a run's captioner, step by step.

    Attributes:
        tokens: (N,) of the step's true text, see `limner.research.evaluation.caption_scores.perplexity`.
        unknown: (N,) of them that the captioner's vocabulary lacks.
        nats: what the true text costs, (N,) from the true pictures and from the first found ones.
        scores: texts generated from the true pictures, the likeliest word each time, against the true ones;
            None if the packages that compare texts are absent.
    """

    tokens: tuple[Annotated[int, Field(ge=2)], ...]
    unknown: tuple[Annotated[int, Field(ge=0)], ...]
    nats: Mapping[Pictures, tuple[Nats, ...]] = Field(min_length=2)
    scores: TextScores | None = None

    @model_validator(mode="after")
    def _lengths(self) -> "Captions":
        _fit(len(self.tokens), {"unknown": self.unknown})
        _fit(len(self.tokens), self.nats)
        if not all(unknown <= tokens for tokens, unknown in zip(self.tokens, self.unknown, strict=True)):
            raise ValueError("expected unknown words among the tokens of a text")
        return self


class Level(Record):
    """VSR@k to compare with, for k of `CUTS`.

    Attributes:
        random: expected value of a random picture, computed exactly.
        gold: value of the step's own picture.
    """

    random: tuple[Share, ...] = Field(min_length=len(CUTS), max_length=len(CUTS))
    gold: tuple[Share, ...] = Field(min_length=len(CUTS), max_length=len(CUTS))


class SequenceResult(ResultFile):
    """One run on the stories of one part of one split.

    Attributes:
        ids: (N,) pair of every step: a step with several pictures has several right answers.
        stories: (N,) story of every step, the units of the bootstrap.
        pictures: different ones, all of them the gallery of every step.
        features: what similarity and saliency look at; "" if nothing was looked at.
        judge: model of the pictures that saliency asks; "" if it was not measured, or by an older version,
            which knew one alone.
        found: decoding → what it found: ``steps`` ranks every step by itself, ``distinct`` in the order of
            the steps without the first pictures of the steps before.
        levels: definition → what its VSR compares with.
        random_similarity: mean similarity of pictures drawn at random, exactly; None if none was measured.
        gold_coherence: mean coherence of the steps' own pictures; None if none was measured.
        captions: captions of a run that generates stories from pictures; None of others.
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
    judge: str = ""
    found: Mapping[Decoding, FoundPictures] = Field(min_length=1)
    levels: Mapping[Definition, Level] = Field(default_factory=dict)
    random_similarity: Cosine | None = None
    gold_coherence: Cosine | None = None
    captions: Captions | None = None

    @model_validator(mode="after")
    def _lengths(self) -> "SequenceResult":
        due = len(self.ids)
        _fit(due, {"stories": self.stories})
        if len(set(self.ids)) != due:
            raise ValueError("an id comes twice, expected different ones")
        if self.captions is not None:
            _fit(due, {"captions": self.captions.tokens})
        later = [False, *(one == other for one, other in pairwise(self.stories))]
        for name, one in self.found.items():
            ranks = {"own": one.own, "story": one.story}
            _fit(due, {**ranks, "top": one.top, "similarity": one.similarity or one.own})
            _fit(due, one.saliency)
            if max(*one.own, *one.story) > self.pictures:
                raise ValueError(f"{name}: expected ranks in 1…{self.pictures}")
            if one.coherence and [cosine is not None for cosine in one.coherence] != later:
                raise ValueError(f"{name}: expected {due} coherences, none where a story begins")
            if set(one.saliency) != set(self.levels):
                raise ValueError(f"{name}: saliency and levels name different definitions")
        return self
