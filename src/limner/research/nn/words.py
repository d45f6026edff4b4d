"""Text tower of CMCM and its baselines, recurrent layers over padded sequences, and initial word vectors.

Word vectors are random, learned on the training texts by gensim, or read from GloVe; given texts and seed,
all are reproducible bit for bit.
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
    """Embedding layer with the (V, E) `vectors`, or random ones from torch's generator; padding is zero.

    Raises:
        ShapeError: the shape of `vectors` is not (V, E).
    """
    made = nn.Embedding(words, width, padding_idx=0)
    if vectors is not None:
        expect(where, **{"word vectors": (vectors, f"{words} {width}")})
        with torch.no_grad():
            made.weight.copy_(vectors)
            made.weight[0] = 0
    return made


class EncodedTexts(NamedTuple):
    """Output of the text encoder for B texts.

    Attributes:
        vectors: (B, D) unit vectors.
        attention: (B, T) weights, 0 on padding; rows sum to 1. None for pooling "none".
    """

    vectors: Tensor
    attention: Tensor | None


class AdditiveAttention(nn.Module):
    """Additive attention over LSTM states with one learned query.

    u = tanh(W h + b), e = ⟨q, u⟩ (times 1/√H if `scaled`), a = softmax of e over the words; result Σ a h.

    Source: the release of CMCM 2022, modes 1 and 2; docs/methods/cmcm.md §2.3.
    """

    def __init__(self, width: int, *, scaled: bool) -> None:
        """Initialise the weights at random, from torch's generator.

        Args:
            width: H, dimension of states.
            scaled: whether to divide e by √H.
        """
        super().__init__()
        self.transform = nn.Linear(width, width)
        self.question = nn.Parameter(torch.randn(width))
        self.factor = width**-0.5 if scaled else 1.0

    def forward(self, states: Tensor, real: Tensor) -> tuple[Tensor, Tensor]:
        """Pool the states of B texts.

        Args:
            states: (B, T, H) LSTM states.
            real: (B, T) bool, True on words, with at least one per row.
        Returns:
            (B, H) pooled states, and (B, T) weights.
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
        """Initialise the weights at random, from torch's generator.

        Args:
            vocabulary_size: V, with padding (0) and unknown (1).
            dim: D, dimension of the result.
            vectors: (V, E) initial word vectors, which are trained further; None for random ones.
            width: E, dimension of word vectors.
            hidden: hidden size of the LSTM, per direction.
            bidirectional: whether the LSTM is bidirectional.
            pooling: "none" concatenates the final states; "additive" and "scaled" use attention.
        Raises:
            ShapeError: the shape of `vectors` is not (V, E).
        """
        super().__init__()
        self.embedding = word_embedding("words", vocabulary_size, width, vectors)
        self.lstm = nn.LSTM(width, hidden, batch_first=True, bidirectional=bidirectional)
        state = hidden * (2 if bidirectional else 1)
        self.attention = None if pooling == "none" else AdditiveAttention(state, scaled=pooling == "scaled")
        self.norm = nn.BatchNorm1d(state)
        self.project = nn.Linear(state, dim)

    def forward(self, ids: Tensor, lengths: Tensor) -> EncodedTexts:
        """Encode B texts.

        Args:
            ids: (B, T) int64 word ids; values beyond a row's length are ignored.
            lengths: (B,) int64 in 1…T; may be on the CPU.
        Returns:
            Vectors and attention.
        Raises:
            ShapeError: a length is out of range, or B = 1 in training, where batch norm is undefined.
        """
        sizes = expect("words", ids=(ids, "B T"), lengths=(lengths, "B"))
        if int(lengths.min()) < 1 or int(lengths.max()) > sizes["T"]:
            raise ShapeError(f"words: a length lies outside 1…{sizes['T']}; give the lengths before padding")
        if self.training and sizes["B"] < 2:
            raise ShapeError("words: one text in a training batch, expected at least 2 for batch norm")
        real = (torch.arange(sizes["T"]) < lengths.cpu().unsqueeze(1)).to(ids.device)  # (B, T)
        # packing needs the lengths on the CPU
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
    """Output of a recurrent layer at every position.

    Args:
        recurrence: GRU or LSTM with one layer and `batch_first`.
        padded: (B, L, W); values beyond a row's length are ignored.
        lengths: (B,) int64 on the CPU, in 1…L.
    Returns:
        (B, L, H), or (B, L, 2·H) if bidirectional; zero on padding.
    Raises:
        ShapeError: the sizes contradict each other.
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
        output = _one_way(recurrence, rows, "")
        if recurrence.bidirectional:
            back = _one_way(recurrence, _turned(rows, own), "_reverse")
            output = torch.cat([output, _turned(back, own)], dim=2)
        return output

    return _by_length(padded, lengths, read)


def last_states(recurrence: nn.GRU | nn.LSTM, padded: Tensor, lengths: Tensor) -> Tensor:
    """Final states of a recurrent layer, both directions concatenated.

    Args:
        recurrence: see `states`.
        padded: see `states`.
        lengths: see `states`.
    Returns:
        (B, H), or (B, 2·H) if bidirectional.
    Raises:
        ShapeError: the sizes contradict each other.
    """
    whole, rows = states(recurrence, padded, lengths), torch.arange(len(padded))
    if not recurrence.bidirectional:
        return whole[rows, lengths - 1]
    forward, backward = whole.chunk(2, dim=2)
    return torch.cat([forward[rows, lengths - 1], backward[:, 0]], dim=1)


def _by_length(padded: Tensor, lengths: Tensor, read: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    """Run `read` on groups of rows of similar length, each cut to its longest row.

    Returns:
        (B, L, H), zero on padding.
    """
    outputs, order = [], []
    left = torch.argsort(lengths, descending=True, stable=True)
    while len(left):
        longest = int(lengths[left[0]])
        close = int((lengths[left] * WASTE >= longest).sum())
        rows, left = left[:close], left[close:]
        group_lengths = lengths[rows]
        made = read(padded[rows, :longest], group_lengths)
        over = torch.arange(longest)[None] >= group_lengths[:, None]
        made = made.masked_fill(over.to(made.device)[:, :, None], 0.0)
        outputs.append(pad(made, (0, 0, 0, padded.shape[1] - longest)))
        order.append(rows)
    return torch.cat(outputs)[torch.cat(order).argsort()]


def _one_way(recurrence: nn.GRU | nn.LSTM, rows: Tensor, direction: str) -> Tensor:
    """Run one direction from a zero state: (B, L, W) → (B, L, H)."""
    names = ["weight_ih_l0", "weight_hh_l0"] + (["bias_ih_l0", "bias_hh_l0"] if recurrence.bias else [])
    weights = [getattr(recurrence, name + direction) for name in names]
    start = rows.new_zeros(1, len(rows), recurrence.hidden_size)
    settings = (recurrence.bias, 1, 0.0, recurrence.training, False, True)
    if isinstance(recurrence, nn.LSTM):
        return torch.lstm(rows, (start, start), weights, *settings)[0]
    return torch.gru(rows, start, weights, *settings)[0]


def _turned(rows: Tensor, lengths: Tensor) -> Tensor:
    """Reverse each row, leaving its padding at the end."""
    places = torch.arange(rows.shape[1])[None]
    ends = lengths[:, None]
    back = torch.where(places < ends, ends - 1 - places, places)
    return rows.gather(1, back[:, :, None].expand_as(rows))


def in_stories(where: str, rows: Tensor, steps: Tensor) -> tuple[Tensor, Tensor]:
    """Pad the rows of B concatenated stories.

    Args:
        where: the caller, for messages.
        rows: (S, W) rows of all stories.
        steps: (B,) int64 on the CPU, rows per story, at least 1, with sum S.
    Returns:
        (B, T, W), zero on padding; and (B, T) bool, False on padding.
    Raises:
        ShapeError: the sizes contradict each other.
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
    """Run a bidirectional recurrent layer over B stories, each from a zero state.

    Args:
        recurrence: bidirectional GRU or LSTM with `batch_first`.
        rows: (S, W) rows of all stories, concatenated.
        steps: (B,) int64 on the CPU, rows per story, at least 1, with sum S.
    Returns:
        (S, 2·H) outputs in the order of the rows.
    Raises:
        ShapeError: the sizes contradict each other.
    """
    padded, real = in_stories("recurrence", rows, steps)
    packed = pack_padded_sequence(padded, steps, batch_first=True, enforce_sorted=False)
    outputs: Tensor = pad_packed_sequence(recurrence(packed)[0], batch_first=True)[0][real]
    return outputs


