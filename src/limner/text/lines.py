"""Plain text line by line: paragraphs, typed items, underlined lines and breaks, as blocks.

The same reading serves plain text, the `<br>` lines of a page and the lines of a PDF: only lines show what
belongs together there.
"""

import re
from itertools import pairwise

from limner.errors import DataError
from limner.records import Block
from limner.text.blocks import Document, LeftOut
from limner.text.wanted import asked_in, place_for
from limner.text.words import Marker, lead_in, markers_in, role_of

BULLET = re.compile(r"[*•‣◦▪●·☐☑○–-][ \t\u00a0]+(?:\[[ xX]\][ \t]+)?(?=\S)")
_INNER = re.compile(r"(?:[*•‣◦▪●·–-]|[a-z][.)])[ \t]+(?=\S)")
_RULE = re.compile(r"([-=_*~#])(?:[ \t]*\1){2,}|[⁂❦]")
_UNDER = re.compile(r"([-=~])\1{2,}")
_PAGE = re.compile(
    r"(?:\S.*\s{3,})?(?:page|seite|pagina|página|strona|стр\.?)\s+\d+\s*(?:of|von|de|di|van|z|из|/)\s*\d+",
    re.I,
)
_QUOTED = re.compile(r"(?:>[ \t]?)+")
SENTENCE = re.compile(r"[.!?…。！？।][\"'”’»)]*$")
"""End of a sentence, at the end of a line."""
_LONGEST_TITLE = 80
_NARROWEST = 48
"""Minimum number of characters of the longest line of a text that was wrapped."""
_MOST_LINES = 200_000
_LONGEST_FOOT = 200
_ENDS = re.compile(r"\r\n|[\n\r\u2028\u2029\v\x85]")


def read_plain(text: str, where: str) -> Document:
    """Read a plain text.

    Args:
        text: the decoded file.
        where: its name, for messages.
    Raises:
        DataError: there are more lines than a readable text has.
    """
    lines = _ENDS.split(text.replace("\f", "\n\f\n"))
    if len(lines) > _MOST_LINES:
        raise DataError(f"{where}: has more than {_MOST_LINES:,} lines; expected a readable text; split it")
    if sum(line.startswith(">") for line in lines) > 2:  # a mail that quotes the text
        lines = [_QUOTED.sub("", line) for line in lines]
    document = Document()
    pages = [len(line) < _LONGEST_FOOT and _PAGE.fullmatch(line.strip()) is not None for line in lines]
    kept = [line for line, is_page in zip(lines, pages, strict=True) if not is_page]
    document.left_out += [
        LeftOut("page furniture", " ".join(line.split()))
        for line, is_page in zip(lines, pages, strict=True)
        if is_page
    ]
    document.blocks = blocks_of_lines("\n".join(kept))
    return document


