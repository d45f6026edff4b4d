"""Arrays in the files of a cache, which only ever grow, with a checksum of every block of rows.

A block is checked when it is first read, so that opening a large library reads next to nothing. One that is
damaged is made again, in memory and in the file where that can be written. The numbers lie in one file as
they do in memory; how many rows of it count, and their checksums, are in another beside it, written after
them. So a reader keeps what it has mapped while another process adds rows, and what a kill left behind does
not count.
"""

from __future__ import annotations

import json
import math
import os
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from limner.checksums import rows_checksum, seal_bytes, unseal_bytes
from limner.errors import CheckpointError, LimnerWarning
from limner.files import locked, replacing, reserve, storing
from limner.store.scan import let_go

BLOCK_BYTES = 1 << 17
"""Of numbers under one checksum, or one row where that is longer: a search reads scattered rows."""

LOCK = ".lock"
"""In the folder of the files, held by whoever writes one."""

_SUMS = ".sums"
_LET_GO_BLOCKS = 256
Fill = Callable[[NDArray[Any]], None]
Remake = Callable[[int, int, NDArray[Any]], NDArray[Any]]
Kind = type[np.generic]
Sums = NDArray[np.uint64]


class Blocks:
    """An array, and which blocks of its rows are known to be as they were written.

    Attributes:
        array: the numbers, mapped from the file or in memory.
    """

    def __init__(
        self,
        array: NDArray[Any],
        sums: Sums | None = None,
        path: Path | None = None,
        remake: Remake | None = None,
        settled: Callable[[], bool] | None = None,
    ) -> None:
        """Take what `opened` found, or an array in memory, of which nothing is checked.

        Args:
            array: (M, …).
            sums: a checksum per block; None for an array that was just made.
            path: of its file.
            remake: (first row, row after the last, what the file holds there) → these rows, from what they
                were made of, and as they are where nothing reads them.
            settled: whether `remake` still knows all rows that are read; None never says so.
        """
        self.array, self._sums, self._path = array, sums, path
        self._remake, self._settled = remake, settled
        self._plain = np.asarray(array)  # a memory map takes longer over each selection
        self._rows = block_rows(array.shape[1:], array.dtype)
        self._sound = np.full(0 if sums is None else len(sums), False)
        self._mending = threading.Lock()

    @classmethod
    def opened(  # noqa: PLR0917
        cls,
        path: Path,
        rows: int,
        row: tuple[int, ...],
        kind: Kind,
        mode: Literal["r", "c"],
        remake: Remake | None,
        settled: Callable[[], bool] | None = None,
    ) -> Self | None:
        """Map a file that `extend` wrote; None where it is absent, damaged, or of another array.

        Args:
            path: of the file.
            rows: that it must hold at least; more may be there, and are mapped as well.
            row: shape of one.
            kind: of its numbers.
            mode: of `numpy.memmap`.
            remake: as of `Blocks`; None checks all blocks now.
            settled: as of `Blocks`.
        """
        if not rows:
            return cls(np.zeros((0, *row), kind))
        # A cache holds no truth: whatever is wrong with its file, it is made again like an absent one.
        reason = ""
        try:
            told = _told(path, row, kind)
            if told is None:
                return None
            if told[0] >= rows:
                # A file that cannot be written is mended in memory, which needs a private copy of its pages.
                own = mode if os.access(path, os.W_OK) else "c"
                array: NDArray[Any] = np.memmap(path, kind, own, 0, (told[0], *row))
                found = cls(array, told[1], path, remake, settled)
                if remake is not None or found.sound():
                    return found
        except Exception as error:
            reason = f" ({error})"
        warnings.warn(
            f"{path}: damaged, or of an older version{reason}; it is made again", LimnerWarning, stacklevel=2
        )
        return None

    def check(self, rows: NDArray[np.integer[Any]] | range) -> None:
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
            there = np.array(self._part(block))
            made = np.ascontiguousarray(self._remake(start, stop, there), dtype=self.array.dtype)
            if rows_checksum(made) != self._sums[block]:
                # Rows that nothing reads any more cannot be made again, and need not be.
                if self._settled is None or not self._settled():
                    raise CheckpointError(f"{where}, and their pictures have changed since; do it again")
                self._sums = self._sums.copy()
                self._sums[block] = rows_checksum(made)
            if self.array.flags.writeable:  # a private copy, which need not follow the file
                self.array[start:stop] = made
            try:
                _write_rows(self._path, start, made)
            except OSError as error:
                if not self._as_written(block):
                    raise CheckpointError(
                        f"{where} and cannot be written again ({error}); remove it"
                    ) from error
            if not self._as_written(block):
                raise CheckpointError(f"{where}, and so is the disk or the memory; look after this machine")
        warnings.warn(f"{where}; they were made again", LimnerWarning, stacklevel=2)


