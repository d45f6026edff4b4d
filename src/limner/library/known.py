"""Which digests are known, and what is known of each file: compact, for a million of them.

Indexing asks for every file whether it must be read again; the answers come from sorted arrays, not from
a dictionary of strings. It reads the tables once and writes nothing.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from limner.language import ENGLISH, MORE_LANGUAGES, language_name
from limner.library.store import FILES
from limner.records import Problem, Record

if TYPE_CHECKING:
    from limner.library.store import Store


_FOLD = 50_000
STATUS = ("ok", "skipped", "deleted")


def sorted_digests(digests: Iterable[str], width: int) -> NDArray[np.bytes_]:
    """Hexadecimal digests → sorted array of `width`-byte strings."""
    return np.sort(np.fromiter((bytes.fromhex(digest) for digest in digests), dtype=f"S{width}"))


def place(digests: NDArray[np.bytes_], digest: bytes) -> int:
    """Position of a digest in a sorted array, or −1."""
    # NumPy compares byte strings without their closing zeros, here on both sides alike.
    found = int(np.searchsorted(digests, np.array(digest, dtype=digests.dtype)))
    return found if found < len(digests) and digests[found] == digest.rstrip(b"\0") else -1


class DigestSet:
    """A set of SHA-256 digests: a sorted array of 32 bytes each and what was added since."""

    def __init__(self, digests: Iterable[str] = ()) -> None:
        self._base = sorted_digests(digests, 32)
        self._added: set[bytes] = set()

    def __contains__(self, digest: str) -> bool:
        raw = bytes.fromhex(digest)
        return raw in self._added or place(self._base, raw) >= 0

    def __len__(self) -> int:
        return len(self._base) + len(self._added)

    def add(self, digest: str) -> None:
        """Add one that is not yet there."""
        self._added.add(bytes.fromhex(digest))
        if len(self._added) >= _FOLD:
            added = np.array(sorted(self._added), dtype="S32")
            self._base, self._added = np.sort(np.concatenate((self._base, added))), set()


@dataclass(frozen=True)
class KnownFile:
    """A file as the last run left it. Attributes as the columns of `files`."""

    size: int
    mtime_ns: int
    sha256: str
    status: str
    words_key: str


class KnownFiles:
    """The `files` table as arrays, and which of its rows this run has met."""

    def __init__(self, store: Store) -> None:
        parts: list[tuple[NDArray[np.generic], ...]] = []
        columns = ["key", "size", "mtime_ns", "sha256", "status", "words_key"]
        for batch in store.scan(FILES, columns):
            values = batch.to_pydict()
            parts.append(
                (
                    np.array([bytes.fromhex(key) for key in values["key"]], dtype="S16"),
                    np.array(values["size"], dtype=np.int64),
                    np.array(values["mtime_ns"], dtype=np.int64),
                    np.array([bytes.fromhex(sha) for sha in values["sha256"]], dtype="S32"),
                    np.array([STATUS.index(status) for status in values["status"]], dtype=np.int8),
                    np.array([key.encode() for key in values["words_key"]], dtype="S16"),
                )
            )
        kinds = ("S16", np.int64, np.int64, "S32", np.int8, "S16")
        arrays = (
            [np.concatenate(column) for column in zip(*parts, strict=True)]
            if parts
            else [np.zeros(0, dtype=kind) for kind in kinds]
        )
        order = np.argsort(arrays[0])
        self._key, self._size, self._mtime, self._sha, self._status, self._words = (
            array[order] for array in arrays
        )
        self._met = np.zeros(len(order), dtype=bool)

    def meet(self, key: str) -> KnownFile | None:
        """What is known of a file, noting that it is still there; None for a new one."""
        row = place(self._key, bytes.fromhex(key))
        if row < 0:
            return None
        self._met[row] = True
        return KnownFile(
            int(self._size[row]),
            int(self._mtime[row]),
            bytes(self._sha[row]).ljust(32, b"\0").hex() if self._status[row] != 1 else "",
            STATUS[int(self._status[row])],
            bytes(self._words[row]).decode(),
        )

    def unmet(self) -> Iterator[str]:
        """Keys of the files not met and not yet marked deleted."""
        for row in np.flatnonzero(~self._met & (self._status != STATUS.index("deleted"))):
            yield bytes(self._key[row]).ljust(16, b"\0").hex()


class IndexReport(Record):
    """What one run of indexing did.

    Attributes:
        found: files with a picture's suffix, links and unreadable ones included.
        other_files: files that are no pictures by suffix.
        new: read for the first time, or back after having been deleted.
        changed: read again because the file, its sidecars or its row of a table changed.
        unchanged: left alone.
        completed: unchanged files read for a vector that was missing.
        deleted: marked as gone.
        skipped: not usable, whether found now or by an earlier run.
        warnings: usable pictures with damaged metadata, met in this run.
        exact_duplicates: present files beyond the first of each picture, in the whole library.
        near_groups: near-duplicate groups of two or more pictures, in the whole library.
        near_pictures: pictures in them.
        pictures: different pictures in the whole library.
        encoded: image encoder → pictures it encoded.
        captions_encoded: pictures whose captions were encoded.
        languages: language → estimated share of the library's captions, largest first.
        unread: pictures whose captions are all in languages that no encoder of the library reads, with the
            language as the reason; in the whole library.
        incomplete: vector space → present pictures that still lack a vector in it.
        seconds: wall time.
        files_per_s, pictures_per_s: files looked at and pictures read, per second of the whole run.
        interrupted: True after Ctrl-C; the same command continues.
    """

    found: int = 0
    other_files: int = 0
    new: int = 0
    changed: int = 0
    unchanged: int = 0
    completed: int = 0
    deleted: int = 0
    skipped: tuple[Problem, ...] = ()
    warnings: tuple[Problem, ...] = ()
    exact_duplicates: int = 0
    near_groups: int = 0
    near_pictures: int = 0
    pictures: int = 0
    encoded: dict[str, int] = Field(default={})
    captions_encoded: int = 0
    languages: dict[str, float] = Field(default={})
    unread: tuple[Problem, ...] = ()
    incomplete: dict[str, int] = Field(default={})
    seconds: float = 0.0
    files_per_s: float = 0.0
    pictures_per_s: float = 0.0
    interrupted: bool = False

    def lines(self, listed: int = 20) -> list[str]:
        """The report in words.

        Args:
            listed: skipped files and warnings named, at most.
        """
        lines = [
            f"pictures in the library: {self.pictures:,}",
            f"files: {self.found:,} ({self.new:,} new, {self.changed:,} changed,"
            f" {self.unchanged:,} unchanged, {len(self.skipped):,} skipped), {self.deleted:,} deleted",
            f"{self.exact_duplicates:,} exact duplicates; {self.near_pictures:,} pictures"
            f" in {self.near_groups:,} near-duplicate groups",
            f"{self.other_files:,} other files; {self.seconds:.1f} s, {self.pictures_per_s:.1f} pictures/s",
        ]
        lines += [
            f"{space}: {count:,} pictures lack a vector" for space, count in self.incomplete.items() if count
        ]
        if self.languages and set(self.languages) != {ENGLISH}:
            shares = ", ".join(
                f"{language_name(code)} {share:.0%}"
                for code, share in self.languages.items()
                if share >= 0.01
            )
            lines.append(f"languages of the captions: {shares}")
        if self.unread:
            lines.append(
                f"{len(self.unread):,} pictures have captions in languages that no installed encoder reads,"
                f" and are found by their pixels alone; {MORE_LANGUAGES}"
            )
        kinds = (("skipped", self.skipped), ("metadata damaged", self.warnings), ("not read", self.unread))
        for title, problems in kinds:
            lines += [f"{title}: {problem.path}: {problem.reason}" for problem in problems[:listed]]
            if len(problems) > listed:
                lines.append(f"{title}: and {len(problems) - listed:,} more")
        return lines

    def __str__(self) -> str:
        """All of `lines`."""
        return "\n".join(self.lines())

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        return f"<pre>{html.escape(str(self))}</pre>"
