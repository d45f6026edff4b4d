"""GSDA in training: what each mode can and cannot teach, terms against loops, runs that come back."""

import json

import numpy as np
import pytest
import torch
from corpora import Words, made
from test_vrss_training import in_stories

from limner.config import build
from limner.encoders.vocabulary import Vocabulary
from limner.errors import CheckpointError, ConfigError, DataError
from limner.research.datasets.pairs import PairSet, data_set
from limner.research.losses.ranking import sum_hinge
from limner.research.runs.fit import prepare
from limner.research.runs.train import maximise, validation
from limner.research.scenes.graphs import SceneGraph, read_graphs, write_graphs
from limner.research.systems import gsda, vse
from limner.research.systems.base import Capabilities, ModelParts
from limner.research.systems.gsda import rows_of_other_stories
from limner.research.systems.gsda.model import Gsda, GsdaArchitecture, GsdaConfig
from limner.research.systems.vse import VseConfig
from limner.research.training.checkpoint import BEST
from limner.research.training.corpus import corpus_of
from limner.research.training.loop import Loop

WORDS = Words()
CAPTIONER = {"local": 8, "hidden": 8, "joined": 12, "seen": 8, "state": 10, "word_width": 6, "dropout": 0.0}
VALUES = {
    "system": "gsda",
    "keys": "sentences",
    "label_vectors": "",
    "data": {"set": "pairs", "vectors": "random", "batch": 4, "max_length": 8},
    "model": {"word_width": 16, "hidden": 12, "attention": 8, "dim": 24},
    "graph_model": {"dim": 8, "width": 8},
    "captioner": CAPTIONER | {"word_dropout": 0.0},
    "caption_min_count": 1,
    "mixed_epochs": 0,
    "loop": {"epochs": 12, "lr": 5e-3, "rates": {"graphs": 5e-3, "captioner": 5e-3}},
}


def config(*overrides):
    return build(GsdaConfig, VALUES, "test", overrides)


CAN, PLAIN = gsda.SYSTEM.capabilities(config()), Capabilities()


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


@pytest.fixture
def graphs(tmp_path):
    """A graph per picture, every seventh without any object."""
    file, found = tmp_path / "graphs.jsonl", []
    for number, name in enumerate(sorted({pair.image_id for pair in corpus().train.pairs})):
        things = [] if number % 7 == 0 else [("fox", "tree"), ("bear", "house")][number % 2]
        objects = [{"label": label, "box": [0.1, 0.1, 0.9, 0.9], "score": 1.0} for label in things]
        relations = [{"s": 0, "p": "near", "o": 1, "score": 1.0}] if things else []
        found.append(SceneGraph.model_validate({"image": name, "objects": objects, "relations": relations}))
    write_graphs(file, found)
    return file


def task(rows, *overrides):
    return prepare(gsda.SYSTEM, config(*overrides), rows, sentences=WORDS).task


def gradients(built, name):
    """Which parts learn from one loss alone."""
    batch = next(iter(built.batches(0)))
    torch.manual_seed(0)
    built.model.zero_grad()
    loss = built.step(batch)[name]
    if loss.requires_grad:
        loss.backward()
    parts = {}
    for key, weight in built.model.named_parameters():
        part = key.split(".")[0]
        taught = weight.grad is not None and bool(weight.grad.any())
        parts[part] = parts.get(part, False) or taught
    return {part for part, taught in parts.items() if taught}


RETRIEVER = {"sentences", "of_text", "of_image"}


@pytest.mark.parametrize(
    ("mode", "loss", "due"),
    [
        ("soft", "graph", RETRIEVER),
        ("soft", "contrast", {"graphs"}),
        ("literal_gt", "graph", {"graphs"}),
        ("literal_argmax", "graph", {"graphs"}),
    ],
)
def test_what_graphs_teach(graphs, mode, loss, due):
    """docs/methods/gsda.md §4.2: only the soft choice reaches the retriever."""
    built = task(corpus(), f"graph={mode}", f"graphs={graphs}", "caption=off")
    assert gradients(built, loss) == due
    assert gradients(built, "ranking") == RETRIEVER


def test_shuffled_graphs_are_dealt_to_other_pictures_and_drawn_ones_to_their_own():
    def graphs_of(which):
        drawn = ("data.set=picturebook", "data.stories=12", f"graphs={which}")
        return {name: graph.objects for name, graph in gsda.graphs_of(config(*drawn), ()).items()}

    own = data_set("picturebook").graphs(12, config().data.world_seed, shuffled=None)
    assert graphs_of("drawn") == {name: graph.objects for name, graph in own.items()}
    dealt = graphs_of("shuffled")
    assert dealt.keys() == own.keys()
    assert dealt != graphs_of("drawn")


