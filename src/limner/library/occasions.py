"""Which pictures were taken on the same occasion: a walk, a party, a day at the sea.

Told by the time and the place that cameras state, and by folders for pictures that state no time.
"""

from __future__ import annotations

import numpy as np

from limner.arrays import expect
from limner.library.scan import Float64Array, IntArray
from limner.pictures.places import kilometres

GAP_S = 6 * 3600.0
"""A longer pause ends an occasion: most nights do, a meal or a drive does not."""

FAR_KM = 25.0
"""Two pictures in a row that are further apart were taken on two occasions."""

FOLDER_PICTURES = 300
"""A folder of more pictures without a time is a pile, not an occasion."""

NONE = -1


def occasions(taken: Float64Array, places: Float64Array, folders: IntArray) -> IntArray:
    """The occasion of each picture.

    Pictures with a time are put in its order and parted where the pause or the way is long. A picture
    without one belongs to the occasion of its folder: that of all dated pictures there, where they are of
    one, or one of its own where the folder holds no dated picture and few others.

    Args:
        taken: (M,) seconds of the local clock; NaN where unknown.
        places: (M, 2) degrees north and east; NaN where unknown.
        folders: (M,) number of the folder.
    Returns:
        (M,) numbers of occasions from 0, or `NONE`.
    """
    expect("occasions", taken=(taken, "M"), places=(places, "M 2"), folders=(folders, "M"))
    found: IntArray = np.full(len(taken), NONE, dtype=np.int64)
    dated = np.flatnonzero(~np.isnan(taken))
    order = dated[np.argsort(taken[dated], kind="stable")]
    parted = np.diff(taken[order], prepend=taken[order[:1]]) > GAP_S
    known = np.flatnonzero(~np.isnan(places[order]).any(axis=1))
    parted[known[1:][kilometres(places[order[known[:-1]]], places[order[known[1:]]]) > FAR_KM]] = True
    found[order] = np.cumsum(parted)
    return _of_folders(found, folders)


def _of_folders(found: IntArray, folders: IntArray) -> IntArray:
    """The occasions with those of undated pictures."""
    count = int(folders.max(initial=-1)) + 1
    dated = found != NONE
    low, high = np.full(count, np.iinfo(np.int64).max), np.full(count, NONE)
    np.minimum.at(low, folders[dated], found[dated])
    np.maximum.at(high, folders[dated], found[dated])
    held = np.bincount(folders, minlength=count)
    single = (high != NONE) & (low == high)
    alone = (high == NONE) & (held > 1) & (held <= FOLDER_PICTURES)
    own = np.where(single, low, NONE)
    own[alone] = int(found.max(initial=NONE)) + 1 + np.arange(int(alone.sum()))
    return np.where(dated, found, own[folders])
