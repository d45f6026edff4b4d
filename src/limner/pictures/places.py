"""Where a picture was taken, as cameras and photo exports state it, and how far two places are apart.

A place serves to tell occasions apart; it is never shown or exported.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

Place = tuple[float, float]
"""Latitude and longitude, degrees north and east."""
EARTH_KM = 6371.0
_XMP = re.compile(r"(\d+),(\d+(?:\.\d+)?)(?:,(\d+(?:\.\d+)?))?([NSEW])")


def valid(latitude: float, longitude: float) -> Place | None:
    """A place, or None where the numbers are none; 0, 0 is what devices write that do not know."""
    inside = abs(latitude) <= 90 and abs(longitude) <= 180
    return (latitude, longitude) if inside and (latitude, longitude) != (0, 0) else None


def exif_place(gps: Mapping[int, object]) -> Place | None:
    """The place in an EXIF block of GPS data.

    Args:
        gps: tag → value: 1 N or S, 2 latitude in degrees, minutes and seconds, 3 E or W, 4 longitude.
    """
    latitude, longitude = _degrees(gps.get(2)), _degrees(gps.get(4))
    if latitude is None or longitude is None:
        return None
    south, west = (str(gps.get(tag, "")).strip().upper() for tag in (1, 3))
    return valid(-latitude if south == "S" else latitude, -longitude if west == "W" else longitude)


def xmp_place(latitude: str, longitude: str) -> Place | None:
    """The place of an XMP packet: ``52,31.2N`` or ``52,31,12N``, and likewise E or W."""
    found = []
    for text in (latitude, longitude):
        match = _XMP.fullmatch(text.strip())
        if match is None:
            return None
        degrees = float(match[1]) + float(match[2]) / 60 + float(match[3] or 0) / 3600
        found.append(-degrees if match[4] in "SW" else degrees)
    return valid(*found)


def exported_place(data: object) -> Place | None:
    """The place in the JSON file of a photo export: ``{"latitude": …, "longitude": …}``."""
    if not isinstance(data, Mapping):
        return None
    numbers = [data.get(name) for name in ("latitude", "longitude")]
    given = [float(one) for one in numbers if isinstance(one, int | float) and abs(one) <= 180]
    return valid(*given) if len(given) == 2 else None


def kilometres(one: NDArray[np.float64], other: NDArray[np.float64]) -> NDArray[np.float64]:
    """Great-circle distances.

    Args:
        one: (P, 2) degrees.
        other: (P, 2) degrees.
    Returns:
        (P,) kilometres.
    """
    a, b = np.radians(one), np.radians(other)
    half = np.sin((b - a) / 2) ** 2
    chord = half[:, 0] + np.cos(a[:, 0]) * np.cos(b[:, 0]) * half[:, 1]
    found: NDArray[np.float64] = 2 * EARTH_KM * np.arcsin(np.sqrt(np.clip(chord, 0, 1)))
    return found


def _degrees(value: object) -> float | None:
    """Degrees, minutes and seconds as one number."""
    if not isinstance(value, Sequence) or isinstance(value, str | bytes) or len(value) != 3:
        return None
    try:
        parts = [float(part) for part in value]
    except (TypeError, ValueError, ZeroDivisionError):
        return None
    found = parts[0] + parts[1] / 60 + parts[2] / 3600
    return found if math.isfinite(found) and found >= 0 else None
