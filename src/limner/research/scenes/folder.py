"""Stores the detections of a collection on disk, so that an interrupted run can continue; loads detectors.

The journal has one line per picture. Only detections are stored, because relating objects is fast.
"""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Literal

from pydantic import ValidationError

from limner.checksums import seal, unseal
from limner.config import Record
from limner.encoders.catalogue import official_url
from limner.encoders.weight_files import find, named_places, read_state
from limner.errors import (
    CheckpointError,
    ConfigError,
    DataError,
    LimnerWarning,
    MissingError,
    counted,
    unknown,
)
from limner.files import display, readable, strangers, write_text
from limner.pictures.find import FoundFile, UnusableFile, source_path, walk
from limner.records import Problem
from limner.research.scenes.detections import MAX_OVERLAP, MOST_OBJECTS, Detector
from limner.research.scenes.faster_rcnn import ARCHITECTURES, FasterRCNN, coco_classes
from limner.research.scenes.graphs import SceneObject

JOURNAL = "detections.jsonl"
ABOUT = "about.json"
GRAPHS = "graphs.jsonl"
SKIPPED = "skipped.jsonl"
PAGE = "scenes.html"


class LookedAt(Record):
    """Detections in one picture.

    Attributes:
        image: id of the picture in the collection.
        path: path of its file, as text.
        sha256: SHA-256 of the file's bytes.
        size, mtime_ns: size and modification time of the file, to notice changes.
        width_px, height_px: size of the upright picture.
        objects: objects with the detector's own labels, by falling score.
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
    """Settings that determine the detections.

    Attributes:
        kind: format of the file.
        detector: name of the detector.
        fingerprint: hash of the detector.
        min_score, max_overlap, most: see `limner.research.scenes.detections.keep`.
    """

    kind: Literal["limner scenes 1"] = "limner scenes 1"
    detector: str
    fingerprint: str
    min_score: float
    max_overlap: float = MAX_OVERLAP
    most: int = MOST_OBJECTS


class SceneFolder:
    """A folder of detections; call `close` after adding."""

    def __init__(self, folder: Path, looking: Looking, *, again: bool = False) -> None:
        """Open or create the folder.

        Args:
            folder: created if missing.
            looking: settings of the detections.
            again: whether to discard stored detections.
        Raises:
            ConfigError: the stored detections have other settings.
            DataError: the folder holds other files.
            CheckpointError: a file is damaged.
        """
        self.folder = folder
        known = {JOURNAL, ABOUT, GRAPHS, SKIPPED, PAGE}
        others = strangers(folder, known)
        if others and not (folder / ABOUT).exists():
            raise DataError(f"{folder}: holds {others[0]!r}; give an empty or new folder with --to")
        folder.mkdir(parents=True, exist_ok=True)
        self._known: dict[str, tuple[int, int, int]] = {}
        if again or not (folder / ABOUT).exists():
            (folder / JOURNAL).unlink(missing_ok=True)
            write_text(folder / ABOUT, seal(looking.model_dump_json(indent=1) + "\n"))
        else:
            _check_same(folder / ABOUT, looking)
            self._known = _index(folder / JOURNAL)
        self._file = (folder / JOURNAL).open("ab")

    def close(self) -> None:
        """Flush additions to disk; reading remains possible."""
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()

    def has(self, image: str, size: int, mtime_ns: int) -> bool:
        """Whether detections of a picture are stored and its file has not changed since."""
        return self._known.get(image, (0, 0, 0))[1:] == (size, mtime_ns)

    def add(self, looked: LookedAt) -> None:
        """Append a picture to the journal. A line cut off by a crash is removed when the folder is opened."""
        place = self._file.tell()
        line = seal(json.dumps(looked.model_dump(mode="json"), ensure_ascii=False) + "\n")
        self._file.write(line.encode())
        self._file.flush()
        self._known[looked.image] = (place, looked.size, looked.mtime_ns)

    def read(self, images: list[str]) -> Iterator[LookedAt]:
        """Read the detections of pictures, in the given order.

        Raises:
            CheckpointError: the journal is damaged.
        """
        with (self.folder / JOURNAL).open("rb") as file:
            for image in images:
                file.seek(self._known[image][0])
                yield _parse(file.readline(), self.folder / JOURNAL)


def _check_same(path: Path, looking: Looking) -> None:
    """Check that the stored detections have the same settings."""
    try:
        there = Looking.model_validate_json(unseal(path.read_bytes(), path, "pass --again to start over"))
    except ValidationError as error:
        raise CheckpointError(
            f"{path}: damaged, or written by another version of limner; pass --again to start over"
        ) from error
    for name in Looking.model_fields:
        old, new = getattr(there, name), getattr(looking, name)
        if old != new:
            raise ConfigError(
                f"{path.parent}: made with {name} {old!r}, now {new!r};"
                " give another folder with --to, or pass --again to start over"
            )


def _index(path: Path) -> dict[str, tuple[int, int, int]]:
    """Image → offset of its last line, size and time; removes an incomplete last line, skips damaged ones."""
    entries: dict[str, tuple[int, int, int]] = {}
    wrong = []
    if not path.exists():
        return entries
    place = 0
    with path.open("rb+") as file:
        for line in file:
            if not line.endswith(b"\n"):
                # left by a crash during a write
                file.truncate(place)
                break
            try:
                looked = _parse(line, path)
                entries[looked.image] = (place, looked.size, looked.mtime_ns)
            except CheckpointError as error:
                wrong.append(error)
            place += len(line)
    if wrong and not entries:
        raise wrong[0]
    if wrong:
        warnings.warn(
            f"{path}: {counted(len(wrong), 'line')} damaged; objects in their pictures are detected again",
            LimnerWarning,
            stacklevel=2,
        )
    return entries


def _parse(line: bytes, path: Path) -> LookedAt:
    try:
        return LookedAt.model_validate_json(unseal(line, path, ""))
    except (DataError, ValidationError) as error:
        raise CheckpointError(f"{path}: a line is damaged; pass --again to start over") from error


@dataclass(frozen=True)
class SourcePicture:
    """A picture file.

    Attributes:
        image: id of the picture.
        path: the file's path, as bytes.
        size, mtime_ns: size and time of the file.
    """

    image: str
    path: bytes
    size: int
    mtime_ns: int


@dataclass(frozen=True)
class Sources:
    """The pictures of a collection, in a fixed order.

    Attributes:
        name: name of the collection, for messages.
        pictures: readable picture files.
        problems: files that cannot be read.
    """

    name: str
    pictures: tuple[SourcePicture, ...]
    problems: tuple[Problem, ...] = ()

    def __post_init__(self) -> None:
        """Check that there is a picture."""
        if not self.pictures:
            lost = f", {counted(len(self.problems), 'file')} could not be read" if self.problems else ""
            raise DataError(f"{self.name}: holds no picture{lost}; give a folder of pictures or a library")


def folder_pictures(source: Path) -> Sources:
    """All pictures below a folder; ids are paths relative to it.

    Raises:
        DataError: the folder has no pictures.
    """
    root = source_path(source)
    pictures, problems = [], []
    for entry in walk([root]):
        if isinstance(entry, FoundFile):
            image = display(os.path.relpath(entry.path, root)).replace(os.sep, "/")
            pictures.append(SourcePicture(image, entry.path, entry.size, entry.mtime_ns))
        elif isinstance(entry, UnusableFile):
            problems.append(Problem(path=display(entry.path), reason=entry.reason))
    return Sources(str(source), tuple(pictures), tuple(problems))


def matched(images: Sequence[str], names: Sequence[str]) -> Mapping[str, str]:
    """Match another program's names to pictures: by id, file name, or file name without suffix.

    Args:
        images: ids of pictures.
        names: the other program's names.
    Returns:
        Name → id; names that match no picture or several are left out.
    """
    tables: list[dict[str, list[str]]] = []
    for called in (str, lambda image: PurePosixPath(image).name, lambda image: PurePosixPath(image).stem):
        tables.append({})
        for image in images:
            tables[-1].setdefault(called(image), []).append(image)
    fits = {name: next((table[name] for table in tables if name in table), []) for name in names}
    return {name: images[0] for name, images in fits.items() if len(images) == 1}


def detector(
    name: str,
    *,
    weights: Path | None = None,
    classes: Sequence[str] | None = None,
    device: str = "cpu",
) -> Detector:
    """Load a detector.

    Args:
        name: one of `faster_rcnn.ARCHITECTURES`, or an .onnx or .xml file: its path, or its name in
            ``$LIMNER_WEIGHTS``.
        weights: weights of a Faster R-CNN (a file or its folder), or the folder of an .onnx or .xml file.
        classes: class names in order; None uses COCO's 80.
        device: torch device that computes, see `limner.devices.device_of`.
    Raises:
        ConfigError: unknown name, or the device cannot run the file.
        MissingError: the file does not exist, or a package is not installed.
        CheckpointError: the file is of another architecture.
    """
    from limner.research.scenes.onnx import SUFFIXES, OnnxDetector

    if Path(name).suffix.lower() in SUFFIXES:
        return OnnxDetector(_model_file(name, weights), classes or coco_classes(), device)
    if name not in ARCHITECTURES:
        raise ConfigError(
            unknown("detector", name, ARCHITECTURES) + f"; or the path of a file ({', '.join(SUFFIXES)})"
        )
    try:
        file = find(name, weights, Path(official_url(name)).name)
    except MissingError as error:
        raise MissingError(
            f"{str(error).partition(';')[0]}; run 'limner models get {name}', or pass --weights FILE"
        ) from error
    return FasterRCNN(
        name, read_state(file), file.sha256, classes=classes, where=str(file.path), device=device
    )


def listed(path: Path, what: str) -> list[str]:
    """Lines of a UTF-8 text file, without surrounding spaces.

    Args:
        path: the file.
        what: description of its lines, for messages.
    Raises:
        MissingError: the file does not exist.
        DataError: the file cannot be read, or is not UTF-8.
    """
    with readable(path, f"give a file of {what}, one per line"):
        return [line.strip() for line in path.read_text(encoding="utf-8").rstrip().split("\n")]


def read_classes(path: Path) -> tuple[str, ...]:
    """Read class names from a text file, one per line, in the order of the detector's outputs.

    Raises:
        MissingError, DataError: see `listed`.
        ConfigError: the file or a line is empty, or a name is repeated.
    """
    names = listed(path, "class names")
    if not all(names) or len(set(names)) != len(names):
        raise ConfigError(f"{path}: expected one class name per line, without repeats or empty lines")
    return tuple(names)


def _model_file(name: str, folder: Path | None) -> Path:
    """Find a model file by its path, or by its name in the folders for weights."""
    given = Path(name).expanduser()
    if given.is_file():
        return given
    places = [folder] if folder is not None else named_places()
    for place in places:
        if (place / name).is_file():
            return place / name
        if place.is_file() and place.name == name:
            return place
    looked = ", ".join(str(place) for place in (given, *places))
    raise MissingError(f"no detector {name} (looked for {looked}); give the path of its file")
