"""Perceptual hashes and near-duplicate groups.

Pictures of one group (a resized copy, another compression) must not stand side by side in a storyboard.
The neighbour search is exact and scales to a million pictures. It does not find crops or mirrored copies.
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
NEAR_BITS = 4
_SIDE_PX, _KEPT = 32, 8


def phash(image: Image) -> int:
    """64-bit hash of the low frequencies of the grey picture.

    32 × 32 grey, two-dimensional DCT-II, the 8 × 8 lowest coefficients, one bit each: above their median.

    Args:
        image: upright, any mode and size.
    Returns:
        0 to 2⁶⁴ − 1, the most significant bit for the mean grey.
    Source: Zauner, Implementation and Benchmarking of Perceptual Image Hash Functions, 2010, §3.2.1.
    Departs: plain reduction in place of the mean filter.
    """
    from scipy.fft import dctn

    grey = np.asarray(image.convert("L").resize((_SIDE_PX, _SIDE_PX), Resampling.LANCZOS), dtype=np.float64)
    low = dctn(grey, type=2)[:_KEPT, :_KEPT]
    # Rounding keeps the noise of the transform, about 1e-11, from setting bits of an even picture.
    low = np.round(low, 3)
    bits = np.packbits((low > np.median(low)).ravel())
    return int.from_bytes(bits.tobytes(), "big")


def near_pairs(hashes: HashArray, bits: int = NEAR_BITS) -> Iterator[tuple[IndexArray, IndexArray]]:
    """All pairs of different hashes at most `bits` apart, in blocks; a pair may come more than once.

    The bits are dealt into `bits` + 2 parts. Two hashes that differ in at most `bits` places agree on at
    least two parts, so that looking among the hashes equal on each couple of parts finds every pair.

    Args:
        hashes: (M,) all different.
        bits: largest Hamming distance, 0 to 16.
    Yields:
        Row numbers (P,), (P,) of the two sides.
    Source: Norouzi et al., Fast Search in Hamming Space with Multi-Index Hashing, 2012, §3.
    Departs: couples of parts, since single parts of photographs' hashes repeat too often.
    """
    expect("near_pairs", hashes=(hashes, "M"))
    parts = bits + 2
    # Neighbouring frequencies go together in photographs; dealing them out keeps the parts even.
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


def near_groups(hashes: HashArray, bits: int = NEAR_BITS) -> IndexArray:
    """Group pictures whose hashes are linked by steps of at most `bits` differing bits.

    Args:
        hashes: (M,).
        bits: largest Hamming distance of a link.
    Returns:
        (M,) number of the first row of each row's group.
    """
    expect("near_groups", hashes=(hashes, "M"))
    if len(hashes) == 0:
        return np.zeros(0, dtype=np.int64)
    different, first, place = np.unique(hashes, return_index=True, return_inverse=True)
    count = len(different)
    labels = np.arange(count)
    waiting: list[tuple[IndexArray, IndexArray]] = []
    pending = 0
    for left, right in near_pairs(different, bits):
        apart = labels[left] != labels[right]
        waiting.append((labels[left[apart]], labels[right[apart]]))
        pending += int(apart.sum())
        # Linking in blocks keeps the memory at O(M), however many pairs there are.
        if pending > count:
            labels, waiting, pending = _linked(labels, waiting), [], 0
    labels = _linked(labels, waiting)
    lowest = np.full(count, len(hashes), dtype=np.int64)
    np.minimum.at(lowest, labels, first)
    return lowest[labels][place].astype(np.int64)


def _linked(labels: IndexArray, pairs: list[tuple[IndexArray, IndexArray]]) -> IndexArray:
    """Labels after joining those that pairs link.

    Args:
        labels: (M,) 0 to M − 1.
        pairs: blocks of two arrays of labels.
    """
    from scipy.sparse import coo_matrix
    from scipy.sparse.csgraph import connected_components

    if not pairs:
        return labels
    left, right = (np.concatenate(side) for side in zip(*pairs, strict=True))
    size = len(labels)
    link = coo_matrix((np.ones(len(left), dtype=np.int8), (left, right)), shape=(size, size))
    joined: IndexArray = connected_components(link, directed=False)[1].astype(np.int64)
    return joined[labels]
