"""How likely a picture fits its step, and when nothing is better than what there is.

A logistic curve over what the search found for a step, fitted on held-out texts with and without fitting
pictures; its numbers are data, this module only applies them.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from limner.data.records import Record
from limner.errors import ConfigError

Float64Array = NDArray[np.float64]
BoolArray = NDArray[np.bool_]

UNAVOIDABLE = -1e4
"""Price of a blank, in nats, that is only paid where no picture is left at all."""


class Suitability(Record):
    """Log-odds that a picture fits: Σ slope · feature + offset − deficit · (best − its own nats).

    Attributes:
        slope: per nat of `Hits.evidence` of the step.
        peak: per nat of the log share of the best candidate among all of the step.
        size: per nat of the log number of pictures searched.
        text: per nat of the mean evidence of all steps of the text.
        offset: log-odds where all features are 0.
        deficit: per nat by which a candidate is behind the best of its step; at least 0.
        threshold: below this probability a step is better left blank; 0 never leaves one blank.
    """

    slope: float
    peak: float = 0.0
    size: float = 0.0
    text: float = 0.0
    offset: float
    deficit: float = Field(default=1.0, ge=0)
    threshold: float = Field(ge=0, lt=1)

    def log_odds(self, found: "Found") -> Float64Array:
        """(S,) log-odds that the best candidate of each step fits; −inf where nothing was searched."""
        answered = np.isfinite(found.evidence) & np.isfinite(found.best)
        evidence = np.where(answered, found.evidence, 0.0)
        whole = evidence[answered].mean() if answered.any() else 0.0
        odds = self.slope * evidence + self.peak * np.where(answered, found.peak, 0.0) + self.offset
        odds = odds + self.size * np.log(max(found.available, 1)) + self.text * whole
        return np.where(answered, odds, -np.inf)


@dataclass(frozen=True)
class Found:
    """What a search found for the S steps of a text.

    Attributes:
        evidence: (S,) `Hits.evidence`, nats.
        unary: (S, K) nats of the candidates, −inf where there is none.
        available: pictures searched.
    """

    evidence: Float64Array
    unary: Float64Array
    available: int

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
        behind = suitability.deficit * (best[:, None] - found.unary)
        self.log_odds: Float64Array = suitability.log_odds(found)[:, None] - behind
        self._deficit, self._best, self._of_best = suitability.deficit, best, suitability.log_odds(found)

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
        enough: BoolArray = np.isfinite(odds) & (odds >= self._limit)
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

    @property
    def _limit(self) -> float:
        return float(np.log(self.threshold / (1 - self.threshold))) if self.threshold else -np.inf
