"""Known digests and files, stored compactly for a million of them.

Indexing looks up for every file whether it must be read again, in sorted arrays instead of
a dictionary of strings.
"""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cached_property
from shlex import quote
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pydantic import Field

from limner.config import Record
from limner.errors import counted
from limner.language import ENGLISH, MORE_LANGUAGES, language_name
from limner.records import Problem
from limner.scale.store import FILES, Approximation
from limner.store.index import MissingFolder, MovedFolder

if TYPE_CHECKING:
    from limner.scale.store import TableStore


Kinds = Sequence[tuple[str, str]]
DIGEST = "S64"
"""NumPy dtype of a SHA-256 in hexadecimal digits."""


def sorted_rows(store: TableStore, table: str, kinds: Kinds, where: str | None = None) -> NDArray[np.void]:
    """Read columns of a table, sorted by the first.

    Args:
        store: the tables.
        table: name of one, which may be absent.
        kinds: columns, with the NumPy dtype of each.
        where: SQL condition on rows.
    """
    kind, blocks = np.dtype(list(kinds)), []
    for batch in store.scan(table, [name for name, _ in kinds], where) if store.has(table) else ():
        block = np.empty(batch.num_rows, kind)
        for name, _ in kinds:
            block[name] = _values(batch.column(name), kind[name])
        blocks.append(block)
    found = np.concatenate([np.empty(0, kind), *blocks])
    return found[np.argsort(found[kinds[0][0]])]


def _values(column: pa.Array, kind: np.dtype[np.generic]) -> NDArray[np.generic]:
    """A column as an array; texts of at most that width are converted without Python objects."""
    if kind.kind == "S" and len(column):
        wide = pc.utf8_rpad(column.fill_null(""), kind.itemsize, "\0")  # NumPy drops zeros at the end
        if pc.all(pc.equal(pc.binary_length(wide), kind.itemsize)).as_py():
            return np.frombuffer(wide.buffers()[2], kind, len(column))
    values: NDArray[np.generic] = column.to_numpy(zero_copy_only=False)
    return values


def sorted_ids(store: TableStore, table: str, where: str | None = None) -> NDArray[np.bytes_]:
    """Picture ids in a table, sorted."""
    ids: NDArray[np.bytes_] = sorted_rows(store, table, [("id", DIGEST)], where)["id"]
    return ids


def place(digests: NDArray[np.bytes_], digest: str) -> int:
    """Position of a digest in a sorted array, or −1."""
    raw = digest.encode()
    found = int(digests.searchsorted(raw))
    return found if found < len(digests) and digests[found] == raw else -1


def among(digests: NDArray[np.bytes_], some: NDArray[np.bytes_]) -> NDArray[np.bool_]:
    """Mask of the digests that occur in a sorted array."""
    if not len(digests):
        return np.zeros(len(some), dtype=bool)
    found: NDArray[np.bool_] = digests[np.minimum(digests.searchsorted(some), len(digests) - 1)] == some
    return found


class DigestSet:
    """A set of SHA-256 digests: a sorted array, and those added later."""

    def __init__(self, digests: NDArray[np.bytes_]) -> None:
        self._base, self._added = digests, set[str]()

    def __contains__(self, digest: object) -> bool:
        return digest in self._added or (isinstance(digest, str) and place(self._base, digest) >= 0)

    def update(self, digests: Iterable[str]) -> None:
        """Add digests that are not yet in the set."""
        self._added.update(digests)


class KnownFile(NamedTuple):
    """A file as recorded by the last run.

    Attributes:
        size, mtime_ns, sha256, status, words_key, stamp: as the columns of `files`.
        complete: whether its picture had a vector in every space of the run when the run began.
    """

    size: int
    mtime_ns: int
    sha256: str
    status: str
    words_key: str
    stamp: str
    complete: bool


_FILE_KINDS = (
    ("key", "S32"),
    ("size", "i8"),
    ("mtime_ns", "i8"),
    ("sha256", DIGEST),
    ("status", "S7"),
    ("words_key", "S16"),
    ("stamp", "S16"),
)


