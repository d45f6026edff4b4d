"""Neighbour graph: for each training pair, the pairs with the nearest texts; and scores of pairs on disk.

A pair and its duplicates are not neighbours.
"""

import hashlib
import json
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from limner.arrays import expect
from limner.checksums import arrays_file, noting, read_arrays
from limner.errors import (
    RESEARCH,
    DataError,
    LimnerWarning,
    MissingError,
    NumericsError,
    ShapeError,
    installed,
)
from limner.files import write_bytes

Method = Literal["auto", "exact", "hnsw"]
Ids = NDArray[np.int64]
Table = NDArray[np.int32]
EXACT_UP_TO = 200_000
_CELLS = 1 << 24  # distances in memory at once
_SEARCHES = 2  # searches, before rows with too few neighbours are compared with all rows
_ROWS = 4096  # rows searched at once
_FAR = np.float32(3e38)  # larger than any distance; finite, so that sums with zeros are exact
_INFINITE = int(np.float32(np.inf).view(np.int32))


@dataclass(frozen=True)
class ProcessGroup:
    """Rank, number of processes and all-reduce, for code that must not import torch.distributed.

    Attributes:
        rank: rank of this process, from 0.
        size: number of processes.
        all_reduce: array → its sum over all processes; exact where all but one have 0.
    """

    rank: int = 0
    size: int = 1
    all_reduce: Callable[[NDArray[Any]], NDArray[Any]] = np.asarray

    def shard(self, count: int) -> slice:
        """The slice of `count` rows that this process works on."""
        return slice(count * self.rank // self.size, count * (self.rank + 1) // self.size)


SINGLE_PROCESS = ProcessGroup()


def build_graph(
    vectors: NDArray[np.float32],
    *,
    size: int,
    text_ids: Ids,
    image_ids: Ids,
    method: Method = "auto",
    group: ProcessGroup = SINGLE_PROCESS,
) -> Table:
    """The nearest neighbours of each row by Euclidean distance.

    Args:
        vectors: (n, D) vectors of the texts.
        size: N ≥ 1, number of neighbours per row; fewer if there are not enough other rows.
        text_ids: (n,), equal for equal texts, which are not neighbours.
        image_ids: (n,), equal for equal pictures, which are not neighbours.
        method: "exact" compares all rows with all in blocks; "hnsw" searches an approximate index (usearch),
            which may miss neighbours; "auto" is exact up to 200,000 rows.
        group: processes that share the work; each compares or indexes some of the rows.
    Returns:
        (n, N) int32 row numbers, nearest first, ties by number; −1 if a row has fewer neighbours.
    Raises:
        ShapeError: the sizes differ, or there are fewer than two rows.
        NumericsError: a vector is not finite.
    Source: T&K 2022, Section 3.2; docs/methods/complementary.md §3. Departs: exact up to 200,000 rows; the
        authors always use HNSW.
    """
    rows = expect(
        "neighbours", vectors=(vectors, "n D"), text_ids=(text_ids, "n"), image_ids=(image_ids, "n")
    )["n"]
    if rows < 2:
        raise ShapeError(f"neighbours: {rows} texts, expected at least 2")
    if not np.isfinite(vectors).all():
        raise NumericsError("neighbours: a vector is not finite; check the text encoder")
    wanted = min(size, rows - 1)
    exact = method == "exact" or (method == "auto" and rows <= EXACT_UP_TO)
    vectors = np.ascontiguousarray(vectors, dtype=np.float32)
    if exact:
        table = np.zeros((rows, wanted), np.int32)
        _compare_all(table, np.arange(rows)[group.shard(rows)], vectors, text_ids, image_ids)
        table = group.all_reduce(table)
    else:
        table = _search(vectors, wanted, text_ids, image_ids, group)
    return np.pad(table, ((0, 0), (0, size - wanted)), constant_values=-1)


def _compare_all(
    table: Table, rows: NDArray[np.int64], vectors: NDArray[np.float32], texts: Ids, images: Ids
) -> None:
    """Fill `rows` of the table by comparing them with all rows."""
    wanted, step = table.shape[1], max(1, _CELLS // len(vectors))
    lengths = np.einsum("nd,nd->n", vectors, vectors)
    for start in range(0, len(rows), step):
        some = rows[start : start + step]
        apart = lengths - 2 * (
            vectors[some] @ vectors.T
        )  # the row's own squared length does not change the order
        apart[(texts[some, None] == texts) | (images[some, None] == images)] = np.inf
        # Map distances to integers of the same order and append the column number, so that ties are ordered.
        bits = apart.view(np.int32)
        bits ^= (bits >> 31) & 0x7FFFFFFF
        keys = bits.astype(np.int64)
        keys <<= 32
        keys |= np.arange(len(vectors))
        keys.partition(wanted - 1, axis=1)
        near = np.sort(keys[:, :wanted], axis=1)
        table[some] = np.where(near >> 32 < _INFINITE, near & 0xFFFFFFFF, -1)


def _search(vectors: NDArray[np.float32], wanted: int, texts: Ids, images: Ids, group: ProcessGroup) -> Table:
    with installed("usearch", RESEARCH):
        from usearch.index import Index

    # Index equal vectors only once: in HNSW many equal vectors would be linked only to each other.
    unique, place_of = np.unique(vectors, axis=0, return_inverse=True)
    rows_of = np.split(np.argsort(place_of, kind="stable"), np.cumsum(np.bincount(place_of))[:-1])
    index: Any = Index(ndim=vectors.shape[1], metric="l2sq", dtype="f32", connectivity=32, expansion_add=200)
    unique_rows = np.arange(len(unique))[group.shard(len(unique))]
    if len(unique_rows):
        index.add(unique_rows, unique[unique_rows])
    table = np.full((len(vectors), wanted), -1, np.int32)
    due, count = np.arange(len(vectors)), min(len(unique), 2 * wanted)
    for _ in range(_SEARCHES):
        # Recall is poor unless a search visits more candidates than it returns.
        index.expansion_search = max(2 * count, 256)
        for start in range(0, len(due), _ROWS):
            rows = due[start : start + _ROWS]
            keys = _nearest(index, vectors[rows], count, group)
            made = np.zeros((len(rows), wanted), np.int32)
            for place in range(len(rows))[group.shard(len(rows))]:
                row, neighbours = rows[place], keys[place]
                near = np.concatenate([rows_of[key] for key in neighbours[neighbours >= 0].tolist()])
                near = near[(texts[near] != texts[row]) & (images[near] != images[row])][:wanted]
                made[place] = np.pad(near, (0, wanted - len(near)), constant_values=-1)
            table[rows] = group.all_reduce(made)
        # Search again, with more candidates, for rows whose duplicates filled the result; ...
        due = due[(table[due] < 0).any(axis=1)]
        count = min(len(unique), 4 * count)
    # ... then compare the remaining ones with all rows.
    _compare_all(table, due, vectors, texts, images)
    return table


def _nearest(index: Any, vectors: NDArray[np.float32], count: int, group: ProcessGroup) -> Ids:  # noqa: ANN401
    """(R, count) keys of the nearest vectors in the indexes of all processes, padded with −1."""
    keys = np.full((len(vectors), group.size, count), -1, np.int64)
    apart = np.full((len(vectors), group.size, count), _FAR, np.float32)
    others = np.arange(group.size) != group.rank
    keys[:, others], apart[:, others] = 0, 0
    if len(index):
        matches = index.search(vectors, count)
        known = np.arange(np.asarray(matches.keys).shape[1]) < np.asarray(matches.counts)[:, None]
        some = slice(0, known.shape[1])
        keys[:, group.rank, some] = np.where(known, np.asarray(matches.keys).astype(np.int64), -1)
        apart[:, group.rank, some] = np.where(known, np.asarray(matches.distances), _FAR)
    if group.size == 1:
        return keys[:, 0]
    every, far = (group.all_reduce(part).reshape(len(vectors), -1) for part in (keys, apart))
    return np.take_along_axis(every, np.argsort(far, axis=1, kind="stable")[:, :count], axis=1)


def stored_graph(
    folder: Path,
    vectors: NDArray[np.float32],
    *,
    size: int,
    text_ids: Ids,
    image_ids: Ids,
    method: Method = "auto",
    group: ProcessGroup = SINGLE_PROCESS,
) -> Table:
    """`build_graph` with a cache on disk.

    Args:
        folder: folder of cached graphs, in files named by a hash of the inputs.
        vectors: see `build_graph`.
        size: see `build_graph`.
        text_ids: see `build_graph`.
        image_ids: see `build_graph`.
        method: see `build_graph`.
        group: see `build_graph`; if any process lacks the file, all build the graph.
    """
    source = hashlib.sha256(repr((vectors.shape, size, method)).encode())
    for part in (vectors.astype("<f4"), text_ids.astype("<i8"), image_ids.astype("<i8")):
        source.update(part.tobytes())
    made_from = source.hexdigest()
    file = folder / f"{made_from[:16]}.safetensors"
    table = _read_graph(file, made_from) if file.exists() else None
    lacking = int(group.all_reduce(np.array([table is None], np.int64))[0])
    if table is not None and not lacking:
        return table
    made = build_graph(vectors, size=size, text_ids=text_ids, image_ids=image_ids, method=method, group=group)
    if table is None:
        folder.mkdir(parents=True, exist_ok=True)
        about = {"made_from": made_from, "sha256": hashlib.sha256(made.tobytes()).hexdigest()}
        write_bytes(file, arrays_file({GRAPH: made}, about))
    return made


def _read_graph(file: Path, made_from: str) -> Table | None:
    """A cached graph; None, with a warning, if the file is damaged."""
    try:
        arrays, about = read_arrays(file)
        table: Table = arrays[GRAPH]
        content = hashlib.sha256(table.tobytes()).hexdigest()
        if (about["made_from"], about["sha256"]) == (made_from, content):
            return table
        reason = "made from other vectors or pairs"
    except (DataError, KeyError) as error:
        reason = str(error)
    warnings.warn(f"{file}: damaged ({reason}); it is built again", LimnerWarning, stacklevel=3)
    return None


GRAPH = "neighbours"
SCORES_FILE = "pair_scores.safetensors"
SCORES_FORMAT = "limner-pair-scores-1"


@dataclass(frozen=True)
class PairScores:
    """Scores of n training pairs after an epoch.

    Attributes:
        ids: (n,) ids of the pairs, in the order of the scores.
        scores: ``MEASURE/modality``, such as ``DIVERSITY/text`` → (n,) float32 raw scores before Γ; names
            without a slash, such as ``weight``, are not measures.
        epoch: epoch whose embeddings were used, from 0.
    """

    ids: tuple[str, ...]
    scores: Mapping[str, NDArray[np.float32]]
    epoch: int

    def measures(self) -> dict[str, dict[str, NDArray[np.float32]]]:
        """Measure → modality → scores, sorted by name."""
        measures: dict[str, dict[str, NDArray[np.float32]]] = {}
        for name in sorted(self.scores):
            measure, slash, modality = name.partition("/")
            if slash:
                measures.setdefault(measure, {})[modality] = self.scores[name]
        return measures


def write_pair_scores(scores: PairScores, run: Path) -> Path:
    """Write ``pair_scores.safetensors`` into a run folder, atomically."""
    held = {name: np.ascontiguousarray(values, np.float32) for name, values in scores.scores.items()}
    about = {"format": SCORES_FORMAT, "epoch": str(scores.epoch), "ids": json.dumps(scores.ids)}
    target = run / SCORES_FILE
    with noting(run, SCORES_FILE):
        write_bytes(target, arrays_file(held, about))
    return target


def read_pair_scores(run: Path) -> PairScores:
    """Read the pair scores of a run folder.

    Raises:
        MissingError: the run has none.
        DataError: the file is damaged or not one of pair scores.
    """
    file = run / SCORES_FILE
    if not file.is_file():
        raise MissingError(f"{file}: does not exist; train a system that weights pairs by neighbourhoods")
    try:
        arrays, about = read_arrays(file)
        if about.get("format") != SCORES_FORMAT:
            raise DataError(f"format {about.get('format')!r}, expected {SCORES_FORMAT!r}")
        scores = PairScores(tuple(json.loads(about["ids"])), arrays, int(about["epoch"]))
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(f"{file}: not a file of pair scores ({error}); train the run again") from error
    for name, values in arrays.items():
        if values.shape != (len(scores.ids),) or values.dtype != np.float32:
            raise DataError(
                f"{file}: {name} has shape {values.shape} of {values.dtype}, expected"
                f" {(len(scores.ids),)} of float32; train the run again"
            )
    return scores
