"""Copies of a study's pictures, alike in all but what they show.

A file says more than its picture: its kind, size, age and place in the folder may each belong to one system
alone. All copies are JPEG files of one size, written in the order of their contents, with the same times.
"""

import hashlib
import io
import os
import time
from pathlib import Path

from PIL.Image import Resampling

from limner.errors import DataError
from limner.pictures.decode import decode, read_file
from limner.pictures.formats import PictureError
from limner.pictures.thumbnails import in_srgb
from limner.research.study.material import PictureSource

SIDE_PX = 1600
QUALITY = 92
MEDIA_TYPES = {"jpg": "image/jpeg", "png": "image/png", "webp": "image/webp"}
"""Ending → kind; studies of earlier versions have others than the first."""


class Copies:
    """Pictures on their way into the folder of a study."""

    def __init__(self, waiting: Path) -> None:
        """Take an empty folder, which is not the study's: what lies there is in the order it was added."""
        self._waiting = waiting

    def add(self, picture: PictureSource) -> str:
        """Read a picture.

        Args:
            picture: a file, or a drawn picture.
        Returns:
            A word for it; equal pictures have the same.
        Raises:
            DataError: the file does not open.
        """
        data = _encoded(picture)
        word = hashlib.sha256(data).hexdigest()
        (self._waiting / word).write_bytes(data)
        return word

    def write(self, folder: Path) -> dict[str, str]:
        """Write all copies into an empty folder.

        What is added to the end of the smaller ones is no part of the picture, and compresses no better than
        one: neither a file system nor a connection makes it short again.

        Args:
            folder: that is there.
        Returns:
            Word → name of the copy: SHA-256 of its bytes, and an ending.
        """
        waiting = sorted(self._waiting.iterdir())  # names are hashes: an order that no system has a part in
        size, now = max((file.stat().st_size for file in waiting), default=0), time.time_ns()
        names = {}
        for file in waiting:
            data = file.read_bytes()
            data += hashlib.shake_256(data).digest(size - len(data))
            name = f"{hashlib.sha256(data).hexdigest()}.jpg"
            (folder / name).write_bytes(data)
            os.utime(folder / name, ns=(now, now))
            names[file.name] = name
        return names


def unlike(folder: Path) -> bool:
    """Whether files of a folder differ in kind or size, as those of studies of earlier versions do."""
    return len({(file.suffix, file.stat().st_size) for file in folder.iterdir()}) > 1


def _encoded(picture: PictureSource) -> bytes:
    """A picture written anew: upright, no larger than a screen, without a word beside its pixels."""
    if isinstance(picture, Path):
        try:
            read = read_file(os.fsencode(picture.absolute()))
            shown = in_srgb(decode(read.data, None, picture.suffix.lower()))
        except PictureError as error:
            raise DataError(f"study: {picture}: {error}; restore the file or leave it out") from error
    else:
        shown = picture.convert("RGB")
    file = io.BytesIO()
    shown.thumbnail((SIDE_PX, SIDE_PX), Resampling.LANCZOS)
    shown.info.clear()
    shown.save(file, "JPEG", quality=QUALITY, subsampling=0)
    return file.getvalue()
