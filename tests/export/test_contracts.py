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
    printed_sizes,
    slides_of,
    words_of,
)
from PIL import Image
from pypdf import PdfReader

from limner.errors import ConfigError
from limner.export import LAYOUTS, Plan, export
from limner.files import sha256_of
from limner.records import Area, Block, Board, Framing

RECIPE = (
    "never wrote it down", "Ingredients", "250 g flour", "2 eggs", "butter", "Method", "softly", "slowly",
    "Bake for an hour", "Eat with cream", "Notes", "Keep it cool",
)  # fmt: skip
TRAVELS = (
    "We left early",
    "The market",
    "the morning",
    "The train",
    "took the train",
    "It was late",
    "we slept",
)
CAPTIONS = (
    "The plain at dawn",
    "Cheese of the valley",
    "Fish from the harbour",
    "Flowers from the south",
    "Our train",
)
EACH_LAYOUT = [(suffix, layout) for suffix in FORMATS for layout in LAYOUTS[suffix]]


@pytest.mark.parametrize(("suffix", "layout"), EACH_LAYOUT)
def test_all_that_the_author_wrote_is_there_once_and_in_order(
    recipe: Board, travels: Board, tmp_path: Path, suffix: str, layout: str
) -> None:
    for board, due in ((recipe, RECIPE), (travels, TRAVELS)):
        path = export(board, tmp_path / f"{board.story.title}{suffix}", plan=Plan(layout=layout)).path
        words = words_of(path)
        places = [words.find(part) for part in due]
        assert -1 not in places, dict(zip(due, places, strict=True))
        assert places == sorted(places)
        assert [part for part in due if words.count(part) != 1] == []


@pytest.mark.parametrize(("suffix", "layout"), EACH_LAYOUT)
def test_captions_stand_with_their_pictures_and_nowhere_else(
    travels: Board, tmp_path: Path, suffix: str, layout: str
) -> None:
    done = export(travels, tmp_path / f"out{suffix}", plan=Plan(layout=layout))
    words = words_of(done.path)
    assert [caption for caption in CAPTIONS if words.count(caption) != 1] == []
    assert "A lost caption" not in words
    assert [line for line in done.warnings if "gone.jpg" in line] == list(done.warnings)
    described = ["A plain", "Cheese", "Fish", "", "A train", "A red roof"]
    assert alts_of(done.path) == [alt for alt in described if alt or suffix != ".pdf"]
    if suffix in (".html", ".epub"):
        figures = [figure for page in chapters(done.path) for figure in page.find_all("figure")]
        beside = [" ".join(figure.get_text().split()) for figure in figures]
        assert beside == [*CAPTIONS, "Ana Lima · CC BY 4.0"]
    elif suffix == ".docx":
        pairs = pairwise(paragraphs_of(done.path))
        assert [below for (_, is_picture), (below, _) in pairs if is_picture] == [
            *CAPTIONS,
            "Ana Lima · CC BY 4.0",
        ]


EVIDENCE = ("A reason", "not stated", "No picture", "Pictures chosen", "Probability", "Runner")


@pytest.mark.parametrize("suffix", FORMATS)
def test_an_export_can_be_published_as_it_is(recipe: Board, tmp_path: Path, suffix: str) -> None:
    done = export(recipe, tmp_path / f"out{suffix}")
    words = words_of(done.path)
    assert [part for part in EVIDENCE if part in words] == []
    assert "Ana Lima · CC BY 4.0" in words  # the one credit that is known
    why = export(recipe, tmp_path / f"why{suffix}", plan=Plan(with_reasons=True)).path
    if suffix == ".pptx":
        assert "Notes" not in members(done.path)
        parts = [data for name, data in members(why).items() if "notesSlide" in name]
        told = " ".join(BeautifulSoup(data, "xml").get_text(" ") for data in parts)
    else:
        told = words_of(why)
        assert "Pictures chosen with limner 0.1.0." in told
    assert re.search(r"Chosen from the library: turned\.jpg \(Ana Lima · CC BY 4\.0\)\.\s+A reason\.", told)


