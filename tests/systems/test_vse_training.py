"""VSE0 and VSE++ in training: their losses, what they learn, and that they come back."""

import pytest
import torch
from corpora import made

from limner.config import build
from limner.datasets.pairs import PairSet
from limner.errors import CheckpointError, ConfigError, ShapeError
from limner.losses.ranking import max_hinge, sum_hinge
from limner.runs.validation import maximise, validation
from limner.systems.vse import SYSTEM, VseConfig
from limner.training import checkpoint
from limner.training.corpus import ArrayRows, corpus_of
from limner.training.loop import BEST, Loop

prepare, load = SYSTEM.prepare, SYSTEM.load

VALUES = {
    "system": "vse",
    "data": {"set": "pairs", "vectors": "random", "batch": 16},
    "model": {"dim": 24, "word_width": 16},
    "loop": {"epochs": 12, "lr": 5e-3},
}


def config(*overrides):
    return build(VseConfig, VALUES, "test", overrides)


CAN = SYSTEM.capabilities(config())


def corpus(n=40):
    data, pictures = made(n=n)
    return corpus_of(PairSet("made", (), data.pairs), pictures)


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    """Small products gain nothing from more; the count is put back for the tests that follow."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("hinge", ["sum", "max"])
def test_it_learns_and_comes_back(tmp_path, hinge):
    settings, rows = config(f"hinge={hinge}"), corpus()
    prepared = prepare(settings, rows)
    position = Loop(
        prepared.task,
        settings.loop,
        tmp_path,
        validate=validation(rows, CAN),
        maximise=maximise(settings.loop.metric),
        saved_with=prepared.saved_with,
    ).fit()
    losses = [entry["loss"]["total"] for entry in position.history]
    assert losses[-1] < losses[0] / 2
    model, again = load(tmp_path)
    assert again == settings
    assert not model.training
    assert validation(rows, CAN)(model) == position.history[position.best_epoch]["val"]
    assert validation(rows, CAN)(model)["MRR"] > 0.3  # 40 pictures: chance is about 0.1


def test_the_hardest_candidate_counts_alone_after_the_warm_up():
    task = prepare(config("hinge=max", "warm_up_epochs=1"), corpus()).task
    for epoch, hinge in ((0, sum_hinge), (1, max_hinge)):
        batch = next(iter(task.batches(epoch)))
        texts, images = task.model.texts(batch.words, batch.lengths), task.model.pictures(batch.pictures)
        due = hinge(texts @ images.t(), 0.2, batch.neg)
        assert task.step(batch)["total"].item() == pytest.approx(due.item(), rel=1e-5)
        assert task.describe(batch) == ", ".join(batch.ids)
    assert prepare(config("preset=sound"), corpus()).task.config.warm_up_epochs == 1


def test_what_does_not_fit_is_refused(tmp_path):
    with pytest.raises(CheckpointError, match="needs pretrained weights"):
        prepare(config("backbone=finetune"), corpus(n=8))
    with pytest.raises(ConfigError, match="hinge"):
        config("hinge=hardest")
    checkpoint.save(tmp_path / BEST, {"a": torch.ones(2)}, {"config": {"system": "other"}})
    with pytest.raises(CheckpointError, match="not a checkpoint of vse"):
        load(tmp_path)
    plain = build(VseConfig, {"data": {"set": "captions"}}, "test")
    assert (plain.data.batch, plain.loop.lr, plain.deviations()) == (128, 2e-4, [])


def test_grids_are_not_taken_for_vectors():
    data, pictures = made(n=8)
    ids = list(dict.fromkeys(pair.image_id for pair in data.pairs))
    grids = ArrayRows(ids, pictures.take(pictures.places(ids))[:, None].repeat(4, axis=1))
    rows = corpus_of(PairSet("made", (), data.pairs), grids)
    with pytest.raises(ShapeError, match=r"expected vectors \(F,\)"):
        prepare(config(), rows)
