"""Reading and encoding of pictures on a Ray cluster; the calling process writes the tables.

Ray Data distributes the files to a pool of workers, each of which runs the local engine. If a worker dies,
another one gets its files.
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
import time
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from limner.arrays import ImageEncoder
from limner.devices import MOST_WORKERS, cores
from limner.errors import CheckpointError, DataError, LimnerError, MissingError, installed
from limner.pictures.decode import pillow_warnings
from limner.pictures.ocr import rapid_ocr
from limner.scale import batches as batching
from limner.scale.batches import TableReader
from limner.scale.known import DIGEST, DigestSet

if TYPE_CHECKING:
    from types import FrameType, ModuleType

    from limner.pictures.find import FoundFile

SCALE = "'limner[scale]'"
"""Argument for ``pip install`` that installs Ray."""
WAVE_FILES = 131_072
"""Number of files per execution of Ray Data; while it runs, the next files are found."""
_STORE_BYTES = 512 * 2**20
FOLDER = "limner-ray-"
"""Prefix of the folder of a local cluster; its process id follows."""
_ENDING_S = 10.0
"""Time allowed for a cluster's processes to finish writing to its folder after the cluster has ended."""
_LISTED = 4 * batching.COMMIT_FILES
_TRIES = 3
_READING = 4
"""Threads that read files in a worker of one core; most of them wait for a disk or for object storage."""


