"""Location of a library, with everything besides its tables: settings, small texts, caches, the lock.

A library in a folder keeps all of it there. One on object storage keeps its settings in a table, merged key
by key, so that writers who change different things at once do not undo each other; what belongs to one
machine, as caches and projects, lies in a folder of the user's.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
from pydantic import ValidationError
from typing_extensions import override

from limner.checksums import seal, unseal
from limner.errors import DataError, MissingError
from limner.files import data_folder, locked, make_folder, strangers, write_text
from limner.locations import Location, file_system, location, objects, reaching
from limner.store.store import (
    FILES,
    FORMAT,
    PICTURES,
    SETTINGS_FILE,
    Settings,
    SpaceInfo,
    Store,
    read_settings,
)
from limner.store.tables import unlinked

SETTINGS = "settings"
SETTINGS_SCHEMA = pa.schema([("id", pa.string()), ("key", pa.string()), ("value", pa.string())])
"""Columns of `settings`: a hash of the key, the key, and the value as JSON."""
_OWN = frozenset((SETTINGS_FILE, "calibration.json", "tables", "cache", "lock"))  # an older version's fit too
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
    store: Store

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

    def read(self) -> Settings:
        """Read the settings; errors as `limner.store.store.read_settings`."""

    def write(self, before: Settings | None, after: Settings) -> None:
        """Write the settings atomically.

        Args:
            before: previous settings; None for a new library.
            after: new settings.
        """

    def version(self) -> int:
        """Number that changes with the settings."""

    def changed_s(self) -> float:
        """Time of the last change of the library, seconds since 1970."""

    def text(self, name: str) -> bytes | None:
        """Read a small text that is stored with the library; None if there is none.

        Raises:
            DataError: the text is damaged.
        """

    def keep(self, name: str, text: str) -> None:
        """Store a JSON object under a name, replacing the previous one."""

    def where(self, name: str) -> str:
        """Location of such a text, for messages."""

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
        self.folder, self.store = folder, Store(folder / "tables")
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
    def read(self) -> Settings:
        return read_settings(self.folder)

    @override
    def write(self, before: Settings | None, after: Settings) -> None:
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
        self.store = Store(at / "tables")
        digest = hashlib.sha256(str(at).encode()).hexdigest()[:16]
        self.folder = data_folder() / "libraries" / f"{at.name}-{digest}"
        self._made = ""

    @override
    def __str__(self) -> str:
        return str(self._at)

    @property
    @override
    def cache(self) -> Path:
        # versions of tables begin again in another library at the same URL
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
                f"{self._at}: not a library but holds {others[0]!r}; name an address below which nothing is"
            )
        self.store.ensure(SETTINGS, SETTINGS_SCHEMA)

    @override
    def read(self) -> Settings:
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
        if found > FORMAT:
            raise DataError(
                f"{self._at}: library format {found}; this limner reads {FORMAT}; install a newer limner"
            )
        return settings

    @override
    def write(self, before: Settings | None, after: Settings) -> None:
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


def _parts(settings: Settings) -> dict[str, Any]:
    """Split settings into keys and values that change independently; non-UTF-8 bytes are escaped."""
    held = settings.model_dump(mode="python")
    spaces, sources = held.pop("spaces"), held.pop("sources")
    parts = held | {_SPACE + name: space for name, space in spaces.items()}
    return parts | {_SOURCE + json.dumps(source): place for place, source in enumerate(sources)}


def _joined(parts: dict[str, Any]) -> Settings:
    """Join keys and values to settings; sources that several writers added appear once."""

    def below(prefix: str) -> Iterable[tuple[str, Any]]:
        return ((key.removeprefix(prefix), one) for key, one in parts.items() if key.startswith(prefix))

    sources = sorted((place, json.loads(source)) for source, place in below(_SOURCE))
    held = {key: one for key, one in parts.items() if not key.startswith((_SPACE, _SOURCE, _TEXT))}
    try:
        return Settings.model_validate(
            {**held, "spaces": dict(below(_SPACE)), "sources": tuple(source for _, source in sources)}
        )
    except ValidationError as error:
        raise ValueError(error.errors()[0]["msg"]) from error
