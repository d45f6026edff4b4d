"""Search: one text of ten steps against many pictures, compared with the plain ways.

Makes: docs/results/speed.md (ten steps in 100,000 and 1,000,000 pictures)

Prints ratios of times taken in turn in one run (best of several), recall against a float32 scan, and what a
fresh process that searches memory-mapped vectors as a library's are takes: its first search, its later ones
and its peak memory. "Built" is the time to derive the library's files once. Vectors are made up.
"""

import argparse
import json
import tempfile
from pathlib import Path

import numpy as np
from harness import alone, in_turn, load, memory_mb, timed

from limner.store.search import EncodedChannel, Evidence, Index
from limner.store.vectors import Gallery, Space, sums

STEPS, WIDTH, BEST, BLOCK = 10, 512, 200, 50_000


class Numbers:
    """Row numbers as ids, without a million strings."""

    def __init__(self, count):
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, row):
        return str(row)


def unit(rows):
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def make(path, count):
    """Clustered unit vectors, float16, and ten texts from ten of the clusters."""
    rng = np.random.default_rng(0)
    centres = rng.standard_normal((1_000, WIDTH), dtype=np.float32)
    matrix = np.lib.format.open_memmap(path, mode="w+", dtype=np.float16, shape=(count, WIDTH))
    for start in range(0, count, BLOCK):
        size = min(BLOCK, count - start)
        noise = rng.standard_normal((size, WIDTH), dtype=np.float32)
        matrix[start : start + size] = unit(centres[rng.integers(0, 1_000, size)] + 1.5 * noise)
    matrix.flush()
    return unit(centres[:STEPS] + 1.5 * rng.standard_normal((STEPS, WIDTH), dtype=np.float32))


def index_of(path):
    matrix, total = np.asarray(np.load(path, mmap_mode="r")), Path(path).with_suffix(".sums.npy")
    count = len(matrix)
    if not total.exists():
        np.save(total, sums(matrix))
    space = Space(matrix, np.ones(count, dtype=bool), "", np.load(total))
    return Index(Gallery(Numbers(count), Numbers(count), {"clip": space}))


def channel(texts):
    return EncodedChannel("clip", "clip", Evidence(slope=10.0, z_slope=1.0, offset=0.0), texts)


def memory(path, texts):
    """In a fresh process: peak above what the imports take, over the bytes stored."""
    import torch

    torch._int_mm(torch.ones(64, 64, dtype=torch.int8), torch.ones(64, 64, dtype=torch.int8))
    before = memory_mb("VmRSS")
    index, question = index_of(path), [channel(np.load(texts))]
    first = timed(lambda: index.search(question, BEST))
    ratio = (memory_mb("VmHWM") - before) * 2**20 / path.stat().st_size
    print(json.dumps({"ratio": ratio, "first": first.clock_s}))


def plain(matrix, texts):
    table = texts @ matrix.T
    top = np.argpartition(-table, BEST, axis=1)[:, :BEST]
    return np.take_along_axis(top, np.argsort(-np.take_along_axis(table, top, axis=1), axis=1), axis=1)


def flat(folder, path, texts):
    """Ten queries of a Lance table without an index."""
    import lance
    import pyarrow as pa

    stored = np.load(path, mmap_mode="r")
    kind = pa.schema([("row", pa.int64()), ("vector", pa.list_(pa.float16(), WIDTH))])

    def batches():
        for start in range(0, len(stored), BLOCK):
            part = np.ascontiguousarray(stored[start : start + BLOCK])
            vectors = pa.FixedSizeListArray.from_arrays(pa.array(part.ravel()), WIDTH)
            rows = pa.array(np.arange(start, start + len(part)))
            yield pa.record_batch([rows, vectors], schema=kind)

    table = lance.write_dataset(batches(), Path(folder) / "t.lance", schema=kind)
    wanted = {"column": "vector", "k": BEST, "metric": "dot", "use_index": False}

    def search():
        return [table.to_table(["row"], nearest=wanted | {"q": text.astype(np.float16)}) for text in texts]

    return search


def compare(count, rounds):
    with tempfile.TemporaryDirectory() as folder:
        path, question = Path(folder) / "matrix.npy", Path(folder) / "texts.npy"
        texts = make(path, count)
        np.save(question, texts)
        built = timed(lambda: index_of(path))
        index = built.result
        fresh = alone(__file__, "--memory", path, question)
        single = np.load(path).astype(np.float32)
        ask = flat(folder, path, texts)

        def limner(number=0):
            return index.search([channel(texts)], BEST)

        first = in_turn({"limner": limner, "numpy": lambda number: plain(single, texts)}, rounds)
        second = in_turn({"lance": lambda number: ask(), "limner": limner}, 2, unmeasured=0)
        ours = min(first["limner"].least_s, second["limner"].least_s)
        pairs = zip(plain(single, texts), limner().rows, strict=True)
        recall = np.mean([len(set(a) & set(b)) / BEST for a, b in pairs])
        print(
            f"{count:>9,} x {WIDTH}: {ours * 1e3:.0f} ms, {fresh['first'] * 1e3:.0f} ms in a fresh process, "
            f"built in {built.clock_s:.1f} s; "
            f"numpy float32 / limner {first['numpy'].least_s / ours:.1f}; "
            f"10 Lance queries / limner {second['lance'].least_s / ours:.1f}; "
            f"recall@{BEST} {recall:.4f}; peak memory {fresh['ratio']:.2f} x stored; {load()}",
            flush=True,
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[100_000, 1_000_000])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--memory", type=Path, nargs=2, metavar=("MATRIX", "TEXTS"))
    options = parser.parse_args()
    if options.memory:
        memory(*options.memory)
    else:
        for rows in options.rows:
            compare(rows, options.rounds)
