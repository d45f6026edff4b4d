"""Finds pictures: in folders, in image folders with metadata tables, and in lists of paths.

Walks disks and object storage in a fixed order, one file at a time, so that a million files need little
memory. Only tables are opened; files are judged by name and status, and `decode` finds out whether one is a
picture.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from limner import locations
from limner.errors import DataError, MissingError
from limner.files import as_on_disk, composed, display
from limner.locations import Location, Status, address, location, objects
from limner.pictures.decode import (
    CAPTIONS_NAMES,
    LIST_SUFFIXES,
    METADATA_NAMES,
    PICTURE_SUFFIXES,
    VIDEO_SUFFIXES,
    kind_of,
    stamp_of,
    suffix_of,
)
from limner.pictures.metadata import SIDECAR_SUFFIXES, Words

if TYPE_CHECKING:
    from limner.pictures.tables import TableRow

# Paths are bytes here, since a file name need not be UTF-8; pathlib cannot hold those.
# ruff: noqa: PTH100, PTH110, PTH112, PTH114, PTH116, PTH118, PTH120, PTH122, PTH208
_SEP = os.fsencode(os.sep)
_SUFFIXES = PICTURE_SUFFIXES | VIDEO_SUFFIXES
_HOLDERS = (b".lance", b".tar")
"""Extensions of tables that may contain the bytes of pictures."""
_OF_PROGRAMS = (
    b"@eaDir",
    b".@__thumb",
    b".thumbnails",
    b".thumbs",
    b"#recycle",
    b"@Recycle",
    b"$RECYCLE.BIN",
)
"""Folders of storage systems, with thumbnails of other pictures or with deleted files."""
_NUMBERED = re.compile(r"(.*)(\(\d+\))(\.[^.]+)", re.DOTALL)
EDITED = "edited|bearbeitet|bewerkt|edytowane|modifié|modificato|ha editado|editat|編集済み"
"""Endings of the names of edits, in the languages of Google Photos, as a regular expression."""
_EDITED = re.compile(rf"-(?:{EDITED}|effects|smile|mix)(?=\.\w+$)")
_EXPORT = ".supplemental-metadata"
_EXPORT_CUT = range(45, 48)
"""Number of characters to which Google's export truncates the name of a picture's JSON file."""


@dataclass(frozen=True)
class FoundFile:
    """A regular file with the extension of a picture.

    Attributes:
        path: absolute path, or a URL.
        size, mtime_ns: from its status.
        source: folder, list or table in which it was found.
        sidecars: files in the same folder that describe it.
        words: words from a metadata table.
        words_key: key that changes whenever a sidecar or the table's row does.
        stamp: see `limner.pictures.decode.stamp_of`.
        expected: SHA-256 that it had; a file that still has it, and has no sidecars, is not read further. ""
            if it is read in any case.
    """

    path: bytes
    size: int
    mtime_ns: int
    source: bytes
    sidecars: tuple[bytes, ...] = ()
    words: Words = Words()  # noqa: RUF009
    words_key: str = ""
    stamp: str = ""
    expected: str = ""


@dataclass(frozen=True)
class VideoFile(FoundFile):
    """A regular file with the extension of a video; its sidecars and table row describe its frames."""


@dataclass(frozen=True)
class UnusableFile:
    """A file that should be a picture but cannot be read.

    Attributes:
        path: absolute path.
        source: see `FoundFile`.
        reason: the reason.
        folder: whether it is a folder that could not be listed, so that its content is unknown.
    """

    path: bytes
    source: bytes
    reason: str
    folder: bool = False


@dataclass(frozen=True)
class OtherFile:
    """A file that is neither a picture nor a video, judging by its extension."""

    path: bytes


@dataclass(frozen=True)
class TablesRead:
    """The tables of one folder, once everything below it has been found.

    Attributes:
        paths: paths of the tables.
        used: number of pictures described by their lines.
        unused: number of lines that match no picture there.
    """

    paths: tuple[bytes, ...]
    used: int
    unused: int

    def __str__(self) -> str:
        """One line."""
        names = "line names a missing file" if self.unused == 1 else "lines name missing files"
        left = f"; {self.unused:,} {names}"
        pictures = f"{self.used:,} {'picture' if self.used == 1 else 'pictures'}"
        return f"{', '.join(map(display, self.paths))}: read for {pictures}{left if self.unused else ''}"


Entry = FoundFile | UnusableFile | OtherFile | TablesRead


def source_path(source: str | os.PathLike[str]) -> bytes:
    """Absolute form of a source, without resolving links.

    Raises:
        MissingError: it does not exist. Its pictures must not count as deleted, since a drive may be
            disconnected.
        DataError: it is a table that contains pictures, judging by its name.
    """
    place = location(source)
    if suffix_of(os.fsencode(source).rstrip(b"/")) in _HOLDERS:
        raise DataError(
            f"{os.fspath(source)}: pictures inside a table are not read; expected a folder, a picture, or a"
            " CSV, JSON lines or Parquet file with a column of paths; unpack them into a folder"
        )
    if place is not None:
        _look_at(place)
        return os.fsencode(str(place))
    # Not resolved: the user's own names of linked folders stay.
    path = os.fspath(as_on_disk(Path(os.path.abspath(os.fspath(source)))))
    if not os.path.exists(path):
        raise MissingError(
            f"{display(os.fsencode(path))}: no such folder or list; check the path or the drive"
        )
    return os.fsencode(path)


def _look_at(place: Location) -> bool:
    """Whether a URL is a folder.

    Raises:
        MissingError: it does not exist, or the object store does not respond.
    """
    try:
        return locations.is_folder(place)
    except FileNotFoundError:
        raise MissingError(f"{place}: no such folder or list; check the address") from None


def walk(sources: Sequence[bytes], *, follow_links: bool = False) -> Iterator[Entry]:
    """Yield every file of every source in a fixed order; a file under two sources comes twice.

    Args:
        sources: absolute paths or URLs of folders, lists (.csv, .jsonl, .parquet) or single pictures.
        follow_links: whether to enter linked folders too, each real folder once. Linked files are always
            read.
    """
    holder, beside = b"", SidecarIndex({})
    rows: tuple[dict[bytes, TableRow], ...] = ()
    for source in sources:
        place = address(source)
        folder = stat.S_ISDIR(os.stat(source).st_mode) if place is None else _look_at(place)
        if folder and place is not None:
            yield from _AddressWalk(source, follow_links).folder(source, ())
        elif folder:
            yield from _FolderWalk(source, follow_links).folder(source, _rows_above(source))
        elif suffix_of(source) in LIST_SUFFIXES:
            yield from _walk_list(source)
        else:
            if os.path.dirname(source) != holder:  # which is read once for all pictures named in it
                holder = os.path.dirname(source)
                beside = SidecarIndex(_names(holder))
                rows = () if place is not None else _rows_above(source)
            named = composed(source)
            row = next((scope[named] for scope in rows if named in scope), None)
            yield _look(source, source, beside, row)


def _rows_above(source: bytes) -> tuple[dict[bytes, TableRow], ...]:
    """Rows of the metadata tables in the folders above a source on a disk, innermost first.

    A table describes everything below its folder, even if only part of that is a source.
    """
    found: list[dict[bytes, TableRow]] = []
    folder, above = source, os.path.dirname(source)
    while folder != above:
        tables = [os.path.join(above, name) for name in _tables_of(_names(above))]
        rows, _ = _folder_rows(tables)  # their errors are reported when their own folder is a source
        found += [rows] if rows else []
        folder, above = above, os.path.dirname(above)
    return tuple(found)


def _tables_of(names: Iterable[bytes]) -> list[bytes]:
    """Tables that are read with their folder, the first of each kind; letter case does not matter."""
    there = {name.lower(): name for name in names}
    found = (next(filter(None, map(there.get, kind)), None) for kind in (METADATA_NAMES, CAPTIONS_NAMES))
    return [name for name in found if name is not None]


def _folder_rows(tables: Sequence[bytes]) -> tuple[dict[bytes, TableRow], list[tuple[bytes, str]]]:
    """Rows of the tables of a folder, see `limner.pictures.tables.folder_rows`; most folders have none."""
    if not tables:
        return {}, []
    from limner.pictures.tables import folder_rows

    return folder_rows(tables)


def is_list(source: bytes) -> bool:
    """Whether a source is a list of paths, judging by its name, even if it no longer exists."""
    return suffix_of(source) in LIST_SUFFIXES and not os.path.isdir(source)


def is_video(path: bytes) -> bool:
    """Whether a file is a video, judging by its name, even if it no longer exists."""
    return suffix_of(path) in VIDEO_SUFFIXES and not os.path.isdir(path)


def count_files(sources: Sequence[bytes], *, follow_links: bool = False) -> int:
    """Number of files with the extension of a picture or video, for a progress bar; cheap and approximate."""
    total = 0
    for source in sources:
        place = address(source)
        if place is not None and _look_at(place):
            total += sum(suffix_of(os.fsencode(one.location.name)) in _SUFFIXES for one in objects(place))
        elif os.path.isdir(source):
            walked = os.walk(source, followlinks=follow_links)
            total += sum(suffix_of(name) in _SUFFIXES for _, _, names in walked for name in names)
        elif suffix_of(source) in LIST_SUFFIXES:
            from limner.pictures.tables import list_rows

            total += sum(1 for _ in list_rows(source))
        else:
            total += 1
    return total


class _FolderWalk:
    """A walk through one source folder."""

    def __init__(self, source: bytes, follow_links: bool) -> None:
        self.source, self.follow_links = source, follow_links
        self.entered: set[tuple[int, int]] = set()

    def folder(self, folder: bytes, scopes: tuple[dict[bytes, TableRow], ...]) -> Iterator[Entry]:
        """Walk one folder: its files in order, then its subfolders; a library's own folder is skipped.

        Args:
            folder: its path.
            scopes: rows of the metadata tables of the folders above, innermost first; rows of pictures that
                are found are removed.
        """
        try:
            names = self.listing(folder)
        except OSError as error:
            reason = f"folder cannot be listed: {error.strerror or error}"
            yield UnusableFile(folder, self.source, reason, folder=True)
            return
        if b"library.sqlite" in names:
            return
        tables = tuple(self.join(folder, name) for name in _tables_of(names))
        rows, problems = _folder_rows(tables)
        yield from (UnusableFile(table, self.source, reason) for table, reason in problems)
        named = len(rows)
        inner = (rows, *scopes)
        below: list[bytes] = []
        beside = SidecarIndex(self.statuses_of(names))
        for name, is_folder in names.items():
            path = self.join(folder, name)
            wanted = not is_folder and _is_wanted(name)
            linked = not (is_folder or wanted) and self.is_linked(path)
            if is_folder and name in _OF_PROGRAMS:
                yield from self.of_programs(path)
            elif is_folder or (linked and self.follow_links):
                below += [path] * (not name.startswith(b"."))
            elif linked:
                yield UnusableFile(path, self.source, "linked folder, not entered; ask to follow links")
            elif wanted:
                named_as = composed(path)
                row = next((scope.pop(named_as) for scope in inner if named_as in scope), None)
                yield self.look(path, beside, row)
            else:
                yield OtherFile(path)
        for path in below:
            yield from self.folder(path, inner)
        for row in sorted(rows.values(), key=lambda one: one.path):
            there = (
                "has no picture's extension"
                if locations.is_there(os.fsdecode(row.path))
                else "does not exist"
            )
            yield UnusableFile(row.path, self.source, f"listed in {row.where} but {there}")
        if tables:
            yield TablesRead(tables, named - len(rows), len(rows))

    def listing(self, folder: bytes) -> dict[bytes, bool]:
        """Names in a folder, in order, and whether each is a folder; empty if the folder was entered before.

        Raises:
            OSError: it cannot be listed.
        """
        status = os.stat(folder)
        # A link to a parent folder would otherwise lead to an endless loop.
        if (status.st_dev, status.st_ino) in self.entered:
            return {}
        self.entered.add((status.st_dev, status.st_ino))
        with os.scandir(folder) as entries:
            return dict(sorted((entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries))

    def join(self, folder: bytes, name: bytes) -> bytes:
        """Path of a name in a folder."""
        return os.path.join(folder, name)

    def is_linked(self, path: bytes) -> bool:
        """Whether it is a link to a folder."""
        return os.path.islink(path) and os.path.isdir(path)

    def of_programs(self, folder: bytes) -> Iterator[Entry]:
        """Whether a folder belongs to a storage system and has none of the user's pictures."""
        for inside, _, names in os.walk(folder):
            yield from (OtherFile(os.path.join(inside, name)) for name in sorted(names))

    def statuses_of(self, names: Iterable[bytes]) -> dict[bytes, Status | None]:
        """Names in a folder, with their status if the listing includes it."""
        return dict.fromkeys(names)

    def look(self, path: bytes, beside: SidecarIndex, row: TableRow | None) -> Entry:
        """The file according to its status, with its description."""
        return _look(path, self.source, beside, row)


