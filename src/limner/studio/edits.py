"""What a user can do to a project: what it makes of its state, and which steps it concerns.

Pure: a state in, a state out; the steps concerned are still to be chosen for or explained anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import AfterValidator, Field, StringConstraints, model_validator

from limner.config import Record
from limner.errors import DataError, counted
from limner.export.markdown import without_pictures, words_of
from limner.match.illustrate import BoardOptions
from limner.match.shown import GivenPictures, shown_by
from limner.progress import Progress
from limner.records import Board, Segmentation, Story
from limner.store.library import PictureStore
from limner.studio.step_edits import (
    Constraints,
    Frame,
    Insert,
    Join,
    Move,
    OfStep,
    OrderPictures,
    PictureId,
    Position,
    Reword,
    Split,
    TakePicture,
    Title,
    shown_first,
)
from limner.text.read import Reading
from limner.text.worker import READER

if TYPE_CHECKING:
    from limner.match.illustrator import Illustrator

TEXT_LETTERS = 2_000_000
Text = Annotated[str, StringConstraints(max_length=TEXT_LETTERS)]
RelationName = Annotated[str, StringConstraints(min_length=1, max_length=100)]
TextFormat = Literal["markdown", "plain", "html"]
MOST = {"candidates": 2000, "runners_up": 200}
GONE = frozenset(
    {"decoder", "beam_width", "context", "occasion_weight", "pinned_weight"}
    | {"pair_weight", "pair_space", "pair_evidence", "pair_walk"}
)
"""Options that projects of earlier versions hold and that nothing asks for any more."""


def _bounded(options: BoardOptions) -> BoardOptions:
    """Refuse what would keep a server busy, and what has edits of its own."""
    if options.pins or options.bans:
        raise ValueError("pins and bans are edits of their own, not options")
    for name, value in options.model_dump(include=set(MOST), exclude_none=True).items():
        if value > MOST[name]:
            raise ValueError(f"{name} is {value}, at most {MOST[name]} here")
    return options


Options = Annotated[BoardOptions, AfterValidator(_bounded)]


def _still_there(raw: Any) -> Any:  # noqa: ANN401  (whatever was read)
    """Something with saved options, without what they no longer have."""
    if not isinstance(raw, dict) or not isinstance(saved := raw.get("options"), dict):
        return raw
    kept = {name: value for name, value in saved.items() if name not in GONE}
    if kept.get("candidates", 0) is None:
        del kept["candidates"]  # once the word for as many as usual
    return raw | {"options": kept}


class Offer(OfStep):
    """What a picture was offered for: a step, counted from 0, of one revision."""

    revision: int


class Choose(OfStep):
    """Show this picture at a step, and keep it there.

    Attributes:
        picture: of the library.
        seen: candidates the user had in view, best first; the server knows the last strip it sent.
        offer: what these were offered for; refused where the project has moved on. None for a picture that
            comes from elsewhere.
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


class Fix(OfStep):
    """Fix or free a step.

    lock keeps what it shows now; blank shows nothing; unlock leaves what it shows open to later choices, and
    chooses for a blank at once; lock-others keeps what all other steps show.
    """

    kind: Literal["lock", "unlock", "blank", "lock-others"]


class Relation(OfStep):
    """Ask that a step's picture stands in a relation to its text; None asks for none."""

    kind: Literal["relation"]
    relation: RelationName | None


class Swap(Record):
    """Exchange what two steps show, and keep both."""

    kind: Literal["swap"]
    a: Position
    b: Position


class Ban(Record):
    """Never show a picture here (ban), letting go steps locked to it; or allow it again (unban)."""

    kind: Literal["ban", "unban"]
    picture: PictureId


class Again(Record):
    """Choose anew for all free steps, so that they go with those that are locked.

    Attributes:
        steps: those whose new picture is taken, the others stay as they are; None for all.
    """

    kind: Literal["again"]
    steps: tuple[Position, ...] | None = Field(default=None, max_length=1000)


class SetOptions(Record):
    """Illustrate by other options; those that are not named get their defaults.

    Attributes:
        options: the new ones.
        steps: as of `Again`.
    """

    kind: Literal["options"]
    options: Options
    steps: tuple[Position, ...] | None = Field(default=None, max_length=1000)


class Retitle(Record):
    """Name the project."""

    kind: Literal["retitle"]
    title: Title


class Retext(Record):
    """Replace the text; steps whose words stay keep their pictures, and what was fixed for them.

    Attributes:
        text: the new one.
        format: how to read it; None as before.
        by: what one step is; as before where it is not sent.
    """

    kind: Literal["retext"]
    text: Text
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
    | Move
    | TakePicture
    | OrderPictures
    | Frame,
    Field(discriminator="kind"),
]


MAX_STEPS = 300
UNTITLED = "Untitled"


