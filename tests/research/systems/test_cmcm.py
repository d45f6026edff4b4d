"""The model: what retrieval and evaluation call, and the sizes the specification states."""

import numpy as np
import pytest
import torch

from limner.arrays import scores
from limner.encoders.vocabulary import Vocabulary
from limner.errors import ConfigError, ShapeError
from limner.research.evaluation.refinement import Refinement, pair_logits, refine
from limner.research.systems.base import ModelParts
from limner.research.systems.cmcm import Architecture, Cmcm, ImageHead

TEXTS = ["a red fox runs", "two bears", "the blue whale sings in the deep sea", "fox"]
VOCABULARY = Vocabulary.build(TEXTS)
SMALL = Architecture(dim=8, word_width=6, hidden=5)


def parts(relations, vocabulary=VOCABULARY):
    return ModelParts(vocabulary, 10, max_length=6, about={"relations": relations})


def model(seed=0, relations=("visible", "story"), **changes):
    torch.manual_seed(seed)
    architecture = SMALL.model_copy(update=changes)
    return Cmcm(architecture, parts(relations))


def features(n=5, seed=1):
    return np.random.default_rng(seed).standard_normal((n, 10)).astype(np.float32)


def test_texts_and_pictures_become_unit_rows_of_one_space():
    built = model()
    texts, images = built.encode_text(TEXTS), built.encode_image(features())
    assert texts.shape == (4, 8)
    assert images.shape == (5, 8)
    assert texts.dtype == images.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(np.concatenate([texts, images]), axis=1), 1, atol=1e-5)
    np.testing.assert_array_equal(built.score(texts, images), scores(texts, images))
    assert built.encode_text([]).shape == (0, 8)
    assert built.encode_image(features(0)).shape == (0, 8)


def test_encoding_leaves_mode_and_statistics_alone(monkeypatch):
    built = model().train()
    before = {name: tensor.clone() for name, tensor in built.state_dict().items()}
    whole = built.encode_text(TEXTS), built.encode_image(features())
    assert built.training
    assert all(torch.equal(tensor, before[name]) for name, tensor in built.state_dict().items())
    monkeypatch.setattr("limner.research.systems.base.ENCODE_BATCH", 2)
    np.testing.assert_allclose(built.encode_text(TEXTS), whole[0], atol=1e-6)
    np.testing.assert_allclose(built.encode_image(features()), whole[1], atol=1e-6)


def test_pairs_of_a_batch_equal_encoding_them_apart():
    built = model().eval()
    ids, lengths = VOCABULARY.batch(TEXTS, 6)
    out = built(torch.from_numpy(ids), torch.from_numpy(lengths), torch.from_numpy(features(4)))
    texts, images = built.encode_text(TEXTS), built.encode_image(features(4))
    np.testing.assert_allclose(out.texts.detach(), texts, atol=1e-6)
    np.testing.assert_allclose(out.images.detach(), images, atol=1e-6)
    chances = built.relation_probabilities(texts, images)
    np.testing.assert_allclose(out.logits.detach().sigmoid(), chances, atol=1e-6)


@pytest.mark.parametrize("kind", ["linear", "product", "mlp"])
def test_refinement_accepts_the_model_and_equals_its_pairs(kind):
    torch.manual_seed(0)
    built = Cmcm(
        SMALL.model_copy(update={"relations": kind, "relations_hidden": 4}),
        parts(("a", "b", "c")),
    )
    texts, images = built.encode_text(TEXTS), built.encode_image(features())
    table = built.score(texts, images)
    refined = refine(table, pair_logits(built, texts, images), Refinement(1.5, np.inf))
    for i in range(4):
        for j in range(5):
            x = built.relation_probabilities(texts[i : i + 1], images[j : j + 1])[0]
            due = table[i, j] * np.exp(1.5 * np.abs(x - 0.5)).sum()
            assert refined[i, j] == pytest.approx(due, abs=1e-5)


def test_attention_names_the_words_that_count():
    found = model().attention(TEXTS)
    assert [word for word, _ in found[2]] == ["the", "blue", "whale", "sings", "in", "the"]  # cut at 6
    for row in found:
        assert sum(weight for _, weight in row) == pytest.approx(1, abs=1e-5)
    with pytest.raises(ConfigError, match="no attention"):
        model(pooling="none").attention(TEXTS)


def test_a_model_without_relations_says_so():
    torch.manual_seed(0)
    base = Cmcm(
        SMALL.model_copy(update={"relations": "none"}),
        parts(("a",)),
    )
    assert base.relations == ()
    assert base.coherence is None
    rows = np.zeros((1, 8), np.float32)
    for call in (base.relation_terms, base.relation_table, base.relation_probabilities):
        with pytest.raises(ConfigError, match="predicts no relations"):
            call(rows, rows)
    with pytest.raises(ConfigError, match="no relation to predict"):
        model(relations=())


def test_the_fingerprint_follows_weights_words_and_settings():
    first = model().fingerprint
    assert model().fingerprint == first
    assert model(seed=1).fingerprint != first
    assert model(relations=("visible", "other")).fingerprint != first
    other = Vocabulary(tuple(reversed(VOCABULARY.words)))
    torch.manual_seed(0)
    changed = Cmcm(SMALL, parts(("visible", "story"), other))
    assert changed.fingerprint != first


def test_sizes_are_those_of_the_specification():
    head = ImageHead(2048, 1024)
    assert sum(p.numel() for p in head.norm.parameters()) == 4_096
    assert sum(p.numel() for p in head.project.parameters()) == 2_098_176
    assert Architecture().dim == 1024


def test_pictures_that_do_not_fit_are_refused():
    built = model()
    with pytest.raises(ShapeError, match=r"expected \(B, 10\)"):
        built.encode_image(np.zeros((2, 9), np.float32))
    with pytest.raises(ShapeError, match="at least 2 for batch norm"):
        built.train().image_head(torch.zeros(1, 10))


def test_a_read_only_array_is_encoded():
    rows = features()
    rows.setflags(write=False)
    assert model().encode_image(rows).shape == (5, 8)
    assert model().encode_image(rows.astype(np.float16)).dtype == np.float32
