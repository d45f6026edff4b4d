"""Files that a crash leaves old or new, never half, and a lock that other processes see.

Projects are written through here. It knows nothing of what is in them.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

WAIT_S = 30.0


def write_whole(target: Path, data: bytes) -> None:
    """Replace a file in one step that is on the disk when this returns.

    Args:
        target: the file; its folder exists.
        data: its new content.
    """
    draft = target.with_name(f".{target.name}.{secrets.token_hex(4)}.part")
    try:
        with draft.open("xb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        draft.replace(target)
    finally:
        draft.unlink(missing_ok=True)
    sync_folder(target.parent)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder last, where the system can."""
    if os.name == "nt":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        # Some network file systems cannot; the rename has happened all the same.
        with contextlib.suppress(OSError):
            os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def locked(file: Path) -> Iterator[None]:
    """Hold a file's lock, waiting for other threads and processes; the system lets it go after a kill.

    Raises:
        TimeoutError: somebody held it for half a minute.
    """
    with file.open("a") as handle:
        if os.name == "nt":
            import msvcrt

            until = time.monotonic() + WAIT_S
            while True:
                try:
                    msvcrt.locking(handle.fileno(), msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
                    break
                except OSError:
                    if time.monotonic() > until:
                        raise TimeoutError(f"{file}: locked by another process") from None
                    time.sleep(0.05)
        else:
            import fcntl

            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
