"""How long writing a batch of indexed pictures takes: rows that are known to be new appended, or all merged.

    python benchmarks/commit_speed.py [--commits 100] [--dim 2048] [--merged-commits 100]

Made-up rows of 256 pictures go into a new library each time, as `limner index` writes them, first every row
merged by its key, then new rows appended. Prints the median of the last twenty commits, the bytes per picture
before and after compaction, and what compaction takes; judges nothing.
"""

import argparse
import hashlib
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np

from limner.store.library import PictureStore
from limner.store.reader import Pixels
from limner.store.store import FILES, PICTURES, Store, vectors_name, vectors_schema
from limner.store.write import file_row, vector_table, write_batch

PICTURES_AT_ONCE = 256


def batch(number: int, dim: int) -> dict[str, object]:
    """The arguments of `write_batch` for made-up pictures."""
    numbers = range(number * PICTURES_AT_ONCE, (number + 1) * PICTURES_AT_ONCE)
    ids = [hashlib.sha256(str(one).encode()).hexdigest() for one in numbers]
    matrix = np.random.default_rng(number).standard_normal((len(ids), dim), dtype=np.float32)
    matrix /= np.linalg.norm(matrix, axis=1, keepdims=True)
    return {
        "files": [
            file_row(f"/made-up/{one}.jpg".encode(), b"/made-up", status="ok", size=1, mtime_ns=1, sha256=sha)
            for one, sha in zip(numbers, ids, strict=True)
        ],
        "pixels": {sha: Pixels(400, 300, "JPEG", sha[:16], {}) for sha in ids},
        "labels": {},
        "vectors": {"made": vector_table(ids, ["made-up"] * len(ids), matrix)},
    }


def fill(folder: Path, commits: int, dim: int, *, merged: bool) -> None:
    library = PictureStore(folder)
    library.store.ensure(vectors_name("made"), vectors_schema(dim))
    plain, times, processor = Store.upsert, [], []
    if merged:
        Store.upsert = lambda store, name, rows, known=None: plain(store, name, rows)
    try:
        for number in range(commits):
            made = batch(number, dim)
            begun, used = time.perf_counter(), time.process_time()
            write_batch(library.store, **made, encoded={"made": ()})
            times.append(time.perf_counter() - begun)
            processor.append(time.process_time() - used)
    finally:
        Store.upsert = plain
    before, begun = _bytes(folder), time.perf_counter()
    library.store.compact()
    took, count = time.perf_counter() - begun, commits * PICTURES_AT_ONCE
    assert library.store.count(FILES) == library.store.count(PICTURES) == count
    usual = statistics.median(times[-20:])
    print(
        f"{'merged' if merged else 'appended':9} {count:8,} x {dim}: a commit {1000 * usual:.0f} ms"
        f" (the first {1000 * times[0]:.0f}), {1000 * statistics.median(processor[-20:]):.0f} ms of the"
        f" processor, {before / count / 1000:.1f} kB a picture,"
        f" {_bytes(folder) / count / 1000:.1f} after compaction in {took:.1f} s",
        flush=True,
    )


def _bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--commits", type=int, default=100)
    parser.add_argument("--merged-commits", type=int, default=100)
    parser.add_argument("--dim", type=int, default=2048)
    asked = parser.parse_args()
    for commits, merged in ((asked.merged_commits, True), (asked.commits, False)):
        if commits:
            with tempfile.TemporaryDirectory() as folder:
                fill(Path(folder) / "library", commits, asked.dim, merged=merged)


if __name__ == "__main__":
    main()
