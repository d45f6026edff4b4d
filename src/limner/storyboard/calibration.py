"""The shipped calibration: how cosines become nats, how much pictures say for each other, when to abstain.

Fitted once on held-out data by `benchmarks/calibrate.py` and packaged as `calibration.json`, so that
untrained use gives evidence and not bare cosines. It reads; it fits nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Literal, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, ValidationError, model_validator

from limner.arrays import TextEncoder
from limner.errors import ConfigError, DataError, unknown
from limner.library.channels import Channel, Evidence
from limner.library.home import CALIBRATION_FILE
from limner.library.library import Library
from limner.records import Record
from limner.storyboard.coherence import Coherence, Walk

Float64Array = NDArray[np.float64]
BoolArray = NDArray[np.bool_]

UNAVOIDABLE = -1e4
"""Price of a blank, in nats, that is only paid where no picture is left at all."""

SPARE = 2.0
"""Log-odds by which a candidate may be behind the best where the library is taken to hold one that fits."""


class Line(Record):
    """Log-odds that are linear in what the search found for a step.

    Attributes:
        slope: per nat of `Hits.evidence` of the step.
        peak: per nat of the log share of the best candidate among all of the step.
        size: per nat of the log number of pictures searched.
        text: per nat of the mean evidence of all steps of the text.
        coherence: per unit of the weight of the pairwise term in this text.
        offset: log-odds where all features are 0.
    """

    slope: float
    peak: float = 0.0
    size: float = 0.0
    text: float = 0.0
    coherence: float = 0.0
    offset: float

    def log_odds(self, found: Found) -> Float64Array:
        """(S,) log-odds of each step; −inf where nothing was searched."""
        answered = np.isfinite(found.evidence) & np.isfinite(found.best)
        evidence = np.where(answered, found.evidence, 0.0)
        whole = evidence[answered].mean() if answered.any() else 0.0
        odds = self.slope * evidence + self.peak * np.where(answered, found.peak, 0.0) + self.offset
        odds = odds + self.size * np.log(max(found.available, 1)) + self.text * whole
        return np.where(answered, odds + self.coherence * found.coherence, -np.inf)


class Holding(Line):
    """Whether the library holds any picture that fits a step, judged against the rest of its text.

    Attributes:
        threshold: probability from which it is taken to hold one.
    """

    threshold: float = Field(gt=0, lt=1)


class Suitability(Line):
    """Log-odds that a picture fits: those of the best of its step, less deficit · (best − its own nats).

    Attributes:
        deficit: per nat by which a candidate is behind the best of its step; at least 0.
        threshold: below this probability a picture is not shown; 0 shows all.
        holding: where it says that the library holds a fitting picture, the best are shown even below the
            threshold: in some libraries every chance is small. None leaves it to the threshold.
    """

    deficit: float = Field(default=1.0, ge=0)
    threshold: float = Field(ge=0, lt=1)
    holding: Holding | None = None


@dataclass(frozen=True)
class Found:
    """What a search found for the S steps of a text.

    Attributes:
        evidence: (S,) `Hits.evidence`, nats.
        unary: (S, K) nats of the candidates, −inf where there is none.
        available: pictures searched.
        coherence: weight of the pairwise term in this text.
    """

    evidence: Float64Array
    unary: Float64Array
    available: int
    coherence: float = 0.0

    @property
    def best(self) -> Float64Array:
        """(S,) nats of each step's best candidate; −inf without one."""
        return np.asarray(np.max(self.unary, axis=1, initial=-np.inf))

    @property
    def peak(self) -> Float64Array:
        """(S,) log share of the best candidate among those of its step, at most 0."""
        best = np.where(np.isfinite(self.best), self.best, 0.0)
        mass = np.exp(self.unary - best[:, None]).sum(axis=1)
        peak: Float64Array = -np.log(np.maximum(mass, 1.0))
        return peak


