"""Rooms: kitchen, living room, classroom, with hour and weather in the window.

They stand beside the outdoor places of `places`. No characters, and nothing that a tale puts there.
"""

from __future__ import annotations

from math import sin
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from PIL import Image

from limner.worlds.canvas import RGB, Box, Canvas, Floats, bend, darker, lighter, mix
from limner.worlds.world import Point, Scene, Style

if TYPE_CHECKING:
    from PIL import Image


HORIZON = 0.62


SKY: dict[str, tuple[RGB, RGB]] = {
    "morning": ((160, 208, 238), (255, 238, 210)),
    "noon": ((110, 184, 236), (214, 238, 248)),
    "sunset": ((146, 122, 184), (255, 182, 116)),
    "night": ((30, 40, 96), (96, 112, 176)),
}


def sky_colours(scene: Scene) -> tuple[RGB, RGB]:
    """Top and bottom of the sky for the hour and weather."""
    top, low = SKY[scene.time]
    share = {"cloudy": 0.45, "rainy": 0.65, "snowy": 0.5}.get(scene.weather, 0.0)
    grey: RGB = (70, 78, 110) if scene.time == "night" else (176, 184, 198)
    return mix(top, darker(grey, 0.12) if scene.weather == "rainy" else grey, share), mix(
        low, grey, share * 0.8
    )


def cloud(c: Canvas, at: Point, size: float, fill: RGB) -> None:
    """A puffy cloud."""
    x, y = at
    for dx, dy, r in (
        (-0.09, 0.012, 0.05),
        (0.09, 0.014, 0.045),
        (-0.03, -0.02, 0.065),
        (0.045, -0.012, 0.055),
    ):
        c.oval((x + dx * size, y + dy * size), r * size, r * 0.82 * size, fill, line=0)
    c.slab((x - 0.09 * size, y - 0.005 * size, x + 0.09 * size, y + 0.053 * size), fill, line=0)


def draw_sky(c: Canvas, scene: Scene, low: float = HORIZON + 0.03) -> None:
    """Draw the sky down to `low`, with sun or moon, stars and clouds."""
    top, bottom = sky_colours(scene)
    c.gradient(0, low, top, bottom)
    if scene.time == "night":
        if scene.weather in ("sunny", "windy"):
            for i in range(26):
                x, y = (i * 0.618 + 0.07) % 1, 0.03 + (i * 0.379) % 0.42
                c.oval((x, y), 0.0035 + 0.002 * (i % 3), 0.0035 + 0.002 * (i % 3), (255, 250, 214), line=0)
            with c.part("moon"):
                c.glow((0.80, 0.15), 0.14, (255, 250, 210), 0.45)
                c.oval((0.80, 0.15), 0.058, 0.058, (255, 246, 206), line=0)
                c.oval((0.785, 0.14), 0.012, 0.012, (236, 222, 178), line=0)
                c.oval((0.815, 0.165), 0.009, 0.009, (236, 222, 178), line=0)
    elif scene.weather in ("sunny", "windy"):
        at, r = {
            "morning": ((0.80, 0.30), 0.06),
            "noon": ((0.80, 0.13), 0.062),
            "sunset": ((0.78, 0.54), 0.085),
        }[scene.time]
        with c.part("sun"):
            c.glow(at, r * 3.2, (255, 244, 190), 0.6)
            c.oval(at, r, r, (255, 150, 84) if scene.time == "sunset" else (255, 220, 96), line=0)
    pale: RGB = {"sunset": (255, 214, 190), "night": (120, 130, 176)}.get(scene.time, (255, 255, 255))
    spots: list[tuple[float, float, float]] = [(0.22, 0.16, 0.9), (0.58, 0.10, 0.7)]
    if scene.weather in ("cloudy", "rainy", "snowy"):
        spots = [(0.12, 0.13, 1.3), (0.42, 0.09, 1.5), (0.70, 0.14, 1.4), (0.95, 0.09, 1.2)]
        pale = mix(pale, (120, 126, 146) if scene.weather == "rainy" else (206, 210, 220), 0.6)
    for x, y, size in spots:
        cloud(c, (x, y), size, pale)


