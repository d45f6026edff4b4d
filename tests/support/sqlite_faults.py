"""The writes and syncs of SQLite, unseen by Python, on a `Disk`: between the library and the system.

SQLite reaches files through a table of functions that a program may replace (https://sqlite.org/vfs.html).
Where Python's own copy of the library lets nobody in, `available` is False.
"""

import _sqlite3
import ctypes
import errno
import os
from contextlib import contextmanager
from ctypes import CFUNCTYPE, POINTER, c_char_p, c_int, c_int64, c_void_p, string_at
from pathlib import Path

_REFUSALS = {errno.ENOSPC: 13, errno.EIO: 778}  # SQLITE_FULL, SQLITE_IOERR_WRITE
_DEAD = 10  # SQLITE_IOERR
_METHODS = ("close", "read", "write", "truncate", "sync")
_WRITE = CFUNCTYPE(c_int, c_void_p, c_void_p, c_int, c_int64)
_TRUNCATE = CFUNCTYPE(c_int, c_void_p, c_int64)
_SYNC = CFUNCTYPE(c_int, c_void_p, c_int)
# Names are passed on as they are, for SQLite keeps them where they lie.
_OPEN = CFUNCTYPE(c_int, c_void_p, c_void_p, c_void_p, c_int, c_void_p)
_DELETE = CFUNCTYPE(c_int, c_void_p, c_void_p, c_int)
_OPEN_FOLDER = CFUNCTYPE(c_int, c_void_p, c_void_p)


class _FileMethods(ctypes.Structure):
    _fields_ = [("version", c_int), *((name, c_void_p) for name in _METHODS), ("rest", c_void_p * 13)]


class _System(ctypes.Structure):
    _fields_ = [
        ("version", c_int),
        ("size", c_int),
        ("longest_path", c_int),
        ("next", c_void_p),
        ("name", c_char_p),
        ("data", c_void_p),
        ("open", c_void_p),
        ("delete", c_void_p),
        ("rest", c_void_p * 11),
        ("set_call", CFUNCTYPE(c_int, c_void_p, c_char_p, c_void_p)),
        ("get_call", CFUNCTYPE(c_void_p, c_void_p, c_char_p)),
        ("next_call", c_void_p),
    ]


try:
    _LIBRARY = ctypes.CDLL(_sqlite3.__file__)
    _LIBRARY.sqlite3_vfs_find.restype = POINTER(_System)
except (AttributeError, OSError):
    _LIBRARY = None
available = _LIBRARY is not None
_files = {}  # address of an open file → its disk and its path
_kept = []  # what SQLite may still call
_replaced = {}  # address of a file's methods → those that take their place


@contextmanager
def sqlite_on(disk):
    """Open the databases below the folder of a disk on it, while the block lasts."""
    if not available:
        yield
        return
    real = _LIBRARY.sqlite3_vfs_find(None)
    system = _System.from_buffer_copy(real.contents)
    system.name = b"limner-faults"

    def opened(_, name, file, flags, found):
        status = _OPEN(real.contents.open)(ctypes.addressof(real.contents), name, file, flags, found)
        if status == 0 and name and disk.below(string_at(name)):
            _files[file] = disk, os.fsdecode(string_at(name))
            methods = c_void_p.from_address(file)
            methods.value = _watched(methods.value)
        return status

    def deleted(_, name, sync):
        place = string_at(name)
        refused = disk.below(place) and _refused(disk, "sqlite delete", place)
        return refused or _DELETE(real.contents.delete)(ctypes.addressof(real.contents), name, sync)

    call = real.contents.get_call(real, b"openDirectory")

    def folder_opened(name, handle):  # SQLite does so to sync it, and for nothing else
        folder = Path(os.fsdecode(string_at(name))).parent
        if disk.below(folder) and not disk.dead:
            disk.keep(folder)
        return _OPEN_FOLDER(call)(name, handle)

    own = _OPEN(opened), _DELETE(deleted), _OPEN_FOLDER(folder_opened)
    system.open, system.delete, folder_call = (ctypes.cast(one, c_void_p).value for one in own)
    _kept.extend((system, own))
    _LIBRARY.sqlite3_vfs_register(ctypes.byref(system), 1)
    real.contents.set_call(real, b"openDirectory", folder_call)
    try:
        yield
    finally:
        real.contents.set_call(real, b"openDirectory", call)
        _LIBRARY.sqlite3_vfs_unregister(ctypes.byref(system))
        _LIBRARY.sqlite3_vfs_register(real, 1)


def _refused(disk, what, place):
    """0 where a change may be made, or else what SQLite is told: nothing may be raised through it."""
    try:
        disk.change(what, place)
    except OSError as error:
        return _REFUSALS[error.errno]
    except BaseException:
        return _DEAD
    return 0


def _watched(address):
    if address in _replaced:
        return ctypes.addressof(_replaced[address])
    real = _FileMethods.from_address(address)
    methods = _FileMethods.from_buffer_copy(real)

    def changing(what, act):
        def changed(file, *words):
            return _refused(_files[file][0], f"sqlite {what}", _files[file][1]) or act(file, *words)

        return changed

    def synced(file, flags):
        disk, place = _files[file]
        refused = _refused(disk, "sqlite sync", place) or _SYNC(real.sync)(file, flags)
        if not refused:
            disk.keep(place)
        return refused

    own = (
        _WRITE(changing("write", _WRITE(real.write))),
        _TRUNCATE(changing("truncate", _TRUNCATE(real.truncate))),
        _SYNC(synced),
    )
    methods.write, methods.truncate, methods.sync = (ctypes.cast(one, c_void_p).value for one in own)
    _kept.append(own)
    _replaced[address] = methods
    return ctypes.addressof(methods)
