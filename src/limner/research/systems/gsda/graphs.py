"""Batches of scene graphs for GSDA, and vectors of their labels."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from limner.arrays import FloatArray, TextEncoder
from limner.errors import DataError, NumericsError, counted
from limner.research.nn.graphs import GraphBatch
from limner.research.scenes.graphs import SceneGraph, SceneObject, SceneRelation

_MADE_UP = ("person", "animal", "tree", "house")


def graph_words(graphs: Iterable[SceneGraph]) -> list[str]:
    """All distinct labels and predicates, sorted."""
    found: set[str] = set()
    for graph in graphs:
        found.update(thing.label for thing in graph.objects)
        found.update(relation.p for relation in graph.relations)
    return sorted(found)


def made_up_graphs(ids: Iterable[str]) -> dict[str, SceneGraph]:
    """Picture → an artificial graph of two objects, derived from its id, for test runs without a detector."""
    found = {}
    for name in ids:
        drawn = hashlib.sha256(name.encode()).digest()
        things = [
            SceneObject(label=_MADE_UP[number % len(_MADE_UP)], box=(0.0, 0.0, 1.0, 1.0), score=1.0)
            for number in drawn[:2]
        ]
        found[name] = SceneGraph(
            image=name, objects=tuple(things), relations=(SceneRelation(s=0, p="near", o=1, score=1.0),)
        )
    return found


def batch_graphs(graphs: Sequence[SceneGraph], numbers: Mapping[str, int]) -> GraphBatch:
    """Combine graphs into one batch.

    Args:
        graphs: B graphs, possibly empty.
        numbers: label or predicate → its row in the label vectors.
    Raises:
        DataError: a label has no vector.
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


@dataclass(frozen=True)
class LabelVectors:
    """Labels and predicates with their vectors.

    Attributes:
        labels: V distinct labels.
        matrix: (V, E) float32 vectors.
        unknown: labels without a known word; their vectors are zero, which the caller must report.
    """

    labels: tuple[str, ...]
    matrix: FloatArray
    unknown: tuple[str, ...] = ()

    @property
    def numbers(self) -> dict[str, int]:
        """Label → row."""
        return {label: row for row, label in enumerate(self.labels)}


def label_words(label: str) -> list[str]:
    """The words of a label, lower-cased and split at spaces, hyphens and underscores."""
    return label.lower().replace("-", " ").replace("_", " ").split()


def word_label_vectors(labels: Sequence[str], vectors: Mapping[str, FloatArray]) -> LabelVectors:
    """Vectors of labels: the mean of the vectors of their known words.

    Args:
        labels: distinct labels.
        vectors: lower-case word → (E,) vector, such as GloVe's.
    Raises:
        DataError: no word is known.
        NumericsError: a vector is not finite.
    Source: GSDA 2021, Section 3.3; docs/methods/gsda.md §3.4.
    """
    if not vectors:
        raise DataError("label vectors: no word vectors given; check their file")
    width = len(next(iter(vectors.values())))
    matrix = np.zeros((len(labels), width), dtype=np.float32)
    unknown = []
    for row, label in enumerate(labels):
        known = [vectors[word] for word in label_words(label) if word in vectors]
        if known:
            matrix[row] = np.mean(known, axis=0)
        else:
            unknown.append(label)
    if labels and len(unknown) == len(labels):
        raise DataError(
            f"label vectors: none of {counted(len(labels), 'label')} ({labels[0]!r} …) has a word vector;"
            " are the word vectors for another language?"
        )
    if not np.isfinite(matrix).all():
        row = int(np.argmin(np.isfinite(matrix).all(axis=1)))
        raise NumericsError(f"label vectors: the vector of {labels[row]!r} is not finite; check the file")
    return LabelVectors(tuple(labels), matrix, tuple(unknown))


def sentence_label_vectors(labels: Sequence[str], encoder: TextEncoder) -> LabelVectors:
    """Vectors of labels from a sentence encoder.

    Args:
        labels: distinct labels.
        encoder: sentence encoder, such as the bundled MiniLM.
    """
    rows = encoder.encode_text(labels) if labels else np.zeros((0, encoder.dim), np.float32)
    return LabelVectors(tuple(labels), rows)
