"""What the author marked, as runs of words alike, and as HTML and Markdown.

Words are always escaped, so that nothing of a text turns into markup; links keep the addresses that a reader
may follow safely, and lose the others.
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
class Run:
    """Words that are shown alike.

    Attributes:
        text: the words.
        kinds: how they stand out, as `limner.records.Mark` calls it; `met` and `look1` to `look5` besides.
        target: address that they lead to, or "".
    """

    text: str
    kinds: frozenset[str] = frozenset()
    target: str = ""


def followed(target: str) -> str:
    """An address that leads out of a document and runs nothing, or "" for any other."""
    return target if _FOLLOWED.fullmatch(target) else ""


def runs_of(passage: Passage, more: Iterable[tuple[int, int, str]] = ()) -> list[Run]:
    """A passage cut where its marks change; joined, the runs are its text.

    Args:
        passage: the words and their marks.
        more: further marks: where they begin and end, and their kind.
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
        found.append(Run(passage.text[start:end], kinds, target))
    return found


def inline_html(passage: Passage, more: Iterable[tuple[int, int, str]] = ()) -> Markup:
    """A passage as HTML of one paragraph."""
    made = Markup()
    for target, runs in groupby(runs_of(passage, more), key=lambda run: run.target):
        words = Markup().join(map(_run_html, runs))
        made += Markup('<a href="{}" rel="noopener">{}</a>').format(target, words) if target else words
    return made


def _run_html(run: Run) -> Markup:
    words = Markup("<br/>").join(map(escape, run.text.split("\n")))
    for kind in sorted(run.kinds):
        if kind in _ELEMENTS:
            words = Markup("<{0}>{1}</{0}>").format(_ELEMENTS[kind], words)
        else:
            words = Markup('<span class="{}">{}</span>').format(kind, words)
    return words


Picturing = Callable[[PictureRef], Markup]
Marking = Callable[[Part], Iterable[tuple[int, int, str]]]


def html_of(
    parts: Sequence[Part],
    *,
    picture: Picturing = lambda _: Markup(),
    marks: Marking = lambda _: (),
    least: int = 2,
) -> Markup:
    """Parts as HTML that is XHTML as well: headings, paragraphs, nested lists, tables, code and quotations.

    Args:
        parts: in order.
        picture: makes the element of a picture that stands between the steps.
        marks: further marks of a part.
        least: level of the highest heading.
    """
    made = Markup()
    for quoted, group in groupby(parts, key=lambda part: part.quoted):
        inner = Markup("\n").join(_listed(list(group), 0, picture, marks, least))
        made += Markup("<blockquote>\n{}\n</blockquote>\n").format(inner) if quoted else inner + Markup("\n")
    return made


def _listed(
    parts: list[Part], depth: int, picture: Picturing, marks: Marking, least: int
) -> Iterator[Markup]:
    """The parts of one depth; those deeper are items of a list, or belong to the item before them."""
    place = 0
    while place < len(parts):
        part = parts[place]
        if part.depth <= depth:
            yield from (picture(one) for one in part.pictures)
            yield _block_html(part, marks, least)
            place += 1
            continue
        end = next((n for n in range(place, len(parts)) if parts[n].depth <= depth), len(parts))
        ordered, start = part.number is not None, part.number
        for n in range(place + 1, end):
            if (
                parts[n].kind == "item"
                and parts[n].depth == depth + 1
                and (parts[n].number is not None) != ordered
            ):
                end = n  # another kind of list begins
                break
        starts = [n for n in range(place, end) if n == place or _begins(parts[n], depth)]
        items = Markup("\n").join(
            Markup("<li>{}</li>").format(
                Markup("\n").join(
                    [
                        *(picture(one) for one in parts[first].pictures),
                        inline_html(parts[first], marks(parts[first])),
                        *_listed(parts[first + 1 : after], depth + 1, picture, marks, least),
                    ]
                )
            )
            for first, after in zip(starts, [*starts[1:], end], strict=True)
        )
        opening = "<ul>" if not ordered else "<ol>" if start == 1 else f'<ol start="{start}">'
        yield Markup(f"{opening}\n{{}}\n</{opening[1:3]}>").format(items)  # noqa: S704 - our own tags
        place = end


def _begins(part: Part, depth: int) -> bool:
    return part.kind == "item" and part.depth == depth + 1


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