def block_rows(row: tuple[int, ...], kind: Kind | np.dtype[Any]) -> int:
    """Rows under one checksum, of rows of a shape."""
    return max(1, BLOCK_BYTES // max(1, math.prod(row) * np.dtype(kind).itemsize))


def rows_held(path: Path, row: tuple[int, ...], kind: Kind) -> int:
    """Rows of a file that count; 0 where it is absent, damaged, or of another array."""
    told = _told(path, row, kind)
    return 0 if told is None else told[0]


def extend(path: Path, rows: range, row: tuple[int, ...], kind: Kind, fill: Fill) -> None:
    """Write rows behind those that a file holds; with the first row it begins a new file.

    Args:
        path: of the file.
        rows: their numbers; the first is the number of rows that the file holds, or 0.
        row: shape of one.
        kind: of its numbers.
        fill: writes them all into an array, whose content is not defined before.
    Raises:
        StorageError: the disk is full, or cannot be written.
        CheckpointError: the file is damaged where the rows come.
    """
    shape, width = (len(rows), *row), math.prod(row) * np.dtype(kind).itemsize
    size, step = len(rows) * width, block_rows(row, kind)
    whole = rows.start // step  # blocks that stay as they are
    if not rows.start:
        before = np.zeros(0, np.uint64)
        _sums_of(path).unlink(missing_ok=True)
        with replacing(path, sync=False, wanted=size) as draft:
            with draft.open("r+b") as file:
                reserve(file, size)
            if size:
                fill(np.memmap(draft, kind, "r+", 0, shape))
    else:
        told = _told(path, row, kind)
        before = np.zeros(0, np.uint64) if told is None else told[1]
        begun = _checksums(path, range(whole * step, rows.start), row, kind)
        # A new checksum must not make good what is damaged.
        if told is None or told[0] != rows.start or begun != before[whole:].tolist():
            raise CheckpointError(f"{path}: damaged; it is made again")
        if not size:
            return
        with storing(path, size), path.open("r+b") as file:
            file.seek(rows.start * width)
            reserve(file, size)
        fill(np.memmap(path, kind, "r+", rows.start * width, shape))
    sums = [*before[:whole].tolist(), *_checksums(path, range(whole * step, rows.stop), row, kind)]
    _note(path, rows.stop, row, kind, np.array(sums, np.uint64))


def _sums_of(path: Path) -> Path:
    return path.with_name(path.name + _SUMS)


def _told(path: Path, row: tuple[int, ...], kind: Kind) -> tuple[int, Sums] | None:
    """How many rows of a file count, and their checksums; None where it is absent, or of another array.

    Raises:
        ValueError: the checksums are damaged.
    """
    try:
        about, sums = read_sums(path)
    except FileNotFoundError:
        return None
    if not path.exists():
        return None
    if about[1:] != (row, np.dtype(kind).str):
        raise ValueError("another array")
    return about[0], sums


def read_sums(path: Path) -> tuple[tuple[int, tuple[int, ...], str], Sums]:
    """Rows that count, shape of one and kind of numbers of a file, and its checksums.

    Raises:
        ValueError: they are damaged.
        FileNotFoundError: there are none.
    """
    content = unseal_bytes(_sums_of(path).read_bytes())
    if content is None:
        raise ValueError("its checksums are damaged")
    head, _, tail = content.partition(b"\n")
    about = json.loads(head)
    rows, row, kind = int(about["rows"]), tuple(about["row"]), str(about["kind"])
    return (rows, row, kind), np.frombuffer(tail, np.uint64)


def _note(path: Path, rows: int, row: tuple[int, ...], kind: Kind | np.dtype[Any], sums: Sums) -> None:
    head = json.dumps({"rows": rows, "row": row, "kind": np.dtype(kind).str}).encode()
    content = seal_bytes(head + b"\n" + sums.tobytes())
    with replacing(_sums_of(path), sync=False, wanted=len(content)) as draft:
        draft.write_bytes(content)


def _checksums(path: Path, rows: range, row: tuple[int, ...], kind: Kind) -> list[int]:
    """Of the blocks of a run of rows, which begins with a block."""
    if not len(rows):
        return []
    width, step = math.prod(row) * np.dtype(kind).itemsize, block_rows(row, kind)
    array: NDArray[Any] = np.memmap(path, kind, "r", rows.start * width, (len(rows), *row))
    return [rows_checksum(np.asarray(array[at : at + step])) for at in range(0, len(rows), step)]


def _write_rows(path: Path, start: int, made: NDArray[Any]) -> None:
    """Write rows of one block over those of a file, and note its checksum where it is another one."""
    with locked(path.parent / LOCK):
        with path.open("r+b") as file:
            file.seek(start * made[:1].nbytes)
            file.write(made.tobytes())
        row, kind = made.shape[1:], made.dtype.type
        told = _told(path, row, kind)
        if told is not None:
            step = block_rows(row, kind)
            (found,) = _checksums(path, range(start, min(start + step, told[0])), row, kind)
            if found != told[1][start // step]:
                sums = told[1].copy()
                sums[start // step] = found
                _note(path, told[0], row, kind, sums)
