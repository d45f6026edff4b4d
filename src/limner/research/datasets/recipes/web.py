"""Sources of pages: files, folders, and URLs, which are downloaded if robots.txt permits.

Downloads are stored in a folder with a manifest, so that an interrupted build can continue.
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
        name: name for messages: the path below the given folder, or the URL.
        path: its file; None for a URL not yet downloaded.
        root: folder that must contain its pictures.
    """

    name: str
    path: Path | None = None
    root: Path | None = None


def find_sources(given: Sequence[str]) -> list[PageSource]:
    """List the pages named by paths and URLs.

    Args:
        given: files, folders (with subfolders, without following links), or http(s) URLs.
    Returns:
        Each page once, in the given order; pages of a folder by name.
    Raises:
        MissingError: a file or folder does not exist.
        DataError: a folder has no page, or a file has another suffix.
    """
    sources: dict[str, PageSource] = {}
    for entry in given:
        if entry.lower().startswith(("http://", "https://")):
            sources.setdefault(entry, PageSource(entry))
            continue
        place = Path(entry)
        with suppress(RuntimeError):  # no such user's home
            place = place.expanduser()
        for source in _local(place):
            sources.setdefault(str(source.path), source)
    return list(sources.values())


def _local(place: Path) -> Iterable[PageSource]:
    if "\0" in str(place) or not place.exists():
        raise MissingError(f"{place}: does not exist; give saved pages, folders of them, or URLs")
    if place.is_file():
        if place.suffix.lower() not in SUFFIXES:
            raise DataError(f"{place}: {place.suffix or 'no suffix'}, expected {', '.join(SUFFIXES)}")
        path = place.resolve()
        return [PageSource(path.name, path, path.parent)]
    root = place.resolve()
    # broken links are included, so that they are reported as unreadable pages
    pages = [page for page in root.rglob("*") if page.suffix.lower() in SUFFIXES]
    pages = sorted(page for page in pages if page.is_file() or page.is_symlink())
    if not pages:
        raise DataError(f"{place}: no saved page in it; expected files ending in {', '.join(SUFFIXES)}")
    return [PageSource(str(path.relative_to(root)), path, root) for path in pages]


AGENT = "limner"
REFUSED = "robots.txt disallows it"
UNREACHED = "robots.txt could not be read"
UNASKED = "robots rules not asked yet: "
_MAX_BYTES = 512_000


class Robots:
    """robots.txt rules of hosts.

    Attributes:
        pauses: host → crawl delay in seconds.
    """

    def __init__(self, settings: FetchSettings) -> None:
        """Use these limits for the requests."""
        self._settings = replace(
            settings, kinds=("",), max_bytes=_MAX_BYTES, permit=None, host_pauses={}, retries=1
        )
        self._rules: dict[str, Protego | None] = {}
        self.pauses: dict[str, float] = {}

    def ask(self, urls: Iterable[str]) -> None:
        """Download robots.txt from the hosts of these URLs, unless it is already known.

        A missing file (4xx, except 429) permits everything; no response or a server error permits nothing.

        Raises:
            MissingError: protego is not installed.
        Source: RFC 9309, §2.3.1.
        """
        try:
            from protego import Protego
        except ModuleNotFoundError:
            raise MissingError(
                "protego, which reads robots.txt, is not installed; pip install 'limner[recipes]'"
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
                site, result = url.removesuffix("/robots.txt"), known.get(url)
                if result and result.state == "done":
                    text = (Path(folder) / name).read_bytes().decode("utf-8", "replace")
                    self._rules[site] = rules = Protego.parse(text)
                    if pause_s := rules.crawl_delay(AGENT):
                        self.pauses[urlsplit(site).netloc] = float(pause_s)
                elif result and result.status and 400 <= result.status < 500 and result.status != 429:
                    self._rules[site] = Protego.parse("")
                else:
                    self._rules[site] = None

    def refusal(self, url: str) -> str:
        """Reason why a URL must not be requested; "" if it may."""
        site = _site(url)
        if site not in self._rules:
            return f"{UNASKED}{site}"
        rules = self._rules[site]
        if rules is None:
            return UNREACHED
        return "" if rules.can_fetch(url, AGENT) else REFUSED


def _site(url: str) -> str:
    """Scheme and host of a URL, normalised; "" if it is not a valid URL."""
    try:
        parts = urlsplit(plain_url(url))
    except AddressError:
        return ""
    return f"{parts.scheme}://{parts.netloc.lower()}"


PAGE_KINDS = ("text/html", "application/xhtml", "text/markdown", "text/plain")
_ROUNDS = 4


def page_fault(data: bytes) -> str:
    """Describe the error in a page's bytes; "" if there is none."""
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
    """Download missing pages or pictures, if robots.txt permits.

    Args:
        urls: URLs of pages, or of pictures.
        folder: output folder; created if missing.
        settings: limits and pauses; robots.txt can make pauses longer.
        robots: rules of the hosts; rules of hosts reached by redirects are added.
        pages: whether the URLs are pages; otherwise pictures.
        again: whether to request permanently dead URLs again.
        progress: called after each response.
    Returns:
        URL → result, whose `name` is its file in the folder. URLs not tried because of the size limit are
        absent.
    Raises:
        DataError: the folder cannot be written, or its manifest is damaged or in use.
    """
    wanted = {url: sha256(url.encode("utf-8", "surrogatepass")).hexdigest()[:32] for url in urls}
    if not wanted:
        return {}
    robots.ask(wanted)
    known: dict[str, Fetched] = {}
    kinds, fault = (PAGE_KINDS, page_fault) if pages else (settings.kinds, picture_fault)
    # robots.pauses gains hosts during the download
    bounds = replace(settings, kinds=kinds, permit=robots.refusal, host_pauses=robots.pauses)
    for _ in range(_ROUNDS):
        fetch_pictures(wanted, folder, bounds, again=again, progress=progress, fault=fault)
        with open_manifest(folder) as manifest:
            known = {url: manifest.known[url] for url in wanted if url in manifest.known}
        # hosts reached by redirects, whose rules are not yet known
        met = [
            result.reason.removeprefix(UNASKED)
            for result in known.values()
            if result.reason.startswith(UNASKED)
        ]
        if not any(met):
            break
        robots.ask(filter(None, met))
        again = False
    return known
