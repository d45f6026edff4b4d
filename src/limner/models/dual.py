"""Dual encoder: sentence vectors and picture features, both frozen, through trained layers into one space.

A step can be heard alone, with the mean of its story, or with a recurrent network over all steps. It holds
no loss and trains no encoder.
"""

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np
import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn.functional import normalize
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence

from limner.arrays import FloatArray, TextEncoder, scores
from limner.config import Config
from limner.errors import ShapeError
from limner.models.encoding import Evaluating, encode_pictures, settings_fingerprint, to_tensor
from limner.models.story_encoding import encode_alone

Context = Literal["none", "mean", "recurrent"]
FIRST_SCALE, LARGEST_SCALE = 1 / 0.07, 100.0


def frozen_sentences() -> TextEncoder:
    """The encoder of sentences that needs no download."""
    from limner.encoders.catalogue import text_encoder

    return text_encoder()


class DualArchitecture(Config):
    """Sizes and parts of the model.

    Attributes:
        dim: D of the joint space.
        context: what a step hears of its story: nothing, the mean of its vectors, or a GRU both ways.
        hidden: of the GRU, per direction.
        dropout: of input entries in training.
    """

    dim: int = Field(default=512, ge=1)
    context: Context = "recurrent"
    hidden: int = Field(default=256, ge=1)
    dropout: float = Field(default=0.3, ge=0, lt=1)


class Dual(nn.Module):
    """The whole system; retrieval and evaluation call `encode_stories`, `encode_image` and `score`."""

    name = "dual"
    centre: Tensor
    spread: Tensor

    def __init__(
        self,
        architecture: DualArchitecture,
        sentences: TextEncoder,
        *,
        image_width: int,
        features: nn.Module | None = None,
    ) -> None:
        """Draw the weights from torch's generator.

        Args:
            architecture: sizes and parts.
            sentences: frozen, gives vectors of whole texts.
            image_width: F of the picture features.
            features: bytes of pictures → (B, F), fixed; None where features are stored.
        """
        super().__init__()
        own = architecture
        self.architecture, self.sentences, self.image_width = own, sentences, image_width
        self.features = features
        self.register_buffer("centre", torch.zeros(image_width))
        self.register_buffer("spread", torch.ones(image_width))
        self.dropout = nn.Dropout(own.dropout)
        width = sentences.dim
        self.story = (
            nn.GRU(width, own.hidden, batch_first=True, bidirectional=True)
            if own.context == "recurrent"
            else None
        )
        heard = width + {"none": 0, "mean": width, "recurrent": 2 * own.hidden}[own.context]
        self.of_text = nn.Linear(heard, own.dim)
        self.of_image = nn.Linear(image_width, own.dim)
        self.log_scale = nn.Parameter(torch.tensor(math.log(FIRST_SCALE)))

    def forward(self, texts: Tensor, steps: Tensor) -> Tensor:
        """Texts of B stories → (S, D) rows of unit length.

        Args:
            texts: (S, W) sentence vectors, the steps of all stories one after the other.
            steps: (B,) int64 on the CPU, with sum S.
        Raises:
            ShapeError: sizes do not fit.
        """
        counts = steps.tolist()
        if texts.ndim != 2 or sum(counts) != len(texts) or min(counts, default=1) < 1:
            raise ShapeError(
                f"dual: {tuple(texts.shape)} sentence vectors for stories of {counts} steps, expected (S, W)"
            )
        own = self.dropout(texts)
        if self.story is not None:
            padded = pad_sequence(list(own.split(counts)), batch_first=True)
            packed = pack_padded_sequence(padded, steps, batch_first=True, enforce_sorted=False)
            states, _ = pad_packed_sequence(self.story(packed)[0], batch_first=True)
            real = torch.arange(states.shape[1]) < steps[:, None]
            own = torch.cat([own, states[real.to(states.device)]], dim=1)
        elif self.architecture.context == "mean":
            means = torch.stack([part.mean(dim=0) for part in own.split(counts)])
            own = torch.cat([own, means.repeat_interleave(steps.to(means.device), dim=0)], dim=1)
        return normalize(self.of_text(own), dim=1)

    def pictures(self, pictures: Tensor) -> Tensor:
        """(B, F) features, or what `features` takes → (B, D) rows of unit length.

        Raises:
            ShapeError: features of another width.
        """
        found = self.described(pictures)
        if found.ndim != 2 or found.shape[1] != self.image_width:
            due = self.image_width
            raise ShapeError(f"dual: picture features have shape {tuple(found.shape)}, expected (B, {due})")
        even = normalize((found - self.centre) / self.spread, dim=1)
        return normalize(self.of_image(self.dropout(even)), dim=1)

    def described(self, pictures: Tensor) -> Tensor:
        """Features as they are, or those of drawn pictures' bytes: (B, F)."""
        found: Tensor = pictures if self.features is None else self.features(pictures)
        return found

    @property
    def scale(self) -> Tensor:
        """1/τ of the softmax, learned, at most 100."""
        return self.log_scale.exp().clamp(max=LARGEST_SCALE)

    @property
    def dim(self) -> int:
        """D."""
        return self.architecture.dim

    @property
    def device(self) -> torch.device:
        """Where the weights lie."""
        return self.of_text.weight.device

    @property
    def fingerprint(self) -> str:
        """Hash of settings, sentence encoder and weights: equal fingerprints give equal vectors."""
        return settings_fingerprint(self, self.architecture, self.sentences.fingerprint)

    def encode_stories(self, stories: Sequence[Sequence[str]]) -> list[FloatArray]:
        """Stories → per story (T, D) float32 unit rows; a story hears all its steps."""
        counts = [len(story) for story in stories]
        vectors = self.sentences.encode_text([text for story in stories for text in story])
        parts = np.split(vectors, np.cumsum(counts)[:-1]) if counts else []
        found: list[FloatArray] = []
        with Evaluating(self):
            for part in parts:  # a story at a time: its vectors do not depend on its company
                if not len(part):
                    found.append(np.zeros((0, self.dim), np.float32))
                    continue
                made = self(to_tensor(part, self.device), torch.tensor([len(part)]))
                found.append(made.float().cpu().numpy())
        return found

    def encode_text(self, texts: Sequence[str]) -> FloatArray:
        """Texts → (N, D) unit rows, each heard as a story of one step."""
        return encode_alone(self.encode_stories, texts, self.dim)

    def encode_image(self, pictures: np.ndarray) -> FloatArray:
        """(M, F) features, or bytes where they are drawn → (M, D) float32 unit rows."""
        return encode_pictures(self, pictures, self.pictures, (self.dim,), self.device)

    def score(self, texts: FloatArray, images: FloatArray) -> FloatArray:
        """(N, D) and (M, D) unit rows → (N, M) cosines."""
        return scores(texts, images)
