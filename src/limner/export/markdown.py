"""The storyboard as Markdown, with a folder of its pictures.

For editors who continue writing. A Markdown text stays the author's own source, with pictures inserted. Any
other text is written as CommonMark with tables, escaped so that only the author's formatting becomes markup.
Pictures are scaled copies or, with originals, unchanged files.
"""

import hashlib
import json
import os
import re
from collections.abc import Callable, Iterator, Sequence, Set
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from limner.errors import DataError, counted
from limner.export import Exported, Plan, is_picture, put
from limner.export.leaf import (
    Leaf,
    ShownPicture,
    captions_of,
    fit,
    fit_own,
    language_of,
    leaves,
    parts_of,
    pieces_of,
)
from limner.export.markup import runs_of
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
from limner.pictures.decode import PictureError, decode, read_file
from limner.pictures.thumbnails import Copy, indexed, locate
from limner.records import Board, BoardStep, Part, Passage, Picture, PictureRef, Step, Story
from limner.templates import carried, forbidden
from limner.text.dialects import without_front
from limner.text.document import MISSING, is_web, resolve_picture
from limner.text.markdown import FOLDER, NAME, Layout, layout_of, read_markdown, with_inserted
from limner.text.read import parse_story_report, take_title
from limner.text.revise import StoryRevision

OWN = "text"
"""Prefix of the name of a copy of the text's own picture, which limner did not insert."""
SHOWN_MM = (200.0, 150.0)
"""Maximum size of a picture: that of a page on a screen."""


class _Source(NamedTuple):
    """A file to copy.

    Attributes:
        prefix: prefix of the copy's name.
        file: the picture's file.
        sha256: hash of its content.
        copy: a scaled copy; None copies the file as it is.
    """

    prefix: str
    file: Path
    sha256: str
    copy: Copy | None = None


def write(board: Board, out: Path, plan: Plan) -> Exported:
    """Write the text, and copy the chosen pictures to `<stem>_pictures/` next to it.

    Args:
        board: the storyboard.
        out: the .md file; the caller has made sure that it may be written. If it exists, pictures that only
            it used are removed.
        plan: content and layout; with originals, files are copied as they are.

    Raises:
        DataError: a picture is missing, or a name in the folder belongs to another file.
    """
    folder = out.with_name(out.stem + FOLDER)
    as_written = plan.include == "everything" and not plan.with_reasons
    is_source = bool(board.story.markdown) and as_written
    warnings = list(_not_said(board, out) if is_source else forbidden(board.story))
    # Everything is checked before anything is written.
    sources = _chosen(board, plan, is_source=is_source)
    if plan.include == "everything" and not is_source:
        sources |= _of_text(board, plan, warnings, of_steps=as_written)
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
    if is_source:
        lines = [step.lines for step in board.story.steps]
        text = _illustrated(_titled(board.story), lines, board, copies)
    else:
        text = _anew(board, copies) if as_written else "\n".join(_lines(board, plan, copies))
    write_text(out, text)
    if folder.is_dir():
        shown_by_text = {Path(one.path) for step in board.story.steps for one in step.pictures if one.path}
        warnings += _cleared(folder, {*pictures, *shown_by_text}, board, remove=replaced)
    return Exported(out, pictures, tuple(warnings))


def _chosen(board: Board, plan: Plan, *, is_source: bool) -> dict[str, _Source]:
    """Files to copy for the steps: picture → the first step that shows it, and its file."""
    sources: dict[str, _Source] = {}
    for leaf in leaves(board):
        for shown in _added(leaf) if is_source else leaf.pictures:
            name = _name(shown, leaf)
            if name in sources:
                continue
            prefix = OWN if name != shown.name else f"{leaf.position:02d}"
            if plan.originals and shown.crop is None:
                file, read = indexed(shown.picture, leaf.where)
                _check_picture(file, read.data, leaf.where)
                sources[name] = _Source(prefix, file, shown.picture.id)
            else:
                file = locate(shown.picture, leaf.where)
                copy = fit(shown, leaf.where, plan, SHOWN_MM)
                sources[name] = _Source(prefix, file, shown.picture.id, copy)
    return sources


