"""Reads the lines of a PDF, joined into paragraphs, without page numbers, headers and footers.

A PDF says where letters are, not what they belong to. pdfium finds the letters; paragraphs are recognised by
where their lines begin and end, by the size of their letters and by the gaps between them.
"""

from __future__ import annotations

import ctypes
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import median

import pypdfium2
import pypdfium2.raw as pdfium

from limner.errors import DataError, counted
from limner.records import Block, Look, Mark
from limner.text.blocks import Document, LeftOut
from limner.text.lines import BULLET
from limner.text.words import marker_of

MAX_PAGES, MAX_LETTERS = 3_000, 3_000_000
_HYPHENS = "\ufffe\x02\u00ad"
"""Placeholders where pdfium has joined a hyphenated word; a soft hyphen is one, too."""
_LIGATURES = dict(enumerate(("ff", "fi", "fl", "ffi", "ffl", "st", "st"), start=0xFB00))
_SYMBOL = re.compile(r"[\ue000-\uf8ff](?=\s)")
"""A bullet in a font of symbols."""
_SENTENCE_END = re.compile(r"[.!?…:;。！？।؟۔։។៕][\"'”’»)\]」』]*$")
_NUMBER = re.compile(r"\d{1,4}(?!\d)")
_ROMAN = re.compile(r"(?=.)x{0,3}(?:ix|iv|v?i{0,3})", re.IGNORECASE)
_DOTS = re.compile(r"(?:\.\s?){4,}\s*[\divxlc]+$")
_ENTRY = re.compile(r"[\s.](?:\d{1,4}|[ivxlc]+)$")
"""Endings of lines that may occur between those of a table of contents."""
_BOLD = re.compile(r"bold|black|heavy|demi", re.IGNORECASE)
_MONO = re.compile(r"mono|courier|consol|cmtt|typewriter", re.IGNORECASE)
# Scripts without spaces, whose lines are joined without a space.
_UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3000-\u30ff\u3400-\u9fff\uf900-\ufaff\uff00-\uff60]"
)
_COMPOUND = re.compile(r"\w+-\w+")
_PRINTED = re.compile(
    r"(?:\w+\.? )?\d{1,4} ?(?:/|of|von|de|di|sur|из) ?\d{1,4}"
    r"|(?:https?|file)://\S+ \d{1,4}/\d{1,4}"
    r"|\d{1,4}[./-]\d{1,2}[./-]\d{2,4},? \d{1,2}:\d{2}.*",
    re.IGNORECASE,
)
"""Page 1 of 2, and what browsers print above and below a page: date and title, address and page number."""
_EDGES = 3
"""Number of lines at the top and bottom of a page that may not belong to its text."""
_Box = tuple[float, float, float, float]
"""Left, bottom, right and top, in points."""


@dataclass(frozen=True)
class _Line:
    """A line of a page.

    Attributes:
        text: its text.
        page: its page, from 0.
        left, right, low, high: its position in points; the origin is at the bottom left of the page.
        size: height of its letters, in points.
        bold, mono: style of its letters.
        hyphened: whether a hyphen at its end divides a word; the hyphen is not in `text`.
    """

    text: str
    page: int
    left: float
    right: float
    low: float
    high: float
    size: float
    bold: bool
    mono: bool
    hyphened: bool

    @property
    def width(self) -> float:
        """Distance from its first letter to its last."""
        return self.right - self.left


def read_pdf(data: bytes, where: str) -> Document:
    """Read the text of a PDF; its pictures are counted and left out.

    Args:
        data: the whole file.
        where: its name, for messages.
    Raises:
        DataError: the file is encrypted, damaged, contains only pictures, or exceeds a limit.
    """
    try:
        with pypdfium2.PdfDocument(data) as pdf:
            return _document(pdf, where)
    except pypdfium2.PdfiumError as error:
        if "password" in str(error).lower():
            raise DataError(f"{where}: is an encrypted PDF; remove its password and save it again") from None
        raise DataError(
            f"{where}: a damaged PDF ({str(error)[:80]}); expected one that opens elsewhere; save it again"
        ) from None


