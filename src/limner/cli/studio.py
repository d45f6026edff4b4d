"""``limner studio``: starts the studio, where storyboards are made in a browser.

Parses options and prints the URL; `limner.studio.app` serves the studio.
"""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from limner.cli.main import Flag, Many, emit, say


def studio(
    *,
    library: Path | None = None,
    projects: Path | None = None,
    host: str = "127.0.0.1",
    port: int | None = None,
    token: Annotated[str | None, Parameter(env_var="LIMNER_TOKEN")] = None,
    no_token: Flag = False,
    model: Path | None = None,
    metric: Path | None = None,
    weights: Many = (),
    device: str = "auto",
    text: Path | None = None,
    browser: bool = True,
) -> None:
    """Create and edit storyboards (illustrated texts) in a browser.

    Everything stays on this machine. The printed URL contains a token, which is needed to sign in, because
    other users of this machine can reach its ports too. Ctrl-C stops the studio; projects are kept.

    Example: limner studio --text recipe.md

    Parameters
    ----------
    library
        Path or URL of the library. Default: $LIMNER_LIBRARY; if unset, the library used last (see 'limner
        library'). If there is none, an empty one is created, to which you add folders.
    projects
        Folder of the projects. Default: LIB.projects next to the library's folder LIB, or a folder in your
        data folder if the library is read-only or on object storage.
    host
        Address to listen on. If it is reachable from other machines (0.0.0.0), nobody can add folders.
    port
        Port (default 8420; if taken, any free port).
    token
        Token, at least 16 characters. Default: 32 random bytes. Prefer the environment variable: other users
        of this machine can see the options of a command, but not its environment.
    no_token
        Require no token: everyone who can reach the port can use the studio. Only with a --host of this
        machine.
    model
        Folder of a trained run to use instead of all channels; the library must have been indexed with it.
        Steps can then ask for relations, such as action.
    metric
        Folder of a trained same-document metric, used to compare pictures with each other.
    weights
        Weights for searches and for folders that are added: NAME=FILE, or a folder to look in. Repeatable.
    device
        Device: auto (a CUDA GPU if there is one), cpu, cuda, cuda:N or mps. Sentences are encoded on the
        CPU.
    text
        Text to open (Markdown, HTML, plain text, Word or PDF), as a new project unless there is one with the
        same text.
    browser
        Open the studio in the browser.
    """
    from limner.library import library_to_search, remember_last_library
    from limner.studio.app import serve_studio

    place = library_to_search(library, say, make=True)

    def ready(address: str) -> None:
        remember_last_library(place)
        emit(f"limner studio: {address}", flush=True)  # a log or container then shows it at once
        if no_token:
            say("No token is required: everyone who can log in to this machine can use the studio.")
        say("Ctrl-C stops the studio; projects are kept.")

    serve_studio(
        place,
        projects=projects,
        host=host,
        port=port,
        token=token,
        no_token=no_token,
        model=model,
        metric=metric,
        weights=weights,
        device=device,
        text=text,
        browser=browser,
        note=say,
        ready=ready,
    )
