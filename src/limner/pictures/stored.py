"""Bytes that lie in a file, or in an object on object storage: opened and looked at by one path.

A path of this machine is absolute; anything else is an address such as ``s3://bucket/folder/name``.
"""

from __future__ import annotations

import errno
import io
import os
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, NamedTuple, cast

from limner.locations import Location, file_system, location, reaching

if TYPE_CHECKING:
    from pyarrow.fs import FileInfo

_READ_AHEAD = 2**20


class Status(NamedTuple):
    """What is known of a file or an object without reading it.

    Attributes:
        size: bytes.
        mtime_ns: when it was written, nanoseconds since 1970.
    """

    size: int
    mtime_ns: int


def address(path: bytes) -> Location | None:
    """What an address on object storage names; None for a path of this machine."""
    return location(os.fsdecode(path))


def status(path: bytes) -> Status:
    """Size and time of a file or an object.

    Raises:
        OSError: it is not there, or the object store does not answer.
    """
    place = address(path)
    if place is None:
        found = os.stat(path)  # noqa: PTH116
        return Status(found.st_size, found.st_mtime_ns)
    return status_of(_info(place))


def status_of(info: FileInfo) -> Status:
    """What a list of objects says of one."""
    return Status(int(info.size or 0), int(info.mtime_ns or 0))


def is_folder(place: Location) -> bool:
    """Whether an address names what is below it, not an object.

    Raises:
        FileNotFoundError: nothing is there.
        MissingError: the object store does not answer.
    """
    return not _info(place).is_file


def is_there(path: str) -> bool:
    """Whether a file or an object is there; what cannot be reached is not."""
    try:
        place = location(path)
        if place is None:
            return os.path.isfile(path)  # noqa: PTH113  (asked for every picture of a project; a third of the time)
        return bool(_info(place).is_file)
    except OSError:
        return False


def listing(folder: Location) -> dict[bytes, Status | None]:
    """Names in a folder of an object store, in order, each with its status; None for a folder.

    Raises:
        MissingError: the object store does not answer, or nothing is there.
    """
    from pyarrow.fs import FileSelector

    system = file_system(folder)
    with reaching(folder):
        infos = system.get_file_info(FileSelector(folder.path, allow_not_found=True))
    named = {os.fsencode(info.base_name): status_of(info) if info.is_file else None for info in infos}
    return dict(sorted(named.items()))


def stream(path: bytes) -> BinaryIO:
    """A file or an object, open for reading at any place.

    Raises:
        OSError: it is not there, or the object store does not answer.
    """
    place = address(path)
    if place is None:
        return _opened(path)
    system = file_system(place)
    with reaching(place):
        return cast(BinaryIO, io.BufferedReader(system.open_input_file(place.path), _READ_AHEAD))


def beginning(path: bytes, most: int) -> bytes:
    """At most so many bytes of a file or an object.

    Raises:
        OSError: it is not there, or the object store does not answer.
    """
    place = address(path)
    if place is None:
        with _opened(path) as file:
            return file.read(most)
    system = file_system(place)
    with reaching(place), system.open_input_stream(place.path) as file:
        return bytes(file.read(most))


def _opened(path: bytes) -> BinaryIO:
    """A file of this machine; a pipe, which may never answer, is none."""
    file = Path(os.fsdecode(path))
    if file.exists() and not file.is_file():
        raise OSError(errno.EINVAL, "not a regular file", str(file))
    return file.open("rb")


def answers(place: Location) -> bool:
    """Whether the bucket of an object can be looked at, so that what failed is of the object alone."""
    try:
        return bool(_info(Location(place.scheme, place.bucket)))
    except OSError:
        return False


def _info(place: Location) -> FileInfo:
    from pyarrow.fs import FileType

    system = file_system(place)
    with reaching(place):
        info = system.get_file_info(place.path)
    if info.type is FileType.NotFound:
        raise FileNotFoundError(f"{place}: nothing is there")
    return info
