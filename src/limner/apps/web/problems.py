"""Errors as problem+json (RFC 9457): one shape for everything a server refuses.

The servers' own refusals and limner's errors end here, so that no answer shows a traceback. It logs only what
nobody foresaw.
"""

from __future__ import annotations

import logging
from http import HTTPStatus

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from limner.data.records import Record
from limner.errors import CheckpointError, ConfigError, DataError, LimnerError, MissingError

MEDIA_TYPE = "application/problem+json"
BLANK = "about:blank"
_STATUS: tuple[tuple[type[LimnerError], int], ...] = (
    (ConfigError, 400),
    (DataError, 422),
    (CheckpointError, 409),
    (MissingError, 503),
)


class ProblemDetails(Record):
    """What a refused request is answered with.

    Attributes:
        type: a URN that names the kind of problem, or about:blank.
        title: a few words, the same for every problem of the kind.
        status: of HTTP.
        detail: one line on this very case: what was found, what was expected, what to do.
    """

    type: str = BLANK
    title: str
    status: int
    detail: str


class ProblemError(LimnerError):
    """A request that is refused.

    Args:
        status: of HTTP.
        detail: one line.
        kind: short name of the kind of problem, for programs.
        title: a few words; the phrase of the status unless given.
    """

    def __init__(self, status: int, detail: str, *, kind: str = "", title: str = "") -> None:
        super().__init__(detail)
        self.details = ProblemDetails(
            type=f"urn:limner:{kind}" if kind else BLANK,
            title=title or HTTPStatus(status).phrase,
            status=status,
            detail=detail,
        )


def answer(details: ProblemDetails, headers: dict[str, str] | None = None) -> JSONResponse:
    """The response that tells a problem."""
    return JSONResponse(details.model_dump(), details.status, headers, media_type=MEDIA_TYPE)


def details_of(error: LimnerError) -> ProblemDetails:
    """An error of limner as a problem."""
    if isinstance(error, ProblemError):
        return error.details
    status = next((status for kind, status in _STATUS if isinstance(error, kind)), 500)
    return ProblemDetails(title=HTTPStatus(status).phrase, status=status, detail=str(error))


def install(app: FastAPI) -> None:
    """Let an application answer every error with a problem."""

    @app.exception_handler(LimnerError)
    def known(request: Request, error: LimnerError) -> JSONResponse:
        return answer(details_of(error))

    @app.exception_handler(HTTPException)
    def refused(request: Request, error: HTTPException) -> JSONResponse:
        phrase = HTTPStatus(error.status_code).phrase
        detail = f"{request.method} {request.url.path}: {error.detail}"
        details = ProblemDetails(title=phrase, status=error.status_code, detail=detail)
        return answer(details, dict(error.headers or {}))

    @app.exception_handler(RequestValidationError)
    def malformed(request: Request, error: RequestValidationError) -> JSONResponse:
        found = "; ".join(
            f"{'.'.join(str(part) for part in one['loc'] if part != 'body') or 'body'}: {one['msg']}"
            for one in error.errors()[:3]
        )
        title = "Request does not fit"
        return answer(ProblemDetails(type="urn:limner:malformed", title=title, status=422, detail=found))

    @app.exception_handler(Exception)
    def unforeseen(request: Request, error: Exception) -> JSONResponse:
        logging.getLogger("limner").error("%s %s", request.method, request.url.path, exc_info=error)
        detail = f"{type(error).__name__}; the terminal in which the server runs shows where"
        return answer(ProblemDetails(title="Internal error", status=500, detail=detail))
