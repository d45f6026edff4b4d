"""limner's own model: what a step reads of its story, its two text sides, learning, and coming back."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from base_corpus import ENGLISH, FOREIGN, PICTURES, Sentences, coloured, corpus, published_rows
from corpora import Words
from made_up_sets import made_up_sets

from limner.cli.main import run
from limner.config import build
from limner.encoders.base_blocks import MAPS
from limner.encoders.base_file import FEATURES, BaseTextEncoder, TextSide
from limner.encoders.base_network import load_base
from limner.encoders.vocabulary import Vocabulary
from limner.encoders.weight_files import WeightFile
from limner.errors import CheckpointError, ConfigError, ShapeError
from limner.research.runs.export import export_base
from limner.research.runs.fit import prepare
from limner.research.runs.run import Run
from limner.research.runs.train import maximise, read_config, validation
from limner.research.scenes.extra_encoders import TRAITS_WIDTH, JoinedFeatures
from limner.research.systems import limner
from limner.research.systems.base import ModelParts, names, system
from limner.research.systems.limner import context_of
from limner.research.systems.limner.model import others_mean
from limner.research.training.loop import Loop

STORIES = [["a boat", "the storm comes", "home again"], ["alone"], [], ["two", "steps"]]


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    """Small products gain nothing from more; the count is put back for the tests that follow."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def rows():
    """(M, F) of all pictures, by the backbone as published."""
    return published_rows()[:, MAPS:]


def model_of(words=(), width=1, **architecture):
    torch.manual_seed(1)
    parts = ModelParts(Vocabulary(words), width, sentences=ENGLISH, multilingual=FOREIGN)
    architecture |= {"words": True} if words else {}
    return limner.Limner(limner.LimnerArchitecture(width=16, looks=8, **architecture), parts).eval()


def settings(folder, *, data=None, **model):
    values = {
        "system": "limner",
        "data": {"set": "pairs", "batch": 12, "features": str(folder / "features")} | (data or {}),
        "model": {"width": 32, "looks": 8, "dropout": 0.2, "changed_from": 22} | model,
        "loop": {"epochs": 8, "lr": 3e-3},
    }
    return build(limner.LimnerConfig, values, "test")


def loop_of(config, data, folder):
    prepared = prepare(limner.SYSTEM, config, data, sentences=ENGLISH, multilingual=FOREIGN)
    return Loop(
        prepared.task,
        config.loop,
        folder,
        validate=validation(data, limner.SYSTEM.capabilities(config)),
        maximise=maximise(config.loop.metric),
        saved_with=prepared.saved_with,
    )


def test_the_context_of_a_step_is_the_mean_of_its_other_steps():
    vectors = torch.randn(6, 5, generator=torch.Generator().manual_seed(0))
    steps = torch.tensor([3, 1, 2])
    due = []
    for story in ([0, 1, 2], [3], [4, 5]):
        for step in story:
            others = [vectors[other] for other in story if other != step]
            due.append(torch.stack(others).mean(dim=0) if others else torch.zeros(5))
    torch.testing.assert_close(others_mean(vectors, steps), torch.stack(due))
    with pytest.raises(ShapeError):
        others_mean(vectors[0], steps)


def test_a_model_begins_without_context_and_learns_to_use_it():
    model = model_of()
    assert model.context is not None
    alone = np.concatenate([model.encode_text(story) for story in STORIES if story])
    at_first = np.concatenate(model.encode_stories(STORIES))
    np.testing.assert_allclose(at_first, alone, atol=1e-6)
    with torch.no_grad():
        model.context.weight.normal_(std=0.1, generator=torch.Generator().manual_seed(2))
    whole = np.concatenate(model.encode_stories(STORIES))
    assert np.abs(whole - alone).max(axis=1)[[0, 1, 2, 4, 5]].min() > 0.01
    np.testing.assert_allclose(whole[3], alone[3], atol=1e-6)  # a story of one step has no context
    assert [len(part) for part in model.encode_stories(STORIES)] == [3, 1, 0, 2]


@pytest.mark.slow
def test_both_sides_are_added_up_and_one_may_read_alone():
    texts = ["a red boat", "a dog on the beach"]
    model = model_of(context="none")
    with torch.no_grad():
        english = model.net.sentence(torch.from_numpy(ENGLISH.encode_text(texts))).numpy()
        foreign = model.net.foreign(torch.from_numpy(FOREIGN.encode_text(texts))).numpy()
    both = english + foreign
    both /= np.linalg.norm(both, axis=1, keepdims=True)
    np.testing.assert_allclose(model.encode_text(texts), both, atol=1e-6)
    np.testing.assert_allclose(
        model_of(context="none", reads="minilm").encode_text(texts), english, atol=1e-6
    )
    assert model.fingerprint != model_of(context="none", reads="minilm").fingerprint


