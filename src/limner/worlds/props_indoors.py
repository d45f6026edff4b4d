"""Things of kitchen, desk and nursery: dishes and food, letters, easel, blocks, bed.

Each function draws one thing at the middle of its base (or where a hand holds it), in one of its states.
"""

from math import cos, pi, sin

from limner.worlds.canvas import RGB, Draw, Pen, darker, lighter

BLOCKS = ("red", "yellow", "blue", "green", "orange", "purple", "pink")


def _steam(t: Pen, v: float, unit: float = 1.0) -> None:
    """Steam above a point, `unit` being the size of the cloud."""
    (x, y), z = t.point(0, v), unit * t.z
    for u in (-0.03, 0.005, 0.04):
        wisp = [(x + u * z + 0.01 * sin(k * 1.1 + u * 60), y - 0.016 * k * z) for k in range(8)]
        t.c.stroke(wisp, 0.009, (255, 255, 255), line=0, alpha=190)


def _handle(t: Pen, width: float, fill: RGB | str) -> None:
    """A stick from the working end to the hand."""
    t.c.stroke([t.at, t.to or t.at], width, fill, line=0.8)


def _table(t: Pen) -> None:
    t.shadow(0.22, 0.022)
    for u in (-0.17, 0.17):
        t.slab((u - 0.016, 0.175, u + 0.016, 0), darker((188, 136, 84), 0.12))
    t.slab((-0.215, 0.195, 0.215, 0.161), "wood")
    t.stroke([(-0.19, 0.177), (0.1, 0.175)], 0.003, darker((188, 136, 84), 0.2), line=0)


def _flour(t: Pen) -> None:
    t.blob([(-0.04, 0), (-0.045, 0.09), (-0.03, 0.12), (0.03, 0.12), (0.045, 0.09), (0.04, 0)], "cream")
    t.oval((0, 0.115), 0.03, 0.01, "white", line=0.7)
    t.arc((0, 0.025), (0, 0.08), 0.1, 0.005, "gold", line=0)
    for i in range(3):
        for d in (-1, 1):
            t.oval((0.01 * d, 0.045 + 0.013 * i), 0.008, 0.004, "gold", turn=-0.6 * d, line=0)


def _egg(t: Pen) -> None:
    t.oval((-0.018, 0.024), 0.018, 0.024, "cream")
    t.oval((0.02, 0.02), 0.022, 0.017, (244, 222, 190))


def _bowl(t: Pen) -> None:
    fill: RGB = (238, 150, 140) if t.state == "batter" else (110, 160, 200)
    inner: RGB = (250, 226, 160) if t.state == "batter" else (232, 130, 70)
    t.blob([(-0.082, 0.085), (-0.06, 0.02), (-0.03, 0), (0.03, 0), (0.06, 0.02), (0.082, 0.085)], fill)
    t.oval((0, 0.085), 0.084, 0.024, lighter(fill, 0.4))
    with t.part(t.state):
        t.oval((0, 0.082), 0.07, 0.018, inner, line=0)
        if t.state == "soup":
            for u, v in ((-0.03, 0), (0.01, 0.006), (0.035, -0.004)):
                t.dot((u, 0.082 + v), 0.008, 0.004, "leaf")
    if t.state == "soup":
        _steam(t, 0.12, 0.8)
    else:
        t.oval((-0.02, 0.088), 0.025, 0.007, lighter(inner, 0.5), line=0)


def _whisk(t: Pen) -> None:
    _handle(t, 0.012, "wood")
    for u in (-0.02, -0.009, 0.009, 0.02):
        t.stroke(
            [(-0.003, 0.01), (u, -0.022), (u * 0.5, -0.045), (0, -0.048)], 0.004, (120, 124, 136), line=0
        )


def _spoon(t: Pen) -> None:
    _handle(t, 0.009, (176, 180, 190))
    t.oval((0, 0), 0.02, 0.014, (196, 200, 210), line=0.8)


