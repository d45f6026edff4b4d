"""One opened library for many texts: the command and the studio give the same storyboard."""

import shutil
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from io import StringIO

import pytest
from made_up_pictures import ids_of
from threadpoolctl import threadpool_info, threadpool_limits

from limner.cli.index import index
from limner.cli.main import run as limner
from limner.devices import one_core_products
from limner.errors import ConfigError, DataError
from limner.match.illustrate import BoardOptions, score_board
from limner.match.illustrator import Illustrator
from limner.records import Board
from limner.research.worlds import PictureBook
from limner.research.worlds.book_files import write
from limner.store.library import PictureStore
from limner.studio.engine import illustrate_story
from limner.studio.step_edits import Constraints
from limner.text.read import read_text

WORDS = ("A fox looks out.", "The rabbit bakes a cake.", "Snow falls.", "A boat sails.")
TEXT = "# A day\n\n" + "\n\n---\n\n".join(WORDS) + "\n"
STORY = read_text(TEXT, format="markdown").story


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    folder = tmp_path_factory.mktemp("illustrator")
    write(
        folder / "drawn",
        PictureBook(5).stories(2, pages=(6, 6)),
        size_px=64,
        captions="metadata",
        distractors=4,
    )
    with redirect_stdout(StringIO()), redirect_stderr(StringIO()):
        index(folder / "drawn", library=folder / "lib", encoder=("colour",))
    return folder / "lib"


@pytest.mark.parametrize("show", ["cautious", "usual", "always"])
def test_the_command_and_the_studio_give_the_same_board(home, tmp_path, show):
    text, out = tmp_path / "tale.md", tmp_path / "tale.json"
    text.write_text(TEXT)
    opened = Illustrator(PictureStore.open(home))
    pinned, banned = ids_of(opened.catalogue)[3], ids_of(opened.catalogue)[5]
    words = ["illustrate", str(text), "--library", str(home), "-o", str(out), "--show", show]
    assert limner([*words, "--pin", f"2={pinned}", "--ban", banned]) == 0
    told = Board.model_validate_json(out.read_text(), strict=False)
    constraints = Constraints(pins={1: pinned}, bans=(banned,))
    drafted = illustrate_story(opened, told.story, BoardOptions(show=show), constraints)
    assert drafted == told
    assert drafted.steps[1].chosen.picture.id == pinned


def test_a_search_and_a_board_say_the_same_of_a_picture(home):
    """Of one step, which has no others to agree with."""
    opened = Illustrator(PictureStore.open(home))
    story = read_text("A boat sails home.", format="plain").story
    (step,) = opened.board(story, opened.options({"show": "always"})).steps
    best, *others = opened.search("A boat sails home.", 4)
    assert best.picture == step.chosen.picture
    assert best.probability == pytest.approx(step.probability, abs=1e-6)
    assert best.score == pytest.approx(step.chosen.strength, abs=1e-6)
    assert [one.picture for one in others] == [one.picture for one in step.runners_up]


def test_a_second_text_reads_nothing_again(home, monkeypatch):
    opened = Illustrator(PictureStore.open(home))
    first = opened.board(STORY)
    monkeypatch.setattr(PictureStore, "gallery", None)
    monkeypatch.setattr(PictureStore, "vectors", None)
    monkeypatch.setattr("limner.match.illustrator.channels_of", None)
    monkeypatch.setattr("limner.store.vectors.moments", None)
    assert opened.board(STORY) == first
    other = opened.board(read_text("A boat sails home.", format="plain").story)
    assert other.steps[0].chosen is not None
    assert opened.search("a cake", 3)[0].picture.id in opened.catalogue


@pytest.mark.parametrize(("most", "limited"), [(64, True), (3, False)], ids=["few", "many"])
def test_few_steps_are_compared_on_one_core(home, monkeypatch, most, limited):
    """Idle threads of small products spin, and take the cores from other work."""
    limits, used = [], []

    @contextmanager
    def limiting():
        with one_core_products():
            limits.append({one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas"})
            yield
            limits.pop()

    def scoring(*words, **named):
        used.append(list(limits))
        return score_board(*words, **named)

    monkeypatch.setattr("limner.match.illustrate.score_board", scoring)
    monkeypatch.setattr("limner.match.illustrator.one_core_products", limiting)
    monkeypatch.setattr("limner.match.illustrator.FEW_TEXTS", most)
    with threadpool_limits(2, "blas"):
        Illustrator(PictureStore.open(home)).board(STORY)
    assert used == [[{1}] if limited else []]


@pytest.mark.slow
def test_threads_share_what_is_loaded(home):
    opened = Illustrator(PictureStore.open(home))
    with ThreadPoolExecutor(4) as pool:
        boards = list(pool.map(lambda _: opened.board(STORY), range(4)))
        seen = set(pool.map(lambda _: id(opened.index), range(4)))
    assert all(board == boards[0] for board in boards)
    assert len(seen) == 1


def test_it_stays_what_the_library_was_when_opened(home, tmp_path):
    folder = tmp_path / "lib"
    shutil.copytree(home, folder)
    opened = Illustrator(PictureStore.open(folder))
    before = opened.board(STORY)
    shutil.rmtree(folder)
    assert opened.board(STORY) == before


def test_what_does_not_fit_is_said(home, tmp_path):
    opened = Illustrator(PictureStore.open(home))
    with pytest.raises(ConfigError, match="steps count from 1"):
        opened.options({"pins": {0: None}})
    with pytest.raises(ConfigError, match="steps count from 1"):
        opened.options(pins={0: "cake.jpg"})
    with pytest.raises(DataError, match=r"no picture 'cake\.jpg'"):
        opened.options(bans=("cake.jpg",))
    with pytest.raises(ConfigError, match="only a trained run knows relations"):
        opened.board(STORY, relations="action")
    PictureStore(tmp_path / "lib")
    empty = Illustrator(PictureStore.open(tmp_path / "lib"))
    assert empty.channel_names == ()
    with pytest.raises(DataError, match="holds no picture yet"):
        empty.search("a cake", 3)
