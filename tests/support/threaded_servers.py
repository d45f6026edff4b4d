"""The web servers of limner in a thread of the tests.

As a process each would load all that it needs anew, which takes longer than most tests of a page.
tests/studio/test_studio_crash.py and tests/research/study/test_study_serving.py run them as processes.
"""

import gc
import logging
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import Queue

import pytest

_PATIENCE_S = 300


class _Errors(logging.Filter):
    """Notes what a thread logs with a traceback; a filter, as uvicorn drops handlers when a server starts."""

    def __init__(self, thread: threading.Thread) -> None:
        super().__init__()
        self.thread = thread
        self.told: list[str] = []

    def filter(self, record: logging.LogRecord) -> bool:
        if record.exc_info and record.thread == self.thread.ident:
            self.told.append(logging.Formatter().format(record))
        return True


@contextmanager
def served(serve: Callable[[Callable[[str], None]], None]) -> Iterator[str]:
    """What a server prints as its address; ``serve`` runs it and calls what it is given with that.

    In the end no request may have failed by an error that nobody expected.
    """
    import uvicorn

    told: Queue[str | BaseException] = Queue()
    servers: list[uvicorn.Server] = []

    class Kept(uvicorn.Server):
        def __init__(self, config: uvicorn.Config) -> None:
            super().__init__(config)
            servers.append(self)

    def run() -> None:
        try:
            serve(told.put)
        except BaseException as error:
            told.put(error)

    thread = threading.Thread(target=run, name="server")
    errors = _Errors(thread)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(uvicorn, "Server", Kept)
        thread.start()
        address = told.get(timeout=_PATIENCE_S)
    if isinstance(address, BaseException):
        raise address
    loggers = [logging.getLogger(name) for name in ("limner", "uvicorn.error", "asyncio")]
    for logger in loggers:
        logger.addFilter(errors)
    try:
        yield address
    finally:
        servers[0].should_exit = True
        thread.join(_PATIENCE_S)
        for logger in loggers:
            logger.removeFilter(errors)
        with warnings.catch_warnings():
            # connections that the browser kept open, which would be a warning of some later test
            warnings.simplefilter("ignore", ResourceWarning)
            gc.collect()
    assert not thread.is_alive()
    assert errors.told == []
    if not told.empty():
        raise told.get()


@contextmanager
def study_served(folder: Path, *, votes: Path | None = None, **how: object) -> Iterator[str]:
    """Address of a study, as ``limner study serve`` serves it; its votes are in its folder unless told."""
    from limner.research.study.app import serve_study
    from limner.research.study.recruitment import Recruitment

    usual = {"limit": None, "hold_s": 1200.0, "notice": None, "recruitment": Recruitment()}
    base = None if votes is None else str(votes)

    def serve(ready: Callable[[str], None]) -> None:
        serve_study(
            folder,
            votes=base,
            host="127.0.0.1",
            port=0,
            names=(),
            note=lambda line: None,
            ready=ready,
            **{**usual, **how},
        )

    with served(serve) as address:
        yield address.rstrip("/")
