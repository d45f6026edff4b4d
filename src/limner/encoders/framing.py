"""From an upright picture to the square of bytes a backbone takes.

Kept apart because every backbone shares it and because the choice is visible in the vectors: a crop
loses the sides of a wide drawing. It neither decodes files nor normalises colours.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, get_args

import numpy as np

from limner.errors import ConfigError, DataError, unknown
from limner.similarity import ByteArray

if TYPE_CHECKING:
    from PIL.Image import Image

Framing = Literal["squash", "crop", "pad"]
_CROP_MARGIN = 256 / 224
IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)


def check_framing(name: str) -> None:
    """Refuse a framing that does not exist.

    Raises:
        ConfigError: naming the nearest one.
    """
    if name not in get_args(Framing):
        raise ConfigError("encoder: " + unknown("framing", name, get_args(Framing)))


def shorter_side_px(side_px: int, framing: Framing) -> int:
    """Pixels of the shorter side that `frame` makes use of."""
    return round(side_px * _CROP_MARGIN) if framing == "crop" else side_px


def frame(image: Image, side_px: int, framing: Framing, *, bicubic: bool = False) -> ByteArray:
    """One upright RGB picture → (side, side, 3) bytes.

    Args:
        image: mode RGB.
        side_px: side of the square.
        framing: ``squash`` scales width and height apart, so all of the picture is seen; ``crop``
            scales the shorter side to 8/7 of the square and cuts out its centre, as ImageNet
            classifiers are tested; ``pad`` keeps proportions and fills with mid-grey.
        bicubic: how pixels in between are found; bilinear unless given.
    Raises:
        DataError: the picture is not RGB.
    """
    from PIL.Image import Resampling, new

    if image.mode != "RGB":
        raise DataError(f"encoder: picture has mode {image.mode}, expected RGB; convert it first")
    between = Resampling.BICUBIC if bicubic else Resampling.BILINEAR
    width, height = image.size
    square = (side_px, side_px)
    # A gap of 2 halves large pictures by box filter first: same look, far less work.
    if framing == "squash":
        shown = image.resize(square, between, reducing_gap=2.0)
    elif framing == "crop":
        part = min(width, height) / _CROP_MARGIN
        left, top = (width - part) / 2, (height - part) / 2
        box = (left, top, left + part, top + part)
        shown = image.resize(square, between, box=box, reducing_gap=2.0)
    else:
        scale = side_px / max(width, height)
        size = (max(1, round(width * scale)), max(1, round(height * scale)))
        inner = image.resize(size, between, reducing_gap=2.0)
        shown = new("RGB", square, (124, 116, 104))  # the mean of ImageNet: zero once normalised
        shown.paste(inner, ((side_px - size[0]) // 2, (side_px - size[1]) // 2))
    return np.array(shown, dtype=np.uint8)
