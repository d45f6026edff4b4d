"""A server on loopback that speaks the chat API, as well or as badly as a test wants."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

GOOD = json.dumps({"sentence": "A goat stands on a red roof.", "keywords": ["goat", "roof", "red sky"]})


class ChatServer:
    """What the tests hold of it.

    Attributes:
        endpoint: its address.
        requests: bodies received so far.
        headers: of these.
        answer: called with the handler and the body asked; writes the answer.
    """

    def __init__(self, port: int) -> None:
        self.endpoint = f"http://127.0.0.1:{port}/v1"
        self.requests: list[dict] = []
        self.headers: list[dict] = []
        self.paths: list[str] = []
        self.answer: Callable = says(GOOD)
        self.ended = threading.Event()


def reply(handler: BaseHTTPRequestHandler, body: bytes, status: int = 200, **headers: str) -> None:
    """A whole answer; headers by their names with underscores, which may lie."""
    handler.send_response(status)
    sent = {"content-type": "application/json", "content-length": str(len(body))}
    for name, value in (sent | {key.replace("_", "-"): value for key, value in headers.items()}).items():
        handler.send_header(name, value)
    handler.end_headers()
    handler.wfile.write(body)


def chat_body(content: object) -> bytes:
    """An answer of the interface around some content."""
    message = {"role": "assistant", "content": content}
    return json.dumps({"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}).encode()


def says(*contents: object) -> Callable:
    """Answers with these in turn, the last again and again."""
    left = list(contents)
    return lambda handler, asked: reply(handler, chat_body(left.pop(0) if len(left) > 1 else left[0]))


@contextmanager
def chat_server() -> Iterator[ChatServer]:
    """A server while the block runs."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
            made.requests.append(asked)
            made.headers.append(dict(self.headers.items()))
            made.paths.append(self.path)
            with suppress(OSError):  # a client that has had enough closes the connection
                made.answer(self, asked)

        def do_GET(self) -> None:
            made.paths.append(self.path)
            reply(self, chat_body(GOOD))

        def log_message(self, *words: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    made = ChatServer(server.server_port)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield made
    finally:
        made.ended.set()
        server.shutdown()
        server.server_close()
        thread.join()
