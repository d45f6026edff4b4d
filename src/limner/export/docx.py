"""The storyboard as a Word document: headings, lists, tables, links and pictures as Word's own.

For editors and teachers who go on in a word processor. Every paragraph says which way it runs and in which
language it is; pictures are scaled to the page and carry alternative texts.
"""

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from docx import Document
from docx.enum.section import WD_ORIENT
from docx.enum.text import WD_ALIGN_PARAGRAPH
from docx.opc.constants import RELATIONSHIP_TYPE
from docx.oxml import OxmlElement
from docx.oxml.ns import qn
from docx.shared import Mm, Pt, RGBColor

from limner.export.leaf import INK, RUBRIC, SOFT, TINT, Leaf, divided, fit, fit_own, language_of, pieces_of
from limner.export.markup import runs_of
from limner.export.plan import Plan
from limner.export.targets import Exported, made_at, packed, put
from limner.export.wording import colophon, credit_line, how_made
from limner.pictures.thumbnails import Copy
from limner.records import Board, Part, Passage
from limner.templates import carried, forbidden

SERIF = "Georgia"


def write(board: Board, out: Path, plan: Plan) -> Exported:
    """Write the document.

    Args:
        board: the storyboard.
        out: the .docx file; checked by the caller.
        plan: what it shows, and how.

    Raises:
        DataError: a picture is not there or cannot be read.
    """
    made = _Document(board, plan)
    made.fill()
    archive = io.BytesIO()
    made.file.save(archive)
    put(out, packed(archive, made.date))
    return Exported(out, warnings=tuple(made.warnings))


