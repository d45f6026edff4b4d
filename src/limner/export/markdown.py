"""The storyboard as Markdown, with a folder of its pictures.

For editors who continue writing. A Markdown text stays the author's own source, with pictures inserted; any
other text is written as CommonMark.
"""

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import suppress
from pathlib import Path, PurePath
from urllib.parse import quote

from limner.errors import DataError, counted
from limner.export import Exported, Plan, is_picture
from limner.export.outline import Illustration, Outline
from limner.export.wording import credit_line, file_name, how_made, picture_credits, step_numbers
from limner.files import sha256_of, storing, write_bytes, write_text
from limner.records import Block, Board, PictureRef, Story
from limner.text.blocks import pictures_of
from limner.text.commonmark import inline
from limner.text.edit import FOLDER, NAME, retitled, with_pictures, written
from limner.text.picture_files import finder, is_web
from limner.text.read import read_text

OWN = "text"
"""Prefix of the name of a copy of the text's own picture, which limner did not insert."""
PLACE, COVER = "place", "cover"
"""Prefixes of the names of pictures that are the text's own from now on: in a marked place, or its cover."""
SHOWN_MM = (200.0, 150.0)
"""Maximum size of a picture: that of a page on a screen."""
_Copies = dict[tuple[str, str], Path]
"""Copy of a picture, by the path of its file and its crop area."""


def write(board: Board, out: Path, plan: Plan) -> Exported:
    """Write the text, and copy pictures to `<stem>_pictures/` beside it.

    Args:
        board: the storyboard.
        out: the .md file; the caller has made sure that it may be written. If it exists, pictures that only
            it used are removed.
        plan: options.

    Raises:
        DataError: a picture is missing, or a name in the folder belongs to another file.
    """
    outline, folder = Outline(board, plan, ".md"), out.with_name(out.stem + FOLDER)
    chosen = {panel.step.position: panel.plate[0] for panel in outline.panels if _is_added(panel.step.origin)}
    filled, cover = (
        outline.filled,
        outline.cover if board.cover is not None and board.settings.get("cover") else None,
    )
    figures = (
        {}
        if board.story.markdown
        else {one: outline.figures[one] for one in pictures_of(board.story.blocks) if one in outline.figures}
    )
    named = [(f"{place + 1:02d}", figure) for place, figure in chosen.items()]
    named += [(f"{PLACE}-{place + 1:02d}", figure) for place, figure in filled.items()]
    named += [] if cover is None else [(COVER, cover)]
    copies = _copied([*named, *((OWN, figure) for figure in figures.values())], folder, board)
    if board.story.markdown:
        story, warnings = _titled(board.story), list(_unfound(board.story, out))
    else:
        blocks = tuple(_with_copies(block, figures, copies) for block in board.story.blocks)
        story = board.story.model_copy(update={"blocks": blocks})
        warnings = outline.warnings
    shown = [story.blocks[story.steps[place].run[0]] for place in (*chosen, *filled)]
    if not (story.markdown and all(block.lines for block in shown)):
        story = written(story)
    lines = {place: _picture(figure, copies) for place, figure in chosen.items()}
    if plan.with_reasons:
        for panel in outline.panels:
            above = lines.get(panel.step.position, [])
            why = [f"> - {inline(line)}" for line in panel.why]
            lines[panel.step.position] = [*above, *[""] * bool(above), *why]
    places = {
        place: _picture(filled[place], copies)[0] if place in filled else None for place in story.places
    }
    text = with_pictures(story, lines, places, [] if cover is None else _picture(cover, copies))
    text += "".join(_ending(board, outline)) if plan.with_reasons else ""
    replaced = out.exists()
    write_text(out, text)
    pictures = tuple(dict.fromkeys(copies.values()))
    if folder.is_dir():
        refs = {Path(picture.path) for picture in pictures_of(story.blocks) if picture.path}
        warnings += _cleared(folder, {*pictures, *refs}, board, remove=replaced)
    return Exported(out, pictures, tuple(warnings))


def _is_added(origin: str) -> bool:
    """Whether a step shows a picture that its text does not show itself."""
    return origin in ("decoded", "pinned")


def _key(figure: Illustration) -> tuple[str, str]:
    return figure.path, repr(figure.crop)


