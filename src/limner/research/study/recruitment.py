"""Where raters come from and go: what a panel says in the address, completion codes, and screening out."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal
from urllib.parse import urlsplit

from pydantic import Field, field_validator, model_validator

from limner.errors import DataError
from limner.records import Record
from limner.research.study.raters import Panelist

PanelName = Literal["prolific", "mturk"]
PANEL_WORDS: Mapping[str, str] = {"prolific": "Prolific", "mturk": "Mechanical Turk", "": ""}
PARAMETERS: Mapping[str, Mapping[str, str]] = {
    "prolific": {"worker": "PROLIFIC_PID", "batch": "STUDY_ID", "session": "SESSION_ID"},
    "mturk": {"worker": "workerId", "batch": "hitId", "session": "assignmentId"},
}
"""Panel → field of `Panelist` → parameter of the address."""
PREVIEW = "ASSIGNMENT_ID_NOT_AVAILABLE"
"""Mechanical Turk's assignment of somebody who has not accepted the task yet."""
COMPLETE = "https://app.prolific.com/submissions/complete?cc="
_NAME = re.compile(r"[A-Za-z0-9_.@-]{1,128}")


class PanelError(DataError):
    """An address that does not say who comes."""


class Ending(Record):
    """What a rater takes away.

    Attributes:
        code: to show; "" for none.
        url: to go to; "" for none. Only the owner of the study sets it, never an address or a form.
    """

    code: str = Field(default="", pattern=r"^[A-Za-z0-9_-]{0,64}$")
    url: str = ""

    @field_validator("url")
    @classmethod
    def _safe(cls, url: str) -> str:
        if not url:
            return url
        parts = urlsplit(url)
        if (
            parts.scheme != "https"
            or not parts.hostname
            or parts.username is not None
            or not url.isprintable()
            or " " in url
        ):
            raise ValueError(
                f"{url!r} is no address to send raters to; expected one that begins with https://"
            )
        return url


class Recruitment(Record):
    """How raters of one server are recruited.

    Attributes:
        panel: that sends them; "" for none.
        done: for those who are through.
        screen_out: wrong answers to attention checks after which a rater is asked no more; None for never.
        screened: for those.
    """

    panel: PanelName | Literal[""] = ""
    done: Ending = Ending()
    screen_out: int | None = Field(default=None, ge=1)
    screened: Ending = Ending()

    @model_validator(mode="before")
    @classmethod
    def _complete(cls, values: dict[str, object]) -> dict[str, object]:
        """Prolific takes its codes at an address of its own."""
        found = dict(values)
        for name in ("done", "screened"):
            one = found.get(name)
            if (
                found.get("panel") == "prolific"
                and isinstance(one, dict)
                and one.get("code")
                and not one.get("url")
            ):
                found[name] = {**one, "url": f"{COMPLETE}{one['code']}"}
        return found

    @property
    def panel_words(self) -> str:
        """What people call the panel."""
        return PANEL_WORDS[self.panel]

    def came(self, parameters: Mapping[str, str]) -> Panelist | None:
        """Who comes by an address, in the words of the panel; None for a preview.

        Args:
            parameters: of the address.
        Raises:
            PanelError: one is missing or is no name.
        """
        names = PARAMETERS[self.panel]
        if self.panel == "mturk" and parameters.get(names["session"]) == PREVIEW:
            return None
        found = {field: parameters.get(name, "") for field, name in names.items()}
        wrong = next((names[field] for field, value in found.items() if not _NAME.fullmatch(value)), None)
        if wrong is not None:
            raise PanelError(f"open this study from {self.panel_words}: the address does not say {wrong}")
        return Panelist(panel=self.panel, **found)
