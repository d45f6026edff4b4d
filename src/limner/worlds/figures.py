"""Characters: animals and children with limbs, clothes and poses.

A figure is built from its feet up in its own units (1 = its height); hands reach for points of the page, so
that what a text says is held is held. Heads are in `faces`; it knows nothing of places and tales.
"""

from math import hypot, sin

from limner.worlds.canvas import NAMED, RGB, Canvas, bend, darker, lighter, mix
from limner.worlds.faces import FUR, Body, draw_head
from limner.worlds.world import Character, Figure, Point


def draw_figure(c: Canvas, figure: Figure, key: str) -> None:
    """Draw one character; parts worn get boxes of their own (`key/scarf`, `key/coat`).

    Args:
        c: canvas.
        figure: who, where and how.
        key: label of its box.
    """
    who, body = figure.who, Body(figure)
    fur = FUR[who.species][who.shade]
    x, y = figure.at
    c.shadow((x, y + 0.004), 0.33 * body.s if not body.lying else 0.56 * body.s, 0.02)
    with c.part(key):
        _tail(c, body, who, fur)
        hands = _hands(figure, body)
        if not body.lying:
            _arm(c, body, who, fur, side=-1, hand=hands[1])
        _legs(c, body, who, fur, figure.pose)
        _torso(c, body, who, key)
        draw_head(c, body, who, fur, figure.emotion)
        _extra(c, body, who, key)
        _arm(c, body, who, fur, side=1, hand=hands[0])
    if body.lying:
        fx, fy = body.frame(0.1, 1.1)
        for i in range(3):
            px, py, z = fx + 0.02 * i * body.turn, fy - 0.08 - 0.055 * i, 0.014 + 0.006 * i
            pts = [(px - z, py - z), (px + z, py - z), (px - z, py + z), (px + z, py + z)]
            if c.flip:
                pts = [(2 * px - a, b) for a, b in pts]
            c.stroke(pts, 0.007, "white", line=0.6)


def _hands(figure: Figure, body: Body) -> tuple[Point, Point]:
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


def _reach(body: Body, target: Point, side: int) -> Point:
    """The target, or the farthest point towards it that an arm of 0.46 heights gets to."""
    sx, sy = body.frame(0.10 * side, 0.48)
    dx, dy = target[0] - sx, target[1] - sy
    far, most = hypot(dx, dy), 0.46 * body.s
    share = min(1.0, most / far) if far else 1.0
    return sx + dx * share, sy + dy * share


def _sleeve(who: Character) -> RGB:
    colour = NAMED[who.top_colour]
    return lighter(colour, 0.72) if who.top == "overalls" else colour


def _arm(c: Canvas, body: Body, who: Character, fur: RGB, *, side: int, hand: Point) -> None:
    start = body.frame(0.105 * side, 0.475)
    bulge = (0.16 if side > 0 else -0.16) * body.turn
    arm = bend(start, hand, bulge if hand[1] > start[1] else -bulge)
    shade = fur if side > 0 else darker(fur, 0.10)
    sleeve = _sleeve(who) if side > 0 else darker(_sleeve(who), 0.12)
    c.stroke(arm, 0.072 * body.s, shade)
    c.stroke(arm[:8] if who.top in ("jumper", "coat") else arm[:5], 0.088 * body.s, sleeve)
    c.oval(hand, 0.05 * body.s, 0.048 * body.s, shade)


def _legs(c: Canvas, body: Body, who: Character, fur: RGB, pose: str) -> None:
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


def _torso(c: Canvas, body: Body, who: Character, key: str) -> None:
    f, s = body.frame, body.s
    colour = NAMED[who.top_colour]
    hem = 0.12 if who.top in ("dress", "coat") else 0.19
    wide = 0.24 if who.top == "dress" else 0.19 if who.top == "coat" else 0.165
    outline = [
        f(-0.10, 0.56),
        f(-0.13, 0.42),
        f(-wide, hem + 0.03),
        f(0, hem),
        f(wide, hem + 0.03),
        f(0.13, 0.42),
        f(0.10, 0.56),
    ]
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


def _tail(c: Canvas, body: Body, who: Character, fur: RGB) -> None:
    f, s = body.frame, body.s
    if who.species == "fox":
        c.blob(
            [
                f(-0.10, 0.22),
                f(-0.26, 0.14),
                f(-0.42, 0.24),
                f(-0.46, 0.42),
                f(-0.36, 0.40),
                f(-0.28, 0.32),
                f(-0.12, 0.30),
            ],
            fur,
        )
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


def _extra(c: Canvas, body: Body, who: Character, key: str) -> None:
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
            c.area(
                [
                    f(-0.13, 0.90),
                    f(-0.16, 1.06),
                    f(-0.07, 0.98),
                    f(0, 1.09),
                    f(0.07, 0.98),
                    f(0.16, 1.06),
                    f(0.13, 0.90),
                ],
                "gold",
            )
            for u in (-0.08, 0.0, 0.08):
                c.oval(f(u, 0.93), 0.018 * s, 0.018 * s, colour, line=0)
