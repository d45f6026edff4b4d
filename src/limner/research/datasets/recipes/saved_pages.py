"""Reads a saved page into pieces of text and pictures, and merges them into segments with one picture each.

Methods, in order of preference: 1. steps with pictures in the page's schema.org data; 2. texts from a scraper
for a known recipe site, with the pictures around them on the page; 3. the same with texts from schema.org;
4. the page's layout: cards, explicit steps, or pictures between texts.
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
    """A piece of a page: a text with its pictures.

    Attributes:
        text: "" if there are only pictures.
        pictures: pictures in order; may be empty.
    """

    text: str
    pictures: tuple[PictureRef, ...] = ()


@dataclass(frozen=True)
class Segment:
    """A text with exactly one picture."""

    text: str
    picture: PictureRef


def pieces_of_steps(steps: Iterable[Step], title: str = "") -> list[SavedPiece]:
    """One piece per explicit step; a heading is prepended to the first step under it.

    Args:
        steps: steps in order.
        title: title of the page, which is never used as a heading.
    """
    pieces, last = [], title
    for step in steps:
        known = step.title in (title, last) or names_method(step.title)
        heading = "" if known else step.title
        pieces.append(SavedPiece("\n".join(filter(None, (heading, step.text))), step.pictures))
        last = step.title
    return pieces


def pieces_of_blocks(blocks: Sequence[Block], order: PictureOrder = "after") -> list[SavedPiece]:
    """Pieces of a page without explicit steps: each picture ends a piece or, with order "before", starts one.

    Source: VRSS 2020, Section 3; docs/methods/data.md §3.2.
    Departs: in the paper, pictures always follow their text.
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
    """Merge pieces so that each segment has exactly one picture.

    A piece without a picture is merged into the next one, or at the end into the previous one. Of several
    pictures, the first is kept. A picture without text is dropped.

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
        removed += [LeftOut(rule, picture.alt, (picture.target,)) for picture in lost]
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
"""Most paragraphs per page, because some methods compare them pairwise."""


@dataclass(frozen=True)
class SavedPage:
    """Result of reading a page.

    Attributes:
        where: file or URL that was read.
        url: URL of the page, or "".
        source: its site, or its folder.
        title, author, license, language: as stated on the page, or "".
        reader: method that found its pieces.
        order: position of its pictures relative to their text.
        pieces: pieces in reading order; each may have any number of pictures.
        left_out: parts removed while reading.
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
    """Read a page: HTML, or Markdown if the name has that suffix.

    Args:
        data: its bytes.
        where: file name or URL, for messages.
        base: folder for relative picture paths; None for a downloaded page.
        url: URL of the page, if known; otherwise taken from the saved page.
    Raises:
        DataError: the page is too large, is not text, has no words, or is nested too deeply.
        MissingError: recipe-scrapers is not installed.
    """
    if len(data) > MAX_BYTES:
        raise DataError(f"{where}: larger than {MAX_BYTES // 10**6} MB; expected one page; split it")
    markdown = where.lower().endswith((".md", ".markdown"))
    text, _ = decode_text(data, where, html=not markdown)
    text = text.replace("\0", "")
    if markdown:
        document = read_markdown(text, where, base)
        check_count(len(document.blocks), where, _MOST_PARAGRAPHS)
        result = _general(document, where, set())
    elif not text.strip():
        raise DataError(f"{where}: is empty; expected an HTML page")
    else:
        root = parse_tree(text, where)
        url = url or _own_address(text, root)
        document, result = _read_html(text, root, where, base, url)
    host = (urlsplit(url).hostname or "") if url else ""
    return SavedPage(
        where=where,
        url=url,
        source=host.removeprefix("www.") or (base.name if base else ""),
        title=_title(document),
        author=document.author,
        license=document.license,
        language=document.language,
        reader=result.reader,
        order=result.order,
        pieces=tuple(
            SavedPiece(piece.text, tuple(_absolute(picture, url) for picture in piece.pictures))
            for piece in result.pieces
        ),
        left_out=tuple(document.left_out),
    )


@dataclass(frozen=True)
class _Found:
    """Pieces, the method that found them, and the position of pictures."""

    reader: Reader
    pieces: list[SavedPiece]
    order: PictureOrder = "beside"


def _read_html(text: str, root: Element, where: str, base: Path | None, url: str) -> tuple[Document, _Found]:
    """Read a page with the first method that finds at least two pictures."""
    lost: list[str] = []
    declared = declared_document(root, base, lost)
    if declared and sum(bool(step.pictures) for step in declared.steps) >= 2:
        document = read_html(text, where, base)
        document.left_out += map(LeftOut, lost)
        return document, _Found("declared steps", pieces_of_steps(document.steps, document.title))
    # declared steps without pictures are ignored
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
        result = _aligned(words, document.blocks, reader)
        if _pictured(result.pieces) >= 2:
            return document, result
    preview_urls = root.xpath("//meta[@property='og:image' or @name='twitter:image']/@content")
    return document, _general(
        document, where, {file_name(preview_url) for preview_url in preview_urls if preview_url}
    )


def _absolute(picture: PictureRef, url: str) -> PictureRef:
    """The picture with an absolute URL, unless it has a file."""
    if not picture.path and url:
        with suppress(ValueError):  # invalid URL; counted later as missing
            return picture.model_copy(update={"target": urljoin(url, picture.target)})
    return picture


