"""``limner studio``: what it opens, refuses and prints, without a server."""

from pathlib import Path
from urllib.request import url2pathname

import docx
import pytest
from made_up_pictures import ids_of
from PIL import Image
from starlette.testclient import TestClient

from limner.cli.main import run as limner
from limner.errors import DataError, MissingError
from limner.studio.app import create_app, opened
from limner.studio.routes import Studio


@pytest.fixture
def started(monkeypatch):
    """What would have been served."""
    calls = []

    def serve(app, bound, guard, *, browse=None, ready=None):
        if browse and browse.startswith("file:"):
            browse = Path(url2pathname(browse.removeprefix("file://"))).read_text(encoding="utf-8")
        calls.append((app, bound, guard, browse))
        ready()
        bound.listener.close()

    monkeypatch.setattr("limner.studio.app.serve", serve)
    return calls


@pytest.fixture
def words(drawn_library, tmp_path, monkeypatch):
    """The command, on a free port."""
    monkeypatch.delenv("LIMNER_TOKEN", raising=False)
    return ["studio", "--library", str(drawn_library), "--projects", str(tmp_path / "p"), "--port", "0"]


@pytest.mark.slow
def test_it_prints_where_it_is_with_a_token_and_opens_the_browser(started, words, capsys):
    assert limner(words) == 0
    app, bound, guard, browse = started[0]
    address = f"http://127.0.0.1:{bound.port}/?token={bound.token}"
    assert capsys.readouterr().out == f"limner studio: {address}\n"
    assert f'content="0;url={address}"' in browse
    assert guard.token == bound.token
    assert guard.cookie == f"limner-studio-{bound.port}"
    with TestClient(app) as client:
        assert client.get("/api/library").json()["writable"] is True
        assert client.get("/openapi.json").json()["security"] == [{"token": []}]
    assert limner([*words, "--no-browser"]) == 0
    assert started[1][3] is None
    assert started[1][1].token != bound.token


def test_no_token_where_none_is_wanted(started, words, capsys):
    assert limner([*words, "--no-token"]) == 0
    _, bound, guard, browse = started[0]
    told = capsys.readouterr()
    assert told.out == f"limner studio: http://127.0.0.1:{bound.port}/\n"
    assert browse == f"http://127.0.0.1:{bound.port}/"
    assert guard.token is None
    assert "everyone who can log in to this machine" in told.err


def test_a_token_of_ones_own_by_option_or_environment(started, words, monkeypatch, capsys):
    assert limner([*words, "--token", "from-the-options"]) == 0
    monkeypatch.setenv("LIMNER_TOKEN", "from-the-environment")
    assert limner([*words, "--host", "0.0.0.0"]) == 0  # noqa: S104
    assert [call[2].token for call in started] == ["from-the-options", "from-the-environment"]
    assert "?token=from-the-environment\n" in capsys.readouterr().out


def test_beyond_this_machine_the_address_holds_a_token(started, drawn_library, tmp_path, capsys):
    words = ["studio", "--library", str(drawn_library), "--projects", str(tmp_path), "--port", "0"]
    assert limner([*words, "--host", "0.0.0.0"]) == 0  # noqa: S104
    app, bound, guard, _ = started[0]
    assert guard.token == bound.token is not None
    assert f"?token={bound.token}" in capsys.readouterr().out
    with TestClient(app) as client:
        assert client.get("/api/library").json()["writable"] is False


@pytest.mark.slow
def test_a_text_is_opened_once(started, drawn_library, tmp_path, text, capsys):
    file = tmp_path / "day.md"
    file.write_text(text)
    words = ["studio", "--library", str(drawn_library), "--projects", str(tmp_path / "p"), "--port", "0"]
    for _ in range(2):
        assert limner([*words, "--text", str(file)]) == 0
    lines = capsys.readouterr().out.splitlines()
    first, second = (line.partition("?")[0].rpartition("/projects/")[2] for line in lines)
    assert first == second
    with TestClient(started[0][0]) as client:
        (project,) = client.get("/api/projects").json()
        assert (project["id"], project["title"]) == (first, "A day")
    file.write_text(text + "\n---\n\nMore.\n")
    assert limner([*words, "--text", str(file)]) == 0
    assert first not in capsys.readouterr().out


def test_projects_are_beside_the_library_unless_told_otherwise(started, drawn_library, tmp_path, text):
    import shutil

    shutil.copytree(drawn_library, tmp_path / "lib")
    file = tmp_path / "day.md"
    file.write_text(text)
    assert limner(["studio", "--library", str(tmp_path / "lib"), "--text", str(file), "--port", "0"]) == 0
    assert len([one for one in (tmp_path / "lib.projects").iterdir() if one.is_dir()]) == 1


