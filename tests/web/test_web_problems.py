"""Every error becomes one shape, with the status it deserves and no traceback."""

import logging
from http import HTTPStatus

import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient

from limner.errors import (
    CheckpointError,
    ConfigError,
    DataError,
    LimnerError,
    MissingError,
    NumericsError,
)
from limner.records import Record
from limner.web.security import ProblemError, install


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
        "title": HTTPStatus(422).phrase,
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
    assert answer.headers["allow"] == "GET"


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
        (NumericsError("x"), 500),
        (LimnerError("x"), 500),
    ],
)
def test_statuses(error, status):
    assert answered(error)["status"] == status


def test_an_application_names_its_own_errors():
    found = answered(NumericsError("x"), {NumericsError: (418, "teapot", "Out of numbers")})
    assert found == {"type": "urn:limner:teapot", "title": "Out of numbers", "status": 418, "detail": "x"}
