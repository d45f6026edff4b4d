"""Sources of pages: files, folders, and URLs, which are downloaded as the hosts' robots rules permit.

What came stays in a folder with its manifest, so that a build that was stopped goes on.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from limner.errors import DataError, MissingError
from limner.research.datasets.fetch import FetchProgress, fetch_pictures, open_manifest
from limner.research.datasets.missing import picture_fault
from limner.transfer import AddressError, Fetched, FetchSettings, plain_url

if TYPE_CHECKING:
    from protego import Protego  # type: ignore[import-untyped, unused-ignore]


SUFFIXES = (".html", ".htm", ".xhtml", ".md", ".markdown")


@dataclass(frozen=True)
class PageSource:
    """One page to read.

    Attributes:
        name: as shown: the path below the folder that was given, or the URL.
        path: its file, None for a URL that has not come yet.
        root: folder that its pictures must lie below.
    """

    name: str
    path: Path | None = None
    root: Path | None = None


def find_sources(given: Sequence[str]) -> list[PageSource]:
    """The pages that paths and URLs name.

    Args:
        given: files, folders (searched through, links not followed) or URLs beginning with http.
    Returns:
        Each page once, in the order given, folders by name.
    Raises:
        MissingError: no such file or folder.
        DataError: a folder without a page, or a file of another kind.
    """
    found: dict[str, PageSource] = {}
    for one in given:
        if one.lower().startswith(("http://", "https://")):
            found.setdefault(one, PageSource(one))
            continue
        place = Path(one)
        with suppress(RuntimeError):  # the home of nobody
            place = place.expanduser()
        for source in _local(place):
            found.setdefault(str(source.path), source)
    return list(found.values())


def _local(place: Path) -> Iterable[PageSource]:
    if "\0" in str(place) or not place.exists():
        raise MissingError(f"{place}: does not exist; give saved pages, folders of them, or URLs")
    if place.is_file():
        if place.suffix.lower() not in SUFFIXES:
            raise DataError(f"{place}: {place.suffix or 'no suffix'}, expected {', '.join(SUFFIXES)}")
        path = place.resolve()
        return [PageSource(path.name, path, path.parent)]
    root = place.resolve()
    # a link that leads nowhere, or to itself, is a page that cannot be read, which whoever reads it lists
    pages = [one for one in root.rglob("*") if one.suffix.lower() in SUFFIXES]
    pages = sorted(one for one in pages if one.is_file() or one.is_symlink())
    if not pages:
        raise DataError(f"{place}: no saved page inside; expected files ending in {', '.join(SUFFIXES)}")
    return [PageSource(str(path.relative_to(root)), path, root) for path in pages]


AGENT = "limner"
REFUSED = "robots rules refuse it"
UNREACHED = "robots rules could not be read"
UNASKED = "robots rules not asked yet: "
_MAX_BYTES = 512_000


class Robots:
    """Robots rules of hosts.

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
            with open_manifest(Path(folder)) as manifest:
                known = dict(manifest.known)
            for url, name in wanted.items():
                site, one = url.removesuffix("/robots.txt"), known.get(url)
                if one and one.state == "done":
                    text = (Path(folder) / name).read_bytes().decode("utf-8", "replace")
                    self._rules[site] = rules = Protego.parse(text)
                    if pause_s := rules.crawl_delay(AGENT):
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


PAGE_KINDS = ("text/html", "application/xhtml", "text/markdown", "text/plain")
_ROUNDS = 4


def page_fault(data: bytes) -> str:
    """Error of a page's bytes, or "" if they may be a page."""
    return "" if data.strip() else "empty page"


def bring(
    urls: Iterable[str],
    folder: Path,
    settings: FetchSettings,
    robots: Robots,
    *,
    pages: bool,
    again: bool = False,
    progress: Callable[[FetchProgress], None] | None = None,
) -> dict[str, Fetched]:
    """Fetch what is not there yet, as far as the hosts permit.

    Args:
        urls: URLs of pages, or of pictures.
        folder: is made when absent.
        settings: bounds and pauses; hosts may ask for longer ones.
        robots: what hosts permit; hosts met on the way are asked, too.
        pages: pages, or else pictures.
        again: ask again for what was refused for good.
        progress: called after every answer.
    Returns:
        URL → what became of it; `name` is its file below the folder. A URL that was not reached for want of
        room is not in it.
    Raises:
        DataError: the folder cannot be written, its manifest is damaged or in use.
    """
    wanted = {url: sha256(url.encode("utf-8", "surrogatepass")).hexdigest()[:32] for url in urls}
    if not wanted:
        return {}
    robots.ask(wanted)
    known: dict[str, Fetched] = {}
    kinds, fault = (PAGE_KINDS, page_fault) if pages else (settings.kinds, picture_fault)
    # the pauses that hosts ask for are added to while they are met
    bounds = replace(settings, kinds=kinds, permit=robots.refusal, host_pauses=robots.pauses)
    for _ in range(_ROUNDS):
        fetch_pictures(wanted, folder, bounds, again=again, progress=progress, fault=fault)
        with open_manifest(folder) as manifest:
            known = {url: manifest.known[url] for url in wanted if url in manifest.known}
        # a redirect leads to hosts whose rules are not known before
        met = [one.reason.removeprefix(UNASKED) for one in known.values() if one.reason.startswith(UNASKED)]
        if not any(met):
            break
        robots.ask(filter(None, met))
        again = False
    return known
