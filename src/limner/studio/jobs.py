"""Pictures added or taken out, and texts illustrated: in threads, watched and stopped from a page.

A folder is added by the same `limner.library.Library` as the command uses. Nothing is decided about
pictures here.
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
from limner.store.known import IndexReport
from limner.studio.engine import Engine
from limner.studio.schemas import JobKind, JobStatus

KEPT = 50
TEXTS_AT_ONCE, TEXTS_WAITING = 2, 20
"""Texts illustrated side by side, and how many more may wait for their turn."""
RATE_S, LOOK_S = 2.0, 0.2
"""Seconds of work before a rate says anything about the rest, and between looks of those that wait."""


class UnknownJobError(DataError):
    """No such job.

    Args:
        job: the id as given.
    """

    def __init__(self, job: str) -> None:
        super().__init__(f"no job {job[:40]!r}; the studio forgets its jobs when it ends")


class JobCancelledError(LimnerError):
    """A job was asked to stop, and nothing is kept of it."""


class Job(Progress):
    """One long piece of work; a `limner.progress.Progress` whose state can be read at any time.

    Attributes:
        id: random.
        stop: set to make it stop.
        thread: in which it runs, once begun.
        error: that ended it, or None.
    """

    def __init__(self, kind: JobKind, subject: str, message: str) -> None:
        """Take what it works on, the path of a folder or the title of a text, and the first line of it."""
        self.id = secrets.token_hex(8)
        self.thread: threading.Thread | None = None
        self.error: Exception | None = None
        self._lock = threading.RLock()
        self.stop = threading.Event()
        self._status = JobStatus(job=self.id, kind=kind, subject=subject, message=message)
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

    def end(
        self, state: str, message: str, *, left_out: int = 0, missing: int = 0, project: str | None = None
    ) -> None:
        """It is over."""
        self._update(state=state, message=message, left_out=left_out, missing=missing, project=project)

    def _update(self, **changes: object) -> None:
        with self._lock:
            self._status = self._status.model_copy(update=changes)


class FolderJob(Job):
    """One folder being indexed; when it is to stop, what was read is kept.

    Attributes:
        source, forget, before, told: as given.
        hint: what a person is told in the end, beside what was done.
    """

    def __init__(
        self,
        source: Path,
        *,
        forget: bool = False,
        before: Callable[[], None] = lambda: None,
        told: Callable[[IndexReport], str] | None = None,
    ) -> None:
        """Take what it will index.

        Args:
            source: the folder.
            forget: as of `limner.store.ingest.index`.
            before: done first.
            told: what to say of a run that came to its end; None for `report_line`.
        """
        super().__init__("folder", str(source), f"Reading {source}")
        self.source, self.forget, self.before, self.told = source, forget, before, told or report_line
        self.hint = ""

    def note(self, line: str) -> None:
        """A line to show, now and in the end."""
        self.hint = line
        super().note(line)


class Stoppable(Progress):
    """A progress that ends what is under way at its next sign, once it is to stop.

    Attributes:
        stop: set to make it stop.
    """

    def __init__(self) -> None:
        """Nothing stops it yet."""
        self.stop = threading.Event()

    def stage(self, name: str, total: int | None) -> None:
        """A new part begins.

        Raises:
            StoppedError: it is to stop.
        """
        self.check()
        super().stage(name, total)

    def advance(self, count: int) -> None:
        """So many more are done; errors as `stage`."""
        self.check()
        super().advance(count)

    def check(self) -> None:
        """Go on, or not; errors as `stage`."""
        if self.stop.is_set():
            raise JobCancelledError("cancelled; nothing was kept")


class TextJob(Stoppable, Job):
    """A text being illustrated, of which nothing is kept when it is to stop."""

    def __init__(self, title: str) -> None:
        """Take its title, or ""."""
        Job.__init__(self, "project", title, f"Illustrating {title or 'a text'}")


class Jobs:
    """All jobs of one studio: one folder at a time, since a library has one writer, and a few texts."""

    def __init__(self, engine: Engine) -> None:
        """Take the library."""
        self._engine = engine
        self._jobs: dict[str, Job] = {}
        self._lock = threading.Lock()
        self._room = threading.Semaphore(TEXTS_AT_ONCE)

    def get(self, job: str) -> Job:
        """A job by its id.

        Raises:
            UnknownJobError: there is none.
        """
        if job not in self._jobs:
            raise UnknownJobError(job)
        return self._jobs[job]

    def running(self, kind: JobKind) -> list[Job]:
        """The jobs of a kind that are under way, the oldest first."""
        found = list(self._jobs.values())
        return [job for job in found if (job.status.kind, job.status.state) == (kind, "running")]

    def add_folder(self, folder: Path, *, forget: bool = False) -> Job:
        """Begin to index a folder.

        Args:
            folder: on this machine.
            forget: take its missing pictures for deleted, however many; it may be gone itself.
        Raises:
            MissingError: it is no folder.
            DataError: it is the library's own, or another folder is being added.
        """
        try:
            place = folder.expanduser()
        except RuntimeError as error:  # such as ~nobody
            raise DataError(f"{folder}: no such user; give a whole path from the root") from error
        if not place.is_absolute():
            raise DataError(f"{folder}: not a whole path; give one from the root, or from ~")
        if not place.is_dir() and not (forget and not place.exists()):
            raise DataError(f"{place}: no folder of this machine; check its spelling")
        place = place.resolve()
        home = self._engine.folder.resolve()
        if place == home or home in place.parents:
            raise DataError(f"{place}: lies in the library's own folder; name a folder of pictures")
        return self.begin(FolderJob(place, forget=forget))

    def begin(self, job: FolderJob) -> Job:
        """Begin a job.

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
        """Begin to illustrate a text, or to choose its pictures anew.

        Args:
            title: of the text, or "".
            work: does it and returns the id of the project; the errors that its argument raises end it.
            queued: whether it waits until few others run; a change of a project does not.
        Raises:
            DataError: too many texts are waiting already.
        """
        job = TextJob(title)
        with self._lock:
            if len(self.running("project")) >= TEXTS_AT_ONCE + TEXTS_WAITING:
                raise DataError(f"{TEXTS_WAITING} texts are waiting for their turn; wait for one to end")
            return self._begin(job, lambda: self._illustrate(job, work, queued))

    def stop(self, wait_s: float = 10.0) -> None:
        """Let all jobs end, as when the studio does."""
        running = [*self.running("folder"), *self.running("project")]
        for job in running:
            job.stop.set()
        until = time.monotonic() + wait_s
        for job in running:
            if job.thread is not None:
                job.thread.join(max(0.0, until - time.monotonic()))

    def _begin(self, job: Job, work: Callable[[], None]) -> Job:
        """Start a job in a thread; the oldest that are over are forgotten."""
        over = [key for key, old in self._jobs.items() if old.status.state != "running"]
        forgotten = set(over[: max(0, len(self._jobs) + 1 - KEPT)])
        self._jobs = {key: old for key, old in self._jobs.items() if key not in forgotten} | {job.id: job}

        def run() -> None:
            try:
                work()
            except Exception as error:  # a thread has nobody else to tell, and the page would wait for ever
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
            # Loaded before it says that it is done, so that the next storyboard does not wait for it.
            self._engine.warm()
        state = "cancelled" if report.interrupted else "done"
        line = report_line(report) if report.interrupted else job.told(report)
        missing = sum(folder.missing for folder in report.missing)
        told = f"{line}. {job.hint}" if job.hint else line
        job.end(state, told, left_out=len(report.skipped), missing=missing)


def report_line(report: IndexReport) -> str:
    """One line on what a run of indexing did."""
    kept = "stopped; what was read is kept: " if report.interrupted else ""
    moved = f" {counted(report.moved, 'file')} moved," if report.moved else ""
    away = "".join(
        f" {one.missing:,} of {counted(one.known, 'picture')} of {one.path} not there; they stay in the"
        " library."
        for one in report.missing
    )
    return (
        f"{kept}{report.new:,} new and {counted(report.changed, 'changed file')},"
        f" {report.unchanged:,} unchanged,{moved}"
        f" {len(report.skipped):,} left out; {counted(report.pictures, 'picture')} in the library"
        f"{'.' if away else ''}{away}"
    )
