"""One picture over the web: a request, its redirects, and the bounds on both.

Every server is taken for one that may stall, lie about lengths, redirect for ever or send something else.
It neither retries nor writes files.
"""

import asyncio
import hashlib
import math
import ssl
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from email.utils import parsedate_to_datetime
from types import TracebackType
from typing import Self
from urllib.parse import urljoin

import httpcore

from limner.data.addresses import AddressError, GuardedBackend, plain_url
from limner.data.manifest import Fetched
from limner.errors import ConfigError

_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_PASSING = frozenset({408, 425, 429, 500, 502, 503, 504})
_OPAQUE_TYPES = frozenset(
    {"", "application/octet-stream", "binary/octet-stream", "application/x-octet-stream"}
)


@dataclass(frozen=True)
class FetchSettings:
    """Bounds of a fetch.

    Attributes:
        parallel: requests at once.
        per_host: requests at once to one host.
        host_pause_s: least time between two starts at one host.
        connect_s, read_s, total_s: longest wait for a connection, for the next bytes, for one whole request.
        max_bytes: of one picture.
        max_total_bytes: of the folder.
        max_redirects: per picture.
        retries: further attempts after a failure that may pass.
        max_wait_s: longest wait a server may ask for.
        allow_private: whether hosts inside private networks are asked, too.
        user_agent: how limner names itself.
        kinds: beginnings of the content types that are taken; ("",) takes any.
        host_pauses: host → pause of its own where it asks for a longer one.
        permit: asked before every request and redirect; a reason to refuse, or "". None permits all.
    """

    parallel: int = 16
    per_host: int = 2
    host_pause_s: float = 0.2
    connect_s: float = 10.0
    read_s: float = 20.0
    total_s: float = 90.0
    max_bytes: int = 32 * 2**20
    max_total_bytes: int = 50 * 2**30
    max_redirects: int = 5
    retries: int = 2
    max_wait_s: float = 60.0
    allow_private: bool = False
    user_agent: str = "limner/0.1 (fetches the pictures of a research data set)"
    kinds: tuple[str, ...] = ("image/",)
    host_pauses: Mapping[str, float] = field(default_factory=dict)
    permit: Callable[[str], str] | None = None

    def __post_init__(self) -> None:
        """Check the ranges."""
        zero = ("host_pause_s", "max_redirects", "retries", "max_wait_s", "allow_private")
        for one in fields(self):
            value = getattr(self, one.name)
            if isinstance(value, int | float) and not (value >= 0 if one.name in zero else value > 0):
                least = "0 or more" if one.name in zero else "more than 0"
                raise ConfigError(f"fetch: {one.name} {value}, expected {least}")


class FailedError(Exception):
    """One attempt failed."""

    def __init__(
        self, reason: str, *, lasting: bool, status: int | None = None, wait_s: float | None = None
    ) -> None:
        super().__init__(reason)
        self.reason, self.lasting, self.status, self.wait_s = reason, lasting, status, wait_s


class FullError(Exception):
    """The folder holds as much as it may."""


