"""The pictures a search runs over, and their vectors as arrays.

A library keeps its vectors in files that are mapped into memory, and beside them what searches need of all
vectors at once. They follow the tables, see `limner.store.follow`; where a file is not as it was written,
it is made again.
"""

from __future__ import annotations

import errno
import os
import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from limner.arrays import FloatArray
from limner.errors import CheckpointError, DataError, LimnerWarning, unknown
from limner.files import locked, remove_drafts
from limner.store.blocks import LOCK, Blocks
from limner.store.follow import (
    MOMENTS,
    ROWS,
    follow,
    read_sums_of_space,
    vectors_of,
    write_sums_of_space,
)
from limner.store.roster import (
    ID_BYTES,
    Groups,
    Ids,
    Places,
    RawIds,
    SpaceFile,
    View,
    group_numbers,
    ranks,
    raw_ids,
    read_view,
    text_of,
)
from limner.store.scan import BoolArray, HalfArray, IntArray, Moments, float_rows, moments, sums
from limner.store.store import PICTURES, PRESENT, Store, vectors_name

if TYPE_CHECKING:
    from limner.store.store import SpaceInfo

_NOT_OURS = (errno.EACCES, errno.EPERM, errno.EROFS)
"""Why a folder cannot be written: another's, or on a disk that is read-only."""


@dataclass(frozen=True)
class Space:
    """Vectors of one space for M pictures.

    Attributes:
        matrix: (P, D) float16 rows of length 1 or 0, often memory-mapped. Those of a library lie in order of
            arrival, and rows that no picture has any more are among them.
        present: (M,) True where the picture has a vector in this space.
        fingerprint: of the encoder that made them.
        file: of the matrix, whose rows never change; what is computed from them is kept beside it. None where
            it is in memory alone.
        blocks: of the matrix, where its file has checksums.
        places: (M,) row of the matrix of each picture; None where P is M and each has its own.
        stamp: 16 letters that name the choice of rows among those of the file.
    """

    matrix: HalfArray
    present: BoolArray
    fingerprint: str = ""
    file: Path | None = None
    blocks: Blocks | None = field(default=None, repr=False)
    places: Places | None = field(default=None, repr=False)
    stamp: str = "0" * 16

    def check(self, rows: NDArray[np.integer[Any]] | range) -> None:
        """Make sure that some rows of the matrix are as they were written, before they are read.

        Raises:
            CheckpointError: they are damaged, and cannot be made again.
        """
        if self.blocks is not None:
            self.blocks.check(rows)

    def vectors(self, rows: Sequence[int] | NDArray[np.int64]) -> NDArray[np.float32]:
        """(R, D) float32 copies of the vectors of some pictures; zero where there is none.

        Raises:
            CheckpointError: as `check`.
        """
        chosen = np.asarray(rows, dtype=np.int64)
        places = chosen if self.places is None else self.places[chosen]
        self.check(places)
        found = np.asarray(self.matrix[places], dtype=np.float32)
        found[~self.present[chosen]] = 0
        return found

    @cached_property
    def single(self) -> FloatArray:
        """(M, D) the vectors of all pictures in float32, kept; for a space that is small.

        Raises:
            NumericsError: a vector is not finite.
            CheckpointError: as `check`.
        """
        self.check(range(len(self.matrix)))
        rows = float_rows(self.matrix, 0, len(self.matrix))
        if self.places is not None:
            rows = rows[self.places]
            rows[~self.present] = 0
        return rows

    @cached_property
    def moments(self) -> Moments:
        """Moments of the present rows; the same to the bit in whatever order they lie.

        Raises:
            NumericsError: a vector is not finite.
            CheckpointError: as `check`.
        """
        width = self.matrix.shape[1]
        path = None if self.file is None else self.file.with_suffix(MOMENTS)
        total = None if path is None else read_sums_of_space(path, self.stamp, width)
        if total is None:
            self.check(range(len(self.matrix)))
            held = np.flatnonzero(self.present) if self.places is None else np.sort(self.places[self.present])
            total = sums(self.matrix, None if len(held) == len(self.matrix) else held.astype(np.int64))
            # A library on a read-only disc is searched too, only not as soon.
            if path is not None and os.access(path.parent, os.W_OK):
                with building(path.parent):
                    write_sums_of_space(path, self.stamp, total)
        return moments(total, int(np.count_nonzero(self.present)))

    @cached_property
    def held(self) -> int:
        """Pictures that have a vector."""
        return int(np.count_nonzero(self.present))


@dataclass(frozen=True)
class Gallery:
    """M pictures and their vectors.

    Attributes:
        ids: M picture ids, all different; those of a library ascend.
        groups: M near-duplicate groups, as ids or numbers.
        spaces: space name → vectors.
    """

    ids: Sequence[str]
    groups: Sequence[str] | Groups
    spaces: dict[str, Space]

    def __len__(self) -> int:
        """M, the number of pictures."""
        return len(self.ids)

    def space(self, name: str) -> Space:
        """The vectors of one space.

        Raises:
            DataError: the gallery has no such space.
        """
        if name not in self.spaces:
            raise DataError("gallery: " + unknown("space", name, self.spaces))
        return self.spaces[name]

    def rows(self, ids: Iterable[str]) -> IntArray:
        """(K,) rows of pictures; −1 where one is not there."""
        if isinstance(self.ids, Ids):
            return self.ids.rows(ids)
        known = {one: row for row, one in enumerate(self.ids)}
        return np.array([known.get(one, -1) for one in ids], dtype=np.int64)

    @property
    def places(self) -> Places | None:
        """(M,) rows of the pictures in the matrices, the same in all spaces; see `Space.places`."""
        return next((space.places for space in self.spaces.values()), None)


