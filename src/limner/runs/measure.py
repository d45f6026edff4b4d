"""A trained run on its test split: ranks in the shared pools, predicted relations, answers to questions.

The only place where a run meets test rows; it makes a result and never a checkpoint.
"""

import hashlib
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from limner.arrays import FloatArray
from limner.datasets.features import Features
from limner.datasets.pairs import Pair, PairSet
from limner.encoders.colour import CellColours
from limner.errors import ConfigError, LimnerWarning, MissingError
from limner.evaluation import results
from limner.evaluation.caption_scores import text_scores
from limner.evaluation.choice import default_choices
from limner.evaluation.refinement import pair_logits, refine
from limner.evaluation.results import (
    About,
    ChoiceResult,
    Definition,
    Result,
    Scores,
    SequenceResult,
    Told,
    measure_choices,
)
from limner.evaluation.results import Pictures as PictureKind
from limner.evaluation.saliency import Saliency
from limner.evaluation.sequences import measure_sequences, saliency_of, told
from limner.runs.validation import read_refinement, vectors
from limner.systems.base import Capabilities, Model, to_tensor
from limner.systems.gsda.captioner import tell
from limner.systems.gsda.model import Gsda
from limner.training.corpus import ArrayRows, PictureRows, rows_of
from limner.training.settings import RunConfig

MOST_PICTURES = 5000
COLOURS = "mean colours of drawings"


class OpenRun(Protocol):
    """What measuring asks of a run; see `limner.runs.run.Run`."""

    @property
    def folder(self) -> Path: ...  # noqa: D102
    @property
    def model(self) -> Model: ...  # noqa: D102
    @property
    def config(self) -> RunConfig: ...  # noqa: D102
    @property
    def can(self) -> Capabilities: ...  # noqa: D102
    @property
    def system(self) -> str: ...  # noqa: D102
    @property
    def name(self) -> str: ...  # noqa: D102

    def data(  # noqa: D102
        self, *, files: bool | None = None, plain: bool = False, weights: Path | None = None
    ) -> tuple[PairSet, PictureRows]: ...


class SequenceMeter:
    """Measures one run after the other; the models of saliency are made once per test set."""

    def __init__(self, *, saliency: bool | None = None) -> None:
        """Take whether saliency is measured; None measures it for galleries of at most 5000 pictures."""
        self._wanted = saliency
        self._made: dict[str, Mapping[Definition, Saliency]] = {}

    def measure(
        self, about: About, pairs: Sequence[Pair], scores: Scores, pictures: PictureRows
    ) -> SequenceResult | None:
        """Ranks of one run by step, or None where the pairs are no steps of stories.

        Args:
            about: what is measured.
            pairs: (N,) all rows of the part.
            scores: (N, M), see `limner.evaluation.sequences.measure_sequences`.
            pictures: as the run's corpus holds them.
        """
        if not told(pairs):
            return None
        ids = list(dict.fromkeys(pair.image_id for pair in pairs))
        features, described, similar = fixed_features(pictures, ids)
        wanted = self._wanted if self._wanted is not None else len(ids) <= MOST_PICTURES
        left_out = ""
        if features is None:
            left_out = "no fixed features of its pictures are available; VSR and VFS are left out"
        elif not wanted:
            left_out = f"VSR of {len(ids)} pictures is left out; --saliency measures it"
        if left_out:
            warnings.warn(f"{about.system}: {left_out}", LimnerWarning, stacklevel=2)
        return measure_sequences(
            about,
            pairs,
            scores,
            features=features,
            described=described,
            similarity=similar,
            saliency=self._saliency if wanted else None,
        )

    def _saliency(
        self,
        texts: Sequence[str],
        stories: Sequence[str],
        relevant: Sequence[Sequence[int]],
        features: NDArray[np.floating],
    ) -> Mapping[Definition, Saliency]:
        """Those of the same steps and features, made once."""
        digest = hashlib.sha256(repr((list(texts), list(stories), list(relevant))).encode())
        digest.update(np.ascontiguousarray(features).tobytes())
        key = digest.hexdigest()
        if key not in self._made:
            self._made[key] = saliency_of(texts, stories, relevant, features)
        return self._made[key]


