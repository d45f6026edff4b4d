"""The storyboard as slides: title, and a slide for every step and for the text between them.

For teaching and meetings. A text too long for its box gets a smaller font, and if it is still too long,
continues on the next slide. Reasons, if included, are in the notes.
"""

import io
import math
import re
import unicodedata
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pptx import Presentation
from pptx.dml.color import RGBColor
from pptx.enum.text import MSO_ANCHOR, PP_ALIGN
from pptx.util import Inches, Pt

from limner.export import Exported, Plan, put_office
from limner.export.markup import runs_of
from limner.export.outline import INK, RUBRIC, SOFT, Illustration, Outline, Panel
from limner.records import Block, Board
from limner.text.blocks import cut, strip

WIDTH_IN, HEIGHT_IN = 13.333, 7.5
MARGIN_IN = GAP_IN = 0.55
CAPTION_IN = 0.3
SIZES_PT = (28, 26, 24, 22, 20, 18, 16, 14, 12)
LINE = 1.32
"""Line height as a multiple of the letter size."""
MAX_CHARACTERS = 400
"""Length of the parts in which a paragraph too long for its slide is divided."""

Box = tuple[float, float, float, float]
"""Left, top, width and height in inches."""


def write(board: Board, out: Path, plan: Plan) -> Exported:
    """Write the slides.

    Args:
        board: the storyboard.
        out: the .pptx file; the caller has made sure that it may be written.
        plan: options.

    Raises:
        DataError: a picture is missing or cannot be read.
    """
    outline = Outline(board, plan, ".pptx")
    put_office(out, _Show(outline).show, **outline.properties)
    return Exported(out, warnings=tuple(outline.warnings))


