"""Fitting log-likelihood ratios: known answers come back, and the costs are what they say."""

import dataclasses
import importlib.util
from pathlib import Path

import numpy as np
import pytest

from limner.errors import DataError
from limner.evaluation.fitting import cost, fit_evidence, ratios, standardised, text_pairs, weighted
from limner.library.channels import Evidence

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "evidence.py"
MADE = importlib.util.spec_from_file_location("evidence", BENCHMARK)
evidence = importlib.util.module_from_spec(MADE)
MADE.loader.exec_module(evidence)


def gaussian(matches, others, seed=0, shift=1.0):
    """Two unit Gaussians `shift` apart: the ratio is exactly shift · (s − middle)."""
    rng = np.random.default_rng(seed)
    cosine = np.concatenate([rng.normal(shift, 1, matches), rng.normal(0, 1, others)])
    match = np.arange(matches + others) < matches
    return weighted(cosine, rng.normal(size=len(cosine)), match)


@pytest.mark.parametrize("others", [4000, 40_000])
def test_a_ratio_not_a_posterior_whatever_the_mix_of_the_sample(others):
    found = fit_evidence(gaussian(4000, others), "slope")
    assert found.slope == pytest.approx(1.0, abs=0.1)
    assert found.offset == pytest.approx(-0.5, abs=0.12)
    assert found.z_slope == 0.0


def test_the_form_decides_what_the_ratio_depends_on():
    pairs = gaussian(3000, 9000)
    swapped = weighted(pairs.z, pairs.cosine, pairs.match)
    only_z = fit_evidence(swapped, "z")
    assert (only_z.slope, only_z.z_slope) == (0.0, pytest.approx(1.0, abs=0.12))
    both = fit_evidence(pairs, "both")
    assert both.slope == pytest.approx(1.0, abs=0.12)
    assert both.z_slope == pytest.approx(0.0, abs=0.12)


def test_cost_is_one_for_nothing_and_falls_with_knowledge():
    pairs = gaussian(3000, 9000)
    assert cost(Evidence(slope=0, z_slope=0, offset=0), pairs) == pytest.approx(1.0)
    right = cost(fit_evidence(pairs, "slope"), pairs)
    assert right < 1
    assert cost(Evidence(slope=5, z_slope=0, offset=-2.5), pairs) > right
    assert cost(Evidence(slope=-1, z_slope=0, offset=0), pairs) > 1


def test_worlds_count_the_same_whatever_their_size():
    small, large = gaussian(50, 200, seed=1), gaussian(5000, 20_000, seed=2, shift=3.0)
    both = evidence.pooled([small, large])
    nothing = Evidence(slope=0, z_slope=0, offset=1.0)
    assert cost(nothing, both) == pytest.approx((cost(nothing, small) + cost(nothing, large)) / 2)
    some = Evidence(slope=0.7, z_slope=0, offset=-0.2)
    assert cost(some, both) == pytest.approx((cost(some, small) + cost(some, large)) / 2)


def test_pairs_hold_all_matches_and_a_sample_of_the_rest():
    rng = np.random.default_rng(3)
    scores = rng.random((6, 40))
    match = np.zeros((6, 40), dtype=bool)
    match[np.arange(6), [0, 5, 9, 9, 30, 39]] = True
    match[2, 11] = True
    pairs = text_pairs(scores, match, others=10)
    assert (pairs.match.sum(), (~pairs.match).sum()) == (7, 60)
    assert sorted(pairs.cosine[pairs.match]) == sorted(scores[match])
    assert set(pairs.cosine[~pairs.match]) <= set(scores[~match])
    assert pairs.weight[pairs.match].sum() == pytest.approx(1)
    assert pairs.weight[~pairs.match].sum() == pytest.approx(1)
    lookup = dict(zip(scores.ravel().tolist(), standardised(scores).ravel().tolist(), strict=True))
    assert [lookup[value] for value in pairs.cosine.tolist()] == pairs.z.tolist()
    assert text_pairs(scores, match, others=10).cosine.tolist() == pairs.cosine.tolist()
    with pytest.raises(DataError, match="every text needs"):
        text_pairs(scores, np.zeros_like(match))


def test_gain_is_zero_for_guessing_and_negative_for_conceit():
    match = np.eye(4, dtype=bool)
    assert evidence.gain(np.full((4, 4), 3.0), match) == pytest.approx(0)
    sure = np.where(match, 50.0, 0.0)
    assert evidence.gain(sure, match) == pytest.approx(np.log(4))
    assert evidence.gain(-sure, match) < -40


def test_pooled_evidence_is_the_log_mean_exp_of_what_is_usable():
    nats = np.array([[0.0, np.log(3), 700.0], [1000.0, 1000.0, -1000.0]])
    usable = np.array([[True, True, False], [True, True, True]])
    found = evidence.pooled_evidence(nats, usable)
    assert found[0] == pytest.approx(np.log(2))
    assert found[1] == pytest.approx(1000 + np.log(2 / 3))
    assert evidence.pooled_evidence(nats[:1, :2])[0] == pytest.approx(np.log(2))
    with pytest.raises(DataError, match="text 1 has no picture"):
        evidence.pooled_evidence(nats, np.array([[True, True, True], [False, False, False]]))


def test_standard_scores_of_a_constant_row_are_zero():
    z = standardised(np.array([[1.0, 3.0], [2.0, 2.0]]))
    assert z.tolist() == [[-1, 1], [0, 0]]


def test_a_line_through_known_probabilities_comes_back():
    rng = np.random.default_rng(4)
    values = rng.normal(size=40_000)
    positive = rng.random(40_000) < 1 / (1 + np.exp(-(0.8 * values - 0.3)))
    slope, offset = evidence.fit_line(values, positive, np.ones(40_000))
    assert (slope, offset) == (pytest.approx(0.8, abs=0.06), pytest.approx(-0.3, abs=0.05))


def test_weights_of_examples_count_as_copies():
    values = np.array([0.0, 1.0, 2.0, 3.0])
    positive = np.array([False, True, False, True])
    copies = np.array([1, 2, 1, 3])
    weighed = evidence.fit_line(values, positive, copies.astype(float))
    copied = evidence.fit_line(np.repeat(values, copies), np.repeat(positive, copies), np.ones(7))
    assert weighed == pytest.approx(copied, rel=1e-4)


def test_ratios_follow_the_formula():
    found = ratios(Evidence(slope=2, z_slope=3, offset=-1), np.array([0.5]), np.array([2.0]))
    assert found.tolist() == [6.0]


def test_what_cannot_be_fitted_is_refused():
    pairs = gaussian(10, 10)
    with pytest.raises(DataError, match="both kinds"):
        fit_evidence(dataclasses.replace(pairs, match=np.ones_like(pairs.match)))
    with pytest.raises(DataError, match="both kinds"):
        evidence.fit_line(np.zeros(2), np.array([True, True]), np.ones(2))
