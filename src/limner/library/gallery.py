"""The pictures a search runs over, and their vectors as arrays.

A library keeps its vectors in files that are mapped into memory, and beside them what searches need of all
vectors at once. A file names the state of the tables, or of the vectors, that it was made from; where the
state has changed, or the file is not as it was written, it is made again.
"""

from __future__ import annotations

import errno
import math
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from limner.arrays import usable_rows
from limner.counts import counted
from limner.errors import CheckpointError, DataError, NumericsError, unknown
from limner.files import locked, remove_drafts, replacing, reserve
from limner.library.blocks import Blocks, Remake, header, write_sums
from limner.library.scan import BoolArray, HalfArray, Moments, moments, round_into
from limner.library.store import PICTURES, PRESENT, Store

if TYPE_CHECKING:
    from torch import Tensor

    from limner.library.store import SpaceInfo

Fill = Callable[[NDArray[Any]], None]
_NOT_OURS = (errno.EACCES, errno.EPERM, errno.EROFS)
"""Why a folder cannot be written: another's, or on a disk that is read-only."""


@dataclass(frozen=True)
class Space:
    """Vectors of one space for M pictures.

    Attributes:
        matrix: (M, D) float16 rows of unit length, often memory-mapped; rows of absent pictures
            are zero.
        present: (M,) True where the picture has a vector in this space.
        fingerprint: of the encoder that made them.
        file: of the matrix; what is computed from it is kept beside it. None where it is in memory alone.
        blocks: of the matrix, where its file has checksums.
    """

    matrix: HalfArray
    present: BoolArray
    fingerprint: str = ""
    file: Path | None = None
    blocks: Blocks | None = field(default=None, repr=False)

    def check(self, rows: NDArray[np.int64] | range) -> None:
        """Make sure that some rows of the matrix are as they were written, before they are read.

        Raises:
            CheckpointError: they are damaged, and cannot be made again.
        """
        if self.blocks is not None:
            self.blocks.check(rows)

    def vectors(self, rows: Sequence[int] | NDArray[np.int64]) -> NDArray[np.float32]:
        """(R, D) float32 copies of some rows.

        Raises:
            CheckpointError: as `check`.
        """
        places = np.asarray(rows, dtype=np.int64)
        self.check(places)
        return np.asarray(self.matrix[places], dtype=np.float32)

    @cached_property
    def moments(self) -> Moments:
        """Moments of the present rows.

        Raises:
            NumericsError: a vector is not finite.
        """

        def fill(rows: NDArray[Any]) -> None:
            self.check(range(len(self.matrix)))
            made = moments(self.matrix, self.present)
            rows[0], rows[1:] = made.mean, made.covariance

        width = self.matrix.shape[1]
        rows = self._derived("moments", (width + 1, width), np.float64, fill, None).array
        return Moments(rows[0], rows[1:])

    @cached_property
    def _bits(self) -> tuple[Blocks, Tensor]:
        def fill(rows: NDArray[Any]) -> None:
            self.check(range(len(self.matrix)))
            round_into(rows, self.matrix)

        def remake(start: int, stop: int) -> NDArray[np.int16]:
            self.check(range(start, stop))
            rows = np.empty((stop - start, self.matrix.shape[1]), np.int16)
            round_into(rows, self.matrix[start:stop])
            return rows

        found = self._derived("bf16", self.matrix.shape, np.int16, fill, remake)
        return found, torch.from_numpy(np.asarray(found.array)).view(torch.bfloat16)

    def coarse(self, start: int = 0, stop: int | None = None) -> Tensor:
        """(R, D) some of the vectors in bfloat16, all of them by default.

        Raises:
            NumericsError: a vector is not finite.
            CheckpointError: as `check`.
        """
        blocks, rounded = self._bits
        last = len(rounded) if stop is None else stop
        blocks.check(range(start, last))
        return rounded[start:last]

    def _derived(
        self, ending: str, shape: tuple[int, ...], kind: type[np.generic], fill: Fill, remake: Remake | None
    ) -> Blocks:
        """What is computed from the vectors: from its file, where there is or can be one."""
        if self.file is not None and self.file.exists():
            status = self.file.stat()
            state = f"{status.st_size:x}-{status.st_mtime_ns:x}-{status.st_ino:x}"
            path = self.file.with_suffix(f".{state}.{ending}.npy")
            # Copy-on-write, since torch takes no read-only memory; nothing but repairs is ever written.
            kept = Blocks.opened(path, shape, kind, "c", remake)
            # A library on a read-only disc is searched too, only not as soon.
            if kept is None and os.access(path.parent, os.W_OK):
                with building(path.parent):
                    write_array(path, shape, kind, fill)
                kept = Blocks.opened(path, shape, kind, "c", remake)
            if kept is not None:
                return kept
        made = np.empty(shape, dtype=kind)
        fill(made)
        return Blocks(made)


@dataclass(frozen=True)
class Gallery:
    """M pictures and their vectors.

    Attributes:
        ids: M picture ids, all different.
        groups: M near-duplicate group ids.
        spaces: space name → vectors.
    """

    ids: Sequence[str]
    groups: Sequence[str]
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


