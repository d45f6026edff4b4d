"""``limner studio``: storyboards in a browser, over a library.

It parses options and prints the address; `limner.studio` is the studio.
"""

from pathlib import Path

from limner.cli.terminal import Many, emit, say


def studio(
    *,
    library: Path,
    projects: Path | None = None,
    host: str = "127.0.0.1",
    port: int | None = None,
    model: Path | None = None,
    metric: Path | None = None,
    weights: Many = (),
    device: str = "auto",
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
        NAME=FILE, or a folder to look in, for words and for folders that are added (repeatable).
    device
        What computes: auto (a CUDA card where there is one), cpu, cuda, cuda:N or mps. Sentences are read on
        the CPU.
    text
        A text to open: a project is made of it, unless one has the same text.
    browser
        Open the browser.
    """
    from limner.studio.app import serve_studio

    def ready(address: str) -> None:
        emit(f"limner studio: {address}", flush=True)  # a log or a container shows it at once
        say("Ctrl-C ends it; projects are kept.")

    serve_studio(
        library,
        projects=projects,
        host=host,
        port=port,
        model=model,
        metric=metric,
        weights=weights,
        device=device,
        text=text,
        browser=browser,
        note=say,
        ready=ready,
    )
