"""Finds the pictures that a text already shows in a library, by content."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

from limner.errors import DataError, counted
from limner.pictures.decode import PictureError, decode, read_file
from limner.pictures.hashes import phash
from limner.pictures.metadata import Words, embedded, merge, words_of_name
from limner.records import Caption, Picture, PictureRef, Step, Story
from limner.store.library import PictureStore
from limner.text.document import WEB


@dataclass(frozen=True)
class GivenPictures:
    """Pictures that a text already shows.

    Attributes:
        inside: id of the picture if it is in the library, by index of the step.
        outside: record of the picture if it is not in the library, by index of the step.
        notes: pictures that the text names but that cannot be shown, and further pictures of a step, one line
            each.
        story: the text, in which pictures that cannot be shown have the reason.
    """

    inside: dict[int, str] = field(default_factory=dict)
    outside: dict[int, Picture] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    story: Story | None = None


def match_given_pictures(story: Story, library: PictureStore) -> GivenPictures:
    """Look up the first usable picture of each step in the library, by content.

    Args:
        story: the story as read; files that it may not show have no path.
        library: the library.
    """
    inside: dict[int, str] = {}
    outside: dict[int, Picture] = {}
    notes: list[str] = []
    steps = list(story.steps)
    for position, step in enumerate(story.steps):
        found, steps[position] = _looked_at(step)
        for picture in found[:1]:
            try:
                inside[position] = library.picture(picture.id).id
            except DataError:
                outside[position] = picture
        instead = "the next one is kept" if found else "a picture of the library is chosen instead"
        for ref in steps[position].pictures:
            if ref.path is None:
                told = f"which {ref.problem}; {instead}"
                notes.append(f"step {position + 1} shows {ref.target}, {told}")
        if len(found) > 1:
            notes.append(f"step {position + 1} shows {counted(len(found), 'picture')}; the first is kept")
    return GivenPictures(inside, outside, tuple(notes), story.model_copy(update={"steps": tuple(steps)}))


def _looked_at(step: Step) -> tuple[list[Picture], Step]:
    """Pictures of a step that can be opened, and the step with the errors of the others."""
    found: list[Picture] = []
    refs: list[PictureRef] = []
    for ref in step.pictures:
        known: dict[str, str | None] = {"path": None, "problem": ref.problem or WEB}
        if ref.path is not None:
            try:
                found.append(_picture_from(Path(ref.path), ref.alt))
                known = {"sha256": found[-1].id}
            except PictureError as error:
                known["problem"] = f"is no picture: {error}"
        refs.append(ref.model_copy(update=known))
    return found, step.model_copy(update={"pictures": tuple(refs)}) if refs else step


def _picture_from(path: Path, alt: str) -> Picture:
    """Record of a file that is not in the library; captions from the text come before those from its
    metadata.
    """
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
