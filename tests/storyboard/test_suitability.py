"""The chance that a picture fits, which candidates may be shown, and the price of a blank."""

import numpy as np
import pytest
from pydantic import ValidationError

from limner.storyboard.calibration import SPARE, UNAVOIDABLE, Chances, Found, Holding, Suitability

CURVE = Suitability(slope=2.0, offset=-1.0, deficit=0.5, threshold=0.3)
UNARY = np.array([[3.0, 1.0, -np.inf], [0.0, -1.0, -4.0], [-np.inf] * 3])
FOUND = Found(np.array([0.5, 1.5, -np.inf]), UNARY, available=3)


def logistic(odds):
    return 1 / (1 + np.exp(-odds))


def test_probability_by_hand():
    chances = Chances(CURVE, FOUND)
    found = [[chances.probability(step, column) for column in (None, 0, 1, 2)] for step in range(3)]
    assert found[0] == pytest.approx([0.5, 0.5, logistic(-1.0), 0.0])
    assert found[1] == pytest.approx([logistic(2.0), logistic(2.0), logistic(1.5), logistic(0.0)])
    assert found[2] == [0, 0, 0, 0]


def test_every_feature_counts_as_the_formula_says():
    curve = Suitability(slope=1.0, peak=2.0, size=-0.5, text=0.25, offset=0.1, threshold=0)
    one = Found(np.array([0.5, 1.5]), np.array([[0.0, 0.0], [2.0, -np.inf]]), available=8)
    peak = np.array([-np.log(2), 0.0])
    due = np.array([0.5, 1.5]) + 2 * peak - 0.5 * np.log(8) + 0.25 * 1.0 + 0.1
    assert curve.log_odds(one) == pytest.approx(due)


@pytest.mark.parametrize("threshold", [None, 0.05, 0.45, 0.9])
def test_a_candidate_may_be_shown_exactly_from_the_threshold_on(threshold):
    chances = Chances(CURVE, FOUND, threshold=threshold)
    may = chances.admitted(np.zeros(UNARY.shape))
    for step, column in np.ndindex(may.shape):
        assert may[step, column] == (chances.probability(step, column) >= (threshold or 0.3))


def test_fixed_pictures_may_rescue_a_candidate_and_never_sink_one():
    chances = Chances(CURVE, FOUND, threshold=0.45)
    alone = chances.admitted(np.zeros(UNARY.shape))
    assert alone.tolist() == [[True, False, False], [True, True, True], [False] * 3]
    assert chances.admitted(np.full(UNARY.shape, 5.0))[0].tolist() == [True, True, False]
    assert (chances.admitted(np.full(UNARY.shape, -5.0)) == alone).all()


def test_a_blank_is_worth_a_candidate_at_the_threshold_whom_all_neighbours_contradict():
    chances = Chances(CURVE, FOUND, threshold=0.5)
    # Log-odds 2 of the best fall by 0.5 a nat: 4 nats below it a candidate is at the threshold.
    assert chances.blank_prices(-1.5)[:2] == pytest.approx([3.0 - 1.5, 0.0 - 4.0 - 1.5])
    assert chances.blank_prices(0.0)[2] == 0


def test_threshold_zero_never_abstains():
    chances = Chances(CURVE, FOUND, threshold=0)
    assert (chances.blank_prices(-1.0) == UNAVOIDABLE).all()
    assert (chances.admitted(np.zeros(UNARY.shape)) == np.isfinite(UNARY)).all()


def test_impossible_thresholds_are_refused():
    with pytest.raises(ValidationError):
        Suitability(slope=1, offset=0, threshold=1.5)


def test_below_the_threshold_the_best_are_shown_where_the_library_seems_to_hold_one():
    """Both must speak for a blank: the candidate's own chance, and the step beside the rest of its text."""
    holding = Holding(slope=1.0, text=-1.0, offset=0.0, threshold=0.5)
    curve = Suitability(slope=0.0, offset=-3.0, deficit=1.0, threshold=0.5, holding=holding)
    found = Found(np.array([1.0, -1.0]), np.array([[0.0, -1.5, -9.0], [0.0, -1.5, -9.0]]), available=3)
    nothing = np.zeros(found.unary.shape)
    chances = Chances(curve, found)
    # Evidence above the text's mean: the best and what is within SPARE of it; below: none.
    assert chances.admitted(nothing).tolist() == [[True, True, False], [False, False, False]]
    assert chances.blank_prices(0.0) == pytest.approx([-SPARE, 3.0])
    assert chances.admits(np.array([-1.0, -1.0])).tolist() == [True, False]
    asked = Chances(curve, found, threshold=0.5)  # what the user asks for goes before it
    assert not asked.admitted(nothing).any()


def test_a_coherent_text_counts_as_the_formula_says():
    curve = Suitability(slope=0.0, coherence=2.0, offset=-1.0, threshold=0)
    found = Found(np.array([0.0]), np.array([[1.0]]), available=1, coherence=0.75)
    assert curve.log_odds(found) == pytest.approx([0.5])
