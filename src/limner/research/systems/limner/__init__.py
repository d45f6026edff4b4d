"""limner's own model, of which the encoder `base` is an exported run: settings, training and registration."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field, model_validator
from torch import Tensor, nn
from torch.nn.functional import normalize

from limner.arrays import FloatArray, TextEncoder
from limner.encoders.base_file import BLOCKS, CLASSES, FEATURES, WIDTHS
from limner.encoders.base_network import BaseNet
from limner.encoders.catalogue import MULTILINGUAL, sentence_encoder
from limner.encoders.text_cache import TextCacheFile
from limner.errors import CheckpointError
from limner.research.datasets.features import Features
from limner.research.datasets.mixture import WEIGHT
from limner.research.losses.contrastive import info_nce, info_nce_of_many, same_group
from limner.research.losses.ranking import product
from limner.research.scenes.extra_encoders import TRAITS
from limner.research.systems.base import Capabilities, ModelParts, Reads, System, SystemTask
from limner.research.systems.limner.model import STORED, Limner, LimnerArchitecture, others_mean
from limner.research.training import processes
from limner.research.training.corpus import IN_FILES, Corpus, epoch_order
from limner.research.training.processes import all_gather, rows_per_process
from limner.research.training.settings import RunConfig, every_preset, replaced

DRAWN = 256
"""ImageNet classes per step."""
SIGNAL, NOISE = 0.7, 0.7
"""Weights of a class's direction and of a training picture in synthetic features; chosen on validation."""


class LimnerConfig(RunConfig):
    """Settings of limner's model; it is not from a paper, so all presets are equal.

    Attributes:
        terms: licence terms of the weights in one sentence, for the metadata of the exported file.
        model: see `LimnerArchitecture`.
        heads_epochs: first epochs, in which the blocks of the backbone keep their published weights.
        mirrored: whether to mirror each picture with probability ½.
        together: maximum size of the groups of pictures of one story that are dealt together to batches.
        temperature: τ of the softmax between texts and pictures.
        look_temperature: τ of the softmax between pictures of one story and all others.
        foreign_weight, look_weight: weights of the loss of the multilingual encoder and of the
            picture–picture loss, relative to the loss of MiniLM.
        joined_weight: weight of the loss of the whole text encoder, with context and words; 0 trains only the
            projections of the two sentence encoders, each by its own loss.
        class_weight: weight of the loss on ImageNet class names with synthetic features, see `Classes`; with
            0 it is left out.
    """

    PRINTED: ClassVar[bool] = False
    PRESETS = every_preset(
        {
            "loop": {"betas": (0.9, 0.999), "lr": 1e-3, "schedule": "cosine", "metric": "MRR", "epochs": 40},
            "data": {"backbone": "efficientnet-lite2", "batch": 256, "vectors": "random", "min_count": 3},
            "model": {"changed_from": BLOCKS + 1, "dropout": 0.75},
        }
    )
    ROW = frozenset({"model.reads", "model.context", "model.words", "data.beside"})
    SMOKE: ClassVar[Mapping[str, Any]] = {"model": {"width": 16, "looks": 8}}
    DRAWS_BY_WEIGHT: ClassVar[bool] = True
    READS_BESIDE: ClassVar[bool] = True

    system: Literal["limner"] = "limner"
    terms: str = ""
    model: LimnerArchitecture = LimnerArchitecture()
    heads_epochs: int = Field(default=10, ge=0)
    mirrored: bool = True
    together: int = Field(default=4, ge=1)
    temperature: float = Field(default=0.045, gt=0)
    look_temperature: float = Field(default=0.1, gt=0)
    foreign_weight: float = Field(default=1.0, ge=0)
    look_weight: float = Field(default=1.0, ge=0)
    joined_weight: float = Field(default=1.0, ge=0)
    class_weight: float = Field(default=0.0, ge=0)

    @model_validator(mode="before")
    @classmethod
    def _no_drawings(cls, values: Any) -> Any:  # noqa: ANN401  (as pydantic hands it on)
        if isinstance(values, Mapping) and values.get("backbone") == "drawings":
            raise ValueError(IN_FILES)
        return values

    @model_validator(mode="after")
    def _traits_stand_last(self) -> Self:
        if TRAITS in self.data.beside[:-1]:
            raise ValueError(f"data.beside: name {TRAITS!r} last, found {list(self.data.beside)}")
        return self

    def smoke(self) -> "LimnerConfig":
        """See `RunConfig.smoke`."""
        own = {"heads_epochs": min(self.heads_epochs, 1), "data": {"backbone": self.data.backbone}}
        small: LimnerConfig = replaced(super().smoke(), own)
        return small