@pytest.mark.parametrize(
    ("mode", "loss", "due"),
    [
        ("soft", "caption", RETRIEVER | {"captioner"}),
        ("teacher", "caption", {"captioner"}),
        ("literal", "caption", {"captioner"}),
        ("reinforce", "caption", {"captioner"}),
        ("reinforce", "policy", RETRIEVER),
    ],
)
def test_what_captions_teach(mode, loss, due):
    """docs/methods/gsda.md §4.4: hard retrieval has no path back; the soft choice and the reward have one."""
    assert gradients(task(corpus(), "graph=off", f"caption={mode}"), loss) == due


def test_off_leaves_the_parts_out():
    model = task(corpus(), "graph=off", "caption=off").model
    assert model.graphs is None
    assert model.captioner is None
    assert set(task(corpus(), "graph=off", "caption=off").step(next(iter(task(corpus(), "graph=off",
        "caption=off").batches(0))))) == {"total", "ranking"}  # fmt: skip


def test_the_total_is_its_terms(graphs):
    built = task(corpus(), f"graphs={graphs}", "graph_weight=0.5", "caption_weight=2")
    batch = next(iter(built.batches(0)))
    found = {name: float(loss.detach()) for name, loss in built.step(batch).items()}
    due = found["ranking"] + 0.5 * (found["graph"] + found["contrast"]) + 2 * found["caption"]
    assert found["total"] == pytest.approx(due, rel=1e-5)
    keys = torch.from_numpy(WORDS.encode_text([built_text(built, row) for row in batch.rows.tolist()]))
    texts = built.model(batch.words, batch.lengths, keys, batch.steps)
    scores = texts @ built.model.pictures(batch.pictures).t()
    ranking = sum_hinge(scores, 0.2, batch.neg).detach()
    assert found["ranking"] == pytest.approx(float(ranking), rel=1e-5)


def built_text(built, row):
    return built._batches._rows.texts[row]


def test_true_pictures_are_mixed_in_at_first():
    """Half the sentences are generated from their own picture in the first epochs, none later."""
    rows = corpus()
    mixed, later = task(rows, "graph=off", "mixed_epochs=1"), task(rows, "graph=off", "mixed_epochs=0")
    teacher = task(rows, "graph=off", "caption=teacher")
    batch = next(iter(mixed.batches(0)))
    losses = []
    for built in (mixed, later, teacher):
        built.model.load_state_dict(mixed.model.state_dict())
        built.model.eval()
        torch.manual_seed(1)
        losses.append(float(built.step(batch)["caption"].detach()))
    assert len({round(loss, 7) for loss in losses}) == 3


def test_rows_of_other_stories_are_even_and_never_of_the_own():
    torch.manual_seed(0)
    steps = torch.tensor([2, 1, 3])
    stories = torch.repeat_interleave(steps)
    counts = torch.zeros(6, 6)
    for _ in range(3000):
        drawn = rows_of_other_stories(steps)
        assert bool((stories[drawn] != stories).all())
        counts[torch.arange(6), drawn] += 1
    for row in range(6):
        free = stories != stories[row]
        share = counts[row, free] / 3000
        assert float((share - 1 / int(free.sum())).abs().max()) < 0.05


def loop(settings, rows, folder):
    prepared = prepare(gsda.SYSTEM, settings, rows, sentences=WORDS)
    return Loop(
        prepared.task,
        settings.loop,
        folder,
        validate=validation(rows, CAN),
        maximise=maximise(settings.loop.metric),
        saved_with=prepared.saved_with,
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        ("graph=off", "caption=off", "model.context=none"),
        ("graph=literal_gt", "caption=literal"),
        ("caption=soft",),
        ("graph_model.convolution=triple", "caption=reinforce"),
    ],
    ids=["ranking", "literal", "soft", "triple-reinforce"],
)
def test_it_learns_and_comes_back(tmp_path, graphs, words):
    more = () if "graph=off" in words else (f"graphs={graphs}",)
    settings, rows = config(*words, *more), corpus()
    position = loop(settings, rows, tmp_path / "run").fit()
    losses = [entry["loss"] for entry in position.history]
    assert losses[-1]["ranking"] < 0.6 * losses[0]["ranking"]
    if "caption=off" not in words:
        assert losses[-1]["caption"] < losses[0]["caption"]
    model, again = gsda.SYSTEM.load(tmp_path / "run", sentences=WORDS)
    assert again == settings
    assert not model.training
    assert validation(rows, CAN)(model) == position.history[position.best_epoch]["val"]
    assert position.best > 0.3  # mean reciprocal rank of 40 pictures: chance is .11


