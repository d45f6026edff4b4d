"""The output of every text reader, a document of blocks in reading order; and the check of the files that it
may show.

All formats become the same document, so that texts are divided in one way; it also lists what was left out. A
text may come from a stranger, and the files that it names are exported with it. It may therefore show only
files below its own folder, and those that the user allows.
"""

import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Literal
from urllib.parse import unquote, urlsplit
from urllib.request import url2pathname

from limner.errors import DataError
from limner.files import as_on_disk, sha256_of
from limner.records import Between, Part, PictureRef, Step, Story

Direction = Literal["ltr", "rtl"]
MAX_BLOCKS = 60_000
ASIDE, LINES = "data-limner-aside", "data-limner-lines"
"""Attributes of HTML made from Markdown: kind of an element outside the running text, and source lines."""
CREDITS = ("title", "language", "author", "illustrator", "license")
"""Metadata that a text may state, named as in `Document` and `limner.records.Story`."""


@dataclass(frozen=True)
class LeftOut:
    """A part of the text that is in no step.

    Attributes:
        reason: why, in a few words, such as ``ingredients`` or ``navigation``.
        text: its text; "" for a picture alone.
        pictures: targets of its pictures.
        kept: whether the story still contains it, between its steps.
    """

    reason: str
    text: str = ""
    pictures: tuple[str, ...] = ()
    kept: bool = False


@dataclass(frozen=True)
class Block:
    """One heading, paragraph, list item, table, piece of code or page break.

    Attributes:
        kind: its kind; ``verbatim`` is code or a table, whose lines are kept and not divided into sentences.
        text: its text; "" for a break or for pictures alone.
        level: 1 to 6 for a heading, else 0.
        pictures: pictures shown in it, in order.
        ordered: for an item: whether its list is numbered.
        number: for an item of a numbered list: its number.
        list_id: for an item: equal inside one list, different between lists.
        card: kind and number of its card, see `limner.text.html_blocks`; (0, 0) if it is in none.
        caption: whether its text is the caption of a picture.
        taken: whether a picture has this caption, so that it is shown nowhere else.
        aside: kind of text outside the steps, such as a footnote; else "".
        lines: first line of its source, from 0, and the line after its last.
        parts: its text with its formatting; see `with_parts`.
        places: indices, from 0, of the blocks of the document from which it was made.
    """

    kind: Literal["heading", "paragraph", "item", "verbatim", "break"]
    text: str = ""
    level: int = 0
    pictures: tuple[PictureRef, ...] = ()
    ordered: bool = False
    number: int = 0
    list_id: int = 0
    card: tuple[int, int] = (0, 0)
    caption: bool = False
    taken: bool = False
    aside: str = ""
    lines: tuple[int, int] | None = None
    parts: tuple[Part, ...] = ()
    places: tuple[int, ...] = ()

    @property
    def mark(self) -> str:
        """List marker of an item in plain text; "" for other blocks."""
        if self.kind != "item":
            return ""
        return f"{self.number}. " if self.ordered else "- "


def check_count(count: int, where: str, most: int = MAX_BLOCKS) -> None:
    """Reject a text with too many paragraphs, items, sentences or declared steps.

    Raises:
        DataError: there are too many.
    """
    if count > most:
        raise DataError(f"{where}: has more than {most:,} paragraphs; expected a readable text; split it")


def with_parts(block: Block) -> Block:
    """The block with parts: those of its reader, or a single one made from its text."""
    if block.parts or not (block.text or block.kind == "break"):
        return block
    part = Part(
        kind="code" if block.kind == "verbatim" else block.kind,
        text=block.text,
        level=block.level,
        depth=int(block.kind == "item"),
        number=block.number if block.ordered else None,
    )
    return replace(block, parts=(part,))


@dataclass
class Document:
    """A text as read, before it is divided into steps.

    Attributes:
        blocks: in reading order.
        steps: steps that the source itself declares (schema.org, JSON); they take priority over any other
            division.
        between: parts that the source declares around the steps.
        title, language, author, illustrator, license: as stated, or "".
        direction: as stated, or None.
        markdown: the source, if it is Markdown.
        left_out: what was dropped while reading.
        notes: choices made while reading, one sentence each.
    """

    blocks: list[Block] = field(default_factory=list)
    steps: tuple[Step, ...] = ()
    between: tuple[Between, ...] = ()
    title: str = ""
    language: str = ""
    direction: Direction | None = None
    author: str = ""
    illustrator: str = ""
    license: str = ""
    markdown: str = ""
    left_out: list[LeftOut] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def pictures_of(blocks: Iterable[Block]) -> tuple[PictureRef, ...]:
    """All pictures of blocks, in order."""
    return tuple(picture for block in blocks for picture in block.pictures)


