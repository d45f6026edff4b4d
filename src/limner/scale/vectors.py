"""Pictures of a search with their vectors: one memory-mapped file per space."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar

import numpy as np
from numpy.typing import NDArray

from limner.arrays import FloatArray, expect, usable_rows
from limner.checksums import checksum
from limner.devices import ahead, cores, one_core_products
from limner.errors import CheckpointError, DataError, NumericsError, counted, unknown
from limner.scale.catalogue import BoolArray, Catalogue, Groups, Ids, IntArray, RawIds, raw_ids, text_of
from limner.scale.store import TableState, TableStore, vectors_name

if TYPE_CHECKING:
    from limner.scale.cache import Cache
    from limner.store import SpaceInfo

T = TypeVar("T")
HalfArray = NDArray[np.float16]
Float64Array = NDArray[np.float64]
BLOCK_ROWS = 4_096
"""Number of rows converted to float64 at a time."""

UNITS = np.float64(2**18)
"""Number of values of a block of `sums`, which are converted to float64."""

FEW_TEXTS = 64
"""Number of texts up to which products are computed in parts on one core each."""

ALONE_PRODUCTS = 250_000
"""Number of multiplications below which a product runs on one core.

A larger one wakes threads that keep spinning and so block cores for the next pass.
"""

SMALLEST_STD = 1e-6
"""Standard deviation of a text's cosines below which they are equal up to rounding, and it counts as 0."""
_PLACES, _MASK, _SCALE, _ABOVE = 13, np.int32(-0x70002000), np.float32(2.0**112), 65536.0
"""For converting float16 to float32: shifts, bits, missing exponent and infinity."""
_FORMAT = 1


@dataclass(frozen=True)
class TableSpace:
    """Vectors of one space for M pictures.

    Attributes:
        matrix: (M, D) float16 rows of length 1, often memory-mapped; 0 where a picture has no vector.
        present: (M,) True where it has one.
        fingerprint: fingerprint of the encoder that made them.
        total: (D + 1, D) `sums` of the rows, if known.
    """

    matrix: HalfArray
    present: BoolArray
    fingerprint: str = ""
    total: IntArray | None = field(default=None, repr=False)

    def vectors(self, rows: Sequence[int] | NDArray[np.int64]) -> FloatArray:
        """Copies (R, D) in float32 of the vectors of some pictures; zero for pictures without one."""
        return self.matrix[np.asarray(rows, dtype=np.int64)].astype(np.float32)

    @cached_property
    def single(self) -> FloatArray:
        """All vectors (M, D) in float32, cached; for small spaces.

        Raises:
            NumericsError: a vector is not finite.
        """
        return float_rows(self.matrix, 0, len(self.matrix))

    @cached_property
    def moments(self) -> TableMoments:
        """Moments of the existing rows, bit-identical in any order.

        Raises:
            NumericsError: a vector is not finite.
        """
        if self.total is not None:
            return moments(self.total, self.held)
        held = None if self.present.all() else np.flatnonzero(self.present)
        return moments(sums(self.matrix, held), self.held)

    @cached_property
    def held(self) -> int:
        """Number of pictures that have a vector."""
        return int(np.count_nonzero(self.present))


@dataclass(frozen=True)
class TableGallery:
    """M pictures and their vectors.

    Attributes:
        ids: M picture ids, all different; those of a library ascend.
        groups: M near-duplicate groups, as ids or numbers.
        spaces: vectors by name of the space.
    """

    ids: Sequence[str]
    groups: Sequence[str] | Groups
    spaces: dict[str, TableSpace]

    def __len__(self) -> int:
        """Number M of pictures."""
        return len(self.ids)

    def space(self, name: str) -> TableSpace:
        """Vectors of one space.

        Raises:
            DataError: the gallery has no such space.
        """
        if name not in self.spaces:
            raise DataError("gallery: " + unknown("space", name, self.spaces))
        return self.spaces[name]

    def rows(self, ids: Iterable[str]) -> IntArray:
        """Rows (K,) of pictures; −1 for unknown ones."""
        if isinstance(self.ids, Ids):
            return self.ids.rows(ids)
        known = {one: row for row, one in enumerate(self.ids)}
        return np.array([known.get(one, -1) for one in ids], dtype=np.int64)


