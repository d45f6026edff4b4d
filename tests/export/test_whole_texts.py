"""What the author wrote stands in every export, where it stood; evidence only where it is asked for."""

import io
import re
import unicodedata
import zipfile
from collections import Counter
from functools import partial
from pathlib import Path

import pytest
import typst
from bs4 import BeautifulSoup
from docx import Document
from docx.oxml.ns import qn
from lxml import etree
from PIL import Image
from pptx import Presentation
from pypdf import PdfReader

from limner.errors import ConfigError
from limner.export import LAYOUTS, SUFFIXES, Plan, export
from limner.export.markup import runs_of
from limner.export.storyboard_json import load
from limner.files import sha256_of
from limner.records import Board, BoardStep, Candidate
from limner.text.read import parse_story_report

RECIPE = """---
lang: en
---
# Lemon cake

My *grandmother* never wrote it down. See [her book](https://example.org/book).

## Ingredients

- 250 g flour
- 2 eggs

| what | grams |
|---|---|
| butter | 100 |

## Method

1. Mix **all** softly.
   - slowly
2. Bake for an hour.
3. Eat with cream.

## Notes

> Keep it cool.
"""
IN_ORDER = (
    "never wrote it down",
    "Ingredients",
    "250 g flour",
    "2 eggs",
    "butter",
    "Method",
    "softly",
    "slowly",
    "Bake for an hour",
    "Eat with cream",
    "Notes",
    "Keep it cool",
)
HEBREW = """---
lang: he
---
# עוגת לימון

ראו גם [את הספר שלה](https://example.org/book), והוא *יפה מאוד*.

## אופן ההכנה

1. מערבבים את הקמח עם 250 גרם סוכר (לבן) ועם Vanilla extract. אחר כך אופים 30 דקות.
2. מצננים "בעדינות" ומגישים עם קצפת.
3. «ככה» אמרה [פעם] סבתא (בת 80), ו**חייכה** {מאוד}!
"""
ARABIC = """---
lang: ar
---
# السلحفاة

1. جاءت السلحفاة في الساعة 12 مساء لزيارة أنانسي (صديقها) وقت العشاء.
2. ثم عادت إلى Nairobi في القطار.
3. قالت: «مرحبا يا أنانسي»، ثم [ضحكت] في 12:30، ودفعت 3.5 دنانير (٤٥)؛ **شكرا** *جزيلا*!
"""
WRITERS = [suffix for suffix in SUFFIXES if suffix != ".json"]


def board_of(text: str, pictures, names=("odd", None, "turned")) -> Board:
    story = parse_story_report(text, format="markdown").story
    steps = []
    for position, _ in enumerate(story.steps):
        name = names[position % len(names)]
        chosen = name and Candidate(picture=pictures[name], score=1.0, channels={"captions": 1.0})
        origin = "decoded" if chosen else "blank"
        steps.append(BoardStep(position=position, chosen=chosen, origin=origin, reason="A reason."))
    return Board(story=story, steps=tuple(steps), version="0.1.0")


@pytest.fixture
def recipe(pictures) -> Board:
    return board_of(RECIPE, pictures)


