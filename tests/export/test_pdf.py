"""PDF: pages, pictures with their words, extractable text in any script, and no character lost unsaid."""

import unicodedata
from pathlib import Path
from unittest import mock

import matplotlib
import pytest
from fontTools.ttLib import TTFont
from hypothesis import given, settings
from hypothesis import strategies as st
from pypdf import PdfReader

from limner.export import Plan, typefaces
from limner.export import export as write
from limner.export.typefaces import dejavu, fallbacks, visible


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
        "Chance that this picture fits: 80 % (fits).",
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


def test_pictures_have_words(book: PdfReader) -> None:
    assert alternatives(book) == [
        "A red roof",
        "Picture for step 2; no description",
        "Given words",
        "Picture for step 5; no description",
        "Picture for step 6; no description",
    ]


def test_title_language_and_outline(book: PdfReader, arabic_board, tmp_path: Path) -> None:
    assert book.metadata.title == "The red roof"
    assert book.metadata.author == "Ana & Co"
    assert [entry.title for entry in book.outline] == [
        "The red roof",
        "1",
        "2 A wall",
        "3",
        "4",
        "5",
        "6",
        "Pictures",
    ]
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


@pytest.mark.slow
def test_long_text_goes_on_and_is_whole(make_board, tmp_path: Path) -> None:
    words = [f"word{number}" for number in range(1500)]
    done = export(make_board([" ".join(words)]), tmp_path / "out.pdf")
    book = PdfReader(done.path)
    assert len(book.pages) > 4
    shown = " ".join(page.extract_text() for page in book.pages).split()
    assert [word for word in shown if word.startswith("word")][: len(words)] == words


@settings(max_examples=8, deadline=None)
@given(text=st.text(min_size=1, max_size=60), title=st.text(max_size=20))
def test_odd_texts_are_set_or_reported(make_board, tmp_path_factory, text: str, title: str) -> None:
    # Without the system's fonts, of which there may be thousands.
    with mock.patch("limner.export.typefaces.system", list):
        done = export(make_board([text], title=title), tmp_path_factory.mktemp("odd") / "out.pdf")
    assert len(PdfReader(done.path).pages) == 3
    private = any(unicodedata.category(letter) in ("Cn", "Co") for letter in text)
    assert not private or done.warnings


def test_visible_needs_no_glyph_for_spaces_and_marks() -> None:
    assert visible("a b\u00a0\u200d\u200f\u202e\ufe0f\té") == {"a", "b", "é"}


def only_in_symbols() -> str:
    """A visible character that STIXGeneral holds and DejaVu does not."""
    with TTFont(dejavu("DejaVuSans")) as sans, TTFont(beside("STIXGeneral")) as symbols:
        points = sorted(set(symbols.getBestCmap()) - set(sans.getBestCmap()))
    return next(
        chr(point) for point in points if unicodedata.category(chr(point)) in ("Sm", "So", "Lu", "Ll")
    )


def test_fonts_of_the_system_are_found_plain_ones_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("deep/B-Bold.ttf", "deep/C.otf", "a.TTC", "notes.txt", "LastResort.ttf"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    monkeypatch.setenv("WHERE", str(tmp_path))
    monkeypatch.setattr(typefaces, "FONT_FOLDERS", ("$WHERE", "$WHERE/gone", "$UNSET/Fonts"))
    assert [path.name for path in typefaces.system()] == ["a.TTC", "C.otf", "B-Bold.ttf"]


def test_only_fonts_that_help_are_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sans, mono, symbols = dejavu("DejaVuSans"), beside("DejaVuSansMono"), beside("STIXGeneral")
    damaged = tmp_path / "damaged.ttf"
    damaged.write_bytes(b"\0\1\0\0 not a font")
    monkeypatch.setattr("limner.export.typefaces.system", lambda: [damaged, mono, symbols])
    assert fallbacks({"a", only_in_symbols(), UNDRAWABLE}, sans) == ([symbols], {UNDRAWABLE})
    assert fallbacks({"a"}, sans) == ([], set())


def test_fallback_fonts_are_used(make_board, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    letter = only_in_symbols()
    monkeypatch.setattr("limner.export.typefaces.system", lambda: [])
    (said,) = export(make_board([f"x {letter}"]), tmp_path / "without.pdf").warnings
    assert f"U+{ord(letter):04X}" in said
    monkeypatch.setattr("limner.export.typefaces.system", lambda: [beside("STIXGeneral")])
    done = export(make_board([f"x {letter}"]), tmp_path / "with.pdf")
    assert done.warnings == ()
    assert f"x {letter}" in PdfReader(done.path).pages[1].extract_text()


@pytest.mark.parametrize("letter", ["字", "x"])
def test_words_longer_than_a_line_are_broken(make_board, tmp_path: Path, letter: str) -> None:
    with mock.patch("limner.export.typefaces.system", list):
        book = PdfReader(export(make_board([letter * 400]), tmp_path / "out.pdf").path)
    shown = book.pages[1].extract_text()
    lines = [line for line in shown.split("\n") if line.startswith((letter, "\ufffd"))]
    assert sum(map(len, lines)) == 400
    assert len(lines) > 3
