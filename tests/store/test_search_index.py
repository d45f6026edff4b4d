"""Exact search: all texts against all pictures, as one product says, whatever the blocks."""

import numpy as np
import pytest
from made_up_library import drawn

from limner.errors import ConfigError, DataError, NumericsError, ShapeError
from limner.store import search, vectors
from limner.store.search import COSINE, EncodedChannel, Evidence, Index
from limner.store.vectors import Gallery, Moments, Space

PICTURES, WIDTH = 500, 16
ROWS, OTHER = drawn(PICTURES, WIDTH), drawn(PICTURES, WIDTH, 1)
TEXTS = drawn(7, WIDTH, 2)
STEEP = Evidence(slope=2.0, z_slope=0.5, offset=-1.0)
IDS = [f"{number:064x}" for number in range(PICTURES)]


def gallery(first=ROWS, other=OTHER, rows=None):
    return Gallery(IDS, np.arange(PICTURES), {"a": Space(first, rows=rows), "b": Space(other)})


def channel(name, texts=TEXTS, evidence=STEEP, beside=1.0):
    return EncodedChannel(name, name, evidence, texts, beside)


def evidence_of(rows, texts, evidence=STEEP):
    """The formula, in float64."""
    cosines = texts.astype(np.float64) @ rows.astype(np.float64).T
    there = rows.any(axis=1)
    mean, std = cosines[:, there].mean(axis=1), cosines[:, there].std(axis=1)
    z = (cosines - mean[:, None]) / std[:, None]
    return np.where(there, evidence.slope * cosines + evidence.z_slope * z + evidence.offset, 0.0)


@pytest.mark.parametrize(("block", "held"), [(16_384, 1 << 26), (33, 1 << 26), (100, 900)])
def test_the_best_are_those_of_the_formula(monkeypatch, block, held):
    monkeypatch.setattr(vectors, "BLOCK_ROWS", block)
    monkeypatch.setattr(search, "SCORES", held)
    absent = ROWS.copy()
    absent[::3] = 0
    barred = np.zeros(PICTURES, dtype=bool)
    barred[10:60] = True
    found = Index(gallery(absent)).search([channel("a"), channel("b", beside=0.25)], 9, exclude=barred)
    weight = np.where(absent.any(axis=1), 0.25, 1.0)
    due = evidence_of(absent, TEXTS) + weight * evidence_of(OTHER, TEXTS)
    due[:, barred] = -np.inf
    rows = np.argsort(-due, axis=1, kind="stable")[:, :9]
    np.testing.assert_array_equal(found.rows, rows)
    np.testing.assert_allclose(found.scores, np.take_along_axis(due, rows, axis=1), atol=1e-4)
    mass = np.log(np.exp(due[:, ~barred]).mean(axis=1))
    np.testing.assert_allclose(found.evidence, mass, atol=1e-4)
    scored = Index(gallery(absent)).score([channel("a"), channel("b", beside=0.25)], np.array([3, 4]))
    np.testing.assert_allclose(scored.scores, (due)[:, [3, 4]], atol=1e-4)
    assert scored.present["a"].tolist() == [False, True]


def test_rows_lie_elsewhere_in_the_file():
    order = np.random.default_rng(0).permutation(PICTURES)
    matrix = np.vstack([np.zeros((1, WIDTH), np.float32), ROWS[order]])
    rows = np.argsort(order) + 1
    rows[5] = 0  # without a vector
    found = Index(gallery(matrix, rows=rows)).search([channel("a", evidence=COSINE)], PICTURES)
    without = ROWS.copy()
    without[5] = 0
    due = np.argsort(-(TEXTS @ without.T), axis=1, kind="stable")
    np.testing.assert_array_equal(found.rows[:, :50], due[:, :50])
    assert not found.present["a"][found.rows == 5].any()


def test_equal_scores_come_by_number_and_few_pictures_are_all_there_are():
    same = np.tile(ROWS[:1], (PICTURES, 1))
    found = Index(gallery(same)).search([channel("a", evidence=COSINE)], 40)
    assert found.rows.tolist() == [list(range(40))] * len(TEXTS)
    assert Space(same).moments.of_cosines(TEXTS)[1].tolist() == [0.0] * len(TEXTS)
    barred = np.ones(PICTURES, dtype=bool)
    assert Index(gallery()).search([channel("a")], 5, exclude=barred).rows.shape == (len(TEXTS), 0)
    barred[7] = False
    assert Index(gallery()).search([channel("a")], 5, exclude=barred).rows.tolist() == [[7]] * len(TEXTS)


def test_a_text_that_a_channel_cannot_read_has_no_evidence():
    texts = TEXTS.copy()
    texts[0] = 0
    found = Index(gallery()).search([channel("a", texts), channel("b")], 3)
    assert not found.shares["a"][0].any()
    assert found.shares["a"][1:].all()


def test_moments_are_those_of_all_rows_or_of_many(monkeypatch):
    cosines = TEXTS.astype(np.float64) @ ROWS.T.astype(np.float64)
    mean, std = Moments.of(ROWS).of_cosines(TEXTS)
    np.testing.assert_allclose(mean, cosines.mean(axis=1), atol=1e-6)
    np.testing.assert_allclose(std, cosines.std(axis=1), atol=1e-5)
    assert Moments.of(ROWS[:0]).of_cosines(TEXTS)[0].tolist() == [0.0] * len(TEXTS)
    monkeypatch.setattr(vectors, "SAMPLED", 250)
    assert Space(ROWS).moments.mean == pytest.approx(ROWS[::2].mean(axis=0), abs=0.02)


def test_what_is_wrong():
    index, broken = Index(gallery()), ROWS.copy()
    broken[3, 0] = np.nan
    for channels, k in (([], 1), ([channel("a"), channel("a")], 1), ([channel("a")], 0)):
        with pytest.raises(ConfigError):
            index.search(channels, k)
    with pytest.raises(DataError, match="unknown space 'c'"):
        index.search([channel("c")], 1)
    with pytest.raises(ShapeError):
        index.search([channel("a", TEXTS[:, :5])], 1)
    with pytest.raises(NumericsError, match="text vector"):
        index.search([channel("a", np.full_like(TEXTS, np.nan))], 1)
    with pytest.raises(NumericsError, match="not finite"):
        Index(gallery(broken)).search([channel("a", evidence=COSINE)], 1)
