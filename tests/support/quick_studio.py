"""A studio in a thread, which loads networks late."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def serving(
    library: Path,
    projects: Path,
    *,
    port: int = 0,
    token: str | None = None,
    model: Path | None = None,
    held: bool = False,
) -> Iterator[tuple[str, str]]:
    """Address without the last slash, and the query that lets in.

    ``held`` lets no text be read to its end, however fast the machine is: each is held, half of its first
    portion read, until its job is to stop.
    """
    from threaded_servers import served

    from limner.studio import app
    from limner.studio.engine import Engine
    from limner.studio.jobs import Stoppable

    advance = Stoppable.advance

    def half(job: Stoppable, count: int) -> None:
        """Count half, and go no further; looks at whether to go on, which count nothing, pass."""
        advance(job, count // 2)
        if count:
            job.stop.wait()

    def serve(ready) -> None:
        app.serve_studio(
            library,
            projects=projects,
            host="127.0.0.1",
            port=port,
            token=token,
            no_token=False,
            model=model,
            metric=None,
            weights=(),
            device="auto",
            text=None,
            browser=False,
            note=lambda line: None,
            ready=ready,
        )

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Engine, "warm", lambda engine: None)
        if held:
            patch.setattr(Stoppable, "advance", half)
        with served(serve) as address:
            at, _, query = address.partition("/?")
            yield at, query
