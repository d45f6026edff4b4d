"""A step of a story on the pages of a PDF, as each layout shows it.

A sheet of its own in a picture book and on slides, a row in a recipe, and a column in an article.
"""

from collections.abc import Sequence

from limner.export.leaf import RUBRIC, SOFT, Leaf
from limner.export.pdf_parts import Parts
from limner.export.pdf_words import FOOT_MM, PT_MM, SANS, SERIF
from limner.records import Part

SIZES_PT = (26, 23, 20, 18, 16, 14.5, 13, 12, 11, 10, 9)
"""Letter sizes of a page that holds one step, the largest that fits being taken."""


class Steps(Parts):
    """Pages on which steps are set."""

    def no_picture(self, leaf: Leaf) -> None:
        """Why a step has none, where reasons are wanted."""
        if self.plan.with_reasons and not leaf.pictures:
            self.write("No picture here.", SERIF, self.base * 0.9, SOFT, style="I")
            self.write(leaf.step.reason, SANS, self.base * 0.75, SOFT)
            self.pdf.ln(2)

    def title(self, leaf: Leaf, size: float) -> None:
        """Number and title of a step."""
        number = "" if leaf.number is None else str(leaf.number)
        if number or leaf.title:
            self.pdf.start_section(self.clean(f"{number} {leaf.title}"))
        if number:
            self.write(number, SERIF, size, RUBRIC, leading=1.4)
        if leaf.title:
            self.write(leaf.title, SERIF, size * 1.35, leading=1.25)
            self.pdf.ln(2)

    def spread(self, leaf: Leaf, group: Sequence[Part]) -> None:
        """A sheet for one step: its pictures on one half and its words on the other, or above and below.

        Args:
            leaf: the step.
            group: headings of the group that begins with it.
        """
        pdf, side = self.pdf, self.side
        pdf.add_page()
        beside = pdf.w > pdf.h * 1.1
        inner_w, inner_h = pdf.w - 2 * side, pdf.h - side - FOOT_MM
        gap = side * 0.9
        margins = (0.0, 0.0)
        top = side
        if leaf.pictures and beside:
            half = (inner_w - gap) * 0.56
            left = side if not self.rtl else pdf.w - side - half
            self.pictures(leaf, (left, side, half, inner_h), middle=True)
            margins = (half + gap, 0.0)
        elif leaf.pictures:
            top = self.pictures(leaf, (side, side, inner_w, inner_h * 0.62)) + 6
        room = pdf.h - FOOT_MM - top
        with self.within(*margins):
            above = (14.0 if leaf.number is not None else 0) + (16.0 if leaf.title else 0)
            size = next(
                (one for one in SIZES_PT if self.parts(leaf.parts, one, measure=True) + above <= room * 0.94),
                SIZES_PT[-1],
            )
            needed = self.parts(leaf.parts, size, measure=True) + above
            pdf.set_y(max(top, top + (room - needed) / 2) if beside or not leaf.pictures else top)
            for part in group:
                self.write(part.text, SERIF, min(size, 16) * 0.9, SOFT, style="I")
                pdf.ln(2)
            self.no_picture(leaf)
            self.title(leaf, min(size, 16))
            self.parts(leaf.parts, size)

    def column(self, leaf: Leaf) -> None:
        """A step of an article: title and, on the same page, pictures as wide as the text; words."""
        pdf = self.pdf
        tall = 0.0
        if leaf.pictures:
            highest = max(pdf.epw / one.aspect for one in leaf.pictures)
            each = min(pdf.eph * 0.42, pdf.epw * 0.75, highest + 6)
            tall = min(each * len(leaf.pictures), pdf.eph * 0.8)
        headed = bool(leaf.title) or leaf.number is not None
        if headed:
            pdf.ln(3)
        if pdf.will_page_break(tall + (24 if headed else 0)):
            pdf.add_page()
        if headed:
            self.title(leaf, self.base * 1.25)
        self.no_picture(leaf)
        if leaf.pictures:
            end = self.pictures(leaf, (pdf.l_margin, pdf.get_y(), pdf.epw, tall))
            pdf.set_y(end + 4)
        self.parts(leaf.parts)

    def row(self, leaf: Leaf) -> None:
        """A step of a recipe: number and words, its pictures beside them."""
        pdf = self.pdf
        wide = pdf.epw * 0.36
        beside = wide + 7 if leaf.pictures else 0.0
        indent = 0.0 if leaf.number is None else 9.0
        with self.within(indent, beside):
            high = self.parts(leaf.parts, measure=True) + (10 if leaf.title else 0)
        shown = sum(min(wide / one.aspect, 70) + 6 for one in leaf.pictures)
        if pdf.will_page_break(max(shown, min(high, pdf.eph * 0.5))):
            pdf.add_page()
        page, top, end = pdf.page, pdf.get_y(), pdf.get_y()
        if leaf.pictures:
            left = pdf.l_margin if self.rtl else pdf.w - pdf.r_margin - wide
            end = self.pictures(leaf, (left, top, wide, shown))
            pdf.set_y(top)
        with self.within(indent, beside):
            if leaf.number is not None:
                pdf.start_section(self.clean(f"{leaf.number} {leaf.title}"))
                pdf.set_font(SERIF, size=self.base * 1.5)
                pdf.set_text_color(*RUBRIC)
                x = pdf.get_x()
                pdf.set_xy(pdf.w - pdf.r_margin if self.rtl else x - indent, top - 0.6)
                pdf.cell(indent, self.base * PT_MM * 1.6, str(leaf.number), align="R" if self.rtl else "L")
                pdf.set_xy(x, top)
            if leaf.title:
                if leaf.number is None:
                    pdf.start_section(self.clean(leaf.title))
                self.write(leaf.title, SERIF, self.base * 1.2, leading=1.25)
                pdf.ln(1.5)
            self.no_picture(leaf)
            self.parts(leaf.parts)
        if pdf.page == page:
            pdf.set_y(max(pdf.get_y(), end))
        pdf.ln(4)
