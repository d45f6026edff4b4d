"""A library in one file, with its own pictures and projects, and back again.

Everything in its folder is kept but what can be made again (caches, small copies). The archive is a ZIP that
ends with a list of its files and their hashes, against which it is read back.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import secrets
import shutil
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path, PurePosixPath
from typing import IO, Literal

from pydantic import Field, ValidationError

from limner.errors import DataError, LimnerError, MissingError
from limner.files import DRAFT_SUFFIX, first_fault, locked, replacing, sync_folder, whole_path
from limner.library.library import Library
from limner.library.migrate import CHANGED, relocate, upgrade
from limner.library.store import FORMAT, SETTINGS_FILE, read_settings
from limner.records import Record, limner_version

LIST = "limner-backup.json"
PROJECTS, TRASH = "projects", "trash"
_LEFT_OUT = frozenset(("cache", "thumbnails"))
_BEFORE = "before-format-"
_BLOCK = 2**20
_MOST_LIST_BYTES = 2**30
_TEXTS = frozenset((".json", ".txt"))  # all else hardly shrinks


class Kept(Record):
    """One file of a backup: bytes, time of modification and SHA-256."""

    size: int = Field(ge=0)
    mtime_ns: int
    sha256: str = Field(pattern="^[0-9a-f]{64}$")


class Backup(Record):
    """What a backup holds.

    Attributes:
        backup_format: of this list.
        version: of limner that wrote it.
        library_format: of the library.
        home: folder of the library, absolute; odd bytes as surrogates.
        files: name relative to that folder → what it is.
    """

    backup_format: Literal[1] = 1
    version: str
    library_format: int
    home: str
    files: dict[str, Kept]

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(one.size for one in self.files.values())

    @property
    def projects(self) -> int:
        """Number of projects, those in the trash left out."""
        parts = [PurePosixPath(name).parts for name in self.files]
        return sum(len(one) == 3 and one[0] == PROJECTS and one[2] == "project.json" for one in parts)


def backup(folder: Path, target: Path) -> Backup:
    """Write a library into a file, whole or not at all, and read it back.

    Its tables are kept from changing meanwhile, and each project while it is copied; a studio may run.

    Args:
        folder: of the library.
        target: the file to appear.
    Raises:
        MissingError: no library.
        DataError: another process is writing to the library, the target is there or lies in the library, or
            what was written cannot be read back.
        OSError: no room, or no right to write.
    """
    settings, home = read_settings(folder), whole_path(folder)
    if target.exists():
        raise DataError(f"{target}: there already; name a new file")
    if home in whole_path(target).parents:
        raise DataError(f"{target}: lies in the library itself; name a file outside {folder}")
    refusal = DataError(f"{folder}: in use, another process is indexing into it; try again when it has ended")
    with _lock(home / "lock", refusal):
        return pack(home, target, lambda: _files(home), settings.format)


def pack(home: Path, target: Path, listed: Callable[[], Iterable[Path]], library_format: int) -> Backup:
    """Write some files of a library into an archive, whole or not at all, and read it back.

    Args:
        home: folder of the library, absolute.
        target: the file to appear.
        listed: the files; asked again until nothing new has appeared.
        library_format: of the library.
    """
    files: dict[str, Kept] = {}
    done: set[Path] = set()
    with replacing(target) as draft:
        with zipfile.ZipFile(draft, "w") as archive:
            while new := {_unit(home, one) for one in listed()} - done:
                for unit in sorted(new):
                    # a project changes as one: its file names the texts and storyboards beside it
                    project = unit.is_dir()
                    with _lock(unit / "lock") if project else nullcontext():
                        for path in _files(unit) if project else (unit,):
                            _add(archive, home, path, files)
                done |= new
            made = Backup(
                version=limner_version(), library_format=library_format, home=str(home), files=files
            )
            # ASCII keeps the surrogates that stand for odd bytes in names
            archive.writestr(LIST, json.dumps(made.model_dump()), zipfile.ZIP_DEFLATED)
        if _opened(draft, target, lambda archive, held: _check(archive, held, target)) != made:
            raise DataError(f"{target}: not as it was written; the disk may be failing, try another one")
    return made


def keep_changing(folder: Path) -> Path | None:
    """Keep what `limner.library.migrate.upgrade` is going to change, in a file in the library's folder.

    Returns:
        The file, which may be of an earlier try; None for a library of the current format.
    Raises:
        MissingError: no library.
        DataError: another process is writing to it, or a newer limner wrote it.
    """
    library, home = Library.open(folder), whole_path(folder)
    number = library.settings.format
    if number >= FORMAT:
        return None
    target = folder / f"{_BEFORE}{FORMAT}.zip"
    tables = {table for one in range(number, FORMAT) for table in CHANGED[one]}
    places = [home / "tables" / f"{table}.lance" for table in tables]
    if not target.exists():
        with library.writing():
            pack(
                home, target, lambda: [home / SETTINGS_FILE, *(f for p in places for f in _files(p))], number
            )
    return target


def restore(
    file: Path, folder: Path, *, move_projects: Callable[[Path, str, str], None] = lambda *_: None
) -> Backup:
    """Make a library of a backup, whole or not at all.

    In another folder than the one that was backed up, what the library says of its own pictures is changed to
    name them there.

    Args:
        file: as `backup` wrote it.
        folder: of the library to appear; it is not there yet, or empty.
        move_projects: does the same in a folder of projects: (folder, old place, new place).
    Raises:
        MissingError: no such file.
        DataError: it is damaged, no backup, of a newer limner, or names files outside; or the folder holds
            something, or has no room.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise DataError(f"{folder}: holds something already; name a new folder")
    home = whole_path(folder)
    home.parent.mkdir(parents=True, exist_ok=True)
    draft = home.with_name(f".{secrets.token_hex(8)}{DRAFT_SUFFIX}")

    def extracted(archive: zipfile.ZipFile, held: Backup) -> None:
        free = shutil.disk_usage(home.parent).free
        if held.size > free:
            raise DataError(f"{home.parent}: {free:,} bytes are free; the backup needs {held.size:,}")
        draft.mkdir()
        _check(archive, held, file, draft)

    try:
        held = _opened(file, file, extracted)
        upgrade(draft)
        if held.home != str(home):
            relocate(draft, held.home, str(home))
            if (draft / PROJECTS).is_dir():
                move_projects(draft / PROJECTS, held.home, str(home))
        if home.is_dir():
            home.rmdir()
        draft.rename(home)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    sync_folder(home.parent)
    return held


