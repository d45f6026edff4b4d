"""VRSS in training: every variant learns, losses are what they say, stories stay whole."""

from functools import partial

import numpy as np
import pytest
import torch
from corpora import Words, made

from limner.config import build
from limner.errors import CheckpointError, ConfigError, ShapeError
from limner.research.datasets.pairs import PairSet
from limner.research.losses.generative import gaussian_kl
from limner.research.runs import fit
from limner.research.runs.run import vectors
from limner.research.runs.train import maximise, validation
from limner.research.systems.vrss import SYSTEM, VrssConfig
from limner.research.training import checkpoint
from limner.research.training.checkpoint import BEST
from limner.research.training.corpus import ArrayRows, corpus_of, stories_of
from limner.research.training.loop import Loop

pytestmark = pytest.mark.slow

prepare, load = partial(fit.prepare, SYSTEM), SYSTEM.load

VALUES = {
    "system": "vrss",
    "data": {"set": "pairs", "vectors": "random", "batch": 4},
    "model": {"word_width": 16, "hidden": 12, "latent": 8, "mlp": 24, "dropout": 0.0},
    "kl_epochs": 4,
    "loop": {"epochs": 25, "optimiser": "adam", "lr": 5e-3},
}
VARIANTS = {
    "vrss": (),
    "vae": ("model.latents=false", "anchor=gen_anchor"),
    "literal": ("variant=literal", "model.variance=learned", "model.context=false"),
    "sentences": ("preset=sound", "loop.lr=5e-3", "anchor=gold_anchor"),
}

WORDS = Words()


def config(*overrides):
    return build(VrssConfig, VALUES, "test", overrides)


CAN = SYSTEM.capabilities(config())


def in_stories(pairs, length=5):
    """Stories of one to `length` steps, their pairs out of order."""
    found, size, story, place = [], {}, 0, 0
    for pair in pairs:
        if place >= 1 + story % length:
            story, place = story + 1, 0
        found.append(pair.model_copy(update={"seq": f"{pair.split}{story}", "pos": place}))
        size[found[-1].seq] = place
        place += 1
    return tuple(reversed(found))


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


def loop(settings, rows, folder, **more):
    prepared = prepare(settings, rows, sentences=WORDS)
    return Loop(
        prepared.task,
        settings.loop,
        folder,
        validate=validation(rows, CAN),
        maximise=maximise(settings.loop.metric),
        saved_with=prepared.saved_with,
        **more,
    )


@pytest.mark.parametrize("name", VARIANTS)
def test_it_learns_and_comes_back(tmp_path, name):
    settings, rows = config(*VARIANTS[name]), corpus()
    position = loop(settings, rows, tmp_path).fit()
    losses = [entry["loss"] for entry in position.history]
    assert losses[-1]["hinge"] < 0.7 * losses[0]["hinge"]
    assert ("kl" in losses[0]) is (name != "vae")
    model, again = load(tmp_path, sentences=WORDS)
    assert again == settings
    assert not model.training
    assert (model.sentence_encoder is WORDS) is (name == "sentences")
    found = validation(rows, CAN)(model)
    assert found == position.history[position.best_epoch]["val"]
    assert found["R@10"] > 0.5  # of 40 pictures: chance is a quarter


def test_the_total_is_its_terms():
    task = prepare(config(), corpus()).task
    for epoch, grown in ((0, 0.0), (1, 0.25), (4, 1.0), (9, 1.0)):
        batch = next(iter(task.batches(epoch)))
        assert batch.epoch == epoch
        torch.manual_seed(0)
        found = {name: loss.detach() for name, loss in task.step(batch).items()}
        torch.manual_seed(0)
        made_again = task.model(batch.words, batch.lengths, batch.steps)
        divergence = gaussian_kl(*made_again.posterior, *made_again.prior).detach()
        due = found["reconstruction"] + 1.7 * found["hinge"]
        due = due + grown * divergence.mean() / 8
        assert float(found["total"]) == pytest.approx(float(due), rel=1e-5)
        assert float(found["kl"]) == pytest.approx(float(divergence.mean()), rel=1e-5)


