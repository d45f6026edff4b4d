"""Steps that a page declares for search engines: schema.org Recipe and HowTo as JSON-LD.

Where a site states its steps there is nothing to guess from its markup, and most recipe sites do.
Microdata and RDFa are not read; a page without JSON-LD is cut by its markup.
"""

import json
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any

from limner.records import PictureRef, Step
from limner.text.document import Document, LeftOut, resolve_picture
from limner.text.html_blocks import collapse, parse_tree

_MAX_DEPTH = 50


def declared_document(scripts: list[str], base: Path | None) -> Document | None:
    """The first Recipe or HowTo with at least two steps.

    Args:
        scripts: contents of the page's ``application/ld+json`` elements.
        base: folder that relative picture paths start from, or None.

    Returns:
        A document with `steps`, title and credits; None where the page declares no steps.
    """
    for script in scripts:
        try:
            data = json.loads(script, strict=False)
        except (ValueError, RecursionError):  # broken JSON-LD is common and declares nothing
            continue
        for thing in _things(data, 0):
            if _types(thing) & {"Recipe", "HowTo"}:
                document = _document(thing, base)
                if len(document.steps) >= 2:
                    return document
    return None


def _things(data: object, depth: int) -> Iterator[dict[str, Any]]:
    if depth > _MAX_DEPTH:
        return
    if isinstance(data, list):
        for item in data:
            yield from _things(item, depth + 1)
    elif isinstance(data, dict):
        yield data
        for key in ("@graph", "mainEntity", "mainEntityOfPage"):
            yield from _things(data.get(key), depth + 1)


def _types(thing: dict[str, Any]) -> set[str]:
    kinds = thing.get("@type")
    return {str(kind).rpartition("/")[2] for kind in (kinds if isinstance(kinds, list) else [kinds])}


def _document(thing: dict[str, Any], base: Path | None) -> Document:
    document = Document(title=_words(thing.get("name")) or _words(thing.get("headline")))
    document.author = ", ".join(filter(None, map(_words, _list(thing.get("author")))))
    document.license = _words(thing.get("license"))
    document.language = _words(thing.get("inLanguage"))
    declared = thing.get("recipeInstructions") or thing.get("step")
    document.steps = tuple(_Steps(base, document.left_out).of(declared))
    for key, reason in (
        ("recipeIngredient", "ingredients"),
        ("ingredients", "ingredients"),
        ("supply", "supplies"),
        ("tool", "tools"),
    ):
        words = [word for word in map(_words, _list(thing.get(key))) if word]
        if words:
            document.left_out.append(LeftOut(reason, "\n".join(words)))
    document.notes.append("steps as declared by the page (schema.org)")
    return document


class _Steps:
    """Reads declared steps; what is none of them is put on a list."""

    def __init__(self, base: Path | None, left_out: list[LeftOut]) -> None:
        self._base, self._left_out = base, left_out

    def of(self, data: object, title: str = "", depth: int = 0) -> Iterator[Step]:
        """The steps of any value, those of sections under the section's title."""
        if depth > _MAX_DEPTH:
            self._left_out.append(LeftOut(f"declared steps nested deeper than {_MAX_DEPTH}"))
        elif isinstance(data, str):
            for line in _lines(data):
                yield Step(text=line, title=title)
        elif isinstance(data, list):
            for item in data:
                yield from self.of(item, title, depth + 1)
        elif isinstance(data, dict):
            name, inner = _words(data.get("name")), data.get("itemListElement") or data.get("steps")
            section = bool(_types(data) & {"HowToSection", "ItemList"})
            if (section and inner) or ((section or inner) and not data.get("text")):
                heading = "" if "HowToStep" in _types(data) and not isinstance(inner, list) else name
                yield from self.of(inner, heading or title, depth + 1)
            elif _types(data) & {"ListItem"} and isinstance(data.get("item"), dict | str):
                yield from self.of(data["item"], title, depth + 1)
            else:
                yield from self._one(data, name, title)
        elif depth:
            self._left_out.append(LeftOut("declared step without words"))

    def _one(self, data: dict[str, Any], name: str, title: str) -> Iterator[Step]:
        text = "\n".join(_lines(data.get("text") or data.get("description")))
        # Sites repeat the text, or its beginning, as the name of a step.
        own = name if text and name and not text.startswith(name.rstrip(".…").strip()) else ""
        if text or name:
            yield Step(
                text=text or name, title=own or title, pictures=_pictures(data.get("image"), self._base)
            )
        else:  # such as a mere reference to another node, which may refer back
            self._left_out.append(LeftOut("declared step without words"))


def _pictures(data: object, base: Path | None) -> tuple[PictureRef, ...]:
    found: list[PictureRef] = []
    for item in _list(data):
        url = item.get("url") or item.get("contentUrl") or item.get("@id") if isinstance(item, dict) else item
        alt = _words(item.get("caption") or item.get("name")) if isinstance(item, dict) else ""
        if isinstance(url, str) and url.strip() and not url.strip().startswith("data:"):
            found.append(resolve_picture(_whole(url).strip(), base, alt))
    return tuple(found)


def _list(data: object) -> list[Any]:
    return data if isinstance(data, list) else [] if data is None else [data]


def _words(data: object) -> str:
    """Plain words of a value: a string, a named thing, or the first of several."""
    if isinstance(data, list):
        return _words(data[0]) if data and not isinstance(data[0], list) else ""
    if isinstance(data, dict):
        name = data.get("name") or data.get("@value") or data.get("url")
        return _words(name) if isinstance(name, str) else ""
    return " ".join(_lines(data))


def _lines(data: object) -> list[str]:
    """Lines of a text that may hold escaped HTML."""
    if not isinstance(data, str):
        return []
    text = _whole(unescape(data))
    if "<" in text:
        text = _without_tags(text)
    lines = (collapse(line) for line in text.replace("\r", "\n").split("\n"))
    return [line for line in lines if line]


def _whole(text: str) -> str:
    """Text without zeros, and with a question mark for every half of a character that JSON may escape."""
    return text.replace("\0", "").encode("utf-8", "replace").decode("utf-8")


def _without_tags(text: str) -> str:
    for tag in ("</p>", "</li>", "<br>", "<br/>", "<br />", "</div>"):
        text = text.replace(tag, f"\n{tag}")
    return "".join(parse_tree(f"<div>{text}</div>", "JSON-LD").itertext())
