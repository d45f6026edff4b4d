"""Losses of VRSS against loops and values by hand; what each direction of the hinge can teach."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.distributions import Independent, Normal, kl_divergence

from limner.errors import NumericsError, ShapeError
from limner.research.losses.generative import gaussian_kl, gaussian_nll, generated_hinge, half_square


def drawn(seed, *shape, count=1):
    rng = np.random.default_rng(seed)
    return [torch.from_numpy(rng.standard_normal(shape)) for _ in range(count)]


@given(st.integers(1, 5), st.integers(1, 6), st.integers(0, 999))
@settings(max_examples=40, deadline=None)
def test_kl_is_that_of_torch_and_never_negative(steps, width, seed):
    mean, spread, prior_mean, prior_spread = drawn(seed, steps, width, count=4)
    found = gaussian_kl(mean, spread, prior_mean, prior_spread)
    one, other = (
        Independent(Normal(m, (0.5 * s).exp()), 1) for m, s in ((mean, spread), (prior_mean, prior_spread))
    )
    torch.testing.assert_close(found, kl_divergence(one, other))
    assert bool((found >= 0).all())
    assert not gaussian_kl(mean, spread, mean, spread).any()


@given(st.integers(1, 5), st.integers(1, 6), st.integers(0, 999))
@settings(max_examples=30, deadline=None)
def test_densities_are_those_of_torch(steps, width, seed):
    target, mean, spread = drawn(seed, steps, width, count=3)
    due = -Independent(Normal(mean, (0.5 * spread).exp()), 1).log_prob(target)
    torch.testing.assert_close(gaussian_nll(target, mean, spread), due)
    unit = gaussian_nll(target, mean, torch.zeros_like(mean)) - 0.5 * width * math.log(2 * math.pi)
    torch.testing.assert_close(half_square(target, mean), unit)


def hinge_by_loop(scores, margin, neg, anchor, over):
    found = []
    for i in range(len(scores)):
        wrong = [j for j in range(len(scores)) if neg[i, j]]
        cost = 0.0
        for j in wrong:
            if anchor != "gold_anchor":  # this generated vector against wrong pictures
                cost += max(0.0, margin - scores[i, i] + scores[i, j])
            if anchor != "gen_anchor":  # this picture against wrong generated vectors
                cost += max(0.0, margin - scores[i, i] + scores[j, i])
        found.append(cost / len(wrong) if wrong and over == "mean" else cost)
    return found


@given(
    st.integers(1, 7),
    st.sampled_from(["both", "gen_anchor", "gold_anchor"]),
    st.sampled_from(["mean", "sum"]),
    st.integers(0, 999),
)
@settings(max_examples=60, deadline=None)
def test_the_hinge_is_the_loop(size, anchor, over, seed):
    rng = np.random.default_rng(seed)
    scores = torch.from_numpy(rng.uniform(-1, 1, (size, size)))
    apart = rng.random((size, size)) < 0.7
    neg = torch.from_numpy(apart & apart.T & ~np.eye(size, dtype=bool))
    found = generated_hinge(scores, 0.2, neg, anchor, over)
    assert found.tolist() == pytest.approx(hinge_by_loop(scores.numpy(), 0.2, neg, anchor, over))


@pytest.mark.parametrize("anchor", ["both", "gen_anchor", "gold_anchor"])
def test_every_direction_teaches_the_generator(anchor):
    made = torch.tensor([[1.0, 0.2], [0.9, 0.3]], requires_grad=True)
    gold = torch.tensor([[0.8, 0.6], [0.6, 0.8]])
    neg = ~torch.eye(2, dtype=torch.bool)
    scores = torch.nn.functional.normalize(made, dim=1) @ gold.t()
    generated_hinge(scores, 0.2, neg, anchor).mean().backward()
    assert bool(made.grad.any())


def test_values_by_hand():
    scores = torch.tensor([[0.5, 0.6], [0.1, 0.9]])
    neg = ~torch.eye(2, dtype=torch.bool)
    assert generated_hinge(scores, 0.2, neg, "gen_anchor").tolist() == pytest.approx([0.3, 0.0])
    assert generated_hinge(scores, 0.2, neg, "gold_anchor").tolist() == pytest.approx([0.0, 0.0])
    assert generated_hinge(scores, 0.5, neg, "gold_anchor").tolist() == pytest.approx([0.1, 0.2])
    assert gaussian_kl(*[torch.tensor([[v]]) for v in (1.0, 0.0, 0.0, 0.0)]).item() == pytest.approx(0.5)


def test_what_cannot_be_is_refused():
    neg = ~torch.eye(2, dtype=torch.bool)
    with pytest.raises(NumericsError):
        generated_hinge(torch.full((2, 2), math.nan), 0.2, neg)
    with pytest.raises(ShapeError):
        half_square(torch.zeros(2, 3), torch.zeros(2, 4))
