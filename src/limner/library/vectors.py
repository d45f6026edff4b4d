"""Vectors of a whole library as memory-mapped arrays, built once per state of its tables.

A search is one product over all pictures; reading a million vectors out of the tables for each would take
seconds. The cache may be deleted at any time. It holds no truth of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from limner.errors import CheckpointError, DataError
from limner.files import replacing
from limner.library.gallery import Derived, Space
from limner.library.store import PICTURES, Store

if TYPE_CHECKING:
    from limner.library.settings import SpaceInfo


@dataclass(frozen=True)
class PresentPictures:
    """Ids of the pictures with a file, sorted, and the near-duplicate group of each."""

    ids: list[str]
    groups: list[str]


def present_pictures(store: Store) -> PresentPictures:
    """All pictures that some file still holds."""
    pairs: list[tuple[str, str]] = []
    for batch in store.scan(PICTURES, ["id", "group"], "array_length(paths) > 0"):
        ids, groups = (batch.column(name).to_pylist() for name in ("id", "group"))
        pairs += zip(ids, groups, strict=True)
    pairs.sort()
    same = {one: one for one, _ in pairs}
    # Most pictures are their own group; sharing the text halves the memory.
    return PresentPictures([one for one, _ in pairs], [same.get(group, group) for _, group in pairs])


def rows_of(ids: Sequence[str], wanted: Sequence[str]) -> NDArray[np.int64]:
    """Positions of ids in a sorted sequence of ids.

    Raises:
        DataError: one is not in it.
    """
    known = {one: row for row, one in enumerate(ids)}
    missing = [one for one in wanted if one not in known]
    if missing:
        raise DataError(f"gallery: no picture {missing[0]} in the library")
    return np.array([known[one] for one in wanted], dtype=np.int64)


def cached_space(store: Store, cache: Path, table: str, info: SpaceInfo, ids: Sequence[str]) -> Space:
    """Vectors of one space for pictures in this order, from the cache or built into it.

    Args:
        store: the tables.
        cache: folder of this space's cache.
        table: name of the space's table.
        info: who made the vectors.
        ids: M sorted ids.
    Returns:
        (M, D) float16, mapped read-only; zero rows where a picture has no vector.
    """
    versions = (store.version(PICTURES), store.version(table)) if store.has(table) else (0, 0)
    state = f"{versions[0]}-{versions[1]}"
    matrix_path, present_path = cache / f"{state}.npy", cache / f"{state}.present.npy"
    if not ids:
        return Space(np.zeros((0, info.dim), dtype=np.float16), np.zeros(0, dtype=bool), info.fingerprint)
    kept = _read(matrix_path, present_path, (len(ids), info.dim))
    if kept is None:
        cache.mkdir(parents=True, exist_ok=True)
        # The matrix appears last and whole: where it is, the other file is complete.
        with replacing(matrix_path, sync=False) as draft, present_path.open("wb") as stream:
            np.save(stream, _build(store, table, ids, info.dim, draft), allow_pickle=False)
        _forget(cache, state)
        kept = _read(matrix_path, present_path, (len(ids), info.dim))
    if kept is None:
        raise CheckpointError(f"{matrix_path}: not as it was written; remove the folder {cache}")
    return Space(*kept, info.fingerprint, Derived(matrix_path))


def _read(
    matrix_path: Path, present_path: Path, shape: tuple[int, int]
) -> tuple[NDArray[np.float16], NDArray[np.bool_]] | None:
    """Matrix, mapped, and which rows are present; None where either is absent, damaged or of another size."""
    if not (matrix_path.exists() and present_path.exists()):
        return None
    try:
        # np.load would also take an archive or ask whether to unpickle; these read this one format alone.
        matrix = np.lib.format.open_memmap(matrix_path, mode="r")
        with present_path.open("rb") as stream:
            present = np.lib.format.read_array(stream, allow_pickle=False)
    # The cache holds no truth, so a damaged file is made again like an absent one.
    except (ValueError, EOFError):
        return None
    whole = matrix.shape == shape and matrix.dtype == np.dtype(np.float16)
    whole = whole and present.shape == shape[:1] and present.dtype == np.dtype(np.bool_)
    return (matrix, present) if whole else None


def _build(store: Store, table: str, ids: Sequence[str], dim: int, draft: Path) -> NDArray[np.bool_]:
    """Stream a table of vectors into a matrix file in the order of `ids`; return which rows were met."""
    order = np.array(ids, dtype="S64")
    present = np.zeros(len(ids), dtype=bool)
    matrix = np.lib.format.open_memmap(draft, mode="w+", dtype=np.float16, shape=(len(ids), dim))
    for batch in store.scan(table, ["id", "vector"]) if store.has(table) else ():
        found = np.array(batch.column("id").to_pylist(), dtype="S64")
        vectors = batch.column("vector").flatten().to_numpy(zero_copy_only=False).reshape(len(found), -1)
        if vectors.shape[1] != dim:
            raise CheckpointError(
                f"{table}: vectors of width {vectors.shape[1]}, expected {dim}; index again"
            )
        rows = np.minimum(np.searchsorted(order, found), len(order) - 1)
        real = order[rows] == found
        matrix[rows[real]] = vectors[real]
        present[rows[real]] = True
    matrix.flush()
    return present


def _forget(cache: Path, state: str) -> None:
    """Remove older states and what was derived from them."""
    for old in (one for ending in ("npy", "npz", "bf16") for one in cache.glob(f"*.{ending}")):
        if not old.name.startswith(f"{state}."):
            try:
                old.unlink()
            except PermissionError:
                # Windows keeps a file that another process has mapped; a later build removes it.
                continue
