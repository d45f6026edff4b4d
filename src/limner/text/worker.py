"""Reads PDFs in a process of limited memory and time, which is killed when its caller stops waiting.

pdfium reads what it is given: one compressed stream can ask for gigabytes, and a damaged file for hours.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from typing import IO, TYPE_CHECKING

from pydantic import TypeAdapter, ValidationError

from limner.errors import DataError
from limner.text.blocks import Document

if TYPE_CHECKING:
    from limner.progress import Progress

try:
    import resource
except ModuleNotFoundError:  # Windows: no limit on the memory of a process
    resource = None  # type: ignore[assignment]

DEADLINE_S, MEMORY_BYTES = 8.0, 400 * 2**20
"""Limits for one PDF: seconds, and bytes of address space in addition to the file itself."""
POLL_S = 0.1
_ANSWER: TypeAdapter[Document | str] = TypeAdapter(Document | str)
"""What the process writes: the document, or the line that says why there is none."""


def read_limited(data: bytes, where: str, progress: Progress | None = None) -> Document:
    """Read a PDF like `limner.text.pdf.read_pdf`, within limits.

    Args:
        data: the whole file.
        where: its name, for messages.
        progress: called several times a second, without progress; an error that it raises ends the reading.
    Raises:
        DataError: as `read_pdf`, or it took too much time or memory.
    """
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "limner.text.worker", where, str(DEADLINE_S), str(MEMORY_BYTES)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        start_new_session=True,  # Ctrl-C in a terminal is meant for the caller
    )
    # `communicate` sends nothing more after its first timeout
    threading.Thread(target=_send, args=(process.stdin, data), daemon=True).start()
    process.stdin = None
    try:
        answer = _answer(process, where, progress)
    finally:
        process.kill()
        process.communicate()
    try:
        document = _ANSWER.validate_json(answer)
    except ValidationError:
        raise DataError(
            f"{where}: a PDF that needs more than {MEMORY_BYTES // 2**20} MB of memory, or is damaged; print"
            " it to a new PDF, or split it"
        ) from None
    if isinstance(document, str):
        raise DataError(document)
    return document


def _send(pipe: IO[bytes], data: bytes) -> None:
    with suppress(OSError), pipe:  # the process has ended
        pipe.write(data)


def _answer(process: subprocess.Popen[bytes], where: str, progress: Progress | None) -> bytes:
    """What the process writes."""
    until = time.monotonic() + DEADLINE_S
    while time.monotonic() < until:
        with suppress(subprocess.TimeoutExpired):
            return process.communicate(timeout=POLL_S)[0]
        if progress is not None:
            progress.advance(0)
    raise DataError(
        f"{where}: a PDF that was not read within {DEADLINE_S:g} seconds; print it to a new PDF, or split it"
    )


def main() -> None:
    """Read the PDF on standard input, and write the document to standard output."""
    from limner.text.pdf import read_pdf

    where, seconds, memory = sys.argv[1], float(sys.argv[2]), int(sys.argv[3])
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # output of libraries is not part of the answer
    if resource is not None:
        signal.alarm(int(seconds) + 1)  # ends this process in time even if its caller was killed
    data = sys.stdin.buffer.read()
    if resource is not None:
        _, most = resource.getrlimit(resource.RLIMIT_AS)
        limit = memory + len(data)
        with suppress(OSError, ValueError):  # macOS does not limit the address space
            bound = limit if most == resource.RLIM_INFINITY else min(limit, most)
            resource.setrlimit(resource.RLIMIT_AS, (bound, most))
    try:
        answer: Document | str = read_pdf(data, where)
    except DataError as error:
        answer = str(error)
    with suppress(BrokenPipeError):
        answers.write(_ANSWER.dump_json(answer))
        answers.close()


if __name__ == "__main__":
    main()
