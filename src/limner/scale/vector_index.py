"""Search indices of the vectors of large libraries, with parameters chosen for a high recall.

The number of partitions to search, and of vectors to compare in full, are chosen on vectors of
the library itself; the recall is measured on other vectors and stored. The same
pass over all vectors computes the statistics that searches need, see `limner.scale.approximate`.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import isqrt
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from limner.arrays import FloatArray, unit_rows
from limner.scale.approximate import IDS, Statistics, VectorTable
from limner.scale.catalogue import IntArray
from limner.scale.store import (
    PICTURES,
    PRESENT,
    RECALL,
    STATISTICS,
    STATISTICS_SCHEMA,
    Approximation,
    TableStore,
    vectors_name,
)
from limner.scale.vectors import Float64Array, HalfArray, TableMoments

if TYPE_CHECKING:
    from limner.progress import Progress
    from limner.scale.library import PictureStore

SAMPLE = 16_384
"""Approximate size of the sample; in a smaller library it is all pictures."""
KEPT = 100
"""Number of rows kept as the exact answer to a query: the 50 nearest, and rows with the same cosine as the
last of these.
"""
_TIE = 1e-6
_DIGITS = 16
WANTED = 50
"""Number of nearest vectors of which the share `RECALL` should be found."""
QUERIES = 256
"""Number of queries for measuring the recall, and of those for choosing the parameters."""
NEAR, FAR = 0.9, 0.5
"""Cosines of the queries with the vectors from which they are derived; each is that of half of the queries.
"""
CANDIDATES = (1_000, 2_000, 4_000)
"""Numbers of vectors compared in full per text, to try."""
SMALLEST_PART, FEW_PARTS = 256, 16
DRIFT = 0.01
"""Relative change of the number of vectors after which everything is measured again."""
STAGE = "search index"


def due(library: PictureStore) -> bool:
    """Whether a library is large enough for search indices, and they are missing or out of date."""
    settings, store = library.settings, library.store
    if not settings.spaces or len(library) < max(settings.approximate_from, 1):
        return False
    return not store.has(STATISTICS) or any(_stale(library, space) for space in settings.spaces)


def prepare(library: PictureStore, progress: Progress, stopped: Callable[[], bool] = lambda: False) -> bool:
    """Build the search indices that are missing, and measure all of them.

    Every index is built atomically, and kept if the process is killed later. Until all are measured, the
    library is searched as before.

    Args:
        library: open for writing.
        progress: receiver of the progress.
        stopped: function called before each space; True ends the work.
    Returns:
        Whether all indices are complete.
    Raises:
        DataError: a table is damaged.
    """
    store = library.store
    spaces = [one for one in library.settings.spaces if store.has(vectors_name(one))]
    progress.stage(STAGE, len(spaces))
    sample = sample_ids(store, len(library))
    away = [batch.column("id").to_pylist() for batch in store.scan(PICTURES, ["id"], f"NOT ({PRESENT})")]
    gone = np.sort(np.array([one for some in away for one in some], dtype="S64"))
    statistics: dict[str, Statistics] = {}
    searches: dict[str, Approximation] = {}
    for space in spaces:
        if stopped():
            return False
        parts = parts_of(store.count(vectors_name(space)))
        table = VectorTable(store, space)
        if parts and table.indexed() < table.rows * (1 - DRIFT):
            store.index_vectors(vectors_name(space), parts)
            table = VectorTable(store, space)
        queries = queries_of(table)
        statistics[space], answer = survey(table, sample, gone, queries, WANTED)
        searches[space] = measure(table, queries, answer, parts)
        progress.advance(1)
    write_statistics(store, sample, statistics)
    library.save(searches=searches)
    return True


def parts_of(rows: int) -> int:
    """Number of partitions for so many vectors; 0 if comparing all of them is as fast.

    The number grows only with the square root of the number of vectors: text vectors are so far from picture
    vectors that most partitions are searched anyway, and to assign a vector to a partition, it is compared
    with every centre.
    """
    return max(isqrt(rows) // 16, min(FEW_PARTS, rows // SMALLEST_PART))


def _stale(library: PictureStore, space: str) -> bool:
    """Whether a space's table has changed since its index was measured, or the index is missing."""
    known = library.settings.searches.get(space)
    if not library.store.has(vectors_name(space)):
        return known is not None
    if known is None:
        return True
    table = VectorTable(library.store, space)
    if known.partitions and not table.indexed():
        return True
    return abs(table.rows - known.rows) > DRIFT * known.rows


def queries_of(table: VectorTable) -> FloatArray:
    """Queries (Q, D): random vectors with noise, alternately far and near; reproducible."""
    rng = np.random.default_rng(0)
    drawn = table.drawn(2 * QUERIES, rng)
    return around(drawn, rng)


def around(vectors: HalfArray | FloatArray, rng: np.random.Generator) -> FloatArray:
    """Unit rows (Q, D) whose cosines with the given ones are `NEAR` and `FAR` alternately."""
    exact = vectors.astype(np.float32)
    if not len(exact):
        return exact
    noise = rng.standard_normal(exact.shape, dtype=np.float32)
    noise -= np.einsum("qd,qd->q", noise, exact)[:, None] * exact
    cosine = np.where(np.arange(len(exact)) % 4 < 2, NEAR, FAR).astype(np.float32)[:, None]
    aside: FloatArray = np.sqrt(1 - cosine**2) * unit_rows("noise", noise)
    return unit_rows("queries", cosine * exact + aside)


