"""Interface of a system: settings, model, batches, losses and capabilities.

A system states these; everything that all of them do alike, from a fresh model to a saved one, is here.
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
    "does not score by the cosine of two vectors, a library does; use a run of another system, or limner"
    " measure for this one"
)
"""See `Capabilities.no_library`."""
C = TypeVar("C", bound=RunConfig)
M = TypeVar("M", bound="Model")


@dataclass(frozen=True)
class RefinedScores:
    """Refinement of scores by predicted relations.

    Attributes:
        form: form of the refinement.
        strength, threshold: where the settings state them; None chooses on validation.
    """

    form: Literal["multiply", "add"]
    strength: float | None = None
    threshold: float | None = None


@dataclass(frozen=True)
class Capabilities:
    """Capabilities of a system with given settings.

    Attributes:
        stories: encodes the steps of a story together.
        reads: what texts are read by: the "words" of the training texts, frozen encoders, or nothing: then it
            compares pictures with pictures.
        trains_with: frozen encoders of texts that training alone needs.
        no_library: what keeps a library from being indexed with a run, as it goes on after the name of the
            system; "" if nothing does.
        backbone: "frozen", whose features are stored; a small net over the pixels of "drawings"; or one to
            "finetune".
        layer: layer of the features: vectors ("pooled", "stages", "described"), a "grid", or rows of
            "blocks".
        trains_backbone: what drawings go through is trained along; else it is fixed.
        mirrored: features of mirrored training pictures are wanted as well.
        gradients: trains in steps; where False, it is fitted at once.
        refinement: refinement of scores by the relations that it predicts; None if it predicts none.
        attention: weighs the words of a text.
        captions: tells stories from pictures.
        margin: margin of the validation loss, score units.
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
        """Frozen encoders of texts that training needs."""
        return (self.reads | self.trains_with) - {"words"}

    def backbone_words(self, architecture: str) -> str:
        """Whose features the pictures are, and whether they were trained: ``resnet50 frozen``.

        Args:
            architecture: architecture of the backbone that is frozen or trained.
        """
        if self.backbone == "drawings":
            return "net for drawings trained" if self.trains_backbone else "colours of drawings frozen"
        if self.layer == "blocks":
            return f"{architecture}, last blocks trained"
        return f"{architecture} {'frozen' if self.backbone == 'frozen' else 'trained'}"


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Evaluation mode without gradients; the mode before comes back, also after an error."""
    before = model.training
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        model.train(before)


def to_tensor(values: NDArray[Any], device: torch.device) -> Tensor:
    """Features as float32, bytes as they are."""
    plain = values if values.dtype == np.uint8 else values.astype(np.float32, copy=False)
    # A copy where the array is read-only (memory-mapped), which torch refuses to share.
    return torch.from_numpy(plain if plain.flags.writeable else plain.copy()).to(device)


@dataclass
class Parts:
    """Inputs of a model's constructor, from the training rows of a new run or from the file of a saved one.

    Attributes:
        vocabulary: words of the training texts.
        image_width: F of the picture features.
        max_length: words of a text that count.
        backbone: bytes of pictures → features, trained along or fixed; None if features are stored.
        vectors: (V, E) where word vectors start; None draws them.
        sentences, multilingual: frozen encoders of texts.
        about: what a system keeps of a run beside weights and settings, as JSON values.
        tensors: the weights of a run that is read back; of a new one those that a system alone starts with.
        where: the file, for messages.
        notes: lines for whoever trains.
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
        nats: (S,) negative log-likelihood of each sentence, its end included, unless it is cut before it.
        tokens: (S,) words and 1 for the end.
        unknown: (S,) words among them that the vocabulary lacks, all of them one class.
    """

    nats: NDArray[np.float64]
    tokens: NDArray[np.int64]
    unknown: NDArray[np.int64]


class Model(nn.Module):
    """Texts and pictures in one space: what retrieval and evaluation ask of every system's model.

    A subclass gives `pictures`, and `texts` where it reads texts by their words; `features` where pictures
    are described by something fixed.

    Attributes:
        name: name of the model, for messages.
        architecture: its settings.
        vocabulary, max_length: of the texts it reads.
        image_width: F of a picture's features.
        features: bytes of pictures → (B, F), fixed; None if features are stored.
        relations: C names, where it predicts some.
        separable: whether a relation's logit is a text term plus a picture term.
        precision: precision of products where `encode_image` takes pixels; features that are stored keep
            their own.
    """

    name: ClassVar[str] = ""
    precision: Precision = "float32"
    features: nn.Module | None
    relations: tuple[str, ...] = ()

    def __init__(self, architecture: Any, parts: Parts) -> None:  # noqa: ANN401  (a system's own sizes)
        """Set the common parts of a model; a subclass initialises its weights from torch's generator."""
        super().__init__()
        self.architecture = architecture
        self.vocabulary, self.max_length = parts.vocabulary, parts.max_length
        self.image_width = parts.image_width

    def settle(self, corpus: Corpus) -> None:
        """Compute constants, such as the mean feature, from the training rows."""

    @property
    def dim(self) -> int:
        """D, the width of a vector."""
        return int(self.architecture.dim)

    @property
    def shape(self) -> tuple[int, ...]:
        """Of what is made of one text or picture."""
        return (self.dim,)

    @property
    def device(self) -> torch.device:
        """Where the weights lie."""
        return next(chain(self.parameters(), self.buffers())).device

    @property
    def separable(self) -> bool:
        """Whether relation logits are a text term plus a picture term."""
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
        """Further values that change a vector, by their `repr`."""
        return (self.max_length,)

    def texts(self, words: Tensor, lengths: Tensor) -> Tensor:
        """(B, L) int64 words and (B,) lengths on the CPU → (B, *shape)."""
        raise NotImplementedError

    def pictures(self, pictures: Tensor) -> Tensor:
        """B features or bytes, as in training → (B, *shape)."""
        raise NotImplementedError

    def described(self, pictures: Tensor) -> Tensor:
        """Features as they are, or those of drawn pictures' bytes: (B, F), constants.

        Raises:
            ShapeError: features of another width.
        """
        with torch.no_grad():
            found: Tensor = pictures if self.features is None else self.features(pictures)
        self.check_width(found)
        return found

    def check_width(self, features: Tensor) -> None:
        """Reject features that are no vectors of the width the model was made for."""
        if features.ndim != 2 or features.shape[1] != self.image_width:
            shape, due = tuple(features.shape), self.image_width
            raise ShapeError(f"{self.name}: picture features have shape {shape}, expected (B, {due})")

    def numbers(self, texts: Sequence[str]) -> tuple[Tensor, Tensor]:
        """(B, L) int64 words on the weights' device, and (B,) lengths on the CPU."""
        ids, lengths = self.vocabulary.batch(texts, self.max_length)
        return torch.from_numpy(ids).to(self.device), torch.from_numpy(lengths)

    def encode_text(self, texts: Sequence[str]) -> FloatArray:
        """Texts → (N, *shape) float32 unit rows, in evaluation mode."""
        return self._rows(len(texts), lambda some: self.texts(*self.numbers(texts[some])))

    def encode_stories(self, stories: Sequence[Sequence[str]]) -> list[FloatArray]:
        """Stories → per story (T, D) float32 unit rows; here each step by itself."""
        return [self.encode_text(story) for story in stories]

    def encode_image(self, pictures: NDArray[Any]) -> FloatArray:
        """M features or bytes, as in training → (M, *shape) float32 unit rows; may be memory-mapped."""

        def made(some: slice) -> Tensor:
            values = to_tensor(pictures[some], self.device)
            precision = self.precision if values.dtype == torch.uint8 else "float32"
            with autocast(str(self.device), precision):
                return self.pictures(values)

        return self._rows(len(pictures), made)

    def _rows(self, count: int, made: Callable[[slice], Tensor]) -> FloatArray:
        """(N, *shape) of some rows at a time, in evaluation mode."""
        found = np.zeros((count, *self.shape), np.float32)
        with evaluating(self):
            for start in range(0, count, ENCODE_BATCH):
                some = slice(start, start + ENCODE_BATCH)
                found[some] = made(some).float().cpu().numpy()
        return found

    def score(self, texts: FloatArray, images: FloatArray) -> FloatArray:
        """(N, D) and (M, D) unit rows → (N, M) cosines."""
        return scores(texts, images)

    def products(self, texts: Tensor, images: Tensor) -> Tensor:
        """Scores like `score`, of tensors on any device."""
        return texts @ images.t()

    def scorer(self, texts: FloatArray, images: FloatArray) -> Callable[[Some, Some], Any]:
        """Scores of any texts with any pictures, made on the device of the weights when they are asked for.

        Args:
            texts: (N, *shape), as `encode_text` gives them.
            images: (M, *shape), as `encode_image` gives them.
        Returns:
            (Q rows, P columns) → (Q, P): an array if that device is the CPU, else a tensor there.
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
        """(N, D), (M, D) → (N, C) text terms with the bias, (M, C) picture terms; logits are their sums."""
        raise self._without("relations")

    def relation_table(self, texts: FloatArray, images: FloatArray) -> FloatArray:
        """(N, D) and (M, D) → (N, M, C) logits of all pairs, for blocks of moderate size."""
        raise self._without("relations")

    def relation_probabilities(self, texts: FloatArray, images: FloatArray) -> FloatArray:
        """(B, D) and (B, D), row by row a pair → (B, C) probability that each relation holds."""
        raise self._without("relations")

    def attention(self, texts: Sequence[str]) -> list[list[tuple[str, float]]]:
        """Per text, its tokens (as many as count) and their weights, which sum to 1."""
        raise self._without("attention")

    def surprise(self, pictures: Sequence[FloatArray], stories: Sequence[Sequence[str]]) -> Surprise:
        """Surprise of sentences given the features of their pictures, (T, F) per story."""
        raise self._without("captioner")

    def tell(self, pictures: Sequence[FloatArray]) -> list[list[str]]:
        """Per story (T, F) features of its pictures → T generated texts."""
        raise self._without("captioner")

    def _without(self, what: str) -> ConfigError:
        return ConfigError(f"{self.name}: this model has no {what}")


class SystemTask(ABC, Generic[C, M]):
    """Training task of a system, which adds `step`; see `limner.research.training.loop.Task`.

    Attributes:
        stories: whether batches are of whole stories.
    """

    stories: ClassVar[bool] = False

    def __init__(self, model: M, corpus: Corpus, config: C, parts: Parts) -> None:
        """Take the model, on its device, what it trains on, and what it was made of."""
        self.model: M = model
        self.config = config
        self._batches = TrainingBatches(corpus, model.vocabulary, config, model.device, stories=self.stories)

    @property
    def steps_per_epoch(self) -> int:
        """Whole batches of one process."""
        return self._batches.steps_per_epoch

    def batches(self, epoch: int) -> Iterable[Any]:
        """Batches of an epoch."""
        return self._batches.batches(epoch)

    @abstractmethod
    def step(self, batch: Any) -> Mapping[str, Tensor]:  # noqa: ANN401  (most take a `Batch`)
        """Scalar losses by name; ``total`` is the one to minimise."""

    def describe(self, batch: Any) -> str:  # noqa: ANN401
        """Ids of a batch's samples."""
        return ", ".join(batch.ids)

    def open(self, folder: Path) -> None:
        """Told the folder of the run, before anything is trained or remembered."""

    def memory(self) -> dict[str, Tensor]:
        """What is kept between steps beside the weights; nothing, unless a system says otherwise."""
        return {}

    def remember(self, memory: Mapping[str, Tensor]) -> None:
        """Go on from what `memory` gave."""

    def close(self, folder: Path) -> None:
        """Write beside the weights what figures need, when the last epoch has ended."""


