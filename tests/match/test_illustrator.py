"""One opened library for many texts: the command and the studio give the same storyboard."""

import shutil
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest
from made_up_pictures import ids_of

from limner.cli.main import run as limner
from limner.errors import ConfigError, DataError
from limner.match.illustrate import BoardOptions
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
BOAT = read_text("A boat sails home.", format="plain").story


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    folder = tmp_path_factory.mktemp("illustrator")
    stories = PictureBook(5).stories(2, pages=(6, 6))
    write(folder / "drawn", stories, size_px=64, captions="metadata", distractors=4)
    assert (
        limner(["index", str(folder / "drawn"), "--library", str(folder / "lib"), "--encoder", "colour"]) == 0
    )
    return folder / "lib"


@pytest.fixture
def opened(home):
    return Illustrator(PictureStore.open(home))


@pytest.mark.parametrize("show", ["cautious", "always"])
def test_the_command_and_the_studio_give_the_same_board(opened, home, tmp_path, show):
    text, out = tmp_path / "tale.md", tmp_path / "tale.json"
    text.write_text(TEXT)
    pinned, banned = (ids_of(opened.catalogue)[place] for place in (3, 5))
    words = ["illustrate", str(text), "--library", str(home), "-o", str(out), "--show", show]
    assert limner([*words, "--pin", f"2={pinned}", "--ban", banned]) == 0
    told = Board.model_validate_json(out.read_text(), strict=False)
    constraints = Constraints(pins={1: pinned}, bans=(banned,))
    assert illustrate_story(opened, told.story, BoardOptions(show=show), constraints) == told
    assert told.steps[1].chosen.picture.id == pinned


def test_a_search_and_a_board_say_the_same_of_a_picture(opened):
    """Of one step, which has no others to agree with."""
    (step,) = opened.board(BOAT, opened.options({"show": "always"})).steps
    found = opened.search("A boat sails home.", 4)
    for one, other in zip(found, (step.chosen, *step.runners_up), strict=True):
        assert one.picture == other.picture
        assert (one.probability, one.score) == pytest.approx((other.probability, other.strength), abs=1e-6)


def test_a_second_text_reads_nothing_again(opened, monkeypatch):
    first = opened.board(STORY)
    for name in ("gallery", "vectors"):
        monkeypatch.setattr(PictureStore, name, None)
    monkeypatch.setattr("limner.match.illustrator.channels_of", None)
    assert opened.board(STORY) == first
    assert opened.board(BOAT).steps[0].chosen is not None
    assert opened.search("a cake", 3)[0].picture.id in opened.catalogue


@pytest.mark.slow
def test_threads_share_what_is_loaded(opened):
    with ThreadPoolExecutor(4) as pool:
        boards = list(pool.map(lambda _: opened.board(STORY), range(4)))
        indices = set(pool.map(lambda _: id(opened.index), range(4)))
    assert all(board == boards[0] for board in boards)
    assert len(indices) == 1


def test_it_stays_what_the_library_was_when_opened(home, tmp_path):
    shutil.copytree(home, tmp_path / "lib")
    opened = Illustrator(PictureStore.open(tmp_path / "lib"))
    before = opened.board(STORY)
    shutil.rmtree(tmp_path / "lib")
    assert opened.board(STORY) == before


def test_what_does_not_fit_is_said(opened, tmp_path):
    PictureStore(tmp_path / "lib")
    empty = Illustrator(PictureStore.open(tmp_path / "lib"))
    for wrong, error, message in (
        (partial(opened.options, {"pins": {0: None}}), ConfigError, "steps count from 1"),
        (partial(opened.options, bans=("cake.jpg",)), DataError, r"no picture 'cake\.jpg'"),
        (partial(opened.board, STORY, relations="action"), ConfigError, "only a trained run knows relations"),
        (partial(empty.search, "a cake", 3), DataError, "holds no picture yet"),
    ):
        with pytest.raises(error, match=message):
            wrong()
