"""The dual encoder and the same-document metric in training: they learn, come back, hear whole stories."""

import numpy as np
import pytest
import torch
from corpora import Words, made
from test_vrss_training import in_stories

from limner.config import build
from limner.encoders.vocabulary import Vocabulary
from limner.errors import CheckpointError, ConfigError, ShapeError
from limner.research.datasets.pairs import Pair, PairSet
from limner.research.runs.fit import prepare
from limner.research.runs.run import Run
from limner.research.runs.train import maximise, validation
from limner.research.systems import document, dual
from limner.research.systems.base import ModelParts, system
from limner.research.systems.dual import Dual, DualArchitecture
from limner.research.training.corpus import ArrayRows, corpus_of
from limner.research.training.loop import Loop


def values(system, **more):
    return {
        "system": system,
        "data": {"set": "pairs", "batch": 4},
        "loop": {"epochs": 30, "lr": 5e-3},
    } | more


def corpus(n=40):
    data, pictures = made(n=n)
    return corpus_of(PairSet("made", (), in_stories(data.pairs)), pictures)


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    """Small products gain nothing from more; the count is put back for the tests that follow."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def judge(settings, rows):
    return validation(rows, system(settings.system).capabilities(settings))


def fitted(prepared, settings, rows, folder):
    return Loop(
        prepared.task,
        settings.loop,
        folder,
        validate=judge(settings, rows),
        maximise=maximise(settings.loop.metric),
        saved_with=prepared.saved_with,
    ).fit()


@pytest.mark.slow
@pytest.mark.parametrize("context", ["none", "mean", "recurrent"])
def test_the_dual_encoder_learns_and_comes_back(tmp_path, context):
    rows = corpus()
    own = {"model": {"dim": 24, "hidden": 8, "dropout": 0.0, "context": context}}
    settings = build(dual.DualConfig, values("dual", **own), "test")
    position = fitted(prepare(dual.SYSTEM, settings, rows, sentences=Words()), settings, rows, tmp_path)
    losses = [entry["loss"]["total"] for entry in position.history]
    assert losses[-1] < 0.5 * losses[0]
    model, again = dual.SYSTEM.load(tmp_path, sentences=Words())
    assert again == settings
    found = judge(settings, rows)(model)
    assert found == position.history[position.best_epoch]["val"]
    assert found["MRR"] > 0.5
    with pytest.raises(CheckpointError, match="another sentence encoder"):
        dual.SYSTEM.load(tmp_path, sentences=Words("two"))


@pytest.mark.parametrize("context", ["none", "mean", "recurrent"])
def test_a_story_hears_itself_and_no_other(context):
    torch.manual_seed(0)
    own = DualArchitecture(dim=8, hidden=4, context=context)
    model = Dual(own, ModelParts(Vocabulary(()), 5, sentences=Words())).eval()
    stories = [["ash0 bay1", "cod2"], ["dew0"], ["elm1", "fog2 gem0", "hay1"]]
    together = torch.from_numpy(Words().encode_text([text for story in stories for text in story]))
    made_together = model(together, torch.tensor([2, 1, 3])).detach().numpy()
    np.testing.assert_allclose(np.concatenate(model.encode_stories(stories)), made_together, atol=1e-6)
    other = model.encode_stories([["ash0 bay1", "elm1 elm1"]])[0][0]
    assert bool(np.abs(other - made_together[0]).max() > 1e-5) is (context != "none")
    assert model.encode_stories([[]])[0].shape == (0, 8)
    np.testing.assert_allclose(model.encode_text(["dew0"])[0], made_together[2], atol=1e-6)


@pytest.mark.slow
def test_the_metric_brings_pictures_of_a_story_together(tmp_path):
    """Features of a story share a direction, drowned by others: the projection has to find it."""
    rng = np.random.default_rng(0)
    pairs, features = [], []
    for number in range(36):
        code = rng.standard_normal(12)
        for place in range(4):
            split = "train" if number < 24 else "val"
            name = f"{number}-{place}"
            told = {"split": split, "group": str(number), "seq": str(number), "pos": place}
            pairs.append(Pair(id=name, text=f"words {name}", image=name, **told))
            features.append(
                np.concatenate([2 * rng.standard_normal(12), code + 0.2 * rng.standard_normal(12)])
            )
    pictures = ArrayRows([pair.id for pair in pairs], np.array(features, np.float32))
    rows = corpus_of(PairSet("made", (), tuple(pairs)), pictures)
    own = {"model": {"dim": 12, "dropout": 0.0}}
    settings = build(document.DocumentConfig, values("document", **own), "test")
    prepared = prepare(document.SYSTEM, settings, rows)
    before = judge(settings, rows)(prepared.task.model)
    position = fitted(prepared, settings, rows, tmp_path)
    model, again = document.SYSTEM.load(tmp_path)
    after = judge(settings, rows)(model)
    assert again == settings
    assert after == position.history[position.best_epoch]["val"]
    assert after["mAP"] > before["mAP"] + 0.2
    with pytest.raises(ConfigError, match="has no text encoder"):
        Run.open(tmp_path).evaluate()


def test_what_does_not_fit_is_said():
    rows = corpus(8)
    with pytest.raises(ConfigError, match="no sentence encoder"):
        prepare(dual.SYSTEM, build(dual.DualConfig, values("dual"), "test"), rows)
    model = Dual(DualArchitecture(dim=8), ModelParts(Vocabulary(()), 5, sentences=Words()))
    with pytest.raises(ShapeError, match="S in all"):
        model(torch.zeros(3, 48), torch.tensor([2]))
    with pytest.raises(ShapeError, match=r"expected \(B, 5\)"):
        model.encode_image(np.zeros((2, 4), np.float32))
