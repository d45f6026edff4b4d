"""Neighbour graph: for every training pair, the pairs whose texts lie nearest; and scores of pairs, on disk.

A pair itself and its duplicates are no neighbours.
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
_CELLS = 1 << 24  # distances held at once
_SEARCHES = 2  # before rows without enough neighbours are compared with all
_ROWS = 4096  # searched at once
_FAR = np.float32(3e38)  # behind all others; a sum of it and zeros stays what it is
_INFINITE = int(np.float32(np.inf).view(np.int32))


@dataclass(frozen=True)
class Crew:
    """This process among several, and their all-reduce, for code that must not import torch.distributed.

    Attributes:
        number: rank of this process, from 0.
        size: number of processes.
        summed: array → its sum over all processes; exact where all but one have 0.
    """

    number: int = 0
    size: int = 1
    summed: Callable[[NDArray[Any]], NDArray[Any]] = np.asarray

    def share(self, count: int) -> slice:
        """The slice of `count` rows that this process works on."""
        return slice(count * self.number // self.size, count * (self.number + 1) // self.size)


ALONE = Crew()


def build_graph(
    vectors: NDArray[np.float32],
    *,
    size: int,
    text_ids: Ids,
    image_ids: Ids,
    method: Method = "auto",
    crew: Crew = ALONE,
) -> Table:
    """The nearest others of every row by Euclidean distance.

    Args:
        vectors: (n, D) of the texts.
        size: N ≥ 1, neighbours per row; rows with fewer others get fewer.
        text_ids: (n,) equal for equal texts, which are no neighbours.
        image_ids: (n,) equal for equal pictures, likewise.
        method: "exact" compares all with all in blocks; "hnsw" searches a graph of usearch, which misses
            some neighbours; "auto" is exact up to 200,000 rows.
        crew: of several processes each compares some of the rows, or has a graph of some of them in which all
            are searched.
    Returns:
        (n, N) int32, the nearest first, equally near ones by their number, −1 where a row has fewer.
    Raises:
        ShapeError: sizes differ, or fewer than two rows.
        NumericsError: a vector is not finite.
    Source: T&K 2022, Section 3.2; docs/methods/complementary.md §3. Departs: exact up to 200,000 rows, where
        the authors always search by HNSW.
    """
    rows = expect(
        "neighbours", vectors=(vectors, "n D"), text_ids=(text_ids, "n"), image_ids=(image_ids, "n")
    )["n"]
    if rows < 2:
        raise ShapeError(f"neighbours: {rows} texts, expected at least 2")
    if not np.isfinite(vectors).all():
        raise NumericsError("neighbours: a vector is not finite; look at the texts' encoder")
    wanted = min(size, rows - 1)
    exact = method == "exact" or (method == "auto" and rows <= EXACT_UP_TO)
    vectors = np.ascontiguousarray(vectors, dtype=np.float32)
    if exact:
        table = np.zeros((rows, wanted), np.int32)
        _compare_all(table, np.arange(rows)[crew.share(rows)], vectors, text_ids, image_ids)
        table = crew.summed(table)
    else:
        table = _search(vectors, wanted, text_ids, image_ids, crew)
    return np.pad(table, ((0, 0), (0, size - wanted)), constant_values=-1)


def _compare_all(
    table: Table, rows: NDArray[np.int64], vectors: NDArray[np.float32], texts: Ids, images: Ids
) -> None:
    """Fill some rows of the table, compared with all others."""
    wanted, step = table.shape[1], max(1, _CELLS // len(vectors))
    lengths = np.einsum("nd,nd->n", vectors, vectors)
    for start in range(0, len(rows), step):
        some = rows[start : start + step]
        apart = lengths - 2 * (vectors[some] @ vectors.T)  # the row's own length changes no order
        apart[(texts[some, None] == texts) | (images[some, None] == images)] = np.inf
        # Distances as whole numbers of the same order, each followed by its column, so that none are equal.
        bits = apart.view(np.int32)
        bits ^= (bits >> 31) & 0x7FFFFFFF
        keys = bits.astype(np.int64)
        keys <<= 32
        keys |= np.arange(len(vectors))
        keys.partition(wanted - 1, axis=1)
        near = np.sort(keys[:, :wanted], axis=1)
        table[some] = np.where(near >> 32 < _INFINITE, near & 0xFFFFFFFF, -1)


def _search(vectors: NDArray[np.float32], wanted: int, texts: Ids, images: Ids, crew: Crew) -> Table:
    with installed("usearch", RESEARCH):
        from usearch.index import Index

    # Many equal vectors would be linked to each other alone, so each is there once, with its rows.
    unique, place_of = np.unique(vectors, axis=0, return_inverse=True)
    rows_of = np.split(np.argsort(place_of, kind="stable"), np.cumsum(np.bincount(place_of))[:-1])
    index: Any = Index(ndim=vectors.shape[1], metric="l2sq", dtype="f32", connectivity=32, expansion_add=200)
    own = np.arange(len(unique))[crew.share(len(unique))]
    if len(own):
        index.add(own, unique[own])
    table = np.full((len(vectors), wanted), -1, np.int32)
    due, count = np.arange(len(vectors)), min(len(unique), 2 * wanted)
    for _ in range(_SEARCHES):
        # A search must look at more candidates than it returns, or it misses near ones.
        index.expansion_search = max(2 * count, 256)
        for start in range(0, len(due), _ROWS):
            rows = due[start : start + _ROWS]
            keys = _nearest(index, vectors[rows], count, crew)
            made = np.zeros((len(rows), wanted), np.int32)
            for place in range(len(rows))[crew.share(len(rows))]:
                row, found = rows[place], keys[place]
                near = np.concatenate([rows_of[key] for key in found[found >= 0].tolist()])
                near = near[(texts[near] != texts[row]) & (images[near] != images[row])][:wanted]
                made[place] = np.pad(near, (0, wanted - len(near)), constant_values=-1)
            table[rows] = crew.summed(made)
        # Rows whose copies crowded out their neighbours are searched wider, ...
        due = due[(table[due] < 0).any(axis=1)]
        count = min(len(unique), 4 * count)
    # ... and then compared with all, so that none is short by chance.
    _compare_all(table, due, vectors, texts, images)
    return table


def _nearest(index: Any, vectors: NDArray[np.float32], count: int, crew: Crew) -> Ids:  # noqa: ANN401
    """(R, count) keys of the nearest vectors in the graphs of all processes, −1 where there are fewer."""
    keys = np.full((len(vectors), crew.size, count), -1, np.int64)
    apart = np.full((len(vectors), crew.size, count), _FAR, np.float32)
    others = np.arange(crew.size) != crew.number
    keys[:, others], apart[:, others] = 0, 0
    if len(index):
        matches = index.search(vectors, count)
        known = np.arange(np.asarray(matches.keys).shape[1]) < np.asarray(matches.counts)[:, None]
        some = slice(0, known.shape[1])
        keys[:, crew.number, some] = np.where(known, np.asarray(matches.keys).astype(np.int64), -1)
        apart[:, crew.number, some] = np.where(known, np.asarray(matches.distances), _FAR)
    if crew.size == 1:
        return keys[:, 0]
    every, far = (crew.summed(part).reshape(len(vectors), -1) for part in (keys, apart))
    return np.take_along_axis(every, np.argsort(far, axis=1, kind="stable")[:, :count], axis=1)


def stored_graph(
    folder: Path,
    vectors: NDArray[np.float32],
    *,
    size: int,
    text_ids: Ids,
    image_ids: Ids,
    method: Method = "auto",
    crew: Crew = ALONE,
) -> Table:
    """The graph of these vectors, made where the folder does not hold it already.

    Args:
        folder: folder of all graphs; each is a file named by what it was made from.
        vectors: see `build_graph`, as the rest.
        size: likewise.
        text_ids: likewise.
        image_ids: likewise.
        method: likewise.
        crew: likewise; where one of the processes lacks the file, all make it.
    """
    source = hashlib.sha256(repr((vectors.shape, size, method)).encode())
    for part in (vectors.astype("<f4"), text_ids.astype("<i8"), image_ids.astype("<i8")):
        source.update(part.tobytes())
    made_from = source.hexdigest()
    file = folder / f"{made_from[:16]}.safetensors"
    table = _read_graph(file, made_from) if file.exists() else None
    lacking = int(crew.summed(np.array([table is None], np.int64))[0])
    if table is not None and not lacking:
        return table
    made = build_graph(vectors, size=size, text_ids=text_ids, image_ids=image_ids, method=method, crew=crew)
    if table is None:
        folder.mkdir(parents=True, exist_ok=True)
        about = {"made_from": made_from, "sha256": hashlib.sha256(made.tobytes()).hexdigest()}
        write_bytes(file, arrays_file({GRAPH: made}, about))
    return made


def _read_graph(file: Path, made_from: str) -> Table | None:
    """A stored graph; None, and a warning, where it is damaged."""
    # Whatever is wrong with it: the graph is made again.
    try:
        arrays, about = read_arrays(file)
        table: Table = arrays[GRAPH]
        content = hashlib.sha256(table.tobytes()).hexdigest()
        if (about["made_from"], about["sha256"]) == (made_from, content):
            return table
        reason = "of other vectors or pairs"
    except (DataError, KeyError) as error:
        reason = str(error)
    warnings.warn(f"{file}: damaged ({reason}); it is made again", LimnerWarning, stacklevel=3)
    return None


GRAPH = "neighbours"
SCORES_FILE = "pair_scores.safetensors"
SCORES_FORMAT = "limner-pair-scores-1"


@dataclass(frozen=True)
class PairScores:
    """Scores of n training pairs after some epoch.

    Attributes:
        ids: (n,) of the pairs, in the order of all scores.
        scores: ``MEASURE/modality`` → (n,) float32 raw scores before Γ, such as ``DIVERSITY/text``; a name
            without a slash is no score of a measure, such as ``weight``.
        epoch: whose embeddings they were computed from, from 0.
    """

    ids: tuple[str, ...]
    scores: Mapping[str, NDArray[np.float32]]
    epoch: int

    def measures(self) -> dict[str, dict[str, NDArray[np.float32]]]:
        """Measure → modality → scores, in order of name."""
        found: dict[str, dict[str, NDArray[np.float32]]] = {}
        for name in sorted(self.scores):
            measure, slash, modality = name.partition("/")
            if slash:
                found.setdefault(measure, {})[modality] = self.scores[name]
        return found


def write_pair_scores(scores: PairScores, run: Path) -> Path:
    """Write ``pair_scores.safetensors`` of a run folder, whole or not at all."""
    held = {name: np.ascontiguousarray(values, np.float32) for name, values in scores.scores.items()}
    about = {"format": SCORES_FORMAT, "epoch": str(scores.epoch), "ids": json.dumps(scores.ids)}
    target = run / SCORES_FILE
    with noting(run, SCORES_FILE):
        write_bytes(target, arrays_file(held, about))
    return target


def read_pair_scores(run: Path) -> PairScores:
    """Read what `write_pair_scores` wrote into a run folder.

    Raises:
        MissingError: the run left none.
        DataError: not such a file, or damaged.
    """
    file = run / SCORES_FILE
    if not file.is_file():
        raise MissingError(f"{file}: does not exist; train a system that weights pairs by neighbourhoods")
    try:
        found, about = read_arrays(file)
        if about.get("format") != SCORES_FORMAT:
            raise DataError(f"format {about.get('format')!r}, expected {SCORES_FORMAT!r}")
        scores = PairScores(tuple(json.loads(about["ids"])), found, int(about["epoch"]))
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(f"{file}: not a file of pair scores ({error}); train the run again") from error
    for name, values in found.items():
        if values.shape != (len(scores.ids),) or values.dtype != np.float32:
            raise DataError(
                f"{file}: {name} has shape {values.shape} of {values.dtype}, expected"
                f" {(len(scores.ids),)} of float32; train the run again"
            )
    return scores
