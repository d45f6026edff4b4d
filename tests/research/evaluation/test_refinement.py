"""Refinement against the plain loop over pairs, and the facts the specification states about it."""

import math

import numpy as np
import pytest
from made_up_scores import tabled

from limner.errors import ConfigError, NumericsError, ShapeError
from limner.research.evaluation import refinement
from limner.research.evaluation.refinement import (
    STRENGTHS,
    THRESHOLDS,
    Computed,
    OuterSum,
    Refinement,
    choose,
    gaps,
    pair_logits,
    refine,
)


def made(*, n=6, m=9, c=3, dim=5, seed=0, spread=2.0):
    """Unit vectors, a linear layer on [t; v], cosines and both terms."""
    rng = np.random.default_rng(seed)
    texts, images = rng.standard_normal((n, dim)), rng.standard_normal((m, dim))
    texts /= np.linalg.norm(texts, axis=1, keepdims=True)
    images /= np.linalg.norm(images, axis=1, keepdims=True)
    weight, bias = rng.standard_normal((c, 2 * dim)) * spread, rng.standard_normal(c)
    terms = OuterSum(
        (texts @ weight[:, :dim].T + bias).astype(np.float32), (images @ weight[:, dim:].T).astype(np.float32)
    )
    return texts, images, weight, bias, (texts @ images.T).astype(np.float32), terms


def by_loops(texts, images, weight, bias, strength):
    """(N, M) Σ_c exp(λ|σ(z) − ½|), pair by pair in double precision."""
    found = np.empty((len(texts), len(images)))
    for i, text in enumerate(texts):
        for j, image in enumerate(images):
            z = weight @ np.concatenate([text, image]) + bias
            found[i, j] = sum(math.exp(strength * abs(1 / (1 + math.exp(-v)) - 0.5)) for v in z)
    return found


def confidence(logits, strength, form="multiply"):
    """η of every text with every picture: what scores of 1 are multiplied by, or what is added to 0."""
    plain = np.full(logits.shape[:2], form == "multiply", np.float32)
    return refine(plain, logits, Refinement(strength, np.inf, form))


def order(scores):
    return np.argsort(-scores, axis=1, kind="stable")


@pytest.mark.parametrize("strength", [0.0, 0.13, 3.0])
@pytest.mark.parametrize("spread", [0.01, 2.0, 60.0])
def test_confidence_equals_loops(strength, spread):
    texts, images, weight, bias, _, terms = made(spread=spread)
    due = by_loops(texts, images, weight, bias, strength)
    np.testing.assert_allclose(confidence(terms, strength), due, rtol=2e-5)
    logits = terms.text_terms[:, None] + terms.image_terms
    computed = Computed(lambda q, p: logits[np.ix_(q, p)], np.arange(6), np.arange(9), 3)
    np.testing.assert_allclose(confidence(computed, strength), due, rtol=2e-5)


@pytest.mark.parametrize("seed", range(3))
def test_one_relation_is_the_distance_from_one_half(seed):
    # "add" with one relation is |σ(z) − ½| itself, from both branches of the exponential and from tanh.
    texts, images, weight, bias, _, terms = made(c=1, seed=seed, spread=20.0)
    joined = np.concatenate(np.broadcast_arrays(texts[:, None], images[None]), axis=2)
    due = np.abs(1 / (1 + np.exp(-(joined @ weight.T + bias)[..., 0])) - 0.5)
    np.testing.assert_allclose(confidence(terms, 1.0, "add"), due, rtol=0, atol=1e-4)
    logits = terms.text_terms[:, None] + terms.image_terms
    computed = Computed(lambda q, p: logits[np.ix_(q, p)], np.arange(6), np.arange(9), 1)
    np.testing.assert_allclose(confidence(computed, 1.0, "add"), due, rtol=0, atol=1e-4)


def test_blocks_of_rows_equal_one_block(monkeypatch):
    *_, terms = made(n=23, m=7)
    whole = confidence(terms, 0.2)
    monkeypatch.setattr("limner.research.evaluation.refinement._BLOCK_CELLS", 15)
    np.testing.assert_array_equal(confidence(terms, 0.2), whole)


@pytest.mark.parametrize("reach", [30.0, 79.0, 500.0, 1e30])
def test_saturated_logits_stay_finite_and_within_bounds(reach):
    terms = OuterSum(np.float32([[reach], [-reach], [0]]), np.float32([[reach], [-reach], [0]]))
    found = confidence(terms, 2.0)
    sure, unsure = math.exp(1.0), 1.0
    due = [[sure, unsure, sure], [unsure, sure, sure], [sure, sure, unsure]]
    np.testing.assert_allclose(found, due, rtol=1e-4)


def test_the_gap_is_that_of_a_sort():
    *_, scores, _ = made(n=40, m=11)
    ordered = np.sort(scores, axis=1)
    np.testing.assert_allclose(gaps(scores), ordered[:, -1] - ordered[:, -2], atol=1e-7)
    exact = ordered.astype(np.float64)
    assert gaps(scores).tolist() == (exact[:, -1] - exact[:, -2]).tolist()
    assert gaps(np.float32([[0.5, 0.5, 0.1]]))[0] == 0
    assert gaps(np.float32([[0.5]]))[0] == np.inf


