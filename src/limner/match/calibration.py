"""The numbers that pictures are chosen by: fitted once by ``benchmarks/fit_choice.py``, and packaged here.

It reads them; it fits nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, ValidationError

from limner.errors import DataError
from limner.records import Record, Show

Float64Array = NDArray[np.float64]
FILE = "calibration.json"


class Typical(Record):
    """Mean and deviation of a text's cosines with pictures in general.

    Attributes:
        mean, std: of the cosines.
        count: pictures that they count for beside those of a library: a handful says nothing yet.
    """

    mean: float
    std: float = Field(gt=0)
    count: float = Field(ge=0)


class Weights(Record):
    """A linear form: Σ weight · feature, by the features' names."""

    weights: dict[str, float]

    def of(self, features: Mapping[str, Float64Array]) -> Float64Array:
        """Its value, in the shape of the features."""
        shape = next(iter(features.values())).shape
        total: Float64Array = np.zeros(shape)
        for name, weight in self.weights.items():
            total = total + weight * features[name]
        return total


class Threshold(Record):
    """The chance from which a picture is shown: the lower of two.

    Attributes:
        least: a fixed chance.
        share: times the mean chance of the best pictures of all steps, which is small in some libraries.
    """

    least: float = Field(ge=0, lt=1)
    share: float = Field(ge=0)


class Pin(Record):
    """What a picture that the user fixed says of another: `weight` · ln(floor + (1 − floor) e^q).

    q = looks · cosine less its log-mean-exp over the candidates. It counts as far as steps are in doubt.
    """

    weight: float
    floor: float = Field(gt=0, lt=1)
    looks: float


class Calibration(Record):
    """All fitted numbers of the choice.

    Attributes:
        schema_version: of this form.
        typical: channel → its typical cosines; other channels have none.
        temperature: channel of pixels → the temperature of the softmax that it was trained with.
        spread: trust of such a channel for a spread of cosines of one temperature; it grows with the square.
        prior: trust of every other channel of pixels.
        evidence: weights of the features of `limner.match.chances.evidence_features`.
        sharpness, none, doubt: of the shares by which the steps of a text hear of each other, and of how much
            they do.
        agreement: weights of the features of `limner.match.chances.agreement_features`.
        chance: weights of the features of `limner.match.chances.chance_features`.
        thresholds: position → when a step is left blank; ``always`` has none.
        pin: what a fixed picture says of others.
        provenance: what it was fitted on, and how it did.
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
        """(N,) by how many deviations a channel of pixels lets right pictures stand out.

        The spread says it: an encoder that knows what it sees gives a text cosines that differ.

        Args:
            channel: its name.
            std: (N,) of the cosines of each text.
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
            channel: whose cosines.
            mean: (N,) over the pictures of a library that have the channel.
            std: (N,) likewise.
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
    """The calibration that comes with the package.

    Raises:
        DataError: the packaged file is damaged; install limner again.
    """
    return parse(resources.files("limner.match").joinpath(FILE).read_text(encoding="utf-8"))


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
        raise DataError(f"{FILE}: {key}: {first['msg']}; make it with benchmarks/fit_choice.py") from error
