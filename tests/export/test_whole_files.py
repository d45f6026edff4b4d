"""Every format: on a full disk a file is replaced whole or not at all; equal storyboards are equal bytes."""

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
import sys
from pathlib import Path
from limner.export import SUFFIXES, export
from limner.export.storyboard_json import load
place, board = Path(sys.argv[1]), load(Path(sys.argv[2]))
for suffix in SUFFIXES:
    export(board, place / f"out{suffix}")
"""


def test_equal_storyboards_are_equal_bytes_at_one_date(board, tmp_path) -> None:
    stored, made = export(board, tmp_path / "board.json").path, []
    stated = {"PYTHONPATH": os.pathsep.join(sys.path), "SOURCE_DATE_EPOCH": "1700000000"}
    for seed in ("1", "7"):  # of the hashes of two processes
        (tmp_path / seed).mkdir()
        command = [sys.executable, "-c", EXPORTS, str(tmp_path / seed), str(stored)]
        environment = {**os.environ, **stated, "PYTHONHASHSEED": seed}
        subprocess.run(command, check=True, env=environment)
        made.append({path.name: path.read_bytes() for path in (tmp_path / seed).glob("out.*")})
    assert len(made[0]) == len(SUFFIXES)
    assert [name for name in made[0] if made[0][name] != made[1][name]] == []


def test_a_date_that_is_none_is_refused(monkeypatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "today")
    with pytest.raises(ConfigError, match="SOURCE_DATE_EPOCH is 'today', expected seconds since 1970"):
        made_at()