class Chances:
    """What a calibration says of every candidate of a text.

    Args:
        suitability: the calibration.
        found: what was searched.
        threshold: in place of the calibrated one.
    """

    def __init__(self, suitability: Suitability, found: Found, *, threshold: float | None = None) -> None:
        self.threshold = suitability.threshold if threshold is None else threshold
        self._best = np.where(np.isfinite(found.best), found.best, 0.0)
        self._deficit, self._of_best = suitability.deficit, suitability.log_odds(found)
        self._odds = self._odds_of(found.unary)
        self._limit: Float64Array = np.full(len(self._best), _logit(self.threshold))
        if suitability.holding is not None and threshold is None:
            held = suitability.holding.log_odds(found) >= _logit(suitability.holding.threshold)
            self._limit = np.where(held, np.minimum(self._limit, self._of_best - SPARE), self._limit)

    def probability(self, step: int, column: int | None) -> float:
        """That a candidate fits its step, and for None that the best one does; 0 where there is none."""
        odds = self._of_best[step] if column is None else self._odds[step, column]
        return float(np.exp(-np.logaddexp(0.0, -odds)))

    def admitted(self, support: Float64Array) -> BoolArray:
        """(S, K) True for candidates likely enough to be shown.

        Args:
            support: (S, K) nats that pictures fixed by the user add to a candidate; what they take off does
                not count, so that fixing one picture never blanks another step.
        """
        return self._enough(self._odds + np.maximum(support, 0.0))

    def admits(self, nats: Float64Array) -> BoolArray:
        """Whether a candidate of so many nats, one for each of the S steps, would be likely enough."""
        return self._enough(self._odds_of(nats[:, None]))[:, 0]

    def _odds_of(self, nats: Float64Array) -> Float64Array:
        """(S, N) log-odds of candidates of so many nats."""
        return self._of_best[:, None] - self._deficit * (self._best[:, None] - nats)

    def _enough(self, odds: Float64Array) -> BoolArray:
        return np.isfinite(odds) & (odds >= self._limit[:, None])

    def blank_prices(self, lowest: float) -> Float64Array:
        """(S,) nats of a blank: those of a candidate at the threshold whose neighbours all speak against it.

        Agreement chooses between pictures that fit; it never turns one that fits into a blank.

        Args:
            lowest: nats that other pictures take off a candidate at the most, at most 0.
        """
        if self.threshold == 0 or self._deficit == 0:
            return np.full(len(self._best), UNAVOIDABLE)
        floor = self._best - (self._of_best - self._limit) / self._deficit
        return np.maximum(np.where(np.isfinite(self._of_best), floor + lowest, 0.0), UNAVOIDABLE)


def _logit(probability: float) -> float:
    return float(np.log(probability / (1 - probability))) if probability else -np.inf


STRENGTH = ("captions", "clip", "base", "labels")
"""Channels by how much they tell, the strongest first."""

One = TypeVar("One")


def _entry(table: Mapping[str, One], name: str, what: str) -> One:
    """What a table says of a name.

    Raises:
        ConfigError: the name has no calibration.
    """
    if name not in table:
        raise ConfigError("calibration: " + unknown(what, name, table))
    return table[name]


class PairCalibration(Record):
    """How much two pictures of one space say for each other.

    Attributes:
        evidence: cosine → log P(same story) / P(different stories); the standardised part is the
            mean of both pictures' standard scores.
        weights: channel → decoder → factor on the evidence, where that channel is the strongest that
            takes part. The weaker the texts' evidence, the more easily a step falls for a
            neighbour's world, and the smaller the factor.
        walk: how likeness to a fixed picture spreads; None where it does not.
    """

    evidence: Evidence
    weights: dict[str, dict[str, float]]
    walk: Walk | None = None

    def weight(self, decoder: str, channels: Iterable[str]) -> float:
        """Factor for one decoder.

        Args:
            decoder: its name.
            channels: those that take part.
        Raises:
            ConfigError: no weight was chosen for it.
        """
        names = {"captions" if name == "multilingual" else name for name in channels}
        strongest = next((name for name in STRENGTH if name in names), STRENGTH[-1])
        return _entry(self.weights[strongest], decoder, "decoder")


