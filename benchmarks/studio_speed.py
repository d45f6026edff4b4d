"""How quick the studio is with many pictures, against the plain way to answer the same request.

Makes: docs/results/speed.md, docs/results/scale.md, docs/studio.md, docs/results/ordinary.md (the studio over
  many pictures; a second text over an opened library; 1,000 steps)

    python benchmarks/studio_speed.py --pictures 100000 --to studio-speed
    python benchmarks/studio_speed.py --pictures 1000 --to studio-speed --texts --steps 8

Makes a library of made-up rows, and vectors of captions and the encoder base, beside a few photographs of 12
megapixels drawn for it, asks the studio in process, and prints its memory, and wall times (median, 95th
percentile) and processor time (median) of both ways. The plain way reads the tables, the originals and the
vectors for every request, as a command does. --texts times storyboards alone: over the opened library, only
encoding their steps, and where everything is opened anew. The library is used again, and so is its cache: a
second run opens what is up to date.
"""

import hashlib
import io
import os
import time
from collections.abc import Callable
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from harness import Times, arguments, in_turn, load, memory_mb, peak_mb, percentile_ms
from made_up import request, sentence, text_of, whole
from PIL import Image
from starlette.testclient import TestClient

from limner.encoders import catalogue as encoders
from limner.encoders.catalogue import text_encoder
from limner.encoders.text_cache import RecentTextCache
from limner.match.illustrate import step_texts
from limner.match.illustrator import Illustrator
from limner.records import Story
from limner.store import Only
from limner.store.database import Database
from limner.studio.app import create_app
from limner.studio.engine import Engine
from limner.studio.routes import Studio
from limner.text.read import read_text

FOLDER = Only(folder="/made-up/007")
YEAR = Only(after=date(2016, 1, 1), before=date(2016, 12, 31))


def row(times: Times) -> str:
    """Clock, median and 95th percentile, and processor time, median; ms."""
    cells = (1000 * times.median_s, percentile_ms(times.clock_s, 0.95), 1000 * times.processor_median_s)
    return " ".join(f"{one:8.1f}" for one in cells)


class Ours:
    """The studio, asked over HTTP in process."""

    def __init__(self, engine: Engine, folder: Path) -> None:
        studio = Studio(engine, folder / f"projects-{os.getpid()}", folder / f"thumbnails-{os.getpid()}")
        self.client = TestClient(create_app(studio))
        album = sorted((folder / "photographs").glob("*.jpg"))
        self.photographs = [hashlib.sha256(one.read_bytes()).hexdigest() for one in album]
        self.count, self.project = len(engine.store), {}
        self.project = self.ask("project", 0)
        for number in range(len(self.photographs)):
            self.ask("thumbnail", number)

    def ask(self, act: str, number: int) -> Any:
        """The answer to one request."""
        method, path, body = request(act, number, self.count, self.photographs, self.project)
        answer = self.client.request(method, path, json=body).raise_for_status()
        if act == "edit":
            self.project = answer.json()
        return answer.json() if act == "project" else None

    def __call__(self, act: str) -> Callable[[int], object]:
        """A request for every number."""
        return partial(self.ask, act)


class Plain:
    """The same answers without anything kept between requests."""

    def __init__(self, home: Path, folder: Path) -> None:
        self.home, self.library = home, Database(home)
        self.album = sorted((folder / "photographs").glob("*.jpg"))

    def page(self, number: int) -> None:
        """A part of the list."""
        pictures = sorted(self.library.pictures(self.library.passing(Only())), key=lambda one: one.path)
        offset = number * 7919 % (len(pictures) - 200)
        assert len(pictures[offset : offset + 200]) == 200

    def thumbnail(self, number: int) -> None:
        """A small copy of a photograph."""
        with Image.open(self.album[number % len(self.album)]) as image:
            image.thumbnail((256, 256))
            image.save(io.BytesIO(), "WEBP", quality=78)

    def search(self, number: int) -> None:
        """Pictures for words."""
        query = text_encoder().encode_text([f"{sentence(number)} {number}"])
        gallery = Database(self.home).index(["captions"]).gallery
        scores = gallery.space("captions").cosines(query)[0]
        self.library.pictures([gallery.ids[row] for row in np.argsort(-scores)[:48]])

    def illustrate(self, number: int) -> None:
        """A storyboard of a text that is new."""
        Illustrator(Database(self.home)).board(story_of(number + 1))


