"""What a library of so many pictures needs, from measured constants, and a simulation of its queues.

    python benchmarks/scale_plan.py measure [--fragments 100 1000 10000 100000]
    python benchmarks/scale_plan.py plan [--pictures 1e8 1e9] [--cores 64 640] [--writers 1 8]

`measure` times commits to a table and its opening by the number of its fragments. `plan` prints, for every
number of pictures, cores and writers, what the formula of docs/scale.md gives and what the simulation finds,
in which workers bring pictures to writers, these commit and join them, and readers search meanwhile. The
constants stand in `Constants`; a JSON object in a file replaces some (--constants FILE). Prices are yours:
--core-hour, --gigabyte-month and --thousand-requests. Judges nothing.
"""

import argparse
import itertools
import json
import math
import random
import statistics
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import simpy

YOUNG_S, SEARCHED_S = 600, 300
"""Seconds after which a reader looks for a newer version, and of searches at each tenth of the way."""


@dataclass(frozen=True)
class Constants:
    """Measured here, on cores of a small machine; see docs/results/scale.md for the commands.

    Attributes:
        picture_core_s: to read, decode and encode a picture, in seconds of one core.
        row_bytes: of a picture in the tables.
        index_bytes: of a picture in the search index.
        index_core_s: to build that index, per picture.
        commit_rows: pictures that a writer commits at once.
        write_s: of looking up and writing them, which writers do side by side.
        commit_s, commit_fragment_s: of the commit, one at a time, and more of it for each fragment.
        open_fragment_s: to open a version, for each fragment.
        join_commits: commits after which a writer joins what it wrote.
        joined_rows: of a fragment that is not joined again.
        join_bytes_s: joined per second.
        commit_requests: to object storage, for all tables of a commit.
        known_bytes: of memory in the driver for each file that is known.
        known_core_s: to list such a file and see that it is unchanged; one thread of each writer does that.
        search_core_s, search_picture_core_s: of a text of ten steps, and more of it for each picture, since
            nearly all of an index is looked into.
        searches_s: asked per second.
        readers: machines that answer them; 0 for as many as are busy for two thirds of the time at the end.
        reader_cores: of each, which all work on one search.
    """

    picture_core_s: float = 0.034
    row_bytes: float = 4500.0
    index_bytes: float = 166.0
    index_core_s: float = 0.0002
    commit_rows: int = 256
    write_s: float = 0.11
    commit_s: float = 0.02
    commit_fragment_s: float = 25e-6
    open_fragment_s: float = 13e-6
    join_commits: int = 128
    joined_rows: int = 131_072
    join_bytes_s: float = 100e6
    commit_requests: float = 40.0
    known_bytes: float = 151.0
    known_core_s: float = 36e-6
    search_core_s: float = 0.8
    search_picture_core_s: float = 0.24e-6
    searches_s: float = 2.0
    readers: int = 0
    reader_cores: int = 4

    def search_s(self, pictures: float) -> float:
        """Of a search among so many pictures, on a reader that does nothing else."""
        return (self.search_core_s + self.search_picture_core_s * pictures) / self.reader_cores

    def readers_for(self, pictures: float) -> int:
        """Machines that answer searches."""
        return self.readers or math.ceil(1.5 * self.searches_s * self.search_s(pictures))


@dataclass(frozen=True)
class Prices:
    """What the user pays, in one currency: for a core and hour, a gigabyte and month, a thousand requests."""

    core_hour: float = 0.0
    gigabyte_month: float = 0.0
    thousand_requests: float = 0.0


class Work(NamedTuple):
    """So many pictures, on so many cores, for so many processes of `limner index` that write."""

    pictures: float
    cores: int
    writers: int


@dataclass(frozen=True)
class Plan:
    """What so many pictures on so many cores come to.

    Attributes:
        hours: until all are indexed.
        core_hours: of all workers.
        terabytes: of tables and index.
        requests: to object storage, pictures read included.
        writer_busy: share of the time in which a writer writes.
        writer_gb: of memory that it needs for the files of its part, where all are known.
        nothing_new_hours: of a run that finds nothing new.
        money: for all this, the storage for a month.
        fragments: of the table at the end.
        readers: machines for the searches.
        search_s: of one among all pictures, where no other waits.
        waited_s: median and 99th percentile of the time from encoded to committed.
        answered_s: median and 99th percentile of a search.
    """

    hours: float
    core_hours: float
    terabytes: float
    requests: float
    writer_busy: float
    writer_gb: float
    nothing_new_hours: float
    money: float
    fragments: int
    readers: int
    search_s: float
    waited_s: tuple[float, float] | None = None
    answered_s: tuple[float, float] | None = None


