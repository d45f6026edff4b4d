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
from limner.library.scan import BoolArray
from limner.library.search import Index
from limner.records import Record
from limner.storyboard.lattice import Float64Array, IntArray, Pairwise

BLOCK_ROWS = 1_024
LARGEST_EXPONENT = 80.0
"""Nats whose exponential float32 holds."""
CELLS = 131_072
"""Pair scores worked out together: they should fit a core's cache."""

STEPS, LEAST_STEP = 64, 1e-7
"""Pictures that a walk can go on to from each, and what is no longer added up."""
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
    Attributes:
        vectors: (C, L) unit rows.
        present: (C,) True where there is a vector.
        groups: (C,) near-duplicate groups.
        weight: see above.
    Raises:
        DataError: the gallery has no such space.
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

    @property
    def lowest(self) -> float:
        """Nats that one picture takes off another at the most: weight · log(1 − ρ)."""
        return float(self.weight * np.log1p(-MIXING))

    def weighing(self, weight: float) -> CosinePairwise:
        """The same pictures with another weight; what is known of them is shared."""
        twin = copy(self)
        twin.weight = weight
        return twin

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
        """Term of the closest candidate of another group with each of some; 0 where there is none."""
        everything = np.arange(len(self.vectors))
        due = np.unique(numbers[np.isnan(self._ceiling[numbers])])
        for start in range(0, len(due), BLOCK_ROWS):
            rows = due[start : start + BLOCK_ROWS]
            nats = self._raw(rows, everything)
            nats[_alike(self.groups[rows], self.groups)] = -np.inf
            best = nats.max(axis=1)
            self._ceiling[rows] = np.where(np.isfinite(best), best, 0.0)
        return self._ceiling[numbers]


class Walk(Record):
    """How likeness to a fixed picture spreads.

    Attributes:
        temperature: of the softmax over the cosines of a picture with the others, which are its steps.
        stay: share of walks that go on after each step.
        weight: times the weight that the cosine has; walks are wrong less often.
    """

    temperature: float = Field(gt=0, allow_inf_nan=False)
    stay: float = Field(ge=0, lt=1)
    weight: float = Field(default=1.0, gt=0, allow_inf_nan=False)


class WalkedPairwise:
    """As `CosinePairwise`, but what a fixed picture and another say for each other comes from walks.

    A walk leads from picture to picture that looks alike, so that what looks like a picture that looks like
    the fixed one gains as well. The evidence is ln of the share of walks that reach a picture, against equal
    shares; as there, it says much for a picture and little against it.

    Source: Zhou et al. 2004, Ranking on Data Manifolds; docs/methods/storyboard.md §3.
    """

    def __init__(self, plain: CosinePairwise, fixed: IntArray, walk: Walk) -> None:
        """Walk from each fixed picture.

        Args:
            plain: of all candidates.
            fixed: (P,) candidate numbers.
            walk: how far.
        """
        self._plain, self._times = plain, walk.weight
        fixed = np.unique(fixed)
        self._place = np.full(len(plain.present), -1)
        self._place[fixed] = np.arange(len(fixed))
        reached = walks(plain.vectors, plain.present, plain.groups, fixed, walk)
        others = plain.present & (self._place < 0)
        totals = reached[:, others].sum(axis=1, keepdims=True)
        share = np.divide(reached, totals, out=np.zeros_like(reached), where=totals > 0)
        self._nats = np.log(1 - MIXING + MIXING * share * np.count_nonzero(others))
        self._nats[:, ~plain.present] = 0.0
        self._nats[~plain.present[fixed]] = 0.0

    @property
    def lowest(self) -> float:
        """As of `CosinePairwise`, of either evidence."""
        return self._plain.lowest * max(self._times, 1.0)

    def block(self, rows: IntArray, columns: IntArray) -> Float64Array:
        """Candidate numbers (R,) and (Q,) → (R, Q) nats; two fixed pictures as of `CosinePairwise`."""
        nats = self._plain.block(rows, columns)
        left, right = self._place[rows], self._place[columns]
        weight = self._plain.weight * self._times
        for row in np.flatnonzero(left >= 0):
            nats[row, right < 0] = weight * self._nats[left[row], columns[right < 0]]
        for column in np.flatnonzero(right >= 0):
            nats[left < 0, column] = weight * self._nats[right[column], rows[left < 0]]
        return nats

    def weighing(self, weight: float) -> WalkedPairwise:
        """The same walks with another weight."""
        twin = copy(self)
        twin._plain = self._plain.weighing(weight)
        return twin


def walks(
    vectors: FloatArray, present: BoolArray, groups: IntArray, fixed: IntArray, walk: Walk
) -> Float64Array:
    """What walks of all lengths from some pictures bring to each.

    With W the softmax of a picture's cosines over the temperature, M = (W + Wᵀ) / 2 and S_pq = M_pq /
    √(Σ_r M_pr · Σ_r M_qr), it is Σₙ stayⁿ Sⁿ from the fixed pictures. Each picture has steps to the `STEPS`
    that look most like it; none to its near-duplicates, which say nothing of others.

    Args:
        vectors: (C, L) unit rows.
        present: (C,) True where there is a vector.
        groups: (C,) near-duplicate groups.
        fixed: (P,) numbers of those to start from.
        walk: temperature and stay.
    Returns:
        (P, C) at least 0.
    """
    from scipy.sparse import csr_array, diags_array

    count, kept = len(vectors), min(STEPS, len(vectors))
    near = np.zeros((count, kept), dtype=np.int64)
    shares = np.zeros((count, kept))
    for start in range(0, count, BLOCK_ROWS):
        rows = np.arange(start, min(start + BLOCK_ROWS, count))
        cosines = scores(vectors[rows], vectors)
        cosines[:, ~present] = -np.inf
        cosines[_alike(groups[rows], groups)] = -np.inf
        best = np.argpartition(-cosines, kept - 1, axis=1)[:, :kept]
        logits = np.take_along_axis(cosines, best, axis=1).astype(np.float64) / walk.temperature
        logits[~present[rows]] = -np.inf
        most = logits.max(axis=1, keepdims=True)
        raised = np.exp(logits - np.where(np.isfinite(most), most, 0.0))
        total = raised.sum(axis=1, keepdims=True)
        near[rows], shares[rows] = best, raised / np.where(total > 0, total, 1.0)
    offsets = np.arange(count + 1) * kept
    steps = csr_array((shares.ravel(), near.ravel(), offsets), shape=(count, count))
    mutual = (steps + steps.T) / 2
    sums = np.asarray(mutual.sum(axis=1)).ravel()
    even = diags_array(1 / np.sqrt(np.where(sums > 0, sums, 1.0)))
    smooth = walk.stay * (even @ mutual @ even).tocsr()
    start_from = np.zeros((count, len(fixed)))
    start_from[fixed, np.arange(len(fixed))] = 1.0
    reached = term = start_from
    while term.size and term.max() > LEAST_STEP:
        term = smooth @ term
        reached = reached + term
    return np.asarray(reached.T)


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
