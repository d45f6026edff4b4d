"""Renders a scene to a picture and a scene graph: shapes, places, characters, light and paper.

The same code draws pixels and records boxes, so that graph and picture agree. Props, places and clothes are
tables of shapes in TOML files such as `props.toml`; each shape is a line ``[facts:] verb points numbers
colour [option=value ...]``. A character is drawn in its own units (1 = its height); its hands reach for
points on the page, so that it holds what the text says.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import cache
from math import cos, hypot, pi, sin
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from limner.errors import DataError, unknown
from limner.research.worlds.canvas import NAMED, RGB, Box, Canvas, Floats, bend, curve, darker, lighter, mix
from limner.research.worlds.tales import Character, DrawnFigure, DrawnScene, Point, Prop, Style, read_table

COLOUR = re.compile(r"(#?\w+)((?:[+-][\d.]+)*)")


@dataclass(frozen=True)
class Shape:
    """One shape of a drawing.

    Attributes:
        verb: area, blob, slab, oval, stroke, arc, curl, glow, shadow, or the name of another drawing.
        points: (u, v, share): u to the right of the origin and v above it, plus `share` of the way to the
            far end.
        numbers: radii, widths and other numbers that the verb takes.
        fill: colour, see `Pen.colour`; "" if the verb takes none.
        when: conditions that must all hold: alternative facts, or `!` before facts that must all be absent.
        part: part of the object that the shape belongs to, or "".
        look: options of the canvas: line, alpha, turn, raw.
    """

    verb: str
    points: tuple[tuple[float, float, float], ...]
    numbers: tuple[float, ...]
    fill: str
    when: tuple[str, ...]
    part: str
    look: Mapping[str, Any]

    def holds(self, facts: frozenset[str]) -> bool:
        """Whether the shape is drawn, given these facts."""
        return all(
            facts.isdisjoint(condition.lstrip("!").split("|")) == condition.startswith("!")
            for condition in self.when
        )


def _shape(line: str) -> Shape:
    facts, _, words = line.rpartition(": ")
    verb, *rest = words.split()
    points, numbers, fill, look = [], [], "", dict[str, Any]()
    for word in rest:
        if "=" in word:
            name, _, value = word.partition("=")
            look[name] = value if name == "part" else float(value) if "." in value else int(value)
        elif "," in word:
            at, _, share = word.partition("@")
            u, v = at.split(",")
            points.append((float(u), float(v), float(share or 0)))
        elif re.fullmatch(r"-?[\d.]+", word):
            numbers.append(float(word))
        else:
            fill = word
    when = tuple(facts.split("&")) if facts else ()
    return Shape(
        verb, tuple(points), tuple(numbers), fill, when, look.pop("part", "").replace("_", " "), look
    )


@cache
def drawings(table: str) -> Mapping[str, tuple[Shape, ...]]:
    """Read the drawings of a TOML table in this folder: name → shapes."""
    return {name: tuple(_shape(line) for line in lines) for name, lines in read_table(table).items()}


@dataclass(frozen=True)
class Pen:
    """A canvas in the coordinates of one object: (u, v) is u to the right of and v above its origin.

    Attributes:
        canvas: canvas to draw on.
        place: maps (u, v) to the page.
        unit: length of a unit on the page.
        width: factor of the width of lines, independent of `unit`.
        to: far end of an object with two ends, on the page.
        turn: -1 if `place` mirrors, else 1.
        owner: prefix of the labels of parts, with a slash, or "".
        facts: facts about the object.
        colours: names of colours of this drawing only.
    """

    canvas: Canvas
    place: Callable[[float, float], Point]
    unit: float
    width: float = 1.0
    to: Point | None = None
    turn: int = 1
    owner: str = ""
    facts: frozenset[str] = frozenset()
    colours: Mapping[str, RGB] = field(default_factory=dict)

    def moved(self, u: float, v: float, unit: float) -> Pen:
        """A pen with its origin at (u, v), scaled by `unit`, including the width of lines."""
        x, y = self.place(u, v)
        z = unit * self.unit
        return replace(self, place=lambda a, b: (x + a * z, y - b * z), unit=z, width=z)

    def point(self, at: tuple[float, float, float]) -> Point:
        """Position of a point of a shape on the page."""
        u, v, share = at
        x, y = self.place(u, v)
        if share and self.to:
            x0, y0 = self.place(0, 0)
            x, y = x + share * (self.to[0] - x0), y + share * (self.to[1] - y0)
        return x, y

    def colour(self, words: str) -> RGB:
        """A colour: ``name`` or ``#rrggbb``, ``-0.2`` darker, ``+0.2`` lighter; ``a~b~0.4`` between two."""
        if "~" in words:
            a, b, share = words.split("~")
            return mix(self.colour(a), self.colour(b), float(share))
        name, shades = COLOUR.fullmatch(words).groups()  # type: ignore[union-attr]
        if name.startswith("#"):
            colour: RGB = (int(name[1:3], 16), int(name[3:5], 16), int(name[5:], 16))
        else:
            colour = self.colours[name] if name in self.colours else NAMED[name]
        for sign, share in re.findall(r"([+-])([\d.]+)", shades):
            colour = (lighter if sign == "+" else darker)(colour, float(share))
        return colour