def story_of(number: int, steps: int = 10) -> Story:
    """A text that is new."""
    return read_text(text_of(number, steps), format="markdown").story


def texts(home: Path, steps: int, runs: int) -> None:
    """A second text over an opened library, against encoding its steps alone and opening everything anew."""
    opened, words = Illustrator(Database(home)), RecentTextCache(text_encoder())
    both = (words, text_encoder("base", sentences=words))

    def anew(number: int) -> None:
        encoders._sentences.cache_clear()
        Illustrator(Database(home)).board(story_of(runs + 5 + number, steps))

    def encode(number: int) -> None:
        for encoder in both:
            encoder.encode_text(step_texts(story_of(number, steps)))

    ways = {"board": lambda number: opened.board(story_of(number, steps)), "encoding alone": encode}
    times = in_turn(ways, runs, unmeasured=4) | in_turn({"opened anew": anew}, 5, unmeasured=0)
    print(f"{'ms':34s} {'median':>9s} {'p95':>8s} {'cpu':>8s}")
    for name, found in times.items():
        print(f"{name:34s}  {row(found)}")
    for one, other in (("board", "encoding alone"), ("opened anew", "board")):
        a, b = times[one], times[other]
        ratios = a.median_s / b.median_s, a.processor_median_s / b.processor_median_s
        print(f"{one} / {other}: {ratios[0]:.2f} (cpu {ratios[1]:.2f})")
    print(f"peak {peak_mb():,.0f} MB; {load()}")


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--pictures", type=int, default=100_000)
    parser.add_argument("--to", type=Path, required=True)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--list", action="store_true", help="the list of pictures alone, without vectors")
    parser.add_argument("--alone", action="store_true", help="the studio without the plain way")
    parser.add_argument("--texts", action="store_true", help="storyboards alone, without the studio")
    parser.add_argument("--steps", type=int, default=8, help="of a text, for --texts")
    asked = parser.parse_args()
    home = whole(asked.to, asked.pictures, vectors=not asked.list)
    if asked.texts:
        texts(home, asked.steps, asked.runs)
        return
    before, start = memory_mb("RssAnon"), time.perf_counter()
    engine = Engine(home)
    opened, held = time.perf_counter(), memory_mb("RssAnon")
    catalogue = engine.store
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
            ("list narrowed by words", lambda number: catalogue.page(0, 200, sentence(number % 110))),
            ("list narrowed to a year", lambda number: catalogue.page(0, 200, only=YEAR)),
            (
                "list narrowed to landscapes",
                lambda number: catalogue.page(0, 200, only=Only(shape="landscape")),
            ),
            ("folders, months and shapes", lambda number: catalogue.facets([])),
            ("list narrowed to a folder", lambda number: catalogue.page(0, 200, only=FOLDER)),
            (
                "pictures of one day",
                lambda number: catalogue.page(0, 200, only=Only(occasion=ids[number % 40])),
            ),
        ]
        for name, question in questions:
            print(f"{name:34s}  {row(in_turn({name: question}, asked.runs)[name])}", flush=True)
        return
    warmed = time.perf_counter()
    engine.warm()
    print(f"ready after {time.perf_counter() - warmed:.1f} s more; {load()}", flush=True)
    ours, plain = Ours(engine, asked.to), None if asked.alone else Plain(home, asked.to)
    print(f"{'ms':34s} {'studio':>9s} {'p95':>8s} {'cpu':>8s} {'plain':>9s} {'p95':>8s} {'cpu':>8s}")
    rows: list[tuple[str, Callable[[int], object], Callable[[int], object] | None]] = [
        ("page of 200 pictures", ours("page"), plain and plain.page),
        ("list narrowed by words", ours("look"), None),
        ("thumbnail of 12 megapixels", ours("thumbnail"), plain and plain.thumbnail),
        ("search by words", ours("search"), plain and plain.search),
        ("storyboard of 10 steps, new text", ours("illustrate"), plain and plain.illustrate),
        ("edit, saved to disk", ours("edit"), None),
        ("strip of 40 candidates", ours("strip"), None),
    ]
    for name, studio, other in rows:
        cells = [row(in_turn({name: studio}, asked.runs)[name])]
        cells += [row(in_turn({name: other}, max(3, asked.runs // 4))[name])] if other else []
        print(f"{name:34s}  {' '.join(cells)}", flush=True)


if __name__ == "__main__":
    main()
