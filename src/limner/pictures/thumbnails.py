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
from limner.pictures.decode import MAX_DECODED_PIXELS, FileBytes, PictureError, decode, read_file
from limner.records import WHOLE, Area, Picture

MAX_SIDE_PX = 3000
"""Maximum longer side of a scaled copy; only panoramas reach it, others reach the maximum area first."""

MAX_WHOLE_PX = 16_383
"""Maximum longer side of an unscaled copy: the limit of WebP."""

RESTORE = "restore the file, or run 'limner index' and illustrate again"
WITHOUT_ORIGINALS = "export without --originals, which decodes large JPEGs smaller, or scale the file down"
"""Advice if a picture cannot be copied."""


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


def _unreadable(path: Path, where: str, error: PictureError, hint: str = RESTORE) -> DataError:
    return DataError(f"export: {where}: {display(os.fsencode(path))}: {error}; {hint}")


def _unescaped(path: str) -> str:
    r"""The path with \xNN and \udcNN converted to the bytes for which they stand."""
    return re.sub(
        r"\\(?:x|udc|uDC)([89a-fA-F][0-9a-fA-F])", lambda found: chr(0xDC00 + int(found[1], 16)), path
    )


def shrink(
    picture: Picture,
    where: str,
    *,
    area_px: int | None,
    kind: str = "WEBP",
    quality: int = 82,
    crop: Area | None = None,
) -> Copy:
    """Make an upright copy of at most `area_px` pixels: first frame, transparency on white.

    Args:
        picture: picture whose file is read, once.
        where: the step, for messages.
        area_px: maximum number of pixels, > 0; smaller originals keep their size. None: no maximum.
        kind: WEBP or JPEG.
        quality: encoder's quality, 1 to 100.
        crop: part to copy; None for the whole picture.
    Raises:
        DataError: no file has the indexed content, or it cannot be read.
    """
    path, file = indexed(picture, where)
    part = crop or WHOLE
    wide, tall = picture.width_px * part.width, picture.height_px * part.height
    due = fitted(math.ceil(wide), math.ceil(tall), area_px)
    due = max(1, round(due[0] / part.width)), max(1, round(due[1] / part.height))
    too_large = area_px is None and picture.width_px * picture.height_px > MAX_DECODED_PIXELS
    hint = WITHOUT_ORIGINALS if too_large else RESTORE
    return _scaled(path, file, where, area_px, (kind, quality), due, part=part, hint=hint)


def scaled(
    path: Path, sha256: str | None, where: str, *, area_px: int | None, kind: str = "WEBP", quality: int = 82
) -> Copy:
    """Like `shrink`, for a file outside any library.

    Args:
        path: path of the file.
        sha256: hash of its content when the text that shows it was read.
        where: step or text that shows it, for messages.
        area_px: see `shrink`.
        kind: see `shrink`.
        quality: see `shrink`.
    Raises:
        DataError: the file does not exist, has changed, or is not a readable picture.
    """
    try:
        file = read_file(os.fsencode(path))
    except PictureError as error:
        raise _unreadable(path, where, error) from error
    if file.sha256 != sha256:
        raise DataError("its content may have changed since the text was read; illustrate the text again")
    return _scaled(path, file, where, area_px, (kind, quality), None)


def _scaled(  # noqa: PLR0917
    path: Path,
    file: FileBytes,
    where: str,
    area_px: int | None,
    form: tuple[str, int],
    due: tuple[int, int] | None,
    *,
    part: Area = WHOLE,
    hint: str = RESTORE,
) -> Copy:
    """Make a copy of a file, decoded at a reduced size if possible.

    Raises:
        DataError: it cannot be read; `hint` is the advice.
    """
    try:
        # The decoder returns at least twice the requested size; a clean resize needs one and a half times.
        side = None if due is None else max(1, math.ceil(0.75 * min(due)))
        decoded = decode(file.data, side_px=side, suffix=path.suffix.lower())
    except PictureError as error:
        raise _unreadable(path, where, error, hint) from error
    kind, quality = form
    image = _cropped(decoded.rgb, part)
    size = fitted(image.width, image.height, area_px)
    if size != image.size:
        image = image.resize(size, Resampling.LANCZOS)
    # Camera metadata (place, time, comments) are not copied.
    image.info = {}
    out = io.BytesIO()
    if kind == "WEBP":
        image.save(out, kind, quality=quality, method=4)
    else:
        image.save(out, kind, quality=quality, optimize=True)
    return Copy(out.getvalue(), f"image/{kind.lower()}", *size)


def fitted(width: int, height: int, area_px: int | None) -> tuple[int, int]:
    """Size of a copy: same aspect ratio, at most `area_px` pixels and the maximum side, never larger.

    Args:
        width: width of the original in pixels, ≥ 1.
        height: height of the original in pixels, ≥ 1.
        area_px: maximum number of pixels, > 0; None: no maximum.
    Returns:
        Width and height in pixels, each at least 1.
    """
    side = MAX_WHOLE_PX if area_px is None else MAX_SIDE_PX
    area = width * height if area_px is None else area_px
    scale = min(1.0, math.sqrt(area / (width * height)), side / max(width, height))
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
