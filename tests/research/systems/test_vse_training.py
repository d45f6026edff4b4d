"""VSE0 and VSE++ in training: their losses, what they learn, and that they come back."""

import json
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from corpora import Words, made

from limner.config import build
from limner.errors import CheckpointError, ConfigError, ShapeError
from limner.research.datasets.pairs import PairSet
from limner.research.losses.ranking import max_hinge, sum_hinge
from limner.research.runs import fit
from limner.research.runs.run import Run
from limner.research.runs.train import maximise, train, validation
from limner.research.systems.vse import SYSTEM, VseConfig
from limner.research.training import checkpoint
from limner.research.training.checkpoint import BEST, HISTORY
from limner.research.training.corpus import ArrayRows, corpus_of
from limner.research.training.loop import Loop

prepare, load = partial(fit.prepare, SYSTEM), SYSTEM.load
CONFIGS = Path(__file__).parents[3] / "configs" / "complementary"
WORDS = Words()
SENTENCES = "model.text=sentences"

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


def test_a_run_says_how_many_validation_pairs_it_looks_at():
    data, pictures = made(n=40)
    whole = corpus(40)
    some = corpus_of(PairSet("made", (), data.pairs), pictures, sample=2)
    assert whole.held_out == 0
    assert some.held_out == len(whole.val)
    assert 0 < len(some.val) <= 2
    assert set(some.val.texts) < set(whole.val.texts)
    assert len(some.train) == len(whole.train)
    stated = prepare(config(), some).saved_with["validation"]
    assert stated == {"pairs": len(some.val), "of": len(whole.val)}
    count = len(whole.val)
    assert prepare(config(), whole).saved_with["validation"] == {"pairs": count, "of": count}


def test_each_line_of_the_history_states_the_pairs_that_validation_looked_at(tmp_path):
    data, pictures = made(n=40)
    some = corpus_of(PairSet("made", (), data.pairs), pictures, sample=2)
    fit.fit(SYSTEM, config("loop.epochs=2"), some, tmp_path, validate=validation(some, CAN), maximise=True)
    lines = [json.loads(line) for line in (tmp_path / HISTORY).read_text().splitlines()]
    assert [line["val_pairs"] for line in lines] == [len(some.val)] * 2
    assert "val_pairs" not in lines[0]["val"]


@pytest.mark.parametrize(("hinge", "text"), [("sum", "words"), ("max", "sentences")])
def test_it_learns_and_comes_back(tmp_path, hinge, text):
    settings, rows = config(f"hinge={hinge}", f"model.text={text}"), corpus()
    position = loop(settings, rows, tmp_path).fit()
    losses = [entry["loss"]["total"] for entry in position.history]
    assert losses[-1] < losses[0] / 2
    model, again = load(tmp_path, sentences=WORDS)
    assert again == settings
    assert not model.training
    assert validation(rows, CAN)(model) == position.history[position.best_epoch]["val"]
    assert validation(rows, CAN)(model)["MRR"] > 0.3  # 40 pictures: chance is about 0.1


def test_a_frozen_encoder_takes_the_place_of_words(tmp_path):
    can = SYSTEM.capabilities(config(SENTENCES))
    assert can.reads == {"sentences"}
    assert CAN.reads == {"words"}
    with pytest.raises(ConfigError, match="no sentence encoder"):
        prepare(config(SENTENCES), corpus(8))
    loop(config(SENTENCES, "loop.epochs=1"), corpus(8), tmp_path).fit()
    model, _ = load(tmp_path, sentences=WORDS)
    assert model.vocabulary.words == ()
    assert model.encode_text(["ash0 bay1", "cod2"]).shape == (2, 24)
    assert model.encode_text([]).shape == (0, 24)
    layer = model.reader.sentence
    plain = WORDS.encode_text(["ash0 bay1"]) @ layer.weight.detach().numpy().T + layer.bias.detach().numpy()
    due = plain / np.linalg.norm(plain)
    np.testing.assert_allclose(model.encode_text(["ash0 bay1"]), due, atol=1e-6)
    with pytest.raises(CheckpointError, match="another sentence encoder"):
        load(tmp_path, sentences=Words("other"))
    other = load(tmp_path, sentences=WORDS)[0]
    assert other.fingerprint == model.fingerprint
    other.sentence_encoder = Words("other")
    assert other.fingerprint != model.fingerprint


