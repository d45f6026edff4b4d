"""Restores the consistency of the tables of pictures and files after concurrent writes.

Each process writes a picture's row from the files that it knows. If two find the same content at the same
time, neither knows the other's file, so all rows are checked at the end of a run.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from limner.scale.known import DIGEST
from limner.scale.store import FILES, PICTURES, PICTURES_SCHEMA, TableStore, chunks
from limner.scale.write import picture_rows

_AT_ONCE = 1000
_SUMS = np.dtype([("id", DIGEST), ("sum", np.uint64)])


def correct_paths(store: TableStore) -> int:
    """Correct the pictures whose paths are not those of existing files; returns their number.

    Args:
        store: the tables, to which others may be writing.
    """
    files = _summed((sha, [path]) for sha, path in store.rows(FILES, ["sha256", "path"], "status = 'ok'"))
    pictures = _summed(store.rows(PICTURES, ["id", "paths"], "array_length(paths) > 0"))
    differing = np.setxor1d(files, pictures)["id"]
    # A picture without a row belongs to a file stored by a process that has not finished.
    wrong = sorted({one.decode() for one in np.intersect1d(np.unique(differing), _ids(store))})
    for some in chunks(wrong, _AT_ONCE):
        rows = picture_rows(store, some)
        store.upsert(PICTURES, pa.Table.from_pylist(rows, schema=PICTURES_SCHEMA))
    return len(wrong)


def _ids(store: TableStore) -> NDArray[np.bytes_]:
    return np.array([one for (one,) in store.rows(PICTURES, ["id"])], dtype=DIGEST)


def _summed(rows: Iterable[tuple[str, Iterable[str]]]) -> NDArray[np.void]:
    """Each id once, sorted, with the sum of the hashes of its paths, which does not depend on their order."""

    def hashed() -> Iterator[tuple[str, int]]:
        for one, paths in rows:
            for path in paths:
                digest = hashlib.blake2b(path.encode("utf-8", "surrogatepass"), digest_size=8).digest()
                yield one, int.from_bytes(digest, "little")

    found = np.fromiter(hashed(), _SUMS)
    ids, places = np.unique(found["id"], return_inverse=True)
    sums = np.zeros(len(ids), np.uint64)
    np.add.at(sums, places, found["sum"])
    made = np.empty(len(ids), _SUMS)
    made["id"], made["sum"] = ids, sums
    return made
