"""THOMAS against values by hand and plain loops over vectors."""

import pytest
import torch
from batches import duplicates, others, unit

from limner.errors import NumericsError, ShapeError
from limner.research.losses.reweighted import Neighbourhood, neighbour_loss, thomas_loss


def triplet_loop(anchors, positives, wrong, margin, neg):
    """Mean over anchors and the wrong items they have."""
    costs = [
        max(0.0, margin - float(anchors[i] @ positives[i]) + float(anchors[i] @ wrong[j]))
        for i in range(len(anchors))
        for j in range(len(anchors))
        if neg[i, j]
    ]
    return sum(costs) / len(costs)


def vectors(seed, size=6):
    """Texts, their neighbours, pictures, their neighbours."""
    return tuple(unit(size, 5, seed * 10 + k) for k in range(4))


def neighbourhood(items, near, neg):
    return Neighbourhood(items @ items.t(), near @ items.t(), neg)


def asymmetric(neg, seed):
    """The anchors' neighbours occur in the batch too."""
    held = neg.clone()
    held[torch.arange(len(neg)), (torch.arange(len(neg)) + seed + 1) % len(neg)] = False
    return held


def test_neighbour_loss_by_hand():
    among = torch.tensor([[1.0, 0.4, 0.9], [0.4, 1.0, 0.2], [0.9, 0.2, 1.0]], dtype=torch.float64)
    near = torch.tensor([0.8, 0.3, 0.95], dtype=torch.float64)
    # wrong: 0 → {1, 2}: 0 and 0.2;  1 → {0}: 0.2;  2 → {0, 1}: 0.05 and 0
    neg = torch.tensor([[False, True, True], [True, False, False], [True, True, False]])
    found = neighbour_loss(Neighbourhood(among, near.diag(), neg), 0.1)
    assert found.item() == pytest.approx((0.2 + 0.2 + 0.05) / 5)


@pytest.mark.parametrize("seed", range(4))
def test_equals_loops_with_duplicates_masked(seed):
    texts, near_texts, images, near_images = vectors(seed)
    neg = duplicates(6, seed)
    of_texts, of_images = asymmetric(neg, seed), asymmetric(neg, seed + 1)
    loop = triplet_loop
    due = (
        loop(images, texts, texts, 0.3, neg)
        + loop(texts, images, images, 0.3, neg)
        + 0.3 * loop(images, near_images, images, 0.3, of_images)
        + 0.2 * loop(texts, near_texts, texts, 0.3, of_texts)
    )
    found = thomas_loss(
        texts @ images.t(),
        neighbourhood(texts, near_texts, of_texts),
        neighbourhood(images, near_images, of_images),
        0.3,
        neg,
    )
    assert found.item() == pytest.approx(due, abs=1e-12)


def test_the_order_of_pairs_does_not_matter():
    texts, near_texts, images, near_images = vectors(8)
    neg, order = duplicates(6, 8), torch.tensor([3, 0, 5, 1, 4, 2])

    def loss(pick):
        wrong = neg[pick][:, pick]
        of_texts = neighbourhood(texts[pick], near_texts[pick], wrong)
        of_images = neighbourhood(images[pick], near_images[pick], wrong)
        return thomas_loss(texts[pick] @ images[pick].t(), of_texts, of_images, 0.2, wrong).item()

    assert loss(order) == pytest.approx(loss(torch.arange(6)))


@pytest.mark.slow
def test_gradients_flow_to_all_four_inputs():
    neg = asymmetric(others(6), 0)

    def loss(texts, near_texts, images, near_images):
        of_texts = neighbourhood(texts, near_texts, neg)
        of_images = neighbourhood(images, near_images, neg)
        return thomas_loss(texts @ images.t(), of_texts, of_images, 0.37, others(6))

    inputs = [rows.requires_grad_() for rows in vectors(9)]
    assert torch.autograd.gradcheck(loss, inputs)
    for gradient in torch.autograd.grad(loss(*inputs), inputs):
        assert gradient.abs().sum() > 0


def test_a_row_without_wrong_items_and_extremes_stay_finite():
    alone = torch.ones(1, 1, requires_grad=True)
    items = Neighbourhood(alone, alone, others(1))
    found = thomas_loss(alone, items, items, 0.1, others(1))
    found.backward()
    assert found.item() == 0
    assert alone.grad.isfinite().all()
    neg = others(1024)
    neg[3] = neg[:, 3] = False
    for sign in (1.0, -1.0):
        scores = torch.full((1024, 1024), sign)
        scores.fill_diagonal_(-sign)
        scores.requires_grad_()
        items = Neighbourhood(scores, scores, neg)
        found = thomas_loss(scores, items, items, 0.1, neg)
        found.backward()
        assert found.isfinite()
        assert scores.grad.isfinite().all()


def test_what_does_not_fit_is_refused():
    zeros = torch.zeros(2, 2)
    items = Neighbourhood(zeros, zeros, others(2))
    with pytest.raises(ShapeError, match="scores has shape"):
        neighbour_loss(items._replace(from_near=torch.zeros(3)), 0.1)
    wide = Neighbourhood(torch.zeros(3, 3), torch.zeros(3, 3), others(3))
    with pytest.raises(ShapeError, match="images has shape"):
        thomas_loss(zeros, items, wide, 0.1, others(2))
    with pytest.raises(ShapeError, match="False on the diagonal"):
        neighbour_loss(items._replace(neg=torch.ones(2, 2, dtype=torch.bool)), 0.1)
    with pytest.raises(NumericsError, match="score in row 0"):
        neighbour_loss(items._replace(from_near=torch.full((2, 2), torch.nan)), 0.1)
