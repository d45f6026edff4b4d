"""Feature stores on object storage. Shards are downloaded on demand and cached on disk.

Create a store on a local disk (`limner.research.datasets.features`), then upload its folder with any tool.
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
_OPEN = 64  # most shards that a process keeps open


class RemoteFeatures(Features):
    """A complete remote store; rows are downloaded in shards of about 8 MB.

    Shards are cached in a folder that the processes of a machine share. The least recently used are deleted
    when the cache exceeds its limit. The checksum of every row is verified when its shard is opened.
    """

    def __init__(self, plain: Features, at: Location, folder: Path, most_bytes: int) -> None:
        """Wrap metadata that is already read; use `open_remote` instead.

        Args:
            plain: key, pictures and checksums; no rows.
            at: location of the store.
            folder: cache of shards; created if missing.
            most_bytes: limit of the cache.
        """
        super().__init__(plain.key, plain.ids, plain.stored, plain.sums)
        self._at, self._folder, self._most_bytes = at, folder, most_bytes
        self._shape = plain.stored.shape[1:]
        self._row_bytes = 2 * int(np.prod(self._shape))
        self._rows = max(1, SHARD_BYTES // self._row_bytes)
        self._open: OrderedDict[int, NDArray[np.float16]] = OrderedDict()

    def take(self, places: NDArray[np.int64]) -> Floats:
        """Copies of the rows at B indices, (B, …) float32.

        Raises:
            CheckpointError: a row of the remote store is corrupt; the message names its picture.
            MissingError: the store cannot be reached.
        """
        out = np.empty((len(places), *self._shape), np.float32)
        shards = places // self._rows
        for number in np.unique(shards).tolist():
            some = shards == number
            out[some] = self._shard(number)[places[some] - number * self._rows]
        return out

    def damaged(self, places: NDArray[np.int64]) -> list[int]:
        """Always empty: `take` raises an error for a corrupt row."""
        del places
        return []

    def _shard(self, number: int) -> NDArray[np.float16]:
        """Rows of a shard, from memory, the disk cache or the remote store."""
        if number not in self._open:
            rows = slice(number * self._rows, min((number + 1) * self._rows, len(self.ids)))
            file = self._folder / f"{number}.f16"
            shard = self._cached(file, rows)
            if shard is None:
                self._fetch(file, rows)
                shard = self._cached(file, rows)
            if shard is None:
                raise CheckpointError(
                    f"{file}: corrupt right after it was written; check the disk that holds this cache"
                )
            self._open[number] = shard
            while len(self._open) > _OPEN:
                self._open.popitem(last=False)
        self._open.move_to_end(number)
        return self._open[number]

    def _cached(self, file: Path, rows: slice) -> NDArray[np.float16] | None:
        """A cached shard, or None if it is missing or, with a warning, corrupt."""
        shape = (rows.stop - rows.start, *self._shape)
        try:
            shard = np.memmap(file, "<f2", "r", shape=shape)
            file.touch()  # mark as recently used
        except (OSError, ValueError):
            return None
        if self._wrong(np.asarray(shard), rows) is None:
            return shard
        warnings.warn(f"{file}: corrupt; downloaded again from {self._at}", LimnerWarning, stacklevel=2)
        return None

    def _wrong(self, shard: NDArray[np.float16], rows: slice) -> int | None:
        """Index in the shard of the first row with a wrong checksum, or None."""
        sums = self.sums[rows]
        return next((index for index, row in enumerate(shard) if rows_checksum(row) != sums[index]), None)

    def _fetch(self, file: Path, rows: slice) -> None:
        at = self._at / ROWS
        size = (rows.stop - rows.start) * self._row_bytes
        with reaching(at), file_system(at).open_input_file(at.path) as stream:
            data = bytes(stream.read_at(size, rows.start * self._row_bytes))
        if len(data) != size:
            raise CheckpointError(
                f"{at}: {len(data):,} bytes from {rows.start * self._row_bytes:,} on; expected {size:,}: the"
                " file or the download is cut short; try again, or upload the store again"
            )
        wrong = self._wrong(np.frombuffer(data, "<f2").reshape(-1, *self._shape), rows)
        if wrong is not None:
            raise CheckpointError(
                f"{self._at}: the features of picture {self.ids[rows.start + wrong]!r} are corrupt;"
                " upload the store again"
            )
        self._folder.mkdir(parents=True, exist_ok=True)
        write_bytes(file, data)
        self._make_room(file)

    def _make_room(self, newest: Path) -> None:
        """Delete the least recently used shards; processes that have one open can still read it."""
        shards = []
        for path in self._folder.glob("*.f16"):
            with suppress(OSError):  # another process removed it
                shards.append((path.stat().st_mtime_ns, path.stat().st_size, path))
        left = sum(size for _, size, _ in shards)
        for _, size, path in sorted(shards):
            if left <= self._most_bytes:
                break
            if path != newest:
                with suppress(OSError):
                    path.unlink()
                left -= size


def open_remote(
    root: Location, key: FeatureKey, ids: Sequence[str], cache: Path, *, most_gb: float
) -> RemoteFeatures:
    """Open a complete remote store. Only its metadata is read; rows are read on demand.

    Args:
        root: location that holds all remote stores.
        key: expected data set and encoder.
        ids: expected ids of pictures, in order.
        cache: local folder of feature stores and of cached shards.
        most_gb: limit of the cached shards of this store.
    Raises:
        MissingError: the store does not exist, or cannot be reached.
        CheckpointError: the store has another key or other pictures, is incomplete, or has no checksums.
    """
    at, folder = root / key.folder, cache / f"{key.folder}.shards"
    folder.mkdir(parents=True, exist_ok=True)
    for name in (KEY, IDS, DONE, SUMS):
        try:
            write_bytes(folder / name, read_bytes(at / name))
        except FileNotFoundError:
            raise MissingError(
                f"{at / name}: does not exist; extract the features on a disk, then upload their folder"
                f" {key.folder} to {root}"
            ) from None
    stored, shape = read_store(folder, key, ids)
    sums = np.fromfile(folder / SUMS, "<u8")
    if len(sums) != len(stored):
        raise CheckpointError(
            f"{at}: checksums of {counted(len(sums), 'row')}, expected {len(stored)}; upload the store again"
        )
    empty = np.broadcast_to(np.float16(0), (len(stored), *shape))
    features = RemoteFeatures(Features(key, stored, empty, sums), at, folder, int(most_gb * 1e9))
    size_gb = len(stored) * 2 * int(np.prod(shape)) / 1e9
    if size_gb > most_gb:
        warnings.warn(
            f"{at}: {size_gb:.1f} GB, more than the cache limit data.features_cache_gb={most_gb:g}; shards"
            " are downloaded again in every epoch; raise the limit if the disk has room",
            LimnerWarning,
            stacklevel=2,
        )
    return features
