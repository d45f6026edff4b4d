"""Training of VRSS and its ablations: reconstruction of picture vectors, KL of the latents, and a hinge.

It measures nothing itself and never sees a test row.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from limner.arrays import TextEncoder
from limner.datasets.vocabulary import Vocabulary
from limner.losses.generative import Anchor, gaussian_kl, gaussian_nll, generated_hinge, half_square
from limner.models.vrss import Generated, Vrss, VrssArchitecture, drawn_features
from limner.training.batches import StoryBatch, StoryBatches
from limner.training.corpus import Corpus
from limner.training.prepared import (
    Prepared,
    mean_feature,
    picture_side,
    read_saved,
    saved_with,
    start_vectors,
)
from limner.training.settings import Preset, RunConfig

_LOOP = {"optimiser": "adadelta", "lr": 1.0, "clip_norm": 5.0, "epochs": 50, "metric": "R@10"}
_PRESET: Mapping[str, Any] = {"loop": _LOOP}


class VrssConfig(RunConfig):
    """One run of VRSS, VRSS-VAE (``model.latents=false``) or VRSS-GlobalCon (``model.context=false``).

    The authors released no code, so `release` equals `paper`, with our readings where the paper is silent or
    cannot work as printed; ``variant = "literal"`` is what is printed. `sound` centres the features, hears
    steps through a frozen encoder of sentences, as few stories teach no language, and takes Adam:
    with AdaDelta at 1.0 validation stayed near chance. Its hinge, a mean, weighs 200: about as much as the
    paper's sum over the wrong pictures of a batch at 1.7.

    Attributes:
        model: see `VrssArchitecture`.
        variant: "default" squares distances, scales the KL and averages over wrong pictures; "literal" takes
            the density with a learned variance and sums.
        margin: α of the hinge, score units.
        beta: weight of the hinge.
        anchor: direction of the hinge, see `limner.losses.generative.generated_hinge`.
        kl_epochs: epochs in which the KL's weight grows from 0 to 1; 0 has it whole from the first step.
        free_nats: KL of a step that costs nothing, against collapse.
        trunk: "stored" features, or fixed colours of "drawings".
    Source: VRSS 2020, Eqs. 4 to 6; docs/methods/vrss.md §3, §5.
    """

    PRESETS: ClassVar[Mapping[Preset, Mapping[str, Any]]] = {
        "paper": _PRESET,
        "release": _PRESET,
        "sound": {
            "loop": _LOOP
            | {"optimiser": "adam", "lr": 1e-3, "betas": (0.9, 0.999)}
            | {"epochs": 30, "stop_after_stale": 8, "metric": "MRR"},
            "model": {"centre": True, "text": "sentences"},
            "beta": 200.0,
        },
    }

    system: Literal["vrss"] = "vrss"
    model: VrssArchitecture = VrssArchitecture()
    variant: Literal["default", "literal"] = "default"
    margin: float = Field(default=0.2, gt=0)
    beta: float = Field(default=1.7, ge=0)
    anchor: Anchor = "both"
    kl_epochs: int = Field(default=10, ge=0)
    free_nats: float = Field(default=0.0, ge=0)
    trunk: Literal["stored", "drawings"] = "stored"

    @property
    def needs_sentences(self) -> bool:
        """Whether `prepare` has to be given an encoder of sentences."""
        return self.model.text == "sentences"

    def smoke(self) -> "VrssConfig":
        """See `RunConfig.smoke`."""
        small = super().smoke()
        sizes = {"word_width": 12, "hidden": 8, "latent": 6, "mlp": 16}
        return small.model_copy(update={"model": self.model.model_copy(update=sizes)})


class VrssTask:
    """What the loop trains; see `limner.training.loop.Task`."""

    def __init__(self, model: Vrss, corpus: Corpus, config: VrssConfig) -> None:
        """Take what is trained and what it trains on; sentence vectors are made here."""
        self.model: Vrss = model
        self._config = config
        words = model.vocabulary if model.sentences is None else None
        self._batches = StoryBatches(corpus.train, corpus.pictures, words, config, model.device)
        self._vectors: Tensor | None = None
        if model.sentences is not None:
            encoded = model.sentences.encode_text(corpus.train.texts)
            self._vectors = torch.from_numpy(encoded).to(model.device)

    @property
    def steps_per_epoch(self) -> int:
        """Whole batches of one process."""
        return self._batches.steps_per_epoch

    def batches(self, epoch: int) -> Iterable[StoryBatch]:
        """Batches of an epoch."""
        return self._batches.batches(epoch)

    def step(self, batch: StoryBatch) -> Mapping[str, Tensor]:
        """Losses by name, means over steps; ``kl`` is in nats per step, whatever it weighs."""
        config = self._config
        texts = batch.words if self._vectors is None else self._vectors[batch.rows]
        made = self.model(texts, batch.lengths, batch.steps)
        gold = self.model.gold(batch.pictures)
        scores = nn.functional.normalize(made.means, dim=1) @ gold.t()
        over: Literal["mean", "sum"] = "sum" if config.variant == "literal" else "mean"
        hinge = generated_hinge(scores, config.margin, batch.neg, config.anchor, over).mean()
        found = {"reconstruction": self._reconstruction(made, gold).mean(), "hinge": hinge}
        total = found["reconstruction"] + config.beta * hinge
        if made.posterior is not None and made.prior is not None:
            divergence = gaussian_kl(*made.posterior, *made.prior)
            found["kl"] = divergence.mean()
            scale = 1.0 if config.variant == "literal" else 1 / config.model.latent
            grown = min(1.0, batch.epoch / config.kl_epochs) if config.kl_epochs else 1.0
            total = total + grown * scale * divergence.clamp(min=config.free_nats).mean()
        return {"total": total} | found

    def describe(self, batch: StoryBatch) -> str:
        """Ids of the steps."""
        return ", ".join(batch.ids)

    def _reconstruction(self, made: Generated, gold: Tensor) -> Tensor:
        if made.log_variances is not None:
            return gaussian_nll(gold, made.means, made.log_variances)
        return half_square(gold, made.means)


def prepare(
    config: VrssConfig,
    corpus: Corpus,
    *,
    device: str = "cpu",
    backbone: tuple[nn.Module, int] | None = None,
    sentences: TextEncoder | None = None,
) -> Prepared[VrssTask]:
    """Model and task of a run; words, word vectors and the mean feature come from training rows alone.

    Args:
        config: settings.
        corpus: training and validation rows.
        device: torch device that trains.
        backbone: not taken: picture vectors are constants here.
        sentences: frozen encoder of texts, where the settings need one.
    Raises:
        ConfigError: an encoder of sentences is missing.
        ShapeError: the stored features are no vectors.
    """
    heard = sentences if config.needs_sentences else None
    texts = corpus.train.texts
    read = [] if config.needs_sentences else texts
    vocabulary = Vocabulary.build(read, config.data.tokeniser, config.data.min_count)
    torch.manual_seed(config.loop.seed)
    vectors = None
    if not config.needs_sentences:
        vectors = start_vectors(config, vocabulary, texts, config.model.word_width)
    features, width = picture_side(config.trunk, corpus)
    model = Vrss(
        config.model,
        vocabulary,
        image_width=width,
        max_length=config.data.max_length,
        vectors=vectors,
        features=features,
        sentences=heard,
    ).to(device)
    if config.model.centre:
        model.centre.copy_(mean_feature(corpus, model.described))
    stored = corpus.backbone if config.trunk == "stored" else None
    saved = saved_with(config, vocabulary, width, stored)
    if heard is not None:
        saved["sentences"] = heard.fingerprint
    return Prepared(VrssTask(model, corpus, config), corpus, saved)


def load(path: Path, device: str = "cpu", sentences: TextEncoder | None = None) -> tuple[Vrss, VrssConfig]:
    """A trained model in evaluation mode, and the settings it was trained with.

    Args:
        path: folder of a run, or the file of its best weights.
        device: where it goes.
        sentences: encoder of texts, where the run has one; None for the one that needs no download.
    Raises:
        MissingError: nothing was trained there yet.
        CheckpointError: not a checkpoint of this system, damaged, or of another encoder of sentences.
    """
    saved = read_saved(path, VrssConfig, "vrss")
    config = saved.config
    model = Vrss(
        config.model,
        saved.vocabulary,
        image_width=saved.image_width,
        max_length=config.data.max_length,
        features=drawn_features()[0] if config.trunk == "drawings" else None,
        sentences=saved.same_sentences(sentences) if config.needs_sentences else None,
    )
    return saved.into(model, device), config
