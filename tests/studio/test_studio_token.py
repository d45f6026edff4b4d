"""Other users of a machine reach the studio's port, and nothing behind it."""

import os
import socket
import subprocess
import sys
from contextlib import ExitStack, contextmanager, suppress
from http.cookiejar import CookieJar
from urllib.error import HTTPError
from urllib.request import HTTPCookieProcessor, Request, build_opener

import pytest
from starlette.testclient import TestClient

from limner.server.security import Guard, Guarded
from limner.studio.app import create_app

TOKEN = "a-token-of-this-test"  # noqa: S105


@pytest.mark.slow
def test_without_the_token_no_address_answers(studio, drawn):
    app = Guarded(create_app(studio, token=True), Guard(port=8420, token=TOKEN))
    with TestClient(app, base_url="http://127.0.0.1:8420", follow_redirects=False) as client:
        known = {"authorization": f"Bearer {TOKEN}"}
        document = client.get("/openapi.json", headers=known).json()
        asked = [(path, method) for path, one in document["paths"].items() for method in one]
        asked += [(path, "get") for path in ("/", "/library", "/projects/x", "/docs", "/openapi.json")]
        asked += [("/static/base.css", "get"), ("/nowhere", "get"), ("/api/library", "options")]
        assert len(asked) > 40
        for path, method in asked:
            answer = client.request(method, path, json={"path": str(drawn)} if method == "post" else None)
            assert answer.status_code == 401, (method, path)
            assert answer.headers["www-authenticate"] == "Bearer"
        assert client.get("/api/library/pictures").json()["type"] == "urn:limner:token"
        assert client.get("/api/library/pictures", headers=known).json()["items"]


@contextmanager
def running(library, folder, *options, first=":"):
    """``limner studio`` in a process of its own: the process, and a file of all that it prints.

    `first` is a command of the shell in that process.
    """
    log = folder / "told"
    command = ["sh", "-c", f'{first} && exec "$0" "$@"', sys.executable, "-m", "limner", "studio"]
    command += ["--library", str(library), "--no-browser"]
    with log.open("w") as told:
        process = subprocess.Popen(
            [*command, "--projects", str(folder / "projects"), *options],
            stdout=subprocess.PIPE,
            stderr=told,
            text=True,
            env={**os.environ, "LIMNER_TOKEN": TOKEN, "OMP_NUM_THREADS": "1"},
        )
    try:
        line = process.stdout.readline()
        assert line.startswith("limner studio: "), log.read_text()
        yield process, line.split()[-1], log
    finally:
        process.kill()
        process.wait(60)
        process.stdout.close()


@pytest.mark.slow
def test_the_token_is_printed_once_and_never_again(drawn_library, tmp_path):
    with running(drawn_library, tmp_path, "--port", "0") as (process, address, log):
        origin, _, query = address.partition("/?")
        assert query == f"token={TOKEN}"
        jar = CookieJar()
        browser = build_opener(HTTPCookieProcessor(jar))
        with browser.open(address) as page:
            assert page.url == f"{origin}/"
            assert TOKEN.encode() not in page.read()
        assert [one.name for one in jar] == [f"limner-studio-{origin.rpartition(':')[2]}"]
        with browser.open(f"{origin}/library?token={TOKEN}") as page:
            assert page.url == f"{origin}/library"
        for path, opener in (("/?token=x", build_opener()), (f"/api/no?token={TOKEN}", browser)):
            with pytest.raises(HTTPError) as refused:
                opener.open(Request(origin + path, headers={"accept": "text/html"}))  # noqa: S310
            with refused.value as answer:
                assert TOKEN not in answer.read().decode() + str(answer.headers) + answer.url
        host, port = origin.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port))) as raw:
            raw.sendall(f"GET /?token={TOKEN} HTTP/1.1 and more\r\n{TOKEN}\r\n\r\n".encode())
            assert b" 400 " in raw.recv(1000).splitlines()[0]
        process.terminate()
        assert process.wait(60) == 0
        assert process.stdout.read() == ""
        assert TOKEN not in log.read_text()


@pytest.mark.slow
def test_a_stranger_with_many_sockets_neither_silences_it_nor_fills_its_log(drawn_library, tmp_path):
    files = "ulimit -n 256"  # as on a Mac, where a program may have 256 files and sockets open
    with (
        running(drawn_library, tmp_path, "--port", "0", first=files) as (_, address, log),
        ExitStack() as ours,
    ):
        host, port = address.removeprefix("http://").partition("/")[0].split(":")
        for sent in (b"", b"GET / HTTP/1.1\r\nX-Never: ", b"no request at all\r\n\r\n"):
            for _ in range(300):
                one = ours.enter_context(socket.create_connection((host, int(port)), timeout=20))
                with suppress(ConnectionError):
                    one.sendall(sent)
        with build_opener(HTTPCookieProcessor(CookieJar())).open(address, timeout=20) as page:
            assert page.status == 200
        assert len(log.read_text()) < 2000
