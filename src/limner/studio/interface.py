"""The OpenAPI document of the REST API, and the page that shows it.

Adds to FastAPI's document the facts that FastAPI cannot infer: errors, authentication, id formats, examples.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import HTMLResponse
from fastapi.routing import APIRoute

from limner.errors import unknown
from limner.server.problems import MEDIA_TYPE, ProblemDetails, ProblemError
from limner.templates import environment

Json = dict[str, Any]
METHODS = ("get", "post", "put", "delete")
PROJECT, PICTURE, JOB = "5f0c2a9be1d34786", "9f86d081884c7d65" * 4, "77c1de52a0b94e6f"
UPLOADED, UPLOADS = "picture.jpg", {"projects_document": "manual.docx"}
"""File sent in the examples, and other files by operation."""
PARAMETERS: dict[str, Json] = {
    "project": {"pattern": "^[0-9a-f]{16}$", "examples": [PROJECT]},
    "picture": {"pattern": "^[0-9a-f]{64}$", "examples": [PICTURE]},
    "job": {"pattern": "^[0-9a-f]{16}$", "examples": [JOB]},
    "item": {"examples": [f"{PROJECT}-20260131T120000-0a1b"]},
    "step": {"minimum": 0, "examples": [0]},
    "consent": {"examples": ["yes"]},
    "name": {"examples": [UPLOADED]},
    "prefer": {"examples": ["respond-async"]},
}
_TEXT = {"text": "# A windy day\n\nA fox flew a kite.\n\nHe sat by the fire.\n", "format": "markdown"}
EXAMPLES: dict[str, Json] = {
    "AddFolder": {"path": "/home/me/Pictures"},
    "SearchRequest": {"text": "a fox with a kite", "limit": 12},
    "IllustrateRequest": _TEXT,
    "ProjectRequest": {**_TEXT, "title": "A windy day"},
    "ChangeRequest": {"revision": 3},
    "EditRequest": {"revision": 3, "edit": {"kind": "choose", "step": 0, "picture": PICTURE}},
}
ERRORS = {
    "401": "The token is missing or wrong",
    "403": "Allowed only if the studio listens on this machine alone, or, for choices, with `consent=yes`",
    "404": "Not found",
    "409": "The resource has changed since you loaded it, or is being changed; load it again",
    "422": "Invalid request; `detail` gives the field and the reason",
    "default": "Any other error; `detail` gives the reason",
}
FILES = {
    "library_thumbnail": "picture.webp",
    "library_file": "picture",
    "projects_export": "storyboard.html",
    "projects_export_preview": "preview.html",
    "projects_every_preference": "choices.jsonl",
}
"""Operation → file that its example writes."""
BODIES: dict[str, Json] = {
    "library_write": {"captions": ["A fox with a kite"], "keywords": ["fox", "kite"]},
    "projects_preview": {"revision": 3},
}
"""Operation → request body, if its class has no example."""
CURL = 'curl -sS --oauth2-bearer "$LIMNER_TOKEN"'
_FIELD = "python3 -c 'import json, sys; print(json.load(sys.stdin){})'"
FIRST_STEPS = (
    (
        "Set the URL of the studio, and show what the library contains.",
        f'STUDIO={{address}}\n{CURL} "$STUDIO/api/library"',
    ),
    (
        "Search the library by words.",
        f"""{CURL} "$STUDIO/api/search" \\
  --json '{{{{"text": "a fox with a kite", "limit": 3}}}}'""",
    ),
    (
        "Illustrate a text. The response is a project; store its id.",
        f"""PROJECT=$({CURL} "$STUDIO/api/projects" \\
  --json '{{{{"text": "A fox flew a kite.\\n\\nHe sat by the fire.", "format": "plain"}}}}' \\
  | {_FIELD.format('["id"]')})""",
    ),
    (
        "List candidates for its first step, and store the id of the second.",
        f"""PICTURE=$({CURL} "$STUDIO/api/projects/$PROJECT/steps/0/candidates" \\
  | {_FIELD.format('["items"][1]["picture"]["id"]')})""",
    ),
    (
        "Use that picture. A change states the revision of the project for which it was made.",
        f"""REVISION=$({CURL} "$STUDIO/api/projects/$PROJECT" \\
  | {_FIELD.format('["revision"]')})
{CURL} "$STUDIO/api/projects/$PROJECT/edits" --json @- <<END
{{{{"revision": $REVISION, "edit": {{{{"kind": "choose", "step": 0, "picture": "$PICTURE"}}}}}}}}
END""",
    ),
    (
        "Export it as one file.",
        f'{CURL} -o storyboard.html "$STUDIO/api/projects/$PROJECT/export?format=html"',
    ),
)
"""Steps of the walkthrough, each with its command; the URL of the studio is filled in."""
AUTHENTICATION = (
    "The token in the URL that `limner studio` prints, or the value of LIMNER_TOKEN if it was set. Programs"
    " send it as `Authorization: Bearer …`; browsers get a cookie when they open the URL. A studio started"
    " with `--no-token` needs none."
)


def operation_id(route: APIRoute) -> str:
    """Id of an operation: ``group_function``, or the group alone if the function has the same name."""
    return "_".join(dict.fromkeys([*map(str, route.tags), route.name]))


def describe(app: FastAPI, *, token: bool) -> None:
    """Complete the OpenAPI document of an application, and serve it as a page at ``/docs``.

    Args:
        app: the application, with all its routes registered.
        token: whether requests need a token.
    """
    plain = app.openapi

    @cache
    def openapi() -> Json:
        return _completed(plain(), token)

    app.openapi = openapi  # type: ignore[method-assign]  # FastAPI's documentation: "Extending OpenAPI"

    @app.get("/docs", include_in_schema=False)
    def docs(request: Request) -> HTMLResponse:
        document = openapi()
        address = str(request.base_url).rstrip("/")
        page = (
            environment("limner.studio")
            .get_template("docs.html")
            .render(
                path="/docs",
                document=document,
                groups=list(_groups(document)),
                refusals=[(status, words) for status, words in ERRORS.items() if status != "default"],
                known=ERRORS,
                steps=[(words, command.format(address=address)) for words, command in FIRST_STEPS],
            )
        )
        return HTMLResponse(page, headers={"cache-control": "no-cache"})


def known_parameters(request: Request) -> None:
    """Reject unknown query parameters: FastAPI would ignore a misspelt one.

    Raises:
        ProblemError: the request has a query parameter that its route does not know.
    """
    if not request.query_params:
        return
    route: APIRoute = request.scope["route"]
    operation = request.app.openapi()["paths"][route.path][request.method.lower()]
    known = [parameter["name"] for parameter in operation.get("parameters", []) if parameter["in"] == "query"]
    for name in request.query_params:
        if name not in known:
            raise ProblemError(422, unknown("parameter", name, known), kind="malformed")


def _completed(document: Json, token: bool) -> Json:
    """Add errors, examples, formats and authentication to the document, in place, and return it."""
    parts = document["components"]
    parts["schemas"]["ProblemDetails"] = ProblemDetails.model_json_schema()
    parts["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer", "description": AUTHENTICATION}}
    document["security"] = [{"token": []}] if token else [{}, {"token": []}]
    for name, example in EXAMPLES.items():
        parts["schemas"][name]["examples"] = [example]
    for path, operation in _operations(document):
        parameters = operation.get("parameters", [])
        for parameter in parameters:
            facts = PARAMETERS.get(parameter["name"], {})
            parameter["schema"] |= {name: value for name, value in facts.items() if name != "examples"}
            if "examples" in facts:
                parameter["example"] = facts["examples"][0]
        errors = {"default"} | ({"401"} if token else set())
        errors |= {"404"} if "{" in path else set()
        errors |= {"422"} if parameters or "requestBody" in operation else set()
        errors |= {"409"} if _body(operation) in ("EditRequest", "ChangeRequest", "Described") else set()
        errors |= {"403"} if operation["operationId"] in LOCAL_ONLY else set()
        for status in sorted(errors):
            schema = {"$ref": "#/components/schemas/ProblemDetails"}
            response = {"description": ERRORS[status], "content": {MEDIA_TYPE: {"schema": schema}}}
            operation["responses"][status] = response
    return document


# operations that may answer 403
LOCAL_ONLY = frozenset(
    f"library_{name}"
    for name in ("add_folder", "folders", "begin", "add", "finish", "take_back", "write", "forget")
) | {"projects_every_preference"}


def _operations(document: Json) -> Iterator[tuple[str, Json]]:
    for path, item in document["paths"].items():
        for method in METHODS:
            if method in item:
                yield path, item[method]


def _body(operation: Json) -> str:
    """Name of the schema of an operation's request body, or "" if it has none."""
    content = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
    return str(content.get("schema", {}).get("$ref", "")).rpartition("/")[2]


