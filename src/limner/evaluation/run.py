"""A trained run on its test split: ranks in the shared pools, predicted relations, answers to questions.

The only place where a run meets test rows; it makes a result and never a checkpoint.
"""

import hashlib
import json
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from limner.errors import CheckpointError, ConfigError, LimnerWarning, MissingError
from limner.files import write_text

if TYPE_CHECKING:
    from limner.arrays import FloatArray
    from limner.datasets.features import Layer
    from limner.datasets.pairs import Pair
    from limner.evaluation.refinement import Refinement
    from limner.evaluation.results import (
        About,
        ChoiceResult,
        Definition,
        Result,
        Scores,
        SequenceResult,
        Told,
    )
    from limner.evaluation.results import Pictures as PictureKind
    from limner.evaluation.saliency import Saliency
    from limner.training.corpus import PictureRows


MOST_PICTURES = 5000
COLOURS = "mean colours of drawings"


class SequenceMeter:
    """Measures one run after the other; the models of saliency are made once per test set."""

    def __init__(self, *, saliency: bool | None = None) -> None:
        """Take whether saliency is measured; None measures it for galleries of at most 5000 pictures."""
        self._wanted = saliency
        self._made: dict[str, Mapping[Definition, Saliency]] = {}

    def measure(
        self, about: "About", pairs: "Sequence[Pair]", scores: "Scores", pictures: "PictureRows"
    ) -> "SequenceResult | None":
        """Ranks of one run by step, or None where the pairs are no steps of stories.

        Args:
            about: what is measured.
            pairs: (N,) all rows of the part.
            scores: (N, M), see `limner.evaluation.sequences.measure_sequences`.
            pictures: as the run's corpus holds them.
        """
        from limner.evaluation.sequences import measure_sequences, told

        if not told(pairs):
            return None
        ids = list(dict.fromkeys(pair.image_id for pair in pairs))
        features, described, similar = fixed_features(pictures, ids)
        wanted = self._wanted if self._wanted is not None else len(ids) <= MOST_PICTURES
        if features is None:
            left_out = "no fixed features of its pictures are at hand; VSR and VFS are left out"
            warnings.warn(f"{about.system}: {left_out}", LimnerWarning, stacklevel=2)
        elif not wanted:
            left_out = f"VSR of {len(ids)} pictures is left out; --saliency measures it"
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
    ) -> "Mapping[Definition, Saliency]":
        """Those of the same steps and features, made once."""
        from limner.evaluation.sequences import saliency_of

        digest = hashlib.sha256(repr((list(texts), list(stories), list(relevant))).encode())
        digest.update(np.ascontiguousarray(features).tobytes())
        key = digest.hexdigest()
        if key not in self._made:
            self._made[key] = saliency_of(texts, stories, relevant, features)
        return self._made[key]


def fixed_features(
    pictures: "PictureRows", ids: Sequence[str]
) -> tuple[NDArray[np.float32] | None, str, bool]:
    """Features of some pictures that no run has trained.

    Args:
        pictures: stored features, or drawings; of others there are none.
        ids: (M,) by `Pair.image_id`.
    Returns:
        (M, F) features or None, what they are of, and whether their cosine says that pictures are alike,
        which the colours of drawings do not.
    """
    from limner.datasets.features import Features
    from limner.training.corpus import ArrayRows

    if isinstance(pictures, Features):
        rows = pictures.take(pictures.places(ids))
        # A grid's mean is what the backbone pools.
        pooled = rows.mean(axis=1) if rows.ndim == 3 else rows
        name = pictures.key.backbone.removesuffix("-grid")
        return pooled, f"features of {name} ({pictures.key.weights_sha256[:8]})", True
    if isinstance(pictures, ArrayRows):
        import torch

        from limner.encoders.colour import CellColours

        values = pictures.take(pictures.places(ids))
        if values.dtype == np.uint8:
            return CellColours()(torch.from_numpy(values)).numpy(), COLOURS, False
    return None, "", False