def _ladle(t: Pen) -> None:
    t.c.stroke([(t.x, t.y + 0.02), (t.x + 0.003, t.y - 0.02), t.to or t.at], 0.013, (150, 112, 74), line=0.8)
    t.oval((0, -0.02), 0.026, 0.018, (150, 112, 74), line=0.8)


def _knife(t: Pen) -> None:
    t.area([(0.006, 0.012), (0.075, -0.01), (0.068, -0.024), (0.006, -0.012)], (206, 212, 222), line=0.8)
    t.stroke([(-0.028, 0.012), (0.008, 0)], 0.018, (104, 72, 60), line=0.8)


def _carrot(t: Pen) -> None:
    for d in (-0.5, 0.0, 0.5):
        t.c.stroke(
            [(t.x + 0.055 * t.z, t.y - 0.02), (t.x + 0.088 * t.z, t.y - 0.024 + 0.022 * d)],
            0.009,
            "leaf",
            line=0,
        )
    t.c.blob(
        [
            (t.x - 0.075 * t.z, t.y - 0.01),
            (t.x + 0.03 * t.z, t.y - 0.04 * t.z),
            (t.x + 0.06 * t.z, t.y - 0.02),
            (t.x + 0.03 * t.z, t.y - 0.002),
        ],
        (240, 132, 44),
    )
    for u in (-0.02, 0.01, 0.035):
        t.c.stroke(
            [(t.x + u * t.z, t.y - 0.03), (t.x + (u + 0.004) * t.z, t.y - 0.016)],
            0.004,
            (206, 100, 34),
            line=0,
        )


def _leek(t: Pen) -> None:
    t.area([(0.0, 0.03), (0.085, 0.056), (0.07, 0.028), (0.092, 0.012), (0, 0.004)], "leaf", line=0.8)
    t.stroke([(-0.05, 0.017), (0.012, 0.017)], 0.028 * t.z, "white", line=0.8)


def _pot(t: Pen) -> None:
    if t.state in ("empty", "earth"):
        clay: RGB = (206, 116, 78)
        t.shadow(0.085)
        t.area([(-0.075, 0.09), (-0.055, 0), (0.055, 0), (0.075, 0.09)], clay)
        t.slab((-0.088, 0.118, 0.088, 0.085), lighter(clay, 0.15))
        t.oval((0, 0.118), 0.078, 0.013, (96, 66, 54), line=0.6)
        return
    body: RGB = (84, 118, 160)
    for u in (-1, 1):
        t.stroke(
            [(0.075 * u, 0.07), (0.105 * u, 0.07), (0.105 * u, 0.05), (0.075 * u, 0.045)], 0.011, (60, 66, 80)
        )
    t.slab((-0.08, 0.105, 0.08, 0), body)
    t.c.slab(
        (t.x - 0.066 * t.z, t.y - 0.085 * t.z, t.x - 0.045 * t.z, t.y - 0.02), lighter(body, 0.4), line=0
    )
    if t.state == "steaming":
        t.oval((0, 0.105), 0.081, 0.02, (60, 66, 80))
        with t.part("soup"):
            t.oval((0, 0.103), 0.07, 0.014, (232, 130, 70), line=0)
            for at, fill in ((-0.04, (250, 190, 80)), (0.0, (110, 170, 84)), (0.03, (250, 190, 80))):
                t.dot((at, 0.103), 0.008, 0.005, fill)
        _steam(t, 0.13)
    else:
        t.slab((-0.086, 0.125, 0.086, 0.103), darker(body, 0.2))
        t.dot((0, 0.132), 0.014, 0.011, "black", line=1)


def _stove(t: Pen) -> None:
    t.shadow(0.19)
    t.slab((-0.17, 0.225, 0.17, 0), (226, 230, 234))
    t.slab((-0.18, 0.24, 0.18, 0.215), (92, 98, 110))
    t.slab((-0.12, 0.13, 0.12, 0.03), (84, 90, 104), line=0.8)
    for i in range(4):
        t.oval((-0.1 + 0.067 * i, 0.175), 0.013, 0.013, "tomato", line=0.7)
    for i in range(4):
        u = -0.085 + 0.03 * i
        t.area([(u, 0.236), (u + 0.01, 0.262), (u + 0.02, 0.236)], (110, 170, 240), line=0)


