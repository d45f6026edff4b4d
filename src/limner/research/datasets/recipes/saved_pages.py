"""One saved page as pieces of words and pictures, and pieces merged into segments with one picture each.

Readers in turn: steps that the page declares with pictures; declared words, or those of a known recipe
site's own scraper, with the pictures around them; the layout of the page: cards, explicit steps, pictures
between words.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal
from urllib.parse import urljoin, urlsplit

from limner.errors import DataError, MissingError
from limner.records import PictureRef, Step
from limner.research.datasets.recipes.layout import (
    PictureOrder,
    cards_with_steps,
    file_name,
    picture_order,
    step_starts,
    steps_of_page,
    without_captions,
    words_first,
)
from limner.text.document import Block, Document, LeftOut, check_count, pictures_of
from limner.text.html import declared_document, letters_of, read_html
from limner.text.html_blocks import collapse, parse_tree
from limner.text.markdown import read_markdown
from limner.text.plain import marker_of, names_method
from limner.text.read import decode_text
from limner.text.segment import cut, join_continuations, mark_steps, split_sections, text_of

if TYPE_CHECKING:
    from lxml.etree import _Element as Element


@dataclass(frozen=True)
class SavedPiece:
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


def pieces_of_steps(steps: Iterable[Step], title: str = "") -> list[SavedPiece]:
    """One piece per explicit step, a heading in front of the first step under it.

    Args:
        steps: in order.
        title: title of the page; as a heading of steps it says nothing of any.
    """
    pieces, last = [], title
    for step in steps:
        known = step.title in (title, last) or names_method(step.title)
        heading = "" if known else step.title
        pieces.append(SavedPiece("\n".join(filter(None, (heading, step.text))), step.pictures))
        last = step.title
    return pieces


def pieces_of_blocks(blocks: Sequence[Block], order: PictureOrder = "after") -> list[SavedPiece]:
    """Pieces of a text without explicit steps: each picture closes what stands since the one before.

    Where pictures stand before their words, each opens a piece instead.

    Source: VRSS 2020, Section 3; docs/methods/data.md §3.2.
    Departs: the paper knows pictures after their words alone.
    """
    pieces: list[SavedPiece] = []
    since: list[Block] = []
    for block in blocks:
        if block.pictures and order == "before" and since:
            pieces.append(_piece(since))
            since = []
        if block.kind != "break":
            since.append(block)
        if block.pictures and order != "before":
            pieces.append(_piece(since))
            since = []
    return [*pieces, _piece(since)] if since else pieces


def _piece(blocks: Sequence[Block]) -> SavedPiece:
    return SavedPiece(text_of(blocks), pictures_of(blocks))


def one_picture_each(pieces: Iterable[SavedPiece]) -> tuple[list[Segment], list[LeftOut]]:
    """Merge pieces until each has exactly one picture.

    A piece without a picture goes to the next one, a trailing one to the previous; of several pictures the
    first is kept; a picture without words is dropped.

    Returns:
        Segments in order, and what was dropped.
    Source: VRSS 2020, Section 3; docs/methods/data.md §3.2.
    """
    segments: list[Segment] = []
    removed: list[LeftOut] = []
    waiting: list[str] = []
    for piece in pieces:
        if text := piece.text.strip():
            waiting.append(text)
        rule, lost = "picture without words", piece.pictures
        if waiting and piece.pictures:
            segments.append(Segment("\n\n".join(waiting), piece.pictures[0]))
            rule, lost = "further picture of a step", piece.pictures[1:]
            waiting = []
        removed += [LeftOut(rule, one.alt, (one.target,)) for one in lost]
    words = "\n\n".join(waiting)
    if words and segments:
        segments[-1] = Segment(f"{segments[-1].text}\n\n{words}", segments[-1].picture)
    elif words:
        removed.append(LeftOut("words without any picture", words))
    return segments, removed


Reader = Literal[
    "declared steps",
    "known site",
    "declared words",
    "cards",
    "explicit steps",
    "pictures close segments",
    "recipeqa",
]
MAX_BYTES = 20_000_000
_SAVED_FROM = re.compile(r"<!--\s*saved from url=\(\d+\)(\S+)\s*-->", re.IGNORECASE)
_FEWEST_LETTERS = 12
_MOST_PARAGRAPHS = 10_000
"""Of one page: the readers of layouts compare them with each other."""


@dataclass(frozen=True)
class SavedPage:
    """Result of reading a page.

    Attributes:
        where: file or URL it was read from.
        url: where it stands on the web, as far as known; "".
        source: its site, or the folder it was found in.
        title, author, license, language: as stated, or "".
        reader: how its pieces were found.
        order: where its pictures stand.
        pieces: in reading order; a piece may have no picture, or several.
        left_out: what was cut away while reading.
    """

    where: str
    url: str
    source: str
    title: str
    author: str
    license: str
    language: str
    reader: Reader
    order: PictureOrder
    pieces: tuple[SavedPiece, ...]
    left_out: tuple[LeftOut, ...] = field(default=(), repr=False)


def read_page(data: bytes, where: str, base: Path | None, url: str = "") -> SavedPage:
    """Read a page: HTML, or Markdown by the suffix of its name.

    Args:
        data: its bytes.
        where: file name or URL, for messages.
        base: folder that relative picture paths start from; None for a page off the web.
        url: where it came from, if known; a saved page may say so itself.
    Raises:
        DataError: too large, not text, no words, or nested too deeply.
        MissingError: the readers of known sites are not installed.
    """
    if len(data) > MAX_BYTES:
        raise DataError(f"{where}: larger than {MAX_BYTES // 10**6} MB; expected one page; split it")
    markdown = where.lower().endswith((".md", ".markdown"))
    text, _ = decode_text(data, where, html=not markdown)
    text = text.replace("\0", "")
    if markdown:
        document = read_markdown(text, where, base)
        check_count(len(document.blocks), where, _MOST_PARAGRAPHS)
        found = _general(document, where, set())
    elif not text.strip():
        raise DataError(f"{where}: is empty; expected an HTML page")
    else:
        root = parse_tree(text, where)
        url = url or _own_address(text, root)
        document, found = _read_html(text, root, where, base, url)
    host = (urlsplit(url).hostname or "") if url else ""
    return SavedPage(
        where=where,
        url=url,
        source=host.removeprefix("www.") or (base.name if base else ""),
        title=_title(document),
        author=document.author,
        license=document.license,
        language=document.language,
        reader=found.reader,
        order=found.order,
        pieces=tuple(
            SavedPiece(piece.text, tuple(_absolute(one, url) for one in piece.pictures))
            for piece in found.pieces
        ),
        left_out=tuple(document.left_out),
    )


@dataclass(frozen=True)
class _Found:
    """Pieces, how they were found, and where their pictures stand."""

    reader: Reader
    pieces: list[SavedPiece]
    order: PictureOrder = "beside"


def _read_html(text: str, root: Element, where: str, base: Path | None, url: str) -> tuple[Document, _Found]:
    """A page by the first of the readers that finds its pictures."""
    lost: list[str] = []
    declared = declared_document(root, base, lost)
    if declared and sum(bool(step.pictures) for step in declared.steps) >= 2:
        document = read_html(text, where, base)
        document.left_out += map(LeftOut, lost)
        return document, _Found("declared steps", pieces_of_steps(document.steps, document.title))
    # declared steps without pictures are no steps of the set: the page is read as if it had declared none
    document = read_html(text, where, base, declared=False)
    check_count(len(document.blocks), where, _MOST_PARAGRAPHS)
    document.blocks, captions = without_captions(document.blocks)
    document.left_out += [*captions, *map(LeftOut, lost)]
    title, author = (declared.title, declared.author) if declared else ("", "")
    ways: list[tuple[Reader, list[str]]] = []
    if known := _known_site(text, url):
        words, title, author = known
        ways.append(("known site", words))
    if declared:
        ways.append(("declared words", [step.text for step in declared.steps]))
        document.license = declared.license or document.license
    document.title, document.author = title or document.title, author or document.author
    for reader, words in ways:
        check_count(len(words), where, _MOST_PARAGRAPHS)
        found = _aligned(words, document.blocks, reader)
        if _pictured(found.pieces) >= 2:
            return document, found
    shown = root.xpath("//meta[@property='og:image' or @name='twitter:image']/@content")
    return document, _general(document, where, {file_name(one) for one in shown if one})


def _absolute(picture: PictureRef, url: str) -> PictureRef:
    """The picture with its full address, unless its file is there."""
    if not picture.path and url:
        with suppress(ValueError):  # no address at all; it will be counted as not to be had
            return picture.model_copy(update={"target": urljoin(url, picture.target)})
    return picture


def _general(document: Document, where: str, whole: set[str]) -> _Found:
    """Cards or explicit steps where they hold the page's pictures; else pictures part the words."""
    if not document.steps and not document.blocks:
        raise DataError(f"{where}: no words in the main content; expected a page with steps")
    title = _title(document)
    shown = [
        replace(one, kind="heading", level=1) if one.text == title and one.kind == "paragraph" else one
        for one in document.blocks
    ]
    blocks, outside = steps_of_page(shown, whole | {title} - {""})
    starts = step_starts(blocks)
    order = picture_order(blocks, starts)
    named = [one.kind == "heading" and (one.text == title or names_method(one.text)) for one in blocks]
    words = [one for one, is_name in zip(blocks, named, strict=True) if not is_name or one.pictures]
    by_picture = pieces_of_blocks(words, order)
    if order == "before" and by_picture and not by_picture[0].pictures:
        outside.append(LeftOut("before the steps", by_picture.pop(0).text))
    most = min(2, _pictured(by_picture))
    steps: list[SavedPiece] = []
    cards, beside = cards_with_steps(blocks)
    if document.steps or _has_explicit(blocks):
        ordered = words_first(blocks) if order == "before" else blocks
        made = cut(replace(document, blocks=ordered), "step", where)
        steps = pieces_of_steps(made.steps, title)
    in_cards = [_card(one) for one in cards]
    if _pictured(in_cards) >= max(2, _pictured(steps)):
        found = _Found("cards", in_cards)
        outside += beside
    elif steps and _pictured(steps) >= most:
        found = _Found("explicit steps", steps, order)
        outside += made.left_out
    else:
        found = _Found("pictures close segments", by_picture, order)
    document.left_out += [one for one in outside if one.text or one.pictures]
    return found


