"""Scene graphs of many pictures, with vectors of their labels, ready to be encoded in batches.

It detects nothing, learns nothing and knows no data set.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from torch import Tensor

from limner.arrays import FloatArray, TextEncoder
from limner.errors import ConfigError
from limner.nn.graphs import (
    Graph,
    GraphBatch,
    LabelVectors,
    batch_graphs,
    graph_words,
    label_words,
    sentence_label_vectors,
    word_label_vectors,
)


@dataclass(frozen=True)
class PictureGraphs:
    """Graphs by row, and what their labels mean.

    Attributes:
        graphs: one per row.
        labels: vectors of every label and predicate, of other pictures' graphs too: they are frozen, and any
            picture's graph must be readable.
    """

    graphs: tuple[Graph, ...]
    labels: LabelVectors

    def batch(self, rows: Tensor) -> GraphBatch:
        """(S,) rows → their graphs side by side, on the rows' device."""
        some = [self.graphs[row] for row in rows.tolist()]
        return batch_graphs(some, self.labels.numbers).to(rows.device)


def label_vectors(
    graphs: Sequence[Graph],
    *,
    words: Callable[[Collection[str]], Mapping[str, FloatArray]] | None = None,
    sentences: TextEncoder | None = None,
) -> LabelVectors:
    """Vectors of all labels and predicates of graphs.

    Args:
        graphs: of all pictures that may ever be encoded.
        words: gives vectors of words, such as GloVe's; None for an encoder of sentences.
        sentences: it.
    Raises:
        ConfigError: neither is given.
        DataError: no word of any label has a vector.
    """
    labels = graph_words(graphs)
    if words is not None:
        return word_label_vectors(labels, words({word for label in labels for word in label_words(label)}))
    if sentences is None:
        raise ConfigError("gsda: no encoder of sentences for labels was given; or name label_vectors=FILE")
    return sentence_label_vectors(labels, sentences)
