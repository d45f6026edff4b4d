"""A disk that is full, over a quota, read-only or failing: one line, and what was stored stays."""

import errno
import os
import re
import sqlite3
from pathlib import Path

import numpy as np
import pytest
from small_disk import run_on_small_disk

import limner
from limner import files
from limner.errors import StorageError
from limner.files import reserve, storage_error, write_bytes

# None of them maps what it cuts: the journals of scenes and of features, and the manifest of pictures.
TRUNCATES = {"research/datasets/features.py", "research/datasets/fetch.py", "research/scenes/folder.py"}
ADDS = """
import sys
from pathlib import Path
import numpy as np
from limner.errors import StorageError
from limner.store import File, Pixels, SpaceInfo
from limner.store.database import Database
library = Database(Path(sys.argv[1]) / "lib")
library.save(spaces={"base": SpaceInfo(encoder="a", fingerprint="b", dim=40_000)})
vector = np.full(40_000, 0.005, np.float32)
try:
    for number in range(20):
        digest = f"{number:064x}"
        pixels = Pixels(4, 3, "JPEG", "0", {"base": vector})
        library.add([File(f"/p/{number}.jpg", 1, 1, sha256=digest)], {digest: pixels})
except StorageError as error:
    print(error)
held = library.index(["base"]).gallery.space("base")
print(0 < len(library) == held.held == len(held.present))
print(library.page(0, 1)[1][0].path)
"""


def test_a_batch_that_the_disk_has_no_room_for_leaves_what_was_stored(tmp_path):
    done = run_on_small_disk(ADDS, tmp_path, "2m")
    assert done.returncode == 0, (done.returncode, done.stderr)
    told, whole, first = done.stdout.splitlines()
    assert "No space left on device (" in told
    assert (whole, first) == ("True", "/p/0.jpg")


RESERVES = """
import sys
from pathlib import Path
from limner.errors import StorageError
from limner.files import reserve, storing
table = Path(sys.argv[1]) / "table"
try:
    with storing(table, 4_000_000), table.open("wb") as file:
        reserve(file, 4_000_000)
except StorageError as error:
    print(error)
"""


def test_what_the_disk_has_no_room_to_reserve_is_one_line(tmp_path):
    done = run_on_small_disk(RESERVES, tmp_path, "1m")
    assert done.returncode == 0, (done.returncode, done.stderr)
    assert done.stdout.startswith(f"{tmp_path}/table: No space left on device (4,000,000 bytes wanted, ")


@pytest.mark.slow
def test_the_memory_of_an_epoch_that_the_disk_has_no_room_for_is_one_line(tmp_path, monkeypatch):
    from limner.research.systems.complementary.memory import _mapped

    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "posix_fallocate", full, raising=False)
    line = rf"^{tmp_path}/table: No space left on device \(4,000,000 bytes wanted, "
    with pytest.raises(StorageError, match=line):
        _mapped(tmp_path / "table", np.float32, (1000, 1000), new=True)


@pytest.mark.parametrize("supported", [True, False])
def test_what_is_reserved_is_zeros_and_on_the_disk(tmp_path, monkeypatch, supported):
    if not supported:

        def refuses(*_):
            raise OSError(errno.EOPNOTSUPP, "not supported")

        monkeypatch.setattr(os, "posix_fallocate", refuses, raising=False)
        monkeypatch.setattr(files, "_CHUNK_BYTES", 30_000)
    path = tmp_path / "a"
    with path.open("wb") as file:
        file.write(b"head")
        reserve(file, 100_000)
        reserve(file, 0)
    assert path.read_bytes()[:100_004] == b"head" + bytes(100_000)
    assert path.stat().st_blocks * 512 >= 100_000


def test_no_module_maps_a_file_for_writing_in_another_way():
    source = Path(limner.__file__).parent
    maps = re.compile(r"open_memmap\([^)]*\"w\+|np\.memmap\([^)]*\"w\+|truncate\(")
    found = {
        str(path.relative_to(source))
        for path in source.rglob("*.py")
        if maps.search(path.read_text(encoding="utf-8"))
    }
    assert found == TRUNCATES


@pytest.mark.parametrize(
    ("number", "words", "remedy"),
    [
        (errno.ENOSPC, "No space left on device (1 byte wanted, ", "free some space and try again"),
        (errno.EDQUOT, "Disk quota exceeded (1 byte wanted, ", "free some space and try again"),
        (
            errno.EFBIG,
            "File too large (1 byte wanted)",
            "raise the limit on the size of files and try again",
        ),
        (errno.EROFS, "Read-only file system (1 byte wanted)", "make it writable or choose another location"),
        (errno.EIO, "Input/output error (1 byte wanted)", "check the disk, then try again"),
    ],
)
def test_each_refusal_of_the_disk_is_one_line(tmp_path, monkeypatch, number, words, remedy):
    target = tmp_path / "a"
    target.write_bytes(b"old")

    def fails(path, data):
        raise OSError(number, os.strerror(number), str(path))

    monkeypatch.setattr(Path, "write_bytes", fails)
    with pytest.raises(StorageError) as caught:
        write_bytes(target, b"x")
    assert (caught.value.errno, caught.value.filename) == (number, str(target))
    assert str(caught.value).startswith(f"{target}: {words}")
    assert str(caught.value).endswith(f"; what was stored before is safe; {remedy}")
    assert target.read_bytes() == b"old"
    assert [one.name for one in tmp_path.iterdir()] == ["a"]


def test_what_says_nothing_of_the_disk_stays_what_it_is(tmp_path):
    for error in (
        OSError("x"),
        PermissionError(errno.EACCES, "no"),
        ValueError("os error 28"),
        sqlite3.Error(),
    ):
        assert storage_error(error, tmp_path) is None


def test_refusals_are_heard_through_other_libraries(tmp_path):
    lance = RuntimeError(
        "lance error: LanceError(IO): Unable to copy data: No space left (os error 28), x.rs:1"
    )
    assert storage_error(lance, tmp_path).errno == errno.ENOSPC
    base = sqlite3.connect(tmp_path / "votes.sqlite")
    base.execute("PRAGMA max_page_count=2")
    base.execute("CREATE TABLE a (b)")
    with pytest.raises(sqlite3.OperationalError) as caught:
        base.execute("INSERT INTO a VALUES (zeroblob(100000))")
    base.close()
    assert storage_error(caught.value, tmp_path).errno == errno.ENOSPC
