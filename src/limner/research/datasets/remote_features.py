"""Feature stores on object storage, read by shards: each is fetched when a row is needed, and kept on disk.

A store is written on a disk, see `limner.research.datasets.features`, and copied to its address by any tool.
"""

import warnings
from collections import OrderedDict
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from limner.checksums import rows_checksum
from limner.errors import CheckpointError, LimnerWarning, MissingError, counted
from limner.files import write_bytes
from limner.locations import Location, file_system, reaching, read_bytes
from limner.research.datasets.features import (
    DONE,
    IDS,
    KEY,
    ROWS,
    SUMS,
    FeatureKey,
    Features,
    Floats,
    read_store,
)

SHARD_BYTES = 8 << 20
_OPEN = 64  # shards of which a process holds the file


class RemoteFeatures(Features):
    """A complete store at an address; rows are fetched by shards of about 8 MB.

    Shards lie in a folder that the processes of a machine share. The ones that were used longest ago go when
    they are more than the bound. Every row is held against its checksum when its shard is opened.
    """

    def __init__(self, plain: Features, at: Location, folder: Path, most_bytes: int) -> None:
        """Take what `open_remote` read.

        Args:
            plain: key, pictures and checksums; no rows.
            at: of the store.
            folder: for shards; made if absent.
            most_bytes: of all shards in it.
        """
        super().__init__(plain.key, plain.ids, plain.stored, plain.sums)
        self._at, self._folder, self._most_bytes = at, folder, most_bytes
        self._shape = plain.stored.shape[1:]
        self._row_bytes = 2 * int(np.prod(self._shape))
        self._rows = max(1, SHARD_BYTES // self._row_bytes)
        self._open: OrderedDict[int, NDArray[np.float16]] = OrderedDict()

    def take(self, places: NDArray[np.int64]) -> Floats:
        """(B, …) float32 copies of some rows.

        Raises:
            CheckpointError: one is damaged at the address, naming its picture.
            MissingError: the store does not answer.
        """
        found = np.empty((len(places), *self._shape), np.float32)
        shards = places // self._rows
        for number in np.unique(shards).tolist():
            some = shards == number
            found[some] = self._shard(number)[places[some] - number * self._rows]
        return found

    def damaged(self, places: NDArray[np.int64]) -> list[int]:
        """None: what is damaged is refused when it is fetched."""
        del places
        return []

    def _shard(self, number: int) -> NDArray[np.float16]:
        """The rows of a shard, from memory, the disk or the address."""
        if number not in self._open:
            rows = slice(number * self._rows, min((number + 1) * self._rows, len(self.ids)))
            file = self._folder / f"{number}.f16"
            held = self._kept(file, rows)
            if held is None:
                self._fetch(file, rows)
                held = self._kept(file, rows)
            if held is None:
                raise CheckpointError(
                    f"{file}: damaged when it had been written; check the disk, or name another data.features"
                )
            self._open[number] = held
            while len(self._open) > _OPEN:
                self._open.popitem(last=False)
        self._open.move_to_end(number)
        return self._open[number]

    def _kept(self, file: Path, rows: slice) -> NDArray[np.float16] | None:
        """A shard on the disk; None where it is not there, or damaged, which is said."""
        shape = (rows.stop - rows.start, *self._shape)
        try:
            held = np.memmap(file, "<f2", "r", shape=shape)
            file.touch()  # used last
        except (OSError, ValueError):
            return None
        if self._wrong(np.asarray(held), rows) is None:
            return held
        warnings.warn(f"{file}: damaged; fetched again from {self._at}", LimnerWarning, stacklevel=2)
        return None

    def _wrong(self, held: NDArray[np.float16], rows: slice) -> int | None:
        """The first row that is not as it was written."""
        due = self.sums[rows]
        return next((place for place, row in enumerate(held) if rows_checksum(row) != due[place]), None)

    def _fetch(self, file: Path, rows: slice) -> None:
        at = self._at / ROWS
        size = (rows.stop - rows.start) * self._row_bytes
        with reaching(at), file_system(at).open_input_file(at.path) as stream:
            data = bytes(stream.read_at(size, rows.start * self._row_bytes))
        made = np.frombuffer(data, "<f2") if len(data) == size else np.empty(0, np.float16)
        wrong = 0 if not len(made) else self._wrong(made.reshape(-1, *self._shape), rows)
        if wrong is not None:
            raise CheckpointError(
                f"{self._at}: the features of picture {self.ids[rows.start + wrong]!r} are damaged there;"
                " copy the store to it again"
            )
        self._folder.mkdir(parents=True, exist_ok=True)
        write_bytes(file, data)
        self._make_room(file)

    def _make_room(self, newest: Path) -> None:
        """Remove the shards that were used longest ago; who has one open goes on reading it."""
        held = []
        for path in self._folder.glob("*.f16"):
            with suppress(OSError):  # another process removed it
                held.append((path.stat().st_mtime_ns, path.stat().st_size, path))
        left = sum(size for _, size, _ in held)
        for _, size, path in sorted(held):
            if left <= self._most_bytes:
                break
            if path != newest:
                with suppress(OSError):
                    path.unlink()
                left -= size


def open_remote(
    root: Location, key: FeatureKey, ids: Sequence[str], cache: Path, *, most_gb: float
) -> RemoteFeatures:
    """Open a complete store at an address; only its lists are read yet.

    Args:
        root: of all stores there.
        key: what the features must be of.
        ids: pictures it must hold, in order.
        cache: folder of the stores of this machine, which keeps shards too.
        most_gb: of the shards of this store.
    Raises:
        MissingError: no such store, or it does not answer.
        CheckpointError: of another key or other pictures, incomplete, without checksums, or damaged.
    """
    at, folder = root / key.folder, cache / f"{key.folder}.shards"
    folder.mkdir(parents=True, exist_ok=True)
    for name in (KEY, IDS, DONE, SUMS):
        try:
            write_bytes(folder / name, read_bytes(at / name))
        except FileNotFoundError:
            raise MissingError(
                f"{at / name}: not there; extract the features on a disk, then copy their folder"
                f" {key.folder} to {root}"
            ) from None
    held, shape = read_store(folder, key, ids)
    sums = np.fromfile(folder / SUMS, "<u8")
    if len(sums) != len(held):
        raise CheckpointError(
            f"{at}: checksums of {counted(len(sums), 'row')}, expected {len(held)}; copy the store again"
        )
    empty = np.broadcast_to(np.float16(0), (len(held), *shape))
    made = RemoteFeatures(Features(key, held, empty, sums), at, folder, int(most_gb * 1e9))
    size_gb = len(held) * 2 * int(np.prod(shape)) / 1e9
    if size_gb > most_gb:
        warnings.warn(
            f"{at}: {size_gb:.1f} GB, of which data.features_cache_gb keeps {most_gb:g}; shards are fetched"
            " again within every epoch; raise it where the disk has room",
            LimnerWarning,
            stacklevel=2,
        )
    return made
