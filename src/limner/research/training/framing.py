"""How the file of a picture becomes the square that a backbone is trained on, and the one it is measured on.

What is drawn in training follows from a generator that the caller gives; measuring draws nothing.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from limner.arrays import ByteArray
from limner.encoders.framing import SIDE_PX, frame, shorter_side_px

Crop = Literal["none", "random", "resized"]
AREA, SHAPE, TRIES = (0.08, 1.0), (3 / 4, 4 / 3), 10
LOG_SHAPE = (math.log(SHAPE[0]), math.log(SHAPE[1]))


@dataclass(frozen=True)
class TrainingFraming:
    """Which part of a picture is seen.

    Attributes:
        side_px: of the square.
        crop: "none" scales width and height apart, so that all of the picture is seen; "random" scales the
            shorter side to the square's and draws where along the longer one the square lies, which is the
            middle in measuring; "resized" draws a part of 8 to 100 % of the area with sides of 3:4 to 4:3,
            and measures the centre of the picture, scaled to 8/7 of the square.
        flip: mirror a picture in training with probability one half.
    Source: docs/methods/data.md §6.
    """

    side_px: int = SIDE_PX
    crop: Crop = "none"
    flip: bool = False

    @property
    def shorter_px(self) -> int:
        """Pixels of the shorter side that measuring makes use of."""
        return shorter_side_px(self.side_px, "crop") if self.crop == "resized" else self.side_px

    @property
    def drawn_from_px(self) -> int | None:
        """Pixels of the shorter side that training makes use of; None for all, of which a part is taken."""
        return None if self.crop == "resized" else self.side_px

    def plain(self, picture: Image.Image) -> ByteArray:
        """An upright RGB picture → (side, side, 3) bytes, as it is measured."""
        if self.crop == "random":
            return crop(picture, (0.5, 0.5), self.side_px)
        return frame(picture, self.side_px, "crop" if self.crop == "resized" else "squash")

    def drawn(self, picture: Image.Image, rng: np.random.Generator) -> ByteArray:
        """An upright RGB picture → (side, side, 3) bytes, as it is trained on."""
        if self.crop == "none":
            found = self.plain(picture)
        elif self.crop == "random":
            found = crop(picture, rng.random(2), self.side_px)
        else:
            size, box = (self.side_px, self.side_px), part(picture.size, rng)
            found = np.asarray(picture.resize(size, Image.Resampling.BILINEAR, box=box, reducing_gap=2.0))
        return found[:, ::-1] if self.flip and rng.random() < 0.5 else found


WHOLE = TrainingFraming()
"""As stored features see a picture."""


def crop(picture: Image.Image, at: Sequence[float] | NDArray[np.float64], side_px: int) -> ByteArray:
    """Shorter side to that of the square, then the square.

    Args:
        picture: RGB, upright.
        at: where the square lies along width and height, each in [0, 1]; 0.5 is the centre.
        side_px: of the square.
    Returns:
        (side, side, 3).
    """
    scale = side_px / min(picture.size)
    width, height = (max(side_px, round(side * scale)) for side in picture.size)
    resized = picture.resize((width, height), Image.Resampling.BILINEAR)
    left, top = round(at[0] * (width - side_px)), round(at[1] * (height - side_px))
    return np.asarray(resized.crop((left, top, left + side_px, top + side_px)))


def part(size: tuple[int, int], rng: np.random.Generator) -> tuple[int, int, int, int]:
    """A part of a picture of random area and shape, anywhere: left, top, right, bottom, in pixels.

    After ten draws that do not fit it is the largest part in the middle whose shape is allowed.

    Source: the random resized crop of torchvision, which VSE++ trains with; docs/methods/data.md §6. Departs:
    drawn from a generator of the picture's own, so that it does not depend on what was drawn before.
    """
    width, height = size
    for _ in range(TRIES):
        area, shape = width * height * rng.uniform(*AREA), math.exp(rng.uniform(*LOG_SHAPE))
        wide, high = round(math.sqrt(area * shape)), round(math.sqrt(area / shape))
        if 0 < wide <= width and 0 < high <= height:
            left, top = int(rng.integers(width - wide + 1)), int(rng.integers(height - high + 1))
            return left, top, left + wide, top + high
    wide = min(width, max(1, round(height * SHAPE[1])))
    high = min(height, max(1, round(width / SHAPE[0])))
    left, top = (width - wide) // 2, (height - high) // 2
    return left, top, left + wide, top + high
