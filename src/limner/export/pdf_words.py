"""Words on the pages of a PDF: the faces they are set in, and lines with their styles and links.

The faces of a file are chosen here, once, from what the whole text needs; a character that no face holds is
shown as U+FFFD and reported.
"""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, cast

from fpdf.fonts import TTFFont

from limner.export.leaf import INK, RUBRIC, Leaf, language_of, pieces_of
from limner.export.markup import Run, runs_of
from limner.export.pdf_pages import BOLD, ITALIC, LINKED, STRUCK, Pages
from limner.export.plan import Plan
from limner.export.typefaces import dejavu, fallbacks, visible
from limner.export.wording import colophon
from limner.records import Part, Passage, Storyboard
from limner.templates import carried, forbidden

REPLACEMENT = "\ufffd"
SLIDE_MM = (338.67, 190.5)
FOOT_MM = 18.0
PT_MM = 25.4 / 72
SERIF, SANS, MONO = "limnerserif", "limnersans", "limnermono"
STYLES = {"": "", "B": "-Bold", "I": "-Italic", "BI": "-Bold"}

RAISED = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")
LOWERED = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")


class Words:
    """Pages on which words are set, below each other."""

    def __init__(self, board: Storyboard, plan: Plan) -> None:
        story = board.story
        self.board, self.plan, self.layout = board, plan, plan.layout_for(story, ".pdf")
        self.pieces = pieces_of(board, plan, self.layout)
        self.rtl = story.direction == "rtl"
        texts = [story.title, story.author, *colophon(story), "•–"]
        parts_of_all: list[Part] = []
        for piece in self.pieces:
            parts = piece.parts if isinstance(piece, Leaf) else piece
            parts_of_all += parts
            texts += [cell.text for part in parts for row in part.rows for cell in row]
            texts += [part.text for part in parts]
            if isinstance(piece, Leaf):
                texts += (piece.title, *(shown.caption for shown in piece.pictures))
                texts += (*piece.why.lines(), piece.file) if plan.with_reasons else ()
        texts += (board.library, board.version)
        # The sans face holds all that the serif faces hold, and more scripts.
        others, missing = fallbacks(visible("".join(map(carried, texts))), dejavu("DejaVuSans"))
        self.holes = str.maketrans(dict.fromkeys(missing, REPLACEMENT))
        self.warnings = [*forbidden(story), *([_undrawable(texts, missing)] if missing else [])]
        width, height = plan.page_mm()
        if self.layout in ("book", "slides"):
            width, height = max(width, height), min(width, height)
        if self.layout == "slides" and plan.page_size is None:
            width, height = SLIDE_MM
        self.signs = {"strong": BOLD, "struck": STRUCK} | ({} if self.rtl else {"emphasis": ITALIC})
        self.side = min(width, height) * 0.095
        self.base = 11.0 * (min(width, height) / 210) ** 0.5
        self.pdf = pdf = Pages(unit="mm", format=(width, height))
        pdf.alias_nb_pages("")  # else "{nb}" in a text would become a number
        pdf.running, pdf.text_family = self.clean(story.title), SANS
        pdf.set_margins(self.side, self.side, self.side)
        pdf.set_auto_page_break(auto=True, margin=FOOT_MM)
        marked = {mark.kind for part in parts_of_all for mark in part.marks}
        marked |= {
            mark.kind for part in parts_of_all for row in part.rows for cell in row for mark in cell.marks
        }
        heavy = "strong" in marked or any(part.head for part in parts_of_all)
        if self.rtl:
            # A face that lacks the script would be changed at every space, and the text break into pieces;
            # only this one holds both scripts. Its bold is itself with a line around, and it has no italic.
            pdf.heavy_by_line = True
            faces = dict.fromkeys(("", "B") if heavy or "emphasis" in marked else ("",), "DejaVuSans")
        else:
            # Each costs a tenth of a second, so only those that are needed are read.
            faces = {
                style: f"DejaVuSerif{name}" for style, name in STYLES.items() if heavy or "B" not in style
            }
        for style, name in faces.items():
            pdf.add_font(SERIF, style, dejavu(name))
        pdf.add_font(SANS, "", dejavu("DejaVuSans"))
        if any(part.kind == "code" for part in parts_of_all):
            pdf.add_font(MONO, "", dejavu("DejaVuSansMono"))
        added = {f"limnerother{place}": font for place, font in enumerate(others)}
        for family, font in added.items():
            pdf.add_font(family, fname=font)
        pdf.set_fallback_fonts([SANS, *added], exact_match=False)
        pdf.set_text_shaping(True)
        pdf.set_title(carried(story.title.strip() or story.id))
        pdf.set_author(carried(story.author))
        pdf.set_lang(language_of(story))
        pdf.set_creator(f"limner {board.version}".strip())

    def close(self) -> None:
        """Let go of the font files, which fpdf2 keeps open."""
        for font in self.pdf.fonts.values():
            if isinstance(font, TTFFont):
                font.close()

    def clean(self, text: str) -> str:
        """One line of text with the characters that can be drawn."""
        return " ".join(carried(text).translate(self.holes).split())

    def signed(self, runs: Sequence[Run]) -> str:
        """Runs as one line with signs for their styles; remembers where they lead."""
        line, links, at = "", [], 0
        for run in runs:
            words = re.sub(r"\s+", " ", carried(run.text).translate(self.holes))
            words = words.translate(
                RAISED if "above" in run.kinds else LOWERED if "below" in run.kinds else {}
            )
            if not at:
                words = words.lstrip()
            kinds = {*run.kinds, *(("strong",) if self.rtl and "emphasis" in run.kinds else ())}
            signs = [sign for kind, sign in self.signs.items() if kind in kinds]
            signs += [LINKED] if run.target else []
            if not words.strip():
                signs = []
            line += "".join(signs) + words + "".join(reversed(signs))
            links += [(at, at + len(words), run.target)] if run.target else []
            at += len(words)
        self.pdf.links_of = links
        return line.rstrip()

    def set_lines(
        self,
        passage: Passage,
        family: str,
        size_pt: float,
        colour: tuple[int, int, int] = INK,
        *,
        style: str = "",
        align: str = "",
        leading: float = 1.45,
        measure: bool = False,
    ) -> float:
        """Write a passage below the last, line by line as the author set it; returns its height in mm."""
        pdf = self.pdf
        lines: list[list[Run]] = [[]]
        for run in runs_of(passage):
            first, *more = run.text.split("\n")
            lines[-1].append(Run(first, run.kinds, run.target))
            lines += [[Run(each, run.kinds, run.target)] for each in more]
        taken = 0.0
        for line in lines:
            words = self.signed(line)
            if not words:
                continue
            pdf.set_font(family, style="" if self.rtl else style, size=size_pt)
            pdf.set_text_color(*colour)
            high = size_pt * PT_MM * leading
            options: dict[str, Any] = {"align": align or ("R" if self.rtl else "L"), "markdown": True}
            tall = pdf.multi_cell(0, high, words, dry_run=True, output="HEIGHT", **options)
            taken += float(cast(float, tall))
            if not measure:
                pdf.multi_cell(0, high, words, new_x="LMARGIN", new_y="NEXT", **options)
        pdf.links_of = ()
        return taken

    def write(
        self,
        text: str,
        family: str,
        size_pt: float,
        colour: tuple[int, int, int] = INK,
        **options: Any,  # noqa: ANN401
    ) -> float:
        """One paragraph of plain words below the last; empty text takes no room."""
        return self.set_lines(Passage(text=self.clean(text)), family, size_pt, colour, **options)

    @contextmanager
    def within(self, left_mm: float, right_mm: float) -> Iterator[None]:
        """Write inside wider margins, those of a left-to-right text being meant."""
        pdf = self.pdf
        before = pdf.l_margin, pdf.r_margin
        start, end = (right_mm, left_mm) if self.rtl else (left_mm, right_mm)
        pdf.set_left_margin(before[0] + start)
        pdf.set_right_margin(before[1] + end)
        pdf.set_x(pdf.l_margin)
        yield
        pdf.set_left_margin(before[0])
        pdf.set_right_margin(before[1])
        pdf.set_x(pdf.l_margin)

    def rule(self, width_mm: float) -> None:
        """A short red rule in the middle."""
        pdf = self.pdf
        pdf.set_draw_color(*RUBRIC)
        pdf.set_line_width(0.5)
        middle = pdf.l_margin + pdf.epw / 2
        pdf.line(middle - width_mm / 2, pdf.get_y(), middle + width_mm / 2, pdf.get_y())


def _undrawable(texts: list[str], missing: set[str]) -> str:
    """The warning about characters that no font holds."""
    count = sum(text.count(letter) for text in texts for letter in missing)
    named = ", ".join(f"U+{ord(letter):04X}" for letter in sorted(missing)[:8])
    more = f" and {len(missing) - 8} others" if len(missing) > 8 else ""
    return (
        f"{count} character{'s' if count > 1 else ''} that no font on this machine can draw, shown as"
        f" {REPLACEMENT}: {named}{more}; install a font for the script and export again"
    )
