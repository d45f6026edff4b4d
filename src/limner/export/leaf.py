"""Content of an export for all formats: the steps with their pictures, and the text between steps."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from limner.errors import DataError
from limner.export import Layout, Plan
from limner.export.wording import alt_text, explain, file_name, known_credit, paragraphs
from limner.match.languages import languages_of_story
from limner.pictures.thumbnails import Copy, scaled, shrink
from limner.records import WHOLE, Area, Board, BoardStep, Framing, Part, Picture, PictureRef, Story
from limner.templates import carried
from limner.text.plain import marker_of, names_supplies

INK, SOFT, RUBRIC, TINT = (29, 27, 26), (94, 90, 85), (165, 36, 43), (242, 240, 234)
"""Print colours: text, secondary text, marks, and the background of a box."""


@dataclass(frozen=True)
class ShownPicture:
    """A picture of a step.

    Attributes:
        picture: the picture.
        alt: alt text.
        caption: caption, or "".
        crop: crop area; None for the whole picture.
    """

    picture: Picture
    alt: str
    caption: str
    crop: Area | None = None

    @property
    def aspect(self) -> float:
        """Ratio of width to height after cropping."""
        crop = self.crop or WHOLE
        return (self.picture.width_px * crop.width) / (self.picture.height_px * crop.height)

    @property
    def name(self) -> str:
        """Unique name of the picture with its crop area."""
        return self.picture.id if self.crop is None else f"{self.picture.id} {self.crop!r}"


class Leaf:
    """One step, as in all formats.

    Attributes:
        step, text: the step of the storyboard, and that of the story.
        position: number of the step, from 1.
        number: the author's number of the step, or None.
        where: name of the step for messages, such as "step 3".
        title: its own heading; "" if it has none or shares one with its group.
        level: level of that heading, 2 to 6.
        parts: its text, formatted as by the author.
        own: the text's own picture that is shown first, or None.
        pictures: its pictures, in order; empty for a blank.
        picture: the first of them, or None.
        alt, file: of that picture; "" for a blank.
        why: reason for the choice.
    """

    def __init__(self, step: BoardStep, story: Story, *, with_reasons: bool = False) -> None:
        """Prepare a step of a storyboard."""
        self.step, self.text = step, story.steps[step.position]
        self.position = step.position + 1
        self.where = f"step {self.position}"
        self.parts, self.number = parts_of(self.text.text, self.text.parts)
        self.title, self.level = self.text.title.strip(), 2
        self.why = explain(step)
        self.picture = step.picture
        self.file = "" if self.picture is None else file_name(self.picture)
        chooser = self.why.origin if with_reasons and step.origin in ("pinned", "given") else ""
        own = own_picture(step, story)
        self.pictures = tuple(
            _shown(step, story, picture, chooser, own.caption if own and not place else "")
            for place, picture in enumerate(step.pictures)
        )
        self.own = own
        self.alt = self.pictures[0].alt if self.pictures else ""

    @property
    def body(self) -> tuple[Part, ...]:
        """The words of the step, and captions of the text's own pictures that are not shown."""
        return (*self.parts, *captions_of(one for one in self.text.pictures if one is not self.own))


def captions_of(refs: Iterable[PictureRef]) -> tuple[Part, ...]:
    """Captions of the text's own pictures, as text."""
    return tuple(Part(text=carried(one.caption)) for one in refs if one.caption)


def own_picture(step: BoardStep, story: Story) -> PictureRef | None:
    """The text's own picture that a step shows first, or None."""
    if step.origin != "given":
        return None
    refs = story.steps[step.position].pictures
    return next((one for one in refs if one.path), refs[0] if refs else None)


def _shown(step: BoardStep, story: Story, picture: Picture, chooser: str, caption: str) -> ShownPicture:
    """Picture of a step, with the author's caption and alt text if there are any."""
    how = step.framing.get(picture.id, Framing())
    alt = how.alt if how.alt is not None else alt_text(step, story, picture)
    known = " · ".join(filter(None, (chooser, caption, known_credit(picture))))
    return ShownPicture(picture, alt, how.caption if how.caption is not None else known, how.crop)


Piece = Leaf | tuple[Part, ...]


def parts_of(text: str, parts: Sequence[Part]) -> tuple[tuple[Part, ...], int | None]:
    """Parts of a step's text, and the author's number of the step, if any.

    The reader's parts are used if they still contain the step's words; otherwise its paragraphs. The marker
    of an item that is a step of its own is not part of its words.
    """
    said = "".join(_mark(part) + part.text for part in parts[1:])
    first = parts[0] if parts else Part()
    listed = first.kind == "item" and not text.startswith(_mark(first))
    if not parts or _letters(("" if listed else _mark(first)) + first.text + said) != _letters(text):
        return tuple(Part(text=one) for one in paragraphs(text)), None
    if not listed:
        return tuple(map(_carried, parts)), None
    plain = (first.model_copy(update={"kind": "paragraph"}), *parts[1:])
    raised = (part.model_copy(update={"depth": max(0, part.depth - 1)}) for part in plain)
    return tuple(_carried(part) for part in raised if part.text), first.number


def _mark(part: Part) -> str:
    """Mark at the beginning of a list item in the words of a step."""
    if part.kind != "item":
        return ""
    return "- " if part.number is None else f"{part.number}. "


def _letters(text: str) -> str:
    return "".join(filter(str.isalnum, text))


