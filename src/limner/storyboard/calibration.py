"""The shipped calibration: how cosines become nats, how strongly pictures pull, when to abstain.

Fitted once on held-out data by `benchmarks/calibrate.py` and packaged as `calibration.json`, so that
untrained use gives evidence and not bare cosines. It reads; it fits nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, ValidationError

from limner.arrays import TextEncoder
from limner.errors import ConfigError, DataError, unknown
from limner.files import write_text
from limner.library.channels import Channel, Evidence
from limner.library.library import Library
from limner.records import Record
from limner.storyboard.coherence import Coherence

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
        coherence: per unit of the weight with which the text's pictures speak for each other.
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
        coherence: weight with which the text's pictures speak for each other.
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
    Raises:
        ConfigError: threshold outside [0, 1).
    """

    def __init__(self, suitability: Suitability, found: Found, *, threshold: float | None = None) -> None:
        least = suitability.threshold if threshold is None else threshold
        if not 0 <= least < 1:
            raise ConfigError(f"suitability: threshold is {least}, expected 0 ≤ threshold < 1")
        self.threshold = least
        best = np.where(np.isfinite(found.best), found.best, 0.0)
        self._deficit, self._best, self._of_best = suitability.deficit, best, suitability.log_odds(found)
        self.log_odds: Float64Array = self._of_best[:, None] - self._deficit * (best[:, None] - found.unary)
        self._limit: Float64Array = np.full(len(best), _logit(least))
        if suitability.holding is not None and threshold is None:
            held = suitability.holding.log_odds(found) >= _logit(suitability.holding.threshold)
            self._limit = np.where(held, np.minimum(self._limit, self._of_best - SPARE), self._limit)

    @property
    def probability(self) -> Float64Array:
        """(S, K) probability that a candidate fits its step; 0 where there is none."""
        from scipy.special import expit

        return np.asarray(expit(self.log_odds))

    @property
    def best_probability(self) -> Float64Array:
        """(S,) of the best candidate of each step; 0 without one."""
        from scipy.special import expit

        return np.asarray(expit(self._of_best))

    def admitted(self, support: Float64Array) -> BoolArray:
        """(S, K) True for candidates likely enough to be shown.

        Args:
            support: (S, K) nats that pictures fixed by the user add to a candidate; what they take off does
                not count, so that fixing one picture never blanks another step.
        """
        odds = self.log_odds + np.maximum(support, 0.0)
        enough: BoolArray = np.isfinite(odds) & (odds >= self._limit[:, None])
        return enough

    def admits(self, nats: Float64Array) -> BoolArray:
        """Whether a candidate of so many nats, one for each of the S steps, would be likely enough."""
        odds = self._of_best - self._deficit * (self._best - nats)
        enough: BoolArray = np.isfinite(odds) & (odds >= self._limit)
        return enough

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


FILE_NAME = "calibration.json"
STRENGTH = ("captions", "clip", "base", "labels")
"""Channels by how much they tell, the strongest first."""


class Pull(Record):
    """How much two pictures of one space say for each other.

    Attributes:
        evidence: cosine → log P(same story) / P(different stories); the standardised part is the
            mean of both pictures' standard scores.
        weights: channel → decoder → factor on the evidence, where that channel is the strongest that
            takes part. The weaker the texts' evidence, the more easily a step falls for a
            neighbour's world, and the smaller the factor.
    """

    evidence: Evidence
    weights: dict[str, dict[str, float]]

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
        chosen = self.weights[strongest]
        if decoder not in chosen:
            raise ConfigError("calibration: " + unknown("decoder", decoder, chosen))
        return chosen[decoder]