def test_a_threshold_of_zero_leaves_everything_as_it_is():
    *_, scores, terms = made()
    np.testing.assert_array_equal(refine(scores, terms, Refinement(0.2, 0.0)), scores)


def test_a_threshold_of_zero_leaves_ties_too():
    tied = np.float32([[0.5, 0.5, 0.1]])
    terms = OuterSum(np.zeros((1, 1), np.float32), np.float32([[0], [9], [0]]))
    np.testing.assert_array_equal(refine(tied, terms, Refinement(0.2, 0.0)), tied)
    # nor does the choice of a threshold take 0 for one that parts them
    two, right = np.float32([[0.5, 0.5], [0.5, 0.5]]), np.float32([[[9], [0]], [[0], [9]]])
    logits = Computed(lambda q, p: right[np.ix_(q, p)], np.arange(2), np.arange(2), 1)
    for form in ("multiply", "add"):
        found = choose(tabled(two), logits, ranks, strengths=(0.2,), thresholds=(0.0, 0.02), form=form)
        assert found == Refinement(0.2, 0.02, form)


@pytest.mark.parametrize("better", [True, False])
def test_among_equal_medians_the_higher_reciprocal_rank_is_chosen(better):
    """Two of three queries have their picture first either way; refinement moves the third by one place."""
    scores = np.float32([[0.9, 0.1, 0.0], [0.1, 0.9, 0.0], [0.52, 0.51, 0.5 if better else 0.515]])
    due = ranks(scores)
    assert due.tolist() == [1, 1, 3 if better else 2]
    sure = np.zeros((3, 3, 1), np.float32)
    sure[2, 2 if better else 1] = 9
    logits = Computed(lambda q, p: sure[np.ix_(q, p)], np.arange(3), np.arange(3), 1)
    after = ranks(refine(scores, logits, Refinement(0.05, 0.1)))
    assert (np.median(after), after[2] < due[2]) == (1, better)
    found = choose(tabled(scores), logits, ranks, strengths=(0.05,), thresholds=(0.0, 0.1))
    assert found.threshold == (0.1 if better else 0.0)


def test_a_strength_of_zero_multiplies_by_the_number_of_relations():
    *_, scores, terms = made()
    refined = refine(scores, terms, Refinement(0.0, np.inf))
    np.testing.assert_allclose(refined, scores * 3, rtol=1e-6)
    np.testing.assert_array_equal(order(refined), order(scores))


def test_an_infinite_threshold_ranks_by_the_product():
    texts, images, weight, bias, scores, terms = made(seed=4)
    due = scores * by_loops(texts, images, weight, bias, 2.0)
    refined = refine(scores, terms, Refinement(2.0, np.inf))
    np.testing.assert_allclose(refined, due, rtol=1e-4)
    assert (order(refined) != order(scores)).any()


def test_the_mean_over_relations_ranks_as_the_sum():
    texts, images, weight, bias, scores, terms = made(seed=5)
    mean = by_loops(texts, images, weight, bias, 2.0) / 3
    np.testing.assert_array_equal(order(refine(scores, terms, Refinement(2.0, np.inf))), order(scores * mean))


def test_only_difficult_queries_change():
    scores = np.float32([[0.9, 0.1, 0.0], [0.5, 0.45, 0.0]])
    terms = OuterSum(np.zeros((2, 1), np.float32), np.float32([[0], [9], [0]]))
    refined = refine(scores, terms, Refinement(0.5, 0.1))
    np.testing.assert_array_equal(refined[0], scores[0])
    assert order(refined)[1, 0] == 1
    assert order(refine(scores, terms, Refinement(0.5, 0.04)))[1, 0] == 0


def test_adding_helps_where_the_score_is_negative_and_multiplying_hurts():
    scores = np.float32([[-0.50, -0.51]])
    terms = OuterSum(np.zeros((1, 1), np.float32), np.float32([[0], [9]]))  # confident about the second
    assert order(refine(scores, terms, Refinement(0.1, np.inf, "add")))[0, 0] == 1
    assert order(refine(scores, terms, Refinement(0.1, np.inf)))[0, 0] == 0
    sure = 1 / (1 + math.exp(-9)) - 0.5
    added = refine(scores, terms, Refinement(0.1, np.inf, "add"))
    np.testing.assert_allclose(added, [[-0.5, -0.51 + 0.1 * sure]], rtol=1e-6)


def ranks(scores, some=slice(0, None)):
    """Rank of picture i for query i, ties by mean; of some queries."""
    true = np.diagonal(scores, some.start)[: len(scores), None]
    return 1 + (scores > true).sum(1) + ((scores == true).sum(1) - 1) / 2


