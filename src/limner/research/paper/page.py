"""Pages of pictures and texts that hold all they show: nothing is fetched and nothing runs."""

import io
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from markupsafe import Markup
from PIL import Image

from limner.errors import ConfigError, DataError
from limner.export.plan import check_place
from limner.files import display, replacing
from limner.pictures.decode import PictureError, decode, read_file
from limner.pictures.thumbnails import Copy
from limner.templates import environment, policy

SIDE_PX = 360
TEXT_CHARACTERS = 280
Member = TypeVar("Member")


def check_page(out: Path) -> None:
    """Check that a page can be written, before anything is computed.

    Raises:
        ConfigError: `out` is no .html file.
        DataError, MissingError: it cannot be written.
    """
    if out.suffix.lower() not in (".html", ".htm"):
        raise ConfigError(f"figure: {out}: this one is a page of pictures and texts; name an .html file")
    check_place(out, overwrite=True)


STYLES = {
    "examples": ("examples",),
    "scenes": ("scenes",),
    "strips": ("examples", "strips"),
}
"""Template of a page → its style sheets, in order."""


def write_page(out: Path, name: str, title: str, note: str, **shown: object) -> None:
    """Write a page; what is shown is drawn one after the other, so that few pictures are in memory.

    Args:
        out: an .html file; an existing one is replaced.
        name: name of the template, one of `STYLES`: ``examples`` shows groups (of `Group`), ``scenes`` scenes
            and ``strips`` stories.
        title: title of the page.
        note: below it: what is shown and how it was chosen.
        **shown: what the template names; may be drawn as it is read.
    Raises:
        ConfigError, DataError, MissingError: see `check_page`.
    """
    check_page(out)
    own = environment()
    own.filters["copy"] = copy_of
    own.filters["alt"] = alt
    style = "".join(own.get_template(f"{sheet}.css").render() for sheet in STYLES[name])
    parts = own.get_template(f"{name}.html").generate(
        title=title,
        note=note,
        style=Markup(style),  # noqa: S704 - our own file, no part of it comes from a user
        policy=policy(style),
        most_characters=TEXT_CHARACTERS,
        **shown,
    )
    with replacing(out) as draft, draft.open("w", encoding="utf-8", newline="\n") as file:
        for part in parts:
            file.write(part)


def shown_picture(path: Path | bytes, side_px: int = SIDE_PX) -> Image.Image:
    """The picture of a file, upright RGB, at a scale fit for showing it with so many pixels a side.

    Raises:
        DataError: it does not open.
    """
    file = os.path.abspath(os.fsencode(path))  # noqa: PTH100
    try:
        return decode(read_file(file).data, side_px, os.fsdecode(os.path.splitext(file)[1]).lower()).rgb  # noqa: PTH122
    except PictureError as error:
        raise DataError(f"{display(file)}: {error}; restore the file") from error


def copy_of(picture: Image.Image, side_px: int = SIDE_PX) -> Copy:
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


@dataclass(frozen=True)
class Example:
    """One picture with a text, or either.

    Attributes:
        picture: shown whole; None for a text alone.
        text: shown up to a length; the rest opens on a click.
        facts: what is said of it, a line each.
        right: whether it is the sought one, which is then marked.
    """

    picture: Image.Image | None
    text: str
    facts: tuple[str, ...] = ()
    right: bool = False


@dataclass(frozen=True)
class Group:
    """Examples in a row.

    Attributes:
        title: title of the row.
        examples: in order.
        level: 2 for a group of its own, 3 for one below the group before it.
        lead: shown large beneath the title: the query.
    """

    title: str
    examples: Sequence[Example]
    level: int = 2
    lead: Example | None = None


def spread(members: Sequence[int], count: int) -> list[int]:
    """At most so many members, evenly over all of them: the middle of every equal part."""
    kept = min(count, len(members))
    return [members[int((2 * part + 1) * len(members) / (2 * kept))] for part in range(kept)]


def in_parts(
    parts: Mapping[str, Sequence[Member]], whole: str, count: int, shown: Callable[[Member], Iterable[Group]]
) -> Iterator[Group]:
    """Parts of a whole, each under its title and size, with some of its members.

    Args:
        parts: title → members.
        whole: how many there are in all, in words.
        count: members shown of each part, evenly spread, so that nobody chooses them.
        shown: a member as groups.
    """
    for title, members in parts.items():
        yield Group(f"{title}: {len(members)} of {whole}", ())
        for place in spread(range(len(members)), count):
            yield from shown(members[place])
