"""Bring the tables of a library to the format of this limner, or to another place of its folder."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

from limner.library.library import Library
from limner.library.store import FILES, FILES_SCHEMA, FORMAT, PICTURES, PICTURES_SCHEMA, Store, chunks
from limner.library.write import file_key
from limner.pictures.decode import display

_ROWS = 8192
_SEP = os.fsencode(os.sep)


def _stamps(store: Store) -> None:
    """Format 1, of limner 0.1.0, knew no stamps of files."""
    store.add_texts(FILES, ("stamp",))


STEPS: dict[int, Callable[[Store], None]] = {1: _stamps}
"""Format → what makes the next one of it; doing it twice is doing it once."""
CHANGED = {1: (FILES,)}
"""Format → tables that its step changes."""


def upgrade(folder: Path) -> int:
    """Bring a library to the current format; a kill leaves one that the next call completes.

    Args:
        folder: of the library.
    Returns:
        Its format before.
    Raises:
        DataError: another process is writing to it, or a newer limner wrote it.
    """
    library = Library.open(folder)
    before = library.settings.format
    if before < FORMAT:
        with library.writing():
            for number in range(before, FORMAT):
                STEPS[number](library.store)
                library.save(format=number + 1)
    return before


def relocate(folder: Path, old: str, new: str) -> None:
    """Name what lies in a library's own folder by another place of it.

    Args:
        folder: of the library, in the current format.
        old: where it was, absolute.
        new: where it is going to be.
    """
    library = Library.open(folder)
    store, before, after = library.store, os.fsencode(old), os.fsencode(new)

    def moved(path: bytes) -> bytes:
        inside = path == before or path.startswith(before + _SEP)
        return after + path[len(before) :] if inside else path

    shown = {display(before) + os.sep: display(after) + os.sep}

    def moved_text(path: str) -> str:
        (start, instead), *_ = shown.items()
        return instead + path[len(start) :] if path.startswith(start) else path

    named = store.rows(FILES, ["key", "path_bytes", "source"])
    keys = [key for key, path, source in named if (moved(path), moved(source)) != (path, source)]
    for some in chunks(keys, _ROWS):
        rows = store.lookup(FILES, "key", some)
        pictures = store.lookup(PICTURES, "id", {row["sha256"] for row in rows if row["sha256"]})
        for row in rows:
            row["path_bytes"], row["source"] = moved(row["path_bytes"]), moved(row["source"])
            row["path"], row["key"] = display(row["path_bytes"]), file_key(row["path_bytes"])
        for picture in pictures:
            picture["paths"] = [moved_text(path) for path in picture["paths"] or ()]
        store.delete(FILES, some)
        store.upsert(FILES, pa.Table.from_pylist(rows, schema=FILES_SCHEMA))
        store.upsert(PICTURES, pa.Table.from_pylist(pictures, schema=PICTURES_SCHEMA))
    sources = (os.fsdecode(moved(os.fsencode(one))) for one in library.settings.sources)
    library.save(sources=tuple(sources))