def test_pictures_that_the_text_shows_are_kept(editor, tmp_path):
    catalogue = editor.engine.illustrator().library
    picture = catalogue.pictures(ids_of(catalogue)[:1])[0]
    (tmp_path / "texts").mkdir()
    for folder in (tmp_path, tmp_path / "texts"):
        Image.new("RGB", (9, 9), "teal").save(folder / f"{folder.name}.png")
    file = tmp_path / "texts" / "shown.md"
    names = (picture.path, "texts.png", f"../{tmp_path.name}.png")
    file.write_text("\n\n---\n\n".join(f"Step {n}.\n\n![]({name})" for n, name in enumerate(names)))
    lines = []
    project = editor.get(opened(file, editor, lines.append))
    assert [step.origin for step in project.board.steps[:2]] == ["given", "given"]
    assert project.board.steps[0].picture.id == picture.id
    assert project.board.steps[2].origin != "given"
    assert any("lies outside the folder of the text" in line for line in lines)


@pytest.mark.slow
def test_a_word_document_is_opened_once(editor, tmp_path):
    document = docx.Document()
    document.add_heading("Soup", 0)
    for words in ("Peel the onions.", "Fry them."):
        document.add_paragraph(words, style="List Number")
    document.save(str(tmp_path / "soup.docx"))
    made = opened(tmp_path / "soup.docx", editor, print)
    project = editor.get(made)
    assert [step.text for step in project.board.story.steps] == ["Peel the onions.", "Fry them."]
    assert (project.format, project.title) == ("markdown", "Soup")
    assert opened(tmp_path / "soup.docx", editor, print) == made


def test_a_text_given_by_the_page_can_name_no_file(editor, tmp_path):
    Image.new("RGB", (9, 9), "teal").save(tmp_path / "own.png")
    text = f"First.\n\n![]({tmp_path / 'own.png'})\n\n---\n\nSecond.\n"
    project = editor.create(text, format="markdown")
    assert project.board.steps[0].origin != "given"
    assert any("step 1 shows" in line and "without a folder" in line for line in project.notes)


@pytest.mark.parametrize("name", ["story.docx", "story.pdf"])
def test_texts_that_are_none(editor, tmp_path, name):
    file = tmp_path / name
    file.write_text("{}")
    with pytest.raises(DataError, match="as its name says"):
        opened(file, editor, print)


def test_a_text_that_is_not_there(editor, tmp_path):
    with pytest.raises(MissingError, match="expected a text file"):
        opened(tmp_path / "no.md", editor, print)


@pytest.mark.parametrize(
    ("words", "due"),
    [
        (["--library", "no-such-folder"], "no picture library here"),
        (["--library", "{lib}", "--port", "70000"], "expected 0 to 65535"),
        (["--library", "{lib}", "--host", "192.0.2.1"], "cannot listen on 192.0.2.1"),
        (["--library", "{lib}", "--no-token", "--host", "0.0.0.0"], "anyone on the network"),  # noqa: S104
        (["--library", "{lib}", "--token", "guess-me"], "found 8 characters, expected at least 16"),
        (["--library", "{lib}", "--token", "sixteen-letters-x", "--no-token"], "use one or the other"),
        (["--library", "{lib}", "--model", "no-such-run"], "no-such-run"),
    ],
)
def test_what_it_refuses_in_one_line(started, drawn_library, capsys, words, due):
    assert limner(["studio", "--no-browser", *(word.format(lib=drawn_library) for word in words)]) != 0
    told = capsys.readouterr().err.splitlines()
    assert due in told[-1]
    assert started == []


@pytest.mark.slow
def test_the_openapi_document_names_every_path_and_loads_nothing(drawn_engine, tmp_path):
    with TestClient(create_app(Studio(drawn_engine, tmp_path / "p", tmp_path / "t"))) as client:
        document = client.get("/openapi.json").json()
        assert document["openapi"].startswith("3.")
        paths = {
            "/api/library",
            "/api/library/pictures",
            "/api/library/folders",
            "/api/pictures/{picture}/thumbnail",
            "/api/pictures/{picture}/file",
            "/api/jobs/{job}",
            "/api/jobs/{job}/events",
            "/api/jobs/{job}/cancel",
            "/api/search",
            "/api/illustrate",
            "/api/projects",
            "/api/projects/{project}",
            "/api/projects/{project}/edits",
            "/api/projects/{project}/undo",
            "/api/projects/{project}/redo",
            "/api/projects/{project}/steps/{step}/candidates",
            "/api/projects/{project}/export",
            "/api/projects/{project}/preferences",
            "/api/preferences",
        }
        assert paths <= set(document["paths"])
        for path in document["paths"].values():
            for verb in path.values():
                assert verb["summary"]
                assert verb["description"]
                assert "default" in verb["responses"]
        assert client.get("/redoc").status_code == 404