def _card(blocks: Sequence[Block]) -> SavedPiece:
    """A card as a piece, without the number in front of its words."""
    worded = [block for block in blocks if not block.text.strip(" .:)#").isdecimal() or block.pictures]
    return _piece([replace(block, kind="paragraph") for block in worded])


def _title(document: Document) -> str:
    """The title of a page: as stated, or its one heading of the first level."""
    first = [block.text for block in document.blocks if block.kind == "heading" and block.level == 1]
    return document.title or (first[0] if len(first) == 1 else "")


def _pictured(pieces: list[SavedPiece]) -> int:
    return sum(bool(piece.pictures) for piece in pieces)


def _has_explicit(blocks: list[Block]) -> bool:
    """Two or more items of a numbered list, or headings that count steps."""
    marked = mark_steps(blocks)
    items = sum(block.kind == "item" and block.ordered for block in join_continuations(marked))
    headings = sum(marker_of(section.title) is not None for section in split_sections(blocks))
    return items >= 2 or headings >= 2


def _own_address(text: str, root: Element) -> str:
    """The address a saved page states: by the browser that saved it, or as its canonical link."""
    stated = root.xpath("//link[@rel='canonical']/@href") + root.xpath("//meta[@property='og:url']/@content")
    for candidate in [*_SAVED_FROM.findall(text[:4096])[:1], *map(str.strip, stated)]:
        with suppress(ValueError):
            parts = urlsplit(candidate)
            if parts.scheme in ("http", "https") and parts.hostname:
                return str(candidate)
    return ""


