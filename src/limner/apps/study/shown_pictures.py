"""Copies of pictures as raters see them: named by their content, without metadata, no larger than a screen.

A name or a comment inside a file could tell whose picture it is, or where its owner lives. Files of users are
only read; nothing here decides which pictures are shown.
"""

import hashlib
import io
import os
from pathlib import Path
from typing import TYPE_CHECKING

from limner.apps.study.material import PictureSource
from limner.errors import DataError

if TYPE_CHECKING:
    from PIL.Image import Image

SIDE_PX = 1600
QUALITY = 92
_PLAIN = {"JPEG": "jpg", "PNG": "png", "WEBP": "webp"}
_TELLING = ("exif", "xmp", "XML:com.adobe.xmp", "photoshop", "comment", "Comment", "Description", "Title")


class ShownPictures:
    """A folder that is filled with copies."""

    def __init__(self, folder: Path) -> None:
        """Take the folder, which is there."""
        self._folder = folder
        self._known: dict[Path, str] = {}

    def add(self, picture: PictureSource) -> str:
        """Copy a picture; equal contents share a copy.

        Args:
            picture: a file, or a drawn picture.
        Returns:
            Name of the copy in the folder: SHA-256 of its bytes, and an ending.
        Raises:
            DataError: the file does not open.
        """
        if not isinstance(picture, Path):
            return self._write(*_png(picture))
        if picture not in self._known:
            self._known[picture] = self._write(*_ready(picture))
        return self._known[picture]

    def _write(self, data: bytes, ending: str) -> str:
        name = f"{hashlib.sha256(data).hexdigest()}.{ending}"
        target = self._folder / name
        if not target.exists():
            target.write_bytes(data)
        return name


def _ready(path: Path) -> tuple[bytes, str]:
    """Bytes and ending of a copy: as they are where they are plain and small, else written anew."""
    from PIL.Image import Resampling

    from limner.data.images import PictureError, decode, read_file

    try:
        read = read_file(os.fsencode(path.absolute()))
        found = decode(read.data, None, path.suffix.lower())
    except PictureError as error:
        raise DataError(f"study: {path}: {error}; restore the file or leave it out") from error
    small = max(found.width_px, found.height_px) <= SIDE_PX
    if small and found.format in _PLAIN and not _tells(found.loaded):
        return read.data, _PLAIN[found.format]
    shown = found.rgb
    shown.thumbnail((SIDE_PX, SIDE_PX), Resampling.LANCZOS)
    if found.format not in ("JPEG", "MPO"):
        return _png(shown)
    file = io.BytesIO()
    shown.info.clear()
    shown.save(file, "JPEG", quality=QUALITY, subsampling=0)
    return file.getvalue(), "jpg"


def _png(picture: "Image") -> tuple[bytes, str]:
    file = io.BytesIO()
    bare = picture.convert("RGB")
    bare.info.clear()
    bare.save(file, "PNG")
    return file.getvalue(), "png"


def _tells(image: "Image") -> bool:
    """Whether a file says anything beside its pixels; several frames would move."""
    words = any(image.info.get(name) for name in _TELLING) or bool(getattr(image, "text", None))
    return words or bool(image.getexif()) or getattr(image, "n_frames", 1) > 1
