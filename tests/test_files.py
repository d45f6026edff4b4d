"""Writers that leave the old file or the new one, the lock, and lines of JSON."""

import errno
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from limner import files
from limner.errors import DataError, MissingError
from limner.files import (
    DRAFT_SUFFIX,
    json_rows,
    locked,
    replacing,
    strangers,
    write_bytes,
    write_lines,
    write_text,
)

unix = pytest.mark.skipif(os.name == "nt", reason="signals and limits of files are of Unix")


class Row(BaseModel):
    word: str
    number: int = 0


def rows(path):
    return [row for _, row in json_rows(path, Row, holds="rows", one="row", see="the test")]


def run(code, *words):
    return subprocess.run(
        [sys.executable, "-c", code, *map(str, words)], capture_output=True, text=True, check=False
    )


def test_writers_write_exactly_what_they_get(tmp_path):
    write_text(tmp_path / "a", "é\r\n\u2028")
    assert (tmp_path / "a").read_bytes() == "é\r\n\u2028".encode()
    write_lines(tmp_path / "a", ["x", "é"])
    assert (tmp_path / "a").read_bytes() == "x\né\n".encode()
    write_lines(tmp_path / "a", [])
    assert (tmp_path / "a").read_bytes() == b""
    assert [one.name for one in tmp_path.iterdir()] == ["a"]


def test_a_name_may_be_as_long_as_names_can_be(tmp_path):
    write_bytes(tmp_path / ("n" * 255), b"x")
    assert [len(one.name) for one in tmp_path.iterdir()] == [255]


@unix
def test_the_umask_decides_who_may_read(tmp_path):
    before = os.umask(0o027)
    try:
        write_bytes(tmp_path / "a", b"x")
    finally:
        os.umask(before)
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize("error", [ValueError("a"), KeyboardInterrupt(), OSError("b"), MissingError("c")])
def test_a_block_that_raises_leaves_the_file_as_it_was(tmp_path, error):
    target = tmp_path / "a"
    target.write_bytes(b"old")

    def write():
        with replacing(target) as draft:
            draft.write_bytes(b"half")
            raise error

    with pytest.raises(type(error)) as caught:
        write()
    assert caught.value is error
    assert target.read_bytes() == b"old"
    assert [one.name for one in tmp_path.iterdir()] == ["a"]


def test_what_the_system_refuses_names_the_target(tmp_path):
    target = tmp_path / "absent" / "a"
    with pytest.raises(FileNotFoundError) as caught:
        write_bytes(target, b"x")
    assert caught.value.filename == str(target)
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError, match="folder") as caught:
        write_bytes(tmp_path / "folder", b"x")
    assert caught.value.filename == str(tmp_path / "folder")
    assert strangers(tmp_path, ["folder"]) == []


def test_content_and_name_are_on_the_disk_in_that_order(tmp_path, monkeypatch):
    seen = []
    monkeypatch.setattr(os, "fsync", lambda handle: seen.append((tmp_path / "a").exists()))
    write_bytes(tmp_path / "a", b"x")
    assert seen == [False, True]
    with replacing(tmp_path / "b", sync=False) as draft:
        draft.write_bytes(b"x")
    assert len(seen) == 2


FULL = """
import resource, signal, sys
from pathlib import Path
from limner.files import write_bytes
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
try:
    write_bytes(Path(sys.argv[1]), bytes(2000))
except OSError as error:
    print(error.errno, error.filename)
"""


@unix
def test_a_disk_that_is_full_leaves_the_old_file_and_no_other(tmp_path):
    target = tmp_path / "a"
    target.write_bytes(b"old")
    done = run(FULL, target)
    assert done.stdout == f"{errno.EFBIG} {target}\n", done.stderr
    assert target.read_bytes() == b"old"
    assert [one.name for one in tmp_path.iterdir()] == ["a"]


KILLED = """
import os, signal, sys
from pathlib import Path
from limner.files import replacing
with replacing(Path(sys.argv[1])) as draft, draft.open("wb") as file:
    file.write(b"half")
    file.flush()
    os.kill(os.getpid(), signal.SIGKILL)
"""


@unix
def test_a_kill_leaves_the_old_file_and_a_draft_that_is_known_as_one(tmp_path):
    target = tmp_path / "a"
    target.write_bytes(b"old")
    assert run(KILLED, target).returncode == -signal.SIGKILL
    assert target.read_bytes() == b"old"
    assert len(list(tmp_path.glob(f".*{DRAFT_SUFFIX}"))) == 1
    assert strangers(tmp_path, {"a"}) == []
    assert strangers(tmp_path, {"b"}) == ["a"]
    assert strangers(tmp_path / "absent", ()) == []
    write_bytes(target, b"new")
    assert target.read_bytes() == b"new"


