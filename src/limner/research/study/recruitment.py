"""Recruits raters: panel ids in the URL, completion codes, screening out, and rate limits for new raters.

One person could take part many times under new random ids. Raters who begin shortly after one another from
one network address are therefore recorded as a crowd. Addresses are held only in memory, and are forgotten an
hour after the last new rater.
"""

from __future__ import annotations

import hashlib
import ipaddress
import re
import secrets
import threading
import time
from base64 import urlsafe_b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import urlsplit

from pydantic import Field, field_validator, model_validator

from limner.config import Record
from limner.errors import DataError

PanelName = Literal["prolific", "mturk"]
PANEL_WORDS: Mapping[str, str] = {"prolific": "Prolific", "mturk": "Mechanical Turk", "": ""}
PARAMETERS: Mapping[str, Mapping[str, str]] = {
    "prolific": {"worker": "PROLIFIC_PID", "batch": "STUDY_ID", "session": "SESSION_ID"},
    "mturk": {"worker": "workerId", "batch": "hitId", "session": "assignmentId"},
}
"""Panel → field of `Panelist` → query parameter."""
PREVIEW = "ASSIGNMENT_ID_NOT_AVAILABLE"
"""Mechanical Turk's assignment id for a preview, before the task is accepted."""
COMPLETE = "https://app.prolific.com/submissions/complete?cc="
_NAME = re.compile(r"[A-Za-z0-9_.@-]{1,128}")
NEW_RATERS = 30
CROWD = 10
"""Raters from one address that make a crowd; fewer if a page has few raters, see `crowd_of`."""
APART_S = 3600.0
"""A crowd ends, and its address is forgotten, after this long without a new rater."""
ADDRESSES = 10_000


