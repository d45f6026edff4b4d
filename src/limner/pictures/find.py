"""What picture files there are: folders, image folders with metadata tables, and lists of paths.

Walks without opening anything but tables, in a fixed order, one file at a time, so that a million files
stream through. It decides by file status alone; whether a file really is a picture `decode` finds out.
"""

from __future__ import annotations

import csv
import hashlib
import json
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import reduce
from itertools import chain, groupby
from pathlib import Path

from limner.errors import DataError, MissingError
from limner.pictures.decode import display, kind_of, stamp_of
from limner.pictures.formats import PICTURE_SUFFIXES, VIDEO_SUFFIXES
from limner.pictures.metadata import SIDECAR_SUFFIXES, Words, merge, words_of_row

# Paths are bytes here, since a file name need not be UTF-8; pathlib cannot hold those.
# ruff: noqa: PTH100, PTH110, PTH112, PTH113, PTH114, PTH116, PTH118, PTH120, PTH122, PTH208
_SEP = os.fsencode(os.sep)
_SUFFIXES = PICTURE_SUFFIXES | VIDEO_SUFFIXES
METADATA_NAMES = (b"metadata.jsonl", b"metadata.csv", b"metadata.parquet")
CAPTIONS_NAMES = (b"captions.jsonl", b"captions.csv")
TABLE_NAMES = METADATA_NAMES + CAPTIONS_NAMES
"""Tables that are read with the folder they lie in: of each kind the first that is there."""
LIST_SUFFIXES = frozenset((b".jsonl", b".csv", b".parquet"))
PATH_KEYS = ("file_name", "path", "file_path", "filename", "file", "image")


@dataclass(frozen=True)
class Row:
    """One line of a table.

    Attributes:
        path: absolute path of the picture.
        words: what the line says about it.
        key: hash of the line's content.
        where: table and line, for messages.
    """

    path: bytes
    words: Words
    key: bytes
    where: str


def folder_rows(tables: Sequence[bytes]) -> tuple[dict[bytes, Row], list[tuple[bytes, str]]]:
    """Rows of a folder's tables by path, and what is wrong with which table.

    Several lines for one picture add up.
    """
    rows: dict[bytes, Row] = {}
    problems: list[tuple[bytes, str]] = []
    for table in tables:
        try:
            for row in list_rows(table):
                if isinstance(row, str):
                    problems.append((table, row))
                else:
                    rows[row.path] = _joined(rows[row.path], row) if row.path in rows else row
        except DataError as error:
            problems.append((table, str(error)))
    return rows, problems


def joined_rows(table: bytes) -> Iterator[Row | str]:
    """As `list_rows`, but consecutive lines for one picture (one caption each) are one row."""
    met: set[bytes] = set()
    for _, run in groupby(list_rows(table), key=lambda one: one.path if isinstance(one, Row) else None):
        lines = list(run)
        rows = [one for one in lines if isinstance(one, Row)]
        # of a long list its paths are not kept, but what tells them apart
        mark = hashlib.blake2b(rows[0].path, digest_size=8).digest() if rows else b""
        if not rows:
            yield from lines
        elif mark in met:
            again = f"{display(rows[0].path)} was listed before, further up; this line is not used"
            yield from (f"{one.where}: {again}" for one in rows)
        else:
            met.add(mark)
            yield reduce(_joined, rows)


def _joined(first: Row, second: Row) -> Row:
    captions = first.words.captions + second.words.captions
    words = replace(merge((first.words, second.words)), captions=captions)
    return replace(first, words=words, key=hashlib.sha256(first.key + second.key).digest())


