"""Which digests are known, and what is known of each file: compact, for a million of them.

Indexing asks for every file whether it must be read again; the answers come from sorted arrays, not from
a dictionary of strings. It reads the tables once and writes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from limner.retrieval.store import FILES

if TYPE_CHECKING:
    from limner.retrieval.store import Store

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
