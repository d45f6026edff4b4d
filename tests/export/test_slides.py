"""Slides: one per step, nothing off the slide, nothing stretched, nothing lost."""

import io
import zipfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from pptx import Presentation
from pptx.enum.text import PP_ALIGN

from limner.export import Plan
from limner.export import export as write
from limner.export.slides import SIZES_PT, boxes, letter_size
from limner.templates import carried


def export(board, out, **more):
    """All that the format can tell, so that every part of it is looked at."""
    return write(board, out, plan=Plan(with_reasons=True, originals=True), **more)


def shapes(slide) -> dict[str, object]:
    return {shape.name: shape for shape in slide.shapes}


def squeezed(text: str) -> str:
    return " ".join(text.split())


@pytest.fixture(scope="module")
def show(board, tmp_path_factory):
    return Presentation(export(board, tmp_path_factory.mktemp("show") / "out.pptx").path)


def test_one_slide_per_step(show, board) -> None:
    assert len(show.slides) == 1 + len(board.steps)
    assert show.core_properties.title == "The red roof"
    assert show.core_properties.author == "Ana & Co"
    assert [slide.shapes.title.text_frame.text for slide in show.slides] == [
        "The red roof",
        "1",
        "2 A wall",
        "3",
        "4",
        "5",
        "6",
    ]
    assert [shapes(slide)["Text"].text_frame.text for slide in list(show.slides)[1:]][:2] == [
        "Once there was a red roof.\nIt leaked.",
        "A pinned step.",
    ]


def test_pictures_keep_their_aspect_and_have_words(show) -> None:
    sizes = [(200, 300), (160, 120), (200, 150), None, (900, 60), (40, 700)]
    for slide, size in zip(list(show.slides)[1:], sizes, strict=True):
        if size is None:
            assert "Picture" not in shapes(slide)
            assert "No picture is likely enough." in slide.notes_slide.notes_text_frame.text
            continue
        picture = shapes(slide)["Picture"]
        assert picture.width / picture.height == pytest.approx(size[0] / size[1], rel=0.01)
        assert picture._element._nvXxPr.cNvPr.get("descr")
    assert shapes(show.slides[1])["Picture"]._element._nvXxPr.cNvPr.get("descr") == "A red roof"


def test_nothing_off_the_slide_and_nothing_overlaps(show) -> None:
    for slide in show.slides:
        placed = shapes(slide)
        for shape in placed.values():
            assert shape.left >= 0
            assert shape.top >= 0
            assert shape.left + shape.width <= show.slide_width
            assert shape.top + shape.height <= show.slide_height
        if "Picture" not in placed:
            continue
        one, other = placed["Picture"], placed["Text"]
        apart = (
            one.left + one.width <= other.left
            or other.left + other.width <= one.left
            or one.top + one.height <= other.top
        )
        assert apart


def test_picture_is_upright_and_stripped(show) -> None:
    blob = shapes(show.slides[1])["Picture"].image.blob
    with Image.open(io.BytesIO(blob)) as image:
        red = image.convert("RGB").getpixel((100, 20))
    assert red[0] > 200
    assert red[2] < 60
    assert b"SECRET" not in blob


def test_credits_and_reasons(show) -> None:
    first = show.slides[1]
    assert shapes(first)["Credit"].text_frame.text == "Ana Lima · CC BY 4.0"
    assert shapes(show.slides[2])["Credit"].text_frame.text == "Pinned by hand"
    assert shapes(first)["Story"].text_frame.text == "The red roof · Ana & Co"
    notes = first.notes_slide.notes_text_frame.text
    assert "Probability that this picture fits: 80 % (fits)." in notes
    assert "clear.png (40 %)" in notes


def test_right_to_left(arabic_board, tmp_path: Path) -> None:
    show = Presentation(export(arabic_board, tmp_path / "out.pptx").path)
    for slide in list(show.slides)[1:]:
        placed = shapes(slide)
        for paragraph in placed["Text"].text_frame.paragraphs:
            assert paragraph._p.pPr.get("rtl") == "1"
            assert paragraph.alignment == PP_ALIGN.RIGHT
            assert paragraph.runs[0]._r.rPr.get("lang") == "ar"
        assert placed["Picture"].left > placed["Text"].left
        assert placed["Text"].text_frame.text == arabic_board.story.steps[0].text


def test_long_text_is_whole_in_the_notes(make_board, tmp_path: Path) -> None:
    text = " ".join(f"word{number}" for number in range(2000))
    done = export(make_board([text]), tmp_path / "out.pptx")
    assert done.warnings == ("step 1: the text is too long for its slide; all of it is in the notes",)
    slide = Presentation(done.path).slides[1]
    assert text in slide.notes_slide.notes_text_frame.text
    shown = shapes(slide)["Text"].text_frame.text
    assert text.startswith(shown.removesuffix(" …"))
    assert 1000 < len(shown) < len(text)


def test_600_words_fit(make_board, tmp_path: Path) -> None:
    done = export(make_board(["some words of text " * 75]), tmp_path / "out.pptx")
    assert done.warnings == ()


def test_letter_size_by_hand() -> None:
    assert letter_size("A few words.", 5, 5) == SIZES_PT[0]
    assert letter_size("A few words.", 5, 0.1) is None
    few, many = letter_size("word " * 100, 5, 5), letter_size("word " * 200, 5, 5)
    assert few is not None
    assert many is not None
    assert many < few < SIZES_PT[0]
    assert letter_size("字" * 200, 5, 5) < letter_size("a" * 200, 5, 5)


@pytest.mark.parametrize("rtl", [False, True])
@pytest.mark.parametrize("aspect", [0.01, 0.5, 1.0, 1.7, 2.3, 80.0])
def test_boxes_stay_on_the_slide_and_apart(aspect: float, rtl: bool) -> None:
    one, other = boxes(aspect, rtl=rtl)
    for left, top, width, height in (one, other):
        assert 0 < left < left + width < 13.333
        assert 0 < top < top + height < 7.5
        assert width > 2
    apart = one[0] + one[2] <= other[0] or other[0] + other[2] <= one[0] or one[1] + one[3] <= other[1]
    assert apart


@pytest.mark.slow
@settings(max_examples=12, deadline=None)
@given(text=st.text(min_size=1, max_size=80), title=st.text(max_size=20))
def test_odd_texts_come_through(make_board, tmp_path_factory, text: str, title: str) -> None:
    done = export(make_board([text], title=title, alt=text), tmp_path_factory.mktemp("odd") / "out.pptx")
    shown = shapes(Presentation(done.path).slides[1])["Text"].text_frame.text
    assert squeezed(shown) == squeezed(carried(text))


def test_no_link_leads_out(board, tmp_path: Path) -> None:
    done = export(board, tmp_path / "out.pptx")
    with zipfile.ZipFile(done.path) as parts:
        relations = [parts.read(name) for name in parts.namelist() if name.endswith(".rels")]
    assert relations
    assert not any(b'TargetMode="External"' in part for part in relations)
