"""``limner verify``: is what limner stored still as it was written?

It tells what a folder is by what lies in it, reads everything once, and names what is damaged and what to do.
"""

import shutil
import sqlite3
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Literal

import numpy as np

from limner.checksums import is_sealed
from limner.cli.terminal import Flag, emit_report
from limner.counts import counted
from limner.errors import ConfigError, DataError, LimnerError, LimnerWarning
from limner.records import Record

State = Literal["sound", "no checksum", "damaged", "repaired"]


class Checked(Record):
    """One file or table.

    Attributes:
        path: of it.
        state: what was found, and done.
        advice: what to do, of what is damaged or was repaired.
    """

    path: str
    state: State
    advice: str = ""


def verify(*folders: Path, repair: Flag = False, json: Flag = False) -> None:
    """Look for damage in libraries, feature stores, runs, projects and studies; nothing is changed.

    Every folder is told by what lies in it. What was stored by an older version without checksums is said to
    be so. The command ends with status 1 if anything is damaged.

    Example: limner verify lib

    Parameters
    ----------
    folders
        Of a library, a feature store or several, a run, a project or several, or a study.
    repair
        Take out what limner can make again: caches, rows of features, and vectors, which 'limner index' makes
        anew. Nothing else is touched.
    json
        Print what was found as JSON.
    """
    if not folders:
        raise ConfigError("verify: no folder given; example: limner verify lib")
    found = [one for folder in folders for one in _of_folder(folder, repair)]
    told = [f"{one.path}: {one.state}; {one.advice}" for one in found if one.advice]
    states = Counter(one.state for one in found)
    told.append(
        ", ".join(f"{count:,} {state}" for state, count in sorted(states.items())) or "nothing stored"
    )
    emit_report(found, told, as_json=json)
    if states["damaged"]:
        raise DataError(f"{counted(states['damaged'], 'file')} damaged; see the lines above")


def _of_folder(folder: Path, repair: bool) -> Iterator[Checked]:
    """Everything in a folder.

    Raises:
        DataError: nothing in it is limner's.
    """
    kinds = {
        "library.json": _library,
        "key.json": _features,
        "best.safetensors": _run,
        "resume.safetensors": _run,
        "project.json": _project,
        "study.json": _study,
    }
    below = sorted(folder.iterdir()) if folder.is_dir() else []
    for home in (folder, *(one for one in below if one.is_dir())):
        own = next((kind for name, kind in kinds.items() if (home / name).is_file()), None)
        if own is not None:
            yield from own(home, repair)
            if home == folder:
                return
            kinds = {name: kind for name, kind in kinds.items() if kind is own}
    if len(kinds) == 6:
        raise DataError(f"{folder}: no library, feature store, run, project or study; name the folder of one")


def _told(path: Path, error: Exception) -> Checked:
    reason = " ".join(str(error).split()).removeprefix(f"{path}: ")
    return Checked(path=str(path), state="damaged", advice=reason)


def _library(folder: Path, repair: bool) -> Iterator[Checked]:
    from limner.library.library import Library
    from limner.library.store import SETTINGS_FILE, read_settings

    settings = folder / SETTINGS_FILE
    try:
        read_settings(folder)
        yield Checked(
            path=str(settings), state="sound" if is_sealed(settings.read_bytes()) else "no checksum"
        )
    except LimnerError as error:
        yield _told(settings, error)
        return
    library = Library.open(folder)
    spoilt = []
    for table in sorted((folder / "tables").glob("*.lance")):
        try:
            states = list(library.store.files(table.stem).states())
        except LimnerError as error:
            yield _told(table, error)
            continue
        for path, state in states:
            if state is False:
                spoilt.append(table.stem)
            else:
                yield Checked(path=str(path), state="sound" if state else "no checksum")
    for name in dict.fromkeys(spoilt):
        path = folder / "tables" / f"{name}.lance"
        if not name.startswith("vectors_"):
            advice = "put the library back from a backup, or index again into a new folder"
            yield Checked(path=str(path), state="damaged", advice=advice)
        elif repair:
            with library.writing():
                shutil.rmtree(path)
                library.store.files(name).note()
                shutil.rmtree(folder / "cache" / name.removeprefix("vectors_"), ignore_errors=True)
            yield Checked(path=str(path), state="repaired", advice="run 'limner index', which makes it anew")
        else:
            yield Checked(
                path=str(path), state="damaged", advice="--repair, then 'limner index' make it anew"
            )
    for path in sorted((folder / "cache").rglob("[!.]*.npy")):
        yield _cached(path, repair)