def epub_parts(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as book:
        return {name: book.read(name) for name in book.namelist()}


def words_of(path: Path) -> str:
    """All words of an export as a reader meets them."""
    if path.suffix == ".html":
        text = BeautifulSoup(path.read_text(encoding="utf-8"), "lxml").body.get_text(" ")
    elif path.suffix == ".md":
        text = path.read_text(encoding="utf-8")
    elif path.suffix == ".pdf":
        text = " ".join(page.extract_text() for page in PdfReader(path).pages)
    elif path.suffix == ".docx":
        document = Document(str(path))
        text = " ".join(node.text or "" for node in document.element.body.iter() if node.tag.endswith("}t"))
    elif path.suffix == ".epub":
        found = [
            BeautifulSoup(data, "xml") for name, data in epub_parts(path).items() if name.endswith(".xhtml")
        ]
        text = " ".join(one.body.get_text(" ") for one in found if not one.find("nav"))
    else:
        frames = [
            shape.text_frame.text
            for slide in Presentation(str(path)).slides
            for shape in slide.shapes
            if shape.has_text_frame and shape.top >= 0
        ]
        text = " ".join(frames)
    return " ".join(text.split())


@pytest.mark.parametrize("suffix", WRITERS)
def test_all_that_the_author_wrote_is_there_once_and_in_order(recipe, tmp_path: Path, suffix: str) -> None:
    words = words_of(export(recipe, tmp_path / f"out{suffix}").path)
    places = [words.find(part) for part in IN_ORDER]
    assert -1 not in places, dict(zip(IN_ORDER, places, strict=True))
    assert places == sorted(places)
    assert words.count("Method") == 1


@pytest.mark.parametrize("suffix", WRITERS)
def test_steps_alone_are_the_option(recipe, tmp_path: Path, suffix: str) -> None:
    words = words_of(export(recipe, tmp_path / f"out{suffix}", plan=Plan(include="steps")).path)
    assert "Bake for an hour" in words
    for part in ("250 g flour", "never wrote", "Keep it cool"):
        assert part not in words
    assert words.count("Method") == 1


EVIDENCE = ("A reason", "not stated", "No picture", "Pictures chosen", "Probability", "Runner")


@pytest.mark.parametrize("suffix", WRITERS)
def test_an_export_can_be_published_as_it_is(recipe, tmp_path: Path, suffix: str) -> None:
    done = export(recipe, tmp_path / f"out{suffix}")
    words = words_of(done.path)
    assert not [part for part in EVIDENCE if part in words]
    assert "Ana Lima · CC BY 4.0" in words  # the one credit that is known
    if suffix == ".pptx":
        assert not any(slide.has_notes_slide for slide in Presentation(str(done.path)).slides)
    else:
        told = words_of(export(recipe, tmp_path / f"why{suffix}", plan=Plan(with_reasons=True)).path)
        assert "A reason" in told
        assert "Pictures chosen with limner 0.1.0." in told


@pytest.mark.parametrize("suffix", WRITERS)
def test_emphasis_and_links_are_kept(recipe, tmp_path: Path, suffix: str) -> None:
    path = export(recipe, tmp_path / f"out{suffix}").path
    if suffix == ".md":
        assert "*grandmother*" in path.read_text()
        assert "[her book](https://example.org/book)" in path.read_text()
    elif suffix == ".pdf":
        links = [
            note.get_object()["/A"]["/URI"]
            for page in PdfReader(path).pages
            for note in page.get("/Annots", [])
        ]
        assert "https://example.org/book" in links
    elif suffix in (".docx", ".pptx"):
        with zipfile.ZipFile(path) as archive:
            inside = b"".join(
                archive.read(name) for name in archive.namelist() if name.endswith((".xml", ".rels"))
            )
        assert b"https://example.org/book" in inside
    else:
        text = (
            path.read_text()
            if suffix == ".html"
            else b"".join(epub_parts(path).values()).decode(errors="replace")
        )
        assert "<em>grandmother</em>" in text
        assert 'href="https://example.org/book"' in text
        assert "<strong>all</strong>" in text


@pytest.mark.parametrize(("suffix", "layout"), [(one, each) for one in LAYOUTS for each in LAYOUTS[one]])
def test_every_layout_holds_every_step(recipe, tmp_path: Path, suffix: str, layout: str) -> None:
    words = words_of(export(recipe, tmp_path / f"out{suffix}", plan=Plan(layout=layout)).path)
    for part in ("softly", "Bake for an hour", "Eat with cream"):
        assert part in words


def test_pictures_beside_words_fit_their_cell_in_word(recipe, tmp_path: Path) -> None:
    made = Document(str(export(recipe, tmp_path / "out.docx", plan=Plan(layout="recipe")).path))
    grids = [table for table in made.tables if table._tbl.findall(f".//{qn('w:drawing')}")]
    assert grids
    for table in grids:
        for cell in table.rows[0].cells:
            across = [int(one.get("cx")) for one in cell._tc.findall(f".//{qn('wp:extent')}")]
            assert all(0 < width <= cell.width for width in across)


def test_layouts_differ_and_impossible_ones_are_refused(recipe, tmp_path: Path) -> None:
    made = {
        layout: len(
            PdfReader(export(recipe, tmp_path / f"{layout}.pdf", plan=Plan(layout=layout)).path).pages
        )
        for layout in ("book", "recipe")
    }
    assert made["book"] > made["recipe"]
    with pytest.raises(ConfigError, match=r"\.pptx has no layout recipe; expected slides;"):
        export(recipe, tmp_path / "out.pptx", plan=Plan(layout="recipe"))
    with pytest.raises(ConfigError, match=r"\.epub has no pages"):
        export(recipe, tmp_path / "out.epub", plan=Plan(page_size="a5"))
    with pytest.raises(ConfigError, match="unknown layout"):
        export(recipe, tmp_path / "out.pdf", plan=Plan(layout="contact"))  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="unknown page size"):
        export(recipe, tmp_path / "out.pdf", plan=Plan(page_size="square"))  # type: ignore[arg-type]


