"""HAL against values by hand and scalar loops."""

import math

import pytest
import torch
from batches import duplicates, generator, others, score_table

from limner.errors import DataError, NumericsError, ShapeError
from limner.research.losses.reweighted import HalWeights, hal_loss, hal_weights, in_proportion


def loss_loop(scores, neg, gamma, epsilon, *, pairs=None, true=None):
    size, total = len(scores), 0.0
    for i in range(size):
        by_text = by_image = 0.0
        for j in range(size):
            if neg[i, j]:
                w_ij, w_ji = (1.0, 1.0) if pairs is None else (float(pairs[i, j]), float(pairs[j, i]))
                by_text += math.exp(gamma * w_ij * (float(scores[i, j]) - epsilon))
                by_image += math.exp(gamma * w_ji * (float(scores[j, i]) - epsilon))
        w_ii = 1.0 if true is None else float(true[i])
        total += math.log(1 + by_text) / gamma + math.log(1 + by_image) / gamma
        total -= math.log(1 + max(0.0, w_ii * float(scores[i, i])))
    return total / size


def weights_loop(scores, text_bank, image_bank, usable, *, k, a=40.0, b=40.0):
    """P of pictures, Q of texts, with plain exponentials."""

    def near(bank, i):
        return sorted((float(s) for s, u in zip(bank[i], usable[i], strict=True) if u), reverse=True)[:k]

    def wrong(s):
        return math.exp(b * s - 0.1)

    size = len(scores)
    pairs, true = torch.zeros(size, size, dtype=torch.float64), torch.zeros(size, dtype=torch.float64)
    for i in range(size):
        q = sum(wrong(s) for s in near(text_bank, i))
        for j in range(size):
            p = sum(wrong(s) for s in near(image_bank, j))
            own = math.exp(b * float(scores[i, i])) + math.exp(b * float(scores[j, j]))
            pairs[i, j] = (p + q) / (p + q + own)
        around = sum(math.exp(a * (s - 0.2)) for s in near(text_bank, i) + near(image_bank, i))
        own = math.exp(a * (float(scores[i, i]) - 0.2))
        true[i] = 1 - own / (own + around)
    return pairs, true


def bank(size, seed, rows=12):
    draws = generator(seed + 5)
    texts, images = (torch.rand(size, rows, generator=draws, dtype=torch.float64) * 2 - 1 for _ in range(2))
    usable = torch.rand(size, rows, generator=draws) > 0.4
    usable[:, 0] = True
    return texts, images, usable


def test_by_hand():
    scores = torch.tensor([[0.5, 0.3], [0.3, -0.2]], dtype=torch.float64)
    # each wrong score is ε, so each direction of each pair adds ln 2 / γ; the second true score is below 0
    due = (4 * math.log(2) / 30 - math.log(1.5)) / 2
    assert hal_loss(scores, others(2)).item() == pytest.approx(due)


def test_weights_by_hand():
    scores = torch.zeros(2, 2, dtype=torch.float64)
    zeros, usable = torch.zeros(2, 3, dtype=torch.float64), torch.ones(2, 3, dtype=torch.bool)
    found = hal_weights(scores, zeros, zeros, usable, nearest=2)
    hubs = 4 * math.exp(-0.1)  # 2 nearest on either side
    assert found.pairs.flatten().tolist() == pytest.approx([hubs / (hubs + 2)] * 4)
    assert found.true.tolist() == pytest.approx([4 / 5] * 2)


@pytest.mark.parametrize("seed", range(4))
def test_without_bank_it_equals_a_scalar_reference(seed):
    scores = score_table(7, seed)
    for neg in (others(7), duplicates(7, seed)):
        for gamma, epsilon in ((30, 0.3), (60, 0.7)):
            due = loss_loop(scores, neg, gamma, epsilon)
            assert hal_loss(scores, neg, gamma=gamma, epsilon=epsilon).item() == pytest.approx(due, abs=1e-12)


