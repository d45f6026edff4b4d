"""Texts read in a process of its own, which is ended when it takes too long or nobody waits any more.

A server must not be kept busy by a text. Questions and answers cross as lines of JSON.
"""

from __future__ import annotations

import faulthandler
import json
import os
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Literal

from pydantic import TypeAdapter, ValidationError

from limner.errors import ConfigError, DataError, LimnerError
from limner.records import Record, Segmentation
from limner.text.read import Format, Reading, parse_story_report

if TYPE_CHECKING:
    from limner.progress import Progress

try:
    import resource
except ModuleNotFoundError:  # Windows: its processes have no bound of memory
    resource = None  # type: ignore[assignment]

DEADLINE_S, MEMORY_BYTES = 30.0, 4 * 2**30
"""What reading one text may take: seconds, and address space of its process."""
AT_ONCE, KEPT = 4, 1
"""Texts read side by side, and processes that wait for the next one."""
LOOK_S = 0.1
_LARGE = 1_000_000
"""Letters of a text after which its process is not kept, for it holds on to its memory."""
_GRACE_S = 5.0
_COMMAND = (sys.executable, "-P", "-m", "limner.text.worker")
_OUT_OF_MEMORY = 75
_Process = subprocess.Popen[bytes]


class _Refused(Record):
    """The error in place of a story."""

    kind: Literal["DataError", "ConfigError", "fault"]
    told: str


_ERRORS: dict[str, type[LimnerError]] = {"DataError": DataError, "ConfigError": ConfigError}
_ANSWER: TypeAdapter[Reading | _Refused] = TypeAdapter(Reading | _Refused)


class Reader:
    """Reads texts in processes of its own, the first of which stays for the next text.

    Attributes:
        deadline_s: seconds that one text may take.
        memory_bytes: address space that its process may have, where the system bounds it.
    """

    def __init__(
        self, *, deadline_s: float = DEADLINE_S, memory_bytes: int = MEMORY_BYTES, at_once: int = AT_ONCE
    ) -> None:
        """Take the bounds; no process is started before the first text."""
        self.deadline_s, self.memory_bytes = deadline_s, memory_bytes
        self._room = threading.Semaphore(at_once)
        self._lock = threading.Lock()
        self._waiting: list[_Process] = []
        self._all: set[_Process] = set()
        weakref.finalize(self, _end_all, self._all)

    def read(
        self,
        text: str,
        *,
        format: Format = "plain",  # noqa: A002
        by: Segmentation | None = None,
        progress: Progress | None = None,
    ) -> Reading:
        """Read a text as `limner.text.read.parse_story_report` does, with the same story, notes and errors.

        Args:
            text: the text.
            format: how to read it.
            by: what one step is.
            progress: told several times a second that nothing was done yet; an error that it raises ends the
                reading.
        Raises:
            DataError: as there; or it took too long, too much memory, or its process ended.
            ConfigError: as there.
            LimnerError: a fault of limner's own.
        """
        line = json.dumps({"text": text, "format": format, "by": by}).encode()  # halves of letters, too
        while not self._room.acquire(timeout=LOOK_S):
            _ask(progress)
        try:
            answer = self._answer(line, progress, keep=len(text) < _LARGE)
        finally:
            self._room.release()
        if isinstance(answer, _Refused):
            raise _ERRORS.get(answer.kind, LimnerError)(answer.told)
        return answer

    def close(self) -> None:
        """End all processes."""
        _end_all(self._all)

    def _answer(self, line: bytes, progress: Progress | None, *, keep: bool) -> Reading | _Refused:
        process, answers, until = self._taken(), SimpleQueue[bytes](), time.monotonic() + self.deadline_s
        asking = threading.Thread(target=lambda: answers.put(_exchange(process, line)), daemon=True)
        try:
            asking.start()
            while True:
                with suppress(Empty):
                    answer = answers.get(timeout=LOOK_S)
                    break
                _ask(progress)
                if time.monotonic() > until:
                    raise DataError(
                        f"text: not read within {self.deadline_s:g} seconds; expected a text that one can"
                        " read; save it as plain text, or split it"
                    )
            found = _ANSWER.validate_json(answer)
        except ValidationError:
            why = _how_ended(process)
            self._end(process)
            raise DataError(
                f"text: its reader ended ({why}); expected a text that can be read with"
                f" {self.memory_bytes / 2**30:g} GB of memory; split it"
            ) from None
        except BaseException:
            self._end(process)
            raise
        with self._lock:
            kept = keep and len(self._waiting) < KEPT
            if kept:
                self._waiting.append(process)
        if not kept:
            self._end(process)
        return found

    def _taken(self) -> _Process:
        """A process that waits, or a new one."""
        with self._lock:
            while self._waiting:
                process = self._waiting.pop()
                if process.poll() is None:
                    return process
                self._end(process)
        process = subprocess.Popen(
            [*_COMMAND, str(self.deadline_s + _GRACE_S), str(self.memory_bytes)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            start_new_session=True,  # Ctrl-C in a terminal is for the server
        )
        self._all.add(process)
        return process

    def _end(self, process: _Process) -> None:
        _end_all([process])
        self._all.discard(process)


def _ask(progress: Progress | None) -> None:
    """Let it end what is under way."""
    if progress is not None:
        progress.advance(0)


def _exchange(process: _Process, line: bytes) -> bytes:
    """Ask and wait for the answer; nothing where the process ends before."""
    with suppress(OSError, ValueError):  # a pipe that was broken, or closed
        if process.stdin and process.stdout:
            process.stdin.write(line + b"\n")
            process.stdin.flush()
            return process.stdout.readline()
    return b""


def _how_ended(process: _Process) -> str:
    """How a process ended that gave no answer."""
    try:
        code = process.wait(_GRACE_S)
    except subprocess.TimeoutExpired:
        return "without an answer"
    if code == _OUT_OF_MEMORY:
        return "out of memory"
    return signal.Signals(-code).name if code < 0 else f"exit status {code}"


def _end_all(processes: Iterable[_Process]) -> None:
    for process in tuple(processes):
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()


def _told(line: bytes) -> Reading | _Refused:
    asked = json.loads(line)
    try:
        return parse_story_report(asked["text"], format=asked["format"], by=asked["by"])
    except (DataError, ConfigError) as error:
        return _Refused(kind="DataError" if isinstance(error, DataError) else "ConfigError", told=str(error))
    except MemoryError:
        sys.exit(_OUT_OF_MEMORY)
    except Exception as error:  # the server has to say something, in one line
        told = " ".join(str(error).split())[:200]
        return _Refused(kind="fault", told=f"text: {type(error).__name__} while it was read: {told}")


def main() -> None:
    """Answer the questions on standard input, a line each, until there are no more."""
    seconds, memory = float(sys.argv[1]), int(sys.argv[2])
    if resource is not None:
        _, most = resource.getrlimit(resource.RLIMIT_AS)
        bound = memory if most == resource.RLIM_INFINITY else min(memory, most)
        resource.setrlimit(resource.RLIMIT_AS, (bound, most))
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints is no answer
    with Path(os.devnull).open("w") as nowhere:
        for line in sys.stdin.buffer:
            # so that it ends in time even where nobody is left to end it
            faulthandler.dump_traceback_later(seconds, exit=True, file=nowhere)
            try:
                answers.write(_ANSWER.dump_json(_told(line)) + b"\n")
                answers.flush()
            except BrokenPipeError:  # the server was killed; there is nobody to tell
                os._exit(0)
            faulthandler.cancel_dump_traceback_later()


READER = Reader()
"""The one that a server shares among its requests."""


if __name__ == "__main__":
    main()