def _of_text(board: Board, plan: Plan, warnings: list[str], *, of_steps: bool) -> dict[str, _Source]:
    """Files to copy for those of the text's own pictures that are not shown first in a step."""
    sources: dict[str, _Source] = {}
    refs = [one for part in board.story.between for one in part.pictures]
    refs += [one for leaf in leaves(board) for one in _others(leaf)] if of_steps else []
    for own in refs:
        name = f"own {own.target}"
        if own.path and name not in sources and (scaled := fit_own(own, plan, SHOWN_MM, warnings)):
            sources[name] = _Source(OWN, Path(own.path), own.sha256 or "", None if plan.originals else scaled)
    return sources


def _added(leaf: Leaf) -> tuple[ShownPicture, ...]:
    """Pictures of a step that its text does not show itself."""
    return leaf.pictures[leaf.own is not None :]


def _name(shown: ShownPicture, leaf: Leaf) -> str:
    """Name of the copy of a step's picture; the text's own pictures have separate copies."""
    is_own = leaf.own is not None and shown is leaf.pictures[0]
    return f"given {shown.name}" if is_own else shown.name


def _others(leaf: Leaf) -> list[PictureRef]:
    """The text's own pictures of a step except the shown one, and those on the web."""
    return [
        one
        for one in leaf.text.pictures
        if one is not leaf.own and (leaf.own is not None if one.path else is_web(one.target))
    ]


def _illustrated(
    source: str, lines: Sequence[tuple[int, int] | None], board: Board, copies: dict[str, Path]
) -> str:
    """Insert the chosen pictures into a source, after the lines of their steps."""
    end = source.count("\n") + 1
    found = []
    for leaf, own in zip(leaves(board), lines, strict=True):
        found += [(own or (end, end), "\n".join(_picture(shown, copies))) for shown in _added(leaf)]
    return with_inserted(source, found, board.story.id)


def _anew(board: Board, copies: dict[str, Path]) -> str:
    """Write a text of another format as Markdown source with pictures inserted.

    The source can then be illustrated again. If its steps cannot be found in the source, pictures are placed
    next to the text of their steps.
    """
    story = board.story
    source = words_of(story, board, copies)
    due = [_told(step) for step in story.steps]
    for by in dict.fromkeys((None, story.by)):
        with suppress(DataError):
            steps = parse_story_report(source, format="markdown", by=by).story.steps
            if list(map(_told, steps)) == due:
                return _illustrated(source, [step.lines for step in steps], board, copies)
    return "\n".join(_lines(board, Plan(), copies))


def _told(step: Step) -> tuple[str, str]:
    """Letters and digits of a step."""
    return "".join(filter(str.isalnum, step.title)), "".join(filter(str.isalnum, step.text))


_TITLE = re.compile(r"(\s*\"?title\"?\s*[:=]\s*)(.*?)(,?\s*)", re.DOTALL)


def _titled(story: Story) -> str:
    """The author's source with the current title of its story."""
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
    """Notes for the user on the author's own source with inserted pictures."""
    lost = 0
    for leaf in leaves(board):
        own = [one for one in leaf.text.pictures if not one.problem and not is_web(one.target)]
        lost += sum(not _leads_to(one, out) for one in own)
        if own and leaf.pictures and leaf.step.origin != "given":
            yield f"{leaf.where} shows the text's own picture {own[0].target} next to the chosen one"
        elif own and leaf.picture is not None and leaf.picture.id in leaf.step.framing:
            yield f"{leaf.where} shows the text's own picture as the text does, without crop and new caption"
    lost += sum(not _leads_to(one, out) for part in board.story.between for one in part.pictures if one.path)
    refs = [one for step in board.story.steps for one in step.pictures]
    refs += [one for part in board.story.between for one in part.pictures]
    dead = list(dict.fromkeys(one.target for one in refs if one.problem == MISSING))
    if dead:
        named = ", ".join(dead[:5]) + ("…" if len(dead) > 5 else "")
        yield f"{counted(len(dead), 'picture')} of the text missing but still linked: {named}"
    if lost:
        yield (
            f"{counted(lost, 'picture')} of the text not found from here, by the names that the text has for"
            " them; put this file beside the text, or copy them"
        )


def _leads_to(picture: PictureRef, out: Path) -> bool:
    """Whether the name that the text uses for a picture also leads to it from the export."""
    return resolve_picture(picture.target, out.parent).path is not None


