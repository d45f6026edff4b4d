"""Things of the house: table, stove, dishes, food, furniture, and what is made with pencil and paint.

Each function draws one thing at the middle of its base, in one of its states. It decides no positions.
"""

from math import cos, pi, sin

from limner.data.picturebook.canvas import RGB, Canvas, Draw, bend, darker, lighter
from limner.data.picturebook.world import Prop


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
    c.blob([(x - 0.04 * z, y), (x - 0.045 * z, y - 0.09 * z), (x - 0.03 * z, y - 0.12 * z), (x + 0.03 * z, y - 0.12 * z), (x + 0.045 * z, y - 0.09 * z), (x + 0.04 * z, y)], "cream")  # fmt: skip
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
    c.blob([(x - 0.082 * z, y - 0.085 * z), (x - 0.06 * z, y - 0.02 * z), (x - 0.03 * z, y), (x + 0.03 * z, y), (x + 0.06 * z, y - 0.02 * z), (x + 0.082 * z, y - 0.085 * z)], fill)  # fmt: skip
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
            for u in (-0.04, 0.0, 0.03):
                c.oval(
                    (x + u * z, y - 0.103 * z),
                    0.008,
                    0.005,
                    ((250, 190, 80), (110, 170, 84))[u == 0.0],
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


def _block(c: Canvas, x: float, y: float, half: float, i: int) -> None:
    fill = ("red", "yellow", "blue", "green", "orange", "purple", "pink")[i % 7]
    c.slab((x - half, y - 2 * half, x + half, y), fill)
    c.oval((x, y - half), half * 0.42, half * 0.42, "white", line=0)


def _one_block(c: Canvas, p: Prop, key: str) -> None:
    _block(c, p.at[0], p.at[1] + 0.03, 0.032 * p.size, 4)


def _blocks(c: Canvas, p: Prop, key: str) -> None:
    (x, y), z = p.at, p.size
    for i, (u, v, turn) in enumerate(((-0.16, -0.005, 0.3), (-0.06, -0.05, 0.0), (0.03, 0.0, 0.6), (0.10, -0.06, 0.0), (0.17, -0.01, 0.4), (0.20, -0.09, 0.0), (-0.02, -0.11, 0.8))):  # fmt: skip
        cx, cy, h = x + u * z, y + v * z - 0.035 * z, 0.034 * z
        c.shadow((cx, cy + h), 0.04 * z, 0.010)
        fill = ("red", "yellow", "blue", "green", "orange", "purple", "pink")[i]
        c.area(
            [
                (
                    cx + h * 1.414 * cos(turn + pi / 4 + k * pi / 2),
                    cy + h * 1.414 * sin(turn + pi / 4 + k * pi / 2),
                )
                for k in range(4)
            ],
            fill,
        )
        c.oval((cx, cy), h * 0.42, h * 0.42, "white", line=0)


def _tower(c: Canvas, p: Prop, key: str) -> None:
    (x, y), z = p.at, p.size
    c.shadow((x, y), 0.10 * z)
    rows = (
        ((-0.075, 0.0, 0.075), (-0.038, 0.038))
        if p.state == "half"
        else ((-0.075, 0.0, 0.075), (-0.038, 0.038), (-0.036, 0.036), (0.0,), (0.004,), (-0.003,))
    )
    i, base = 0, y
    for n, row in enumerate(rows):
        half = (0.036 if n < 3 else 0.034) * z
        for u in row:
            _block(c, x + u * z, base, half, i)
            i += 1
        base -= 2 * half
    if p.state == "tall":
        c.area([(x - 0.045 * z, base), (x, base - 0.07 * z), (x + 0.045 * z, base)], "red")
    else:
        for u, k in ((0.17, 2), (-0.16, 5)):
            _block(c, x + u * z, y + 0.01, 0.034 * z, k)


def _paper(c: Canvas, p: Prop, key: str) -> None:
    (x, y), z = p.at, p.size
    c.area(
        [
            (x - 0.085 * z, y - 0.004),
            (x - 0.045 * z, y - 0.058 * z),
            (x + 0.095 * z, y - 0.058 * z),
            (x + 0.065 * z, y - 0.004),
        ],
        (252, 252, 250),
    )


def _letter(c: Canvas, p: Prop, key: str) -> None:
    _paper(c, p, key)
    (x, y), z = p.at, p.size
    for i in range(4):
        v, lead = 0.048 - 0.011 * i, 0.008 * i
        c.stroke(
            [(x + (-0.036 - lead) * z, y - v * z), (x + (0.075 - lead - 0.03 * (i == 3)) * z, y - v * z)],
            0.0045,
            (70, 84, 140),
            line=0,
        )


def _pencil(c: Canvas, p: Prop, key: str) -> None:
    x, y = p.at
    if p.state == "writing":
        c.stroke([(x, y - 0.012), (x - 0.035, y - 0.085)], 0.013, "yellow", line=0.8)
        c.area([(x + 0.002, y), (x - 0.008, y - 0.014), (x + 0.007, y - 0.018)], (70, 60, 60), line=0)
    else:
        c.stroke([(x - 0.05, y - 0.010), (x + 0.05, y - 0.016)], 0.014, "yellow", line=0.8)
        c.area(
            [(x + 0.056, y - 0.023), (x + 0.074, y - 0.018), (x + 0.056, y - 0.010)],
            (236, 206, 170),
            line=0.6,
        )


def _envelope(c: Canvas, p: Prop, key: str) -> None:
    (x, y), z = p.at, p.size
    c.slab((x - 0.052 * z, y - 0.035 * z, x + 0.052 * z, y + 0.035 * z), (252, 248, 238))
    c.stroke(
        [(x - 0.05 * z, y - 0.032 * z), (x, y + 0.006 * z), (x + 0.05 * z, y - 0.032 * z)],
        0.005,
        (150, 140, 130),
        line=0,
    )
    c.oval((x, y + 0.006 * z), 0.011 * z, 0.011 * z, "red", line=0)


def _mailbox(c: Canvas, p: Prop, key: str) -> None:
    (x, y), z = p.at, p.size
    c.shadow((x, y), 0.09 * z)
    c.slab((x - 0.022 * z, y - 0.16 * z, x + 0.022 * z, y), (110, 84, 70))
    c.blob(
        [
            (x - 0.10 * z, y - 0.15 * z),
            (x - 0.105 * z, y - 0.30 * z),
            (x - 0.07 * z, y - 0.36 * z),
            (x + 0.07 * z, y - 0.36 * z),
            (x + 0.105 * z, y - 0.30 * z),
            (x + 0.10 * z, y - 0.15 * z),
        ],
        "red",
    )
    c.slab((x - 0.065 * z, y - 0.295 * z, x + 0.065 * z, y - 0.275 * z), (60, 40, 44), line=0.6)
    c.slab((x - 0.042 * z, y - 0.245 * z, x + 0.042 * z, y - 0.19 * z), "white", line=0.6)
    c.stroke([(x - 0.026 * z, y - 0.225 * z), (x + 0.026 * z, y - 0.225 * z)], 0.004, "grey", line=0)


def _easel(c: Canvas, p: Prop, key: str) -> None:
    (x, y), z = p.at, p.size
    c.shadow((x, y), 0.16 * z)
    for u0, u1 in ((-0.04, -0.14), (0.04, 0.14), (0.0, 0.02)):
        c.stroke([(x + u0 * z, y - 0.52 * z), (x + u1 * z, y)], 0.018 * z, "wood")
    box = (x - 0.15 * z, y - 0.47 * z, x + 0.15 * z, y - 0.20 * z)
    sheet = f"{key}/painting" if p.state == "painting" else f"{key}/canvas"
    with c.part(sheet):
        c.slab(box, (252, 250, 244))
        if p.state != "blank":
            c.slab(
                (
                    box[0] + 0.012,
                    box[1] + 0.012,
                    box[2] - 0.012,
                    box[3] - (0.012 if p.state == "painting" else 0.13),
                ),
                (168, 212, 236),
                line=0,
            )
        if p.state == "painting":
            c.oval((x + 0.06 * z, y - 0.39 * z), 0.04 * z, 0.04 * z, (255, 206, 80), line=0)
            c.area(
                [
                    (box[0] + 0.012, box[3] - 0.012),
                    (x - 0.08 * z, y - 0.32 * z),
                    (x, y - 0.27 * z),
                    (x + 0.07 * z, y - 0.31 * z),
                    (box[2] - 0.012, box[3] - 0.012),
                ],
                (104, 170, 96),
                line=0,
            )
            c.oval((x - 0.06 * z, y - 0.25 * z), 0.02, 0.02, (226, 84, 80), line=0)
        elif p.state == "begun":
            c.oval((x + 0.06 * z, y - 0.39 * z), 0.035 * z, 0.035 * z, (255, 206, 80), line=0)
            c.stroke(
                [(x - 0.13 * z, y - 0.31 * z), (x - 0.05 * z, y - 0.325 * z)], 0.018, (104, 170, 96), line=0
            )
    c.slab((x - 0.17 * z, y - 0.20 * z, x + 0.17 * z, y - 0.18 * z), "wood")


def _brush(c: Canvas, p: Prop, key: str) -> None:
    x, y = p.at
    c.stroke([(x, y), (x - 0.062, y + 0.045)], 0.010, (150, 96, 60), line=0.7)
    c.stroke([(x, y), (x + 0.014, y - 0.010)], 0.016, (230, 190, 70), line=0.7)


def _palette(c: Canvas, p: Prop, key: str) -> None:
    x, y = p.at
    c.oval((x, y), 0.052, 0.034, (222, 180, 130))
    for i, fill in enumerate(("red", "yellow", "blue", "green")):
        c.oval((x - 0.03 + 0.02 * i, y - 0.012 + 0.008 * (i % 2)), 0.008, 0.007, fill, line=0)


def _book(c: Canvas, p: Prop, key: str) -> None:
    (x, y), z = p.at, p.size
    for u in (-1, 1):
        c.area(
            [
                (x, y),
                (x + 0.075 * u * z, y - 0.022 * z),
                (x + 0.085 * u * z, y - 0.105 * z),
                (x, y - 0.080 * z),
            ],
            "tomato",
        )
    for u in (-1, 1):
        c.area(
            [
                (x, y - 0.010),
                (x + 0.064 * u * z, y - 0.028 * z),
                (x + 0.070 * u * z, y - 0.096 * z),
                (x, y - 0.078 * z),
            ],
            "cream",
            line=0.5,
        )


def _lamp(c: Canvas, p: Prop, key: str) -> None:
    (x, y), z = p.at, p.size
    c.shadow((x, y), 0.06 * z)
    c.oval((x, y - 0.008), 0.055 * z, 0.014 * z, (96, 76, 72))
    c.stroke([(x, y - 0.01), (x, y - 0.36 * z)], 0.012, (96, 76, 72))
    c.glow((x, y - 0.38 * z), 0.20 * z, (255, 240, 180), 0.6)
    c.area(
        [
            (x - 0.085 * z, y - 0.33 * z),
            (x - 0.05 * z, y - 0.45 * z),
            (x + 0.05 * z, y - 0.45 * z),
            (x + 0.085 * z, y - 0.33 * z),
        ],
        (255, 224, 130),
    )


def _bed(c: Canvas, p: Prop, key: str) -> None:
    (x, y), z = p.at, p.size
    c.shadow((x, y), 0.36 * z)
    for u in (-0.33, 0.33):
        c.slab((x + u * z - 0.018, y - (0.19 if u < 0 else 0.30) * z, x + u * z + 0.018, y), (150, 102, 70))
    c.slab((x - 0.33 * z, y - 0.115 * z, x + 0.33 * z, y - 0.03 * z), (124, 160, 206))
    c.slab((x - 0.33 * z, y - 0.125 * z, x + 0.33 * z, y - 0.095 * z), "white")
    c.blob(
        [
            (x + 0.13 * z, y - 0.12 * z),
            (x + 0.15 * z, y - 0.18 * z),
            (x + 0.28 * z, y - 0.20 * z),
            (x + 0.31 * z, y - 0.12 * z),
        ],
        (250, 240, 226),
    )


DRAWN: dict[str, Draw] = {
    "table": _table, "flour": _flour, "egg": _egg, "bowl": _bowl, "whisk": _whisk, "spoon": _spoon,
    "ladle": _ladle, "knife": _knife, "carrot": _carrot, "leek": _leek, "pot": _pot, "stove": _stove,
    "oven": _oven, "cake": _cake, "bread": _bread, "block": _one_block, "blocks": _blocks, "tower": _tower,
    "paper": _paper, "letter": _letter, "pencil": _pencil, "envelope": _envelope, "mailbox": _mailbox,
    "easel": _easel, "brush": _brush, "palette": _palette, "book": _book, "lamp": _lamp, "bed": _bed,
}  # fmt: skip
