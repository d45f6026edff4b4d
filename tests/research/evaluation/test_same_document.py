"""Pictures that ask for their story: values by hand, ties, pictures of several stories, chance."""

import numpy as np
import pytest
from made_up_scores import tabled

from limner.errors import NumericsError, ShapeError
from limner.research.evaluation.stories import same_document


def of(*names):
    return [frozenset(name) for name in names]


def scored(vectors):
    """Scores of rows with each other."""
    return tabled(vectors @ vectors.T)


def test_values_by_hand():
    angles = np.array([0.0, 0.1, 1.0, 1.2, 1.3])
    vectors = np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)
    found = same_document(scored(vectors), of("a", "a", "b", "a", "b"))
    # nearest others: 0→1 right, 1→0 right, 2→3 wrong, 3→4 wrong, 4→3 wrong
    assert found["R@1"] == pytest.approx(2 / 5)
    # 0: 1 2 3 4 → right at 1, 3; 1: 0 2 3 4 → 1, 3; 2: 3 4 1 0 → 2; 3: 4 2 1 0 → 3, 4; 4: 3 2 1 0 → 2
    due = [(1 + 2 / 3) / 2, (1 + 2 / 3) / 2, 1 / 2, (1 / 3 + 2 / 4) / 2, 1 / 2]
    assert found["mAP"] == pytest.approx(np.mean(due))


def test_equal_scores_share_and_loners_do_not_count():
    vectors = np.ones((4, 1), np.float32)
    found = same_document(scored(vectors), of("a", "a", "b", "c"))
    assert found == {"R@1": pytest.approx(1 / 3), "mAP": pytest.approx(1 / 3)}


def test_a_picture_of_two_stories_is_right_for_both():
    vectors = np.eye(3, dtype=np.float32)
    vectors[1] = [0.6, 0.8, 0]
    vectors[2] = [0, 0.1, 0.99]
    found = same_document(scored(vectors), of("a", "ab", "b"))
    assert found["R@1"] == 1


def test_random_vectors_do_as_chance():
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((400, 16)).astype(np.float32)
    vectors = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    found = same_document(scored(vectors), [frozenset([str(n // 10)]) for n in range(400)])
    assert found["R@1"] == pytest.approx(9 / 399, abs=3 * (0.0225 * 0.9775 / 400) ** 0.5)


def test_what_cannot_be_is_refused():
    with pytest.raises(ShapeError, match=r"\(2, 3\), expected \(2, 2\)"):
        same_document(scored(np.ones((3, 2), np.float32)), of("a", "a"))
    with pytest.raises(ShapeError, match="none of 2 pictures share a story"):
        same_document(scored(np.ones((2, 2), np.float32)), of("a", "b"))
    broken = np.ones((3, 3))
    broken[1, 2] = np.nan
    with pytest.raises(NumericsError, match="picture 1 is not finite"):
        same_document(tabled(broken), of("a", "a", "b"))
