"""Web pages: the declared steps or the main content, with the page's credits and language.

A saved page is mostly navigation, comments and scripts; only its main content may become steps.
Nothing is fetched, no external entity is read, and what is cut away is counted.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from limner.text.document import Document, LeftOut
from limner.text.html_blocks import blocks_of, collapse, parse_tree
from limner.text.schema_org import declared_document

if TYPE_CHECKING:
    from lxml.etree import _Element as Element

_BOILERPLATE_TAGS = frozenset({"nav", "footer", "aside", "form", "dialog", "menu"})
_BOILERPLATE_ROLES = frozenset({"navigation", "banner", "contentinfo", "complementary", "search", "dialog"})
_BOILERPLATE_NAMES = re.compile(
    r"(comments?|commentlist|respond|disqus|sidebar|widget|share|sharing|sharedaddy|social|related|jp-relatedposts"
    r"|cookies?|newsletter|adverts?|advertisement|ads?|breadcrumbs?|promo|subscribe|nav|navbar|navigation"
    r"|pagination|pager|site-header|site-footer|skip-link)([-_].*)?",
    re.IGNORECASE,
)


def read_html(text: str, where: str, base: Path | None) -> Document:
    """The main content of a page as a document.

    Args:
        text: the decoded page.
        where: its name, for messages.
        base: folder that relative picture paths start from, or None.

    Returns:
        Declared steps (schema.org Recipe or HowTo) where there are two or more; else the blocks of the
        main content.
    """
    root = parse_tree(text, where)
    scripts = [node.text or "" for node in root.iter("script") if "ld+json" in (node.get("type") or "")]
    document = declared_document(scripts, base)
    if document is None:
        document = Document()
        main = _main(root, text, document)
        _prune(main, document.left_out)
        document.blocks = blocks_of(main, base, document.left_out)
    else:
        main = root
        document.left_out.append(LeftOut("page around the declared steps"))
    _describe(document, root, main)
    return document


def _main(root: Element, text: str, document: Document) -> Element:
    """The element that holds the main content: <main>, the only <article>, or what trafilatura finds."""
    body = root.find("body")
    body = root if body is None else body
    for path in ("//main | //*[@role='main']", "//article", "//*[@itemprop='articleBody']"):
        found = [node for node in root.xpath(path) if collapse("".join(node.itertext()))]
        if len(found) == 1:
            return _report_outside(body, found[0], document)
    if not any(_is_boilerplate(node) for node in body.iter() if isinstance(node.tag, str)):
        return body  # a page somebody wrote by hand: everything is content
    found_words = _extracted(text)
    if not found_words:
        return body
    main = _smallest_holding(body, found_words)
    return _report_outside(body, main, document)


def _extracted(text: str) -> list[str]:
    """Paragraphs of the main content by trafilatura; they only point at an element, for it alters letters."""
    import trafilatura

    found = trafilatura.extract(text, include_comments=False, include_tables=True, favor_recall=True)
    return [_letters(line) for line in (found or "").splitlines() if len(_letters(line)) > 20]


def _smallest_holding(body: Element, lines: list[str]) -> Element:
    node = body
    while True:
        inner = [child for child in node if isinstance(child.tag, str) and _holds(child, lines)]
        if not inner:
            return node
        node = inner[0]


def _holds(node: Element, lines: list[str]) -> bool:
    words = _letters("".join(node.itertext()))
    return sum(line in words for line in lines) >= 0.9 * len(lines)


def _letters(text: str) -> str:
    return "".join(letter for letter in text if letter.isalnum())


def _report_outside(body: Element, main: Element, document: Document) -> Element:
    outside = _visible(body) - _visible(main)
    if main is not body and outside > 0:
        document.left_out.append(LeftOut(f"page around the main content ({outside} letters)"))
    return main


def _visible(node: Element) -> int:
    total = len(_letters("".join(node.itertext())))
    return total - sum(len(_letters(inner.text or "")) for inner in node.iter("script", "style"))


def _prune(main: Element, left_out: list[LeftOut]) -> None:
    whole = _visible(main)
    for node in list(main.iterdescendants()):
        if not isinstance(node.tag, str) or not _is_boilerplate(node) or node.getparent() is None:
            continue
        # A class name can mislead; what holds most of the words is not beside the text.
        if _visible(node) * 2 > whole:
            continue
        name = node.get("class") or node.get("id") or node.get("role") or ""
        text = collapse("".join(node.itertext()))
        left_out.append(LeftOut(f"beside the text (<{node.tag}> {name}".rstrip() + ")", text))
        node.drop_tree()


def _is_boilerplate(node: Element) -> bool:
    if node.tag in _BOILERPLATE_TAGS or node.get("role") in _BOILERPLATE_ROLES:
        return True
    if node.tag in {"html", "body", "main", "article"}:
        return False
    if node.tag == "header":
        return not any(parent.tag in {"article", "main", "section"} for parent in node.iterancestors())
    names = f"{node.get('class') or ''} {node.get('id') or ''}".split()
    return any(_BOILERPLATE_NAMES.fullmatch(name) for name in names)


def _describe(document: Document, root: Element, main: Element) -> None:
    meta: dict[str, str] = {}
    for node in root.iter("meta"):
        key = (node.get("name") or node.get("property") or "").lower()
        meta.setdefault(key, collapse(node.get("content") or ""))
    if not document.title and not any(block.level == 1 for block in document.blocks):
        headings = [collapse("".join(node.itertext())) for node in root.iter("h1")]
        page = collapse("".join(part for node in root.xpath("//head/title") for part in node.itertext()))
        single = headings[0] if len(headings) == 1 else ""
        document.title = single or meta.get("og:title", "") or page
    document.author = document.author or meta.get("author", "")
    document.license = document.license or next(
        (node.get("href") or "" for node in root.xpath("//link[@rel='license'] | //a[@rel='license']")), ""
    )
    for node in (main, root.find("body"), root):
        if node is not None:
            document.language = document.language or (node.get("lang") or "").strip()
            stated = (node.get("dir") or "").strip().lower()
            if document.direction is None and stated in {"ltr", "rtl"}:
                document.direction = "rtl" if stated == "rtl" else "ltr"
