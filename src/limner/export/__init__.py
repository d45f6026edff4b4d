"""Exports of a storyboard: one function, the format taken from the file's suffix.

Formats load their libraries when they are used, so importing this costs nothing. It reads
pictures and writes only what it is told to; it decides nothing about the storyboard.
"""

from importlib import import_module
from pathlib import Path

from limner.errors import ConfigError, DataError, unknown
from limner.export.plan import LAYOUTS, PAGED, Plan
from limner.export.storyboard_json import load, schema
from limner.export.targets import Exported, check_target, pictures_of
from limner.records import Board

__all__ = ["LAYOUTS", "PAGED", "SUFFIXES", "Exported", "Plan", "check", "export", "load", "schema"]

WRITERS = {
    ".html": "html",
    ".pdf": "pdf",
    ".docx": "docx",
    ".epub": "epub",
    ".pptx": "slides",
    ".md": "markdown",
    ".json": "storyboard_json",
}
"""Suffix → module of this room whose `write` takes a storyboard and a file."""
SUFFIXES = tuple(WRITERS)


def check(out: Path) -> str:
    """The format of an output file, for refusing a wrong one before any work is done.

    Args:
        out: the file to be written.
    Returns:
        its suffix in lower case, one of `SUFFIXES`.
    Raises:
        ConfigError: an unknown suffix, or none.
    """
    suffix = out.suffix.lower()
    if suffix not in SUFFIXES:
        raise ConfigError(f"export: {out}: {unknown('output format', suffix, SUFFIXES)}")
    return suffix


def export(board: Board, out: Path, *, overwrite: bool = False, plan: Plan | None = None) -> Exported:
    """Write a storyboard as a page, text, document, book, slides or PDF, whole or not at all.

    Args:
        board: the storyboard.
        out: the file; its suffix names the format.
        overwrite: whether an existing file may be replaced.
        plan: what is in it and how it looks; None for the defaults. JSON holds everything, whatever it says.

    Returns:
        what was written, with warnings.

    Raises:
        ConfigError: an unknown suffix, or a layout or page size that the format does not have.
        DataError: `out` is a folder, exists without `overwrite` or is one of the pictures; the
            storyboard's steps are not those of its story; a picture is not there or unreadable.
        MissingError: the folder of `out` does not exist.
    """
    out = Path(out)
    plan = plan or Plan()
    suffix = check(out)
    plan.check(suffix)
    positions, due = [step.position for step in board.steps], list(range(len(board.story.steps)))
    if positions != due:
        raise DataError(
            f"export: the storyboard has steps {positions}, expected {due}, those of its story, in order"
        )
    for picture in pictures_of(board):
        if not picture.paths:
            raise DataError(
                f"export: picture {picture.id[:12]} has no file; run 'limner index' and illustrate again"
            )
    check_target(board, out, overwrite=overwrite)
    written: Exported = import_module(f"limner.export.{WRITERS[suffix]}").write(board, out, plan)
    return written
