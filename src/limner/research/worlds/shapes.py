"""Drawings as tables of shapes, and the one function that draws them.

The tables lie beside this file: `props.toml` and others. A shape is a line of words:
``[facts:] verb points numbers colour [option=value ...]``. `Pen` says where its units lie on the page.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

from limner.research.worlds.canvas import NAMED, RGB, Canvas, bend, curve, darker, lighter, mix
from limner.research.worlds.world import Point, read_table

COLOUR = re.compile(r"(#?\w+)((?:[+-][\d.]+)*)")


@dataclass(frozen=True)
class Shape:
    """One line of a drawing.

    Attributes:
        verb: area, blob, slab, oval, stroke, arc, curl, glow, shadow, or the name of a smaller drawing.
        points: (u, v, share): right and above of the origin, moved by a share of the way to the far end.
        numbers: radii, widths and the like, as the verb wants them.
        fill: colour, see `Pen.colour`; "" where the verb takes none.
        when: every one of them must hold: alternatives among facts, `!` for none of them.
        part: part of the thing that the shape belongs to, or "".
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
        """Whether the shape is drawn under these facts."""
        return all(facts.isdisjoint(one.lstrip("!").split("|")) == one.startswith("!") for one in self.when)


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
    """The drawings of a table beside this file, by name."""
    return {name: tuple(_shape(line) for line in lines) for name, lines in read_table(table).items()}


@dataclass(frozen=True)
class Pen:
    """A canvas in the units of one thing: a point (u, v) lies u to its right and v above its origin.

    Attributes:
        canvas: what is drawn on.
        place: from (u, v) to the page.
        unit: length on the page.
        width: factor on the width of lines: 1 draws a big thing with the same pencil as a small one.
        to: the far end of a thing with two ends, on the page.
        turn: -1 where `place` mirrors.
        owner: what the parts belong to, with a slash, or "".
        facts: what is true of the thing.
        colours: colours that have a name in this drawing only.
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

    def moved(self, u: float, v: float, unit: float) -> "Pen":
        """The pen of a smaller drawing at (u, v), whose unit is `unit` of this one's and widens its lines."""
        x, y = self.place(u, v)
        z = unit * self.unit
        return replace(self, place=lambda a, b: (x + a * z, y - b * z), unit=z, width=z)

    def point(self, at: tuple[float, float, float]) -> Point:
        """Where a point of a shape lies on the page."""
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
    """Draw those shapes whose facts hold, in their order; a verb may name a drawing of shapes.toml."""
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
            own = replace(pen, colours={**pen.colours, "own": fill})
            for u, v, _ in shape.points:
                draw_shapes(own.moved(u, v, n[0]), drawings("shapes")[name])
