"""Check which pictures of a data set exist, with the errors of the others.

Every picture is opened before any work starts, once per change of its file. A pair whose picture is missing
or broken is left out, counted and listed, never given another picture. What earlier runs found out about a
file is kept in one SQLite file in the folder of the feature stores; it may be removed at any time, and is
then made anew.
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
_WRITTEN_TOGETHER = 256  # the most that a kill makes the next run read again
_SETTLED_NS = 2_000_000_000  # the coarsest clock of a file system: a younger file may change unnoticed
_TABLE = """pictures (path BLOB PRIMARY KEY, size INTEGER, mtime_ns INTEGER, sha256 TEXT, checksum TEXT)
WITHOUT ROWID"""


class Looked(NamedTuple):
    """What a picture file holds.

    Attributes:
        sha256: of its bytes, 64 hex digits.
        fault: what is wrong with it; "" when it decodes to the end.
    """

    sha256: str
    fault: str


def picture_fault(data: bytes) -> str:
    """What is wrong with the bytes of a picture; "" when they decode to the end."""
    if not data:
        return "empty file"
    try:
        decode(data, _PROBE_PX)
    except PictureError as error:
        return " ".join(str(error).split())
    return ""


class PictureHashes:
    """Hashes of picture files by path, size and time of change; a context, at whose end all is written.

    Only files that decode are kept: a faulty one is looked at again each time, since a decoder that is
    installed later may read it.
    """

    def __init__(self, folder: Path | None) -> None:
        """Open the manifest of a folder; both are made once there is something to keep.

        Args:
            folder: None remembers nothing.
        Raises:
            DataError: the file is no manifest.
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
        """Hash and fault of a file; it is read unless size and time are those of an earlier look.

        Raises:
            OSError: it cannot be read.
            DataError: the manifest cannot be read or written.
        """
        key, status = os.fsencode(path), path.stat()
        known = self._known(key)
        if known is not None and known[:2] == (status.st_size, status.st_mtime_ns):
            return Looked(known[2], "")
        with path.open("rb") as file:
            status = os.fstat(file.fileno())
            data = file.read()
        found = Looked(hashlib.sha256(data).hexdigest(), picture_fault(data))
        if self._file is not None and not found.fault and time.time_ns() - status.st_mtime_ns > _SETTLED_NS:
            self._new.append((key, len(data), status.st_mtime_ns, found.sha256))
            if len(self._new) >= _WRITTEN_TOGETHER:
                self._write()
        return found

    def _known(self, key: bytes) -> tuple[int, int, str] | None:
        """Size, time and hash as last written."""
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
        found: tuple[int, int, str] = row[1:4]
        return found

    def _write(self) -> None:
        """Put what is new into the file."""
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
        """The file, made if absent."""
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            self._store = sqlite3.connect(file, timeout=60)
            self._store.execute(f"CREATE TABLE IF NOT EXISTS {_TABLE}")
        except (sqlite3.Error, UnicodeDecodeError, OSError) as error:
            raise self._refusal(error) from error
        return self._store

    def _refusal(self, error: Exception) -> DataError:
        return DataError(f"{self._file}: not a manifest that can be used ({error}); remove it, or free space")


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
    """Set of pairs from a reader's result: see `with_pictures`.

    Args:
        name: name of the set.
        pairs: in file order.
        source: as the reader got it.
        relations: names in the order of the labels.
        files: see `with_pictures`.
        named: see `with_pictures`.
        counted: what was left out or put right → how often, for the notes.
    """
    notes = tuple(f"{name}: {what}: {number:,}" for what, number in counted.items() if number)
    return with_pictures(PairSet(name, relations, tuple(pairs), notes=notes), source, files, named)


