"""Edits a text: rewords, splits, merges, inserts, removes and moves its steps, and puts pictures into it.

Every edit is one of Markdown. A source is its blocks in order, each with its lines and with those up to the
next block. An edit changes the lines of some blocks, or their order, and no text is read again.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from itertools import pairwise, takewhile, zip_longest
from unicodedata import east_asian_width

from limner.errors import DataError, counted
from limner.records import Block, Passage, Step, Story
from limner.text.blocks import cut, letters, pictures_of, strip, text_of, texts_of
from limner.text.commonmark import at_start, block_markdown, escaped, inline, marked
from limner.text.words import Marker, marker_of

FOLDER = "_pictures"
"""Ending of the name of an export's picture folder."""
NAME = re.compile(r"\d{2,}-[A-Za-z0-9-]+-[0-9a-f]{8}\.\w{1,8}")
"""File name of a picture in an export: number of its step, name of its file, and beginning of its SHA-256."""
_START, _END = r"(?:^|(?<=\n)|(?<=\r)(?!\n))", r"(?:\r\n|\r|\n|\Z)"
_SHOWN = (
    rf"[ \t>]*!\[(?:[^\[\]\\]|\\.)*+\]\([^\s()]*{FOLDER}/{NAME.pattern}\)[ \t]*{_END}"
    rf"(?:[ \t>]*\*[^\s*](?:[^\r\n]*[^\s])?\*[ \t]*{_END})?"
)
_INSERTED = re.compile(
    rf"(?P<code>{_START}[ \t>]*(`{{3,}}|~{{3,}}).*?(?:{_END}[ \t>]*\2[`~]*[ \t]*{_END}|\Z))"
    rf"|{_START}[ \t>]*(?:\r\n|\r|\n){_SHOWN}|{_START}{_SHOWN}(?:[ \t>]*(?:\r\n|\r|\n))?",
    re.DOTALL,
)
_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")
_BLANK = re.compile(r"[ \t>]*[\r\n]*")
_BEGINS = re.compile(r"[ \t>]*(?:#{1,6}\s|[-+*]\s|\d{1,9}[.)]\s|```|~~~|:::|[|]|<)")
"""Beginning of a line that cannot continue the paragraph above it."""
_TITLE = re.compile(r"(\s*title\s*[:=]\s*|[#*_\s]*)(.*?)((?:\{[^{}]*\}|[#*_\s])*)", re.DOTALL)
"""A line that states a title: what stands before it, the title, and what follows."""
_MARKER = re.compile(r"[ \t]*(?:>|([-+*]|\d{1,9}[.)])(?=[ \t]|$))[ \t]*")
_ITEM = re.compile(r"( *)(?:-|(\d{1,9})\.) (?=\S)")
_WORDED = "item", "paragraph"


@dataclass(frozen=True)
class Edited:
    """A story after an edit; it is a Markdown text, whatever it was before.

    Attributes:
        story: the story with its source.
        sources: for each step, the steps of the story before from which it comes, counted from 0; empty for
            a new one.
        changed: steps whose words differ from theirs.
    """

    story: Story
    sources: tuple[tuple[int, ...], ...]
    changed: frozenset[int]


@dataclass(eq=False)
class _Piece:
    """A block of the text that is being edited.

    Attributes:
        block: the block.
        lines: its lines; none if it shares those of the block before it, or stands in front matter.
        tail: lines up to the next block: empty ones, comments.
        below: the next block, for which the tail is right.
        apart: whether there is an empty line above it; None for a new block, or one of another kind now.
        tight: whether it directly follows or precedes a block of its kind; None if there is none beside it.
    """

    block: Block
    lines: list[str] = field(default_factory=list)
    tail: list[str] = field(default_factory=list)
    below: "_Piece | None" = None
    apart: bool | None = None
    tight: bool | None = None


@dataclass(eq=False)
class _Run:
    """The blocks of a step, or those between two steps.

    Attributes:
        title: title of the step; None between steps.
        heading: its own heading, or nothing.
        pieces: its other blocks.
        sources, changed: see `Edited`.
    """

    title: str | None = None
    heading: list[_Piece] = field(default_factory=list)
    pieces: list[_Piece] = field(default_factory=list)
    sources: tuple[int, ...] = ()
    changed: bool = False

    @property
    def first(self) -> Block:
        return self.pieces[0].block

    @property
    def all(self) -> list[_Piece]:
        return self.heading + self.pieces

    @property
    def divides(self) -> bool:
        """Whether it is only the break between two pages."""
        return self.title is None and [piece.block.kind for piece in self.pieces] == ["break"]

    @property
    def above(self) -> str | None:
        """Title of what follows: that of the step, or the last heading between steps; None for none."""
        texts = [piece.block.text for piece in self.pieces if piece.block.kind == "heading"]
        return texts[-1] if self.title is None and texts else self.title


