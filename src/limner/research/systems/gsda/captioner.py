"""GLAC-style captioner: the pictures of a story generate its sentences, one after the other.

GSDA's dual task: pictures that fit a story must be able to generate it. The decoder's state is carried from a
sentence to the next and is zero only where a story begins.
"""

import math
import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field
from torch import Tensor, nn

from limner.config import Record
from limner.encoders.vocabulary import Vocabulary
from limner.errors import ConfigError, DataError, ShapeError, counted
from limner.research.nn.story import PictureSequenceEncoder
from limner.research.nn.words import read_forward
from limner.research.systems.base import Surprise, evaluating, to_tensor

BOUNDARY = 0  # as input the start of a sentence, as output its end: padding is neither read nor generated
UNKNOWN = 1
AT_ONCE = 32  # stories
_BEFORE = re.compile(r" (?=[,.;:!?%)])")
_AFTER = re.compile(r"(?<=\() ")


class CaptionerArchitecture(Record):
    """Sizes of the captioner.

    Attributes:
        local: width of what a picture says alone.
        hidden: hidden size of the Bi-LSTM over the pictures, per direction.
        joined: width of a picture within its story.
        seen: width of what the decoder sees of a picture, at every word.
        state: state of the decoder's two-layer LSTM.
        word_width: E.
        dropout: in every place but word vectors: between layers of both LSTMs, on the encoder's and the
            decoder's outputs and on what the decoder sees.
        word_dropout: on what the decoder's LSTM reads at a word.
    Source: GLAC Net 2018; docs/methods/gsda.md §4.3. Where the two rates of the decoder, 0.1 and 0.5, belong
    is our reading.
    """

    local: int = Field(default=1024, ge=1)
    hidden: int = Field(default=1024, ge=1)
    joined: int = Field(default=2048, ge=1)
    seen: int = Field(default=1024, ge=1)
    state: int = Field(default=1024, ge=1)
    word_width: int = Field(default=256, ge=1)
    dropout: float = Field(default=0.5, ge=0, lt=1)
    word_dropout: float = Field(default=0.1, ge=0, lt=1)


class Captioned(NamedTuple):
    """Predictions of the captioner at the N tokens of S true sentences.

    Attributes:
        logits: (N, V) unnormalised, the tokens of all sentences one after the other.
        targets: (N,) int64, the words of a sentence and 0, its end, unless it is cut before it.
        tokens: (S,) int64 on the CPU, of each sentence, at most `max_length` and 1; they sum to N.
    """

    logits: Tensor
    targets: Tensor
    tokens: Tensor


