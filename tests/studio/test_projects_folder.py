"""Projects lie beside their library: it can be deleted and indexed again without them being lost."""

import json
import shutil

import pytest

from limner.cli.main import run as limner
from limner.studio.engine import Engine
from limner.studio.project_editor import ProjectEditor
from limner.studio.projects import Projects, projects_folder

WORDS = "A fox looks out.\n\nThe rabbit bakes a cake."


@pytest.fixture
def library(drawn_library, tmp_path):
    return shutil.copytree(drawn_library, tmp_path / "lib")


def made(library, folder):
    """A project with a chosen picture: its id, and the picture."""
    editor = ProjectEditor(Engine(library), Projects(folder))
    project = editor.create(WORDS, format="plain")
    return project.id, project.board.steps[0].chosen.picture.id


def refuse(line):
    raise AssertionError(line)


@pytest.mark.slow
def test_a_library_deleted_and_indexed_again_has_its_projects_and_their_pictures(library, drawn):
    folder = projects_folder(library, refuse)
    project, picture = made(library, folder)
    shutil.rmtree(library)
    assert limner(["index", str(drawn), "--library", str(library), "--encoder", "colour"]) == 0
    assert projects_folder(library, refuse) == folder
    held = Projects(folder).board(Projects(folder).read(project))
    assert held.steps[0].chosen.picture.id == picture
    assert Engine(library).store.pictures([picture])[0]


@pytest.mark.slow
def test_projects_keep_their_pictures_when_these_and_the_library_move(drawn, tmp_path):
    before = tmp_path / "before"
    shutil.copytree(drawn, before / "album")
    words = ["--encoder", "colour"]
    assert limner(["index", str(before / "album"), "--library", str(before / "lib"), *words]) == 0
    project, picture = made(before / "lib", projects_folder(before / "lib", refuse))
    now = before.rename(tmp_path / "now")
    assert limner(["index", str(now / "album"), "--library", str(now / "lib"), *words]) == 0
    folder = projects_folder(now / "lib", refuse)
    assert Projects(folder).read(project).id == project
    found = Engine(now / "lib").store.pictures([picture])[0]
    assert found.path.startswith(str(now))


def test_a_project_of_another_version_is_listed_with_the_reason(guarded, studio, project):
    file = studio.editor.projects.folder / project["id"] / "project.json"
    told = json.loads(file.read_text())
    del told["checksum"]
    file.write_text(json.dumps(told | {"schema_version": 1}))
    (listed,) = guarded.get("/api/projects").json()
    assert listed["title"] == "Damaged project"
    assert "made by another version of limner" in listed["damaged"]
