"""Exports a storyboard. There is one function for all formats; the file's extension selects the format.

All formats share one outline of the text (`limner.export.outline`) and the options `Plan`; the layouts of
each format are listed here. A target is checked here, so that no export overwrites a picture of the
collection. The code of a format is loaded when it is used.
"""

import io
import os
import tempfile
import zipfile
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

from limner.errors import ConfigError, DataError, MissingError, counted, unknown
from limner.files import write_bytes
from limner.records import Board, Picture, Story

if TYPE_CHECKING:
    from docx.document import Document
    from pptx.presentation import Presentation

Layout = Literal["book", "recipe", "article", "slides"]
PageSize = Literal["a4", "a5", "letter"]

SIZES_MM: dict[PageSize, tuple[float, float]] = {
    "a4": (210.0, 297.0),
    "a5": (148.0, 210.0),
    "letter": (215.9, 279.4),
}
"""Width and height in mm of the upright page, by page size."""

LAYOUTS: dict[str, tuple[Layout, ...]] = {
    ".html": get_args(Layout),
    ".pdf": get_args(Layout),
    ".docx": ("book", "recipe", "article"),
    ".epub": ("book", "recipe", "article"),
    ".pptx": ("slides",),
    ".md": (),
    ".json": (),
}
"""Layouts of each format, by extension; the first is used if none suits the text."""

PAGED = (".html", ".pdf", ".docx", ".pptx")
"""Extensions of the formats with a page size."""

PAGE_WORDS = 70
"""Mean number of words per step up to which a text without headings is treated as a picture book."""

FEW_STEPS = 6
"""Number of steps of a recipe up to which pictures get half of the page's width; above it they get a little
more than a third.
"""

DPI = 300
"""Resolution in dots per inch of pictures at their printed size."""


@dataclass(frozen=True)
class Plan:
    """Options of one export.

    Attributes:
        layout: layout of text and pictures; None chooses it from the text.
        page_size: page size, for formats with pages; None for A4, or for slides a wide screen.
        with_reasons: whether to include the reason for each choice.
    """

    layout: Layout | None = None
    page_size: PageSize | None = None
    with_reasons: bool = False

    def check(self, suffix: str) -> None:
        """Reject options that a format does not have.

        Args:
            suffix: suffix of the format, such as .pdf.
        Raises:
            ConfigError: an option is unknown, or the format does not have that layout or page size.
        """
        if self.layout not in (None, *get_args(Layout)):
            raise ConfigError(f"export: {unknown('layout', str(self.layout), get_args(Layout))}")
        if self.page_size not in (None, *SIZES_MM):
            raise ConfigError(f"export: {unknown('page size', str(self.page_size), SIZES_MM)}")
        if self.layout is not None and self.layout not in LAYOUTS[suffix]:
            having = [each for each, layouts in LAYOUTS.items() if self.layout in layouts]
            raise ConfigError(
                f"export: {suffix} has no layout {self.layout};"
                f" expected {' or '.join(LAYOUTS[suffix]) or 'none'}; {', '.join(having)} have it"
            )
        if self.page_size is not None and suffix not in PAGED:
            raise ConfigError(f"export: {suffix} has no pages; leave the page size out")

    def layout_for(self, story: Story, suffix: str) -> Layout:
        """Chosen layout, or the format's layout that suits the text best."""
        suited = self.layout or suited_to(story)
        return suited if suited in LAYOUTS[suffix] else next(iter(LAYOUTS[suffix]), suited)

    def page_mm(self) -> tuple[float, float]:
        """Width and height of a page, upright."""
        return SIZES_MM[self.page_size or "a4"]


def picture_share(story: Story) -> float:
    """Share of a page's width for pictures next to the steps of a recipe."""
    return 0.5 if len(story.steps) <= FEW_STEPS else 0.37


def suited_to(story: Story) -> Layout:
    """Layout of a text: recipe for supplies or numbered steps, article for headings, otherwise book."""
    first = [story.blocks[step.run[0]] for step in story.steps]
    if any(block.role == "supplies" for block in story.blocks) or any(one.number for one in first):
        return "recipe"
    words = sum(len(step.text.split()) for step in story.steps)
    titled = bool(story.places) or any(block.kind == "heading" for block in story.blocks)
    return "article" if titled or words > PAGE_WORDS * len(story.steps) else "book"


@dataclass(frozen=True)
class Exported:
    """Result of an export.

    Attributes:
        path: the file.
        pictures: copies of pictures next to it (Markdown only), in order of use.
        warnings: notes on the content of the file, one line each.
    """

    path: Path
    pictures: tuple[Path, ...] = ()
    warnings: tuple[str, ...] = ()


def pictures_of(board: Board) -> list[Picture]:
    """Every picture of a storyboard: chosen ones and runners-up, with repeats."""
    chosen = [step.chosen for step in board.steps if step.chosen is not None]
    others = [candidate for step in board.steps for candidate in step.runners_up]
    return [candidate.picture for candidate in (*chosen, *others)]


def is_picture(target: Path, board: Board) -> str | None:
    """Path of the storyboard's picture that writing a target would overwrite, or None.

    Args:
        target: a file, which need not exist; links are followed.
        board: the storyboard; all paths of its pictures are compared.
    """
    real = Path(os.path.realpath(target))
    for path in (path for picture in pictures_of(board) for path in picture.paths):
        other = Path(os.path.realpath(path))
        if other == real or (real.exists() and other.exists() and other.samefile(real)):
            return path
    return None


