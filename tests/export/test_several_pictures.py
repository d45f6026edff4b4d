"""Several pictures at a step, cropped, with the author's words, in every format; files stay."""

import base64
import hashlib
import io
import re
import zipfile
from pathlib import Path

import pytest
from bs4 import BeautifulSoup
from PIL import Image
from pydantic import ValidationError
from pypdf import PdfReader

from limner.export import SUFFIXES, Plan, export
from limner.export.fragment import board_fragment
from limner.export.leaf import filling
from limner.export.storyboard_json import load
from limner.pictures.thumbnails import shrink
from limner.records import Area, Board, Framing

CAPTION, ALT = "Our roof <2026>", "Tiles, seen from the street"
HALF = Area(x=0, y=0, width=1, height=0.5)
"""The red half of the picture that is blue below."""


@pytest.fixture
def framed(make_board, pictures) -> Board:
    """One step that shows three pictures, the first of them cropped."""
    board = make_board(["Once there was a red roof."])
    framing = {pictures["turned"].id: Framing(crop=HALF, focus=(0.5, 0.25), caption=CAPTION, alt=ALT)}
    step = board.steps[0].model_copy(update={"more": (pictures["odd"], pictures["wide"]), "framing": framing})
    return board.model_copy(update={"steps": (step,)})


def images_in(path: Path) -> list[Image.Image]:
    """Pictures that a file shows, in no particular order."""
    if path.suffix == ".html":
        plates = BeautifulSoup(path.read_text("utf-8"), "lxml").select("main img")
        found = [base64.b64decode(one["src"].partition(",")[2]) for one in plates]
    elif path.suffix == ".md":
        found = [one.read_bytes() for one in path.with_name(f"{path.stem}_pictures").iterdir()]
    elif path.suffix == ".pdf":
        found = [one.data for page in PdfReader(path).pages for one in page.images]
    else:
        with zipfile.ZipFile(path) as archive:
            names = [one for one in archive.namelist() if re.search(r"\.(jpe?g|png|webp)$", one)]
            found = [archive.read(one) for one in names if "thumbnail" not in one]
    return [Image.open(io.BytesIO(data)).convert("RGB") for data in found]


def words_in(path: Path) -> str:
    """Words of a file, markup left out, and its alternative texts."""
    if path.suffix in (".html", ".md"):
        soup = BeautifulSoup(path.read_text("utf-8"), "lxml")
        return " ".join([soup.get_text(" "), *(one.get("alt", "") for one in soup.find_all("img"))])
    if path.suffix == ".pdf":
        book = PdfReader(path)
        return " ".join([*(page.extract_text() for page in book.pages), *_alternatives(book)])
    with zipfile.ZipFile(path) as archive:
        pages = [
            archive.read(one).decode("utf-8") for one in archive.namelist() if re.search(r"\.x?(ht)?ml$", one)
        ]
    soups = [BeautifulSoup(page, "lxml-xml") for page in pages]
    alts = [
        str(one.get(key))
        for soup in soups
        for one in soup.find_all()
        for key in ("descr", "alt")
        if one.get(key)
    ]
    return " ".join([*(soup.get_text(" ") for soup in soups), *alts])


def _alternatives(book: PdfReader) -> list[str]:
    every = (book.get_object(number) for number in range(1, int(book.trailer["/Size"])))
    return [str(one["/Alt"]) for one in every if isinstance(one, dict) and "/Alt" in one]


def is_red(image: Image.Image) -> bool:
    """Whether all of it is red, but for what compression does."""
    (low, _), (_, green), (_, blue) = image.getextrema()
    return low > 200 and green < 60 and blue < 60


