"""A run asked through a library: its ranking, its relations, its attention, and what it refuses."""

import json
import shutil
from types import SimpleNamespace

import numpy as np
import pytest
from bs4 import BeautifulSoup

from limner.cli.main import run as limner
from limner.encoders.trained import MODEL
from limner.errors import CheckpointError, ConfigError, DataError
from limner.match.illustrator import Illustrator
from limner.match.trained import PRIOR, asked, relation_channel, run_channel
from limner.records import Board
from limner.research.runs.run import Run
from limner.store.library import PictureStore
from limner.store.search import EncodedChannel, Index
from limner.text.read import read_text

TEXTS = ["The cat wrote a letter.", "Snow fell all night.", "A boat sailed away."]


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "tale.md"
    path.write_text("# A tale\n\n" + "\n\n---\n\n".join(TEXTS) + "\n")
    return path


def illustrated(library, text, out, *words):
    return limner(["illustrate", str(text), "--library", str(library), "-o", str(out), *words])


def board_of(library, text, tmp_path, *words):
    out = tmp_path / "board.json"
    assert illustrated(library, text, out, "--overwrite", *words) == 0
    return Board.model_validate_json(out.read_text(), strict=False)


def test_the_channel_ranks_as_the_model_scores(library, drawings_run):
    opened, run = PictureStore.open(library), Run.for_library(drawings_run)
    gallery = opened.gallery([MODEL])
    channel = run_channel(run, opened)
    hits = Index(gallery).search([EncodedChannel.encode(channel, TEXTS)], len(gallery))
    vectors = np.asarray(gallery.space(MODEL).matrix, np.float32)
    scores = run.model.score(run.model.encode_text(TEXTS), vectors)
    standard = (scores - scores.mean(axis=1, keepdims=True)) / scores.std(axis=1, keepdims=True)
    for row in range(len(TEXTS)):
        due = 2 * standard[row] - 2
        np.testing.assert_allclose(hits.scores[row], np.sort(due)[::-1], atol=2e-3)
        np.testing.assert_allclose(due[hits.rows[row]], hits.scores[row], atol=2e-3)
    assert (PRIOR.slope, PRIOR.z_slope, PRIOR.offset) == (0, 2, -2)


def test_a_relation_adds_its_picture_term(library, drawings_run):
    run = Run.for_library(drawings_run)
    vectors = np.asarray(PictureStore.open(library).gallery([MODEL]).space(MODEL).matrix, np.float32)
    for number, name in enumerate(run.model.relations):
        channel = relation_channel(run, [name, None, f"{name}=-3"])
        assert (channel.name, channel.space) == ("relation", MODEL)
        assert channel.evidence.z_slope == channel.evidence.offset == 0 < channel.evidence.slope
        rows = channel.encoder.encode_text(TEXTS)
        assert rows.shape == (3, channel.encoder.dim)
        terms = run.model.relation_terms(vectors[:1], vectors)[1][:, number]
        for row, times in zip(rows, (1, 0, -3), strict=True):
            np.testing.assert_allclose(channel.evidence.slope * (row @ vectors.T), times * terms, atol=1e-5)


@pytest.mark.parametrize(
    ("words", "due"),
    [
        ("action", ("action", 1.0)),
        ("action=2.5", ("action", 2.5)),
        ("action=-1", ("action", -1.0)),
        ("i=t", ("i=t", 1.0)),
        ("i=t=4", ("i=t", 4.0)),
        ("acton=2", ("acton=2", 1.0)),  # refused where the relation is looked up
    ],
)
def test_how_often_a_relation_counts(words, due):
    assert asked(words, ("action", "i=t")) == due


@pytest.mark.parametrize("times", ["", "much", "nan", "inf"])
def test_what_is_no_number_of_times(times):
    with pytest.raises(ConfigError, match="is not a number; expected for example action=5"):
        asked(f"action={times}", ("action",))


def test_relations_that_cannot_be_asked_for(drawings_run, product_run, tmp_path):
    with pytest.raises(ConfigError, match="did you mean 'action'"):
        relation_channel(Run.for_library(drawings_run), ["acton"])
    with pytest.raises(ConfigError, match="are not linear"):
        relation_channel(Run.for_library(product_run), ["action"])
    run = Run.for_library(drawings_run)

    silent = SimpleNamespace(folder=tmp_path, model=SimpleNamespace(relations=(), dim=2))
    with pytest.raises(ConfigError, match="predicts no relations"):
        relation_channel(silent, ["action"])
    assert run.model.relations


