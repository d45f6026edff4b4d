"""Folders added while the studio runs: indexing in a thread, one at a time, watched and stopped from a page.

It calls the same `limner.library.ingest` as the command, with the encoders that the library was made
with. It decides nothing about pictures.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from limner.arrays import ImageEncoder, SentenceEncoder
from limner.encoders import catalogue
from limner.encoders.catalogue import image_encoders, sentence_encoder, text_encoder
from limner.errors import CheckpointError, DataError, LimnerError, MissingError
from limner.library.ingest import index
from limner.library.known import IndexReport
from limner.library.library import Library
from limner.library.write import CAPTION_SPACES, CAPTIONS, MULTILINGUAL
from limner.storyboard.equipment import AUTO, picture_encoders
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


class Job:
    """One folder being indexed; a `limner.progress.Progress` whose state can be read at any time."""

    def __init__(self, source: Path) -> None:
        """Take what it will index."""
        self.id = secrets.token_hex(8)
        self.source = source
        self.changed = threading.Condition()
        self.thread: threading.Thread | None = None
        self._stop = threading.Event()
        self._status = JobStatus(
            job=self.id,
            state="running",
            stage="start",
            done=0,
            total=None,
            seconds_left=None,
            left_out=0,
            message=f"Reading {source}",
        )
        self._began = time.monotonic()

    @property
    def status(self) -> JobStatus:
        """How far it is."""
        with self.changed:
            status = self._status
            if status.state != "running" or not status.total or not status.done:
                return status
            spent = time.monotonic() - self._began
            if spent < RATE_S:
                return status
            left = spent * max(status.total - status.done, 0) / status.done
            return status.model_copy(update={"seconds_left": round(left, 1)})

    def cancel(self) -> None:
        """Wish that it stops; what was read is kept."""
        self._stop.set()

    def stopped(self) -> bool:
        """Whether somebody wished it to stop."""
        return self._stop.is_set()

    def stage(self, name: str, total: int | None) -> None:
        """A new part begins."""
        self._began = time.monotonic()
        self._update(stage=name, done=0, total=total)

    def total(self, total: int) -> None:
        """The number of units has become known."""
        self._update(total=total)

    def advance(self, count: int) -> None:
        """So many more are done."""
        with self.changed:
            self._update(done=self._status.done + count)

    def note(self, line: str) -> None:
        """A line to show."""
        self._update(message=line)

    def end(self, state: str, message: str, left_out: int | None = None) -> None:
        """It is over."""
        more = {} if left_out is None else {"left_out": left_out}
        self._update(state=state, message=message, seconds_left=None, **more)

    def _update(self, **changes: object) -> None:
        with self.changed:
            self._status = self._status.model_copy(update=changes)
            self.changed.notify_all()


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
        with self._lock:
            if job not in self._jobs:
                raise UnknownJobError(job)
            return self._jobs[job]

    @property
    def running(self) -> Job | None:
        """The job that is under way."""
        with self._lock:
            return next((one for one in self._jobs.values() if one.status.state == "running"), None)

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
        running = self.running
        if running is not None:
            raise DataError(f"{running.source} is being read; wait for it to end, or cancel it")
        job = Job(place)
        job.thread = threading.Thread(target=self._run, args=(job,), name=f"limner-job-{job.id}", daemon=True)
        with self._lock:
            self._jobs[job.id] = job
            while len(self._jobs) > KEPT:
                self._jobs.pop(next(iter(self._jobs)))
        job.thread.start()
        return job

    def stop(self, wait_s: float = 10.0) -> None:
        """Let the running job end, as when the studio does."""
        job = self.running
        if job is not None:
            job.cancel()
            if job.thread is not None:
                job.thread.join(wait_s)

    def _run(self, job: Job) -> None:
        ended: tuple[str, str, int | None]
        self._engine.hold()
        try:
            library = Library.open(self._engine.folder)
            sentences = text_encoder()
            report = index(
                [job.source],
                library,
                image_encoders=self._encoders(library, job),
                text_encoder=sentences if _captioned(library, sentences.fingerprint) else None,
                multilingual=_multilingual(library),
                progress=job,
                stop=job.stopped,
            )
        except (LimnerError, OSError) as error:
            ended = ("failed", str(error), None)
        except Exception as error:  # a thread has nobody else to tell, and the page would wait for ever
            ended = ("failed", f"{type(error).__name__}: {error}", None)
        else:
            state = "cancelled" if report.interrupted else "done"
            ended = (state, told(report), len(report.skipped))
        finally:
            self._engine.release()
        # Loaded before it says that it is done, so that the next storyboard does not wait for it.
        self._engine.warm()
        job.end(*ended)

    def _encoders(self, library: Library, job: Job) -> list[ImageEncoder]:
        """Those that made the vectors the library has, so that nothing there is made anew.

        Raises:
            MissingError: their weights are not installed.
            CheckpointError: they are not those that made them.
        """
        spaces = {name: made for name, made in library.settings.spaces.items() if name not in CAPTION_SPACES}
        runs = [run for run in (self._engine.model, self._engine.metric) if run is not None]
        if not spaces:
            return picture_encoders([AUTO], self._weights, sentences=text_encoder(), runs=runs)
        trained = [run for run in runs if run.space in spaces]
        plain = dict.fromkeys(made.encoder for name, made in spaces.items() if name not in (MODEL, DOCUMENT))
        known = [name for name in plain if name in image_encoders() or name.startswith("clip")]
        unknown = [name for name in plain if name not in known]
        if unknown:
            raise MissingError(f"the library was made with {unknown[0]!r}; add folders with 'limner index'")
        for name in (MODEL, DOCUMENT):
            if name in spaces and name not in {run.space for run in trained}:
                job.note("new pictures get no vectors of the trained run: the studio was started without it")
        made_now = picture_encoders(known, self._weights, sentences=text_encoder(), runs=trained)
        for encoder in made_now:
            for space in encoder.spaces:
                if space in spaces and spaces[space].fingerprint != encoder.fingerprint:
                    raise CheckpointError(
                        f"{space}: made by other weights of {spaces[space].encoder} or in another way;"
                        " start the studio with --weights, or add folders with 'limner index'"
                    )
        return made_now


def _multilingual(library: Library) -> SentenceEncoder | None:
    """What encodes captions in all languages: what the library has, and the usual one in an empty library."""
    made = library.settings.spaces.get(MULTILINGUAL)
    if made is not None:
        return sentence_encoder(made.encoder)
    return None if library.settings.spaces else sentence_encoder(catalogue.MULTILINGUAL)


def _captioned(library: Library, fingerprint: str) -> bool:
    """Whether captions are encoded: as the library does, and always in an empty one."""
    made = library.settings.spaces.get(CAPTIONS)
    if made is None:
        return not library.settings.spaces
    if made.fingerprint != fingerprint:
        raise CheckpointError(
            f"{library.folder}: its captions were encoded by another version; add folders with 'limner index'"
        )
    return True


def told(report: IndexReport) -> str:
    """One line on what a run of indexing did."""
    kept = "stopped; what was read is kept: " if report.interrupted else ""
    return (
        f"{kept}{report.new:,} new and {report.changed:,} changed files, {report.unchanged:,} unchanged,"
        f" {len(report.skipped):,} left out; {report.pictures:,} pictures in the library"
    )
