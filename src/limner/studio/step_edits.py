"""What a user can do to one step: its words, its place, and the pictures that it shows beside each other.

Pure: a story or storyboard in, another out. What was fixed at a step goes where its words go.
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
from limner.text.revise import Revision
from limner.text.worker import READER

STEP_LETTERS = 100_000
PictureId = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
Position = Annotated[int, Field(ge=0)]
Title = Annotated[str, StringConstraints(max_length=500)]
Words = Annotated[str, StringConstraints(min_length=1, max_length=STEP_LETTERS)]


class Constraints(Record):
    """What a user fixed on a storyboard.

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


class OfStep(Record):
    """An edit of one step, counted from 0."""

    step: Position


class Reword(OfStep):
    """Give a step other words; a step that is not locked is chosen for anew.

    Attributes:
        text: its words.
        title: its heading; None as it is.
    """

    kind: Literal["reword"]
    text: Words
    title: Title | None = None


class Split(OfStep):
    """Cut a step in two; what is fixed, and its pictures, stay with the first part.

    Attributes:
        at: characters (Unicode code points) of its text before the cut.
    """

    kind: Literal["split"]
    at: int = Field(ge=1, le=STEP_LETTERS)


class Join(OfStep):
    """Make one of a step and the next (merge), which keeps the pictures of both that the user chose; or
    take a step out (remove).
    """

    kind: Literal["merge", "remove"]


class Insert(OfStep):
    """Add a step beside this one.

    Attributes:
        text: its words.
        title: its heading; None for that of the group of steps that it is put into.
    """

    kind: Literal["insert-before", "insert-after"]
    text: Words
    title: Title | None = None


class Move(OfStep):
    """Give a step another place, counted from 0, with all that it shows."""

    kind: Literal["move"]
    to: Position


class TakePicture(OfStep):
    """Show a picture too, after the others (add-picture), or no longer (remove-picture)."""

    kind: Literal["add-picture", "remove-picture"]
    picture: PictureId


class OrderPictures(OfStep):
    """Show the pictures of a step in another order."""

    kind: Literal["order-pictures"]
    pictures: Annotated[tuple[PictureId, ...], Field(min_length=1, max_length=MOST_PICTURES)]


class Frame(OfStep):
    """Show a picture of a step in another way, with other words; what is not named is as at first."""

    kind: Literal["frame"]
    picture: PictureId
    framing: Framing


WordEdit = Reword | Split | Join | Insert | Move
PictureEdit = TakePicture | OrderPictures | Frame


def revised(story: Story, edit: WordEdit) -> Revision:
    """The story with a step changed.

    Raises:
        DataError: as the methods of `Revision`.
    """
    revision = Revision(story)
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


def written(
    revision: Revision, by: Segmentation | None, progress: Progress | None = None
) -> tuple[Story, str, Segmentation | None]:
    """A revised story as Markdown, and how to cut it so that its steps are found again, if one way does.

    Where it came as Markdown, the author's own lines stay if they can.

    Args:
        revision: of the story.
        by: how its text was cut.
        progress: as of `limner.text.worker.ReaderProcesses.read`.
    Returns:
        The story as it is now, with the text as its source if its steps are found again; the text; and how.
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
    """Ids of the pictures that a step shows after an edit.

    Raises:
        DataError: it cannot be done there.
    """
    where, shown = f"step {edit.step + 1}", tuple(one.id for one in board.steps[edit.step].pictures)
    if not shown:
        raise DataError(f"{where} shows no picture; choose one for it first")
    match edit:
        case TakePicture(kind="add-picture", picture=picture):
            if picture in shown:
                raise DataError(f"{where} shows picture {picture[:12]} already")
            if len(shown) >= MOST_PICTURES:
                raise DataError(
                    f"{where} shows {counted(len(shown), 'picture')}, as many as it can; take one away first"
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


def shown_first(edit: PictureEdit, board: Board) -> str:
    """Id of the picture that a step shows first after an edit; errors as `pictured`."""
    return _order(edit, board)[0]


def pictured(board: Board, edit: PictureEdit, added: Sequence[Picture] = ()) -> Board:
    """The storyboard with other pictures at a step; which comes first is noted where it is chosen.

    Args:
        board: as it was.
        edit: what to change.
        added: record of a picture that comes in.
    Raises:
        DataError: the step shows none, too many, or not that one.
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


def dressed(
    fresh: Board,
    board: Board,
    sources: Mapping[int, tuple[int, ...]],
    before: Constraints,
    bans: Collection[str],
) -> Board:
    """A new storyboard with the further pictures, and the framing, of the steps that its steps come from.

    Args:
        fresh: the new one.
        board: the old one.
        sources: 0-based step of the new one → steps of the old one, one but where some were merged.
        before: what was fixed; pictures to which merged steps were locked are shown side by side.
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
