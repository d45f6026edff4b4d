"""Ground truth and texts of picture-book pages: who does what, and where.

Activities (with the phases before, during and after) and the moments between them are in TOML files in this
folder. A sketch, a cast and a setting give a `DrawnScene`. Drawing, texts and scene graphs are all made from
this record, so that they agree.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np

from limner.config import read_toml

Point = tuple[float, float]

PLACES = ("kitchen", "house", "school", "forest", "beach", "street", "farm", "river", "garden", "hill")
INDOORS = frozenset({"kitchen", "house", "school"})
WEATHERS = ("sunny", "cloudy", "rainy", "windy", "snowy")
TIMES = ("morning", "noon", "sunset", "night")
SPECIES = ("fox", "bear", "rabbit", "cat", "mouse", "pig", "frog", "elephant", "dog", "girl", "boy")
TOPS = ("jumper", "dress", "overalls", "coat", "shirt")
EXTRAS = ("scarf", "straw hat", "woolly hat", "cap", "bow", "crown")
COLOURS = ("red", "blue", "green", "yellow", "purple", "pink", "orange", "white")
PATTERNS = ("plain", "striped", "dotted")
POSES = ("stand", "walk", "run", "sit", "kneel", "wave", "cheer", "dance", "sleep")
EMOTIONS = ("happy", "proud", "surprised", "sad", "worried", "asleep", "busy")
TEXTURES = ("paper", "crayon", "watercolour", "canvas", "dots")
PALETTES = ("bright", "pastel", "earthy", "retro", "cool")
PHASES = ("before", "during", "after")


def read_table(name: str) -> dict[str, Any]:
    """Read a TOML table from this folder."""
    return read_toml(Path(__file__).with_name(f"{name}.toml"))


@dataclass(frozen=True)
class Character:
    """A character, which looks the same on every page.

    Attributes:
        name: given name, such as Pip.
        species: one of SPECIES.
        female: whether texts use "she".
        shade: variant of fur, skin or hair, 0 to 3.
        top, top_colour, pattern: clothing.
        extra, extra_colour: scarf or hat.
        size: height factor, about 0.85 to 1.1.
    """

    name: str
    species: str
    female: bool
    shade: int
    top: str
    top_colour: str
    pattern: str
    extra: str
    extra_colour: str
    size: float = 1.0

    @property
    def look(self) -> str:
        """Description of the character's looks, such as "a fox in a red scarf and a blue coat"."""
        extra = f"{_a(self.extra_colour)} {self.extra}"
        top = f"{self.top_colour} overalls" if self.top == "overalls" else f"{_a(self.top_colour)} {self.top}"
        return f"{_a(self.species)} in {extra} and {top}"


def _a(word: str) -> str:
    return f"an {word}" if word[0] in "aeiou" else f"a {word}"


@dataclass(frozen=True)
class Style:
    """Drawing style of an illustrator, the same for all pages of a story.

    Attributes:
        seed: seed of grain and wobble.
        palette: one of PALETTES.
        line: outline width as a fraction of the picture's side; 0 draws none.
        ink: outline colour, RGB 0 to 255.
        texture: one of TEXTURES.
        wobble: amplitude of the wobble of lines, as a fraction of the side.
        margin: whether there is a paper margin.
    """

    seed: int
    palette: str
    line: float
    ink: tuple[int, int, int]
    texture: str
    wobble: float
    margin: bool


@dataclass(frozen=True)
class DrawnFigure:
    """A character on a page.

    Attributes:
        who: the character.
        at: point between the feet, in the unit square, y downwards.
        pose: one of POSES.
        emotion: one of EMOTIONS.
        facing: +1 to the right, -1 to the left.
        hands: points that the hands reach for, the nearer hand's first; empty for the hands of the pose.
    """

    who: Character
    at: Point
    pose: str = "stand"
    emotion: str = "happy"
    facing: int = 1
    hands: tuple[Point, ...] = ()


@dataclass(frozen=True)
class Prop:
    """An object on a page.

    Attributes:
        label: noun, a key of props.toml.
        state: its current state, or "".
        at: centre of its base, in the unit square, y downwards.
        size: scale factor.
        to: second point, for things with two ends, such as a string.
    """

    label: str
    state: str
    at: Point
    size: float = 1.0
    to: Point | None = None


