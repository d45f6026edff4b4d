"""Characters: animals and children with limbs, clothes and poses.

A figure is built from its feet up in its own units (1 = its height); hands reach for points of the page, so
that what a text says is held is held. Its looks are drawn from `figures.toml`, limbs and moods here.
"""

from math import cos, hypot, pi, sin

from limner.research.worlds.canvas import NAMED, RGB, Canvas, bend, darker, lighter, mix
from limner.research.worlds.shapes import Pen, draw_shapes, drawings
from limner.research.worlds.world import Character, DrawnFigure, Point

HEIGHT = 0.45
FUR: dict[str, tuple[RGB, RGB, RGB, RGB]] = {
    "fox": ((226, 118, 50), (206, 92, 44), (236, 146, 72), (190, 84, 52)),
    "bear": ((142, 96, 62), (176, 128, 84), (104, 74, 60), (198, 160, 116)),
    "rabbit": ((238, 228, 216), (196, 180, 166), (226, 196, 160), (172, 168, 176)),
    "cat": ((146, 148, 158), (232, 162, 84), (78, 74, 84), (226, 214, 196)),
    "mouse": ((168, 164, 172), (190, 160, 136), (146, 142, 156), (214, 206, 200)),
    "pig": ((246, 176, 178), (240, 160, 162), (250, 194, 184), (234, 166, 176)),
    "frog": ((112, 172, 84), (84, 156, 98), (146, 186, 82), (94, 166, 124)),
    "elephant": ((148, 164, 188), (166, 168, 178), (132, 150, 172), (176, 164, 186)),
    "dog": ((214, 170, 118), (172, 122, 78), (240, 226, 204), (196, 152, 108)),
    "girl": ((246, 208, 176), (222, 172, 130), (168, 114, 78), (146, 100, 74)),
    "boy": ((246, 208, 176), (222, 172, 130), (168, 114, 78), (146, 100, 74)),
}
HAIR: tuple[RGB, ...] = ((196, 110, 54), (92, 60, 44), (52, 40, 42), (44, 36, 40))
DARK: RGB = (44, 36, 44)
BLUSH: RGB = (240, 130, 120)


def draw_figure(c: Canvas, figure: DrawnFigure, key: str) -> None:
    """Draw one character; parts worn get boxes of their own (`key/scarf`, `key/coat`).

    Args:
        c: canvas.
        figure: who, where and how.
        key: label of its box.
    """
    who, pen = figure.who, _pen(c, figure)
    lying = figure.pose == "sleep"
    x, y = figure.at
    c.shadow((x, y + 0.004), 0.33 * pen.unit if not lying else 0.56 * pen.unit, 0.02)
    looks = drawings("figures")
    with c.part(key):
        draw_shapes(pen, looks["tail"])
        hands = _hands(figure, pen)
        if not lying:
            _arm(pen, who, side=-1, hand=hands[1])
        _legs(pen, who, figure.pose)
        with c.part(f"{key}/{who.top}"):
            draw_shapes(pen, looks["torso"])
        draw_shapes(pen, looks["head"])
        _face(pen, who, figure.emotion)
        with c.part(f"{key}/{who.extra}"):
            draw_shapes(pen, looks["extra"])
        _arm(pen, who, side=1, hand=hands[0])
    if lying:
        fx, fy = pen.place(0.1, 1.1)
        for i in range(3):
            px, py, z = fx + 0.02 * i * pen.turn, fy - 0.08 - 0.055 * i, 0.014 + 0.006 * i
            pts = [(px - z, py - z), (px + z, py - z), (px - z, py + z), (px + z, py + z)]
            if c.flip:
                pts = [(2 * px - a, b) for a, b in pts]
            c.stroke(pts, 0.007, "white", line=0.6)


