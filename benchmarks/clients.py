"""A server of limner under load: clients with a connection each, and what they met."""

import http.client
import json
import re
import select
import subprocess
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from harness import percentile_ms


@contextmanager
def served(*words: object) -> Iterator[tuple[subprocess.Popen[str], int, str]]:
    """`limner` with these words in a process of its own: the process, its port, its token or ""."""
    command = [sys.executable, "-m", "limner", *map(str, words), "--port", "0"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    try:
        address = re.search(r":(\d+)/(?:\?token=(\S+))?", server.stdout.readline())
        if address is None:
            raise SystemExit(f"failed: {' '.join(command)}")
        yield server, int(address[1]), address[2] or ""
    finally:
        server.terminate()
        server.wait(60)
        server.stdout.close()


class Seen:
    """What all clients met: seconds by act, and faults."""

    def __init__(self) -> None:
        self.times: dict[str, list[float]] = defaultdict(list)
        self.faults: Counter[str] = Counter()
        self.lock = threading.Lock()

    def note(self, act: str, seconds: float, fault: str) -> None:
        """Keep one request."""
        with self.lock:
            self.times[act].append(seconds)
            if fault:
                self.faults[f"{act}: {fault}"] += 1

    @property
    def requests(self) -> int:
        """All of them."""
        return sum(map(len, list(self.times.values())))

    def table(self) -> str:
        """Milliseconds by act, then the faults."""
        lines = [f"{'ms':12} {'requests':>9} {'median':>8} {'p95':>8} {'slowest':>8}"]
        for act, times in sorted(self.times.items()):
            shown = " ".join(f"{percentile_ms(times, share):8.0f}" for share in (0.5, 0.95, 1))
            lines.append(f"{act:12} {len(times):9,} {shown}")
        return "\n".join((*lines, f"errors: {dict(self.faults) or 'none'}"))


class Client:
    """A connection of its own, with the cookie that it was given."""

    def __init__(self, port: int, seen: Seen, headers: Mapping[str, str] = {}) -> None:
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
        self.seen, self.headers = seen, dict(headers)

    def ask(self, act: str, path: str, body: str | None = None, method: str = "") -> tuple[int, str, bytes]:
        """Status (0: the connection broke; a redirect is an answer), type and content of a timed request."""
        idle = self.connection.sock
        if idle is not None and select.select([idle], [], [], 0)[0]:
            self.connection.close()  # by the server, after seconds without a request: browsers open another
        begun, status, kind, data, fault = time.perf_counter(), 0, "", b"", ""
        try:
            self.connection.request(method or ("GET" if body is None else "POST"), path, body, self.headers)
            answer = self.connection.getresponse()
            data, status, kind = answer.read(), answer.status, answer.headers.get_content_type()
            if cookie := answer.headers.get("set-cookie"):
                self.headers["cookie"] = cookie.partition(";")[0]
            if status >= 400:
                fault = f"{status} {data[:200].decode(errors='replace')}"
        except (OSError, http.client.HTTPException) as error:
            fault = type(error).__name__
            self.connection.close()
        self.seen.note(act, time.perf_counter() - begun, fault)
        return status, kind, data

    def json(self, act: str, method: str, path: str, body: object = None) -> Any:
        """The answer read as JSON; None where it is none or the request failed."""
        status, kind, data = self.ask(act, path, None if body is None else json.dumps(body), method)
        return json.loads(data) if 0 < status < 400 and kind == "application/json" and data else None


def together(calls: list[Any]) -> None:
    """Each call in a thread of its own, to their end."""
    threads = [threading.Thread(target=call) for call in calls]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
