"""Complementary samples in training: every row learns, weights and memory are right, kills lose nothing."""

import json
import os
import signal
import time
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from corpora import made
from forked import started

from limner.config import build
from limner.errors import CheckpointError, ConfigError, ShapeError
from limner.research.datasets.neighbours import read_pair_scores
from limner.research.datasets.pairs import PairSet
from limner.research.runs import fit
from limner.research.runs.train import maximise, validation
from limner.research.systems.complementary import SYSTEM
from limner.research.systems.complementary.memory import FOLDER
from limner.research.systems.complementary.model import ComplementaryConfig
from limner.research.training import checkpoint
from limner.research.training.checkpoint import BEST, HISTORY, RESUME
from limner.research.training.corpus import ArrayRows, corpus_of
from limner.research.training.loop import Loop

pytestmark = pytest.mark.slow

prepare, load = partial(fit.prepare, SYSTEM), SYSTEM.load

VALUES = {
    "system": "complementary",
    "backbone": "frozen",
    "data": {"set": "pairs", "vectors": "random", "batch": 16},
    "model": {"heads": 2, "dim": 24, "word_width": 16, "image_hidden": 12, "text_hidden": 12},
    "weights": {"lam": 16},
    "graph": {"size": 6, "width": 8, "min_count": 1, "epochs": 2},
    "loop": {"epochs": 3, "lr": 3e-3, "metric": "MRR"},
}
METHODS = {
    "pvse": (),
    "thomas": ("method=thomas",),
    "hal": ("method=hal",),
    "hal with a bank": ("method=hal", "baselines.hal_bank=true"),
    "hal alpha": ("method=hal", "baselines.hal_bank=true", "form=alpha"),
    "hardest": ("method=hardest",),
    "mithun": ("method=mithun",),
    "mithun alpha": ("method=mithun", "form=alpha"),
    "amrani": ("method=amrani",),
    "distance": ("method=distance",),
    "discrepancy": ("method=discrepancy",),
    "discrepancy sampled": ("method=discrepancy", "weights.estimator=sampled1000"),
    "diversity": ("method=diversity",),
    "diversity aligned": ("method=diversity", "weights.kmode=aligned"),
    "diversity max": ("method=diversity", "weights.kmode=max"),
    "combined-stats max": ("method=combined-stats", "weights.kmode=max"),
    "discrepancy direct": ("method=discrepancy", "weights.hops=1"),
    "diversity sound": ("method=diversity", "preset=sound", "graph.vectors=doc2vec"),
    "diversity warm": ("method=diversity", "weights.start=warm"),
    "combined-val": ("method=combined-val", "weights.beta=2.0"),
    "combined-stats": ("method=combined-stats",),
    "combined-stats sound": ("method=combined-stats", "weights.reading=sound"),
    "random": ("method=random",),
    "uniform": ("method=uniform",),
}


def config(*overrides):
    return build(ComplementaryConfig, VALUES, "test", overrides)


CAN = SYSTEM.capabilities(config())


def corpus(n=40, **more):
    """Made-up pairs whose pictures are grids of four places."""
    data, pictures = made(n=n, **more)
    ids = list(dict.fromkeys(pair.image_id for pair in data.pairs))
    flat = pictures.take(pictures.places(ids))
    return corpus_of(PairSet("made", (), data.pairs), ArrayRows(ids, np.repeat(flat[:, None], 4, axis=1)))


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    """Neighbours are stored beside the features, below the current folder unless a run says where."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    """Small products gain nothing from more; the count is put back for the tests that follow."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def loop(settings, rows, folder, **more):
    prepared = prepare(settings, rows)
    made = Loop(
        prepared.task,
        settings.loop,
        folder,
        validate=validation(rows, CAN),
        maximise=maximise(settings.loop.metric),
        saved_with=prepared.saved_with,
        **more,
    )
    return made, prepared.task


@pytest.mark.parametrize("name", METHODS)
def test_every_method_lowers_its_loss(tmp_path, name):
    settings = config(f"loop.epochs={12 if name.startswith('hal') else 6}", *METHODS[name])
    made, _ = loop(settings, corpus(), tmp_path)
    losses = [entry["loss"]["ranking"] for entry in made.fit().history]
    # Weights begin with the second epoch, so what is compared is after that; HAL's with a bank grow with the
    # similarities in it, so that only the ranking tells whether it learns.
    assert losses[-1] < losses[1] or name == "hal with a bank"
    assert made.finished
    assert validation(corpus(), CAN)(load(tmp_path)[0])["MRR"] > 0.2  # 40 pictures: chance is about 0.1


