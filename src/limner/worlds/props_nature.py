"""Things that grow, fly or fall: trees, apples, flowers, birds, snow.

Each function draws one thing at the middle of its base (or where a hand holds it), in one of its states.
It decides no positions.
"""

from math import cos, pi, sin

from limner.worlds.canvas import RGB, Canvas, Draw, bend, darker, lighter
from limner.worlds.world import Prop


def _fruit(c: Canvas, x: float, y: float, r: float) -> None:
    c.oval((x, y), r, r * 0.95, (222, 58, 50), line=0.8)
    c.stroke([(x, y - r * 0.8), (x + r * 0.25, y - r * 1.4)], r * 0.22, (96, 66, 44), line=0)
    c.oval((x - r * 0.35, y - r * 0.35), r * 0.22, r * 0.22, (255, 200, 190), line=0)


def _ball_of_snow(c: Canvas, x: float, y: float, r: float) -> None:
    c.oval((x, y - r), r * 1.04, r, (244, 248, 253))
    c.oval((x + r * 0.15, y - r * 0.45), r * 0.72, r * 0.34, (222, 232, 246), line=0)


def _tree(c: Canvas, p: Prop, key: str) -> None:
    (x, y), z = p.at, p.size
    leaf: RGB = (104, 166, 80)
    c.shadow((x, y), 0.13 * z)
    c.area(
        [
            (x - 0.045 * z, y),
            (x - 0.028 * z, y - 0.15 * z),
            (x - 0.10 * z, y - 0.30 * z),
            (x + 0.09 * z, y - 0.30 * z),
            (x + 0.03 * z, y - 0.15 * z),
            (x + 0.05 * z, y),
        ],
        (146, 104, 72),
    )
    crown = [
        (-0.20, -0.34),
        (-0.21, -0.47),
        (-0.11, -0.58),
        (0.03, -0.62),
        (0.16, -0.55),
        (0.21, -0.43),
        (0.17, -0.31),
        (0.04, -0.25),
        (-0.10, -0.26),
    ]
    c.blob([(x + u * z, y + v * z) for u, v in crown], leaf)
    for u, v, r in ((-0.10, -0.48, 0.05), (0.06, -0.53, 0.05), (0.11, -0.38, 0.05), (-0.05, -0.34, 0.04)):
        c.oval((x + u * z, y + v * z), r * z, r * 0.75 * z, lighter(leaf, 0.18), line=0)
    if p.state == "apples":
        with c.part(f"{key}/apples"):
            for u, v in (
                (-0.13, -0.38),
                (-0.06, -0.50),
                (0.04, -0.41),
                (0.13, -0.48),
                (0.10, -0.31),
                (-0.03, -0.30),
                (0.03, -0.56),
            ):
                _fruit(c, x + u * z, y + v * z, 0.021 * z)


def _apple(c: Canvas, p: Prop, key: str) -> None:
    _fruit(c, p.at[0], p.at[1], 0.030 * p.size)
    c.oval((p.at[0] + 0.026, p.at[1] - 0.004), 0.011, 0.013, (250, 240, 200), line=0)


def _ladder(c: Canvas, p: Prop, key: str) -> None:
    (x0, y0), (x1, y1) = p.at, p.to or (p.at[0], p.at[1] - 0.4)
    half = 0.042
    for d in (-half, half):
        c.stroke([(x0 + d, y0), (x1 + d * 0.8, y1)], 0.015, (206, 160, 100))
    for i in range(1, 8):
        t = i / 8
        x, y = x0 + (x1 - x0) * t, y0 + (y1 - y0) * t
        c.stroke([(x - half, y), (x + half, y)], 0.011, (186, 140, 84), line=0.8)