class KnownFiles:
    """The `files` table as an array, with a mark for each file found in this run.

    Attributes:
        arrivals: known content → new files with that content found in this run.
    """

    def __init__(self, store: TableStore, held: Iterable[NDArray[np.bytes_]] = ()) -> None:
        """Read the table.

        Args:
            store: the tables.
            held: sorted ids of the pictures with a vector, for each space.
        """
        self._rows = sorted_rows(store, FILES, _FILE_KINDS)
        self._keys = np.ascontiguousarray(self._rows["key"])  # a type that searches do not copy
        self._met = np.zeros(len(self._rows), dtype=bool)
        self._complete = np.ones(len(self._rows), dtype=bool)
        self.arrivals: Counter[str] = Counter()
        for ids in held:
            self._complete &= among(ids, self._rows["sha256"])

    def meet(self, keys: Sequence[str]) -> list[KnownFile | None]:
        """Look up files and mark them as found; None for a new one."""
        wanted = np.array(keys, dtype=self._keys.dtype)
        known = among(self._keys, wanted)
        rows = self._keys.searchsorted(wanted[known])
        self._met[rows] = True
        there = iter(zip(self._rows[rows].tolist(), self._complete[rows].tolist(), strict=True))
        return [self._file(*next(there)) if one else None for one in known]

    def take_back(self, key: str) -> None:
        """Mark a known file as not found."""
        self._met[place(self._keys, key)] = False

    @staticmethod
    def _file(row: tuple[Any, ...], complete: bool) -> KnownFile:
        _, size, mtime_ns, *texts = row
        return KnownFile._make((size, mtime_ns, *(text.decode() for text in texts), complete))

    def holds(self, key: str) -> bool:
        """Whether a file was usable when it was last read."""
        row = place(self._keys, key)
        return row >= 0 and bool(self._rows["status"][row] == b"ok")

    def unmet(self) -> list[str]:
        """Keys of the files not found and not yet marked as deleted."""
        left = self._rows[~self._met & (self._rows["status"] != b"deleted")]
        return [key.decode() for key in left["key"]]

    def unmet_key(self, key: str) -> bool:
        """Whether a file is known but was not found in this run."""
        row = place(self._keys, key)
        return row >= 0 and not self._met[row] and self._rows["status"][row] != b"deleted"

    @cached_property
    def _digests(self) -> NDArray[np.bytes_]:
        """Content hashes of known files, sorted."""
        return np.unique(self._rows["sha256"][self._rows["status"] == b"ok"])

    def arrive(self, rows: Iterable[dict[str, Any]]) -> None:
        """Record which of the files that were read are new and have the content of a known file."""
        if len(self._rows):
            for row in rows:
                if place(self._digests, row["sha256"]) >= 0:
                    known = place(self._keys, row["key"])
                    self.arrivals[row["sha256"]] += known < 0 or self._rows["status"][known] == b"deleted"

    def elsewhere(self, *, met: bool) -> list[str]:
        """Contents of missing files that a new file has.

        Args:
            met: whether to include contents of which a known file was found too.
        """
        present = self._rows["status"] == b"ok"
        held = {digest.encode() for digest, count in self.arrivals.items() if count}
        others = np.array(sorted(held), dtype=DIGEST)
        if met:
            others = np.union1d(others, self._rows["sha256"][present & self._met])
        left = self._rows["sha256"][present & ~self._met]
        return [digest.decode() for digest in np.unique(left[among(others, left)])]


def forgetting(path: str, library: str) -> str:
    """Command that treats the missing pictures of a folder as deleted."""
    return f"limner index {quote(path)} --library {quote(library)} --forget"


TREATED = ("new", "changed", "unchanged", "completed", "moved", "unusable")
"""Outcomes of a file, of which each file has one."""


_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
"""Signs that would break a line, or steer a terminal, in the name of a file."""