def steps(task, epoch):
    """Take an epoch's steps without an optimiser; losses of each."""
    return [{k: float(v.detach()) for k, v in task.step(batch).items()} for batch in task.batches(epoch)]


@pytest.mark.parametrize("method", ["diversity", "discrepancy", "combined-val", "combined-stats"])
def test_the_first_epoch_is_uniform_and_the_second_is_not(method):
    task = prepare(config(f"method={method}"), corpus()).task
    first, second, third = (steps(task, epoch) for epoch in range(3))
    assert all(step["weights/ratio"] == pytest.approx(1) for step in first)
    assert all(step["weights/entropy"] == pytest.approx(np.log(16)) for step in first)
    assert all(step["weights/ratio"] > 1 for step in second)
    assert not any("weights/drift" in step for step in first + second)
    # Nothing was learned between them, so the scores are those of the epoch before.
    assert all(step["weights/drift"] == pytest.approx(1) for step in third)
    warm = prepare(config(f"method={method}", "weights.start=warm"), corpus()).task
    assert all(step["weights/ratio"] > 1 for step in steps(warm, 0))


def test_combined_stats_logs_the_statistics_that_its_factors_are_made_of():
    task = prepare(config("method=combined-stats"), corpus()).task
    first, second = steps(task, 0), steps(task, 1)
    assert not any(name.startswith("weights/mean") for step in first for name in step)
    raw = task._weights.pair_scores(tuple(pair.id for pair in task._rows.pairs)).scores
    for measure in ("DIVERSITY", "DISCREPANCY"):
        every = np.concatenate([raw[f"{measure}/image"], raw[f"{measure}/text"]])
        for step in second:
            assert step[f"weights/mean {measure}"] == pytest.approx(every.mean(), rel=1e-5)
            assert step[f"weights/deviation {measure}"] == pytest.approx(every.std(), rel=1e-5)


@pytest.mark.parametrize("gamma", [-1, 0, 1])
def test_weights_sum_to_lambda_and_gamma_0_is_uniform(gamma):
    task = prepare(config("method=diversity", f"weights.gamma={gamma}"), corpus()).task
    steps(task, 0)
    for batch in task.batches(1):
        out = task.model(batch.words, batch.lengths, batch.pictures)
        alpha = task._alpha(out.texts, out.images, batch)
        assert not alpha.requires_grad
        assert alpha.sum() == pytest.approx(16, rel=1e-5)
        assert bool((alpha == alpha[0]).all()) is (gamma == 0)
        task.step(batch)


def test_every_pair_has_vectors_after_the_first_epoch():
    task = prepare(config("method=diversity"), corpus(n=45)).task
    assert task.steps_per_epoch == 2  # 13 pairs are in no whole batch
    assert task._memory.read() is None
    steps(task, 0)
    bank = task._memory.read()
    assert bool(bank.seen.all())
    assert bool((bank.texts.norm(dim=1) > 0.1).all())
    row = 7
    rows = corpus(n=45).train
    own = task.model.encode_text([rows.texts[row]])[0].mean(axis=0)
    np.testing.assert_allclose(bank.texts[row], own, atol=1e-5)


def test_what_is_left_for_figures(tmp_path):
    task = prepare(config("method=combined-val"), corpus(n=32)).task
    task.close(tmp_path)
    steps(task, 0)
    task.close(tmp_path)
    assert not list(tmp_path.iterdir())
    steps(task, 1)
    task.close(tmp_path)
    found = read_pair_scores(tmp_path)
    assert found.epoch == 0
    assert found.ids == tuple(pair.id for pair in corpus(n=32).train.pairs)
    assert set(found.scores) == {
        *(f"{measure}/{side}" for measure in ("DIVERSITY", "DISCREPANCY") for side in ("text", "image")),
        "weight",
    }
    weights = found.scores["weight"]
    assert weights.sum() == pytest.approx(2 * 16, rel=1e-5)  # two batches of λ = 16


def test_the_largest_of_all_cosines_scores_neighbourhoods_where_it_is_asked_for():
    """With as few neighbours as here all are compared, by the heads that the epoch before left."""
    rows = corpus(n=32)
    task = prepare(config("method=discrepancy", "weights.kmode=max", "weights.hops=1"), rows).task
    steps(task, 0)
    heads = task.model.encode_text(rows.train.texts)  # (n, K, H); nothing was learned
    steps(task, 1)
    ids = tuple(pair.id for pair in rows.train.pairs)
    found = task._weights.pair_scores(ids).scores["DISCREPANCY/text"]
    for row, near in enumerate(task._neighbours):
        due = [(heads[row] @ heads[other].T).max() for other in near if other >= 0]
        assert found[row] == pytest.approx(np.mean(due), abs=1e-5)