def writing_direction(texts: Iterable[str]) -> Direction:
    """Direction of most letters by their Unicode bidirectional class (L against R and AL).

    Args:
        texts: any number of texts; a tie, or no letters, counts as left to right.
    """
    classes: Counter[str] = Counter()
    for letter, count in Counter(chain.from_iterable(texts)).items():
        classes[unicodedata.bidirectional(letter)] += count
    return "rtl" if classes["R"] + classes["AL"] > classes["L"] else "ltr"


def resolve_picture(target: str, base: Path | None, alt: str = "", sha256: str | None = None) -> PictureRef:
    """The reference for a picture named in a text, with its file if it exists.

    Args:
        target: path or URL exactly as written.
        base: folder that relative paths start from; None looks up no files.
        alt: alternative text.
        sha256: hash of the original file, if stated.

    Returns:
        The reference; `path` is None for URLs and missing files.
    """
    found = None if base is None else _file_of(target, base)
    return PictureRef(target=target, path=found, alt=alt, sha256=sha256)


def _file_of(target: str, base: Path) -> str | None:
    try:
        parts = urlsplit(target)
        if parts.scheme == "file":
            names = [url2pathname(parts.path)]
        elif parts.netloc or len(parts.scheme) > 1:
            return None
        else:
            names = [target, unquote(target), unquote(target.partition("#")[0].partition("?")[0])]
        for name in names:
            if name and (file := as_on_disk(base / name)).is_file():
                return str(file.resolve())
    except (OSError, ValueError):  # no file can have this name
        return None
    return None


FilePolicy = Callable[[Path], Path | None]
"""Function from a file outside the text's folder to the file to show instead, such as the same picture in a
library; None shows nothing.
"""
WEB = "is not a file on this machine"
MISSING = "is not there"
OUTSIDE = "lies outside the folder of the text; --allow-outside shows it all the same"
NO_FOLDER = "is named by a text without a folder, which can show no file"


def deny_outside_files(_: Path) -> None:
    """Allow no file outside the text's folder."""


def allow_any_file(path: Path) -> Path:
    """Allow every file that the text names."""
    return path


def checked(story: Story, base: Path | None, file_policy: FilePolicy) -> Story:
    """The story without the picture files that it may not show, each with the reason.

    Args:
        story: the story as read.
        base: folder of the text, with links resolved; None if it has no folder.
        file_policy: called for each file outside the folder.
    """
    home = None if base is None else base.resolve()

    def one(picture: PictureRef) -> PictureRef:
        path = None if picture.path is None else Path(picture.path).resolve()
        if path is None and home is None:
            return picture.model_copy(update={"problem": ""})
        if path is None or not path.is_file():
            problem = WEB if is_web(picture.target) else MISSING
        elif (shown := path if home and path.is_relative_to(home) else file_policy(path)) is not None:
            return picture.model_copy(update={"path": str(shown), "problem": ""})
        else:
            problem = OUTSIDE if home else NO_FOLDER
        return picture.model_copy(update={"path": None, "problem": problem})

    def parts(found: Iterable[Part]) -> tuple[Part, ...]:
        return tuple(_with(part, tuple(map(one, part.pictures))) for part in found)

    steps = (
        step.model_copy(
            update={"pictures": tuple(_known(one(ref)) for ref in step.pictures), "parts": parts(step.parts)}
        )
        if step.pictures or any(part.pictures for part in step.parts)
        else step
        for step in story.steps
    )
    between = tuple(_with(part, tuple(map(_known, part.pictures))) for part in parts(story.between))
    return story.model_copy(update={"steps": tuple(steps), "between": between})


def _known(picture: PictureRef) -> PictureRef:
    """A picture outside the library with the hash of its file, by which an export recognises the file."""
    if picture.path is None:
        return picture
    with suppress(OSError):  # the file cannot be read, and the export reports it
        return picture.model_copy(update={"sha256": sha256_of(Path(picture.path))})
    return picture


def _with(part: Part, pictures: tuple[PictureRef, ...]) -> Part:
    return part.model_copy(update={"pictures": pictures}) if pictures else part


def is_web(target: str) -> bool:
    """Whether the address of a picture is a web URL."""
    try:
        parts = urlsplit(target)
    except ValueError:  # not a URL
        return False
    return parts.scheme != "file" and (bool(parts.netloc) or len(parts.scheme) > 1)
