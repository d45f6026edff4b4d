"""A trained run on its test split: ranks in the shared pools, predicted relations, answers to questions.

The only place where a run meets test rows; it makes a result and never a checkpoint.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from limner.errors import CheckpointError, ConfigError
from limner.files import write_text

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from limner.apps.sequence_runs import SequenceMeter
    from limner.datasets.features import Layer
    from limner.evaluation.choice_results import ChoiceResult
    from limner.evaluation.results import Result
    from limner.evaluation.sequence_results import SequenceResult
    from limner.retrieval.refinement import Refinement
    from limner.similarity import FloatArray

REFINEMENT = "refinement.json"


@dataclass(frozen=True)
class Measured:
    """What one run found on one part.

    Attributes:
        result: to be written with `limner.evaluation.results.write_result`.
        choices: per number of options, to be written with `choice_results.write_choice_result`.
        sequences: to be written with `sequence_results.write_sequence_result`; None where it was not asked
            for or the pairs are no steps of stories.
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

    from limner.apps.told_stories import with_captions
    from limner.apps.validation import vectors
    from limner.evaluation.choice_results import measure_choices
    from limner.evaluation.complementary_tables import default_choices
    from limner.evaluation.results import About, measure
    from limner.retrieval.refinement import pair_logits, refine
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
    from limner.retrieval.refinement import Refinement

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
