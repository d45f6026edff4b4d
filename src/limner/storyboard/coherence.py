"""Visual coherence as a pair term: how alike two pictures look, in nats.

The cosine of two pictures is standardised against the whole gallery from both sides and averaged
(symmetric score normalisation), then calibrated like a channel. A learned metric or a scene-graph
similarity replaces this class by offering the same `block`.
"""

from __future__ import annotations

from copy import copy

import numpy as np
from pydantic import Field

from limner.arrays import FloatArray, scores
from limner.library.channels import Evidence
from limner.library.gallery import Gallery
from limner.library.search import Index
from limner.records import Record
from limner.storyboard.lattice import Float64Array, IntArray, Pairwise

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
        index: of the gallery.
        space: gallery space that compares pictures, such as ``visual``.
        rows: (C,) rows of the gallery, all different.
        evidence: how the cosine becomes nats.
        weight: times the evidence; 0 switches the term off.
    Raises:
        DataError: the gallery has no such space.
    """

    def __init__(self, index: Index, space: str, rows: IntArray, evidence: Evidence, weight: float) -> None:
        stored = index.gallery.space(space)
        self._vectors = stored.vectors(rows)
        self._present = np.asarray(stored.present[rows])
        self._groups = groups_of(index.gallery, rows)
        self._weight = weight
        # Of both candidates: nats = (gain + gain) · cosine + shift + shift.
        mean = std = np.zeros(len(rows))
        if evidence.z_slope != 0:
            mean, std = stored.moments.of_cosines(self._vectors)
        standard = evidence.z_slope / 2 * np.divide(1.0, std, out=np.zeros_like(std), where=std > 0)
        self._gain = evidence.slope / 2 + standard
        self._shift = evidence.offset / 2 - standard * mean
        self._ceiling: Float64Array = np.full(len(rows), np.nan)

    def block(self, rows: IntArray, columns: IntArray) -> Float64Array:
        """Candidate numbers (R,) and (Q,) → (R, Q) nats."""
        if self._weight == 0:
            return np.zeros((len(rows), len(columns)))
        nats = self._raw(rows, columns)
        i, j = _alike(self._groups[rows], self._groups[columns])
        if len(i):
            self._note(nats, rows, columns, i, j)
            nats[i, j] = np.minimum(self._ceilings(rows[i]), self._ceilings(columns[j]))
        nats *= self._weight
        return nats

    @property
    def lowest(self) -> float:
        """Nats that one picture takes off another at the most: weight · log(1 − ρ)."""
        return float(self._weight * np.log1p(-MIXING))

    def weighing(self, weight: float) -> CosinePairwise:
        """The same pictures with another weight; what is known of them is shared."""
        twin = copy(self)
        twin._weight = weight
        return twin

    def _note(self, nats: Float64Array, rows: IntArray, columns: IntArray, i: IntArray, j: IntArray) -> None:
        """Keep the ceilings that a block over all candidates shows."""
        whole = np.arange(len(self._vectors))
        nats[i, j] = -np.inf
        for one, other, axis in ((columns, rows, 0), (rows, columns, 1)):
            if np.array_equal(other, whole):
                best = nats.max(axis=axis)
                self._ceiling[one] = np.where(np.isfinite(best), best, 0.0)
                return

    def _raw(self, rows: IntArray, columns: IntArray) -> Float64Array:
        """The same with weight 1, near-duplicates not held down; summed a few rows at a time in the cache."""
        cosines = scores(self._vectors[rows], self._vectors[columns])
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
        nats[~self._present[rows]] = 0.0
        nats[:, ~self._present[columns]] = 0.0
        return nats

    def _ceilings(self, numbers: IntArray) -> Float64Array:
        """Term of the closest candidate of another group with each of some; 0 where there is none."""
        everything = np.arange(len(self._vectors))
        due = np.unique(numbers[np.isnan(self._ceiling[numbers])])
        for start in range(0, len(due), BLOCK_ROWS):
            rows = due[start : start + BLOCK_ROWS]
            nats = self._raw(rows, everything)
            nats[_alike(self._groups[rows], self._groups)] = -np.inf
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


CONSIDERED = 16
"""Best pictures of each step whose agreement with those of the other steps is looked at."""


class Curve(Record):
    """A weight between 0 and `largest`: largest / (1 + exp(−(offset + Σ slope · feature))).

    Attributes:
        largest: the weight is below it.
        offset: log-odds at features of 0.
        ambiguity: per unit of `Reading.ambiguity`.
        agreement: per nat of `Reading.agreement`.
    """

    largest: float = Field(ge=0)
    offset: float = 0.0
    ambiguity: float = 0.0
    agreement: float = 0.0

    def weight(self, reading: Reading) -> float:
        """The weight for one text, 0 to `largest`."""
        odds = self.offset + self.ambiguity * reading.ambiguity + self.agreement * reading.agreement
        return float(self.largest / (1 + np.exp(-np.clip(odds, -500, 500))))


class Reading(Record):
    """What the plain reading of a text's steps says of how coherent they are.

    Attributes:
        ambiguity: mean over the steps of the entropy of which picture is meant, as a share of the largest
            there can be: 0 where one picture stands out everywhere, 1 where all are alike.
        agreement: mean over pairs of steps of the expected evidence of their pictures for each other, in
            nats; 0 with one step.
    """

    ambiguity: float
    agreement: float


class Coherence(Record):
    """The calibrated weights of both kinds of coherence.

    Attributes:
        context: of a step read with its whole text, against the step read alone; 0 to 1.
        pair: of the evidence of two pictures for each other.
    """

    context: Curve
    pair: Curve

    def weights(self, reading: Reading) -> tuple[float, float]:
        """Weights of context and of pictures for each other, for one text."""
        return self.context.weight(reading), self.pair.weight(reading)


def read(unary: Float64Array, items: IntArray, groups: IntArray, pair: Pairwise, available: int) -> Reading:
    """Ambiguity and agreement of a text.

    Args:
        unary: (S, K) nats of each step read alone; −inf where the cell is empty.
        items: (S, K) candidate numbers.
        groups: (C,) near-duplicate groups; pictures of one group say nothing about agreement.
        pair: what candidates say for each other, with weight 1.
        available: pictures searched, of which the candidates are the best.
    """
    width = unary.shape[1]
    full = np.flatnonzero((unary > -np.inf).any(axis=1))
    if not len(full):
        return Reading(ambiguity=0.0, agreement=0.0)
    shares = np.exp(unary[full] - unary[full].max(axis=1, keepdims=True))
    shares /= shares.sum(axis=1, keepdims=True)
    logs = np.log(shares, out=np.zeros_like(shares), where=shares > 0)
    ambiguity = float(-(shares * logs).sum(axis=1).mean()) / np.log(max(available, 2))
    if len(full) < 2:
        return Reading(ambiguity=ambiguity, agreement=0.0)
    kept = min(CONSIDERED, width)
    best = np.argpartition(-shares, kept - 1, axis=1)[:, :kept]
    numbers, where = np.unique(np.take_along_axis(items[full], best, axis=1), return_inverse=True)
    weights = np.zeros((len(full), len(numbers)))
    rows = np.repeat(np.arange(len(full)), kept)
    np.add.at(weights, (rows, where.ravel()), np.take_along_axis(shares, best, axis=1).ravel())
    weights /= weights.sum(axis=1, keepdims=True)
    other = groups[numbers][:, None] != groups[numbers]
    evidence = np.where(other, pair.block(numbers, numbers), 0.0)
    upper = np.triu_indices(len(full), 1)
    met = (weights @ other @ weights.T)[upper]
    total = (weights @ evidence @ weights.T)[upper]
    expected = np.divide(total, met, out=np.zeros_like(total), where=met > 1e-9)
    return Reading(ambiguity=ambiguity, agreement=float(expected.mean()))