@pytest.mark.slow
def test_words_add_their_vectors_by_rarity_and_unknown_ones_nothing(rows):
    model = model_of(("boat", "red", "dog"), context="none")
    with torch.no_grad():
        model.rarity.copy_(torch.tensor([0.0, 0.0, 1.0, 2.0, 0.5]))
        model.words.normal_(generator=torch.Generator().manual_seed(3))
    texts = ["a Red boat, red", "nothing of these", "dog"]
    assert model.bags(texts) == [[2, 3], [], [4]]
    without = model_of(context="none")
    vectors = [torch.from_numpy(side.encode_text(texts)) for side in (ENGLISH, FOREIGN)]
    with torch.no_grad():
        made = model.net.sentence(vectors[0]) + model.net.foreign(vectors[1])
        made[0] += (1.0 * model.words[2] + 2.0 * model.words[3]) / 5**0.5
        made[2] += model.words[4]
    made /= made.norm(dim=1, keepdim=True)
    np.testing.assert_allclose(model.encode_text(texts), made.numpy(), atol=1e-5)
    np.testing.assert_allclose(model.encode_text(texts)[1], without.encode_text(texts)[1], atol=1e-6)
    with torch.no_grad():
        model.architecture = model.architecture.model_copy(update={"word_dropout": 0.99})
    np.testing.assert_allclose(model.encode_text(texts), made.numpy(), atol=1e-5)  # none is left out here


def test_rarity_is_counted_over_training_texts(rows):
    data = corpus(rows)
    model = model_of(("stripes3", "copy0", "never"), changed_from=22)
    model.fit_constants(data)
    texts = [set(pair.text.split()) for pair in data.train.pairs]
    due = [np.log(len(texts) / sum(word in text for text in texts)) for word in ("stripes3", "copy0")]
    np.testing.assert_allclose(model.rarity.numpy(), [0, 0, *due, 0], atol=1e-5)


def test_a_picture_is_the_sum_of_the_backbone_and_of_further_encoders(rows):
    more = np.random.default_rng(0).normal(3, 2, (len(rows), 5)).astype(np.float32)
    joined = np.concatenate([rows, more], axis=1)
    model = model_of(width=joined.shape[1], changed_from=22)
    model.fit_constants(corpus(joined))
    np.testing.assert_allclose(model.beside_mean.numpy(), more.mean(axis=0), atol=1e-4)
    values = torch.from_numpy(joined)
    with torch.no_grad():
        own = model.net.joint(values[:, :FEATURES])
        own = own + model.beside((values[:, FEATURES:] - model.beside_mean) / model.beside_deviation)
    due = (own / own.norm(dim=1, keepdim=True)).numpy()
    np.testing.assert_allclose(model.encode_image(joined), due, atol=1e-5)
    with pytest.raises(ShapeError, match="limner: rows have shape"):
        model.encode_image(rows)


@pytest.mark.slow
def test_a_run_with_words_and_further_encoders_learns_comes_back_and_is_not_exported(
    tmp_path, rows, monkeypatch
):
    colours = np.stack([coloured(number).reshape(-1, 3).mean(axis=0) for number in range(PICTURES)])
    data = corpus(np.concatenate([rows, colours.astype(np.float32)], axis=1))
    config = settings(tmp_path, data={"min_count": 1, "beside": ["colour"]}, words=True)
    whole = loop_of(config, data, tmp_path / "run").fit()
    assert whole.best > 0.5
    monkeypatch.setattr(limner, "sentence_encoder", lambda name: FOREIGN)
    model, read = limner.SYSTEM.load(tmp_path / "run", sentences=ENGLISH)
    assert read == config
    measured = validation(data, limner.SYSTEM.capabilities(config))(model)
    assert measured["MRR"] == pytest.approx(whole.best, abs=1e-6)
    with pytest.raises(ConfigError, match="reads further encoders"):
        export_base(tmp_path / "run", tmp_path / "made.safetensors", ENGLISH)


