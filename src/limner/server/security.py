"""Guards around a local server: who may ask, from which page, and how much may be sent.

A page on the web can make a browser ask 127.0.0.1, under any name it likes (DNS rebinding) and from its own
pages. So the Host must be ours, writes must come from our own pages, and a token may be due.
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
    detail="the server was stopped before it had answered; ask again once it has been started",
)


@dataclass(frozen=True)
class Guard:
    """The rules of one server.

    Attributes:
        hosts: names under which it may be asked, without port.
        addresses: whether any literal IP address will do as well; no foreign name can be bound to one.
        port: that a Host must name; None accepts any, as behind a proxy.
        token: that must be known, see `limner.server.admission`; None for a server that anyone may ask.
        cookie: name of the cookie by which a browser is known again.
        body_bytes: largest request body.
        larger: beginning of a path → largest body of requests to what lies below it.
    """

    hosts: frozenset[str] = LOOPBACK_NAMES
    addresses: bool = False
    port: int | None = None
    token: str | None = None
    cookie: str = "limner"
    body_bytes: int = BODY_BYTES
    larger: Mapping[str, int] = field(default_factory=dict)


class Guarded:
    """An ASGI application behind a guard."""

    def __init__(self, app: ASGIApp, guard: Guard) -> None:
        """Take what to protect, and how."""
        self.app, self.guard = app, guard
        self._admission = None if guard.token is None else Admission(guard.token, guard.cookie)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse, redirect or pass on one request."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            return  # no websockets here: the server closes the connection
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
        except asyncio.CancelledError:  # the server ends; uvicorn itself would say 500
            with contextlib.suppress(RuntimeError):  # it has begun to answer
                await answer(request, ENDING)(scope, receive, respond)
            raise

    def _check(self, request: Request) -> None:
        """Host and origin."""
        headers = request.headers
        hosts = headers.getlist("host")
        host = hosts[0] if len(hosts) == 1 else ""
        if not self._ours(host):
            raise ProblemError(
                421,
                f"this server is not {host[:80]!r}; open it under the address that it printed",
                kind="host",
            )
        if request.method in SAFE:
            return
        origin = headers.get("origin")
        if origin is not None:
            if origin not in (f"http://{host}", f"https://{host}"):
                raise ProblemError(403, f"a page of {origin[:80]} may not write here", kind="origin")
        elif headers.get("sec-fetch-site") not in (None, "same-origin", "none"):
            raise ProblemError(403, "a page of another site may not write here", kind="origin")

    def _ours(self, host: str) -> bool:
        name, port = _split(host)
        if self.guard.port not in (None, 80 if port is None else port):
            return False
        return name in self.guard.hosts or (self.guard.addresses and _address(name) is not None)

    async def _bounded(self, request: Request) -> Receive:
        """The body, read whole within the limit.

        Raises:
            ProblemError: it is larger, or its stated length is no number.
            ClientDisconnect: it broke off; half a form must not be taken for a whole one.
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
    """Names under which a server may be asked: loopback, what it is bound to, and others."""
    return LOOPBACK_NAMES | {name.lower().strip("[]") for name in (bound, *others) if name}


def _split(host: str) -> tuple[str, int | None]:
    """A Host header as name in lower case and port."""
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
    """Add the security headers to a response; its own go first."""

    async def respond(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers.setdefault(name, value)
            headers.setdefault("cache-control", "no-store")
        await send(message)

    return respond
