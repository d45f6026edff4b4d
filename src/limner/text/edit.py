"""Edits a text: rewords, splits, merges, inserts, removes and moves its steps, and puts pictures into it,
or places for them.

Every edit is one of Markdown. A source is its blocks in order, each with its lines and with those up to the
next block. An edit changes the lines of some blocks, or their order, and no text is read again.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import dropwhile, pairwise, takewhile, zip_longest
from unicodedata import east_asian_width

from limner.errors import DataError, counted
from limner.records import Block, Mark, Passage, Step, Story
from limner.text.blocks import changed, cut, letters, pictures_of, strip, text_of, texts_of
from limner.text.commonmark import block_markdown, inline, marked
from limner.text.segment import asked_for
from limner.text.wanted import marks_in, said
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
_IMAGE = re.compile(r"!\[(.*)\]\((.*)\)")
_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")
_BLANK = re.compile(r"[ \t>]*[\r\n]*")
_BEGINS = re.compile(r"[ \t>]*(?:#{1,6}\s|[-+*]\s|\d{1,9}[.)]\s|```|~~~|:::|[|]|<)")
"""Beginning of a line that cannot continue the paragraph above it."""
_TITLE = re.compile(r"(\s*title\s*[:=]\s*|[#*_\s]*)(.*?)((?:\{[^{}]*\}|[#*_\s])*)", re.DOTALL)
"""A line that states a title: what stands before it, the title, and what follows."""
_MARKER = re.compile(r"[ \t]*(?:>|([-+*]|\d{1,9}[.)])(?=[ \t]|$))[ \t]*")
_ITEM = re.compile(r"( *)(?:-|(\d{1,9})\.) (?=\S)")
_NEXT = re.compile(r"\Z|\n[ \t]*\n|\n *(?:-|\d{1,9}\.) \S")
"""What follows a whole block in the words of a step."""
_WORDED = {"item", "paragraph"}
_VERBATIM = {"code", "table"}


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
        is_line: whether it directly follows or precedes another line; None for a new block.
    """

    block: Block
    lines: list[str] = field(default_factory=list)
    tail: list[str] = field(default_factory=list)
    below: "_Piece | None" = None
    is_line: bool | None = None


@dataclass(eq=False)
class _Span:
    """The blocks of a step, or those between two steps.

    Attributes:
        title: title of the step; None between steps.
        heading: its own heading, or nothing.
        pieces: its other blocks.
        sources, changed: see `Edited`.
        series: the list in which its number counts; None for none.
        rest: its words below a mark inside it, which are none of its blocks.
    """

    title: str | None = None
    heading: list[_Piece] = field(default_factory=list)
    pieces: list[_Piece] = field(default_factory=list)
    sources: tuple[int, ...] = ()
    changed: bool = False
    series: int | None = None
    rest: str = ""

    @property
    def first(self) -> Block:
        return self.pieces[0].block

    @property
    def all(self) -> list[_Piece]:
        return self.heading + self.pieces

    @property
    def number(self) -> int | None:
        """The number that a step states: in its own heading, or as an item."""
        if marker := self.heading and _title_marker(self.title):
            return marker.number
        return self.first.number

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
    r"""Change the text of a step, or the words of a place; formatting outside the changed words stays.

    Args:
        story: the story.
        step: index of the step, from 0.
        text: the new text, with markers of items as in `Step.text`.
        title: the new heading, also of the other steps below it; None leaves it unchanged. A place has none.
    Raises:
        DataError: there are no words; a place needs none. Or words below a mark inside the step differ.

    Example:
        >>> story = limner.read("1. Boil water.\n2. Pour it.", format="markdown")
        >>> reword(story, 1, "Pour it slowly.").story.markdown
        '1. Boil water.\n2. Pour it slowly.'
    """
    edit = _Edit(story, step)
    if step in story.places:
        span, asked = edit.steps[step], _asked(text)
        span.changed = letters(asked) != letters(span.first.text)
        edit.change(span.pieces[0], asked)
        return edit.finished()
    span, before, words = edit.steps[step], story.steps[step], _words(text)
    heading = before.title if title is None else " ".join(title.split())
    if not words.endswith(span.rest):
        raise DataError(f"step {step + 1}: its words below a mark stay here; change them in the whole text")
    if words != before.text:
        edit.reword(span, words.removesuffix(span.rest))
    if heading != before.title:
        edit.retitle(span, heading)
    span.changed = letters(heading + words) != letters(before.title + before.text)
    return edit.finished()


