"""Training of the encoder base: texts with their pictures, looks, and the backbone's last blocks.

The blocks before are computed once. It is of no paper: its run is exported as the file that limner ships.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field, model_validator
from torch import Tensor, nn
from torch.nn.functional import normalize

from limner.arrays import FloatArray, TextEncoder
from limner.encoders.base_blocks import FIRST, MAPS, features_of, open_blocks
from limner.encoders.base_file import BLOCKS, CLASSES, FEATURES, WIDTHS, BaseCard, BaseShape
from limner.encoders.base_network import BaseNet, Words, published_backbone, save_base
from limner.encoders.text_cache import StoredTexts
from limner.errors import ConfigError, ShapeError
from limner.research.datasets.features import Features, precision_of
from limner.research.datasets.mixture import WEIGHT
from limner.research.losses.checks import product
from limner.research.losses.contrastive import info_nce, info_nce_of_many, same_group
from limner.research.systems.base import Capabilities, Model, Parts, System, Task, evaluating, feature_moments
from limner.research.training import checkpoint, processes
from limner.research.training.batches import epoch_order
from limner.research.training.corpus import IN_FILES, Corpus
from limner.research.training.loop import BEST
from limner.research.training.settings import RunConfig, every_preset, replaced
from limner.research.training.shares import share_of, whole

STORED = "backbone"
"""Of what made the stored rows, beside the weights of a run."""
DRAWN = 256
"""Classes of a step."""
SIGNAL, NOISE = 0.7, 0.7
"""Shares of a class's direction and of some training picture in a made-up picture; chosen on validation."""


class BaseArchitecture(BaseShape):
    """Sizes of the network, and what is left out of it in training.

    Attributes:
        dropout: share of the picture's features, and of hidden units.
        text_dropout: share of a sentence vector's entries.
        look_dropout: share of the features that looks read.
    """

    changed_from: int = Field(default=FIRST, ge=FIRST, le=BLOCKS + 1)
    looks: int = Field(default=256, ge=1, le=4096)
    last_stage: int = Field(default=4, ge=0, le=7)
    dropout: float = Field(default=0.7, ge=0, lt=1)
    text_dropout: float = Field(default=0.1, ge=0, lt=1)
    look_dropout: float = Field(default=0.5, ge=0, lt=1)

    @property
    def shape(self) -> BaseShape:
        """The sizes alone."""
        return BaseShape(**{name: getattr(self, name) for name in BaseShape.model_fields})


class BaseConfig(RunConfig):
    """One run of the encoder base; it is of no paper, so all presets are the same.

    Attributes:
        terms: what may be done with the weights, in one sentence, for the card of the exported file.
        model: see `BaseArchitecture`.
        heads_epochs: first epochs, in which the projections learn and the backbone stays as published.
        mirrored: show half of the pictures mirrored.
        apart: whether a batch holds pictures of one data set alone, so that no other makes it easy.
        together: pictures of one story that come into a batch together, at most.
        temperature: τ of the softmax between texts and pictures.
        look_temperature: τ of the softmax between pictures of a story and all others.
        foreign_weight, look_weight: of the multilingual text side and of looks beside the English text side.
        class_weight: of the names of ImageNet's classes with what the published classifier takes for their
            pictures, see `Classes`; 0 leaves them out.
    """

    PRESETS = every_preset(
        {
            "loop": {"betas": (0.9, 0.999), "lr": 1e-3, "schedule": "cosine", "metric": "MRR"},
            "data": {"backbone": "efficientnet-lite2", "batch": 256},
        }
    )
    SMOKE: ClassVar[Mapping[str, Any]] = {"model": {"width": 16, "looks": 8}}
    DRAWS_BY_WEIGHT: ClassVar[bool] = True

    system: Literal["base"] = "base"
    terms: str = ""
    model: BaseArchitecture = BaseArchitecture()
    heads_epochs: int = Field(default=10, ge=0)
    mirrored: bool = True
    apart: bool = True
    together: int = Field(default=4, ge=1)
    temperature: float = Field(default=0.045, gt=0)
    look_temperature: float = Field(default=0.1, gt=0)
    foreign_weight: float = Field(default=1.0, ge=0)
    look_weight: float = Field(default=1.0, ge=0)
    class_weight: float = Field(default=0.0, ge=0)

    @model_validator(mode="before")
    @classmethod
    def _no_drawings(cls, values: Any) -> Any:  # noqa: ANN401  (as pydantic hands it on)
        if isinstance(values, Mapping) and values.get("backbone") == "drawings":
            raise ValueError(IN_FILES)
        return values

    def smoke(self) -> "BaseConfig":
        """See `RunConfig.smoke`."""
        own = {"heads_epochs": min(self.heads_epochs, 1), "data": {"backbone": self.data.backbone}}
        small: BaseConfig = replaced(super().smoke(), own)
        return small


