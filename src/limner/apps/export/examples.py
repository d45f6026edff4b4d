"""Pages of examples: pictures with texts in named groups, to look at what a model or a measure does.

Self-contained as all pages are. It chooses no example and opens no run.
"""

import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from limner.apps.export.targets import check_place, whole
from limner.apps.export.templates import environment, policy
from limner.apps.export.thumbnails import Copy
from limner.errors import ConfigError

if TYPE_CHECKING:
    from PIL.Image import Image

SIDE_PX = 360
TEXT_CHARACTERS = 280


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
    style = own.get_template("examples.css").render()
    parts = own.get_template("examples.html").generate(
        title=title,
        note=note,
        groups=groups,
        style=Markup(style),  # noqa: S704 - our own file, no part of it comes from a user
        policy=policy(style),
        most=TEXT_CHARACTERS,
    )
    with whole(out) as draft, draft.open("w", encoding="utf-8", newline="\n") as file:
        for part in parts:
            file.write(part)


def copy_of(picture: "Image", side_px: int = SIDE_PX) -> Copy:
    """A copy of at most so many pixels a side, without metadata; smaller ones keep their size."""
    small = picture.convert("RGB")
    small.thumbnail((side_px, side_px))
    small.info = {}
    out = io.BytesIO()
    small.save(out, "WEBP", quality=80, method=4)
    return Copy(out.getvalue(), "image/webp", *small.size)


def alt(text: str) -> str:
    """Alternative text: what is known of a picture is the text it came with."""
    words = " ".join(text.split())
    return f"picture with the text: {words[:TEXT_CHARACTERS]}" if words else "picture without a text"
