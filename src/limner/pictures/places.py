"""Names of the places where pictures were taken, from their coordinates, without any network.

Data: GeoNames and CLDR, see NOTICE; `tools/place_data.py` makes the file.
"""

from __future__ import annotations

import io
import lzma
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from limner.language import folded

IntArray = NDArray[np.int64]
Float64Array = NDArray[np.float64]

TOWN, REGION, COUNTRY = range(3)
NEAREST_KM, REGION_KM = 30.0, 200.0
"""Maximum distance of the nearest place, and of the one that tells the region and country."""
CITY_KM = np.array([0.0, 8.0, 15.0])
"""The same of every place with fewer than 100,000 inhabitants, with as many, and with a million."""
EARTH_KM = 6371.0
_BLOCK = 64


class Places:
    """All places with at least 1,000 inhabitants, their regions and countries, each with a number.

    Use `places`.
    """

    def __init__(self, file: Path) -> None:
        """Read the file that `tools/place_data.py` makes."""
        with np.load(io.BytesIO(lzma.decompress(file.read_bytes()))) as held:
            self._lines: list[str] = held["names"].tobytes().decode().split("\n")
            region, country = (held[name].astype(np.int64) for name in ("region", "country"))
            degrees = np.stack([held["latitude"], held["longitude"]], axis=1) / 100
            self._size = held["size"]
        self._order = np.argsort(degrees[:, 0], kind="stable")
        self._latitude = degrees[self._order, 0]
        self._points = _points(degrees)[self._order]
        self._starts = np.cumsum([len(region), len(country)])
        self._region, self._country = region + len(region), country + self._starts[1]

    def kind(self, number: int) -> int:
        """`TOWN`, `REGION` or `COUNTRY`."""
        return int(np.searchsorted(self._starts, number, side="right"))

    def names(self, number: int) -> list[str]:
        """Names of a place, that for display first."""
        return self._lines[number].split("\t")

    def label(self, numbers: Sequence[int]) -> str:
        """Names of the nearest place of a picture, a city of a million, region and country; "" for none."""
        kept = [one for one in numbers if one in numbers[:1] or self.kind(one) or self._size[one] == 2]
        return ", ".join(dict.fromkeys(self.names(number)[0] for number in kept))

    def called(self, numbers: Iterable[int]) -> dict[str, list[int]]:
        """Some places by each of their names, as `folded`."""
        found: dict[str, list[int]] = {}
        for number in numbers:
            for name in dict.fromkeys(map(folded, self.names(number))):
                found.setdefault(name, []).append(number)
        return found

    def near(self, coordinates: Sequence[tuple[float, float]]) -> list[tuple[int, ...]]:
        """Places of pictures: towns, the nearest first, then region and country.

        Args:
            coordinates: N latitudes and longitudes in degrees; to a kilometre, as the places are.
        """
        degrees: Float64Array = np.array(coordinates, np.float64).reshape(-1, 2).round(2)
        asked, back = np.unique(degrees, axis=0, return_inverse=True)  # in order of latitude
        found: list[tuple[int, ...]] = [()] * len(asked)
        for reach_km in (NEAREST_KM, REGION_KM):
            left = np.array([place for place, one in enumerate(found) if not one], dtype=np.int64)
            for start in range(0, len(left), _BLOCK):
                block = left[start : start + _BLOCK]
                edges = asked[block[[0, -1]], 0] + np.degrees(reach_km / EARTH_KM) * np.array([-1, 1])
                first, last = np.searchsorted(self._latitude, edges).tolist()
                cosine = np.clip(_points(asked[block]) @ self._points[first:last].T, -1, 1)
                for place, near in zip(block.tolist(), cosine, strict=True):
                    rows = np.flatnonzero(near >= np.cos(reach_km / EARTH_KM))
                    found[place] = self._of(rows + first, EARTH_KM * np.arccos(near[rows]))
        return [found[place] for place in back.ravel().tolist()]

    def _of(self, rows: IntArray, km: Float64Array) -> tuple[int, ...]:
        """Places of a picture, given those around it: their rows in order of latitude, and distances."""
        if not len(rows):
            return ()
        order = np.argsort(km, kind="stable")
        rows, km = self._order[rows[order]], km[order]
        reach = CITY_KM[self._size[rows]]
        reach[0] = NEAREST_KM
        region = int(self._region[rows[0]])
        country = int(self._country[region - self._starts[0]])
        named = [region] if self._lines[region] else []
        return (*rows[km <= reach].tolist(), *named, country)


def _points(degrees: Float64Array) -> Float64Array:
    """Points (N, 3) of the unit sphere of latitudes and longitudes (N, 2)."""
    latitude, longitude = np.radians(degrees).T
    flat = np.cos(latitude)
    return np.stack([flat * np.cos(longitude), flat * np.sin(longitude), np.sin(latitude)], axis=1)


@cache
def places() -> Places:
    """The places, read once."""
    return Places(Path(__file__).with_name("places.xz"))


def place_of(coordinates: tuple[float, float] | None) -> str:
    """Names of the place of latitude and longitude in degrees, for display; "" if there are none.

    Example:
        >>> place_of((43.318, 11.331)), place_of((48.858, 2.294))
        ('Siena, Tuscany, Italy', 'Paris 16 Passy, Paris, Île-de-France, France')
    """
    return "" if coordinates is None else places().label(places().near([coordinates])[0])
