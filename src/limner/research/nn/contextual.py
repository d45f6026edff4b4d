"""Sentences of a story as vectors, each of whose words attends to what the other sentences say.

The other sentences are given as vectors of a frozen encoder. It scores nothing and knows no picture.
"""

from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from limner.arrays import expect
from limner.research.nn.words import in_stories, states, word_embedding

Context = Literal["others", "own", "literal", "none"]


class ContextualSentences(NamedTuple):
    """S sentences of B stories.

    Attributes:
        vectors: (S, 2H).
        context: (S, L, ·) of every word; None without context.
        attention: (S, L, T) of every word over the sentences of its story, 0 for its own sentence (with
            "own", for all others) and where the story is over; None without context.
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
        returns it: kept as ``context="literal"``. The control ``"own"`` reads the key of the sentence itself.
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
        """Initialise the weights at random, from torch's generator.

        Args:
            words: V, padding (0) among them.
            width: E of a word vector.
            hidden: H of either LSTM, per direction.
            keys: K, width of a sentence key.
            attention: A, width in which words and keys meet.
            context: "others"; for as many weights that hear no other sentence, "own", the key of the same
                sentence; "literal" for Equation 2 as printed; or "none": one LSTM and a mean over words.
            vectors: (V, E) to start from.
        Raises:
            ShapeError: the vectors do not fit.
        """
        super().__init__()
        self.context, self.width, self.keys = context, 2 * hidden, keys
        self.embedding = word_embedding("contextual", words, width, vectors)
        self.bottom = nn.LSTM(width, hidden, batch_first=True, bidirectional=True)
        if context != "none":
            self.of_word = nn.Linear(self.width, attention, bias=False)
            self.of_key = nn.Linear(keys, attention, bias=False)
            self.judge = nn.Linear(attention, 1, bias=False)
            read = self.width + (self.width if context == "literal" else keys)
            self.top = nn.LSTM(read, hidden, batch_first=True, bidirectional=True)

    def forward(self, words: Tensor, lengths: Tensor, keys: Tensor, steps: Tensor) -> ContextualSentences:
        """Encode B stories.

        Args:
            words: (S, L) int64, the sentences of all stories one after the other.
            lengths: (S,) int64 on the CPU, in 1…L.
            keys: (S, K) of the same sentences, constants.
            steps: (B,) int64 on the CPU, at least 1, with sum S.
        Raises:
            ShapeError: the sizes contradict each other.
        """
        expect("contextual", words=(words, "S L"), lengths=(lengths, "S"), keys=(keys, f"S {self.keys}"))
        padded, real = in_stories("contextual", keys, steps)  # (B, T, K), (B, T)
        read = states(self.bottom, self.embedding(words), lengths)  # (S, L, 2H)
        if self.context == "none":
            return ContextualSentences(_mean(read, lengths), None, None)
        stories, places = real.nonzero(as_tuple=True)  # (S,) each
        others = padded[stories]  # (S, T, K)
        here = torch.arange(real.shape[1], device=real.device) == places[:, None]
        allowed = here if self.context == "own" else real[stories] & ~here
        attention = self._attention(read, others, allowed)
        context = (
            attention.sum(dim=2, keepdim=True) * read if self.context == "literal" else attention @ others
        )
        whole = states(self.top, torch.cat([read, context], dim=2), lengths)
        return ContextualSentences(_mean(whole, lengths), context, attention)

    def _attention(self, read: Tensor, others: Tensor, allowed: Tensor) -> Tensor:
        """(S, L, T), zeros where a sentence has no other."""
        meeting = self.of_word(read)[:, :, None] + self.of_key(others)[:, None]  # (S, L, T, A)
        logits = self.judge(torch.tanh(meeting)).squeeze(3)
        alone = ~allowed.any(dim=1)
        masked = logits.masked_fill(~(allowed | alone[:, None])[:, None], -torch.inf)
        found: Tensor = masked.softmax(dim=2) * allowed[:, None]
        return found


def _mean(read: Tensor, lengths: Tensor) -> Tensor:
    """Mean over the words of a sentence: (S, L, W), zeros where it is over → (S, W)."""
    return read.sum(dim=1) / lengths.to(read.device)[:, None]