def _oven(t: Pen) -> None:
    t.shadow(0.22)
    t.slab((-0.2, 0.4, 0.2, 0), (236, 226, 214))
    t.slab((-0.21, 0.425, 0.21, 0.395), (110, 104, 108))
    for i in range(4):
        t.oval((-0.12 + 0.08 * i, 0.355), 0.016, 0.016, "tomato", line=0.8)
    t.slab((-0.165, 0.305, 0.165, 0.045), (120, 112, 114))
    t.slab((-0.135, 0.275, 0.135, 0.075), (255, 178, 74), line=0.8)
    t.glow((0, 0.175), 0.16, (255, 226, 140), 0.55)
    t.stroke([(-0.13, 0.11), (0.13, 0.11)], 0.005, (120, 84, 60), line=0)
    with t.part("cake"):
        t.slab((-0.075, 0.165, 0.075, 0.112), (122, 124, 136), line=0.8)
        t.blob([(-0.078, 0.16), (-0.06, 0.205), (0, 0.222), (0.06, 0.205), (0.078, 0.16)], (214, 150, 78))
    t.stroke([(-0.11, 0.29), (0.11, 0.29)], 0.012, (230, 232, 236))


def _cake(t: Pen) -> None:
    t.c.oval((t.x, t.y - 0.006), 0.115 * t.z, 0.016 * t.z, "white")
    for w, low, high, fill in ((0.095, 0.008, 0.075, (226, 170, 110)), (0.068, 0.075, 0.13, (236, 184, 124))):
        t.slab((-w, high, w, low), fill)
        drip = [((-1 + i / 4) * w, high - (0.032 if i % 2 else 0.016)) for i in range(9)]
        t.area([(-w, high), *drip, (w, high)], (250, 190, 204), line=0.7)
        t.oval((0, high), w, 0.014, (252, 206, 216), line=0.7)
    for u, candle in ((-0.042, "blue"), (0.0, "yellow"), (0.042, "green")):
        t.slab((u - 0.006, 0.182, u + 0.006, 0.134), candle, line=0.6)
        t.glow((u, 0.198), 0.035, (255, 240, 170), 0.8)
        t.oval((u, 0.197), 0.007, 0.013, (255, 160, 50), line=0)
    for i in range(5):
        t.oval((-0.07 + 0.035 * i, 0.03), 0.009, 0.009, "red", line=0)


def _bread(t: Pen) -> None:
    t.blob([(-0.06, 0.002), (-0.065, 0.045), (0, 0.07), (0.065, 0.045), (0.06, 0.002)], (206, 142, 76))
    for u in (-0.03, 0.0, 0.03):
        t.stroke([(u - 0.008, 0.03), (u + 0.008, 0.056)], 0.006, "cream", line=0)


def _draw_block(t: Pen, i: int) -> None:
    """A block seen from the front, half a side being the unit."""
    t.slab((-1, 2, 1, 0), BLOCKS[i % 7])
    t.oval((0, 1), 0.42, 0.42, "white", line=0)


def _block(t: Pen) -> None:
    _draw_block(Pen(t.c, t.prop, (t.x, t.y + 0.03), 0.032 * t.z), 4)


def _blocks(t: Pen) -> None:
    spots = (
        (-0.16, -0.005, 0.3), (-0.06, -0.05, 0.0), (0.03, 0.0, 0.6), (0.10, -0.06, 0.0), (0.17, -0.01, 0.4),
        (0.20, -0.09, 0.0), (-0.02, -0.11, 0.8),
    )  # fmt: skip
    for (u, v, turn), fill in zip(spots, BLOCKS, strict=True):
        one = Pen(t.c, t.prop, (t.x + u * t.z, t.y + v * t.z - 0.035 * t.z), 0.034 * t.z)
        t.c.shadow((one.x, one.y + one.z), 0.04 * t.z, 0.010)
        corners = [turn + pi / 4 + k * pi / 2 for k in range(4)]
        one.area([(1.414 * cos(a), -1.414 * sin(a)) for a in corners], fill)
        one.oval((0, 0), 0.42, 0.42, "white", line=0)


