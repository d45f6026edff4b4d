"""The picture library: a folder with its tables, its settings and a cache of vectors.

Search, storyboard and studio see pictures only through this class; `limner.library.ingest` fills it.
"""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Self

import numpy as np

from limner.checksums import seal
from limner.errors import DataError, LimnerWarning, unknown
from limner.files import locked, make_folder, strangers, write_text
from limner.library.gallery import Gallery, Space, cached_space, present_pictures
from limner.library.store import (
    CAPTIONED,
    FILES,
    PICTURES,
    PRESENT,
    SCHEMAS,
    SETTINGS_FILE,
    Settings,
    SpaceInfo,
    Store,
    read_settings,
    vectors_name,
)
from limner.pictures.decode import display
from limner.records import Picture, Problem, Record

_NAMES_COMPARED = 20_000
_ID_DIGITS = 6


class LibrarySummary(Record):
    """What a library holds.

    Attributes:
        pictures: different pictures with at least one present file.
        files: present files of those.
        skipped: files that could not be used.
        deleted: files that are gone.
        duplicates: present files beyond the first of each picture.
        captioned: pictures with a caption.
        spaces: vector space → encoder and width.
        vectors: vector space → number of vectors, those of deleted pictures included.
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


class Library:
    """Pictures, what is known of them, and their vectors."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        """Open a library, or make an empty one where there is none.

        Raises:
            DataError: the folder holds other things, its settings are damaged, or a newer limner wrote it.
        """
        self.folder, self._warned = Path(folder), False
        if (self.folder / SETTINGS_FILE).exists():
            self.settings = read_settings(self.folder)
            self.store = Store(self.folder / "tables")
            return
        if self.folder.is_file():
            raise DataError(f"{self.folder}: a file, expected the folder of a library")
        # Tables without settings are what a kill during creation leaves.
        others = strangers(self.folder, _LEFT if (self.folder / "lock").is_file() else _OWN)
        if others:
            raise DataError(
                f"{self.folder}: not a library but a folder with {others[0]!r}; name an empty or new folder"
            )
        make_folder(self.folder)
        self.settings, self.store = Settings(), Store(self.folder / "tables")
        for name, schema in SCHEMAS.items():
            self.store.ensure(name, schema)
        self.save()

    @classmethod
    def open(cls, folder: str | os.PathLike[str]) -> Self:
        """A library that exists.

        Raises:
            MissingError: there is none.
            DataError: its settings are damaged, or a newer limner wrote it.
        """
        read_settings(Path(folder))
        return cls(folder)

    def version(self) -> tuple[int, ...]:
        """Numbers that change whenever a process changes the library."""
        changed = (self.folder / SETTINGS_FILE).stat().st_mtime_ns
        return self.store.version(PICTURES), self.store.version(FILES), changed

    def save(self, **changes: object) -> None:
        """Write the settings, with changes, in one step: a kill leaves the old ones or the new ones."""
        self.settings = self.settings.model_copy(update=changes)
        # ASCII keeps the surrogates that stand for odd bytes in names.
        text = json.dumps(self.settings.model_dump(mode="python"), indent=1, sort_keys=True)
        write_text(self.folder / SETTINGS_FILE, seal(text))

    def writing(self) -> AbstractContextManager[None]:
        """Keep other writers out while indexing.

        Raises:
            DataError: another process is indexing into this library.
        """
        refusal = DataError(f"{self.folder}: another process is indexing into it; wait for it to end")
        return locked(self.folder / "lock", refusal)

    def __len__(self) -> int:
        """Number of pictures with a present file."""
        return self.store.count(PICTURES, PRESENT)

    def gallery(self, spaces: Sequence[str], ids: Sequence[str] | None = None) -> Gallery:
        """Vectors of all present pictures, in order of their ids, or of chosen ones in the order given.

        Args:
            spaces: names of vector spaces.
            ids: pictures; None for all, memory-mapped from the cache.
        Raises:
            DataError: an unknown space or picture.
        Warns:
            LimnerWarning: the folder cannot be written, so that the vectors are read into memory.
        """
        for space in spaces:
            if space not in self.settings.spaces:
                raise DataError(f"{self.folder}: " + unknown("vector space", space, self.settings.spaces))
        known, groups = present_pictures(self.store)
        infos, cache = self.settings.spaces, self.folder / "cache"
        vectors = {
            space: cached_space(self.store, cache / space, vectors_name(space), infos[space], known)
            for space in spaces
        }
        if known and not self._warned and any(space.file is None for space in vectors.values()):
            self._warned = True
            warnings.warn(
                f"{self.folder}: cannot be written; its vectors are read into memory at every start",
                LimnerWarning,
                stacklevel=2,
            )
        if ids is None:
            return Gallery(known, groups, vectors)
        places = {one: row for row, one in enumerate(known)}
        missing = next((one for one in ids if one not in places), None)
        if missing is not None:
            raise DataError(f"gallery: no picture {missing} in the library")
        rows = np.array([places[one] for one in ids], dtype=np.int64)
        return Gallery(
            list(ids),
            [groups[row] for row in rows],
            {
                name: Space(space.vectors(rows).astype(np.float16), space.present[rows], space.fingerprint)
                for name, space in vectors.items()
            },
        )

    def picture(self, picture_id: str) -> Picture:
        """One picture by its full id.

        Raises:
            DataError: there is none, or no file holds it any more.
        """
        return self.pictures([picture_id])[0]

    def pictures(self, ids: Iterable[str]) -> list[Picture]:
        """Pictures by their full ids, in that order.

        Raises:
            DataError: an id is unknown, or no file holds that picture any more.
        """
        wanted = list(ids)
        rows = self.store.lookup(PICTURES, "id", wanted)
        found = {row["id"]: row for row in rows if row["paths"]}
        missing = [one for one in wanted if one not in found]
        if missing:
            raise DataError(
                f"{self.folder}: no picture {missing[0]}; it was deleted, or is of another library"
            )
        return [picture_of(found[one]) for one in wanted]

    def file_of(self, picture_id: str) -> Path:
        """The first file that holds a picture, also where its name is no UTF-8 (`Picture.path` is escaped).

        Raises:
            DataError: no file holds it.
        """
        rows = self.store.lookup(FILES, "sha256", [picture_id], ["path", "path_bytes", "status"])
        present = sorted((row["path"], row["path_bytes"]) for row in rows if row["status"] == "ok")
        if not present:
            raise DataError(f"{self.folder}: no file holds picture {picture_id}")
        return Path(os.fsdecode(present[0][1]))

    def find(self, name: str | os.PathLike[str]) -> Picture:
        """One picture by what a person would type.

        Args:
            name: absolute path, path relative to the working folder or to an indexed folder, unique end of a
                path (such as a file name), or the first digits of an id (six or more).
        Raises:
            DataError: none or several fit; the message names the nearest.
        """
        raw = os.fsencode(name)
        text = display(raw)
        exact = {display(os.fsencode(os.path.abspath(os.fspath(name))))}  # noqa: PTH100
        exact |= {display(os.path.join(os.fsencode(source), raw)) for source in self.settings.sources}  # noqa: PTH118
        ending = os.sep + text
        hits: dict[str, set[str]] = {"exact": set(), "ending": set(), "id": set()}
        names: list[str] = []
        for path, sha in self.store.rows(FILES, ["path", "sha256"], "status = 'ok'"):
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
                f"{self.folder}: {len(found)} different pictures are called {text!r}; give more of the path"
            )
        near = get_close_matches(text.rpartition(os.sep)[2], names, n=3)
        hint = f"; near: {', '.join(near)}" if near else ""
        raise DataError(f"{self.folder}: no picture {text!r}{hint}; give a path, file name or id")

    def skipped(self) -> list[Problem]:
        """Files that could not be used, by path."""
        found = sorted(self.store.rows(FILES, ["path", "reason"], "status = 'skipped'"))
        return [Problem(path=path, reason=reason) for path, reason in found]

    def summary(self) -> LibrarySummary:
        """Counts of everything."""
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


_OWN = frozenset((SETTINGS_FILE, "calibration.json", "tables", "cache", "lock"))
_LEFT = _OWN | {"projects", "pictures", "trash", "frames", "thumbnails"}
"""What may be left of a library whose settings and tables were taken away because they were damaged."""


def picture_of(row: dict[str, Any]) -> Picture:
    """A row of `pictures` as the record."""
    labels = tuple((label["name"], label["probability"]) for label in row["labels"] or ())
    return Picture.model_validate({**row, "labels": labels})
