"""Checks the pictures of a data set before any work starts.

Pairs whose picture is missing or broken are left out, counted and listed. Results are cached in an SQLite
file (the manifest) in the folder of feature stores, so that each file is decoded once per change; the
manifest can be deleted at any time.
"""

import hashlib
import os
import sqlite3
import time
import warnings
from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Literal, NamedTuple, Self

from limner.checksums import checksum
from limner.errors import DataError, LimnerWarning, counted
from limner.files import below
from limner.pictures.decode import PictureError, decode
from limner.research.datasets.folders import walk, whereabouts
from limner.research.datasets.pairs import MissingPicture, Pair, PairSet, Source

MANIFEST = "pictures.sqlite"
_PROBE_PX = 32
_WRITTEN_TOGETHER = 256  # at most this many files are read again after a crash
_SETTLED_NS = (
    2_000_000_000  # time resolution of the coarsest file systems: a newer file could change again unnoticed
)
_TABLE = """pictures (path BLOB PRIMARY KEY, size INTEGER, mtime_ns INTEGER, sha256 TEXT, checksum TEXT)
WITHOUT ROWID"""


class Looked(NamedTuple):
    """Result of checking a picture file.

    Attributes:
        sha256: SHA-256 of its bytes, 64 hex digits.
        fault: description of the error; "" if the file can be decoded.
    """

    sha256: str
    fault: str


def picture_fault(data: bytes) -> str:
    """Describe the error in a picture's bytes; "" if they can be decoded."""
    if not data:
        return "empty file"
    try:
        decode(data, _PROBE_PX)
    except PictureError as error:
        return " ".join(str(error).split())
    return ""


class PictureHashes:
    """Cached hashes of picture files, by path, size and time; a context manager that saves on exit.

    Only files that can be decoded are cached, because a decoder installed later may read the others.
    """

    def __init__(self, folder: Path | None) -> None:
        """Open the manifest of a folder; both are created when there is something to save.

        Args:
            folder: folder of the manifest; None disables the cache.
        Raises:
            DataError: the file is not a manifest.
        """
        self._new: list[tuple[bytes, int, int, str]] = []
        self._file = None if folder is None else folder / MANIFEST
        self._store: sqlite3.Connection | None = None
        if self._file is not None and self._file.exists():
            self._open(self._file)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._write()
        finally:
            if self._store is not None:
                self._store.close()

    def look(self, path: Path) -> Looked:
        """Check a file; it is read only if its size or time differs from the cached one.

        Raises:
            OSError: the file cannot be read.
            DataError: the manifest cannot be read or written.
        """
        key, status = os.fsencode(path), path.stat()
        known = self._known(key)
        if known is not None and known[:2] == (status.st_size, status.st_mtime_ns):
            return Looked(known[2], "")
        with path.open("rb") as file:
            status = os.fstat(file.fileno())
            data = file.read()
        result = Looked(hashlib.sha256(data).hexdigest(), picture_fault(data))
        if self._file is not None and not result.fault and time.time_ns() - status.st_mtime_ns > _SETTLED_NS:
            self._new.append((key, len(data), status.st_mtime_ns, result.sha256))
            if len(self._new) >= _WRITTEN_TOGETHER:
                self._write()
        return result

    def _known(self, key: bytes) -> tuple[int, int, str] | None:
        """Cached size, time and hash."""
        if self._store is None:
            return None
        try:
            row = self._store.execute("SELECT * FROM pictures WHERE path = ?", (key,)).fetchone()
        except (sqlite3.Error, UnicodeDecodeError) as error:
            raise self._refusal(error) from error
        if row is None:
            return None
        if row[4] != _sum(row[:4]):
            warnings.warn(
                f"{self._file}: the entry of {os.fsdecode(key)} is damaged; the picture is read again",
                LimnerWarning,
                stacklevel=2,
            )
            return None
        entry: tuple[int, int, str] = row[1:4]
        return entry

    def _write(self) -> None:
        """Save new entries."""
        if self._file is None or not self._new:
            return
        store = self._store or self._open(self._file)
        try:
            with store:
                rows = [(*row, _sum(row)) for row in self._new]
                store.executemany("REPLACE INTO pictures VALUES (?, ?, ?, ?, ?)", rows)
        except (sqlite3.Error, UnicodeDecodeError) as error:
            raise self._refusal(error) from error
        self._new.clear()

    def _open(self, file: Path) -> sqlite3.Connection:
        """Open the file, creating it if missing."""
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            self._store = sqlite3.connect(file, timeout=60)
            self._store.execute(f"CREATE TABLE IF NOT EXISTS {_TABLE}")
        except (sqlite3.Error, UnicodeDecodeError, OSError) as error:
            raise self._refusal(error) from error
        return self._store

    def _refusal(self, error: Exception) -> DataError:
        return DataError(
            f"{self._file}: cannot be used as a manifest ({error}); remove it, or free disk space"
        )


