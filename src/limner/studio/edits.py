"""Edits of a project: the state that results from each, and the steps that it affects.

Pure functions from state to state; the affected steps are chosen or explained again elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import AfterValidator, Field, StringConstraints, model_validator

from limner.config import Record
from limner.errors import DataError, counted
from limner.match.illustrate import BoardOptions
from limner.records import Board, Segmentation, Story
from limner.studio.step_edits import (
    Constraints,
    Frame,
    Insert,
    Join,
    Move,
    PictureId,
    Place,
    Position,
    Reword,
    Split,
    StepEdit,
    Title,
)

if TYPE_CHECKING:
    from limner.match.illustrator import Illustrator

RelationName = Annotated[str, StringConstraints(min_length=1, max_length=100)]
TextFormat = Literal["markdown", "plain", "html"]
MOST = {"candidates": 2000, "runners_up": 200}
MOST_NAMED = 2000


def _bounded(options: BoardOptions) -> BoardOptions:
    """Reject options that would overload a server, and those that are changed by separate edits."""
    if options.pins or options.bans:
        raise ValueError("pins and bans are separate edits, not options")
    for name, value in options.model_dump(include=set(MOST), exclude_none=True).items():
        if value > MOST[name]:
            raise ValueError(f"{name} is {value}, at most {MOST[name]} here")
    if len(options.named) > MOST_NAMED:
        raise ValueError(f"{len(options.named):,} named, at most {MOST_NAMED:,} here; name their folders")
    return options


Options = Annotated[BoardOptions, AfterValidator(_bounded)]


class Offer(StepEdit):
    """Which list of candidates contained a picture: that of a step, counted from 0, at a revision."""

    revision: int


class Choose(StepEdit):
    """Show a picture at a step, and lock it.

    The other photographs of the text's row make room for one of them; a locked step from which it is taken is
    unlocked.

    Attributes:
        picture: id of a picture of the library.
        seen: candidates in view, best first; the server knows the last list that it sent.
        offer: the list of candidates; refused if it is no longer current. None for a picture from elsewhere.
    """

    kind: Literal["choose"]
    picture: PictureId
    seen: tuple[PictureId, ...] = Field(default=(), max_length=1000)
    offer: Offer | None = None

    @model_validator(mode="after")
    def _offered_here(self) -> Choose:
        if self.offer is not None and self.offer.step != self.step:
            raise ValueError(f"the picture was offered for step {self.offer.step}, not for step {self.step}")
        return self


class Fix(StepEdit):
    """Lock or unlock a step.

    lock keeps the current picture; blank keeps the step without one; unlock lets later choices change the
    picture, and immediately chooses one for a blank step; lock-others locks all other steps. After blank, the
    other photographs of the text's row are placed again.
    """

    kind: Literal["lock", "unlock", "blank", "lock-others"]


class Relation(StepEdit):
    """Choose a picture with a given coherence relation to the step's text; None removes the condition."""

    kind: Literal["relation"]
    relation: RelationName | None


class Swap(Record):
    """Swap the pictures of two steps, and lock both."""

    kind: Literal["swap"]
    a: Position
    b: Position


class Ban(Record):
    """Never show a picture in this project (ban), unlocking the steps that show it; or allow it again
    (unban). After the ban of a photograph of the text's row, which belongs to no step, the others are placed
    again.
    """

    kind: Literal["ban", "unban"]
    picture: PictureId


class Again(Record):
    """Choose again for all unlocked steps, given the locked ones.

    Attributes:
        steps: steps whose new picture is accepted, while the others stay as they are; None for all.
    """

    kind: Literal["again"]
    steps: tuple[Position, ...] | None = Field(default=None, max_length=1000)


class SetOptions(Record):
    """Choose again with other options; options that are not given get their defaults. If only the cover is
    another one, nothing is chosen again.

    Attributes:
        options: the new options.
        steps: see `Again`.
    """

    kind: Literal["options"]
    options: Options
    steps: tuple[Position, ...] | None = Field(default=None, max_length=1000)


class Retitle(Record):
    """Rename the project."""

    kind: Literal["retitle"]
    title: Title


class Retext(Record):
    """Replace the text; steps whose words do not change keep their pictures and locks.

    Attributes:
        text: the new text.
        format: its format; None for that of the old text.
        by: what one step is; if not given, as before.
    """

    kind: Literal["retext"]
    text: str
    format: TextFormat | None = None
    by: Segmentation | None = None


Edit = Annotated[
    Choose
    | Fix
    | Relation
    | Swap
    | Ban
    | Again
    | SetOptions
    | Retitle
    | Retext
    | Reword
    | Split
    | Join
    | Insert
    | Place
    | Move
    | Frame,
    Field(discriminator="kind"),
]


MAX_STEPS = 300
UNTITLED = "Untitled"


