"""The finish of a picture: the light of the hour, the grain of paper and tool, the margin."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from PIL import Image

from limner.research.worlds.canvas import Canvas, Floats
from limner.research.worlds.world import DrawnScene, Style

LIGHT: dict[str, tuple[float, float, float]] = {
    "morning": (1.0, 0.985, 0.95),
    "noon": (1.0, 1.0, 1.0),
    "sunset": (1.03, 0.90, 0.80),
    "night": (0.62, 0.68, 0.92),
}
PAPER = (252, 248, 238)


def _smooth_noise(rng: np.random.Generator, cells: int, side: int) -> Floats:
    """Noise of mean 0 and spread 1 with blotches of side/cells pixels."""
    coarse = rng.standard_normal((cells, cells)).astype(np.float32)
    fine = np.asarray(
        Image.fromarray(coarse).resize((side, side), Image.Resampling.BICUBIC), dtype=np.float64
    )
    smooth: Floats = (fine - fine.mean()) / (fine.std() + 1e-9)
    return smooth


def grain(style: Style, side: int) -> Floats:
    """Factor per pixel, near 1: the texture of paper and tool.

    Args:
        style: the hand.
        side: pixels.
    Returns:
        (side, side): factors.
    """
    rng = np.random.default_rng(style.seed + 1)
    fine = rng.standard_normal((side, side))
    if style.texture == "paper":
        tooth = 0.022 * fine + 0.012 * _smooth_noise(rng, max(2, side // 4), side)
    elif style.texture == "crayon":
        slant = sum(np.roll(np.roll(fine, k, 0), -k, 1) for k in range(7)) / np.sqrt(7)
        tooth = 0.026 * slant + 0.014 * fine
    elif style.texture == "watercolour":
        tooth = (
            0.020 * _smooth_noise(rng, 6, side)
            + 0.022 * _smooth_noise(rng, max(2, side // 12), side)
            + 0.012 * fine
        )
    elif style.texture == "canvas":
        i = np.arange(side)
        weave = np.sin(i * 2.1)[:, None] + np.sin(i * 2.1)[None, :]
        tooth = 0.018 * weave + 0.018 * fine
    else:
        ridge = np.sin(np.arange(side) * 1.05)
        tooth = 0.03 * (ridge[:, None] * ridge[None, :]) + 0.012 * fine
    return 1 + tooth


def lit(light: Floats, canvas: Canvas, side: int) -> Floats:
    """Colour of the light per pixel: that of the hour, lifted towards white around every lamp and fire.

    Args:
        light: (3,) factors of the hour.
        canvas: knows its lights.
        side: pixels.
    Returns:
        (side, side, 3).
    """
    i = (np.arange(side) + 0.5) / side
    glow = np.zeros((side, side))
    for x, y, radius, strength in canvas.lights:
        fall = np.clip(1 - ((i[None, :] - x) ** 2 + (i[:, None] - y) ** 2) / radius**2, 0, 1)
        glow = np.maximum(glow, fall * min(1.0, 2 * strength))
    return light + np.clip(1 - light, 0, None) * glow[:, :, None]


def finished(canvas: Canvas, scene: DrawnScene, size_px: int) -> Image.Image:
    """The finished picture: reduced, lit, grained, with its paper.

    Args:
        canvas: all drawn.
        scene: gives the hour.
        size_px: side.
    Returns:
        RGB, (size_px, size_px).
    """
    if canvas.image is None:
        raise AssertionError("a canvas without pixels cannot be finished")
    small = canvas.image.resize((size_px, size_px), Image.Resampling.BOX)
    pixels: npt.NDArray[np.float64] = np.asarray(small, dtype=np.float64)
    light = LIGHT[scene.time] if scene.outdoors else tuple(1 - (1 - v) * 0.35 for v in LIGHT[scene.time])
    pixels = pixels * lit(np.asarray(light), canvas, size_px)
    rng = np.random.default_rng(canvas.style.seed + 2)
    texture = grain(canvas.style, size_px)[:, :, None]
    pixels = pixels * texture
    if canvas.style.margin:
        i = (np.arange(size_px) + 0.5) / size_px
        edge = np.minimum(i, 1 - i)
        inside = np.minimum(edge[:, None], edge[None, :]) + 0.004 * _smooth_noise(
            rng, max(2, size_px // 10), size_px
        )
        share = np.clip((inside - 0.016) / 0.010, 0, 1)[:, :, None]
        pixels = pixels * share + np.asarray(PAPER) * (0.6 + 0.4 * texture) * (1 - share)
    return Image.fromarray(np.clip(np.rint(pixels), 0, 255).astype(np.uint8))
