"""One saved page as pieces of words and pictures, and pieces merged into segments with one picture each.

Three readers in turn: steps that the page declares, a known recipe site's own scraper, the general extractor.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urljoin, urlsplit

from lxml import html

from limner.errors import DataError, MissingError
from limner.records import PictureRef, Step
from limner.text.document import Block, Document, LeftOut
from limner.text.html import declared_document, read_html
from limner.text.html_blocks import collapse, parse_tree
from limner.text.markdown import read_markdown
from limner.text.plain import marker_of
from limner.text.read import decode_text
from limner.text.segment import cut, join_continuations, mark_steps, split_sections, text_of

if TYPE_CHECKING:
    from lxml.etree import _Element as Element


@dataclass(frozen=True)
class Piece:
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


@dataclass(frozen=True)
class Removed:
    """A part of a page that is in no segment.

    Attributes:
        rule: why, in a few words; the counts of a report are by it.
        text: its words, if any.
        picture: its picture's target, if any.
    """

    rule: str
    text: str = ""
    picture: str = ""


def pieces_of_steps(steps: Iterable[Step], title: str = "") -> list[Piece]:
    """One piece per explicit step, a heading in front of the first step under it.

    Args:
        steps: in order.
        title: of the page; as a heading of steps it says nothing of any.
    """
    pieces, last = [], title
    for step in steps:
        heading = step.title if step.title not in (title, last) else ""
        pieces.append(Piece("\n".join(filter(None, (heading, step.text))), step.pictures))
        last = step.title
    return pieces


def pieces_of_blocks(blocks: Sequence[Block]) -> list[Piece]:
    """Pieces of a text without explicit steps: each picture closes what stands since the one before.

    Source: VRSS 2020, Section 3; docs/methods/data.md §3.2.
    """
    pieces: list[Piece] = []
    since: list[Block] = []
    for block in blocks:
        if block.kind == "break":
            continue
        since.append(block)
        if block.pictures:
            pieces.append(Piece(text_of(since), block.pictures))
            since = []
    if since:
        pieces.append(Piece(text_of(since)))
    return pieces


def one_picture_each(pieces: Iterable[Piece]) -> tuple[list[Segment], list[Removed]]:
    """Merge pieces until each has exactly one picture.

    A piece without a picture goes to the next one, a trailing one to the previous; of several pictures the
    first is kept; a picture without words is dropped.

    Returns:
        Segments in order, and what was dropped.
    Source: VRSS 2020, Section 3; docs/methods/data.md §3.2.
    """
    segments: list[Segment] = []
    removed: list[Removed] = []
    waiting: list[str] = []
    for piece in pieces:
        text = piece.text.strip()
        if text:
            waiting.append(text)
        if not piece.pictures:
            continue
        if not waiting:
            removed += [_lost("picture without words", one) for one in piece.pictures]
            continue
        first, *more = piece.pictures
        segments.append(Segment("\n\n".join(waiting), first))
        removed += [_lost("further picture of a step", one) for one in more]
        waiting = []
    if waiting and segments:
        last = segments[-1]
        segments[-1] = Segment("\n\n".join([last.text, *waiting]), last.picture)
    elif waiting:
        removed.append(Removed("words without any picture", "\n\n".join(waiting)))
    return segments, removed


def _lost(rule: Literal["picture without words", "further picture of a step"], one: PictureRef) -> Removed:
    return Removed(rule, one.alt, one.target)


Reader = Literal["declared steps", "known site", "explicit steps", "pictures close segments"]
MAX_BYTES = 20_000_000
_SAVED_FROM = re.compile(r"<!--\s*saved from url=\(\d+\)(\S+)\s*-->", re.IGNORECASE)
_FEWEST_LETTERS = 12


@dataclass(frozen=True)
class Page:
    """What a page gives.

    Attributes:
        where: file or URL it was read from.
        url: where it stands on the web, as far as known; "".
        source: its site, or the folder it was found in.
        title, author, license, language: as stated, or "".
        reader: how its pieces were found.
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
    pieces: tuple[Piece, ...]
    left_out: tuple[LeftOut, ...] = field(default=(), repr=False)


def read_page(data: bytes, where: str, base: Path | None, url: str = "") -> Page:
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
        return _page(document, where, url, base, _general(document, where))
    if not text.strip():
        raise DataError(f"{where}: empty; expected HTML with words in it")
    root = parse_tree(text, where)
    url = url or _own_address(text, root)
    scripts = [node for node in root.iter("script") if "ld+json" in (node.get("type") or "")]
    declared = declared_document([node.text or "" for node in scripts], base)
    if declared and sum(bool(step.pictures) for step in declared.steps) >= 2:
        document = read_html(text, where, base)
        return _page(
            document, where, url, base, ("declared steps", pieces_of_steps(document.steps, document.title))
        )
    # declared steps without pictures are of no use here: the page is read as if it had declared none
    document = read_html(_without(scripts, text, root), where, base)
    known = _known_site(text, url)
    if known:
        words, title, author = known
        pieces = _aligned(words, document.blocks)
        document.title, document.author = title or document.title, author or document.author
        if sum(bool(piece.pictures) for piece in pieces) >= 2:
            return _page(document, where, url, base, ("known site", pieces))
    if declared:
        document.author = declared.author or document.author
        document.license = declared.license or document.license
    return _page(document, where, url, base, _general(document, where))


