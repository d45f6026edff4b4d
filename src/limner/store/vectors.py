"""Vectors on disk, one file a space with a row for every number, and the vectors of a search.

Files only grow: rows are written in the order of their numbers by ordinary writes, and readers map the rows
up to the last valid one, which the database states.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from limner.arrays import FloatArray, expect
from limner.errors import DataError, NumericsError, unknown
from limner.files import storing, sync_folder

BoolArray = NDArray[np.bool_]
IntArray = NDArray[np.int64]
Float64Array = NDArray[np.float64]
BLOCK_ROWS = 16_384
"""Number of rows read at a time."""
SAMPLED = 16_384
"""Number of vectors from which the moments of a larger space are computed."""
FEW_TEXTS = 64
"""Number of texts up to which products are computed on one core."""
SMALLEST_STD = 1e-6
"""Standard deviation of a text's cosines below which they are equal up to rounding, and it counts as 0."""


@dataclass(frozen=True)
class VectorFile:
    """The file of one space: (rows, dim) float32, row 0 unused.

    Attributes:
        path: the file.
        dim: D.
    """

    path: Path
    dim: int

    def write(self, rows: Sequence[int], vectors: FloatArray) -> None:
        """Write vectors (R, D) at ascending rows, and flush them to the disk.

        Raises:
            StorageError: the disk is full or cannot be written.
            NumericsError: a vector is not finite.
        """
        if not np.isfinite(vectors).all():
            raise NumericsError(
                f"{self.path.stem}: a vector is not finite; check the picture and the encoder"
            )
        with storing(self.path, vectors.nbytes):
            new = not self.path.exists()
            self.path.parent.mkdir(exist_ok=True)
            with self.path.open("ab") as file:
                if not file.tell():  # a file with a hole cannot be mapped on a full disk
                    file.write(bytes(self.dim * 4))
            starts = np.flatnonzero(np.diff(rows, prepend=-2) != 1).tolist()
            with self.path.open("r+b") as file:
                for start, end in zip(starts, [*starts[1:], len(rows)], strict=True):
                    file.seek(rows[start] * self.dim * 4)
                    file.write(np.ascontiguousarray(vectors[start:end], "<f4").data)
                file.flush()
                os.fsync(file.fileno())
            for folder in (self.path.parent, self.path.parent.parent) if new else ():
                sync_folder(folder)

    def read(self, upto: int) -> FloatArray:
        """Map the rows 0 to `upto`.

        Raises:
            DataError: the file is shorter.
        """
        if not upto:
            return np.zeros((1, self.dim), np.float32)
        try:
            return np.memmap(self.path, "<f4", "r", shape=(upto + 1, self.dim))
        except (OSError, ValueError) as error:
            raise DataError(
                f"{self.path}: missing or too short; 'limner library --anew' removes what can be computed,"
                " and 'limner index' makes it again"
            ) from error


@dataclass(frozen=True)
class Space:
    """Vectors of one space for M pictures.

    Attributes:
        matrix: (R, D) float32 rows of length 1, often memory-mapped; 0 where there is no vector.
        fingerprint: fingerprint of the encoder that made them.
        rows: (M,) row of each picture, where an absent one is a row of zeros; None if R = M and picture m has
            row m.
    """

    matrix: FloatArray
    fingerprint: str = ""
    rows: IntArray | None = field(default=None, repr=False)

    def __len__(self) -> int:
        """M."""
        return len(self.matrix) if self.rows is None else len(self.rows)

    def vectors(self, rows: Sequence[int] | IntArray) -> FloatArray:
        """Copies (K, D) of the vectors of some pictures, zero for those without one."""
        places = np.asarray(rows, dtype=np.int64)
        return np.array(self.matrix[places if self.rows is None else self.rows[places]], np.float32)

    def cosines(self, texts: FloatArray) -> FloatArray:
        """Cosines (N, M) of unit texts (N, D) with all pictures; 0 for those without a vector."""
        found: FloatArray = np.matmul(texts, np.asarray(self.matrix).T)
        return found if self.rows is None else np.take(found, self.rows, axis=1)

    @cached_property
    def present(self) -> BoolArray:
        """(M,) True for pictures that have a vector."""
        held = np.zeros(len(self.matrix), dtype=bool)
        for start in range(0, len(self.matrix), BLOCK_ROWS):
            held[start : start + BLOCK_ROWS] = self.matrix[start : start + BLOCK_ROWS].any(axis=1)
        return held if self.rows is None else held[self.rows]

    @cached_property
    def moments(self) -> Moments:
        """Moments of the existing vectors; of more than `SAMPLED`, of as many at equal distances.

        The standard deviation of a text's cosines is then known to half a percent.

        Raises:
            NumericsError: a vector is not finite.
        """
        held = np.flatnonzero(self.present)
        if len(held) > SAMPLED:
            held = held[np.linspace(0, len(held) - 1, SAMPLED).astype(np.int64)]
        return Moments.of(self.vectors(held))

    @cached_property
    def held(self) -> int:
        """Number of pictures that have a vector."""
        return int(np.count_nonzero(self.present))