@pytest.mark.slow
def test_a_library_without_or_of_another_run_names_the_command(
    library, book, drawings_run, product_run, capsys
):
    with pytest.raises(CheckpointError, match=r"another run \(cmcm \w{8}\); run: limner index ") as told:
        run_channel(Run.for_library(product_run), PictureStore.open(library))
    assert f"{book} --library {library} --model {product_run}" in str(told.value)
    bare = library.parent / "bare"
    assert limner(["index", str(book), "--library", str(bare), "--encoder", "colour"]) == 0
    with pytest.raises(DataError, match=f"no vectors of a trained run; run: limner index {book} "):
        run_channel(Run.for_library(drawings_run), PictureStore.open(bare))
    shutil.rmtree(bare)
    capsys.readouterr()


def test_pictures_without_a_vector_are_counted(library, book, drawings_run, tmp_path, capsys):
    copy, pictures = tmp_path / "lib", tmp_path / "more"
    shutil.copytree(library, copy)
    pictures.mkdir()
    from PIL import Image

    Image.effect_noise((64, 64), 90).convert("RGB").save(pictures / "new.png")
    assert limner(["index", str(pictures), "--library", str(copy), "--encoder", "colour"]) == 0
    assert "model: no vector yet for 1 picture" in capsys.readouterr().out
    (line,) = Illustrator(PictureStore.open(copy), model=Run.for_library(drawings_run)).notes
    assert "no vector of this run for 1 of 10 pictures" in line
    assert book.is_dir()


def test_the_board_tells_relations_and_attention(library, text, drawings_run, tmp_path):
    board = board_of(library, text, tmp_path, "--model", str(drawings_run))
    run, opened = Run.for_library(drawings_run), PictureStore.open(library)
    assert board.channels == ("model",)
    assert board.settings["model"] == f"linear {run.fingerprint[:12]}"
    gallery = opened.gallery([MODEL])
    for step, words in zip(board.steps, TEXTS, strict=True):
        assert step.chosen is not None
        assert step.probability is None
        assert set(step.chosen.channels) == {"model"}
        assert step.chosen.matched == ()
        assert step.reason.startswith(("The trained model finds that it fits", "No picture stands out"))
        vector = np.asarray(gallery.space(MODEL).matrix[list(gallery.ids).index(step.chosen.picture.id)])
        due = run.model.relation_probabilities(
            run.model.encode_text([words]), vector[None].astype(np.float32)
        )
        np.testing.assert_allclose([step.relations[name] for name in run.model.relations], due[0], atol=1e-3)
        assert [word for word, _ in step.attention] == [word for word, _ in run.model.attention([words])[0]]
        assert sum(share for _, share in step.attention) == pytest.approx(1, abs=1e-3)


@pytest.mark.slow
def test_a_model_without_attention_shows_none(book, text, product_run, tmp_path, capsys):
    words = ["index", str(book), "--library", str(tmp_path / "lib"), "--encoder", "colour"]
    assert limner([*words, "--model", str(product_run)]) == 0
    board = board_of(tmp_path / "lib", text, tmp_path, "--model", str(product_run))
    assert all(step.attention == () and len(step.relations) == 13 for step in board.steps)
    capsys.readouterr()