class _AddressWalk(_FolderWalk):
    """Walk through one folder of an object store, in which a listing includes the status of files."""

    def listing(self, folder: bytes) -> dict[bytes, bool]:
        """As on a disk, but a store that does not respond ends the walk, so that its pictures do not count as
        deleted.
        """
        place = address(folder)
        self.statuses = locations.listing(place) if place is not None else {}
        return {name: status is None for name, status in self.statuses.items()}

    def join(self, folder: bytes, name: bytes) -> bytes:
        """URL of a name in a folder."""
        return folder + b"/" + name

    def is_linked(self, path: bytes) -> bool:
        """Always False: object stores have no links."""
        return False

    def of_programs(self, folder: bytes) -> Iterator[Entry]:
        """As on a disk."""
        place = address(folder)
        found = objects(place) if place is not None else ()
        yield from (OtherFile(os.fsencode(str(one.location))) for one in found)

    def statuses_of(self, names: Iterable[bytes]) -> dict[bytes, Status | None]:
        """Names in a folder, with their status, which the listing includes."""
        return self.statuses


def _is_wanted(name: bytes) -> bool:
    """Whether a name has such an extension; ``._x.jpg`` is a file that macOS leaves on other file systems."""
    return suffix_of(name) in _SUFFIXES and not name.startswith(b"._")