def reword(story: Story, step: int, text: str, title: str | None = None) -> Edited:
    r"""Change the text of a step; formatting outside the changed words stays.

    Args:
        story: the story.
        step: index of the step, from 0.
        text: the new text, with markers of items as in `Step.text`.
        title: the new heading, also of the other steps below it; None leaves it unchanged.
    Raises:
        DataError: there are no words.

    Example:
        >>> story = limner.read("1. Boil water.\n2. Pour it.", format="markdown")
        >>> reword(story, 1, "Pour it slowly.").story.markdown
        '1. Boil water.\n2. Pour it slowly.'
    """
    edit = _Edit(story, step)
    run, before, words = edit.steps[step], story.steps[step], _words(text)
    heading = before.title if title is None else " ".join(title.split())
    if words != before.text:
        edit.reword(run, words)
    if heading != before.title:
        edit.retitle(run, heading)
    run.changed = letters(heading + words) != letters(before.title + before.text)
    return edit.finished()


def split(story: Story, step: int, at: int) -> Edited:
    """Split a step in two.

    Args:
        story: the story.
        step: index of the step, from 0.
        at: number of characters of its text before the split.
    Raises:
        DataError: there are no words before or after it, or it is inside a table.
    """
    edit = _Edit(story, step)
    run, text = edit.steps[step], story.steps[step].text
    if not (text[:at].strip() and text[at:].strip()):
        raise DataError(f"step {step + 1} cannot be split at {at}: expected words on both sides")
    place = edit.divide(run, at)
    if place == len(run.pieces):
        raise DataError(f"step {step + 1} cannot be split inside a table; split it above or below")
    other = _Run("", pieces=run.pieces[place:], changed=True)
    run.pieces, run.changed = run.pieces[:place], True
    if run.first.kind == "item" and other.first.kind in _WORDED:
        number = None if run.first.number is None else run.first.number + 1
        edit.turn(other.pieces[0], run.pieces[0], kind="item", number=number)
    edit.put(other, run, after=True)
    return edit.finished()


def merge(story: Story, step: int) -> Edited:
    """Merge a step with the next one, whose heading is a paragraph then; what stands between them follows.

    Steps of one paragraph become one paragraph; otherwise their blocks stay.

    Raises:
        DataError: there is no next step.
    """
    if step + 1 >= len(story.steps):
        raise DataError(f"step {step + 1} is the last; there is none after it to merge with")
    edit = _Edit(story, step, step + 1)
    run, other = edit.steps[step : step + 2]
    edit.take(other)
    if not run.title:
        run.title, run.heading, other.heading = other.title, other.heading, []
    more = other.all
    if more[0].block.kind in ("heading", "item"):
        edit.turn(more[0], run.pieces[0], kind="paragraph", number=None, level=0)
    if not edit.joined(run.pieces, more):
        run.pieces += more
    run.sources, run.changed = run.sources + other.sources, True
    return edit.finished()


def insert(story: Story, step: int, text: str, title: str | None = None, *, after: bool = True) -> Edited:
    """Insert a step, as an item if the step beside it is one.

    Args:
        story: the story.
        step: index of the step beside which it is inserted, from 0.
        text: its text.
        title: its heading; None for that of the section in which it then stands.
        after: whether to insert it after that step, or before.
    Raises:
        DataError: there are no words.
    """
    edit = _Edit(story, step)
    beside = edit.steps[step]
    plain: dict[str, object] = {} if beside.first.kind == "item" else {"kind": "paragraph", "level": 0}
    run = _Run("", pieces=_typed(_words(text), beside.first.model_copy(update=plain), beside.first.depth + 1))
    run.changed = True
    edit.write(run.pieces, beside.pieces[:1])
    edit.put(run, beside, after=after)
    if title is not None:
        run.title = run.title if run.heading else ""
        edit.retitle(run, " ".join(title.split()))
    return edit.finished()


def remove(story: Story, step: int) -> Edited:
    """Remove a step, with its own heading.

    Raises:
        DataError: it is the only one.
    """
    if len(story.steps) == 1:
        raise DataError("this is the only step, and a text needs one; change its words instead")
    edit = _Edit(story, step)
    edit.take(edit.steps[step])
    return edit.finished()


def move(story: Story, step: int, to: int) -> Edited:
    """Move a step, with its own heading, beside the step that is at another position.

    Args:
        story: the story.
        step: index of the step, from 0.
        to: its new index.
    Raises:
        DataError: there is no such position.
    """
    count = counted(len(story.steps), "step")
    if not 0 <= to < len(story.steps):
        raise DataError(f"no place {to}: the text has {count}, counted from 0 here")
    edit = _Edit(story, step, to)
    if to != step:
        run, beside = edit.steps[step], edit.steps[to]
        edit.take(run)
        edit.put(run, beside, after=to > step)
    return edit.finished()