def test_stories_are_whole_and_in_order():
    rows = corpus().train
    stories = stories_of(rows.pairs)
    assert sorted(np.concatenate(stories).tolist()) == list(range(len(rows)))
    for story in stories:
        own = [rows.pairs[place] for place in story]
        assert len({pair.seq for pair in own}) == 1
        assert [pair.pos for pair in own] == sorted(pair.pos for pair in own)
    loose = [pair.model_copy(update={"seq": "", "pos": None}) for pair in rows.pairs]
    assert [story.tolist() for story in stories_of(loose)] == [[place] for place in range(len(rows))]
    task = prepare(config(), corpus()).task
    batches = list(task.batches(0))
    assert len(batches) == task.steps_per_epoch == len(stories) // 4
    known = {tuple(rows.pairs[place].id for place in story) for story in stories}
    for batch in batches:
        ends = np.cumsum(batch.steps.numpy())[:-1]
        assert {tuple(part) for part in np.split(np.array(batch.ids), ends)} <= known
    assert [b.ids for b in task.batches(0)] == [b.ids for b in batches]
    assert [b.ids for b in task.batches(1)] != [b.ids for b in batches]


def test_validation_hears_stories_whole():
    """Rows come out of order; every vector belongs to its row."""
    rows = corpus()
    model = prepare(config(), rows).task.model
    texts, _, _ = vectors(model, rows.pictures, rows.val, CAN)
    for story in stories_of(rows.val.pairs):
        heard = model.encode_stories([[rows.val.pairs[place].text for place in story]])[0]
        np.testing.assert_allclose(texts[story], heard, atol=1e-6)


def test_a_stopped_run_goes_on_bit_for_bit(tmp_path):
    settings = config("loop.epochs=3", "model.dropout=0.3", "loop.optimiser=adadelta")
    whole = loop(settings, corpus(), tmp_path / "whole").fit()
    steps = iter(range(1, 100))
    cut = loop(
        settings, corpus(), tmp_path / "cut", report=lambda event: event.kind == "step" and next(steps) == 5
    )
    assert not cut.fit().history[2:]
    again = loop(settings, corpus(), tmp_path / "cut").fit()
    assert again.history == whole.history
    one, other = (checkpoint.load(tmp_path / name / BEST)[0] for name in ("whole", "cut"))
    assert all(torch.equal(one[key], other[key]) for key in one)


def test_the_mean_feature_is_of_the_training_pictures():
    rows = corpus()
    model = prepare(config("model.centre=true"), rows).task.model
    places = np.unique(rows.train.places)
    np.testing.assert_allclose(model.centre.numpy(), rows.pictures.take(places).mean(axis=0), atol=1e-5)


def test_what_does_not_fit_is_said(tmp_path):
    data, pictures = made(n=8)
    ids = list(dict.fromkeys(pair.image_id for pair in data.pairs))
    flat = pictures.take(pictures.places(ids))
    grids = ArrayRows(ids, np.repeat(flat[:, None], 4, axis=1))
    with pytest.raises(ShapeError, match=r"expected vectors \(F,\)"):
        prepare(config(), corpus_of(PairSet("made", (), data.pairs), grids))
    with pytest.raises(ConfigError, match="anchor"):
        config("anchor=none")
    with pytest.raises(ConfigError, match="sentence encoder"):
        prepare(config("model.text=sentences"), corpus(8))
    rows = corpus(8)
    loop(config("loop.epochs=1"), rows, tmp_path).fit()
    tensors, state = checkpoint.load(tmp_path / BEST)
    checkpoint.save(tmp_path / BEST, tensors, state | {"config": {}})
    with pytest.raises(CheckpointError, match="not a checkpoint of vrss"):
        load(tmp_path)
