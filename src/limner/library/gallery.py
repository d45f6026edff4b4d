"""The pictures a search runs over, as arrays, and what searches need of them: passes over blocks of rows on
every core, a bfloat16 copy, and moments.

The copy and the moments cost a pass over all vectors, so a library keeps them in files beside its vectors;
these name the vectors they were made from, and are made again when those have changed.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar
from zipfile import BadZipFile

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from limner.arrays import FloatArray, expect, scores
from limner.errors import CheckpointError, DataError, NumericsError, unknown
from limner.files import replacing
from limner.library.store import PICTURES, Store
from limner.threads import one_core_each

if TYPE_CHECKING:
    from limner.library.store import SpaceInfo


HalfArray = NDArray[np.float16]
BoolArray = NDArray[np.bool_]
IntArray = NDArray[np.int64]
Float64Array = NDArray[np.float64]
T = TypeVar("T")

ROUNDOFF = 2.0**-8
"""Largest relative error of rounding to bfloat16 (8 significant bits)."""

GATHERED_ROWS = 512
"""Scattered rows read before the pages around them are let go."""

ALONE_PRODUCTS, SMALLEST_GATHER = 250_000, 8
"""Multiplications below which a product runs on one core, and rows below which that is not worth it.

A larger product wakes threads that go on spinning, and so take the cores from the next pass.
"""

CENTRE_ROWS = 1_000
"""Rows whose mean is taken for about that of all."""

FEW_TEXTS = 64
"""Texts up to which sums are taken one by one."""

DOUBTFUL = 1e-3
"""Variance, in parts of the covariance's norm, below which float32 is not exact enough."""

SMALLEST_STD = 1e-6
"""Below this the cosines of a text are all equal up to rounding; their spread counts as 0."""


@dataclass(frozen=True)
class Space:
    """Vectors of one space for M pictures.

    Attributes:
        matrix: (M, D) float16 rows of unit length, often memory-mapped; rows of absent pictures
            are zero.
        present: (M,) True where the picture has a vector in this space.
        fingerprint: of the encoder that made them.
        derived: files that spare a search passes over the vectors; None where there are none.
    """

    matrix: HalfArray
    present: BoolArray
    fingerprint: str = ""
    derived: Derived | None = None


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

    def __post_init__(self) -> None:
        """Check that everything speaks of the same M pictures."""
        if len(self.ids) != len(self.groups):
            raise DataError(f"gallery: {len(self.ids)} ids but {len(self.groups)} groups")
        for name, space in self.spaces.items():
            sizes = expect(
                f"gallery space {name}", matrix=(space.matrix, "M D"), present=(space.present, "M")
            )
            if sizes["M"] != len(self.ids):
                raise DataError(f"gallery space {name}: {sizes['M']} rows for {len(self.ids)} ids")

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


def over_blocks(rows: int, block_rows: int, work: Callable[[int, int], T]) -> Iterator[tuple[int, T]]:
    """Call `work` for every block of rows, several at a time.

    Args:
        rows: how many there are.
        block_rows: rows of a block.
        work: (first row, row after the last) → result; called in threads.
    Yields:
        First row and result of each block, in order; few results wait at a time.
    """
    blocks = [(start, min(start + block_rows, rows)) for start in range(0, rows, block_rows)]
    threads = torch.get_num_threads()
    if min(threads, len(blocks)) < 2:
        yield from ((start, work(start, stop)) for start, stop in blocks)
        return
    yield from one_core_each(blocks, lambda block: (block[0], work(*block)), workers=threads)


class Pool:
    """The best values of one text so far, and their rows."""

    def __init__(self, kept: int) -> None:
        """Start empty.

        Args:
            kept: how many are wanted, at least 1.
        """
        self._kept = kept
        self._floor = -np.inf
        self._values: FloatArray = np.zeros(0, dtype=np.float32)
        self._rows: IntArray = np.zeros(0, dtype=np.int64)

    def add(self, values: FloatArray, start: int) -> None:
        """Take in the values of one block; only those above the worst kept can matter.

        Args:
            values: (R,).
            start: row of the first.
        """
        found = np.flatnonzero(values > self._floor)
        if len(found):
            self._values = np.concatenate([self._values, values[found]])
            self._rows = np.concatenate([self._rows, found + start])
        if len(self._values) > 2 * self._kept:
            self._cut()

    def best(self) -> tuple[FloatArray, IntArray]:
        """(K,) values and rows, in no order; K is what is wanted or all there is, if less."""
        if len(self._values) > self._kept:
            self._cut()
        return self._values, self._rows

    def _cut(self) -> None:
        order = np.argpartition(-self._values, self._kept - 1)[: self._kept]
        self._values, self._rows = self._values[order], self._rows[order]
        self._floor = float(self._values.min())