def _document(pdf: pypdfium2.PdfDocument, where: str) -> Document:
    count = len(pdf)
    if count > MAX_PAGES:
        raise DataError(
            f"{where}: a PDF of {counted(count, 'page')}; expected at most {MAX_PAGES:,}; split it"
        )
    pages: list[list[_Line]] = []
    shown: list[list[_Box]] = []
    letters = 0
    for number in range(count):
        page = pdf[number]
        text = page.get_textpage()
        letters += text.count_chars()
        if letters > MAX_LETTERS:
            raise DataError(
                f"{where}: a PDF of more than {MAX_LETTERS // 10**6} million letters; expected a text that"
                " one can read; split it"
            )
        pages.append(list(_lines_of(text, number)))
        pictures = page.get_objects(filter=[pdfium.FPDF_PAGEOBJ_IMAGE], max_depth=4)
        shown.append([picture.get_bounds() for picture in pictures])
        text.close()
        page.close()
    if not any(pages):
        raise DataError(
            f"{where}: {counted(count, 'page')} without text, such as a scan; expected a PDF with"
            " text; add it with an OCR program, such as ocrmypdf"
        )
    document = Document()
    if pictures := sum(map(len, shown)):
        empty = sum(bool(boxes) and not lines for boxes, lines in zip(shown, pages, strict=True))
        scans = f"; {counted(empty, 'page')} without text, such as a scan" if empty else ""
        document.notes.append(f"{counted(pictures, 'picture')} inside the PDF left out{scans}")
    edges = _edge_lines(pages, pdf.get_metadata_value("Title"))
    furniture = dict.fromkeys([*edges, *_contents(pages), *_captions(pages, shown)])
    document.left_out = [LeftOut("page furniture", line.text) for line in furniture]
    document.blocks = _blocks([line for page in pages for line in page if line not in furniture])
    return document


def _lines_of(text: pypdfium2.PdfTextPage, page: int) -> Iterator[_Line]:
    """Lines of a page, in the order of the file."""
    count = text.count_chars()
    codes = [pdfium.FPDFText_GetUnicode(text, place) for place in range(count)]
    start = 0
    for place in range(count + 1):
        parted = place < count and chr(codes[place]) in _HYPHENS
        if place == count or parted or codes[place] in (10, 13):
            line = _line(text, codes, start, place, page, hyphened=parted)
            if line is not None:
                yield line
            start = place + 1


