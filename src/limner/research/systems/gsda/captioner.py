"""GLAC-style captioner, GSDA's dual task: generates a story's sentences from its pictures.

The decoder's state is carried from one sentence to the next, and is zero at the start of a story.
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

BOUNDARY = 0  # start of a sentence as input, its end as output; padding is never input or output
UNKNOWN = 1
AT_ONCE = 32  # stories per block
_BEFORE = re.compile(r" (?=[,.;:!?%)])")
_AFTER = re.compile(r"(?<=\() ")


class CaptionerArchitecture(Record):
    """Sizes of the captioner.

    Attributes:
        local: dimension of a single picture's projection.
        hidden: hidden size of the Bi-LSTM over the pictures, per direction.
        joined: dimension of a picture's encoding in its story.
        seen: dimension of the picture input of the decoder.
        state: hidden size of the decoder's two-layer LSTM.
        word_width: E, dimension of word vectors.
        dropout: dropout rate between layers of both LSTMs, on the outputs of encoder and decoder, and on the
            picture input of the decoder.
        word_dropout: dropout rate of the decoder's inputs.
    Source: GLAC Net 2018; docs/methods/gsda.md §4.3. The source gives two dropout rates, 0.1 and 0.5, for the
    decoder; where each applies is our interpretation.
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
        logits: (N, V) unnormalised, for the tokens of all sentences, concatenated.
        targets: (N,) int64, the words of each sentence, then 0 for its end unless it is truncated.
        tokens: (S,) int64 on the CPU, tokens per sentence, at most `max_length` + 1, with sum N.
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
            vocabulary: the captioner's own vocabulary: words that are frequent enough in the training texts
                (10 occurrences in GLAC Net).
            image_width: F, dimension of picture features.
            max_length: words of a sentence used as input; the next word is still a target, so that a
                truncated sentence does not teach a wrong end.
        Raises:
            ConfigError: the vocabulary is empty, or `max_length` < 1.
        """
        super().__init__()
        if len(vocabulary) <= UNKNOWN + 1 or max_length < 1:
            raise ConfigError(
                f"captioner: {counted(len(vocabulary) - 2, 'word')} and max_length {max_length},"
                " expected at least 1 of each; lower caption_min_count, raise data.max_length or add training"
                " texts"
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
        """Device of the weights."""
        return self.say.weight.device

    def forward(self, features: Tensor, steps: Tensor, words: Tensor, lengths: Tensor) -> Captioned:
        """Predict the tokens of the true sentences with teacher forcing.

        The decoder processes the sentences of a story as one sequence, because its state is carried over. The
        input at each token is the previous word (at first the start symbol) with the sentence's picture.

        Args:
            features: (S, F) picture features, the stories concatenated; gradients flow to them.
            steps: (B,) int64 on the CPU, sentences per story, at least 1, with sum S.
            words: (S, L) int64 word ids; values beyond a sentence are ignored.
            lengths: (S,) int64 on the CPU, in 1…L; a sentence longer than `max_length` is truncated.
        Raises:
            ShapeError: the sizes contradict each other.
            DataError: an id in a sentence is not a word.
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
                f"captioner: a sentence contains a number that is not a word, expected 1 to {self._size - 1};"
                " encode it with the captioner's own vocabulary"
            )
        seen = self.seen(features, steps)  # (S, seen)
        at_words = seen.repeat_interleave(tokens.to(seen.device), dim=0)  # (N, seen)
        counts = torch.stack([part.sum() for part in torch.split(tokens, steps.tolist())])
        states = read_forward(self.decoder, self._inputs(at_words, read), counts)  # (N, state)
        return Captioned(self.say(self.dropout(states)), due, tokens)

    def seen(self, features: Tensor, steps: Tensor) -> Tensor:
        """(S, F) features of the pictures of B stories of (B,) steps → (S, seen) input of the decoder."""
        found: Tensor = self.tell(self.pictures(features, steps))
        return found

    def silence(self, stories: int) -> Tensor:
        """Initial hidden and cell state: (2, layers, B, state) zeros."""
        weight = self.say.weight
        return weight.new_zeros(2, self.decoder.num_layers, stories, self.architecture.state)

    def advance(self, seen: Tensor, words: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """Advance the decoder by one word.

        Args:
            seen: (B, seen) picture input.
            words: (B,) int64 previous words, or 0 at the start of a sentence.
            state: (2, layers, B, state).
        Returns:
            (B, V) log-probabilities of the next word (0 is the end), and the new state.
        """
        before = (state[0].contiguous(), state[1].contiguous())
        out, after = self.decoder(self._inputs(seen, words)[:, None], before)
        logs = self.say(self.dropout(out[:, 0])).float().log_softmax(dim=1)
        return logs, torch.stack(after)

    def numbers(self, texts: Sequence[str]) -> tuple[Tensor, Tensor]:
        """(S, L) int64 word ids on the weights' device, and (S,) lengths (CPU), up to `max_length` + 1."""
        words, lengths = self.vocabulary.batch(texts, self.max_length + 1)
        return torch.from_numpy(words).to(self.device), torch.from_numpy(lengths)

    def text(self, numbers: Iterable[int]) -> str:
        """Convert word ids to a sentence, without spaces before closing punctuation.

        Raises:
            DataError: an id is not a word.
        """
        known = self.vocabulary.words
        wanted = list(numbers)
        for number in wanted:
            if not UNKNOWN < number < self._size:
                raise DataError(f"captioner: {number} is not a word, expected 2 to {self._size - 1}")
        spaced = " ".join(known[number - UNKNOWN - 1] for number in wanted)
        return _AFTER.sub("", _BEFORE.sub("", spaced))

    def surprise(self, pictures: Sequence[np.ndarray], stories: Sequence[Sequence[str]]) -> Surprise:
        """Surprise of each sentence of each story given its pictures, without dropout.

        Args:
            pictures: (T, F) features of each story.
            stories: T sentences of each story; stories without sentences are ignored.
        Returns:
            Values for the S sentences of all stories, concatenated.
        Raises:
            ShapeError: the numbers of pictures and sentences of a story differ.
        """
        if [len(story) for story in stories] != [len(some) for some in pictures]:
            raise ShapeError(
                "captioner: stories and pictures differ in number, expected one picture per sentence"
            )
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
    """Generate stories from their pictures by greedy decoding.

    Args:
        captioner: a trained captioner.
        pictures: (T, F) features of each story, in order.
    Returns:
        For each story one text per picture.
    Raises:
        ShapeError: the features have another width.
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
    """Generate B stories in parallel: all first sentences, then all second ones, and so on.

    A sentence has 1 to `max_length` words, none of them unknown.

    Args:
        captioner: a captioner; its mode is restored.
        features: (S, F) picture features, the stories concatenated.
        steps: (B,) int64 on the CPU, sentences per story, with sum S.
    Returns:
        For each story the word ids of its sentences.
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
    """Generate one sentence for each of B pictures by greedy decoding.

    Args:
        captioner: a captioner in evaluation mode.
        seen: (B, seen) picture input.
        state: (2, layers, B, state) before the sentence.
    Returns:
        Word ids of the sentences, and the state after the last word of each.
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
    """Set the (B, V) log-probabilities of words that are not allowed at a position to −∞."""
    allowed = logs.clone()
    if place == max_length:
        allowed[:, BOUNDARY + 1 :] = -math.inf
        return allowed
    allowed[:, UNKNOWN] = -math.inf
    if place == 0:
        allowed[:, BOUNDARY] = -math.inf
    return allowed
