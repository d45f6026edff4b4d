"""Packaged linear calibration: cosine → evidence, for each channel and for pairs of pictures.

`limner evaluate` uses these numbers (`linear.json`), so that its results stay the same when the product's way
of choosing pictures changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib import resources
from typing import Literal, TypeVar

import numpy as np
from pydantic import ValidationError

from limner.arrays import TextEncoder, scores
from limner.config import Record
from limner.errors import ConfigError, DataError, unknown
from limner.match.encoder_setup import channels_of
from limner.research.evaluation.decoding import Float64Array
from limner.store import LibrarySummary, Store
from limner.store.search import Channel, Evidence, Index

FILE = "linear.json"
STRENGTH = ("captions", "clip", "base", "labels")
"""Channels by strength of evidence, the strongest first."""
PAIR_SPACES = ("captions", "looks", "visual", "clip", "colour")
"""Spaces for comparing two pictures, best first: captions show better than pixels whether two pictures belong
to one story, if most pictures have captions."""
CAPTIONED = 0.5
"""Least share of pictures with captions for comparing them by captions."""

MIXING = 0.9
"""Assumed probability that two pictures of one story look alike, ρ in `cosine_pairwise`."""

Value = TypeVar("Value")


def _entry(table: Mapping[str, Value], name: str, what: str) -> Value:
    """Entry of a table for a name.

    Raises:
        ConfigError: the table has no such name.
    """
    if name not in table:
        raise ConfigError(f"{FILE}: " + unknown(what, name, table))
    return table[name]


class PairCalibration(Record):
    """Calibration of the pairwise term of one space.

    Attributes:
        evidence: cosine → log-likelihood ratio of one story against different stories, in nats; z is the mean
            of both pictures' z-scores.
        weights: channel → decoder → factor of the evidence, if that channel is the strongest in use. The
            weaker the evidence from the text, the smaller the factor; otherwise the neighbouring steps would
            outweigh the text.
    """

    evidence: Evidence
    weights: dict[str, dict[str, float]]

    def weight(self, decoder: str, channels: Iterable[str]) -> float:
        """Factor for one decoder.

        Args:
            decoder: name of the decoder.
            channels: names of the channels in use.
        Raises:
            ConfigError: no weight was chosen for it.
        """
        names = {"captions" if name == "multilingual" else name for name in channels}
        strongest = next((name for name in STRENGTH if name in names), STRENGTH[-1])
        return _entry(self.weights[strongest], decoder, "decoder")


class LinearCalibration(Record):
    """The contents of `linear.json`.

    Attributes:
        schema_version: version of the schema.
        channels: channel → evidence of its cosines.
        beside: channel → `Channel.beside`.
        pairs: gallery space → calibration of its pairwise term.
        provenance: data on which each number was fitted, and its quality on unseen data.
    Source: docs/methods/evaluation.md §11.1.
    """

    schema_version: Literal[1] = 1
    channels: dict[str, Evidence]
    beside: dict[str, float]
    pairs: dict[str, PairCalibration]
    provenance: dict[str, str]

    def channel(self, name: str, encoder: TextEncoder, reads: frozenset[str] | None = None) -> Channel:
        """A channel with its evidence.

        Args:
            name: name of the channel and of its gallery space.
            encoder: text encoder.
            reads: see `Channel`.
        Raises:
            ConfigError: the channel has no evidence.
        """
        evidence = _entry(self.channels, name, "channel")
        return Channel(name, encoder, name, evidence, self.beside.get(name, 1.0), reads)

    def pairwise(self, space: str) -> PairCalibration:
        """Calibration of the pairwise term of a space.

        Raises:
            ConfigError: the space has none.
        """
        return _entry(self.pairs, space, "space of pictures")


@cache
def load() -> LinearCalibration:
    """Read the packaged file.

    Raises:
        DataError: the packaged file is damaged; install limner again.
    """
    return parse(resources.files("limner.research.evaluation").joinpath(FILE).read_text(encoding="utf-8"))


def parse(text: str) -> LinearCalibration:
    """Parse the JSON text of a calibration.

    Raises:
        DataError: the text is not JSON of a calibration.
    """
    try:
        return LinearCalibration.model_validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"]) or "the file"
        raise DataError(f"{FILE}: {key}: {first['msg']}; install limner again") from error


def linear_channels(
    library: Store, names: Sequence[str] = (), *, weights: Sequence[str] = ()
) -> list[Channel]:
    """The channels for searching a library, with the evidence of `linear.json`.

    Args:
        library: an indexed library.
        names: names of channels; empty for all that the library has.
        weights: see `limner.match.encoder_setup.channels_of`.
    Raises:
        LimnerError: see `limner.match.encoder_setup.channels_of`.
        ConfigError: a channel has no evidence.
    """
    numbers = load()
    found = channels_of(library, names, weights=weights)
    return [numbers.channel(one.name, one.encoder, one.reads) for one in found]


def pair_space(held: LibrarySummary) -> str | None:
    """The space for comparing two pictures of a library, or None.

    Captions, if at least half of the pictures have one; otherwise pixels, if `linear.json` has their space.

    Args:
        held: summary of the library.
    """
    captioned = held.vectors.get("captions", 0) >= CAPTIONED * held.pictures
    spaces = (space for space in PAIR_SPACES if space in held.spaces and space in load().pairs)
    return next((space for space in spaces if captioned or space != "captions"), None)


def cosine_pairwise(index: Index, space: str, evidence: Evidence, weight: float) -> Float64Array:
    """Evidence from the cosine of two pictures, times a weight; 0 where either has no vector.

    The cosine is standardised against each picture's cosines with the whole gallery, the two z-scores are
    averaged (symmetric score normalisation), and the result is converted to nats as for a channel.
    The evidence is log(1 − ρ + ρ · exp(nats)) with ρ = `MIXING`: two pictures that look different may still
    belong to one story, so similarity is strong evidence and dissimilarity only weak evidence against it.
    Near-duplicates are always similar, which says nothing about the story. For two pictures of one
    near-duplicate group, the term is therefore each one's highest value outside the group, the lower of the
    two.

    Args:
        index: index of the gallery.
        space: gallery space that compares pictures, such as ``visual``.
        evidence: conversion of the cosine to nats.
        weight: factor of the evidence; 0 switches the term off.
    Returns:
        (M, M) nats, symmetric, in the order of the gallery.
    Raises:
        DataError: the gallery has no such space.
    Source: docs/methods/evaluation.md §11.2.
    """
    stored, rows = index.gallery.space(space), np.arange(len(index.gallery))
    if weight == 0:
        return np.zeros((len(rows), len(rows)))
    vectors, present = stored.vectors(rows), np.asarray(stored.present[rows])
    mean = std = np.zeros(len(rows))
    if evidence.z_slope != 0:
        mean, std = stored.moments.of_cosines(vectors)
    # Of both pictures: nats = (gain + gain) · cosine + shift + shift.
    standard = evidence.z_slope / 2 * np.divide(1.0, std, out=np.zeros_like(std), where=std > 0)
    gain, shift = evidence.slope / 2 + standard, evidence.offset / 2 - standard * mean
    nats = (gain[:, None] + gain) * scores(vectors, vectors) + shift[:, None] + shift
    nats = np.logaddexp(np.log(1 - MIXING), np.log(MIXING) + nats)
    nats[~present] = nats[:, ~present] = 0.0
    names = np.array([index.gallery.groups[row] for row in rows.tolist()])
    same = names[:, None] == names
    nats[same] = -np.inf
    ceiling = nats.max(axis=1)
    ceiling[~np.isfinite(ceiling)] = 0.0
    found: Float64Array = weight * np.where(same, np.minimum(ceiling[:, None], ceiling), nats)
    return found
