"""A PostgreSQL server of one's own for a test or a benchmark: empty, on a socket, gone afterwards.

Binaries are found in the PATH or where Debian puts them. As root, which PostgreSQL refuses, it runs as the
user `postgres`.
"""

import contextlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path


def binaries() -> Path | None:
    """The folder with `initdb` and `pg_ctl`, the newest if there are several; None if there is none."""
    places = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: float(path.parent.name))
    found = shutil.which("initdb")
    for place in ([Path(found).parent] if found else []) + places[::-1]:
        if (place / "initdb").is_file() and (place / "pg_ctl").is_file():
            return place
    return None


class Server:
    """A server that can be stopped and started again."""

    def __init__(self, home: Path, place: Path, user: list[str]) -> None:
        self.home, self.place, self.user = home, place, user
        self.url = f"postgresql://postgres@/postgres?host={home}"

    def _run(self, program: str, *words: str) -> None:
        command = [*self.user, str(self.place / program), "-D", str(self.home / "data"), *words]
        with (self.home / "output").open("ab") as output:
            # Its output goes to a file: a server that keeps a pipe open would be waited for.
            subprocess.run(command, check=True, cwd=self.home, stdout=output, stderr=output)

    def create(self) -> None:
        """Make an empty cluster."""
        self._run("initdb", "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-sync")

    def start(self) -> None:
        """Start and wait until it answers."""
        options = f"-k {self.home} -c listen_addresses='' -c max_connections=60"
        self._run("pg_ctl", "-w", "-l", str(self.home / "log"), "-o", options, "start")

    def stop(self, mode: str = "fast") -> None:
        """Stop; ``immediate`` is what a power cut does."""
        self._run("pg_ctl", "-w", "-m", mode, "stop")


@contextlib.contextmanager
def running() -> Iterator[Server]:
    """A started server in a new folder under /tmp.

    Raises:
        LookupError: there is no PostgreSQL here.
    """
    place = binaries()
    if place is None:
        raise LookupError("no PostgreSQL server on this machine (Debian: apt-get install postgresql)")
    user = []
    # A socket's path must be short; temporary folders of tests are not.
    home = Path(tempfile.mkdtemp(prefix="limner-pg-", dir="/tmp"))
    try:
        if os.geteuid() == 0:
            user = ["runuser", "-u", "postgres", "--"]
            shutil.chown(home, "postgres", "postgres")
        server = Server(home, place, user)
        server.create()
        server.start()
        try:
            yield server
        finally:
            with contextlib.suppress(subprocess.CalledProcessError):
                server.stop("immediate")
    finally:
        shutil.rmtree(home, ignore_errors=True)
