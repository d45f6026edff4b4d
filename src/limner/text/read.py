"""Reads Markdown, HTML, plain text, JSON, Word or PDF as a checked `Story` of steps.

It is the only entry point for texts, so that size, encoding, format and emptiness are checked once and all
texts are divided in the same way. Documents are recognised by their content, not their name, and other kinds
of files are rejected whatever their extension.
"""

import codecs
import io
import json
import os
import re
import unicodedata
import zipfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import BinaryIO, Literal, get_args

from limner.encodings import MARKS
from limner.errors import ConfigError, DataError, MissingError, counted, unknown
from limner.records import Segmentation, Step, Story
from limner.text.document import (
    CREDITS,
    Document,
    FilePolicy,
    LeftOut,
    check_count,
    checked,
    deny_outside_files,
    writing_direction,
)
from limner.text.markdown import read_markdown
from limner.text.plain import read_plain
from limner.text.segment import cut
from limner.text.story_json import read_json

Container = Literal["docx", "pdf"]
CONTAINERS: dict[Container, str] = {"docx": "a Word document (DOCX)", "pdf": "a PDF"}
MAX_DOCUMENT_BYTES = 200_000_000
"""Maximum size in bytes of a document, with its pictures."""
_PDF = re.compile(rb"(?:\xef\xbb\xbf)?[\s\0]*%PDF-\d")
_ZIP = b"PK\x03\x04", b"PK\x05\x06"
_OLD_OFFICE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_MAGIC = {
    b"\x89PNG": "a PNG picture",
    b"\xff\xd8\xff": "a JPEG picture",
    b"GIF8": "a GIF picture",
    b"RIFF": "a WebP picture, or a sound or a video",
    b"II*\0": "a TIFF picture",
    b"MM\0*": "a TIFF picture",
    b"{\\rtf": "an RTF document",
    b"\x1f\x8b": "a gzip file",
    b"7z\xbc\xaf\x27\x1c": "a 7-Zip archive",
    b"Rar!": "a RAR archive",
    b"SQLite format 3": "an SQLite database",
}
_INSIDE = {
    "wordprocessingml.": "",
    "ms-word.": "",
    "spreadsheetml": "an Excel workbook",
    "ms-excel": "an Excel workbook",
    "presentationml": "a PowerPoint presentation",
    "ms-powerpoint": "a PowerPoint presentation",
    "oasis.opendocument.text": "an OpenDocument text (ODT)",
    "oasis.opendocument": "an OpenDocument file",
    "epub+zip": "an e-book (EPUB)",
}
"""Kinds of archives by a pattern in the description of a ZIP archive; "" is a Word document."""
_EXPECTED = "expected a text, a Word document (.docx) or a PDF; save or export it as one of these"


def is_container(data: bytes) -> bool:
    """Whether a file begins like a document, which may be larger than a text."""
    return data.startswith(_ZIP) or _PDF.match(data[:1024]) is not None


def container_of(data: bytes, where: str) -> Container | None:
    """Kind of document of a file; None for anything that may be a text.

    Args:
        data: the whole file.
        where: its name, for messages.
    Raises:
        DataError: it is neither a text nor a readable document.
    """
    if data.startswith(_ZIP):
        return _zipped(data, where)
    if _PDF.match(data[:1024]):
        return "pdf"
    if data.startswith(_OLD_OFFICE):
        if "EncryptedPackage".encode("utf-16-le") in data:
            raise DataError(
                f"{where}: is an encrypted Office document; remove its password and save it again"
            )
        raise DataError(f"{where}: is an Office document of before 2007, such as .doc; {_EXPECTED}")
    for magic, name in _MAGIC.items():
        if data.startswith(magic):
            raise DataError(f"{where}: is {name}; {_EXPECTED}")
    return None


def _zipped(data: bytes, where: str) -> Container:
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            said = "".join(
                archive.open(name).read(100_000).decode("utf-8", "replace")
                for name in ("[Content_Types].xml", "mimetype")
                if name in archive.NameToInfo
            )
    except (zipfile.BadZipFile, OSError, RuntimeError, NotImplementedError, ValueError) as error:
        raise DataError(
            f"{where}: a damaged ZIP archive or Office document ({' '.join(str(error).split())[:80]});"
            " expected a complete file; copy it or save it again"
        ) from None
    name = next((name for sign, name in _INSIDE.items() if sign in said), "a ZIP archive")
    if name:
        raise DataError(f"{where}: is {name}; {_EXPECTED}")
    return "docx"


