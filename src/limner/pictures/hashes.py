"""Perceptual hashes and near-duplicate groups.

Pictures of one group, such as a resized copy, are not used together in a storyboard. The neighbour search is
exact and scales to a million pictures. Crops and mirrored copies are not found.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

import numpy as np
from numpy.typing import NDArray
from PIL.Image import Image, Resampling

from limner.arrays import expect

HashArray = NDArray[np.uint64]
IndexArray = NDArray[np.int64]
TimeArray = NDArray[np.float64]
NEAR_BITS = 4
BURST_BITS = 16
"""Usual maximum distance between hashes of one scene if the camera moved little; unrelated pictures differ in
about 32 bits.
"""
BURST_S = 2.0
"""Minimum distance between frames of a video."""
BURST_NEXT = 16
"""Number of following pictures, in order of time, with which each picture is compared."""
FRAME_BITS = 6
"""Maximum distance of consecutively numbered frames of a camera without capture times."""
EVEN = np.array([0, 1 << 63], dtype=np.uint64)
"""Hashes of pictures of a single colour: black, and all others."""
_SIDE_PX, _KEPT = 32, 8
_COSINES = 2 * np.cos(np.pi / _SIDE_PX * np.outer(np.arange(_KEPT), np.arange(_SIDE_PX) + 0.5))
"""The first rows of the matrix of a DCT-II."""


def phash(image: Image) -> int:
    """64-bit hash of the low frequencies of the grey picture.

    32 × 32 grey, two-dimensional DCT-II, the 8 × 8 lowest coefficients, one bit each: whether it is above
    their median.

    Args:
        image: upright picture of any mode and size.
    Returns:
        0 to 2⁶⁴ − 1, the most significant bit for the mean grey.
    Source: Zauner, Implementation and Benchmarking of Perceptual Image Hash Functions, 2010, §3.2.1.
    Departs: plain reduction in place of the mean filter.
    """
    grey = np.asarray(image.convert("L").resize((_SIDE_PX, _SIDE_PX), Resampling.LANCZOS), dtype=np.float64)
    low = _COSINES @ grey @ _COSINES.T
    # Rounding removes noise of about 1e-11, which would set bits for a uniform picture.
    low = np.round(low, 3)
    bits = np.packbits((low > np.median(low)).ravel())
    return int.from_bytes(bits.tobytes(), "big")


def near_pairs(hashes: HashArray, bits: int = NEAR_BITS) -> Iterator[tuple[IndexArray, IndexArray]]:
    """All pairs of different hashes at most `bits` apart, in blocks; a pair may occur more than once.

    The bits are divided into `bits` + 2 parts. Two hashes that differ in at most `bits` places agree in at
    least two parts, so comparing hashes that are equal in any two parts finds every pair.

    Args:
        hashes: (M,) hashes, all different.
        bits: largest Hamming distance, 0 to 16.
    Yields:
        Row numbers (P,), (P,) of the two sides.
    Source: Norouzi et al., Fast Search in Hamming Space with Multi-Index Hashing, 2012, §3.
    Departs: couples of parts, since single parts of photographs' hashes repeat too often.
    """
    expect("near_pairs", hashes=(hashes, "M"))
    parts = bits + 2
    # Neighbouring frequencies are correlated in photographs; spreading them over the parts balances these.
    masks = [sum(1 << place for place in range(part, 64, parts)) for part in range(parts)]
    for one, other in combinations(masks, 2):
        keys = hashes & np.uint64(one | other)
        order = np.argsort(keys, kind="stable")
        keys, sorted_hashes = keys[order], hashes[order]
        left = np.flatnonzero(keys[1:] == keys[:-1])
        step = 1
        while left.size:
            distance = np.bitwise_count(sorted_hashes[left] ^ sorted_hashes[left + step])
            near = left[distance <= bits]
            if near.size:
                yield order[near], order[near + step]
            step += 1
            left = left[left + step < len(keys)]
            left = left[keys[left] == keys[left + step]]


def burst_pairs(hashes: HashArray, taken: TimeArray) -> tuple[IndexArray, IndexArray]:
    """Pairs of pictures of one burst: taken less than `BURST_S` apart and differing in at most `BURST_BITS`
    bits.

    Args:
        hashes: (M,).
        taken: (M,) seconds; NaN where unknown.
    Returns:
        Row numbers (P,), (P,) of the two sides; each picture is compared with the next `BURST_NEXT` in time.
    """
    expect("burst_pairs", hashes=(hashes, "M"), taken=(taken, "M"))
    dated = np.flatnonzero(~np.isnan(taken))
    order = dated[np.argsort(taken[dated], kind="stable")]
    left, right = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.int64)]
    for step in range(1, min(BURST_NEXT, len(order) - 1) + 1):
        one, other = order[:-step], order[step:]
        near = taken[other] - taken[one] < BURST_S
        near &= np.bitwise_count(hashes[one] ^ hashes[other]) <= BURST_BITS
        left.append(one[near])
        right.append(other[near])
    return np.concatenate(left), np.concatenate(right)


def near_groups(
    hashes: HashArray,
    bits: int = NEAR_BITS,
    taken: TimeArray | None = None,
    frames: tuple[IndexArray, IndexArray] | None = None,
) -> IndexArray:
    """Group pictures linked by chains of hashes that differ in at most `bits` bits, and pictures of one
    burst.

    A picture of a single colour is linked to no other, because its hash carries no information.

    Args:
        hashes: (M,).
        bits: largest Hamming distance of a link.
        taken: (M,) seconds, NaN if unknown, see `burst_pairs`; None if all are unknown.
        frames: (P,), (P,) rows that may be neighbours in a burst; they are if three or more in succession
            differ by at most `FRAME_BITS` bits each.
    Returns:
        (M,) number of the first row of each row's group.
    """
    expect("near_groups", hashes=(hashes, "M"))
    found = np.arange(len(hashes), dtype=np.int64)
    telling = np.flatnonzero(~np.isin(hashes, EVEN))
    if len(telling) == 0:
        return found
    labels = _alike(hashes[telling], bits)
    if taken is not None:
        left, right = burst_pairs(hashes[telling], taken[telling])
        labels = _linked(labels, [(labels[left], labels[right])])
    if frames is not None:
        left, right = (ends[np.isin(frames, telling).all(axis=0)] for ends in frames)
        near = np.bitwise_count(hashes[left] ^ hashes[right]) <= FRAME_BITS
        left, right = left[near], right[near]
        # two different drawings may be that similar, but rarely three
        series = np.isin(left, right) | np.isin(right, left)
        left, right = (labels[np.searchsorted(telling, ends[series])] for ends in (left, right))
        labels = _linked(labels, [(left, right)])
    lowest = np.full(len(telling), len(hashes), dtype=np.int64)
    np.minimum.at(lowest, labels, telling)
    found[telling] = lowest[labels]
    return found


def _alike(hashes: HashArray, bits: int) -> IndexArray:
    """(M,) number of the first row of each row's group, by hashes alone."""
    different, first, place = np.unique(hashes, return_index=True, return_inverse=True)
    count = len(different)
    labels = np.arange(count)
    waiting: list[tuple[IndexArray, IndexArray]] = []
    pending = 0
    for left, right in near_pairs(different, bits):
        apart = labels[left] != labels[right]
        waiting.append((labels[left[apart]], labels[right[apart]]))
        pending += int(apart.sum())
        # Linking in blocks limits the memory to O(M), however many pairs there are.
        if pending > count:
            labels, waiting, pending = _linked(labels, waiting), [], 0
    labels = _linked(labels, waiting)
    lowest = np.full(count, len(hashes), dtype=np.int64)
    np.minimum.at(lowest, labels, first)
    return lowest[labels][place].astype(np.int64)


def _linked(labels: IndexArray, pairs: list[tuple[IndexArray, IndexArray]]) -> IndexArray:
    """Labels after joining the groups that pairs link.

    Args:
        labels: (M,) 0 to M − 1.
        pairs: blocks of two arrays of labels.
    """
    root = np.arange(len(labels))
    for left, right in pairs:
        while (apart := np.flatnonzero(root[left] != root[right])).size:
            ends = root[left[apart]], root[right[apart]]
            np.minimum.at(root, np.maximum(*ends), np.minimum(*ends))
            while (root != root[root]).any():
                root = root[root]
    return root[labels]
