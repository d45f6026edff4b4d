"""The storyboard as a PDF book: a cover, a page per step, and the pictures' credits with the reasons.

For printing and sending. Text is shaped and ordered for every script, fonts are embedded, pictures
carry alternative texts; characters no font holds are shown as U+FFFD and reported.
"""

import io
import struct
import unicodedata
from pathlib import Path
from typing import cast

import matplotlib
from fontTools.ttLib import TTFont, TTLibError  # type: ignore[import-untyped]
from fpdf import FPDF
from fpdf.fonts import TTFFont
from matplotlib import font_manager

from limner.export.leaf import INK, RUBRIC, SOFT, TINT, Leaf, leaves, printed
from limner.export.targets import Exported, whole
from limner.export.wording import story_credits
from limner.records import Storyboard
from limner.templates import carried, forbidden

REPLACEMENT = "\ufffd"


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


def fallbacks(characters: set[str], first: Path) -> tuple[list[Path], set[str]]:
    """Fonts of the system, beside one that is used anyway, that hold as many characters as can be held.

    Args:
        characters: those that are needed.
        first: the font that is used anyway.
    Returns:
        the fonts in the order to try them, and the characters that no installed font can draw.
    """
    left = {ord(letter) for letter in characters} - _points(first)
    chosen: list[Path] = []
    for font in system() if left else ():
        held = left & _points(font)
        if held:
            chosen.append(font)
            left -= held
        if not left:
            break
    return chosen, set(map(chr, left))


def system() -> list[Path]:
    """Font files of this system with outlines to embed, plain weights first, in a stable order."""

    def rank(path: str) -> tuple[bool, str]:
        name = Path(path).stem.lower()
        marks = ("bold", "italic", "oblique", "light", "thin", "black", "mono")
        return any(mark in name for mark in marks), path

    found = (path for path in font_manager.findSystemFonts() if "lastresort" not in path.lower())
    return [Path(path) for path in sorted(found, key=rank)]


def _points(font: Path) -> set[int]:
    """Code points a font can draw with outlines; none for a file that is no usable font."""
    if font.suffix.lower() not in (".ttf", ".otf", ".ttc", ".otc"):
        return set()
    try:
        # Opened here, for fontTools leaves a damaged file open.
        with font.open("rb") as file, TTFont(file, fontNumber=0, lazy=True) as found:
            if "cmap" not in found or not ("glyf" in found or "CFF " in found):
                return set()
            return set(found.getBestCmap() or ())
    except (TTLibError, OSError, KeyError, ValueError, AssertionError, struct.error):
        # A damaged font of the system is no reason to fail: another may hold the character, and
        # if none does the caller is told.
        return set()


PAGE_W_MM, PAGE_H_MM = 210.0, 297.0
MARGIN_MM = 22.0
FOOT_MM = 20.0
INNER_MM = PAGE_W_MM - 2 * MARGIN_MM
PICTURE_MM = (70.0, 165.0)
"""Least and greatest height kept for a picture; the text decides within it."""

PT_MM = 25.4 / 72
SERIF, SANS, ITALIC = "limnerserif", "limnersans", "limneritalic"
FILES = {SERIF: "DejaVuSerif", SANS: "DejaVuSans", ITALIC: "DejaVuSerif-Italic"}


def write(board: Storyboard, out: Path) -> Exported:
    """Write the book.

    Args:
        board: the storyboard.
        out: the .pdf file; checked by the caller.
    Raises:
        DataError: a picture is not there or cannot be read.
    """
    book = _Book(board)
    try:
        book.cover()
        for leaf in book.leaves:
            book.step(leaf)
        book.ending()
        with whole(out) as draft:
            book.pdf.output(str(draft))
    finally:
        book.close()
    return Exported(out, warnings=tuple(book.warnings))


def _undrawable(texts: list[str], missing: set[str]) -> str:
    """The warning about characters that no font holds."""
    count = sum(text.count(letter) for text in texts for letter in missing)
    named = ", ".join(f"U+{ord(letter):04X}" for letter in sorted(missing)[:8])
    more = f" and {len(missing) - 8} others" if len(missing) > 8 else ""
    return (
        f"{count} character{'s' if count > 1 else ''} that no font on this machine can draw, shown as"
        f" {REPLACEMENT}: {named}{more}; install a font for the script and export again"
    )


class _Pages(FPDF):
    """Pages with the title and their number at the foot, the cover aside."""

    running = ""

    def footer(self) -> None:
        if self.page_no() > 1:
            self.set_y(-14)
            self.set_font(SANS, size=7.5)
            self.set_text_color(*SOFT)
            width = self.epw
            self.cell(width / 2, 5, self.running if self.get_string_width(self.running) < width * 0.8 else "")
            self.cell(width / 2, 5, str(self.page_no()), align="R")


