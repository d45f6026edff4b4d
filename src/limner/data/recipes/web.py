"""Pages and pictures off the web into a folder: by the robots rules, bounded, and resumable.

What came stays in the folder with its manifest, so that a build that was stopped goes on. It reads no page.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

from limner.data.fetch import FetchProgress, fetch_pictures
from limner.data.manifest import Fetched, Manifest
from limner.data.presence import picture_fault
from limner.data.recipes.robots import UNASKED, Robots
from limner.data.transfer import FetchSettings

PAGE_KINDS = ("text/html", "application/xhtml", "text/markdown", "text/plain")
_ROUNDS = 4


def page_fault(data: bytes) -> str:
    """What is wrong with the bytes of a page; "" when they may be one."""
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
        urls: of pages, or of pictures.
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
    for _ in range(_ROUNDS):
        bounds = replace(
            settings,
            kinds=PAGE_KINDS if pages else settings.kinds,
            permit=robots.refusal,
            host_pauses=robots.pauses,
        )
        fault = page_fault if pages else picture_fault
        fetch_pictures(wanted, folder, bounds, again=again, progress=progress, fault=fault)
        with Manifest(folder) as manifest:
            known = {url: manifest.known[url] for url in wanted if url in manifest.known}
        # a redirect leads to hosts whose rules are not known before
        met = [one.reason.removeprefix(UNASKED) for one in known.values() if one.reason.startswith(UNASKED)]
        if not any(met):
            break
        robots.ask(filter(None, met))
        again = False
    return known
