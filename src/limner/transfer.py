"""Downloads over HTTP: allowed addresses, requests, redirects and results.

No server is trusted: it may stall, state wrong lengths, redirect endlessly or send other content. Lists of
URLs may come from strangers.
"""

import asyncio
import hashlib
import ipaddress
import math
import re
import socket
import ssl
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Literal
from urllib.parse import quote, unquote, urljoin, urlsplit
from urllib.request import getproxies, proxy_bypass

import httpcore

from limner.config import Record
from limner.errors import CheckpointError, ConfigError, DataError, MissingError
from limner.files import replacing, sha256_of

_SAFE = "%/:=&?~+!$,;'@()*[]"
_HOST = re.compile(r"[a-zA-Z0-9._-]+|[0-9a-fA-F:.]+")
_EMBEDDED = ipaddress.IPv6Network("64:ff9b::/96")


class AddressError(DataError):
    """A URL that must not be fetched."""


def plain_url(url: str) -> str:
    """Convert a URL to ASCII, ready to be requested.

    Raises:
        AddressError: the scheme is not http or https, or there is a user name or password, or no host.
    """
    try:
        parts = urlsplit(url.strip())
        host, port = parts.hostname or "", parts.port
        name = host if ":" in host else host.encode("idna").decode("ascii")
        path = quote(parts.path or "/", safe=_SAFE.replace("?", ""))
        query = f"?{quote(parts.query, safe=_SAFE)}" if parts.query else ""
    except ValueError as error:  # includes UnicodeError
        raise AddressError(f"{url[:100]!r}: not a URL ({error})") from error
    if parts.scheme not in ("http", "https"):
        raise AddressError(f"{url[:100]!r}: scheme {parts.scheme!r}, expected http or https")
    if parts.username is not None or parts.password is not None:
        raise AddressError(f"{host}: the URL contains a user name or password; expected none")
    if not _HOST.fullmatch(name):
        raise AddressError(f"{url[:100]!r}: {name!r} is not a host name")
    place = f"[{name}]" if ":" in name else name
    place += f":{port}" if port is not None else ""
    return f"{parts.scheme}://{place}{path}{query}"


def is_public(address: str) -> bool:
    """Whether an IP address is public; of an IPv6 address that embeds an IPv4 one, the latter counts."""
    ip = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(ip, ipaddress.IPv6Address):
        inner = ip.ipv4_mapped or ip.sixtofour or (ip.teredo[1] if ip.teredo else None)
        if ip in _EMBEDDED:
            inner = ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF)
        if inner is not None:
            return is_public(str(inner))
    return ip.is_global and not ip.is_multicast


class GuardedBackend(httpcore.AnyIOBackend):
    """Connects only to public addresses, and to the same address that was checked (no second name lookup)."""

    def __init__(self, allow_private: bool = False) -> None:
        """Allow addresses of private networks too if `allow_private`."""
        self._allow_private = allow_private

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """Resolve a host name, check its address and connect.

        Raises:
            AddressError: the host has no public address.
            ConnectError: the host is unknown, or refuses the connection.
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
                f"{host}: address {addresses[0]} is not public; expected a host on the public internet"
            )
        return await super().connect_tcp(allowed[0], port, timeout, local_address, socket_options)


class Fetched(Record):
    """The result for one URL.

    Attributes:
        url: URL as written in the data set.
        name: file name of the picture.
        state: done or dead.
        reason: reason of the failure; "" if done.
        lasting: whether another attempt is pointless (404, a web page, not a picture).
        status: last HTTP status; None if there was no answer.
        final_url: URL after redirects; "" if there were none.
        content_type: content type as stated by the server.
        size_bytes: size of the file.
        sha256: SHA-256 of the file; "" if dead.
        attempts: number of requests in the run that wrote this line; 0 for a file that already existed.
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


_USER_AGENT = "limner/0.1 (fetches weights, and the pictures of research data sets)"
_MAX_REDIRECTS = 5
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_PASSING = frozenset({408, 425, 429, 500, 502, 503, 504})
_OPAQUE_TYPES = frozenset(
    {"", "application/octet-stream", "binary/octet-stream", "application/x-octet-stream"}
)


@dataclass(frozen=True)
class FetchSettings:
    """Limits of a download.

    Attributes:
        parallel: concurrent requests.
        per_host: concurrent requests to one host.
        host_pause_s: least time between the starts of two requests to one host.
        connect_s, read_s, total_s: timeouts of a connection, of the next bytes, and of a whole request.
        max_bytes: largest file.
        max_total_bytes: largest folder.
        retries: further attempts after a temporary failure.
        allow_private: whether hosts in private networks are allowed.
        kinds: prefixes of the accepted content types; ("",) accepts any.
        host_pauses: longer pauses that hosts ask for, by host.
        permit: function called before every request and redirect, which returns a reason to refuse, or "".
    """

    parallel: int = 16
    per_host: int = 2
    host_pause_s: float = 0.2
    connect_s: float = 10.0
    read_s: float = 20.0
    total_s: float = 90.0
    max_bytes: int = 32 * 2**20
    max_total_bytes: int = 50 * 2**30
    retries: int = 2
    allow_private: bool = False
    kinds: tuple[str, ...] = ("image/",)
    host_pauses: Mapping[str, float] = field(default_factory=dict)
    permit: Callable[[str], str] | None = None

    def __post_init__(self) -> None:
        """Check the ranges."""
        zero = ("host_pause_s", "retries", "allow_private")
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
    """The folder has reached its size limit."""


