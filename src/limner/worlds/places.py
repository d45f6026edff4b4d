"""Places: ten of them, with what always stands there.

Outdoor places are here, indoor ones in `rooms`; both stand under the same `sky`. Scenery that a text may
name gets a box. No characters, and nothing that a tale puts there.
"""

from collections.abc import Callable
from math import sin

import numpy as np

from limner.worlds.canvas import RGB, Box, Canvas, bend, darker, lighter, mix
from limner.worlds.rooms import HORIZON, draw_house, draw_kitchen, draw_school, draw_sky, sky_colours
from limner.worlds.world import Point, Scene

HOUSES: tuple[RGB, ...] = (
    (232, 170, 120),
    (170, 196, 206),
    (236, 206, 130),
    (206, 150, 160),
    (168, 190, 150),
)


def _ground(c: Canvas, scene: Scene, far: RGB, near: RGB, *, edge: float = HORIZON) -> None:
    if scene.weather == "snowy":
        far, near = (226, 234, 246), (246, 249, 253)
    ridge = [(x / 20, edge + 0.012 * sin(x * 0.55 + 1)) for x in range(-2, 23)]
    c.area([*ridge, (1.1, 1.1), (-0.1, 1.1)], far, line=0.6)
    for i in range(1, 5):
        y = edge + (1 - edge) * i / 5
        band = [(x / 10, y + 0.012 * sin(x * 0.9 + i * 2)) for x in range(-1, 12)]
        c.area([*band, (1.1, 1.1), (-0.1, 1.1)], mix(far, near, i / 4), line=0)


def _tufts(c: Canvas, scene: Scene, colour: RGB) -> None:
    for i in range(16):
        x, y = (i * 0.618 + 0.11) % 1, HORIZON + 0.06 + (i * 0.377) % 0.32
        z = 0.010 + 0.018 * (y - HORIZON)
        if scene.weather == "snowy":
            c.oval((x, y), z * 1.3, z * 0.3, (214, 224, 240), line=0)
            continue
        for d in (-0.6, 0.0, 0.6):
            c.stroke([(x, y), (x + d * z, y - z * 1.3)], 0.004, colour, line=0)


def tree(c: Canvas, at: Point, size: float, kind: int, scene: Scene) -> None:
    """A tree: round (0), pine (1) or birch-like (2); bends in wind, white in snow."""
    x, y = at
    lean = 0.05 * size if scene.weather == "windy" else 0.0
    snow = scene.weather == "snowy"
    leaf: RGB = ((92, 158, 84), (64, 124, 90), (150, 176, 74))[kind % 3]
    trunk: RGB = (150, 110, 78) if kind != 2 else (224, 216, 204)
    c.shadow((x, y), 0.11 * size)
    c.area(
        [
            (x - 0.03 * size, y),
            (x - 0.018 * size + lean * 0.4, y - 0.30 * size),
            (x + 0.018 * size + lean * 0.4, y - 0.30 * size),
            (x + 0.034 * size, y),
        ],
        trunk,
    )
    if kind == 1:
        for i in range(3):
            w, top = (0.16 - 0.035 * i) * size, y - (0.34 + 0.13 * i) * size
            c.area(
                [
                    (x - w + lean * i / 3, top + 0.18 * size),
                    (x + lean * (i + 1) / 3, top - 0.02 * size),
                    (x + w + lean * i / 3, top + 0.18 * size),
                ],
                leaf,
            )
            if snow:
                c.area(
                    [
                        (x - w * 0.5, top + 0.08 * size),
                        (x, top - 0.02 * size),
                        (x + w * 0.5, top + 0.08 * size),
                    ],
                    "snow",
                    line=0,
                )
        return
    crown = [
        (-0.17, -0.36),
        (-0.15, -0.52),
        (-0.02, -0.62),
        (0.13, -0.55),
        (0.18, -0.40),
        (0.08, -0.29),
        (-0.08, -0.28),
    ]
    c.blob([(x + u * size + lean, y + v * size) for u, v in crown], leaf)
    for u, v, r in ((-0.06, -0.47, 0.045), (0.07, -0.42, 0.04), (0.0, -0.54, 0.035)):
        c.oval((x + u * size + lean, y + v * size), r * size, r * 0.8 * size, lighter(leaf, 0.2), line=0)
    if snow:
        c.blob(
            [
                (x - 0.14 * size, y - 0.50 * size),
                (x - 0.02 * size, y - 0.62 * size),
                (x + 0.13 * size, y - 0.54 * size),
                (x, y - 0.53 * size),
            ],
            "snow",
            line=0,
        )


