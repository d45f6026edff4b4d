"""A study under load on loopback: many raters at once, a fixed number of requests a second, no vote lost.

Makes: docs/studies.md, docs/results/speed.md (50 raters at once; what times to answer give away)

Raters ask for pages and send answers, a tenth of them twice at once, as double clicks do. Afterwards every
acknowledged vote is looked up in the database: each must be there once, no page may have more raters than
places. Prints the median and the 95th percentile of the time to answer, for SQLite and PostgreSQL.

In the end a rater who times the two pictures of a page, and takes the one that comes sooner for the tested
system's, guesses --guesses times: how often that is right, and how likely a coin is to do as well.

    python benchmarks/study_load.py [--raters 50] [--rate 20] [--seconds 60] [--guesses 2000] [--only sqlite]
"""

import argparse
import json
import random
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import nullcontext
from pathlib import Path
from urllib.parse import urlencode

import numpy as np
from clients import Client, Seen, served, together
from harness import arguments, load, processor_s
from PIL import Image
from postgres_server import binaries, running
from scipy.stats import binomtest

from limner.research.study.records import read_study
from limner.research.study.votes import read_stored

FORM = {"content-type": "application/x-www-form-urlencoded"}


def make_study(folder: Path, items: int, raters: int) -> Path:
    """A pairwise study: pictures of the tested system are noise in large files, those of the control flat."""
    draws = np.random.default_rng(0)
    for number in range(64):
        noise = draws.integers(0, 255, (150, 200, 3), dtype=np.uint8)
        Image.fromarray(noise).save(folder / f"t{number}.png")
        Image.new("RGB", (200, 150), tuple(noise[0, 0].tolist())).save(folder / f"c{number}.jpg")
    lines = [
        {"id": f"t{n}", "text": f"Sentence {n}.", "tested": f"t{n % 64}.png", "control": f"c{n % 64}.jpg"}
        for n in range(items)
    ]
    (folder / "items.jsonl").write_text("\n".join(map(json.dumps, lines)))
    command = [sys.executable, "-m", "limner", "study", "create", str(folder / "study")]
    command += ["--items", str(folder / "items.jsonl"), "--names", "a,b", "--size", str(items)]
    subprocess.run([*command, "--raters", str(raters)], check=True, capture_output=True)
    return folder / "study"


class Pace:
    """Lets requests go at a fixed rate, whoever makes them."""

    def __init__(self, rate: float) -> None:
        self.gap, self.due, self.lock = 1 / rate, time.perf_counter(), threading.Lock()

    def turn(self) -> None:
        """Wait for a turn."""
        with self.lock:
            self.due = max(self.due + self.gap, time.perf_counter() - 5 * self.gap)
            wait = self.due - time.perf_counter()
        time.sleep(max(0.0, wait))


class Rater(Client):
    """A rater, whose browser sends some forms twice at once."""

    def __init__(self, number: int, port: int, seen: Seen) -> None:
        super().__init__(port, seen, FORM)
        self.twin = Client(port, seen)
        self.twin.headers = self.headers  # one cookie
        self.draws = random.Random(number)  # noqa: S311
        self.votes = Counter[str]()

    def begin(self) -> None:
        """Consent."""
        hidden = dict(re.findall(r'name="(\w+)" value="([^"]*)"', self.ask("begin", "/")[2].decode()))
        status = self.ask("begin", "/begin", urlencode({**hidden, "consent": "yes"}))[0]
        assert status == 303, status

    def rate(self, pace: Pace, until: float) -> None:
        """Answer page after page; count the acknowledged votes of each."""
        while time.perf_counter() < until:
            pace.turn()
            status, _, page = self.ask("page", "/rate")
            unit = re.search(r'name="unit" value="([^"]+)"', page.decode())
            if status != 200 or unit is None:
                self.seen.faults[f"page {status} without a form"] += 1
                continue
            field = re.search(r'name="(answer-[^"]+)"', page.decode())[1]
            form = urlencode({"unit": unit[1], field: self.draws.choice(["1", "2", "same", "neither"])})
            clicks = [self, self.twin] if self.draws.random() < 0.1 else [self]
            for _ in clicks:
                pace.turn()

            def vote(client: Client, form: str = form, unit: str = unit[1]) -> None:
                status = client.ask("vote", "/rate", form)[0]
                with self.seen.lock:
                    self.votes[unit] += status == 303

            together([lambda client=client: vote(client) for client in clicks])