def read_forward(recurrence: nn.LSTM, rows: Tensor, counts: Tensor) -> Tensor:
    """Run a unidirectional LSTM over B sequences of any length, each from a zero state.

    Args:
        recurrence: LSTM with `batch_first`.
        rows: (N, W) rows of all sequences, concatenated.
        counts: (B,) int64 on the CPU, rows per sequence, at least 1, with sum N.
    Returns:
        (N, H) outputs in the order of the rows.
    Raises:
        ShapeError: the sizes contradict each other.
    """
    padded, real = in_stories("recurrence", rows, counts)
    # padding follows a sequence and so does not affect it
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
    """Learn CBOW word vectors with word2vec, reproducible bit for bit (one worker).

    Words of the vocabulary that are not in the texts get random vectors, like the unknown word.

    Args:
        train_texts: texts of the training split only.
        vocabulary: vocabulary of V words, with padding and unknown.
        width: E, dimension of the vectors; the defaults are those of the CMCM release.
        window: context words on either side.
        epochs: passes over the texts.
        seed: seed of all random numbers.
    Returns:
        (V, E) float32; row 0 is zero, row 1 random.
    Raises:
        DataError: no text contains a word of the vocabulary.
    Source: the release of CMCM 2022; docs/methods/data.md §5.2.
    """
    with installed("gensim", RESEARCH):
        from gensim.models import Word2Vec

    texts = [[word for word in vocabulary.tokens(text) if word in vocabulary] for text in train_texts]
    texts = [text for text in texts if text]
    if not texts:
        raise DataError(
            "word vectors: no training text contains a word of the vocabulary; give the training texts"
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
    """Matrix of a vocabulary's GloVe vectors; missing words get random vectors, like the unknown word.

    Args:
        found: word → (E,) vector, as read from the file.
        vocabulary: vocabulary of V words, with padding and unknown; a missing word is also looked up in lower
            case.
        where: name of the file, for messages.
        width: E, expected dimension of the vectors.
        seed: seed of the random vectors.
    Returns:
        (V, E) float32; row 0 is zero.
    Raises:
        DataError: the file has another width, or no word of the vocabulary.
    Source: docs/methods/data.md §5.2.
    """
    wide = len(next(iter(found.values()), ()))
    if found and wide != width:
        raise DataError(
            f"{where}: vectors have {wide} dimensions, but model.word_width is {width}; set it to {wide}"
        )
    matrix, known = _drawn(vocabulary, width, seed), 0
    for number, word in enumerate(vocabulary.words, FIRST_WORD):
        vector = found.get(word, found.get(word.lower()))
        if vector is not None:
            matrix[number], known = vector, known + 1
    if not known:
        raise DataError(
            f"{where}: none of the {counted(len(vocabulary.words), 'word')} of the training texts has a"
            " vector; are the vectors for another language?"
        )
    return matrix


def _drawn(vocabulary: Vocabulary, width: int, seed: int) -> Matrix:
    """(V, E) random vectors from gensim's initial distribution; padding is 0."""
    spread = 0.5 / width
    random = np.random.default_rng(seed)
    matrix: Matrix = random.uniform(-spread, spread, (len(vocabulary), width)).astype(np.float32)
    matrix[:UNKNOWN] = 0
    return matrix
