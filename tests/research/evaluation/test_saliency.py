"""Visual saliency: labels by rule, models that never score what they saw, places and chance by hand."""

from functools import partial

import numpy as np
import pytest

from limner.errors import DataError, NumericsError, ShapeError
from limner.research.datasets.entity_grid import roles_of
from limner.research.evaluation.sequences import (
    STRENGTH,
    Saliency,
    _heads,
    head_nouns,
    label_scores,
    noun_saliency,
    sequence_saliency,
)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("The children washed the potatoes.", ["child", "potato"]),
        ("The hare slept. The hare ran home to its grass.", ["hare", "hare", "home", "grass"]),
        ("Two foxes\nA fox", ["fox", "fox"]),
        ("Something ate it.", []),
        ("An ox", []),  # too short to be told from a fragment
        ("Äpfel", ["äpfel"]),
        ("", []),
    ],
)
def test_nouns_become_lemmas(text, words):
    assert head_nouns(text) == words


def test_head_nouns_are_those_whose_roles_are_read():
    sentences = (
        "The dog's bone lies in the old garden.",
        "'s",
        "Two cups of flour and a pinch of salt",
        "1/2 cup",
    )
    for sentence in sentences:
        assert list(_heads(sentence)) == list(roles_of(sentence))


def linear(features, **options):
    return partial(label_scores, features, **options)


def unit(rows):
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


@pytest.mark.parametrize("width", [4, 60])
def test_scores_are_those_of_one_model_per_label_and_fold(width):
    """With more columns than rows the table is turned first, which must change nothing."""
    from sklearn.linear_model import LogisticRegression  # a second, in every worker that collects the tests

    rng = np.random.default_rng(0)
    features = rng.normal(size=(30, width))
    truth = rng.random((30, 3)) < 0.4
    found = label_scores(features, truth)
    order = np.random.default_rng(0).permutation(30)
    for held in np.array_split(order, 5):
        seen = [row for row in range(30) if row not in set(held)]
        mean = unit(features)[seen].mean(axis=0)
        for label in range(3):
            model = LogisticRegression(C=STRENGTH, solver="liblinear", tol=1e-8, max_iter=10_000)
            model.fit(unit(features)[seen] - mean, truth[seen, label])
            due = model.decision_function(unit(features)[held] - mean)
            assert found[held, label] == pytest.approx(due, abs=0.01)


def test_a_picture_is_scored_by_models_that_have_not_seen_it():
    """A label of one picture alone cannot be known from the others."""
    found = label_scores(np.eye(10), np.eye(10, dtype=bool))
    assert not (found.argmax(axis=1) == np.arange(10)).any()


def test_labels_that_others_never_or_always_show():
    rng = np.random.default_rng(1)
    features, truth = rng.normal(size=(12, 3)), np.zeros((12, 3), bool)
    truth[:, 1] = True
    truth[::2, 2] = True
    found = label_scores(features, truth)
    assert (found.argmin(axis=1) == 0).all()
    assert (found.argmax(axis=1) == 1).all()
    assert np.isfinite(found).all()


def test_places_and_chance_by_hand():
    ranks = np.array([[1, 2, 3], [3, 2, 1], [2.5, 1, 2.5]], np.float32)
    one = Saliency(("fox", "hen", "egg"), ranks, ((0,), (1, 2), ()))
    assert one.values(np.array([0, 0, 0])).tolist() == [1, 2, np.inf]
    assert one.values(np.array([2, 1, 1])).tolist() == [2.5, 1, np.inf]
    # query 0: places 1, 3, 2.5; query 1: 2, 1, 1; query 2 never
    assert one.chance((1, 2, 3)) == pytest.approx([(1 / 3 + 2 / 3) / 3, (1 / 3 + 1) / 3, 2 / 3])
    assert Saliency((), np.zeros((3, 0), np.float32), ()).chance((1,)) == [0.0]


def test_pictures_that_look_like_their_words_are_told_from_others():
    rng = np.random.default_rng(2)
    kinds = np.arange(60) % 3
    features = np.eye(3)[kinds] + 0.1 * rng.normal(size=(60, 3))
    texts = [("a fox", "a hen", "an egg")[kind] for kind in kinds]
    relevant = [(row,) for row in range(60)]
    one = noun_saliency(texts, relevant, len(features), linear(features))
    assert one.labels == ("egg", "fox", "hen")
    right, wrong = np.arange(60), (np.arange(60) + 1) % 60
    assert (one.values(right) == 1).all()
    assert (one.values(wrong) > 1).all()
    assert one.chance((1,)) == pytest.approx([1 / 3])
    stories = sequence_saliency(
        [f"story {kind}" for kind in kinds], relevant, len(features), linear(features)
    )
    assert stories.labels == ("story 0", "story 1", "story 2")
    assert (stories.values(right) == 1).all()
    assert (stories.values(wrong) > 1).all()


def test_a_picture_has_the_labels_of_all_its_texts():
    """The most frequent nouns come first, equals by the alphabet."""
    features = np.random.default_rng(0).normal(size=(4, 2))
    texts, relevant = ["a fox and a hen", "an egg", "a fox"], [(0,), (0, 1), (2,)]
    one = noun_saliency(texts, relevant, len(features), linear(features))
    assert one.labels == ("fox", "egg", "hen")
    assert one.own == ((0, 2), (1,), (0,))
    truth = np.array([[1, 1, 1], [0, 1, 0], [1, 0, 0], [0, 0, 0]], bool)
    assert (one.ranks.argmin(axis=1) == label_scores(features, truth).argmax(axis=1)).all()
    nothing = noun_saliency(["12"], [(0,)], len(features), linear(features))
    assert nothing.labels == ()
    assert nothing.values(np.array([0])).tolist() == [np.inf]


def test_what_does_not_fit_is_refused():
    features, truth = np.ones((4, 2)), np.zeros((4, 1), bool)
    with pytest.raises(ShapeError, match=r"\(4, 2\), labels \(3, 1\)"):
        label_scores(features, truth[:3])
    with pytest.raises(DataError, match="1 pictures"):
        label_scores(features[:1], truth[:1])
    features[2, 1] = np.nan
    with pytest.raises(NumericsError, match="picture 2"):
        label_scores(features, truth)
    with pytest.raises(ShapeError, match="2 queries, pictures of 1"):
        noun_saliency(["a fox", "a hen"], [(0,)], 4, linear(np.ones((4, 2))))


def test_in_sample_every_picture_is_scored_by_a_model_that_saw_it():
    rng = np.random.default_rng(0)
    features, truth = rng.normal(size=(30, 40)), rng.random((30, 1)) < 0.5
    held = label_scores(features, truth)[:, 0] > 0
    seen = label_scores(features, truth, in_sample=True)[:, 0] > 0
    # labels are noise: what was seen is known by heart, what was not is guessed
    assert (seen == truth[:, 0]).mean() > 0.85
    assert (held == truth[:, 0]).mean() < 0.75
    one = noun_saliency(["a fox"] * 30, [(row,) for row in range(30)], 30, linear(features, in_sample=True))
    assert one.labels == ("fox",)
