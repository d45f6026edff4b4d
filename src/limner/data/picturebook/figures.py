"""Characters: animals and children with faces, limbs, clothes and moods.

A figure is built from its feet up in its own units (1 = its height); hands reach for points of the page, so that
what a text says is held is held. It knows nothing of places and tales.
"""

from collections.abc import Callable
from math import cos, hypot, pi, sin

from limner.data.picturebook.canvas import NAMED, RGB, Canvas, bend, darker, lighter, mix
from limner.data.picturebook.world import Character, Figure, Point

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
    "girl": ((246, 208, 176), (222, 172, 130), (168, 114, 78), (122, 80, 58)),
    "boy": ((246, 208, 176), (222, 172, 130), (168, 114, 78), (122, 80, 58)),
}
HAIR: tuple[RGB, ...] = ((196, 110, 54), (92, 60, 44), (52, 40, 42), (44, 36, 40))
DARK: RGB = (44, 36, 44)
BLUSH: RGB = (240, 130, 120)

Frame = Callable[[float, float], Point]


class _Body:
    """Where the joints are, in page coordinates, for one figure."""

    def __init__(self, figure: Figure) -> None:
        self.s = HEIGHT * figure.who.size
        self.turn = figure.facing
        self.lying = figure.pose == "sleep"
        drop = {"sit": 0.17, "kneel": 0.12, "run": -0.02, "dance": -0.02, "cheer": -0.02}.get(
            figure.pose, 0.0
        )
        lean = {"run": 0.10, "walk": 0.04, "dance": -0.07, "kneel": 0.08}.get(figure.pose, 0.0)
        x, y = figure.at

        def frame(u: float, v: float) -> Point:
            if self.lying:
                u, v = -0.48 + v * 0.99 + 0.05 * u, 0.17 - u * 0.85
            else:
                u, v = u + lean * v, v - drop * min(1.0, max(0.0, v / 0.2))
            return x + self.turn * u * self.s, y - v * self.s

        self.frame: Frame = frame


def draw_figure(c: Canvas, figure: Figure, key: str) -> None:
    """Draw one character; parts worn get boxes of their own (`key/scarf`, `key/coat`).

    Args:
        c: canvas.
        figure: who, where and how.
        key: label of its box.
    """
    who, body = figure.who, _Body(figure)
    fur = FUR[who.species][who.shade]
    x, y = figure.at
    c.shadow((x, y + 0.004), 0.33 * body.s if not body.lying else 0.56 * body.s, 0.02)
    with c.part(key):
        _tail(c, body, who, fur)
        hands = _hands(figure, body)
        if not body.lying:
            _arm(c, body, who, fur, -1, hands[1])
        _legs(c, body, who, fur, figure.pose)
        _torso(c, body, who, key)
        _head(c, body, who, fur, figure.emotion)
        _extra(c, body, who, key)
        _arm(c, body, who, fur, 1, hands[0])
    if body.lying:
        fx, fy = body.frame(0.1, 1.1)
        for i in range(3):
            px, py, z = fx + 0.02 * i * body.turn, fy - 0.08 - 0.055 * i, 0.014 + 0.006 * i
            pts = [(px - z, py - z), (px + z, py - z), (px - z, py + z), (px + z, py + z)]
            if c.flip:
                pts = [(2 * px - a, b) for a, b in pts]
            c.stroke(pts, 0.007, "white", line=0.6)


def _hands(figure: Figure, body: _Body) -> tuple[Point, Point]:
    f, pose = body.frame, figure.pose
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
    near = _reach(body, figure.hands[0], 1)
    far = _reach(body, figure.hands[1], -1) if len(figure.hands) > 1 else rest[1]
    return near, far


def _reach(body: _Body, target: Point, side: int) -> Point:
    """The target, or the farthest point towards it that an arm of 0.46 heights gets to."""
    sx, sy = body.frame(0.10 * side, 0.48)
    dx, dy = target[0] - sx, target[1] - sy
    far, most = hypot(dx, dy), 0.46 * body.s
    share = min(1.0, most / far) if far else 1.0
    return sx + dx * share, sy + dy * share


def _sleeve(who: Character) -> RGB:
    colour = NAMED[who.top_colour]
    return lighter(colour, 0.72) if who.top == "overalls" else colour


