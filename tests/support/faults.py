"""A disk that fails, a process that dies and a power cut, for programs that run in this process.

Every change that Python code and SQLite make below a folder is counted, and the writes of safetensors and
the changes of Lance's tables as one each. What those two do inside of one is not covered here: `small_disk`
is for that. What is synced is noted, not waited for.
"""

import errno
import io
import os
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from sqlite_faults import sqlite_on

_OPEN, _IO = open, io.FileIO
_CHANGES = ("replace", "rename", "unlink", "remove", "mkdir", "rmdir", "link", "symlink", "truncate")
_OF_HANDLES = ("write", "fsync", "ftruncate", "posix_fallocate", "sendfile")


def _path_of(handle):
    return Path(f"/proc/self/fd/{handle}").readlink()


class KilledError(BaseException):
    """The process is gone: nothing that catches errors sees it, and nothing is written any more."""


class Disk:
    """What happens to the files below a folder.

    Attributes:
        calls: every change so far, such as "write library.json"; reading is none.
        dead: whether the process was killed.
    """

    def __init__(self, folder, *, fail_at=0, number=errno.ENOSPC, kill_at=0):
        """Take what goes wrong.

            Args:
                folder: below which changes count.
        XX
                number: of the system's refusal.
                kill_at: the change before which the process ends; 0 for none.
        """
        self.folder, self.fail_at, self.number, self.kill_at = (
            Path(folder).resolve(),
            fail_at,
            number,
            kill_at,
        )
        self.calls, self.dead = [], False
        self._held, self._root = [], self.folder.stat().st_ino
        self._contents, self._entries = {}, {}
        self._remember(self.folder)

    def change(self, what, place, refuse=None):
        """Count a change, or refuse it, or die."""
        if self.dead:
            raise KilledError
        self.calls.append(f"{what} {Path(os.fsdecode(place)).name}")
        if len(self.calls) == self.kill_at:
            self.dead = True
            raise KilledError
        if len(self.calls) == self.fail_at:
            error = OSError(self.number, os.strerror(self.number), str(place))
            raise error if refuse is None else refuse(self.number)

    def below(self, place):
        """Whether a path, or an open file, lies below the folder; links are not followed."""
        if isinstance(place, int):
            place = _path_of(place)
        return Path.cwd().joinpath(os.fsdecode(place)).is_relative_to(self.folder)

    def keep(self, place):
        """Content of a file, or names in a folder, as they are now, survive a power cut."""
        place = Path(place)
        self._hold(place)
        status = place.stat()
        if place.is_dir():
            self._entries[status.st_ino] = {
                one.name: (one.is_dir(), one.stat().st_ino) for one in place.iterdir() if self._hold(one)
            }
        else:
            with io.FileIO(place) as file:
                self._contents[status.st_ino] = file.readall()

    def after_power_cut(self, target):
        """A new folder with what was synced alone."""
        self._build(self._root, Path(target))

    def close(self):
        """Let go of the files that were held so that no other gets their numbers."""
        for handle in self._held:
            os.close(handle)
        self._held.clear()

    def _remember(self, folder):
        self.keep(folder)
        for one in folder.iterdir():
            if one.is_dir() and not one.is_symlink():
                self._remember(one)
            elif one.is_file():
                self.keep(one)

    def _hold(self, place):
        with suppress(FileNotFoundError):
            self._held.append(REAL["open"](place, os.O_RDONLY))
            return True
        return False

    def _build(self, number, target):
        target.mkdir()
        for name, (is_folder, inode) in self._entries.get(number, {}).items():
            if is_folder:
                self._build(inode, target / name)
            else:
                (target / name).write_bytes(self._contents.get(inode, b""))


REAL = {name: getattr(os, name) for name in ("open", *_CHANGES, *_OF_HANDLES)}


