"""Order energy and both losses of CNSI against loops and values by hand."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from limner.errors import NumericsError, ShapeError
from limner.research.losses.contrastive import order_energy, sentence_order, story_order


def drawn(rng, *shape):
    return torch.from_numpy(np.abs(rng.standard_normal(shape)))


def energy_by_loop(text, image):
    return sum(max(0.0, float(s) - float(v)) ** 2 for s, v in zip(text, image, strict=True))


def test_energy_by_hand():
    texts = torch.tensor([[1.0, 0.0], [0.5, 0.5]])
    images = torch.tensor([[1.0, 0.0], [0.0, 1.0], [2.0, 2.0]])
    torch.testing.assert_close(
        order_energy(texts, images), torch.tensor([[0.0, 1.0, 0.0], [0.25, 0.25, 0.0]])
    )
    with pytest.raises(ShapeError):
        order_energy(texts, images[:, :1])


@given(st.integers(1, 5), st.integers(1, 4), st.integers(0, 999))
@settings(max_examples=40, deadline=None)
def test_sentences_against_a_loop(size, width, seed):
    rng = np.random.default_rng(seed)
    texts, images = drawn(rng, size, width), drawn(rng, size, width)
    neg = torch.from_numpy(rng.random((size, size)) < 0.7)
    neg = (neg | neg.t()).fill_diagonal_(False)
    due = 0.0
    for i in range(size):
        for j in range(size):
            if neg[i, j]:
                true = energy_by_loop(texts[i], images[i])
                due += max(0, 0.3 - energy_by_loop(texts[i], images[j]) + true)
                due += max(0, 0.3 - energy_by_loop(texts[j], images[i]) + true)
    assert float(sentence_order(texts, images, 0.3, neg)) == pytest.approx(due, rel=1e-9, abs=1e-12)


@given(st.lists(st.integers(1, 4), min_size=1, max_size=4), st.integers(0, 999))
@settings(max_examples=60, deadline=None)
def test_stories_against_a_loop(counts, seed):
    rng = np.random.default_rng(seed)
    total, first = sum(counts), np.cumsum([0, *counts])
    made, images = drawn(rng, total, 3), drawn(rng, total, 3)
    shuffled = np.concatenate([start + rng.permutation(n) for start, n in zip(first, counts, strict=False)])
    neg = torch.from_numpy(rng.random((total, total)) < 0.8)
    due = 0.0
    for a, of_a in enumerate(counts):
        for b, of_b in enumerate(counts):
            for t in range(min(of_a, of_b)):
                mine, theirs = first[a] + t, first[b] + t
                if a == b or not neg[shuffled[mine], theirs]:
                    continue
                wrong = energy_by_loop(made[shuffled[mine]], images[theirs])
                due += max(0, 0.4 + energy_by_loop(made[mine], images[mine]) - wrong)
                due += max(0, 0.4 + energy_by_loop(made[theirs], images[theirs]) - wrong)
    found = story_order(made, images, torch.tensor(counts), torch.from_numpy(shuffled), margin=0.4, neg=neg)
    assert float(found) == pytest.approx(due / len(counts), rel=1e-9, abs=1e-12)


def test_losses_teach_both_sides():
    rng = np.random.default_rng(0)
    made, images = drawn(rng, 6, 4).requires_grad_(), drawn(rng, 6, 4).requires_grad_()
    neg = ~torch.eye(6, dtype=torch.bool)
    for loss in (
        sentence_order(made, images, 0.5, neg),
        story_order(
            made, images, torch.tensor([2, 3, 1]), torch.tensor([1, 0, 3, 4, 2, 5]), margin=0.5, neg=neg
        ),
    ):
        for gradient in torch.autograd.grad(loss, (made, images)):
            assert bool(gradient.any())


def test_bad_input_is_said():
    rng = np.random.default_rng(0)
    one, neg = drawn(rng, 3, 2), ~torch.eye(3, dtype=torch.bool)
    steps, order = torch.tensor([2, 1]), torch.tensor([1, 0, 2])
    broken = one.clone()
    broken[1, 1] = torch.nan
    with pytest.raises(ShapeError, match="diagonal"):
        sentence_order(one, one, 0.1, ~neg)
    with pytest.raises(ShapeError, match="sum to 3"):
        story_order(one, one, torch.tensor([2, 2]), order, margin=0.1, neg=neg)
    with pytest.raises(NumericsError, match="row 1"):
        sentence_order(one, broken, 0.1, neg)
    with pytest.raises(NumericsError, match="row 1"):
        story_order(broken, one, steps, order, margin=0.1, neg=neg)
