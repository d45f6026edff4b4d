"""Reads Markdown, HTML, plain text, JSON, Word or PDF as a `Story` of steps.

It is the only door for texts: size, encoding, format and emptiness are checked once, and every text becomes a
document of blocks, gets its structure, and is divided into steps in the same way.
"""

import io
import json
import mimetypes
import os
import re
import unicodedata
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

from limner.encodings import MARKS, decode_text
from limner.errors import ConfigError, DataError, MissingError, counted, unknown
from limner.records import PictureRef, Segmentation, Step, Story
from limner.text.blocks import (
    CREDITS,
    Document,
    Find,
    LeftOut,
    check_count,
    pictures_of,
    text_of,
    writing_direction,
)
from limner.text.lines import read_plain
from limner.text.picture_files import InLibrary, finder
from limner.text.segment import segment
from limner.text.story_json import read_json
from limner.text.structure import structure

if TYPE_CHECKING:
    from limner.progress import Progress

Format = Literal["markdown", "html", "plain", "json"]
SUFFIXES: dict[str, Format] = {
    **dict.fromkeys((".md", ".markdown", ".mdown", ".mkd", ".mdx"), "markdown"),
    **dict.fromkeys((".html", ".htm", ".xhtml"), "html"),
    **dict.fromkeys((".txt", ".text", ""), "plain"),
    ".json": "json",
}
DOCUMENTS = {".docx": "a Word document", ".pdf": "a PDF"}
MAX_CHARACTERS = 3_000_000
"""Maximum length of a text, without pictures inside it."""
MAX_TEXT_BYTES, MAX_DOCUMENT_BYTES = 40_000_000, 200_000_000
"""Maximum size of a text with pictures inside it (`data:`), and of a Word document or a PDF."""
_EXPECTED = "expected a text, a Word document (.docx) or a PDF; save or export it as one of these"
_PDF = re.compile(rb"(?:\xef\xbb\xbf)?[\s\0]*%PDF-\d")
_ZIP = b"PK\x03\x04", b"PK\x05\x06"
_OTHER_DOCUMENTS = b"\xd0\xcf\x11\xe0", b"{\\rtf"
_INSIDE = re.compile(r"data:image/[\w.+-]+(?:;[\w=-]+)*;base64,[\w+/=%-]{64,}", re.IGNORECASE)
"""A picture inside a text."""
_SHORT = re.compile(r"data:image/[\w.+-]+#[0-9a-f]{8}", re.IGNORECASE)
"""What stands for it while the text is read."""
# A text with only control characters, format characters and white space is empty.
_INVISIBLE = {"Cc", "Cf", "Zs", "Zl", "Zp"}


@dataclass(frozen=True)
class Reading:
    """A story, and what was left out when it was read.

    Attributes:
        story: the text divided into steps.
        left_out: all parts of the text that are neither in a step nor a title, with the reason.
        notes: decisions made while reading (guessed encoding, declared steps, fallback to paragraphs).
        file: name of the file, or "".
    """

    story: Story
    left_out: tuple[LeftOut, ...] = ()
    notes: tuple[str, ...] = ()
    file: str = ""

    def summary(self) -> list[str]:
        """One line per note and per reason why something is in no step, each with the name of the file."""
        lines = list(self.notes)
        for reason in dict.fromkeys(item.reason for item in self.left_out):
            items = [item for item in self.left_out if item.reason == reason]
            words = sum(len(item.text.split()) for item in items)
            pictures = sum(len(item.pictures) for item in items)
            amounts = [f"{len(items):,} times"] if len(items) > 1 else []
            amounts += [counted(words, "word")] if words else []
            amounts += [counted(pictures, "picture")] if pictures else []
            what = "left out" if reason == "page furniture" else "not illustrated, but kept"
            lines.append(f"{what}: {reason} ({', '.join(amounts)})")
        where = f"{self.file}: " if self.file else ""
        return [f"{where}{line}" for line in lines]


