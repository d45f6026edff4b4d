"""Advice on a folder in which expected files are missing, with its content.

Archives left packed, a folder one level too deep or too high, and files of another version are what goes
wrong with a downloaded set, so a message names them.
"""

import os
import zipfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from difflib import get_close_matches
from functools import cache
from pathlib import Path

from limner.files import shown

ARCHIVES = (".zip", ".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz", ".gz", ".7z", ".rar")
PICKLE_SUFFIXES = (".pkl", ".pickle", ".p", ".joblib")
_LISTED = 4


def walk(root: Path) -> Iterator[tuple[Path, list[str]]]:
    """A folder and those below it, each with its file names, sorted; hidden ones are left out.

    Links to folders are followed, each folder once. A folder that is gone when its turn comes is passed over,
    as `os.walk` does with one that cannot be read.
    """
    walked = set()
    for folder, folders, names in os.walk(root, followlinks=True):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        try:
            status = Path(folder).stat()
        except FileNotFoundError:
            continue
        if (status.st_dev, status.st_ino) in walked:
            folders.clear()
            continue
        walked.add((status.st_dev, status.st_ino))
        yield Path(folder), sorted(name for name in names if not name.startswith("."))


def is_picture(name: str) -> bool:
    """Whether a file's name ends as that of a picture does."""
    return name.lower().endswith(_suffixes())


@cache
def _suffixes() -> tuple[str, ...]:
    from limner.pictures.formats import PICTURE_SUFFIXES

    return tuple(os.fsdecode(suffix) for suffix in PICTURE_SUFFIXES)


def has_pictures(root: Path) -> bool:
    """Whether a folder, or one below it, holds a file that is named as a picture."""
    return any(is_picture(name) for _, names in walk(root) for name in names)


def whereabouts(place: Path, wanted: Sequence[str] = ()) -> str:
    """Content of a folder, and possible locations of the missing files, as clauses for a message.

    Args:
        place: the folder that was named; it need not be there.
        wanted: names of files of which one was looked for; none where pictures were.
    """
    if place.is_file():
        return f"{place.name} is a file, not a folder"
    if not place.is_dir():
        above = next((folder for folder in place.absolute().parents if folder.is_dir()), place)
        return f"found no such folder; {above} holds {_contents([(above, _files(above))], above)}"
    folders = list(walk(place))
    said = [f"found {_contents(folders, place)}"]
    said += _elsewhere(place, wanted)
    if not wanted and not has_pictures(place):
        said += _pictures_elsewhere(place)
    files = [folder / name for folder, names in folders for name in names]
    if not files:  # archives are often kept beside the folder made for what they hold
        files = [place.parent / name for name in _files(place.parent)]
    packed = [file for file in files if file.name.lower().endswith(ARCHIVES)]
    inside = [file for file in packed if set(wanted) & _listing(file)] or packed
    if inside:
        which = f"{inside[0].name}{f' and {len(inside) - 1} more' if inside[1:] else ''}"
        said.append(f"{which} {'are' if inside[1:] else 'is'} still packed: unpack there and run again")
    if pickles := [file for file in files if file.name.lower().endswith(PICKLE_SUFFIXES)]:
        said.append(f"{pickles[0].name} is a pickle, which is never loaded: convert it as docs/data.md says")
    names = sorted({file.name for file in files} - {file.name for file in packed})
    near = dict.fromkeys(name for one in wanted for name in get_close_matches(one, names, 2, 0.6))
    if near and not packed:
        said.append(f"{' and '.join(near)} may be of another version or part")
    return "; ".join(said)


def _files(folder: Path) -> list[str]:
    return sorted(one.name for one in folder.iterdir() if one.is_file() and not one.name.startswith("."))


def _contents(folders: Sequence[tuple[Path, list[str]]], place: Path) -> str:
    """Folders, files and pictures, counted, the first of them named."""
    below = sorted(one.name for one in place.iterdir() if one.is_dir() and not one.name.startswith("."))
    counted = Counter(is_picture(name) for _, names in folders for name in names)
    first = next((name for _, names in folders for name in names if is_picture(name)), "")
    others = [name for _, names in folders for name in names if not is_picture(name)]
    parts = [_few("folder", below, len(below)), _few("file", others, counted[False])]
    parts.append(_few("picture", [first], counted[True]))
    return ", ".join(filter(None, parts)) or "nothing in it"


def _few(what: str, names: Sequence[str], count: int) -> str:
    if not count:
        return ""
    more = ", …" if count > len(names[:_LISTED]) else ""
    return f"{count:,} {what}{'s' * (count > 1)} ({', '.join(map(shown, names[:_LISTED]))}{more})"


def _elsewhere(place: Path, wanted: Sequence[str]) -> list[str]:
    """Whether a wanted file lies beside the folder, up to two levels up."""
    with suppress(OSError):  # a folder that may not be read
        for above in place.absolute().parents[:2]:
            near = [above, *sorted(one for one in above.iterdir() if one.is_dir())]
            for folder in (one for one in near if one != place.absolute()):
                for name in wanted:
                    if (folder / name).is_file():
                        return [f"{name} lies in {folder}: give that folder"]
    return []


def _pictures_elsewhere(place: Path) -> list[str]:
    """Whether a folder beside this one holds pictures, not looking below it."""
    with suppress(OSError):
        for folder in sorted(one for one in place.absolute().parent.iterdir() if one.is_dir()):
            if any(is_picture(name) for name in _files(folder)):
                return [f"{folder} beside it holds pictures"]
    return []


def _listing(archive: Path) -> set[str]:
    """Names of files in a zip archive, whose list is at hand; of others what their own name says."""
    with suppress(zipfile.BadZipFile, OSError), zipfile.ZipFile(archive) as opened:
        return {Path(name).name for name in opened.namelist()}
    return {archive.name.removesuffix(".gz")}
