"""Text encoders shared by systems: trained word vectors or a frozen sentence encoder, and whole stories.

With the frozen encoder, a baseline has the same text encoder as the systems it is compared with.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from limner.arrays import FloatArray, TextEncoder
from limner.research.nn.words import last_states, word_embedding
from limner.research.systems.base import (
    ENCODE_STORIES,
    C,
    Capabilities,
    Model,
    ModelParts,
    SystemTask,
    evaluating,
    to_tensor,
)
from limner.research.training.corpus import Batch, Corpus

TextSide = Literal["words", "sentences"]


def reading(text: TextSide, can: Capabilities) -> Capabilities:
    """`can`, with `reads` set to trained words or the frozen sentence encoder."""
    return replace(can, reads=frozenset({text}))


class TextModel(Model):
    """A model whose text encoder starts from trained word vectors or from a frozen sentence encoder.

    Attributes:
        sentence_encoder: the frozen encoder; None if the model uses word vectors.
    """

    sentence_encoder: TextEncoder | None

    def __init__(self, architecture: Any, parts: ModelParts) -> None:  # noqa: ANN401
        """See `Model`."""
        super().__init__(architecture, parts)
        self.sentence_encoder = parts.sentences

    def identity(self) -> tuple[object, ...]:
        """The maximum length of a text, or the fingerprint of the sentence encoder."""
        return super().identity() if self.sentence_encoder is None else (self.sentence_encoder.fingerprint,)

    def numbers(self, texts: Sequence[str]) -> tuple[Tensor, Tensor]:
        """Inputs of `texts`: (B, L) words and (B,) lengths, or (B, W) sentence vectors and lengths of 1."""
        if self.sentence_encoder is None:
            return super().numbers(texts)
        vectors = to_tensor(self.sentence_encoder.encode_text(texts), self.device)
        return vectors, torch.ones(len(texts), dtype=torch.int64)


class StoryModel(Model):
    """A model that encodes the steps of a story together; a single text is a story of one step."""

    def together(self, stories: Sequence[Sequence[str]]) -> Tensor:
        """Stories of at least one step → (S, D) vectors of all their steps, in order."""
        raise NotImplementedError

    def encode_stories(self, stories: Sequence[Sequence[str]]) -> list[FloatArray]:
        """Stories, some possibly empty → (T, D) float32 vectors of each story; encoded in batches."""
        found = [np.zeros((0, self.dim), np.float32) for _ in stories]
        written = [number for number, story in enumerate(stories) if story]
        with evaluating(self):
            for start in range(0, len(written), ENCODE_STORIES):
                some = written[start : start + ENCODE_STORIES]
                made = self.together([stories[number] for number in some]).float().cpu().numpy()
                ends = np.cumsum([len(stories[number]) for number in some])[:-1]
                for number, part in zip(some, np.split(made, ends), strict=True):
                    found[number] = part
        return found

    def encode_text(self, texts: Sequence[str]) -> FloatArray:
        """Texts → (N, D) float32 vectors, each text encoded as a story of one step."""
        parts = self.encode_stories([[text] for text in texts])
        return np.concatenate(parts) if parts else np.zeros((0, self.dim), np.float32)


T = TypeVar("T", bound=TextModel)


class TextTask(SystemTask[C, T]):
    """Training task of a `TextModel`; a frozen encoder encodes all training texts once, at the start."""

    def __init__(self, model: T, corpus: Corpus, config: C, parts: ModelParts) -> None:
        """Prepare training: encode all training texts, if the model uses a sentence encoder."""
        super().__init__(model, corpus, config, parts)
        self._vectors: Tensor | None = None
        if model.sentence_encoder is not None:
            encoded = model.sentence_encoder.encode_text(corpus.train.texts)
            self._vectors = torch.from_numpy(encoded).to(model.device)

    def texts(self, batch: Batch) -> Tensor:
        """(R, L) int64 words of this process's share of a batch, or (R, W) sentence vectors."""
        return batch.words if self._vectors is None else self._vectors[batch.own_rows]


class TextReader(nn.Module):
    """Encodes a text as one vector: a GRU over its words, or a linear layer over its sentence vector."""

    def __init__(self, name: str, parts: ModelParts, *, word_width: int, dim: int) -> None:
        """Initialise the weights at random, from torch's generator.

        Args:
            name: name of the model, for messages.
            parts: its `sentences` are used if given, otherwise the words of its vocabulary.
            word_width: E, dimension of word vectors.
            dim: D, dimension of the result.
        Raises:
            ShapeError: the word vectors have another shape.
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
            ShapeError: the sizes contradict each other.
        """
        if self.sentence is not None:
            found: Tensor = self.sentence(texts)
            return found
        return last_states(self.words, self.embedding(texts), lengths.cpu())
