"""Pixels of any mode and orientation → upright RGB of 8 bits.

Alpha is laid on white, deep grey is scaled in place of clipped, and EXIF says how a camera was held. It
opens no files and resizes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from limner.errors import DataError

if TYPE_CHECKING:
    from PIL.Image import Image, Transpose


class PictureError(DataError):
    """A file that cannot be used as a picture, and why.

    Attributes:
        lasting: True where the same bytes will always fail, so that there is no use in trying again.
    """

    def __init__(self, reason: str, *, lasting: bool = True) -> None:
        super().__init__(reason)
        self.lasting = lasting


def orientation(image: Image) -> Transpose | None:
    """How to turn a picture upright by its EXIF orientation; None where it already is, or EXIF is damaged."""
    from PIL.Image import Transpose as Turn

    try:
        value = image.getexif().get(0x0112, 1)
    # Damaged EXIF raises nearly anything; it is reported with the other metadata and the picture kept.
    except Exception:
        return None
    return {
        2: Turn.FLIP_LEFT_RIGHT,
        3: Turn.ROTATE_180,
        4: Turn.FLIP_TOP_BOTTOM,
        5: Turn.TRANSPOSE,
        6: Turn.ROTATE_270,
        7: Turn.TRANSVERSE,
        8: Turn.ROTATE_90,
    }.get(value)


def to_rgb(image: Image) -> Image:
    """Any mode → RGB: alpha on white, deep grey scaled, not clipped."""
    from PIL import Image as Pillow

    if image.mode in ("I", "F") or image.mode.startswith("I;16"):
        return Pillow.fromarray(_deep_grey(np.asarray(image))).convert("RGB")
    if image.mode in ("RGBA", "LA", "PA", "RGBa", "La") or "transparency" in image.info:
        layer = image.convert("RGBA")
        white = Pillow.new("RGBA", layer.size, (255, 255, 255, 255))
        return Pillow.alpha_composite(white, layer).convert("RGB")
    return image if image.mode == "RGB" else image.convert("RGB")


def _deep_grey(values: np.typing.NDArray[np.generic]) -> np.typing.NDArray[np.uint8]:
    """Grey of more than 8 bits → 8 bits.

    Unsigned 16 bit maps 0…65535 to 0…255. Wider integers and floats state no range: 0…255, 0…65535 or 0…1
    is taken where all values lie in it, else their own minimum and maximum are.
    """
    wide = values.astype(np.float64)
    if not np.isfinite(wide).all():
        raise PictureError("a pixel is not a finite number")
    low, high = float(wide.min()), float(wide.max())
    if values.dtype.kind == "u" and values.dtype.itemsize == 2:
        low, high = 0.0, 65535.0
    elif low >= 0 and values.dtype.kind == "f" and high <= 1:
        low, high = 0.0, 1.0
    elif low >= 0 and high <= 65535:
        low, high = 0.0, 255.0 if high <= 255 else 65535.0
    return np.rint((wide - low) * (255.0 / max(high - low, 1e-12))).astype(np.uint8)
