"""Read and encode pictures on the machines of a Ray cluster; the process that asks writes the tables.

Ray Data gives files to a pool of workers, each of which does with them what the local engine does. What a
worker that died was given, another is given again.
"""

from __future__ import annotations

import logging
import os
import secrets
import shutil
import signal
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from limner.arrays import ImageEncoder
from limner.devices import MOST_WORKERS, cores
from limner.errors import CheckpointError, DataError, LimnerError, MissingError, installed
from limner.pictures.formats import pillow_warnings
from limner.pictures.ocr import rapid_ocr
from limner.store import batches as batching
from limner.store.known import DIGEST, DigestSet
from limner.store.reader import Reader

if TYPE_CHECKING:
    from types import ModuleType

    from limner.pictures.find import FoundFile

SCALE = "'limner[scale]'"
"""What pip is asked for where Ray is not installed."""
WAVE_FILES = 131_072
"""Files of one execution of Ray Data; while it runs, those of the next are listed."""
_STORE_BYTES = 512 * 2**20
FOLDER, OWNER = "limner-ray-", "limner.pid"
"""Beginning of the name of the folder of a cluster of this machine; the file in it names its process."""
_LISTED = 4 * batching.COMMIT_FILES
_TRIES = 3
_READING = 4
"""Threads that read in a worker of one core: most of them wait for a disk or for object storage."""


@dataclass(frozen=True)
class ClusterEngine:
    """A `limner.store.batches.Engine` of many processes.

    Attributes:
        encoders: makes them, in this process and in every worker, which is given the same.
        address: of a cluster (``ray://…`` or ``HOST:PORT``); None for one on this machine that ends with the
            work.
        workers: most processes; None for one per core or, where a cluster has cards, per card.
    """

    encoders: Callable[[], Sequence[ImageEncoder]]
    address: str | None = None
    workers: int | None = None

    def __call__(
        self, todo: Iterable[FoundFile], batches: batching.Batches, stopped: Callable[[], bool]
    ) -> Generator[batching.Encoded, None, None]:
        """Read and encode files, in whatever order they are done.

        Raises:
            MissingError: Ray is not installed, or there is no cluster at the address.
            CheckpointError: a worker has other encoders than this process.
            DataError: workers die again and again.
        """
        files = iter(todo)
        wave = list(islice(files, WAVE_FILES))
        if not wave:  # nothing is new: no cluster is asked for
            return
        here = None if self.address is not None else cores()
        ends = _ended_in_order() if self.address is None else nullcontext()
        with ends, _connected(self.address, self.workers or cores()) as ray:
            arguments = {
                "encoders": self.encoders,
                "due": [(one.name, one.fingerprint) for one in batches.encoders],
                "held": {space: ray.put(ids) for space, ids in batches.held.items()},
                "captions": batches.captions,
                "ocr": "" if batches.ocr is None else batches.ocr.fingerprint,
                "read": ray.put(batches.read),
            }
            pool = _pool(ray.cluster_resources(), self.workers or here)
            run = _run_there if (self.address or "").startswith("ray://") else _run
            while wave:
                coming: list[FoundFile] = []
                for made in run(wave, arguments, **pool):
                    yield batches.claimed(made)
                    coming += islice(files, min(_LISTED, WAVE_FILES - len(coming)))
                coming += islice(files, WAVE_FILES - len(coming))
                wave = [] if stopped() else coming


