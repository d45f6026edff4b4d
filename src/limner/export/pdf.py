"""The storyboard as a PDF book: a cover, a page per step, and the pictures' credits with the reasons.

For printing and sending. Text is shaped and ordered for every script, fonts are embedded, pictures
carry alternative texts; characters no font holds are shown as U+FFFD and reported.
"""

import io
import struct
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast

import matplotlib
from fontTools.ttLib import TTFont, TTLibError  # type: ignore[import-untyped]
from fpdf import FPDF
from fpdf.fonts import TTFFont
from matplotlib import font_manager

from limner.export.targets import whole
from limner.export.wording import alt_text, credit_line, explain, file_name, paragraphs, story_credits
from limner.pages import carried, forbidden
from limner.pictures.thumbnails import shrink
from limner.records import BoardStep, Storyboard

REPLACEMENT = "\ufffd"


@dataclass(frozen=True)
class Face:
    """One font file.

    Attributes:
        path: the file.
        number: face within a collection, 0 elsewhere.
    """

    path: Path
    number: int = 0


@dataclass(frozen=True)
class Cover:
    """Fonts for a set of characters.

    Attributes:
        faces: fallback fonts, in the order to try them.
        missing: characters no installed font can draw.
    """

    faces: tuple[Face, ...]
    missing: frozenset[str]


def dejavu(name: str) -> Path:
    """A font of the DejaVu family in matplotlib's data.

    Args:
        name: such as DejaVuSans or DejaVuSerif-Italic.
    """
    return Path(matplotlib.get_data_path()) / "fonts" / "ttf" / f"{name}.ttf"


def visible(text: str) -> set[str]:
    """The characters of a text that need a glyph: no spaces, controls, joiners or direction marks."""
    return {
        letter
        for letter in text
        if unicodedata.category(letter) not in ("Cc", "Cf", "Zs", "Zl", "Zp")
        and not 0xFE00 <= ord(letter) <= 0xFE0F
    }


def cover(characters: set[str], first: Iterable[Face], others: Iterable[Face] | None = None) -> Cover:
    """Fallback fonts that together hold as many of the characters as can be held.

    Args:
        characters: those that are needed.
        first: fonts that are used anyway.
        others: fonts to fall back on; those of the system if None, looked at only if needed.
    """
    left = {ord(letter) for letter in characters}
    for face in first:
        left -= _points(face)
    chosen: list[Face] = []
    if left:
        for face in system() if others is None else others:
            held = left & _points(face)
            if held:
                chosen.append(face)
                left -= held
            if not left:
                break
    return Cover(tuple(chosen), frozenset(map(chr, left)))


def system() -> list[Face]:
    """Font files of this system with outlines to embed, plain weights first, in a stable order."""

    def rank(path: str) -> tuple[bool, bool, str]:
        name = Path(path).stem.lower()
        marked = any(word in name for word in ("bold", "italic", "oblique", "light", "thin", "black", "mono"))
        return "lastresort" in name, marked, path

    return [
        Face(Path(path))
        for path in sorted(font_manager.findSystemFonts(), key=rank)
        if "lastresort" not in path.lower()
    ]


def _points(face: Face) -> set[int]:
    """Code points a font can draw with outlines; none for a file that is no usable font."""
    if face.path.suffix.lower() not in (".ttf", ".otf", ".ttc", ".otc"):
        return set()
    try:
        # Opened here, for fontTools leaves a damaged file open.
        with face.path.open("rb") as file, TTFont(file, fontNumber=face.number, lazy=True) as font:
            if "cmap" not in font or not ("glyf" in font or "CFF " in font):
                return set()
            return set(font.getBestCmap() or ())
    except (TTLibError, OSError, KeyError, ValueError, AssertionError, struct.error):
        # A damaged font of the system is no reason to fail: another may hold the character, and
        # if none does the caller is told.
        return set()


if TYPE_CHECKING:
    pass

PICTURE_AREA_PX = 1_600_000
PAGE_W_MM, PAGE_H_MM = 210.0, 297.0
MARGIN_MM = 22.0
FOOT_MM = 20.0
INNER_MM = PAGE_W_MM - 2 * MARGIN_MM
PICTURE_MM = (70.0, 165.0)
"""Least and greatest height kept for a picture; the text decides within it."""

PT_MM = 25.4 / 72
INK, SOFT, RUBRIC, TINT = (29, 27, 26), (94, 90, 85), (165, 36, 43), (242, 240, 234)
SERIF, SANS, ITALIC = "limnerserif", "limnersans", "limneritalic"
FILES = {SERIF: "DejaVuSerif", SANS: "DejaVuSans", ITALIC: "DejaVuSerif-Italic"}