def _general(document: Document, where: str, whole: set[str]) -> _Found:
    """Read by layout: cards or explicit steps if they have most of the pictures, else split at pictures."""
    if not document.steps and not document.blocks:
        raise DataError(f"{where}: no words in the main content; expected a page with steps")
    title = _title(document)
    marked = [
        replace(item, kind="heading", level=1) if item.text == title and item.kind == "paragraph" else item
        for item in document.blocks
    ]
    blocks, outside = steps_of_page(marked, whole | {title} - {""})
    starts = step_starts(blocks)
    order = picture_order(blocks, starts)
    named = [item.kind == "heading" and (item.text == title or names_method(item.text)) for item in blocks]
    words = [item for item, is_name in zip(blocks, named, strict=True) if not is_name or item.pictures]
    by_picture = pieces_of_blocks(words, order)
    if order == "before" and by_picture and not by_picture[0].pictures:
        outside.append(LeftOut("before the steps", by_picture.pop(0).text))
    most = min(2, _pictured(by_picture))
    steps: list[SavedPiece] = []
    cards, beside_cards = cards_with_steps(blocks)
    if document.steps or _has_explicit(blocks):
        ordered = words_first(blocks) if order == "before" else blocks
        made = cut(replace(document, blocks=ordered), "step", where)
        steps = pieces_of_steps(made.steps, title)
    in_cards = [_card(item) for item in cards]
    if _pictured(in_cards) >= max(2, _pictured(steps)):
        result = _Found("cards", in_cards)
        outside += beside_cards
    elif steps and _pictured(steps) >= most:
        result = _Found("explicit steps", steps, order)
        outside += made.left_out
    else:
        result = _Found("pictures close segments", by_picture, order)
    document.left_out += [item for item in outside if item.text or item.pictures]
    return result


def _card(blocks: Sequence[Block]) -> SavedPiece:
    """A card as a piece, without the number before its text."""
    worded = [block for block in blocks if not block.text.strip(" .:)#").isdecimal() or block.pictures]
    return _piece([replace(block, kind="paragraph") for block in worded])


def _title(document: Document) -> str:
    """The title of a page: as stated, or its only first-level heading."""
    first = [block.text for block in document.blocks if block.kind == "heading" and block.level == 1]
    return document.title or (first[0] if len(first) == 1 else "")


def _pictured(pieces: list[SavedPiece]) -> int:
    return sum(bool(piece.pictures) for piece in pieces)


def _has_explicit(blocks: list[Block]) -> bool:
    """Whether there are two or more numbered list items, or headings such as "Step 1"."""
    marked = mark_steps(blocks)
    items = sum(block.kind == "item" and block.ordered for block in join_continuations(marked))
    headings = sum(marker_of(section.title) is not None for section in split_sections(blocks))
    return items >= 2 or headings >= 2


def _own_address(text: str, root: Element) -> str:
    """URL stated in a saved page: in the browser's comment, or as the canonical link."""
    stated = root.xpath("//link[@rel='canonical']/@href") + root.xpath("//meta[@property='og:url']/@content")
    for candidate in [*_SAVED_FROM.findall(text[:4096])[:1], *map(str.strip, stated)]:
        with suppress(ValueError):
            parts = urlsplit(candidate)
            if parts.scheme in ("http", "https") and parts.hostname:
                return str(candidate)
    return ""


def _known_site(text: str, url: str) -> tuple[list[str], str, str] | None:
    """Instructions, title and author from recipe-scrapers, if it supports the page's site."""
    if not url or not urlsplit(url).hostname:
        return None
    try:
        from recipe_scrapers import scrape_html  # type: ignore[import-untyped, unused-ignore]
    except ModuleNotFoundError:
        raise MissingError(
            "recipe-scrapers, which reads known recipe sites, is not installed; pip install 'limner[recipes]'"
        ) from None
    # A scraper is written for a site's current pages and may raise any exception on others. The page is then
    # read by another method, which is recorded.
    try:
        scraper = scrape_html(text, org_url=url, supported_only=True)
    except Exception:
        return None

    def stated(name: str) -> list[str]:
        with suppress(Exception):
            value = getattr(scraper, name)()
            values = value if isinstance(value, list) else [value]
            return [collapse(step_text) for step_text in values if isinstance(step_text, str)]
        return []

    words = stated("instructions_list")
    return (list(filter(None, words)), "".join(stated("title")), "".join(stated("author"))) if words else None


def _aligned(words: list[str], blocks: list[Block], reader: Reader) -> _Found:
    """Known texts of steps, each with the pictures that the page shows between it and the next."""
    pictures: list[list[PictureRef]] = [[] for _ in words]
    wanted = [letters_of(step_text.lower()) for step_text in words]
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
        step_number = next((number for number in later if _same(wanted[number], letters)), None)
        if step_number is None and letters and current == len(words) - 1:
            break  # text after the last step
        current = current if step_number is None else step_number
        if current >= 0:
            pictures[current] += block.pictures
    pieces = [
        SavedPiece(text, tuple(step_pictures)) for text, step_pictures in zip(words, pictures, strict=True)
    ]
    return _Found(reader, pieces, order)


def _same(step: str, block: str) -> bool:
    return len(block) >= _FEWEST_LETTERS and bool(step) and (step in block or block in step)