@dataclass(frozen=True)
class Gallery:
    """M pictures and their vectors.

    Attributes:
        ids: M picture ids, all different.
        groups: M near-duplicate groups, as ids or numbers.
        spaces: vectors by name of the space.
    """

    ids: Sequence[str]
    groups: Sequence[str] | IntArray
    spaces: dict[str, Space]

    def __len__(self) -> int:
        """Number M of pictures."""
        return len(self.ids)

    def space(self, name: str) -> Space:
        """Vectors of one space.

        Raises:
            DataError: the gallery has no such space.
        """
        if name not in self.spaces:
            raise DataError("gallery: " + unknown("space", name, self.spaces))
        return self.spaces[name]

    def rows(self, ids: Iterable[str]) -> IntArray:
        """Rows (K,) of pictures; −1 for unknown ones."""
        return np.array([self._places.get(one, -1) for one in ids], dtype=np.int64)

    def of(self, ids: Sequence[str]) -> Gallery:
        """Some of the pictures, in this order, with copies of their vectors.

        Raises:
            DataError: a picture is unknown.
        """
        rows = self.rows(ids)
        if (rows < 0).any():
            raise DataError(f"gallery: no picture {ids[int(np.argmin(rows))]} in the library")
        spaces = {name: Space(space.vectors(rows), space.fingerprint) for name, space in self.spaces.items()}
        return Gallery(list(ids), np.asarray(self.groups)[rows], spaces)

    @cached_property
    def _places(self) -> dict[str, int]:
        return {one: row for row, one in enumerate(self.ids)}


@dataclass(frozen=True)
class Moments:
    """First two moments of vectors.

    Attributes:
        mean: (D,) mean.
        covariance: (D, D) covariance; the divisor is the number of vectors.
    """

    mean: Float64Array
    covariance: Float64Array

    @classmethod
    def of(cls, vectors: FloatArray) -> Moments:
        """Moments of (M, D) float32 vectors; zeros if there are none.

        Raises:
            NumericsError: a vector is not finite.
        """
        count = max(len(vectors), 1)
        mean = np.asarray(vectors.sum(axis=0, dtype=np.float64) / count)
        if not np.isfinite(mean).all():
            raise NumericsError("space: a vector is not finite; run 'limner library --check'")
        centred = vectors - mean.astype(np.float32)
        rest = np.asarray(centred.mean(axis=0, dtype=np.float64)) if len(vectors) else mean
        covariance = (centred.T @ centred).astype(np.float64) / count - np.outer(rest, rest)
        return cls(mean, covariance)

    def of_cosines(self, texts: FloatArray) -> tuple[Float64Array, Float64Array]:
        """Mean and standard deviation of each text's cosines over the vectors.

        Args:
            texts: (N, D) rows of unit length.
        Returns:
            (N,) means and (N,) standard deviations; a deviation within rounding errors is 0.
        """
        expect("moments.of_cosines", texts=(texts, "N D"), mean=(self.mean, "D"))
        exact = texts.astype(np.float64)
        std = np.sqrt(np.maximum(np.einsum("nd,nd->n", exact @ self.covariance, exact), 0.0))
        return exact @ self.mean, np.where(std < SMALLEST_STD, 0.0, std)
