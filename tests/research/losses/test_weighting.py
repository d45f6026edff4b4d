"""Weights of a batch: every reading and mode by loops, what must hold for all, and what is said of them."""

import math
from itertools import product

import numpy as np
import pytest
import torch

from limner.errors import NumericsError, ShapeError
from limner.research.losses.weighting import (
    batch_weights,
    combined_stats,
    drift,
    spread,
    z_scores,
)

MODES = ("absdiff", "sum", "x", "y", "max", "product")
READINGS = ("literal", "lambda_both", "lambda_out", "sound")


def scores(seed=0, size=8):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(2, size, generator=generator, dtype=torch.float64)


def softmax(values):
    top = max(values)
    grown = [math.exp(value - top) for value in values]
    return [value / sum(grown) for value in grown]


def by_loops(x, y, *, lam, gamma, mode, reading, tau):
    join = {
        "absdiff": lambda a, b: abs(a - b),
        "sum": lambda a, b: a + b,
        "x": lambda a, b: a,
        "y": lambda a, b: b,
        "max": max,
        "product": lambda a, b: a * b,
    }[mode]
    x, y = [gamma * v for v in x], [gamma * v for v in y]
    if reading == "sound":
        return [lam * v for v in softmax([join(a, b) / tau for a, b in zip(x, y, strict=True)])]
    inside = 1.0 if reading == "lambda_out" else lam
    x, y = [inside * v for v in softmax(x)], [inside * v for v in softmax(y)]
    outside = 1.0 if reading == "literal" else lam
    return [outside * v for v in softmax([join(a, b) for a, b in zip(x, y, strict=True)])]


def test_equals_loops():
    x, y = scores()
    for mode, reading, gamma in product(MODES, READINGS, (-1, 0, 1)):
        options = {"lam": 12.0, "gamma": gamma, "mode": mode, "reading": reading, "tau": 0.5}
        due = by_loops(x.tolist(), y.tolist(), **options)
        assert batch_weights(x, y, **options).tolist() == pytest.approx(due), options


def test_weights_sum_to_lambda_and_are_even_without_gamma():
    x, y = scores(1)
    for mode, reading in product(MODES, READINGS):
        due = 1.0 if reading == "literal" else 96.0
        whole = batch_weights(x, y, lam=96.0, mode=mode, reading=reading).sum()
        assert float(whole) == pytest.approx(due), (mode, reading)
        even = batch_weights(x, y, lam=96.0, gamma=0, mode=mode, reading=reading)
        assert even.tolist() == pytest.approx([due / 8] * 8, abs=1e-12), (mode, reading)


def test_equal_scores_of_both_modalities_give_even_weights():
    x, _ = scores(2)
    assert batch_weights(x, x, lam=16.0).tolist() == pytest.approx([2.0] * 8, abs=1e-12)


def test_the_difference_does_not_ask_which_modality_is_which():
    x, y = scores(3)
    assert torch.equal(batch_weights(x, y, lam=16.0), batch_weights(y, x, lam=16.0))


def test_weights_grow_where_similarity_falls():
    x, y = torch.tensor([0.1, 0.9, 0.5]), torch.tensor([0.2, 0.8, 0.5])
    found = batch_weights(x, y, lam=3.0, mode="sum")
    assert found.argmax() == 0
    assert found.argmin() == 1
    assert batch_weights(x, y, lam=3.0, mode="sum", gamma=1).argmax() == 1


def test_no_gradient_flows():
    x, y = scores(4)
    assert not batch_weights(x.requires_grad_(), y.requires_grad_(), lam=3.0).requires_grad


def test_extreme_scores_stay_finite():
    x = torch.tensor([1e4, -1e4, 0.0])
    assert torch.isfinite(batch_weights(x, -x, lam=196.0)).all()


def test_scores_that_are_not_finite_are_refused():
    x, y = scores()
    with pytest.raises(NumericsError, match=r"^weighting: score in row 0 of 2 is not finite"):
        batch_weights(x * float("nan"), y, lam=1.0)


def test_scores_of_other_shapes_are_refused():
    for x, y in ((torch.zeros(3, 1), torch.zeros(3)), (torch.zeros(3), torch.zeros(3, 1))):
        with pytest.raises(ShapeError, match=r"^weighting: [xy] has shape"):
            batch_weights(x, y, lam=1.0)


def test_combinations_by_hand():
    div, dis = torch.tensor([1.0, 3.0]), torch.tensor([2.0, 6.0])
    # means 2 and 4, deviations 1 and 2: factors 2 and 8
    assert combined_stats(div, dis, div, dis).tolist() == pytest.approx([18.0, 54.0])
    assert combined_stats(div, dis, div, dis, sound=True).tolist() == pytest.approx([-10.0, 10.0])


def test_standardised_scores():
    found = z_scores(torch.tensor([1.0, 2.0, 3.0]))
    assert found.tolist() == pytest.approx([-math.sqrt(1.5), 0.0, math.sqrt(1.5)])
    assert z_scores(torch.ones(4)).tolist() == [0.0] * 4


def test_spread_of_even_and_uneven_weights():
    assert spread(torch.full((8,), 3.0)) == pytest.approx((1.0, math.log(8)))
    assert spread(torch.tensor([0.01, 0.04]))[0] == pytest.approx(4.0)
    ratio, entropy = spread(torch.tensor([1.0, 3.0]))
    assert ratio == pytest.approx(3.0)
    assert entropy == pytest.approx(-(0.25 * math.log(0.25) + 0.75 * math.log(0.75)))


def test_drift_is_spearmans_correlation():
    rng = np.random.default_rng(0)
    first, second = rng.integers(0, 9, 50), rng.integers(0, 9, 50)
    from scipy.stats import spearmanr

    due = spearmanr(first, second).statistic
    assert drift(torch.from_numpy(first), torch.from_numpy(second)) == pytest.approx(due)
    assert drift(torch.arange(5.0), torch.arange(5.0) ** 3) == pytest.approx(1.0)
    assert drift(torch.ones(5), torch.arange(5.0)) == 0.0