@pytest.mark.parametrize("seed", range(4))
def test_with_bank_it_equals_loops(seed):
    scores, (texts, images, usable), neg = score_table(6, seed), bank(6, seed), duplicates(6, seed)
    pairs, true = weights_loop(scores, texts, images, usable, k=4)
    found = hal_weights(scores, texts, images, usable, nearest=4)
    assert torch.allclose(found.pairs, pairs, atol=1e-12)
    assert torch.allclose(found.true, true, atol=1e-12)
    due = loss_loop(scores, neg, 30, 0.3, pairs=pairs, true=true)
    assert hal_loss(scores, neg, weights=found).item() == pytest.approx(due, abs=1e-12)


def test_unusable_bank_pairs_do_not_count():
    scores, (texts, images, usable) = score_table(5, 3), bank(5, 3)
    first = hal_weights(scores, texts, images, usable, nearest=9)
    texts[~usable] = images[~usable] = 1.0
    again = hal_weights(scores, texts, images, usable, nearest=9)
    assert torch.equal(first.pairs, again.pairs)
    assert torch.equal(first.true, again.true)


def test_gradients_flow_to_the_scores_and_not_through_the_weights():
    scores, (texts, images, usable) = score_table(5, 4).requires_grad_(), bank(5, 4)
    weights = hal_weights(scores, texts.requires_grad_(), images, usable, nearest=3)
    assert not weights.pairs.requires_grad
    assert not weights.true.requires_grad
    assert torch.autograd.gradcheck(lambda s: hal_loss(s, duplicates(5, 4), weights=weights), scores)
    live = HalWeights(weights.pairs.requires_grad_(), weights.true.requires_grad_())
    hal_loss(scores, others(5), weights=live).backward()
    assert live.pairs.grad is None
    assert live.true.grad is None
    assert scores.grad.abs().sum() > 0


def test_alpha_sums_to_the_total_and_follows_the_weights():
    assert in_proportion(torch.tensor([1.0, 3.0]), 8.0).tolist() == [2, 6]
    assert in_proportion(torch.ones(4), 96.0).tolist() == [24] * 4
    assert not in_proportion(torch.ones(2, requires_grad=True), 1.0).requires_grad
    with pytest.raises(DataError, match="all are 0"):
        in_proportion(torch.zeros(2), 1.0)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_extremes_are_finite_in_single_precision(sign):
    scores = torch.full((1024, 1024), sign)
    scores.fill_diagonal_(-sign)
    scores.requires_grad_()
    held = torch.full((1024, 300), sign)
    weights = hal_weights(scores, held, held, torch.ones(1024, 300, dtype=torch.bool), nearest=250)
    for given in (None, weights):
        found = hal_loss(scores, others(1024), gamma=60.0, weights=given)
        (gradient,) = torch.autograd.grad(found, scores)
        assert found.isfinite()
        assert gradient.isfinite().all()
    alpha = in_proportion(weights.true, 96.0)
    assert alpha.isfinite().all()
    assert alpha.sum().item() == pytest.approx(96)


def test_one_pair_has_only_its_own_score():
    assert hal_loss(torch.full((1, 1), 0.5), others(1)).item() == pytest.approx(-math.log(1.5))


def test_what_does_not_fit_is_refused():
    zeros, usable = torch.zeros(2, 3), torch.ones(2, 3, dtype=torch.bool)
    square = torch.zeros(2, 2)
    with pytest.raises(DataError, match="no other pair for row 1"):
        hal_weights(square, zeros, zeros, torch.tensor([[True] * 3, [False] * 3]), nearest=2)
    with pytest.raises(ShapeError, match="image_bank has shape"):
        hal_weights(square, zeros, torch.zeros(2, 4), usable, nearest=2)
    with pytest.raises(NumericsError, match="text_bank in row 0"):
        hal_weights(square, torch.full((2, 3), torch.nan), zeros, usable, nearest=2)
    with pytest.raises(ShapeError, match="pairs has shape"):
        hal_loss(square, others(2), weights=HalWeights(torch.ones(3, 3), torch.ones(2)))
