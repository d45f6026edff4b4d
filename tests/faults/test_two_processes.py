"""Two processes at work on one library: nothing is lost, and whoever has to wait is told so in one line."""

from concurrent.futures import wait
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO

import pytest
from fakes import content, noise_picture
from index_processes import processes
from starlette.testclient import TestClient

from limner.cli.main import run
from limner.store.database import Database
from limner.studio import engine
from limner.studio.app import create_app
from limner.studio.routes import Studio

pytestmark = pytest.mark.slow

QUICK = ("--no-captions",)


@pytest.fixture(scope="module")
def two():
    with processes() as both:
        yield both


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Three folders of pictures with names that can be searched for."""
    made = []
    for number, name in enumerate(("red-barn", "white-goat", "blue-boat")):
        folder = tmp_path_factory.mktemp("pictures") / name
        folder.mkdir()
        for one in range(3):
            noise_picture(10 * number + one).save(folder / f"{name}-{one}.png")
        made.append(folder)
    return made


def indexed(library, *folders, options=()):
    words = ["index", *folders, "--library", library, "--encoder", "colour", *options]
    with redirect_stdout(StringIO()), redirect_stderr(StringIO()):
        assert run(list(map(str, words))) == 0
    return content(Database(library))


@pytest.mark.parametrize(
    ("there", "rounds"),
    [(False, 1), (True, 1), pytest.param(False, 5, marks=pytest.mark.soak)],
    ids=["new", "old", "new again and again"],
)
def test_of_two_indexes_started_at_once_one_waits_and_nothing_is_lost(tmp_path, two, folders, there, rounds):
    due = indexed(tmp_path / "undisturbed", *folders[: 2 + there], options=QUICK)
    for number in range(rounds):
        library = tmp_path / f"lib-{number}"
        if there:
            indexed(library, folders[2], options=QUICK)
        two.go_on.clear()
        two.looking.clear()
        two.waiting.clear()
        runs = [two.index(one, "--library", library, *QUICK, together=True) for one in folders[:2]]
        assert two.looking.wait(60)
        assert two.waiting.wait(60)
        two.go_on.set()
        told = [run.result() for run in runs]
        assert [status for status, _ in told] == [0, 0], told
        assert sum("another 'limner index' is adding to this library" in lines for _, lines in told) == 1
        assert content(Database(library)) == due


def test_a_running_studio_goes_on_beside_an_index_and_sees_its_pictures(tmp_path, two, folders, monkeypatch):
    library = tmp_path / "lib"
    indexed(library, folders[0])
    monkeypatch.setattr(engine, "LOOK_S", 0.0)  # it looks at the library with every question
    studio = Studio(engine.Engine(library), library / "projects", library / "thumbnails")
    with TestClient(create_app(studio)) as client:

        def ask(method, path, status=200, **given):
            answer = client.request(method, path, **given)
            assert answer.status_code == status, answer.text
            return answer.json()

        def goats():
            return ask("GET", "/api/library/pictures", params={"q": "white goat"})["total"]

        text = {"text": "A red barn.\n\n---\n\nA white goat.\n", "format": "markdown"}
        project = ask("POST", "/api/projects", 201, json=text)
        two.looking.clear()
        two.go_on.clear()
        run = two.index(folders[1], "--library", library)
        assert two.looking.wait(60)
        # The other process indexes, and the studio writes all the same.
        assert (ask("GET", "/api/library")["pictures"], goats()) == (3, 0)
        barn = ask("GET", "/api/library/pictures", params={"q": "red-barn-0"})["items"][0]["id"]
        words = {"captions": ["A barn at dawn"], "keywords": []}
        assert ask("PUT", f"/api/pictures/{barn}/words", json=words)["edited"] is True
        assert ask("GET", "/api/library/pictures", params={"q": "dawn"})["total"] == 1
        edit = {"revision": 1, "edit": {"kind": "retitle", "title": "Made meanwhile"}}
        ask("POST", f"/api/projects/{project['id']}/edits", json=edit)
        edited = ask("GET", f"/api/projects/{project['id']}")
        ask("POST", "/api/projects", 201, json=text)
        two.go_on.set()
        while wait([run], 0.05).not_done:
            assert ask("GET", "/api/library")["pictures"] in (3, 6)
            goats()
        status, told = run.result()
        assert status == 0, told
        assert (ask("GET", "/api/library")["pictures"], goats()) == (6, 3)
        assert ask("GET", f"/api/projects/{project['id']}") == edited
        assert len(ask("GET", "/api/projects")) == 2
        later = ask("POST", "/api/projects", 201, json={**text, "options": {"min_probability": 0}})
        shown = Database(library).pictures([later["board"]["steps"][1]["chosen"]["picture"]["id"]])[0]
        assert "white-goat" in shown.path
    assert len(Database(library)) == 6