def _files(folder: Path) -> Iterator[Path]:
    """Every file that a backup holds, in order of names; linked folders are not entered."""
    for name, folders, files in os.walk(folder):
        place = Path(name)
        inner = [one for one in folders if not one.endswith((DRAFT_SUFFIX, ".part"))]
        folders[:] = sorted(one for one in inner if place != folder or one not in _LEFT_OUT)
        for one in sorted(files):
            if one != "lock" and not one.endswith(DRAFT_SUFFIX) and not one.startswith(_BEFORE):
                yield place / one


def _unit(home: Path, path: Path) -> Path:
    """What is copied at once: the folder of a project, or a file."""
    parts = path.relative_to(home).parts
    whole = len(parts) > 2 and parts[0] == PROJECTS and parts[1] != TRASH
    return home.joinpath(*parts[:2]) if whole else path


@contextmanager
def _lock(file: Path, refusal: LimnerError | None = None) -> Iterator[None]:
    """As `locked`; what cannot be written nobody changes, and what is gone needs no lock."""
    held: AbstractContextManager[None] = nullcontext()
    if os.access(file.parent, os.W_OK):
        held = locked(file, refusal)
    with held:
        yield


def _add(archive: zipfile.ZipFile, home: Path, path: Path, files: dict[str, Kept]) -> None:
    name = path.relative_to(home).as_posix()
    try:
        name.encode()
    except UnicodeEncodeError:
        raise DataError(f"{str(path)!a}: its name is not UTF-8, as a backup needs; rename it") from None
    try:
        source = path.open("rb")
    except FileNotFoundError:  # moved since it was listed, as to the trash, where it is met later
        return
    with source:
        status = os.fstat(source.fileno())
        info = zipfile.ZipInfo(name)  # times are in the list, to the nanosecond
        info.compress_type = zipfile.ZIP_DEFLATED if path.suffix in _TEXTS else zipfile.ZIP_STORED
        with archive.open(info, "w", force_zip64=True) as out:
            size, sha256 = _copy(source, out)
    files[name] = Kept(size=size, mtime_ns=status.st_mtime_ns, sha256=sha256)


