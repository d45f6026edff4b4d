"""Scaled copies of pictures for the exports: upright, in sRGB, without the camera's metadata.

A shared page must contain neither 12 megapixels per step nor the place where a photograph was taken.
"""

import base64
import io
import math
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from PIL.Image import Image, Resampling

from limner.errors import DataError
from limner.files import display
from limner.locations import is_there
from limner.pictures.decode import FileBytes, PictureError, decode, read_file
from limner.records import WHOLE, Area, Picture

MAX_SIDE_PX = 4000
"""Maximum longer side of a scaled copy; only panoramas reach it, others reach the maximum area first."""


@dataclass(frozen=True)
class Copy:
    """A scaled copy.

    Attributes:
        data: the encoded file.
        media_type: such as image/webp.
        width_px, height_px: upright size of the copy.
    """

    data: bytes
    media_type: str
    width_px: int
    height_px: int

    @property
    def uri(self) -> str:
        """The copy as a data URI."""
        return f"data:{self.media_type};base64,{base64.b64encode(self.data).decode('ascii')}"


def locate(picture: Picture, where: str) -> Path:
    """Path of the first existing file of a picture.

    Args:
        picture: picture of a library.
        where: the step, for the message.
    Raises:
        DataError: no file exists.
    """
    return next(_located(picture, where))


def indexed(picture: Picture, where: str) -> tuple[Path, FileBytes]:
    """The first file of a picture that has the indexed content, and its bytes.

    A library, project or storyboard from elsewhere may name any file of this machine: a file without the
    picture's content is never used.

    Args:
        picture: picture of a library.
        where: the step, for messages.
    Raises:
        DataError: no file exists, can be read, and has that content.
    """
    refused: DataError | None = None
    for path in _located(picture, where):
        try:
            file = read_file(os.fsencode(path))
        except PictureError as error:
            refused = refused or _unreadable(path, where, error)
            continue
        if file.sha256 == picture.id:
            return path, file
        refused = refused or DataError(
            f"export: {where}: {display(os.fsencode(path))} has changed since it was indexed; run 'limner"
            " index' and illustrate again"
        )
    raise refused or AssertionError("a missing file has raised an error before")


def _located(picture: Picture, where: str) -> Iterator[Path]:
    """All existing files of a picture, at least one.

    Its `paths` are for display, with bytes that are not UTF-8 as backslash escapes; the path is tried both as
    it is and with the escapes decoded.
    """
    found = False
    for path in picture.paths:
        for name in dict.fromkeys((path, _unescaped(path))):
            if is_there(name):
                found = True
                yield Path(name)
    if not found:
        raise DataError(
            f"export: {where}: the picture {picture.path} does not exist (moved, or drive disconnected?);"
            " put it back, or run 'limner index' and illustrate again"
        )


def _unreadable(path: Path, where: str, error: PictureError) -> DataError:
    return DataError(
        f"export: {where}: {display(os.fsencode(path))}: {error};"
        " restore the file, or run 'limner index' and illustrate again"
    )


def _unescaped(path: str) -> str:
    r"""The path with \xNN and \udcNN converted to the bytes for which they stand."""
    return re.sub(
        r"\\(?:x|udc|uDC)([89a-fA-F][0-9a-fA-F])", lambda found: chr(0xDC00 + int(found[1], 16)), path
    )


def shrink(
    picture: Picture,
    where: str,
    *,
    area_px: int,
    kind: str = "WEBP",
    quality: int = 82,
    crop: Area | None = None,
) -> Copy:
    """Make an upright copy of at most `area_px` pixels: first frame, transparency on white.

    Args:
        picture: picture whose file is read, once.
        where: the step, for messages.
        area_px: maximum number of pixels, > 0; smaller originals keep their size.
        kind: WEBP or JPEG.
        quality: encoder's quality, 1 to 100.
        crop: part to copy; None for the whole picture.
    Raises:
        DataError: no file has the indexed content, or it cannot be read.
    """
    path, file = indexed(picture, where)
    size = picture.width_px, picture.height_px
    try:
        return scaled(
            file.data, path.suffix.lower(), size, area_px=area_px, kind=kind, quality=quality, crop=crop
        )
    except PictureError as error:
        raise _unreadable(path, where, error) from error


def scaled(
    data: bytes,
    suffix: str,
    size: tuple[int, int],
    *,
    area_px: int,
    kind: str = "WEBP",
    quality: int = 82,
    crop: Area | None = None,
) -> Copy:
    """Like `shrink`, from the bytes of a file.

    Args:
        data: the whole file.
        suffix: extension of its name, in lower case.
        size: its upright size in pixels.
        area_px: see `shrink`.
        kind: see `shrink`.
        quality: see `shrink`.
        crop: see `shrink`.
    Raises:
        PictureError: it cannot be read.
    """
    part = crop or WHOLE
    wide, tall = fitted(math.ceil(size[0] * part.width), math.ceil(size[1] * part.height), area_px)
    # The decoder returns at least twice the requested size; a clean resize needs one and a half times.
    side_px = max(1, math.ceil(0.75 * min(round(wide / part.width), round(tall / part.height))))
    image = _cropped(decode(data, side_px=side_px, suffix=suffix).rgb, part)
    due = fitted(image.width, image.height, area_px)
    if due != image.size:
        image = image.resize(due, Resampling.LANCZOS)
    # Camera metadata (place, time, comments) are not copied.
    image.info = {}
    out = io.BytesIO()
    image.save(out, kind, quality=quality, **({"method": 4} if kind == "WEBP" else {"optimize": True}))
    return Copy(out.getvalue(), f"image/{kind.lower()}", *due)


def fitted(width: int, height: int, area_px: int) -> tuple[int, int]:
    """Size of a copy: same aspect ratio, at most `area_px` pixels and the maximum side, never larger.

    Args:
        width: width of the original in pixels, ≥ 1.
        height: height of the original in pixels, ≥ 1.
        area_px: maximum number of pixels, > 0.
    Returns:
        Width and height in pixels, each at least 1.
    """
    scale = min(1.0, math.sqrt(area_px / (width * height)), MAX_SIDE_PX / max(width, height))
    return max(1, math.floor(width * scale)), max(1, math.floor(height * scale))


def _cropped(image: Image, part: Area) -> Image:
    """Crop an upright picture, to at least one pixel."""
    if part == WHOLE:
        return image
    left, top = (
        min(math.floor(at * size), size - 1) for at, size in zip((part.x, part.y), image.size, strict=True)
    )
    right = max(left + 1, min(image.width, round((part.x + part.width) * image.width)))
    lower = max(top + 1, min(image.height, round((part.y + part.height) * image.height)))
    return image.crop((left, top, right, lower))