@pytest.mark.parametrize("suffix", [one for one in SUFFIXES if one != ".json"])
def test_every_format_shows_all_of_them_as_the_author_set_them(framed, pictures, tmp_path, suffix) -> None:
    before = {name: hashlib.sha256(Path(one.path).read_bytes()).digest() for name, one in pictures.items()}
    path = export(framed, tmp_path / f"story{suffix}").path
    images = images_in(path)
    red = [image for image in images if is_red(image)]
    assert red
    assert red[0].width / red[0].height == pytest.approx(200 / 150, abs=0.03)
    assert not any(is_red(one.crop((0, 0, one.width, one.height // 3))) for one in images if one not in red)
    assert len({one.getpixel((one.width // 2, one.height // 2)) for one in images}) >= 3
    said = " ".join(words_in(path).split())
    assert CAPTION.replace("<", "\\<" if suffix == ".md" else "<") in said or CAPTION in said
    assert ALT in said
    assert "A red roof" not in said.replace("The red roof", "").replace("a red roof.", "")
    after = {name: hashlib.sha256(Path(one.path).read_bytes()).digest() for name, one in pictures.items()}
    assert after == before


def test_originals_are_copied_as_they_are_but_what_is_cropped(framed, pictures, tmp_path) -> None:
    done = export(framed, tmp_path / "story.md", plan=Plan(originals=True))
    copied = {hashlib.sha256(one.read_bytes()).hexdigest() for one in done.pictures}
    assert {pictures["odd"].id, pictures["wide"].id} <= copied
    assert pictures["turned"].id not in copied
    (cropped,) = [one for one in images_in(done.path) if is_red(one)]
    assert cropped.size == (200, 150)


def test_json_holds_them_and_older_files_are_read(framed, make_board, tmp_path) -> None:
    assert load(export(framed, tmp_path / "story.json").path) == framed
    plain = make_board(["Words."]).model_dump(mode="json")
    for step in plain["steps"]:
        del step["more"], step["framing"]
    assert Board.model_validate(plain, strict=False) == make_board(["Words."])


def test_the_same_picture_in_two_crops_is_two_copies(make_board, pictures, tmp_path) -> None:
    board = make_board(["One.", "Two."])
    name = pictures["turned"].id
    lower = Framing(crop=Area(x=0, y=0.5, width=1, height=0.5))
    first = board.steps[0].model_copy(update={"framing": {name: Framing(crop=HALF)}})
    second = board.steps[1].model_copy(update={"framing": {name: lower}})
    board = board.model_copy(update={"steps": (first, second)})
    images = images_in(export(board, tmp_path / "story.md").path)
    assert sorted(map(is_red, images)) == [False, True]


def test_a_crop_is_as_sharp_as_its_pixels_allow(pictures) -> None:
    part = Area(x=0.25, y=0.25, width=0.5, height=0.5)
    copy = shrink(pictures["turned"], "step 1", area_px=10**9, crop=part)
    assert (copy.width_px, copy.height_px) == (100, 150)
    small = shrink(pictures["turned"], "step 1", area_px=600, crop=part)
    assert (small.width_px, small.height_px) == (20, 30)
    dot = Area(x=0.99, y=0.99, width=0.01, height=0.01)
    assert shrink(pictures["tall"], "step 1", area_px=10**9, crop=dot).width_px >= 1


def test_the_overview_keeps_in_sight_what_must_stay(make_board, pictures, tmp_path) -> None:
    picture = pictures["turned"]
    assert filling(picture, Framing(), 4 / 3) == Area(x=0, y=0.25, width=1, height=0.5)
    assert filling(picture, Framing(focus=(0.5, 0.1)), 4 / 3) == HALF
    lower = filling(picture, Framing(crop=HALF, focus=(0.9, 1)), 2 / 3)
    assert (lower.x, lower.y, lower.width, lower.height) == pytest.approx((0.5, 0, 0.5, 0.5))
    board = make_board(["One.", "Two."])
    turned = board.steps[0].model_copy(update={"framing": {picture.id: Framing(focus=(0.5, 0))}})
    board = board.model_copy(update={"steps": (turned, board.steps[1])})
    page = export(board, tmp_path / "story.html", plan=Plan(layout="book")).path.read_text("utf-8")
    strip = [one["src"].partition(",")[2] for one in BeautifulSoup(page, "lxml").select(".strip img")]
    shown = [Image.open(io.BytesIO(base64.b64decode(one))).convert("RGB") for one in strip]
    assert [is_red(one) for one in shown] == [True, False]


@pytest.mark.parametrize(
    "area",
    [
        {"x": 0.6, "y": 0, "width": 0.5, "height": 1},
        {"x": 0, "y": 0, "width": 0, "height": 1},
        {"x": -0.1, "y": 0, "width": 0.5, "height": 1},
    ],
)
def test_an_area_lies_inside_the_picture(area) -> None:
    with pytest.raises(ValidationError):
        Area.model_validate(area)


def test_a_notebook_shows_all_pictures_of_a_step(framed):
    soup = BeautifulSoup(board_fragment(framed), "lxml")
    shown = [Image.open(io.BytesIO(base64.b64decode(one["src"].partition(",")[2]))) for one in soup("img")]
    first, *more = framed.steps[0].pictures
    assert soup.img["alt"] == ALT
    assert [one.text for one in soup("small")][:3] == [one.path for one in (first, *more)]
    assert shown[0].width / shown[0].height == pytest.approx(2 * first.width_px / first.height_px, rel=0.05)