@dataclass(frozen=True)
class Coarse:
    """A space in bfloat16.

    Attributes:
        matrix: (M, D) bfloat16 rows.
        present: (M,) bool, or None where every picture is present.
        error: largest Euclidean distance between a row and its copy.
    """

    matrix: Tensor
    present: BoolArray | None
    error: float

    def query(self, texts: FloatArray) -> tuple[Tensor, FloatArray]:
        """Texts as a bfloat16 matrix, and how wrong a product with a row can be.

        Args:
            texts: (N, D) rows of length at most 1.
        Returns:
            (D, N) bfloat16, and (N,) bounds of |q·v − q̂·v̂| before the product is rounded:
            ‖q − q̂‖‖v̂‖ + ‖q‖‖v − v̂‖.
        """
        exact = torch.from_numpy(np.array(texts, dtype=np.float32))
        rounded = exact.bfloat16()
        own = (exact - rounded.float()).norm(dim=1)
        # Unit rows kept as float16 may be longer than 1 by its rounding; 1 % covers both copies.
        bound = 1.01 * (own + exact.norm(dim=1) * self.error) + 1e-6
        return rounded.T.contiguous(), bound.numpy()


def coarse(name: str, space: Space) -> Coarse:
    """Copy a space to bfloat16.

    Args:
        name: of the space, for messages.
        space: (M, D) rows.
    Raises:
        NumericsError: a row is not finite.
    """
    copy = torch.empty(space.matrix.shape, dtype=torch.bfloat16)
    start, error = 0, 0.0
    for block, worst in rounded_blocks(name, space):
        copy[start : start + len(block)] = block
        start, error = start + len(block), max(error, worst)
    present = None if space.present.all() else np.array(space.present)
    return Coarse(copy, present, error)


def rounded_blocks(name: str, space: Space, *, block_rows: int = 4_096) -> Iterator[tuple[Tensor, float]]:
    """Blocks of a space in bfloat16; of a memory map, pages already copied are let go.

    Args:
        name: of the space, for messages.
        space: (M, D) rows.
        block_rows: rows held in float32 at a time.
    Yields:
        (R, D) bfloat16, and the largest Euclidean distance between one of these rows and its copy.
    Raises:
        NumericsError: a row is not finite.
    """

    def rounded(start: int, stop: int) -> tuple[Tensor, float]:
        exact = torch.from_numpy(np.array(space.matrix[start:stop])).float()
        block = exact.bfloat16()
        return block, float(exact.sub_(block).square_().sum(dim=1).max().sqrt())

    for start, (block, worst) in over_blocks(len(space.matrix), block_rows, rounded):
        if not np.isfinite(worst):
            raise NumericsError(
                f"space {name}: a row from {start} to {start + len(block) - 1} is not finite; "
                "index its pictures again"
            )
        yield block, worst
        let_go(space.matrix)


def widened(product: Tensor) -> FloatArray:
    """(R, N) bfloat16 → (N, R) float32, exact.

    In NumPy on purpose: passes this short cost more in waking torch's threads than in work.
    """
    bits = product.view(torch.int16).numpy().view(np.uint16).T.astype(np.uint32, order="C")
    bits <<= 16
    return bits.view(np.float32)


def exact_scores(texts: FloatArray, matrix: HalfArray, rows: IntArray) -> FloatArray:
    """Cosines of every text with some rows, in float32; of a memory map, few pages stay behind.

    A system may map megabytes around every row touched; letting go now and then bounds that.

    Args:
        texts: (N, D) rows of unit length.
        matrix: (M, D) rows.
        rows: (R,) row numbers.
    Returns:
        (N, R).
    Raises:
        NumericsError: a score is not finite.
    """
    step = ALONE_PRODUCTS // max(texts.size, 1)
    if step < SMALLEST_GATHER:
        step = GATHERED_ROWS
    table: FloatArray = np.empty((len(texts), len(rows)), dtype=np.float32)
    plain = np.asarray(matrix)  # a memory map takes longer over each selection

    def fill(first: int, last: int) -> None:
        some = plain[rows[first:last]].astype(np.float32)
        let_go(matrix)
        for start in range(first, last, step):
            stop = min(start + step, last)
            table[:, start:stop] = scores(texts, some[start - first : stop - first])

    for _ in over_blocks(len(rows), GATHERED_ROWS, fill):
        pass
    return table


