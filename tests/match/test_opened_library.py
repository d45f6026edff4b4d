"""One opened library for many texts and questions, of the command and of the studio alike."""

import io
import shutil
from base64 import b64encode
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from PIL import Image

import limner
from limner.cli.main import run
from limner.errors import CheckpointError, ConfigError, DataError
from limner.match.encoder_setup import image_encoders_of
from limner.match.illustrate import BoardOptions
from limner.match.illustrator import Illustrator
from limner.match.languages import negation_note, unreadable
from limner.progress import Progress
from limner.records import Board
from limner.research.worlds import PictureBook
from limner.research.worlds.book_files import write
from limner.store import Only
from limner.store.database import Database
from limner.store.search import COSINE, Channel
from limner.studio.engine import illustrate_story
from limner.studio.step_edits import Constraints
from limner.text.read import read_text

TEXT = "A fox looks out.\n\n---\n\nThe rabbit bakes a cake.\n\n---\n\nSnow falls.\n\n---\n\nA boat sails.\n"
STORY, BOAT = (read_text(text, format="markdown").story for text in (TEXT, "A boat sails home."))
FOX, RABBIT = "a fox in the forest", "a rabbit"


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A library of three folders of drawings with captions."""
    folder = tmp_path_factory.mktemp("questions")
    for number in range(3):
        story = PictureBook(5 + number).stories(1, pages=(6, 6))
        write(folder / "drawn" / str(number), story, size_px=64, captions="metadata")
    assert run(["index", str(folder / "drawn"), "--library", str(folder / "lib"), "--encoder", "colour"]) == 0
    return folder / "lib"


@pytest.fixture
def opened(home):
    return Illustrator(Database(home))


def ids(found):
    return [one.picture.id for one in found]


def scores(found):
    return {one.picture.id: one.score for one in found}


@pytest.mark.parametrize("show", ["cautious", "always"])
def test_the_command_and_the_studio_give_the_same_board(opened, home, tmp_path, show):
    text, out = tmp_path / "tale.md", tmp_path / "tale.json"
    text.write_text(TEXT)
    pinned, banned = ids(opened.search(RABBIT, 2))
    words = ["illustrate", str(text), "--library", str(home), "-o", str(out), "--show", show]
    assert run([*words, "--pin", f"2={pinned}", "--ban", banned]) == 0
    told = Board.model_validate_json(out.read_text(), strict=False)
    constraints = Constraints(pins={1: pinned}, bans=(banned,))
    assert illustrate_story(opened, told.story, BoardOptions(show=show), constraints) == told
    assert told.shown[1] == pinned


def test_a_search_and_a_board_say_the_same_of_a_picture(opened):
    """Of one step, which has no others to agree with."""
    (step,) = opened.board(BOAT, opened.options({"show": "always"})).steps
    for one, other in zip(
        opened.search("A boat sails home.", 4), (step.chosen, *step.runners_up), strict=True
    ):
        assert one.picture == other.picture
        assert (one.probability, one.score) == pytest.approx((other.probability, other.strength), abs=1e-6)


def test_a_library_is_read_once_by_all_threads_and_stays_what_it_was(home, tmp_path):
    shutil.copytree(home, tmp_path / "lib")
    opened = Illustrator(Database(tmp_path / "lib"))
    with ThreadPoolExecutor(4) as pool:
        boards = list(pool.map(lambda _: opened.board(STORY), range(4)))
        assert len(set(pool.map(lambda _: id(opened.index), range(4)))) == 1
    shutil.rmtree(tmp_path / "lib")
    assert [*boards, opened.board(STORY)] == boards[:1] * 5


def test_the_best_of_those_that_meet_the_conditions_are_found(opened):
    everything = opened.search(FOX, len(opened.library))
    last = Path(everything[-1].picture.path).parent
    inside = [one for one in everything if Path(one.picture.path).parent == last]
    found = opened.search(FOX, 3, only=Only(folder=str(last)))
    assert ids(found) == ids(inside)[:3] != ids(everything)[:3]
    assert (found.searched, found.notes()) == (len(inside), [])
    like = opened.like(inside[0].picture.id, 100, only=Only(folder=str(last)))
    assert (set(ids(like)), like.searched) == (set(ids(inside)[1:]), len(inside) - 1)
    nothing = opened.search(FOX, 3, only=Only(folder="/nowhere"))
    assert (nothing, nothing.searched) == ([], 0)
    assert "no picture meets the conditions" in nothing.notes()[0]


def test_unwanted_words_are_subtracted_and_wanted_ones_count_as_much_as_the_picture(opened):
    count = len(opened.library)
    fox, rabbit = (scores(opened.search(text, count)) for text in (FOX, RABBIT))
    found = opened.search(FOX, count, without=[RABBIT])
    assert scores(found) == pytest.approx({one: fox[one] - rabbit[one] for one in fox}, abs=1e-5)
    for values in (scores(found).values(), [one.probability for one in found]):
        assert list(values) == sorted(values, reverse=True)
    z = [{one.picture.id: one.channels["captions"] for one in opened.search(t, count)} for t in (FOX, RABBIT)]
    first = max(rabbit, key=rabbit.__getitem__)
    like = opened.like(first, count)
    ways = len(like[0].channels)
    due = {one: score + ways * (z[0][one] - z[1][one]) for one, score in scores(like).items()}
    assert scores(opened.like(first, count, added=[FOX], without=[RABBIT])) == pytest.approx(due, abs=1e-3)


def test_a_picture_from_elsewhere_is_compared_and_not_added(opened, monkeypatch):
    picture, before = opened.search(FOX, 1)[0].picture, len(opened.library)
    assert opened.look_at(Path(picture.path).read_bytes(), "same.png") == picture.id
    copy = io.BytesIO()
    Image.open(picture.path).save(copy, "BMP")
    assert ids(opened.like(opened.look_at(copy.getvalue(), "copy.bmp", ".bmp"), 1)) == [picture.id]
    assert len(Database(opened.library.folder)) == before
    made = opened.library.settings
    other = {"colour": made.spaces["colour"].model_copy(update={"fingerprint": "0" * 64})}
    changed = made.model_copy(update={"spaces": made.spaces | other})
    monkeypatch.setattr(Database, "settings", changed)
    with pytest.raises(CheckpointError, match="another version of colour; index again"):
        image_encoders_of(opened.library)
    with pytest.raises(DataError, match=r"notes\.txt: cannot be read as a picture"):
        opened.look_at(b"no picture", "notes.txt", ".txt")


def test_a_cut_off_leaves_out_and_says_how_many(opened, monkeypatch):
    every = opened.search(FOX, 6)
    found, none = (opened.search(FOX, 6, min_probability=cut) for cut in (every[2].probability, 1))
    assert (ids(found), found.below) == (ids(every)[:3], 3)
    assert found.notes() == ["left out 3 pictures with a probability below --min-probability"]
    assert (none, none.notes()[0].count("nothing similar found: left out 6 pictures")) == ([], 1)
    monkeypatch.setattr(Illustrator, "calibrated", False)
    with pytest.raises(ConfigError, match="gives no probabilities"):
        opened.search(FOX, 3, min_probability=0.5)


NEGATIONS = """no dog > "dog"
A beach with no people on it > "people"
a street without any cars, at night > "cars"
not a cat > "cat"
nobody on the beach > "people"
the dog isn't in the water > "water"
a room with no 12" ruler > --without"""


