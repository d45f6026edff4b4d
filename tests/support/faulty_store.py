"""Stands before an object store and lets some of the requests that write fail."""

import http.client
import http.server
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum
from urllib.parse import urlsplit

WRITES = {"PUT", "POST", "DELETE"}


class Fault(Enum):
    """What becomes of a request."""

    REFUSED = "answered with 503 and not passed on"
    CUT = "the connection closes and nothing is passed on"
    LOST = "passed on, and the connection closes before its answer"


class FaultyStore:
    """A proxy on loopback.

    Attributes:
        address: of the proxy, in place of the store's.
        fault: number of a writing request, from 0 → what becomes of it; None for no fault.
        writes: how many came so far.
    """

    def __init__(self, behind: str) -> None:
        self.address = ""
        self.fault: Callable[[int], Fault | None] = lambda number: None
        self.writes = 0
        self._lock = threading.Lock()
        self.behind = urlsplit(behind).netloc

    def next(self, method: str) -> Fault | None:
        """What becomes of a request that comes now."""
        if method not in WRITES:
            return None
        with self._lock:
            number, self.writes = self.writes, self.writes + 1
        return self.fault(number)


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # head and body of an answer are two writes
    store: FaultyStore

    def handle_one_request(self) -> None:
        try:
            super().handle_one_request()
        except ConnectionError:
            self.close_connection = True

    def _pass(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        fault = self.store.next(self.command)
        if fault is Fault.REFUSED:
            self.send_response(503)
            self.send_header("content-length", "0")
            self.end_headers()
            return
        self.close_connection = fault is not None
        if fault is Fault.CUT:
            return
        behind = http.client.HTTPConnection(self.store.behind, timeout=60)
        try:
            behind.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
            for name, value in self.headers.items():
                if name.lower() not in {"expect", "connection"}:
                    behind.putheader(name, value)
            behind.endheaders(body)
            answer = behind.getresponse()
            content = answer.read()
        finally:
            behind.close()
        if fault is Fault.LOST:
            return
        self.send_response_only(answer.status, answer.reason)
        for name, value in answer.getheaders():
            if name.lower() not in {"connection", "transfer-encoding", "content-length"}:
                self.send_header(name, value)
        length = answer.getheader("content-length") if self.command == "HEAD" else None
        self.send_header("content-length", length or str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _pass  # noqa: N815  (names of http.server)

    def log_message(self, *_: object) -> None:
        """Nothing: tests read what the command says."""


@contextmanager
def faulty(behind: str) -> Iterator[FaultyStore]:
    """A proxy before the store at an address, without faults at first."""
    store = FaultyStore(behind)
    handler = type("Handler", (_Handler,), {"store": store})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        store.address = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield store
        finally:
            server.shutdown()
            thread.join()
