"""A library in a folder that cannot be written is searched, and nothing is left there."""

import errno
import os
import pathlib
import shutil

import pytest
from fakes import noise_picture
from starlette.testclient import TestClient

from limner.cli.main import run as limner


@pytest.fixture(scope="module")
def indexed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("indexed")
    for number, name in enumerate(("white goat", "boat on the sea", "cherry cake")):
        noise_picture(number).save(folder / f"{name}.png")
    words = ["index", str(folder), "--library", str(folder / "lib"), "--encoder", "colour"]
    assert limner(words) == 0
    return folder / "lib"


@pytest.fixture
def library(indexed, tmp_path, monkeypatch):
    """A copy without any right to write; root, whom no right stops, is told what others are told."""
    folder = tmp_path / "lib"
    shutil.copytree(indexed, folder)
    every = [folder, *folder.rglob("*")]
    for one in every:
        one.chmod(one.stat().st_mode & ~0o222)
    if os.access(folder, os.W_OK):
        forbid_writing(folder, monkeypatch)
    yield folder
    monkeypatch.undo()
    for one in every:
        one.chmod(one.stat().st_mode | 0o200)


def forbid_writing(folder, monkeypatch):
    mkdir, opens, access = pathlib.Path.mkdir, pathlib.Path.open, os.access

    def check(path):
        if folder in path.parents:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))

    def refused_mkdir(self, *rest, **named):
        if not self.exists():
            check(self)
        return mkdir(self, *rest, **named)

    def refused_open(self, mode="r", *rest, **named):
        if set(mode) & set("wxa+"):
            check(self)
        return opens(self, mode, *rest, **named)

    def refused_access(path, mode, **named):
        inside = folder in (pathlib.Path(path), *pathlib.Path(path).parents)
        return access(path, mode, **named) and not (mode & os.W_OK and inside)

    monkeypatch.setattr(pathlib.Path, "mkdir", refused_mkdir)
    monkeypatch.setattr(pathlib.Path, "open", refused_open)
    monkeypatch.setattr(os, "access", refused_access)


def contents(folder):
    return sorted(str(one.relative_to(folder)) for one in folder.rglob("*"))


def test_search_works(library, capsys):
    before = contents(library)
    assert limner(["search", "a goat", "--library", str(library), "-k", "1"]) == 0
    told = capsys.readouterr()
    assert "white goat.png" in told.out
    assert contents(library) == before


def test_illustrate_works(library, tmp_path):
    before = contents(library)
    text = tmp_path / "day.md"
    text.write_text("# Day\n\n## One\n\nA goat.\n\n## Two\n\nA boat at sea.\n")
    out = tmp_path / "day.html"
    assert limner(["illustrate", str(text), "--library", str(library), "-o", str(out)]) == 0
    assert out.is_file()
    assert contents(library) == before


@pytest.mark.slow
def test_the_studio_works_and_keeps_projects_elsewhere(library, tmp_path, monkeypatch, capsys):
    before = contents(library)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    answers = []

    def serve(app, bound, guard, *, browse=None, ready=None):
        with TestClient(app) as client:
            project = client.post("/api/projects", json={"text": "A goat.\n\nA boat.", "format": "plain"})
            assert project.status_code == 201, project.text
            found = client.post("/api/search", json={"text": "goat"})
            answers.append(found.status_code)
        bound.listener.close()

    monkeypatch.setattr("limner.studio.app.serve", serve)
    # Imports of another thread change for a moment which warnings are shown.
    monkeypatch.setattr("limner.studio.engine.Engine.warm", lambda engine: None)
    assert limner(["studio", "--library", str(library), "--port", "0", "--no-browser"]) == 0
    told = capsys.readouterr().err
    assert answers == [200]
    (kept,) = (tmp_path / "data" / "limner" / "projects").glob("*/*/project.json")
    assert f"projects are kept in {kept.parents[1]}" in told
    assert contents(library) == before