# Position and form of a charset declaration according to the prescan of the HTML standard.
_DECLARED = re.compile(rb"charset\s*=\s*[\"']?\s*([A-Za-z0-9_:.-]+)", re.IGNORECASE)
_PRESCAN_BYTES = 2048
_DETECT_BYTES = 1 << 20
_CONTROL = frozenset(range(32)) - {9, 10, 12, 13, 27}


def decode_text(data: bytes, where: str, *, html: bool = False) -> tuple[str, str]:
    """Decode a text file without changing or losing a character.

    Order: byte-order mark; UTF-8 if the bytes are valid and not plain ASCII; the charset that an HTML page
    declares; ASCII; detection by charset-normalizer.

    Args:
        data: the whole file.
        where: its name, for messages.
        html: whether to look for a declared charset.

    Returns:
        The text without its byte-order mark, and a note on the choice ("" if it was certain).

    Raises:
        DataError: the data are binary, or fit no encoding.
    """
    for mark, encoding in MARKS:
        if data.startswith(mark):
            return _strict(data, encoding, where).removeprefix("\ufeff"), ""
    if b"\0" in data:
        raise DataError(
            f"{where}: contains zero bytes, so it is binary or UTF-16 without a byte-order mark; expected"
            " text; save it as UTF-8"
        )
    if not data.isascii():
        # otherwise a declared or detected encoding decides
        with suppress(UnicodeDecodeError):
            return data.decode("utf-8"), ""
    declared = _declared(data) if html else None
    if declared is not None:
        return _strict(data, declared, where), f"read as {declared}, the charset the page declares"
    return (data.decode("ascii"), "") if data.isascii() else _detected(data, where)


def _strict(data: bytes, encoding: str, where: str) -> str:
    try:
        return data.decode(encoding)
    except UnicodeError as error:
        raise DataError(
            f"{where}: not valid {encoding} ({str(error).splitlines()[0]}); expected text; save it as UTF-8"
        ) from None


def _declared(data: bytes) -> str | None:
    match = _DECLARED.search(data[:_PRESCAN_BYTES])
    if match is None:
        return None
    try:
        info = codecs.lookup(match.group(1).decode("ascii"))
        "".encode(info.name)  # refuses codecs from bytes to bytes, such as hex
    except (LookupError, UnicodeError):
        return None
    # Browsers read both as Windows-1252, and pages are written for browsers. UTF-16 cannot be
    # declared in ASCII, and bytes that are not UTF-8 cannot be UTF-8.
    if info.name in {"iso8859-1", "ascii"}:
        return "cp1252"
    return None if info.name.startswith(("utf-8", "utf-16", "utf-32", "idna", "punycode")) else info.name


def _detected(data: bytes, where: str) -> tuple[str, str]:
    from charset_normalizer import from_bytes

    sample = data[:_DETECT_BYTES]
    binary = sum(byte in _CONTROL for byte in sample) * 50 > len(sample)
    best = None if binary else from_bytes(sample).best()
    if best is None:
        raise DataError(f"{where}: not in any known text encoding; expected a text file; save it as UTF-8")
    text = _strict(data, best.encoding, where)
    return text, f"not UTF-8: read as {best.encoding}, a guess; save it as UTF-8 if letters look wrong"


