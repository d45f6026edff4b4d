"""Visual coherence as a pair term: how alike two pictures look, in nats.

The cosine of two pictures is standardised against the whole gallery from both sides and averaged
(symmetric score normalisation), then calibrated like a channel. A learned metric or a scene-graph
similarity replaces this class by offering the same `block`.
"""

from functools import cached_property

import numpy as np

from limner.retrieval.channels import Evidence
from limner.retrieval.gallery import BoolArray
from limner.retrieval.index import Index
from limner.retrieval.lattice import Float64Array, IntArray
from limner.shapes import expect
from limner.similarity import FloatArray, scores

BLOCK_ROWS = 1_024


class CosinePull:
    """Evidence from the cosine of two candidates, times a weight; 0 where either has no vector.

    Two pictures of one near-duplicate group would agree perfectly without saying anything about
    the story, so their pull is that of the closest picture of another group, the lower of the two.

    Args:
        vectors: (C, D) float32 rows of unit length.
        present: (C,) True where the candidate has a vector.
        groups: (C,) near-duplicate groups.
        evidence: how the cosine becomes nats.
        weight: times the evidence; 0 switches the pull off.
        mean: (C,) mean cosine of each candidate with the gallery.
        std: (C,) its standard deviation.
    """

    def __init__(
        self,
        vectors: FloatArray,
        *,
        present: BoolArray,
        groups: IntArray,
        evidence: Evidence,
        weight: float,
        mean: Float64Array,
        std: Float64Array,
    ) -> None:
        expect(
            "CosinePull",
            vectors=(vectors, "C D"),
            present=(present, "C"),
            groups=(groups, "C"),
            mean=(mean, "C"),
            std=(std, "C"),
        )
        self._vectors, self._present, self._groups = vectors, present, groups
        self._evidence, self._weight, self._mean = evidence, weight, mean
        self._inverse = np.divide(1.0, std, out=np.zeros_like(std), where=std > 0)

    @classmethod
    def of(cls, index: Index, space: str, rows: IntArray, evidence: Evidence, weight: float) -> "CosinePull":
        """Pull between rows of a gallery.

        Args:
            index: of the gallery.
            space: gallery space that compares pictures, such as ``visual``.
            rows: (C,) rows of the gallery, all different.
            evidence: how the cosine becomes nats.
            weight: times the evidence.
        Raises:
            DataError: the gallery has no such space.
        """
        stored = index.gallery.space(space)
        vectors = np.asarray(stored.matrix[rows], dtype=np.float32)
        names = np.array([index.gallery.groups[row] for row in rows], dtype=str)
        groups = np.unique(names, return_inverse=True)[1] if len(names) else np.zeros(0, dtype=np.int64)
        if evidence.z_slope == 0:
            mean = std = np.zeros(len(rows))
        else:
            mean, std = index.moments(space).of_cosines(vectors)
        return cls(
            vectors,
            present=np.asarray(stored.present[rows]),
            groups=groups,
            evidence=evidence,
            weight=weight,
            mean=mean,
            std=std,
        )

    def block(self, rows: IntArray, columns: IntArray) -> Float64Array:
        """Candidate numbers (R,) and (Q,) → (R, Q) nats."""
        nats = self._raw(rows, columns)
        alike = self._groups[rows][:, None] == self._groups[columns]
        if alike.any():
            capped = np.minimum(self._ceiling[rows][:, None], self._ceiling[columns])
            nats = np.where(alike, capped, nats)
        return nats

    def _raw(self, rows: IntArray, columns: IntArray) -> Float64Array:
        cosines = scores(self._vectors[rows], self._vectors[columns]).astype(np.float64)
        left = (cosines - self._mean[rows][:, None]) * self._inverse[rows][:, None]
        right = (cosines - self._mean[columns]) * self._inverse[columns]
        evidence = self._evidence
        nats = evidence.slope * cosines + evidence.z_slope * (left + right) / 2 + evidence.offset
        both = self._present[rows][:, None] & self._present[columns]
        return np.where(both, self._weight * nats, 0.0)

    @cached_property
    def _ceiling(self) -> Float64Array:
        """(C,) pull of the closest candidate of another group; 0 where there is none."""
        everything = np.arange(len(self._vectors))
        ceiling = np.zeros(len(everything))
        for start in range(0, len(everything), BLOCK_ROWS):
            rows = everything[start : start + BLOCK_ROWS]
            other = self._groups[rows][:, None] != self._groups
            best = np.where(other, self._raw(rows, everything), -np.inf).max(axis=1)
            ceiling[rows] = np.where(np.isfinite(best), best, 0.0)
        return ceiling
