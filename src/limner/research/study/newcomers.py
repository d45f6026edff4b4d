"""How fast new raters may come from one network address, and who came in a crowd.

One person who begins again and again would be many raters. Addresses are kept in memory alone, and only for
as long as they matter: what is stored of a crowd is who was in it.
"""

import ipaddress
import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

NEW_RATERS = 30
CROWD = 10
"""So many raters who begin one after another from one address are a crowd, and fewer where a page has few."""
APART_S = 3600.0
"""An hour without anybody new ends a crowd, and its address is forgotten."""
ADDRESSES = 10_000


def crowd_of(raters: int) -> int:
    """How many raters of one address are a crowd: as many as could decide a page by themselves.

    Args:
        raters: wanted per page.
    """
    return min(CROWD, max(2, raters // 2 + 1))


@dataclass
class _Address:
    """What is known of an address: how many may still begin now, since when, and who did."""

    free: float
    at: float
    crowd: str = field(default_factory=lambda: secrets.token_hex(8))
    raters: list[str] = field(default_factory=list)


class Newcomers:
    """Those who begin, by the address they come from."""

    def __init__(
        self,
        a_minute: int = NEW_RATERS,
        *,
        crowd: int = CROWD,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Know nobody yet.

        Args:
            a_minute: new raters of one address, as many of them at once; 0 for any number.
            crowd: see `crowd_of`.
            clock: seconds.
        """
        self._most, self._crowd, self._clock = a_minute, crowd, clock
        self._known: dict[str, _Address] = {}
        self._turn = threading.Lock()

    def wait_s(self, address: str) -> float:
        """Seconds until somebody new may begin; 0 lets them, and counts them.

        Args:
            address: of the network; what is not one, such as that of a test, stands for itself.
        """
        with self._turn:
            one = self._of(address)
            if self._most and one.free < 1:
                return (1 - one.free) * 60 / self._most
            one.free -= 1
            return 0.0

    def began(self, address: str, rater: str) -> tuple[str, list[str]] | None:
        """Note that somebody has begun.

        Args:
            address: as above.
            rater: public id.
        Returns:
            A random word for the crowd and who is now known to be in it, where they make one.
        """
        with self._turn:
            one = self._of(address)
            one.raters.append(rater)
            found = one.raters[:] if len(one.raters) == self._crowd else one.raters[-1:]
            return (one.crowd, found) if len(one.raters) >= self._crowd else None

    def _of(self, address: str) -> _Address:
        now, name = self._clock(), _network(address)
        one = self._known.get(name)
        if one is None or now - one.at > APART_S:
            if len(self._known) >= ADDRESSES:
                self._known = {key: own for key, own in self._known.items() if now - own.at <= APART_S}
            one = self._known[name] = _Address(float(self._most), now)
        one.free = min(float(self._most), one.free + (now - one.at) * self._most / 60)
        one.at = now
        return one


def _network(address: str) -> str:
    """What one customer has: an address of IPv4, the first half of one of IPv6."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(found, ipaddress.IPv6Address):
        plain = found.ipv4_mapped
        return str(plain) if plain else str(ipaddress.ip_network((int(found) >> 64 << 64, 64)))
    return str(found)