def _sum(row: tuple[bytes, int, int, str]) -> str:
    return checksum(repr(row).encode())


Named = Literal["path", "name", "stem"]


def pair_set(
    name: str,
    pairs: Iterable[Pair],
    source: Source,
    *,
    relations: tuple[str, ...] = (),
    files: Mapping[str, str] | None = None,
    named: Named = "name",
    counted: Mapping[str, int] = MappingProxyType({}),
) -> PairSet:
    """Build a set from the pairs that a reader found, and check its pictures with `with_pictures`.

    Args:
        name: name of the set.
        pairs: pairs in file order.
        source: the reader's source.
        relations: names in the order of the labels.
        files: see `with_pictures`.
        named: see `with_pictures`.
        counted: kind of correction or omission → how often it occurred, for the notes.
    """
    notes = tuple(f"{name}: {what}: {number:,}" for what, number in counted.items() if number)
    return with_pictures(PairSet(name, relations, tuple(pairs), notes=notes), source, files, named)


def with_pictures(
    data: PairSet, source: Source, files: Mapping[str, str] | None = None, named: Named = "path"
) -> PairSet:
    """Check the pictures of a set: fill in path and hash, and move pairs with bad pictures to `missing`.

    Published sets often unpack into subfolders, such as one per split. A picture that is not at its stated
    path is therefore searched for in all subfolders.

    Args:
        data: the set, with `image` as its files name it.
        source: location of the pictures; without one the set is returned unchanged, for its texts.
        files: `image` → file name below the folder; None if they are equal.
        named: how files are found: by "path" only, by "name" in any subfolder, or by "stem" with any suffix
            in any subfolder.
    Raises:
        DataError: the folder does not exist, a name points outside it, or too many or all pictures are
            missing.
    """
    if source.pictures is None:
        return data
    root = source.pictures.resolve()
    if not root.is_dir():
        raise DataError(
            f"{data.name}: {root} is not a folder; give the folder of the pictures, or None for only the"
            " texts"
        )
    images = dict.fromkeys(pair.image for pair in data.pairs)
    names = {image: image if files is None else files.get(image, "") for image in images}
    below_root = cache(partial(_by_name, root, named))
    if not source.opened:
        lacking = {
            image: file
            for image, file in names.items()
            if not file or not _places(data.name, root, file, below_root)
        }
        return replace(data, notes=(*data.notes, _presence(data, root, lacking)))
    with PictureHashes(source.manifest) as manifest:
        looked = {
            image: _look(data.name, root, name, below_root, manifest.look) for image, name in names.items()
        }
    complete: list[Pair] = []
    absent: list[MissingPicture] = []
    for pair in data.pairs:
        path, digest, reason = looked[pair.image]
        if reason:
            file = pair.image if named == "path" else names[pair.image] or pair.image
            absent.append(MissingPicture(id=pair.id, image=file, reason=reason))
        else:
            complete.append(pair.model_copy(update={"image": path, "image_hash": digest}))
    share = len(absent) / max(1, len(data.pairs))
    if (source.missing == "abort" and share > source.max_missing) or (absent and not complete):
        seen = sum(map(len, below_root().values()))
        places = "" if named == "path" else f" (looked among {counted(seen, 'file')} in {root} and below)"
        # With paths the root may be a whole disk, so describe only the folder of the first missing file.
        around = (root / names[absent[0].image]).parent if named == "path" else root
        raise DataError(
            f"{data.name}: {len(absent)} of {counted(len(data.pairs), 'pair')} lack their picture "
            f"({share:.1%}, allowed {source.max_missing:.1%}), first {absent[0].image!r}: "
            f"{absent[0].reason}{places}; {_by_split(data.pairs, {missing.id for missing in absent})}"
            f"{whereabouts(around)}; download them, pass --missing drop"
            " (for limner train --set data.missing=drop), or read only the texts"
        )
    reasons = Counter(missing.reason for missing in absent)
    notes = tuple(
        f"{data.name}: {counted(number, 'pair')} left out: {reason}" for reason, number in reasons.items()
    )
    return replace(
        data, pairs=tuple(complete), missing=data.missing + tuple(absent), notes=data.notes + notes
    )