@dataclass(frozen=True)
class ClusterEngine:
    """A `limner.scale.batches.Engine` of many processes.

    Attributes:
        encoders: function that opens the encoders, in this process and in every worker.
        address: address of a cluster (``ray://…`` or ``HOST:PORT``); None for one on this machine that ends
            with the work.
        workers: maximum number of processes; None for one per core or, on a cluster with cards, per card.
    """

    encoders: Callable[[], Sequence[ImageEncoder]]
    address: str | None = None
    workers: int | None = None

    def __call__(
        self, todo: Iterable[FoundFile], batches: batching.Batches, stopped: Callable[[], bool]
    ) -> Generator[batching.Encoded, None, None]:
        """Read and encode files, and yield them as they are finished.

        Raises:
            MissingError: Ray is not installed, or no cluster responds at the address.
            CheckpointError: a worker has other encoders than this process.
            DataError: workers die repeatedly.
        """
        files = iter(todo)
        wave = list(islice(files, WAVE_FILES))
        if not wave:  # nothing is new: no cluster is needed
            return
        here = None if self.address is not None else cores()
        ended: list[int] = []
        # Ray installs signal handlers as it starts, and a signal in the meantime may be lost.
        starting, running = _at_the_end(lambda number, _: ended.append(number)), _at_the_end(_exit)
        with starting, _connected(self.address, self.workers or cores()) as ray, running:
            if ended:
                _exit(ended[0])
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
    """Number of workers, and the resources of each."""
    cpus, cards = int(resources.get("CPU", 1)), int(resources.get("GPU", 0))
    if cards:
        # the cores are divided among the cards; one core stays with Ray
        share = max(1, min((cpus - 1) // cards, MOST_WORKERS))
        return {"size": min(workers or cards, cards), "cpus": share, "cards": 1}
    return {"size": max(1, min(workers or cpus, cpus - 1)), "cpus": 1, "cards": 0}


def _run(
    files: Sequence[FoundFile], arguments: Mapping[str, object], *, size: int, cpus: int, cards: int
) -> Iterator[batching.Encoded]:
    """Distribute files to a pool of workers, and yield the results."""
    from ray import data
    from ray.data import ActorPoolStrategy
    from ray.exceptions import RayError
    from ray.util.annotations import RayDeprecationWarning

    # whole batches, and work for each worker
    share = -(-len(files) // (size * batching.BATCH_PICTURES)) * batching.BATCH_PICTURES
    step = min(share, batching.COMMIT_FILES)
    parts = [{"files": list(files[start : start + step])} for start in range(0, len(files), step)]
    with warnings.catch_warnings():
        # before Ray 2.64, the only way to limit retries, which are unlimited by default
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
    """Runs `_run` in a process of the cluster, as Ray Data requires."""

    def __init__(
        self, files: Sequence[FoundFile], arguments: Mapping[str, object], pool: Mapping[str, int]
    ) -> None:
        _quiet()
        self._made = _run(files, arguments, **pool)

    def next(self) -> batching.Encoded | None:
        """Next batch; None at the end."""
        return next(self._made, None)


def _run_there(
    files: Sequence[FoundFile], arguments: Mapping[str, object], **pool: int
) -> Iterator[batching.Encoded]:
    """Like `_run`, through Ray's client."""
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
    """Convert an error of a worker to the error that this process would have raised."""
    from ray.exceptions import RayTaskError

    inner: BaseException | None = error
    while inner is not None:
        if isinstance(inner, RayTaskError) and isinstance(inner.cause, LimnerError):
            return inner.cause
        inner = inner.__cause__
    reason = " ".join(str(error).split())
    return DataError(
        f"index: the workers failed ({type(error).__name__}: {reason[:200]}); written batches are kept;"
        " run the same command again, without --engine ray to see which picture crashes a process"
    )


class _Worker:
    """One process of the pool, which runs the local engine on its files."""

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
                "index: a worker has another version of rapidocr; install the same version on"
                " all machines of the cluster, or use --no-ocr"
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
        """Process files, a list per row; the results, a list per row."""
        made = np.empty(len(batch["files"]), dtype=object)
        for number, files in enumerate(batch["files"]):
            # New claims for each batch, so that results lost in transit are computed again.
            read = None if self._ocr is None else self._read
            claims = batching.Claims(self._encoders, self._held, read)
            reader = TableReader(
                self._encoders, claims.claim, self._captions, self._ocr, unread=claims.claim_words
            )
            with pillow_warnings():
                made[number] = list(batching.read_and_encode(files, reader, workers=self._threads))
        return {"encoded": made}


def _names(encoders: Iterable[tuple[str, str]]) -> str:
    return ", ".join(f"{name} ({fingerprint[:12]})" for name, fingerprint in encoders) or "nothing"


def _quiet() -> None:
    """Disable Ray Data's progress bars, and log only errors."""
    from ray.data import DataContext

    for name in ("ray", "ray.data"):
        logging.getLogger(name).setLevel(logging.ERROR)
    DataContext.get_current().enable_progress_bars = False


def _exit(number: int, frame: FrameType | None = None) -> None:
    """Exit by raising an exception, so that clean-up runs as after Ctrl-C."""
    sys.exit(128 + number)


@contextmanager
def _at_the_end(handler: Callable[[int, FrameType | None], object]) -> Iterator[None]:
    """Context in which signals that would end the process call a function instead."""
    ending = [number for name in ("SIGTERM", "SIGHUP") if (number := getattr(signal, name, None))]
    before = {number: signal.getsignal(number) for number in ending}
    if threading.current_thread() is not threading.main_thread():
        before = {}
    try:
        for number, known in before.items():
            if known is not signal.SIG_IGN:  # already ignored, for example under nohup
                signal.signal(number, handler)
        yield
    finally:
        for number, known in before.items():
            signal.signal(number, known)


def _clear_away(folder: Path) -> None:
    """Remove the folders of local clusters whose processes were killed."""
    for left in folder.glob(f"{FOLDER}*"):
        owner = left.name.removeprefix(FOLDER).partition("-")[0]
        try:
            if owner.isdecimal():
                os.kill(int(owner), 0)
        except ProcessLookupError:
            shutil.rmtree(left, ignore_errors=True)
        except OSError:  # a process of another user
            continue


@contextmanager
def _connected(address: str | None, workers: int) -> Iterator[ModuleType]:
    """Connect Ray to a cluster, or start a local one that ends with the context.

    Raises:
        MissingError: Ray is not installed, or no cluster responds.
    """
    # before the import: disables Ray's usage statistics
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")
    if address is None:
        # a local cluster listens on loopback only; the token excludes other users of the machine
        os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
        os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
    with installed("Ray", SCALE):
        import ray
        import ray.data
    _quiet()
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    if ray.is_initialized():  # by the caller of this library
        yield ray
        return
    folder = None
    try:
        if address is None:
            # contains sockets, whose names have a maximum length
            short = "/tmp" if os.name == "posix" else None  # noqa: S108
            _clear_away(Path(short or tempfile.gettempdir()))
            folder = tempfile.mkdtemp(prefix=f"{FOLDER}{os.getpid()}-", dir=short)
            # Twice the number of workers: if the workers hold all cores, Ray Data waits for ever for one
            # more. This is only a count for Ray's scheduler; no more cores are used than there are workers.
            with warnings.catch_warnings():
                # Ray starts new programs, which do not use Lance's threads
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
                    warnings.simplefilter("ignore", UserWarning)  # its message is in the error
                    ray.init(address, **quiet)
            except (ConnectionError, ValueError, RuntimeError) as error:
                reason = " ".join(str(error).split())[:160]
                raise MissingError(f"--address {address}: no Ray cluster answers ({reason})") from error
        yield ray
    finally:
        ray.shutdown()
        until = time.monotonic() + _ENDING_S
        while folder is not None and Path(folder).exists() and time.monotonic() < until:
            shutil.rmtree(folder, ignore_errors=True)
            time.sleep(0.05)
