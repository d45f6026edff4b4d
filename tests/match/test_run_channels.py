"""A run asked through a library: its ranking, its relations, its attention, and what it refuses."""

import shutil

import numpy as np
import pytest
from PIL import Image

from limner.cli.main import run as limner
from limner.encoders.trained import MODEL
from limner.errors import CheckpointError, ConfigError, DataError
from limner.match.illustrator import Illustrator
from limner.match.trained import asked, relation_channel, run_channel
from limner.records import Board
from limner.research.runs.run import Run
from limner.store.database import Database
from limner.store.search import EncodedChannel, Index
from limner.text.read import read_text

TEXTS = ["The cat wrote a letter.", "Snow fell all night.", "A boat sailed away."]
STORY = read_text("\n\n".join(TEXTS), format="plain").story


@pytest.fixture
def opened(library):
    return Database(library)


@pytest.fixture
def run(drawings_run):
    return Run.for_library(drawings_run)


@pytest.fixture
def illustrated(library, drawings_run, tmp_path):
    """Illustrate a text by the command, with the library and the run unless others are named."""
    text, out = tmp_path / "tale.md", tmp_path / "board.json"
    text.write_text("# A tale\n\n" + "\n\n---\n\n".join(TEXTS) + "\n")

    def made(*words, folder=library, code=0):
        given = [str(drawings_run) if word == "RUN" else str(word) for word in words]
        done = limner(["illustrate", str(text), "--library", str(folder), "-o", str(out), *given])
        assert (done, out.exists()) == (code, not code)
        return None if code else Board.model_validate_json(out.read_text(), strict=False)

    return made


def vectors_of(opened):
    gallery = opened.index([MODEL]).gallery
    return gallery, np.asarray(gallery.space(MODEL).vectors(range(len(gallery))), np.float32)


def test_the_channel_ranks_as_the_model_scores(opened, run):
    gallery, vectors = vectors_of(opened)
    hits = Index(gallery).search([EncodedChannel.encode(run_channel(run, opened), TEXTS)], len(gallery))
    scores = run.model.score(run.model.encode_text(TEXTS), vectors)
    due = 2 * (scores - scores.mean(axis=1, keepdims=True)) / scores.std(axis=1, keepdims=True) - 2
    np.testing.assert_allclose(hits.scores, -np.sort(-due), atol=2e-3)
    np.testing.assert_allclose(np.take_along_axis(due, hits.rows, axis=1), hits.scores, atol=2e-3)
    assert set(opened.settings.spaces) == {"colour", "captions", "multilingual", MODEL}


def test_a_relation_adds_its_picture_term_and_moves_the_choice(opened, run):
    gallery, vectors = vectors_of(opened)
    for number, name in enumerate(run.model.relations):
        channel = relation_channel(run, [name, None, f"{name}=-3"])
        terms = run.model.relation_terms(vectors[:1], vectors)[1][:, number]
        found = channel.evidence.slope * channel.encoder.encode_text(TEXTS) @ vectors.T
        np.testing.assert_allclose(found, np.outer([1, 0, -3], terms), atol=1e-5)
    terms = run.model.relation_terms(vectors[:1], vectors)[1][:, run.model.relations.index("action")]
    due, illustrator = dict(zip(gallery.ids, terms.tolist(), strict=True)), Illustrator(opened, model=run)
    options, times = illustrator.options({"runners_up": 99}), ("action=-99", None, "action=2", "action=99")
    boards = [illustrator.board(STORY, options, relations=one) for one in times]
    assert (boards[1].channels, boards[2].channels) == (("model",), ("model", "relation"))
    assert boards[2].settings["relation"] == "action=2"
    for steps in zip(boards[1].steps, boards[2].steps, strict=True):
        before, after = ({one.picture.id: one.score for one in (s.chosen, *s.runners_up)} for s in steps)
        for one in before.keys() & after.keys():
            assert after[one] - before[one] == pytest.approx(2 * due[one], abs=1e-3)
    sums = [sum(due[step.picture.id] for step in board.steps) for board in boards]
    assert sums == sorted(sums) != sums[::-1]


