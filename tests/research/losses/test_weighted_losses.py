"""The weighted hinge against values by hand, plain loops and the hinge without weights."""

import pytest
import torch
from batches import duplicates, generator, others, score_table

from limner.errors import NumericsError, ShapeError
from limner.research.losses.ranking import sum_hinge
from limner.research.losses.weighting import weighted_hinge


def weighted_loop(scores, alpha, margin, neg, image_alpha):
    """Equation 1 pair by pair: x_i is picture i, y_i text i."""
    size = len(scores)

    def s(x, y):
        return float(scores[y, x])

    total = 0.0
    for i in range(size):
        for j in range(size):
            if neg[i, j]:
                total += float(image_alpha[i]) * max(0.0, s(i, j) - s(i, i) + margin)
                total += float(alpha[i]) * max(0.0, s(j, i) - s(i, i) + margin)
    return total / (2 * size**2)


def weights(size, seed):
    return torch.rand(size, generator=generator(seed), dtype=torch.float64) * 6


def test_by_hand():
    scores = torch.tensor([[0.9, 0.8], [0.1, 0.6]], dtype=torch.float64)
    # texts: 0.2 + 0.8 − 0.9 = 0.1 and 0;  pictures: 0 and 0.2 + 0.8 − 0.6 = 0.4
    found = weighted_hinge(scores, torch.tensor([3.0, 5.0], dtype=torch.float64), 0.2, others(2))
    assert found.item() == pytest.approx((3 * 0.1 + 5 * 0.4) / 8)
    found = weighted_hinge(scores, torch.tensor([3.0, 5.0]), 0.2, others(2), image_alpha=torch.ones(2))
    assert found.item() == pytest.approx((3 * 0.1 + 0.4) / 8)


@pytest.mark.parametrize("seed", range(5))
def test_equals_loops_with_duplicates_masked(seed):
    scores, neg = score_table(7, seed), duplicates(7, seed)
    text, image = weights(7, seed), weights(7, seed + 50)
    assert int(neg.sum()) < 42
    assert weighted_hinge(scores, text, 0.4, neg).item() == pytest.approx(
        weighted_loop(scores, text, 0.4, neg, text), abs=1e-12
    )
    assert weighted_hinge(scores, text, 0.4, neg, image_alpha=image).item() == pytest.approx(
        weighted_loop(scores, text, 0.4, neg, image), abs=1e-12
    )


@pytest.mark.parametrize("seed", range(5))
def test_weights_of_one_give_half_of_the_mean_reduced_sum_hinge(seed):
    """PVSE takes the mean over B² in each direction, twice Equation 1 with weights of 1."""
    scores, neg = score_table(8, seed), duplicates(8, seed)
    pvse = sum_hinge(scores, 0.1, neg) / 8
    found = weighted_hinge(scores, torch.ones(8, dtype=torch.float64), 0.1, neg)
    assert found.item() == pytest.approx(pvse.item() / 2, abs=1e-12)


def test_a_factor_on_the_weights_is_a_factor_on_the_loss_and_order_does_not_matter():
    scores, neg, alpha = score_table(6, 3), duplicates(6, 3), weights(6, 3)
    found = weighted_hinge(scores, alpha, 0.3, neg)
    assert weighted_hinge(scores, 7 * alpha, 0.3, neg).item() == pytest.approx(7 * found.item())
    order = torch.tensor([3, 0, 5, 1, 4, 2])
    again = weighted_hinge(scores[order][:, order], alpha[order], 0.3, neg[order][:, order])
    assert again.item() == pytest.approx(found.item())


def test_gradients_flow_to_the_scores_and_not_to_the_weights():
    scores = score_table(5, 4).requires_grad_()
    alpha = weights(5, 4).requires_grad_()
    assert torch.autograd.gradcheck(lambda s: weighted_hinge(s, alpha.detach(), 0.37, others(5)), scores)
    weighted_hinge(scores, alpha, 0.37, others(5), image_alpha=alpha).backward()
    assert scores.grad.abs().sum() > 0
    assert alpha.grad is None


def test_a_pair_of_weight_zero_gives_no_gradient_to_its_own_score():
    scores = score_table(4, 5).requires_grad_()
    weighted_hinge(scores, torch.tensor([1.0, 0, 1, 1]), 2.0, others(4)).backward()
    assert scores.grad[1, 1] == 0
    assert (scores.grad.diagonal()[[0, 2, 3]] < 0).all()


def test_a_batch_of_one_and_all_tied():
    assert weighted_hinge(torch.ones(1, 1), torch.ones(1), 0.1, others(1)).item() == 0
    tied = torch.full((4, 4), 0.5, requires_grad=True)
    found = weighted_hinge(tied, torch.full((4,), 6.1), 0.1, others(4))
    assert found.item() == pytest.approx(6.1 * 0.1 * 2 * 12 / 32)


def test_large_batches_and_weights_stay_finite_in_single_and_half_precision():
    scores = score_table(1024, 6, dim=16)
    due = weighted_hinge(scores, torch.full((1024,), 1e6, dtype=torch.float64), 0.1, others(1024))
    for dtype in (torch.float32, torch.float16):
        low = scores.to(dtype).requires_grad_()
        found = weighted_hinge(low, torch.full((1024,), 1e6), 0.1, others(1024))
        found.backward()
        assert found.item() == pytest.approx(due.item(), rel=2e-3)
        assert low.grad.isfinite().all()


def test_what_does_not_fit_is_refused():
    with pytest.raises(ShapeError, match="alpha has shape"):
        weighted_hinge(torch.zeros(2, 2), torch.ones(3), 0.1, others(2))
    with pytest.raises(ShapeError, match=r"^weighted_hinge: alpha has shape"):
        weighted_hinge(torch.zeros(2, 2), torch.ones(2), 0.1, others(2), image_alpha=torch.ones(3))
    with pytest.raises(NumericsError, match=r"weight -1.0 of row 1, expected at least 0"):
        weighted_hinge(torch.zeros(2, 2), torch.tensor([1.0, -1.0]), 0.1, others(2))
    with pytest.raises(NumericsError, match="weight in row 0 of 2 is not finite"):
        weighted_hinge(torch.zeros(2, 2), torch.tensor([torch.nan, 1.0]), 0.1, others(2))
    with pytest.raises(NumericsError, match=r"^weighted_hinge: score in row 1 of 2 is not finite"):
        weighted_hinge(torch.tensor([[0.0, 1], [torch.inf, 1]]), torch.ones(2), 0.1, others(2))
    with pytest.raises(ShapeError, match="False on the diagonal"):
        weighted_hinge(torch.zeros(2, 2), torch.ones(2), 0.1, torch.ones(2, 2, dtype=torch.bool))
