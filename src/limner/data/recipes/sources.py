"""Where pages come from: files, folders of them, and URLs, in a fixed order and each once.

It lists and reads saved pages. URLs are only told apart here; `web` brings them.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from limner.errors import DataError, MissingError

SUFFIXES = (".html", ".htm", ".xhtml", ".md", ".markdown")


@dataclass(frozen=True)
class Source:
    """One page to read.

    Attributes:
        name: as shown: the path below the folder that was given, or the URL.
        path: its file, None for a URL that has not come yet.
        root: folder that its pictures must lie below.
        url: where it came from, or "".
    """

    name: str
    path: Path | None
    root: Path | None
    url: str = ""


def find_sources(given: Sequence[str]) -> list[Source]:
    """The pages that paths and URLs name.

    Args:
        given: files, folders (searched through, links not followed) or URLs beginning with http.
    Returns:
        Each page once, in the order given, folders by name.
    Raises:
        MissingError: no such file or folder.
        DataError: a folder without a page, or a file of another kind.
    """
    found: dict[str, Source] = {}
    for one in given:
        if one.lower().startswith(("http://", "https://")):
            found.setdefault(one, Source(one, None, None, one))
            continue
        place = _place(one)
        for source in _local(place):
            found.setdefault(str(source.path), source)
    return list(found.values())


def _place(one: str) -> Path:
    try:
        return Path(one).expanduser()
    except RuntimeError:  # the home of nobody
        return Path(one)


def _local(place: Path) -> Iterable[Source]:
    if "\0" in str(place) or not place.exists():
        raise MissingError(f"{place}: not there; give saved pages, folders of them, or URLs")
    if place.is_file():
        if place.suffix.lower() not in SUFFIXES:
            raise DataError(f"{place}: {place.suffix or 'no suffix'}, expected {', '.join(SUFFIXES)}")
        path = place.resolve()
        return [Source(path.name, path, path.parent)]
    root = place.resolve()
    # a link that leads nowhere, or to itself, is a page that cannot be read, which whoever reads it lists
    pages = sorted(
        path
        for path in root.rglob("*")
        if path.suffix.lower() in SUFFIXES and (path.is_file() or path.is_symlink())
    )
    if not pages:
        raise DataError(f"{place}: no saved page inside; expected files ending in {', '.join(SUFFIXES)}")
    return [Source(str(path.relative_to(root)), path, root) for path in pages]
