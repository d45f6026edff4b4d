"""Distance-weighted sampling against values by hand, plain loops and counted draws."""

import math

import pytest
import torch
from batches import duplicates, generator, others, score_table

from limner.errors import NumericsError
from limner.research.losses.reweighted import NOTHING, Drawn, draw, log_weights, triplet_loss


def log_weight(score, dim):
    d = max(math.sqrt(2 - 2 * score), 0.5)
    return (2 - dim) * math.log(d) - (dim - 3) / 2 * math.log(1 - d * d / 4)


def loss_loop(scores, drawn, cost):
    """Mean of a scalar cost over the queries with a candidate."""
    costs = []
    for i in range(len(scores)):
        if drawn.images[i] != NOTHING:
            costs.append(cost(float(scores[i, i]), float(scores[i, drawn.images[i]])))
        if drawn.texts[i] != NOTHING:
            costs.append(cost(float(scores[i, i]), float(scores[drawn.texts[i], i])))
    return sum(costs) / len(costs)


def test_weights_by_hand():
    # distances: own 0, then 1 (score .5), .5 by clipping (score .99), excluded (score 0: √2 ≥ 1.4)
    scores = torch.tensor([[1.0, 0.5, 0.99, 0.0]] * 4, dtype=torch.float64)
    scores.fill_diagonal_(1.0)
    found = log_weights(scores, others(4), 5)[0]
    assert found[1].item() == pytest.approx(-math.log(0.75))
    assert found[2].item() == pytest.approx(3 * math.log(2) - math.log(1 - 0.0625))
    assert found[0] == found[3] == -math.inf


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("dim", [2, 3, 128, 1024])
def test_weights_equal_loops_with_duplicates_masked(seed, dim):
    scores, neg = score_table(7, seed), duplicates(7, seed)
    found = log_weights(scores, neg, dim)
    for i in range(7):
        near = [j for j in range(7) if neg[i, j] and math.sqrt(2 - 2 * float(scores[i, j])) < 1.4]
        for j in range(7):
            if near:
                due = log_weight(float(scores[i, j]), dim) if j in near else -math.inf
            else:
                due = 0.0 if neg[i, j] else -math.inf
            assert found[i, j].item() == pytest.approx(due)


def test_weights_are_finite_at_1024_dimensions():
    """In single precision, from the closest to the farthest distance."""
    scores = torch.linspace(-1, 1, 64 * 64, dtype=torch.float32).view(64, 64)
    found = log_weights(scores, others(64), 1024)
    near = others(64) & ((2 - 2 * scores.double()).sqrt() < 1.4)
    rows = near.any(dim=1)
    assert rows.any()
    assert not rows.all()
    assert found[near].isfinite().all()
    assert found[rows].softmax(dim=1).isfinite().all()
    assert (found[~rows][others(64)[~rows]] == 0).all()
    assert not found.isnan().any()
    # The peak the formula makes: distance .5 is e⁶⁰⁰ and more times as likely as distance 1.2.
    assert found[near].max() - found[near].min() > 600


@pytest.mark.slow
def test_draws_follow_the_weights():
    scores = torch.tensor([[1.0, 0.5, 0.4, 0.99, -0.5]] * 5, dtype=torch.float64)
    scores.fill_diagonal_(1.0)
    neg = others(5)
    neg[0, 2] = neg[2, 0] = False
    due = log_weights(scores, neg, 4).softmax(dim=1)
    draws = generator(3)
    counts = torch.zeros(5, dtype=torch.float64)
    times = 4000
    for _ in range(times):
        counts[draw(scores, neg, 4, generator=draws).images[0]] += 1
    error = (due[0] * (1 - due[0]) / times).sqrt()
    assert ((counts / times - due[0]).abs() <= 4 * error).all()
    assert counts[0] == counts[2] == counts[4] == 0


