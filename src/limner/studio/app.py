"""The studio as a web application: its parts put together, its pages, and its server.

What requests do is in `limner.studio.routes`.
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
from limner.errors import DataError, MissingError
from limner.library import elsewhere
from limner.match.shown import shown_by
from limner.records import limner_version
from limner.server import problems
from limner.server.admission import leading_to, token_of
from limner.server.security import is_loopback
from limner.server.serving import bind, serve
from limner.studio import interface, routes, shelf_routes
from limner.studio.bringing import FILE_BYTES, UnknownBatchError
from limner.studio.edits import TextFormat, as_markdown, pictures_told
from limner.studio.engine import Engine
from limner.studio.jobs import UnknownJobError
from limner.studio.pictures import cache_folder
from limner.studio.projects import UnknownProjectError, digest, projects_folder
from limner.studio.routes import Studio
from limner.studio.workshop import StaleError, Workshop
from limner.templates import environment
from limner.text.read import MAX_BYTES, SUFFIXES, decode_text, is_container, read_story_report
from limner.text.worker import READER

STATIC = Path(__file__).parent / "static"
REFUSED = {
    UnknownJobError: (404, "unknown-job", ""),
    UnknownBatchError: (404, "unknown-batch", ""),
    UnknownProjectError: (404, "unknown-project", ""),
    StaleError: (409, "stale-revision", "Stale revision"),
}
PAGES = {"/": "index.html", "/library": "library.html", "/projects/{project}": "project.html"}


def create_app(studio: Studio, *, token: bool = False) -> FastAPI:
    """The application, without the guard that `limner.server.security` puts around it.

    Args:
        studio: what it works with.
        token: whether the guard wants one, for the description of the interface.
    """

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        yield
        studio.jobs.stop()

    app = FastAPI(
        title="limner studio",
        version=limner_version(),
        summary="Illustrate texts with pictures from your own collection.",
        docs_url=None,  # those pages load scripts from elsewhere; ours is in `limner.studio.interface`
        redoc_url=None,
        openapi_url="/openapi.json",
        lifespan=lifespan,
        generate_unique_id_function=interface.operation_id,
    )
    problems.install(app, REFUSED)
    rules = [Depends(interface.known_parameters)]
    app.include_router(routes.library_router(studio), dependencies=rules)
    app.include_router(shelf_routes.shelf_router(studio), dependencies=rules)
    app.include_router(routes.search_router(studio), dependencies=rules)
    app.include_router(routes.project_router(studio), dependencies=rules)
    interface.describe(app, token=token)

    def known(project: str) -> None:
        if project not in studio.workshop.projects:
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
    """Files that browsers ask about each time: after an update nobody sees old ones."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        response = await super().get_response(path, scope)
        response.headers["cache-control"] = "no-cache"
        return response


_FORMATS: dict[str, TextFormat] = {suffix: kind for suffix, kind in SUFFIXES.items() if kind != "json"}


def opened(
    file: Path, workshop: Workshop, note: Callable[[str], None], *, allow_outside: bool = False
) -> str:
    """Id of the project of a text file.

    Args:
        file: Markdown, HTML or plain text, by its suffix; or a Word document or a PDF, by its content, whose
            words become Markdown. Pictures in it are kept as choices where the library holds them.
        workshop: where it is looked for, and made.
        note: receives what the person should know, a line each.
        allow_outside: whether the text may show any file of this machine.
    Raises:
        LimnerError: as `limner.text.read.read_story_report`; a JSON story, which the studio cannot edit as
            text.
    """
    kind = _FORMATS.get(file.suffix.lower())
    try:
        with file.open("rb") as stream:
            data = stream.read(MAX_BYTES + 1)
    except OSError as error:
        raise MissingError(f"{file}: {error.strerror}; expected a text file that can be read") from error
    library = workshop.engine.illustrator().library
    allowed = elsewhere(library, allowed=allow_outside)
    document = None
    if is_container(data):
        document = as_markdown(read_story_report(file, elsewhere=allowed), library)
        kind, text = document.format, document.text
        note(f"{file.name}: its words are edited as Markdown from now on")
        for line in document.notes:
            note(line)
    elif kind is None:
        known = ", ".join(suffix for suffix in _FORMATS if suffix)
        raise DataError(
            f"{file}: the studio opens texts ({known}), Word documents and PDFs; use limner illustrate for"
            " others"
        )
    else:
        text, guessed = decode_text(data, file.name, html=kind == "html")
        text = text.removeprefix("\ufeff")
        if guessed:
            note(f"{file.name}: {guessed}")
    projects = workshop.projects
    for project in projects.ids():
        if projects.read(project).state.text == digest(text):
            return project
    if document is not None:
        return workshop.create(text, format=kind, given=document.given, notes=document.notes).id
    shown = shown_by(read_story_report(file, elsewhere=allowed).story, library)
    told = pictures_told(shown)
    for line in told:
        note(f"{file.name}: {line}")
    return workshop.create(text, format=kind, given=shown.inside, told=told).id


WARMING_S = 30


def _warm(engine: Engine) -> None:
    """Load what the first text would have to wait for."""
    READER.read("A text.")
    engine.warm()


def _wait_for(warming: threading.Thread) -> None:
    """An interpreter that ends below a thread in torch aborts."""
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
    allow_outside: bool = False,
    browser: bool,
    note: Callable[[str], None],
    ready: Callable[[str], None],
) -> None:
    """Serve the studio of a library until Ctrl-C.

    Args:
        library: its folder or address.
        projects: folder of the projects; as `limner.studio.projects.projects_folder` unless given.
        host: address to listen on.
        port: to listen on; None for the usual one, or any that is free.
        token: that visitors must bring, in place of a random one.
        no_token: True lets all in who reach it.
        model: folder of a trained run, or None.
        metric: folder of a trained same-document metric, or None.
        weights: as of ``limner index --weights``, for words and for folders that are added.
        device: what computes, see `limner.devices.device_of`.
        text: to open a project of, or None.
        allow_outside: as of `opened`.
        browser: whether to open the user's browser.
        note: receives what the person should know of the text, a line each.
        ready: receives the address once the server answers.
    Raises:
        LimnerError: as `Engine`, `token_of`, `bind` and `opened`.
    """
    token = token_of(token, wanted=not no_token, alone=is_loopback(host))
    engine = Engine(library, model=model, metric=metric, weights=weights, device=checked_device(device))
    listening = bind(host, port, token=token)
    thumbnails = cache_folder(engine.illustrator().library)
    warming = threading.Thread(target=_warm, args=(engine,), daemon=True)
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
            path = f"/projects/{opened(text, studio.workshop, note, allow_outside=allow_outside)}"
        else:
            warming.start()
        address = bound.url(path)
        browse = address if browser else None
        if browse is not None and bound.token is not None:
            browse = files.enter_context(leading_to(address, thumbnails))
        guard = bound.guard("limner-studio")
        if bound.loopback:
            larger = dict.fromkeys((shelf_routes.BATCHES, routes.DOCUMENTS), FILE_BYTES)
            guard = replace(guard, larger=larger)
        serve(
            create_app(studio, token=guard.token is not None),
            bound,
            guard,
            browse=browse,
            ready=lambda: ready(address),
        )
