"""Models of sequences and a same-document metric in a library: steps hear each other, and pins lead."""

import json
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import numpy as np
import pytest

from limner.cli.index import index
from limner.cli.main import run as limner
from limner.encoders.trained import DOCUMENT
from limner.errors import CheckpointError, ConfigError, DataError
from limner.match.calibration import load
from limner.match.illustrator import Illustrator
from limner.match.trained import run_channel
from limner.records import Board, Step, Story
from limner.research.cli.train import train
from limner.research.datasets.pairs import Pair, PairSet
from limner.research.runs.metric import PAIRWISE, fit_pairwise, read_pairwise
from limner.research.runs.run import Run
from limner.research.training.corpus import ArrayRows, corpus_of
from limner.store.database import Database
from limner.store.search import EncodedChannel

pytestmark = pytest.mark.slow

CONFIGS = Path(__file__).parents[3] / "configs"
VRSS = CONFIGS / "vrss" / "vrss.toml"
METRIC = CONFIGS / "document" / "document.toml"
TEXTS = ["The cat wrote a letter.", "Snow fell all night.", "A boat sailed away."]


@pytest.fixture(scope="session")
def story_run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "vrss"
    with redirect_stdout(StringIO()):
        train(
            VRSS,
            data="picturebook",
            to=folder,
            set_=("data.vectors=random", "data.picture_px=32"),
            smoke=True,
        )
    return folder


@pytest.fixture(scope="session")
def metric_run(tmp_path_factory):
    """Not a smoke run, which has one validation story."""
    folder = tmp_path_factory.mktemp("runs") / "document"
    small = ("data.stories=40", "data.picture_px=32", "loop.epochs=2", "data.batch=8", "model.dim=8")
    with redirect_stdout(StringIO()):
        train(METRIC, data="picturebook", to=folder, set_=small)
    return folder


@pytest.fixture(scope="session")
def told(tmp_path_factory, book, story_run, metric_run):
    """The drawings, indexed with both runs."""
    folder = tmp_path_factory.mktemp("libraries") / "told"
    with redirect_stdout(StringIO()):
        index(book, library=folder, encoder=("colour",), model=story_run, metric=metric_run)
    return folder


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "tale.md"
    path.write_text("# A tale\n\n" + "\n\n---\n\n".join(TEXTS) + "\n")
    return path


def test_steps_hear_their_story(told, story_run):
    opened, run = Database(told), Run.for_library(story_run)
    channel = run_channel(run, opened)
    encoded = EncodedChannel.encode(channel, TEXTS)
    np.testing.assert_allclose(encoded.texts, run.model.encode_stories([TEXTS])[0], atol=1e-6)
    assert np.abs(encoded.texts[:1] - run.model.encode_text(TEXTS[:1])).max() > 1e-6


@pytest.mark.parametrize("space", [DOCUMENT, "colour"])
def test_a_pin_leads_the_rest_by_the_metric_in_place_of_looks(  # noqa: PLR0917
    told, text, tmp_path, story_run, metric_run, monkeypatch, space
):
    """Where a pin outweighs all else, the other pictures are those nearest to the pinned one."""
    pin = load().pin.model_copy(update={"weight": 1000.0})
    strong = load().model_copy(update={"pin": pin})
    monkeypatch.setattr("limner.match.illustrate.load", lambda: strong)
    gallery = Database(told).index([space]).gallery
    vectors = gallery.space(space).vectors(range(len(gallery)))
    for pinned in (0, 3):
        out = tmp_path / f"{pinned}.json"
        words = ["illustrate", str(text), "--library", str(told), "-o", str(out), "--allow-repeats"]
        words += ["--model", str(story_run), "--pin", f"1={gallery.ids[pinned]}"]
        words += ["--metric", str(metric_run)] if space == DOCUMENT else []
        assert limner(words) == 0
        board = Board.model_validate_json(out.read_text(), strict=False)
        near = vectors @ vectors[pinned]
        for step in board.steps[1:]:
            assert near[list(gallery.ids).index(step.chosen.picture.id)] >= np.sort(near)[-3]


def test_the_pull_tells_stories_apart():
    class Plain:
        device = "cpu"

        def encode_image(self, values):
            return np.asarray(values, np.float32)

    rng = np.random.default_rng(0)
    pairs, rows = [], []
    for number in range(60):
        centre = rng.standard_normal(8)
        for place in range(4):
            vector = centre + 0.8 * rng.standard_normal(8)
            rows.append(vector / np.linalg.norm(vector))
            name = f"{number}-{place}"
            split = "train" if number < 5 else "val"
            told = {"split": split, "group": str(number), "seq": str(number), "pos": place}
            pairs.append(Pair(id=name, text=f"words {name}", image=name, **told))
    pictures = ArrayRows([pair.id for pair in pairs], np.array(rows, np.float32))
    corpus = corpus_of(PairSet("made", (), tuple(pairs)), pictures)
    found = fit_pairwise(Plain(), corpus)
    assert found.slope > 3
    # ‖ratio‖ is even where both kinds are as likely, whatever their number: cosines of either kind, by hand
    values, stories = np.array(rows[20:]), np.repeat(np.arange(55), 4)
    cosines = values @ values.T
    same = stories[:, None] == stories
    even = -found.offset / found.slope
    own, other = cosines[same & ~np.eye(220, dtype=bool)], cosines[~same]
    near = [np.mean(np.abs(part - even) < 0.1) for part in (own, other)]
    assert 0.5 < near[0] / near[1] < 2
    loners = [pair.model_copy(update={"seq": pair.id}) for pair in pairs]
    with pytest.raises(DataError, match="of one story"):
        fit_pairwise(Plain(), corpus_of(PairSet("made", (), tuple(loners)), pictures))


def test_what_does_not_go_together_is_said(told, tmp_path, story_run, metric_run, library):
    with pytest.raises(ConfigError, match="give it with --metric"):
        index(tmp_path, library=tmp_path / "lib", model=metric_run)
    with pytest.raises(ConfigError, match="give it with --model"):
        index(tmp_path, library=tmp_path / "lib", metric=story_run)
    with pytest.raises(ConfigError, match="give it with --metric"):
        run_channel(Run.for_library(metric_run), Database(told))
    with pytest.raises(DataError, match="--metric"):
        Illustrator(Database(library), metric=Run.for_library(metric_run)).board(
            Story(id="tale", steps=(Step(text="Snow fell."),))
        )
    assert limner(["measure", str(metric_run)]) != 0
    with redirect_stdout(StringIO()):
        train(METRIC, data="picturebook", to=tmp_path / "smoke", set_=("data.picture_px=32",), smoke=True)
    with pytest.raises(CheckpointError, match="No such file"):
        read_pairwise(tmp_path / "smoke")
    kept = (metric_run / PAIRWISE).read_bytes()
    for content in (b"", b"{}", b"\xff", json.dumps({"slope": "x", "z_slope": 0, "offset": 0}).encode()):
        (metric_run / PAIRWISE).write_bytes(content)
        with pytest.raises(CheckpointError, match="run limner train to its end"):
            read_pairwise(metric_run)
    (metric_run / PAIRWISE).unlink()
    with pytest.raises(CheckpointError, match="run limner train to its end"):
        read_pairwise(metric_run)
    (metric_run / PAIRWISE).write_bytes(kept)