def _presence(data: PairSet, root: Path, lacking: Mapping[str, str]) -> str:
    """A note that says whether all picture files exist; `lacking` maps missing images to file names."""
    absent = [pair for pair in data.pairs if pair.image in lacking]
    total, gone = len({pair.image for pair in data.pairs}), len({pair.image for pair in absent})
    if not absent:
        return f"{data.name}: all {total:,} picture files exist in {root}; they were not opened"
    first = lacking[absent[0].image] or absent[0].image
    return (
        f"{data.name}: {gone:,} of {total:,} pictures are not in {root} or below, first {first!r};"
        f" {_by_split(data.pairs, {pair.id for pair in absent})}{whereabouts(root)}"
    )


def _by_split(pairs: Sequence[Pair], absent: Container[str]) -> str:
    """Clause with the numbers of pairs without a picture per split; "" if the shares are equal."""
    total = Counter(pair.split for pair in pairs)
    gone = Counter(pair.split for pair in pairs if pair.id in absent)
    if len(total) < 2 or len({gone[split] / total[split] for split in total}) < 2:
        return ""
    return "by split: " + ", ".join(f"{split} {gone[split]:,} of {total[split]:,}" for split in total) + "; "


def _by_name(root: Path, named: Named) -> dict[str, list[Path]]:
    """File name (or stem) → paths below the folder; empty if files are found by path."""
    paths: dict[str, list[Path]] = {}
    if named == "path":
        return paths
    for folder, names in walk(root):
        for name in names:
            key = Path(name).stem if named == "stem" else name
            paths.setdefault(key, []).append(folder / name)
    return paths


def _places(
    name: str, root: Path, file: str, below_root: Callable[[], Mapping[str, Sequence[Path]]]
) -> Sequence[Path]:
    """Paths of a picture: its stated path, or else all of that name in subfolders."""
    path = below(root, file, name)
    return [path] if path.is_file() else below_root().get(Path(file).name, [])


def _look(
    name: str,
    root: Path,
    file: str,
    below_root: Callable[[], Mapping[str, Sequence[Path]]],
    look: Callable[[Path], Looked],
) -> tuple[str, str, str]:
    """Path, hash and error of one picture."""
    if not file:
        return "", "", "no file name is known for it"
    try:
        results = {path: look(path) for path in _places(name, root, file, below_root)}
    except OSError as error:
        return "", "", f"cannot be read: {error.strerror}"
    if not results:
        return "", "", "no such file"
    if len({result.sha256 for result in results.values()}) > 1:
        return "", "", f"{counted(len(results), 'different file')} of that name"
    path, (digest, fault) = next(iter(results.items()))
    return str(path), digest, fault