def library_gallery(
    store: TableStore,
    cache: Cache,
    catalogue: Catalogue,
    infos: Mapping[str, SpaceInfo],
    wanted: Collection[str],
) -> TableGallery:
    """All pictures of a catalogue with their vectors, in its order.

    A space's file holds the sums of its vectors, the vectors in the order of the catalogue, and which
    pictures have one.

    Args:
        store: the tables.
        cache: cache of the files.
        catalogue: the pictures.
        infos: all spaces of the library.
        wanted: names of the spaces to load.
    Raises:
        CheckpointError: a vector has another width.
        NumericsError: a vector is not finite or all zeros; the message names the picture.
        DataError: a table is damaged.
    """
    spaces = {}
    for name in wanted:
        info, state = infos[name], store.state(vectors_name(name))
        said = (_FORMAT, catalogue.stamp, state.stamp, info.fingerprint, info.dim)
        write = partial(_write, store, state, catalogue.ids, info.dim)
        held = cache.kept(name, checksum(repr(said).encode()), ".vectors", write)
        count, dim = len(catalogue), info.dim
        sizes = np.cumsum([8 * (dim + 1) * dim, 2 * count * dim])
        spaces[name] = TableSpace(
            np.frombuffer(held[sizes[0] : sizes[1]], np.float16).reshape(count, dim),
            np.frombuffer(held[sizes[1] :], np.bool_),
            info.fingerprint,
            np.frombuffer(held[: sizes[0]], np.int64).reshape(dim + 1, dim),
        )
    return TableGallery(catalogue.ids, catalogue.groups, spaces)


def _write(store: TableStore, state: TableState, ids: Ids, dim: int, file: BinaryIO) -> None:
    """Write the file of a space."""
    matrix, present = np.zeros((len(ids), dim), np.float16), np.zeros(len(ids), dtype=bool)
    for batch in store.scan_state(state, ["id", "vector"]):
        names = raw_ids(batch.column("id"))
        vectors = vectors_of(state.name, batch.column("vector"), names, dim)
        rows = ids.rows_of(names)
        there = rows >= 0
        matrix[rows[there]], present[rows[there]] = vectors[there], True
    for part in (sums(matrix), matrix, present):
        file.write(part.data.cast("B") if part.size else b"")


def vectors_of(table: str, column: Any, ids: RawIds, dim: int) -> HalfArray:  # noqa: ANN401
    """(R, D) vectors of a column.

    Raises:
        CheckpointError: they have another width.
        NumericsError: a vector is all zeros or not finite.
    """
    vectors: HalfArray = column.flatten().to_numpy(zero_copy_only=False).reshape(len(ids), -1)
    if vectors.shape[1] != dim:
        raise CheckpointError(f"{table}: vectors of width {vectors.shape[1]}, expected {dim}; index again")
    good = usable_rows(vectors)
    if not good.all():
        first = int(np.argmin(good))
        raise NumericsError(
            f"{table}: the vector of picture {text_of(ids[first : first + 1])[0][:12]} is not finite or all"
            f" zeros ({counted(int((~good).sum()), 'vector')} of a block); 'limner verify LIBRARY --repair'"
            " removes it, 'limner index' computes it again"
        )
    return vectors


def over_blocks(rows: int, block_rows: int, work: Callable[[int, int], T]) -> Iterator[tuple[int, T]]:
    """Call `work` for every block of rows, several at a time.

    Args:
        rows: number of rows.
        block_rows: rows of a block.
        work: function of the first row and the row after the last; called in threads.
    Yields:
        First row and result of each block, in order, with bounded memory.
    """
    blocks = [(start, min(start + block_rows, rows)) for start in range(0, rows, block_rows)]
    workers = cores()
    with one_core_products():
        yield from ahead(
            blocks,
            lambda block: (block[0], work(*block)),
            workers=workers,
            in_flight=2 * workers + 1,
        )


