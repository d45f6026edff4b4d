"""Where an export goes: checks on the target, and writing that happens whole or not at all.

Every exporter writes through here, so none can leave half a file or touch a picture of the
collection. It knows nothing of formats.
"""

import io
import os
import tempfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from limner.errors import ConfigError, DataError, MissingError
from limner.files import replacing
from limner.records import Board, Picture


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


def pictures_of(board: Board) -> Iterator[Picture]:
    """Every picture a storyboard names: chosen ones and runners-up, with repeats."""
    for step in board.steps:
        yield from step.pictures
        yield from (candidate.picture for candidate in step.runners_up)


def is_picture(target: Path, board: Board) -> str | None:
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


def check_target(board: Board, out: Path, *, overwrite: bool) -> None:
    """Refuse a target that cannot or must not be written.

    Args:
        board: the storyboard to be written.
        out: the file to write.
        overwrite: whether an existing file may be replaced.
    Raises:
        DataError: a directory, one of the storyboard's pictures, an existing file without `overwrite`, or
            one in a folder that cannot be written to.
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
    try:
        with tempfile.TemporaryFile(dir=out.parent):
            pass
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise DataError(f"export: cannot write in {out.parent} ({reason}); name another place") from None


def put(target: Path, data: bytes) -> None:
    """Write the bytes of an export; see `limner.files.replacing`."""
    with replacing(target) as draft:
        draft.write_bytes(data)


def made_at() -> datetime:
    """When an export is made: $SOURCE_DATE_EPOCH where it is set, so that equal exports are equal files.

    Raises:
        ConfigError: it is no number of seconds.
    """
    stated = os.environ.get("SOURCE_DATE_EPOCH", "")
    if not stated:
        return datetime.now(UTC)
    try:
        return datetime.fromtimestamp(int(stated), UTC)
    except (ValueError, OverflowError, OSError):
        raise ConfigError(
            f"SOURCE_DATE_EPOCH is {stated!r}, expected seconds since 1970, such as 1700000000; unset it"
        ) from None


def packed(archive: io.BytesIO, at: datetime) -> bytes:
    """A ZIP file whose members all bear one date.

    Args:
        archive: as another library wrote it: each member with the time of writing.
        at: the date; ZIP knows none before 1980.
    """
    made = io.BytesIO()
    date = max(at.timetuple()[:6], (1980, 1, 1, 0, 0, 0))
    with zipfile.ZipFile(archive) as old, zipfile.ZipFile(made, "w") as new:
        for member in old.infolist():
            dated = zipfile.ZipInfo(member.filename, date)
            dated.external_attr = member.external_attr
            new.writestr(dated, old.read(member), member.compress_type)
    return made.getvalue()
