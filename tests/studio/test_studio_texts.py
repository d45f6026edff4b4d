"""Documents opened over HTTP, and the pictures that texts show, which are stored with their project."""

import io
from pathlib import Path

import docx
import pytest
from made_up_pictures import ids_of
from PIL import Image
from starlette.testclient import TestClient

from limner.server.security import Guard, Guarded
from limner.studio import routes
from limner.studio.app import create_app
from limner.studio.projects import PICTURES, Projects


def picture_bytes(colour):
    """A small picture that is not in the library."""
    data = io.BytesIO()
    Image.new("RGB", (90, 60), colour).save(data, "png")
    return data.getvalue()


@pytest.fixture
def picture(drawn_engine):
    """A picture of the library."""
    catalogue = drawn_engine.illustrator().library
    return catalogue.pictures(ids_of(catalogue)[:1])[0]


@pytest.fixture
def soup(picture):
    """The bytes of a Word document of three steps: two show pictures, one of which is in the library."""
    document, data = docx.Document(), io.BytesIO()
    document.add_heading("Soup", 0)
    document.add_paragraph("Peel the onions.", style="List Number")
    for colour in ("teal", "olive"):
        document.add_paragraph().add_run().add_picture(io.BytesIO(picture_bytes(colour)))
    document.add_paragraph("Fry them.", style="List Number")
    document.add_picture(picture.path)
    document.add_paragraph("Eat the soup.", style="List Number")
    document.save(data)
    return data.getvalue()


def opened(guarded, data, name="soup.docx", **asked):
    answer = guarded.post("/api/documents", params={"name": name, **asked}, content=data)
    assert answer.status_code == 201, answer.text
    return answer.json()


def files(studio, project):
    return sorted(file.name for file in (studio.editor.projects.folder / project["id"] / PICTURES).iterdir())


def test_a_document_becomes_a_project_with_all_its_pictures_in_its_own_folder(guarded, studio, soup, picture):
    project = opened(guarded, soup, "C:\\letters\\soup.docx")
    story, steps = project["board"]["story"], project["board"]["steps"]
    assert project["title"] == "Soup"
    assert [step["text"] for step in story["steps"]] == ["Peel the onions.", "Fry them.", "Eat the soup."]
    assert [len(step["pictures"]) for step in story["steps"]] == [2, 1, 0]
    assert [step["origin"] for step in steps[:2]] == ["given", "given"]
    assert steps[1]["chosen"]["picture"]["id"] == picture.id
    shown = [ref["sha256"] for step in story["steps"] for ref in step["pictures"]]
    assert [name.partition(".")[0] for name in files(studio, project)] == sorted(shown)
    for one in shown:
        assert guarded.get(f"/api/pictures/{one}/thumbnail").headers["content-type"] == "image/webp"
    page = guarded.get(f"/api/projects/{project['id']}/export", params={"format": "html"})
    assert "limner-notes" not in page.headers
    assert page.text.count("data:image/") >= 3
    guarded.delete(f"/api/projects/{project['id']}")
    assert guarded.get(f"/api/pictures/{shown[0]}/thumbnail").status_code == 404


def test_pictures_of_the_text_stay_whatever_is_edited(guarded, edit, soup, picture):
    project = opened(guarded, soup)
    own = project["board"]["steps"][0]["chosen"]["picture"]["id"]
    now = edit(project, kind="retext", text=project["text"].replace("Eat", "Serve"))
    now = edit(now, kind="ban", picture=picture.id)
    now = edit(now, kind="again")
    now = edit(now, kind="reword", step=0, text="Peel the large onions.")
    now = edit(now, kind="move", step=0, to=1)
    assert [step["origin"] for step in now["board"]["steps"][:2]] == ["given", "given"]
    assert now["board"]["steps"][1]["chosen"]["picture"]["id"] == own
    assert len(now["board"]["story"]["steps"][1]["pictures"]) == 2
    assert now["missing"] == []
    refused = edit(now, 422, kind="swap", a=1, b=2)
    assert "the text's own pictures" in refused["detail"]
    edit(now, 422, kind="lock", step=1)
    assert edit(now, kind="lock-others", step=2)["steps"][1]["state"] == "free"


