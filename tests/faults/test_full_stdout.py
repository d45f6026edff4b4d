"""A full disk behind the standard output: one line and a status that is not 0, and what was made is whole."""

import ast
import os
import re
import shutil
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout, suppress
from io import BytesIO, StringIO, TextIOWrapper
from pathlib import Path

import pytest
from fault_jobs import TEXT, Answered, Create, Train

import limner
from limner.cli.main import run

FULL = Path("/dev/full")
LINE = re.compile(
    r"limner: /dev/stdout: No space left on device \([\d,]+ free\); what was stored before is safe; .+"
)
# Words as typed in the folder, and the status of doing it again: what is there is not made twice.
COMMANDS = {
    "help": ("--help", 0),
    "version": ("--version", 0),
    "index": ("index {pictures} --library lib --encoder colour", 0),
    "index as JSON": ("index {pictures} --library lib --encoder colour --json", 0),
    "search": ("search barn --library lib", 0),
    "illustrate": ("illustrate text.md --library lib -o new.json", 1),
    "illustrate to stdout": ("illustrate text.md --library lib -o - --format html", 0),
    "library": ("library --check --library lib", 0),
    "models list": ("models list", 0),
    "data sets": ("data sets", 0),
    "train": (None, 0),
    "study create": (None, 1),
    "study status": ("study status study", 0),
    "study export": ("study export study", 0),
}
# Servers, whose threads go on for a while, have a process of their own here.
PROCESSES = {
    "version": "--version",
    "study serve": "study serve study --port 0",
    "studio": "studio --library lib --port 0 --no-browser",
}
pytestmark = pytest.mark.skipif(not FULL.exists(), reason="no /dev/full on this system")


@pytest.fixture(scope="module")
def stored(tmp_path_factory, fault_library):
    """A folder with a library, a text and a study with a vote database."""
    folder = tmp_path_factory.mktemp("stored")
    shutil.copytree(fault_library, folder / "lib")
    (folder / "text.md").write_text(TEXT, encoding="utf-8")
    Answered().begin(folder)
    (folder / "made").mkdir()
    Create().begin(folder / "made")
    return folder


def told(words, out=None):
    """Exit status of a command, and its lines on stderr."""
    err = StringIO()
    with redirect_stdout(out or TextIOWrapper(BytesIO())), redirect_stderr(err):
        status = run(words)
    return status, err.getvalue().splitlines()


@pytest.mark.parametrize("name", COMMANDS)
def test_every_kind_of_command_says_so_in_one_line_and_damages_nothing(
    name, stored, fault_pictures, monkeypatch
):
    monkeypatch.chdir(stored)
    typed, due = COMMANDS[name]
    if typed is None:
        words = {"train": Train(), "study create": Create()}[name].words(stored / "made")
    else:
        words = typed.format(pictures=fault_pictures).split()
    full = FULL.open("w", encoding="utf-8")
    status, lines = told(words, full)
    with suppress(OSError):
        full.close()
    assert status == 1, lines
    assert [bool(LINE.fullmatch(line)) for line in lines if line.startswith("limner: ")] == [True], lines
    assert not any("Traceback" in line for line in lines)
    assert told(words)[0] == due
    out = StringIO()
    assert told(["library", "--check", "--library", "lib"], out)[0] == 0, out.getvalue()
    assert Create().left(stored)


@pytest.mark.parametrize(
    ("name", "buffered"), [("version", True), ("version", False), ("studio", True), ("study serve", False)]
)
@pytest.mark.slow
def test_a_process_says_no_more_than_that(name, buffered, stored):
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONUNBUFFERED"}
    environment |= {"PYTHONPATH": str(Path(limner.__file__).parents[1])}
    command = [sys.executable, *([] if buffered else ["-u"]), "-m", "limner", *PROCESSES[name].split()]
    with FULL.open("w") as full:
        done = subprocess.run(
            command, cwd=stored, stdout=full, stderr=subprocess.PIPE, text=True, env=environment, check=False
        )
    assert done.returncode == 1
    said = [line for line in done.stderr.splitlines() if line.startswith("limner: ")]
    assert [bool(LINE.fullmatch(line)) for line in said] == [True], done.stderr
    assert "Traceback" not in done.stderr


def test_whatever_is_written_to_stdout_goes_one_way():
    folder = Path(limner.__file__).parent
    texts = {path: path.read_text(encoding="utf-8") for path in folder.rglob("*.py")}
    found = {
        path.relative_to(folder).as_posix()
        for path, text in texts.items()
        if re.search(r"\bprint\b|stdout", text)
        if any(
            isinstance(node, ast.Call)
            and re.match(r"print$|.*stdout\.(write|buffer)", ast.unparse(node.func))
            for node in ast.walk(ast.parse(text))
        )
    }
    assert found == {"cli/main.py", "cli/illustrate.py"}