def _groups(document: Json) -> Iterator[tuple[str, list[Json]]]:
    """Yield each tag with its operations, in the form that the page's template needs."""
    groups: dict[str, list[Json]] = {}
    for path, item in document["paths"].items():
        for method in METHODS:
            if method in item:
                shown = _shown(document, method, path, item[method])
                groups.setdefault(item[method]["tags"][0], []).append(shown)
    yield from groups.items()


def _shown(document: Json, method: str, path: str, operation: Json) -> Json:
    name = _body(operation)
    schema = document["components"]["schemas"].get(name, {})
    required = schema.get("required", [])
    return {
        "id": operation["operationId"],
        "method": method.upper(),
        "path": path,
        "paragraphs": operation.get("description", "").replace("`", "").split("\n\n"),
        "parameters": [
            {
                "name": parameter["name"],
                "where": parameter["in"],
                "kind": _kind(parameter["schema"]),
                "required": parameter.get("required", False),
                "note": parameter.get("description", "").replace("`", ""),
            }
            for parameter in operation.get("parameters", [])
        ],
        "fields": [
            {"name": name, "kind": _kind(field), "required": name in required}
            for name, field in schema.get("properties", {}).items()
        ],
        "example": _example(
            method, path, operation, schema.get("examples", [BODIES.get(operation["operationId"])])[0]
        ),
        "answers": [
            (status, response["description"], next(iter(response.get("content", {})), ""))
            for status, response in operation["responses"].items()
        ],
    }


