"""Detections of the pictures of a collection, stored on disk so that an interrupted run continues.

A journal of one line per picture, appended as it is looked at: looking takes long, relating is done anew each
time. It looks at no picture.
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
    """One picture a detector has looked at.

    Attributes:
        image: id of the picture in the collection.
        path: its file, as text.
        sha256: SHA-256 of the file's bytes.
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
    """Parameters of the detections: if one of them changes, the detections change.

    Attributes:
        kind: kind of file this is.
        detector: its name.
        fingerprint: its hash.
        min_score, max_overlap, most: rules of what is kept.
    """

    kind: Literal["limner scenes 1"] = "limner scenes 1"
    detector: str
    fingerprint: str
    min_score: float
    max_overlap: float = MAX_OVERLAP
    most: int = MOST_OBJECTS


class SceneFolder:
    """A folder of detections; close it after adding to it."""

    def __init__(self, folder: Path, looking: Looking, *, again: bool = False) -> None:
        """Open it, or make it.

        Args:
            folder: created if missing.
            looking: with what pictures are looked at.
            again: forget what is there.
        Raises:
            ConfigError: what is there was found by another detector or by other rules.
            DataError: the folder holds other things.
            CheckpointError: it is damaged.
        """
        self.folder = folder
        known = {JOURNAL, ABOUT, GRAPHS, SKIPPED, PAGE}
        others = strangers(folder, known)
        if others and not (folder / ABOUT).exists():
            raise DataError(f"{folder}: holds {others[0]!r}; name an empty or new folder by --to")
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
        """Put what was added on the disk; reading goes on."""
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()

    def has(self, image: str, size: int, mtime_ns: int) -> bool:
        """Whether a picture was looked at and its file has not changed since."""
        return self._known.get(image, (0, 0, 0))[1:] == (size, mtime_ns)

    def add(self, looked: LookedAt) -> None:
        """Append a picture; a line is written whole or found torn and done again."""
        place = self._file.tell()
        line = seal(json.dumps(looked.model_dump(mode="json"), ensure_ascii=False) + "\n")
        self._file.write(line.encode())
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
    """Reject to add to what another detector found."""
    try:
        there = Looking.model_validate_json(unseal(path.read_bytes(), path, "pass --again to begin anew"))
    except ValidationError as error:
        raise CheckpointError(f"{path}: damaged, or of another limner; pass --again to begin anew") from error
    for name in Looking.model_fields:
        old, new = getattr(there, name), getattr(looking, name)
        if old != new:
            raise ConfigError(
                f"{path.parent}: made with {name} {old!r}, now {new!r};"
                " name another folder by --to, or pass --again to begin anew"
            )


def _index(path: Path) -> dict[str, tuple[int, int, int]]:
    """Image → place of its last line, size and time; a torn last line is cut off, a damaged one left out."""
    found: dict[str, tuple[int, int, int]] = {}
    wrong = []
    if not path.exists():
        return found
    place = 0
    with path.open("rb+") as file:
        for line in file:
            if not line.endswith(b"\n"):
                # What a kill in the middle of a write leaves.
                file.truncate(place)
                break
            try:
                looked = _parse(line, path)
                found[looked.image] = (place, looked.size, looked.mtime_ns)
            except CheckpointError as error:
                wrong.append(error)
            place += len(line)
    if wrong and not found:
        raise wrong[0]
    if wrong:
        warnings.warn(
            f"{path}: {counted(len(wrong), 'line')} damaged; their pictures are looked at again",
            LimnerWarning,
            stacklevel=2,
        )
    return found


def _parse(line: bytes, path: Path) -> LookedAt:
    try:
        return LookedAt.model_validate_json(unseal(line, path, ""))
    except (DataError, ValidationError) as error:
        raise CheckpointError(f"{path}: a line is damaged; pass --again to begin anew") from error


@dataclass(frozen=True)
class SourcePicture:
    """A picture file to look at.

    Attributes:
        image: id of the picture.
        path: as the system has it.
        size, mtime_ns: of the file.
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
        pictures: those to look at.
        problems: files that cannot be reached.
    """

    name: str
    pictures: tuple[SourcePicture, ...]
    problems: tuple[Problem, ...] = ()

    def __post_init__(self) -> None:
        """Reject a collection without a picture."""
        if not self.pictures:
            lost = f", {counted(len(self.problems), 'file')} could not be reached" if self.problems else ""
            raise DataError(f"{self.name}: holds no picture{lost}; name a folder of pictures or a library")


def folder_pictures(source: Path) -> Sources:
    """Every picture below a folder; ids are their paths below it.

    Raises:
        DataError: no picture in it.
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
    """Picture of each foreign name: by id, file name, or file name without extension.

    Args:
        images: ids of pictures.
        names: as another program names them.
    Returns:
        Name → id; names that fit none, or several, are absent.
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
    """A ready detector.

    Args:
        name: one of `faster_rcnn.ARCHITECTURES`, or an .onnx or .xml file by its path or its name in
            ``$LIMNER_WEIGHTS``.
        weights: weights of a Faster R-CNN: a file, or a folder to look in; for an ONNX name the folder it is
            in.
        classes: names of its classes in order; None uses COCO's 80.
        device: torch device that computes, see `limner.devices.device_of`.
    Raises:
        ConfigError: unknown name, or a file that is not run there.
        MissingError: no weights or no such file, or a package is missing.
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
    """Lines of a UTF-8 text file, without the spaces around them.

    Args:
        path: the file.
        what: a line holds, for messages.
    Raises:
        MissingError: the file does not exist.
        DataError: the file cannot be read, or is not UTF-8.
    """
    with readable(path, f"give a file of {what}, one a line"):
        return [line.strip() for line in path.read_text(encoding="utf-8").rstrip().split("\n")]


def read_classes(path: Path) -> tuple[str, ...]:
    """Class names from a text file, one a line, in the order of the detector's outputs.

    Raises:
        MissingError, DataError: see `listed`.
        ConfigError: empty, or a name missing or twice.
    """
    names = listed(path, "class names")
    if not all(names) or len(set(names)) != len(names):
        raise ConfigError(f"{path}: expected different class names, one a line, none of them empty")
    return tuple(names)


def _model_file(name: str, folder: Path | None) -> Path:
    """A model file by its path, or by its name in the folders where weights are looked for."""
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
