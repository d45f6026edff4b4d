"""Boards of texts that mark places for pictures, name files, or have a cover."""

import json
from pathlib import Path

import pytest

import limner
from limner.match.named_pictures import named_pictures
from limner.records import Step, Story
from limner.research.worlds import PictureBook
from limner.research.worlds.book_files import write

SHOW = {"show": "always"}


@pytest.fixture(scope="module")
def home(tmp_path_factory) -> Path:
    """A library of six drawings with captions; one file is called lake.jpg, one IMG_0412.jpg."""
    home = tmp_path_factory.mktemp("marked")
    write(home / "drawn", PictureBook(5).stories(1, pages=(6, 6)), size_px=64)
    (home / "pictures").mkdir()
    words = ["A fox.", "A boat.", "Snow on a hill.", "A red kite.", "A lamp.", "A cake with candles."]
    names = ["lake.jpg", "IMG_0412.jpg", "c.jpg", "d.jpg", "e.jpg", "f.jpg"]
    drawn = sorted(path for path in (home / "drawn").rglob("*") if path.suffix in (".png", ".jpg"))
    rows = []
    for path, name, caption in zip(drawn, names, words, strict=False):
        (home / "pictures" / name).write_bytes(path.read_bytes())
        rows.append(json.dumps({"file_name": name, "caption": caption}))
    (home / "pictures" / "metadata.jsonl").write_text("\n".join(rows), encoding="utf-8")
    limner.Library(home / "lib").add(home / "pictures", encoders="colour")
    return home


@pytest.fixture
def lib(home: Path) -> limner.Library:
    return limner.Library(home / "lib")


def text_at(folder: Path, text: str) -> Path:
    path = folder / "text.md"
    path.write_text(text, encoding="utf-8")
    return path


def names(board) -> list[str]:
    return ["-" if step.picture is None else Path(step.picture.path).name for step in board.steps]


def test_only_marked_places_get_pictures_by_their_words(lib, tmp_path: Path) -> None:
    text = text_at(tmp_path, "# Sunday\n\nWe rose late.\n\n[photo: a red kite]\n\nTea.\n\n![a lamp]()\n")
    board = lib.illustrate(text, **SHOW)
    assert names(board) == ["d.jpg", "e.jpg"]
    assert "2 places that the text marks (--also-steps for its steps too)" in board.notes[0]
    also = lib.illustrate(text, also_steps=True, **SHOW)
    assert len(also.steps) == 4
    assert sorted(also.story.places) == [1, 3]


def test_prose_with_few_pictures_still_fills_its_places(lib, tmp_path: Path) -> None:
    long = "The old house stood by the lake, and nobody had lived in it since the winter of the great flood. "
    text = text_at(tmp_path, f"{long * 3}\n\n[photo: a red kite]\n\n{long * 2}\n\n{long * 4}\n")
    board = lib.illustrate(text, by="paragraph", **SHOW)
    assert names(board)[1] == "d.jpg"
    assert names(board).count("-") == 2


def test_places_that_stay_blank_are_listed(lib, tmp_path: Path) -> None:
    text = text_at(tmp_path, "Tea.\n\n[photo: a lamp]\n\n[photo: frogs]\n\nMore tea.\n\n[photo]\n")
    board = lib.illustrate(text, pins={2: None, 3: None}, **SHOW)
    assert board.wanted == ("frogs", "More tea.")
    assert board.notes[-1] == '2 of 3 places stay blank: "frogs", "More tea."'


@pytest.mark.parametrize("told", ["[photo: IMG_0412]", "![img_0412.jpg]()", "[photo: lake.jpg]"])
def test_a_mark_may_name_a_file(lib, tmp_path: Path, told: str) -> None:
    board = lib.illustrate(text_at(tmp_path, f"A cake with candles.\n\n{told}\n"))
    name = "lake.jpg" if "lake" in told else "IMG_0412.jpg"
    assert names(board) == [name]
    step = board.steps[0]
    assert (step.origin, step.probability) == ("decoded", None)
    assert step.reason == f"The text names this picture: {name}."


def test_a_step_may_name_a_file_and_pins_and_bans_go_before(lib, tmp_path: Path) -> None:
    text = text_at(tmp_path, "1. Light the lamp (see lake.jpg).\n2. Eat the cake [IMG_0412].\n")
    assert names(lib.illustrate(text, **SHOW)) == ["lake.jpg", "IMG_0412.jpg"]
    other = lib.illustrate(text, pins={1: "e.jpg"}, bans=["IMG_0412.jpg"], **SHOW)
    assert names(other) == ["e.jpg", "f.jpg"]


