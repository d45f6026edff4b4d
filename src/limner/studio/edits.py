"""What a user can do to a project: one small record per act, told apart by its `kind`.

They are the body of a request and part of a project's history. `limner.studio.workshop` carries them
out.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, StringConstraints

from limner.records import Record, Segmentation
from limner.storyboard.illustrate import BoardOptions

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


class Choose(Record):
    """Show this picture at a step, and keep it there.

    Attributes:
        step: 0-based, as in all edits.
        picture: of the library.
        seen: candidates the user had in view, best first; the server knows the last strip it sent.
    """

    kind: Literal["choose"]
    step: Position
    picture: PictureId
    seen: tuple[PictureId, ...] = Field(default=(), max_length=1000)


class Lock(Record):
    """Keep what a step shows now, be it a picture or a blank."""

    kind: Literal["lock"]
    step: Position


class Unlock(Record):
    """Let a step be chosen for again."""

    kind: Literal["unlock"]
    step: Position


class Blank(Record):
    """Show no picture at a step."""

    kind: Literal["blank"]
    step: Position


class Relation(Record):
    """Ask that a step's picture stands in a relation to its text; None asks for none."""

    kind: Literal["relation"]
    step: Position
    relation: RelationName | None


class Swap(Record):
    """Exchange what two steps show, and keep both."""

    kind: Literal["swap"]
    a: Position
    b: Position


class Ban(Record):
    """Never show a picture in this project; a step that was locked to it is let go."""

    kind: Literal["ban"]
    picture: PictureId


class Unban(Record):
    """Allow a picture again."""

    kind: Literal["unban"]
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
    Choose | Lock | Unlock | Blank | Relation | Swap | Ban | Unban | SetOptions | Retitle | Retext,
    Field(discriminator="kind"),
]


class Choice(Record):
    """One replacement.

    Attributes:
        time: when, UTC.
        project: id of the project.
        revision: of the project that the choice made.
        step: 0-based.
        text: words of the step as they are searched for: its heading, where headings tell, and its text.
        context: the steps before and after it and itself, in order, likewise; at most 20 on either side.
        shown: id of the picture that the step showed before; None for a blank.
        chosen: id of the picture that the user put there.
        seen: ids of the candidates in view, best first; empty where no strip was open.
        relation: that was asked for at this step, or None.
        settings: of the storyboard on which the choice was made.
        library: name of the library folder.
        withdrawn: whether the user took it back (undo).
    """

    time: datetime
    project: str
    revision: int = Field(ge=1)
    step: int = Field(ge=0)
    text: str
    context: tuple[str, ...]
    shown: str | None
    chosen: str
    seen: tuple[str, ...] = ()
    relation: str | None = None
    settings: dict[str, str | int | float | bool | None] = Field(default_factory=dict)
    library: str = ""
    withdrawn: bool = False