@pytest.mark.slow
def test_looks_read_traits_beside_the_backbone_and_texts_do_not(tmp_path, rows, monkeypatch):
    random = np.random.default_rng(0)
    traits = random.normal(3, 2, (len(rows), TRAITS_WIDTH)).astype(np.float32)
    joined = np.concatenate([rows, traits], axis=1)
    data, plain = corpus(joined), corpus(rows)
    config = settings(tmp_path, data={"min_count": 1, "beside": ["traits"]}, words=True)
    loop = config.loop.model_copy(update={"epochs": 2})
    config = config.model_copy(update={"loop": loop})
    loop_of(config, data, tmp_path / "with").fit()
    without = config.model_copy(update={"data": config.data.model_copy(update={"beside": ()})})
    loop_of(without, plain, tmp_path / "without").fit()
    monkeypatch.setattr(limner, "sentence_encoder", lambda name: FOREIGN)
    (model, _), (other, _) = (
        limner.SYSTEM.load(tmp_path / name, sentences=ENGLISH) for name in ("with", "without")
    )
    assert model.beside is None
    np.testing.assert_array_equal(model.encode_image(joined), other.encode_image(rows))
    np.testing.assert_array_equal(model.encode_text(["a red boat"]), other.encode_text(["a red boat"]))
    with torch.no_grad():
        values = torch.from_numpy(joined)
        own = model.net.looks(values[:, :FEATURES])
        standard = (traits - traits.mean(axis=0)) / traits.std(axis=0)
        told = torch.from_numpy(standard) @ model.traits.straight.weight.T + model.traits.straight.bias
        told = told / told.norm(dim=1, keepdim=True) * model.traits_share
        seen = model.looks(model.features_of(values), values)
    assert model.traits_share.item() != pytest.approx(0.3)
    due = own @ own.T + told @ told.T
    torch.testing.assert_close(seen @ seen.T, due / (1 + model.traits_share**2), atol=1e-4, rtol=1e-4)
    both = np.concatenate([rows, traits[:, :3], traits], axis=1)
    parts = ModelParts(Vocabulary(()), both.shape[1], sentences=ENGLISH, multilingual=FOREIGN)
    made = limner.Limner(limner.LimnerArchitecture(width=16, looks=8, changed_from=22), parts, traits=True)
    made.fit_constants(corpus(both))
    assert made.beside.straight.in_features == 3
    assert made.eval().encode_image(both).shape == (len(rows), 16)


def learned_words(folder, data, monkeypatch, **model):
    """A short run with words, as it is loaded again."""
    config = settings(folder, data={"min_count": 1}, words=True, **model)
    loop = config.loop.model_copy(update={"epochs": 2})
    loop_of(config.model_copy(update={"loop": loop}), data, folder).fit()
    monkeypatch.setattr(limner, "sentence_encoder", lambda name: FOREIGN)
    return limner.SYSTEM.load(folder, sentences=ENGLISH)[0]


@pytest.mark.slow
def test_words_beside_minilm_go_into_a_file_and_a_library_reads_them(tmp_path, rows, monkeypatch):
    model = learned_words(tmp_path / "run", corpus(rows), monkeypatch, reads="minilm", context="none")
    path = tmp_path / "made.safetensors"
    export_base(tmp_path / "run", path, ENGLISH)
    file = WeightFile(path, "given")
    texts = ["stripes3 COLOUR3 row0", "nothing of these", "row0 row0 stripes3, colour3"]
    due = model.encode_text(texts)
    assert (due[0] != due[2]).any()
    alone = BaseTextEncoder("base", file, ENGLISH)
    found = alone.encode_text(texts)
    np.testing.assert_allclose((found * due).sum(axis=1), 1, atol=1e-3)
    side = TextSide(path, "sentence")(ENGLISH.encode_text(texts))
    assert (side * due).sum(axis=1)[0] < 0.999  # the words count
    np.testing.assert_allclose(side[1], found[1], atol=1e-6)
    both = BaseTextEncoder(
        "base", file, ENGLISH, multilingual=FOREIGN, foreign=lambda some: [True] * len(some)
    )
    foreign = TextSide(path, "foreign")(FOREIGN.encode_text(texts))
    np.testing.assert_allclose(both.encode_text(texts), foreign, atol=1e-6)  # none are added here
    assert load_base(path).shape == model.net.shape


@pytest.mark.slow
def test_words_beside_both_encoders_have_no_file(tmp_path, rows, monkeypatch):
    learned_words(tmp_path / "run", corpus(rows), monkeypatch)
    with pytest.raises(ConfigError, match=r"train a run with --set model\.reads=minilm"):
        export_base(tmp_path / "run", tmp_path / "made.safetensors", ENGLISH)
    assert not (tmp_path / "made.safetensors").exists()


def test_the_context_of_training_rows_is_what_their_story_gives(rows):
    data = corpus(rows)
    vectors = torch.randn(len(data.train.pairs), 4, generator=torch.Generator().manual_seed(0))
    found = context_of(data, vectors)
    for row, pair in enumerate(data.train.pairs):
        own = [
            n for n, other in enumerate(data.train.pairs) if pair.seq and other.seq == pair.seq and n != row
        ]
        due = vectors[own].mean(dim=0) if own else torch.zeros(4)
        torch.testing.assert_close(found[row], due)


