"""Things for play and travel: kites, balloons, balls, umbrellas, telescopes.

Each function draws one thing at the middle of its base (or where a hand holds it), in one of its states.
"""

from math import cos, pi, sin

from limner.worlds.canvas import RGB, Draw, Pen, bend, curve, darker, lighter
from limner.worlds.world import Point


def _kite(t: Pen) -> None:
    turn = 2.3 if t.state == "stuck" else 0.35

    def turned(u: float, v: float) -> Point:
        return u * cos(turn) - v * sin(turn), -(u * sin(turn) + v * cos(turn))

    if t.state == "lying":
        t.shadow(0.12)
        corner = [(-0.1, 0.035), (0.02, 0.1), (0.13, 0.05), (0.01, -0.015)]
        tail = [(0.13, 0.05), (0.17, 0.02), (0.21, 0.05), (0.25, 0.02)]
        mid = (0.015, 0.043)
    else:
        corner = [turned(0, -0.12), turned(0.085, -0.02), turned(0, 0.13), turned(-0.085, -0.02)]
        tail = [turned(0, 0.13), turned(0.04, 0.18), turned(-0.01, 0.23), turned(0.04, 0.28)]
        mid = turned(0, -0.02)
    ribbon = [t.point(*at) for at in tail]
    if t.state == "stuck":
        x, y, z = t.x, t.y, t.z
        ribbon[1:] = [(x - 0.14 * z, y + 0.04), (x - 0.12 * z, y + 0.1), (x - 0.15 * z, y + 0.15)]
    t.c.stroke(curve(ribbon, closed=False), 0.007, "blue", line=0.4)
    for knot in ribbon[1:]:
        bow = [(-0.018, 0.011), (0.018, -0.011), (0.018, 0.011), (-0.018, -0.011)]
        Pen(t.c, t.prop, knot, t.z).area(bow, "yellow", line=0.6)
    for i, fill in enumerate(("red", "yellow", "red", "yellow")):
        t.area([mid, corner[i], corner[(i + 1) % 4]], fill, line=0.3)
    t.stroke([*corner, corner[0]], 0.006, (150, 40, 44), line=0)


def _string(t: Pen) -> None:
    if t.state == "taut" and t.to:
        t.c.stroke(bend(t.at, t.to, -0.08), 0.005, (250, 250, 246), line=0.35)
        t.oval((0, 0), 0.016, 0.012, "wood", line=0.7)
        return
    t.oval((0, 0.022), 0.036, 0.028, (250, 246, 236))
    for i in range(3):
        t.arc((-0.03, 0.032 - 0.01 * i), (0.03, 0.026 - 0.008 * i), 0.2, 0.003, (160, 140, 110), line=0)
    t.stroke([(0.03, 0.01), (0.06, 0.003), (0.075, 0.01)], 0.004, (250, 246, 236), line=0.4)


def _balloon(t: Pen) -> None:
    red: RGB = (222, 66, 76)
    (x, y), z = t.at, t.z
    if t.state == "flat":
        sides = ((0.034, -0.06), (0.022, -0.11), (-0.016, -0.115), (-0.028, -0.06))
        t.blob([(-0.012, 0.01), (0.012, 0.01), *sides], red)
        t.stroke([(-0.012, 0.012), (0.012, 0.012)], 0.012, darker(red, 0.2))
        return
    if t.state == "growing":
        rx, ry = 0.075 * z, 0.088 * z
        t.c.shadow(t.at, 0.07)
        cy = y - ry - 0.012
        knot = [(x - rx - 0.024, cy + 0.02), (x - rx - 0.024, cy - 0.012), (x - rx + 0.02, cy + 0.004)]
    else:
        rx, ry, cy = 0.105 * z, 0.125 * z, y
        if t.to:
            t.c.stroke(bend((x, y + ry + 0.01), t.to, 0.12), 0.005, (250, 250, 246), line=0.3)
        knot = [(x, y + ry - 0.006), (x - 0.018, y + ry + 0.018), (x + 0.018, y + ry + 0.018)]
    t.c.area(knot, darker(red, 0.15), line=0.7)
    t.c.oval((x, cy), rx, ry, red)
    t.c.oval((x - rx * 0.35, cy - ry * 0.4), rx * 0.2, ry * 0.26, lighter(red, 0.6), turn=0.4, line=0)


