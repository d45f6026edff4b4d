"""Every loss that takes a mask of wrong pairs: what is not wrong neither counts nor gets a gradient."""

import importlib
import inspect
import pkgutil

import pytest
import torch
from batches import generator, others, score_table, unit

import limner.research.losses
from limner.research.losses import ranking
from limner.research.losses import reweighted as distance_weighted
from limner.research.losses.contrastive import (
    info_nce,
    info_nce_of_many,
    order_energy,
    sentence_order,
    story_order,
)
from limner.research.losses.generative import generated_hinge
from limner.research.losses.ranking import batch_hard, max_hinge, negatives, sum_hinge
from limner.research.losses.reweighted import (
    HalWeights,
    Neighbourhood,
    hal_loss,
    mithun_loss,
    mithun_weights,
    thomas_loss,
)
from limner.research.losses.weighting import weighted_hinge
from limner.research.systems.cmcm import indifference_loss

SIZE, MARGIN = 6, 2.5  # a margin that every wrong candidate violates, so that each counts in sums
TWICE = [(0, 1), (2, 5)]  # pairs 0 and 1 share their picture, 2 and 5 their text
ALPHA = torch.linspace(0.5, 1.5, SIZE, dtype=torch.float64)


def neighbourhood(seed, neg):
    return Neighbourhood(
        score_table(SIZE, seed),
        score_table(SIZE, seed + 1),
        neg,
    )


def thomas(scores, neg):
    return thomas_loss(scores, neighbourhood(31, others(SIZE)), neighbourhood(41, others(SIZE)), MARGIN, neg)


def hal_with_weights(scores, neg):
    pairs = torch.rand(SIZE, SIZE, generator=generator(3), dtype=torch.float64)
    return hal_loss(scores, neg, gamma=3.0, epsilon=0.0, weights=HalWeights(pairs, ALPHA / 2))


def weights_of_mithun(scores, neg):
    by_text, by_image = mithun_weights(scores, neg)
    return (by_text + 2 * by_image).sum()


def nearer(scores):
    """Scores all of which are near enough to be drawn."""
    return 0.5 + 0.4 * scores


def drawn_probabilities(scores, neg):
    # Which candidates a draw can meet, and how likely: a number that changes with every one of them.
    likely = distance_weighted.log_weights(nearer(scores), neg, 4).exp()
    return (likely / likely.sum(dim=1, keepdim=True)).square().sum()


def after_draw(loss):
    def one(scores, neg):
        near = nearer(scores)
        found = [
            loss(near, distance_weighted.draw(near, neg, 4, generator=generator(n)), neg) for n in range(30)
        ]
        return torch.stack(found).mean()

    return one


def costs(function):
    return lambda scores, neg: sum(part.sum() for part in function(scores, MARGIN, neg))


# case → function of the scores of a batch and its mask
OF_SCORES = {
    "ranking.sum_hinge": lambda s, neg: sum_hinge(s, MARGIN, neg),
    "ranking.max_hinge": lambda s, neg: max_hinge(s, MARGIN, neg),
    "ranking.pair_costs": costs(ranking.pair_costs),
    "ranking.hardest_costs": costs(ranking.hardest_costs),
    "weighting.weighted_hinge": lambda s, neg: weighted_hinge(
        s, ALPHA, MARGIN, neg, image_alpha=ALPHA.flip(0)
    ),
    "reweighted.thomas_loss": thomas,
    "reweighted.hal_loss": lambda s, neg: hal_loss(s, neg, gamma=3.0, epsilon=0.0),
    "reweighted.hal_loss weighted": hal_with_weights,
    "reweighted.mithun_loss": lambda s, neg: mithun_loss(s, MARGIN, neg),
    "reweighted.mithun_weights": weights_of_mithun,
    "reweighted.log_weights": drawn_probabilities,
    "reweighted.triplet_loss": after_draw(
        lambda s, drawn, neg: distance_weighted.triplet_loss(s, drawn, MARGIN, neg)
    ),
    "generative.generated_hinge": lambda s, neg: generated_hinge(s, MARGIN, neg, over="sum").sum(),
    "contrastive.info_nce": info_nce,
    "contrastive.info_nce_of_many": lambda s, neg: info_nce_of_many(s, torch.arange(SIZE), neg),
}
ELSEWHERE = {  # tested below in their own shapes, or no loss but the check of the mask itself
    "ranking.batch_hard",
    "reweighted.draw",
    "contrastive.sentence_order",
    "contrastive.story_order",
    "ranking.score_table",
}


