"""A library of vectors and no pictures: the tables as indexing leaves them, in a moment."""

import hashlib

import numpy as np
import pyarrow as pa

from limner.arrays import unit_rows
from limner.scale.library import PictureStore
from limner.scale.store import PICTURES, PICTURES_SCHEMA, vectors_name, vectors_schema
from limner.scale.write import vector_table
from limner.store import SpaceInfo


def ids_of(numbers):
    """Ids as those of pictures: of each number the SHA-256."""
    return [hashlib.sha256(str(number).encode()).hexdigest() for number in numbers]


def drawn(count, width, seed):
    """Unit rows in overlapping clusters."""
    rng = np.random.default_rng(seed)
    centres = rng.standard_normal((40, width), dtype=np.float32)
    near = centres[rng.integers(0, 40, count)] + rng.standard_normal((count, width), dtype=np.float32)
    return unit_rows("drawn", near)


def add(library, numbers, spaces, seed=0):
    """Write pictures, and vectors of them: space → (width, every how many pictures have one)."""
    ids = ids_of(numbers)
    rows = [
        {"id": one, "paths": [f"/p/{one}"], "group": one, "width_px": 4, "height_px": 3, "size_bytes": 1}
        | {"format": "PNG", "phash": "", "captions": [], "labels": []}
        for one in ids
    ]
    library.store.upsert(PICTURES, pa.Table.from_pylist(rows, schema=PICTURES_SCHEMA), known=())
    made = {}
    for place, (space, (width, every)) in enumerate(spaces.items()):
        library.store.ensure(vectors_name(space), vectors_schema(width))
        made[space] = SpaceInfo(encoder="drawn", fingerprint="drawn", dim=width)
        some, vectors = ids[::every], drawn(len(ids), width, seed + place)[::every]
        table = vector_table(some, ["drawn"] * len(some), vectors)
        library.store.upsert(vectors_name(space), table, known=())
    library.save(spaces={**library.settings.spaces, **made})
    return ids


def vector_library(folder, count, spaces, seed=0):
    """A new library of so many pictures; see `add`."""
    library = PictureStore(folder)
    add(library, range(count), spaces, seed)
    return library