class Transfer:
    """Requests to many hosts.

    Attributes:
        settings: the limits.
        stored: number of bytes in the folder; the caller adds to it.
        arrived: number of bytes received.
        pool: open connections; the caller enters it as a context.
    """

    def __init__(self, settings: FetchSettings, stored: int = 0, proxy: httpcore.Proxy | None = None) -> None:
        self.settings, self.stored, self.arrived = settings, stored, 0
        self.pool = httpcore.AsyncConnectionPool(
            ssl_context=ssl.create_default_context(),
            proxy=proxy,
            max_connections=settings.parallel,
            max_keepalive_connections=settings.parallel,
            keepalive_expiry=5.0,
            network_backend=GuardedBackend(settings.allow_private),
        )

    async def get(
        self, url: str, write: Callable[[bytes], object], report: Callable[[int, int], None] | None = None
    ) -> Fetched:
        """Send one request and follow its redirects.

        Args:
            url: the URL.
            write: function that receives the body in chunks; a request that fails may have sent some.
            report: function called with the bytes so far and in total (0 if unknown).
        Returns:
            The result, without a file name.
        Raises:
            FailedError: the download failed.
            FullError: the folder would exceed its limit.
        """
        try:
            async with asyncio.timeout(self.settings.total_s):
                return await self._get(url, write, report)
        except TimeoutError as error:
            reason = f"too slow: not complete after {self.settings.total_s:g} s"
            raise FailedError(reason, lasting=False) from error
        except AddressError as error:
            raise FailedError(f"address refused: {error}", lasting=True) from error
        except ValueError as error:
            raise FailedError(f"redirected to an invalid URL ({error})", lasting=True) from error
        except httpcore.TimeoutException as error:
            raise FailedError(f"too slow: {type(error).__name__}", lasting=False) from error
        except (httpcore.NetworkError, httpcore.ProtocolError, httpcore.ProxyError, ssl.SSLError) as error:
            why = " ".join(str(error).split()) or type(error).__name__
            raise FailedError(f"connection failed: {why}", lasting=False) from error

    async def _get(
        self, url: str, write: Callable[[bytes], object], report: Callable[[int, int], None] | None
    ) -> Fetched:
        settings = self.settings
        kinds = [f"{kind}*" if kind.endswith("/") else kind for kind in settings.kinds if kind]
        headers = [
            ("User-Agent", _USER_AGENT),
            ("Accept", ",".join([*kinds, "*/*;q=0.1"])),
            ("Accept-Encoding", "identity"),
        ]
        limits = {"connect": settings.connect_s, "read": settings.read_s, "write": settings.read_s}
        # a request never waits for the pool, which has a connection for each
        extensions = {"timeout": {**limits, "pool": settings.total_s}}
        place = url
        for _ in range(_MAX_REDIRECTS + 1):
            place = plain_url(place)
            if settings.permit and (refusal := settings.permit(place)):
                raise FailedError(refusal, lasting=False, wait_s=math.inf)
            async with self.pool.stream("GET", place, headers=headers, extensions=extensions) as response:
                said = {
                    key.decode("latin-1").lower(): value.decode("latin-1") for key, value in response.headers
                }
                if response.status in _REDIRECTS and "location" in said:
                    place = urljoin(place, said["location"])
                    continue
                kind, due = _check_head(response.status, said, settings)
                size, digest = 0, hashlib.sha256()
                async for chunk in response.aiter_stream():
                    size += len(chunk)
                    self.arrived += len(chunk)
                    if size > settings.max_bytes:
                        reason = f"too large: more than {settings.max_bytes:,} bytes"
                        raise FailedError(reason, lasting=True, status=response.status)
                    if self.stored + size > settings.max_total_bytes:
                        raise FullError
                    digest.update(chunk)
                    write(chunk)
                    if report:
                        report(size, due)
                return Fetched(
                    url=url,
                    name="",
                    state="done",
                    status=response.status,
                    final_url="" if place == plain_url(url) else place,
                    content_type=kind,
                    size_bytes=size,
                    sha256=digest.hexdigest(),
                )
        raise FailedError(f"too many redirects: more than {_MAX_REDIRECTS}", lasting=True)


