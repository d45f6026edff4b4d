"""Pictures that a text shows itself, matched with those of a library by content."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

from limner.errors import DataError
from limner.library.library import Library
from limner.pictures.decode import decode, read_file
from limner.pictures.hashes import phash
from limner.pictures.metadata import Words, embedded, merge, words_of_name
from limner.records import Caption, Picture, Story


@dataclass(frozen=True)
class Shown:
    """Pictures that a text shows itself.

    Attributes:
        inside: 0-based step → id of a picture of the library.
        outside: 0-based step → a picture that is no part of the library.
        notes: pictures named but not found, one line each.
    """

    inside: dict[int, str] = field(default_factory=dict)
    outside: dict[int, Picture] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


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
            picture = _picture_from(Path(ref.path), ref.alt)
            try:
                inside[position] = library.picture(picture.id).id
            except DataError:
                outside[position] = picture
        if len(step.pictures) > 1:
            notes.append(f"step {position + 1} shows {len(step.pictures)} pictures; the first is kept")
    return Shown(inside, outside, tuple(notes))


def _picture_from(path: Path, alt: str) -> Picture:
    """The record of a file that is no part of a library; words of the text go before its metadata."""
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
