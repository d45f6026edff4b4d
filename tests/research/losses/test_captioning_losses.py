"""Captioning losses against loops and values by hand."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from limner.errors import NumericsError, ShapeError
from limner.research.losses.generative import sentence_losses, story_losses


def by_loop(logits, targets, tokens):
    found, row = [], 0
    for count in tokens.tolist():
        cost = 0.0
        for _ in range(count):
            chances = [math.exp(float(value)) for value in logits[row]]
            cost -= math.log(chances[int(targets[row])] / sum(chances))
            row += 1
        found.append(cost / count)
    assert row == len(logits)
    return torch.tensor(found, dtype=torch.float64)


@given(st.lists(st.integers(1, 4), min_size=1, max_size=4), st.integers(2, 5), st.integers(0, 999))
@settings(max_examples=30, deadline=None)
def test_sentences_cost_what_the_loop_says(counts, words, seed):
    drawn = torch.Generator().manual_seed(seed)
    tokens = torch.tensor(counts)
    logits = 3 * torch.randn(sum(counts), words, generator=drawn, dtype=torch.float64)
    targets = torch.randint(words, (sum(counts),), generator=drawn)
    torch.testing.assert_close(sentence_losses(logits, targets, tokens), by_loop(logits, targets, tokens))


def test_one_who_knows_nothing_pays_the_logarithm_of_the_words():
    found = sentence_losses(torch.zeros(5, 8), torch.tensor([1, 0, 7, 3, 0]), torch.tensor([2, 3]))
    torch.testing.assert_close(found, torch.full((2,), math.log(8)))


def test_values_by_hand():
    logits = torch.tensor([[0.0, math.log(3)], [0.0, 0.0], [math.log(3), 0.0]])
    found = sentence_losses(logits, torch.tensor([1, 0, 1]), torch.tensor([2, 1]))
    due = [(math.log(4 / 3) + math.log(2)) / 2, math.log(4)]
    torch.testing.assert_close(found, torch.tensor(due))


def test_sentences_do_not_weigh_by_their_length_and_stories_do():
    logits = torch.zeros(6, 4, requires_grad=True)
    losses = sentence_losses(logits, torch.ones(6, dtype=torch.int64), torch.tensor([1, 2, 3]))
    stories = story_losses(losses, torch.tensor([1, 2]))
    torch.testing.assert_close(stories, math.log(4) * torch.tensor([1.0, 2.0]))
    stories.sum().backward()
    norms = logits.grad.norm(dim=1)
    torch.testing.assert_close(norms / norms[0], torch.tensor([1, 1 / 2, 1 / 2, 1 / 3, 1 / 3, 1 / 3]))


def test_stories_by_loop():
    losses = torch.tensor([1.0, 2, 4, 8, 16, 32], requires_grad=True)
    found = story_losses(losses, torch.tensor([1, 3, 2]))
    assert found.tolist() == [1, 14, 48]
    found[1].backward()
    assert losses.grad.tolist() == [0, 1, 1, 1, 0, 0]


def test_gradients_are_those_of_finite_differences():
    logits = torch.randn(
        5, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1), requires_grad=True
    )
    targets, tokens = torch.tensor([0, 2, 1, 1, 0]), torch.tensor([2, 3])
    assert torch.autograd.gradcheck(lambda table: sentence_losses(table, targets, tokens), logits)


def test_half_precision_stays_finite():
    logits = torch.tensor([[6e4, -6e4], [6e4, 6e4]], dtype=torch.float16)
    found = sentence_losses(logits, torch.tensor([1, 0]), torch.tensor([1, 1]))
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, torch.tensor([2 * float(logits[0, 0]), math.log(2)]))


@pytest.mark.parametrize("counts", [[2], [1, 2, 1], [3, 0], []])
def test_counts_that_do_not_fit_are_refused(counts):
    tokens = torch.tensor(counts, dtype=torch.int64)
    with pytest.raises(ShapeError, match="sum to 3"):
        sentence_losses(torch.zeros(3, 2), torch.zeros(3, dtype=torch.int64), tokens)
    with pytest.raises(ShapeError, match="sum to 3"):
        story_losses(torch.zeros(3), tokens)


def test_shapes_and_numbers_that_are_none_are_refused():
    one = torch.ones(1, dtype=torch.int64)
    with pytest.raises(ShapeError, match="targets"):
        sentence_losses(torch.zeros(1, 2), torch.zeros(2, dtype=torch.int64), one)
    with pytest.raises(ShapeError, match="losses"):
        story_losses(torch.zeros(1, 1), one)
    with pytest.raises(NumericsError, match="logit in row 1"):
        sentence_losses(
            torch.tensor([[0.0, 1], [0, math.nan]]), torch.zeros(2, dtype=torch.int64), torch.tensor([2])
        )
    with pytest.raises(NumericsError, match="loss in row 0"):
        story_losses(torch.tensor([math.inf]), one)