class Classes:
    """Samples ImageNet classes and makes synthetic features for them."""

    def __init__(self, net: BaseNet, features: Tensor, english: TextEncoder, foreign: TextEncoder) -> None:
        """Compute the direction of each class in feature space.

        Args:
            net: network with its published classifier and the moments of the features.
            features: (P, F) features of training pictures from the published backbone.
            english: encoder of English sentences.
            foreign: multilingual sentence encoder.
        Source: linear discriminant analysis: the mean of a class with weights w is along Σ w, where Σ is the
            covariance of the features.
        """
        from torchvision.models import ResNet50_Weights

        names = ResNet50_Weights.IMAGENET1K_V2.meta["categories"]
        texts = [f"a photo of a {name}" for name in names]
        device = features.device
        self._english = torch.from_numpy(english.encode_text(texts)).to(device)
        self._foreign = torch.from_numpy(foreign.encode_text(texts)).to(device)
        backbone: Any = net.backbone
        weights = backbone._fc.weight.detach()
        last = features[:, FEATURES - WIDTHS[-1] :]
        self._standard = (features - net.feature_mean) / net.feature_deviation
        varied = (last - last.mean(dim=0)) @ (weights - weights.mean(dim=0)).t()  # (P, 1000)
        length = self._standard.norm(dim=1).mean()
        self._directions = normalize(varied.t() @ self._standard, dim=1) * length
        self._mean, self._deviation = net.feature_mean, net.feature_deviation

    def loss(self, net: BaseNet, temperature: float) -> Tensor:
        """Sum of the InfoNCE losses of both text encoders on synthetic features of sampled classes."""
        device = self._standard.device
        chosen = torch.randperm(CLASSES)[:DRAWN].to(device)
        mixed = torch.randint(len(self._standard), (len(chosen),)).to(device)
        made = SIGNAL * self._directions[chosen] + NOISE * self._standard[mixed]
        pictures = net.joint(made * self._deviation + self._mean)
        wrong = ~torch.eye(len(chosen), dtype=torch.bool, device=device)
        sides = (net.sentence(self._english[chosen]), net.foreign(self._foreign[chosen]))
        first, second = (info_nce(product(side, pictures.t()) / temperature, wrong) for side in sides)
        return first + second


@dataclass(frozen=True)
class PictureBatch:
    """B pictures with all their texts, T in total.

    Attributes:
        ids: (T,) ids of the pairs.
        texts: (T,) int64 training rows of the pairs.
        owners: (T,) int64 picture of each text, as an index below B.
        rows: (P, R) stored rows of this process's P pictures.
        neg: (T, B) bool, wrong pictures for each text.
        stories: (B,) int64, equal for pictures of one story.
        shares: number of pictures of each process, with sum B; P is one of them.
        text_shares: number of texts of each process, with sum T.
        own_texts: training rows of this process's texts.
    """

    ids: tuple[str, ...]
    texts: Tensor
    owners: Tensor
    rows: Tensor
    neg: Tensor
    stories: Tensor
    shares: tuple[int, ...]
    text_shares: tuple[int, ...]
    own_texts: Tensor


