"""Picture sides that systems share: features that are not trained along, centred or evened out."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from limner.research.systems.base import Model, Parts
from limner.research.training.corpus import Corpus


class FixedFeatures(Model):
    """Over picture features that are not trained along, less their mean over the training pictures.

    The mean is 0 where the architecture does not ask to centre.
    """

    centre: Tensor

    def __init__(self, architecture: Any, parts: Parts) -> None:  # noqa: ANN401
        """See `Model`."""
        super().__init__(architecture, parts)
        self.features = parts.backbone
        self.register_buffer("centre", torch.zeros(parts.image_width))

    def settle(self, corpus: Corpus) -> None:
        """The mean feature."""
        if self.architecture.centre:
            self.centre.copy_(corpus.moments(self.described)[0])


class EvenFeatures(FixedFeatures):
    """Over fixed features, each with mean 0 and deviation 1 over the training pictures."""

    spread: Tensor

    def __init__(self, architecture: Any, parts: Parts) -> None:  # noqa: ANN401
        """See `Model`."""
        super().__init__(architecture, parts)
        self.register_buffer("spread", torch.ones(parts.image_width))
        self.dropout = nn.Dropout(architecture.dropout)

    def even(self, pictures: Tensor) -> Tensor:
        """(B, F), or what `features` takes → (B, F) of unit length, but for dropout."""
        found: Tensor = self.dropout(normalize((self.described(pictures) - self.centre) / self.spread, dim=1))
        return found

    def settle(self, corpus: Corpus) -> None:
        """Mean and deviation of the features."""
        mean, deviation = corpus.moments(self.described)
        self.centre.copy_(mean)
        self.spread.copy_(deviation)
