"""Pages of examples: pictures with texts in named groups, to look at what a model or a measure does.

Self-contained as all pages are. It chooses no example and opens no run.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from limner.apps.export.figure_page import write_page

if TYPE_CHECKING:
    from PIL.Image import Image


@dataclass(frozen=True)
class Example:
    """One picture with a text, or either.

    Attributes:
        picture: shown whole; None for a text alone.
        text: shown up to a length; the rest opens on a click.
        facts: what is said of it, a line each.
        right: whether it is the sought one, which is then marked.
    """

    picture: "Image | None"
    text: str
    facts: tuple[str, ...] = ()
    right: bool = False


@dataclass(frozen=True)
class Group:
    """Examples in a row.

    Attributes:
        title: of the row.
        examples: in order.
        level: 2 for a group of its own, 3 for one below the group before it.
        lead: shown large beneath the title: the query.
    """

    title: str
    examples: Sequence[Example]
    level: int = 2
    lead: Example | None = None


def write_examples(out: Path, title: str, note: str, groups: Iterable[Group]) -> None:
    """Write the page; groups are drawn one after the other, so that few pictures are in memory.

    Args:
        out: an .html file; an existing one is replaced.
        title: of the page.
        note: what is shown and how it was chosen.
        groups: in order.
    Raises:
        ConfigError, DataError, MissingError: see `check_page`.
    """
    write_page(out, "examples", title=title, note=note, styles=("examples",), groups=groups)