class LimnerTask(SystemTask[LimnerConfig, Limner]):
    """Training objective, on batches of pictures with all their texts.

    The context of training texts is constant and computed once.
    """

    def __init__(self, model: Limner, corpus: Corpus, config: LimnerConfig, parts: ModelParts) -> None:
        """Prepare training: encode all texts, and compute the directions of ImageNet classes if used."""
        super().__init__(model, corpus, config, parts)
        self._corpus = corpus
        sentences, multilingual = parts.sentences, parts.multilingual
        assert sentences is not None and multilingual is not None  # noqa: S101, PT018  (declared)
        self._english = torch.from_numpy(sentences.encode_text(corpus.train.texts))
        sentences.encode_text(corpus.val.texts)
        self._foreign = torch.from_numpy(multilingual.encode_text(corpus.train.texts))
        self._context = context_of(corpus, torch.cat([self._english, self._foreign], dim=1))
        self._bags = model.bags(corpus.train.texts)
        self._classes = None
        if config.class_weight:
            features = corpus.pictures.take(np.unique(corpus.train.places))[:, model.maps :].astype(
                np.float32
            )
            shown = torch.from_numpy(features).to(model.device)
            self._classes = Classes(model.net, shown, sentences, multilingual)
        rows = corpus.train
        _, first, pictures = np.unique(rows.image_ids, return_index=True, return_inverse=True)
        self._texts = [np.flatnonzero(pictures == picture) for picture in range(len(first))]
        pairs = [rows.pairs[row] for row in first]
        self._places = rows.places[first]
        self._weights = np.array([float(pair.meta.get(WEIGHT) or 1.0) for pair in pairs])
        mixture = config.data.mixture
        self._sets = [pair.group.partition(":")[0] if mixture else "" for pair in pairs]
        names = {pair.seq: number for number, pair in enumerate(pairs) if pair.seq}
        self._stories = np.array(
            [names[pair.seq] if pair.seq else -1 - number for number, pair in enumerate(pairs)], np.int64
        )
        self._size = min(config.data.batch, len(pairs))
        self._steps = len(self._dealt(0))

    @property
    def steps_per_epoch(self) -> int:
        """Number of batches per epoch."""
        return self._steps

    def batches(self, epoch: int) -> Iterator[PictureBatch]:
        """Batches of an epoch, determined by seed and epoch."""
        frozen = self.config.model.changed_from > BLOCKS
        self.model.as_published = frozen or epoch < self.config.heads_epochs
        dealt = self._dealt(epoch)
        for step in range(self._steps):
            random = np.random.default_rng([self.config.loop.seed, epoch, step])
            yield self._batch(dealt[step], random)

    def _dealt(self, epoch: int) -> list[NDArray[np.int64]]:
        """The pictures of each batch; the number of batches is the same in each epoch."""
        config, seed = self.config, self.config.loop.seed
        order = epoch_order(self._weights, seed, epoch)
        random = np.random.default_rng([seed, epoch, 1])
        dealt: list[NDArray[np.int64]] = []
        for name in dict.fromkeys(
            self._sets
        ):  # a batch has pictures of one set only, because other sets would be easy negatives
            own = [int(row) for row in order if self._sets[row] == name]
            waiting: dict[int, list[int]] = {}
            chunks: list[list[int]] = []
            for row in own:
                begun = waiting.setdefault(int(self._stories[row]), [])
                begun.append(row)
                if len(begun) == config.together:
                    chunks.append(waiting.pop(int(self._stories[row])))
            chunks += waiting.values()
            joined = [row for chunk in random.permutation(len(chunks)) for row in chunks[chunk]]
            count = max(1, round(len(joined) / self._size))
            dealt += [part for part in np.array_split(np.array(joined, np.int64), count) if len(part) > 1]
        return [dealt[number] for number in random.permutation(len(dealt))]

    def _batch(self, chosen: NDArray[np.int64], random: np.random.Generator) -> PictureBatch:
        # a picture may occur twice in an epoch, but twice in a batch it would be its own negative
        chosen = chosen[np.sort(np.unique(chosen, return_index=True)[1])]
        rows, device = self._corpus.train, self.model.device
        turned = random.random(len(chosen)) < 0.5
        shares = rows_per_process(len(chosen))
        start = sum(shares[: processes.rank()])
        own = slice(start, start + shares[processes.rank()])
        values = self._rows(self._places[chosen[own]], turned[own])
        counts = [len(self._texts[picture]) for picture in chosen]
        ends = np.cumsum([0, *counts])
        edges = ends[np.cumsum([0, *shares])].tolist()
        texts = np.concatenate([self._texts[picture] for picture in chosen])
        owners = np.repeat(np.arange(len(chosen)), counts)
        said = rows.text_ids[texts]
        right = np.zeros((len(texts), len(chosen)), bool)
        for column in range(len(chosen)):  # a picture is also correct for texts equal to one of its own
            right[:, column] = np.isin(said, said[owners == column])
        return PictureBatch(
            tuple(rows.pairs[row].id for row in texts),
            torch.from_numpy(texts),
            torch.from_numpy(owners).to(device),
            torch.from_numpy(values).to(device),
            torch.from_numpy(~right).to(device),
            torch.from_numpy(self._stories[chosen]).to(device),
            tuple(shares),
            tuple(end - start for start, end in pairwise(edges)),
            torch.from_numpy(texts[edges[processes.rank()] : edges[processes.rank() + 1]]),
        )

    def _rows(self, places: NDArray[np.int64], turned: NDArray[np.bool_]) -> FloatArray:
        pictures = self._corpus.pictures
        if isinstance(pictures, Features):
            return pictures.turned(places, turned)
        found: FloatArray = pictures.take(places).astype(np.float32)
        return found

    def sides(self, batch: PictureBatch) -> dict[str, tuple[Tensor, float]]:
        """As `readings`, with each sentence encoder by itself, as libraries use it."""
        net = self.model.net
        return {
            "english": (self._read(net.sentence, self._english, batch), 1.0),
            "foreign": (self._read(net.foreign, self._foreign, batch), self.config.foreign_weight),
        }

    def readings(self, batch: PictureBatch) -> dict[str, tuple[Tensor, float]]:
        """Name of a text encoder → (T, D) unit vectors of the texts, and the weight of its loss."""
        if not self.config.joined_weight:
            return self.sides(batch)
        some, device = batch.own_texts, self.model.device
        vectors = (self._english, self._foreign, self._context)
        english, foreign, context = (part[some].to(device) for part in vectors)
        joined = self.model.read(english, foreign, context, [self._bags[row] for row in some.tolist()])
        return self.sides(batch) | {
            "joined": (all_gather(joined, batch.text_shares), self.config.joined_weight)
        }

    def _read(self, side: nn.Module, vectors: Tensor, batch: PictureBatch) -> Tensor:
        """(T, D) vectors of all processes' texts, each encoded by its own process."""
        return all_gather(side(vectors[batch.own_texts].to(self.model.device)), batch.text_shares)

    def contrast(self, name: str, texts: Tensor, pictures: Tensor, batch: PictureBatch) -> Tensor:
        """InfoNCE loss of (T, D) texts, encoded by the encoder of this name, with (B, D) pictures."""
        logits = product(texts, pictures.t()) / self.config.temperature
        return info_nce_of_many(logits, batch.owners, batch.neg)

    def step(self, batch: PictureBatch) -> Mapping[str, Tensor]:
        """Losses by name: InfoNCE per text encoder, and contrastive losses of pictures and of classes."""
        config, net = self.config, self.model.net
        features = self.model.features_of(batch.rows)
        pictures = all_gather(self.model.joint(features, batch.rows), batch.shares)
        losses, total = {}, pictures.new_zeros(())
        for name, (texts, weight) in self.readings(batch).items():
            losses[name] = self.contrast(name, texts, pictures, batch)
            total = total + weight * losses[name]
        stories = batch.stories
        if config.look_weight and bool((stories[:, None] == stories).sum() > len(stories)):
            # no gradient from the picture–picture loss to the backbone
            looks = all_gather(self.model.looks(features.detach(), batch.rows), batch.shares)
            own = torch.arange(len(stories), device=stories.device)
            losses["looks"] = same_group(looks, stories, own, config.look_temperature)
            total = total + config.look_weight * losses["looks"]
        if self._classes is not None:
            losses["classes"] = self._classes.loss(net, config.temperature)
            total = total + config.class_weight * losses["classes"]
        return losses | {"total": total}


