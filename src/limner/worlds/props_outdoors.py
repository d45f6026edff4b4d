"""Things of garden, shore and fireside: trees, birds, snow, boats, sandcastles, fires.

Each function draws one thing at the middle of its base (or where a hand holds it), in one of its states.
"""

from math import cos, pi, sin

from limner.worlds.canvas import RGB, Draw, Pen, bend, darker, lighter


def _fruit(t: Pen) -> None:
    """An apple around the point, its radius being the unit."""
    t.oval((0, 0), 1, 0.95, (222, 58, 50), line=0.8)
    t.stroke([(0, 0.8), (0.25, 1.4)], t.z * 0.22, (96, 66, 44), line=0)
    t.oval((-0.35, 0.35), 0.22, 0.22, (255, 200, 190), line=0)


def _ball_of_snow(t: Pen) -> None:
    """A ball of snow on the ground, its radius being the unit."""
    t.oval((0, 1), 1.04, 1, (244, 248, 253))
    t.oval((0.15, 0.45), 0.72, 0.34, (222, 232, 246), line=0)


def _tree(t: Pen) -> None:
    leaf: RGB = (104, 166, 80)
    t.shadow(0.13)
    t.area([(-0.045, 0), (-0.028, 0.15), (-0.1, 0.3), (0.09, 0.3), (0.03, 0.15), (0.05, 0)], (146, 104, 72))
    crown = (
        (-0.20, 0.34), (-0.21, 0.47), (-0.11, 0.58), (0.03, 0.62), (0.16, 0.55), (0.21, 0.43), (0.17, 0.31),
        (0.04, 0.25), (-0.10, 0.26),
    )  # fmt: skip
    t.blob(crown, leaf)
    for u, v, r in ((-0.1, 0.48, 0.05), (0.06, 0.53, 0.05), (0.11, 0.38, 0.05), (-0.05, 0.34, 0.04)):
        t.oval((u, v), r, r * 0.75, lighter(leaf, 0.18), line=0)
    if t.state == "apples":
        with t.part("apples"):
            for u, v in (
                (-0.13, 0.38), (-0.06, 0.50), (0.04, 0.41), (0.13, 0.48), (0.10, 0.31), (-0.03, 0.30),
                (0.03, 0.56),
            ):  # fmt: skip
                _fruit(t.moved(u, v, 0.021))


def _apple(t: Pen) -> None:
    _fruit(t.moved(0, 0, 0.03))
    t.oval((0.026, 0.004), 0.011, 0.013, (250, 240, 200), line=0)


def _ladder(t: Pen) -> None:
    (x0, y0), (x1, y1) = t.at, t.to or (t.x, t.y - 0.4)
    half = 0.042
    for d in (-half, half):
        t.c.stroke([(x0 + d, y0), (x1 + d * 0.8, y1)], 0.015, (206, 160, 100))
    for i in range(1, 8):
        x, y = x0 + (x1 - x0) * i / 8, y0 + (y1 - y0) * i / 8
        t.c.stroke([(x - half, y), (x + half, y)], 0.011, (186, 140, 84), line=0.8)


def _basket(t: Pen) -> None:
    t.shadow(0.1)
    t.arc((-0.075, 0.09), (0.075, 0.09), 0.7, 0.012, (166, 116, 66))
    t.oval((0, 0.09), 0.092, 0.02, (112, 80, 52))
    heap = {
        "empty": (),
        "half": ((-0.05, 0.1), (0.0, 0.1), (0.05, 0.1)),
        "full": (
            (-0.065, 0.1), (-0.022, 0.105), (0.022, 0.105), (0.065, 0.1), (-0.045, 0.132), (0.0, 0.138),
            (0.045, 0.132), (-0.02, 0.165), (0.022, 0.163),
        ),
    }[t.state]  # fmt: skip
    with t.part("apples"):
        for u, v in heap:
            _fruit(t.moved(u, v, 0.025))
    t.area([(-0.092, 0.09), (-0.07, 0), (0.07, 0), (0.092, 0.09)], (206, 156, 96))
    weave: RGB = (150, 104, 60)
    for i in range(1, 3):
        t.stroke([(-0.085, 0.03 * i), (0.085, 0.03 * i)], 0.004, weave, line=0)
    for i in range(-2, 3):
        ends = [t.point(0.036 * i, 0.085), (t.x + 0.028 * i * t.z, t.y - 0.005)]
        t.c.stroke(ends, 0.004, weave, line=0)


