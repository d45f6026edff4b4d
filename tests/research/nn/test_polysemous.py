"""PIE heads against a loop over heads and items; padding, starts and shapes of the towers."""

import numpy as np
import pytest
import torch

from limner.errors import ConfigError, ShapeError
from limner.research.nn.polysemous import GridTower, PieHead, TextTower


def by_loop(head, parts, whole, real=None):
    """Item by item and head by head, by docs/methods/complementary.md §2.1."""
    first, second = head.first.weight, head.second.weight
    vectors = torch.zeros(len(parts), len(second), whole.shape[1])
    residuals, attention = torch.zeros_like(vectors), torch.zeros(len(parts), len(second), parts.shape[1])
    for item in range(len(parts)):
        kept = range(parts.shape[1]) if real is None else real[item].nonzero().squeeze(1).tolist()
        for number in range(len(second)):
            energy = torch.stack([second[number] @ torch.tanh(first @ parts[item, p]) for p in kept])
            share = energy.softmax(0)
            mixed = sum(w * parts[item, p] for w, p in zip(share, kept, strict=True))
            added = torch.sigmoid(head.project(mixed))
            made = head.norm(whole[item] + added)
            vectors[item, number] = made / made.norm()
            residuals[item, number] = added
            attention[item, number, list(kept)] = share
    return vectors, residuals, attention


@pytest.mark.parametrize("masked", [False, True])
def test_heads_are_the_loop(masked):
    torch.manual_seed(0)
    head = PieHead(5, 4, 3, 6)
    parts, whole = torch.randn(4, 7, 5), torch.randn(4, 6)
    real = torch.arange(7) < torch.tensor([[7], [1], [3], [5]]) if masked else None
    found = head(parts, whole, real)
    for mine, due in zip(found, by_loop(head, parts, whole, real), strict=True):
        torch.testing.assert_close(mine, due, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(found.attention.sum(dim=2), torch.ones(4, 3))


def test_heads_begin_as_xavier_says():
    torch.manual_seed(1)
    head = PieHead(300, 200, 3, 400)
    bound = (6 / (300 + 400)) ** 0.5
    assert head.project.weight.abs().max() <= bound
    assert head.project.weight.abs().max() > 0.95 * bound
    assert not head.project.bias.any()
    assert head.first.bias is None
    assert head.second.bias is None


def test_a_text_does_not_depend_on_padding_or_company():
    torch.manual_seed(2)
    tower = TextTower(20, 6, 4, 2, 8).eval()
    ids = torch.tensor([[3, 4, 0, 0, 0], [5, 6, 7, 8, 9]])
    lengths = torch.tensor([2, 5])
    together = tower(ids, lengths)
    alone = tower(ids[:1, :2], lengths[:1])
    torch.testing.assert_close(together.vectors[:1], alone.vectors)
    assert not together.attention[0, :, 2:].any()
    other = ids.clone()
    other[0, 2:] = 11  # what stands behind the end has no influence
    torch.testing.assert_close(tower(other, lengths).vectors, together.vectors)
    assert torch.linalg.vector_norm(together.vectors, dim=2).detach().numpy() == pytest.approx(
        np.ones((2, 2)), abs=1e-5
    )


def test_gradients_reach_every_weight():
    torch.manual_seed(3)
    towers = TextTower(12, 6, 4, 2, 8), GridTower(5, 4, 2, 8)
    texts = towers[0](torch.tensor([[2, 3], [4, 5]]), torch.tensor([2, 1])).vectors
    images = towers[1](torch.randn(2, 9, 5)).vectors
    (texts * images).sum().backward()
    for tower in towers:
        for name, weight in tower.named_parameters():
            assert bool(weight.grad.any()), name


def test_word_vectors_start_it_and_padding_stays_zero():
    vectors = torch.randn(5, 6)
    tower = TextTower(5, 6, 4, 2, 8, vectors=vectors)
    assert torch.equal(tower.embedding.weight[1:], vectors[1:])
    assert not tower.embedding.weight[0].any()


def test_what_does_not_fit_is_said():
    with pytest.raises(ConfigError, match="odd"):
        TextTower(5, 6, 4, 2, 7)
    with pytest.raises(ShapeError, match="word vectors"):
        TextTower(5, 6, 4, 2, 8, vectors=torch.zeros(4, 6))
    with pytest.raises(ShapeError, match="length"):
        TextTower(5, 6, 4, 2, 8)(torch.tensor([[1, 2]]), torch.tensor([3]))
    with pytest.raises(ShapeError, match=r"expected \(B, P, 5\)"):
        GridTower(5, 4, 2, 8)(torch.zeros(2, 5))
