"""Reads the files of data sets, and describes a folder in which an expected file is missing.

The usual mistakes with a downloaded set are archives left packed, a folder one level too deep or too high,
and files of another version; messages point these out.
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
    """Yield a folder and its subfolders, each with its sorted file names; hidden ones are left out.

    Links to folders are followed, each folder once. Folders that have disappeared or cannot be read are
    skipped, as by `os.walk`.
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
    """Whether a file name has a picture suffix."""
    return name.lower().endswith(_suffixes())


@cache
def _suffixes() -> tuple[str, ...]:
    from limner.pictures.decode import PICTURE_SUFFIXES

    return tuple(os.fsdecode(suffix) for suffix in PICTURE_SUFFIXES)


def has_pictures(root: Path) -> bool:
    """Whether a folder or a subfolder holds a file with a picture suffix."""
    return any(is_picture(name) for _, names in walk(root) for name in names)


def whereabouts(place: Path, wanted: Sequence[str] = ()) -> str:
    """Describe a folder's contents and where the missing files may be, as clauses for a message.

    Args:
        place: the folder; it need not exist.
        wanted: possible names of the missing file; empty if pictures are missing.
    """
    if place.is_file():
        return f"{place.name} is a file, not a folder"
    if not place.is_dir():
        above = next((folder for folder in place.absolute().parents if folder.is_dir()), place)
        return f"found no such folder; {above} holds {_contents([(above, _files(above))], above)}"
    folders = list(walk(place))
    clauses = [f"found {_contents(folders, place)}"]
    clauses += _elsewhere(place, wanted)
    if not wanted and not has_pictures(place):
        clauses += _pictures_elsewhere(place)
    files = [folder / name for folder, names in folders for name in names]
    if not files:  # archives are often next to the folder for their contents
        files = [place.parent / name for name in _files(place.parent)]
    packed = [file for file in files if file.name.lower().endswith(ARCHIVES)]
    inside = [file for file in packed if set(wanted) & _listing(file)] or packed
    if inside:
        which = f"{inside[0].name}{f' and {len(inside) - 1} more' if inside[1:] else ''}"
        clauses.append(f"{which} {'are' if inside[1:] else 'is'} still packed: unpack and run again")
    if pickles := [file for file in files if file.name.lower().endswith(PICKLE_SUFFIXES)]:
        clauses.append(
            f"{pickles[0].name} is a pickle, which is never loaded: see docs/data.md for how to convert it"
        )
    names = sorted({file.name for file in files} - {file.name for file in packed})
    near = dict.fromkeys(
        name for wanted_name in wanted for name in get_close_matches(wanted_name, names, 2, 0.6)
    )
    if near and not packed:
        clauses.append(f"{' and '.join(near)} may be of another version or part")
    return "; ".join(clauses)


def _files(folder: Path) -> list[str]:
    return sorted(
        entry.name for entry in folder.iterdir() if entry.is_file() and not entry.name.startswith(".")
    )


def _contents(folders: Sequence[tuple[Path, list[str]]], place: Path) -> str:
    """Numbers of folders, files and pictures, with the first names."""
    below = sorted(
        entry.name for entry in place.iterdir() if entry.is_dir() and not entry.name.startswith(".")
    )
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
    """Look for a wanted file in the folders next to this one, up to two levels up."""
    with suppress(OSError):  # no permission to read a folder
        for above in place.absolute().parents[:2]:
            near = [above, *sorted(entry for entry in above.iterdir() if entry.is_dir())]
            for folder in (entry for entry in near if entry != place.absolute()):
                for name in wanted:
                    if (folder / name).is_file():
                        return [f"{name} is in {folder}: give that folder"]
    return []


def _pictures_elsewhere(place: Path) -> list[str]:
    """Look for pictures in the folders next to this one, without their subfolders."""
    with suppress(OSError):
        for folder in sorted(entry for entry in place.absolute().parent.iterdir() if entry.is_dir()):
            if any(is_picture(name) for name in _files(folder)):
                return [f"{folder} next to it holds pictures"]
    return []


def _listing(archive: Path) -> set[str]:
    """Names of the files in a zip archive; for other archives the name without .gz."""
    with suppress(zipfile.BadZipFile, OSError), zipfile.ZipFile(archive) as opened:
        return {Path(name).name for name in opened.namelist()}
    return {archive.name.removesuffix(".gz")}


Form = TypeVar("Form")
_PACKED = (b"PK", b"\x1f\x8b", b"BZ", b"7z")  # zip, gzip, bzip2, 7z
_PICKLE_PROTOCOLS = tuple(b"\x80" + bytes([number]) for number in range(2, 6))


def read_json(path: Path, form: type[Form], expected: str) -> Form:
    """Read a JSON file and validate it; unknown keys are ignored.

    Args:
        path: the file.
        form: type of the whole file.
        expected: description for messages, such as ``"an object of images and annotations"``.
    Raises:
        MissingError: the file does not exist.
        DataError: the file is a pickle, not JSON, or of another form.
    """
    refuse_pickle(path)
    try:
        return TypeAdapter(form).validate_json(path.read_bytes())
    except ValidationError as error:
        raise DataError(f"{path}: {first_fault(error)}; expected {expected}") from error


def refuse_pickle(path: Path) -> None:
    """Reject pickles and archives, by name and by the first bytes.

    Raises:
        MissingError: the file does not exist.
        DataError: the file is a pickle, an archive or a folder, or cannot be opened.
    """
    with readable(path, "give the file of the annotations"), path.open("rb") as file:
        head = file.read(2)
    if path.suffix.lower() in PICKLE_SUFFIXES or head in _PICKLE_PROTOCOLS:
        raise DataError(
            f"{path}: a pickle, which limner never loads because loading can run code;"
            " convert it to JSON, see docs/data.md"
        )
    if head in _PACKED:
        raise DataError(f"{path}: an archive; unpack it and give the file in it")


def read_table(
    path: Path,
    delimiter: str,
    columns: Sequence[str],
    *,
    quoted: bool = True,
    header: bool = True,
    filled: Sequence[str] = (),
) -> Iterator[dict[str, str]]:
    """Yield the rows of a delimited UTF-8 file: column → value.

    Args:
        path: the file.
        delimiter: one character.
        columns: columns that the header must have (there may be more); without a header, all columns in
            order.
        quoted: whether fields may be enclosed in double quotes.
        header: whether the first line names the columns.
        filled: columns that must not be empty.
    Raises:
        MissingError: the file does not exist.
        DataError: the file cannot be read, is not UTF-8 or has no rows; a column is missing or repeated; or a
            row has another number of fields or an empty required one.
    """
    refuse_pickle(path)
    hint = "is the delimiter right and the file complete?"
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
                values = dict(zip(names, row, strict=True))
                if not all(values[column].strip() for column in filled):
                    raise DataError(
                        f"{path}:{lines.line_num}: {' or '.join(filled)} is empty; remove the row or fill"
                        " it in"
                    )
                yield values
        except csv.Error as error:
            raise DataError(f"{path}:{lines.line_num}: {error}; {hint}") from error
        if row is None:
            raise DataError(f"{path}: no rows; is the file complete?")


def flag(where: str, column: str, value: str, words: tuple[str, str]) -> int:
    """Parse a yes/no field as 1 or 0.

    Args:
        where: location, for messages.
        column: name of the field, for messages.
        value: its text.
        words: texts for no and yes.

    Raises:
        DataError: `value` is neither word.
    """
    if value not in words:
        raise DataError(f"{where}: {column} is {value!r}, expected {words[0]} or {words[1]}")
    return words.index(value)
