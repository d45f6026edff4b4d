"""Softmax losses against loops; duplicates are neither wrong nor right."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from limner.errors import NumericsError, ShapeError
from limner.research.losses.contrastive import info_nce, info_nce_of_many, same_group


def nce_by_loop(logits, neg):
    size, total = len(logits), 0.0
    for i in range(size):
        rows = [logits[i, j] for j in range(size) if j == i or neg[i, j]]
        columns = [logits[j, i] for j in range(size) if j == i or neg[j, i]]
        for values in (rows, columns):
            total -= math.log(math.exp(logits[i, i]) / sum(math.exp(v) for v in values))
    return total / (2 * size)


def group_by_loop(vectors, groups, pictures, temperature):
    costs = []
    for i in range(len(vectors)):
        others = [j for j in range(len(vectors)) if pictures[j] != pictures[i]]
        own = [j for j in others if groups[j] == groups[i]]
        if own:
            whole = sum(math.exp(float(vectors[i] @ vectors[j]) / temperature) for j in others)
            shares = [math.exp(float(vectors[i] @ vectors[j]) / temperature) / whole for j in own]
            costs.append(-sum(map(math.log, shares)) / len(own))
    return sum(costs) / len(costs)


@given(st.integers(1, 6), st.integers(0, 999))
@settings(max_examples=40, deadline=None)
def test_info_nce_is_the_loop(size, seed):
    rng = np.random.default_rng(seed)
    logits = rng.standard_normal((size, size)) * 3
    apart = rng.random((size, size)) < 0.7
    neg = apart & apart.T & ~np.eye(size, dtype=bool)
    found = info_nce(torch.from_numpy(logits), torch.from_numpy(neg))
    assert float(found) == pytest.approx(nce_by_loop(logits, neg))


@given(st.integers(3, 8), st.integers(0, 999))
@settings(max_examples=40, deadline=None)
def test_same_group_is_the_loop(size, seed):
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((size, 4))
    vectors = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    groups, pictures = rng.integers(0, 2, size), rng.integers(0, 2 * size, size)
    groups[:2], pictures[:2] = 0, (2 * size, 2 * size + 1)  # somebody has another
    parts = (torch.from_numpy(part) for part in (vectors, groups, pictures))
    assert float(same_group(*parts, 0.3)) == pytest.approx(group_by_loop(vectors, groups, pictures, 0.3))


def test_values_by_hand():
    neg = ~torch.eye(2, dtype=torch.bool)
    assert float(info_nce(torch.zeros(2, 2), neg)) == pytest.approx(math.log(2))
    assert float(info_nce(torch.tensor([[5.0, 9.0], [9.0, 5.0]]), torch.zeros(2, 2).bool())) == 0
    vectors = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    groups, pictures = torch.tensor([0, 0, 1]), torch.arange(3)
    assert float(same_group(vectors, groups, pictures, 1.0)) == pytest.approx(math.log(1 + math.exp(-1)))


def test_gradients_pull_members_together_and_are_finite():
    vectors = torch.randn(6, 4, generator=torch.Generator().manual_seed(0))
    vectors = torch.nn.functional.normalize(vectors, dim=1).requires_grad_()
    groups, pictures = torch.tensor([0, 0, 1, 1, 2, 2]), torch.tensor([0, 1, 2, 3, 4, 4])
    before = same_group(vectors, groups, pictures, 0.1)
    before.backward()
    assert bool(vectors.grad.isfinite().all())
    moved = torch.nn.functional.normalize(vectors.detach() - 0.01 * vectors.grad, dim=1)
    assert same_group(moved, groups, pictures, 0.1) < before


def test_what_cannot_be_is_refused():
    with pytest.raises(ShapeError, match="another of its group"):
        same_group(torch.eye(2), torch.tensor([0, 0]), torch.tensor([3, 3]), 0.1)
    with pytest.raises(NumericsError):
        same_group(torch.full((2, 2), math.nan), torch.tensor([0, 0]), torch.tensor([0, 1]), 0.1)
    with pytest.raises(ShapeError):
        info_nce(torch.zeros(2, 3), torch.zeros(2, 3).bool())


def many_by_loop(logits, owners, neg):
    texts, pictures = len(logits), len(logits[0])
    first = second = 0.0
    for t in range(texts):
        own = logits[t][owners[t]]
        wrong = [logits[t][b] for b in range(pictures) if neg[t][b]]
        first -= math.log(math.exp(own) / (math.exp(own) + sum(math.exp(v) for v in wrong))) / texts
    for b in range(pictures):
        mine = [t for t in range(texts) if owners[t] == b]
        wrong = sum(math.exp(logits[t][b]) for t in range(texts) if neg[t][b])
        for t in mine:
            own = math.exp(logits[t][b])
            second -= math.log(own / (own + wrong)) / (len(mine) * pictures)
    return 0.5 * (first + second)


def test_texts_of_one_picture_are_neither_wrong_nor_right():
    torch.manual_seed(0)
    owners = torch.tensor([0, 0, 0, 1, 2, 2])
    logits = torch.randn(6, 3, dtype=torch.float64)
    neg = owners[:, None] != torch.arange(3)
    neg[3, 2] = False  # the same words as a text of picture 2
    found = float(info_nce_of_many(logits, owners, neg))
    assert found == pytest.approx(many_by_loop(logits.tolist(), owners.tolist(), neg.tolist()))
    all_wrong = ~torch.eye(3, dtype=torch.bool)
    single = info_nce_of_many(logits[[0, 3, 4]], torch.arange(3), all_wrong)
    assert float(single) == pytest.approx(float(info_nce(logits[[0, 3, 4]], all_wrong)))
    with pytest.raises(NumericsError):
        info_nce_of_many(logits * torch.nan, owners, neg)
