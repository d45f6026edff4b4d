"""Scene graphs → unit vectors that say what a picture shows and how its objects relate.

Two encoders share one form: a plain graph convolution in which relations are nodes, and the convolution over
triples of sg2im. They compare nothing and have no loss.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional


@dataclass(frozen=True)
class GraphBatch:
    """B graphs, of V nodes and R relations together; the nodes of a graph lie one after the other.

    Attributes:
        labels: (V,) int64 number of each node's label; a graph's objects come before its relations.
        owner: (V,) int64 graph of each node.
        triples: (R, 3) int64 nodes of subject, relation and object.
        empty: (B,) True where a graph has no objects.
    """

    labels: Tensor
    owner: Tensor
    triples: Tensor
    empty: Tensor

    @property
    def size(self) -> int:
        """B."""
        return int(self.empty.shape[0])

    def to(self, device: torch.device | str) -> GraphBatch:
        """The same on another device."""
        return GraphBatch(*(one.to(device) for one in (self.labels, self.owner, self.triples, self.empty)))


def normalised_adjacency(batch: GraphBatch, dtype: torch.dtype = torch.float32) -> Tensor:
    """(V, V) sparse D̃^(−½) Ã D̃^(−½) with Ã = A + I of the undirected graph of things and relations.

    Args:
        batch: whose relations are linked to their subjects and objects.
        dtype: dtype of the values.
    Source: Kipf & Welling 2017, Eq. 2; docs/methods/gsda.md §3.4.
    """
    count = int(batch.labels.shape[0])
    subjects, relations, objects = batch.triples.unbind(dim=1)  # (R,) each
    loops = torch.arange(count, device=batch.labels.device)
    # A relation of a thing to itself links them once: Ã holds ones, not numbers of links.
    rows = torch.cat([subjects, relations, objects, relations, loops])
    columns = torch.cat([relations, subjects, relations, objects, loops])
    cells = torch.unique(rows * count + columns)
    edges = torch.stack([cells // count, cells % count]) if count else cells.new_zeros(2, 0)  # (2, E)
    degree = torch.bincount(edges[0], minlength=count).to(dtype)
    scale = degree.rsqrt()  # every node has its loop, so no degree is 0
    values = scale[edges[0]] * scale[edges[1]]
    return torch.sparse_coo_tensor(edges, values, (count, count), is_coalesced=True, check_invariants=False)


def mean_by_graph(nodes: Tensor, owner: Tensor, size: int) -> Tensor:
    """(B, D) mean of each graph's nodes; zero where it has none.

    Args:
        nodes: (V, D).
        owner: (V,) graph of each node.
        size: B.
    """
    totals = nodes.new_zeros(size, nodes.shape[1]).index_add(0, owner, nodes)
    counts = torch.bincount(owner, minlength=size).clamp(min=1).to(nodes.dtype)
    return totals / counts[:, None]


Convolution = Literal["bipartite", "triple"]
_TRIPLE_WIDTH = 512


class GraphEncoder(nn.Module):
    """Graphs → ψ, (B, D) unit rows.

    An empty graph has a learned vector of its own; the mask that comes with ψ lets a loss leave it out.
    """

    def __init__(
        self,
        label_vectors: Tensor,
        *,
        dim: int = 256,
        width: int = 256,
        layers: int = 2,
        convolution: Convolution = "bipartite",
    ) -> None:
        """Build it; weights are drawn from torch's generator.

        Args:
            label_vectors: (L, E) float32, a row per label and predicate; they are not trained.
            dim: D of ψ.
            width: width of the hidden layers.
            layers: layers of the convolution, ≥ 1.
            convolution: ``bipartite`` or ``triple``.
        Source: GSDA 2021, Section 3.3; docs/methods/gsda.md §3.4.
        """
        super().__init__()
        self.dim, self.convolution = dim, convolution
        self.label_vectors: Tensor
        self.register_buffer("label_vectors", label_vectors.detach().float().clone())
        start = int(label_vectors.shape[1])
        build = BipartiteConvolution if convolution == "bipartite" else TripleConvolution
        self.layers = build(start, width, layers)
        self.out = nn.Linear(width, dim)
        self.empty = nn.Parameter(torch.randn(dim))

    def forward(self, batch: GraphBatch) -> tuple[Tensor, Tensor]:
        """ψ and where graphs are empty.

        Args:
            batch: B graphs.
        Returns:
            (B, D) unit rows, and (B,) True where a graph has no objects.
        """
        nodes = self.layers(self.label_vectors[batch.labels], batch)  # (V, width)
        pooled = self.out(mean_by_graph(nodes, batch.owner, batch.size))  # (B, D)
        rows = torch.where(batch.empty[:, None], self.empty, pooled)
        return functional.normalize(rows, dim=1), batch.empty


class BipartiteConvolution(nn.Module):
    """H ← ReLU(D̃^(−½) Ã D̃^(−½) H W), relations being nodes between their subjects and objects.

    Source: Kipf & Welling 2017, Eq. 2; docs/methods/gsda.md §3.4.
    """

    def __init__(self, start: int, width: int, layers: int) -> None:
        """Draw the weights.

        Args:
            start: E of the label vectors.
            width: width of every layer.
            layers: ≥ 1.
        """
        super().__init__()
        sizes = [start, *[width] * layers]
        self.weights = nn.ModuleList(nn.Linear(size, after, bias=False) for size, after in pairwise(sizes))

    def forward(self, nodes: Tensor, batch: GraphBatch) -> Tensor:
        """(V, E) → (V, width)."""
        spread = normalised_adjacency(batch, nodes.dtype)
        for weight in self.weights:
            # Multiplied by W first: that side is the narrower one.
            made = weight(nodes).to(spread.dtype)
            with torch.autocast(made.device.type, enabled=False):  # both sides of it have one precision
                nodes = functional.relu(torch.sparse.mm(spread, made))
        return nodes


class TripleConvolution(nn.Module):
    """A perceptron over every (subject, predicate, object), averaged per object, then another one.

    A thing in no relation would lose its label, so, as sg2im does, every thing is also "in" the whole
    picture, by a node and a relation of learned vectors.

    Source: Johnson et al. 2018 (sg2im), Section 3; docs/methods/gsda.md §3.4.
    """

    def __init__(self, start: int, width: int, layers: int) -> None:
        """Draw the weights.

        Args:
            start: E of the label vectors.
            width: width of every layer's objects and predicates.
            layers: ≥ 1.
        """
        super().__init__()
        self.picture = nn.Parameter(torch.randn(start) * start**-0.5)
        self.within = nn.Parameter(torch.randn(start) * start**-0.5)
        sizes = [start, *[width] * layers]
        pairs = list(pairwise(sizes))
        hidden = _TRIPLE_WIDTH
        self.first = nn.ModuleList(_perceptron(3 * size, hidden, 2 * hidden + after) for size, after in pairs)
        self.second = nn.ModuleList(_perceptron(hidden, hidden, after) for _, after in pairs)

    def forward(self, nodes: Tensor, batch: GraphBatch) -> Tensor:
        """(V, E) → (V, width): the things and relations, without the whole pictures."""
        count = int(nodes.shape[0])
        nodes, triples = self._with_pictures(nodes, batch)
        subjects, relations, objects = triples.unbind(dim=1)  # (R',) each
        for first, second in zip(self.first, self.second, strict=True):
            out = first(torch.cat([nodes[subjects], nodes[relations], nodes[objects]], dim=1))
            as_subject, predicate, as_object = out.split(
                [_TRIPLE_WIDTH, out.shape[1] - 2 * _TRIPLE_WIDTH, _TRIPLE_WIDTH], dim=1
            )
            ends = torch.cat([subjects, objects])
            pooled = mean_by_graph(torch.cat([as_subject, as_object]), ends, len(nodes))
            # A relation is in one triple only: what the perceptron says of it is its new vector.
            nodes = second(pooled).index_copy(0, relations, predicate)
        return nodes[:count]

    def _with_pictures(self, nodes: Tensor, batch: GraphBatch) -> tuple[Tensor, Tensor]:
        """A node for each picture and a relation to it from each thing, behind those that are there."""
        count, size, device = int(nodes.shape[0]), batch.size, nodes.device
        is_thing = torch.ones(count, dtype=torch.bool, device=device)
        is_thing[batch.triples[:, 1]] = False
        things = torch.nonzero(is_thing)[:, 0]
        pictures = self.picture.expand(size, -1)
        within = self.within.expand(len(things), -1)
        relations = count + size + torch.arange(len(things), device=device)
        links = torch.stack([things, relations, count + batch.owner[things]], dim=1)
        return torch.cat([nodes, pictures, within]), torch.cat([batch.triples, links])


def _perceptron(start: int, middle: int, end: int) -> nn.Sequential:
    """Two layers with a ReLU after each, as sg2im builds them."""
    return nn.Sequential(nn.Linear(start, middle), nn.ReLU(), nn.Linear(middle, end), nn.ReLU())
