"""Search at growing numbers of pictures: the exact scan, the search index, and the plain ways.

Makes: docs/results/speed.md (ten steps in 100,000 and 1,000,000 pictures), docs/results/scale.md (approximate
  search, by number of pictures)

Vectors are random walks around those of a library; texts are its captions as its own encoder reads them.
Every size is made, indexed and asked in processes of its own: the search index, the exact scan, and the scan
against NumPy in float32 and Lance without an index, with its memory over the bytes stored. Results are
written after each.

    limner index PICTURES --library small
    python benchmarks/search_speed.py --around small --sizes 10000 100000 1000000 --json growth.json
"""

import json
import os
import statistics
from pathlib import Path

import numpy as np
from harness import alone, arguments, in_turn, memory_mb, peak_mb, timed
from made_up_tables import bare

from limner.arrays import unit_rows
from limner.match.encoder_setup import channels_of
from limner.scale.library import PictureStore
from limner.scale.search import TableIndex
from limner.scale.store import PICTURES, vectors_name
from limner.store.search import EncodedChannel, Evidence

SPACE, TEXTS, STEPS, CONSIDERED, WANTED = "base", 10, 10, 200, 50
# of a cosine of `base`, fitted on captioned photographs
EVIDENCE = Evidence(
    slope=3.9846, z_slope=0.8612, offset=-0.949, typical_mean=0.005, typical_std=0.1038, typical_count=5.0
)


def origins(around):
    """(R, D) vectors to walk around, float32."""
    return np.asarray(PictureStore.open(around).gallery([SPACE]).space(SPACE).matrix, dtype=np.float32)


def texts(around):
    """(TEXTS, STEPS, D) rows of unit length."""
    library = PictureStore.open(around)
    channel = channels_of(library, [SPACE])[0]
    said = [
        captions[0]["text"]
        for _, captions in sorted(library.store.rows(PICTURES, ["id", "captions"]))
        if captions and len(captions[0]["text"].split()) > 4
    ]
    return channel.encoder.encode_text(said[: TEXTS * STEPS]).reshape(TEXTS, STEPS, -1)


def build(folder, around):
    """Search index and its measures."""
    from limner.progress import Progress
    from limner.scale import vector_index

    library = PictureStore.open(folder)
    taken = timed(lambda: vector_index.prepare(library, Progress()))
    size = sum(one.stat().st_size for one in (folder / "tables").rglob("_indices/**/*") if one.is_file())
    return {
        "build_s": taken.clock_s,
        "build_cpu_s": taken.processor_s,
        "build_mb": peak_mb(),
        "indices_bytes": size,
        "measured": library.settings.searches[SPACE].model_dump(),
    }


def ask(folder, around, *, exact):
    """Times of ten-step texts, each alone and in context as a storyboard asks; the first apart."""
    from limner.scale.approximate import ApproximateIndex

    asked = texts(around)
    library, best, times = PictureStore.open(folder), [], []
    opened = timed(
        lambda: TableIndex(library.gallery([SPACE])) if exact else ApproximateIndex(library, [SPACE])
    )
    for rows in asked:
        context = unit_rows("context", rows + rows.mean(axis=0, dtype=np.float32))
        request = [EncodedChannel(SPACE, SPACE, EVIDENCE, np.concatenate([rows, context]))]

        def search(request=request):
            part = opened.result.among([(request, CONSIDERED)])
            return part.gallery.ids, part.search(request, CONSIDERED).rows[:STEPS, :WANTED]

        times.append(timed(search))
        ids, found = times[-1].result
        best += [[ids[row] for row in rows] for rows in found.tolist()]
    return {
        "open_s": opened.clock_s,
        "first_s": times[0].clock_s,
        "text_s": statistics.median(one.clock_s for one in times[1:]),
        "cpu_s": statistics.median(one.processor_s for one in times[1:]),
        "mb": peak_mb(),
        "best": best,
        **({} if exact else against(library, asked, best)),
    }


def against(library, asked, best):
    """Recall of the texts themselves, by a pass over everything."""
    from limner.research.evaluation.uncertainty import interval
    from limner.scale.approximate import VectorTable
    from limner.scale.vector_index import survey

    table, nobody = VectorTable(library.store, SPACE), np.zeros(0, dtype="S64")
    flat = asked.reshape(TEXTS * STEPS, -1)
    _, answer = survey(table, nobody, nobody, flat, WANTED)
    rows = [answer.rows[number][answer.good[number]] for number in range(len(flat))]
    wanted, named = np.unique(np.concatenate(rows)), {}
    for numbers, ids, _ in table.batches():
        there = np.isin(numbers, wanted)
        named |= zip(numbers[there].tolist(), np.array(ids)[there].tolist(), strict=True)
    true = [{named[row] for row in some.tolist()} for some in rows]
    shares = [len(set(one) & own) / min(WANTED, len(own)) for one, own in zip(best, true, strict=True)]
    found = interval(np.array(shares), range(len(shares)))
    return {"text_recall": found.value, "text_recall_low": found.low, "text_recall_high": found.high}


