"""Tables of a library, in a folder of this machine or on object storage, and the checksums of their files.

In a folder one process writes at a time and flushes its files to the disk. On object storage several write
at once: a commit of Lance is one conditional request, and Lance retries the second of two that conflict.

Lance never changes a file after writing. Checksums are recorded after every write and checked when a table is
first read. A file without one was written by an older version, or just before a kill; it is accepted, and the
next write records its checksum.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import timedelta
from pathlib import Path
from typing import Protocol

import pyarrow as pa
from typing_extensions import override

from limner.checksums import file_checksum, seal, unseal
from limner.errors import DataError
from limner.files import DRAFT_SUFFIX, storing, sync_folder, sync_tree, write_text
from limner.locations import Location, file_system, reaching, storage_options, without_secrets

NOTES = "limner.checksums"
"""Name of the list of checksums, in the folder of the table."""
_HINT = "'limner verify --repair' removes it, and the next 'limner index' creates it again"
_NEWEST = 2**64 - 1
_MANIFEST = re.compile(r"_versions/\d{20}\.manifest")
_CHANGING = frozenset(("latest_version_hint.json", NOTES))


class Checksums(Protocol):
    """Checksums of the files of one table."""

    def note(self) -> None:
        """Record new files, and drop those that are gone."""

    def check(self, version: int | None) -> None:
        """Check that all files of a version are unchanged."""

    def states(self) -> Iterator[tuple[Path, bool | None]]:
        """All files, and whether each is unchanged; None without a checksum."""


class NoChecksums:
    """Does nothing, for object storage, which verifies its content itself."""

    def note(self) -> None:
        """Do nothing."""

    def check(self, version: int | None) -> None:
        """Do nothing."""

    def states(self) -> Iterator[tuple[Path, bool | None]]:
        """Yield nothing."""
        return iter(())


class TableFiles:
    """Checksums of the files of one table in a folder."""

    def __init__(self, tables: Path, name: str) -> None:
        """Open the checksums without reading them.

        Args:
            tables: folder of all tables.
            name: name of the table.
        """
        self._folder = tables / f"{name}.lance"
        self._notes = self._folder / NOTES
        self._sound: set[str] = set()
        self._seen: tuple[int, ...] = ()

    def note(self) -> None:
        """Record new files, and drop those that are gone."""
        known = self._noted()
        now = {name: known.get(name) or file_checksum(self._folder / name) for name in self._names()}
        self._sound |= now.keys() - known.keys()  # just written
        if not now:  # the table was dropped
            self._sound.clear()
        elif now != known:
            write_text(self._notes, seal(json.dumps({"files": now}, indent=0)))

    def check(self, version: int | None) -> None:
        """Check all files of a version against their checksums; each is read once.

        Args:
            version: version of the table to be read; None skips the data files, for a table that is only
                opened.
        Raises:
            DataError: a file is damaged.
        """
        seen = (version or 0, self._notes.stat().st_mtime_ns if self._notes.exists() else 0)
        if seen == self._seen:
            return
        for name, due in self._used(version).items():
            self._check(name, due)
        self._seen = seen

    def newest(self) -> tuple[int, str] | None:
        """Number of the newest version, and the checksum of its manifest, which names all its files.

        None if there is no manifest, or if it has another name, as the first versions of Lance gave it.

        Raises:
            DataError: the manifest is damaged.
        """
        names = sorted(path.name for path in (self._folder / "_versions").glob("*.manifest"))
        newest = f"_versions/{names[0]}" if names else ""  # numbered in descending order
        if not _MANIFEST.fullmatch(newest):
            return None
        try:
            found = file_checksum(self._folder / newest)
        except FileNotFoundError:  # another process has written a newer one and removed this one
            return self.newest()
        if self._noted().get(newest, found) != found:
            raise self._damage(newest)
        return _NEWEST - int(Path(newest).stem), found

    def states(self) -> Iterator[tuple[Path, bool | None]]:
        """All files, and whether each is unchanged; None without a checksum.

        A recorded file that is missing is included: as damaged if the current version needs it, else with
        None, since it may have been removed just before a kill.

        Raises:
            DataError: the checksums themselves are damaged.
        """
        known, names = self._noted(), set(self._names())
        manifests = sorted(name for name in {*known, *names} if _MANIFEST.fullmatch(name))
        newest = manifests[0] if manifests else ""  # numbered in descending order
        needed = {newest}
        if newest in names:
            needed |= self._used(_NEWEST - int(Path(newest).stem)).keys()
        for name in sorted({*known, *names}):
            if name in names:
                yield self._folder / name, (not self._damaged(name, known[name])) if name in known else None
            else:
                told = name == newest or (name in needed and name.startswith("data/"))
                yield self._folder / name, False if told else None

    def _used(self, version: int | None) -> dict[str, str]:
        """Recorded files, without data files that only other versions use."""
        manifest = b""
        if version is not None:
            try:
                manifest = (self._folder / "_versions" / f"{_NEWEST - version}.manifest").read_bytes()
            except OSError:
                return self._noted()
        return {
            name: due
            for name, due in self._noted().items()
            if not name.startswith("data/") or name.removeprefix("data/").encode() in manifest
        }

    def _check(self, name: str, due: str) -> None:
        if name not in self._sound:
            if self._damaged(name, due):
                raise self._damage(name)
            self._sound.add(name)

    def _damage(self, name: str) -> DataError:
        return DataError(
            f"{self._folder / name}: damaged (its checksum differs from its content);"
            f" 'limner verify {self._folder.parent.parent}' says what to do"
        )

    def _damaged(self, name: str, due: str) -> bool:
        try:
            return file_checksum(self._folder / name) != due
        except FileNotFoundError:  # of an old version, removed in the meantime
            return False

    def _names(self) -> list[str]:
        cut = len(str(self._folder)) + 1
        files = (
            f"{place}{os.sep}{name}"[cut:].replace(os.sep, "/")
            for place, _, names in os.walk(self._folder)
            for name in names
            if name not in _CHANGING and not name.endswith(DRAFT_SUFFIX)
        )
        return sorted(files)

    def _noted(self) -> dict[str, str]:
        """File → checksum.

        Raises:
            DataError: the list of checksums is damaged.
        """
        try:
            files = json.loads(unseal(self._notes.read_bytes(), self._notes, _HINT))["files"]
            return {str(name): str(due) for name, due in files.items()}
        except FileNotFoundError:
            return {}
        except DataError:
            raise
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise DataError(f"{self._notes}: damaged ({str(error)[:60]}); {_HINT}") from error


RENEW = (
    "move library.json and tables, and nothing else, out of the library's folder and index again: projects"
    " and pictures brought in the studio stay"
)
"""Advice on the tables of an earlier format in a folder."""
MEND = f"put back a copy of the library's folder, or {RENEW}"
"""Advice on damaged tables or settings in a folder."""
_KEPT_HOURS = 6
_PARTS = ("_versions", "data", "_deletions", "_indices", "_transactions")
"""Folders that Lance creates in a table's folder."""
# hides Lance's warnings of retried requests
os.environ.setdefault("LANCE_LOG", "error")
_KEY = {b"lance-schema:unenforced-primary-key": b"true"}
"""Metadata of a key's column with which Lance prevents concurrent inserts of rows with the same key."""


