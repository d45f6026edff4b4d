"""A step that shows pictures of its own gets no other, found or not, unless the user asks for one."""

import io
from base64 import b64encode

import pytest
from PIL import Image

import limner
from limner.progress import Progress
from limner.research.worlds import PictureBook
from limner.research.worlds.book_files import write

OWN, ALL = ["given", "blank", "given", "decoded"], {"show": "always"}
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


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A folder with a library of drawings, and pictures that a text may show."""
    folder = tmp_path_factory.mktemp("given")
    write(folder / "drawn", PictureBook(5).stories(1, pages=(6, 6)), size_px=64, captions="metadata")
    limner.Library(folder / "lib").add(folder / "drawn", encoders="colour", progress=Progress())
    for name, colour in {"own": "teal", "second": "red"}.items():
        Image.new("RGB", (40, 30), colour).save(folder / f"{name}.png")
    (folder / "no.jpg").write_text("no picture")
    return folder


@pytest.fixture
def board(home):
    def illustrated(text=TEXT, **options):
        (home / "a.md").write_text(text)
        return limner.Library(home / "lib").illustrate(home / "a.md", **options)

    return illustrated


def origins(made):
    return [step.origin for step in made.steps]


def test_own_pictures_stay_all_of_them_and_missing_ones_are_named(home, board):
    made = board(**ALL)
    assert origins(made) == OWN
    assert [made.steps[step].picture.path for step in (0, 2)] == [str(home / "own.png")] * 2
    assert [picture.target for picture in made.story.steps[0].pictures] == ["own.png", "second.png"]
    assert made.blanks() == {"missing": 1}
    assert "gone.jpg, which is not there" in made.steps[1].reason
    gone, broken = (line for line in made.notes if line.startswith("step "))
    assert gone == "step 2 shows gone.jpg, which is not there"
    assert broken.startswith("step 3 shows no.jpg, which is no picture: ")


def test_the_user_may_ask_for_others_and_an_earlier_storyboard_may_not(home, board):
    other = board(keep_given=False, **ALL)
    assert set(origins(other)) == {"decoded"}
    pinned = board(pins={2: other.steps[0].picture.id, 1: None}, **ALL)
    assert origins(pinned) == ["blank", "pinned", "given", "decoded"]
    again = board(keep=other, **ALL)
    assert (origins(again), again.kept) == (OWN, 1)
    Image.new("RGB", (40, 30), "blue").save(home / "gone.jpg")
    assert board(keep=again, **ALL).steps[1].picture.path == str(home / "gone.jpg")
    (home / "gone.jpg").unlink()


def test_pictures_of_the_library_and_pictures_inside_the_text_are_known(home, board):
    drawn = next(iter((home / "drawn").rglob("*.png")), None) or next((home / "drawn").rglob("*.jpg"))
    file = io.BytesIO()
    Image.new("RGB", (30, 20), "orange").save(file, "PNG")
    inside = f"data:image/png;base64,{b64encode(file.getvalue()).decode()}"
    made = board(f"A fox looks out.\n\n![]({drawn})\n\nA boat sails.\n\n![an orange]({inside})\n")
    assert origins(made) == ["given", "given"]
    assert made.steps[0].picture.id in limner.Library(home / "lib").store.gallery([]).ids
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