class BaseModel(Model):
    """The network over stored rows, with the encoder of English sentences; what validation ranks with.

    Attributes:
        as_published: the last blocks are as published, still or for good, so the features in the rows are
            theirs.
        maps: numbers that stand before the features in stored rows: 0 where no block is ever trained.
        blocks_in: what the last blocks multiply in: as those whose features were stored.
    """

    name = "base"

    def __init__(self, architecture: BaseArchitecture, parts: Parts) -> None:
        """Draw the projections from torch's generator."""
        super().__init__(architecture, parts)
        assert parts.sentences is not None  # noqa: S101  (declared)
        self.sentences = parts.sentences
        self.net = BaseNet(architecture.shape, published_backbone(), architecture.dropout)
        for side in (self.net.sentence, self.net.foreign):
            side.dropout.p = architecture.text_dropout
        self.net.look.dropout.p = architecture.look_dropout
        self.as_published = architecture.changed_from > BLOCKS
        self.maps = 0 if self.as_published else MAPS
        stored = parts.about.get(STORED)
        exact = isinstance(stored, dict) and precision_of(str(stored.get("transform"))) == "float32"
        self.blocks_in = torch.float32 if exact else torch.bfloat16
        if self.as_published and self.image_width >= MAPS:  # an older run's rows had maps that it never read
            self.image_width -= MAPS
        open_blocks(self.net, architecture.changed_from)

    def features_of(self, rows: Tensor) -> Tensor:
        """(B, R) stored rows → (B, F) features.

        Raises:
            ShapeError: rows of another width.
        """
        due = max(self.image_width, self.row)
        if rows.ndim != 2 or rows.shape[1] != due:
            raise ShapeError(f"{self.name}: rows have shape {tuple(rows.shape)}, expected (B, {due})")
        if self.as_published:
            return rows[:, self.maps : self.row]
        return features_of(self.net, rows[:, : self.row], self.blocks_in)

    @property
    def row(self) -> int:
        """R of the backbone's own rows: maps and features."""
        return self.maps + FEATURES

    def joint(self, features: Tensor, rows: Tensor) -> Tensor:
        """(B, F) features of (B, R) stored rows → (B, D) unit rows that texts are compared with."""
        return self.net.joint(features)

    def looks(self, features: Tensor, rows: Tensor) -> Tensor:
        """(B, F) features of (B, R) stored rows → (B, L) unit rows that pictures are compared by."""
        return self.net.looks(features)

    @property
    def dim(self) -> int:
        """D."""
        return int(self.architecture.width)

    def identity(self) -> tuple[object, ...]:
        """The encoder of sentences."""
        return (self.sentences.fingerprint,)

    def settle(self, corpus: Corpus) -> None:
        """Mean and deviation of the features."""
        mean, deviation = feature_moments(corpus, lambda rows: rows[:, self.maps : self.row])
        self.net.feature_mean.copy_(mean)
        self.net.feature_deviation.copy_(deviation)

    def words_of_file(self, where: str) -> Words | None:
        """What an exported file holds of learned words; None without them.

        Args:
            where: the run, for the message.
        Raises:
            ConfigError: they were learned in a way that a file has no place for.
        """
        return None

    def encode_text(self, texts: Sequence[str]) -> FloatArray:
        """English texts → (N, D) float32 unit rows."""
        vectors = torch.from_numpy(self.sentences.encode_text(texts)).to(self.device)
        with evaluating(self):
            found: FloatArray = self.net.sentence(vectors).cpu().numpy()
        return found

    def pictures(self, pictures: Tensor) -> Tensor:
        """(M, R) stored rows → (M, D) unit rows."""
        return self.joint(self.features_of(pictures), pictures)


