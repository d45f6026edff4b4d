"""The calibrated price of a blank."""

import numpy as np
import pytest
from pydantic import ValidationError

from limner.errors import ConfigError
from limner.retrieval.suitability import UNAVOIDABLE, Suitability

CURVE = Suitability(slope=2.0, offset=-1.0, threshold=0.3)


def test_probability_by_hand():
    found = CURVE.probability(np.array([0.5, 1.5, -np.inf]))
    assert found == pytest.approx([0.5, 1 / (1 + np.exp(-2)), 0.0])


def test_alone_a_step_is_blank_exactly_below_the_threshold():
    evidence = np.linspace(-3, 3, 41)
    best = np.full(41, 1.7)
    for threshold in (None, 0.05, 0.5, 0.9):
        price = CURVE.blank_price(evidence, best, threshold=threshold)
        assert ((price > best) == (CURVE.probability(evidence) < (threshold or 0.3))).all()


def test_margin_is_measured_in_nats_of_log_odds():
    price = CURVE.blank_price(np.array([2.0]), np.array([4.0]), threshold=0.5)
    assert price == pytest.approx([4.0 - 3.0])


def test_threshold_zero_never_abstains_and_an_empty_search_costs_nothing():
    assert (CURVE.blank_price(np.array([-50.0]), np.array([0.0]), threshold=0) == UNAVOIDABLE).all()
    assert CURVE.blank_price(np.array([-np.inf]), np.array([-np.inf])) == [0.0]


def test_impossible_thresholds_are_refused():
    with pytest.raises(ConfigError, match="threshold is 1"):
        CURVE.blank_price(np.zeros(1), np.zeros(1), threshold=1.0)
    with pytest.raises(ValidationError):
        Suitability(slope=1, offset=0, threshold=1.5)