def _seed(t: Pen) -> None:
    t.oval((0.012, -0.012), 0.013, 0.018, (120, 82, 50), turn=0.5)
    t.oval((0.008, -0.006), 0.004, 0.005, (220, 190, 150), line=0)


def _plant(t: Pen) -> None:
    t.stroke([(0, -0.012), (0.004, 0.06), (0, 0.1)], 0.011 * t.z, (92, 156, 74))
    for u, v in ((-1, 0.07), (1, 0.085), (-0.8, 0.115), (0.8, 0.12)):
        t.oval((0.03 * u, v), 0.031, 0.014, (120, 186, 84), turn=-0.5 * u)


def _flower(t: Pen) -> None:
    t.c.stroke(
        [(t.x, t.y + 0.012), (t.x + 0.012, t.y - 0.12 * t.z), t.point(0, 0.25)], 0.014 * t.z, (92, 156, 74)
    )
    for u, v in ((-1, 0.08), (1, 0.12)):
        t.oval((0.05 * u, v), 0.052, 0.02, (120, 186, 84), turn=-0.5 * u)
    head = t.moved(0, 0.3)
    for i in range(9):
        a = i * 2 * pi / 9
        fill = (246, 196, 60) if i % 2 else (250, 168, 56)
        head.oval((0.068 * cos(a), -0.068 * sin(a)), 0.046, 0.028, fill, turn=a)
    head.oval((0, 0), 0.05, 0.05, (128, 78, 48))
    for i in range(8):
        head.dot((0.026 * cos(i * 2.4), -0.026 * sin(i * 2.4)), 0.005, 0.005, (196, 140, 80))


def _watering_can(t: Pen) -> None:
    fill: RGB = (86, 150, 170)
    for i in range(5):
        spout, ground = (0.13 + 0.008 * i, -0.012 - 0.006 * i), (0.125 + 0.016 * i, -0.125)
        t.arc(spout, ground, -0.12, 0.005, (130, 196, 236), line=0)
    t.stroke([(0.04, -0.045), (0.13, -0.005)], 0.018, fill)
    t.area([(0.118, 0.016), (0.148, 0.0), (0.142, -0.03), (0.124, -0.018)], darker(fill, 0.2))
    t.stroke([(-0.05, -0.05), (-0.06, 0.01), (-0.02, 0.035), (0.03, 0.005)], 0.012, darker(fill, 0.25))
    t.area([(-0.055, 0.005), (0.045, -0.008), (0.06, -0.095), (-0.055, -0.085)], fill)
    t.oval((-0.004, -0.002), 0.05, 0.011, darker(fill, 0.35), turn=0.12, line=0.7)


def _bird(t: Pen) -> None:
    t.shadow(0.05)
    for u in (-0.012, 0.012):
        t.c.stroke([t.point(u, 0.035), (t.x + u * t.z, t.y - 0.002)], 0.006, (220, 140, 50), line=0)
    t.area([(0.04, 0.06), (0.105, 0.095), (0.095, 0.045)], (70, 120, 180))
    t.oval((0, 0.062), 0.056, 0.043, (96, 150, 206))
    t.oval((-0.018, 0.052), 0.032, 0.026, (250, 200, 130), line=0)
    t.oval((-0.042, 0.108), 0.033, 0.031, (96, 150, 206))
    t.area([(-0.07, 0.115), (-0.104, 0.103), (-0.07, 0.096)], (244, 166, 54), line=0.7)
    t.oval((-0.05, 0.114), 0.006, 0.007, "black", line=0)
    t.oval((0.018, 0.068), 0.034, 0.021, (70, 120, 180), turn=-0.4, line=0.7)


