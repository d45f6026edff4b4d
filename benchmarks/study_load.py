"""A study under load on loopback: many raters at once, a fixed number of requests a second, no vote lost.

Raters ask for pages and send answers, a tenth of them twice at once, as double clicks do. Afterwards every
acknowledged vote is looked up in the database: each must be there once, no page may have more raters than
places. Prints the median and the 95th percentile of the time to answer, for SQLite and PostgreSQL.

    python benchmarks/study_load.py [--raters 50] [--rate 20] [--seconds 60] [--only sqlite]
"""

import argparse
import asyncio
import json
import os
import random
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import nullcontext
from pathlib import Path
from urllib.parse import urlencode

from PIL import Image
from postgres_server import binaries, running

from limner.study.records import read_study
from limner.study.votes import read_stored


def make_study(folder: Path, items: int, raters: int) -> Path:
    """A pairwise study of small drawings."""
    for number in range(8):
        Image.new("RGB", (64, 48), (30 * number, 90, 200 - 20 * number)).save(folder / f"{number}.png")
    lines = [
        {"id": f"t{n}", "text": f"Sentence {n}.", "tested": f"{n % 8}.png", "control": f"{(n + 1) % 8}.png"}
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
    return {"times": times, "votes": votes, "faults": faults, "seconds": time.perf_counter() - begun}


def _processor_s(process: int | None = None) -> float:
    """Processor seconds of a running process, or of all children that have ended."""
    if process is None:
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        return used.ru_utime + used.ru_stime
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def percentile(values: list[float], share: float) -> float:
    """Milliseconds, by nearest rank."""
    ordered = sorted(values)
    return 1000 * ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def measure(folder: Path, url: str | None, options: argparse.Namespace) -> bool:
    """Serve, load, count; True when nothing is lost or doubled."""
    # as many places as there can be votes and a quarter more, so that nobody runs out of pages
    raters = 3
    items = max(options.raters, int(options.rate * options.seconds / 2 / raters * 1.25))
    study = make_study(folder, items, raters)
    command = [sys.executable, "-m", "limner", "study", "serve", str(study), "--port", "0"]
    command += ["--votes", url] if url else []
    before = _processor_s()
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        port = int(re.search(r":(\d+)/", server.stdout.readline())[1])
        started = _processor_s(server.pid)
        seen = asyncio.run(load(port, options.raters, options.rate, options.seconds))
    finally:
        server.terminate()
        server.wait(20)
        server.stdout.close()
    spent = _processor_s() - before - started
    stored = read_stored(study, url)
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
            f"  {what}: median {percentile(values, 0.5):.0f} ms, p95 {percentile(values, 0.95):.0f} ms,"
            f" slowest {percentile(values, 1):.0f} ms"
        )
    print(f"  processor: {1000 * spent / asked:.1f} ms of the server a request")
    return not (lost or doubled or crowded or seen["faults"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--raters", type=int, default=50)
    parser.add_argument("--rate", type=float, default=20.0)
    parser.add_argument("--seconds", type=float, default=60.0)
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
