"""Steps of stories as a test: order, right answers, ranks, repeats and looks, by hand and by loop."""

import numpy as np
import pytest
from made_up_scores import tabled
from made_up_sequences import story_pairs

from limner.errors import DataError, NumericsError, ShapeError
from limner.research.evaluation.results import About
from limner.research.evaluation.sequences import (
    Saliency,
    coherence,
    measure_sequences,
    of_stories,
    steps_of,
    without_repeats,
)

ABOUT = About(system="Tiny", data="made", split="grouped")


def pairs():
    """Two stories out of order; step 1 of story 0 has two pictures, one of them also step 0 of story 1."""
    one = story_pairs(2, 2)
    extra = one[1].model_copy(update={"id": "extra", "image": one[2].image})
    return [one[1], one[0], extra, *one[2:]]


def test_steps_stand_in_the_order_of_their_story():
    steps = steps_of(pairs())
    assert steps.names == ("0-1", "0-0", "extra", "1-1")
    assert [pairs()[row].id for row in steps.rows] == ["0-0", "0-1", "1-0", "1-1"]
    assert steps.stories == ("story 0", "story 0", "story 1", "story 1")
    assert steps.relevant == ((1,), (0, 2), (2,), (3,))
    assert steps.worlds == ((0, 1, 2), (0, 1, 2), (2, 3), (2, 3))


def test_only_steps_of_stories_are_told():
    whole = story_pairs(2, 2)
    assert of_stories(whole)
    assert not of_stories([])
    assert not of_stories(whole[::2])  # stories of one step each
    assert not of_stories([*whole, whole[0].model_copy(update={"id": "x", "seq": ""})])
    nowhere = whole[0].model_copy(update={"id": "x", "pos": None})
    assert not of_stories([*whole, nowhere])
    with pytest.raises(DataError, match="'x' has no position in a story"):
        steps_of([*whole, nowhere])


def test_ranks_by_hand():
    # rows and columns: 0-1, 0-0, extra, 1-0, 1-1 and pictures 0-1, 0-0, 1-0, 1-1
    scores = np.array(
        [[0.9, 0.1, 0.2, 0.8], [0.9, 0.5, 0.1, 0.3], [0, 0, 0, 0], [0.3, 0.3, 0.3, 0.3], [0.1, 0.2, 0.3, 0.0]]
    )
    found = measure_sequences(ABOUT, pairs(), tabled(scores)).found
    steps, distinct = found["steps"], found["distinct"]
    assert steps.own == (2, 1, 2.5, 4)
    # ties count half of the pictures that are not of the story: 0-1 and 0-0 tie with both of story 1
    assert steps.story == (1, 1, 2, 1)
    assert steps.top[:2] == (("0-1", "0-0", "1-1", "extra"), ("0-1", "1-1", "extra", "0-0"))
    # story 0 shows 0-1 first, so its next step has 1-1, and its own best is then 'extra'
    assert distinct.own[:2] == (2, 2)
    assert distinct.top[1] == ("1-1", "extra", "0-0", "0-1")
    assert steps.similarity == distinct.similarity == ()


def test_no_picture_comes_first_twice_in_a_story():
    rng = np.random.default_rng(0)
    stories = ["a"] * 6 + ["b"] * 6
    scores = np.round(rng.normal(size=(12, 8)), 1).astype(np.float32)
    before = scores.copy()
    found = without_repeats(scores, stories)
    assert (scores == before).all()
    for name in "ab":
        used = []
        for row in [row for row, story in enumerate(stories) if story == name]:
            free = [column for column in range(8) if column not in used]
            assert (found[row, free] == scores[row, free]).all()
            assert all(found[row, column] < scores[row].min() for column in used)
            used.append(max(free, key=lambda column: (scores[row, column], -column)))
            assert found[row].argmax() == used[-1]
    # more steps than pictures: all are behind all others, and nothing breaks
    assert np.isfinite(without_repeats(np.ones((3, 2)), ["a"] * 3)).all()


def test_distinct_ranks_by_loop():
    rng = np.random.default_rng(4)
    rows = story_pairs(4, 4)
    scores = rng.normal(size=(16, 16))
    found = measure_sequences(ABOUT, rows, tabled(scores)).found["distinct"]
    for story in range(4):
        used = []
        for step in range(4):
            row = 4 * story + step
            free = [c for c in range(16) if c not in used]
            better = sum(scores[row, c] > scores[row, row] for c in free)
            due = 1 + better if row in free else len(free) + 1 + (len(used) - 1) / 2
            assert found.own[row] == due
            used.append(max(free, key=lambda c: scores[row, c]))
        assert len(set(used)) == 4


