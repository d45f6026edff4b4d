"""Graph losses against loops, and what each mode can teach."""

import pytest
import torch

from limner.errors import ShapeError
from limner.research.losses.graphs import contrastive_neighbours, neighbour_distance, straight_through

STEPS = torch.tensor([3, 1, 2])


def vectors(seed=0, size=6):
    return torch.randn(size, 4, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def cosine(a, b):
    return float(a @ b / a.norm() / b.norm())


def test_distance_is_the_loop_over_stories():
    graphs = vectors()
    known = torch.tensor([True, True, True, True, False, True])
    plain, masked = neighbour_distance(graphs, STEPS), neighbour_distance(graphs, STEPS, known)
    row = 0
    for count in STEPS.tolist():
        for place in range(count):
            due = 1 - cosine(graphs[row - 1], graphs[row]) if place else 0.0
            assert float(plain[row]) == pytest.approx(due)
            seen = place and known[row] and known[row - 1]
            assert float(masked[row]) == pytest.approx(due if seen else 0.0)
            row += 1


def test_equal_graphs_cost_nothing_and_opposite_ones_two():
    assert not neighbour_distance(torch.ones(6, 4), STEPS).any()
    graphs = torch.tensor([[1.0, 0.0], [-1.0, 0.0]])
    assert neighbour_distance(graphs, torch.tensor([2])).tolist() == [0.0, 2.0]


def test_contrast_is_the_loop_and_keeps_from_collapsing():
    graphs, others = vectors(1), torch.tensor([3, 4, 5, 0, 1, 2])
    found = contrastive_neighbours(graphs, STEPS, others, 0.2)
    for row in range(6):
        due = 0.0
        if row in (1, 2, 5):
            near = cosine(graphs[row - 1], graphs[row])
            due = max(0.0, 0.2 - near + cosine(graphs[row - 1], graphs[others[row]]))
        assert float(found[row]) == pytest.approx(due)
    same = contrastive_neighbours(torch.ones(6, 4), STEPS, others, 0.2)
    torch.testing.assert_close(same, torch.tensor([0, 0.2, 0.2, 0, 0, 0.2]))
    known = torch.tensor([True, True, True, True, False, True])
    assert contrastive_neighbours(
        torch.ones(6, 4), STEPS, others, 0.2, known
    ).nonzero().flatten().tolist() == [2]


def test_straight_through_is_hard_forward_and_soft_backward():
    scores = vectors(2)[:, :3].requires_grad_()
    values = vectors(3, 3).requires_grad_()
    chosen = straight_through(scores, values, 0.07)
    assert torch.equal(chosen.values.detach(), values.detach()[chosen.best])
    target = vectors(4)
    (chosen.values * target).sum().backward()
    given = scores.grad.clone()
    scores.grad = None
    soft = (scores / 0.07).softmax(dim=1) @ values.detach()
    (soft * target).sum().backward()
    torch.testing.assert_close(given, scores.grad)
    assert values.grad is None, "what is chosen is a constant"


def test_what_each_mode_teaches():
    """Soft choice reaches the scores; the arg max does not; equal graphs teach nothing."""
    scores, graphs = (
        torch.randn(6, 6, generator=torch.Generator().manual_seed(5)).requires_grad_(),
        vectors(6).float(),
    )
    neighbour_distance(straight_through(scores, graphs, 0.07).values, STEPS).sum().backward()
    assert bool(scores.grad.any())
    scores.grad = None
    neighbour_distance(graphs.requires_grad_()[scores.argmax(dim=1)], STEPS).sum().backward()
    assert scores.grad is None
    assert bool(graphs.grad.any())


def test_what_does_not_fit_is_said():
    graphs = vectors()
    with pytest.raises(ShapeError, match=r"expected \(S, G\)"):
        neighbour_distance(graphs[:5], STEPS)
    with pytest.raises(ShapeError, match="same story"):
        contrastive_neighbours(graphs, STEPS, torch.tensor([3, 2, 5, 0, 1, 2]), 0.2)
