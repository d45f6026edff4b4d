"""Measures a trained run on held-out rows: ranks, visual measures of retrieved pictures, generated texts."""

import hashlib
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from limner.encoders.pixels import CellColours
from limner.errors import ConfigError, LimnerWarning, MissingError, counted
from limner.research.datasets.pairs import Pair
from limner.research.evaluation.ranking import Score
from limner.research.evaluation.results import (
    About,
    Captions,
    ChoiceResult,
    Definition,
    Result,
    SequenceResult,
)
from limner.research.evaluation.results import Pictures as PictureKind
from limner.research.evaluation.sequences import Saliency, measure_sequences, of_stories, saliency_of
from limner.research.systems.base import Capabilities, Model, to_tensor
from limner.research.training.corpus import ArrayRows, PictureRows
from limner.research.training.settings import RunConfig

Judge = Literal["linear", "vgg19"]
JUDGES: Mapping[Judge, str] = {
    "linear": "a linear model of the test pictures",
    "vgg19": "a VGG-19 of the test pictures",
}
MOST_PICTURES = 5000
COLOURS = "mean colours of drawings"


class SequenceMeter:
    """Measures runs on stories; classifiers for saliency are trained once per test set and features."""

    def __init__(
        self, *, saliency: bool | None = None, judge: Judge = "linear", in_sample: bool = False
    ) -> None:
        """Set how saliency is measured.

        Args:
            saliency: whether to measure it; None measures it for galleries of at most 5000 pictures.
            judge: classifier: a "linear" model of the pictures' features, or "vgg19" on their pixels.
            in_sample: whether the classifier is trained on the pictures that it scores.
        """
        self._wanted, self._judge, self._in_sample = saliency, judge, in_sample
        self._made: dict[str, Mapping[Definition, Saliency]] = {}

    @property
    def pixels(self) -> bool:
        """Whether pixels of the pictures are needed."""
        return self._judge == "vgg19"

    def measure(
        self,
        about: About,
        pairs: Sequence[Pair],
        score: Score,
        pictures: PictureRows,
        *,
        pixels: PictureRows | None = None,
        device: str = "cpu",
    ) -> SequenceResult | None:
        """Measure one run by step, or return None if the pairs are not steps of stories.

        Args:
            about: description of the run.
            pairs: (N,) all rows of the part.
            score: see `limner.research.evaluation.sequences.measure_sequences`.
            pictures: rows of the run's corpus.
            pixels: pixels of the pictures, for the classifier "vgg19".
            device: torch device of that classifier.
        """
        if not of_stories(pairs):
            return None
        ids = list(dict.fromkeys(pair.image_id for pair in pairs))
        features, described, similar = fixed_features(pictures, ids)
        wanted = self._wanted if self._wanted is not None else len(ids) <= MOST_PICTURES
        if features is None or not wanted:
            left_out = f"VSR of {counted(len(ids), 'picture')} is left out; pass --saliency to measure it"
            if features is None:
                left_out = "no fixed features of its pictures are available; VSR and VFS are left out"
            warnings.warn(f"{about.system}: {left_out}", LimnerWarning, stacklevel=2)
        return measure_sequences(
            about,
            pairs,
            score,
            features=features,
            described=described,
            similarity=similar,
            saliency=partial(self._saliency, ids=ids, pixels=pixels, device=device) if wanted else None,
            judge=f"{JUDGES[self._judge]}, {'in sample' if self._in_sample else 'five-fold'}",
        )

    def _saliency(
        self,
        texts: Sequence[str],
        stories: Sequence[str],
        relevant: Sequence[Sequence[int]],
        features: NDArray[np.floating],
        *,
        ids: Sequence[str],
        pixels: PictureRows | None,
        device: str,
    ) -> Mapping[Definition, Saliency]:
        """Saliency, cached for equal steps and features."""
        digest = hashlib.sha256(repr((list(texts), list(stories), list(relevant))).encode())
        digest.update(np.ascontiguousarray(features).tobytes())
        key = digest.hexdigest()
        if key not in self._made:
            scores = None
            if pixels is not None:
                from limner.research.runs.judge import vgg_scores

                shown = pixels.take(pixels.places(ids))
                scores = partial(vgg_scores, shown, in_sample=self._in_sample, device=device)
            self._made[key] = saliency_of(
                texts, stories, relevant, features, in_sample=self._in_sample, scores=scores
            )
        return self._made[key]


