"""Interface of a system: settings, model, batches, losses and capabilities.

Each system declares these; what all systems share, from building a model to loading a saved one, is here.
"""

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from itertools import chain
from pathlib import Path
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, NamedTuple, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from limner.arrays import FloatArray, Some, TextEncoder, scores
from limner.config import build
from limner.devices import Precision, autocast
from limner.encoders.pixels import CellColours, DrawingGrid, DrawingNet, FromBytes
from limner.encoders.vocabulary import Vocabulary
from limner.errors import CheckpointError, ConfigError, ShapeError, unknown
from limner.research.nn.backbones import empty_backbone
from limner.research.training import checkpoint
from limner.research.training.checkpoint import BEST, Position
from limner.research.training.corpus import Corpus, TrainingBatches
from limner.research.training.settings import AS_SAVED, RunConfig

if TYPE_CHECKING:
    from limner.research.datasets.features import Layer
    from limner.research.training.loop import Event

ENCODE_BATCH, ENCODE_STORIES = 256, 32

BackboneUse = Literal["frozen", "drawings", "finetune"]
TextEncoderName = Literal["sentences", "multilingual"]
Reads = Literal["words", "sentences", "multilingual"]
NO_COSINE = (
    "does not score by the cosine of two vectors, which a library needs; use a run of another system, or"
    " evaluate this one with limner measure"
)
"""See `Capabilities.no_library`."""
C = TypeVar("C", bound=RunConfig)
M = TypeVar("M", bound="Model")


@dataclass(frozen=True)
class RefinedScores:
    """Refinement of scores by predicted relations.

    Attributes:
        form: form of the refinement.
        strength, threshold: values from the settings; None means chosen on validation.
    """

    form: Literal["multiply", "add"]
    strength: float | None = None
    threshold: float | None = None