def list_rows(table: bytes) -> Iterator[Row | str]:
    """Rows of a table that names pictures, or what is wrong with a line.

    Args:
        table: absolute path; paths in it are relative to its folder or absolute.
    Raises:
        DataError: not readable as what its suffix says, or without a column of paths.
    """
    name = display(table)
    folder = os.path.dirname(table)
    known: str | None = None
    for number, values in _values(table):
        where = f"{name} line {number}"
        if isinstance(values, str):
            yield f"{where}: {values}"
            continue
        if known not in values:
            lower = {key.strip().lower(): key for key in values}
            known = next((lower[key] for key in PATH_KEYS if key in lower), None)
        if known is None:
            raise DataError(f"{where}: no column of paths; expected one of {', '.join(PATH_KEYS)}")
        target = values[known]
        if not isinstance(target, str) or not target.strip():
            yield f"{where}: {known} is {target!r}; expected a path"
            continue
        try:
            content = json.dumps(values, sort_keys=True, default=str).encode("utf-8", "surrogatepass")
            path = os.path.normpath(os.path.join(folder, os.fsencode(target)))
        except (UnicodeEncodeError, RecursionError) as error:
            yield f"{where}: {known} is no path, or the line is nested too deeply ({error})"
            continue
        rest = {key: value for key, value in values.items() if key != known}
        yield Row(path, words_of_row(rest, "metadata"), hashlib.sha256(content).digest(), where)


def _values(table: bytes) -> Iterator[tuple[int, Mapping[str, object] | str]]:
    """Line number (1-based) and values of every line; a text in place of values says what is wrong."""
    path = Path(os.fsdecode(table))
    suffix = path.suffix.lower()
    try:
        if suffix == ".parquet":
            yield from _parquet(path)
        elif suffix == ".csv":
            with path.open(encoding="utf-8-sig", newline="") as stream:
                for number, values in enumerate(csv.DictReader(stream), start=2):
                    yield number, {str(key): value for key, value in values.items() if key is not None}
        else:
            with path.open(encoding="utf-8-sig") as stream:
                for number, line in enumerate(stream, start=1):
                    if line.strip():
                        yield number, _json_line(line)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"{display(table)}: cannot be read ({error}); mend or remove it") from error


def _json_line(line: str) -> Mapping[str, object] | str:
    try:
        values = json.loads(line)
    except (ValueError, RecursionError) as error:
        return f"not JSON ({error})"
    return values if isinstance(values, dict) else f"expected an object, found {type(values).__name__}"


def _parquet(path: Path) -> Iterator[tuple[int, Mapping[str, object]]]:
    import pyarrow
    from pyarrow import parquet

    try:
        with parquet.ParquetFile(path) as file:
            batches = (batch.to_pylist() for batch in file.iter_batches(4096))
            yield from enumerate(chain.from_iterable(batches), start=1)
    except pyarrow.ArrowException as error:
        raise DataError(f"{display(os.fsencode(path))}: not parquet ({error}); mend or remove it") from error


@dataclass(frozen=True)
class FoundFile:
    """A regular file with a picture's suffix.

    Attributes:
        path: absolute, as the system has it.
        size, mtime_ns: as its status states.
        source: the folder or list it was found by.
        sidecars: files beside it that describe it.
        words: from a metadata table.
        words_key: changes whenever a sidecar or the row of the table does.
        stamp: as `limner.pictures.decode.stamp_of`.
        expected: SHA-256 that it should still have; "" where it is read whatever it holds.
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
    """A regular file with a video's suffix; its sidecars and its row say what its frames show."""


@dataclass(frozen=True)
class UnusableFile:
    """Something that should be a picture but cannot be read.

    Attributes:
        path: absolute.
        source: as in `FoundFile`.
        reason: why.
        folder: True for a folder that could not be listed; what lies below it is unknown.
    """

    path: bytes
    source: bytes
    reason: str
    folder: bool = False


@dataclass(frozen=True)
class OtherFile:
    """A file that is neither picture nor video by its suffix."""

    path: bytes