def _walk_list(source: bytes) -> Iterator[Entry]:
    """Yield the files that a table names."""
    from limner.pictures.tables import joined_rows

    last, there, beside = b"", b"", SidecarIndex({})
    for row in joined_rows(source):
        if isinstance(row, str):
            yield UnusableFile(source, source, row)
            continue
        folder, name = os.path.split(row.path)
        if folder != last:
            last = there = folder
            if address(folder) is None:
                there = os.fsencode(as_on_disk(Path(os.fsdecode(folder))))
            beside = SidecarIndex(_names(there))
        yield _look(row.path if there == folder else os.path.join(there, name), source, beside, row)


def _names(folder: bytes) -> dict[bytes, Status | None]:
    """Names in a folder, with their status on object storage; empty if it cannot be listed."""
    try:
        place = address(folder)
        return dict.fromkeys(os.listdir(folder)) if place is None else locations.listing(place)
    except OSError:
        return {}


class SidecarIndex:
    """Content of a folder, and the sidecars of its pictures.

    Attributes:
        statuses: name → status from the listing of an object store, None on a disk.
    """

    def __init__(self, statuses: Mapping[bytes, Status | None]) -> None:
        self.statuses = statuses
        self._sidecars: dict[str, list[bytes]] = {}
        for name in statuses:
            if suffix_of(name) in SIDECAR_SUFFIXES:
                self._sidecars.setdefault(_compared(name), []).append(name)
        self._exports = any(name.endswith(".json") for name in self._sidecars)

    def sidecars(self, name: bytes) -> list[bytes]:
        """Names of the files that describe a picture, most trusted first, in any letter case and Unicode
        form.

        Args:
            name: file name such as ``a.jpg``, which is described by ``a.jpg.xmp`` (darktable), ``a.xmp``
                (Lightroom) and, in Google Photos exports, ``a.jpg.supplemental-metadata.json``.
        """
        if not self._sidecars:
            return []
        plain = _compared(name)
        bases = (plain, os.path.splitext(plain)[0])
        found = self._called(base + os.fsdecode(ending) for ending in SIDECAR_SUFFIXES for base in bases)
        if self._exports:
            found += next(filter(None, map(self._called, _exported(plain))), [])
        return list(dict.fromkeys(found))

    def _called(self, names: Iterable[str]) -> list[bytes]:
        return [one for name in names for one in self._sidecars.get(name, ())]


