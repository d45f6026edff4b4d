"""What the labels of scene graphs mean: one vector per label, from word vectors or a sentence encoder.

The input of a graph encoder, made once for all graphs of a corpus. It learns nothing and reads no file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from limner.errors import DataError, NumericsError
from limner.similarity import FloatArray, TextEncoder


@dataclass(frozen=True)
class LabelVectors:
    """Labels and predicates with their vectors.

    Attributes:
        labels: V different ones.
        matrix: (V, E) float32.
        unknown: labels none of whose words has a vector; their rows are zero, and the caller must say so.
        source: name and fingerprint of what made them.
    """

    labels: tuple[str, ...]
    matrix: FloatArray
    unknown: tuple[str, ...] = ()
    source: str = ""

    @property
    def numbers(self) -> dict[str, int]:
        """Label → row."""
        return {label: row for row, label in enumerate(self.labels)}


def label_words(label: str) -> list[str]:
    """The words of a label: lower case, split at blanks, hyphens and underscores."""
    return label.lower().replace("-", " ").replace("_", " ").split()


def word_label_vectors(
    labels: Sequence[str], vectors: Mapping[str, FloatArray], source: str = ""
) -> LabelVectors:
    """Vectors of labels by word vectors; of a label of several words, the mean of those that are known.

    Args:
        labels: different ones.
        vectors: word in lower case → (E,), such as GloVe's.
        source: of the word vectors, to be kept.
    Raises:
        DataError: no word is known at all.
        NumericsError: a vector is not finite.
    Source: SPEC 4.5.
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
            f"label vectors: none of {len(labels)} labels ({labels[0]!r} …) has a word vector;"
            " are the vectors of another language?"
        )
    if not np.isfinite(matrix).all():
        row = int(np.argmin(np.isfinite(matrix).all(axis=1)))
        raise NumericsError(f"label vectors: that of {labels[row]!r} is not finite; check the file")
    return LabelVectors(tuple(labels), matrix, tuple(unknown), source)


def sentence_label_vectors(labels: Sequence[str], encoder: TextEncoder) -> LabelVectors:
    """Vectors of labels by an encoder of sentences, which knows every word.

    Args:
        labels: different ones.
        encoder: such as MiniLM, which needs no download.
    """
    rows = encoder.encode_text(labels) if labels else np.zeros((0, encoder.dim), np.float32)
    return LabelVectors(tuple(labels), rows, (), f"{encoder.name} {encoder.fingerprint}")
