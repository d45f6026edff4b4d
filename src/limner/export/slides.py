"""The storyboard as slides: slide n is step n, picture beside text, reasons in the notes.

For teachers and meetings. Pictures keep their aspect and are scaled copies; a text too long for its
box is set smaller, and beyond that continues in the notes with a warning. It animates nothing.
"""

import io
import unicodedata
from bisect import bisect_left
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from pptx import Presentation
from pptx.dml.color import RGBColor
from pptx.enum.shapes import MSO_SHAPE
from pptx.enum.text import MSO_ANCHOR, MSO_AUTO_SIZE, PP_ALIGN
from pptx.util import Inches, Pt

from limner.export.leaf import INK, RUBRIC, SOFT, TINT, Leaf, leaves, printed
from limner.export.targets import Exported, whole
from limner.pictures.thumbnails import Copy
from limner.records import Story, Storyboard
from limner.templates import carried, forbidden

if TYPE_CHECKING:
    from pptx.shapes.autoshape import Shape
    from pptx.slide import Slide
    from pptx.text.text import TextFrame

WIDTH_IN, HEIGHT_IN = 13.333, 7.5
MARGIN_IN = 0.55
FOOT_IN = 0.5
GAP_IN = 0.5
SIZES_PT = (28, 26, 24, 22, 20, 18, 16, 14, 12, 11, 10)
LINE = 1.32
"""Line height as a multiple of the letter size."""

Box = tuple[float, float, float, float]


def write(board: Storyboard, out: Path) -> Exported:
    """Write the slides.

    Args:
        board: the storyboard.
        out: the .pptx file; checked by the caller.
    Raises:
        DataError: a picture is not there or cannot be read.
    """
    story = board.story
    show = Presentation()
    show.slide_width, show.slide_height = Inches(WIDTH_IN), Inches(HEIGHT_IN)
    properties = show.core_properties
    properties.title = carried(story.title.strip() or story.id)[:255]
    properties.author = carried(story.author)[:255]
    properties.language = carried(story.language)[:255]
    properties.comments = f"Made with limner {board.version}".strip()
    layout = next(each for each in show.slide_layouts if each.name == "Title Only")
    warnings = list(forbidden(story))
    for leaf in leaves(board):
        warnings += _fill(show.slides.add_slide(layout), leaf, story)
    with whole(out) as draft:
        show.save(str(draft))
    return Exported(out, warnings=tuple(warnings))


def _fill(slide: "Slide", leaf: Leaf, story: Story) -> list[str]:
    """Lay out one step; returns warnings."""
    copy = printed(leaf)
    aspect = 4 / 3 if copy is None else copy.width_px / copy.height_px
    picture_box, text_box = boxes(aspect, rtl=story.direction == "rtl")
    if copy is None:
        _blank(slide, leaf, picture_box)
    else:
        _picture(slide, copy, leaf.alt, picture_box)
    fits = _words(slide, leaf, story, text_box)
    _foot(slide, leaf, story)
    notes = slide.notes_slide.notes_text_frame
    if notes is not None:
        words = [] if fits else [leaf.text.text, ""]
        notes.text = carried("\n".join([*words, *leaf.why.lines()]))
    warnings = [] if copy is None else list(copy.warnings)
    if not fits:
        warnings.append(f"{leaf.where}: the text is too long for its slide; all of it is in the notes")
    return warnings


def boxes(aspect: float, *, rtl: bool) -> tuple[Box, Box]:
    """Where the picture and the text go: side by side, or a wide picture above its text.

    Args:
        aspect: width over height of the picture.
        rtl: whether the text runs from right to left, which puts the picture on the right.
    Returns:
        boxes of the picture and of the text: left, top, width, height in inches.
    """
    inner_w, inner_h = WIDTH_IN - 2 * MARGIN_IN, HEIGHT_IN - 2 * MARGIN_IN - FOOT_IN
    if aspect > 2.2:
        high = min(inner_w / aspect, inner_h * 0.5)
        top = MARGIN_IN + high + GAP_IN / 2
        return (MARGIN_IN, MARGIN_IN, inner_w, high), (MARGIN_IN, top, inner_w, MARGIN_IN + inner_h - top)
    wide = min(inner_h * aspect, inner_w * 0.56)
    wide = max(wide, inner_w * 0.2)
    rest = inner_w - wide - GAP_IN
    left = (MARGIN_IN, MARGIN_IN, wide, inner_h)
    if rtl:
        return (WIDTH_IN - MARGIN_IN - wide, MARGIN_IN, wide, inner_h), (MARGIN_IN, MARGIN_IN, rest, inner_h)
    return left, (MARGIN_IN + wide + GAP_IN, MARGIN_IN, rest, inner_h)


