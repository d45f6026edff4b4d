"""The neighbour graph of a data set on disk: a memory-mapped table of int32, made once.

Whole or, after a kill, not there; a damaged one is refused, and no pickle is read. It finds no neighbour.
"""

import hashlib
import json
import os
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, ValidationError

from limner.data.neighbours import Ids, Method, NeighbourGraph, build_graph
from limner.data.records import Record
from limner.errors import CheckpointError, MissingError

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
        vectors: see `limner.data.neighbours.build_graph`, as the rest.
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
    part = folder / f".{TABLE}.part"
    with part.open("wb") as file:
        np.save(file, graph.neighbours, allow_pickle=False)
        file.flush()
        os.fsync(file.fileno())
    part.replace(folder / TABLE)
    about = _About(made_from=made_from, method=graph.method, sha256=_file_hash(folder / TABLE))
    part = folder / f".{ABOUT}.part"
    part.write_text(about.model_dump_json(indent=1), encoding="utf-8")
    part.replace(folder / ABOUT)


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
    if about.sha256 != _file_hash(folder / TABLE) or table.dtype != np.int32 or table.ndim != 2:
        raise CheckpointError(f"{folder}: the table of neighbours is damaged; remove the folder")
    return NeighbourGraph(table, about.method)


def _file_hash(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