class System(Generic[C, M]):
    """A system that can be trained: a subclass, made once per module as ``SYSTEM``, is all that a new one is.

    Attributes:
        name: in the registry and in settings files.
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

    def build(self, config: C, parts: Parts) -> M:
        """A model whose weights are drawn from torch's generator."""
        return self.model(config.model, parts)

    def gather(self, config: C, corpus: Corpus, parts: Parts) -> None:
        """Add to the parts of a new run what only this system needs, and to `about` what must be kept."""

    def recall(self, config: C, parts: Parts) -> None:
        """Add to the parts of a run that is read back what only this system needs."""

    def load(self, path: Path, device: str = "cpu", sentences: TextEncoder | None = None) -> tuple[M, C]:
        """A trained model in evaluation mode, and the settings it was trained with.

        Args:
            path: folder of a run, or the file of its best weights.
            device: where it goes.
            sentences: encoder of texts, where the run has one; None for the one that needs no download.
        Raises:
            MissingError: nothing was trained there yet.
            CheckpointError: not a checkpoint of this system, damaged, or of another encoder of sentences.
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
        parts = Parts(
            vocabulary, width, config.data.max_length, backbone, about=about, tensors=tensors, where=str(file)
        )
        if "sentences" in can.reads:
            from limner.encoders.catalogue import text_encoder

            parts.sentences = sentences if sentences is not None else text_encoder()
            if about.get("sentences") != parts.sentences.fingerprint:
                raise CheckpointError(
                    f"{file}: trained on vectors of another encoder of sentences than"
                    f" {parts.sentences.name}; install that version of it, or train again"
                )
        self.recall(config, parts)
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
        """As `limner.research.runs.fit.fit`, where `Capabilities.gradients` is False."""
        raise NotImplementedError

    def empty_side(self, config: C, width: int) -> tuple[nn.Module | None, int]:
        """The picture side with weights yet to come from a checkpoint, and F; `width` where it is stored."""
        can = self.capabilities(config)
        if can.backbone == "drawings":
            return drawing_backbone(can)
        return (None, width) if can.backbone == "frozen" else empty_backbone(config.data.backbone, can.layer)

    def saved_with(
        self, config: C, corpus: Corpus, vocabulary: Vocabulary, image_width: int
    ) -> dict[str, Any]:
        """Values that `load` needs to build the model of a run again."""
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
    """Network of drawings, a small net or fixed colours, and the width of its features."""
    if not can.trains_backbone:
        return CellColours(), CellColours.width
    backbone = DrawingGrid() if can.layer == "grid" else DrawingNet()
    return FromBytes(backbone), backbone.width


_SHARED = ("base", "picture_side", "text_side")
"""Modules that declare no system."""


def names() -> tuple[str, ...]:
    """Systems that exist."""
    return tuple(
        module.name for module in iter_modules([str(Path(__file__).parent)]) if module.name not in _SHARED
    )


def system(name: str) -> System[Any, Any]:
    """A system by its name.

    Raises:
        ConfigError: no such system.
    """
    if name not in names():
        raise ConfigError(unknown("system", name, names()))
    found: System[Any, Any] = import_module(f"{__package__}.{name}").SYSTEM
    return found
