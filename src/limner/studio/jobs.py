"""Jobs that a page can follow and cancel: indexing pictures, and illustrating texts, in threads.

Folders are indexed by `limner.library.Library`, as by the command.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable
from pathlib import Path

from limner.errors import DataError, LimnerError, counted
from limner.files import storage_error
from limner.progress import Progress
from limner.store.index import IndexReport
from limner.studio.engine import Engine
from limner.studio.schemas import JobKind, JobStatus

KEPT = 50
TEXTS_AT_ONCE, TEXTS_WAITING = 2, 20
"""Number of texts illustrated at the same time, and of those that may wait."""
RATE_S, LOOK_S = 2.0, 0.2
"""Seconds of work before the time left is estimated, and seconds between checks of waiting jobs."""


class UnknownJobError(DataError):
    """No such job.

    Args:
        job: the id as given.
    """

    def __init__(self, job: str) -> None:
        super().__init__(f"no job {job[:40]!r}; the studio forgets its jobs when it ends")


class JobCancelledError(LimnerError):
    """A job was cancelled; its result is discarded."""


class Job(Progress):
    """A long piece of work; a `limner.progress.Progress` whose state can be read at any time.

    Attributes:
        id: random id.
        stop: event that stops it.
        thread: thread in which it runs, once started.
        error: error that ended it, or None.
    """

    def __init__(self, kind: JobKind, subject: str, message: str) -> None:
        """Set the subject, the path of a folder or the title of a text, and the first stage."""
        self.id = secrets.token_hex(8)
        self.thread: threading.Thread | None = None
        self.error: Exception | None = None
        self._lock = threading.RLock()
        self.stop = threading.Event()
        self._status = JobStatus(job=self.id, kind=kind, subject=subject, message=message)
        self._began = time.monotonic()

    @property
    def status(self) -> JobStatus:
        """Its current status."""
        with self._lock:
            status, spent = self._status, time.monotonic() - self._began
        if status.state != "running" or not status.total or not status.done or spent < RATE_S:
            return status
        left = spent * max(status.total - status.done, 0) / status.done
        return status.model_copy(update={"seconds_left": round(left, 1)})

    def stage(self, name: str, total: int | None) -> None:
        """Start a new stage."""
        self._began = time.monotonic()
        self._update(stage=name, done=0, total=total)

    def total(self, total: int) -> None:
        """Set the number of units."""
        self._update(total=total)

    def advance(self, count: int) -> None:
        """Count finished units."""
        with self._lock:
            self._update(done=self._status.done + count)

    def note(self, line: str) -> None:
        """Show a line."""
        self._update(message=line)

    def end(
        self, state: str, message: str, *, left_out: int = 0, missing: int = 0, project: str | None = None
    ) -> None:
        """End the job."""
        self._update(state=state, message=message, left_out=left_out, missing=missing, project=project)

    def _update(self, **changes: object) -> None:
        with self._lock:
            self._status = self._status.model_copy(update=changes)


class FolderJob(Job):
    """Indexing of one folder; if it is cancelled, pictures already indexed stay.

    Attributes:
        source, forget, before, told: as given.
        hint: advice shown at the end, after the result.
    """

    def __init__(
        self,
        source: Path,
        *,
        forget: bool = False,
        before: Callable[[], None] = lambda: None,
        told: Callable[[IndexReport], str] | None = None,
    ) -> None:
        """Set what to index.

        Args:
            source: the folder.
            forget: see `limner.store.index.index`.
            before: called first.
            told: message for a run that was not stopped; None for `report_line`.
        """
        super().__init__("folder", str(source), f"Reading {source}")
        self.source, self.forget, self.before, self.told = source, forget, before, told or report_line
        self.hint = ""

    def note(self, line: str) -> None:
        """Show a line now and at the end."""
        self.hint = line
        super().note(line)


class Stoppable(Progress):
    """A progress that raises at its next call once it has been stopped.

    Attributes:
        stop: event that stops it.
    """

    def __init__(self) -> None:
        """Create the event, not set."""
        self.stop = threading.Event()

    def stage(self, name: str, total: int | None) -> None:
        """Start a new stage.

        Raises:
            StoppedError: it has been stopped.
        """
        self.check()
        super().stage(name, total)

    def advance(self, count: int) -> None:
        """Count finished units; raises as `stage`."""
        self.check()
        super().advance(count)

    def check(self) -> None:
        """Raise if stopped, as `stage`."""
        if self.stop.is_set():
            raise JobCancelledError("cancelled; nothing was kept")


class TextJob(Stoppable, Job):
    """Illustration of a text; if it is cancelled, its result is discarded."""

    def __init__(self, title: str) -> None:
        """Set the title, or ""."""
        Job.__init__(self, "project", title, f"Illustrating {title or 'a text'}")


class Jobs:
    """All jobs of a studio: one folder at a time, since a library allows one writer, and a few texts."""

    def __init__(self, engine: Engine) -> None:
        """Set the library."""
        self._engine = engine
        self._jobs: dict[str, Job] = {}
        self._lock = threading.Lock()
        self._room = threading.Semaphore(TEXTS_AT_ONCE)

    def get(self, job: str) -> Job:
        """Find a job by its id.

        Raises:
            UnknownJobError: there is no such job.
        """
        if job not in self._jobs:
            raise UnknownJobError(job)
        return self._jobs[job]

    def running(self, kind: JobKind) -> list[Job]:
        """Running jobs of a kind, oldest first."""
        found = list(self._jobs.values())
        return [job for job in found if (job.status.kind, job.status.state) == (kind, "running")]

    def add_folder(self, folder: Path, *, forget: bool = False) -> Job:
        """Start to index a folder.

        Args:
            folder: folder of this machine.
            forget: treat missing pictures as deleted, however many; the folder itself may be gone.
        Raises:
            MissingError: it is not a folder.
            DataError: it is in the library's own folder, or another folder is being added.
        """
        try:
            place = folder.expanduser()
        except RuntimeError as error:  # such as ~nobody
            raise DataError(f"{folder}: no such user; give an absolute path") from error
        if not place.is_absolute():
            raise DataError(f"{folder}: not an absolute path; give one, or one from ~")
        if not place.is_dir() and not (forget and not place.exists()):
            raise DataError(f"{place}: no folder of this machine; check its spelling")
        place = place.resolve()
        home = self._engine.folder.resolve()
        if place == home or home in place.parents:
            raise DataError(f"{place}: lies in the library's own folder; name a folder of pictures")
        return self.begin(FolderJob(place, forget=forget))

    def begin(self, job: FolderJob) -> Job:
        """Start a job.

        Raises:
            DataError: another one is running.
        """
        with self._lock:
            running = self.running("folder")
            if running:
                subject = running[0].status.subject
                raise DataError(f"{subject} is being read; wait for it to end, or cancel it")
            return self._begin(job, lambda: self._read(job))

    def illustrate(self, title: str, work: Callable[[Progress], str], *, queued: bool = True) -> Job:
        """Start to illustrate a text, or to choose its pictures again.

        Args:
            title: title of the text, or "".
            work: does the work and returns the id of the project; errors raised by its argument stop it.
            queued: whether it waits while others run; changes of a project do not.
        Raises:
            DataError: too many texts are waiting.
        """
        job = TextJob(title)
        with self._lock:
            if len(self.running("project")) >= TEXTS_AT_ONCE + TEXTS_WAITING:
                raise DataError(f"{TEXTS_WAITING} texts are waiting; try again when one is done")
            return self._begin(job, lambda: self._illustrate(job, work, queued))

    def stop(self, wait_s: float = 10.0) -> None:
        """Stop all jobs, because the studio ends."""
        running = [*self.running("folder"), *self.running("project")]
        for job in running:
            job.stop.set()
        until = time.monotonic() + wait_s
        for job in running:
            if job.thread is not None:
                job.thread.join(max(0.0, until - time.monotonic()))

    def _begin(self, job: Job, work: Callable[[], None]) -> Job:
        """Start a job in a thread; the oldest finished jobs are forgotten."""
        over = [key for key, old in self._jobs.items() if old.status.state != "running"]
        forgotten = set(over[: max(0, len(self._jobs) + 1 - KEPT)])
        self._jobs = {key: old for key, old in self._jobs.items() if key not in forgotten} | {job.id: job}

        def run() -> None:
            try:
                work()
            except (
                Exception
            ) as error:  # otherwise nobody would see an error of the thread, and the page would wait for ever
                job.error = error = storage_error(error, self._engine.folder) or error
                told = str(error) if isinstance(error, LimnerError | OSError) else repr(error)
                job.end("cancelled" if isinstance(error, JobCancelledError) else "failed", told)

        job.thread = threading.Thread(target=run, name=f"limner-job-{job.id}", daemon=True)
        job.thread.start()
        return job

    def _illustrate(self, job: Job, work: Callable[[Progress], str], queued: bool) -> None:
        job.stage("waiting", None)
        while queued and not self._room.acquire(timeout=LOOK_S):
            job.stage("waiting", None)
        try:
            project = work(job)
        finally:
            if queued:
                self._room.release()
        job.end("done", "The pictures are chosen.", project=project)

    def _read(self, job: FolderJob) -> None:
        try:
            with self._engine.held():
                job.before()
                report = self._engine.library().add(
                    job.source,
                    model=self._engine.model,
                    metric=self._engine.metric,
                    encoders=None,
                    forget=job.forget,
                    progress=job,
                    stop=job.stop.is_set,
                )
        finally:
            # Loaded before the job ends, so that the next storyboard does not wait for it.
            self._engine.warm()
        state = "cancelled" if report.interrupted else "done"
        line = report_line(report) if report.interrupted else job.told(report)
        missing = sum(folder.missing for folder in report.missing)
        told = f"{line}. {job.hint}" if job.hint else line
        job.end(state, told, left_out=len(report.skipped), missing=missing)


def report_line(report: IndexReport) -> str:
    """Result of an indexing run in one line."""
    kept = "stopped; pictures already indexed stay: " if report.interrupted else ""
    moved = f" {counted(report.moved, 'file')} moved," if report.moved else ""
    away = "".join(
        f" {one.missing:,} of {counted(one.known, 'picture')} of {one.path} missing; they stay in the"
        " library."
        for one in report.missing
    )
    return (
        f"{kept}{report.new:,} new and {counted(report.changed, 'changed file')},"
        f" {report.unchanged:,} unchanged,{moved}"
        f" {len(report.skipped):,} skipped; {counted(report.pictures, 'picture')} in the library"
        f"{'.' if away else ''}{away}"
    )