def _butterfly(t: Pen) -> None:
    for u in (-1, 1):
        t.oval((0.034 * u, 0.022), 0.036, 0.028, (240, 150, 60), turn=-0.6 * u)
        t.oval((0.026 * u, -0.022), 0.025, 0.021, (250, 200, 90), turn=0.6 * u)
        t.oval((0.036 * u, 0.022), 0.011, 0.011, (120, 70, 160), line=0)
        t.stroke([(0, 0.03), (0.016 * u, 0.062)], 0.004, "black", line=0)
    t.oval((0, 0), 0.008, 0.034, "black", line=0)


def _snowball(t: Pen) -> None:
    t.shadow(0.06)
    _ball_of_snow(t.moved(0, 0, 0.045))


def _snowman(t: Pen) -> None:
    t.shadow(0.15)
    _ball_of_snow(t.moved(0, 0, 0.12))
    _ball_of_snow(t.moved(0, 0.205, 0.085))
    if t.state == "body":
        return
    for u in (-1, 1):
        t.stroke([(0.07 * u, 0.3), (0.18 * u, 0.38)], 0.01, (110, 78, 56), line=0.6)
        t.stroke([(0.145 * u, 0.355), (0.185 * u, 0.345)], 0.008, (110, 78, 56), line=0.6)
    _ball_of_snow(t.moved(0, 0.35, 0.062))
    t.arc((-0.065, 0.362), (0.065, 0.362), -0.15, 0.032 * t.z, "green")
    for eye in (-0.022, 0.022):
        t.oval((eye, 0.425), 0.008, 0.009, "black", line=0)
    t.area([(0, 0.415), (0, 0.395), (-0.07, 0.398)], (240, 132, 44), line=0.7)
    for i in range(3):
        t.oval((0, 0.22 + 0.04 * i), 0.008, 0.008, "black", line=0)
    t.slab((-0.045, 0.555, 0.045, 0.465), (62, 58, 72))
    t.slab((-0.075, 0.475, 0.075, 0.455), (62, 58, 72))
    t.slab((-0.045, 0.492, 0.045, 0.474), "red", line=0)


def _draw_log(t: Pen, half: float, r: float, *, tilt: float = 0.0) -> None:
    """A log around the point, in page units."""
    (x, y), end = t.at, (t.x + half, t.y - tilt)
    t.c.stroke([(x - half, y + tilt), end], 2 * r, (140, 98, 66))
    t.c.oval(end, r * 0.85, r, (226, 184, 130), line=0.7)
    t.c.oval(end, r * 0.4, r * 0.5, (190, 144, 94), line=0)


def _planks(t: Pen) -> None:
    t.shadow(0.19)
    for i, (u, v) in enumerate(((-0.01, 0.0), (0.02, 0.038), (-0.02, 0.076), (0.01, 0.114))):
        fill = lighter((196, 146, 92), 0.12 * (i % 2))
        t.area([(u - 0.17, v), (u - 0.165, v + 0.034), (u + 0.165, v + 0.038), (u + 0.17, v + 0.003)], fill)
        t.stroke([(u - 0.12, v + 0.018), (u + 0.08, v + 0.022)], 0.003, (150, 104, 62), line=0)


def _hammer(t: Pen) -> None:
    t.stroke([(-0.01, -0.02), (0.045, 0.085)], 0.014, "wood", line=0.8)
    t.stroke([(0.014, 0.098), (0.078, 0.07)], 0.03, (110, 114, 126), line=0.9)


