"""Default library, and the library used last."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from limner.errors import LimnerError, MissingError
from limner.files import data_folder, make_folder, write_bytes
from limner.locations import location
from limner.store.home import home_of
from limner.store.library import PictureStore

VARIABLE = "LIMNER_LIBRARY"
"""Environment variable with the path or URL of the library."""


def default_library() -> Path:
    """Folder of the default library."""
    return data_folder() / "library"


def library_to_fill(named: Path | None = None) -> Path:
    """Library to index into: the named one, or that of the environment, or the default one."""
    if named is not None:
        return named
    return Path(os.environ[VARIABLE]).expanduser() if os.environ.get(VARIABLE) else default_library()


def library_to_ask(
    named: Path | None = None, note: Callable[[str], None] = lambda line: None, *, make: bool = False
) -> Path:
    """Library to search: the named one, that of the environment, the one used last, or the default one.

    Args:
        named: path or URL given by the user, or None.
        note: function that receives a line if the library is the one used last.
        make: whether to create the default one, empty, if needed.
    Raises:
        MissingError: no library is named, and none exists.
    """
    place = library_to_fill(named)
    if named is not None or os.environ.get(VARIABLE):
        return place
    last = last_library()
    if last is not None and last != place:
        if location(last) is not None or home_of(last).exists():
            note(f"library: {location(last) or last}, the one used last")
            return last
        note(f"library: {place}, as the one used last is not there any more: {last}")
    if make:
        PictureStore(place)
    elif not home_of(place).exists():
        raise MissingError(
            f"{place}: no picture library yet; create it with 'limner index PICTURES', or name another with"
            " --library"
        )
    return place


def last_library() -> Path | None:
    """Library used last, or None."""
    try:
        raw = _memory().read_bytes().removesuffix(b"\n")
    except OSError:
        return None
    return Path(os.fsdecode(raw)) if raw and b"\0" not in raw else None


def remember(place: Path) -> None:
    """Remember the library used last, if the user's data folder can be written."""
    at = location(place)
    last = place.absolute() if at is None else Path(str(at))
    if last != last_library():
        with suppress(OSError, LimnerError):
            make_folder(_memory().parent)
            write_bytes(_memory(), os.fsencode(last if at is None else str(at)) + b"\n")


def _memory() -> Path:
    """File with one line: the path or URL of the library used last."""
    return data_folder() / "last-library"