class State(Constraints):
    """A project at one point of its history.

    Attributes:
        revision: that made it.
        time: when, UTC.
        edit: what made it; None for the creation. The text of a retext is left out: `text` holds it.
        title: of the project.
        text: hash of the text.
        format, by: how the text is read; None of `by` means explicit steps, else paragraphs.
        options: how it is illustrated.
        board: hash of the storyboard.
        notes: what was left out when the text was read, and what could not be kept, one line each.
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

    @model_validator(mode="before")
    @classmethod
    def _earlier(cls, raw: Any) -> Any:  # noqa: ANN401  (whatever was read)
        """States of earlier versions, whose options say more, are read as far as they still count."""
        raw = _still_there(raw)
        return raw | {"edit": _still_there(raw.get("edit"))} if isinstance(raw, dict) else raw


def read_text(
    text: str,
    format: TextFormat,  # noqa: A002
    by: Segmentation | None,
    progress: Progress | None = None,
) -> Reading:
    """Cut a text into steps, as many as a studio can show, in a process that is ended when it takes too long.

    Args:
        text: the text.
        format: how to read it.
        by: what one step is.
        progress: as of `limner.text.worker.ReaderProcesses.read`.
    Raises:
        DataError: as `limner.text.worker.ReaderProcesses.read`, or too many steps.
    """
    reading = READER.read(text, format=format, by=by, progress=progress)
    checked_length(reading.story)
    return reading


class MarkdownDocument(Record):
    """A Word document or a PDF as Markdown.

    Attributes:
        text: its words.
        format: how to read them.
        given: 0-based step → picture of the library that the document shows there.
        notes: what is in no step, and what became of the pictures, one line each.
    """

    text: str
    format: TextFormat = "markdown"
    given: dict[int, PictureId]
    notes: tuple[str, ...]


def as_markdown(
    reading: Reading, library: PictureStore, progress: Progress | None = None
) -> MarkdownDocument:
    """A document that was read, as Markdown that the studio can edit.

    Args:
        reading: the document; its pictures are files.
        library: of which its pictures are kept.
        progress: as of `read_text`.
    Raises:
        DataError: as `limner.text.worker.ReaderProcesses.read`.
    """
    story = reading.story
    text = words_of(without_pictures(story))
    shown = shown_by(story, library)
    told, given = pictures_told(shown), shown.inside
    if len(READER.read(text, format="markdown", progress=progress).story.steps) != len(story.steps):
        told, given = ["as Markdown it has other steps, so that its own pictures are not kept"], {}
    lines = [*reading.summary(), *(f"{reading.file}: {line}" for line in told)]
    return MarkdownDocument(text=text, given=given, notes=tuple(lines))


def pictures_told(shown: GivenPictures) -> list[str]:
    """What became of the pictures that a text shows and the library does not hold, one line each."""
    outside = (f"step {n + 1} shows a picture outside the library; one is chosen" for n in shown.outside)
    return [*shown.notes, *outside]


def checked_length(story: Story) -> Story:
    """The story, if it has no more steps than a studio can show.

    Raises:
        DataError: it has more.
    """
    count = len(story.steps)
    if count > MAX_STEPS:
        raise DataError(
            f"the text has {count:,} steps, at most {MAX_STEPS:,} are illustrated here; cut it by larger"
            " parts, such as headings, or bring it in pieces"
        )
    return story


def named(story: Story) -> str:
    """A name for a project: the title of its text, or its first words."""
    if story.title.strip():
        return story.title.strip()[:200]
    words = " ".join(story.steps[0].text.split())
    return (words if len(words) <= 60 else words[:60].rsplit(" ", 1)[0] + " …") or UNTITLED


def changed(state: State, edit: Edit, board: Board, library: Illustrator) -> State:
    """The state after one edit.

    Args:
        state: as it was.
        edit: what to change; of a new text, only the text itself is taken here, see `carried`.
        board: that the user saw.
        library: that is asked.
    Raises:
        DataError: a step or picture that is not there.
    """
    steps = (edit.a, edit.b) if isinstance(edit, Swap) else (edit.step,) if isinstance(edit, OfStep) else ()
    for step in steps:
        check_step(step, board)
    if isinstance(edit, Choose | Ban | TakePicture) and edit.kind not in ("unban", "remove-picture"):
        library.catalogue.pictures([edit.picture])
    if isinstance(edit, TakePicture | OrderPictures | Frame):
        first, was = shown_first(edit, board), board.steps[edit.step]
        # What is set beside a picture, or said of it, is meant for that picture.
        if first != board.shown[edit.step] or was.origin != "given":
            return state.model_copy(update={"pins": {**state.pins, edit.step: first}})
    return state.model_copy(update=_changes(state, edit, board))


def _changes(state: State, edit: Edit, board: Board) -> dict[str, object]:
    """Fields of the state that an edit sets anew."""
    pins, relations = dict(state.pins), dict(state.relations)
    fields: dict[str, object] = {"pins": pins, "relations": relations}
    shown = board.shown
    if isinstance(edit, Choose | Ban):
        # The latest word counts: whoever puts a banned picture somewhere wants it back.
        banned = (edit.picture,) if edit.kind == "ban" else ()
        fields["bans"] = (*(one for one in state.bans if one != edit.picture), *banned)
    match edit:
        case Choose(step=step, picture=picture):
            pins[step] = picture
        case Fix(kind="unlock", step=step):
            pins.pop(step, None)
        case Fix(kind="lock-others", step=step):
            others = {one: picture for one, picture in shown.items() if one != step}
            fields["pins"] = others | pins
        case Fix(kind=kind, step=step):
            pins[step] = shown[step] if kind == "lock" else None
        case Relation(step=step, relation=None):
            relations.pop(step, None)
        case Relation(step=step, relation=str(relation)):
            relations[step] = relation
        case Swap(a=a, b=b):
            pins[a], pins[b] = shown[b], shown[a]
        case Ban(kind="ban", picture=picture):
            fields["pins"] = {step: one for step, one in pins.items() if one != picture}
        case SetOptions(options=options):
            fields["options"] = options
        case Retitle(title=title):
            fields["title"] = title.strip() or UNTITLED
        case Retext():
            by = edit.by if "by" in edit.model_fields_set else state.by
            fields |= {"format": edit.format or state.format, "by": by}
    return fields


def concerned(edit: Edit, state: State, board: Board) -> tuple[frozenset[int], frozenset[int]]:
    """Steps that an edit concerns; all others stay as they are.

    Args:
        edit: no retext: see `carried`.
        state: after it.
        board: before it.
    Returns:
        Steps to be chosen for anew, and steps whose picture is known but explained anew.
    """
    shown = board.shown
    match edit:
        case Fix(kind="lock-others", step=step):
            named = {one for one in shown if one != step}
        case OfStep(step=step):
            named = {step}
        case Swap(a=a, b=b):
            named = {a, b}
        case Ban(kind="ban", picture=picture):
            offered = ((one.position, one.runners_up) for one in board.steps)
            named = {step for step, others in offered if picture in {one.picture.id for one in others}}
            named |= {step for step, one in shown.items() if one == picture}
        case Again() | SetOptions():
            named = set(shown)
        case _:
            named = set()
    known = set(state.pins)
    if isinstance(edit, Fix):
        known |= {step for step in named if shown[step] is not None}
    elif isinstance(edit, Ban):
        known |= {step for step in named if shown[step] != edit.picture}
    return frozenset(named - known), frozenset(named & known)


def moved(before: Story, after: Story) -> dict[int, int]:
    """Steps of one story whose words are in another: their places there."""
    old, new = ([(step.title, step.text) for step in story.steps] for story in (before, after))
    found: dict[int, int] = {}
    for block in SequenceMatcher(None, old, new, autojunk=False).get_matching_blocks():
        found |= {block.a + k: block.b + k for k in range(block.size)}
    return found


def followed(state: State, moved: Mapping[int, int]) -> State:
    """What was fixed, moved with its steps; of steps that are one now, the first that shows something."""
    fixed: dict[str, dict[int, object]] = {"pins": {}, "relations": {}, "given": {}}
    for name, own in (("pins", state.pins), ("relations", state.relations), ("given", state.given)):
        for step in sorted(own.keys() & moved.keys()):
            if fixed[name].get(moved[step]) is None:
                fixed[name][moved[step]] = own[step]
    return state.model_copy(update=fixed)


def carried(state: State, moved: Mapping[int, int], reading: Reading) -> State:
    """What was fixed, moved to where the same words are now."""
    lost = sum(step not in moved for step in state.pins)
    notes = list(reading.summary())
    if lost:
        notes.append(f"{lost} locked or blank steps are free now: their words have changed")
    return followed(state, moved).model_copy(update={"notes": tuple(notes)})


def rebased(edit: Edit, before: State, board: Board, now: State, fresh: Board) -> Edit | None:
    """An edit that was meant for an earlier state, for the current one.

    Args:
        edit: it.
        before: the state that it was meant for.
        board: its storyboard.
        now: the current one.
        fresh: its storyboard.
    Returns:
        the edit, of the same steps where they are now; None where something that it concerns has changed.
    """
    places = moved(board.story, fresh.story)
    same = {old for old, new in places.items() if _is_at(before, board, old) == _is_at(now, fresh, new)}
    match edit:
        case Retitle():
            return edit if before.title == now.title else None
        case Ban():
            return edit
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
    """What is fixed and shown at a step."""
    shown = board.steps[step]
    fixed = (step in state.pins, state.pins.get(step), state.relations.get(step), state.given.get(step))
    return (*fixed, tuple(picture.id for picture in shown.pictures), shown.framing)


def _reading(state: State) -> tuple[object, ...]:
    """How a text is read and illustrated."""
    return state.format, state.by, state.options, state.bans


def check_step(step: int, board: Board) -> None:
    """Refuse a step that the storyboard does not have."""
    if not 0 <= step < len(board.steps):
        there = counted(len(board.steps), "step")
        raise DataError(f"no step {step}: the text has {there}, counted from 0 here")
