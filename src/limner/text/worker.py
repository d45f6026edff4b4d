"""Reads texts in separate processes, which are killed if they take too long or the caller stops waiting.

This keeps a text from blocking a server. A process reads one text from its input and writes the result to its
output.
"""

from __future__ import annotations

import faulthandler
import io
import json
import os
import signal
import subprocess
import sys
import threading
import time
import weakref
from contextlib import suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Literal

from pydantic import TypeAdapter, ValidationError

from limner.config import Record
from limner.errors import ConfigError, DataError, LimnerError, MissingError
from limner.records import Segmentation
from limner.text.read import Format, Reading, parse_story_report, read_story_stream

if TYPE_CHECKING:
    from limner.progress import Progress

try:
    import resource
except ModuleNotFoundError:  # Windows: no limit on the memory of a process
    resource = None  # type: ignore[assignment]

DEADLINE_S, MEMORY_BYTES = 30.0, 4 * 2**30
"""Limits for reading one text: seconds, and bytes of address space of its process."""
AT_ONCE = 4
"""Number of texts read at the same time."""
LOOK_S = 0.1
_GRACE_S = 5.0
_COMMAND = (sys.executable, "-P", "-m", "limner.text.worker")
_OUT_OF_MEMORY = 75
_Process = subprocess.Popen[bytes]


class _Refused(Record):
    """An error, as returned by the process."""

    kind: Literal["DataError", "ConfigError", "MissingError", "fault"]
    told: str


_ERRORS: dict[str, type[LimnerError]] = {
    "DataError": DataError,
    "ConfigError": ConfigError,
    "MissingError": MissingError,
}
_ANSWER: TypeAdapter[Reading | _Refused] = TypeAdapter(Reading | _Refused)