def _cached(path: Path, repair: bool) -> Checked:
    """A file of the cache, which may be removed at any time."""
    from limner.library.blocks import Blocks

    try:
        with warnings.catch_warnings(), path.open("rb") as file:
            warnings.simplefilter("error", LimnerWarning)
            np.lib.format.read_magic(file)
            shape, _, kind = np.lib.format.read_array_header_1_0(file)
            Blocks.opened(path, shape, kind.type, "r", None)
        return Checked(path=str(path), state="sound")
    except Exception:  # whatever is wrong with it
        if repair:
            path.unlink()
            return Checked(path=str(path), state="repaired", advice="the next search makes it again")
        return Checked(path=str(path), state="damaged", advice="the next search, or --repair, makes it again")


def _features(folder: Path, repair: bool) -> Iterator[Checked]:
    from limner.datasets import features

    path = folder / features.ROWS
    try:
        held = features.opened(folder)
        wrong = held.damaged(np.arange(len(held.stored)))
        state: State = "sound" if held.sums is not None else "no checksum"
    except LimnerError as error:
        yield _told(path, error)
        return
    if not wrong:
        yield Checked(path=str(path), state=state)
        return
    what = f"{counted(len(wrong), 'row')}, the first of picture {held.ids[wrong[0]]!r}"
    if repair:
        left = features.repair(folder)
        advice = f"{what}; {counted(left, 'row')} kept, the next run extracts the others again"
        yield Checked(path=str(path), state="repaired", advice=advice)
    else:
        advice = f"{what}; --repair takes them out, and the next run extracts them again"
        yield Checked(path=str(path), state="damaged", advice=advice)


def _run(folder: Path, _repair: bool) -> Iterator[Checked]:
    from limner.training import checkpoint

    for path in sorted(folder.glob("*.safetensors")):
        if path.name not in ("best.safetensors", "resume.safetensors"):
            continue
        try:
            checkpoint.load(path)
            state: State = "sound" if checkpoint.has_checksum(path) else "no checksum"
            yield Checked(path=str(path), state=state)
        except LimnerError as error:
            yield _told(path, error)


def _project(folder: Path, _repair: bool) -> Iterator[Checked]:
    from limner.studio.projects import FILE, PARTS, Projects, as_named

    path = folder / FILE
    try:
        Projects(folder.parent).read(folder.name)
        yield Checked(path=str(path), state="sound" if is_sealed(path.read_bytes()) else "no checksum")
    except LimnerError as error:
        yield _told(path, error)
    for part in sorted((folder / PARTS).glob("[!.]*")):
        if as_named(part, part.read_bytes()):
            yield Checked(path=str(part), state="sound")
        else:
            yield Checked(path=str(part), state="damaged", advice="put it back from a copy of the project")


def _study(folder: Path, _repair: bool) -> Iterator[Checked]:
    from limner.study.records import read_study

    try:
        read_study(folder)
        yield Checked(path=str(folder / "study.json"), state="sound")
    except LimnerError as error:
        yield _told(folder / "study.json", error)
    votes = folder / "votes.sqlite"
    if votes.is_file():
        try:
            with closing(sqlite3.connect(f"{votes.absolute().as_uri()}?mode=ro", uri=True)) as base:
                said = base.execute("PRAGMA integrity_check").fetchone()[0]
            if said != "ok":
                raise DataError(f"{said}; put it back from a copy")
            yield Checked(path=str(votes), state="no checksum")
        except (sqlite3.Error, DataError) as error:
            yield _told(votes, error)
