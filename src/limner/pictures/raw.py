"""Camera raw files: the preview that the camera left inside where it is large enough, else the sensor's data.

The extra ``raw`` brings LibRaw, which reads them. Sizes are checked before anything is decoded.
"""

from __future__ import annotations

import io
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from PIL import ExifTags
from PIL import Image as Pillow
from PIL.Image import Image, Transpose

from limner.errors import MissingError, installed
from limner.pictures.formats import (
    MAX_DECODED_PIXELS,
    MAX_HEADER_PIXELS,
    Decoded,
    PictureError,
    identify,
    orientation,
    to_rgb,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

FORMAT = "RAW"
"""Stands where Pillow would name a format."""
NEARLY = 0.9
"""Share of the full side that a preview must have to stand for the picture at full size."""
_FLIPS = {3: Transpose.ROTATE_180, 5: Transpose.ROTATE_90, 6: Transpose.ROTATE_270}
_XMP = 700


def develop(data: bytes, side_px: int | None, suffix: str) -> Decoded:
    """A camera raw file as an upright picture with the file's own metadata.

    Args:
        data: the whole file.
        side_px: shorter side the caller will resize to; None for full size.
        suffix: of the file name, for messages.
    Raises:
        PictureError: the extra is not installed, or the file is damaged, unknown or larger than the limits.
    """
    try:
        with installed(f"camera raw files ({suffix}) need rawpy, which", "'limner[raw]'"):
            import rawpy
    except MissingError as error:
        raise PictureError(str(error)) from error
    try:
        with rawpy.imread(io.BytesIO(data)) as raw:
            sizes = raw.sizes
            turned = sizes.flip in (5, 6)
            width, height = (sizes.height, sizes.width) if turned else (sizes.width, sizes.height)
            if width * height > MAX_HEADER_PIXELS:
                raise PictureError(f"{width} × {height} pixels; at most {MAX_HEADER_PIXELS} are accepted")
            due = NEARLY * min(width, height) if side_px is None else 2.0 * side_px
            image = next((one for one in _previews(raw) if min(one.size) >= due), None)
            if image is None:
                if sizes.raw_width * sizes.raw_height > MAX_DECODED_PIXELS:
                    raise PictureError(
                        f"{width} × {height} pixels; at most {MAX_DECODED_PIXELS} can be decoded"
                    )
                half = side_px is not None and min(width, height) // 2 >= due
                image = Pillow.fromarray(raw.postprocess(use_camera_wb=True, half_size=half))
    except PictureError:
        raise
    except MemoryError as error:
        raise PictureError("not enough memory to decode it", lasting=False) from error
    except rawpy.LibRawError as error:
        what = error.args[0] if error.args else type(error).__name__
        reason = what.decode("utf-8", "replace") if isinstance(what, bytes) else str(what)
        raise PictureError(f"damaged or unknown camera raw file ({suffix}): {reason}") from error
    image.info = {**image.info, **_told(data)}
    return Decoded(image, image, width, height, FORMAT)


def _previews(raw: Any) -> Iterator[Image]:  # noqa: ANN401  (rawpy is untyped)
    """The embedded preview, upright in RGB; none where there is none or it is damaged."""
    # A preview that fails in whatever way costs nothing: the sensor's data are there.
    with suppress(Exception):
        preview = raw.extract_thumb()
        if preview.format.name == "JPEG":
            image = identify(preview.data, ".jpg")
            if image.width * image.height > MAX_DECODED_PIXELS:
                return
            image.load()
            stated = ExifTags.Base.Orientation in image.getexif()
            turn = orientation(image) if stated else _FLIPS.get(raw.sizes.flip)
        else:
            image, turn = Pillow.fromarray(preview.data), _FLIPS.get(raw.sizes.flip)
        rgb = to_rgb(image)
        yield rgb.transpose(turn) if turn is not None else rgb.copy()


def _told(data: bytes) -> dict[str | tuple[int, int], Any]:
    """What a raw file says of itself, as Pillow keeps it: most kinds are TIFF outside; else nothing."""
    exif = Pillow.Exif()
    with suppress(Exception):
        exif.load(data)
        return {"exif": data, **({"xmp": exif[_XMP]} if _XMP in exif else {})} if len(exif) else {}
    return {}