class Classes:
    """Draws classes and made-up pictures of them."""

    def __init__(self, net: BaseNet, features: Tensor, english: TextEncoder, foreign: TextEncoder) -> None:
        """Work out where the pictures of each class lie.

        Args:
            net: with its published classifier, and the moments of the features.
            features: (P, F) of training pictures, by the published backbone.
            english: of sentences.
            foreign: of sentences in many languages.
        Source: the means of classes under linear discriminant analysis: those of a class with weights w lie
            along Σ w, where Σ is the covariance of the features.
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
        """How well each text side tells the made-up picture of a class from those of others."""
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
    """B pictures, each with all of its texts: T texts together.

    Attributes:
        ids: of the pairs, (T,).
        texts: (T,) int64, which training pairs they are.
        owners: (T,) int64, which of the B pictures a text is of.
        rows: (P, R) stored rows of the P pictures of this process's share.
        neg: (T, B) bool, the pictures that are truly wrong for a text.
        stories: (B,) int64, equal for pictures of one story.
        shares: pictures of every process, with sum B; P is one of them.
        text_shares: texts of every process, with sum T.
        own_texts: which training pairs the texts of this share are.
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


class BaseTask(Task[BaseConfig, BaseModel]):
    """Batches of pictures with all of their texts, and their losses."""

    def __init__(self, model: BaseModel, corpus: Corpus, config: BaseConfig, parts: Parts) -> None:
        """Take what is trained and what it trains on: all texts as vectors, and classes."""
        super().__init__(model, corpus, config, parts)
        self._corpus = corpus
        sentences, multilingual = parts.sentences, parts.multilingual
        assert sentences is not None and multilingual is not None  # noqa: S101, PT018  (declared)
        self._english = torch.from_numpy(sentences.encode_text(corpus.train.texts))
        sentences.encode_text(corpus.val.texts)
        self._foreign = torch.from_numpy(multilingual.encode_text(corpus.train.texts))
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
        """Batches of an epoch."""
        return self._steps

    def batches(self, epoch: int) -> Iterator[PictureBatch]:
        """Batches of an epoch; they follow from seed and epoch."""
        frozen = self.config.model.changed_from > BLOCKS
        self.model.as_published = frozen or epoch < self.config.heads_epochs
        dealt = self._dealt(epoch)
        for step in range(self._steps):
            random = np.random.default_rng([self.config.loop.seed, epoch, step])
            yield self._batch(dealt[step], random)

    def _dealt(self, epoch: int) -> list[NDArray[np.int64]]:
        """The pictures of every batch of an epoch; in each epoch as many batches."""
        config, seed = self.config, self.config.loop.seed
        order = epoch_order(self._weights, seed, epoch)
        random = np.random.default_rng([seed, epoch, 1])
        dealt: list[NDArray[np.int64]] = []
        for name in dict.fromkeys(self._sets) if config.apart else [None]:
            own = [int(row) for row in order if name is None or self._sets[row] == name]
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
        # a picture can come twice in an epoch; twice in a batch it would be its own wrong answer
        chosen = chosen[np.sort(np.unique(chosen, return_index=True)[1])]
        rows, device = self._corpus.train, self.model.device
        turned = random.random(len(chosen)) < 0.5
        shares = share_of(len(chosen))
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
        for column in range(len(chosen)):  # a picture is right for every text that equals one of its own
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

    def readings(self, batch: PictureBatch) -> dict[str, tuple[Tensor, float]]:
        """Name → (T, D) unit rows of the texts as one side reads them, and the weight of its loss."""
        net = self.model.net
        return {
            "english": (self._read(net.sentence, self._english, batch), 1.0),
            "foreign": (self._read(net.foreign, self._foreign, batch), self.config.foreign_weight),
        }

    def _read(self, side: nn.Module, vectors: Tensor, batch: PictureBatch) -> Tensor:
        """(T, D) of the texts of all processes, each of which reads its own."""
        return whole(side(vectors[batch.own_texts].to(self.model.device)), batch.text_shares)

    def contrast(self, name: str, texts: Tensor, pictures: Tensor, batch: PictureBatch) -> Tensor:
        """The loss of (T, D) texts, as the reading of this name has them, against (B, D) pictures."""
        logits = product(texts, pictures.t()) / self.config.temperature
        return info_nce_of_many(logits, batch.owners, batch.neg)

    def step(self, batch: PictureBatch) -> Mapping[str, Tensor]:
        """Softmax losses: texts and pictures in English, in many languages, and pictures of one story."""
        config, net = self.config, self.model.net
        features = self.model.features_of(batch.rows)
        pictures = whole(self.model.joint(features, batch.rows), batch.shares)
        losses, total = {}, pictures.new_zeros(())
        for name, (texts, weight) in self.readings(batch).items():
            losses[name] = self.contrast(name, texts, pictures, batch)
            total = total + weight * losses[name]
        stories = batch.stories
        if config.look_weight and bool((stories[:, None] == stories).sum() > len(stories)):
            # looks follow the backbone and do not bend it
            looks = whole(self.model.looks(features.detach(), batch.rows), batch.shares)
            own = torch.arange(len(stories), device=stories.device)
            losses["looks"] = same_group(looks, stories, own, config.look_temperature)
            total = total + config.look_weight * losses["looks"]
        if self._classes is not None:
            losses["classes"] = self._classes.loss(net, config.temperature)
            total = total + config.class_weight * losses["classes"]
        return losses | {"total": total}


