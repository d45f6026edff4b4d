"""Reads Markdown, by way of HTML, and inserts pictures into its source and removes them.

markdown-it-py parses it with the dialects of `limner.text.dialects`. The rendered HTML is read like any
other, so that raw HTML inside needs no second reader.

An inserted picture is a paragraph of its own after its step, inside the step's list or quotation; no other
character changes. It is recognised by being alone on its line, and by the form of its path.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from markdown_it.token import Token

from limner.errors import counted
from limner.text.dialects import TAB, parsed, parser, without_front
from limner.text.document import CREDITS, LINES, Document, LeftOut
from limner.text.html_blocks import blocks_of, parse_tree

_OTHER_NAMES = {"authors": "author", "licence": "license", "lang": "language", "dir": "direction"}


def read_markdown(text: str, where: str, base: Path | None) -> Document:
    """Read a Markdown text.

    Args:
        text: the decoded file.
        where: its name, for messages.
        base: folder that relative picture paths start from, or None.

    Raises:
        DataError: the front matter is not YAML or TOML; or see `limner.text.dialects.parsed`.
    """
    document = Document()
    document.markdown, inserted = without_inserted(text, where)
    if inserted:
        document.notes.append(
            f"{counted(inserted, 'picture')} inserted by an earlier export left out; they are chosen again"
        )
    body, front = without_front(document.markdown, where)
    _take(front.stated, document)
    document.notes += [front.note] if front.note else []
    _, rendered, code = parsed(body, where)
    document.left_out += [LeftOut("code of the page", words) for words in code]
    if rendered.strip():
        document.blocks = blocks_of(parse_tree(f"<div>{rendered}</div>", where), base, document.left_out)
    return document


def _take(stated: dict[object, object], document: Document) -> None:
    """Copy the metadata of front matter into the document."""
    for key, value in stated.items():
        lower, words = str(key).lower(), _stated(value)
        name = _OTHER_NAMES.get(lower, lower)
        if name in CREDITS and words and not getattr(document, name):
            setattr(document, name, words)
        elif name == "direction" and value in ("rtl", "ltr"):
            document.direction = value
        else:
            document.left_out.append(LeftOut(f"front matter {str(key)[:40]!r}", words))


def _stated(value: object) -> str:
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, list):
        return ", ".join(item.strip() for item in value if isinstance(item, str))
    return ""


FOLDER = "_pictures"
"""Ending of the name of an export's picture folder."""
NAME = re.compile(r"\d{2,}-[A-Za-z0-9-]+-[0-9a-f]{8}\.\w{1,8}")
"""File name of a picture in an export: number of its step, name of its file, and beginning of its SHA-256."""

Lines = tuple[int, int]
_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")
_BLANK = re.compile(r"[ \t>]*[\r\n]*")
_PICTURE = re.compile(rf"[ \t>]*!\[(?:[^\[\]\\]|\\.)*+\]\([^\s()]*{FOLDER}/{NAME.pattern}\)\s*")
_CAPTION = re.compile(r"[ \t>]*\*[^\s*](?:.*\S)?\*\s*")
_NUMBERS = re.compile(rf' {LINES}="[^"]*"')
_ITEM = re.compile(r" *(?:[-+*]|\d{1,9}[.)])( *)(.*)")


@dataclass(frozen=True)
class _Container:
    """An item of a list, a quotation or a tab.

    Attributes:
        start, end: its lines, without empty ones at its end.
        width: number of characters before the text of an item; 0 for a quotation.
        prefix: beginning of each line in it.
    """

    start: int
    end: int
    width: int
    prefix: str


@dataclass
class Layout:
    """Places in a source at which a paragraph can be inserted.

    Attributes:
        lines: lines of the source, with their ends.
        containers: ordered by their beginning, outer before inner.
        last: blocks (paragraph, table, heading, code or HTML) by the line after them.
    """

    lines: list[str]
    containers: list[_Container] = field(default_factory=list)
    last: dict[int, Token] = field(default_factory=dict)

    @property
    def newline(self) -> str:
        """Line end of the source."""
        ends = (line[len(line.rstrip("\r\n")) :] for line in self.lines)
        return next(filter(None, ends), "\n")

    def trimmed(self, start: int, end: int) -> int:
        """The line after the last non-empty one of a range."""
        end = min(end, len(self.lines))
        while end > start + 1 and _BLANK.fullmatch(self.lines[end - 1]):
            end -= 1
        return end

    def around(self, start: int, end: int) -> _Container | None:
        """The innermost container around a line inserted after a range of lines."""
        found = None
        for one in self.containers:
            if one.start < end <= one.end:
                if one.start > start and one.end == end:  # it begins and ends inside the range
                    break
                found = one
        return found

    def prefix(self, start: int, end: int) -> str:
        """Prefix of an inserted line."""
        found = self.around(start, end)
        return "" if found is None else found.prefix


def without_inserted(source: str, where: str) -> tuple[str, int]:
    """Remove the pictures that an earlier export inserted into a source.

    Args:
        source: Markdown, with any line ends.
        where: its name, for messages.
    Returns:
        The source, and the number of removed pictures.
    Raises:
        DataError: see `limner.text.dialects.parsed` and `limner.text.dialects.front_matter`.
    """
    lines = _LINE.findall(source) if FOLDER in source else []
    if not any(map(_PICTURE.fullmatch, lines)):
        return source, 0
    tokens, _, _ = parsed(without_front(source, where)[0], where)
    paragraphs = {
        token.map[0]: token.map[1] for token in tokens if token.type == "paragraph_open" and token.map
    }
    kept: list[str] = []
    place = count = 0
    while place < len(lines):
        end = paragraphs.get(place, 0)
        more = lines[place + 1 : end]
        if not (
            end and _PICTURE.fullmatch(lines[place]) and len(more) < 2 and all(map(_CAPTION.fullmatch, more))
        ):
            kept.append(lines[place])
            place += 1
            continue
        count += 1
        at_end = end == len(lines) and not lines[-1].endswith(("\r", "\n"))
        if kept and _BLANK.fullmatch(kept[-1]):
            kept.pop()
        elif end < len(lines) and _BLANK.fullmatch(lines[end]):
            end += 1
        if kept and at_end:
            kept[-1] = kept[-1].rstrip("\r\n")
        place = end
    return "".join(kept), count


