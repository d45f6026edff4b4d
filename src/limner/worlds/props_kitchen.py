"""Things of the kitchen: table, stove, dishes and food.

Each function draws one thing at the middle of its base (or where a hand holds it), in one of its states.
It decides no positions.
"""

from math import sin

from limner.worlds.canvas import RGB, Canvas, Draw, bend, darker, lighter
from limner.worlds.world import Prop


def _steam(c: Canvas, x: float, y: float, z: float) -> None:
    for u in (-0.03, 0.005, 0.04):
        c.stroke(
            [(x + u * z + 0.010 * sin(k * 1.1 + u * 60), y - 0.016 * k * z) for k in range(8)],
            0.009,
            (255, 255, 255),
            line=0,
            alpha=190,
        )


def _handle(c: Canvas, p: Prop, width: float, fill: RGB | str) -> None:
    """A stick from the working end to the hand."""
    c.stroke([p.at, p.to or p.at], width, fill, line=0.8)


def _table(c: Canvas, p: Prop, key: str) -> None:
    (x, y), z = p.at, p.size
    c.shadow((x, y), 0.22 * z, 0.022)
    top = y - 0.195 * z
    for u in (-0.17, 0.17):
        c.slab((x + u * z - 0.016, top + 0.02, x + u * z + 0.016, y), darker((188, 136, 84), 0.12))
    c.slab((x - 0.215 * z, top, x + 0.215 * z, top + 0.034), "wood")
    c.stroke(
        [(x - 0.19 * z, top + 0.018), (x + 0.10 * z, top + 0.020)], 0.003, darker((188, 136, 84), 0.2), line=0
    )


def _flour(c: Canvas, p: Prop, key: str) -> None:
    (x, y), z = p.at, p.size
    c.blob(
        [
            (x - 0.04 * z, y),
            (x - 0.045 * z, y - 0.09 * z),
            (x - 0.03 * z, y - 0.12 * z),
            (x + 0.03 * z, y - 0.12 * z),
            (x + 0.045 * z, y - 0.09 * z),
            (x + 0.04 * z, y),
        ],
        "cream",
    )
    c.oval((x, y - 0.115 * z), 0.030 * z, 0.010 * z, "white", line=0.7)
    c.stroke(bend((x, y - 0.025), (x, y - 0.08 * z), 0.1), 0.005, "gold", line=0)
    for i in range(3):
        for d in (-1, 1):
            c.oval((x + 0.010 * d, y - 0.045 - 0.013 * i), 0.008, 0.004, "gold", turn=-0.6 * d, line=0)


def _egg(c: Canvas, p: Prop, key: str) -> None:
    (x, y), z = p.at, p.size
    c.oval((x - 0.018 * z, y - 0.024 * z), 0.018 * z, 0.024 * z, "cream")
    c.oval((x + 0.020 * z, y - 0.020 * z), 0.022 * z, 0.017 * z, (244, 222, 190))


def _bowl(c: Canvas, p: Prop, key: str) -> None:
    (x, y), z = p.at, p.size
    fill: RGB = (238, 150, 140) if p.state == "batter" else (110, 160, 200)
    inner: RGB = (250, 226, 160) if p.state == "batter" else (232, 130, 70)
    c.blob(
        [
            (x - 0.082 * z, y - 0.085 * z),
            (x - 0.06 * z, y - 0.02 * z),
            (x - 0.03 * z, y),
            (x + 0.03 * z, y),
            (x + 0.06 * z, y - 0.02 * z),
            (x + 0.082 * z, y - 0.085 * z),
        ],
        fill,
    )
    c.oval((x, y - 0.085 * z), 0.084 * z, 0.024 * z, lighter(fill, 0.4))
    with c.part(f"{key}/{p.state}"):
        c.oval((x, y - 0.082 * z), 0.070 * z, 0.018 * z, inner, line=0)
        if p.state == "soup":
            for u, v in ((-0.03, 0), (0.01, 0.006), (0.035, -0.004)):
                c.oval((x + u * z, y - (0.082 + v) * z), 0.008, 0.004, "leaf", line=0)
    if p.state == "soup":
        _steam(c, x, y - 0.12 * z, 0.8 * z)
    else:
        c.oval((x - 0.02 * z, y - 0.088 * z), 0.025 * z, 0.007 * z, lighter(inner, 0.5), line=0)


def _whisk(c: Canvas, p: Prop, key: str) -> None:
    _handle(c, p, 0.012, "wood")
    x, y = p.at
    for u in (-0.020, -0.009, 0.009, 0.020):
        c.stroke(
            [(x - 0.003, y - 0.01), (x + u, y + 0.022), (x + u * 0.5, y + 0.045), (x, y + 0.048)],
            0.004,
            (120, 124, 136),
            line=0,
        )


def _spoon(c: Canvas, p: Prop, key: str) -> None:
    _handle(c, p, 0.009, (176, 180, 190))
    c.oval(p.at, 0.020, 0.014, (196, 200, 210), line=0.8)