class TableReport(Record):
    """Result of one run of indexing.

    Attributes:
        found: files with the extension of a picture, including links and unreadable files; of a video its
            frames. The sum of those that are new, changed, unchanged, completed, moved and unusable; after
            Ctrl-C only those that were processed.
        videos: number of videos with frames in the library.
        other_files: number of files that are neither pictures nor videos, by extension.
        new: read for the first time, or back after having been deleted.
        changed: read again because the file, its sidecars or its row of a table changed.
        unchanged: not read, or read and found unchanged.
        rehashed: number of these that were read to compare their content: they were copied, renamed in place,
            given other rights, or all files were to be verified.
        completed: unchanged files read for a vector that was missing.
        moved: number of files recognised by their content and missing at their old path.
        moved_folders: old and new folders, those with the most files first.
        unusable: number of the found files that are not usable, whether found now or by an earlier run.
        deleted: marked as deleted.
        missing: folders of which so much is missing that a drive may be disconnected; their pictures are not
            marked as deleted.
        tables: notes on tables in the folders, a line each.
        skipped: not usable, in the folders and lists of this run.
        warnings: notes on pictures that were read, such as damaged metadata, met in this run.
        exact_duplicates: present files beyond the first of each picture, in the whole library.
        near_groups: near-duplicate groups of two or more pictures, in the whole library.
        near_pictures: pictures in these groups.
        pictures: different pictures in the whole library.
        encoded: number of encoded pictures by image encoder.
        captions_encoded: pictures whose captions were encoded.
        languages: estimated share of the library's captions by language, largest first.
        searches: vector space → description of its search index; empty if all pictures of the library are
            compared.
        unread: pictures whose captions are all in languages that no encoder of the library reads, with the
            language as the reason; in the whole library.
        incomplete: number of existing pictures without a vector, by vector space.
        seconds: wall time.
        files_per_s, pictures_per_s: files processed and pictures read, per second of the whole run.
        interrupted: True after Ctrl-C; the same command continues.
    """

    found: int = 0
    videos: int = 0
    other_files: int = 0
    new: int = 0
    changed: int = 0
    unchanged: int = 0
    rehashed: int = 0
    completed: int = 0
    moved: int = 0
    moved_folders: tuple[MovedFolder, ...] = ()
    unusable: int = 0
    deleted: int = 0
    missing: tuple[MissingFolder, ...] = ()
    tables: tuple[str, ...] = ()
    skipped: tuple[Problem, ...] = ()
    warnings: tuple[Problem, ...] = ()
    exact_duplicates: int = 0
    near_groups: int = 0
    near_pictures: int = 0
    pictures: int = 0
    encoded: dict[str, int] = Field(default={})
    captions_encoded: int = 0
    languages: dict[str, float] = Field(default={})
    searches: dict[str, Approximation] = Field(default={})
    unread: tuple[Problem, ...] = ()
    incomplete: dict[str, int] = Field(default={})
    seconds: float = 0.0
    files_per_s: float = 0.0
    pictures_per_s: float = 0.0
    interrupted: bool = False

    def lines(self, listed: int = 20) -> list[str]:
        """The report in words.

        Args:
            listed: maximum number of listed files and warnings.
        """
        rare = (("completed", self.completed), ("moved", self.moved))
        others = "".join(f", {count:,} {what}" for what, count in rare if count)
        lines = [
            f"pictures in the library: {self.pictures:,}",
            f"files: {self.found:,} ({self.new:,} new, {self.changed:,} changed,"
            f" {self.unchanged:,} unchanged{others}, {self.unusable:,} skipped), {self.deleted:,} deleted",
            f"{counted(self.exact_duplicates, 'exact duplicate')}; {counted(self.near_pictures, 'picture')}"
            f" in {counted(self.near_groups, 'near-duplicate group')}",
            f"{counted(self.other_files, 'file that is not a picture', 'files that are not pictures')};"
            f" {self.seconds:.1f} s, {self.pictures_per_s:.1f} pictures/s",
        ]
        lines += [str(one) for one in self.missing]
        lines += [
            f"moved: {counted(one.files, 'file')} from {one.before} to {one.now}, recognised by their content"
            for one in self.moved_folders[:listed]
        ]
        if len(self.moved_folders) > listed:
            lines.append(f"moved: and between {counted(len(self.moved_folders) - listed, 'more folder')}")
        if self.completed:
            files = counted(self.completed, "file")
            lines.append(f"completed: {files} read again for vectors or words that were missing")
        if self.rehashed:
            lines.append(f"content compared of {counted(self.rehashed, 'file')}: the same as before")
        if self.videos:
            lines.append(f"frames of {counted(self.videos, 'video')} are among the pictures")
        lines += self.tables[:listed]
        if len(self.tables) > listed:
            lines.append(f"and {len(self.tables) - listed:,} more tables of captions in the folders")
        lines += [
            f"{space}: no vector yet for {counted(count, 'picture')}"
            for space, count in self.incomplete.items()
            if count
        ]
        lines += [f"search index of {space}: {one}" for space, one in self.searches.items()]
        if self.languages and set(self.languages) != {ENGLISH}:
            shares = ", ".join(
                f"{language_name(code)} {share:.0%}"
                for code, share in self.languages.items()
                if share >= 0.01
            )
            lines.append(f"languages of the captions: {shares}")
        if self.unread:
            lines.append(
                f"no installed encoder reads the captions of {counted(len(self.unread), 'picture')},"
                f" which can be found only by their pixels; {MORE_LANGUAGES}"
            )
        kinds = (("skipped", self.skipped), ("read with a note", self.warnings), ("not read", self.unread))
        for title, problems in kinds:
            lines += [f"{title}: {problem.path}: {problem.reason}" for problem in problems[:listed]]
            if len(problems) > listed:
                lines.append(f"{title}: and {len(problems) - listed:,} more")
        return [_CONTROL.sub(lambda found: repr(found[0])[1:-1], line) for line in lines]

    def __str__(self) -> str:
        """All of `lines`."""
        return "\n".join(self.lines())

    def _repr_html_(self) -> str:
        """HTML for a notebook."""
        return f"<pre>{html.escape(str(self))}</pre>"
