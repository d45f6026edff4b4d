"""Array shapes by letter, protocols of encoders, and cosine similarity.

The letters of the whole project: N queries, M gallery, D joint width, K embeddings per item, S steps, B
    batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from limner.errors import NumericsError, ShapeError

if TYPE_CHECKING:
    from PIL.Image import Image


class HasShape(Protocol):
    """Anything with a shape: a NumPy array, a torch tensor, a memory map."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes, outermost first."""
        ...


def expect(where: str, **arrays: tuple[HasShape, str]) -> dict[str, int]:
    """Check that axes with the same letter have the same size.

    Args:
        where: name of the caller, for messages.
        arrays: name = (array, letters); letters are space separated, a number fixes a size.
            ``expect("search", queries=(q, "N D"), pictures=(v, "M D"))``.
    Returns:
        Size by letter.
    Raises:
        ShapeError: an array has the wrong number of axes, or a letter has two sizes.
    """
    sizes: dict[str, int] = {}
    for name, (array, letters) in arrays.items():
        axes = letters.split()
        found = tuple(array.shape)
        if len(found) != len(axes):
            raise ShapeError(f"{where}: {name} has shape {found}, expected ({', '.join(axes)})")
        for letter, size in zip(axes, found, strict=True):
            due = int(letter) if letter.isdigit() else sizes.setdefault(letter, size)
            if due != size:
                raise ShapeError(
                    f"{where}: {name} has shape {found}; its axis {letter} is {size}, expected {due}"
                )
    return sizes


FloatArray = NDArray[np.float32]
Some = NDArray[np.int64] | slice
"""Rows of an array: their indices, or a slice, which needs no copy."""
ByteArray = NDArray[np.uint8]


class TextEncoder(Protocol):
    """Encodes texts as unit vectors of one space."""

    @property
    def name(self) -> str:
        """Short name, such as ``minilm``."""
        ...

    @property
    def fingerprint(self) -> str:
        """Hash of weights and settings: equal fingerprints give equal vectors."""
        ...

    @property
    def dim(self) -> int:
        """Width D of a vector."""
        ...

    def encode_text(self, texts: Sequence[str]) -> FloatArray:
        """Encode N texts as (N, D) float32 rows of unit length."""
        ...


class SentenceEncoder(TextEncoder, Protocol):
    """A text encoder with a list of its languages."""

    @property
    def reads(self) -> frozenset[str] | None:
        """ISO 639 codes of its languages; None if they are unknown, so that it gets every text."""
        ...


@dataclass(frozen=True)
class ImageVectors:
    """Output of one forward pass over B pictures.

    Attributes:
        spaces: (B, D) float32 rows of unit length, by name of the space.
        labels: for each picture, the most probable (class name, probability), best first; empty if the
            encoder knows no classes.
    """

    spaces: dict[str, FloatArray]
    labels: list[list[tuple[str, float]]] = field(default_factory=list)


class ImageEncoder(Protocol):
    """Encodes pictures as unit vectors of one or more spaces."""

    @property
    def name(self) -> str:
        """Short name, such as ``resnet50``."""
        ...

    @property
    def fingerprint(self) -> str:
        """Hash of weights, precision and transform: equal fingerprints give equal vectors."""
        ...

    @property
    def spaces(self) -> dict[str, int]:
        """Width D by name of the space: ``visual`` compares pictures, the others compare them with texts."""
        ...

    @property
    def side_px(self) -> int:
        """Length in pixels of the shorter side that `prepare` needs; a decoder may stop at twice that."""
        ...

    def prepare(self, image: Image) -> ByteArray:
        """Prepare an upright RGB picture as (H, W, 3) bytes of fixed H and W; runs in worker threads."""
        ...

    def encode_pixels(self, batch: ByteArray) -> ImageVectors:
        """Compute vectors and labels of (B, H, W, 3) bytes."""
        ...


_TINY = 1e-15


def unit_rows(where: str, vectors: FloatArray) -> FloatArray:
    """Scale rows to length 1; a zero row stays zero.

    Args:
        where: name of the caller, for messages.
        vectors: (N, D), any finite values.
    Raises:
        NumericsError: a value is not finite; the message names the first row.
    """
    expect(where, vectors=(vectors, "N D"))
    values = np.asarray(vectors, dtype=np.float32)
    finite = np.isfinite(values).all(axis=1)
    if not finite.all():
        row = int(np.argmin(finite))
        raise NumericsError(f"{where}: row {row} of {len(values)} is not finite; check its input")
    with np.errstate(over="ignore"):
        norms = np.linalg.norm(values, axis=1, keepdims=True)
    extreme = np.flatnonzero(~((norms > _TINY) & (norms < 1 / _TINY)))  # squares out of range
    norms[extreme] = 0
    unit: FloatArray = np.divide(values, norms, out=np.zeros_like(values), where=norms > 0)
    exact = values[extreme].astype(np.float64)
    lengths = np.linalg.norm(exact, axis=1, keepdims=True)
    unit[extreme] = np.divide(exact, lengths, out=np.zeros_like(exact), where=lengths > 0)
    return unit


def usable_rows(vectors: NDArray[np.float32] | NDArray[np.float16]) -> NDArray[np.bool_]:
    """Mask (N,) of the (N, D) rows that can be compared: finite, and not all zeros."""
    if vectors.dtype == np.float16:  # testing the bits takes a quarter of the time
        largest = (np.ascontiguousarray(vectors).view(np.uint16) & 0x7FFF).max(axis=1, initial=0)
        return np.asarray((largest > 0) & (largest < 0x7C00), dtype=bool)
    return np.asarray(np.isfinite(vectors).all(axis=1) & np.any(vectors, axis=1), dtype=bool)


def scores(texts: FloatArray, images: FloatArray) -> FloatArray:
    """Cosine similarity of every text with every picture.

    Args:
        texts: (N, D) rows of unit length.
        images: (M, D) rows of unit length.
    Returns:
        (N, M) in [-1, 1]: rows are texts, columns are pictures.
    Raises:
        ShapeError: the widths differ.
        NumericsError: a score is not finite.
    """
    expect("similarity.scores", texts=(texts, "N D"), images=(images, "M D"))
    table = np.asarray(np.matmul(texts, images.T), dtype=np.float32)
    if not np.isfinite(table).all():
        raise NumericsError("similarity.scores: a score is not finite; check the vectors")
    return table


def sum_errors(texts: FloatArray) -> FloatArray:
    """Bounds (N,) of the difference between float32 cosines of (N, D) texts summed in different orders."""
    # rounding errors of two sums of the same D products; 1 % covers lengths that were rounded up
    return np.full(len(texts), 1.01 * texts.shape[1] * 2.0**-23, dtype=np.float32)