def test_a_picture_can_be_chosen_in_addition_and_taken_away_again(guarded, edit, soup):
    project = opened(guarded, soup)
    candidates = guarded.get(f"/api/projects/{project['id']}/steps/0/candidates").json()["items"]
    chosen = edit(project, kind="choose", step=0, picture=candidates[0]["picture"]["id"])
    assert chosen["board"]["steps"][0]["origin"] == "pinned"
    assert len(chosen["board"]["story"]["steps"][0]["pictures"]) == 2
    for kind in ("unlock", "blank"):
        back = edit(chosen, kind=kind, step=0)
        assert back["board"]["steps"][0]["origin"] == "given"
        own = back["board"]["steps"][0]["chosen"]["picture"]
        assert own == project["board"]["steps"][0]["chosen"]["picture"]
        chosen = guarded.post(f"/api/projects/{back['id']}/undo", json={"revision": back["revision"]}).json()
    framed = edit(back | {"revision": chosen["revision"]}, kind="unlock", step=0)
    picture = framed["board"]["steps"][0]["chosen"]["picture"]["id"]
    framed = edit(framed, kind="frame", step=0, picture=picture, framing={"caption": "Onions"})
    assert framed["board"]["steps"][0]["origin"] == "given"
    assert framed["board"]["steps"][0]["framing"]["caption"] == "Onions"


def test_a_project_keeps_its_pictures_when_it_is_copied_moved_or_restored(guarded, studio, soup):
    project = opened(guarded, soup)
    copy = guarded.post(f"/api/projects/{project['id']}/duplicate").json()
    assert files(studio, copy) == files(studio, project)
    guarded.delete(f"/api/projects/{project['id']}")
    assert guarded.get(f"/api/projects/{copy['id']}").json()["missing"] == []
    (item,) = guarded.get("/api/trash").json()
    assert guarded.post(f"/api/trash/{item['id']}/restore").json()["missing"] == []
    before = Path(copy["board"]["story"]["steps"][0]["pictures"][0]["path"])
    moved = studio.editor.projects.folder.rename(studio.editor.projects.folder.with_name("moved"))
    projects = Projects(moved)
    board = projects.board(projects.read(copy["id"]))
    assert board.story.steps[0].pictures[0].path == str(moved / copy["id"] / PICTURES / before.name)
    assert Path(board.steps[0].picture.path).is_file()


def test_pictures_inside_a_text_are_stored_too_and_those_that_are_not_there_are_named(guarded, studio):
    import base64

    data = base64.b64encode(picture_bytes("teal")).decode()
    text = f"A fox.\n\n![A teal house](data:image/png;base64,{data})\n\n---\n\nA boat. ![](lake.jpg)\n"
    made = guarded.post("/api/projects", json={"text": text, "format": "markdown"}).json()
    assert made["board"]["steps"][0]["origin"] == "given"
    assert len(files(studio, made)) == 1
    assert any("lake.jpg" in line for line in made["notes"])
    assert data in made["text"]


def test_what_is_no_text_is_one_line_and_leaves_nothing(guarded, studio, soup):
    def refused(data, name="it.docx"):
        answer = guarded.post("/api/documents", params={"name": name}, content=data)
        assert answer.status_code == 422, answer.text
        return answer.json()["detail"]

    assert "is not a Word document" in refused(b"\x89PNG\r\n\x1a\n\0")
    assert "damaged archive or Office document" in refused(soup[:900])
    assert "3 million characters" in refused(b"a\n" * 1_600_000, "it.txt")
    assert not studio.editor.projects.ids()
    assert list(studio.editor.projects.folder.glob("*/*")) == []


def test_a_project_that_cannot_be_illustrated_leaves_no_pictures(guarded, studio, soup, monkeypatch):
    def broken(*_, **__):
        raise OSError("disk")

    monkeypatch.setattr("limner.studio.project_editor.illustrate_story", broken)
    with pytest.raises(OSError, match="disk"):
        studio.editor.open(soup, "soup.docx")
    assert list(studio.editor.projects.folder.iterdir()) == []


def test_a_document_may_be_larger_than_other_requests_and_not_without_a_bound(studio):
    guard = Guard(port=8420, body_bytes=10, larger={routes.DOCUMENTS: 1000})
    with TestClient(Guarded(create_app(studio), guard), base_url="http://127.0.0.1:8420") as client:
        sizes = (("/api/documents?name=a", 900), ("/api/documents?name=a", 1001), ("/api/projects", 900))
        statuses = [client.post(path, content=bytes(size)).status_code for path, size in sizes]
    assert statuses == [422, 413, 413]
