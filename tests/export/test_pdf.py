"""PDF: pages, pictures with their words, extractable text in any script, and no character lost unsaid."""

import os
import shutil
import subprocess
import sys
import unicodedata
from pathlib import Path
from unittest import mock

import matplotlib
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pypdf import PdfReader

from limner.export import Plan
from limner.export import export as write
from limner.export.pdf import undrawable
from limner.export.typefaces import FOLDER, missing, undrawn, visible
from limner.export.wording import first_words
from limner.records import Between, Part, Passage


def export(board, out, **more):
    """All that the format can tell, so that every part of it is looked at."""
    return write(board, out, plan=Plan(with_reasons=True, originals=True, layout="book"), **more)


def beside(name: str) -> Path:
    """A font that does not come with limner: one of matplotlib's."""
    return Path(matplotlib.get_data_path()) / "fonts" / "ttf" / f"{name}.ttf"


UNDRAWABLE = "\U0010fffd"


def squeezed(text: str) -> str:
    return " ".join(text.split())


@pytest.fixture(scope="module")
def book(board, tmp_path_factory) -> PdfReader:
    return PdfReader(export(board, tmp_path_factory.mktemp("book") / "out.pdf").path)


def test_cover_steps_and_credits(book: PdfReader, board) -> None:
    pages = [squeezed(page.extract_text()) for page in book.pages]
    assert len(pages) == 1 + len(board.steps) + 1
    assert pages[0] == "The red roof Ana & Co"
    for page, step in zip(pages[1:], board.story.steps, strict=False):
        assert squeezed(step.text) in page
    assert "A wall" in pages[2]
    assert "Pinned by hand" in pages[2]
    assert "No picture is likely enough." in pages[4]
    for part in (
        "Ana Lima · CC BY 4.0 · turned.jpg",
        "Probability that this picture fits: 80 % (fits).",
        "clear.png (40 %)",
        "4 No picture",
    ):
        assert part in pages[-1]


def test_pictures_one_per_step(book: PdfReader) -> None:
    sizes = [[image.image.size for image in page.images] for page in book.pages]
    assert sizes == [[], [(200, 300)], [(160, 120)], [(200, 150)], [], [(900, 60)], [(40, 700)], []]
    assert b"SECRET" not in book.pages[1].images[0].data


def alternatives(book: PdfReader) -> list[str]:
    """Alternative texts of the structure tree."""
    found: list[str] = []

    def walk(node: object) -> None:
        node = node.get_object() if hasattr(node, "get_object") else node
        if isinstance(node, list):
            for child in node:
                walk(child)
        elif isinstance(node, dict):
            if "/Alt" in node:
                found.append(str(node["/Alt"]))
            walk(node.get("/K", []))

    walk(book.trailer["/Root"]["/StructTreeRoot"]["/K"])
    return found


def test_pictures_have_words(book: PdfReader, board) -> None:
    steps = [first_words(step.text) for step in board.story.steps]
    assert alternatives(book) == [
        "A red roof",
        steps[1],
        "Given words",
        steps[4],
        steps[5],
    ]


def titles(outline: list) -> list[str]:
    """Entries of an outline, those below others among them."""
    return [
        title
        for entry in outline
        for title in (titles(entry) if isinstance(entry, list) else [squeezed(entry.title)])
    ]


def test_title_language_and_outline(book: PdfReader, arabic_board, tmp_path: Path) -> None:
    assert book.metadata.title == "The red roof"
    assert book.metadata.author == "Ana & Co"
    assert titles(book.outline) == ["The red roof", "1.", "2 A wall", "3.", "4.", "5.", "6.", "Pictures"]
    arabic = PdfReader(export(arabic_board, tmp_path / "ar.pdf").path)
    assert arabic.trailer["/Root"]["/Lang"] == "ar"
    assert arabic.metadata.title == "السلحفاة"


def test_arabic_is_shaped_and_extractable(arabic_board, tmp_path: Path) -> None:
    done = export(arabic_board, tmp_path / "ar.pdf")
    assert done.warnings == ()
    book = PdfReader(done.path)
    # Words may come out in visual order; within a word the letters are those of the text.
    shown = unicodedata.normalize("NFKC", book.pages[1].extract_text())
    for word in arabic_board.story.steps[0].text.rstrip(".").split():
        assert word in shown


def test_undrawable_characters_are_counted(make_board, tmp_path: Path) -> None:
    done = export(make_board([f"a{UNDRAWABLE}b{UNDRAWABLE}"]), tmp_path / "out.pdf")
    assert len(done.warnings) == 1
    assert "2 characters" in done.warnings[0]
    assert "U+10FFFD" in done.warnings[0]
    assert "a\ufffdb\ufffd" in PdfReader(done.path).pages[1].extract_text()


def test_long_text_goes_on_and_is_whole(make_board, tmp_path: Path) -> None:
    words = [f"word{number}" for number in range(1500)]
    done = export(make_board([" ".join(words)]), tmp_path / "out.pdf")
    book = PdfReader(done.path)
    assert len(book.pages) > 4
    shown = " ".join(page.extract_text() for page in book.pages).split()
    assert [word for word in shown if word.startswith("word")][: len(words)] == words


@pytest.mark.slow
@settings(max_examples=8, deadline=None)
@given(text=st.text(min_size=1, max_size=60), title=st.text(max_size=20))
def test_odd_texts_are_set_or_reported(make_board, tmp_path_factory, text: str, title: str) -> None:
    # Without the system's fonts, of which there may be thousands.
    with mock.patch("limner.export.typefaces.system", tuple):
        done = export(make_board([text], title=title), tmp_path_factory.mktemp("odd") / "out.pdf")
    assert len(PdfReader(done.path).pages) == 3
    private = any(unicodedata.category(letter) in ("Cn", "Co") for letter in text)
    assert not private or done.warnings