@dataclass(frozen=True)
class DrawnScene:
    """Ground truth of one picture.

    Attributes:
        place, weather, time: one of PLACES, WEATHERS, TIMES each.
        things: figures and props in drawing order, back to front.
        relations: (subject, predicate, object); characters by name, objects by label.
        inside: labels of objects inside or on others, such as the cake in the oven.
        activity, phase: the activity and its phase (one of PHASES).
        tool: label of the tool in use, or "".
        doing: verb phrase of the first figure, present tense, for captions.
        flip: whether the picture is mirrored.
        zoom: magnification around (0.5, 0.8), 1 or slightly more.
    """

    place: str
    weather: str
    time: str
    things: tuple[DrawnFigure | Prop, ...]
    relations: tuple[tuple[str, str, str], ...] = ()
    inside: tuple[str, ...] = ()
    activity: str = ""
    phase: str = "during"
    tool: str = ""
    doing: str = ""
    flip: bool = False
    zoom: float = 1.0

    @cached_property
    def names(self) -> frozenset[str]:
        """Nouns for everything in the picture."""
        nouns = {self.place, *self.inside}
        for figure in self.figures:
            nouns |= {figure.who.species, figure.who.name, figure.who.extra, figure.who.top}
        for prop in self.props:
            nouns |= {prop.label, prop.state} - {""}
        return frozenset(nouns)

    @property
    def figures(self) -> tuple[DrawnFigure, ...]:
        """Characters, back to front."""
        return tuple(thing for thing in self.things if isinstance(thing, DrawnFigure))

    @property
    def props(self) -> tuple[Prop, ...]:
        """Objects, back to front."""
        return tuple(thing for thing in self.things if isinstance(thing, Prop))

    @property
    def outdoors(self) -> bool:
        """Whether the place is outdoors."""
        return self.place not in INDOORS


THING = re.compile(r"([a-z ]+?)((?::[a-z]+)*) ([\d.]+) ([\d.]+)(?: ([\d.]+))?(?: (?:hands|to)=(\S+))?")
LINES = ("action", "quantity", "deictic", "story", "subjective")


@dataclass(frozen=True)
class Sketch:
    """One drawing of a tale, without the cast.

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
    """An activity (with phases before, during and after) or a moment.

    Attributes:
        name: key in its table.
        role: activity, opening, middle or closing.
        friend: whether a second character is part of it.
        places, weathers, times: possible settings.
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
    """Place, weather and time: one of PLACES, WEATHERS and TIMES each."""

    place: str
    weather: str
    time: str


