"""How long limner takes to start, against an empty interpreter and against importing torch.

Makes: docs/results/speed.md (cold starts)

    python benchmarks/startup.py --pictures 5000 --to /tmp/startup

Prints the median of several fresh processes, as a ratio to the empty interpreter too, the time of the
processor, which says more where other work is going on, its ratio to that of importing torch if that is
installed, and the peak of memory.
The library is of small drawn pictures with captions, whose vectors of pixels are drawn too, so that making it
takes a minute; it is used again. `search`, `illustrate` and an `index` that finds nothing new run over it.
"""

import argparse
import os
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

from harness import Time, Times, load

RUNS = 7
# Installed packages have their bytecode beside them; an environment may forbid that for a working tree.
ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
WHO = ("a fox", "the old sailor", "a girl in red", "two dogs", "the cook")
WHAT = ("climbs", "paints", "looks at", "sleeps beside", "carries", "waits near")
WHERE = ("a wall", "the snowy hill", "a boat", "the market", "a river", "the beach", "a bridge")
TEXT = "\n\n".join(
    f"At {hour} o'clock {WHO[hour % 5]} {WHAT[hour % 6]} {WHERE[hour % 7]}." for hour in range(10)
)


def make(folder: Path, pictures: int) -> None:
    """Pictures, a library of them, and a text of ten steps, unless they are there."""
    import numpy as np
    from PIL import Image

    from limner.arrays import ByteArray, ImageVectors, unit_rows
    from limner.encoders.base_file import image_fingerprints, shipped_file
    from limner.encoders.catalogue import MULTILINGUAL, sentence_encoder
    from limner.store.ingest import index

    class Drawn:
        """Random vectors in the spaces, and under the fingerprint, of the encoder ``base``."""

        name, side_px = "base", 8
        spaces = {"base": 512, "looks": 256}  # noqa: RUF012
        fingerprint = image_fingerprints(shipped_file("base"))["bfloat16"]

        def prepare(self, image: Image.Image) -> ByteArray:
            return np.asarray(image.resize((8, 8)))

        def encode_pixels(self, batch: ByteArray) -> ImageVectors:
            draws = (np.random.default_rng(one.ravel()) for one in batch)
            both = np.stack([draw.standard_normal(768, dtype=np.float32) for draw in draws])
            spaces = {"base": both[:, :512], "looks": both[:, 512:]}
            return ImageVectors({name: unit_rows(name, rows) for name, rows in spaces.items()})

    album, home = folder / f"pictures-{pictures}", folder / f"library-{pictures}"
    album.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(0)
    for number in range(pictures):
        pixels = rng.integers(0, 255, (6, 8, 3), dtype=np.uint8)
        path = album / f"IMG_{number:05}.jpg"
        Image.fromarray(pixels).resize((64, 48), Image.Resampling.BICUBIC).save(path)
        path.with_suffix(".txt").write_text(f"{WHO[number % 5]} {WHAT[number % 6]} {WHERE[number % 7]}.")
    english, many = sentence_encoder(), sentence_encoder(MULTILINGUAL)
    index([album], home, image_encoders=[Drawn()], text_encoder=english, multilingual=many)
    (folder / "text.txt").write_text(TEXT)


def run(command: list[str]) -> Time:
    """Seconds of one fresh process, and its peak of memory, MB."""
    start = time.perf_counter()
    with Path(os.devnull).open("wb") as nothing:
        files = [(os.POSIX_SPAWN_DUP2, nothing.fileno(), out) for out in (1, 2)]
        child = os.posix_spawn(command[0], command, ENVIRONMENT, file_actions=files)
        _, status, usage = os.wait4(child, 0)
    if status:
        raise SystemExit(f"failed: {' '.join(command)}")
    taken = time.perf_counter() - start
    peak = usage.ru_maxrss / (1e6 if sys.platform == "darwin" else 1e3)
    return Time(taken, usage.ru_utime + usage.ru_stime, peak)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--pictures", type=int, default=5_000)
    parser.add_argument("--to", type=Path, default=Path("startup"))
    parser.add_argument("--make", action="store_true", help="make the library and end")
    options = parser.parse_args()
    album, home = (options.to / f"{kind}-{options.pictures}" for kind in ("pictures", "library"))
    text = options.to / "text.txt"
    if options.make:
        make(options.to, options.pictures)
        return
    if not text.exists() or not home.exists():
        # By another process: the memory of this one counts for those that it starts.
        subprocess.run([sys.executable, *sys.argv, "--make"], check=True)
    python, limner, library = [sys.executable], [sys.executable, "-m", "limner"], ["--library", str(home)]
    commands = {
        "python -c pass": [*python, "-c", "pass"],
        "import limner": [*python, "-c", "import limner"],
        "limner --help": [*limner, "--help"],
        "limner search": [*limner, "search", "a boat on the sea", *library],
        "limner illustrate, 10 steps": [
            *(*limner, "illustrate", str(text), *library, "-o", str(options.to / "out.html"), "--overwrite")
        ],
        "limner index, nothing new": [*limner, "index", str(album), *library],
    }
    if find_spec("torch"):
        commands = {"import torch (for comparison)": [*python, "-c", "import torch"], **commands}
    runs: dict[str, list[Time]] = {name: [] for name in commands}
    for number in range(RUNS + 1):
        for name, command in commands.items():  # in turn, since other work comes and goes
            taken = run(command)
            runs[name] += [taken] if number else []
    medians = {name: Times.of(some) for name, some in runs.items()}
    base, torch = (medians.get(name) for name in ("python -c pass", "import torch (for comparison)"))
    for name, times in medians.items():
        beside = f", {times.processor_median_s / torch.processor_median_s:.2f} × torch" if torch else ""
        peak = max(one.result for one in runs[name])
        print(
            f"{name:30s} {times.median_s * 1000:6.0f} ms (least {times.least_s * 1000:.0f}),"
            f" {times.median_s / base.median_s:.1f} × the empty interpreter; processor"
            f" {times.processor_median_s * 1000:.0f} ms{beside}; {peak:.0f} MB"
        )
    print(load())


if __name__ == "__main__":
    main()
