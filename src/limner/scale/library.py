"""The picture library: which one is used, where it is, and what it contains.

A library in a folder stores everything there. A library on object storage stores its settings in a table and
merges them key by key, so that processes can change different settings at the same time; its caches and
projects are local, in the user's data folder. Searches, storyboards and the studio access pictures only
through `PictureStore`; `limner.scale.ingest` fills it.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import warnings
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol, Self

import numpy as np
import pyarrow as pa
from pydantic import ValidationError
from typing_extensions import override

from limner.checksums import checksum, seal, unseal
from limner.config import Record
from limner.errors import DataError, LimnerWarning, MissingError, unknown
from limner.files import (
    composed,
    composed_text,
    data_folder,
    display,
    locked,
    make_folder,
    strangers,
    write_text,
)
from limner.locations import Location, file_system, location, objects, reaching
from limner.records import Picture, Problem
from limner.scale.store import (
    CAPTIONED,
    COORDINATES,
    FILES,
    OCR,
    PICTURES,
    PRESENT,
    SCHEMAS,
    SETTINGS_FILE,
    TableSettings,
    TableStore,
    check_format,
    read_settings,
    vectors_name,
)
from limner.scale.tables import unlinked
from limner.store import SpaceInfo

if TYPE_CHECKING:
    from limner.scale.cache import Cache
    from limner.scale.catalogue import Catalogue
    from limner.scale.vectors import TableGallery


SETTINGS = "settings"
SETTINGS_SCHEMA = pa.schema([("id", pa.string()), ("key", pa.string()), ("value", pa.string())])
"""Columns of `settings`: a hash of the key, the key, and the value as JSON."""
_OWN = frozenset((SETTINGS_FILE, "calibration.json", "tables", "cache", "lock"))  # of older versions too
_LEFT = _OWN | {"projects", "pictures", "trash", "frames", "thumbnails"}
"""Files that may remain of a library whose damaged settings and tables were removed."""
_SPACE, _SOURCE, _TEXT, _ID = "space/", "source/", "text/", "id"


class Home(Protocol):
    """Location of a library.

    Attributes:
        folder: folder on this machine: of the library itself, or of its local files.
        name: short name for messages.
        store: tables of the library.
    """

    folder: Path
    name: str
    store: TableStore

    def __str__(self) -> str:
        """Path or URL of the library."""

    @property
    def cache(self) -> Path:
        """Folder of cached files."""

    def exists(self) -> bool:
        """Whether the library exists."""

    def begin(self) -> None:
        """Create the folder of a new library.

        Raises:
            DataError: the folder contains other files.
        """

    def read(self) -> TableSettings:
        """Read the settings; errors as `limner.scale.store.read_settings`."""

    def write(self, before: TableSettings | None, after: TableSettings) -> None:
        """Write the settings atomically.

        Args:
            before: previous settings; None for a new library.
            after: new settings.
        """

    def version(self) -> int:
        """Number that changes whenever the settings change."""

    def changed_s(self) -> float:
        """Time of the last change of the library, seconds since 1970."""

    def text(self, name: str) -> bytes | None:
        """Read a small named text that is stored with the library; None if there is none.

        Raises:
            DataError: the text is damaged.
        """

    def keep(self, name: str, text: str) -> None:
        """Store a JSON object under a name, replacing the previous one."""

    def where(self, name: str) -> str:
        """Location of a text of `read_text`, for messages."""

    def writing(self) -> AbstractContextManager[None]:
        """Acquire the lock of the writers, if only one may write.

        Raises:
            DataError: another process is writing.
        """


def home_of(place: str | os.PathLike[str]) -> Home:
    """Location of the library at a path or URL.

    Raises:
        ConfigError: the URL is malformed.
    """
    at = location(place)
    return FolderHome(Path(place)) if at is None else BucketHome(at)


def spaces_of(place: str | os.PathLike[str]) -> dict[str, SpaceInfo]:
    """Vector spaces of a library that may not exist yet."""
    home = home_of(place)
    return home.read().spaces if home.exists() else {}


class FolderHome(Home):
    """A library in a folder of this machine."""

    def __init__(self, folder: Path) -> None:
        """Check a folder.

        Raises:
            DataError: one of limner's files in it is a link.
        """
        # a cache that is a link is not used; its content is kept in memory
        unlinked(*(folder / name for name in sorted(_LEFT - {"cache"})))
        self.folder, self.store = folder, TableStore(folder / "tables")
        self.name = folder.resolve().name

    @override
    def __str__(self) -> str:
        return str(self.folder)

    @property
    @override
    def cache(self) -> Path:
        return self.folder / "cache"

    @override
    def exists(self) -> bool:
        return (self.folder / SETTINGS_FILE).exists()

    @override
    def begin(self) -> None:
        if self.folder.is_file():
            raise DataError(f"{self.folder}: a file, expected the folder of a library")
        # tables without settings remain if the creation was killed
        others = strangers(self.folder, _LEFT if (self.folder / "lock").is_file() else _OWN)
        if others:
            raise DataError(
                f"{self.folder}: not a library but a folder with {others[0]!r}; name an empty or new folder"
            )
        make_folder(self.folder)

    @override
    def read(self) -> TableSettings:
        return read_settings(self.folder)

    @override
    def write(self, before: TableSettings | None, after: TableSettings) -> None:
        # ASCII preserves the surrogates that represent non-UTF-8 bytes in names
        text = json.dumps(after.model_dump(mode="python"), indent=1, sort_keys=True)
        write_text(self.folder / SETTINGS_FILE, seal(text))

    @override
    def version(self) -> int:
        return (self.folder / SETTINGS_FILE).stat().st_mtime_ns

    @override
    def changed_s(self) -> float:
        tables = (self.folder / "tables").glob("*.lance/_versions")
        return max(one.stat().st_mtime for one in (self.folder / SETTINGS_FILE, *tables))

    @override
    def text(self, name: str) -> bytes | None:
        path = self.folder / name
        try:
            return unseal(path.read_bytes(), path, "delete it, or make it again")
        except FileNotFoundError:
            return None
        except DataError:
            raise
        except OSError as error:
            raise DataError(
                f"{path}: cannot be read ({error.strerror}); delete it, or make it again"
            ) from error

    @override
    def keep(self, name: str, text: str) -> None:
        write_text(self.folder / name, seal(text))

    @override
    def where(self, name: str) -> str:
        return str(self.folder / name)

    @override
    def writing(self) -> AbstractContextManager[None]:
        refusal = DataError(f"{self.folder}: another process is indexing into it; wait for it to end")
        return locked(self.folder / "lock", refusal)


class BucketHome(Home):
    """A library on object storage."""

    def __init__(self, at: Location) -> None:
        self._at, self.name = at, at.name
        self.store = TableStore(at / "tables")
        digest = hashlib.sha256(str(at).encode()).hexdigest()[:16]
        self.folder = data_folder() / "libraries" / f"{at.name}-{digest}"
        self._made = ""

    @override
    def __str__(self) -> str:
        return str(self._at)

    @property
    @override
    def cache(self) -> Path:
        # another library at the same URL starts again at version 1 of its tables
        return self.folder / "cache" / self._made

    @override
    def exists(self) -> bool:
        return self.store.has(SETTINGS) and self.store.count(SETTINGS) > 0

    @override
    def begin(self) -> None:
        from pyarrow.fs import FileSelector

        with reaching(self._at):
            listed = file_system(self._at).get_file_info(FileSelector(self._at.path, allow_not_found=True))
        others = sorted(one.base_name for one in listed if one.base_name != "tables")
        if others:
            raise DataError(
                f"{self._at}: not a library but contains {others[0]!r}; name an address below which"
                " there is nothing"
            )
        self.store.ensure(SETTINGS, SETTINGS_SCHEMA)

    @override
    def read(self) -> TableSettings:
        if not self.store.has(SETTINGS):
            raise MissingError(
                f"{self._at}: no picture library here; make one with 'limner index PICTURES --library"
                f" {self._at}'"
            )
        try:
            rows = {key: json.loads(text) for key, text in self.store.rows(SETTINGS, ["key", "value"])}
            self._made, found = str(rows.pop(_ID)), int(rows["format"])
            settings = _joined(rows)
        except (ValueError, KeyError, TypeError) as error:
            raise DataError(
                f"{self._at}: its settings are damaged ({str(error)[:60]}); index again into another library"
            ) from error
        check_format(str(self._at), found, "index again into another library")
        return settings

    @override
    def write(self, before: TableSettings | None, after: TableSettings) -> None:
        old, new = {} if before is None else _parts(before), _parts(after)
        if before is None:
            self._made = secrets.token_hex(8)
            new[_ID] = self._made
        self._put({key: value for key, value in new.items() if key not in old or old[key] != value})
        self.store.delete(SETTINGS, map(_hashed, old.keys() - new.keys()))

    @override
    def version(self) -> int:
        return self.store.version(SETTINGS)

    @override
    def changed_s(self) -> float:
        tables = (self._at / "tables" / f"{name}.lance/_versions" for name in (SETTINGS, FILES, PICTURES))
        return max(one.mtime_ns for table in tables for one in objects(table)) / 1e9

    @override
    def text(self, name: str) -> bytes | None:
        found = self.store.rows(SETTINGS, ["value"], f"id = '{_hashed(_TEXT + name)}'")
        return next((text.encode() for (text,) in found), None)

    @override
    def keep(self, name: str, text: str) -> None:
        self._put({_TEXT + name: json.loads(text)})

    @override
    def where(self, name: str) -> str:
        return f"{self._at / 'tables' / SETTINGS} ({name})"

    @override
    def writing(self) -> AbstractContextManager[None]:
        return nullcontext()

    def _put(self, values: dict[str, Any]) -> None:
        rows = [{"id": _hashed(key), "key": key, "value": json.dumps(value)} for key, value in values.items()]
        self.store.upsert(SETTINGS, pa.Table.from_pylist(rows, schema=SETTINGS_SCHEMA))


def _hashed(key: str) -> str:
    return hashlib.blake2b(key.encode(), digest_size=16).hexdigest()


def _parts(settings: TableSettings) -> dict[str, Any]:
    """Split settings into keys and values that can change independently; non-UTF-8 bytes are escaped."""
    held = settings.model_dump(mode="python")
    spaces, sources = held.pop("spaces"), held.pop("sources")
    parts = held | {_SPACE + name: space for name, space in spaces.items()}
    return parts | {_SOURCE + json.dumps(source): place for place, source in enumerate(sources)}


def _joined(parts: dict[str, Any]) -> TableSettings:
    """Join keys and values into settings; a source that several writers added appears once."""

    def below(prefix: str) -> Iterable[tuple[str, Any]]:
        return ((key.removeprefix(prefix), one) for key, one in parts.items() if key.startswith(prefix))

    sources = sorted((place, json.loads(source)) for source, place in below(_SOURCE))
    held = {key: one for key, one in parts.items() if not key.startswith((_SPACE, _SOURCE, _TEXT))}
    try:
        return TableSettings.model_validate(
            {**held, "spaces": dict(below(_SPACE)), "sources": tuple(source for _, source in sources)}
        )
    except ValidationError as error:
        raise ValueError(error.errors()[0]["msg"]) from error


_NAMES_COMPARED = 20_000
_ID_DIGITS = 6


class TableSummary(Record):
    """Counts of a library's content.

    Attributes:
        pictures: different pictures with at least one present file.
        files: present files of these pictures.
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
                another process is creating a library there.
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
            if self.home.exists():  # another process has created it in the meantime
                self.reread()
                return
            for name, schema in SCHEMAS.items():
                self.store.ensure(name, schema)
            self.settings = TableSettings()
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
        from limner.scale.cache import Cache

        return Cache(self.home.cache)

    @property
    def place(self) -> str:
        """Path or URL of the library."""
        return str(self.home)

    def reread(self) -> None:
        """Read the settings again; another process may have changed them."""
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

    def gallery(self, spaces: Sequence[str], ids: Sequence[str] | None = None) -> TableGallery:
        """Vectors of all existing pictures, in order of their ids, or of the given ones in their order.

        Args:
            spaces: names of vector spaces.
            ids: pictures; None for all, memory-mapped from the cache.
        Raises:
            DataError: a space or picture is unknown.
        Warns:
            LimnerWarning: the folder cannot be written, so that the vectors are read into memory.
        """
        from limner.scale.vectors import TableGallery, TableSpace, library_gallery

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
        return TableGallery(
            list(ids),
            np.asarray(whole.groups)[rows],
            {
                name: TableSpace(space.matrix[rows], space.present[rows], space.fingerprint)
                for name, space in whole.spaces.items()
            },
        )

    def catalogue(self) -> Catalogue:
        """Catalogue of the present pictures.

        Raises:
            DataError: a table is damaged.
        """
        state = self.store.state(PICTURES)
        stamps = state.stamp + self.store.state(COORDINATES).stamp
        if self._listed is None or self._listed[0] != stamps:
            from limner.scale.catalogue import Catalogue

            self._listed = stamps, Catalogue.read(self.store, self._cache, state)
        return self._listed[1]

    def picture(self, picture_id: str) -> Picture:
        """One picture by its full id.

        Raises:
            DataError: the id is unknown, or the picture no longer has a file.
        """
        return self.pictures([picture_id])[0]

    def pictures(self, ids: Iterable[str]) -> list[Picture]:
        """Pictures by their full ids, in that order.

        Raises:
            DataError: an id is unknown, or a picture no longer has a file.
        """
        wanted = list(ids)
        if not wanted:
            return []
        rows = self.store.lookup(PICTURES, "id", wanted)
        found = {row["id"]: row for row in rows if row["paths"]}
        missing = [one for one in wanted if one not in found]
        if missing:
            raise DataError(
                f"{self.place}: no picture {missing[0]}; it was deleted, or belongs to another library"
            )
        from limner.scale.catalogue import picture_of

        return [picture_of(found[one]) for one in wanted]

    def file_of(self, picture_id: str) -> Path:
        """Path of a picture's first file, even if its name is not UTF-8 (`Picture.path` is escaped).

        Raises:
            DataError: the picture has no file.
        """
        rows = self.store.lookup(FILES, "sha256", [picture_id], ["path", "path_bytes", "status"])
        present = sorted((row["path"], row["path_bytes"]) for row in rows if row["status"] == "ok")
        if not present:
            raise DataError(f"{self.place}: no file of picture {picture_id} exists")
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
                f"{self.place}: {len(found)} different pictures match {text!r}; give more of the path"
            )
        near = get_close_matches(text.rpartition(os.sep)[2], names, n=3)
        hint = f"; near: {', '.join(near)}" if near else ""
        raise DataError(f"{self.place}: no picture {text!r}{hint}; give a path, file name or id")

    def words_shown(self, ids: Iterable[str]) -> dict[str, str]:
        """Text in pictures, by id; pictures without text are left out."""
        found = self.store.lookup(OCR, "id", ids, ["id", "text"]) if self.store.has(OCR) else []
        return {row["id"]: " ".join(row["text"].split()) for row in found if row["text"]}

    def coordinates(self, ids: Iterable[str]) -> dict[str, tuple[float, float]]:
        """Latitude and longitude in degrees, by id, of pictures whose files state where they were taken.

        They are not in `Picture`, so that no export can contain them.
        """
        from limner.scale.catalogue import coordinates_of

        return coordinates_of(self.store, ids)

    def skipped(self) -> list[Problem]:
        """Files that could not be used, by path."""
        found = sorted(self.store.rows(FILES, ["path", "reason"], "status = 'skipped'"))
        return [Problem(path=path, reason=reason) for path, reason in found]

    def vectors(self) -> dict[str, int]:
        """Number of vectors by vector space, including those of deleted pictures; cached."""
        states = [self.store.state(vectors_name(name)) for name in self.settings.spaces]
        key = checksum(repr([(state.name, state.stamp) for state in states]).encode())

        def write(file: BinaryIO) -> None:
            file.write(json.dumps(self._count_vectors()).encode())

        found: dict[str, int] = json.loads(self._cache.kept("counts", key, ".json", write).tobytes())
        return found

    def _count_vectors(self) -> dict[str, int]:
        names = {name: vectors_name(name) for name in self.settings.spaces}
        return {
            name: self.store.count(table) if self.store.has(table) else 0 for name, table in names.items()
        }

    def summary(self) -> TableSummary:
        """Counts of pictures, files, captions and vectors."""
        count = self.store.count
        pictures, files = len(self), count(FILES, "status = 'ok'")
        return TableSummary(
            pictures=pictures,
            files=files,
            skipped=count(FILES, "status = 'skipped'"),
            deleted=count(FILES, "status = 'deleted'"),
            duplicates=files - pictures,
            captioned=count(PICTURES, CAPTIONED),
            spaces=self.settings.spaces,
            vectors=self._count_vectors(),
            sources=self.settings.sources,
        )
