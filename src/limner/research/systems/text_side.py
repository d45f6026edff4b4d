"""Texts read by their own trained words or by a frozen encoder of sentences: what systems with both share.

With the encoder a baseline has the same text side as the systems it is compared with.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal, TypeVar

import torch
from torch import Tensor, nn

from limner.arrays import TextEncoder
from limner.research.nn.words import last_states, word_embedding
from limner.research.systems.base import C, Capabilities, Model, Parts, SystemTask, to_tensor
from limner.research.training.corpus import Batch, Corpus

TextSide = Literal["words", "sentences"]


def reading(text: TextSide, can: Capabilities) -> Capabilities:
    """What a system can do that reads texts by their words, or else through the frozen encoder."""
    return replace(can, reads=frozenset({text}))


class TextModel(Model):
    """A model that is made with trained words or with a frozen encoder of sentences.

    Attributes:
        sentence_encoder: None where it reads words.
    """

    sentence_encoder: TextEncoder | None

    def __init__(self, architecture: Any, parts: Parts) -> None:  # noqa: ANN401
        """See `Model`."""
        super().__init__(architecture, parts)
        self.sentence_encoder = parts.sentences

    def identity(self) -> tuple[object, ...]:
        """Length of texts, or the encoder of sentences."""
        return super().identity() if self.sentence_encoder is None else (self.sentence_encoder.fingerprint,)

    def numbers(self, texts: Sequence[str]) -> tuple[Tensor, Tensor]:
        """What the text side takes: (B, L) words and (B,) lengths, or (B, W) sentence vectors and ones."""
        if self.sentence_encoder is None:
            return super().numbers(texts)
        vectors = to_tensor(self.sentence_encoder.encode_text(texts), self.device)
        return vectors, torch.ones(len(texts), dtype=torch.int64)


T = TypeVar("T", bound=TextModel)


class TextTask(SystemTask[C, T]):
    """Training of such a model; all training texts go through the frozen encoder once."""

    def __init__(self, model: T, corpus: Corpus, config: C, parts: Parts) -> None:
        """Take what is trained and what it trains on; sentence vectors are made here."""
        super().__init__(model, corpus, config, parts)
        self._vectors: Tensor | None = None
        if model.sentence_encoder is not None:
            encoded = model.sentence_encoder.encode_text(corpus.train.texts)
            self._vectors = torch.from_numpy(encoded).to(model.device)

    def texts(self, batch: Batch) -> Tensor:
        """(R, L) int64 words of a batch's share, or the (R, W) vectors of its sentences."""
        return batch.words if self._vectors is None else self._vectors[batch.own_rows]


class TextReader(nn.Module):
    """A text as one vector: a GRU over its words, or a linear layer over the vector of its sentence."""

    def __init__(self, name: str, parts: Parts, *, word_width: int, dim: int) -> None:
        """Draw the weights from torch's generator.

        Args:
            name: of the model, for messages.
            parts: its `sentences` are read where there are some, else the words of its vocabulary.
            word_width: E of a word vector.
            dim: D of the result.
        Raises:
            ShapeError: the word vectors do not fit.
        """
        super().__init__()
        self.sentence: nn.Linear | None = None
        if parts.sentences is not None:
            self.sentence = nn.Linear(parts.sentences.dim, dim)
        else:
            self.embedding = word_embedding(name, len(parts.vocabulary), word_width, parts.vectors)
            self.words = nn.GRU(word_width, dim, batch_first=True)

    def forward(self, texts: Tensor, lengths: Tensor) -> Tensor:
        """(B, L) int64 words of (B,) lengths in 1…L, or (B, W) sentence vectors → (B, D).

        Raises:
            ShapeError: sizes do not fit.
        """
        if self.sentence is not None:
            found: Tensor = self.sentence(texts)
            return found
        return last_states(self.words, self.embedding(texts), lengths.cpu())