@dataclass(frozen=True)
class Capabilities:
    """Capabilities of a system with given settings.

    Attributes:
        stories: whether it encodes the steps of a story together.
        reads: input of its text encoder: "words" of the training vocabulary, or vectors of the named frozen
            encoders; empty if it only compares pictures with pictures.
        trains_with: frozen text encoders needed only for training.
        no_library: reason why a library cannot be indexed with a run, as the continuation of a sentence that
            begins with the system's name; "" if it can.
        backbone: source of picture features: "frozen" (stored features), "drawings" (a small network over the
            pixels of drawings) or "finetune" (a backbone that is trained further).
        layer: layer of the features, see `limner.research.datasets.features`: vectors ("pooled", "stages",
            "described"), a "grid" of vectors, or the inputs of trainable "blocks".
        trains_backbone: whether the network for drawings is trained; otherwise it is fixed.
        mirrored: whether features of mirrored training pictures are needed too.
        gradients: whether it is trained by gradient descent; if not, `System.fit` fits it in one call.
        refinement: refinement of scores by predicted relations; None if it predicts none.
        attention: whether it has attention over the words of a text.
        captions: whether it generates texts from pictures.
        margin: margin of the validation loss, in score units.
    """

    stories: bool = False
    reads: frozenset[Reads] = frozenset({"words"})
    trains_with: frozenset[TextEncoderName] = frozenset()
    no_library: str = ""
    backbone: BackboneUse = "frozen"
    layer: "Layer" = "pooled"
    trains_backbone: bool = False
    mirrored: bool = False
    gradients: bool = True
    refinement: RefinedScores | None = None
    attention: bool = False
    captions: bool = False
    margin: float = 0.1

    @property
    def texts(self) -> bool:
        """Whether it ranks pictures for texts."""
        return bool(self.reads)

    @property
    def encoders(self) -> frozenset[Reads]:
        """Frozen text encoders needed for training."""
        return (self.reads | self.trains_with) - {"words"}

    def backbone_words(self, architecture: str) -> str:
        """Description of the backbone and whether it was trained, such as ``resnet50 frozen``.

        Args:
            architecture: architecture of the frozen or trained backbone.
        """
        if self.backbone == "drawings":
            return "net for drawings trained" if self.trains_backbone else "colours of drawings frozen"
        if self.layer == "blocks":
            return f"{architecture}, last blocks trained"
        return f"{architecture} {'frozen' if self.backbone == 'frozen' else 'trained'}"


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Context in evaluation mode, without gradients; the previous mode is restored, even after an error."""
    before = model.training
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        model.train(before)


def to_tensor(values: NDArray[Any], device: torch.device) -> Tensor:
    """Convert features to a float32 tensor; pixels (uint8) stay uint8."""
    plain = values if values.dtype == np.uint8 else values.astype(np.float32, copy=False)
    # torch cannot share a read-only (memory-mapped) array, so copy it
    return torch.from_numpy(plain if plain.flags.writeable else plain.copy()).to(device)


@dataclass
class ModelParts:
    """Inputs of a model's constructor: from the training rows for a new run, from its file for a saved one.

    Attributes:
        vocabulary: words of the training texts.
        image_width: F of the picture features.
        max_length: maximum number of words of a text.
        backbone: network from pixels to features, trained or fixed; None if features are stored.
        vectors: (V, E) initial word vectors; None for random ones.
        sentences, multilingual: frozen text encoders.
        about: further JSON values that a system stores with weights and settings.
        tensors: weights of a saved run, or initial values that a system provides for a new one.
        where: the file, for messages.
        notes: notes for the user.
    """

    vocabulary: Vocabulary
    image_width: int
    max_length: int = 0
    backbone: nn.Module | None = None
    vectors: Tensor | None = None
    sentences: TextEncoder | None = None
    multilingual: TextEncoder | None = None
    about: dict[str, Any] = field(default_factory=dict)
    tensors: Mapping[str, Tensor] = field(default_factory=dict)
    where: str = ""
    notes: tuple[str, ...] = ()


class Surprise(NamedTuple):
    """Surprise (negative log-likelihood) of true sentences.

    Attributes:
        nats: (S,) negative log-likelihood of each sentence, including its end unless it is truncated before
            it.
        tokens: (S,) words and 1 for the end.
        unknown: (S,) number of these tokens that are outside the vocabulary; all are scored as one class.
    """

    nats: NDArray[np.float64]
    tokens: NDArray[np.int64]
    unknown: NDArray[np.int64]


class Model(nn.Module):
    """Encodes texts and pictures in a joint space; the interface of all models for retrieval and evaluation.

    A subclass defines `pictures`; `texts` if it reads texts as words; and `features` if pictures first pass
    through a fixed network.

    Attributes:
        name: name of the model, for messages.
        architecture: its settings.
        vocabulary, max_length: vocabulary and maximum number of words of its texts.
        image_width: F, dimension of a picture's features.
        features: fixed network from pixels to (B, F) features; None if features are stored.
        relations: names of the C relations that it predicts; empty if it predicts none.
        precision: precision of matrix products if `encode_image` takes pixels; stored features use float32.
    """

    name: ClassVar[str] = ""
    precision: Precision = "float32"
    features: nn.Module | None
    relations: tuple[str, ...] = ()

    def __init__(self, architecture: Any, parts: ModelParts) -> None:  # noqa: ANN401  (a system's own sizes)
        """Set what all models share; a subclass initialises its weights from torch's generator."""
        super().__init__()
        self.architecture = architecture
        self.vocabulary, self.max_length = parts.vocabulary, parts.max_length
        self.image_width = parts.image_width

    def fit_constants(self, corpus: Corpus) -> None:
        """Compute constants, such as the mean feature, from the training rows."""

    @property
    def dim(self) -> int:
        """D, dimension of a vector."""
        return int(self.architecture.dim)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the output for one text or picture."""
        return (self.dim,)

    @property
    def device(self) -> torch.device:
        """Device of the weights."""
        return next(chain(self.parameters(), self.buffers())).device

    @property
    def separable(self) -> bool:
        """Whether a relation's logit is the sum of a text term and a picture term."""
        return False

    @property
    def fingerprint(self) -> str:
        """Hash of settings, words and weights: equal fingerprints give equal vectors."""
        digest = hashlib.sha256(self.architecture.model_dump_json().encode())
        digest.update(repr(self.identity()).encode())
        digest.update((self.vocabulary.to_json() if self.vocabulary.words else "").encode())
        for name, tensor in self.state_dict().items():
            digest.update(name.encode())
            digest.update(tensor.detach().cpu().contiguous().numpy().tobytes())
        return digest.hexdigest()

    def identity(self) -> tuple[object, ...]:
        """Further values on which the vectors depend; `fingerprint` hashes their `repr`."""
        return (self.max_length,)

    def texts(self, words: Tensor, lengths: Tensor) -> Tensor:
        """(B, L) int64 word ids and (B,) lengths on the CPU → (B, *shape) vectors."""
        raise NotImplementedError

    def pictures(self, pictures: Tensor) -> Tensor:
        """Features or pixels of B pictures, as in training → (B, *shape) vectors."""
        raise NotImplementedError

    def described(self, pictures: Tensor) -> Tensor:
        """(B, F) features of B pictures, without gradient: stored ones unchanged, pixels through `features`.

        Raises:
            ShapeError: the features have another width.
        """
        with torch.no_grad():
            found: Tensor = pictures if self.features is None else self.features(pictures)
        self.check_width(found)
        return found

    def check_width(self, features: Tensor) -> None:
        """Raise a ShapeError unless the features are (B, `image_width`)."""
        if features.ndim != 2 or features.shape[1] != self.image_width:
            shape, due = tuple(features.shape), self.image_width
            raise ShapeError(f"{self.name}: picture features have shape {shape}, expected (B, {due})")

    def numbers(self, texts: Sequence[str]) -> tuple[Tensor, Tensor]:
        """(B, L) int64 word ids on the device of the weights, and (B,) lengths on the CPU."""
        ids, lengths = self.vocabulary.batch(texts, self.max_length)
        return torch.from_numpy(ids).to(self.device), torch.from_numpy(lengths)

    def encode_text(self, texts: Sequence[str]) -> FloatArray:
        """Texts → (N, *shape) float32 vectors, in evaluation mode."""
        return self._rows(len(texts), lambda some: self.texts(*self.numbers(texts[some])))

    def encode_stories(self, stories: Sequence[Sequence[str]]) -> list[FloatArray]:
        """Stories → (T, D) float32 vectors of each story; by default each step is encoded by itself."""
        return [self.encode_text(story) for story in stories]

    def encode_image(self, pictures: NDArray[Any]) -> FloatArray:
        """Features or pixels of M pictures, as in training → (M, *shape) float32 vectors.

        The input may be memory-mapped.
        """

        def made(some: slice) -> Tensor:
            values = to_tensor(pictures[some], self.device)
            precision = self.precision if values.dtype == torch.uint8 else "float32"
            with autocast(str(self.device), precision):
                return self.pictures(values)

        return self._rows(len(pictures), made)

    def _rows(self, count: int, made: Callable[[slice], Tensor]) -> FloatArray:
        """(N, *shape) outputs of `made`, computed in batches in evaluation mode."""
        found = np.zeros((count, *self.shape), np.float32)
        with evaluating(self):
            for start in range(0, count, ENCODE_BATCH):
                some = slice(start, start + ENCODE_BATCH)
                found[some] = made(some).float().cpu().numpy()
        return found

    def score(self, texts: FloatArray, images: FloatArray) -> FloatArray:
        """(N, D) texts and (M, D) pictures → (N, M) dot products, which are cosines of unit vectors."""
        return scores(texts, images)

    def products(self, texts: Tensor, images: Tensor) -> Tensor:
        """Like `score`, for tensors on any device."""
        return texts @ images.t()

    def scorer(self, texts: FloatArray, images: FloatArray) -> Callable[[Some, Some], Any]:
        """Return a function that scores chosen texts with chosen pictures, on the device of the weights.

        Args:
            texts: (N, *shape) from `encode_text`.
            images: (M, *shape) from `encode_image`.
        Returns:
            Function of Q rows and P columns → (Q, P): an array on the CPU, otherwise a tensor on the device.
        """
        device = self.device
        held = [torch.from_numpy(np.ascontiguousarray(part)).to(device) for part in (texts, images)]

        def some(part: Tensor, which: Some) -> Tensor:
            return part[which] if isinstance(which, slice) else part[torch.from_numpy(which).to(device)]

        def block(rows: Some, columns: Some) -> Any:  # noqa: ANN401  (an array or a tensor)
            with torch.no_grad():
                found = self.products(some(held[0], rows), some(held[1], columns))
            return found.numpy() if device.type == "cpu" else found

        return block

    def relation_terms(self, texts: FloatArray, images: FloatArray) -> tuple[FloatArray, FloatArray]:
        """(N, D), (M, D) → (N, C) text terms with the bias, (M, C) picture terms; a logit is their sum.

        Raises:
            ConfigError: the model predicts no relations, or not linearly.
        """
        raise self._without("relations")

    def relation_table(self, texts: FloatArray, images: FloatArray) -> FloatArray:
        """(N, D) and (M, D) → (N, M, C) logits of all pairs, for blocks of moderate size.

        Raises:
            ConfigError: the model predicts no relations.
        """
        raise self._without("relations")

    def relation_probabilities(self, texts: FloatArray, images: FloatArray) -> FloatArray:
        """(B, D) texts and (B, D) pictures, row by row → (B, C) probability that each relation holds.

        Raises:
            ConfigError: the model predicts no relations.
        """
        raise self._without("relations")

    def attention(self, texts: Sequence[str]) -> list[list[tuple[str, float]]]:
        """The tokens of each text, up to `max_length`, with their attention weights, which sum to 1.

        Raises:
            ConfigError: the model has no attention.
        """
        raise self._without("attention")

    def surprise(self, pictures: Sequence[FloatArray], stories: Sequence[Sequence[str]]) -> Surprise:
        """Surprise of the sentences of stories, given the (T, F) features of each story's pictures.

        Raises:
            ConfigError: the model has no captioner.
        """
        raise self._without("captioner")

    def tell(self, pictures: Sequence[FloatArray]) -> list[list[str]]:
        """(T, F) features of each story's pictures → T generated texts per story.

        Raises:
            ConfigError: the model has no captioner.
        """
        raise self._without("captioner")

    def _without(self, what: str) -> ConfigError:
        return ConfigError(f"{self.name}: this model has no {what}")