def _line(
    page_text: pypdfium2.PdfTextPage, codes: Sequence[int], start: int, end: int, page: int, *, hyphened: bool
) -> _Line | None:
    """Build a line from the letters between two positions; None if it has no words."""
    places = [place for place in range(start, end) if codes[place] > 32 and codes[place] != 0xA0]
    if not places:
        return None
    text = "".join(map(chr, codes[start:end])).translate(_LIGATURES)
    text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    text = "".join(letter for letter in text if letter.isspace() or unicodedata.category(letter) != "Cc")
    text = _SYMBOL.sub("•", " ".join(text.split()))
    sample = [places[0], places[len(places) // 2], places[-1]]
    boxes: list[_Box] = []
    for place in sample:
        try:
            boxes.append(page_text.get_charbox(place, loose=True))
        except RuntimeError:  # raised by pypdfium2 for a letter without a position
            continue
    if not boxes or not text:
        return None
    fonts = [_font(page_text, place) for place in sample]
    return _Line(
        text=text,
        page=page,
        left=min(box[0] for box in boxes),
        right=max(box[2] for box in boxes),
        low=median(box[1] for box in boxes),
        high=median(box[3] for box in boxes),
        size=median(box[3] - box[1] for box in boxes),
        bold=all(map(_BOLD.search, fonts)),
        mono=all(map(_MONO.search, fonts)),
        hyphened=hyphened,
    )


def _font(page_text: pypdfium2.PdfTextPage, place: int) -> str:
    """Name of the font of a letter."""
    name, flags = ctypes.create_string_buffer(128), ctypes.c_int()
    pdfium.FPDFText_GetFontInfo(page_text, place, name, 128, flags)
    return name.value.decode("utf-8", "replace")


def _edge_lines(pages: Sequence[Sequence[_Line]], title: str) -> list[_Line]:
    """Page numbers, headers and footers.

    Args:
        pages: lines of each page.
        title: title stated by the file, or "".
    """
    edges = [_edges(page) for page in pages]
    repeated = Counter(key for edge in edges for key in {_key(line, at) for at, line in edge})
    numbered = Counter(  # difference of a number from the index of its page, and its position
        (shift, at < 0, round(line.low / 4))
        for place, edge in enumerate(edges)
        for at, line in edge
        for shift in {number - place for number in _numbers(line)}
    )
    most, numbers = max(2, min(3, len(pages))), 2 if len(pages) < 5 else 3
    found: list[_Line] = []
    for place, edge in enumerate(edges):
        ended: set[bool] = set()  # sides of the page on which the text has been reached
        for at, line in edge:
            is_foot = at < 0
            same_shift = [numbered[number - place, is_foot, round(line.low / 4)] for number in _numbers(line)]
            words = line.text.removeprefix(title).strip() if title and place else line.text
            is_number = words.isdecimal() and int(words) == place + 1 and len(pages) > 1
            is_number = is_number or (bool(_ROMAN.fullmatch(line.text)) and len(pages) > 2)
            repeats = max(same_shift, default=0) >= numbers or repeated[_key(line, at)] >= most
            if is_foot in ended or not (repeats or is_number or _PRINTED.fullmatch(line.text)):
                ended.add(is_foot)
            else:
                found.append(line)
    return found


def _edges(page: Sequence[_Line]) -> list[tuple[int, _Line]]:
    """Lines at the top of a page, numbered from 0, and at the bottom, from −1."""
    ordered = sorted(page, key=lambda line: -line.low)
    heads, feet = ordered[:_EDGES], ordered[: -_EDGES - 1 : -1]
    return [*enumerate(heads), *((-1 - place, line) for place, line in enumerate(feet))]


def _key(line: _Line, at: int) -> tuple[bool, int, str]:
    """Key by which lines of several pages count as equal: position, height, and text without numbers."""
    return at < 0, round(line.low / 4), _NUMBER.sub("#", line.text)


def _numbers(line: _Line) -> set[int]:
    """Numbers at the beginning or end of a line."""
    return {
        int(match[0])
        for match in _NUMBER.finditer(line.text)
        if not re.search(r"\w", line.text[: match.start()]) or not re.search(r"\w", line.text[match.end() :])
    }


def _contents(pages: Iterable[Sequence[_Line]]) -> list[_Line]:
    """Lines of a table of contents."""
    found: list[_Line] = []
    for page in pages:
        dotted = [line for line in page if _DOTS.search(line.text)]
        found += dotted if len(dotted) < 3 else [line for line in page if _ENTRY.search(line.text)]
    return found


def _captions(pages: Sequence[Sequence[_Line]], shown: Sequence[Sequence[_Box]]) -> list[_Line]:
    """Small lines right below a picture, and those that continue them."""
    body = _body_size(line for page in pages for line in page)
    found: list[_Line] = []
    for page, boxes in zip(pages, shown, strict=True):
        last: _Line | None = None
        for line in page:
            below = any(
                left < line.right and line.left < right and -line.size < low - line.high < 1.5 * line.size
                for left, low, right, _ in boxes
            )
            goes_on = last is not None and _alike(last, line) and 0 < last.low - line.low < 2 * line.size
            last = line if line.size < 0.95 * body and (below or goes_on) else None
            found += [line] if last is not None else []
    return found


def _blocks(lines: Sequence[_Line]) -> list[Block]:
    """Combine lines into paragraphs and code."""
    if not lines:
        return []
    body = _body_size(lines)
    if 2 * sum(len(line.text) for line in lines if line.mono) > sum(len(line.text) for line in lines):
        lines = [replace(line, mono=False) for line in lines]  # a font of the whole text has no meaning
    falls = [
        above.low - line.low
        for above, line in pairwise(lines)
        if above.page == line.page and _alike(above, line) and 0 < above.low - line.low < 3 * line.size
    ]
    # usual line spacing as a share of the size; at least half of all lines are inside paragraphs
    leading = (median(falls) / body) if falls else 1.2
    words = Counter(word.lower() for line in lines for word in _COMPOUND.findall(line.text))
    groups: list[list[_Line]] = []
    wide: dict[int, float] = {}
    for line in lines:
        wide[line.page] = max(wide.get(line.page, 0.0), line.width)
    for line in lines:
        if groups and not _begins(groups[-1], line, leading, wide):
            groups[-1].append(line)
        else:
            groups.append([line])
    larger = sorted({_rounded(group[0].size) for group in groups if _is_larger(group[0], body)}, reverse=True)
    blocks: list[Block] = []
    numbered: _Line | None = None  # the first line of the last paragraph that begins with a number
    for group in groups:
        first, text = group[0], _joined(group, words)
        marker = marker_of(text)
        if all(line.mono for line in group):
            text = "\n".join(line.text for line in group)
            if blocks and blocks[-1].kind == "code":
                text = f"{blocks.pop().text}\n{text}"
            blocks.append(Block(kind="code", text=text))
        elif marker and marker.rest and numbered is not None and first.left > numbered.left + first.size:
            blocks.append(Block(kind="item", text=marker.rest, number=marker.number, depth=2))
        else:
            numbered = first if marker else numbered
            bold = all(line.bold for line in group)
            looks: list[Look] = ["bold"] if bold else []
            level = 0
            if _is_larger(first, body):
                level, numbered = min(6, 1 + larger.index(_rounded(first.size))), None
                looks.append("larger")
            marks = (Mark(start=0, end=len(text), kind="strong"),) if bold else ()
            blocks.append(Block(text=text, marks=marks, look=tuple(looks), level=level))
    return blocks


def _body_size(lines: Iterable[_Line]) -> float:
    """Font size of most letters."""
    sizes = Counter[float]()
    for line in lines:
        sizes[_rounded(line.size)] += len(line.text)
    return max(sizes, key=sizes.__getitem__, default=0.0)


def _rounded(size: float) -> float:
    return round(size * 2) / 2


def _is_larger(line: _Line, body: float) -> bool:
    return line.size > 1.12 * body


def _alike(line: _Line, other: _Line) -> bool:
    return abs(line.size - other.size) < 0.1 * max(line.size, other.size)


def _begins(group: Sequence[_Line], line: _Line, leading: float, wide: dict[int, float]) -> bool:
    """Whether a line begins a new paragraph after a group of lines."""
    last = group[-1]
    fall = last.low - line.low
    beside = last.page == line.page and abs(fall) < 0.4 * min(last.size, line.size)
    if last.hyphened or beside:  # raised letters or table cells on the same line
        return False
    other = not _alike(last, line) or last.bold != line.bold or last.mono != line.mono
    if other or BULLET.match(line.text) or marker_of(line.text):
        return True
    ended = bool(_SENTENCE_END.search(last.text))
    is_short = last.width < 0.75 * max(wide[last.page], wide[line.page])
    if last.page != line.page or fall < 0:  # on the next page or in the next column
        return ended or (line.text[:1].isupper() and is_short)
    return fall > 1.35 * leading * line.size or (ended and is_short) or _shifts(group, line, ended=ended)


def _shifts(group: Sequence[_Line], line: _Line, *, ended: bool) -> bool:
    """Whether a line is indented, like the first of a paragraph, or outdented, as after an item."""
    last, first = group[-1], group[0]
    shift = (line.left - last.left) / line.size
    hanging = len(group) == 1 and bool(BULLET.match(first.text) or marker_of(first.text))
    return (shift > 0.7 and not hanging and ended) or (shift < -0.7 and (len(group) > 1 or hanging))


def _joined(group: Sequence[_Line], words: Counter[str]) -> str:
    """Text of several lines, with hyphenated words joined."""
    text, hyphened = "", False
    for line in group:
        if not text:
            text = line.text
        elif hyphened:
            text += line.text
        elif re.search(r"\w[-\u2010]$", text) and line.text[:1].islower():
            last = re.search(r"\w+[-\u2010]$", text)
            following = re.match(r"\w+", line.text)
            whole = f"{last[0][:-1]}-{following[0]}".lower() if last and following else ""
            text = (text if words[whole] else text[:-1]) + line.text
        elif _UNSPACED.match(text[-1]) and _UNSPACED.match(line.text):
            text += line.text
        else:
            text += f" {line.text}"
        hyphened = line.hyphened
    return text