def _basket(c: Canvas, p: Prop, key: str) -> None:
    (x, y), z = p.at, p.size
    c.shadow((x, y), 0.10 * z)
    c.stroke(bend((x - 0.075 * z, y - 0.09 * z), (x + 0.075 * z, y - 0.09 * z), 0.7), 0.012, (166, 116, 66))
    c.oval((x, y - 0.09 * z), 0.092 * z, 0.020 * z, (112, 80, 52))
    count = {"empty": 0, "half": 3, "full": 9}[p.state]
    if count:
        with c.part(f"{key}/apples"):
            spots = (
                ((-0.05, 0.10), (0.0, 0.10), (0.05, 0.10))
                if count == 3
                else (
                    (-0.065, 0.10),
                    (-0.022, 0.105),
                    (0.022, 0.105),
                    (0.065, 0.10),
                    (-0.045, 0.132),
                    (0.0, 0.138),
                    (0.045, 0.132),
                    (-0.02, 0.165),
                    (0.022, 0.163),
                )
            )
            for u, v in spots:
                _fruit(c, x + u * z, y - v * z, 0.025 * z)
    c.area(
        [(x - 0.092 * z, y - 0.09 * z), (x - 0.07 * z, y), (x + 0.07 * z, y), (x + 0.092 * z, y - 0.09 * z)],
        (206, 156, 96),
    )
    for i in range(1, 3):
        c.stroke(
            [(x - 0.085 * z, y - 0.03 * i * z), (x + 0.085 * z, y - 0.03 * i * z)],
            0.004,
            (150, 104, 60),
            line=0,
        )
    for i in range(-2, 3):
        c.stroke(
            [(x + 0.036 * i * z, y - 0.085 * z), (x + 0.028 * i * z, y - 0.005)],
            0.004,
            (150, 104, 60),
            line=0,
        )


def _seed(c: Canvas, p: Prop, key: str) -> None:
    x, y = p.at
    c.oval((x + 0.012, y + 0.012), 0.013, 0.018, (120, 82, 50), turn=0.5)
    c.oval((x + 0.008, y + 0.006), 0.004, 0.005, (220, 190, 150), line=0)


def _plant(c: Canvas, p: Prop, key: str) -> None:
    (x, y), z = p.at, p.size
    c.stroke([(x, y + 0.012), (x + 0.004, y - 0.06 * z), (x, y - 0.10 * z)], 0.011 * z, (92, 156, 74))
    for u, v in ((-1, 0.07), (1, 0.085), (-0.8, 0.115), (0.8, 0.12)):
        c.oval((x + 0.03 * u * z, y - v * z), 0.031 * z, 0.014 * z, (120, 186, 84), turn=-0.5 * u)


def _flower(c: Canvas, p: Prop, key: str) -> None:
    (x, y), z = p.at, p.size
    c.stroke([(x, y + 0.012), (x + 0.012, y - 0.12 * z), (x, y - 0.25 * z)], 0.014 * z, (92, 156, 74))
    for u, v in ((-1, 0.08), (1, 0.12)):
        c.oval((x + 0.05 * u * z, y - v * z), 0.052 * z, 0.020 * z, (120, 186, 84), turn=-0.5 * u)
    cx, cy = x, y - 0.30 * z
    for i in range(9):
        a = i * 2 * pi / 9
        c.oval(
            (cx + 0.068 * z * cos(a), cy + 0.068 * z * sin(a)),
            0.046 * z,
            0.028 * z,
            (246, 196, 60) if i % 2 else (250, 168, 56),
            turn=a,
        )
    c.oval((cx, cy), 0.050 * z, 0.050 * z, (128, 78, 48))
    for i in range(8):
        c.oval(
            (cx + 0.026 * z * cos(i * 2.4), cy + 0.026 * z * sin(i * 2.4)),
            0.005,
            0.005,
            (196, 140, 80),
            line=0,
        )


def _watering_can(c: Canvas, p: Prop, key: str) -> None:
    x, y = p.at
    fill: RGB = (86, 150, 170)
    for i in range(5):
        a = (x + 0.142, y + 0.012)
        c.stroke(
            bend((a[0] - 0.012 + 0.008 * i, a[1] + 0.006 * i), (x + 0.125 + 0.016 * i, y + 0.125), -0.12),
            0.005,
            (130, 196, 236),
            line=0,
        )
    c.stroke([(x + 0.04, y + 0.045), (x + 0.13, y + 0.005)], 0.018, fill)
    c.area(
        [(x + 0.118, y - 0.016), (x + 0.148, y + 0.000), (x + 0.142, y + 0.030), (x + 0.124, y + 0.018)],
        darker(fill, 0.2),
    )
    c.stroke(
        [(x - 0.05, y + 0.05), (x - 0.06, y - 0.01), (x - 0.02, y - 0.035), (x + 0.03, y - 0.005)],
        0.012,
        darker(fill, 0.25),
    )
    c.area(
        [(x - 0.055, y - 0.005), (x + 0.045, y + 0.008), (x + 0.06, y + 0.095), (x - 0.055, y + 0.085)], fill
    )
    c.oval((x - 0.004, y + 0.002), 0.050, 0.011, darker(fill, 0.35), turn=0.12, line=0.7)