def test_visible_needs_no_glyph_for_spaces_and_marks() -> None:
    assert visible("a b\u00a0\u200d\u200f\u202e\ufe0f\té葛\U000e0100ᠠ\u180b") == {"a", "b", "é", "葛", "ᠠ"}


def test_what_is_missing_is_said_by_script_and_what_holds_it() -> None:
    text = "ปิด葛かけ한"
    message = undrawable(text, set(text))
    assert all(one in message for one in ("7 characters", "Thai 3", "Japanese 2", "Han 1", "Korean 1"))
    assert "fonts-noto-cjk fonts-noto-core" in message
    assert "install" not in undrawable(UNDRAWABLE, {UNDRAWABLE})


ONLY_IN_SYMBOLS = "\u23b4"
"""A character that STIXGeneral holds and DejaVu does not."""


def test_a_font_says_what_it_cannot_draw(tmp_path: Path) -> None:
    symbols, damaged = beside("STIXGeneral"), tmp_path / "damaged.ttf"
    damaged.write_bytes(b"\0\1\0\0 not a font")
    letters = {"a", "\u05d0", ONLY_IN_SYMBOLS, UNDRAWABLE}
    assert undrawn(letters, FOLDER / "DejaVuSans.ttf") == {ONLY_IN_SYMBOLS, UNDRAWABLE}
    assert undrawn(letters, symbols) == {"\u05d0", UNDRAWABLE}
    assert undrawn(letters, damaged) == undrawn(letters, tmp_path / "gone.ttf") == letters


def test_fonts_of_the_system_are_asked_only_where_ours_do_not_do(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr(
        "limner.export.typefaces.system", lambda: asked.append(1) or [(beside("STIXGeneral"), 0)]
    )
    assert missing({"a", "\u05d0", "\u0634"}) == (set(), False)
    assert not asked
    assert missing({"a", ONLY_IN_SYMBOLS}) == (set(), True)
    assert missing({ONLY_IN_SYMBOLS, UNDRAWABLE}) == ({UNDRAWABLE}, True)


EXPORTS = """
import sys
from pathlib import Path
from limner.export import export
from limner.export.storyboard_json import load
print(export(load(Path(sys.argv[1])), Path(sys.argv[2])).warnings)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere fonts of a person lie in other folders")
def test_fonts_of_the_system_draw_what_ours_do_not(make_board, tmp_path: Path) -> None:
    stored = write(make_board([f"x {ONLY_IN_SYMBOLS}"]), tmp_path / "board.json").path
    fonts = tmp_path / ".local" / "share" / "fonts"
    fonts.mkdir(parents=True)
    shutil.copy(beside("STIXGeneral"), fonts)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "HOME": str(tmp_path)}
    environment.pop("XDG_DATA_HOME", None)
    command = [sys.executable, "-c", EXPORTS, str(stored), str(tmp_path / "out.pdf")]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    assert done.stdout.strip() == "()"
    assert f"x {ONLY_IN_SYMBOLS}" in PdfReader(tmp_path / "out.pdf").pages[1].extract_text()


MARKUP = '#panic("x") $x^2$ *b* _i_ `r` @ref <lab> \\u{41} // c /* d */ #include "/etc/passwd" [#(1+1)] ~ "q"'


@pytest.mark.parametrize("layout", ["book", "recipe", "article", "slides"])
def test_nothing_of_a_text_is_code_or_markup(make_board, tmp_path: Path, layout: str) -> None:
    board = make_board([f"= {MARKUP}", MARKUP], title=f"T {MARKUP}", alt=MARKUP)
    parts = tuple(Part(kind=kind, text=MARKUP) for kind in ("heading", "item", "code", "paragraph"))
    table = Part(kind="table", rows=((Passage(text=MARKUP), Passage()), (Passage(text=MARKUP),)), head=1)
    between = tuple(Between(before=2, **part.model_dump()) for part in (*parts, table))
    board = board.model_copy(update={"story": board.story.model_copy(update={"between": between})})
    book = PdfReader(write(board, tmp_path / "out.pdf", plan=Plan(layout=layout)).path)
    shown = "".join("".join(page.extract_text() for page in book.pages).split())
    assert shown.count("".join(MARKUP.split())) >= 8
    assert alternatives(book)[0] == MARKUP
    assert book.metadata.title == f"T {MARKUP}"


def test_words_that_are_read_out_need_no_font(make_board, tmp_path: Path) -> None:
    done = write(make_board(["One step."], alt=f"Odd {UNDRAWABLE}"), tmp_path / "out.pdf")
    assert done.warnings == ()
    assert alternatives(PdfReader(done.path)) == [f"Odd {UNDRAWABLE}"]


@pytest.mark.parametrize("letter", ["字", "x"])
def test_words_longer_than_a_line_are_broken(make_board, tmp_path: Path, letter: str) -> None:
    with mock.patch("limner.export.typefaces.system", tuple):
        book = PdfReader(export(make_board([letter * 400]), tmp_path / "out.pdf").path)
    shown = book.pages[1].extract_text()
    lines = [line for line in shown.split("\n") if line.startswith((letter, "\ufffd"))]
    assert sum(map(len, lines)) == 400
    assert len(lines) > 3


def test_signs_for_letters_that_no_font_has_stay_in_their_column(make_board, tmp_path: Path) -> None:
    with mock.patch("limner.export.typefaces.system", tuple):
        book = PdfReader(export(make_board(["字" * 22]), tmp_path / "out.pdf").path)
    lines = [line for line in book.pages[1].extract_text().split("\n") if line.startswith("\ufffd")]
    assert sum(map(len, lines)) == 22
    assert len(lines) > 1
