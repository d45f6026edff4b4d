"""Rooms: kitchen, living room, classroom, with hour and weather in the window.

They stand beside the outdoor places of `places`. No characters, and nothing that a tale puts there.
"""

from math import sin

import numpy as np

from limner.data.picturebook.canvas import RGB, Box, Canvas, bend, darker, lighter, mix
from limner.data.picturebook.sky import cloud, sky_colours
from limner.data.picturebook.world import Scene


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
