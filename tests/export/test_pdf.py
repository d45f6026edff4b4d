"""PDF: tagged for those who cannot see, words in any script, no character lost unsaid, no text as code."""

import unicodedata
from pathlib import Path
from unittest import mock

import matplotlib
import pytest
from exports import alts_of, board_of, printed_sizes, words_of
from hypothesis import given, settings
from hypothesis import strategies as st
from pypdf import PdfReader

from limner.export import LAYOUTS, Plan, export
from limner.export.pdf import FONTS, missing, page_images, undrawn
from limner.records import Block, Mark, Passage

UNDRAWABLE = "\U0010fffd"
ONLY_IN_SYMBOLS = "\u23b4"
"""A character that STIXGeneral holds and DejaVu does not."""


@pytest.mark.parametrize("layout", LAYOUTS[".pdf"])
@pytest.mark.parametrize("with_reasons", [False, True])
def test_a_file_is_tagged_as_pdf_ua_requires(recipe, board, tmp_path: Path, layout, with_reasons) -> None:
    levels = [Block(kind="heading", text=f"L{level}", level=level) for level in (5, 2, 6, 3)]
    for made in (recipe, board, board_of(*levels, [Block(text="Words.")])):
        plan = Plan(layout=layout, with_reasons=with_reasons)
        done = export(made, tmp_path / "out.pdf", plan=plan, overwrite=True)
        assert done.warnings == ()
        assert b"pdfuaid:part" in done.path.read_bytes()
        assert PdfReader(done.path).metadata.title == made.story.title


def test_what_pdf_ua_forbids_is_said_and_stops_nothing(tmp_path: Path) -> None:
    marks = (Mark(start=0, end=3, kind="struck"), Mark(start=0, end=3, kind="link", target="https://x.org"))
    done = export(board_of([Block(text="Old shop", marks=marks)]), tmp_path / "out.pdf")
    assert "does not meet PDF/UA" in done.warnings[0]
    assert "Old shop" in words_of(done.path)


def test_a_preview_is_its_pages(recipe) -> None:
    pages = page_images(recipe, Plan(layout="book"))
    assert len(pages) == 1 + 1 + 3 + 1  # cover, what is before the steps, steps, notes
    assert {page[:4] for page in pages} == {b"\x89PNG"}


def test_arabic_is_shaped_and_extractable(arabic_board, tmp_path: Path) -> None:
    done = export(arabic_board, tmp_path / "ar.pdf")
    assert done.warnings == ()
    # Words may come out in visual order; within a word the letters are those of the text.
    shown = unicodedata.normalize("NFKC", words_of(done.path))
    assert [word for word in arabic_board.story.steps[0].text.rstrip(".").split() if word not in shown] == []


def test_long_text_goes_on_and_is_whole(make_board, tmp_path: Path) -> None:
    words = [f"word{number}" for number in range(1500)]
    done = export(make_board([" ".join(words)]), tmp_path / "out.pdf", plan=Plan(layout="book"))
    assert len(PdfReader(done.path).pages) > 4
    assert [word for word in words_of(done.path).split() if word.startswith("word")] == words


@pytest.mark.slow
@settings(max_examples=8, deadline=None)
@given(text=st.text(min_size=1, max_size=60).filter(str.strip), title=st.text(max_size=20))
def test_odd_texts_are_set_or_reported(make_board, tmp_path_factory, text: str, title: str) -> None:
    # Without the system's fonts, of which there may be thousands.
    with mock.patch("limner.export.pdf.system_fonts", tuple):
        done = export(make_board([text], title=title), tmp_path_factory.mktemp("odd") / "out.pdf")
    private = any(unicodedata.category(letter) in ("Cn", "Co") for letter in text)
    assert not private or done.warnings


