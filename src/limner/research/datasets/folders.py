"""Files of data sets: how they are read, and what lies in a folder where they were looked for in vain.

Archives left packed, a folder one level too deep or too high, and files of another version are what goes
wrong with a downloaded set, so a message names them.
"""

import csv
import os
import zipfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Literal, TypeVar

from pydantic import TypeAdapter, ValidationError

from limner.errors import DataError
from limner.files import first_fault, readable, shown

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
    from limner.pictures.decode import PICTURE_SUFFIXES

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


Form = TypeVar("Form")
_PACKED = (b"PK", b"\x1f\x8b", b"BZ", b"7z")  # zip, gzip, bzip2, 7z
_PICKLE_PROTOCOLS = tuple(b"\x80" + bytes([number]) for number in range(2, 6))


def read_json(path: Path, form: type[Form], expected: str) -> Form:
    """Read a JSON file and check its form; keys the form does not name are left aside.

    Args:
        path: the file; a pickle is refused, whatever its name.
        form: of the whole file.
        expected: one phrase for messages, such as ``"an object of images and annotations"``.
    Raises:
        MissingError: no such file.
        DataError: a pickle, not JSON, or of another form.
    """
    refuse_pickle(path)
    try:
        return TypeAdapter(form).validate_json(path.read_bytes())
    except ValidationError as error:
        raise DataError(f"{path}: {first_fault(error)}; expected {expected}") from error


def refuse_pickle(path: Path) -> None:
    """Refuse a pickle by its name and by its first bytes; nothing of it is ever loaded. Nor are archives.

    Raises:
        MissingError: no such file.
        DataError: a pickle, an archive, a folder, or not to be opened.
    """
    with readable(path, "give the file of the annotations"), path.open("rb") as file:
        head = file.read(2)
    if path.suffix.lower() in PICKLE_SUFFIXES or head in _PICKLE_PROTOCOLS:
        raise DataError(
            f"{path}: a pickle, which runs code when loaded, and is never loaded here;"
            " convert it to JSON as docs/data.md says"
        )
    if head in _PACKED:
        raise DataError(f"{path}: still packed; unpack it and give the file that was in it")


def read_table(
    path: Path,
    delimiter: str,
    columns: Sequence[str],
    *,
    quoted: bool = True,
    header: bool = True,
    filled: Sequence[str] = (),
) -> Iterator[dict[str, str]]:
    """Rows of a delimited UTF-8 file, one by one.

    Args:
        path: the file.
        delimiter: one character.
        columns: names that the header must hold, others are kept; of a file without one, all its columns.
        quoted: whether double quotes enclose fields.
        header: whether the first line names the columns.
        filled: columns that must not be empty.
    Raises:
        MissingError: no such file.
        DataError: it cannot be read, is not UTF-8, a column is absent or named twice, a row has another
            number of fields, or there is none.
    """
    refuse_pickle(path)
    hint = "is the delimiter right and the file whole?"
    quoting: Literal[0, 3] = csv.QUOTE_MINIMAL if quoted else csv.QUOTE_NONE
    with readable(path, hint), path.open(encoding="utf-8", newline="") as file:
        lines = csv.reader(file, delimiter=delimiter, strict=quoted, quoting=quoting)
        try:
            names = next(lines, []) if header else list(columns)
            absent = [column for column in columns if column not in names]
            if absent or len(set(names)) != len(names):
                fault = f"lacks {', '.join(absent)}" if absent else "names a column twice"
                raise DataError(f"{path}: the header {fault}; expected {', '.join(columns)}")
            row = None
            for row in lines:
                if len(row) != len(names):
                    raise DataError(
                        f"{path}:{lines.line_num}: {len(row)} fields, expected {len(names)}; {hint}"
                    )
                found = dict(zip(names, row, strict=True))
                if not all(found[column].strip() for column in filled):
                    raise DataError(
                        f"{path}:{lines.line_num}: {' or '.join(filled)} is empty; remove the row or fill"
                        " it in"
                    )
                yield found
        except csv.Error as error:
            raise DataError(f"{path}:{lines.line_num}: {error}; {hint}") from error
        if row is None:
            raise DataError(f"{path}: no rows; is the file whole?")


def flag(where: str, column: str, value: str, words: tuple[str, str]) -> int:
    """0 or 1 from the two words a file uses for no and yes.

    Raises:
        DataError: any other word.
    """
    if value not in words:
        raise DataError(f"{where}: {column} is {value!r}, expected {words[0]} or {words[1]}")
    return words.index(value)
