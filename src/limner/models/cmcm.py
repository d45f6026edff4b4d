"""CMCM: texts and pictures in one space, and the coherence relations that hold between them.

Base and CMCA are the same model without relations. It takes numbers of words, and features or bytes of
pictures; it reads no files, and losses and training live elsewhere.
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
import torch
from pydantic import Field
from torch import Tensor, nn

from limner.arrays import FloatArray, scores
from limner.config import Config
from limner.errors import ConfigError, ShapeError
from limner.models.encoding import ENCODE_BATCH, Evaluating, Tokens, encode_pictures, fingerprint, to_tensor
from limner.models.relations import CoherenceModule, Kind
from limner.nn.words import Pooling, WordEncoder


class Architecture(Config):
    """Sizes and parts of the model.

    Attributes:
        dim: D of the joint space.
        word_width: E of a word vector.
        hidden: of the LSTM, per direction.
        bidirectional: whether it reads both ways.
        pooling: "none" (Base, CMCM-NoAttn), "additive" or "scaled".
        relations: how relations are predicted; "none" for Base and CMCA.
        relations_hidden: width of the hidden layer of "mlp".
    Source: CMCM 2022; docs/methods/cmcm.md §2.
    """

    dim: int = Field(default=1024, ge=1)
    word_width: int = Field(default=300, ge=1)
    hidden: int = Field(default=300, ge=1)
    bidirectional: bool = True
    pooling: Pooling = "scaled"
    relations: Literal["none"] | Kind = "linear"
    relations_hidden: int = Field(default=512, ge=1)


class Joint(NamedTuple):
    """What the model says about B pairs.

    Attributes:
        texts: (B, D) rows of unit length.
        images: (B, D) rows of unit length.
        logits: (B, C) of the relations, or None.
        attention: (B, T) over the words, or None.
    """

    texts: Tensor
    images: Tensor
    logits: Tensor | None
    attention: Tensor | None


class ImageHead(nn.Module):
    """Features → batch norm → linear → unit length, over a trunk that trains with it or over stored features.

    Source: CMCM 2022; docs/methods/cmcm.md §2.1.
    """

    def __init__(self, width: int, dim: int, trunk: nn.Module | None = None) -> None:
        """Prepare.

        Args:
            width: F of a feature.
            dim: D.
            trunk: bytes of pictures → (B, F); None where features are stored.
        """
        super().__init__()
        self.trunk = trunk
        self.norm = nn.BatchNorm1d(width)
        self.project = nn.Linear(width, dim)

    def forward(self, pictures: Tensor) -> Tensor:
        """(B, F) features, or what the trunk takes → (B, D).

        Raises:
            ShapeError: features of another width, or one picture alone in training.
        """
        features = pictures if self.trunk is None else self.trunk(pictures)
        if features.ndim != 2 or features.shape[1] != self.norm.num_features:
            due = self.norm.num_features
            raise ShapeError(
                f"cmcm: picture features have shape {tuple(features.shape)}, expected (B, {due})"
            )
        if self.training and len(features) < 2:
            raise ShapeError("cmcm: one picture in a training batch, expected at least 2 for batch norm")
        return nn.functional.normalize(self.project(self.norm(features)), dim=1)


class Cmcm(nn.Module):
    """The whole system; `encode_text`, `encode_image` and `score` are what retrieval and evaluation call."""

    name = "cmcm"

    def __init__(
        self,
        architecture: Architecture,
        vocabulary: Tokens,
        *,
        image_width: int,
        relations: Sequence[str] = (),
        max_length: int,
        vectors: Tensor | None = None,
        trunk: nn.Module | None = None,
    ) -> None:
        """Draw the weights from torch's generator.

        Args:
            architecture: sizes and parts.
            vocabulary: of the training texts.
            image_width: F of the picture features.
            relations: names of the C relations.
            max_length: words of a text that count.
            vectors: (V, E) to start from.
            trunk: see `ImageHead`.
        Raises:
            ConfigError: relations are to be predicted and none is named.
            ShapeError: the vectors do not fit.
        """
        super().__init__()
        if architecture.relations != "none" and not relations:
            raise ConfigError(
                "cmcm: no relation to predict; name some in data.relations or set model.relations='none'"
            )
        self.architecture, self.vocabulary, self.max_length = architecture, vocabulary, max_length
        self.relations = tuple(relations) if architecture.relations != "none" else ()
        self.words = WordEncoder(
            len(vocabulary),
            architecture.dim,
            vectors=vectors,
            width=architecture.word_width,
            hidden=architecture.hidden,
            bidirectional=architecture.bidirectional,
            pooling=architecture.pooling,
        )
        self.image_head = ImageHead(image_width, architecture.dim, trunk)
        self.coherence = (
            CoherenceModule(
                architecture.dim, len(self.relations), architecture.relations, architecture.relations_hidden
            )
            if architecture.relations != "none"
            else None
        )

    def forward(self, ids: Tensor, lengths: Tensor, pictures: Tensor) -> Joint:
        """Encode B pairs.

        Args:
            ids: (B, T) int64.
            lengths: (B,) int64 in 1…T.
            pictures: B features, or what the trunk takes.
        Raises:
            ShapeError: sizes do not fit.
        """
        texts = self.words(ids, lengths)
        images = self.image_head(pictures)
        logits = None if self.coherence is None else self.coherence(texts.vectors, images)
        return Joint(texts.vectors, images, logits, texts.attention)

    @property
    def dim(self) -> int:
        """D."""
        return self.architecture.dim

    @property
    def device(self) -> torch.device:
        """Where the weights lie."""
        return self.image_head.project.weight.device

    @property
    def fingerprint(self) -> str:
        """Hash of settings, words and weights: equal fingerprints give equal vectors."""
        return fingerprint(self, self.architecture, self.vocabulary, self.max_length, self.relations)

    def encode_text(self, texts: Sequence[str]) -> FloatArray:
        """Texts → (N, D) float32 rows of unit length; dropout and batch statistics off."""
        with Evaluating(self):
            parts = [
                self.words(*self._numbers(texts[start : start + ENCODE_BATCH])).vectors.float().cpu().numpy()
                for start in range(0, len(texts), ENCODE_BATCH)
            ]
        return np.concatenate(parts) if parts else np.zeros((0, self.dim), np.float32)

    def encode_image(self, pictures: np.ndarray) -> FloatArray:
        """(M, F) features, or (M, H, W, 3) bytes where a trunk trains along → (M, D) float32 unit rows."""
        return encode_pictures(self, pictures, self.image_head, (self.dim,), self.device)

    def score(self, texts: FloatArray, images: FloatArray) -> FloatArray:
        """(N, D) and (M, D) unit rows → (N, M) cosines."""
        return scores(texts, images)

    def attention(self, texts: Sequence[str]) -> list[list[tuple[str, float]]]:
        """Per text, its tokens (as many as count) and their weights, which sum to 1.

        Raises:
            ConfigError: the model has no attention.
        """
        if self.words.attention is None:
            raise ConfigError("cmcm: pooling 'none' has no attention; train with model.pooling='scaled'")
        found: list[list[tuple[str, float]]] = []
        with Evaluating(self):
            for start in range(0, len(texts), ENCODE_BATCH):
                some = texts[start : start + ENCODE_BATCH]
                weights = self.words(*self._numbers(some)).attention
                for text, row in zip(some, weights.cpu().tolist(), strict=True):
                    found.append(
                        list(zip(self.vocabulary.tokens(text)[: self.max_length], row, strict=False))
                    )
        return found

    @property
    def separable(self) -> bool:
        """Whether relation logits are a text term plus a picture term."""
        return self.architecture.relations == "linear"

    def relation_terms(self, texts: FloatArray, images: FloatArray) -> tuple[FloatArray, FloatArray]:
        """(N, D), (M, D) → (N, C) text terms with the bias, (M, C) picture terms; logits are their sums.

        Raises:
            ConfigError: the model predicts no relations, or not linearly.
        """
        with Evaluating(self):
            first, second = self._coherence().terms(
                to_tensor(texts, self.device), to_tensor(images, self.device)
            )
        return first.float().cpu().numpy(), second.float().cpu().numpy()

    def relation_table(self, texts: FloatArray, images: FloatArray) -> FloatArray:
        """(N, D) and (M, D) → (N, M, C) logits of all pairs, for blocks of moderate size.

        Raises:
            ConfigError: the model predicts no relations.
        """
        with Evaluating(self):
            table = self._coherence().table(to_tensor(texts, self.device), to_tensor(images, self.device))
        found: FloatArray = table.float().cpu().numpy()
        return found

    def relation_probabilities(self, texts: FloatArray, images: FloatArray) -> FloatArray:
        """(B, D) and (B, D), row by row a pair → (B, C) probability that each relation holds.

        Raises:
            ConfigError: the model predicts no relations.
        """
        with Evaluating(self):
            logits = self._coherence()(to_tensor(texts, self.device), to_tensor(images, self.device))
        found: FloatArray = logits.float().sigmoid().cpu().numpy()
        return found

    def _coherence(self) -> CoherenceModule:
        if self.coherence is None:
            raise ConfigError(
                "cmcm: this model predicts no relations; train one with model.relations='linear'"
            )
        return self.coherence

    def _numbers(self, texts: Sequence[str]) -> tuple[Tensor, Tensor]:
        ids, lengths = self.vocabulary.batch(texts, self.max_length)
        return torch.from_numpy(ids).to(self.device), torch.from_numpy(lengths)
