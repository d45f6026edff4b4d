"""The pictures of a folder or library, each under the id its scene graph will have.

In a folder the id is the path below it, in a library that of the library. It decodes nothing.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from limner.data.folder import FoundFile, UnusableFile, source_path, walk
from limner.data.images import display
from limner.errors import DataError, MissingError
from limner.retrieval.library import Library
from limner.retrieval.reports import Problem


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


def source_pictures(source: Path) -> tuple[list[SourcePicture], list[Problem]]:
    """Every picture of a folder or library, in a fixed order, and what cannot be reached.

    Args:
        source: folder of pictures, or of a library.
    Raises:
        MissingError: not there.
        DataError: no picture in it.
    """
    if not source.is_dir():
        raise MissingError(f"{source}: no such folder; name a folder of pictures or a library")
    pictures, problems = _library(source) if (source / "library.json").is_file() else _folder(source)
    if not pictures:
        told = f", {len(problems)} files could not be reached" if problems else ""
        raise DataError(f"{source}: holds no picture{told}; name a folder of pictures or a library")
    return pictures, problems


def _folder(source: Path) -> tuple[list[SourcePicture], list[Problem]]:
    """Files below a folder; ids are their paths below it."""
    root = source_path(source)
    pictures, problems = [], []
    for entry in walk([root]):
        if isinstance(entry, FoundFile):
            image = display(os.path.relpath(entry.path, root)).replace(os.sep, "/")
            pictures.append(SourcePicture(image, entry.path, entry.size, entry.mtime_ns))
        elif isinstance(entry, UnusableFile):
            problems.append(Problem(path=display(entry.path), reason=entry.reason))
    return pictures, problems


def _library(source: Path) -> tuple[list[SourcePicture], list[Problem]]:
    """One file of every picture of a library; ids are the library's."""
    library = Library.open(source)
    pictures, problems = [], []
    for image in library.gallery(()).ids:
        path = library.file_of(image)
        try:
            status = path.stat()
        except OSError as error:
            problems.append(Problem(path=display(os.fsencode(path)), reason=error.strerror or str(error)))
            continue
        pictures.append(SourcePicture(image, os.fsencode(path), status.st_size, status.st_mtime_ns))
    return pictures, problems


def matched(images: Sequence[str], names: Sequence[str]) -> Mapping[str, str]:
    """Which picture each foreign name means: its id, else its file name, else that without the suffix.

    Args:
        images: ids of pictures.
        names: as another program names them.
    Returns:
        Name → id; names that fit none, or several, are absent.
    """
    found: dict[str, str] = {}
    exact = set(images)
    by: list[dict[str, list[str]]] = [{}, {}]
    for image in images:
        path = PurePosixPath(image)
        by[0].setdefault(path.name, []).append(image)
        by[1].setdefault(path.stem, []).append(image)
    for name in names:
        if name in exact:
            found[name] = name
            continue
        fits = next((one[name] for one in by if name in one), [])
        if len(fits) == 1:
            found[name] = fits[0]
    return found
