"""Candidates for the steps of a text, with their similarity in each channel.

A step is compared in two ways: sentence by sentence, where the mean and the best sentence count equally, and
after the title of its text, which tells from which book the step is.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from limner.arrays import FloatArray, unit_rows
from limner.errors import NumericsError
from limner.language import has_words
from limner.match.calibration import Calibration
from limner.match.cast import sentences
from limner.store.search import COSINE, Channel, EncodedChannel, Index
from limner.store.vectors import BoolArray, Gallery

IntArray = NDArray[np.int64]
Float64Array = NDArray[np.float64]

TITLED = ("captions", "multilingual")
"""Channels that also read the steps with the title of their text."""
RELATION = "relation"
"""Channel of a relation, which re-ranks candidates but retrieves none."""
SHY = 0.5
"""Number added to the expected number of pictures when agreement is averaged, so that little evidence counts
little.
"""
MANY, FEW, SHARED = 256, 16, 8
"""Number of steps whose candidates are compared at once: `MANY` if all candidates together are at most
`SHARED` times the candidates of one step, else `FEW`.
"""


@dataclass(frozen=True)
class QueryTexts:
    """The texts that are compared with pictures, by step.

    Attributes:
        parts: the sentences of each step; the step itself if it is one sentence.
        titled: each step with the title of its text before it; empty without a title, or with a single step.
        languages: ISO 639 code of each step; None if every channel can read all steps.
        written: each step as its author wrote it, for a channel that reads all steps together as one story;
            if empty, the parts are used.
    """

    parts: Sequence[Sequence[str]]
    titled: Sequence[str] = ()
    languages: Sequence[str] | None = None
    written: Sequence[str] = ()

    @classmethod
    def of(
        cls,
        spelled: Sequence[str],
        title: str = "",
        languages: Sequence[str] | None = None,
        written: Sequence[str] = (),
    ) -> QueryTexts:
        """Split the steps, in which names have been replaced, into the texts to compare."""
        titled = [f"{title}: {text}" for text in spelled] if title and len(spelled) > 1 else []
        return cls([sentences(text) or [text] for text in spelled], titled, languages, written or spelled)

    @property
    def worded(self) -> BoolArray:
        """Mask (S,) of the steps that have words, and not only punctuation or emoji."""
        return np.array([any(map(has_words, parts)) for parts in self.parts])

    def portions(self, channel: Channel) -> list[list[str]]:
        """Texts for a channel's encoder, in batches."""
        if channel.whole:
            return [list(self.written) or [" ".join(parts) for parts in self.parts]]
        read = channel.readable([own[0] for own in self.parts], self.languages)
        texts = [text for own, one in zip(self.parts, read, strict=True) if one for text in own]
        if channel.name in TITLED:
            texts += [text for text, one in zip(self.titled, read, strict=False) if one]
        return channel.portions(list(dict.fromkeys(texts)))


@dataclass(frozen=True)
class EncodedSteps:
    """The steps as encoded by one channel.

    Attributes:
        name, space: name and vector space of the channel.
        whole: (S, D) unit mean of the vectors of a step's sentences; zero if the channel cannot read it.
        parts: (n, D) vectors of a step's sentences, by step; (0, D) if there is only one or none can be read.
        titled: (S, D) vectors of the steps with their title; None without a title.
    """

    name: str
    space: str
    whole: FloatArray
    parts: Sequence[FloatArray]
    titled: FloatArray | None

    @classmethod
    def by(cls, channel: Channel, readings: QueryTexts) -> EncodedSteps:
        """Encode a text for a channel."""
        steps, dim = len(readings.parts), channel.encoder.dim
        none = np.zeros((0, dim), np.float32)
        portions = readings.portions(channel)
        made = [channel.encoder.encode_text(portion) for portion in portions]
        if channel.whole:
            return cls(channel.name, channel.space, made[0], [none] * steps, None)
        known: dict[str, FloatArray] = {}
        for portion, vectors in zip(portions, made, strict=True):
            known |= zip(portion, vectors, strict=True)
        whole, parts = np.zeros((steps, dim), np.float32), []
        for step, own in enumerate(readings.parts):
            vectors = np.stack([known[text] for text in own]) if own[0] in known else none
            parts.append(vectors if len(vectors) > 1 else none)
            if len(vectors):
                whole[step] = vectors.mean(axis=0)
        whole = unit_rows(channel.name, whole)
        titled = None
        if readings.titled and channel.name in TITLED:
            titled = np.stack([known.get(text, np.zeros(dim, np.float32)) for text in readings.titled])
        return cls(channel.name, channel.space, whole, parts, titled)

    @property
    def reads(self) -> BoolArray:
        """Mask (S,) of the steps that the channel can read."""
        return np.asarray(self.whole.any(axis=1))

    def search(self) -> EncodedChannel:
        """Query for the pictures nearest to each step."""
        return EncodedChannel(self.name, self.space, COSINE, self.whole)


