"""Arrays in the files of a cache, with a checksum of every block of rows.

A block is checked when it is first read, so that opening a large library reads next to nothing. One that is
damaged is made again, in the file and in memory. Files have NumPy's form, with the checksums at their end.
"""

from __future__ import annotations

import io
import math
import os
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
import xxhash
from numpy.typing import NDArray

from limner.checksums import rows_checksum
from limner.errors import CheckpointError, LimnerWarning
from limner.library.scan import let_go

BLOCK_BYTES = 1 << 17
"""Of numbers under one checksum, or one row where that is longer: a search reads scattered rows."""

_MARK = b"limner-blocks-1\n"
_LET_GO_BLOCKS = 256
Remake = Callable[[int, int], NDArray[Any]]
Kind = type[np.generic]


class Blocks:
    """An array, and which blocks of its rows are known to be as they were written.

    Attributes:
        array: the numbers, mapped from the file or in memory.
    """

    def __init__(
        self,
        array: NDArray[Any],
        sums: NDArray[np.uint64] | None = None,
        path: Path | None = None,
        remake: Remake | None = None,
    ) -> None:
        """Take what `opened` found, or an array in memory, of which nothing is checked.

        Args:
            array: (M, …).
            sums: a checksum per block; None for an array that was just made.
            path: of its file.
            remake: (first row, row after the last) → these rows, from what they were made of.
        """
        self.array, self._sums, self._path, self._remake = array, sums, path, remake
        self._plain = np.asarray(array)  # a memory map takes longer over each selection
        self._rows = block_rows(array.shape, array.dtype)
        self._sound = np.full(0 if sums is None else len(sums), False)
        self._mending = threading.Lock()

    @classmethod
    def opened(
        cls, path: Path, shape: tuple[int, ...], kind: Kind, mode: Literal["r", "c"], remake: Remake | None
    ) -> Self | None:
        """Map a file that `write_sums` completed; None where it is absent, damaged, or of another array.

        Args:
            path: of the file.
            shape: that it must have.
            kind: of its numbers.
            mode: of `numpy.memmap`.
            remake: as of `Blocks`; None checks all blocks now.
        """
        if not path.exists():
            return None
        head = header(shape, kind)
        size = math.prod(shape) * np.dtype(kind).itemsize
        # A cache holds no truth: whatever is wrong with its file, it is made again like an absent one.
        try:
            with path.open("rb") as file:
                begun = file.read(len(head))
                file.seek(len(head) + size)
                ended = file.read()
            if begun == head and ended == trailer(np.frombuffer(ended[:-_TAIL], np.uint64)):
                array: NDArray[Any] = np.memmap(path, kind, mode, len(head), shape)
                sums = np.frombuffer(ended[:-_TAIL], np.uint64)
                if len(sums) == -(-shape[0] // block_rows(shape, kind)):
                    found = cls(array, sums, path, remake)
                    if remake is not None or found.sound():
                        return found
        except Exception as error:
            reason = f" ({error})"
        else:
            reason = ""
        warnings.warn(
            f"{path}: damaged, or of an older version{reason}; it is made again", LimnerWarning, stacklevel=2
        )
        return None

    def check(self, rows: NDArray[np.int64] | range) -> None:
        """Make sure that some rows are as they were written, before they are read; may be called by threads.

        Args:
            rows: their numbers, or a run of them.
        Raises:
            CheckpointError: some are damaged, and cannot be made again.
        """
        if self._sums is None or not len(rows) or self._sound.all():
            return
        touched = (
            np.arange(rows.start // self._rows, (rows.stop - 1) // self._rows + 1)
            if isinstance(rows, range)
            else np.unique(rows // self._rows)
        )
        for number, block in enumerate(touched[~self._sound[touched]].tolist()):
            if not self._as_written(block):
                self._mend(block)
            self._sound[block] = True
            if number % _LET_GO_BLOCKS == _LET_GO_BLOCKS - 1:
                let_go(self.array)

    def sound(self) -> bool:
        """Whether all blocks are as they were written."""
        return self._sums is None or all(map(self._as_written, range(len(self._sums))))

    def _part(self, block: int) -> NDArray[Any]:
        return self._plain[block * self._rows : (block + 1) * self._rows]

    def _as_written(self, block: int) -> bool:
        return self._sums is None or rows_checksum(self._part(block)) == self._sums[block]

    def _mend(self, block: int) -> None:
        """Write a block again: the mapping shows what the file holds."""
        start = block * self._rows
        stop = min(start + self._rows, len(self.array))
        where = f"{self._path}: rows {start:,} to {stop - 1:,} are damaged"
        with self._mending:
            if self._as_written(block) or self._path is None or self._remake is None or self._sums is None:
                return
            made = np.ascontiguousarray(self._remake(start, stop), dtype=self.array.dtype)
            if rows_checksum(made) != self._sums[block]:
                raise CheckpointError(f"{where}, and their pictures have changed since; do it again")
            if self.array.flags.writeable:  # a private copy, which need not follow the file
                self.array[start:stop] = made
            try:
                times = self._path.stat()
                with self._path.open("r+b") as file:
                    file.seek(len(header(self.array.shape, self.array.dtype.type)))
                    file.seek(start * made[:1].nbytes, os.SEEK_CUR)
                    file.write(made.tobytes())
                # the name of what is derived from this file holds its time
                os.utime(self._path, ns=(times.st_atime_ns, times.st_mtime_ns))
            except OSError as error:
                if not self._as_written(block):
                    raise CheckpointError(
                        f"{where} and cannot be written again ({error}); remove it"
                    ) from error
            if not self._as_written(block):
                raise CheckpointError(f"{where}, and so is the disk or the memory; look after this machine")
        warnings.warn(f"{where}; they were made again", LimnerWarning, stacklevel=2)


_TAIL = len(_MARK) + 16


def block_rows(shape: tuple[int, ...], kind: Kind | np.dtype[Any]) -> int:
    """Rows under one checksum."""
    return max(1, BLOCK_BYTES // max(1, math.prod(shape[1:]) * np.dtype(kind).itemsize))


def header(shape: tuple[int, ...], kind: Kind) -> bytes:
    """What stands before the numbers in a file of NumPy's form."""
    stream = io.BytesIO()
    form = {"descr": np.dtype(kind).str, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(stream, form)
    return stream.getvalue()


def trailer(sums: NDArray[np.uint64]) -> bytes:
    """What stands behind them: the checksums, and one of these."""
    content = np.asarray(sums, np.uint64).tobytes() + _MARK
    return content + xxhash.xxh3_128_digest(content)


def write_sums(draft: Path, shape: tuple[int, ...], kind: Kind) -> None:
    """Complete a file of NumPy's form, of which all numbers are written."""
    array = np.lib.format.open_memmap(draft, mode="r")
    step = block_rows(shape, kind)
    sums = [rows_checksum(np.asarray(array[start : start + step])) for start in range(0, shape[0], step)]
    with draft.open("ab") as file:
        file.write(trailer(np.array(sums, np.uint64)))