def _arm(c: Canvas, body: _Body, who: Character, fur: RGB, side: int, hand: Point) -> None:
    start = body.frame(0.105 * side, 0.475)
    bulge = (0.16 if side > 0 else -0.16) * body.turn
    arm = bend(start, hand, bulge if hand[1] > start[1] else -bulge)
    shade = fur if side > 0 else darker(fur, 0.10)
    sleeve = _sleeve(who) if side > 0 else darker(_sleeve(who), 0.12)
    c.stroke(arm, 0.072 * body.s, shade)
    c.stroke(arm[:8] if who.top in ("jumper", "coat") else arm[:5], 0.088 * body.s, sleeve)
    c.oval(hand, 0.05 * body.s, 0.048 * body.s, shade)


def _legs(c: Canvas, body: _Body, who: Character, fur: RGB, pose: str) -> None:
    f, s = body.frame, body.s
    feet = {
        "walk": ((0.19, 0.02), (-0.17, 0.05)),
        "run": ((0.30, 0.10), (-0.30, 0.12)),
        "dance": ((0.20, 0.12), (-0.07, 0.0)),
        "cheer": ((0.14, 0.03), (-0.14, 0.03)),
    }.get(pose, ((0.09, 0.0), (-0.09, 0.0)))
    cloth = (
        NAMED[who.top_colour] if who.top == "overalls" else mix(NAMED["navy"], NAMED[who.top_colour], 0.25)
    )
    if who.top == "dress":
        cloth = fur
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
            path = bend(hip, foot, 0.06 * side * body.turn)
        c.stroke(path, 0.10 * s, tone)
        toe = (foot[0] + 0.035 * s * body.turn, foot[1] + 0.004) if not body.lying else foot
        c.oval(
            toe,
            0.085 * s,
            0.05 * s,
            darker(fur, 0.16) if who.species not in ("girl", "boy") else (96, 64, 56),
        )


def _torso(c: Canvas, body: _Body, who: Character, key: str) -> None:
    f, s = body.frame, body.s
    colour = NAMED[who.top_colour]
    hem = 0.12 if who.top in ("dress", "coat") else 0.19
    wide = 0.24 if who.top == "dress" else 0.19 if who.top == "coat" else 0.165
    outline = [f(-0.10, 0.56), f(-0.13, 0.42), f(-wide, hem + 0.03), f(0, hem), f(wide, hem + 0.03), f(0.13, 0.42),
               f(0.10, 0.56)]  # fmt: skip
    with c.part(f"{key}/{who.top}"):
        if who.top == "overalls":
            c.blob(outline, _sleeve(who))
            c.blob(
                [f(-0.10, 0.42), f(-0.16, 0.24), f(0, 0.18), f(0.16, 0.24), f(0.10, 0.42), f(0, 0.43)],
                colour,
                line=0.8,
            )
            for u in (-0.085, 0.085):
                c.stroke([f(u, 0.42), f(u * 0.9, 0.54)], 0.035 * s, colour, line=0)
                c.oval(f(u, 0.40), 0.018 * s, 0.018 * s, "gold", line=0)
        else:
            c.blob(outline, colour)
        mark = lighter(colour, 0.62) if who.top_colour not in ("white", "yellow") else darker(colour, 0.22)
        if who.pattern == "striped" and who.top != "overalls":
            for v, half in ((0.46, 0.10), (0.36, 0.125), (0.26, 0.15)):
                c.stroke(bend(f(-half, v), f(half, v), 0.05 * body.turn), 0.026 * s, mark, line=0)
        elif who.pattern == "dotted" and who.top != "overalls":
            for u, v in (
                (-0.07, 0.45),
                (0.06, 0.43),
                (-0.01, 0.36),
                (-0.10, 0.29),
                (0.09, 0.29),
                (0.0, 0.23),
            ):
                c.oval(f(u, v), 0.019 * s, 0.019 * s, mark, line=0)
        if who.top == "coat":
            c.stroke([f(0.02, 0.54), f(0.03, hem + 0.02)], 0.008 * s, darker(colour, 0.35), line=0)
            for v in (0.44, 0.34, 0.24):
                c.oval(f(0.055, v), 0.016 * s, 0.016 * s, "gold", line=0)


