"""Which elements of a page are cards: alike, side by side, each with a picture and the words for it.

Pages lay out steps as rows of a table, as figures with captions or as boxes. Inside such a card picture and
words belong together, whichever comes first.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import chain, count, pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lxml.etree import _Element as Element

PICTURES = ("img", "amp-img")
_CARDS = frozenset({"article", "dd", "div", "figure", "li", "section", "td", "tr"})
_MOST_PICTURES = 6
Card = tuple[int, int]


def cards_of(root: Element) -> dict[Element, Card]:
    """The cards below an element.

    Two or more children of one parent are cards when tag and first class agree and each has words and one to
    six pictures; their likes beside them are cards, too, with words or pictures alone. The innermost count;
    but figures only where they hold most of the words around them, for else they illustrate those.
    Items of numbered lists are none, nor are those of a gallery. In a table, a row of pictures above a row of
    words makes a card of every column.

    Returns:
        Element → (kind, number), both from 1; the cells of a column share one.
    """
    found: dict[Element, Card] = {}
    kinds: defaultdict[tuple[str, str], int] = defaultdict(count(1).__next__)
    numbers = count(1)
    parents = [node for node in root.iter() if isinstance(node.tag, str) and len(node)]
    for parent in reversed(parents):  # children come before their parents
        if parent.tag in {"table", "tbody"}:
            for upper, lower in _columns(parent):
                found[upper] = found[lower] = kinds["column", ""], next(numbers)
        alike: defaultdict[tuple[str, str], list[Element]] = defaultdict(list)
        for child in parent:
            numbered = child.tag == "li" and parent.tag == "ol"
            if child.tag in _CARDS and not numbered and not is_of_gallery(child, parent):
                alike[child.tag, (child.get("class") or "").partition(" ")[0]].append(child)
        for kind, nodes in alike.items():
            full = [
                node for node in nodes if _is_card(node) and found.keys().isdisjoint(node.iterdescendants())
            ]
            if len(full) < 2 or (kind[0] == "figure" and 2 * sum(map(letters, full)) < letters(parent)):
                continue
            for node in nodes:
                is_head = node.tag == "tr" and not any(cell.tag == "td" for cell in node)
                if not is_head and found.keys().isdisjoint(node.iterdescendants()):
                    found[node] = kinds[kind], next(numbers)
    return found


def is_of_gallery(node: Element, parent: Element) -> bool:
    """Whether an element is one of several pictures in a figure or in a list that is called a gallery."""
    return node.tag == "figure" == parent.tag or (node.tag == "li" and "gallery" in (node.get("class") or ""))


def _columns(table: Element) -> list[tuple[Element, Element]]:
    """Cells with pictures alone, each with the cell of words below it."""
    rows = [[cell for cell in row if cell.tag == "td"] for row in table if row.tag == "tr"]
    return list(
        chain.from_iterable(
            zip(upper, lower, strict=True)
            for upper, lower in pairwise(rows)
            if len(upper) == len(lower) > 1
            and all(_pictures(cell) and not letters(cell) for cell in upper)
            and all(letters(cell) and not _pictures(cell) for cell in lower)
        )
    )


def _is_card(node: Element) -> bool:
    return 1 <= _pictures(node) <= _MOST_PICTURES and letters(node) > 0


def _pictures(node: Element) -> int:
    return sum(1 for _ in node.iter(*PICTURES))


def letters(node: Element) -> int:
    """How many letters an element holds."""
    return sum(map(str.isalpha, "".join(node.itertext())))
