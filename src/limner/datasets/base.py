"""What the readers of data sets share: tables and JSON files of a stated form, and the refusal of pickles."""

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

from pydantic import TypeAdapter, ValidationError

from limner.errors import DataError, MissingError
from limner.files import first_fault

Form = TypeVar("Form")
PICKLE_SUFFIXES = (".pkl", ".pickle", ".p", ".joblib")
_PICKLE_PROTOCOLS = tuple(b"\x80" + bytes([number]) for number in range(2, 6))


def read_json(path: Path, form: TypeAdapter[Form], expected: str) -> Form:
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
        return form.validate_json(path.read_bytes())
    except ValidationError as error:
        raise DataError(f"{path}: {first_fault(error)}; expected {expected}") from error


def refuse_pickle(path: Path) -> None:
    """Refuse a pickle by its name and by its first bytes; nothing of it is ever loaded.

    Raises:
        MissingError: no such file.
        DataError: a pickle, a folder, or not to be opened.
    """
    try:
        with path.open("rb") as file:
            head = file.read(2)
    except FileNotFoundError:
        raise MissingError(f"{path}: not there; give the file of the annotations") from None
    except IsADirectoryError:
        raise DataError(f"{path}: a folder; expected the file of the annotations") from None
    except (OSError, ValueError) as error:  # such as links in a circle
        reason = getattr(error, "strerror", None) or str(error)
        raise DataError(f"{path}: {reason}; expected a file that can be read") from None
    if path.suffix.lower() in PICKLE_SUFFIXES or head in _PICKLE_PROTOCOLS:
        raise DataError(
            f"{path}: a pickle, which runs code when loaded, and is never loaded here;"
            " convert it to JSON as docs/data.md says"
        )


def read_table(
    path: Path, delimiter: str, columns: Sequence[str], *, quoted: bool = True
) -> list[dict[str, str]]:
    """Rows of a delimited UTF-8 file with a header.

    Args:
        path: the file.
        delimiter: one character.
        columns: names the header must hold; others are kept.
        quoted: whether double quotes enclose fields.
    Raises:
        MissingError: no such file.
        DataError: it cannot be read, is not UTF-8, a column is absent or named twice, or a row has another
            number of fields.
    """
    try:
        with path.open(encoding="utf-8", newline="") as file:
            lines = (
                csv.reader(file, delimiter=delimiter, strict=True)
                if quoted
                else csv.reader(file, delimiter=delimiter, quoting=csv.QUOTE_NONE)
            )
            header = next(lines, [])
            absent = [column for column in columns if column not in header]
            if absent or len(set(header)) != len(header):
                found = f"lacks {', '.join(absent)}" if absent else "names a column twice"
                raise DataError(f"{path}: the header {found}; expected {', '.join(columns)}")
            rows = []
            for row in lines:
                if len(row) != len(header):
                    raise DataError(
                        f"{path}:{lines.line_num}: {len(row)} fields, expected {len(header)}; "
                        "is the delimiter right and the file whole?"
                    )
                rows.append(dict(zip(header, row, strict=True)))
    except FileNotFoundError:
        raise MissingError(f"{path}: not there; give the file or folder of the annotations") from None
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: byte {error.start} is not UTF-8; save the file as UTF-8") from error
    except OSError as error:  # a folder, links in a circle
        raise DataError(f"{path}: cannot be read ({error.strerror}); give a delimited file") from error
    except csv.Error as error:
        raise DataError(
            f"{path}:{lines.line_num}: {error}; is the delimiter right and the file whole?"
        ) from error
    if not rows:
        raise DataError(f"{path}: no rows; is the file whole?")
    return rows


def flag(where: str, column: str, value: str, words: tuple[str, str]) -> int:
    """0 or 1 from the two words a file uses for no and yes.

    Raises:
        DataError: any other word.
    """
    if value not in words:
        raise DataError(f"{where}: {column} is {value!r}, expected {words[0]} or {words[1]}")
    return words.index(value)