def batch():
    """Scores whose duplicates look like the hardest wrong candidates, and the mask that knows better."""
    texts, pictures = torch.tensor([0, 1, 2, 3, 4, 2]), torch.tensor([0, 0, 2, 3, 4, 5])
    scores = score_table(SIZE, 5) * 0.5
    for i, j in TWICE:
        scores[i, j] = scores[j, i] = 0.9
    return scores, negatives(texts, pictures)


def test_every_loss_with_a_mask_is_here():
    found = set()
    for module in pkgutil.iter_modules(limner.research.losses.__path__):
        inside = importlib.import_module(f"limner.research.losses.{module.name}")
        for name, function in inspect.getmembers(inside, inspect.isfunction):
            own = function.__module__ == inside.__name__ and not name.startswith("_")
            if own and "neg" in inspect.signature(function).parameters:
                found.add(f"{module.name}.{name}")
    assert found == {case.split()[0] for case in OF_SCORES} | ELSEWHERE


@pytest.mark.parametrize("case", OF_SCORES)
def test_a_duplicate_neither_counts_nor_gets_a_gradient(case):
    loss = OF_SCORES[case]
    scores, neg = batch()
    changed = scores.clone()
    for i, j in TWICE:
        changed[i, j], changed[j, i] = -0.7, 0.1
    first = loss(scores, neg).item()
    assert loss(changed, neg).item() == first
    # The same change does show where nobody knows of the duplicates.
    assert loss(changed, others(SIZE)).item() != pytest.approx(loss(scores, others(SIZE)).item())
    scores.requires_grad_()
    value = loss(scores, neg)
    if value.requires_grad:  # weights have none
        value.backward()
        assert (scores.grad[others(SIZE) & ~neg] == 0).all()
        assert (scores.grad[neg] != 0).any()


def test_a_duplicate_is_never_drawn():
    scores, neg = batch()
    for seed in range(60):
        drawn = distance_weighted.draw(nearer(scores), neg, 4, generator=generator(seed))
        for i in range(SIZE):
            assert neg[i, drawn.images[i]]
            assert neg[drawn.texts[i], i]


@pytest.mark.parametrize("geometry", ["euclidean", "cosine"])
def test_batch_hard_never_takes_a_duplicate(geometry):
    _, neg = batch()
    texts, images = unit(SIZE, 8, 1), unit(SIZE, 8, 2)
    images[1], texts[5] = images[0], texts[2]

    def loss(mask):
        return batch_hard(texts, images, MARGIN, mask, geometry=geometry).item()

    assert loss(neg) < loss(others(SIZE))
    # A batch in which all others share the picture of pair 0 leaves that pair without a wrong candidate.
    lonely = others(SIZE)
    lonely[0], lonely[:, 0] = False, False
    alone = batch_hard(texts[1:], images[1:], MARGIN, others(SIZE - 1), geometry=geometry)
    assert loss(lonely) == pytest.approx(alone.item())


def test_the_relations_of_a_duplicate_are_not_pushed_to_one_half():
    _, neg = batch()
    logits = torch.randn(SIZE, SIZE, 3, generator=generator(1), dtype=torch.float64, requires_grad=True)
    indifference_loss(logits, neg).backward()
    assert (logits.grad[~neg] == 0).all()
    assert (logits.grad[neg] != 0).all()


def test_order_losses_leave_out_what_duplicates_would_cost():
    _, neg = batch()
    texts, images = unit(SIZE, 8, 1).abs(), unit(SIZE, 8, 2).abs()
    energy = order_energy(texts, images)
    extra = sum(
        (MARGIN - energy[i, j] + energy[i, i]) + (MARGIN - energy[i, j] + energy[j, j])
        for one in TWICE
        for i, j in (one, one[::-1])
    )
    kept, whole = (sentence_order(texts, images, MARGIN, mask) for mask in (neg, others(SIZE)))
    assert whole - kept == pytest.approx(extra.item())
    # Stories of three steps: step 0 of the second story meets step 0 of the first, shuffled to step 1.
    steps, shuffled = torch.tensor([3, 3]), torch.tensor([1, 2, 0, 4, 5, 3])
    known = others(SIZE)
    known[1, 3] = known[3, 1] = False

    def loss(mask):
        return story_order(texts, images, steps, shuffled, margin=MARGIN, neg=mask).item()

    assert loss(known) < loss(others(SIZE))