class Transfer:
    """Open connections to many hosts.

    Attributes:
        settings: the bounds.
        stored: bytes the folder holds; its owner adds to it.
        arrived: bytes received.
    """

    def __init__(self, settings: FetchSettings, stored: int = 0) -> None:
        self.settings, self.stored, self.arrived = settings, stored, 0
        self._pool = httpcore.AsyncConnectionPool(
            ssl_context=ssl.create_default_context(),
            max_connections=settings.parallel,
            max_keepalive_connections=settings.parallel,
            keepalive_expiry=5.0,
            network_backend=GuardedBackend(settings.allow_private),
        )

    async def __aenter__(self) -> Self:
        """Itself."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close all connections."""
        await self._pool.aclose()

    async def get(self, url: str) -> tuple[bytes, Fetched]:
        """One request with its redirects.

        Returns:
            the body, and all the manifest says but the file name.
        Raises:
            FailedError: no picture came.
            FullError: the folder would grow beyond its bound.
        """
        try:
            async with asyncio.timeout(self.settings.total_s):
                return await self._get(url)
        except TimeoutError as error:
            reason = f"too slow: not whole after {self.settings.total_s:g} s"
            raise FailedError(reason, lasting=False) from error

    async def _get(self, url: str) -> tuple[bytes, Fetched]:
        settings = self.settings
        headers = [
            ("User-Agent", settings.user_agent),
            (
                "Accept",
                ",".join(
                    [f"{kind}*" if kind.endswith("/") else kind for kind in settings.kinds if kind]
                    + ["*/*;q=0.1"]
                ),
            ),
            ("Accept-Encoding", "identity"),
        ]
        limits = {"connect": settings.connect_s, "read": settings.read_s, "write": settings.read_s}
        # a place in the pool is certain, since no more requests run than it has
        extensions = {"timeout": {**limits, "pool": settings.total_s}}
        place = url
        try:
            for _ in range(settings.max_redirects + 1):
                place = plain_url(place)
                if settings.permit and (refusal := settings.permit(place)):
                    raise FailedError(refusal, lasting=False, wait_s=math.inf)
                async with self._pool.stream(
                    "GET", place, headers=headers, extensions=extensions
                ) as response:
                    said = {
                        key.decode("latin-1").lower(): value.decode("latin-1")
                        for key, value in response.headers
                    }
                    if response.status in _REDIRECTS and "location" in said:
                        place = urljoin(place, said["location"])
                        continue
                    kind = _check_head(response.status, said, settings)
                    data = await self._body(response)
                    one = Fetched(
                        url=url,
                        name="",
                        state="done",
                        status=response.status,
                        final_url="" if place == plain_url(url) else place,
                        content_type=kind,
                        size_bytes=len(data),
                        sha256=hashlib.sha256(data).hexdigest(),
                    )
                    return data, one
        except AddressError as error:
            raise FailedError(f"address refused: {error}", lasting=True) from error
        except ValueError as error:
            raise FailedError(f"redirects: to no URL ({error})", lasting=True) from error
        except httpcore.TimeoutException as error:
            raise FailedError(f"too slow: {type(error).__name__}", lasting=False) from error
        except (
            httpcore.NetworkError,
            httpcore.ProtocolError,
            httpcore.UnsupportedProtocol,
            ssl.SSLError,
        ) as error:
            said_why = " ".join(str(error).split()) or type(error).__name__
            raise FailedError(f"connection failed: {said_why}", lasting=False) from error
        raise FailedError(f"redirects: more than {settings.max_redirects}", lasting=True)

    async def _body(self, response: httpcore.Response) -> bytes:
        """The body, as long as it stays inside the bounds."""
        data = bytearray()
        async for chunk in response.aiter_stream():
            data += chunk
            self.arrived += len(chunk)
            if len(data) > self.settings.max_bytes:
                raise FailedError(
                    f"too large: more than {self.settings.max_bytes:,} bytes",
                    lasting=True,
                    status=response.status,
                )
            if self.stored + len(data) > self.settings.max_total_bytes:
                raise FullError
        return bytes(data)


def _check_head(status: int, said: Mapping[str, str], settings: FetchSettings) -> str:
    """The content type of an answer that may be a picture; anything else fails before its body is read."""
    if status != 200:
        passing = status in _PASSING
        wait_s = _retry_after(said.get("retry-after", "")) if passing else None
        raise FailedError(f"HTTP {status}", lasting=not passing, status=status, wait_s=wait_s)
    kind = said.get("content-type", "").partition(";")[0].strip().lower()
    if not kind.startswith(settings.kinds) and kind not in _OPAQUE_TYPES:
        raise FailedError(f"content type {kind}", lasting=True, status=status)
    if said.get("content-encoding", "identity").strip().lower() not in ("", "identity"):
        raise FailedError(f"content encoding {said['content-encoding']}", lasting=True, status=status)
    length = said.get("content-length", "")
    if length.isdecimal() and int(length) > settings.max_bytes:
        raise FailedError(f"too large: {int(length):,} bytes", lasting=True, status=status)
    return kind


def _retry_after(value: str) -> float | None:
    """Seconds a server asks to wait, from a number or a date; None when it says nothing readable."""
    if value.strip().isdecimal():
        return float(value)
    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - time.time())
    except (TypeError, ValueError):
        return None