def _cleared(folder: Path, used: Set[Path], board: Board, *, remove: bool) -> Iterator[str]:
    """Other files in the folder of pictures; those of an earlier export may be removed."""
    others = sorted(one for one in folder.iterdir() if one not in used and one.resolve() not in used)
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
    """Whether an export wrote a file: its name contains the beginning of its SHA-256."""
    return (
        NAME.fullmatch(file.name) is not None
        and file.is_file()
        and not file.is_symlink()
        and sha256_of(file)[:8] == file.stem.rpartition("-")[2]
    )


# Characters with a meaning only at the start of a line: headings, quotations, lists, rules.
_START = re.compile(r"^(\d{1,9}(?=[.)])|)([-+#>=.)])")


def inline(text: str) -> str:
    """Text as CommonMark that renders as exactly this text on one line: no markup, no HTML, no entities."""
    return _START.sub(r"\1\\\2", _escaped(" ".join(carried(text).split())))


def _escaped(text: str) -> str:
    return re.sub(r"[\\`*_\[\]<|~$]|&(?=#?\w+;)", r"\\\g<0>", " ".join(text.split(" ")))


def _check_picture(file: Path, data: bytes, where: str) -> None:
    """Refuse a file that is not a picture, whatever the library states."""
    try:
        decode(data, side_px=1, suffix=file.suffix.lower())
    except PictureError as error:
        raise DataError(f"export: {where}: {file}: {error}; leave it out, or run 'limner index'") from error


def _place(source: _Source, folder: Path, board: Board) -> Path:
    """Write a scaled copy, or copy a file unchanged; returns its path.

    The name contains the hash, so that an existing copy is recognised and no other file is replaced.
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
    """Write a text that has no Markdown source, with the pictures of every step."""
    yield from _front(board.story, *_stated(board.story), board.story.author if plan.with_reasons else "")
    for piece in pieces_of(board, plan):
        if isinstance(piece, Leaf):
            yield from _step(piece, plan, copies)
        else:
            yield from _parts(piece, copies)
    if plan.with_reasons:
        yield from _ending(board, copies)


def _front(story: Story, title: str, language: str, byline: str = "") -> Iterator[str]:
    """Front matter: the text's metadata and its title."""
    stated = {"language": language, "dir": story.direction if language and story.direction == "rtl" else ""}
    if not byline:
        stated |= {"author": story.author, "illustrator": story.illustrator}
        stated |= {"license": story.license, "source": story.source}
    lines = [f"{name}: {json.dumps(value, ensure_ascii=False)}" for name, value in stated.items() if value]
    if lines:
        yield "\n".join(["---", *lines, "---", ""])
    if title.strip():
        yield f"# {inline(title)}\n"
    if byline.strip():
        yield f"*{inline(byline)}*\n"


def _stated(story: Story) -> tuple[str, str]:
    """Title and language of an export; an English text needs no language tag, and begins with its heading."""
    tag = language_of(story)
    main = tag.partition("-")[0]
    return story.title.strip() or story.id, tag if main.isalpha() and main.lower() != ENGLISH else ""


def words_of(story: Story, board: Board | None = None, copies: dict[str, Path] | None = None) -> str:
    """A story as Markdown with only its own pictures, to be edited and read again.

    Args:
        story: the text.
        board: its storyboard, which may contain crops and captions of the text's own pictures; None: they are
            shown unchanged.
        copies: copies of the text's own pictures; the others keep the names that the text uses.
    """
    steps = tuple(BoardStep(position=place, origin="blank") for place in range(len(story.steps)))
    plain = board or Board(story=story, steps=steps)
    title, language = (story.title, story.language) if board is None else _stated(story)
    found, made = copies or {}, list(_front(story, title, language))
    for piece in pieces_of(plain, Plan()):
        if not isinstance(piece, Leaf):
            made += _parts(piece, found)
            continue
        own = list(piece.text.pictures) if board is None else _others(piece)
        shown = list(piece.pictures[:1]) if piece.own else []
        pictures = ["\n".join(_picture(one, found, name=_name(one, piece))) + "\n" for one in shown]
        pictures += _parts([Part(pictures=tuple(own))], found) if own else []
        lost = [one for one in piece.text.pictures if one not in own and one is not piece.own]
        body = list(_parts([*piece.parts, *captions_of(lost)], found))
        made += _placed(piece, pictures, body)
    return "\n".join(made)


