"""Scaled copies of pictures for the exports: upright, in sRGB, without the camera's metadata.

A shared page must neither carry 12 megapixels per step nor the place where a photo was taken.
"""

import base64
import io
import math
import os
import re
from dataclasses import dataclass, replace
from pathlib import Path

from PIL.Image import Image, Resampling

from limner.errors import DataError
from limner.files import display
from limner.pictures.decode import decode, read_file
from limner.pictures.formats import MAX_DECODED_PIXELS, PictureError
from limner.pictures.stored import is_there
from limner.records import WHOLE, Area, Picture

MAX_SIDE_PX = 3000
"""Longest side of a copy that is scaled; only panoramas and scrolls meet it, others meet their area first."""

MAX_WHOLE_PX = 16_383
"""Longest side of a copy that is not: what WebP can hold."""

RESTORE = "restore the file, or run 'limner index' and illustrate again"
WITHOUT_ORIGINALS = "export without --originals, which decodes large JPEGs smaller, or scale the file down"
"""What to do where a picture cannot be copied."""


@dataclass(frozen=True)
class Copy:
    """A scaled copy.

    Attributes:
        data: the encoded file.
        media_type: such as image/webp.
        width_px, height_px: upright size of the copy.
        warnings: that the original is no longer the file that was indexed, or nothing.
    """

    data: bytes
    media_type: str
    width_px: int
    height_px: int
    warnings: tuple[str, ...] = ()

    @property
    def uri(self) -> str:
        """The copy as a data URI."""
        return f"data:{self.media_type};base64,{base64.b64encode(self.data).decode('ascii')}"


def locate(picture: Picture, where: str) -> Path:
    """The first of a picture's files that is there.

    Args:
        picture: its `paths` are display text, in which bytes that are no UTF-8 are written as
            backslash escapes; both readings are tried.
        where: the step, for the message.
    Raises:
        DataError: none of the files is there.
    """
    for path in picture.paths:
        for name in (path, _unescaped(path)):
            if is_there(name):
                return Path(name)
    raise DataError(
        f"export: {where}: the picture {picture.path} is not there (moved, or its drive missing?);"
        " put it back, or run 'limner index' and illustrate again"
    )


def _unescaped(path: str) -> str:
    r"""The path with \xNN and \udcNN read as the bytes they stand for."""
    return re.sub(
        r"\\(?:x|udc|uDC)([89a-fA-F][0-9a-fA-F])", lambda found: chr(0xDC00 + int(found[1], 16)), path
    )


def changed(path: Path, where: str) -> str:
    """The warning for a file whose bytes are not those that were indexed."""
    return f"{where}: {display(os.fsencode(path))} has changed since it was indexed"


def shrink(
    picture: Picture,
    where: str,
    *,
    area_px: int | None,
    kind: str = "WEBP",
    quality: int = 82,
    crop: Area | None = None,
) -> Copy:
    """A copy of at most `area_px` pixels, upright, first frame, on white where it was transparent.

    Args:
        picture: whose file is read, once.
        where: the step, for messages.
        area_px: pixels of the copy, > 0; smaller originals keep their size. None: all that there are.
        kind: WEBP or JPEG.
        quality: encoder's quality, 1 to 100.
        crop: the part of it that is copied; None for all of it.
    Raises:
        DataError: the file is not there or is no picture that can be read.
    """
    path = locate(picture, where)
    part = crop or WHOLE
    wide, tall = picture.width_px * part.width, picture.height_px * part.height
    due = fitted(math.ceil(wide), math.ceil(tall), area_px)
    due = max(1, round(due[0] / part.width)), max(1, round(due[1] / part.height))
    too_large = area_px is None and picture.width_px * picture.height_px > MAX_DECODED_PIXELS
    hint = WITHOUT_ORIGINALS if too_large else RESTORE
    copy, content = _scaled(path, where, area_px, (kind, quality), due, part=part, hint=hint)
    return copy if content == picture.id else replace(copy, warnings=(changed(path, where),))


def scaled(path: Path, where: str, *, area_px: int | None, kind: str = "WEBP", quality: int = 82) -> Copy:
    """As `shrink`, of a file that is of no library.

    Raises:
        DataError: the file is not there or is no picture that can be read.
    """
    return _scaled(path, where, area_px, (kind, quality), None)[0]


def _scaled(
    path: Path,
    where: str,
    area_px: int | None,
    form: tuple[str, int],
    due: tuple[int, int] | None,
    *,
    part: Area = WHOLE,
    hint: str = RESTORE,
) -> tuple[Copy, str]:
    """The copy of a file, decoded for a size where one is due, and the SHA-256 of the file.

    Raises:
        DataError: it cannot be read; `hint` says what to do.
    """
    try:
        file = read_file(os.fsencode(path))
        # Twice this is decoded at least: half as much again as is needed, for a clean resize.
        side = None if due is None else max(1, math.ceil(0.75 * min(due)))
        decoded = decode(file.data, side_px=side, suffix=path.suffix.lower())
    except PictureError as error:
        raise DataError(f"export: {where}: {display(os.fsencode(path))}: {error}; {hint}") from error
    kind, quality = form
    image = _cropped(decoded.rgb, part)
    size = fitted(image.width, image.height, area_px)
    if size != image.size:
        image = image.resize(size, Resampling.LANCZOS)
    # What the camera wrote (place, time, comments) stays with the original.
    image.info = {}
    out = io.BytesIO()
    if kind == "WEBP":
        image.save(out, kind, quality=quality, method=4)
    else:
        image.save(out, kind, quality=quality, optimize=True)
    return Copy(out.getvalue(), f"image/{kind.lower()}", *size), file.sha256


def fitted(width: int, height: int, area_px: int | None) -> tuple[int, int]:
    """Size of a copy: same aspect, at most `area_px` pixels and so many a side, never larger.

    Args:
        width: of the original in pixels, ≥ 1.
        height: likewise.
        area_px: pixels, > 0; None: all.
    Returns:
        width and height in pixels, each at least 1.
    """
    side = MAX_WHOLE_PX if area_px is None else MAX_SIDE_PX
    area = width * height if area_px is None else area_px
    scale = min(1.0, math.sqrt(area / (width * height)), side / max(width, height))
    return max(1, math.floor(width * scale)), max(1, math.floor(height * scale))


def _cropped(image: Image, part: Area) -> Image:
    """A part of an upright picture, of one pixel at least."""
    if part == WHOLE:
        return image
    left, top = (
        min(math.floor(at * size), size - 1) for at, size in zip((part.x, part.y), image.size, strict=True)
    )
    right = max(left + 1, min(image.width, round((part.x + part.width) * image.width)))
    lower = max(top + 1, min(image.height, round((part.y + part.height) * image.height)))
    return image.crop((left, top, right, lower))