def draw_shapes(pen: Pen, shapes: Sequence[Shape]) -> None:
    """Draw the shapes whose conditions hold, in order; a verb may name a drawing of shapes.toml."""
    for shape in shapes:
        if shape.holds(pen.facts):
            with pen.canvas.part(pen.owner + shape.part) if shape.part else nullcontext():
                _draw(pen, shape)


def _draw(pen: Pen, shape: Shape) -> None:
    c, n, look, unit = pen.canvas, shape.numbers, shape.look, pen.unit
    points = [pen.point(at) for at in shape.points]
    pairs = zip(points[::2], points[1::2], strict=False)
    fill = pen.colour(shape.fill) if shape.fill else (0, 0, 0)
    match shape.verb:
        case "area" | "blob":
            c.area(points if shape.verb == "area" else curve(points), fill, **look)
        case "slab":
            for corner, other in pairs:
                c.slab((*corner, *other), fill, **look)
        case "oval":
            for at in points:
                c.oval(at, n[0] * unit, n[1] * unit, fill, **look)
        case "stroke" | "curl":
            path = points if shape.verb == "stroke" else curve(points, closed=False)
            c.stroke(path, n[0] * pen.width, fill, **look)
        case "arc":
            for start, end in pairs:
                c.stroke(bend(start, end, n[0] * pen.turn), n[1] * pen.width, fill, **look)
        case "glow":
            c.glow(points[0], n[0] * unit, fill, n[1])
        case "shadow":
            c.shadow(points[0] if points else pen.place(0, 0), n[0] * unit, *n[1:])
        case name:
            inner = replace(pen, colours={**pen.colours, "own": fill})
            for u, v, _ in shape.points:
                draw_shapes(inner.moved(u, v, n[0]), drawings("shapes")[name])


HORIZON = 0.62
SKY: dict[str, tuple[RGB, RGB]] = {
    "morning": ((160, 208, 238), (255, 238, 210)),
    "noon": ((110, 184, 236), (214, 238, 248)),
    "sunset": ((146, 122, 184), (255, 182, 116)),
    "night": ((30, 40, 96), (96, 112, 176)),
}
# ground of an outdoor place: far colour, near colour, and its upper edge
GROUND: dict[str, tuple[RGB, RGB, float]] = {
    "forest": ((120, 170, 96), (96, 150, 84), HORIZON),
    "farm": ((176, 190, 96), (150, 172, 84), 0.60),
    "garden": ((138, 190, 104), (122, 178, 94), 0.60),
}
TUFTS: dict[str, RGB] = {"forest": (74, 128, 70), "farm": (120, 140, 60)}
# wall, floor and window of a room
ROOMS: dict[str, tuple[RGB, RGB, Box]] = {
    "kitchen": ((214, 228, 206), (214, 178, 138), (0.10, 0.14, 0.34, 0.38)),
    "house": ((244, 218, 184), (186, 138, 102), (0.11, 0.15, 0.37, 0.41)),
    "school": ((208, 222, 236), (206, 176, 134), (0.07, 0.15, 0.27, 0.41)),
}


def draw_place(c: Canvas, scene: DrawnScene) -> None:
    """Draw the background of a scene and record boxes of scenery."""
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
    """Top and bottom colour of the sky for time and weather."""
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
    """Draw rain, snow or wind in front of everything; nothing indoors."""
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


