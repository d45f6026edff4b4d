"""How likely it is that a library holds a fitting picture for a step, and what a blank is worth.

A logistic curve over the collection's evidence for the text, fitted on held-out stories; its
numbers are data, this module only applies them. It decides nothing; the decoder does.
"""

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from limner.data.records import Record
from limner.errors import ConfigError

Float64Array = NDArray[np.float64]

UNAVOIDABLE = -1e4
"""Price of a blank, in nats, that is only paid where no picture is left at all."""


class Suitability(Record):
    """P(the library holds a fitting picture) = 1 / (1 + exp(−(slope · evidence + offset))).

    Attributes:
        slope: per nat of `Hits.evidence`.
        offset: log-odds at evidence 0.
        threshold: below this probability a step is better left blank; 0 never leaves one blank.
    """

    slope: float
    offset: float
    threshold: float = Field(ge=0, lt=1)

    def probability(self, evidence: Float64Array) -> Float64Array:
        """Evidence (N,) in nats → probability (N,) in [0, 1]; −inf means nothing was searched: 0."""
        from scipy.special import expit

        log_odds = self.slope * np.where(np.isfinite(evidence), evidence, 0.0) + self.offset
        return np.where(np.isneginf(evidence), 0.0, expit(log_odds))

    def blank_price(
        self, evidence: Float64Array, best: Float64Array, *, threshold: float | None = None
    ) -> Float64Array:
        """What showing nothing is worth, so that leaving a step blank is one more candidate.

        The best candidate stands for the fitting picture: with log-odds L of the library and T of
        the threshold, its margin over a blank is L − T, hence price = best − (L − T). Alone, a step
        stays blank exactly when its probability is below the threshold. What other pictures add to
        or take from a candidate moves its log-odds by as many nats, so a world fixed by pins may
        rescue a step or sink it, and a second choice must not be worse than the best by more than
        the margin.

        Args:
            evidence: (N,) `Hits.evidence`.
            best: (N,) nats of the best candidate of each step.
            threshold: in place of the calibrated one.
        Returns:
            (N,) nats; `UNAVOIDABLE` where the threshold is 0.
        Raises:
            ConfigError: threshold outside [0, 1).
        """
        least = self.threshold if threshold is None else threshold
        if not 0 <= least < 1:
            raise ConfigError(f"suitability: threshold is {least}, expected 0 ≤ threshold < 1")
        if least == 0:
            return np.full(np.shape(best), UNAVOIDABLE)
        log_odds = self.slope * np.where(np.isfinite(evidence), evidence, 0.0) + self.offset
        price = np.asarray(best) - (log_odds - np.log(least / (1 - least)))
        return np.where(np.isfinite(evidence) & np.isfinite(best), price, 0.0)
