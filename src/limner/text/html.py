"""Web pages: the declared steps or the main content, with the page's credits and language.

A saved page is mostly navigation, comments and scripts; only its main content may become steps, or the steps
that it declares for search engines (schema.org Recipe and HowTo as JSON-LD).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import unescape
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from limner.errors import DataError
from limner.records import Between, Part, PictureRef, Step
from limner.text.document import Block, Document, LeftOut, pictures_of, resolve_picture
from limner.text.html_blocks import HEADINGS, blocks_of, collapse, parse_tree
from limner.text.html_declared import place_steps, shown_more
from limner.text.plain import names_supplies
from limner.text.segment import with_captions

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


def read_html(text: str, where: str, base: Path | None, *, declared: bool = True) -> Document:
    """Read the main content of a page.

    Args:
        text: the decoded page.
        where: its name, for messages.
        base: folder that relative picture paths start from, or None.
        declared: whether to look for steps that the page declares.

    Returns:
        The declared steps (schema.org Recipe or HowTo), if any; else, or if the page shows more of them than
        it declares, the blocks of the main content.
    """
    root = parse_tree(text, where)
    notes: list[str] = []
    left_out: list[LeftOut] = []
    document = declared_document(root, base, notes) if declared else None
    lines = [] if document is None else [step.text for step in document.steps]
    main, blocks = _content(root, text, base, left_out, lines)
    if document is not None and (more := shown_more(document.steps, blocks)):
        notes.append(more)
        document = None
    if document is None:
        document = Document(blocks=blocks, left_out=left_out)
    elif place_steps(document, with_captions(blocks)):
        main = root
        document.left_out += left_out
    else:
        main = root
        shown = tuple(picture.target for picture in pictures_of(blocks))
        around = "\n".join(block.text for block in blocks)
        document.left_out += [*left_out, LeftOut("page around the declared steps", around, shown)]
        document.notes.append(
            "the page shows its steps in other words than it declares: the text around them is left out"
        )
    document.notes += notes
    _describe(document, root, main)
    return document


def _content(
    root: Element, text: str, base: Path | None, left_out: list[LeftOut], lines: Sequence[str] = ()
) -> tuple[Element, list[Block]]:
    """The main content and its blocks; the main content must contain the given lines."""
    body = next(root.iterchildren("body"), root)
    main = _main(body, text)
    sought = list(map(letters_of, lines))
    around = (main, *main.iterancestors())
    main = next((one for one in around if _holds(letters_of("".join(one.itertext())), sought)), main)
    if _visible(body) > _visible(main):
        inside = set(main.iter("img"))
        shown = tuple(image.get("src") or "" for image in body.iter("img") if image not in inside)
        words = collapse(" ".join(_outside(body, main)))
        left_out.append(LeftOut("page around the main content", words, shown))
    _prune(main, left_out)
    return main, blocks_of(main, base, left_out)


def _main(body: Element, text: str) -> Element:
    """The element with the main content: <main>, the only <article>, or the one that trafilatura finds."""
    for path in ("//main | //*[@role='main']", "//article", "//*[@itemprop='articleBody']"):
        worded = (node for node in body.xpath(path) if any(map(str.strip, node.itertext())))
        found = list(islice(worded, 2))
        if len(found) == 1:
            return found[0]
    if not any(_is_boilerplate(node) for node in body.iter() if isinstance(node.tag, str)):
        return body  # a hand-written page: everything is content
    import trafilatura

    words = trafilatura.extract(text, include_comments=False, include_tables=True, favor_recall=True)
    # trafilatura only helps to locate the element, because it alters the text.
    lines = [line for line in map(letters_of, (words or "").splitlines()) if len(line) > 20]
    return _smallest_holding(body, lines) if lines else body


def _smallest_holding(node: Element, lines: list[str]) -> Element:
    """The innermost element that contains nine tenths of the lines."""
    while len(node) == 1 and isinstance(node[0].tag, str) and not _own_words(node):
        node = node[0]
    least = sum(map(len, dict.fromkeys(lines))) / 2
    for child in node:
        if isinstance(child.tag, str):
            words = letters_of("".join(child.itertext()))
            if len(words) >= least and _holds(words, lines):
                return _smallest_holding(child, lines)
    return node


def _own_words(node: Element) -> bool:
    """Whether an element has text outside its first child."""
    return bool((node.text or "").strip() or (node[0].tail or "").strip())


def _holds(words: str, lines: list[str]) -> bool:
    """Whether nine tenths of the lines occur in the text. Lines are first searched for in order, then
    anywhere.
    """
    end, missed = 0, 0
    for line in lines:
        found = words.find(line, end)
        if found < 0:
            missed += line not in words[:end]
        else:
            end = found + len(line)
        if missed > 0.1 * len(lines):
            return False
    return True


def letters_of(text: str) -> str:
    """Letters and digits only, to compare texts regardless of spaces and punctuation."""
    return "".join(letter for letter in text if letter.isalnum())


def _visible(node: Element) -> int:
    total = len(letters_of("".join(node.itertext())))
    return total - sum(len(letters_of(inner.text or "")) for inner in node.iter("script", "style"))


def _outside(body: Element, main: Element) -> Iterator[str]:
    """Text of the page outside its main content."""
    from lxml.etree import iterwalk

    walk = iterwalk(body, events=("start", "comment"))
    for event, node in walk:
        if node is not body:
            yield node.tail or ""
        if event == "comment":
            continue
        if node is main or node.tag in ("script", "style"):
            walk.skip_subtree()
        else:
            yield node.text or ""


def _prune(main: Element, left_out: list[LeftOut]) -> None:
    whole = _visible(main)
    for node in list(main.iterdescendants()):
        if not isinstance(node.tag, str) or not _is_boilerplate(node) or node.getparent() is None:
            continue
        # A class name can be misleading; an element with most of the text is not an aside.
        if _visible(node) * 2 > whole:
            continue
        name = node.get("class") or node.get("id") or node.get("role") or ""
        text = collapse(" ".join(node.itertext()))
        shown = tuple(image.get("src") or "" for image in node.iter("img"))
        left_out.append(LeftOut(f"outside the main text (<{node.tag}> {name}".rstrip() + ")", text, shown))
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
    licenses = root.xpath("//link[@rel='license'] | //a[@rel='license']")
    document.license = document.license or next((node.get("href") or "" for node in licenses), "")
    for node in (main, *root.iterchildren("body"), root):
        document.language = document.language or (node.get("lang") or "").strip()
        stated = (node.get("dir") or "").strip().lower()
        if document.direction is None and stated in {"ltr", "rtl"}:
            document.direction = "rtl" if stated == "rtl" else "ltr"


_MAX_DEPTH = 50
_BESIDE_STEPS = {
    "recipeIngredient": "ingredients",
    "ingredients": "ingredients",
    "supply": "supplies",
    "tool": "tools",
}


_MAX_AROUND = 1_000
"""Maximum number of ingredients, tools and descriptive lines declared around the steps."""
_TOO_DEEP = "a JSON-LD block of the page is nested too deeply: steps declared in it are not read"


def declared_document(root: Element, base: Path | None, notes: list[str] | None = None) -> Document | None:
    """The first declared Recipe or HowTo with steps.

    Args:
        root: root of the page; its ``application/ld+json`` elements are read.
        base: folder that relative picture paths start from, or None.
        notes: receives a line for a block that cannot be read.

    Returns:
        A document with `steps`, title and credits; None if the page declares no steps.

    Raises:
        DataError: more is declared around the steps than a recipe would have.
    """
    told: list[str] = []
    found: list[Document] = []
    shown = [collapse("".join(node.itertext())) for tag in sorted(HEADINGS) for node in root.iter(tag)]
    headings = {"ingredients": next(filter(names_supplies, shown), "Ingredients")}
    scripts = [one.text or "" for one in root.iter("script") if "ld+json" in (one.get("type") or "").lower()]
    things = chain.from_iterable(_things(value) for text in scripts for value in _values(text, told))
    for thing in things:
        if thing is _DEEP:
            told.append(_TOO_DEEP)
        elif _types(thing) & _KINDS:
            found.append(_document(thing, base, headings))
    if any(not document.steps for document in found):
        told.append("the page declares a recipe without steps (JSON-LD): its visible text is used")
    found = [document for document in found if document.steps]
    found = found or [_document(thing, base, headings) for thing in _marked_up(root)]
    if found:
        told = [note for note in told if note == _TOO_DEEP]
        known = letters_of("".join(step.text for step in found[0].steps))
        for other in found[1:]:
            words = "\n".join(step.text for step in other.steps)
            if letters_of(words) not in known:  # pages often declare a recipe twice
                found[0].left_out.append(LeftOut("another recipe that the page declares", words))
    if notes is not None:
        notes += dict.fromkeys(told)
    return found[0] if found else None


_RECIPE = " | ".join(
    (
        "//*[contains(@itemtype, 'schema.org/Recipe')]",
        "//*[contains(@typeof, 'Recipe')]",
        "//*[contains(concat(' ', @class, ' '), ' hrecipe ')]",
        "//*[contains(concat(' ', @class, ' '), ' h-recipe ')]",
    )
)
_MARKED: Mapping[str, Sequence[str]] = {
    "recipeInstructions": ("recipeInstructions", "instructions", "e-instructions"),
    "recipeIngredient": ("recipeIngredient", "ingredients", "ingredient", "p-ingredient"),
}
"""Names of each property in microdata, RDFa and microformats."""


def _marked_up(root: Element) -> Iterator[dict[str, Any]]:
    """The first recipe whose visible instructions are marked up, in the form of JSON-LD."""
    for recipe in islice(root.xpath(_RECIPE), 1):
        thing: dict[str, Any] = {"@type": "Recipe", "name": ""}
        titles = list(recipe.iter("h1")) or list(root.iter("h1"))
        thing["name"] = collapse("".join(titles[0].itertext())) if len(titles) == 1 else ""
        for key, names in _MARKED.items():
            called = {node: None for node in recipe.iter() if _is_called(node, names)}
            outer = [node for node in called if called.keys().isdisjoint(node.iterancestors())]
            thing[key] = [line for node in outer for line in _shown_in(node)]
        if thing["recipeInstructions"]:
            yield thing


def _is_called(node: Element, names: Sequence[str]) -> bool:
    """Whether the markup of an element names one of the given properties."""
    stated = " ".join(node.get(key) or "" for key in ("itemprop", "property", "class"))
    called = {name.rpartition(":")[2] for name in stated.split()}
    return not called.isdisjoint(names)


def _shown_in(node: Element) -> Iterator[str]:
    """List items and other lines of an element, or of the marked-up texts inside it."""
    texts = [inner for inner in node.iterdescendants() if _is_called(inner, ("text",))]
    for block in chain.from_iterable(blocks_of(inner, None, []) for inner in texts or [node]):
        if block.text and block.kind != "heading":
            yield from [block.text] if block.kind == "item" else block.text.split("\n")


_KINDS = frozenset({"recipe", "howto"})
_WRAPPING = ("<!--", "-->", "//", "/*", "*/", "<![CDATA[", "]]>", "\ufeff", ";")
"""Comment and CDATA markers around JSON, which once hid it from old browsers."""
_WRAPPED = re.compile(rf"(?:\s|{'|'.join(map(re.escape, _WRAPPING))})*+")
_STRING = r'("(?:[^"\\]|\\.)*+"?)'
_COMMENT = re.compile(_STRING + r"|//[^\n]*|/\*(?:[^*]|\*(?!/))*+(?:\*/)?", re.DOTALL)
_LAST_COMMA = re.compile(_STRING + r"|,(?=\s*+[,}\]])", re.DOTALL)
_ESCAPE = re.compile(r"\\(?:([\"\\/bfnrt]|u[0-9a-fA-F]{4})|)")
_MOST_LOOSE = 200_000
"""Maximum number of letters of JSON-LD that is not valid JSON."""
_BETWEEN_VALUES = re.compile(r"[\s;,]*")


def _values(text: str, notes: list[str]) -> Iterator[object]:
    """Parse the JSON-LD of an element, tolerating comments, trailing commas and semicolons.

    Args:
        text: text of the element.
        notes: receives a line if a recipe in it cannot be read.
    """
    wrapped = _WRAPPED.match(text)
    start, end = wrapped.end() if wrapped else 0, len(text)
    while end > start and (
        cut := next(
            (len(one) for one in _WRAPPING if text.endswith(one, start, end)), text[end - 1].isspace()
        )
    ):
        end -= cut
    if text[start : start + 1] in ("{", "["):
        text = text[start:end]
    else:  # a comment before it
        text = re.sub(r"\A[^{\[]*+", "", _COMMENT.sub(lambda found: found[1] or "", text))
    text = _ESCAPE.sub(lambda found: found[0] if found[1] else "", text if '"' in text else unescape(text))
    whole = text
    for pattern in (_COMMENT, _LAST_COMMA):
        text = pattern.sub(lambda found: found[1] or "", text)
    decoder, place = json.JSONDecoder(strict=False), 0
    try:
        while place < len(text):
            value, place = decoder.raw_decode(text, place)
            yield value
            between = _BETWEEN_VALUES.match(text, place)
            place = between.end() if between else place
    except RecursionError:
        yield _DEEP
    except ValueError as error:  # raised also for numbers with too many digits
        if not any(kind in text.casefold() for kind in _KINDS):
            return
        attempts = () if place else map(_loose, (whole, text))  # unchanged, then without commas
        if (loose := next(filter(None, attempts), None)) is not None:
            yield loose
        else:
            notes.append(
                f"the recipe that the page declares cannot be read (JSON-LD, {str(error)[:80]});"
                " its visible text is used"
            )


def _loose(text: str) -> object:
    """Parse JSON with single quotes or unquoted keys as YAML; None if it is not an object or list."""
    text = text.replace("\t", " ")
    if len(text) > _MOST_LOOSE or not text.startswith(("{", "[")):
        return None
    try:
        if any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(text, yaml.BaseLoader)):
            return None  # it might contain itself
        return yaml.load(text, Loader=yaml.BaseLoader)  # noqa: S506  (no object is built)
    except (yaml.YAMLError, ValueError, RecursionError):
        return None


_DEEP: dict[str, Any] = {}
"""Placeholder for values that are nested too deeply."""


_HOLDING = ("@graph", "mainEntity", "mainEntityOfPage", "itemListElement", "item", "hasPart")


def _listed(data: dict[str, Any]) -> list[Any]:
    """Values of a list that PHP wrote as an object, ``{"0": …, "2": …}``."""
    return list(data.values()) if data and all(map(str.isdecimal, data)) else []


def _things(data: object, depth: int = 0) -> Iterator[dict[str, Any]]:
    inner = data if isinstance(data, list) else []
    if isinstance(data, dict):
        yield data
        inner = [data[key] for key in _HOLDING if data.get(key)] + _listed(data)
    if inner and depth >= _MAX_DEPTH:
        yield _DEEP
        return
    for item in inner:
        yield from _things(item, depth + 1)


def _types(thing: dict[str, Any]) -> set[str]:
    kinds = thing.get("@type")
    return {
        re.split("[/:#]", str(kind).casefold())[-1]
        for kind in (kinds if isinstance(kinds, list) else [kinds])
    }


def _document(thing: dict[str, Any], base: Path | None, headings: Mapping[str, str]) -> Document:
    """Build a document from a declared item; the page's own word for ingredients becomes the heading of their
    list.
    """
    document = Document(
        title=_words(thing.get("name")) or _words(thing.get("headline")),
        author=", ".join(filter(None, map(_words, _list(thing.get("author"))))),
        license=_words(thing.get("license")),
        language=_words(thing.get("inLanguage")),
        notes=["steps as declared by the page (schema.org)"],
    )
    declared = thing.get("recipeInstructions") or thing.get("step")
    steps = _Steps(base, document.left_out).of(declared)
    document.steps = tuple(_numbered(step, number) for number, step in enumerate(steps, 1))
    between = [Part(text=line) for key in ("description", "recipeYield") for line in _lines(thing.get(key))]
    for key, reason in _BESIDE_STEPS.items():
        items = tuple(filter(None, map(_words, _list(thing.get(key)))))
        if items:
            document.left_out.append(LeftOut(reason, "\n".join(items), kept=True))
            between.append(Part(kind="heading", text=headings.get(reason, reason.capitalize()), level=2))
            between += (Part(kind="item", text=item, depth=1) for item in items)
    if len(between) > _MAX_AROUND:
        raise DataError(
            f"JSON-LD: {len(between):,} lines are declared around the steps; expected at most"
            f" {_MAX_AROUND:,}, as of a recipe; save the page as plain text"
        )
    document.between = tuple(Between(**dict(part), before=0) for part in between)
    return document


_NUMBER = re.compile(r"(?:(?<=\s)|^)(?:step\s+)?(\d{1,2})\s?[.):]\s+", re.IGNORECASE)


def _items(text: str) -> list[str]:
    """Steps in one text: the items of a list numbered in it, ``1. Mix. 2. Bake.``, or else its lines."""
    lines = _lines(text)
    whole = "\n".join(lines)
    starts: list[re.Match[str]] = []
    for found in _NUMBER.finditer(whole):
        if int(found[1]) == len(starts) + 1:
            starts.append(found)
    if len(starts) < 2 or starts[0].start():
        return lines
    ends = [*(found.start() for found in starts[1:]), len(whole)]
    return [whole[found.end() : end].strip() for found, end in zip(starts, ends, strict=True)]


def _numbered(step: Step, number: int) -> Step:
    """A declared step as an item of a numbered list."""
    first, *more = step.text.split("\n")
    item = Part(kind="item", text=first, number=number, depth=1)
    return step.model_copy(update={"parts": (item, *(Part(text=line, depth=1) for line in more))})


def _position(item: Any) -> int:  # noqa: ANN401
    stated = str(item.get("position", "")) if isinstance(item, dict) else ""
    return int(stated) if re.fullmatch(r"\d{1,6}", stated) else 0


def _are_placed(items: Sequence[Any]) -> bool:
    """Whether all items state their position, and all positions differ."""
    places = set(map(_position, items))
    return len(places) == len(items) and 0 not in places


@dataclass
class _Steps:
    """Reads declared steps, and lists everything else."""

    base: Path | None
    left_out: list[LeftOut]

    def of(self, data: object, title: str = "", depth: int = 0) -> Iterator[Step]:
        """Steps in any value; those of sections under the section's title."""
        if depth > _MAX_DEPTH:
            self.left_out.append(LeftOut(f"declared steps nested deeper than {_MAX_DEPTH}"))
        elif isinstance(data, str):
            for line in _items(data):
                yield Step(text=line, title=title)
        elif isinstance(data, list) or (isinstance(data, dict) and _listed(data)):
            items = data if isinstance(data, list) else _listed(data)
            for item in sorted(items, key=_position) if _are_placed(items) else items:
                if isinstance(item, str) and len(items) > 1:
                    yield from (Step(text=words, title=title) for words in ["\n".join(_lines(item))] if words)
                else:
                    yield from self.of(item, title, depth + 1)
        elif isinstance(data, dict):
            section = bool(_types(data) & {"howtosection", "itemlist"})
            name, inner = _words(data.get("name")), data.get("itemListElement") or data.get("steps")
            inner = inner or (data.get("item") if section else None)
            if (section and inner) or ((section or inner) and not data.get("text")):
                heading = "" if "howtostep" in _types(data) and not isinstance(inner, list) else name
                listed = len(self.left_out)
                found = list(self.of(inner, heading or title, depth + 1))
                # a section without steps is a step if it has text; otherwise it is listed as left out
                yield from found or (self._one(data, name, title) if len(self.left_out) == listed else ())
            elif _types(data) & {"listitem"} and isinstance(data.get("item"), dict | str):
                yield from self.of(data["item"], title, depth + 1)
            else:
                yield from self._one(data, name, title)
        elif depth:
            self.left_out.append(LeftOut("declared step without words"))

    def _one(self, data: dict[str, Any], name: str, title: str) -> Iterator[Step]:
        text = "\n".join(_lines(data.get("text") or data.get("description")))
        # Sites repeat the text, or its beginning, as the name of a step.
        own = name if text and name and not text.startswith(name.rstrip(".…").strip()) else ""
        if text or name:
            pictures = _pictures(data.get("image"), self.base)
            yield Step(text=text or name, title=own or title, pictures=pictures)
        else:  # for example a reference to another node, which may refer back to this one
            self.left_out.append(LeftOut("declared step without words"))


