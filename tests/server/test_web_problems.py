"""Every error becomes one shape, with the status it deserves and no traceback."""

import errno
import logging

import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient

from limner.config import Record
from limner.errors import (
    CheckpointError,
    ConfigError,
    DataError,
    LimnerError,
    MissingError,
    NumericsError,
    StorageError,
)
from limner.server.problems import ProblemError, install


class Body(Record):
    number: int


@pytest.fixture
def client():
    app = FastAPI()
    install(app)

    @app.get("/data")
    def data():
        raise DataError("books: found three, expected four; buy one")

    @app.get("/own")
    def own():
        raise ProblemError(409, "too late", kind="stale", title="Stale")

    @app.get("/surprise")
    def surprise():
        raise ZeroDivisionError("a secret path")

    @app.get("/two")
    def two():
        return "a"

    @app.post("/two")
    def second():
        return "b"

    @app.post("/body")
    def body(body: Body):
        return body

    return TestClient(app, raise_server_exceptions=False)


def told(response):
    assert response.headers["content-type"] == "application/problem+json"
    found = response.json()
    assert set(found) == {"type", "title", "status", "detail"}
    assert found["status"] == response.status_code
    return found


def test_an_error_of_limner_keeps_its_line(client):
    assert told(client.get("/data")) == {
        "type": "about:blank",
        "title": "Invalid request",
        "status": 422,
        "detail": "books: found three, expected four; buy one",
    }


def test_a_refusal_of_the_server(client):
    assert told(client.get("/own")) == {
        "type": "urn:limner:stale",
        "title": "Stale",
        "status": 409,
        "detail": "too late",
    }


def test_unknown_addresses_and_methods(client):
    assert told(client.get("/nowhere"))["status"] == 404
    answer = client.delete("/data")
    assert told(answer)["status"] == 405
    assert answer.headers["allow"] == "GET, HEAD, OPTIONS"
    assert told(answer)["detail"] == "/data does not accept DELETE, only GET, HEAD, OPTIONS"
    both = client.options("/two")
    assert (both.status_code, both.headers["allow"]) == (204, "GET, HEAD, OPTIONS, POST")
    head = client.head("/two")
    assert (head.status_code, head.content, head.headers["content-length"]) == (200, b"", "3")
    assert client.head("/body").status_code == 405


@pytest.mark.parametrize(
    ("path", "status", "heading", "line"),
    [
        ("/data", 422, "Invalid request", "Books: found three, expected four; buy one."),
        (
            "/nowhere",
            404,
            "Not found",
            "/nowhere does not exist on this server; check the URL.",
        ),
        ("/own", 409, "Stale", "Too late."),
        ("/surprise", 500, "Something went wrong", "ZeroDivisionError; the terminal in which"),
    ],
)
def test_a_browser_gets_a_page_with_a_way_home(client, path, status, heading, line):
    answer = client.get(path, headers={"accept": "text/html,application/xhtml+xml,*/*;q=0.8"})
    assert (answer.status_code, answer.headers["content-type"]) == (status, "text/html; charset=utf-8")
    assert f"<h1>{heading}</h1>" in answer.text
    assert f"<p>{line}" in answer.text
    assert '<a href="/">' in answer.text
    assert "{" not in answer.text.partition("</style>")[2]


def test_what_somebody_sends_is_no_markup_on_that_page(client):
    answer = client.get("/<script>alert(1)<", headers={"accept": "text/html"})
    assert "<script" not in answer.text
    assert "script-src" not in answer.headers["content-security-policy"]
    assert answer.headers["content-security-policy"].startswith("default-src 'none'")


@pytest.mark.parametrize(
    ("sent", "line"),
    [
        ('{"number": []}', "number should be a valid integer"),
        ("{}", "number is missing"),
        ('{"number": 1, "more": 2}', "more is unknown"),
        ("{", "the body is not JSON (Expecting property name enclosed in double quotes)"),
        ('{"a": 1, "b": 1, "c": 1}', "number is missing; a is unknown; b is unknown; and more"),
    ],
)
def test_what_does_not_fit_is_one_sentence(client, sent, line):
    answer = client.post("/body", content=sent, headers={"content-type": "application/json"})
    assert told(answer)["detail"] == line


@pytest.mark.parametrize("sent", ['{"number": "x"}', "{", "{}", '{"number": 1, "more": 2}', "[]", ""])
def test_a_body_that_does_not_fit(client, sent):
    answer = client.post("/body", content=sent, headers={"content-type": "application/json"})
    found = told(answer)
    assert (found["type"], found["status"]) == ("urn:limner:malformed", 422)
    assert found["detail"]


def test_the_unforeseen_shows_no_more_than_its_kind(client, caplog):
    with caplog.at_level(logging.ERROR, "limner"):
        found = told(client.get("/surprise"))
    assert found["status"] == 500
    assert "ZeroDivisionError" in found["detail"]
    assert "secret" not in found["detail"]
    assert "a secret path" in caplog.text


def answered(error, kinds=None):
    """What an application says of an error of limner."""
    app = FastAPI()
    install(app, kinds)

    @app.get("/")
    def fails():
        raise error

    return told(TestClient(app).get("/"))


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (ConfigError("x"), 400),
        (DataError("x"), 422),
        (CheckpointError("x"), 409),
        (MissingError("x"), 503),
        (StorageError(28, "No space left on device", "x", "free some"), 507),
        (OSError(30, "Read-only file system", "x"), 507),
        (NumericsError("x"), 500),
        (LimnerError("x"), 500),
    ],
)
def test_statuses(error, status):
    assert answered(error)["status"] == status


def test_a_full_disk_is_told_as_the_command_tells_it():
    found = answered(OSError(errno.EIO, "Input/output error", "projects/a"))
    assert found == {
        "type": "urn:limner:storage",
        "title": "Could not write to disk",
        "status": 507,
        "detail": "projects/a: Input/output error; what was stored before is safe;"
        " check the disk, then try again",
    }


def test_other_refusals_of_the_machine_are_unforeseen(caplog):
    assert answered(PermissionError(13, "Permission denied", "x"))["status"] == 500


def test_an_application_names_its_own_errors():
    found = answered(NumericsError("x"), {NumericsError: (418, "teapot", "Out of numbers")})
    assert found == {"type": "urn:limner:teapot", "title": "Out of numbers", "status": 418, "detail": "x"}
