"""Neighbour graph: for every training pair, the pairs whose texts lie nearest; and scores of pairs, on disk.

A pair itself and its duplicates are no neighbours.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, ValidationError
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from limner.errors import (
    CheckpointError,
    ConfigError,
    DataError,
    MissingError,
    NumericsError,
    ShapeError,
    unknown,
)
from limner.files import replacing, sha256_of, write_bytes, write_text
from limner.records import Record

Method = Literal["auto", "exact", "hnsw"]
Ids = NDArray[np.int64]
EXACT_UP_TO = 200_000
_CELLS = 1 << 24  # distances held at once
_SEARCHES = 2  # before rows without enough neighbours are compared with all
_ROWS = 4096  # searched at once


@dataclass(frozen=True)
class NeighbourGraph:
    """Neighbours of n items.

    Attributes:
        neighbours: (n, N) int32, the nearest first, −1 where a row has fewer.
        method: how they were found.
    """

    neighbours: NDArray[np.int32]
    method: Literal["exact", "hnsw"]

    @property
    def counts(self) -> NDArray[np.int64]:
        """(n,) neighbours of every row."""
        found: NDArray[np.int64] = (self.neighbours >= 0).sum(axis=1)
        return found


def build_graph(
    vectors: NDArray[np.float32],
    *,
    size: int = 200,
    text_ids: Ids,
    image_ids: Ids,
    method: Method = "auto",
) -> NeighbourGraph:
    """The nearest others of every row by Euclidean distance.

    Args:
        vectors: (n, D) of the texts.
        size: N, neighbours per row; rows with fewer others get fewer.
        text_ids: (n,) equal for equal texts, which are no neighbours.
        image_ids: (n,) equal for equal pictures, likewise.
        method: "exact" compares all with all in blocks; "hnsw" searches a graph of usearch, which misses
            some neighbours; "auto" is exact up to 200,000 rows.
    Raises:
        ConfigError: no such method, or size below 1.
        ShapeError: sizes differ, or fewer than two rows.
        NumericsError: a vector is not finite.
        MissingError: "hnsw" without usearch.
    Source: T&K 2022, Section 3.2; docs/methods/complementary.md §3. Departs: exact up to 200,000 rows, where
        the authors always search by HNSW.
    """
    if method not in get_args(Method):
        raise ConfigError("neighbours: " + unknown("method", method, get_args(Method)))
    if size < 1:
        raise ConfigError(f"neighbours: size {size}, expected at least 1")
    if (
        vectors.ndim != 2
        or len(vectors) < 2
        or len(text_ids) != len(vectors)
        or len(image_ids) != len(vectors)
    ):
        raise ShapeError(
            f"neighbours: vectors {vectors.shape} with {len(text_ids)} and {len(image_ids)} ids, expected"
            " (n, D) with n ids each, n at least 2"
        )
    if not np.isfinite(vectors).all():
        raise NumericsError("neighbours: a vector is not finite; look at the texts' encoder")
    wanted = min(size, len(vectors) - 1)
    chosen = _method(method, len(vectors))
    find = _exact if chosen == "exact" else _hnsw
    table = find(np.ascontiguousarray(vectors, dtype=np.float32), wanted, _Copies(text_ids, image_ids))
    if wanted < size:
        table = np.pad(table, ((0, 0), (0, size - wanted)), constant_values=-1)
    return NeighbourGraph(table, chosen)


def _method(method: Method, rows: int) -> Literal["exact", "hnsw"]:
    if method != "auto":
        return method
    return "exact" if rows <= EXACT_UP_TO else "hnsw"


def recall(
    graph: NeighbourGraph,
    vectors: NDArray[np.float32],
    *,
    text_ids: Ids,
    image_ids: Ids,
    rows: int = 1000,
    seed: int = 0,
) -> float:
    """Share of the true neighbours that a graph holds, over rows drawn at random.

    Args:
        graph: to judge.
        vectors: it was made of.
        text_ids: it was made with.
        image_ids: it was made with.
        rows: drawn, at most all.
        seed: of the draw.
    Returns:
        In [0, 1]; 1 for an exact graph, up to ties.
    """
    copies = _Copies(text_ids, image_ids)
    some = np.sort(np.random.default_rng(seed).permutation(len(vectors))[:rows])
    wanted = min(graph.neighbours.shape[1], len(vectors) - 1)
    held = met = 0
    wide = np.ascontiguousarray(vectors, dtype=np.float32)
    for block in _blocks(some, len(vectors)):
        due = _nearest(wide, block, wanted, copies)
        for row, true in zip(block.tolist(), due, strict=True):
            true_set = set(true[true >= 0].tolist())
            held += len(true_set)
            met += len(true_set & set(graph.neighbours[row].tolist()))
    return met / held if held else 1.0


class _Copies:
    """Which rows hold the text or the picture of a row."""

    def __init__(self, text_ids: Ids, image_ids: Ids) -> None:
        self._ids = [np.asarray(text_ids), np.asarray(image_ids)]
        self._members = []
        for ids in self._ids:
            order = np.argsort(ids, kind="stable")
            found, starts, counts = np.unique(ids[order], return_index=True, return_counts=True)
            several = counts > 1
            self._members.append(
                {
                    int(name): order[start : start + count]
                    for name, start, count in zip(
                        found[several], starts[several], counts[several], strict=True
                    )
                }
            )

    def of(self, row: int) -> list[NDArray[np.int64]]:
        """Parts of the list; the row itself is among them where it has copies."""
        found = (own.get(int(ids[row])) for own, ids in zip(self._members, self._ids, strict=True))
        return [members for members in found if members is not None]


def _exact(vectors: NDArray[np.float32], wanted: int, copies: _Copies) -> NDArray[np.int32]:
    found = [
        _nearest(vectors, block, wanted, copies) for block in _blocks(np.arange(len(vectors)), len(vectors))
    ]
    return np.concatenate(found)


def _blocks(rows: NDArray[np.int64], size: int) -> list[NDArray[np.int64]]:
    step = max(1, _CELLS // max(size, 1))
    return [rows[start : start + step] for start in range(0, len(rows), step)]


def _nearest(
    vectors: NDArray[np.float32], rows: NDArray[np.int64], wanted: int, copies: _Copies
) -> NDArray[np.int32]:
    """(B, wanted) nearest of some rows, equals by their number."""
    lengths = np.einsum("nd,nd->n", vectors, vectors)
    apart = lengths - 2 * (vectors[rows] @ vectors.T)  # the row's own length changes no order
    for place, row in enumerate(rows.tolist()):
        apart[place, row] = np.inf
        for members in copies.of(row):
            apart[place, members] = np.inf
    if wanted < apart.shape[1]:
        near = np.argpartition(apart, wanted - 1, axis=1)[:, :wanted]
        edge = np.take_along_axis(apart, near, axis=1).max(axis=1)
        within = (apart <= edge[:, None]).sum(axis=1)
        # Equally near ones at the edge: partition keeps any of them, the graph the first.
        for place in np.flatnonzero((within > wanted) & np.isfinite(edge)).tolist():
            equals = np.flatnonzero(apart[place] <= edge[place])
            near[place] = equals[np.argsort(apart[place, equals], kind="stable")[:wanted]]
    else:
        near = np.broadcast_to(np.arange(apart.shape[1]), apart.shape)
    near = np.sort(near, axis=1)
    values = np.take_along_axis(apart, near, axis=1)
    order = np.argsort(values, axis=1, kind="stable")
    sorted_values = np.take_along_axis(values, order, axis=1)
    found = np.where(np.isfinite(sorted_values), np.take_along_axis(near, order, axis=1), -1)
    return found.astype(np.int32)


def _hnsw(vectors: NDArray[np.float32], wanted: int, copies: _Copies) -> NDArray[np.int32]:
    try:
        from usearch.index import Index
    except ModuleNotFoundError as error:
        raise MissingError("neighbours: usearch is not installed; run 'pip install usearch'") from error
    # Many equal vectors would be linked to each other alone, so each is there once, with its rows.
    unique, place_of = np.unique(vectors, axis=0, return_inverse=True)
    rows_of = np.split(np.argsort(place_of, kind="stable"), np.cumsum(np.bincount(place_of))[:-1])
    index: Any = Index(ndim=vectors.shape[1], metric="l2sq", dtype="f32", connectivity=32, expansion_add=200)
    index.add(np.arange(len(unique)), unique)
    table = np.full((len(vectors), wanted), -1, np.int32)
    due, count = np.arange(len(vectors)), min(len(unique), 2 * wanted)
    for _ in range(_SEARCHES):
        # A search must look at more candidates than it returns, or it misses near ones.
        index.expansion_search = max(2 * count, 256)
        for start in range(0, len(due), _ROWS):
            rows = due[start : start + _ROWS]
            matches = index.search(vectors[rows], count)
            keys, sizes = np.asarray(matches.keys), np.asarray(matches.counts)
            for place, row in enumerate(rows.tolist()):
                near = _usable(keys[place, : sizes[place]].tolist(), rows_of, copies.of(row), row, wanted)
                table[row, : len(near)] = near
        # Rows whose copies crowded out their neighbours are searched wider, ...
        due = due[(table[due] < 0).any(axis=1)]
        count = min(len(unique), 4 * count)
    for rows in _blocks(
        due, len(vectors)
    ):  # ... and then compared with all, so that none is short by chance.
        table[rows] = _nearest(vectors, rows, wanted, copies)
    return table


def _usable(
    places: Sequence[int],
    rows_of: Sequence[NDArray[np.int64]],
    copies: Sequence[NDArray[np.int64]],
    row: int,
    wanted: int,
) -> list[int]:
    """Rows at some places, the nearest first, without a row and its copies."""
    wrong = {row}.union(*(members.tolist() for members in copies))
    found: list[int] = []
    for place in places:
        found += [other for other in rows_of[int(place)].tolist() if other not in wrong]
        if len(found) >= wanted:
            break
    return found[:wanted]


TABLE, ABOUT = "neighbours.npy", "graph.json"


class _About(Record):
    """What is in `ABOUT`.

    Attributes:
        format: of the folder.
        made_from: hash of vectors and ids, as the caller states it.
        method: how neighbours were found.
        sha256: of the table's file.
    """

    format: Literal["limner-neighbours-1"] = "limner-neighbours-1"
    made_from: str = Field(min_length=1)
    method: Literal["exact", "hnsw"]
    sha256: str


def source_hash(
    vectors: NDArray[np.float32], text_ids: Ids, image_ids: Ids, size: int, method: Method
) -> str:
    """Hash of what a graph is made from, by which a stored one is found again."""
    digest = hashlib.sha256(repr((vectors.shape, size, method)).encode())
    for part in (vectors.astype("<f4"), text_ids.astype("<i8"), image_ids.astype("<i8")):
        digest.update(np.ascontiguousarray(part).tobytes())
    return digest.hexdigest()


def stored_graph(
    folder: Path,
    vectors: NDArray[np.float32],
    *,
    size: int,
    text_ids: Ids,
    image_ids: Ids,
    method: Method = "auto",
) -> NeighbourGraph:
    """The graph of these vectors, made where the folder does not hold it already.

    Args:
        folder: of all graphs; each has a folder of its own, named by what it was made from.
        vectors: see `limner.datasets.neighbours.build_graph`, as the rest.
        size: likewise.
        text_ids: likewise.
        image_ids: likewise.
        method: likewise.
    Raises:
        CheckpointError: the stored one is damaged.
    """
    made_from = source_hash(vectors, text_ids, image_ids, size, method)
    own = folder / made_from[:16]
    if not (own / ABOUT).is_file():
        write_graph(
            build_graph(vectors, size=size, text_ids=text_ids, image_ids=image_ids, method=method),
            own,
            made_from,
        )
    return open_graph(own, made_from)


def write_graph(graph: NeighbourGraph, folder: Path, made_from: str) -> None:
    """Store a graph; whole or, after a kill, not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / ABOUT).unlink(missing_ok=True)  # without it there is no graph
    with replacing(folder / TABLE) as draft, draft.open("wb") as file:
        np.save(file, graph.neighbours, allow_pickle=False)
    about = _About(made_from=made_from, method=graph.method, sha256=sha256_of(folder / TABLE))
    write_text(folder / ABOUT, about.model_dump_json(indent=1))


