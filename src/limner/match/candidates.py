"""What the steps of a text are compared with: lists of pictures, and how well each channel likes them.

A step is read in two ways: sentence by sentence, of which the mean and the best count alike, and with the
title of its text before it, which tells what book a page is from.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from limner.arrays import FloatArray, unit_rows
from limner.errors import NumericsError
from limner.language import has_words
from limner.match.calibration import Calibration
from limner.match.cast import sentences
from limner.store.catalogue import BoolArray
from limner.store.channels import COSINE, Channel, EncodedChannel
from limner.store.search import Index
from limner.store.vectors import Gallery

IntArray = NDArray[np.int64]
Float64Array = NDArray[np.float64]

TITLED = ("captions", "multilingual")
"""Channels that read the steps with the title of their text as well."""
RELATION = "relation"
"""The channel of a relation, which prefers pictures and finds none."""
SHY = 0.5
"""Pictures that agreement is divided by beside the expected ones: of little that is known, little follows."""
MANY, FEW, SHARED = 256, 16, 8
"""Steps whose pictures are compared at once: many where all candidates are at most so many times a step's."""


@dataclass(frozen=True)
class Readings:
    """The words that are compared with pictures, per step.

    Attributes:
        parts: the sentences of each step; the step itself where it is one.
        titled: each step after the title of its text; empty where there is none.
        languages: ISO 639 code of each step; None takes all for readable.
        written: each step as its author wrote it, for a channel that reads all steps as one story, as it did
            those that it learned from; the parts where empty.
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
    ) -> Readings:
        """Cut steps, as their cast spells them, into what is compared."""
        titled = [f"{title}: {text}" for text in spelled] if title and len(spelled) > 1 else []
        return cls([sentences(text) or [text] for text in spelled], titled, languages, written or spelled)

    @property
    def worded(self) -> BoolArray:
        """(S,) which steps hold words, and not signs alone."""
        return np.array([any(map(has_words, parts)) for parts in self.parts])

    def portions(self, channel: Channel) -> list[list[str]]:
        """The texts that a channel's encoder reads, in the portions in which it gets them."""
        if channel.whole:
            return [list(self.written) or [" ".join(parts) for parts in self.parts]]
        read = channel.readable([own[0] for own in self.parts], self.languages)
        texts = [text for own, one in zip(self.parts, read, strict=True) if one for text in own]
        if channel.name in TITLED:
            texts += [text for text, one in zip(self.titled, read, strict=False) if one]
        return channel.portions(list(dict.fromkeys(texts)))


@dataclass(frozen=True)
class Asked:
    """The steps as one channel reads them.

    Attributes:
        name, space: of the channel.
        whole: (S, D) unit mean of the vectors of a step's sentences; zero where the channel does not read it.
        parts: per step (n, D) vectors of its sentences; (0, D) where there is but one, or none is read.
        titled: (S, D) the steps with their title; None without.
    """

    name: str
    space: str
    whole: FloatArray
    parts: Sequence[FloatArray]
    titled: FloatArray | None

    @classmethod
    def by(cls, channel: Channel, readings: Readings) -> Asked:
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
                whole[step] = unit_rows(channel.name, vectors.mean(axis=0, keepdims=True))[0]
        titled = None
        if readings.titled and channel.name in TITLED:
            titled = np.stack([known.get(text, np.zeros(dim, np.float32)) for text in readings.titled])
        return cls(channel.name, channel.space, whole, parts, titled)

    @property
    def reads(self) -> BoolArray:
        """(S,) which steps the channel reads."""
        return np.asarray(self.whole.any(axis=1))

    def search(self) -> EncodedChannel:
        """The question for the pictures nearest to each step."""
        return EncodedChannel(self.name, self.space, COSINE, self.whole)


