"""The storyboard as Markdown beside a folder of its pictures.

For editors who go on writing: plain CommonMark with tables, and relative links. Texts are escaped so that
nothing in them turns into markup but what the author marked; pictures are scaled copies, or the files
byte for byte.
"""

import hashlib
import json
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from limner.errors import DataError
from limner.export.leaf import Leaf, ShownPicture, fit, fit_own, language_of, leaves, pieces_of
from limner.export.markup import runs_of
from limner.export.plan import Plan
from limner.export.targets import Exported, is_picture, put
from limner.export.wording import (
    colophon,
    credit_line,
    file_name,
    how_made,
    picture_credits,
    step_numbers,
)
from limner.files import sha256_of, storing, write_text
from limner.language import ENGLISH
from limner.pictures.decode import decode, read_file
from limner.pictures.formats import PictureError
from limner.pictures.thumbnails import Copy, indexed, locate
from limner.records import Board, BoardStep, Part, Passage, PictureRef, Story
from limner.templates import carried, forbidden

SHOWN_MM = (200.0, 150.0)
"""As large as a page on a screen shows a picture."""

FOLDER = "_pictures"


def write(board: Board, out: Path, plan: Plan) -> Exported:
    """Write the text and copy the chosen pictures to `<stem>_pictures/` beside it.

    Args:
        board: the storyboard.
        out: the .md file; checked by the caller.
        plan: what it shows; with originals, the files are copied as they are.

    Raises:
        DataError: a picture is not there, or a name in the folder is taken by another file.
    """
    folder = out.with_name(out.stem + FOLDER)
    warnings = list(forbidden(board.story))
    # All is looked up before anything is written: picture → first step that shows it, and what is copied.
    sources: dict[str, _Source] = {}
    for leaf in leaves(board):
        for shown in leaf.pictures:
            if shown.name not in sources:
                prefix, sha256 = f"{leaf.position:02d}", shown.picture.id
                if plan.originals and shown.crop is None:
                    file, read = indexed(shown.picture, leaf.where)
                    _check_picture(file, read.data, leaf.where)
                    sources[shown.name] = _Source(prefix, file, sha256)
                else:
                    file = locate(shown.picture, leaf.where)
                    copy = fit(shown, leaf.where, plan, SHOWN_MM)
                    sources[shown.name] = _Source(prefix, file, sha256, copy)
    for own in [one for part in board.story.between for one in part.pictures if one.path]:
        if plan.include == "everything" and (scaled := fit_own(own, plan, SHOWN_MM, warnings)):
            whole_file = None if plan.originals else scaled
            source = _Source("text", Path(own.path or ""), own.sha256 or "", whole_file)
            sources.setdefault(f"own {own.target}", source)
    if sources:
        if folder.exists() and not folder.is_dir():
            raise DataError(
                f"export: {folder} is a file, expected a folder for pictures; move it or name another output"
            )
        with storing(folder):
            folder.mkdir(exist_ok=True)
    copies = {identity: _place(source, folder, board) for identity, source in sources.items()}
    pictures = tuple(dict.fromkeys(copies.values()))
    left = len(set(folder.iterdir()) - set(pictures)) if folder.is_dir() else 0
    if left:
        warnings.append(f"{folder.name} holds {left} other file{'s' if left > 1 else ''}, left as found")
    write_text(out, "\n".join(_lines(board, plan, copies)))
    return Exported(out, pictures, tuple(warnings))


# What means something only at the start of a line: headings, quotes, lists, rules.
_START = re.compile(r"^(\d{1,9}(?=[.)])|)([-+#>=.)])")


def inline(text: str) -> str:
    """Text as CommonMark that reads as exactly this text on one line: no markup, no HTML, no entities."""
    return _START.sub(r"\1\\\2", _escaped(" ".join(carried(text).split())))


def _escaped(text: str) -> str:
    return re.sub(r"[\\`*_\[\]<|~$]|&(?=#?\w+;)", r"\\\g<0>", " ".join(text.split(" ")))


class _Source(NamedTuple):
    """What is copied.

    Attributes:
        prefix: of the copy's name.
        file: of the picture.
        sha256: of its content.
        copy: a scaled one; None copies the file as it is.
    """

    prefix: str
    file: Path
    sha256: str
    copy: Copy | None = None


