"""Addresses on object storage, against a server of S3 on loopback and against none."""

import os
import socket
import time
from pathlib import Path

import pytest
from object_store import SECRET, s3_server

from limner.errors import ConfigError, MissingError
from limner.locations import Location, file_system, location, objects, read_bytes, refusal, without_secrets


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("s3://photos/2024/a b.jpg", Location("s3", "photos", "2024/a b.jpg")),
        ("s3://photos//2024/", Location("s3", "photos", "2024")),
        ("gs://photos", Location("gs", "photos")),
        (Path("az://photos/x"), Location("az", "photos", "x")),
        ("/photos/s3://x", None),
        ("http://photos/x", None),
        ("s3", None),
    ],
)
def test_an_address_is_told_from_a_path(text, found):
    assert location(text) == found
    if found is not None:
        assert location(str(found)) == found


@pytest.mark.parametrize(
    "text", ["s3://", "s3:///x", "gs://b/../x", "s3://b?X-Amz-Signature=1", "s3:/k:pw@b/x"]
)
def test_an_address_without_a_bucket_or_with_a_password_is_refused(text):
    with pytest.raises(ConfigError) as refusal:
        location(text)
    assert "pw" not in str(refusal.value)
    assert "Signature" not in str(refusal.value)


def test_objects_are_listed_folder_by_folder_and_read(bucket):
    home = location(bucket)
    contents = {"b/2.txt": b"two", "a.txt": b"one", "b/c/3 ü.txt": b"", "d.txt": b"x" * 70_000}
    system, before = file_system(home), time.time_ns()
    for key, content in contents.items():
        with system.open_output_stream((home / key).path) as stream:
            stream.write(content)
    found = list(objects(home))
    assert [one.location.key for one in found] == ["a.txt", "b/2.txt", "b/c/3 ü.txt", "d.txt"]
    assert {one.location.key: one.size for one in found} == {key: len(one) for key, one in contents.items()}
    assert all(abs(one.mtime_ns - before) < 120e9 for one in found)
    assert [one.location.key for one in objects(home / "b")] == ["b/2.txt", "b/c/3 ü.txt"]
    assert {key: read_bytes(home / key) for key in contents} == contents
    with pytest.raises(FileNotFoundError):
        read_bytes(home / "none")
    with pytest.raises(MissingError, match=f"^{bucket}/none: contains nothing; check the URL$"):
        list(objects(home / "none"))


@pytest.mark.slow
def test_what_cannot_be_reached_is_one_line_within_seconds(bucket, monkeypatch, tmp_path, object_store):
    def said(of):
        begun = time.monotonic()
        with pytest.raises(MissingError) as refusal:
            list(objects(of))
        assert time.monotonic() - begun < 10
        assert "\n" not in str(refusal.value)
        assert SECRET not in str(refusal.value)
        return str(refusal.value)

    host = object_store["AWS_ENDPOINT_URL"].removeprefix("http://")
    absent = f"s3://absent/x: there is no bucket 'absent' at {host}; check the name, or create it"
    assert said(location("s3://absent/x")) == absent
    with s3_server(tmp_path / "log", INITIAL_NO_AUTH_ACTION_COUNT="0") as strict:
        monkeypatch.setenv("AWS_ENDPOINT_URL", strict["AWS_ENDPOINT_URL"])
        assert "refuses the credentials; set those of an account" in said(location(bucket))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{free.getsockname()[1]}")
        assert "does not respond; check the network" in said(location(bucket))
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://me:{SECRET}@127.0.0.1:1")
    with pytest.raises(ConfigError, match=r"^AWS_ENDPOINT_URL: expected http://HOST:PORT") as refusal:
        file_system(location(bucket))
    assert SECRET not in str(refusal.value)


def test_a_message_shows_no_secret(monkeypatch):
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", SECRET)
    assert without_secrets(f"GET https://x/y?sig=abc\nkey {SECRET}") == "GET https://x/y?… key …"


@pytest.mark.parametrize(
    ("said", "due"),
    [
        (
            "error sending request for url (http://127.0.0.1:1/b), after 2 retries in 401.2ms",
            "does not respond",
        ),
        ("Client error with status 403 Forbidden: AccessDenied", "refuses the credentials"),
        ("Server returned HTTP status code 401", "refuses the credentials"),
    ],
)
def test_a_number_in_a_message_is_no_status(said, due):
    told = refusal(location("s3://bucket/lib"), said)
    assert due in told


@pytest.mark.parametrize(
    ("more", "given"),
    [
        pytest.param({}, {}, id="alone"),
        pytest.param({"ACCOUNT_KEY": "k", "SAS_TOKEN": "t"}, {"account_key": "k"}, id="key"),
        pytest.param({"SAS_TOKEN": "t"}, {"sas_token": "t"}, id="token"),
        pytest.param(
            {"ENDPOINT": "http://127.0.0.1:1/"},
            {"blob_storage_authority": "127.0.0.1:1", "blob_storage_scheme": "http"},
            id="endpoint",
        ),
    ],
)
def test_azure_is_asked_as_the_environment_says(more, given, monkeypatch):
    monkeypatch.setattr("pyarrow.fs.AzureFileSystem", lambda account, **named: (account, named))
    for name in [name for name in os.environ if name.startswith("AZURE_")]:
        monkeypatch.delenv(name)
    with pytest.raises(ConfigError, match="AZURE_STORAGE_ACCOUNT_NAME"):
        file_system(Location("az", "photos", ""))
    for name, value in {"ACCOUNT_NAME": "ana", **more}.items():
        monkeypatch.setenv(f"AZURE_STORAGE_{name}", value)
    assert file_system(Location("az", "photos", "")) == ("ana", given)
