"""What searches need of a library's vectors, kept beside them: a bfloat16 copy and their moments.

Both cost a pass over all vectors, which a command that searches once should not pay each time. The files
hold no truth: each names the vectors it was made from and is made again when those have changed.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from zipfile import BadZipFile

import numpy as np

from limner.files import replacing
from limner.retrieval.coarse import Coarse, coarse, rounded_blocks
from limner.retrieval.moments import Moments, moments

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from limner.retrieval.gallery import Space


@dataclass(frozen=True)
class Derived:
    """Files derived from one file of vectors; read or made on first use.

    Attributes:
        source: the file of vectors; the derived ones lie beside it and share its stem.
    """

    source: Path

    def moments(self, space: Space) -> Moments:
        """Moments of the space that the file holds.

        Args:
            space: the vectors of the file, and which are present.
        Raises:
            NumericsError: a vector is not finite.
        """
        path = self.source.with_suffix(".moments.npz")
        kept = self._read(path, "count", "mean", "covariance")
        if kept is not None:
            return Moments(int(kept["count"]), kept["mean"], kept["covariance"])
        made = moments(space)
        if self._writable():
            self._write(path, count=np.array(made.count), mean=made.mean, covariance=made.covariance)
        return made

    def coarse(self, name: str, space: Space) -> Coarse:
        """Bfloat16 copy of the space that the file holds, memory-mapped.

        Args:
            name: of the space, for messages.
            space: the vectors of the file, and which are present.
        Raises:
            NumericsError: a vector is not finite.
        """
        import torch

        path, note = self.source.with_suffix(".bf16"), self.source.with_suffix(".bf16.npz")
        kept = self._read(note, "error")
        if kept is None or not path.exists() or path.stat().st_size != 2 * space.matrix.size:
            if not self._writable() or not space.matrix.size:
                return coarse(name, space)
            kept = {"error": np.array(self._copy(path, name, space))}
            # The note comes last: where it is, the copy is complete.
            self._write(note, **kept)
        # Copy-on-write, since torch takes no read-only memory; nothing is ever written.
        bits = np.memmap(path, dtype=np.int16, mode="c", shape=space.matrix.shape)
        present = None if space.present.all() else np.array(space.present)
        return Coarse(torch.from_numpy(bits).view(torch.bfloat16), present, float(kept["error"]))

    def _copy(self, path: Path, name: str, space: Space) -> float:
        """Write the copy; return the largest distance of a row from it."""
        import torch

        error = 0.0
        with replacing(path, sync=False) as draft, draft.open("wb") as stream:
            for block, worst in rounded_blocks(name, space):
                stream.write(block.view(torch.int16).numpy().tobytes())
                error = max(error, worst)
        return error

    def _stamp(self) -> NDArray[np.int64]:
        """Tells one state of the vectors' file from another."""
        status = self.source.stat()
        return np.array([status.st_size, status.st_mtime_ns, status.st_ino % 2**63], dtype=np.int64)

    def _writable(self) -> bool:
        """A library on a read-only disc is searched too, only not as soon."""
        return os.access(self.source.parent, os.W_OK)

    def _read(self, path: Path, *names: str) -> dict[str, NDArray[np.float64]] | None:
        """Arrays of a file made from the vectors as they are; None where there is no such file."""
        if not path.exists():
            return None
        try:
            with path.open("rb") as stream, np.load(stream, allow_pickle=False) as stored:
                fresh = np.array_equal(stored["stamp"], self._stamp())
                return {name: stored[name] for name in names} if fresh else None
        # A damaged file is made again like a stale one.
        except (OSError, ValueError, KeyError, EOFError, BadZipFile):
            return None

    def _write(self, path: Path, **arrays: NDArray[np.generic]) -> None:
        with replacing(path, sync=False) as draft, draft.open("wb") as stream:
            np.savez(stream, allow_pickle=False, stamp=self._stamp(), **arrays)
