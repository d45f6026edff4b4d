"""MITHUN's ranks, weights and loss against values by hand and plain loops."""

import pytest
import torch
from batches import duplicates, others, score_table

from limner.errors import NumericsError, ShapeError
from limner.research.losses.reweighted import mithun_loss, mithun_weights
from limner.research.losses.weighting import weighted_hinge


def query(scores, neg, i, by_text):
    """Scores of one query's wrong candidates, and its true one."""
    wrong = [float(scores[i, j] if by_text else scores[j, i]) for j in range(len(scores)) if neg[i, j]]
    return wrong, float(scores[i, i])


def weight_loop(scores, neg, by_text):
    """Rank from sorting each query's candidates, best first."""
    found = []
    for i in range(len(scores)):
        wrong, true = query(scores, neg, i, by_text)
        ranked = sorted([*wrong, true], reverse=True)
        rank = 1 + ranked.index(true)
        found.append(1 + 1 / (len(ranked) - rank + 1))
    return found


def loss_loop(scores, margin, neg):
    total = 0.0
    for by_text in (True, False):
        for i, weight in enumerate(weight_loop(scores, neg, by_text)):
            wrong, true = query(scores, neg, i, by_text)
            total += weight * max([margin - true + s for s in wrong] + [0.0])
    return total / len(scores)


def test_the_best_rank_weighs_1_plus_1_over_b_and_the_worst_2():
    size = 6
    scores = torch.zeros(size, size, dtype=torch.float64)
    scores.fill_diagonal_(0.5)  # every true item first
    for weights in mithun_weights(scores, others(size)):
        assert weights.tolist() == pytest.approx([1 + 1 / size] * size)
    scores.fill_diagonal_(-0.5)  # every true item last
    for weights in mithun_weights(scores, others(size)):
        assert weights.tolist() == pytest.approx([2] * size)


def test_by_hand():
    scores = torch.tensor([[0.5, 0.9, 0.1], [0.2, 0.8, 0.3], [0.7, 0.6, 0.4]], dtype=torch.float64)
    by_text, by_image = mithun_weights(scores, others(3))
    # ranks: texts 2, 1, 3 of 3; pictures 2, 2, 1
    assert by_text.tolist() == pytest.approx([1 + 1 / 2, 1 + 1 / 3, 2])
    assert by_image.tolist() == pytest.approx([1 + 1 / 2, 1 + 1 / 2, 1 + 1 / 3])
    # hardest: texts 0.1 + 0.4, 0 (0.1 + 0.3 − 0.8 < 0), 0.1 + 0.3; pictures 0.1 + 0.2, 0.1 + 0.1, 0.1 − 0.1
    due = 1.5 * 0.5 + 2 * 0.4 + 1.5 * 0.3 + 1.5 * 0.2
    assert mithun_loss(scores, 0.1, others(3)).item() == pytest.approx(due / 3)


@pytest.mark.parametrize("seed", range(5))
def test_equals_loops_with_duplicates_masked(seed):
    scores, neg = score_table(8, seed), duplicates(8, seed)
    by_text, by_image = mithun_weights(scores, neg)
    assert by_text.tolist() == pytest.approx(weight_loop(scores, neg, True))
    assert by_image.tolist() == pytest.approx(weight_loop(scores, neg, False))
    assert mithun_loss(scores, 0.3, neg).item() == pytest.approx(loss_loop(scores, 0.3, neg))


def test_ties_share_the_mean_rank():
    for weights in mithun_weights(torch.full((5, 5), 0.3), others(5)):
        assert weights.tolist() == pytest.approx([1 + 1 / 3] * 5)  # rank 3 of 5


def test_the_weights_fit_the_weighted_hinge():
    scores = torch.tensor([[0.5, 0.9], [0.2, 0.8]], dtype=torch.float64)
    by_text, by_image = mithun_weights(scores, others(2))
    # texts: weight 2 · 0.5;  pictures: 0 for the first, weight 2 · 0.2 for the second
    found = weighted_hinge(scores, by_text, 0.1, others(2), image_alpha=by_image)
    assert found.item() == pytest.approx((2 * 0.5 + 2 * 0.2) / 8)


def test_gradients_flow_to_the_scores_and_not_through_the_weights():
    scores = score_table(6, 3).requires_grad_()
    assert not any(weights.requires_grad for weights in mithun_weights(scores, others(6)))
    assert torch.autograd.gradcheck(lambda s: mithun_loss(s, 0.37, others(6)), scores)


def test_extremes_are_finite():
    assert mithun_loss(torch.ones(1, 1), 0.1, others(1)).item() == 0
    assert [w.item() for w in mithun_weights(torch.ones(1, 1), others(1))] == [2, 2]
    for dtype in (torch.float32, torch.float16):
        scores = score_table(1024, 4, dim=16).to(dtype).requires_grad_()
        mithun_loss(scores, 0.1, others(1024)).backward()
        assert scores.grad.isfinite().all()
        for weights in mithun_weights(scores, others(1024)):
            assert ((weights > 1) & (weights <= 2)).all()


def test_what_does_not_fit_is_refused():
    with pytest.raises(ShapeError):
        mithun_loss(torch.zeros(2, 3), 0.1, others(2))
    with pytest.raises(NumericsError, match="mithun_loss: score in row 0"):
        mithun_loss(torch.full((2, 2), torch.nan), 0.1, others(2))
