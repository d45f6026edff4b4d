"""Whether ``limner index`` forgets the pictures of a folder that is suddenly empty."""

import io
import json
import warnings

import pytest
from fakes import noise_picture

import limner
from limner.cli.main import run
from limner.errors import LimnerWarning
from limner.store.database import Database

QUICK = ("--encoder", "colour", "--no-captions")


@pytest.fixture
def emptied(tmp_path):
    """A folder whose pictures are in a library, and no longer there."""
    folder = tmp_path / "album"
    folder.mkdir()
    for number in range(3):
        noise_picture(number).save(folder / f"{number}.png")
    assert run(["index", str(folder), "--library", str(tmp_path / "lib"), *QUICK]) == 0
    for path in folder.iterdir():
        path.unlink()
    return folder


def index(folder, *words):
    return run(["index", str(folder), "--library", str(folder.parent / "lib"), *QUICK, *words])


def pictures(folder):
    return len(Database(folder.parent / "lib"))


def test_without_a_terminal_nothing_is_forgotten_and_a_line_says_what_to_do(emptied, capsys):
    capsys.readouterr()
    assert index(emptied) == 0
    (line,) = [line for line in capsys.readouterr().out.splitlines() if "missing; they stay" in line]
    assert line.endswith(f"limner index {emptied} --library {emptied.parent / 'lib'} --forget")
    assert index(emptied, "--json") == 0
    said = capsys.readouterr()
    (missing,) = json.loads(said.out)["missing"]
    assert (missing["path"], missing["missing"], missing["known"]) == (str(emptied), 3, 3)
    assert "--forget" in said.err
    assert pictures(emptied) == 3


@pytest.mark.parametrize(("answer", "left"), [("y\n", 0), ("\n", 3), ("", 3)])
def test_in_a_terminal_it_asks(emptied, monkeypatch, capsys, answer, left):
    terminal = io.StringIO(answer)
    terminal.isatty = lambda: True
    monkeypatch.setattr("sys.stdin", terminal)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    assert index(emptied) == 0
    assert f"Forget 3 pictures of {emptied}? [y/N]" in capsys.readouterr().err
    assert pictures(emptied) == left


def test_forget_says_yes(emptied, capsys):
    assert index(emptied, "--forget") == 0
    assert "3 deleted" in capsys.readouterr().out
    assert pictures(emptied) == 0


def test_python_warns_and_forgets_on_request(emptied):
    library = limner.Library(emptied.parent / "lib")
    with pytest.warns(LimnerWarning, match="3 of 3 pictures missing"):
        library.add(emptied, encoders=["colour"], captions=False)
    assert len(library) == 3
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        library.add(emptied, encoders=["colour"], captions=False, forget=True)
    assert len(library) == 0