@dataclass(frozen=True)
class TablesRead:
    """The tables of one folder, after everything below it was met.

    Attributes:
        paths: of the tables.
        used: pictures that a line of theirs describes.
        unused: lines that name no picture there.
    """

    paths: tuple[bytes, ...]
    used: int
    unused: int

    def __str__(self) -> str:
        """One line."""
        left = f"; {self.unused:,} {'line names' if self.unused == 1 else 'lines name'} no picture there"
        pictures = f"{self.used:,} {'picture' if self.used == 1 else 'pictures'}"
        return f"{', '.join(map(display, self.paths))}: read for {pictures}{left if self.unused else ''}"


Entry = FoundFile | UnusableFile | OtherFile | TablesRead


def source_path(source: str | os.PathLike[str]) -> bytes:
    """Absolute form of a source, links kept as they are.

    Raises:
        MissingError: it does not exist. Its pictures must not be taken for deleted: a drive may be away.
    """
    # Not resolved: the user's own names of linked folders stay.
    path = os.path.abspath(os.fspath(source))
    if not os.path.exists(path):
        raise MissingError(
            f"{display(os.fsencode(path))}: no such folder or list; check the path or the drive"
        )
    return os.fsencode(path)


def walk(sources: Sequence[bytes], *, follow_links: bool = False) -> Iterator[Entry]:
    """Every file of every source, in a fixed order; a file under two sources comes twice.

    Args:
        sources: absolute paths of folders, lists (.csv, .jsonl, .parquet) or single pictures.
        follow_links: enter linked folders too, each real folder once. Linked files are always read.
    """
    for source in sources:
        if stat.S_ISDIR(os.stat(source).st_mode):
            yield from _FolderWalk(source, follow_links).folder(source, ())
        elif _suffix(source) in LIST_SUFFIXES:
            yield from _walk_list(source)
        else:
            yield _look(source, source, _names(os.path.dirname(source)), None)


def is_list(source: bytes) -> bool:
    """Whether a source is a table that lists pictures, by its name; one that is gone counts as well."""
    return _suffix(source) in LIST_SUFFIXES and not os.path.isdir(source)


def is_video(path: bytes) -> bool:
    """Whether a file is a video, by its name; one that is gone counts as well."""
    return _suffix(path) in VIDEO_SUFFIXES and not os.path.isdir(path)


def count_files(sources: Sequence[bytes], *, follow_links: bool = False) -> int:
    """Number of files with a picture's or a video's suffix, for a progress bar; cheap and approximate."""
    total = 0
    for source in sources:
        if os.path.isdir(source):
            walked = os.walk(source, followlinks=follow_links)
            total += sum(_suffix(name) in _SUFFIXES for _, _, names in walked for name in names)
        elif _suffix(source) in LIST_SUFFIXES:
            total += sum(1 for _ in list_rows(source))
        else:
            total += 1
    return total


