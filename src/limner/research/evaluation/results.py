"""Result files: what one evaluated run achieved on each query.

Tables and figures are made from these files alone. Values per query allow bootstrap intervals and paired
tests.
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
    """Commit of the running code, with ``+`` for uncommitted changes; None if git does not track it."""
    here = Path(__file__)

    def git(*words: str) -> str:
        command = ["git", "-C", str(here.parent), *words]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    try:
        # an installed copy may be inside another repository, whose commit must not be used
        git("ls-files", "--error-unmatch", here.name)
        return git("rev-parse", "HEAD") + ("+" if git("status", "--porcelain", "--", "../..") else "")
    except (OSError, subprocess.CalledProcessError):
        return None


def _fit(due: int, columns: Mapping[Any, Sized]) -> None:
    """Check that each column has one value per row."""
    for name, values in columns.items():
        if len(values) != due:
            raise ValueError(f"{name} has {len(values)} values for {due} rows")


class PoolRanks(Record):
    """Ranks in one pool.

    Attributes:
        seed: seed of the pool; None for the full set, or the first rows in the legacy protocol.
        pictures: number of pictures in the pool.
        queries: rows of the result, in the order of the ranks.
        plain: 1-based ranks, ties counted half.
        refined: ranks after refinement; empty if there is none.
        gaps: difference between the two best plain scores; empty if the pool has one picture.
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
    """Description of the evaluated run, stored in every result file.

    Attributes:
        system: row of the tables, such as ``CMCM_Story``.
        data: name of the data set.
        split: grouped, released or random.
        part: val or test.
        seed: seed of training.
        preset: presets of the settings, one name or several joined by "+"; "" if none applies.
        deviations: ``key=value`` of each setting that differs from the preset; None in older files.
        departures: what differs from the printed paper, whichever the preset; None in older files.
        reduced: whether a size or the number of epochs is below the paper's.
        backbone: architecture, whether it was frozen or trained, and for a frozen one the start of its
            weights' SHA-256, such as ``resnet50 frozen, weights 0123456789ab``; "" in older files, or if the
            system uses no pictures.
        commit: commit of the code; "" if unknown.
        missing: number of pairs left out, such as for a missing picture.
        protocol: protocol of the pools; ``legacy`` is that of the CMCM release.
        refinement: parameters of the refinement, chosen on validation; empty if there is none.
        config: resolved settings of the run.
    """

    model_config = ConfigDict(ser_json_inf_nan="strings")

    system: str = Field(min_length=1)
    data: str
    split: Literal["grouped", "released", "random"]
    part: Literal["val", "test"] = "test"
    seed: int = 0
    preset: str = ""
    deviations: tuple[str, ...] | None = None
    departures: tuple[str, ...] | None = None
    reduced: bool = False
    backbone: str = ""
    commit: str = ""
    missing: int = Field(default=0, ge=0)
    protocol: Protocol = "pools"
    refinement: Mapping[str, float] = Field(default_factory=dict)
    config: Mapping[str, Any] = Field(default_factory=dict)

    @property
    def name(self) -> str:
        """File name ``<data>-<split>-<part>``, with ``-legacy`` for that protocol."""
        tail = "-legacy" if self.protocol == "legacy" else ""
        return f"{self.data}-{self.split}-{self.part}{tail}"

    @property
    def identity(self) -> dict[str, object]:
        """Fields that identify a run in comparisons."""
        names = ("system", "data", "split", "part", "protocol", "preset", "seed")
        return {name: getattr(self, name) for name in names}


class ResultFile(Record):
    """Base of all result files.

    Attributes:
        format: format of the file.
        about: description of the run.
    """

    model_config = ConfigDict(ser_json_inf_nan="strings")
    FOLDER: ClassVar[str]
    """Subfolder of the run."""
    WHAT: ClassVar[str]
    MAKER: ClassVar[str]

    format: str
    about: About

    @property
    def identity(self) -> dict[str, object]:
        """Fields that identify a result in comparisons."""
        return self.about.identity

    @property
    def name(self) -> str:
        """File name without the suffix."""
        return self.about.name

    def write(self, run: Path | str) -> Path:
        """Write ``<FOLDER>/<name>.json`` in a run folder, atomically."""
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
            DataError: the file is not of this kind.
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
        """Read the result of one run on one part.

        Raises:
            DataError: the run was not measured, or the file is damaged.
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
        """Read all results in the run folders below a folder, in the order of their paths.

        Args:
            runs: the folder.
            variants: whether to accept runs that differ only in their settings, for curves over a setting.
        Raises:
            MissingError: the folder does not exist.
            DataError: a file is invalid, or (without `variants`) two have the same system, data, split, part,
                preset, seed and c.
        """
        folder = Path(runs)
        if not folder.is_dir():
            raise MissingError(f"{folder}: not a folder; name the folder of the runs")
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
    """Result of one run on one part of one split.

    Attributes:
        ids: (N,) ids of the pairs, in the order of all other columns.
        groups: (N,) duplicate groups, the units of the bootstrap.
        pairs: (N,) numbers, equal for rows with the same text and picture.
        labels: relation → (N,) 0 or 1.
        probabilities: relation → (N,) predicted probability; only for predicted relations.
        pools: ranks per pool, including the full set; empty for a system that ranks no pictures.
        top: (N,) for each row its five best pictures in the full set, by the `Pair.id` of their first rows.
        refined_top: the same after refinement; empty if there is none, and in older files.
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
        """Ranks in the full set, or None."""
        return self._undrawn if self.about.protocol == "pools" else None

    @property
    def first(self) -> PoolRanks | None:
        """Ranks in the pool of the first rows; None outside the legacy protocol."""
        return self._undrawn if self.about.protocol == "legacy" else None

    @property
    def _undrawn(self) -> PoolRanks | None:
        return next((pool for pool in self.pools if pool.seed is None), None)

    @property
    def drawn(self) -> tuple[PoolRanks, ...]:
        """Ranks in the sampled pools."""
        return tuple(pool for pool in self.pools if pool.seed is not None)


