"""What can happen: activities with a before, a during and an after, and moments between them.

Reads the two tables beside it; turns a sketch, a cast and a setting into a `DrawnScene`. It writes no text.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from limner.research.worlds.world import (
    INDOORS,
    PHASES,
    PLACES,
    TIMES,
    WEATHERS,
    Character,
    DrawnFigure,
    DrawnScene,
    Prop,
    read_table,
)

THING = re.compile(r"([a-z ]+?)((?::[a-z]+)*) ([\d.]+) ([\d.]+)(?: ([\d.]+))?(?: (?:hands|to)=(\S+))?")
LINES = ("action", "quantity", "deictic", "story", "subjective")


@dataclass(frozen=True)
class Sketch:
    """One drawing of a tale, without its cast.

    Attributes:
        draw, links, inside, doing, says, tool: as explained in tales.toml.
    """

    draw: Sequence[str]
    links: Sequence[str]
    inside: tuple[str, ...]
    doing: str
    says: Sequence[str]
    tool: str


@dataclass(frozen=True)
class Tale:
    """An activity or a moment.

    Attributes:
        name: key in its table.
        role: activity, opening, middle or closing.
        friend: whether a second character is part of it.
        places, weathers, times: where and when it may happen.
        sketches: phase → drawing; a moment has only "during".
        lines: kind of line (one of LINES) → wordings.
    """

    name: str
    role: str
    friend: bool
    places: tuple[str, ...]
    weathers: tuple[str, ...]
    times: tuple[str, ...]
    sketches: Mapping[str, Sketch]
    lines: Mapping[str, Sequence[str]]


@dataclass(frozen=True)
class Setting:
    """Where and when: one of PLACES, WEATHERS and TIMES each."""

    place: str
    weather: str
    time: str


def _tale(name: str, raw: Mapping[str, Any]) -> Tale:
    outdoors = raw.get("outdoors")
    places = raw.get("places") or [p for p in PLACES if outdoors is None or outdoors == (p not in INDOORS)]
    drawn = {"during": raw} if "draw" in raw else {phase: raw[phase] for phase in PHASES}
    sketches = {}
    for phase, one in drawn.items():
        tool = one.get("tool", raw.get("tool", ""))
        if not any(re.match(rf"{tool}[: ]", line) for line in one["draw"]):
            tool = ""
        sketches[phase] = Sketch(
            one["draw"], one["links"], tuple(one.get("inside", ())), one["doing"], one["says"], tool
        )
    return Tale(
        name,
        raw.get("role", "activity"),
        raw.get("friend", False),
        tuple(places),
        tuple(raw.get("weathers", WEATHERS)),
        tuple(raw.get("times", TIMES)),
        sketches,
        {kind: raw.get(kind, ()) for kind in LINES},
    )


@cache
def tales() -> Mapping[str, Tale]:
    """All activities and moments by name, in the order of their tables."""
    return {
        name: _tale(name, raw) for table in ("tales", "moments") for name, raw in read_table(table).items()
    }


def _thing(line: str, cast: Mapping[str, Character]) -> DrawnFigure | Prop:
    found = THING.fullmatch(line)
    if found is None:
        raise AssertionError(f"picture-book table: cannot read {line!r}")
    label, states, x, y, size, points = found.groups()
    state = states.lstrip(":").split(":") if states else []
    at = (float(x), float(y))
    pairs = (pair.split(",") for pair in (points or "").split("/") if pair)
    reach = tuple((float(x), float(y)) for x, y in pairs)
    if label in ("hero", "friend"):
        facing = -1 if label == "friend" else 1
        return DrawnFigure(cast[label], at, state[0], state[1], facing, reach)
    return Prop(label, state[0] if state else "", at, float(size or 1), reach[0] if reach else None)


def room_for_friend(tale: Tale, phase: str) -> bool:
    """Whether a watching friend fits at the left edge without hiding anything."""
    if tale.role != "activity":
        return False
    for line in tale.sketches[phase].draw:
        found = THING.fullmatch(line)
        if found is None or float(found[3]) < 0.30:
            return False
        # A raised pair of arms needs the room itself.
        if ":cheer" in line and float(found[3]) < 0.33:
            return False
    return True


def compose(
    tale: Tale,
    phase: str,
    setting: Setting,
    hero: Character,
    friend: Character | None = None,
    *,
    flip: bool = False,
    zoom: float = 1.0,
) -> DrawnScene:
    """The scene of one page.

    Args:
        tale: what happens.
        phase: before, during or after; moments have only "during".
        setting: where and when.
        hero: who does it.
        friend: who else is there; in an activity it watches from the left edge.
        flip: mirror the picture.
        zoom: magnification; 1 when a friend watches, who would be cut off.
    Returns:
        The scene, true in every detail that is drawn.
    """
    sketch = tale.sketches[phase]
    cast = {"hero": hero} | ({"friend": friend} if friend else {})
    names = {role: who.name for role, who in cast.items()}
    things = [_thing(line, cast) for line in sketch.draw]
    links = [_link(link, names, things, sketch.inside) for link in sketch.links]
    doing = sketch.doing
    if friend and tale.friend:
        doing = f"{doing} {friend.look}"
    elif friend:
        things.insert(0, DrawnFigure(friend, (0.115, 0.885), "stand", "happy", 1))
        links.append((friend.name, "watching", hero.name))
        doing = f"{doing}, while {friend.look} watches"
        zoom = 1.0
    return DrawnScene(
        setting.place,
        setting.weather,
        setting.time,
        tuple(things),
        tuple(links),
        sketch.inside,
        tale.name,
        phase,
        sketch.tool,
        doing,
        flip,
        zoom,
    )


def _link(
    text: str, names: Mapping[str, str], things: list[DrawnFigure | Prop], inside: tuple[str, ...]
) -> tuple[str, str, str]:
    """Split "hero looking at oven" by the longest labels at both ends."""
    labels = {*names, *inside, *(thing.label for thing in things if isinstance(thing, Prop))}
    start = max((label for label in labels if text.startswith(label + " ")), key=len)
    end = max((label for label in labels if text.endswith(" " + label)), key=len)
    return names.get(start, start), text[len(start) + 1 : -len(end) - 1], names.get(end, end)


def with_hero(scene: DrawnScene, old: Character, new: Character) -> DrawnScene:
    """The same scene with another character in the place of `old`."""
    things = tuple(
        replace(thing, who=new) if isinstance(thing, DrawnFigure) and thing.who == old else thing
        for thing in scene.things
    )
    relations = tuple(
        (new.name if s == old.name else s, p, new.name if o == old.name else o) for s, p, o in scene.relations
    )
    return replace(scene, things=things, relations=relations)


def without(scene: DrawnScene, label: str) -> DrawnScene:
    """The same scene without one thing: a prop by label or a character by name."""
    things = tuple(
        thing
        for thing in scene.things
        if label != (thing.who.name if isinstance(thing, DrawnFigure) else thing.label)
    )
    relations = tuple(link for link in scene.relations if label not in (link[0], link[2]))
    return replace(scene, things=things, relations=relations)
