"""The cache of a drawn library: made at once, and brought up to date after one picture changed.

Prints seconds of both in one run, the seconds of opening what is up to date, and the memory of a fresh
process that opens it: bytes of its own a picture, without what it maps from files. Vectors and ids are
made up.
"""

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa

from limner.store.library import PictureStore
from limner.store.store import PICTURES, PICTURES_SCHEMA, SpaceInfo, vectors_name, vectors_schema
from limner.store.write import vector_table

SPACE, BATCH = "base", 16_384


def drawn(rng, count, width):
    rows = rng.standard_normal((count, width), dtype=np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def rows_of(numbers):
    """Rows of `pictures`, and their ids."""
    ids = [hashlib.sha256(str(one).encode()).hexdigest() for one in numbers]
    columns = {name: pa.nulls(len(ids), PICTURES_SCHEMA.field(name).type) for name in PICTURES_SCHEMA.names}
    columns |= {"id": pa.array(ids), "group": pa.array(ids)}
    columns["paths"] = pa.array([[f"/pictures/{one:09}.jpg"] for one in numbers])
    return pa.table(columns, PICTURES_SCHEMA), ids


def make(folder, count, width):
    library, rng = PictureStore(folder), np.random.default_rng(0)
    library.save(spaces={SPACE: SpaceInfo(encoder="drawn", fingerprint="drawn", dim=width)})
    library.store.ensure(vectors_name(SPACE), vectors_schema(width))
    for start in range(0, count, BATCH):
        rows, ids = rows_of(range(start, min(start + BATCH, count)))
        library.store.upsert(PICTURES, rows, ())
        vectors = vector_table(ids, ["drawn"] * len(ids), drawn(rng, len(ids), width))
        library.store.upsert(vectors_name(SPACE), vectors, ())
    library.store.compact()
    return library


def change(library, number, width):
    """Write one picture and its vector again."""
    rows, ids = rows_of([number])
    library.store.upsert(PICTURES, rows)
    vector = drawn(np.random.default_rng(number), 1, width)
    library.store.upsert(vectors_name(SPACE), vector_table(ids, ["again"], vector))


def opened(folder):
    """Seconds until a library's gallery is there, with what a search needs of all its vectors."""
    begun = time.perf_counter()
    space = PictureStore.open(folder).gallery([SPACE]).space(SPACE)
    taken = time.perf_counter() - begun
    assert space.moments is not None
    return taken, time.perf_counter() - begun


def own_memory():
    """Bytes of this process that are mapped from no file."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon"))


def memory(folder):
    import lance  # noqa: F401  (loaded by the first look at a table)

    library = PictureStore.open(folder)
    library.store.version(PICTURES)
    before = own_memory()
    gallery = library.gallery([SPACE])
    print(json.dumps((own_memory() - before) / len(gallery)))


def measure(count, width, changes):
    with tempfile.TemporaryDirectory() as home:
        folder = Path(home) / "lib"
        library = make(folder, count, width)
        at_once = opened(folder)
        steps = []
        for number in range(changes):
            change(library, number * 7, width)
            steps.append(opened(folder))
        library.store.compact()
        joined = opened(folder)
        again = opened(folder)
        command = [sys.executable, __file__, "--memory", str(folder)]
        per_picture = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
        shutil.rmtree(folder / "cache")
        anew = opened(folder)
        one = min(steps)
        print(
            f"{count:>10,} x {width}: made in {at_once[0]:.2f} s ({at_once[1]:.2f} s with moments"
            f" copy), anew in {anew[0]:.2f} ({anew[1]:.2f}); after one change {one[0]:.2f} s ({one[1]:.2f}),"
            f" {anew[1] / one[1]:.0f} times as quick; after compaction {joined[0]:.2f} ({joined[1]:.2f});"
            f" up to date {again[0]:.2f} ({again[1]:.2f});"
            f" {per_picture:.0f} bytes a picture; load {os.getloadavg()[0]:.1f}",
            flush=True,
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[100_000, 1_000_000])
    parser.add_argument("--width", type=int, default=384)
    parser.add_argument("--changes", type=int, default=3)
    parser.add_argument("--memory", type=Path, metavar="LIBRARY")
    options = parser.parse_args()
    if options.memory:
        memory(options.memory)
    else:
        for rows in options.rows:
            measure(rows, options.width, options.changes)