def test_keys_of_vse_are_frozen_and_kept(tmp_path):
    rows = corpus()
    plain = build(
        VseConfig,
        {
            "system": "vse",
            "data": VALUES["data"],
            "model": {"dim": 10, "word_width": 6},
            "loop": {"epochs": 1},
        },
        "test",
    )
    made_ready = prepare(vse.SYSTEM, plain, rows)
    Loop(
        made_ready.task, plain.loop, tmp_path / "vse", validate=validation(rows, PLAIN), maximise=True,
        saved_with=made_ready.saved_with,
    ).fit()  # fmt: skip
    settings = config(
        "keys=vse0", f"keys_run={tmp_path / 'vse'}", "graph=off", "caption=off", "loop.epochs=2"
    )
    before = vse.SYSTEM.load(tmp_path / "vse")[0].encode_text(["ash0 bay1"])
    loop(settings, rows, tmp_path / "run").fit()
    (tmp_path / "vse" / BEST).unlink()
    model, _ = gsda.SYSTEM.load(tmp_path / "run")
    np.testing.assert_array_equal(model.keys.encode_text(["ash0 bay1"]), before)
    assert not any(weight.requires_grad for weight in model.keys.parameters())
    with pytest.raises(ConfigError, match="train one"):
        prepare(gsda.SYSTEM, config("keys=vse0", "graph=off"), rows)


def test_keys_of_another_split_are_refused(tmp_path):
    rows = corpus()
    data = VALUES["data"] | {"split_seed": 3}
    plain = build(
        VseConfig,
        {"system": "vse", "data": data, "model": {"dim": 10, "word_width": 6}, "loop": {"epochs": 1}},
        "test",
    )
    made_ready = prepare(vse.SYSTEM, plain, rows)
    Loop(
        made_ready.task, plain.loop, tmp_path, validate=validation(rows, PLAIN), maximise=True,
        saved_with=made_ready.saved_with,
    ).fit()  # fmt: skip
    with pytest.raises(ConfigError, match="may have seen test rows"):
        prepare(gsda.SYSTEM, config("keys=vse0", f"keys_run={tmp_path}", "graph=off"), rows)


def test_keys_that_read_sentences_themselves_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("limner.encoders.catalogue.text_encoder", lambda: WORDS)
    rows = corpus()
    plain = build(
        VseConfig,
        {
            "system": "vse",
            "data": VALUES["data"],
            "model": {"dim": 10, "text": "sentences"},
            "loop": {"epochs": 1},
        },
        "test",
    )
    made_ready = prepare(vse.SYSTEM, plain, rows, sentences=WORDS)
    Loop(
        made_ready.task, plain.loop, tmp_path, validate=validation(rows, PLAIN), maximise=True,
        saved_with=made_ready.saved_with,
    ).fit()  # fmt: skip
    with pytest.raises(ConfigError, match="keys=sentences, which needs no run"):
        prepare(gsda.SYSTEM, config("keys=vse0", f"keys_run={tmp_path}", "graph=off"), rows)


def test_a_story_does_not_depend_on_its_company():
    """Padding changes nothing; other sentences do."""
    torch.manual_seed(0)
    texts = [["a red fox runs", "two bears", "the whale sings"], ["fox"], ["bears sing", "the fox"]]
    vocabulary = Vocabulary.build([text for story in texts for text in story])
    sizes = GsdaArchitecture(word_width=6, hidden=4, attention=5, dim=8)
    model = Gsda(sizes, ModelParts(vocabulary, 10, max_length=6, sentences=WORDS))
    together = model.encode_stories([*texts, []])
    assert [len(part) for part in together] == [3, 1, 2, 0]
    for story, part in zip(texts, together[:3], strict=True):
        np.testing.assert_allclose(model.encode_stories([story])[0], part, atol=1e-6)
        np.testing.assert_allclose(np.linalg.norm(part, axis=1), 1, atol=1e-6)
    other = model.encode_stories([[*texts[0][:2], "bears bears bears"]])[0]
    assert np.abs(other[0] - together[0][0]).max() > 1e-6
    assert model.encode_image(np.ones((2, 10), np.float32)).shape == (2, 8)