def _example(method: str, path: str, operation: Json, body: Json | None) -> str:
    """A command for a shell in which STUDIO, LIMNER_TOKEN, PROJECT and so on are set."""
    for name in ("project", "picture", "job", "batch", "item"):
        path = path.replace(f"{{{name}}}", f"${name.upper()}")
    asked = [one for one in operation.get("parameters", []) if one["in"] == "query" and "example" in one]
    query = "&".join(f"{one['name']}={one['example']}" for one in asked)
    command = CURL
    command += f" -X {method.upper()}" if method not in ("get", "post") else ""
    command += f" -o {FILES[operation['operationId']]}" if operation["operationId"] in FILES else ""
    address = f'"$STUDIO{path.replace("{step}", "0")}{"?" * bool(query)}{query}"'
    content = operation.get("requestBody", {}).get("content", {})
    if "application/octet-stream" in content:
        sent = UPLOADS.get(operation["operationId"], UPLOADED)
        return f"{command} {address.replace(UPLOADED, sent)} --data-binary @{sent}"
    if body is None:
        return f"{command} {address}" + (" --json '{}'" if method == "post" else "")
    written = json.dumps(body, indent=2).replace(PICTURE, "$PICTURE")
    return f"{command} {address} --json @- <<END\n{_REVISION.sub('$REVISION', written)}\nEND"


_REVISION = re.compile(r'(?<="revision": )\d+')


def _kind(schema: Json) -> str:
    """Short description of a schema's type, such as ``integer from 1 to 500``."""
    if "anyOf" in schema:
        kinds = [_kind(choice) for choice in schema["anyOf"] if choice.get("type") != "null"]
        return " or ".join(kinds)
    if "discriminator" in schema:
        return f"object of kind {' or '.join(sorted(schema['discriminator']['mapping']))}"
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if "enum" in schema:
        return " or ".join(f"“{value}”" for value in schema["enum"])
    words = [str(schema.get("type", "any value"))]
    low, high = schema.get("minimum"), schema.get("maximum")
    words += [f"from {low:,g}"] if low is not None else []
    words += [f"to {high:,.12g}"] if high is not None else []
    if "maxLength" in schema:
        words.append(f"of {schema.get('minLength', 0)} to {schema['maxLength']:,} characters")
    if "pattern" in schema:
        words.append(f"matching {schema['pattern']}")
    return " ".join(words)
