"""How fast a library is filled: against the slower of decoding and encoding, and against a short loop.

Makes: docs/results/speed.md (indexing photographs against a plain loop and its own stages)

Every stage runs in its own process on the same pictures, so that its peak memory is its own; the stages are
repeated in turn and the fastest of each is taken, since a busy machine only ever slows one down. Without
``--pictures FOLDER`` the pictures are 4000 × 3000 JPEGs of quality 90: mosaics of the photographs of
LIMNER_DATA/data/flickr8k. ``index`` is by OpenVINO where it is installed, or by what the environment's ENGINE
says; all else is by torch.
"""

import json
import os
import tempfile
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib.util import find_spec
from itertools import islice
from pathlib import Path

import numpy as np
from harness import alone, arguments, data_folder, load, peak_mb, timed

BATCH = 32


def mosaic(size, photographs, rng):
    """Photographs side by side, each as large as it is: detail and file size like a camera's."""
    from PIL import Image

    whole = Image.new("RGB", size)
    for top in range(0, size[1], 224):
        for left in range(0, size[0], 224):
            with Image.open(photographs[rng.integers(len(photographs))]) as one:
                whole.paste(one.convert("RGB"), (left, top))
    return whole


def draw(folder, count, size=(4000, 3000)):
    """Write the pictures; at most 24 are drawn, the rest are copies that differ after the end of the JPEG."""
    rng = np.random.default_rng(0)
    photographs = sorted((data_folder() / "flickr8k" / "images").glob("*.jpg"))
    for number in range(min(count, 24)):
        mosaic(size, photographs, rng).save(folder / f"{number:05}.jpg", quality=90)
    for number in range(24, count):
        content = (folder / f"{number % 24:05}.jpg").read_bytes()
        (folder / f"{number:05}.jpg").write_bytes(content + number.to_bytes(4, "big"))
    sizes = [path.stat().st_size for path in folder.iterdir()]
    print(f"{count} JPEGs of {size[0]} x {size[1]}, {np.mean(sizes) / 1e6:.1f} MB each")


def encoder(engine="torch"):
    """ResNet-50 with random weights: the speed is that of trained ones."""
    import torch
    from torchvision.models import resnet50

    from limner.encoders.pixels import Backbone, PixelEncoder

    torch.manual_seed(0)
    model = resnet50(weights=None)
    model.fc = torch.nn.Identity()
    return PixelEncoder("resnet50", Backbone(model.eval(), None, 2048), "random", engine=engine)


def found(folder):
    from limner.pictures.find import FoundFile, source_path, walk

    return [entry for entry in walk([source_path(folder)]) if isinstance(entry, FoundFile)]


def reader(one):
    from limner.store.database import Database
    from limner.store.index import Reader

    return Reader(Database(Path(tempfile.mkdtemp()) / "lib"), [one])


def decode(folder, workers):
    """Read, hash, decode, prepare: all that the workers do, and nothing else."""
    from limner.devices import ahead

    one, files = encoder(), found(folder)
    read = partial(ahead, files, reader(one), workers=workers, in_flight=64)
    taken = timed(lambda: sum(result.pixels is not None for result in read()))
    return taken.result, taken


def forward(folder, workers):
    """The encoder alone, on as many prepared pictures."""
    one, files = encoder(), found(folder)
    with ThreadPoolExecutor(workers) as pool:
        results = list(pool.map(reader(one), files[:BATCH]))
    prepared = [result.prepared[one.name] for result in results if result.pixels is not None]
    batch = np.stack([prepared[number % len(prepared)] for number in range(BATCH)])
    one.encode_pixels(batch)
    batches = max(1, round(len(files) / BATCH))
    return batches * BATCH, timed(lambda: [one.encode_pixels(batch) and None for _ in range(batches)])


def index(folder, workers):
    """The whole pipeline into a new library."""
    from limner.store.database import Database
    from limner.store.index import index as fill

    one = encoder(os.environ.get("ENGINE", "openvino" if find_spec("openvino") else "torch"))
    one.encode_pixels(np.zeros((BATCH, 224, 224, 3), dtype=np.uint8))
    with tempfile.TemporaryDirectory() as place:
        taken = timed(
            lambda: fill([folder], Database(Path(place) / "lib"), image_encoders=[one], workers=workers)
        )
        return taken.result.pictures, taken


def loop(folder, workers):
    """What a good short script does: threads decode ahead, small; bfloat16; one array in the end."""
    from PIL import Image

    one = encoder()
    one.encode_pixels(np.zeros((BATCH, 224, 224, 3), dtype=np.uint8))

    def read(path):
        with Image.open(path) as picture:
            picture.draft("RGB", (448, 448))
            return one.prepare(picture.convert("RGB"))

    def save(place):
        with ThreadPoolExecutor(workers) as pool:
            ready, made = pool.map(read, files), []
            while batch := list(islice(ready, BATCH)):
                made.append(one.encode_pixels(np.stack(batch)).spaces["visual"])
            np.save(Path(place) / "vectors.npy", np.concatenate(made).astype(np.float16))

    files = sorted(folder.glob("**/*.jpg"))
    with tempfile.TemporaryDirectory() as place:
        return len(files), timed(lambda: save(place))


STAGES = {"decode": decode, "forward": forward, "index": index, "loop": loop}


def main():
    options = arguments(__doc__)
    options.add_argument("--pictures", type=Path, help="folder of JPEGs; generated where absent")
    options.add_argument("--count", type=int, default=256, help="pictures to generate")
    options.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)))
    options.add_argument("--repeats", type=int, default=2)
    options.add_argument("--stage", help="run this stage alone")
    given = options.parse_args()
    if given.stage:
        count, taken = STAGES[given.stage](given.pictures, given.workers)
        cpu_ms = 1000 * taken.processor_s / count
        print(json.dumps({"rate": count / taken.clock_s, "cpu_ms": cpu_ms, "peak_mib": peak_mb()}))
        return
    with tempfile.TemporaryDirectory() as place:
        folder = given.pictures or Path(place)
        if given.pictures is None:
            draw(folder, given.count)
        best = {}
        for _ in range(given.repeats):
            for name in STAGES:
                words = ("--stage", name, "--pictures", folder, "--workers", given.workers)
                measured = alone(__file__, *words)
                best[name] = max(measured, best.get(name, measured), key=lambda one: one["rate"])
    for name, one in best.items():
        rate, cpu_ms, peak_mib = one["rate"], one["cpu_ms"], one["peak_mib"]
        print(f"{name:8} {rate:7.1f} pictures/s, {cpu_ms:6.1f} CPU ms each, peak {peak_mib:5.0f} MiB")
    rates = {name: best[name]["rate"] for name in STAGES}
    bound = min(rates["decode"], rates["forward"])
    shared = 1 / (1 / rates["decode"] + 1 / rates["forward"])
    print(f"index / slower of decode and forward: {rates['index'] / bound:.2f}")
    print(f"index / both on the same cores, the bound on a CPU: {rates['index'] / shared:.2f}")
    print(f"index / loop: {rates['index'] / rates['loop']:.2f}")
    work = {name: best[name]["cpu_ms"] for name in STAGES}
    print(
        f"CPU time: decode + forward / index: {(work['decode'] + work['forward']) / work['index']:.2f}; "
        f"loop / index: {work['loop'] / work['index']:.2f}"
    )
    print(load())


if __name__ == "__main__":
    main()
