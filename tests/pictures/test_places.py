import io
import lzma
from pathlib import Path

import numpy as np
import pytest

import limner.pictures.places as module
from limner.language import folded
from limner.pictures.places import CITY_KM, EARTH_KM, NEAREST_KM, REGION_KM, TOWN, places


@pytest.mark.parametrize(
    ("coordinates", "due"),
    [
        ((43.318, 11.331), "Siena, Tuscany, Italy"),
        ((48.8584, 2.2945), "Paris 16 Passy, Paris, Île-de-France, France"),
        ((65.0, -18.0), "Northeast, Iceland"),  # no place within 30 km
        ((71.0, -45.0), ""),  # nor within 200 km
    ],
)
def test_label_of_a_picture(coordinates, due):
    assert places().label(places().near([coordinates])[0]) == due


def test_places_have_their_names_in_other_languages():
    known = places().called(places().near([(43.77, 11.255)])[0])
    assert {"florence", "firenze", "florenz", "tuscany", "italy", "italien", "italie"} <= known.keys()


def test_near_is_what_the_distances_say():
    rng = np.random.default_rng(0)
    degrees = np.stack([rng.uniform(-60, 70, 200), rng.uniform(-180, 180, 200)], axis=1)
    file = Path(module.__file__).with_name("places.xz")
    with np.load(io.BytesIO(lzma.decompress(file.read_bytes()))) as held:
        latitude, longitude = (np.radians(held[name] / 100) for name in ("latitude", "longitude"))
        size = held["size"]
    every = places()
    for at, found in zip(np.round(degrees, 2), every.near(degrees.tolist()), strict=True):
        here = np.radians(at)
        half = np.sin((latitude - here[0]) / 2) ** 2
        half += np.cos(here[0]) * np.cos(latitude) * np.sin((longitude - here[1]) / 2) ** 2
        km = 2 * EARTH_KM * np.arcsin(np.sqrt(half))
        due = set(np.flatnonzero(km <= CITY_KM[size]).tolist())
        due |= {int(km.argmin())} if km.min() <= NEAREST_KM else set()
        assert {one for one in found if every.kind(one) == TOWN} == due
        assert bool(found) == (km.min() <= REGION_KM)


def test_names_are_compared_without_case_accents_and_hyphens():
    assert folded("São-Paulo") == folded("sao paulo")
