"""What stands on the pages of a PDF one below the other: paragraphs, lists, tables, code and pictures.

Every part can be measured before it is set, so that a page is filled well and nothing is torn apart.
"""

import io
from collections.abc import Sequence
from typing import Any, cast

from limner.export.leaf import INK, RUBRIC, SOFT, TINT, Leaf, fit, fit_own
from limner.export.markup import runs_of
from limner.export.pdf_pages import BOLD
from limner.export.pdf_words import MONO, PT_MM, SANS, SERIF, Words
from limner.pictures.thumbnails import Copy
from limner.records import Part, Passage
from limner.templates import carried


class Parts(Words):
    """Pages on which the parts of a text and pictures are set."""

    kept_mm = 22.0
    """Room that a heading needs below itself on its page."""

    def parts(self, parts: Sequence[Part], size_pt: float = 0, *, measure: bool = False) -> float:
        """Set parts in order; returns their height in mm where they are only measured."""
        size = size_pt or self.base
        return sum(self.part(part, size, measure=measure) for part in parts)

    def part(self, part: Part, size: float, *, measure: bool) -> float:
        """Set or measure one part."""
        pdf = self.pdf
        if part.kind == "break":
            if not measure:
                pdf.ln(3)
                self.rule(14)
                pdf.ln(5)
            return 8.0
        taken = 0.0 if measure else self.own_pictures(part)
        if not part.text:
            return taken
        if part.kind == "heading":
            large = size * {1: 1.7, 2: 1.7, 3: 1.3}.get(part.level, 1.1)
            if not measure:
                if pdf.get_y() > pdf.t_margin + 1:
                    pdf.ln(3)
                if pdf.will_page_break(self.kept_mm):
                    pdf.add_page()
                pdf.start_section(self.clean(part.text))
            return (
                taken
                + self.gap(self.set_lines(part, SERIF, large, leading=1.25, measure=measure), 2, measure)
                + 3
            )
        if part.kind == "table":
            return taken + self.table(part, size, measure=measure)
        indent = 6.0 * part.depth + (6.0 if part.quoted else 0.0)
        with self.within(indent, 0):
            if part.kind == "code":
                pdf.set_fill_color(*TINT)
                pdf.set_font(MONO, size=size * 0.85)
                pdf.set_text_color(*INK)
                words = carried(part.text).translate(self.holes)
                high = size * 0.85 * PT_MM * 1.4
                options: dict[str, Any] = {"align": "L", "fill": True, "padding": 2}
                if not measure:
                    pdf.multi_cell(0, high, words, new_x="LMARGIN", new_y="NEXT", **options)
                return taken + self.gap(high * (1 + words.count("\n")) + 4, 2.2, measure)
            if part.kind == "item" and not measure:
                self.mark("•" if part.number is None else f"{part.number}.", size)
            look = {"style": "I", "colour": SOFT} if part.quoted else {}
            high = self.set_lines(part, SERIF, size, measure=measure, **look)  # type: ignore[arg-type]
        return taken + self.gap(high, 0.8 if part.kind == "item" else 2.2, measure)

    def gap(self, taken: float, below: float, measure: bool) -> float:
        """Room below what was set."""
        if not measure:
            self.pdf.ln(below)
        return taken + below

    def mark(self, sign: str, size: float) -> None:
        """The bullet or number of an item, in the margin at its side."""
        pdf = self.pdf
        high = size * PT_MM * 1.45
        if pdf.will_page_break(high):
            pdf.add_page()
        pdf.set_font(SERIF, size=size)
        pdf.set_text_color(*RUBRIC)
        x, y = pdf.get_x(), pdf.get_y()
        pdf.set_x(pdf.w - pdf.r_margin if self.rtl else x - 6)
        pdf.cell(6, high, sign, align="L")
        pdf.set_xy(x, y)

    def table(self, part: Part, size: float, *, measure: bool) -> float:
        """A table as wide as its words."""
        pdf = self.pdf
        columns = max(map(len, part.rows))
        rows = [[*row, *[Passage()] * (columns - len(row))] for row in part.rows]
        rows = [row[::-1] for row in rows] if self.rtl else rows
        pdf.set_font(SERIF, size=size * 0.95)
        wide = [
            max(2.0, *(pdf.get_string_width(self.clean(row[n].text)) * 1.12 + 7 for row in rows))
            for n in range(columns)
        ]
        scale = min(1.0, pdf.epw / sum(wide))
        high = size * PT_MM * 1.5
        lines = sum(
            max(
                (-(-each * scale // 1) and -(-pdf.get_string_width(cell.text) // max(1, each * scale - 4)))
                or 1
                for each, cell in zip(wide, row, strict=True)
            )
            for row in rows
        )
        if measure:
            return float(max(lines, len(rows))) * high + 4
        pdf.set_text_color(*INK)
        pdf.set_draw_color(200, 196, 188)
        pdf.set_line_width(0.2)
        with pdf.table(
            width=sum(wide) * scale,
            col_widths=tuple(wide),
            align="RIGHT" if self.rtl else "LEFT",
            text_align="RIGHT" if self.rtl else "LEFT",
            borders_layout="HORIZONTAL_LINES",
            line_height=high,
            first_row_as_headings=False,
            markdown=True,
        ) as table:
            for place, row in enumerate(rows):
                line = table.row()
                for cell in row:
                    words = self.signed(runs_of(cell))
                    strong = place < part.head and words and BOLD not in words
                    line.cell(f"{BOLD}{words}{BOLD}" if strong else words)
        pdf.links_of = ()
        pdf.ln(4)
        return 0.0

    def own_pictures(self, part: Part) -> float:
        """The pictures of the text that stand between its steps."""
        for own in part.pictures:
            copy = fit_own(own, self.plan, (self.pdf.epw, self.pdf.h * 0.4), self.warnings)
            if copy is not None:
                self.image(copy, own.alt, self.pdf.epw, self.pdf.h * 0.36)
                self.pdf.ln(4)
        return 0.0

    def image(self, copy: Copy, alt: str, width_mm: float, height_mm: float) -> None:
        """A picture in the middle of the margins, below the last, on a new page where there is no room."""
        pdf = self.pdf
        wide, high = _scaled(copy, width_mm, height_mm)
        if pdf.will_page_break(high):
            pdf.add_page()
        left = pdf.l_margin + (pdf.epw - wide) / 2
        pdf.image(io.BytesIO(copy.data), x=left, y=pdf.get_y(), w=wide, h=high, alt_text=carried(alt))
        pdf.set_y(pdf.get_y() + high)

    def pictures(self, leaf: Leaf, box: tuple[float, float, float, float], *, middle: bool = False) -> float:
        """The pictures of a step below each other in a box, with their captions; returns where they end.

        Args:
            leaf: the step.
            box: left, top, width and height in mm.
            middle: whether they stand in the middle of its height, not at its top.
        """
        pdf, (left, top, width, height) = self.pdf, box
        count = len(leaf.pictures)
        each = (height - 4.0 * (count - 1)) / max(1, count)
        y = top
        for shown in leaf.pictures:
            copy = fit(shown, leaf.where, self.plan, (width, each))
            self.warnings += copy.warnings
            said = self.clean(shown.caption)
            low = 5.0 if said else 0.0
            wide, high = _scaled(copy, width, each - low)
            start = y + (each - low - high) / 2 if middle else y
            pdf.image(
                io.BytesIO(copy.data),
                x=left + (width - wide) / 2,
                y=start,
                w=wide,
                h=high,
                alt_text=carried(shown.alt),
            )
            y = start + high
            if said:
                pdf.set_font(SANS, size=7)
                pdf.set_text_color(*SOFT)
                pdf.set_xy(left, y + 1)
                lines = pdf.multi_cell(width, 3.4, said, align="C", dry_run=True, output="LINES")
                pdf.cell(width, 3.4, cast(list[str], lines)[0], align="C")
                y += low
            y += 4 if count > 1 else 0
        return y


def _scaled(copy: Copy, width_mm: float, height_mm: float) -> tuple[float, float]:
    """Width and height in mm at which a copy fills a box without being cut."""
    scale = min(width_mm / copy.width_px, max(1.0, height_mm) / copy.height_px)
    return copy.width_px * scale, copy.height_px * scale
