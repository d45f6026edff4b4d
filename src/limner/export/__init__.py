"""Exports of a storyboard: one function, with the format given by the file's extension.

A format's libraries are loaded when it is used, so importing this package is cheap. It reads pictures and
writes only the requested files; it decides nothing about the storyboard.
"""

from importlib import import_module
from pathlib import Path

from limner.errors import ConfigError, DataError, unknown
from limner.export.plan import LAYOUTS, PAGED, Exported, Plan, check_target, pictures_of
from limner.export.storyboard_json import load, schema
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
