"""Writes blocks and formatted text as CommonMark, escaped so that only the author's formatting is markup."""

import re
from bisect import bisect_left
from collections.abc import Sequence
from urllib.parse import quote

from limner.records import Block, Mark, Passage, PictureRef
from limner.templates import carried

# Characters with a meaning only at the start of a line: headings, quotations, lists, rules, containers.
_START = re.compile(r"^(\d{1,9}(?=[.)])|)([-+#>=.)]|:(?=::)|!(?=!!))", re.MULTILINE)
_SIGNS = re.compile(
    r"[\\`*\[\]|]|(?<![^\W_])_|_(?![^\W_])|<(?=[A-Za-z/!?])|&(?=#?\w+;)|~(?=~)|=(?==)|%(?=%)|\$(?=\$)|\{(?=[{%<])"
    r"|\^(?=[\w-]+$)"
)
_NOTE = r"\\\[([\w-]+)\\\]"
"""The mark of a footnote, escaped."""
_FORMATS = {"strong": ("**", "strong"), "emphasis": ("*", "em"), "struck": ("~~", "s"), "above": ("", "sup")}
"""Sign and HTML element of each format."""


def inline(text: str) -> str:
    """Text as CommonMark that renders as exactly this text on one line: no markup, no HTML, no entities."""
    return at_start(escaped(" ".join(carried(text).split())))


def escaped(text: str) -> str:
    """Text as CommonMark inside a line; line ends are hard line breaks."""
    return _SIGNS.sub(r"\\\g<0>", re.sub("[ \t]+", " ", carried(text))).replace("\n", "\\\n")


def at_start(markdown: str) -> str:
    """CommonMark of a paragraph whose lines begin nothing else, such as a list."""
    return _START.sub(r"\1\\\2", markdown)


def block_markdown(block: Block) -> str:
    """A block as CommonMark, without the marker of an item; its pictures follow its words."""
    words = marked(block)
    if block.kind == "break":
        words = "---"
    elif block.kind == "wanted":
        words = f"![{inline(block.text)}]()"
    elif block.kind == "code":
        fence = "`" * max(3, 1 + max(map(len, re.findall("`+", block.text)), default=0))
        words = f"{fence}\n{block.text}\n{fence}"
    elif block.kind == "heading":
        words = f"{'#' * max(2, block.level)} " + words.replace("\\\n", " ")
    elif block.kind == "table" and block.rows:
        width = max(map(len, block.rows))
        cells = [[marked(cell).replace("\\\n", "<br>") for cell in row] for row in block.rows]
        lines = [f"| {' | '.join([*row, *[''] * (width - len(row))])} |" for row in cells]
        lines = lines if block.head else [f"|{'  |' * width}", *lines]
        words = "\n".join([lines[0], f"|{' --- |' * width}", *lines[1:]])
    if block.role == "aside":
        words = re.sub(rf"\A{_NOTE}(?= )", r"[^\1]:", words)
    words = re.sub(r"\A☐ ?", "[ ] ", re.sub(r"\A☑ ?", "[x] ", words))
    gap = "\n" if block.kind in ("item", "paragraph") else "\n\n"
    return gap.join(filter(None, (words, "\n\n".join(map(picture_markdown, block.pictures)))))


def picture_markdown(picture: PictureRef) -> str:
    """A picture as CommonMark, with its caption on the next line."""
    caption = f"\n*{inline(picture.caption)}*" if picture.caption else ""
    return f"![{inline(picture.alt)}]({quote(picture.target, safe='/:?&=#%+,;@~')}){caption}"


def marked(passage: Passage) -> str:
    r"""A passage as CommonMark, with escaped text, the author's formatting and line ends.

    Example:
        >>> print(marked(Passage(text="2 * 3 is six", marks=(Mark(start=9, end=12, kind="strong"),))))
        2 \* 3 is **six**
    """
    marks = sorted(passage.marks, key=lambda mark: (mark.start, -mark.end))
    return at_start(_between(passage.text, 0, len(passage.text), marks, frozenset()).strip())


def _between(text: str, start: int, end: int, marks: Sequence[Mark], around: frozenset[str]) -> str:
    """Part of a text with its marks, the outer ones first."""
    markdown, place = "", start
    starts = [mark.start for mark in marks]
    for number, mark in enumerate(marks, 1):
        first, last = max(mark.start, place), min(mark.end, end)
        inner = text[first:last]
        first, last = first + len(inner) - len(inner.lstrip()), first + len(inner.rstrip())
        if first < last and mark.kind not in around:
            within = marks[number : bisect_left(starts, last, number)]
            words = text[first:last]
            if mark.kind != "code":
                words = _between(text, first, last, within, around | {mark.kind})
            edges = ((text[first - 1 : first], text[first]), (text[last : last + 1], text[last - 1]))
            markdown += escaped(text[place:first]) + _wrapped(words, mark, edges)
            place = last
    return markdown + escaped(text[place:end])


def _wrapped(words: str, mark: Mark, edges: Sequence[tuple[str, str]]) -> str:
    """Words with the signs of their format, or with tags where signs would not be understood."""
    if mark.kind == "link":
        plain = re.fullmatch(r"[^()<>\s]+", mark.target)
        return f"[{words}]({mark.target if plain else f'<{mark.target}>'})"
    if mark.kind == "code":
        fence = "`" * (1 + max(map(len, re.findall("`+", words)), default=0))
        space = " " if "`" in (words[0], words[-1]) else ""
        return f"{fence}{space}{' '.join(words.split(chr(10)))}{space}{fence}"
    if mark.kind == "above" and (note := re.fullmatch(_NOTE, words)):
        return f"[^{note[1]}]"
    sign, tag = _FORMATS.get(mark.kind, ("", "sub"))
    understood = all(inner.isalnum() or not (outer.isalnum() or outer == "*") for outer, inner in edges)
    return f"{sign}{words}{sign}" if sign and understood else f"<{tag}>{words}</{tag}>"
