"""Pages of fpdf2 whose text stands in the file in the order in which it is read, with styles and links.

fpdf2 draws a line from left to right, so that a line of Hebrew with a number in it came out in the
wrong order wherever a program takes text as it stands in the file.
"""

import re
import unicodedata
from collections.abc import Sequence
from typing import Any

from fpdf import FPDF
from fpdf.drawing_primitives import DeviceRGB
from fpdf.enums import Align, TextDirection, TextMode, XPos, YPos
from fpdf.line_break import Fragment, TextLine

from limner.export.leaf import RUBRIC, SOFT

BOLD, ITALIC, STRUCK, LINKED = "\x01\x01", "\x02\x02", "\x03\x03", "\x04\x04"
"""Signs that fpdf2 takes for the begin and end of a style; no text that is written holds them."""


class Pages(FPDF):
    """Pages with the title and their number at the foot, the first aside, and text in reading order."""

    MARKDOWN_BOLD_MARKER = BOLD
    MARKDOWN_ITALICS_MARKER = ITALIC
    MARKDOWN_STRIKETHROUGH_MARKER = STRUCK
    MARKDOWN_UNDERLINE_MARKER = LINKED
    MARKDOWN_MARKERS = (BOLD, ITALIC, STRUCK, LINKED)
    MARKDOWN_ESCAPE_CHARACTER = "\x0e"
    MARKDOWN_LINK_REGEX = re.compile("(?!)")

    running = ""
    text_family = "helvetica"
    heavy_by_line = False
    """Whether bold is the plain face with a line around its letters."""

    links_of: Sequence[tuple[int, int, str]] = ()
    """Where the text that is being set leads: begin and end without signs, and address."""

    def footer(self) -> None:
        """The title and the number, as fpdf2 calls for them."""
        if self.page_no() > 1:
            self.set_y(-13)
            margins = self.l_margin, self.r_margin
            side = min(margins)
            self.l_margin = self.r_margin = self.x = side
            self.set_font(self.text_family, size=7.5)
            self.set_text_color(*SOFT)
            width = self.w - 2 * side
            self.cell(width / 2, 5, self.running if self.get_string_width(self.running) < width * 0.8 else "")
            self.cell(width / 2, 5, str(self.page_no()), align="R")
            self.l_margin, self.r_margin = margins

    def _preload_bidirectional_text(self, text: str, markdown: bool) -> Any:  # noqa: ANN401
        found = super()._preload_bidirectional_text(text, markdown)
        at = 0
        for fragment in found:
            if self.heavy_by_line and "B" in fragment.font_style:
                fragment.graphics_state.text_mode = TextMode.FILL_STROKE
                fragment.graphics_state.line_width = fragment.font_size_pt * 0.035
            target = next((target for start, end, target in self.links_of if start <= at < end), None)
            if target is not None:
                fragment.link = target
                fragment.graphics_state.text_color = DeviceRGB(*(n / 255 for n in RUBRIC))
            at += len(fragment.characters)
        return found

    def _render_styled_text_line(  # type: ignore[override]
        self,
        text_line: TextLine,
        h: float | None = None,
        border: str | int = 0,
        **rest: Any,  # noqa: ANN401
    ) -> bool:
        """Draw a line; where it runs both ways, in the order of reading, not from left to right.

        Programs that copy text take it as it stands in the file.
        """
        heavy = (one.text_color for one in text_line.fragments if one.text_mode != TextMode.FILL)
        if (colour := next(heavy, None)) is not None:
            self.set_draw_color(colour)
        if not any(one.fragment_direction == TextDirection.RTL for one in text_line.fragments):
            return super()._render_styled_text_line(text_line, h, border, **rest)
        fragments = [part for one in _joined(text_line.fragments) for part in _pieces(one)]
        h = h or max(one.font_size for one in fragments)
        broken = self._perform_page_break_if_need_be(h)
        widths = [one.get_width(initial_cs=n > 0) for n, one in enumerate(fragments)]
        room = text_line.max_width or sum(widths) + 2 * self.c_margin
        x, y, place = self.x, self.y, self.x + self.c_margin
        if text_line.align == Align.R:
            place = x + room - self.c_margin - sum(widths)
        elif text_line.align == Align.C:
            place = x + (room - sum(widths)) / 2
        places = {}
        shown = text_line._replace(fragments=tuple(fragments)).get_ordered_fragments()
        for one in shown:
            places[id(one)] = place
            place += widths[next(n for n, each in enumerate(fragments) if each is one)]
        for one, width in zip(fragments, widths, strict=True):
            self.set_xy(places[id(one)] - self.c_margin, y)
            margins = 2 * self.c_margin
            own = text_line._replace(
                fragments=(one,), text_width=width, align=Align.L, max_width=width + margins
            )
            super()._render_styled_text_line(own, h, new_x=XPos.LEFT, new_y=YPos.TOP)
        self.set_xy(x, y)
        super()._render_styled_text_line(
            text_line._replace(fragments=(), text_width=0, max_width=room), h, **rest
        )
        return broken


def _joined(fragments: Sequence[Fragment]) -> list[Fragment]:
    """Right-to-left fragments that follow each other and look alike as one."""
    made: list[Fragment] = []
    for one in fragments:
        last = made[-1] if made else None
        if last is not None and one.fragment_direction == TextDirection.RTL and _look(last) == _look(one):
            words = [*last.characters, *one.characters]
            made[-1] = Fragment(words, last.graphics_state, last.k, last.link)
        else:
            made.append(one)
    return made


def _look(one: Fragment) -> tuple[object, ...]:
    style = (one.font, one.font_size_pt, one.underline, one.strikethrough, one.text_color)
    return (*style, one.link, one.fragment_direction)


def _pieces(fragment: Fragment) -> list[Fragment]:
    """A fragment cut so that each piece, read by itself, can only be taken in its own order.

    Programs that copy text turn right-to-left letters by rules of their own: marks, and spaces at the end,
    are cut from the words beside them, and Arabic digits, which run from left to right, from each other.
    """
    words = "".join(fragment.characters)
    if fragment.fragment_direction == TextDirection.RTL:
        marks = "".join("." if unicodedata.category(letter)[0] in "PS" else letter for letter in words)
        cuts = [
            words[found.start() : found.end()]
            for found in re.finditer(r"\.|\s+(?=\.|$)|.+?(?=\s*(?:\.|$))", marks)
        ]
    elif any(unicodedata.bidirectional(letter) == "AN" for letter in words):
        cuts = list(words)
    else:
        return [fragment]
    return [Fragment(list(part), fragment.graphics_state, fragment.k, fragment.link) for part in cuts]
