"""Search beyond memory at growing numbers of pictures, against the exact scan as far as that is asked for.

Makes: docs/results/scale.md (approximate search, by number of pictures)

Vectors are random walks around those of a library (--around), or around drawn ones; texts are its captions as
its own encoder reads them, or vectors near some pictures. Every size is made, indexed and asked in
processes of its own; results are written after each.

    limner index PICTURES --library small
    python benchmarks/approximate_search.py --around small --sizes 10000 100000 1000000 --json growth.json
"""

import argparse
import json
import os
import statistics
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
from harness import alone, peak_mb

from limner.arrays import unit_rows
from limner.store.library import PictureStore
from limner.store.search import EncodedChannel, Evidence
from limner.store.store import PICTURES, PICTURES_SCHEMA, SpaceInfo, Store, vectors_name, vectors_schema

SPACE, WIDTH, TEXTS, STEPS, CONSIDERED, WANTED = "base", 384, 10, 10, 200, 50
BLOCK = 65_536
KEPT, STEP = 0.8, 0.4  # of a walk: share of the last place, and length of a step


def seconds(since):
    return round(time.perf_counter() - since, 3)


def origins(around):
    """(R, D) vectors to walk around, float32."""
    if around is None:
        rng = np.random.default_rng(0)
        scale = np.arange(1, WIDTH + 1, dtype=np.float32) ** -0.5
        return unit_rows("origins", scale * rng.standard_normal((5_000, WIDTH), dtype=np.float32))
    return np.asarray(PictureStore.open(around).gallery([SPACE]).space(SPACE).matrix, dtype=np.float32)


def texts(around, near):
    """(TEXTS, STEPS, D) rows of unit length, and the evidence of their channel."""
    if around is None:
        rng = np.random.default_rng(1)
        some = near[rng.integers(0, len(near), TEXTS * STEPS)]
        noise = unit_rows("noise", rng.standard_normal(some.shape, dtype=np.float32))
        rows, evidence = (
            unit_rows("texts", 0.6 * some + 0.8 * noise),
            Evidence(slope=5.0, z_slope=0.7, offset=-1.0),
        )
    else:
        from limner.research.evaluation.linear import linear_channels

        library = PictureStore.open(around)
        channel = linear_channels(library, [SPACE])[0]
        said = [
            captions[0]["text"]
            for _, captions in sorted(library.store.rows(PICTURES, ["id", "captions"]))
            if captions and len(captions[0]["text"].split()) > 4
        ]
        rows, evidence = channel.encoder.encode_text(said[: TEXTS * STEPS]), channel.evidence
    return rows.reshape(TEXTS, STEPS, -1), evidence


def make(folder, count, around):
    """A library of so many pictures without files: the tables as indexing leaves them."""
    near = origins(around)
    width = near.shape[1]
    library, rng = PictureStore(folder), np.random.default_rng(count)
    library.store.ensure(vectors_name(SPACE), vectors_schema(width))
    library.save(
        spaces={SPACE: SpaceInfo(encoder="drawn", fingerprint="drawn", dim=width)}, approximate_from=0
    )
    walk, done = np.zeros_like(near), 0
    while done < count:
        size = min(BLOCK, count - done)
        rows = []
        while sum(map(len, rows)) < size:
            one, other = rng.integers(0, len(near), (2, len(near)))
            walk = KEPT * walk + STEP * (near[one] - near[other])
            rows.append(unit_rows("walk", near + walk))
        vectors = np.concatenate(rows)[:size].astype(np.float16)
        digits = rng.bytes(32 * size).hex()
        ids = pa.array([digits[64 * n : 64 * n + 64] for n in range(size)])
        table = pa.table(
            [ids, pa.array(["drawn"] * size), pa.FixedSizeListArray.from_arrays(vectors.ravel(), width)],
            schema=vectors_schema(width),
        )
        library.store.upsert(vectors_name(SPACE), table, known=())
        filled = {
            "id": ids,
            "group": ids,
            "paths": pa.ListArray.from_arrays(np.arange(size + 1, dtype=np.int32), ids),
        }
        columns = [filled.get(one.name, pa.nulls(size, one.type)) for one in PICTURES_SCHEMA]
        library.store.upsert(PICTURES, pa.table(columns, schema=PICTURES_SCHEMA), known=())
        done += size
    library.store.compact()


def build(folder):
    from limner.progress import Progress
    from limner.store import vector_index

    library, times = PictureStore.open(folder), {}
    plain = Store.index_vectors

    def timed(store, name, parts):
        started = time.perf_counter()
        plain(store, name, parts)
        times["index_s"] = seconds(started)

    Store.index_vectors = timed
    started = time.perf_counter()
    vector_index.prepare(library, Progress())
    found = library.settings.searches[SPACE].model_dump()
    size = sum(one.stat().st_size for one in (folder / "tables").rglob("_indices/**/*") if one.is_file())
    return {
        "build_s": seconds(started),
        "build_cpu_s": round(time.process_time(), 1),
        **times,
        "build_mb": round(peak_mb()),
        "indices_bytes": size,
        "measured": found,
    }