def let_go(matrix: HalfArray) -> None:
    """Tell the system that the pages of a read-only memory map may leave this process.

    Args:
        matrix: (M, D) rows; anything but a read-only map is left alone.
    """
    owner: object = matrix
    while isinstance(owner, np.ndarray):
        owner = owner.base
    # A writable private map would lose what was written to it.
    if isinstance(owner, mmap.mmap) and not matrix.flags.writeable and sys.platform != "win32":
        with contextlib.suppress(OSError):  # advice only: the pages simply stay
            owner.madvise(mmap.MADV_DONTNEED)


@dataclass(frozen=True)
class Moments:
    """First two moments of the present rows of a space.

    Attributes:
        count: number of present rows.
        mean: (D,) their mean.
        covariance: (D, D) their covariance, divisor `count`.
    """

    count: int
    mean: Float64Array
    covariance: Float64Array

    def of_cosines(self, texts: FloatArray) -> tuple[Float64Array, Float64Array]:
        """Mean and standard deviation of each text's cosines over the present rows.

        Args:
            texts: (N, D) rows of unit length.
        Returns:
            (N,) means and (N,) standard deviations; a spread that is only rounding is 0.
        """
        expect("moments.of_cosines", texts=(texts, "N D"), mean=(self.mean, "D"))
        queries = np.asarray(texts, dtype=np.float64)
        if len(queries) <= FEW_TEXTS:
            # Waking the product's threads, which then spin, takes longer than the sums.
            variance = _quadratic(queries, np.einsum("nd,de->ne", queries, self.covariance))
        else:
            single, size = self._single
            variance = _quadratic(queries, np.asarray(texts, dtype=np.float32) @ single)
            close = np.flatnonzero(variance < DOUBTFUL * size)  # a small difference of large numbers
            variance[close] = _quadratic(queries[close], queries[close] @ self.covariance)
        std = np.sqrt(np.maximum(variance, 0.0))
        return queries @ self.mean, np.where(std < SMALLEST_STD, 0.0, std)

    @cached_property
    def _single(self) -> tuple[FloatArray, float]:
        """The covariance in float32, and its norm."""
        return self.covariance.astype(np.float32), float(np.linalg.norm(self.covariance))


def _quadratic(queries: Float64Array, turned: Float64Array | FloatArray) -> Float64Array:
    return np.asarray(np.einsum("nd,nd->n", turned, queries), dtype=np.float64)


def moments(space: Space, *, block_rows: int = 4_096) -> Moments:
    """Moments of the present rows of a space, in one pass of blocks.

    The mean of the first rows is taken off everything before the products, so that a narrow cone of
    vectors loses no digits; sums over blocks are float64.

    Args:
        space: (M, D) rows and which of them are present.
        block_rows: rows held in float32 at a time.
    Raises:
        NumericsError: a present row is not finite.
    """
    rows, width = space.matrix.shape
    count = int(np.count_nonzero(space.present))
    total = torch.zeros(width, dtype=torch.float64)
    products = torch.zeros(width, width, dtype=torch.float64)
    some = np.flatnonzero(space.present)[:CENTRE_ROWS]
    centre = torch.from_numpy(space.matrix[some]).float().mean(dim=0) if count else torch.zeros(width)

    def sums(start: int, stop: int) -> tuple[Tensor, Tensor]:
        block = _present(space, start, stop).sub_(centre)
        return block.sum(dim=0), block.T @ block

    for _, (one, two) in over_blocks(rows, block_rows, sums):
        total += one
        products += two
        let_go(space.matrix)
    if not bool(torch.isfinite(total).all()):
        raise NumericsError("moments: the space has a row that is not finite; index its pictures again")
    shift = total / max(count, 1)
    covariance = products / max(count, 1) - torch.outer(shift, shift)
    return Moments(count, (shift + centre).numpy(), covariance.numpy())


