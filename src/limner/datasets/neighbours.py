"""Neighbour graph: for every training pair, the pairs whose texts lie nearest; and scores of pairs, on disk.

A pair itself and its duplicates are no neighbours.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from limner.arrays import expect
from limner.errors import (
    RESEARCH,
    CheckpointError,
    DataError,
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
_INFINITE = int(np.float32(np.inf).view(np.int32))


def build_graph(
    vectors: NDArray[np.float32],
    *,
    size: int,
    text_ids: Ids,
    image_ids: Ids,
    method: Method = "auto",
) -> Table:
    """The nearest others of every row by Euclidean distance.

    Args:
        vectors: (n, D) of the texts.
        size: N ≥ 1, neighbours per row; rows with fewer others get fewer.
        text_ids: (n,) equal for equal texts, which are no neighbours.
        image_ids: (n,) equal for equal pictures, likewise.
        method: "exact" compares all with all in blocks; "hnsw" searches a graph of usearch, which misses
            some neighbours; "auto" is exact up to 200,000 rows.
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
        table = np.empty((rows, wanted), np.int32)
        _compare_all(table, np.arange(rows), vectors, text_ids, image_ids)
    else:
        table = _search(vectors, wanted, text_ids, image_ids)
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


def _search(vectors: NDArray[np.float32], wanted: int, texts: Ids, images: Ids) -> Table:
    with installed("usearch", RESEARCH):
        from usearch.index import Index

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
                near = np.concatenate([rows_of[int(key)] for key in keys[place, : sizes[place]]])
                near = near[(texts[near] != texts[row]) & (images[near] != images[row])][:wanted]
                table[row, : len(near)] = near
        # Rows whose copies crowded out their neighbours are searched wider, ...
        due = due[(table[due] < 0).any(axis=1)]
        count = min(len(unique), 4 * count)
    # ... and then compared with all, so that none is short by chance.
    _compare_all(table, due, vectors, texts, images)
    return table


def stored_graph(
    folder: Path,
    vectors: NDArray[np.float32],
    *,
    size: int,
    text_ids: Ids,
    image_ids: Ids,
    method: Method = "auto",
) -> Table:
    """The graph of these vectors, made where the folder does not hold it already.

    Args:
        folder: of all graphs; each is a file named by what it was made from.
        vectors: see `build_graph`, as the rest.
        size: likewise.
        text_ids: likewise.
        image_ids: likewise.
        method: likewise.
    Raises:
        CheckpointError: the stored one is damaged.
    """
    source = hashlib.sha256(repr((vectors.shape, size, method)).encode())
    for part in (vectors.astype("<f4"), text_ids.astype("<i8"), image_ids.astype("<i8")):
        source.update(part.tobytes())
    made_from = source.hexdigest()
    file = folder / f"{made_from[:16]}.safetensors"
    if not file.exists():
        made = build_graph(vectors, size=size, text_ids=text_ids, image_ids=image_ids, method=method)
        folder.mkdir(parents=True, exist_ok=True)
        about = {"made_from": made_from, "sha256": hashlib.sha256(made.tobytes()).hexdigest()}
        write_bytes(file, save({GRAPH: made}, about))
        return made
    try:
        with safe_open(file, framework="np") as opened:
            about = opened.metadata() or {}
            table: Table = opened.get_tensor(GRAPH)
    except (SafetensorError, OSError) as error:
        raise CheckpointError(f"{file}: not a neighbour graph; remove it") from error
    if (
        about.get("made_from") != made_from
        or about.get("sha256") != hashlib.sha256(table.tobytes()).hexdigest()
    ):
        raise CheckpointError(f"{file}: damaged, or of other vectors or pairs; remove it")
    return table


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
    except DataError:
        raise
    except (SafetensorError, OSError, KeyError, TypeError, ValueError) as error:
        raise DataError(f"{file}: not a file of pair scores ({error}); train the run again") from error
    for name, values in found.items():
        if values.shape != (len(scores.ids),) or values.dtype != np.float32:
            raise DataError(
                f"{file}: {name} has shape {values.shape} of {values.dtype}, expected"
                f" {(len(scores.ids),)} of float32; train the run again"
            )
    return scores
