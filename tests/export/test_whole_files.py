"""Every format: on a full disk a file is replaced whole or not at all; equal storyboards are equal bytes."""

import hashlib
import os
import subprocess
import sys

import pytest
from small_disk import run_on_small_disk

from limner.errors import ConfigError
from limner.export import SUFFIXES, export, made_at

pytestmark = pytest.mark.slow

EXPORTS_TWICE = """
import sys
from pathlib import Path
from limner.errors import StorageError
from limner.export import SUFFIXES, export
from limner.export.storyboard_json import load
place, board = Path(sys.argv[1]), load(Path(sys.argv[2]))
changed = board.model_copy(update={"version": "9"})
for suffix in SUFFIXES:
    out, filler = place / f"book{suffix}", place / "filler"
    export(board, out)
    before = out.read_bytes()
    try:
        with filler.open("wb", buffering=0) as file:
            while True:
                file.write(bytes(512))
    except OSError:
        pass
    try:
        export(changed, out, overwrite=True)
        print(suffix, "written")
    except StorageError as error:
        print(suffix, error)
    print(out.read_bytes() == before, sum(one.name.startswith(".") for one in place.iterdir()))
    filler.unlink()
"""


def test_a_full_disk_leaves_the_file_that_was_there(board, tmp_path) -> None:
    stored = export(board, tmp_path / "board.json").path
    (tmp_path / "disk").mkdir()
    done = run_on_small_disk(EXPORTS_TWICE, tmp_path / "disk", "2m", stored)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    for suffix, said, left in zip(SUFFIXES, lines[::2], lines[1::2], strict=True):
        assert said.startswith(f"{suffix} {tmp_path}/disk/book{suffix}: No space left on device"), said
        assert left == "True 0", suffix


EXPORTS = """
import hashlib, sys
from pathlib import Path
from limner.export import SUFFIXES, export
from limner.export.storyboard_json import load
place, board = Path(sys.argv[1]), load(Path(sys.argv[2]))
for suffix in SUFFIXES:
    path = export(board, place / f"again{suffix}").path
    print(hashlib.sha256(path.read_bytes()).hexdigest())
"""


def test_equal_storyboards_are_equal_bytes_at_one_date(board, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    stored = export(board, tmp_path / "board.json").path
    digests = []
    for suffix in SUFFIXES:
        path = export(board, tmp_path / f"once{suffix}").path
        data = path.read_bytes().replace(b"once_pictures", b"again_pictures")
        digests.append(hashlib.sha256(data).hexdigest())
    # Another process has another hash seed, and other times of day.
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONHASHSEED": "7"}
    command = [sys.executable, "-c", EXPORTS, str(tmp_path), str(stored)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    assert done.stdout.split() == digests


def test_a_date_that_is_none_is_refused(monkeypatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "today")
    with pytest.raises(ConfigError, match="SOURCE_DATE_EPOCH is 'today', expected seconds since 1970"):
        made_at()
