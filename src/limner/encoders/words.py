"""Texts to unit vectors: word embedding, masked LSTM, pooling, batch norm, linear layer.

The text tower that CMCM and its baselines share; with attention it also says which words counted. It reads
no vocabulary and no files: numbers of words, their lengths and, if any, word vectors are arguments.
"""

from typing import Literal, NamedTuple, get_args

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from limner.errors import ConfigError, ShapeError, unknown
from limner.shapes import expect

Pooling = Literal["none", "additive", "scaled"]


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

    Source: SPEC 2.3 (modes 1 and 2 of the CMCM release).
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

    Source: SPEC 2.2 and 2.3.
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
            ConfigError: unknown pooling.
            ShapeError: the vectors do not fit V and E.
        """
        super().__init__()
        if pooling not in get_args(Pooling):
            raise ConfigError("words: " + unknown("pooling", pooling, get_args(Pooling)))
        self.embedding = nn.Embedding(vocabulary_size, width, padding_idx=0)
        if vectors is not None:
            if tuple(vectors.shape) != (vocabulary_size, width):
                raise ShapeError(
                    f"words: word vectors have shape {tuple(vectors.shape)}, expected"
                    f" {vocabulary_size, width}; learn them for this vocabulary and width"
                )
            with torch.no_grad():
                self.embedding.weight.copy_(vectors)
                self.embedding.weight[0] = 0
        self.lstm = nn.LSTM(width, hidden, batch_first=True, bidirectional=bidirectional)
        state = hidden * (2 if bidirectional else 1)
        self.attention = None if pooling == "none" else AdditiveAttention(state, scaled=pooling == "scaled")
        self.norm = nn.BatchNorm1d(state)
        self.project = nn.Linear(state, dim)

    def forward(self, ids: Tensor, lengths: Tensor) -> EncodedTexts:
        """Encode.

        Args:
            ids: (B, T) int64; what stands after a row's length has no influence.
            lengths: (B,) int64 in 1…T.
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
        real = torch.arange(sizes["T"], device=ids.device) < lengths.unsqueeze(1)  # (B, T)
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
