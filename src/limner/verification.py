"""Results of ``limner verify``, and the checks that packages register for their files.

A check recognises folders of one kind and compares their files with their checksums. The entry-point group
``limner.checks`` names sequences of checks.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path
from typing import Literal

from limner.checksums import has_checksum, is_sealed
from limner.config import Record
from limner.errors import LimnerError, MissingError

State = Literal["sound", "not checked", "damaged", "missing", "repaired"]
GROUP = "limner.checks"
OLDER = "written before checksums"
NOT_COVERED = "not covered by a checksum"


class Checked(Record):
    """Result for one file or table.

    Attributes:
        path: path of the file or table.
        state: its state.
        advice: advice if it is damaged, missing or repaired; reason if it was not checked.
    """

    path: str
    state: State
    advice: str = ""


@dataclass(frozen=True)
class VerifyOptions:
    """Options of the checks.

    Attributes:
        repair: whether to remove damaged data that can be created again.
        votes: database of a study's votes, if they are not in its folder.
    """

    repair: bool = False
    votes: str | None = None


@dataclass(frozen=True)
class Check:
    """Check of one kind of folder.

    Attributes:
        kind: name of the kind, such as "library", for messages.
        recognises: function that recognises a folder by the names in it, even if one of them is missing.
        states: function that yields the results of such a folder.
        whole: whether files without a result are reported as "not covered".
    """

    kind: str
    recognises: Callable[[Path], bool]
    states: Callable[[Path, VerifyOptions], Iterator[Checked]]
    whole: bool = True


def registered() -> Iterator[Check]:
    """Yield the checks that packages register, in order of their entry points' names.

    Checks that need a package that is not installed are left out: their files were not written here.
    """
    for entry in sorted(entry_points(group=GROUP), key=lambda one: one.name):
        try:
            yield from entry.load()
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] == "limner":
                raise
        except MissingError:  # raised if such a package is missing
            continue


def judged(path: Path, sound: bool | None, advice: str) -> Checked:
    """Result for a file that was checked.

    Args:
        path: path of the file.
        sound: whether the checksum matches; None if the file has no checksum.
        advice: advice if it is damaged; reason if it was not checked, unless an earlier version wrote it.
    """
    if sound:
        return Checked(path=str(path), state="sound")
    if sound is None:
        return Checked(path=str(path), state="not checked", advice=advice or OLDER)
    return Checked(path=str(path), state="damaged" if path.exists() else "missing", advice=advice)


def read(path: Path, by: Callable[[], object]) -> Checked:
    """Result for a file that contains its checksum and that a function reads and checks."""
    try:
        by()
        summed = has_checksum(path) if path.suffix == ".safetensors" else is_sealed(path.read_bytes())
    except (LimnerError, OSError) as error:
        return faulty(path, error)
    return judged(path, summed or None, "")


def faulty(path: Path, error: Exception) -> Checked:
    """Result for a file that raised an error."""
    reason = " ".join(str(error).split()).removeprefix(f"{path}: ")
    return Checked(path=str(path), state="damaged" if path.exists() else "missing", advice=reason)


def uncovered(folder: Path, found: list[Checked]) -> Iterator[Checked]:
    """Results for the files of a folder that were not checked, without empty ones such as locks.

    Args:
        folder: the folder.
        found: results so far; that of a table has the path of its folder.
    """
    told = {one.path for one in found}
    for file in sorted(folder.rglob("*")):
        if (
            not file.is_symlink()
            and file.is_file()
            and file.stat().st_size
            and not file.name.endswith("-shm")  # SQLite creates this file at every start
            and not told & {str(file), *map(str, file.parents)}
        ):
            yield Checked(path=str(file), state="not checked", advice=NOT_COVERED)