def write_array(path: Path, shape: tuple[int, ...], kind: type[np.generic], fill: Fill) -> None:
    """Write an array's file whole or not at all.

    Args:
        path: ends in ``.npy``.
        shape: of the array.
        kind: of its numbers.
        fill: writes them into the array.
    Raises:
        StorageError: the disk is full, or cannot be written.
    """
    size = math.prod(shape) * np.dtype(kind).itemsize
    with replacing(path, sync=False, wanted=size) as draft:
        with draft.open("wb") as file:
            file.write(header(shape, kind))
            reserve(file, size)
        fill(np.lib.format.open_memmap(draft, mode="r+"))
        write_sums(draft, shape, kind)


@contextmanager
def building(cache: Path) -> Iterator[None]:
    """Keep other builders out of a cache, and remove what killed ones left in it."""
    with locked(cache / ".lock"):
        remove_drafts(cache)
        yield


def present_pictures(store: Store) -> tuple[list[str], list[str]]:
    """Ids of all pictures that some file still holds, sorted, and the near-duplicate group of each."""
    pairs = sorted(store.rows(PICTURES, ["id", "group"], PRESENT))
    same = {one: one for one, _ in pairs}
    # Most pictures are their own group; sharing the text halves the memory.
    return [one for one, _ in pairs], [same.get(group, group) for _, group in pairs]


def cached_space(store: Store, cache: Path, table: str, info: SpaceInfo, ids: Sequence[str]) -> Space:
    """Vectors of one space for pictures in this order, from the cache or built into it.

    Of a library that cannot be written they are held in memory: `Space.file` is None.

    Args:
        store: the tables.
        cache: folder of this space's cache.
        table: name of the space's table.
        info: who made the vectors.
        ids: M sorted ids.
    Returns:
        (M, D) float16, mapped read-only; zero rows where a picture has no vector.
    Raises:
        CheckpointError: a vector has another width, or the cache cannot be read back.
        NumericsError: a vector is not finite or all zeros, naming the picture.
    """
    shape = (len(ids), info.dim)
    if not ids:
        return Space(np.zeros(shape, dtype=np.float16), np.zeros(0, dtype=bool), info.fingerprint)
    versions = (store.version(PICTURES), store.version(table)) if store.has(table) else (0, 0)
    state = f"{versions[0]}-{versions[1]}"
    path, present_path = cache / f"{state}.npy", cache / f"{state}.present.npy"

    def fill(matrix: NDArray[Any]) -> None:
        present = _fill(matrix, store, table, ids)
        # The matrix appears last and whole: where it is, this file is complete.
        write_array(present_path, present.shape, np.bool_, lambda array: np.copyto(array, present))

    def remake(start: int, stop: int) -> NDArray[np.float16]:
        rows = np.zeros((stop - start, info.dim), np.float16)
        _fill(rows, store, table, ids[start:stop])
        return rows

    def read() -> Space | None:
        matrix = Blocks.opened(path, shape, np.float16, "r", remake)
        present = matrix and Blocks.opened(present_path, shape[:1], np.bool_, "r", None)
        if matrix is None or present is None:
            return None
        return Space(matrix.array, np.array(present.array), info.fingerprint, path, matrix)

    found = read()
    if found is None:
        try:
            cache.mkdir(parents=True, exist_ok=True)
            with building(cache):
                write_array(path, shape, np.float16, fill)
                _forget(cache, state)
        except OSError as error:
            if error.errno not in _NOT_OURS:
                raise
            held = np.zeros(shape, dtype=np.float16)
            return Space(held, _fill(held, store, table, ids), info.fingerprint)
        found = read()
    if found is None:
        raise CheckpointError(f"{path}: not as it was written; remove the folder {cache}")
    return found


def _fill(matrix: NDArray[Any], store: Store, table: str, ids: Sequence[str]) -> BoolArray:
    """Stream a table of vectors into a matrix in the order of `ids`; return which rows were met."""
    order, present = np.array(ids, dtype="S64"), np.zeros(len(ids), dtype=bool)
    for batch in store.scan(table, ["id", "vector"]) if store.has(table) else ():
        found = np.array(batch.column("id").to_pylist(), dtype="S64")
        vectors = batch.column("vector").flatten().to_numpy(zero_copy_only=False).reshape(len(found), -1)
        if vectors.shape[1] != matrix.shape[1]:
            raise CheckpointError(
                f"{table}: vectors of width {vectors.shape[1]}, expected {matrix.shape[1]}; index again"
            )
        _refuse(table, found, vectors)
        rows = np.minimum(np.searchsorted(order, found), len(order) - 1)
        real = order[rows] == found
        matrix[rows[real]] = vectors[real]
        present[rows[real]] = True
    return present


def _refuse(table: str, ids: NDArray[np.bytes_], vectors: HalfArray) -> None:
    """Let no vector in that says nothing, or poisons every score."""
    good = usable_rows(vectors)
    if not good.all():
        first = ids[int(np.argmin(good))].decode()
        count = counted(int((~good).sum()), "vector")
        raise NumericsError(
            f"{table}: the vector of picture {first[:12]} is not finite or all zeros ({count} of a block);"
            " 'limner verify LIBRARY --repair' takes it out, 'limner index' makes it again"
        )


def _forget(cache: Path, state: str) -> None:
    """Remove older states and what was derived from them; hidden files are drafts of another process."""
    for old in cache.glob("[!.]*"):
        if not old.name.startswith(f"{state}."):
            # Windows keeps a file that another process has mapped; a later build removes it.
            with suppress(PermissionError):
                old.unlink()
