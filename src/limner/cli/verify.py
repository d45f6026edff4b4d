"""``limner verify``: checks limner's stored files against their checksums.

The kind of a folder is recognised by its files; everything is read once, and damaged files are listed with
advice.
"""

import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from limner.checksums import is_sealed, unseal, unseal_bytes
from limner.cli.main import Flag, emit_report, say
from limner.errors import DataError, LimnerError, counted
from limner.files import sha256_of
from limner.locations import on_this_machine
from limner.verification import (
    NOT_COVERED,
    Check,
    Checked,
    VerifyOptions,
    faulty,
    judged,
    read,
    registered,
    uncovered,
)

if TYPE_CHECKING:
    from limner.scale.library import PictureStore

TRASH = "trash"
"""Folder of deleted projects, in a folder of projects."""
CLEARED = "has a checksum, but does not exist; the current version of the table does not need it"
_ANEW = "run 'limner index', which creates it again"


def verify(*folders: Path, votes: str | None = None, repair: Flag = False, json: Flag = False) -> None:
    """Check limner's stored files for corruption: libraries, feature stores, runs, projects and studies.

    Every file that limner wrote to a folder is compared with the checksum recorded when it was written;
    damaged and missing files are listed. Files without a checksum are reported as not checked. Nothing is
    changed without --repair. The exit status is 1 if anything is damaged or missing.

    Example: limner verify lib

    Parameters
    ----------
    folders
        Folders of libraries, feature stores, runs, projects or studies, or folders that contain several of
        these. Default: the library: $LIMNER_LIBRARY; if unset, the one used last (see 'limner library').
    votes
        Database of a study's votes, if they are not in its folder.
    repair
        Remove damaged data that limner can create again: caches, rows of features, and vectors (run 'limner
        index' afterwards). Nothing else is touched.
    json
        Print the result as JSON.
    """
    if not folders:
        from limner.scale.library import library_to_search

        folders = (library_to_search(note=say),)
    for folder in folders:
        on_this_machine(folder, "the object store checks its own data")
    asked = VerifyOptions(repair=repair, votes=votes)
    found = [one for folder in folders for one in _of_folder(folder, asked)]
    told = [
        f"{one.path}: {one.state}: {one.advice}" for one in found if one.advice and one.advice != NOT_COVERED
    ]
    bare = [one.path for one in found if one.advice == NOT_COVERED]
    if bare:
        more = "; --json names them all" if len(bare) > 1 else ""
        told.append(f"{NOT_COVERED}: {counted(len(bare), 'file')}, such as {bare[0]}{more}")
    states = Counter(one.state for one in found)
    told.append(
        ", ".join(f"{count:,} {state}" for state, count in sorted(states.items())) or "nothing stored"
    )
    emit_report(found, told, as_json=json)
    wrong = [f"{counted(states[kind], 'file')} {kind}" for kind in ("damaged", "missing") if states[kind]]
    if wrong:
        raise DataError(f"{', '.join(wrong)}; see the lines above")


def _of_folder(folder: Path, asked: VerifyOptions) -> Iterator[Checked]:
    """Check everything in a folder, or in its subfolders that are of one kind.

    Raises:
        DataError: the folder contains no files of limner.
    """
    below = [*_inside(folder), *_inside(folder / TRASH)]
    some: Check | None = None
    for home in (folder, *below):
        checks = chain.from_iterable(kind() for kind in (lambda: PRODUCT, registered))
        own = next((check for check in ((some,) if some else checks) if check.recognises(home)), None)
        if own is None:
            continue
        found = list(own.states(home, asked))
        yield from found
        if own.whole:
            yield from uncovered(home, found)
        if home == folder:
            return
        some = own
    if some is None:
        kinds = [check.kind for check in (*PRODUCT, *registered())]
        raise DataError(f"{folder}: no {', '.join(kinds[:-1])} or {kinds[-1]}; name the folder of one")


def _inside(folder: Path) -> list[Path]:
    """Subfolders of a folder, sorted; none if the folder does not exist."""
    return sorted(one for one in folder.iterdir() if one.is_dir()) if folder.is_dir() else []


def _library(folder: Path, asked: VerifyOptions) -> Iterator[Checked]:
    from limner.scale.library import PictureStore
    from limner.scale.store import FILES, PICTURES, SETTINGS_FILE, read_settings, vectors_name
    from limner.scale.tables import MEND
    from limner.studio.pictures import cache_folder
    from limner.studio.projects import projects_places

    settings = read(folder / SETTINGS_FILE, lambda: read_settings(folder))
    yield settings
    broken = settings.state in ("damaged", "missing")
    library = None if broken else PictureStore.open(folder)
    if library is not None:
        vectors = [*map(vectors_name, library.settings.spaces)]
        for name in (FILES, PICTURES, *vectors):
            if not (folder / "tables" / f"{name}.lance").is_dir():
                advice = _ANEW if name in vectors else MEND
                yield judged(folder / "tables" / f"{name}.lance", False, advice)
    yield from _tables(folder, library, asked.repair)
    if library is not None:
        yield from _own_pictures(library)
        for path in sorted(cache_folder(library).rglob("[!.]*.webp")):
            yield _derived(path, _whole_copy, asked.repair)
    yield from _cache(folder / "cache", asked.repair)
    for path in sorted((*folder.glob("[!.]*.json"), *folder.glob("frames/*/*.json"))):
        if path.name != SETTINGS_FILE and is_sealed(path.read_bytes()):
            yield read(path, partial(unseal, path.read_bytes(), path, "its next use creates it again"))
    for projects in projects_places(folder):
        for project in (*_inside(projects), *_inside(projects / TRASH)):
            if _is_project(project):
                yield from _project(project, asked)


