"""LDA as a model: visual words, topics of texts and scores, each against a loop or by hand."""

import math

import numpy as np
import pytest
import torch

from limner.encoders.vocabulary import Vocabulary
from limner.errors import ShapeError
from limner.research.systems.base import ModelParts
from limner.research.systems.lda import (
    CELL_PX,
    Lda,
    LdaArchitecture,
    local_vectors,
    word_counts,
    word_tokens,
)

WORDS = ("dog", "ran", "sea", "boat")
# two topics: land has the first two words and visual words, sea the last two of either
TOPICS = torch.tensor([[20, 20, 0.1, 0.1, 30, 10, 0.1, 0.1], [0.1, 0.1, 20, 20, 0.1, 0.1, 10, 30]]).double()
CENTRES = torch.tensor([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])


def model(**more):
    parts = {"mean": torch.zeros(2), "axes": torch.eye(2), "centres": CENTRES, "topics": TOPICS} | more
    return Lda(LdaArchitecture(alpha=1.0), ModelParts(Vocabulary(WORDS), 2, tensors=parts))


def test_visual_words_are_the_nearest_centres():
    rng = np.random.default_rng(0)
    own = model(mean=torch.tensor([0.2, -0.1]), axes=torch.tensor([[0.6, 0.8], [-0.8, 0.6]]))
    grids = rng.standard_normal((70, 5, 2)).astype(np.float32)
    found = own.visual_counts(grids)
    for grid, row in zip(grids, found, strict=True):
        due = [0] * 4
        for vector in grid:
            projected = own.axes.numpy() @ (vector - own.mean.numpy())
            due[int(np.argmin([np.sum((projected - c) ** 2) for c in CENTRES.numpy()]))] += 1
        assert row.tolist() == due
    np.testing.assert_allclose(own.encode_image(grids), found / 5, atol=1e-6)
    assert own.encode_image(grids[:0]).shape == (0, 4)


def test_scores_are_those_of_a_loop():
    own = model()
    texts, images = np.array([[0.9, 0.1], [0.3, 0.7]], np.float32), np.array([[0.5, 0.5, 0, 0]], np.float32)
    phi = TOPICS.numpy() / TOPICS.numpy().sum(axis=1, keepdims=True)
    for text, row in zip(texts, own.score(texts, images), strict=True):
        due = sum(0.5 * math.log(sum(text[k] * phi[k, 4 + w] for k in range(2))) for w in (0, 1))
        assert float(row[0]) == pytest.approx(due, rel=1e-5)
    np.testing.assert_array_equal(
        own.scorer(texts, images)(slice(1, None), slice(None)), own.score(texts, images)[1:]
    )


def test_texts_have_topics_and_find_their_pictures():
    own = model()
    shares = own.encode_text(["The dog ran, ran!", "BOAT on the sea", "nothing known", ""])
    np.testing.assert_allclose(shares.sum(axis=1), 1, atol=1e-6)
    assert shares[0, 0] > 0.8
    assert shares[1, 1] > 0.8
    np.testing.assert_allclose(shares[2:], 0.5, atol=1e-6)
    assert own.encode_text([]).shape == (0, 2)
    together = own.encode_text(["dog", "sea"])
    np.testing.assert_allclose(together[0], own.encode_text(["dog"])[0], atol=1e-6)
    grids = np.array([[[0, 0.1], [0, 0]], [[1, 1], [1, 0.9]]], np.float32)
    scores = own.score(shares, own.encode_image(grids))
    assert scores[0, 0] > scores[0, 1]
    assert scores[1, 1] > scores[1, 0]


def test_words_that_count():
    assert word_tokens("The Dog, a dog and 3 cats!") == ["dog", "dog", "cats"]
    assert word_counts(["dog dog sea", "", "unknown"], WORDS).toarray().tolist() == [
        [2, 0, 1, 0],
        [0, 0, 0, 0],
        [0, 0, 0, 0],
    ]


def test_drawings_are_cut_into_cells():
    drawing = np.zeros((2, 64, 48, 3), np.uint8)
    drawing[1, :8, :6] = (255, 0, 0)  # the first cell of the second one
    cells = local_vectors(torch.from_numpy(drawing))
    assert cells.shape == (2, 64, CELL_PX * CELL_PX * 3)
    assert bool((cells[0] == -1).all())
    assert bool((cells[1, 0, :16] == 1).all())
    assert bool((cells[1, 0, 16:] == -1).all())
    assert bool((cells[1, 1:] == -1).all())
    grids = torch.ones(2, 3, 4)
    assert local_vectors(grids) is grids


def test_the_fingerprint_follows_what_was_fitted():
    assert model().fingerprint == model().fingerprint
    assert model().fingerprint != model(topics=TOPICS + 1).fingerprint
    assert model().dim == 2


def test_what_does_not_fit_is_said():
    with pytest.raises(ShapeError, match="axis 8 is 7"):
        model(topics=TOPICS[:, :7])
    with pytest.raises(ShapeError):
        model(centres=CENTRES[:, :1])
    with pytest.raises(ShapeError, match="width 3, expected 2"):
        model().encode_image(np.ones((1, 4, 3), np.float32))
    with pytest.raises(ShapeError, match="expected grid features"):
        model().encode_image(np.ones((3, 4), np.float32))
