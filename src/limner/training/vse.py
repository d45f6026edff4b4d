"""Training of VSE0 and VSE++: one vector per text and picture, and a hinge on all or the hardest candidates.

Rivals of all systems that learn more. It measures nothing itself and never sees a test row.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from limner.datasets.vocabulary import Vocabulary
from limner.losses.ranking import max_hinge, sum_hinge
from limner.models.vse import Vse, VseArchitecture
from limner.training.batches import PairBatch, PairBatches
from limner.training.corpus import Corpus
from limner.training.prepared import Prepared, read_saved, saved_with, start_vectors
from limner.training.settings import Preset, RunConfig
from limner.training.trunks import rebuilt, started

_LOOP = {
    "betas": (0.9, 0.999),
    "lr": 2e-4,
    "clip_norm": 2.0,
    "plateau_patience": 15,
    "epochs": 30,
    "metric": "MRR",
}
_PRESET: Mapping[str, Any] = {"loop": _LOOP, "data": {"batch": 128}}


class VseConfig(RunConfig):
    """One run of VSE0 or VSE++.

    Source: VSE++ 2018; docs/methods/gsda.md §8.1. Departs: the rate falls when validation no longer improves,
    not after epoch 15.

    Attributes:
        model: see `VseArchitecture`.
        hinge: on the "sum" of all candidates (VSE0), or on the hardest one, "max" (VSE++).
        margin: score units.
        warm_up_epochs: of the sum hinge before the hardest candidate counts alone.
        trunk: "stored" features, a small net for "drawings", or "finetune" the backbone along.
    """

    PRESETS: ClassVar[Mapping[Preset, Mapping[str, Any]]] = {
        "release": _PRESET,
        "paper": _PRESET,
        "sound": {**_PRESET, "warm_up_epochs": 1},
    }

    system: Literal["vse"] = "vse"
    model: VseArchitecture = VseArchitecture()
    hinge: Literal["sum", "max"] = "sum"
    margin: float = Field(default=0.2, gt=0)
    warm_up_epochs: int = Field(default=0, ge=0)
    trunk: Literal["stored", "drawings", "finetune"] = "stored"

    def smoke(self) -> "VseConfig":
        """See `RunConfig.smoke`."""
        small = super().smoke()
        return small.model_copy(update={"model": self.model.model_copy(update={"dim": 16, "word_width": 12})})


class VseTask:
    """What the loop trains; see `limner.training.loop.Task`."""

    def __init__(self, model: Vse, corpus: Corpus, config: VseConfig) -> None:
        """Take what is trained and what it trains on."""
        self.model: Vse = model
        self._config = config
        self._batches = PairBatches(corpus.train, corpus.pictures, model.vocabulary, config, model.device)

    @property
    def steps_per_epoch(self) -> int:
        """Whole batches of one process."""
        return self._batches.steps_per_epoch

    def batches(self, epoch: int) -> Iterator[PairBatch]:
        """Batches of an epoch; order and crops follow from seed, process and epoch."""
        for chosen, rng in self._batches.order(epoch):
            yield self._batches.batch(chosen, rng, warm=epoch < self._config.warm_up_epochs)

    def step(self, batch: PairBatch) -> Mapping[str, Tensor]:
        """The hinge, per pair."""
        out = self.model(batch.words, batch.lengths, batch.pictures)
        hinge = sum_hinge if self._config.hinge == "sum" or batch.warm else max_hinge
        return {"total": hinge(out.texts @ out.images.t(), self._config.margin, batch.neg, "mean")}

    def describe(self, batch: PairBatch) -> str:
        """Ids of the pairs."""
        return ", ".join(batch.ids)


def prepare(
    config: VseConfig, corpus: Corpus, *, device: str = "cpu", backbone: tuple[nn.Module, int] | None = None
) -> Prepared[VseTask]:
    """Model and task of a run; words and word vectors come from the training texts alone.

    Args:
        config: settings.
        corpus: training and validation rows.
        device: torch device that trains.
        backbone: for trunk "finetune", pretrained and taking bytes, and its width.
    Raises:
        CheckpointError: trunk "finetune" without a backbone: it never starts from random weights.
    """
    texts = corpus.train.texts
    vocabulary = Vocabulary.build(texts, config.data.tokeniser, config.data.min_count)
    torch.manual_seed(config.loop.seed)
    vectors = start_vectors(config, vocabulary, texts, config.model.word_width)
    trunk, width = started("vse", config.trunk, "pooled", corpus, backbone)
    model = Vse(
        config.model,
        vocabulary,
        image_width=width,
        max_length=config.data.max_length,
        vectors=vectors,
        trunk=trunk,
    ).to(device)
    stored = corpus.backbone if config.trunk == "stored" else None
    return Prepared(VseTask(model, corpus, config), corpus, saved_with(config, vocabulary, width, stored))


def load(path: Path, device: str = "cpu") -> tuple[Vse, VseConfig]:
    """A trained model in evaluation mode, and the settings it was trained with.

    Args:
        path: folder of a run, or the file of its best weights.
        device: where it goes.
    Raises:
        MissingError: nothing was trained there yet.
        CheckpointError: not a checkpoint of this system, or damaged.
    """
    saved = read_saved(path, VseConfig, "vse")
    config = saved.config
    trunk, width = rebuilt(config.trunk, "pooled", config.data.backbone, saved.image_width)
    length = config.data.max_length
    model = Vse(config.model, saved.vocabulary, image_width=width, max_length=length, trunk=trunk)
    return saved.into(model, device), config
