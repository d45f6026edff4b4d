"""VSE: one vector per text and picture, the plain model that all systems are compared with.

VSE0 and VSE++ differ in their loss, not here. It reads no files and holds no loss.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn.functional import normalize

from limner.arrays import FloatArray, expect
from limner.config import Config
from limner.errors import ShapeError
from limner.models.encoding import ENCODE_BATCH, Evaluating, Tokens, encode_pictures, fingerprint
from limner.nn.words import last_states


class VseArchitecture(Config):
    """Sizes of the model.

    Attributes:
        dim: D of the joint space.
        word_width: E.
        no_imgnorm: leave picture vectors as long as they are, as the authors' VSE0.
    Source: VSE++ 2018; docs/methods/gsda.md §8.1.
    """

    dim: int = Field(default=1024, ge=1)
    word_width: int = Field(default=300, ge=1)
    no_imgnorm: bool = False


class JointVectors(NamedTuple):
    """Vectors of B pairs.

    Attributes:
        texts: (B, D) rows of unit length.
        images: (B, D), of unit length unless `no_imgnorm`.
    """

    texts: Tensor
    images: Tensor


class Vse(nn.Module):
    """The whole system; `encode_text`, `encode_image` and `score` are what retrieval and evaluation call."""

    name = "vse"

    def __init__(
        self,
        architecture: VseArchitecture,
        vocabulary: Tokens,
        *,
        image_width: int,
        max_length: int,
        vectors: Tensor | None = None,
        trunk: nn.Module | None = None,
    ) -> None:
        """Draw the weights from torch's generator.

        Args:
            architecture: sizes.
            vocabulary: of the training texts.
            image_width: F of the picture features.
            max_length: words of a text that count.
            vectors: (V, E) to start from.
            trunk: bytes of pictures → (B, F); None where features are stored.
        Raises:
            ShapeError: the vectors do not fit.
        """
        super().__init__()
        own = architecture
        self.architecture, self.vocabulary, self.max_length = own, vocabulary, max_length
        self.embedding = nn.Embedding(len(vocabulary), own.word_width, padding_idx=0)
        if vectors is not None:
            due = (len(vocabulary), own.word_width)
            if tuple(vectors.shape) != due:
                raise ShapeError(f"vse: word vectors have shape {tuple(vectors.shape)}, expected {due}")
            with torch.no_grad():
                self.embedding.weight.copy_(vectors)
                self.embedding.weight[0] = 0
        self.gru = nn.GRU(own.word_width, own.dim, batch_first=True)
        self.trunk = trunk
        self.project = nn.Linear(image_width, own.dim)

    def forward(self, ids: Tensor, lengths: Tensor, pictures: Tensor) -> JointVectors:
        """Encode B pairs.

        Args:
            ids: (B, L) int64.
            lengths: (B,) int64 in 1…L.
            pictures: (B, F), or what the trunk takes.
        Raises:
            ShapeError: sizes do not fit.
        """
        return JointVectors(self._texts(ids, lengths), self._images(pictures))

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
        """Hash of settings, words and weights: equal fingerprints give equal vectors."""
        return fingerprint(self, self.architecture, self.vocabulary, self.max_length)

    def encode_text(self, texts: Sequence[str]) -> FloatArray:
        """Texts → (N, D) float32 rows of unit length."""
        found = np.zeros((len(texts), self.dim), np.float32)
        with Evaluating(self):
            for start in range(0, len(texts), ENCODE_BATCH):
                ids, lengths = self.vocabulary.batch(texts[start : start + ENCODE_BATCH], self.max_length)
                made = self._texts(torch.from_numpy(ids).to(self.device), torch.from_numpy(lengths))
                found[start : start + ENCODE_BATCH] = made.float().cpu().numpy()
        return found

    def encode_image(self, pictures: np.ndarray) -> FloatArray:
        """(M, F) features, or (M, H, W, 3) bytes where a trunk trains along → (M, D) float32 rows."""
        return encode_pictures(self, pictures, self._images, (self.dim,), self.device)

    def score(self, texts: FloatArray, images: FloatArray) -> FloatArray:
        """(N, D) and (M, D) rows → (N, M) products: cosines unless `no_imgnorm`.

        Raises:
            ShapeError: widths differ.
        """
        expect("vse", texts=(texts, "N D"), images=(images, "M D"))
        return texts @ images.T

    def _texts(self, ids: Tensor, lengths: Tensor) -> Tensor:
        sizes = expect("vse", ids=(ids, "B L"), lengths=(lengths, "B"))
        if int(lengths.min()) < 1 or int(lengths.max()) > sizes["L"]:
            raise ShapeError(f"vse: a length lies outside 1…{sizes['L']}; give the lengths before padding")
        return normalize(last_states(self.gru, self.embedding(ids), lengths.cpu()), dim=1)

    def _images(self, pictures: Tensor) -> Tensor:
        features = pictures if self.trunk is None else self.trunk(pictures)
        due = self.project.in_features
        if features.ndim != 2 or features.shape[1] != due:
            raise ShapeError(f"vse: picture features have shape {tuple(features.shape)}, expected (B, {due})")
        made = self.project(normalize(features, dim=1))
        return made if self.architecture.no_imgnorm else normalize(made, dim=1)
