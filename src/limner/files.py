"""Atomic writing of files, errors of full disks, locks between processes, and JSON Lines."""

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
"""Extension of a file that is being written; those left by a killed process may be removed."""
PRIVATE_FILE, PRIVATE_FOLDER = 0o600, 0o700
"""Mode of files that only the owner may read, such as the votes of a study."""
_LONGEST_KEY = 40
_CHUNK_BYTES = 1 << 20
_FREE = "free some space and try again"
_REMEDIES = {
    errno.ENOSPC: _FREE,
    errno.EDQUOT: _FREE,
    errno.EFBIG: "raise the limit on the size of files and try again",
    errno.EROFS: "make it writable or choose another location",
    errno.EIO: "check the disk, then try again",
}
_OF_SQLITE = {13: errno.ENOSPC, 10: errno.EIO, 8: errno.EROFS}
_SQLITE_SHARED_SIZE = 4874  # the disk has no room for the memory that connections share
_OF_RUST = re.compile(r"\(os error (\d+)\)")


def storage_error(error: BaseException, place: Path | str, wanted: int | None = None) -> StorageError | None:
    """Convert an error of a full, read-only or failing disk to a StorageError; None for other errors.

    Args:
        error: error of the system, or of a library that wraps it: Lance, safetensors or SQLite.
        place: file or folder that was to be written.
        wanted: number of bytes that were to be written, if known.
    """
    if isinstance(error, StorageError):
        return error
    told = _OF_RUST.search(str(error))
    number = error.errno if isinstance(error, OSError) and error.errno else int(told[1]) if told else 0
    code = vars(error).get("sqlite_errorcode", 0)  # only SQLite's errors have this attribute
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
    """Convert errors of the disk in the block to a StorageError.

    Args:
        place: see `storage_error`.
        wanted: see `storage_error`.
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
    """Allocate disk space for zeros at the end of a file.

    A memory-mapped file must not be sparse: if the disk is full when a hole is filled, the system kills the
    process.

    Args:
        file: file, open for writing.
        size: number of bytes.
    Raises:
        OSError: the disk does not have that much space.
    """
    if not size:
        return
    try:
        os.posix_fallocate(file.fileno(), file.tell(), size)
    except (AttributeError, OSError) as error:  # not supported by the system or the file system
        if isinstance(error, OSError) and error.errno not in (errno.EINVAL, errno.EOPNOTSUPP, errno.ENOSYS):
            raise
        for done in range(0, size, _CHUNK_BYTES):
            file.write(bytes(min(_CHUNK_BYTES, size - done)))


@contextmanager
def replacing(
    target: Path, *, sync: bool = True, wanted: int | None = None, private: bool = False
) -> Iterator[Path]:
    """Create a temporary file next to `target` that replaces it when the block succeeds.

    If the block raises an error, the temporary file is removed and the target is unchanged.

    Args:
        target: the file, in an existing folder; an existing file is replaced in one step.
        sync: whether content and name are flushed to the disk when the block ends; False for files that are
            cheap to create again and checked when read.
        wanted: number of bytes that will be written, if known.
        private: whether only the owner may read the file; otherwise the user's umask applies.
    Yields:
        Path of an empty file in the same folder.
    Raises:
        StorageError: the disk is full, over a quota, read-only, or failing.
        OSError: the folder cannot be written; the error names the target.
    """
    # a unique name, so that writers do not share drafts; and a short one, because the target's may have the
    # maximum length
    draft = target.with_name(f".{secrets.token_hex(8)}{DRAFT_SUFFIX}")
    try:
        # not with tempfile, so that the user's umask applies
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
        with contextlib.suppress(OSError):  # a read-only or failing disk may not allow it
            draft.unlink(missing_ok=True)
    if sync:
        sync_folder(target.parent)


def write_bytes(target: Path, data: bytes, *, private: bool = False) -> None:
    """Write a file atomically and flush it to the disk. See `replacing`."""
    with replacing(target, wanted=len(data), private=private) as draft:
        draft.write_bytes(data)


def write_text(target: Path, text: str, *, private: bool = False) -> None:
    """Write UTF-8 text without changing its line ends; see `write_bytes`."""
    write_bytes(target, text.encode("utf-8"), private=private)


def write_lines(target: Path, lines: Iterable[str]) -> None:
    """Write lines of UTF-8, each ended by a newline; see `write_bytes`."""
    with replacing(target) as draft, draft.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(f"{line}\n" for line in lines)


def strangers(folder: Path, own: Container[str]) -> list[str]:
    """Names in a folder, if it exists, except `own` and those of unfinished files."""
    if not folder.is_dir():
        return []
    return [one.name for one in folder.iterdir() if one.name not in own and one.suffix != DRAFT_SUFFIX]


def remove_drafts(folder: Path) -> None:
    """Remove unfinished files of killed processes; the caller must be the only writer of the folder."""
    for draft in folder.glob(f".*{DRAFT_SUFFIX}"):
        # Windows does not remove a file that another process has mapped; a later call does.
        with contextlib.suppress(OSError):
            draft.unlink()


def sha256_of(path: Path) -> str:
    """SHA-256 of a file's bytes, 64 hex digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sync_folder(folder: Path) -> None:
    """Flush the names in a folder to the disk, if the system supports it."""
    if os.name == "nt":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        refused = storage_error(error, folder)
        if refused is not None:
            raise refused from error
        # Some network file systems do not support it; the rename has happened anyway.
    finally:
        os.close(handle)