class Calibration(Record):
    """All calibrated numbers of untrained use.

    Attributes:
        schema_version: of this form.
        channels: channel → evidence of its cosines.
        context: channel → `Channel.context`.
        beside: channel → `Channel.beside`.
        pulls: gallery space that compares pictures → pull.
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
    pulls: dict[str, Pull]
    coherence: dict[str, Coherence]
    suitability: dict[str, Suitability]
    provenance: dict[str, str]

    def evidence(self, channel: str) -> Evidence:
        """How a channel's cosine becomes nats.

        Raises:
            ConfigError: the channel has no calibration.
        """
        if channel not in self.channels:
            raise ConfigError("calibration: " + unknown("channel", channel, self.channels))
        return self.channels[channel]

    def channel(
        self, name: str, encoder: TextEncoder, space: str, reads: frozenset[str] | None = None
    ) -> Channel:
        """A channel with its calibration.

        Args:
            name: of the channel.
            encoder: of texts.
            space: of the gallery.
            reads: as in `Channel`.
        Raises:
            ConfigError: the channel has none.
        """
        evidence = self.evidence(name)
        return Channel(
            name, encoder, space, evidence, self.context.get(name, 0.0), self.beside.get(name, 1.0), reads
        )

    def pull(self, space: str) -> Pull:
        """How pictures of a space pull each other.

        Raises:
            ConfigError: the space has no calibration.
        """
        if space not in self.pulls:
            raise ConfigError("calibration: " + unknown("space of pictures", space, self.pulls))
        return self.pulls[space]

    def coherent(self, space: str) -> Coherence:
        """How much context and agreement count where a space compares pictures."""
        return self.coherence.get(space, self.coherence["*"])

    def suitable(self, channels: Collection[str]) -> Suitability:
        """When to leave a step blank, for the channels that take part.

        Raises:
            ConfigError: a channel has no calibration, or none takes part.
        """
        # The two judge different pictures, by the same kind of evidence.
        names = sorted(set(channels) - ({"multilingual"} if "captions" in channels else set()))
        if not names:
            raise ConfigError("calibration: no channel takes part; suitability needs at least one")
        for name in names:
            self.evidence(name)
        fitted = self.suitability.get("+".join(names))
        if fitted is None:  # what holds of English captions beside others comes nearest for all captions
            alike = sorted("captions" if name == "multilingual" else name for name in names)
            fitted = self.suitability.get("+".join(alike), self.suitability["*"])
        return fitted


@cache
def load() -> Calibration:
    """The calibration that comes with the package.

    Raises:
        DataError: the packaged file is damaged; install limner again.
    """
    text = resources.files("limner.storyboard").joinpath(FILE_NAME).read_text(encoding="utf-8")
    return parse(text)


def parse(text: str) -> Calibration:
    """A calibration from its JSON text.

    Raises:
        DataError: it is not one, in one line.
    """
    try:
        found = Calibration.model_validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"]) or "the file"
        raise DataError(
            f"{FILE_NAME}: {key}: {first['msg']}; make it with benchmarks/calibrate.py"
        ) from error
    for name, table in (("suitability", found.suitability), ("coherence", found.coherence)):
        if "*" not in table:
            raise DataError(f"{FILE_NAME}: {name}: no entry '*'; make it with benchmarks/calibrate.py")
    return found


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
    path = library.folder / FILE_NAME
    try:
        return OwnCalibration.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return OwnCalibration(channels={})
    except (OSError, ValidationError) as error:
        raise DataError(f"{path}: damaged; delete it or run 'limner calibrate' again") from error


def write_own(library: Library, own: OwnCalibration) -> Path:
    """Replace the file in one step."""
    path = library.folder / FILE_NAME
    write_text(path, own.model_dump_json(indent=1) + "\n")
    return path


def calibrated(library: Library, spaces: dict[str, str]) -> tuple[Calibration, tuple[str, ...]]:
    """The calibration to ask a library with, and a line for each fit of its own that no longer counts.

    Args:
        library: an opened library.
        spaces: channel → gallery space.
    Raises:
        DataError: the library's file is damaged.
    """
    shipped = load()
    used, stale = {}, []
    for name, one in read_own(library).channels.items():
        made_by = library.settings.spaces.get(spaces.get(name, ""))
        if made_by is not None and made_by.fingerprint == one.fingerprint:
            used[name] = one.evidence
        else:
            stale.append(
                f"channel {name}: the calibration of this library was fitted on other vectors and does not"
                f" count; run 'limner calibrate --library {library.folder} --channel {name}'"
            )
    return shipped.model_copy(update={"channels": {**shipped.channels, **used}}), tuple(stale)
