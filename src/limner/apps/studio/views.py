"""Projects as they are shown: whole, and as lines of a list.

What is on the disk is more: the whole history. Nothing here reads or writes.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Literal

from limner.apps.studio.edits import TextFormat
from limner.apps.studio.projects import ProjectFile
from limner.data.records import Record, Segmentation
from limner.data.storyboards import Storyboard
from limner.retrieval.storyboard import BoardOptions


class StepState(Record):
    """What a user fixed at a step.

    Attributes:
        position: 0-based.
        state: free to be chosen for, locked to its picture, or kept blank.
        relation: asked for, or None.
    """

    position: int
    state: Literal["free", "locked", "blank"]
    relation: str | None


class Project(Record):
    """A project as it is now.

    Attributes:
        id: of the project.
        title: its name.
        schema_version: of this form.
        revision: to be named by the next change.
        text: the text.
        format, by: how it is read; None of `by` means explicit steps, else paragraphs.
        options: how it is illustrated.
        board: the storyboard.
        steps: what is fixed, one per step.
        bans: pictures never to show.
        can_undo, can_redo: whether there is something to.
        updated_at: of the last change, UTC.
        notes: what reading the text cost, and what could not be kept, one line each.
    """

    id: str
    title: str
    schema_version: Literal[1] = 1
    revision: int
    text: str
    format: TextFormat
    by: Segmentation | None
    options: BoardOptions
    board: Storyboard
    steps: tuple[StepState, ...]
    bans: tuple[str, ...]
    can_undo: bool
    can_redo: bool
    updated_at: datetime
    notes: tuple[str, ...]


class ProjectSummary(Record):
    """A project in a list.

    Attributes:
        id, title, updated_at, revision: as of `Project`.
        steps: number of steps.
        cover: ids of the first pictures it shows, six at most.
        damaged: why it cannot be opened, or "".
    """

    id: str
    title: str
    steps: int
    updated_at: datetime
    revision: int
    cover: tuple[str, ...]
    damaged: str = ""


def shown(found: ProjectFile, text: str, board: Storyboard) -> Project:
    """A project as read from the disk, for those who ask."""
    state = found.state
    return Project(
        id=found.id,
        title=state.title,
        revision=found.revision,
        text=text,
        format=state.format,
        by=state.by,
        options=state.options,
        board=board,
        steps=tuple(
            StepState(
                position=step,
                state="free" if step not in state.pins else "blank" if state.pins[step] is None else "locked",
                relation=state.relations.get(step),
            )
            for step in range(len(board.steps))
        ),
        bans=state.bans,
        can_undo=found.cursor > 0,
        can_redo=found.cursor < len(found.states) - 1,
        updated_at=found.updated_at,
        notes=state.notes,
    )


def summary(found: ProjectFile, board: Storyboard) -> ProjectSummary:
    """A project as a line of a list."""
    cover = dict.fromkeys(step.chosen.picture.id for step in board.steps if step.chosen is not None)
    return ProjectSummary(
        id=found.id,
        title=found.state.title,
        steps=len(board.steps),
        updated_at=found.updated_at,
        revision=found.revision,
        cover=tuple(cover)[:6],
    )


def broken(project: str, why: str) -> ProjectSummary:
    """A project that cannot be read, as the last line of a list: nobody knows when it was changed."""
    return ProjectSummary(
        id=project,
        title="Damaged project",
        steps=0,
        updated_at=datetime.min.replace(tzinfo=UTC),
        revision=0,
        cover=(),
        damaged=why,
    )
