"""A server that speaks the protocol of S3 on loopback, in a process of its own, and buckets on it."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from urllib.request import Request, urlopen

import pytest

SECRET = "zAq1-not-to-be-shown-Xsw2"  # noqa: S105 - the server takes any
_NUMBERS = count()
_START_S = 60


@contextmanager
def s3_server(log: Path, **variables: str) -> Iterator[dict[str, str]]:
    """Start a server; give the variables of the environment by which it is reached.

    Args:
        log: file that takes what it writes.
        variables: of its own environment.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-W", "ignore", "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    with log.open("wb") as said:
        server = subprocess.Popen(command, stdout=said, stderr=said, env=os.environ | variables)
    try:
        end = time.monotonic() + _START_S
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                assert server.poll() is None, log.read_text()
                assert time.monotonic() < end, log.read_text()
                time.sleep(0.05)
        yield {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
            "AWS_ACCESS_KEY_ID": "someone-who-indexes",
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
        }
    finally:
        server.terminate()
        server.wait()


@pytest.fixture(scope="session")
def object_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The variables by which an object store on loopback is reached; they are not set."""
    if find_spec("moto") is None:
        pytest.skip("no moto on this machine: pip install 'moto[server]'")
    with s3_server(tmp_path_factory.mktemp("object-store") / "log") as variables:
        yield variables


@contextmanager
def credentials_checked(variables: dict[str, str]) -> Iterator[None]:
    """Have the server refuse what it knows nobody by, which it otherwise takes."""

    def check_from(request: str) -> None:
        address = f"{variables['AWS_ENDPOINT_URL']}/moto-api/reset-auth"
        asked = Request(address, request.encode(), {"content-type": "text/plain"})  # noqa: S310
        urlopen(asked).close()  # noqa: S310

    check_from("0")
    try:
        yield
    finally:
        check_from("inf")


def new_bucket(variables: dict[str, str]) -> str:
    """Address of a new bucket."""
    from pyarrow.fs import S3FileSystem

    name = f"bucket-{os.getpid()}-{next(_NUMBERS)}"
    S3FileSystem(
        access_key=variables["AWS_ACCESS_KEY_ID"],
        secret_key=variables["AWS_SECRET_ACCESS_KEY"],
        endpoint_override=variables["AWS_ENDPOINT_URL"],
        region=variables["AWS_REGION"],
        allow_bucket_creation=True,
    ).create_dir(name)
    return f"s3://{name}"


@pytest.fixture
def bucket(object_store: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> str:
    """Address of a new bucket, `s3://…`; the environment says how to reach it."""
    for name, value in object_store.items():
        monkeypatch.setenv(name, value)
    return new_bucket(object_store)