def _tale(name: str, raw: Mapping[str, Any]) -> Tale:
    outdoors = raw.get("outdoors")
    places = raw.get("places") or [p for p in PLACES if outdoors is None or outdoors == (p not in INDOORS)]
    drawn = {"during": raw} if "draw" in raw else {phase: raw[phase] for phase in PHASES}
    sketches = {}
    for phase, sketch in drawn.items():
        tool = sketch.get("tool", raw.get("tool", ""))
        if not any(re.match(rf"{tool}[: ]", line) for line in sketch["draw"]):
            tool = ""
        sketches[phase] = Sketch(
            sketch["draw"],
            sketch["links"],
            tuple(sketch.get("inside", ())),
            sketch["doing"],
            sketch["says"],
            tool,
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
    match = THING.fullmatch(line)
    if match is None:
        raise AssertionError(f"picture-book table: cannot read {line!r}")
    label, states, x, y, size, points = match.groups()
    state = states.lstrip(":").split(":") if states else []
    at = (float(x), float(y))
    pairs = (pair.split(",") for pair in (points or "").split("/") if pair)
    reach = tuple((float(x), float(y)) for x, y in pairs)
    if label in ("hero", "friend"):
        facing = -1 if label == "friend" else 1
        return DrawnFigure(cast[label], at, state[0], state[1], facing, reach)
    return Prop(label, state[0] if state else "", at, float(size or 1), reach[0] if reach else None)


def room_for_friend(tale: Tale, phase: str) -> bool:
    """Whether a friend who watches fits at the left edge without covering anything."""
    if tale.role != "activity":
        return False
    for line in tale.sketches[phase].draw:
        match = THING.fullmatch(line)
        if match is None or float(match[3]) < 0.30:
            return False
        # raised arms need the space
        if ":cheer" in line and float(match[3]) < 0.33:
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
    """Compose the scene of one page.

    Args:
        tale: activity or moment.
        phase: before, during or after; moments have only "during".
        setting: place, weather and time.
        hero: main character.
        friend: second character; in an activity it watches from the left edge.
        flip: whether to mirror the picture.
        zoom: magnification; 1 is used if a friend watches, so that it is not cut off.
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
    """Split text such as "hero looking at oven" into subject, predicate and object, by the longest labels."""
    labels = {*names, *inside, *(thing.label for thing in things if isinstance(thing, Prop))}
    start = max((label for label in labels if text.startswith(label + " ")), key=len)
    end = max((label for label in labels if text.endswith(" " + label)), key=len)
    return names.get(start, start), text[len(start) + 1 : -len(end) - 1], names.get(end, end)


def with_hero(scene: DrawnScene, old: Character, new: Character) -> DrawnScene:
    """The same scene with `old` replaced by another character."""
    things = tuple(
        replace(thing, who=new) if isinstance(thing, DrawnFigure) and thing.who == old else thing
        for thing in scene.things
    )
    relations = tuple(
        (new.name if s == old.name else s, p, new.name if o == old.name else o) for s, p, o in scene.relations
    )
    return replace(scene, things=things, relations=relations)


def without(scene: DrawnScene, label: str) -> DrawnScene:
    """The same scene without one object (by label) or character (by name)."""
    things = tuple(
        thing
        for thing in scene.things
        if label != (thing.who.name if isinstance(thing, DrawnFigure) else thing.label)
    )
    relations = tuple(link for link in scene.relations if label not in (link[0], link[2]))
    return replace(scene, things=things, relations=relations)


CITE = (
    "expansion",
    "image_needed",
    "elaboration_t",
    "elaboration_i_tool",
    "temporal_before",
    "temporal_after",
    "temporal_during",
)
CLUE = ("visible", "subjective", "action", "story", "meta", "irrelevant")
MARK = re.compile(r"\[([^\]|]+)(?:\|([^\]]+))?\]")
EXTRA_KINDS = ("story", "subjective", "quantity", "deictic", "meta", "watcher", "none")
EXTRA_SHARES = (0.16, 0.16, 0.13, 0.09, 0.04, 0.08, 0.34)


@dataclass(frozen=True)
class PageText:
    """The text of a page and its relations to the picture.

    Attributes:
        text: one to three sentences.
        kinds: kind of each sentence: says, action, story, subjective, quantity, deictic, meta, irrelevant,
            watcher.
        mentions: labels, states and names mentioned.
        relations: CITE and CLUE relation → whether it holds.
    """

    text: str
    kinds: tuple[str, ...]
    mentions: frozenset[str]
    relations: dict[str, bool]


@cache
def wordings() -> Mapping[str, Any]:
    """Wordings for all stories: `lines` by kind, `medium` by texture, `caption` by place, time, weather."""
    return read_table("wording")


def caption(scene: DrawnScene) -> str:
    """Literal description of a picture: who (by looks), what, where and when."""
    doing, _, watcher = scene.doing.partition(", while ")
    phrases = wordings()["caption"]
    words = [scene.figures[-1].who.look, doing, phrases[scene.place], phrases[scene.time]]
    if scene.outdoors:
        words.append(phrases[scene.weather])
    line = " ".join(word for word in words if word)
    return f"{line}, while {watcher}" if watcher else line


def plain(marked: str) -> tuple[str, frozenset[str]]:
    """Remove the markup from a sentence.

    Args:
        marked: text with ``[noun]`` and ``[words|noun]``.
    Returns:
        The plain text, and the nouns.
    """
    return MARK.sub(r"\1", marked), frozenset(m[2] or m[1] for m in MARK.finditer(marked))


def fill(line: str, hero: Character, friend: Character | None, *, how: str) -> str:
    """Insert the characters into a line; the result still has markup.

    Args:
        line: wording from a table.
        hero: character for {H}, {name} and the pronouns.
        friend: character for {friend} and {kind}.
        how: form of {H}: full, name, kind or pronoun.
    """
    he, his, him = ("she", "her", "her") if hero.female else ("he", "his", "him")
    full = f"[{hero.name}] the [{hero.species}]"
    subject = {
        "full": full,
        "name": f"[{hero.name}]",
        "kind": f"The little [{hero.species}]",
        "pronoun": he.capitalize(),
    }[how]
    return line.format(
        H=subject,
        name=full if how == "full" else f"[{hero.name}]",
        he=he,
        his=his,
        him=him,
        He=he.capitalize(),
        His=his.capitalize(),
        friend=f"[{friend.name}]" if friend else "somebody",
        kind=friend.species if friend else "stranger",
    )


def relations_of(scene: DrawnScene, kinds: Sequence[str], mentions: frozenset[str]) -> dict[str, bool]:
    """Relations that hold between a text and the picture on its page.

    Args:
        scene: scene of the picture.
        kinds: kinds of the sentences.
        mentions: entities that the text mentions.
    Returns:
        Relation → whether it holds. *visible*: the text describes what can be seen and mentions nothing else.
        *temporal_before*: the picture shows the preparation of what the text reports (i < t);
        *temporal_after*: its result (i > t); *temporal_during*: the same moment (i = t).
        *elaboration_i_tool*: the picture shows a tool that the text does not mention.
    """
    says, does = "says" in kinds, "action" in kinds
    phase = scene.phase
    about = says or does or "quantity" in kinds or "deictic" in kinds
    return {
        "expansion": about,
        "image_needed": "deictic" in kinds,
        "elaboration_t": "quantity" in kinds,
        "elaboration_i_tool": about and bool(scene.tool) and scene.tool not in mentions,
        "temporal_before": does and phase == "before",
        "temporal_after": does and phase == "after",
        "temporal_during": (does and phase == "during") or (says and not does),
        "visible": (says or (does and phase == "during")) and mentions <= scene.names,
        "subjective": "subjective" in kinds,
        "action": does,
        "story": "story" in kinds,
        "meta": "meta" in kinds,
        "irrelevant": "irrelevant" in kinds,
    }


def write_page(
    scene: DrawnScene,
    tale: Tale,
    hero: Character,
    friend: Character | None,
    *,
    style: Style,
    rng: np.random.Generator,
    first: bool,
    used: set[str],
) -> PageText:
    """Write the text of one page.

    Args:
        scene: scene of its picture.
        tale: activity or moment, with its wordings.
        hero: main character.
        friend: second character of the story, who need not be in this picture.
        style: drawing style, for sentences about how the picture was made.
        rng: random generator.
        first: whether this is the first page, which gives the hero's full name.
        used: wordings already used in the story, which are avoided if possible; those of this page are added.
    """
    sketch = tale.sketches[scene.phase]
    draw = float(rng.random())
    lead = (
        ["says"] if draw < 0.36 else ["action"] if draw < 0.78 else ["says", "action"] if draw < 0.90 else []
    )
    if first and not lead:
        lead = ["says"]
    if scene.phase == "after":
        # the activity precedes what the picture shows
        lead = lead[::-1]
    extra = str(rng.choice(EXTRA_KINDS, p=EXTRA_SHARES))
    if not lead:
        kinds = [str(rng.choice(["story", "subjective", "meta", "irrelevant"], p=[0.45, 0.15, 0.12, 0.28]))]
    else:
        kinds = [*lead, extra] if extra != "none" else lead
    pools = {
        "says": sketch.says,
        **tale.lines,
        **wordings()["lines"],
    }
    sentences, spoken, mentions = [], [], frozenset[str]()
    for i, kind in enumerate(kinds):
        if not pools[kind] or (kind == "watcher" and friend is None):
            continue
        fresh = [line for line in pools[kind] if line not in used] or list(pools[kind])
        line = str(rng.choice(fresh))
        used.add(line)
        # pronouns need an antecedent: the first sentence about the hero uses the name
        how = "full" if first and i == 0 else "pronoun"
        if i == 0 and not first:
            how = str(rng.choice(["name", "kind", "pronoun", "full"], p=[0.42, 0.18, 0.25, 0.15]))
        if kind == "meta":
            line = line.replace("{medium}", wordings()["medium"][style.texture])
        text, named = plain(fill(line, hero, friend, how=how))
        sentences.append(text)
        spoken.append(kind)
        mentions |= named
    return PageText(" ".join(sentences), tuple(spoken), mentions, relations_of(scene, spoken, mentions))
