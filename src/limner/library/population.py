"""What a search needs of all pictures of a library, taken in one pass and kept in the library.

Means and spreads of cosines need the first two moments of a space's vectors. How well the library as a whole
answers a text needs the score of every picture: those found are scored, and a sample stands for the others.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from limner.arrays import FloatArray
from limner.errors import DataError
from limner.library.catalogue import IntArray
from limner.library.store import PICTURES, PRESENT, STATISTICS, STATISTICS_SCHEMA, Store
from limner.library.vector_table import VectorTable
from limner.library.vectors import Float64Array, HalfArray, Moments

SAMPLE = 16_384
"""Pictures of the sample, about; of a library with fewer it is all of them."""
KEPT = 100
"""Rows kept as the exact answer to a query: the 50 nearest, and those that are as near as the last."""
IDS = "pictures"
_TIE = 1e-6
_DIGITS = 16


@dataclass(frozen=True)
class Statistics:
    """What is known of all vectors of a space.

    Attributes:
        moments: of those of present pictures.
        held: number of those.
        ids: (n,) pictures of the sample that have a vector, 64 hexadecimal digits, ascending.
        vectors: (n, D) theirs.
    """

    moments: Moments
    held: int
    ids: NDArray[np.bytes_]
    vectors: HalfArray


@dataclass(frozen=True)
class Answer:
    """The exact answer to Q queries.

    Attributes:
        rows: (Q, K) row numbers of the nearest vectors, in no order.
        good: (Q, K) which of them are among the 50 nearest, or as near as the last of those.
    """

    rows: IntArray
    good: NDArray[np.bool_]

    def of(self, some: slice) -> Answer:
        """That to some of the queries."""
        return Answer(self.rows[some], self.good[some])

    def recall(self, found: Sequence[IntArray], wanted: int) -> Float64Array:
        """(Q,) share of the nearest `wanted` that is among the rows found for each query."""
        each = zip(self.rows, self.good, found, strict=True)
        hits = [np.count_nonzero(np.isin(rows[good], some)) for rows, good, some in each]
        most = np.minimum(wanted, np.count_nonzero(self.good, axis=1))
        return np.asarray(np.minimum(hits, most) / np.maximum(most, 1), dtype=np.float64)


def sample_ids(store: Store, pictures: int, size: int = SAMPLE) -> NDArray[np.bytes_]:
    """Ids of a random sample of the present pictures, ascending.

    An id is the SHA-256 of a picture's content: those below a bound are as good as drawn by chance, the same
    ones every time.

    Args:
        store: the tables.
        pictures: present ones.
        size: of the sample, about.
    """
    below = ""
    if pictures > size:
        bound = f"{int(size / pictures * 16**_DIGITS):0{_DIGITS}x}"
        below = f" AND id < '{bound}'"
    ids = [batch.column("id").to_pylist() for batch in store.scan(PICTURES, ["id"], PRESENT + below)]
    return np.sort(np.array([one for some in ids for one in some], dtype="S64"))


def survey(
    table: VectorTable,
    sample: NDArray[np.bytes_],
    gone: NDArray[np.bytes_],
    queries: FloatArray,
    wanted: int,
) -> tuple[Statistics, Answer]:
    """One pass over all vectors of a space: their moments, the sample, and the exact answer to some queries.

    The mean of the first block is taken off everything before the products, so that a narrow cone of vectors
    loses no digits.

    Args:
        table: the vectors.
        sample: ids of the sample, ascending.
        gone: ids of the deleted pictures, ascending; their vectors do not count in the statistics.
        queries: (Q, D) float32 rows of unit length.
        wanted: nearest vectors asked for, below `KEPT`.
    Raises:
        DataError: the table is damaged.
    """
    width, held = queries.shape[1], 0
    total, products = np.zeros(width), np.zeros((width, width))
    centre: FloatArray | None = None
    best = np.full((len(queries), KEPT), -np.inf, dtype=np.float32)
    best_rows: IntArray = np.full((len(queries), KEPT), -1, dtype=np.int64)
    drawn: list[tuple[NDArray[np.bytes_], HalfArray]] = []
    for rows, names, vectors in table.batches():
        ids, exact = np.array(names, dtype="S64"), vectors.astype(np.float32)
        cosines = np.concatenate([best, queries @ exact.T], axis=1)
        numbers = np.concatenate([best_rows, np.broadcast_to(rows, (len(queries), len(rows)))], axis=1)
        place = np.argpartition(-cosines, KEPT - 1, axis=1)[:, :KEPT]
        best, best_rows = np.take_along_axis(cosines, place, 1), np.take_along_axis(numbers, place, 1)
        drawn.append((ids[_held(sample, ids)], vectors[_held(sample, ids)]))
        there = exact[~_held(gone, ids)] if len(gone) else exact
        centre = there.mean(axis=0) if centre is None and len(there) else centre
        if len(there) and centre is not None:
            block = there - centre
            total += block.sum(axis=0)
            products += block.T @ block
            held += len(block)
    middle = np.zeros(width) if centre is None else centre.astype(np.float64)
    shift = total / max(held, 1)
    made = Moments(shift + middle, products / max(held, 1) - np.outer(shift, shift))
    names_of = np.concatenate([np.zeros(0, "S64"), *(ids for ids, _ in drawn)])
    rows_of = np.concatenate([np.zeros((0, width), np.float16), *(some for _, some in drawn)])
    order = np.argsort(names_of)
    last = -np.partition(-best, wanted - 1, axis=1)[:, wanted - 1 : wanted]
    good = (best >= last - _TIE) & (best_rows >= 0)
    return Statistics(made, held, names_of[order], rows_of[order]), Answer(best_rows, good)


def _held(some: NDArray[np.bytes_], ids: NDArray[np.bytes_]) -> NDArray[np.bool_]:
    """(R,) which ids are among some that are in order."""
    if not len(some):
        return np.zeros(len(ids), dtype=bool)
    return np.asarray(some[np.minimum(np.searchsorted(some, ids), len(some) - 1)] == ids)


def write_statistics(store: Store, sample: NDArray[np.bytes_], spaces: dict[str, Statistics]) -> None:
    """Keep the statistics of all spaces in the library, in one step."""
    rows = [{"id": IDS, "data": _packed(ids=sample)}]
    rows += [
        {
            "id": space,
            "data": _packed(
                mean=one.moments.mean,
                covariance=one.moments.covariance,
                held=np.int64(one.held),
                ids=one.ids,
                vectors=one.vectors,
            ),
        }
        for space, one in spaces.items()
    ]
    store.upsert(STATISTICS, pa.Table.from_pylist(rows, schema=STATISTICS_SCHEMA))


def read_statistics(store: Store, spaces: Sequence[str]) -> tuple[NDArray[np.bytes_], dict[str, Statistics]]:
    """Ids of the sample and the statistics of some spaces, as `write_statistics` kept them.

    Raises:
        DataError: they are damaged, or not there.
    """
    wanted = ", ".join(f"'{one}'" for one in (IDS, *spaces))
    held = dict(store.rows(STATISTICS, ["id", "data"], f"id IN ({wanted})"))
    try:
        found = {name: np.load(io.BytesIO(data), allow_pickle=False) for name, data in held.items()}
        statistics = {
            space: Statistics(
                Moments(found[space]["mean"], found[space]["covariance"]),
                int(found[space]["held"]),
                found[space]["ids"],
                found[space]["vectors"],
            )
            for space in spaces
        }
        return found[IDS]["ids"], statistics
    # A zip file of arrays that is damaged raises nearly anything, from zipfile, zlib, struct or tokenize.
    except Exception as error:
        reason = " ".join(str(error).split())[:80]
        raise DataError(
            f"table {STATISTICS!r}: damaged or not complete ({reason}); run 'limner index' again"
        ) from error


def _packed(**arrays: NDArray[np.generic] | np.generic) -> bytes:
    held = io.BytesIO()
    np.savez(held, allow_pickle=False, **arrays)
    return held.getvalue()
