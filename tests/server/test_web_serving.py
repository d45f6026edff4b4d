"""Binding, and what follows from where a server is bound."""

import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request

import pytest

from limner.errors import ConfigError
from limner.server.serving import bind, serve

pytestmark = pytest.mark.slow


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
    monkeypatch.setattr("limner.server.serving.webbrowser.open", opened.append)
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
from limner.server.serving import bind, serve

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
            assert asking.makefile("rb").readline().startswith(b"HTTP/1.1 503 ")
            said = server.communicate(timeout=60)[1]
    assert [line for line in said.splitlines() if line] == [
        "ERROR:    Cancel 1 running task(s), timeout graceful shutdown exceeded"
    ]
