"""Training of the same-document metric: pictures of one story together, all others apart.

Only training stories are looked at. It measures nothing itself.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from limner.datasets.vocabulary import Vocabulary
from limner.losses.contrastive import same_group
from limner.models.document import DocumentArchitecture, SameDocument
from limner.models.vrss import drawn_features
from limner.training.batches import StoryBatch, StoryBatches
from limner.training.corpus import Corpus
from limner.training.prepared import Prepared, feature_moments, picture_side, read_saved, saved_with
from limner.training.settings import Preset, RunConfig

_LOOP = {"betas": (0.9, 0.999), "lr": 1e-3, "weight_decay": 1e-4, "epochs": 60, "metric": "mAP"}
_PRESET: Mapping[str, Any] = {"loop": _LOOP | {"stop_after_stale": 15}}


class DocumentConfig(RunConfig):
    """One run of the same-document metric; it is of no paper, so all presets are the same.

    Attributes:
        model: see `DocumentArchitecture`.
        temperature: τ of the softmax.
        trunk: "stored" features, or fixed colours of "drawings".
        features: of the backbone: "stages", what all of its stages see, or "pooled", what the last one does.
    """

    PRESETS: ClassVar[Mapping[Preset, Mapping[str, Any]]] = {
        "paper": _PRESET,
        "release": _PRESET,
        "sound": _PRESET,
    }

    system: Literal["document"] = "document"
    model: DocumentArchitecture = DocumentArchitecture()
    temperature: float = Field(default=0.1, gt=0)
    trunk: Literal["stored", "drawings"] = "stored"
    features: Literal["pooled", "stages"] = "stages"

    @property
    def layer(self) -> Literal["pooled", "stages"]:
        """What is stored of a backbone."""
        return self.features

    def smoke(self) -> "DocumentConfig":
        """See `RunConfig.smoke`."""
        small = super().smoke()
        return small.model_copy(update={"model": self.model.model_copy(update={"dim": 8})})


class DocumentTask:
    """What the loop trains; see `limner.training.loop.Task`."""

    def __init__(self, model: SameDocument, corpus: Corpus, config: DocumentConfig) -> None:
        """Take what is trained and what it trains on."""
        self.model: SameDocument = model
        self._temperature = config.temperature
        self._image_ids = torch.from_numpy(corpus.train.image_ids).to(model.device)
        self._batches = StoryBatches(corpus.train, corpus.pictures, None, config, model.device)

    @property
    def steps_per_epoch(self) -> int:
        """Whole batches of one process."""
        return self._batches.steps_per_epoch

    def batches(self, epoch: int) -> Iterable[StoryBatch]:
        """Batches of an epoch."""
        return self._batches.batches(epoch)

    def step(self, batch: StoryBatch) -> Mapping[str, Tensor]:
        """How well a picture tells its story's others from all other pictures."""
        vectors = self.model(batch.pictures)
        ids = self._image_ids[batch.rows]
        return {"total": same_group(vectors, batch.stories, ids, self._temperature)}

    def describe(self, batch: StoryBatch) -> str:
        """Ids of the steps."""
        return ", ".join(batch.ids)


def prepare(
    config: DocumentConfig,
    corpus: Corpus,
    *,
    device: str = "cpu",
    backbone: tuple[nn.Module, int] | None = None,
) -> Prepared[DocumentTask]:
    """Model and task of a run.

    Args:
        config: settings.
        corpus: training and validation rows.
        device: torch device that trains.
        backbone: not taken: features are constants here.
    Raises:
        ShapeError: the stored features are no vectors.
    """
    torch.manual_seed(config.loop.seed)
    features, width = picture_side(config.trunk, corpus)
    model = SameDocument(config.model, image_width=width, features=features).to(device)
    mean, deviation = feature_moments(corpus, model.described)
    model.centre.copy_(mean)
    model.spread.copy_(deviation)
    stored = corpus.backbone if config.trunk == "stored" else None
    saved = saved_with(config, Vocabulary.build([]), width, stored)
    return Prepared(DocumentTask(model, corpus, config), corpus, saved)


def load(path: Path, device: str = "cpu") -> tuple[SameDocument, DocumentConfig]:
    """A trained model in evaluation mode, and the settings it was trained with.

    Args:
        path: folder of a run, or the file of its best weights.
        device: where it goes.
    Raises:
        MissingError: nothing was trained there yet.
        CheckpointError: not a checkpoint of this system, or damaged.
    """
    saved = read_saved(path, DocumentConfig, "document")
    features = drawn_features()[0] if saved.config.trunk == "drawings" else None
    model = SameDocument(saved.config.model, image_width=saved.image_width, features=features)
    return saved.into(model, device), saved.config