@pytest.mark.parametrize(
    "wrong",
    [
        ("weights.kmode=max", "weights.own=drop"),
        ("weights.hops=1", "weights.nn=unique"),
        ("weights.kmode=max", "weights.estimator=sampled1000"),
        ("weights.hops=1", "weights.estimator=sampled1000"),
    ],
)
def test_readings_of_scores_that_do_not_go_together_are_refused(wrong):
    with pytest.raises(ConfigError, match=r"weights\.\w+ .* (go(es)? |combined )with|weights\.kmode"):
        config(*wrong)


def test_random_weights_are_drawn_anew():
    task = prepare(config("method=random"), corpus()).task
    batch = next(iter(task.batches(0)))
    out = task.model(batch.words, batch.lengths, batch.pictures)
    first, second = (task._alpha(out.texts, out.images, batch) for _ in range(2))
    assert first.sum() == pytest.approx(16, rel=1e-5)
    assert not torch.equal(first, second)


def test_no_test_row_reaches_the_graph(monkeypatch):
    from limner.research.systems import complementary

    seen = []
    original = complementary.document_vectors

    def watched(texts, **more):
        seen.extend(texts)
        return original(texts, **more)

    monkeypatch.setattr(complementary, "document_vectors", watched)
    rows = corpus()
    prepared = prepare(config("method=diversity"), rows)
    assert seen == rows.train.texts
    assert not any("secret" in text for text in seen)
    assert "secret" not in json.dumps(prepared.saved_with)
    ids = {name for epoch in range(3) for batch in prepared.task.batches(epoch) for name in batch.ids}
    assert {name.split("-")[0] for name in ids} == {"train"}


class Sentences:
    """Stands for an encoder of sentences."""

    name, fingerprint, dim = "made-up", "0", 8

    def __init__(self):
        self.texts = []

    def encode_text(self, texts):
        self.texts.extend(texts)
        return np.random.default_rng(0).standard_normal((len(texts), 8)).astype(np.float32)


def test_sentences_are_encoded_by_what_the_caller_brings():
    settings, rows, encoder = config("method=diversity", "graph.vectors=sentences"), corpus(), Sentences()
    assert SYSTEM.capabilities(settings).trains_with == {"sentences"}
    assert not SYSTEM.capabilities(config("graph.vectors=sentences")).trains_with
    prepare(settings, rows, sentences=encoder)
    assert encoder.texts == rows.train.texts
    with pytest.raises(ConfigError, match="no sentence encoder"):
        prepare(settings, rows)


def test_a_run_of_several_vectors_a_picture_says_that_a_library_holds_one():
    one, two = (SYSTEM.capabilities(config(f"model.heads={heads}")).no_library for heads in (1, 2))
    assert "(K = 1), but a library stores one for each" in one
    assert "(K = 2)" in two


class StoppedError(Exception):
    """Stands for whatever ends a process."""


def assert_same_run(a, b):
    (tensors_a, state_a), (tensors_b, state_b) = (checkpoint.load(folder / RESUME) for folder in (a, b))
    assert tensors_a.keys() == tensors_b.keys()
    for name, tensor in tensors_a.items():
        assert torch.equal(tensor, tensors_b[name]), name
    assert state_a == state_b
    assert (a / HISTORY).read_text() == (b / HISTORY).read_text()


@pytest.mark.parametrize(
    ("name", "stops"),
    [
        ("combined-val", (1, 2, 3)),
        *((name, (3,)) for name in ("diversity warm", "hal with a bank", "amrani", "random")),
    ],
    ids=lambda one: one if isinstance(one, str) else "",
)
def test_a_resumed_run_equals_an_undisturbed_one_bit_for_bit(tmp_path, name, stops):
    settings = config("loop.save_every_steps=1", *METHODS[name])
    loop(settings, corpus(), tmp_path / "whole")[0].fit()
    for stop_after in stops:
        cut = tmp_path / f"cut-{stop_after}"

        def stop(event, at=stop_after):
            if event.kind == "step" and event.position.taken == at:
                raise StoppedError

        with pytest.raises(StoppedError):
            loop(settings, corpus(), cut, report=stop)[0].fit()
        torch.rand(17)  # whatever else draws numbers before the resume
        loop(settings, corpus(), cut)[0].fit()
        assert_same_run(tmp_path / "whole", cut)
        assert any(name.startswith("memory/") for name in checkpoint.load(cut / RESUME)[0]) or (
            name == "random"
        )


