"""Reads the text of a PDF: lines joined into paragraphs, without page numbers, headers and footers.

A PDF says where letters are, not what they belong to. pdfium finds the letters; paragraphs, headings and
items are recognised by where their lines begin and end, by their size and by the gaps between them.
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
from typing import TYPE_CHECKING

from limner.errors import DataError, MissingError, counted
from limner.records import Part
from limner.text.document import Block, Document, LeftOut
from limner.text.plain import marker_of

if TYPE_CHECKING:
    from pypdfium2 import PdfDocument, PdfPage, PdfTextPage

MAX_PAGES, MAX_LETTERS, MAX_ON_PAGE = 3_000, 10_000_000, 200_000
"""Maximum number of pages, of letters in all, and of letters on one page."""
_HYPHENS = "\ufffe\x02\u00ad"
"""Placeholders where pdfium has joined a hyphenated word; a soft hyphen is one, too."""
_LIGATURES = {
    0xFB00: "ff",
    0xFB01: "fi",
    0xFB02: "fl",
    0xFB03: "ffi",
    0xFB04: "ffl",
    0xFB05: "st",
    0xFB06: "st",
}
_SPACES = re.compile(r"\s+")
_SENTENCE_END = re.compile(r"[.!?…:;。！？।؟۔։።៕][\"'”’»)\]」』]*$")
_BULLET = re.compile(r"[*•‣◦▪●·–\ue000-\uf8ff-][ \t]+(?=\S)")
_NUMBER = re.compile(r"\d{1,4}(?!\d)")
_WORD = re.compile(r"\w")
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
_LONGEST_HEADING = 200
_Box = tuple[float, float, float, float]
"""Left, bottom, right and top, in points."""
_PRINTED = re.compile(
    r"(?:\w+\.? )?\d{1,4} ?(?:/|of|von|de|di|sur|из) ?\d{1,4}"
    r"|(?:https?|file)://\S+ \d{1,4}/\d{1,4}"
    r"|\d{1,4}[./-]\d{1,2}[./-]\d{2,4},? \d{1,2}:\d{2}.*",
    re.IGNORECASE,
)
"""Page 1 of 2, and what browsers print above and below a page: date and title, address and page number."""
_EDGES = 3
"""Number of lines at the top and bottom of a page that may not belong to its text."""


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
        MissingError: pypdfium2 is not installed.
        DataError: the file is encrypted, damaged, contains only pictures, or exceeds a limit.
    """
    try:
        import pypdfium2
    except ModuleNotFoundError:
        raise MissingError(
            f"{where}: is a PDF, and pypdfium2, which reads them, is not installed; pip install"
            " 'limner[documents]', or save it as text"
        ) from None
    try:
        pdf = pypdfium2.PdfDocument(data)
    except pypdfium2.PdfiumError as error:
        if "password" in str(error).lower():
            raise DataError(f"{where}: is an encrypted PDF; remove its password and save it again") from None
        raise DataError(
            f"{where}: a damaged PDF ({str(error)[:80]}); expected one that opens elsewhere; save it again"
        ) from None
    try:
        return _document(pdf, where)
    except pypdfium2.PdfiumError as error:
        raise DataError(f"{where}: a damaged PDF ({str(error)[:80]}); print it or save it again") from None
    finally:
        pdf.close()