def _pool(resources: Mapping[str, float], workers: int | None) -> dict[str, int]:
    """How many workers there are, and what each of them has of a cluster."""
    cpus, cards = int(resources.get("CPU", 1)), int(resources.get("GPU", 0))
    if cards:
        # A card is fed by as many cores as it gets; one core stays with Ray.
        share = max(1, min((cpus - 1) // cards, MOST_WORKERS))
        return {"size": min(workers or cards, cards), "cpus": share, "cards": 1}
    return {"size": max(1, min(workers or cpus, cpus - 1)), "cpus": 1, "cards": 0}


def _run(
    files: Sequence[FoundFile], arguments: Mapping[str, object], *, size: int, cpus: int, cards: int
) -> Iterator[batching.Encoded]:
    """Give files to a pool of workers, and yield what they make of them."""
    from ray import data
    from ray.data import ActorPoolStrategy
    from ray.exceptions import RayError
    from ray.util.annotations import RayDeprecationWarning

    # Whole batches, and each worker has something to do.
    share = -(-len(files) // (size * batching.BATCH_PICTURES)) * batching.BATCH_PICTURES
    step = min(share, batching.COMMIT_FILES)
    parts = [{"files": list(files[start : start + step])} for start in range(0, len(files), step)]
    with warnings.catch_warnings():
        # Before 2.64 this is the only way to say how often it is tried; unless told it never gives up.
        warnings.simplefilter("ignore", RayDeprecationWarning)
        made = data.from_items(parts, override_num_blocks=len(parts)).map_batches(
            _Worker,
            fn_constructor_kwargs={**arguments, "threads": cpus},
            batch_size=1,
            batch_format="numpy",
            compute=ActorPoolStrategy(min_size=1, max_size=size, initial_size=min(size, len(parts))),
            num_cpus=cpus,
            num_gpus=cards,
            max_task_retries=_TRIES,
        )
    try:
        for row in made.iter_rows():
            yield from row["encoded"]
    except RayError as error:
        raise _plain(error) from error


class _Driver:
    """`_run` in a process of the cluster: Ray Data has to be on one of its machines."""

    def __init__(
        self, files: Sequence[FoundFile], arguments: Mapping[str, object], pool: Mapping[str, int]
    ) -> None:
        _quiet()
        self._made = _run(files, arguments, **pool)

    def next(self) -> batching.Encoded | None:
        """What comes next; None at the end."""
        return next(self._made, None)


def _run_there(
    files: Sequence[FoundFile], arguments: Mapping[str, object], **pool: int
) -> Iterator[batching.Encoded]:
    """As `_run`, through Ray's client."""
    import ray
    from ray.exceptions import RayError

    driver: Any = ray.remote(_Driver).options(num_cpus=0).remote(list(files), dict(arguments), pool)
    try:
        coming = driver.next.remote()
        while (made := ray.get(coming)) is not None:
            coming = driver.next.remote()
            yield made
    except RayError as error:
        raise _plain(error) from error
    finally:
        ray.kill(driver)


def _plain(error: BaseException) -> LimnerError:
    """What happened in a worker, as it would have been said here."""
    from ray.exceptions import RayTaskError

    inner: BaseException | None = error
    while inner is not None:
        if isinstance(inner, RayTaskError) and isinstance(inner.cause, LimnerError):
            return inner.cause
        inner = inner.__cause__
    reason = " ".join(str(error).split())
    return DataError(
        f"index: the workers failed ({type(error).__name__}: {reason[:200]}); what was committed is kept:"
        " give the same command again, without --engine ray to see which picture ends a process"
    )


class _Worker:
    """What one process of the pool does: the local engine, over the files that it is given."""

    def __init__(  # noqa: PLR0917
        self,
        encoders: Callable[[], Sequence[ImageEncoder]],
        due: list[tuple[str, str]],
        held: Mapping[str, Any],
        captions: bool,
        ocr: str,
        read: Any,  # noqa: ANN401
        threads: int,
    ) -> None:
        import ray

        self._ocr = rapid_ocr() if ocr else None
        if self._ocr is not None and self._ocr.fingerprint != ocr:
            raise CheckpointError(
                "index: a worker reads the words in pictures in another version; install the same rapidocr on"
                " all machines of the cluster, or leave them unread by --no-ocr"
            )
        self._read = DigestSet(ray.get(read).astype(DIGEST, copy=False))

        self._encoders, self._captions = encoders(), captions
        self._held = {
            space: DigestSet(ray.get(ids).astype(DIGEST, copy=False)) for space, ids in held.items()
        }
        self._threads = max(_READING, threads)
        found = [(one.name, one.fingerprint) for one in self._encoders]
        if found != due:
            raise CheckpointError(
                f"index: a worker encodes with {_names(found)}, expected {_names(due)}; install the same"
                " limner with the same weights on all machines of the cluster"
            )

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        """Files, a list per row → what was made of them, a list per row."""
        made = np.empty(len(batch["files"]), dtype=object)
        for number, files in enumerate(batch["files"]):
            # Claimed anew each time: what is lost on its way is made again.
            read = None if self._ocr is None else self._read
            claims = batching.Claims(self._encoders, self._held, read)
            reader = Reader(
                self._encoders, claims.claim, self._captions, self._ocr, unread=claims.claim_words
            )
            with pillow_warnings():
                made[number] = list(batching.read_and_encode(files, reader, workers=self._threads))
        return {"encoded": made}


def _names(encoders: Iterable[tuple[str, str]]) -> str:
    return ", ".join(f"{name} ({fingerprint[:12]})" for name, fingerprint in encoders) or "nothing"


def _quiet() -> None:
    """Let Ray Data draw no bars of its own, and log errors alone."""
    from ray.data import DataContext

    for name in ("ray", "ray.data"):
        logging.getLogger(name).setLevel(logging.ERROR)
    DataContext.get_current().enable_progress_bars = False


@contextmanager
def _ended_in_order() -> Iterator[None]:
    """Let the signals that end a process pass through the blocks that clear away, as Ctrl-C does."""
    ending = [number for name in ("SIGTERM", "SIGHUP") if (number := getattr(signal, name, None))]
    before = {number: signal.getsignal(number) for number in ending}
    if threading.current_thread() is not threading.main_thread():
        before = {}
    try:
        for number, handler in before.items():
            if handler is not signal.SIG_IGN:  # as below nohup
                signal.signal(number, lambda found, _: sys.exit(128 + found))
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _clear_away(folder: Path) -> None:
    """Remove what clusters of this machine left behind whose processes were killed."""
    for left in folder.glob(f"{FOLDER}*"):
        with suppress(OSError, ValueError):
            owner = int((left / OWNER).read_text(encoding="ascii"))
            try:
                os.kill(owner, 0)
            except ProcessLookupError:
                shutil.rmtree(left, ignore_errors=True)


@contextmanager
def _connected(address: str | None, workers: int) -> Iterator[ModuleType]:
    """Ray, connected to a cluster, or to one that is begun here and ended with the block.

    Raises:
        MissingError: Ray is not installed, or no cluster answers.
    """
    # It counts its users by a request to its makers' machines unless told otherwise before it is imported.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")
    if address is None:
        # Without clusters it listens on the loopback alone; the token keeps other users of the machine out.
        os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
        os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
    with installed("Ray", SCALE):
        import ray
        import ray.data
    _quiet()
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    if ray.is_initialized():  # by who calls this library
        yield ray
        return
    folder = None
    try:
        if address is None:
            # Sockets lie in this folder, and the system bounds the length of their names.
            short = "/tmp" if os.name == "posix" else None  # noqa: S108
            _clear_away(Path(short or tempfile.gettempdir()))
            folder = tempfile.mkdtemp(prefix=FOLDER, dir=short)
            Path(folder, OWNER).write_text(str(os.getpid()), encoding="ascii")
            # Twice the workers: while they hold a core each, Ray Data waits without end for one more where
            # all are taken. The cores are a count, not a limit; the workers alone compute.
            with warnings.catch_warnings():
                # What it starts is another program at once, which does not miss Lance's threads.
                warnings.filterwarnings("ignore", "lance is not fork-safe", UserWarning)
                ray.init(
                    num_cpus=2 * workers,
                    include_dashboard=False,
                    object_store_memory=_STORE_BYTES,
                    _temp_dir=folder,
                    **quiet,
                )
        else:
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", UserWarning)  # the error says the same
                    ray.init(address, **quiet)
            except (ConnectionError, ValueError, RuntimeError) as error:
                reason = " ".join(str(error).split())[:160]
                raise MissingError(f"--address {address}: no Ray cluster answers ({reason})") from error
        yield ray
    finally:
        ray.shutdown()
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)
