"""A web server on this machine that misbehaves in every way a fetch must survive."""

import io
import socket
import struct
import threading
import time
from collections import Counter
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from PIL import Image


def jpeg(number):
    """A picture of its own for every number."""
    file = io.BytesIO()
    Image.linear_gradient("L").rotate(number).resize((64, 64)).convert("RGB").save(
        file, "JPEG", comment=str(number)
    )
    return file.getvalue()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        server = self.server
        with server.lock:
            server.asked[self.path] += 1
            server.at_once += 1
            server.most_at_once = max(server.most_at_once, server.at_once)
            server.starts.append(time.monotonic())
            server.headers[self.path] = dict(self.headers)
        try:
            name, _, rest = self.path.lstrip("/").partition("/")
            # a client that gives up is the point of many of these
            with suppress(ConnectionError, TimeoutError):
                getattr(self, f"say_{name}")(rest)
        finally:
            with server.lock:
                server.at_once -= 1

    def answer(self, body=b"", status=200, kind="image/jpeg", **headers):
        self.send_response(status)
        if kind:
            self.send_header("Content-Type", kind)
        headers.setdefault("Content-Length", len(body))
        for key, value in headers.items():
            if value is not None:
                self.send_header(key.replace("_", "-"), str(value))
        self.end_headers()
        self.wfile.write(body)

    def close_after(self):
        self.close_connection = True

    def say_ok(self, rest):
        time.sleep(self.server.pause_s)
        self.answer(jpeg(int(rest.partition("?")[0])))

    def say_opaque(self, rest):
        self.answer(jpeg(1), kind="application/octet-stream")

    def say_untyped(self, rest):
        self.answer(jpeg(1), kind=None)

    def say_gone(self, rest):
        self.answer(b"<html>no</html>", 404, "text/html")

    def say_html(self, rest):
        self.answer(b"<html>please log in</html>", 200, "text/html; charset=utf-8")

    def say_disguised(self, rest):
        self.answer(b"<html>please log in</html>")

    def say_type(self, rest):
        self.answer(jpeg(1), kind="text/plain")

    def say_script(self, rest):
        self.answer(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\n", kind="image/x-eps")

    def say_gzip(self, rest):
        self.answer(jpeg(1), Content_Encoding="gzip")

    def say_redirect(self, rest):
        self.answer(status=302, Location=f"/ok/{rest}")

    def say_loop(self, rest):
        self.answer(status=301, Location=self.path)

    def say_away(self, rest):
        self.answer(
            status=302,
            Location={"file": "file:///etc/passwd", "bad": "http://[bad", "none": "gopher://a/"}[rest],
        )

    def say_nowhere(self, rest):
        self.answer(status=302)

    def say_drip(self, rest):
        self.answer(**{"Content-Length": 100_000})
        self.close_after()
        for byte in jpeg(1):
            self.wfile.write(bytes([byte]))
            time.sleep(0.05)

    def say_dripping_head(self, rest):
        self.close_after()
        for byte in b"HTTP/1.1 200 OK\r\nX-Slow: " + b"a" * 1000:
            self.wfile.write(bytes([byte]))
            time.sleep(0.05)

    def say_silent(self, rest):
        self.close_after()
        self.server.stop.wait(10)

    def pour(self, write):
        block = jpeg(1) + bytes(2**16)
        for _ in range(5 * 2**30 // len(block)):
            write(block)
            self.server.poured += len(block)

    def say_declared(self, rest):
        self.answer(**{"Content-Length": 5 * 2**30})
        self.close_after()
        self.pour(self.wfile.write)

    def say_streamed(self, rest):
        self.answer(**{"Content-Length": None, "Transfer-Encoding": "chunked"})
        self.close_after()
        self.pour(lambda block: self.wfile.write(b"%x\r\n%s\r\n" % (len(block), block)))

    def say_truncated(self, rest):
        self.answer(jpeg(1)[:500], **{"Content-Length": len(jpeg(1))})
        self.close_after()

    def say_cut(self, rest):
        self.answer(jpeg(1)[:700], **{"Content-Length": None, "Connection": "close"})
        self.close_after()

    def say_reset(self, rest):
        self.close_after()
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()

    def say_nonsense(self, rest):
        self.close_after()
        self.wfile.write(b"\x00\x01 this is not HTTP\r\n\r\n")

    def say_busy(self, rest):
        first, _, wait = rest.partition("/")
        if self.server.asked[self.path] <= int(first):
            self.answer(b"later", 429, "text/plain", Retry_After=wait or None)
        else:
            self.answer(jpeg(7))

    def say_broken(self, rest):
        self.answer(b"oops", 503, "text/plain")

    def log_message(self, *words):
        pass

    def finish(self):
        # the socket may be gone already
        with suppress(OSError, ValueError):
            super().finish()


class Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 64

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.lock = threading.Lock()
        self.stop = threading.Event()
        self.asked, self.headers, self.starts = Counter(), {}, []
        self.at_once = self.most_at_once = self.poured = 0
        self.pause_s = 0.0

    def url(self, path):
        return f"http://127.0.0.1:{self.server_port}/{path}"

    def handle_error(self, request, client_address):
        pass

    def shutdown_request(self, request):
        with suppress(OSError):
            super().shutdown_request(request)


@contextmanager
def hostile_server():
    server = Server()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield server
    finally:
        server.stop.set()
        server.shutdown()
        thread.join()
        server.server_close()
