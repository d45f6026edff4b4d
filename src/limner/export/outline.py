"""What all exports show, in the order of the text: steps with their pictures, and the blocks between them."""

import math
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import PurePath
from typing import Any

from limner.errors import DataError
from limner.export import DPI, Plan
from limner.export.wording import colophon, explain, known_credit, one_line
from limner.language import languages_of
from limner.pictures.decode import decode, read_file
from limner.pictures.thumbnails import Copy, scaled, shrink
from limner.records import (
    NO_COVER,
    WHOLE,
    Area,
    Block,
    Board,
    BoardStep,
    Framing,
    Picture,
    PictureRef,
    Story,
)
from limner.templates import carried, forbidden
from limner.text.blocks import changed, letters, pictures_of
from limner.text.wanted import describes

INK, SOFT, RUBRIC, TINT = (29, 27, 26), (94, 90, 85), (165, 36, 43), (242, 240, 234)
"""Print colours: text, secondary text, marks, and the background of a box."""
_LONGEST_TITLE = 60
"""Number of characters that stand for the title of a text without one."""


@dataclass(frozen=True)
class Illustration:
    """A picture on the page, with its caption.

    Attributes:
        path: path of its file, or its name in the text.
        size_px: full size in pixels, width and height, upright.
        alt: alternative text, or "".
        caption: caption, or "".
        crop: crop area.
        focus: focal point; None for the middle of the crop area.
        read: function that makes a scaled copy, see `limner.pictures.thumbnails.shrink`.
    """

    path: str
    size_px: tuple[int, int]
    alt: str
    caption: str
    crop: Area
    focus: tuple[float, float] | None
    read: Callable[..., Copy]

    @property
    def aspect(self) -> float:
        """Ratio of width to height after cropping."""
        return (self.size_px[0] * self.crop.width) / (self.size_px[1] * self.crop.height)

    def copy(self, area_px: int, **options: Any) -> Copy:  # noqa: ANN401
        """A cropped copy of at most `area_px` pixels.

        Raises:
            DataError: the file is missing, has changed or cannot be read.
        """
        return self.read(**{"area_px": area_px, "crop": self.crop, **options})

    def printed(self, width_mm: float, height_mm: float) -> Copy:
        """A cropped JPEG with the resolution of print, for a box on the page; see `copy`."""
        width = min(width_mm, height_mm * self.aspect)
        area_px = math.ceil(width * width / self.aspect * (DPI / 25.4) ** 2)
        return self.copy(area_px, kind="JPEG", quality=86)

    def filling(self, shape: float) -> Area:
        """Largest part of the crop area with this ratio of width to height that includes the focal point."""
        crop, aspect = self.crop, self.aspect
        width, height = crop.width * min(1.0, shape / aspect), crop.height * min(1.0, aspect / shape)
        focus = self.focus or (crop.x + crop.width / 2, crop.y + crop.height / 2)
        x = min(max(focus[0] - width / 2, crop.x), crop.x + crop.width - width)
        y = min(max(focus[1] - height / 2, crop.y), crop.y + crop.height - height)
        return Area.model_construct(x=x, y=y, width=width, height=height)


@dataclass(frozen=True)
class Panel:
    """One step with its pictures.

    Attributes:
        step: the step of the storyboard.
        text: its words, as searched.
        title: its own heading, or "".
        level: level of that heading, 2 to 6.
        number: number that the text gives it as an item of a list, or None; only without a heading.
        body: its blocks without that heading and without the pictures of its plate.
        plate: pictures that stand apart from the words: the chosen one, or the text's own if they stand
            together at the beginning or the end.
        figures: all pictures: those of the plate, then those among the words.
        why: reasons for the choice, one or two sentences a line.
    """

    step: BoardStep
    text: str
    title: str
    level: int
    number: int | None
    body: tuple[Block, ...]
    plate: tuple[Illustration, ...]
    figures: tuple[Illustration, ...]
    why: tuple[str, ...]

    @property
    def position(self) -> int:
        """Number of the step, from 1."""
        return self.step.position + 1


Piece = Panel | tuple[Block, ...]
"""A step, or the blocks between two steps."""