Format = Literal["markdown", "html", "plain", "json"]
MAX_BYTES = 20_000_000
REASONS = 50
# A text with only control characters, format characters and white space is empty.
_INVISIBLE = {"Cc", "Cf", "Zs", "Zl", "Zp"}
_SUFFIXES_OF: dict[Format, tuple[str, ...]] = {
    "markdown": (".md", ".markdown", ".mdown", ".mkd", ".mdx"),
    "html": (".html", ".htm", ".xhtml"),
    "plain": (".txt", ".text", ""),
    "json": (".json",),
}
SUFFIXES = {suffix: kind for kind, suffixes in _SUFFIXES_OF.items() for suffix in suffixes}
_CONTAINER_SUFFIXES: dict[str, Container] = {".docx": "docx", ".pdf": "pdf"}


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
        lines, alike = list(self.notes), dict[tuple[str, bool], list[LeftOut]]()
        for item in self.left_out:
            alike.setdefault((item.reason, item.kept), []).append(item)
        for (reason, kept), items in islice(alike.items(), REASONS):
            words = sum(len(item.text.split()) for item in items)
            pictures = sum(len(item.pictures) for item in items)
            amounts = [
                *([f"{len(items):,} times"] if len(items) > 1 else []),
                *([counted(words, "word")] if words else []),
                *([counted(pictures, "picture")] if pictures else []),
            ]
            in_source = "not illustrated, kept in Markdown only" if self.story.markdown else "left out"
            what = "not illustrated, but kept" if kept else in_source
            lines.append(f"{what}: {reason}" + (f" ({', '.join(amounts)})" if amounts else ""))
        if len(alike) > REASONS:
            others = sum(map(len, islice(alike.values(), REASONS, None)))
            lines.append(
                f"left out or not illustrated for {len(alike) - REASONS:,} further reasons: {others:,}"
            )
        where = f"{self.file}: " if self.file else ""
        return [f"{where}{line}" for line in lines]


def reading_of(
    source: str | os.PathLike[str] | Sequence[object] | Story,
    *,
    by: Segmentation | None = None,
    format: Format | None = None,  # noqa: A002
    file_policy: FilePolicy = deny_outside_files,
) -> Reading:
    """Read a story from any kind of source, with a report of what was left out.

    Args:
        source: a story; a list of steps, each a string, a `Step` or an object as in a JSON story; a path; or
            a string, which is a path if it names a file or looks like a file name, and a text otherwise.
        by: unit of the text that is one step, see `read_story_report`.
        format: format of a file, by default that of its extension; or of a text, by default plain.
        file_policy: see `read_story_report`.
    Raises:
        LimnerError: see `read_story_report`.
        ConfigError: the source is something else.
    """
    if isinstance(source, Story):
        return Reading(source)
    if isinstance(source, os.PathLike) or (isinstance(source, str) and _names_file(source)):
        return read_story_report(Path(source).expanduser(), by=by, format=format, file_policy=file_policy)
    if isinstance(source, str):
        return parse_story_report(source, format=format or "plain", by=by)
    if not isinstance(source, Sequence) or isinstance(source, bytes):
        raise ConfigError(
            f"text: {source!r:.60} is of type {type(source).__name__};"
            " expected a path, a text, a list of steps or a Story"
        )
    if not source:
        raise DataError("text: a list without steps; expected one step or more")
    _check_options(by, "json")
    steps = [one.model_dump() if isinstance(one, Step) else one for one in source]
    try:
        text = json.dumps({"steps": steps})
    except TypeError as error:
        raise ConfigError(f"text: {error}; expected steps that are strings, or Steps") from None
    return _parse(text, "json", by, name="text", where="text", base=None, file_policy=file_policy)


def _names_file(text: str) -> bool:
    """Whether a string is meant as a file name."""
    if "\n" in text or not text.strip():
        return False
    path = Path(text)
    try:
        if path.expanduser().is_file():
            return True
    except (OSError, RuntimeError):  # too long for a name, or the home of an unknown user
        return False
    named = path.suffix.lower() in {*SUFFIXES, *_CONTAINER_SUFFIXES} - {""}
    return named or (len(text.split()) == 1 and (bool(path.suffix) or len(path.parts) > 1))


