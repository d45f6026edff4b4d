"""What ``limner verify`` finds, and the checks that packages register for what they write.

A check says whether a folder is of its kind, and reads what was written there against its checksums. The
entry-point group ``limner.checks`` names sequences of them.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path
from typing import Literal

from limner.checksums import has_checksum, is_sealed
from limner.errors import LimnerError, MissingError
from limner.records import Record

State = Literal["sound", "not checked", "damaged", "missing", "repaired"]
GROUP = "limner.checks"
OLDER = "written before checksums"
NOT_COVERED = "not covered by a checksum"


class Checked(Record):
    """One file or table.

    Attributes:
        path: of it.
        state: what was found, and done.
        advice: what to do, of what is damaged, missing or was repaired; why it is not checked.
    """

    path: str
    state: State
    advice: str = ""


@dataclass(frozen=True)
class VerifyOptions:
    """How a folder is to be read.

    Attributes:
        repair: take out what can be made again.
        votes: database of a study's votes, where they are not in its folder.
    """

    repair: bool = False
    votes: str | None = None


@dataclass(frozen=True)
class Check:
    """How one kind of folder is known and read.

    Attributes:
        kind: such as "library", for messages.
        recognises: whether a folder is of this kind, by the names in it; also where one of them is missing.
        states: all that was found in such a folder.
        whole: whether files of which `states` says nothing are named as not covered.
    """

    kind: str
    recognises: Callable[[Path], bool]
    states: Callable[[Path, VerifyOptions], Iterator[Checked]]
    whole: bool = True


def registered() -> Iterator[Check]:
    """The checks that packages register, in order of their entry points' names.

    Those of a package that needs what is not installed are left out: what they check was not written here.
    """
    for entry in sorted(entry_points(group=GROUP), key=lambda one: one.name):
        try:
            yield from entry.load()
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] == "limner":
                raise
        except MissingError:  # which says of such a package what to install
            continue


def judged(path: Path, sound: bool | None, advice: str) -> Checked:
    """What is said of a file that is sound or not; None of one that has no checksum.

    Args:
        path: of it.
        sound: what was found.
        advice: what to do where it is not; why it is not checked, unless by its age.
    """
    if sound:
        return Checked(path=str(path), state="sound")
    if sound is None:
        return Checked(path=str(path), state="not checked", advice=advice or OLDER)
    return Checked(path=str(path), state="damaged" if path.exists() else "missing", advice=advice)


def read(path: Path, by: Callable[[], object]) -> Checked:
    """A file that has its checksum within, and that a function reads and checks."""
    try:
        by()
        summed = has_checksum(path) if path.suffix == ".safetensors" else is_sealed(path.read_bytes())
    except (LimnerError, OSError) as error:
        return faulty(path, error)
    return judged(path, summed or None, "")


def faulty(path: Path, error: Exception) -> Checked:
    """A file of which an error says what is wrong."""
    reason = " ".join(str(error).split()).removeprefix(f"{path}: ")
    return Checked(path=str(path), state="damaged" if path.exists() else "missing", advice=reason)


def uncovered(folder: Path, found: list[Checked]) -> Iterator[Checked]:
    """The files of a folder of which nothing was said; those that hold nothing, as locks, are passed over.

    Args:
        folder: that was read.
        found: what was said of it; of a table, in its folder's name.
    """
    told = {one.path for one in found}
    for file in sorted(folder.rglob("*")):
        if (
            not file.is_symlink()
            and file.is_file()
            and file.stat().st_size
            and not file.name.endswith("-shm")  # of SQLite, which makes it at every start
            and not told & {str(file), *map(str, file.parents)}
        ):
            yield Checked(path=str(file), state="not checked", advice=NOT_COVERED)
