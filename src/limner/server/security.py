"""Access control of a local server: allowed hosts, origins, tokens and sizes of requests.

A web page can make a browser send requests to 127.0.0.1, under any name (DNS rebinding) and from its own
origin. So Host must be a known name, changes must come from the server's own pages, and a token may be
required.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from fastapi import Request
from starlette.datastructures import MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from limner.server.admission import SAFE, Admission
from limner.server.problems import ProblemDetails, ProblemError, answer

BODY_BYTES = 8 * 2**20
LOOPBACK_NAMES = frozenset(("127.0.0.1", "localhost", "::1"))
HEADERS = {
    "content-security-policy": (
        "default-src 'self'; img-src 'self' data: blob:; object-src 'none'; base-uri 'none';"
        " form-action 'self'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}

ENDING = ProblemDetails(
    title="The server is stopping",
    status=503,
    detail="the server stopped before it could respond; start it and try again",
)


@dataclass(frozen=True)
class Guard:
    """The rules of one server.

    Attributes:
        hosts: allowed names in Host, without port.
        addresses: whether any literal IP address is allowed too; DNS rebinding needs a name.
        port: port that Host must have; None accepts any, as behind a proxy.
        token: token of the server, see `limner.server.admission`; None for a server without one.
        cookie: name of the browser's cookie.
        body_bytes: largest request body.
        larger: largest request body by prefix of the path.
    """

    hosts: frozenset[str] = LOOPBACK_NAMES
    addresses: bool = False
    port: int | None = None
    token: str | None = None
    cookie: str = "limner"
    body_bytes: int = BODY_BYTES
    larger: Mapping[str, int] = field(default_factory=dict)


class Guarded:
    """ASGI middleware that applies the rules."""

    def __init__(self, app: ASGIApp, guard: Guard) -> None:
        """Wrap an application with rules."""
        self.app, self.guard = app, guard
        self._admission = None if guard.token is None else Admission(guard.token, guard.cookie)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Reject, redirect or pass on one request."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            return  # websockets are not used; the server closes the connection
        request, respond = Request(scope, receive), _with_headers(send)
        try:
            self._check(request)
            turned = self._admission.admit(request) if self._admission else None
            if turned is not None:
                await turned(scope, receive, respond)
                return
            if request.method not in SAFE:
                receive = await self._bounded(request)
        except ProblemError as problem:
            await answer(request, problem.details)(scope, receive, respond)
            return
        except ClientDisconnect:
            return
        try:
            await self.app(scope, receive, respond)
        except asyncio.CancelledError:  # the server stops; uvicorn itself would answer 500
            with contextlib.suppress(RuntimeError):  # the response has begun
                await answer(request, ENDING)(scope, receive, respond)
            raise

    def _check(self, request: Request) -> None:
        """Check Host and Origin."""
        headers = request.headers
        hosts = headers.getlist("host")
        host = hosts[0] if len(hosts) == 1 else ""
        if not self._ours(host):
            raise ProblemError(
                421,
                f"this server is not {host[:80]!r}; use the URL that it printed",
                kind="host",
            )
        if request.method in SAFE:
            return
        origin = headers.get("origin")
        if origin is not None:
            if origin not in (f"http://{host}", f"https://{host}"):
                raise ProblemError(
                    403, f"a page of {origin[:80]} may not change anything here", kind="origin"
                )
        elif headers.get("sec-fetch-site") not in (None, "same-origin", "none"):
            raise ProblemError(403, "a page of another site may not change anything here", kind="origin")

    def _ours(self, host: str) -> bool:
        name, port = _split(host)
        if self.guard.port not in (None, 80 if port is None else port):
            return False
        return name in self.guard.hosts or (self.guard.addresses and _address(name) is not None)

    async def _bounded(self, request: Request) -> Receive:
        """Read the whole body within the limit.

        Raises:
            ProblemError: the body is too large, or Content-Length is not a number.
            ClientDisconnect: the client disconnected; an incomplete form must not be used.
        """
        path = request.url.path
        allowed = (size for start, size in self.guard.larger.items() if path.startswith(start))
        limit = max((self.guard.body_bytes, *allowed))
        refusal = ProblemError(
            413, f"the request is larger than {limit:,} bytes; send less", kind="too-large"
        )
        stated = request.headers.get("content-length", "0")
        if not stated.isdecimal() or int(stated) > limit:
            raise refusal
        body, more = bytearray(), True
        while more:
            message = await request.receive()
            if message["type"] == "http.disconnect":
                raise ClientDisconnect
            body += message.get("body", b"")
            if len(body) > limit:
                raise refusal
            more = message.get("more_body", False)
        left: list[Message] = [{"type": "http.request", "body": bytes(body), "more_body": False}]

        async def replay() -> Message:
            return left.pop() if left else await request.receive()

        return replay


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a server that is bound to a host."""
    address = _address(host)
    return host == "localhost" or (address is not None and address.is_loopback)


def hosts_of(bound: str, others: Iterable[str] = ()) -> frozenset[str]:
    """Names allowed in Host: loopback, the bound host, and further ones."""
    return LOOPBACK_NAMES | {name.lower().strip("[]") for name in (bound, *others) if name}


def _split(host: str) -> tuple[str, int | None]:
    """Split a Host header into name, in lower case, and port."""
    name, port = host.lower(), ""
    if name.startswith("["):
        name, _, rest = name[1:].partition("]")
        port = rest.removeprefix(":")
    elif name.count(":") == 1:
        name, _, port = name.partition(":")
    return name.rstrip("."), int(port) if port.isascii() and port.isdecimal() else None


def _address(name: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(name)
    except ValueError:
        return None


def _with_headers(send: Send) -> Send:
    """Add the security headers to a response, without replacing its own."""

    async def respond(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers.setdefault(name, value)
            headers.setdefault("cache-control", "no-store")
        await send(message)

    return respond
