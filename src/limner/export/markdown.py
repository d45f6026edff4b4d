"""The storyboard as Markdown beside a folder of its pictures.

For editors who go on writing. A text that came as Markdown is the author's own source with pictures put in;
any other is written as plain CommonMark with tables, escaped so that nothing in it turns into markup but what
the author marked. Pictures are scaled copies, or the files byte for byte.
"""

import hashlib
import json
import os
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from limner.errors import DataError, counted
from limner.export.leaf import Leaf, ShownPicture, fit, fit_own, language_of, leaves, parts_of, pieces_of
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
from limner.records import Board, BoardStep, Part, Passage, Picture, PictureRef, Step, Story
from limner.templates import carried, forbidden
from limner.text.document import resolve_picture
from limner.text.front_matter import without_front
from limner.text.insertion import FOLDER, NAME, Layout, layout_of, with_inserted
from limner.text.markdown import read_markdown
from limner.text.named_files import is_web
from limner.text.read import take_title
from limner.text.revise import Revision

SHOWN_MM = (200.0, 150.0)
"""As large as a page on a screen shows a picture."""


def write(board: Board, out: Path, plan: Plan) -> Exported:
    """Write the text and copy the chosen pictures to `<stem>_pictures/` beside it.

    Args:
        board: the storyboard.
        out: the .md file; checked by the caller. Where it is there, pictures that only it showed are removed.
        plan: what it shows; with originals, the files are copied as they are.

    Raises:
        DataError: a picture is not there, or a name in the folder is taken by another file.
    """
    folder = out.with_name(out.stem + FOLDER)
    is_source = bool(board.story.markdown) and plan.include == "everything" and not plan.with_reasons
    warnings = list(_not_said(board, out) if is_source else forbidden(board.story))
    # All is looked up before anything is written: picture → first step that shows it, and what is copied.
    sources: dict[str, _Source] = {}
    for leaf in leaves(board):
        for shown in _added(leaf) if is_source else leaf.pictures:
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
        if (
            plan.include == "everything"
            and not is_source
            and (scaled := fit_own(own, plan, SHOWN_MM, warnings))
        ):
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
    replaced = out.exists()
    text = _illustrated(board, copies) if is_source else "\n".join(_lines(board, plan, copies))
    write_text(out, text)
    if folder.is_dir():
        warnings += _cleared(folder, pictures, board, remove=replaced)
    return Exported(out, pictures, tuple(warnings))


def _added(leaf: Leaf) -> tuple[ShownPicture, ...]:
    """The pictures of a step that its text does not show itself."""
    return leaf.pictures[leaf.step.origin == "given" and bool(leaf.text.pictures) :]


def _illustrated(board: Board, copies: dict[str, Path]) -> str:
    """The author's source with the pictures of the steps after them."""
    story = board.story
    end = story.markdown.count("\n") + 1
    found = []
    for leaf in leaves(board):
        lines = leaf.text.lines or (end, end)
        found += [(lines, "\n".join(_picture(shown, copies))) for shown in _added(leaf)]
    return with_inserted(_titled(story), found, story.id)


_TITLE = re.compile(r"(\s*\"?title\"?\s*[:=]\s*)(.*?)(,?\s*)", re.DOTALL)


def _titled(story: Story) -> str:
    """The author's source, under the title that its story has by now."""
    title = read_markdown(story.markdown, story.id, None)
    take_title(title)
    if not (title.title and story.title.strip()) or title.title == story.title:
        return story.markdown
    layout = layout_of(story.markdown, story.id)
    lines = layout.lines
    for place in range(without_front(story.markdown, story.id)[1].lines):
        if found := _TITLE.fullmatch(lines[place]):
            lines[place] = f"{found[1]}{json.dumps(story.title, ensure_ascii=False)}{found[3]}"
    heading = next(
        (one for one in layout.last.values() if one.type == "heading_open" and one.tag == "h1"), None
    )
    if heading is not None and heading.map:
        place = heading.map[0]
        lines[place] = lines[place].replace(title.title, inline(story.title), 1)
    return "".join(lines)


def _not_said(board: Board, out: Path) -> Iterator[str]:
    """What a reader of the author's own source, with pictures put in, should know."""
    lost = 0
    for leaf in leaves(board):
        own = [one for one in leaf.text.pictures if not one.problem and not is_web(one.target)]
        lost += sum(not _leads_to(one, out) for one in own)
        if own and leaf.pictures and leaf.step.origin != "given":
            yield f"{leaf.where} shows the text's own picture {own[0].target} beside the one that was chosen"
        elif own and leaf.picture is not None and leaf.picture.id in leaf.step.framing:
            yield f"{leaf.where} shows the text's own picture as the text has it, without frame and new words"
    lost += sum(not _leads_to(one, out) for part in board.story.between for one in part.pictures if one.path)
    if lost:
        yield (
            f"{counted(lost, 'picture')} of the text not found from here, by the names that the text has for"
            " them; put this file beside the text, or copy them"
        )