def test_what_is_drawn_is_wrong_repeatable_and_falls_back_to_equal_chances():
    scores, neg = score_table(8, 2), duplicates(8, 2)
    first = draw(scores, neg, 16, generator=generator(1))
    again = draw(scores, neg, 16, generator=generator(1))
    assert torch.equal(first.images, again.images)
    assert torch.equal(first.texts, again.texts)
    for picked in first:
        for i, j in enumerate(picked.tolist()):
            assert neg[i, j] if neg[i].any() else j == NOTHING
    far = torch.full((6, 6), -0.9)
    draws = generator(4)
    found = torch.cat([draw(far, others(6), 1024, generator=draws).images for _ in range(40)])
    assert set(found.tolist()) == set(range(6))


def test_each_direction_draws_from_its_own_candidates():
    scores = torch.full(
        (4, 4), -0.9
    )  # too far everywhere, except text 0 with picture 2 and text 3 with picture 0
    scores[0, 2] = scores[3, 0] = 0.5
    drawn = draw(scores, others(4), 8, generator=generator(0))
    assert drawn.images[0] == 2
    assert drawn.images[3] == 0
    assert drawn.texts[2] == 0
    assert drawn.texts[0] == 3


def test_losses_by_hand():
    scores = torch.tensor([[0.9, 0.8], [0.1, 0.6]], dtype=torch.float64)
    drawn = Drawn(torch.tensor([1, 0]), torch.tensor([1, 0]))
    # texts: 0.2 + 0.8 − 0.9, 0;  pictures: 0, 0.2 + 0.8 − 0.6
    assert triplet_loss(scores, drawn, 0.2, others(2)).item() == pytest.approx((0.1 + 0.4) / 4)


@pytest.mark.parametrize("seed", range(4))
def test_losses_equal_loops(seed):
    scores, neg = score_table(7, seed), duplicates(7, seed)
    neg[2] = neg[:, 2] = False
    drawn = draw(scores, neg, 4, generator=generator(seed))
    assert drawn.images[2] == drawn.texts[2] == NOTHING
    due = loss_loop(scores, drawn, lambda true, wrong: max(0.0, 0.3 - true + wrong))
    assert triplet_loss(scores, drawn, 0.3, neg).item() == pytest.approx(due)


def test_gradients_flow_to_true_and_drawn_scores_only():
    scores = score_table(6, 5).requires_grad_()
    drawn = draw(scores, others(6), 4, generator=generator(5))
    assert torch.autograd.gradcheck(lambda s: triplet_loss(s, drawn, 2.5, others(6)), scores)
    triplet_loss(scores, drawn, 2.5, others(6)).backward()
    touched = torch.eye(6, dtype=torch.bool)
    touched[torch.arange(6), drawn.images] = True
    touched[drawn.texts, torch.arange(6)] = True
    assert torch.equal(scores.grad != 0, touched)
    assert not log_weights(scores, others(6), 4).requires_grad


@pytest.mark.slow
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_extremes_are_finite_in_single_precision(sign):
    scores = torch.full((1024, 1024), sign)
    scores.fill_diagonal_(-sign)
    scores.requires_grad_()
    drawn = draw(scores, others(1024), 1024, generator=generator(6))
    found = triplet_loss(scores, drawn, 0.1, others(1024))
    found.backward()
    assert found.isfinite()
    assert scores.grad.isfinite().all()


def test_one_pair_has_nothing_to_draw():
    one = torch.ones(1, 1, requires_grad=True)
    drawn = draw(one, others(1), 8)
    assert drawn.images.tolist() == drawn.texts.tolist() == [NOTHING]
    found = triplet_loss(one, drawn, 0.1, others(1))
    found.backward()
    assert found.item() == 0


def test_what_does_not_fit_is_refused():
    zeros = torch.zeros(2, 2)
    with pytest.raises(NumericsError, match="score in row 0"):
        draw(zeros * torch.nan, others(2), 8)
