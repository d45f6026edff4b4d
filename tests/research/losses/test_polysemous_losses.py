"""PVSE's regularisers against loops and values by hand; gradients where roots end."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from limner.errors import NumericsError, ShapeError
from limner.research.losses.ranking import diversity_loss, domain_loss


def diversity_by_loop(residuals):
    total = 0.0
    for item in residuals.tolist():
        square = 0.0
        for one, first in enumerate(item):
            for other, second in enumerate(item):
                if one != other:
                    lengths = math.hypot(*first) * math.hypot(*second)
                    square += (sum(a * b for a, b in zip(first, second, strict=True)) / lengths) ** 2
        total += math.sqrt(square)
    return total / len(residuals) / residuals.shape[1] ** 2


def domain_by_loop(x, y):
    def kernel(one, other):
        values = [math.exp(-0.5 * math.dist(a, b)) for a in one.tolist() for b in other.tolist()]
        return sum(values) / len(values)

    return kernel(x, x) - 2 * kernel(x, y) + kernel(y, y)


@given(st.integers(1, 4), st.integers(1, 4), st.integers(1, 5), st.integers(0, 99))
@settings(max_examples=40, deadline=None)
def test_diversity_is_the_loop(batch, heads, width, seed):
    rng = np.random.default_rng(seed)
    residuals = torch.from_numpy(rng.standard_normal((batch, heads, width)) + 0.1)
    assert float(diversity_loss(residuals)) == pytest.approx(diversity_by_loop(residuals), abs=1e-9)


@given(st.integers(1, 5), st.integers(1, 5), st.integers(1, 4), st.integers(0, 99))
@settings(max_examples=40, deadline=None)
def test_domain_is_the_loop(n, m, width, seed):
    rng = np.random.default_rng(seed)
    x, y = (torch.from_numpy(rng.standard_normal((size, width))) for size in (n, m))
    assert float(domain_loss(x, y)) == pytest.approx(domain_by_loop(x, y), abs=1e-6)


def test_values_by_hand():
    same = torch.tensor([[[1.0, 0.0], [2.0, 0.0]]])
    assert float(diversity_loss(same)) == pytest.approx(math.sqrt(2) / 4)
    apart = torch.tensor([[[1.0, 0.0], [0.0, 3.0]]])
    assert float(diversity_loss(apart)) == 0
    assert float(diversity_loss(torch.ones(3, 1, 2))) == 0
    x, y = torch.tensor([[0.0, 0.0]]), torch.tensor([[3.0, 4.0]])
    assert float(domain_loss(x, y)) == pytest.approx(2 - 2 * math.exp(-2.5))  # not squared: 5, not 25
    assert float(domain_loss(x, x)) == pytest.approx(0)


def test_equal_vectors_are_at_distance_0_in_single_precision():
    rng = np.random.default_rng(0)
    x = torch.from_numpy(rng.standard_normal((1, 1024)).astype(np.float32)).repeat(3, 1)
    assert float(domain_loss(x, x.clone() + 2)) == pytest.approx(2 - 2 * math.exp(-32), abs=1e-7)


def test_what_rounding_leaves_of_equal_vectors_is_no_distance():
    needed = 0
    for seed in range(20):
        x = torch.from_numpy(10 * np.random.default_rng(seed).standard_normal((1, 300)).astype(np.float32))
        rest = 2 * x.square().sum(dim=1)[:, None] - 2 * x @ x.t()
        needed += float(rest) > 1e-12
        # by hand: two points far from each other, so that only the distance of each to itself counts
        assert float(domain_loss(x, -x)) == pytest.approx(2, abs=1e-6)
    assert needed, "no seed has a rest, so that the tolerance is not tried"


def test_small_distances_between_long_vectors_still_count():
    x, y = torch.tensor([[1.0, 0.0]]), torch.tensor([[1.0, 0.004]])
    assert float(domain_loss(x, y)) == pytest.approx(2 - 2 * math.exp(-0.002), rel=0.03)


def test_gradients_are_finite_where_roots_end():
    orthogonal = torch.tensor([[[1.0, 0.0], [0.0, 1.0]]], requires_grad=True)
    diversity_loss(orthogonal).backward()
    cloud = torch.ones(3, 2, requires_grad=True)
    domain_loss(cloud, cloud.detach()).backward()
    assert bool(orthogonal.grad.isfinite().all())
    assert bool(cloud.grad.isfinite().all())


def test_gradients_move_heads_apart_and_clouds_together():
    residuals = torch.tensor([[[1.0, 0.1], [1.0, 0.3]]], requires_grad=True)
    before = diversity_loss(residuals)
    before.backward()
    assert diversity_loss(residuals.detach() - 0.5 * residuals.grad) < before
    x, y = torch.zeros(2, 2, requires_grad=True), torch.tensor([[1.0, 0.0], [2.0, 1.0]])
    before = domain_loss(x + 0.01, y)
    before.backward()
    assert domain_loss(x.detach() + 0.01 - 0.1 * x.grad, y) < before


def test_what_cannot_be_is_refused():
    with pytest.raises(ShapeError, match=r"^diversity_loss: residuals has shape"):
        diversity_loss(torch.zeros(2, 3))
    with pytest.raises(NumericsError, match=r"^diversity_loss: residual in row 1 of 2"):
        diversity_loss(torch.tensor([[[1.0]], [[math.nan]]]))
    with pytest.raises(ShapeError, match=r"^domain_loss: y has shape"):
        domain_loss(torch.zeros(2, 3), torch.zeros(2, 4))
    fine, bad = torch.zeros(2, 3), torch.tensor([[0.0, 0, 0], [0, math.inf, 0]])
    for clouds in ((fine, bad), (bad, fine)):
        with pytest.raises(NumericsError, match=r"^domain_loss: vector in row 1 of 2"):
            domain_loss(*clouds)