def house(c: Canvas, box: Box, wall: RGB, scene: Scene) -> None:
    """A house front with a roof, a door and windows, lit at night."""
    x0, y0, x1, y1 = box
    w, h = x1 - x0, y1 - y0
    c.slab((x0, y0, x1, y1), wall)
    roof: RGB = (236, 242, 250) if scene.weather == "snowy" else darker((196, 92, 76), 0.1)
    c.area([(x0 - 0.08 * w, y0), (x0 + w / 2, y0 - 0.34 * h), (x1 + 0.08 * w, y0)], roof)
    lit: RGB = (255, 226, 130) if scene.time == "night" else (206, 230, 240)
    c.slab((x0 + 0.40 * w, y1 - 0.42 * h, x0 + 0.62 * w, y1), darker(wall, 0.45))
    for u in (0.12, 0.70):
        c.slab((x0 + u * w, y0 + 0.18 * h, x0 + (u + 0.2) * w, y0 + 0.42 * h), lit, line=0.8)


def _forest(c: Canvas, scene: Scene) -> None:
    draw_sky(c, scene)
    haze = mix(sky_colours(scene)[1], (90, 140, 110), 0.45)
    for i in range(9):
        x = i * 0.125 + 0.02
        c.area([(x - 0.09, 0.66), (x, 0.30 + 0.05 * ((i * 3) % 4)), (x + 0.09, 0.66)], haze, line=0)
    _ground(c, scene, (120, 170, 96), (96, 150, 84))
    for i, (x, y, s, k) in enumerate(
        (
            (0.02, 0.70, 1.05, 1),
            (0.25, 0.65, 0.8, 0),
            (0.50, 0.645, 0.7, 1),
            (0.74, 0.65, 0.8, 1),
            (0.97, 0.70, 1.1, 0),
        )
    ):
        with c.part(f"tree{i}"):
            tree(c, (x, y), s, k, scene)
    _tufts(c, scene, (74, 128, 70))


def _beach(c: Canvas, scene: Scene) -> None:
    draw_sky(c, scene)
    sea: RGB = (84, 162, 196) if scene.time != "night" else (62, 92, 150)
    with c.part("sea"):
        c.slab((-0.05, 0.545, 1.05, 0.70), sea, line=0.5)
        for i in range(9):
            x, y = (i * 0.382 + 0.1) % 1, 0.565 + 0.011 * i
            c.stroke(bend((x - 0.05, y), (x + 0.05, y), 0.12), 0.005, lighter(sea, 0.55), line=0)
    shore = [(x / 20, 0.675 + 0.014 * sin(x * 0.8)) for x in range(-2, 23)]
    c.area([(x, y - 0.014) for x, y in shore] + [(1.1, 1.1), (-0.1, 1.1)], (250, 252, 250), line=0)
    near: RGB = (244, 248, 252) if scene.weather == "snowy" else (240, 214, 152)
    c.area([*shore, (1.1, 1.1), (-0.1, 1.1)], near, line=0)
    for i in range(14):
        c.oval(((i * 0.618 + 0.2) % 1, 0.74 + (i * 0.377) % 0.24), 0.006, 0.003, darker(near, 0.18), line=0)
    with c.part("shell"):
        c.blob(
            [(0.07, 0.965), (0.055, 0.94), (0.075, 0.925), (0.10, 0.94), (0.09, 0.965)],
            (244, 178, 168),
            line=0.7,
        )
        c.stroke([(0.078, 0.960), (0.077, 0.932)], 0.003, (200, 120, 116), line=0)