def _ladle(c: Canvas, p: Prop, key: str) -> None:
    x, y = p.at
    c.stroke([(x, y + 0.02), (x + 0.003, y - 0.02), p.to or p.at], 0.013, (150, 112, 74), line=0.8)
    c.oval((x, y + 0.02), 0.026, 0.018, (150, 112, 74), line=0.8)


def _knife(c: Canvas, p: Prop, key: str) -> None:
    x, y = p.at
    c.area(
        [(x + 0.006, y - 0.012), (x + 0.075, y + 0.010), (x + 0.068, y + 0.024), (x + 0.006, y + 0.012)],
        (206, 212, 222),
        line=0.8,
    )
    c.stroke([(x - 0.028, y - 0.012), (x + 0.008, y)], 0.018, (104, 72, 60), line=0.8)


def _carrot(c: Canvas, p: Prop, key: str) -> None:
    (x, y), z = p.at, p.size
    for d in (-0.5, 0.0, 0.5):
        c.stroke([(x + 0.055 * z, y - 0.02), (x + 0.088 * z, y - 0.024 + 0.022 * d)], 0.009, "leaf", line=0)
    c.blob(
        [
            (x - 0.075 * z, y - 0.010),
            (x + 0.03 * z, y - 0.040 * z),
            (x + 0.06 * z, y - 0.020),
            (x + 0.03 * z, y - 0.002),
        ],
        (240, 132, 44),
    )
    for u in (-0.02, 0.01, 0.035):
        c.stroke([(x + u * z, y - 0.030), (x + (u + 0.004) * z, y - 0.016)], 0.004, (206, 100, 34), line=0)


def _leek(c: Canvas, p: Prop, key: str) -> None:
    (x, y), z = p.at, p.size
    c.area(
        [
            (x + 0.0 * z, y - 0.030),
            (x + 0.085 * z, y - 0.056),
            (x + 0.070 * z, y - 0.028),
            (x + 0.092 * z, y - 0.012),
            (x, y - 0.004),
        ],
        "leaf",
        line=0.8,
    )
    c.stroke([(x - 0.05 * z, y - 0.017), (x + 0.012 * z, y - 0.017)], 0.028 * z, "white", line=0.8)


def _pot(c: Canvas, p: Prop, key: str) -> None:
    (x, y), z = p.at, p.size
    if p.state in ("empty", "earth"):
        clay: RGB = (206, 116, 78)
        c.shadow((x, y), 0.085 * z)
        c.area(
            [
                (x - 0.075 * z, y - 0.09 * z),
                (x - 0.055 * z, y),
                (x + 0.055 * z, y),
                (x + 0.075 * z, y - 0.09 * z),
            ],
            clay,
        )
        c.slab((x - 0.088 * z, y - 0.118 * z, x + 0.088 * z, y - 0.085 * z), lighter(clay, 0.15))
        c.oval((x, y - 0.118 * z), 0.078 * z, 0.013 * z, (96, 66, 54), line=0.6)
        return
    body: RGB = (84, 118, 160)
    for u in (-1, 1):
        c.stroke(
            [
                (x + 0.075 * u * z, y - 0.07 * z),
                (x + 0.105 * u * z, y - 0.07 * z),
                (x + 0.105 * u * z, y - 0.05 * z),
                (x + 0.075 * u * z, y - 0.045 * z),
            ],
            0.011,
            (60, 66, 80),
        )
    c.slab((x - 0.08 * z, y - 0.105 * z, x + 0.08 * z, y), body)
    c.slab((x - 0.066 * z, y - 0.085 * z, x - 0.045 * z, y - 0.02), lighter(body, 0.4), line=0)
    if p.state == "steaming":
        c.oval((x, y - 0.105 * z), 0.081 * z, 0.020 * z, (60, 66, 80))
        with c.part(f"{key}/soup"):
            c.oval((x, y - 0.103 * z), 0.070 * z, 0.014 * z, (232, 130, 70), line=0)
            for piece in (-0.04, 0.0, 0.03):
                c.oval(
                    (x + piece * z, y - 0.103 * z),
                    0.008,
                    0.005,
                    ((250, 190, 80), (110, 170, 84))[piece == 0.0],
                    line=0,
                )
        _steam(c, x, y - 0.13 * z, z)
    else:
        c.slab((x - 0.086 * z, y - 0.125 * z, x + 0.086 * z, y - 0.103 * z), darker(body, 0.2))
        c.oval((x, y - 0.132 * z), 0.014, 0.011, "black")


def _stove(c: Canvas, p: Prop, key: str) -> None:
    (x, y), z = p.at, p.size
    c.shadow((x, y), 0.19 * z)
    c.slab((x - 0.17 * z, y - 0.225 * z, x + 0.17 * z, y), (226, 230, 234))
    c.slab((x - 0.18 * z, y - 0.24 * z, x + 0.18 * z, y - 0.215 * z), (92, 98, 110))
    c.slab((x - 0.12 * z, y - 0.13 * z, x + 0.12 * z, y - 0.03 * z), (84, 90, 104), line=0.8)
    for i in range(4):
        c.oval((x + (-0.10 + 0.067 * i) * z, y - 0.175 * z), 0.013, 0.013, "tomato", line=0.7)
    for i in range(4):
        u = -0.085 + 0.03 * i
        c.area(
            [
                (x + u * z, y - 0.236 * z),
                (x + (u + 0.010) * z, y - 0.262 * z),
                (x + (u + 0.02) * z, y - 0.236 * z),
            ],
            (110, 170, 240),
            line=0,
        )


