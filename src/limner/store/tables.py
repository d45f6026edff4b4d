"""Location of a library's tables: in a folder of this machine, or on object storage.

In a folder one process writes at a time and flushes its files to the disk. On object storage several write
at once: a commit of Lance is one conditional request, and Lance retries the second of two that conflict.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import timedelta
from pathlib import Path
from typing import Protocol

import pyarrow as pa
from typing_extensions import override

from limner.errors import DataError
from limner.files import storing, sync_folder, sync_tree
from limner.locations import Location, file_system, reaching, storage_options, without_secrets
from limner.store.integrity import Checksums, TableFiles, Unnoted

MEND = (
    "put back a copy of the library's folder, or move library.json and tables, and nothing else, out"
    " of the library's folder and index again: projects and pictures brought in the studio stay"
)
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
                f"{path}: a link to {path.readlink()}, and nothing in a library's folder is followed; put the"
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
        """A table as Lance takes it."""

    def names(self) -> list[str]:
        """Names of all tables."""

    def has(self, name: str) -> bool:
        """Whether a table exists."""

    def make(self, name: str, schema: pa.Schema) -> None:
        """Create an empty table; the first column is its key."""

    def drop(self, name: str) -> None:
        """Remove a table."""

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
        """A table as Lance takes it.

        Raises:
            DataError: it, or a folder of it, is a link.
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
    def files(self, name: str) -> Unnoted:
        return Unnoted()

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
                    " is kept; give the same command again"
                ) from None

    @override
    def reading(self) -> AbstractContextManager[None]:
        return reaching(self._at)

    @override
    def told(self, reason: str) -> str:
        return without_secrets(reason)
