"""Error responses of both servers (RFC 9457): a page for browsers, problem+json for programs.

HEAD and OPTIONS are answered here too, for every path with other methods.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from html import escape
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import Match, Mount, Router
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from limner.config import Record
from limner.errors import CheckpointError, ConfigError, DataError, LimnerError, MissingError, StorageError
from limner.files import storage_error

MEDIA_TYPE = "application/problem+json"
BLANK = "about:blank"
Kinds = Mapping[type[LimnerError], tuple[int, str, str]]
"""Status, kind and title by error class, as in `ProblemError`; the first class that matches counts."""
_KINDS: Kinds = {
    ConfigError: (400, "", ""),
    DataError: (422, "", ""),
    CheckpointError: (409, "", ""),
    MissingError: (503, "", ""),
    StorageError: (507, "storage", ""),
    LimnerError: (500, "", ""),
}
_TITLES = {
    400: "Bad request",
    401: "Sign-in link needed",
    403: "Not allowed",
    404: "Not found",
    405: "Method not allowed",
    409: "Conflict",
    413: "Request too large",
    421: "Wrong server address",
    422: "Invalid request",
    500: "Something went wrong",
    503: "Something is missing",
    507: "Could not write to disk",
}


class ProblemDetails(Record):
    """Body of an error response.

    Attributes:
        type: a URN that names the kind of problem, or about:blank.
        title: a few words, the same for every problem of the kind.
        status: HTTP status.
        detail: one line on this error: the value found, the expected one, and advice.
    """

    type: str = BLANK
    title: str
    status: int
    detail: str


class ProblemError(LimnerError):
    """Error of a request that is rejected.

    Args:
        status: HTTP status.
        detail: one line.
        kind: short name of the kind of problem, for programs.
        title: a few words. Default: those of the status.
    """

    def __init__(self, status: int, detail: str, *, kind: str = "", title: str = "") -> None:
        super().__init__(detail)
        self.details = ProblemDetails(
            type=f"urn:limner:{kind}" if kind else BLANK,
            title=title or title_of(status),
            status=status,
            detail=detail,
        )


def title_of(status: int) -> str:
    """Title of an HTTP status."""
    return _TITLES.get(status) or HTTPStatus(status).phrase


# without the token the style sheet cannot be loaded, so the page has its own
_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
{head}
<title>{title}</title>
<style>
:root {{ color-scheme: light dark; }}
body {{ margin: 0 auto; max-width: 36rem; padding: 18vh 1.5rem 4rem; font: 1.0625rem/1.6 Georgia, serif;
  color: #1d1b1a; background: #fcfbf8; overflow-wrap: anywhere; }}
h1 {{ font-weight: 400; font-size: 2rem; line-height: 1.2; }}
a {{ color: #a5242b; }}
pre {{ white-space: pre-wrap; }}
@media (prefers-color-scheme: dark) {{
  body {{ color: #e9e5dd; background: #151618; }}
  a {{ color: #f28c80; }}
}}
</style>
</head>
<body>
<main>
<h1>{title}</h1>
{body}
</main>
</body>
</html>
"""
PAGE_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; frame-ancestors 'none'"


def page(title: str, body: str, head: str = "") -> str:
    """An HTML page that needs no other file.

    Args:
        title: title and heading, as plain text.
        body: HTML below the heading.
        head: further HTML for <head>.
    """
    return _PAGE.format(title=escape(title), body=body, head=head)


def answer(request: Request, details: ProblemDetails, headers: Mapping[str, str] | None = None) -> Response:
    """The error response: a page if the request accepts HTML, else problem+json."""
    if "text/html" not in request.headers.get("accept", ""):
        return JSONResponse(details.model_dump(), details.status, headers, media_type=MEDIA_TYPE)
    detail = f"{details.detail[:1].upper()}{details.detail[1:]}".rstrip(".")
    text = page(details.title, f'<p>{escape(detail)}.</p>\n<p><a href="/">To the start page</a></p>')
    policy = {"content-security-policy": PAGE_POLICY, **(headers or {})}
    return HTMLResponse(text, details.status, policy)