def letter_size(text: str, width_in: float, height_in: float) -> int | None:
    """The largest letter size at which the text should fit its box, or None.

    An estimate, for no font is installed that the reader's program will surely use: a letter takes
    0.55 of its size, an ideograph all of it.

    Args:
        text: with line ends.
        width_in: inner width of the box in inches.
        height_in: its inner height.
    Returns:
        one of `SIZES_PT`.
    """

    def lines(size: int) -> float:
        per_line = max(1.0, width_in * 72 / (size * 0.55))
        total = 0.0
        for line in text.split("\n"):
            letters = sum(1.9 if unicodedata.east_asian_width(letter) in "WF" else 1.0 for letter in line)
            # Lines end at words, so some of each is empty; the share is about a word in two lines.
            # Each paragraph is followed by a quarter of a line.
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


def _blank(slide: "Slide", leaf: Leaf, box: Box) -> None:
    shape = slide.shapes.add_shape(MSO_SHAPE.RECTANGLE, *map(Inches, box))
    shape.name = "Blank"
    shape.shadow.inherit = False
    shape.fill.solid()
    shape.fill.fore_color.rgb = cast(Any, RGBColor)(*TINT)
    shape.line.fill.background()
    frame = shape.text_frame
    frame.word_wrap = True
    said = ["No picture here.", leaf.step.reason]
    _set(frame, [line for line in said if line.strip()], 14, SOFT, align=PP_ALIGN.CENTER)


def _words(slide: "Slide", leaf: Leaf, story: Story, box: Box) -> bool:
    """The heading in the slide's title and the text below it; returns whether the text fits."""
    rtl = story.direction == "rtl"
    left, top, width, height = box
    heading = f"{leaf.number}  {' '.join(leaf.text.title.split())}".strip()
    # The layout has a title, so the slide has one.
    title = cast("Shape", slide.shapes.title)
    title_size = 24 if leaf.text.title.strip() else 16
    title_lines = 1 + len(heading) * title_size * 0.55 / 72 // width
    title_height = min(height * 0.35, title_lines * title_size * LINE / 72 + 0.12)
    title.left, title.top, title.width, title.height = map(Inches, (left, top, width, title_height))
    _plain(title.text_frame)
    _set(title.text_frame, [heading], title_size, RUBRIC, rtl=rtl)

    below, rest = top + title_height + 0.1, height - title_height - 0.1
    frame = _text_box(slide, "Text", (left, below, width, rest))
    frame.auto_size = MSO_AUTO_SIZE.NONE
    size = letter_size("\n".join(leaf.lines), width, rest)
    lines = leaf.lines if size else _beginning(leaf.lines, width, rest)
    _set(frame, lines, size or SIZES_PT[-1], INK, rtl=rtl, language=story.language)
    return size is not None


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


def _foot(slide: "Slide", leaf: Leaf, story: Story) -> None:
    top = HEIGHT_IN - MARGIN_IN - FOOT_IN + 0.2
    half = (WIDTH_IN - 2 * MARGIN_IN) / 2
    stated = " · ".join(filter(None, (story.title, story.author, story.license)))
    for name, words, left, align in (
        ("Credit", leaf.caption, MARGIN_IN, PP_ALIGN.LEFT),
        ("Story", stated, MARGIN_IN + half, PP_ALIGN.RIGHT),
    ):
        _set(_text_box(slide, name, (left, top, half, FOOT_IN)), [words], 9, SOFT, align=align)


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


def _set(
    frame: "TextFrame",
    pieces: list[str],
    size_pt: int,
    colour: tuple[int, int, int],
    *,
    rtl: bool = False,
    align: PP_ALIGN | None = None,
    language: str = "",
) -> None:
    """Fill a frame with one paragraph per piece, at the side where its letters begin unless told."""
    for place, piece in enumerate(pieces or [""]):
        paragraph: Any = frame.paragraphs[0] if place == 0 else cast(Any, frame).add_paragraph()
        run = paragraph.add_run()
        run.text = carried(" ".join(piece.split()))
        run.font.size = Pt(size_pt)
        run.font.name = "Georgia" if size_pt > 9 else "Arial"
        run.font.color.rgb = cast(Any, RGBColor)(*colour)
        if language.isascii() and language:
            run._r.get_or_add_rPr().set("lang", language)  # no public setter
        paragraph.line_spacing = 1.1
        paragraph.space_after = Pt(0 if place + 1 == len(pieces) else size_pt * 0.3)
        if rtl:
            paragraph._p.get_or_add_pPr().set("rtl", "1")  # no public setter
        paragraph.alignment = align or (PP_ALIGN.RIGHT if rtl else PP_ALIGN.LEFT)