def test_how_often_a_relation_counts_and_what_cannot_be_asked_for(product_run):
    times = {"action": 1, "action=2.5": 2.5, "action=-1": -1, "i=t": 1, "i=t=4": 4}
    for words, count in times.items():
        assert asked(words, ("action", "i=t")) == (words[:3] if words[1] == "=" else "action", count)
    assert asked("acton=2", ("action",)) == ("acton=2", 1.0)  # refused where the relation is looked up
    for wrong in ("", "much", "nan", "inf"):
        with pytest.raises(ConfigError, match="is not a number; expected for example action=5"):
            asked(f"action={wrong}", ("action",))
    with pytest.raises(ConfigError, match="are not linear"):
        relation_channel(Run.for_library(product_run), ["action"])


def test_a_library_without_vectors_of_the_run_names_the_command(opened, book, run, product_run, illustrated):
    with pytest.raises(CheckpointError, match=r"another run \(cmcm \w{8}\); run: limner index ") as told:
        run_channel(Run.for_library(product_run), opened)
    assert f"{book} --library {opened.place} --model {product_run}" in str(told.value)
    bare = opened.folder.parent / "bare"
    index = ["index", str(book), "--library", str(bare), "--encoder", "colour"]
    assert limner(index) == 0
    with pytest.raises(DataError, match=f"no vectors of a trained run; run: limner index {book} "):
        run_channel(run, Database(bare))
    assert limner([*index, "--model", str(product_run)]) == 0  # a model without attention
    board = illustrated("--model", product_run, folder=bare)
    assert all(step.attention == () and len(step.relations) == 13 for step in board.steps)
    shutil.rmtree(bare)


def test_pictures_without_a_vector_are_counted(opened, run, tmp_path):
    Image.effect_noise((64, 64), 90).convert("RGB").save(tmp_path / "new.png")
    shutil.copytree(opened.folder, tmp_path / "lib")
    words = ["index", str(tmp_path / "new.png"), "--library", str(tmp_path / "lib"), "--encoder", "colour"]
    assert limner(words) == 0
    (line,) = Illustrator(Database(tmp_path / "lib"), model=run).notes
    assert "no vector of this run for 1 of 10 pictures" in line


def test_the_board_tells_relations_and_attention(opened, run, illustrated):
    board = illustrated("--model", "RUN")
    assert (board.channels, board.settings["model"]) == (("model",), f"linear {run.fingerprint[:12]}")
    gallery, vectors = vectors_of(opened)
    for step, words in zip(board.steps, TEXTS, strict=True):
        assert (step.probability, step.chosen.matched, set(step.chosen.channels)) == (None, (), {"model"})
        row = gallery.rows([step.chosen.picture.id])
        due = run.model.relation_probabilities(run.model.encode_text([words]), vectors[row])
        np.testing.assert_allclose([step.relations[name] for name in run.model.relations], due[0], atol=1e-3)
        assert [word for word, _ in step.attention] == [word for word, _ in run.model.attention([words])[0]]
        assert sum(share for _, share in step.attention) == pytest.approx(1, abs=1e-3)


MISUSE = {
    "--model RUN --min-probability 0": "--min-probability is calibrated for other channels",
    "--model RUN --channel captions": "--channel: a trained run replaces all channels",
    "--model RUN --relation acton": "did you mean 'action'",
    "--model RUN --set min_probability=0.5": "calibrated for other channels",
    "--relation action": "give one with --model",
    "--channel model": "give its folder with --model",
}


@pytest.mark.slow
@pytest.mark.parametrize("words", MISUSE)
def test_misuse_is_one_line(illustrated, words, capsys):
    illustrated(*words.split(), code=2)
    (line,) = capsys.readouterr().err.splitlines()
    assert MISUSE[words] in line