def draw_weather(c: Canvas, scene: Scene) -> None:
    """Draw what falls or blows in front of everything; indoors nothing."""
    if not scene.outdoors:
        return
    if scene.weather == "rainy":
        for i in range(5):
            x, y = (i * 0.382 + 0.12) % 1, 0.80 + 0.04 * i
            c.oval((x, y), 0.05, 0.009, (190, 212, 230), line=0, alpha=170)
        for x, y in np.random.default_rng(3).uniform(-0.02, 1.02, (110, 2)):
            c.stroke([(x, y), (x - 0.010, y + 0.034)], 0.0035, (222, 236, 250), line=0, alpha=170)
    elif scene.weather == "snowy":
        for i, (x, y) in enumerate(np.random.default_rng(4).uniform(0, 1, (90, 2))):
            r = 0.004 + 0.002 * (i % 4)
            c.oval((x, y), r, r, (255, 255, 255), line=0, alpha=235)
    elif scene.weather == "windy":
        for x, y, w in ((0.08, 0.22, 0.26), (0.40, 0.30, 0.20), (0.66, 0.24, 0.22), (0.12, 0.50, 0.16)):
            line = bend((x, y), (x + w, y), 0.10)
            hook = [
                (x + w + 0.022 * sin(a), y - 0.022 + 0.022 * float(np.cos(a))) for a in np.linspace(0, 4.4, 9)
            ]
            c.stroke([*line, *hook], 0.005, (255, 255, 255), line=0, alpha=200)
        for i in range(7):
            x, y = (i * 0.382 + 0.05) % 1, 0.30 + (i * 0.271) % 0.5
            c.oval(
                (x, y),
                0.012,
                0.006,
                ((214, 130, 60), (196, 170, 70), (180, 90, 60))[i % 3],
                turn=i * 0.9,
                line=0.5,
            )


def _window(c: Canvas, box: Box, scene: Scene) -> None:
    x0, y0, x1, y1 = box
    top, low = sky_colours(scene)
    with c.part("window"):
        c.slab((x0 - 0.014, y0 - 0.014, x1 + 0.014, y1 + 0.02), "white")
        c.slab((x0, y0, x1, y1), top, line=0.6)
        c.slab((x0, (y0 + y1) / 2, x1, y1), mix(top, low, 0.6), line=0)
        ground: RGB = (240, 245, 250) if scene.weather == "snowy" else (122, 176, 104)
        c.slab((x0, y1 - 0.05, x1, y1), ground, line=0)
        w, h = x1 - x0, y1 - y0
        if scene.time == "night":
            c.oval((x0 + 0.72 * w, y0 + 0.25 * h), 0.024, 0.024, (255, 246, 206), line=0)
            for i in range(4):
                c.oval(
                    (x0 + (0.15 + 0.2 * i) * w, y0 + (0.2 + 0.17 * (i % 2)) * h),
                    0.004,
                    0.004,
                    (255, 250, 214),
                    line=0,
                )
        elif scene.weather in ("sunny", "windy"):
            high = {"morning": 0.5, "noon": 0.24, "sunset": 0.66}[scene.time]
            c.oval(
                (x0 + 0.72 * w, y0 + high * h),
                0.028,
                0.028,
                (255, 160, 90) if scene.time == "sunset" else (255, 222, 110),
                line=0,
            )
        if scene.weather in ("cloudy", "rainy", "snowy"):
            cloud(c, (x0 + 0.5 * w, y0 + 0.2 * h), w * 2.6, (190, 196, 208))
        for i in range(14):
            x, y = x0 + ((i * 0.618) % 0.9 + 0.05) * w, y0 + (0.3 + (i * 0.377) % 0.6) * h
            if scene.weather == "rainy":
                c.stroke([(x, y), (x - 0.006, y + 0.022)], 0.004, (226, 238, 250), line=0)
            elif scene.weather == "snowy":
                c.oval((x, y), 0.005, 0.005, (255, 255, 255), line=0)
        if scene.weather == "windy":
            c.stroke(
                bend((x0 + 0.3 * w, y1 - 0.01), (x0 + 0.5 * w, y0 + 0.4 * h), 0.2),
                0.008,
                (120, 90, 70),
                line=0,
            )
            c.oval((x0 + 0.55 * w, y0 + 0.38 * h), 0.035, 0.022, (104, 168, 84), turn=0.3, line=0)
        c.stroke([((x0 + x1) / 2, y0), ((x0 + x1) / 2, y1)], 0.010, "white", line=0)
        c.stroke([(x0, (y0 + y1) / 2), (x1, (y0 + y1) / 2)], 0.010, "white", line=0)


def _room(c: Canvas, wall: RGB, floor: RGB) -> None:
    c.gradient(0, 0.70, lighter(wall, 0.15), wall)
    c.slab((-0.05, 0.69, 1.05, 0.715), lighter(wall, 0.6), line=0.5)
    c.slab((-0.05, 0.71, 1.05, 1.05), floor, line=0)
    for i in range(6):
        y = 0.71 + 0.05 * i + 0.004 * i * i
        c.stroke([(-0.02, y), (1.02, y)], 0.003, darker(floor, 0.16), line=0)