def _present(space: Space, start: int, stop: int) -> Tensor:
    """The present rows of one block, (R, D) float32."""
    present = space.present[start:stop]
    block = space.matrix[start:stop]
    kept = np.array(block) if present.all() else block[present]
    return torch.from_numpy(kept).float()


@dataclass(frozen=True)
class Derived:
    """Files derived from one file of vectors; read or made on first use.

    Attributes:
        source: the file of vectors; the derived ones lie beside it and share its stem.
    """

    source: Path

    def moments(self, space: Space) -> Moments:
        """Moments of the space that the file holds.

        Args:
            space: the vectors of the file, and which are present.
        Raises:
            NumericsError: a vector is not finite.
        """
        path = self.source.with_suffix(".moments.npz")
        kept = self._read(path, "count", "mean", "covariance")
        if kept is not None:
            return Moments(int(kept["count"]), kept["mean"], kept["covariance"])
        made = moments(space)
        if self._writable():
            self._write(path, count=np.array(made.count), mean=made.mean, covariance=made.covariance)
        return made

    def coarse(self, name: str, space: Space) -> Coarse:
        """Bfloat16 copy of the space that the file holds, memory-mapped.

        Args:
            name: of the space, for messages.
            space: the vectors of the file, and which are present.
        Raises:
            NumericsError: a vector is not finite.
        """
        path, note = self.source.with_suffix(".bf16"), self.source.with_suffix(".bf16.npz")
        kept = self._read(note, "error")
        if kept is None or not path.exists() or path.stat().st_size != 2 * space.matrix.size:
            if not self._writable() or not space.matrix.size:
                return coarse(name, space)
            kept = {"error": np.array(self._copy(path, name, space))}
            # The note comes last: where it is, the copy is complete.
            self._write(note, **kept)
        # Copy-on-write, since torch takes no read-only memory; nothing is ever written.
        bits = np.memmap(path, dtype=np.int16, mode="c", shape=space.matrix.shape)
        present = None if space.present.all() else np.array(space.present)
        return Coarse(torch.from_numpy(bits).view(torch.bfloat16), present, float(kept["error"]))

    def _copy(self, path: Path, name: str, space: Space) -> float:
        """Write the copy; return the largest distance of a row from it."""
        error = 0.0
        with replacing(path, sync=False) as draft, draft.open("wb") as stream:
            for block, worst in rounded_blocks(name, space):
                stream.write(block.view(torch.int16).numpy().tobytes())
                error = max(error, worst)
        return error

    def _stamp(self) -> NDArray[np.int64]:
        """Tells one state of the vectors' file from another."""
        status = self.source.stat()
        return np.array([status.st_size, status.st_mtime_ns, status.st_ino % 2**63], dtype=np.int64)

    def _writable(self) -> bool:
        """A library on a read-only disc is searched too, only not as soon."""
        return os.access(self.source.parent, os.W_OK)

    def _read(self, path: Path, *names: str) -> dict[str, NDArray[np.float64]] | None:
        """Arrays of a file made from the vectors as they are; None where there is no such file."""
        if not path.exists():
            return None
        try:
            with path.open("rb") as stream, np.load(stream, allow_pickle=False) as stored:
                fresh = np.array_equal(stored["stamp"], self._stamp())
                return {name: stored[name] for name in names} if fresh else None
        # A damaged file is made again like a stale one.
        except (OSError, ValueError, KeyError, EOFError, BadZipFile):
            return None

    def _write(self, path: Path, **arrays: NDArray[np.generic]) -> None:
        with replacing(path, sync=False) as draft, draft.open("wb") as stream:
            np.savez(stream, allow_pickle=False, stamp=self._stamp(), **arrays)


def present_pictures(store: Store) -> tuple[list[str], list[str]]:
    """Ids of all pictures that some file still holds, sorted, and the near-duplicate group of each."""
    pairs: list[tuple[str, str]] = []
    for batch in store.scan(PICTURES, ["id", "group"], "array_length(paths) > 0"):
        pairs += zip(*(batch.column(name).to_pylist() for name in ("id", "group")), strict=True)
    pairs.sort()
    same = {one: one for one, _ in pairs}
    # Most pictures are their own group; sharing the text halves the memory.
    return [one for one, _ in pairs], [same.get(group, group) for _, group in pairs]


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
