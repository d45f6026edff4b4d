"""Ranking losses against values by hand, plain loops and each other."""

import math

import pytest
import torch

from limner.errors import NumericsError, ShapeError
from limner.research.losses.ranking import batch_hard, max_hinge, negatives, sum_hinge

ALL = [sum_hinge, max_hinge]


def others(size):
    return ~torch.eye(size, dtype=torch.bool)


def unit(size, dim, seed=0, dtype=torch.float64):
    rows = torch.randn(size, dim, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return torch.nn.functional.normalize(rows, dim=1).to(dtype)


def hinge_loop(scores, margin, neg, largest_only):
    """Both directions with plain loops."""
    total = 0.0
    size = len(scores)
    for i in range(size):
        for row, own in ((lambda j, i=i: scores[i, j], i), (lambda j, i=i: scores[j, i], i)):
            costs = [
                max(0.0, margin - float(scores[own, own]) + float(row(j))) for j in range(size) if neg[i, j]
            ]
            total += (max(costs, default=0.0)) if largest_only else sum(costs)
    return total / size


def hard_loop(texts, images, margin, neg, *, geometry, within):
    """Anchor by anchor over the stacked items, with scalar distances."""
    size = len(texts)
    items = [*images, *texts]

    def apart(a, b):
        if geometry == "cosine":
            return 1 - float(a @ b)
        return math.sqrt(max(float(((a - b) ** 2).sum()), 1e-12))

    costs = []
    for a in range(2 * size):
        wrong = [
            apart(items[a], items[b])
            for b in range(2 * size)
            if neg[a % size, b % size] and (within or (a < size) != (b < size))
        ]
        if wrong:
            costs.append(max(0.0, apart(items[a], items[(a + size) % (2 * size)]) - min(wrong) + margin))
    return sum(costs) / len(costs)


def test_negatives_share_neither_text_nor_picture():
    mask = negatives(torch.tensor([5, 5, 7]), torch.tensor([1, 2, 2]))
    assert mask.tolist() == [[False, False, True], [False, False, False], [True, False, False]]
    with pytest.raises(ShapeError, match=r"^negatives: image_ids has shape"):
        negatives(torch.arange(3), torch.arange(1))
    with pytest.raises(ShapeError, match=r"^negatives: text_ids has shape"):
        negatives(torch.zeros(3, 1), torch.arange(3))


def test_hinges_by_hand():
    scores = torch.tensor([[0.9, 0.8, 0.5], [0.1, 0.6, 0.7], [0.95, 0.2, 0.4]], dtype=torch.float64)
    # text → image: 0.1 | 0.3 | 0.75, 0;   image → text: 0.25 | 0.4 | 0.3, 0.5  (margin 0.2)
    assert sum_hinge(scores, 0.2, others(3)).item() == pytest.approx(2.6 / 3)
    assert max_hinge(scores, 0.2, others(3)).item() == pytest.approx(2.3 / 3)


def test_batch_hard_by_hand():
    # pictures at 0° and 90°, texts at 60° and 90°: text 0 is closer to text 1 than to its own picture
    angle = torch.deg2rad(torch.tensor([0.0, 90.0, 60.0, 90.0], dtype=torch.float64))
    points = torch.stack([angle.cos(), angle.sin()], dim=1)
    images, texts = points[:2], points[2:]

    def d(degrees):
        return 2 * math.sin(math.radians(degrees) / 2)

    # anchors: picture 0 (own 60°, wrong 90°), picture 1 (0°, 30°), text 0 (60°, 30°), text 1 (0°, 30°)
    within = [d(60) - d(90) + 0.3, 1e-6 - d(30) + 0.3, d(60) - d(30) + 0.3, 1e-6 - d(30) + 0.3]
    due = sum(max(0.0, cost) for cost in within) / 4
    assert batch_hard(texts, images, 0.3, others(2)).item() == pytest.approx(due, abs=1e-9)
    # across the modalities text 1's closest wrong item is picture 0 at 90° instead of text 0 at 30°
    across = [d(60) - d(90) + 0.3, 1e-6 - d(30) + 0.3, d(60) - d(30) + 0.3, 1e-6 - d(90) + 0.3]
    due = sum(max(0.0, cost) for cost in across) / 4
    assert batch_hard(texts, images, 0.3, others(2), within=False).item() == pytest.approx(due, abs=1e-9)


def test_a_wrong_item_of_the_same_kind_is_taken_when_it_is_closest():
    images = torch.tensor([[1.0, 0, 0], [0, 1.0, 0]], dtype=torch.float64)
    texts = torch.tensor([[0, 0, 1.0], [0, 0, 1.0]], dtype=torch.float64)
    # texts: own √2, wrong text 0 or wrong picture √2; pictures: own √2, wrong √2 either way
    across = batch_hard(texts, images, 0.1, others(2), within=False)
    assert across.item() == pytest.approx(0.1)
    with pytest.raises(ShapeError, match=r"^batch_hard: images has shape"):
        batch_hard(texts, images[:1], 0.1, others(2))
    with pytest.raises(ShapeError, match=r"^batch_hard: neg has shape"):
        batch_hard(texts, images, 0.1, others(3))
    within = batch_hard(texts, images, 0.1, others(2))
    assert within.item() == pytest.approx((2 * 0.1 + 2 * (math.sqrt(2) + 0.1)) / 4, abs=1e-6)


def test_batch_hard_of_three_pairs_by_hand_with_a_duplicate():
    # Pictures at 0°, 90° and 0°, the third being the first again; texts at 30°, 100° and −40°.
    angle = torch.deg2rad(torch.tensor([0.0, 90.0, 0.0, 30.0, 100.0, -40.0], dtype=torch.float64))
    points = torch.stack([angle.cos(), angle.sin()], dim=1)
    images, texts = points[:3], points[3:]

    def cost(own, wrong):
        return max(0.0, 2 * math.sin(math.radians(own) / 2) - 2 * math.sin(math.radians(wrong) / 2) + 1)

    # anchor: degrees to its own, and to the closest wrong item
    due = [
        cost(30, 90),  # picture 0: picture 1, not its own copy
        cost(10, 60),  # picture 1: text 0
        cost(40, 90),  # picture 2: picture 1
        cost(30, 60),  # text 0: picture 1, not picture 2
        cost(10, 70),  # text 1: text 0, which is closer than any picture
        cost(40, 130),  # text 2: picture 1
    ]
    neg = negatives(torch.arange(3), torch.tensor([0, 1, 0]))
    assert batch_hard(texts, images, 1.0, neg).item() == pytest.approx(sum(due) / 6, abs=1e-9)
    # Taken for wrong, the copy is closest to picture 0, picture 2 and text 0, and text 2 meets picture 0.
    copy = [2 * math.sin(math.radians(own) / 2) - 1e-6 + 1 for own in (30, 40)]
    blind = [copy[0], due[1], copy[1], cost(30, 30), due[4], cost(40, 40)]
    assert batch_hard(texts, images, 1.0, others(3)).item() == pytest.approx(sum(blind) / 6, abs=1e-9)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("geometry", ["euclidean", "cosine"])
@pytest.mark.parametrize("within", [True, False])
def test_batch_hard_equals_loops(seed, geometry, within):
    texts, images = unit(7, 5, seed), unit(7, 5, seed + 100)
    generator = torch.Generator().manual_seed(seed)
    neg = negatives(torch.randint(5, (7,), generator=generator), torch.randint(6, (7,), generator=generator))
    due = hard_loop(texts, images, 0.3, neg, geometry=geometry, within=within)
    found = batch_hard(texts, images, 0.3, neg, geometry=geometry, within=within)
    assert found.item() == pytest.approx(due, abs=1e-12)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("loss", ALL)
def test_hinges_equal_loops(seed, loss):
    scores = unit(6, 4, seed) @ unit(6, 4, seed + 50).t()
    generator = torch.Generator().manual_seed(seed)
    neg = negatives(torch.randint(4, (6,), generator=generator), torch.randint(5, (6,), generator=generator))
    assert loss(scores, 0.4, neg).item() == pytest.approx(
        hinge_loop(scores, 0.4, neg, loss is max_hinge), abs=1e-12
    )


def test_duplicates_are_masked_out():
    texts, images = unit(4, 6, 1), unit(4, 6, 2)
    images[1] = images[0]  # the same picture twice
    neg = negatives(torch.arange(4), torch.tensor([0, 0, 2, 3]))
    scores = texts @ images.t()
    assert sum_hinge(scores, 0.3, neg) < sum_hinge(scores, 0.3, others(4))
    assert batch_hard(images.clone(), images, 0.3, neg) < batch_hard(images.clone(), images, 0.3, others(4))


@pytest.mark.parametrize("loss", ALL)
def test_hinge_gradients_are_those_of_the_function(loss):
    scores = (unit(5, 4, 3) @ unit(5, 4, 4).t()).requires_grad_()
    assert torch.autograd.gradcheck(lambda s: loss(s, 0.37, others(5)), scores)


@pytest.mark.parametrize("geometry", ["euclidean", "cosine"])
def test_batch_hard_gradients_are_those_of_the_function(geometry):
    texts, images = unit(5, 4, 3).requires_grad_(), unit(5, 4, 4).requires_grad_()
    assert torch.autograd.gradcheck(
        lambda t, v: batch_hard(t, v, 0.37, others(5), geometry=geometry), (texts, images)
    )


def test_the_order_of_pairs_does_not_matter():
    texts, images, order = unit(6, 4, 5), unit(6, 4, 6), torch.tensor([3, 0, 5, 1, 4, 2])
    neg = negatives(torch.tensor([0, 1, 1, 2, 3, 4]), torch.arange(6))
    again = neg[order][:, order]
    for loss in ALL:
        first = loss(texts @ images.t(), 0.3, neg)
        assert loss(texts[order] @ images[order].t(), 0.3, again).item() == pytest.approx(first.item())
    first = batch_hard(texts, images, 0.3, neg)
    assert batch_hard(texts[order], images[order], 0.3, again).item() == pytest.approx(first.item())


def test_one_pair_has_no_wrong_candidate():
    assert sum_hinge(torch.ones(1, 1), 0.3, others(1)).item() == 0
    assert max_hinge(torch.ones(1, 1), 0.3, others(1)).item() == 0
    with pytest.raises(ShapeError, match="none of 1 pairs has a wrong candidate"):
        batch_hard(unit(1, 4), unit(1, 4), 0.3, others(1))


def test_an_anchor_without_wrong_candidates_does_not_count():
    texts, images = unit(3, 4, 7), unit(3, 4, 8)
    neg = torch.tensor([[False, True, False], [True, False, False], [False, False, False]])
    alone = batch_hard(texts[:2], images[:2], 0.3, others(2))
    assert batch_hard(texts, images, 0.3, neg).item() == pytest.approx(alone.item())


def test_a_zero_vector_and_all_tied_are_finite():
    texts, images = unit(4, 5, 9), unit(4, 5, 10)
    texts[2] = 0
    texts.requires_grad_()
    for value in (batch_hard(texts, images, 0.3, others(4)), max_hinge(texts @ images.t(), 0.3, others(4))):
        (gradient,) = torch.autograd.grad(value, texts)
        assert gradient.isfinite().all()
    same = torch.ones(4, 1, dtype=torch.float64, requires_grad=True)
    assert batch_hard(same, same, 0.3, others(4)).item() == pytest.approx(0.3)
    assert sum_hinge(same @ same.t(), 0.3, others(4)).item() == pytest.approx(2 * 12 * 0.3 / 4)
    assert max_hinge(same @ same.t(), 0.3, others(4)).item() == pytest.approx(2 * 0.3)


def test_a_tied_maximum_sends_the_gradient_to_one_entry_only():
    scores = torch.full((3, 3), 0.5, requires_grad=True)
    max_hinge(scores, 0.2, others(3)).backward()
    off = 3 * scores.grad[others(3)]
    assert off.sum().item() == pytest.approx(6)
    assert torch.allclose(off, off.round())


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_what_is_not_finite_raises_and_names_the_row(bad):
    scores = torch.zeros(3, 3)
    scores[1, 2] = bad
    for loss in ALL:
        with pytest.raises(NumericsError, match=f"^{loss.__name__}: score in row 1 of 3"):
            loss(scores, 0.3, others(3))
    texts = unit(3, 4)
    texts[2, 0] = bad
    with pytest.raises(NumericsError, match=r"^batch_hard: embedding in row 5 of 6"):
        batch_hard(texts, unit(3, 4), 0.3, others(3))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_lower_precision_stays_finite_and_close(dtype):
    texts, images = unit(8, 16, 11, dtype), unit(8, 16, 12, dtype)
    due = batch_hard(texts.double(), images.double(), 0.3, others(8)).item()
    found = batch_hard(texts, images, 0.3, others(8))
    assert found.dtype == torch.float32
    assert found.item() == pytest.approx(due, abs=1e-3)
    scores = texts @ images.t()
    due = sum_hinge(scores.double(), 0.3, others(8)).item()
    assert sum_hinge(scores, 0.3, others(8)).item() == pytest.approx(due, rel=1e-3)


def test_what_does_not_fit_is_refused():
    with pytest.raises(ShapeError):
        sum_hinge(torch.zeros(2, 3), 0.3, others(2))
    with pytest.raises(ShapeError, match="False on the diagonal"):
        max_hinge(torch.zeros(2, 2), 0.3, torch.ones(2, 2, dtype=torch.bool))
