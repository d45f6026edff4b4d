"""Dual encoder: trained layers map frozen sentence vectors and picture features to a joint space.

A step is encoded alone, with the mean of its story, or with a recurrent network over all steps.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn.functional import normalize

from limner.arrays import FloatArray
from limner.config import Record
from limner.research.losses.contrastive import info_nce
from limner.research.losses.ranking import product
from limner.research.nn.words import read_both_ways
from limner.research.systems.base import Capabilities, ModelParts, System, SystemTask, evaluating, to_tensor
from limner.research.systems.picture_side import StandardisedFeatures
from limner.research.systems.text_side import StoryModel
from limner.research.training.corpus import Batch, Corpus
from limner.research.training.settings import RunConfig, every_preset

FIRST_SCALE, LARGEST_SCALE = 1 / 0.07, 100.0


class DualArchitecture(Record):
    """Sizes and parts of the model.

    Attributes:
        dim: D, dimension of the joint space.
        context: context of a step: "none"; "mean", the mean of the story's sentence vectors; or "recurrent",
            a bidirectional GRU over them.
        hidden: hidden size of the GRU, per direction.
        dropout: dropout rate of inputs in training.
    """

    dim: int = Field(default=512, ge=1)
    context: Literal["none", "mean", "recurrent"] = "recurrent"
    hidden: int = Field(default=256, ge=1)
    dropout: float = Field(default=0.3, ge=0, lt=1)


class DualConfig(RunConfig):
    """Settings of the dual encoder; it is not from a paper, so all presets are equal.

    Attributes:
        model: see `DualArchitecture`.
        backbone: "frozen" features, or fixed colours of "drawings".
        features: layer of the backbone: "stages", statistics of the feature maps of all stages, or "pooled",
            the pooled output of the last stage.
    """

    PRINTED: ClassVar[bool] = False
    PRESETS = every_preset(
        {
            "loop": {"betas": (0.9, 0.999), "lr": 1e-3, "weight_decay": 1e-4, "epochs": 60, "metric": "MRR"}
            | {"stop_after_stale": 15}
        }
    )
    ROW: ClassVar[frozenset[str]] = frozenset({"model.context"})
    SMOKE: ClassVar[Mapping[str, Any]] = {"model": {"dim": 16, "hidden": 8}}

    system: Literal["dual"] = "dual"
    model: DualArchitecture = DualArchitecture()
    backbone: Literal["frozen", "drawings"] = "frozen"
    features: Literal["pooled", "stages"] = "stages"


class Dual(StoryModel, StandardisedFeatures):
    """The dual encoder."""

    name = "dual"

    def __init__(self, architecture: DualArchitecture, parts: ModelParts) -> None:
        """Initialise the weights at random, from torch's generator."""
        super().__init__(architecture, parts)
        assert parts.sentences is not None  # noqa: S101  (declared)
        own, self.sentences = architecture, parts.sentences
        width = self.sentences.dim
        self.story = (
            nn.GRU(width, own.hidden, batch_first=True, bidirectional=True)
            if own.context == "recurrent"
            else None
        )
        read = width + {"none": 0, "mean": width, "recurrent": 2 * own.hidden}[own.context]
        self.of_text = nn.Linear(read, own.dim)
        self.of_image = nn.Linear(parts.image_width, own.dim)
        self.log_scale = nn.Parameter(torch.tensor(math.log(FIRST_SCALE)))

    def forward(self, texts: Tensor, steps: Tensor) -> Tensor:
        """Encode the texts of B stories → (S, D) unit vectors.

        Args:
            texts: (S, W) sentence vectors, the stories concatenated.
            steps: (B,) int64 on the CPU, steps per story, with sum S.
        Raises:
            ShapeError: the sizes contradict each other.
        """
        own = self.dropout(texts)
        if self.story is not None:
            own = torch.cat([own, read_both_ways(self.story, own, steps)], dim=1)
        elif self.architecture.context == "mean":
            means = torch.stack([part.mean(dim=0) for part in own.split(steps.tolist())])
            own = torch.cat([own, means.repeat_interleave(steps.to(means.device), dim=0)], dim=1)
        return normalize(self.of_text(own), dim=1)

    def pictures(self, pictures: Tensor) -> Tensor:
        """(B, F) features, or input of `features` → (B, D) unit vectors."""
        return normalize(self.of_image(self.standardise(pictures)), dim=1)

    @property
    def scale(self) -> Tensor:
        """Learned inverse temperature 1/τ of the softmax, at most 100."""
        return self.log_scale.exp().clamp(max=LARGEST_SCALE)

    def identity(self) -> tuple[object, ...]:
        """The fingerprint of the sentence encoder."""
        return (self.sentences.fingerprint,)

    def encode_stories(self, stories: Sequence[Sequence[str]]) -> list[FloatArray]:
        """Stories → (T, D) float32 unit vectors of each story; one call encodes all their sentences."""
        counts = [len(story) for story in stories]
        vectors = self.sentences.encode_text([text for story in stories for text in story])
        found: list[FloatArray] = []
        with evaluating(self):
            for part in np.split(vectors, np.cumsum(counts)[:-1]) if counts else []:
                if not len(part):
                    found.append(np.zeros((0, self.dim), np.float32))
                    continue
                # one story at a time, so that rounding does not depend on the other stories
                made = self(to_tensor(part, self.device), torch.tensor([len(part)]))
                found.append(made.float().cpu().numpy())
        return found


class DualTask(SystemTask[DualConfig, Dual]):
    """Training objective: InfoNCE in both directions; all training texts are encoded once, at the start."""

    stories = True

    def __init__(self, model: Dual, corpus: Corpus, config: DualConfig, parts: ModelParts) -> None:
        """Prepare training: encode all training texts."""
        super().__init__(model, corpus, config, parts)
        self._texts = torch.from_numpy(model.sentences.encode_text(corpus.train.texts)).to(model.device)

    def step(self, batch: Batch) -> Mapping[str, Tensor]:
        """InfoNCE of the batch with the learned temperature."""
        texts = batch.all_gather(self.model(self._texts[batch.own_rows], batch.own_steps))
        images = batch.all_gather(self.model.pictures(batch.pictures))
        logits = product(self.model.scale * texts, images.t())
        return {"total": info_nce(logits, batch.neg)}


class DualSystem(System[DualConfig, Dual]):
    """Registration of the dual encoder."""

    name = "dual"
    settings = DualConfig
    model = Dual
    training = DualTask

    def capabilities(self, config: DualConfig) -> Capabilities:
        """Encodes whole stories, from vectors of a sentence encoder."""
        return Capabilities(
            stories=True,
            reads=frozenset({"sentences"}),
            backbone=config.backbone,
            layer=config.features,
        )


SYSTEM = DualSystem()
