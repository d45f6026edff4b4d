"""Places: ten of them, with what always stands there, under the sky of the hour and the weather.

Scenery is drawn from `places.toml`, and what a text may name gets a box. No characters, and nothing that a
tale puts there.
"""

from dataclasses import replace
from math import sin

import numpy as np

from limner.research.worlds.canvas import RGB, Box, Canvas, bend, darker, lighter, mix
from limner.research.worlds.shapes import Pen, draw_shapes, drawings
from limner.research.worlds.world import DrawnScene

HORIZON = 0.62
SKY: dict[str, tuple[RGB, RGB]] = {
    "morning": ((160, 208, 238), (255, 238, 210)),
    "noon": ((110, 184, 236), (214, 238, 248)),
    "sunset": ((146, 122, 184), (255, 182, 116)),
    "night": ((30, 40, 96), (96, 112, 176)),
}
# Ground of an open place: colour far away and near, and where it begins.
GROUND: dict[str, tuple[RGB, RGB, float]] = {
    "forest": ((120, 170, 96), (96, 150, 84), HORIZON),
    "farm": ((176, 190, 96), (150, 172, 84), 0.60),
    "garden": ((138, 190, 104), (122, 178, 94), 0.60),
}
TUFTS: dict[str, RGB] = {"forest": (74, 128, 70), "farm": (120, 140, 60)}
# Wall and floor of a room, and its window.
ROOMS: dict[str, tuple[RGB, RGB, Box]] = {
    "kitchen": ((214, 228, 206), (214, 178, 138), (0.10, 0.14, 0.34, 0.38)),
    "house": ((244, 218, 184), (186, 138, 102), (0.11, 0.15, 0.37, 0.41)),
    "school": ((208, 222, 236), (206, 176, 134), (0.07, 0.15, 0.27, 0.41)),
}


def draw_place(c: Canvas, scene: DrawnScene) -> None:
    """Draw the background of a scene; scenery gets boxes under its own names."""
    places, place = drawings("places"), scene.place
    high, low = sky_colours(scene)
    colours = {"high": high, "low": low, "pale": _pale(scene)}
    facts = frozenset({place, scene.weather, scene.time})
    pen = Pen(c, lambda x, y: (x, y), 1.0, facts=facts, colours=colours)
    if place in ROOMS:
        wall, floor, (x0, y0, x1, y1) = ROOMS[place]
        c.gradient(0, 0.70, lighter(wall, 0.15), wall)
        draw_shapes(replace(pen, colours={"wall": wall, "floor": floor}), places["room"])
        draw_shapes(pen, places[f"{place} far"])
        with c.part("window"):
            glass = replace(pen, place=lambda u, v: (x0 + u * (x1 - x0), y0 + v * (y1 - y0)))
            draw_shapes(glass, places["window"])
    else:
        c.gradient(0, HORIZON + 0.03, high, low)
        draw_shapes(pen, places["sky"])
        draw_shapes(pen, places.get(f"{place} far", ()))
    if place in GROUND:
        _ground(c, scene, *GROUND[place])
    draw_shapes(pen, places[place])
    if place in TUFTS:
        _tufts(c, scene, TUFTS[place])


def sky_colours(scene: DrawnScene) -> tuple[RGB, RGB]:
    """Top and bottom of the sky for the hour and weather."""
    top, low = SKY[scene.time]
    share = {"cloudy": 0.45, "rainy": 0.65, "snowy": 0.5}.get(scene.weather, 0.0)
    grey: RGB = (70, 78, 110) if scene.time == "night" else (176, 184, 198)
    high = darker(grey, 0.12) if scene.weather == "rainy" else grey
    return mix(top, high, share), mix(low, grey, share * 0.8)


def _pale(scene: DrawnScene) -> RGB:
    """Colour of the clouds."""
    pale: RGB = {"sunset": (255, 214, 190), "night": (120, 130, 176)}.get(scene.time, (255, 255, 255))
    if scene.weather in ("cloudy", "rainy", "snowy"):
        pale = mix(pale, (120, 126, 146) if scene.weather == "rainy" else (206, 210, 220), 0.6)
    return pale


def _ground(c: Canvas, scene: DrawnScene, far: RGB, near: RGB, edge: float) -> None:
    if scene.weather == "snowy":
        far, near = (226, 234, 246), (246, 249, 253)
    ridge = [(x / 20, edge + 0.012 * sin(x * 0.55 + 1)) for x in range(-2, 23)]
    c.area([*ridge, (1.1, 1.1), (-0.1, 1.1)], far, line=0.6)
    for i in range(1, 5):
        y = edge + (1 - edge) * i / 5
        band = [(x / 10, y + 0.012 * sin(x * 0.9 + i * 2)) for x in range(-1, 12)]
        c.area([*band, (1.1, 1.1), (-0.1, 1.1)], mix(far, near, i / 4), line=0)


def _tufts(c: Canvas, scene: DrawnScene, colour: RGB) -> None:
    for i in range(16):
        x, y = (i * 0.618 + 0.11) % 1, HORIZON + 0.06 + (i * 0.377) % 0.32
        z = 0.010 + 0.018 * (y - HORIZON)
        if scene.weather == "snowy":
            c.oval((x, y), z * 1.3, z * 0.3, (214, 224, 240), line=0)
            continue
        for d in (-0.6, 0.0, 0.6):
            c.stroke([(x, y), (x + d * z, y - z * 1.3)], 0.004, colour, line=0)


def draw_weather(c: Canvas, scene: DrawnScene) -> None:
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
