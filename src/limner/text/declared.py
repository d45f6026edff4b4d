"""Steps that a page declares for search engines: schema.org Recipe and HowTo, in JSON-LD or microdata.

A declaration says which of the page's words are steps; where the page shows these words, its own blocks are
the text.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from html import unescape
from itertools import accumulate, chain, count, groupby
from typing import TYPE_CHECKING, Any

from lxml import etree

from limner.records import Block, PictureRef, Step
from limner.text.blocks import Document, Find, divided, letters, pictures_of
from limner.text.lines import blocks_of_lines

if TYPE_CHECKING:
    from lxml.etree import _Element as Element

_SUPPLIES = (("recipeIngredient", "Ingredients"), ("supply", "Supplies"), ("tool", "Tools"))
# Comment and CDATA markers before JSON, which once hid it from old browsers.
_BEFORE = re.compile(r"(?:\s|\ufeff|<!--|//|/\*|\*/|<!\[CDATA\[)*+")
_LINE_END = re.compile(r"(?i)<(?:br|hr|/?(?:p|li|ol|ul|div|tr|h[1-6]))\b[^<>]*>")
_TAG = re.compile(r"</?[a-zA-Z][^<>]*>")
_INNER_NUMBER = re.compile(r"(?i)(?<=[.!?:;)])\s+(?=(?:step\s+)?\d{1,2}[.):]\s)")
_NUMBER_BEFORE = re.compile(r"(?i)(?:step\s+)?(\d{1,2})[.):]\s*\Z")
# Maximum length of a number before a step, "Step 12", and of words that stand anywhere by chance, in letters.
_LONGEST_NUMBER, _LONG = 8, 12


def declared_document(root: Element, find: Find, notes: list[str]) -> Document | None:
    """The first recipe or guide that a page declares with its steps.

    Args:
        root: root of the page.
        find: finds the files of pictures.
        notes: receives a line for a declaration that cannot be read.
    Returns:
        A document of the declared parts alone, with `declared` steps; None if the page declares none.
    """
    for thing in (*_in_json(root, notes), *_marked_up(root)):
        try:
            steps = list(_steps(thing.get("recipeInstructions") or thing.get("step"), find))
        except RecursionError:
            notes.append("what the page declares is nested too deeply: its visible text is read")
            continue
        if steps:
            return _document(thing, steps)
    return None


def place_steps(document: Document, stated: Document) -> float:
    """Find the declared steps of a page among its visible blocks.

    Args:
        document: the visible page; if it shows all steps in order, it receives them, with the pictures
            that only the declaration has, and the credits.
        stated: what the page declares.
    Returns:
        Share of the steps that the page shows in any order.
    """
    tops = [block for block in document.blocks if block.level == 1]
    title = tops[0] if len(tops) == 1 else None
    titles, wanted = zip(*((step.title, letters(step.text)) for step in stated.declared), strict=True)
    shown = (block for block in document.blocks if block is not title)
    blocks = [piece for block in shown for piece in _at_steps(block, wanted)]
    words = [letters(block.text) for block in blocks]
    starts, written = [0, *accumulate(map(len, words))], "".join(words)
    runs: list[tuple[int, int]] = []
    for step in stated.declared:
        run = _run(step, written, starts, runs[-1][1] if runs else 0)
        runs += [run] if run else []
    if len(runs) < len(titles):
        whole = set(words)
        return sum(text in (written if len(text) > _LONG else whole) for text in wanted) / len(wanted)
    steps: Sequence[Step] = stated.declared
    if len(steps) == 1:  # all steps in one string
        runs = [(place, place + 1) for place in range(*runs[0]) if words[place]]
        steps = steps if len(runs) == 1 else [Step(text=blocks[place].text) for place, _ in runs]
    made: list[Block] = []
    placed: list[Step] = []
    done, above = 0, ""  # blocks of the page that are in the document; the last heading among them
    for (start, end), (limit, _), step in zip(runs, [*runs[1:], (len(blocks), 0)], steps, strict=True):
        first, last = start, end
        while first > done and _precedes(blocks[first - 1], blocks[first], step.title, titles):
            first -= 1
        while last < limit and _follows(blocks[last], blocks[start]):
            last += 1
        above = next((block.text for block in reversed(blocks[done:first]) if block.kind == "heading"), above)
        begin = len(made) + first - done
        made += blocks[done:last]
        if not pictures_of(blocks[first:last]):
            made += _shown(step.pictures, blocks[start].depth)
        placed.append(step.model_copy(update={"run": (begin, len(made)), "title": step.title or above}))
        done = last
    document.blocks, document.declared = [*made, *blocks[done:]], tuple(placed)
    document.title = stated.title if title is None else title.text
    document.author, document.license = stated.author, stated.license
    document.notes += stated.notes
    return 1


def _at_steps(block: Block, wanted: Sequence[str]) -> list[Block]:
    """A paragraph that holds several of the declared steps, divided there, before their typed numbers."""
    if block.kind != "paragraph":
        return [block]
    written, places = letters(block.text), [n for n, sign in enumerate(block.text) for _ in letters(sign)]
    starts: list[int] = []
    end = 0
    for text in wanted:
        if text and (place := written.find(text, end)) >= 0:
            number = _NUMBER_BEFORE.search(block.text, 0, places[place])
            starts.append(number.start() if number else places[place])
            end = place + len(text)
    return divided(block, starts) if len(starts) > 1 else [block]


def _run(step: Step, written: str, starts: Sequence[int], begin: int) -> tuple[int, int] | None:
    """The blocks that are a step, perhaps with its number and title before and a few words after it, or None.

    Args:
        step: the step.
        written: letters of all blocks.
        starts: place of each block in these letters, and their end.
        begin: first block that counts.
    """
    wanted, title = letters(step.text), letters(step.title)
    place = written.find(wanted, starts[begin]) if wanted else -1
    while place >= 0:
        first = bisect_right(starts, place) - 1
        prefix = written[starts[first] : place].removesuffix(title)
        if not prefix or (len(prefix) <= _LONGEST_NUMBER and prefix[-1].isdigit()):
            return first, bisect_left(starts, place + len(wanted))
        place = written.find(wanted, place + 1)
    return None


def _precedes(above: Block, first: Block, title: str, titles: Sequence[str]) -> bool:
    """Whether a block belongs to the step below it: its item, a picture of its box, its own heading."""
    if above.kind == "heading" and letters(above.text) == letters(title):
        return titles.count(title) == 1
    in_item = first.depth > 0 and first.kind != "item" and above.depth > 0
    return in_item or (above.kind == "picture" and above.group == first.group > 0)


def _follows(block: Block, first: Block) -> bool:
    """Whether a block belongs to the step above it: more of its item, or a picture."""
    in_item = first.depth > 0 and block.depth > 0 and (block.kind != "item" or block.depth > first.depth)
    return in_item or (block.kind == "picture" and block.group in (0, first.group))


def _shown(pictures: Sequence[PictureRef], depth: int) -> list[Block]:
    return [Block(kind="picture", pictures=(picture,), depth=depth) for picture in pictures]


def _in_json(root: Element, notes: list[str]) -> Iterator[dict[str, Any]]:
    """Recipes and guides in the JSON-LD of a page, those inside other objects, too."""
    for script in root.xpath("//script[contains(@type, 'ld+json')]"):
        text = script.text or ""
        start = _BEFORE.match(text)
        try:
            pending = [json.JSONDecoder(strict=False).raw_decode(text, start.end() if start else 0)[0]]
        except (ValueError, RecursionError):
            if re.search("recipe|howto", text, re.IGNORECASE):
                notes.append("what the page declares is no valid JSON: its visible text is read")
            continue
        while pending:
            thing = pending.pop()
            if isinstance(thing, dict):
                names = {re.split("[/:#]", str(kind))[-1] for kind in _list(thing.get("@type"))}
                if not names.isdisjoint({"Recipe", "HowTo"}):
                    yield thing
            inner = thing.values() if isinstance(thing, dict) else thing if isinstance(thing, list) else ()
            pending += reversed(list(inner))


def _marked_up(root: Element) -> Iterator[dict[str, Any]]:
    """The first recipe or guide whose visible steps are marked up, in the form of JSON-LD."""
    kinds = "contains(@itemtype, 'schema.org/Recipe') or contains(@itemtype, 'schema.org/HowTo')"
    for thing in root.xpath(f"//*[{kinds}]")[:1]:
        nodes = thing.xpath(".//*[@itemprop='recipeInstructions' or @itemprop='step']")
        texts = [inner for node in nodes for inner in node.xpath(".//*[@itemprop='text']") or [node]]
        markup = (etree.tostring(node, encoding="unicode", with_tail=False) for node in dict.fromkeys(texts))
        yield {"recipeInstructions": [{"text": line} for text in markup for line in _lines(text)]}


def _document(thing: dict[str, Any], steps: Sequence[Step]) -> Document:
    """A document of the declared parts alone: description, supplies and steps below their titles."""
    document = Document(notes=["steps as declared by the page (schema.org)"])
    document.title, document.language = _words(thing.get("name")), _words(thing.get("inLanguage"))
    document.author = ", ".join(filter(None, map(_words, _list(thing.get("author")))))
    document.license = _words(thing.get("license"))
    blocks = document.blocks = [Block(text=line) for line in _lines(thing.get("description"))]
    for key, heading in _SUPPLIES:
        if items := list(filter(None, map(_words, _list(thing.get(key))))):
            blocks.append(Block(kind="heading", text=heading, level=2, role="supplies"))
            blocks += (Block(kind="item", text=line, depth=1, role="supplies") for line in items)
    numbers = count(1)
    declared: list[Step] = []
    for title, group in groupby(steps, key=lambda step: step.title):
        below = list(group)
        if title:
            blocks.append(Block(kind="heading", text=title, level=2, role="method"))
        for step in below:
            start = len(blocks) - (len(below) == 1 and title != "")
            first, *more = step.text.split("\n")
            blocks.append(Block(kind="item", text=first, number=next(numbers), depth=1, role="method"))
            blocks += (Block(text=line, depth=1, role="method") for line in more)
            blocks += _shown(step.pictures, 1)
            declared.append(step.model_copy(update={"run": (start, len(blocks))}))
    document.declared = tuple(declared)
    return document


def _steps(data: object, find: Find, title: str = "") -> Iterator[Step]:
    """Steps in any value; those of a section have its title."""
    if isinstance(data, str):
        lines = _lines(data)
        typed = [block for block in blocks_of_lines(_INNER_NUMBER.sub("\n", "\n".join(lines))) if block.text]
        texts = [block.text for block in typed] if any(block.number for block in typed) else lines
        yield from (Step(text=text, title=title) for text in texts)
    elif isinstance(data, list):
        for item in data:  # of several strings, each is a step
            is_step = isinstance(item, str) and len(data) > 1
            yield from _steps({"text": item} if is_step else item, find, title)
    elif isinstance(data, dict):
        inner = data.get("itemListElement") or data.get("steps") or data.get("item")
        name, text = _words(data.get("name")), "\n".join(_lines(data.get("text") or data.get("description")))
        parts = [part for part in _list(inner) if isinstance(part, dict)]
        if parts and all(part.get("@type") in ("HowToDirection", "HowToTip") for part in parts):
            directions = [_lines(part.get("text")) for part in parts if part["@type"] == "HowToDirection"]
            text, inner = "\n".join(chain.from_iterable(directions)), None
        if inner and not text:
            yield from _steps(inner, find, name or title)
        elif text or name:  # sites repeat the text, or its beginning, as the name of a step
            named = name if text and not text.startswith(name.rstrip(".… ")) else ""
            pictures = tuple(_pictures(data.get("image"), find))
            yield Step(text=text or name, title=named or title, pictures=pictures)


def _pictures(data: object, find: Find) -> Iterator[PictureRef]:
    for item in _list(data):
        stated = item if isinstance(item, dict) else {"url": item}
        url = stated.get("url") or stated.get("contentUrl")
        if isinstance(url, str) and url.strip():
            yield find(_whole(url).strip(), _words(stated.get("caption") or stated.get("name")))


def _list(data: object) -> list[Any]:
    return data if isinstance(data, list) else [] if data is None else [data]


def _words(data: object) -> str:
    """Plain text of a value: a string, a named object, or the first of several."""
    value = next(iter(_list(data)), None)
    value = (value.get("name") or value.get("@value")) if isinstance(value, dict) else value
    return " ".join(_lines(value))


def _lines(data: object) -> list[str]:
    """Lines of a text that may contain HTML, also with escaped tags."""
    text = unescape(_whole(data)) if isinstance(data, str) else ""
    text = _TAG.sub("", _LINE_END.sub("\n", text))
    return [line for part in text.splitlines() if (line := " ".join(part.split()))]


def _whole(text: str) -> str:
    """Text without what JSON allows and no text may contain: NUL, and lone surrogates."""
    return text.replace("\0", "").encode("utf-8", "replace").decode("utf-8")
