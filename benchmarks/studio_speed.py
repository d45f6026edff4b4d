"""How quick the studio is with many pictures, against the plain way to answer the same request.

Makes: docs/results/speed.md, docs/results/scale.md, docs/studio.md (the studio over many pictures)

    python benchmarks/studio_speed.py --pictures 100000 --to studio-speed

Makes a library of made-up rows and random unit vectors beside a few photographs of 12 megapixels drawn for
it, asks the studio in process, and prints its memory, and wall times (median, 95th percentile) and processor
time (median) of both ways. The plain way reads the tables, the originals and the vectors for every request,
as a command does. The library is used again, and so is its cache: a second run opens what is up to date.
"""

import argparse
import hashlib
import io
import os
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from harness import in_turn, load, memory_mb, percentile_ms
from PIL import Image
from starlette.testclient import TestClient

from limner.encoders.catalogue import text_encoder
from limner.match.equipment import picture_encoders
from limner.match.illustrator import Illustrator
from limner.store.catalogue import Only
from limner.store.ingest import index
from limner.store.library import PictureStore, picture_of
from limner.store.store import FILES, FILES_SCHEMA, PICTURES, PICTURES_SCHEMA, vectors_name
from limner.store.write import file_key, vector_table
from limner.studio.app import create_app
from limner.studio.engine import Engine
from limner.studio.routes import Studio
from limner.text.read import parse_story_report

PHOTOGRAPHS = 24
BATCH = 16_384
BEGIN = datetime(2015, 1, 1)
FOLDER = Only(folder="/made-up/007")
NOUNS = ("fox", "rabbit", "boat", "kite", "cake", "moon", "lamp", "hill", "river", "bridge", "garden")
VERBS = ("watches", "paints", "carries", "follows", "repairs", "finds", "hides", "opens", "washes", "sells")
PLACES = ("At dawn", "Later", "On the hill", "Then", "At noon", "Soon", "Indoors", "At dusk", "Last", "Now")
TEXT = "\n\n---\n\n".join(
    f"{place} the {NOUNS[k]} {VERBS[k]} a {NOUNS[-k]} and thinks of the {NOUNS[(3 * k) % len(NOUNS)]}."
    for k, place in enumerate(PLACES)
)


def make(folder: Path, pictures: int, *, listed: bool = False) -> Path:
    """A library of so many pictures; the photographs alone have files, or, for the list, vectors too."""
    home = folder / f"{'list' if listed else 'library'}-{pictures}"
    if (home / "made").exists():
        return home
    album = folder / "photographs"
    album.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(0)
    for number in range(PHOTOGRAPHS):
        pixels = rng.integers(0, 255, (30, 40, 3), dtype=np.uint8)
        Image.fromarray(pixels).resize((4000, 3000), Image.Resampling.BICUBIC).save(
            album / f"IMG_{number:04}.jpg", quality=90
        )
    sentences = text_encoder()
    encoders = picture_encoders(["colour"], [], sentences=sentences)
    (album / "IMG_0000.txt").write_text("A fox paints a kite.")
    index([album], home, image_encoders=encoders, text_encoder=sentences)
    library = PictureStore.open(home)
    widths = {name: info.dim for name, info in library.settings.spaces.items()}
    for start in range(0, pictures - PHOTOGRAPHS, BATCH):
        numbers = range(start, min(start + BATCH, pictures - PHOTOGRAPHS))
        files, shown = drawn_rows(numbers)
        library.store.upsert(PICTURES, shown, ())
        if listed:
            continue
        library.store.upsert(FILES, files, ())
        ids = shown["id"].to_pylist()
        for name, dim in widths.items():
            matrix = rng.standard_normal((len(ids), dim), dtype=np.float32)
            matrix /= np.linalg.norm(matrix, axis=1, keepdims=True)
            vectors = vector_table(ids, ["made-up"] * len(ids), matrix)
            library.store.upsert(vectors_name(name), vectors, ())
    library.store.compact()
    (home / "made").touch()
    return home


