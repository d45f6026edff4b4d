"""Things under the sky: kites, boats, plants, snowmen, sandcastles, fires, fish, balloons.

Each function draws one thing at the middle of its base (or where a hand holds it), in one of its states.
It decides no positions.
"""

from math import cos, pi, sin

from limner.data.picturebook.canvas import RGB, Canvas, Draw, bend, curve, darker, lighter
from limner.data.picturebook.world import Point, Prop


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


def _fruit(c: Canvas, x: float, y: float, r: float) -> None:
    c.oval((x, y), r, r * 0.95, (222, 58, 50), line=0.8)
    c.stroke([(x, y - r * 0.8), (x + r * 0.25, y - r * 1.4)], r * 0.22, (96, 66, 44), line=0)
    c.oval((x - r * 0.35, y - r * 0.35), r * 0.22, r * 0.22, (255, 200, 190), line=0)


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


def _planks(c: Canvas, p: Prop, key: str) -> None:
    (x, y), z = p.at, p.size
    c.shadow((x, y), 0.19 * z)
    for i, (u, v) in enumerate(((-0.01, 0.0), (0.02, 0.038), (-0.02, 0.076), (0.01, 0.114))):
        fill = lighter((196, 146, 92), 0.12 * (i % 2))
        c.area(
            [
                (x + (u - 0.17) * z, y - v * z),
                (x + (u - 0.165) * z, y - (v + 0.034) * z),
                (x + (u + 0.165) * z, y - (v + 0.038) * z),
                (x + (u + 0.17) * z, y - (v + 0.003) * z),
            ],
            fill,
        )
        c.stroke(
            [(x + (u - 0.12) * z, y - (v + 0.018) * z), (x + (u + 0.08) * z, y - (v + 0.022) * z)],
            0.003,
            (150, 104, 62),
            line=0,
        )


def _hammer(c: Canvas, p: Prop, key: str) -> None:
    x, y = p.at
    c.stroke([(x - 0.01, y + 0.02), (x + 0.045, y - 0.085)], 0.014, "wood", line=0.8)
    c.stroke([(x + 0.014, y - 0.098), (x + 0.078, y - 0.070)], 0.030, (110, 114, 126), line=0.9)


def _boat(c: Canvas, p: Prop, key: str) -> None:
    (x, y), z = p.at, p.size
    wood: RGB = (196, 116, 70)
    if p.state == "sailing":
        c.stroke([(x + 0.02 * z, y - 0.08 * z), (x + 0.02 * z, y - 0.42 * z)], 0.013 * z, (140, 96, 64))
        c.area(
            [(x + 0.035 * z, y - 0.41 * z), (x + 0.035 * z, y - 0.12 * z), (x + 0.20 * z, y - 0.13 * z)],
            (252, 248, 238),
        )
        c.area(
            [(x + 0.02 * z, y - 0.42 * z), (x - 0.045 * z, y - 0.40 * z), (x + 0.02 * z, y - 0.375 * z)],
            "red",
            line=0.7,
        )
    else:
        c.shadow((x, y), 0.20 * z)
        for u in (-0.14, 0.0, 0.13):
            c.stroke([(x + u * z, y - 0.07 * z), (x + u * 1.1 * z, y - 0.165 * z)], 0.013, "wood")
    c.blob(
        [
            (x - 0.20 * z, y - 0.10 * z),
            (x - 0.15 * z, y - 0.02 * z),
            (x, y),
            (x + 0.15 * z, y - 0.02 * z),
            (x + 0.21 * z, y - 0.11 * z),
            (x + 0.10 * z, y - 0.083 * z),
            (x, y - 0.078 * z),
            (x - 0.10 * z, y - 0.080 * z),
        ],
        wood,
    )
    c.stroke(
        bend((x - 0.165 * z, y - 0.050 * z), (x + 0.17 * z, y - 0.055 * z), -0.09),
        0.005,
        darker(wood, 0.35),
        line=0,
    )
    if p.state == "sailing":
        for i in range(4):
            u = -0.18 + 0.12 * i
            c.stroke(
                bend((x + (u - 0.05) * z, y + 0.004), (x + (u + 0.05) * z, y + 0.004), 0.25),
                0.010,
                (236, 248, 252),
                line=0,
            )
    else:
        for i in range(6):
            c.oval((x + (-0.12 + 0.048 * i) * z, y - 0.062 * z), 0.004, 0.004, (80, 60, 56), line=0)


