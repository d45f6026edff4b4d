"""Decoders against enumeration of every story."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from limner.errors import ShapeError
from limner.research.evaluation import decoding
from limner.research.evaluation.decoding import left_to_right, max_marginals


@st.composite
def problems(draw):
    steps, pictures = draw(st.integers(1, 4)), draw(st.integers(1, 5))
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    rounding = draw(st.sampled_from([0, 1, 6]))  # 0 gives many ties
    scores = np.round(rng.normal(size=(steps, pictures)) * 2, rounding)
    pair = np.round(rng.normal(size=(pictures, pictures)) * draw(st.sampled_from([0.0, 1.0, 3.0])), rounding)
    return scores, pair + pair.T


def value(decoder, scores, pair, story):
    """Of one whole story, by plain loops."""
    total = sum(scores[step][picture] for step, picture in enumerate(story))
    if decoder == "anchor":
        return total + max(sum(pair[latent][picture] for picture in story) for latent in range(len(pair)))
    return total + sum(pair[story[step]][story[step + 1]] for step in range(len(story) - 1))


def best(decoder, scores, pair, step=None, picture=None):
    """Of the best story, or of the best in which a step shows a picture."""
    stories = product(range(len(pair)), repeat=len(scores))
    return max(value(decoder, scores, pair, one) for one in stories if step is None or one[step] == picture)


@pytest.mark.parametrize("cells", [1, 4_000_000], ids=["one", "all"])
@pytest.mark.parametrize("decoder", ["chain", "anchor"])
@given(problem=problems())
@settings(deadline=None, max_examples=60)
def test_max_marginals_equal_enumeration(decoder, cells, problem):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(decoding, "CELLS", cells)  # latent pictures one by one, or together
        found = max_marginals(*problem, decoder)
    for step, picture in np.ndindex(found.shape):
        assert found[step, picture] == pytest.approx(best(decoder, *problem, step, picture), abs=1e-7)


@given(problem=problems(), width=st.integers(1, 5))
@settings(deadline=None, max_examples=60)
def test_a_beam_is_never_better_than_the_best_and_a_wide_one_is_as_good(problem, width):
    scores, pair = problem
    narrow, wide = (value("chain", *problem, left_to_right(*problem, kept)) for kept in (width, 5**4))
    due = best("chain", scores, pair)
    assert narrow <= due + 1e-7
    assert wide == pytest.approx(due, abs=1e-7)


def test_greedy_keeps_one_beginning_and_a_beam_more():
    pair = np.array([[0.0, -9, -9], [-9, 0, 2], [-9, 2, 0]])
    scores = np.array([[1.0, 0.9, 0], [0, 0, 0]])
    assert left_to_right(scores, pair, 1).tolist() == [0, 0]
    assert left_to_right(scores, pair).tolist() == [1, 2]


def test_of_many_equal_pictures_the_first_is_taken():
    scores = np.tile(np.arange(300) % 2.0, (2, 1))
    assert left_to_right(scores, np.zeros((300, 300)), 5).tolist() == [1, 1]


@pytest.mark.parametrize("decoder", ["chain", "anchor"])
def test_the_order_of_pictures_does_not_matter(decoder):
    rng = np.random.default_rng(3)
    scores, pair, order = rng.normal(size=(4, 7)), rng.normal(size=(7, 7)), rng.permutation(7)
    pair += pair.T
    mixed = max_marginals(scores[:, order], pair[np.ix_(order, order)], decoder)
    np.testing.assert_allclose(mixed, max_marginals(scores, pair, decoder)[:, order])


@pytest.mark.parametrize("decoder", ["chain", "anchor"])
def test_without_a_pair_term_each_step_ranks_by_itself(decoder):
    scores = np.random.default_rng(5).normal(size=(5, 9))
    found = max_marginals(scores, np.zeros((9, 9)), decoder)
    assert (np.argsort(found) == np.argsort(scores)).all()


@pytest.mark.parametrize("decoder", ["chain", "anchor"])
def test_a_pair_table_of_other_pictures_is_refused(decoder):
    with pytest.raises(ShapeError, match=rf"^{decoder}: pair has shape"):
        max_marginals(np.zeros((2, 2)), np.zeros((3, 3)), decoder)
