"""What a user can do to a project, and what it makes of it before its storyboard is made again.

Pure: a state in, a state out, whose storyboard is still to be made.
"""

from __future__ import annotations

from datetime import datetime
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import AfterValidator, Field, StringConstraints

from limner.errors import DataError
from limner.records import Record, Segmentation, Story, Storyboard
from limner.storyboard.illustrate import BoardOptions
from limner.text.read import Reading, parse_story_report

if TYPE_CHECKING:
    from limner.storyboard.illustrator import Illustrator

TEXT_LETTERS = 2_000_000
PictureId = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
Position = Annotated[int, Field(ge=0)]
Title = Annotated[str, StringConstraints(max_length=500)]
Text = Annotated[str, StringConstraints(max_length=TEXT_LETTERS)]
RelationName = Annotated[str, StringConstraints(min_length=1, max_length=100)]
TextFormat = Literal["markdown", "plain", "html"]
MOST = {"candidates": 2000, "pair_weight": 100, "runners_up": 200, "beam_width": 100}


def _bounded(options: BoardOptions) -> BoardOptions:
    """Refuse what would keep a server busy, and what has edits of its own."""
    if options.pins or options.bans:
        raise ValueError("pins and bans are edits of their own, not options")
    for name, value in options.model_dump(include=set(MOST), exclude_none=True).items():
        if value > MOST[name]:
            raise ValueError(f"{name} is {value}, at most {MOST[name]} here")
    return options


Options = Annotated[BoardOptions, AfterValidator(_bounded)]


class OfStep(Record):
    """An edit of one step, counted from 0."""

    step: Position


class Choose(OfStep):
    """Show this picture at a step, and keep it there.

    Attributes:
        picture: of the library.
        seen: candidates the user had in view, best first; the server knows the last strip it sent.
    """

    kind: Literal["choose"]
    picture: PictureId
    seen: tuple[PictureId, ...] = Field(default=(), max_length=1000)


class Fix(OfStep):
    """Keep what a step shows now (lock), let it be chosen for again (unlock), or show nothing (blank)."""

    kind: Literal["lock", "unlock", "blank"]


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


class SetOptions(Record):
    """Illustrate by other options; those that are not named get their defaults."""

    kind: Literal["options"]
    options: Options


class Retitle(Record):
    """Name the project."""

    kind: Literal["retitle"]
    title: Title


class Retext(Record):
    """Replace the text; steps whose words stay keep what was fixed for them.

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
    Choose | Fix | Relation | Swap | Ban | SetOptions | Retitle | Retext,
    Field(discriminator="kind"),
]


MAX_STEPS = 300
UNTITLED = "Untitled"


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
        notes: what reading the text cost, and what could not be kept, one line each.
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


def read_text(text: str, format: TextFormat, by: Segmentation | None) -> Reading:  # noqa: A002
    """Cut a text into steps, as many as a studio can show.

    Raises:
        DataError: as `limner.text.read.parse_story_report`, or too many steps.
    """
    reading = parse_story_report(text, format=format, by=by)
    count = len(reading.story.steps)
    if count > MAX_STEPS:
        raise DataError(
            f"the text has {count:,} steps, at most {MAX_STEPS:,} are illustrated here; cut it by larger"
            " parts, such as headings, or bring it in pieces"
        )
    return reading


def named(story: Story) -> str:
    """A name for a project: the title of its text, or its first words."""
    if story.title.strip():
        return story.title.strip()[:200]
    words = " ".join(story.steps[0].text.split())
    return (words if len(words) <= 60 else words[:60].rsplit(" ", 1)[0] + " …") or UNTITLED


def changed(state: State, edit: Edit, board: Storyboard, library: Illustrator) -> State:
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
    if isinstance(edit, Choose | Ban) and edit.kind != "unban":
        library.catalogue.pictures([edit.picture])
    made = state.model_copy(update=_changes(state, edit, board))
    gone = {step for step, one in made.pins.items() if one is not None and one not in library.catalogue}
    lines = (f"step {step + 1}: its picture is no longer in the library; the step is free" for step in gone)
    pins = {step: one for step, one in made.pins.items() if step not in gone}
    return made.model_copy(update={"pins": pins, "notes": (*made.notes, *lines)})


def _changes(state: State, edit: Edit, board: Storyboard) -> dict[str, object]:
    """Fields of the state that an edit sets anew."""
    pins, relations = dict(state.pins), dict(state.relations)
    fields: dict[str, object] = {"pins": pins, "relations": relations}
    shown = {one.position: None if one.picture is None else one.picture.id for one in board.steps}
    if isinstance(edit, Choose | Ban):
        # The latest word counts: whoever puts a banned picture somewhere wants it back.
        banned = (edit.picture,) if edit.kind == "ban" else ()
        fields["bans"] = (*(one for one in state.bans if one != edit.picture), *banned)
    match edit:
        case Choose(step=step, picture=picture):
            pins[step] = picture
        case Fix(kind="unlock", step=step):
            pins.pop(step, None)
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


def carried(state: State, before: Story, reading: Reading) -> State:
    """What was fixed, moved to where the same words are now."""
    old = [(step.title, step.text) for step in before.steps]
    new = [(step.title, step.text) for step in reading.story.steps]
    moved: dict[int, int] = {}
    for block in SequenceMatcher(None, old, new, autojunk=False).get_matching_blocks():
        moved |= {block.a + k: block.b + k for k in range(block.size)}
    lost = sum(step not in moved for step in state.pins)
    notes = list(reading.summary())
    if lost:
        notes.append(f"{lost} locked or blank steps are free now: their words have changed")
    fixed = {
        name: {moved[step]: one for step, one in own.items() if step in moved}
        for name, own in (("pins", state.pins), ("relations", state.relations), ("given", state.given))
    }
    return state.model_copy(update={**fixed, "notes": tuple(notes)})


def check_step(step: int, board: Storyboard) -> None:
    """Refuse a step that the storyboard does not have."""
    if not 0 <= step < len(board.steps):
        raise DataError(f"no step {step}: the text has {len(board.steps)} steps, counted from 0 here")
