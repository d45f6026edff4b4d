"""Fetches pictures by URL: politely, within bounds, and so that it can be stopped and gone on with.

Data sets such as Clue name pictures on hosts all over the web, half of them gone, some of them hostile.
Every file appears whole and checked or not at all.
"""

import asyncio
import hashlib
import os
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO
from urllib.parse import urlsplit

from pydantic import ValidationError

from limner.config import Record
from limner.errors import ConfigError, DataError, counted
from limner.files import DRAFT_SUFFIX, locked, write_bytes
from limner.research.datasets.missing import picture_fault
from limner.transfer import FailedError, Fetched, FetchSettings, FullError, Transfer

FILE_NAME, LOCK_NAME = "manifest.jsonl", ".manifest.lock"
_BACKOFF_S = 1.0
_MAX_WAIT_S = 60.0  # that a server may ask for


class Manifest:
    """An open manifest: what is known so far, and a way to add to it.

    Attributes:
        known: URL → what became of it.
    """

    def __init__(self, path: Path, file: BinaryIO) -> None:
        self.known: dict[str, Fetched] = {}
        self._file = file
        file.seek(0)
        data = file.read()
        whole = data.rfind(b"\n") + 1
        if whole < len(data):
            file.truncate(whole)
        for number, line in enumerate(data[:whole].split(b"\n")[:-1], start=1):
            try:
                one = Fetched.model_validate_json(line)
            except ValidationError as error:
                raise DataError(
                    f"{path}:{number}: not a line of a manifest ({error.errors()[0]['msg']}); "
                    "fetch into another folder, or move this file away to check all pictures again"
                ) from error
            self.known[one.url] = one

    def add(self, one: Fetched) -> None:
        """Append a line and wait until it is on disk."""
        self._file.write(one.model_dump_json(exclude_defaults=True).encode() + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())
        self.known[one.url] = one


@contextmanager
def open_manifest(folder: Path) -> Iterator[Manifest]:
    """The manifest of a folder, for one process at a time; a line torn by a crash is cut off.

    Raises:
        DataError: a line is not one of a manifest, or another process has it open.
    """
    path = folder / FILE_NAME
    busy = DataError(f"{path}: another fetch is writing here; wait for it or use another folder")
    with locked(folder / LOCK_NAME, busy), path.open("a+b") as file:
        yield Manifest(path, file)


class FetchReport(Record):
    """State of the folder after a fetch.

    Attributes:
        wanted: pictures asked for.
        done: of them, there.
        dead: number of pictures that cannot be downloaded.
        left: number of pictures not tried, because the folder is full.
        size_bytes: size of all that are there.
        requests: made in this run, redirects not counted.
        reasons: why pictures died → how many.
        same_bytes: pictures whose bytes came for three URLs or more; often a host's "not available".
    """

    wanted: int
    done: int
    dead: int
    left: int
    size_bytes: int
    requests: int
    reasons: dict[str, int]
    same_bytes: int


@dataclass(frozen=True)
class FetchProgress:
    """Progress of a download.

    Attributes:
        done, dead, total: pictures.
        size_bytes: fetched in this run.
        left_s: estimate of the time left; None before the first answer.
    """

    done: int
    dead: int
    total: int
    size_bytes: int
    left_s: float | None


def fetch_pictures(
    wanted: Mapping[str, str],
    folder: Path | str,
    settings: FetchSettings | None = None,
    *,
    again: bool = False,
    progress: Callable[[FetchProgress], None] | None = None,
    fault: Callable[[bytes], str] = picture_fault,
) -> FetchReport:
    """Fetch pictures into a folder; what is already there or known to be dead is not asked for again.

    Stopped at any point, even by a power cut, the same call goes on. Files hold the bytes as received;
    `manifest.jsonl` beside them says what came, what died and why.

    Args:
        wanted: URL → file name; names distinct and without folders.
        folder: is made when absent.
        settings: bounds; None uses the defaults.
        again: ask again for pictures that died for good.
        progress: called after every picture.
        fault: what is wrong with the bytes that came, "" when nothing is; what is no picture brings its own.
    Raises:
        ConfigError: two URLs want one name, or a name leads elsewhere.
        DataError: the folder cannot be written, its manifest is damaged or in use.
    """
    chosen = settings or FetchSettings()
    _check_names(wanted)
    root = Path(folder)
    try:
        root.mkdir(parents=True, exist_ok=True)
        with open_manifest(root) as manifest:
            for draft in root.glob(f".*{DRAFT_SUFFIX}"):  # what a crash left half written
                draft.unlink()
            run = _Run(wanted, root, manifest, chosen, progress, fault)
            asyncio.run(run.all(again))
            return run.report()
    except OSError as error:
        raise DataError(
            f"{root}: {error.strerror or error} ({error.filename or 'picture'}); make room "
            "or choose another folder, then run the same command again"
        ) from error


