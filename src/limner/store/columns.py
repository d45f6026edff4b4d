"""What a library knows of its pictures as Arrow columns in files of its cache, mapped and never held whole.

A table is written in pieces that never change, so each piece has a file of its own here: after a change only
new pieces are read. What is computed from all pictures is kept likewise, under the pieces that it is of. The
end of a file's name is its checksum; one that is damaged is made again.
"""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from limner.checksums import checksum, file_checksum
from limner.errors import LimnerWarning
from limner.files import locked, remove_drafts, replacing
from limner.store.blocks import LOCK
from limner.store.roster import ID_BYTES, RawIds, raw_ids
from limner.store.store import PICTURES, PICTURES_SCHEMA, PRESENT, Pieces, Store

PART_ROWS = 131_072
"""Pictures that are put in order and written at a time: those of a piece of a large table."""
_FORMAT = 2
_ID = pa.binary(ID_BYTES)
_ENDING = ".arrow"
Batches = Iterable[pa.RecordBatch]


class Columns:
    """Tables of Arrow in a folder, by key; where it cannot be written, in memory."""

    def __init__(self, folder: Path) -> None:
        """Nothing is read or made yet."""
        self._folder = folder

    def kept(self, key: str, make: Callable[[], Batches]) -> list[pa.RecordBatch]:
        """The batches that were kept under a key, or that are made and kept now.

        Args:
            key: 32 letters that say all that the batches are made from.
            make: them, at least one; in memory is one at a time.
        """
        found = self._whole(key)
        try:
            return _mapped(found or self._written(key, make))
        # A full disk or a read-only folder costs memory and time, not the answer.
        except OSError:
            sink = pa.BufferOutputStream()
            _write(sink, make())
            return _read(sink.getvalue())

    def _whole(self, key: str) -> Path | None:
        """The file of a key; one that is damaged goes."""
        for path in self._folder.glob(f"{key}-*{_ENDING}"):
            with suppress(OSError):  # another process removed it
                if is_whole(path):
                    return path
                warnings.warn(f"{path}: damaged; it is made again", LimnerWarning, stacklevel=4)
                path.unlink()
        return None

    def _written(self, key: str, make: Callable[[], Batches]) -> Path:
        self._folder.mkdir(parents=True, exist_ok=True)
        with locked(self._folder / LOCK):
            found = self._whole(key)
            if found is not None:  # another process was quicker
                return found
            remove_drafts(self._folder)
            new = self._folder / f"{key}.new"
            with replacing(new, sync=False) as draft, draft.open("wb") as file:
                _write(file, make())
            return new.replace(self._folder / f"{key}-{file_checksum(new)}{_ENDING}")

    def forget(self, keys: Iterable[str]) -> None:
        """Remove all that is kept under other keys."""
        own = tuple(keys)
        for path in self._folder.glob("[!.]*"):
            if not path.name.startswith(own):
                # Windows keeps a file that another process has mapped; a later change removes it.
                with suppress(OSError):
                    path.unlink()


def is_whole(path: Path) -> bool:
    """Whether a file of columns is as it was written."""
    return file_checksum(path) == path.stem.rpartition("-")[2]


def parts_of(store: Store, columns: Columns) -> tuple[list[pa.RecordBatch], str]:
    """The pictures that some file still holds, in parts, each in order of first paths.

    Columns are those of `pictures`, with ids and groups as bytes, and `by_id`, the rows of the part in order
    of ids; and `said`, file names and captions in lower case.

    Returns:
        The parts, and a key of all of them.
    Raises:
        DataError: the table is damaged.
    """
    whole = store.pieces(PICTURES)
    keys = {number: checksum(repr((_FORMAT, one)).encode()) for number, one in sorted(whole.each.items())}
    found = [
        part
        for number, key in keys.items()
        for part in columns.kept(key, partial(_parts, store, whole, number))
    ]
    joint = checksum(" ".join(keys.values()).encode())
    columns.forget([*keys.values(), joint])
    return [one for one in found if len(one)], joint


def _parts(store: Store, whole: Pieces, number: int) -> Iterator[pa.RecordBatch]:
    held: list[pa.RecordBatch] = []
    for _, batch in store.scan_pieces(whole, {number}, PICTURES_SCHEMA.names, PRESENT):
        held.append(batch.select(PICTURES_SCHEMA.names))
        if sum(map(len, held)) >= PART_ROWS:
            yield _part(held)
            held = []
    yield _part(held or [pa.RecordBatch.from_pylist([], PICTURES_SCHEMA)])


def _part(held: list[pa.RecordBatch]) -> pa.RecordBatch:
    table = pa.Table.from_batches(held).combine_chunks()
    batch = next(iter(table.to_batches()), held[0])
    batch = batch.take(pc.sort_indices(first_of(batch)))
    ids = raw_ids(batch["id"])
    made = {
        "id": _bytes(ids),
        "group": _bytes(raw_ids(batch["group"])),
        "by_id": np.argsort(ids),
        "said": _said(batch),
    }
    return pa.RecordBatch.from_pydict(dict(zip(batch.schema.names, batch.columns, strict=True)) | made)


def first_of(part: pa.RecordBatch) -> pa.Array:
    """(R,) first path of each picture."""
    return part["paths"].values.take(part["paths"].offsets[:-1])


def split(paths: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Folders and file names of paths; the folder is "" of one that has none."""
    folder, name = (
        pc.replace_substring_regex(paths, f"(?s)^(?:(.*){re.escape(os.sep)})?(.*)$", rf"\{group}")
        for group in (1, 2)
    )
    return folder, name


def raw_column(part: pa.RecordBatch, name: str) -> RawIds:
    """(R,) ids or groups of a part, as they lie in its file."""
    return np.frombuffer(part[name].buffers()[1], f"S{ID_BYTES}", len(part))


def _bytes(raw: RawIds) -> pa.Array:
    return pa.FixedSizeBinaryArray.from_buffers(_ID, len(raw), [None, pa.py_buffer(raw)])


def _said(batch: pa.RecordBatch) -> pa.Array:
    paths, captions = batch["paths"], batch["captions"]
    names = pa.ListArray.from_arrays(paths.offsets, split(paths.values)[1])
    texts = pa.ListArray.from_arrays(captions.offsets, captions.values.field("text"))
    said = pc.binary_join_element_wise(pc.binary_join(names, "\n"), pc.binary_join(texts, "\n"), "\n")
    # Python's own lower case, as the question gets it; Arrow's differs for a few letters.
    return pa.array([one.lower() for one in said.to_pylist()], pa.large_string())


def _write(sink: object, batches: Batches) -> None:
    writer = None
    for batch in batches:
        writer = writer or pa.ipc.new_file(sink, batch.schema)
        writer.write_batch(batch)
    if writer is not None:
        writer.close()


def _mapped(path: Path) -> list[pa.RecordBatch]:
    with pa.memory_map(str(path)) as source:  # the map outlives the file that is closed
        return _read(source)


def _read(source: object) -> list[pa.RecordBatch]:
    reader = pa.ipc.open_file(source)
    return [reader.get_batch(number) for number in range(reader.num_record_batches)]
