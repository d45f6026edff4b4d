"""``limner studio``: storyboards in a browser, over a library.

It parses options and prints the address; `limner.studio` is the studio.
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
    allow_outside: Flag = False,
    browser: bool = True,
) -> None:
    """Make and change storyboards in a browser.

    Everything stays on this machine. The address that is printed holds a token, without which nobody is let
    in: other users of this machine reach its ports as well. Ctrl-C ends it; projects are kept.

    Example: limner studio --text recipe.md

    Parameters
    ----------
    library
        Folder of the library, or its address on object storage. Default: $LIMNER_LIBRARY, else the one
        used last, see 'limner library'; the first time an empty one is made, to which you add folders.
    projects
        Folder of the projects. Unless given, LIB.projects beside the library's folder LIB, and one in your
        data folder where the library cannot be written or is on object storage.
    host
        Address to listen on. Beyond this machine (0.0.0.0), nobody can add folders.
    port
        Port (default 8420; if taken, any free port).
    token
        The token, at least 16 characters. Default: 32 random bytes. Prefer the variable: other users of this
        machine can see the options of a command, but not its environment.
    no_token
        Require no token: everyone who can reach the port gets in. Refused with a --host beyond this machine.
    model
        Folder of a trained run, in place of all channels; the library must have been indexed with it. Steps
        can then be asked for relations, such as action.
    metric
        Folder of a trained same-document metric, used to compare pictures with each other.
    weights
        Weights for searches and for folders that are added: NAME=FILE, or a folder to look in (repeatable).
    device
        Device: auto (a CUDA card if there is one), cpu, cuda, cuda:N or mps. Sentences are encoded on the
        CPU.
    text
        Text to open: Markdown, HTML, plain text, a Word document or a PDF. A project is made of it, unless
        there is one with the same text.
    allow_outside
        Let that text show files from outside its own folder and the library.
    browser
        Open the browser.
    """
    from limner.store.chosen import library_to_ask, remember
    from limner.studio.app import serve_studio

    place = library_to_ask(library, say, make=True)

    def ready(address: str) -> None:
        remember(place)
        emit(f"limner studio: {address}", flush=True)  # a log or a container shows it at once
        if no_token:
            say("Without a token everyone who can log in on this machine can use it.")
        say("Ctrl-C ends it; projects are kept.")

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
        allow_outside=allow_outside,
        browser=browser,
        note=say,
        ready=ready,
    )