def split(story: Story, step: int, at: int) -> Edited:
    """Split a step in two.

    Args:
        story: the story.
        step: index of the step, from 0.
        at: number of characters of its text before the split.
    Raises:
        DataError: there are no words before or after it, or it is inside code or a table, or of a place.
    """
    _check_text(story, step)
    edit = _Edit(story, step)
    span, text = edit.steps[step], story.steps[step].text
    if not (text[:at].strip() and text[at:].strip()):
        raise DataError(f"step {step + 1} cannot be split at {at}: expected words on both sides")
    place = edit.divide(span, at)
    if place == len(span.pieces):
        raise DataError(f"step {step + 1} cannot be split inside code or a table; split it above or below")
    other = _Span("", pieces=span.pieces[place:], changed=True)
    span.pieces, span.changed = span.pieces[:place], True
    if span.first.kind == "item" and other.first.kind in _WORDED:
        number = None if span.first.number is None else span.first.number + 1
        other.pieces[0] = edit.turned(other.pieces[0], span.pieces[0], kind="item", number=number)
    edit.put(other, span, after=True)
    return edit.finished()


def merge(story: Story, step: int) -> Edited:
    """Merge a step with the next one, whose heading is a paragraph then; what stands between them follows.

    Steps of one paragraph become one paragraph; otherwise their blocks stay.

    Raises:
        DataError: there is no next step, or one of them is a place for a picture.
    """
    if step + 1 >= len(story.steps):
        raise DataError(f"step {step + 1} is the last; there is none after it to merge with")
    _check_text(story, step, step + 1)
    edit = _Edit(story, step, step + 1)
    span, other = edit.steps[step : step + 2]
    edit.take(other)
    if not span.title:
        span.title, span.heading, other.heading = other.title, other.heading, []
    first, *rest = other.all
    if first.block.kind in ("heading", "item"):
        first = edit.turned(first, span.pieces[0], kind="paragraph", number=None, level=0)
    if rest or not edit.joined(span.pieces, first):
        span.pieces += [first, *rest]
    span.sources, span.changed = span.sources + other.sources, True
    return edit.finished()


def insert(story: Story, step: int, text: str, title: str | None = None, *, after: bool = True) -> Edited:
    """Insert a step, as an item if the step next to it is one.

    Args:
        story: the story.
        step: index of the step next to which it is inserted, from 0.
        text: its text.
        title: its heading; None for that of the section in which it then stands.
        after: whether to insert it after that step, or before.
    Raises:
        DataError: there are no words.
    """
    edit = _Edit(story, step)
    neighbor = edit.steps[step]
    model = neighbor.first if neighbor.first.kind == "item" else changed(neighbor.first, kind="paragraph")
    span = _Span("", pieces=_typed(_words(text), model, model.depth + 1), changed=True)
    edit.write(span.pieces, neighbor.pieces[:1])
    edit.put(span, neighbor, after=after)
    if title is not None:
        span.title = span.title if span.heading else ""
        edit.retitle(span, " ".join(title.split()))
    return edit.finished()


def add_place(story: Story, at: int, words: str = "") -> Edited:
    r"""Leave a place for a picture between two blocks; all steps stay as they are.

    Args:
        story: the story.
        at: index of the block before which it is left, from 0; the number of blocks for the end.
        words: what is to be seen, or "".
    Raises:
        DataError: there is no such block, or it is inside a step.

    Example:
        >>> story = limner.read("Boil water.\n\nPour it.", format="markdown")
        >>> add_place(story, 1, "a kettle").story.markdown
        'Boil water.\n\n![a kettle]()\n\nPour it.'
    """
    runs = [step.run for step in story.steps]
    if not 0 <= at <= len(story.blocks) or any(start < at < end for start, end in runs):
        raise DataError(f"no place before block {at}: expected 0 to {len(story.blocks)}, not inside a step")
    edit = _Edit(story, *(step for step, run in enumerate(runs) if at in run))
    before = edit.all[:at][-1:]
    model = before[0].block if before else Block()
    piece = _Piece(Block(kind="wanted", text=_asked(words), depth=model.depth, quoted=model.quoted))
    edit.write([piece], before)
    index, rest = 0, list[_Piece]()
    for number, span in enumerate(edit.spans, 1):
        if before and before[0] in span.all:
            cut = span.all.index(before[0]) + 1 - len(span.heading)
            index, rest, span.pieces = number, span.pieces[cut:], span.pieces[:cut]
    edit.spans[index:index] = [_Span("", pieces=[piece], changed=True), _Span(pieces=rest)]
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
        span, neighbor = edit.steps[step], edit.steps[to]
        edit.take(span)
        edit.put(span, neighbor, after=to > step)
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