def without_pictures(story: Story) -> Story:
    """A story without the pictures of its text, whose captions become paragraphs."""
    steps = tuple(step.model_copy(update={"pictures": ()}) for step in story.steps)
    between = []
    for part in story.between:
        between += [
            part.model_copy(update={"kind": "paragraph", "text": said.text, "marks": (), "pictures": ()})
            for said in captions_of(part.pictures)
        ]
        between.append(part.model_copy(update={"pictures": ()}))
    return story.model_copy(update={"steps": steps, "between": tuple(between)})


def revised_source(revision: StoryRevision) -> str | None:
    """The author's Markdown with changed steps rewritten, each in its own lines.

    Args:
        revision: the revised story.
    Returns:
        The Markdown; None if the story was not Markdown, or if its lines do not allow the change.
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
        words = lines[start:stop] if not one.changed else _reset(one.step, story, layout, spans[beside])
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


def _reset(step: Step, story: Story, layout: Layout, span: tuple[int, int]) -> list[str]:
    """Lines of a step with new text, in the list or quotation of the given lines."""
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


def _ending(board: Board, copies: dict[str, Path]) -> Iterator[str]:
    """Credits, and how the storyboard was made."""
    yield "---\n"
    yield "## Pictures\n"
    for picture, steps in picture_credits(board):
        credit = f"{inline(credit_line(picture))} ({inline(file_name(picture))})"
        yield f"- {step_numbers(steps).capitalize()}: {credit}"
    yield "" if copies else "No step has a picture.\n"
    yield from (f"- {inline(line)}" for line in colophon(board.story))
    yield f"\n{inline(how_made(board))}\n"


def _step(leaf: Leaf, plan: Plan, copies: dict[str, Path]) -> Iterator[str]:
    """Write one step: its title, pictures and text, and its reasons if they are included."""
    credit = credit_line if plan.with_reasons else None
    pictures = [
        "\n".join(_picture(shown, copies, credit, name=_name(shown, leaf))) + "\n" for shown in leaf.pictures
    ]
    if plan.with_reasons and not pictures:
        pictures = [f"*No picture here. {inline(leaf.step.reason)}".rstrip() + "*\n"]
    body = list(_parts(leaf.body, copies))
    yield from _placed(leaf, pictures, body, with_reasons=plan.with_reasons)
    if plan.with_reasons:
        yield "\n".join(f"> - {inline(line)}" for line in leaf.why.lines()) + "\n"


def _placed(
    leaf: Leaf, pictures: Sequence[str], body: Sequence[str], *, with_reasons: bool = False
) -> Iterator[str]:
    """Title and text of a step, followed by its pictures, or preceded by them if reasons are included."""
    number = "" if leaf.number is None else str(leaf.number)
    title = inline(leaf.title)
    if title or with_reasons:
        yield f"{'#' * leaf.level} {' · '.join(filter(None, (number, title)))}\n"
    if number and not (title or with_reasons):
        # Inside the item, so that the list continues after the picture.
        mark = f"{number}. "
        lines = "\n".join([*body, *pictures]).split("\n")
        yield mark + "\n".join([lines[0], *(f"{' ' * len(mark)}{line}".rstrip() for line in lines[1:])])
    elif with_reasons:
        yield from (*pictures, *body)
    else:
        yield from (*body, *pictures)


def _picture(
    shown: ShownPicture,
    copies: dict[str, Path],
    credit: Callable[[Picture], str] | None = None,
    *,
    name: str = "",
) -> Iterator[str]:
    """Lines of a step's picture: the picture, and its caption or credit."""
    copy = copies[name or shown.name]
    yield f"![{inline(shown.alt)}]({quote(f'{copy.parent.name}/{copy.name}')})"
    if caption := shown.caption or (credit(shown.picture) if credit else ""):
        yield f"*{inline(caption)}*"


def _parts(parts: Sequence[Part], copies: dict[str, Path]) -> Iterator[str]:
    """Parts as CommonMark, each followed by an empty line, except within a list."""
    for part, after in zip(parts, [*parts[1:], Part()], strict=False):
        lines = []
        for one in part.pictures:
            caption = f"\n*{inline(one.caption)}*" if one.caption else ""
            lines.append(f"![{inline(one.alt)}]({_address(one, copies)}){caption}\n")
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
    """Text of one part."""
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
    """A passage as CommonMark, with escaped text, the author's formatting and line ends."""
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