@pytest.mark.parametrize(("size", "due"), [("a5", (148, 210)), ("letter", (215.9, 279.4))])
def test_page_sizes(recipe, tmp_path: Path, size: str, due: tuple[float, float]) -> None:
    box = PdfReader(export(recipe, tmp_path / "out.pdf", plan=Plan(page_size=size)).path).pages[0].mediabox
    assert (float(box.width) / 72 * 25.4, float(box.height) / 72 * 25.4) == pytest.approx(due, abs=0.1)
    section = Document(str(export(recipe, tmp_path / "out.docx", plan=Plan(page_size=size)).path)).sections[0]
    assert (section.page_width.mm, section.page_height.mm) == pytest.approx(due, abs=0.1)


@pytest.mark.parametrize("text", [HEBREW, ARABIC], ids=["hebrew", "arabic"])
@pytest.mark.parametrize("layout", LAYOUTS[".pdf"])
def test_words_that_run_from_right_to_left_copy_whole(
    pictures, tmp_path: Path, text: str, layout: str
) -> None:
    board = board_of(text, pictures)
    found = unicodedata.normalize(
        "NFKC", words_of(export(board, tmp_path / "out.pdf", plan=Plan(layout=layout)).path)
    )
    # Lines stand in the file as they are seen, and viewers turn them; within a word the letters are in order.
    text = unicodedata.normalize("NFKC", "".join(step.text for step in board.story.steps))
    assert Counter(filter(str.isalnum, text)) <= Counter(filter(str.isalnum, found))
    runs = [run.text for step in board.story.steps for part in step.parts for run in runs_of(part)]
    words = re.findall(r"[^\W\d]+", " ".join(runs))
    assert len(words) > 20
    assert [word for word in words if word not in found] == []


@pytest.mark.parametrize("text", [RECIPE, HEBREW], ids=["english", "hebrew"])
@pytest.mark.parametrize("layout", LAYOUTS[".pdf"])
def test_a_pdf_keeps_the_rules_for_readers_who_cannot_see(
    pictures, tmp_path: Path, monkeypatch, text: str, layout: str
) -> None:
    strict = partial(typst.compile, pdf_standards="ua-1")
    monkeypatch.setattr(typst, "compile", strict)
    done = export(board_of(text, pictures), tmp_path / "out.pdf", plan=Plan(layout=layout))
    assert b"pdfuaid:part" in done.path.read_bytes()


def test_a_step_of_an_article_starts_on_the_page_of_its_picture(pictures, tmp_path: Path) -> None:
    text = "# Long\n\n" + "\n".join(f"{n}. Do part {n}." for n in range(1, 10))
    board = board_of(text, pictures, names=("odd", "turned", "cmyk"))
    book = PdfReader(export(board, tmp_path / "out.pdf", plan=Plan(layout="article")).path)
    for page in book.pages:
        assert len(page.images) == page.extract_text().count("Do part")


@pytest.mark.parametrize("suffix", WRITERS)
def test_language_and_direction_are_stated(pictures, tmp_path: Path, suffix: str) -> None:
    path = export(board_of(HEBREW, pictures), tmp_path / f"out{suffix}").path
    if suffix == ".md":
        assert path.read_text().startswith("---\nlang: he\n---\n")  # as its author says it
    elif suffix == ".pdf":
        assert PdfReader(path).trailer["/Root"]["/Lang"] == "he"
    elif suffix == ".html":
        page = BeautifulSoup(path.read_text(encoding="utf-8"), "lxml").html
        assert (page["lang"], page["dir"]) == ("he", "rtl")
    elif suffix == ".epub":
        parts = epub_parts(path)
        opf = next(data for name, data in parts.items() if name.endswith(".opf"))
        assert b'page-progression-direction="rtl"' in opf
        page = etree.fromstring(next(data for name, data in parts.items() if name.endswith("text.xhtml")))
        assert page.get("lang") == page.get("{http://www.w3.org/XML/1998/namespace}lang") == "he"
        assert b'dir="rtl"' in parts[next(name for name in parts if name.endswith("text.xhtml"))]
    else:
        with zipfile.ZipFile(path) as archive:
            inside = b"".join(archive.read(name) for name in archive.namelist() if name.endswith(".xml"))
        assert (b"<w:bidi/>" if suffix == ".docx" else b'rtl="1"') in inside
        assert (b'w:bidi="he"' if suffix == ".docx" else b'lang="he"') in inside


