"""Graph encoders: scene graphs → unit vectors.

There are two convolutions: a plain graph convolution with relations as nodes, and sg2im's over triples.
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
    """B graphs with V nodes and R relations in total; the nodes of each graph are consecutive.

    Attributes:
        labels: (V,) int64 label of each node; a graph's objects precede its relations.
        owner: (V,) int64 graph of each node.
        triples: (R, 3) int64 nodes of subject, relation and object.
        empty: (B,) bool, True if the graph has no objects.
    """

    labels: Tensor
    owner: Tensor
    triples: Tensor
    empty: Tensor

    @property
    def size(self) -> int:
        """Number of graphs, B."""
        return int(self.empty.shape[0])

    def to(self, device: torch.device | str) -> GraphBatch:
        """Copy to another device."""
        return GraphBatch(
            *(tensor.to(device) for tensor in (self.labels, self.owner, self.triples, self.empty))
        )


def normalised_adjacency(batch: GraphBatch, dtype: torch.dtype = torch.float32) -> Tensor:
    """(V, V) sparse D̃^(−½) Ã D̃^(−½) with Ã = A + I of the undirected graph of objects and relations.

    Args:
        batch: graphs; each relation is linked to its subject and object.
        dtype: dtype of the values.
    Source: Kipf & Welling 2017, Eq. 2; docs/methods/gsda.md §3.4.
    """
    count = int(batch.labels.shape[0])
    subjects, relations, objects = batch.triples.unbind(dim=1)  # (R,) each
    loops = torch.arange(count, device=batch.labels.device)
    # A relation of an object to itself is one link: Ã holds ones, not counts.
    rows = torch.cat([subjects, relations, objects, relations, loops])
    columns = torch.cat([relations, subjects, relations, objects, loops])
    cells = torch.unique(rows * count + columns)
    edges = torch.stack([cells // count, cells % count]) if count else cells.new_zeros(2, 0)  # (2, E)
    degree = torch.bincount(edges[0], minlength=count).to(dtype)
    scale = degree.rsqrt()  # every node has a self-loop, so no degree is 0
    values = scale[edges[0]] * scale[edges[1]]
    return torch.sparse_coo_tensor(edges, values, (count, count), is_coalesced=True, check_invariants=False)


def mean_by_graph(nodes: Tensor, owner: Tensor, size: int) -> Tensor:
    """(B, D) mean of each graph's nodes; zero if it has none.

    Args:
        nodes: (V, D) vectors of nodes.
        owner: (V,) graph of each node.
        size: number of graphs, B.
    """
    totals = nodes.new_zeros(size, nodes.shape[1]).index_add(0, owner, nodes)
    counts = torch.bincount(owner, minlength=size).clamp(min=1).to(nodes.dtype)
    return totals / counts[:, None]


Convolution = Literal["bipartite", "triple"]
_TRIPLE_WIDTH = 512


class GraphEncoder(nn.Module):
    """Graph encoder ψ: graphs → (B, D) unit vectors.

    Empty graphs share a learned vector; a mask is returned so that losses can ignore them.
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
        """Initialise the weights at random, from torch's generator.

        Args:
            label_vectors: (L, E) float32 vectors of labels and predicates; not trained.
            dim: D, dimension of the result.
            width: width of the hidden layers.
            layers: number of convolutions, ≥ 1.
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
        """Encode B graphs.

        Returns:
            (B, D) unit vectors, and (B,) bool, True for graphs without objects.
        """
        nodes = self.layers(self.label_vectors[batch.labels], batch)  # (V, width)
        pooled = self.out(mean_by_graph(nodes, batch.owner, batch.size))  # (B, D)
        rows = torch.where(batch.empty[:, None], self.empty, pooled)
        return functional.normalize(rows, dim=1), batch.empty


class BipartiteConvolution(nn.Module):
    """H ← ReLU(D̃^(−½) Ã D̃^(−½) H W), with relations as nodes between their subjects and objects.

    Source: Kipf & Welling 2017, Eq. 2; docs/methods/gsda.md §3.4.
    """

    def __init__(self, start: int, width: int, layers: int) -> None:
        """Initialise the weights at random, from torch's generator.

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
            # multiply by W first, which is the cheaper order
            made = weight(nodes).to(spread.dtype)
            with torch.autocast(made.device.type, enabled=False):  # sparse.mm needs equal dtypes
                nodes = functional.relu(torch.sparse.mm(spread, made))
        return nodes


class TripleConvolution(nn.Module):
    """An MLP over each triple (subject, predicate, object), a mean per object, then a second MLP.

    An object without relations would lose its label. As in sg2im, each object is therefore also related
    ("in") to a node for the whole picture; both have learned vectors.

    Source: Johnson et al. 2018 (sg2im), Section 3; docs/methods/gsda.md §3.4.
    """

    def __init__(self, start: int, width: int, layers: int) -> None:
        """Initialise the weights at random, from torch's generator.

        Args:
            start: E of the label vectors.
            width: dimension of objects and predicates in each layer.
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
        """(V, E) → (V, width), objects and relations, without the picture nodes."""
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
            # A relation is in exactly one triple, whose output is its new vector.
            nodes = second(pooled).index_copy(0, relations, predicate)
        return nodes[:count]

    def _with_pictures(self, nodes: Tensor, batch: GraphBatch) -> tuple[Tensor, Tensor]:
        """Append a node for each picture, and a relation to it from each object."""
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
    """Two layers, each followed by ReLU, as in sg2im."""
    return nn.Sequential(nn.Linear(start, middle), nn.ReLU(), nn.Linear(middle, end), nn.ReLU())
