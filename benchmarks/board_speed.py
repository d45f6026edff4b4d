"""A second text over an opened library, against encoding its steps alone and against opening it anew.

Makes: docs/results/speed.md, docs/results/ordinary.md (a second text over an opened library; 1,000 steps)

    python benchmarks/board_speed.py --to board-speed

Makes libraries of 1,000, 5,000 and 100,000 made-up pictures with captions, a space that answers words from
pixels (base) and their looks: vectors wander around a few hundred centres, those of words around sentences.
Every text has eight steps and is new. Prints medians of wall and processor time: the storyboard, encoding
its steps alone (once, for both spaces), and the same storyboard where everything is opened anew, as a command
does; then the memory of the process.
"""

import argparse
import hashlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from harness import in_turn, load, peak_mb

from limner.arrays import FloatArray, TextEncoder
from limner.encoders import catalogue
from limner.encoders.base_file import image_fingerprints, shipped_file
from limner.encoders.catalogue import text_encoder
from limner.encoders.text_cache import RecentTexts
from limner.match.equipment import picture_encoders
from limner.match.illustrate import step_texts
from limner.match.illustrator import Illustrator
from limner.pictures.metadata import Words
from limner.records import Caption, Story
from limner.store.batches import Pixels
from limner.store.library import PictureStore
from limner.store.store import SpaceInfo, vectors_name, vectors_schema
from limner.store.write import file_row, vector_table, write_batch
from limner.text.read import parse_story_report

BATCH, CENTRES = 5_000, 300
WHO = (
    "a dog",
    "a brown horse",
    "two girls",
    "an old man",
    "the team",
    "a boy in red",
    "a cyclist",
    "sailors",
)
WHAT = (
    "jumps over",
    "looks at",
    "carries",
    "paints",
    "runs past",
    "waits beside",
    "points at",
    "sleeps near",
)
WHERE = ("a wall", "the snowy hill", "a boat", "the market", "a river", "the beach", "a bridge", "the table")


def sentence(number: int) -> str:
    """One of a few thousand sentences."""
    rng = np.random.default_rng(number)
    who, what, where, there = (rng.integers(8) for _ in range(4))
    return f"{WHO[who]} {WHAT[what]} {WHERE[where]} and {WHERE[there]}"


def text_of(number: int, steps: int) -> Story:
    """A text that no other number has."""
    lines = [f"At {number} past {step}, {sentence(1000 * number + step)}." for step in range(steps)]
    return parse_story_report("\n\n---\n\n".join(lines), format="markdown").story


def walks(rng: np.random.Generator, centres: FloatArray, count: int) -> FloatArray:
    """(count, D) unit rows that wander from centre to centre."""
    width = centres.shape[1]
    own = np.repeat(centres[rng.integers(0, len(centres), -(-count // 20))], 20, axis=0)[:count]
    drift = rng.standard_normal((count, width), dtype=np.float32)
    steps = np.cumsum(drift.reshape(-1, 20, width) if count % 20 == 0 else drift[:, None], axis=1)
    rows = own + 0.25 / np.sqrt(width) * steps.reshape(count, width)
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True), dtype=np.float32)


def make(home: Path, pictures: int) -> Path:
    """A library of so many pictures, which have no files."""
    if (home / "made").exists():
        return home
    rng = np.random.default_rng(0)
    library, sentences = PictureStore(home), text_encoder()
    file = shipped_file("base")
    (pixels,) = picture_encoders(["base"], [], sentences=sentences)
    words = sentences.encode_text([sentence(number) for number in range(CENTRES)])
    seen = text_encoder("base").encode_text([sentence(number) for number in range(CENTRES)])
    looks = rng.standard_normal((CENTRES, pixels.spaces["looks"]), dtype=np.float32)
    looks /= np.linalg.norm(looks, axis=1, keepdims=True)
    stamp = image_fingerprints(file)["bfloat16"]
    centres = {"captions": words, "base": seen, "looks": looks}
    made_by = {
        "captions": (sentences.name, sentences.fingerprint),
        "base": ("base", stamp),
        "looks": ("base", stamp),
    }
    for name, own in centres.items():
        library.store.ensure(vectors_name(name), vectors_schema(own.shape[1]))
    for start in range(0, pictures, BATCH):
        numbers = range(start, min(start + BATCH, pictures))
        ids = [hashlib.sha256(str(number).encode()).hexdigest() for number in numbers]
        rows = [
            file_row(
                f"/made-up/{number % 211:03}/IMG_{number:06}.jpg".encode(),
                b"/made-up",
                size=1,
                mtime_ns=1,
                sha256=picture,
                status="ok",
                words=Words(captions=(Caption(text=sentence(number), source="exif"),)),
            )
            for number, picture in zip(numbers, ids, strict=True)
        ]
        shown = {picture: Pixels(400, 300, "JPEG", f"{int(picture[:16], 16):016x}", {}) for picture in ids}
        vectors = {
            name: vector_table(ids, ["made-up"] * len(ids), walks(rng, own, len(ids)))
            for name, own in centres.items()
        }
        write_batch(library.store, rows, shown, {}, vectors, encoded=dict.fromkeys(vectors, ()))
    library.save(
        spaces={
            name: SpaceInfo(encoder=made_by[name][0], fingerprint=made_by[name][1], dim=own.shape[1])
            for name, own in centres.items()
        }
    )
    library.store.compact()
    (home / "made").touch()
    return home


def anew(home: Path, story: Story) -> None:
    """The storyboard as a command makes it: settings, encoders, vectors and moments are read for it."""
    catalogue._sentences.cache_clear()
    Illustrator(PictureStore.open(home)).board(story)


def encode(encoders: Sequence[TextEncoder], story: Story) -> None:
    """What no storyboard can do without."""
    for encoder in encoders:
        encoder.encode_text(step_texts(story))


def measured(home: Path, steps: int, runs: int) -> str:
    """One row of the table."""
    opened, words = Illustrator(PictureStore.open(home)), RecentTexts(text_encoder())
    encoders = (words, text_encoder("base", sentences=words))
    ways = {
        "board": lambda number: opened.board(text_of(number, steps)),
        "alone": lambda number: encode(encoders, text_of(number, steps)),
    }
    times = in_turn(ways, runs, unmeasured=4)
    times |= in_turn({"anew": lambda number: anew(home, text_of(runs + 4 + number, steps))}, 5, unmeasured=0)
    cells = [f"{1000 * one.median_s:7.1f} ({1000 * one.processor_median_s:6.1f})" for one in times.values()]
    pairs = [(times[a], times[b]) for a, b in (("board", "alone"), ("anew", "board"))]
    ratios = [
        f"{a.median_s / b.median_s:6.2f} ({a.processor_median_s / b.processor_median_s:5.2f})"
        for a, b in pairs
    ]
    return "  ".join((f"{len(opened.catalogue):9,d}", *cells, *ratios, f"{peak_mb():,.0f}"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--to", type=Path, required=True)
    parser.add_argument("--pictures", type=int, nargs="+", default=[1_000, 5_000, 100_000])
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--runs", type=int, default=20)
    asked = parser.parse_args()
    print("wall (processor) ms: pictures, board, encode, anew; board / encode, anew / board; MB")
    for pictures in asked.pictures:
        stamp = image_fingerprints(shipped_file("base"))["bfloat16"]
        home = make(asked.to / f"library-{stamp[:8]}-{pictures}", pictures)
        print(measured(home, asked.steps, asked.runs), flush=True)
    print(load())


if __name__ == "__main__":
    main()