def test_an_epub_keeps_the_rules_of_its_format(recipe, tmp_path: Path) -> None:
    path = export(recipe, tmp_path / "out.epub").path
    with zipfile.ZipFile(path) as book:
        first = book.infolist()[0]
        assert (first.filename, first.compress_type) == ("mimetype", zipfile.ZIP_STORED)
        assert book.read("mimetype") == b"application/epub+zip"
    parts = epub_parts(path)
    opf = etree.fromstring(next(data for name, data in parts.items() if name.endswith(".opf")))
    items = {item.get("href"): item for item in opf.iter("{*}item")}
    assert {f"EPUB/{href}" for href in items} == {name for name in parts if name.startswith("EPUB/")} - {
        "EPUB/content.opf"
    }
    assert any(item.get("properties") == "nav" for item in items.values())
    for name, data in parts.items():
        if name.endswith(".xhtml"):
            page = etree.fromstring(data)
            for image in page.iter("{*}img"):
                assert image.get("alt", "").strip()
                assert f"EPUB/{image.get('src')}" in parts
            for link in page.iter("{*}a"):
                file, _, anchor = link.get("href").partition("#")
                if not file.startswith("http"):
                    assert f"EPUB/{file}" in parts
                    assert not anchor or f'id="{anchor}"'.encode() in parts[f"EPUB/{file}"]


def test_pictures_have_words_in_word_documents(recipe, tmp_path: Path) -> None:
    document = Document(str(export(recipe, tmp_path / "out.docx").path))
    described = [node.get("descr") for node in document.element.body.iter() if node.tag.endswith("}docPr")]
    assert described == ["An odd name", "A red roof"]


@pytest.mark.slow
def test_pictures_are_sized_for_the_page_unless_originals_are_wanted(
    make_board, pictures, tmp_path: Path
) -> None:
    Image.effect_noise((4000, 3000), 60).convert("RGB").save(tmp_path / "large.jpg")
    large = pictures["turned"].model_copy(
        update={
            "id": sha256_of(tmp_path / "large.jpg"),
            "paths": (str(tmp_path / "large.jpg"),),
            "width_px": 4000,
            "height_px": 3000,
        }
    )
    board = make_board(["One step."], swap=large)
    for originals, most in ((False, 2000), (True, 4000)):
        plan = Plan(originals=originals, layout="recipe")
        book = PdfReader(export(board, tmp_path / f"{originals}.pdf", plan=plan).path)
        wide = max(image.image.width for page in book.pages for image in page.images)
        assert wide == 4000 if originals else wide < most
    done = export(board, tmp_path / "whole.md", plan=Plan(originals=True))
    assert done.pictures[0].read_bytes() == (tmp_path / "large.jpg").read_bytes()
    with Image.open(io.BytesIO(export(board, tmp_path / "small.md").pictures[0].read_bytes())) as copy:
        assert copy.width < 2000


def test_a_picture_of_the_text_that_is_not_there_is_said_and_stops_nothing(pictures, tmp_path: Path) -> None:
    board = board_of(RECIPE.replace("## Ingredients", "![Hero](gone.jpg)\n\n## Ingredients"), pictures)
    for suffix in (".html", ".pdf", ".docx", ".epub", ".pptx"):
        done = export(board, tmp_path / f"out{suffix}")
        assert [line for line in done.warnings if "gone.jpg" in line]


def test_json_is_complete_whatever_is_asked_for(recipe, tmp_path: Path) -> None:
    export(recipe, tmp_path / "out.json", plan=Plan(include="steps"))
    assert load(tmp_path / "out.json") == recipe
    assert recipe.story.between


def test_older_storyboards_load_and_their_titles_stand_once(recipe, tmp_path: Path) -> None:
    older = recipe.model_dump(mode="json")
    del older["story"]["between"]
    for step in older["story"]["steps"]:
        del step["parts"]
    board = Board.model_validate(older)
    words = words_of(export(board, tmp_path / "out.html").path)
    assert words.count("Method") == 1
    assert "Mix all softly." in words


def test_words_changed_since_they_were_read_win_over_their_markup(recipe, tmp_path: Path) -> None:
    steps = recipe.story.steps
    edited = (steps[0].model_copy(update={"text": "Mix nothing."}), *steps[1:])
    board = recipe.model_copy(update={"story": recipe.story.model_copy(update={"steps": edited})})
    words = words_of(export(board, tmp_path / "out.html").path)
    assert "Mix nothing." in words
    assert "softly" not in words


def test_links_that_run_something_are_words(pictures, tmp_path: Path) -> None:
    text = "# T\n\n1. See [this](javascript:alert(1)) now.\n2. And [that](https://example.org/).\n"
    page = export(board_of(text, pictures), tmp_path / "out.html").path.read_text()
    assert "javascript:" not in page
    assert re.search(r'<a href="https://example\.org/"[^>]*>that</a>', page)
