"""Relation losses against values by hand and plain loops."""

import math

import pytest
import torch

from limner.errors import DataError, NumericsError, ShapeError
from limner.research.systems.cmcm import class_weights, indifference_loss, relation_loss

LN2 = math.log(2)


def made(rows=6, relations=4, seed=0):
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(rows, relations, generator=generator, dtype=torch.float64) * 3
    labels = (torch.rand(rows, relations, generator=generator) < 0.4).double()
    weights = torch.rand(relations, generator=generator, dtype=torch.float64) * 5 + 0.1
    return logits, labels, weights


def loop(logits, labels, weights, form):
    total = 0.0
    for z_row, y_row in zip(logits.tolist(), labels.tolist(), strict=True):
        for z, y, w in zip(z_row, y_row, weights.tolist(), strict=True):
            x = 1 / (1 + math.exp(-z))
            positive, negative = -y * math.log(x), -(1 - y) * math.log(1 - x)
            total += w * (positive + negative) if form == "paper" else w * positive + negative
    return total / len(logits) / (1 if form == "paper" else logits.shape[1])


@pytest.mark.parametrize("weight", [0.218, 1.0, 7.684])
def test_logits_of_zero_by_hand(weight):
    for label, due in ((1.0, weight * LN2), (0.0, LN2)):
        value = relation_loss(torch.zeros(1, 1), torch.tensor([[label]]), torch.tensor([weight]))
        assert value.item() == pytest.approx(due, rel=1e-6)
        assert value > 0


@pytest.mark.parametrize("form", ["release", "paper"])
@pytest.mark.parametrize("seed", range(4))
def test_the_sign_is_positive_and_falls_towards_the_labels(form, seed):
    logits, labels, weights = made(seed=seed)
    assert relation_loss(logits, labels, weights, form) > 0
    logits.requires_grad_()
    relation_loss(logits, labels, weights, form).backward()
    # Downhill is up where the relation holds and down where it does not.
    assert torch.equal(-logits.grad.sign(), 2 * labels - 1)


def test_paper_logits_of_zero_weigh_both_labels_by_hand():
    for label in (0.0, 1.0):
        value = relation_loss(torch.zeros(1, 2), torch.full((1, 2), label), torch.tensor([3.0, 0.5]), "paper")
        assert value.item() == pytest.approx(3.5 * LN2, rel=1e-6)


def test_paper_weights_of_balanced_relations_double_the_plain_sum():
    logits, labels, _ = made(rows=8)
    labels[:4], labels[4:] = 0, 1
    weights = class_weights(labels, "paper")
    assert weights.tolist() == [2] * 4
    plain = torch.nn.functional.binary_cross_entropy_with_logits(logits, labels, reduction="none")
    assert relation_loss(logits, labels, weights, "paper").item() == pytest.approx(
        2 * plain.sum(1).mean().item()
    )


@pytest.mark.parametrize("form", ["release", "paper"])
@pytest.mark.parametrize("seed", range(4))
def test_equals_loops(form, seed):
    logits, labels, weights = made(seed=seed)
    assert relation_loss(logits, labels, weights, form).item() == pytest.approx(
        loop(logits, labels, weights, form), rel=1e-12
    )


def test_release_weights_are_those_of_the_release():
    rates = (0.821, 0.115, 0.329, 0.193, 0.158, 0.588, 0.313)
    labels = torch.stack([(torch.arange(1000) < round(1000 * p)).float() for p in rates], dim=1)
    due = (0.218, 7.684, 2.043, 4.171, 5.333, 0.702, 2.196)
    for found, expected in zip(class_weights(labels, "release").tolist(), due, strict=True):
        assert found == pytest.approx(expected, rel=0.01)


def test_weights_of_constant_relations_are_clipped():
    labels = torch.tensor([[0.0, 1.0], [0.0, 1.0]])
    assert class_weights(labels, "release").tolist() == pytest.approx([1e3, 1e-3])
    assert class_weights(labels, "paper").tolist() == pytest.approx([1e3, 1.0])


@pytest.mark.parametrize("form", ["release", "paper"])
def test_gradients_are_those_of_the_function(form):
    logits, labels, weights = made()
    assert torch.autograd.gradcheck(
        lambda z: relation_loss(z, labels, weights, form), logits.requires_grad_()
    )


@pytest.mark.parametrize("form", ["release", "paper"])
def test_the_order_of_rows_and_relations_does_not_matter(form):
    logits, labels, weights = made()
    rows, columns = torch.tensor([4, 0, 5, 1, 3, 2]), torch.tensor([2, 0, 3, 1])
    again = relation_loss(logits[rows][:, columns], labels[rows][:, columns], weights[columns], form)
    assert again.item() == pytest.approx(relation_loss(logits, labels, weights, form).item())


@pytest.mark.parametrize("form", ["release", "paper"])
def test_saturated_logits_in_half_precision_stay_finite(form):
    logits = torch.tensor([[60000.0, -60000.0, 0.0]], dtype=torch.float16, requires_grad=True)
    value = relation_loss(logits, torch.tensor([[0.0, 1.0, 1.0]]), torch.full((3,), 1e3), form)
    value.backward()
    assert value.dtype == torch.float32
    assert value.isfinite()
    assert logits.grad.isfinite().all()


def test_what_is_not_finite_or_does_not_fit_is_refused():
    logits, labels, weights = made(rows=3)
    with pytest.raises(NumericsError, match="logit in row 1"):
        relation_loss(logits.index_fill(0, torch.tensor([1]), float("nan")), labels, weights)
    with pytest.raises(NumericsError, match="label in row 2"):
        relation_loss(logits, labels.index_fill(0, torch.tensor([2]), float("nan")), weights)
    with pytest.raises(ShapeError):
        relation_loss(logits, labels[:2], weights)
    with pytest.raises(DataError, match="only 0 or 1"):
        class_weights(torch.tensor([[0.5]]), "release")
    with pytest.raises(DataError, match="at least one"):
        class_weights(torch.zeros(0, 2), "release")


def test_indifference_looks_at_wrong_pairs_only_and_is_least_at_one_half():
    neg = torch.tensor([[False, True], [True, False]])
    logits = torch.zeros(2, 2, 3, dtype=torch.float64)
    logits[0, 0], logits[1, 1] = 9, -9
    assert indifference_loss(logits, neg).item() == pytest.approx(LN2)
    logits[0, 1, 2] = 2.0
    x = 1 / (1 + math.exp(-2))
    due = (5 * LN2 - 0.5 * math.log(x) - 0.5 * math.log(1 - x)) / 6
    assert indifference_loss(logits, neg).item() == pytest.approx(due)
    assert torch.autograd.gradcheck(lambda z: indifference_loss(z, neg), logits.requires_grad_())
    assert indifference_loss(logits, torch.zeros(2, 2, dtype=torch.bool)).item() == 0
    with pytest.raises(NumericsError):
        indifference_loss(logits.detach() * float("nan"), neg)
