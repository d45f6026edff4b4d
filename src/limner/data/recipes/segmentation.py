"""Segments with exactly one picture each, made from the pieces of a page.

The merge rules stand alone, because they run after the pictures are judged: a picture that turns out to be
an icon must not close a segment. It reads no page and opens no picture.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from limner.data.documents import Block
from limner.data.records import PictureRef, Step
from limner.data.sections import text_of


@dataclass(frozen=True)
class Piece:
    """Words of a page with the pictures that belong to them.

    Attributes:
        text: may be "" for pictures alone.
        pictures: in order; may be none.
    """

    text: str
    pictures: tuple[PictureRef, ...] = ()


@dataclass(frozen=True)
class Segment:
    """Words with their one picture."""

    text: str
    picture: PictureRef


@dataclass(frozen=True)
class Removed:
    """A part of a page that is in no segment.

    Attributes:
        rule: why, in a few words; the counts of a report are by it.
        text: its words, if any.
        picture: its picture's target, if any.
    """

    rule: str
    text: str = ""
    picture: str = ""


def pieces_of_steps(steps: Iterable[Step], title: str = "") -> list[Piece]:
    """One piece per explicit step, a heading in front of the first step under it.

    Args:
        steps: in order.
        title: of the page; as a heading of steps it says nothing of any.
    """
    pieces, last = [], title
    for step in steps:
        heading = step.title if step.title not in (title, last) else ""
        pieces.append(Piece("\n".join(filter(None, (heading, step.text))), step.pictures))
        last = step.title
    return pieces


def pieces_of_blocks(blocks: Sequence[Block]) -> list[Piece]:
    """Pieces of a text without explicit steps: each picture closes what stands since the one before.

    Source: SPEC 1.3.7, rule 2.
    """
    pieces: list[Piece] = []
    since: list[Block] = []
    for block in blocks:
        if block.kind == "break":
            continue
        since.append(block)
        if block.pictures:
            pieces.append(Piece(text_of(since), block.pictures))
            since = []
    if since:
        pieces.append(Piece(text_of(since)))
    return pieces


def one_picture_each(pieces: Iterable[Piece]) -> tuple[list[Segment], list[Removed]]:
    """Merge pieces until each has exactly one picture.

    A piece without a picture goes to the next one, a trailing one to the previous; of several pictures the
    first is kept; a picture without words is dropped.

    Returns:
        Segments in order, and what was dropped.
    Source: SPEC 1.3.7, rule 2.
    """
    segments: list[Segment] = []
    removed: list[Removed] = []
    waiting: list[str] = []
    for piece in pieces:
        text = piece.text.strip()
        if text:
            waiting.append(text)
        if not piece.pictures:
            continue
        if not waiting:
            removed += [_lost("picture without words", one) for one in piece.pictures]
            continue
        first, *more = piece.pictures
        segments.append(Segment("\n\n".join(waiting), first))
        removed += [_lost("further picture of a step", one) for one in more]
        waiting = []
    if waiting and segments:
        last = segments[-1]
        segments[-1] = Segment("\n\n".join([last.text, *waiting]), last.picture)
    elif waiting:
        removed.append(Removed("words without any picture", "\n\n".join(waiting)))
    return segments, removed


def _lost(rule: Literal["picture without words", "further picture of a step"], one: PictureRef) -> Removed:
    return Removed(rule, one.alt, one.target)
