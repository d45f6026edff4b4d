"""The reconstructed density weights against values by hand and plain loops."""

import pytest
import torch
from batches import generator, others

from limner.errors import DataError, NumericsError, ShapeError
from limner.research.losses.reweighted import in_proportion, pair_density
from limner.research.losses.weighting import weighted_hinge


def density_loop(texts, images, usable, nearest):
    found = []
    for row in range(len(texts)):
        both = []
        for x, y, known in zip(images[row], texts[row], usable[row], strict=True):
            a, b = (1 + float(x)) / 2, (1 + float(y)) / 2
            if known:
                both.append(min(a, b))
        largest = sorted(both, reverse=True)[:nearest]
        found.append(sum(largest) / len(largest))
    return found


def bank(seed, size=5, rows=14):
    draws = generator(seed)
    texts, images = (torch.rand(size, rows, generator=draws, dtype=torch.float64) * 2 - 1 for _ in range(2))
    usable = torch.rand(size, rows, generator=draws) > 0.5
    usable[:, 1] = True
    return texts, images, usable


def test_by_hand():
    texts = torch.tensor([[1.0, 0.0, -1.0]], dtype=torch.float64)
    images = torch.tensor([[0.0, 0.5, 1.0]], dtype=torch.float64)
    usable = torch.ones(1, 3, dtype=torch.bool)
    # halves: texts 1, .5, 0;  pictures .5, .75, 1;  min .5, .5, 0
    assert pair_density(texts, images, usable, nearest=2).item() == pytest.approx(0.5)
    assert pair_density(texts, images, usable, nearest=3).item() == pytest.approx(1 / 3)
    # three neighbours asked for, two known: the mean of two
    usable[0, 0] = False
    assert pair_density(texts, images, usable, nearest=3).item() == pytest.approx(0.25)
    assert in_proportion(torch.tensor([0.5, 0.25, 0.25]), 3.0).tolist() == pytest.approx([1.5, 0.75, 0.75])


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("nearest", [1, 4, 50])
def test_equals_loops(seed, nearest):
    texts, images, usable = bank(seed)
    found = pair_density(texts, images, usable, nearest=nearest)
    assert found.tolist() == pytest.approx(density_loop(texts, images, usable, nearest))


def test_known_duplicates_in_the_bank_do_not_count():
    texts, images, usable = bank(3)
    first = pair_density(texts, images, usable, nearest=50)
    texts[~usable] = images[~usable] = 1.0
    assert torch.equal(pair_density(texts, images, usable, nearest=50), first)


def test_tight_in_both_modalities_weighs_more_than_in_one():
    tight, loose = torch.full((4,), 0.9), torch.full((4,), -0.5)
    texts, images = torch.stack([tight, tight, loose]), torch.stack([tight, loose, loose])
    alpha = in_proportion(pair_density(texts, images, torch.ones(3, 4, dtype=torch.bool), nearest=50), 3.0)
    assert alpha[0] > alpha[1]
    assert alpha[1].item() == pytest.approx(alpha[2].item())
    assert alpha.sum().item() == pytest.approx(3)


def test_weights_have_no_gradient_and_fit_the_weighted_hinge():
    texts, images, usable = bank(2)
    alpha = in_proportion(
        pair_density(texts.requires_grad_(), images.requires_grad_(), usable, nearest=50), 5.0
    )
    assert not alpha.requires_grad
    scores = torch.zeros(5, 5, requires_grad=True)
    found = weighted_hinge(scores, alpha, 0.1, others(5))
    found.backward()
    assert found.item() == pytest.approx(0.1 * 5 * 2 * 4 / 50)  # Σα = 5, 4 wrong candidates each way
    assert texts.grad is None


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_extremes_are_finite_and_rounding_stays_inside(dtype):
    usable = torch.ones(1024, 60, dtype=torch.bool)
    for level in (-1.0, 0.0, 1.002):
        same = torch.full((1024, 60), level, dtype=dtype)
        found = pair_density(same, same, usable, nearest=50)
        assert ((found >= 0) & (found <= 1)).all()
    assert torch.allclose(in_proportion(found, 1024.0), torch.ones(1024))


def test_what_does_not_fit_is_refused():
    texts, images, usable = bank(1)
    with pytest.raises(ShapeError, match="images has shape"):
        pair_density(texts, images[:, :3], usable, nearest=50)
    with pytest.raises(DataError, match="no other pair for row 0"):
        pair_density(texts, images, torch.zeros_like(usable), nearest=50)
    with pytest.raises(NumericsError, match="picture similarity in row 0"):
        pair_density(texts, images * torch.nan, usable, nearest=50)
    with pytest.raises(DataError, match="collapsed"):
        in_proportion(torch.zeros(3), 3.0)
