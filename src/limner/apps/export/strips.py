"""The page of strips: a story's sentences in a row, below them what every run found, and the true pictures.

Self-contained as all pages are. It opens no run and chooses no story.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

from limner.apps.export.figure_page import write_page

if TYPE_CHECKING:
    from PIL.Image import Image

Mark = Literal["right", "story", "wrong", "true"]
MARKS: tuple[Mark, ...] = get_args(Mark)


@dataclass(frozen=True)
class Shown:
    """One picture of a strip.

    Attributes:
        picture: shown whole.
        text: of the pair it comes from.
        mark: the step's own, another of its story, neither, or the truth itself, which is not marked.
        fact: said below it.
    """

    picture: "Image"
    text: str
    mark: Mark
    fact: str


@dataclass(frozen=True)
class Strips:
    """One story.

    Attributes:
        title: its name.
        note: what is shown of it.
        texts: T sentences.
        rows: name of a run, or of the truth, and T pictures.
    """

    title: str
    note: str
    texts: Sequence[str]
    rows: Sequence[tuple[str, Sequence[Shown]]]


def write_strips(out: Path, title: str, note: str, stories: Iterable[Strips]) -> None:
    """Write the page; stories are drawn one after the other, so that few pictures are in memory.

    Args:
        out: an .html file; an existing one is replaced.
        title: of the page.
        note: what is shown and how it was chosen.
        stories: in order.
    Raises:
        ConfigError, DataError, MissingError: see `check_page`.
    """
    write_page(out, "strips", title=title, note=note, styles=("examples", "strips"), stories=stories)
