"""Image encoders shared by systems: features of a frozen backbone, centred or standardised."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from limner.research.systems.base import Model, ModelParts
from limner.research.training.corpus import Corpus


class FixedFeatures(Model):
    """Base of models over frozen features; `centre` is their mean over the training pictures.

    It is 0 if the architecture does not centre.
    """

    centre: Tensor

    def __init__(self, architecture: Any, parts: ModelParts) -> None:  # noqa: ANN401
        """See `Model`."""
        super().__init__(architecture, parts)
        self.features = parts.backbone
        self.register_buffer("centre", torch.zeros(parts.image_width))

    def fit_constants(self, corpus: Corpus) -> None:
        """Compute the mean feature."""
        if self.architecture.centre:
            self.centre.copy_(corpus.moments(self.described)[0])


class StandardisedFeatures(FixedFeatures):
    """Base of models over frozen features, standardised by mean and deviation over the training pictures."""

    spread: Tensor

    def __init__(self, architecture: Any, parts: ModelParts) -> None:  # noqa: ANN401
        """See `Model`."""
        super().__init__(architecture, parts)
        self.register_buffer("spread", torch.ones(parts.image_width))
        self.dropout = nn.Dropout(architecture.dropout)

    def standardise(self, pictures: Tensor) -> Tensor:
        """(B, F), or input of `features` → (B, F): standardised, scaled to unit length, then dropout."""
        found: Tensor = self.dropout(normalize((self.described(pictures) - self.centre) / self.spread, dim=1))
        return found

    def fit_constants(self, corpus: Corpus) -> None:
        """Compute mean and standard deviation of the features."""
        mean, deviation = corpus.moments(self.described)
        self.centre.copy_(mean)
        self.spread.copy_(deviation)
