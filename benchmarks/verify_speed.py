"""What checksums cost: while a library of made-up rows is written, and when `limner verify` reads it.

    python benchmarks/verify_speed.py --rows 100000 --width 384 --to /tmp/verify-speed

Prints the seconds of all writes and of the checksums among them; and those of `limner verify` in a process
of its own with its peak memory, before the rows were written and after, beside a plain read of all files.
"""

import argparse
import hashlib
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
from PIL import Image

from limner.arrays import ImageVectors
from limner.store.ingest import index
from limner.store.integrity import TableFiles
from limner.store.library import PictureStore
from limner.store.store import SCHEMAS, vectors_name
from limner.store.write import vector_table

BATCH = 200_000
ALONE = """
import sys
from limner.cli.main import run
assert run(["verify", sys.argv[1]]) == 0
sys.stderr.write(open("/proc/self/status").read())
"""


class Drawn:
    """An encoder of one picture, so that the library has a space of this width."""

    name, fingerprint, side_px = "made-up", "00" * 32, 8

    def __init__(self, width):
        self.spaces = {"visual": width}

    def prepare(self, image):
        """A picture as bytes."""
        return np.asarray(image.resize((8, 8)), np.uint8)

    def encode_pixels(self, batch):
        """The same vector for all."""
        rows = np.ones((len(batch), self.spaces["visual"]), np.float32)
        return ImageVectors({"visual": rows / np.sqrt(rows.shape[1])})


def columns(schema, known, count):
    """A table of what is known; nothing stands in other columns."""
    return pa.table(
        [
            pa.array(known[one.name], one.type) if one.name in known else pa.nulls(count, one.type)
            for one in schema
        ],
        schema=schema,
    )


def fill(home, count, width):
    """Seconds of all writes, and of noting their checksums among them."""
    album = home.with_name(f"{home.name}-pictures")
    album.mkdir(parents=True)
    Image.new("RGB", (40, 30), "red").save(album / "red.png")
    index([album], home, image_encoders=[Drawn(width)])
    print(f"one picture: {verified(home)}")
    library, rng = PictureStore.open(home), np.random.default_rng(0)
    noting, note = [0.0], TableFiles.note

    def timed(files):
        start = time.perf_counter()
        note(files)
        noting[0] += time.perf_counter() - start

    TableFiles.note = timed
    writing = 0.0
    for start in range(0, count, BATCH):
        ids = [hashlib.sha256(str(n).encode()).hexdigest() for n in range(start, min(start + BATCH, count))]
        paths = [f"/made-up/{number % 211:03}/IMG_{one[:9]}.jpg" for number, one in enumerate(ids, start)]
        said = [[{"text": f"picture number {number}", "source": "exif"}] for number in range(len(ids))]
        known = {
            "id": ids,
            "key": [one[:32] for one in ids],
            "group": ids,
            "sha256": ids,
            "phash": [one[:16] for one in ids],
            "path": paths,
            "paths": [[one] for one in paths],
            "captions": said,
        }
        matrix = rng.standard_normal((len(ids), width), dtype=np.float32)
        matrix /= np.linalg.norm(matrix, axis=1, keepdims=True)
        tables = {name: columns(SCHEMAS[name], known, len(ids)) for name in SCHEMAS}
        tables[vectors_name("visual")] = vector_table(ids, ["made-up"] * len(ids), matrix)
        began = time.perf_counter()
        for name, table in tables.items():
            library.store.upsert(name, table)
        writing += time.perf_counter() - began
    began = time.perf_counter()
    library.store.compact()
    return writing + time.perf_counter() - began, noting[0]


def verified(home):
    """What `limner verify` took, by a process of its own."""
    began = time.perf_counter()
    done = subprocess.run([sys.executable, "-c", ALONE, home], check=True, capture_output=True, text=True)
    taken = time.perf_counter() - began
    # ru_maxrss would be that of this process, from which the other was made
    peak = int(next(line for line in done.stderr.split("\n") if line.startswith("VmHWM")).split()[1]) / 1024
    return f"verify in {taken:.2f} s, peak {peak:,.0f} MB, {done.stdout.split(chr(10))[-2]}"


def main():
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--rows", type=int, default=100_000)
    options.add_argument("--width", type=int, default=384)
    options.add_argument("--to", type=Path, required=True)
    given = options.parse_args()
    home = given.to / f"library-{given.rows}-{given.width}"
    writing, noting = fill(home, given.rows, given.width)
    print(
        f"{given.rows:,} rows, {given.width} wide: written in {writing:.1f} s, {noting:.2f} s of it checksums"
    )
    began = time.perf_counter()
    PictureStore.open(home).gallery(["visual"])
    print(f"cache built in {time.perf_counter() - began:.1f} s")
    began, size = time.perf_counter(), 0
    for path in home.rglob("*"):
        size += len(path.read_bytes()) if path.is_file() else 0
    print(f"plain read of {size / 1e6:,.0f} MB in {time.perf_counter() - began:.2f} s")
    print(verified(home))


if __name__ == "__main__":
    main()
