"""Finds the pictures that a text already shows in a library, by content."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import sha256
from pathlib import Path

from limner.errors import DataError
from limner.pictures.decode import PictureError, decode, read_file
from limner.pictures.hashes import phash
from limner.pictures.metadata import Words, embedded, merge, words_of_name
from limner.records import Caption, Picture, PictureRef, Story
from limner.store import Store
from limner.text.blocks import changed, pictures_of


@dataclass(frozen=True)
class GivenPictures:
    """Pictures that a text already shows. A step that has some gets no other picture.

    Attributes:
        inside: id of the first picture of a step, if it is in the library, by index of the step.
        outside: record of the first picture of a step, if it is not in the library, by index of the step.
        missing: reason why none of the pictures of a step can be shown, by index of the step.
        others: ids of all other pictures of the library that the text shows, which no other step repeats.
        notes: pictures that the text names but that cannot be shown, one line each.
        story: the text, in which these have the reason.
    """

    inside: dict[int, str] = field(default_factory=dict)
    outside: dict[int, Picture] = field(default_factory=dict)
    missing: dict[int, str] = field(default_factory=dict)
    others: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    story: Story | None = None


def match_given_pictures(story: Story, library: Store) -> GivenPictures:
    """Look up the first usable picture of each step in the library, by content.

    Args:
        story: the story as read; files that it may not show have no path.
        library: the library.
    """
    inside: dict[int, str] = {}
    outside: dict[int, Picture] = {}
    missing: dict[int, str] = {}
    notes: list[str] = []
    opened: dict[PictureRef, PictureRef] = {}
    for position, step in enumerate(story.steps):
        for ref in step.pictures:
            picture, opened[ref] = _opened(ref)
            if picture is None:
                missing.setdefault(position, f"{ref.target}, which {opened[ref].problem}")
                notes.append(f"step {position + 1} shows {ref.target}, which {opened[ref].problem}")
            elif position not in {*inside, *outside}:
                try:
                    inside[position] = library.pictures([picture.id])[0].id
                except DataError:
                    outside[position] = picture
    missing = {position: why for position, why in missing.items() if position not in {*inside, *outside}}

    def known(refs: Iterable[PictureRef]) -> tuple[PictureRef, ...]:
        return tuple(opened.get(ref, ref) for ref in refs)

    steps = tuple(step.model_copy(update={"pictures": known(step.pictures)}) for step in story.steps)
    blocks = tuple(changed(block, pictures=known(block.pictures)) for block in story.blocks)
    story = story.model_copy(update={"steps": steps, "blocks": blocks})
    shown = {ref.sha256 for ref in pictures_of(blocks) if ref.sha256} - {*inside.values()}
    others = tuple(sorted(digest for digest in shown if _is_in(library, digest)))
    return GivenPictures(inside, outside, missing, others, tuple(notes), story)


def _is_in(library: Store, digest: str) -> bool:
    try:
        library.pictures([digest])
    except DataError:
        return False
    return True


def _opened(ref: PictureRef) -> tuple[Picture | None, PictureRef]:
    """Record of a picture that can be opened, and its reference with the hash of the file, or the error."""
    if ref.path is None and ref.data is None:
        return None, ref if ref.problem else ref.model_copy(update={"problem": "is not there"})
    try:
        picture = (
            picture_in(ref.path, ref.alt, ref.sha256)
            if ref.path
            else _record(ref.data or b"", ref.target, ref.alt)
        )
    except PictureError as error:
        return None, ref.model_copy(update={"path": None, "data": None, "problem": f"is no picture: {error}"})
    return picture, ref.model_copy(update={"sha256": picture.id})


@lru_cache(maxsize=256)
def picture_in(path: str, alt: str = "", sha256: str | None = None) -> Picture:
    """Record of a picture file that is not in the library; it is read again if its hash is another one.

    Raises:
        PictureError: it cannot be read.
    """
    return _record(read_file(os.fsencode(path)).data, path, alt)


def _record(data: bytes, path: str, alt: str) -> Picture:
    """Record of a picture; captions from the text come before those from its metadata."""
    decoded = decode(data, suffix=Path(path).suffix.lower())
    written = Words(captions=(Caption(text=alt, source="metadata"),) if alt.strip() else ())
    words = merge((written, embedded(decoded.loaded), words_of_name(os.fsencode(path))))
    digest = sha256(data).hexdigest()
    return Picture(
        id=digest,
        paths=(path,),
        width_px=decoded.width_px,
        height_px=decoded.height_px,
        format=decoded.format,
        size_bytes=len(data),
        phash=f"{phash(decoded.rgb):016x}",
        group=digest,
        taken=words.taken,
        taken_from=words.taken_from,
        camera=words.camera,
        captions=words.captions,
        credit=words.credit,
        license=words.license,
    )