def _carried(part: Part) -> Part:
    rows = tuple(
        tuple(cell.model_copy(update={"text": carried(cell.text)}) for cell in row) for row in part.rows
    )
    return part.model_copy(update={"text": carried(part.text), "rows": rows})


def leaves(board: Board) -> list[Leaf]:
    """Prepare all steps of a storyboard."""
    return [Leaf(step, board.story) for step in board.steps]


def pieces_of(board: Board, plan: Plan, layout: Layout | None = None) -> list[Piece]:
    """Content of an export, in order: steps, and the parts between them.

    A title shared by several steps precedes them once. A heading directly before the only step that it names
    is the title of that step. Steps have numbers if the author numbered them, in recipes, and with reasons.
    """
    story = board.story
    shown = [Leaf(step, story, with_reasons=plan.with_reasons) for step in board.steps]
    counted = any(leaf.number or marker_of(leaf.text.title) for leaf in shown)
    if plan.with_reasons or (layout == "recipe" and not counted):
        for leaf in shown:
            leaf.number = leaf.position
    runs: list[list[Part]] = [[] for _ in range(len(shown) + 1)]
    if plan.include == "everything":
        for part in story.between:
            runs[min(part.before, len(shown))].append(_carried(part))
    made: list[Piece] = []
    last = ""
    for place, leaf in enumerate(shown):
        run, following = runs[place], runs[place + 1]
        after = shown[place + 1] if place + 1 < len(shown) else None
        shared = (
            after is not None
            and after.text.title.strip() == leaf.title
            and not any(part.kind == "heading" for part in following)
        )
        nearest = run[-1] if run and run[-1].kind == "heading" and not run[-1].pictures else None
        own = nearest is not None and nearest.text == (leaf.title or leaf.text.text) and not shared
        if nearest is not None and own:
            run.pop()
            leaf.title, leaf.level = nearest.text, max(2, nearest.level)
            leaf.parts = () if leaf.text.text == nearest.text and not leaf.text.title else leaf.parts
        last = next((part.text for part in reversed(run) if part.kind == "heading"), last)
        if leaf.title and not own and (leaf.title == last or shared):
            if leaf.title != last:
                run.append(Part(kind="heading", text=carried(leaf.title), level=2))
            last, leaf.title = leaf.title, ""
        last = leaf.title or last
        made += [tuple(run), leaf] if run else [leaf]
    return [*made, tuple(runs[-1])] if runs[-1] else made


def divided(parts: Sequence[Part]) -> list[tuple[bool, list[Part]]]:
    """Split parts into supply lists with their headings (True) and all others (False)."""
    made: list[tuple[bool, list[Part]]] = []
    level = 0
    for part in parts:
        if part.kind == "heading" and not (level and part.level > level):
            level = part.level if names_supplies(part.text) else 0
        if not made or made[-1][0] != bool(level):
            made.append((bool(level), []))
        made[-1][1].append(part)
    return made


def language_of(story: Story) -> str:
    """BCP 47 tag of a story: the stated one, or else that of most of its steps; "" if unknown."""
    if story.language:
        return story.language
    found = Counter(one.code for one in languages_of_story(story).each)
    return found.most_common(1)[0][0]


def filling(picture: Picture, how: Framing, shape: float) -> Area:
    """Largest part of a picture's crop area with a given shape that includes the focal point.

    Args:
        picture: the picture.
        how: crop area and focal point.
        shape: ratio of width to height.
    """
    crop = how.crop or WHOLE
    aspect = (picture.width_px * crop.width) / (picture.height_px * crop.height)
    width, height = crop.width * min(1.0, shape / aspect), crop.height * min(1.0, aspect / shape)
    focus = how.focus or (crop.x + crop.width / 2, crop.y + crop.height / 2)
    x = min(max(focus[0] - width / 2, crop.x), crop.x + crop.width - width)
    y = min(max(focus[1] - height / 2, crop.y), crop.y + crop.height - height)
    return Area.model_construct(x=x, y=y, width=width, height=height)


def fit(
    shown: ShownPicture, where: str, plan: Plan, box_mm: tuple[float, float], *, kind: str = "JPEG"
) -> Copy:
    """Create a copy of a step's picture, in the resolution needed on the page.

    Args:
        shown: the picture.
        where: the step, for messages.
        plan: choice between a scaled copy and full resolution.
        box_mm: width and height on the page.
        kind: JPEG or WEBP.

    Raises:
        DataError: the picture is missing or cannot be read.
    """
    width = min(box_mm[0], box_mm[1] * shown.aspect)
    area = plan.area_px(width, width / shown.aspect)
    quality = 92 if plan.originals else 86
    return shrink(shown.picture, where, area_px=area, kind=kind, quality=quality, crop=shown.crop)


def fit_own(
    own: PictureRef, plan: Plan, box_mm: tuple[float, float], warnings: list[str], *, kind: str = "JPEG"
) -> Copy | None:
    """Copy a picture that the text shows between its steps; None and a warning if it is not available."""
    try:
        if own.path is None:
            raise DataError(f"it {own.problem or 'is not on this machine'}")
        return scaled(
            Path(own.path), own.sha256, "the text", area_px=plan.area_px(*box_mm), kind=kind, quality=86
        )
    except DataError as error:
        warnings.append(f"the picture {own.target} of the text is left out: {error}")
        return None
