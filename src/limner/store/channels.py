"""Channels and their calibration: from cosines of several spaces to one score in nats.

A channel compares step texts with pictures in one space. Its cosine s becomes evidence, the
logarithm of P(s | the picture fits) / P(s | any other picture), modelled as linear in s and in
s standardised over the gallery for this text. Evidence of channels adds up; a channel absent for
a picture adds 0, so absence neither helps nor hurts.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from limner.arrays import FloatArray, TextEncoder
from limner.records import Record

PORTION_LETTERS = 16_000
"""Characters encoded at a time: a few seconds of work, after which other threads run."""


class Evidence(Record):
    """log-likelihood ratio = slope · s + z_slope · (s − mean) / std + offset, in nats.

    Attributes:
        slope: nats per unit of cosine.
        z_slope: nats per standard deviation of this text's cosines over the gallery.
        offset: constant, in nats.
        typical_mean, typical_std: mean and standard deviation of a text's cosines with pictures in general.
        typical_count: how many pictures' worth those count, beside the pictures of the gallery: with a
            handful of pictures their own mean and spread say nothing yet.
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
            std: (N,) its standard deviation; 0 switches the standardised part off.
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
        name: captions, labels or clip.
        encoder: encoder of a step's text into the space.
        space: name of the gallery space.
        evidence: conversion of its cosine to nats.
        beside: factor on the evidence for pictures that an earlier channel judges too. What two channels
            say of one picture overlaps, and must not count twice.
        reads: ISO 639 codes of the languages its encoder reads; None for all.
        whole: whether its encoder reads all steps as one story, so that they go to it together.
    """

    name: str
    encoder: TextEncoder
    space: str
    evidence: Evidence
    beside: float = 1.0
    reads: frozenset[str] | None = None
    whole: bool = False

    def readable(self, texts: Sequence[str], languages: Sequence[str] | None = None) -> list[bool]:
        """Mask of the texts that it can read; for `languages` see `EncodedChannel.encode`."""
        codes = self.reads
        return [codes is None or languages is None or languages[n] in codes for n in range(len(texts))]

    def portions(self, texts: Sequence[str], languages: Sequence[str] | None = None) -> list[list[str]]:
        """Texts that it can read, in the batches of its encoder.

        The last bits of a vector depend on what is encoded with it, so a text is always cut alike.

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
    ) -> "EncodedChannel":
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