def test_graphs_are_encoded_one_as_many_and_come_back_with_a_run(tmp_path, graphs):
    rows = corpus()
    settings = config(f"graphs={graphs}", "caption=off", "loop.epochs=1")
    loop(settings, rows, tmp_path / "run").fit()
    model, _ = gsda.SYSTEM.load(tmp_path / "run", sentences=WORDS)
    all_graphs = list(read_graphs(graphs).values())
    vectors, empty = model.encode_graphs(all_graphs)
    assert empty.tolist() == [graph.empty for graph in all_graphs]
    assert 0 < empty.sum() < len(all_graphs)
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)
    for row, graph in enumerate(all_graphs):
        np.testing.assert_allclose(model.encode_graphs([graph])[0][0], vectors[row], atol=1e-6)
    assert len(np.unique(vectors.round(4), axis=0)) == 3  # foxes, bears and nothing at all
    many = model.encode_graphs(all_graphs * 20)[0]
    np.testing.assert_allclose(many, np.tile(vectors, (20, 1)), atol=1e-6)
    assert [len(part) for part in model.encode_graphs([])] == [0, 0]
    strange = all_graphs[1].model_copy(update={"relations": (), "objects": ()})
    whale = {"image": "x", "objects": [{"label": "whale", "box": [0, 0, 1, 1], "score": 1}], "relations": []}
    with pytest.raises(DataError, match="no vector for 'whale'"):
        model.encode_graphs([strange, SceneGraph.model_validate(whale)])
    bare = prepare(gsda.SYSTEM, config("graph=off", "caption=off"), rows, sentences=WORDS).task.model
    with pytest.raises(ConfigError, match="has no graph encoder"):
        bare.encode_graphs(all_graphs)


@pytest.mark.parametrize("setting", ["label_vectors={}", "label_vectors=glove data.glove={}"])
def test_labels_are_read_by_word_vectors_from_a_file(tmp_path, graphs, setting):
    file = tmp_path / "glove.txt"
    words = ("fox", "tree", "bear", "house")
    file.write_text("".join(f"{word} {n} 1 0\n" for n, word in enumerate(words)))
    settings = config(f"graphs={graphs}", *setting.format(file).split(), "caption=off")
    prepared = prepare(gsda.SYSTEM, settings, corpus(), sentences=WORDS)
    model = prepared.task.model
    # bear, fox, house, near, tree: in order, and nothing of a predicate that the file lacks
    assert model.graphs.label_vectors.tolist() == [[2, 1, 0], [0, 1, 0], [3, 1, 0], [0, 0, 0], [1, 1, 0]]
    assert prepared.notes == (f"{file}: no vector for near; their vectors are zero",)


def test_what_is_missing_is_said(tmp_path, graphs):
    rows = corpus()
    with pytest.raises(ConfigError, match="limner scenes"):
        task(rows)
    with pytest.raises(ConfigError, match="sentence encoder"):
        prepare(gsda.SYSTEM, config("graph=off"), rows)
    with pytest.raises(ConfigError, match="leave one of the two out"):
        config("graph=off", "graphs=file.jsonl")
    with pytest.raises(ConfigError, match="picturebook"):
        config("graphs=drawn")
    lines = graphs.read_text().splitlines()
    (tmp_path / "fewer.jsonl").write_text("\n".join(lines[1:]) + "\n")
    with pytest.raises(DataError, match=f"no scene graph for 1 of .*{json.loads(lines[0])['image']}"):
        task(rows, f"graphs={tmp_path / 'fewer.jsonl'}")


def test_another_encoder_of_sentences_is_refused(tmp_path):
    settings, rows = config("graph=off", "caption=off", "loop.epochs=1"), corpus()
    loop(settings, rows, tmp_path).fit()
    with pytest.raises(CheckpointError, match="another sentence encoder"):
        gsda.SYSTEM.load(tmp_path, sentences=Words("two"))


def test_which_file_is_named_is_no_deviation_but_whether_labels_have_vectors_is():
    def told(*overrides):
        asked = {"keys_run", "graphs", "label_vectors"}
        return [line for line in config(*overrides).deviations() if line.split("=")[0] in asked]

    assert told("keys=vse0", "keys_run=a", "graphs=b", "label_vectors=c") == []
    assert told("label_vectors=", "graphs=drawn", "data.set=picturebook") == [
        "graphs=drawn",
        "label_vectors=",
    ]
