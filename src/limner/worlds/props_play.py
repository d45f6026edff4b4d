"""Things for play and travel: kites, balloons, balls, umbrellas, telescopes.

Each function draws one thing at the middle of its base (or where a hand holds it), in one of its states.
It decides no positions.
"""

from math import cos, pi, sin

from limner.worlds.canvas import RGB, Canvas, Draw, bend, curve, darker, lighter
from limner.worlds.world import Point, Prop


def _kite(c: Canvas, p: Prop, key: str) -> None:
    (x, y), z = p.at, p.size
    if p.state == "lying":
        c.shadow((x, y), 0.12 * z)
        corner = [
            (x - 0.10 * z, y - 0.035 * z),
            (x + 0.02 * z, y - 0.10 * z),
            (x + 0.13 * z, y - 0.05 * z),
            (x + 0.01 * z, y + 0.015 * z),
        ]
        tail: list[Point] = [
            (x + 0.13 * z, y - 0.05 * z),
            (x + 0.17 * z, y - 0.02 * z),
            (x + 0.21 * z, y - 0.05 * z),
            (x + 0.25 * z, y - 0.02 * z),
        ]
        mid = (x + 0.015 * z, y - 0.043 * z)
    else:
        turn = 0.35 if p.state == "flying" else 2.3

        def at(u: float, v: float) -> Point:
            return x + (u * cos(turn) - v * sin(turn)) * z, y + (u * sin(turn) + v * cos(turn)) * z

        corner = [at(0, -0.12), at(0.085, -0.02), at(0, 0.13), at(-0.085, -0.02)]
        mid = at(0, -0.02)
        tail = (
            [at(0, 0.13), at(0.04, 0.18), at(-0.01, 0.23), at(0.04, 0.28)]
            if p.state == "flying"
            else [at(0, 0.13), (x - 0.14 * z, y + 0.04), (x - 0.12 * z, y + 0.10), (x - 0.15 * z, y + 0.15)]
        )
    c.stroke(curve(tail, closed=False), 0.007, "blue", line=0.4)
    for bx, by in tail[1:]:
        c.area(
            [
                (bx - 0.018 * z, by - 0.011 * z),
                (bx + 0.018 * z, by + 0.011 * z),
                (bx + 0.018 * z, by - 0.011 * z),
                (bx - 0.018 * z, by + 0.011 * z),
            ],
            "yellow",
            line=0.6,
        )
    for i, fill in enumerate(("red", "yellow", "red", "yellow")):
        c.area([mid, corner[i], corner[(i + 1) % 4]], fill, line=0.3)
    c.stroke([*corner, corner[0]], 0.006, (150, 40, 44), line=0)


def _string(c: Canvas, p: Prop, key: str) -> None:
    if p.state == "taut" and p.to:
        c.stroke(bend(p.at, p.to, -0.08), 0.005, (250, 250, 246), line=0.35)
        c.oval(p.at, 0.016, 0.012, "wood", line=0.7)
        return
    (x, y), z = p.at, p.size
    c.oval((x, y - 0.022), 0.036 * z, 0.028 * z, (250, 246, 236))
    for i in range(3):
        c.stroke(
            bend((x - 0.03 * z, y - 0.032 + 0.010 * i), (x + 0.03 * z, y - 0.026 + 0.008 * i), 0.2),
            0.003,
            (160, 140, 110),
            line=0,
        )
    c.stroke(
        [(x + 0.03, y - 0.01), (x + 0.06, y - 0.003), (x + 0.075, y - 0.010)],
        0.004,
        (250, 246, 236),
        line=0.4,
    )


def _balloon(c: Canvas, p: Prop, key: str) -> None:
    (x, y), z = p.at, p.size
    red: RGB = (222, 66, 76)
    if p.state == "flat":
        c.blob(
            [
                (x - 0.012, y - 0.01),
                (x + 0.012, y - 0.01),
                (x + 0.034, y + 0.06),
                (x + 0.022, y + 0.11),
                (x - 0.016, y + 0.115),
                (x - 0.028, y + 0.06),
            ],
            red,
        )
        c.stroke([(x - 0.012, y - 0.012), (x + 0.012, y - 0.012)], 0.012, darker(red, 0.2))
        return
    if p.state == "growing":
        rx, ry = 0.075 * z, 0.088 * z
        c.shadow((x, y), 0.07)
        cy = y - ry - 0.012
        c.area(
            [(x - rx - 0.024, cy + 0.02), (x - rx - 0.024, cy - 0.012), (x - rx + 0.02, cy + 0.004)],
            darker(red, 0.15),
            line=0.7,
        )
    else:
        rx, ry, cy = 0.105 * z, 0.125 * z, y
        if p.to:
            c.stroke(bend((x, y + ry + 0.01), p.to, 0.12), 0.005, (250, 250, 246), line=0.3)
        c.area(
            [(x, y + ry - 0.006), (x - 0.018, y + ry + 0.018), (x + 0.018, y + ry + 0.018)],
            darker(red, 0.15),
            line=0.7,
        )
    c.oval((x, cy), rx, ry, red)
    c.oval((x - rx * 0.35, cy - ry * 0.4), rx * 0.2, ry * 0.26, lighter(red, 0.6), turn=0.4, line=0)


