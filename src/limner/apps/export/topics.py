"""The page of a latent topic: its path through the steps of one text, and what every step found.

Self-contained as all pages are. It opens no run and computes nothing.
"""

import base64
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from limner.apps.export.examples import Example
from limner.apps.export.figure_page import write_page

if TYPE_CHECKING:
    from PIL.Image import Image


@dataclass(frozen=True)
class Measured:
    """A number of a step, drawn as a bar.

    Attributes:
        name: what it is.
        text: the number with its unit.
        share: length of the bar, 0 to 1.
        usual: where the mark of the usual number lies, 0 to 1.
    """

    name: str
    text: str
    share: float
    usual: float


@dataclass(frozen=True)
class TopicStep:
    """One step.

    Attributes:
        number: from 1.
        text: shown up to a length; the rest opens on a click.
        measured: its numbers.
        found: the best pictures in order.
        own: its own picture, None where none is known.
        remarks: what else is to be known of it.
    """

    number: int
    text: str
    measured: tuple[Measured, ...]
    found: tuple[Example, ...]
    own: "Image | None"
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True)
class Topic:
    """What stands above the steps.

    Attributes:
        title: of the page.
        note: what is shown and how to read it.
        path: the drawing, an SVG file.
        path_alt: the same in words.
        caption: below it.
    """

    title: str
    note: str
    path: bytes
    path_alt: str
    caption: str


def write_topic(out: Path, topic: Topic, steps: Iterable[TopicStep]) -> None:
    """Write the page; steps are drawn one after the other, so that few pictures are in memory.

    Args:
        out: an .html file; an existing one is replaced.
        topic: what stands above.
        steps: in order.
    Raises:
        ConfigError, DataError, MissingError: see `check_page`.
    """
    write_page(
        out,
        "topic",
        title=topic.title,
        note=topic.note,
        styles=("examples", "topic"),
        drawing=f"data:image/svg+xml;base64,{base64.b64encode(topic.path).decode('ascii')}",
        path_alt=topic.path_alt,
        caption=topic.caption,
        steps=steps,
    )