def read_story_report(
    path: Path,
    *,
    by: Segmentation | None = None,
    format: Format | None = None,  # noqa: A002
    file_policy: FilePolicy = deny_outside_files,
) -> Reading:
    """Read a text file as a story, with a report of what was left out and which decisions were made.

    Args:
        path: the file. Word documents and PDFs are recognised by their content, whatever their names.
        by: unit of the text that is one step; None: explicit steps, or what a JSON story states. A text
            without explicit steps is divided into paragraphs, and `Story.by` says so; for the rules see
            `limner.text.segment.cut`.
        format: format of the text; None: that of the file's extension, or plain text if it is unknown.
        file_policy: function for pictures that are not below the text's own folder.

    Raises:
        MissingError: the file does not exist, or cannot be read.
        DataError: the text is empty, binary, too large, undecodable or malformed.
        ConfigError: `by` or `format` is unknown.
    """
    _check_options(by, format or "plain")
    try:
        with path.open("rb") as file:
            data = _whole(file)
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise MissingError(f"{_shown(str(path))}: {reason}; expected a text file that can be read") from None
    name, where, suffix = _shown(path.stem), _shown(path.name), path.suffix.lower()
    return _read(
        data, format, by, name=name, where=where, suffix=suffix, base=path.parent, file_policy=file_policy
    )


def _whole(file: BinaryIO) -> bytes:
    """Bytes of a file, up to one more than a text may have, or than a document with its pictures may have."""
    data = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES and is_container(data):
        data += file.read(MAX_DOCUMENT_BYTES + 1 - len(data))
    return data


def read_story_stream(
    stream: BinaryIO,
    where: str,
    *,
    by: Segmentation | None = None,
    format: Format,  # noqa: A002
) -> Reading:
    """Read a text from a stream, such as standard input, as `read_story_report` reads a file.

    Args:
        stream: stream of bytes; pictures that the text names have no path.
        where: its name, for messages.
        by: unit of the text that is one step, see `read_story_report`.
        format: its format.
    Raises:
        DataError: the text is empty, binary, too large, undecodable or malformed.
        ConfigError: `by` or `format` is unknown.
    """
    _check_options(by, format)
    return _read(_whole(stream), format, by, name="text", where=where, suffix=None, base=None)


def _read(
    data: bytes,
    format: Format | None,  # noqa: A002
    by: Segmentation | None,
    *,
    name: str,
    where: str,
    suffix: str | None,
    base: Path | None,
    file_policy: FilePolicy = deny_outside_files,
) -> Reading:
    """Read a story from the bytes of a file with an extension, or of a stream without one."""
    most = MAX_DOCUMENT_BYTES if is_container(data) else MAX_BYTES
    if len(data) > most:
        raise DataError(f"{where}: larger than {most // 10**6} MB; expected a text; split it")
    container = container_of(data, where)
    notes: list[str] = []
    if container is not None:
        if suffix is not None and _CONTAINER_SUFFIXES.get(suffix) != container:
            notes.append(f"is {CONTAINERS[container]} by its content, and is read as one")
        document, shown = _contained(container, data, where)
        reading = _cut(
            document, {}, by, name=name, where=where, base=base, file_policy=_also_below(shown, file_policy)
        )
    else:
        if format is None and suffix in _CONTAINER_SUFFIXES:
            raise DataError(
                f"{where}: is not {CONTAINERS[_CONTAINER_SUFFIXES[suffix]]}, as its name says; expected one;"
                " if it is a text, rename it, or add --text-format plain"
            )
        kind = format or SUFFIXES.get(suffix or "", "plain")
        if format is None and suffix not in SUFFIXES:
            notes.append(f"its suffix, {suffix!r}, is of no known format: read as plain text (--text-format)")
        text, note = decode_text(data, where, html=kind == "html")
        notes += [note] if note else []
        if kind == "markdown" and data.startswith(codecs.BOM_UTF8):
            text = f"\ufeff{text}"
        reading = _parse(text, kind, by, name=name, where=where, base=base, file_policy=file_policy)
    return replace(reading, notes=(*notes, *reading.notes), file=where)


def _contained(container: Container, data: bytes, where: str) -> tuple[Document, Path | None]:
    """The document in a file that is not a plain text, and the folder with its pictures."""
    if container == "docx":
        from limner.text.docx import read_docx

        return read_docx(data, where)
    from limner.text.pdf import read_pdf

    return read_pdf(data, where), None


def _also_below(folder: Path | None, file_policy: FilePolicy) -> FilePolicy:
    """Allow files below a folder, too."""
    if folder is None:
        return file_policy
    home = folder.resolve()
    return lambda path: path if path.is_relative_to(home) else file_policy(path)