def _tower(t: Pen) -> None:
    t.shadow(0.1)
    rows = (
        ((-0.075, 0.0, 0.075), (-0.038, 0.038))
        if t.state == "half"
        else ((-0.075, 0.0, 0.075), (-0.038, 0.038), (-0.036, 0.036), (0.0,), (0.004,), (-0.003,))
    )
    i, base = 0, t.y
    for n, row in enumerate(rows):
        half = (0.036 if n < 3 else 0.034) * t.z
        for u in row:
            _draw_block(Pen(t.c, t.prop, (t.x + u * t.z, base), half), i)
            i += 1
        base -= 2 * half
    if t.state == "tall":
        t.c.area([(t.x - 0.045 * t.z, base), (t.x, base - 0.07 * t.z), (t.x + 0.045 * t.z, base)], "red")
    else:
        for u, k in ((0.17, 2), (-0.16, 5)):
            _draw_block(Pen(t.c, t.prop, (t.x + u * t.z, t.y + 0.01), 0.034 * t.z), k)


def _paper(t: Pen) -> None:
    t.c.area(
        [
            (t.x - 0.085 * t.z, t.y - 0.004),
            (t.x - 0.045 * t.z, t.y - 0.058 * t.z),
            (t.x + 0.095 * t.z, t.y - 0.058 * t.z),
            (t.x + 0.065 * t.z, t.y - 0.004),
        ],
        (252, 252, 250),
    )


def _letter(t: Pen) -> None:
    _paper(t)
    for i in range(4):
        v, lead = 0.048 - 0.011 * i, 0.008 * i
        t.stroke([(-0.036 - lead, v), (0.075 - lead - 0.03 * (i == 3), v)], 0.0045, (70, 84, 140), line=0)


def _pencil(t: Pen) -> None:
    if t.state == "writing":
        t.stroke([(0, 0.012), (-0.035, 0.085)], 0.013, "yellow", line=0.8)
        t.area([(0.002, 0), (-0.008, 0.014), (0.007, 0.018)], (70, 60, 60), line=0)
    else:
        t.stroke([(-0.05, 0.01), (0.05, 0.016)], 0.014, "yellow", line=0.8)
        t.area([(0.056, 0.023), (0.074, 0.018), (0.056, 0.01)], (236, 206, 170), line=0.6)


def _envelope(t: Pen) -> None:
    t.slab((-0.052, 0.035, 0.052, -0.035), (252, 248, 238))
    t.stroke([(-0.05, 0.032), (0, -0.006), (0.05, 0.032)], 0.005, (150, 140, 130), line=0)
    t.oval((0, -0.006), 0.011, 0.011, "red", line=0)


def _mailbox(t: Pen) -> None:
    t.shadow(0.09)
    t.slab((-0.022, 0.16, 0.022, 0), (110, 84, 70))
    t.blob([(-0.1, 0.15), (-0.105, 0.3), (-0.07, 0.36), (0.07, 0.36), (0.105, 0.3), (0.1, 0.15)], "red")
    t.slab((-0.065, 0.295, 0.065, 0.275), (60, 40, 44), line=0.6)
    t.slab((-0.042, 0.245, 0.042, 0.19), "white", line=0.6)
    t.stroke([(-0.026, 0.225), (0.026, 0.225)], 0.004, "grey", line=0)