def _pen(c: Canvas, figure: DrawnFigure) -> Pen:
    """A pen whose units follow the pose: lying, lower or leaning."""
    who, turn, (x, y) = figure.who, figure.facing, figure.at
    s = HEIGHT * who.size
    drop = {"sit": 0.17, "kneel": 0.12, "run": -0.02, "dance": -0.02, "cheer": -0.02}.get(figure.pose, 0.0)
    lean = {"run": 0.10, "walk": 0.04, "dance": -0.07, "kneel": 0.08}.get(figure.pose, 0.0)

    def place(u: float, v: float) -> Point:
        if figure.pose == "sleep":
            u, v = -0.48 + v * 0.99 + 0.05 * u, 0.17 - u * 0.85
        else:
            u, v = u + lean * v, v - drop * min(1.0, max(0.0, v / 0.2))
        return x + turn * u * s, y - v * s

    top = NAMED[who.top_colour]
    facts = {who.species, f"{who.species}{who.shade}", who.top, who.extra}
    colours = {
        "fur": FUR[who.species][who.shade],
        "hair": HAIR[who.shade],
        "top": top,
        "trim": NAMED[who.extra_colour],
        "mark": darker(top, 0.22) if who.top_colour in ("white", "yellow") else lighter(top, 0.62),
    }
    if who.top != "overalls":
        facts.add(who.pattern)
    return Pen(c, place, s, width=s, turn=turn, facts=frozenset(facts), colours=colours)


def _hands(figure: DrawnFigure, pen: Pen) -> tuple[Point, Point]:
    f, pose = pen.place, figure.pose
    rest = {
        "wave": (f(0.36, 0.86), f(-0.20, 0.26)),
        "cheer": (f(0.34, 0.92), f(-0.34, 0.92)),
        "dance": (f(0.40, 0.72), f(-0.40, 0.58)),
        "walk": (f(0.24, 0.32), f(-0.22, 0.32)),
        "run": (f(0.30, 0.46), f(-0.30, 0.38)),
        "sit": (f(0.22, 0.26), f(-0.20, 0.24)),
        "sleep": (f(0.14, 0.40), f(-0.10, 0.40)),
    }.get(pose, (f(0.20, 0.24), f(-0.20, 0.24)))
    if not figure.hands:
        return rest
    near = _reach(pen, figure.hands[0], 1)
    far = _reach(pen, figure.hands[1], -1) if len(figure.hands) > 1 else rest[1]
    return near, far


def _reach(pen: Pen, target: Point, side: int) -> Point:
    """The target, or the farthest point towards it that an arm of 0.46 heights gets to."""
    sx, sy = pen.place(0.10 * side, 0.48)
    dx, dy = target[0] - sx, target[1] - sy
    far, most = hypot(dx, dy), 0.46 * pen.unit
    share = min(1.0, most / far) if far else 1.0
    return sx + dx * share, sy + dy * share


def _arm(pen: Pen, who: Character, *, side: int, hand: Point) -> None:
    c, fur = pen.canvas, pen.colours["fur"]
    start = pen.place(0.105 * side, 0.475)
    bulge = (0.16 if side > 0 else -0.16) * pen.turn
    arm = bend(start, hand, bulge if hand[1] > start[1] else -bulge)
    sleeve = lighter(pen.colours["top"], 0.72) if who.top == "overalls" else pen.colours["top"]
    shade = fur
    if side < 0:
        shade, sleeve = darker(fur, 0.10), darker(sleeve, 0.12)
    c.stroke(arm, 0.072 * pen.unit, shade)
    c.stroke(arm[:8] if who.top in ("jumper", "coat") else arm[:5], 0.088 * pen.unit, sleeve)
    c.oval(hand, 0.05 * pen.unit, 0.048 * pen.unit, shade)