def _page(
    document: Document, where: str, url: str, base: Path | None, found: tuple[Reader, list[Piece]]
) -> Page:
    reader, pieces = found
    host = (urlsplit(url).hostname or "") if url else ""
    return Page(
        where=where,
        url=url,
        source=host.removeprefix("www.") or (base.name if base else ""),
        title=_title(document),
        author=document.author,
        license=document.license,
        language=document.language,
        reader=reader,
        pieces=tuple(
            Piece(piece.text, tuple(_absolute(one, url) for one in piece.pictures)) for piece in pieces
        ),
        left_out=tuple(document.left_out),
    )


def _absolute(picture: PictureRef, url: str) -> PictureRef:
    """The picture with its full address, unless its file is there."""
    if picture.path or not url:
        return picture
    try:
        return picture.model_copy(update={"target": urljoin(url, picture.target)})
    except ValueError:  # no address at all; it will be counted as not to be had
        return picture


def _general(document: Document, where: str) -> tuple[Reader, list[Piece]]:
    """Explicit steps where a text has them and they hold its pictures; else pictures close segments."""
    if not document.steps and not document.blocks:
        raise DataError(f"{where}: no words in the main content; expected a page with steps")
    by_picture = pieces_of_blocks(document.blocks)
    if document.steps or _has_explicit(document.blocks):
        steps = pieces_of_steps(cut(document, "step", where).steps, _title(document))
        if _pictured(steps) >= min(2, _pictured(by_picture)):
            return "explicit steps", steps
    return "pictures close segments", by_picture


def _title(document: Document) -> str:
    """The title of a page: as stated, or its one heading of the first level."""
    first = [block.text for block in document.blocks if block.kind == "heading" and block.level == 1]
    return document.title or (first[0] if len(first) == 1 else "")


def _pictured(pieces: list[Piece]) -> int:
    return sum(bool(piece.pictures) for piece in pieces)


def _has_explicit(blocks: list[Block]) -> bool:
    """Two or more items of a numbered list, or headings that count steps."""
    marked = mark_steps(blocks)
    items = sum(block.kind == "item" and block.ordered for block in join_continuations(marked))
    headings = sum(marker_of(section.title) is not None for section in split_sections(blocks))
    return items >= 2 or headings >= 2


def _own_address(text: str, root: Element) -> str:
    """The address a saved page states: by the browser that saved it, or as its canonical link."""
    candidates = [found[1] for found in [_SAVED_FROM.search(text[:4096])] if found]
    candidates += [node.get("href") or "" for node in root.xpath("//link[@rel='canonical']")]
    candidates += [node.get("content") or "" for node in root.xpath("//meta[@property='og:url']")]
    for candidate in candidates:
        try:
            parts = urlsplit(candidate.strip())
        except ValueError:
            continue
        if parts.scheme in ("http", "https") and parts.hostname:
            return candidate.strip()
    return ""


def _without(scripts: list[Element], text: str, root: Element) -> str:
    """The page without these elements."""
    if not scripts:
        return text

    for node in scripts:
        node.drop_tree()  # type: ignore[attr-defined, unused-ignore]
    return str(html.tostring(root, encoding="unicode"))


def _known_site(text: str, url: str) -> tuple[list[str], str, str] | None:
    """Instructions, title and author by the scraper of the page's site, if it is a known one."""
    host = urlsplit(url).hostname if url else None
    if not host:
        return None
    try:
        from recipe_scrapers import scrape_html, scraper_exists_for  # type: ignore[import-untyped, unused-ignore]
    except ModuleNotFoundError:
        raise MissingError(
            "recipe-scrapers is not installed; it reads known recipe sites; pip install 'limner[recipes]'"
        ) from None
    if not scraper_exists_for(url):
        return None

    def stated(name: str) -> str:
        value = _attempt(getattr(scraper, name))
        return collapse(value) if isinstance(value, str) else ""

    scraper = _attempt(lambda: scrape_html(text, org_url=url, supported_only=True))
    if scraper is None:
        return None
    found = _attempt(scraper.instructions_list)
    words = [collapse(one) for one in found if isinstance(one, str)] if isinstance(found, list) else []
    return ([one for one in words if one], stated("title"), stated("author")) if words else None


def _attempt(call: Callable[[], Any]) -> Any:  # noqa: ANN401
    """What a site's scraper answers, None where the page is not as the scraper expects.

    Its author wrote it for the site's pages of one day, and on others it raises what it happens to; the
    general extractor then reads the page, and the reader that was used is recorded.
    """
    from recipe_scrapers._exceptions import RecipeScrapersExceptions

    try:
        return call()
    except (
        RecipeScrapersExceptions,
        ArithmeticError,
        AttributeError,
        LookupError,
        NotImplementedError,
        RecursionError,
        TypeError,
        ValueError,
    ):
        return None


def _aligned(words: list[str], blocks: list[Block]) -> list[Piece]:
    """The site's steps with the pictures that stand in or after them on the page, up to the next step."""
    pieces = [Piece(one) for one in words]
    pictures: list[list[PictureRef]] = [[] for _ in words]
    wanted = [_letters(one) for one in words]
    current = -1
    for block in blocks:
        letters = _letters(block.text)
        place = current
        for number in range(max(current, 0), len(words)):
            if _same(wanted[number], letters):
                place = number
                break
        else:
            if current == len(words) - 1 and letters:
                break  # what follows the last step belongs to no step
        current = place
        if current >= 0:
            pictures[current] += block.pictures
    return [Piece(piece.text, tuple(own)) for piece, own in zip(pieces, pictures, strict=True)]


def _same(step: str, block: str) -> bool:
    return len(block) >= _FEWEST_LETTERS and bool(step) and (step in block or block in step)


def _letters(text: str) -> str:
    return "".join(letter for letter in text.lower() if letter.isalnum())