def plain(folder, around):
    """The scan of ten steps against NumPy and Lance, and its memory above that of imports."""
    import lance
    import torch

    torch._int_mm(torch.ones(64, 64, dtype=torch.int8), torch.ones(64, 64, dtype=torch.int8))
    asked = texts(around)
    rows, before = asked[0], memory_mb("VmRSS")
    gallery = PictureStore.open(folder).gallery([SPACE])
    index, space = TableIndex(gallery), gallery.space(SPACE)

    def limner(number=0):
        return index.search([EncodedChannel(SPACE, SPACE, EVIDENCE, rows)], CONSIDERED).rows

    limner()
    ratio = (memory_mb("VmHWM") - before) * 2**20 / space.matrix.nbytes
    single = np.asarray(space.matrix, dtype=np.float32)
    table = lance.dataset(str(folder / "tables" / f"{vectors_name(SPACE)}.lance"))
    wanted = {"column": "vector", "k": CONSIDERED, "metric": "dot", "use_index": False}

    def numpy(number=0):
        scores = rows @ single.T
        top = np.argpartition(-scores, CONSIDERED, axis=1)[:, :CONSIDERED]
        return np.take_along_axis(top, np.argsort(-np.take_along_axis(scores, top, axis=1), axis=1), axis=1)

    def lances(number):
        return [table.to_table(["id"], nearest=wanted | {"q": one.astype(np.float16)}) for one in rows]

    times = in_turn({"limner": limner, "numpy": numpy}, 7)
    other = in_turn({"lance": lances, "limner": limner}, 2, unmeasured=0)
    ours = min(times["limner"].least_s, other["limner"].least_s)
    same = [len(set(a) & set(b)) / CONSIDERED for a, b in zip(numpy(), limner(), strict=True)]
    return {
        "ms": 1000 * ours,
        "numpy_ratio": times["numpy"].least_s / ours,
        "lance_ratio": other["lance"].least_s / ours,
        "recall": float(np.mean(same)),
        "memory_ratio": ratio,
    }


PARTS = {
    "make": lambda folder, around: bare(folder, int(folder.name), SPACE, origins(around)),
    "build": build,
    "ask": lambda folder, around: ask(folder, around, exact=False),
    "exact": lambda folder, around: ask(folder, around, exact=True),
    "plain": plain,
}


def measure(count, options):
    """All parts of a size, each in a process of its own."""
    folder = options.folder / f"{count}"

    def part(name):
        return alone(__file__, "--part", name, "--folder", folder, "--around", options.around)

    if not (folder / "made").exists():
        part("make")
        (folder / "made").touch()
    made = {"pictures": count, "load": round(os.getloadavg()[0], 1)} | part("build")
    made["approximate"] = part("ask")
    best = made["approximate"].pop("best")
    if count <= options.exact_up_to:
        made["exact"] = part("exact")
        pairs = list(zip(best, made["exact"].pop("best"), strict=True))
        made["same_best"] = sum(one[0] == other[0] for one, other in pairs) / len(pairs)
        made["plain"] = part("plain")
    return made


def main():
    parser = arguments(__doc__)
    parser.add_argument("--sizes", nargs="*", type=int, default=[100_000, 1_000_000])
    parser.add_argument("--around", type=Path, required=True, help="library of captioned pictures")
    parser.add_argument("--folder", type=Path, default=Path("search-speed"))
    parser.add_argument("--exact-up-to", type=int, default=1_000_000)
    parser.add_argument("--json", type=Path, default=Path("search-speed.json"))
    parser.add_argument("--part", choices=PARTS, help="alone, for --folder of a size")
    options = parser.parse_args()
    if options.part:
        print(json.dumps(PARTS[options.part](options.folder, options.around)))
        return
    results = json.loads(options.json.read_text()) if options.json.exists() else []
    for count in options.sizes:
        found = measure(count, options)
        results = sorted(
            [one for one in results if one["pictures"] != count] + [found], key=lambda one: one["pictures"]
        )
        options.json.write_text(json.dumps(results, indent=1) + "\n")
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