def _compared(name: bytes) -> str:
    """A name in the form used for comparison: composed, in lower case."""
    return os.fsdecode(composed(name)).lower()


def _exported(name: str) -> Iterator[list[str]]:
    """Names that Google's export may give the JSON file of a picture; the first that are there count.

    ``a.jpg`` has ``a.jpg.supplemental-metadata.json``, cut anywhere; long names are cut as well. The number
    of ``a(1).jpg`` comes last, unless it had it before, and ``a-edited.jpg``, in any language, has none of
    its own.
    """
    numbered = _NUMBERED.fullmatch(name)
    parts = [(numbered[1] + numbered[3], numbered[2])] if numbered else []
    for own, number in (*parts, (name, "")):
        for one in dict.fromkeys((own, _EDITED.sub("", own))):
            whole = one + _EXPORT
            cuts = [*range(len(whole), len(one) - 1, -1), *(cut for cut in _EXPORT_CUT if cut < len(one))]
            yield [whole[:cut] + number + ".json" for cut in cuts]


def _as_written(path: bytes, beside: SidecarIndex) -> bytes:
    """Path of an existing file in the form on the disk, where é may be two characters although a table has
    one.
    """
    folder, between, name = path.rpartition(_SEP)
    if name.isascii() or name in beside.statuses:
        return path
    same = (one for one in beside.statuses if not one.isascii() and composed(one) == composed(name))
    return folder + between + next(same, name)


