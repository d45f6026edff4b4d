"""One picture over the web: which addresses may be asked, a request, its redirects, and what became of it.

Every server is taken for one that may stall, lie about lengths, redirect for ever or send something else, and
lists of URLs were written by strangers.
"""

import asyncio
import hashlib
import ipaddress
import math
import os
import re
import socket
import ssl
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, fields
from email.utils import parsedate_to_datetime
from pathlib import Path
from types import TracebackType
from typing import Literal, Self
from urllib.parse import quote, urljoin, urlsplit

import httpcore
from pydantic import ValidationError

from limner.errors import ConfigError, DataError
from limner.files import locked
from limner.records import Record

_SAFE = "%/:=&?~+!$,;'@()*[]"
_HOST = re.compile(r"[a-zA-Z0-9._-]+|[0-9a-fA-F:.]+")
_EMBEDDED = ipaddress.IPv6Network("64:ff9b::/96")


class AddressError(DataError):
    """An address that must not be fetched."""


def plain_url(url: str) -> str:
    """The URL in ASCII, fit to be requested.

    Raises:
        AddressError: another scheme than http or https, a name or password inside, or no host.
    """
    try:
        parts = urlsplit(url.strip())
        host, port = parts.hostname or "", parts.port
        if parts.scheme.lower() not in ("http", "https"):
            raise AddressError(f"{url[:100]!r}: scheme {parts.scheme!r}, expected http or https")
        if parts.username is not None or parts.password is not None:
            raise AddressError(f"{host}: the URL holds a user name or password; expected none")
        name = host if ":" in host else host.encode("idna").decode("ascii")
        if not _HOST.fullmatch(name):
            raise AddressError(f"{url[:100]!r}: {name!r} is no host name")
        path = quote(parts.path or "/", safe=_SAFE.replace("?", ""))
        query = f"?{quote(parts.query, safe=_SAFE)}" if parts.query else ""
    except AddressError:
        raise
    except ValueError as error:  # of which UnicodeError is one
        raise AddressError(f"{url[:100]!r}: not a URL ({error})") from error
    place = f"[{name}]" if ":" in name else name
    place += f":{port}" if port is not None else ""
    return f"{parts.scheme.lower()}://{place}{path}{query}"


def is_public(address: str) -> bool:
    """Whether an IP address belongs to the open internet, also when it wraps an IPv4 address."""
    ip = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(ip, ipaddress.IPv6Address):
        inner = ip.ipv4_mapped or ip.sixtofour or (ip.teredo[1] if ip.teredo else None)
        if ip in _EMBEDDED:
            inner = ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF)
        if inner is not None:
            return is_public(str(inner))
    return ip.is_global and not ip.is_multicast


class GuardedBackend(httpcore.AsyncNetworkBackend):
    """Connects to public addresses only, and to the very address that was checked."""

    def __init__(self, allow_private: bool = False) -> None:
        """Take addresses of private networks, too, when `allow_private`."""
        self._allow_private = allow_private
        self._inner = httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """Resolve, check, connect.

        Raises:
            AddressError: the host has no public address.
            ConnectError: the host is unknown, or refuses.
        """
        try:
            async with asyncio.timeout(timeout):
                found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except TimeoutError as error:
            raise httpcore.ConnectTimeout(f"{host}: name not resolved in {timeout} s") from error
        except OSError as error:
            raise httpcore.ConnectError(f"{host}: {error.strerror or error}") from error
        addresses = list(dict.fromkeys(str(entry[4][0]) for entry in found))
        allowed = [one for one in addresses if self._allow_private or is_public(one)]
        if not allowed:
            raise AddressError(
                f"{host}: address {addresses[0]} is not public; expected a host of the open internet"
            )
        return await self._inner.connect_tcp(allowed[0], port, timeout, local_address, socket_options)

    async def connect_unix_socket(
        self,
        path: str,
        timeout: float | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """Never: a picture does not come from a socket of this machine."""
        raise AddressError(f"{path}: a local socket; expected a host of the open internet")

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        await asyncio.sleep(seconds)


FILE_NAME, LOCK_NAME = "manifest.jsonl", ".manifest.lock"


class Fetched(Record):
    """What became of one URL.

    Attributes:
        url: as the data set writes it.
        name: file name of the picture.
        state: done or dead.
        reason: why it died; "" when done.
        lasting: whether asking again is pointless (404, a web page, not a picture).
        status: last HTTP status; None where there was no answer.
        final_url: where redirects led; "" without.
        content_type: as the server said.
        size_bytes: of the file.
        sha256: of the file; "" when dead.
        attempts: requests made in the run that wrote this line; 0 for a file found in place.
    """

    url: str
    name: str
    state: Literal["done", "dead"]
    reason: str = ""
    lasting: bool = False
    status: int | None = None
    final_url: str = ""
    content_type: str = ""
    size_bytes: int = 0
    sha256: str = ""
    attempts: int = 0


class Manifest:
    """An open manifest: what is known so far, and a way to add to it. One process at a time."""

    def __init__(self, folder: Path) -> None:
        """Read and open the manifest of a folder; a line torn by a crash is cut off.

        Raises:
            DataError: a line is not one of a manifest, or another process has it open.
        """
        self.path = folder / FILE_NAME
        busy = DataError(f"{self.path}: another fetch is writing here; wait for it or use another folder")
        with ExitStack() as opened:
            opened.enter_context(locked(folder / LOCK_NAME, busy))
            self._file = opened.enter_context(self.path.open("a+b"))
            self.known = self._read()
            self._opened = opened.pop_all()

    def add(self, one: Fetched) -> None:
        """Append a line and wait until it is on disk."""
        self._file.write(one.model_dump_json(exclude_defaults=True).encode() + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())
        self.known[one.url] = one

    def __enter__(self) -> Self:
        """The manifest itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close it."""
        self._opened.close()

    def _read(self) -> dict[str, Fetched]:
        self._file.seek(0)
        data = self._file.read()
        whole = data.rfind(b"\n") + 1
        if whole < len(data):
            self._file.truncate(whole)
        known: dict[str, Fetched] = {}
        for number, line in enumerate(data[:whole].split(b"\n")[:-1], start=1):
            try:
                one = Fetched.model_validate_json(line)
            except ValidationError as error:
                raise DataError(
                    f"{self.path}:{number}: not a line of a manifest ({error.errors()[0]['msg']}); "
                    "fetch into another folder, or move this file away to check all pictures again"
                ) from error
            known[one.url] = one
        return known


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