def read(
    source: str | os.PathLike[str] | Sequence[object] | Story,
    *,
    by: Segmentation | None = None,
    format: Format | None = None,  # noqa: A002
    in_library: InLibrary = lambda path: None,
) -> Reading:
    """Read a story from any kind of source, with a report of what was left out.

    Args:
        source: a story; a list of steps, each a string, a `Step` or an object as in a JSON story; a path; or
            a string, which is a path if it names a file or looks like a file name, and a text otherwise.
        by: unit of the text that is one step, see `limner.text.segment.segment`; None: the places that the
            text marks, or else explicit steps, or what a JSON story states.
        format: format of a text; None: that of the file's extension, or plain text.
        in_library: see `limner.text.picture_files.finder`.
    Raises:
        MissingError: the file does not exist, or cannot be read.
        DataError: the text is empty, binary, too large, undecodable or malformed.
        ConfigError: `by` or `format` is unknown, or the source is something else.
    """
    if isinstance(source, Story):
        return Reading(source)
    if isinstance(source, os.PathLike) or (isinstance(source, str) and _names_file(source)):
        path = Path(source).expanduser()
        try:
            with path.open("rb") as file:
                data = file.read(MAX_DOCUMENT_BYTES + 1)
        except (OSError, ValueError) as error:
            reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
            name = _shown(str(path))
            raise MissingError(f"{name}: {reason}; expected a text file that can be read") from None
        return read_bytes(data, path.name, by=by, format=format, base=path.parent, in_library=in_library)
    if isinstance(source, str):
        return read_text(source, by=by, format=format or "plain", in_library=in_library)
    if not isinstance(source, Sequence) or isinstance(source, bytes):
        raise ConfigError(
            f"text: {source!r:.60} is of type {type(source).__name__};"
            " expected a path, a text, a list of steps or a Story"
        )
    if not source:
        raise DataError("text: a list without steps; expected one step or more")
    steps = [step.model_dump() if isinstance(step, Step) else step for step in source]
    try:
        text = json.dumps({"steps": steps})
    except TypeError as error:
        raise ConfigError(f"text: {error}; expected steps that are strings, or Steps") from None
    return read_text(text, by=by, format="json", in_library=in_library)


def _names_file(text: str) -> bool:
    """Whether a string is meant as a file name."""
    if "\n" in text or not text.strip():
        return False
    path = Path(text)
    try:
        if path.expanduser().is_file():
            return True
    except (OSError, RuntimeError, ValueError):  # no possible name, or the home of an unknown user
        return False
    named = path.suffix.lower() in {*SUFFIXES, *DOCUMENTS} - {""}
    return named or (len(text.split()) == 1 and (bool(path.suffix) or len(path.parts) > 1))


def read_bytes(
    data: bytes,
    where: str,
    *,
    by: Segmentation | None = None,
    format: Format | None = None,  # noqa: A002
    base: Path | None = None,
    in_library: InLibrary = lambda path: None,
    progress: "Progress | None" = None,
) -> Reading:
    """Read the bytes of a file like `read`.

    Word documents and PDFs are recognised by their content, whatever their names.

    Args:
        data: the whole file.
        where: its name, which gives its format and is used in messages.
        by: see `read`.
        format: see `read`.
        base: folder in which its pictures are looked up, or None.
        in_library: see `read`.
        progress: see `limner.text.worker.read_limited`.
    Raises:
        DataError: see `read`.
        ConfigError: see `read`.
    """
    _check_options(by, format)
    where = _shown(where)
    name, suffix = Path(where).stem, Path(where).suffix.lower()
    if len(data) > MAX_DOCUMENT_BYTES:
        raise DataError(f"{where}: larger than {MAX_DOCUMENT_BYTES // 10**6} MB; expected a text; split it")
    if document := _document(data, where, progress):
        if suffix not in DOCUMENTS:
            document.notes.insert(0, "is a Word document or a PDF by its content, and is read as one")
        return replace(_divided(document, {}, by, name, where), file=where)
    if suffix in DOCUMENTS and format is None:
        raise _no_text(where, f"not {DOCUMENTS[suffix]}, as its name says")
    if len(data) > (MAX_TEXT_BYTES if b";base64," in data else 4 * MAX_CHARACTERS + 4):
        raise _too_long(where)
    if b"\0" in data and not data.startswith(tuple(mark for mark, _ in MARKS)):
        raise _no_text(where, "not a text, or UTF-16 without a byte-order mark")
    kind = format or SUFFIXES.get(suffix, "plain")
    text, note = decode_text(data, where, html=kind == "html")
    notes = [note] if note else []
    if format is None and suffix not in SUFFIXES:
        notes.append(f"its suffix, {suffix!r}, is of no known format: read as plain text (--text-format)")
    reading = read_text(text, by=by, format=kind, where=where, name=name, base=base, in_library=in_library)
    return replace(reading, notes=(*notes, *reading.notes), file=where)


def _document(data: bytes, where: str, progress: "Progress | None") -> Document | None:
    """The document in a Word document or a PDF; None for what may be a text.

    Raises:
        DataError: it cannot be read, or is of another program.
    """
    if _PDF.match(data[:1024]):
        from limner.text.worker import read_limited

        return read_limited(data, where, progress)
    if data.startswith(_OTHER_DOCUMENTS):
        raise _no_text(where, "RTF, or a document of Office before 2007 or with a password")
    if not data.startswith(_ZIP):
        return None
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            names = archive.namelist()
    except (zipfile.BadZipFile, OSError, RuntimeError, NotImplementedError, ValueError) as error:
        reason = " ".join(str(error).split())[:80]
        raise _no_text(where, f"a damaged archive or Office document ({reason})") from None
    if not any(name.startswith("word/document") for name in names):
        raise _no_text(where, "an archive, or a document of another program")
    from limner.text.docx import read_docx

    return read_docx(data, where)


