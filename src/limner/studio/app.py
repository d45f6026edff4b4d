"""Assembles the studio's web application and serves its pages.

The requests are implemented in `limner.studio.routes`.
"""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, asynccontextmanager, closing
from dataclasses import replace
from pathlib import Path

from fastapi import Depends, FastAPI
from fastapi.responses import HTMLResponse, Response
from fastapi.staticfiles import StaticFiles
from starlette.types import Scope

from limner.devices import checked_device
from limner.errors import MissingError
from limner.records import limner_version
from limner.server import problems
from limner.server.admission import leading_to, token_of
from limner.server.security import is_loopback
from limner.server.serving import bind, serve
from limner.studio import interface, library_page_routes, routes
from limner.studio.engine import Engine
from limner.studio.jobs import UnknownJobError
from limner.studio.pictures import cache_folder
from limner.studio.project_editor import ProjectEditor, StaleError
from limner.studio.projects import UnknownProjectError, projects_folder
from limner.studio.routes import Studio
from limner.studio.uploads import FILE_BYTES, UnknownBatchError
from limner.templates import environment

STATIC = Path(__file__).parent / "static"
REFUSED = {
    UnknownJobError: (404, "unknown-job", ""),
    UnknownBatchError: (404, "unknown-batch", ""),
    UnknownProjectError: (404, "unknown-project", ""),
    StaleError: (409, "stale-revision", "Stale revision"),
}
PAGES = {"/": "index.html", "/library": "library.html", "/projects/{project}": "project.html"}


def create_app(studio: Studio, *, token: bool = False) -> FastAPI:
    """Create the application, without the access control of `limner.server.security`.

    Args:
        studio: library, projects and jobs that the routes use.
        token: whether requests need a token, for the description of the API.
    """

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        yield
        studio.jobs.stop()

    app = FastAPI(
        title="limner studio",
        version=limner_version(),
        summary="Illustrate texts with pictures from your own collection.",
        docs_url=None,  # FastAPI's own pages load scripts from the web; ours is in `limner.studio.interface`
        redoc_url=None,
        openapi_url="/openapi.json",
        lifespan=lifespan,
        generate_unique_id_function=interface.operation_id,
    )
    problems.install(app, REFUSED)
    rules = [Depends(interface.known_parameters)]
    app.include_router(routes.library_router(studio), dependencies=rules)
    app.include_router(library_page_routes.library_page_router(studio), dependencies=rules)
    app.include_router(routes.search_router(studio), dependencies=rules)
    app.include_router(routes.project_router(studio), dependencies=rules)
    interface.describe(app, token=token)

    def known(project: str) -> None:
        if project not in studio.editor.projects:
            raise UnknownProjectError(project)

    for path, name in PAGES.items():
        checks = [Depends(known)] if "{project}" in path else []
        app.add_api_route(path, _page(path, name), include_in_schema=False, dependencies=checks)
    app.mount("/static", _Static(directory=STATIC, check_dir=False))
    return app


def _page(path: str, name: str) -> Callable[[], HTMLResponse]:
    text = environment("limner.studio").get_template(name).render(path=path)
    return lambda: HTMLResponse(text, headers={"cache-control": "no-cache"})


class _Static(StaticFiles):
    """Static files that browsers revalidate each time, so that no outdated file is used after an update."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        response = await super().get_response(path, scope)
        response.headers["cache-control"] = "no-cache"
        return response


def opened(file: Path, editor: ProjectEditor, note: Callable[[str], None]) -> str:
    """Open the project of a text file, or create it; returns its id.

    Args:
        file: a text in any format.
        editor: projects to search for it; a new one is created there.
        note: called with each line that the user should read.
    Raises:
        LimnerError: see `ProjectEditor.open`.
    """
    try:
        data = file.read_bytes()
    except OSError as error:
        raise MissingError(f"{file}: {error.strerror}; expected a text file that can be read") from error
    project = editor.open(data, file.name, folder=file.parent, once=True)
    for line in project.notes:
        note(line)
    return project.id


WARMING_S = 30


def _wait_for(warming: threading.Thread) -> None:
    """Wait for a thread: the interpreter aborts if it exits while a thread runs in torch."""
    if warming.is_alive():
        warming.join(WARMING_S)


def serve_studio(
    library: Path,
    *,
    projects: Path | None,
    host: str,
    port: int | None,
    token: str | None,
    no_token: bool,
    model: Path | None,
    metric: Path | None,
    weights: tuple[str, ...],
    device: str,
    text: Path | None,
    browser: bool,
    note: Callable[[str], None],
    ready: Callable[[str], None],
) -> None:
    """Serve the studio of a library until Ctrl-C.

    Args:
        library: folder or URL of the library.
        projects: folder of the projects. Default: see `limner.studio.projects.projects_folder`.
        host: address to listen on.
        port: port; None for the default one or, if that is taken, any free one.
        token: token of your own instead of a random one.
        no_token: whether everyone who can reach the port may use the studio.
        model: folder of a trained run, or None.
        metric: folder of a trained same-document metric, or None.
        weights: see ``limner index --weights``; for searches and for folders that are added.
        device: see `limner.devices.device_of`.
        text: text file to open as a project, or None.
        browser: whether to open the user's browser.
        note: called with each line that the user should read.
        ready: called with the URL once the server responds.
    Raises:
        LimnerError: see `Engine`, `token_of`, `bind` and `opened`.
    """
    token = token_of(token, wanted=not no_token, alone=is_loopback(host))
    engine = Engine(library, model=model, metric=metric, weights=weights, device=checked_device(device))
    listening = bind(host, port, token=token)
    thumbnails = cache_folder(engine.illustrator().library)
    warming = threading.Thread(target=engine.warm, daemon=True)
    with closing(listening) as bound, ExitStack() as files:
        files.callback(_wait_for, warming)
        studio = Studio(
            engine,
            projects or projects_folder(engine.folder, note),
            thumbnails,
            writable=bound.loopback,
        )
        path = "/"
        if text is not None:
            path = f"/projects/{opened(text, studio.editor, note)}"
        else:
            warming.start()
        address = bound.url(path)
        browse = address if browser else None
        if browse is not None and bound.token is not None:
            browse = files.enter_context(leading_to(address, thumbnails))
        guard = bound.guard("limner-studio")
        if bound.loopback:
            larger = dict.fromkeys((library_page_routes.BATCHES, routes.DOCUMENTS), FILE_BYTES)
            guard = replace(guard, larger=larger)
        serve(
            create_app(studio, token=guard.token is not None),
            bound,
            guard,
            browse=browse,
            ready=lambda: ready(address),
        )
