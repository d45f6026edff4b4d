"""Contextual sentence encoder of GSDA: each word of a sentence attends to the other sentences of the story.

The other sentences are given as vectors of a frozen encoder (keys).
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
        vectors: (S, 2H) sentence vectors.
        context: (S, L, K), or (S, L, 2H) for "literal": context of each word; None without context.
        attention: (S, L, T) weights of each word over the sentences of its story, 0 for its own sentence (for
            "own": for all others) and on padding; None without context.
    """

    vectors: Tensor
    context: Tensor | None
    attention: Tensor | None


class ContextualEncoder(nn.Module):
    """LSTM over words, additive attention of each word to the other sentences, and a second LSTM.

    The attention stores S × L × T × A values: 66 MB in float32 for 160 sentences of 40 words in stories of
    five, at A = 512.

    Source: GSDA 2021, Eqs. 1 to 4; docs/methods/gsda.md §2. Departs: attention is over the other sentences
        and averages their keys. Equation 2 as printed averages the word's own state with weights that sum to
        1, which returns it unchanged; ``context="literal"`` does that. The control ``"own"`` uses the key of
        the sentence itself.
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
            words: V, size of the vocabulary with padding (0).
            width: E, dimension of word vectors.
            hidden: H, hidden size of each LSTM, per direction.
            keys: K, dimension of sentence keys.
            attention: A, hidden size of the attention.
            context: "others" attends to the other sentences; "own", a control with equally many weights, only
                to the sentence itself; "literal" is Equation 2 as printed; "none" is one LSTM and a mean over
                words.
            vectors: (V, E) initial word vectors.
        Raises:
            ShapeError: the shape of `vectors` is not (V, E).
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
            words: (S, L) int64 word ids, the stories concatenated.
            lengths: (S,) int64 on the CPU, in 1…L.
            keys: (S, K) keys of the same sentences.
            steps: (B,) int64 on the CPU, sentences per story, at least 1, with sum S.
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
        """(S, L, T) weights; zeros if a sentence has no other."""
        meeting = self.of_word(read)[:, :, None] + self.of_key(others)[:, None]  # (S, L, T, A)
        logits = self.judge(torch.tanh(meeting)).squeeze(3)
        alone = ~allowed.any(dim=1)
        masked = logits.masked_fill(~(allowed | alone[:, None])[:, None], -torch.inf)
        weights: Tensor = masked.softmax(dim=2) * allowed[:, None]
        return weights


def _mean(read: Tensor, lengths: Tensor) -> Tensor:
    """Mean over the words of each sentence: (S, L, W), zero on padding → (S, W)."""
    return read.sum(dim=1) / lengths.to(read.device)[:, None]
