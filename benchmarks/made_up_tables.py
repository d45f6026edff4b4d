"""Made-up libraries of Lance tables, for a search index of any size."""

import hashlib
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from made_up import BATCH, BEGIN, Draw, sentence, walks

from limner.arrays import FloatArray
from limner.scale.library import PictureStore
from limner.scale.store import FILES, FILES_SCHEMA, PICTURES, PICTURES_SCHEMA, vectors_name, vectors_schema
from limner.scale.write import file_key, vector_table
from limner.store import SpaceInfo


def fill(library: PictureStore, pictures: int, draws: Mapping[str, Draw]) -> None:
    """Add so many pictures, with vectors of the spaces given."""
    rng = np.random.default_rng(pictures)
    for start in range(0, pictures, BATCH):
        files, shown = rows_of(range(start, min(start + BATCH, pictures)))
        library.store.upsert(PICTURES, shown, ())
        library.store.upsert(FILES, files, ())
        ids = shown["id"].to_pylist()
        for name, draw in draws.items():
            vectors = vector_table(ids, ["made-up"] * len(ids), draw(rng, len(ids)))
            library.store.upsert(vectors_name(name), vectors, ())
    library.store.compact()


def bare(home: Path, pictures: int, space: str, origins: FloatArray) -> None:
    """A library of one space, in which rows walk around some vectors, for a search index of any size."""
    library, dim = PictureStore(home), origins.shape[1]
    library.store.ensure(vectors_name(space), vectors_schema(dim))
    info = SpaceInfo(encoder="drawn", fingerprint="drawn", dim=dim)
    library.save(spaces={space: info}, approximate_from=0)
    fill(library, pictures, {space: walks(origins)})


def rows_of(numbers: range) -> tuple[pa.Table, pa.Table]:
    """Rows of `files` and `pictures` that nobody took: forty a day, of which every second one states when."""
    one_each = pa.array(range(len(numbers) + 1), pa.int32())
    paths = [f"/made-up/{number % 211:03}/IMG_{number:08}.jpg" for number in numbers]
    captions = pa.StructArray.from_arrays(
        [[sentence(number) for number in numbers], ["exif"] * len(numbers)], ["text", "source"]
    )
    days = [BEGIN + timedelta(days=number // 40, minutes=7 * (number % 40)) for number in numbers]
    ids = [hashlib.sha256(str(number).encode()).hexdigest() for number in numbers]
    names = [path.encode() for path in paths]
    columns = {
        **{"key": list(map(file_key, names)), "path": paths, "path_bytes": names, "source": b"/made-up"},
        **{"size": 1, "mtime_ns": 1, "sha256": ids, "status": "ok", "reason": "", "words_key": ""},
        **{"id": ids, "group": ids, "paths": pa.ListArray.from_arrays(one_each, pa.array(paths))},
        **{"width_px": 400, "height_px": 300, "format": "JPEG", "size_bytes": 1, "labels": None},
        **{"phash": [one[:16] for one in ids], "stamp": "", "credit": "", "license": "", "camera": "made-up"},
        "taken_from": ["camera" if number % 2 else "" for number in numbers],
        "captions": pa.ListArray.from_arrays(one_each, captions),
        "taken": [day.isoformat() if number % 2 else None for number, day in zip(numbers, days, strict=True)],
    }

    def table(schema: pa.Schema) -> pa.Table:
        """Some columns; a single value stands in all rows."""
        single = (str, bytes, int, type(None))
        own: dict[str, Any] = {name: columns[name] for name in schema.names}
        whole = {k: [one] * len(ids) if isinstance(one, single) else one for k, one in own.items()}
        return pa.table(whole, schema)

    return table(FILES_SCHEMA), table(PICTURES_SCHEMA)
