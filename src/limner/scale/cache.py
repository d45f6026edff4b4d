"""Cache of files that are derived from a library's tables, named by a key of their content.

Each is written atomically and memory-mapped. Its checksum is verified when it is opened; a file that is
damaged, missing or out of date is created again. If the folder is read-only, the content is kept in memory.
"""

from __future__ import annotations

import errno
import re
import warnings
from collections.abc import Callable
from contextlib import ExitStack, suppress
from io import BytesIO
from pathlib import Path
from typing import BinaryIO

import numpy as np

from limner.arrays import ByteArray
from limner.checksums import tail_of, unseal_array
from limner.errors import LimnerWarning
from limner.files import locked, remove_drafts, replacing

_LOCK = ".lock"
_KEY = "[0-9a-f]{32}"
MADE = re.compile(rf"\w+-{_KEY}\.(arrow|vectors|json)")
"""Names of the cached files."""
_EARLIER = re.compile(
    r"state\.safetensors|ledger-[0-9a-f]{16}\.safetensors|\w+-[0-9a-f]{8}\.(rows|rows\.sums|moments)"
    rf"|{_KEY}(\.order)?-{_KEY}\.arrow"
)
"""Names of the cached files of earlier versions, here and in a folder of lists."""
_LISTS = "pictures"


class Cache:
    """Cache in one folder.

    Attributes:
        refused: error of a failed write, or None.
    """

    def __init__(self, folder: Path) -> None:
        """Open a cache without reading or writing anything."""
        self._folder, self.refused = folder, None if not folder.is_symlink() else _linked(folder)

    def kept(self, kind: str, key: str, ending: str, write: Callable[[BinaryIO], object]) -> ByteArray:
        """Cached content of a kind under a key; if missing, it is written and replaces others of the kind.

        Args:
            kind: beginning of the file's name.
            key: hash of everything that the content depends on, 32 hexadecimal digits.
            ending: extension of the file's name.
            write: function that writes the content; called again, for memory, if the disk fails.
        """
        path = self._folder / f"{kind}-{key}{ending}"
        found = self._opened(path)
        if found is not None:
            return found
        with ExitStack() as held:
            if self._begin(held):
                found = self._opened(path, again=True)  # another process was quicker
                found = self._written(path, write) if found is None else found
            if found is None:
                content = BytesIO()
                write(content)
                found = np.frombuffer(content.getbuffer(), np.uint8)
        return found

    def _opened(self, path: Path, *, again: bool = False) -> ByteArray | None:
        """Content of a file; None if it is missing or damaged."""
        if self._folder.is_symlink() or path.is_symlink():
            return None
        try:
            found = unseal_array(np.asarray(np.memmap(path, np.uint8, "r")))
        except (OSError, ValueError):  # absent, not ours to read, or empty
            found = None
        if found is None and not again and path.exists():
            warnings.warn(f"{path}: damaged; it is built again", LimnerWarning, stacklevel=4)
        return found

    def _begin(self, held: ExitStack) -> bool:
        """Acquire the lock of the writers, if the folder can be written."""
        if self._folder.is_symlink() or (self._folder / _LOCK).is_symlink():
            self.refused = _linked(self._folder)
            return False
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            held.enter_context(locked(self._folder / _LOCK))
            remove_drafts(self._folder)
        except OSError as error:
            self.refused = error
            return False
        self.refused = None
        return True

    def _written(self, path: Path, write: Callable[[BinaryIO], object]) -> ByteArray | None:
        try:
            with replacing(path, sync=False) as draft:
                with draft.open("wb") as file:
                    write(file)
                with draft.open("ab") as file:
                    file.write(tail_of([] if not draft.stat().st_size else [np.memmap(draft, np.uint8, "r")]))
        except OSError as error:
            self.refused = error
            return None
        self._forget(path)
        return self._opened(path)

    def _forget(self, path: Path) -> None:
        """Remove other files of a kind, and those of earlier versions: by their names, and no links."""
        kind, _, _ = path.stem.rpartition("-")
        other = re.compile(f"{re.escape(kind)}-{_KEY}{re.escape(path.suffix)}")
        lists = self._folder / _LISTS
        earlier = lists.iterdir() if lists.is_dir() and not lists.is_symlink() else ()
        for one in (*self._folder.iterdir(), *earlier):
            own = other.fullmatch(one.name) or _EARLIER.fullmatch(one.name)
            if own and one != path and one.is_file() and not one.is_symlink():
                # Windows does not remove a file that another process has mapped; a later change does
                with suppress(OSError):
                    one.unlink()


def _linked(folder: Path) -> OSError:
    return OSError(errno.ELOOP, "a link; links in a library's folder are not followed", str(folder))


def is_whole(path: Path) -> bool:
    """Whether a file matches its checksum."""
    return unseal_array(np.asarray(np.memmap(path, np.uint8, "r"))) is not None
