"""Sentences of a story as vectors, each of whose words attends to what the other sentences say.

The other sentences are given as vectors of a frozen encoder. It scores nothing and knows no picture.
"""

from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from limner.errors import ShapeError
from limner.nn.words import states

Context = Literal["others", "literal", "none"]


class ContextualSentences(NamedTuple):
    """S sentences of B stories.

    Attributes:
        vectors: (S, 2H).
        context: (S, L, ·) of every word; None without context.
        attention: (S, L, T) of every word over the sentences of its story, 0 for its own sentence and where
            the story is over; None without context.
    """

    vectors: Tensor
    context: Tensor | None
    attention: Tensor | None


class ContextualEncoder(nn.Module):
    """LSTM over words, additive attention of every word to the other sentences, and a second LSTM.

    Its attention holds S × L × T × A values, which grows with the stories of a batch, not with the data set:
    160 sentences of 40 words in stories of five, at A = 512, take 66 MB.

    Source: GSDA 2021, Eqs. 1 to 4; docs/methods/gsda.md §2. Departs: attention is over the other sentences
        and weighs their keys. Equation 2 as printed weighs the word's own state, and, as weights sum to 1,
        returns it: kept as ``context="literal"``.
    """

    def __init__(
        self,
        words: int,
        *,
        width: int,
        hidden: int,
        keys: int,
        attention: int,
        context: Context = "others",
        vectors: Tensor | None = None,
    ) -> None:
        """Draw the weights from torch's generator.

        Args:
            words: V, padding (0) among them.
            width: E of a word vector.
            hidden: H of either LSTM, per direction.
            keys: K, width of a sentence key.
            attention: A, width in which words and keys meet.
            context: "others", "literal" for Equation 2 as printed, or "none": one LSTM and a mean over words.
            vectors: (V, E) to start from.
        Raises:
            ShapeError: the vectors do not fit.
        """
        super().__init__()
        self.context, self.width, self.keys = context, 2 * hidden, keys
        self.embedding = nn.Embedding(words, width, padding_idx=0)
        if vectors is not None:
            if tuple(vectors.shape) != (words, width):
                raise ShapeError(f"contextual: vectors {tuple(vectors.shape)}, expected {(words, width)}")
            with torch.no_grad():
                self.embedding.weight.copy_(vectors)
        self.bottom = nn.LSTM(width, hidden, batch_first=True, bidirectional=True)
        if context != "none":
            self.of_word = nn.Linear(self.width, attention, bias=False)
            self.of_key = nn.Linear(keys, attention, bias=False)
            self.judge = nn.Linear(attention, 1, bias=False)
            heard = self.width + (keys if context == "others" else self.width)
            self.top = nn.LSTM(heard, hidden, batch_first=True, bidirectional=True)

    def forward(self, words: Tensor, lengths: Tensor, keys: Tensor, steps: Tensor) -> ContextualSentences:
        """Encode B stories.

        Args:
            words: (S, L) int64, the sentences of all stories one after the other.
            lengths: (S,) int64 on the CPU, in 1…L.
            keys: (S, K) of the same sentences, constants.
            steps: (B,) int64 on the CPU, at least 1, with sum S.
        Raises:
            ShapeError: sizes do not fit.
        """
        counts = steps.tolist()
        fits = words.ndim == 2 and len(words) == len(lengths) == len(keys) == sum(counts)
        if not fits or min(counts, default=0) < 1 or keys.shape[1:] != (self.keys,):
            raise ShapeError(
                f"contextual: {tuple(words.shape)} words, {len(lengths)} lengths, {tuple(keys.shape)} keys,"
                f" stories of {counts} sentences, expected (S, L), (S,), (S, {self.keys}) and a sum of S"
            )
        read = states(self.bottom, self.embedding(words), lengths)  # (S, L, 2H)
        if self.context == "none":
            return ContextualSentences(_mean(read, lengths), None, None)
        stories = torch.repeat_interleave(steps).to(words.device)  # (S,)
        others = pad_sequence(list(torch.split(keys, counts)), batch_first=True)[stories]  # (S, T, K)
        attention = self._attention(read, others, _others(steps).to(words.device))
        context = (
            attention @ others if self.context == "others" else attention.sum(dim=2, keepdim=True) * read
        )
        whole = states(self.top, torch.cat([read, context], dim=2), lengths)
        return ContextualSentences(_mean(whole, lengths), context, attention)

    def _attention(self, read: Tensor, others: Tensor, heard: Tensor) -> Tensor:
        """(S, L, T), zeros where a sentence has no other to hear."""
        meeting = self.of_word(read)[:, :, None] + self.of_key(others)[:, None]  # (S, L, T, A)
        logits = self.judge(torch.tanh(meeting)).squeeze(3)
        alone = ~heard.any(dim=1)
        masked = logits.masked_fill(~(heard | alone[:, None])[:, None], -torch.inf)
        found: Tensor = masked.softmax(dim=2) * heard[:, None]
        return found


def _others(steps: Tensor) -> Tensor:
    """(S, T) bool: the other sentences of each sentence's story."""
    longest, counts = int(steps.max()), steps.tolist()
    place = torch.cat([torch.arange(count) for count in counts])
    within = torch.arange(longest)[None] < torch.repeat_interleave(steps, steps)[:, None]
    return within & (torch.arange(longest)[None] != place[:, None])


def _mean(read: Tensor, lengths: Tensor) -> Tensor:
    """Mean over the words of a sentence: (S, L, W), zeros where it is over → (S, W)."""
    return read.sum(dim=1) / lengths.to(read.device)[:, None]