class Methods:
    """Middleware for HEAD (GET without its body) and OPTIONS."""

    def __init__(self, app: ASGIApp, router: Router) -> None:
        """Wrap an application with the paths of `router`."""
        self.app, self.router = app, router

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer HEAD and OPTIONS; pass everything else on."""
        method = scope.get("method", "")
        if scope["type"] != "http" or method not in ("HEAD", "OPTIONS"):
            await self.app(scope, receive, send)
            return
        allowed = methods_of(self.router, scope)
        if method == "HEAD" and "GET" in allowed:
            await self.app({**scope, "method": "GET"}, receive, _without_body(send))
        elif method == "OPTIONS" and allowed:
            await Response(status_code=204, headers={"allow": ", ".join(allowed)})(scope, receive, send)
        else:
            await self.app(scope, receive, send)


def methods_of(router: Router, scope: Scope) -> list[str]:
    """Methods of a path, sorted; empty for an unknown path."""
    found = {
        method
        for method in ("GET", "POST", "PUT", "PATCH", "DELETE")
        for route in router.routes
        if route.matches({**scope, "method": method})[0] is Match.FULL
        and (method == "GET" or not isinstance(route, Mount))
    }
    found |= {"HEAD"} if "GET" in found else set()
    return sorted({*found, "OPTIONS"} if found else found)


def _without_body(send: Send) -> Send:
    """Send the head of a response with an empty body, and drop its own."""
    over = False

    async def respond(message: Message) -> None:
        nonlocal over
        if message["type"] == "http.response.start":
            await send(message)
        elif not over:
            over = True
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    return respond


def install(app: FastAPI, kinds: Kinds | None = None) -> None:
    """Let an application answer every error with `ProblemDetails`.

    Args:
        app: the application.
        kinds: further error classes, which are tried first.
    """
    rules = {**(kinds or {}), **_KINDS}

    @app.exception_handler(LimnerError)
    def known(request: Request, error: LimnerError) -> Response:
        if not isinstance(error, ProblemError):
            status, kind, title = next(rule for own, rule in rules.items() if isinstance(error, own))
            error = ProblemError(status, str(error), kind=kind, title=title)
        return answer(request, error.details)

    @app.exception_handler(HTTPException)
    def refused(request: Request, error: HTTPException) -> Response:
        status, asked = error.status_code, request.url.path
        headers = {name.lower(): one for name, one in (error.headers or {}).items()}
        detail = f"{request.method} {asked}: {error.detail}"
        if status == 404:
            detail = f"{asked} does not exist on this server; check the URL"
        elif status == 405:
            headers["allow"] = ", ".join(methods_of(app.router, request.scope))
            detail = f"{asked} does not accept {request.method}, only {headers['allow']}"
        return answer(request, ProblemDetails(title=title_of(status), status=status, detail=detail), headers)

    @app.exception_handler(RequestValidationError)
    def malformed(request: Request, error: RequestValidationError) -> Response:
        faults = error.errors()
        found = "; ".join(map(_fault, faults[:3])) + ("; and more" if len(faults) > 3 else "")
        details = ProblemDetails(type="urn:limner:malformed", title=title_of(422), status=422, detail=found)
        return answer(request, details)

    @app.exception_handler(OSError)
    def unwritten(request: Request, error: OSError) -> Response:
        refused = storage_error(error, error.filename or "the server's disk")
        return unforeseen(request, error) if refused is None else known(request, refused)

    @app.exception_handler(Exception)
    def unforeseen(request: Request, error: Exception) -> Response:
        logging.getLogger("limner").error("%s %s", request.method, request.url.path, exc_info=error)
        detail = f"{type(error).__name__}; the terminal in which the server runs shows where"
        return answer(request, ProblemDetails(title=title_of(500), status=500, detail=detail))

    app.add_middleware(Methods, router=app.router)


def _fault(fault: Mapping[str, Any]) -> str:
    """Error in one part of a request, as a phrase."""
    parts = [str(part) for part in fault["loc"][1:] or fault["loc"]]
    where = ".".join(parts) if fault["loc"][0] != "header" else f"header {parts[-1]}"
    if fault["type"] == "json_invalid":
        return f"the body is not JSON ({fault['ctx']['error']})"
    said = {"missing": "is missing", "extra_forbidden": "is unknown"}.get(fault["type"])
    message = str(fault["msg"]).removeprefix("Value error, ")
    kind, should, rest = message.partition(" should ")
    if said is None and should and " " not in kind:
        said = f"should {rest}"
    return f"{where} {said}" if said else f"{where}: {message}"