@dataclass(frozen=True)
class Compared:
    """How a channel likes the candidates, (S, K) each.

    Attributes:
        present: where the picture has the channel and the step is read by it.
        cosine: mean of the whole step's and its best sentence's; 0 where not present, as are the others.
        z: standardised over all pictures of the library, for this step.
        titled: by how much the title raises z.
        trust: by how many deviations the channel lets right pictures stand out.
    """

    present: BoolArray
    cosine: Float64Array
    z: Float64Array
    titled: Float64Array
    trust: Float64Array

    @classmethod
    def absent(cls, shape: tuple[int, ...]) -> Compared:
        """No picture has the channel."""
        return cls(np.zeros(shape, dtype=bool), *(np.zeros(shape) for _ in range(4)))

    @property
    def arrays(self) -> tuple[BoolArray, Float64Array, Float64Array, Float64Array, Float64Array]:
        """All of them, in order."""
        return self.present, self.cosine, self.z, self.titled, self.trust

    def filled(self, other: Compared) -> Compared:
        """This one, and another where a picture lacks it."""
        return Compared(
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
        gallery: all pictures, or those found of a library that is larger than memory.
        rows: (C,) gallery rows, ascending.
        groups: (C,) near-duplicate groups, numbered from 0.
        items: (S, K) candidate numbers of each step; 0 where `there` is False.
        there: (S, K) which cells hold a candidate.
        channels: how each channel likes them.
        available: pictures that could be shown.
        found: (S, K) which of them the step itself has found, and not only all steps consider.
    """

    gallery: Gallery
    rows: IntArray
    groups: IntArray
    items: IntArray
    there: BoolArray
    channels: dict[str, Compared]
    available: int
    found: BoolArray

    def column(self, step: int, row: int) -> int:
        """Where a gallery row stands in a step's list."""
        number = int(np.searchsorted(self.rows, row))
        return int(np.flatnonzero((self.items[step] == number) & self.there[step])[0])


def pool_of(
    index: Index,
    asked: Sequence[Asked],
    calibration: Calibration,
    *,
    count: int,
    extra: Sequence[int] = (),
    barred: BoolArray,
    known: Pool | None = None,
) -> Pool:
    """Each step's list: the nearest by every channel, and some that all steps consider.

    Args:
        index: of the pictures.
        asked: the steps as the channels read them.
        calibration: for the typical mean and spread of a text's cosines.
        count: nearest pictures by each channel.
        extra: gallery rows that every step considers.
        barred: (M,) True for pictures that must not be shown.
        known: for the same but `extra`; what it found and compared is taken from it.
    Raises:
        NumericsError: a cosine is not finite.
    """
    steps, pictures = np.arange(len(asked[0].whole))[:, None], max(len(index.gallery), 1)
    # A cell is a step and a picture: step · M + row.
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
    items[place], there[place] = np.searchsorted(rows, row), True
    met[tuple(part[np.searchsorted(cells, found)] for part in place)] = True
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
        old, new = tuple(part[again] for part in place), tuple(part[~again] for part in place)
        channels = {}
        for one in asked:
            fresh = _compared(index, one, calibration, rows, items, there, new)
            for part, values in zip(fresh.arrays, known.channels[one.name].arrays, strict=True):
                part[old] = values[known.there][among[again]]
            channels[one.name] = fresh
    available = index.pictures - int(np.count_nonzero(barred))
    return Pool(index.gallery, rows, groups, items, there, channels, available, met)


def _sorted(parts: Sequence[IntArray]) -> IntArray:
    """Numbers of some lists, each once; `np.unique` takes ten times as long for so many."""
    every = np.sort(np.concatenate(parts))
    return every[np.flatnonzero(np.diff(every, prepend=-1))]


def _compared(  # noqa: PLR0917
    index: Index,
    asked: Asked,
    calibration: Calibration,
    rows: IntArray,
    items: IntArray,
    there: BoolArray,
    cells: tuple[IntArray, ...] | None = None,
) -> Compared:
    """A channel's cosines with the candidates of every step; with cells, steps and columns, only these."""
    space = index.gallery.space(asked.space)
    vectors = space.vectors(rows)
    if cells is not None:
        if not len(cells[0]):
            return Compared.absent(items.shape)
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
    return Compared(present, *(np.where(present, one, 0.0) for one in (cosine, z, raised, trust)))


def _standard(values: Float64Array, mean: Float64Array, std: Float64Array) -> Float64Array:
    """(S, K) cosines in deviations from the mean of their step; 0 where there is no spread."""
    spread = std[:, None]
    return np.divide(values - mean[:, None], spread, out=np.zeros_like(values), where=spread > 0)


class Resemblance:
    """How much candidates are like what the other steps are expected to show, in one space.

    With shares p of the candidates i of each step, W_ti = Σ over steps t′ ≠ t of p_t′i, and Z_ij the mean of
    the standard scores that the cosine of i and j has among all cosines of i and among all of j,
    a_tj = Σ_i W_ti Z_ij / (Σ_i W_ti + ½), over those i that are no near-duplicates of j. Z is linear in the
    vector of i, so that sums over i are sums of vectors.

    Source: docs/methods/storyboard.md §3.
    """

    def __init__(self, pool: Pool, space: str) -> None:
        """Take the candidates.

        Args:
            pool: all of them.
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

    def of(self, shares: Float64Array) -> Float64Array:
        """(S, K) p, 0 where there is none → (S, K) a; 0 where a picture has no vector.

        Steps are taken together, as a few products over all pictures that they consider.
        """
        pool, usable, inverse, vectors = self._pool, self._usable, self._inverse, self._vectors
        totals = np.bincount(pool.items.ravel(), weights=shares.ravel(), minlength=len(pool.rows))
        known: Float64Array = totals.astype(np.float64) * usable
        of_plain, of_scaled = known @ vectors, (known * inverse) @ vectors
        offset = self._mean * inverse
        found = np.zeros(pool.items.shape)
        together = MANY if len(pool.rows) <= SHARED * pool.items.shape[1] else FEW
        for first in range(0, len(found), together):
            steps = slice(first, first + together)
            listed = np.zeros(len(pool.rows), dtype=bool)
            listed[pool.items[steps]] = True
            numbers = np.flatnonzero(listed)  # (N,) of those that the B steps consider
            place = (np.cumsum(listed) - 1)[pool.items[steps]]  # (B, K)
            near, scale = vectors[numbers].astype(np.float64), inverse[numbers]
            shape = len(place), len(numbers)
            cells = (place + shape[1] * np.arange(shape[0])[:, None]).ravel()
            own = np.bincount(cells, weights=shares[steps].ravel(), minlength=shape[0] * shape[1])
            p: Float64Array = own.astype(np.float64).reshape(shape) * usable[numbers]  # (B, N)
            x, y = of_plain - p @ near, of_scaled - (p * scale) @ near  # (B, D)
            total = (known @ offset - p @ offset[numbers])[:, None]
            whole = (known.sum() - p.sum(axis=1))[:, None]
            agreed = (y @ near.T - total + (x @ near.T - self._mean[numbers] * whole) * scale) / 2
            agreed -= self._copied(known, p, numbers)
            agreed *= usable[numbers] / (np.maximum(whole, 0.0) + SHY)
            found[steps] = np.take_along_axis(agreed, place, axis=1)
        return found * pool.there

    def _copied(self, known: Float64Array, p: Float64Array, numbers: IntArray) -> Float64Array:
        """(B, N) what near-duplicates of some pictures, and these themselves, would add for B steps.

        Args:
            known: (C,) shares of all steps.
            p: (B, N) those of the steps themselves.
            numbers: (N,) of the pictures.
        """
        weights = np.tile(known, (len(p), 1))
        weights[:, numbers] -= p
        everyone = len(known)
        found = weights[:, numbers] * self._alike[numbers]
        if len(self._one) > everyone:
            one, other, alike = (part[everyone:] for part in (self._one, self._other, self._alike))
            for step, own in enumerate(weights):
                found[step] += np.bincount(other, weights=own[one] * alike, minlength=everyone)[numbers]
        return found


def _copies(groups: IntArray, vectors: FloatArray) -> tuple[IntArray, IntArray, FloatArray]:
    """All ordered pairs of candidates of one near-duplicate group, first each with itself; their cosines."""
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
        # By one product: vectors of all pairs would be gigabytes for some thousand pictures of one burst.
        near.append((vectors[own] @ vectors[own].T).ravel()[left != right])
    return np.concatenate(one), np.concatenate(other), np.concatenate(near)
