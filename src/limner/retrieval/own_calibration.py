"""A library's own calibration: channels fitted on its own captioned pictures, in place of the shipped ones.

It lies in the library's folder as `calibration.json` and counts only for the vectors that it was fitted on.
`limner.apps.fitting` fits it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError

from limner.data.records import Record
from limner.errors import DataError
from limner.files import write_text
from limner.retrieval import calibration
from limner.retrieval.calibration import FILE_NAME, Calibration
from limner.retrieval.channels import Evidence
from limner.retrieval.library import Library


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
    shipped = calibration.load()
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
