"""What detectors found in the pictures of a collection, kept on disk so that a stopped run goes on.

A journal of one line per picture, appended as it is looked at: looking takes long, relating is done anew each
time. It looks at no picture.
"""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Literal

from pydantic import ValidationError

from limner.data.records import Record
from limner.data.scene_graphs import SceneObject
from limner.errors import CheckpointError, ConfigError, DataError, MissingError
from limner.files import strangers, write_text

JOURNAL = "detections.jsonl"
ABOUT = "about.json"
GRAPHS = "graphs.jsonl"
SKIPPED = "skipped.jsonl"
PAGE = "scenes.html"


class LookedAt(Record):
    """One picture a detector has looked at.

    Attributes:
        image: id of the picture in the collection.
        path: its file, as text.
        sha256: of the file's bytes.
        size, mtime_ns: of the file, to tell whether it has changed since.
        width_px, height_px: upright size.
        objects: what was found, under the detector's own labels, surest first.
    """

    image: str
    path: str
    sha256: str
    size: int
    mtime_ns: int
    width_px: int
    height_px: int
    objects: tuple[SceneObject, ...]


class Looking(Record):
    """What decides what is found: another of these, other detections.

    Attributes:
        kind: of file this is.
        detector: its name.
        fingerprint: its hash.
        min_score, max_overlap, most: rules of what is kept.
    """

    kind: Literal["limner scenes 1"] = "limner scenes 1"
    detector: str
    fingerprint: str
    min_score: float
    max_overlap: float
    most: int


class SceneFolder:
    """A folder of detections; use it in a ``with`` statement to add to it."""

    def __init__(self, folder: Path, looking: Looking, *, again: bool = False) -> None:
        """Open it, or make it.

        Args:
            folder: made if absent.
            looking: with what pictures are looked at.
            again: forget what is there.
        Raises:
            ConfigError: what is there was found by another detector or by other rules.
            DataError: the folder holds other things.
            CheckpointError: it is damaged.
        """
        self.folder = folder
        self._file: BinaryIO | None = None
        known = {JOURNAL, ABOUT, GRAPHS, SKIPPED, PAGE}
        others = strangers(folder, known)
        if others and not (folder / ABOUT).exists():
            raise DataError(f"{folder}: holds {others[0]!r}; name an empty or new folder by --to")
        folder.mkdir(parents=True, exist_ok=True)
        self._known: dict[str, tuple[int, int, int]] = {}
        if again or not (folder / ABOUT).exists():
            (folder / JOURNAL).unlink(missing_ok=True)
            write_text(folder / ABOUT, looking.model_dump_json(indent=1) + "\n")
        else:
            _check_same(folder / ABOUT, looking)
            self._known = _index(folder / JOURNAL)

    def __enter__(self) -> "SceneFolder":
        self._file = (self.folder / JOURNAL).open("ab")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is not None:
            self._file.flush()
            os.fsync(self._file.fileno())
            self._file.close()
            self._file = None

    def has(self, image: str, size: int, mtime_ns: int) -> bool:
        """Whether a picture was looked at and its file has not changed since."""
        return self._known.get(image, (0, 0, 0))[1:] == (size, mtime_ns)

    def add(self, looked: LookedAt) -> None:
        """Append a picture; a line is written whole or found torn and done again."""
        if self._file is None:
            raise MissingError(f"{self.folder}: not opened for writing; use it in a with statement")
        place = self._file.tell()
        self._file.write((json.dumps(looked.model_dump(mode="json"), ensure_ascii=False) + "\n").encode())
        self._file.flush()
        self._known[looked.image] = (place, looked.size, looked.mtime_ns)

    def read(self, images: list[str]) -> Iterator[LookedAt]:
        """Pictures by id, in that order, one after the other.

        Raises:
            CheckpointError: the journal is damaged.
        """
        with (self.folder / JOURNAL).open("rb") as file:
            for image in images:
                file.seek(self._known[image][0])
                yield _parse(file.readline(), self.folder / JOURNAL)


def _check_same(path: Path, looking: Looking) -> None:
    """Refuse to add to what another detector found."""
    try:
        there = Looking.model_validate_json(path.read_bytes())
    except ValidationError as error:
        raise CheckpointError(f"{path}: damaged, or of another limner; pass --again to begin anew") from error
    for name in ("detector", "fingerprint", "min_score", "max_overlap", "most"):
        old, new = getattr(there, name), getattr(looking, name)
        if old != new:
            raise ConfigError(
                f"{path.parent}: made with {name} {old!r}, now {new!r};"
                " name another folder by --to, or pass --again to begin anew"
            )


def _index(path: Path) -> dict[str, tuple[int, int, int]]:
    """Image → place of its last line, size and time; a torn last line is cut off."""
    found: dict[str, tuple[int, int, int]] = {}
    if not path.exists():
        return found
    place = 0
    with path.open("rb+") as file:
        for line in file:
            if not line.endswith(b"\n"):
                # What a kill in the middle of a write leaves.
                file.truncate(place)
                break
            looked = _parse(line, path)
            found[looked.image] = (place, looked.size, looked.mtime_ns)
            place += len(line)
    return found


def _parse(line: bytes, path: Path) -> LookedAt:
    try:
        return LookedAt.model_validate_json(line)
    except ValidationError as error:
        raise CheckpointError(f"{path}: a line is damaged; pass --again to begin anew") from error