class _Document:
    """The document being written."""

    def __init__(self, board: Board, plan: Plan) -> None:
        story = board.story
        self.board, self.plan, self.layout = board, plan, plan.layout_for(story, ".docx")
        self.rtl, self.language = story.direction == "rtl", language_of(story)
        self.warnings = list(forbidden(story))
        self.file: Any = Document()
        self.place: Any = self.file
        properties = self.file.core_properties
        properties.title = carried(story.title.strip() or story.id)[:255]
        properties.author = carried(story.author)[:255]
        properties.language = self.language[:255]
        # python-docx states its own template's, of 2013.
        self.date = properties.created = properties.modified = made_at()
        properties.last_modified_by = ""
        properties.comments = f"Made with limner {board.version}".strip() if plan.with_reasons else ""
        width, height = plan.page_mm()
        self.side = min(width, height) * 0.11
        section = self.file.sections[0]
        if self.layout == "book" and width < height:
            width, height = height, width
            section.orientation = WD_ORIENT.LANDSCAPE
        section.page_width, section.page_height = Mm(width), Mm(height)
        for edge in ("left_margin", "right_margin", "top_margin", "bottom_margin"):
            setattr(section, edge, Mm(self.side))
        self.width, self.height = width - 2 * self.side, height - 2 * self.side
        self._styles()

    def _styles(self) -> None:
        size = 14 if self.layout == "book" else 11
        for name, points, colour in (
            ("Normal", size, INK),
            ("Title", 28, INK),
            ("Subtitle", 13, SOFT),
            ("Heading 2", 18, INK),
            ("Heading 3", 14, INK),
            ("Heading 4", 12, INK),
            ("Caption", 8, SOFT),
        ):
            style = self.file.styles[name]
            style.font.size, style.font.name = Pt(points), SERIF
            style.font.color.rgb = RGBColor(*colour)
            style.font.bold = style.font.cs_bold = False
            fonts = style.element.get_or_add_rPr().get_or_add_rFonts()
            for script in ("asciiTheme", "hAnsiTheme", "eastAsiaTheme", "cstheme"):
                fonts.attrib.pop(qn(f"w:{script}"), None)
            fonts.set(qn("w:hAnsi"), SERIF)
        for border in self.file.styles["Title"].element.iter(qn("w:pBdr")):
            border.getparent().remove(border)
            break
        rest = self.file.styles["Normal"].paragraph_format
        rest.space_after, rest.line_spacing = Pt(7), 1.3

    def fill(self) -> None:
        """Write everything."""
        story = self.board.story
        self.paragraph(Passage(text=carried(story.title.strip() or story.id)), "Title")
        if story.author.strip():
            self.paragraph(Passage(text=carried(story.author)), "Subtitle")
        for piece in pieces_of(self.board, self.plan, self.layout):
            if isinstance(piece, Leaf):
                self.step(piece)
                continue
            for is_supplies, parts in divided(piece):
                if is_supplies and self.layout == "recipe":
                    self.boxed(parts)
                else:
                    self.parts(parts)
        for line in colophon(story):
            self.paragraph(Passage(text=carried(line)), "Caption")
        if self.plan.with_reasons:
            self.plain(how_made(self.board))

    def step(self, leaf: Leaf) -> None:
        """One step: in a recipe beside its pictures, in a book on a page of its own."""
        if self.layout == "book":
            self.file.add_page_break()
        if self.layout != "recipe" or not leaf.pictures:
            self.title(leaf)
            self.pictures(leaf, self.width, self.height * (0.62 if self.layout == "book" else 0.42))
            self.words(leaf)
            return
        grid = self.file.add_table(rows=1, cols=2)
        grid.autofit = False
        if self.rtl:
            grid._tbl.tblPr.append(OxmlElement("w:bidiVisual"))
        before, self.place = self.place, None
        for cell, share in zip(grid.rows[0].cells, (0.62, 0.38), strict=True):
            cell.width = Mm(self.width * share)
            self.place = _Cell(cell)
            if share > 0.5:
                self.title(leaf)
                self.words(leaf)
            else:
                self.pictures(leaf, self.width * share - 4, self.height * 0.35)
        self.place = before
        self.paragraph(Passage(), "Normal").paragraph_format.space_after = Pt(0)

    def title(self, leaf: Leaf) -> None:
        """Number and title of a step, where it has them."""
        if leaf.title:
            heading = self.paragraph(Passage(text=carried(leaf.title)), f"Heading {min(4, leaf.level)}")
            if leaf.number is not None:
                self.run(heading, f"{leaf.number}  ", first=True).font.color.rgb = RGBColor(*RUBRIC)

    def words(self, leaf: Leaf) -> None:
        """The words of a step, and its reasons where they are wanted."""
        numbered = leaf.number is not None and not leaf.title
        for place, part in enumerate(leaf.parts):
            line = self.part(part)
            if self.layout == "book" and line is not None and part.kind == "paragraph":
                line.alignment = WD_ALIGN_PARAGRAPH.CENTER
            if numbered and place == 0 and line is not None:
                self.run(line, f"{leaf.number}  ", first=True).font.color.rgb = RGBColor(*RUBRIC)
        if self.plan.with_reasons:
            shown = [] if leaf.picture is None else [f"{credit_line(leaf.picture)} · {leaf.file}"]
            for line in (*shown, *leaf.why.lines()):
                self.plain(line)

    def plain(self, text: str) -> None:
        """A line about the making, in English."""
        line = self.place.add_paragraph(style="Caption")
        line.add_run(carried(text))

    def pictures(self, leaf: Leaf, width_mm: float, height_mm: float) -> None:
        """The pictures of a step, each with its caption."""
        for shown in leaf.pictures:
            tall = height_mm / len(leaf.pictures)
            copy = fit(shown, leaf.where, self.plan, (width_mm, tall))
            self.image(copy, shown.alt, width_mm, tall)
            if shown.caption:
                caption = self.paragraph(Passage(text=carried(shown.caption)), "Caption")
                caption.alignment = WD_ALIGN_PARAGRAPH.CENTER

    def image(self, copy: Copy, alt: str, width_mm: float, height_mm: float) -> None:
        """A picture in a paragraph of its own."""
        line = self.place.add_paragraph()
        line.alignment = WD_ALIGN_PARAGRAPH.CENTER
        line.paragraph_format.keep_with_next = True
        scale = min(width_mm / copy.width_px, height_mm / copy.height_px)
        shape = line.add_run().add_picture(
            io.BytesIO(copy.data), width=Mm(copy.width_px * scale), height=Mm(copy.height_px * scale)
        )
        shape._inline.docPr.set("descr", carried(alt))  # python-docx has no public setter

    def boxed(self, parts: Sequence[Part]) -> None:
        """Parts in a box on a ground of their own."""
        cell = self.file.add_table(rows=1, cols=1).rows[0].cells[0]
        shade = OxmlElement("w:shd")
        for name, value in (
            ("val", "clear"),
            ("color", "auto"),
            ("fill", "{:02X}{:02X}{:02X}".format(*TINT)),
        ):
            shade.set(qn(f"w:{name}"), value)
        cell._tc.get_or_add_tcPr().append(shade)
        before, self.place = self.place, _Cell(cell)
        self.parts(parts)
        self.place = before
        self.paragraph(Passage(), "Normal").paragraph_format.space_after = Pt(0)

    def parts(self, parts: Sequence[Part]) -> None:
        """Parts, in order."""
        for part in parts:
            for own in part.pictures:
                copy = fit_own(own, self.plan, (self.width, self.height * 0.4), self.warnings)
                if copy is not None:
                    self.image(copy, own.alt, self.width, self.height * 0.4)
            self.part(part)

    def part(self, part: Part) -> Any | None:  # noqa: ANN401
        """One part; returns its paragraph, where it is one."""
        if part.kind == "table":
            self.table(part)
            return None
        if part.kind == "break":
            line = self.paragraph(Passage(text="* * *"), "Normal")
            line.alignment = WD_ALIGN_PARAGRAPH.CENTER
            return line
        if not part.text:
            return None
        style = "Normal"
        if part.kind == "heading":
            style = f"Heading {min(4, max(2, part.level))}"
        elif part.kind == "item" and part.number is None:
            style = f"List Bullet{'' if part.depth < 2 else f' {min(3, part.depth)}'}"
        elif part.quoted:
            style = "Quote"
        line = self.paragraph(part, style)
        indent = 6.35 * part.depth
        if part.kind == "item" and part.number is not None:
            # The author's own number, which no list of Word's counts anew.
            self.run(line, f"{part.number}.\t", first=True)
            line.paragraph_format.first_line_indent = Mm(-6.35)
        if indent and style == "Normal":
            line.paragraph_format.left_indent = Mm(indent)
        if part.kind == "item":
            line.paragraph_format.space_after = Pt(2)
        if part.kind == "code":
            for run in line.runs:
                run.font.name, run.font.size = "Consolas", Pt(9.5)
            line.alignment = WD_ALIGN_PARAGRAPH.LEFT
        return line

    def table(self, part: Part) -> None:
        """A table; its head is repeated on every page."""
        columns = max(map(len, part.rows))
        grid = self.place.add_table(rows=len(part.rows), cols=columns)
        grid.style = "Table Grid"
        if self.rtl:
            grid._tbl.tblPr.append(OxmlElement("w:bidiVisual"))
        before = self.place
        for place, (line, row) in enumerate(zip(grid.rows, part.rows, strict=True)):
            for cell, said in zip(line.cells, row, strict=False):
                self.place = _Cell(cell)
                made = self.paragraph(said, "Normal")
                made.paragraph_format.space_after = Pt(2)
                for run in made.runs if place < part.head else ():
                    run.bold = True
            if place < part.head:
                head = OxmlElement("w:tblHeader")
                line._tr.get_or_add_trPr().append(head)
        self.place = before
        self.paragraph(Passage(), "Normal").paragraph_format.space_after = Pt(0)

    def paragraph(self, passage: Passage, style: str) -> Any:  # noqa: ANN401
        """A paragraph with the marks of its words, in the language and direction of the story."""
        line = self.place.add_paragraph(style=self.file.styles[style])
        if self.rtl:
            line._p.get_or_add_pPr().append(OxmlElement("w:bidi"))
        for run in runs_of(passage):
            into = line
            if run.target:
                related = self.file.part.relate_to(run.target, RELATIONSHIP_TYPE.HYPERLINK, is_external=True)
                into = OxmlElement("w:hyperlink")
                into.set(qn("r:id"), related)
                line._p.append(into)
            for place, words in enumerate(carried(run.text).split("\n")):
                made = self.run(line, words)
                if place:
                    made._r.insert(1 if made._r.rPr is not None else 0, OxmlElement("w:br"))
                made.bold, made.italic = "strong" in run.kinds or None, "emphasis" in run.kinds or None
                made.font.strike = "struck" in run.kinds or None
                made.font.superscript = "above" in run.kinds or None
                made.font.subscript = "below" in run.kinds or None
                if "code" in run.kinds:
                    made.font.name = "Consolas"
                if run.target:
                    made.underline, made.font.color.rgb = True, RGBColor(*RUBRIC)
                    into.append(made._r)
        return line

    def run(self, line: Any, words: str, *, first: bool = False) -> Any:  # noqa: ANN401
        """Words of a paragraph, at its end or before all others."""
        made = line.add_run(words)
        properties = made._r.get_or_add_rPr()
        if self.rtl:
            properties.append(OxmlElement("w:rtl"))
        if self.language.isascii() and self.language:
            tongue = OxmlElement("w:lang")
            tongue.set(qn("w:bidi" if self.rtl else "w:val"), self.language)
            properties.append(tongue)
        if first:
            properties_of = line._p.pPr
            line._p.remove(made._r)
            line._p.insert(0 if properties_of is None else 1, made._r)
        return made


class _Cell:
    """A cell of a table, whose first paragraph is there already."""

    def __init__(self, cell: Any) -> None:  # noqa: ANN401
        self.cell, self.used = cell, False

    def add_paragraph(self, style: Any = None) -> Any:  # noqa: ANN401
        """A further paragraph, or the first."""
        if self.used:
            return self.cell.add_paragraph(style=style)
        self.used = True
        line = self.cell.paragraphs[0]
        if style is not None:
            line.style = style
        return line

    def add_table(self, rows: int, cols: int) -> Any:  # noqa: ANN401
        """A table inside the cell."""
        self.used = True
        return self.cell.add_table(rows, cols)
