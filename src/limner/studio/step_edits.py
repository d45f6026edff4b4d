"""Edits of one step: its text, its position, and how its picture is shown."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from limner.config import Record
from limner.records import Framing, Story
from limner.text import edit
from limner.text.edit import Edited

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
    """

    pins: dict[int, str | None] = Field(default_factory=dict)
    relations: dict[int, str] = Field(default_factory=dict)
    bans: tuple[str, ...] = ()


class StepEdit(Record):
    """An edit of one step, counted from 0."""

    step: Position


class Reword(StepEdit):
    """Change the text of a step; unless it is locked, its picture is chosen again.

    Attributes:
        text: the new text; at a place for a picture what is to be seen, or "".
        title: the new heading; None leaves it unchanged.
    """

    kind: Literal["reword"]
    text: Annotated[str, StringConstraints(max_length=STEP_LETTERS)]
    title: Title | None = None


class Split(StepEdit):
    """Split a step in two; its lock and pictures stay with the first part.

    Attributes:
        at: number of characters (Unicode code points) before the split.
    """

    kind: Literal["split"]
    at: int = Field(ge=1, le=STEP_LETTERS)


class Join(StepEdit):
    """Merge a step with the next one, which keeps the first locked picture (merge), or remove it (remove)."""

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


class Place(Record):
    """Leave a place for a picture between two blocks of the text; all other steps stay as they are.

    Attributes:
        at: index of the block before which it is left, from 0; the number of blocks for the end.
        text: what is to be seen, or "".
    """

    kind: Literal["place"]
    at: Position
    text: Annotated[str, StringConstraints(max_length=500)] = ""


class Move(StepEdit):
    """Move a step, with its pictures, to another position, counted from 0."""

    kind: Literal["move"]
    to: Position


class Frame(StepEdit):
    """Set the crop, focal point, caption and alt text of a picture at a step; omitted ones are reset."""

    kind: Literal["frame"]
    picture: PictureId
    framing: Framing


WordEdit = Reword | Split | Join | Insert | Place | Move


def revised(story: Story, change: WordEdit) -> Edited:
    """The story after an edit of one step, as a Markdown text.

    Raises:
        DataError: see the functions of `limner.text.edit`.
    """
    match change:
        case Reword():
            return edit.reword(story, change.step, change.text, change.title)
        case Split():
            return edit.split(story, change.step, change.at)
        case Join():
            return (edit.merge if change.kind == "merge" else edit.remove)(story, change.step)
        case Insert():
            after = change.kind == "insert-after"
            return edit.insert(story, change.step, change.text, change.title, after=after)
        case Place():
            return edit.add_place(story, change.at, change.text)
        case Move():
            return edit.move(story, change.step, change.to)
