"""Binding, and what follows from where a server is bound."""

import signal
import socket
import stat
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path

import pytest

from limner.errors import ConfigError
from limner.web.serving import bind, bind_file, serve


@pytest.fixture
def free():
    """Binds, and closes what was bound."""
    made = []

    def bound(host="127.0.0.1", port=0, default=0, **options):
        made.append(bind(host, port, default, **options))
        return made[-1]

    yield bound
    for one in made:
        one.listener.close()


def test_a_token_that_is_given_is_due_on_loopback_too(free):
    bound = free(token=f"letters+and/{'more' * 3}=")
    assert bound.guard("c").token == bound.token == "letters+and/moremoremore="  # noqa: S105
    assert bound.url("/x") == f"http://127.0.0.1:{bound.port}/x?token=letters%2Band%2Fmoremoremore%3D"
    assert free("0.0.0.0", token="a" * 20).token == "a" * 20  # noqa: S104


def test_loopback_needs_no_token_and_answers_only_to_its_names(free):
    bound = free()
    assert bound.loopback
    assert bound.token is None
    assert bound.port > 0
    assert bound.url("/x") == f"http://127.0.0.1:{bound.port}/x"
    guard = bound.guard("c")
    assert guard.token is None
    assert guard.port == bound.port
    assert not guard.addresses
    assert guard.cookie == f"c-{bound.port}"
    assert guard.hosts == {"127.0.0.1", "localhost", "::1"}


def test_beyond_this_machine_a_token_is_due(free):
    bound = free("0.0.0.0")  # noqa: S104
    assert not bound.loopback
    assert len(bound.token) >= 43
    assert bound.url() == f"http://127.0.0.1:{bound.port}/?token={bound.token}"
    guard = bound.guard("c")
    assert guard.token == bound.token
    assert guard.addresses
    assert "0.0.0.0" not in guard.hosts  # noqa: S104
    assert bound.guard("c", need_token=False).token is None
    named = bound.guard("c", names=["studies.example.org"])
    assert "studies.example.org" in named.hosts
    assert named.port is None


def test_a_taken_port_is_refused_when_asked_for_and_passed_by_when_not(free):
    taken = free()
    with pytest.raises(ConfigError, match=f"cannot listen on 127.0.0.1 port {taken.port}.*give another"):
        bind("127.0.0.1", taken.port, 0)
    other = free("127.0.0.1", None, taken.port)
    assert other.port not in (0, taken.port)


def test_the_body_of_an_answer_does_not_wait_until_its_head_is_confirmed(free):
    bound = free()
    with socket.create_connection(("127.0.0.1", bound.port)), bound.listener.accept()[0] as accepted:
        assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


@pytest.mark.parametrize("port", [-1, 65_536])
def test_a_port_that_is_none(port):
    with pytest.raises(ConfigError, match="expected 0 to 65535"):
        bind("127.0.0.1", port, 0)


def test_an_address_of_another_machine():
    with pytest.raises(ConfigError, match=r"cannot listen on 192\.0\.2\.1"):
        bind("192.0.2.1", None, 0)


def test_it_serves_and_opens_the_browser_when_it_answers(free, monkeypatch):
    opened, told = [], []
    monkeypatch.setattr("limner.web.serving.webbrowser.open", opened.append)
    servers = []

    import uvicorn

    class Kept(uvicorn.Server):
        def __init__(self, config):
            super().__init__(config)
            servers.append(self)

        def install_signal_handlers(self):
            """Not in a thread."""

    monkeypatch.setattr(uvicorn, "Server", Kept)

    async def app(scope, receive, send):
        if scope["type"] == "lifespan":
            for _ in range(2):
                message = await receive()
                await send({"type": f"{message['type']}.complete"})
            return
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"here"})

    bound = free()
    address = bound.url()
    thread = threading.Thread(
        target=serve,
        args=(app, bound, bound.guard("c")),
        kwargs={"browse": address, "ready": lambda: told.append(True)},
    )
    thread.start()
    try:
        for _ in range(400):
            if opened:
                break
            time.sleep(0.02)
        with urllib.request.urlopen(address, timeout=10) as answer:  # noqa: S310
            assert answer.read() == b"here"
            assert "server" not in answer.headers
            assert answer.headers["x-frame-options"] == "DENY"
    finally:
        for server in servers:
            server.should_exit = True
        thread.join(20)
    assert not thread.is_alive()
    assert opened == [address]
    assert told == [True]
    assert isinstance(bound.listener, socket.socket)