HEIGHT = 0.45
FUR: dict[str, tuple[RGB, RGB, RGB, RGB]] = {
    "fox": ((226, 118, 50), (206, 92, 44), (236, 146, 72), (190, 84, 52)),
    "bear": ((142, 96, 62), (176, 128, 84), (104, 74, 60), (198, 160, 116)),
    "rabbit": ((238, 228, 216), (196, 180, 166), (226, 196, 160), (172, 168, 176)),
    "cat": ((146, 148, 158), (232, 162, 84), (78, 74, 84), (226, 214, 196)),
    "mouse": ((168, 164, 172), (190, 160, 136), (146, 142, 156), (214, 206, 200)),
    "pig": ((246, 176, 178), (240, 160, 162), (250, 194, 184), (234, 166, 176)),
    "frog": ((112, 172, 84), (84, 156, 98), (146, 186, 82), (94, 166, 124)),
    "elephant": ((148, 164, 188), (166, 168, 178), (132, 150, 172), (176, 164, 186)),
    "dog": ((214, 170, 118), (172, 122, 78), (240, 226, 204), (196, 152, 108)),
    "girl": ((246, 208, 176), (222, 172, 130), (168, 114, 78), (146, 100, 74)),
    "boy": ((246, 208, 176), (222, 172, 130), (168, 114, 78), (146, 100, 74)),
}
HAIR: tuple[RGB, ...] = ((196, 110, 54), (92, 60, 44), (52, 40, 42), (44, 36, 40))
DARK: RGB = (44, 36, 44)
BLUSH: RGB = (240, 130, 120)


def draw_figure(c: Canvas, figure: DrawnFigure, key: str) -> None:
    """Draw one character; clothes have separate boxes (`key/scarf`, `key/coat`).

    Args:
        c: canvas.
        figure: the character, its position and pose.
        key: label of its box.
    """
    who, pen = figure.who, _pen(c, figure)
    lying = figure.pose == "sleep"
    x, y = figure.at
    c.shadow((x, y + 0.004), 0.33 * pen.unit if not lying else 0.56 * pen.unit, 0.02)
    looks = drawings("figures")
    with c.part(key):
        draw_shapes(pen, looks["tail"])
        hands = _hands(figure, pen)
        if not lying:
            _arm(pen, who, side=-1, hand=hands[1])
        _legs(pen, who, figure.pose)
        with c.part(f"{key}/{who.top}"):
            draw_shapes(pen, looks["torso"])
        draw_shapes(pen, looks["head"])
        _face(pen, who, figure.emotion)
        with c.part(f"{key}/{who.extra}"):
            draw_shapes(pen, looks["extra"])
        _arm(pen, who, side=1, hand=hands[0])
    if lying:
        fx, fy = pen.place(0.1, 1.1)
        for i in range(3):
            px, py, z = fx + 0.02 * i * pen.turn, fy - 0.08 - 0.055 * i, 0.014 + 0.006 * i
            pts = [(px - z, py - z), (px + z, py - z), (px - z, py + z), (px + z, py + z)]
            if c.flip:
                pts = [(2 * px - a, b) for a, b in pts]
            c.stroke(pts, 0.007, "white", line=0.6)


def _pen(c: Canvas, figure: DrawnFigure) -> Pen:
    """A pen in the units of a character, transformed by its pose (lying, lowered or leaning)."""
    who, turn, (x, y) = figure.who, figure.facing, figure.at
    s = HEIGHT * who.size
    drop = {"sit": 0.17, "kneel": 0.12, "run": -0.02, "dance": -0.02, "cheer": -0.02}.get(figure.pose, 0.0)
    lean = {"run": 0.10, "walk": 0.04, "dance": -0.07, "kneel": 0.08}.get(figure.pose, 0.0)

    def place(u: float, v: float) -> Point:
        if figure.pose == "sleep":
            u, v = -0.48 + v * 0.99 + 0.05 * u, 0.17 - u * 0.85
        else:
            u, v = u + lean * v, v - drop * min(1.0, max(0.0, v / 0.2))
        return x + turn * u * s, y - v * s

    top = NAMED[who.top_colour]
    facts = {who.species, f"{who.species}{who.shade}", who.top, who.extra}
    colours = {
        "fur": FUR[who.species][who.shade],
        "hair": HAIR[who.shade],
        "top": top,
        "trim": NAMED[who.extra_colour],
        "mark": darker(top, 0.22) if who.top_colour in ("white", "yellow") else lighter(top, 0.62),
    }
    if who.top != "overalls":
        facts.add(who.pattern)
    return Pen(c, place, s, width=s, turn=turn, facts=frozenset(facts), colours=colours)