def waiting(folder, at):
    """A run that waits after a step, for a test to kill it from outside; 0 waits nowhere."""
    torch.set_num_threads(1)
    settings = config("method=combined-val", "loop.save_every_steps=1", "loop.epochs=4")
    assert Path.cwd() == Path(folder).parent

    def report(event):
        if event.kind == "step" and event.position.taken == at:
            Path(folder, "waiting").touch()
            signal.pause()

    loop(settings, corpus(), Path(folder), report=report)[0].fit()


@pytest.mark.skipif(os.name == "nt", reason="signals are of Unix")
def test_a_killed_run_goes_on_bit_for_bit(tmp_path):
    """Two steps an epoch: killed at the end of the first, and within the third."""
    cut = tmp_path / "cut"
    for at in (2, 5):
        (process,) = started(waiting, (str(cut), at))
        until = time.monotonic() + 120
        while not (cut / "waiting").exists():
            assert process.is_alive()
            assert time.monotonic() < until, "training never came to the step"
            time.sleep(0.02)
        process.kill()
        process.join()
        assert process.exitcode == -signal.SIGKILL
        (cut / "waiting").unlink()
        assert checkpoint.load(cut / RESUME)[1]["position"]["taken"] == at - 1  # the step itself is lost
    waiting(cut, 0)
    waiting(tmp_path / "whole", 0)
    assert_same_run(tmp_path / "whole", cut)
    assert any(name.startswith("memory/bank.") for name in checkpoint.load(cut / RESUME)[0])
    assert len(list((cut / FOLDER).iterdir())) == 8


def test_another_memory_is_refused():
    first, second = (prepare(config("method=diversity"), corpus(n=n)).task for n in (40, 44))
    with pytest.raises(CheckpointError, match="memory: found"):
        second.load_state_dict(first.state_dict())


def test_a_run_comes_back_with_its_settings(tmp_path):
    settings = config("method=diversity", "loop.epochs=1")
    _, task = loop(settings, corpus(), tmp_path)
    loop(settings, corpus(), tmp_path)[0].fit()
    model, again = load(tmp_path)
    assert again == settings
    assert not model.training
    assert model.encode_text(["ash0"]).shape == (1, 2, 24)
    assert task.model.dim == 24
    checkpoint.save(tmp_path / BEST, {"a": torch.ones(2)}, {"config": {"system": "other"}})
    with pytest.raises(CheckpointError, match="not a checkpoint of complementary"):
        load(tmp_path)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("form=alpha",), "form 'alpha' applies only to methods hal and mithun"),
        (("baselines.hal_bank=true",), "hal_bank applies only to method 'hal'"),
        (("method=diversty",), "method"),
        (("weights.gama=1",), r"did you mean 'weights\.gamma'"),
        (("weights.gamma=2",), r"weights\.gamma"),
        (("weights.lam=0",), r"weights\.lam"),
        (("weights.estimator=sampled1000", "weights.own=drop"), "sampled1000"),
    ],
)
def test_wrong_settings_are_one_clear_line(words, message):
    with pytest.raises(ConfigError, match=message) as caught:
        config(*words)
    assert "\n" not in str(caught.value)


def test_features_that_are_no_grid_are_refused():
    data, pictures = made(n=16)
    with pytest.raises(ShapeError, match="expected a grid"):
        prepare(config(), corpus_of(PairSet("made", (), data.pairs), pictures))
    with pytest.raises(CheckpointError, match="needs pretrained weights"):
        prepare(config("backbone=finetune"), corpus())


def test_presets_are_those_of_the_specification():
    plain = build(ComplementaryConfig, {"data": {"set": "captions"}}, "test")
    assert plain.deviations() == []
    assert (plain.loop.clip_norm, plain.loop.weight_decay, plain.loop.stop_after_stale) == (2.0, 1e-5, 10)
    assert plain.data.batch == 32
    sound = build(ComplementaryConfig, {"data": {"set": "captions"}, "preset": "sound"}, "test")
    assert (sound.weights.reading, sound.weights.mode) == ("sound", "sum")
    small = plain.smoke()
    assert (small.model.heads, small.model.dim, small.data.batch) == (2, 16, 8)
