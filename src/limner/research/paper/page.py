"""Self-contained HTML pages of pictures and texts, without scripts or external files."""

import io
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from markupsafe import Markup
from PIL import Image

from limner.errors import ConfigError, DataError
from limner.export import check_place
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
        ConfigError: `out` is not an .html file.
        DataError, MissingError: the file cannot be written.
    """
    if out.suffix.lower() not in (".html", ".htm"):
        raise ConfigError(f"figure: {out}: this figure is an HTML page; name an .html file")
    check_place(out, overwrite=True)


STYLES = {
    "examples": ("examples",),
    "scenes": ("scenes",),
    "strips": ("examples", "strips"),
}
"""Template of a page → its style sheets, in order."""


def write_page(out: Path, name: str, title: str, note: str, **shown: object) -> None:
    """Write a page incrementally, so that only a few pictures are in memory.

    Args:
        out: the .html file; an existing one is replaced.
        name: name of the template, one of `STYLES`: ``examples`` shows groups (see `Group`), ``scenes``
            scenes, and ``strips`` stories.
        title: title of the page.
        note: text below the title that says what is shown and how it was chosen.
        **shown: values for the template; may be generators.
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
        style=Markup(style),  # noqa: S704 - our own file, without user input
        policy=policy(style),
        most_characters=TEXT_CHARACTERS,
        **shown,
    )
    with replacing(out) as draft, draft.open("w", encoding="utf-8", newline="\n") as file:
        for part in parts:
            file.write(part)


def shown_picture(path: Path | bytes, side_px: int = SIDE_PX) -> Image.Image:
    """Read a picture, upright RGB, decoded at a scale suitable for `side_px` pixels a side.

    Raises:
        DataError: the file cannot be read.
    """
    file = os.path.abspath(os.fsencode(path))  # noqa: PTH100
    try:
        return decode(read_file(file).data, side_px, os.fsdecode(os.path.splitext(file)[1]).lower()).rgb  # noqa: PTH122
    except PictureError as error:
        raise DataError(f"{display(file)}: {error}; restore the file") from error


def copy_of(picture: Image.Image, side_px: int = SIDE_PX) -> Copy:
    """A copy with at most `side_px` pixels a side, without metadata; smaller pictures keep their size."""
    small = picture.convert("RGB")
    small.thumbnail((side_px, side_px))
    small.info = {}
    out = io.BytesIO()
    small.save(out, "WEBP", quality=80, method=4)
    return Copy(out.getvalue(), "image/webp", *small.size)


def alt(text: str) -> str:
    """Alt text of a picture, from the text of its pair."""
    words = " ".join(text.split())
    return f"picture with the text: {words[:TEXT_CHARACTERS]}" if words else "picture without a text"


@dataclass(frozen=True)
class Example:
    """One picture with a text, or either.

    Attributes:
        picture: the picture, shown whole; None for only a text.
        text: the text; a long one is shortened, and a click shows all of it.
        facts: lines below it.
        right: whether it is the right one, which is marked.
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
        examples: examples in order.
        level: 2 for a group, 3 for a subgroup of the previous one.
        lead: the query, shown large below the title.
    """

    title: str
    examples: Sequence[Example]
    level: int = 2
    lead: Example | None = None


def spread(members: Sequence[int], count: int) -> list[int]:
    """At most `count` members at regular intervals."""
    kept = min(count, len(members))
    return [members[int((2 * part + 1) * len(members) / (2 * kept))] for part in range(kept)]


def in_parts(
    parts: Mapping[str, Sequence[Member]], whole: str, count: int, shown: Callable[[Member], Iterable[Group]]
) -> Iterator[Group]:
    """Yield the parts of a whole, each with its title and size, and some of its members.

    Args:
        parts: title → members.
        whole: total number of members, as text.
        count: number of members shown per part, at regular intervals.
        shown: member → its groups.
    """
    for title, members in parts.items():
        yield Group(f"{title}: {len(members)} of {whole}", ())
        for place in spread(range(len(members)), count):
            yield from shown(members[place])