def _ball_of_snow(c: Canvas, x: float, y: float, r: float) -> None:
    c.oval((x, y - r), r * 1.04, r, (244, 248, 253))
    c.oval((x + r * 0.15, y - r * 0.45), r * 0.72, r * 0.34, (222, 232, 246), line=0)


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
    for u in (-0.022, 0.022):
        c.oval((x + u * z, y - 0.425 * z), 0.008 * z, 0.009 * z, "black", line=0)
    c.area([(x, y - 0.415 * z), (x, y - 0.395 * z), (x - 0.07 * z, y - 0.398 * z)], (240, 132, 44), line=0.7)
    for i in range(3):
        c.oval((x, y - (0.22 + 0.04 * i) * z), 0.008 * z, 0.008 * z, "black", line=0)
    c.slab((x - 0.045 * z, y - 0.555 * z, x + 0.045 * z, y - 0.465 * z), (62, 58, 72))
    c.slab((x - 0.075 * z, y - 0.475 * z, x + 0.075 * z, y - 0.455 * z), (62, 58, 72))
    c.slab((x - 0.045 * z, y - 0.492 * z, x + 0.045 * z, y - 0.474 * z), "red", line=0)


def _bucket(c: Canvas, p: Prop, key: str) -> None:
    (x, y), z = p.at, p.size
    c.shadow((x, y), 0.07 * z)
    c.stroke(
        bend((x - 0.062 * z, y - 0.11 * z), (x + 0.062 * z, y - 0.11 * z), 0.55),
        0.006,
        (110, 114, 126),
        line=0.5,
    )
    c.area(
        [
            (x - 0.064 * z, y - 0.115 * z),
            (x - 0.046 * z, y),
            (x + 0.046 * z, y),
            (x + 0.064 * z, y - 0.115 * z),
        ],
        (80, 136, 200),
    )
    c.oval((x, y - 0.115 * z), 0.064 * z, 0.015 * z, (150, 206, 236) if p.state == "water" else (52, 88, 140))


def _spade(c: Canvas, p: Prop, key: str) -> None:
    x, y = p.at
    c.stroke([(x, y - 0.10), (x + 0.010, y + 0.08)], 0.013, "wood", line=0.8)
    c.stroke([(x - 0.022, y - 0.10), (x + 0.022, y - 0.103)], 0.013, "wood", line=0.8)
    c.blob(
        [
            (x - 0.020, y + 0.07),
            (x + 0.040, y + 0.066),
            (x + 0.040, y + 0.12),
            (x + 0.014, y + 0.145),
            (x - 0.014, y + 0.124),
        ],
        "red",
    )


