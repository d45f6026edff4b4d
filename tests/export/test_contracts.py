"""What holds for every format: all words once, pictures with their captions, marks, language, options."""

import re
from itertools import pairwise
from pathlib import Path

import pytest
from bs4 import BeautifulSoup
from docx import Document
from exports import (
    FORMATS,
    alts_of,
    board_of,
    chapters,
    images_of,
    item,
    members,
    paragraphs_of,
    picture_of,
    printed_sizes,
    words_of,
)
from PIL import Image
from pypdf import PdfReader

from limner.errors import ConfigError
from limner.export import LAYOUTS, Plan, export
from limner.records import Area, Block, Board, Framing, Mark

WORDS = {
    "recipe": (
        "never wrote it down|Ingredients|250 g flour|2 eggs|butter|Method|softly|slowly|Bake for an hour|"
        "Eat with cream|Notes|Keep it cool"
    ),
    "travels": "We left early|The market|the morning|The train|took the train|It was late|we slept",
}
CAPTIONS = "The plain at dawn|Cheese of the valley|Fish from the harbour|Flowers from the south|Our train"
CREDIT = "Ana Lima · CC BY 4.0"
EACH_LAYOUT = [(suffix, layout) for suffix in FORMATS for layout in LAYOUTS[suffix]]


@pytest.mark.parametrize(("suffix", "layout"), EACH_LAYOUT)
def test_all_words_are_there_once_and_in_order_and_captions_stand_with_their_pictures(
    request, tmp_path: Path, suffix: str, layout: str
) -> None:
    for name, parts in WORDS.items():
        board = request.getfixturevalue(name)
        done = export(board, tmp_path / f"{name}{suffix}", plan=Plan(layout=layout))
        words = words_of(done.path)
        assert [part for part in parts.split("|") if words.count(part) != 1] == []
        places = [words.find(part) for part in parts.split("|")]
        assert places == sorted(places)
    captions = CAPTIONS.split("|")
    assert [caption for caption in captions if words.count(caption) != 1] == []
    assert "A lost caption" not in words
    assert ["gone.jpg" in warning for warning in done.warnings] == [True]
    described = ["A plain", "Cheese", "Fish", "", "A train", "A red roof"]
    assert alts_of(done.path) == [alt for alt in described if alt or suffix != ".pdf"]
    if suffix in (".html", ".epub"):
        figures = [figure for page in chapters(done.path) for figure in page.find_all("figure")]
        assert [" ".join(figure.get_text().split()) for figure in figures] == [*captions, CREDIT]
    elif suffix == ".docx":
        pairs = pairwise(paragraphs_of(done.path))
        assert [below for (_, is_picture), (below, _) in pairs if is_picture] == [*captions, CREDIT]


@pytest.mark.parametrize("suffix", FORMATS)
def test_an_export_gives_reasons_only_when_asked(board: Board, tmp_path: Path, suffix: str) -> None:
    path = export(board, tmp_path / f"out{suffix}").path
    words = words_of(path)
    assert not re.search("A reason|not stated|No picture|Pictures chosen|Probability|Runner", words)
    assert CREDIT in words
    why = export(board, tmp_path / f"why{suffix}", plan=Plan(with_reasons=True)).path
    if suffix == ".pptx":  # in its notes
        assert "notesSlide" not in " ".join(members(path))
        notes = [data for name, data in members(why).items() if "notesSlide" in name]
        words = " ".join(BeautifulSoup(data, "xml").get_text(" ") for data in notes)
    else:
        words = words_of(why)
    assert re.search(r"Chosen from the library: turned\.jpg \(Ana Lima · CC BY 4\.0\)\.\s+A reason\.", words)
    assert words.count("The picture shows the result of this step (81 %).") == 4
    assert words.count("Words with the most attention: ") == 6


@pytest.mark.parametrize("suffix", FORMATS)
def test_emphasis_and_links_are_kept_but_none_that_runs(recipe: Board, tmp_path: Path, suffix: str) -> None:
    evil = Mark(start=3, end=14, kind="link", target="javascript:alert(1)")
    first, *others = recipe.story.blocks
    marked = first.model_copy(update={"marks": (*first.marks, evil)})
    story = recipe.story.model_copy(update={"blocks": (marked, *others)})
    path = export(recipe.model_copy(update={"story": story}), tmp_path / f"out{suffix}").path
    data = path.read_bytes() if suffix in (".html", ".pdf") else b"".join(members(path).values())
    assert b"https://example.org/book" in data
    assert b"javascript" not in data
    if suffix in (".html", ".epub"):
        assert b"<em>grandmother</em>" in data
        assert b"<strong>all</strong>" in data


