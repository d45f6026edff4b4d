"""Visual coherence in nats."""

import numpy as np
import pytest
from boards import space, unit

from limner.errors import DataError
from limner.library.channels import Evidence
from limner.library.gallery import Gallery
from limner.library.search import Index
from limner.storyboard import coherence
from limner.storyboard.coherence import MIXING, CosinePairwise, Walk, WalkedPairwise, walks


def made(groups=None, present=None, **evidence):
    vectors = unit(np.random.default_rng(1).normal(size=(6, 4)) + 0.5)
    ids = [str(row) for row in range(6)]
    gallery = Gallery(ids, groups or ids, {"visual": space(vectors, present)})
    numbers = {"slope": 0.0, "z_slope": 0.0, "offset": 0.0} | evidence
    rows = np.arange(6)
    return CosinePairwise(Index(gallery), "visual", rows, Evidence(**numbers), 2.0), gallery


def test_value_by_hand():
    pair, gallery = made(slope=3.0, z_slope=1.5, offset=-0.2)
    matrix = gallery.spaces["visual"].matrix.astype(np.float64)
    cosines = matrix @ matrix.T
    mean, std = cosines.mean(axis=1), cosines.std(axis=1)
    a, b = 1, 4
    z = ((cosines[a, b] - mean[a]) / std[a] + (cosines[a, b] - mean[b]) / std[b]) / 2
    nats = 3.0 * cosines[a, b] + 1.5 * z - 0.2
    due = 2.0 * np.log(1 - MIXING + MIXING * np.exp(nats))
    assert pair.block(np.array([a]), np.array([b]))[0, 0] == pytest.approx(due, abs=1e-4)


def test_symmetric_and_the_same_in_parts():
    pair, _ = made(slope=3.0, z_slope=1.5, offset=-0.2, groups=list("aabbcd"))
    everything = np.arange(6)
    table = pair.block(everything, everything)
    assert table == pytest.approx(table.T, abs=1e-5)
    assert pair.block(np.array([4, 0]), np.array([1, 2, 4])) == pytest.approx(
        table[np.ix_([4, 0], [1, 2, 4])], abs=1e-5
    )


def test_a_picture_agrees_with_itself_only_as_well_as_with_its_closest_other():
    pair, _ = made(slope=1.0, groups=list("aabcde"))
    table = pair.block(np.arange(6), np.arange(6))
    assert table[3, 3] == pytest.approx(np.delete(table[3], 3).max(), abs=1e-5)
    assert table[0, 1] == pytest.approx(min(table[0, 2:].max(), table[1, 2:].max()), abs=1e-5)
    lonely, _ = made(slope=1.0, groups=["a"] * 6)
    assert (lonely.block(np.arange(6), np.arange(6)) == 0).all()


def test_a_picture_without_a_vector_is_indifferent():
    pair, _ = made(slope=1.0, offset=3.0, present=[True, False, True, True, True, True])
    table = pair.block(np.arange(6), np.arange(6))
    assert (table[1, [0, 2, 3, 4, 5]] == 0).all()
    assert (table[0, [2, 3, 4, 5]] != 0).all()


def test_unknown_space_is_named():
    _, gallery = made()
    with pytest.raises(DataError, match="did you mean 'visual'"):
        CosinePairwise(Index(gallery), "visul", np.arange(2), Evidence(slope=1, z_slope=0, offset=0), 1.0)


def test_unlike_pictures_speak_against_each_other_only_so_much():
    pair, _ = made(slope=0.0, offset=-1e6)
    table = pair.block(np.arange(6), np.arange(6))
    assert pair.lowest == pytest.approx(2.0 * np.log(1 - MIXING))
    assert np.delete(table[0], 0) == pytest.approx(np.full(5, pair.lowest))
    half = pair.weighing(1.0)
    assert half.lowest == pytest.approx(pair.lowest / 2)
    assert half.block(np.arange(6), np.arange(6)) == pytest.approx(table / 2)


def by_inverse(vectors, walk):
    """What walks bring from each picture to each, by Zhou's closed form."""
    steps = (vectors @ vectors.T).astype(np.float64) / walk.temperature
    np.fill_diagonal(steps, -np.inf)
    shares = np.exp(steps - steps.max(axis=1, keepdims=True))
    shares /= shares.sum(axis=1, keepdims=True)
    mutual = (shares + shares.T) / 2
    sums = mutual.sum(axis=1)
    return np.linalg.inv(np.eye(len(vectors)) - walk.stay * mutual / np.sqrt(sums[:, None] * sums))