def _no_text(where: str, what: str) -> DataError:
    """Error for a file that is no text; its name may say what it is."""
    kind = mimetypes.guess_type(where)[0]
    return DataError(f"{where}: is {what}{f' ({kind})' if kind else ''}; {_EXPECTED}")


def _too_long(where: str) -> DataError:
    most = MAX_CHARACTERS // 10**6
    return DataError(f"{where}: longer than {most} million characters; expected a text; split it")


def read_text(
    text: str,
    *,
    by: Segmentation | None = None,
    format: Format = "plain",  # noqa: A002
    where: str = "text",
    name: str = "text",
    base: Path | None = None,
    in_library: InLibrary = lambda path: None,
) -> Reading:
    """Read a text in memory like `read`.

    Args:
        text: the text.
        by: see `read`.
        format: its format.
        where: its name, for messages.
        name: id of the story, if the text states none.
        base: folder in which its pictures are looked up, or None.
        in_library: see `read`.
    Raises:
        DataError: see `read`.
        ConfigError: see `read`.
    """
    _check_options(by, format)
    inside: dict[str, str] = {}  # pictures inside the text, which do not reach its parser

    def shortened(match: re.Match[str]) -> str:
        short = f"{match[0].partition(';')[0]}#{sha256(match[0].encode()).hexdigest()[:8]}"
        inside[short] = match[0]
        return short

    text = _INSIDE.sub(shortened, text.removeprefix("\ufeff"))
    if len(text) > MAX_CHARACTERS:
        raise _too_long(where)
    letters = set(text)
    if "\0" in letters or any("\ud800" <= letter <= "\udfff" for letter in letters):
        raise DataError(f"{where}: holds zero bytes or lone surrogates; expected a text; correct it")
    if {unicodedata.category(letter) for letter in letters} <= _INVISIBLE:
        raise DataError(f"{where}: is empty; expected a text with words in it")
    find_file = finder(base, in_library)

    def find(target: str, alt: str) -> PictureRef:
        return find_file(inside.get(target, target), alt)

    document, stated = _parsed(text, format, where, find)
    document.markdown = _SHORT.sub(lambda match: inside.get(match[0], match[0]), document.markdown)
    return _divided(document, stated, by, name, where)


def _parsed(text: str, kind: Format, where: str, find: Find) -> tuple[Document, dict[str, str]]:
    """The document in a text, and what only a JSON story states."""
    if kind == "json":
        return read_json(text, where, find)
    if kind == "plain":
        return read_plain(text, where), {}
    if kind == "markdown":
        from limner.text.markdown import read_markdown

        return read_markdown(text, where, find), {}
    from limner.text.markup import read_html

    return read_html(text, where, find), {}


def _divided(
    document: Document, stated: dict[str, str], by: Segmentation | None, name: str, where: str
) -> Reading:
    """The story of a document, divided into steps, and what is in none of them."""
    check_count(len(document.blocks), where)
    if sum(len(block.text) for block in document.blocks) > MAX_CHARACTERS:
        raise _too_long(where)
    structure(document)
    is_declared = bool(document.declared) and by in {None, "step", stated.get("by", "step")}
    division = segment(document, "step" if is_declared else by, where)
    if not division.steps:
        raise DataError(f"{where}: no step found (no words outside markup); expected a text with words in it")
    words = [document.title, *(block.text for block in division.blocks)]
    story = Story.model_validate(
        {
            "id": name,
            "by": division.by,
            **{key: getattr(document, key) for key in CREDITS},
            **({key: value for key, value in stated.items() if is_declared or key != "by"}),
            "steps": division.steps,
            "blocks": division.blocks,
            "cover": document.cover,
            "direction": document.direction or writing_direction(words),
            "markdown": document.markdown,
        }
    )
    if story.places and by is None:
        return Reading(story, tuple(document.left_out), (*document.notes, *division.notes))
    titles = {step.title for step in story.steps}
    outside = [
        block
        for place, run in story.runs()
        for block in run
        if place is None
        and block.kind not in ("break", "wanted")
        and not (block.kind == "heading" and block.text in titles)
    ]
    left_out = list(document.left_out)
    for is_supplies, run in groupby(outside, key=lambda block: block.role == "supplies"):
        blocks = [block.model_copy(update={"role": ""}) for block in run]  # all their words
        targets = tuple(picture.target for picture in pictures_of(blocks))
        left_out.append(LeftOut("supplies" if is_supplies else "aside", text_of(blocks), targets))
    return Reading(story, tuple(left_out), (*document.notes, *division.notes))


def _check_options(by: str | None, kind: str | None) -> None:
    if by is not None and by not in get_args(Segmentation):
        raise ConfigError(unknown("segmentation", by, get_args(Segmentation)))
    if kind is not None and kind not in get_args(Format):
        raise ConfigError(unknown("text format", kind, get_args(Format)))


def _shown(name: str) -> str:
    """File name that can be printed and stored: bytes that are not UTF-8 are escaped."""
    return name.encode("utf-8", "backslashreplace").decode("utf-8")
