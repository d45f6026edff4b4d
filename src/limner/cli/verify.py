"""``limner verify``: is what limner stored still as it was written?

It tells what a folder is by what lies in it, reads everything once, and names what is damaged and what to do.
"""

import shutil
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from limner.checksums import has_checksum, is_sealed, read_arrays, unseal_bytes
from limner.cli.terminal import Flag, emit_report
from limner.counts import counted
from limner.errors import ConfigError, DataError, LimnerError, LimnerWarning
from limner.files import sha256_of
from limner.locations import on_this_machine
from limner.records import Record

if TYPE_CHECKING:
    from limner.research.study.records import Study
    from limner.store.library import Library

State = Literal["sound", "not checked", "damaged", "repaired"]
OLDER = "written before checksums"


class Checked(Record):
    """One file or table.

    Attributes:
        path: of it.
        state: what was found, and done.
        advice: what to do, of what is damaged or was repaired; why it is not checked.
    """

    path: str
    state: State
    advice: str = ""


def verify(*folders: Path, votes: str | None = None, repair: Flag = False, json: Flag = False) -> None:
    """Look for damage in libraries, feature stores, runs, projects and studies; nothing is changed.

    Every folder is told by what lies in it. What an older version wrote before checksums is said to be not
    checked. The command ends with status 1 if anything is damaged.

    Example: limner verify lib

    Parameters
    ----------
    folders
        Of a library, a feature store or several, a run or several, a project or several, or a study.
    votes
        Database of a study's votes, where they are not in its folder.
    repair
        Take out what limner can make again: caches, rows of features, and vectors, which 'limner index' makes
        anew. Nothing else is touched.
    json
        Print what was found as JSON.
    """
    if not folders:
        raise ConfigError("verify: no folder given; example: limner verify lib")
    for folder in folders:
        on_this_machine(folder, "the object store checks itself what it stores")
    found = [one for folder in folders for one in _of_folder(folder, repair, votes)]
    told = [f"{one.path}: {one.state}: {one.advice}" for one in found if one.advice]
    states = Counter(one.state for one in found)
    told.append(
        ", ".join(f"{count:,} {state}" for state, count in sorted(states.items())) or "nothing stored"
    )
    emit_report(found, told, as_json=json)
    if states["damaged"]:
        raise DataError(f"{counted(states['damaged'], 'file')} damaged; see the lines above")