def fixed_features(pictures: PictureRows, ids: Sequence[str]) -> tuple[NDArray[np.float32] | None, str, bool]:
    """Features of some pictures that no run has trained.

    Args:
        pictures: stored features, or drawings; of others there are none.
        ids: (M,) by `Pair.image_id`.
    Returns:
        (M, F) features or None, what they are of, and whether their cosine says that pictures are alike,
        which the colours of drawings do not.
    """
    if isinstance(pictures, Features):
        rows = pictures.take(pictures.places(ids))
        # A grid's mean is what the backbone pools.
        pooled = rows.mean(axis=1) if rows.ndim == 3 else rows
        name = pictures.key.backbone.removesuffix("-grid")
        return pooled, f"features of {name} ({pictures.key.weights_sha256[:8]})", True
    if isinstance(pictures, ArrayRows):
        import torch

        values = pictures.take(pictures.places(ids))
        if values.dtype == np.uint8:
            return CellColours()(torch.from_numpy(values)).numpy(), COLOURS, False
    return None, "", False


@dataclass(frozen=True)
class Measured:
    """What one run found on one part.

    Attributes:
        result: ranks and predicted relations.
        choices: per number of options.
        sequences: None where it was not asked for or the pairs are no steps of stories.
    """

    result: Result
    choices: tuple[ChoiceResult, ...]
    sequences: SequenceResult | None = None

    def write(self, run: Path) -> None:
        """Store all of it in the folder of a run, where tables and figures read it."""
        self.result.write(run)
        for answers in self.choices:
            answers.write(run)
        if self.sequences is not None:
            self.sequences.write(run)

    def recall(self, k: int) -> float:
        """Share of the texts whose picture is among the first k of all pictures, as scored, unrefined.

        Raises:
            ConfigError: k < 1, or there are no ranks against all pictures.
        """
        if k < 1 or self.result.full is None:
            raise ConfigError(f"recall: k = {k}, expected at least 1, and ranks against all pictures")
        return float((np.array(self.result.full.plain) <= k).mean())


def measure(
    run: OpenRun,
    part: Literal["val", "test"] = "test",
    *,
    weights: Path | None = None,
    commit: str = "",
    choices: Sequence[int] = (),
    distractors: Path = Path("choices"),
    stories: SequenceMeter | None = None,
) -> Measured:
    """Measure a finished run, with the refinement that was chosen on validation.

    Args:
        run: a finished one.
        part: of its own split of its own data.
        weights: of the backbone, where its features have to be made.
        commit: of the code, for the record.
        choices: options of the c-way questions, one result each; 0 takes the data set's own number.
        distractors: folder of stored questions that all runs share.
        stories: measures steps of stories, where the pairs are such; None leaves that out.
    Raises:
        ConfigError: its model reads no texts.
        CheckpointError: training did not end.
        DataError: the data are not those it was trained on, or too few for so many options.
    """
    model, config = run.model, run.config
    if not run.can.texts:
        raise ConfigError(
            f"{run.folder}: {run.system} compares pictures with pictures, so no text can be ranked;"
            " 'limner train' printed its figures"
        )
    data, pictures = run.data(weights=weights)
    pairs = data.split(part)
    rows = rows_of(pairs, pictures, data.relations)
    texts, images, columns = vectors(model, pictures, rows, run.can)
    chosen = read_refinement(run.folder) if run.can.relations else None
    refined, probabilities = None, {}
    if chosen is not None:
        chances = model.relation_probabilities(texts, images[columns])
        probabilities = {relation: chances[:, c] for c, relation in enumerate(model.relations)}
        logits, how = pair_logits(model, texts, images), chosen

        def refined(scores: FloatArray, queries: NDArray[np.int64], pool: NDArray[np.int64]) -> FloatArray:
            return refine(scores, logits.take(np.asarray(queries), np.asarray(pool)), how)

    about = About(
        system=run.name,
        data=data.name,
        split=config.data.split,
        part=part,
        seed=config.loop.seed,
        preset=config.preset,
        commit=commit,
        missing=len(data.missing),
        refinement={"strength": chosen.strength, "threshold": chosen.threshold} if chosen else {},
        config=config.model_dump(mode="json"),
    )
    scores = model.score(texts, images)
    asked = dict.fromkeys(c or default_choices(data.name) for c in choices)
    if run.can.layer == "stages":  # how found pictures look is asked of the same features for all runs
        _, pictures = run.data(plain=True, weights=weights)
    sequences = None if stories is None else stories.measure(about, pairs, scores, pictures)
    if sequences is not None and isinstance(model, Gsda) and run.can.captions:
        said = _told(sequences, model, pairs, pictures)
        sequences = sequences.model_copy(update={"told": said})
    return Measured(
        results.measure(
            about, pairs, data.relations, scores=scores, refine=refined, probabilities=probabilities
        ),
        tuple(measure_choices(about, pairs, scores, c, distractors=distractors) for c in asked),
        sequences,
    )