def single(rows: HalfArray) -> FloatArray:
    """Convert (R, D) rows to float32 by their bits, in half of NumPy's time."""
    wide = np.left_shift(np.ascontiguousarray(rows).view(np.int16), _PLACES, dtype=np.int32)
    wide &= _MASK
    found: FloatArray = wide.view(np.float32)
    found *= _SCALE
    if found.size and not -_ABOVE < found.min() <= found.max() < _ABOVE:
        return rows.astype(np.float32)  # infinity and NaN need NumPy's conversion
    return found


def float_rows(matrix: HalfArray, start: int, stop: int) -> FloatArray:
    """Some rows in float32.

    Args:
        matrix: (M, D) rows.
        start: first row.
        stop: row after the last.
    Raises:
        NumericsError: a row is not finite.
    """
    exact = single(matrix[start:stop])
    if not np.isfinite(float(exact.sum())):
        raise NumericsError(
            f"space: a row from {start} to {stop - 1} is not finite; index its pictures again"
        )
    return exact


@dataclass(frozen=True)
class TableMoments:
    """First two moments of the present rows of a space.

    Attributes:
        mean: (D,) mean.
        covariance: (D, D) covariance; the divisor is the number of rows.
    """

    mean: Float64Array
    covariance: Float64Array

    def of_cosines(self, texts: FloatArray) -> tuple[Float64Array, Float64Array]:
        """Mean and standard deviation of each text's cosines over the present rows.

        Args:
            texts: (N, D) rows of unit length.
        Returns:
            (N,) means and (N,) standard deviations; a deviation within rounding errors is 0.
        """
        expect("moments.of_cosines", texts=(texts, "N D"), mean=(self.mean, "D"))
        # waking threads takes longer than small products
        width = texts.shape[1]
        step = max(ALONE_PRODUCTS // max(texts.size, 1), 1) if len(texts) <= FEW_TEXTS else width
        parts = range(0, width, step)
        turned = np.hstack([texts @ self.covariance[:, first : first + step] for first in parts])
        std = np.sqrt(np.maximum(np.einsum("nd,nd->n", turned, texts), 0.0))
        return texts @ self.mean, np.where(std < SMALLEST_STD, 0.0, std)


def sums(matrix: HalfArray, rows: IntArray | None = None) -> IntArray:
    """Sums over rows of a space, from which its `Moments` follow; exact, so that the order does not matter.

    Each value is rounded to a multiple of 2⁻¹⁸, which leaves float16 values from 2⁻⁸ on unchanged. So sums of
    a block's products stay below 2⁵³ in float64, and those of 10⁸ rows below 2⁶³.

    Args:
        matrix: (M, D) rows of length about 1.
        rows: rows that count; None for all.
    Returns:
        (D + 1, D): the sum of the rows in units of 2⁻¹⁸, and that of their products in units of 2⁻³⁶.
    Raises:
        NumericsError: a row is not finite.
    """
    width, count = matrix.shape[1], len(matrix) if rows is None else len(rows)
    total = np.zeros((width + 1, width), np.int64)

    def add(start: int, stop: int) -> IntArray:
        some = matrix if rows is None else matrix[rows[start:stop]]
        exact = float_rows(some, *((start, stop) if rows is None else (0, stop - start)))
        block = exact * UNITS
        np.rint(block, out=block)
        return np.vstack([block.sum(axis=0), block.T @ block]).astype(np.int64)

    for _, part in over_blocks(count, BLOCK_ROWS, add):
        total += part
    return total


def moments(total: IntArray, count: int) -> TableMoments:
    """Moments of `count` rows from their `sums`; zeros if there are none.

    Args:
        total: (D + 1, D).
        count: number of the rows.
    """
    found = total / max(count, 1)
    mean = found[0] / UNITS
    return TableMoments(mean, found[1:] / UNITS**2 - np.outer(mean, mean))