def with_pictures(
    story: Story,
    pictures: Mapping[int, Sequence[str]],
    places: Mapping[int, str | None] = {},
    cover: Sequence[str] = (),
) -> str:
    """The source of a Markdown text with a paragraph after each of some steps; no other character changes.

    Args:
        story: the story; see `written` for other formats.
        pictures: step, from 0 → lines of the paragraph to insert after it.
        places: for each place that the text marks, the picture that takes the place of the mark, or None. A
            mark below such a picture that stays is written ``![words]()``: other lines there are credits.
        cover: lines of the paragraph to insert under the title.
    Returns:
        The new source; `without_inserted` finds the old one in it, but for places and cover.
    """
    edit = _Edit(story)
    edit.fill(places)
    edit.front += [line + edit.newline for line in (*cover, "") if cover]
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


def written(story: Story) -> Story:
    """A story of any format as a Markdown text: its blocks are written, and know their lines."""
    names = ("language", "direction", "author", "illustrator", "license", "source")
    stated = {name: getattr(story, name) for name in names if getattr(story, name) not in ("", "en", "ltr")}
    front = [f"{name}: {json.dumps(value, ensure_ascii=False)}\n" for name, value in stated.items()]
    front = ["---\n", *front, "---\n", "\n"] if front else []
    front += [f"# {inline(story.title)}\n", "\n"] if story.title.strip() else []
    blocks = tuple(changed(block, lines=None) for block in story.blocks)
    edit = _Edit(story.model_copy(update={"markdown": "\n", "blocks": blocks}))
    edit.front = front
    edit.write(edit.all, ())
    return edit.finished().story


def _words(text: str) -> str:
    words = re.sub(r"\r\n?", "\n", text).strip()
    if not letters(words):
        raise DataError("a step without words; write some, or remove the step")
    return words


def _asked(text: str) -> str:
    """Words of a place: on one line, without brackets; "" if they say nothing."""
    return said(re.sub(r"[\[\]<>]", "", text))


def _check_text(story: Story, *steps: int) -> None:
    """Refuse places for pictures, which have no text to split or merge."""
    if places := story.places.intersection(steps):
        raise DataError(f"step {min(places) + 1} is a place for a picture, without text to split or merge")


