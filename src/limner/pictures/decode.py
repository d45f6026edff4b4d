"""Open a picture file safely and hand out upright RGB pixels.

Whatever people have in their folders must either open as it should look or be refused with a reason:
sizes are checked before anything is decoded, and only regular files are ever opened, read-only.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO

from PIL.Image import DecompressionBombError, Image

from limner.errors import MissingError
from limner.pictures.formats import (
    MAX_DECODED_PIXELS,
    MAX_HEADER_PIXELS,
    MAX_SCANNED_PIXELS,
    RAW_SUFFIXES,
    Decoded,
    PictureError,
    identify,
    note,
    orientation,
    to_rgb,
)
from limner.pictures.raw import develop
from limner.pictures.stored import address, answers, beginning

if TYPE_CHECKING:
    from limner.locations import Location

MAX_FILE_BYTES = 2**30


@dataclass(frozen=True)
class FileBytes:
    """A file as read once.

    Attributes:
        data: all its bytes.
        size: their number.
        mtime_ns: modification time at opening; −1 where none is stated.
        sha256: 64 hex digits.
        stamp: as `stamp_of`, at opening; "" where none is stated.
    """

    data: bytes
    size: int
    mtime_ns: int
    sha256: str
    stamp: str = ""


def stamp_of(status: os.stat_result) -> str:
    """16 digits of a file's inode and of the time when the system last changed it.

    Programs can set size and modification time of a file as they were before; these two they cannot. They
    also change where the content does not: with new rights, or in a copy on another disk.
    """
    return hashlib.blake2b(f"{status.st_ctime_ns} {status.st_ino}".encode(), digest_size=8).hexdigest()


def read_file(path: bytes) -> FileBytes:
    """Read a regular file once, without ever waiting on a pipe or changing anything.

    Args:
        path: absolute path as the system has it, or an address on object storage, of which neither time nor
            stamp is stated.
    Raises:
        PictureError: the file is missing, not permitted, not regular, empty, too large, or changing.
        MissingError: an object store does not answer.
    """
    place = address(path)
    if place is not None:
        return _object(place)
    with opened(path) as (stream, status):
        if status.st_size > MAX_FILE_BYTES:
            raise PictureError(f"the file has {status.st_size} bytes; at most {MAX_FILE_BYTES} are read")
        data = stream.read(status.st_size + 1)
    if len(data) != status.st_size:
        raise PictureError("changed while it was read; index again", lasting=False)
    digest = hashlib.sha256(data).hexdigest()
    return FileBytes(data, status.st_size, status.st_mtime_ns, digest, stamp_of(status))


def _object(place: Location) -> FileBytes:
    try:
        data = beginning(os.fsencode(str(place)), MAX_FILE_BYTES + 1)
    except FileNotFoundError as error:
        raise PictureError("cannot be opened: no such object", lasting=False) from error
    except MissingError as error:
        if not answers(place):
            raise
        raise PictureError(f"cannot be read: {error}", lasting=False) from error
    if not data:
        raise PictureError("the file is empty")
    if len(data) > MAX_FILE_BYTES:
        raise PictureError(f"the file has more than {MAX_FILE_BYTES} bytes, which are read at most")
    return FileBytes(data, len(data), -1, hashlib.sha256(data).hexdigest())


@contextmanager
def opened(path: bytes) -> Iterator[tuple[BinaryIO, os.stat_result]]:
    """A regular file that is not empty, open for reading alone, and its status.

    Args:
        path: absolute path as the system has it.
    Raises:
        PictureError: the file is missing, not permitted, not regular or empty, or the block raises an error.
    """
    # Without O_NONBLOCK, opening a pipe that took the file's place after the walk would wait for ever.
    if sys.platform == "win32":
        flags = os.O_RDONLY | os.O_BINARY
    else:
        flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        handle = os.open(path, flags)
    except OSError as error:
        raise PictureError(f"cannot be opened: {error.strerror or error}", lasting=False) from error
    try:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            raise PictureError(f"not a regular file but a {kind_of(status.st_mode)}", lasting=False)
        if status.st_size == 0:
            raise PictureError("the file is empty")
        with os.fdopen(os.dup(handle), "rb") as stream:
            yield stream, status
    except OSError as error:
        raise PictureError(f"cannot be read: {error.strerror or error}", lasting=False) from error
    finally:
        os.close(handle)


def kind_of(mode: int) -> str:
    """Plain word for the kind of a file that is not a regular one."""
    kinds = {"p": "pipe", "s": "socket", "c": "device", "b": "device", "d": "folder"}
    return kinds.get(stat.filemode(mode)[0], "special file")


def decode(data: bytes, side_px: int | None = None, suffix: str = "") -> Decoded:
    """Bytes → upright RGB, first frame, alpha on white, 16 bit scaled to 8.

    A JPEG is decoded at the smallest scale of 1, 1/2, 1/4, 1/8 that leaves its shorter side at twice
    `side_px` or more: several times faster, and the later resize hardly differs. Camera raw files, known by
    their suffix, are read by `limner.pictures.raw`.

    Args:
        data: the whole file.
        side_px: shorter side the caller will resize to; None for full size.
        suffix: of the file name, lower case, to word the reason where nothing opens it.
    Raises:
        PictureError: not a picture, damaged, truncated, or larger than the limits.
    """
    if suffix.encode("utf-8", "replace") in RAW_SUFFIXES:
        return develop(data, side_px, suffix)
    try:
        image = identify(data, suffix)
        jpeg = image.format in _JPEG
        width, height = image.size
        if width * height > MAX_HEADER_PIXELS:
            raise PictureError(f"{width} × {height} pixels; at most {MAX_HEADER_PIXELS} are accepted")
        # A progressive JPEG is held whole at whatever scale it is decoded.
        scalable = jpeg and side_px is not None and "progressive" not in image.info
        if jpeg and side_px is not None:
            image.draft(None, (2 * side_px, 2 * side_px))
        pixels = image.size[0] * image.size[1] if scalable else width * height
        if pixels > MAX_DECODED_PIXELS:
            raise PictureError(f"{width} × {height} pixels; at most {MAX_DECODED_PIXELS} can be decoded")
        if jpeg:
            _check_scans(data, image, width * height)
            if _lacks_only_its_end(data, image):
                note("JPEG: its end marker is missing; the picture is whole")
                image = _again(data + _END, image)
        image.load()
        turn = orientation(image)
        rgb = to_rgb(image)
    except PictureError:
        raise
    except MemoryError as error:
        raise PictureError("not enough memory to decode it", lasting=False) from error
    except DecompressionBombError as error:
        raise PictureError(f"too many pixels: {error}") from error
    # Decoders signal damage by nearly any exception (struct.error, SyntaxError, IndexError, zlib.error …).
    except Exception as error:
        text = str(error)
        what = "truncated" if "truncated" in text.lower() else "damaged"
        raise PictureError(f"{what} picture: {text or type(error).__name__}") from error
    if turn is not None:
        rgb = rgb.transpose(turn)
        if turn.name in ("ROTATE_90", "ROTATE_270", "TRANSPOSE", "TRANSVERSE"):
            width, height = height, width
    return Decoded(rgb, image, width, height, image.format or "")


_JPEG = ("JPEG", "MPO")
_END = b"\xff\xd9"
_FILLED = bytes(2048)
"""What a drive or a broken copy leaves where data is lost; compressed pixels never hold so many zeros."""


def _check_scans(data: bytes, image: Image, pixels: int) -> None:
    """Note a hole in a JPEG, and refuse one whose scans would take minutes.

    Raises:
        PictureError: too many pixels times scans.
    """
    scans, start = _scans(data, every="progressive" in image.info)
    if data.find(_FILLED, start) >= 0:
        note("JPEG: a run of zeros where pixels should be; a part of the picture may be missing")
    if scans * pixels > MAX_SCANNED_PIXELS:
        raise PictureError(
            f"{pixels} pixels in {scans} scans; at most {MAX_SCANNED_PIXELS // pixels} scans of so many are"
            " decoded; save it again as a JPEG that is not progressive"
        )


_MARKER = re.compile(rb"\xff[^\x00\xd0-\xd7\xff]")
"""A marker among compressed pixels, in which a byte of 255 is followed by 0, or by a restart's number."""