@dataclass(frozen=True)
class ChannelSimilarity:
    """Similarity of the candidates in a channel, (S, K) each.

    Attributes:
        present: mask; True where the picture has the channel and the channel can read the step.
        cosine: mean of the cosines of the whole step and of its best sentence; 0 if not present, like all
            below.
        z: the cosine standardised over all pictures of the library, for this step.
        titled: increase of z when the step is encoded with the title.
        trust: number of standard deviations by which right pictures stand out in the channel.
    """

    present: BoolArray
    cosine: Float64Array
    z: Float64Array
    titled: Float64Array
    trust: Float64Array

    @classmethod
    def absent(cls, shape: tuple[int, ...]) -> ChannelSimilarity:
        """Values for a channel that no picture has."""
        return cls(np.zeros(shape, dtype=bool), *(np.zeros(shape) for _ in range(4)))

    @property
    def arrays(self) -> tuple[BoolArray, Float64Array, Float64Array, Float64Array, Float64Array]:
        """All fields, in the order of the constructor."""
        return self.present, self.cosine, self.z, self.titled, self.trust

    def filled(self, other: ChannelSimilarity) -> ChannelSimilarity:
        """Values of this channel, and of another one for pictures that lack it."""
        return ChannelSimilarity(
            self.present | other.present,
            np.where(self.present, self.cosine, other.cosine),
            np.where(self.present, self.z, other.z),
            np.where(self.present, self.titled, other.titled),
            np.where(self.present, self.trust, other.trust),
        )


@dataclass(frozen=True)
class Pool:
    """The candidates of all steps.

    Attributes:
        gallery: all pictures, or the retrieved ones of a library that is larger than memory.
        rows: (C,) gallery rows, ascending.
        groups: (C,) near-duplicate groups, numbered from 0.
        items: (S, K) candidate numbers of each step; 0 where `there` is False.
        there: (S, K) mask of the cells that have a candidate.
        channels: similarities by channel.
        available: number of pictures that could be shown.
        found: (S, K) mask of the candidates that were retrieved for the step itself, not added to all steps.
    """

    gallery: Gallery
    rows: IntArray
    groups: IntArray
    items: IntArray
    there: BoolArray
    channels: dict[str, ChannelSimilarity]
    available: int
    found: BoolArray

    def column(self, step: int, row: int) -> int:
        """Column of a gallery row in a step's list."""
        number = int(np.searchsorted(self.rows, row))
        return int(np.flatnonzero((self.items[step] == number) & self.there[step])[0])


