"""The storyboard as a Word document, with Word's own headings, lists, tables, links and pictures.

For editors and teachers who continue in a word processor. Every paragraph states its direction and language;
pictures are scaled to the page and have alt text.
"""

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unicodedata import bidirectional

from docx import Document
from docx.enum.section import WD_ORIENT
from docx.enum.style import WD_STYLE_TYPE
from docx.enum.text import WD_ALIGN_PARAGRAPH
from docx.opc.constants import RELATIONSHIP_TYPE
from docx.oxml import OxmlElement, parse_xml
from docx.oxml.ns import nsdecls, qn
from docx.shared import Mm, Pt, RGBColor

from limner.export import Exported, Plan, picture_share, put_office
from limner.export.leaf import INK, RUBRIC, SOFT, TINT, Leaf, divided, fit, fit_own, language_of, pieces_of
from limner.export.markup import runs_of
from limner.export.wording import colophon, credit_line, how_made
from limner.language import RIGHT_TO_LEFT
from limner.pictures.thumbnails import Copy
from limner.records import Board, Part, Passage
from limner.templates import carried, forbidden
from limner.text.document import writing_direction

SERIF = "Georgia"
CODE = "HTML Preformatted"
"""Word's built-in paragraph style for code."""
TWIPS, INDENT_MM, DEEPEST = 360, 6.35, 9
"""Indentation of a nested list in Word's unit and in mm, and maximum number of levels."""
# Word stores font, size and weight of complex scripts separately.
_COMPLEX_FONTS = {
    **dict.fromkeys(
        ("as", "bn", "gu", "hi", "kn", "ml", "mr", "ne", "or", "pa", "sa", "si", "ta", "te"), "Nirmala UI"
    ),
    **dict.fromkeys(("km", "lo", "th"), "Leelawadee UI"),
    "my": "Myanmar Text",
}
"""Fonts of left-to-right scripts that Word calls complex, by language; others use Times New Roman."""
_EAST_ASIAN_FONTS = {"ja": "Yu Mincho", "ko": "Batang", "zh": "SimSun", "zh-hant": "PMingLiU"}
_RIGHT = {"R", "AL"}
_AFTER_SIZE = (
    "w:highlight",
    "w:u",
    "w:effect",
    "w:bdr",
    "w:shd",
    "w:fitText",
    "w:vertAlign",
    "w:rtl",
    "w:cs",
    "w:em",
    "w:lang",
    "w:eastAsianLayout",
)
_AFTER_BIDI = (
    "w:adjustRightInd",
    "w:snapToGrid",
    "w:spacing",
    "w:ind",
    "w:contextualSpacing",
    "w:mirrorIndents",
    "w:suppressOverlap",
    "w:jc",
    "w:textDirection",
    "w:textAlignment",
    "w:textboxTightWrap",
    "w:outlineLvl",
    "w:divId",
    "w:cnfStyle",
    "w:rPr",
    "w:sectPr",
    "w:pPrChange",
)
_AFTER_VISUAL = (
    "w:tblStyleRowBandSize",
    "w:tblStyleColBandSize",
    "w:tblW",
    "w:jc",
    "w:tblCellSpacing",
    "w:tblInd",
    "w:tblBorders",
    "w:shd",
    "w:tblLayout",
    "w:tblCellMar",
    "w:tblLook",
)
"""Elements that the format requires after the size of complex scripts, a direction, and that of a table."""


def write(board: Board, out: Path, plan: Plan) -> Exported:
    """Write the document.

    Args:
        board: the storyboard.
        out: the .docx file; the caller has made sure that it may be written.
        plan: content and layout.

    Raises:
        DataError: a picture is missing or cannot be read.
    """
    made = _Document(board, plan)
    made.fill()
    put_office(out, made.file, board, plan, made.language)
    return Exported(out, warnings=tuple(made.warnings))