@pytest.mark.parametrize("suffix", FORMATS)
def test_a_trained_models_predictions_are_among_the_reasons(
    model_board: Board, tmp_path: Path, suffix: str
) -> None:
    out = export(model_board, tmp_path / f"out{suffix}", plan=Plan(with_reasons=True)).path
    inside = b" ".join(members(out).values()) if suffix == ".pptx" else words_of(out).encode()
    told = inside.decode("utf-8", "ignore")
    assert told.count("The picture shows the result of this step (81 %).") == 5
    assert told.count("Words with the most attention: ") == 6


@pytest.mark.parametrize("suffix", FORMATS)
def test_emphasis_and_safe_links_are_kept(recipe: Board, tmp_path: Path, suffix: str) -> None:
    path = export(recipe, tmp_path / f"out{suffix}").path
    if suffix == ".pdf":
        notes = [note.get_object() for page in PdfReader(path).pages for note in page.get("/Annots", [])]
        assert [note["/A"]["/URI"] for note in notes] == ["https://example.org/book"]
        return
    if suffix == ".html":
        inside = path.read_text("utf-8")
    else:
        parts = members(path).items()
        inside = b"".join(data for name, data in parts if name.endswith(("ml", ".rels"))).decode()
    assert "https://example.org/book" in inside
    if suffix in (".html", ".epub"):
        assert "<em>grandmother</em>" in inside
        assert "<strong>all</strong>" in inside


@pytest.mark.parametrize("suffix", FORMATS)
def test_links_that_run_something_are_words(tmp_path: Path, suffix: str) -> None:
    marks = [{"start": 4, "end": 8, "kind": "link", "target": "javascript:alert(1)"}]
    board = board_of([Block.model_validate({"text": "See this.", "marks": marks})])
    path = export(board, tmp_path / f"out{suffix}").path
    data = b"".join(members(path).values()) if suffix in (".docx", ".pptx", ".epub") else path.read_bytes()
    assert b"javascript" not in data
    assert "See this." in words_of(path)


@pytest.mark.parametrize("suffix", FORMATS)
def test_a_crop_its_caption_and_its_alt_text_are_those_of_the_user(
    pictures, tmp_path: Path, suffix: str
) -> None:
    board = board_of([Block(text="Once there was a red roof."), pictures["turned"]])
    red = Area(x=0, y=0, width=1, height=0.5)
    framing = Framing(
        crop=red, focus=(0.5, 0.25), caption="Our roof <2026>", alt="Tiles, seen from the street"
    )
    step = board.steps[0].model_copy(update={"framing": framing})
    path = export(board.model_copy(update={"steps": (step,)}), tmp_path / f"out{suffix}").path
    (image,) = images_of(path)
    (low, _), (_, green), (_, blue) = image.getextrema()
    assert low > 200
    assert max(green, blue) < 60
    assert image.width / image.height == pytest.approx(200 / 150, abs=0.03)
    assert "Our roof <2026>" in words_of(path)
    assert alts_of(path) == ["Tiles, seen from the street"]


@pytest.mark.parametrize("suffix", FORMATS)
def test_a_page_says_once_for_its_author_that_most_pictures_are_weak(
    board: Board, tmp_path: Path, suffix: str
) -> None:
    weak = [step.model_copy(update={"probability": 0.05}) for step in board.steps]
    for count, due in ((2, 0), (6, 1)):
        mixed = board.model_copy(update={"steps": (*weak[:count], *board.steps[count:])})
        done = export(mixed, tmp_path / f"{count}{suffix}")
        assert len([line for line in done.warnings if "weak" in line]) == due
        assert "weak" not in words_of(done.path)


