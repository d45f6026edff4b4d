"""The storyboard as a Word document, with Word's own headings, lists, tables, links and pictures.

For editors and teachers who continue in a word processor. The document states its language, and every
paragraph its direction; pictures are scaled to the page and have alt text.
"""

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unicodedata import bidirectional

from docx import Document
from docx.enum.section import WD_ORIENT
from docx.enum.style import WD_STYLE_TYPE
from docx.enum.table import WD_TABLE_DIRECTION
from docx.enum.text import WD_ALIGN_PARAGRAPH
from docx.opc.constants import RELATIONSHIP_TYPE
from docx.oxml import OxmlElement
from docx.oxml.ns import qn
from docx.shared import Mm, Pt, RGBColor

from limner.export import Exported, Plan, picture_share, put_office
from limner.export.markup import runs_of
from limner.export.outline import INK, RUBRIC, SOFT, TINT, Illustration, Outline, Panel, divided
from limner.export.wording import how_made
from limner.records import Block, Board, Passage
from limner.templates import carried
from limner.text.blocks import writing_direction

SERIF, MONO = "Georgia", "Consolas"
CODE = "HTML Preformatted"
"""Word's built-in paragraph style for code."""
SIZES_PT = {"Title": 28, "Subtitle": 13, "Heading 1": 18, "Heading 2": 14, "Heading 3": 12, "Caption": 8}
"""Size of the letters of each style; that of others is 11."""
INDENT_MM, DEEPEST = 6.35, 3
"""Indentation of a nested list, and the deepest list for which Word has a style."""


def write(board: Board, out: Path, plan: Plan) -> Exported:
    """Write the document.

    Args:
        board: the storyboard.
        out: the .docx file; the caller has made sure that it may be written.
        plan: options.

    Raises:
        DataError: a picture is missing or cannot be read.
    """
    outline = Outline(board, plan, ".docx")
    put_office(out, _Document(outline).file, **outline.properties)
    return Exported(out, warnings=tuple(outline.warnings))


