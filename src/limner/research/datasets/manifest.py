"""Cache of facts about picture files, so that an unchanged file is read and decoded only once.

One SQLite file in the folder of the feature stores; it may be removed at any time, and is then made again.
"""

import hashlib
import os
import sqlite3
import time
import warnings
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from limner.checksums import checksum
from limner.errors import DataError, LimnerWarning
from limner.pictures.decode import decode
from limner.pictures.formats import PictureError

MANIFEST = "pictures.sqlite"
_PROBE_PX = 32
_WRITTEN_TOGETHER = 256  # the most that a kill makes the next run read again
_SETTLED_NS = 2_000_000_000  # the coarsest clock of a file system: a younger file may change unnoticed
_TABLE = """pictures (path BLOB PRIMARY KEY, size INTEGER, mtime_ns INTEGER, sha256 TEXT, checksum TEXT)
WITHOUT ROWID"""


class Looked(NamedTuple):
    """Facts about a picture file.

    Attributes:
        sha256: SHA-256 of its bytes, 64 hex digits.
        fault: what is wrong with it; "" when it decodes to the end.
    """

    sha256: str
    fault: str


def picture_fault(data: bytes) -> str:
    """Error of decoding a picture, or ""."""
    if not data:
        return "empty file"
    try:
        decode(data, _PROBE_PX)
    except PictureError as error:
        return " ".join(str(error).split())
    return ""


class PictureHashes:
    """Hashes of picture files by path, size and time of change; a context, at whose end all is written.

    Only files that decode are kept: a faulty one is looked at again each time, since a decoder that is
    installed later may read it.
    """

    def __init__(self, folder: Path | None) -> None:
        """Open the manifest of a folder; both are made once there is something to keep.

        Args:
            folder: None remembers nothing.
        Raises:
            DataError: the file is no manifest.
        """
        self._new: list[tuple[bytes, int, int, str]] = []
        self._file = None if folder is None else folder / MANIFEST
        self._store: sqlite3.Connection | None = None
        if self._file is not None and self._file.exists():
            self._open(self._file)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._write()
        finally:
            if self._store is not None:
                self._store.close()

    def look(self, path: Path) -> Looked:
        """Hash and fault of a file; it is read unless size and time are those of an earlier look.

        Raises:
            OSError: it cannot be read.
            DataError: the manifest cannot be read or written.
        """
        key, status = os.fsencode(path), path.stat()
        known = self._known(key)
        if known is not None and known[:2] == (status.st_size, status.st_mtime_ns):
            return Looked(known[2], "")
        with path.open("rb") as file:
            status = os.fstat(file.fileno())
            data = file.read()
        found = Looked(hashlib.sha256(data).hexdigest(), picture_fault(data))
        if self._file is not None and not found.fault and time.time_ns() - status.st_mtime_ns > _SETTLED_NS:
            self._new.append((key, len(data), status.st_mtime_ns, found.sha256))
            if len(self._new) >= _WRITTEN_TOGETHER:
                self._write()
        return found

    def _known(self, key: bytes) -> tuple[int, int, str] | None:
        """Size, time and hash as last written."""
        if self._store is None:
            return None
        try:
            row = self._store.execute("SELECT * FROM pictures WHERE path = ?", (key,)).fetchone()
        except (sqlite3.Error, UnicodeDecodeError) as error:
            raise self._refusal(error) from error
        if row is None:
            return None
        if row[4] != _sum(row[:4]):
            warnings.warn(
                f"{self._file}: the entry of {os.fsdecode(key)} is damaged; the picture is read again",
                LimnerWarning,
                stacklevel=2,
            )
            return None
        found: tuple[int, int, str] = row[1:4]
        return found

    def _write(self) -> None:
        """Put what is new into the file."""
        if self._file is None or not self._new:
            return
        store = self._store or self._open(self._file)
        try:
            with store:
                rows = [(*row, _sum(row)) for row in self._new]
                store.executemany("REPLACE INTO pictures VALUES (?, ?, ?, ?, ?)", rows)
        except (sqlite3.Error, UnicodeDecodeError) as error:
            raise self._refusal(error) from error
        self._new.clear()

    def _open(self, file: Path) -> sqlite3.Connection:
        """The file, created if missing."""
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            self._store = sqlite3.connect(file, timeout=60)
            self._store.execute(f"CREATE TABLE IF NOT EXISTS {_TABLE}")
        except (sqlite3.Error, UnicodeDecodeError, OSError) as error:
            raise self._refusal(error) from error
        return self._store

    def _refusal(self, error: Exception) -> DataError:
        return DataError(f"{self._file}: not a manifest that can be used ({error}); remove it, or free space")


def _sum(row: tuple[bytes, int, int, str]) -> str:
    return checksum(repr(row).encode())
