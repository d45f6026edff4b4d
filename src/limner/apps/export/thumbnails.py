"""Scaled copies of pictures for the exports: upright, in sRGB, without the camera's metadata.

A shared page must neither carry 12 megapixels per step nor the place where a photo was taken.
Originals are opened for reading only; nothing is cached on disk.
"""

import base64
import hashlib
import io
import math
import os
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from limner.data.records import Picture
from limner.errors import DataError

if TYPE_CHECKING:
    from PIL import Image

MAX_SIDE_PX = 3000
"""Longest side of any copy; only panoramas and scrolls meet it, others meet their area first."""


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
            if Path(name).is_file():
                return Path(name)
    raise DataError(
        f"export: {where}: the picture {picture.path} is not there (was it moved or is a drive missing?);"
        " put it back, or run 'limner index' and illustrate again"
    )


def _unescaped(path: str) -> str:
    r"""The path with \xNN and \udcNN read as the bytes they stand for."""
    import re

    def byte(found: "re.Match[str]") -> str:
        return chr(0xDC00 + int(found.group(1), 16))

    return re.sub(r"\\(?:x|udc|uDC)([89a-fA-F][0-9a-fA-F])", byte, path)


def digest(path: Path) -> str:
    """SHA-256 of a file's bytes, read in pieces, as 64 hex digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def shrink(path: Path, where: str, *, area_px: int, kind: str = "WEBP", quality: int = 82) -> Copy:
    """A copy of at most `area_px` pixels, upright, flattened to its first frame.

    Args:
        path: the original.
        where: the step, for messages.
        area_px: pixels of the copy, > 0; smaller originals keep their size.
        kind: WEBP (keeps transparency) or JPEG (on white).
        quality: encoder's quality, 1 to 100.
    Raises:
        DataError: the file is no picture that can be read.
    """
    image = opened(path, where, area_px=area_px)
    with image:
        width, height = fitted(image.width, image.height, area_px)
        from PIL import Image

        small = (
            image
            if (width, height) == image.size
            else image.resize((width, height), Image.Resampling.LANCZOS)
        )
        if kind == "JPEG":
            small = _on_white(small)
        out = io.BytesIO()
        small.save(out, kind, quality=quality, **({"method": 4} if kind == "WEBP" else {"optimize": True}))
    return Copy(out.getvalue(), f"image/{kind.lower()}", width, height)


def fitted(width: int, height: int, area_px: int) -> tuple[int, int]:
    """Size of a copy: same aspect, at most `area_px` pixels and `MAX_SIDE_PX` a side, never larger.

    Args:
        width: of the original in pixels, ≥ 1.
        height: likewise.
        area_px: pixels, > 0.
    Returns:
        width and height in pixels, each at least 1.
    """
    scale = min(1.0, math.sqrt(area_px / (width * height)), MAX_SIDE_PX / max(width, height))
    return max(1, round(width * scale)), max(1, round(height * scale))


def opened(path: Path, where: str, *, area_px: int) -> "Image.Image":
    """The first frame, upright, in sRGB, mode RGB or RGBA; JPEGs decoded at reduced scale.

    Args:
        path: the original.
        where: the step, for messages.
        area_px: pixels that will be needed; a JPEG is decoded to not much more than that.
    Raises:
        DataError: the file is no picture that can be read.
    """
    from PIL import Image, ImageOps

    try:
        with warnings.catch_warnings():
            # A picture large enough to warn is refused; other warnings tell of odd metadata,
            # which the copy does not carry.
            warnings.simplefilter("ignore")
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            with Image.open(path) as image:
                wide, high = fitted(image.width, image.height, area_px)
                image.draft(None, (wide, high))
                image.load()
                return _in_srgb(ImageOps.exif_transpose(image))
    except (
        OSError,
        ValueError,
        SyntaxError,
        EOFError,
        Image.DecompressionBombError,
        Image.DecompressionBombWarning,
    ) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise DataError(
            f"export: {where}: {os.fspath(path)!r} cannot be read as a picture ({reason});"
            " run 'limner index' again to drop it, or restore the file"
        ) from error


def _in_srgb(image: "Image.Image") -> "Image.Image":
    """RGB or RGBA in sRGB; a picture without profile is taken as sRGB already."""
    from PIL import ImageCms

    if image.mode.startswith("I;16") or image.mode == "I":
        # 16 bits to 8: Pillow would clip at 255 where the high byte is meant.
        image = image.convert("I").point(lambda value: value * (1 / 257)).convert("L")
    elif image.mode == "F":
        image = image.convert("L")
    alpha = image.mode in ("RGBA", "LA", "PA", "La", "RGBa") or "transparency" in image.info
    profile = image.info.get("icc_profile")
    if isinstance(profile, bytes) and image.mode in ("RGB", "CMYK", "L"):
        try:
            return ImageCms.profileToProfile(
                image,
                ImageCms.ImageCmsProfile(io.BytesIO(profile)),
                ImageCms.createProfile("sRGB"),
                outputMode="RGB",
            ) or image.convert("RGB")
        except (ImageCms.PyCMSError, OSError, ValueError):
            # A broken profile says nothing about the colours: the plain reading is the best there is.
            return image.convert("RGB")
    if image.mode == "RGBA" or (image.mode == "RGB" and not alpha):
        return image
    return image.convert("RGBA" if alpha else "RGB")


def _on_white(image: "Image.Image") -> "Image.Image":
    """The picture on white paper, without transparency."""
    from PIL import Image

    if image.mode != "RGBA":
        return image
    paper = Image.new("RGB", image.size, "white")
    paper.paste(image, mask=image.getchannel("A"))
    return paper