class _Show:
    """The slides being laid out."""

    def __init__(self, outline: Outline) -> None:
        self.outline, self.size = outline, (WIDTH_IN, HEIGHT_IN)
        if outline.plan.page_size is not None:
            wide, high = sorted(outline.plan.page_mm(), reverse=True)
            self.size = wide / 25.4, high / 25.4
        self.across = self.size[0] - 2 * MARGIN_IN
        self.show: Any = Presentation()
        self.show.slide_width, self.show.slide_height = map(Inches, self.size)
        self.empty = next(each for each in self.show.slide_layouts if each.name == "Title Only")
        self.cover()
        self.fill()

    def cover(self) -> None:
        """Add the title slide with title, author and credits."""
        outline, high = self.outline, self.size[1]
        slide = self.show.slides.add_slide(self.empty)
        title, points = slide.shapes.title, 44 if len(outline.title) < 50 else 30
        box = (MARGIN_IN, high * 0.3, self.across, high * 0.24)
        if outline.cover is not None:
            self.picture(slide, outline.cover, (MARGIN_IN, MARGIN_IN, self.across, high * 0.3))
            box = (MARGIN_IN, high * 0.42, self.across, high * 0.14)
        self.set(title, box, [outline.title], points, align=PP_ALIGN.CENTER)
        title.text_frame.vertical_anchor = MSO_ANCHOR.BOTTOM
        box = (MARGIN_IN, high * 0.57, self.across, 0.6)
        self.add(slide, "Author", box, [outline.author], 18, SOFT, PP_ALIGN.CENTER)
        box = (MARGIN_IN, high * 0.8, self.across, 0.9)
        self.add(slide, "Credits", box, outline.colophon, 11, SOFT, PP_ALIGN.CENTER)

    def fill(self) -> None:
        """Lay out all slides but the first."""
        group, outline = "", self.outline
        for piece in outline.pieces:
            if isinstance(piece, Panel):
                number = "" if piece.number is None else str(piece.number)
                title = " · ".join(filter(None, (group, number or piece.title)))
                self.slides(title, piece.figures, piece.body, piece.why if outline.plan.with_reasons else ())
                group = ""
                continue
            sections: list[tuple[str, list[Block]]] = []
            for block in piece:
                sections += [] if sections and block.kind != "heading" else [("", [])]
                if block.kind == "heading":
                    sections[-1] = (block.text, [Block(kind="picture", pictures=block.pictures)])
                else:
                    sections[-1][1].append(block)
            # A heading with nothing below it becomes that of the next step.
            is_last, (group, blocks) = piece is outline.pieces[-1], sections[-1]
            if is_last or len(blocks) > 1 or not group or blocks[0].pictures:
                group = ""
            else:
                sections.pop()
            for title, blocks in sections:
                figures = [outline.figures[one] for block in blocks for one in block.pictures]
                self.slides(title, figures, blocks)

    def slides(
        self, title: str, figures: Sequence[Illustration], blocks: Sequence[Block], notes: Sequence[str] = ()
    ) -> None:
        """Add a slide with pictures beside a text, and further slides for what does not fit."""
        rest = [line for block in blocks for line in _lines_of(block)]
        title_of_text = self.outline.title if self.outline.story.title.strip() else ""
        story = " · ".join(filter(None, (title_of_text, self.outline.author)))
        while True:
            slide = self.show.slides.add_slide(self.empty)
            left, top, wide, high = self.pictures(slide, figures)
            if title:
                tall = (1 + len(title) * 26 * 0.55 / 72 // wide) * 26 * LINE / 72 + 0.15
                self.set(slide.shapes.title, (left, top, wide, tall), [title], 26, RUBRIC)
                top, high = top + tall + 0.1, high - tall - 0.1
            else:  # programs list slides by their titles, so a slide that shows none has a hidden one
                hidden = " ".join([*(line.text for line in rest), *(figure.alt for figure in figures)])
                self.set(slide.shapes.title, (left, -1.0, wide, 0.5), [hidden[:60]], 10, SOFT)
            lines, rest, points = _fitting(rest, wide, high)
            frame = self.add(slide, "Text", (left, top, wide, high), lines, points)
            if frame and not title and not rest:
                frame.vertical_anchor = MSO_ANCHOR.MIDDLE
            foot = (MARGIN_IN, self.size[1] - MARGIN_IN - CAPTION_IN, self.across, CAPTION_IN)
            self.add(slide, "Story", foot, [story], 9, SOFT, PP_ALIGN.RIGHT)
            if notes:
                slide.notes_slide.notes_text_frame.text = "\n".join(notes)
            if not rest:
                return
            figures, notes = (), ()

    def pictures(self, slide: Any, figures: Sequence[Illustration]) -> Box:  # noqa: ANN401
        """Add pictures with their captions to a slide; returns the box that is left for the text."""
        aspect = figures[0].aspect if len(figures) == 1 else 1.0
        (left, top, wide, high), text = boxes(aspect, rtl=self.outline.rtl, size=self.size)
        if not figures:
            return MARGIN_IN, MARGIN_IN, self.across, text[3]
        across = 1 if len(figures) < 3 else math.ceil(math.sqrt(len(figures)))
        wide, high = wide / across, high / math.ceil(len(figures) / across)
        for place, figure in enumerate(figures):
            row, column = divmod(place, across)
            room = wide - 0.1 * (across > 1), high - 0.1 * (row > 0) - CAPTION_IN * bool(figure.caption)
            box = (left + column * wide, top + row * high, *room)
            below = (box[0], self.picture(slide, figure, box) + 0.07, room[0], CAPTION_IN)
            self.add(slide, "Caption", below, [figure.caption], 9, SOFT, PP_ALIGN.CENTER)
        return text

    def picture(self, slide: Any, figure: Illustration, box: Box) -> float:  # noqa: ANN401
        """Add a picture in the middle of a box; returns its lower edge."""
        left, top, wide, high = box
        copy = figure.printed(wide * 25.4, high * 25.4)
        scale = min(wide / copy.width_px, high / copy.height_px)
        size = copy.width_px * scale, copy.height_px * scale
        x, y = left + (wide - size[0]) / 2, top + (high - size[1]) / 2
        shape = slide.shapes.add_picture(io.BytesIO(copy.data), *map(Inches, (x, y, *size)))
        shape.name = "Picture"
        shape._element._nvXxPr.cNvPr.set("descr", figure.alt)  # python-pptx has no public setter
        return y + size[1]

    def add(self, slide: Any, name: str, box: Box, lines: Sequence[str | Block], *look: Any) -> Any:  # noqa: ANN401
        """Add a box of text to a slide, if there is any; see `set`."""
        if not any(lines):
            return None
        shape = slide.shapes.add_textbox(0, 0, 0, 0)
        shape.name = name
        self.set(shape, box, lines, *look)
        return shape.text_frame

    def set(  # noqa: PLR0917
        self,
        shape: Any,  # noqa: ANN401
        box: Box,
        lines: Sequence[str | Block],
        points: int,
        colour: tuple[int, int, int] = INK,
        align: PP_ALIGN | None = None,
    ) -> None:
        """Place a shape and fill it with one paragraph per line, by default aligned where letters begin."""
        shape.left, shape.top, shape.width, shape.height = map(Inches, box)
        frame, language = shape.text_frame, self.outline.language
        frame.word_wrap, frame.vertical_anchor = True, MSO_ANCHOR.TOP
        frame.margin_left = frame.margin_right = frame.margin_top = frame.margin_bottom = 0
        for place, line in enumerate(lines):
            paragraph = frame.paragraphs[0] if place == 0 else frame.add_paragraph()
            for words in runs_of(line if isinstance(line, Block) else Block(text=line)):
                for part, text in enumerate(words.text.split("\n")):
                    if part:
                        paragraph.add_line_break()
                    run = paragraph.add_run()
                    run.text = re.sub(r"[^\S\u2003]+", " ", text)
                    run.font.size, run.font.name = Pt(points), "Georgia" if points > 9 else "Arial"
                    run.font.color.rgb = RGBColor(*colour)  # type: ignore[no-untyped-call]
                    run.font.bold = "strong" in words.kinds or None
                    run.font.italic = "emphasis" in words.kinds or None
                    run.hyperlink.address = words.target or None
                    if language:
                        run._r.get_or_add_rPr().set("lang", language)  # no public setter
            paragraph.line_spacing = 1.1
            paragraph.space_after = Pt(0 if place + 1 == len(lines) else points * 0.3)
            if self.outline.rtl:
                paragraph._p.get_or_add_pPr().set("rtl", "1")  # no public setter
            paragraph.alignment = align or (PP_ALIGN.RIGHT if self.outline.rtl else PP_ALIGN.LEFT)


def _lines_of(block: Block) -> list[Block]:
    """Lines of a block on a slide."""
    if block.kind == "table":
        rows = ("   ".join(cell.text for cell in row) for row in block.rows)
        return [Block(text=row) for row in rows if row.strip()]
    mark = "" if block.kind != "item" else "• " if block.number is None else f"{block.number}. "
    mark = "\u2003" * max(0, block.depth - (block.kind == "item")) + mark
    moved = [
        one.model_copy(update={"start": one.start + len(mark), "end": one.end + len(mark)})
        for one in block.marks
    ]
    return [Block(text=mark + block.text, marks=tuple(moved))] if block.text else []


def _fitting(lines: list[Block], wide: float, high: float) -> tuple[list[Block], list[Block], int]:
    """Lines that fit a box, those that do not, and the size of the letters."""

    def size_of(some: Sequence[Block]) -> int | None:
        return letter_size("\n".join(line.text for line in some), wide, high)

    if size := size_of(lines):
        return lines, [], size
    parts = [part for line in lines for part in _parts(line)]
    count = 1
    while count < len(parts) and size_of(parts[: count + 1]):
        count += 1
    return parts[:count], parts[count:], SIZES_PT[-1]


def _parts(line: Block) -> list[Block]:
    """A long line in parts that end with a sentence or, where there is none, with a word."""
    parts = []
    while len(line.text) > MAX_CHARACTERS:
        ends = (line.text.rfind(sign, 1, MAX_CHARACTERS) + 1 for sign in (". ", " "))
        end = next(filter(None, ends), MAX_CHARACTERS)
        parts.append(strip(cut(line, 0, end)))
        line = strip(cut(line, end))
    return [*parts, line]


def boxes(aspect: float, *, rtl: bool, size: tuple[float, float] = (WIDTH_IN, HEIGHT_IN)) -> tuple[Box, Box]:
    """Boxes of picture and text: side by side, or a wide picture above its text.

    Args:
        aspect: width over height of the picture.
        rtl: whether the text runs from right to left, which puts the picture on the right.
        size: width and height of the slide in inches.
    """
    across, down = size[0] - 2 * MARGIN_IN, size[1] - 2 * MARGIN_IN - CAPTION_IN - 0.15
    if aspect > 2.2:
        high = min(across / aspect + CAPTION_IN, down * 0.5)
        top = MARGIN_IN + high + GAP_IN / 2
        return (MARGIN_IN, MARGIN_IN, across, high), (MARGIN_IN, top, across, MARGIN_IN + down - top)
    wide = max(min(down * aspect, across * 0.56), across * 0.2)
    rest = across - wide - GAP_IN
    picture, text = (rest + GAP_IN, 0.0) if rtl else (0.0, wide + GAP_IN)
    return (MARGIN_IN + picture, MARGIN_IN, wide, down), (MARGIN_IN + text, MARGIN_IN, rest, down)


def letter_size(text: str, width_in: float, height_in: float) -> int | None:
    """The largest letter size at which the text should fit its box, or None.

    An estimate, because the reader's fonts are unknown: a letter takes 0.55 of its size, a Chinese character
    all of it.

    Args:
        text: text with line ends.
        width_in: inner width of the box in inches.
        height_in: inner height of the box in inches.
    Returns:
        One of `SIZES_PT`, or None.
    """
    lines = text.split("\n")
    letters = [
        len(line) + 0.9 * sum(unicodedata.east_asian_width(one) in "WF" for one in line) for line in lines
    ]

    def height(size: int) -> float:
        # Lines break between words, so part of each line is empty: about a word in two lines. Each paragraph
        # is followed by a quarter of a line.
        per_line = max(1.0, width_in * 72 / (size * 0.55))
        return sum(max(1, -(-count * 1.06 // per_line)) + 0.25 for count in letters) * size * LINE / 72

    return next((size for size in SIZES_PT if height(size) <= height_in), None)