def formula(work: Work, have: Constants, prices: Prices) -> Plan:
    """The plan without queues: the longest of the workers' time, the writers', and that of all commits."""
    pictures, cores, writers = work
    commits, joined = pictures / have.commit_rows, pictures / have.joined_rows
    core_s = pictures * (have.picture_core_s + have.index_core_s)
    commit = have.commit_s + have.commit_fragment_s * (joined / 2 + writers * have.join_commits / 2)
    table_s = commits * (1 + 1 / have.join_commits) * commit
    join_s = pictures * have.row_bytes / have.join_bytes_s
    writer_s = table_s + commits * have.write_s + join_s
    hours = max(core_s / cores, writer_s / writers, table_s) / 3600
    requests = pictures + commits * (1 + 2 / have.join_commits) * have.commit_requests
    gigabytes = pictures * (have.row_bytes + have.index_bytes) / 1e9
    money = core_s / 3600 * prices.core_hour + gigabytes * prices.gigabyte_month
    return Plan(
        hours=hours,
        core_hours=core_s / 3600,
        terabytes=gigabytes / 1e3,
        requests=requests,
        writer_busy=writer_s / writers / 3600 / hours,
        writer_gb=pictures / writers * have.known_bytes / 1e9,
        nothing_new_hours=pictures / writers * have.known_core_s / 3600,
        money=money + requests / 1e3 * prices.thousand_requests,
        fragments=math.ceil(joined),
        readers=have.readers_for(pictures),
        search_s=have.search_s(pictures),
    )


class Site:
    """Workers, writers and readers of one library, as queues."""

    def __init__(self, work: Work, have: Constants, seed: int) -> None:
        """Take how much there is to do."""
        self.have, self.random = have, random.Random(seed)  # noqa: S311
        pictures, cores, writers = work
        self.clock = simpy.Environment()
        self.table = simpy.Resource(self.clock)  # one commit at a time
        self.readers = simpy.Resource(self.clock, have.readers_for(pictures))
        self.left = self.due = math.ceil(pictures / have.commit_rows)
        self.young = self.committed = self.tenth = 0
        self.joined = 0.0
        self.busy_s = self.searched_until = 0.0
        self.waits: list[float] = []
        self.answers: list[float] = []
        self.over = self.clock.event()
        for number in range(writers):
            # As `limner index` does, which lets workers wait while more than a commit is under way.
            ready: simpy.Store = simpy.Store(self.clock, capacity=2)
            self.clock.process(self.writer(ready))
            for _ in range(len(range(number, cores, writers))):
                self.clock.process(self.worker(ready))

    def around(self, seconds: float) -> float:
        """A time with the spread of real ones: log-normal, a fifth up or down, of that mean."""
        return seconds * self.random.lognormvariate(-0.02, 0.2)

    def worker(self, ready: simpy.Store) -> Iterator[object]:
        """One core: reads and encodes the pictures of a commit, and takes the next."""
        took = self.have.commit_rows * self.have.picture_core_s
        yield self.clock.timeout(self.random.random() * took)
        while self.left:
            self.left -= 1
            yield self.clock.timeout(self.around(took))
            yield ready.put(self.clock.now)

    def commit(self) -> Iterator[object]:
        """Hold the table for one commit."""
        with self.table.request() as turn:
            yield turn
            fragments = self.young + self.joined
            yield self.clock.timeout(
                self.around(self.have.commit_s + self.have.commit_fragment_s * fragments)
            )

    def writer(self, ready: simpy.Store) -> Iterator[object]:
        """Writes what its workers bring, and joins small fragments now and then."""
        have, own = self.have, 0
        while True:
            begun = yield ready.get()
            started = self.clock.now
            yield self.clock.timeout(self.around(have.write_s))
            yield from self.commit()
            self.waits.append(self.clock.now - begun)
            self.committed, self.young, own = self.committed + 1, self.young + 1, own + 1
            if own % have.join_commits == 0:
                size = have.join_commits * have.commit_rows
                yield self.clock.timeout(self.around(size * have.row_bytes / have.join_bytes_s))
                yield from self.commit()
                self.young -= have.join_commits
                self.joined += size / have.joined_rows
            self.busy_s += self.clock.now - started
            if self.committed * 10 // self.due > self.tenth and self.clock.now >= self.searched_until:
                self.tenth = self.committed * 10 // self.due  # one window of searches at a time
                self.searched_until = self.clock.now + SEARCHED_S
                self.clock.process(self.searches(self.searched_until))
            if self.committed == self.due:
                self.over.succeed()

    def searches(self, until: float) -> Iterator[object]:
        """Searches asked for a while, at random moments."""
        while self.clock.now < until:
            yield self.clock.timeout(self.random.expovariate(self.have.searches_s))
            self.clock.process(self.search())

    def search(self) -> Iterator[object]:
        """One search; now and then its reader opens the newest version first."""
        asked = self.clock.now
        with self.readers.request() as turn:
            yield turn
            opens = self.random.random() < self.readers.capacity / max(self.have.searches_s * YOUNG_S, 1)
            fragments = self.young + self.joined
            extra = self.have.open_fragment_s * fragments if opens else 0.0
            took = self.have.search_s(self.committed * self.have.commit_rows)
            yield self.clock.timeout(self.around(took) + extra)
        self.answers.append(self.clock.now - asked)


