"""Pictures that a text shows itself: those of the library by id, all others as records of their own.

It only finds them; `limner.apps.illustrator` keeps them on the storyboard.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from limner.data.records import Picture, Story
from limner.errors import DataError

if TYPE_CHECKING:
    from limner.retrieval.library import Library


@dataclass(frozen=True)
class Shown:
    """Pictures that a text shows itself.

    Attributes:
        inside: 0-based step → id of a picture of the library.
        outside: 0-based step → a picture that is no part of the library.
        notes: pictures named but not at hand, one line each.
    """

    inside: dict[int, str]
    outside: dict[int, Picture]
    notes: tuple[str, ...]


def shown_by(story: Story, library: Library) -> Shown:
    """Match the first picture of each step with the library, by content.

    Raises:
        DataError: a picture is there but cannot be opened.
    """
    inside: dict[int, str] = {}
    outside: dict[int, Picture] = {}
    notes = []
    for position, step in enumerate(story.steps):
        for ref in step.pictures[:1]:
            if ref.path is None:
                notes.append(
                    f"step {position + 1} shows {ref.target}, which is not a file on this machine;"
                    " a picture of the library is chosen instead"
                )
                continue
            picture = picture_from(Path(ref.path), ref.alt)
            try:
                inside[position] = library.picture(picture.id).id
            except DataError:
                outside[position] = picture
        if len(step.pictures) > 1:
            notes.append(f"step {position + 1} shows {len(step.pictures)} pictures; the first is kept")
    return Shown(inside, outside, tuple(notes))


def picture_from(path: Path, alt: str = "") -> Picture:
    """The record of a single file that is no part of a library.

    Args:
        path: a picture.
        alt: words the text gives it, which go before those of its metadata.
    Raises:
        DataError: it cannot be opened as a picture.
    """
    from limner.data.hashes import phash
    from limner.data.images import decode, read_file
    from limner.data.metadata import embedded
    from limner.data.records import Caption
    from limner.data.sidecars import words_of_name
    from limner.data.words import Words, merge

    raw = os.fsencode(path)
    file = read_file(raw)
    decoded = decode(file.data, suffix=path.suffix.lower())
    written = Words(captions=(Caption(text=alt, source="metadata"),) if alt.strip() else ())
    words = merge((written, embedded(decoded.loaded), words_of_name(raw)))
    return Picture(
        id=file.sha256,
        paths=(str(path),),
        width_px=decoded.width_px,
        height_px=decoded.height_px,
        format=decoded.format,
        size_bytes=file.size,
        phash=f"{phash(decoded.rgb):016x}",
        group=file.sha256,
        taken=words.taken,
        captions=words.captions,
        credit=words.credit,
        license=words.license,
    )