def _hands(figure: DrawnFigure, pen: Pen) -> tuple[Point, Point]:
    f, pose = pen.place, figure.pose
    rest = {
        "wave": (f(0.36, 0.86), f(-0.20, 0.26)),
        "cheer": (f(0.34, 0.92), f(-0.34, 0.92)),
        "dance": (f(0.40, 0.72), f(-0.40, 0.58)),
        "walk": (f(0.24, 0.32), f(-0.22, 0.32)),
        "run": (f(0.30, 0.46), f(-0.30, 0.38)),
        "sit": (f(0.22, 0.26), f(-0.20, 0.24)),
        "sleep": (f(0.14, 0.40), f(-0.10, 0.40)),
    }.get(pose, (f(0.20, 0.24), f(-0.20, 0.24)))
    if not figure.hands:
        return rest
    near = _reach(pen, figure.hands[0], 1)
    far = _reach(pen, figure.hands[1], -1) if len(figure.hands) > 1 else rest[1]
    return near, far


def _reach(pen: Pen, target: Point, side: int) -> Point:
    """The target, or the farthest point towards it within an arm's length (0.46 heights)."""
    sx, sy = pen.place(0.10 * side, 0.48)
    dx, dy = target[0] - sx, target[1] - sy
    far, most = hypot(dx, dy), 0.46 * pen.unit
    share = min(1.0, most / far) if far else 1.0
    return sx + dx * share, sy + dy * share


def _arm(pen: Pen, who: Character, *, side: int, hand: Point) -> None:
    c, fur = pen.canvas, pen.colours["fur"]
    start = pen.place(0.105 * side, 0.475)
    bulge = (0.16 if side > 0 else -0.16) * pen.turn
    arm = bend(start, hand, bulge if hand[1] > start[1] else -bulge)
    sleeve = lighter(pen.colours["top"], 0.72) if who.top == "overalls" else pen.colours["top"]
    shade = fur
    if side < 0:
        shade, sleeve = darker(fur, 0.10), darker(sleeve, 0.12)
    c.stroke(arm, 0.072 * pen.unit, shade)
    c.stroke(arm[:8] if who.top in ("jumper", "coat") else arm[:5], 0.088 * pen.unit, sleeve)
    c.oval(hand, 0.05 * pen.unit, 0.048 * pen.unit, shade)


def _legs(pen: Pen, who: Character, pose: str) -> None:
    c, f, s, fur = pen.canvas, pen.place, pen.unit, pen.colours["fur"]
    feet = {
        "walk": ((0.19, 0.02), (-0.17, 0.05)),
        "run": ((0.30, 0.10), (-0.30, 0.12)),
        "dance": ((0.20, 0.12), (-0.07, 0.0)),
        "cheer": ((0.14, 0.03), (-0.14, 0.03)),
    }.get(pose, ((0.09, 0.0), (-0.09, 0.0)))
    top = pen.colours["top"]
    cloth = {"overalls": top, "dress": fur}.get(who.top, mix(NAMED["navy"], top, 0.25))
    shoe = (96, 64, 56) if who.species in ("girl", "boy") else darker(fur, 0.16)
    for side, (u, v) in ((-1, feet[1]), (1, feet[0])):
        tone = cloth if side > 0 else darker(cloth, 0.14)
        hip = f(0.075 * side, 0.24)
        if pose == "sit":
            foot, knee = f(0.30 + 0.05 * side, 0.03), f(0.16, 0.15)
            path = [f(0.03 * side, 0.24), knee, foot]
        elif pose == "kneel":
            foot = f(-0.20 + 0.04 * side, 0.02)
            path = [hip, f(0.10 + 0.03 * side, 0.02), foot]
        else:
            foot = f(u, v + 0.03)
            path = bend(hip, foot, 0.06 * side * pen.turn)
        c.stroke(path, 0.10 * s, tone)
        toe = (foot[0] + 0.035 * s * pen.turn, foot[1] + 0.004) if pose != "sleep" else foot
        c.oval(toe, 0.085 * s, 0.05 * s, shoe)


