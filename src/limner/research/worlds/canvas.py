"""A supersampled canvas in unit coordinates, which draws in a `Style`.

Lines wobble, fills follow the palette, and a bounding box is recorded for each labelled part.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw

from limner.research.worlds.tales import Point, Style

RGB = tuple[int, int, int]
Box = tuple[float, float, float, float]
Floats = npt.NDArray[np.float64]

OVERSAMPLE = 3
# (2, 40) points of the unit circle
ROUND = np.array([f(np.linspace(0, 2 * np.pi, 40, endpoint=False)) for f in (np.cos, np.sin)])
NAMED: dict[str, RGB] = {
    "red": (214, 58, 52),
    "blue": (58, 112, 190),
    "green": (78, 152, 84),
    "yellow": (246, 204, 74),
    "purple": (134, 88, 168),
    "pink": (240, 148, 172),
    "orange": (240, 142, 54),
    "white": (250, 247, 240),
    "brown": (140, 94, 58),
    "grey": (150, 152, 160),
    "black": (48, 44, 52),
    "cream": (252, 236, 206),
    "wood": (188, 136, 84),
    "skin": (244, 206, 172),
    "gold": (240, 190, 60),
    "navy": (48, 62, 108),
    "leaf": (104, 168, 84),
    "water": (98, 170, 206),
    "sand": (240, 216, 158),
    "snow": (244, 248, 252),
    "stone": (170, 168, 164),
    "tomato": (224, 84, 60),
    "rose": (236, 128, 132),
}
# palette: saturation, brightness, tint and weight of the tint
PALETTE: dict[str, tuple[float, float, RGB, float]] = {
    "bright": (1.08, 1.0, (255, 250, 235), 0.04),
    "pastel": (0.82, 1.06, (255, 246, 240), 0.26),
    "earthy": (0.86, 0.97, (196, 150, 96), 0.14),
    "retro": (0.94, 0.98, (250, 214, 160), 0.18),
    "cool": (0.92, 1.0, (170, 200, 235), 0.16),
}


def mix(a: RGB, b: RGB, share: float) -> RGB:
    """Interpolate between two colours.

    Args:
        a: RGB 0 to 255.
        b: RGB 0 to 255.
        share: 0 gives a, 1 gives b.
    """
    return (
        round(a[0] + (b[0] - a[0]) * share),
        round(a[1] + (b[1] - a[1]) * share),
        round(a[2] + (b[2] - a[2]) * share),
    )


def darker(colour: RGB, share: float = 0.2) -> RGB:
    """Mix a colour with a warm dark one; `share` from 0 to 1."""
    return mix(colour, (52, 30, 48), share)


def lighter(colour: RGB, share: float = 0.3) -> RGB:
    """Mix a colour with warm white; `share` from 0 to 1."""
    return mix(colour, (255, 252, 244), share)


def curve(points: Sequence[Point], closed: bool = True, steps: int = 8) -> list[Point]:
    """Smooth Catmull-Rom curve through points.

    Args:
        points: at least three for a closed curve, two for an open one.
        closed: whether the curve returns to the first point.
        steps: number of pieces between two points.
    """
    p = np.asarray(points, dtype=np.float64)
    p = np.vstack([p[-1], p, p[0], p[1]]) if closed else np.vstack([p[0], p, p[-1]])
    t = np.linspace(0, 1, steps, endpoint=False)[:, None]
    out = [
        0.5 * (2 * b + (c - a) * t + (2 * a - 5 * b + 4 * c - d) * t**2 + (3 * b - a - 3 * c + d) * t**3)
        for a, b, c, d in zip(p[:-3], p[1:-2], p[2:-1], p[3:], strict=True)
    ]
    if not closed:
        out.append(p[-2:-1])
    return [(float(x), float(y)) for x, y in np.vstack(out)]


def bend(start: Point, end: Point, bulge: float, steps: int = 10) -> list[Point]:
    """Quadratic arc between two points, its control point `bulge` times their distance to the left."""
    (x0, y0), (x1, y1) = start, end
    mx, my = (x0 + x1) / 2 + (y1 - y0) * bulge, (y0 + y1) / 2 - (x1 - x0) * bulge
    out = []
    for i in range(steps + 1):
        t = i / steps
        a, b, c = (1 - t) ** 2, 2 * t * (1 - t), t * t
        out.append((a * x0 + b * mx + c * x1, a * y0 + b * my + c * y1))
    return out


class Canvas:
    """A square canvas.

    Args:
        size_px: side of the finished picture, pixels; 0 records only boxes.
        style: drawing style.
        flip: mirror left and right.
        zoom: magnification around (0.5, 0.8).
    """

    def __init__(self, size_px: int, style: Style, *, flip: bool = False, zoom: float = 1.0) -> None:
        self.style = style
        self.flip, self.zoom = flip, zoom
        self.side = size_px * OVERSAMPLE
        self.boxes: dict[str, Box] = {}
        self.lights: list[tuple[float, float, float, float]] = []
        self._open: list[str] = []
        self._phases = np.random.default_rng(style.seed).uniform(0, 6.283, 6)
        self.image: Image.Image | None = None
        if size_px:
            self.image = Image.new("RGB", (self.side, self.side), (255, 255, 255))
            self._pen = ImageDraw.Draw(self.image, "RGBA")

    @contextmanager
    def part(self, key: str) -> Iterator[None]:
        """Context in which everything drawn extends the box of `key`."""
        self._open.append(key)
        try:
            yield
        finally:
            self._open.pop()

    def colour(self, colour: RGB | str) -> RGB:
        """A colour, adjusted to the style's palette."""
        r, g, b = NAMED[colour] if isinstance(colour, str) else colour
        saturation, bright, lean, share = PALETTE[self.style.palette]
        grey = 0.3 * r + 0.59 * g + 0.11 * b
        toned = tuple(min(255, max(0, round((grey + (v - grey) * saturation) * bright))) for v in (r, g, b))
        return mix((toned[0], toned[1], toned[2]), lean, share)

    def _place(self, points: Sequence[Point] | Floats, pad: float, *, steady: bool = False) -> list[Point]:
        """Unit coordinates → pixels of the large canvas, after wobble, zoom and flip; extends boxes."""
        p = np.asarray(points, dtype=np.float64)
        x, y = p[:, 0], p[:, 1]
        if not steady:
            # the wobble is a fixed warp of the page, so that removing an object does not move other lines
            a, f = self.style.wobble, self._phases
            x, y = (
                x + a * (np.sin(31 * y + f[0]) + 0.5 * np.sin(17 * x + 53 * y + f[1])),
                y + a * (np.sin(29 * x + f[2]) + 0.5 * np.sin(47 * x - 19 * y + f[3])),
            )
        x, y = 0.5 + (x - 0.5) * self.zoom, 0.8 + (y - 0.8) * self.zoom
        if self.flip:
            x = 1 - x
        if self._open:
            extent = (x.min() - pad, y.min() - pad, x.max() + pad, y.max() + pad)
            for key in self._open:
                x0, y0, x1, y1 = self.boxes.get(key, extent)
                self.boxes[key] = (
                    min(x0, extent[0]),
                    min(y0, extent[1]),
                    max(x1, extent[2]),
                    max(y1, extent[3]),
                )
        return list(zip((x * self.side).tolist(), (y * self.side).tolist(), strict=True))

    def area(
        self,
        points: Sequence[Point] | Floats,
        fill: RGB | str,
        *,
        line: float = 1.0,
        alpha: int = 255,
        raw: bool = False,
    ) -> None:
        """Draw a filled polygon with an outline.

        Args:
            points: corners in unit coordinates.
            fill: colour.
            line: factor of the outline's width; 0 for no outline.
            alpha: opacity 0 to 255; below 255 no outline is drawn.
            raw: whether to use the colour without the palette.
        """
        width = self.style.line * line * self.zoom if alpha == 255 else 0.0
        dots = self._place(points, width / 2)
        if self.image is None:
            return
        rgb = fill if raw and not isinstance(fill, str) else self.colour(fill)
        self._pen.polygon(dots, fill=(*rgb, alpha))
        if width:
            self._ink([*dots, dots[0], dots[1]], width, mix(self.style.ink, darker(rgb, 0.55), 0.35))

    def _ink(self, dots: list[Point], width: float, colour: RGB, alpha: int = 255) -> None:
        px = max(1, round(width * self.side))
        self._pen.line(dots, fill=(*colour, alpha), width=px, joint="curve")

    def blob(self, points: Sequence[Point], fill: RGB | str, *, line: float = 1.0, alpha: int = 255) -> None:
        """Draw a smooth closed shape through points."""
        self.area(curve(points), fill, line=line, alpha=alpha)

    def oval(
        self,
        at: Point,
        rx: float,
        ry: float,
        fill: RGB | str,
        *,
        turn: float = 0.0,
        line: float = 1.0,
        alpha: int = 255,
        raw: bool = False,
    ) -> None:
        """Draw an ellipse with semi-axes rx and ry, rotated by `turn` radians."""
        x, y = rx * ROUND[0], ry * ROUND[1]
        c, s = float(np.cos(turn)), float(np.sin(turn))
        points = np.stack([at[0] + x * c - y * s, at[1] + x * s + y * c], axis=1)
        self.area(points, fill, line=line, alpha=alpha, raw=raw)

    def slab(self, box: Box, fill: RGB | str, *, line: float = 1.0, alpha: int = 255) -> None:
        """Draw an upright rectangle; its sides are subdivided so that they wobble."""
        x0, y0, x1, y1 = box
        corners = [(x0, y0), (x1, y0), (x1, y1), (x0, y1), (x0, y0)]
        points = [
            (a[0] + (b[0] - a[0]) * i / 6, a[1] + (b[1] - a[1]) * i / 6)
            for a, b in pairwise(corners)
            for i in range(6)
        ]
        self.area(points, fill, line=line, alpha=alpha)

    def stroke(
        self, points: Sequence[Point], width: float, fill: RGB | str, *, line: float = 1.0, alpha: int = 255
    ) -> None:
        """Draw a thick line with round ends and an outline."""
        rim = self.style.line * line if alpha == 255 else 0.0
        dots = self._place(points, (width / 2 + rim) * self.zoom)
        if self.image is None:
            return
        rgb = self.colour(fill)
        passes = [(width, rgb)]
        if rim:
            passes.insert(0, (width + 2 * rim, mix(self.style.ink, darker(rgb, 0.55), 0.35)))
        for wide, tint in passes:
            px = max(1.0, wide * self.zoom * self.side)
            self._pen.line(dots, fill=(*tint, alpha), width=round(px), joint="curve")
            if alpha == 255:
                for x, y in (dots[0], dots[-1]):
                    self._pen.ellipse((x - px / 2, y - px / 2, x + px / 2, y + px / 2), fill=tint)

    def gradient(self, top: float, bottom: float, first: RGB, last: RGB) -> None:
        """Fill a band over the full width with a vertical gradient; no box is extended."""
        if self.image is None:
            return
        (_, y0), (_, y1) = self._place([(0, top), (1, bottom)], 0, steady=True)
        a, b = self.colour(first), self.colour(last)
        span = max(1.0, y1 - y0)
        start = 0 if top <= 0 else round(y0)
        for y in range(max(0, start), min(self.side, round(y1) + 1)):
            share = min(1.0, max(0.0, (y - y0) / span))
            self._pen.line([(0, y), (self.side, y)], fill=mix(a, b, share))

    def _dot(self, at: Point) -> Point:
        """A point in pixels; no box is extended."""
        keys, self._open = self._open, []
        (dot,) = self._place([at], 0)
        self._open = keys
        return dot

    def glow(self, at: Point, radius: float, colour: RGB, strength: float = 0.5) -> None:
        """Draw a soft round light, which also brightens the night around it; no box is extended."""
        dot = self._dot(at)
        if self.side:
            self.lights.append((dot[0] / self.side, dot[1] / self.side, radius * self.zoom, strength))
        self._soft(at, radius, radius, colour, strength)

    def shadow(self, at: Point, rx: float, ry: float = 0.018, strength: float = 0.3) -> None:
        """Draw a soft shadow on the ground; no box is extended."""
        self._soft(at, rx * 1.25, ry * 1.5, (40, 34, 66), strength)

    def _soft(self, at: Point, rx: float, ry: float, colour: RGB, strength: float) -> None:
        if self.image is None:
            return
        dot = self._dot(at)
        w, h = max(2, round(2 * rx * self.zoom * self.side)), max(2, round(2 * ry * self.zoom * self.side))
        x, y = np.linspace(-1, 1, min(w, 96)), np.linspace(-1, 1, min(h, 96))[:, None]
        fall = np.clip(1 - (x * x + y * y), 0, 1) ** 1.3
        mask = Image.fromarray((fall * 255 * strength).astype(np.uint8)).resize((w, h))
        self.image.paste(colour, (round(dot[0] - w / 2), round(dot[1] - h / 2)), mask)

    def unit_box(self, key: str) -> Box:
        """Box of a part, clipped to the picture: x0, y0, x1, y1 in 0 to 1."""
        x0, y0, x1, y1 = (min(1.0, max(0.0, v)) for v in self.boxes[key])
        return x0, y0, x1, y1
