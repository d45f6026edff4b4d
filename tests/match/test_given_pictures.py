"""A step that shows pictures of its own gets no other, found or not, unless the user asks for one."""

import io
from base64 import b64encode
from pathlib import Path

import pytest
from PIL import Image

import limner
from limner.match.given_pictures import match_given_pictures
from limner.progress import Progress
from limner.research.worlds import PictureBook
from limner.research.worlds.book_files import write


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A folder with a library of drawings, and texts with pictures of their own."""
    folder = tmp_path_factory.mktemp("given")
    write(folder / "drawn", PictureBook(5).stories(1, pages=(6, 6)), size_px=64, captions="metadata")
    limner.Library(folder / "lib").add(folder / "drawn", encoders="colour", progress=Progress())
    for name in ("own.png", "second.png"):
        Image.new("RGB", (40, 30), "teal" if name == "own.png" else "red").save(folder / name)
    (folder / "no.jpg").write_text("no picture")
    return folder


def board(home, text, **options):
    (home / "a.md").write_text(text)
    return limner.Library(home / "lib").illustrate(home / "a.md", **options)


TEXT = """A fox looks out.

![](own.png)
![](second.png)

A boat sails.

![](gone.jpg)

Snow falls.

![](no.jpg)
![](own.png)

The rabbit bakes a cake.
"""


def test_own_pictures_stay_all_of_them_and_missing_ones_are_named(home):
    made = board(home, TEXT, show="always")
    assert [step.origin for step in made.steps] == ["given", "blank", "given", "decoded"]
    assert made.steps[0].picture.path == str(home / "own.png")
    assert [picture.target for picture in made.story.steps[0].pictures] == ["own.png", "second.png"]
    assert made.steps[2].picture.path == str(home / "own.png")
    assert made.steps[1].blank == "missing"
    assert made.steps[1].reason == "The text itself shows a picture here, gone.jpg, which is not there."
    assert made.blanks() == {"missing": 1}
    named = [line for line in made.notes if line.startswith("step ")]
    assert named[0] == "step 2 shows gone.jpg, which is not there"
    assert named[1].startswith("step 3 shows no.jpg, which is no picture: ")
    assert len(named) == 2
    problems = {p.target: p.problem for block in made.story.blocks for p in block.pictures}
    assert problems["gone.jpg"] == "is not there"
    assert problems["no.jpg"].startswith("is no picture")


def test_other_pictures_are_chosen_if_the_user_asks(home):
    made = board(home, TEXT, show="always", keep_given=False)
    assert {step.origin for step in made.steps} == {"decoded"}
    pinned = board(home, TEXT, show="always", pins={2: made.steps[0].picture.id, 1: None})
    assert [step.origin for step in pinned.steps] == ["blank", "pinned", "given", "decoded"]


def test_an_earlier_storyboard_puts_no_other_picture_in_their_place(home):
    earlier = board(home, TEXT, show="always", keep_given=False)
    again = board(home, TEXT, show="always", keep=earlier)
    assert [step.origin for step in again.steps] == ["given", "blank", "given", "decoded"]
    assert again.kept == 1
    Image.new("RGB", (40, 30), "blue").save(home / "gone.jpg")
    assert board(home, TEXT, show="always", keep=again).steps[1].picture.path == str(home / "gone.jpg")
    (home / "gone.jpg").unlink()


def test_pictures_of_the_library_and_pictures_inside_the_text_are_known(home):
    drawn = sorted(path for path in Path(home / "drawn").rglob("*") if path.suffix in (".png", ".jpg"))[0]
    file = io.BytesIO()
    Image.new("RGB", (30, 20), "orange").save(file, "PNG")
    inside = f"data:image/png;base64,{b64encode(file.getvalue()).decode()}"
    text = f"A fox looks out.\n\n![]({drawn})\n\nA boat sails.\n\n![an orange]({inside})\n"
    library = limner.Library(home / "lib")
    shown = match_given_pictures(limner.read(text, format="markdown"), library.store)
    assert (list(shown.inside), list(shown.outside), shown.missing) == ([], [1], {0: shown.missing[0]})
    (home / "b.md").write_text(text)
    made = library.illustrate(home / "b.md")
    assert [step.origin for step in made.steps] == ["given", "given"]
    assert made.steps[0].picture.id in {hit.picture.id for hit in library.search("a fox", k=50)}
    assert made.steps[1].picture.alt == "an orange"
    assert (made.steps[1].picture.width_px, made.story.steps[1].pictures[0].data) == (30, file.getvalue())


def test_no_other_step_repeats_a_picture_that_the_text_shows(tmp_path):
    for name, colour in (("a", "red"), ("b", "blue")):
        Image.new("RGB", (240, 200), colour).save(tmp_path / f"{name}.png")
    text = tmp_path / "text.md"
    text.write_text("1. First it is red.\n\n   ![](a.png)\n   ![](b.png)\n\n2. Then it is another colour.\n")
    library = limner.Library(tmp_path / "library")
    library.add(tmp_path, progress=Progress())
    board = library.illustrate(text, show="always")
    assert [step.origin for step in board.steps] == ["given", "blank"]
    assert library.illustrate(text, show="always", allow_repeats=True).steps[1].origin == "decoded"