def test_writers_at_once_leave_one_of_their_files(tmp_path):
    contents = [bytes([number]) * 100_000 for number in range(8)]

    def write(content):
        for _ in range(5):
            write_bytes(tmp_path / "a", content)

    writers = [threading.Thread(target=write, args=(content,)) for content in contents]
    for one in writers:
        one.start()
    while any(one.is_alive() for one in writers):
        if (tmp_path / "a").exists():
            assert (tmp_path / "a").read_bytes() in contents
    for one in writers:
        one.join()
    assert [one.name for one in tmp_path.iterdir()] == ["a"]


HOLDER = """
import sys, time
from pathlib import Path
from limner.files import locked
with locked(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.mark.parametrize("killed", [False, True])
def test_a_lock_is_refused_while_another_process_lives(tmp_path, killed):
    lock, busy = tmp_path / "lock", DataError("busy: wait for it")
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(lock)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout.readline().strip() == b"held"
        with pytest.raises(DataError, match=r"^busy: wait for it$"), locked(lock, busy):
            pass
        if killed:
            holder.kill()
        holder.stdin.close()
        with locked(lock):  # waits
            pass
    with locked(lock, busy):
        pass


def test_a_lock_keeps_other_threads_and_itself_out_and_outlives_no_error(tmp_path):
    lock, busy = tmp_path / "lock", DataError("busy")
    with locked(lock, busy), pytest.raises(DataError, match="busy"), locked(lock, busy):
        pass
    with pytest.raises(KeyError), locked(lock, busy):
        raise KeyError
    most, inside = 0, []

    def work():
        nonlocal most
        with locked(lock):
            inside.append(1)
            most = max(most, len(inside))
            threading.Event().wait(0.01)
            inside.pop()

    workers = [threading.Thread(target=work) for _ in range(4)]
    for one in workers:
        one.start()
    for one in workers:
        one.join()
    assert most == 1


@given(
    words=st.lists(st.text(st.characters(exclude_categories=["Cs"]))),
    blank=st.lists(st.sampled_from(["", " ", "\t"])),
)
def test_every_text_comes_back_from_lines_of_json(tmp_path_factory, words, blank):
    path = tmp_path_factory.getbasetemp() / "rows.jsonl"
    write_lines(path, [*blank, *(json.dumps({"word": word}, ensure_ascii=False) for word in words)])
    assert [row.word for row in rows(path)] == words
    places = [place for place, _ in json_rows(path, Row, holds="rows", one="row", see="the test")]
    first = 1 + len(blank)
    assert places == [f"{path.parent.name}/rows.jsonl:{first + n}" for n in range(len(words))]


@given(content=st.binary() | st.text().map(lambda text: json.dumps({text: text}).encode()))
def test_whatever_a_file_holds_ends_in_rows_or_one_short_line(tmp_path_factory, content):
    path: Path = tmp_path_factory.getbasetemp() / "hostile.jsonl"
    path.write_bytes(content)
    try:
        rows(path)
        said = ""
    except DataError as error:
        said = str(error)
    assert "\n" not in said
    assert len(said) < 400


def test_messages_say_where_and_what_to_do(tmp_path):
    path = tmp_path / "set" / "rows.jsonl"
    with pytest.raises(MissingError, match="does not exist; rows"):
        rows(path)
    path.parent.mkdir()
    for content, message in (
        (b'{"word": "a"}\n{"word"', r"^set/rows\.jsonl:2: not JSON \(.*\); expected one row per line$"),
        (
            b'{"word": 3}',
            r"^set/rows\.jsonl:1: word: .* valid string; see the test for the form$",
        ),
        (b"[]", r"^set/rows\.jsonl:1: the line: .*see the test for the form$"),
        (b"\n\xff", r"^set/rows\.jsonl:2: byte 0 is not UTF-8; save the file as UTF-8$"),
    ):
        path.write_bytes(content)
        with pytest.raises(DataError, match=message):
            rows(path)
    with pytest.raises(DataError, match=f"{os.strerror(errno.EISDIR)}; expected a file that can be read"):
        rows(path.parent)


def test_what_speaks_of_other_files_is_synced_after_them(tmp_path, monkeypatch):
    table = tmp_path / "pictures.lance"
    for name in ("_versions/1.manifest", "data/rows.lance"):
        (table / name).parent.mkdir(parents=True, exist_ok=True)
        (table / name).write_bytes(b"1")
    synced = []
    for function in ("_sync_file", "sync_folder"):
        monkeypatch.setattr(files, function, lambda path: synced.append(path.name))
    files.sync_tree(tmp_path, set(), last="_versions")
    assert synced == ["rows.lance", "data", "pictures.lance", tmp_path.name, "1.manifest", "_versions"]