def check_place(out: Path, *, overwrite: bool) -> None:
    """Reject a target that cannot or must not be written.

    Args:
        out: the file to write.
        overwrite: whether an existing file may be replaced.
    Raises:
        DataError: a folder, an existing file without `overwrite`, or in a folder that cannot be written to.
        MissingError: its folder does not exist.
    """
    if out.is_dir():
        raise DataError(f"export: {out} is a folder, expected a file name; name a file inside it")
    if not out.parent.is_dir():
        raise MissingError(f"export: the folder {out.parent} does not exist; create it or name another place")
    if out.exists() and not overwrite:
        raise DataError(f"export: {out} exists already; name another file, or pass --overwrite to replace it")
    try:
        with tempfile.TemporaryFile(dir=out.parent):
            pass
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise DataError(f"export: cannot write in {out.parent} ({reason}); name another place") from None


def made_at() -> datetime:
    """Time of an export, or $SOURCE_DATE_EPOCH if set, so that equal exports are equal files.

    Raises:
        ConfigError: $SOURCE_DATE_EPOCH is not a number of seconds.
    """
    stated = os.environ.get("SOURCE_DATE_EPOCH", "")
    if not stated:
        return datetime.now(UTC)
    try:
        return datetime.fromtimestamp(int(stated), UTC)
    except (ValueError, OverflowError, OSError):
        raise ConfigError(
            f"SOURCE_DATE_EPOCH is {stated!r}, expected seconds since 1970, such as 1700000000; unset it"
        ) from None


def packed(archive: io.BytesIO, at: datetime) -> bytes:
    """Rewrite a ZIP file so that all members have the same date.

    Args:
        archive: the file as written by another library, where each member has the time of writing.
        at: the date; ZIP has none before 1980.
    """
    made, date = io.BytesIO(), max(at.timetuple()[:6], (1980, 1, 1, 0, 0, 0))
    with zipfile.ZipFile(archive) as old, zipfile.ZipFile(made, "w") as new:
        for member in old.infolist():
            new.writestr(zipfile.ZipInfo(member.filename, date), old.read(member), member.compress_type)
    return made.getvalue()


def put_office(out: Path, file: "Document | Presentation", **properties: str) -> None:
    """Write a Word document or slides, with properties such as title and author, and its date."""
    # otherwise the libraries state those of their own templates of 2013, with their author
    stated, now = file.core_properties, made_at()
    stated.created = stated.modified = now
    for name, value in {"last_modified_by": "", "comments": "", **properties}.items():
        setattr(stated, name, value[:255])
    archive = io.BytesIO()
    file.save(archive)
    write_bytes(out, packed(archive, now))


_MODULES = ("html", "pdf", "docx", "epub", "slides", "markdown", "storyboard_json")
WRITERS = dict(zip(LAYOUTS, _MODULES, strict=True))
"""Module of this package by extension; its `write` exports a storyboard to a file."""
SUFFIXES = tuple(WRITERS)


def check(out: Path) -> str:
    """Check the format of an output file before any work is done.

    Args:
        out: the file to be written.
    Returns:
        Its extension in lower case, one of `SUFFIXES`.
    Raises:
        ConfigError: the extension is unknown or missing.
    """
    suffix = out.suffix.lower()
    if suffix not in SUFFIXES:
        raise ConfigError(f"export: {out}: {unknown('output format', suffix, SUFFIXES)}")
    return suffix


def export(board: Board, out: Path, *, overwrite: bool = False, plan: Plan | None = None) -> Exported:
    """Write a storyboard as a page, text, document, book, slides or PDF, atomically.

    Args:
        board: the storyboard.
        out: the file; its extension gives the format.
        overwrite: whether an existing file may be replaced.
        plan: content and layout; None for the defaults. JSON always contains everything.

    Returns:
        Path of the file, with warnings.

    Raises:
        ConfigError: the extension is unknown, or the format does not have that layout or page size.
        DataError: `out` is a folder, exists without `overwrite` or is one of the pictures; the storyboard's
            steps are not those of its story; a picture is missing or unreadable.
        MissingError: the folder of `out` does not exist.
    """
    out = Path(out)
    plan = plan or Plan()
    suffix = check(out)
    plan.check(suffix)
    positions, due = [step.position for step in board.steps], [*range(len(board.story.steps))]
    if positions != due:
        raise DataError(f"export: the storyboard has steps {positions}, expected {due}, those of its story")
    if not all(picture.paths for picture in pictures_of(board)):
        raise DataError("export: a picture has no file; run 'limner index' and illustrate again")
    if clash := is_picture(out, board):
        raise DataError(f"export: {out} is the picture {clash} of the collection; name another file")
    check_place(out, overwrite=overwrite)
    written: Exported = import_module(f"limner.export.{WRITERS[suffix]}").write(board, out, plan)
    shown, weak = sum(step.picture is not None for step in board.steps), len(board.weak)
    if 2 * weak <= shown or suffix == ".json":
        return written
    note = f"{weak} of {counted(shown, 'picture')} are weak matches; look at them before you publish"
    return replace(written, warnings=(*written.warnings, note))