def test_looks_are_asked_of_the_first_picture():
    features = np.array([[1.0, 0], [0, 2], [3, 3], [0, 0]])
    scores = np.array(
        [[0.9, 0.1, 0.2, 0.8], [0.9, 0.5, 0.1, 0.3], [0, 0, 0, 0], [0.3, 0.4, 0.3, 0.3], [0.1, 0.2, 0.3, 0.0]]
    )
    given = []

    def looks(*asked):
        given.append(asked)
        ranks = np.array([[1, 2], [2, 1], [1.5, 1.5], [2, 1]], np.float32)
        one = Saliency(("x", "y"), ranks, ((0,), (1,), (), (0, 1)))
        return {"noun": one, "sequence": one}

    result = measure_sequences(
        ABOUT, pairs(), tabled(scores), features=features, described="made up", saliency=looks
    )
    steps = result.found["steps"]
    half = 0.5**0.5
    # firsts: 0-1 for 0-0; 0-1 for itself or extra; 0-0 for 1-0; 1-0 for a picture without features
    assert steps.similarity == pytest.approx((0, 1, half, 0))
    assert steps.saliency["noun"] == (1, 2, np.inf, 1.5)
    assert result.features == "made up"
    # golds 0-0, 0-1 or extra, 1-0 and 1-1, which has no features, against 0-1, 0-0, 1-0 and 1-1
    due = [(0 + 1 + half + 0) / 4, (1 + half + 1 + 0) / 4, (half + half + 1 + 0) / 4, 0]
    assert result.random_similarity == pytest.approx(np.mean(due))
    # golds: 0-0, 0-1, 1-0, 1-1 → places 2, 2, ∞, 1
    assert result.levels["noun"].gold == (0.25, 0.75, 0.75)
    assert result.levels["noun"].random == pytest.approx(((0.25 + 0.5 + 0.75) / 4, 0.75, 0.75))
    texts, stories, relevant, _ = given[0]
    assert texts[0] == "the aaaa of step 0"
    assert (stories, relevant) == (steps_of(pairs()).stories, steps_of(pairs()).relevant)
    # firsts 0-1 and 0-1, then 0-0 and 1-0; golds 0-0 and 0-1, then 1-0 and 1-1
    assert steps.coherence == (None, pytest.approx(1), None, pytest.approx(half))
    assert result.gold_coherence == pytest.approx((0 + 0) / 2)
    bare = measure_sequences(ABOUT, pairs(), tabled(scores), features=features, similarity=False)
    # their mean is (1, 5/4): what all share does not make two alike
    centred = features - [1, 1.25]
    near = np.dot(centred[1], centred[2]) / np.linalg.norm(centred[1]) / np.linalg.norm(centred[2])
    assert bare.found["steps"].coherence == (None, pytest.approx(1), None, pytest.approx(near))
    assert bare.found["steps"].similarity == ()
    assert bare.levels == {}
    assert bare.random_similarity is None


def test_coherence_by_loop():
    rng = np.random.default_rng(2)
    features, stories = rng.normal(size=(9, 4)), ["a", "b", "b", "b", "c", "c"]
    chosen = rng.integers(0, 9, 6)
    found = coherence(features, chosen, stories)
    for row, value in enumerate(found):
        if row in (0, 1, 4):
            assert value is None
            continue
        one, other = features[chosen[row - 1]], features[chosen[row]]
        assert value == pytest.approx(one @ other / np.linalg.norm(one) / np.linalg.norm(other))


def test_what_does_not_fit_is_refused():
    rows = story_pairs(2, 2)
    with pytest.raises(ShapeError, match=r"expected \(4, 4\)"):
        measure_sequences(ABOUT, rows, tabled(np.zeros((4, 3))))
    with pytest.raises(ShapeError, match=r"features have shape \(3, 2\)"):
        measure_sequences(ABOUT, rows, tabled(np.zeros((4, 4))), features=np.zeros((3, 2)))
    with pytest.raises(NumericsError, match="feature is not finite"):
        measure_sequences(ABOUT, rows, tabled(np.zeros((4, 4))), features=np.full((4, 2), np.inf))
    with pytest.raises(NumericsError, match="is nan"):
        measure_sequences(ABOUT, rows, tabled(np.full((4, 4), np.nan)))
