"""What a study can be made from: names that can be drawn, and what stands behind a name once it is drawn.

The two are apart so that a sample is drawn from names alone, before anybody looks at what a system found. It
reads nothing itself.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Union

if TYPE_CHECKING:
    from PIL.Image import Image

PictureSource = Union[Path, "Image"]
"""A file, or a picture that lies in none because it was drawn."""

PAIR_LETTERS = ("A", "B")
TICK_LETTERS = ("A", "B", "C")
ALL = "all"


@dataclass(frozen=True)
class Proposal:
    """One text and what every system shows for it.

    Attributes:
        source: its id in the data.
        text: the words.
        pictures: letter → picture.
        context: all texts of its story in order; empty without one.
        position: place in the story, from 0.
        cluster: what it belongs to, such as a story; "" for nothing.
    """

    source: str
    text: str
    pictures: Mapping[str, PictureSource]
    context: tuple[str, ...] = ()
    position: int = 0
    cluster: str = ""


@dataclass(frozen=True)
class Material:
    """A population and how to look up its members.

    Attributes:
        unit: what a name stands for: one item, or a sequence of items that are shown together.
        strata: name → names of all that can be drawn.
        systems: stratum → letter → name of the system.
        look_up: (stratum, name) → one proposal of an item, those of a sequence in their order.
        notes: lines for the person.
    """

    unit: Literal["item", "sequence"]
    strata: Mapping[str, Sequence[str]]
    systems: Mapping[str, Mapping[str, str]]
    look_up: Callable[[str, str], Sequence[Proposal]]
    notes: tuple[str, ...] = field(default=())