def data_folder() -> Path:
    """Folder of the user's application data on this machine."""
    return user_data_path("limner", appauthor=False)


def make_folder(folder: Path, *, private: bool = False) -> None:
    """Create a folder and its missing parents, and flush their names to the disk.

    Args:
        folder: the folder.
        private: whether only the owner may open the new folders; otherwise the user's umask applies.
    """
    missing = [one for one in (folder, *folder.parents) if not one.exists()]
    for one in reversed(missing):
        one.mkdir(mode=PRIVATE_FOLDER if private else 0o777, exist_ok=True)
        sync_folder(one.parent)
    folder.mkdir(exist_ok=True)  # raises an error if a file has that name


def make_private(place: Path) -> None:
    """Make a file, or a folder with its content, readable only by the owner.

    Raises:
        OSError: the file belongs to another user.
    """
    for one in (place, *place.rglob("*")):
        one.chmod(PRIVATE_FOLDER if one.is_dir() else PRIVATE_FILE)


def sync_tree(folder: Path, done: set[tuple[int, int, int]], last: str = "") -> None:
    """Flush all files in a folder and its subfolders to the disk, with their names.

    Args:
        folder: folder that other programs or libraries wrote to.
        done: files that have already been flushed; new ones are added.
        last: name of the folders that refer to the others, which are flushed last.
    """
    places = list(os.walk(folder, topdown=False))
    for place, _, names in sorted(places, key=lambda found: found[0].endswith(f"{os.sep}{last}")):
        # Most files have been flushed; creating a `Path` for each would take ten times as long.
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
    """Acquire a lock between threads and processes; the system releases it if the process is killed.

    Args:
        file: file of the lock, created if missing and never removed; it stays empty.
        refusal: error to raise if the lock is taken; None waits for it.
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
    """Report errors of a file that the block opens and reads.

    Args:
        path: the file.
        hint: the expected content, such as "a story folder holds x.jsonl".
    Raises:
        MissingError: the file does not exist.
        DataError: the file cannot be read, or is not UTF-8.
    """
    try:
        yield
    except LimnerError:
        raise
    except FileNotFoundError:
        raise MissingError(f"{path}: does not exist; {hint}") from None
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: byte {error.start} is not UTF-8; save the file as UTF-8") from error
    except (OSError, ValueError) as error:  # for example circular links, or an impossible name
        reason = (isinstance(error, OSError) and error.strerror) or error
        raise DataError(f"{path}: {reason}; expected a file that can be read") from error


def json_rows(
    path: Path,
    form: type[Row],
    *,
    one: str,
    see: str,
    key: str = "",
    holds: str = "expected a JSON Lines file",
) -> Iterator[tuple[str, Row]]:
    """Yield location and row of every line that is not blank.

    Args:
        path: the file.
        form: model of a row.
        one: name of a row, such as "story".
        see: document that describes the form.
        key: field with unique values.
        holds: the expected file, for messages, such as "a story folder holds x.jsonl".
    Raises:
        MissingError: the file does not exist.
        DataError: the file cannot be read or is not UTF-8, a line is not of the form, or a key is repeated.
    """
    from pydantic import ValidationError  # imported already by the module that defines the form

    seen = set()
    with readable(path, holds), path.open("rb") as file:
        # only "\n" ends a line: JSON strings may hold U+2028 and similar characters
        for number, line in enumerate(file, start=1):
            where = f"{path.parent.name}/{path.name}:{number}"
            try:
                line.decode()
                if not line.strip():  # in bytes, only ASCII white space counts as blank
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
                    raise DataError(f"{where}: not JSON ({reason}); expected one {one} per line") from error
                raise DataError(
                    f"{where}: {first_fault(error, 'the line')}; see {see} for the form"
                ) from error
            if key:
                named = getattr(row, key)
                if named in seen:
                    raise DataError(f"{where}: {key} {shown(named)!r} occurs twice; each {one} has one line")
                seen.add(named)
            yield where, row


def first_fault(error: "ValidationError", whole: str = "the file") -> str:
    """Location and message of the first error in one line, such as ``pages.0.text: Field required``.

    Args:
        error: error of a pydantic model.
        whole: location of an error that concerns no field.
    """
    first = error.errors(include_url=False, include_input=False)[0]
    place = ".".join(shown(part) for part in first["loc"]) or whole
    return f"{place}: {first['msg'].removeprefix('Value error, ')}"


def shown(part: object) -> str:
    """Format a key of a file, which may contain newlines or a whole book, in one short line."""
    text = "".join(letter if letter.isprintable() else "·" for letter in str(part))
    return text if len(text) <= _LONGEST_KEY else f"{text[:_LONGEST_KEY]}…"


def is_there(path: Path) -> bool:
    """Whether a file exists; False for an impossible name."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def whole_path(folder: Path | str) -> Path:
    """Resolve a folder to its absolute path without links.

    Raises:
        DataError: the links are circular, or the name is impossible.
    """
    try:
        return Path(folder).resolve()
    except (OSError, RuntimeError, ValueError) as error:
        raise DataError(
            f"{str(folder)[:200]!r}: {str(error)[:100]}; expected a folder that can be opened"
        ) from None