def _tail(c: Canvas, body: _Body, who: Character, fur: RGB) -> None:
    f, s = body.frame, body.s
    if who.species == "fox":
        c.blob([f(-0.10, 0.22), f(-0.26, 0.14), f(-0.42, 0.24), f(-0.46, 0.42), f(-0.36, 0.40), f(-0.28, 0.32), f(-0.12, 0.30)], fur)  # fmt: skip
        c.blob([f(-0.37, 0.28), f(-0.45, 0.30), f(-0.46, 0.43), f(-0.37, 0.40)], "cream", line=0)
    elif who.species in ("cat", "dog"):
        end = f(-0.38, 0.42) if who.species == "cat" else f(-0.30, 0.36)
        c.stroke(bend(f(-0.12, 0.24), end, 0.35 * body.turn), 0.05 * s, fur)
    elif who.species == "mouse":
        c.stroke(bend(f(-0.12, 0.22), f(-0.44, 0.16), -0.4 * body.turn), 0.022 * s, "pink", line=0.6)
    elif who.species == "rabbit":
        c.oval(f(-0.19, 0.24), 0.07 * s, 0.065 * s, "white")
    elif who.species == "elephant":
        c.stroke(bend(f(-0.13, 0.26), f(-0.28, 0.12), 0.2 * body.turn), 0.022 * s, fur)
    elif who.species == "pig":
        c.stroke([f(-0.15 - 0.018 * i, 0.27 + 0.025 * sin(i * 1.7)) for i in range(6)], 0.016 * s, fur)


def _ears(c: Canvas, body: _Body, who: Character, fur: RGB) -> None:
    f, s, kind = body.frame, body.s, who.species
    inner = mix(fur, (246, 190, 180), 0.6)
    for side in (-1, 1):
        if kind in ("fox", "cat"):
            tip = 1.06 if kind == "fox" else 1.02
            c.area([f(0.05 * side, 0.90), f(0.17 * side, tip), f(0.215 * side, 0.80)], fur)
            dark = (84, 52, 44) if kind == "fox" else inner
            c.area([f(0.10 * side, 0.92), f(0.165 * side, tip - 0.03), f(0.185 * side, 0.86)], dark, line=0)
        elif kind == "bear":
            c.oval(f(0.16 * side, 0.91), 0.07 * s, 0.07 * s, fur)
            c.oval(f(0.16 * side, 0.91), 0.038 * s, 0.038 * s, inner, line=0)
        elif kind == "rabbit":
            lean = 0.04 * side + (0.05 if side > 0 else -0.02)
            ear = [f(0.04 * side, 0.88), f(0.03 * side + lean, 1.08), f(0.08 * side + lean, 1.26), f(0.13 * side + lean, 1.08), f(0.15 * side, 0.86)]  # fmt: skip
            c.blob(ear, fur)
            c.stroke(
                [f(0.085 * side + lean * 0.5, 0.96), f(0.08 * side + lean, 1.16)], 0.04 * s, "pink", line=0
            )
        elif kind == "mouse":
            c.oval(f(0.21 * side, 0.91), 0.12 * s, 0.12 * s, fur)
            c.oval(f(0.21 * side, 0.91), 0.08 * s, 0.08 * s, "pink", line=0)
        elif kind == "pig":
            c.area([f(0.05 * side, 0.92), f(0.19 * side, 0.98), f(0.20 * side, 0.80)], darker(fur, 0.08))
        elif kind == "elephant":
            c.oval(f(0.25 * side, 0.76), 0.14 * s, 0.17 * s, fur)
            c.oval(f(0.25 * side, 0.76), 0.095 * s, 0.12 * s, inner, line=0)
        elif kind == "frog":
            c.oval(f(0.12 * side + 0.02, 0.91), 0.08 * s, 0.08 * s, fur)


def _hair(c: Canvas, body: _Body, who: Character, *, back: bool) -> None:
    f, s, hair = body.frame, body.s, HAIR[who.shade]
    if back and who.species == "girl":
        if who.shade % 2:
            for side in (-1, 1):
                c.oval(f(0.23 * side, 0.86), 0.09 * s, 0.09 * s, hair)
        else:
            for side in (-1, 1):
                c.blob([f(0.17 * side, 0.80), f(0.27 * side, 0.70), f(0.26 * side, 0.52), f(0.17 * side, 0.50), f(0.14 * side, 0.66)], hair)  # fmt: skip
        c.oval(f(-0.01, 0.76), 0.235 * s, 0.215 * s, hair)
    elif back:
        c.oval(f(-0.02, 0.79), 0.225 * s, 0.195 * s, hair)
    else:
        c.blob([f(-0.22, 0.78), f(-0.20, 0.91), f(-0.04, 0.975), f(0.14, 0.93), f(0.215, 0.80), f(0.12, 0.86), f(0.02, 0.845), f(-0.12, 0.87)], hair, line=0.7)  # fmt: skip


