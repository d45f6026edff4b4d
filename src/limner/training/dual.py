"""Training of the dual encoder: sentence vectors, computed once, and a softmax over a batch.

It measures nothing itself and never sees a test row.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from limner.arrays import TextEncoder
from limner.datasets.vocabulary import Vocabulary
from limner.errors import ConfigError
from limner.losses.contrastive import info_nce
from limner.models.dual import Dual, DualArchitecture
from limner.models.vrss import drawn_features
from limner.training.batches import StoryBatch, StoryBatches
from limner.training.corpus import Corpus
from limner.training.prepared import Prepared, feature_moments, picture_side, read_saved, saved_with
from limner.training.settings import Preset, RunConfig

_LOOP = {"betas": (0.9, 0.999), "lr": 1e-3, "weight_decay": 1e-4, "epochs": 60, "metric": "MRR"}
_PRESET: Mapping[str, Any] = {"loop": _LOOP | {"stop_after_stale": 15}}


class DualConfig(RunConfig):
    """One run of the dual encoder; it is of no paper, so all presets are the same.

    Attributes:
        model: see `DualArchitecture`.
        trunk: "stored" features, or fixed colours of "drawings".
        features: of the backbone: "stages", what all of its stages see, or "pooled", what the last one does.
    """

    PRESETS: ClassVar[Mapping[Preset, Mapping[str, Any]]] = {
        "paper": _PRESET,
        "release": _PRESET,
        "sound": _PRESET,
    }

    system: Literal["dual"] = "dual"
    model: DualArchitecture = DualArchitecture()
    trunk: Literal["stored", "drawings"] = "stored"
    features: Literal["pooled", "stages"] = "stages"

    @property
    def layer(self) -> Literal["pooled", "stages"]:
        """What is stored of a backbone."""
        return self.features

    @property
    def needs_sentences(self) -> bool:
        """Whether `prepare` has to be given an encoder of sentences."""
        return True

    def smoke(self) -> "DualConfig":
        """See `RunConfig.smoke`."""
        small = super().smoke()
        sizes = {"dim": 16, "hidden": 8}
        return small.model_copy(update={"model": self.model.model_copy(update=sizes)})


class DualTask:
    """What the loop trains; see `limner.training.loop.Task`."""

    def __init__(self, model: Dual, corpus: Corpus, config: DualConfig) -> None:
        """Take what is trained and what it trains on; all training texts are encoded here."""
        self.model: Dual = model
        self._batches = StoryBatches(corpus.train, corpus.pictures, None, config, model.device)
        self._texts = torch.from_numpy(model.sentences.encode_text(corpus.train.texts)).to(model.device)

    @property
    def steps_per_epoch(self) -> int:
        """Whole batches of one process."""
        return self._batches.steps_per_epoch

    def batches(self, epoch: int) -> Iterable[StoryBatch]:
        """Batches of an epoch."""
        return self._batches.batches(epoch)

    def step(self, batch: StoryBatch) -> Mapping[str, Tensor]:
        """The softmax over the batch, both directions."""
        texts = self.model(self._texts[batch.rows], batch.steps)
        logits = self.model.scale * texts @ self.model.pictures(batch.pictures).t()
        return {"total": info_nce(logits, batch.neg)}

    def describe(self, batch: StoryBatch) -> str:
        """Ids of the steps."""
        return ", ".join(batch.ids)


def prepare(
    config: DualConfig,
    corpus: Corpus,
    *,
    device: str = "cpu",
    backbone: tuple[nn.Module, int] | None = None,
    sentences: TextEncoder | None = None,
) -> Prepared[DualTask]:
    """Model and task of a run.

    Args:
        config: settings.
        corpus: training and validation rows.
        device: torch device that trains.
        backbone: not taken: features are constants here.
        sentences: frozen encoder of texts.
    Raises:
        ConfigError: no encoder of sentences is given.
        ShapeError: the stored features are no vectors.
    """
    if sentences is None:
        raise ConfigError("dual: no encoder of sentences was given")
    torch.manual_seed(config.loop.seed)
    features, width = picture_side(config.trunk, corpus)
    model = Dual(config.model, sentences, image_width=width, features=features).to(device)
    mean, deviation = feature_moments(corpus, model.described)
    model.centre.copy_(mean)
    model.spread.copy_(deviation)
    stored = corpus.backbone if config.trunk == "stored" else None
    # the vocabulary of a run is what it reads texts by; here that is the sentence encoder
    saved = saved_with(config, Vocabulary.build([]), width, stored) | {"sentences": sentences.fingerprint}
    return Prepared(DualTask(model, corpus, config), corpus, saved)


def load(path: Path, device: str = "cpu", sentences: TextEncoder | None = None) -> tuple[Dual, DualConfig]:
    """A trained model in evaluation mode, and the settings it was trained with.

    Args:
        path: folder of a run, or the file of its best weights.
        device: where it goes.
        sentences: encoder of texts; None for the one that needs no download.
    Raises:
        MissingError: nothing was trained there yet.
        CheckpointError: not a checkpoint of this system, damaged, or of another encoder of sentences.
    """
    saved = read_saved(path, DualConfig, "dual")
    encoder = saved.same_sentences(sentences)
    features = drawn_features()[0] if saved.config.trunk == "drawings" else None
    model = Dual(saved.config.model, encoder, image_width=saved.image_width, features=features)
    return saved.into(model, device), saved.config
