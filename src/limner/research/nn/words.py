"""Texts to unit vectors: word vectors, masked LSTM, pooling, batch norm, linear layer.

The text tower that CMCM and its baselines share; with attention it also says which words counted. Word
vectors are drawn, learned on the training texts by gensim, or taken from GloVe's; equal texts and seeds give
the same bits. It reads no files; numbers of words and their lengths are arguments.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import pad
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence

from limner.arrays import expect
from limner.encoders.vocabulary import FIRST_WORD, UNKNOWN, Vocabulary
from limner.errors import RESEARCH, DataError, ShapeError, counted, installed

Matrix = np.ndarray[tuple[int, int], np.dtype[np.float32]]
Pooling = Literal["none", "additive", "scaled"]


def word_embedding(where: str, words: int, width: int, vectors: Tensor | None) -> nn.Embedding:
    """Word vectors drawn from torch's generator, or started from (V, E) `vectors`; padding is zero.

    Raises:
        ShapeError: the vectors do not fit.
    """
    made = nn.Embedding(words, width, padding_idx=0)
    if vectors is not None:
        expect(where, **{"word vectors": (vectors, f"{words} {width}")})
        with torch.no_grad():
            made.weight.copy_(vectors)
            made.weight[0] = 0
    return made


class EncodedTexts(NamedTuple):
    """What the tower says about B texts.

    Attributes:
        vectors: (B, D) rows of unit length.
        attention: (B, T) weights that sum to 1 over the real words and are 0 on padding; None where the
            pooling has none.
    """

    vectors: Tensor
    attention: Tensor | None


class AdditiveAttention(nn.Module):
    """Weighted sum of LSTM states; the weights come from one learned question to every state.

    u = tanh(W h + b), e = ⟨q, u⟩, scaled by 1/√H if asked, a = softmax over the real words, Σ a h.

    Source: the release of CMCM 2022, modes 1 and 2; docs/methods/cmcm.md §2.3.
    """

    def __init__(self, width: int, *, scaled: bool) -> None:
        """Prepare.

        Args:
            width: H of a state.
            scaled: divide by the square root of H.
        """
        super().__init__()
        self.transform = nn.Linear(width, width)
        self.question = nn.Parameter(torch.randn(width))
        self.factor = width**-0.5 if scaled else 1.0

    def forward(self, states: Tensor, real: Tensor) -> tuple[Tensor, Tensor]:
        """Pool.

        Args:
            states: (B, T, H).
            real: (B, T) bool, True on words; at least one per row.
        Returns:
            (B, H) and the weights (B, T).
        """
        energy = torch.tanh(self.transform(states)) @ self.question * self.factor  # (B, T)
        weights = energy.masked_fill(~real, -torch.inf).softmax(dim=1)
        return (weights.unsqueeze(1) @ states).squeeze(1), weights


class WordEncoder(nn.Module):
    """Embedding → LSTM → pooling → batch norm → linear → unit length.

    Source: CMCM 2022; docs/methods/cmcm.md §2.2, §2.3.
    """

    def __init__(
        self,
        vocabulary_size: int,
        dim: int,
        *,
        vectors: Tensor | None = None,
        width: int = 300,
        hidden: int = 300,
        bidirectional: bool = True,
        pooling: Pooling = "scaled",
    ) -> None:
        """Draw the weights from torch's generator.

        Args:
            vocabulary_size: V, padding (0) and unknown (1) among them.
            dim: D of the vectors that come out.
            vectors: (V, E) to start the embedding from; trained further. None draws them.
            width: E, of a word vector.
            hidden: of the LSTM, per direction.
            bidirectional: read the text both ways.
            pooling: "none" joins the final states of all directions, "additive" and "scaled" attend.
        Raises:
                ShapeError: the vectors do not fit V and E.
        """
        super().__init__()
        self.embedding = word_embedding("words", vocabulary_size, width, vectors)
        self.lstm = nn.LSTM(width, hidden, batch_first=True, bidirectional=bidirectional)
        state = hidden * (2 if bidirectional else 1)
        self.attention = None if pooling == "none" else AdditiveAttention(state, scaled=pooling == "scaled")
        self.norm = nn.BatchNorm1d(state)
        self.project = nn.Linear(state, dim)

    def forward(self, ids: Tensor, lengths: Tensor) -> EncodedTexts:
        """Encode.

        Args:
            ids: (B, T) int64; what stands after a row's length has no influence.
            lengths: (B,) int64 in 1…T, on the CPU as well where the words are on a card.
        Returns:
            Vectors and attention.
        Raises:
            ShapeError: a length out of range, or one text alone in training, which batch norm cannot take.
        """
        sizes = expect("words", ids=(ids, "B T"), lengths=(lengths, "B"))
        if int(lengths.min()) < 1 or int(lengths.max()) > sizes["T"]:
            raise ShapeError(f"words: a length lies outside 1…{sizes['T']}; give the lengths before padding")
        if self.training and sizes["B"] < 2:
            raise ShapeError("words: one text in a training batch, expected at least 2 for batch norm")
        real = (torch.arange(sizes["T"]) < lengths.cpu().unsqueeze(1)).to(ids.device)  # (B, T)
        # Lengths must be on the CPU for packing; the packed LSTM never sees padding.
        packed = pack_padded_sequence(
            self.embedding(ids), lengths.cpu(), batch_first=True, enforce_sorted=False
        )
        states, (final, _) = self.lstm(packed)
        if self.attention is None:
            pooled, weights = final.transpose(0, 1).flatten(1), None  # (directions, B, H) → (B, directions·H)
        else:
            padded, _ = pad_packed_sequence(states, batch_first=True, total_length=sizes["T"])
            pooled, weights = self.attention(padded, real)
        vectors = nn.functional.normalize(self.project(self.norm(pooled)), dim=1)
        return EncodedTexts(vectors, weights)


WASTE = 1.5  # the longest row of a group is at most this many times as long as the shortest


def states(recurrence: nn.GRU | nn.LSTM, padded: Tensor, lengths: Tensor) -> Tensor:
    """What a layer says at every place.

    Args:
        recurrence: of one layer, `batch_first`, one way or both.
        padded: (B, L, W); what stands after a row's length has no influence.
        lengths: (B,) int64 on the CPU, in 1…L.
    Returns:
        (B, L, H) or, both ways, (B, L, 2·H); zeros where a row is over.
    Raises:
        ShapeError: sizes do not fit.
    """
    expect("recurrence", rows=(padded, "B L W"), lengths=(lengths, "B"))
    if not len(padded) or int(lengths.min()) < 1 or int(lengths.max()) > padded.shape[1]:
        raise ShapeError(
            f"recurrence: a length lies outside 1…{padded.shape[1]}; give the lengths before padding"
        )
    if padded.is_cuda:
        packed = pack_padded_sequence(padded, lengths, batch_first=True, enforce_sorted=False)
        whole, _ = pad_packed_sequence(recurrence(packed)[0], batch_first=True, total_length=padded.shape[1])
        return whole

    def read(rows: Tensor, own: Tensor) -> Tensor:
        found = _one_way(recurrence, rows, "")
        if recurrence.bidirectional:
            back = _one_way(recurrence, _turned(rows, own), "_reverse")
            found = torch.cat([found, _turned(back, own)], dim=2)
        return found

    return _by_length(padded, lengths, read)


def last_states(recurrence: nn.GRU | nn.LSTM, padded: Tensor, lengths: Tensor) -> Tensor:
    """What a layer says when it has read a row, both ways one beside the other.

    Args:
        recurrence: as for `states`.
        padded: likewise.
        lengths: likewise.
    Returns:
        (B, H) or (B, 2·H).
    Raises:
        ShapeError: sizes do not fit.
    """
    whole, rows = states(recurrence, padded, lengths), torch.arange(len(padded))
    if not recurrence.bidirectional:
        return whole[rows, lengths - 1]
    forward, backward = whole.chunk(2, dim=2)
    return torch.cat([forward[rows, lengths - 1], backward[:, 0]], dim=1)


def _by_length(padded: Tensor, lengths: Tensor, read: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    """Rows of like length read together: `read` takes some, cut to their longest, and their lengths.

    Returns:
        (B, L, H), zeros where a row is over.
    """
    found, order = [], []
    left = torch.argsort(lengths, descending=True, stable=True)
    while len(left):
        longest = int(lengths[left[0]])
        close = int((lengths[left] * WASTE >= longest).sum())
        rows, left = left[:close], left[close:]
        own = lengths[rows]
        made = read(padded[rows, :longest], own)
        over = torch.arange(longest)[None] >= own[:, None]
        made = made.masked_fill(over.to(made.device)[:, :, None], 0.0)
        found.append(pad(made, (0, 0, 0, padded.shape[1] - longest)))
        order.append(rows)
    return torch.cat(found)[torch.cat(order).argsort()]


def _one_way(recurrence: nn.GRU | nn.LSTM, rows: Tensor, direction: str) -> Tensor:
    """(B, L, W) → (B, L, H), from a zero state."""
    names = ["weight_ih_l0", "weight_hh_l0"] + (["bias_ih_l0", "bias_hh_l0"] if recurrence.bias else [])
    weights = [getattr(recurrence, name + direction) for name in names]
    start = rows.new_zeros(1, len(rows), recurrence.hidden_size)
    settings = (recurrence.bias, 1, 0.0, recurrence.training, False, True)
    if isinstance(recurrence, nn.LSTM):
        return torch.lstm(rows, (start, start), weights, *settings)[0]
    return torch.gru(rows, start, weights, *settings)[0]


def _turned(rows: Tensor, lengths: Tensor) -> Tensor:
    """Every row back to front, its padding where it was."""
    places = torch.arange(rows.shape[1])[None]
    ends = lengths[:, None]
    back = torch.where(places < ends, ends - 1 - places, places)
    return rows.gather(1, back[:, :, None].expand_as(rows))


def in_stories(where: str, rows: Tensor, steps: Tensor) -> tuple[Tensor, Tensor]:
    """Rows of B stories, one story after the other, side by side.

    Args:
        where: the caller, for the message.
        rows: (S, W).
        steps: (B,) int64 on the CPU, at least 1, with sum S.
    Returns:
        (B, T, W), zeros where a story is over, and (B, T) True where there is a step.
    Raises:
        ShapeError: sizes do not fit.
    """
    counts = steps.tolist()
    if rows.ndim != 2 or min(counts, default=0) < 1 or sum(counts) != len(rows):
        raise ShapeError(
            f"{where}: rows {tuple(rows.shape)} in stories of {counts[:9]} steps, expected (S, W) and at"
            " least one step each, S in all"
        )
    padded = pad_sequence(list(torch.split(rows, counts)), batch_first=True)
    real = torch.arange(padded.shape[1]) < steps[:, None]
    return padded, real.to(rows.device)


def read_both_ways(recurrence: nn.GRU | nn.LSTM, rows: Tensor, steps: Tensor) -> Tensor:
    """Run a recurrence that reads both ways over B stories, from a zero state each.

    Args:
        recurrence: `batch_first`.
        rows: (S, W) the stories one after the other.
        steps: (B,) int64 on the CPU, at least 1, with sum S; short ones, since they are packed.
    Returns:
        (S, 2·H) its outputs in the order of the rows.
    Raises:
        ShapeError: sizes do not fit.
    """
    padded, real = in_stories("recurrence", rows, steps)
    packed = pack_padded_sequence(padded, steps, batch_first=True, enforce_sorted=False)
    found: Tensor = pad_packed_sequence(recurrence(packed)[0], batch_first=True)[0][real]
    return found


def read_forward(recurrence: nn.LSTM, rows: Tensor, counts: Tensor) -> Tensor:
    """Run an LSTM that reads one way over B sequences of any length, from a zero state each.

    Args:
        recurrence: `batch_first`.
        rows: (N, W) the sequences one after the other.
        counts: (B,) int64 on the CPU, at least 1, with sum N.
    Returns:
        (N, H) its outputs in the order of the rows.
    Raises:
        ShapeError: sizes do not fit.
    """
    padded, real = in_stories("recurrence", rows, counts)
    # what is padded comes after a sequence, where it changes nothing
    return _by_length(padded, counts, lambda some, _: recurrence(some)[0])[real]


def learn_vectors(
    train_texts: Sequence[str],
    vocabulary: Vocabulary,
    *,
    width: int = 300,
    window: int = 10,
    epochs: int = 50,
    seed: int = 0,
) -> Matrix:
    """Learn CBOW vectors; the same texts, words and seed give the same bits.

    One worker makes it so. Words of the vocabulary
    that the texts lack are drawn like the unknown word.

    Args:
        train_texts: of the training split only.
        vocabulary: of V words, padding and unknown among them, whose rows the matrix gets.
        width: E, numbers per word; the defaults are those of the CMCM release.
        window: words on either side.
        epochs: passes over the texts.
        seed: of all random numbers.
    Returns:
        (V, E) float32; row 0 is zero, row 1 random.
    Raises:
        DataError: no text holds a word of the vocabulary.
    Source: the release of CMCM 2022; docs/methods/data.md §5.2.
    """
    with installed("gensim", RESEARCH):
        from gensim.models import Word2Vec

    texts = [[word for word in vocabulary.tokens(text) if word in vocabulary] for text in train_texts]
    texts = [text for text in texts if text]
    if not texts:
        raise DataError(
            "word vectors: no training text holds a word of the vocabulary; give the training texts"
        )
    model = Word2Vec(
        texts, vector_size=width, window=window, min_count=1, sg=0, epochs=epochs, seed=seed, workers=1
    )
    matrix = _drawn(vocabulary, width, seed)
    for number, word in enumerate(vocabulary.words, FIRST_WORD):
        if word in model.wv:
            matrix[number] = model.wv[word]
    return matrix


def glove_vectors(
    found: Mapping[str, NDArray[np.float32]], vocabulary: Vocabulary, *, where: str, width: int, seed: int = 0
) -> Matrix:
    """Vectors of a vocabulary's words from GloVe's file; a word that it lacks is drawn like the unknown word.

    Args:
        found: word → (E,) of the file's words; of those in capitals also in lower case.
        vocabulary: of V words, padding and unknown among them, whose rows the matrix gets; a word in capitals
            that the file lacks is looked up in lower case.
        where: the file, for messages.
        width: E, numbers per word.
        seed: of the words that are drawn.
    Returns:
        (V, E) float32; row 0 is zero.
    Raises:
        DataError: the file has another width, or none of the words.
    Source: docs/methods/data.md §5.2.
    """
    wide = len(next(iter(found.values()), ()))
    if found and wide != width:
        raise DataError(
            f"{where}: vectors of {wide} numbers, but model.word_width is {width}; set it to {wide}"
        )
    matrix, known = _drawn(vocabulary, width, seed), 0
    for number, word in enumerate(vocabulary.words, FIRST_WORD):
        vector = found.get(word, found.get(word.lower()))
        if vector is not None:
            matrix[number], known = vector, known + 1
    if not known:
        raise DataError(
            f"{where}: none of the {counted(len(vocabulary.words), 'word')} of the training texts has a"
            " vector"
        )
    return matrix


def _drawn(vocabulary: Vocabulary, width: int, seed: int) -> Matrix:
    """(V, E) as gensim starts its own; padding is 0."""
    spread = 0.5 / width
    random = np.random.default_rng(seed)
    matrix: Matrix = random.uniform(-spread, spread, (len(vocabulary), width)).astype(np.float32)
    matrix[:UNKNOWN] = 0
    return matrix
