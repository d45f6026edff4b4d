"""Neighbour graph: for every training pair, the pairs whose texts lie nearest.

A pair itself and its duplicates are no neighbours. It makes no vectors and keeps no file; see
`limner.data.neighbour_files`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from limner.errors import ConfigError, MissingError, NumericsError, ShapeError, unknown

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
    Source: SPEC 3.3. Departs: searched above 200,000 rows, not a million, where comparing all with all takes
        hours without an accelerator.
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
