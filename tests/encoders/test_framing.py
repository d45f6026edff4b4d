"""Squares of bytes: what each framing keeps of a wide picture."""

import numpy as np
from PIL import Image

from limner.encoders.framing import frame, shorter_side_px


def wide():
    """Red left quarter, green middle, blue right quarter."""
    pixels = np.zeros((100, 400, 3), np.uint8)
    pixels[:, :100, 0], pixels[:, 100:300, 1], pixels[:, 300:, 2] = 255, 255, 255
    return Image.fromarray(pixels)


def test_squash_keeps_everything():
    square = frame(wide(), 32, "squash")
    assert square[16, 2, 0] == square[16, 16, 1] == square[16, 29, 2] == 255


def test_crop_keeps_the_centre():
    square = frame(wide(), 32, "crop")
    assert (square == (0, 255, 0)).all()
    assert shorter_side_px(224, "crop") == 256
    assert shorter_side_px(224, "squash") == 224


def test_crop_is_the_published_one():
    """Centre crop of 224 after scaling the shorter side to 256, up to rounding of the resampling."""
    rng = np.random.default_rng(0)
    picture = Image.fromarray(rng.integers(0, 256, (16, 20, 3), dtype=np.uint8)).resize(
        (640, 512), Image.Resampling.BICUBIC
    )
    scaled = picture.resize((320, 256), Image.Resampling.BILINEAR).crop((48, 16, 272, 240))
    difference = np.abs(np.asarray(scaled, int) - frame(picture, 224, "crop").astype(int))
    assert difference.mean() < 1.0
