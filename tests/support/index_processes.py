"""``limner index`` in two processes of their own, both begun, until both are told to go on."""

import multiprocessing
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from io import StringIO

_WAIT_S = 60


class Processes:
    """Two processes that have imported what indexing needs.

    Attributes:
        looking: set once a process has come as far as to look at its pictures, which it does in the lock.
        waiting: set once a process waits for the other to end.
        go_on: lets it look.
    """

    def __init__(self, pool, looking, waiting, go_on):
        self._pool, self.looking, self.waiting, self.go_on = pool, looking, waiting, go_on

    def index(self, *words, together=False) -> Future:
        """Exit status and stderr of a command; `together`: begun at once with that of the other process."""
        return self._pool.submit(_index, [str(one) for one in words], together)


@contextmanager
def processes():
    """Start both, and end them."""
    server = multiprocessing.get_context("forkserver")
    # Once for both; not the database, whose threads would not be in the forked processes.
    server.set_forkserver_preload(
        ["limner.cli.index", "limner.encoders.colour", "limner.match.encoder_setup"]
    )
    events = server.Event(), server.Event(), server.Event()
    with ProcessPoolExecutor(2, server, _prepare, (server.Barrier(2), *events)) as pool:
        yield Processes(pool, *events)


def _prepare(barrier, looking, waiting, go_on):
    from limner.encoders.colour import ColourEncoder
    from limner.store.database import Database

    encode, indexing = ColourEncoder.encode_pixels, Database.indexing

    def held(self, batch):
        looking.set()
        assert go_on.wait(_WAIT_S), "nobody let it go on"
        return encode(self, batch)

    def watched(self, wait):
        def told():
            waiting.set()
            return wait()

        return indexing(self, told)

    ColourEncoder.encode_pixels, Database.indexing = held, watched
    _index.barrier = barrier


def _index(words, together):
    from limner.cli.main import run

    out, err = StringIO(), StringIO()
    if together:
        _index.barrier.wait(_WAIT_S)
    with redirect_stdout(out), redirect_stderr(err):
        status = run(["index", *words, "--encoder", "colour"])
    return status, err.getvalue()
