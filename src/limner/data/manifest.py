"""The manifest of a fetch: one line per picture that came or died, and why.

It is what makes a fetch resumable: a line is appended, and on disk, before the picture counts. It fetches
nothing.
"""

import os
from pathlib import Path
from types import TracebackType
from typing import Literal, Self

from pydantic import ValidationError

from limner.data.records import Record
from limner.errors import DataError

FILE_NAME = "manifest.jsonl"


class Fetched(Record):
    """What became of one URL.

    Attributes:
        url: as the data set writes it.
        name: file name of the picture.
        state: done or dead.
        reason: why it died; "" when done.
        lasting: whether asking again is pointless (404, a web page, not a picture).
        status: last HTTP status; None where there was no answer.
        final_url: where redirects led; "" without.
        content_type: as the server said.
        size_bytes: of the file.
        sha256: of the file; "" when dead.
        attempts: requests made in the run that wrote this line; 0 for a file found in place.
    """

    url: str
    name: str
    state: Literal["done", "dead"]
    reason: str = ""
    lasting: bool = False
    status: int | None = None
    final_url: str = ""
    content_type: str = ""
    size_bytes: int = 0
    sha256: str = ""
    attempts: int = 0


class Manifest:
    """An open manifest: what is known so far, and a way to add to it. One process at a time."""

    def __init__(self, folder: Path) -> None:
        """Read and open the manifest of a folder; a line torn by a crash is cut off.

        Raises:
            DataError: a line is not one of a manifest, or another process has it open.
        """
        self.path = folder / FILE_NAME
        self._file = self.path.open("a+b")
        try:
            _lock(self._file.fileno(), self.path)
            self.known = self._read()
        except BaseException:
            self._file.close()
            raise

    def add(self, one: Fetched) -> None:
        """Append a line and wait until it is on disk."""
        self._file.write(one.model_dump_json(exclude_defaults=True).encode() + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())
        self.known[one.url] = one

    def __enter__(self) -> Self:
        """The manifest itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close it."""
        self._file.close()

    def _read(self) -> dict[str, Fetched]:
        self._file.seek(0)
        data = self._file.read()
        whole = data.rfind(b"\n") + 1
        if whole < len(data):
            self._file.truncate(whole)
        known: dict[str, Fetched] = {}
        for number, line in enumerate(data[:whole].split(b"\n")[:-1], start=1):
            try:
                one = Fetched.model_validate_json(line)
            except ValidationError as error:
                raise DataError(
                    f"{self.path}:{number}: not a line of a manifest ({error.errors()[0]['msg']}); "
                    "fetch into another folder, or move this file away to check all pictures again"
                ) from error
            known[one.url] = one
        return known


def _lock(descriptor: int, path: Path) -> None:
    """Keep other processes out; the lock goes with the process, however it ends."""
    try:
        import fcntl
    except ModuleNotFoundError:  # no such lock on Windows
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise DataError(f"{path}: another fetch is writing here; wait for it or use another folder") from None
