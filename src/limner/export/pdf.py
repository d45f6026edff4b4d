"""The storyboard as PDF: a picture book, a recipe, an article or slides.

For printing and sending. Text is shaped and ordered for every script and stands in the file in the order in
which it is read, fonts are embedded, pictures carry alternative texts; characters no font holds are shown as
U+FFFD and reported.
"""

from collections.abc import Sequence
from pathlib import Path

from limner.export.leaf import INK, SOFT, TINT, Leaf, divided
from limner.export.pdf_steps import SIZES_PT, Steps
from limner.export.pdf_words import FOOT_MM, SANS, SERIF
from limner.export.plan import Plan
from limner.export.targets import Exported, whole
from limner.export.wording import colophon, credit_line, how_made
from limner.records import Part, Storyboard


def write(board: Storyboard, out: Path, plan: Plan) -> Exported:
    """Write the document.

    Args:
        board: the storyboard.
        out: the .pdf file; checked by the caller.
        plan: what it shows, and how.

    Raises:
        DataError: a picture is not there or cannot be read.
    """
    book = _Book(board, plan)
    try:
        book.fill()
        with whole(out) as draft:
            book.pdf.output(str(draft))
    finally:
        book.close()
    return Exported(out, warnings=tuple(book.warnings))


class _Book(Steps):
    """A whole storyboard, from its title to its last line."""

    def fill(self) -> None:
        """Set everything."""
        if self.layout in ("book", "slides"):
            self.cover()
            group: tuple[Part, ...] = ()
            for piece in self.pieces:
                if isinstance(piece, Leaf):
                    self.spread(piece, group)
                    group = ()
                    continue
                last = next((n for n, part in enumerate(piece[::-1]) if part.kind != "heading"), len(piece))
                ends = len(piece) - last if piece is not self.pieces[-1] else len(piece)
                group = piece[ends:]
                if ends:
                    self.sheet_of(piece[:ends])
        else:
            self.front()
            for piece in self.pieces:
                if not isinstance(piece, Leaf):
                    self.between(piece)
                elif self.layout == "recipe":
                    self.row(piece)
                else:
                    self.column(piece)
        self.ending()

    def cover(self) -> None:
        """A page with title and author."""
        pdf = self.pdf
        pdf.add_page()
        title = self.board.story.title.strip() or self.board.story.id
        pdf.start_section(self.clean(title))
        pdf.set_y(pdf.h * 0.34)
        self.write(title, SERIF, self.base * (3.0 if len(title) < 40 else 2.1), align="C", leading=1.2)
        pdf.ln(7)
        self.rule(18)
        pdf.ln(6)
        self.write(self.board.story.author, SERIF, self.base * 1.3, SOFT, style="I", align="C")

    def front(self) -> None:
        """Title and author above the text."""
        pdf = self.pdf
        pdf.add_page()
        title = self.board.story.title.strip() or self.board.story.id
        pdf.start_section(self.clean(title))
        self.write(title, SERIF, self.base * (2.3 if len(title) < 48 else 1.8), leading=1.2)
        self.write(self.board.story.author, SERIF, self.base * 1.1, SOFT, style="I")
        pdf.ln(5)

    def sheet_of(self, parts: Sequence[Part]) -> None:
        """A sheet for what stands between the steps, or more where it is long."""
        pdf = self.pdf
        pdf.add_page()
        room = pdf.h - FOOT_MM - self.side
        own = any(part.pictures for part in parts)
        fitting = (one for one in SIZES_PT[2:] if self.parts(parts, one, measure=True) <= room * 0.9)
        size = self.base if own else max(self.base, next(fitting, self.base))
        needed = self.parts(parts, size, measure=True)
        if not own and needed < room:
            pdf.set_y(self.side + (room - needed) / 2)
        self.parts(parts, size)

    def between(self, parts: Sequence[Part]) -> None:
        """What stands between the steps; lists of supplies on a ground of their own."""
        pdf = self.pdf
        for is_supplies, inner in divided(parts):
            # A heading that stands before a step stays with it.
            self.kept_mm = (
                80.0 if inner[-1] is parts[-1] and inner[-1].kind == "heading" else type(self).kept_mm
            )
            if not is_supplies or self.layout != "recipe":
                self.parts(inner)
                continue
            with self.within(5, 5):
                high = self.parts(inner, measure=True)
            if pdf.will_page_break(high + 12) and high < pdf.eph * 0.8:
                pdf.add_page()
            if not pdf.will_page_break(high + 12) and not any(part.pictures for part in inner):
                pdf.set_fill_color(*TINT)
                pdf.rect(pdf.l_margin, pdf.get_y(), pdf.epw, high + 9, style="F")
            pdf.ln(4)
            with self.within(5, 5):
                self.parts(inner)
            pdf.ln(6)

    def ending(self) -> None:
        """Who wrote the text; where reasons are wanted, credits and reasons step by step."""
        pdf, board = self.pdf, self.board
        if not self.plan.with_reasons:
            if lines := colophon(board.story):
                pdf.ln(6)
                for line in lines:
                    self.write(line, SANS, self.base * 0.75, SOFT)
            return
        rtl, self.rtl = self.rtl, False
        pdf.add_page()
        pdf.start_section("Pictures")
        self.write("Pictures", SERIF, 20, INK)
        pdf.ln(5)
        for leaf in (piece for piece in self.pieces if isinstance(piece, Leaf)):
            credit = f"{credit_line(leaf.picture)} · {leaf.file}" if leaf.picture else "No picture"
            if pdf.will_page_break(18):
                pdf.add_page()
            self.write(f"{leaf.position}  {credit}", SANS, 8.5, INK)
            for line in leaf.why.lines():
                self.write(line, SANS, 7.5, SOFT)
            pdf.ln(2.6)
        pdf.ln(3)
        for line in colophon(board.story):
            self.write(line, SANS, 8.5, INK)
        self.write(how_made(board), SANS, 7.5, SOFT)
        self.rtl = rtl
