"""Which pictures belong to one occasion: by time, place and folder, as a slow reading of the rule says."""

import math

import numpy as np
import pytest

from limner.library.occasions import FAR_KM, FOLDER_PICTURES, GAP_S, NONE, occasions
from limner.pictures.places import exif_place, exported_place, kilometres, xmp_place

UNKNOWN = (math.nan, math.nan)
HOUR = 3600.0


def groups(rows):
    """(hours, place, folder) per picture → sets of pictures of one occasion."""
    taken = np.array([math.nan if hours is None else hours * HOUR for hours, _, _ in rows])
    places = np.array([place or UNKNOWN for _, place, _ in rows]).reshape(-1, 2)
    found = occasions(taken, places, np.array([folder for _, _, folder in rows], dtype=np.int64))
    return [{row for row in range(len(rows)) if found[row] == one} for one in sorted(set(found) - {NONE})]


def test_a_long_pause_parts_and_order_does_not_matter():
    rows = [(30.0, None, 0), (1.0, None, 0), (6.9, None, 1), (12.0, None, 0), (12.0 + 6.1, None, 0)]
    assert groups(rows) == [{1, 2, 3}, {4}, {0}]
    assert groups([]) == []


def test_a_long_way_parts_also_across_pictures_without_a_place():
    lisbon, berlin = (38.72, -9.14), (52.52, 13.40)
    rows = [(1, lisbon, 0), (2, (38.80, -9.10), 0), (2.5, None, 0), (3, berlin, 0), (4, None, 0)]
    assert groups(rows) == [{0, 1, 2}, {3, 4}]
    assert groups([(1, lisbon, 0), (2, None, 0), (3, lisbon, 0)]) == [{0, 1, 2}]


def test_undated_pictures_follow_their_folder():
    dated = [(1.0, None, 0), (2.0, None, 0)]
    assert groups([*dated, (None, None, 0)]) == [{0, 1, 2}]
    # Two occasions in one folder: nobody knows of which it is.
    assert groups([*dated, (90.0, None, 0), (None, None, 0)]) == [{0, 1}, {2}]
    assert groups([*dated, (None, None, 1), (None, None, 1), (None, None, 2)]) == [{0, 1}, {2, 3}]
    pile = [(None, None, 1)] * (FOLDER_PICTURES + 1)
    assert groups([*dated, *pile]) == [{0, 1}]


def test_as_a_slow_reading_of_the_rule():
    rng = np.random.default_rng(3)
    for _ in range(20):
        count = 60
        taken = np.cumsum(rng.exponential(3 * HOUR, count))
        places = np.where(rng.random((count, 1)) < 0.5, rng.normal((50, 8), 0.2, (count, 2)), math.nan)
        order = rng.permutation(count)
        found = occasions(taken[order], places[order], np.zeros(count, dtype=np.int64))
        slow, last, number = [], None, 0
        for row in range(count):
            far = False
            if not math.isnan(places[row, 0]):
                far = last is not None and kilometres(places[last][None], places[row][None])[0] > FAR_KM
                last = row
            number += bool(row and (taken[row] - taken[row - 1] > GAP_S or far))
            slow.append(number)
        assert found.tolist() == [slow[row] for row in order]


def test_places_as_files_state_them():
    gps = {1: "N", 2: (52.0, 31.0, 12.0), 3: "W", 4: (13.0, 24.0, 0.0)}
    assert exif_place(gps) == pytest.approx((52.52, -13.4))
    assert exif_place({**gps, 1: "S"}) == pytest.approx((-52.52, -13.4))
    assert xmp_place("52,31.2N", "13,24,0W") == pytest.approx((52.52, -13.4))
    assert exported_place({"latitude": 52.52, "longitude": -13.4}) == (52.52, -13.4)
    for wrong in (
        {},
        {**gps, 2: (0, 0)},
        {**gps, 2: (95.0, 0.0, 0.0)},
        {**gps, 2: "north"},
        {**gps, 4: None},
    ):
        assert exif_place(wrong) is None
    assert exif_place({1: "N", 2: (0, 0, 0), 3: "E", 4: (0, 0, 0)}) is None
    assert exported_place({"latitude": 0.0, "longitude": 0.0}) is None
    assert exported_place({"latitude": "52", "longitude": 1}) is None
    assert exported_place(None) is None
    assert xmp_place("", "") is None


def test_kilometres():
    lisbon, berlin = np.array([[38.72, -9.14]]), np.array([[52.52, 13.40]])
    assert kilometres(lisbon, berlin)[0] == pytest.approx(2310, rel=0.01)
    assert kilometres(lisbon, lisbon)[0] == 0