def guess(rater: Client, study: Path, guesses: int) -> str:
    """How a rater fares who takes the picture that comes sooner for that of the tested system."""
    files, draws = read_study(study), random.Random(0)  # noqa: S311
    pairs = []
    for item in files.items:
        whose = files.key.items[item.id].systems
        if whose and item.prefilled is None:
            pairs.append({whose[one.id]: one.picture for one in item.candidates})
    right = 0
    for turn in range(guesses):
        taken = {}
        for owner, picture in draws.sample(sorted(pairs[turn % len(pairs)].items()), 2):
            begun = time.perf_counter()
            assert len(rater.ask("picture", f"/pictures/{picture}")[2]) > 1000
            taken[owner] = time.perf_counter() - begun
        right += taken["A",] < taken["B",]
    chance = binomtest(right, guesses).pvalue
    return (
        f"who goes by time is right {right} of {guesses} times; a coin is as far from half, p = {chance:.2g}"
    )


def measure(folder: Path, url: str | None, options: argparse.Namespace) -> bool:
    """Serve, load, count; True when nothing is lost or doubled."""
    # as many places as there can be votes and a quarter more, so that nobody runs out of pages
    most = 3
    items = max(options.raters, int(options.rate * options.seconds / 2 / most * 1.25))
    study, seen = make_study(folder, items, most), Seen()
    words = ("study", "serve", study, "--new-raters", "0", *(("--votes", url) if url else ()))
    with served(*words) as (server, port, _):
        raters = [Rater(number, port, seen) for number in range(options.raters)]
        together([one.begin for one in raters])
        begun, started, before = time.perf_counter(), processor_s(server.pid), seen.requests
        pace = Pace(options.rate)
        together([lambda one=one: one.rate(pace, begun + options.seconds) for one in raters])
        took, asked = time.perf_counter() - begun, seen.requests - before
        spent = processor_s(server.pid) - started
        guessed = guess(raters[0], study, options.guesses)
    stored = read_stored(study, url).votes
    checks = {name for name, entry in read_study(study).key.items.items() if entry.right is not None}
    doubled = [one for one, count in Counter((v.rater, v.item) for v in stored).items() if count > 1]
    crowded = [item for item, n in Counter(v.item for v in stored).items() if n > most and item not in checks]
    pages = sum(votes > 0 for one in raters for votes in one.votes.values())
    lost = pages - len(stored)
    print(
        f"{'PostgreSQL' if url else 'SQLite'}: {options.raters} raters, {asked} requests in {took:.0f} s"
        f" ({asked / took:.1f}/s), {sum(one.votes.total() for one in raters)} votes acknowledged for"
        f" {pages} pages, {len(stored)} in the database: {lost} lost, {len(doubled)} doubled,"
        f" {len(crowded)} pages with too many raters"
    )
    print(seen.table())
    print(f"processor: {1000 * spent / asked:.1f} ms of the server a request; {load()}")
    print(f"pictures: {guessed}")
    return not (lost or doubled or crowded or seen.faults)


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--raters", type=int, default=50)
    parser.add_argument("--rate", type=float, default=20.0)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--guesses", type=int, default=2000)
    parser.add_argument("--only", choices=["sqlite", "postgresql"])
    options = parser.parse_args()
    good = True
    for kind in ("sqlite", "postgresql"):
        if options.only not in (None, kind):
            continue
        if kind == "postgresql" and binaries() is None:
            print("PostgreSQL: no server on this machine (Debian: apt-get install postgresql); not measured")
            continue
        with (
            running() if kind == "postgresql" else nullcontext() as server,
            tempfile.TemporaryDirectory() as at,
        ):
            good &= measure(Path(at), server.url if server else None, options)
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
