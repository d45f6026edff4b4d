"""``limner library``: shows where the library is and its contents."""

from pathlib import Path

from limner.cli.main import Flag, emit, emit_json, say
from limner.errors import counted


def library(*, library: Path | None = None, json: Flag = False) -> None:
    """Show where the library is and what it contains.

    A command without --library uses $LIMNER_LIBRARY; if that is unset, the library that a command used last;
    if there is none, the default library in your data folder. 'limner index' is different: it never uses the
    library used last, only $LIMNER_LIBRARY or the default library.

    Example: limner library

    Parameters
    ----------
    library
        Path or URL of the library. Default: the one that other commands would use.
    json
        Print the result as JSON.
    """
    from limner.library import Library

    opened = Library.open(library, note=say)
    holds = opened.summary()
    if json:
        emit_json({"library": opened.place, **holds.model_dump()})
        return
    gone = f", {counted(holds.skipped, 'file')} skipped" if holds.skipped else ""
    emit(f"library: {opened.place}")
    emit(f"pictures: {holds.pictures:,}, of which {holds.captioned:,} with captions{gone}")
    for source in holds.sources:
        emit(f"indexed: {source}")
    for space, vectors in holds.vectors.items():
        emit(f"vectors: {vectors:,} in the space {space}, by the encoder {holds.spaces[space].encoder}")