@pytest.mark.slow
def test_it_learns_comes_back_and_becomes_a_file(tmp_path, rows, monkeypatch):
    data, config = corpus(rows), settings(tmp_path)
    whole = loop_of(config, data, tmp_path / "run").fit()
    assert whole.history[-1]["val"]["MRR"] > 2 * whole.history[0]["val"]["MRR"] or (
        whole.history[-1]["val"]["MRR"] > 0.8
    )
    monkeypatch.setattr(limner, "sentence_encoder", lambda name: FOREIGN)
    model, read = limner.SYSTEM.load(tmp_path / "run", sentences=ENGLISH)
    assert read == config
    assert bool(model.context.weight.detach().any())
    measured = validation(data, limner.SYSTEM.capabilities(config))(model)
    assert measured["MRR"] == pytest.approx(whole.best, abs=1e-6)
    card = export_base(tmp_path / "run", tmp_path / "made.safetensors", ENGLISH)
    assert card.figures["validation MRR"] == pytest.approx(whole.best, abs=1e-4)
    shipped = load_base(tmp_path / "made.safetensors")
    told = torch.from_numpy(FOREIGN.encode_text(["stripes3 colour3 row0"]))
    with torch.no_grad():
        assert float((shipped.foreign(told) * model.net.foreign(told)).sum()) > 0.999
    can = limner.SYSTEM.capabilities(read)
    monkeypatch.setattr(Run, "open", lambda folder, device: Run(folder, model, read, can))
    with pytest.raises(ConfigError, match="limner models export"):
        Run.for_library(tmp_path / "run")


def test_another_encoder_than_that_of_training_is_one_line(tmp_path, rows, monkeypatch):
    config = settings(tmp_path).smoke()
    loop_of(
        config.model_copy(update={"loop": config.loop.model_copy(update={"epochs": 1})}),
        corpus(rows),
        tmp_path,
    ).fit()
    monkeypatch.setattr(limner, "sentence_encoder", lambda name: Sentences("use", 512, "another"))
    with pytest.raises(CheckpointError, match="another use encoder; install that version"):
        limner.SYSTEM.load(tmp_path, sentences=ENGLISH)


def test_it_is_registered_and_needs_both_encoders(tmp_path, rows):
    assert "limner" in names()
    assert system("limner") is limner.SYSTEM
    with pytest.raises(ConfigError, match="no sentence encoder"):
        prepare(limner.SYSTEM, settings(tmp_path), corpus(rows), sentences=Words())


def test_drawn_pictures_are_refused_with_what_to_do(tmp_path, capsys):
    row = str(Path(__file__).parents[3] / "configs" / "limner" / "limner.toml")
    for how in (["--data", "picturebook"], ["--data", "stories", "--set", "data.set=picturebook"]):
        assert run(["train", row, *how, "--to", str(tmp_path / "run")]) == 2
        told = capsys.readouterr().err.splitlines()[-1]
        assert "in memory; write them to a folder with limner.research.worlds.write, and pass" in told


@pytest.mark.slow
def test_a_run_of_five_sets_is_measured_on_each_and_stands_in_their_tables(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("LIMNER_DATA", str(tmp_path))
    settings = Path(__file__).parents[3] / "configs" / "limner.toml"
    config = read_config(settings)
    made_up_sets(tmp_path, config)
    to, there = tmp_path / "run", f"data.features={tmp_path / 'features'}"
    more = 'data.beside=["colour", "traits"]'
    assert run(["train", str(settings), "--smoke", "--set", there, "--set", more, "--to", str(to)]) == 0
    capsys.readouterr()
    assert run(["measure", str(to), "--no-saliency", "--json"]) == 0
    rows = {row["set"]: row for row in json.loads(capsys.readouterr().out)}
    assert list(rows) == list(config.data.mixture)
    data, pictures = Run.open(to).data()
    assert isinstance(pictures, JoinedFeatures)
    for name, row in rows.items():
        assert row["pairs"] == sum(pair.group.startswith(f"{name}:") for pair in data.split("test"))
        assert row["system"] == "limner, five sets"
        (file,) = (to / "results").glob(f"{name}-*test.json")
        assert json.loads(file.read_text())["about"]["split"] == config.data.mixture[name].split
    assert run(["table", "limner-1", "--runs", str(tmp_path), "--resamples", "50"]) == 0
    shown = capsys.readouterr().out
    assert shown.count("\n| limner, five sets |") == len(rows)
    assert run(["table", "limner-1", "--smoke"]) == 2
    assert "give --runs instead" in capsys.readouterr().err