@contextmanager
def building(cache: Path) -> Iterator[None]:
    """Keep other builders out of a cache, and remove what killed ones left in it."""
    with locked(cache / LOCK):
        remove_drafts(cache)
        yield


def library_gallery(
    store: Store, cache: Path, infos: Mapping[str, SpaceInfo], wanted: Collection[str]
) -> Gallery:
    """All pictures that some file still holds, in order of their ids, from the cache or built into it.

    Of a library that cannot be written they are held in memory: `Space.file` is None.

    Args:
        store: the tables.
        cache: folder of the cache.
        infos: all spaces of the library.
        wanted: names of those to hold.
    Raises:
        CheckpointError: a vector has another width, or the cache cannot be read back.
        NumericsError: a vector is not finite or all zeros, naming the picture.
        StorageError: the disk is full, or cannot be written.
    """
    found = _kept(store, cache, infos, wanted)
    if found is not None:
        return found
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with building(cache):
            # Another process may have been quicker; what this one opens must not be replaced meanwhile.
            found = _kept(store, cache, infos, wanted)
            found = found or _mapped(store, cache, follow(store, cache, infos, wanted), wanted)
    except OSError as error:
        if error.errno not in _NOT_OURS:
            raise
        return _in_memory(store, infos, wanted)
    if found is None:
        raise CheckpointError(f"{cache}: not as it was written; remove this folder")
    return found


def _kept(
    store: Store, cache: Path, infos: Mapping[str, SpaceInfo], wanted: Collection[str]
) -> Gallery | None:
    """The gallery of a cache that is up to date."""
    try:
        view = read_view(cache)
    except DataError as error:
        warnings.warn(f"{cache}: damaged ({error}); it is made again", LimnerWarning, stacklevel=2)
        return None
    if view is None or not all(_same(view.spaces.get(one), infos[one]) for one in wanted):
        return None
    return _mapped(store, cache, view, wanted) if _up_to_date(store, view, wanted) else None


def _same(kept: SpaceFile | None, info: SpaceInfo) -> bool:
    return kept is not None and (kept.fingerprint, kept.dim) == (info.fingerprint, info.dim)


def _up_to_date(store: Store, view: View, spaces: Collection[str]) -> bool:
    tables = (PICTURES, *map(vectors_name, spaces))
    return all(store.pieces(one).each == view.tables.get(one) for one in tables)


def _mapped(store: Store, cache: Path, view: View, wanted: Collection[str]) -> Gallery | None:
    """The gallery of a state; None where a file of it is damaged."""
    names = Blocks.opened(cache / f"{view.ids_file}{ROWS}", view.rows, (ID_BYTES,), np.uint8, "r", None)
    if names is None:
        return None
    raw = np.asarray(names.array).reshape(-1).view(f"S{ID_BYTES}")
    own = view.rows == len(view.order) and np.array_equal(view.order, np.arange(view.rows))
    spaces = {}
    for name in wanted:
        one = view.spaces[name]
        path = cache / f"{one.file}{ROWS}"
        remake = partial(_again, store, view, name, raw)
        settled = partial(_up_to_date, store, view, [name])
        blocks = Blocks.opened(path, view.rows, (one.dim,), np.float16, "r", remake, settled)
        if blocks is None:
            return None
        matrix = blocks.array[: view.rows]
        places = None if own else view.order
        spaces[name] = Space(matrix, view.present[name], one.fingerprint, path, blocks, places, view.stamp)
    return Gallery(Ids(raw, view.order), view.groups, spaces)


def _again(  # noqa: PLR0917
    store: Store, view: View, space: str, raw: RawIds, start: int, stop: int, there: NDArray[Any]
) -> NDArray[Any]:
    """Some rows of a space's file from its table; what no picture has any more stays where it is finite."""
    table, made = vectors_name(space), np.where(np.isfinite(there), there, np.float16(0))
    read = view.order[view.present[space]]
    read = read[(read >= start) & (read < stop)]
    if len(read):
        names = raw[read]
        order = np.argsort(names)
        for row in store.lookup(table, "id", text_of(names), ["id", "vector"]):
            place, known = ranks(names, order, np.array([bytes.fromhex(row["id"])], names.dtype))
            if known[0]:
                made[read[order[place[0]]] - start] = np.asarray(row["vector"], np.float16)
    return made


def _in_memory(store: Store, infos: Mapping[str, SpaceInfo], wanted: Collection[str]) -> Gallery:
    """The gallery of a library that keeps no cache."""
    read = [
        (raw_ids(batch.column("id")), raw_ids(batch.column("group")))
        for batch in store.scan(PICTURES, ["id", "group"], PRESENT)
    ]
    nothing = np.zeros(0, f"S{ID_BYTES}")
    ids = np.concatenate([nothing, *(own for own, _ in read)])
    groups = group_numbers(np.concatenate([nothing, *(group for _, group in read)]))
    order = np.argsort(ids)
    ids, groups, own = ids[order], groups[order], np.arange(len(ids))
    spaces = {}
    for name in wanted:
        info, table = infos[name], vectors_name(name)
        matrix, present = np.zeros((len(ids), info.dim), np.float16), np.zeros(len(ids), dtype=bool)
        for batch in store.scan(table, ["id", "vector"]) if store.has(table) else ():
            names = raw_ids(batch.column("id"))
            vectors = vectors_of(table, batch.column("vector"), names, info.dim)
            rows, there = ranks(ids, own, names)
            matrix[rows[there]], present[rows[there]] = vectors[there], True
        spaces[name] = Space(matrix, present, info.fingerprint)
    return Gallery(Ids(ids, own), groups, spaces)
