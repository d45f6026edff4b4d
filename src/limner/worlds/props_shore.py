"""Things of shore and fireside: boats, sandcastles, fishing, fires.

Each function draws one thing at the middle of its base (or where a hand holds it), in one of its states.
It decides no positions.
"""

from math import sin

from limner.worlds.canvas import RGB, Canvas, Draw, bend, darker, lighter
from limner.worlds.world import Prop


def _one_log(c: Canvas, x: float, y: float, half: float, r: float, *, tilt: float = 0.0) -> None:
    c.stroke([(x - half, y + tilt), (x + half, y - tilt)], 2 * r, (140, 98, 66))
    c.oval((x + half, y - tilt), r * 0.85, r, (226, 184, 130), line=0.7)
    c.oval((x + half, y - tilt), r * 0.4, r * 0.5, (190, 144, 94), line=0)


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
    _one_log(c, x, y - 0.03 * z, 0.09 * z, 0.020 * z, tilt=0.018)
    _one_log(c, x, y - 0.03 * z, 0.09 * z, 0.020 * z, tilt=-0.018)
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


DRAWN: dict[str, Draw] = {
    "planks": _planks,
    "hammer": _hammer,
    "boat": _boat,
    "bucket": _bucket,
    "spade": _spade,
    "sandcastle": _sandcastle,
    "log": _log,
    "logs": _logs,
    "fire": _fire,
    "match": _match,
    "stick": _stick,
    "rod": _rod,
    "fish": _fish,
}