def with_captions(
    result: "SequenceResult",
    model: Any,  # noqa: ANN401  (any system)
    pairs: "Sequence[Pair]",
    pictures: "PictureRows",
) -> "SequenceResult":
    """The same result, with what the model's captioner makes of its stories, where it has one.

    Args:
        result: of this model.
        model: trained.
        pairs: all rows of the part.
        pictures: as the run's corpus holds them.
    """
    if getattr(model, "captioner", None) is None:
        return result
    return result.model_copy(update={"told": told_back(result, model, pairs, pictures)})


def told_back(
    result: "SequenceResult",
    model: Any,  # noqa: ANN401
    pairs: "Sequence[Pair]",
    pictures: "PictureRows",
) -> "Told":
    """What every true sentence costs from the true and from the first found pictures, and what is said.

    Args:
        result: of this model, whose `found["steps"]` is meant.
        model: with a captioner.
        pairs: all rows of the part.
        pictures: as the run's corpus holds them.
    Source: docs/methods/evaluation.md §7; greedy sentences.
    """
    from limner.evaluation.caption_scores import text_scores
    from limner.evaluation.results import Told
    from limner.models.telling import tell

    shown: dict[PictureKind, list[NDArray[np.float32]]] = {}
    known = {pair.id: pair for pair in pairs}
    stories = [[known[name].text for name, _ in own] for own in _by_story(result, result.ids)]
    first = [row[0] for row in result.found["steps"].top]
    asked: dict[PictureKind, Sequence[str]] = {"true": result.ids, "found": first}
    for kind, ids in asked.items():
        told = [[known[name] for name, _ in own] for own in _by_story(result, ids)]
        shown[kind] = [_features(model, pictures, own) for own in told]
    costs = {kind: model.captioner.surprise(features, stories) for kind, features in shown.items()}
    said = [text for story in tell(model.captioner, shown["true"]) for text in story]
    scores = None
    try:
        scores = text_scores(said, [[text] for story in stories for text in story])
    except MissingError as error:
        why = f"{result.about.system}: {error}; only the perplexity of captions is measured"
        warnings.warn(why, LimnerWarning, stacklevel=2)
    return Told(
        tokens=tuple(costs["true"].tokens.tolist()),
        unknown=tuple(costs["true"].unknown.tolist()),
        nats={kind: tuple(np.round(cost.nats, 4).tolist()) for kind, cost in costs.items()},
        scores=scores,
    )


def _by_story(result: "SequenceResult", ids: Sequence[str]) -> list[list[tuple[str, str]]]:
    """Ids with their stories, story by story."""
    together = zip(ids, result.stories, strict=True)
    return [list(own) for _, own in groupby(together, key=lambda one: one[1])]


def _features(model: Any, pictures: "PictureRows", pairs: "Sequence[Pair]") -> "NDArray[np.float32]":  # noqa: ANN401
    """(T, F) what the model sees of the pictures of some pairs."""
    from limner.models.encoding import to_tensor

    rows = pictures.take(pictures.places([pair.image_id for pair in pairs]))
    described: NDArray[np.float32] = model.described(to_tensor(rows, model.device)).float().cpu().numpy()
    return described


REFINEMENT = "refinement.json"


@dataclass(frozen=True)
class Measured:
    """What one run found on one part.

    Attributes:
        result: ranks and predicted relations.
        choices: per number of options.
        sequences: None where it was not asked for or the pairs are no steps of stories.
    """

    result: "Result"
    choices: "tuple[ChoiceResult, ...]"
    sequences: "SequenceResult | None" = None


def evaluate_run(
    run: Path,
    *,
    part: Literal["val", "test"] = "test",
    weights: Path | None = None,
    device: str = "cpu",
    commit: str = "",
) -> "Result":
    """Ranks and predicted relations of a finished run; see `measure_run`."""
    return measure_run(run, part=part, weights=weights, device=device, commit=commit).result


