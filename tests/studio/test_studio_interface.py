"""The REST interface keeps what its description promises, whatever it is sent."""

import json
import re
from collections import Counter

import pytest
import schemathesis
from fastapi.responses import JSONResponse
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.errors import Unsatisfiable
from made_up_pictures import ids_of
from schemathesis import GenerationMode
from schemathesis.core.failures import Failure, FailureGroup
from schemathesis.core.parameters import ParameterLocation
from schemathesis.specs.openapi.checks import negative_data_rejection, positive_data_acceptance
from starlette.testclient import TestClient

from limner.server.security import Guard, Guarded
from limner.studio import routes, schemas
from limner.studio.app import create_app
from limner.studio.interface import EXAMPLES
from limner.studio.project_editor import ProjectEditor
from limner.studio.projects import Projects
from limner.studio.routes import Studio

pytestmark = pytest.mark.slow

TOKEN = "a-token-of-this-test"  # noqa: S105
KNOWN = {"Authorization": f"Bearer {TOKEN}"}
TRIES = 5
PATIENCE_S = 600  # A busy machine is slow, not wrong.
LENIENT = {"suppress_health_check": list(HealthCheck)}


@pytest.fixture(scope="module")
def held(drawn_engine, tmp_path_factory):
    """A studio in which nobody adds folders, and ids of what is there."""
    home = tmp_path_factory.mktemp("interface")
    project = ProjectEditor(drawn_engine, Projects(home / "projects")).create(
        "A fox.\n\nA boat.", format="plain"
    )
    studio = Studio(drawn_engine, home / "projects", home / "thumbnails", writable=False)
    return studio, {"project": project.id, "picture": ids_of(drawn_engine.illustrator().library)[0]}


@pytest.fixture(scope="module")
def rest(held):
    """The interface behind a guard that wants a token."""
    guard = Guard(port=None, hosts=frozenset({"testserver"}), token=TOKEN)
    return Guarded(create_app(held[0], token=True), guard)


@pytest.fixture(scope="module")
def schema(rest):
    return schemathesis.openapi.from_asgi("/openapi.json", rest, headers=KNOWN)


