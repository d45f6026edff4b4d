"""Scene graphs as one big graph of numbers: nodes, who is linked to whom, and whose node is whose.

Every relation becomes a node between its subject and object, because a plain graph convolution knows no
labels on edges. It holds no parameters and reads no file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from limner.errors import DataError


class Thing(Protocol):
    """A node of a scene graph."""

    @property
    def label(self) -> str:
        """What it is, in words."""
        ...


class Relation(Protocol):
    """An edge of a scene graph."""

    @property
    def s(self) -> int:
        """Place of the subject."""
        ...

    @property
    def p(self) -> str:
        """The predicate, in words."""
        ...

    @property
    def o(self) -> int:
        """Place of the object."""
        ...


class Graph(Protocol):
    """A scene graph, such as `limner.data.scene_graphs.SceneGraph`."""

    @property
    def objects(self) -> Sequence[Thing]:
        """Things."""
        ...

    @property
    def relations(self) -> Sequence[Relation]:
        """Relations between their places."""
        ...


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


def graph_words(graphs: Iterable[Graph]) -> list[str]:
    """Every label and predicate once, sorted: the words a graph encoder needs vectors of."""
    found: set[str] = set()
    for graph in graphs:
        found.update(thing.label for thing in graph.objects)
        found.update(relation.p for relation in graph.relations)
    return sorted(found)


def batch_graphs(graphs: Sequence[Graph], numbers: Mapping[str, int]) -> GraphBatch:
    """Graphs side by side, without an edge between any two.

    Args:
        graphs: B of them, empty ones too.
        numbers: label or predicate → its row among the label vectors.
    Raises:
        DataError: a label without a number.
    """
    labels: list[int] = []
    owner: list[int] = []
    triples: list[tuple[int, int, int]] = []
    for place, graph in enumerate(graphs):
        first = len(labels)
        words = [thing.label for thing in graph.objects] + [relation.p for relation in graph.relations]
        strange = next((word for word in words if word not in numbers), None)
        if strange is not None:
            raise DataError(f"graph {place + 1} of {len(graphs)}: no vector for {strange!r}; add its label")
        labels += [numbers[word] for word in words]
        owner += [place] * len(words)
        middle = first + len(graph.objects)
        triples += [
            (first + relation.s, middle + number, first + relation.o)
            for number, relation in enumerate(graph.relations)
        ]
    return GraphBatch(
        torch.tensor(labels, dtype=torch.int64),
        torch.tensor(owner, dtype=torch.int64),
        torch.tensor(triples, dtype=torch.int64).reshape(-1, 3),
        torch.tensor([not graph.objects for graph in graphs], dtype=torch.bool),
    )


def normalised_adjacency(batch: GraphBatch, dtype: torch.dtype = torch.float32) -> Tensor:
    """(V, V) sparse D̃^(−½) Ã D̃^(−½) with Ã = A + I of the undirected graph of things and relations.

    Args:
        batch: whose relations are linked to their subjects and objects.
        dtype: of the values.
    Source: Kipf & Welling 2017, equation 2; SPEC 4.5.
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
