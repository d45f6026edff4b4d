"""Files that a kill or a full disk leaves old or new, never half; locks between processes; JSON lines."""

import contextlib
import hashlib
import os
import secrets
from collections.abc import Container, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from filelock import FileLock, Timeout
from pydantic import BaseModel, ValidationError

from limner.errors import DataError, LimnerError, MissingError

Row = TypeVar("Row", bound=BaseModel)
DRAFT_SUFFIX = ".limner-part"
"""Ends the name of a file that is being written; what a kill leaves behind may be removed."""
_LONGEST_KEY = 40


@contextmanager
def replacing(target: Path, *, sync: bool = True) -> Iterator[Path]:
    """A temporary file beside `target` that takes its place when the block ends well.

    When the block raises, the temporary file is removed and the target is untouched.

    Args:
        target: the file to appear, in a folder that exists; an existing file is replaced in one step.
        sync: whether content and name are on the disk when the block ends; False for what is cheap to make
            again and checked when read.
    Yields:
        an empty file in the same folder, to be written.
    Raises:
        OSError: the disk is full, or the folder cannot be written; it names the target.
    """
    # a name of its own: writers do not share drafts, and the target's may be as long as names can be
    draft = target.with_name(f".{secrets.token_hex(8)}{DRAFT_SUFFIX}")
    try:
        # not by tempfile: the user's umask decides who may read the file
        draft.open("xb").close()
        yield draft
        if sync:
            with draft.open("rb+") as written:
                os.fsync(written.fileno())
        draft.replace(target)
    except OSError as error:
        if error.errno is not None and error.filename in (None, str(draft)):
            raise OSError(error.errno, error.strerror, str(target)) from error
        raise
    finally:
        draft.unlink(missing_ok=True)
    if sync:
        sync_folder(target.parent)


def write_bytes(target: Path, data: bytes) -> None:
    """Write a file whole or not at all; it is on the disk when this returns. See `replacing`."""
    with replacing(target) as draft:
        draft.write_bytes(data)


def write_text(target: Path, text: str) -> None:
    """Write UTF-8 text with its line ends as they are; see `write_bytes`."""
    write_bytes(target, text.encode("utf-8"))


def write_lines(target: Path, lines: Iterable[str]) -> None:
    """Write lines of UTF-8 one after the other, each ended by a line feed; see `write_bytes`."""
    with replacing(target) as draft, draft.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(f"{line}\n" for line in lines)


def strangers(folder: Path, own: Container[str]) -> list[str]:
    """Names in a folder, if it is there, that are neither `own` nor of files that a kill left unfinished."""
    if not folder.is_dir():
        return []
    return [one.name for one in folder.iterdir() if one.name not in own and one.suffix != DRAFT_SUFFIX]


def sha256_of(path: Path) -> str:
    """Hash of a file's bytes, 64 hex digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sync_folder(folder: Path) -> None:
    """Put the names in a folder on the disk, where the system can."""
    if os.name == "nt":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        # Some network file systems cannot; the rename has happened all the same.
        with contextlib.suppress(OSError):
            os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def locked(file: Path, refusal: LimnerError | None = None) -> Iterator[None]:
    """Hold a lock that other threads and processes see; the system releases it after a kill.

    Args:
        file: of the lock, made if absent and left in place; it holds nothing.
        refusal: raised at once when someone else holds the lock; None waits for it.
    """
    lock = FileLock(file, timeout=-1 if refusal is None else 0, thread_local=False)
    try:
        lock.acquire(poll_interval=0.01)
    except Timeout as error:
        raise refusal or error from None
    try:
        yield
    finally:
        lock.release()


@contextmanager
def readable(path: Path, hint: str) -> Iterator[None]:
    """Says what is wrong with a file that is opened and read in the block.

    Args:
        path: the file.
        hint: what should be there, such as "a story folder holds x.jsonl".
    Raises:
        MissingError: no such file.
        DataError: it cannot be read, or is not UTF-8.
    """
    try:
        yield
    except LimnerError:
        raise
    except FileNotFoundError:
        raise MissingError(f"{path}: not there; {hint}") from None
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: byte {error.start} is not UTF-8; save the file as UTF-8") from error
    except (OSError, ValueError) as error:  # such as links in a circle, or a name that no file can have
        reason = (isinstance(error, OSError) and error.strerror) or error
        raise DataError(f"{path}: {reason}; expected a file that can be read") from error


def json_rows(
    path: Path,
    form: type[Row],
    *,
    one: str,
    see: str,
    key: str = "",
    holds: str = "expected a file of JSON lines",
) -> Iterator[tuple[str, Row]]:
    """Place and row of every line that is not blank.

    Args:
        path: the file.
        form: of a row.
        one: what a line holds, such as "story".
        see: where the form is described.
        key: field of which no value may come twice.
        holds: what should be there, for the message that it is not, such as "a story folder holds x.jsonl".
    Raises:
        MissingError: no such file.
        DataError: it cannot be read, is not UTF-8, a line is not of the form, or a key comes twice.
    """
    seen = set()
    with readable(path, holds), path.open("rb") as file:
        # only "\n" ends a line: JSON strings may hold U+2028 and similar characters
        for number, line in enumerate(file, start=1):
            where = f"{path.parent.name}/{path.name}:{number}"
            try:
                line.decode()
                if not line.strip():  # of bytes: only ASCII white space is blank
                    continue
                row = form.model_validate_json(line)
            except UnicodeDecodeError as error:
                raise DataError(
                    f"{where}: byte {error.start} is not UTF-8; save the file as UTF-8"
                ) from error
            except ValidationError as error:
                first = error.errors(include_url=False, include_input=False)[0]
                if first["type"] == "json_invalid":
                    reason = first["msg"].removeprefix("Invalid JSON: ")
                    raise DataError(f"{where}: not JSON ({reason}); each line holds one {one}") from error
                raise DataError(
                    f"{where}: {first_fault(error, 'the line')}; see {see} for the form"
                ) from error
            if key:
                named = getattr(row, key)
                if named in seen:
                    raise DataError(f"{where}: {key} {shown(named)!r} comes twice; each {one} has one line")
                seen.add(named)
            yield where, row


def first_fault(error: ValidationError, whole: str = "the file") -> str:
    """Place and message of the first fault in one line, such as ``pages.0.text: Field required``.

    Args:
        error: of a pydantic form.
        whole: the place of a fault of everything.
    """
    first = error.errors(include_url=False, include_input=False)[0]
    place = ".".join(shown(part) for part in first["loc"]) or whole
    return f"{place}: {first['msg'].removeprefix('Value error, ')}"


def shown(part: object) -> str:
    """A key of a file, which may hold line ends or a book, in one short line."""
    text = "".join(letter if letter.isprintable() else "·" for letter in str(part))
    return text if len(text) <= _LONGEST_KEY else f"{text[:_LONGEST_KEY]}…"


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


def below(folder: Path, name: str, where: str) -> Path:
    """The file that a name stands for; judged by the name, so that a link inside the folder may lead out.

    Raises:
        DataError: it lies outside the folder.
    """
    named = Path(name)
    if "\0" in name or named.is_absolute() or ".." in named.parts:
        raise DataError(
            f"{where}: picture {shown(name)!r} lies outside the folder; name it relative to {folder.name}"
        )
    return folder / named