def _copy(source: IO[bytes], out: IO[bytes] | None, most: int = 2**63) -> tuple[int, str]:
    """Copy all, or read it where there is no target; number of bytes and SHA-256.

    Args:
        source: to its end.
        out: where it goes.
        most: bytes after which no more is read.
    """
    digest, size = hashlib.sha256(), 0
    while size <= most and (block := source.read(_BLOCK)):
        digest.update(block)
        size += len(block)
        if out is not None:
            out.write(block)
    return size, digest.hexdigest()


def _opened(file: Path, named: Path, use: Callable[[zipfile.ZipFile, Backup], None]) -> Backup:
    """What a backup lists, after something was done with it.

    Args:
        file: the archive.
        named: it in messages.
        use: called with the archive and its list, whose paths are checked.
    """
    try:
        with zipfile.ZipFile(file) as archive:
            if archive.getinfo(LIST).file_size > _MOST_LIST_BYTES:
                raise DataError(f"{named}: its list of files is too long; expected a backup of a library")
            held = Backup.model_validate_json(archive.read(LIST))
            if held.library_format > FORMAT:
                raise DataError(
                    f"{named}: library format {held.library_format}; this limner reads {FORMAT}; install a"
                    " newer limner"
                )
            names = sorted(one.filename for one in archive.infolist())
            if names != sorted([*held.files, LIST]):
                raise DataError(f"{named}: damaged (its list names other files than it holds)")
            for name in held.files:
                _inside(name, named)
            if SETTINGS_FILE not in held.files:
                raise DataError(f"{named}: damaged (it holds no {SETTINGS_FILE})")
            use(archive, held)
            return held
    except FileNotFoundError as error:
        raise MissingError(f"{named}: no such file; name one that 'limner library backup' wrote") from error
    except KeyError as error:
        raise DataError(f"{named}: no backup of a library (it holds no {LIST})") from error
    except ValidationError as error:
        raise DataError(f"{named}: {first_fault(error)}; damaged, or of a newer limner") from error
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        raise DataError(f"{named}: damaged or no backup ({error}); use another copy of it") from error
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        # a damaged directory can place a file before the archive's first byte
        raise DataError(f"{named}: damaged (its directory leads outside it); use another copy") from error


def _inside(name: str, named: Path) -> None:
    """Refuse a name that could lead out of a folder on any system."""
    parts = name.split("/")
    odd = set(name) & set("\\:\0") or name.startswith("/") or not name.isprintable()
    if odd or any(part in ("", ".", "..") for part in parts):
        raise DataError(f"{named}: names {ascii(name)[:80]}, which lies outside the library; not restored")


def _check(archive: zipfile.ZipFile, held: Backup, named: Path, folder: Path | None = None) -> None:
    """Read every file, into a folder where one is given, and compare it with the list."""
    for name, kept in held.files.items():
        with archive.open(name) as source:
            if folder is None:
                found = _copy(source, None, kept.size)
            else:
                target = folder / name
                target.parent.mkdir(parents=True, exist_ok=True)
                with target.open("xb") as out:
                    found = _copy(source, out, kept.size)
                    out.flush()
                    os.fsync(out.fileno())
                os.utime(target, ns=(kept.mtime_ns, kept.mtime_ns))
        if found != (kept.size, kept.sha256):
            raise DataError(f"{named}: {name} is damaged; use another copy of the backup")