def write_pdf(board: Storyboard, out: Path) -> tuple[str, ...]:
    """Write the book.

    Args:
        board: the storyboard.
        out: the .pdf file; checked by the caller.
    Returns:
        warnings.
    Raises:
        DataError: a picture is not there or cannot be read.
    """
    texts = list(_texts(board))
    faces = [Face(dejavu(name)) for name in FILES.values()]
    # The sans face holds all that the serif faces hold, and more scripts.
    found = cover(visible("".join(map(carried, texts))), [Face(dejavu(FILES[SANS]))])
    warnings = list(forbidden(board.story))
    if found.missing:
        count = sum(text.count(letter) for text in texts for letter in found.missing)
        named = ", ".join(f"U+{ord(letter):04X}" for letter in sorted(found.missing)[:8])
        more = f" and {len(found.missing) - 8} others" if len(found.missing) > 8 else ""
        warnings.append(
            f"{count} character{'s' if count > 1 else ''} that no font on this machine can draw, shown as"
            f" {REPLACEMENT}: {named}{more}; install a font for the script and export again"
        )
    book = _Book(board, faces, found.faces, found.missing)
    try:
        book.cover()
        for step in board.steps:
            book.step(step)
        book.ending()
        with whole(out) as draft:
            book.pdf.output(str(draft))
    finally:
        book.close()
    return (*warnings, *book.warnings)


def _texts(board: Storyboard) -> Iterator[str]:
    """Every text that the book sets."""
    story = board.story
    yield from (story.title, story.author, *(value for _, value in story_credits(story)))
    for step, text in zip(board.steps, story.steps, strict=True):
        yield from (text.title, text.text, *explain(step).lines())
        if step.chosen is not None:
            yield from (credit_line(step.chosen.picture), file_name(step.chosen.picture))
    yield from (board.library, board.decoder, board.version)


