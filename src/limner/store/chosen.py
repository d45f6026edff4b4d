"""Which library is meant where none is named, and which one was used last."""

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
"""Environment variable that names a library, where the command line does not."""


def default_library() -> Path:
    """Folder of the library of those who name none."""
    return data_folder() / "library"


def library_to_fill(named: Path | None = None) -> Path:
    """The library that pictures are read into: named, else by the environment, else the default one."""
    if named is not None:
        return named
    return Path(os.environ[VARIABLE]).expanduser() if os.environ.get(VARIABLE) else default_library()


def library_to_ask(
    named: Path | None = None, note: Callable[[str], None] = lambda line: None, *, make: bool = False
) -> Path:
    """The library that is asked: as `library_to_fill`, but the one used last goes before the default one.

    Args:
        named: on the command line; None if it is not.
        note: receives a line where the library is none that the person named, nor the default one.
        make: make the default one, empty, where it is wanted and not there.
    Raises:
        MissingError: none is named, and there is none yet.
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
            f"{place}: no picture library yet; make it with 'limner index PICTURES', or name another with"
            " --library"
        )
    return place


def last_library() -> Path | None:
    """The library used last; None if none was, or none is remembered."""
    try:
        raw = _memory().read_bytes().removesuffix(b"\n")
    except OSError:
        return None
    return Path(os.fsdecode(raw)) if raw and b"\0" not in raw else None


def remember(place: Path) -> None:
    """Keep which library was used last; nothing is kept where the user's data cannot be written."""
    at = location(place)
    last = place.absolute() if at is None else Path(str(at))
    if last != last_library():
        with suppress(OSError, LimnerError):
            make_folder(_memory().parent)
            write_bytes(_memory(), os.fsencode(last if at is None else str(at)) + b"\n")


def _memory() -> Path:
    """One line: the folder or address of the library used last."""
    return data_folder() / "last-library"