def draw_kitchen(c: Canvas, scene: Scene) -> None:
    """A kitchen: tiles, shelf and hanging lamp."""
    wall: RGB = (214, 228, 206)
    _room(c, wall, (214, 178, 138))
    for i in range(10):
        for j in range(2):
            c.slab(
                (i * 0.105 - 0.02, 0.56 + j * 0.065, i * 0.105 + 0.08, 0.62 + j * 0.065),
                (246, 244, 236) if (i + j) % 2 else (224, 236, 236),
                line=0,
            )
    _window(c, (0.10, 0.14, 0.34, 0.38), scene)
    with c.part("shelf"):
        c.slab((0.46, 0.30, 0.92, 0.322), "wood")
        for x, fill, h in (
            (0.50, "rose", 0.06),
            (0.57, "cream", 0.08),
            (0.64, "leaf", 0.05),
            (0.83, "blue", 0.07),
        ):
            c.slab((x, 0.30 - h, x + 0.05, 0.30), fill, line=0.8)
        for i, x in enumerate((0.72, 0.77)):
            c.oval((x, 0.275 - 0.005 * i), 0.024, 0.024, ("yellow", "tomato")[i], line=0.8)
    with c.part("hanging lamp"):
        c.stroke([(0.62, 0), (0.62, 0.08)], 0.005, "black", line=0)
        c.area([(0.57, 0.125), (0.60, 0.07), (0.64, 0.07), (0.67, 0.125)], "tomato")


def draw_house(c: Canvas, scene: Scene) -> None:
    """A living room: curtains, picture and rug."""
    _room(c, (244, 218, 184), (186, 138, 102))
    for i in range(8):
        c.slab((i * 0.135 - 0.01, 0, i * 0.135 + 0.05, 0.69), (240, 208, 170), line=0)
    _window(c, (0.11, 0.15, 0.37, 0.41), scene)
    with c.part("curtain"):
        for x0, x1 in ((0.055, 0.125), (0.355, 0.425)):
            c.blob(
                [
                    (x0, 0.11),
                    (x1, 0.11),
                    (x1 - 0.01, 0.28),
                    (x1 + 0.005, 0.47),
                    (x0 - 0.005, 0.47),
                    (x0 + 0.01, 0.28),
                ],
                "rose",
            )
        c.stroke([(0.03, 0.11), (0.45, 0.11)], 0.012, "wood")
    with c.part("picture"):
        c.slab((0.60, 0.16, 0.76, 0.31), "gold")
        c.slab((0.618, 0.178, 0.742, 0.292), (188, 220, 234), line=0.5)
        c.area(
            [(0.618, 0.292), (0.66, 0.22), (0.69, 0.26), (0.71, 0.235), (0.742, 0.292)],
            (120, 160, 110),
            line=0,
        )
    with c.part("rug"):
        c.oval((0.5, 0.90), 0.44, 0.085, (200, 96, 92))
        c.oval((0.5, 0.90), 0.37, 0.062, (238, 206, 160), line=0)
        c.oval((0.5, 0.90), 0.30, 0.045, (210, 120, 106), line=0)


def draw_school(c: Canvas, scene: Scene) -> None:
    """A classroom: blackboard and clock."""
    _room(c, (208, 222, 236), (206, 176, 134))
    with c.part("blackboard"):
        c.slab((0.36, 0.13, 0.90, 0.45), "wood")
        c.slab((0.378, 0.148, 0.882, 0.432), (62, 100, 84), line=0.5)
        for i in range(3):
            c.stroke(
                [(0.42 + 0.02 * k, 0.20 + 0.07 * i + 0.010 * sin(k * (1.3 + i))) for k in range(12 - 3 * i)],
                0.005,
                (236, 240, 232),
                line=0,
            )
        c.oval((0.80, 0.34), 0.04, 0.04, (62, 100, 84), line=0)
        for a in range(8):
            u, v = float(np.cos(a * 0.785)), float(np.sin(a * 0.785))
            c.stroke(
                [(0.80 + 0.03 * u, 0.30 + 0.03 * v), (0.80 + 0.05 * u, 0.30 + 0.05 * v)],
                0.005,
                (250, 224, 130),
                line=0,
            )
        c.oval((0.80, 0.30), 0.022, 0.022, (250, 224, 130), line=0)
    _window(c, (0.07, 0.15, 0.27, 0.41), scene)
    with c.part("clock"):
        c.oval((0.95, 0.12), 0.034, 0.034, "white")
        c.stroke([(0.95, 0.12), (0.95, 0.098)], 0.005, "black", line=0)
        c.stroke([(0.95, 0.12), (0.967, 0.126)], 0.005, "black", line=0)


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


def finished(canvas: Canvas, scene: Scene, size_px: int) -> Image.Image:
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
