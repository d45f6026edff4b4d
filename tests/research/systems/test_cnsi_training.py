"""CNSI in training: two stages in one run, the first frozen in the second, and bit-exact resumption."""

from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from corpora import Words, made

from limner.config import build
from limner.errors import CheckpointError, ConfigError
from limner.research.cli.train import train
from limner.research.datasets.pairs import PairSet
from limner.research.losses.contrastive import story_order
from limner.research.runs import fit
from limner.research.runs.run import Run
from limner.research.runs.train import maximise, validation
from limner.research.systems.cnsi import SYSTEM, CnsiConfig, StoryBatch, shuffled_steps
from limner.research.training import checkpoint
from limner.research.training.checkpoint import BEST
from limner.research.training.corpus import corpus_of, stories_of
from limner.research.training.loop import Loop

prepare, load = partial(fit.prepare, SYSTEM), SYSTEM.load

pytestmark = pytest.mark.slow

WORDS = Words()
CONFIGS = Path(__file__).parents[3] / "configs" / "cnsi"
VALUES = {
    "system": "cnsi",
    "data": {"set": "pairs", "vectors": "random", "batch": 4},
    "model": {"word_width": 16, "dim": 32, "hidden": 16, "dropout": 0.0},
    "sentence_epochs": 30,
    "sentence_batch": 16,
    "sentence_margin": 0.3,
    "loop": {"epochs": 70, "lr": 5e-3},
}


def config(*overrides):
    return build(CnsiConfig, VALUES, "test", overrides)


CAN = SYSTEM.capabilities(config())


def corpus(n=40):
    data, pictures = made(n=n)
    pairs, story, place = [], 0, 0
    for pair in data.pairs:
        if place >= 1 + story % 5:
            story, place = story + 1, 0
        pairs.append(pair.model_copy(update={"seq": f"{pair.split}{story}", "pos": place}))
        place += 1
    return corpus_of(PairSet("made", (), tuple(reversed(pairs))), pictures)


@pytest.fixture(autouse=True, scope="module")
def one_thread():
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


ROWS = {
    "cnsi": (),
    "nsi": ("model.coherence=0",),
    "cnsi-sentences": ("model.text=sentences",),
    "nsi-sentences": ("model.text=sentences", "model.coherence=0"),
}


@pytest.mark.parametrize("name", ["cnsi", "nsi-sentences"])
def test_it_learns_and_comes_back(tmp_path, name):
    settings, rows = config(*ROWS[name]), corpus()
    position = loop(settings, rows, tmp_path).fit()
    losses = [entry["loss"]["total"] for entry in position.history]
    assert losses[29] < 0.5 * losses[0]
    assert losses[-1] < 0.5 * losses[30]
    assert position.best_epoch >= settings.sentence_epochs
    model, again = load(tmp_path, sentences=WORDS)
    assert again == settings
    assert not model.training
    found = validation(rows, CAN)(model)
    assert found == position.history[position.best_epoch]["val"]
    assert found["R@10"] > 0.4  # of 40 pictures: chance is a quarter


@pytest.mark.parametrize("text", ["words", "sentences"])
def test_the_first_stage_freezes_and_the_second_waits(text):
    settings = config("sentence_epochs=1", "model.dropout=0.2", f"model.text={text}")
    task = prepare(settings, corpus(), sentences=WORDS).task
    model = task.model
    first = {"reader", "project"}
    for epoch, taught in ((0, first), (1, {"story", "out"})):
        batch = next(task.batches(epoch))
        assert isinstance(batch, StoryBatch) is (epoch == 1)
        model.zero_grad()
        task.step(batch)["total"].backward()
        moved = {name.split(".")[0] for name, weight in model.named_parameters() if weight.grad is not None}
        assert moved == taught
        assert task.describe(batch)


def test_the_first_stage_over_sentences_is_the_loop_over_pairs():
    """docs/methods/gsda.md §8.3, stage 1."""
    rows = corpus()
    task = prepare(config("model.text=sentences"), rows, sentences=WORDS).task
    batch, layer = next(task.batches(0)), task.model.reader.sentence
    vectors = torch.from_numpy(WORDS.encode_text([rows.train.texts[row] for row in batch.rows.tolist()]))
    plain = vectors @ layer.weight.t() + layer.bias
    texts = (plain / plain.norm(dim=1, keepdim=True)).abs()
    images, size, total = task.model.pictures(batch.pictures), len(batch.ids), 0.0

    def energy(text, image):
        return float((texts[text] - images[image]).clamp(min=0).square().sum().detach())

    for text in range(size):
        for image in range(size):
            if batch.neg[text, image]:
                for right in (text, image):
                    total += max(0.0, 0.3 - energy(text, image) + energy(right, right))
    assert float(task.step(batch)["total"].detach()) == pytest.approx(total, rel=1e-4)


def test_what_reads_sentences_is_declared():
    plain, own = (SYSTEM.capabilities(config(f"model.text={text}")) for text in ("words", "sentences"))
    assert (plain.reads, own.reads) == ({"words"}, {"sentences"})
    assert own.stories


