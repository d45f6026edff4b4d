"""`import limner` as a person uses it: fill, search, illustrate, save; one line for whatever is wrong."""

import json
import sys
import types
from pathlib import Path

import pytest
from PIL import Image

import limner
from limner.errors import MissingError
from limner.library import as_path
from limner.research.worlds import PictureBook
from limner.research.worlds.book_files import write
from limner.store.database import Database

WORDS = ["A fox looks out.", "The rabbit bakes a cake.", "Snow falls.", "A boat sails."]


def drawn(folder, seed):
    """Pictures of one story with captions; how many."""
    write(folder, PictureBook(seed).stories(1, pages=(6, 6)), size_px=64, captions="metadata")
    return len(list(folder.rglob("*.png"))) + len(list(folder.rglob("*.jpg")))


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A folder with drawings and a library of them."""
    folder = tmp_path_factory.mktemp("door")
    count = drawn(folder / "drawn", 5)
    report = limner.Library(folder / "lib").add(folder / "drawn", encoders="colour")
    assert report.new == report.pictures == count
    return folder


@pytest.fixture
def lib(home, monkeypatch):
    monkeypatch.chdir(home)
    return limner.Library("lib")


def pictures(lib):
    return [hit.picture for hit in lib.search("a picture", k=len(lib))]


@pytest.mark.slow
def test_adding_reports_what_is_new_changed_and_skipped(home, tmp_path):
    folder = tmp_path / "more"
    count = drawn(folder, 6)
    (folder / "broken.png").write_bytes(b"no picture")
    lib = limner.Library(tmp_path / "lib")
    assert len(lib) == 0
    first = lib.add(folder, encoders="colour")
    assert (first.new, first.changed, first.unusable, first.found) == (count, 0, 1, count + 1)
    assert [Path(one.path).name for one in first.skipped] == ["broken.png"]
    assert "skipped: " in str(first)
    assert first.skipped[0].reason in first._repr_html_()
    again = lib.add(encoders="colour")
    assert (again.new, again.unchanged, len(lib)) == (0, count, count)
    assert repr(lib) == f"Library({str(tmp_path / 'lib')!r}): {count} pictures"


def test_search_by_words_and_by_picture(lib):
    hits = lib.search("somebody sleeps in a bed", k=3)
    assert len(hits) == 3
    assert hits[0].strength >= hits[1].strength >= hits[2].strength
    assert hits[0].why.startswith("captions ")
    assert 1 >= hits[0].probability >= hits[1].probability >= hits[2].probability > 0
    picture = hits[0].picture
    for query in (picture, Path(picture.path)):
        like = lib.search(query, k=2)
        assert len(like) == 2
        assert picture.id not in {hit.picture.id for hit in like}
    assert hits._repr_html_().count("<img") == 3


def test_search_takes_conditions_and_files_from_elsewhere(lib, home, tmp_path):
    best = lib.search("somebody sleeps in a bed", k=1)[0].picture
    with Image.open(best.path) as image:
        image.convert("RGB").save(tmp_path / "holiday.bmp")
    count = len(lib)
    found = lib.search(tmp_path / "holiday.bmp", k=2, added="a boat", without=["snow"])
    assert (len(found), found.searched, len(limner.Library("lib"))) == (2, count, count)
    assert lib.search(tmp_path / "holiday.bmp", k=1)[0].picture == best
    assert lib.search(Path(best.path), k=count, folder=Path(best.path).parent)[0].picture != best
    none = lib.search("a bed", folder=tmp_path, after="2024-01-01", orientation="portrait")
    assert (none, none.searched) == ([], 0)
    assert "no picture of the library is in" in none.notes[-1]
    assert lib.search("no bed", k=1).notes[-1].endswith('--without "bed"')
    assert lib.search("a bed", k=count, folder="drawn").searched == count


def test_a_path_a_text_steps_and_a_story_give_the_same_storyboard(lib, home):
    text = "\n\n".join(WORDS)
    (home / "tale.txt").write_text(text)
    boards = [
        lib.illustrate(given)
        for given in (
            "tale.txt",
            home / "tale.txt",
            text,
            WORDS,
            [limner.Step(text=words) for words in WORDS],
            limner.Story(id="tale", steps=tuple(limner.Step(text=words) for words in WORDS)),
        )
    ]
    assert all(board.steps == boards[0].steps for board in boards)
    assert [step.text for step in boards[0].story.steps] == WORDS


def test_pins_count_from_one_and_are_found_as_the_command_finds_them(lib):
    one, other = pictures(lib)[:2]
    board = lib.illustrate(WORDS, pins={1: Path(one.path).name, 2: other, 3: None}, bans=pictures(lib)[2])
    assert board.steps[0].picture.path == one.path
    assert [step.origin for step in board.steps[:2]] == ["pinned", "pinned"]
    assert board.steps[1].picture == other
    assert board.steps[2].picture is None
    assert pictures(lib)[2].id not in {step.picture.id for step in board.steps if step.picture}


def test_it_is_the_storyboard_of_the_command(lib, home, tmp_path, capsys):
    from limner.cli.main import run

    (home / "tale.md").write_text("# A tale\n\n" + "\n\n".join(WORDS))
    pinned = pictures(lib)[0]
    board = lib.illustrate("tale.md", pins={2: pinned}, show="always")
    words = ["illustrate", "tale.md", "--library", "lib", "-o", str(tmp_path / "tale.json")]
    assert run([*words, "--pin", f"2={pinned.path}", "--show", "always"]) == 0
    assert limner.Storyboard.load(tmp_path / "tale.json") == board.model_copy(update={"notes": ()})
    assert set(board.notes) <= set(capsys.readouterr().err.splitlines())


def test_a_storyboard_is_shown_and_saved(lib, tmp_path):
    board = lib.illustrate(["A boat <sails>.", *WORDS[:2]], pins={3: None})
    shown = board._repr_html_()
    assert shown.count("<img") == sum(step.picture is not None for step in board.steps)
    assert "A boat &lt;sails&gt;." in shown
    assert str(board).splitlines()[-1].startswith("3 steps: ")
    for suffix in ("html", "md", "pptx", "pdf", "json"):
        written = board.save(tmp_path / f"tale.{suffix}")
        assert written.path.stat().st_size > 0
    with pytest.raises(limner.LimnerError, match="exists"):
        board.save(tmp_path / "tale.html")
    board.save(tmp_path / "tale.html", overwrite=True)
    assert "notes" not in json.loads((tmp_path / "tale.json").read_text())


def test_a_picture_that_is_gone_is_named_where_a_notebook_shows_the_board(lib):
    board = lib.illustrate(WORDS[:1], min_probability=0)
    gone = board.steps[0].picture.model_copy(update={"paths": ("/nowhere/gone.png",)})
    chosen = board.steps[0].chosen.model_copy(update={"picture": gone})
    without = board.model_copy(update={"steps": (board.steps[0].model_copy(update={"chosen": chosen}),)})
    assert "/nowhere/gone.png does not exist" in without._repr_html_()


@pytest.mark.slow
def test_a_second_text_reads_nothing_again_and_a_change_is_seen(tmp_path, monkeypatch):
    count = drawn(tmp_path / "drawn", 7)
    lib = limner.Library(tmp_path / "lib")
    lib.add(tmp_path / "drawn", encoders="colour")
    first = lib.illustrate(WORDS)
    with monkeypatch.context() as broken:
        broken.setattr(Database, "index", None)
        assert lib.illustrate(WORDS) == first
    count += drawn(tmp_path / "more", 8)
    limner.Library(tmp_path / "lib").add(tmp_path / "more", encoders="colour")
    assert len(lib.search("a picture", k=100)) == count


@pytest.mark.slow
def test_pictures_are_added_by_the_encoders_that_the_library_was_made_with(tmp_path):
    """As the studio does; `limner index` takes the usual ones unless told otherwise."""
    drawn(tmp_path / "drawn", 3)
    lib = limner.Library(tmp_path / "lib")
    lib.add(tmp_path / "drawn", encoders="colour", captions=False)
    drawn(tmp_path / "more", 4)
    lib.add(tmp_path / "more", encoders=None)
    assert lib.summary().vectors == {"colour": len(lib)}


def test_a_folder_may_be_named_from_elsewhere(lib, home, monkeypatch):
    (home / "drawn" / "deep").mkdir(exist_ok=True)
    monkeypatch.chdir(home / "drawn" / "deep")
    found = lib.search("a picture", k=100, folder="../../drawn")
    assert found.searched == len(lib)


def test_a_library_that_is_made_with_its_first_pictures_leaves_no_trace_without_them(tmp_path):
    lib = limner.Library(tmp_path / "lib", make=False)
    with pytest.raises(MissingError, match="no such folder"):
        lib.add(tmp_path / "nowhere", encoders="colour")
    assert not (tmp_path / "lib").exists()
    assert len(lib) == 0
    assert (tmp_path / "lib").is_dir()


def test_who_names_no_library_fills_the_default_one_and_asks_the_one_used_last(tmp_path, monkeypatch):
    monkeypatch.delenv("LIMNER_LIBRARY", raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    with pytest.raises(MissingError, match="no picture library yet"):
        limner.Library.open()
    default = limner.Library()
    assert limner.Library.open().place == default.place
    limner.Library(tmp_path / "other").mark_as_last_used()
    notes = []
    assert limner.Library.open(note=notes.append).place == str(tmp_path / "other")
    assert notes == [f"library: {tmp_path / 'other'}, the one used last"]
    assert limner.Library().place == default.place


@pytest.mark.slow
def test_what_was_opened_goes_on_with_what_it_read(tmp_path):
    """The studio answers requests from it while pictures are added."""
    count = drawn(tmp_path / "drawn", 3)
    lib = limner.Library(tmp_path / "lib")
    lib.add(tmp_path / "drawn", encoders="colour")
    before = lib.illustrator()
    assert before.index.pictures == count
    drawn(tmp_path / "more", 4)
    limner.Library(tmp_path / "lib").add(tmp_path / "more", encoders="colour")
    assert lib.illustrator() is not before
    assert before.index.pictures == count < lib.illustrator().index.pictures


WRONG = {
    "illustrate: a number": (
        lambda lib: lib.illustrate(5),
        "expected a path, a text, a list of steps or a Story",
    ),
    "illustrate: a board": (lambda lib: lib.illustrate(lib.illustrate(WORDS)), "of type Storyboard"),
    "illustrate: numbers": (lambda lib: lib.illustrate([5, None]), "step 1: found int, expected words"),
    "illustrate: sets": (lambda lib: lib.illustrate([{1}]), "expected steps that are strings, or Steps"),
    "illustrate: no step": (lambda lib: lib.illustrate([]), "a list without steps"),
    "illustrate: no words": (lambda lib: lib.illustrate(" "), "is empty"),
    "illustrate: no file": (lambda lib: lib.illustrate("no.md"), r"no\.md: No such file"),
    "illustrate: no such document": (lambda lib: lib.illustrate("tale.docx"), r"tale.docx: No such file"),
    "by": (lambda lib: lib.illustrate(WORDS, by="word"), "unknown segmentation 'word'"),
    "pins: no such step": (
        lambda lib: lib.illustrate(["a"], pins={3: None}),
        r"step 3: no such step; the text has 1 step$",
    ),
    "pins: step 0": (lambda lib: lib.illustrate(WORDS, pins={0: None}), "steps count from 1"),
    "pins: a word": (lambda lib: lib.illustrate(WORDS, pins={"x": None}), "expected the number of a step"),
    "pins: words": (lambda lib: lib.illustrate(WORDS, pins="3=cake.jpg"), "expected a dict of steps"),
    "pins: no picture": (lambda lib: lib.illustrate(WORDS, pins={3: "cake.jpg"}), r"no picture 'cake\.jpg'"),
    "pins: a number": (lambda lib: lib.illustrate(WORDS, pins={3: 5}), "expected a path"),
    "bans: no picture": (lambda lib: lib.illustrate(WORDS, bans="cake.jpg"), r"no picture 'cake\.jpg'"),
    "options": (lambda lib: lib.illustrate(WORDS, options={"shwo": 1}), "did you mean 'show'"),
    "show": (lambda lib: lib.illustrate(WORDS, show="magic"), "setting 'show'"),
    "channels": (lambda lib: lib.illustrate(WORDS, channels="captons"), "did you mean 'captions'"),
    "model": (lambda lib: lib.illustrate(WORDS, model="nowhere"), "nowhere"),
    "model: a number": (lambda lib: lib.illustrate(WORDS, model=3), "model: 3 is of type int"),
    "save: a suffix": (lambda lib: lib.illustrate(WORDS).save("a.odt"), "unknown output format '.odt'"),
    "save: a number": (lambda lib: lib.illustrate(WORDS).save(3), "save: 3 is of type int"),
    "load": (lambda lib: limner.Storyboard.load("no.json"), r"no\.json: does not exist"),
    "search: a number": (lambda lib: lib.search(3), "expected words, a Picture"),
    "search: nothing": (lambda lib: lib.search(" "), "no words"),
    "search: k": (lambda lib: lib.search("x", k=0), "k is 0"),
    "search: no picture": (lambda lib: lib.search(Path("no.jpg")), r"no picture 'no\.jpg'"),
    "search: no picture inside": (lambda lib: lib.search(Path("tale.txt")), r"tale\.txt: cannot be read as"),
    "search: added": (lambda lib: lib.search("x", added="y"), "--with adds words to a picture"),
    "search: a day": (lambda lib: lib.search("x", after="May"), "after is 'May'; expected a day"),
    "search: a shape": (lambda lib: lib.search("x", orientation="wide"), "orientation 'wide'"),
    "search: chance": (
        lambda lib: lib.search(lib.search("x", k=1)[0].picture, min_probability=0.5),
        "--min-probability needs words",
    ),
    "add: a number": (lambda lib: lib.add(3), "add: 3 is of type int"),
    "add: no folder": (lambda lib: lib.add("nowhere"), "nowhere: no such folder"),
    "add: an encoder": (lambda lib: lib.add("drawn", encoders="resnt50"), "did you mean 'resnet50'"),
    "Library: a number": (lambda lib: limner.Library(3), "Library: 3 is of type int"),
    "Library: pictures": (lambda lib: limner.Library("drawn"), "not a library but a folder"),
    "Library: a file": (
        lambda lib: limner.Library(Path(lib.place) / "library.sqlite"),
        "a file, expected the folder",
    ),
    "Library: open": (lambda lib: limner.Library.open("nowhere"), "no picture library here"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_one_clear_line(lib, case):
    act, words = WRONG[case]
    (Path(lib.place).parent / "tale.txt").write_text("no picture")
    with pytest.raises(limner.LimnerError, match=words) as caught:
        act(lib)
    assert len(str(caught.value).splitlines()) == 1
    assert not Path("drawn/tables").exists()
    assert not Path("nowhere").exists()


@pytest.mark.slow
def test_a_notebook_shows_how_far_adding_is(home, tmp_path, monkeypatch):
    shown = []
    display = types.ModuleType("IPython.display")
    handle = types.SimpleNamespace(update=shown.append)
    vars(display).update(HTML=str, display=lambda *_, **__: handle)
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)
    report = limner.Library(tmp_path / "lib").add(home / "drawn", encoders="colour")
    assert f"pictures <progress value={report.found} max={report.found}></progress>" in shown[-1]
    assert "captions <progress" in shown[-1]


@pytest.mark.slow
def test_data_sets_and_tables_are_at_the_door(tmp_path):
    data = limner.load_dataset("picturebook")
    assert data.pairs
    made = limner.tables.build("cmcm-5")
    assert made.empty == 288
    assert "| CMCM |" in made.markdown() == str(made)
    assert r"\toprule" in made.latex()
    assert made.html() == made._repr_html_()
    for wrong, words in (
        (lambda: limner.load_dataset("vst"), "did you mean 'vist'"),
        (lambda: limner.load_dataset(5), "unknown data set 5"),
        (lambda: limner.load_dataset("vist", tmp_path / "none"), "none"),
        (lambda: limner.tables.build("cmcm-9"), "unknown table 'cmcm-9'"),
        (lambda: limner.tables.build(5), "unknown table 5"),
        (lambda: limner.tables.build("cmcm-5", runs=5), "expected a path"),
        (lambda: limner.tables.build("cmcm-5", runs=tmp_path / "none"), "not a folder"),
    ):
        with pytest.raises(limner.LimnerError, match=words):
            wrong()


CONFIG = Path(__file__).parents[1] / "configs" / "cmcm" / "cmcm.toml"
SMALL = {"data.vectors": "random", "data.picture_px": 32, "loop.lr": 2e-4}


@pytest.fixture(scope="module")
def run(home):
    return limner.train(CONFIG, data="picturebook", to=home / "runs" / "cmcm", overrides=SMALL, smoke=True)


@pytest.mark.slow
def test_a_run_is_trained_measured_and_asked(run, home, tmp_path, capsys):
    assert run.config.loop.lr == 2e-4
    measured = run.evaluate("test")
    assert 0 < measured.recall(10) <= 1
    measured.write(run.folder)
    table = limner.tables.build("cmcm-5", runs=home / "runs", data="picturebook", resamples=50)
    assert 0 < table.empty < 72
    lib = limner.Library(tmp_path / "lib")
    lib.add(home / "drawn", encoders="colour")
    with pytest.raises(limner.LimnerError, match="no vectors of a trained run"):
        lib.illustrate(WORDS, model=run)
    assert lib.add(model=run, encoders="colour").new == 0
    board = lib.illustrate(WORDS, model=run)
    assert board.channels == ("model",)
    assert lib.illustrate(WORDS, model=home / "runs" / "cmcm") == board
    assert limner.Run.open(str(run.folder)).fingerprint == run.fingerprint
    assert capsys.readouterr().out == ""


def test_what_is_wrong_with_a_run_is_one_clear_line(run, lib, tmp_path):
    for wrong, words in (
        (lambda: limner.train(5, to=tmp_path), "train: 5 is of type int; expected a path"),
        (lambda: limner.train("no.toml", to=tmp_path), r"no\.toml: cannot be read"),
        (lambda: limner.train(CONFIG, to=3), "to: 3 is of type int"),
        (lambda: limner.train(CONFIG, to=tmp_path, overrides=5), "expected a mapping such as"),
        (lambda: limner.train(CONFIG, to=tmp_path, data="clu"), "did you mean 'clue'"),
        (lambda: limner.train(CONFIG, to=tmp_path, data=5), "data: 5 is of type int"),
        (lambda: limner.train(CONFIG, to=tmp_path), "names no data set"),
        (lambda: limner.train(CONFIG, to=tmp_path, overrides={"los.lrr": 1}, data="clue"), "'los.lrr'|'los'"),
        (lambda: run.evaluate("tset"), "no pair of split 'tset'"),
        (lambda: run.evaluate("val").recall(0), "expected at least 1"),
        (lambda: lib.add(model=5), "expected a run, or the path of its folder"),
        (lambda: lib.illustrate(WORDS, model=lib), "expected a run, or the path of its folder"),
        (lambda: lib.illustrate(WORDS, metric=run), "give it with --model"),
        (lambda: limner.Run.open(tmp_path / "none"), "no such checkpoint"),
    ):
        with pytest.raises(limner.LimnerError, match=words):
            wrong()


def test_a_home_of_nobody_is_a_path_that_is_not_there():
    assert as_path("~nobody-of-that-name/lib", "Library") == Path("~nobody-of-that-name/lib")
    assert as_path("~", "Library") == Path.home()