def _known_site(text: str, url: str) -> tuple[list[str], str, str] | None:
    """Instructions, title and author by the scraper of the page's site, if it is a known one."""
    if not url or not urlsplit(url).hostname:
        return None
    try:
        from recipe_scrapers import scrape_html  # type: ignore[import-untyped, unused-ignore]
    except ModuleNotFoundError:
        raise MissingError(
            "recipe-scrapers is not installed; it reads known recipe sites; pip install 'limner[recipes]'"
        ) from None
    # A scraper is written for a site's pages of one day, and on others it raises what it happens to; the
    # general extractor then reads the page, and the reader that was used is recorded.
    try:
        scraper = scrape_html(text, org_url=url, supported_only=True)
    except Exception:
        return None

    def stated(name: str) -> list[str]:
        with suppress(Exception):
            value = getattr(scraper, name)()
            values = value if isinstance(value, list) else [value]
            return [collapse(one) for one in values if isinstance(one, str)]
        return []

    words = stated("instructions_list")
    return (list(filter(None, words)), "".join(stated("title")), "".join(stated("author"))) if words else None


def _aligned(words: list[str], blocks: list[Block], reader: Reader) -> _Found:
    """Known steps with the pictures that stand beside them on the page, up to the next step."""
    pictures: list[list[PictureRef]] = [[] for _ in words]
    wanted = [letters_of(one.lower()) for one in words]
    places = [
        place
        for place, block in enumerate(blocks)
        if any(_same(step, letters_of(block.text.lower())) for step in wanted)
    ]
    order = picture_order(blocks, places)
    current = -1
    for block in words_first(blocks) if order == "before" else blocks:
        letters = letters_of(block.text.lower())
        later = range(max(current, 0), len(words))
        found = next((number for number in later if _same(wanted[number], letters)), None)
        if found is None and letters and current == len(words) - 1:
            break  # what follows the last step belongs to no step
        current = current if found is None else found
        if current >= 0:
            pictures[current] += block.pictures
    pieces = [SavedPiece(text, tuple(own)) for text, own in zip(words, pictures, strict=True)]
    return _Found(reader, pieces, order)


def _same(step: str, block: str) -> bool:
    return len(block) >= _FEWEST_LETTERS and bool(step) and (step in block or block in step)
