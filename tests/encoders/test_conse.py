"""ConSE against a plain loop over the formula."""

from unittest.mock import patch

import numpy as np
import pytest

from limner.encoders import pixels
from limner.encoders.pixels import ConSE

NAMES = ("goat", "boat", "kettle", "tree", "river", "drum", "cup")


class Words:
    """Random unit vectors; remembers what it was asked."""

    name, fingerprint, dim = "words", "w", 6

    def __init__(self):
        rows = np.random.default_rng(0).normal(size=(len(NAMES), 6))
        self.rows = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)

    def encode_text(self, texts):
        self.texts = list(texts)
        return self.rows[: len(texts)]


def loop(probabilities, rows, top):
    out = []
    for picture in probabilities.astype(np.float64):
        best = sorted(range(len(picture)), key=lambda column: (-picture[column], column))[:top]
        total = sum(picture[column] for column in best)
        mixed = sum(picture[column] / total * rows[column].astype(np.float64) for column in best)
        out.append(mixed / np.linalg.norm(mixed))
    return np.array(out)


@pytest.mark.parametrize("top", [1, 2, 5, 7, 100])
def test_equals_the_loop(top):
    probabilities = np.random.default_rng(2).dirichlet(np.ones(7) * 0.3, size=20).astype(np.float32)
    words = Words()
    with patch.object(pixels, "TOP", top):
        found = ConSE(NAMES, words).vectors(probabilities)
    np.testing.assert_allclose(found, loop(probabilities, words.rows, top), atol=1e-5)


def test_a_certain_picture_is_its_class_and_the_rest_does_not_matter():
    words = Words()
    certain = np.zeros((1, 7), np.float32)
    certain[0, 3] = 1
    np.testing.assert_allclose(ConSE(NAMES, words).vectors(certain)[0], words.rows[3], atol=1e-6)
    first = np.array([[0.5, 0.3, 0.1, 0.1, 0, 0, 0]], np.float32)
    second = np.array([[0.5, 0.3, 0, 0, 0.05, 0.05, 0.1]], np.float32)
    with patch.object(pixels, "TOP", 2):
        two = ConSE(NAMES, words)
    np.testing.assert_array_equal(two.vectors(first), two.vectors(second))


def test_labels_are_the_five_best_in_order():
    probabilities = np.array([[0.1, 0.3, 0.05, 0.25, 0.02, 0.2, 0.08]], np.float32)
    labels = ConSE(NAMES, Words()).labels(probabilities)[0]
    assert [name for name, _ in labels] == ["boat", "tree", "drum", "goat", "cup"]
    assert [round(share, 2) for _, share in labels] == [0.3, 0.25, 0.2, 0.1, 0.08]
    assert len(ConSE(NAMES[:3], Words()).labels(probabilities[:, :3])[0]) == 3


def test_names_are_put_into_the_prompt():
    words = Words()
    ConSE(NAMES, words)
    assert words.texts[:2] == ["There is a goat.", "There is a boat."]
