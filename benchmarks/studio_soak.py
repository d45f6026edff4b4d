"""The studio for ten minutes with 100,000 pictures and 20 clients: errors, times to answer, memory over time.

Makes: docs/results/speed.md (the studio under load)

    python benchmarks/studio_soak.py --to studio-soak [--pictures 100000] [--clients 20] [--seconds 600]

The library is that of studio_speed.py, with a small real thumbnail for each of its made-up pictures; it is
used again. `limner studio` runs as a process of its own. Every client lists, looks, searches, edits a project
of its own, makes it anew and exports it, as a person would with half a second between two acts. Prints a row
for each tenth of the time and a table of what was asked; judges nothing.
"""

import io
import os
import random
import shutil
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
from clients import Client, Seen, served
from harness import arguments, load, memory_mb
from made_up import request, whole
from PIL import Image

from limner.checksums import seal_bytes
from limner.store import Only
from limner.store.database import Database
from limner.studio.pictures import cache_folder

SIDE = 256
PAUSE_S = 0.5
# How often each act comes, relative to the others.
ACTS = {"thumbnail": 40, "page": 18, "look": 8, "search": 12, "edit": 10, "strip": 8, "renew": 2, "export": 2}


def add_thumbnails(home: Path) -> None:
    """A copy in WebP for every picture, where the studio keeps them; a few hundred are drawn."""
    library = Database(home)
    folder = cache_folder(library)
    if (folder / "made").exists():
        return
    rng = np.random.default_rng(0)
    drawn = []
    for _ in range(300):
        file, pixels = io.BytesIO(), rng.integers(0, 255, (6, 8, 3), dtype=np.uint8)
        Image.fromarray(pixels).resize((SIDE, 192), Image.Resampling.BICUBIC).save(file, "WEBP", quality=78)
        drawn.append(seal_bytes(file.getvalue()))
    for number, picture in enumerate(library.gallery(["captions"]).ids):
        place = folder / picture[:2] / f"{picture}-{SIDE}.webp"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(drawn[number % len(drawn)])
    (folder / "made").touch()


class Person(Client):
    """A person with a project of their own."""

    def __init__(self, number: int, port: int, token: str, ids: list[str], seen: Seen) -> None:
        super().__init__(port, seen, {"authorization": f"Bearer {token}", "content-type": "application/json"})
        self.ids = ids
        self.draws = random.Random(number)  # noqa: S311
        self.project: dict[str, Any] = {}

    def act(self, kind: str) -> Any:
        """Do one of `ACTS`."""
        if kind == "renew" or (not self.project and kind in ("edit", "strip", "export")):
            return self.renew()
        asked = request(kind, self.draws.randrange(2**31), len(self.ids), self.ids, self.project)
        found = self.json(kind, *asked)
        if kind == "edit":
            again = request("read", 0, len(self.ids), self.ids, self.project)
            self.project = found or self.json("read again", *again) or {}
        return found

    def renew(self) -> None:
        """Remove the project, and make one of a text that is new."""
        if self.project:
            self.act("remove")
        self.project = self.act("project") or {}

    def live(self, until: float) -> None:
        """Act until the time is over."""
        kinds, weights = list(ACTS), list(ACTS.values())
        self.renew()
        while time.perf_counter() < until:
            self.act(self.draws.choices(kinds, weights)[0])
            time.sleep(self.draws.expovariate(1 / PAUSE_S))


def memory(process: int) -> tuple[float, float, int, int]:
    """MB of its own, MB of mapped files, threads and open files of a process."""
    own, mapped = (memory_mb(field, process) for field in ("RssAnon", "RssFile"))
    threads, files = (len(list(Path(f"/proc/{process}/{kind}").iterdir())) for kind in ("task", "fd"))
    return own, mapped, threads, files


def soak(home: Path, projects: Path, clients: int, seconds: float) -> None:
    """Serve, ask, and print."""
    ids, seen = Database(home).passing(Only()), Seen()
    words = ("studio", "--library", home, "--projects", projects, "--no-browser")
    with served(*words) as (studio, port, token):
        begun = time.perf_counter()
        people = [Person(number, port, token, ids, seen) for number in range(clients)]
        threads = [threading.Thread(target=one.live, args=(begun + seconds,)) for one in people]
        print(f"{len(ids):,} pictures, {clients} clients, {seconds:.0f} s")
        print(
            f"{'s':>6} {'requests':>9} {'errors':>7} {'own MB':>8} {'mapped MB':>10}"
            f" {'threads':>8} {'files':>6}"
        )
        for one in threads:
            one.start()
        for part in range(11):
            time.sleep(max(0.0, begun + part * seconds / 10 - time.perf_counter()))
            own, mapped, count, files = memory(studio.pid)
            now, wrong = time.perf_counter() - begun, sum(seen.faults.values())
            row = f"{now:6.0f} {seen.requests:9,} {wrong:7} {own:8.0f} {mapped:10.0f} {count:8} {files:6}"
            print(row, flush=True)
        for one in threads:
            one.join()
    print(f"{seen.table()}; {load()}")


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--to", type=Path, required=True)
    parser.add_argument("--pictures", type=int, default=100_000)
    parser.add_argument("--clients", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=600.0)
    asked = parser.parse_args()
    home = whole(asked.to, asked.pictures)
    add_thumbnails(home)
    projects = asked.to / f"projects-{os.getpid()}"
    try:
        soak(home, projects, asked.clients, asked.seconds)
    finally:
        shutil.rmtree(projects, ignore_errors=True)


if __name__ == "__main__":
    main()
