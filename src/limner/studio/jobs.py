"""Folders added while the studio runs: indexing in a thread, one at a time, watched and stopped from a page.

It calls the same `limner.library.ingest` as the command, with the encoders that the library was made
with. It decides nothing about pictures.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from limner.arrays import ImageEncoder, TextEncoder
from limner.encoders.catalogue import CLIP, image_encoders, text_encoder
from limner.errors import CheckpointError, DataError, LimnerError, MissingError
from limner.library.ingest import index
from limner.library.known import IndexReport
from limner.library.library import Library
from limner.library.store import SpaceInfo
from limner.library.write import CAPTION_SPACES, CAPTIONS, MULTILINGUAL
from limner.progress import Progress
from limner.storyboard.equipment import AUTO, multilingual_encoder, picture_encoders
from limner.storyboard.trained import DOCUMENT, MODEL
from limner.studio.engine import Engine
from limner.studio.schemas import JobStatus

KEPT = 50
RATE_S = 2.0
"""Seconds of work before a rate says anything about the rest."""


class UnknownJobError(DataError):
    """No such job.

    Args:
        job: the id as given.
    """

    def __init__(self, job: str) -> None:
        super().__init__(f"no job {job[:40]!r}; the studio forgets its jobs when it ends")


class Job(Progress):
    """One folder being indexed; a `limner.progress.Progress` whose state can be read at any time.

    Attributes:
        id: random.
        source: the folder.
        stop: set to make it stop; what was read is kept.
        thread: in which it runs, once begun.
    """

    def __init__(self, source: Path) -> None:
        """Take what it will index."""
        self.id = secrets.token_hex(8)
        self.source = source
        self.thread: threading.Thread | None = None
        self._lock = threading.RLock()
        self.stop = threading.Event()
        self._status = JobStatus(job=self.id, message=f"Reading {source}")
        self._began = time.monotonic()

    @property
    def status(self) -> JobStatus:
        """How far it is."""
        with self._lock:
            status, spent = self._status, time.monotonic() - self._began
        if status.state != "running" or not status.total or not status.done or spent < RATE_S:
            return status
        left = spent * max(status.total - status.done, 0) / status.done
        return status.model_copy(update={"seconds_left": round(left, 1)})

    def stage(self, name: str, total: int | None) -> None:
        """A new part begins."""
        self._began = time.monotonic()
        self._update(stage=name, done=0, total=total)

    def total(self, total: int) -> None:
        """The number of units has become known."""
        self._update(total=total)

    def advance(self, count: int) -> None:
        """So many more are done."""
        with self._lock:
            self._update(done=self._status.done + count)

    def note(self, line: str) -> None:
        """A line to show."""
        self._update(message=line)

    def end(self, state: str, message: str, left_out: int = 0) -> None:
        """It is over."""
        self._update(state=state, message=message, left_out=left_out)

    def _update(self, **changes: object) -> None:
        with self._lock:
            self._status = self._status.model_copy(update=changes)


class Jobs:
    """All jobs of one studio; one runs at a time, since a library has one writer."""

    def __init__(self, engine: Engine, weights: Sequence[str] = ()) -> None:
        """Take the library, and where the weights of its encoders are."""
        self._engine, self._weights = engine, tuple(weights)
        self._jobs: dict[str, Job] = {}
        self._lock = threading.Lock()

    def get(self, job: str) -> Job:
        """A job by its id.

        Raises:
            UnknownJobError: there is none.
        """
        if job not in self._jobs:
            raise UnknownJobError(job)
        return self._jobs[job]

    @property
    def running(self) -> Job | None:
        """The job that is under way; as only the last can be, that is the last one or none."""
        last = next(reversed(self._jobs.values()), None)
        return last if last is not None and last.status.state == "running" else None

    def add_folder(self, folder: Path) -> Job:
        """Begin to index a folder.

        Args:
            folder: on this machine.
        Raises:
            MissingError: it is no folder.
            DataError: it is the library's own, or another folder is being added.
        """
        place = folder.expanduser()
        if not place.is_absolute():
            raise DataError(f"{folder}: not a whole path; give one from the root, or from ~")
        if not place.is_dir():
            raise DataError(f"{place}: no folder of this machine; check its spelling")
        place = place.resolve()
        home = self._engine.folder.resolve()
        if place == home or home in place.parents:
            raise DataError(f"{place}: lies in the library's own folder; name a folder of pictures")
        with self._lock:
            running = self.running
            if running is not None:
                raise DataError(f"{running.source} is being read; wait for it to end, or cancel it")
            job = Job(place)
            self._jobs = dict([*self._jobs.items(), (job.id, job)][-KEPT:])
        job.thread = threading.Thread(target=self._run, args=(job,), name=f"limner-job-{job.id}", daemon=True)
        job.thread.start()
        return job

    def stop(self, wait_s: float = 10.0) -> None:
        """Let the running job end, as when the studio does."""
        job = self.running
        if job is not None and job.thread is not None:
            job.stop.set()
            job.thread.join(wait_s)

    def _run(self, job: Job) -> None:
        try:
            with self._engine.held():
                report = self._index(job)
        except (LimnerError, OSError) as error:
            ended = ("failed", str(error), 0)
        except Exception as error:  # a thread has nobody else to report to, and the page would wait for ever
            ended = ("failed", f"{type(error).__name__}: {error}", 0)
        else:
            state = "cancelled" if report.interrupted else "done"
            ended = (state, report_line(report), len(report.skipped))
        # Loaded before it says that it is done, so that the next storyboard does not wait for it.
        self._engine.warm()
        job.end(*ended)

    def _index(self, job: Job) -> IndexReport:
        """Read the folder with the encoders that the library was made with, or the usual ones if it is empty.

        Raises:
            MissingError: their weights are not installed.
            CheckpointError: they are not those that made its vectors, so that all would be made anew.
        """
        library = Library.open(self._engine.folder)
        made, sentences = library.settings.spaces, text_encoder()
        if CAPTIONS in made and made[CAPTIONS].fingerprint != sentences.fingerprint:
            raise CheckpointError(
                f"{library.folder}: its captions were encoded by another version;"
                " add folders with 'limner index'"
            )
        return index(
            [job.source],
            library,
            image_encoders=self._encoders(made, sentences, job),
            text_encoder=sentences if CAPTIONS in made or not made else None,
            multilingual=multilingual_encoder(library.folder) if MULTILINGUAL in made or not made else None,
            progress=job,
            stop=job.stop.is_set,
        )

    def _encoders(
        self, made: Mapping[str, SpaceInfo], sentences: TextEncoder, job: Job
    ) -> list[ImageEncoder]:
        spaces = {name: space for name, space in made.items() if name not in CAPTION_SPACES}
        runs = [run for run in (self._engine.model, self._engine.metric) if run is not None]
        loaded = partial(
            picture_encoders,
            weights=self._weights,
            made=made,
            sentences=sentences,
            device=self._engine.device,
        )
        if not spaces:
            return loaded([AUTO], runs=runs)
        trained = [run for run in runs if run.space in spaces]
        names = dict.fromkeys(one.encoder for name, one in spaces.items() if name not in (MODEL, DOCUMENT))
        for name in names:
            if name not in image_encoders() and not name.startswith(CLIP):
                raise MissingError(f"the library was made with {name!r}; add folders with 'limner index'")
        if spaces.keys() & {MODEL, DOCUMENT} > {run.space for run in trained}:
            job.note("new pictures get no vectors of the trained run: the studio was started without it")
        encoders = loaded(list(names), runs=trained)
        for encoder in encoders:
            for space in spaces.keys() & encoder.spaces:
                if spaces[space].fingerprint != encoder.fingerprint:
                    raise CheckpointError(
                        f"{space}: made by other weights of {spaces[space].encoder} or in another way;"
                        " start the studio with --weights, or add folders with 'limner index'"
                    )
        return encoders


def report_line(report: IndexReport) -> str:
    """One line on what a run of indexing did."""
    kept = "stopped; what was read is kept: " if report.interrupted else ""
    return (
        f"{kept}{report.new:,} new and {report.changed:,} changed files, {report.unchanged:,} unchanged,"
        f" {len(report.skipped):,} left out; {report.pictures:,} pictures in the library"
    )