def unlinked(*paths: Path) -> None:
    """Check that no path in the folder of a library is a link.

    Raises:
        DataError: one of the paths is a link.
    """
    for path in paths:
        if path.is_symlink():
            raise DataError(
                f"{path}: a link to {path.readlink()}; links in a library's folder are not followed; put the"
                " folder or file itself in its place"
            )


class BusyError(DataError):
    """Other processes write continuously to a table on object storage."""


class Tables(Protocol):
    """Location of tables.

    Attributes:
        shared: whether several processes may write at once.
        kept: time for which old versions are kept.
        options: options of Lance.
        mend: advice on a damaged table.
    """

    shared: bool
    kept: timedelta
    options: dict[str, str] | None
    mend: str

    def __truediv__(self, name: str) -> Path | Location:
        """Location of a table, for messages."""

    def address(self, name: str) -> str | Path:
        """Path or URL of a table for Lance."""

    def names(self) -> list[str]:
        """Names of all tables."""

    def has(self, name: str) -> bool:
        """Whether a table exists."""

    def make(self, name: str, schema: pa.Schema) -> None:
        """Create an empty table; the first column is its key."""

    def drop(self, name: str) -> None:
        """Remove a table."""

    def newest(self, name: str) -> tuple[int, str] | None:
        """Number of the newest version of a table, and what names its content; None if only Lance knows."""

    def files(self, name: str) -> Checksums:
        """Checksums of the files of a table."""

    def writing(self, name: str, wanted: int | None = None) -> AbstractContextManager[None]:
        """Flush what the block writes, and convert its errors to one line."""

    def reading(self) -> AbstractContextManager[None]:
        """Convert errors of the block about an unreachable store to one line."""

    def told(self, reason: str) -> str:
        """Convert a message of the database for users."""


def tables_at(place: Path | Location) -> Tables:
    """Tables below a folder or a URL."""
    return BucketTables(place) if isinstance(place, Location) else FolderTables(place)