def _typed(words: str, model: Block, depth: int) -> list[_Piece]:
    """Pieces for words of the form of `Step.text`.

    Args:
        words: the words.
        model: kind, depth and number of the first, whose marker is not among the words.
        depth: depth of items that are not indented.
    """
    blocks: list[Block] = []
    plain = Block(role="" if model.role == "aside" else model.role, quoted=model.quoted)
    for paragraph in re.split(r"\n[ \t]*\n\s*", words):
        for number, line in enumerate(paragraph.split("\n")):
            text = " ".join(line.split())
            if item := _ITEM.match(line):
                at = {"kind": "item", "depth": max(1, depth + len(item[1]) // 2)}
                count = int(item[2]) if item[2] else None
                blocks.append(changed(plain, **at, number=count, text=line[item.end() :].strip()))
            elif number and blocks:
                blocks[-1] = changed(blocks[-1], text=f"{blocks[-1].text}\n{text}")
            else:
                first = {} if blocks else {"kind": model.kind, "number": model.number}
                blocks.append(changed(plain, depth=model.depth, text=text, **first))
    return [_Piece(block) for block in blocks]


def _common(texts: Sequence[str]) -> str:
    """The longest common beginning of texts."""
    first, last = min(texts, default=""), max(texts, default="")
    return first[: next((n for n, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), len(first))]


_Open = dict[int, tuple[Block, str, str]]
"""By depth of lists, the last block with what precedes its first line and its other lines."""


def _prefix(block: Block, opened: _Open) -> tuple[str, str]:
    """What precedes the first line of a new block in the list where it stands, and its other lines."""
    is_item = block.kind == "item"
    other, head, body = opened.get(block.depth, (Block(), "", ""))
    if is_item and other.kind == "item" and (other.number is None) == (block.number is None):
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


class _Edit:
    """An edit of some steps of a story.

    Attributes:
        story: the story before, as a Markdown text in which these steps have lines.
        newline: line end of its source.
        front: lines before its first block.
        pieces: its blocks before the edit.
        spans: its steps, and what stands between them.
        numbers: first number of each list of steps; in one list, a step's number grows with its place.
        loose: lists with empty lines between items: their depth, and whether they have numbers.
    """

    def __init__(self, story: Story, *touched: int) -> None:
        blocks = [block for step in touched for block in story.blocks[slice(*story.steps[step].run)]]
        self.story = story if story.markdown and all(block.lines for block in blocks) else written(story)
        lines: list[str] = _LINE.findall(self.story.markdown)
        self.newline = lines[0][len(lines[0].rstrip("\r\n")) :] or "\n"
        lines[-1] += "" if lines[-1].endswith(("\r", "\n")) else self.newline
        self.pieces = [_Piece(block, is_line=False) for block in self.story.blocks]
        each = iter(self.pieces)
        self.spans: list[_Span] = []
        for step, run in self.story.runs():
            pieces = [next(each) for _ in run]
            title, sources = (None, ()) if step is None else (self.story.steps[step].title, (step,))
            words = next((n for n, block in enumerate(run) if block.text), 0)
            headed = words + 1 if title and run[words].kind == "heading" and run[words].text == title else 0
            self.spans.append(span := _Span(title, pieces[:headed], pieces[headed:], sources))
            own = text_of([*run[: max(0, headed - 1)], *run[headed:]])
            whole = own if step is None else self.story.steps[step].text
            span.rest = whole.removeprefix(own) if own and whole.startswith(own) else ""
        self.numbers = dict[int, int]()
        for place, span in enumerate(self.steps):
            if (number := span.number) is not None:
                span.series = number - place
                self.numbers.setdefault(span.series, number)
        self.loose = set[tuple[int, bool]]()
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
            if below and last.tail and _goes_on(last, below):
                self.loose.add(_list_of(below))
            if below and not last.tail and _are_lines(last, below):
                last.is_line = below.is_line = True
            below, until = first, start
        return lines[:until] if places else []

    @property
    def steps(self) -> list[_Span]:
        return [span for span in self.spans if span.title is not None]

    @property
    def all(self) -> list[_Piece]:
        return [piece for span in self.spans for piece in span.all]

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
        """Give a piece other words; marks outside the change stay."""
        old, by = piece.block, len(words) - len(piece.block.text)
        if words == old.text:
            return
        start = len(_common([old.text, words]))
        end = len(old.text) - len(_common([old.text[start:][::-1], words[start:][::-1]]))
        marks = [
            _moved(mark, by * (mark.start >= end), by * (mark.end > start))
            for mark in old.marks
            if mark.end <= start or mark.start >= end or mark.start <= start <= end <= mark.end
        ]
        cells = {cell.text: cell for row in old.rows for cell in row}
        lines = [line.split(" | ") for line in words.split("\n")] if old.rows else []
        rows = tuple(tuple(cells.get(cell, Passage(text=cell)) for cell in line) for line in lines)
        content, prefixes = self.markdown(piece), self.prefixes(piece)
        piece.block = changed(old, text=words, marks=tuple(marks), rows=rows)
        text = block_markdown(piece.block)
        if content.count(old.text) == 1 and not rows:
            same = content.replace(old.text, words if old.kind == "code" else marked(Passage(text=words)))
            is_mark = old.kind != "wanted" or words in [asked for _, _, asked in marks_in(same)]
            text = same if is_mark else text
        self.set(piece, text, *prefixes)

    def reword(self, span: _Span, words: str) -> None:
        """Change the words of a step; blocks at its beginning and end with the same words stay."""
        pieces, blocks = span.pieces, [piece.block for piece in span.pieces]
        texts = ["".join(text) for text in texts_of(blocks)]
        first, start, last, end = 0, 0, len(pieces), len(words)
        for text in texts:
            if not (words.startswith(text, start) and (not text or _NEXT.match(words, start + len(text)))):
                break
            first, start = first + 1, start + len(text)
        for text in reversed(texts[first:]):
            if not words.endswith(text, start, end) or text[:1] not in ("", "\n"):
                break
            last, end = last - 1, end - len(text)
        middle, fresh = pieces[first:last], words[start:end].strip("\n")
        if len(middle) == 1 and middle[0].block.kind in _VERBATIM:
            self.change(middle[0], fresh)
            return
        top = next((block for block in blocks if block.text), Block())
        model = top if top.kind == "item" and not start else changed(top, kind="paragraph", number=None)
        news = iter(_typed(fresh, model, blocks[0].depth + 1) if fresh else [])
        reworded = pieces[:first]
        for piece, text in zip(middle, texts[first:last], strict=True):
            old, new = piece.block, next(news, None) if text else piece
            is_same = new is not None and new.block.text.split() == old.text.split()
            if is_same or (new and new.block.kind == ("paragraph" if old.kind == "heading" else old.kind)):
                reworded.append(piece)
                self.change(piece, old.text if is_same or not new else new.block.text)
                continue
            self.leave(piece)
            if new:
                self.write([new], reworded or pieces[:1])
                reworded.append(new)
            piece.lines = []
        rest = [*news]
        self.write(rest, reworded or pieces[:1])
        span.pieces = [*reworded, *rest, *pieces[last:]]

    def divide(self, span: _Span, at: int) -> int:
        """Part the pieces of a step at a position in its text; index of the first one after it."""
        end = 0
        for place, (before, words) in enumerate(texts_of([piece.block for piece in span.pieces])):
            start, piece = end + len(before), span.pieces[place]
            end = start + len(words)
            if words and start >= at:
                return place
            if start < at < end and piece.block.kind not in _VERBATIM:
                block, (head, body) = strip(piece.block), self.prefixes(piece)
                indent = (len(words) - len(block.text)) // max(1, words.count("\n"))
                inner = max(1, at - start - indent * words[: at - start].count("\n"))
                half = _Piece(
                    strip(changed(cut(block, inner), pictures=())), [], piece.tail, piece.below, piece.is_line
                )
                piece.block, piece.tail, piece.below = strip(cut(block, 0, inner)), [], None
                for part in (piece, half):
                    self.set(part, block_markdown(part.block), head, body)
                span.pieces.insert(place + 1, half)
                return place + 1
        return len(span.pieces)

    def turned(self, piece: _Piece, like: _Piece, **changes: object) -> _Piece:
        """A piece as another kind of block, in the list of another."""
        block = changed(piece.block, depth=like.block.depth, quoted=like.block.quoted, **changes)
        text, (head, body) = self.markdown(piece), self.prefixes(like)
        if piece.block.kind == "heading":
            marker = _title_marker(block.text)
            block = changed(block, text=(marker and marker.rest) or block.text, marks=())
            text = block_markdown(block)
        head = _numbered(head, like.block.number, block.number) if block.kind == "item" else body
        other = _Piece(block, tail=piece.tail, below=piece.below)
        self.set(other, text, head, body)
        return other

    def joined(self, pieces: Sequence[_Piece], other: _Piece) -> bool:
        """Join two paragraphs into one, if there are no other pieces."""
        a, b = pieces[-1].block, other.block
        if len(pieces) > 1 or {a.kind, b.kind} - _WORDED or "\n" in a.text + b.text:
            return False
        space = "" if east_asian_width(a.text[-1]) in "WF" else " "  # scripts without spaces
        by = len(a.text) + len(space)
        marks = *a.marks, *(_moved(mark, by, by) for mark in b.marks)
        text, pictures = a.text + space + b.text, a.pictures + b.pictures
        self.set(
            pieces[0], self.markdown(pieces[0]) + space + self.markdown(other), *self.prefixes(pieces[0])
        )
        pieces[0].block = changed(a, text=text, marks=marks, pictures=pictures)
        return True

    def leave(self, piece: _Piece) -> None:
        """Leave comments and definitions below a piece that goes with the block above it."""
        kept = [*dropwhile(_BLANK.fullmatch, piece.tail)]
        others = self.all
        above = [other.tail for other in others[: others.index(piece)] if other.lines]
        [self.front, *above][-1].extend(kept)
        piece.tail, piece.below = ([], None) if kept else (piece.tail, piece.below)

    def take(self, span: _Span) -> None:
        """Take a step out of the text, with the break of its page."""
        place = self.spans.index(span)
        near = [other for other in self.spans[max(0, place - 1) : place + 2] if other is not span]
        for gone in (span, *(near[-1:] if all(other.divides for other in near) else ())):
            for piece in reversed(gone.all):
                self.leave(piece)
            self.spans.remove(gone)

    def put(self, span: _Span, neighbor: _Span, *, after: bool) -> None:
        """Put a step next to another: a page beside pages, with a heading if that has "Step 2: Dig"."""
        place = self.spans.index(neighbor) + after
        is_page = any(other.divides for other in self.spans[max(0, place - 1 - after) : place + 1])
        self.spans.insert(place, span)
        if is_page:
            line = _Span(pieces=[_Piece(Block(kind="break"))])
            self.write(line.pieces, ())
            self.spans.insert(place + (not after), line)
        span.series = neighbor.series
        title = neighbor.title or ""
        marker = _title_marker(title) if neighbor.heading else None
        if marker and marker.worded and not (span.heading or span.sources):
            self.retitle(span, title.removesuffix(marker.rest).rstrip(" :.–—-"))
        elif not span.heading:
            above = (other.above for other in reversed(self.spans[: self.spans.index(span)]))
            span.title = next((title for title in above if title is not None), "")

    def retitle(self, span: _Span, title: str) -> None:
        """Change the heading of a step and of those that share it, or give it one."""
        before, around, named = span.title, span, [span]
        if before and not span.heading:
            others = reversed(self.spans[: self.spans.index(span)])
            around = next((other for other in others if other.title is None and other.above == before), span)
        pieces = span.heading if around is span else around.pieces
        heading = next((piece for piece in reversed(pieces) if piece.block.text == before), None)
        if heading:
            below = self.spans[self.spans.index(around) + 1 :]
            named += takewhile(lambda other: not other.heading and other.above in (before, None), below)
            if title:
                self.change(heading, title)
            else:
                self.leave(heading)
                pieces.remove(heading)
        elif title:
            level = min((step.heading[-1].block.level for step in self.steps if step.heading), default=2)
            span.heading = [_Piece(Block(kind="heading", text=title, level=level, role=span.first.role))]
            self.write(span.heading, ())
        for other in named:
            other.title = title if other.title == before else other.title

    def fill(self, places: Mapping[int, str | None]) -> None:
        """Put pictures in the place of marks, in the lines that hold them."""
        before = owner = _Piece(Block())
        at, above = 0, False
        numbers = {id(self.steps[place].pieces[0]): place for place in places}
        for piece in self.all:
            if piece.lines:
                before, owner, at = owner, piece, 0
            if id(piece) not in numbers:
                above = above and not piece.block.text
                continue
            line, block = places[numbers[id(piece)]], piece.block
            for held in (owner.lines, owner.tail, before.tail):
                text, first = "".join(held), at if held is owner.lines else 0
                spans = (span for span in marks_in(text, first) if letters(span[2]) == letters(block.text))
                start, end, _ = next(spans, (-1, -1, ""))
                if start >= 0:
                    break
            else:
                owner.tail[:0] = [] if line is None else [self.newline, line + self.newline]
                continue
            told = above and not text.startswith(("![", "<", "{"), start)
            new = line if line is not None else block_markdown(block) if told else text[start:end]
            if line is not None and text.lstrip().startswith("<") and text.strip() != text[start:end]:
                new = _IMAGE.sub(r'<img src="\2" alt="\1">', line)  # inside HTML
            above, at = above or line is not None, start + len(new)
            held[:] = _LINE.findall(text[:start] + new + text[end:])

    def source(self) -> str:
        """The source, with a line end at its end only if there was one."""
        lines = [*self.front, *(line for piece in self.all for line in (*piece.lines, *piece.tail))]
        ends = self.story.markdown.endswith(("\r", "\n"))
        return "".join(lines) if ends else "".join(lines).removesuffix(self.newline)

    def finished(self) -> Edited:
        """The edited story with numbers counted on, and with its source."""
        self._count()
        self._part()
        blocks: list[Block] = []
        steps: list[Step] = []
        lines, place = (0, 0), len(self.front)
        for span in self.spans:
            start = len(blocks)
            for piece in span.all:
                lines = (place, place + len(piece.lines)) if piece.lines else lines
                place += len(piece.lines) + len(piece.tail)
                is_source = bool(piece.lines or piece.block.lines)
                blocks.append(changed(piece.block, lines=lines if is_source else None))
            if span.title is not None:
                inside, pictures = blocks[start:], pictures_of(blocks[start:])
                del inside[len(span.heading) - 1 : len(span.heading)]
                text = text_of(inside)
                text += text and span.rest
                if span.changed and span.first.kind == "wanted":
                    text = asked_for([piece.block for piece in self.all], self.story.title)[start]
                text = text or next((self.story.steps[place].text for place in span.sources), span.title)
                at = start, len(blocks)
                steps.append(Step.model_construct(text=text, title=span.title, pictures=pictures, run=at))
        update = {"blocks": tuple(blocks), "steps": tuple(steps), "markdown": self.source()}
        rewritten = frozenset(place for place, span in enumerate(self.steps) if span.changed)
        return Edited(
            self.story.model_copy(update=update), tuple(span.sources for span in self.steps), rewritten
        )

    def _part(self) -> None:
        """Set as many empty lines as suit blocks that did not follow each other; other lines stay."""
        pieces = [piece for piece in self.all if piece.lines]
        for piece, below in zip_longest(pieces, pieces[1:]):
            if piece.below is not below:
                blank = _common([self.prefixes(each)[1] for each in (piece, below) if each]).rstrip()
                others = [n for n, line in enumerate(piece.tail) if not _BLANK.fullmatch(line)]
                kept = piece.tail[others[0] : others[-1] + 1] if others else []
                tight = below and not kept and self._is_tight(piece, below)
                gap = below is not None and not tight
                piece.tail = [*[blank + self.newline] * bool(kept), *kept, *[blank + self.newline] * gap]

    def _is_tight(self, piece: _Piece, below: _Piece) -> bool:
        """Whether blocks follow each other without an empty line: items, or lines of a paragraph."""
        if _are_lines(piece, below):
            return {piece.is_line, below.is_line} in ({True}, {True, None})
        return _goes_on(piece, below) and _list_of(below) not in self.loose

    def _count(self) -> None:
        """Count the numbers of steps on, list by list."""
        numbers = self.numbers.copy()
        for span in self.steps:
            if span.number is not None and span.series is not None:
                if span.number != numbers[span.series]:
                    self._renumber(span, numbers[span.series])
                numbers[span.series] += 1

    def _renumber(self, span: _Span, number: int) -> None:
        """Give a step another number; below a longer one of an item, its other lines are indented further."""
        if span.heading and _title_marker(span.title):
            self.retitle(span, re.sub(r"\d+", str(number), span.title or "", count=1))
            return
        item = span.pieces[0]
        old, body = self.prefixes(item)
        head = _numbered(old, item.block.number, number)
        item.block = changed(item.block, number=number)
        first = [head + line[len(old) :] for line in item.lines[:1]]
        if len(head) != len(old) == len(body):
            inner = re.sub(r"[^\s>]", " ", head)
            for piece in span.pieces:
                lines = piece.lines
                piece.lines = [inner + line[len(body) :] if line.startswith(body) else line for line in lines]
        item.lines = first + item.lines[1:]


def _moved(mark: Mark, start: int, end: int) -> Mark:
    return mark.model_copy(update={"start": mark.start + start, "end": mark.end + end})


def _list_of(piece: _Piece) -> tuple[int, bool]:
    return piece.block.depth, piece.block.number is None


def _are_lines(piece: _Piece, below: _Piece) -> bool:
    return below.block.kind == "paragraph" and piece.block.kind in ("heading", "paragraph")


def _goes_on(piece: _Piece, below: _Piece) -> bool:
    """Whether a piece is followed by an item of the list in which it stands, or of an inner one."""
    a, b = piece.block, below.block
    is_other = a.kind == "item" and a.depth == b.depth and _list_of(piece) != _list_of(below)
    return a.kind in _WORDED and b.kind == "item" and a.depth > 0 and not is_other


def _title_marker(title: str | None) -> Marker | None:
    """The number in a title such as "Step 2: Dig"."""
    return marker_of(title) if title and re.search(r"\d", title) else None
