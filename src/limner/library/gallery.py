"""The pictures a search runs over, and their vectors as arrays.

A library keeps its vectors in files that are mapped into memory, and beside them what searches need of all
vectors at once. A file names the state of the tables, or of the vectors, that it was made from; where the
state has changed it is made again.
"""

from __future__ import annotations

import errno
import math
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from limner.errors import CheckpointError, DataError, unknown
from limner.files import replacing, reserve
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
    """

    matrix: HalfArray
    present: BoolArray
    fingerprint: str = ""
    file: Path | None = None

    @cached_property
    def moments(self) -> Moments:
        """Moments of the present rows.

        Raises:
            NumericsError: a vector is not finite.
        """

        def fill(rows: NDArray[Any]) -> None:
            made = moments(self.matrix, self.present)
            rows[0], rows[1:] = made.mean, made.covariance

        width = self.matrix.shape[1]
        rows = self._derived("moments", (width + 1, width), np.float64, fill)
        return Moments(rows[0], rows[1:])

    @cached_property
    def coarse(self) -> Tensor:
        """(M, D) the vectors in bfloat16.

        Raises:
            NumericsError: a vector is not finite.
        """
        bits = self._derived("bf16", self.matrix.shape, np.int16, lambda rows: round_into(rows, self.matrix))
        return torch.from_numpy(bits).view(torch.bfloat16)

    def _derived(
        self, ending: str, shape: tuple[int, ...], kind: type[np.generic], fill: Fill
    ) -> NDArray[Any]:
        """What is computed from the vectors: from its file, where there is or can be one."""
        if self.file is not None and self.file.exists():
            status = self.file.stat()
            state = f"{status.st_size:x}-{status.st_mtime_ns:x}-{status.st_ino:x}"
            path = self.file.with_suffix(f".{state}.{ending}.npy")
            # Copy-on-write, since torch takes no read-only memory; nothing is ever written.
            kept = mapped(path, shape, kind, "c")
            # A library on a read-only disc is searched too, only not as soon.
            if kept is None and os.access(path.parent, os.W_OK):
                write_array(path, shape, kind, fill)
                kept = mapped(path, shape, kind, "c")
            if kept is not None:
                return kept
        made = np.empty(shape, dtype=kind)
        fill(made)
        return made


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
    form = {"descr": np.dtype(kind).str, "fortran_order": False, "shape": shape}
    size = math.prod(shape) * np.dtype(kind).itemsize
    with replacing(path, sync=False, wanted=size) as draft:
        with draft.open("wb") as file:
            np.lib.format.write_array_header_1_0(file, form)
            reserve(file, size)
        fill(np.lib.format.open_memmap(draft, mode="r+"))


def mapped(
    path: Path, shape: tuple[int, ...], kind: type[np.generic], mode: Literal["r", "c"] = "r"
) -> NDArray[Any] | None:
    """An array mapped from its file; None where that is absent, damaged, or of another array."""
    try:
        # np.load would also take an archive or ask whether to unpickle; this reads one format alone.
        array = np.lib.format.open_memmap(path, mode=mode)
    # A cache holds no truth, so a damaged file is made again like an absent one.
    except (OSError, ValueError, EOFError):
        return None
    return array if array.shape == shape and array.dtype == kind else None


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

    def read() -> tuple[NDArray[Any] | None, NDArray[Any] | None]:
        return mapped(path, shape, np.float16), mapped(present_path, shape[:1], np.bool_)

    matrix, present = read()
    if matrix is None or present is None:
        try:
            cache.mkdir(parents=True, exist_ok=True)
            write_array(path, shape, np.float16, fill)
        except OSError as error:
            if error.errno not in _NOT_OURS:
                raise
            held = np.zeros(shape, dtype=np.float16)
            return Space(held, _fill(held, store, table, ids), info.fingerprint)
        _forget(cache, state)
        matrix, present = read()
    if matrix is None or present is None:
        raise CheckpointError(f"{path}: not as it was written; remove the folder {cache}")
    return Space(matrix, np.array(present), info.fingerprint, path)


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
        rows = np.minimum(np.searchsorted(order, found), len(order) - 1)
        real = order[rows] == found
        matrix[rows[real]] = vectors[real]
        present[rows[real]] = True
    return present


def _forget(cache: Path, state: str) -> None:
    """Remove older states and what was derived from them; hidden files are drafts of another process."""
    for old in cache.glob("[!.]*"):
        if not old.name.startswith(f"{state}."):
            # Windows keeps a file that another process has mapped; a later build removes it.
            with suppress(PermissionError):
                old.unlink()