def parse_story_report(
    text: str,
    *,
    format: Format = "plain",  # noqa: A002
    by: Segmentation | None = None,
) -> Reading:
    """Read a text in memory as a story, with a report of what was left out.

    Args:
        text: the text.
        format: its format.
        by: unit of the text that is one step, see `read_story_report`.
    Returns:
        The story; its id is "text" if none is stated, and its pictures have no path.

    Raises:
        DataError: the text is empty, too large or malformed.
        ConfigError: `by` or `format` is unknown.
    """
    _check_options(by, format)
    if len(text) > MAX_BYTES:
        raise DataError(f"text: longer than {MAX_BYTES // 10**6} million letters; expected a text; split it")
    return _parse(text, format, by, name="text", where="text", base=None)


def _parse(
    text: str,
    kind: Format,
    by: Segmentation | None,
    *,
    name: str,
    where: str,
    base: Path | None,
    file_policy: FilePolicy = deny_outside_files,
) -> Reading:
    source, text = text, text.removeprefix("\ufeff")
    if "\0" in text or any("\ud800" <= letter <= "\udfff" for letter in set(text)):
        raise DataError(
            f"{where}: holds zero bytes or broken Unicode (lone surrogates); expected text; correct it"
        )
    if {unicodedata.category(letter) for letter in set(text)} <= _INVISIBLE:
        raise DataError(f"{where}: is empty; expected a text with words in it")
    document, stated = _document(source if kind == "markdown" else text, kind, where, base)
    return _cut(document, stated, by, name=name, where=where, base=base, file_policy=file_policy)


def _cut(
    document: Document,
    stated: dict[str, str],
    by: Segmentation | None,
    *,
    name: str,
    where: str,
    base: Path | None,
    file_policy: FilePolicy,
) -> Reading:
    """Convert a document to a story: find its title, divide it into steps, and check its pictures."""
    check_count(max(len(document.blocks), len(document.steps)), where)
    if document.blocks:
        take_title(document)
    own = stated.get("by", "step")
    if document.steps and by in {None, "step", own}:
        steps, used, dropped, between = list(document.steps), own, [], document.between
    else:
        result = cut(document, by or "step", where)
        steps, used, dropped, between = result.steps, result.by, result.left_out, result.between
    notes = list(document.notes)
    if used == "paragraph" and by in {None, "step"} and not document.steps:
        notes.append("no explicit steps found: divided into paragraphs")
    words = [document.title, *(step.title for step in steps), *(step.text for step in steps)]
    direction = document.direction or writing_direction(words)
    credit = {key: getattr(document, key) for key in CREDITS}
    story = Story.model_validate(
        {
            "id": name,
            **stated,
            **credit,
            "steps": steps,
            "between": between,
            "by": used,
            "direction": direction,
            "markdown": document.markdown,
        }
    )
    story = checked(story, base, file_policy)
    return Reading(story, (*document.left_out, *dropped), tuple(notes))


def _document(text: str, kind: Format, where: str, base: Path | None) -> tuple[Document, dict[str, str]]:
    if kind == "json":
        return read_json(text, where, base)
    if kind == "plain":
        return read_plain(text, where), {}
    if kind == "markdown":
        return read_markdown(text, where, base), {}
    from limner.text.html import read_html

    return read_html(text, where, base), {}


def take_title(document: Document) -> None:
    """Remove the first level-1 heading as the title; if a title is stated elsewhere, only an equal one."""
    for place, block in enumerate(document.blocks):
        if block.kind == "heading" and block.level == 1:
            beside = any(other.text for other in document.blocks if other is not block)
            if document.title in {"", block.text} and beside:
                document.title = block.text
                document.blocks.pop(place)
                if block.pictures:
                    document.blocks.insert(place, replace(block, kind="paragraph", text="", level=0))
            return


def _check_options(by: str | None, kind: str) -> None:
    if by is not None and by not in get_args(Segmentation):
        raise ConfigError(unknown("segmentation", by, get_args(Segmentation)))
    if kind not in get_args(Format):
        raise ConfigError(unknown("text format", kind, get_args(Format)))


def _shown(name: str) -> str:
    """File name that can be printed and stored: bytes that are not UTF-8 are escaped."""
    return name.encode("utf-8", "backslashreplace").decode("utf-8")