def _oven(c: Canvas, p: Prop, key: str) -> None:
    (x, y), z = p.at, p.size
    c.shadow((x, y), 0.22 * z)
    c.slab((x - 0.20 * z, y - 0.40 * z, x + 0.20 * z, y), (236, 226, 214))
    c.slab((x - 0.21 * z, y - 0.425 * z, x + 0.21 * z, y - 0.395 * z), (110, 104, 108))
    for i in range(4):
        c.oval((x + (-0.12 + 0.08 * i) * z, y - 0.355 * z), 0.016, 0.016, "tomato", line=0.8)
    c.slab((x - 0.165 * z, y - 0.305 * z, x + 0.165 * z, y - 0.045 * z), (120, 112, 114))
    c.slab((x - 0.135 * z, y - 0.275 * z, x + 0.135 * z, y - 0.075 * z), (255, 178, 74), line=0.8)
    c.glow((x, y - 0.175 * z), 0.16 * z, (255, 226, 140), 0.55)
    c.stroke([(x - 0.13 * z, y - 0.110 * z), (x + 0.13 * z, y - 0.110 * z)], 0.005, (120, 84, 60), line=0)
    with c.part(f"{key}/cake"):
        c.slab((x - 0.075 * z, y - 0.165 * z, x + 0.075 * z, y - 0.112 * z), (122, 124, 136), line=0.8)
        c.blob(
            [
                (x - 0.078 * z, y - 0.160 * z),
                (x - 0.06 * z, y - 0.205 * z),
                (x, y - 0.222 * z),
                (x + 0.06 * z, y - 0.205 * z),
                (x + 0.078 * z, y - 0.160 * z),
            ],
            (214, 150, 78),
        )
    c.stroke([(x - 0.11 * z, y - 0.29 * z), (x + 0.11 * z, y - 0.29 * z)], 0.012, (230, 232, 236))


def _cake(c: Canvas, p: Prop, key: str) -> None:
    (x, y), z = p.at, p.size
    c.oval((x, y - 0.006), 0.115 * z, 0.016 * z, "white")
    for w, low, high, fill in (
        (0.095, 0.008, 0.075, (226, 170, 110)),
        (0.068, 0.075, 0.130, (236, 184, 124)),
    ):
        c.slab((x - w * z, y - high * z, x + w * z, y - low * z), fill)
        drip = [(x - w * z, y - high * z)]
        for i in range(9):
            drip.append((x + (-1 + i / 4) * w * z, y - (high - (0.032 if i % 2 else 0.016)) * z))
        c.area([*drip, (x + w * z, y - high * z)], (250, 190, 204), line=0.7)
        c.oval((x, y - high * z), w * z, 0.014 * z, (252, 206, 216), line=0.7)
    for i, u in enumerate((-0.042, 0.0, 0.042)):
        c.slab(
            (x + (u - 0.006) * z, y - 0.182 * z, x + (u + 0.006) * z, y - 0.134 * z),
            ("blue", "yellow", "green")[i],
            line=0.6,
        )
        c.glow((x + u * z, y - 0.198 * z), 0.035 * z, (255, 240, 170), 0.8)
        c.oval((x + u * z, y - 0.197 * z), 0.007 * z, 0.013 * z, (255, 160, 50), line=0)
    for i in range(5):
        c.oval((x + (-0.07 + 0.035 * i) * z, y - 0.030 * z), 0.009 * z, 0.009 * z, "red", line=0)


def _bread(c: Canvas, p: Prop, key: str) -> None:
    (x, y), z = p.at, p.size
    c.blob(
        [
            (x - 0.06 * z, y - 0.002),
            (x - 0.065 * z, y - 0.045 * z),
            (x, y - 0.07 * z),
            (x + 0.065 * z, y - 0.045 * z),
            (x + 0.06 * z, y - 0.002),
        ],
        (206, 142, 76),
    )
    for u in (-0.03, 0.0, 0.03):
        c.stroke(
            [(x + (u - 0.008) * z, y - 0.030 * z), (x + (u + 0.008) * z, y - 0.056 * z)],
            0.006,
            "cream",
            line=0,
        )


DRAWN: dict[str, Draw] = {
    "table": _table,
    "flour": _flour,
    "egg": _egg,
    "bowl": _bowl,
    "whisk": _whisk,
    "spoon": _spoon,
    "ladle": _ladle,
    "knife": _knife,
    "carrot": _carrot,
    "leek": _leek,
    "pot": _pot,
    "stove": _stove,
    "oven": _oven,
    "cake": _cake,
    "bread": _bread,
}
