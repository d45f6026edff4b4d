"""Files that a kill or a full disk leaves old or new, never half; locks between processes; JSON lines."""

import contextlib
import errno
import hashlib
import os
import re
import secrets
import shutil
import unicodedata
from collections.abc import Container, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, TypeVar

from filelock import FileLock, Timeout
from platformdirs import user_data_path

from limner.errors import DataError, LimnerError, MissingError, StorageError, counted

if TYPE_CHECKING:
    from pydantic import BaseModel, ValidationError

Row = TypeVar("Row", bound="BaseModel")
DRAFT_SUFFIX = ".limner-part"
"""Ends the name of a file that is being written; what a kill leaves behind may be removed."""
PRIVATE_FILE, PRIVATE_FOLDER = 0o600, 0o700
"""Rights of what its owner alone may read, such as the votes of a study, whatever the umask."""
_LONGEST_KEY = 40
_CHUNK_BYTES = 1 << 20
_FREE = "free some space and do it again"
_REMEDIES = {
    errno.ENOSPC: _FREE,
    errno.EDQUOT: _FREE,
    errno.EFBIG: "raise the limit on the size of files and do it again",
    errno.EROFS: "make it writable or name another place",
    errno.EIO: "see whether the disk is sound, then do it again",
}
_OF_SQLITE = {13: errno.ENOSPC, 10: errno.EIO, 8: errno.EROFS}
_SQLITE_SHARED_SIZE = 4874  # no room for the memory that connections share
_OF_RUST = re.compile(r"\(os error (\d+)\)")


def storage_error(error: BaseException, place: Path | str, wanted: int | None = None) -> StorageError | None:
    """What an error says of the disk, in one line; None where it says nothing of it.

    Args:
        error: of the system, or of a library in which it is wrapped: Lance, safetensors or SQLite.
        place: file or folder that was to be written.
        wanted: bytes that were to be written there, where that is known.
    """
    if isinstance(error, StorageError):
        return error
    told = _OF_RUST.search(str(error))
    number = error.errno if isinstance(error, OSError) and error.errno else int(told[1]) if told else 0
    code = vars(error).get("sqlite_errorcode", 0)  # SQLite's own errors have it, those of its module do not
    number = errno.ENOSPC if code == _SQLITE_SHARED_SIZE else _OF_SQLITE.get(code & 0xFF, number)
    remedy = _REMEDIES.get(number)
    if remedy is None:
        return None
    sizes = [] if wanted is None else [f"{counted(wanted, 'byte')} wanted"]
    if remedy == _FREE:
        with contextlib.suppress(OSError):
            near = next(one for one in (Path(place), *Path(place).parents) if one.exists())
            sizes.append(f"{shutil.disk_usage(near).free:,} free")
    sized = f" ({', '.join(sizes)})" if sizes else ""
    return StorageError(number, f"{os.strerror(number)}{sized}", str(place), remedy)


@contextmanager
def storing(place: Path | str, wanted: int | None = None) -> Iterator[None]:
    """Say in one line where the disk does not take what is written in the block.

    Args:
        place: as of `storage_error`.
        wanted: likewise.
    Raises:
        StorageError: the disk is full, over a quota, read-only, or failing.
    """
    try:
        yield
    # The databases raise plain ValueError, RuntimeError and OSError.
    except Exception as error:
        refused = storage_error(error, place, wanted)
        if refused is None or refused is error:
            raise
        raise refused from error


def reserve(file: BinaryIO, size: int) -> None:
    """Take the place on the disk that so many zeros need after what was written to a file.

    A file that is mapped into memory must not have holes: where the disk is full when one is filled, the
    system ends the process by a signal.

    Raises:
        OSError: the disk is full; so many bytes are not to be had.
    """
    if not size:
        return
    try:
        os.posix_fallocate(file.fileno(), file.tell(), size)
    except (AttributeError, OSError) as error:  # not of this system, or not of this file system
        if isinstance(error, OSError) and error.errno not in (errno.EINVAL, errno.EOPNOTSUPP, errno.ENOSYS):
            raise
        for done in range(0, size, _CHUNK_BYTES):
            file.write(bytes(min(_CHUNK_BYTES, size - done)))


@contextmanager
def replacing(
    target: Path, *, sync: bool = True, wanted: int | None = None, private: bool = False
) -> Iterator[Path]:
    """A temporary file beside `target` that takes its place when the block ends well.

    When the block raises, the temporary file is removed and the target is untouched.

    Args:
        target: the file to appear, in a folder that exists; an existing file is replaced in one step.
        sync: whether content and name are on the disk when the block ends; False for what is cheap to make
            again and checked when read.
        wanted: bytes that will be written, where that is known.
        private: whether nobody but its owner may read it; else the user's umask decides.
    Yields:
        an empty file in the same folder, to be written.
    Raises:
        StorageError: the disk is full, over a quota, read-only, or failing.
        OSError: the folder cannot be written; it names the target.
    """
    # a name of its own: writers do not share drafts, and the target's may be as long as names can be
    draft = target.with_name(f".{secrets.token_hex(8)}{DRAFT_SUFFIX}")
    try:
        # not by tempfile: the user's umask decides who may read the file
        draft.touch(mode=PRIVATE_FILE if private else 0o666, exist_ok=False)
        yield draft
        if sync:
            with draft.open("rb+") as written:
                os.fsync(written.fileno())
        draft.replace(target)
    except OSError as error:
        if error.errno is not None and error.filename in (None, str(draft)):
            refused = storage_error(error, target, wanted)
            if refused is not None:
                raise refused from error
            raise OSError(error.errno, error.strerror, str(target)) from error
        raise
    finally:
        with contextlib.suppress(OSError):  # a read-only or failing disk keeps it
            draft.unlink(missing_ok=True)
    if sync:
        sync_folder(target.parent)