def _tables(folder: Path, library: "PictureStore | None", repair: bool) -> Iterator[Checked]:
    """Check the files of all tables.

    Args:
        folder: folder of the library.
        library: the open library; None if its settings are damaged, and nothing is repaired.
        repair: see `verify`.
    """
    from limner.scale.tables import MEND, NOTES, TableFiles

    spoilt: dict[str, list[str]] = {}
    for table in sorted((folder / "tables").glob("*.lance")):
        if table.is_symlink():
            yield judged(
                table, False, "a link, and links in a library's folder are not followed; put the table back"
            )
            continue
        try:
            states = list(TableFiles(folder / "tables", table.stem).states())
        except LimnerError as error:
            if not repair or library is None:
                yield faulty(table, error)
                continue
            with library.writing():
                (table / NOTES).unlink()
            told = "the next 'limner index' creates it again"
            yield Checked(path=str(table / NOTES), state="repaired", advice=told)
            continue
        yield judged(table / NOTES, (table / NOTES).is_file() or None, "")
        for path, state in states:
            if state is False:
                spoilt.setdefault(table.stem, []).append(str(path.relative_to(table)))
            else:
                yield judged(path, state, "" if path.exists() else CLEARED)
    for name, files in spoilt.items():
        path, which = folder / "tables" / f"{name}.lance", ", ".join(files)
        if not name.startswith("vectors_"):
            yield judged(path, False, f"{which}; {MEND}")
        elif repair and library is not None:
            with library.writing():
                shutil.rmtree(path)
                library.store.files(name).note()
            yield Checked(path=str(path), state="repaired", advice=_ANEW)
        else:
            yield judged(path, False, f"{which}; remove it with --repair, then {_ANEW}")


def _cache(cache: Path, repair: bool) -> Iterator[Checked]:
    """Check the files that were derived from the tables against the checksums that they contain."""
    from limner.scale.cache import MADE, is_whole

    if cache.is_symlink():  # links in a library's folder are not followed
        return
    for path in sorted(cache.glob("[!.]*")):
        if MADE.fullmatch(path.name) and not path.is_symlink():
            yield _derived(path, is_whole, repair)


def _own_pictures(library: "PictureStore") -> Iterator[Checked]:
    """Check uploaded pictures and frames of videos against their digests."""
    from limner.scale.store import FILES

    home = os.fsencode(library.folder.resolve()) + os.fsencode(os.sep)
    try:
        rows = list(library.store.rows(FILES, ["path_bytes", "sha256"], "status = 'ok'"))
    except LimnerError:  # reported for the table
        return
    for raw, digest in sorted(rows):
        if raw.startswith(home):
            path = Path(os.fsdecode(raw))
            try:
                sound = sha256_of(path) == digest
            except OSError:
                sound = False
            yield judged(path, sound, "restore it from a copy of the library, or upload it again")


def _derived(path: Path, whole: Callable[[Path], bool], repair: bool) -> Checked:
    """Check a cached file, which may be removed at any time."""
    try:
        if whole(path):
            return judged(path, True, "")
    except Exception:  # any error means damaged
        repair = repair and path.exists()
    if repair:
        path.unlink()
        return Checked(path=str(path), state="repaired", advice="its next use creates it again")
    return judged(path, False, "its next use, or --repair, creates it again")


def _whole_copy(path: Path) -> bool:
    return unseal_bytes(path.read_bytes()) is not None


def _is_project(folder: Path) -> bool:
    from limner.studio.projects import FILE, PARTS

    return (folder / FILE).is_file() or (folder / PARTS).is_dir()


def _project(folder: Path, _asked: VerifyOptions) -> Iterator[Checked]:
    """Check a project's file, and its texts, storyboards and pictures, named by their content."""
    from limner.studio.projects import FILE, PARTS, PICTURES, as_named, read_file

    shown: set[str] = set()

    def parts() -> None:
        for state in read_file(folder / FILE).states:
            shown.update((f"{state.text}.txt", f"{state.board}.json"))

    yield read(folder / FILE, parts)
    there = {part.name for part in (folder / PARTS).glob("[!.]*")}
    for name in sorted(shown | there):
        path = folder / PARTS / name
        sound = path.is_file() and as_named(path, path.read_bytes())
        yield judged(path, sound, "restore it from a copy of the project, or undo to an earlier text")
    for path in sorted((folder / PICTURES).glob("[!.]*")):
        yield judged(path, as_named(path, path.read_bytes()), "restore it from a copy of the project")


def _is_library(folder: Path) -> bool:
    from limner.scale.store import SETTINGS_FILE

    return (folder / SETTINGS_FILE).is_file() or (folder / "tables" / "pictures.lance").is_dir()


PRODUCT = (Check("library", _is_library, _library), Check("project", _is_project, _project))