def test_characters_without_a_font_are_named(make_board, reference, tmp_path: Path) -> None:
    (warning,) = export(make_board([f"a{UNDRAWABLE}b{UNDRAWABLE}"]), tmp_path / "out.pdf").warnings
    assert warning.startswith("2 characters that no font on this machine can draw")
    assert "a\ufffdb\ufffd" in words_of(tmp_path / "out.pdf")
    shown = Block(kind="picture", pictures=(reference("odd", alt=f"Odd {UNDRAWABLE}"),))
    done = export(board_of([Block(text="One step."), shown]), tmp_path / "read.pdf")
    assert (done.warnings, alts_of(done.path)) == ((), [f"Odd {UNDRAWABLE}"])


def test_fonts_of_the_system_are_asked_only_where_ours_do_not_do(monkeypatch, tmp_path: Path) -> None:
    symbols = Path(matplotlib.get_data_path(), "fonts", "ttf", "STIXGeneral.ttf")
    (tmp_path / "damaged.ttf").write_bytes(b"\0\1\0\0 not a font")
    letters = {"a", "\u05d0", ONLY_IN_SYMBOLS, UNDRAWABLE}
    assert undrawn(letters, FONTS / "DejaVuSans.ttf") == {ONLY_IN_SYMBOLS, UNDRAWABLE}
    assert undrawn(letters, symbols) == {"\u05d0", UNDRAWABLE}
    assert undrawn(letters, tmp_path / "damaged.ttf") == undrawn(letters, tmp_path / "gone.ttf") == letters
    asked = []
    monkeypatch.setattr("limner.export.pdf.system_fonts", lambda: asked.append(1) or [(symbols, 0)])
    assert missing({"a", "\u05d0", "\u0634"}) == (set(), False)
    assert not asked
    assert missing({ONLY_IN_SYMBOLS, UNDRAWABLE}) == ({UNDRAWABLE}, True)


MARKUP = '#panic("x") $x^2$ *b* _i_ `r` @ref <lab> \\u{41} // c /* d */ #include "/etc/passwd" [#(1+1)] ~ "q"'


@pytest.mark.parametrize("layout", LAYOUTS[".pdf"])
def test_nothing_of_a_text_is_code_or_markup(reference, tmp_path: Path, layout) -> None:
    kinds = ("heading", "item", "code", "paragraph")
    blocks = [Block(kind=kind, text=MARKUP, depth=kind == "item") for kind in kinds]
    table = Block(kind="table", rows=((Passage(text=MARKUP), Passage()), (Passage(text=MARKUP),)), head=1)
    shown = Block(kind="picture", pictures=(reference("odd", alt=MARKUP, caption=MARKUP),))
    board = board_of(*blocks, table, [Block(text=f"= {MARKUP}"), shown], title=f"T {MARKUP}")
    path = export(board, tmp_path / "out.pdf", plan=Plan(layout=layout)).path
    assert "".join(words_of(path).split()).count("".join(MARKUP.split())) >= 9
    assert alts_of(path) == [MARKUP]
    assert PdfReader(path).metadata.title == f"T {MARKUP}"


def test_words_longer_than_a_line_are_broken(make_board, tmp_path: Path) -> None:
    book = PdfReader(export(make_board(["x" * 400]), tmp_path / "out.pdf", plan=Plan(layout="book")).path)
    lines = [line for line in book.pages[1].extract_text().split("\n") if line.startswith("x")]
    assert sum(map(len, lines)) == 400
    assert len(lines) > 3


def test_pictures_among_the_words_stay_in_their_column(travels, tmp_path: Path) -> None:
    for layout in LAYOUTS[".pdf"]:
        path = export(travels, tmp_path / f"{layout}.pdf", plan=Plan(layout=layout)).path
        widths = [inches for _, inches in printed_sizes(path)]
        column = float(PdfReader(path).pages[0].mediabox.width) / 72 * (0.5 if layout == "book" else 0.91)
        assert len(widths) == 6
        assert max(widths[1:]) <= column * 1.1  # the first stands on a page without columns