@pytest.mark.parametrize("suffix", FORMATS)
def test_crop_caption_and_alt_text_are_those_of_the_user(pictures, tmp_path: Path, suffix: str) -> None:
    board = board_of([Block(text="Once there was a red roof."), pictures["turned"]])
    red = Area(x=0, y=0, width=1, height=0.5)
    framing = Framing(crop=red, focus=(0.5, 0.25), caption="Our roof <2026>", alt="Tiles, from the street")
    step = board.steps[0].model_copy(update={"framing": framing})
    path = export(board.model_copy(update={"steps": (step,)}), tmp_path / f"out{suffix}").path
    (image,) = images_of(path)
    assert image.resize((1, 1)).getpixel((0, 0)) == pytest.approx((255, 0, 0), abs=10)
    assert image.width / image.height == pytest.approx(200 / 150, abs=0.03)
    assert "Our roof <2026>" in words_of(path)
    assert alts_of(path) == ["Tiles, from the street"]


def test_a_warning_says_that_most_pictures_are_weak(board: Board, tmp_path: Path) -> None:
    weak = [step.model_copy(update={"probability": 0.05}) for step in board.steps]
    for count, due in ((2, 0), (6, 1)):
        mixed = board.model_copy(update={"steps": (*weak[:count], *board.steps[count:])})
        done = export(mixed, tmp_path / f"{count}.html")
        assert len([line for line in done.warnings if "weak" in line]) == due
        assert "weak" not in words_of(done.path)


@pytest.mark.slow
@pytest.mark.parametrize("suffix", [".pdf", ".docx", ".pptx"])
def test_pictures_have_300_dots_an_inch_where_they_are_printed(make_board, tmp_path, suffix: str) -> None:
    Image.effect_noise((6000, 4000), 60).convert("RGB").save(tmp_path / "large.jpg")
    board = make_board(["One step."], swap=picture_of(tmp_path / "large.jpg"))
    for layout in LAYOUTS[suffix]:
        path = export(board, tmp_path / f"{layout}{suffix}", plan=Plan(layout=layout)).path
        ((pixels, inches),) = printed_sizes(path)
        assert pixels / inches == pytest.approx(300, rel=0.02)


@pytest.mark.parametrize("suffix", FORMATS)
def test_language_and_direction_are_stated_and_control_characters_reported(
    make_board, tmp_path: Path, suffix: str
) -> None:
    board = make_board(["bell\x07 and nul\x00"], direction="rtl", language="ar")
    done = export(board, tmp_path / f"out{suffix}")
    assert done.warnings == ("2 control characters in the text shown as \ufffd",)
    assert "bell\ufffd and nul\ufffd" in words_of(done.path)
    if suffix == ".pdf":
        assert PdfReader(done.path).trailer["/Root"]["/Lang"] == "ar"
    elif suffix in (".html", ".epub"):
        assert {(page.html["lang"], page.html["dir"]) for page in chapters(done.path)} == {("ar", "rtl")}
    else:
        inside = b"".join(data for name, data in members(done.path).items() if name.endswith(".xml"))
        due = (b"<w:bidi/>", b'w:bidi="ar"') if suffix == ".docx" else (b'rtl="1"', b'lang="ar"')
        assert all(part in inside for part in due)


def test_pages_have_the_size_asked_for_and_others_are_refused(recipe: Board, tmp_path: Path) -> None:
    plan, due = Plan(page_size="letter"), (215.9, 279.4)
    box = PdfReader(export(recipe, tmp_path / "out.pdf", plan=plan).path).pages[0].mediabox
    assert (float(box.width) / 72 * 25.4, float(box.height) / 72 * 25.4) == pytest.approx(due, abs=0.1)
    section = Document(export(recipe, tmp_path / "out.docx", plan=plan).path).sections[0]
    assert (section.page_width.mm, section.page_height.mm) == pytest.approx(due, abs=0.1)
    for suffix, options, message in (
        (".pptx", {"layout": "recipe"}, r"\.pptx has no layout recipe; expected slides;"),
        (".epub", {"page_size": "a5"}, r"\.epub has no pages"),
        (".pdf", {"layout": "contact"}, "unknown layout"),
        (".pdf", {"page_size": "square"}, "unknown page size"),
    ):
        with pytest.raises(ConfigError, match=message):
            export(recipe, tmp_path / f"no{suffix}", plan=Plan(**options))


@pytest.mark.parametrize("suffix", FORMATS)
def test_steps_that_the_text_does_not_number_have_no_number(tmp_path: Path, suffix: str) -> None:
    plain = board_of([Block(text="Peel.")], item("a pot", role="supplies"), [Block(text="Boil.")])
    plan = Plan(layout=None if suffix == ".pptx" else "recipe")
    assert not re.search(r"\d", words_of(export(plain, tmp_path / f"out{suffix}", plan=plan).path))
