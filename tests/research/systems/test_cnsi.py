"""CNSI: stories as they are, order energy as the score, coherence where it belongs."""

import numpy as np
import pytest
import torch

from limner.encoders.vocabulary import Vocabulary
from limner.errors import ShapeError
from limner.research.losses.contrastive import order_energy
from limner.research.systems import cnsi
from limner.research.systems.base import ModelParts
from limner.research.systems.cnsi import Cnsi, CnsiArchitecture

SMALL = {"word_width": 6, "dim": 8, "hidden": 5, "dropout": 0.5}
STORY = ["The dog saw a cat.", "The dog ran.", "The cat slept.", "A man called the dog."]


def model(seed=0, **more):
    torch.manual_seed(seed)
    vocabulary = Vocabulary.build(STORY)
    own = CnsiArchitecture(**SMALL | more)
    return Cnsi(own, ModelParts(vocabulary, 4, max_length=20))


def test_stories_do_not_touch_each_other():
    own = model()
    one, none, three = own.encode_stories([STORY, [], STORY[:3]])
    assert none.shape == (0, 8)
    np.testing.assert_allclose(one, own.encode_stories([STORY])[0], atol=1e-6)
    np.testing.assert_allclose(three, own.encode_stories([STORY[:3]])[0], atol=1e-6)
    assert one.dtype == np.float32
    assert (one >= 0).all()
    np.testing.assert_allclose(np.linalg.norm(one, axis=1), 1, atol=1e-5)
    assert own.encode_text(STORY).shape == (4, 8)
    assert own.encode_text([]).shape == (0, 8)
    assert own.encode_stories([]) == []


def test_a_step_hears_earlier_ones_and_coherence_is_of_the_whole():
    plain, heard = model(coherence=0), model()
    other = [*STORY[:3], "Nothing."]
    before, after = plain.encode_stories([STORY])[0], plain.encode_stories([other])[0]
    np.testing.assert_allclose(before[:3], after[:3], atol=1e-6)
    assert np.abs(before[3] - after[3]).max() > 1e-4
    changed = [STORY[3], *STORY[1:]]
    assert np.abs(before[1:] - plain.encode_stories([changed])[0][1:]).max() > 1e-5
    before, after = heard.encode_stories([STORY])[0], heard.encode_stories([other])[0]
    assert np.abs(before[:3] - after[:3]).max() > 1e-5


def test_scores_are_minus_the_energy_in_any_blocks(monkeypatch):
    rng = np.random.default_rng(0)
    texts, images = (np.abs(rng.standard_normal((n, 8))).astype(np.float32) for n in (7, 5))
    due = -order_energy(torch.from_numpy(texts), torch.from_numpy(images)).numpy()
    own = model()
    np.testing.assert_allclose(own.score(texts, images), due, atol=1e-5)
    some = own.scorer(texts, images)(np.array([1, 0]), slice(1, None))
    np.testing.assert_allclose(some, due[[1, 0], 1:], atol=1e-5)
    monkeypatch.setattr(cnsi, "_BLOCK_FLOATS", 100)
    np.testing.assert_allclose(own.score(texts, images), due, atol=1e-5)
    assert own.score(texts[:0], images).shape == (0, 5)
    assert own.score(texts, images[:0]).shape == (7, 0)
    own.train()
    np.testing.assert_array_equal(own.encode_stories([STORY])[0], own.encode_stories([STORY])[0])
    assert own.training


def test_the_fingerprint_follows_the_weights():
    one, other = model(), model()
    assert one.fingerprint == other.fingerprint
    assert one.fingerprint != model(coherence=0).fingerprint
    with torch.no_grad():
        other.out.bias[0] += 1
    assert one.fingerprint != other.fingerprint
    assert one.dim == 8


def test_what_does_not_fit_is_said():
    own = model()
    with pytest.raises(ShapeError, match=r"expected \(B, 4\)"):
        own.encode_image(np.ones((2, 5), np.float32))
    with pytest.raises(ShapeError, match="S in all"):
        own.stories(torch.ones(3, 8), torch.tensor([2, 2]), torch.zeros(2, 64))
    with pytest.raises(ShapeError, match="one per story"):
        own.stories(torch.ones(4, 8), torch.tensor([2, 2]), None)
    with pytest.raises(ShapeError):
        own.stories(torch.ones(4, 8), torch.tensor([2, 2]), torch.zeros(3, 64))
    vocabulary = Vocabulary.build(STORY)
    with pytest.raises(ShapeError):
        Cnsi(CnsiArchitecture(**SMALL), ModelParts(vocabulary, 4, vectors=torch.zeros(3, 6)))
