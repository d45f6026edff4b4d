"""What an edit makes of a project before its storyboard is made again: text, options, and what is fixed.

Pure: a draft in, a draft out. It neither illustrates nor saves.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from difflib import SequenceMatcher

from limner.errors import DataError
from limner.records import Segmentation, Story, Storyboard
from limner.storyboard.illustrate import BoardOptions
from limner.storyboard.illustrator import Illustrator
from limner.studio.edits import (
    Ban,
    Blank,
    Choose,
    Edit,
    Lock,
    Relation,
    Retext,
    Retitle,
    SetOptions,
    Swap,
    TextFormat,
    Unban,
    Unlock,
)
from limner.studio.projects import State, digest
from limner.text.read import Reading, parse_story_report

MAX_STEPS = 300
UNTITLED = "Untitled"
_OF_ALL = (Ban, Unban, SetOptions, Retitle, Retext)


@dataclass(frozen=True)
class Draft:
    """A state under way: like `State`, with the text and the storyboard themselves."""

    title: str
    text: str
    format: TextFormat
    by: Segmentation | None
    options: BoardOptions
    pins: dict[int, str | None]
    relations: dict[int, str]
    bans: tuple[str, ...]
    given: dict[int, str]
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


def changed(draft: Draft, edit: Edit, board: Storyboard, library: Illustrator) -> Draft:
    """The draft after one edit.

    Args:
        draft: as it was.
        edit: what to change; of a new text, only the text itself is taken here, see `carried`.
        board: that the user saw.
        library: that is asked.
    Raises:
        DataError: a step or picture that is not there.
    """
    for step in _steps_of(edit):
        check_step(step, board)
    if isinstance(edit, Choose | Ban):
        library.catalogue.pictures([edit.picture])
    made = _said(draft, edit) if isinstance(edit, _OF_ALL) else _placed(draft, edit, board)
    gone = {step for step, one in made.pins.items() if one is not None and one not in library.catalogue}
    lines = (f"step {step + 1}: its picture is no longer in the library; the step is free" for step in gone)
    return replace(
        made,
        pins={step: one for step, one in made.pins.items() if step not in gone},
        notes=(*made.notes, *lines),
    )


def _placed(draft: Draft, edit: Edit, board: Storyboard) -> Draft:
    """After an edit of steps."""
    pins, relations, bans = dict(draft.pins), dict(draft.relations), draft.bans
    shown = {one.position: None if one.chosen is None else one.chosen.picture.id for one in board.steps}
    match edit:
        case Choose(step=step, picture=picture):
            pins[step] = picture
            # The latest word counts: whoever puts a banned picture somewhere wants it back.
            bans = tuple(one for one in bans if one != picture)
        case Lock(step=step):
            pins[step] = shown[step]
        case Unlock(step=step):
            pins.pop(step, None)
        case Blank(step=step):
            pins[step] = None
        case Relation(step=step, relation=None):
            relations.pop(step, None)
        case Relation(step=step, relation=str(relation)):
            relations[step] = relation
        case Swap(a=a, b=b):
            pins[a], pins[b] = shown[b], shown[a]
    return replace(draft, pins=pins, relations=relations, bans=bans)


def _said(draft: Draft, edit: Edit) -> Draft:
    """After an edit of the whole."""
    match edit:
        case Ban(picture=picture):
            pins = {step: one for step, one in draft.pins.items() if one != picture}
            return replace(draft, pins=pins, bans=tuple(dict.fromkeys((*draft.bans, picture))))
        case Unban(picture=picture):
            return replace(draft, bans=tuple(one for one in draft.bans if one != picture))
        case SetOptions(options=options):
            return replace(draft, options=options)
        case Retitle(title=title):
            return replace(draft, title=title.strip() or UNTITLED)
        case Retext(text=text):
            by = edit.by if "by" in edit.model_fields_set else draft.by
            return replace(draft, text=text, format=edit.format or draft.format, by=by)
    return draft


def carried(draft: Draft, before: Story, reading: Reading) -> Draft:
    """What was fixed, moved to where the same words are now."""
    old = [(step.title, step.text) for step in before.steps]
    new = [(step.title, step.text) for step in reading.story.steps]
    moved: dict[int, int] = {}
    for block in SequenceMatcher(None, old, new, autojunk=False).get_matching_blocks():
        moved |= {block.a + k: block.b + k for k in range(block.size)}
    lost = sum(step not in moved for step in draft.pins)
    notes = list(reading.summary())
    if lost:
        notes.append(f"{lost} locked or blank steps are free now: their words have changed")
    return replace(
        draft,
        pins={moved[step]: one for step, one in draft.pins.items() if step in moved},
        relations={moved[step]: one for step, one in draft.relations.items() if step in moved},
        given={moved[step]: one for step, one in draft.given.items() if step in moved},
        notes=tuple(notes),
    )


def _steps_of(edit: Edit) -> Iterable[int]:
    match edit:
        case Swap(a=a, b=b):
            return (a, b)
        case Choose() | Lock() | Unlock() | Blank() | Relation():
            return (edit.step,)
    return ()


def check_step(step: int, board: Storyboard) -> None:
    """Refuse a step that the storyboard does not have."""
    if not 0 <= step < len(board.steps):
        raise DataError(f"no step {step}: the text has {len(board.steps)} steps, counted from 0 here")


def draft_of(state: State, text: str) -> Draft:
    """A saved state as a draft of the next one."""
    return Draft(
        state.title,
        text,
        state.format,
        state.by,
        state.options,
        state.pins,
        state.relations,
        state.bans,
        state.given,
        state.notes,
    )


def state_of(draft: Draft, board: Storyboard, revision: int, now: datetime, edit: Edit | None) -> State:
    """A draft and its storyboard as a state to save; the two are named by their hashes."""
    return State(
        revision=revision,
        time=now,
        edit=edit,
        title=draft.title,
        text=digest(draft.text.encode("utf-8")),
        format=draft.format,
        by=draft.by,
        options=draft.options,
        pins=draft.pins,
        relations=draft.relations,
        bans=draft.bans,
        given=draft.given,
        board=digest(board.model_dump_json().encode("utf-8")),
        notes=draft.notes,
    )