def test_a_negation_is_told_to_use_without():
    for text, end in (line.split(" > ") for line in NEGATIONS.splitlines()):
        assert negation_note(text, "en").endswith(end)
        assert negation_note(text, "de") is None
    for text in ("a dog", "a note on the wall", "knots in a rope", "snow in november", ""):
        assert negation_note(text, "en") is None


def test_signs_and_unknown_letters_find_nothing_and_say_so(opened):
    signs, script = "no letters or digits", "a script that no installed encoder knows"
    for text, words in {"🐶": signs, "?!…": signs, "ᏣᎳᎩ": script, "𝔡𝔬𝔤": script}.items():
        assert opened.search(text, 3) == []
        assert words in opened.query_note(text)
        with pytest.raises(DataError, match=f"--without '.+{words}"):
            opened.search(FOX, 3, without=[text])
    assert not any(unreadable(text, opened.channels) for text in ("🐶 dog", "12", "犬", "собака", "ｄｏｇ"))
    anything = [Channel("any", opened.channels[0].encoder, "captions", COSINE)]
    assert [unreadable(text, anything) is None for text in ("ᏣᎳᎩ", "🐶")] == [True, False]


OWN, ALL = ["given", "blank", "given", "decoded"], {"show": "always"}
SHOWN = (
    "A fox looks out.\n\n![](own.png)\n![](second.png)\n\nA boat sails.\n\n![](gone.jpg)\n\n"
    "Snow falls.\n\n![](no.jpg)\n![](own.png)\n\nThe rabbit bakes a cake.\n"
)