class BaseSystem(System[BaseConfig, BaseModel]):
    """What it declares."""

    name = "base"
    settings = BaseConfig
    model = BaseModel
    training = BaseTask

    def capabilities(self, config: BaseConfig) -> Capabilities:
        """Reads two encoders of sentences; a library takes its exported file."""
        return Capabilities(
            words=False,
            sentences=True,
            multilingual=True,
            keeps_sentences=True,
            layer="described" if config.model.changed_from > BLOCKS else "blocks",
            mirrored=config.mirrored,
            exported=True,
        )

    def gather(self, config: BaseConfig, corpus: Corpus, parts: Parts) -> None:
        """Both encoders, with the vectors of a former run; and what the stored rows are of."""
        if corpus.backbone is not None:
            parts.about[STORED] = corpus.backbone
        assert parts.sentences is not None and parts.multilingual is not None  # noqa: S101, PT018  (declared)
        folder = Path(config.data.features)
        parts.sentences = StoredTexts(parts.sentences, folder)
        parts.multilingual = StoredTexts(parts.multilingual, folder)


SYSTEM = BaseSystem()


def export_base(run: Path, file: Path, sentences: TextEncoder | None = None) -> BaseCard:
    """Write the best weights of a run as a file of the encoder base.

    Of a run of limner the file holds each text side by itself, without the context, and the words that were
    learned beside MiniLM alone; it has no place for further encoders.

    Args:
        run: folder of the run.
        file: ends in ``.safetensors``; replaced if there.
        sentences: encoder of texts it was trained with; None for the one that needs no download.
    Returns:
        What the file says of itself; its figures are those of validation, as the run recorded them.
    Raises:
        MissingError: nothing was trained there yet.
        CheckpointError: not a run of the systems base or limner, or damaged.
        ConfigError: the run reads further encoders, or words beside both sentence encoders.
        NumericsError: a weight is not finite.
    """
    _, state = checkpoint.load(run / BEST)
    limner = state.get("config", {}).get("config", {}).get("system") == "limner"
    own: System[Any, Any] = import_module("limner.research.systems.limner").SYSTEM if limner else SYSTEM
    model, config = own.load(run, sentences=sentences)
    if config.data.beside:
        raise ConfigError(
            f"{run}: reads further encoders, which a file of base has no place for; train one without"
            " data.beside"
        )
    sets = {
        name: f"{name} ({', '.join(entry.licences) if entry.licences else 'all licences'})"
        for name, entry in config.data.mixture.items()
    }
    name = config.row or "base"
    card = BaseCard(
        name=name,
        command=f"limner train configs/{name}.toml --to RUN",
        data=tuple(sets.values()) or (config.data.set,),
        terms=config.terms,
        figures={f"validation {key}": round(float(value), 4) for key, value in state["validation"].items()},
    )
    save_base(file, model.net, card, model.words_of_file(str(run)))
    return card
