"""Perceptual hashes against a plain DCT, groups against every pair."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from limner.pictures.hashes import near_groups, near_pairs, phash


def smooth(seed, size=(200, 150)):
    rng = np.random.default_rng(seed)
    return Image.fromarray(rng.integers(0, 256, (6, 8, 3), dtype=np.uint8)).resize(
        size, Image.Resampling.BICUBIC
    )


def distance(one, other):
    return (one ^ other).bit_count()


def test_hash_equals_a_plain_cosine_sum():
    image = smooth(1)
    grey = np.asarray(image.convert("L").resize((32, 32), Image.Resampling.LANCZOS), dtype=float)
    low = [
        [
            sum(
                grey[y, x]
                * math.cos(math.pi * v * (2 * y + 1) / 64)
                * math.cos(math.pi * u * (2 * x + 1) / 64)
                for y in range(32)
                for x in range(32)
            )
            for u in range(8)
        ]
        for v in range(8)
    ]
    flat = [value for row in low for value in row]
    middle = (sorted(flat)[31] + sorted(flat)[32]) / 2
    due = int("".join("1" if value > middle else "0" for value in flat), 2)
    assert phash(image) == due


@pytest.mark.parametrize("seed", range(5))
def test_copies_are_near_and_others_far(seed):
    image = smooth(seed)
    assert distance(phash(image), phash(image.resize((80, 60)))) <= 4
    assert distance(phash(image), phash(image.point(lambda value: value * 0.9 + 10))) <= 4
    assert distance(phash(image), phash(smooth(seed + 100))) > 12


@pytest.mark.parametrize("level", [0, 7, 128, 255])
def test_an_even_picture_has_the_hash_of_its_mean_alone(level):
    assert phash(Image.new("L", (50, 40), level)) in (0, 1 << 63)


def clusters(draw_seed, count):
    """Hashes in chains and clusters, so that groups are not all of one."""
    rng = np.random.default_rng(draw_seed)
    hashes = [int(rng.integers(0, 2**63))]
    while len(hashes) < count:
        base = (
            hashes[int(rng.integers(len(hashes)))] if rng.random() < 0.7 else int(rng.integers(0, 2**63)) * 2
        )
        for _ in range(int(rng.integers(0, 7))):
            base ^= 1 << int(rng.integers(64))
        hashes.append(base)
    return hashes


def groups_of_all_pairs(hashes, bits):
    first = list(range(len(hashes)))
    changed = True
    while changed:
        changed = False
        for one in range(len(hashes)):
            for other in range(len(hashes)):
                if distance(hashes[one], hashes[other]) <= bits and first[other] > first[one]:
                    first[other], changed = first[one], True
    return first


@settings(deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 40), st.integers(0, 8))
def test_groups_equal_those_of_all_pairs(seed, count, bits):
    hashes = clusters(seed, count)
    found = near_groups(np.array(hashes, dtype=np.uint64), bits)
    assert found.tolist() == groups_of_all_pairs(hashes, bits)


@settings(deadline=None)
@given(st.lists(st.integers(0, 2**64 - 1), unique=True, min_size=2, max_size=30), st.integers(0, 16))
def test_pairs_equal_all_pairs(hashes, bits):
    # Few distinct bits make many pairs near.
    hashes = sorted({value & 0x0F0F00000000F0F3 for value in hashes})
    found = {
        tuple(sorted(pair))
        for left, right in near_pairs(np.array(hashes, dtype=np.uint64), bits)
        for pair in zip(left.tolist(), right.tolist(), strict=True)
    }
    due = {
        (one, other)
        for one in range(len(hashes))
        for other in range(one + 1, len(hashes))
        if distance(hashes[one], hashes[other]) <= bits
    }
    assert found == due


def test_many_equal_hashes_are_one_group_without_pairs():
    hashes = np.full(200_000, 0x5555, dtype=np.uint64)
    hashes[-1] = np.uint64(2**64 - 1)
    found = near_groups(hashes)
    assert found[:-1].max() == 0
    assert found[-1] == len(hashes) - 1


def test_nothing():
    assert near_groups(np.zeros(0, dtype=np.uint64)).tolist() == []


def test_pictures_of_one_colour_are_no_copies_of_each_other():
    levels = [phash(Image.new("RGB", (50, 40), colour)) for colour in ("red", "white", "black", "black")]
    photograph = phash(smooth(1))
    hashes = np.array([photograph, *levels, 0b111, photograph], dtype=np.uint64)
    times = np.zeros(len(hashes))
    assert near_groups(hashes, taken=times).tolist() == [0, 1, 2, 3, 4, 5, 0]
    assert near_groups(hashes[1:5]).tolist() == [0, 1, 2, 3]


def changed(value, bits):
    """A hash that differs in so many bits."""
    return value ^ sum(1 << 3 * place for place in range(bits))


@pytest.mark.parametrize(
    ("bits", "apart_s", "same"),
    [
        (16, 1, True),
        (17, 1, False),
        (16, 2, False),
        (16, math.nan, False),
        (4, 9999, True),
        (4, math.nan, True),
    ],
)
def test_a_burst_is_one_group_and_copies_are_whenever_taken(bits, apart_s, same):
    one = phash(smooth(3))
    hashes = np.array([phash(smooth(9)), one, changed(one, bits)], dtype=np.uint64)
    found = near_groups(hashes, taken=np.array([math.nan, 100, 100 + apart_s]))
    assert found.tolist() == [0, 1, 1 if same else 2]


def test_a_long_burst_within_one_second_is_one_group_in_any_order():
    one = phash(smooth(3))
    hashes = np.array([changed(one, 8), *[phash(smooth(20 + n)) for n in range(6)], one], dtype=np.uint64)
    assert near_groups(hashes, taken=np.full(8, 5.0)).tolist() == [0, 1, 2, 3, 4, 5, 6, 0]
