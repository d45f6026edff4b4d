"""Training of CMCM: its settings and presets, its batches and losses, and reading a trained one back.

Base, CMCA and the per-relation models are settings of it. It measures nothing itself and never sees a test
row.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field, model_validator
from torch import Tensor, distributed, nn

from limner.config import Config
from limner.datasets.vocabulary import Vocabulary
from limner.losses.ranking import Geometry, batch_hard, max_hinge, negatives, sum_hinge
from limner.losses.relations import Form, class_weights, indifference_loss, relation_loss
from limner.models.cmcm import Architecture, Cmcm
from limner.training.corpus import Corpus, FileRows, PictureRows, Rows
from limner.training.prepared import Prepared, read_saved, saved_with, start_vectors
from limner.training.settings import Preset, RunConfig
from limner.training.trunks import rebuilt, started

Trunk = Literal["stored", "drawings", "finetune"]


class LossConfig(Config):
    """What is minimised.

    Attributes:
        ranking: "batch_hard" over texts and pictures alike, "max_hinge" or "sum_hinge" on the cosines.
        geometry, within: of "batch_hard".
        margin: in units of the distance or of the cosine.
        relation_form: weights and reduction of the relation loss.
        relation_weight: λ_cls.
        indifference_weight: of wrong pairs' relations against one half.
    Source: CMCM 2022, Eqs. 1 to 3; docs/methods/cmcm.md §3.
    """

    ranking: Literal["batch_hard", "max_hinge", "sum_hinge"] = "batch_hard"
    geometry: Geometry = "euclidean"
    within: bool = True
    margin: float = Field(default=0.3, gt=0)
    relation_form: Form = "release"
    relation_weight: float = Field(default=0.1, ge=0)
    indifference_weight: float = Field(default=0.0, ge=0)


class CmcmConfig(RunConfig):
    """One run of CMCM or of one of its baselines.

    Attributes:
        model: see `Architecture`.
        loss: see `LossConfig`.
        trunk: "stored" features, a small net for "drawings", or "finetune" the backbone along.
        refinement: how scores are refined at test time, where relations are predicted.
    """

    PRESETS: ClassVar[Mapping[Preset, Mapping[str, Any]]] = {
        "release": {},
        "paper": {
            "loss": {"ranking": "max_hinge", "relation_form": "paper"},
            "loop": {"betas": (0.9, 0.999)},
        },
        "sound": {
            "model": {"relations": "product"},
            "loss": {"indifference_weight": 0.1},
            "refinement": "add",
        },
    }

    system: Literal["cmcm"] = "cmcm"
    model: Architecture = Architecture()
    loss: LossConfig = LossConfig()
    trunk: Trunk = "stored"
    refinement: Literal["multiply", "add"] = "multiply"

    @model_validator(mode="after")
    def _relations_are_trained(self) -> Self:
        """Untrained relations must never refine a ranking."""
        if self.model.relations != "none" and not self.loss.relation_weight:
            raise ValueError("loss.relation_weight 0 leaves relations untrained; set model.relations='none'")
        return self

    def smoke(self) -> Self:
        """See `RunConfig.smoke`."""
        small = super().smoke()
        sizes = {"dim": 16, "word_width": 12, "hidden": 8, "relations_hidden": 8}
        return small.model_copy(update={"model": self.model.model_copy(update=sizes)})


@dataclass(frozen=True)
class Batch:
    """B pairs of one step.

    Attributes:
        ids: of the pairs.
        words: (B, T) int64.
        lengths: (B,) int64.
        pictures: B features or bytes.
        labels: (B, C).
        neg: (B, B) bool, the truly wrong pairs.
    """

    ids: tuple[str, ...]
    words: Tensor
    lengths: Tensor
    pictures: Tensor
    labels: Tensor
    neg: Tensor


class CmcmTask:
    """What the loop trains; see `limner.training.loop.Task`."""

    def __init__(self, model: Cmcm, rows: Rows, pictures: PictureRows, config: CmcmConfig) -> None:
        """Take what is trained and what it trains on.

        Args:
            model: on its device.
            rows: of the training split.
            pictures: of the rows.
            config: settings.
        """
        self.model: Cmcm = model
        self._rows, self._pictures, self._config = rows, pictures, config
        self._words, self._lengths = model.vocabulary.batch(rows.texts, config.data.max_length)
        self._batch = min(config.data.batch, len(rows))
        labelled = model.coherence is not None
        self._weights = (
            class_weights(torch.from_numpy(rows.labels), config.loss.relation_form).to(model.device)
            if labelled
            else None
        )
        together = distributed.is_available() and distributed.is_initialized()
        self._rank = distributed.get_rank() if together else 0
        self._processes = distributed.get_world_size() if together else 1

    @property
    def steps_per_epoch(self) -> int:
        """Whole batches of one process; the remainder of an epoch's order is left for other epochs."""
        return max(1, len(self._rows) // (self._batch * self._processes))

    def batches(self, epoch: int) -> Iterator[Batch]:
        """Batches of an epoch; order and crops follow from seed, process and epoch."""
        order = np.random.default_rng([self._config.loop.seed, epoch]).permutation(len(self._rows))
        for step in range(self.steps_per_epoch):
            start = (step * self._processes + self._rank) * self._batch
            rng = np.random.default_rng([self._config.loop.seed, epoch, start])
            yield self._batch_of(order[start : start + self._batch], rng)

    def step(self, batch: Batch) -> Mapping[str, Tensor]:
        """Losses by name."""
        loss, out = self._config.loss, self.model(batch.words, batch.lengths, batch.pictures)
        if loss.ranking == "batch_hard":
            ranking = batch_hard(
                out.texts, out.images, loss.margin, batch.neg, geometry=loss.geometry, within=loss.within
            )
        else:
            hinge = max_hinge if loss.ranking == "max_hinge" else sum_hinge
            ranking = hinge(out.texts @ out.images.t(), loss.margin, batch.neg, "mean")
        found = {"ranking": ranking}
        total = ranking
        if self.model.coherence is not None and self._weights is not None:
            found["relations"] = relation_loss(out.logits, batch.labels, self._weights, loss.relation_form)
            total = total + loss.relation_weight * found["relations"]
            if loss.indifference_weight:
                table = self.model.coherence.table(out.texts, out.images)
                found["indifference"] = indifference_loss(table, batch.neg)
                total = total + loss.indifference_weight * found["indifference"]
        return {"total": total} | found

    def describe(self, batch: Batch) -> str:
        """Ids of the pairs."""
        return ", ".join(batch.ids)

    def _batch_of(self, chosen: NDArray[np.int64], rng: np.random.Generator) -> Batch:
        rows, device = self._rows, self.model.device
        lengths = self._lengths[chosen]
        words = self._words[chosen, : int(lengths.max())]
        places = rows.places[chosen]
        values = (
            self._pictures.cropped(places, rng)
            if isinstance(self._pictures, FileRows)
            else self._pictures.take(places)
        )
        plain = values if values.dtype == np.uint8 else values.astype(np.float32)
        neg = negatives(torch.from_numpy(rows.text_ids[chosen]), torch.from_numpy(rows.image_ids[chosen]))
        if not self._config.data.mask_duplicates:
            neg = ~torch.eye(len(chosen), dtype=torch.bool)
        return Batch(
            tuple(rows.pairs[row].id for row in chosen),
            torch.from_numpy(words).to(device),
            torch.from_numpy(lengths),
            torch.from_numpy(plain).to(device),
            torch.from_numpy(rows.labels[chosen]).to(device),
            neg.to(device),
        )


def prepare(
    config: CmcmConfig, corpus: Corpus, *, device: str = "cpu", backbone: tuple[nn.Module, int] | None = None
) -> Prepared[CmcmTask]:
    """Model and task of a run; words and word vectors come from the training texts alone.

    Args:
        config: settings.
        corpus: training and validation rows.
        device: torch device that trains.
        backbone: for trunk "finetune", pretrained and taking bytes, and its width.
    Raises:
        CheckpointError: trunk "finetune" without a backbone: it never starts from random weights.
        ShapeError, ConfigError: see `Cmcm`.
    """
    texts = corpus.train.texts
    vocabulary = Vocabulary.build(texts, config.data.tokeniser, config.data.min_count)
    torch.manual_seed(config.loop.seed)
    vectors = start_vectors(config, vocabulary, texts, config.model.word_width)
    trunk, width = started("cmcm", config.trunk, "pooled", corpus, backbone)
    model = _model(config, vocabulary, corpus.relations, image_width=width, vectors=vectors, trunk=trunk).to(
        device
    )
    stored = corpus.backbone if config.trunk == "stored" else None
    saved = saved_with(config, vocabulary, width, stored) | {"relations": list(corpus.relations)}
    return Prepared(CmcmTask(model, corpus.train, corpus.pictures, config), corpus, saved)


def load(path: Path, device: str = "cpu") -> tuple[Cmcm, CmcmConfig]:
    """A trained model in evaluation mode, and the settings it was trained with.

    Args:
        path: folder of a run, or the file of its best weights.
        device: where it goes.
    Raises:
        MissingError: nothing was trained there yet.
        CheckpointError: not a checkpoint of this system, or damaged.
    """
    saved = read_saved(path, CmcmConfig, "cmcm")
    config = saved.config
    relations = [str(name) for name in saved.about.get("relations", ())]
    trunk, width = rebuilt(config.trunk, "pooled", config.data.backbone, saved.image_width)
    model = _model(config, saved.vocabulary, relations, image_width=width, vectors=None, trunk=trunk)
    return saved.into(model, device), config


def _model(
    config: CmcmConfig,
    vocabulary: Vocabulary,
    relations: Sequence[str],
    *,
    image_width: int,
    vectors: Tensor | None,
    trunk: nn.Module | None,
) -> Cmcm:
    return Cmcm(
        config.model,
        vocabulary,
        image_width=image_width,
        relations=relations,
        max_length=config.data.max_length,
        vectors=vectors,
        trunk=trunk,
    )
