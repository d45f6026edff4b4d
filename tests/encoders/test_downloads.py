"""Fetching against servers that misbehave: whatever happens, a whole file or none."""

import hashlib
import threading
import time
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from limner.errors import CheckpointError, DataError, MissingError
from limner.transfer import ONE_FILE, fetch_file

BODY = b"weights " * 1000
HASH = hashlib.sha256(BODY).hexdigest()


class Server(BaseHTTPRequestHandler):
    """One path per kind of trouble."""

    def log_message(self, *_):
        pass

    def answer(self, length, *, status=200, headers=()):
        self.send_response(status)
        if length is not None:
            self.send_header("Content-Length", str(length))
        for key, value in headers:
            self.send_header(key, value)
        self.end_headers()

    def do_GET(self):  # noqa: PLR0912
        kind = self.path.split("/")[-2]
        self.server.seen.append(kind)
        try:
            if kind == "good":
                self.answer(len(BODY))
                self.wfile.write(BODY)
            elif kind == "unsized":
                self.answer(None)
                self.wfile.write(BODY)
            elif kind == "endless":
                self.answer(None)
                while not self.server.over.is_set():
                    self.wfile.write(BODY)
            elif kind == "boast":
                self.answer(10**12)
            elif kind == "short":
                self.answer(len(BODY))
                self.wfile.write(BODY[:100])
            elif kind == "drip":
                self.answer(len(BODY))
                while not self.server.over.wait(0.02):
                    self.wfile.write(b"w")
                    self.wfile.flush()
            elif kind == "silent":
                self.answer(len(BODY))
                self.server.over.wait(20)
            elif kind == "redirect":
                self.answer(0, status=302, headers=[("Location", self.path.replace("redirect", "good"))])
            elif kind == "loop":
                self.answer(0, status=302, headers=[("Location", self.path)])
            elif kind == "steal":
                self.answer(0, status=302, headers=[("Location", "file:///etc/hostname")])
            else:
                self.answer(0, status=404)
        except (BrokenPipeError, ConnectionResetError):
            pass


@pytest.fixture
def server():
    made = ThreadingHTTPServer(("127.0.0.1", 0), Server)
    made.daemon_threads = True
    made.over, made.seen = threading.Event(), []
    made.url = f"http://127.0.0.1:{made.server_port}"
    thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield made
    made.over.set()
    made.shutdown()
    thread.join()
    made.server_close()


def name(prefix=HASH[:8]):
    return f"net-{prefix}.pth"


@pytest.mark.parametrize("kind", ["good", "unsized", "redirect"])
def test_a_whole_file_arrives_under_its_name(server, tmp_path, kind):
    steps = []
    path = fetch_file(
        f"{server.url}/{kind}/{name()}", tmp_path / "new", report=lambda *step: steps.append(step)
    )
    assert path == tmp_path / "new" / name()
    assert path.read_bytes() == BODY
    assert [entry.name for entry in path.parent.iterdir()] == [name()]
    assert steps[-1] == (len(BODY), 0 if kind == "unsized" else len(BODY))


@pytest.mark.parametrize(
    ("kind", "error", "message"),
    [
        ("missing", MissingError, "HTTP 404"),
        ("short", MissingError, "connection failed"),
        ("boast", MissingError, "too large: 1,000,000,000,000 bytes"),
        ("endless", MissingError, "more than 100,000 bytes"),
        ("drip", MissingError, "too slow"),
        ("silent", MissingError, "too slow: ReadTimeout"),
        ("loop", MissingError, "too many redirects: more than 5"),
        ("steal", MissingError, "address refused: .*scheme 'file'"),
    ],
)
def test_trouble_is_one_line_and_leaves_nothing(server, tmp_path, kind, error, message):
    bounds = replace(ONE_FILE, max_bytes=100_000, total_s=0.5, read_s=0.2)
    start = time.monotonic()
    with pytest.raises(error, match=message) as found:
        fetch_file(f"{server.url}/{kind}/{name()}", tmp_path, bounds)
    assert "\n" not in str(found.value)
    assert list(tmp_path.iterdir()) == []
    assert time.monotonic() - start < 15  # a hang, not a speed


def test_a_wrong_hash_keeps_nothing(server, tmp_path):
    with pytest.raises(CheckpointError, match="SHA-256 is"):
        fetch_file(f"{server.url}/good/{name('deadbeef')}", tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_file_already_there_is_checked_not_fetched(server, tmp_path):
    (tmp_path / name()).write_bytes(BODY)
    assert fetch_file(f"{server.url}/good/{name()}", tmp_path).read_bytes() == BODY
    (tmp_path / name()).write_bytes(b"mine")
    with pytest.raises(CheckpointError, match="remove it"):
        fetch_file(f"{server.url}/good/{name()}", tmp_path)
    assert (tmp_path / name()).read_bytes() == b"mine"
    assert server.seen == []


def test_nobody_there(tmp_path):
    with pytest.raises(MissingError, match="connection failed"):
        fetch_file(f"http://127.0.0.1:9/{name()}", tmp_path)


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("file:///etc/passwd-12345678.pth", "http or https"),
        ("ftp://host/net-12345678.pth", "http or https"),
        ("https://host/", "its SHA-256 is unknown"),
        ("https://host/net.pth", "its SHA-256 is unknown"),
    ],
)
def test_addresses_that_cannot_be_checked_are_refused(tmp_path, url, message):
    with pytest.raises(DataError, match=message):
        fetch_file(url, tmp_path)


def test_a_folder_that_cannot_be_written_is_told(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(MissingError, match="cannot be written"):
        fetch_file(f"http://127.0.0.1:9/{name()}", tmp_path / "file")


def test_the_proxy_of_the_environment_is_asked(server, tmp_path, monkeypatch):
    monkeypatch.setenv("http_proxy", server.url)
    monkeypatch.delenv("no_proxy", raising=False)
    path = fetch_file(f"http://far.invalid/good/{name()}", tmp_path)
    assert path.read_bytes() == BODY
    assert server.seen == ["good"]
