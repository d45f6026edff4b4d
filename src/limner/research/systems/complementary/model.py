"""PVSE: texts and pictures with K embeddings each, and the best of their K² cosines as the score.

What all rows of complementary samples train.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from limner.arrays import FloatArray, expect
from limner.config import Config
from limner.research.losses.checks import product
from limner.research.nn.polysemous import GridTower, TextTower
from limner.research.systems.base import ENCODE_BATCH, Model, Parts, evaluating

_ROWS, _COLUMNS = 1024, 4096  # products of heads at once


class PvseArchitecture(Config):
    """Sizes of the model.

    Attributes:
        heads: K, embeddings of an item.
        dim: H of an embedding, even.
        word_width: E.
        image_hidden: of the attention over places.
        text_hidden: of the attention over words.
    Source: PVSE 2019; docs/methods/complementary.md §2.1.
    """

    heads: int = Field(default=3, ge=1)
    dim: int = Field(default=1024, ge=2)
    word_width: int = Field(default=200, ge=1)
    image_hidden: int = Field(default=1024, ge=1)
    text_hidden: int = Field(default=100, ge=1)


class Polysemous(NamedTuple):
    """What the model says about B pairs.

    Attributes:
        texts, images: (B, K, H) rows of unit length.
        text_residuals, image_residuals: (B, K, H) what every head added.
    """

    texts: Tensor
    images: Tensor
    text_residuals: Tensor
    image_residuals: Tensor


def pair_scores(texts: Tensor, images: Tensor) -> Tensor:
    """The largest of the K² products of every pair, by one matrix product; gradients flow.

    Args:
        texts: (B, K, H) rows of unit length.
        images: (M, J, H) rows of unit length.
    Returns:
        (B, M) cosines; equal maxima share the gradient.
    Raises:
        ShapeError: widths differ.
    Source: T&K 2022, Section 3.1; docs/methods/complementary.md §2.2.
    """
    sizes = expect("pair_scores", texts=(texts, "B K H"), images=(images, "M J H"))
    products = product(texts.flatten(0, 1), images.flatten(0, 1).t())
    return products.reshape(sizes["B"], sizes["K"], sizes["M"], sizes["J"]).amax(dim=(1, 3))


class Pvse(Model):
    """Towers of texts and of grids of features."""

    name = "pvse"

    def __init__(self, architecture: PvseArchitecture, parts: Parts) -> None:
        """Draw the weights from torch's generator.

        Raises:
            ConfigError: H is odd.
            ShapeError: the word vectors do not fit.
        """
        super().__init__(architecture, parts)
        own = architecture
        self.words = TextTower(
            len(self.vocabulary), own.word_width, own.text_hidden, own.heads, own.dim, vectors=parts.vectors
        )
        self.grid = GridTower(parts.image_width, own.image_hidden, own.heads, own.dim, parts.backbone)

    def forward(self, ids: Tensor, lengths: Tensor, pictures: Tensor) -> Polysemous:
        """Embed B pairs.

        Args:
            ids: (B, L) int64.
            lengths: (B,) int64 in 1…L.
            pictures: (B, P, F), or what the backbone takes.
        Raises:
            ShapeError: sizes do not fit.
        """
        texts, images = self.words(ids, lengths), self.grid(pictures)
        return Polysemous(texts.vectors, images.vectors, texts.residuals, images.residuals)

    @property
    def heads(self) -> int:
        """K."""
        return int(self.architecture.heads)

    @property
    def shape(self) -> tuple[int, ...]:
        """(K, H)."""
        return (self.heads, self.dim)

    def pictures(self, pictures: Tensor) -> Tensor:
        """(B, P, F) grids, or what the backbone takes → (B, K, H) unit rows."""
        found: Tensor = self.grid(pictures).vectors
        return found

    def encode_text(self, texts: Sequence[str]) -> FloatArray:
        """Texts → (N, K, H) float32 rows of unit length; texts of like length are read together."""
        found = np.zeros((len(texts), *self.shape), np.float32)
        if not texts:
            return found
        ids, lengths = self.vocabulary.batch(texts, self.max_length)
        order = np.argsort(lengths, kind="stable")
        with evaluating(self):
            for start in range(0, len(texts), ENCODE_BATCH):
                some = order[start : start + ENCODE_BATCH]
                words = torch.from_numpy(ids[some, : int(lengths[some].max())]).to(self.device)
                made = self.words(words, torch.from_numpy(lengths[some]))
                found[some] = made.vectors.float().cpu().numpy()
        return found

    def score(self, texts: FloatArray, images: FloatArray) -> FloatArray:
        """(N, K, H) and (M, K, H) unit rows → (N, M) largest cosines, in blocks.

        Raises:
            ShapeError: widths differ.
        """
        found: FloatArray = self.products(
            *(torch.from_numpy(np.ascontiguousarray(part)) for part in (texts, images))
        ).numpy()
        return found

    def products(self, texts: Tensor, images: Tensor) -> Tensor:
        """See `Model.products`."""
        sizes = expect("pvse", texts=(texts, "N K H"), images=(images, "M J H"))
        rows, columns = max(1, _ROWS // sizes["K"]), max(1, _COLUMNS // sizes["J"])
        found = texts.new_empty(sizes["N"], sizes["M"])
        for top in range(0, sizes["N"], rows):
            for left in range(0, sizes["M"], columns):
                made = pair_scores(texts[top : top + rows], images[left : left + columns])
                found[top : top + rows, left : left + columns] = made
        return found
