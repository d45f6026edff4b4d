"""Projects lie beside their library: it can be deleted and indexed again without them being lost."""

import shutil

import pytest

from limner.cli.main import run as limner
from limner.studio.engine import Engine
from limner.studio.project_editor import ProjectEditor
from limner.studio.projects import Projects, projects_folder, projects_found

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
    assert Engine(library).illustrator().library.picture(picture)


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
    found = Engine(now / "lib").illustrator().library.picture(picture)
    assert found.path.startswith(str(now))


def test_projects_of_an_earlier_version_are_moved_and_a_line_says_so(library):
    inside = library / "projects"
    project, _ = made(library, inside)
    removed, _ = made(library, inside)
    Projects(inside).remove(removed)
    assert projects_found(library) == inside
    lines = []
    folder = projects_folder(library, lines.append)
    assert folder == library.with_name("lib.projects")
    (line,) = lines
    assert str(inside) in line
    assert str(folder) in line
    assert not inside.exists()
    assert Projects(folder).ids() == [project]
    assert [one.id.partition("-")[0] for one in Projects(folder).trashed()] == [removed]
    assert projects_folder(library, refuse) == projects_found(library) == folder


def test_a_project_that_is_in_both_places_is_not_written_over(library):
    inside, beside = library / "projects", library.with_name("lib.projects")
    project, _ = made(library, inside)
    shutil.copytree(inside, beside)
    mark = beside / project / "mark"
    mark.touch()
    other, _ = made(library, inside)
    lines = []
    assert projects_folder(library, lines.append) == beside
    assert {project, other} == set(Projects(beside).ids())
    assert (Projects(inside).ids(), mark.exists()) == ([project], True)
    assert "1 project could not be moved" in lines[-1]


def test_projects_that_cannot_be_moved_stay_where_they_are(library, monkeypatch):
    inside = library / "projects"
    project, _ = made(library, inside)

    def refuse(source, target):
        raise OSError(18, "Invalid cross-device link", str(source))

    monkeypatch.setattr("pathlib.Path.rename", refuse)
    lines = []
    assert projects_folder(library, lines.append) == inside
    assert "cannot be moved" in lines[0]
    assert Projects(inside).ids() == [project]
