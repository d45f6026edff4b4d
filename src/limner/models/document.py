"""Same-document metric: a projection of picture features in which pictures of one story lie together.

What pulls the pictures of a storyboard, and what a pinned picture pulls with. It reads no text.
"""

import numpy as np
import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn.functional import normalize

from limner.arrays import FloatArray
from limner.config import Config
from limner.errors import ShapeError
from limner.models.encoding import encode_pictures, settings_fingerprint


class DocumentArchitecture(Config):
    """Sizes of the projection.

    Attributes:
        dim: D.
        dropout: of feature entries in training.
    """

    dim: int = Field(default=128, ge=1)
    dropout: float = Field(default=0.2, ge=0, lt=1)


class SameDocument(nn.Module):
    """Features, each with mean 0 and deviation 1 over the training pictures → unit length → linear → unit."""

    name = "document"
    centre: Tensor
    spread: Tensor

    def __init__(
        self, architecture: DocumentArchitecture, *, image_width: int, features: nn.Module | None = None
    ) -> None:
        """Draw the weights from torch's generator.

        Args:
            architecture: sizes.
            image_width: F of the picture features.
            features: bytes of pictures → (B, F), fixed; None where features are stored.
        """
        super().__init__()
        self.architecture, self.image_width, self.features = architecture, image_width, features
        self.register_buffer("centre", torch.zeros(image_width))
        self.register_buffer("spread", torch.ones(image_width))
        self.dropout = nn.Dropout(architecture.dropout)
        self.project = nn.Linear(image_width, architecture.dim, bias=False)

    def forward(self, pictures: Tensor) -> Tensor:
        """(B, F), or what `features` takes → (B, D) rows of unit length.

        Raises:
            ShapeError: features of another width.
        """
        found = self.described(pictures)
        if found.ndim != 2 or found.shape[1] != self.image_width:
            due = self.image_width
            raise ShapeError(
                f"document: picture features have shape {tuple(found.shape)}, expected (B, {due})"
            )
        return normalize(
            self.project(self.dropout(normalize((found - self.centre) / self.spread, dim=1))), dim=1
        )

    def described(self, pictures: Tensor) -> Tensor:
        """Features as they are, or those of drawn pictures' bytes: (B, F)."""
        found: Tensor = pictures if self.features is None else self.features(pictures)
        return found

    @property
    def dim(self) -> int:
        """D."""
        return self.architecture.dim

    @property
    def device(self) -> torch.device:
        """Where the weights lie."""
        return self.project.weight.device

    @property
    def fingerprint(self) -> str:
        """Hash of settings and weights: equal fingerprints give equal vectors."""
        return settings_fingerprint(self, self.architecture)

    def encode_image(self, pictures: np.ndarray) -> FloatArray:
        """(M, F) features, or bytes where they are drawn → (M, D) float32 unit rows."""
        return encode_pictures(self, pictures, self, (self.dim,), self.device)
