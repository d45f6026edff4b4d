"""What every reader makes of a text: a document of blocks in reading order, and what it left out.

All formats become the same blocks (`limner.records.Block`), so that one structure and one segmentation serve
them all.
"""

import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain, pairwise
from typing import Literal

from limner.errors import DataError
from limner.records import Block, Mark, PictureRef, Step

Direction = Literal["ltr", "rtl"]
Find = Callable[[str, str], PictureRef]
"""Function from the target and alt text of a picture to its reference, see `limner.text.picture_files`."""
MAX_BLOCKS = 60_000
CREDITS = ("title", "language", "author", "illustrator", "license")
"""Metadata that a text may state, named as in `Document` and `limner.records.Story`."""


@dataclass(frozen=True)
class LeftOut:
    """A part of a text that is in no step.

    Attributes:
        reason: supplies and asides stand around the steps; page furniture (menus, forms, hidden text, running
            heads) is in no block.
        text: its text; "" for pictures alone.
        pictures: targets of its pictures.
    """

    reason: Literal["supplies", "aside", "page furniture"]
    text: str = ""
    pictures: tuple[str, ...] = ()


@dataclass
class Document:
    """A text as read, before it is divided into steps.

    Attributes:
        blocks: in reading order.
        declared: steps that the source itself declares (schema.org, JSON), each with its run of blocks; they
            take priority over any other division.
        title, language, author, illustrator, license: as stated, or "".
        cover: the picture that its metadata names as the one that stands for it; None for none.
        direction: as stated, or None.
        markdown: the source, if it is Markdown.
        left_out: page furniture.
        notes: choices made while reading, one sentence each.
    """

    blocks: list[Block] = field(default_factory=list)
    declared: tuple[Step, ...] = ()
    title: str = ""
    language: str = ""
    cover: PictureRef | None = None
    direction: Direction | None = None
    author: str = ""
    illustrator: str = ""
    license: str = ""
    markdown: str = ""
    left_out: list[LeftOut] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def check_count(count: int, where: str, most: int = MAX_BLOCKS) -> None:
    """Reject a text with too many paragraphs, items, sentences or declared steps.

    Raises:
        DataError: there are too many.
    """
    if count > most:
        raise DataError(f"{where}: has more than {most:,} paragraphs; expected a readable text; split it")


def letters(text: str) -> str:
    """Letters and digits, without case, spaces and punctuation, to compare texts."""
    return "".join(sign for sign in text.casefold() if sign.isalnum())


def marker(block: Block) -> str:
    """Marker of a list item in plain text, "- " or "3. "; "" for other blocks."""
    if block.kind != "item":
        return ""
    return "- " if block.number is None else f"{block.number}. "


def text_of(blocks: Sequence[Block]) -> str:
    """Plain text of the blocks of one step: paragraphs apart, items of a list on lines with their markers."""
    return "".join(chain.from_iterable(texts_of(blocks)))


def texts_of(blocks: Sequence[Block]) -> list[tuple[str, str]]:
    """For each block of a step, what precedes its words in `text_of`, and its words.

    An item that begins the step loses its marker; pictures, marks, breaks and asides inside it add no text.
    """
    made: list[tuple[str, str]] = []
    begun = False
    base = blocks[0].depth if blocks else 0
    for block in blocks:
        if not block.text or block.role == "aside" or (block.kind == "wanted" and len(blocks) > 1):
            made.append(("", ""))
            continue
        words = block.text if block.kind in ("code", "table") else block.text.strip()
        before = "\n\n" if begun else ""
        if block.kind == "item" and (begun or block is not blocks[0]):
            indent = "  " * max(0, block.depth - base - 1)
            mark = indent + marker(block)
            before = ("\n" if begun else "") + mark
            words = words.replace("\n", "\n" + " " * len(mark))
        made.append((before, words))
        begun = True
    return made


def pictures_of(blocks: Iterable[Block]) -> tuple[PictureRef, ...]:
    """All pictures of blocks, in order."""
    return tuple(picture for block in blocks for picture in block.pictures)


def cut(block: Block, start: int, end: int | None = None) -> Block:
    """Part of a block between two characters of its text, with the marks that lie in it."""
    end = len(block.text) if end is None else end
    marks = tuple(
        mark.model_copy(update={"start": max(mark.start, start) - start, "end": min(mark.end, end) - start})
        for mark in block.marks
        if mark.start < end and mark.end > start
    )
    return block.model_copy(update={"text": block.text[start:end], "marks": marks})


def strip(block: Block) -> Block:
    """A block without white space around its text."""
    start = len(block.text) - len(block.text.lstrip())
    return cut(block, start, max(start, len(block.text.rstrip())))


def changed(block: Block, **changes: object) -> Block:
    """A block with some other attributes."""
    return block.model_copy(update=changes)


def divided(block: Block, starts: Sequence[int]) -> list[Block]:
    """A block cut before each of some characters, without empty pieces; the last keeps its pictures.

    Pieces that are whole lines of a source have their own lines.
    """
    kept: list[Block] = []
    first, after = block.lines or (0, 0)
    lined = after - first == block.text.count("\n") + 1
    for start, end in pairwise([0, *starts, len(block.text)]):
        piece = strip(cut(block, start, end))
        if not piece.text:
            continue
        skipped = block.text[:start] + block.text[start:end].partition(piece.text)[0]
        line = first + skipped.count("\n")
        lines = (line, line + piece.text.count("\n") + 1) if lined else block.lines
        kept.append(changed(piece, pictures=(), lines=lines))
    return [*kept[:-1], changed(kept[-1], pictures=block.pictures)] if kept else [block]


def is_marked(text: str, marks: Iterable[Mark], kind: str) -> bool:
    """Whether all letters and digits of a text have a mark."""
    end = 0
    for mark in sorted((mark for mark in marks if mark.kind == kind), key=lambda mark: mark.start):
        if any(map(str.isalnum, text[end : mark.start])):
            return False
        end = max(end, mark.end)
    return any(map(str.isalnum, text[:end])) and not any(map(str.isalnum, text[end:]))


def writing_direction(texts: Iterable[str]) -> Direction:
    """Direction of most letters by their Unicode bidirectional class (L against R and AL).

    Args:
        texts: any number of texts; a tie, or no letters, counts as left to right.
    """
    classes: Counter[str] = Counter()
    for letter, count in Counter(chain.from_iterable(texts)).items():
        classes[unicodedata.bidirectional(letter)] += count
    return "rtl" if classes["R"] + classes["AL"] > classes["L"] else "ltr"