class Calibration(Record):
    """All calibrated numbers of untrained use.

    Attributes:
        schema_version: of this form.
        channels: channel → evidence of its cosines.
        context: channel → `Channel.context`.
        beside: channel → `Channel.beside`.
        pairs: gallery space that compares pictures → how much two of its pictures say for each other.
        coherence: the same space → how much context and agreement count; ``*`` for every other space, and
            where pictures are not compared.
        suitability: channels joined by ``+`` in alphabetical order → when a library holds nothing
            fitting; ``*`` for every other set of channels.
        provenance: what each number was fitted on, and how it did on data it had not seen.
    """

    schema_version: Literal[1] = 1
    channels: dict[str, Evidence]
    context: dict[str, float]
    beside: dict[str, float]
    pairs: dict[str, PairCalibration]
    coherence: dict[str, Coherence]
    suitability: dict[str, Suitability]
    provenance: dict[str, str]

    @model_validator(mode="after")
    def _complete(self) -> Calibration:
        for name, table in (("suitability", self.suitability), ("coherence", self.coherence)):
            if "*" not in table:
                raise ValueError(f"{name}: no entry '*'")
        return self

    def channel(self, name: str, encoder: TextEncoder, reads: frozenset[str] | None = None) -> Channel:
        """A channel with its calibration.

        Args:
            name: of the channel, and of its gallery space.
            encoder: of texts.
            reads: as in `Channel`.
        Raises:
            ConfigError: the channel has none.
        """
        evidence = _entry(self.channels, name, "channel")
        return Channel(
            name, encoder, name, evidence, self.context.get(name, 0.0), self.beside.get(name, 1.0), reads
        )

    def pairwise(self, space: str) -> PairCalibration:
        """How much two pictures of a space say for each other.

        Raises:
            ConfigError: the space has no calibration.
        """
        return _entry(self.pairs, space, "space of pictures")

    def coherent(self, space: str) -> Coherence:
        """How much context and agreement count where a space compares pictures."""
        return self.coherence.get(space, self.coherence["*"])

    def suitable(self, channels: Collection[str]) -> Suitability:
        """When to leave a step blank, for the channels that take part, at least one."""
        # The two judge different pictures, by the same kind of evidence.
        names = sorted(set(channels) - ({"multilingual"} if "captions" in channels else set()))
        # What holds of English captions beside others comes nearest for all captions.
        alike = sorted("captions" if name == "multilingual" else name for name in names)
        found = (self.suitability.get("+".join(one)) for one in (names, alike))
        return next((one for one in found if one is not None), self.suitability["*"])

    def covers(self, channels: Collection[str]) -> bool:
        """Whether chances were fitted for these channels, and are no guess from others."""
        return bool(channels) and self.suitable(channels) is not self.suitability["*"]


@cache
def load() -> Calibration:
    """The calibration that comes with the package.

    Raises:
        DataError: the packaged file is damaged; install limner again.
    """
    text = resources.files("limner.storyboard").joinpath(CALIBRATION_FILE).read_text(encoding="utf-8")
    return parse(text)


def parse(text: str) -> Calibration:
    """A calibration from its JSON text.

    Raises:
        DataError: it is not one, in one line.
    """
    try:
        return Calibration.model_validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"]) or "the file"
        raise DataError(
            f"{CALIBRATION_FILE}: {key}: {first['msg']}; make it with benchmarks/calibrate.py"
        ) from error


class OwnChannel(Record):
    """One channel as fitted on a library.

    Attributes:
        evidence: how its cosine becomes nats.
        fingerprint: of the encoder that made the vectors.
        pairs: captioned pictures it was fitted on.
        cost: Cllr in bits on pictures that it was not fitted on; 1 is knowing nothing.
        cost_before: that of the calibration it replaces.
    """

    evidence: Evidence
    fingerprint: str
    pairs: int = Field(ge=1)
    cost: float
    cost_before: float


class OwnCalibration(Record):
    """What the file holds: channel → fit."""

    schema_version: Literal[1] = 1
    channels: dict[str, OwnChannel]


def read_own(library: Library) -> OwnCalibration:
    """A library's own calibration; one without channels where it has no file.

    Raises:
        DataError: the file is damaged.
    """
    text = library.home.text(CALIBRATION_FILE)
    try:
        return OwnCalibration(channels={}) if text is None else OwnCalibration.model_validate_json(text)
    except ValidationError as error:
        raise DataError(
            f"{library.home.where(CALIBRATION_FILE)}: damaged; delete it or run 'limner calibrate' again"
        ) from error


def write_own(library: Library, own: OwnCalibration) -> None:
    """Replace a library's own calibration in one step."""
    library.home.keep(CALIBRATION_FILE, own.model_dump_json(indent=1) + "\n")


def calibrated(library: Library) -> tuple[Calibration, tuple[str, ...]]:
    """The calibration to ask a library with, and a line for each fit of its own that no longer counts.

    Args:
        library: an opened library.
    Raises:
        DataError: the library's file is damaged.
    """
    shipped = load()
    used, stale = {}, []
    for name, one in read_own(library).channels.items():
        made_by = library.settings.spaces.get(name)
        if made_by is not None and made_by.fingerprint == one.fingerprint:
            used[name] = one.evidence
        else:
            stale.append(
                f"channel {name}: the calibration of this library was fitted on other vectors and does not"
                f" count; run 'limner calibrate --library {library.place} --channel {name}'"
            )
    return shipped.model_copy(update={"channels": {**shipped.channels, **used}}), tuple(stale)