def pool_of(
    index: Index,
    asked: Sequence[EncodedSteps],
    calibration: Calibration,
    *,
    count: int,
    extra: Sequence[int] = (),
    barred: BoolArray,
    known: Pool | None = None,
    fitting: Sequence[tuple[int, BoolArray]] = (),
) -> Pool:
    """Retrieve each step's candidates: the nearest pictures in every channel, and some that all steps share.

    Args:
        index: index of the pictures.
        asked: the steps as encoded by the channels.
        calibration: source of the typical mean and deviation of a text's cosines.
        count: number of nearest pictures in each channel.
        extra: gallery rows that are candidates of every step.
        barred: (M,) True for pictures that must not be shown.
        known: earlier candidates for the same arguments except `extra`; their similarities are reused.
        fitting: steps, each with a mask (M,) of pictures, the nearest of which are candidates too.
    Raises:
        NumericsError: a cosine is not finite.
    """
    steps, pictures = np.arange(len(asked[0].whole))[:, None], max(len(index.gallery), 1)
    # A cell is a pair of step and picture: step · M + row.
    if known is not None:
        found = (steps * pictures + known.rows[known.items])[known.found]
    else:
        near = [np.zeros(0, dtype=np.int64)]
        for one in asked:
            if not one.reads.any() or not index.held(one.space) or one.name == RELATION:
                continue
            missing = ~np.asarray(index.gallery.space(one.space).present)
            rows = index.search([one.search()], count, exclude=barred | missing).rows
            near.append((steps * pictures + rows)[one.reads].ravel())
            for at, fits in fitting:
                asking = replace(one, whole=one.whole[[at]]).search()
                rows = index.search([asking], count, exclude=barred | missing | ~fits).rows
                near.append(at * pictures + rows[0])
        found = _sorted(near)
    cells = _sorted([found, (steps * pictures + np.asarray(extra, dtype=np.int64)).ravel()])
    step, row = np.divmod(cells, pictures)
    listed = np.zeros(pictures, dtype=bool)
    listed[row] = True
    rows = np.flatnonzero(listed)
    lengths = np.bincount(step, minlength=len(steps))
    place = step, np.arange(len(cells)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    items = np.zeros((len(steps), max(lengths.tolist(), default=0)), dtype=np.int64)
    there, met = np.zeros(items.shape, dtype=bool), np.zeros(items.shape, dtype=bool)
    # Positions of the cells in flattened arrays, which are indexed several times as fast.
    flat = step * items.shape[1] + place[1]
    items.reshape(-1)[flat], there.reshape(-1)[flat] = (np.cumsum(listed) - 1)[row], True
    met.reshape(-1)[flat[np.searchsorted(cells, found)]] = True
    if known is not None and np.array_equal(rows, known.rows):
        groups = known.groups
    else:
        names = np.array([index.gallery.groups[row] for row in rows.tolist()])
        groups = np.unique(names, return_inverse=True)[1].astype(np.int64).reshape(len(rows))
    if known is None:
        channels = {one.name: _compared(index, one, calibration, rows, items, there) for one in asked}
    else:
        earlier = (steps * pictures + known.rows[known.items])[known.there]
        among = np.minimum(np.searchsorted(earlier, cells), max(len(earlier) - 1, 0))
        again = earlier[among] == cells if len(earlier) else np.zeros(len(cells), dtype=bool)
        old, before = flat[again], np.flatnonzero(known.there)[among[again]]
        new = tuple(part[~again] for part in place)
        channels = {}
        for one in asked:
            fresh = _compared(index, one, calibration, rows, items, there, new)
            for part, values in zip(fresh.arrays, known.channels[one.name].arrays, strict=True):
                part.reshape(-1)[old] = values.reshape(-1)[before]
            channels[one.name] = fresh
    available = index.pictures - int(np.count_nonzero(barred))
    return Pool(index.gallery, rows, groups, items, there, channels, available, met)


def _sorted(parts: Sequence[IntArray]) -> IntArray:
    """Sorted unique numbers of several lists; `np.unique` takes ten times as long for so many."""
    every = np.sort(np.concatenate(parts), kind="stable")  # a stable sort merges sorted parts
    return every[np.flatnonzero(np.diff(every, prepend=-1))]


def _compared(  # noqa: PLR0917
    index: Index,
    asked: EncodedSteps,
    calibration: Calibration,
    rows: IntArray,
    items: IntArray,
    there: BoolArray,
    cells: tuple[IntArray, ...] | None = None,
) -> ChannelSimilarity:
    """A channel's similarity to the candidates of every step, or only in some cells, given by steps and
    columns.
    """
    space = index.gallery.space(asked.space)
    vectors = space.vectors(rows)
    if cells is not None:
        if not len(cells[0]):
            return ChannelSimilarity.absent(items.shape)
        there = np.zeros_like(there)
        there[cells] = True
    present = there & np.asarray(space.present)[rows][items] & asked.reads[:, None]
    cosine, titled = np.zeros(items.shape), np.zeros(items.shape)
    for step in np.flatnonzero(there.any(axis=1)).tolist():
        columns = slice(None) if cells is None else np.flatnonzero(there[step])
        near = vectors[items[step, columns]]
        likeness = (near @ asked.whole[step]).astype(np.float64)
        if len(asked.parts[step]):
            likeness = (likeness + (near @ asked.parts[step].T).max(axis=1)) / 2
        cosine[step, columns] = likeness
        if asked.titled is not None:
            titled[step, columns] = near @ asked.titled[step]
    if not np.isfinite(cosine).all():
        raise NumericsError(f"channel {asked.name}: a cosine is not finite; index the pictures again")

    mean, std = calibration.steadied(asked.name, *space.moments.of_cosines(asked.whole), space.held)
    z = _standard(cosine, mean, std)
    raised = np.zeros(items.shape)
    if asked.titled is not None:
        moments = space.moments.of_cosines(asked.titled)
        raised = _standard(titled, *calibration.steadied(asked.name, *moments, space.held)) - z
    trust = np.broadcast_to(calibration.trust(asked.name, std)[:, None], items.shape)
    return ChannelSimilarity(present, *(np.where(present, one, 0.0) for one in (cosine, z, raised, trust)))


def _standard(values: Float64Array, mean: Float64Array, std: Float64Array) -> Float64Array:
    """Cosines (S, K) as standard scores of their step; 0 if the standard deviation is 0."""
    spread = std[:, None]
    return np.divide(values - mean[:, None], spread, out=np.zeros_like(values), where=spread > 0)


class ExpectedSimilarity:
    """Similarity of candidates to the pictures that the other steps are expected to show, in one space.

    With shares p of the candidates i of each step, W_ti = Σ over steps t′ ≠ t of p_t′i, and Z_ij the mean of
    the standard scores that the cosine of i and j has among all cosines of i and among all of j,
    a_tj = Σ_i W_ti Z_ij / (Σ_i W_ti + ½), over those i that are not near-duplicates of j. Z is linear in the
    vector of i, so that sums over i are sums of vectors.

    Source: docs/methods/storyboard.md §3.
    """

    def __init__(self, pool: Pool, space: str) -> None:
        """Prepare the vectors of the candidates.

        Args:
            pool: the candidates.
            space: gallery space that compares pictures.
        """
        held = pool.gallery.space(space)
        self._pool, self._vectors = pool, held.vectors(pool.rows)
        self._mean, std = held.moments.of_cosines(self._vectors)
        self._usable = np.asarray(held.present)[pool.rows] & (std > 0)
        self._inverse = np.divide(1.0, std, out=np.zeros_like(std), where=self._usable)
        self._one, self._other, near = _copies(pool.groups, self._vectors)
        self._alike = (
            (near - self._mean[self._one]) * self._inverse[self._one]
            + (near - self._mean[self._other]) * self._inverse[self._other]
        ) / 2

    @cached_property
    def _exact(self) -> Float64Array:
        """(C, D) vectors in float64, the precision of the sums."""
        return self._vectors.astype(np.float64)

    def over(self, pool: Pool) -> ExpectedSimilarity:
        """The same for another pool of the same pictures."""
        found = copy(self)
        found._pool = pool
        return found

    def of(self, shares: Float64Array) -> Float64Array:
        """Compute a (S, K) from the shares p (S, K), which are 0 in empty cells; a is 0 there and for
        pictures without a vector.

        Several steps are computed together, with a few products over all their candidates.
        """
        pool, usable, inverse = self._pool, self._usable, self._inverse
        few = len(pool.rows) <= SHARED * pool.items.shape[1]
        vectors = self._exact if few else self._vectors
        totals = np.bincount(pool.items.ravel(), weights=shares.ravel(), minlength=len(pool.rows))
        known: Float64Array = totals.astype(np.float64) * usable
        of_plain, of_scaled = known @ vectors, (known * inverse) @ vectors
        offset = self._mean * inverse
        found = np.zeros(pool.items.shape)
        together = MANY if few else FEW
        for first in range(0, len(found), together):
            steps = slice(first, first + together)
            listed = np.zeros(len(pool.rows), dtype=bool)
            listed[pool.items[steps]] = True
            numbers = np.flatnonzero(listed)  # (N,) candidates of these B steps
            every = len(numbers) == len(listed)
            place = pool.items[steps] if every else (np.cumsum(listed) - 1)[pool.items[steps]]  # (B, K)
            near, scale = vectors if few and every else vectors[numbers].astype(np.float64), inverse[numbers]
            shape = len(place), len(numbers)
            cells = (place + shape[1] * np.arange(shape[0])[:, None]).ravel()
            own = np.bincount(cells, weights=shares[steps].ravel(), minlength=shape[0] * shape[1])
            p: Float64Array = own.astype(np.float64).reshape(shape) * usable[numbers]  # (B, N)
            x, y = of_plain - p @ near, of_scaled - (p * scale) @ near  # (B, D)
            total = (known @ offset - p @ offset[numbers])[:, None]
            whole = (known.sum() - p.sum(axis=1))[:, None]
            agreed, scaled = y @ near.T, x @ near.T
            agreed -= total
            scaled -= self._mean[numbers] * whole
            scaled *= scale
            agreed += scaled
            agreed /= 2
            agreed -= self._copied(known, p, numbers)
            agreed *= usable[numbers] / (np.maximum(whole, 0.0) + SHY)
            found[steps] = np.take_along_axis(agreed, place, axis=1)
        return found * pool.there

    def _copied(self, known: Float64Array, p: Float64Array, numbers: IntArray) -> Float64Array:
        """(B, N) part of the sum that is due to the pictures themselves and their near-duplicates, for B
        steps.

        Args:
            known: (C,) shares of the candidates, summed over all steps.
            p: (B, N) shares within the B steps themselves.
            numbers: (N,) candidate numbers of the pictures.
        """
        everyone = len(known)
        weights = np.broadcast_to(known, (len(p), everyone)).copy()
        weights[:, slice(None) if len(numbers) == everyone else numbers] -= p
        found = (weights if len(numbers) == everyone else weights[:, numbers]) * self._alike[numbers]
        if len(self._one) > everyone:
            one, other, alike = (part[everyone:] for part in (self._one, self._other, self._alike))
            for step, own in enumerate(weights):
                found[step] += np.bincount(other, weights=own[one] * alike, minlength=everyone)[numbers]
        return found


def _copies(groups: IntArray, vectors: FloatArray) -> tuple[IntArray, IntArray, FloatArray]:
    """All ordered pairs of candidates within near-duplicate groups, first each candidate with itself, and
    their cosines.
    """
    order = np.argsort(groups, kind="stable")
    bounds = np.flatnonzero(np.diff(groups[order], prepend=-1, append=-1))
    several = np.flatnonzero(np.diff(bounds) > 1)
    everyone = np.arange(len(groups))
    one, other, near = [everyone], [everyone], [np.einsum("nd,nd->n", vectors, vectors)]
    for place in several:
        own = order[bounds[place] : bounds[place + 1]]
        left, right = np.repeat(own, len(own)), np.tile(own, len(own))
        one.append(left[left != right])
        other.append(right[left != right])
        # one matrix product: the vectors of all pairs would take gigabytes for a burst of some thousand
        # pictures
        near.append((vectors[own] @ vectors[own].T).ravel()[left != right])
    return np.concatenate(one), np.concatenate(other), np.concatenate(near)
