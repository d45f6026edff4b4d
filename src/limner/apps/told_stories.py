"""Stories told back by a trained run: what their true sentences cost it, and what it says of their pictures.

For measured stories, whose first found pictures are known. It trains nothing and ranks nothing.
"""

from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np

from limner.apps.terminal import say
from limner.errors import MissingError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from limner.datasets.pairs import Pair
    from limner.evaluation.sequence_results import Pictures as PictureKind
    from limner.evaluation.sequence_results import SequenceResult, Told
    from limner.training.pictures import PictureRows


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
    Source: SPEC 4.8; greedy sentences.
    """
    from limner.evaluation.captions import text_scores
    from limner.evaluation.sequence_results import Told
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
        say(f"{result.about.system}: {error}; only the perplexity of captions is measured")
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
