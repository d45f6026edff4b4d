"""Write one batch of what was read: pictures first, then vectors, then files.

The rows of `files` come last and are the mark that a file is done. A kill between the writes leaves work
that the next run does again with the same result. It reads no files and runs no encoder.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from limner.data.images import display
from limner.data.records import Caption
from limner.data.words import Words, unique_captions
from limner.errors import DataError
from limner.retrieval.reading import Pixels
from limner.retrieval.store import FILES, PICTURES, Store, files_schema, pictures_schema, vectors_name
from limner.similarity import FloatArray

if TYPE_CHECKING:
    import pyarrow

FileRow = dict[str, Any]
Labels = list[tuple[str, float]]
_MAX_REASON_CHARS = 2000


def file_key(path: bytes) -> str:
    """Identity of a path in the tables: 32 hexadecimal digits."""
    return hashlib.blake2b(path, digest_size=16).hexdigest()


def file_row(
    path: bytes,
    source: bytes,
    *,
    status: str,
    size: int = 0,
    mtime_ns: int = -1,
    sha256: str = "",
    reason: str = "",
    words_key: str = "",
    words: Words | None = None,
) -> FileRow:
    """One row of `files`; arguments as its columns.

    Args:
        path: absolute, as the system has it.
        source: the folder or list it was found by.
        status: ok, skipped or deleted.
        size: bytes.
        mtime_ns: as its status said when it was read; −1 never equals a real time, so that it is tried again.
        sha256: of its content, "" where it could not be read.
        reason: why it was skipped, or what is wrong with its metadata.
        words_key: of what describes it from outside.
        words: what is said about it.
    """
    said = words if words is not None else Words()
    return {
        "key": file_key(path),
        "path": display(path),
        "path_bytes": path,
        "source": source,
        "size": size,
        "mtime_ns": mtime_ns,
        "sha256": sha256,
        "status": status,
        "reason": reason[:_MAX_REASON_CHARS],
        "words_key": words_key,
        "captions": [caption.model_dump() for caption in said.captions],
        "credit": said.credit,
        "license": said.license,
        "taken": said.taken.isoformat() if said.taken is not None else None,
    }


def vector_table(ids: Sequence[str], hashes: Sequence[str], vectors: FloatArray) -> pyarrow.Table:
    """Rows of a vector table.

    Args:
        ids: B picture ids.
        hashes: B hashes of what each vector was made from.
        vectors: (B, D) unit rows, stored as float16.
    """
    import pyarrow as pa

    half = pa.array(np.ascontiguousarray(vectors, dtype=np.float16).ravel())
    column = pa.FixedSizeListArray.from_arrays(half, vectors.shape[1])
    return pa.table({"id": pa.array(ids), "input_hash": pa.array(hashes), "vector": column})


def write(
    store: Store,
    files: Iterable[FileRow],
    pixels: Mapping[str, Pixels],
    labels: Mapping[str, Labels],
    vectors: Mapping[str, pyarrow.Table],
) -> None:
    """Write a batch.

    Args:
        store: the tables.
        files: rows of `files`; of several for one path the last counts.
        pixels: content hash → what it shows, at least for contents new to the library.
        labels: content hash → classes, for pictures classified in this batch.
        vectors: space → rows of its table.
    """
    import pyarrow as pa

    rows = {row["key"]: row for row in files}
    pictures = _pictures(store, rows, pixels, labels)
    # Before the vectors: a picture that has its vectors is not encoded again, and so never gets its labels.
    store.upsert(PICTURES, pa.Table.from_pylist(pictures, schema=pictures_schema()))
    for space, table in vectors.items():
        store.upsert(vectors_name(space), table)
    store.upsert(FILES, pa.Table.from_pylist(list(rows.values()), schema=files_schema()))


def _pictures(
    store: Store, rows: Mapping[str, FileRow], pixels: Mapping[str, Pixels], labels: Mapping[str, Labels]
) -> list[dict[str, Any]]:
    """The rows of `pictures` that a batch of files changes, complete.

    A picture's paths and captions are those of all present files with its content, so that the result does
    not depend on the order in which they came.
    """
    before = store.lookup(FILES, "key", rows, ["key", "sha256", "status"])
    affected = {row["sha256"] for row in (*before, *rows.values()) if row["status"] == "ok"}
    stored = store.lookup(FILES, "sha256", affected, files_schema().names)
    present = [row for row in stored if row["key"] not in rows] + list(rows.values())
    holders: dict[str, list[FileRow]] = {sha: [] for sha in affected}
    for row in present:
        if row["status"] == "ok":
            holders[row["sha256"]].append(row)
    known = {row["id"]: row for row in store.lookup(PICTURES, "id", affected, pictures_schema().names)}
    return [
        _picture(sha, holding, pixels.get(sha), labels.get(sha), known.get(sha))
        for sha, holding in sorted(holders.items())
    ]


def _picture(
    sha: str,
    holding: list[FileRow],
    pixels: Pixels | None,
    labels: Labels | None,
    known: dict[str, Any] | None,
) -> dict[str, Any]:
    """One row of `pictures` from its files, its pixels where they were read, and its row so far."""
    holding = sorted(holding, key=lambda row: (row["path"], row["path_bytes"]))
    if known is None and pixels is None:
        raise DataError(f"library: picture {sha} has files but no row; delete the library and index again")
    row = dict(known) if known is not None else {"id": sha, "group": sha, "labels": [], "size_bytes": 0}
    if pixels is not None:
        shape = {name: getattr(pixels, name) for name in ("width_px", "height_px", "format", "phash")}
        row.update(shape)
    if labels is not None:
        row["labels"] = [{"name": name, "probability": float(value)} for name, value in labels]
    said = unique_captions(Caption(**caption) for file in holding for caption in file["captions"])
    ordered = sorted(said, key=lambda caption: caption.source == "keywords")
    row["paths"] = [file["path"] for file in holding]
    row["captions"] = [caption.model_dump() for caption in ordered]
    for name in ("credit", "license"):
        row[name] = next((file[name] for file in holding if file[name]), "")
    row["taken"] = next((file["taken"] for file in holding if file["taken"]), None)
    if holding:
        row["size_bytes"] = holding[0]["size"]
    return row