def open_graph(folder: Path, made_from: str) -> NeighbourGraph:
    """A stored graph, memory-mapped.

    Raises:
        MissingError: none is there.
        CheckpointError: made from something else, or damaged.
    """
    if not (folder / ABOUT).is_file():
        raise MissingError(f"{folder}: no neighbour graph; build it first")
    try:
        about = _About.model_validate_json((folder / ABOUT).read_bytes())
        # copy on write: torch takes no read-only table, and nothing written reaches the file
        table = np.load(folder / TABLE, mmap_mode="c", allow_pickle=False)
    except (OSError, ValueError, EOFError, ValidationError, json.JSONDecodeError) as error:
        raise CheckpointError(f"{folder}: not a neighbour graph; remove the folder") from error
    if about.made_from != made_from:
        raise CheckpointError(f"{folder}: a graph of other vectors or pairs; use another folder")
    if about.sha256 != sha256_of(folder / TABLE) or table.dtype != np.int32 or table.ndim != 2:
        raise CheckpointError(f"{folder}: the table of neighbours is damaged; remove the folder")
    return NeighbourGraph(table, about.method)


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
    """Write ``pair_scores.safetensors`` of a run folder, whole or not at all.

    Raises:
        ShapeError: a score is not one number per pair.
    """
    for name, values in scores.scores.items():
        if values.shape != (len(scores.ids),):
            raise ShapeError(f"pair scores: {name} has shape {values.shape}, expected {(len(scores.ids),)}")
    held = {name: np.ascontiguousarray(values, np.float32) for name, values in scores.scores.items()}
    about = {"format": SCORES_FORMAT, "epoch": str(scores.epoch), "ids": json.dumps(scores.ids)}
    target = run / SCORES_FILE
    write_bytes(target, save(held, about))
    return target


def read_pair_scores(run: Path) -> PairScores:
    """Read what `write_pair_scores` wrote into a run folder.

    Raises:
        MissingError: the run left none.
        DataError: not such a file, or damaged.
    """
    file = run / SCORES_FILE
    if not file.is_file():
        raise MissingError(f"{file}: not there; train a system that weighs pairs by their neighbourhoods")
    try:
        with safe_open(file, framework="np") as opened:
            about = opened.metadata() or {}
            found = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118  (no mapping)
        if about.get("format") != SCORES_FORMAT:
            raise DataError(f"{file}: format {about.get('format')!r}, expected {SCORES_FORMAT!r}")
        scores = PairScores(tuple(json.loads(about["ids"])), found, int(about["epoch"]))
    except (SafetensorError, OSError, KeyError, TypeError, ValueError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"{file}: not a file of pair scores ({error}); train the run again") from error
    for name, values in found.items():
        if values.shape != (len(scores.ids),) or values.dtype != np.float32:
            raise DataError(
                f"{file}: {name} has shape {values.shape} of {values.dtype}, expected"
                f" {(len(scores.ids),)} of float32; train the run again"
            )
    return scores
