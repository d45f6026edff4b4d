"""Word and slides: their own lists, styles and order of elements, and nothing off a slide or lost."""

import shutil
import subprocess
from pathlib import Path

import pytest
from docx import Document
from docx.oxml.ns import qn
from exports import board_of, item
from pptx import Presentation
from pypdf import PdfReader

from limner.export import Plan, export
from limner.records import Block, Mark

ORDER = {
    "pPr": "pStyle keepNext numPr bidi spacing ind contextualSpacing jc outlineLvl rPr",
    "rPr": "rStyle rFonts b bCs i iCs strike color spacing kern sz szCs u vertAlign rtl lang",
    "tblPr": "tblStyle bidiVisual tblW jc tblLayout tblLook",
    "tcPr": "tcW shd",
    "trPr": "cantSplit tblHeader",
}
"""Elements that limner writes, in the order of the format; Word repairs a file with another order."""


@pytest.mark.parametrize("name", ["recipe", "travels", "arabic_board"])
def test_elements_of_a_word_document_are_in_their_order(request, tmp_path: Path, name: str) -> None:
    board = request.getfixturevalue(name)
    made = Document(export(board, tmp_path / "out.docx").path)
    stated = made.core_properties
    assert (stated.title, stated.author, stated.last_modified_by) == (
        board.story.title,
        board.story.author,
        "",
    )
    for element in made.element.body.iter():
        kind = element.tag.rpartition("}")[2]
        if kind in ORDER:
            inside = [child.tag.rpartition("}")[2] for child in element]
            assert inside == sorted(set(inside), key=ORDER[kind].split().index)
        if kind == "tc":
            assert element[-1].tag == qn("w:p")


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("soffice") is None, reason="LibreOffice (soffice) is not installed")
@pytest.mark.parametrize("suffix", [".docx", ".pptx"])
def test_libreoffice_opens_and_prints_them(recipe, travels, arabic_board, tmp_path, suffix: str) -> None:
    for name, board in enumerate((recipe, travels, arabic_board)):
        path = export(board, tmp_path / f"{name}{suffix}").path
        home = f"-env:UserInstallation=file://{tmp_path}/home"
        command = ["soffice", home, "--headless", "--convert-to", "pdf", "--outdir", str(tmp_path), str(path)]
        subprocess.run(command, check=True, capture_output=True, timeout=120)
        book = PdfReader(path.with_suffix(".pdf"))
        chosen = sum(step.picture is not None for step in board.steps)
        assert sum(len(page.images) for page in book.pages) >= chosen
        assert len(book.pages) >= (len(board.steps) if suffix == ".pptx" else 1)


def test_headings_and_lists_are_those_of_word_with_the_authors_numbers(tmp_path: Path) -> None:
    texts = ["Cut.", "Along.", "Across.", "Glue.", "Wood.", "Go."]
    blocks = map(item, texts, (1, 1, 2, 2, 1, 4), (1, 2, 2, 1, 2, 1))
    heading = Block(kind="heading", level=3, text="Needed")
    board = board_of(heading, *blocks, item("a saw"), [Block(text="Saw it.")])
    lines = {line.text: line for line in Document(export(board, tmp_path / "out.docx").path).paragraphs}
    assert lines["Needed"].style.name == "Heading 2"  # a level less: the title has the first
    assert lines["a saw"].style.name == "List Bullet"
    assert lines["Along."].style.name == "List Number 2"
    outer, inner, same, again, other, apart = (lines[text]._p.pPr.numPr.numId.val for text in texts)
    assert outer == again
    assert inner == same
    assert len({outer, inner, other, apart}) == 4


def test_letters_of_every_script_have_weight_and_direction(tmp_path: Path) -> None:
    marked = Block(text="أغلق الصمام USB الآن.", marks=(Mark(start=0, end=4, kind="strong"),))
    board = board_of([Block(text="Press USB once."), marked], direction="rtl", language="ar")
    made = Document(export(board, tmp_path / "out.docx").path)
    assert next(run for line in made.paragraphs for run in line.runs if run.text == "أغلق").font.cs_bold
    turned = {line.text for line in made.paragraphs if line._p.findall(f".//{qn('w:bidi')}")}
    assert "أغلق الصمام USB الآن." in turned
    assert "Press USB once." not in turned


def test_heads_of_tables_are_repeated_and_pictures_fit_their_cells(recipe, tmp_path: Path) -> None:
    made = Document(export(recipe, tmp_path / "out.docx", plan=Plan(layout="recipe")).path)
    assert len(made.element.body.findall(f".//{qn('w:tblHeader')}")) == 1
    grids = [table for table in made.tables if table._tbl.findall(f".//{qn('w:drawing')}")]
    assert len(grids) == 2
    for cell in (cell for grid in grids for cell in grid.rows[0].cells):
        across = [int(extent.get("cx")) for extent in cell._tc.findall(f".//{qn('wp:extent')}")]
        assert all(0 < width <= cell.width for width in across)


def _apart(one, other) -> bool:
    """Whether two shapes of a slide do not cover each other."""
    beside = one.left >= other.left + other.width or other.left >= one.left + one.width
    return beside or one.top >= other.top + other.height or other.top >= one.top + one.height


def test_nothing_is_off_a_slide_stretched_or_covered(board, travels, arabic_board, tmp_path: Path) -> None:
    for name, each in enumerate((board, travels, arabic_board)):
        show = Presentation(export(each, tmp_path / f"{name}.pptx").path)
        for slide in show.slides:
            shown = [shape for shape in slide.shapes if shape.top >= 0]
            for shape in shown:
                assert 0 <= shape.left <= show.slide_width - shape.width
                assert shape.top + shape.height <= show.slide_height
            for picture in (shape for shape in shown if shape.name == "Picture"):
                wide, high = picture.image.size
                assert picture.width / picture.height == pytest.approx(wide / high, rel=0.02)
                others = [shape for shape in shown if shape.name in ("Text", "Picture") and shape != picture]
                assert all(_apart(picture, other) for other in others)
        places = {shape.name: shape.left for shape in show.slides[1].shapes}
        assert each is travels or (places["Picture"] < places["Text"]) == (each is board)


def test_every_slide_has_a_title_and_long_text_goes_on(make_board, tmp_path: Path) -> None:
    text = "\n\n".join(f"Sentence {number} says little. " * 40 for number in range(12))
    path = export(make_board([text]), tmp_path / "out.pptx").path
    slides = [{shape.name: shape for shape in slide.shapes} for slide in Presentation(path).slides]
    assert all(slide["Title 1"].text_frame.text for slide in slides)
    assert len(slides) > 4
    words = " ".join(slide["Text"].text_frame.text for slide in slides if "Text" in slide)
    assert words.split() == text.split()
