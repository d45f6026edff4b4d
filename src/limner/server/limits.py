"""Limits on connections, so that no client can block a server with many slow or idle ones.

uvicorn limits the idle time between requests and the number of connections, but waits for ever for the rest
of a request, or for a client to read a response. Both are limited here.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

try:
    import resource
except ModuleNotFoundError:  # Windows, whose sockets are not counted as files
    resource = None  # type: ignore[assignment]

CONNECTIONS = 400
AT_ONCE = 16
"""Number of connections that are accepted before excess ones can be closed."""
QUEUE = 1024
"""Backlog of the listening socket meanwhile."""


@dataclass(frozen=True)
class Limits:
    """Limits on connections.

    Attributes:
        request_s: seconds until a request must be complete; for each `body_bytes` received in that time, as
            many again.
        body_bytes: least number of bytes of an upload per `request_s`.
        take_s: seconds in which a client must read part of a response.
        connections: maximum number of open connections; at most half the limit on open files.
    """

    request_s: float = 20.0
    body_bytes: int = 512 * 2**10
    take_s: float = 30.0
    connections: int = CONNECTIONS

    @property
    def most(self) -> int:
        """Maximum number of open connections that the system allows."""
        if resource is None:
            return self.connections
        files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        return self.connections if files == resource.RLIM_INFINITY else min(self.connections, files // 2)


class LimitedConfig(uvicorn.Config):
    """uvicorn's settings, with limits."""

    def __init__(self, app: Any, limits: Limits, **settings: Any) -> None:  # noqa: ANN401  (as uvicorn's)
        """Set the limits, besides uvicorn's settings."""
        self.limits = limits
        # one above the limit, so that uvicorn reports too many connections only if none could be closed
        # asyncio accepts as many as its backlog before any can be closed, and stops without file descriptors
        super().__init__(
            app, http=LimitedConnection, limit_concurrency=limits.most + 1, backlog=AT_ONCE, **settings
        )


class LimitedConnection(H11Protocol):
    """One connection, which is closed if the client is too slow."""

    config: LimitedConfig
    _deadline: asyncio.TimerHandle | None = None
    _taking: asyncio.TimerHandle | None = None
    _come = 0
    """Bytes received since the start of the wait."""
    since = 0.0
    """Start of the wait for the client."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start to wait for a request; close the longest waiting connection if there are too many."""
        super().connection_made(transport)
        self._wait()
        if len(self.connections) > self.config.limits.most:
            self._make_room()

    def data_received(self, data: bytes) -> None:
        """Stop the clock once a request is complete."""
        self._come += len(data)
        super().data_received(data)
        self._watch()

    def handle_events(self) -> None:
        """Limit the number of open connections, not of requests, which may belong to closed ones."""
        crowded = len(self.connections) > self.config.limits.most
        self.limit_concurrency = self.config.limit_concurrency if crowded else None
        super().handle_events()

    def on_response_complete(self) -> None:
        """Start the clock for the next request, part of which may have been received."""
        super().on_response_complete()
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop all clocks."""
        for timer in (self._deadline, self._taking):
            if timer is not None:
                timer.cancel()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """Start to check that the client reads the response."""
        super().pause_writing()
        self._watch_taking(self.transport.get_write_buffer_size())

    def resume_writing(self) -> None:
        """Restart the clock when the client has read nearly all of the response."""
        if self._taking is not None:
            self._taking.cancel()
            self._taking = None
        if self._deadline is not None:
            self._deadline.cancel()
            self._wait()
        super().resume_writing()

    @property
    def waiting(self) -> bool:
        """Whether the server waits for the client."""
        return self._deadline is not None

    def _watch(self) -> None:
        incomplete = self.conn.their_state in (h11.IDLE, h11.SEND_BODY)
        if incomplete and self._deadline is None:
            self._wait()
        elif not incomplete and self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _wait(self) -> None:
        self.since, self._come = self.loop.time(), 0
        self._deadline = self.loop.call_later(self.config.limits.request_s, self._late)

    def _late(self) -> None:
        """Close a connection without a request; a response that is still being sent has its own limit."""
        if self.conn.their_state is h11.SEND_BODY and self._come >= self.config.limits.body_bytes:
            self._wait()
            return
        left = self.transport.get_write_buffer_size()
        if not left:
            self.transport.abort()
        elif self._taking is None:
            self._watch_taking(left)

    def _watch_taking(self, left: int) -> None:
        if self._taking is not None:
            self._taking.cancel()
        self._taking = self.loop.call_later(self.config.limits.take_s, self._taken, left)

    def _taken(self, before: int) -> None:
        self._taking = None
        left = self.transport.get_write_buffer_size()
        if left >= before:
            self.transport.abort()
        else:
            self._watch_taking(left)

    def _make_room(self) -> None:
        """Close the connection that waits longest, of the address with the most waiting connections.

        A client with many connections thus loses one of its own, and a request in progress is never aborted.
        """
        idle = [one for one in self.connections if isinstance(one, LimitedConnection) and one.waiting]
        held = Counter(one.client and one.client[0] for one in idle)
        crowd = max(held.values())
        crowded = [one for one in idle if held[one.client and one.client[0]] == crowd]
        longest = min(crowded, key=lambda one: one.since)
        if longest is not self:
            longest.transport.abort()
            self.connections.discard(longest)


class RepeatFilter(logging.Filter):
    """Log filter that prints equal messages once a minute, with their number, so that the log stays small."""

    every_s = 60.0

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        """Start without messages."""
        super().__init__()
        self._clock = clock
        self._said: dict[str, tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether a record is logged; the message includes the number of suppressed ones."""
        words, now = str(record.msg)[:200], self._clock()
        last, left_out = self._said.get(words, (-self.every_s, 0))
        if now - last < self.every_s:
            self._said[words] = last, left_out + 1
            return False
        if len(self._said) >= CONNECTIONS:
            self._said.clear()
        self._said[words] = now, 0
        if left_out:
            record.msg = f"{record.getMessage()} ({left_out:,} more since the last such message)"
            record.args = ()
        return True