class Outline:
    """The content of an export, without characters that a document cannot contain.

    Attributes:
        board, story, plan: what is exported.
        layout: layout of text and pictures.
        title, author: of the text; a text without a title has its first words as one.
        language: BCP 47 tag of the text, or "".
        rtl: whether the text runs from right to left.
        pieces, panels: steps and the blocks between them, in order; the steps alone. Places that the text
            marks are pictures among the blocks.
        filled: picture of each such place, by index of the step.
        cover: the picture that stands for the text, if it is not among the blocks.
        figures: pictures that the text shows, by their references. The blocks of all pieces name only these.
        colophon: the text's credits except its author, one line each.
        properties: title, author and language, as documents state them.
        warnings: notes for the user, one line each.
    """

    def __init__(self, board: Board, plan: Plan, suffix: str) -> None:
        """Prepare a storyboard.

        Args:
            board: the storyboard.
            plan: options.
            suffix: extension of the format, such as .pdf.
        """
        story = board.story
        self.board, self.story, self.plan, self.layout = board, story, plan, plan.layout_for(story, suffix)
        self.title, self.author = _line(story.title), _line(story.author)
        if not self.title:
            worded = (block.text for block in story.blocks if block.kind != "wanted")
            words = _line(next(filter(None, worded), story.steps[0].text))
            self.title = words if len(words) <= _LONGEST_TITLE else f"{words[:_LONGEST_TITLE].rstrip()}…"
        self.language, self.rtl = language_of(story), story.direction == "rtl"
        self.colophon = list(map(_line, colophon(story)))
        self.warnings = list(forbidden(story))
        self.figures: dict[PictureRef, Illustration] = {}
        self.filled: dict[int, Illustration] = {}
        self.pieces: list[Piece] = []
        places = story.places
        for place, blocks in story.runs():
            if place is not None and place in places:
                self._place(board.steps[place], blocks[0])
                continue
            step = None if place is None else board.steps[place]
            shown = self._shown(blocks, step)
            if step is not None:
                self.pieces.append(self._panel(step, shown))
            elif shown:
                self._add(shown)
        self.panels = [piece for piece in self.pieces if isinstance(piece, Panel)]
        self.cover = self._cover()
        self.properties = {"title": self.title, "author": self.author, "language": self.language}

    @property
    def front(self) -> Illustration | None:
        """The picture that stands for the text: its cover, or else its first picture."""
        for piece in self.pieces if self.cover is None else ():
            own = [] if isinstance(piece, Panel) else [self.figures[one] for one in pictures_of(piece)]
            if found := list[Illustration](piece.figures if isinstance(piece, Panel) else own):
                return found[0]
        return self.cover

    def _add(self, blocks: tuple[Block, ...]) -> None:
        """Add blocks between steps to those before them."""
        last = self.pieces[-1] if self.pieces else ()
        if isinstance(last, Panel) or not last:
            self.pieces.append(blocks)
        else:
            self.pieces[-1] = (*last, *blocks)

    def _place(self, step: BoardStep, block: Block) -> None:
        """Add the picture in a place that the text marks; on sheets and slides with the text before it.

        A place that stays blank shows nothing.
        """
        if step.picture is None:
            return
        figure = self.filled[step.position] = self._chosen(step, step.picture)
        before = self.pieces[-1] if self.pieces else ()
        if self.layout in ("book", "slides"):
            if before and not isinstance(before, Panel):
                self.pieces.pop()
            self.pieces.append(self._panel(step, () if isinstance(before, Panel) else before))
            return
        shown = PictureRef(target=step.picture.path, caption=str(step.position))
        why = _line(step.reason) if self.plan.with_reasons else ""
        caption = " · ".join(filter(None, (figure.caption, why)))
        self.figures[shown] = self.filled[step.position] = replace(figure, caption=caption)
        self._add((changed(block, kind="picture", text="", pictures=(shown,)),))

    def _chosen(self, step: BoardStep, picture: Picture) -> Illustration:
        """The chosen picture of a step; in a place that the text marks, the author's words describe it."""
        block = self.story.blocks[self.story.steps[step.position].run[0]]
        names = {letters(PurePath(path).stem) for path in picture.paths}
        is_told = block.kind == "wanted" and describes(block.text) and letters(block.text) not in names
        read = partial(shrink, picture, f"step {step.position + 1}")
        size, alt = (picture.width_px, picture.height_px), block.text if is_told else picture.alt
        return _figure(picture.path, size, alt, known_credit(picture), step.framing, read)

    def _cover(self) -> Illustration | None:
        """The cover that a person, the row or the metadata of the text names."""
        picture, stated = self.board.cover, self.story.cover
        if picture is not None:
            size = picture.width_px, picture.height_px
            alt, credit = picture.alt or self.title, known_credit(picture)
            return _figure(picture.path, size, alt, credit, Framing(), partial(shrink, picture, "cover"))
        shown = pictures_of(self.story.blocks[:1])
        if self.board.settings.get("cover") == NO_COVER or stated is None or not self._find(stated, None):
            return None
        return None if stated.sha256 in {one.sha256 for one in shown} else self.figures[stated]

    def _shown(self, blocks: Iterable[Block], step: BoardStep | None) -> tuple[Block, ...]:
        """Blocks without pictures that cannot be shown."""
        made = []
        for block in blocks:
            pictures = tuple(one for one in block.pictures if self._find(one, step))
            cells = [
                [one.model_copy(update={"text": carried(one.text)}) for one in row] for row in block.rows
            ]
            changed = {"text": carried(block.text), "pictures": pictures, "rows": tuple(map(tuple, cells))}
            if block.kind == "heading":  # which may be a bold line of the text
                changed["marks"] = tuple(mark for mark in block.marks if mark.kind != "strong")
            made += [block.model_copy(update=changed)] if block.kind != "picture" or pictures else []
        return tuple(made)

    def _find(self, reference: PictureRef, step: BoardStep | None) -> bool:
        """Whether a picture of the text can be shown; if not, there is a warning."""
        if reference in self.figures:
            return True
        suffix = PurePath(reference.path or "").suffix.lower()
        try:
            found = decode(_content(reference), side_px=1, suffix=suffix)
        except DataError as error:
            warning = f"the picture {reference.target} of the text is left out: {error}"
            self.warnings += [] if warning in self.warnings else [warning]
            return False
        size = found.width_px, found.height_px

        def read(**options: Any) -> Copy:  # noqa: ANN401  (read when used: one picture is in memory at a time)
            return scaled(_content(reference), suffix, size, **options)

        known, framing = None, Framing()
        if step is not None and step.picture is not None and step.picture.id == reference.sha256:
            known, framing = (
                step.picture,
                step.framing,
            )  # the library has it too, with description and credits
        alt = reference.alt or (known.alt if known else "")
        caption = " · ".join(filter(None, (reference.caption, known_credit(known))))
        self.figures[reference] = _figure(
            reference.path or reference.target, size, alt, caption, framing, read
        )
        return True

    def _panel(self, step: BoardStep, blocks: tuple[Block, ...]) -> Panel:
        heading = blocks[0] if blocks and blocks[0].kind == "heading" else None
        body, number = _unlisted(blocks) if heading is None else (blocks[1:], None)
        if heading is not None and heading.pictures:
            body = (Block(kind="picture", pictures=heading.pictures), *body)
        plate, picture = [], step.picture
        if picture is not None and step.origin != "given":
            plate = [self._chosen(step, picture)]
        elif _stand_together(body):
            plate = [self.figures[one] for block in body for one in block.pictures]
            words = [block for block in body if block.kind != "picture"]
            body = tuple(block.model_copy(update={"pictures": ()}) for block in words)
        return Panel(
            step=step,
            text=self.story.steps[step.position].text,
            title=heading.text.strip() if heading else "",
            level=max(2, heading.level) if heading else 2,
            number=number,
            body=body,
            plate=tuple(plate),
            figures=(*plate, *(self.figures[one] for block in body for one in block.pictures)),
            why=tuple(map(carried, explain(step))),
        )