def readings(rows, evidence):
    """A text read alone and with all its steps, as a storyboard asks."""
    whole = unit_rows("context", rows + rows.mean(axis=0, dtype=np.float32))
    return [EncodedChannel(SPACE, SPACE, evidence, np.concatenate([rows, whole]))]


def ask(folder, around, exact):
    """Times of ten-step texts; the first apart."""
    from limner.store.beyond import Approximate
    from limner.store.search import Index

    near = origins(around)
    asked, evidence = texts(around, near)
    library, started = PictureStore.open(folder), time.perf_counter()
    index = Index(library.gallery([SPACE])) if exact else Approximate(library, [SPACE])
    times, best, opened, split, spent = [], [], seconds(started), [], []
    for text in asked:
        request, started, work = readings(text, evidence), time.perf_counter(), time.process_time()
        part = index.among([(request, CONSIDERED)])
        between = seconds(started)
        hits = part.search(request, CONSIDERED)
        times.append(seconds(started))
        split.append(between)
        spent.append(time.process_time() - work)
        best += [[part.gallery.ids[row] for row in rows] for rows in hits.rows[:STEPS, :WANTED].tolist()]
    found = {"open_s": opened, "first_s": times[0], "text_s": statistics.median(times[1:])}
    found |= {"candidates_s": statistics.median(split[1:]), "mb": round(peak_mb())}
    found["cpu_s"] = round(statistics.median(spent[1:]), 3)
    if not exact:
        found |= against(library, near, asked, best)
    return found, best


def against(library, near, asked, best):
    """Recall of the texts themselves, by a pass over everything."""
    from limner.store.beyond import VectorTable
    from limner.store.vector_index import survey

    table = VectorTable(library.store, SPACE)
    nobody = np.zeros(0, dtype="S64")
    flat = asked.reshape(TEXTS * STEPS, -1)
    started = time.perf_counter()
    _, answer = survey(table, nobody, nobody, flat, WANTED)
    rows = [answer.rows[n][answer.good[n]] for n in range(len(flat))]
    wanted, named = np.unique(np.concatenate(rows)), {}
    for numbers, ids, _ in table.batches():
        there = np.isin(numbers, wanted)
        named |= zip(numbers[there].tolist(), np.array(ids)[there].tolist(), strict=True)
    true = [{named[row] for row in some.tolist()} for some in rows]
    shares = [len(set(one) & own) / min(WANTED, len(own)) for one, own in zip(best, true, strict=True)]
    rng = np.random.default_rng(0)
    means = np.array(shares)[rng.integers(0, len(shares), (2_000, len(shares)))].mean(axis=1)
    low, high = np.quantile(means, (0.025, 0.975))
    return {
        "pass_s": seconds(started),
        "text_recall": float(np.mean(shares)),
        "text_recall_low": float(low),
        "text_recall_high": float(high),
    }


def measure(count, options):
    folder = options.folder / f"{count}"
    around = ["--around", options.around] if options.around else []
    started = time.perf_counter()
    if not (folder / "tables" / "made").exists():
        alone(__file__, "--part", "make", "--sizes", count, "--folder", folder, *around)
        (folder / "tables" / "made").parent.mkdir(parents=True, exist_ok=True)
        (folder / "tables" / "made").touch()
    made = {"pictures": count, "make_s": seconds(started), "load": round(os.getloadavg()[0], 1)}
    made |= alone(__file__, "--part", "build", "--folder", folder)
    made["approximate"] = alone(__file__, "--part", "ask", "--folder", folder, *around)
    if count <= options.exact_up_to:
        made["exact"] = alone(__file__, "--part", "exact", "--folder", folder, *around)
        pairs = list(zip(made["approximate"].pop("best"), made["exact"].pop("best"), strict=True))
        made["same_best"] = sum(one[0] == other[0] for one, other in pairs) / len(pairs)
    made["approximate"].pop("best", None)
    return made


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", nargs="*", type=int, default=[])
    parser.add_argument("--around", type=Path)
    parser.add_argument("--folder", type=Path, default=Path("approximate-search"))
    parser.add_argument("--exact-up-to", type=int, default=1_000_000)
    parser.add_argument("--json", type=Path, default=Path("approximate-search.json"))
    parser.add_argument("--part", choices=("make", "build", "ask", "exact"))
    options = parser.parse_args()
    if options.part == "make":
        make(options.folder, options.sizes[0], options.around)
        print("{}")
    elif options.part == "build":
        print(json.dumps(build(options.folder)))
    elif options.part:
        found, best = ask(options.folder, options.around, options.part == "exact")
        print(json.dumps(found | {"best": best}))
    else:
        results = json.loads(options.json.read_text()) if options.json.exists() else []
        for count in options.sizes:
            results = [one for one in results if one["pictures"] != count] + [measure(count, options)]
            results.sort(key=lambda one: one["pictures"])
            options.json.write_text(json.dumps(results, indent=1) + "\n")
            print(json.dumps(next(one for one in results if one["pictures"] == count)), flush=True)


if __name__ == "__main__":
    main()
