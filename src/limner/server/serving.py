"""Starts a server: it binds first, so that the printed URL is right, and then serves until Ctrl-C.

A server that other machines can reach needs a token.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import logging
import secrets
import signal
import socket
import threading
import time
import webbrowser
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

import uvicorn
from starlette.types import ASGIApp

from limner.errors import ConfigError
from limner.server.limits import QUEUE, LimitedConfig, Limits, RepeatFilter
from limner.server.security import Guard, Guarded, hosts_of, is_loopback

ANY = ("0.0.0.0", "::", "")  # noqa: S104  (compared with, not bound to)
LOOPBACK = "127.0.0.1"
PORT = 8420
BACKLOG = 128
GRACE_S = 2
"""Seconds in which requests may be finished when the server stops."""


@dataclass(frozen=True)
class ListeningSocket:
    """A socket that listens.

    Attributes:
        listener: the socket.
        host: requested host.
        port: actual port.
        token: token that requests need, or None.
    """

    listener: socket.socket
    host: str
    port: int
    token: str | None

    @property
    def loopback(self) -> bool:
        """Whether only this machine can reach it."""
        return is_loopback(self.host)

    @property
    def origin(self) -> str:
        """URL for a browser on this machine."""
        host = LOOPBACK if self.host in ANY else self.host
        return f"http://{f'[{host}]' if ':' in host else host}:{self.port}"

    def url(self, path: str = "/") -> str:
        """URL to print or open, with the token if there is one."""
        return f"{self.origin}{path}" + (f"?{urlencode({'token': self.token})}" if self.token else "")

    def close(self) -> None:
        """Stop listening."""
        self.listener.close()

    def guard(self, cookie: str, *, names: Sequence[str] = (), need_token: bool = True) -> Guard:
        """Rules for this address.

        Args:
            cookie: prefix of the cookie's name, which includes the port because cookies are shared by all
                ports.
            names: further names of this server, such as that of a proxy; then any port is allowed.
            need_token: False for a server with another authentication.
        """
        return Guard(
            hosts=hosts_of("" if self.host in ANY else self.host, names),
            addresses=not self.loopback,
            port=None if names else self.port,
            token=self.token if need_token else None,
            cookie=f"{cookie}-{self.port}",
        )


def bind(host: str, port: int | None, default: int = PORT, *, token: str | None = None) -> ListeningSocket:
    """Listen on an address.

    Args:
        host: name or address of an interface of this machine.
        port: port; 0 for any free one, None for the default one or, if that is taken, any free one.
        default: the port to prefer.
        token: token that requests need; a server that other machines can reach always has one, by default a
            random one.
    Raises:
        ConfigError: the address does not belong to this machine, or the port is in use.
    """
    if port is not None and not 0 <= port <= 65_535:
        raise ConfigError(f"--port {port}: expected 0 to 65535")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    both = family is socket.AF_INET6 and socket.has_dualstack_ipv6()
    ports = (default, 0) if port is None else (port,)
    for number in ports:
        try:
            listener = socket.create_server(
                (host, number), family=family, backlog=BACKLOG, dualstack_ipv6=both
            )
            break
        except OSError as error:
            refused = error
    else:
        reason = (refused.strerror or str(refused)).partition(" (while")[0]
        raise ConfigError(
            f"cannot listen on {host} port {ports[0]}: {reason};"
            " give another --host or --port (0 takes a free one)"
        ) from refused
    # Accepted connections inherit this; otherwise the body of a response, sent after its head, waits until
    # the client acknowledges the head, 40 ms later.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if token is None and not is_loopback(host):
        token = secrets.token_urlsafe(32)
    return ListeningSocket(listener, host, listener.getsockname()[1], token)


def serve(
    app: ASGIApp,
    bound: ListeningSocket,
    guard: Guard,
    *,
    browse: str | None = None,
    ready: Callable[[], None] | None = None,
    proxies: Sequence[str] = (),
) -> None:
    """Serve until Ctrl-C or a termination signal, then return.

    Args:
        app: the application.
        bound: the listening socket.
        guard: access rules.
        browse: URL to open in the user's browser once the server responds; None opens none.
        ready: called once the server responds; if it raises, as on a full disk, nothing is served.
        proxies: addresses of trusted proxies, whose X-Forwarded-For is used.
    Raises:
        OSError: see `ready`.
    """
    settings: dict[str, Any] = {
        "proxy_headers": bool(proxies),
        # A dual-stack socket gives IPv4 addresses in IPv6 form.
        "forwarded_allow_ips": [form for one in proxies for form in (one, *_mapped(one))],
        "log_level": "warning",
        "access_log": False,
        "server_header": False,
        "ws": "none",
        "loop": "asyncio",
        "timeout_graceful_shutdown": GRACE_S,
    }
    guarded = Guarded(app, guard)
    logging.getLogger("uvicorn.error").addFilter(_is_no_end)
    seldom = RepeatFilter()
    for name in ("uvicorn.error", "asyncio"):
        logging.getLogger(name).addFilter(seldom)
    server = uvicorn.Server(LimitedConfig(guarded, Limits(), **settings))
    unsaid: list[OSError] = []

    def announce() -> None:
        while not server.started and not server.should_exit:
            time.sleep(0.02)
        if server.started:
            bound.listener.listen(QUEUE)
            try:
                if ready is not None:
                    ready()
            except OSError as error:
                unsaid.append(error)
                server.should_exit = True
                return
            if browse is not None:
                # The user can still open the printed URL.
                with contextlib.suppress(webbrowser.Error):
                    webbrowser.open(browse)

    threading.Thread(target=announce, daemon=True).start()
    # After stopping, uvicorn raises a received signal again; a signal that kills would leave files behind.
    with contextlib.suppress(KeyboardInterrupt), _ended_by(signal.SIGTERM):
        server.run(sockets=[bound.listener])
    if unsaid:
        raise unsaid[0]


def _mapped(network: str) -> Iterator[str]:
    """The IPv6-mapped form of an IPv4 network."""
    found = ipaddress.ip_network(network)
    if found.version == 4:
        yield f"::ffff:{found.network_address}/{96 + found.prefixlen}"


def _is_no_end(record: logging.LogRecord) -> bool:
    """Drop log records of requests aborted at shutdown, which one line already reports."""
    return record.exc_info is None or not isinstance(record.exc_info[1], asyncio.CancelledError)


@contextlib.contextmanager
def _ended_by(number: signal.Signals) -> Iterator[None]:
    """Let a signal interrupt the main thread as Ctrl-C does."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(number, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(number, before)