class ReaderProcesses:
    """Reads each text in its own process; the process for the next text is started in advance.

    Attributes:
        deadline_s: timeout of one text in seconds.
        memory_bytes: address space of a process, if the system can limit it.
    """

    def __init__(
        self, *, deadline_s: float = DEADLINE_S, memory_bytes: int = MEMORY_BYTES, at_once: int = AT_ONCE
    ) -> None:
        """Set the limits; no process is started before the first text."""
        self.deadline_s, self.memory_bytes = deadline_s, memory_bytes
        self._room = threading.Semaphore(at_once)
        self._ahead: list[_Process] = []
        weakref.finalize(self, _end_all, self._ahead)

    def read(
        self,
        text: str,
        *,
        format: Format = "plain",  # noqa: A002
        by: Segmentation | None = None,
        progress: Progress | None = None,
    ) -> Reading:
        """Read a text like `limner.text.read.parse_story_report`, with the same story, notes and errors.

        Args:
            text: the text.
            format: its format.
            by: unit of the text that is one step.
            progress: called several times a second, without progress; an error that it raises stops the
                reading.
        Raises:
            DataError: see there; or it took too much time or memory, or its process ended.
            ConfigError: see there.
            LimnerError: an internal error of limner.
        """
        return self._read({"text": text, "format": format, "by": by}, b"", progress)

    def read_document(self, data: bytes, where: str, *, progress: Progress | None = None) -> Reading:
        """Read the bytes of a file like `limner.text.read.read_story_stream`, with the same errors.

        Args:
            data: the whole file, a Word document or a PDF; anything else is read as plain text.
            where: its name, for messages.
            progress: see `read`.
        Raises:
            MissingError: pypdfium2 is not installed.
            LimnerError: see `read`.
        """
        return self._read({"where": where}, data, progress)

    def _read(self, question: dict[str, str | None], data: bytes, progress: Progress | None) -> Reading:
        asked = json.dumps(question).encode() + b"\n" + data  # including lone surrogates
        while not self._room.acquire(timeout=LOOK_S):
            _ask(progress)
        try:
            process = self._taken()
            try:
                answer = self._answer(process, asked, progress)
            finally:
                _end_all([process])
            if not self._ahead:
                self._ahead.append(self._started())
        finally:
            self._room.release()
        if isinstance(answer, _Refused):
            raise _ERRORS.get(answer.kind, LimnerError)(answer.told)
        return answer

    def close(self) -> None:
        """End the waiting process."""
        _end_all(self._ahead)

    def _answer(self, process: _Process, asked: bytes, progress: Progress | None) -> Reading | _Refused:
        until = time.monotonic() + self.deadline_s
        # `communicate` can be called again after a timeout, but not with new input.
        question, process.stdin = process.stdin, None
        threading.Thread(target=_send, args=(question, asked), daemon=True).start()
        while True:
            with suppress(subprocess.TimeoutExpired):
                answer, _ = process.communicate(timeout=LOOK_S)
                break
            _ask(progress)
            if time.monotonic() > until:
                raise DataError(
                    f"text: not read within {self.deadline_s:g} seconds; expected a text that one can"
                    " read; save it as plain text, or split it"
                )
        try:
            return _ANSWER.validate_json(answer)
        except ValidationError:
            how = _how_ended(process.returncode)
            raise DataError(
                f"text: its reader ended ({how}); expected a text that can be read with"
                f" {self.memory_bytes / 2**30:g} GB of memory; split it"
            ) from None

    def _taken(self) -> _Process:
        """The waiting process, or a new one if there is none or it has ended."""
        with suppress(IndexError):
            process = self._ahead.pop()
            if process.poll() is None:
                return process
            _end_all([process])
        return self._started()

    def _started(self) -> _Process:
        return subprocess.Popen(
            [*_COMMAND, str(self.deadline_s + _GRACE_S), str(self.memory_bytes)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            start_new_session=True,  # Ctrl-C in a terminal is meant for the server
        )


def _ask(progress: Progress | None) -> None:
    """Let the caller's progress stop the reading."""
    if progress is not None:
        progress.advance(0)


def _send(pipe: IO[bytes], data: bytes) -> None:
    with suppress(OSError), pipe:  # the process has ended
        pipe.write(data)


def _how_ended(code: int) -> str:
    """How a process without a result ended."""
    if code == _OUT_OF_MEMORY:
        return "out of memory"
    return signal.Signals(-code).name if code < 0 else f"exit status {code}"


def _end_all(processes: list[_Process]) -> None:
    while processes:
        process = processes.pop()
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()


def _told(question: bytes) -> Reading | _Refused:
    line, _, data = question.partition(b"\n")
    asked = json.loads(line)
    try:
        if "where" in asked:
            return read_story_stream(io.BytesIO(data), asked["where"], format="plain")
        return parse_story_report(asked["text"], format=asked["format"], by=asked["by"])
    except (DataError, ConfigError, MissingError) as error:
        kind = next(name for name, own in _ERRORS.items() if isinstance(error, own))
        return _Refused.model_validate({"kind": kind, "told": str(error)})
    except MemoryError:
        sys.exit(_OUT_OF_MEMORY)
    except Exception as error:  # the server reports one line
        told = " ".join(str(error).split())[:200]
        return _Refused(kind="fault", told=f"text: {type(error).__name__} while it was read: {told}")


def main() -> None:
    """Read the request on standard input; there is none if the server was stopped."""
    seconds, memory = float(sys.argv[1]), int(sys.argv[2])
    if resource is not None:
        _, most = resource.getrlimit(resource.RLIMIT_AS)
        bound = memory if most == resource.RLIM_INFINITY else min(memory, most)
        resource.setrlimit(resource.RLIMIT_AS, (bound, most))
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # output of libraries is not part of the result
    asked = sys.stdin.buffer.read()
    if not asked:
        return
    with Path(os.devnull).open("w") as nowhere, suppress(BrokenPipeError):
        # ends this process in time even if its parent is gone
        faulthandler.dump_traceback_later(seconds, exit=True, file=nowhere)
        answers.write(_ANSWER.dump_json(_told(asked)))
        answers.close()


READER = ReaderProcesses()
"""The instance that a server shares among its requests."""


if __name__ == "__main__":
    main()