def test_choice_equals_trying_everything(monkeypatch):
    *_, scores, terms = made(n=9, m=9, seed=8)
    tried = []
    for strength in STRENGTHS[::6]:
        for threshold in THRESHOLDS:
            found = ranks(refine(scores, terms, Refinement(strength, threshold)))
            tried.append((np.median(found), -np.mean(1 / found), threshold, strength))
    *_, threshold, strength = min(tried)
    assert choose(tabled(scores), terms, ranks, strengths=STRENGTHS[::6]) == Refinement(strength, threshold)
    monkeypatch.setattr(refinement, "BLOCK_CELLS", 20)  # two queries a block
    again = choose(tabled(scores, tensors=True), terms, ranks, strengths=STRENGTHS[::6])
    assert again == Refinement(strength, threshold)


def test_where_refinement_hurts_none_is_chosen():
    scores = np.float32([[0.5, 0.45], [0.45, 0.5]])
    wrong = np.float32([[[0], [9]], [[9], [0]]])  # confident about the wrong picture each time
    logits = Computed(lambda q, p: wrong[np.ix_(q, p)], np.arange(2), np.arange(2), 1)
    assert choose(tabled(scores), logits, ranks, strengths=(0.5,)).threshold == 0
    right = wrong[:, ::-1]
    logits = Computed(lambda q, p: right[np.ix_(q, p)], np.arange(2), np.arange(2), 1)
    close = np.float32([[0.45, 0.5], [0.5, 0.45]])
    assert choose(tabled(close), logits, ranks, strengths=(0.5,)) == Refinement(0.5, 0.1)


class Related:
    """A model whose relation logits are a sum of two terms, handed out in either form."""

    def __init__(self, separable):
        self.separable, self.relations = separable, ("same", "other")

    def relation_terms(self, texts, images):
        return texts[:, :2] * 3, images[:, 1:3]

    def relation_table(self, texts, images):
        one, other = self.relation_terms(texts, images)
        return one[:, None] + other


def test_both_forms_of_a_models_logits_refine_alike():
    texts, images, *_ = made(n=5, m=7)
    texts, images = texts.astype(np.float32), images.astype(np.float32)
    fast, slow = (pair_logits(Related(separable), texts, images) for separable in (True, False))
    assert (type(fast), type(slow)) == (OuterSum, Computed)
    assert fast.shape == slow.shape == (5, 7, 2)
    np.testing.assert_allclose(confidence(slow, 0.7), confidence(fast, 0.7), rtol=1e-5)


def test_the_grid_is_that_of_the_specification():
    assert len(STRENGTHS) == 40
    assert (STRENGTHS[0], STRENGTHS[-1]) == pytest.approx((0.01, 0.2))
    assert list(THRESHOLDS) == [0, 0.02, 0.05, 0.1, 0.2, np.inf]


def test_what_does_not_fit_is_refused():
    *_, scores, terms = made()
    with pytest.raises(ShapeError, match="do not fit"):
        refine(scores[:, :4], terms, Refinement())
    with pytest.raises(NumericsError, match=r"^refinement: a score is not finite; check the embeddings$"):
        refine(np.full_like(scores, np.nan), terms, Refinement())
    with pytest.raises(NumericsError, match="picture term"):
        OuterSum(terms.text_terms, terms.image_terms * np.float32("nan"))
    with pytest.raises(NumericsError, match=r"^refinement: a text term is not finite; check the model$"):
        OuterSum(terms.text_terms * np.float32("nan"), terms.image_terms)
    with pytest.raises(ShapeError, match=r"^refinement: image_terms has shape"):
        OuterSum(terms.text_terms, terms.image_terms[:, :2])
    with pytest.raises(ShapeError, match=r"^refinement: scores has shape"):
        gaps(scores[0])
    with pytest.raises(ConfigError, match=r"^refinement: .*form.*did you mean 'add'"):
        Refinement(form="ad")
    with pytest.raises(ConfigError, match="at least 0"):
        Refinement(threshold=float("nan"))
    with pytest.raises(ConfigError, match="expected a finite strength"):
        Refinement(strength=np.inf)
    logits = Computed(lambda q, p: np.zeros((len(q), len(p), 2), np.float32), np.arange(6), np.arange(9), 3)
    with pytest.raises(ShapeError, match="logits have shape"):
        refine(scores, logits, Refinement(0.1, np.inf))
    logits = Computed(lambda q, p: np.full((len(q), len(p), 3), np.nan), np.arange(6), np.arange(9), 3)
    with pytest.raises(NumericsError, match=r"^refinement: a relation logit is not finite; check the model$"):
        refine(scores, logits, Refinement(0.1, np.inf))


def test_what_is_ranked_is_in_single_precision_refined_or_not():
    *_, scores, terms = made()
    assert refine(scores.astype(np.float64), terms, Refinement()).dtype == np.float32
    assert terms.confidence(0, 2, 0.1, "multiply").dtype == np.float32
    seen = set()

    def noted(table, some):
        seen.add(table.dtype)
        return ranks(table, some)

    choose(tabled(scores.astype(np.float64)), terms, noted)
    assert seen == {np.dtype(np.float32)}
