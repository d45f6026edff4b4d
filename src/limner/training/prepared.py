"""A run made ready: its task, and what is stored beside the weights.

What systems of plain pairs share when they prepare one. It builds no model.
"""

import json
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor

from limner.data.tokens import Vocabulary
from limner.data.wordvectors import CbowSettings, learn_vectors
from limner.training.corpus import Corpus
from limner.training.settings import RunConfig
from limner.training.task import Task

T = TypeVar("T", bound=Task)


@dataclass(frozen=True)
class Prepared(Generic[T]):
    """A task, and what the caller needs to validate and to save it.

    Attributes:
        task: for the loop.
        corpus: its rows; validation looks at `corpus.val` only.
        saved_with: to be stored beside the weights; `load` reads it.
    """

    task: T
    corpus: Corpus
    saved_with: dict[str, Any]


def start_vectors(config: RunConfig, vocabulary: Vocabulary, texts: list[str], width: int) -> Tensor | None:
    """(V, E) word vectors learned on the training texts, or None where they are to be drawn."""
    if config.data.vectors != "cbow":
        return None
    settings = CbowSettings(width, epochs=config.data.vector_epochs, seed=config.loop.seed)
    return torch.from_numpy(learn_vectors(texts, vocabulary, settings).matrix)


def saved_with(
    config: RunConfig, vocabulary: Vocabulary, image_width: int, backbone: dict[str, str] | None
) -> dict[str, Any]:
    """What `load` needs to build the model again.

    Args:
        config: settings.
        vocabulary: of the training texts.
        image_width: F of the picture features.
        backbone: what made them, where they are stored.
    """
    saved: dict[str, Any] = {
        "config": config.model_dump(mode="json"),
        "vocabulary": json.loads(vocabulary.to_json()),
        "image_width": image_width,
        "deviations": config.deviations(),
    }
    return saved | ({"backbone": backbone} if backbone else {})