def with_pictures(
    data: PairSet, source: Source, files: Mapping[str, str] | None = None, named: Named = "path"
) -> PairSet:
    """The pairs whose pictures are there and open, with path and hash; the others are listed in `missing`.

    Published sets name files and unpack into folders of their own, such as one a split: a picture that does
    not lie where it is named is looked for in all folders below.

    Args:
        data: `image` as the set names it.
        source: where its pictures lie; without them the set stays as it is, for its texts alone.
        files: `image` → file name below the folder; None if they are the same.
        named: by its "path", which is not looked for elsewhere, by "name", or by "stem", for any suffix.
    Raises:
        DataError: the folder is not there, a name leads out of it, too many pictures are missing, or all are.
    """
    if source.pictures is None:
        return data
    root = source.pictures.resolve()
    if not root.is_dir():
        raise DataError(
            f"{data.name}: {root} is not a folder; give that of the pictures, or None for texts alone"
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
    kept: list[Pair] = []
    absent: list[MissingPicture] = []
    for pair in data.pairs:
        path, digest, reason = looked[pair.image]
        if reason:
            file = pair.image if named == "path" else names[pair.image] or pair.image
            absent.append(MissingPicture(id=pair.id, image=file, reason=reason))
        else:
            kept.append(pair.model_copy(update={"image": path, "image_hash": digest}))
    share = len(absent) / max(1, len(data.pairs))
    if (source.missing == "abort" and share > source.max_missing) or (absent and not kept):
        seen = sum(map(len, below_root().values()))
        places = "" if named == "path" else f" (looked among {counted(seen, 'file')} in {root} and below)"
        # Paths may lead anywhere, so that what lies below their root may be all of a disk.
        around = (root / names[absent[0].image]).parent if named == "path" else root
        raise DataError(
            f"{data.name}: {len(absent)} of {counted(len(data.pairs), 'pair')} lack their picture "
            f"({share:.1%}, allowed {source.max_missing:.1%}), first {absent[0].image!r}: "
            f"{absent[0].reason}{places}; {_by_split(data.pairs, {one.id for one in absent})}"
            f"{whereabouts(around)}; fetch them, pass --missing drop"
            " (to limner train --set data.missing=drop), or read the texts alone"
        )
    reasons = Counter(one.reason for one in absent)
    notes = tuple(
        f"{data.name}: {counted(number, 'pair')} left out: {reason}" for reason, number in reasons.items()
    )
    return replace(data, pairs=tuple(kept), missing=data.missing + tuple(absent), notes=data.notes + notes)


def _presence(data: PairSet, root: Path, lacking: Mapping[str, str]) -> str:
    """Note on the existing pictures, by name, and the names of the missing ones by image."""
    absent = [pair for pair in data.pairs if pair.image in lacking]
    total, gone = len({pair.image for pair in data.pairs}), len({pair.image for pair in absent})
    if not absent:
        return f"{data.name}: all {total:,} pictures are there by their names in {root}; none was opened"
    first = lacking[absent[0].image] or absent[0].image
    return (
        f"{data.name}: {gone:,} of {total:,} pictures are not in {root} or below, first {first!r};"
        f" {_by_split(data.pairs, {pair.id for pair in absent})}{whereabouts(root)}"
    )


def _by_split(pairs: Sequence[Pair], absent: Container[str]) -> str:
    """End of a clause: the numbers of pairs without a picture by split, if the shares differ."""
    total = Counter(pair.split for pair in pairs)
    gone = Counter(pair.split for pair in pairs if pair.id in absent)
    if len(total) < 2 or len({gone[split] / total[split] for split in total}) < 2:
        return ""
    return "by split: " + ", ".join(f"{split} {gone[split]:,} of {total[split]:,}" for split in total) + "; "


def _by_name(root: Path, named: Named) -> dict[str, list[Path]]:
    """Name → where files of that name lie; nothing where paths are named."""
    found: dict[str, list[Path]] = {}
    if named == "path":
        return found
    for folder, names in walk(root):
        for name in names:
            key = Path(name).stem if named == "stem" else name
            found.setdefault(key, []).append(folder / name)
    return found


def _places(
    name: str, root: Path, file: str, below_root: Callable[[], Mapping[str, Sequence[Path]]]
) -> Sequence[Path]:
    """Find a picture at its stated path, or else in any subfolder."""
    path = below(root, file, name)
    return [path] if path.is_file() else below_root().get(Path(file).name, [])


def _look(
    name: str,
    root: Path,
    file: str,
    below_root: Callable[[], Mapping[str, Sequence[Path]]],
    look: Callable[[Path], Looked],
) -> tuple[str, str, str]:
    """Path, hash and fault of one picture."""
    if not file:
        return "", "", "no file name is known for it"
    try:
        found = {path: look(path) for path in _places(name, root, file, below_root)}
    except OSError as error:
        return "", "", f"cannot be read: {error.strerror}"
    if not found:
        return "", "", "no such file"
    if len({one.sha256 for one in found.values()}) > 1:
        return "", "", f"{counted(len(found), 'different file')} of that name"
    path, (digest, fault) = next(iter(found.items()))
    return str(path), digest, fault