class FolderTables(Tables):
    """Tables in a folder of this machine."""

    shared, kept, mend, options = False, timedelta(0), MEND, None

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._synced: set[tuple[int, int, int]] = set()
        self._files: dict[str, TableFiles] = {}

    @override
    def __truediv__(self, name: str) -> Path:
        return self._folder / name

    @override
    def address(self, name: str) -> Path:
        """Path of a table for Lance.

        Raises:
            DataError: the table or a parent folder is a link.
        """
        table = self._folder / f"{name}.lance"
        unlinked(self._folder, table, *(table / part for part in _PARTS))
        return table

    @override
    def names(self) -> list[str]:
        """Names of all tables, without those whose creation was interrupted."""
        return sorted(table.stem for table in self._folder.glob("*.lance") if self.has(table.stem))

    @override
    def has(self, name: str) -> bool:
        return any((self.address(name) / "_versions").glob("*.manifest"))

    @override
    def make(self, name: str, schema: pa.Schema) -> None:
        import lance

        lance.write_dataset(schema.empty_table(), self.address(name))

    @override
    def drop(self, name: str) -> None:
        # its versions first, so that a kill leaves no table
        shutil.rmtree(self.address(name) / "_versions")
        shutil.rmtree(self.address(name))

    @override
    def newest(self, name: str) -> tuple[int, str] | None:
        self.address(name)  # no link on the way
        return self.files(name).newest()

    @override
    def files(self, name: str) -> TableFiles:
        return self._files.setdefault(name, TableFiles(self._folder, name))

    @override
    @contextmanager
    def writing(self, name: str, wanted: int | None = None) -> Iterator[None]:
        """Flush everything that the block writes to the disk, which the database does not guarantee."""
        with storing(self._folder / name, wanted):
            yield
            sync_tree(self.address(name), self._synced, last="_versions")
            sync_folder(self._folder)
            self.files(name).note()

    @override
    def reading(self) -> AbstractContextManager[None]:
        return nullcontext()

    @override
    def told(self, reason: str) -> str:
        return " ".join(reason.split())[:120]


class BucketTables(Tables):
    """Tables below a URL on object storage."""

    shared, kept, mend = True, timedelta(hours=_KEPT_HOURS), "index again into another library"

    def __init__(self, at: Location) -> None:
        self._at, self.options = at, storage_options(at)

    @override
    def __truediv__(self, name: str) -> Location:
        return self._at / name

    @override
    def address(self, name: str) -> str:
        return str(self._at / f"{name}.lance")

    @override
    def names(self) -> list[str]:
        from pyarrow.fs import FileSelector

        system = file_system(self._at)
        with reaching(self._at):
            listed = system.get_file_info(FileSelector(self._at.path, allow_not_found=True))
        names = (one.base_name.removesuffix(".lance") for one in listed if one.extension == "lance")
        return sorted(name for name in names if self.has(name))

    @override
    def has(self, name: str) -> bool:
        import lance

        with reaching(self._at):
            try:
                lance.dataset(self.address(name), storage_options=self.options)
            except ValueError as error:
                if "not found" in str(error):
                    return False
                raise
        return True

    @override
    def make(self, name: str, schema: pa.Schema) -> None:
        """Create a table; not with `write_dataset`, which could replace a table of another process."""
        from lance import LanceDataset, LanceOperation

        key = schema.field(0).with_nullable(False).with_metadata(_KEY)
        empty = LanceOperation.Overwrite(schema.set(0, key), [])
        try:
            LanceDataset.commit(
                self.address(name),
                empty,
                max_retries=0,
                storage_options=self.options,
                enable_v2_manifest_paths=True,
            )
        except OSError:
            if not self.has(name):
                raise

    @override
    def drop(self, name: str) -> None:
        system, path = file_system(self._at), (self._at / f"{name}.lance").path
        system.delete_dir(f"{path}/_versions")
        system.delete_dir(path)

    @override
    def newest(self, name: str) -> tuple[int, str] | None:
        return None

    @override
    def files(self, name: str) -> NoChecksums:
        return NoChecksums()

    @override
    @contextmanager
    def writing(self, name: str, wanted: int | None = None) -> Iterator[None]:
        with reaching(self._at):
            try:
                yield
            except (OSError, RuntimeError) as error:
                if "conflict" not in str(error) and "contention" not in str(error):
                    raise
                raise BusyError(
                    f"{self._at / name}: other processes write to it continuously; what was written before"
                    " is kept; run the same command again"
                ) from None

    @override
    def reading(self) -> AbstractContextManager[None]:
        return reaching(self._at)

    @override
    def told(self, reason: str) -> str:
        return without_secrets(reason)
