"""The chance that a picture fits, which candidates may be shown, and the price of a blank."""

import numpy as np
import pytest
from pydantic import ValidationError

from limner.errors import ConfigError
from limner.retrieval.suitability import UNAVOIDABLE, Chances, Found, Suitability

CURVE = Suitability(slope=2.0, offset=-1.0, deficit=0.5, threshold=0.3)
UNARY = np.array([[3.0, 1.0, -np.inf], [0.0, -1.0, -4.0], [-np.inf] * 3])
FOUND = Found(np.array([0.5, 1.5, -np.inf]), UNARY, available=3)


def logistic(odds):
    return 1 / (1 + np.exp(-odds))


def test_probability_by_hand():
    chances = Chances(CURVE, FOUND)
    assert chances.best_probability == pytest.approx([0.5, logistic(2.0), 0.0])
    assert chances.probability[0] == pytest.approx([0.5, logistic(-1.0), 0.0])
    assert chances.probability[1] == pytest.approx([logistic(2.0), logistic(1.5), logistic(0.0)])
    assert (chances.probability[2] == 0).all()


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
    assert (may == (chances.probability >= (threshold or 0.3))).all()


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
    with pytest.raises(ConfigError, match="threshold is 1"):
        Chances(CURVE, FOUND, threshold=1.0)
    with pytest.raises(ValidationError):
        Suitability(slope=1, offset=0, threshold=1.5)