class _File(io.FileIO):
    """A file whose writes count; a refused one leaves half of what was to be written."""

    disk = None

    def write(self, data):
        try:
            self.disk.change("write", self.name)
        except OSError:
            super().write(bytes(data)[: len(data) // 2])
            raise
        return super().write(data)

    def truncate(self, size=None):
        self.disk.change("truncate", self.name)
        return super().truncate(size)


def _rust_refuses(kind):
    return lambda number: kind(f"LanceError(IO): {os.strerror(number)} (os error {number}), src/io.rs:1")


@contextmanager
def watching(folder, **faults):
    """Run what is in the block on a `Disk`; ends quietly where it kills."""
    disk = Disk(folder, **faults)
    with pytest.MonkeyPatch.context() as patch:
        _watch_files(disk, patch)
        _watch_libraries(disk, patch)
        try:
            with sqlite_on(disk):
                yield disk
        except BaseException:
            if not disk.dead:
                raise
        finally:
            disk.close()


def _watch_files(disk, patch):
    def opened(file, mode="r", buffering=-1, *rest, **more):
        if not set(mode) & set("wax+") or isinstance(file, int) or not disk.below(file):
            return _OPEN(file, mode, buffering, *rest, **more)
        disk.change("open", file)
        words = {**dict(zip(("encoding", "errors", "newline"), rest, strict=False)), **more}
        raw = type("File", (_File,), {"disk": disk})(
            file, mode.replace("b", "").replace("t", ""), opener=words.pop("opener", None)
        )
        if buffering == 0:
            return raw
        buffered = (io.BufferedRandom if "+" in mode else io.BufferedWriter)(raw)
        return buffered if "b" in mode else io.TextIOWrapper(buffered, **words)

    def os_open(path, flags, mode=0o777, *, dir_fd=None):
        if flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT) and dir_fd is None and disk.below(path):
            disk.change("open", path)
        return REAL["open"](path, flags, mode, dir_fd=dir_fd)

    def of_path(name):
        def act(path, *rest, **more):
            at = more.get("dir_fd")
            place = path if at is None else _path_of(at) / os.fsdecode(path)
            if disk.below(place):
                disk.change(name, place)
            return REAL[name](path, *rest, **more)

        return act

    def of_handle(name):
        def act(handle, *rest, **more):
            if not disk.below(handle):
                return REAL[name](handle, *rest, **more)
            disk.change(name, _path_of(handle))
            return disk.keep(_path_of(handle)) if name == "fsync" else REAL[name](handle, *rest, **more)

        return act

    for module in ("builtins", "io"):
        patch.setattr(f"{module}.open", opened)
    patch.setattr(os, "open", os_open)
    for name in _CHANGES:
        patch.setattr(os, name, of_path(name))
    for name in _OF_HANDLES:
        patch.setattr(os, name, of_handle(name))


def _watch_libraries(disk, patch):
    import lance
    from lance.dataset import DatasetOptimizer, LanceDataset, MergeInsertBuilder
    from safetensors import SafetensorError

    from limner.research.training import checkpoint

    def counted(owner, method, what, kind):
        real = getattr(owner, method)

        def act(self, *rest, **more):
            disk.change(
                what, str(getattr(self, "name", "") or (rest[0] if rest else "")), _rust_refuses(kind)
            )
            return real(self, *rest, **more)

        patch.setattr(owner, method, act)

    for owner, method in (
        (MergeInsertBuilder, "execute"),
        (LanceDataset, "insert"),
        (LanceDataset, "delete"),
        (LanceDataset, "create_scalar_index"),
        (LanceDataset, "cleanup_old_versions"),
        (DatasetOptimizer, "compact_files"),
        (DatasetOptimizer, "optimize_indices"),
    ):
        counted(owner, method, f"lance {method}", OSError)
    create = lance.write_dataset

    def write_dataset(data, place, **more):
        disk.change("lance write_dataset", str(place), _rust_refuses(OSError))
        return create(data, place, **more)

    patch.setattr(lance, "write_dataset", write_dataset)
    save = checkpoint.save_file

    def save_file(tensors, name, metadata):
        disk.change("safetensors", name, _rust_refuses(SafetensorError))
        save(tensors, name, metadata)

    patch.setattr(checkpoint, "save_file", save_file)