def _head(c: Canvas, body: _Body, who: Character, fur: RGB, mood: str) -> None:
    f, s, kind = body.frame, body.s, who.species
    human = kind in ("girl", "boy")
    if human:
        _hair(c, body, who, back=True)
    if kind in ("elephant", "fox", "cat", "bear", "rabbit", "mouse", "frog"):
        _ears(c, body, who, fur)
    if kind == "fox":
        c.blob([f(-0.17, 0.86), f(0.0, 0.92), f(0.17, 0.86), f(0.25, 0.70), f(0.13, 0.60), f(0.02, 0.555), f(-0.11, 0.60), f(-0.25, 0.70)], fur)  # fmt: skip
        c.blob([f(-0.225, 0.68), f(-0.10, 0.71), f(0.03, 0.66), f(0.15, 0.71), f(0.235, 0.68), f(0.13, 0.61), f(0.02, 0.565), f(-0.11, 0.61)], "cream", line=0)  # fmt: skip
    else:
        c.oval(
            f(0, 0.74), (0.245 if kind == "frog" else 0.22) * s, (0.175 if kind == "frog" else 0.19) * s, fur
        )
    if kind == "pig":
        _ears(c, body, who, fur)
    if human:
        c.oval(f(-0.215, 0.73), 0.035 * s, 0.04 * s, fur)
        _hair(c, body, who, back=False)
    if kind == "dog":
        for side in (-1, 1):
            c.blob([f(0.15 * side, 0.90), f(0.25 * side, 0.84), f(0.285 * side, 0.66), f(0.215 * side, 0.62), f(0.17 * side, 0.76)], darker(fur, 0.35))  # fmt: skip
        c.oval(f(0.10, 0.79), 0.075 * s, 0.08 * s, lighter(darker(fur, 0.25), 0.1), line=0)
    if kind == "cat":
        for u in (-0.05, 0.01, 0.07):
            c.stroke([f(u, 0.915), f(u + 0.004, 0.865)], 0.018 * s, darker(fur, 0.3), line=0)
    _muzzle(c, body, who, fur)
    _face(c, body, who, mood)


def _muzzle(c: Canvas, body: _Body, who: Character, fur: RGB) -> None:
    f, s, kind = body.frame, body.s, who.species
    pale = lighter(fur, 0.55)
    if kind in ("bear", "dog", "cat", "mouse", "rabbit"):
        c.oval(f(0.035, 0.665), 0.10 * s, 0.072 * s, pale, line=0)
    if kind in ("fox", "bear", "dog"):
        c.oval(f(0.04, 0.695), 0.036 * s, 0.026 * s, DARK, line=0)
        c.oval(f(0.032, 0.703), 0.010 * s, 0.007 * s, "white", line=0)
    elif kind in ("cat", "mouse", "rabbit"):
        c.oval(f(0.04, 0.692), 0.024 * s, 0.018 * s, (232, 124, 132), line=0)
        if kind != "rabbit":
            for side in (-1, 1):
                for dv in (0.0, 0.03):
                    c.stroke([f(0.04 + 0.10 * side, 0.67 - dv), f(0.04 + 0.22 * side, 0.685 - 1.6 * dv)], 0.007 * s, darker(fur, 0.4), line=0)  # fmt: skip
    elif kind == "pig":
        c.oval(f(0.045, 0.685), 0.075 * s, 0.055 * s, darker(fur, 0.10), line=0.8)
        for du in (-0.025, 0.025):
            c.oval(f(0.045 + du, 0.685), 0.011 * s, 0.018 * s, darker(fur, 0.5), line=0)
    elif kind == "elephant":
        trunk = [f(0.05, 0.70), f(0.075, 0.60), f(0.12, 0.52), f(0.20, 0.49), f(0.25, 0.53)]
        c.stroke(trunk, 0.085 * s, fur)
        for i in (1, 2, 3):
            a = trunk[i]
            c.stroke(
                [(a[0] - 0.028 * s, a[1]), (a[0] + 0.02 * s, a[1] + 0.012 * s)],
                0.008 * s,
                darker(fur, 0.25),
                line=0,
            )
    elif kind in ("girl", "boy"):
        c.oval(f(0.045, 0.705), 0.018 * s, 0.015 * s, darker(fur, 0.16), line=0)