def _street(c: Canvas, scene: Scene) -> None:
    draw_sky(c, scene)
    for i in range(5):
        x = -0.02 + i * 0.215
        with c.part(f"house{i}"):
            house(c, (x, 0.36 + 0.04 * ((i * 2) % 3), x + 0.195, 0.66), HOUSES[i], scene)
    snow = scene.weather == "snowy"
    c.slab((-0.05, 0.655, 1.05, 1.05), (236, 240, 246) if snow else (204, 196, 184), line=0.6)
    c.slab((-0.05, 0.93, 1.05, 1.05), (206, 212, 222) if snow else (140, 138, 144), line=0.6)
    for i in range(7):
        c.stroke([(i * 0.17 - 0.04, 0.665), (i * 0.20 - 0.12, 0.925)], 0.003, (180, 172, 160), line=0)
    with c.part("street lamp"):
        c.stroke([(0.965, 0.80), (0.965, 0.40)], 0.014, (70, 74, 84))
        if scene.time in ("night", "sunset"):
            c.glow((0.965, 0.385), 0.12, (255, 232, 150), 0.7)
        c.oval((0.965, 0.385), 0.028, 0.034, (255, 232, 150))


def _farm(c: Canvas, scene: Scene) -> None:
    draw_sky(c, scene)
    _ground(c, scene, (176, 190, 96), (150, 172, 84), edge=0.60)
    with c.part("barn"):
        c.slab((0.60, 0.40, 0.90, 0.65), (196, 72, 60))
        roof: RGB = (238, 243, 250) if scene.weather == "snowy" else (112, 84, 80)
        c.area([(0.57, 0.41), (0.65, 0.29), (0.85, 0.29), (0.93, 0.41)], roof)
        c.slab((0.69, 0.49, 0.81, 0.65), (238, 224, 204))
        c.stroke([(0.695, 0.495), (0.805, 0.645)], 0.009, (196, 72, 60), line=0)
        c.stroke([(0.805, 0.495), (0.695, 0.645)], 0.009, (196, 72, 60), line=0)
    with c.part("fence"):
        for i in range(7):
            c.slab((0.005 + i * 0.082, 0.565, 0.024 + i * 0.082, 0.68), (236, 226, 208), line=0.7)
        for y in (0.59, 0.635):
            c.slab((-0.02, y, 0.54, y + 0.016), (236, 226, 208), line=0.7)
    _tufts(c, scene, (120, 140, 60))


def _river(c: Canvas, scene: Scene) -> None:
    draw_sky(c, scene)
    far = mix((140, 182, 132), sky_colours(scene)[1], 0.25)
    c.area(
        [(x / 10, 0.55 + 0.03 * sin(x * 0.8)) for x in range(-1, 12)] + [(1.1, 0.7), (-0.1, 0.7)],
        far,
        line=0.5,
    )
    for i, (x, s) in enumerate(((0.10, 0.5), (0.42, 0.42), (0.93, 0.55))):
        with c.part(f"tree{i}"):
            tree(c, (x, 0.585), s, i, scene)
    water: RGB = (104, 176, 208) if scene.time != "night" else (66, 98, 156)
    with c.part("water"):
        c.area(
            [(-0.05, 0.60), (1.05, 0.585), (1.05, 0.84), (0.62, 0.80), (0.46, 0.735), (-0.05, 0.70)],
            water,
            line=0.6,
        )
        for i in range(8):
            x, y = (i * 0.382 + 0.15) % 1, 0.615 + 0.011 * i
            c.stroke(bend((x - 0.045, y), (x + 0.045, y), 0.12), 0.005, lighter(water, 0.5), line=0)
    bank: RGB = (240, 245, 251) if scene.weather == "snowy" else (124, 174, 92)
    c.blob(
        [(-0.1, 0.70), (0.25, 0.70), (0.46, 0.735), (0.64, 0.80), (1.1, 0.855), (1.2, 1.1), (-0.2, 1.1)],
        bank,
        line=0.6,
    )
    for x, y in ((0.04, 0.80), (0.20, 0.94), (0.74, 0.93), (0.93, 0.95)):
        for d in (-0.012, 0.0, 0.012):
            c.stroke([(x, y), (x + d, y - 0.03)], 0.005, darker(bank, 0.25), line=0)