def tried(operation, mode, held, met):
    """Send an operation what it wants, or what it does not; every answer is compared with its description."""

    # What fits the description may still make no sense here, such as a text of blanks.
    @seed(4)
    @settings(max_examples=TRIES, deadline=None, database=None, phases=[Phase.generate], **LENIENT)
    @given(case=operation.as_strategy(generation_mode=mode))
    def answered(case):
        if mode is GenerationMode.POSITIVE and operation.method != "delete":
            there = {name: one for name, one in held[1].items() if name in case.path_parameters}
            case.path_parameters = {**case.path_parameters, **there}
        checks = [positive_data_acceptance]
        wrong = {place for place, part in case.meta.components.items() if part.mode.is_negative}
        wrong.discard(ParameterLocation.HEADER)  # the token is always sent
        if not wrong or (operation.path == "/api/documents" and wrong == {ParameterLocation.BODY}):
            checks.append(negative_data_rejection)  # any bytes may be a text
        answer = case.call_and_validate(headers=KNOWN, excluded_checks=checks, timeout=PATIENCE_S)
        met[answer.status_code // 100] += 1

    answered()


@pytest.mark.parametrize("mode", list(GenerationMode), ids=lambda mode: mode.name)
def test_every_answer_is_as_described(schema, held, mode):
    faults, met, count = [], Counter(), 0
    for found in schema.get_all_operations():
        operation = found.ok()
        try:
            tried(operation, mode, held, met)
            count += 1
        except Unsatisfiable:  # nothing can be wrong with a request that takes nothing
            assert mode is GenerationMode.NEGATIVE
        except (FailureGroup, Failure) as fault:
            faults.append(f"{operation.label}: {getattr(fault, 'exceptions', fault)}")
    assert not faults, "\n\n".join(faults)
    assert count > 20
    assert met[2 if mode is GenerationMode.POSITIVE else 4] > met.total() / 3
    assert set(met) <= {2, 4}


def test_a_promise_that_is_broken_is_found(schema, monkeypatch):
    """The test above can fail."""
    operation = schema["/api/library"]["GET"]
    monkeypatch.setattr(routes, "_info", lambda studio: JSONResponse({"name": 3}))
    with pytest.raises((Failure, FailureGroup), match="not of type"):
        operation.Case().call_and_validate(headers=KNOWN)


def test_operations_can_be_told_apart_and_have_examples(rest):
    document = TestClient(rest, headers=KNOWN).get("/openapi.json").json()
    operations = [one for item in document["paths"].values() for one in item.values()]
    ids = [one["operationId"] for one in operations]
    assert len(set(ids)) == len(ids) > 30
    assert all(re.fullmatch("[a-z]+(_[a-z]+)*", name) for name in ids), ids
    assert {"projects_create", "search", "library_job_status"} <= set(ids)
    for one in operations:
        assert one["description"], one["operationId"]
        for parameter in one.get("parameters", []):
            if parameter["in"] == "path" and parameter["name"] != "batch":
                assert "example" in parameter, (one["operationId"], parameter["name"])
    assert document["components"]["securitySchemes"]["token"]["scheme"] == "bearer"
    assert document["security"] == [{"token": []}]


def test_examples_are_taken(guarded, project):
    for name, example in EXAMPLES.items():
        getattr(schemas, name).model_validate_json(json.dumps(example))
    made = guarded.post("/api/projects", json=EXAMPLES["ProjectRequest"])
    assert made.status_code == 201
    assert guarded.post("/api/search", json=EXAMPLES["SearchRequest"]).status_code == 200
    document = guarded.get("/openapi.json").json()
    assert document["security"] == [{}, {"token": []}]  # here nobody needs one


def test_the_page_of_the_interface_names_every_operation_and_loads_nothing_from_elsewhere(guarded):
    page = guarded.get("/docs").text
    for path, item in guarded.get("/openapi.json").json()["paths"].items():
        assert f"<code>{path}</code>" in page
        for one in item.values():
            assert f'id="{one["operationId"]}"' in page
    named = re.findall(r'(?:src|href)="([^"#]+)"', page)
    assert all(one.startswith("/") and not one.startswith("//") for one in named), named


def test_head_and_options(guarded, project):
    picture = project["board"]["steps"][0]["chosen"]["picture"]["id"]
    for path in ("/", "/api/projects", f"/api/pictures/{picture}/file", "/static/base.css", "/docs"):
        whole, head = guarded.get(path), guarded.head(path)
        assert (head.status_code, head.content) == (200, b""), path
        same = ("content-type", "content-length", "etag")
        assert [head.headers.get(one) for one in same] == [whole.headers.get(one) for one in same], path
    assert guarded.head("/api/nothing").status_code == 404
    for path, methods in (
        ("/api/projects", "GET, HEAD, OPTIONS, POST"),
        (f"/api/projects/{project['id']}", "DELETE, GET, HEAD, OPTIONS"),
        ("/api/search", "OPTIONS, POST"),
        ("/static/base.css", "GET, HEAD, OPTIONS"),
    ):
        asked = guarded.options(path)
        assert (asked.status_code, asked.headers["allow"]) == (204, methods), path
        refused = guarded.request("PATCH", path)
        assert refused.status_code == 405
        if not path.startswith("/static"):
            assert refused.headers["allow"] == methods
    assert guarded.options("/api/nothing").status_code == 404


def test_a_parameter_that_is_misspelt_is_named(guarded):
    answer = guarded.get("/api/library/pictures", params={"limitt": 3})
    assert answer.status_code == 422
    assert "limitt" in answer.json()["detail"]
    assert "limit" in answer.json()["detail"].replace("limitt", "")
