"""Documents opened; texts that keep their reader busy, ended in time, with their job or their client."""

import asyncio
import io
import json
import signal
import sys
import time

import docx
import pytest
from made_up_pictures import ids_of
from PIL import Image
from starlette.testclient import TestClient

from limner.server.security import Guard, Guarded
from limner.studio import edits, routes
from limner.studio.app import create_app
from limner.text import worker
from limner.text.worker import ReaderProcesses

pytestmark = pytest.mark.slow

HANGING = """
from limner.text import worker

read = worker.parse_story_report


def hanging(text, **how):
    while "for ever" in text:
        pass
    return read(text, **how)


worker.parse_story_report = hanging
worker.main()
"""
ASKED = {"text": "A fox for ever.", "format": "plain"}


@pytest.fixture
def reader(monkeypatch):
    """The studio's reader, whose processes hang at some words."""
    monkeypatch.setattr(worker, "_COMMAND", (sys.executable, "-P", "-c", HANGING))
    reader = ReaderProcesses()
    monkeypatch.setattr(edits, "READER", reader)
    yield reader
    reader.close()


@pytest.fixture
def started(reader, monkeypatch):
    """All processes that the reader starts."""
    found, start = [], ReaderProcesses._started
    monkeypatch.setattr(ReaderProcesses, "_started", lambda self: found.append(start(self)) or found[-1])
    return found


@pytest.mark.parametrize("path", ["/api/projects", "/api/illustrate"])
def test_a_text_that_is_not_read_in_time_is_one_line_and_others_are_read(guarded, reader, started, path):
    reader.deadline_s = 0.3
    answer = guarded.post(path, json=ASKED)
    assert answer.status_code == 422
    assert answer.json()["detail"].startswith("text: not read within 0.3 seconds; expected ")
    assert [one.returncode for one in started] == [-signal.SIGKILL]
    reader.deadline_s = 30
    assert guarded.post(path, json=ASKED | {"text": "A fox."}).status_code in (200, 201)


def test_a_cancelled_job_ends_the_reading_of_its_text(guarded, started):
    job = guarded.post("/api/projects", json=ASKED, headers={"Prefer": "respond-async"}).json()["job"]
    while not started:
        time.sleep(0.01)
    guarded.post(f"/api/jobs/{job}/cancel")
    while (status := guarded.get(f"/api/jobs/{job}").json())["state"] == "running":
        time.sleep(0.01)
    assert (status["state"], status["message"]) == ("cancelled", "cancelled; nothing was kept")
    assert started[0].returncode == -signal.SIGKILL


@pytest.mark.parametrize("path", ["/api/projects", "/api/illustrate"])
def test_a_client_that_has_gone_ends_the_reading_of_its_text(studio, started, path):
    body = json.dumps(ASKED).encode()
    sent = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive():
        if sent:
            return sent.pop()
        while not started:
            await asyncio.sleep(0.01)
        return {"type": "http.disconnect"}

    async def send(message):
        pass

    headers = {
        "host": "127.0.0.1:8420",
        "content-type": "application/json",
        "content-length": str(len(body)),
    }
    scope = {
        "type": "http",
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 8420),
    }
    asyncio.run(Guarded(create_app(studio), Guard(port=8420))(scope, receive, send))
    assert [one.returncode for one in started] == [-signal.SIGKILL]
    assert not studio.editor.projects.folder.exists()


@pytest.fixture
def illustrated(drawn_engine):
    """The bytes of a Word document of two steps, and the picture of the library that its second one shows."""
    catalogue = drawn_engine.illustrator().catalogue
    picture = catalogue.pictures(ids_of(catalogue)[:1])[0]
    document, outside, data = docx.Document(), io.BytesIO(), io.BytesIO()
    Image.new("RGB", (9, 9), "teal").save(outside, "png")
    document.add_paragraph("Peel the onions.", style="List Number").add_run().add_picture(outside)
    document.add_paragraph("Fry them.", style="List Number")
    document.add_picture(picture.path)
    document.sections[0].footer.paragraphs[0].text = "page 1"
    document.save(data)
    return data.getvalue(), picture.id


def test_a_document_is_opened_as_markdown_with_its_pictures_of_the_library_and_nothing_silent(
    guarded, illustrated
):
    data, picture = illustrated
    opened = guarded.post("/api/documents?name=C:\\letters\\soup.txt", content=data)
    assert opened.status_code == 200, opened.text
    found = opened.json()
    assert found["given"] == {"1": picture}
    assert [line for line in found["notes"] if "not in the library" in line] == [
        "soup.txt: step 1 shows a picture that is not in the library; limner chooses one"
    ]
    assert any("foot of the pages" in line for line in found["notes"])
    project = guarded.post("/api/projects", json=found).json()
    assert [step["text"] for step in project["board"]["story"]["steps"]] == ["Peel the onions.", "Fry them."]
    shown = project["board"]["steps"][1]
    assert (shown["origin"], shown["chosen"]["picture"]["id"]) == ("given", picture)
    assert set(found["notes"]) <= set(project["notes"])


def test_a_document_that_is_none_too_long_or_too_slow_is_one_line(guarded, illustrated, reader, monkeypatch):
    def refused(data, name="it.docx"):
        answer = guarded.post(f"/api/documents?name={name}", content=data)
        assert answer.status_code == 422, answer.text
        return answer.json()["detail"]

    assert "is a PNG picture; expected a text, a Word document" in refused(b"\x89PNG\r\n\x1a\n\0")
    assert "is not a text, Word document (.docx) or PDF" in refused(b"\0\1\2")
    assert "a damaged ZIP archive" in refused(illustrated[0][:900])
    monkeypatch.setattr(routes, "TEXT_LETTERS", 10)
    assert "letters, at most 10" in refused(illustrated[0])
    monkeypatch.setattr(routes, "READER", reader)
    reader.deadline_s = 0.0
    assert refused(illustrated[0]).startswith("text: not read within 0 seconds")


def test_a_document_whose_reader_is_not_installed_says_what_to_install(guarded, monkeypatch):
    without = "import sys; sys.modules['pypdfium2'] = None; from limner.text import worker; worker.main()"
    monkeypatch.setattr(worker, "_COMMAND", (sys.executable, "-P", "-c", without))
    reader = ReaderProcesses()
    monkeypatch.setattr(routes, "READER", reader)
    answer = guarded.post("/api/documents?name=manual.pdf", content=b"%PDF-1.7\n")
    reader.close()
    assert "pip install 'limner[documents]'" in answer.json()["detail"]
    assert answer.status_code == 503


def test_a_document_may_be_larger_than_other_requests_and_not_without_a_bound(studio):
    guard = Guard(port=8420, body_bytes=10, larger={routes.DOCUMENTS: 1000})
    with TestClient(Guarded(create_app(studio), guard), base_url="http://127.0.0.1:8420") as client:
        statuses = [
            client.post(path, content=bytes(size)).status_code
            for path, size in (
                ("/api/documents?name=a", 900),
                ("/api/documents?name=a", 1001),
                ("/api/projects", 900),
            )
        ]
    assert statuses == [422, 413, 413]
