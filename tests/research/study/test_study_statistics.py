"""Sign test, t-test, effect size and power against hand values and docs/methods/evaluation.md §9.4."""

import math

import numpy as np
import pytest

from limner.research.study.statistics import (
    detectable_effect,
    effect_interval,
    mean_test,
    power_of,
    sign_test,
)


def test_sign_test_by_hand():
    found = sign_test(9, 1)
    # 2 · (C(10,0) + C(10,1)) / 2^10
    assert found.p_value == pytest.approx(22 / 1024)
    assert found.share == 0.9
    assert sign_test(1, 9).p_value == pytest.approx(22 / 1024)
    assert sign_test(5, 5).p_value == 1


def test_clopper_pearson_of_all_wins_by_hand():
    # lower end solves p^5 = 0.025
    found = sign_test(5, 0)
    assert found.low == pytest.approx(0.025 ** (1 / 5))
    assert found.high == 1
    assert found.p_value == pytest.approx(2 / 32)


def test_no_wins_and_no_losses_say_nothing():
    found = sign_test(0, 0)
    assert (found.share, found.p_value, found.low, found.high) == (None, 1.0, 0.0, 1.0)


def test_mean_test_by_hand():
    # mean 1/2, variance with n − 1: (3 · 1/4 + 9/4) / 3 = 1, so t = (1/2) / (1 / 2) = 1
    found = mean_test([1, 1, 1, -1])
    assert found.mean == 0.5
    assert found.t == pytest.approx(1.0)
    assert found.effect == pytest.approx(0.5)
    # Student's t with 3 degrees of freedom: p = 1 − 2/π (1/√3 / (1 + 1/3) + atan(1/√3))
    due = 1 - 2 / math.pi * ((1 / math.sqrt(3)) / (4 / 3) + math.atan(1 / math.sqrt(3)))
    assert found.p_value == pytest.approx(due)


def test_the_published_shares_do_not_give_the_published_t():
    # CMCM_Visible of Table 6: 24 better, 17 worse of 100; the paper states t > 14.1, p < 0.01 for all rows
    found = mean_test([1] * 24 + [-1] * 17 + [0] * 59)
    assert found.t == pytest.approx(1.0943, abs=1e-4)
    assert sign_test(24, 17).p_value > 0.3


@pytest.mark.parametrize("scores", [[1], [1, 1, 1], [0, 0]])
def test_equal_scores_have_no_t_and_no_effect(scores):
    found = mean_test(scores)
    assert (found.t, found.p_value, found.effect, found.low, found.high) == (None,) * 5


@pytest.mark.slow
def test_effect_interval_covers_as_often_as_it_says():
    rng = np.random.default_rng(0)
    n, effect, hits = 20, 0.5, 0
    for _ in range(400):
        values = rng.normal(effect, 1, n)
        t = values.mean() / values.std(ddof=1) * math.sqrt(n)
        low, high = effect_interval(float(t), n)
        hits += low <= effect <= high
    assert 0.92 <= hits / 400 <= 0.98


def below(t, df, shift):
    """P(T ≤ t) of the noncentral t, integrated over the chi distribution of the deviation."""
    from scipy.integrate import quad
    from scipy.stats import chi, norm

    scale = math.sqrt(df)

    def density(u):
        return norm.cdf(t * u / scale - shift) * chi.pdf(u, df)

    middle = math.sqrt(df)
    return quad(density, max(0.0, middle - 12), middle + 12, points=[middle], limit=200)[0]


@pytest.mark.parametrize("t", [-6.0, -0.4, 0.0, 2.0, 14.1])
@pytest.mark.parametrize("n", [3, 10, 60, 450, 1564])
def test_effect_interval_leaves_its_tails(t, n):
    low, high = effect_interval(t, n)
    assert low <= t / math.sqrt(n) <= high
    assert 1 - below(t, n - 1, low * math.sqrt(n)) == pytest.approx(0.025, abs=1e-5)
    assert below(t, n - 1, high * math.sqrt(n)) == pytest.approx(0.025, abs=1e-5)


@pytest.mark.parametrize(("n", "due"), [(100, 0.36), (450, 0.17), (500, 0.161)])
def test_sensitivity_is_that_of_the_specification(n, due):
    digits = len(str(due).partition(".")[2])
    found = power_of(n, 0.05, 0.95)
    assert round(found.detectable, digits) == due
    assert detectable_effect(n) == pytest.approx(found.detectable, abs=1e-5)
    assert found.detectable_t == pytest.approx(found.detectable, rel=0.02)


@pytest.mark.parametrize("n", [3, 4, 10, 60, 72, 73, 120, 5000])
def test_the_detectable_effect_has_the_wished_power(n):
    # statsmodels' search gives a negative effect for n = 73
    from statsmodels.stats.power import TTestPower

    found = power_of(n, 0.05, 0.8)
    assert found.detectable_t >= found.detectable - 1e-4
    assert TTestPower().power(found.detectable_t, n, 0.025, alternative="larger") == pytest.approx(
        0.8, abs=1e-4
    )


def test_power_of_the_papers_effect_at_450_items():
    found = power_of(450)
    assert found.of["0.17"] == pytest.approx(0.95, abs=0.002)
    assert found.of["0.5"] == pytest.approx(1.0)


def test_power_agrees_with_simulated_studies():
    rng = np.random.default_rng(1)
    values = rng.normal(0.5, 1, (4000, 20))
    t = values.mean(1) / values.std(1, ddof=1) * math.sqrt(20)
    assert (np.abs(t) > 2.0930).mean() == pytest.approx(power_of(20).of["0.5"], abs=0.025)