def write_bytes(target: Path, data: bytes, *, private: bool = False) -> None:
    """Write a file whole or not at all; it is on the disk when this returns. See `replacing`."""
    with replacing(target, wanted=len(data), private=private) as draft:
        draft.write_bytes(data)


def write_text(target: Path, text: str, *, private: bool = False) -> None:
    """Write UTF-8 text with its line ends as they are; see `write_bytes`."""
    write_bytes(target, text.encode("utf-8"), private=private)


def write_lines(target: Path, lines: Iterable[str]) -> None:
    """Write lines of UTF-8 one after the other, each ended by a line feed; see `write_bytes`."""
    with replacing(target) as draft, draft.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(f"{line}\n" for line in lines)


def strangers(folder: Path, own: Container[str]) -> list[str]:
    """Names in a folder, if it is there, that are neither `own` nor of files that a kill left unfinished."""
    if not folder.is_dir():
        return []
    return [one.name for one in folder.iterdir() if one.name not in own and one.suffix != DRAFT_SUFFIX]


def remove_drafts(folder: Path) -> None:
    """Remove what killed writers left in a folder, of which the caller is the only writer."""
    for draft in folder.glob(f".*{DRAFT_SUFFIX}"):
        # Windows keeps a file that another process has mapped; the next one to come removes it.
        with contextlib.suppress(OSError):
            draft.unlink()


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
        os.fsync(handle)
    except OSError as error:
        refused = storage_error(error, folder)
        if refused is not None:
            raise refused from error
        # Some network file systems cannot; the rename has happened all the same.
    finally:
        os.close(handle)


def data_folder() -> Path:
    """Where programs keep the user's data on this machine."""
    return user_data_path("limner", appauthor=False)


def make_folder(folder: Path, *, private: bool = False) -> None:
    """Make a folder and those above it, where they are absent; their names are on the disk then.

    Args:
        folder: to make.
        private: whether nobody but their owner may open those that are made; else the user's umask decides.
    """
    missing = [one for one in (folder, *folder.parents) if not one.exists()]
    for one in reversed(missing):
        one.mkdir(mode=PRIVATE_FOLDER if private else 0o777, exist_ok=True)
        sync_folder(one.parent)
    folder.mkdir(exist_ok=True)  # refuses a file in its place


def make_private(place: Path) -> None:
    """Let nobody but its owner read a file, or a folder with all that is in it.

    Raises:
        OSError: it belongs to somebody else.
    """
    for one in (place, *place.rglob("*")):
        one.chmod(PRIVATE_FOLDER if one.is_dir() else PRIVATE_FILE)


def sync_tree(folder: Path, done: set[tuple[int, int, int]], last: str = "") -> None:
    """Put all files in a folder, and in those below it, on the disk with their names.

    Args:
        folder: that other programs or libraries wrote to.
        done: what was there before and has not changed since; grows.
        last: name of the folders that speak of the others, so that what they name is on the disk before them.
    """
    places = list(os.walk(folder, topdown=False))
    for place, _, names in sorted(places, key=lambda found: found[0].endswith(f"{os.sep}{last}")):
        # Most files are done: no `Path` is made of them, which would take ten times as long.
        for path in (*(f"{place}{os.sep}{name}" for name in names), place):
            with contextlib.suppress(FileNotFoundError):  # another process removed it
                status = os.stat(path)  # noqa: PTH116
                mark = (status.st_ino, status.st_mtime_ns, status.st_size)
                if mark not in done:
                    sync_folder(Path(path)) if path == place else _sync_file(Path(path))
                    done.add(mark)


def _sync_file(path: Path) -> None:
    handle = os.open(path, os.O_RDWR if os.name == "nt" else os.O_RDONLY)
    try:
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
    from pydantic import ValidationError  # whoever has a form has imported it

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


def first_fault(error: "ValidationError", whole: str = "the file") -> str:
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


def display(path: bytes) -> str:
    """A path as text to show and store; bytes that are no UTF-8 are escaped."""
    return path.decode("utf-8", "backslashreplace")


def composed(path: bytes) -> bytes:
    """A path with each accent and its letter in one: the disk of a Mac writes é as two, and means one."""
    return path if path.isascii() else os.fsencode(composed_text(os.fsdecode(path)))


def composed_text(name: str) -> str:
    """As `composed`, of a name or of words."""
    return unicodedata.normalize("NFC", name)


def as_on_disk(path: Path) -> Path:
    """A path as the disk writes it, which may have é as two letters where whoever names it has one.

    Returns:
        The path itself where it is there, or nothing of its `composed` name is.
    """
    if str(path).isascii() or path.exists() or path == path.parent:
        return path
    folder, wanted = as_on_disk(path.parent), composed_text(path.name)
    there = folder.iterdir() if folder.is_dir() else ()
    return next((one for one in there if composed_text(one.name) == wanted), folder / path.name)