def _sandcastle(c: Canvas, p: Prop, key: str) -> None:
    (x, y), z = p.at, p.size
    sand: RGB = (232, 190, 116)
    c.shadow((x, y), 0.20 * z)
    if p.state == "heap":
        c.blob(
            [
                (x - 0.19 * z, y),
                (x - 0.10 * z, y - 0.07 * z),
                (x - 0.01 * z, y - 0.15 * z),
                (x + 0.09 * z, y - 0.09 * z),
                (x + 0.18 * z, y),
            ],
            sand,
        )
        for i in range(6):
            c.oval(
                (x + (-0.09 + 0.035 * i) * z, y - (0.025 + 0.02 * (i % 3)) * z),
                0.005,
                0.003,
                darker(sand, 0.25),
                line=0,
            )
        return

    def tower(u: float, w: float, h: float, low: float) -> None:
        c.area(
            [
                (x + (u - w * 1.1) * z, y - low * z),
                (x + (u - w) * z, y - h * z),
                (x + (u + w) * z, y - h * z),
                (x + (u + w * 1.1) * z, y - low * z),
            ],
            sand,
        )
        for k in (-1, 0, 1):
            c.slab(
                (
                    x + (u + k * w * 0.75 - w * 0.25) * z,
                    y - (h + 0.025) * z,
                    x + (u + k * w * 0.75 + w * 0.25) * z,
                    y - h * z,
                ),
                sand,
                line=0.7,
            )

    def flag(u: float, h: float, fill: str) -> None:
        c.stroke([(x + u * z, y - h * z), (x + u * z, y - (h + 0.085) * z)], 0.006, (110, 78, 56), line=0)
        c.area(
            [
                (x + u * z, y - (h + 0.085) * z),
                (x + (u + 0.05) * z, y - (h + 0.065) * z),
                (x + u * z, y - (h + 0.045) * z),
            ],
            fill,
            line=0.7,
        )

    tower(0.0, 0.055, 0.26, 0.08)
    c.slab((x - 0.16 * z, y - 0.12 * z, x + 0.16 * z, y), sand)
    for u in (-0.15, 0.15):
        tower(u, 0.045, 0.18, 0.0)
    c.blob(
        [
            (x - 0.032 * z, y),
            (x - 0.030 * z, y - 0.055 * z),
            (x, y - 0.075 * z),
            (x + 0.030 * z, y - 0.055 * z),
            (x + 0.032 * z, y),
        ],
        (150, 106, 62),
        line=0.7,
    )
    for u, h, fill in ((0.0, 0.28, "red"), (-0.15, 0.20, "blue"), (0.15, 0.20, "yellow")):
        flag(u, h, fill)
    c.oval((x, y - 0.18 * z), 0.014 * z, 0.02 * z, (150, 106, 62), line=0)


def _one_log(c: Canvas, x: float, y: float, half: float, r: float, tilt: float = 0.0) -> None:
    c.stroke([(x - half, y + tilt), (x + half, y - tilt)], 2 * r, (140, 98, 66))
    c.oval((x + half, y - tilt), r * 0.85, r, (226, 184, 130), line=0.7)
    c.oval((x + half, y - tilt), r * 0.4, r * 0.5, (190, 144, 94), line=0)


def _log(c: Canvas, p: Prop, key: str) -> None:
    _one_log(c, *p.at, 0.07 * p.size, 0.022)


def _logs(c: Canvas, p: Prop, key: str) -> None:
    (x, y), z = p.at, p.size
    c.shadow((x, y), 0.16 * z)
    for u, v in ((-0.06, 0.025), (0.06, 0.025), (0.0, 0.075), (0.01, 0.12)):
        _one_log(c, x + u * z, y - v * z, 0.075 * z, 0.025 * z)


def _fire(c: Canvas, p: Prop, key: str) -> None:
    (x, y), z = p.at, p.size
    big = p.state == "blazing"
    h = (0.30 if big else 0.09) * z
    if big:
        c.glow((x, y - 0.12), 0.42, (255, 190, 90), 0.5)
    c.shadow((x, y), 0.14 * z)
    for u in (-0.13, -0.07, 0.0, 0.07, 0.13):
        c.oval((x + u * z, y + 0.004), 0.030 * z, 0.018 * z, "stone", line=0.8)
    _one_log(c, x, y - 0.03 * z, 0.09 * z, 0.020 * z, 0.018)
    _one_log(c, x, y - 0.03 * z, 0.09 * z, 0.020 * z, -0.018)
    for share, fill in ((1.0, (240, 96, 44)), (0.7, (252, 168, 56)), (0.4, (255, 230, 130))):
        w, t = (0.085 if big else 0.032) * z * share, h * share
        c.blob(
            [
                (x - w, y - 0.05 * z),
                (x - w * 0.9, y - 0.05 * z - t * 0.42),
                (x - w * 0.35, y - 0.05 * z - t * 0.55),
                (x - w * 0.1, y - 0.05 * z - t),
                (x + w * 0.4, y - 0.05 * z - t * 0.62),
                (x + w * 0.95, y - 0.05 * z - t * 0.40),
                (x + w, y - 0.05 * z),
                (x, y - 0.035 * z),
            ],
            fill,
            line=0.6 if share == 1.0 else 0,
        )
    if big:
        for i in range(7):
            c.oval((x + 0.07 * sin(i * 2.4), y - h - 0.05 - 0.03 * i), 0.005, 0.006, (255, 200, 100), line=0)
    else:
        c.stroke(
            [(x + 0.010 * sin(k), y - h - 0.07 - 0.02 * k) for k in range(6)],
            0.008,
            (230, 230, 236),
            line=0,
            alpha=140,
        )