class _Document:
    """The document being written."""

    def __init__(self, board: Board, plan: Plan) -> None:
        story = board.story
        self.board, self.plan, self.layout = board, plan, plan.layout_for(story, ".docx")
        self.rtl, self.language = story.direction == "rtl", language_of(story)
        tags = self.language.lower().split("-")
        is_traditional = tags[0] == "zh" and bool({"hant", "tw", "hk", "mo"} & set(tags))
        self.east_asian = _EAST_ASIAN_FONTS.get("zh-hant" if is_traditional else tags[0])
        self.complex = _COMPLEX_FONTS.get(tags[0], "Times New Roman")
        is_complex = self.rtl or tags[0] in _COMPLEX_FONTS or tags[0] in RIGHT_TO_LEFT
        self.spoken = "w:eastAsia" if self.east_asian else "w:bidi" if is_complex else "w:val"
        self.warnings = list(forbidden(story))
        self.file: Any = Document()
        self.lists = _Lists(self.file.part.numbering_part.element)
        self.place: Any = self.file
        width, height = plan.page_mm()
        self.side = min(width, height) * 0.11
        section = self.file.sections[0]
        if self.layout == "book" and width < height:
            width, height = height, width
            section.orientation = WD_ORIENT.LANDSCAPE
        section.page_width, section.page_height = Mm(width), Mm(height)
        for edge in ("left_margin", "right_margin", "top_margin", "bottom_margin"):
            setattr(section, edge, Mm(self.side))
        if self.rtl:
            section._sectPr.insert_element_before(OxmlElement("w:bidi"), "w:rtlGutter", "w:docGrid")
        self.width, self.height = width - 2 * self.side, height - 2 * self.side
        self._styles()

    def _styles(self) -> None:
        size = 14 if self.layout == "book" else 11
        for name, points, colour in (
            ("Normal", size, INK),
            ("Title", 28, INK),
            ("Subtitle", 13, SOFT),
            ("Heading 1", 18, INK),
            ("Heading 2", 14, INK),
            ("Heading 3", 12, INK),
            ("Heading 4", 11, INK),
            ("Heading 5", 11, SOFT),
            ("Caption", 8, SOFT),
        ):
            style = self.file.styles[name]
            style.font.name = SERIF
            _set_size(style.font, points)
            style.font.color.rgb = RGBColor(*colour)
            style.font.bold = style.font.cs_bold = False
            style.font.cs_italic = style.font.italic
            fonts = style.element.get_or_add_rPr().get_or_add_rFonts()
            for script in ("asciiTheme", "hAnsiTheme", "eastAsiaTheme", "cstheme"):
                fonts.attrib.pop(qn(f"w:{script}"), None)
            fonts.set(qn("w:hAnsi"), SERIF)
            fonts.set(qn("w:cs"), self.complex)
            if self.east_asian:
                fonts.set(qn("w:eastAsia"), self.east_asian)
        quoted = self.file.styles["Quote"].font
        quoted.cs_italic = quoted.italic
        for border in self.file.styles["Title"].element.iter(qn("w:pBdr")):
            border.getparent().remove(border)
            break
        code = self.file.styles.add_style(CODE, WD_STYLE_TYPE.PARAGRAPH)
        code.base_style, code.font.name = self.file.styles["Normal"], "Consolas"
        _set_size(code.font, 9.5)
        rest = self.file.styles["Normal"].paragraph_format
        rest.space_after, rest.line_spacing = Pt(7), 1.3

    def fill(self) -> None:
        """Write all content."""
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
        """Write one step: in a recipe next to its pictures, in a book on a page of its own."""
        if self.layout == "book":
            self.file.add_page_break()
        if self.layout != "recipe" or not leaf.pictures:
            self.title(leaf)
            room = self.width, self.height * (0.62 if self.layout == "book" else 0.42)
            if _is_item(leaf):  # placed before the item, they would belong to the previous one
                self.words(leaf)
                self.pictures(leaf, *room)
            else:
                self.pictures(leaf, *room)
                self.words(leaf)
            return
        grid = self.file.add_table(rows=1, cols=2)
        grid.autofit = False
        self.turned(grid)
        before, self.place = self.place, None
        beside = picture_share(self.board.story)
        for cell, share, is_first in zip(
            grid.rows[0].cells, (1 - beside, beside), (True, False), strict=True
        ):
            cell.width = Mm(self.width * share)
            self.place = _Cell(cell)
            if is_first:
                self.title(leaf)
                self.words(leaf)
            else:
                self.pictures(leaf, self.width * share - 4, self.height * 0.35)
        self.place = before
        self.paragraph(Passage(), "Normal").paragraph_format.space_after = Pt(0)

    def title(self, leaf: Leaf) -> None:
        """Write the title of a step, if it has one, and its number if reasons are included."""
        if leaf.title:
            heading = self.paragraph(Passage(text=carried(leaf.title)), _heading(leaf.level))
            if leaf.number is not None and self.plan.with_reasons:
                self.run(heading, f"{leaf.number}. ", first=True).font.color.rgb = RGBColor(*RUBRIC)

    def words(self, leaf: Leaf) -> None:
        """Write the text of a step, and its reasons if they are included."""
        parts = list(leaf.body)
        if _is_item(leaf):
            item = {"kind": "item", "number": leaf.number, "depth": 1}
            deeper = (part.model_copy(update={"depth": part.depth + 1}) for part in parts[1:])
            parts = [parts[0].model_copy(update=item), *deeper]
        for part in parts:
            line = self.part(part)
            if self.layout == "book" and line is not None and part.kind == "paragraph" and not part.depth:
                line.alignment = WD_ALIGN_PARAGRAPH.CENTER
        if self.plan.with_reasons:
            shown = [] if leaf.picture is None else [f"{credit_line(leaf.picture)} · {leaf.file}"]
            for line in (*shown, *leaf.why.lines()):
                self.plain(line)

    def plain(self, text: str) -> None:
        """Write an English line that says how the storyboard was made."""
        line = self.place.add_paragraph(style="Caption")
        line.add_run(carried(text))

    def pictures(self, leaf: Leaf, width_mm: float, height_mm: float) -> None:
        """Write the pictures of a step, each with its caption."""
        for shown in leaf.pictures:
            tall = height_mm / len(leaf.pictures)
            copy = fit(shown, leaf.where, self.plan, (width_mm, tall))
            self.image(copy, shown.alt, width_mm, tall, shown.caption)

    def image(self, copy: Copy, alt: str, width_mm: float, height_mm: float, said: str) -> None:
        """Write a picture in a paragraph of its own, with its caption below."""
        line = self.place.add_paragraph()
        line.alignment = WD_ALIGN_PARAGRAPH.CENTER
        line.paragraph_format.keep_with_next = True
        scale = min(width_mm / copy.width_px, height_mm / copy.height_px)
        shape = line.add_run().add_picture(
            io.BytesIO(copy.data), width=Mm(copy.width_px * scale), height=Mm(copy.height_px * scale)
        )
        shape._inline.docPr.set("descr", carried(alt))  # python-docx has no public setter
        if said:
            caption = self.paragraph(Passage(text=carried(said)), "Caption")
            caption.alignment = WD_ALIGN_PARAGRAPH.CENTER

    def boxed(self, parts: Sequence[Part]) -> None:
        """Write parts in a box with a background."""
        cell = self.file.add_table(rows=1, cols=1).rows[0].cells[0]
        shade = OxmlElement("w:shd")
        for name, value in (
            ("val", "clear"),
            ("color", "auto"),
            ("fill", _hex(TINT)),
        ):
            shade.set(qn(f"w:{name}"), value)
        cell._tc.get_or_add_tcPr().append(shade)
        before, self.place = self.place, _Cell(cell)
        self.parts(parts)
        self.place = before
        self.paragraph(Passage(), "Normal").paragraph_format.space_after = Pt(0)

    def parts(self, parts: Sequence[Part]) -> None:
        """Write parts, in order."""
        for part in parts:
            for own in part.pictures:
                copy = fit_own(own, self.plan, (self.width, self.height * 0.4), self.warnings)
                if copy is not None:
                    self.image(copy, own.alt, self.width, self.height * 0.4, own.caption)
            self.part(part)

    def part(self, part: Part) -> Any | None:  # noqa: ANN401
        """Write one part; returns its paragraph, if it is one."""
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
            style = _heading(part.level)
        elif part.kind == "item":
            style = "List Paragraph"
        elif part.kind == "code":
            style = CODE
        elif part.depth:
            style = f"List Continue{'' if part.depth < 2 else f' {min(3, part.depth)}'}"
        elif part.quoted:
            style = "Quote"
        line = self.paragraph(part, style)
        if part.kind == "item":
            self.lists.count(line._p.get_or_add_pPr().get_or_add_numPr(), part)
            line.paragraph_format.space_after = Pt(2)
        elif part.depth:
            line.paragraph_format.left_indent = Mm(INDENT_MM * part.depth)
        if part.kind == "code":
            line.alignment = WD_ALIGN_PARAGRAPH.LEFT
        return line

    def table(self, part: Part) -> None:
        """Write a table; its header is repeated on every page."""
        columns = max(map(len, part.rows))
        grid = self.place.add_table(rows=len(part.rows), cols=columns)
        grid.style = "Table Grid"
        self.turned(grid)
        before = self.place
        for place, (line, row) in enumerate(zip(grid.rows, part.rows, strict=True)):
            for cell, said in zip(line.cells, row, strict=False):
                self.place = _Cell(cell)
                made = self.paragraph(said, "Normal")
                made.paragraph_format.space_after = Pt(2)
                for run in made.runs if place < part.head else ():
                    run.bold = run.font.cs_bold = True
            if place < part.head:
                head = OxmlElement("w:tblHeader")
                line._tr.get_or_add_trPr().append(head)
        self.place = before
        self.paragraph(Passage(), "Normal").paragraph_format.space_after = Pt(0)

    def paragraph(self, passage: Passage, style: str) -> Any:  # noqa: ANN401
        """Write a formatted paragraph, in the language and direction of the story."""
        line = self.place.add_paragraph(style=self.file.styles[style])
        beside = style in ("Title", "Subtitle", "Caption")
        if self.rtl if beside else self.runs_left(passage):
            line._p.get_or_add_pPr().insert_element_before(OxmlElement("w:bidi"), *_AFTER_BIDI)
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
                made.bold = made.font.cs_bold = "strong" in run.kinds or None
                made.italic = made.font.cs_italic = "emphasis" in run.kinds or None
                made.font.strike = "struck" in run.kinds or None
                made.font.superscript = "above" in run.kinds or None
                made.font.subscript = "below" in run.kinds or None
                if "code" in run.kinds:
                    made.font.name = "Consolas"
                if run.target:
                    made.underline, made.font.color.rgb = True, RGBColor(*RUBRIC)
                    into.append(made._r)
        return line

    def runs_left(self, part: Passage) -> bool:
        """Whether a paragraph runs from right to left, judged by its own letters if these are all or mostly
        of one direction.
        """
        if isinstance(part, Part) and part.kind == "code":
            return False
        if not self.rtl:
            return writing_direction([part.text]) == "rtl"
        classes = set(map(bidirectional, part.text))
        return bool(_RIGHT & classes) or "L" not in classes

    def turned(self, grid: Any) -> None:  # noqa: ANN401
        """Reverse the columns of a table if the story runs from right to left."""
        if self.rtl:
            grid._tbl.tblPr.insert_element_before(OxmlElement("w:bidiVisual"), *_AFTER_VISUAL)

    def run(self, line: Any, words: str, *, first: bool = False) -> Any:  # noqa: ANN401
        """Add text to a paragraph, at its end or before everything else."""
        made = line.add_run(words)
        properties = made._r.get_or_add_rPr()
        in_rtl = line._p.pPr is not None and line._p.pPr.find(qn("w:bidi")) is not None
        if in_rtl and (_RIGHT & (classes := set(map(bidirectional, words))) or "L" not in classes):
            properties.append(OxmlElement("w:rtl"))
        if self.language.isascii() and self.language:
            tongue = OxmlElement("w:lang")
            tongue.set(qn(self.spoken), self.language)
            properties.append(tongue)
        if first:
            properties_of = line._p.pPr
            line._p.remove(made._r)
            line._p.insert(0 if properties_of is None else 1, made._r)
        return made