def _pump(c: Canvas, p: Prop, key: str) -> None:
    (x, y), z = p.at, p.size
    rise = 0.17 if p.state == "pressed" else 0.25
    c.shadow((x, y), 0.06)
    if p.state == "pressed":
        c.stroke(bend((x + 0.02, y - 0.02), (x + 0.085, y - 0.10), 0.35), 0.010, (70, 74, 84))
    c.stroke([(x, y - 0.12 * z), (x, y - rise * z)], 0.012, (170, 174, 184), line=0.8)
    c.stroke([(x - 0.045, y - rise * z), (x + 0.045, y - rise * z)], 0.018, (70, 74, 84), line=0.8)
    c.slab((x - 0.026 * z, y - 0.145 * z, x + 0.026 * z, y), "blue")
    c.slab((x - 0.055 * z, y - 0.014, x + 0.055 * z, y + 0.004), (70, 74, 84))


def _ball(c: Canvas, p: Prop, key: str) -> None:
    (x, y), z = p.at, p.size
    r = 0.065 * z
    c.shadow((x, y), r)
    c.oval((x, y - r), r, r, "red")
    c.stroke(
        [(x - r * 0.93, y - r * 1.05), (x, y - r * 0.85), (x + r * 0.93, y - r * 1.05)],
        r * 0.42,
        "white",
        line=0,
    )
    c.oval((x - r * 0.35, y - r * 1.5), r * 0.2, r * 0.14, "white", line=0)


def _umbrella(c: Canvas, p: Prop, key: str) -> None:
    (x, y), z = p.at, p.size
    top = y - 0.36 * z
    c.stroke([(x, y + 0.03), (x, top)], 0.011, (96, 66, 54), line=0.8)
    c.stroke([(x, y + 0.03), (x + 0.012, y + 0.05), (x + 0.03, y + 0.035)], 0.011, (96, 66, 54), line=0.8)
    rim = [(x + (-0.22 + 0.055 * i) * z, top + (0.10 if i % 2 == 0 else 0.082) * z) for i in range(9)]
    c.area(
        [
            *rim,
            *[
                (x + 0.22 * z * cos(a), top + 0.10 * z - 0.13 * z * sin(a))
                for a in [pi * k / 14 for k in range(1, 14)]
            ],
        ],
        (236, 186, 62),
    )
    for i in (2, 4, 6):
        c.stroke(bend((x, top - 0.03 * z), rim[i], 0.12 * (i - 4) / 2), 0.004, (190, 140, 40), line=0)


def _suitcase(c: Canvas, p: Prop, key: str) -> None:
    (x, y), z = p.at, p.size
    c.stroke(
        [
            (x - 0.03 * z, y - 0.10 * z),
            (x - 0.025 * z, y - 0.125 * z),
            (x + 0.025 * z, y - 0.125 * z),
            (x + 0.03 * z, y - 0.10 * z),
        ],
        0.010,
        (90, 60, 50),
    )
    c.slab((x - 0.085 * z, y - 0.10 * z, x + 0.085 * z, y + 0.02 * z), (176, 104, 66))
    for u in (-0.05, 0.05):
        c.slab((x + (u - 0.010) * z, y - 0.10 * z, x + (u + 0.010) * z, y + 0.02 * z), (120, 72, 52), line=0)


def _telescope(c: Canvas, p: Prop, key: str) -> None:
    (x, y), z = p.at, p.size
    for u in (-0.09, 0.0, 0.09):
        c.stroke([(x, y - 0.25 * z), (x + u * z, y)], 0.012, "wood", line=0.8)
    c.stroke([(x - 0.13 * z, y - 0.22 * z), (x + 0.02 * z, y - 0.285 * z)], 0.042 * z, (84, 96, 140))
    c.stroke([(x + 0.02 * z, y - 0.285 * z), (x + 0.15 * z, y - 0.34 * z)], 0.058 * z, (104, 120, 170))
    c.oval((x + 0.165 * z, y - 0.347 * z), 0.013 * z, 0.032 * z, (200, 226, 246), turn=-0.4)


def _drum(c: Canvas, p: Prop, key: str) -> None:
    (x, y), z = p.at, p.size
    c.shadow((x, y), 0.09 * z)
    c.slab((x - 0.075 * z, y - 0.12 * z, x + 0.075 * z, y), "red")
    for i in range(5):
        u = -0.06 + 0.03 * i
        c.stroke(
            [
                (x + u * z, y - 0.115 * z),
                (x + (u + 0.015) * z, y - 0.005),
                (x + (u + 0.03) * z if i < 4 else x + u * z, y - 0.115 * z),
            ],
            0.004,
            "gold",
            line=0,
        )
    c.oval((x, y - 0.12 * z), 0.076 * z, 0.022 * z, "cream")


def _bench(c: Canvas, p: Prop, key: str) -> None:
    (x, y), z = p.at, p.size
    c.shadow((x, y), 0.24 * z)
    for v in (0.20, 0.145):
        c.slab((x - 0.22 * z, y - v * z, x + 0.22 * z, y - (v - 0.032) * z), (150, 108, 72))
    for u in (-0.19, 0.19):
        c.slab((x + (u - 0.012) * z, y - 0.21 * z, x + (u + 0.012) * z, y), (120, 84, 60))
    c.slab((x - 0.24 * z, y - 0.095 * z, x + 0.24 * z, y - 0.060 * z), (176, 128, 86))


DRAWN: dict[str, Draw] = {
    "kite": _kite,
    "string": _string,
    "balloon": _balloon,
    "pump": _pump,
    "ball": _ball,
    "umbrella": _umbrella,
    "suitcase": _suitcase,
    "telescope": _telescope,
    "drum": _drum,
    "bench": _bench,
}
