"""How alike two pictures are, in nats."""

import numpy as np
import pytest
from boards import space, unit

from limner.errors import DataError
from limner.research.evaluation.linear import MIXING, cosine_pairwise
from limner.store.search import Evidence, Index
from limner.store.vectors import Gallery


def made(groups=None, present=None, **evidence):
    vectors = unit(np.random.default_rng(1).normal(size=(6, 4)) + 0.5)
    ids = [str(row) for row in range(6)]
    gallery = Gallery(ids, groups or ids, {"visual": space(vectors, present)})
    numbers = {"slope": 0.0, "z_slope": 0.0, "offset": 0.0} | evidence
    return cosine_pairwise(Index(gallery), "visual", Evidence(**numbers), 2.0), gallery


def test_value_by_hand():
    table, gallery = made(slope=3.0, z_slope=1.5, offset=-0.2)
    matrix = gallery.spaces["visual"].matrix.astype(np.float64)
    cosines = matrix @ matrix.T
    mean, std = cosines.mean(axis=1), cosines.std(axis=1)
    a, b = 1, 4
    z = ((cosines[a, b] - mean[a]) / std[a] + (cosines[a, b] - mean[b]) / std[b]) / 2
    nats = 3.0 * cosines[a, b] + 1.5 * z - 0.2
    due = 2.0 * np.log(1 - MIXING + MIXING * np.exp(nats))
    assert table[a, b] == pytest.approx(due, abs=1e-4)


def test_symmetric():
    table, _ = made(slope=3.0, z_slope=1.5, offset=-0.2, groups=list("aabbcd"))
    assert table == pytest.approx(table.T, abs=1e-5)


def test_a_picture_agrees_with_itself_only_as_well_as_with_its_closest_other():
    table, _ = made(slope=1.0, groups=list("aabcde"))
    assert table[3, 3] == pytest.approx(np.delete(table[3], 3).max(), abs=1e-5)
    assert table[0, 1] == pytest.approx(min(table[0, 2:].max(), table[1, 2:].max()), abs=1e-5)
    lonely, _ = made(slope=1.0, groups=["a"] * 6)
    assert (lonely == 0).all()


def test_a_picture_without_a_vector_is_indifferent():
    table, _ = made(slope=1.0, offset=3.0, present=[True, False, True, True, True, True])
    assert (table[1, [0, 2, 3, 4, 5]] == 0).all()
    assert (table[0, [2, 3, 4, 5]] != 0).all()


def test_unknown_space_is_named():
    _, gallery = made()
    with pytest.raises(DataError, match="did you mean 'visual'"):
        cosine_pairwise(Index(gallery), "visul", Evidence(slope=1, z_slope=0, offset=0), 1.0)


def test_unlike_pictures_speak_against_each_other_only_so_much():
    table, _ = made(slope=0.0, offset=-1e6)
    assert np.delete(table[0], 0) == pytest.approx(np.full(5, 2.0 * np.log(1 - MIXING)))