class State(Constraints):
    """A project at one point of its history.

    Attributes:
        revision: the revision that created it.
        time: when, UTC.
        edit: the edit that created it; None for a new project. The text of a retext is omitted, as `text` has
            its hash.
        title: of the project.
        text: hash of the text.
        format, by: how the text is read; None of `by` means explicit steps, else paragraphs.
        options: storyboard options.
        board: hash of the storyboard.
        notes: what was left out when the text was read, and which locks or pictures could not be kept, one
            line each.
    """

    revision: int = Field(ge=1)
    time: datetime
    edit: Edit | None = None
    title: str
    text: str
    format: TextFormat
    by: Segmentation | None = None
    options: BoardOptions
    board: str
    notes: tuple[str, ...] = ()


def checked_length(story: Story) -> Story:
    """Check that a story has no more steps than the studio allows; returns the story.

    Raises:
        DataError: it has more.
    """
    count = len(story.steps)
    if count > MAX_STEPS:
        raise DataError(
            f"the text has {count:,} steps, at most {MAX_STEPS:,} are illustrated here; divide it by larger"
            " parts, such as headings, or split the text"
        )
    return story


def own_pictures(board: Board, step: int) -> bool:
    """Whether the text itself shows pictures at a step that can be shown."""
    return any(picture.path for picture in board.story.steps[step].pictures)


def chooses_all(edit: Edit, board: Board, before: BoardOptions) -> bool:
    """Whether all unlocked steps are chosen again, as the photographs of the text's row follow each other.

    Args:
        edit: the edit.
        board: the storyboard before it.
        before: the options before it.
    """
    match edit:
        case Again():
            return True
        case SetOptions(options=now):
            return now.cover == before.cover or now != before.model_copy(update={"cover": now.cover})
        case Choose(step=step, picture=picture):
            return is_of_row(picture, board) and board.shown[step] != picture
        case Ban(kind="ban", picture=picture):
            return is_of_row(picture, board)
        case Fix(kind="blank"):
            return board.row is not None
    return False


def is_of_row(picture: str, board: Board) -> bool:
    """Whether a picture is one of those named beside the text."""
    return board.row is not None and any(one.picture == picture for one in board.row.photographs)


def project_title(story: Story) -> str:
    """Title for a project: that of its text, or the first words."""
    if story.title.strip():
        return story.title.strip()[:200]
    words = " ".join(story.steps[0].text.split())
    return (words if len(words) <= 60 else words[:60].rsplit(" ", 1)[0] + " …") or UNTITLED


def apply_edit(state: State, edit: Edit, board: Board, library: Illustrator) -> State:
    """The state after an edit.

    Args:
        state: the state before it.
        edit: the edit; of a retext only the text itself is applied here, see `carry_locks`.
        board: the storyboard that the user saw.
        library: the library.
    Raises:
        DataError: the step or picture does not exist.
    """
    steps = (edit.a, edit.b) if isinstance(edit, Swap) else (edit.step,) if isinstance(edit, StepEdit) else ()
    for step in steps:
        check_step(step, board)
        if edit.kind in ("swap", "lock") and board.steps[step].origin == "given":
            raise DataError(f"step {step + 1} shows the text's own pictures, which stay there")
    if isinstance(edit, Choose | Ban) and edit.kind != "unban":
        library.library.pictures([edit.picture])
    if isinstance(edit, Frame) and edit.picture != board.shown[edit.step]:
        raise DataError(f"step {edit.step + 1} does not show picture {edit.picture[:12]}")
    if isinstance(edit, Frame) and board.steps[edit.step].origin == "given":
        return state
    return state.model_copy(update=_changes(state, edit, board))


def _changes(state: State, edit: Edit, board: Board) -> dict[str, object]:
    """Fields of the state that an edit changes."""
    pins, relations, shown = dict(state.pins), dict(state.relations), board.shown
    if edit.kind == "ban" or (isinstance(edit, Choose) and is_of_row(edit.picture, board)):
        pins = {step: one for step, one in pins.items() if one != edit.picture}
    fields: dict[str, object] = {"pins": pins, "relations": relations}
    if isinstance(edit, Choose | Ban):
        # The latest edit counts: choosing a banned picture allows it again.
        banned = (edit.picture,) if edit.kind == "ban" else ()
        fields["bans"] = (*(one for one in state.bans if one != edit.picture), *banned)
    match edit:
        case Choose(step=step, picture=picture) | Frame(step=step, picture=picture):
            pins[step] = picture  # a crop or caption belongs to the picture for which it was made
        case Fix(kind="unlock" | "blank" as kind, step=step) if kind == "unlock" or own_pictures(board, step):
            pins.pop(step, None)
        case Fix(kind="lock-others", step=step):
            others = {one.position: one for one in board.steps if one.position != step}
            fields["pins"] = {n: shown[n] for n, one in others.items() if one.origin != "given"} | pins
        case Fix(kind=kind, step=step):
            pins[step] = shown[step] if kind == "lock" else None
        case Relation(step=step, relation=None):
            relations.pop(step, None)
        case Relation(step=step, relation=str(relation)):
            relations[step] = relation
        case Swap(a=a, b=b):
            pins[a], pins[b] = shown[b], shown[a]
        case SetOptions(options=options):
            fields["options"] = options
        case Retitle(title=title):
            fields["title"] = title.strip() or UNTITLED
        case Retext():
            by = edit.by if "by" in edit.model_fields_set else state.by
            fields |= {"format": edit.format or state.format, "by": by}
    return fields