def context_of(corpus: Corpus, vectors: Tensor) -> Tensor:
    """(N, W) vectors of all training texts → (N, W) means of the other steps of their stories.

    If a picture has several texts, each counts as a step of its own; texts without a story have zero context.
    """
    members: dict[str, list[int]] = {}
    for row, pair in enumerate(corpus.train.pairs):
        if pair.seq:
            members.setdefault(pair.seq, []).append(row)
    found = torch.zeros_like(vectors)
    rows = [row for own in members.values() for row in own]
    if rows:
        found[rows] = others_mean(vectors[rows], torch.tensor([len(own) for own in members.values()]))
    return found


__all__ = ["SYSTEM", "Limner", "LimnerArchitecture", "LimnerConfig", "LimnerSystem", "LimnerTask"]

KEY = "multilingual"
"""Name of the multilingual encoder's fingerprint in a run's weights."""


class LimnerSystem(System[LimnerConfig, Limner]):
    """Registration of limner's own model."""

    name = "limner"
    settings = LimnerConfig
    model = Limner
    training = LimnerTask

    def capabilities(self, config: LimnerConfig) -> Capabilities:
        """Encodes whole stories with two sentence encoders; libraries use the exported file."""
        both: frozenset[Reads] = frozenset({"sentences", "multilingual"})
        return Capabilities(
            stories=True,
            reads=both | {"words"} if config.model.words else both,
            no_library="must be exported for libraries, as a file of the encoder base; use limner models"
            " export, or evaluate the run itself with limner measure",
            layer="described" if config.model.changed_from > BLOCKS else "blocks",
            mirrored=config.mirrored,
        )

    def build(self, config: LimnerConfig, parts: ModelParts) -> Limner:
        """Build the model, with traits if the rows have them."""
        return Limner(config.model, parts, traits=TRAITS in config.data.beside)

    def prepare_parts(self, config: LimnerConfig, corpus: Corpus, parts: ModelParts) -> None:
        """Collect both encoders, and the facts about the stored rows that must be saved."""
        if corpus.backbone is not None:
            parts.about[STORED] = corpus.backbone
        assert parts.sentences is not None and parts.multilingual is not None  # noqa: S101, PT018  (declared)
        folder = Path(config.data.features)
        parts.sentences = TextCacheFile(parts.sentences, folder)
        parts.multilingual = TextCacheFile(parts.multilingual, folder)
        parts.about[KEY] = parts.multilingual.fingerprint

    def restore_parts(self, config: LimnerConfig, parts: ModelParts) -> None:
        """Load the multilingual encoder, and check that it is the one of training.

        Raises:
            CheckpointError: another version is installed.
        """
        found = sentence_encoder(MULTILINGUAL)
        if parts.about.get(KEY) != found.fingerprint:
            raise CheckpointError(
                f"{parts.where}: trained on vectors of another {found.name} encoder; install"
                " that version of it, or train again"
            )
        parts.multilingual = found


SYSTEM = LimnerSystem()