def _legs(pen: Pen, who: Character, pose: str) -> None:
    c, f, s, fur = pen.canvas, pen.place, pen.unit, pen.colours["fur"]
    feet = {
        "walk": ((0.19, 0.02), (-0.17, 0.05)),
        "run": ((0.30, 0.10), (-0.30, 0.12)),
        "dance": ((0.20, 0.12), (-0.07, 0.0)),
        "cheer": ((0.14, 0.03), (-0.14, 0.03)),
    }.get(pose, ((0.09, 0.0), (-0.09, 0.0)))
    top = pen.colours["top"]
    cloth = {"overalls": top, "dress": fur}.get(who.top, mix(NAMED["navy"], top, 0.25))
    shoe = (96, 64, 56) if who.species in ("girl", "boy") else darker(fur, 0.16)
    for side, (u, v) in ((-1, feet[1]), (1, feet[0])):
        tone = cloth if side > 0 else darker(cloth, 0.14)
        hip = f(0.075 * side, 0.24)
        if pose == "sit":
            foot, knee = f(0.30 + 0.05 * side, 0.03), f(0.16, 0.15)
            path = [f(0.03 * side, 0.24), knee, foot]
        elif pose == "kneel":
            foot = f(-0.20 + 0.04 * side, 0.02)
            path = [hip, f(0.10 + 0.03 * side, 0.02), foot]
        else:
            foot = f(u, v + 0.03)
            path = bend(hip, foot, 0.06 * side * pen.turn)
        c.stroke(path, 0.10 * s, tone)
        toe = (foot[0] + 0.035 * s * pen.turn, foot[1] + 0.004) if pose != "sleep" else foot
        c.oval(toe, 0.085 * s, 0.05 * s, shoe)


def _face(pen: Pen, who: Character, mood: str) -> None:
    c, f, s, kind = pen.canvas, pen.place, pen.unit, who.species
    ev, gap, mid = (0.905, 0.12, 0.02) if kind == "frog" else (0.765, 0.09, 0.035)
    mv = {"frog": 0.66, "girl": 0.66, "boy": 0.66, "pig": 0.615, "elephant": 0.615}.get(kind, 0.645)
    # Black eyes would drown in black fur.
    white_eyes = kind == "frog" or mood == "surprised" or (kind == "cat" and who.shade == 2)
    for side in (-1, 1):
        u = mid + gap * side
        if mood in ("asleep", "proud"):
            rise = -0.03 if mood == "asleep" else 0.03
            c.stroke(_half_oval(pen, (u, ev), 0.04, rise), 0.016 * s, DARK, line=0)
            continue
        if white_eyes:
            c.oval(f(u, ev), 0.052 * s, 0.056 * s, "white", line=0.5)
        big = 0.036 if mood == "surprised" else 0.032
        c.oval(f(u + 0.012, ev), big * s, big * 1.15 * s, DARK, line=0)
        c.oval(f(u, ev + 0.014), 0.011 * s, 0.011 * s, (255, 255, 255), line=0, raw=True)
        if mood in ("sad", "worried"):
            c.stroke(
                [f(u - 0.045 * side, ev + 0.085), f(u + 0.04 * side, ev + 0.055)], 0.014 * s, DARK, line=0
            )
    for side in (-1, 1):
        c.oval(f(0.035 + 0.155 * side, 0.68), 0.035 * s, 0.024 * s, BLUSH, line=0, alpha=110)
    m = 0.04
    if mood == "surprised":
        c.oval(f(m, mv - 0.02), 0.024 * s, 0.032 * s, (130, 44, 52), line=0)
    elif mood in ("sad", "worried"):
        c.stroke(_half_oval(pen, (m, mv - 0.035), 0.045, 0.026), 0.014 * s, DARK, line=0)
    elif mood == "asleep":
        c.stroke([f(m - 0.02, mv - 0.015), f(m + 0.02, mv - 0.015)], 0.014 * s, DARK, line=0)
    else:
        half = 0.075 if kind == "frog" else 0.052
        smile = _half_oval(pen, (m, mv + 0.008), half, -0.042, steps=10)
        if mood in ("happy", "proud") and kind != "elephant":
            c.area(smile, (150, 52, 58), line=0)
        c.stroke(smile, 0.013 * s, DARK, line=0)


def _half_oval(pen: Pen, at: Point, rx: float, ry: float, steps: int = 8) -> list[Point]:
    """Points along the half of an ellipse above a point, below it for a negative ry, on the page."""
    angles = [pi * i / steps for i in range(steps + 1)]
    return [pen.place(at[0] + rx * cos(a), at[1] + ry * sin(a)) for a in angles]
