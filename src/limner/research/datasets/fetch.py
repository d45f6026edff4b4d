"""Downloads pictures by URL: rate-limited, size-limited and resumable.

Data sets such as Clue list URLs on many hosts: many are dead, and some may be hostile. Each file is checked
and written atomically.
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
_MAX_WAIT_S = 60.0  # longest Retry-After that is honoured


class Manifest:
    """An open manifest, to which results are appended.

    Attributes:
        known: URL → result of the download.
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
                entry = Fetched.model_validate_json(line)
            except ValidationError as error:
                raise DataError(
                    f"{path}:{number}: not a line of a manifest ({error.errors()[0]['msg']}); "
                    "use another folder, or move this file away to check all pictures again"
                ) from error
            self.known[entry.url] = entry

    def add(self, one: Fetched) -> None:
        """Append a line and wait until it is on disk."""
        self._file.write(one.model_dump_json(exclude_defaults=True).encode() + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())
        self.known[one.url] = one


@contextmanager
def open_manifest(folder: Path) -> Iterator[Manifest]:
    """Open the manifest of a folder, for one process at a time; an incomplete last line is removed.

    Raises:
        DataError: a line is invalid, or another process has the manifest open.
    """
    path = folder / FILE_NAME
    busy = DataError(f"{path}: another fetch is writing here; wait for it or use another folder")
    with locked(folder / LOCK_NAME, busy), path.open("a+b") as file:
        yield Manifest(path, file)


class FetchReport(Record):
    """State of the folder after a fetch.

    Attributes:
        wanted: number of pictures requested.
        done: number of them that are in the folder.
        dead: number of pictures that cannot be downloaded.
        left: number of pictures not tried, because the folder has reached its size limit.
        size_bytes: total size of the pictures in the folder.
        requests: number of requests in this run, without redirects.
        reasons: reason of a failure → number of pictures.
        same_bytes: number of pictures whose bytes came from three or more URLs, often a placeholder.
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
        done, dead, total: numbers of pictures.
        size_bytes: bytes downloaded in this run.
        left_s: estimated seconds left; None before the first response.
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
    """Download pictures into a folder; existing files and permanently dead URLs are not requested again.

    After an interruption, even a power failure, the same call continues. Files hold the bytes as received;
    `manifest.jsonl` in the folder records the result of each URL.

    Args:
        wanted: URL → file name; names are unique and have no folders.
        folder: output folder; created if missing.
        settings: limits; None uses the defaults.
        again: whether to request permanently dead URLs again.
        progress: called after each picture.
        fault: received bytes → description of the error, or "".
    Raises:
        ConfigError: two URLs have the same file name, or a name is not a plain file name.
        DataError: the folder cannot be written, or its manifest is damaged or in use.
    """
    chosen = settings or FetchSettings()
    _check_names(wanted)
    root = Path(folder)
    try:
        root.mkdir(parents=True, exist_ok=True)
        with open_manifest(root) as manifest:
            for draft in root.glob(f".*{DRAFT_SUFFIX}"):  # incomplete files left by a crash
                draft.unlink()
            run = _Fetching(wanted, root, manifest, chosen, progress, fault)
            asyncio.run(run.all(again))
            return run.report()
    except OSError as error:
        raise DataError(
            f"{root}: {error.strerror or error} ({error.filename or 'picture'}); make room "
            "or choose another folder, then run the same command again"
        ) from error


@dataclass
class _Fetching:
    """One call of `fetch_pictures`, with one queue per host and one limit for all."""

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
        stored = sum(entry.size_bytes for entry in self.manifest.known.values() if entry.state == "done")
        self.transfer = Transfer(self.settings, stored)

    async def all(self, again: bool) -> None:
        """Download everything; an error that does not concern a single picture ends all tasks."""
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
        """Summarise the state of the folder."""
        every = [self.manifest.known[url] for url in self.wanted if url in self.manifest.known]
        done = [entry for entry in every if entry.state == "done"]
        dead = [entry for entry in every if entry.state == "dead"]
        same = Counter(entry.sha256 for entry in done)
        return FetchReport(
            wanted=len(self.wanted),
            done=len(done),
            dead=len(dead),
            left=len(self.wanted) - len(every),
            size_bytes=sum(entry.size_bytes for entry in done),
            requests=self.requests,
            reasons=dict(Counter(entry.reason.partition(":")[0] for entry in dead).most_common()),
            same_bytes=sum(number for number in same.values() if number > 2),
        )

    async def _serve(self, host: str, urls: list[str]) -> None:
        """Process one host's queue, which its tasks share."""
        while urls:
            url = urls.pop(0)
            result = await self._adopt(url) or await self._fetch(host, url)
            self.manifest.add(result)
            self.finished += 1
            self.count[result.state] += 1
            if self.progress:
                each_s = (time.monotonic() - self.begun) / self.finished
                left_s = each_s * (self.due - self.finished)
                done, dead = self.count["done"], self.count["dead"]
                self.progress(FetchProgress(done, dead, len(self.wanted), self.transfer.arrived, left_s))

    async def _fetch(self, host: str, url: str) -> Fetched:
        """Download one picture, with retries."""
        name, settings = self.wanted[url], self.settings
        for attempt in range(settings.retries + 1):
            await self._turn(host)
            async with self.parallel:
                self.requests += 1
                try:
                    body = bytearray()
                    result = await self.transfer.get(url, body.extend)
                    data = bytes(body)
                    fault = await asyncio.to_thread(self.fault, data)
                    if fault:
                        raise FailedError(
                            f"not a usable picture: {fault}", lasting=True, status=result.status
                        )
                    await asyncio.to_thread(write_bytes, self.folder / name, data)
                    self.transfer.stored += len(data)
                    return result.model_copy(update={"name": name, "attempts": attempt + 1})
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
        """Wait until the next request to the host is allowed."""
        while (wait_s := self.next_start[host] - time.monotonic()) > 0:
            await asyncio.sleep(wait_s)
        pause_s = max(self.settings.host_pause_s, self.settings.host_pauses.get(host, 0.0))
        self.next_start[host] = time.monotonic() + pause_s

    async def _adopt(self, url: str) -> Fetched | None:
        """Record a file that is not yet in the manifest: written just before a crash, or by the user."""
        name = self.wanted[url]
        path = self.folder / name
        if not path.is_file():
            return None
        data = await asyncio.to_thread(path.read_bytes)
        fault = await asyncio.to_thread(self.fault, data)
        if fault:
            reason = f"file in the way: {name} is not a usable picture ({fault}); move it away"
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
    """Host of a URL, the key of its queue; "" for malformed URLs."""
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
