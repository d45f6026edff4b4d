"""Outputs of commands equal those recorded before the packages were arranged anew.

    LIMNER_GOLDEN=write python -m pytest -m slow tests/golden

records them; ``-k NAME`` some of them. To be deleted when the new arrangement stands.
"""

import difflib
import fcntl
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from golden_cases import CASES, CONFIGS, FILES, Case
from golden_text import READERS, REPOSITORY, cleaned, readable

pytestmark = pytest.mark.slow
RECORDED = Path(__file__).parent / "recorded"
NAMED = {case.name: case for case in CASES}


class Commands:
    """Runs a command and what it needs once, whatever number of processes ask for it."""

    def __init__(self, place: Path) -> None:
        self.work, self.done = place / "work", place / "done"
        self.work.mkdir(parents=True, exist_ok=True)
        self.done.mkdir(exist_ok=True)
        own = place / f"server-{os.getpid()}"
        own.mkdir()
        (own / "at").symlink_to(self.work)
        self.heard = own
        environment = {key: value for key, value in os.environ.items() if not key.startswith("LIMNER")}
        environment |= {
            "OMP_NUM_THREADS": "1",
            "COLUMNS": "100",
            "HOME": str(self.work),
            "NO_COLOR": "1",
            "TZ": "UTC",
        }
        environment |= {"PYTHONPATH": str(REPOSITORY / "src")}
        self.server = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("golden_server.py")), str(own / "at")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )

    def output(self, case: Case) -> str:
        """All that a command printed and wrote, as text."""
        for name in case.after:
            self.output(NAMED[name])
        kept = self.done / f"{case.name}.txt"
        with (self.done / f"{case.name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not kept.exists():
                kept.write_text(self._run(case), encoding="utf-8")
        return kept.read_text(encoding="utf-8")

    def _run(self, case: Case) -> str:
        case.before(self.work)
        words = [word.replace("@", str(CONFIGS)) for word in shlex.split(case.command)]
        self.server.stdin.write(json.dumps(words) + "\n")
        self.server.stdin.flush()
        status = self.server.stdout.readline().strip()
        parts = [f"status {status}"]
        for name in ("out", "err"):
            content = (self.heard / name).read_bytes()
            structured = "--json" in words and name == "out" and content.startswith((b"{", b"["))
            text = (
                READERS[".json"](content, self.work) if structured else cleaned(content.decode(), self.work)
            )
            parts.append(f"=== {name}\n{text}")
        paths = sorted({path for pattern in case.files for path in self.work.glob(pattern) if path.is_file()})
        parts += [f"=== {path.relative_to(self.work)}\n{readable(path, self.work)}" for path in paths]
        return "\n".join(parts) + "\n"

    def close(self) -> None:
        with self.server:
            self.server.stdin.close()


@pytest.fixture(scope="session")
def commands(tmp_path_factory) -> Iterator[Commands]:
    place = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        place = place.parent
    place = place / "golden"
    with (place.parent / "golden.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        runner = Commands(place)
        for name, content in FILES.items():
            path = runner.work / name
            if not path.exists():
                path.parent.mkdir(parents=True, exist_ok=True)
                made = content() if callable(content) else content
                path.write_bytes(made if isinstance(made, bytes) else made.encode())
    yield runner
    runner.close()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_command_says_and_writes_what_it_did(case, commands):
    found, path = commands.output(case), RECORDED / f"{case.name}.txt"
    assert "Traceback" not in found, found
    if os.environ.get("LIMNER_GOLDEN") == "write":
        path.write_text(found, encoding="utf-8")
    before = path.read_text(encoding="utf-8")
    if found != before:
        lines = difflib.unified_diff(
            before.splitlines(), found.splitlines(), "recorded", "found", lineterm="", n=1
        )
        pytest.fail("\n".join(list(lines)[:200]), pytrace=False)
