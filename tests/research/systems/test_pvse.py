"""PVSE: the best of K² cosines in blocks and in training, and encoding that no batch changes."""

import numpy as np
import pytest
import torch

from limner.encoders.vocabulary import Vocabulary
from limner.errors import ShapeError
from limner.research.losses.weighting import weighted_hinge
from limner.research.systems.base import ModelParts
from limner.research.systems.complementary.model import Pvse, PvseArchitecture, pair_scores

TEXTS = ["a red fox runs", "two bears", "the blue whale sings in the deep sea", "fox"]
VOCABULARY = Vocabulary.build(TEXTS)
SMALL = PvseArchitecture(heads=3, dim=8, word_width=6, image_hidden=5, text_hidden=4)


def model(seed=0, **changes):
    torch.manual_seed(seed)
    return Pvse(SMALL.model_copy(update=changes), ModelParts(VOCABULARY, 10, max_length=6))


def grids(n=5, seed=1):
    return np.random.default_rng(seed).standard_normal((n, 4, 10)).astype(np.float32)


def units(rng, *shape):
    rows = rng.standard_normal(shape).astype(np.float32)
    return rows / np.linalg.norm(rows, axis=-1, keepdims=True)


def by_loop(texts, images):
    return np.array([[max(float(a @ b) for a in one for b in other) for other in images] for one in texts])


def test_scores_are_the_best_of_all_head_pairs(monkeypatch):
    rng = np.random.default_rng(0)
    texts, images = units(rng, 7, 3, 8), units(rng, 5, 2, 8)
    due = by_loop(texts, images)
    np.testing.assert_allclose(model().score(texts, images), due, atol=1e-6)
    some = model().scorer(texts, images)(np.array([1, 0]), slice(1, None))
    np.testing.assert_allclose(some, due[[1, 0], 1:], atol=1e-6)
    made = pair_scores(torch.from_numpy(texts), torch.from_numpy(images))
    np.testing.assert_allclose(made.numpy(), due, atol=1e-6)
    monkeypatch.setattr("limner.research.systems.complementary.model._ROWS", 6)
    monkeypatch.setattr("limner.research.systems.complementary.model._COLUMNS", 4)
    np.testing.assert_allclose(model().score(texts, images), due, atol=1e-6)
    assert model().score(texts[:0], images).shape == (0, 5)
    with pytest.raises(ShapeError):
        pair_scores(torch.zeros(1, 2, 3), torch.zeros(1, 2, 4))


def test_the_gradient_goes_to_the_best_pair_of_heads():
    texts = torch.tensor([[[1.0, 0.0], [0.0, 1.0]]], requires_grad=True)
    images = torch.tensor([[[0.6, 0.8], [0.8, 0.6]]])
    pair_scores(texts, images).sum().backward()
    assert texts.grad[0].tolist() == [pytest.approx([0.4, 0.3]), pytest.approx([0.3, 0.4])]  # a tie is shared
    texts = torch.tensor([[[1.0, 0.0], [0.0, 1.0]]], requires_grad=True)
    pair_scores(texts, torch.tensor([[[0.9, 0.1]]])).sum().backward()
    assert texts.grad[0].tolist() == [pytest.approx([0.9, 0.1]), [0, 0]]


def test_texts_and_pictures_become_unit_rows_per_head(monkeypatch):
    built = model()
    texts, images = built.encode_text(TEXTS), built.encode_image(grids())
    assert texts.shape == (4, 3, 8)
    assert images.shape == (5, 3, 8)
    np.testing.assert_allclose(np.linalg.norm(texts, axis=2), 1, atol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(images, axis=2), 1, atol=1e-5)
    monkeypatch.setattr("limner.research.systems.complementary.model.ENCODE_BATCH", 2)
    np.testing.assert_allclose(built.encode_text(TEXTS), texts, atol=1e-6)
    np.testing.assert_allclose(built.encode_image(grids()), images, atol=1e-6)
    assert built.encode_text([]).shape == (0, 3, 8)
    one = np.concatenate([built.encode_text([text]) for text in TEXTS])  # order is that of the texts
    np.testing.assert_allclose(one, texts, atol=1e-6)


def test_training_and_encoding_see_the_same():
    built = model().eval()
    ids, lengths = VOCABULARY.batch(TEXTS, 6)
    out = built(torch.from_numpy(ids), torch.from_numpy(lengths), torch.from_numpy(grids(4)))
    np.testing.assert_allclose(out.texts.detach().numpy(), built.encode_text(TEXTS), atol=1e-6)
    np.testing.assert_allclose(out.images.detach().numpy(), built.encode_image(grids(4)), atol=1e-6)


@pytest.mark.slow
def test_it_learns_made_up_pairs():
    built = model(heads=2)
    ids, lengths = (torch.from_numpy(part) for part in VOCABULARY.batch(TEXTS, 6))
    pictures, neg = torch.from_numpy(grids(4)), ~torch.eye(4, dtype=torch.bool)
    optimiser = torch.optim.Adam(built.parameters(), lr=0.01)
    losses = []
    for _ in range(60):
        optimiser.zero_grad()
        out = built(ids, lengths, pictures)
        loss = weighted_hinge(pair_scores(out.texts, out.images), torch.ones(4), 0.1, neg)
        loss.backward()
        optimiser.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < 0.05 * losses[0]
    best = built.score(built.encode_text(TEXTS), built.encode_image(grids(4))).argmax(axis=1)
    assert best.tolist() == [0, 1, 2, 3]


def test_the_fingerprint_follows_weights_and_settings():
    assert model().fingerprint == model().fingerprint
    assert model(seed=1).fingerprint != model().fingerprint
    assert model(text_hidden=5).fingerprint != model().fingerprint
