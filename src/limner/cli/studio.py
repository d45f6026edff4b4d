"""``limner studio``: storyboards in a browser, over a library.

It parses options, opens what the studio works on, and starts the server. `limner.studio` is the studio.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from limner.cli.terminal import emit, say
from limner.errors import MissingError

PORT = 8420


def studio(
    *,
    library: Path,
    projects: Path | None = None,
    host: str = "127.0.0.1",
    port: int | None = None,
    model: Path | None = None,
    metric: Path | None = None,
    weights: Annotated[tuple[str, ...], Parameter(negative="", show_default=False)] = (),
    text: Path | None = None,
    browser: bool = True,
) -> None:
    """Make and change storyboards in a browser.

    Everything stays on this machine. Ctrl-C ends it; projects are kept.

    Example: limner studio --library lib --text recipe.md

    Parameters
    ----------
    library
        Folder of the library.
    projects
        Folder of the projects; in the library's folder unless given.
    host
        Address to listen on. Beyond this machine (0.0.0.0), the address printed at the start holds a token
        that every visitor needs, and nobody can add folders.
    port
        Port to listen on; 8420, or any free one where that is taken, unless given.
    model
        Folder of a trained run, in place of all channels; the library must have been indexed with it. Steps
        can then be asked for relations, such as action.
    metric
        Folder of a trained same-document metric by which pictures pull each other.
    weights
        NAME=FILE, or a folder to look in, for folders that are added (repeatable).
    text
        A text to open: a project is made of it, unless one has the same text.
    browser
        Open the browser.
    """
    try:
        import fastapi  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise MissingError(
            f'studio: {error.name} is not installed; run: pip install "limner[studio]"'
        ) from error
    import threading

    from limner.studio.app import create_app, opened
    from limner.studio.engine import Engine
    from limner.studio.pictures import cache_folder
    from limner.studio.services import Studio
    from limner.web.serving import bind, serve

    engine = Engine(library, model=model, metric=metric)
    bound = bind(host, port, PORT)
    made = Studio.of(
        engine,
        projects or library / "projects",
        cache_folder(engine.illustrator().library),
        weights=weights,
        writable=bound.loopback,
    )
    path = "/"
    if text is not None:
        path = f"/projects/{opened(text, made.workshop, say)}"
    else:
        threading.Thread(target=engine.warm, daemon=True).start()
    address = bound.url(path)

    def told() -> None:
        emit(f"limner studio: {address}")
        say("Ctrl-C ends it; projects are kept.")

    serve(
        create_app(made), bound, bound.guard("limner-studio"), browse=address if browser else None, ready=told
    )
