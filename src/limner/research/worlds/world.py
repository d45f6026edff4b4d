"""True content of a picture-book picture: characters, place, objects and actions.

Drawing, wording and scene graphs all read these records, so that they cannot disagree.
It draws nothing, says nothing and chooses nothing.
"""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

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
    """One of the tables beside this file."""
    return read_toml(Path(__file__).with_name(f"{name}.toml"))


@dataclass(frozen=True)
class Character:
    """One member of a cast: its look is the same on every page.

    Attributes:
        name: given name, such as Pip.
        species: one of SPECIES.
        female: whether texts say she.
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
        """Words that tell this character from others: a fox in a red scarf and a blue coat."""
        extra = f"{_a(self.extra_colour)} {self.extra}"
        top = f"{self.top_colour} overalls" if self.top == "overalls" else f"{_a(self.top_colour)} {self.top}"
        return f"{_a(self.species)} in {extra} and {top}"


def _a(word: str) -> str:
    return f"an {word}" if word[0] in "aeiou" else f"a {word}"


@dataclass(frozen=True)
class Style:
    """The hand of an illustrator: the same for all pages of a story.

    Attributes:
        seed: fixes grain and the wobble of the lines.
        palette: one of PALETTES.
        line: outline width as a fraction of the picture's side; 0 draws none.
        ink: outline colour, RGB 0 to 255.
        texture: one of TEXTURES.
        wobble: how far lines stray, as a fraction of the side.
        margin: whether the paper shows around the picture.
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
        at: middle of the feet, unit square, y down.
        pose: one of POSES.
        emotion: one of EMOTIONS.
        facing: +1 to the right, -1 to the left.
        hands: where the hands reach, nearest first; empty means hanging.
    """

    who: Character
    at: Point
    pose: str = "stand"
    emotion: str = "happy"
    facing: int = 1
    hands: tuple[Point, ...] = ()


@dataclass(frozen=True)
class Prop:
    """A thing on a page.

    Attributes:
        label: noun, a key of props.toml.
        state: what it looks like now, or "".
        at: middle of its base, unit square, y down.
        size: factor.
        to: second point, for things with two ends such as a string.
    """

    label: str
    state: str
    at: Point
    size: float = 1.0
    to: Point | None = None


@dataclass(frozen=True)
class DrawnScene:
    """Everything that is true of one picture.

    Attributes:
        place, weather, time: of PLACES, WEATHERS, TIMES.
        things: figures and props in drawing order, back to front.
        relations: (subject, predicate, object); characters by name, things by label.
        inside: labels of things seen inside or on others, such as the cake in the oven.
        activity, phase: what is being done and how far it has come (one of PHASES).
        tool: label of the tool in use, or "".
        doing: verb phrase of the first figure, present tense, for captions.
        flip: whether the picture is mirrored.
        zoom: magnification around the middle of the ground, 1 or a little more.
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
        """The nouns that are true of the picture."""
        found = {self.place, *self.inside}
        for figure in self.figures:
            found |= {figure.who.species, figure.who.name, figure.who.extra, figure.who.top}
        for prop in self.props:
            found |= {prop.label, prop.state} - {""}
        return frozenset(found)

    @property
    def figures(self) -> tuple[DrawnFigure, ...]:
        """Characters, back to front."""
        return tuple(thing for thing in self.things if isinstance(thing, DrawnFigure))

    @property
    def props(self) -> tuple[Prop, ...]:
        """Things, back to front."""
        return tuple(thing for thing in self.things if isinstance(thing, Prop))

    @property
    def outdoors(self) -> bool:
        """Whether sky is overhead."""
        return self.place not in INDOORS