def _boat(t: Pen) -> None:
    wood: RGB = (196, 116, 70)
    if t.state == "sailing":
        t.stroke([(0.02, 0.08), (0.02, 0.42)], 0.013 * t.z, (140, 96, 64))
        t.area([(0.035, 0.41), (0.035, 0.12), (0.2, 0.13)], (252, 248, 238))
        t.area([(0.02, 0.42), (-0.045, 0.4), (0.02, 0.375)], "red", line=0.7)
    else:
        t.shadow(0.2)
        for u in (-0.14, 0.0, 0.13):
            t.stroke([(u, 0.07), (u * 1.1, 0.165)], 0.013, "wood")
    hull = (
        (-0.20, 0.10), (-0.15, 0.02), (0, 0), (0.15, 0.02), (0.21, 0.11), (0.10, 0.083), (0, 0.078),
        (-0.10, 0.08),
    )  # fmt: skip
    t.blob(hull, wood)
    t.arc((-0.165, 0.05), (0.17, 0.055), -0.09, 0.005, darker(wood, 0.35), line=0)
    if t.state == "sailing":
        for i in range(4):
            u = -0.18 + 0.12 * i
            ends = (t.x + (u - 0.05) * t.z, t.y + 0.004), (t.x + (u + 0.05) * t.z, t.y + 0.004)
            t.c.stroke(bend(*ends, 0.25), 0.01, (236, 248, 252), line=0)
    else:
        for i in range(6):
            t.dot((-0.12 + 0.048 * i, 0.062), 0.004, 0.004, (80, 60, 56))


def _bucket(t: Pen) -> None:
    t.shadow(0.07)
    t.arc((-0.062, 0.11), (0.062, 0.11), 0.55, 0.006, (110, 114, 126), line=0.5)
    t.area([(-0.064, 0.115), (-0.046, 0), (0.046, 0), (0.064, 0.115)], (80, 136, 200))
    t.oval((0, 0.115), 0.064, 0.015, (150, 206, 236) if t.state == "water" else (52, 88, 140))


def _spade(t: Pen) -> None:
    t.stroke([(0, 0.1), (0.01, -0.08)], 0.013, "wood", line=0.8)
    t.stroke([(-0.022, 0.1), (0.022, 0.103)], 0.013, "wood", line=0.8)
    t.blob([(-0.02, -0.07), (0.04, -0.066), (0.04, -0.12), (0.014, -0.145), (-0.014, -0.124)], "red")


def _sandcastle(t: Pen) -> None:
    sand: RGB = (232, 190, 116)
    t.shadow(0.2)
    if t.state == "heap":
        t.blob([(-0.19, 0), (-0.1, 0.07), (-0.01, 0.15), (0.09, 0.09), (0.18, 0)], sand)
        for i in range(6):
            t.dot((-0.09 + 0.035 * i, 0.025 + 0.02 * (i % 3)), 0.005, 0.003, darker(sand, 0.25))
        return

    def tower(u: float, w: float, h: float, low: float) -> None:
        t.area([(u - w * 1.1, low), (u - w, h), (u + w, h), (u + w * 1.1, low)], sand)
        for k in (-1, 0, 1):
            t.slab((u + k * w * 0.75 - w * 0.25, h + 0.025, u + k * w * 0.75 + w * 0.25, h), sand, line=0.7)

    def flag(u: float, h: float, fill: str) -> None:
        t.stroke([(u, h), (u, h + 0.085)], 0.006, (110, 78, 56), line=0)
        t.area([(u, h + 0.085), (u + 0.05, h + 0.065), (u, h + 0.045)], fill, line=0.7)

    tower(0.0, 0.055, 0.26, 0.08)
    t.slab((-0.16, 0.12, 0.16, 0), sand)
    for u in (-0.15, 0.15):
        tower(u, 0.045, 0.18, 0.0)
    t.blob([(-0.032, 0), (-0.03, 0.055), (0, 0.075), (0.03, 0.055), (0.032, 0)], (150, 106, 62), line=0.7)
    for u, h, fill in ((0.0, 0.28, "red"), (-0.15, 0.2, "blue"), (0.15, 0.2, "yellow")):
        flag(u, h, fill)
    t.oval((0, 0.18), 0.014, 0.02, (150, 106, 62), line=0)


def _log(t: Pen) -> None:
    _draw_log(t, 0.07 * t.z, 0.022)


def _logs(t: Pen) -> None:
    t.shadow(0.16)
    for u, v in ((-0.06, 0.025), (0.06, 0.025), (0.0, 0.075), (0.01, 0.12)):
        _draw_log(t.moved(u, v), 0.075 * t.z, 0.025 * t.z)


