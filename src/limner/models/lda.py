"""LDA over words and visual words: topics that a text and its picture share.

Visual words are the centres nearest to a picture's local vectors. A picture is scored by how probable its
visual words are under the topics inferred from a text. scikit-learn infers; nothing is fitted here.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field
from torch import Tensor, nn

from limner.arrays import FloatArray, expect
from limner.config import Config
from limner.errors import ShapeError
from limner.models.encoding import Evaluating, settings_fingerprint, to_tensor

CELLS = 8
CELL_PX = 4
CELL_WIDTH = CELL_PX * CELL_PX * 3
_BLOCK = 64  # pictures whose local vectors are projected at once


class LdaArchitecture(Config):
    """Priors of the topics, and sizes of what visual words are made of.

    Attributes:
        components: of the PCA of local vectors, at most; never more than the vectors have numbers.
        visual_words: centres.
        alpha: sum of the symmetric prior over topics, so that each of K has alpha / K.
        eta: symmetric prior of every word under a topic.
    Source: Feng & Lapata 2010; docs/methods/vrss.md §8.
    """

    components: int = Field(default=128, ge=1)
    visual_words: int = Field(default=750, ge=2)
    alpha: float = Field(default=50.0, gt=0)
    eta: float = Field(default=0.1, gt=0, le=1)


class Lda(nn.Module):
    """The whole system; evaluation calls `encode_text`, `encode_image` and `score`. It has no gradients."""

    name = "lda"
    comparable = False  # by cosines, which are all that a library asks for
    mean: Tensor
    axes: Tensor
    centres: Tensor
    topics: Tensor

    def __init__(
        self,
        architecture: LdaArchitecture,
        words: Sequence[str],
        *,
        mean: Tensor,
        axes: Tensor,
        centres: Tensor,
        topics: Tensor,
    ) -> None:
        """Take what was fitted.

        Args:
            architecture: priors and sizes.
            words: W of the texts.
            mean: (F,) of local vectors.
            axes: (C, F) of their PCA.
            centres: (V, C) visual words.
            topics: (K, W + V) float64, > 0, pseudo-counts of words and visual words under each topic.
        Raises:
            ShapeError: parts do not fit each other.
        """
        super().__init__()
        self.architecture, self.words = architecture, tuple(words)
        expect("lda", mean=(mean, "F"), axes=(axes, "C F"), centres=(centres, "V C"))
        due = len(self.words) + len(centres)
        if topics.ndim != 2 or topics.shape[1] != due:
            raise ShapeError(f"lda: topics have shape {tuple(topics.shape)}, expected (K, {due})")
        for name, part in (("mean", mean), ("axes", axes), ("centres", centres), ("topics", topics)):
            self.register_buffer(name, part)

    @property
    def dim(self) -> int:
        """K, the width of a text's row; a picture's has one number per visual word."""
        return len(self.topics)

    @property
    def device(self) -> torch.device:
        """Where pictures are looked at."""
        return self.mean.device

    @property
    def fingerprint(self) -> str:
        """Hash of settings, words and topics: equal fingerprints give equal scores."""
        return settings_fingerprint(self, self.architecture, self.words)

    def encode_text(self, texts: Sequence[str]) -> FloatArray:
        """Texts → (N, K) float32 shares of the topics, inferred from their words alone; rows sum to 1."""
        if not texts:
            return np.zeros((0, self.dim), np.float32)
        from scipy.sparse import csr_matrix, hstack
        from scipy.special import psi
        from sklearn.decomposition import LatentDirichletAllocation

        topics = self.topics.cpu().numpy().astype(np.float64)
        model = LatentDirichletAllocation(self.dim)
        model.components_ = topics
        model.exp_dirichlet_component_ = np.exp(psi(topics) - psi(topics.sum(axis=1))[:, None])
        model.doc_topic_prior_ = self.architecture.alpha / self.dim
        model.n_features_in_ = topics.shape[1]
        counts = word_counts(texts, self.words)
        unseen = csr_matrix((len(texts), len(self.centres)), dtype=counts.dtype)
        found: FloatArray = model.transform(hstack([counts, unseen], format="csr")).astype(np.float32)
        return found

    def encode_image(self, pictures: np.ndarray) -> FloatArray:
        """(M, P, F) local vectors, or bytes of drawings → (M, V) float32 shares of visual words."""
        counts = self.visual_counts(pictures)
        shares: FloatArray = (counts / counts.sum(axis=1, keepdims=True)).astype(np.float32)
        return shares

    def score(self, texts: FloatArray, images: FloatArray) -> FloatArray:
        """(N, K) and (M, V) → (N, M) mean over a picture's visual words of ln Σ_k θ_k φ_k(w).

        Source: Feng & Lapata 2010; docs/methods/vrss.md §8.
        """
        expect("lda.score", texts=(texts, "N K"), images=(images, "M V"))
        topics = self.topics.cpu().numpy().astype(np.float64)
        visual = topics[:, len(self.words) :] / topics.sum(axis=1, keepdims=True)
        logarithms = np.log(texts.astype(np.float64) @ visual)
        found: FloatArray = (logarithms @ images.T.astype(np.float64)).astype(np.float32)
        return found

    def visual_counts(self, pictures: np.ndarray) -> NDArray[np.int64]:
        """(M, P, F) local vectors, or bytes of drawings → (M, V) how often each visual word occurs.

        Raises:
            ShapeError: vectors of another width.
        """
        count = len(self.centres)
        found = np.zeros((len(pictures), count), np.int64)
        with Evaluating(self):
            squares = self.centres.square().sum(dim=1)
            for start in range(0, len(pictures), _BLOCK):
                vectors = local_vectors(to_tensor(pictures[start : start + _BLOCK], self.device))
                if vectors.shape[2] != len(self.mean):
                    due = len(self.mean)
                    raise ShapeError(f"lda: local vectors of width {vectors.shape[2]}, expected {due}")
                projected = (vectors - self.mean) @ self.axes.t()  # (m, P, C)
                nearest = (squares - 2 * projected @ self.centres.t()).argmin(dim=2).cpu().numpy()
                for row, own in enumerate(nearest, start):
                    found[row] = np.bincount(own, minlength=count)
        return found


def local_vectors(pictures: Tensor) -> Tensor:
    """(M, P, F) grid features as they are, or bytes (M, H, W, 3) as the pixels of 8 × 8 cells: (M, 64, 48).

    Drawings are averaged to 32 × 32 pixels, so that a cell has 4 × 4, each colour in [−1, 1].

    Raises:
        ShapeError: neither of them.
    """
    if pictures.dtype == torch.uint8 and pictures.ndim == 4 and pictures.shape[3] == 3:
        scaled = pictures.permute(0, 3, 1, 2).float() / 127.5 - 1
        small = nn.functional.adaptive_avg_pool2d(scaled, CELLS * CELL_PX)
        return nn.functional.unfold(small, CELL_PX, stride=CELL_PX).transpose(1, 2)
    if pictures.dtype != torch.uint8 and pictures.ndim == 3:
        return pictures
    raise ShapeError(
        f"lda: pictures are {pictures.dtype} {tuple(pictures.shape)}, expected grid features (M, P, F) or"
        " uint8 (M, H, W, 3)"
    )


def word_tokens(text: str) -> list[str]:
    """Words of a text that count: of at least two letters or digits, lower-cased, no English stop words."""
    from sklearn.feature_extraction.text import CountVectorizer

    found: list[str] = CountVectorizer(stop_words="english").build_analyzer()(text)
    return found


def word_counts(texts: Sequence[str], words: Sequence[str]) -> Any:  # noqa: ANN401  (a sparse matrix)
    """(N, W) sparse: how often each of the words occurs in each text."""
    from sklearn.feature_extraction.text import CountVectorizer

    return CountVectorizer(stop_words="english", vocabulary=list(words)).transform(texts)
