"""A run made ready, and read back: its task, and what is stored beside the weights.

What all systems share when they prepare and load one. It builds no model.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor, nn

from limner.arrays import TextEncoder
from limner.config import build
from limner.datasets.vocabulary import Vocabulary
from limner.datasets.word_vectors import CbowSettings, learn_vectors
from limner.errors import CheckpointError, ShapeError
from limner.models.dual import frozen_sentences
from limner.models.vrss import drawn_features
from limner.training import checkpoint
from limner.training.corpus import Corpus
from limner.training.loop import BEST, Task
from limner.training.settings import RunConfig

T = TypeVar("T", bound=Task)
_BLOCK = 1024
_STILL = 1e-12  # of the square of the mean: what rounding alone leaves of a variance
C = TypeVar("C", bound=RunConfig)
M = TypeVar("M", bound=nn.Module)


@dataclass(frozen=True)
class Prepared(Generic[T]):
    """A task, and what the caller needs to validate and to save it.

    Attributes:
        task: for the loop.
        corpus: its rows; validation looks at `corpus.val` only.
        saved_with: to be stored beside the weights; `load` reads it.
        notes: lines that whoever trains should read.
    """

    task: T
    corpus: Corpus
    saved_with: dict[str, Any]
    notes: tuple[str, ...] = ()


def start_vectors(config: RunConfig, vocabulary: Vocabulary, texts: list[str], width: int) -> Tensor | None:
    """(V, E) word vectors learned on the training texts, or None where they are to be drawn."""
    if config.data.vectors != "cbow":
        return None
    settings = CbowSettings(width, epochs=config.data.vector_epochs, seed=config.loop.seed)
    return torch.from_numpy(learn_vectors(texts, vocabulary, settings).matrix)


def mean_feature(corpus: Corpus, described: Callable[[Tensor], Tensor]) -> Tensor:
    """(F,) mean over the different training pictures; see `feature_moments`."""
    return feature_moments(corpus, described)[0]


def feature_moments(corpus: Corpus, described: Callable[[Tensor], Tensor]) -> tuple[Tensor, Tensor]:
    """(F,) mean and (F,) deviation over the different training pictures, read in blocks.

    Args:
        corpus: whose training rows count.
        described: features or bytes, as the corpus gives them → (B, F).
    Returns:
        The deviation of an entry that never changes is 1.
    """
    places = torch.unique(torch.from_numpy(corpus.train.places)).numpy()
    total = squares = torch.zeros((), dtype=torch.float64)
    for start in range(0, len(places), _BLOCK):
        values = described(torch.from_numpy(corpus.pictures.take(places[start : start + _BLOCK]))).double()
        total, squares = total + values.sum(dim=0), squares + values.square().sum(dim=0)
    mean = total / len(places)
    variance = (squares / len(places) - mean.square()).clamp(min=0)
    still = variance <= _STILL * mean.square()
    return mean.float(), variance.sqrt().masked_fill(still, 1.0).float()


def picture_side(trunk: str, corpus: Corpus) -> tuple[nn.Module | None, int]:
    """What describes pictures (None for stored features), and the width of a feature.

    Raises:
        ShapeError: the stored features are no vectors.
    """
    if trunk == "drawings":
        return drawn_features()
    shape = corpus.pictures.take(corpus.train.places[:1]).shape
    if len(shape) != 2:
        raise ShapeError(f"{corpus.name}: features have shape {shape[1:]}, expected (F,)")
    return None, int(shape[1])


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


@dataclass(frozen=True)
class Saved(Generic[C]):
    """A trained run as its file holds it.

    Attributes:
        config: settings it was trained with.
        vocabulary: its words.
        image_width: F of the picture features.
        about: everything stored beside the weights.
        tensors: the weights.
        where: the file, for messages.
    """

    config: C
    vocabulary: Vocabulary
    image_width: int
    about: dict[str, Any]
    tensors: dict[str, Tensor]
    where: str

    def same_sentences(self, given: TextEncoder | None) -> TextEncoder:
        """The encoder of sentences it was trained with.

        Args:
            given: None for the one that needs no download.
        Raises:
            CheckpointError: it was another one.
        """
        encoder = given if given is not None else frozen_sentences()
        if self.about.get("sentences") != encoder.fingerprint:
            raise CheckpointError(
                f"{self.where}: trained on vectors of another encoder of sentences than {encoder.name};"
                " install that version of it, or train again"
            )
        return encoder

    def into(self, model: M, device: str) -> M:
        """The model with these weights, in evaluation mode on its device.

        Raises:
            CheckpointError: they are not its own.
        """
        checkpoint.load_into(model, self.tensors, self.where)
        return model.to(device).eval()


def read_saved(path: Path, kind: type[C], system: str) -> Saved[C]:
    """What a run of a system stored.

    Args:
        path: folder of a run, or the file of its best weights.
        kind: class of the settings.
        system: its name, for the message.
    Raises:
        MissingError: nothing was trained there yet.
        CheckpointError: not a checkpoint of this system, or damaged.
    """
    file = path / BEST if path.is_dir() else path
    tensors, state = checkpoint.load(file)
    about: Any = state.get("config")
    try:
        config = build(kind, about["config"], str(file))
        vocabulary = Vocabulary.from_json(json.dumps(about["vocabulary"]), str(file))
        width = int(about["image_width"])
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(
            f"{file}: not a checkpoint of {system} ({error}); train one with limner train"
        ) from error
    return Saved(config, vocabulary, width, about, dict(tensors), str(file))