def _pictures(data: object, base: Path | None) -> tuple[PictureRef, ...]:
    found: list[PictureRef] = []
    for item in _list(data):
        url = item.get("url") or item.get("contentUrl") or item.get("@id") if isinstance(item, dict) else item
        alt = _words(item.get("caption") or item.get("name")) if isinstance(item, dict) else ""
        if isinstance(url, str) and url.strip() and not url.strip().startswith(("data:", "#", "_:")):
            found.append(resolve_picture(_whole(url).strip(), base, alt))
    return tuple(found)


def _list(data: object) -> list[Any]:
    return data if isinstance(data, list) else [] if data is None else [data]


def _words(data: object) -> str:
    """Plain text of a value: a string, a named object, or the first of several."""
    if isinstance(data, list):
        return _words(data[0]) if data and not isinstance(data[0], list) else ""
    if isinstance(data, dict):
        name = data.get("name") or data.get("@value") or data.get("url")
        return _words(name) if isinstance(name, str) else ""
    return " ".join(_lines(data))


def _lines(data: object) -> list[str]:
    """Lines of a text that may contain escaped HTML."""
    if not isinstance(data, str):
        return []
    text = _whole(unescape(data))
    if "<" in text:
        text = _laid_out(parse_tree(f"<div>{text}</div>", "JSON-LD"))
    lines = (collapse(line) for line in text.replace("\r", "\n").split("\n"))
    return [line for line in lines if line]


def _laid_out(root: Element) -> str:
    """Words of an element, its blocks and breaks on lines of their own."""
    for node in root.iter(*HEADINGS, "p", "li", "div", "tr", "br"):
        node.text, node.tail = f"\n{node.text or ''}", f"\n{node.tail or ''}"
    return "".join(root.itertext())


def _whole(text: str) -> str:
    """Text without NUL characters, and with a question mark for every lone surrogate (JSON allows them)."""
    return text.replace("\0", "").encode("utf-8", "replace").decode("utf-8")
