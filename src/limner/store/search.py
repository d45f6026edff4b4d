"""Channels, and exact search: all steps of a text are compared with all pictures, in one product per space.

A channel compares step texts with pictures in one space. Its cosine s becomes evidence, the logarithm of
P(s | the picture fits) / P(s | any other picture), modelled as linear in s and in s standardised over the
gallery for this text. Evidence of channels adds up; a channel absent for a picture adds 0, so absence neither
helps nor hurts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from limner.arrays import FloatArray, TextEncoder, expect
from limner.config import Record
from limner.errors import ConfigError, NumericsError
from limner.store.vectors import BoolArray, Float64Array, Gallery, IntArray

PORTION_LETTERS = 16_000
"""Number of characters encoded at a time: a few seconds of work, after which other threads can run."""


class Evidence(Record):
    """log-likelihood ratio = slope · s + z_slope · (s − mean) / std + offset, in nats.

    Attributes:
        slope: nats per unit of cosine.
        z_slope: nats per standard deviation of this text's cosines over the gallery.
        offset: constant, in nats.
        typical_mean, typical_std: mean and standard deviation of a text's cosines with pictures in general.
        typical_count: number of pictures that the typical values count as, in addition to those of the
            gallery: the mean and spread of a handful of pictures are not informative.
    """

    slope: float
    z_slope: float
    offset: float
    typical_mean: float = 0.0
    typical_std: float = Field(default=0.0, ge=0)
    typical_count: float = Field(default=0.0, ge=0)

    def steadied(
        self, mean: NDArray[np.float64], std: NDArray[np.float64], count: int
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Mean and deviation of each text's cosines, pooled with the typical ones.

        Args:
            mean: (N,) over the pictures of the gallery that have the channel.
            std: (N,) standard deviation over the same pictures.
            count: number of those pictures.
        """
        total = count + self.typical_count
        if total == 0:
            return mean, std
        pooled = (count * mean + self.typical_count * self.typical_mean) / total
        square = count * (std**2 + mean**2)
        square = square + self.typical_count * (self.typical_std**2 + self.typical_mean**2)
        return pooled, np.sqrt(np.maximum(square / total - pooled**2, 0.0))

    def affine(
        self, mean: NDArray[np.float64], std: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Scale and shift of each text, with evidence = scale · s + shift.

        Args:
            mean: (N,) mean cosine of each text over the pictures that have the channel.
            std: (N,) standard deviation; 0 disables the standardised part.
        """
        inverse = np.divide(1.0, std, out=np.zeros_like(std), where=std > 0)
        scale = self.slope + self.z_slope * inverse
        shift = self.offset - self.z_slope * mean * inverse
        return scale, shift


COSINE = Evidence(slope=1.0, z_slope=0.0, offset=0.0)
"""The cosine itself."""


@dataclass(frozen=True)
class Channel:
    """A way to compare texts with pictures.

    Attributes:
        name: captions, base or clip.
        encoder: encoder of a step's text into the space.
        space: name of the gallery space.
        evidence: conversion of its cosine to nats.
        beside: factor on the evidence of pictures that an earlier channel scores too: the evidence of two
            channels overlaps and must not count twice.
        reads: ISO 639 codes of the languages its encoder reads; None for all.
        whole: whether its encoder reads all steps as one story, and so must get them together.
    """

    name: str
    encoder: TextEncoder
    space: str
    evidence: Evidence
    beside: float = 1.0
    reads: frozenset[str] | None = None
    whole: bool = False

    def readable(self, texts: Sequence[str], languages: Sequence[str] | None = None) -> list[bool]:
        """Mask of the texts that the channel can read; for `languages` see `EncodedChannel.encode`."""
        codes = self.reads
        return [codes is None or languages is None or languages[n] in codes for n in range(len(texts))]

    def portions(self, texts: Sequence[str], languages: Sequence[str] | None = None) -> list[list[str]]:
        """Texts that it can read, in the batches of its encoder.

        The last bits of a vector depend on the batch, so that a text is always divided in the same way.

        Args:
            texts: steps of one text.
            languages: ISO 639 code of each; None uses all for languages that the channel reads.
        """
        found: list[list[str]] = []
        letters = 0
        for text, read in zip(texts, self.readable(texts, languages), strict=True):
            if not read:
                continue
            if not found or (not self.whole and letters + len(text) > PORTION_LETTERS):
                found.append([])
                letters = 0
            found[-1].append(text)
            letters += len(text)
        return found


@dataclass(frozen=True)
class EncodedChannel:
    """A channel with the texts of one search already encoded.

    Attributes:
        name, space, evidence, beside: as in `Channel`.
        texts: (N, D) float32 rows of unit length; a row of zeros stands for a text in a language that the
            channel does not read, for which it gives no evidence.
    """

    name: str
    space: str
    evidence: Evidence
    texts: FloatArray
    beside: float = 1.0

    @classmethod
    def encode(
        cls, channel: Channel, texts: list[str], languages: Sequence[str] | None = None
    ) -> EncodedChannel:
        """Run the channel's text encoder over the N steps of one text.

        Args:
            channel: the channel.
            texts: the steps.
            languages: ISO 639 code of each; None uses all for languages that the channel reads.
        """
        read = channel.readable(texts, languages)
        vectors = np.zeros((len(texts), channel.encoder.dim), dtype=np.float32)
        if any(read):
            portions = channel.portions(texts, languages)
            vectors[read] = np.concatenate([channel.encoder.encode_text(portion) for portion in portions])
        return cls(channel.name, channel.space, channel.evidence, vectors, channel.beside)


Request = tuple[Sequence[EncodedChannel], int]
"""Channels with the texts of one search, and the number of pictures for each text."""


@dataclass(frozen=True)
class SimilarityQuery:
    """A search for pictures similar to given ones.

    Attributes:
        ids: ids of the given pictures.
        space: space in which pictures are compared.
        evidence: conversion of their cosine to nats.
        k: number of pictures for each.
    """

    ids: Sequence[str]
    space: str
    evidence: Evidence
    k: int


@dataclass(frozen=True)
class Scored:
    """Exact scores of some pictures for N texts.

    Attributes:
        scores: (N, R) float32 nats, the sum of the shares.
        shares: (N, R) float32 nats by channel; 0 where the picture lacks the channel.
        present: (R,) mask of the pictures that have a channel, by channel.
    """

    scores: FloatArray
    shares: dict[str, FloatArray]
    present: dict[str, BoolArray]

    def of(self, places: IntArray) -> Scored:
        """Scores of some of the pictures, given by their indices here."""
        return Scored(
            self.scores[:, places],
            {name: share[:, places] for name, share in self.shares.items()},
            {name: here[places] for name, here in self.present.items()},
        )


@dataclass(frozen=True)
class Nearest:
    """The best pictures for N texts, best first; equal scores in order of row.

    Attributes:
        rows: (N, K) rows of the gallery; K is the requested number, or that of all pictures if less.
        scores: (N, K) float32 nats, the sum of the shares.
        shares: (N, K) float32 nats by channel; 0 where the picture lacks the channel.
        present: (N, K) mask of the pictures that have a channel, by channel.
        evidence: (N,) log of the mean of exp(score) over all searched pictures, in nats: how well the
            collection as a whole matches the text. −inf if no picture was searched. Returned pictures enter
            with exact scores, all others with approximate ones.
    """

    rows: IntArray
    scores: FloatArray
    shares: dict[str, FloatArray]
    present: dict[str, BoolArray]
    evidence: Float64Array


SCORES = 1 << 26
"""Number of scores that are held at a time."""


@dataclass(frozen=True)
class _Plan:
    """A channel in a search: evidence = (scale · cosine + shift) · weight.

    The weight of a picture is 0 without the channel, `Channel.beside` if an earlier channel scores it too,
    else 1. Texts that are read by the same channels share a row of `weight` (P, M); `kind` (N,) is the row of
    each text.
    """

    channel: EncodedChannel
    scale: Float64Array
    shift: Float64Array
    weight: FloatArray
    kind: IntArray

    def nats(self, cosines: FloatArray, some: slice, rows: IntArray | slice) -> FloatArray:
        """Evidence (n, R) of some pictures for some texts, computed in the place of their cosines."""
        cosines *= self.scale[some, None].astype(np.float32)
        cosines += self.shift[some, None].astype(np.float32)
        weight = self.weight[:, rows]
        if (weight != 1).any():
            cosines *= weight if len(weight) == 1 else weight[self.kind[some]]
        return cosines


class Index:
    """A gallery prepared for search.

    Args:
        gallery: the pictures.
    """

    def __init__(self, gallery: Gallery) -> None:
        self.gallery = gallery

    @property
    def pictures(self) -> int:
        """Number of all pictures."""
        return len(self.gallery)

    def held(self, space: str) -> int:
        """Number of pictures that have a vector in a space."""
        return self.gallery.space(space).held

    def among(
        self, requests: Sequence[Request], ids: Sequence[str] = (), like: SimilarityQuery | None = None
    ) -> Index:
        """This index, which has all pictures; one of a larger library retrieves candidates instead.

        Args:
            requests: searches that will be made.
            ids: pictures that must be there.
            like: search for pictures similar to given ones; None for none.
        """
        return self

    def search(
        self, channels: Sequence[EncodedChannel], k: int, *, exclude: BoolArray | None = None
    ) -> Nearest:
        """The k best pictures for each of N texts.

        Args:
            channels: at least one, each with the same N texts.
            k: pictures per text, at least 1.
            exclude: (M,) True for pictures that must not be found; they do not count in `evidence`
                either. Means and spreads of cosines stay those of the whole gallery.
        Raises:
            ConfigError: there is no channel, two have one name, or k is below 1.
            DataError: a channel's space is missing in the gallery.
            ShapeError: widths or numbers of texts differ.
            NumericsError: a vector or score is not finite.
        """
        if k < 1:
            raise ConfigError(f"index.search: k is {k}, expected at least 1")
        plans = self._plans(channels)
        count, pictures = len(channels[0].texts), len(self.gallery)
        usable = np.full(pictures, True)
        if exclude is not None:
            expect("index.search", exclude=(exclude, str(pictures)))
            usable = ~exclude
        available = int(np.count_nonzero(usable))
        width = min(k, available)
        rows: IntArray = np.zeros((count, width), dtype=np.int64)
        evidence: Float64Array = np.full(count, -np.inf)
        step = max(SCORES // max(pictures, 1), 1)
        for first in range(0, count if width else 0, step):
            some = slice(first, min(first + step, count))
            total = self._total(plans, some)
            if available < pictures:
                total[:, ~usable] = -np.inf
            rows[some] = _best(total, width)
            evidence[some] = _log_sum_exp(total) - np.log(available)
        found = self._score(plans, np.unique(rows))
        where = np.searchsorted(np.unique(rows), rows)
        return Nearest(
            rows,
            np.take_along_axis(found.scores, where, axis=1),
            {name: np.take_along_axis(part, where, axis=1) for name, part in found.shares.items()},
            {name: part[where] for name, part in found.present.items()},
            evidence,
        )

    def score(self, channels: Sequence[EncodedChannel], rows: IntArray) -> Scored:
        """Scores of given pictures for every text.

        Args:
            channels: see `search`.
            rows: (R,) rows of the gallery.
        Returns:
            Scores and shares, (N, R).
        Raises:
            As `search`.
        """
        return self._score(self._plans(channels), np.asarray(rows, dtype=np.int64))

    def _plans(self, channels: Sequence[EncodedChannel]) -> list[_Plan]:
        names = [channel.name for channel in channels]
        if not names or len(set(names)) != len(names):
            raise ConfigError(f"index: channels are {names}, expected at least one and no name twice")
        for channel in channels:
            expect(
                f"index channel {channel.name}",
                first=(channels[0].texts[:, :1], "N 1"),
                texts=(channel.texts, "N D"),
                matrix=(self.gallery.space(channel.space).matrix, "M D"),
            )
            if not np.isfinite(channel.texts).all():
                raise NumericsError(f"index channel {channel.name}: a text vector is not finite")
        read = np.stack([channel.texts.any(axis=1) for channel in channels], axis=1)  # (N, channels)
        kinds, kind = np.unique(read, axis=0, return_inverse=True)
        covered = np.zeros((len(kinds), len(self.gallery)), dtype=bool)
        plans = []
        for place, channel in enumerate(channels):
            space = self.gallery.space(channel.space)
            mean = std = np.zeros(len(channel.texts))
            if channel.evidence.z_slope != 0:
                mean, std = space.moments.of_cosines(channel.texts)
                mean, std = channel.evidence.steadied(mean, std, space.held)
            scale, shift = channel.evidence.affine(mean, std)
            if not (np.isfinite(scale).all() and np.isfinite(shift).all()):
                raise NumericsError(f"index channel {channel.name}: its calibration is not finite")
            scale, shift = scale * read[:, place], shift * read[:, place]
            weight = np.where(covered, np.float32(channel.beside), np.float32(1)) * space.present
            covered |= kinds[:, place, None] & space.present
            plans.append(_Plan(channel, scale, shift, weight, kind.ravel()))
        return plans

    def _total(self, plans: Sequence[_Plan], some: slice) -> FloatArray:
        """Scores (n, M) of all pictures for some texts.

        Raises:
            NumericsError: a score is not finite.
        """
        every = slice(None)
        spaces = (self.gallery.space(plan.channel.space) for plan in plans)
        parts = (
            plan.nats(space.cosines(plan.channel.texts[some]), some, every)
            for plan, space in zip(plans, spaces, strict=True)
        )
        total = next(parts)
        for part in parts:
            total += part
        if not np.isfinite(float(total.sum())):
            raise NumericsError("index: a score is not finite; run 'limner library --check'")
        return total

    def _score(self, plans: Sequence[_Plan], rows: IntArray) -> Scored:
        every, shares, present = slice(None), {}, {}
        for plan in plans:
            vectors = self.gallery.space(plan.channel.space).vectors(rows)
            nats = plan.nats(plan.channel.texts @ vectors.T, every, rows)
            # No evidence where a channel with more information makes this one redundant.
            here: BoolArray = np.asarray((plan.weight[:, rows] > 0).any(axis=0))
            shares[plan.channel.name], present[plan.channel.name] = np.where(here, nats, np.float32(0)), here
        total: FloatArray = np.sum(list(shares.values()), axis=0)
        if not np.isfinite(total).all():
            raise NumericsError("index: a score is not finite; check the channels' calibration")
        return Scored(total, shares, present)


def _best(total: FloatArray, width: int) -> IntArray:
    """Columns (N, K) of the largest scores (N, M), best first; equal ones by number."""
    floor = np.partition(total, -width, axis=1)[:, -width]
    rows: IntArray = np.zeros((len(total), width), dtype=np.int64)
    for text, scores in enumerate(total):
        near = np.flatnonzero(scores >= floor[text])
        rows[text] = near[np.argsort(-scores[near], kind="stable")[:width]]
    return rows


def _log_sum_exp(total: FloatArray) -> Float64Array:
    """(N,) log Σ exp over each row of (N, M)."""
    top = total.max(axis=1)
    top = np.where(np.isneginf(top), np.float32(0), top)
    # NumPy adds float32 pairwise along a row, which is precise enough
    mass = np.exp(total - top[:, None]).sum(axis=1).astype(np.float64)
    logs: Float64Array = np.log(mass, out=np.full(len(mass), -np.inf), where=mass > 0)
    return logs + top