def _check_picture(file: Path, data: bytes, where: str) -> None:
    """Refuse a file that is no picture, whatever a library says of it."""
    try:
        decode(data, side_px=1, suffix=file.suffix.lower())
    except PictureError as error:
        raise DataError(f"export: {where}: {file}: {error}; leave it out, or run 'limner index'") from error


def _place(source: _Source, folder: Path, board: Board) -> Path:
    """Write a scaled copy, or copy a file as it is; returns where.

    The hash is in the name, so that a copy made before is recognised and nothing else is replaced.
    """
    file, copy = source.file, source.copy
    data = read_file(os.fsencode(file)).data if copy is None else copy.data
    content = hashlib.sha256(data).hexdigest()
    if copy is None and content != source.sha256:
        raise DataError(f"export: {file} has changed while it was exported; do it again")
    stem = re.sub(r"[^A-Za-z0-9]+", "-", file.stem).strip("-")[:48] or "picture"
    suffix = file.suffix.lower() if re.fullmatch(r"\.[A-Za-z0-9]{1,8}", file.suffix) else ""
    target = folder / f"{source.prefix}-{stem}-{content[:8]}{suffix if copy is None else '.jpg'}"
    if target.exists():
        if target.is_file() and sha256_of(target) == content:
            return target
        raise DataError(f"export: {target} exists with another content; move it away or name another output")
    if is_picture(target, board) is not None:
        raise DataError(f"export: {target} is a picture of the collection; name another output")
    put(target, data)
    return target


def _lines(board: Board, plan: Plan, copies: dict[str, Path]) -> Iterator[str]:
    story = board.story
    tag = language_of(story)
    # CommonMark itself has no place for it; an English text needs none, and keeps its first line a heading.
    if tag.partition("-")[0].isalpha() and tag.partition("-")[0].lower() != ENGLISH:
        yield f"---\nlanguage: {inline(tag)}\ndir: {story.direction}\n---\n"
    yield f"# {inline(story.title.strip() or story.id)}\n"
    if story.author.strip():
        yield f"*{inline(story.author)}*\n"
    for piece in pieces_of(board, plan):
        if isinstance(piece, Leaf):
            yield from _step(piece, plan, copies)
        else:
            yield from _parts(piece, copies)
    yield from _ending(board, plan, copies)


def words_of(story: Story) -> str:
    """A story as Markdown without the pictures of its steps, to be written on and read again."""
    stated = {"language": story.language, "author": story.author}
    stated |= {"illustrator": story.illustrator, "license": story.license}
    lines = [f"{name}: {json.dumps(value, ensure_ascii=False)}" for name, value in stated.items() if value]
    front = ["---", *lines, "---", ""] if lines else []
    front += [f"# {inline(story.title)}\n"] if story.title.strip() else []
    steps = tuple(BoardStep(position=place, origin="blank") for place in range(len(story.steps)))
    board = Board(story=story, steps=steps)
    plan = Plan()
    for piece in pieces_of(board, plan):
        front += _step(piece, plan, {}) if isinstance(piece, Leaf) else _parts(piece, {})
    return "\n".join(front)


def _ending(board: Board, plan: Plan, copies: dict[str, Path]) -> Iterator[str]:
    """Who wrote the text; where reasons are wanted, credits and how the storyboard was made."""
    stated = colophon(board.story)
    if stated or plan.with_reasons:
        yield "---\n"
    if plan.with_reasons:
        yield "## Pictures\n"
        for picture, steps in picture_credits(board):
            credit = f"{inline(credit_line(picture))} ({inline(file_name(picture))})"
            yield f"- {step_numbers(steps).capitalize()}: {credit}"
        yield "" if copies else "No step has a picture.\n"
    yield from (f"- {inline(line)}" for line in stated)
    if plan.with_reasons:
        yield f"\n{inline(how_made(board))}\n"
    elif stated:
        yield ""


