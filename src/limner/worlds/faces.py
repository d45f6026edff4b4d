"""Heads: ears, hair, muzzles, and moods in eyes and mouth.

Drawn in the units of the figure they sit on (1 = its height), whose frame they share. No limbs and no
clothes.
"""

from collections.abc import Callable
from math import cos, pi, sin

from limner.worlds.canvas import RGB, Canvas, darker, lighter, mix
from limner.worlds.world import Character, Figure, Point

Frame = Callable[[float, float], Point]


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


class Body:
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


def draw_head(c: Canvas, body: Body, who: Character, fur: RGB, mood: str) -> None:
    """Draw a head on its body.

    Args:
        c: canvas.
        body: the frame it shares.
        who: species and shade.
        fur: colour of fur or skin.
        mood: one of EMOTIONS.
    """
    f, s, kind = body.frame, body.s, who.species
    human = kind in ("girl", "boy")
    if human:
        _hair(c, body, who, back=True)
    if kind in ("elephant", "fox", "cat", "bear", "rabbit", "mouse", "frog"):
        _ears(c, body, who, fur)
    if kind == "fox":
        c.blob(
            [
                f(-0.17, 0.86),
                f(0.0, 0.92),
                f(0.17, 0.86),
                f(0.25, 0.70),
                f(0.13, 0.60),
                f(0.02, 0.555),
                f(-0.11, 0.60),
                f(-0.25, 0.70),
            ],
            fur,
        )
        c.blob(
            [
                f(-0.225, 0.68),
                f(-0.10, 0.71),
                f(0.03, 0.66),
                f(0.15, 0.71),
                f(0.235, 0.68),
                f(0.13, 0.61),
                f(0.02, 0.565),
                f(-0.11, 0.61),
            ],
            "cream",
            line=0,
        )
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
            c.blob(
                [
                    f(0.15 * side, 0.90),
                    f(0.25 * side, 0.84),
                    f(0.285 * side, 0.66),
                    f(0.215 * side, 0.62),
                    f(0.17 * side, 0.76),
                ],
                darker(fur, 0.35),
            )
        c.oval(f(0.10, 0.79), 0.075 * s, 0.08 * s, lighter(darker(fur, 0.25), 0.1), line=0)
    if kind == "cat":
        for u in (-0.05, 0.01, 0.07):
            c.stroke([f(u, 0.915), f(u + 0.004, 0.865)], 0.018 * s, darker(fur, 0.3), line=0)
    _muzzle(c, body, who, fur)
    _face(c, body, who, mood)


def _ears(c: Canvas, body: Body, who: Character, fur: RGB) -> None:
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
            ear = [
                f(0.04 * side, 0.88),
                f(0.03 * side + lean, 1.08),
                f(0.08 * side + lean, 1.26),
                f(0.13 * side + lean, 1.08),
                f(0.15 * side, 0.86),
            ]
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


def _hair(c: Canvas, body: Body, who: Character, *, back: bool) -> None:
    f, s, hair = body.frame, body.s, HAIR[who.shade]
    if back and who.species == "girl":
        if who.shade % 2:
            for side in (-1, 1):
                c.oval(f(0.23 * side, 0.86), 0.09 * s, 0.09 * s, hair)
        else:
            for side in (-1, 1):
                c.blob(
                    [
                        f(0.17 * side, 0.80),
                        f(0.27 * side, 0.70),
                        f(0.26 * side, 0.52),
                        f(0.17 * side, 0.50),
                        f(0.14 * side, 0.66),
                    ],
                    hair,
                )
        c.oval(f(-0.01, 0.76), 0.235 * s, 0.215 * s, hair)
    elif back:
        c.oval(f(-0.02, 0.79), 0.225 * s, 0.195 * s, hair)
    else:
        c.blob(
            [
                f(-0.22, 0.78),
                f(-0.20, 0.91),
                f(-0.04, 0.975),
                f(0.14, 0.93),
                f(0.215, 0.80),
                f(0.12, 0.86),
                f(0.02, 0.845),
                f(-0.12, 0.87),
            ],
            hair,
            line=0.7,
        )


def _muzzle(c: Canvas, body: Body, who: Character, fur: RGB) -> None:
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
                    c.stroke(
                        [f(0.04 + 0.10 * side, 0.67 - dv), f(0.04 + 0.22 * side, 0.685 - 1.6 * dv)],
                        0.007 * s,
                        darker(fur, 0.4),
                        line=0,
                    )
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


def _face(c: Canvas, body: Body, who: Character, mood: str) -> None:
    f, s, kind = body.frame, body.s, who.species
    ev, gap, mid = (0.905, 0.12, 0.02) if kind == "frog" else (0.765, 0.09, 0.035)
    mv = 0.645 if kind not in ("frog", "girl", "boy") else 0.66
    mv = 0.615 if kind in ("pig", "elephant") else mv
    # Black eyes would drown in black fur.
    white_eyes = kind == "frog" or mood == "surprised" or (kind == "cat" and who.shade == 2)
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
        c.stroke(
            [f(m + 0.045 * cos(a), mv - 0.035 + 0.026 * sin(a)) for a in [pi * i / 8 for i in range(9)]],
            0.014 * s,
            DARK,
            line=0,
        )
    elif mood == "asleep":
        c.stroke([f(m - 0.02, mv - 0.015), f(m + 0.02, mv - 0.015)], 0.014 * s, DARK, line=0)
    else:
        half = 0.075 if kind == "frog" else 0.052
        smile = [f(m + half * cos(a), mv + 0.008 - 0.042 * sin(a)) for a in [pi * i / 10 for i in range(11)]]
        if mood in ("happy", "proud") and kind != "elephant":
            c.area(smile, (150, 52, 58), line=0)
        c.stroke(smile, 0.013 * s, DARK, line=0)
