"""CNSI and NSI: sentences and pictures in an order space, then stories of sentences as sequences of pictures.

CNSI also knows how a story hangs together, by a vector that is given from outside; NSI does not. Retrieval is
by order energy, which is no product of vectors. It holds no loss and no parser.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple, cast

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field
from torch import Tensor, nn
from torch.nn.functional import normalize
from torch.nn.utils.rnn import pad_sequence

from limner.arrays import FloatArray, expect
from limner.config import Config
from limner.errors import ConfigError, ShapeError
from limner.models.encoding import Tokens, encode_pictures, fingerprint
from limner.models.story_encoding import encode_alone, encode_stories
from limner.nn.words import last_states, states

_BLOCK_FLOATS = 1 << 24  # of one table of differences while scoring

Coherence = Callable[[Sequence[str]], NDArray[np.float32]]


class CnsiArchitecture(Config):
    """Sizes and parts of the model.

    Attributes:
        word_width: E.
        dim: D of the order space, and of the last recurrent layer.
        hidden: of the first two recurrent layers over a story.
        dropout: on sentence vectors in the second stage.
        coherence: width of the coherence vector; 0 for NSI.
    Source: CNSI 2018; docs/methods/gsda.md §8.3.
    """

    word_width: int = Field(default=300, ge=1)
    dim: int = Field(default=1024, ge=1)
    hidden: int = Field(default=512, ge=1)
    dropout: float = Field(default=0.2, ge=0, lt=1)
    coherence: int = Field(default=64, ge=0)


class OrderVectors(NamedTuple):
    """Vectors of B pairs in the order space.

    Attributes:
        texts, images: (B, D), no value negative, rows of unit length.
    """

    texts: Tensor
    images: Tensor


class Cnsi(nn.Module):
    """The whole system; retrieval and evaluation call `encode_stories`, `encode_image` and `score`."""

    name = "cnsi"
    comparable = False  # by cosines, which are all that a library asks for

    def __init__(
        self,
        architecture: CnsiArchitecture,
        vocabulary: Tokens,
        *,
        image_width: int,
        max_length: int,
        coherence: Coherence | None = None,
        vectors: Tensor | None = None,
        features: nn.Module | None = None,
    ) -> None:
        """Draw the weights from torch's generator.

        Args:
            architecture: sizes and parts.
            vocabulary: of the training texts.
            image_width: F of the picture features.
            max_length: words of a step that count.
            coherence: texts of a story → its vector, of the architecture's width; None for NSI.
            vectors: (V, E) to start from.
            features: bytes of pictures → (B, F), fixed; None where features are stored.
        Raises:
            ConfigError: a coherence vector is asked for and none is given, or the other way round.
            ShapeError: the word vectors do not fit.
        """
        super().__init__()
        own = architecture
        if bool(own.coherence) is (coherence is None):
            raise ConfigError(
                f"cnsi: coherence vectors of width {own.coherence}, but"
                f" {'none are' if coherence is None else 'some are'} given; they go together"
            )
        self.architecture, self.vocabulary, self.max_length = own, vocabulary, max_length
        self.image_width, self.features, self.coherence = image_width, features, coherence
        self.embedding = nn.Embedding(len(vocabulary), own.word_width, padding_idx=0)
        if vectors is not None:
            expect("cnsi", vectors=(vectors, f"{len(vocabulary)} {own.word_width}"))
            with torch.no_grad():
                self.embedding.weight.copy_(vectors)
                self.embedding.weight[0] = 0
        self.words = nn.GRU(own.word_width, own.dim, batch_first=True)
        self.project = nn.Linear(image_width, own.dim)
        self.dropout = nn.Dropout(own.dropout)
        self.story = nn.ModuleList(
            nn.GRU(before, after, batch_first=True)
            for before, after in ((own.dim, own.hidden), (own.hidden, own.hidden), (own.hidden, own.dim))
        )
        self.out = nn.Linear(own.dim + own.coherence, own.dim)

    def forward(self, words: Tensor, lengths: Tensor, pictures: Tensor) -> OrderVectors:
        """First stage: B sentences and their pictures.

        Args:
            words: (B, L) int64.
            lengths: (B,) int64 on the CPU, in 1…L.
            pictures: (B, F), or what `features` takes.
        """
        return OrderVectors(self.sentences(words, lengths), self.pictures(pictures))

    def sentences(self, words: Tensor, lengths: Tensor) -> Tensor:
        """(S, L) words and (S,) lengths on the CPU → (S, D) |unit| rows.

        Raises:
            ShapeError: sizes do not fit.
        """
        expect("cnsi", words=(words, "S L"), lengths=(lengths, "S"))
        return normalize(last_states(self.words, self.embedding(words), lengths), dim=1).abs()

    def pictures(self, pictures: Tensor) -> Tensor:
        """(M, F) features, or what `features` takes → (M, D) |unit| rows.

        Raises:
            ShapeError: features of another width.
        """
        with torch.no_grad():
            found = pictures if self.features is None else self.features(pictures)
            if found.ndim != 2 or found.shape[1] != self.image_width:
                due = self.image_width
                raise ShapeError(
                    f"cnsi: picture features have shape {tuple(found.shape)}, expected (B, {due})"
                )
        return normalize(self.project(normalize(found, dim=1)), dim=1).abs()

    def stories(self, sentences: Tensor, steps: Tensor, coherence: Tensor | None) -> Tensor:
        """Second stage: sentence vectors of B stories → the vector of the picture each step asks for.

        Args:
            sentences: (S, D), the steps of all stories one after the other.
            steps: (B,) int64 on the CPU, at least 1, with sum S.
            coherence: (B, C); None for NSI.
        Returns:
            (S, D) |unit| rows.
        Raises:
            ShapeError: sizes do not fit.
        """
        counts = steps.tolist()
        if sum(counts) != len(sentences) or min(counts) < 1:
            raise ShapeError(
                f"cnsi: {len(sentences)} sentences in stories of {counts} steps; counts have to sum to that"
            )
        padded = pad_sequence(list(self.dropout(sentences).split(counts)), batch_first=True)
        for layer in self.story:
            padded = states(cast(nn.GRU, layer), padded, steps)
        real = torch.arange(padded.shape[1]) < steps[:, None]
        read = padded[real.to(padded.device)]
        if self.architecture.coherence:
            if coherence is None:
                raise ShapeError("cnsi: no coherence vectors, expected one per story")
            expect("cnsi", coherence=(coherence, f"{len(counts)} {self.architecture.coherence}"))
            read = torch.cat([read, coherence.repeat_interleave(steps.to(coherence.device), dim=0)], dim=1)
        return normalize(self.out(read), dim=1).abs()

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

    def encode_stories(self, stories: Sequence[Sequence[str]]) -> list[FloatArray]:
        """Stories → per story (T, D) float32 rows; a step hears its story up to itself, and its coherence."""
        return encode_stories(self, stories, self._told, self.dim)

    def encode_text(self, texts: Sequence[str]) -> FloatArray:
        """Texts → (N, D) rows, each heard as a story of one step."""
        return encode_alone(self.encode_stories, texts, self.dim)

    def encode_image(self, pictures: np.ndarray) -> FloatArray:
        """(M, F) features, or bytes where they are drawn → (M, D) float32 rows."""
        return encode_pictures(self, pictures, self.pictures, (self.dim,), self.device)

    def score(self, texts: FloatArray, images: FloatArray) -> FloatArray:
        """(N, D) and (M, D) → (N, M): minus the order energy, in blocks that bound memory.

        Source: CNSI 2018; docs/methods/gsda.md §8.3.
        """
        sizes = expect("cnsi.score", texts=(texts, "N D"), images=(images, "M D"))
        found = np.empty((sizes["N"], sizes["M"]), np.float32)
        shown = torch.from_numpy(np.array(images, np.float32)).to(self.device)
        size = max(1, _BLOCK_FLOATS // max(1, shown.numel()))
        for start in range(0, len(texts), size):
            told = torch.from_numpy(np.array(texts[start : start + size], np.float32)).to(self.device)
            over = (told[:, None] - shown).clamp_(min=0).square_().sum(dim=2)
            found[start : start + size] = -over.cpu().numpy()
        return found

    def _told(self, stories: Sequence[Sequence[str]]) -> Tensor:
        ids, lengths = self.vocabulary.batch([text for story in stories for text in story], self.max_length)
        sentences = self.sentences(torch.from_numpy(ids).to(self.device), torch.from_numpy(lengths))
        coherence = None
        if self.coherence is not None:
            coherence = torch.from_numpy(np.stack([self.coherence(story) for story in stories]))
            coherence = coherence.to(self.device)
        return self.stories(sentences, torch.tensor([len(story) for story in stories]), coherence)
