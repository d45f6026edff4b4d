"""The page of strips: a story's sentences in a row, below them what every run found, and the true pictures.

Self-contained as all pages are. It opens no run and chooses no story.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

from limner.apps.export.examples import TEXT_CHARACTERS, alt, copy_of
from limner.apps.export.targets import check_place, whole
from limner.apps.export.templates import environment, policy
from limner.errors import ConfigError

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
        ConfigError: `out` is no .html file.
        DataError, MissingError: it cannot be written.
    """
    from markupsafe import Markup

    if out.suffix.lower() not in (".html", ".htm"):
        raise ConfigError(f"figure: {out}: this one is a page of pictures and texts; name an .html file")
    check_place(out, overwrite=True)
    own = environment()
    own.filters["copy"] = copy_of
    own.filters["alt"] = alt
    style = own.get_template("examples.css").render() + own.get_template("strips.css").render()
    parts = own.get_template("strips.html").generate(
        title=title,
        note=note,
        stories=stories,
        style=Markup(style),  # noqa: S704 - our own file, no part of it comes from a user
        policy=policy(style),
        most=TEXT_CHARACTERS,
    )
    with whole(out) as draft, draft.open("w", encoding="utf-8", newline="\n") as file:
        for part in parts:
            file.write(part)
