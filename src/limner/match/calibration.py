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


class Threshold(Record):
    """Probability from which a picture is shown: the smaller of `least` and `share` times a mean.

    Attributes:
        least: a fixed probability.
        share: factor of the mean, over the steps, of the best picture's probability; lowers the threshold in
            libraries where all probabilities are low.
    """

    least: float = Field(ge=0, lt=1)
    share: float = Field(ge=0)


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
    thresholds: dict[Show, Threshold]
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
