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

    def log_odds(self, found: "Found") -> Float64Array:
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
