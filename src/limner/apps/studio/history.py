"""What a user preferred: at a step, picture B in place of picture A, and what was in view.

Kept in the project and on this machine; `limner study preferences` exports it with consent. Nothing here
writes or sends.
"""

from __future__ import annotations

from datetime import datetime

from pydantic import Field

from limner.data.records import Record


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
