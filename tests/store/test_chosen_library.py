"""Which library is meant where none is named."""

from pathlib import Path

import pytest

from limner.errors import MissingError
from limner.library import last_library, library_to_index, library_to_search, remember_last_library
from limner.store.database import Database


@pytest.fixture(autouse=True)
def data(tmp_path, monkeypatch):
    """A user's data folder without anything in it."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    return tmp_path / "data" / "limner"


def test_the_command_line_goes_before_the_environment_and_that_before_the_rest(data, tmp_path, monkeypatch):
    Database(library_to_index())
    Database(tmp_path / "last")
    assert library_to_index() == library_to_search() == data / "library"
    remember_last_library(tmp_path / "last")
    lines = []
    assert library_to_search(None, lines.append) == tmp_path / "last"
    assert lines == [f"library: {tmp_path / 'last'}, the one used last"]
    assert library_to_index() == data / "library"
    monkeypatch.setenv("LIMNER_LIBRARY", "~/mine")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert library_to_index() == library_to_search() == tmp_path / "mine"
    named = Path("named")
    assert library_to_index(named) == library_to_search(named) == named
    monkeypatch.setenv("LIMNER_LIBRARY", "")
    assert library_to_index() == data / "library"


def test_a_relative_folder_is_remembered_whole_and_an_address_as_it_is(data, tmp_path, monkeypatch):
    assert last_library() is None
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    remember_last_library(Path("a lib\udcff"))
    assert last_library() == tmp_path / "here" / "a lib\udcff"
    remember_last_library(Path("s3://bucket/lib"))
    assert (data / "last-library").read_bytes() == b"s3://bucket/lib\n"
    assert library_to_search() == Path("s3://bucket/lib")


def test_a_library_that_is_gone_is_said_and_the_default_one_taken(tmp_path):
    remember_last_library(tmp_path / "gone")
    lines = []
    with pytest.raises(MissingError, match="no picture library yet; create it with 'limner index PICTURES'"):
        library_to_search(None, lines.append)
    assert "used last no longer exists" in lines[0]
    Database(library_to_index())
    assert library_to_search() == library_to_index()


def test_an_empty_default_library_is_made_where_that_is_wanted(tmp_path):
    remember_last_library(tmp_path / "gone")
    assert library_to_search(make=True) == library_to_index()
    assert len(Database(library_to_index())) == 0
    assert len(Database(library_to_search(make=True))) == 0


def test_what_cannot_be_remembered_is_forgotten(data, tmp_path):
    data.parent.mkdir()
    data.write_text("a file, where the folder should be")
    remember_last_library(tmp_path / "lib")
    assert last_library() is None
