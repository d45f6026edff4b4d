"""Robots rules of the hosts that are about to be asked, read anew for every run.

A build asks sites it does not know, and they say what may be read by a program. Unknown rules permit nothing;
a host without rules permits all. It fetches the rules alone, never a page.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from limner.data.addresses import AddressError, plain_url
from limner.data.fetch import fetch_pictures
from limner.data.manifest import Manifest
from limner.data.transfer import FetchSettings
from limner.errors import MissingError

if TYPE_CHECKING:
    from protego import Protego  # type: ignore[import-untyped, unused-ignore]

AGENT = "limner"
REFUSED = "robots rules refuse it"
UNREACHED = "robots rules could not be read"
UNASKED = "robots rules not asked yet: "
_MAX_BYTES = 512_000


class Robots:
    """What hosts permit.

    Attributes:
        pauses: host → pause in seconds that its rules ask for.
    """

    def __init__(self, settings: FetchSettings) -> None:
        """Ask under these bounds."""
        self._settings = replace(
            settings, kinds=("",), max_bytes=_MAX_BYTES, permit=None, host_pauses={}, retries=1
        )
        self._rules: dict[str, Protego | None] = {}
        self.pauses: dict[str, float] = {}

    def ask(self, urls: Iterable[str]) -> None:
        """Read the rules of the hosts of these URLs that are not known yet.

        No file (404 and the like) permits all; no answer, or a server error, permits nothing.

        Raises:
            MissingError: the reader of rules is not installed.
        Source: RFC 9309, §2.3.1.
        """
        try:
            from protego import Protego
        except ModuleNotFoundError:
            raise MissingError(
                "protego is not installed; it reads robots rules; pip install 'limner[recipes]'"
            ) from None
        sites = {site for url in urls if (site := _site(url)) and site not in self._rules}
        if not sites:
            return
        wanted = {f"{site}/robots.txt": str(number) for number, site in enumerate(sorted(sites))}
        with tempfile.TemporaryDirectory() as folder:
            fetch_pictures(wanted, folder, self._settings, fault=lambda data: "")
            with Manifest(Path(folder)) as manifest:
                known = dict(manifest.known)
            for url, name in wanted.items():
                site, one = url.removesuffix("/robots.txt"), known.get(url)
                if one and one.state == "done":
                    text = (Path(folder) / name).read_bytes().decode("utf-8", "replace")
                    self._rules[site] = rules = Protego.parse(text)
                    pause_s = rules.crawl_delay(AGENT)
                    if pause_s:
                        self.pauses[urlsplit(site).netloc] = float(pause_s)
                elif one and one.status and 400 <= one.status < 500 and one.status != 429:
                    self._rules[site] = Protego.parse("")
                else:
                    self._rules[site] = None

    def refusal(self, url: str) -> str:
        """Why a URL must not be asked for; "" when it may."""
        site = _site(url)
        if site not in self._rules:
            return f"{UNASKED}{site}"
        rules = self._rules[site]
        if rules is None:
            return UNREACHED
        return "" if rules.can_fetch(url, AGENT) else REFUSED


def _site(url: str) -> str:
    """Scheme and host of a URL in the form they are asked by; "" for what is none."""
    try:
        parts = urlsplit(plain_url(url))
    except AddressError:
        return ""
    return f"{parts.scheme}://{parts.netloc.lower()}"
