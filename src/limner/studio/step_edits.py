"""Edits of one step: its text, its position, and the pictures that it shows.

Pure functions from story or storyboard to a new one. Locks move with the words of their step.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from limner.config import Record
from limner.errors import DataError, counted
from limner.export.markdown import revised_source, words_of
from limner.progress import Progress
from limner.records import MOST_PICTURES, Board, Framing, Picture, Segmentation, Story
from limner.text.revise import StoryRevision
from limner.text.worker import READER

STEP_LETTERS = 100_000
PictureId = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
Position = Annotated[int, Field(ge=0)]
Title = Annotated[str, StringConstraints(max_length=500)]
Words = Annotated[str, StringConstraints(min_length=1, max_length=STEP_LETTERS)]


class Constraints(Record):
    """Locks, relations and bans of a storyboard.

    Attributes:
        pins: 0-based step → picture id, or None for a step kept blank.
        relations: 0-based step → relation that its picture should have.
        bans: pictures that must not be shown.
        given: 0-based step → picture of the library that the text itself shows there.
    """

    pins: dict[int, str | None] = Field(default_factory=dict)
    relations: dict[int, str] = Field(default_factory=dict)
    bans: tuple[str, ...] = ()
    given: dict[int, str] = Field(default_factory=dict)


class StepEdit(Record):
    """An edit of one step, counted from 0."""

    step: Position


class Reword(StepEdit):
    """Change the text of a step; unless it is locked, its picture is chosen again.

    Attributes:
        text: the new text.
        title: the new heading; None leaves it unchanged.
    """

    kind: Literal["reword"]
    text: Words
    title: Title | None = None


class Split(StepEdit):
    """Split a step in two; its lock and pictures stay with the first part.

    Attributes:
        at: number of characters (Unicode code points) before the split.
    """

    kind: Literal["split"]
    at: int = Field(ge=1, le=STEP_LETTERS)


class Join(StepEdit):
    """Merge a step with the next one, keeping the pictures of both that the user chose (merge), or remove it
    (remove).
    """

    kind: Literal["merge", "remove"]


class Insert(StepEdit):
    """Insert a step before or after this one.

    Attributes:
        text: its text.
        title: its heading; None for that of the group of steps into which it is inserted.
    """

    kind: Literal["insert-before", "insert-after"]
    text: Words
    title: Title | None = None


class Move(StepEdit):
    """Move a step, with its pictures, to another position, counted from 0."""

    kind: Literal["move"]
    to: Position


class TakePicture(StepEdit):
    """Add a picture to those of a step (add-picture), or remove one (remove-picture)."""

    kind: Literal["add-picture", "remove-picture"]
    picture: PictureId


class OrderPictures(StepEdit):
    """Reorder the pictures of a step."""

    kind: Literal["order-pictures"]
    pictures: Annotated[tuple[PictureId, ...], Field(min_length=1, max_length=MOST_PICTURES)]


class Frame(StepEdit):
    """Set the crop, focal point, caption and alt text of a picture at a step; omitted ones are reset."""

    kind: Literal["frame"]
    picture: PictureId
    framing: Framing


WordEdit = Reword | Split | Join | Insert | Move
PictureEdit = TakePicture | OrderPictures | Frame


def revised(story: Story, edit: WordEdit) -> StoryRevision:
    """The story after an edit of one step.

    Raises:
        DataError: see the methods of `StoryRevision`.
    """
    revision = StoryRevision(story)
    match edit:
        case Reword():
            revision.reword(edit.step, edit.text, edit.title)
        case Split():
            revision.split(edit.step, edit.at)
        case Join(kind="merge"):
            revision.merge(edit.step)
        case Join():
            revision.remove(edit.step)
        case Insert():
            revision.insert(edit.step, edit.text, edit.title, after=edit.kind == "insert-after")
        case Move():
            revision.move(edit.step, edit.to)
    return revision


def as_revised_markdown(
    revision: StoryRevision, by: Segmentation | None, progress: Progress | None = None
) -> tuple[Story, str, Segmentation | None]:
    """A revised story as Markdown, and a way to divide it that finds the same steps again, if there is one.

    If it was Markdown, the author's own lines are kept where possible.

    Args:
        revision: the revised story.
        by: how its text was divided.
        progress: see `limner.text.worker.ReaderProcesses.read`.
    Returns:
        The story, with the text as its source if its steps are found again; the text; and how to divide it.
    """
    story = revision.story
    due = [(step.title, step.text) for step in story.steps]
    text = words_of(story)
    for source in filter(None, (revised_source(revision), text)):
        for way in dict.fromkeys((by, None, "paragraph", "heading")):
            try:
                found = READER.read(source, format="markdown", by=way, progress=progress).story
            except DataError:
                continue
            if [(step.title, step.text) for step in found.steps] == due:
                placed = zip(story.steps, found.steps, strict=True)
                steps = tuple(one.model_copy(update={"lines": other.lines}) for one, other in placed)
                sourced = {"steps": steps, "markdown": found.markdown}
                return story.model_copy(update=sourced), source, way
    return story.model_copy(update={"markdown": ""}), text, by


def _order(edit: PictureEdit, board: Board) -> tuple[str, ...]:
    """Ids of the pictures of a step after an edit.

    Raises:
        DataError: the edit is not possible there.
    """
    where, shown = f"step {edit.step + 1}", tuple(one.id for one in board.steps[edit.step].pictures)
    if not shown:
        raise DataError(f"{where} shows no picture; choose one first")
    match edit:
        case TakePicture(kind="add-picture", picture=picture):
            if picture in shown:
                raise DataError(f"{where} already shows picture {picture[:12]}")
            if len(shown) >= MOST_PICTURES:
                raise DataError(
                    f"{where} shows {counted(len(shown), 'picture')}, the maximum; remove one first"
                )
            return (*shown, picture)
        case OrderPictures(pictures=pictures):
            if sorted(pictures) != sorted(shown):
                raise DataError(f"{where} shows {counted(len(shown), 'picture')}; name each of them once")
            return pictures
    if edit.picture not in shown:
        raise DataError(f"{where} does not show picture {edit.picture[:12]}")
    if isinstance(edit, Frame):
        return shown
    if len(shown) == 1:
        raise DataError(f"{where} shows no other picture; leave the step blank instead")
    return tuple(one for one in shown if one != edit.picture)


def first_picture(edit: PictureEdit, board: Board) -> str:
    """Id of the first picture of a step after an edit; raises as `with_pictures`."""
    return _order(edit, board)[0]


def with_pictures(board: Board, edit: PictureEdit, added: Sequence[Picture] = ()) -> Board:
    """The storyboard with other pictures at a step.

    Args:
        board: the storyboard before.
        edit: the edit.
        added: record of a picture to be added.
    Raises:
        DataError: the step has no picture, too many, or not that one.
    """
    order = _order(edit, board)
    step = board.steps[edit.step]
    known = {one.id: one for one in (*step.pictures, *added)}
    framing = dict(step.framing)
    if isinstance(edit, Frame):
        framing |= {edit.picture: edit.framing}
        if edit.framing == Framing():
            framing.pop(edit.picture)
    changes = {"more": tuple(known[one] for one in order[1:]), "framing": framing}
    steps = list(board.steps)
    steps[edit.step] = step.model_copy(update=changes)
    return board.model_copy(update={"steps": tuple(steps)})


def carry_over_extras(
    fresh: Board,
    board: Board,
    sources: Mapping[int, tuple[int, ...]],
    before: Constraints,
    bans: Collection[str],
) -> Board:
    """A new storyboard with the additional pictures, crops and captions of the steps from which its steps
    come.

    Args:
        fresh: the new one.
        board: the old one.
        sources: 0-based step of the new one → steps of the old one; several only if they were merged.
        before: locks before the edit; if merged steps were locked, their pictures are shown side by side.
        bans: pictures that must not be shown.
    """
    steps = []
    for one in fresh.steps:
        places = sources.get(one.position, ())
        more: dict[str, Picture] = {}
        framing: dict[str, Framing] = {}
        for place in reversed(places):
            old = board.steps[place]
            locked = len(places) > 1 and before.pins.get(place) is not None
            more = {picture.id: picture for picture in (old.pictures if locked else old.more)} | more
            framing |= old.framing
        if not (more or framing or one.more or one.framing):
            steps.append(one)
            continue
        barred = {*bans, one.picture.id} if one.picture is not None else more.keys()
        beside = tuple(picture for name, picture in more.items() if name not in barred)
        dressed = one.model_copy(update={"more": beside[: MOST_PICTURES - 1]})
        shown = {picture.id for picture in dressed.pictures}
        kept = {picture: how for picture, how in framing.items() if picture in shown}
        steps.append(dressed.model_copy(update={"framing": kept}))
    return fresh.model_copy(update={"steps": tuple(steps)})