@pytest.fixture
def board(home, tmp_path):
    """Illustrate a text beside some pictures of its own."""
    for name, colour in {"own": "teal", "second": "red"}.items():
        Image.new("RGB", (40, 30), colour).save(tmp_path / f"{name}.png")
    (tmp_path / "no.jpg").write_text("no picture")

    def illustrated(text=SHOWN, **options):
        (tmp_path / "a.md").write_text(text)
        return limner.Library(home).illustrate(tmp_path / "a.md", **options)

    return illustrated


def origins(made):
    return [step.origin for step in made.steps]


def test_own_pictures_stay_all_of_them_and_missing_ones_are_named(tmp_path, board):
    made = board(**ALL)
    assert origins(made) == OWN
    assert [made.steps[step].picture.path for step in (0, 2)] == [str(tmp_path / "own.png")] * 2
    assert [picture.target for picture in made.story.steps[0].pictures] == ["own.png", "second.png"]
    assert made.blanks() == {"missing": 1}
    assert "gone.jpg, which is not there" in made.steps[1].reason
    gone, broken = (line for line in made.notes if line.startswith("step "))
    assert gone == "step 2 shows gone.jpg, which is not there"
    assert broken.startswith("step 3 shows no.jpg, which is no picture: ")


def test_the_user_may_ask_for_others_and_an_earlier_storyboard_may_not(tmp_path, board):
    other = board(keep_given=False, **ALL)
    assert set(origins(other)) == {"decoded"}
    pinned = board(pins={2: other.steps[0].picture.id, 1: None}, **ALL)
    assert origins(pinned) == ["blank", "pinned", "given", "decoded"]
    again = board(keep=other, **ALL)
    assert (origins(again), again.kept) == (OWN, 1)
    Image.new("RGB", (40, 30), "blue").save(tmp_path / "gone.jpg")
    assert board(keep=again, **ALL).steps[1].picture.path == str(tmp_path / "gone.jpg")


def test_pictures_of_the_library_and_pictures_inside_the_text_are_known(opened, board):
    drawn = opened.search(FOX, 1)[0].picture
    file = io.BytesIO()
    Image.new("RGB", (30, 20), "orange").save(file, "PNG")
    inside = f"data:image/png;base64,{b64encode(file.getvalue()).decode()}"
    made = board(f"A fox looks out.\n\n![]({drawn.path})\n\nA boat sails.\n\n![an orange]({inside})\n")
    assert origins(made) == ["given", "given"]
    assert made.steps[0].picture.id == drawn.id
    assert (made.steps[1].picture.alt, made.steps[1].picture.width_px) == ("an orange", 30)
    assert made.story.steps[1].pictures[0].data == file.getvalue()


def test_no_other_step_repeats_a_picture_that_the_text_shows(tmp_path):
    for name in ("red", "blue"):
        Image.new("RGB", (240, 200), name).save(tmp_path / f"{name}.png")
    text = tmp_path / "text.md"
    text.write_text("1. First red.\n\n   ![](red.png)\n   ![](blue.png)\n\n2. Then it is another colour.\n")
    library = limner.Library(tmp_path / "library")
    library.add(tmp_path, progress=Progress())
    assert origins(library.illustrate(text, **ALL)) == ["given", "blank"]
    assert origins(library.illustrate(text, allow_repeats=True, **ALL)) == ["given", "decoded"]
