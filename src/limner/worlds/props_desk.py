"""Things of desk and nursery: blocks, letters, easel, book, lamp, bed.

Each function draws one thing at the middle of its base (or where a hand holds it), in one of its states.
It decides no positions.
"""

from math import cos, pi, sin

from limner.worlds.canvas import RGB, Canvas, Draw, lighter
from limner.worlds.world import Prop


def _block(c: Canvas, x: float, y: float, half: float, i: int) -> None:
    fill = ("red", "yellow", "blue", "green", "orange", "purple", "pink")[i % 7]
    c.slab((x - half, y - 2 * half, x + half, y), fill)
    c.oval((x, y - half), half * 0.42, half * 0.42, "white", line=0)


def _one_block(c: Canvas, p: Prop, key: str) -> None:
    _block(c, p.at[0], p.at[1] + 0.03, 0.032 * p.size, 4)


def _blocks(c: Canvas, p: Prop, key: str) -> None:
    (x, y), z = p.at, p.size
    spots = (
        (-0.16, -0.005, 0.3), (-0.06, -0.05, 0.0), (0.03, 0.0, 0.6), (0.10, -0.06, 0.0), (0.17, -0.01, 0.4),
        (0.20, -0.09, 0.0), (-0.02, -0.11, 0.8),
    )  # fmt: skip
    for i, (u, v, turn) in enumerate(spots):
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


def _blanket(c: Canvas, p: Prop, key: str) -> None:
    (x, y), z = p.at, p.size
    cloth: RGB = (150, 182, 220)
    top = [(-0.185, 0.0), (-0.195, -0.045), (-0.13, -0.085), (0.0, -0.115), (0.125, -0.122), (0.145, 0.0)]
    c.blob([(x + u * z, y + v * z) for u, v in top], cloth)
    for u, v in (
        (-0.12, -0.035),
        (-0.05, -0.075),
        (-0.03, -0.025),
        (0.03, -0.05),
        (0.085, -0.085),
        (0.10, -0.03),
    ):
        c.oval((x + u * z, y + v * z), 0.011 * z, 0.011 * z, lighter(cloth, 0.6), line=0)
    c.stroke([(x + 0.135 * z, y - 0.118 * z), (x + 0.152 * z, y - 0.002)], 0.022 * z, "white", line=0.8)


DRAWN: dict[str, Draw] = {
    "block": _one_block,
    "blocks": _blocks,
    "tower": _tower,
    "paper": _paper,
    "letter": _letter,
    "pencil": _pencil,
    "envelope": _envelope,
    "mailbox": _mailbox,
    "easel": _easel,
    "brush": _brush,
    "palette": _palette,
    "book": _book,
    "lamp": _lamp,
    "bed": _bed,
    "blanket": _blanket,
}
