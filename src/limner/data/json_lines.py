"""Text files of one JSON object a line, read so that whatever they hold ends in rows or in one clear line.

Stories and captions lie in such files, which people write and mend by hand. It knows no set and opens no
picture.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from limner.data.faults import first_fault
from limner.errors import DataError, MissingError

Row = TypeVar("Row", bound=BaseModel)


def json_rows(path: Path, form: type[Row], *, holds: str, one: str, see: str) -> Iterator[tuple[str, Row]]:
    """Place and row of every line that is not blank.

    Args:
        path: the file.
        form: of a row.
        holds: what should be there, for the message that it is not, such as "a story folder holds x.jsonl".
        one: what a line holds, such as "story".
        see: where the form is described.
    Raises:
        MissingError: no such file.
        DataError: it cannot be read, is not UTF-8, or a line is not of the form.
    """
    # only "\n" ends a line: JSON strings may hold U+2028 and its like, which splitlines would cut
    for number, line in enumerate(_text(path, holds).split("\n"), start=1):
        if not line.strip():
            continue
        where = f"{path.parent.name}/{path.name}:{number}"
        try:
            yield where, form.model_validate_json(line)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            if first["type"] == "json_invalid":
                reason = first["msg"].removeprefix("Invalid JSON: ")
                raise DataError(f"{where}: not JSON ({reason}); each line holds one {one}") from error
            raise DataError(f"{where}: {first_fault(error, 'the line')}; see {see} for the form") from error


def is_there(path: Path) -> bool:
    """Whether a file is there; a name that no file can have names none."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def whole_path(folder: Path | str) -> Path:
    """A folder's absolute path without links.

    Raises:
        DataError: its links lead in a circle, or no folder can have such a name.
    """
    try:
        return Path(folder).resolve()
    except (OSError, RuntimeError, ValueError) as error:
        raise DataError(
            f"{str(folder)[:200]!r}: {str(error)[:100]}; expected a folder that can be opened"
        ) from None


def _text(path: Path, holds: str) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise MissingError(f"{path}: not there; {holds}") from None
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: byte {error.start} is not UTF-8; save the file as UTF-8") from error
    except OSError as error:
        raise DataError(f"{path}: {error.strerror or error}; expected a file that can be read") from error
