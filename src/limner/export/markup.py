"""Formatted text of the author as runs of equal format, HTML and Markdown.

Text is always escaped, so that it cannot become markup. Links keep their URL only if it is safe to follow.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise

from markupsafe import Markup, escape

from limner.records import Part, Passage, PictureRef

_FOLLOWED = re.compile(r"(?:https?://|mailto:|tel:)[^\s\x00-\x1f\"'<>\\]+", re.IGNORECASE)
_ELEMENTS = {
    "strong": "strong",
    "emphasis": "em",
    "code": "code",
    "struck": "s",
    "above": "sup",
    "below": "sub",
    "met": "mark",
}


@dataclass(frozen=True)
class TextRun:
    """Text with one format.

    Attributes:
        text: the text.
        kinds: formats, as in `limner.records.Mark`, or `met` and `look1` to `look5`.
        target: URL of a link, or "".
    """

    text: str
    kinds: frozenset[str] = frozenset()
    target: str = ""


def followed(target: str) -> str:
    """Safe external URL of a link, or "" for any other."""
    return target if _FOLLOWED.fullmatch(target) else ""


def runs_of(passage: Passage, more: Iterable[tuple[int, int, str]] = ()) -> list[TextRun]:
    """Split a passage where its marks change; joined, the runs are its text.

    Args:
        passage: text with marks.
        more: further marks: start, end and kind.
    """
    size = len(passage.text)
    marks: list[tuple[int, int, str, str]] = []
    marks += [(mark.start, mark.end, mark.kind, followed(mark.target)) for mark in passage.marks]
    marks += [(start, end, kind, "") for start, end, kind in more]
    edges = sorted({0, size, *(min(size, edge) for mark in marks for edge in mark[:2])})
    found = []
    for start, end in pairwise(edges):
        inside = [mark for mark in marks if mark[0] <= start and end <= mark[1]]
        kinds = frozenset(kind for _, _, kind, _ in inside if kind != "link")
        target = next((where for _, _, kind, where in inside if kind == "link"), "")
        found.append(TextRun(passage.text[start:end], kinds, target))
    return found


def inline_html(passage: Passage, more: Iterable[tuple[int, int, str]] = ()) -> Markup:
    """HTML of a passage, as one paragraph."""
    made = Markup()
    for target, runs in groupby(runs_of(passage, more), key=lambda run: run.target):
        words = Markup().join(map(_run_html, runs))
        made += Markup('<a href="{}" rel="noopener">{}</a>').format(target, words) if target else words
    return made


def _run_html(run: TextRun) -> Markup:
    words = Markup("<br/>").join(map(escape, run.text.split("\n")))
    for kind in sorted(run.kinds):
        if kind in _ELEMENTS:
            words = Markup("<{0}>{1}</{0}>").format(_ELEMENTS[kind], words)
        else:
            words = Markup('<span class="{}">{}</span>').format(kind, words)
    return words


Picturing = Callable[[PictureRef], Markup]
Marking = Callable[[Part], Iterable[tuple[int, int, str]]]


@dataclass(frozen=True)
class ListItem:
    """An item of a list.

    Attributes:
        part: its first paragraph.
        inner: further content: paragraphs, code, lists.
    """

    part: Part
    inner: tuple["Part | Listing", ...]


@dataclass(frozen=True)
class Listing:
    """A list.

    Attributes:
        items: items, in order.
        start: number of the first item; None for a list with bullets.
    """

    items: tuple[ListItem, ...]
    start: int | None


def nested(parts: Sequence[Part], depth: int = 0) -> Iterator[Part | Listing]:
    """Nest parts in their lists; a part that is deeper than an item belongs to the item before it.

    Args:
        parts: parts in order, each with the number of lists around it.
        depth: number of lists around all of them.
    """
    place = 0
    while place < len(parts):
        part = parts[place]
        if part.depth <= depth:
            yield part
            place += 1
            continue
        numbered = part.number is not None
        starts = [place]
        place += 1
        while place < len(parts) and parts[place].depth > depth:
            if parts[place].kind == "item" and parts[place].depth == depth + 1:
                if (parts[place].number is not None) != numbered:
                    break  # another kind of list begins
                starts.append(place)
            place += 1
        yield Listing(
            tuple(
                ListItem(parts[first], tuple(nested(parts[first + 1 : after], depth + 1)))
                for first, after in pairwise([*starts, place])
            ),
            part.number,
        )


def html_of(
    parts: Sequence[Part],
    *,
    picture: Picturing = lambda _: Markup(),
    marks: Marking = lambda _: (),
    least: int = 2,
) -> Markup:
    """HTML of parts, also valid as XHTML: headings, paragraphs, nested lists, tables, code and quotations.

    Args:
        parts: parts, in order.
        picture: function that makes the element of a picture between the steps.
        marks: function that returns further marks of a part.
        least: level of the highest heading.
    """

    def blocks(inner: Iterable[Part | Listing]) -> Iterator[Markup]:
        for block in inner:
            if isinstance(block, Listing):
                tag = "ul" if block.start is None else "ol"
                start = "" if block.start in (None, 1) else f' start="{block.start}"'
                items = Markup("\n").join(map(item, block.items))
                yield Markup(f"<{tag}{start}>\n{{}}\n</{tag}>").format(items)  # noqa: S704 - our own tags
            else:
                yield from map(picture, block.pictures)
                yield _block_html(block, marks, least)

    def item(own: ListItem) -> Markup:
        words = inline_html(own.part, marks(own.part))
        return Markup("<li>{}</li>").format(
            Markup("\n").join([*map(picture, own.part.pictures), words, *blocks(own.inner)])
        )

    made = Markup()
    for quoted, group in groupby(parts, key=lambda part: part.quoted):
        inside = Markup("\n").join(blocks(nested(list(group))))
        made += (
            Markup("<blockquote>\n{}\n</blockquote>\n").format(inside) if quoted else inside + Markup("\n")
        )
    return made


def _block_html(part: Part, marks: Marking, least: int) -> Markup:
    if part.kind == "break":
        return Markup("<hr/>")
    if not part.text:
        return Markup()
    if part.kind == "table":
        return _table_html(part)
    if part.kind == "code":
        return Markup("<pre><code>{}</code></pre>").format(part.text)
    words = inline_html(part, marks(part))
    if part.kind == "heading":
        return Markup("<h{0}>{1}</h{0}>").format(min(6, max(least, part.level)), words)
    return Markup("<p>{}</p>").format(words)


def _table_html(part: Part) -> Markup:
    lines = [
        Markup("<tr>{}</tr>").format(
            Markup().join(
                Markup("<{0}>{1}</{0}>").format("th" if place < part.head else "td", inline_html(cell))
                for cell in row
            )
        )
        for place, row in enumerate(part.rows)
    ]
    return Markup('<table class="own">\n{}\n</table>').format(Markup("\n").join(lines))
