"""The studio as a web application: its parts put together, its pages, and the documents that describe it.

What requests do is in the route files beside it. It starts no server; `limner.web.serving` does.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from fastapi.responses import FileResponse, Response
from fastapi.staticfiles import StaticFiles
from starlette.types import Scope

from limner.errors import DataError, MissingError
from limner.records import limner_version
from limner.studio import routes
from limner.studio.edits import TextFormat
from limner.studio.projects import digest
from limner.studio.services import Studio
from limner.studio.workshop import Workshop
from limner.text.read import MAX_BYTES, SUFFIXES, decode_text, read_story
from limner.web import security as problems
from limner.web.security import ProblemDetails

STATIC = Path(__file__).parent / "static"
PAGES = {"/": "index.html", "/library": "library.html", "/projects/{project}": "project.html"}
RESPONSES: dict[int | str, dict[str, Any]] = {
    "default": {
        "description": "What was refused, and why",
        "content": {problems.MEDIA_TYPE: {"schema": ProblemDetails.model_json_schema()}},
    }
}


def create_app(studio: Studio) -> FastAPI:
    """The application, without the guard that `limner.web.security` puts around it."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        yield
        studio.jobs.stop()

    app = FastAPI(
        title="limner studio",
        version=limner_version(),
        summary="Illustrate texts with pictures from your own collection.",
        docs_url=None,  # those pages load scripts from elsewhere
        redoc_url=None,
        openapi_url="/openapi.json",
        lifespan=lifespan,
        responses=RESPONSES,
    )
    problems.install(app)
    app.include_router(routes.library_router(studio))
    app.include_router(routes.search_router(studio))
    app.include_router(routes.project_router(studio))
    for path, name in PAGES.items():
        app.add_api_route(path, _page(name), include_in_schema=False, response_class=FileResponse)
    app.mount("/static", _Static(directory=STATIC, check_dir=False))
    return app


def _page(name: str) -> Any:  # noqa: ANN401
    def page() -> FileResponse:
        return FileResponse(STATIC / name, headers={"cache-control": "no-cache"})

    return page


class _Static(StaticFiles):
    """Files that browsers ask about each time: after an update nobody sees old ones."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        response = await super().get_response(path, scope)
        response.headers["cache-control"] = "no-cache"
        return response


_FORMATS: dict[str, TextFormat] = {suffix: kind for suffix, kind in SUFFIXES.items() if kind != "json"}


def opened(file: Path, workshop: Workshop, say: Callable[[str], None]) -> str:
    """Id of the project of a text file.

    Args:
        file: Markdown, HTML or plain text, by its suffix.
        workshop: where it is looked for, and made.
        say: told what the person should know, a line each.
    Raises:
        LimnerError: as `limner.text.read.read_story`; a JSON story, which the studio cannot edit as text.
    """
    kind = _FORMATS.get(file.suffix.lower())
    if kind is None:
        known = ", ".join(suffix for suffix in _FORMATS if suffix)
        raise DataError(f"{file}: the studio opens texts ({known}); use limner illustrate for others")
    try:
        data = file.read_bytes()[: MAX_BYTES + 1]
    except OSError as error:
        raise MissingError(f"{file}: {error.strerror}; expected a text file that can be read") from error
    text, note = decode_text(data, file.name, html=kind == "html")
    text = text.removeprefix("\ufeff")
    if note:
        say(f"{file.name}: {note}")
    projects = workshop.projects
    for project in projects.ids():
        if projects.read(project).state.text == digest(text.encode("utf-8")):
            return project
    given = {}
    story = read_story(file)
    if any(step.pictures for step in story.steps):
        shown = workshop.engine.illustrator().shown_by(story)
        given = shown.inside
        for line in shown.notes:
            say(f"{file.name}: {line}")
        for step in shown.outside:
            say(f"{file.name}: step {step + 1} shows a picture outside the library; one is chosen")
    return workshop.create(text, format=kind, given=given).id