def below(folder: Path, name: str, where: str) -> Path:
    """Path of a file in a folder. Only the name is checked: a link inside the folder may lead outside.

    Raises:
        DataError: the name leads outside the folder.
    """
    named = Path(name)
    if "\0" in name or named.is_absolute() or ".." in named.parts:
        raise DataError(
            f"{where}: picture {shown(name)!r} lies outside the folder; name it relative to {folder.name}"
        )
    return folder / named


def display(path: bytes) -> str:
    """Convert a path to text; bytes that are not UTF-8 are escaped."""
    return path.decode("utf-8", "backslashreplace")


def composed(path: bytes) -> bytes:
    """Normalise a path to composed form (NFC): a Mac's disk stores é as two characters."""
    return path if path.isascii() else os.fsencode(composed_text(os.fsdecode(path)))


def composed_text(name: str) -> str:
    """Normalise a name or text like `composed`."""
    return unicodedata.normalize("NFC", name)


def as_on_disk(path: Path) -> Path:
    """Find a path on a disk that may store é as two characters.

    Returns:
        Path of the existing file with the same `composed` name; if there is none, the path itself.
    """
    if str(path).isascii() or path.exists() or path == path.parent:
        return path
    folder, wanted = as_on_disk(path.parent), composed_text(path.name)
    there = folder.iterdir() if folder.is_dir() else ()
    return next((one for one in there if composed_text(one.name) == wanted), folder / path.name)