HANGS = """
import asyncio, sys
from limner.web.serving import bind, serve

async def app(scope, receive, send):
    if scope["type"] == "http":
        print("asked", flush=True)
        await asyncio.sleep(600)

bound = bind("127.0.0.1", 0, 0)
serve(app, bound, bound.guard("c"), ready=lambda: print(bound.port, flush=True))
"""


def test_requests_that_outlast_the_end_are_cut_off_in_one_line():
    with subprocess.Popen(
        [sys.executable, "-c", HANGS], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as server:
        port = int(server.stdout.readline())
        with socket.create_connection(("127.0.0.1", port)) as asking:
            asking.sendall(f"GET / HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode())
            assert server.stdout.readline() == "asked\n"
            server.send_signal(signal.SIGTERM)
            said = server.communicate(timeout=60)[1]
    assert [line for line in said.splitlines() if line] == [
        "ERROR:    Cancel 1 running task(s), timeout graceful shutdown exceeded"
    ]


@pytest.fixture
def short():
    """A folder with a name short enough for sockets below it."""
    with tempfile.TemporaryDirectory(prefix="s") as folder:
        yield Path(folder)


def test_a_socket_is_its_owners_alone_and_gone_at_the_end(short, monkeypatch):
    modes, listen = [], socket.socket.listen

    class Watched(socket.socket):
        def listen(self, *backlog):
            modes.append(stat.S_IMODE((short / "s").stat().st_mode))
            listen(self, *backlog)

    monkeypatch.setattr("limner.web.serving.socket.socket", Watched)
    bound = bind_file(short / "s", token="t" * 16)
    assert modes == [0o600]  # before anyone could connect
    assert stat.S_IMODE((short / "s").stat().st_mode) == 0o600
    assert bound.loopback
    assert bound.url("/x") == f"http://localhost:8420/x?token={'t' * 16}"
    guard = bound.guard("c")
    assert (guard.port, guard.addresses, guard.token) == (None, False, "t" * 16)
    other = bind_file(short / "other")
    assert other.guard("c").cookie != guard.cookie
    for one in (bound, other):
        one.close()
    assert list(short.iterdir()) == []


def test_a_socket_of_a_killed_server_is_replaced_one_that_serves_is_not(short):
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(short / "s"))
    bound = bind_file(short / "s")
    with pytest.raises(ConfigError, match="a server listens there"):
        bind_file(short / "s")
    with socket.socket(socket.AF_UNIX) as asking:
        asking.connect(str(short / "s"))
    bound.close()
    assert not (short / "s").exists()


@pytest.mark.parametrize("kind", ["file", "folder", "link", "broken link"])
def test_what_is_no_socket_is_left_as_it_is(short, kind):
    there = short / "s"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(short / "dead"))
    {
        "file": lambda: there.write_text("mine"),
        "folder": there.mkdir,
        "link": lambda: there.symlink_to(short / "dead"),
        "broken link": lambda: there.symlink_to(short / "nowhere"),
    }[kind]()
    before = there.lstat()
    with pytest.raises(ConfigError, match="expected a path at which there is none"):
        bind_file(there)
    assert there.lstat() == before


def test_a_socket_that_took_the_place_of_ours_stays(short):
    bound = bind_file(short / "s")
    (short / "s").rename(short / "away")
    other = bind_file(short / "s")
    bound.close()
    assert (short / "s").is_socket()
    other.close()


def test_a_path_where_no_socket_can_be(short):
    with pytest.raises(ConfigError, match=r"cannot listen on .*/s: No such file or directory; give another"):
        bind_file(short / "nowhere" / "s")
    with pytest.raises(ConfigError, match=r"cannot listen on .*too long; give another"):
        bind_file(short / ("s" * 120))
