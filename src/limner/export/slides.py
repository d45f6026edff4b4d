"""The storyboard as slides: title, and a slide for every step and for the text between them.

For teaching and meetings. Pictures keep their aspect ratio and are scaled copies; a text too long for its box
gets a smaller font, and if it is still too long, continues in the notes, with a warning. Reasons, if
included, are in the notes. There are no animations.
"""

import io
import math
import re
import unicodedata
from bisect import bisect_left
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from pptx import Presentation
from pptx.dml.color import RGBColor
from pptx.enum.text import MSO_ANCHOR, MSO_AUTO_SIZE, PP_ALIGN
from pptx.util import Inches, Pt

from limner.export import Exported, Plan, put_office
from limner.export.leaf import INK, RUBRIC, SOFT, Leaf, fit, fit_own, language_of, pieces_of
from limner.export.markup import TextRun, runs_of
from limner.export.wording import colophon
from limner.pictures.thumbnails import Copy
from limner.records import Board, Part, Passage
from limner.templates import carried, forbidden

if TYPE_CHECKING:
    from pptx.shapes.autoshape import Shape
    from pptx.slide import Slide
    from pptx.text.text import TextFrame

WIDTH_IN, HEIGHT_IN = 13.333, 7.5
MARGIN_IN = 0.55
FOOT_IN = 0.5
GAP_IN = 0.5
SHOWN_MM = (190.0, 150.0)
SIZES_PT = (28, 26, 24, 22, 20, 18, 16, 14, 12, 11, 10)
LINE = 1.32
"""Line height as a multiple of the letter size."""

Box = tuple[float, float, float, float]


def write(board: Board, out: Path, plan: Plan) -> Exported:
    """Write the slides.

    Args:
        board: the storyboard.
        out: the .pptx file; the caller has made sure that it may be written.
        plan: content and layout.

    Raises:
        DataError: a picture is missing or cannot be read.
    """
    made = _Show(board, plan)
    made.fill()
    put_office(out, made.show, board, plan, made.language)
    return Exported(out, warnings=tuple(made.warnings))


