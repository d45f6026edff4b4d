"""VSE: unit rows, the option that leaves pictures long, and encoding that no batch changes."""

import numpy as np
import pytest
import torch

from limner.encoders.vocabulary import Vocabulary
from limner.errors import ShapeError
from limner.research.systems.base import ModelParts
from limner.research.systems.vse import Vse, VseArchitecture

TEXTS = ["a red fox runs", "two bears", "the blue whale sings in the deep sea"]
VOCABULARY = Vocabulary.build(TEXTS)


def model(**changes):
    torch.manual_seed(0)
    own = VseArchitecture(dim=8, word_width=6, **changes)
    return Vse(own, ModelParts(VOCABULARY, 10, max_length=6))


def features(n=3):
    return np.random.default_rng(1).standard_normal((n, 10)).astype(np.float32)


def test_texts_and_pictures_become_unit_rows(monkeypatch):
    built = model()
    texts, images = built.encode_text(TEXTS), built.encode_image(features())
    np.testing.assert_allclose(np.linalg.norm(np.concatenate([texts, images]), axis=1), 1, atol=1e-5)
    np.testing.assert_allclose(built.score(texts, images), texts @ images.T)
    some = built.scorer(texts, images)(np.array([1, 0]), slice(1, None))
    np.testing.assert_allclose(some, (texts @ images.T)[[1, 0], 1:], atol=1e-6)
    monkeypatch.setattr("limner.research.systems.base.ENCODE_BATCH", 2)
    np.testing.assert_allclose(built.encode_text(TEXTS), texts, atol=1e-6)
    np.testing.assert_allclose(built.encode_image(features()), images, atol=1e-6)
    ids, lengths = VOCABULARY.batch(TEXTS, 6)
    made = built.eval().texts(torch.from_numpy(ids), torch.from_numpy(lengths))
    np.testing.assert_allclose(made.detach().numpy(), texts, atol=1e-6)
    made = built.pictures(torch.from_numpy(features()))
    np.testing.assert_allclose(made.detach().numpy(), images, atol=1e-6)


def test_the_length_of_a_feature_says_nothing():
    built = model()
    np.testing.assert_allclose(
        built.encode_image(7 * features()), built.encode_image(features()), atol=1e-6
    )  # L2 before the layer


def test_pictures_may_stay_as_long_as_they_are():
    long = model(no_imgnorm=True)
    lengths = np.linalg.norm(long.encode_image(features()), axis=1)
    assert not np.allclose(lengths, 1, atol=0.01)
    due = long.encode_image(features()) / lengths[:, None]
    np.testing.assert_allclose(model().encode_image(features()), due, atol=1e-5)


def test_padding_has_no_influence():
    built = model()
    together = built.encode_text(TEXTS)
    np.testing.assert_allclose(built.encode_text([TEXTS[1]])[0], together[1], atol=1e-6)


def test_what_does_not_fit_is_said():
    with pytest.raises(ShapeError, match=r"expected \(B, 10\)"):
        model().encode_image(features()[:, :9])
    with pytest.raises(ShapeError, match="length"):
        model().texts(torch.tensor([[1]]), torch.tensor([2]))
    own = VseArchitecture(dim=8, word_width=6)
    with pytest.raises(ShapeError, match="word vectors"):
        Vse(own, ModelParts(VOCABULARY, 10, vectors=torch.zeros(2, 6)))