class _Book:
    """The pages being set."""

    def __init__(self, board: Storyboard) -> None:
        story = board.story
        self.board, self.leaves = board, leaves(board)
        self.rtl = story.direction == "rtl"
        texts = [story.title, story.author, *(value for _, value in story_credits(story))]
        for leaf in self.leaves:
            texts += (leaf.text.title, leaf.text.text, *leaf.why.lines(), leaf.credit, leaf.file)
        texts += (board.library, board.decoder, board.version)
        # The sans face holds all that the serif faces hold, and more scripts.
        others, missing = fallbacks(visible("".join(map(carried, texts))), dejavu(FILES[SANS]))
        self.holes = str.maketrans(dict.fromkeys(missing, REPLACEMENT))
        self.warnings = [*forbidden(story), *([_undrawable(texts, missing)] if missing else [])]
        self.pdf = pdf = _Pages(orientation="portrait", unit="mm", format=(PAGE_W_MM, PAGE_H_MM))
        pdf.running = self.clean(story.title)
        pdf.set_margins(MARGIN_MM, MARGIN_MM, MARGIN_MM)
        pdf.set_auto_page_break(auto=True, margin=FOOT_MM)
        added = {f"limnerother{place}": font for place, font in enumerate(others)}
        for family, font in ({name: dejavu(file) for name, file in FILES.items()} | added).items():
            pdf.add_font(family, fname=font)
        pdf.set_fallback_fonts([SANS, *added], exact_match=False)
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

    def step(self, leaf: Leaf) -> None:
        """A page with picture and text; a long text goes on over further pages."""
        pdf, title = self.pdf, leaf.text.title
        words = len(leaf.text.text.split())
        size, leading = (17.0, 1.5) if words <= 40 else (13.0, 1.55) if words <= 130 else (11.0, 1.55)
        pdf.add_page()
        pdf.start_section(self.clean(f"{leaf.number} {title}"))
        needed = sum(self.height(line, SERIF, size, leading) + 2.2 for line in leaf.lines)
        needed += self.height(title, SERIF, 18, 1.25) + 22
        low, high = PICTURE_MM
        room = PAGE_H_MM - MARGIN_MM - FOOT_MM
        self.picture(leaf, min(high, max(low, room - needed)))
        self.write(str(leaf.number), SERIF, 12, RUBRIC, leading=1.6)
        if title.strip():
            self.write(title, SERIF, 18, INK, leading=1.25)
            pdf.ln(2.5)
        for line in leaf.lines:
            self.write(line, SERIF, size, INK, leading=leading)
            pdf.ln(2.2)

    def picture(self, leaf: Leaf, height_mm: float) -> None:
        """The picture with its credit, or the blank with its reason, at the top of a page."""
        pdf = self.pdf
        top = pdf.get_y()
        copy = printed(leaf)
        if copy is None:
            tall = min(height_mm, 70.0)
            pdf.set_fill_color(*TINT)
            pdf.rect(MARGIN_MM, top, INNER_MM, tall, style="F")
            pdf.set_y(top + tall / 2 - 9)
            self.write("No picture here.", ITALIC, 13, INK, align="C")
            pdf.set_left_margin(MARGIN_MM + 25)
            pdf.set_right_margin(MARGIN_MM + 25)
            self.write(leaf.step.reason, SANS, 8.5, SOFT, align="C")
            pdf.set_left_margin(MARGIN_MM)
            pdf.set_right_margin(MARGIN_MM)
            pdf.set_y(max(pdf.get_y(), top + tall) + 8)
            return
        self.warnings += copy.warnings
        scale = min(INNER_MM / copy.width_px, height_mm / copy.height_px)
        wide, high = copy.width_px * scale, copy.height_px * scale
        left = MARGIN_MM + (INNER_MM - wide) / 2
        pdf.image(io.BytesIO(copy.data), x=left, y=top, w=wide, h=high, alt_text=carried(leaf.alt))
        pdf.set_y(top + high + 1.6)
        self.write(leaf.caption, SANS, 7.5, SOFT, align="C")
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
        for leaf in self.leaves:
            credit = f"{leaf.credit} · {leaf.file}" if leaf.picture else "No picture"
            if pdf.will_page_break(18):
                pdf.add_page()
            self.write(f"{leaf.number}  {credit}", SANS, 8.5, INK)
            for line in leaf.why.lines():
                self.write(line, SANS, 7.5, SOFT)
            pdf.ln(2.6)
        pdf.ln(3)
        for name, value in story_credits(board.story):
            self.write(f"{name}: {value}", SANS, 8.5, INK)
        made = f"limner {board.version}".strip()
        library = f" from the library {board.library}" if board.library else ""
        self.write(f"Pictures chosen{library} with {made}, decoder {board.decoder}.", SANS, 7.5, SOFT)
        self.rtl = rtl