def measure_run(
    run: Path,
    *,
    part: Literal["val", "test"] = "test",
    weights: Path | None = None,
    device: str = "cpu",
    commit: str = "",
    choices: Sequence[int] = (),
    distractors: Path = Path("choices"),
    stories: "SequenceMeter | None" = None,
) -> Measured:
    """Measure a finished run, with the refinement that was chosen on validation.

    Args:
        run: folder that `limner train` filled.
        part: of its own split of its own data.
        weights: of the backbone, where its features have to be made.
        device: torch device.
        commit: of the code, for the record.
        choices: options of the c-way questions, one result each; 0 takes the data set's own number.
        distractors: folder of stored questions that all runs share.
        stories: measures steps of stories, where the pairs are such; None leaves that out.
    Raises:
        MissingError, CheckpointError: nothing finished is there.
        DataError: the data are not those it was trained on, or too few for so many options.
    """
    import numpy as np

    from limner.evaluation.refinement import pair_logits, refine
    from limner.evaluation.results import About, measure, measure_choices
    from limner.evaluation.validation import vectors
    from limner.paper.complementary import default_choices
    from limner.training import checkpoint
    from limner.training.corpus import open_corpus, rows_of
    from limner.training.loop import BEST
    from limner.training.systems import system

    _, state = checkpoint.load(run / BEST)
    name = str(((state.get("config") or {}).get("config") or {}).get("system", ""))
    model, config = system(name).load(run, device)
    if not hasattr(model, "encode_text"):
        raise ConfigError(
            f"{run}: {name} compares pictures with pictures, so no text can be ranked;"
            " 'limner train' printed its figures"
        )
    tuned = getattr(config, "trunk", "") == "finetune"
    layer: Layer = getattr(config, "layer", "pooled")
    data, pictures = open_corpus(config.data, files=tuned, layer=layer, weights=weights, device=device)
    pairs = data.split(part)
    rows = rows_of(pairs, pictures, data.relations)
    texts, images, columns = vectors(model, pictures, rows)
    relations = tuple(getattr(model, "relations", ()))
    chosen = read_refinement(run) if relations else None
    refined, probabilities = None, {}
    if relations:
        chances = model.relation_probabilities(texts, images[columns])
        probabilities = {relation: chances[:, c] for c, relation in enumerate(relations)}
    if chosen is not None:
        logits, how = pair_logits(model, texts, images), chosen

        def refined(
            scores: "FloatArray", queries: "NDArray[np.int64]", pool: "NDArray[np.int64]"
        ) -> "FloatArray":
            return refine(scores, logits.take(np.asarray(queries), np.asarray(pool)), how)

    about = About(
        system=config.row or config.system,
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
    if layer == "stages":  # how found pictures look is asked of the same features for all runs
        _, pictures = open_corpus(config.data, weights=weights, device=device)
    sequences = None if stories is None else stories.measure(about, pairs, scores, pictures)
    if sequences is not None:
        sequences = with_captions(sequences, model, pairs, pictures)
    return Measured(
        measure(about, pairs, data.relations, scores=scores, refine=refined, probabilities=probabilities),
        tuple(measure_choices(about, pairs, scores, c, distractors=distractors) for c in asked),
        sequences,
    )


def read_refinement(run: Path) -> "Refinement":
    """The refinement chosen on validation when the run was trained.

    Raises:
        CheckpointError: none is stored there; training did not end.
    """
    from limner.evaluation.refinement import Refinement

    file = run / REFINEMENT
    try:
        saved: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        return Refinement(float(saved["strength"]), float(saved["threshold"]), saved["form"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CheckpointError(
            f"{file}: no refinement there ({error}); run limner train to its end"
        ) from error


def write_refinement(run: Path, refinement: "Refinement") -> dict[str, Any]:
    """Store a refinement beside the weights, whole or not at all; returns what was stored."""
    # JSON has no infinity, so the threshold is a string.
    stored = {
        "form": refinement.form,
        "strength": refinement.strength,
        "threshold": str(refinement.threshold),
    }
    write_text(run / REFINEMENT, json.dumps(stored) + "\n")
    return stored
