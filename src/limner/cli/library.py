"""``limner library``: shows where the library is and its contents."""

from pathlib import Path

from limner.cli.main import Flag, emit, emit_json, say
from limner.errors import ConfigError, DataError, counted


def library(
    *, library: Path | None = None, check: Flag = False, anew: Flag = False, json: Flag = False
) -> None:
    """Show where the library is and what it contains.

    A command without --library uses $LIMNER_LIBRARY; if that is unset, the library that a command used last;
    if there is none, the default library in your data folder. 'limner index' is different: it never uses the
    library used last, only $LIMNER_LIBRARY or the default library.

    Example: limner library

    Parameters
    ----------
    library
        Path or URL of the library. Default: the one that other commands would use.
    check
        Check the library's files, and that the indexed pictures are still there; exits with 1 if something is
        wrong.
    anew
        Remove everything that can be computed from the pictures. What you wrote, your projects and uploads
        stay; run 'limner index' on your folders afterwards.
    json
        Print the result as JSON.
    """
    if check and anew:
        raise ConfigError("library: --check or --anew, not both")
    if check or anew:
        _keep_house(library, anew=anew, as_json=json)
        return
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


def _keep_house(library: Path | None, *, anew: bool, as_json: bool) -> None:
    """Check a library, or remove what can be computed.

    Raises:
        DataError: something is wrong, or it is no library in a folder.
    """
    from limner.library import library_to_search
    from limner.store.database import check, remove_computed

    place = library_to_search(library, say)
    if anew:
        gone = remove_computed(place)
        emit_json({"removed": gone}) if as_json else emit(f"removed from {place}: {', '.join(gone)}")
        return
    problems = list(check(place))
    if as_json:
        emit_json({"problems": [one.model_dump() for one in problems]})
    for one in problems if not as_json else ():
        emit(f"{one.path}: {one.reason}")
    if problems:
        raise DataError(f"{place}: {counted(len(problems), 'problem')} found, see above")
    if not as_json:
        emit(f"{place}: nothing wrong")