class _Book:
    """The pages being set."""

    def __init__(
        self, board: Storyboard, faces: list[Face], others: tuple[Face, ...], missing: frozenset[str]
    ) -> None:

        story = board.story
        self.board = board
        self.warnings: list[str] = []
        self.holes = str.maketrans(dict.fromkeys(missing, REPLACEMENT))
        self.rtl = story.direction == "rtl"
        running = self.clean(story.title)

        class Pages(FPDF):
            def footer(self) -> None:
                if self.page_no() > 1:
                    self.set_y(-14)
                    self.set_font(SANS, size=7.5)
                    self.set_text_color(*SOFT)
                    width = self.epw
                    title = running if self.get_string_width(running) < width * 0.8 else ""
                    self.cell(width / 2, 5, title)
                    self.cell(width / 2, 5, str(self.page_no()), align="R")

        self.pdf: FPDF = Pages(orientation="portrait", unit="mm", format=(PAGE_W_MM, PAGE_H_MM))
        pdf = self.pdf
        pdf.set_margins(MARGIN_MM, MARGIN_MM, MARGIN_MM)
        pdf.set_auto_page_break(auto=True, margin=FOOT_MM)
        for family, face in zip(FILES, faces, strict=True):
            pdf.add_font(family, fname=face.path)
        for place, face in enumerate(others):
            pdf.add_font(f"limnerother{place}", fname=face.path, collection_font_number=face.number)
        pdf.set_fallback_fonts(
            [SANS, *(f"limnerother{place}" for place in range(len(others)))], exact_match=False
        )
        pdf.set_text_shaping(True)
        pdf.set_title(carried(story.title.strip() or story.id))
        pdf.set_author(carried(story.author))
        pdf.set_lang(story.language)
        pdf.set_creator(f"limner {board.version}".strip())

    def close(self) -> None:
        """Let go of the font files, which fpdf2 keeps open."""
        for font in self.pdf.fonts.values():
            if isinstance(font, TTFFont):
                font.close()

    def clean(self, text: str) -> str:
        """One line of text with the characters that can be drawn."""
        return " ".join(carried(text).translate(self.holes).split())

    def write(
        self,
        text: str,
        family: str,
        size_pt: float,
        colour: tuple[int, int, int],
        *,
        align: str = "",
        leading: float = 1.4,
    ) -> None:
        """One paragraph below the last; empty text takes no room."""
        words = self.clean(text)
        if not words:
            return
        self.pdf.set_font(family, size=size_pt)
        self.pdf.set_text_color(*colour)
        self.pdf.multi_cell(
            0,
            size_pt * PT_MM * leading,
            words,
            align=align or ("R" if self.rtl else "L"),
            new_x="LMARGIN",
            new_y="NEXT",
        )

    def height(self, text: str, family: str, size_pt: float, leading: float) -> float:
        """Height in mm that `write` would take."""
        words = self.clean(text)
        if not words:
            return 0.0
        self.pdf.set_font(family, size=size_pt)
        taken = self.pdf.multi_cell(0, size_pt * PT_MM * leading, words, dry_run=True, output="HEIGHT")
        return float(cast(float, taken))

    def rule(self, x_mm: float, width_mm: float) -> None:
        """A short red rule."""
        self.pdf.set_draw_color(*RUBRIC)
        self.pdf.set_line_width(0.5)
        self.pdf.line(x_mm, self.pdf.get_y(), x_mm + width_mm, self.pdf.get_y())

    def cover(self) -> None:
        """Title, author and the licence of the text."""
        story, pdf = self.board.story, self.pdf
        pdf.add_page()
        pdf.start_section("Cover")
        pdf.set_y(PAGE_H_MM * 0.3)
        title = story.title.strip() or story.id
        self.write(title, SERIF, 34 if len(title) < 40 else 24, INK, align="C", leading=1.2)
        pdf.ln(9)
        self.rule(PAGE_W_MM / 2 - 9, 18)
        pdf.ln(8)
        self.write(story.author, ITALIC, 14, SOFT, align="C")

    def step(self, step: BoardStep) -> None:
        """A page with picture and text; a long text goes on over further pages."""
        pdf, text = self.pdf, self.board.story.steps[step.position]
        words = len(text.text.split())
        size, leading = (17.0, 1.5) if words <= 40 else (13.0, 1.55) if words <= 130 else (11.0, 1.55)
        pieces = [line for block in paragraphs(text.text) for line in block.split("\n") if line.strip()]
        pdf.add_page()
        pdf.start_section(self.clean(f"{step.position + 1} {text.title}"))
        needed = sum(self.height(piece, SERIF, size, leading) + 2.2 for piece in pieces)
        needed += self.height(text.title, SERIF, 18, 1.25) + 22
        low, high = PICTURE_MM
        room = PAGE_H_MM - MARGIN_MM - FOOT_MM
        self.picture(step, min(high, max(low, room - needed)))
        self.write(str(step.position + 1), SERIF, 12, RUBRIC, leading=1.6)
        if text.title.strip():
            self.write(text.title, SERIF, 18, INK, leading=1.25)
            pdf.ln(2.5)
        for piece in pieces:
            self.write(piece, SERIF, size, INK, leading=leading)
            pdf.ln(2.2)

    def picture(self, step: BoardStep, height_mm: float) -> None:
        """The picture with its credit, or the blank with its reason, at the top of a page."""
        pdf = self.pdf
        top = pdf.get_y()
        if step.chosen is None:
            tall = min(height_mm, 70.0)
            pdf.set_fill_color(*TINT)
            pdf.rect(MARGIN_MM, top, INNER_MM, tall, style="F")
            pdf.set_y(top + tall / 2 - 9)
            self.write("No picture here.", ITALIC, 13, INK, align="C")
            pdf.set_left_margin(MARGIN_MM + 25)
            pdf.set_right_margin(MARGIN_MM + 25)
            self.write(step.reason, SANS, 8.5, SOFT, align="C")
            pdf.set_left_margin(MARGIN_MM)
            pdf.set_right_margin(MARGIN_MM)
            pdf.set_y(max(pdf.get_y(), top + tall) + 8)
            return
        where = f"step {step.position + 1}"
        copy = shrink(step.chosen.picture, where, area_px=PICTURE_AREA_PX, kind="JPEG", quality=88)
        self.warnings += copy.warnings
        scale = min(INNER_MM / copy.width_px, height_mm / copy.height_px)
        wide, high = copy.width_px * scale, copy.height_px * scale
        pdf.image(
            io.BytesIO(copy.data),
            x=MARGIN_MM + (INNER_MM - wide) / 2,
            y=top,
            w=wide,
            h=high,
            alt_text=carried(alt_text(step, self.board.story)),
        )
        pdf.set_y(top + high + 1.6)
        credit = credit_line(step.chosen.picture)
        if step.origin in ("pinned", "given"):
            credit = f"{explain(step).origin} · {credit}"
        self.write(credit, SANS, 7.5, SOFT, align="C")
        pdf.ln(6)

    def ending(self) -> None:
        """Credits and reasons, step by step, and how the book was made."""
        pdf, board = self.pdf, self.board
        rtl, self.rtl = self.rtl, False
        pdf.add_page()
        pdf.start_section("Pictures")
        self.write("Pictures", SERIF, 20, INK)
        pdf.ln(2)
        self.rule(MARGIN_MM, 18)
        pdf.ln(5)
        for step in board.steps:
            head = f"{step.position + 1}  No picture"
            if step.chosen is not None:
                head = f"{step.position + 1}"
                head += f"  {credit_line(step.chosen.picture)} · {file_name(step.chosen.picture)}"
            if pdf.will_page_break(18):
                pdf.add_page()
            self.write(head, SANS, 8.5, INK)
            for line in explain(step).lines():
                self.write(line, SANS, 7.5, SOFT)
            pdf.ln(2.6)
        pdf.ln(3)
        for name, value in story_credits(board.story):
            self.write(f"{name}: {value}", SANS, 8.5, INK)
        made = f"limner {board.version}".strip()
        library = f" from the library {board.library}" if board.library else ""
        self.write(f"Pictures chosen{library} with {made}, decoder {board.decoder}.", SANS, 7.5, SOFT)
        self.rtl = rtl