@dataclass
class _Run:
    """One download, with a queue per host and one limit for all."""

    wanted: Mapping[str, str]
    folder: Path
    manifest: Manifest
    settings: FetchSettings
    progress: Callable[[FetchProgress], None] | None
    fault: Callable[[bytes], str]

    def __post_init__(self) -> None:
        self.next_start: dict[str, float] = defaultdict(float)
        self.requests = self.finished = 0
        self.count: Counter[str] = Counter()
        self.begun = time.monotonic()
        stored = sum(one.size_bytes for one in self.manifest.known.values() if one.state == "done")
        self.transfer = Transfer(self.settings, stored)

    async def all(self, again: bool) -> None:
        """Fetch everything; the first error that is not one picture's ends all tasks."""
        self.parallel = asyncio.Semaphore(self.settings.parallel)
        queues: dict[str, list[str]] = defaultdict(list)
        for url in self.wanted:
            known = self.manifest.known.get(url)
            if known and (self._in_place(known) or (known.state == "dead" and known.lasting and not again)):
                self.count[known.state] += 1
            else:
                queues[_host(url)].append(url)
        self.due = sum(map(len, queues.values()))
        async with self.transfer.pool:
            tasks = [
                asyncio.create_task(self._serve(host, urls))
                for host, urls in queues.items()
                for _ in range(min(self.settings.per_host, len(urls)))
            ]
            try:
                await asyncio.gather(*tasks)
            except FullError:
                pass
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)

    def report(self) -> FetchReport:
        """Present progress."""
        every = [self.manifest.known[url] for url in self.wanted if url in self.manifest.known]
        done = [one for one in every if one.state == "done"]
        dead = [one for one in every if one.state == "dead"]
        same = Counter(one.sha256 for one in done)
        return FetchReport(
            wanted=len(self.wanted),
            done=len(done),
            dead=len(dead),
            left=len(self.wanted) - len(every),
            size_bytes=sum(one.size_bytes for one in done),
            requests=self.requests,
            reasons=dict(Counter(one.reason.partition(":")[0] for one in dead).most_common()),
            same_bytes=sum(number for number in same.values() if number > 2),
        )

    async def _serve(self, host: str, urls: list[str]) -> None:
        """Work off one host's queue, which its tasks share."""
        while urls:
            url = urls.pop(0)
            one = await self._adopt(url) or await self._fetch(host, url)
            self.manifest.add(one)
            self.finished += 1
            self.count[one.state] += 1
            if self.progress:
                each_s = (time.monotonic() - self.begun) / self.finished
                left_s = each_s * (self.due - self.finished)
                done, dead = self.count["done"], self.count["dead"]
                self.progress(FetchProgress(done, dead, len(self.wanted), self.transfer.arrived, left_s))

    async def _fetch(self, host: str, url: str) -> Fetched:
        """Ask for one picture until it comes, dies or has been asked for often enough."""
        name, settings = self.wanted[url], self.settings
        for attempt in range(settings.retries + 1):
            await self._turn(host)
            async with self.parallel:
                self.requests += 1
                try:
                    body = bytearray()
                    one = await self.transfer.get(url, body.extend)
                    data = bytes(body)
                    fault = await asyncio.to_thread(self.fault, data)
                    if fault:
                        raise FailedError(f"not a usable picture: {fault}", lasting=True, status=one.status)
                    await asyncio.to_thread(write_bytes, self.folder / name, data)
                    self.transfer.stored += len(data)
                    return one.model_copy(update={"name": name, "attempts": attempt + 1})
                except FailedError as error:
                    failed = error
            if failed.lasting or attempt == settings.retries:
                break
            wait_s = _BACKOFF_S * 2**attempt if failed.wait_s is None else failed.wait_s
            if wait_s > _MAX_WAIT_S:
                break
            self.next_start[host] = max(self.next_start[host], time.monotonic() + wait_s)
        return Fetched(
            url=url,
            name=name,
            state="dead",
            reason=failed.reason,
            lasting=failed.lasting,
            status=failed.status,
            attempts=attempt + 1,
        )

    async def _turn(self, host: str) -> None:
        """Wait until the host may be asked again."""
        while (wait_s := self.next_start[host] - time.monotonic()) > 0:
            await asyncio.sleep(wait_s)
        pause_s = max(self.settings.host_pause_s, self.settings.host_pauses.get(host, 0.0))
        self.next_start[host] = time.monotonic() + pause_s

    async def _adopt(self, url: str) -> Fetched | None:
        """A picture that is in place without a line: written just before a crash, or by the user."""
        name = self.wanted[url]
        path = self.folder / name
        if not path.is_file():
            return None
        data = await asyncio.to_thread(path.read_bytes)
        fault = await asyncio.to_thread(self.fault, data)
        if fault:
            reason = f"file in the way: {name} is no usable picture ({fault}); move it away"
            return Fetched(url=url, name=name, state="dead", reason=reason)
        digest = hashlib.sha256(data).hexdigest()
        return Fetched(url=url, name=name, state="done", size_bytes=len(data), sha256=digest)

    def _in_place(self, known: Fetched) -> bool:
        path = self.folder / known.name
        return (
            known.state == "done"
            and known.name == self.wanted[known.url]
            and path.is_file()
            and path.stat().st_size == known.size_bytes
        )


def _host(url: str) -> str:
    """Key of a host's queue; one queue for all malformed URLs."""
    try:
        return urlsplit(url).netloc.lower()
    except ValueError:
        return ""


def _check_names(wanted: Mapping[str, str]) -> None:
    twice = [name for name, number in Counter(wanted.values()).items() if number > 1]
    if twice:
        raise ConfigError(
            f"fetch: {counted(len(twice), 'file name')} for several URLs, first {twice[0]!r}; give"
            " each its own"
        )
    reserved = {"", ".", "..", FILE_NAME, LOCK_NAME}
    for name in wanted.values():
        if name in reserved or name != Path(name).name or "\0" in name or "\\" in name:
            raise ConfigError(f"fetch: file name {name!r}, expected a plain name without folders")
