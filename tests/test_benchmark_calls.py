"""Benchmarks call limner as it is: they are run by hand, and so would not be missed when it changes."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
WRONG = re.compile(
    r"Missing (positional|named) argument|Too many|Unexpected keyword"
    r'|Module ".+" has no attribute|name-defined'
)


@pytest.mark.slow
@pytest.mark.soak
def test_every_call_fits_what_is_called():
    files = sorted(path for path in (ROOT / "benchmarks").rglob("*.py"))
    options = [
        "--config-file=",
        "--check-untyped-defs",
        "--ignore-missing-imports",
        "--follow-imports=silent",
    ]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *options, *map(str, files)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in (0, 1), done.stderr
    assert [line for line in done.stdout.splitlines() if WRONG.search(line)] == []