def _garden(c: Canvas, scene: Scene) -> None:
    draw_sky(c, scene)
    with c.part("hedge"):
        hedge: RGB = (84, 142, 88)
        c.blob(
            [
                (-0.1, 0.48),
                (0.1, 0.46),
                (0.3, 0.49),
                (0.5, 0.455),
                (0.7, 0.49),
                (0.9, 0.46),
                (1.1, 0.48),
                (1.1, 0.7),
                (-0.1, 0.7),
            ],
            hedge,
        )
        if scene.weather == "snowy":
            c.blob(
                [
                    (-0.1, 0.48),
                    (0.1, 0.46),
                    (0.3, 0.49),
                    (0.5, 0.455),
                    (0.7, 0.49),
                    (0.9, 0.46),
                    (1.1, 0.48),
                    (1.1, 0.51),
                    (-0.1, 0.51),
                ],
                "snow",
                line=0,
            )
    _ground(c, scene, (138, 190, 104), (122, 178, 94), edge=0.60)
    with c.part("fence"):
        for i in range(13):
            x = i * 0.083
            c.area(
                [(x, 0.67), (x, 0.555), (x + 0.018, 0.535), (x + 0.036, 0.555), (x + 0.036, 0.67)],
                "white",
                line=0.7,
            )
        c.slab((-0.02, 0.59, 1.02, 0.606), "white", line=0.6)
    if scene.weather != "snowy":
        for i in range(9):
            x, y = (i * 0.618 + 0.05) % 1, 0.70 + (i * 0.13) % 0.27
            for d in range(5):
                c.oval(
                    (x + 0.008 * float(np.cos(d * 1.257)), y + 0.008 * float(np.sin(d * 1.257))),
                    0.006,
                    0.006,
                    ((250, 250, 244), (244, 168, 190), (250, 214, 110))[i % 3],
                    line=0,
                )
            c.oval((x, y), 0.005, 0.005, "gold", line=0)


def _hill(c: Canvas, scene: Scene) -> None:
    draw_sky(c, scene)
    snow = scene.weather == "snowy"
    far = mix((128, 176, 140), sky_colours(scene)[1], 0.4)
    c.blob(
        [
            (-0.2, 0.72),
            (0.1, 0.50),
            (0.34, 0.58),
            (0.60, 0.47),
            (0.86, 0.56),
            (1.2, 0.50),
            (1.2, 0.9),
            (-0.2, 0.9),
        ],
        (222, 232, 244) if snow else far,
        line=0.5,
    )
    with c.part("hill"):
        c.blob(
            [(-0.2, 0.80), (0.15, 0.69), (0.5, 0.64), (0.85, 0.69), (1.2, 0.80), (1.2, 1.2), (-0.2, 1.2)],
            (245, 248, 252) if snow else (134, 190, 92),
            line=0.7,
        )
        c.blob(
            [(-0.2, 0.97), (0.3, 0.86), (0.7, 0.84), (1.2, 0.93), (1.2, 1.2), (-0.2, 1.2)],
            (252, 253, 254) if snow else (152, 202, 104),
            line=0,
        )
    if not snow:
        for i in range(12):
            x, y = (i * 0.618 + 0.3) % 1, 0.74 + (i * 0.29) % 0.22
            c.oval((x, y), 0.007, 0.007, ((250, 246, 236), (246, 190, 90))[i % 2], line=0)


DRAWN: dict[str, Callable[[Canvas, Scene], None]] = {
    "kitchen": draw_kitchen,
    "house": draw_house,
    "school": draw_school,
    "forest": _forest,
    "beach": _beach,
    "street": _street,
    "farm": _farm,
    "river": _river,
    "garden": _garden,
    "hill": _hill,
}


def draw_place(c: Canvas, scene: Scene) -> None:
    """Draw the background of a scene; scenery gets boxes under its own names."""
    DRAWN[scene.place](c, scene)