@pytest.mark.slow
@pytest.mark.parametrize("suffix", [".pdf", ".docx", ".pptx"])
def test_pictures_have_300_dots_an_inch_where_they_are_printed(
    make_board, pictures, tmp_path, suffix
) -> None:
    Image.effect_noise((6000, 4000), 60).convert("RGB").save(tmp_path / "large.jpg")
    large = {
        "id": sha256_of(tmp_path / "large.jpg"),
        "paths": (str(tmp_path / "large.jpg"),),
        "width_px": 6000,
        "height_px": 4000,
    }
    board = make_board(["One step."], swap=pictures["turned"].model_copy(update=large))
    for layout in LAYOUTS[suffix]:
        path = export(board, tmp_path / f"{layout}{suffix}", plan=Plan(layout=layout)).path
        ((pixels, inches),) = printed_sizes(path)
        assert pixels / inches == pytest.approx(300, rel=0.02)


@pytest.mark.parametrize("suffix", FORMATS)
def test_language_and_direction_are_stated(arabic_board: Board, tmp_path: Path, suffix: str) -> None:
    path = export(arabic_board, tmp_path / f"out{suffix}").path
    if suffix == ".pdf":
        assert PdfReader(path).trailer["/Root"]["/Lang"] == "ar"
    elif suffix in (".html", ".epub"):
        for page in chapters(path):
            assert (page.html["lang"], page.html["dir"]) == ("ar", "rtl")
    else:
        inside = b"".join(data for name, data in members(path).items() if name.endswith(".xml"))
        assert (b"<w:bidi/>" if suffix == ".docx" else b'rtl="1"') in inside
        assert (b'w:bidi="ar"' if suffix == ".docx" else b'lang="ar"') in inside


def test_layouts_differ_and_impossible_ones_are_refused(recipe: Board, tmp_path: Path) -> None:
    plans = {layout: Plan(layout=layout) for layout in ("book", "recipe")}
    made = {one: export(recipe, tmp_path / f"{one}.pdf", plan=plan).path for one, plan in plans.items()}
    assert len(PdfReader(made["book"]).pages) > len(PdfReader(made["recipe"]).pages)
    for suffix, options, message in (
        (".pptx", {"layout": "recipe"}, r"\.pptx has no layout recipe; expected slides;"),
        (".epub", {"page_size": "a5"}, r"\.epub has no pages"),
        (".pdf", {"layout": "contact"}, "unknown layout"),
        (".pdf", {"page_size": "square"}, "unknown page size"),
    ):
        with pytest.raises(ConfigError, match=message):
            export(recipe, tmp_path / f"out{suffix}", plan=Plan(**options))


@pytest.mark.parametrize(("size", "due"), [("a5", (148, 210)), ("letter", (215.9, 279.4))])
def test_page_sizes(recipe: Board, tmp_path: Path, size, due: tuple[float, float]) -> None:
    plan = Plan(page_size=size)
    box = PdfReader(export(recipe, tmp_path / "out.pdf", plan=plan).path).pages[0].mediabox
    assert (float(box.width) / 72 * 25.4, float(box.height) / 72 * 25.4) == pytest.approx(due, abs=0.1)
    section = Document(export(recipe, tmp_path / "out.docx", plan=plan).path).sections[0]
    assert (section.page_width.mm, section.page_height.mm) == pytest.approx(due, abs=0.1)


@pytest.mark.parametrize("suffix", FORMATS)
def test_control_characters_are_replaced_and_reported(make_board, tmp_path: Path, suffix: str) -> None:
    done = export(make_board(["bell\x07 and nul\x00"]), tmp_path / f"out{suffix}")
    assert done.warnings == ("2 control characters in the text shown as \ufffd",)
    assert "bell\ufffd and nul\ufffd" in words_of(done.path)


def test_steps_are_numbered_where_the_text_numbers_them(recipe: Board, make_board, tmp_path: Path) -> None:
    titles = [
        slide["Title 1"].text_frame.text for slide in slides_of(export(recipe, tmp_path / "a.pptx").path)
    ]
    assert [title for title in titles if re.search(r"\d$", title)] == ["Method · 1", "2", "3"]
    plain = board_of([Block(text="Peel.")], item("a pot", role="supplies"), [Block(text="Boil.")])
    for suffix in FORMATS:
        plan = Plan(layout="recipe" if suffix != ".pptx" else None)
        assert not re.search(r"\d", words_of(export(plain, tmp_path / f"b{suffix}", plan=plan).path))
