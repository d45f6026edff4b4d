"""Files of results in the folders of runs: written whole, read with one clear line, gathered without twins.

What all kinds of results share; each kind says what it holds. It measures nothing.
"""

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError

from limner.data.records import Record
from limner.errors import DataError, MissingError
from limner.files import write_text

R = TypeVar("R", bound=Record)


def write_whole(result: Record, target: Path) -> Path:
    """Write a result as JSON, whole or not at all."""
    target.parent.mkdir(parents=True, exist_ok=True)
    write_text(target, result.model_dump_json())
    return target


def read_as(path: Path, kind: type[R], what: str, first: str) -> R:
    """Read one file.

    Args:
        path: the file.
        kind: what it must hold.
        what: that kind in words, for the message.
        first: what to do where there is none yet.
    Raises:
        MissingError: no such file.
        DataError: it cannot be read, or is not one.
    """
    try:
        return kind.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        raise MissingError(f"{path}: not there; {first} first") from None
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error}); expected {what}") from error
    except ValidationError as error:
        wrong = error.errors()[0]
        key = ".".join(str(part) for part in wrong["loc"]) or "the file"
        raise DataError(f"{path}: {key}: {wrong['msg']}; expected {what} of this version") from error


def gather(
    runs: Path | str,
    pattern: str,
    read: Callable[[Path], R],
    identity: Callable[[R], dict[str, object]] | None,
) -> list[R]:
    """All results of the run folders below a folder, in the order of their paths.

    Args:
        runs: the folder.
        pattern: of the files' places below it.
        read: one file.
        identity: names and values that no two of them may share; None where they may.
    Raises:
        MissingError: no such folder.
        DataError: a file is none, or two are the same.
    """
    folder = Path(runs)
    if not folder.is_dir():
        raise MissingError(f"{folder}: not a folder; give the one that holds the runs")
    seen: dict[tuple[object, ...], Path] = {}
    found = []
    for path in sorted(folder.glob(pattern)):
        found.append(read(path))
        if identity is None:
            continue
        named = identity(found[-1])
        *names, last = named
        key = tuple(named.values())
        if key in seen:
            raise DataError(
                f"{path}: same {', '.join(names)} and {last} as {seen[key]};"
                " keep one of them below this folder"
            )
        seen[key] = path
    return found