def _line(text: str) -> str:
    return carried(one_line(text))


def _figure(  # noqa: PLR0917
    path: str, size: tuple[int, int], alt: str, caption: str, framing: Framing, read: Callable[..., Copy]
) -> Illustration:
    """A picture with its own alt text and caption, or those that the user gave it."""
    alt = alt if framing.alt is None else framing.alt
    caption = caption if framing.caption is None else framing.caption
    return Illustration(path, size, _line(alt), _line(caption), framing.crop or WHOLE, framing.focus, read)


def _content(reference: PictureRef) -> bytes:
    """Bytes of a picture that a text shows.

    Raises:
        DataError: there is no such file, or it has changed since the text was read.
    """
    if reference.data is not None:
        return reference.data
    if reference.path is None:
        raise DataError(f"it {reference.problem or 'is not on this machine'}")
    file = read_file(os.fsencode(reference.path))
    if file.sha256 != reference.sha256:
        raise DataError("its content may have changed since the text was read; illustrate the text again")
    return file.data


def _stand_together(body: Sequence[Block]) -> bool:
    """Whether all pictures of a step stand at its beginning or all at its end."""
    shown = [place for place, block in enumerate(body) if block.pictures]
    words = [place for place, block in enumerate(body) if block.kind != "picture"]
    return bool(shown) and (not words or shown[-1] <= words[0] or shown[0] >= words[-1])


def _unlisted(body: tuple[Block, ...]) -> tuple[tuple[Block, ...], int | None]:
    """Blocks of a step that is an item of a list as if it were none, and its number, if it has one."""
    first = next((block for block in body if block.kind != "picture"), Block())
    is_list = sum(block.kind == "item" and block.depth <= first.depth for block in body) > 1
    if first.kind != "item" or is_list:
        return body, None
    plain = [first.model_copy(update={"kind": "paragraph"}) if block is first else block for block in body]
    raised = (block.model_copy(update={"depth": max(0, block.depth - first.depth)}) for block in plain)
    return tuple(raised), first.number


def divided(blocks: Sequence[Block]) -> list[tuple[bool, list[Block]]]:
    """Split blocks into supply lists with their headings (True) and all others (False)."""
    made: list[tuple[bool, list[Block]]] = []
    for place, block in enumerate(blocks):
        after = blocks[place + 1 : place + 2] if block.kind == "heading" else ()
        is_supplies = any(one.role == "supplies" for one in (block, *after))
        if not made or made[-1][0] != is_supplies:
            made.append((is_supplies, []))
        made[-1][1].append(block)
    return made


def language_of(story: Story) -> str:
    """BCP 47 tag of a story: the stated one if it is valid, or else that of most steps; "" if unknown."""
    if re.fullmatch(r"[A-Za-z]{2,8}(-[A-Za-z0-9]{1,8})*", story.language):
        return story.language
    codes = Counter(one.code for one in languages_of([step.text for step in story.steps]).each)
    return codes.most_common(1)[0][0]