class SystemTask(ABC, Generic[C, M]):
    """Training task of a system, which defines `step`; see `limner.research.training.loop.Task`.

    Attributes:
        stories: whether batches consist of whole stories.
    """

    stories: ClassVar[bool] = False

    def __init__(self, model: M, corpus: Corpus, config: C, parts: ModelParts) -> None:
        """Set the model, on its device, the training data and settings, and the parts from which it was
        built.
        """
        self.model: M = model
        self.config = config
        self._batches = TrainingBatches(corpus, model.vocabulary, config, model.device, stories=self.stories)

    @property
    def steps_per_epoch(self) -> int:
        """Number of full batches per epoch, the same in each process."""
        return self._batches.steps_per_epoch

    def batches(self, epoch: int) -> Iterable[Any]:
        """Batches of an epoch."""
        return self._batches.batches(epoch)

    @abstractmethod
    def step(self, batch: Any) -> Mapping[str, Tensor]:  # noqa: ANN401  (most take a `Batch`)
        """Losses by name, as scalars; ``total`` is minimised."""

    def describe(self, batch: Any) -> str:  # noqa: ANN401
        """Ids of a batch's samples."""
        return ", ".join(batch.ids)

    def open(self, folder: Path) -> None:
        """Set the run folder; called before training or restoring."""

    def state_dict(self) -> dict[str, Tensor]:
        """State kept between steps besides the weights; empty by default."""
        return {}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Restore the state that `state_dict` returned."""

    def close(self, folder: Path) -> None:
        """Write files that figures need; called after the last epoch."""


class System(Generic[C, M]):
    """A system that can be trained.

    To add one, write a module with a subclass and one instance of it, ``SYSTEM``.

    Attributes:
        name: name in the registry and in settings files.
        settings: class of its settings.
        model: class of its model.
        training: class of its task.
    """

    name: ClassVar[str]
    settings: type[C]
    model: type[M]
    training: type[SystemTask[C, M]]

    def capabilities(self, config: C) -> Capabilities:
        """Capabilities with given settings."""
        raise NotImplementedError

    def build(self, config: C, parts: ModelParts) -> M:
        """Build a model with random weights from torch's generator."""
        return self.model(config.model, parts)

    def prepare_parts(self, config: C, corpus: Corpus, parts: ModelParts) -> None:
        """Add what only this system needs to the parts of a new run, and what must be stored to `about`."""

    def restore_parts(self, config: C, parts: ModelParts) -> None:
        """Add what only this system needs to the parts of a saved run."""

    def load(self, path: Path, device: str = "cpu", sentences: TextEncoder | None = None) -> tuple[M, C]:
        """Load a trained model, in evaluation mode, and the settings with which it was trained.

        Args:
            path: folder of a run, or the file with its best weights.
            device: device of the model.
            sentences: frozen sentence encoder, if the run uses one; None for the bundled one.
        Raises:
            MissingError: the folder has no trained run.
            CheckpointError: not a checkpoint of this system, damaged, or trained with another sentence
                encoder.
        """
        file = path / BEST if path.is_dir() else path
        tensors, state = checkpoint.load(file)
        about: Any = state.get("config")
        try:
            config = build(self.settings, about["config"], str(file), context=AS_SAVED)
            vocabulary = Vocabulary.from_json(json.dumps(about["vocabulary"]), str(file))
            width = int(about["image_width"])
        except ConfigError as error:
            raise CheckpointError(
                f"{error}; this version of limner cannot read these saved settings: train the run again"
            ) from error
        except (KeyError, TypeError, ValueError) as error:
            raise CheckpointError(
                f"{file}: not a checkpoint of {self.name} ({error}); train one with limner train"
            ) from error
        can = self.capabilities(config)
        backbone, width = self.empty_side(config, width)
        parts = ModelParts(
            vocabulary, width, config.data.max_length, backbone, about=about, tensors=tensors, where=str(file)
        )
        if "sentences" in can.reads:
            from limner.encoders.catalogue import text_encoder

            parts.sentences = sentences if sentences is not None else text_encoder()
            if about.get("sentences") != parts.sentences.fingerprint:
                raise CheckpointError(
                    f"{file}: trained with another sentence encoder than {parts.sentences.name}; install the"
                    " one it was trained with, or train it again"
                )
        self.restore_parts(config, parts)
        model = self.build(config, parts)
        checkpoint.load_into(model, tensors, str(file))
        model.precision = config.loop.precision
        return model.to(device).eval(), config

    def fit(
        self,
        config: C,
        corpus: Corpus,
        folder: Path,
        *,
        validate: Callable[[M], Mapping[str, float]],
        maximise: bool,
        report: Callable[["Event"], object],
    ) -> tuple[Position, bool]:
        """See `limner.research.runs.fit.fit`; for systems whose `Capabilities.gradients` is False."""
        raise NotImplementedError

    def empty_side(self, config: C, width: int) -> tuple[nn.Module | None, int]:
        """The image encoder before its weights are loaded, and F; None and `width` if features are stored."""
        can = self.capabilities(config)
        if can.backbone == "drawings":
            return drawing_backbone(can)
        return (None, width) if can.backbone == "frozen" else empty_backbone(config.data.backbone, can.layer)

    def saved_with(
        self, config: C, corpus: Corpus, vocabulary: Vocabulary, image_width: int
    ) -> dict[str, Any]:
        """Values from which `load` rebuilds the model of a run."""
        saved: dict[str, Any] = {
            "config": config.model_dump(mode="json"),
            "vocabulary": json.loads(vocabulary.to_json()),
            "image_width": image_width,
            "deviations": config.deviations(),
            "validation": {"pairs": len(corpus.val), "of": corpus.held_out or len(corpus.val)},
        }
        stored = self.capabilities(config).backbone == "frozen" and corpus.backbone
        return saved | ({"backbone": stored} if stored else {})


def drawing_backbone(can: Capabilities) -> tuple[nn.Module, int]:
    """Network for drawings, trainable or fixed, and F, the dimension of its features."""
    if not can.trains_backbone:
        return CellColours(), CellColours.width
    backbone = DrawingGrid() if can.layer == "grid" else DrawingNet()
    return FromBytes(backbone), backbone.width


_SHARED = ("base", "picture_side", "text_side")
"""Modules of this package that define no system."""


def names() -> tuple[str, ...]:
    """Names of all systems."""
    return tuple(
        module.name for module in iter_modules([str(Path(__file__).parent)]) if module.name not in _SHARED
    )


def system(name: str) -> System[Any, Any]:
    """Return the system of this name.

    Raises:
        ConfigError: unknown name.
    """
    if name not in names():
        raise ConfigError(unknown("system", name, names()))
    found: System[Any, Any] = import_module(f"{__package__}.{name}").SYSTEM
    return found