def _step(leaf: Leaf, plan: Plan, copies: dict[str, Path]) -> Iterator[str]:
    """One step: its title, its pictures and its words, and its reasons where they are wanted."""
    number = "" if leaf.number is None else str(leaf.number)
    title = inline(leaf.title)
    if title or plan.with_reasons:
        yield f"{'#' * leaf.level} {' · '.join(filter(None, (number, title)))}\n"
    pictures = [line for shown in leaf.pictures for line in _picture(shown, plan, copies)]
    if plan.with_reasons and not pictures:
        pictures = [f"*No picture here. {inline(leaf.step.reason)}".rstrip() + "*\n"]
    body = list(_parts(leaf.parts, {}))
    if number and not (title or plan.with_reasons):
        # Inside the item, so that the list goes on behind the picture.
        mark = f"{number}. "
        lines = "\n".join(body + pictures).split("\n")
        yield mark + "\n".join([lines[0], *(f"{' ' * len(mark)}{line}".rstrip() for line in lines[1:])])
    else:
        yield from pictures + body
    if plan.with_reasons:
        yield "\n".join(f"> - {inline(line)}" for line in leaf.why.lines()) + "\n"


def _picture(shown: ShownPicture, plan: Plan, copies: dict[str, Path]) -> Iterator[str]:
    """A picture of a step with its caption."""
    copy = copies[shown.name]
    yield f"![{inline(shown.alt)}]({quote(f'{copy.parent.name}/{copy.name}')})\n"
    caption = shown.caption or (credit_line(shown.picture) if plan.with_reasons else "")
    if caption:
        yield f"*{inline(caption)}*\n"


def _parts(parts: Sequence[Part], copies: dict[str, Path]) -> Iterator[str]:
    """Parts as CommonMark, each followed by an empty line but inside one list."""
    for part, after in zip(parts, [*parts[1:], Part()], strict=False):
        lines = [f"![{inline(one.alt)}]({_address(one, copies)})\n" for one in part.pictures]
        words = _words(part)
        indent = " " * (4 * max(0, part.depth - (part.kind == "item")))
        if part.kind == "item":
            mark = "- " if part.number is None else f"{part.number}. "
            words = mark + words.replace("\n", "\n" + " " * len(mark))
        tight = part.kind == after.kind == "item"
        lines += [words if tight else words + "\n"] if words else []
        front = ("> " if part.quoted else "") + indent
        for line in lines:
            shown = "\n".join((front + one).rstrip() for one in line.split("\n"))
            yield shown.removesuffix("\n>") + "\n" if part.quoted and not after.quoted else shown


def _address(picture: PictureRef, copies: dict[str, Path]) -> str:
    copy = copies.get(f"own {picture.target}")
    return quote(f"{copy.parent.name}/{copy.name}") if copy else quote(picture.target, safe="/:?&=#%+,;@~")


def _words(part: Part) -> str:
    """The words of one part."""
    if part.kind == "break":
        return "---"
    if part.kind == "code":
        fence = "`" * max(3, 1 + max(map(len, re.findall(r"`+", part.text)), default=0))
        return f"{fence}\n{part.text}\n{fence}"
    if part.kind == "table" and part.rows:
        width = max(map(len, part.rows))
        rows = [[marked(cell) for cell in row] + [""] * (width - len(row)) for row in part.rows]
        rows = rows if part.head else [[""] * width, *rows]
        lines = [f"| {' | '.join(row)} |" for row in rows]
        return "\n".join([lines[0], "|" + " --- |" * width, *lines[1:]])
    words = marked(part)
    return f"{'#' * max(2, part.level)} {words}" if part.kind == "heading" and words else words


_PLAIN_ADDRESS = re.compile(r"[^()<>\s]+")
_SIGNS = {"strong": "**", "emphasis": "*", "struck": "~~"}


def marked(passage: Passage) -> str:
    """A passage as CommonMark: words escaped, marks as the author set them, line ends kept."""
    made = ""
    for run in runs_of(passage):
        inner = run.text.strip()
        before, _, behind = run.text.partition(inner) if inner else (run.text, "", "")
        words = "\\\n".join(_escaped(line) for line in carried(inner).split("\n"))
        if "code" in run.kinds and "`" not in inner and inner:
            words = f"`{inner}`"
        for kind in sorted(run.kinds & set(_SIGNS)):
            words = f"{_SIGNS[kind]}{words}{_SIGNS[kind]}" if inner else words
        for kind, tag in (("above", "sup"), ("below", "sub")):
            words = f"<{tag}>{words}</{tag}>" if kind in run.kinds else words
        if run.target:
            address = run.target if _PLAIN_ADDRESS.fullmatch(run.target) else f"<{run.target}>"
            words = f"[{words}]({address})"
        made += before.replace("\n", "\\\n") + words + behind.replace("\n", "\\\n")
    return _START.sub(r"\1\\\2", made.strip())