def _leads_to(picture: PictureRef, out: Path) -> bool:
    """Whether a picture of the text is found from the export by the same name."""
    return resolve_picture(picture.target, out.parent).path is not None


def _cleared(folder: Path, used: Sequence[Path], board: Board, *, remove: bool) -> Iterator[str]:
    """What is in the folder of the pictures beside them; what an earlier export put there can be removed."""
    others = sorted(set(folder.iterdir()) - set(used))
    earlier = [file for file in others if _is_earlier(file) and is_picture(file, board) is None]
    names = ", ".join(file.name for file in earlier[:5]) + ("…" if len(earlier) > 5 else "")
    if earlier and remove:
        for file in earlier:
            file.unlink()
        yield f"removed from {folder.name}: {counted(len(earlier), 'picture')} of an earlier export ({names})"
    elif earlier:
        yield (
            f"{folder.name} holds {counted(len(earlier), 'picture')} of an earlier export that nothing shows"
            f" ({names}); --overwrite removes them"
        )
    if left := len(others) - len(earlier):
        yield f"{folder.name} holds {left} other file{'s' if left > 1 else ''}, left as found"


def _is_earlier(file: Path) -> bool:
    """Whether an export wrote a file: its name holds the beginning of its SHA-256."""
    return (
        NAME.fullmatch(file.name) is not None
        and file.is_file()
        and not file.is_symlink()
        and sha256_of(file)[:8] == file.stem.rpartition("-")[2]
    )


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


def revised_source(revision: Revision) -> str | None:
    """The author's Markdown in which the steps that were changed stand anew, each in its own lines.

    Args:
        revision: of a story.
    Returns:
        It; None where the story did not come as Markdown, or its lines cannot take the change.
    """
    story = revision.before
    layout = layout_of(story.markdown, story.id)
    lines = list(layout.lines)
    spans = [(one.lines[0], layout.trimmed(*one.lines)) for one in story.steps if one.lines]
    apart = all(before[1] <= after[0] for before, after in pairwise(spans))
    if not story.markdown or len(spans) != len(story.steps) or not apart:
        return None
    if not lines[-1].endswith(("\r", "\n")):
        lines[-1] += layout.newline
    gone: set[int] = set()
    added: dict[int, list[str]] = {}
    end, beside = spans[0][0], 0
    for one in revision.steps:
        sources = sorted(one.sources)
        if any(revision.before.steps[source].title != one.step.title for source in sources):
            return None
        start, stop = (spans[sources[0]][0], spans[sources[-1]][1]) if sources else (end, end)
        moved = start < end
        if sources and not one.changed and not moved:
            end, beside = stop, sources[-1]
            continue
        if any(
            lines[place].strip() for a, b in pairwise(sources) for place in range(spans[a][1], spans[b][0])
        ):
            return None
        beside = sources[0] if sources else beside
        words = lines[start:stop] if not one.changed else _anew(one.step, story, layout, spans[beside])
        gone.update(range(start, stop))
        if moved or not sources:
            is_item = bool(one.step.parts) and one.step.parts[0].number is not None
            space = [] if is_item else [layout.newline]
            first = end == spans[0][0] and not added
            words = [*words, *space] if first else [*space, *words]
        else:
            end = stop
        added.setdefault(end if moved or not sources else start, []).extend(words)
    kept = {source for one in revision.steps for source in one.sources}
    for place, (start, stop) in enumerate(spans):
        if place not in kept:
            gone.update(range(start, stop + (not "".join(lines[stop : stop + 1]).strip())))
    return "".join(
        line
        for place in range(len(lines) + 1)
        for line in (*added.get(place, ()), *(lines[place : place + 1] if place not in gone else ()))
    )


def _anew(step: Step, story: Story, layout: Layout, span: tuple[int, int]) -> list[str]:
    """The lines of a step with other words, in the list or quotation of some lines of the source."""
    shown = Part(pictures=step.pictures)
    parts, number = parts_of(step.text, step.parts)
    written = "\n".join(_parts([*parts, *([shown] if step.pictures else [])], {})).strip("\n").split("\n")
    prefix = layout.prefix(*span)
    lead = layout.lines[span[0]].expandtabs(4)[: len(prefix)]
    if number is not None:
        lead = re.sub(r"\d+(?=[.)])", str(number), lead)
    return [
        f"{(lead if place == 0 else prefix)}{line}".rstrip() + layout.newline
        for place, line in enumerate(written)
    ]


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
    fallback = credit_line if plan.with_reasons else None
    pictures = ["\n".join(_picture(shown, copies, fallback)) + "\n" for shown in leaf.pictures]
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


def _picture(
    shown: ShownPicture, copies: dict[str, Path], credit: Callable[[Picture], str] | None = None
) -> Iterator[str]:
    """The lines of a picture of a step: it, and its caption, or else its credit."""
    copy = copies[shown.name]
    yield f"![{inline(shown.alt)}]({quote(f'{copy.parent.name}/{copy.name}')})"
    if caption := shown.caption or (credit(shown.picture) if credit else ""):
        yield f"*{inline(caption)}*"


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