def affected_steps(edit: Edit, state: State, board: Board) -> tuple[frozenset[int], frozenset[int]]:
    """Steps that an edit affects; all others stay as they are.

    Args:
        edit: any edit but a retext, for which see `carry_locks`, and those after which all are chosen.
        state: the state after it.
        board: the storyboard before it.
    Returns:
        Steps to choose again, and steps whose picture is given but must be explained again.
    """
    shown = board.shown
    match edit:
        case Fix(kind="lock-others", step=step):
            named = {one.position for one in board.steps if one.position != step and one.origin != "given"}
        case StepEdit(step=step):
            named = {step}
        case Swap(a=a, b=b):
            named = {a, b}
        case Ban(kind="ban", picture=picture):
            offered = ((one.position, one.runners_up) for one in board.steps)
            named = {step for step, others in offered if picture in {one.picture.id for one in others}}
            named |= {step for step, one in shown.items() if one == picture}
        case _:
            named = set()
    known = set(state.pins)
    if isinstance(edit, Fix):
        # an unlocked step keeps its picture, unless the text itself shows some there
        known |= {step for step in named if shown[step] is not None and not own_pictures(board, step)}
    elif isinstance(edit, Ban):
        known |= {step for step in named if shown[step] != edit.picture}
    return frozenset(named - known), frozenset(named & known)


def step_mapping(before: Story, after: Story) -> dict[int, int]:
    """New positions of the steps of one story that occur, with the same words, in another."""
    old, new = ([(step.title, step.text) for step in story.steps] for story in (before, after))
    found: dict[int, int] = {}
    for block in SequenceMatcher(None, old, new, autojunk=False).get_matching_blocks():
        found |= {block.a + k: block.b + k for k in range(block.size)}
    return found


def move_locks(state: State, moved: Mapping[int, int]) -> State:
    """Locks, moved with their steps; of merged steps, the first that shows a picture counts."""
    fixed: dict[str, dict[int, object]] = {"pins": {}, "relations": {}}
    for name, own in (("pins", state.pins), ("relations", state.relations)):
        for step in sorted(own.keys() & moved.keys()):
            if fixed[name].get(moved[step]) is None:
                fixed[name][moved[step]] = own[step]
    return state.model_copy(update=fixed)


def carry_locks(state: State, moved: Mapping[int, int], notes: Iterable[str]) -> State:
    """Locks, moved to the steps that have the same words in a new text, with notes on how it was read."""
    lost = sum(step not in moved for step in state.pins)
    unlocked = f"{lost} locked or blank steps were unlocked, because their words have changed"
    update = {"notes": (*notes, *([unlocked] if lost else []))}
    return move_locks(state, moved).model_copy(update=update)


def rebase_edit(edit: Edit, before: State, board: Board, now: State, fresh: Board) -> Edit | None:
    """Convert an edit of an earlier state into one of the current state.

    Args:
        edit: the edit.
        before: the state for which it was made.
        board: the storyboard of that state.
        now: the current state.
        fresh: the current storyboard.
    Returns:
        The edit with the current positions of its steps; None if something that it affects has changed.
    """
    places = step_mapping(board.story, fresh.story)
    same = {old for old, new in places.items() if _is_at(before, board, old) == _is_at(now, fresh, new)}
    match edit:
        case Retitle():
            return edit if before.title == now.title else None
        case Ban():
            return edit
        case Place():
            return edit if board.story.blocks == fresh.story.blocks else None
        case Swap(a=a, b=b):
            update, free = {"a": places.get(a), "b": places.get(b)}, {a, b} <= same
        case Fix(kind="lock-others") | Again() | SetOptions() | Retext():
            every = len(same) == len(board.steps) == len(fresh.steps)
            update, free = {}, every and _reading(before) == _reading(now)
        case Move(step=step, to=to):
            update, free = {"step": places.get(step), "to": places.get(to)}, {step, to} <= places.keys()
        case Insert(step=step):
            update, free = {"step": places.get(step)}, step in places
        case Join(kind="merge", step=step):
            update = {"step": places.get(step)}
            free = {step, step + 1} <= same and places[step + 1] == places[step] + 1
        case _:
            update, free = {"step": places.get(edit.step)}, edit.step in same
    if isinstance(edit, Choose):
        update |= {"offer": None}
    return edit.model_copy(update=update) if free else None


def _is_at(state: State, board: Board, step: int) -> tuple[object, ...]:
    """What a step shows and whether it is locked."""
    fixed = (step in state.pins, state.pins.get(step), state.relations.get(step))
    return (*fixed, board.shown[step], board.steps[step].framing)


def _reading(state: State) -> tuple[object, ...]:
    """Settings with which a text is read and illustrated."""
    return state.format, state.by, state.options, state.bans


def check_step(step: int, board: Board) -> None:
    """Refuse a step that the storyboard does not have."""
    if not 0 <= step < len(board.steps):
        there = counted(len(board.steps), "step")
        raise DataError(f"no step {step}: the text has {there}, counted from 0")