def _copied(figures: Sequence[tuple[str, Illustration]], folder: Path, board: Board) -> _Copies:
    """Write scaled copies of pictures, each with a prefix of its name.

    The names contain the hash, so that an existing copy is recognised and no other file is replaced.
    """
    data: dict[tuple[str, str], tuple[Path, bytes]] = {}
    for prefix, figure in figures:  # everything is read before anything is written
        if _key(figure) not in data:
            content = figure.printed(*SHOWN_MM).data
            stem = re.sub(r"[^A-Za-z0-9]+", "-", PurePath(figure.path).stem).strip("-")[:48] or "picture"
            name = f"{prefix}-{stem}-{hashlib.sha256(content).hexdigest()[:8]}.jpg"
            data[_key(figure)] = folder / name, content
    if data and folder.exists() and not folder.is_dir():
        raise DataError(f"export: {folder} is a file, expected a folder for pictures; move it")
    with storing(folder):
        folder.mkdir(exist_ok=True) if data else None
    for target, content in data.values():
        if target.exists():
            if not (target.is_file() and target.read_bytes() == content):
                raise DataError(f"export: {target} exists with another content; move it away")
        elif is_picture(target, board) is not None:
            raise DataError(f"export: {target} is a picture of the collection; name another output")
        else:
            write_bytes(target, content)
    return {key: target for key, (target, _) in data.items()}


def _titled(story: Story) -> Story:
    """A Markdown text whose source states its current title."""
    before = story.title
    with suppress(DataError):
        before = read_text(story.markdown, format="markdown").story.title
    return retitled(story, story.title, before) if story.title.strip() and before != story.title else story


def _with_copies(block: Block, figures: Mapping[PictureRef, Illustration], copies: _Copies) -> Block:
    """A block whose pictures are copies; those that are not files stay links, or are left out."""
    pictures = []
    for picture in block.pictures:
        if figure := figures.get(picture):
            update = {"target": _address(copies[_key(figure)]), "alt": figure.alt, "caption": figure.caption}
            pictures.append(picture.model_copy(update=update))
        elif is_web(picture.target):
            pictures.append(picture)
    return block.model_copy(update={"pictures": tuple(pictures)})


def _address(copy: Path) -> str:
    return quote(f"{copy.parent.name}/{copy.name}")


def _picture(figure: Illustration, copies: _Copies) -> list[str]:
    """Lines of a chosen picture: the picture, and its caption."""
    caption = [f"*{inline(figure.caption)}*"] if figure.caption else []
    return [f"![{inline(figure.alt)}]({_address(copies[_key(figure)])})", *caption]


def _ending(board: Board, outline: Outline) -> Iterator[str]:
    """Credits of the pictures, and how the storyboard was made."""
    yield "\n---\n\n"
    for picture, steps in picture_credits(board):
        credit = f"{inline(credit_line(picture))} ({inline(file_name(picture))})"
        yield f"- {step_numbers(steps).capitalize()}: {credit}\n"
    yield from (f"- {inline(line)}\n" for line in outline.colophon)
    yield f"\n{inline(how_made(board))}\n"


def _unfound(story: Story, out: Path) -> Iterator[str]:
    """Notes on pictures of a Markdown text that its source names, but that are not found from the export."""
    find = finder(out.parent)
    refs = {ref.target: ref for ref in pictures_of(story.blocks) if not is_web(ref.target)}
    missing = [target for target, ref in refs.items() if not (ref.path or ref.data)]
    lost = [target for target, ref in refs.items() if ref.path and not find(target, "").path]
    for targets, what in (
        (missing, "missing but still linked"),
        (lost, "not found from here; put this file beside the text, or copy them"),
    ):
        if targets:
            names = ", ".join(targets[:5]) + ("…" if len(targets) > 5 else "")
            yield f"{counted(len(targets), 'picture')} of the text {what}: {names}"


def _cleared(folder: Path, used: Set[Path], board: Board, *, remove: bool) -> Iterator[str]:
    """Other files in the folder of pictures; those of an earlier export may be removed."""
    others = sorted(file for file in folder.iterdir() if used.isdisjoint((file, file.resolve())))
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