def _pump(t: Pen) -> None:
    rise = 0.17 if t.state == "pressed" else 0.25
    t.shadow(0.06)
    if t.state == "pressed":
        t.arc((0.02, 0.02), (0.085, 0.1), 0.35, 0.01, (70, 74, 84))
    t.stroke([(0, 0.12), (0, rise)], 0.012, (170, 174, 184), line=0.8)
    t.stroke([(-0.045, rise), (0.045, rise)], 0.018, (70, 74, 84), line=0.8)
    t.slab((-0.026, 0.145, 0.026, 0), "blue")
    t.slab((-0.055, 0.014, 0.055, -0.004), (70, 74, 84))


def _ball(t: Pen) -> None:
    t.shadow(0.065)
    ball = t.moved(0, 0, 0.065)
    ball.oval((0, 1), 1, 1, "red")
    ball.stroke([(-0.93, 1.05), (0, 0.85), (0.93, 1.05)], ball.z * 0.42, "white", line=0)
    ball.oval((-0.35, 1.5), 0.2, 0.14, "white", line=0)


def _umbrella(t: Pen) -> None:
    (x, y), stick = t.at, (96, 66, 54)
    t.c.stroke([(x, y + 0.03), t.point(0, 0.36)], 0.011, stick, line=0.8)
    t.c.stroke([(x, y + 0.03), (x + 0.012, y + 0.05), (x + 0.03, y + 0.035)], 0.011, stick, line=0.8)
    top = t.moved(0, 0.36)
    rim = [(-0.22 + 0.055 * i, -0.1 if i % 2 == 0 else -0.082) for i in range(9)]
    dome = [(0.22 * cos(pi * k / 14), 0.13 * sin(pi * k / 14) - 0.1) for k in range(1, 14)]
    top.area([*rim, *dome], (236, 186, 62))
    for i in (2, 4, 6):
        top.arc((0, 0.03), rim[i], 0.12 * (i - 4) / 2, 0.004, (190, 140, 40), line=0)


def _suitcase(t: Pen) -> None:
    t.stroke([(-0.03, 0.1), (-0.025, 0.125), (0.025, 0.125), (0.03, 0.1)], 0.01, (90, 60, 50))
    t.slab((-0.085, 0.1, 0.085, -0.02), (176, 104, 66))
    for u in (-0.05, 0.05):
        t.slab((u - 0.01, 0.1, u + 0.01, -0.02), (120, 72, 52), line=0)


def _telescope(t: Pen) -> None:
    for u in (-0.09, 0.0, 0.09):
        t.stroke([(0, 0.25), (u, 0)], 0.012, "wood", line=0.8)
    t.stroke([(-0.13, 0.22), (0.02, 0.285)], 0.042 * t.z, (84, 96, 140))
    t.stroke([(0.02, 0.285), (0.15, 0.34)], 0.058 * t.z, (104, 120, 170))
    t.oval((0.165, 0.347), 0.013, 0.032, (200, 226, 246), turn=-0.4)


def _drum(t: Pen) -> None:
    t.shadow(0.09)
    t.slab((-0.075, 0.12, 0.075, 0), "red")
    for i in range(5):
        u = -0.06 + 0.03 * i
        cord = [(u, 0.115), (u + 0.015, 0.005), (u + 0.03 if i < 4 else u, 0.115)]
        t.stroke(cord, 0.004, "gold", line=0)
    t.oval((0, 0.12), 0.076, 0.022, "cream")


def _bench(t: Pen) -> None:
    t.shadow(0.24)
    for v in (0.2, 0.145):
        t.slab((-0.22, v, 0.22, v - 0.032), (150, 108, 72))
    for u in (-0.19, 0.19):
        t.slab((u - 0.012, 0.21, u + 0.012, 0), (120, 84, 60))
    t.slab((-0.24, 0.095, 0.24, 0.06), (176, 128, 86))


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
