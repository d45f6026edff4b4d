"""Polysemous instance embeddings (PIE): K attention heads over an item's parts, added to a global vector.

There are towers for grids of picture features and for texts.
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from limner.errors import ConfigError, ShapeError
from limner.research.nn.words import last_states, word_embedding


class Embedded(NamedTuple):
    """K embeddings of B items.

    Attributes:
        vectors: (B, K, H) unit vectors.
        residuals: (B, K, H) output of each head before the sum, in (0, 1).
        attention: (B, K, P) weights over the parts; rows sum to 1.
    """

    vectors: Tensor
    residuals: Tensor
    attention: Tensor


class PieHead(nn.Module):
    """K attention heads over local features, each added to the global vector.

    A = softmax over parts of W₂ tanh(W₁ Xᵀ), R = σ(Linear(A X)), output L2(LayerNorm(global + R)).

    Source: PVSE 2019, polysemous instance embedding; docs/methods/complementary.md §2.1.
    """

    def __init__(self, width: int, hidden: int, heads: int, dim: int) -> None:
        """Initialise the weights at random, from torch's generator (Xavier, biases 0).

        Args:
            width: F, dimension of local features.
            hidden: hidden size between W₁ and W₂.
            heads: K, number of heads.
            dim: H, dimension of embeddings.
        """
        super().__init__()
        self.first = nn.Linear(width, hidden, bias=False)
        self.second = nn.Linear(hidden, heads, bias=False)
        self.project = nn.Linear(width, dim)
        self.norm = nn.LayerNorm(dim)
        xavier(self)

    def forward(self, parts: Tensor, whole: Tensor, real: Tensor | None = None) -> Embedded:
        """Embed B items.

        Args:
            parts: (B, P, F) local features.
            whole: (B, H) global vectors.
            real: (B, P) bool, False on padding, with at least one True per row; None if there is no padding.
        """
        energy = self.second(torch.tanh(self.first(parts))).transpose(1, 2)  # (B, K, P)
        if real is not None:
            energy = energy.masked_fill(~real[:, None, :], -torch.inf)
        attention = energy.softmax(dim=2)
        residuals = torch.sigmoid(self.project(attention @ parts))  # (B, K, H)
        return Embedded(normalize(self.norm(whole[:, None] + residuals), dim=2), residuals, attention)


class GridTower(nn.Module):
    """Grids of picture features → K embeddings. Source: PVSE 2019; docs/methods/complementary.md §2.1."""

    def __init__(
        self, width: int, hidden: int, heads: int, dim: int, backbone: nn.Module | None = None
    ) -> None:
        """Initialise the weights at random, from torch's generator.

        Args:
            width: F, dimension of local features.
            hidden: hidden size of the attention.
            heads: K, number of heads.
            dim: H, dimension of embeddings.
            backbone: network from pixels to (B, P, F) grids; None if the inputs are grids.
        """
        super().__init__()
        self.backbone = backbone
        self.whole = nn.Linear(width, dim)
        xavier(self.whole)
        self.heads = PieHead(width, hidden, heads, dim)

    def forward(self, pictures: Tensor) -> Embedded:
        """Embed B pictures, given as (B, P, F) grids or as input of the backbone.

        Raises:
            ShapeError: the features are not (B, P, F).
        """
        grid = pictures if self.backbone is None else self.backbone(pictures)
        if grid.ndim != 3 or grid.shape[2] != self.whole.in_features:
            due = self.whole.in_features
            raise ShapeError(f"pvse: picture features have shape {tuple(grid.shape)}, expected (B, P, {due})")
        embedded: Embedded = self.heads(grid, self.whole(grid.mean(dim=1)))
        return embedded


class TextTower(nn.Module):
    """Texts → K embeddings: a bidirectional GRU for the global vector, heads over the word vectors.

    Source: PVSE 2019; docs/methods/complementary.md §2.1.
    """

    def __init__(
        self, words: int, width: int, hidden: int, heads: int, dim: int, *, vectors: Tensor | None = None
    ) -> None:
        """Initialise the weights at random, from torch's generator.

        Args:
            words: V, size of the vocabulary with padding (0).
            width: E, dimension of word vectors.
            hidden: hidden size of the attention.
            heads: K, number of heads.
            dim: H, dimension of embeddings; even, because each direction of the GRU has half of it.
            vectors: (V, E) initial word vectors.
        Raises:
            ConfigError: H is odd.
            ShapeError: the shape of `vectors` is not (V, E).
        """
        super().__init__()
        if dim % 2:
            raise ConfigError(
                f"pvse: model.dim {dim} is odd; expected an even number, half for each direction of the GRU"
            )
        self.embedding = word_embedding("pvse", words, width, vectors)
        self.gru = nn.GRU(width, dim // 2, batch_first=True, bidirectional=True)
        for name, weight in self.gru.named_parameters():
            (nn.init.zeros_ if "bias" in name else nn.init.xavier_uniform_)(weight)
        self.heads = PieHead(width, hidden, heads, dim)

    def forward(self, ids: Tensor, lengths: Tensor) -> Embedded:
        """Embed B texts.

        Args:
            ids: (B, L) int64 word ids; values beyond a row's length are ignored.
            lengths: (B,) int64 in 1…L.
        Raises:
            ShapeError: a length is out of range.
        """
        words = self.embedding(ids)
        final = last_states(self.gru, words, lengths.cpu())  # (B, H)
        real = torch.arange(ids.shape[1], device=ids.device) < lengths.to(ids.device)[:, None]
        embedded: Embedded = self.heads(words, final, real)
        return embedded


def xavier(module: nn.Module) -> None:
    """Initialise linear layers: Xavier uniform weights, zero biases."""
    for part in module.modules():
        if isinstance(part, nn.Linear):
            nn.init.xavier_uniform_(part.weight)
            if part.bias is not None:
                nn.init.zeros_(part.bias)
