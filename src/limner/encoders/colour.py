"""A classical descriptor of colour, layout and edges, for machines without any weights.

It finds pictures of the same style and palette quickly. It is not a network and has no information
on the content of a picture, so texts cannot be compared with it.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import numpy as np

from limner.arrays import ByteArray, FloatArray, ImageVectors, unit_rows
from limner.encoders.framing import checked, frame

if TYPE_CHECKING:
    from PIL.Image import Image


_METHOD = "colour/1"
_SIDE_PX = 64
_BINS = (5, 7, 7)  # lightness, a, b
_LOW = (0.0, -60.0, -60.0)
_HIGH = (100.0, 60.0, 60.0)
_CELLS = 4
_DIRECTIONS = 8
_WEIGHTS = (0.8, 0.1, 0.1)  # palette, layout, edges: shares of the squared length
_FLAT = 2.0  # lightness units; gradients below it are noise of compression

# sRGB primaries to CIE XYZ (IEC 61966-2-1), divided by the D65 white point.
_TO_XYZ = np.asarray(
    [
        [0.4124 / 0.9505, 0.3576 / 0.9505, 0.1805 / 0.9505],
        [0.2126, 0.7152, 0.0722],
        [0.0193 / 1.089, 0.1192 / 1.089, 0.9505 / 1.089],
    ],
    dtype=np.float32,
)


class ColourEncoder:
    """Image encoder of the space ``colour``.

    Three blocks, each of unit length, joined so that a cosine is 0.8 palette + 0.1 layout +
    0.1 edges: the square root of a soft CIE Lab histogram (5 × 7 × 7, Hellinger affinity), the mean
    Lab colour of 4 × 4 cells, and the square root of edge directions (8) weighted by strength in the same
    cells. The third block of a picture without edges is zero.

    The shares were chosen on 80 storybook training stories, picture → another picture of its story
    (R@1 .578; palette alone .566); on validation R@1 is .676 where a ResNet-50 reaches .783.

    Source: Swain & Ballard 1991 (colour histograms); Dalal & Triggs 2005 (oriented gradients);
    Arandjelovic & Zisserman 2012 (square root).
    """

    name = "colour"
    spaces = {"colour": int(np.prod(_BINS)) + _CELLS * _CELLS * (4 + _DIRECTIONS)}  # noqa: RUF012
    side_px = _SIDE_PX
    fingerprint = hashlib.sha256(
        repr((_METHOD, _SIDE_PX, _BINS, _LOW, _HIGH, _CELLS, _DIRECTIONS, _WEIGHTS, _FLAT)).encode()
    ).hexdigest()

    def prepare(self, image: Image) -> ByteArray:
        """Prepare an upright RGB picture as (64, 64, 3) bytes; the whole picture is scaled to a square."""
        return frame(image, _SIDE_PX)

    def encode_pixels(self, batch: ByteArray) -> ImageVectors:
        """(B, 64, 64, 3) bytes → vectors; no labels.

        Raises:
            ShapeError: not B such squares.
        """
        lab = to_lab(checked(self.name, batch, _SIDE_PX))
        blocks = (_palette(lab), _layout(lab), _edges(lab[..., 0]))
        parts = [
            unit_rows("colour", block) * np.float32(weight**0.5)
            for block, weight in zip(blocks, _WEIGHTS, strict=True)
        ]
        return ImageVectors({"colour": unit_rows("colour", np.concatenate(parts, axis=1))})


def to_lab(pixels: ByteArray) -> FloatArray:
    """Bytes of sRGB (…, 3) → CIE Lab (…, 3) under D65: L in [0, 100], a and b about ±110.

    Source: CIE 15:2004; IEC 61966-2-1.
    """
    steps = np.arange(256, dtype=np.float32) / 255
    linear = np.where(steps <= 0.04045, steps / 12.92, ((steps + 0.055) / 1.055) ** 2.4).astype(np.float32)
    xyz = linear[pixels] @ _TO_XYZ.T
    curve = np.where(xyz > (6 / 29) ** 3, np.cbrt(xyz), xyz * (29 / 6) ** 2 / 3 + 4 / 29)
    x, y, z = np.moveaxis(curve, -1, 0)
    return np.stack([116 * y - 16, 500 * (x - y), 200 * (y - z)], axis=-1).astype(np.float32)


def _palette(lab: FloatArray) -> FloatArray:
    """(B, H, W, 3) → (B, 245) square roots of shares; a pixel is spread over the 8 nearest bins."""
    count, bins = len(lab), np.asarray(_BINS)
    low, high = np.asarray(_LOW, dtype=np.float32), np.asarray(_HIGH, dtype=np.float32)
    place = (lab.reshape(-1, 3) - low) / (high - low) * (bins - 1)
    place = np.clip(place, 0, bins - 1).astype(np.float32)
    # one row per axis: strided reads of three interleaved values take four times as long
    floor = np.minimum(place.astype(np.int64), bins - 2).T.copy()
    part = place.T - floor
    near = (1 - part, part)
    strides = (int(bins[1] * bins[2]), int(bins[2]), 1)
    total = int(bins.prod())
    first = np.repeat(np.arange(count) * total, lab[0].size // 3)
    for axis, stride in enumerate(strides):
        first += floor[axis] * stride
    histogram = np.zeros(count * total)
    for light, a, b in np.ndindex(2, 2, 2):
        share = near[light][0] * near[a][1] * near[b][2]
        flat = first + int(np.dot((light, a, b), strides))
        histogram += np.bincount(flat, weights=share, minlength=count * total)
    return np.sqrt(histogram.reshape(count, total)).astype(np.float32)


def _cell_sums(values: FloatArray) -> FloatArray:
    """(B, 64, 64, K) → (B, 16, K) sums over square cells."""
    count, side, channels = len(values), _SIDE_PX // _CELLS, values.shape[-1]
    cells: FloatArray = values.reshape(count, _CELLS, side, _CELLS, side, channels).sum(axis=(2, 4))
    return cells.reshape(count, _CELLS * _CELLS, channels)


def _layout(lab: FloatArray) -> FloatArray:
    """(B, H, W, 3) → (B, 64): per cell 0.5 and the mean of L, a and b scaled to about ±1."""
    means = _cell_sums(lab) / (_SIDE_PX // _CELLS) ** 2
    scaled = (means - np.asarray([50, 0, 0])) / np.asarray([50, 40, 40])
    # the constant keeps mid-grey cells, which are zero in the other three, from being zero vectors
    constant = np.full((*scaled.shape[:2], 1), 0.5)
    return np.concatenate([constant, scaled], axis=2).reshape(len(lab), -1).astype(np.float32)


def _edges(lightness: FloatArray) -> FloatArray:
    """(B, H, W) → (B, 128): per cell, square roots of edge strength by direction modulo 180°."""
    down = np.zeros_like(lightness)
    across = np.zeros_like(lightness)
    down[:, 1:-1] = (lightness[:, 2:] - lightness[:, :-2]) / 2
    across[:, :, 1:-1] = (lightness[:, :, 2:] - lightness[:, :, :-2]) / 2
    strength = np.hypot(down, across)
    strength[strength < _FLAT] = 0
    place = (np.arctan2(down, across) % np.pi) * (_DIRECTIONS / np.pi)
    floor = place.astype(np.int64) % _DIRECTIONS
    part = place - np.floor(place)
    spread = np.zeros((*lightness.shape, _DIRECTIONS), dtype=np.float32)
    np.put_along_axis(spread, floor[..., None], (strength * (1 - part))[..., None], axis=-1)
    after = ((floor + 1) % _DIRECTIONS)[..., None]
    np.put_along_axis(spread, after, (strength * part)[..., None], axis=-1)
    return np.sqrt(_cell_sums(spread)).reshape(len(lightness), -1).astype(np.float32)