def _match(c: Canvas, p: Prop, key: str) -> None:
    x, y = p.at
    c.stroke([(x - 0.008, y), (x + 0.04, y - 0.022)], 0.008, "sand", line=0.6)
    c.glow((x + 0.046, y - 0.034), 0.05, (255, 230, 150), 0.8)
    c.oval((x + 0.046, y - 0.034), 0.009, 0.016, (255, 160, 50), line=0)


def _stick(c: Canvas, p: Prop, key: str) -> None:
    to = p.to or p.at
    c.stroke([p.at, to], 0.009, (130, 92, 62), line=0.6)
    c.oval(to, 0.022, 0.018, (252, 246, 238), line=0.8)


def _rod(c: Canvas, p: Prop, key: str) -> None:
    (x, y), (u, v) = p.at, p.to or p.at
    c.stroke(bend((x - (u - x) * 0.12, y - (v - y) * 0.12), (u, v), -0.06), 0.011, (150, 100, 60), line=0.7)
    if p.state == "cast":
        end = (u + 0.10, 0.72)
        c.stroke(bend((u, v), end, -0.10), 0.0035, (250, 250, 250), line=0.25)
        c.oval((end[0], end[1] - 0.006), 0.014, 0.018, "red", line=0.7)
        c.oval(end, 0.040, 0.008, (220, 238, 248), line=0, alpha=190)
    else:
        c.stroke([(u, v), (u + 0.012, v + 0.10)], 0.0035, (250, 250, 250), line=0.25)


def _fish(c: Canvas, p: Prop, key: str) -> None:
    (x, y), z = p.at, p.size
    body: RGB = (140, 176, 204)
    c.area(
        [
            (x - 0.005, y + 0.17 * z),
            (x - 0.055 * z, y + 0.235 * z),
            (x, y + 0.215 * z),
            (x + 0.055 * z, y + 0.235 * z),
            (x + 0.005, y + 0.17 * z),
        ],
        darker(body, 0.1),
    )
    c.blob(
        [
            (x, y - 0.01),
            (x + 0.055 * z, y + 0.06 * z),
            (x + 0.045 * z, y + 0.13 * z),
            (x, y + 0.195 * z),
            (x - 0.045 * z, y + 0.13 * z),
            (x - 0.055 * z, y + 0.06 * z),
        ],
        body,
    )
    c.oval((x, y + 0.10 * z), 0.022 * z, 0.07 * z, lighter(body, 0.55), line=0)
    c.oval((x - 0.018 * z, y + 0.035 * z), 0.011 * z, 0.011 * z, "white", line=0.5)
    c.oval((x - 0.018 * z, y + 0.035 * z), 0.005 * z, 0.005 * z, "black", line=0)
    for i in range(3):
        c.stroke(
            bend(
                (x - 0.03 * z, y + (0.085 + 0.03 * i) * z), (x + 0.03 * z, y + (0.085 + 0.03 * i) * z), -0.3
            ),
            0.004,
            darker(body, 0.25),
            line=0,
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
    "kite": _kite, "string": _string, "tree": _tree, "apple": _apple, "ladder": _ladder, "basket": _basket,
    "seed": _seed, "plant": _plant, "flower": _flower, "watering can": _watering_can, "planks": _planks,
    "hammer": _hammer, "boat": _boat, "snowball": _snowball, "snowman": _snowman, "bucket": _bucket,
    "spade": _spade, "sandcastle": _sandcastle, "log": _log, "logs": _logs, "fire": _fire, "match": _match,
    "stick": _stick, "rod": _rod, "fish": _fish, "balloon": _balloon, "pump": _pump, "bird": _bird,
    "butterfly": _butterfly, "ball": _ball, "umbrella": _umbrella, "suitcase": _suitcase,
    "telescope": _telescope, "drum": _drum, "bench": _bench,
}  # fmt: skip