def _look(path: bytes, source: bytes, beside: SidecarIndex, row: TableRow | None) -> Entry:
    """Build the entry of a file from its status.

    Args:
        path: path of the file.
        source: see `FoundFile`.
        beside: content of its folder.
        row: table row that names it.
    """
    listed = f"listed in {row.where} but " if row is not None else ""
    place = address(path)
    if place is not None:
        status = beside.statuses.get(os.fsencode(place.name))
        if status is None:
            return UnusableFile(path, source, f"{listed}no such object")
        size, mtime_ns = status
        stamp = hashlib.blake2b(repr(status).encode(), digest_size=8).hexdigest()
        if is_video(path):
            return UnusableFile(
                path, source, "a video on object storage; copy it to a disk to index its frames"
            )
    else:
        path = _as_written(path, beside)
        try:
            found = os.stat(path)
        except OSError as error:
            broken = os.path.islink(path) and isinstance(error, FileNotFoundError)
            reason = "broken link" if broken else f"{listed}cannot be reached: {error.strerror or error}"
            return UnusableFile(path, source, reason)
        if stat.S_ISDIR(found.st_mode):
            return UnusableFile(path, source, "a folder with the name of a picture")
        if not stat.S_ISREG(found.st_mode):
            return UnusableFile(path, source, f"not a regular file but a {kind_of(found.st_mode)}")
        size, mtime_ns, stamp = found.st_size, found.st_mtime_ns, stamp_of(found)
    folder, _, name = path.rpartition(b"/" if place is not None else _SEP)
    between = b"/" if place is not None else _SEP
    described = {one: folder + between + one for one in beside.sidecars(name)}
    sidecars, words_key = tuple(described.values()), ""
    if sidecars or row:
        key = hashlib.sha256(row.key if row else b"")
        for one, side_path in described.items():
            with suppress(OSError):
                side = beside.statuses[one] or locations.status(side_path)
                key.update(side_path + f"\0{side.size} {side.mtime_ns}\0".encode())
        words_key = key.hexdigest()[:16]
    words = row.words if row else Words()
    kind = VideoFile if suffix_of(name) in VIDEO_SUFFIXES else FoundFile
    return kind(path, size, mtime_ns, source, sidecars, words, words_key, stamp)