class _FolderWalk:
    """A walk through one source folder."""

    def __init__(self, source: bytes, follow_links: bool) -> None:
        self.source, self.follow_links = source, follow_links
        self.entered: set[tuple[int, int]] = set()

    def folder(self, folder: bytes, scopes: tuple[dict[bytes, Row], ...]) -> Iterator[Entry]:
        """One folder: its files in order, then the folders in it; a library's own folder is passed by.

        Args:
            folder: its path.
            scopes: rows of the metadata tables of the folders above, innermost first; rows that are met go.
        """
        try:
            status = os.stat(folder)
            # A link to a folder above would otherwise lead round for ever.
            if (status.st_dev, status.st_ino) in self.entered:
                return
            self.entered.add((status.st_dev, status.st_ino))
            with os.scandir(folder) as listing:
                entries = sorted((entry.name, entry.is_dir(follow_symlinks=False)) for entry in listing)
        except OSError as error:
            reason = f"folder cannot be listed: {error.strerror or error}"
            yield UnusableFile(folder, self.source, reason, folder=True)
            return
        names = {name for name, _ in entries}
        if {b"library.json", b"tables"} <= names:
            return
        kinds = (
            next((one for one in kind if one in names), b"") for kind in (METADATA_NAMES, CAPTIONS_NAMES)
        )
        tables = tuple(os.path.join(folder, name) for name in kinds if name)
        rows, problems = folder_rows(tables)
        yield from (UnusableFile(table, self.source, reason) for table, reason in problems)
        named = len(rows)
        inner = (rows, *scopes)
        below: list[bytes] = []
        for name, is_folder in entries:
            path = os.path.join(folder, name)
            linked = not is_folder and not _is_wanted(name) and os.path.islink(path) and os.path.isdir(path)
            if is_folder or (linked and self.follow_links):
                below += [path] * (not name.startswith(b"."))
            elif linked:
                yield UnusableFile(path, self.source, "linked folder, not entered; ask to follow links")
            elif _is_wanted(name):
                row = next((scope.pop(path) for scope in inner if path in scope), None)
                yield _look(path, self.source, names, row)
            else:
                yield OtherFile(path)
        for path in below:
            yield from self.folder(path, inner)
        for path, row in sorted(rows.items()):
            there = "is no picture by its name" if os.path.isfile(path) else "not there"
            yield UnusableFile(path, self.source, f"listed in {row.where} but {there}")
        if tables:
            yield TablesRead(tables, named - len(rows), len(rows))


def _is_wanted(name: bytes) -> bool:
    """Whether a name has such a suffix; ``._x.jpg`` is what a Mac leaves on foreign disks."""
    return _suffix(name) in _SUFFIXES and not name.startswith(b"._")


def _walk_list(source: bytes) -> Iterator[Entry]:
    """The files that a table names."""
    last, beside = b"", set[bytes]()
    for row in joined_rows(source):
        if isinstance(row, str):
            yield UnusableFile(source, source, row)
            continue
        folder = os.path.dirname(row.path)
        if folder != last:
            last, beside = folder, _names(folder)
        yield _look(row.path, source, beside, row)


def _names(folder: bytes) -> set[bytes]:
    """What lies in a folder, as far as it can be listed."""
    try:
        return set(os.listdir(folder))
    except OSError:
        return set()


def _look(path: bytes, source: bytes, beside: set[bytes], row: Row | None) -> Entry:
    """A file by its status, with what describes it."""
    try:
        status = os.stat(path)
    except OSError as error:
        broken = os.path.islink(path) and isinstance(error, FileNotFoundError)
        listed = f"listed in {row.where} but " if row is not None else ""
        reason = "broken link" if broken else f"{listed}cannot be reached: {error.strerror or error}"
        return UnusableFile(path, source, reason)
    if stat.S_ISDIR(status.st_mode):
        return UnusableFile(path, source, "a folder with the name of a picture")
    if not stat.S_ISREG(status.st_mode):
        return UnusableFile(path, source, f"not a regular file but a {kind_of(status.st_mode)}")
    folder, _, name = path.rpartition(_SEP)
    stem = name[: -len(_suffix(name))] if _suffix(name) else name
    candidates = [base + suffix for suffix in SIDECAR_SUFFIXES for base in (name, stem)]
    sidecars = tuple(os.path.join(folder, one) for one in dict.fromkeys(candidates) if one in beside)
    key = hashlib.sha256(row.key if row else b"")
    for one in sidecars:
        with suppress(OSError):
            side = os.stat(one)
            key.update(one + f"\0{side.st_size} {side.st_mtime_ns}\0".encode())
    words_key = key.hexdigest()[:16] if sidecars or row else ""
    words = row.words if row else Words()
    kind = VideoFile if _suffix(name) in VIDEO_SUFFIXES else FoundFile
    stamp = stamp_of(status)
    return kind(path, status.st_size, status.st_mtime_ns, source, sidecars, words, words_key, stamp)


def _suffix(name: bytes) -> bytes:
    """Suffix in lower case, with its dot."""
    return os.path.splitext(name)[1].lower()