class _Lists:
    """Lists in Word's own form; each numbered one starts at the author's number."""

    def __init__(self, numbering: Any) -> None:  # noqa: ANN401
        """Add list definitions to a document."""
        self.numbering = numbering
        first = numbering.find(qn("w:num"))
        known = [int(one.get(qn("w:abstractNumId"))) for one in numbering.findall(qn("w:abstractNum"))]
        self.looks = {kind: max(known, default=-1) + 1 + n for n, kind in enumerate(("bullet", "decimal"))}
        for kind, own in self.looks.items():
            levels = "".join(
                f'<w:lvl w:ilvl="{n}"><w:start w:val="1"/><w:numFmt w:val="{kind}"/>'
                f'<w:lvlText w:val="{"•" if kind == "bullet" else f"%{n + 1}."}"/><w:lvlJc w:val="start"/>'
                f'<w:pPr><w:ind w:left="{TWIPS * (n + 1)}" w:hanging="{TWIPS}"/></w:pPr>'
                f'<w:rPr><w:color w:val="{_hex(RUBRIC)}"/></w:rPr></w:lvl>'
                for n in range(DEEPEST)
            )
            look = parse_xml(
                f'<w:abstractNum {nsdecls("w")} w:abstractNumId="{own}">'
                f'<w:multiLevelType w:val="multilevel"/>{levels}</w:abstractNum>'
            )
            numbering.append(look) if first is None else first.addprevious(look)
        self.bullets = numbering.add_num(self.looks["bullet"]).numId
        self.open: dict[int, tuple[int, int]] = {}  # level → list, and the next number in it

    def count(self, place: Any, part: Part) -> None:  # noqa: ANN401
        """Make a paragraph an item, of the current list or of a new one."""
        level = min(DEEPEST, max(1, part.depth)) - 1
        self.open = {one: due for one, due in self.open.items() if one <= level}
        own, due = self.open.pop(level, (self.bullets, None))
        if part.number is None:
            own = self.bullets
        else:
            if due != part.number:
                made = self.numbering.add_num(self.looks["decimal"])
                made.add_lvlOverride(level).add_startOverride(part.number)
                own = made.numId
            self.open[level] = own, part.number + 1
        place.get_or_add_ilvl().val, place.get_or_add_numId().val = level, own


