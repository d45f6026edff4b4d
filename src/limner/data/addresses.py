"""Which web addresses may be fetched: http and https, at public hosts only.

A data set's list of URLs was written by strangers, and a host name may point inside the user's own
network. The check is made on the address that is connected to, so a name cannot change its mind in between.
"""

import asyncio
import ipaddress
import re
import socket
from collections.abc import Iterable
from urllib.parse import quote, urlsplit

import httpcore

from limner.errors import DataError

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
