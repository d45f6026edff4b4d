"""Where raters come from and go: what a panel says in the address, completion codes, screening out, and how
fast new ones may begin from one network address.

A rater is a random number. One person who begins again and again would be many raters; addresses are kept in
memory alone, and only for as long as they matter: what is stored of a crowd is who was in it.
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
"""Panel → field of `Panelist` → parameter of the address."""
PREVIEW = "ASSIGNMENT_ID_NOT_AVAILABLE"
"""Mechanical Turk's assignment of somebody who has not accepted the task yet."""
COMPLETE = "https://app.prolific.com/submissions/complete?cc="
_NAME = re.compile(r"[A-Za-z0-9_.@-]{1,128}")
NEW_RATERS = 30
CROWD = 10
"""So many raters who begin one after another from one address are a crowd, and fewer where a page has few."""
APART_S = 3600.0
"""An hour without anybody new ends a crowd, and its address is forgotten."""
ADDRESSES = 10_000


def crowd_of(raters: int) -> int:
    """Number of raters of one address that are a crowd, because they could decide a page by themselves.

    Args:
        raters: wanted per page.
    """
    return min(CROWD, max(2, raters // 2 + 1))


def new_secret() -> str:
    """A random name for a rater that nobody can guess: 24 letters, digits, dashes and underscores."""
    return secrets.token_urlsafe(18)


def public_id(secret: str) -> str:
    """Public id of a rater in the votes, from which the secret cannot be derived."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()[:32]


class Panelist(Record):
    """Id of a rater on a panel.

    Attributes:
        panel: prolific or mturk.
        worker: the person.
        batch: the study or the HIT, as the panel calls it.
        session: this submission or assignment.
        salt: random, of this rater alone.
    """

    panel: str
    worker: str
    batch: str = ""
    session: str = ""
    salt: str = ""

    @property
    def hashed(self) -> str:
        """Pseudonym of a worker: a salted hash."""
        return hashlib.sha256(f"{self.salt}\x1f{self.panel}\x1f{self.worker}".encode()).hexdigest()[:16]

    def secret(self, study: str) -> str:
        """The rater's secret: the address that a panel gave leads to the same rater every time."""
        words = "\x1f".join((study, self.panel, self.worker, self.batch, self.session))
        return urlsafe_b64encode(hashlib.sha256(words.encode()).digest()[:18]).decode()


class PanelError(DataError):
    """An address that does not say who comes."""


class Ending(Record):
    """Completion code or link of a rater.

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
    """Recruitment of the raters of one server.

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
        """Display name of the panel."""
        return PANEL_WORDS[self.panel]

    def came(self, parameters: Mapping[str, str]) -> Panelist | None:
        """Who comes by an address, in the words of the panel; None for a preview.

        Args:
            parameters: query parameters of the URL.
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


@dataclass
class _Address:
    """State of an address: how many raters may still begin, since when, and who has begun."""

    free: float
    at: float
    crowd: str = field(default_factory=lambda: secrets.token_hex(8))
    raters: list[str] = field(default_factory=list)


class Newcomers:
    """Those who begin, by the address they come from."""

    def __init__(
        self,
        a_minute: int = NEW_RATERS,
        *,
        crowd: int = CROWD,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Know nobody yet.

        Args:
            a_minute: new raters of one address, as many of them at once; 0 for any number.
            crowd: see `crowd_of`.
            clock: seconds.
        """
        self._most, self._crowd, self._clock = a_minute, crowd, clock
        self._known: dict[str, _Address] = {}
        self._turn = threading.Lock()

    def wait_s(self, address: str) -> float:
        """Seconds until somebody new may begin; 0 lets them, and counts them.

        Args:
            address: address of the network; what is not one, such as that of a test, stands for itself.
        """
        with self._turn:
            one = self._of(address)
            if self._most and one.free < 1:
                return (1 - one.free) * 60 / self._most
            one.free -= 1
            return 0.0

    def began(self, address: str, rater: str) -> tuple[str, list[str]] | None:
        """Note that somebody has begun.

        Args:
            address: as above.
            rater: public id.
        Returns:
            A random word for the crowd and who is now known to be in it, where they make one.
        """
        with self._turn:
            one = self._of(address)
            one.raters.append(rater)
            found = one.raters[:] if len(one.raters) == self._crowd else one.raters[-1:]
            return (one.crowd, found) if len(one.raters) >= self._crowd else None

    def _of(self, address: str) -> _Address:
        now, name = self._clock(), _network(address)
        one = self._known.get(name)
        if one is None or now - one.at > APART_S:
            if len(self._known) >= ADDRESSES:
                self._known = {key: own for key, own in self._known.items() if now - own.at <= APART_S}
            one = self._known[name] = _Address(float(self._most), now)
        one.free = min(float(self._most), one.free + (now - one.at) * self._most / 60)
        one.at = now
        return one


def _network(address: str) -> str:
    """Network of one customer: an IPv4 address, or the first half of an IPv6 address."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(found, ipaddress.IPv6Address):
        plain = found.ipv4_mapped
        return str(plain) if plain else str(ipaddress.ip_network((int(found) >> 64 << 64, 64)))
    return str(found)