def blocks_of_lines(text: str) -> list[Block]:
    r"""Blocks of a text whose lines are divided by line feeds.

    Blank lines part paragraphs. Lines that were wrapped for lack of space are joined; other lines of a
    paragraph stay lines. "1.", "Step 1", bullets and lines of a rule begin a block. Headings are not decided
    here: an underlined line only has that look.

    Example:
        >>> [(block.kind, block.text) for block in blocks_of_lines("Tea\n\n1. Boil water.\n2. Pour it.")]
        [('paragraph', 'Tea'), ('item', 'Boil water.'), ('item', 'Pour it.')]
    """
    lines = text.split("\n")
    markers = markers_in(lines)
    bullets = bullets_in(lines, markers)
    width = max((len(line.rstrip()) for line in lines), default=0)
    blocks: list[Block] = []
    pending: list[str] = []

    def close() -> None:
        blocks.extend([Block(text=_joined(pending, width))] if pending else [])
        pending.clear()

    item = False  # whether the lines that follow continue a typed item
    for place, line in enumerate(lines):
        words = line.strip()
        if line == "\f":
            close()
            blocks.append(Block(kind="break"))
        elif not words:
            close()
        elif len(pending) == 1 and not item and _UNDER.fullmatch(words) and len(pending[0]) <= _LONGEST_TITLE:
            level = 1 if words[0] == "=" else 0
            blocks.append(Block(text=pending.pop().strip(), level=level, look=("underlined",)))
        elif alone := _alone(words):
            close()
            blocks.append(alone)
        elif marker := markers.get(place):
            close()
            blocks.append(_marked(words, marker))
            item = bool(marker.rest)
            continue
        elif place in bullets:
            close()
            blocks.append(Block(kind="item", text=BULLET.sub("", words, count=1), depth=1))
            item = True
            continue
        elif role_of(words) is not None and not lead_in(words):
            close()
            blocks.append(Block(text=words))
        elif item and _INNER.match(words):
            blocks.append(Block(kind="item", text=BULLET.sub("", words, count=1), depth=2))
            continue
        elif item and blocks:
            last = blocks[-1]
            blocks[-1] = last.model_copy(update={"text": _joined([last.text, line], 0)})
            continue
        else:
            if _is_indented(line, pending):
                close()
            pending.append(line)
        item = False
    close()
    return blocks


def _alone(words: str) -> Block | None:
    """The block of a line that is a rule, or asks for a picture."""
    wanted = asked_in(words)
    return (
        place_for(wanted) if wanted is not None else Block(kind="break") if _RULE.fullmatch(words) else None
    )


def _is_indented(line: str, before: list[str]) -> bool:
    """Whether a line begins a paragraph by its indentation, as the paragraph before it does."""
    indents = [len(one) - len(one.lstrip()) for one in (*before[:1], *before[-1:], line)]
    return bool(before) and indents[0] > 1 < indents[-1] > indents[-2] and bool(SENTENCE.search(before[-1]))


def bullets_in(lines: list[str], markers: dict[int, Marker]) -> set[int]:
    """Lines that begin with a bullet, at least two in a row: a single dash may begin a spoken sentence."""
    found: set[int] = set()
    run: list[int] = []
    blank = False
    for place, line in enumerate([*lines, "end"]):
        is_bullet = place < len(lines) and place not in markers and BULLET.match(line.strip()) is not None
        if is_bullet:
            run.append(place)
            blank = False
        elif not line.strip() and run:
            blank = True
        elif blank or line[:1] not in (" ", "\t") or place == len(lines):
            spoken = any(lines[n].strip()[0] in "-–" and lines[n].rstrip()[-1] in "?？" for n in run)
            found |= set(run) if len(run) > 1 and not spoken else set()
            run, blank = [], False
    return found


def _marked(words: str, marker: Marker) -> Block:
    """A line that begins with a marker: an item, unless it is that of a page or a word alone."""
    if marker.page or not marker.rest:
        return Block(text=words)
    return Block(kind="item", text=marker.rest, number=marker.number, depth=1)


def _joined(lines: list[str], width: int) -> str:
    """Lines of a paragraph, joined if they were wrapped for lack of space, else apart."""
    stripped = [line.strip() for line in lines]
    if _are_wrapped(lines, width):
        return " ".join(stripped)
    broken = any(not SENTENCE.search(line) for line in stripped[1:-1]) and not SENTENCE.search(stripped[0])
    if broken and _are_wrapped(lines[1:], width):  # below a line of its own, such as a heading
        return "\n".join([stripped[0], " ".join(stripped[1:])])
    return "\n".join(stripped)


def _are_wrapped(lines: list[str], width: int) -> bool:
    """Whether each line is as long as the width of the text allows; lines of poems are short."""
    full = (len(line.rstrip()) + 1 + len(after.split()[0]) > width - 3 for line, after in pairwise(lines))
    return len(lines) == 1 or ((not width or width >= _NARROWEST) and all(full))
