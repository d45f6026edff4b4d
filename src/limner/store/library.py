"""The picture library: its tables, its settings and a cache of vectors; and which library is meant.

Search, storyboard and studio see pictures only through this class; `limner.store.ingest` fills it.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, suppress
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Self

import numpy as np

from limner.errors import DataError, LimnerError, LimnerWarning, MissingError, unknown
from limner.files import composed, composed_text, data_folder, display, make_folder, write_bytes
from limner.locations import location
from limner.records import Picture, Problem, Record
from limner.store.home import home_of
from limner.store.store import (
    CAPTIONED,
    FILES,
    OCR,
    PICTURES,
    PRESENT,
    SCHEMAS,
    Settings,
    SpaceInfo,
    vectors_name,
)

if TYPE_CHECKING:
    from limner.store.cache import Cache
    from limner.store.catalogue import Catalogue
    from limner.store.vectors import Gallery

_NAMES_COMPARED = 20_000
_ID_DIGITS = 6


class LibrarySummary(Record):
    """Counts of a library's content.

    Attributes:
        pictures: different pictures with at least one present file.
        files: present files of those.
        skipped: files that could not be used.
        deleted: files that are gone.
        duplicates: present files beyond the first of each picture.
        captioned: number of pictures with a caption.
        spaces: encoder and width by vector space.
        vectors: number of vectors by vector space, including those of deleted pictures.
        sources: folders and lists indexed so far.
    """

    pictures: int
    files: int
    skipped: int
    deleted: int
    duplicates: int
    captioned: int
    spaces: dict[str, SpaceInfo]
    vectors: dict[str, int]
    sources: tuple[str, ...]


class PictureStore:
    """Pictures of a library, with their metadata and vectors."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        """Open a library, or create an empty one if there is none.

        Args:
            folder: path of the library, or its URL on object storage.
        Raises:
            DataError: the folder contains other files, its settings are damaged, a newer limner wrote it, or
                another process makes a library there.
            MissingError: the object store cannot be reached.
        """
        self.home, self._warned = home_of(folder), False
        self.folder, self.store = self.home.folder, self.home.store
        self._listed: tuple[str, Catalogue] | None = None
        if self.home.exists():
            self.reread()
            return
        self.home.begin()
        with self.writing():
            if self.home.exists():  # another process has made it since
                self.reread()
                return
            for name, schema in SCHEMAS.items():
                self.store.ensure(name, schema)
            self.settings = Settings()
            self.home.write(None, self.settings)

    @classmethod
    def open(cls, folder: str | os.PathLike[str]) -> Self:
        """Open an existing library.

        Raises:
            MissingError: none exists, or the object store cannot be reached.
            DataError: its settings are damaged, or a newer limner wrote it.
        """
        home_of(folder).read()
        return cls(folder)

    @cached_property
    def _cache(self) -> Cache:
        from limner.store.cache import Cache

        return Cache(self.home.cache)

    @property
    def place(self) -> str:
        """Path or URL of the library."""
        return str(self.home)

    def reread(self) -> None:
        """Read the settings again, which another process may have changed."""
        self.settings = self.home.read()

    def version(self) -> tuple[int, ...]:
        """Version numbers of the tables: different after any process has changed the library."""
        return self.store.version(PICTURES), self.store.version(FILES), self.home.version()

    def save(self, **changes: object) -> None:
        """Write changed settings atomically."""
        before, self.settings = self.settings, self.settings.model_copy(update=changes)
        self.home.write(before, self.settings)

    def writing(self) -> AbstractContextManager[None]:
        """Acquire the lock of the writers; on object storage several processes may write at once.

        Raises:
            DataError: another process is indexing into this library.
        """
        return self.home.writing()

    def __len__(self) -> int:
        """Number of pictures with a present file."""
        return self.store.count(PICTURES, PRESENT)

    def gallery(self, spaces: Sequence[str], ids: Sequence[str] | None = None) -> Gallery:
        """Vectors of all existing pictures, in order of their ids, or of the given ones in their order.

        Args:
            spaces: names of vector spaces.
            ids: pictures; None for all, memory-mapped from the cache.
        Raises:
            DataError: a space or picture is unknown.
        Warns:
            LimnerWarning: the folder cannot be written, so that the vectors are read into memory.
        """
        from limner.store.vectors import Gallery, Space, library_gallery

        for space in spaces:
            if space not in self.settings.spaces:
                raise DataError(f"{self.place}: " + unknown("vector space", space, self.settings.spaces))
        whole = library_gallery(self.store, self._cache, self.catalogue(), self.settings.spaces, spaces)
        if len(whole) and self._cache.refused is not None and not self._warned:
            self._warned = True
            warnings.warn(
                f"{self.home.cache}: cannot be written; its vectors are read into memory at every start"
                f" ({self._cache.refused.strerror or self._cache.refused})",
                LimnerWarning,
                stacklevel=2,
            )
        if ids is None:
            return whole
        rows = whole.rows(ids)
        if (rows < 0).any():
            raise DataError(f"gallery: no picture {ids[int(np.argmin(rows))]} in the library")
        return Gallery(
            list(ids),
            np.asarray(whole.groups)[rows],
            {
                name: Space(space.matrix[rows], space.present[rows], space.fingerprint)
                for name, space in whole.spaces.items()
            },
        )

    def catalogue(self) -> Catalogue:
        """Catalogue of the present pictures.

        Raises:
            DataError: a table is damaged.
        """
        state = self.store.state(PICTURES)
        if self._listed is None or self._listed[0] != state.stamp:
            from limner.store.catalogue import Catalogue

            self._listed = state.stamp, Catalogue.read(self.store, self._cache, state)
        return self._listed[1]

    def picture(self, picture_id: str) -> Picture:
        """One picture by its full id.

        Raises:
            DataError: the id is unknown, or the picture has no file any more.
        """
        return self.pictures([picture_id])[0]

    def pictures(self, ids: Iterable[str]) -> list[Picture]:
        """Pictures by their full ids, in that order.

        Raises:
            DataError: an id is unknown, or a picture has no file any more.
        """
        wanted = list(ids)
        if not wanted:
            return []
        rows = self.store.lookup(PICTURES, "id", wanted)
        found = {row["id"]: row for row in rows if row["paths"]}
        missing = [one for one in wanted if one not in found]
        if missing:
            raise DataError(
                f"{self.place}: no picture {missing[0]}; it was deleted, or is of another library"
            )
        from limner.store.catalogue import picture_of

        return [picture_of(found[one]) for one in wanted]

    def file_of(self, picture_id: str) -> Path:
        """Path of a picture's first file, even if its name is not UTF-8 (`Picture.path` is escaped).

        Raises:
            DataError: the picture has no file.
        """
        rows = self.store.lookup(FILES, "sha256", [picture_id], ["path", "path_bytes", "status"])
        present = sorted((row["path"], row["path_bytes"]) for row in rows if row["status"] == "ok")
        if not present:
            raise DataError(f"{self.place}: no file holds picture {picture_id}")
        return Path(os.fsdecode(present[0][1]))

    def find(self, name: str | os.PathLike[str]) -> Picture:
        """Find one picture by its path, file name or id.

        Args:
            name: absolute path, path relative to the working folder or to an indexed folder, unique end of a
                path (such as a file name), or the first digits of an id (six or more).
        Raises:
            DataError: no picture or several pictures match; the message names the nearest.
        """
        raw = composed(os.fsencode(name))
        text = display(raw)
        exact = {display(composed(os.fsencode(os.path.abspath(os.fspath(name)))))}  # noqa: PTH100
        exact |= {
            display(composed(os.path.join(os.fsencode(source), raw)))  # noqa: PTH118
            for source in self.settings.sources
        }
        ending = os.sep + text
        hits: dict[str, set[str]] = {"exact": set(), "ending": set(), "id": set()}
        names: list[str] = []
        for stored, sha in self.store.rows(FILES, ["path", "sha256"], "status = 'ok'"):
            path = composed_text(stored)
            if path in exact:
                hits["exact"].add(sha)
            if path.endswith(ending):
                hits["ending"].add(sha)
            if len(text) >= _ID_DIGITS and sha.startswith(text.lower()):
                hits["id"].add(sha)
            if len(names) < _NAMES_COMPARED:
                names.append(path.rpartition(os.sep)[2])
        found = next((ids for ids in hits.values() if ids), set())
        if len(found) == 1:
            return self.picture(found.pop())
        if found:
            raise DataError(
                f"{self.place}: {len(found)} different pictures are called {text!r}; give more of the path"
            )
        near = get_close_matches(text.rpartition(os.sep)[2], names, n=3)
        hint = f"; near: {', '.join(near)}" if near else ""
        raise DataError(f"{self.place}: no picture {text!r}{hint}; give a path, file name or id")

    def words_shown(self, ids: Iterable[str]) -> dict[str, str]:
        """Text in pictures, by id, without pictures that show none."""
        found = self.store.lookup(OCR, "id", ids, ["id", "text"]) if self.store.has(OCR) else []
        return {row["id"]: " ".join(row["text"].split()) for row in found if row["text"]}

    def skipped(self) -> list[Problem]:
        """Files that could not be used, by path."""
        found = sorted(self.store.rows(FILES, ["path", "reason"], "status = 'skipped'"))
        return [Problem(path=path, reason=reason) for path, reason in found]

    def summary(self) -> LibrarySummary:
        """Counts of pictures, files, captions and vectors."""
        count = self.store.count
        pictures, files = len(self), count(FILES, "status = 'ok'")
        spaces = self.settings.spaces
        return LibrarySummary(
            pictures=pictures,
            files=files,
            skipped=count(FILES, "status = 'skipped'"),
            deleted=count(FILES, "status = 'deleted'"),
            duplicates=files - pictures,
            captioned=count(PICTURES, CAPTIONED),
            spaces=spaces,
            vectors={
                name: count(vectors_name(name)) if self.store.has(vectors_name(name)) else 0
                for name in spaces
            },
            sources=self.settings.sources,
        )


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
