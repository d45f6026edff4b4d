"""The storyboard as Markdown beside a folder of copied pictures.

For editors who go on writing: plain CommonMark, relative links, and the original files byte for byte.
Texts are escaped so that nothing in them turns into markup; pictures are never scaled here.
"""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

from limner.errors import DataError
from limner.export.leaf import Leaf, leaves
from limner.export.targets import Exported, is_picture, whole
from limner.export.wording import credit_line, file_name, picture_credits, step_numbers, story_credits
from limner.files import sha256_of, write_text
from limner.language import ENGLISH
from limner.pictures.thumbnails import changed, locate
from limner.records import Storyboard
from limner.templates import carried, forbidden

FOLDER = "_pictures"


def write(board: Storyboard, out: Path) -> Exported:
    """Write the text and copy the chosen pictures to `<stem>_pictures/` beside it.

    Args:
        board: the storyboard.
        out: the .md file; checked by the caller.
    Raises:
        DataError: a picture is not there, or a name in the folder is taken by another file.
    """
    folder = out.with_name(out.stem + FOLDER)
    warnings = list(forbidden(board.story))
    # The first step that shows each picture and its file, all looked up before anything is written.
    sources: dict[str, tuple[Leaf, Path]] = {}
    for leaf in leaves(board):
        if leaf.picture is not None and leaf.picture.id not in sources:
            sources[leaf.picture.id] = leaf, locate(leaf.picture, leaf.where)
    if sources:
        if folder.exists() and not folder.is_dir():
            raise DataError(
                f"export: {folder} is a file, expected a folder for pictures; move it or name another output"
            )
        folder.mkdir(exist_ok=True)
    copies: dict[str, Path] = {}
    for identity, (leaf, source) in sources.items():
        copies[identity], fresh = _copy(source, folder, leaf.number, board)
        if fresh != identity:
            warnings.append(changed(source, leaf.where))
    pictures = tuple(dict.fromkeys(copies.values()))
    left = len(set(folder.iterdir()) - set(pictures)) if folder.is_dir() else 0
    if left:
        warnings.append(f"{folder.name} holds {left} other file{'s' if left > 1 else ''}, left as found")
    write_text(out, "\n".join(_lines(board, copies)))
    return Exported(out, pictures, tuple(warnings))


def inline(text: str) -> str:
    """Text as CommonMark that reads as exactly this text on one line: no markup, no HTML, no entities."""
    flat = " ".join(carried(text).split())
    escaped = re.sub(r"[\\`*_\[\]<|~$]|&(?=#?\w+;)", r"\\\g<0>", flat)
    # What means something only at the start of a line: headings, quotes, lists, rules.
    return re.sub(r"^(\d{1,9}(?=[.)])|)([-+#>=.)])", r"\1\\\2", escaped)


def _copy(source: Path, folder: Path, number: int, board: Storyboard) -> tuple[Path, str]:
    """Copy one picture; returns the copy and the SHA-256 of what was copied.

    The hash is in the name, so that a copy made before is recognised and nothing else is replaced.
    """
    content = sha256_of(source)
    stem = re.sub(r"[^A-Za-z0-9]+", "-", source.stem).strip("-")[:48] or "picture"
    suffix = source.suffix.lower() if re.fullmatch(r"\.[A-Za-z0-9]{1,8}", source.suffix) else ""
    target = folder / f"{number:02d}-{stem}-{content[:8]}{suffix}"
    if target.exists():
        if target.is_file() and sha256_of(target) == content:
            return target, content
        raise DataError(f"export: {target} exists with another content; move it away or name another output")
    if is_picture(target, board) is not None:
        raise DataError(f"export: {target} is a picture of the collection; name another output")
    with whole(target) as draft:
        shutil.copyfile(source, draft)
        if sha256_of(draft) != content:
            raise DataError(f"export: {source} changed while it was copied; try again")
    return target, content


def _lines(board: Storyboard, copies: dict[str, Path]) -> Iterator[str]:
    story = board.story
    tag = story.language.partition("-")[0].lower()
    # CommonMark itself has no place for it; an English text needs none, and keeps its first line a heading.
    if tag.isalpha() and tag != ENGLISH:
        yield f"---\nlanguage: {inline(story.language)}\ndir: {story.direction}\n---\n"
    yield f"# {inline(story.title.strip() or story.id)}\n"
    if story.author.strip():
        yield f"*{inline(story.author)}*\n"
    for leaf in leaves(board):
        title = inline(leaf.text.title)
        yield f"## {leaf.number}{f' · {title}' if title else ''}\n"
        if leaf.picture is not None:
            copy = copies[leaf.picture.id]
            yield f"![{inline(leaf.alt)}]({quote(f'{copy.parent.name}/{copy.name}')})\n"
            yield f"*{inline(leaf.credit)}*\n"
        else:
            yield f"*No picture here. {inline(leaf.step.reason)}".rstrip() + "*\n"
        for paragraph in leaf.paragraphs:
            lines = [inline(line) for line in paragraph.split("\n") if line.strip()]
            yield "\\\n".join(lines) + "\n"
        yield "\n".join(f"> - {inline(line)}" for line in leaf.why.lines()) + "\n"
    yield "---\n"
    yield "## Pictures\n"
    for picture, steps in picture_credits(board):
        credit = f"{inline(credit_line(picture))} ({inline(file_name(picture))})"
        yield f"- {step_numbers(steps).capitalize()}: {credit}"
    if not copies:
        yield "No step has a picture."
    yield ""
    for name, value in story_credits(story):
        yield f"- {name}: {inline(value)}"
    made = f"limner {board.version}".strip()
    yield f"\nPictures chosen with {inline(made)}, decoder {inline(board.decoder)}.\n"