class Captioner(nn.Module):
    """Encoder of a story's pictures and decoder of its sentences."""

    def __init__(
        self,
        architecture: CaptionerArchitecture,
        vocabulary: Vocabulary,
        *,
        image_width: int,
        max_length: int,
    ) -> None:
        """Initialise the weights at random, from torch's generator.

        Args:
            architecture: sizes.
            vocabulary: words the captioner may say, seen often enough in the training texts (10 times in
                GLAC Net); its own, since those that are merely read may be rarer.
            image_width: F of the picture features.
            max_length: words of a sentence that are read; the next is still expected, so that a sentence
                that is cut teaches no end where none was.
        Raises:
            ConfigError: no word, or max_length < 1.
        """
        super().__init__()
        if len(vocabulary) <= UNKNOWN + 1 or max_length < 1:
            raise ConfigError(
                f"captioner: {counted(len(vocabulary) - 2, 'word')} and max_length {max_length},"
                " expected at least 1;"
                " lower min_count or add training texts"
            )
        own = architecture
        self.architecture, self.vocabulary, self.max_length = own, vocabulary, max_length
        self.pictures = PictureSequenceEncoder(
            image_width, local=own.local, hidden=own.hidden, joined=own.joined, dropout=own.dropout
        )
        self.tell = nn.Sequential(nn.Linear(own.joined, own.seen), nn.Dropout(own.dropout), nn.ReLU())
        self.embedding = nn.Embedding(len(vocabulary), own.word_width)
        self.word_dropout = nn.Dropout(own.word_dropout)
        self.decoder = nn.LSTM(
            own.seen + own.word_width, own.state, num_layers=2, batch_first=True, dropout=own.dropout
        )
        self.dropout = nn.Dropout(own.dropout)
        self.say = nn.Linear(own.state, len(vocabulary))

    @property
    def device(self) -> torch.device:
        """Where the weights lie."""
        return self.say.weight.device

    def forward(self, features: Tensor, steps: Tensor, words: Tensor, lengths: Tensor) -> Captioned:
        """Hear the true sentences word by word and say what was expected at each (teacher forcing).

        All sentences of a story are one sequence to the decoder, because its state is carried on: word by
        word after the start of each, with that sentence's picture. The end is never an input.

        Args:
            features: (S, F), the pictures of all stories one after the other; gradients reach them.
            steps: (B,) int64 on the CPU, pictures and sentences of each story, at least 1, with sum S.
            words: (S, L) int64, what lies beyond a sentence does not matter.
            lengths: (S,) int64 on the CPU, in 1…L; of a longer one than `max_length` the words up to the one
                after that count, and no end.
        Raises:
            ShapeError: the sizes contradict each other.
            DataError: a number within a sentence that is no word.
        Source: GLAC Net 2018; GSDA 2021, Eq. 7; docs/methods/gsda.md §4.3, §4.4.
        """
        steps, lengths = steps.cpu(), lengths.cpu()
        self._check(features, steps, words, lengths)
        tokens = lengths.clamp(max=self.max_length) + 1
        places = torch.arange(words.shape[1] + 1, device=words.device)
        counted = places < tokens.to(words.device)[:, None]  # (S, L + 1)
        ends = places == lengths.to(words.device)[:, None]
        edge = words.new_full((len(words), 1), BOUNDARY)
        read = torch.cat([edge, words], dim=1)[counted]  # (N,) start, first word … last word
        due = torch.cat([words, edge], dim=1).masked_fill(ends, BOUNDARY)[counted]
        said = due[due != BOUNDARY]
        wanted = int(tokens.sum()) - int((lengths <= self.max_length).sum())
        if len(said) != wanted or int(said.min()) < UNKNOWN or int(said.max()) >= self._size:
            raise DataError(
                f"captioner: a sentence holds a number that is no word, expected 1 to {self._size - 1};"
                " number it with the captioner's own vocabulary"
            )
        seen = self.seen(features, steps)  # (S, seen)
        at_words = seen.repeat_interleave(tokens.to(seen.device), dim=0)  # (N, seen)
        counts = torch.stack([part.sum() for part in torch.split(tokens, steps.tolist())])
        states = read_forward(self.decoder, self._inputs(at_words, read), counts)  # (N, state)
        return Captioned(self.say(self.dropout(states)), due, tokens)

    def seen(self, features: Tensor, steps: Tensor) -> Tensor:
        """(S, F) pictures of stories of (B,) steps → (S, seen), what the decoder sees at every word."""
        found: Tensor = self.tell(self.pictures(features, steps))
        return found

    def silence(self, stories: int) -> Tensor:
        """(2, layers, B, state) zeros: hidden and cell state where a story begins."""
        weight = self.say.weight
        return weight.new_zeros(2, self.decoder.num_layers, stories, self.architecture.state)

    def advance(self, seen: Tensor, words: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """Hear one word and expect the next.

        Args:
            seen: (B, seen), of the picture in question.
            words: (B,) int64, the word before, or 0 where a sentence begins.
            state: (2, layers, B, state).
        Returns:
            (B, V) log-probabilities of the next word, 0 the end; and the state after `words`.
        """
        before = (state[0].contiguous(), state[1].contiguous())
        out, after = self.decoder(self._inputs(seen, words)[:, None], before)
        logs = self.say(self.dropout(out[:, 0])).float().log_softmax(dim=1)
        return logs, torch.stack(after)

    def numbers(self, texts: Sequence[str]) -> tuple[Tensor, Tensor]:
        """(S, L) int64 numbers on the weights' device and (S,) lengths on the CPU, to `max_length` + 1."""
        words, lengths = self.vocabulary.batch(texts, self.max_length + 1)
        return torch.from_numpy(words).to(self.device), torch.from_numpy(lengths)

    def text(self, numbers: Iterable[int]) -> str:
        """Numbers of words as a sentence, closing marks and brackets without a space before them.

        Raises:
            DataError: a number that is no word.
        """
        known = self.vocabulary.words
        wanted = list(numbers)
        for number in wanted:
            if not UNKNOWN < number < self._size:
                raise DataError(f"captioner: {number} is no word, expected 2 to {self._size - 1}")
        spaced = " ".join(known[number - UNKNOWN - 1] for number in wanted)
        return _AFTER.sub("", _BEFORE.sub("", spaced))

    def surprise(self, pictures: Sequence[np.ndarray], stories: Sequence[Sequence[str]]) -> Surprise:
        """Surprise of each sentence of each story given its pictures, without dropout.

        Args:
            pictures: per story (T, F).
            stories: per story T sentences; a story without any counts for nothing.
        Returns:
            The S sentences of all stories, one after the other.
        Raises:
            ShapeError: a story with more or fewer pictures than sentences.
        """
        if [len(story) for story in stories] != [len(some) for some in pictures]:
            raise ShapeError("captioner: stories and pictures differ in number, expected one per sentence")
        filled = [number for number, story in enumerate(stories) if story]
        nats, tokens, unknown = [np.zeros(0)], [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
        with evaluating(self):
            for start in range(0, len(filled), AT_ONCE):
                some = filled[start : start + AT_ONCE]
                words, lengths = self.numbers([text for number in some for text in stories[number]])
                steps = torch.tensor([len(stories[number]) for number in some])
                features = to_tensor(np.concatenate([pictures[number] for number in some]), self.device)
                found = self(features, steps, words, lengths)
                costs = nn.functional.cross_entropy(found.logits.float(), found.targets, reduction="none")
                sizes = found.tokens.numpy()
                starts = sizes.cumsum() - sizes
                nats.append(np.add.reduceat(costs.double().cpu().numpy(), starts))
                tokens.append(sizes)
                unknown.append(np.add.reduceat((found.targets == UNKNOWN).long().cpu().numpy(), starts))
        return Surprise(np.concatenate(nats), np.concatenate(tokens), np.concatenate(unknown))

    @property
    def _size(self) -> int:
        return self.say.out_features

    def _inputs(self, seen: Tensor, words: Tensor) -> Tensor:
        found: Tensor = self.word_dropout(torch.cat([seen, self.embedding(words)], dim=1))
        return found

    def _check(self, features: Tensor, steps: Tensor, words: Tensor, lengths: Tensor) -> None:
        rows = len(features)
        if (
            words.ndim != 2
            or (len(words), len(lengths), int(steps.sum())) != (rows, rows, rows)
            or not rows
            or not 1 <= int(lengths.min()) <= int(lengths.max()) <= words.shape[1]
        ):
            raise ShapeError(
                f"captioner: {counted(rows, 'picture')}, words {tuple(words.shape)}, {len(lengths)}"
                " lengths and stories"
                f" of {steps.tolist()[:9]}, expected (S, F), (S, L), lengths in 1…L and steps that sum to S"
            )


def generate(captioner: Captioner, pictures: Sequence[NDArray[np.floating]]) -> list[list[str]]:
    """Generate stories from their pictures, the likeliest next word each time.

    Args:
        captioner: trained.
        pictures: per story (T, F) features in their order.
    Returns:
        Per story one text per picture; none for a story without pictures.
    Raises:
        ShapeError: features of another width.
    """
    found: list[list[str]] = [[] for _ in pictures]
    some = [number for number, story in enumerate(pictures) if len(story)]
    for start in range(0, len(some), AT_ONCE):
        chosen = some[start : start + AT_ONCE]
        features = to_tensor(np.concatenate([pictures[number] for number in chosen]), captioner.device)
        steps = torch.tensor([len(pictures[number]) for number in chosen])
        for number, story in zip(chosen, generate_numbers(captioner, features, steps), strict=True):
            found[number] = [captioner.text(sentence) for sentence in story]
    return found


def generate_numbers(captioner: Captioner, features: Tensor, steps: Tensor) -> list[list[list[int]]]:
    """Generate B stories, all their first sentences at once, then their second, each from the state before.

    A sentence has at least one word, no unknown one, and ends after `max_length` words whatever is likelier.

    Args:
        captioner: any mode; it is put back.
        features: (S, F) the pictures of all stories one after the other.
        steps: (B,) int64 on the CPU, with sum S.
    Returns:
        Per story the numbers of the words of its sentences.
    Raises:
        ShapeError: the sizes contradict each other.
    """
    steps = steps.cpu()
    found: list[list[list[int]]] = [[] for _ in steps.tolist()]
    with evaluating(captioner):
        seen = captioner.seen(features, steps)
        first = steps.cumsum(0) - steps
        state = captioner.silence(len(steps))
        for place in range(int(steps.max())):
            now = (steps > place).nonzero()[:, 0]
            rows = seen[(first[now] + place).to(seen.device)]
            sentences, after = greedy(captioner, rows, state[:, :, now.to(state.device)])
            state[:, :, now.to(state.device)] = after
            for story, sentence in zip(now.tolist(), sentences, strict=True):
                found[story].append(sentence)
    return found


def greedy(captioner: Captioner, seen: Tensor, state: Tensor) -> tuple[list[list[int]], Tensor]:
    """One sentence each for B pictures, the likeliest word at every place.

    Args:
        captioner: in evaluation mode.
        seen: (B, seen).
        state: (2, layers, B, state) before the sentence.
    Returns:
        Numbers of the words of the sentences, and the state after the last word of each.
    """
    rows, max_length = len(seen), captioner.max_length
    words = torch.full((rows,), BOUNDARY, device=seen.device)
    ended = torch.zeros(rows, dtype=torch.bool, device=seen.device)
    said: list[Tensor] = []
    for place in range(max_length + 1):
        logs, moved = captioner.advance(seen, words, state)
        state = torch.where(ended[:, None], state, moved)
        chosen = _sayable(logs, place, max_length).max(dim=1).indices
        words = torch.where(ended, BOUNDARY, chosen)
        said.append(words)
        ended = words == BOUNDARY
        if bool(ended.all()):
            break
    numbers = torch.stack(said, dim=1).tolist()  # 0 from the end on
    return [[word for word in row if word != BOUNDARY] for row in numbers], state


def _sayable(logs: Tensor, place: int, max_length: int) -> Tensor:
    """(B, V) with what may not be generated at a place of a sentence at −∞."""
    allowed = logs.clone()
    if place == max_length:
        allowed[:, BOUNDARY + 1 :] = -math.inf
        return allowed
    allowed[:, UNKNOWN] = -math.inf
    if place == 0:
        allowed[:, BOUNDARY] = -math.inf
    return allowed