def measure(table: VectorTable, queries: FloatArray, answer: Answer, parts: int) -> Approximation:
    """Choose the parameters of an index on every other query, and measure the recall on the rest.

    Args:
        table: the vectors.
        queries: (Q, D).
        answer: exact results of the queries.
        parts: number of partitions; 0 without an index.
    """
    made = Approximation(
        version=table.version,
        rows=table.rows,
        partitions=parts,
        probes=parts,
        candidates=CANDIDATES[0],
        recall=1.0,
        low=1.0,
        high=1.0,
        queries=len(queries) // 2,
    )
    if not parts or len(queries) < 2:
        return made
    chosen, probes, candidates = answer.of(slice(0, None, 2)), parts, CANDIDATES[-1]
    for probes, candidates in _tried(parts):
        recalls = chosen.recall(table.nearest(queries[::2], candidates, probes), WANTED)
        if recalls.mean() >= RECALL and _interval(recalls)[1] >= RECALL:
            break
    found = table.nearest(queries[1::2], candidates, probes)
    value, low, high = _interval(answer.of(slice(1, None, 2)).recall(found, WANTED))
    changes = {"probes": probes, "candidates": candidates, "recall": value, "low": low, "high": high}
    return made.model_copy(update=changes)


def _tried(parts: int) -> Iterator[tuple[int, int]]:
    """Yield numbers of partitions and candidates: powers of √2 with few candidates, then all with more."""
    steps = int(2 * np.log2(parts)) + 1
    powers = {min(parts, round(2 ** (step / 2))) for step in range(steps + 1)} | {parts}
    yield from ((probes, CANDIDATES[0]) for probes in sorted(powers))
    yield from ((parts, candidates) for candidates in CANDIDATES[1:])


def _interval(recalls: Float64Array) -> tuple[float, float, float]:
    """Mean recall and its 95 % interval by bootstrap over the queries."""
    rng = np.random.default_rng(0)
    means = recalls[rng.integers(0, len(recalls), (1_000, len(recalls)))].mean(axis=1)
    low, high = np.quantile(means, (0.025, 0.975))
    return float(recalls.mean()), float(low), float(high)


@dataclass(frozen=True)
class Answer:
    """Exact results of Q queries.

    Attributes:
        rows: (Q, K) row numbers of the nearest vectors, in no particular order.
        good: (Q, K) mask of those among the 50 nearest, or as near as the last of these.
    """

    rows: IntArray
    good: NDArray[np.bool_]

    def of(self, some: slice) -> Answer:
        """Results of some of the queries."""
        return Answer(self.rows[some], self.good[some])

    def recall(self, found: Sequence[IntArray], wanted: int) -> Float64Array:
        """Share (Q,) of the nearest `wanted` rows that was found for each query."""
        each = zip(self.rows, self.good, found, strict=True)
        hits = [np.count_nonzero(np.isin(rows[good], some)) for rows, good, some in each]
        most = np.minimum(wanted, np.count_nonzero(self.good, axis=1))
        return np.asarray(np.minimum(hits, most) / np.maximum(most, 1), dtype=np.float64)


def sample_ids(store: TableStore, pictures: int, size: int = SAMPLE) -> NDArray[np.bytes_]:
    """Ids of a random sample of the present pictures, ascending.

    An id is the SHA-256 of a picture's content, so the ids below a bound are a random sample that is always
    the same.

    Args:
        store: the tables.
        pictures: number of present pictures.
        size: approximate size of the sample.
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
    """Compute the moments, the sample and the exact results of some queries in one pass over a space.

    The mean of the first block is subtracted before the products, so that vectors in a narrow cone lose no
    precision.

    Args:
        table: the vectors.
        sample: ids of the sample, ascending.
        gone: ids of the deleted pictures, ascending; their vectors do not count in the statistics.
        queries: (Q, D) float32 rows of unit length.
        wanted: number of nearest vectors, below `KEPT`.
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
    made = TableMoments(shift + middle, products / max(held, 1) - np.outer(shift, shift))
    names_of = np.concatenate([np.zeros(0, "S64"), *(ids for ids, _ in drawn)])
    rows_of = np.concatenate([np.zeros((0, width), np.float16), *(some for _, some in drawn)])
    order = np.argsort(names_of)
    last = -np.partition(-best, wanted - 1, axis=1)[:, wanted - 1 : wanted]
    good = (best >= last - _TIE) & (best_rows >= 0)
    return Statistics(made, held, names_of[order], rows_of[order]), Answer(best_rows, good)


def _held(some: NDArray[np.bytes_], ids: NDArray[np.bytes_]) -> NDArray[np.bool_]:
    """Mask (R,) of the ids that occur in a sorted list."""
    if not len(some):
        return np.zeros(len(ids), dtype=bool)
    return np.asarray(some[np.minimum(np.searchsorted(some, ids), len(some) - 1)] == ids)


def write_statistics(store: TableStore, sample: NDArray[np.bytes_], spaces: dict[str, Statistics]) -> None:
    """Store the statistics of all spaces in the library, atomically."""
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


def _packed(**arrays: NDArray[np.generic] | np.generic) -> bytes:
    held = io.BytesIO()
    np.savez(held, allow_pickle=False, **arrays)
    return held.getvalue()
