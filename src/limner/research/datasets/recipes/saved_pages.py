"""Reads a saved page into pieces of text and pictures, and merges them into segments with one picture each.

Methods, in order of preference: 1. steps with pictures in the page's schema.org data; 2. texts from a scraper
for a known recipe site, with the pictures around them on the page; 3. the same with texts from schema.org;
4. the steps that limner finds in any text; 5. pictures that close the segments of a page without steps.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal
from urllib.parse import urljoin, urlsplit

from limner.encodings import decode_text
from limner.errors import DataError, MissingError
from limner.records import Block, PictureRef, Step
from limner.text.blocks import Document, Find, check_count, letters, pictures_of, text_of
from limner.text.declared import declared_document
from limner.text.markdown import read_markdown
from limner.text.markup import parse_tree, read_html
from limner.text.picture_files import finder
from limner.text.segment import segment
from limner.text.structure import structure
from limner.text.words import role_of

if TYPE_CHECKING:
    from lxml.etree import _Element as Element


@dataclass(frozen=True)
class Removed:
    """Something that a recipe of a set does not contain.

    Attributes:
        rule: why, in a few words.
        text: its text; "" for pictures alone.
        pictures: targets of its pictures.
    """

    rule: str
    text: str = ""
    pictures: tuple[str, ...] = ()


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
        known = step.title in (title, last) or role_of(step.title) == "method"
        heading = "" if known else step.title
        pieces.append(SavedPiece("\n".join(filter(None, (heading, step.text))), step.pictures))
        last = step.title
    return pieces


def pieces_of_blocks(blocks: Sequence[Block]) -> list[SavedPiece]:
    """Pieces of a page without explicit steps: each picture ends a piece.

    Source: VRSS 2020, Section 3; docs/methods/data.md §3.2.
    """
    pieces: list[SavedPiece] = []
    since: list[Block] = []
    for block in blocks:
        since.append(block)
        if block.pictures:
            pieces.append(SavedPiece(text_of(since), pictures_of(since)))
            since = []
    return [*pieces, SavedPiece(text_of(since))] if text_of(since) else pieces


def one_picture_each(pieces: Iterable[SavedPiece]) -> tuple[list[Segment], list[Removed]]:
    """Merge pieces so that each segment has exactly one picture.

    A piece without a picture is merged into the next one, or at the end into the previous one. Of several
    pictures, the first is kept. A picture without text is dropped.

    Returns:
        Segments in order, and what was dropped.
    Source: VRSS 2020, Section 3; docs/methods/data.md §3.2.
    """
    segments: list[Segment] = []
    removed: list[Removed] = []
    waiting: list[str] = []
    for piece in pieces:
        if text := piece.text.strip():
            waiting.append(text)
        rule, lost = "picture without words", piece.pictures
        if waiting and piece.pictures:
            segments.append(Segment("\n\n".join(waiting), piece.pictures[0]))
            rule, lost = "further picture of a step", piece.pictures[1:]
            waiting = []
        removed += [Removed(rule, picture.alt, (picture.target,)) for picture in lost]
    words = "\n\n".join(waiting)
    if words and segments:
        segments[-1] = Segment(f"{segments[-1].text}\n\n{words}", segments[-1].picture)
    elif words:
        removed.append(Removed("words without any picture", words))
    return segments, removed


Reader = Literal[
    "declared steps",
    "known site",
    "declared words",
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
    pieces: tuple[SavedPiece, ...]
    left_out: tuple[Removed, ...] = field(default=(), repr=False)


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
    text, find = text.replace("\0", ""), finder(base)
    if markdown:
        document = read_markdown(text, where, find)
        check_count(len(document.blocks), where, _MOST_PARAGRAPHS)
        reader, pieces = _general(document, where)
    elif not text.strip():
        raise DataError(f"{where}: is empty; expected an HTML page")
    else:
        root = parse_tree(text, where)
        url = url or _own_address(text, root)
        document, reader, pieces = _read_html(text, root, where, find, url)
    host = (urlsplit(url).hostname or "") if url else ""
    return SavedPage(
        where=where,
        url=url,
        source=host.removeprefix("www.") or (base.name if base else ""),
        title=document.title,
        author=document.author,
        license=document.license,
        language=document.language,
        reader=reader,
        pieces=tuple(
            SavedPiece(piece.text, tuple(_absolute(picture, url) for picture in piece.pictures))
            for piece in pieces
        ),
        left_out=tuple(Removed(item.reason, item.text, item.pictures) for item in document.left_out),
    )


def _read_html(
    text: str, root: Element, where: str, find: Find, url: str
) -> tuple[Document, Reader, list[SavedPiece]]:
    """Read a page with the first method that finds at least two pictures."""
    document = read_html(text, where, find, declared=False)
    check_count(len(document.blocks), where, _MOST_PARAGRAPHS)
    stated = declared_document(root, find, document.notes)
    if stated:
        check_count(len(stated.declared), where, _MOST_PARAGRAPHS)
        document.title, document.author = stated.title or document.title, stated.author or document.author
        document.license, document.language = (
            stated.license or document.license,
            stated.language or document.language,
        )
        if sum(bool(step.pictures) for step in stated.declared) >= 2:
            return document, "declared steps", pieces_of_steps(stated.declared, document.title)
    ways: list[tuple[Reader, list[str]]] = []
    if known := _known_site(text, url):
        words, title, author = known
        ways.append(("known site", words))
        document.title, document.author = title or document.title, author or document.author
    if stated:
        ways.append(("declared words", [step.text for step in stated.declared]))
    for reader, words in ways:
        check_count(len(words), where, _MOST_PARAGRAPHS)
        pieces = _aligned(words, document.blocks)
        if _pictured(pieces) >= 2:
            return document, reader, pieces
    return document, *_general(document, where)


def _absolute(picture: PictureRef, url: str) -> PictureRef:
    """The picture with an absolute URL, unless it has a file."""
    if not picture.path and url:
        with suppress(ValueError):  # invalid URL; counted later as missing
            return picture.model_copy(update={"target": urljoin(url, picture.target)})
    return picture


def _general(document: Document, where: str) -> tuple[Reader, list[SavedPiece]]:
    """The steps that limner finds, if they have pictures; else the page, divided at its pictures."""
    if not document.blocks:
        raise DataError(f"{where}: no words in the main content; expected a page with steps")
    structure(document)
    division = segment(document, None, where)
    steps = pieces_of_steps(division.steps, document.title)
    shown = [block for block in division.blocks if block.role not in ("supplies", "aside")]
    by_picture = pieces_of_blocks(shown)
    if _pictured(steps) >= max(1, min(2, _pictured(by_picture))):
        return "explicit steps" if division.by == "step" else "pictures close segments", steps
    return "pictures close segments", by_picture


def _pictured(pieces: list[SavedPiece]) -> int:
    return sum(bool(piece.pictures) for piece in pieces)


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
            return [" ".join(step_text.split()) for step_text in values if isinstance(step_text, str)]
        return []

    words = stated("instructions_list")
    return (list(filter(None, words)), "".join(stated("title")), "".join(stated("author"))) if words else None


def _aligned(words: list[str], blocks: list[Block]) -> list[SavedPiece]:
    """Known texts of steps, each with the pictures that the page shows between it and the next."""
    pictures: list[list[PictureRef]] = [[] for _ in words]
    wanted = list(map(letters, words))
    current = -1
    for block in blocks:
        shown = letters(block.text)
        later = range(max(current, 0), len(words))
        step = next((number for number in later if _same(wanted[number], shown)), None)
        if step is None and shown and current == len(words) - 1:
            break  # text after the last step
        current = current if step is None else step
        if current >= 0:
            pictures[current] += block.pictures
    return [SavedPiece(text, tuple(found)) for text, found in zip(words, pictures, strict=True)]


def _same(step: str, block: str) -> bool:
    return len(block) >= _FEWEST_LETTERS and bool(step) and (step in block or block in step)