def simulated(work: Work, have: Constants, prices: Prices, seed: int = 0) -> Plan:
    """The plan with its queues."""
    site = Site(work, have, seed)
    site.clock.run(until=site.over)
    indexed_s = site.clock.now
    site.clock.run(until=indexed_s + 600)  # the searches that were begun
    plain = formula(work, have, prices)
    return replace(
        plain,
        hours=indexed_s / 3600 + work.pictures * have.index_core_s / work.cores / 3600,
        writer_busy=site.busy_s / work.writers / indexed_s,
        fragments=math.ceil(site.young + site.joined),
        waited_s=_spread(site.waits),
        answered_s=_spread(site.answers),
    )


def _spread(times: list[float]) -> tuple[float, float]:
    median, last = np.percentile(times or [0.0], [50, 99])
    return float(median), float(last)


def measure(counts: list[int]) -> list[dict[str, float]]:
    """Seconds to open a table and to commit to it, by the number of its fragments."""
    import lance
    import pyarrow as pa
    from lance.fragment import write_fragments

    from limner.store.store import vectors_schema

    rows = pa.table(
        {
            "id": pa.array([f"{row:064d}" for row in range(8)]),
            "input_hash": pa.array(["made-up"] * 8),
            "vector": pa.FixedSizeListArray.from_arrays(pa.array(np.ones(8 * 384, np.float16)), 384),
        }
    ).cast(vectors_schema(384))
    found = []
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "made-up.lance"
        lance.write_dataset(rows, place)
        (fragment,) = write_fragments(rows, place)
        for count in counts:
            # The same file many times: only the list of fragments matters here.
            there = lance.dataset(place)
            more = count - len(there.get_fragments())
            lance.LanceDataset.commit(
                place, lance.LanceOperation.Append([fragment] * more), read_version=there.version
            )
            opened, committed = [], []
            for _ in range(7):
                begun = time.perf_counter()
                table = lance.dataset(place)
                opened.append(time.perf_counter() - begun)
                begun = time.perf_counter()
                lance.LanceDataset.commit(
                    table, lance.LanceOperation.Append([fragment]), read_version=table.version
                )
                committed.append(time.perf_counter() - begun)
            newest = max((place / "_versions").glob("*.manifest"), key=lambda file: file.stat().st_size)
            found.append(
                {
                    "fragments": count,
                    "open_s": statistics.median(opened),
                    "commit_s": statistics.median(committed),
                    "manifest_bytes": newest.stat().st_size,
                }
            )
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parts = parser.add_subparsers(dest="part", required=True)
    measuring = parts.add_parser("measure")
    measuring.add_argument("--fragments", type=int, nargs="+", default=[100, 1000, 10_000, 100_000])
    planning = parts.add_parser("plan")
    planning.add_argument("--pictures", type=float, nargs="+", default=[1e8, 1e9])
    planning.add_argument("--cores", type=int, nargs="+", default=[64, 640])
    planning.add_argument("--writers", type=int, nargs="+", default=[1, 8])
    planning.add_argument("--constants", type=Path)
    for name in asdict(Prices()):
        planning.add_argument(f"--{name.replace('_', '-')}", type=float, default=0.0)
    asked = parser.parse_args()
    if asked.part == "measure":
        for line in measure(asked.fragments):
            print(json.dumps(line))
        return
    have = Constants(**json.loads(asked.constants.read_text())) if asked.constants else Constants()
    prices = Prices(**{name: getattr(asked, name) for name in asdict(Prices())})
    for work in map(Work, *zip(*itertools.product(asked.pictures, asked.cores, asked.writers), strict=True)):
        for kind, plan in (("formula", formula), ("simulation", simulated)):
            print(json.dumps(work._asdict() | {"by": kind} | asdict(plan(work, have, prices))))


if __name__ == "__main__":
    main()