@pytest.mark.parametrize("hinge", ["sum", "max"])
def test_the_loss_over_sentences_is_the_loop_over_pairs(hinge):
    rows = corpus()
    task = prepare(config(SENTENCES, f"hinge={hinge}"), rows, sentences=WORDS).task
    batch = next(iter(task.batches(0)))
    texts = task.model.encode_text([rows.train.texts[row] for row in batch.rows.tolist()])
    images = task.model.encode_image(batch.pictures.numpy())
    size, scores, total = len(texts), texts @ images.T, 0.0
    for right in range(size):
        wrong = [other for other in range(size) if batch.neg[right, other]]
        for found in (scores[right], scores[:, right]):
            costs = [max(0.0, 0.2 - found[right] + found[other]) for other in wrong]
            total += sum(costs) if hinge == "sum" else max(costs)
    assert float(task.step(batch)["total"].detach()) == pytest.approx(total / size, rel=1e-4)


class Sociable(Words):
    """The vectors of a text depend on how many are encoded with it, as the last bits of real ones do."""

    def __init__(self):
        super().__init__()
        self.calls = []

    def encode_text(self, texts):
        self.calls.append(tuple(texts))
        return super().encode_text(texts) + np.float32(1e-3) * len(texts)


def test_texts_of_validation_are_encoded_once_a_run_to_the_same_bits(tmp_path, monkeypatch):
    settings, rows = config(SENTENCES, "loop.epochs=3"), corpus()
    judge, encoders = validation(rows, SYSTEM.capabilities(settings)), (Sociable(), Sociable())
    monkeypatch.setattr("limner.research.systems.base.ENCODE_BATCH", 3)

    def fitted(sentences, folder):
        fit.fit(SYSTEM, settings, rows, folder, validate=judge, maximise=True, sentences=sentences)
        return (folder / HISTORY).read_text(), checkpoint.load(folder / BEST)[0]

    history, weights = fitted(encoders[0], tmp_path / "kept")
    monkeypatch.setattr("limner.encoders.text_cache.ValidationTextCache", lambda encoder, texts: encoder)
    plain, due = fitted(encoders[1], tmp_path / "plain")
    assert history == plain
    assert all(torch.equal(weights[name], due[name]) for name in due)
    portions = [tuple(rows.val.texts[start : start + 3]) for start in range(0, len(rows.val), 3)]
    kept, encoded = ([call for call in one.calls if call in portions] for one in encoders)
    assert kept == portions
    assert encoded == 3 * portions


def test_a_stopped_run_over_sentences_goes_on_bit_for_bit(tmp_path):
    settings = config(SENTENCES, "loop.epochs=3")
    whole = loop(settings, corpus(), tmp_path / "whole").fit()
    steps = iter(range(1, 100))
    cut = loop(
        settings, corpus(), tmp_path / "cut", report=lambda event: event.kind == "step" and next(steps) == 3
    )
    assert len(cut.fit().history) < 3
    assert loop(settings, corpus(), tmp_path / "cut").fit().history == whole.history
    one, other = (checkpoint.load(tmp_path / name / BEST)[0] for name in ("whole", "cut"))
    assert all(torch.equal(one[key], other[key]) for key in one)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["vse0", "vse++"])
def test_a_shipped_file_over_sentences_trains_and_is_measured(tmp_path, name):
    run = train(
        CONFIGS / f"{name}-sentences.toml",
        to=tmp_path,
        data="picturebook",
        overrides=["data.picture_px=32"],
        smoke=True,
    )
    assert run.name == f"{name.upper()} + MiniLM"
    assert run.config.hinge == ("max" if name == "vse++" else "sum")
    measured = Run.open(tmp_path).evaluate(part="val").result
    assert (measured.about.system, measured.about.config["model"]["text"]) == (run.name, "sentences")
    assert len(measured.ids) > 0


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