def _check_head(status: int, said: Mapping[str, str], settings: FetchSettings) -> tuple[str, int]:
    """Check a response before its body is read; its content type and length (0 if unknown)."""
    if status != 200:
        passing = status in _PASSING
        wait_s = _retry_after(said.get("retry-after", "")) if passing else None
        raise FailedError(f"HTTP {status}", lasting=not passing, status=status, wait_s=wait_s)
    kind = said.get("content-type", "").partition(";")[0].strip().lower()
    encoding = said.get("content-encoding", "").strip()
    length = said.get("content-length", "")
    due = int(length) if length.isdecimal() else 0
    reason = ""
    if not kind.startswith(settings.kinds) and kind not in _OPAQUE_TYPES:
        reason = f"content type {kind}"
    elif encoding.lower() not in ("", "identity"):
        reason = f"content encoding {encoding}"
    elif due > settings.max_bytes:
        reason = f"too large: {due:,} bytes"
    if reason:
        raise FailedError(reason, lasting=True, status=status)
    return kind, due


def _retry_after(value: str) -> float | None:
    """Seconds of a Retry-After header, a number or a date; None if it is missing or malformed."""
    if value.strip().isdecimal():
        return float(value)
    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - time.time())
    except (TypeError, ValueError):
        return None


ONE_FILE = FetchSettings(
    read_s=30.0,
    total_s=3600.0,
    max_bytes=4 << 30,
    allow_private=True,
    kinds=("",),
)
"""Limits for a file that the user requests by name."""


def fetch_file(
    url: str,
    folder: Path,
    settings: FetchSettings = ONE_FILE,
    report: Callable[[int, int], None] | None = None,
) -> Path:
    """Download a file into a folder under its published name, through the proxy of the environment.

    If the file exists with the right hash, nothing is downloaded.

    Args:
        url: URL, http or https; its last part is the file name with the beginning of its SHA-256, as in
            ``resnet50-0676ba61.pth``.
        folder: folder, created if missing.
        settings: limits; a failed download is not retried.
        report: function called with the bytes so far and in total (0 if unknown).
    Returns:
        Path of the complete file.
    Raises:
        DataError: the URL is not http or https, or contains no hash.
        MissingError: the server refuses, stalls, is too slow, or sends too much.
        CheckpointError: the hash of the download, or of an existing file, differs.
    """
    plain_url(url)
    name = urlsplit(url).path.rpartition("/")[2]
    due = re.search(r"-([0-9a-f]{8,64})\.[a-z]+$", name)
    if due is None:
        raise DataError(f"{url}: its SHA-256 is unknown; expected a file name that contains its first digits")
    target = folder / name
    if target.exists():
        with _writing(url, target):
            found = sha256_of(target)
        if found.startswith(due[1]):
            return target
        raise CheckpointError(f"{target}: SHA-256 does not begin with {due[1]}; remove it and run again")
    _fetch(url, target, settings, report, due[1])
    return target


def fetch_unknown(
    url: str,
    target: Path,
    settings: FetchSettings = ONE_FILE,
    report: Callable[[int, int], None] | None = None,
) -> str:
    """Download a file whose hash is not known, through the proxy of the environment.

    Args:
        url: URL, http or https.
        target: file to write; its folder is created if missing.
        settings: see `fetch_file`.
        report: see `fetch_file`.
    Returns:
        SHA-256 of the file.
    Raises:
        DataError: the URL is not http or https.
        MissingError: as `fetch_file`.
    """
    plain_url(url)
    return _fetch(url, target, settings, report)


def _fetch(
    url: str,
    target: Path,
    settings: FetchSettings,
    report: Callable[[int, int], None] | None,
    due: str = "",
) -> str:
    """Download a file atomically and return its SHA-256, which must begin with `due`."""
    with _writing(url, target):
        target.parent.mkdir(parents=True, exist_ok=True)
        with replacing(target) as draft, draft.open("wb") as out:
            found = asyncio.run(_download(url, settings, out.write, report))
            if not found.startswith(due):
                raise CheckpointError(
                    f"{url}: SHA-256 is {found[:16]}…, expected {due}; nothing was saved; run again"
                )
    return found


@contextmanager
def _writing(url: str, target: Path) -> Iterator[None]:
    """Convert the error of a failed download or write to a one-line MissingError."""
    try:
        yield
    except FailedError as error:
        raise MissingError(f"{url}: {error.reason}; nothing was saved; try again later") from error
    except OSError as error:
        raise MissingError(
            f"{target}: cannot be written ({error.strerror or error}); choose another folder"
        ) from error


async def _download(
    url: str,
    settings: FetchSettings,
    write: Callable[[bytes], object],
    report: Callable[[int, int], None] | None,
) -> str:
    """Download to `write` and return the SHA-256."""
    transfer = Transfer(settings, proxy=_proxy_for(url))
    async with transfer.pool:
        return (await transfer.get(url, write, report)).sha256


def _proxy_for(url: str) -> httpcore.Proxy | None:
    """Proxy for a URL from ``$HTTP_PROXY`` and the like, or None."""
    parts = urlsplit(url)
    named = getproxies().get(parts.scheme, "")
    if not named or proxy_bypass(parts.hostname or ""):
        return None
    proxy = urlsplit(named if "://" in named else f"http://{named}")
    auth = (unquote(proxy.username), unquote(proxy.password or "")) if proxy.username else None
    return httpcore.Proxy(f"{proxy.scheme}://{proxy.netloc.rpartition('@')[2]}", auth)