def with_inserted(source: str, pictures: Iterable[tuple[Lines, str]], where: str) -> str:
    """Insert pictures after the steps of a source.

    Args:
        source: Markdown, with any line ends.
        pictures: lines of a step, see `limner.records.Step`, with the paragraph to insert after it.
        where: name of the text, for messages.
    Returns:
        The new source. If the insertions are removed, inserting them again gives the same result.
    Raises:
        DataError: see `without_inserted`.
    """
    plan = layout_of(source, where)
    lines = plan.lines
    newline = plan.newline
    added: dict[int, list[str]] = {}
    for (start, stop), paragraph in pictures:
        end = plan.trimmed(start, stop)
        block, goes_on = plan.last.get(end), _goes_on(lines[end : end + 1])
        is_words = block is None or block.type in ("paragraph_open", "table_open")
        # What ends a text need not end a picture outside the list; a following list item ends one inside it.
        own = plan.around(start, end)
        is_ended = own is not None and bool(own.width) and own.end == end
        prefix = plan.prefix(end - 1 if is_words and goes_on and not is_ended else start, end)
        blank = prefix.rstrip() + newline
        words = [f"{prefix}{line}{newline}" for line in paragraph.split("\n")]
        if block is not None and _is_open(block, lines[end - 1]):  # text after it would become part of it
            end = start
            first = start == 0 or _BLANK.fullmatch(lines[start - 1])
            placed = [*words, blank] if first else [blank, *words]
        else:
            placed = [blank, *words] if is_words or not goes_on else [*words, blank]
            if block is not None and block.type == "table_open" and goes_on:
                placed = [blank, *words, blank] if end not in added else [*words, blank]
        added.setdefault(end, []).extend(placed)
    if (last := added.get(len(lines))) and not lines[-1].endswith(("\r", "\n")):
        lines[-1] += newline
        last[-1] = last[-1].removesuffix(newline)
    made = []
    for place in range(len(lines) + 1):
        made += [*added.get(place, ()), *lines[place : place + 1]]
    return "".join(made)


def layout_of(source: str, where: str) -> Layout:
    """Find the places in a source at which a paragraph can be inserted.

    Args:
        source: Markdown, with any line ends.
        where: its name, for messages.
    Raises:
        DataError: see `without_inserted`.
    """
    body, _ = without_front(source, where)
    tokens, _, _ = parsed(body, where)
    made = Layout(_LINE.findall(source))
    bare = [line.expandtabs(4) for line in body.split("\n")]
    around: list[_Container] = []
    for token in tokens:
        if token.type in ("list_item_close", "blockquote_close", f"{TAB}_close"):
            around.pop()
        if token.map is None or token.nesting < 0:
            continue
        start, end = token.map[0], made.trimmed(*token.map)
        if token.type in ("list_item_open", "blockquote_open"):
            around.append(_container(bare[start], start, end, around, quoted=token.type == "blockquote_open"))
            made.containers.append(around[-1])
        elif token.type == f"{TAB}_open":
            outer = around[-1].prefix if around else ""
            around.append(_Container(start, end, 4, f"{outer}    "))
            made.containers.append(around[-1])
        elif token.type in (
            "paragraph_open",
            "heading_open",
            "table_open",
            "fence",
            "code_block",
            "html_block",
            "formula",
        ):
            made.last[end] = token
    return made


def _container(line: str, start: int, end: int, around: Sequence[_Container], *, quoted: bool) -> _Container:
    """Build an item or quotation from its first line and its surroundings."""
    for one in around:
        mark = re.match(r" {0,3}> ?", line) if not one.width else None
        if mark is not None:
            line = line[mark.end() :]
        elif one.start == start:
            line = line[one.width :]
        else:
            line = line[min(one.width, len(line) - len(line.lstrip(" "))) :]
    outer = around[-1].prefix if around else ""
    found = None if quoted else _ITEM.match(line)
    if found is None:
        return _Container(start, end, 0, f"{outer}> ")
    width = found.start(1) + (len(found[1]) if found[2] and len(found[1]) <= 4 else 1)
    return _Container(start, end, width, outer + " " * width)


def _is_open(block: Token, last: str) -> bool:
    """Whether a block of code or an HTML comment continues after its last line, because it has no end."""
    if block.type == "fence":
        one_line = block.map is not None and block.map[1] - block.map[0] == 1
        return one_line or not last.strip(" \t>\r\n").startswith(block.markup)
    if block.type != "html_block":
        return False
    comment = block.content.rfind("<!--") > block.content.rfind("-->")
    return comment or parser().parse(f"{block.content}\n\nx")[-1].type == "html_block"


def _goes_on(following: Sequence[str]) -> bool:
    """Whether a paragraph that ends just before a line would continue in it."""
    line = "".join(following).strip(" \t>\r\n")
    joined, apart = (_NUMBERS.sub("", parser().render(f"x{gap}{line}")) for gap in ("\n", "\n\n"))
    # a line of template markup continues a paragraph, although it renders as nothing
    lines = next((token.map for token in parser().parse(f"x\n{line}") if token.map), None)
    return bool(line) and (joined != apart or lines == [0, 2])