class _Show:
    """The slides being laid out."""

    def __init__(self, board: Board, plan: Plan) -> None:
        story = board.story
        self.board, self.plan, self.layout = board, plan, plan.layout_for(story, ".pptx")
        self.rtl, self.language = story.direction == "rtl", language_of(story)
        self.warnings = list(forbidden(story))
        self.size = WIDTH_IN, HEIGHT_IN
        if plan.page_size is not None:
            wide, high = sorted(plan.page_mm(), reverse=True)
            self.size = wide / 25.4, high / 25.4
        self.show: Any = Presentation()
        self.show.slide_width, self.show.slide_height = map(Inches, self.size)
        self.empty = next(each for each in self.show.slide_layouts if each.name == "Title Only")

    def fill(self) -> None:
        """Lay out everything."""
        self.cover()
        pieces = pieces_of(self.board, self.plan, self.layout)
        group = ""
        for piece in pieces:
            if isinstance(piece, Leaf):
                self.step(piece, group)
                group = ""
                continue
            # A heading with nothing below it becomes that of the next step.
            heads = piece[-1].kind == "heading" and piece is not pieces[-1]
            group = piece[-1].text if heads else ""
            self.between(piece[:-1] if heads else piece)

    def slide(self) -> "Slide":
        """Add a slide with only its title."""
        made: Slide = self.show.slides.add_slide(self.empty)
        return made

    def cover(self) -> None:
        """Add the title slide with title and author."""
        story = self.board.story
        slide, (wide, high) = self.slide(), self.size
        title = cast("Shape", slide.shapes.title)
        title.left, title.top, title.width, title.height = map(
            Inches, (MARGIN_IN, high * 0.3, wide - 2 * MARGIN_IN, high * 0.24)
        )
        _plain(title.text_frame)
        title.text_frame.vertical_anchor = MSO_ANCHOR.BOTTOM
        words = story.title.strip() or story.id
        self.set(title.text_frame, [Passage(text=words)], 44 if len(words) < 50 else 30, INK, PP_ALIGN.CENTER)
        if story.author.strip():
            frame = _text_box(slide, "Author", (MARGIN_IN, high * 0.57, wide - 2 * MARGIN_IN, 0.6))
            self.set(frame, [Passage(text=story.author)], 18, SOFT, PP_ALIGN.CENTER)
        if lines := [Passage(text=line) for line in colophon(story)]:
            frame = _text_box(slide, "Credits", (MARGIN_IN, high * 0.8, wide - 2 * MARGIN_IN, 0.9))
            self.set(frame, lines, 11, SOFT, PP_ALIGN.CENTER)

    def between(self, parts: Sequence[Part]) -> None:
        """Add slides for the text between steps: one for every heading, with its pictures."""
        groups: list[list[Part]] = []
        for part in parts:
            if not groups or part.kind == "heading":
                groups.append([])
            groups[-1].append(part)
        for group in groups:
            title = group[0].text if group[0].kind == "heading" else ""
            copies = [
                (copy, own.alt)
                for part in group
                for own in part.pictures
                if (copy := fit_own(own, self.plan, SHOWN_MM, self.warnings))
            ]
            lines = [
                line
                for place, part in enumerate(group)
                for line in (
                    *(own.caption for own in part.pictures if own.caption),
                    *(_lines_of(part) if place or not title else ()),
                )
            ]
            for copy, alt in copies:
                slide = self.slide()
                _drop_title(slide)
                _picture(slide, copy, alt, (MARGIN_IN, MARGIN_IN, *self.inner()))
            if lines or title:
                self.texts(title, lines)

    def inner(self) -> tuple[float, float]:
        """Width and height inside the margins, above the footer."""
        return self.size[0] - 2 * MARGIN_IN, self.size[1] - 2 * MARGIN_IN - FOOT_IN

    def texts(self, title: str, lines: Sequence[str | Passage]) -> None:
        """Add as many slides of text as needed."""
        left = [line if isinstance(line, Passage) else Passage(text=line) for line in lines]
        wide, high = self.inner()
        while left or title is not None:
            slide = self.slide()
            top = self.heading(slide, title, (MARGIN_IN, MARGIN_IN, wide, high)) if title else 0.0
            if not title:
                _drop_title(slide)
            count = len(left)
            while (
                count > 1
                and letter_size("\n".join(one.text for one in left[:count]), wide, high - top) is None
            ):
                count -= 1
            size = letter_size("\n".join(one.text for one in left[:count]), wide, high - top) or SIZES_PT[-1]
            frame = _text_box(slide, "Text", (MARGIN_IN, MARGIN_IN + top, wide, high - top))
            self.set(frame, left[:count] or [Passage()], min(size, 24), INK)
            left = left[count:]
            if not left:
                return

    def heading(self, slide: "Slide", words: str, box: Box) -> float:
        """Write the slide's title at the top of a box; returns its height."""
        left, top, wide, _ = box
        title = cast("Shape", slide.shapes.title)
        lines = 1 + len(words) * 26 * 0.55 / 72 // wide
        high = lines * 26 * LINE / 72 + 0.15
        title.left, title.top, title.width, title.height = map(Inches, (left, top, wide, high))
        _plain(title.text_frame)
        self.set(title.text_frame, [Passage(text=words)], 26, RUBRIC)
        return high + 0.1

    def step(self, leaf: Leaf, group: str) -> None:
        """Add one step, possibly the first of a group: pictures next to the text, or text alone."""
        slide, (wide, high) = self.slide(), self.inner()
        text_box = (MARGIN_IN, MARGIN_IN, wide, high)
        copies = [fit(shown, leaf.where, self.plan, SHOWN_MM) for shown in leaf.pictures]
        if copies:
            aspect = copies[0].width_px / copies[0].height_px if len(copies) == 1 else 1.0
            box, text_box = boxes(aspect, rtl=self.rtl, size=self.size)
            across = 2 if len(copies) > 2 else 1
            wide, tall = box[2] / across, box[3] / math.ceil(len(copies) / across)
            for n, (copy, shown) in enumerate(zip(copies, leaf.pictures, strict=True)):
                row, column = divmod(n, across)
                place = (box[0] + column * wide, box[1] + row * tall, wide - 0.1 * (across > 1))
                _picture(slide, copy, shown.alt, (*place, tall - 0.1 * (row > 0)))
        fits = self.words(slide, leaf, group, text_box)
        self.foot(slide, leaf)
        told = [] if fits else [leaf.text.text, ""]
        told += leaf.why.lines() if self.plan.with_reasons else ()
        if told and slide.notes_slide.notes_text_frame is not None:
            slide.notes_slide.notes_text_frame.text = carried("\n".join(told))
        if not fits:
            self.warnings.append(
                f"{leaf.where}: the text is too long for its slide; all of it is in the notes"
            )

    def words(self, slide: "Slide", leaf: Leaf, group: str, box: Box) -> bool:
        """Write the heading as the slide's title, and the text below; returns whether it fits."""
        left, top, wide, high = box
        number = "" if leaf.number is None else str(leaf.number)
        heading = "  ".join(filter(None, (f"{group} ·" if group and number else group, number, leaf.title)))
        taken = self.heading(slide, heading, box) if heading else 0.0
        if not heading:
            # Programs list slides by their titles, so a slide that shows none has a hidden one.
            title = cast("Shape", slide.shapes.title)
            title.left, title.top, title.width, title.height = map(Inches, (left, -1.0, wide, 0.5))
            self.set(title.text_frame, [Passage(text=leaf.text.text[:60])], 10, SOFT)
        frame = _text_box(slide, "Text", (left, top + taken, wide, high - taken))
        frame.auto_size = MSO_AUTO_SIZE.NONE
        lines = [line for part in leaf.body for line in _lines_of(part)]
        if not lines:
            return True
        size = letter_size("\n".join(line.text for line in lines), wide, high - taken)
        if size is None:
            words = [piece for line in lines for piece in line.text.split("\n")]
            lines = [Passage(text=line) for line in _beginning(words, wide, high - taken)]
        if size and not taken:
            frame.vertical_anchor = MSO_ANCHOR.MIDDLE
        self.set(frame, lines, size or SIZES_PT[-1], INK)
        return size is not None

    def foot(self, slide: "Slide", leaf: Leaf) -> None:
        """Write the footer: credits of the pictures, and the title of the story."""
        wide, high = self.size
        half = (wide - 2 * MARGIN_IN) / 2
        top = high - MARGIN_IN - FOOT_IN + 0.2
        captions = " · ".join(filter(None, (shown.caption for shown in leaf.pictures)))
        stated = " · ".join(filter(None, (self.board.story.title, self.board.story.author)))
        for name, words, left, align in (
            ("Credit", captions, MARGIN_IN, PP_ALIGN.LEFT),
            ("Story", stated, MARGIN_IN + half, PP_ALIGN.RIGHT),
        ):
            if words:
                self.set(
                    _text_box(slide, name, (left, top, half, FOOT_IN)), [Passage(text=words)], 9, SOFT, align
                )

    def set(
        self,
        frame: "TextFrame",
        lines: Sequence[Passage],
        size_pt: int,
        colour: tuple[int, int, int],
        align: PP_ALIGN | None = None,
    ) -> None:
        """Fill a frame with one paragraph per line, aligned by default to the side where letters begin."""
        for place, line in enumerate(lines or [Passage()]):
            paragraph: Any = frame.paragraphs[0] if place == 0 else cast(Any, frame).add_paragraph()
            broken = (
                (place > 0, TextRun(words, run.kinds, run.target))
                for run in runs_of(line)
                for place, words in enumerate(re.sub(r"[^\S\n\u2003]+", " ", run.text).split("\n"))
            )
            for starts_line, words in broken:
                if starts_line:
                    paragraph.add_line_break()
                run = paragraph.add_run()
                run.text = carried(words.text)
                run.font.size = Pt(size_pt)
                run.font.name = "Georgia" if size_pt > 9 else "Arial"
                run.font.color.rgb = cast(Any, RGBColor)(*colour)
                run.font.bold = "strong" in words.kinds or None
                run.font.italic = "emphasis" in words.kinds or None
                if words.target:
                    run.hyperlink.address = words.target
                if self.language.isascii() and self.language:
                    run._r.get_or_add_rPr().set("lang", self.language)  # no public setter
            paragraph.line_spacing = 1.1
            paragraph.space_after = Pt(0 if place + 1 == len(lines) else size_pt * 0.3)
            if self.rtl:
                paragraph._p.get_or_add_pPr().set("rtl", "1")  # no public setter
            paragraph.alignment = align or (PP_ALIGN.RIGHT if self.rtl else PP_ALIGN.LEFT)