class ChoiceResult(ResultFile):
    """Answers of one run to one set of c-way questions.

    Attributes:
        c: number of options per question; random answers score 1/c.
        draw: seed of the distractors.
        choices: digest of the questions, see `Choices.digest`.
        ids: (N,) distinct pairs, in order.
        groups: (N,) duplicate groups, the units of the bootstrap.
        picture_to_text: (N,) credit when the picture is given: 1, 0, or a fraction for ties.
        text_to_picture: (N,) credit when the text is given.
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
        """Fields that identify a result, including the number of options."""
        return {**self.about.identity, "c": self.c}

    @property
    def name(self) -> str:
        """File name ``<data>-<split>-<part>-<c>way``."""
        return f"{self.about.name}-{self.c}way"

    @property
    def accuracy(self) -> tuple[float, float]:
        """Accuracy when the picture is given and when the text is given, in [0, 1]."""
        return float(np.mean(self.picture_to_text)), float(np.mean(self.text_to_picture))


CUTS = (1, 5, 10)
Decoding = Literal["steps", "distinct"]
Definition = Literal["noun", "sequence"]
Pictures = Literal["true", "found"]


class FoundPictures(Record):
    """Pictures chosen by one decoding, step by step.

    Attributes:
        own: (N,) rank of the step's own picture (the best of several), ties counted half.
        story: (N,) rank of the best picture of its story.
        top: (N,) the five best pictures of each step, by the `Pair.id` of their first rows.
        similarity: (N,) cosine between the features of the top picture and of the step's own.
        saliency: definition → (N,) best rank of the step's labels for the top picture, infinity without
            labels; VSR@k counts ranks of at most k.
        coherence: (N,) cosine between the features of the top pictures of the step and of the previous one;
            None for the first step of a story.
    """

    model_config = ConfigDict(ser_json_inf_nan="strings")

    own: tuple[Rank, ...]
    story: tuple[Rank, ...]
    top: tuple[Annotated[tuple[str, ...], Field(min_length=1)], ...]
    similarity: tuple[Cosine, ...] = ()
    saliency: Mapping[Definition, tuple[Rank, ...]] = Field(default_factory=dict)
    coherence: tuple[Cosine | None, ...] = ()


class TextScores(Record):
    """Scores of generated texts, in [0, 1], case-insensitive.

    Attributes:
        bleu: corpus BLEU-4.
        chrf: corpus chrF2.
        texts: number of texts.
        settings: sacrebleu's signatures of both (version, tokeniser, smoothing).
    """

    bleu: float
    chrf: float
    texts: int
    settings: tuple[str, str]


class Captions(Record):
    """Evaluation of a run's captioner, step by step.

    Attributes:
        tokens: (N,) tokens of the step's true text, see
            `limner.research.evaluation.caption_scores.perplexity`.
        unknown: (N,) number of them that are not in the captioner's vocabulary.
        nats: ``true`` (given the true pictures) or ``found`` (given the retrieved ones) → (N,) negative
            log-likelihood of the true text.
        scores: scores of texts generated greedily from the true pictures; None if sacrebleu is not installed.
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
    """Reference values of VSR@k, for each k of `CUTS`.

    Attributes:
        random: exact expectation for a random picture.
        gold: value for the step's own picture.
    """

    random: tuple[Share, ...] = Field(min_length=len(CUTS), max_length=len(CUTS))
    gold: tuple[Share, ...] = Field(min_length=len(CUTS), max_length=len(CUTS))


class SequenceResult(ResultFile):
    """Result of one run on the stories of one part of one split.

    Attributes:
        ids: (N,) pair of each step; a step may have several own pictures.
        stories: (N,) story of each step, the units of the bootstrap.
        pictures: number of distinct pictures, the gallery of all steps.
        features: features used for similarity and saliency; "" if neither was measured.
        judge: picture classifier used for saliency; "" if it was not measured, and in older files.
        found: decoding → result: ``steps`` ranks each step on its own, ``distinct`` in order without the top
            pictures of previous steps.
        levels: definition of saliency → reference values.
        random_similarity: exact mean similarity of random pictures; None if not measured.
        gold_coherence: mean coherence of the steps' own pictures; None if not measured.
        captions: evaluation of the captioner; None for systems without one.
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
            raise ValueError("an id is repeated; expected unique ids")
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
