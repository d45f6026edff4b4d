"""Where an export goes: checks on the target, and writing that happens whole or not at all.

Every exporter writes through here, so none can leave half a file or touch a picture of the
collection. It knows nothing of formats.
"""

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from limner.errors import DataError, MissingError
from limner.files import replacing
from limner.records import Picture, Storyboard


@dataclass(frozen=True)
class Exported:
    """What an export wrote.

    Attributes:
        path: the file.
        pictures: pictures copied beside it (Markdown only), in order of use.
        warnings: what the reader of the file should know, one plain line each.
    """

    path: Path
    pictures: tuple[Path, ...] = ()
    warnings: tuple[str, ...] = ()


def pictures_of(board: Storyboard) -> Iterator[Picture]:
    """Every picture a storyboard names: chosen ones and runners-up, with repeats."""
    for step in board.steps:
        yield from step.pictures
        yield from (candidate.picture for candidate in step.runners_up)


def is_picture(target: Path, board: Storyboard) -> str | None:
    """The path of the storyboard's picture that a target would overwrite, or None.

    Args:
        target: a file, which need not exist; links are followed.
        board: the storyboard whose pictures are looked at, all their paths included.
    """
    real = Path(os.path.realpath(target))
    for path in (path for picture in pictures_of(board) for path in picture.paths):
        own = Path(os.path.realpath(path))
        if own == real or (real.exists() and own.exists() and own.samefile(real)):
            return path
    return None


def check_target(board: Storyboard, out: Path, *, overwrite: bool) -> None:
    """Refuse a target that cannot or must not be written.

    Args:
        board: the storyboard to be written.
        out: the file to write.
        overwrite: whether an existing file may be replaced.
    Raises:
        DataError: a directory, one of the storyboard's pictures, or an existing file without
            `overwrite`.
        MissingError: its folder does not exist.
    """
    clash = is_picture(out, board)
    if clash is not None:
        raise DataError(f"export: {out} is the picture {clash} of the collection; name another file")
    check_place(out, overwrite=overwrite)


def check_place(out: Path, *, overwrite: bool) -> None:
    """What of `check_target` can be told before there is a storyboard."""
    if out.is_dir():
        raise DataError(f"export: {out} is a folder, expected a file name; name a file inside it")
    if not out.parent.is_dir():
        raise MissingError(f"export: the folder {out.parent} does not exist; create it or name another place")
    if out.exists() and not overwrite:
        raise DataError(f"export: {out} exists already; name another file, or pass --overwrite to replace it")


def whole(target: Path) -> AbstractContextManager[Path]:
    """See `limner.files.replacing`; for a target that a person named.

    Raises:
        DataError: the folder cannot be written to.
    """
    if not os.access(target.parent, os.W_OK):
        raise DataError(f"export: cannot write in {target.parent}; name another place")
    return replacing(target)