def retitled(story: Story, title: str, before: str) -> Story:
    """The story with another title, also in its source.

    Args:
        story: the story.
        title: the new title.
        before: the title that its source states.
    """
    lines = _LINE.findall(story.markdown)
    inside = {place for block in story.blocks for place in range(*block.lines or (0, 0))}
    for place in set(range(len(lines))) - inside:
        match = _TITLE.fullmatch(lines[place]) if len(lines[place]) < 1000 else None
        if match and letters(match[2]) == letters(before) != "":
            is_field = match[1].strip(" \t=:").isalpha()
            words = json.dumps(title, ensure_ascii=False) if is_field else inline(title)
            lines[place] = match[1] + words + match[3]
    return story.model_copy(update={"title": title, "markdown": "".join(lines)})


def with_pictures(story: Story, pictures: Mapping[int, Sequence[str]]) -> str:
    """The source of a Markdown text with a paragraph after each of some steps; no other character changes.

    Args:
        story: the story; see `written` for other formats.
        pictures: step, from 0 → lines of the paragraph to insert after it.
    Returns:
        The new source; `without_inserted` finds the old one in it.
    """
    edit = _Edit(story)
    pieces = [piece for piece in edit.all if piece.lines]
    following = {before: after.lines[0] for before, after in pairwise(pieces)}
    for step, words in pictures.items():
        placed = [piece for piece in edit.steps[step].all if piece.lines] or pieces[-1:]
        prefix, last = edit.container(placed), placed[-1]
        # What would continue the picture's paragraph is parted from it by the only empty line.
        after = (last.tail or [following.get(last, "")])[0]
        goes_on = not (_BLANK.fullmatch(after) or _BEGINS.match(after))
        lines, blank = [prefix + line for line in words], prefix.rstrip()
        lines = [*lines, blank] if goes_on else [blank, *lines]
        last.tail[:0] = [line + edit.newline for line in lines]
    return edit.source()


def without_inserted(source: str) -> tuple[str, int]:
    """Remove the pictures that an earlier export inserted into a source.

    Args:
        source: Markdown, with any line ends.
    Returns:
        The source, and the number of removed pictures.
    """
    count = sum(match["code"] is None for match in _INSERTED.finditer(source)) if FOLDER in source else 0
    if not count:
        return source, 0
    text = _INSERTED.sub(lambda match: match["code"] or "", source)
    return text if source.endswith(("\r", "\n")) else re.sub(r"(?:\r\n|\r|\n)\Z", "", text), count


def as_markdown(story: Story) -> str:
    r"""A story as CommonMark with tables: its own source, or else its title, credits and blocks.

    Example:
        >>> as_markdown(limner.read("Tea\n\nIt is hot.\n\nIt is green.")).split("\n\n")
        ['# Tea', 'It is hot.', 'It is green.\n']
    """
    return (story if story.markdown else written(story)).markdown


def written(story: Story) -> Story:
    """A story of any format as a Markdown text: its blocks are written, and know their lines."""
    names = ("language", "direction", "author", "illustrator", "license", "source")
    stated = {name: getattr(story, name) for name in names if getattr(story, name) not in ("", "en", "ltr")}
    front = [f"{name}: {json.dumps(value, ensure_ascii=False)}\n" for name, value in stated.items()]
    front = ["---\n", *front, "---\n", "\n"] if front else []
    front += [f"# {inline(story.title)}\n", "\n"] if story.title.strip() else []
    blocks = tuple(block.model_copy(update={"lines": None}) for block in story.blocks)
    edit = _Edit(story.model_copy(update={"markdown": "\n", "blocks": blocks}))
    edit.front = front
    edit.write(edit.all, ())
    return edit.finished().story


def _words(text: str) -> str:
    words = re.sub(r"\r\n?", "\n", text).strip()
    if not letters(words):
        raise DataError("a step without words; write some, or remove the step")
    return words


