"""Texts illustrated as jobs: watched, cancelled, and in nobody's way."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from limner.encoders.sentences import MiniLM
from limner.errors import DataError
from limner.store import search as channels
from limner.studio.jobs import JobCancelledError, Jobs

LATER = {"Prefer": "respond-async"}
LONG = "\n\n".join(f"A fox of the {number}th kind looks out of his door." for number in range(12))


def begun(client, text=LONG, **more):
    answer = client.post("/api/projects", json={"text": text, "format": "plain", **more}, headers=LATER)
    assert answer.status_code == 202, answer.text
    assert answer.headers["preference-applied"] == "respond-async"
    assert answer.headers["location"] == f"/api/jobs/{answer.json()['job']}"
    return answer.json()["job"]


def ended(client, job):
    for _ in range(1200):
        status = client.get(f"/api/jobs/{job}").json()
        if status["state"] != "running":
            return status
        time.sleep(0.02)
    raise AssertionError(f"still running: {status}")


@pytest.fixture
def gate(monkeypatch):
    """An encoder that waits before every portion, of two steps, of a text about foxes of some kind."""
    monkeypatch.setattr(channels, "PORTION_LETTERS", 100)
    encode = MiniLM.encode_text

    class Gate:
        reached, go = threading.Semaphore(0), threading.Semaphore(0)
        seen = 0

    def slow(self, texts):
        if any("kind" in text for text in texts):
            Gate.seen += 1
            Gate.reached.release()
            assert Gate.go.acquire(timeout=60)
        return encode(self, texts)

    monkeypatch.setattr(MiniLM, "encode_text", slow)
    return Gate


@pytest.mark.slow
def test_a_text_is_a_job_that_ends_with_its_project(guarded):
    job = begun(guarded, title="Foxes")
    status = ended(guarded, job)
    assert (status["state"], status["kind"], status["subject"]) == ("done", "project", "Foxes"), status
    project = guarded.get(f"/api/projects/{status['project']}").json()
    assert (project["title"], project["text"]) == ("Foxes", LONG)
    assert len(project["board"]["steps"]) == 12
    assert guarded.get("/api/jobs").json() == []


@pytest.mark.slow
def test_a_long_text_says_how_far_it_is_and_others_are_answered_meanwhile(guarded, gate, text):
    job = begun(guarded, "  ".join(["A slow kind of text."]) + "\n\n" + LONG.replace("door", "window"))
    done = []
    for _ in range(3):
        assert gate.reached.acquire(timeout=60)
        status = guarded.get(f"/api/jobs/{job}").json()
        assert (status["state"], status["stage"]) == ("running", "text")
        done.append(status["done"])
        assert [one["job"] for one in guarded.get("/api/jobs").json()] == [job]
        gate.go.release()
    assert 0 == done[0] < done[1] < done[2] < status["total"]
    assert gate.reached.acquire(timeout=60)
    # Between two portions of the long text nothing is held that a search or another board needs.
    with ThreadPoolExecutor(1) as other:
        gate.go.release()
        asked = other.submit(guarded.post, "/api/projects", json={"text": text, "format": "markdown"})
        until = time.monotonic() + 60
        while not asked.done() and time.monotonic() < until:
            if gate.reached.acquire(timeout=0.1):
                assert guarded.get(f"/api/jobs/{job}").json()["state"] == "running"
                if not asked.done():
                    gate.go.release()
        assert asked.result(60).status_code == 201
    for _ in range(20):
        gate.go.release()
    assert ended(guarded, job)["state"] == "done"


def test_a_cancelled_text_ends_between_portions_and_leaves_nothing(guarded, gate, studio):
    job = begun(guarded, LONG.replace("fox", "wolf"))
    assert gate.reached.acquire(timeout=60)
    guarded.post(f"/api/jobs/{job}/cancel")
    gate.go.release()
    status = ended(guarded, job)
    assert (status["state"], status["project"]) == ("cancelled", None)
    assert status["message"] == "cancelled; nothing was kept"
    assert gate.seen == 1
    folder = studio.editor.projects.folder
    assert not folder.exists() or list(folder.iterdir()) == []
    assert guarded.get("/api/projects").json() == []


def test_a_text_that_cannot_be_illustrated_says_why(guarded):
    many = begun(guarded, "A fox. " * 301, by="sentence")
    status = ended(guarded, many)
    assert (status["state"], status["project"]) == ("failed", None)
    assert "301 steps" in status["message"]
    assert guarded.get("/api/projects").json() == []


def test_few_texts_at_once_and_few_that_wait(drawn_engine):
    jobs = Jobs(drawn_engine)
    go = threading.Event()
    running, most, lock = 0, 0, threading.Lock()

    def work(progress):
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        go.wait(60)
        with lock:
            running -= 1
        return "0" * 16

    made = [jobs.illustrate(str(number), work) for number in range(22)]
    with pytest.raises(DataError, match="texts are waiting"):
        jobs.illustrate("one more", work)
    waiting = [one for one in made if one.status.stage == "waiting"]
    assert len(waiting) >= 20
    waiting[-1].stop.set()  # one that waits can be cancelled too
    waiting[-1].thread.join(60)
    assert waiting[-1].status.state == "cancelled"
    go.set()
    for one in made:
        one.thread.join(60)
    assert [one.status.state for one in made].count("done") == 21
    assert most == 2


def test_a_text_that_is_being_illustrated_ends_with_the_studio(drawn_engine):
    jobs = Jobs(drawn_engine)

    def work(progress):
        for _ in range(10_000):
            progress.advance(1)
            time.sleep(0.01)
        return ""

    job = jobs.illustrate("", work)
    jobs.stop(60)
    assert not job.thread.is_alive()
    assert job.status.state == "cancelled"
    with pytest.raises(JobCancelledError):
        job.advance(1)


SOON = {"Prefer": "respond-async, wait=10"}


def test_a_quick_change_is_answered_at_once_and_so_is_its_refusal(guarded, project):
    url = f"/api/projects/{project['id']}/edits"
    body = {"revision": 1, "edit": {"kind": "blank", "step": 1}}
    answer = guarded.post(url, json=body, headers=SOON)
    assert (answer.status_code, answer.json()["revision"]) == (200, 2)
    stale = guarded.post(url, json=body, headers=SOON)
    assert (stale.status_code, stale.json()["type"]) == (409, "urn:limner:stale-revision")
    previewed = guarded.post(f"/api/projects/{project['id']}/preview", json={"revision": 2}, headers=SOON)
    assert (previewed.status_code, previewed.json()["revision"]) == (200, 2)


@pytest.mark.slow
def test_a_long_change_goes_on_as_a_job_and_can_be_cancelled(guarded, project, gate):
    url = f"/api/projects/{project['id']}/edits"
    body = {"revision": 1, "edit": {"kind": "retext", "text": LONG.replace("door", "den")}}
    answer = guarded.post(url, json=body, headers=LATER)
    assert answer.status_code == 202
    assert gate.reached.acquire(timeout=60)
    assert guarded.get(f"/api/jobs/{answer.json()['job']}").json()["stage"] == "text"
    guarded.post(f"/api/jobs/{answer.json()['job']}/cancel")
    gate.go.release()
    assert ended(guarded, answer.json()["job"])["state"] == "cancelled"
    assert guarded.get(f"/api/projects/{project['id']}").json() == project
    again = guarded.post(url, json=body, headers=LATER).json()["job"]
    for _ in range(40):
        gate.go.release()
    assert ended(guarded, again)["project"] == project["id"]
    assert len(guarded.get(f"/api/projects/{project['id']}").json()["steps"]) == 12
