"""How fast a library is filled: against the slower of decoding and encoding, and against the plain way.

Every stage runs in its own process on the same pictures, so that its peak memory is its own; the stages are
repeated in turn and the fastest of each is taken, since a busy machine only ever slows one down. Run it as
``python benchmarks/index_speed.py`` (generated 12-megapixel JPEGs) or with ``--pictures FOLDER``.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

STAGES = ("decode", "forward", "index", "plain")
BATCH = 32


def draw(folder, count, size=(4000, 3000)):
    """Photographs' stand-ins: smooth shapes with some grain, about 3 MB each."""
    from PIL import Image

    rng = np.random.default_rng(0)
    grain = rng.integers(-12, 13, (size[1], size[0], 1), dtype=np.int16)
    for number in range(count):
        small = Image.fromarray(rng.integers(0, 256, (12, 16, 3), dtype=np.uint8))
        smooth = np.asarray(small.resize(size, Image.Resampling.BICUBIC), dtype=np.int16)
        picture = np.clip(smooth + np.roll(grain, 97 * number, axis=1), 0, 255).astype(np.uint8)
        Image.fromarray(picture).save(folder / f"{number:05}.jpg", quality=88)


def encoder(precision="bfloat16"):
    """ResNet-50 with random weights: the speed is that of trained ones."""
    import torch
    from torchvision.models import resnet50

    from limner.encoders.pixels import Backbone, PixelEncoder

    torch.manual_seed(0)
    model = resnet50(weights=None)
    model.fc = torch.nn.Identity()
    return PixelEncoder("resnet50", Backbone(model.eval(), None, 2048), "random", precision=precision)


def found(folder):
    from limner.data.folder import FoundFile, source_path, walk

    return [entry for entry in walk([source_path(folder)]) if isinstance(entry, FoundFile)]


def reader(one):
    from limner.data.words import CAPTION_SOURCES
    from limner.retrieval.reading import Reader

    return Reader([one], lambda sha: [one], frozenset(CAPTION_SOURCES))


def decode(folder, workers):
    """Read, hash, decode, prepare: all that the workers do, and nothing else."""
    from limner.retrieval.reading import ahead

    one, files = encoder(), found(folder)
    start, cpu = time.perf_counter(), time.process_time()
    done = sum(
        result.pixels is not None for result in ahead(files, reader(one), workers=workers, in_flight=64)
    )
    return done, time.perf_counter() - start, time.process_time() - cpu


def forward(folder, workers):
    """The encoder alone, on as many prepared pictures."""
    one, files = encoder(), found(folder)
    with ThreadPoolExecutor(workers) as pool:
        results = list(pool.map(reader(one), files[:BATCH]))
    prepared = [result.pixels.prepared[one.name] for result in results if result.pixels is not None]
    batch = np.stack([prepared[number % len(prepared)] for number in range(BATCH)])
    one.encode_pixels(batch)
    batches = max(1, round(len(files) / BATCH))
    start, cpu = time.perf_counter(), time.process_time()
    for _ in range(batches):
        one.encode_pixels(batch)
    return batches * BATCH, time.perf_counter() - start, time.process_time() - cpu


def index(folder, workers):
    """The whole pipeline into a new library."""
    from limner.retrieval.indexing import index as fill

    one = encoder()
    one.encode_pixels(np.zeros((BATCH, 224, 224, 3), dtype=np.uint8))
    with tempfile.TemporaryDirectory() as place:
        start, cpu = time.perf_counter(), time.process_time()
        report = fill(
            [folder], Path(place) / "lib", image_encoders=[one], workers=workers, batch_pictures=BATCH
        )
        return report.pictures, time.perf_counter() - start, time.process_time() - cpu


def plain(folder, workers):
    """What a short script does: full decode, float32, one after the other."""
    from PIL import Image

    one = encoder("float32")
    files = sorted(folder.glob("**/*.jpg"))[: max(BATCH, 1)]
    one.encode_pixels(np.zeros((BATCH, 224, 224, 3), dtype=np.uint8))
    start, cpu = time.perf_counter(), time.process_time()
    batch = np.stack([one.prepare(Image.open(path).convert("RGB")) for path in files])
    one.encode_pixels(batch)
    return len(files), time.perf_counter() - start, time.process_time() - cpu


def stage(name, folder, workers):
    """One stage in its own process: pictures per second and its peak memory."""
    command = [
        sys.executable,
        __file__,
        "--stage",
        name,
        "--pictures",
        str(folder),
        "--workers",
        str(workers),
    ]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--pictures", type=Path, help="folder of JPEGs; generated where absent")
    options.add_argument("--count", type=int, default=96, help="pictures to generate")
    options.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)))
    options.add_argument("--repeats", type=int, default=2)
    options.add_argument("--stage", help="run this stage alone")
    given = options.parse_args()
    if given.stage:
        count, seconds, cpu_s = globals()[given.stage](given.pictures, given.workers)
        peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(json.dumps({"rate": count / seconds, "cpu_ms": 1000 * cpu_s / count, "peak_mib": peak_mib}))
        return
    with tempfile.TemporaryDirectory() as place:
        folder = given.pictures or Path(place)
        if given.pictures is None:
            draw(folder, given.count)
        best = {}
        for _ in range(given.repeats):
            for name in STAGES:
                measured = stage(name, folder, given.workers)
                best[name] = max(measured, best.get(name, measured), key=lambda one: one["rate"])
    for name, one in best.items():
        rate, cpu_ms, peak_mib = one["rate"], one["cpu_ms"], one["peak_mib"]
        print(f"{name:8} {rate:7.1f} pictures/s, {cpu_ms:6.1f} CPU ms each, peak {peak_mib:5.0f} MiB")
    rates = {name: best[name]["rate"] for name in STAGES}
    bound = min(rates["decode"], rates["forward"])
    shared = 1 / (1 / rates["decode"] + 1 / rates["forward"])
    cores = len(os.sched_getaffinity(0))
    print(f"index / slower of decode and forward: {rates['index'] / bound:.2f}")
    print(
        f"index / both on the same {cores} cores (the bound where nothing but the CPU computes): "
        f"{rates['index'] / shared:.2f}"
    )
    print(f"index / plain way: {rates['index'] / rates['plain']:.2f}")
    work = {name: best[name]["cpu_ms"] for name in STAGES}
    print(
        f"CPU time: decode + forward / index: {(work['decode'] + work['forward']) / work['index']:.2f}; "
        f"plain / index: {work['plain'] / work['index']:.2f}"
    )
    print(f"load average {os.getloadavg()[0]:.1f} on {cores} cores")


if __name__ == "__main__":
    main()
