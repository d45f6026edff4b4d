"""Texts that keep their reader busy: ended by a deadline, by a cancelled job, or when the client has gone."""

import asyncio
import json
import signal
import sys
import time

import pytest

from limner.server.security import Guard, Guarded
from limner.studio import edits
from limner.studio.app import create_app
from limner.text import worker
from limner.text.worker import ReaderProcesses

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
    assert not studio.workshop.projects.folder.exists()
