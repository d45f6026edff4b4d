"""What the pages of figures share: where they may stand, copies of pictures, and writing them piece by piece.

Self-contained as all pages are. A figure's own module says what is shown; its template fills ``figure.html``.
"""

import io
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


def check_page(out: Path) -> None:
    """See whether a page can be written, before anything is computed.

    Raises:
        ConfigError: `out` is no .html file.
        DataError, MissingError: it cannot be written.
    """
    if out.suffix.lower() not in (".html", ".htm"):
        raise ConfigError(f"figure: {out}: this one is a page of pictures and texts; name an .html file")
    check_place(out, overwrite=True)


def write_page(
    out: Path, name: str, *, title: str, note: str, styles: tuple[str, ...], **shown: object
) -> None:
    """Write a page; what is shown is drawn one after the other, so that few pictures are in memory.

    Args:
        out: an .html file; an existing one is replaced.
        name: of the template.
        title: of the page.
        note: below it: what is shown and how it was chosen.
        styles: names of the style sheets, in order.
        **shown: what the template names; may be drawn as it is read.
    Raises:
        ConfigError, DataError, MissingError: see `check_page`.
    """
    from markupsafe import Markup

    check_page(out)
    own = environment()
    own.filters["copy"] = copy_of
    own.filters["alt"] = alt
    style = "".join(own.get_template(f"{sheet}.css").render() for sheet in styles)
    parts = own.get_template(f"{name}.html").generate(
        title=title,
        note=note,
        style=Markup(style),  # noqa: S704 - our own file, no part of it comes from a user
        policy=policy(style),
        most_characters=TEXT_CHARACTERS,
        **shown,
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
