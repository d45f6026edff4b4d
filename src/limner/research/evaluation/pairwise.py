"""The pair term of the decoders: how alike two pictures of one storyboard are, in nats.

The cosine of two pictures is standardised against the whole gallery from both sides and averaged
(symmetric score normalisation), then weighed like a channel. A learned metric or a scene-graph
similarity replaces this class by offering the same `block`.
"""

from __future__ import annotations

import numpy as np

from limner.arrays import FloatArray, scores
from limner.research.evaluation.lattice import Float64Array, IntArray
from limner.store.search import Evidence, Index
from limner.store.vectors import Gallery

BLOCK_ROWS = 1_024
LARGEST_EXPONENT = 80.0
"""Nats whose exponential float32 holds."""
CELLS = 131_072
"""Pair scores worked out together: they should fit a core's cache."""

MIXING = 0.9
"""Share of pictures of one story that are taken to be alike."""


class CosinePairwise:
    """Evidence from the cosine of two candidates, times a weight; 0 where either has no vector.

    The evidence is log(1 − ρ + ρ · exp(nats)) with ρ = `MIXING`: two pictures that look different may belong
    together all the same, so likeness says much for a picture and little against it. Two pictures of one
    near-duplicate group would agree perfectly without saying anything about the story, so their term is that
    of the closest picture of another group, the lower of the two.

    Args:
        index: index of the gallery.
        space: gallery space that compares pictures, such as ``visual``.
        rows: (C,) rows of the gallery, all different.
        evidence: how the cosine becomes nats.
        weight: times the evidence; 0 switches the term off.
    Attributes:
        vectors: (C, L) unit rows.
        present: (C,) True where there is a vector.
        groups: (C,) near-duplicate groups.
        weight: see above.
    Raises:
        DataError: the gallery has no such space.
    Source: docs/methods/evaluation.md §11.2.
    """

    def __init__(self, index: Index, space: str, rows: IntArray, evidence: Evidence, weight: float) -> None:
        stored = index.gallery.space(space)
        self.vectors = stored.vectors(rows)
        self.present = np.asarray(stored.present[rows])
        self.groups = groups_of(index.gallery, rows)
        self.weight = weight
        # Of both candidates: nats = (gain + gain) · cosine + shift + shift.
        mean = std = np.zeros(len(rows))
        if evidence.z_slope != 0:
            mean, std = stored.moments.of_cosines(self.vectors)
        standard = evidence.z_slope / 2 * np.divide(1.0, std, out=np.zeros_like(std), where=std > 0)
        self._gain = evidence.slope / 2 + standard
        self._shift = evidence.offset / 2 - standard * mean
        self._ceiling: Float64Array = np.full(len(rows), np.nan)

    def block(self, rows: IntArray, columns: IntArray) -> Float64Array:
        """Candidate numbers (R,) and (Q,) → (R, Q) nats."""
        if self.weight == 0:
            return np.zeros((len(rows), len(columns)))
        nats = self._raw(rows, columns)
        i, j = _alike(self.groups[rows], self.groups[columns])
        if len(i):
            self._note(nats, rows, columns, i, j)
            nats[i, j] = np.minimum(self._ceilings(rows[i]), self._ceilings(columns[j]))
        nats *= self.weight
        return nats

    def _note(self, nats: Float64Array, rows: IntArray, columns: IntArray, i: IntArray, j: IntArray) -> None:
        """Keep the ceilings that a block over all candidates shows."""
        whole = np.arange(len(self.vectors))
        nats[i, j] = -np.inf
        for one, other, axis in ((columns, rows, 0), (rows, columns, 1)):
            if np.array_equal(other, whole):
                best = nats.max(axis=axis)
                self._ceiling[one] = np.where(np.isfinite(best), best, 0.0)
                return

    def _raw(self, rows: IntArray, columns: IntArray) -> Float64Array:
        """The same with weight 1, near-duplicates not held down; summed a few rows at a time in the cache."""
        cosines = scores(self.vectors[rows], self.vectors[columns])
        nats = np.empty(cosines.shape)
        # A cosine is at most 1; float32 holds the exponential of all but absurd settings.
        most = 2 * (np.abs(self._gain).max(initial=0.0) + np.abs(self._shift).max(initial=0.0))
        kind = np.dtype(np.float32 if most < LARGEST_EXPONENT else np.float64)
        left, right = (self._gain[part].astype(kind) for part in (rows, columns))
        own, other = (self._shift[part].astype(kind) for part in (rows, columns))
        size = max(1, CELLS // max(1, len(columns)))
        for start in range(0, len(rows), size):
            some = slice(start, start + size)
            part: FloatArray | Float64Array = left[some, None] + right
            np.multiply(part, cosines[some], out=part)
            np.add(part, own[some, None], out=part)
            np.add(part, other, out=part)
            np.exp(part, out=part)
            np.multiply(part, MIXING, out=part)
            np.add(part, 1 - MIXING, out=part)
            nats[some] = np.log(part, out=part)
        nats[~self.present[rows]] = 0.0
        nats[:, ~self.present[columns]] = 0.0
        return nats

    def _ceilings(self, numbers: IntArray) -> Float64Array:
        """Term of the closest candidate of another group with each of some; 0 if there is none."""
        everything = np.arange(len(self.vectors))
        due = np.unique(numbers[np.isnan(self._ceiling[numbers])])
        for start in range(0, len(due), BLOCK_ROWS):
            rows = due[start : start + BLOCK_ROWS]
            nats = self._raw(rows, everything)
            nats[_alike(self.groups[rows], self.groups)] = -np.inf
            best = nats.max(axis=1)
            self._ceiling[rows] = np.where(np.isfinite(best), best, 0.0)
        return self._ceiling[numbers]


def groups_of(gallery: Gallery, rows: IntArray) -> IntArray:
    """(C,) near-duplicate groups of rows of a gallery, numbered from 0."""
    names = np.array([gallery.groups[row] for row in rows.tolist()])
    return np.unique(names, return_inverse=True)[1].astype(np.int64)


def _alike(rows: IntArray, columns: IntArray) -> tuple[IntArray, IntArray]:
    """Where groups (R,) and (Q,) are the same: indices of rows and of columns."""
    order = np.argsort(columns, kind="stable")
    ordered = columns[order]
    first = np.searchsorted(ordered, rows, side="left")
    counts = np.searchsorted(ordered, rows, side="right") - first
    i = np.repeat(np.arange(len(rows)), counts)
    ahead = np.arange(len(i)) - np.repeat(np.cumsum(counts) - counts, counts)
    return i, order[first[i] + ahead]