def _document(pdf: PdfDocument, where: str) -> Document:
    count = len(pdf)
    if count > MAX_PAGES:
        raise DataError(
            f"{where}: a PDF of {counted(count, 'page')}; expected at most {MAX_PAGES:,}; split it"
        )
    pages: list[list[_Line]] = []
    shown: list[list[_Box]] = []
    document, letters, empty = Document(), 0, 0
    for number in range(count):
        page = pdf[number]
        lines = list(_lines_of(page, number, where))
        pictures = _pictures_on(page)
        page.close()
        letters += sum(len(line.text) for line in lines)
        if letters > MAX_LETTERS:
            raise DataError(
                f"{where}: a PDF of more than {MAX_LETTERS // 10**6} million letters; expected a text that"
                " one can read; split it"
            )
        shown.append(pictures)
        if pictures:
            named = (f"page {number + 1}",) * len(pictures)
            document.left_out.append(LeftOut("picture inside the PDF", pictures=named))
        empty += bool(pictures) and not lines
        pages.append(lines)
    if not letters:
        raise DataError(
            f"{where}: {counted(count, 'page')} without text, such as a scan; expected a PDF with"
            " text; add it with an OCR program, such as ocrmypdf"
        )
    if empty:
        document.notes.append(f"{counted(empty, 'page')} of pictures without text, such as a scan, left out")
    _without_edges(pages, document, pdf.get_metadata_value("Title"))
    _without_captions(pages, shown, document)
    document.blocks = _blocks([line for page in pages for line in page])
    return document


def _pictures_on(page: PdfPage) -> list[_Box]:
    """Positions of the pictures of a page."""
    import pypdfium2.raw as pdfium

    found = page.get_objects(filter=[pdfium.FPDF_PAGEOBJ_IMAGE], max_depth=4)
    return [one.get_bounds() for one in found]


def _without_captions(
    pages: Sequence[list[_Line]], shown: Sequence[Sequence[_Box]], document: Document
) -> None:
    """Remove and count small lines right below a picture, and those that continue them."""
    body = _body_size(line for page in pages for line in page)
    for page, boxes in zip(pages, shown, strict=True):
        last: _Line | None = None
        for line in list(page):
            below = any(
                left < line.right and line.left < right and -line.size < low - line.high < 1.5 * line.size
                for left, low, right, _ in boxes
            )
            goes_on = last is not None and _alike(last, line) and 0 < last.low - line.low < 2 * line.size
            last = line if line.size < 0.95 * body and (below or goes_on) else None
            if last is not None:
                page.remove(line)
                document.left_out.append(LeftOut("caption of a picture", line.text))


def _lines_of(page: PdfPage, number: int, where: str) -> Iterator[_Line]:
    """Lines of a page, in the order of the file."""
    import pypdfium2.raw as pdfium

    found = page.get_textpage()
    try:
        count = found.count_chars()
        if count > MAX_ON_PAGE:
            raise DataError(
                f"{where}: page {number + 1} has {counted(count, 'letter')}; expected at most"
                f" {MAX_ON_PAGE:,}; split it"
            )
        codes = [pdfium.FPDFText_GetUnicode(found, place) for place in range(count)]
        start = 0
        for place in range(count + 1):
            parted = place < count and chr(codes[place]) in _HYPHENS
            if place == count or parted or codes[place] in (10, 13):
                line = _line(found, codes, start, place, number, hyphened=parted)
                if line is not None:
                    yield line
                start = place + 1
    finally:
        found.close()