def _typed(words: str, model: Block, depth: int) -> list[_Piece]:
    """Pieces for words of the form of `Step.text`.

    Args:
        words: the words.
        model: kind, depth and number of the first, whose marker is not among the words.
        depth: depth of items that are not indented.
    """
    blocks: list[Block] = []
    plain = Block(role="" if model.role == "aside" else model.role, quoted=model.quoted)
    first: dict[str, object] = {"kind": model.kind, "depth": model.depth, "number": model.number}
    for paragraph in re.split(r"\n[ \t]*\n\s*", words):
        for number, line in enumerate(paragraph.split("\n")):
            text = " ".join(line.split())
            if item := _ITEM.match(line):
                text, count = line[item.end() :].strip(), int(item[2]) if item[2] else None
                at = {"kind": "item", "depth": max(1, depth + len(item[1]) // 2), "number": count}
                blocks.append(plain.model_copy(update={**at, "text": text}))
            elif number and blocks:
                blocks[-1] = blocks[-1].model_copy(update={"text": f"{blocks[-1].text}\n{text}"})
            else:
                at = {"depth": model.depth} if blocks else first
                blocks.append(plain.model_copy(update={**at, "text": text}))
    return [_Piece(block) for block in blocks]


def _common(texts: Sequence[str]) -> str:
    """The longest common beginning of texts."""
    first, last = min(texts, default=""), max(texts, default="")
    return first[: next((n for n, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), len(first))]


def _change(before: str, after: str) -> tuple[int, int]:
    """The part of a text that differs in another: its start, and its end."""
    start = len(_common([before, after]))
    return start, len(before) - len(_common([before[start:][::-1], after[start:][::-1]]))


def _patched(content: str, before: str, after: str) -> str | None:
    """Markdown with other words, where the old ones stand in it exactly once and without markup."""
    start, end = _change(before, after)
    spans = [word.span() for word in re.finditer(r"\S+", before)]
    first = next((place for place, span in enumerate(spans) if span[1] >= start), len(spans) - 1)
    last = next((place for place in reversed(range(len(spans))) if spans[place][0] <= end), 0)
    for more in range(3):  # with more words around the change until they are found once
        start, end = spans[max(0, first - more)][0], spans[min(last + more, len(spans) - 1)][1]
        pattern = r"(?<!\w)" + r"\s+".join(map(re.escape, before[start:end].split())) + r"(?!\w)"
        matches = list(re.finditer(pattern, content))
        if len(matches) == 1 and len(re.findall(pattern, before)) == 1:
            words = escaped(after[start : len(after) - (len(before) - end)]).strip()
            words = words if matches[0].start() else at_start(words)
            return content[: matches[0].start()] + words + content[matches[0].end() :]
    return None


_Open = dict[int, tuple[Block, str, str]]
"""By depth of lists, the last block with what precedes its first line and its other lines."""


def _prefix(block: Block, opened: _Open) -> tuple[str, str]:
    """What precedes the first line of a new block in the list where it stands, and its other lines."""
    is_item = block.kind == "item"
    other, head, body = opened.get(block.depth, (Block(), "", ""))
    if is_item and other.kind == "item" and (other.number is None) == (block.number is None):
        if other.number is not None and block.number not in (other.number, other.number + 1):
            head = head.translate({ord("."): ")", ord(")"): "."})  # another list begins
        return _numbered(head, other.number, block.number), body
    base = next((opened[n][2] for n in range(block.depth - is_item, -1, -1) if n in opened), "")
    if block.quoted != (">" in base):
        base = f"{base}> " if block.quoted else base.partition(">")[0]
    marker = "" if not is_item else "- " if block.number is None else f"{block.number}. "
    return base + marker, base + " " * len(marker)


def _numbered(head: str, old: int | None, new: int | None) -> str:
    """The beginning of an item with another number, where it states its own."""
    numbers = list(re.finditer(r"\d+", head))
    if new is None or not numbers or int(numbers[-1][0]) != old:
        return head
    return f"{head[: numbers[-1].start()]}{new}{head[numbers[-1].end() :]}"


def _alike(block: Block, other: Block) -> bool:
    """Whether two blocks may directly follow each other: items of a list, lines of a paragraph."""
    same = block.depth != other.depth or (block.number is None) == (other.number is None)
    return block.kind == other.kind and block.kind in _WORDED and same


def _gap(before: _Piece, after: _Piece) -> int:
    """Number of empty lines between blocks that did not follow each other."""
    known = {before.tight, after.tight} - {None}
    if _alike(before.block, after.block):
        return int(True not in known) if known else int(before.block.kind == "paragraph")
    if after.block.kind not in ("item", "heading") and before.block.kind != "heading":
        return 1
    gaps = [bool(before.tail)] if before.below else []
    return int(any([*gaps, after.apart]) if gaps or after.apart is not None else True)


class _Edit:
    """An edit of some steps of a story.

    Attributes:
        story: the story before, as a Markdown text in which these steps have lines.
        newline: line end of its source.
        front: lines before its first block.
        pieces: its blocks before the edit.
        runs: its steps, and what stands between them.
        before: the beginning of its steps before the edit.
    """

    def __init__(self, story: Story, *touched: int) -> None:
        blocks = [block for step in touched for block in story.blocks[slice(*story.steps[step].run)]]
        self.story = story if story.markdown and all(block.lines for block in blocks) else written(story)
        lines: list[str] = _LINE.findall(self.story.markdown)
        self.newline = lines[0][len(lines[0].rstrip("\r\n")) :] or "\n"
        lines[-1] += "" if lines[-1].endswith(("\r", "\n")) else self.newline
        self.pieces = [_Piece(block) for block in self.story.blocks]
        each = iter(self.pieces)
        self.runs: list[_Run] = []
        for step, run in self.story.runs():
            pieces = [next(each) for _ in run]
            title, sources = (None, ()) if step is None else (self.story.steps[step].title, (step,))
            words = next((n for n, block in enumerate(run) if block.text), 0)
            headed = words + 1 if title and run[words].kind == "heading" and run[words].text == title else 0
            self.runs.append(_Run(title, pieces[:headed], pieces[headed:], sources))
        self.before = [_Run(run.title, pieces=[_Piece(run.first)]) for run in self.steps]
        self.front = self._place(lines, {piece for step in touched for piece in self.steps[step].all})

    def _place(self, lines: list[str], touched: set[_Piece]) -> list[str]:
        """Give blocks their lines; returns those before the first one.

        Blocks in the same lines, such as sentences, get lines of their own if they are touched.
        """
        places: list[tuple[list[_Piece], int, int]] = []
        for piece in self.pieces:
            start, end = piece.block.lines or (0, 0)
            if piece.block.lines and places and start < places[-1][2]:
                places[-1][0].append(piece)
            elif piece.block.lines:
                while end > start + 1 and _BLANK.fullmatch(lines[end - 1]):
                    end -= 1
                places.append(([piece], start, end))
        below: _Piece | None = None
        until = len(lines)
        for pieces, start, end in reversed(places):
            first = last = pieces[0]
            first.lines = lines[start:end]
            if len(pieces) > 1 and not touched.isdisjoint(pieces):
                self.write(pieces, [first])
                last = pieces[-1]
            last.tail, last.below = lines[end:until], below
            if below:
                below.apart = bool(last.tail)
                if _alike(last.block, below.block):
                    last.tight = not last.tail
                    below.tight = below.tight or last.tight
            below, until = first, start
        return lines[:until] if places else []

    @property
    def steps(self) -> list[_Run]:
        return [run for run in self.runs if run.title is not None]

    @property
    def all(self) -> list[_Piece]:
        return [piece for run in self.runs for piece in run.all]

    def prefixes(self, piece: _Piece) -> tuple[str, str]:
        """What precedes the words of a piece in its first line, with their marker, and in its other lines."""
        line, block, end = "".join(piece.lines[:1]).rstrip(), piece.block, 0
        markers = 0 if block.kind == "break" else block.depth
        while (match := _MARKER.match(line, end)) and (markers or not match[1]):
            markers, end = markers - bool(match[1]), match.end()
        end += len(line[end:]) - len(line[end:].lstrip())
        if block.kind == "code" and not line.startswith(("```", "~~~"), end):
            end = max(0, end - 4)
        head, body = line[:end], re.sub(r"[^\s>]", " ", line[:end])
        if block.kind == "item" and block.text and head == body:  # a marker that is text of a paragraph
            typed = line[end:].partition(block.text.split()[0])[0]
            head += typed if typed != line[end:] and typed.count("*") % 2 == 0 else ""
        return head, body

    def container(self, pieces: Sequence[_Piece]) -> str:
        """Prefix of a paragraph that follows pieces, in the list or quotation of all of them."""
        prefixes = [self.prefixes(piece) for piece in pieces]
        heads = [head for head, body in prefixes if head != body and len(head) == len(body)]
        tops = [head for head in heads if len(head) == min(map(len, heads))]
        outside = [re.sub(r"(?:[-+*]|\d+[.)])[ \t]*$", "", head) for head in tops[1:]]  # after their list
        return _common([*outside, *(body for _, body in prefixes)])

    def markdown(self, piece: _Piece) -> str:
        """Markdown of a piece without the prefixes of its lines."""
        head, body = self.prefixes(piece)
        first, *more = (line.rstrip("\r\n") for line in piece.lines)
        inner = (re.sub(rf"^[ \t>]{{0,{len(body)}}}", "", line) for line in more)
        return "\n".join([first[len(head) :], *inner])

    def set(self, piece: _Piece, text: str, head: str, body: str) -> None:
        """Give a piece other Markdown, with what precedes its lines."""
        lines = (f"{body if number else head}{line}" for number, line in enumerate(text.split("\n")))
        piece.lines = [line.rstrip() + self.newline for line in lines] if text else []

    def write(self, pieces: Sequence[_Piece], near: Iterable[_Piece]) -> None:
        """Write new pieces in the list or quotation of others."""
        opened: _Open = {piece.block.depth: (piece.block, *self.prefixes(piece)) for piece in near}
        for piece in pieces:
            block = piece.block
            head, body = _prefix(block, opened)
            self.set(piece, block_markdown(block), head, body)
            if block.kind == "item" or block.depth not in opened or not block.depth:
                opened = {depth: around for depth, around in opened.items() if depth < block.depth}
                opened[block.depth] = (block, head, body)

    def change(self, piece: _Piece, words: str) -> None:
        """Give a piece other words; marks and Markdown outside the change stay."""
        old, by = piece.block, len(words) - len(piece.block.text)
        if words == old.text:
            return
        start, end = _change(old.text, words)
        marks = []
        for mark in old.marks:
            if mark.end <= start:
                marks.append(mark)
            elif mark.start >= end or (mark.start <= start and mark.end >= end):
                at = {"start": mark.start + by * (mark.start >= end), "end": mark.end + by}
                marks.append(mark.model_copy(update=at))
        cells = {cell.text: cell for row in old.rows for cell in row}
        rows = [row.split(" | ") for row in words.split("\n")] if old.rows else []
        table = tuple(tuple(cells.get(cell, Passage(text=cell)) for cell in row) for row in rows)
        block = old.model_copy(update={"text": words, "marks": tuple(marks), "rows": table})
        content, prefixes = self.markdown(piece), self.prefixes(piece)
        text = _patched(content, old.text, words) if old.kind != "code" else None
        if old.kind == "code" and old.text in content:
            text = content.replace(old.text, words)
        if text is None:
            hashes = re.match(r"#+[ \t]+", content) if old.kind == "heading" else None
            text = f"{hashes[0]}{marked(block)}" if hashes else block_markdown(block)
        self.set(piece, text, *prefixes)
        piece.block = block

    def reword(self, run: _Run, words: str) -> None:
        """Change the words of a step; blocks with the same words stay as they are."""
        pieces, made, end, done = run.pieces, list[_Piece](), 0, 0
        texts, whole = texts_of([piece.block for piece in pieces]), text_of([piece.block for piece in pieces])
        verbatim = [piece.block.text for piece in pieces if piece.block.kind in ("code", "table")]
        for piece, (before, text) in zip(pieces, texts, strict=True):
            start, end = end + len(before), end + len(before) + len(text)
            is_around = words.startswith(whole[:start]) and words.endswith(whole[end:])
            if text in verbatim and text not in words and is_around:  # only this code or table has changed
                self.change(piece, words[start : len(words) - len(whole) + end])
                return
        # Code and tables that stay are one word while the others are divided.
        held = {f"\0{number}\0": text for number, text in enumerate(verbatim) if text in words}
        for sign, text in held.items():
            words = words.replace(text, sign, 1)
        worded = [place for place, (_, text) in enumerate(texts) if text]
        top = pieces[worded[0]].block if worded else Block()
        news = _typed(words, top, run.first.depth + 1)
        fresh = [held.get(new.block.text, new.block.text) for new in news]
        known = [pieces[place].block.text.strip() for place in worded]
        for act, *places in SequenceMatcher(None, known, fresh, autojunk=False).get_opcodes():
            for old, new in zip_longest(worded[slice(*places[:2])], range(*places[2:])):
                made += pieces[done:old] if old is not None else []  # without words, such as pictures
                done = done if old is None else old + 1
                kinds = {pieces[old].block.kind, news[new].block.kind} if None not in (old, new) else set()
                if act == "equal" or len(kinds) == 1 or kinds == {"heading", "paragraph"}:
                    self.change(pieces[old], fresh[new])
                    made.append(pieces[old])
                    continue
                if new is not None:
                    self.write([news[new]], made or pieces[:1])
                    made.append(news[new])
                if old is not None:
                    self.leave([pieces[old]])
                    pieces[old].lines = []
        run.pieces = made + pieces[done:]

    def divide(self, run: _Run, at: int) -> int:
        """Part the pieces of a step at a position in its text; index of the first one after it."""
        end = 0
        for place, (before, words) in enumerate(texts_of([piece.block for piece in run.pieces])):
            start, piece = end + len(before), run.pieces[place]
            end = start + len(words)
            if words and start >= at:
                return place
            if start < at < end and piece.block.kind != "table":
                indent = (len(words) - len(piece.block.text.strip())) // max(1, words.count("\n"))
                inner = max(1, at - start - indent * words[: at - start].count("\n"))
                run.pieces.insert(place + 1, self._halved(piece, inner))
                return place + 1
        return len(run.pieces)

    def _halved(self, piece: _Piece, at: int) -> _Piece:
        """Cut a piece at a position of its text, also in its Markdown, where no mark stands around it."""
        is_code = piece.block.kind == "code"
        block, whole, (head, body) = piece.block, self.markdown(piece), self.prefixes(piece)
        block = block if is_code else strip(block)
        a, b = (strip(cut(block, *ends)) for ends in ((0, at), (at, None)))
        b = b.model_copy(update={"pictures": ()})
        around = *block.text[:at].split()[-1:], *block.text[at:].split()[:1]
        gaps = [match.span(1) for match in re.finditer(r"(\s*)".join(map(re.escape, around)), whole)]
        texts = [block_markdown(a), block_markdown(b)]
        if len(gaps) == 1 and not is_code and not any(mark.start < at < mark.end for mark in block.marks):
            texts = [whole[: gaps[0][0]], at_start(whole[gaps[0][1] :])]
        self.set(piece, texts[0], head, body)
        piece.block, other = a, _Piece(b, tail=piece.tail, below=piece.below)
        self.set(other, texts[1], _numbered(head, b.number, b.number and b.number + 1), body)
        piece.tail, piece.below = [], None
        return other

    def turn(self, piece: _Piece, like: _Piece, **update: object) -> None:
        """Make a piece another kind of block, in the list of another."""
        block = piece.block.model_copy(
            update={"depth": like.block.depth, "quoted": like.block.quoted, **update}
        )
        text, (head, body) = self.markdown(piece), self.prefixes(like)
        if piece.block.kind == "heading":
            marker = _title_marker(block.text)
            bare = marker.rest if marker and marker.rest else block.text
            block = block.model_copy(update={"text": bare, "marks": ()})
            text = block_markdown(block)
        head = _numbered(head, like.block.number, block.number) if block.kind == "item" else body
        self.set(piece, text, head, body)
        piece.block, piece.tight, piece.apart = block, None, None

    def joined(self, pieces: Sequence[_Piece], more: Sequence[_Piece]) -> bool:
        """Join two paragraphs into one, if there are no other pieces."""
        a, b = pieces[-1].block, more[0].block
        if len(pieces) + len(more) > 2 or {a.kind, b.kind} - {*_WORDED} or "\n" in a.text + b.text:
            return False
        space = "" if east_asian_width(a.text[-1]) in "WF" else " "  # scripts without spaces
        by = len(a.text) + len(space)
        moved = (mark.model_copy(update={"start": mark.start + by, "end": mark.end + by}) for mark in b.marks)
        both = {"text": a.text + space + b.text, "marks": (*a.marks, *moved)}
        text = self.markdown(pieces[0]) + space + self.markdown(more[0])
        self.set(pieces[0], text, *self.prefixes(pieces[0]))
        pieces[0].block = a.model_copy(update={**both, "pictures": a.pictures + b.pictures})
        return True

    def leave(self, pieces: Sequence[_Piece]) -> None:
        """Leave comments below pieces that go with the block above these."""
        others = self.all
        above = [piece for piece in others[: others.index(pieces[0])] if piece.lines]
        tail = above[-1].tail if above else self.front
        for piece in pieces:
            if not all(map(_BLANK.fullmatch, piece.tail)):
                tail += piece.tail[bool(tail) and all(map(_BLANK.fullmatch, (tail[-1], piece.tail[0]))) :]
                piece.tail, piece.below = [], None

    def take(self, run: _Run) -> None:
        """Take a step out of the text, with the break of its page."""
        place = self.runs.index(run)
        near = [other for other in self.runs[max(0, place - 1) : place + 2] if other is not run]
        for gone in (run, *(near[-1:] if all(other.divides for other in near) else ())):
            self.leave(gone.all)
            self.runs.remove(gone)

    def put(self, run: _Run, beside: _Run, *, after: bool) -> None:
        """Put a step beside another: a page beside pages, with a heading beside one such as "Step 2: Dig"."""
        place = self.runs.index(beside) + after
        near = self.runs[max(0, place - 1 - after) : place + 1]
        self.runs.insert(place, run)
        if any(other.divides for other in near):
            line = _Run(pieces=[_Piece(Block(kind="break"))])
            self.write(line.pieces, ())
            self.runs.insert(place + (not after), line)
        title = beside.title or ""
        marker = _title_marker(title) if beside.heading else None
        if run.first.kind == "heading" and run.pieces[1:]:
            run.title, run.heading, run.pieces = run.first.text, run.pieces[:1], run.pieces[1:]
        elif marker and marker.worded and not (run.heading or run.sources):
            self.retitle(run, title.removesuffix(marker.rest).rstrip(" :.–—-"))
        elif not run.heading:
            above = (other.above for other in reversed(self.runs[: self.runs.index(run)]))
            run.title = next((title for title in above if title is not None), "")

    def retitle(self, run: _Run, title: str) -> None:
        """Change the heading of a step and of those that share it, or give it one."""
        before, around, named = run.title, run, [run]
        if before and not run.heading:
            others = reversed(self.runs[: self.runs.index(run)])
            around = next((other for other in others if other.title is None and other.above == before), run)
        pieces = run.heading if around is run else around.pieces
        place = max((n for n, piece in enumerate(pieces) if piece.block.text == before), default=None)
        if place is not None:
            below = self.runs[self.runs.index(around) + 1 :]
            named += takewhile(lambda other: not other.heading and other.above in (before, None), below)
            if title:
                self.change(pieces[place], title)
            else:
                self.leave(pieces[place : place + 1])
                del pieces[place]
        elif title:
            level = min((step.heading[-1].block.level for step in self.steps if step.heading), default=2)
            run.heading = [_Piece(Block(kind="heading", text=title, level=level, role=run.first.role))]
            self.write(run.heading, ())
        for other in named:
            other.title = title if other.title == before else other.title

    def source(self) -> str:
        """The source, with a line end at its end only if there was one."""
        lines = [*self.front, *(line for piece in self.all for line in (*piece.lines, *piece.tail))]
        ends = self.story.markdown.endswith(("\r", "\n"))
        return "".join(lines) if ends else "".join(lines).removesuffix(self.newline)

    def finished(self) -> Edited:
        """The edited story with numbers counted on, and with its source."""
        self._count(lambda run: run.first.number, self._renumber)
        self._count(_title_number, self._count_title)
        self._part()
        blocks: list[Block] = []
        steps: list[Step] = []
        lines, place = (0, 0), len(self.front)
        for run in self.runs:
            start = len(blocks)
            for piece in run.all:
                lines = (place, place + len(piece.lines)) if piece.lines else lines
                place += len(piece.lines) + len(piece.tail)
                is_source = bool(piece.lines or piece.block.lines)
                blocks.append(piece.block.model_copy(update={"lines": lines if is_source else None}))
            if run.title is not None:
                inside, pictures = blocks[start:], pictures_of(blocks[start:])
                del inside[len(run.heading) - 1 : len(run.heading)]
                text = text_of(inside)
                text = text or next((self.story.steps[place].text for place in run.sources), run.title)
                at = start, len(blocks)
                steps.append(Step.model_construct(text=text, title=run.title, pictures=pictures, run=at))
        update = {"blocks": tuple(blocks), "steps": tuple(steps), "markdown": self.source()}
        changed = frozenset(place for place, run in enumerate(self.steps) if run.changed)
        return Edited(self.story.model_copy(update=update), tuple(run.sources for run in self.steps), changed)

    def _part(self) -> None:
        """Set as many empty lines as suit blocks that did not follow each other; other lines stay."""
        pieces = [piece for piece in self.all if piece.lines]
        for piece, below in zip_longest(pieces, pieces[1:]):
            if piece.below is not below or (below and below.apart is None):
                blank = _common([self.prefixes(each)[1] for each in (piece, below) if each]).rstrip()
                others = [n for n, line in enumerate(piece.tail) if not _BLANK.fullmatch(line)]
                kept = piece.tail[others[0] : others[-1] + 1] if others else []
                gap = bool(below) and (bool(kept) or _gap(piece, below))
                piece.tail = [*[blank + self.newline] * bool(kept), *kept, *[blank + self.newline] * gap]

    def _count(self, number_of: Callable[[_Run], int | None], renumber: Callable[[_Run, int], None]) -> None:
        """Count numbers of steps on, where they were consecutive before."""
        numbers = [number_of(run) for run in self.before]
        names: list[tuple[int, int] | None] = []  # first of the steps numbered together, and its number
        for place, number in enumerate(numbers):
            last = numbers[place - 1] if place else None
            goes_on = number is not None and last is not None and number - last in (0, 1)
            names.append(None if number is None else names[-1] if goes_on else (place, number))
        counts, before, above = dict[tuple[int, int], int](), None, None
        known = [names[run.sources[0]] if run.sources else None for run in self.steps]
        for place, run in enumerate(self.steps):
            number, name = number_of(run), known[place]
            after = next(filter(None, known[place + 1 :]), None)
            name = before if before and (name is None or before == after) else name or after
            if number is not None and name is not None:
                shares = number_of is _title_number and not run.heading and above == run.title
                before, counts[name] = name, counts.get(name, name[1] - 1) + (not shares)
                if number != counts[name]:
                    renumber(run, counts[name])
            above = run.title

    def _renumber(self, run: _Run, number: int) -> None:
        """Give an item another number; if that is longer, what belongs to it is indented further."""
        for place, piece in enumerate(run.pieces):
            head, body = self.prefixes(piece)
            if not place:
                item, new = body, _numbered(head, piece.block.number, number)
                first = [new + line[len(head) :] for line in piece.lines[:1]]
                piece.block = piece.block.model_copy(update={"number": number})
            longer = re.sub(r"\S", " ", new)
            lines = [longer + line[len(item) :] if line.startswith(item) else line for line in piece.lines]
            piece.lines = lines if place else [*first, *lines[1:]]

    def _count_title(self, run: _Run, number: int) -> None:
        self.retitle(run, re.sub(r"\d+", str(number), run.title or "", count=1))


def _title_marker(title: str | None) -> Marker | None:
    """The number in a title such as "Step 2: Dig"."""
    return marker_of(title) if title and re.search(r"\d", title) else None


def _title_number(run: _Run) -> int | None:
    marker = _title_marker(run.title)
    return None if marker is None else marker.number