@pytest.mark.parametrize("walk", [Walk(temperature=0.1, stay=0.95), Walk(temperature=0.5, stay=0.5)])
def test_walks_are_the_closed_form(walk, monkeypatch):
    monkeypatch.setattr(coherence, "BLOCK_ROWS", 7)
    vectors = unit(np.random.default_rng(2).normal(size=(20, 4)))
    fixed = np.array([3, 17])
    found = walks(vectors, np.ones(20, dtype=bool), np.arange(20), fixed, walk)
    np.testing.assert_allclose(found, by_inverse(vectors, walk)[fixed], atol=1e-4)


def test_a_walk_takes_the_steps_that_look_most_alike(monkeypatch):
    vectors, every = unit(np.random.default_rng(2).normal(size=(20, 4))), np.ones(20, dtype=bool)
    walk = Walk(temperature=0.05, stay=0.8)
    due = walks(vectors, every, np.arange(20), np.array([0]), walk)
    monkeypatch.setattr(coherence, "STEPS", 12)
    np.testing.assert_allclose(
        walks(vectors, every, np.arange(20), np.array([0]), walk), due, rtol=0.05, atol=1e-4
    )


def test_no_walk_goes_over_a_near_duplicate_or_a_picture_without_a_vector():
    vectors = unit(np.random.default_rng(3).normal(size=(6, 4)))
    present = np.array([True, True, True, True, True, False])
    walk = Walk(temperature=0.2, stay=0.9)
    found = walks(vectors, present, np.arange(6), np.array([0, 5]), walk)
    np.testing.assert_allclose(
        found[0, :5], walks(vectors[:5], present[:5], np.arange(5), np.array([0]), walk)[0]
    )
    assert found[0, 5] == 0
    assert (found[1] == [0, 0, 0, 0, 0, 1]).all()
    alone = walks(vectors[:2], present[:2], np.zeros(2, dtype=int), np.array([0]), walk)
    assert (alone == [[1, 0]]).all()
    assert walks(vectors[:0], present[:0], np.arange(0), np.arange(0), walk).shape == (0, 0)


def test_what_looks_like_a_picture_that_looks_like_the_fixed_one_gains():
    """The third is as far from the fixed one as the fourth, but the second lies between."""
    angles = np.radians([0, 40, 80, -80, -90, -100])
    vectors = unit(np.stack([np.cos(angles), np.sin(angles)], axis=1))
    ids = list("abcdef")
    index = Index(Gallery(ids, ids, {"visual": space(vectors)}))
    plain = CosinePairwise(index, "visual", np.arange(6), Evidence(slope=1.0, z_slope=0.0, offset=0.0), 2.0)
    every = np.arange(6)
    before = plain.block(np.array([0]), every)[0]
    assert before[2] == pytest.approx(before[3], abs=1e-5)
    fixed = np.array([0])
    pair = WalkedPairwise(plain, fixed, Walk(temperature=0.1, stay=0.9))
    after = pair.block(fixed, every)[0]
    assert min(after[1], after[2]) > after[3] + 1
    assert after[3] >= pair.lowest
    others = np.arange(1, 6)
    np.testing.assert_array_equal(pair.block(others, fixed)[:, 0], after[1:])
    np.testing.assert_array_equal(pair.block(others, others), plain.block(others, others))
    assert after[0] == before[0]
    reached = by_inverse(vectors, Walk(temperature=0.1, stay=0.9))[0, 1:]
    due = 2.0 * np.log(1 - MIXING + MIXING * 5 * reached / reached.sum())
    np.testing.assert_allclose(after[1:], due, atol=1e-3)
    np.testing.assert_allclose(pair.weighing(1.0).block(fixed, others)[0], due / 2, atol=1e-3)
    assert pair.weighing(1.0).lowest == plain.lowest / 2
    more = WalkedPairwise(plain, fixed, Walk(temperature=0.1, stay=0.9, weight=1.5))
    np.testing.assert_allclose(more.block(others, fixed), 1.5 * pair.block(others, fixed))
    np.testing.assert_array_equal(more.block(others, others), plain.block(others, others))
    assert more.lowest == 1.5 * plain.lowest


def test_a_fixed_picture_without_a_vector_says_nothing():
    pair, _ = made(slope=1.0, present=[False, True, True, True, True, False])
    walked = WalkedPairwise(pair, np.array([0, 2]), Walk(temperature=0.1, stay=0.9))
    table = walked.block(np.array([0, 2]), np.arange(6))
    assert not table[0].any()
    assert table[1, [1, 3, 4]].all()
    assert table[1, 5] == 0