def _face(c: Canvas, body: _Body, who: Character, mood: str) -> None:
    f, s, kind = body.frame, body.s, who.species
    ev, gap, mid = (0.905, 0.12, 0.02) if kind == "frog" else (0.765, 0.09, 0.035)
    mv = 0.645 if kind not in ("frog", "girl", "boy") else 0.66
    mv = 0.615 if kind in ("pig", "elephant") else mv
    if who.shade == 2 and kind == "cat":
        white_eyes = True
    else:
        white_eyes = kind == "frog" or mood == "surprised"
    for side in (-1, 1):
        u = mid + gap * side
        if mood in ("asleep", "proud"):
            rise = -0.03 if mood == "asleep" else 0.03
            c.stroke(
                [f(u + 0.04 * cos(a), ev + rise * sin(a)) for a in [pi * i / 8 for i in range(9)]],
                0.016 * s,
                DARK,
                line=0,
            )
            continue
        if white_eyes:
            c.oval(f(u, ev), 0.052 * s, 0.056 * s, "white", line=0.5)
        big = 0.036 if mood == "surprised" else 0.032
        look = 0.012
        c.oval(f(u + look, ev), big * s, big * 1.15 * s, DARK, line=0)
        c.oval(f(u + look - 0.012, ev + 0.014), 0.011 * s, 0.011 * s, (255, 255, 255), line=0, raw=True)
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
        c.stroke([f(m + 0.045 * cos(a), mv - 0.035 + 0.026 * sin(a)) for a in [pi * i / 8 for i in range(9)]], 0.014 * s, DARK, line=0)  # fmt: skip
    elif mood == "asleep":
        c.stroke([f(m - 0.02, mv - 0.015), f(m + 0.02, mv - 0.015)], 0.014 * s, DARK, line=0)
    else:
        half = 0.075 if kind == "frog" else 0.052
        smile = [f(m + half * cos(a), mv + 0.008 - 0.042 * sin(a)) for a in [pi * i / 10 for i in range(11)]]
        if mood in ("happy", "proud") and kind != "elephant":
            c.area(smile, (150, 52, 58), line=0)
        c.stroke(smile, 0.013 * s, DARK, line=0)


def _extra(c: Canvas, body: _Body, who: Character, key: str) -> None:
    f, s, colour = body.frame, body.s, NAMED[who.extra_colour]
    with c.part(f"{key}/{who.extra}"):
        if who.extra == "scarf":
            c.blob(
                [f(-0.05, 0.53), f(-0.14, 0.48), f(-0.13, 0.33), f(-0.06, 0.33), f(-0.04, 0.44)],
                darker(colour, 0.1),
            )
            c.stroke(bend(f(-0.13, 0.545), f(0.14, 0.545), 0.18 * body.turn), 0.085 * s, colour)
        elif who.extra == "straw hat":
            c.oval(f(0, 0.885), 0.29 * s, 0.055 * s, "sand")
            c.blob(
                [f(-0.15, 0.89), f(-0.13, 1.02), f(0, 1.05), f(0.13, 1.02), f(0.15, 0.89), f(0, 0.87)], "sand"
            )
            c.stroke(bend(f(-0.145, 0.915), f(0.145, 0.915), 0.06 * body.turn), 0.045 * s, colour, line=0)
        elif who.extra == "woolly hat":
            c.oval(f(0, 1.07), 0.055 * s, 0.055 * s, "white")
            c.blob(
                [f(-0.20, 0.87), f(-0.15, 0.99), f(0, 1.045), f(0.15, 0.99), f(0.20, 0.87), f(0, 0.875)],
                colour,
            )
            c.stroke(bend(f(-0.19, 0.87), f(0.19, 0.87), 0.06 * body.turn), 0.065 * s, lighter(colour, 0.35))
        elif who.extra == "cap":
            c.blob(
                [f(-0.19, 0.875), f(-0.14, 0.985), f(0, 1.02), f(0.14, 0.985), f(0.18, 0.875), f(0, 0.88)],
                colour,
            )
            c.blob(
                [f(0.04, 0.895), f(0.20, 0.90), f(0.33, 0.865), f(0.22, 0.85), f(0.05, 0.865)],
                darker(colour, 0.18),
            )
        elif who.extra == "bow":
            for side in (-1, 1):
                c.area([f(0.10, 0.95), f(0.10 + 0.11 * side, 1.01), f(0.10 + 0.11 * side, 0.89)], colour)
            c.oval(f(0.10, 0.95), 0.032 * s, 0.032 * s, darker(colour, 0.15))
        else:
            c.area([f(-0.13, 0.90), f(-0.16, 1.06), f(-0.07, 0.98), f(0, 1.09), f(0.07, 0.98), f(0.16, 1.06), f(0.13, 0.90)], "gold")  # fmt: skip
            for u in (-0.08, 0.0, 0.08):
                c.oval(f(u, 0.93), 0.018 * s, 0.018 * s, colour, line=0)
