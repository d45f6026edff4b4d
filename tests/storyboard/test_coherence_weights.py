"""How much context and agreement count is read off the text and its candidates."""

import numpy as np
import pytest
from boards import TablePairwise

from limner.storyboard.calibration import load
from limner.storyboard.coherence import Coherence, Curve, Reading, read
from limner.storyboard.lattice import Indifferent


def test_entropy_and_expected_agreement_by_hand():
    unary = np.log(np.array([[0.5, 0.5], [0.9, 0.1]]))
    items = np.array([[0, 1], [2, 3]])
    table = np.zeros((4, 4))
    table[0, 2] = table[2, 0] = 4.0
    table[1, 3] = table[3, 1] = -2.0
    found = read(unary, items, np.arange(4), TablePairwise(table), 8)
    entropies = [np.log(2), -(0.9 * np.log(0.9) + 0.1 * np.log(0.1))]
    assert found.ambiguity == pytest.approx(np.mean(entropies) / np.log(8))
    assert found.agreement == pytest.approx(0.5 * 0.9 * 4.0 + 0.5 * 0.1 * -2.0)


def test_a_picture_says_nothing_about_its_own_group():
    unary, items = np.zeros((2, 2)), np.array([[0, 1], [0, 1]])
    table = np.array([[9.0, 1.0], [1.0, 9.0]])
    assert read(unary, items, np.arange(2), TablePairwise(table), 2).agreement == pytest.approx(1.0)
    assert read(unary, items, np.zeros(2, int), TablePairwise(table), 2).agreement == 0


def test_empty_steps_and_single_steps_are_read_too():
    nothing = np.full((2, 3), -np.inf)
    items = np.zeros((2, 3), int)
    assert read(nothing, items, np.zeros(1, int), Indifferent(), 0) == Reading(ambiguity=0, agreement=0)
    one = np.array([[1.0, 0.0, -np.inf], [-np.inf] * 3])
    found = read(one, np.array([[0, 1, 0], [0, 0, 0]]), np.arange(2), Indifferent(), 2)
    share = 1 / (1 + np.exp(-1.0))
    assert found.ambiguity == pytest.approx(
        -(share * np.log(share) + (1 - share) * np.log(1 - share)) / np.log(2)
    )
    assert found.agreement == 0
    assert read(np.zeros((0, 0)), np.zeros((0, 0), int), np.zeros(0, int), Indifferent(), 1).ambiguity == 0


def test_a_curve_stays_between_zero_and_its_largest():
    curve = Curve(largest=0.6, offset=-2.0, ambiguity=1.0, agreement=0.5)
    assert curve.weight(Reading(ambiguity=2.0, agreement=0.0)) == pytest.approx(0.3)
    assert curve.weight(Reading(ambiguity=1e4, agreement=0.0)) == pytest.approx(0.6)
    assert curve.weight(Reading(ambiguity=0.0, agreement=-1e6)) == pytest.approx(0.0, abs=1e-9)


def test_the_shipped_curves_trust_a_telling_text_and_hold_an_open_one_together():
    shipped = load()
    for space in ("captions", "visual", "colour", "anything"):
        assert isinstance(shipped.coherent(space), Coherence)
    context, pair = shipped.coherent("captions").weights(Reading(ambiguity=0.3, agreement=0.0))
    opened = shipped.coherent("captions").weights(Reading(ambiguity=0.55, agreement=0.0))
    assert context < opened[0]
    assert pair < opened[1]
