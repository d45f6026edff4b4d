"""Addresses on object storage, such as `s3://bucket/folder`: what they name, and how it is read.

Credentials, region and endpoint come from the environment alone, as the tools of each provider read them; no
address, message or setting holds any.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Self
from urllib.parse import urlsplit

from limner.errors import ConfigError, LimnerError, MissingError

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem

_ADDRESS = re.compile(r"(s3|gs|az)://?(.*)", re.DOTALL)
_PROVIDERS = {"s3": "AWS", "gs": "GOOGLE", "az": "AZURE"}
_CONNECT_S, _REQUEST_S, _TRIES = 5, 30, 3
_SECRET, _SECRET_LETTERS = re.compile(r"KEY|TOKEN|SECRET|PASSWORD"), 6
_REGIONS = ("AWS_REGION", "AWS_DEFAULT_REGION")


@dataclass(frozen=True)
class Location:
    """A bucket or container, or what is below it.

    Attributes:
        scheme: s3, gs or az.
        bucket: its name.
        key: of an object, or of a "folder": the beginning that the keys of several share; "" for the bucket.
    """

    scheme: str
    bucket: str
    key: str = ""

    def __str__(self) -> str:
        """The address."""
        return f"{self.scheme}://{self.path}"

    @property
    def path(self) -> str:
        """Bucket and key, as file systems take them."""
        return f"{self.bucket}/{self.key}".rstrip("/")

    @property
    def name(self) -> str:
        """Its last part."""
        return self.path.rpartition("/")[2]

    def __truediv__(self, below: str) -> Self:
        """What is below it."""
        return type(self)(self.scheme, self.bucket, f"{self.key}/{below}".strip("/"))


@dataclass(frozen=True)
class StoredObject:
    """One object of a list.

    Attributes:
        location: where it is.
        size: bytes.
        mtime_ns: when it was written, nanoseconds since 1970; as exact as the store says.
    """

    location: Location
    size: int
    mtime_ns: int


def location(place: str | os.PathLike[str]) -> Location | None:
    """What an address on object storage names; None where it is a path of this machine.

    `pathlib` joins slashes, so that `s3:/bucket` is read as `s3://bucket`.

    Raises:
        ConfigError: the address names no bucket, or carries a user, a password or a question.
    """
    text = os.fspath(place)
    met = _ADDRESS.fullmatch(text) if isinstance(text, str) else None
    if met is None:
        return None
    scheme, rest = met[1], met[2]
    bucket, _, key = rest.partition("/")
    if "@" in bucket or "?" in bucket:
        raise ConfigError(
            f"{scheme}://…: the address carries a name, password or question, expected"
            f" {scheme}://BUCKET/FOLDER; put credentials into the environment"
            f" ({_PROVIDERS[scheme]}_… variables), and change any that was shown"
        )
    if not bucket:
        raise ConfigError(f"{text}: no bucket is named, expected {scheme}://BUCKET/FOLDER")
    parts = [part for part in key.split("/") if part]
    if {".", ".."} & set(parts):
        raise ConfigError(f"{text}: '.' and '..' mean nothing on object storage; write the address out")
    return Location(scheme, bucket, "/".join(parts))


def on_this_machine(place: str | os.PathLike[str], instead: str) -> None:
    """Refuse an address where only a folder of this machine will do.

    Args:
        place: what was given.
        instead: what to do.
    Raises:
        ConfigError: it is an address on object storage.
    """
    if (found := location(place)) is not None:
        raise ConfigError(f"{found}: on object storage, expected a folder of this machine; {instead}")


def endpoint(scheme: str) -> str:
    """Address of the server that the environment names for a provider; "" for the provider's own.

    Raises:
        ConfigError: it carries a name or password.
    """
    names = {"s3": ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"), "az": ("AZURE_STORAGE_ENDPOINT",)}
    for name in names.get(scheme, ()):
        if found := os.environ.get(name, ""):
            if "@" in found or not urlsplit(found).hostname:
                raise ConfigError(
                    f"{name}: expected http://HOST:PORT or https://HOST:PORT, without name or password"
                )
            return found.rstrip("/")
    return ""


def file_system(of: Location) -> FileSystem:
    """The file system of pyarrow on which a location is; its paths are `Location.path`.

    Raises:
        ConfigError: what the environment says does not fit.
        MissingError: pyarrow was built without this provider.
    """
    with reaching(of):
        return _file_system(of.scheme, of.bucket, endpoint(of.scheme), *map(os.environ.get, _named_by(of)))


def read_bytes(of: Location) -> bytes:
    """The content of one object.

    Raises:
        FileNotFoundError: there is none.
        MissingError: the store does not answer, refuses the credentials, or has no such bucket.
    """
    system = file_system(of)
    with reaching(of), system.open_input_stream(of.path) as stream:
        return bytes(stream.read())


def objects(below: Location) -> Iterator[StoredObject]:
    """All objects below a location, in the order of their names folder by folder.

    One folder is asked for at a time, so that memory is bound by the largest, not by the number of all.

    Raises:
        MissingError: the store does not answer, refuses the credentials, or has no such bucket or folder.
    """
    from pyarrow.fs import FileSelector, FileType

    system = file_system(below)
    try:
        with reaching(below):
            entries = system.get_file_info(FileSelector(below.path))
    except FileNotFoundError:
        raise MissingError(f"{below}: nothing is there; check the address") from None
    for entry in sorted(entries, key=lambda one: one.base_name):
        inner = below / entry.base_name
        if entry.type is FileType.Directory:
            yield from objects(inner)
        else:
            yield StoredObject(inner, int(entry.size or 0), int(entry.mtime_ns or 0))


def storage_options(of: Location) -> dict[str, str]:
    """Options of Lance for a location: bounds on its patience, and the endpoint. It finds credentials."""
    options = {
        "client_max_retries": str(_TRIES),
        "client_retry_timeout": str(_REQUEST_S),
        "connect_timeout": f"{_CONNECT_S} seconds",
        "timeout": f"{_REQUEST_S} seconds",
    }
    if named := endpoint(of.scheme):
        options |= {"endpoint": named, "allow_http": str(named.startswith("http://")).lower()}
    return options


@contextmanager
def reaching(of: Location) -> Iterator[None]:
    """Turn what a library says of a store that cannot be reached into one line that says what to do.

    Raises:
        MissingError: of what the block raised; FileNotFoundError, errors of limner and of programming pass.
    """
    try:
        yield
    except (LimnerError, FileNotFoundError):
        raise
    except (OSError, ValueError, RuntimeError) as error:  # those of pyarrow and of Lance
        said = refusal(of, str(error))
        if said is None and not isinstance(error, OSError):
            raise
        # Not "from error": what a library says may show an address with its signature.
        raise MissingError(said or f"{of}: {without_secrets(str(error))}") from None


def refusal(of: Location, said: str) -> str | None:
    """One line for what a library said of a store; None where it is of something else.

    Args:
        of: what was asked for.
        said: the library's message.
    """
    variables = f"{_PROVIDERS[of.scheme]}_… variables"
    for pattern, found, remedy in _REFUSALS:
        if re.search(pattern, said, re.IGNORECASE):
            where = endpoint(of.scheme)
            at = f" at {urlsplit(where).netloc}" if where else ""
            return f"{of}: {found.format(bucket=of.bucket, at=at)}; {remedy.format(variables=variables)}"
    return None


def without_secrets(said: str) -> str:
    """A message in one line, at most 200 characters, without values of the environment that are secret."""
    for name, value in os.environ.items():
        if (
            name.startswith(tuple(_PROVIDERS.values()))
            and _SECRET.search(name)
            and len(value) >= _SECRET_LETTERS
        ):
            said = said.replace(value, "…")
    return " ".join(re.sub(r"\?\S+", "?…", said).split())[:200]


_REFUSALS = (
    (
        r"no ?such ?bucket|bucket does not exist|bucket .{0,80}not found|ContainerNotFound",
        "there is no bucket {bucket!r}{at}",
        "check the name, or make it",
    ),
    (
        r"access.?denied|forbidden|status(?: code)?:? 40[13]\b|InvalidAccessKeyId|SignatureDoesNotMatch"
        r"|InvalidToken|AuthenticationFailed"
        r"|ACCESS_DENIED|INVALID_CLIENT_TOKEN|INVALID_ACCESS_KEY|INVALID_SIGNATURE|no credentials"
        r"|CredentialsNotLoaded|credential provider|unauthorized|HTTP response code 40[13]",
        "the object store{at} refuses the credentials",
        "set those of an account that may read and write there, in the {variables}",
    ),
    (
        r"NETWORK_CONNECTION|error sending request|connect|timed? ?out|resolve host|dns error|builder error"
        r"|HTTP error|Couldn't|UNAVAILABLE",
        "the object store{at} does not answer",
        "check the network, and the endpoint and region in the {variables}",
    ),
)
"""Pattern of what libraries say, what was found, what to do; the first that fits counts."""


def _named_by(of: Location) -> list[str]:
    """Variables on which a file system depends, so that it is made again when they change."""
    prefix = _PROVIDERS[of.scheme] + "_"
    return sorted(name for name in os.environ if name.startswith(prefix))


@lru_cache(maxsize=8)
def _file_system(scheme: str, bucket: str, at: str, *_values: str | None) -> FileSystem:
    from pyarrow import fs

    if scheme == "gs":
        return fs.GcsFileSystem()
    if scheme == "az":
        return _azure()
    region = next(filter(None, map(os.environ.get, _REGIONS)), None)
    if region is None:
        region = "us-east-1" if at else fs.resolve_s3_region(bucket)
    return fs.S3FileSystem(
        endpoint_override=at or None,
        region=region,
        connect_timeout=_CONNECT_S,
        request_timeout=_REQUEST_S,
        retry_strategy=fs.AwsStandardS3RetryStrategy(max_attempts=_TRIES),
    )


def _azure() -> FileSystem:
    """Container storage by the variables that Lance reads too."""
    from pyarrow import fs

    asked = os.environ.get
    account = asked("AZURE_STORAGE_ACCOUNT_NAME")
    if not account:
        raise ConfigError("az://…: set AZURE_STORAGE_ACCOUNT_NAME, and AZURE_STORAGE_ACCOUNT_KEY or another")
    at = urlsplit(endpoint("az"))
    server = {"blob_storage_authority": at.netloc, "blob_storage_scheme": at.scheme} if at.netloc else {}
    key, token = asked("AZURE_STORAGE_ACCOUNT_KEY"), asked("AZURE_STORAGE_SAS_TOKEN")
    proof = {"account_key": key} if key else {"sas_token": token} if token else {}
    return fs.AzureFileSystem(account, **proof, **server)
