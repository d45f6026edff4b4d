"""A library of drawings with captions, and a studio over it that each test may change."""

import shutil
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from limner.cli.index import index
from limner.research.worlds import PictureBook
from limner.research.worlds.book_files import write
from limner.server.security import Guard, Guarded
from limner.studio.app import create_app
from limner.studio.engine import Engine
from limner.studio.project_editor import ProjectEditor
from limner.studio.projects import Projects
from limner.studio.routes import Studio

WORDS = ("A fox looks out.", "The rabbit bakes a cake.", "Snow falls.", "A boat sails.")
TEXT = "# A day\n\n" + "\n\n---\n\n".join(WORDS) + "\n"


@pytest.fixture(scope="session")
def drawn(tmp_path_factory) -> Path:
    """A folder of drawings with captions, one that is no picture, and one twice."""
    folder = tmp_path_factory.mktemp("drawn") / "pictures"
    folder.mkdir()
    write(folder, PictureBook(5).stories(2, pages=(6, 6)), size_px=64, captions="metadata", distractors=4)
    first = min(one for one in folder.rglob("*") if one.suffix in (".jpg", ".png", ".webp"))
    shutil.copy(first, folder / f"again{first.suffix}")
    (folder / "broken.jpg").write_bytes(b"no picture")
    return folder


@pytest.fixture(scope="session")
def drawn_library(tmp_path_factory, drawn) -> Path:
    """The drawings, indexed; never changed."""
    folder = tmp_path_factory.mktemp("studio") / "lib"
    with redirect_stdout(StringIO()), redirect_stderr(StringIO()):
        index(drawn, library=folder, encoder=("colour",))
    return folder


@pytest.fixture(scope="session")
def drawn_engine(drawn_library) -> Engine:
    """The library, loaded once."""
    return Engine(drawn_library)


@pytest.fixture
def editor(drawn_engine, tmp_path) -> ProjectEditor:
    """Projects in a folder of this test."""
    return ProjectEditor(drawn_engine, Projects(tmp_path / "projects"))


@pytest.fixture
def studio(drawn_engine, tmp_path) -> Studio:
    """A studio of this test."""
    return Studio(drawn_engine, tmp_path / "projects", tmp_path / "thumbnails")


@pytest.fixture
def guarded(studio):
    """The studio over HTTP, behind its guard."""
    with TestClient(
        Guarded(create_app(studio), Guard(port=8420)),
        base_url="http://127.0.0.1:8420",
        follow_redirects=False,
    ) as client:
        yield client


@pytest.fixture
def text() -> str:
    """Four steps in Markdown."""
    return TEXT


@pytest.fixture
def project(guarded, text) -> dict:
    """A project of four steps, each with a picture."""
    options = {"min_probability": 0}
    made = guarded.post("/api/projects", json={"text": text, "format": "markdown", "options": options})
    assert made.status_code == 201, made.text
    return made.json()


@pytest.fixture
def edit(guarded):
    """Change a project; the answer is checked."""

    def changed(project, status=200, **edit):
        answer = guarded.post(
            f"/api/projects/{project['id']}/edits", json={"revision": project["revision"], "edit": edit}
        )
        assert answer.status_code == status, answer.text
        return answer.json() if status != 200 else guarded.get(f"/api/projects/{project['id']}").json()

    return changed