def _told(
    result: SequenceResult,
    model: Gsda,
    pairs: Sequence[Pair],
    pictures: PictureRows,
) -> Told:
    """What every true sentence costs from the true and from the first found pictures, and what is said.

    Args:
        result: of this model, whose `found["steps"]` is meant.
        model: with a captioner.
        pairs: all rows of the part.
        pictures: as the run's corpus holds them.
    Source: docs/methods/evaluation.md §7; greedy sentences.
    """
    captioner = model.captioner
    assert captioner is not None  # noqa: S101  (declared)
    shown: dict[PictureKind, list[NDArray[np.float32]]] = {}
    known = {pair.id: pair for pair in pairs}
    stories = [[known[name].text for name, _ in own] for own in _by_story(result, result.ids)]
    first = [row[0] for row in result.found["steps"].top]
    asked: dict[PictureKind, Sequence[str]] = {"true": result.ids, "found": first}
    for kind, ids in asked.items():
        own_pictures = [[known[name] for name, _ in own] for own in _by_story(result, ids)]
        shown[kind] = [_features(model, pictures, own) for own in own_pictures]
    costs = {kind: captioner.surprise(features, stories) for kind, features in shown.items()}
    said = [text for story in tell(captioner, shown["true"]) for text in story]
    scores = None
    try:
        scores = text_scores(said, [[text] for story in stories for text in story])
    except MissingError as error:
        left_out = f"{result.about.system}: {error}; only the perplexity of captions is measured"
        warnings.warn(left_out, LimnerWarning, stacklevel=2)
    return Told(
        tokens=tuple(costs["true"].tokens.tolist()),
        unknown=tuple(costs["true"].unknown.tolist()),
        nats={kind: tuple(np.round(cost.nats, 4).tolist()) for kind, cost in costs.items()},
        scores=scores,
    )


def _by_story(result: SequenceResult, ids: Sequence[str]) -> list[list[tuple[str, str]]]:
    """Ids with their stories, story by story."""
    together = zip(ids, result.stories, strict=True)
    return [list(own) for _, own in groupby(together, key=lambda one: one[1])]


def _features(model: Gsda, pictures: PictureRows, pairs: Sequence[Pair]) -> NDArray[np.float32]:
    """(T, F) what the model sees of the pictures of some pairs."""
    rows = pictures.take(pictures.places([pair.image_id for pair in pairs]))
    described: NDArray[np.float32] = model.described(to_tensor(rows, model.device)).float().cpu().numpy()
    return described