@pytest.mark.parametrize("text", ["words", "sentences"])
def test_the_second_stage_is_its_loss(text):
    rows = corpus()
    task = prepare(config("sentence_epochs=0", f"model.text={text}"), rows, sentences=WORDS).task
    model, batch = task.model, next(task.batches(0))
    stories = batch.stories
    texts = [rows.train.pairs[row].text for row in stories.rows]
    told, start = [], 0
    for count in stories.steps.tolist():
        told.append(texts[start : start + count])
        start += count
    made = torch.from_numpy(np.concatenate(model.encode_stories(told)))
    images = torch.from_numpy(model.encode_image(stories.pictures.numpy()))
    due = story_order(made, images, stories.steps, batch.shuffled, margin=0.05, neg=stories.neg)
    assert float(task.step(batch)["total"].detach()) == pytest.approx(float(due), rel=1e-4)


def test_negatives_are_deranged_within_their_stories():
    rng = np.random.default_rng(0)
    steps = torch.tensor([1, 2, 5])
    seen = set()
    for _ in range(300):
        order = shuffled_steps(steps, rng)
        assert order[:3].tolist() == [0, 2, 1]
        assert sorted(order[3:].tolist()) == [3, 4, 5, 6, 7]
        assert not (order[3:] == np.arange(3, 8)).any()
        seen.add(tuple(order[3:].tolist()))
    assert len(seen) == 44  # all derangements of five


def test_batches_follow_from_seed_and_epoch():
    task = prepare(config("sentence_epochs=1"), corpus()).task
    pairs, told = list(task.batches(0)), list(task.batches(1))
    assert len(pairs) == 40 // 16
    assert len(told) == len(stories_of(corpus().train.pairs)) // 4
    again = list(task.batches(1))
    assert [b.stories.ids for b in told] == [b.stories.ids for b in again]
    assert all(torch.equal(one.shuffled, other.shuffled) for one, other in zip(told, again, strict=True))


def test_the_steps_that_are_told_are_never_fewer_than_those_drawn():
    task = prepare(config("sentence_epochs=1", "loop.epochs=7", "data.batch=8"), corpus()).task
    drawn = sum(len(list(task.batches(epoch))) for epoch in range(7))
    assert drawn % 7 in {1, 2, 3}  # rounded to the nearest, some would be missing
    assert drawn <= 7 * task.steps_per_epoch < drawn + 7


@pytest.mark.parametrize(("stop", "text"), [(3, "words"), (5, "words"), (8, "words"), (5, "sentences")])
def test_a_stopped_run_goes_on_bit_for_bit(tmp_path, stop, text):
    """Stopped within either stage and as the second begins."""
    settings = config("loop.epochs=4", "sentence_epochs=2", "model.dropout=0.3", f"model.text={text}")
    whole = loop(settings, corpus(), tmp_path / "whole").fit()
    steps = iter(range(1, 100))
    cut = loop(
        settings,
        corpus(),
        tmp_path / "cut",
        report=lambda event: event.kind == "step" and next(steps) == stop,
    )
    assert len(cut.fit().history) < 4
    again = loop(settings, corpus(), tmp_path / "cut").fit()
    assert again.history == whole.history
    one, other = (checkpoint.load(tmp_path / name / BEST)[0] for name in ("whole", "cut"))
    assert all(torch.equal(one[key], other[key]) for key in one)


def test_settings_that_cannot_work_are_said(tmp_path):
    with pytest.raises(ConfigError, match=r"raise loop\.epochs"):
        config("sentence_epochs=70")
    with pytest.raises(ConfigError, match="expected 64, or 0"):
        config("model.coherence=3")
    loop(config("loop.epochs=1", "sentence_epochs=0"), corpus(8), tmp_path).fit()
    tensors, state = checkpoint.load(tmp_path / BEST)
    checkpoint.save(tmp_path / BEST, tensors, state | {"config": {}})
    with pytest.raises(CheckpointError, match="not a checkpoint of cnsi"):
        load(tmp_path)


@pytest.mark.parametrize("name", ROWS)
def test_a_shipped_file_trains_and_is_measured(tmp_path, name, capsys):
    small = ("data.vectors=random", "data.picture_px=32")
    train(CONFIGS / f"{name}.toml", to=tmp_path, data="picturebook", set_=small, smoke=True)
    assert "best epoch" in capsys.readouterr().out
    model, settings = load(tmp_path)
    assert settings.row == name.upper().replace("-SENTENCES", " + MiniLM")
    assert (model.architecture.coherence == 0) is name.startswith("nsi")
    assert (settings.model.text == "sentences") is (name in ("cnsi-sentences", "nsi-sentences"))
    assert len(Run.open(tmp_path).evaluate(part="val").result.ids) > 0
    with pytest.raises(ConfigError, match="cosine"):
        Run.for_library(tmp_path)