def test_a_relation_adds_its_term_to_every_score_and_moves_the_choice(library, drawings_run):
    run, opened = Run.for_library(drawings_run), PictureStore.open(library)
    illustrator = Illustrator(opened, model=run)
    story = read_text("\n\n".join(TEXTS), format="plain").story
    options = illustrator.options({"runners_up": 99})
    gallery = opened.gallery([MODEL])
    vectors = np.asarray(gallery.space(MODEL).vectors(range(len(gallery))))
    terms = run.model.relation_terms(vectors[:1], vectors)[1][:, run.model.relations.index("action")]
    due = dict(zip(gallery.ids, terms.tolist(), strict=True))
    plain, other = (illustrator.board(story, options, relations=one) for one in (None, "action=2"))
    assert (plain.channels, other.channels) == (("model",), ("model", "relation"))
    assert other.settings["relation"] == "action=2"
    for step, moved in zip(plain.steps, other.steps, strict=True):
        before = {one.picture.id: one.score for one in (step.chosen, *step.runners_up)}
        after = {one.picture.id: one.score for one in (moved.chosen, *moved.runners_up)}
        for own in before.keys() & after.keys():
            assert after[own] - before[own] == pytest.approx(2 * due[own], abs=1e-3)
    boards = [illustrator.board(story, options, relations=one) for one in ("action=-9", None, "action=9")]
    sums = [sum(due[step.picture.id] for step in board.steps) for board in boards]
    assert sums[0] <= sums[1] <= sums[2]
    assert sums[0] < sums[2]


def test_what_a_run_offers_for_a_step_leaves_the_others_as_they_are(library, drawings_run):
    illustrator = Illustrator(PictureStore.open(library), model=Run.for_library(drawings_run))
    story = read_text("\n\n".join(TEXTS), format="plain").story
    options = illustrator.options({"runners_up": 99})
    ranked = illustrator.board(story, options).steps[1]
    best, *others = [one.picture.id for one in (ranked.chosen, *ranked.runners_up)]
    shown = dict(enumerate(others[-3:]))
    offered = [one.picture.id for one in illustrator.offers(story, options, shown, 1)]
    assert offered[0] == best
    assert {shown[0], shown[2]}.isdisjoint(offered)


def test_the_page_says_which_relations_hold_and_which_words_count(
    library, text, drawings_run, tmp_path, capsys
):
    out = tmp_path / "tale.html"
    assert illustrated(library, text, out, "--model", str(drawings_run), "--with-reasons") == 0
    soup = BeautifulSoup(out.read_text(encoding="utf-8"), "lxml")
    board = board_of(library, text, tmp_path, "--model", str(drawings_run))
    for step in board.steps:
        section = soup.find(id=f"step-{step.position + 1}")
        reasons = [" ".join(one.text.split()) for one in section.select(".reasons p")]
        held = sum(chance >= 0.5 for chance in step.relations.values())
        predicted = next(one for one in reasons if one.startswith("Predicted by the model: "))
        assert predicted.count(" %)") == held > 0
        attended = [one for one in reasons if one.startswith("Words with the most attention: ")]
        words = {word for one in attended for word in one.partition(": ")[2].rstrip(".").split(", ")}
        assert words <= {word for word, _ in step.attention}
        assert " ".join(section.find(class_="text").text.split()) == TEXTS[step.position]
    capsys.readouterr()


def test_search_with_a_run(library, drawings_run, capsys):
    words = ["search", TEXTS[0], "--library", str(library), "--model", str(drawings_run), "--json", "-k", "3"]
    assert limner(words) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [set(row["channels"]) for row in rows] == [{"model"}] * 3
    assert limner([*words, "--channel", "captions"]) == 2
    assert "drop --channel" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "part"),
    [
        (
            ["--model", "RUN", "--min-probability", "0"],
            "--min-probability is calibrated for other channels",
        ),
        (["--model", "RUN", "--channel", "captions"], "--channel: a trained run replaces all channels"),
        (["--model", "RUN", "--relation", "acton"], "did you mean 'action'"),
        (["--model", "RUN", "--set", "min_probability=0.5"], "calibrated for other channels"),
        (["--relation", "action"], "give one with --model"),
        (["--channel", "model"], "give its folder with --model"),
    ],
)
def test_misuse_is_one_line(library, text, words, part, *, drawings_run, tmp_path, capsys):
    words = [str(drawings_run) if word == "RUN" else word for word in words]
    assert illustrated(library, text, tmp_path / "a.html", *words) == 2
    err = capsys.readouterr().err
    assert len(err.splitlines()) == 1
    assert part in err
    assert not (tmp_path / "a.html").exists()


def test_indexing_with_a_run_keeps_the_other_spaces(library, drawings_run):
    spaces = PictureStore.open(library).settings.spaces
    assert set(spaces) == {"colour", "captions", "multilingual", MODEL}
    assert spaces[MODEL].fingerprint == Run.for_library(drawings_run).fingerprint