def crowd_of(raters: int) -> int:
    """Number of raters from one address that make a crowd: enough to decide a page by themselves.

    Args:
        raters: number of raters wanted per page.
    """
    return min(CROWD, max(2, raters // 2 + 1))


def new_secret() -> str:
    """A random secret of a rater: 24 letters, digits, dashes and underscores."""
    return secrets.token_urlsafe(18)


def public_id(secret: str) -> str:
    """Public id of a rater, as in the votes: a hash of the secret."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()[:32]


class Panelist(Record):
    """Id of a rater on a panel.

    Attributes:
        panel: prolific or mturk.
        worker: the panel's id of the person.
        batch: the panel's id of the study or HIT.
        session: the panel's id of the submission or assignment.
        salt: random salt of this rater.
    """

    panel: str
    worker: str
    batch: str = ""
    session: str = ""
    salt: str = ""

    @property
    def hashed(self) -> str:
        """Pseudonym of the worker: a salted hash, 16 hexadecimal digits."""
        return hashlib.sha256(f"{self.salt}\x1f{self.panel}\x1f{self.worker}".encode()).hexdigest()[:16]

    def secret(self, study: str) -> str:
        """The rater's secret, derived from the panel's ids, so one panel URL always leads to one rater."""
        words = "\x1f".join((study, self.panel, self.worker, self.batch, self.session))
        return urlsafe_b64encode(hashlib.sha256(words.encode()).digest()[:18]).decode()


class PanelError(DataError):
    """A URL without valid panel ids."""


class Ending(Record):
    """Completion code or link of a rater.

    Attributes:
        code: completion code to show; "" for none.
        url: link to follow; "" for none. Set only by the owner of the study, never from a request.
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
                f"{url!r} cannot be used as a link for raters; expected a URL that begins with https://"
            )
        return url


class Recruitment(Record):
    """Recruitment of the raters of one server.

    Attributes:
        panel: panel that sends the raters; "" for none.
        done: code or link for raters who have finished.
        screen_out: number of wrong attention checks after which a rater is screened out; None for never.
        screened: code or link for raters screened out.
    """

    panel: PanelName | Literal[""] = ""
    done: Ending = Ending()
    screen_out: int | None = Field(default=None, ge=1)
    screened: Ending = Ending()

    @model_validator(mode="before")
    @classmethod
    def _complete(cls, values: dict[str, object]) -> dict[str, object]:
        """Add the URL at which Prolific expects a completion code."""
        completed = dict(values)
        for name in ("done", "screened"):
            ending = completed.get(name)
            if (
                completed.get("panel") == "prolific"
                and isinstance(ending, dict)
                and ending.get("code")
                and not ending.get("url")
            ):
                completed[name] = {**ending, "url": f"{COMPLETE}{ending['code']}"}
        return completed

    @property
    def panel_words(self) -> str:
        """Display name of the panel."""
        return PANEL_WORDS[self.panel]

    def came(self, parameters: Mapping[str, str]) -> Panelist | None:
        """The panel's ids in a URL; None for a preview.

        Args:
            parameters: query parameters of the URL.
        Raises:
            PanelError: an id is missing or malformed.
        """
        names = PARAMETERS[self.panel]
        if self.panel == "mturk" and parameters.get(names["session"]) == PREVIEW:
            return None
        ids = {field: parameters.get(name, "") for field, name in names.items()}
        wrong = next((names[field] for field, value in ids.items() if not _NAME.fullmatch(value)), None)
        if wrong is not None:
            raise PanelError(f"open this study from {self.panel_words}: the link has no valid {wrong}")
        return Panelist(panel=self.panel, **ids)


@dataclass
class _Address:
    """State of a network address: tokens left, time of the last update, and who began."""

    free: float
    at: float
    crowd: str = field(default_factory=lambda: secrets.token_hex(8))
    raters: list[str] = field(default_factory=list)


class Newcomers:
    """Rate limit for new raters per network address, and detection of crowds."""

    def __init__(
        self,
        a_minute: int = NEW_RATERS,
        *,
        crowd: int = CROWD,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Start with no addresses.

        Args:
            a_minute: new raters per minute from one address, also the largest burst; 0 for no limit.
            crowd: see `crowd_of`.
            clock: returns seconds.
        """
        self._most, self._crowd, self._clock = a_minute, crowd, clock
        self._known: dict[str, _Address] = {}
        self._turn = threading.Lock()

    def wait_s(self, address: str) -> float:
        """Seconds until a new rater may begin; if 0, the rater is admitted and counted.

        Args:
            address: IP address; any other string, as in tests, is used as it is.
        """
        with self._turn:
            state = self._of(address)
            if self._most and state.free < 1:
                return (1 - state.free) * 60 / self._most
            state.free -= 1
            return 0.0

    def began(self, address: str, rater: str) -> tuple[str, list[str]] | None:
        """Record that a rater has begun.

        Args:
            address: see `wait_s`.
            rater: public id.
        Returns:
            Name of the crowd and the raters to add to it, or None if there is no crowd.
        """
        with self._turn:
            state = self._of(address)
            state.raters.append(rater)
            members = state.raters[:] if len(state.raters) == self._crowd else state.raters[-1:]
            return (state.crowd, members) if len(state.raters) >= self._crowd else None

    def _of(self, address: str) -> _Address:
        now, name = self._clock(), _network(address)
        state = self._known.get(name)
        if state is None or now - state.at > APART_S:
            if len(self._known) >= ADDRESSES:
                self._known = {key: other for key, other in self._known.items() if now - other.at <= APART_S}
            state = self._known[name] = _Address(float(self._most), now)
        state.free = min(float(self._most), state.free + (now - state.at) * self._most / 60)
        state.at = now
        return state


def _network(address: str) -> str:
    """Network of one customer: an IPv4 address, or the first 64 bits of an IPv6 address."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv6Address):
        plain = parsed.ipv4_mapped
        return str(plain) if plain else str(ipaddress.ip_network((int(parsed) >> 64 << 64, 64)))
    return str(parsed)
