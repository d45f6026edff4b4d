"""Start a server: bind first, so that the address is true before it is printed, then serve until Ctrl-C.

The bind rule is here: beyond this machine only with a token.
"""

from __future__ import annotations

import contextlib
import secrets
import socket
import threading
import time
import webbrowser
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import uvicorn
from starlette.types import ASGIApp

from limner.errors import ConfigError
from limner.web.security import Guard, Guarded, hosts_of, is_loopback

ANY = ("0.0.0.0", "::", "")  # noqa: S104  (compared with, not bound to)
PORT = 8420


@dataclass(frozen=True)
class Bound:
    """A socket that listens.

    Attributes:
        listener: the socket.
        host: as asked for.
        port: as it is, also where any was asked for.
        token: that requests must bring; None on loopback.
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
        """Where a browser on this machine finds it."""
        host = "127.0.0.1" if self.host in ANY else self.host
        return f"http://{f'[{host}]' if ':' in host else host}:{self.port}"

    def url(self, path: str = "/") -> str:
        """An address to print or open, with the token where one is due."""
        return f"{self.origin}{path}" + (f"?token={self.token}" if self.token else "")

    def guard(self, cookie: str, *, names: Sequence[str] = (), need_token: bool = True) -> Guard:
        """The rules for this address.

        Args:
            cookie: beginning of the name of the token's cookie; cookies do not tell ports apart, names do.
            names: further names of this server, such as that of a proxy before it; any port will do then.
            need_token: False for a server that knows its visitors by other means.
        """
        return Guard(
            hosts=hosts_of("" if self.host in ANY else self.host, names),
            addresses=not self.loopback,
            port=None if names else self.port,
            token=self.token if need_token else None,
            cookie=f"{cookie}-{self.port}",
        )


def bind(host: str, port: int | None, default: int = PORT) -> Bound:
    """Listen on an address.

    Args:
        host: name or address of an interface of this machine.
        port: 0 takes any that is free; None the default one, or any where that is taken.
        default: the port to prefer.
    Raises:
        ConfigError: the address is not this machine's, or its port is taken.
    """
    if port is not None and not 0 <= port <= 65_535:
        raise ConfigError(f"--port {port}: expected 0 to 65535")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    both = family is socket.AF_INET6 and socket.has_dualstack_ipv6()
    ports = (default, 0) if port is None else (port,)
    for number in ports:
        try:
            listener = socket.create_server((host, number), family=family, backlog=128, dualstack_ipv6=both)
            break
        except OSError as error:
            refused = error
    else:
        reason = (refused.strerror or str(refused)).partition(" (while")[0]
        raise ConfigError(
            f"cannot listen on {host} port {ports[0]}: {reason};"
            " give another --host or --port (0 takes a free one)"
        ) from refused
    # Inherited by what is accepted: else the body of an answer, which follows its head, waits until the other
    # side has confirmed the head, which takes 40 ms.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    token = None if is_loopback(host) else secrets.token_urlsafe(32)
    return Bound(listener, host, listener.getsockname()[1], token)


def serve(
    app: ASGIApp,
    bound: Bound,
    guard: Guard,
    *,
    browse: str | None = None,
    ready: Callable[[], None] | None = None,
) -> None:
    """Serve until Ctrl-C or a signal to end.

    Args:
        app: the application.
        bound: where.
        guard: the rules around it.
        browse: address to open in the user's browser once the server answers; None opens none.
        ready: called once the server answers.
    """
    config = uvicorn.Config(
        Guarded(app, guard),
        log_level="warning",
        access_log=False,
        server_header=False,
        ws="none",
        loop="asyncio",
        timeout_graceful_shutdown=2,
    )
    server = uvicorn.Server(config)

    def announce() -> None:
        while not server.started and not server.should_exit:
            time.sleep(0.02)
        if server.started:
            if ready is not None:
                ready()
            if browse is not None:
                # Without a browser there is still the printed address.
                with contextlib.suppress(webbrowser.Error):
                    webbrowser.open(browse)

    threading.Thread(target=announce, daemon=True).start()
    with contextlib.suppress(KeyboardInterrupt):
        server.run(sockets=[bound.listener])