def _scans(data: bytes, *, every: bool) -> tuple[int, int]:
    """Scans of the first picture of a JPEG, or 1, and where the first one begins.

    Pictures inside its other segments, such as a camera's preview, do not count.
    """
    place, scans, first = 2, 0, len(data)
    while place + 4 <= len(data) and data[place] == 0xFF and data[place + 1] != _END[1]:
        marker, size = data[place + 1], int.from_bytes(data[place + 2 : place + 4])
        if marker == 0xFF:  # filling
            place += 1
            continue
        place += 2 + size
        if marker == 0xDA:
            scans, first = scans + 1, min(first, place)
            following = _MARKER.search(data, place) if every else None
            place = following.start() if following else len(data)
    return scans, first


def _lacks_only_its_end(data: bytes, image: Image) -> bool:
    """Whether a JPEG has no end marker though all pixels are there: these do not change with what follows."""
    if _END in data[-4096:]:
        return False
    found = []
    for more in (b"", b"\x55\xaa\x33" * 20):
        whole = _again(data + more + _END, image)
        whole.load()
        found.append(whole.tobytes())
    return found[0] == found[1]


def _again(data: bytes, image: Image) -> Image:
    """Other bytes opened as a picture was, at the same scale."""
    found = identify(data, ".jpg")
    found.draft(None, image.size)
    return found
