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
import asyncio
import http.client
import json
import random
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import nullcontext
from pathlib import Path
from urllib.parse import urlencode

import numpy as np
from harness import load as machine_load
from harness import percentile_ms, processor_s
from PIL import Image
from postgres_server import binaries, running
from scipy.stats import binomtest

from limner.research.study.records import read_study
from limner.research.study.votes import read_stored


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


class Client:
    """HTTP over a connection of its own, with a cookie."""

    def __init__(self, port: int) -> None:
        self.port, self.cookie = port, ""

    async def ask(self, path: str, form: dict | None = None) -> tuple[int, str, float]:
        """Status, body and seconds of one request; a redirect is the answer, and not followed."""
        begun = time.perf_counter()
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        body = b"" if form is None else urlencode(form).encode()
        lines = [f"{'GET' if form is None else 'POST'} {path} HTTP/1.1", f"Host: 127.0.0.1:{self.port}"]
        lines += ["Connection: close", f"Cookie: {self.cookie}", f"Content-Length: {len(body)}"]
        if form is not None:
            lines.append("Content-Type: application/x-www-form-urlencoded")
        writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + body)
        answer = await reader.read()
        writer.close()
        head, _, text = answer.partition(b"\r\n\r\n")
        found = re.search(rb"\r\nset-cookie: ([^;]+)", head)
        if found:
            self.cookie = found[1].decode()
        return int(head[9:12]), text.decode(), time.perf_counter() - begun


class Pace:
    """Lets requests go at a fixed rate, whoever makes them."""

    def __init__(self, rate: float) -> None:
        self.gap, self.due = 1 / rate, time.perf_counter()

    async def turn(self) -> None:
        """Wait for a turn."""
        self.due = max(self.due + self.gap, time.perf_counter() - 5 * self.gap)
        await asyncio.sleep(self.due - time.perf_counter())


async def load(port: int, raters: int, rate: float, seconds: float) -> dict:
    """What raters saw: times, and the pages whose vote was acknowledged."""
    times: dict[str, list[float]] = {"page": [], "vote": []}
    votes, faults = Counter(), Counter()
    draws = random.Random(0)  # noqa: S311

    async def begin() -> Client:
        client = Client(port)
        _, page, _ = await client.ask("/")
        hidden = dict(re.findall(r'name="(\w+)" value="([^"]*)"', page))
        status, _, _ = await client.ask("/begin", {**hidden, "consent": "yes"})
        assert status == 303, status
        return client

    async def rater(client: Client, number: int) -> None:
        while time.perf_counter() < end:
            await pace.turn()
            status, page, took = await client.ask("/rate")
            times["page"].append(took)
            unit = re.search(r'name="unit" value="([^"]+)"', page)
            if status != 200 or unit is None:
                faults[f"page {status}"] += 1
                continue
            field = re.search(r'name="(answer-[^"]+)"', page)[1]
            form = {"unit": unit[1], field: draws.choice(["1", "2", "same", "neither"])}
            clicks = 2 if draws.random() < 0.1 else 1
            for _ in range(clicks):
                await pace.turn()
            for status, _, took in await asyncio.gather(*(client.ask("/rate", form) for _ in range(clicks))):
                times["vote"].append(took)
                if status == 303:
                    votes[number, unit[1]] += 1
                else:
                    faults[f"vote {status}"] += 1

    clients = await asyncio.gather(*(begin() for _ in range(raters)))
    begun = time.perf_counter()
    end, pace = begun + seconds, Pace(rate)
    await asyncio.gather(*(rater(client, number) for number, client in enumerate(clients)))
    took = time.perf_counter() - begun
    return {"times": times, "votes": votes, "faults": faults, "seconds": took, "cookie": clients[0].cookie}


def guess(port: int, study: Path, guesses: int, cookie: str) -> str:
    """How a rater fares who takes the picture that comes sooner for that of the tested system."""
    files, draws = read_study(study), random.Random(0)  # noqa: S311
    pairs = []
    for item in files.items:
        whose = files.key.items[item.id].systems
        if whose and item.prefilled is None:
            pairs.append({whose[one.id]: one.picture for one in item.candidates})
    connection = http.client.HTTPConnection("127.0.0.1", port)
    right = 0
    for turn in range(guesses):
        taken = {}
        for owner, picture in draws.sample(sorted(pairs[turn % len(pairs)].items()), 2):
            begun = time.perf_counter()
            connection.request("GET", f"/pictures/{picture}", headers={"Cookie": cookie})
            assert len(connection.getresponse().read()) > 1000
            taken[owner] = time.perf_counter() - begun
        right += taken["A",] < taken["B",]
    connection.close()
    chance = binomtest(right, guesses).pvalue
    return (
        f"who goes by time is right {right} of {guesses} times; a coin is as far from half, p = {chance:.2g}"
    )


def measure(folder: Path, url: str | None, options: argparse.Namespace) -> bool:
    """Serve, load, count; True when nothing is lost or doubled."""
    # as many places as there can be votes and a quarter more, so that nobody runs out of pages
    raters = 3
    items = max(options.raters, int(options.rate * options.seconds / 2 / raters * 1.25))
    study = make_study(folder, items, raters)
    command = [sys.executable, "-m", "limner", "study", "serve", str(study), "--port", "0"]
    command += ["--new-raters", "0"]
    command += ["--votes", url] if url else []
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        port = int(re.search(r":(\d+)/", server.stdout.readline())[1])
        started = processor_s(server.pid)
        seen = asyncio.run(load(port, options.raters, options.rate, options.seconds))
        spent = processor_s(server.pid) - started
        guessed = guess(port, study, options.guesses, seen["cookie"])
    finally:
        server.terminate()
        server.wait(20)
        server.stdout.close()
    stored = read_stored(study, url).votes
    checks = {name for name, entry in read_study(study).key.items.items() if entry.right is not None}
    doubled = [one for one, count in Counter((v.rater, v.item) for v in stored).items() if count > 1]
    crowded = [
        item for item, n in Counter(v.item for v in stored).items() if n > raters and item not in checks
    ]
    lost = len(seen["votes"]) - len(stored)
    asked = sum(map(len, seen["times"].values()))
    name = "PostgreSQL" if url else "SQLite"
    print(
        f"{name}: {options.raters} raters, {asked} requests in {seen['seconds']:.0f} s"
        f" ({asked / seen['seconds']:.1f}/s), {sum(seen['votes'].values())} votes acknowledged for"
        f" {len(seen['votes'])} pages, {len(stored)} in the database: {lost} lost, {len(doubled)} doubled,"
        f" {len(crowded)} pages with too many raters, faults {dict(seen['faults']) or 'none'}"
    )
    for what, values in seen["times"].items():
        print(
            f"  {what}: median {percentile_ms(values, 0.5):.0f} ms, p95 {percentile_ms(values, 0.95):.0f} ms,"
            f" slowest {percentile_ms(values, 1):.0f} ms"
        )
    print(f"  processor: {1000 * spent / asked:.1f} ms of the server a request; {machine_load()}")
    print(f"  pictures: {guessed}")
    return not (lost or doubled or crowded or seen["faults"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
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
