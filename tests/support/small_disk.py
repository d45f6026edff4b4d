"""A small disk of its own for a program: a tmpfs in a namespace, where the machine allows one."""

import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

MOUNT = 'mount -t tmpfs -o size="$1" limner "$2" && shift 2 && exec "$@"'


@cache
def _allowed(place):
    if shutil.which("unshare") is None:
        return False
    tried = [*_inside("64k", place), "true"]
    return subprocess.run(tried, capture_output=True, check=False).returncode == 0


def _inside(size, place):
    return ["unshare", "-rm", "sh", "-c", MOUNT, "sh", size, str(place)]


def run_on_small_disk(program, place, size, *words):
    """Run a Python program in which `place`, an empty folder, is a disk of so many bytes, such as "1m".

    Its result has `returncode`, `stdout` and `stderr`. The test is skipped where no disk can be mounted.
    """
    if not _allowed(Path(place)):
        pytest.skip("this machine lets nobody mount a tmpfs in a namespace (unshare -rm)")
    command = [*_inside(size, place), sys.executable, "-c", program, str(place), *map(str, words)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, sys.path))}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
