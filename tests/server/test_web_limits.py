"""Connections that keep a server waiting are closed, and nobody's many keep others out: real sockets."""

import asyncio
import logging
import socket
import threading
import time
from contextlib import ExitStack, closing, contextmanager, suppress

import pytest
import uvicorn

from limner.server.limits import LimitedConfig, Limits, RepeatFilter
from limner.server.serving import bind

pytestmark = pytest.mark.slow

LARGE = 64 * 2**20


async def app(scope, receive, send):
    """Answers at once, late (/late), after the body (/body), or with more than anything buffers (/large)."""
    path = scope["path"]
    if path == "/late":
        await asyncio.sleep(1.0)
    while path == "/body" and (await receive())["more_body"]:
        pass
    body = bytes(LARGE) if path == "/large" else b"here"
    head = [(b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": head})
    await send({"type": "http.response.body", "body": body})


@contextmanager
def running(limits):
    """A server in a thread, and its port."""
    bound = bind("127.0.0.1", 0)
    settings = {"log_level": "critical", "loop": "asyncio", "ws": "none", "lifespan": "off"}
    server = uvicorn.Server(LimitedConfig(app, limits, timeout_graceful_shutdown=1, **settings))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [bound.listener]})
    thread.start()
    try:
        yield server, bound.port
    finally:
        server.should_exit = True
        thread.join(20)
    assert not thread.is_alive()


def opened(port, sent=b"", source="127.0.0.1"):
    """A connection on which something has been sent."""
    one = socket.create_connection(("127.0.0.1", port), timeout=20, source_address=(source, 0))
    one.sendall(sent)
    return one


def asked(path, more=b""):
    return b"GET %b HTTP/1.1\r\nHost: x\r\n%b\r\n" % (path, more)


def dribble(one, sent):
    """Send byte by byte."""
    for byte in sent:
        one.sendall(bytes([byte]))
        time.sleep(0.01)


def taken(one, size):
    """Bytes received until there are so many, or the other side is gone."""
    found = b""
    while len(found) < size and (part := one.recv(2**16)):
        found += part
    return found


def ended(one):
    """Whether the other side has closed; waits until something comes."""
    try:
        return one.recv(1) == b""
    except ConnectionError:
        return True


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"GET / HTTP/1.1\r\nHost: x\r\nX-Slow: ",
        b"POST /body HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nhalf",
        asked(b"/") + b"GET /second HTTP/1.1\r\n",
    ],
)
def test_a_request_that_is_never_complete_is_given_up(sent):
    with running(Limits(request_s=0.3)) as (_, port), closing(opened(port, sent)) as one:
        while one.recv(2**16):
            pass  # the answer to a complete one before it; then the end


def test_a_request_that_comes_byte_by_byte_is_given_up():
    with running(Limits(request_s=0.5)) as (_, port), closing(opened(port)) as one:
        begun = time.monotonic()
        endless = asked(b"/", b"X: %b\r\n" % (b"y" * 10_000))
        with pytest.raises(OSError, match=r"reset|pipe|abort"):
            dribble(one, endless)
        assert time.monotonic() - begun >= 0.4


@pytest.mark.parametrize("least", [10, 1000], ids=["fast enough", "too slow"])
def test_an_upload_may_take_long_while_enough_of_it_comes(least):
    with running(Limits(request_s=1.0, body_bytes=least)) as (_, port), closing(opened(port)) as one:
        one.sendall(b"POST /body HTTP/1.1\r\nHost: x\r\nContent-Length: 300\r\n\r\n")
        for _ in range(30):
            time.sleep(0.08)
            with suppress(ConnectionError):
                one.sendall(b"ten bytes.")
        if least == 10:
            assert taken(one, 20).startswith(b"HTTP/1.1 200")
        else:
            assert ended(one)


def test_what_anybody_can_make_it_say_is_said_once_a_minute():
    now, said = [0.0], []
    log = logging.Logger("of this test")
    log.addFilter(RepeatFilter(clock=lambda: now[0]))
    log.addHandler(handler := logging.Handler())
    handler.emit = lambda record: said.append(record.getMessage())
    for _ in range(1000):
        log.warning("Invalid HTTP request received.")
    log.warning("Another %s.", "thing")
    now[0] = 61
    log.warning("Invalid HTTP request received.")
    assert said == [
        "Invalid HTTP request received.",
        "Another thing.",
        "Invalid HTTP request received. (999 more since the last such message)",
    ]


def test_who_waits_for_the_server_is_not_cut_off():
    with running(Limits(request_s=0.3, take_s=0.3)) as (_, port), closing(opened(port)) as one:
        one.sendall(asked(b"/late"))
        assert taken(one, 20).startswith(b"HTTP/1.1 200")


def test_an_answer_that_nobody_takes_is_given_up_and_a_slow_reader_is_not():
    with running(Limits(request_s=0.3, take_s=1.5)) as (server, port):
        with closing(opened(port, asked(b"/large"))) as lazy:
            lazy.recv(1)
            while server.server_state.connections:
                time.sleep(0.02)
        with closing(opened(port, asked(b"/large"))) as slow:
            got = 0
            for _ in range(16):
                got += len(taken(slow, 2**22))
                time.sleep(0.15)
            while part := slow.recv(2**20):
                got += len(part)
                if got > LARGE:
                    break
            assert got > LARGE, "longer than both limits together, but something was taken all the time"


def test_where_there_are_too_many_the_crowd_makes_room_by_its_own_oldest():
    with running(Limits(connections=6)) as (server, port), ExitStack() as sockets:

        def open_one(*sent):
            return sockets.enter_context(closing(opened(port, *sent)))

        guest = open_one(b"", "127.0.0.2")
        while not server.server_state.connections:
            time.sleep(0.01)
        crowd = [open_one(b"GET / HTTP/1.1\r\n") for _ in range(12)]
        guest.sendall(asked(b"/"))
        assert taken(guest, 20).startswith(b"HTTP/1.1 200"), "waits longest of all, but alone at its address"
        late = open_one(asked(b"/"))
        assert taken(late, 20).startswith(b"HTTP/1.1 200")
        assert [ended(one) for one in crowd[:7]] == [True] * 7
        assert len(server.server_state.connections) == 6


def test_no_more_connections_than_the_system_lets_the_program_have():
    resource = pytest.importorskip("resource")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (300, hard))
        assert Limits().most == 150
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert Limits(connections=1).most == 1