def _easel(t: Pen) -> None:
    t.shadow(0.16)
    for u0, u1 in ((-0.04, -0.14), (0.04, 0.14), (0.0, 0.02)):
        t.stroke([(u0, 0.52), (u1, 0)], 0.018 * t.z, "wood")
    with t.part("painting" if t.state == "painting" else "canvas"):
        t.slab((-0.15, 0.47, 0.15, 0.2), (252, 250, 244))
        if t.state != "blank":
            bottom = 0.212 if t.state == "painting" else 0.33
            t.slab((-0.138, 0.458, 0.138, bottom), (168, 212, 236), line=0)
        if t.state == "painting":
            t.oval((0.06, 0.39), 0.04, 0.04, (255, 206, 80), line=0)
            hills = [(-0.138, 0.212), (-0.08, 0.32), (0, 0.27), (0.07, 0.31), (0.138, 0.212)]
            t.area(hills, (104, 170, 96), line=0)
            t.oval((-0.06, 0.25), 0.02, 0.02, (226, 84, 80), line=0)
        elif t.state == "begun":
            t.oval((0.06, 0.39), 0.035, 0.035, (255, 206, 80), line=0)
            t.stroke([(-0.13, 0.31), (-0.05, 0.325)], 0.018, (104, 170, 96), line=0)
    t.slab((-0.17, 0.2, 0.17, 0.18), "wood")


def _brush(t: Pen) -> None:
    t.stroke([(0, 0), (-0.062, -0.045)], 0.01, (150, 96, 60), line=0.7)
    t.stroke([(0, 0), (0.014, 0.01)], 0.016, (230, 190, 70), line=0.7)


def _palette(t: Pen) -> None:
    t.oval((0, 0), 0.052, 0.034, (222, 180, 130))
    for i, fill in enumerate(("red", "yellow", "blue", "green")):
        t.oval((-0.03 + 0.02 * i, -(-0.012 + 0.008 * (i % 2))), 0.008, 0.007, fill, line=0)


def _book(t: Pen) -> None:
    for u in (-1, 1):
        t.area([(0, 0), (0.075 * u, 0.022), (0.085 * u, 0.105), (0, 0.08)], "tomato")
    for u in (-1, 1):
        t.c.area(
            [
                (t.x, t.y - 0.01),
                (t.x + 0.064 * u * t.z, t.y - 0.028 * t.z),
                (t.x + 0.07 * u * t.z, t.y - 0.096 * t.z),
                (t.x, t.y - 0.078 * t.z),
            ],
            "cream",
            line=0.5,
        )


def _lamp(t: Pen) -> None:
    t.shadow(0.06)
    t.oval((0, 0.008), 0.055, 0.014, (96, 76, 72))
    t.stroke([(0, 0.01), (0, 0.36)], 0.012, (96, 76, 72))
    t.glow((0, 0.38), 0.2, (255, 240, 180), 0.6)
    t.area([(-0.085, 0.33), (-0.05, 0.45), (0.05, 0.45), (0.085, 0.33)], (255, 224, 130))


def _bed(t: Pen) -> None:
    t.shadow(0.36)
    for u in (-0.33, 0.33):
        t.slab((u - 0.018, 0.19 if u < 0 else 0.3, u + 0.018, 0), (150, 102, 70))
    t.slab((-0.33, 0.115, 0.33, 0.03), (124, 160, 206))
    t.slab((-0.33, 0.125, 0.33, 0.095), "white")
    t.blob([(0.13, 0.12), (0.15, 0.18), (0.28, 0.2), (0.31, 0.12)], (250, 240, 226))


def _blanket(t: Pen) -> None:
    cloth: RGB = (150, 182, 220)
    t.blob([(-0.185, 0), (-0.195, 0.045), (-0.13, 0.085), (0, 0.115), (0.125, 0.122), (0.145, 0)], cloth)
    spots = ((-0.12, 0.035), (-0.05, 0.075), (-0.03, 0.025), (0.03, 0.05), (0.085, 0.085), (0.1, 0.03))
    for at in spots:
        t.oval(at, 0.011, 0.011, lighter(cloth, 0.6), line=0)
    ends = [t.point(0.135, 0.118), (t.x + 0.152 * t.z, t.y - 0.002)]
    t.c.stroke(ends, 0.022 * t.z, "white", line=0.8)


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
    "block": _block,
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
