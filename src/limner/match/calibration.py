"""The fitted constants by which pictures are chosen, stored in the package.

``benchmarks/fit_choice.py`` fits them.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, ValidationError

from limner.config import Record
from limner.errors import DataError
from limner.records import Show

Float64Array = NDArray[np.float64]
FILE = "calibration.json"


class Typical(Record):
    """Mean and standard deviation of a text's cosines with pictures in general.

    Attributes:
        mean, std: mean and standard deviation of the cosines.
        count: number of pictures as which they count when pooled with those of a library, which may have few
            pictures.
    """

    mean: float
    std: float = Field(gt=0)
    count: float = Field(ge=0)


class Weights(Record):
    """A linear form, Σ weight · feature. Weights and features are matched by name."""

    weights: dict[str, float]

    def of(self, features: Mapping[str, Float64Array]) -> Float64Array:
        """Value of the form, in the shape of the features."""
        shape = next(iter(features.values())).shape
        total: Float64Array = np.zeros(shape)
        for name, weight in self.weights.items():
            total = total + weight * features[name]
        return total


HARDLY = 0.1
"""Probability of an alignment below which it is stated as it is."""


class RowChance(Record):
    """Probability that a photograph of a named row belongs to a step: that the row is of the text, times that
    the photograph lies at this step.

    Attributes:
        of_text: weights of the log-odds that the row is of the text: a constant, what the text adds to the
            likelihood of its order, the share of its photographs that belong together, and how well they fit.
        at_step: weights of a constant and of the log-odds of the alignment.
    """

    of_text: dict[Literal["one", "gain", "kept", "typical"], float]
    at_step: dict[Literal["one", "odds"], float]

    def own(self, gain: float, kept: float, typical: float) -> float:
        """Probability that a row is of the text.

        Args:
            gain: see `limner.match.order.Alignment`.
            kept: see `limner.match.order.Alignment`.
            typical: mean standard score of the cosines of its photographs with their steps.
        """
        values = {"one": 1.0, "gain": gain, "kept": kept, "typical": typical}
        odds = sum(weight * values[name] for name, weight in self.of_text.items())
        return float(1.0 / (1.0 + np.exp(-odds)))

    def placed(self, belongs: Float64Array) -> Float64Array:
        """Probability that photographs lie at a step, in the shape of those of the alignment.

        A photograph that the alignment hardly places there does not become probable because no other is left.
        """
        sure = np.clip(belongs, 0.018, 0.982)
        odds = self.at_step["one"] + self.at_step["odds"] * np.log(sure / (1 - sure))
        return np.where(belongs < HARDLY, belongs, 1.0 / (1.0 + np.exp(-odds)))


class Pin(Record):
    """Log-odds that a picture fixed by the user adds to another picture: `weight` · ln(floor + (1 − floor)
    e^q).

    q = looks · cosine less its log-mean-exp over the candidates. It is scaled by the doubt of the steps.
    """

    weight: float
    floor: float = Field(gt=0, lt=1)
    looks: float


class Calibration(Record):
    """All fitted constants.

    Attributes:
        schema_version: version of this file format.
        typical: typical cosines by channel, for some channels.
        temperature: temperature of the softmax with which a pixel channel was trained, by channel.
        spread: trust of such a channel if the standard deviation of the cosines equals the temperature; trust
            grows with the square of the deviation.
        prior: trust of every other channel.
        evidence: weights of the features of `limner.match.probabilities.evidence_features`.
        sharpness, none, doubt: parameters of the shares of the steps' candidates, and of the doubt by which
            agreement is scaled.
        agreement: weights of the features of `limner.match.probabilities.agreement_features`.
        chance: weights of the features of `limner.match.probabilities.probability_features`.
        thresholds: probability below which a step stays blank, by value of the option `show`; ``always`` has
            none.
        row: probabilities in a named row.
        pin: evidence of a fixed picture for others.
        provenance: data on which the constants were fitted, with the results.
    """

    schema_version: Literal[2] = 2
    typical: dict[str, Typical]
    temperature: dict[str, float]
    spread: float
    prior: float
    evidence: Weights
    sharpness: float = Field(gt=0)
    none: float
    doubt: float = Field(ge=0)
    agreement: Weights
    chance: Weights
    thresholds: dict[Show, float]
    row: RowChance
    pin: Pin
    provenance: dict[str, str]

    def trust(self, channel: str, std: Float64Array) -> Float64Array:
        """Number of standard deviations (N,) by which right pictures stand out in a channel.

        It follows from the spread of the cosines: an encoder that recognises what the pictures show gives
        them different cosines.

        Args:
            channel: name of the channel.
            std: (N,) standard deviation of the cosines of each text.
        """
        temperature = self.temperature.get(channel)
        if temperature is None:
            return np.full(len(std), self.prior)
        return self.spread * (std / temperature) ** 2

    def steadied(
        self, channel: str, mean: Float64Array, std: Float64Array, count: int
    ) -> tuple[Float64Array, Float64Array]:
        """Mean and deviation of each text's cosines, pooled with the typical ones.

        Args:
            channel: name of the channel.
            mean: (N,) mean over the pictures of the library that have the channel.
            std: (N,) standard deviation over the same pictures.
            count: number of those pictures.
        """
        typical = self.typical.get(channel)
        if typical is None:
            return mean, std
        total = count + typical.count
        pooled = (count * mean + typical.count * typical.mean) / total
        square = count * (std**2 + mean**2) + typical.count * (typical.std**2 + typical.mean**2)
        return pooled, np.sqrt(np.maximum(square / total - pooled**2, 0.0))


@cache
def load() -> Calibration:
    """Load the calibration that comes with the package.

    Raises:
        DataError: the packaged file is damaged.
    """
    return parse(resources.files("limner.match").joinpath(FILE).read_text(encoding="utf-8"))


def parse(text: str) -> Calibration:
    """Parse a calibration from JSON.

    Raises:
        DataError: the text is not a valid calibration.
    """
    try:
        return Calibration.model_validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"]) or "the file"
        raise DataError(f"{FILE}: {key}: {first['msg']}; create it with benchmarks/fit_choice.py") from error