def drawn_rows(numbers: range) -> tuple[pa.Table, pa.Table]:
    """Rows of `files` and `pictures` that nobody took: forty a day, of which every second one states when."""
    one_each = pa.array(range(len(numbers) + 1), pa.int32())
    paths = [f"/made-up/{number % 211:03}/IMG_{number:08}.jpg" for number in numbers]
    texts = [
        f"the {NOUNS[number % 11]} {VERBS[number // 11 % 10]} a {NOUNS[number // 110 % 11]} near the"
        f" {NOUNS[number // 1210 % 11]}"
        for number in numbers
    ]
    captions = pa.StructArray.from_arrays([texts, ["exif"] * len(texts)], ["text", "source"])
    days = [BEGIN + timedelta(days=number // 40, minutes=7 * (number % 40)) for number in numbers]
    said = {
        "captions": pa.ListArray.from_arrays(one_each, captions),
        "taken": [day.isoformat() if number % 2 else None for number, day in zip(numbers, days, strict=True)],
        "credit": "",
        "license": "",
    }
    ids = [hashlib.sha256(str(number).encode()).hexdigest() for number in numbers]
    names = [path.encode() for path in paths]
    file = {"key": list(map(file_key, names)), "path": paths, "path_bytes": names, "source": b"/made-up"}
    file |= {
        "size": 1,
        "mtime_ns": 1,
        "sha256": ids,
        "status": "ok",
        "reason": "",
        "words_key": "",
        "stamp": "",
    }
    picture = {"id": ids, "group": ids, "paths": pa.ListArray.from_arrays(one_each, pa.array(paths))}
    picture |= {"width_px": 400, "height_px": 300, "format": "JPEG", "size_bytes": 1, "labels": None}
    picture["phash"] = [one[:16] for one in ids]
    return filled(file | said, FILES_SCHEMA), filled(picture | said, PICTURES_SCHEMA)


def filled(columns: dict[str, Any], schema: pa.Schema) -> pa.Table:
    """A table of columns; a single value stands in all rows."""
    count = max(len(one) for one in columns.values() if isinstance(one, list))
    single = (str, bytes, int, type(None))
    whole = {name: [one] * count if isinstance(one, single) else one for name, one in columns.items()}
    return pa.table(whole, schema)


def row(act: Callable[[int], object], runs: int) -> str:
    """Clock, median and 95th percentile, and processor time, median; ms, after one run unmeasured."""
    times = in_turn({"way": act}, runs)["way"]
    cells = (1000 * times.median_s, percentile_ms(times.clock_s, 0.95), 1000 * times.processor_median_s)
    return " ".join(f"{one:8.1f}" for one in cells)


def words_of(number: int) -> str:
    """A different question for every number."""
    return f"{NOUNS[number % len(NOUNS)]} {VERBS[number % 10]}"


class Ours:
    """The studio, asked over HTTP in process."""

    def __init__(self, engine: Engine, folder: Path) -> None:
        studio = Studio(engine, folder / f"projects-{os.getpid()}", folder / f"thumbnails-{os.getpid()}")
        self.client = TestClient(create_app(studio))
        album = sorted((folder / "photographs").glob("*.jpg"))
        self.photographs = [hashlib.sha256(one.read_bytes()).hexdigest() for one in album]
        self.last = len(engine.illustrator().catalogue) - 200
        project = self.client.post("/api/projects", json={"text": TEXT, "format": "markdown"}).json()
        self.url, self.revision = f"/api/projects/{project['id']}", project["revision"]
        for number in range(len(self.photographs)):
            self.thumbnail(number)

    def page(self, number: int) -> None:
        """A part of the list."""
        offset = number * 7919 % self.last
        found = self.client.get("/api/library/pictures", params={"offset": offset, "limit": 200}).json()
        assert len(found["items"]) == 200

    def look(self, number: int) -> None:
        """The list, narrowed by words."""
        found = self.client.get("/api/library/pictures", params={"q": words_of(number), "limit": 200})
        found.raise_for_status()

    def thumbnail(self, number: int) -> None:
        """A small copy of a photograph."""
        picture = self.photographs[number % len(self.photographs)]
        self.client.get(f"/api/pictures/{picture}/thumbnail?side=256").raise_for_status()

    def search(self, number: int) -> None:
        """Pictures for words."""
        body = {"text": f"{words_of(number)} {number}", "limit": 48}
        self.client.post("/api/search", json=body).raise_for_status()

    def illustrate(self, number: int) -> None:
        """A storyboard of a text that is new."""
        body = {"text": f"{TEXT} {number}", "format": "markdown"}
        self.client.post("/api/illustrate", json=body).raise_for_status()

    def edit(self, number: int) -> None:
        """A change that decodes anew and is saved."""
        change = {"kind": ("blank", "unlock")[number % 2], "step": 3}
        answer = self.client.post(f"{self.url}/edits", json={"revision": self.revision, "edit": change})
        self.revision = answer.json()["revision"]

    def strip(self, number: int) -> None:
        """Candidates of a step."""
        self.client.get(f"{self.url}/steps/{number % 10}/candidates?limit=40").raise_for_status()


class Plain:
    """The same answers without anything kept between requests."""

    def __init__(self, home: Path, folder: Path) -> None:
        self.home, self.library = home, PictureStore.open(home)
        self.album = sorted((folder / "photographs").glob("*.jpg"))

    def _rows(self) -> list[Any]:
        batches = self.library.store.scan(PICTURES, PICTURES_SCHEMA.names)
        return [row for batch in batches for row in batch.to_pylist()]

    def page(self, number: int) -> None:
        """A part of the list."""
        rows = sorted(self._rows(), key=lambda row: row["paths"][0])
        offset = number * 7919 % (len(rows) - 200)
        assert len([picture_of(row) for row in rows[offset : offset + 200]]) == 200

    def look(self, number: int) -> None:
        """The list, narrowed by words."""
        words = words_of(number)
        found = [row for row in self._rows() if any(words in one["text"] for one in row["captions"])]
        [picture_of(row) for row in found[:200]]

    def thumbnail(self, number: int) -> None:
        """A small copy of a photograph."""
        with Image.open(self.album[number % len(self.album)]) as image:
            image.thumbnail((256, 256))
            image.save(io.BytesIO(), "WEBP", quality=78)

    def search(self, number: int) -> None:
        """Pictures for words."""
        query = text_encoder().encode_text([f"{words_of(number)} {number}"])
        gallery = PictureStore.open(self.home).gallery(["captions"])
        scores = np.asarray(gallery.space("captions").matrix, dtype=np.float32) @ query[0]
        self.library.pictures([gallery.ids[row] for row in np.argsort(-scores)[:48]])

    def illustrate(self, number: int) -> None:
        """A storyboard of a text that is new."""
        fresh = PictureStore.open(self.home)
        story = parse_story_report(f"{TEXT} {number}", format="markdown").story
        Illustrator(fresh).board(story)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pictures", type=int, default=100_000)
    parser.add_argument("--to", type=Path, required=True)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--list", action="store_true", help="the list of pictures alone, without vectors")
    parser.add_argument("--alone", action="store_true", help="the studio without the plain way")
    asked = parser.parse_args()
    home = make(asked.to, asked.pictures, listed=asked.list)
    PictureStore.open(home).version()  # loads what reads tables
    before, start = memory_mb("RssAnon"), time.perf_counter()
    engine = Engine(home)
    opened, held = time.perf_counter(), memory_mb("RssAnon")
    catalogue = engine.illustrator().catalogue
    count = len(catalogue)
    for number in range(asked.runs):
        catalogue.page(number * 7919 % (count - 200), 200)
    paged, served = time.perf_counter(), memory_mb("RssAnon")
    opened_bytes, served_bytes = ((one - before) * 2**20 / count for one in (held, served))
    print(
        f"{count:,} pictures; opened in {opened - start:.2f} s, {asked.runs} pages after"
        f" {paged - opened:.2f} s more; memory of its own a picture, opened: {opened_bytes:.0f} bytes, with"
        f" pages served: {served_bytes:.0f} bytes; in all {held:.0f} and {served:.0f} MB",
        flush=True,
    )
    if asked.list:
        ids = [one.id for one in catalogue.page(count // 2, 40)[1]]
        questions: list[tuple[str, Callable[[int], object]]] = [
            ("page of 200 pictures", lambda number: catalogue.page(number * 7919 % (count - 200), 200)),
            ("40 pictures by id", lambda number: catalogue.pictures(ids)),
            ("list narrowed by words", lambda number: catalogue.page(0, 200, words_of(number))),
            ("list narrowed to a folder", lambda number: catalogue.page(0, 200, only=FOLDER)),
            ("pictures of one day", lambda number: catalogue.same_occasion(ids[number % 40])),
        ]
        for name, question in questions:
            print(f"{name:34s}  {row(question, asked.runs)}", flush=True)
        return
    warmed = time.perf_counter()
    engine.warm()
    print(f"ready after {time.perf_counter() - warmed:.1f} s more; {load()}", flush=True)
    ours, plain = Ours(engine, asked.to), None if asked.alone else Plain(home, asked.to)
    print(f"{'ms':34s} {'studio':>9s} {'p95':>8s} {'cpu':>8s} {'plain':>9s} {'p95':>8s} {'cpu':>8s}")
    rows: list[tuple[str, Callable[[int], object], Callable[[int], object] | None]] = [
        ("page of 200 pictures", ours.page, plain and plain.page),
        ("list narrowed by words", ours.look, plain and plain.look),
        ("thumbnail of 12 megapixels", ours.thumbnail, plain and plain.thumbnail),
        ("search by words", ours.search, plain and plain.search),
        ("storyboard of 10 steps, new text", ours.illustrate, plain and plain.illustrate),
        ("edit, saved to disk", ours.edit, None),
        ("strip of 40 candidates", ours.strip, None),
    ]
    for name, studio, other in rows:
        slow = row(other, max(3, asked.runs // 4)) if other else ""
        print(f"{name:34s}  {row(studio, asked.runs)} {slow}".rstrip(), flush=True)


if __name__ == "__main__":
    main()