def _line(
    found: PdfTextPage, codes: Sequence[int], start: int, end: int, page: int, *, hyphened: bool
) -> _Line | None:
    """Build a line from the letters between two positions; None if it has no words."""
    places = [place for place in range(start, end) if codes[place] > 32 and codes[place] != 0xA0]
    if not places:
        return None
    text = "".join(map(chr, codes[start:end])).translate(_LIGATURES)
    text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    text = "".join(letter for letter in text if letter.isspace() or unicodedata.category(letter) != "Cc")
    text = _SPACES.sub(" ", text).strip()
    looked = [places[0], places[len(places) // 2], places[-1]]
    boxes = [box for box in (_box(found, place) for place in looked) if box is not None]
    if not boxes or not text:
        return None
    fonts = [_font(found, place) for place in looked]
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


def _box(found: PdfTextPage, place: int) -> _Box | None:
    """Left, bottom, right and top of a letter, with the height of its font."""
    try:
        left, bottom, right, top = found.get_charbox(place, loose=True)
    except RuntimeError:  # raised by pypdfium2 for a letter without a position
        return None
    return left, bottom, right, top


def _font(found: PdfTextPage, place: int) -> str:
    """Name of the font of a letter."""
    import pypdfium2.raw as pdfium

    name, flags = ctypes.create_string_buffer(128), ctypes.c_int()
    pdfium.FPDFText_GetFontInfo(found, place, name, 128, flags)
    return name.value.decode("utf-8", "replace")


def _without_edges(pages: list[list[_Line]], document: Document, title: str) -> None:
    """Remove and count page numbers, headers, footers and lines of a table of contents.

    Args:
        pages: lines of each page; those that are not text are removed.
        document: receives notes on what was removed.
        title: title stated by the file, or "".
    """
    edges = [_edges(page) for page in pages]
    repeated = Counter(key for edge in edges for key in {_key(line, at) for at, line in edge})
    numbered = Counter(  # difference of a number from the index of its page, and its position
        (shift, at < 0, round(line.low / 4))
        for place, edge in enumerate(edges)
        for at, line in edge
        for shift in {int(value) - place for value in _numbers(line)}
    )
    most, numbers = max(2, min(3, len(pages))), 2 if len(pages) < 5 else 3
    for place, page in enumerate(pages):
        lines = dict(edges[place])
        for side in (range(_EDGES), range(-1, -_EDGES - 1, -1)):
            for at in side:
                line = lines.get(at)
                if line is None or line not in page:
                    break
                at_same_height = max(
                    (numbered[int(value) - place, at < 0, round(line.low / 4)] for value in _numbers(line)),
                    default=0,
                )
                words = line.text.removeprefix(title).strip() if title and place else line.text
                alone = words.isdecimal() and int(words) == place + 1 and len(pages) > 1
                roman = bool(_ROMAN.fullmatch(line.text)) and len(pages) > 2
                alone = alone or _PRINTED.fullmatch(line.text) is not None
                is_beside = at_same_height >= numbers or repeated[_key(line, at)] >= most
                if not (is_beside or alone or roman):
                    break
                page.remove(line)
                document.left_out.append(LeftOut("page number, header or footer", line.text))
        dotted = [line for line in page if _DOTS.search(line.text)]
        entries = dotted if len(dotted) < 3 else [line for line in page if _ENTRY.search(line.text)]
        for line in entries:
            page.remove(line)
            document.left_out.append(LeftOut("line of a table of contents", line.text))


def _edges(page: Sequence[_Line]) -> list[tuple[int, _Line]]:
    """Lines at the top of a page, numbered from 0, and at the bottom, from −1."""
    ordered = sorted(page, key=lambda line: -line.low)
    heads, feet = ordered[:_EDGES], ordered[: -_EDGES - 1 : -1]
    return [*enumerate(heads), *((-1 - place, line) for place, line in enumerate(feet))]


def _key(line: _Line, at: int) -> tuple[bool, int, str]:
    """Key by which lines of several pages count as equal: position, height, and text without numbers."""
    return at < 0, round(line.low / 4), _NUMBER.sub("#", line.text)


def _numbers(line: _Line) -> set[str]:
    """Numbers at the beginning or end of a line."""
    return {
        found[0]
        for found in _NUMBER.finditer(line.text)
        if not _WORD.search(line.text[: found.start()]) or not _WORD.search(line.text[found.end() :])
    }


def _blocks(lines: Sequence[_Line]) -> list[Block]:
    """Combine lines into paragraphs, headings, items and code."""
    if not lines:
        return []
    body = _body_size(lines)
    coded = sum(len(line.text) for line in lines if line.mono)
    if 2 * coded > sum(
        len(line.text) for line in lines
    ):  # if the whole text is in a monospaced font, the font has no meaning
        lines = [replace(line, mono=False) for line in lines]
    steps = [
        above.low - line.low
        for above, line in pairwise(lines)
        if above.page == line.page and _alike(above, line) and 0 < above.low - line.low < 3 * line.size
    ]
    # usual line spacing as a share of the size; at least half of all lines are inside paragraphs
    leading = (median(steps) / body) if steps else 1.2
    words = Counter(word.lower() for line in lines for word in _COMPOUND.findall(line.text))
    groups: list[list[_Line]] = []
    wide = _widths(lines)
    for line in lines:
        if groups and not _begins(groups[-1], line, leading, wide):
            groups[-1].append(line)
        else:
            groups.append([line])
    larger = sorted({_rounded(group[0].size) for group in groups if _is_larger(group, body)}, reverse=True)
    return _made(groups, body, larger, words)


def _made(
    groups: list[list[_Line]], body: float, larger: Sequence[float], words: Counter[str]
) -> list[Block]:
    blocks: list[Block] = []
    listed = 0
    numbered: _Line | None = None  # the first line of the last item that is numbered
    for group in groups:
        text = _joined(group, words)
        if marker_of(text):
            deeper = numbered is not None and group[0].left > numbered.left + group[0].size
            if deeper and blocks and blocks[-1].kind in ("paragraph", "item"):
                blocks[-1] = replace(blocks[-1], text=f"{blocks[-1].text}\n  {text}")
                continue
            numbered = group[0]
        bullet = _BULLET.match(text)
        listed = listed if bullet and blocks and blocks[-1].kind == "item" else listed + 1
        bold = all(line.bold for line in group) and len(group) <= 2 and not _SENTENCE_END.search(text)
        if _is_larger(group, body) and len(text) <= _LONGEST_HEADING:
            level = 1 + larger.index(_rounded(group[0].size))
            numbered = None
            blocks.append(Block("heading", text, min(6, level)))
        elif bold and not bullet and len(text) <= _LONGEST_HEADING:
            blocks.append(Block("heading", text, min(6, 2 + len(larger))))
        elif all(line.mono for line in group):
            code = "\n".join(line.text for line in group)
            if blocks and blocks[-1].kind == "verbatim":
                code = f"{blocks.pop().text}\n{code}"
            blocks.append(Block("verbatim", code, parts=(Part(kind="code", text=code),)))
        elif bullet:
            blocks.append(Block("item", text[bullet.end() :], list_id=listed))
        else:
            blocks.append(Block("paragraph", text))
    return blocks


def _body_size(lines: Iterable[_Line]) -> float:
    """Font size of most letters."""
    sizes = Counter[float]()
    for line in lines:
        sizes[_rounded(line.size)] += len(line.text)
    return max(sizes, key=sizes.__getitem__, default=0.0)


def _rounded(size: float) -> float:
    return round(size * 2) / 2


def _is_larger(group: Sequence[_Line], body: float) -> bool:
    return group[0].size > 1.12 * body


def _alike(one: _Line, other: _Line) -> bool:
    return abs(one.size - other.size) < 0.1 * max(one.size, other.size)


def _widths(lines: Iterable[_Line]) -> dict[int, float]:
    """Right end of the full lines of each page, by page."""
    ends: dict[int, list[float]] = {}
    for line in lines:
        ends.setdefault(line.page, []).append(line.width)
    return {page: max(found) for page, found in ends.items()}


def _begins(group: Sequence[_Line], line: _Line, leading: float, wide: dict[int, float]) -> bool:
    """Whether a line begins a new paragraph after a group of lines."""
    last = group[-1]
    fall = last.low - line.low
    beside = last.page == line.page and abs(fall) < 0.4 * min(last.size, line.size)
    if last.hyphened or beside:  # raised letters or table cells on the same line
        return False
    other = not _alike(last, line) or last.bold != line.bold or last.mono != line.mono
    if other or _BULLET.match(line.text) or marker_of(line.text):
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
    hanging = len(group) == 1 and bool(_BULLET.match(first.text) or marker_of(first.text))
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