def _of_folder(folder: Path, repair: bool, votes: str | None) -> Iterator[Checked]:
    """Everything in a folder.

    Raises:
        DataError: nothing in it is limner's.
    """
    kinds: dict[str, Callable[[Path, bool], Iterator[Checked]]] = {
        "library.json": _library,
        "study.json": partial(_study, votes=votes),  # before "key.json", which a study has too
        "key.json": _features,
        "best.safetensors": _run,
        "resume.safetensors": _run,
        "project.json": _project,
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


def _state(path: Path, sound: bool | None, advice: str) -> Checked:
    """What is said of a file that is sound or not; None of one that has no checksum."""
    if sound:
        return Checked(path=str(path), state="sound")
    state: State = "not checked" if sound is None else "damaged"
    return Checked(path=str(path), state=state, advice=OLDER if sound is None else advice)


def _read(path: Path, read: Callable[[], object]) -> Checked:
    """A file that has its checksum within, and that a function reads and checks."""
    try:
        read()
        summed = has_checksum(path) if path.suffix == ".safetensors" else is_sealed(path.read_bytes())
        return _state(path, summed or None, "")
    except (LimnerError, OSError) as error:
        return _told(path, error)


def _told(path: Path, error: Exception) -> Checked:
    reason = " ".join(str(error).split()).removeprefix(f"{path}: ")
    return Checked(path=str(path), state="damaged", advice=reason)


def _library(folder: Path, repair: bool) -> Iterator[Checked]:
    from limner.store.columns import is_whole
    from limner.store.library import Library
    from limner.store.store import SETTINGS_FILE, read_settings
    from limner.studio.pictures import cache_folder

    settings = _read(folder / SETTINGS_FILE, lambda: read_settings(folder))
    yield settings
    if settings.state == "damaged":
        return
    library = Library.open(folder)
    yield from _tables(library, repair)
    kinds = {".rows": _whole_blocks, ".moments": _whole_copy, ".safetensors": _whole_arrays}
    kinds[".arrow"] = is_whole
    for path in sorted((folder / "cache").rglob("[!.]*")):
        if path.suffix in kinds:
            yield _derived(path, kinds[path.suffix], repair)
    for path in sorted(cache_folder(library).rglob("[!.]*.webp")):
        yield _derived(path, _whole_copy, repair)


def _tables(library: "Library", repair: bool) -> Iterator[Checked]:
    folder, spoilt = library.folder, []
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
                yield _state(path, state, "")
    for name in dict.fromkeys(spoilt):
        path = folder / "tables" / f"{name}.lance"
        if not name.startswith("vectors_"):
            yield _state(path, False, "put the library back from a backup, or index again into a new folder")
        elif repair:
            with library.writing():
                shutil.rmtree(path)
                library.store.files(name).note()
            yield Checked(path=str(path), state="repaired", advice="run 'limner index', which makes it anew")
        else:
            yield _state(path, False, "--repair, then 'limner index' make it anew")


def _derived(path: Path, whole: Callable[[Path], bool], repair: bool) -> Checked:
    """A file that may be removed at any time."""
    try:
        if whole(path):
            return _state(path, True, "")
    except Exception:  # whatever is wrong with it
        repair = repair and path.exists()
    if repair:
        path.unlink()
        return Checked(path=str(path), state="repaired", advice="its next use makes it again")
    return _state(path, False, "its next use, or --repair, makes it again")


def _whole_blocks(path: Path) -> bool:
    from limner.store.blocks import Blocks, read_sums

    (rows, row, kind), _ = read_sums(path)
    with warnings.catch_warnings():
        warnings.simplefilter("error", LimnerWarning)
        return Blocks.opened(path, rows, row, np.dtype(kind).type, "r", None) is not None


def _whole_arrays(path: Path) -> bool:
    read_arrays(path)
    return True


def _whole_copy(path: Path) -> bool:
    return unseal_bytes(path.read_bytes()) is not None


def _features(folder: Path, repair: bool) -> Iterator[Checked]:
    from limner.research.datasets import features

    path = folder / features.ROWS
    try:
        held = features.opened(folder)
        wrong = held.damaged(np.arange(len(held.stored)))
    except LimnerError as error:
        yield _told(path, error)
        return
    if not wrong:
        yield _state(path, True, "")
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
    from limner.research.datasets.neighbours import SCORES_FILE, read_pair_scores
    from limner.research.evaluation.results import ChoiceResult, Result, SequenceResult
    from limner.research.runs.metric import PAIRWISE, read_pairwise
    from limner.research.runs.validation import REFINEMENT, read_refinement
    from limner.research.systems.complementary import memory
    from limner.research.training import checkpoint

    state = {}
    for name in ("best.safetensors", checkpoint.RESUME):
        path = folder / name
        if not path.is_file():
            continue
        try:
            tensors = checkpoint.load(path)[0]
            yield _read(path, lambda: None)
            if name == checkpoint.RESUME:
                state = checkpoint.part("memory", tensors)
        except LimnerError as error:
            yield _told(path, error)
    try:
        for path, sound in memory.states(folder, state):
            yield _state(path, sound, "put the run back from a copy, or train in another folder")
    except LimnerError as error:
        yield _told(folder / memory.FOLDER, error)
    readers = {SCORES_FILE: read_pair_scores, PAIRWISE: read_pairwise, REFINEMENT: read_refinement}
    for name, reader in readers.items():
        if (folder / name).is_file():
            yield _read(folder / name, partial(reader, folder))
    for kind in (Result, ChoiceResult, SequenceResult):
        for path in sorted((folder / kind.FOLDER).glob("*.json")):
            yield _read(path, partial(kind.read, path))


def _project(folder: Path, _repair: bool) -> Iterator[Checked]:
    from limner.studio.projects import FILE, PARTS, Projects, as_named

    yield _read(folder / FILE, lambda: Projects(folder.parent).read(folder.name))
    for part in sorted((folder / PARTS).glob("[!.]*")):
        yield _state(part, as_named(part, part.read_bytes()), "put it back from a copy of the project")


def _study(folder: Path, _repair: bool, *, votes: str | None) -> Iterator[Checked]:
    from limner.research.study.records import HASHED, PICTURES, STUDY, read_study

    names = (STUDY, *HASHED)
    try:
        files = read_study(folder, pictures=False)
    except LimnerError as error:
        wrong = next((name for name in names if str(error).startswith(str(folder / name))), STUDY)
        yield _told(folder / wrong, error)
        return
    yield from (_state(folder / name, True, "") for name in names)
    for name in sorted({one.picture for item in files.items for one in item.candidates if one.picture}):
        path = folder / PICTURES / name
        sound = path.is_file() and sha256_of(path) == path.stem
        yield _state(path, sound, "put it back from a copy of the study, or create a new study")
    if votes or (folder / "votes.sqlite").is_file():
        yield from _votes(folder, files.study, votes)


def _votes(folder: Path, study: "Study", votes: str | None) -> Iterator[Checked]:
    """The votes of a study, one by one; and the whole file, where they are in one."""
    from limner.research.study.connection import votes_url
    from limner.research.study.votes import VoteBase

    url = votes_url(folder, votes)
    where = Path(url.database or "") if url.get_backend_name() == "sqlite" else None
    place = str(where or url.render_as_string(hide_password=True))
    try:
        with closing(VoteBase(folder, study, votes, reading_only=True)) as base:
            found = base.checked()
            told = found.damaged or ([] if where is None else base.unsound())
        for line in told:
            yield Checked(path=place, state="damaged", advice=line.removeprefix(f"votes {base.name}: "))
        if not told:
            yield _state(Path(place), None if found.unchecked else True, "")
    except LimnerError as error:
        yield Checked(path=place, state="damaged", advice=str(error).removeprefix("votes "))