def _bird(c: Canvas, p: Prop, key: str) -> None:
    (x, y), z = p.at, p.size
    c.shadow((x, y), 0.05 * z)
    for u in (-0.012, 0.012):
        c.stroke([(x + u * z, y - 0.035 * z), (x + u * z, y - 0.002)], 0.006, (220, 140, 50), line=0)
    c.area(
        [(x + 0.04 * z, y - 0.06 * z), (x + 0.105 * z, y - 0.095 * z), (x + 0.095 * z, y - 0.045 * z)],
        (70, 120, 180),
    )
    c.oval((x, y - 0.062 * z), 0.056 * z, 0.043 * z, (96, 150, 206))
    c.oval((x - 0.018 * z, y - 0.052 * z), 0.032 * z, 0.026 * z, (250, 200, 130), line=0)
    c.oval((x - 0.042 * z, y - 0.108 * z), 0.033 * z, 0.031 * z, (96, 150, 206))
    c.area(
        [(x - 0.070 * z, y - 0.115 * z), (x - 0.104 * z, y - 0.103 * z), (x - 0.070 * z, y - 0.096 * z)],
        (244, 166, 54),
        line=0.7,
    )
    c.oval((x - 0.050 * z, y - 0.114 * z), 0.006 * z, 0.007 * z, "black", line=0)
    c.oval((x + 0.018 * z, y - 0.068 * z), 0.034 * z, 0.021 * z, (70, 120, 180), turn=-0.4, line=0.7)


def _butterfly(c: Canvas, p: Prop, key: str) -> None:
    (x, y), z = p.at, p.size
    for u in (-1, 1):
        c.oval((x + 0.034 * u * z, y - 0.022 * z), 0.036 * z, 0.028 * z, (240, 150, 60), turn=-0.6 * u)
        c.oval((x + 0.026 * u * z, y + 0.022 * z), 0.025 * z, 0.021 * z, (250, 200, 90), turn=0.6 * u)
        c.oval((x + 0.036 * u * z, y - 0.022 * z), 0.011 * z, 0.011 * z, (120, 70, 160), line=0)
        c.stroke([(x, y - 0.03 * z), (x + 0.016 * u * z, y - 0.062 * z)], 0.004, "black", line=0)
    c.oval((x, y), 0.008 * z, 0.034 * z, "black", line=0)


def _snowball(c: Canvas, p: Prop, key: str) -> None:
    c.shadow(p.at, 0.06)
    _ball_of_snow(c, *p.at, 0.045 * p.size)


def _snowman(c: Canvas, p: Prop, key: str) -> None:
    (x, y), z = p.at, p.size
    c.shadow((x, y), 0.15 * z)
    _ball_of_snow(c, x, y, 0.12 * z)
    _ball_of_snow(c, x, y - 0.205 * z, 0.085 * z)
    if p.state == "body":
        return
    for u in (-1, 1):
        c.stroke(
            [(x + 0.07 * u * z, y - 0.30 * z), (x + 0.18 * u * z, y - 0.38 * z)],
            0.010,
            (110, 78, 56),
            line=0.6,
        )
        c.stroke(
            [(x + 0.145 * u * z, y - 0.355 * z), (x + 0.185 * u * z, y - 0.345 * z)],
            0.008,
            (110, 78, 56),
            line=0.6,
        )
    _ball_of_snow(c, x, y - 0.35 * z, 0.062 * z)
    c.stroke(bend((x - 0.065 * z, y - 0.362 * z), (x + 0.065 * z, y - 0.362 * z), -0.15), 0.032 * z, "green")
    for eye in (-0.022, 0.022):
        c.oval((x + eye * z, y - 0.425 * z), 0.008 * z, 0.009 * z, "black", line=0)
    c.area([(x, y - 0.415 * z), (x, y - 0.395 * z), (x - 0.07 * z, y - 0.398 * z)], (240, 132, 44), line=0.7)
    for i in range(3):
        c.oval((x, y - (0.22 + 0.04 * i) * z), 0.008 * z, 0.008 * z, "black", line=0)
    c.slab((x - 0.045 * z, y - 0.555 * z, x + 0.045 * z, y - 0.465 * z), (62, 58, 72))
    c.slab((x - 0.075 * z, y - 0.475 * z, x + 0.075 * z, y - 0.455 * z), (62, 58, 72))
    c.slab((x - 0.045 * z, y - 0.492 * z, x + 0.045 * z, y - 0.474 * z), "red", line=0)


DRAWN: dict[str, Draw] = {
    "tree": _tree,
    "apple": _apple,
    "ladder": _ladder,
    "basket": _basket,
    "seed": _seed,
    "plant": _plant,
    "flower": _flower,
    "watering can": _watering_can,
    "bird": _bird,
    "butterfly": _butterfly,
    "snowball": _snowball,
    "snowman": _snowman,
}