def _is_item(leaf: Leaf) -> bool:
    """Whether a step is written as an item of a numbered list."""
    kinds = [part.kind for part in leaf.parts]
    return leaf.number is not None and not leaf.title and kinds[:1] == ["paragraph"]


def _hex(colour: tuple[int, int, int]) -> str:
    return "{:02X}{:02X}{:02X}".format(*colour)


def _heading(level: int) -> str:
    """Style of a heading: Word counts levels below the title from 1."""
    return f"Heading {max(1, level - 1)}"


def _set_size(font: Any, points: float) -> None:  # noqa: ANN401
    """Set the size of letters of all scripts; python-docx sets only that of some."""
    font.size = Pt(points)
    properties = font._element.rPr
    for old in properties.findall(qn("w:szCs")):
        properties.remove(old)
    complex_size = OxmlElement("w:szCs")
    complex_size.set(qn("w:val"), str(round(2 * points)))
    properties.insert_element_before(complex_size, *_AFTER_SIZE)


class _Cell:
    """A table cell, which already has its first paragraph."""

    def __init__(self, cell: Any) -> None:  # noqa: ANN401
        self.cell, self.used = cell, False

    def add_paragraph(self, style: Any = None) -> Any:  # noqa: ANN401
        """Return the first paragraph, or add another one."""
        if self.used:
            return self.cell.add_paragraph(style=style)
        self.used = True
        line = self.cell.paragraphs[0]
        if style is not None:
            line.style = style
        return line

    def add_table(self, rows: int, cols: int) -> Any:  # noqa: ANN401
        """Add a table inside the cell."""
        self.used = True
        return self.cell.add_table(rows, cols)