def _fire(t: Pen) -> None:
    big = t.state == "blazing"
    (x, y), z = t.at, t.z
    h = (0.3 if big else 0.09) * z
    if big:
        t.c.glow((x, y - 0.12), 0.42, (255, 190, 90), 0.5)
    t.shadow(0.14)
    for u in (-0.13, -0.07, 0.0, 0.07, 0.13):
        t.c.oval((x + u * z, y + 0.004), 0.03 * z, 0.018 * z, "stone", line=0.8)
    for tilt in (0.018, -0.018):
        _draw_log(t.moved(0, 0.03), 0.09 * z, 0.02 * z, tilt=tilt)
    for share, fill in ((1.0, (240, 96, 44)), (0.7, (252, 168, 56)), (0.4, (255, 230, 130))):
        w, top, low = (0.085 if big else 0.032) * share, (0.3 if big else 0.09) * share, 0.05
        tongues = [
            (-w, low), (-w * 0.9, low + top * 0.42), (-w * 0.35, low + top * 0.55), (-w * 0.1, low + top),
            (w * 0.4, low + top * 0.62), (w * 0.95, low + top * 0.4), (w, low), (0.0, 0.035),
        ]  # fmt: skip
        t.blob(tongues, fill, line=0.6 if share == 1.0 else 0)
    if big:
        for i in range(7):
            spark = (x + 0.07 * sin(i * 2.4), y - h - 0.05 - 0.03 * i)
            t.c.oval(spark, 0.005, 0.006, (255, 200, 100), line=0)
    else:
        smoke = [(x + 0.01 * sin(k), y - h - 0.07 - 0.02 * k) for k in range(6)]
        t.c.stroke(smoke, 0.008, (230, 230, 236), line=0, alpha=140)


def _match(t: Pen) -> None:
    t.stroke([(-0.008, 0), (0.04, 0.022)], 0.008, "sand", line=0.6)
    t.glow((0.046, 0.034), 0.05, (255, 230, 150), 0.8)
    t.oval((0.046, 0.034), 0.009, 0.016, (255, 160, 50), line=0)


def _stick(t: Pen) -> None:
    to = t.to or t.at
    t.c.stroke([t.at, to], 0.009, (130, 92, 62), line=0.6)
    t.c.oval(to, 0.022, 0.018, (252, 246, 238), line=0.8)


def _rod(t: Pen) -> None:
    (x, y), (u, v) = t.at, t.to or t.at
    butt = (x - (u - x) * 0.12, y - (v - y) * 0.12)
    t.c.stroke(bend(butt, (u, v), -0.06), 0.011, (150, 100, 60), line=0.7)
    if t.state == "cast":
        end = (u + 0.1, 0.72)
        t.c.stroke(bend((u, v), end, -0.1), 0.0035, (250, 250, 250), line=0.25)
        t.c.oval((end[0], end[1] - 0.006), 0.014, 0.018, "red", line=0.7)
        t.c.oval(end, 0.04, 0.008, (220, 238, 248), line=0, alpha=190)
    else:
        t.c.stroke([(u, v), (u + 0.012, v + 0.1)], 0.0035, (250, 250, 250), line=0.25)


def _fish(t: Pen) -> None:
    body: RGB = (140, 176, 204)
    x, y, low = t.x, t.y, t.y + 0.17 * t.z
    fins = [t.point(-0.055, -0.235), t.point(0, -0.215), t.point(0.055, -0.235)]
    t.c.area([(x - 0.005, low), *fins, (x + 0.005, low)], darker(body, 0.1))
    sides = ((0.055, -0.06), (0.045, -0.13), (0, -0.195), (-0.045, -0.13), (-0.055, -0.06))
    t.c.blob([(x, y - 0.01), *(t.point(*at) for at in sides)], body)
    t.oval((0, -0.1), 0.022, 0.07, lighter(body, 0.55), line=0)
    t.oval((-0.018, -0.035), 0.011, 0.011, "white", line=0.5)
    t.oval((-0.018, -0.035), 0.005, 0.005, "black", line=0)
    for i in range(3):
        t.arc((-0.03, -0.085 - 0.03 * i), (0.03, -0.085 - 0.03 * i), -0.3, 0.004, darker(body, 0.25), line=0)


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
