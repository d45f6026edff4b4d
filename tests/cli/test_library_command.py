"""Commands without ``--library``: the default library, the one used last, and what is said of it."""

import json

import pytest
from fakes import noise_picture

from limner.cli.main import run
from limner.store import Described
from limner.store.database import Database

pytestmark = pytest.mark.slow

TEXT = "# Three colours\n\nA red field.\n\nA blue lake.\n"


def draw(folder, *names):
    folder.mkdir(exist_ok=True)
    for name in names:
        noise_picture(sum(name.encode())).save(folder / f"{name}.png")


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A user with two texts' worth of pictures, and no library yet."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.chdir(tmp_path)
    draw(tmp_path / "pictures", "red field", "blue lake")
    (tmp_path / "a.md").write_text(TEXT)
    return tmp_path


def test_one_command_reads_pictures_and_illustrates_and_search_finds_them(home, capsys):
    assert run(["search", "a red field"]) == 1
    assert "no picture library yet; create it with 'limner index PICTURES'" in capsys.readouterr().err
    assert run(["illustrate", "a.md", "pictures", "-o", "a.json"]) == 0
    out, err = capsys.readouterr()
    assert "files: 2 (2 new, 0 changed" in err
    assert "files:" not in out
    board = json.loads((home / "a.json").read_text())
    assert [step["chosen"]["picture"]["paths"] for step in board["steps"]] == [
        [str(home / "pictures" / name)] for name in ("red field.png", "blue lake.png")
    ]
    assert run(["search", "a red field", "--json"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)[0]["path"].endswith("red field.png")
    assert err == ""
    draw(home / "pictures", "green hill")
    assert run(["illustrate", "a.md", "pictures/green hill.png", "-o", "b.json"]) == 0
    assert "pictures in the library: 3" in capsys.readouterr().err
    assert run(["illustrate", "a.md", "pictures", "-o", "c.json"]) == 0
    err = capsys.readouterr().err
    assert "pictures in the library: 3" in err
    assert "files:" not in err  # nothing is new


def test_the_library_used_last_is_asked_and_never_read_into(home, capsys):
    assert run(["index", "pictures", "--library", "own", "--encoder", "colour"]) == 0
    capsys.readouterr()
    assert run(["illustrate", "a.md", "-o", "a.html"]) == 0
    assert f"library: {home / 'own'}, the one used last" in capsys.readouterr().err
    assert run(["library"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:3] == [
        f"library: {home / 'own'}",
        "pictures: 2, of which 2 with captions",
        f"indexed: {home / 'pictures'}",
    ]
    assert run(["library", "--check"]) == 0
    assert str(home / "own") in capsys.readouterr().out
    assert run(["search", "a red field", "--folder", "nosuch"]) == 0
    out, err = capsys.readouterr()
    assert out == ""  # no table of nothing
    assert f"no picture of the library is in {home / 'nosuch'}; indexed folders: {home / 'pictures'}" in err
    draw(home / "others", "green hill")
    assert run(["index", "others", "--encoder", "colour", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["pictures"] == 1
    assert run(["library", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["library"] == str(home / "data" / "limner" / "library")
    assert told["sources"] == [str(home / "others")]


def test_the_environment_names_a_library(home, monkeypatch, capsys):
    monkeypatch.setenv("LIMNER_LIBRARY", str(home / "mine"))
    assert run(["index", "pictures", "--encoder", "colour"]) == 0
    assert (home / "mine" / "library.sqlite").is_file()
    assert run(["search", "a red field"]) == 0
    assert "red field.png" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["a.md", "picturs"], "picturs: does not exist; expected a text, or a folder of pictures"),
        (["b.md", "pictures"], "b.md: does not exist; expected a text, or a folder of pictures"),
    ],
)
def test_what_is_not_there_is_said_before_pictures_are_read(home, capsys, words, part):
    assert run(["illustrate", *words, "-o", "a.html"]) == 1
    out, err = capsys.readouterr()
    assert (out, len(err.splitlines())) == ("", 1)
    assert part in err
    assert not (home / "data").exists()


def test_help_of_illustrate_fits_a_screen_and_help_all_shows_all(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    assert run(["illustrate", "--help"]) == 0
    short = capsys.readouterr().out
    assert run(["illustrate", "--help-all"]) == 0
    whole = capsys.readouterr().out
    assert len(short.splitlines()) <= 40
    assert "--help-all" in short
    for option in ("--page-size", "--set", "--min-probability", "--allow-repeats"):
        assert option not in short
        assert option in whole
    assert run(["illustrate", "--help"]) == 0
    assert capsys.readouterr().out == short


def test_a_command_that_reads_no_picture_leaves_no_library_behind(home, capsys):
    (home / "empty").mkdir()
    assert run(["index", "empty", "--library", "lib"]) == 1
    assert "holds no picture" in capsys.readouterr().err
    assert not (home / "lib").exists()
    assert run(["index", "pictures", "--library", "lib"]) == 0
    assert run(["index", "empty", "--library", "lib"]) == 0
    assert (home / "lib" / "library.sqlite").exists()


def test_what_was_typed_outlives_making_the_library_anew(home, capsys):
    assert run(["index", "pictures", "--library", "lib", "--encoder", "colour"]) == 0
    library = Database(home / "lib")
    picture = library.find("red field.png").id
    library.write_words(picture, Described(captions=("poppies at noon",)))
    library.settle()
    assert run(["library", "--library", "lib", "--anew"]) == 0
    assert not (home / "lib" / "library.sqlite").exists()
    assert (home / "lib" / "yours.sqlite").exists()
    assert run(["index", "pictures", "--library", "lib", "--encoder", "colour"]) == 0
    again = Database(home / "lib")
    assert [one.text for one in again.pictures([picture])[0].captions] == ["poppies at noon"]
    assert run(["search", "poppies", "--library", "lib", "-k", "1"]) == 0
    assert "red field.png" in capsys.readouterr().out


def test_a_check_names_what_is_wrong_and_changes_nothing(home, capsys):
    assert run(["index", "pictures", "--library", "lib", "--encoder", "colour"]) == 0
    assert run(["library", "--library", "lib", "--check"]) == 0
    assert "nothing wrong" in capsys.readouterr().out
    (vectors,) = (home / "lib" / "vectors").glob("colour-*.f32")
    whole = vectors.read_bytes()
    for broken, line in (
        (whole[: len(whole) // 2], "too short"),
        (whole[:-4] + b"\0\0\xc0\x7f", "not finite"),
    ):
        vectors.write_bytes(broken)
        assert run(["library", "--library", "lib", "--check"]) == 1
        out, err = capsys.readouterr()
        assert line in out
        assert "1 problem found" in err
    vectors.write_bytes(whole)
    (home / "pictures" / "red field.png").unlink()
    assert run(["library", "--library", "lib", "--check", "--json"]) == 1
    (problem,) = json.loads(capsys.readouterr().out)["problems"]
    assert problem["path"] == str(home / "pictures" / "red field.png")
    assert run(["library", "--check", "--anew"]) == 2