class _Document:
    """The document being written."""

    def __init__(self, outline: Outline) -> None:
        self.outline, self.layout = outline, outline.layout
        self.file: Any = Document()
        self.lists: dict[int, tuple[int, int]] = {}  # depth → open numbered list, and its next number
        self.place: Any = self.file
        width, height = outline.plan.page_mm()
        side = min(width, height) * 0.11
        section = self.file.sections[0]
        if self.layout == "book":
            width, height = height, width
            section.orientation = WD_ORIENT.LANDSCAPE
        section.page_width, section.page_height = Mm(width), Mm(height)
        for edge in ("left_margin", "right_margin", "top_margin", "bottom_margin"):
            setattr(section, edge, Mm(side))
        if outline.rtl:
            section._sectPr.insert_element_before(_element("bidi"), "w:rtlGutter", "w:docGrid")
        self.width, self.height = width - 2 * side, height - 2 * side
        self.styles()
        self.fill()

    def styles(self) -> None:
        """Set the language, and letters for all scripts, for which Word has separate settings."""
        styles, language = self.file.styles, self.outline.language
        for tree, name in ((styles.element, "lang"), (self.file.settings.element, "themeFontLang")):
            for script in ("val", "eastAsia", "bidi") if language else ():
                next(tree.iter(qn(f"w:{name}"))).set(qn(f"w:{script}"), language)
        for name in ("Normal", "Heading 4", "Heading 5", *SIZES_PT):
            points = SIZES_PT.get(name, 14 if name == "Normal" and self.layout == "book" else 11)
            font, properties = styles[name].font, styles[name].element.get_or_add_rPr()
            font.name, font.size, font.bold, font.cs_bold = SERIF, Pt(points), False, False
            font.color.rgb = RGBColor(*(SOFT if name in ("Subtitle", "Caption") else INK))
            font.cs_italic = font.italic
            for script in ("asciiTheme", "hAnsiTheme"):
                properties.rFonts.attrib.pop(qn(f"w:{script}"), None)
            for old in properties.findall(qn("w:szCs")):
                properties.remove(old)
            properties.find(qn("w:sz")).addnext(_element("szCs", val=2 * points))
        styles["Quote"].font.cs_italic = True
        for border in list(styles["Title"].element.iter(qn("w:pBdr"))):
            border.getparent().remove(border)
        for level in self.file.part.numbering_part.element.iter(qn("w:lvl")):
            if level.find(qn("w:rPr")) is None:
                level.append(_element("rPr"))
            level.find(qn("w:rPr")).append(_element("color", val=RGBColor(*RUBRIC)))
        code = styles.add_style(CODE, WD_STYLE_TYPE.PARAGRAPH)
        code.base_style, code.font.name, code.font.size = styles["Normal"], MONO, Pt(9.5)
        rest = styles["Normal"].paragraph_format
        rest.space_after, rest.line_spacing = Pt(7), 1.3

    def fill(self) -> None:
        """Write all content."""
        outline = self.outline
        self.paragraph(Passage(text=outline.title), "Title")
        if outline.author:
            self.paragraph(Passage(text=outline.author), "Subtitle")
        if outline.cover is not None:
            self.figure(outline.cover, self.height * 0.4)
        for piece in outline.pieces:
            if isinstance(piece, Panel):
                self.step(piece)
                continue
            for is_supplies, blocks in divided(piece):
                if is_supplies and self.layout == "recipe":
                    cell = self.table_of(1, 1).cell(0, 0)
                    cell._tc.get_or_add_tcPr().append(_element("shd", val="clear", fill=RGBColor(*TINT)))
                    with self.inside(cell):
                        self.blocks(blocks)
                    self.gap()
                else:
                    self.blocks(blocks)
        for line in outline.colophon:
            self.paragraph(Passage(text=line), "Caption")
        if outline.plan.with_reasons:
            self.file.add_paragraph(carried(how_made(outline.board)), "Caption")

    def step(self, panel: Panel) -> None:
        """Write one step: in a recipe next to its pictures, in a book on a page of its own."""
        if self.layout == "recipe" and panel.plate:
            grid, share = self.table_of(1, 2), picture_share(self.outline.story)
            grid.autofit = False
            grid.rows[0]._tr.get_or_add_trPr().append(_element("cantSplit"))
            with self.inside(grid.cell(0, 0), 1 - share):
                self.words(panel)
            with self.inside(grid.cell(0, 1), share):
                self.plate(panel, self.height * 0.35)
            self.gap()
            return
        if self.layout == "book":
            self.file.add_page_break()
        room = self.height * (0.62 if self.layout == "book" else 0.42)
        self.words(panel, room if panel.number is None else 0.0)
        if panel.number is not None:  # placed before an item, they would belong to the previous one
            self.plate(panel, room)

    def words(self, panel: Panel, plate_mm: float = 0.0) -> None:
        """Write title, pictures if there is room for them, text, and reasons of a step."""
        if panel.title:
            self.paragraph(Passage(text=panel.title), _heading(panel.level))
        if plate_mm:
            self.plate(panel, plate_mm)
        blocks = list(panel.body)
        if panel.number is not None:
            item = blocks[0].model_copy(update={"kind": "item", "number": panel.number})
            blocks = [one.model_copy(update={"depth": one.depth + 1}) for one in (item, *blocks[1:])]
        self.blocks(blocks, centred=self.layout == "book")
        for line in panel.why if self.outline.plan.with_reasons else ():
            self.place.add_paragraph(line, "Caption")

    def plate(self, panel: Panel, height_mm: float) -> None:
        """Write the pictures that stand apart from the words of a step."""
        for figure in panel.plate:
            self.figure(figure, height_mm / min(3, len(panel.plate)))

    def figure(self, figure: Illustration, height_mm: float) -> None:
        """Write a picture in a paragraph of its own, with its caption below."""
        copy = figure.printed(self.width, height_mm)
        line = self.place.add_paragraph()
        line.alignment = WD_ALIGN_PARAGRAPH.CENTER
        line.paragraph_format.keep_with_next = True
        scale = min(self.width / copy.width_px, height_mm / copy.height_px)
        size = Mm(copy.width_px * scale), Mm(copy.height_px * scale)
        shape = line.add_run().add_picture(io.BytesIO(copy.data), *size)
        shape._inline.docPr.set("descr", figure.alt)  # python-docx has no public setter
        if figure.caption:
            caption = self.paragraph(Passage(text=figure.caption), "Caption")
            caption.alignment = WD_ALIGN_PARAGRAPH.CENTER

    def blocks(self, blocks: Sequence[Block], *, centred: bool = False) -> None:
        """Write blocks, each after its pictures.

        Args:
            blocks: blocks, in order.
            centred: whether plain paragraphs are centred.
        """
        for block in blocks:
            for reference in block.pictures:
                self.figure(self.outline.figures[reference], self.height * 0.4)
            if block.kind == "table" and any(block.rows):
                self.table(block)
            elif block.kind == "break":
                self.paragraph(Passage(text="* * *"), "Normal").alignment = WD_ALIGN_PARAGRAPH.CENTER
            elif block.text:
                line = self.paragraph(block, _style(block))
                if block.kind == "item":
                    self.count(line, block)
                elif block.depth:
                    line.paragraph_format.left_indent = Mm(INDENT_MM * block.depth)
                elif centred and block.kind == "paragraph":
                    line.alignment = WD_ALIGN_PARAGRAPH.CENTER

    def count(self, line: Any, block: Block) -> None:  # noqa: ANN401
        """Let a numbered item continue the list before it, or begin another at the author's number."""
        depth = min(DEEPEST, block.depth)
        self.lists = {level: state for level, state in self.lists.items() if level <= depth}
        used, due = self.lists.pop(depth, (0, None))
        if block.number is None:
            return
        if due != block.number:
            numbering = self.file.part.numbering_part.element
            styled = numbering.num_having_numId(line.style.element.pPr.numPr.numId.val)
            made = numbering.add_num(styled.abstractNumId.val)
            made.add_lvlOverride(0).add_startOverride(block.number)
            used = made.numId
        line._p.get_or_add_pPr().get_or_add_numPr().get_or_add_numId().val = used
        self.lists[depth] = used, block.number + 1

    def table(self, block: Block) -> None:
        """Write a table; its header is repeated on every page."""
        grid = self.table_of(len(block.rows), max(map(len, block.rows)))
        grid.style = "Table Grid"
        for place, (line, row) in enumerate(zip(grid.rows, block.rows, strict=True)):
            for cell, words in zip(line.cells, row, strict=False):
                with self.inside(cell, 1 / len(line.cells)):
                    made = self.paragraph(words, "Normal")
                made.paragraph_format.space_after = Pt(2)
                for run in made.runs if place < block.head else ():
                    run.bold = run.font.cs_bold = True
            if place < block.head:
                line._tr.get_or_add_trPr().append(_element("tblHeader"))
        self.gap()

    def table_of(self, rows: int, columns: int) -> Any:  # noqa: ANN401
        """An empty table, its columns in the direction of the story."""
        grid = self.place.add_table(rows, columns)
        if self.outline.rtl:
            grid.table_direction = WD_TABLE_DIRECTION.RTL
        return grid

    def gap(self) -> None:
        """Write the empty paragraph that divides a table from what follows."""
        self.place.add_paragraph().paragraph_format.space_after = Pt(0)

    @contextmanager
    def inside(self, cell: Any, share: float = 1) -> Iterator[None]:  # noqa: ANN401
        """Context in which content goes into a cell, which has a share of the width."""
        before, self.place, self.width = (self.place, self.width), cell, self.width * share
        cell.width = Mm(self.width)
        self.width -= 4
        yield
        (self.place, self.width), first = before, cell.paragraphs[0]._p
        if len(cell.paragraphs) > 1:  # each cell has an empty paragraph
            first.getparent().remove(first)

    def paragraph(self, passage: Passage, style: str) -> Any:  # noqa: ANN401
        """Write a formatted paragraph, in the direction of its letters."""
        line = self.place.add_paragraph(style=self.file.styles[style])
        is_ours = style in ("Title", "Subtitle", "Caption")
        is_rtl = self.outline.rtl if is_ours else style != CODE and _runs_left(passage.text, self.outline.rtl)
        if is_rtl:
            line._p.get_or_add_pPr().append(_element("bidi"))
        for run in runs_of(passage):
            into = line
            if run.target:
                related = self.file.part.relate_to(run.target, RELATIONSHIP_TYPE.HYPERLINK, is_external=True)
                into = _element("hyperlink")
                into.set(qn("r:id"), related)
                line._p.append(into)
            made = line.add_run(run.text)  # python-docx makes line breaks of line ends
            font = made.font
            font.rtl = True if is_rtl and _runs_left(run.text, rtl=True) else None
            font.bold = font.cs_bold = "strong" in run.kinds or None
            font.italic = font.cs_italic = "emphasis" in run.kinds or None
            font.strike = "struck" in run.kinds or None
            font.superscript, font.subscript = (kind in run.kinds or None for kind in ("above", "below"))
            font.name = MONO if "code" in run.kinds else None
            if run.target:
                font.underline, font.color.rgb = True, RGBColor(*RUBRIC)
                into.append(made._r)
        return line


def _style(block: Block) -> str:
    """Word's style for a block."""
    if block.kind == "heading":
        return _heading(block.level)
    styles = {"item": "List Bullet" if block.number is None else "List Number", "code": CODE}
    style = styles.get(block.kind, "List Continue" if block.depth else "Quote" if block.quoted else "Normal")
    return f"{style} {min(DEEPEST, block.depth)}" if style.startswith("List") and block.depth > 1 else style


def _heading(level: int) -> str:
    """Style of a heading: Word counts levels below the title from 1."""
    return f"Heading {max(1, level - 1)}"


def _element(name: str, **attributes: object) -> Any:  # noqa: ANN401
    """An element of Word's own format that python-docx has no method for."""
    made = OxmlElement(f"w:{name}")
    for key, value in attributes.items():
        made.set(qn(f"w:{key}"), str(value))
    return made


def _runs_left(text: str, rtl: bool) -> bool:
    """Whether most letters run from right to left or, in a story that does so, any of them or none."""
    if not rtl:
        return writing_direction([text]) == "rtl"
    classes = set(map(bidirectional, text))
    return bool({"R", "AL"} & classes) or "L" not in classes
