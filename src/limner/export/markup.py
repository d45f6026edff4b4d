"""Formatted text as runs of equal format, blocks nested in their lists, and HTML of both.

Text is always escaped, so that it cannot become markup. Links keep their URL only if it is safe to follow.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby, pairwise
from operator import itemgetter
from typing import NamedTuple

from markupsafe import Markup, escape

from limner.records import Block, Passage

_FOLLOWED = re.compile(r"(?:https?://|mailto:|tel:)[^\s\x00-\x1f\"'<>\\]+", re.IGNORECASE)
_ELEMENTS = {"emphasis": "em", "struck": "s", "above": "sup", "below": "sub", "met": "mark"}


class TextRun(NamedTuple):
    """Text with one format.

    Attributes:
        text: the text.
        kinds: formats, as in `limner.records.Mark`, or `met` for a word that matches those of the picture.
        target: URL of a link that is safe to follow, or "".
    """

    text: str
    kinds: frozenset[str] = frozenset()
    target: str = ""


Marking = Callable[[str], Iterable[tuple[int, int]]]
"""Function from a text to the ranges of its words that match those of a picture."""


def runs_of(passage: Passage, met: Iterable[tuple[int, int]] = ()) -> list[TextRun]:
    """Split a passage where its marks change; joined, the runs are its text.

    Args:
        passage: text with marks.
        met: ranges of matching words: start and end.
    """
    size = len(passage.text)
    marks: list[tuple[int, int, str, str]] = [(start, end, "met", "") for start, end in met]
    marks += [(mark.start, mark.end, mark.kind, mark.target) for mark in passage.marks]
    edges = sorted({0, size, *(min(size, edge) for mark in marks for edge in mark[:2])})
    marks.sort(key=itemgetter(0), reverse=True)
    inside: list[tuple[int, int, str, str]] = []
    runs = []
    for start, end in pairwise(edges):
        while marks and marks[-1][0] <= start:
            inside.append(marks.pop())
        inside = [mark for mark in inside if end <= mark[1]]
        kinds = frozenset(kind for _, _, kind, _ in inside if kind != "link")
        target = next((target for *_, kind, target in inside if kind == "link"), "")
        runs.append(TextRun(passage.text[start:end], kinds, target if _FOLLOWED.fullmatch(target) else ""))
    return runs


class Listing(NamedTuple):
    """A list.

    Attributes:
        start: number of the first item; None for a list with bullets.
        items: for each item its block, then what belongs to it: paragraphs, code, pictures, inner lists.
    """

    start: int | None
    items: "list[list[Block | Listing]]"


def nested(blocks: Sequence[Block], depth: int = 0) -> Iterator[Block | Listing]:
    """Nest blocks in their lists; a block that is deeper than an item belongs to the item before it.

    Args:
        blocks: blocks in order, each with the number of lists around it.
        depth: number of lists around all of them.
    """
    place = 0
    while place < len(blocks):
        block = blocks[place]
        place += 1
        if block.depth <= depth:
            yield block
            continue
        starts = [place - 1]
        while place < len(blocks) and blocks[place].depth > depth:
            if blocks[place].kind == "item" and blocks[place].depth == depth + 1:
                last = blocks[starts[-1]].number
                if blocks[place].number != (None if last is None else last + 1):
                    break  # another list begins
                starts.append(place)
            place += 1
        items = pairwise([*starts, place])
        yield Listing(
            block.number,
            [[blocks[first], *nested(blocks[first + 1 : after], depth + 1)] for first, after in items],
        )


def inline_html(passage: Passage, met: Iterable[tuple[int, int]] = ()) -> Markup:
    """HTML of a passage, as one paragraph."""
    made = Markup()
    for target, runs in groupby(runs_of(passage, met), key=lambda run: run.target):
        words = Markup()
        for run in runs:
            part = Markup("<br/>").join(map(escape, run.text.split("\n")))
            for kind in sorted(run.kinds):
                part = Markup("<{0}>{1}</{0}>").format(_ELEMENTS.get(kind, kind), part)
            words += part
        made += Markup('<a href="{}" rel="noopener">{}</a>').format(target, words) if target else words
    return made


def html_of(
    blocks: Sequence[Block],
    pictures: Callable[[Block], Markup],
    *,
    marks: Marking = lambda _: (),
    least: int = 2,
) -> Markup:
    """HTML of blocks, also valid as XHTML: headings, paragraphs, nested lists, tables, code and quotations.

    Args:
        blocks: blocks, in order.
        pictures: function that makes the elements of the pictures of a block.
        marks: function that finds matching words.
        least: level of the highest heading.
    """

    def inside(parts: Iterable[Block | Listing]) -> Markup:
        made = []
        for part in parts:
            if isinstance(part, Listing):
                tag = "ul" if part.start is None else "ol"
                start = "" if part.start in (None, 1) else f' start="{part.start}"'
                items = Markup("\n").join(Markup("<li>{}</li>").format(inside(one)) for one in part.items)
                made.append(Markup(f"<{tag}{start}>\n{{}}\n</{tag}>").format(items))  # noqa: S704 - our tags
            else:
                made += [pictures(part), _block_html(part, marks, least)]
        return Markup("\n").join(filter(None, made))

    made = Markup()
    for quoted, group in groupby(blocks, key=lambda block: block.quoted):
        words = inside(nested(list(group)))
        made += Markup("<blockquote>\n{}\n</blockquote>\n").format(words) if quoted else words + Markup("\n")
    return made


def _block_html(block: Block, marks: Marking, least: int) -> Markup:
    if block.kind == "table":
        return Markup('<table class="own">\n{}\n</table>').format(_rows_html(block))
    words = inline_html(block, marks(block.text))
    if block.kind == "break":
        return Markup("<hr/>")
    if not block.text or block.kind == "item":
        return words
    if block.kind == "code":
        return Markup("<pre><code>{}</code></pre>").format(block.text)
    tag = f"h{min(6, max(least, block.level))}" if block.kind == "heading" else "p"
    return Markup("<{0}>{1}</{0}>").format(tag, words)


def _rows_html(block: Block) -> Markup:
    made = []
    for place, row in enumerate(block.rows):
        tag = "th" if place < block.head else "td"
        cells = Markup().join(Markup("<{0}>{1}</{0}>").format(tag, inline_html(cell)) for cell in row)
        made.append(Markup("<tr>{}</tr>").format(cells))
    return Markup("\n").join(made)
