"""The studio as a web application: its parts put together, its pages, and the documents that describe it.

What requests do is in the route files beside it. It starts no server; `limner.apps.web.serving` does.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from fastapi.responses import FileResponse, Response
from fastapi.staticfiles import StaticFiles
from starlette.types import Scope

import limner.apps
from limner import __version__
from limner.apps.studio import library_routes, project_routes, search_routes
from limner.apps.studio.services import Studio
from limner.apps.web import problems
from limner.apps.web.problems import ProblemDetails

STATIC = Path(limner.apps.__file__).parent / "static" / "studio"
PAGES = {"/": "index.html", "/library": "library.html", "/projects/{project}": "project.html"}
RESPONSES: dict[int | str, dict[str, Any]] = {
    "default": {
        "description": "What was refused, and why",
        "content": {problems.MEDIA_TYPE: {"schema": ProblemDetails.model_json_schema()}},
    }
}


def create_app(studio: Studio) -> FastAPI:
    """The application, without the guard that `limner.apps.web.security` puts around it."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        yield
        studio.jobs.stop()

    app = FastAPI(
        title="limner studio",
        version=__version__,
        summary="Illustrate texts with pictures from your own collection.",
        docs_url=None,  # those pages load scripts from elsewhere
        redoc_url=None,
        openapi_url="/openapi.json",
        lifespan=lifespan,
        responses=RESPONSES,
    )
    problems.install(app)
    app.include_router(library_routes.router(studio))
    app.include_router(search_routes.router(studio))
    app.include_router(project_routes.router(studio))
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
