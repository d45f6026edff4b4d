"""Checksums of the files of a library's tables, which Lance never changes after writing.

They are recorded after every write and checked when a table is first read. A file without one was written by
an older version, or just before a kill; it is accepted, and the next write records its checksum.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from limner.checksums import file_checksum, seal, unseal
from limner.errors import DataError
from limner.files import DRAFT_SUFFIX, write_text

NOTES = "limner.checksums"
"""Name of the list of checksums, in the folder of the table."""
_HINT = "'limner verify --repair' removes it, and the next 'limner index' creates it again"
_NEWEST = 2**64 - 1
_MANIFEST = re.compile(r"_versions/\d{20}\.manifest")
_CHANGING = frozenset(("latest_version_hint.json", NOTES))


class Checksums(Protocol):
    """Checksums of the files of one table."""

    def note(self) -> None:
        """Note the files that are new since the last time, and forget those that are gone."""

    def check(self, version: int | None) -> None:
        """Make sure that all files of a version are as they were written."""

    def states(self) -> Iterator[tuple[Path, bool | None]]:
        """All files, and whether each is as it was written; None if it has no checksum."""


class Unnoted:
    """No checksums: object storage verifies its content itself."""

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
        """Note the files that are new since the last time, and forget those that are gone."""
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
            version: version of the table, which will be read; None leaves the data out, of a table that is
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

    def states(self) -> Iterator[tuple[Path, bool | None]]:
        """All files, and whether each is as it was written; None if it has no checksum.

        One that is noted and absent comes as well: as damaged where the table as it is now needs it, else
        with None, since it may have been cleared away just before a kill.

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
                raise DataError(
                    f"{self._folder / name}: damaged (its checksum differs from its content);"
                    f" 'limner verify {self._folder.parent.parent}' says what to do"
                )
            self._sound.add(name)

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
            DataError: the notes are damaged.
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