def _face(pen: Pen, who: Character, mood: str) -> None:
    c, f, s, kind = pen.canvas, pen.place, pen.unit, who.species
    ev, gap, mid = (0.905, 0.12, 0.02) if kind == "frog" else (0.765, 0.09, 0.035)
    mv = {"frog": 0.66, "girl": 0.66, "boy": 0.66, "pig": 0.615, "elephant": 0.615}.get(kind, 0.645)
    # black eyes would not show on black fur
    white_eyes = kind == "frog" or mood == "surprised" or (kind == "cat" and who.shade == 2)
    for side in (-1, 1):
        u = mid + gap * side
        if mood in ("asleep", "proud"):
            rise = -0.03 if mood == "asleep" else 0.03
            c.stroke(_half_oval(pen, (u, ev), 0.04, rise), 0.016 * s, DARK, line=0)
            continue
        if white_eyes:
            c.oval(f(u, ev), 0.052 * s, 0.056 * s, "white", line=0.5)
        big = 0.036 if mood == "surprised" else 0.032
        c.oval(f(u + 0.012, ev), big * s, big * 1.15 * s, DARK, line=0)
        c.oval(f(u, ev + 0.014), 0.011 * s, 0.011 * s, (255, 255, 255), line=0, raw=True)
        if mood in ("sad", "worried"):
            c.stroke(
                [f(u - 0.045 * side, ev + 0.085), f(u + 0.04 * side, ev + 0.055)], 0.014 * s, DARK, line=0
            )
    for side in (-1, 1):
        c.oval(f(0.035 + 0.155 * side, 0.68), 0.035 * s, 0.024 * s, BLUSH, line=0, alpha=110)
    m = 0.04
    if mood == "surprised":
        c.oval(f(m, mv - 0.02), 0.024 * s, 0.032 * s, (130, 44, 52), line=0)
    elif mood in ("sad", "worried"):
        c.stroke(_half_oval(pen, (m, mv - 0.035), 0.045, 0.026), 0.014 * s, DARK, line=0)
    elif mood == "asleep":
        c.stroke([f(m - 0.02, mv - 0.015), f(m + 0.02, mv - 0.015)], 0.014 * s, DARK, line=0)
    else:
        half = 0.075 if kind == "frog" else 0.052
        smile = _half_oval(pen, (m, mv + 0.008), half, -0.042, steps=10)
        if mood in ("happy", "proud") and kind != "elephant":
            c.area(smile, (150, 52, 58), line=0)
        c.stroke(smile, 0.013 * s, DARK, line=0)


def _half_oval(pen: Pen, at: Point, rx: float, ry: float, steps: int = 8) -> list[Point]:
    """Points on the page of the half of an ellipse above a point (below it for negative ry)."""
    angles = [pi * i / steps for i in range(steps + 1)]
    return [pen.place(at[0] + rx * cos(a), at[1] + ry * sin(a)) for a in angles]


LIGHT: dict[str, tuple[float, float, float]] = {
    "morning": (1.0, 0.985, 0.95),
    "noon": (1.0, 1.0, 1.0),
    "sunset": (1.03, 0.90, 0.80),
    "night": (0.62, 0.68, 0.92),
}
PAPER = (252, 248, 238)


def _smooth_noise(rng: np.random.Generator, cells: int, side: int) -> Floats:
    """Noise with mean 0 and standard deviation 1, in patches of side/cells pixels."""
    coarse = rng.standard_normal((cells, cells)).astype(np.float32)
    fine = np.asarray(
        Image.fromarray(coarse).resize((side, side), Image.Resampling.BICUBIC), dtype=np.float64
    )
    smooth: Floats = (fine - fine.mean()) / (fine.std() + 1e-9)
    return smooth