def fixed_features(pictures: PictureRows, ids: Sequence[str]) -> tuple[NDArray[np.float32] | None, str, bool]:
    """Features of pictures that do not depend on a run.

    Args:
        pictures: stored features, or drawings; others have no such features.
        ids: (M,) values of `Pair.image_id`.
    Returns:
        (M, F) features or None; their description; and whether their cosine measures the similarity of
        pictures, which that of drawings' colours does not.
    """
    if isinstance(pictures, ArrayRows):
        import torch

        values = pictures.take(pictures.places(ids))
        if values.dtype == np.uint8:
            return CellColours()(torch.from_numpy(values)).numpy(), COLOURS, False
    elif pictures.backbone is not None:
        rows = pictures.take(pictures.places(ids))
        # the mean of a grid is the backbone's pooled vector
        pooled = rows.mean(axis=1) if rows.ndim == 3 else rows
        name = pictures.backbone["backbone"].removesuffix("-grid")
        return pooled, f"features of {name} ({pictures.backbone['weights_sha256'][:8]})", True
    return None, "", False


@dataclass(frozen=True)
class Measured:
    """Results of one run on one part.

    Attributes:
        result: ranks and predicted relations.
        choices: answers to c-way questions, one per number of options.
        sequences: results on stories; None if not requested, or if the pairs are not steps of stories.
    """

    result: Result
    choices: tuple[ChoiceResult, ...]
    sequences: SequenceResult | None = None

    def write(self, run: Path) -> None:
        """Write all results to the run folder."""
        self.result.write(run)
        for answers in self.choices:
            answers.write(run)
        if self.sequences is not None:
            self.sequences.write(run)

    def recall(self, k: int) -> float:
        """R@k against all pictures, before refinement.

        Raises:
            ConfigError: k < 1, or there are no ranks against all pictures.
        """
        if k < 1 or self.result.full is None:
            raise ConfigError(f"recall: k = {k}, expected at least 1, and ranks against all pictures")
        return float((np.array(self.result.full.plain) <= k).mean())


def about_of(config: RunConfig, can: Capabilities, data: str) -> About:
    """Description of a run for its results.

    Args:
        config: settings of the run.
        can: capabilities of its system.
        data: name of the data set.
    """
    return About(
        system=config.row or config.system,
        data=data,
        split=config.data.split,
        seed=config.loop.seed,
        preset=config.preset,
        deviations=tuple(config.deviations()),
        departures=tuple(config.departures()),
        reduced=config.reduced,
        backbone=can.backbone_words(config.data.backbone),
        config=config.model_dump(mode="json"),
    )


def generated(result: SequenceResult, model: Model, pairs: Sequence[Pair], pictures: PictureRows) -> Captions:
    """Evaluate a captioner by the likelihood of true texts, given true and retrieved pictures, and its texts.

    Args:
        result: result of this model; its `found["steps"]` are the retrieved pictures.
        model: model with a captioner.
        pairs: all rows of the part.
        pictures: rows of the run's corpus.
    Source: docs/methods/evaluation.md §7; sentences are generated by greedy decoding.
    """
    from limner.research.evaluation.caption_scores import text_scores

    known = {pair.id: pair for pair in pairs}

    def by_story(ids: Sequence[str]) -> list[list[Pair]]:
        together = groupby(zip(ids, result.stories, strict=True), key=lambda one: one[1])
        return [[known[name] for name, _ in own] for _, own in together]

    asked: dict[PictureKind, Sequence[str]] = {
        "true": result.ids,
        "found": [row[0] for row in result.found["steps"].top],
    }
    shown = {kind: [_features(model, pictures, own) for own in by_story(ids)] for kind, ids in asked.items()}
    stories = [[pair.text for pair in own] for own in by_story(result.ids)]
    costs = {kind: model.surprise(features, stories) for kind, features in shown.items()}
    said = [text for story in model.tell(shown["true"]) for text in story]
    scores = None
    try:
        scores = text_scores(said, [text for story in stories for text in story])
    except MissingError as error:
        left_out = f"{result.about.system}: {error}; only the perplexity of captions is measured"
        warnings.warn(left_out, LimnerWarning, stacklevel=2)
    return Captions(
        tokens=tuple(costs["true"].tokens.tolist()),
        unknown=tuple(costs["true"].unknown.tolist()),
        nats={kind: tuple(np.round(cost.nats, 4).tolist()) for kind, cost in costs.items()},
        scores=scores,
    )


def _features(model: Model, pictures: PictureRows, pairs: Sequence[Pair]) -> NDArray[np.float32]:
    """(T, F) features of the pictures of some pairs, as input of the captioner."""
    rows = pictures.take(pictures.places([pair.image_id for pair in pairs]))
    described: NDArray[np.float32] = model.described(to_tensor(rows, model.device)).float().cpu().numpy()
    return described
