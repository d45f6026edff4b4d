"""Uploaded pictures, stored in the library's folder; each batch has a folder of its own.

Undoing an upload moves its folder to the trash. File names from outside are reduced to safe ones, so that
none can lead out of the folder; files are opened as pictures before they are stored.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import shutil
import threading
import unicodedata
from collections.abc import Container
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from limner.config import Record
from limner.errors import DataError
from limner.files import DRAFT_SUFFIX, sync_folder, write_bytes
from limner.pictures.decode import PICTURE_SUFFIXES, PictureError, decode
from limner.store import Store

PICTURES, TRASH = "uploads", "trash"
KNOWN = ".known"
"""File of a batch with the ids of its pictures that were in the library before, one a line."""
FILE_BYTES = 128 * 2**20
BATCH_FILES, BATCH_BYTES = 10_000, 40 * 2**30
SPARE_BYTES = 2**30
"""Disk space that must stay free."""
LISTED = 2_000
_BATCH = re.compile(r"\d{8}-\d{6}-[0-9a-f]{6}")
_MOST_PARTS, _MOST_BYTES = 6, 120
_CHECKED_PX = 64
_DEVICES = re.compile(r"(?i)(con|prn|aux|nul|com\d|lpt\d)(\.|$)")


class UploadedFile(Record):
    """Result of uploading a file.

    Attributes:
        picture: id of its content.
        name: its name in the library; "" if the picture was there before.
        state: stored, or already in the library and so not stored again.
    """

    picture: str
    name: str
    state: Literal["kept", "known"]


class UploadBatch(Record):
    """Pictures that were uploaded together.

    Attributes:
        batch: its id.
        brought_at: time of the upload, UTC.
        files: number of files that were stored.
        named: folder of the batch, and paths of its pictures that were in the library before; as `named` in
            storyboard options, they are the pictures of a text.
    """

    batch: str
    brought_at: datetime
    files: int
    named: tuple[str, ...]


class UnknownBatchError(DataError):
    """No such batch.

    Args:
        batch: the id as given.
    """

    def __init__(self, batch: str) -> None:
        super().__init__(f"no batch {batch[:40]!r} of pictures; it was undone, or contains none")


@dataclass
class _Open:
    """An upload batch to which files are still added.

    Attributes:
        digests: ids of its pictures, stored or known.
        files, size: number and size of the stored ones.
    """

    digests: set[str] = field(default_factory=set)
    files: int = 0
    size: int = 0


class Uploads:
    """The uploaded pictures of one library."""

    def __init__(self, library: Path) -> None:
        """Use the library's folders; they are created when needed.

        Args:
            library: folder of the library.
        """
        self.folder, self.trash = library / PICTURES, library / TRASH
        self._open: dict[str, _Open] = {}
        self._lock = threading.Lock()
        self._room = threading.BoundedSemaphore(os.cpu_count() or 1)  # each contains a picture

    def begin(self) -> str:
        """Start a new batch; returns its id."""
        batch = f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(3)}"
        self._open[batch] = _Open()
        return batch

    def add(self, batch: str, name: str, data: bytes, known: Container[str]) -> UploadedFile:
        """Store a picture, unless the library already has it.

        Args:
            batch: id of its batch.
            name: name of the file, with the folders in which it was chosen; unsafe parts are removed.
            data: content of the file.
            known: ids of the library's pictures, which the batch only lists.
        Raises:
            UnknownBatchError: the batch was undone, or does not exist.
            DataError: it is not a picture, or it exceeds a limit.
        """
        held, parts = self._held(batch), safe_parts(name)
        if len(data) > FILE_BYTES:
            raise DataError(f"{parts[-1]}: {len(data):,} bytes; at most {FILE_BYTES:,} can be uploaded")
        suffix = Path(parts[-1]).suffix.lower()
        if os.fsencode(suffix) not in PICTURE_SUFFIXES:
            raise DataError(f"{parts[-1]}: not the name of a picture; expected for example {parts[-1]}.jpg")
        try:
            with self._room:
                decode(data, _CHECKED_PX, suffix)
        except PictureError as error:
            raise DataError(f"{parts[-1]}: {error}") from error
        digest = hashlib.sha256(data).hexdigest()
        with self._lock:
            if digest in held.digests or digest in known:
                if digest not in held.digests:
                    self._list(batch, digest)
                    held.digests.add(digest)
                return UploadedFile(picture=digest, name="", state="known")
            self._check_room(held, len(data))
            target = _free(self.folder.joinpath(batch, *parts))
            target.parent.mkdir(parents=True, exist_ok=True)
            write_bytes(target, data)
            held.digests.add(digest)
            held.files += 1
            held.size += len(data)
        return UploadedFile(picture=digest, name=target.name, state="kept")

    def place(self, batch: str) -> Path:
        """Folder of a batch that contains or lists pictures.

        Raises:
            UnknownBatchError: it has no picture, or does not exist.
        """
        place = self.folder / batch
        if not _BATCH.fullmatch(batch) or not place.is_dir():
            raise UnknownBatchError(batch)
        return place

    def listed(self, library: Store) -> list[UploadBatch]:
        """All batches, latest first.

        Args:
            library: the library.
        """
        if not self.folder.is_dir():
            return []
        names = sorted(
            (one.name for one in self.folder.iterdir() if _BATCH.fullmatch(one.name)), reverse=True
        )
        return [
            UploadBatch(
                batch=name,
                brought_at=datetime.strptime(name[:15], "%Y%m%d-%H%M%S").replace(tzinfo=UTC),
                files=len(self._stored(name)),
                named=(str((self.folder / name).absolute()), *self._paths(name, library)),
            )
            for name in names
        ]

    def discard(self, batch: str) -> None:
        """Move a batch to the trash; nothing is deleted.

        Raises:
            UnknownBatchError: the batch does not exist.
        """
        place = self.place(batch)
        self.trash.mkdir(exist_ok=True)
        shutil.move(place, self.trash / f"{batch}-{secrets.token_hex(2)}")
        self._open.pop(batch, None)
        sync_folder(self.folder)

    def _held(self, batch: str) -> _Open:
        """A batch to which files can be added, even if it was started before the studio was restarted.

        Raises:
            UnknownBatchError: it was undone, contains no picture yet, or does not exist.
        """
        with self._lock:
            if batch not in self._open:
                self.place(batch)
                stored = self._stored(batch)
                digests = {hashlib.sha256(one.read_bytes()).hexdigest() for one in stored}
                size = sum(one.stat().st_size for one in stored)
                self._open[batch] = _Open({*digests, *self._known(batch)}, len(stored), size)
            return self._open[batch]

    def _stored(self, batch: str) -> list[Path]:
        """Pictures in the folder of a batch."""
        files = [one for one in (self.folder / batch).rglob("*") if one.is_file()]
        return [one for one in files if one.name != KNOWN and not one.name.endswith(DRAFT_SUFFIX)]

    def _known(self, batch: str) -> list[str]:
        """Ids of the pictures of a batch that were in the library before."""
        file = self.folder / batch / KNOWN
        return file.read_text(encoding="utf-8").split() if file.exists() else []

    def _paths(self, batch: str, library: Store) -> list[str]:
        """Paths of the pictures of a batch that were in the library before, and are still."""
        known = [one for one in self._known(batch) if one in library]
        return [picture.path for picture in library.pictures(known)]

    def _list(self, batch: str, digest: str) -> None:
        """Add a picture of the library to a batch."""
        place = self.folder / batch
        place.mkdir(parents=True, exist_ok=True)
        with (place / KNOWN).open("a", encoding="utf-8") as file:
            file.write(f"{digest}\n")

    def _check_room(self, held: _Open, size: int) -> None:
        if held.files >= BATCH_FILES or held.size + size > BATCH_BYTES:
            raise DataError(
                f"more than {BATCH_FILES:,} files or {BATCH_BYTES // 2**30} GB at a time;"
                " add the folder instead; its pictures then stay where they are"
            )
        self.folder.mkdir(exist_ok=True)
        free = shutil.disk_usage(self.folder).free
        if free - size < SPARE_BYTES:
            raise DataError(f"{self.folder}: {free // 2**20:,} MB of disk space left; free some space first")


def safe_parts(name: str) -> list[str]:
    r"""Convert a name from outside into names of folders and a file that every system accepts.

    Args:
        name: parts separated by ``/`` or ``\``; if there are too many, only the last are used.
    Raises:
        DataError: no part of it can be used as a name.
    """
    parts = [_safe(part) for part in re.split(r"[/\\]", name)]
    kept = [part for part in parts if part][-_MOST_PARTS:]
    if not kept or not parts[-1]:
        raise DataError(f"{name[:80]!r}: not the name of a file")
    return kept


def _safe(part: str) -> str:
    """Letters, digits, spaces and some other characters of a name; "" if none are left."""
    part = unicodedata.normalize("NFC", part)
    kept = "".join(one if one.isalnum() or one in " -_.,()&+'’" else "_" for one in part).strip(" .")
    kept = f"_{kept}" if _DEVICES.match(kept) else kept
    stem, dot, suffix = kept.rpartition(".")
    while len(kept.encode("utf-8", "replace")) > _MOST_BYTES and kept:
        stem, kept = (
            (stem[:-1], f"{stem[:-1]}{dot}{suffix}") if stem and len(suffix) < 10 else ("", kept[:-1])
        )
    return kept if kept.strip("_.- ") else ""


def _free(target: Path) -> Path:
    """A free path: the target, or the target with a number added to its name."""
    number, found = 1, target
    while found.exists():
        number += 1
        found = target.with_name(f"{target.stem} ({number}){target.suffix}")
    return found


class Folder(Record):
    """A folder of this machine, in a list to choose from.

    Attributes:
        name: of the folder.
        path: absolute path.
    """

    name: str
    path: str


class FolderList(Folder):
    """A folder and its subfolders.

    Attributes:
        parent: path of its parent folder; None for the root.
        folders: its subfolders by name, without hidden ones; 2,000 at most.
        pictures: number of files in it with the extension of a picture.
    """

    parent: str | None
    folders: tuple[Folder, ...]
    pictures: int


def list_folder(path: str = "") -> FolderList:
    """List the subfolders of a folder of this machine.

    Args:
        path: absolute path; "" for the user's home folder.
    Raises:
        DataError: it does not exist, or cannot be listed.
    """
    try:
        place = Path(path).expanduser() if path else Path.home()
    except RuntimeError as error:  # such as ~nobody
        raise DataError(f"{path[:200]!r}: no such user; give an absolute path") from error
    if "\0" in path or not place.is_absolute():
        raise DataError(f"{path[:200]!r}: not an absolute path; give one, or one from ~")
    place = Path(os.path.normpath(place))
    folders, pictures = [], 0
    try:
        with os.scandir(place) as entries:
            for entry in entries:
                if entry.name.startswith("."):
                    continue
                if entry.is_dir():
                    folders.append(entry.name)
                else:
                    pictures += os.fsencode(Path(entry.name).suffix.lower()) in PICTURE_SUFFIXES
    except FileNotFoundError as error:
        raise DataError(f"{place}: no such folder; check its spelling") from error
    except OSError as error:
        raise DataError(f"{place}: cannot be listed ({error.strerror}); choose another folder") from error
    named = sorted(folders, key=lambda name: (name.casefold(), name))[:LISTED]
    return FolderList(
        name=_shown(place.name or str(place)),
        path=_shown(str(place)),
        parent=None if place.parent == place else _shown(str(place.parent)),
        folders=tuple(
            Folder(name=_shown(name), path=_shown(str(place / name)))
            for name in named
            if _shown(name) == name
        ),
        pictures=pictures,
    )


def _shown(name: str) -> str:
    """Text that JSON can represent; undecodable bytes of a name are escaped."""
    return name.encode("utf-8", "backslashreplace").decode()