def grain(style: Style, side: int) -> Floats:
    """Texture of paper and brush as factors near 1.

    Args:
        style: drawing style.
        side: side of the picture, pixels.
    Returns:
        (side, side) factors.
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
    """Colour of the light for each pixel: that of the time of day, brighter around lamps and fires.

    Args:
        light: (3,) factors for the time of day.
        canvas: canvas with its lights.
        side: side of the picture, pixels.
    Returns:
        (side, side, 3) factors.
    """
    i = (np.arange(side) + 0.5) / side
    glow = np.zeros((side, side))
    for x, y, radius, strength in canvas.lights:
        fall = np.clip(1 - ((i[None, :] - x) ** 2 + (i[:, None] - y) ** 2) / radius**2, 0, 1)
        glow = np.maximum(glow, fall * min(1.0, 2 * strength))
    return light + np.clip(1 - light, 0, None) * glow[:, :, None]


def finished(canvas: Canvas, scene: DrawnScene, size_px: int) -> Image.Image:
    """Finish a picture: downsample, apply light and texture, add the paper margin.

    Args:
        canvas: canvas with everything drawn.
        scene: scene, for the time of day.
        size_px: side, pixels.
    Returns:
        RGB picture, (size_px, size_px).
    """
    if canvas.image is None:
        raise AssertionError("a canvas without pixels cannot be finished")
    small = canvas.image.resize((size_px, size_px), Image.Resampling.BOX)
    pixels: NDArray[np.float64] = np.asarray(small, dtype=np.float64)
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


def _draw_prop(canvas: Canvas, prop: Prop) -> None:
    (x, y), z, props = prop.at, prop.size, drawings("props")
    if prop.label not in props:
        raise DataError(f"picture book: {unknown('prop', prop.label, props)}")
    pen = Pen(
        canvas,
        lambda u, v: (x + u * z, y - v * z),
        z,
        to=prop.to,
        owner=f"{prop.label}/",
        facts=frozenset({prop.state, "large"} if z > 1 else {prop.state}),
    )
    with canvas.part(prop.label):
        draw_shapes(pen, props[prop.label])


def _compose(scene: DrawnScene, canvas: Canvas) -> None:
    draw_place(canvas, scene)
    for thing in scene.things:
        if isinstance(thing, DrawnFigure):
            draw_figure(canvas, thing, thing.who.name)
        else:
            _draw_prop(canvas, thing)
    draw_weather(canvas, scene)


def draw(scene: DrawnScene, style: Style, size_px: int = 384) -> Image.Image:
    """Draw a scene in one illustrator's style.

    Args:
        scene: scene to draw.
        style: drawing style.
        size_px: side of the square picture, pixels, at least 16.
    Returns:
        RGB picture, (size_px, size_px); equal arguments give equal pixels.
    Raises:
        DataError: the size is below 16, or a prop is unknown.
    """
    if size_px < 16:
        raise DataError(f"picture book: size {size_px} px, expected at least 16")
    canvas = Canvas(size_px, style, flip=scene.flip, zoom=scene.zoom)
    _compose(scene, canvas)
    return finished(canvas, scene, size_px)


def boxes(scene: DrawnScene, style: Style) -> dict[str, Box]:
    """Boxes of all labelled parts, (x0, y0, x1, y1) in [0, 1], without drawing pixels.

    Keys: a prop's label, a character's name, `owner/part` for clothes and contents, and scenery.
    """
    canvas = Canvas(0, style, flip=scene.flip, zoom=scene.zoom)
    _compose(scene, canvas)
    result = {key: canvas.unit_box(key) for key in canvas.boxes}
    return {key: box for key, box in result.items() if box[2] - box[0] > 1e-3 and box[3] - box[1] > 1e-3}


def scene_graph(scene: DrawnScene, style: Style, image: str) -> dict[str, Any]:
    """The true scene graph of a picture, with scores of 1.

    Args:
        scene: scene of the picture.
        style: drawing style, which affects the boxes slightly.
        image: id of the picture.
    Returns:
        ``{"image", "objects": [{"label", "box", "score"}], "relations": [{"s", "p", "o", "score"}]}``.
    """
    object_boxes = boxes(scene, style)
    species = {figure.who.name: figure.who.species for figure in scene.figures}
    keys = list(object_boxes)
    objects = [
        {
            "label": species.get(key) or re.sub(r"\d+$", "", key.rsplit("/", 1)[-1]),
            "box": [round(float(v), 5) for v in object_boxes[key]],
            "score": 1.0,
        }
        for key in keys
    ]
    place = {key: i for i, key in enumerate(keys)}
    for label in scene.inside:
        place.setdefault(label, next(i for i, key in enumerate(keys) if key.endswith(f"/{label}")))
    triples = [(place[s], p, place[o]) for s, p, o in scene.relations if s in place and o in place]
    for name in species:
        triples += [
            (place[name], "wearing", place[key])
            for key in keys
            if key.startswith(f"{name}/") and name in place
        ]
    relations = [{"s": s, "p": p, "o": o, "score": 1.0} for s, p, o in triples]
    return {"image": image, "objects": objects, "relations": relations}
