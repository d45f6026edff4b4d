"""What the files of a folder hold, noted as they are written, so that an altered or missing one is named.

A file that has its checksum within is noted by its name alone. A kill at any moment leaves notes that fit.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from limner.checksums import checksum, file_checksum, seal, unseal
from limner.errors import DataError
from limner.files import locked, make_folder, write_text

FILE = "digests.json"
_HINT = "a mere note: remove it; what is written next is noted in a new one"


@contextmanager
def noting(folder: Path, name: str, content: bytes | None = None) -> Iterator[None]:
    """Note a file that the block writes, whole or not at all.

    Args:
        folder: that keeps the notes; made if absent.
        name: of the file, relative to it, with slashes.
        content: of the file; None of one that has its checksum within.
    """
    make_folder(folder)
    file = folder / name
    due = [] if content is None else [checksum(content)]
    if due and file.is_file():  # until it is replaced it holds what it held
        _change(folder, name, [*due, file_checksum(file)])
    yield
    _change(folder, name, due)


def forget(folder: Path, name: str) -> None:
    """A file was removed on purpose."""
    if (folder / FILE).is_file():
        _change(folder, name, None)


def noted(folder: Path) -> dict[str, list[str]]:
    """Name of each file → the checksums that it may have; none of a file that has its own within.

    Raises:
        DataError: the notes are damaged.
    """
    path = folder / FILE
    try:
        files = json.loads(unseal(path.read_bytes(), path, _HINT))["files"]
        return {str(name): [str(one) for one in due] for name, due in files.items()}
    except FileNotFoundError:
        return {}
    except DataError:
        raise
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise DataError(f"{path}: damaged ({str(error)[:60]}); {_HINT}") from error


def is_sound(file: Path, due: list[str]) -> bool | None:
    """Whether a file that is there holds what was noted; None where that is in the file itself."""
    return file_checksum(file) in due if due else None


def _change(folder: Path, name: str, due: list[str] | None) -> None:
    with locked(folder / "lock"):
        before: dict[str, list[str]] = {}
        with suppress(DataError):  # damaged notes are made anew
            before = noted(folder)
        after = {key: one for key, one in before.items() if key != name}
        if due is not None:
            after[name] = due
        if after != before:
            write_text(folder / FILE, seal(json.dumps({"files": dict(sorted(after.items()))}, indent=0)))
