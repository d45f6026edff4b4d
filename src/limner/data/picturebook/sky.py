"""Sky and weather: hours, clouds, sun, moon, rain, snow and wind.

Shared by all places; rooms see it through a window. It draws nothing that stands on the ground.
"""

from math import sin

import numpy as np

from limner.data.picturebook.canvas import RGB, Canvas, bend, darker, mix
from limner.data.picturebook.world import Point, Scene

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