def test_words_that_are_a_caption_select_its_picture_once(lib, tmp_path: Path) -> None:
    text = text_at(tmp_path, "Tea.\n\n[photo: A Red Kite]\n\nMore.\n\n![a red kite]()\n")
    board = lib.illustrate(text, **SHOW)
    assert names(board)[0] == "d.jpg" != names(board)[1]
    assert board.steps[0].reason == "The text names this picture: d.jpg."


def test_what_looks_like_a_file_and_is_none_names_nothing() -> None:
    files = [
        ("1", "salt.jpg"),
        ("2", "2.jpg"),
        ("3", "fig-3.png"),
        ("4", "x1.jpg"),
        ("5", "x1.jpg"),
    ]
    texts = [
        "Add salt (salt) and (2).",
        "Fold it (fig. 3).",
        "See figure 3 there.",
        "Open [X1].",
        "Cut (see salt).",
    ]
    story = Story(id="s", steps=tuple(Step(text=text) for text in texts))
    named = named_pictures(story, files)
    assert named == {1: "3", 2: "3", 4: "1"}


def test_a_kept_storyboard_of_places_chooses_for_no_other_step(lib, tmp_path: Path) -> None:
    text = text_at(tmp_path, "A fox.\n\n[photo: a lamp]\n\nSnow.\n\n[photo: a boat]\n")
    first = lib.illustrate(text, pins={2: None}, **SHOW)
    filled = first.save(tmp_path / "filled.md").path
    second = lib.illustrate(filled, keep=first, **SHOW)
    assert [second.story.steps[place].text for place in sorted(second.story.places)] == ["a boat"]
    whole = lib.illustrate(text, **SHOW)
    done = whole.save(tmp_path / "done.md").path
    third = lib.illustrate(done, keep=whole, **SHOW)
    assert not third.story.places
    assert [step.origin for step in third.steps] == ["given", "given"]
    prose = text_at(tmp_path, done.read_text(encoding="utf-8") + "\nA red kite.\n")
    fourth = lib.illustrate(prose, keep=whole, **SHOW)
    assert [step.origin for step in fourth.steps] == ["given", "given", "blank"]


def test_a_photograph_beyond_the_steps_that_fits_the_title_is_the_cover(home, tmp_path: Path) -> None:
    folder = tmp_path / "cake"
    folder.mkdir()
    captions = ["A cake with candles.", "A fox.", "A boat.", "Snow on a hill."]
    shown = [5, 0, 1, 2]
    drawn = sorted(path for path in (home / "drawn").rglob("*") if path.suffix in (".png", ".jpg"))
    rows = []
    for place, (number, caption) in enumerate(zip(shown, captions, strict=True), 1):
        (folder / f"{place}.jpg").write_bytes(drawn[number].read_bytes())
        rows.append(json.dumps({"file_name": f"{place}.jpg", "caption": caption}))
    (folder / "metadata.jsonl").write_text("\n".join(rows), encoding="utf-8")
    lib = limner.Library(tmp_path / "lib")
    lib.add(folder, encoders="colour")
    text = text_at(
        tmp_path, "# A cake with candles\n\n1. The fox comes.\n2. A boat sails.\n3. Snow falls on the hill.\n"
    )
    asked = {"pictures": [folder], **SHOW}
    board = lib.illustrate(text, **asked)
    assert names(board) == ["2.jpg", "3.jpg", "4.jpg"]
    assert Path(board.cover.path).name == "1.jpg"
    assert "cover: 1.jpg, which no step shows (--cover none leaves it out)" in board.notes
    assert lib.illustrate(text, cover="none", **asked).cover is None
    other = lib.illustrate(text, cover="3.jpg", **asked)
    assert Path(other.cover.path).name == "3.jpg"
    assert names(other) == names(board)
    assert Path(lib.illustrate(text, keep=other, **SHOW).cover.path).name == "3.jpg"
    marked = text_at(tmp_path, "# A cake with candles\n\n![the cake]()\n\n1. A fox.\n\n![a boat]()\n")
    assert lib.illustrate(marked, **asked).cover is None
