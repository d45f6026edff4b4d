"""limner's own model: two frozen sentence encoders read a text, alone and beside the rest of its story.

It shares the picture side, the batches and the losses of the encoder `base`, so that its rows differ from
that encoder's in what reads the text alone.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from limner.arrays import TextEncoder, expect
from limner.encoders.base_file import BLOCKS, MINILM, USE
from limner.encoders.catalogue import MULTILINGUAL, sentence_encoder
from limner.errors import CheckpointError
from limner.systems.base import Capabilities, Parts, StoryModel
from limner.systems.base_encoder import (
    BaseArchitecture,
    BaseConfig,
    BaseModel,
    BaseSystem,
    BaseTask,
    PictureBatch,
)
from limner.training.corpus import Corpus
from limner.training.settings import every_preset
from limner.training.shares import whole

KEY = "multilingual"
"""Of the second encoder's fingerprint, beside the weights of a run."""


class LimnerArchitecture(BaseArchitecture):
    """Sizes and parts of the model.

    Attributes:
        reads: what reads an English text: MiniLM alone, as in `base`, or MiniLM and the multilingual encoder.
        context: what a step knows of its story: nothing, or the mean of its other steps.
    Source: docs/methods/limner.md §1.
    """

    reads: Literal["minilm", "both"] = "both"
    context: Literal["none", "mean"] = "mean"


class LimnerConfig(BaseConfig):
    """One run; it is of no paper, so all presets are the same: the backbone stays as published.

    Attributes:
        model: see `LimnerArchitecture`.
    """

    PRESETS = every_preset(
        {
            "loop": {"betas": (0.9, 0.999), "lr": 1e-3, "schedule": "cosine", "metric": "MRR", "epochs": 40},
            "data": {"backbone": "efficientnet-lite2", "batch": 256},
            "model": {"changed_from": BLOCKS + 1, "dropout": 0.75},
        }
    )
    ROW = frozenset({"model.reads", "model.context"})

    system: Literal["limner"] = "limner"  # type: ignore[assignment]
    model: LimnerArchitecture = LimnerArchitecture()


def others_mean(vectors: Tensor, steps: Tensor) -> Tensor:
    """The mean of the other steps of its story, for every step; 0 for a story of one step.

    Args:
        vectors: (S, W), the steps of all stories one after the other.
        steps: (B,) int64 of each story, at least 1, with sum S.
    Returns:
        (S, W).
    Raises:
        ShapeError: sizes do not fit.
    """
    expect("others_mean", vectors=(vectors, "S W"), steps=(steps, "B"))
    stories = torch.repeat_interleave(steps).to(vectors.device)
    counts = steps.to(vectors.device)[stories][:, None]
    sums = vectors.new_zeros(len(steps), vectors.shape[1]).index_add_(0, stories, vectors)
    return (sums[stories] - vectors) / (counts - 1).clamp(min=1) * (counts > 1)


class Limner(StoryModel, BaseModel):
    """The network of `base`, whose two text sides are added up, and a projection of the context."""

    name = "limner"

    def __init__(self, architecture: LimnerArchitecture, parts: Parts) -> None:
        """Draw the projections from torch's generator; the context begins as nothing."""
        super().__init__(architecture, parts)
        assert parts.multilingual is not None  # noqa: S101  (declared)
        self.multilingual = parts.multilingual
        self.context = None
        if architecture.context == "mean":
            self.context = nn.Linear(MINILM + USE, architecture.width, bias=False)
            nn.init.zeros_(self.context.weight)

    def identity(self) -> tuple[object, ...]:
        """Both encoders of sentences."""
        return (self.sentences.fingerprint, self.multilingual.fingerprint)

    def read(self, english: Tensor, foreign: Tensor, context: Tensor) -> Tensor:
        """Texts as both encoders give them → unit rows.

        Args:
            english: (S, 384) of MiniLM.
            foreign: (S, 512) of the multilingual encoder.
            context: (S, 896), see `others_mean`.
        Returns:
            (S, D).
        """
        made: Tensor = self.net.sentence(english)
        if self.architecture.reads == "both":
            made = made + self.net.foreign(foreign)
        if self.context is not None:
            made = made + self.context(context)
        return normalize(made, dim=1)

    def together(self, stories: Sequence[Sequence[str]]) -> Tensor:
        """See `StoryModel`."""
        texts = [text for story in stories for text in story]
        english, foreign = (
            torch.from_numpy(encoder.encode_text(texts)).to(self.device)
            for encoder in (self.sentences, self.multilingual)
        )
        steps = torch.tensor([len(story) for story in stories])
        return self.read(english, foreign, others_mean(torch.cat([english, foreign], dim=1), steps))


class LimnerTask(BaseTask):
    """The batches and losses of `base`, and a loss of the two text sides with the context."""

    model: Limner

    def __init__(self, model: Limner, corpus: Corpus, config: LimnerConfig, parts: Parts) -> None:
        """See `BaseTask`; the context of all training texts is constant, so that it is made once."""
        super().__init__(model, corpus, config, parts)
        self._context = context_of(corpus, torch.cat([self._english, self._foreign], dim=1))

    def readings(self, batch: PictureBatch) -> dict[str, tuple[Tensor, float]]:
        """See `BaseTask`; the sides alone are what a library reads single texts and other languages with."""
        some, device = batch.own_texts, self.model.device
        vectors = (self._english, self._foreign, self._context)
        joined = self.model.read(*(part[some].to(device) for part in vectors))
        return super().readings(batch) | {"joined": (whole(joined, batch.text_shares), 1.0)}


def context_of(corpus: Corpus, vectors: Tensor) -> Tensor:
    """(N, W) vectors of all training texts → (N, W) means of the other steps of their stories.

    Of several texts of one picture each stands for its step; what has no story has no context.
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


class LimnerSystem(BaseSystem):
    """What it declares."""

    name = "limner"
    settings = LimnerConfig  # type: ignore[assignment]
    model = Limner  # type: ignore[assignment]
    training = LimnerTask  # type: ignore[assignment]

    def capabilities(self, config: BaseConfig) -> Capabilities:
        """Reads stories through two encoders of sentences; a library takes the exported sides."""
        return replace(super().capabilities(config), stories=True)

    def gather(self, config: BaseConfig, corpus: Corpus, parts: Parts) -> None:
        """See `BaseSystem`; the fingerprint of the second encoder is kept."""
        super().gather(config, corpus, parts)
        assert parts.multilingual is not None  # noqa: S101  (declared)
        parts.about[KEY] = parts.multilingual.fingerprint

    def recall(self, config: BaseConfig, parts: Parts) -> None:
        """The second encoder, if it is the one of training.

        Raises:
            CheckpointError: another version of it is installed.
        """
        found: TextEncoder = sentence_encoder(MULTILINGUAL)
        if parts.about.get(KEY) != found.fingerprint:
            raise CheckpointError(
                f"{parts.where}: trained on vectors of another {found.name} encoder; install"
                " that version of it, or train again"
            )
        parts.multilingual = found


SYSTEM = LimnerSystem()