def _lines_of(part: Part) -> list[Passage]:
    """Lines of a part on a slide."""
    if part.kind == "table":
        rows = ["   ".join(cell.text for cell in row) for row in part.rows]
        return [Passage(text=row) for row in rows if row.strip()]
    mark = "" if part.kind != "item" else "• " if part.number is None else f"{part.number}. "
    mark = "\u2003" * max(0, part.depth - (part.kind == "item")) + mark
    if not part.text:
        return []
    moved = tuple(
        mark_.model_copy(update={"start": mark_.start + len(mark), "end": mark_.end + len(mark)})
        for mark_ in part.marks
    )
    return [Passage(text=mark + part.text, marks=moved)]


def _drop_title(slide: "Slide") -> None:
    """Remove the empty title of a slide, which programs would show as a field to fill in."""
    title = cast(Any, slide.shapes.title)
    title._element.getparent().remove(title._element)


def boxes(aspect: float, *, rtl: bool, size: tuple[float, float] = (WIDTH_IN, HEIGHT_IN)) -> tuple[Box, Box]:
    """Where the picture and the text go: side by side, or a wide picture above its text.

    Args:
        aspect: width over height of the picture.
        rtl: whether the text runs from right to left, which puts the picture on the right.
        size: width and height of the slide in inches.

    Returns:
        Boxes of the picture and of the text: left, top, width, height in inches.
    """
    inner_w, inner_h = size[0] - 2 * MARGIN_IN, size[1] - 2 * MARGIN_IN - FOOT_IN
    if aspect > 2.2:
        high = min(inner_w / aspect, inner_h * 0.5)
        top = MARGIN_IN + high + GAP_IN / 2
        return (MARGIN_IN, MARGIN_IN, inner_w, high), (MARGIN_IN, top, inner_w, MARGIN_IN + inner_h - top)
    wide = min(inner_h * aspect, inner_w * 0.56)
    wide = max(wide, inner_w * 0.2)
    rest = inner_w - wide - GAP_IN
    left = (MARGIN_IN, MARGIN_IN, wide, inner_h)
    if rtl:
        return (size[0] - MARGIN_IN - wide, MARGIN_IN, wide, inner_h), (MARGIN_IN, MARGIN_IN, rest, inner_h)
    return left, (MARGIN_IN + wide + GAP_IN, MARGIN_IN, rest, inner_h)


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

    def lines(size: int) -> float:
        per_line = max(1.0, width_in * 72 / (size * 0.55))
        total = 0.0
        for line in text.split("\n"):
            letters = sum(1.9 if unicodedata.east_asian_width(letter) in "WF" else 1.0 for letter in line)
            # Lines break between words, so part of each line is empty: about a word in two lines. Each
            # paragraph is followed by a quarter of a line.
            total += max(1, -(-letters * 1.06 // per_line)) + 0.25
        return total

    return next((size for size in SIZES_PT if lines(size) * size * LINE / 72 <= height_in), None)


def _picture(slide: "Slide", copy: Copy, alt: str, box: Box) -> None:
    left, top, width, height = box
    scale = min(width / copy.width_px, height / copy.height_px)
    wide, high = copy.width_px * scale, copy.height_px * scale
    place = (left + (width - wide) / 2, top + (height - high) / 2, wide, high)
    shape = slide.shapes.add_picture(io.BytesIO(copy.data), *map(Inches, place))
    shape.name = "Picture"
    shape._element._nvXxPr.cNvPr.set("descr", carried(alt))  # python-pptx has no public setter


def _beginning(pieces: list[str], width: float, height: float) -> list[str]:
    """As many whole words as fit at the smallest size, with an ellipsis."""
    words = [(place, word) for place, piece in enumerate(pieces) for word in piece.split(" ")]

    def joined(count: int) -> list[str]:
        lines: dict[int, list[str]] = {}
        for place, word in words[:count]:
            lines.setdefault(place, []).append(word)
        return [" ".join(line) for line in lines.values()]

    def is_too_long(count: int) -> bool:
        return letter_size("\n".join(joined(count)) + " …", width, height) is None

    kept = joined(bisect_left(range(1, len(words) + 1), True, key=is_too_long))
    return [*kept[:-1], f"{kept[-1]} …"] if kept else ["…"]


def _text_box(slide: "Slide", name: str, box: Box) -> "TextFrame":
    shape = slide.shapes.add_textbox(*map(Inches, box))
    shape.name = name
    frame: TextFrame = shape.text_frame
    _plain(frame)
    return frame


def _plain(frame: "TextFrame") -> None:
    frame.word_wrap = True
    for side in ("left", "right", "top", "bottom"):
        setattr(frame, f"margin_{side}", 0)
    frame.vertical_anchor = MSO_ANCHOR.TOP
