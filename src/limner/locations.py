"""URLs on object storage, such as `s3://bucket/folder`, and files and objects opened by one path.

A path of this machine is absolute; anything else is a URL.

Credentials, region and endpoint come only from the environment, as for each provider's tools; no URL, message
or setting contains any.
"""

from __future__ import annotations

import errno
import io
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, NamedTuple, Self, cast
from urllib.parse import urlsplit

from limner.errors import ConfigError, LimnerError, MissingError

if TYPE_CHECKING:
    from pyarrow.fs import FileInfo, FileSystem


_ADDRESS = re.compile(r"(s3|gs|az)://?(.*)", re.DOTALL)
_PROVIDERS = {"s3": "AWS", "gs": "GOOGLE", "az": "AZURE"}
_CONNECT_S, _REQUEST_S, _TRIES = 5, 30, 3
_SECRET, _SECRET_LETTERS = re.compile(r"KEY|TOKEN|SECRET|PASSWORD"), 6
_REGIONS = ("AWS_REGION", "AWS_DEFAULT_REGION")


@dataclass(frozen=True)
class Location:
    """A bucket or container, or a key in it.

    Attributes:
        scheme: s3, gs or az.
        bucket: name of the bucket.
        key: key of an object, or prefix of several keys (a "folder"); "" for the bucket.
    """

    scheme: str
    bucket: str
    key: str = ""

    def __str__(self) -> str:
        """The URL."""
        return f"{self.scheme}://{self.path}"

    @property
    def path(self) -> str:
        """Bucket and key, as pyarrow's file systems expect them."""
        return f"{self.bucket}/{self.key}".rstrip("/")

    @property
    def name(self) -> str:
        """Last part of the key."""
        return self.path.rpartition("/")[2]

    def __truediv__(self, below: str) -> Self:
        """Location below this one."""
        return type(self)(self.scheme, self.bucket, f"{self.key}/{below}".strip("/"))


@dataclass(frozen=True)
class StoredObject:
    """One object of a listing.

    Attributes:
        location: location of the object.
        size: size in bytes.
        mtime_ns: modification time in nanoseconds since 1970, as precise as the store states it.
    """

    location: Location
    size: int
    mtime_ns: int


def location(place: str | os.PathLike[str]) -> Location | None:
    """Parse a URL on object storage; None for a path of this machine.

    `pathlib` joins slashes, so that `s3:/bucket` is read as `s3://bucket`.

    Raises:
        ConfigError: the URL names no bucket, or contains a user, a password or a query.
    """
    text = os.fspath(place)
    met = _ADDRESS.fullmatch(text) if isinstance(text, str) else None
    if met is None:
        return None
    scheme, rest = met[1], met[2]
    bucket, _, key = rest.partition("/")
    if "@" in bucket or "?" in bucket:
        raise ConfigError(
            f"{scheme}://…: the URL contains a name, password or query, expected"
            f" {scheme}://BUCKET/FOLDER; put credentials into the environment"
            f" ({_PROVIDERS[scheme]}_… variables), and change any that was shown"
        )
    if not bucket:
        raise ConfigError(f"{text}: no bucket is named, expected {scheme}://BUCKET/FOLDER")
    parts = [part for part in key.split("/") if part]
    if {".", ".."} & set(parts):
        raise ConfigError(f"{text}: '.' and '..' mean nothing on object storage; write out the whole URL")
    return Location(scheme, bucket, "/".join(parts))


def on_this_machine(place: str | os.PathLike[str], instead: str) -> None:
    """Reject a URL if a folder of this machine is needed.

    Args:
        place: path or URL.
        instead: advice for the message.
    Raises:
        ConfigError: `place` is a URL on object storage.
    """
    if (found := location(place)) is not None:
        raise ConfigError(f"{found}: on object storage, expected a folder of this machine; {instead}")


def endpoint(scheme: str) -> str:
    """URL of a provider's server in the environment; "" for the default one.

    Raises:
        ConfigError: the URL contains a name or password.
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
    """File system of pyarrow for a location; its paths are `Location.path`.

    Raises:
        ConfigError: a variable of the environment is wrong.
        MissingError: pyarrow was built without this provider.
    """
    with reaching(of):
        return _file_system(of.scheme, of.bucket, endpoint(of.scheme), *map(os.environ.get, _named_by(of)))


def read_bytes(of: Location) -> bytes:
    """Read one object.

    Raises:
        FileNotFoundError: the object does not exist.
        MissingError: the store does not respond, refuses the credentials, or has no such bucket.
    """
    system = file_system(of)
    with reaching(of), system.open_input_stream(of.path) as stream:
        return bytes(stream.read())


def objects(below: Location) -> Iterator[StoredObject]:
    """List all objects below a location, in the order of their names, folder by folder.

    One folder is listed at a time, so that memory depends on the largest, not on the number of all objects.

    Raises:
        MissingError: the store does not respond, refuses the credentials, or has no such bucket or folder.
    """
    from pyarrow.fs import FileSelector, FileType

    system = file_system(below)
    try:
        with reaching(below):
            entries = system.get_file_info(FileSelector(below.path))
    except FileNotFoundError:
        raise MissingError(f"{below}: contains nothing; check the URL") from None
    for entry in sorted(entries, key=lambda one: one.base_name):
        inner = below / entry.base_name
        if entry.type is FileType.Directory:
            yield from objects(inner)
        else:
            yield StoredObject(inner, int(entry.size or 0), int(entry.mtime_ns or 0))


def storage_options(of: Location) -> dict[str, str]:
    """Options of Lance for a location: timeouts and endpoint. Lance finds the credentials itself."""
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
    """Convert a library's error about an unreachable store to one line with advice.

    Raises:
        MissingError: the block raised such an error. FileNotFoundError and other errors are not converted.
    """
    try:
        yield
    except (LimnerError, FileNotFoundError):
        raise
    except (OSError, ValueError, RuntimeError) as error:  # types that pyarrow and Lance raise
        said = refusal(of, str(error))
        if said is None and not isinstance(error, OSError):
            raise
        # Not "from error": a library's message may contain a URL with its signature.
        raise MissingError(said or f"{of}: {without_secrets(str(error))}") from None


def refusal(of: Location, said: str) -> str | None:
    """Convert a library's message about a store to one line; None for other messages.

    Args:
        of: the requested location.
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
        "check the name, or create it",
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
        "the object store{at} does not respond",
        "check the network, and the endpoint and region in the {variables}",
    ),
)
"""Pattern of libraries' messages, description and advice; the first that matches counts."""


def _named_by(of: Location) -> list[str]:
    """Environment variables on which a file system depends; when one changes, the file system is created
    again.
    """
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


_READ_AHEAD = 2**20


class Status(NamedTuple):
    """Size and time of a file or an object, without reading it.

    Attributes:
        size: bytes.
        mtime_ns: modification time, nanoseconds since 1970.
    """

    size: int
    mtime_ns: int


def address(path: bytes) -> Location | None:
    """Location of a URL on object storage; None for a path of this machine."""
    return location(os.fsdecode(path))


def status(path: bytes) -> Status:
    """Size and time of a file or an object.

    Raises:
        OSError: it does not exist, or the object store does not respond.
    """
    place = address(path)
    if place is None:
        found = os.stat(path)  # noqa: PTH116
        return Status(found.st_size, found.st_mtime_ns)
    return status_of(_info(place))


def status_of(info: FileInfo) -> Status:
    """Status of one entry of a list of objects."""
    return Status(int(info.size or 0), int(info.mtime_ns or 0))


def is_folder(place: Location) -> bool:
    """Whether a location is a folder: a prefix of several objects, not an object.

    Raises:
        FileNotFoundError: nothing exists there.
        MissingError: the object store does not respond.
    """
    return not _info(place).is_file


def is_there(path: str) -> bool:
    """Whether a file or an object exists; False if it cannot be reached."""
    try:
        place = location(path)
        if place is None:
            return os.path.isfile(path)  # noqa: PTH113  (asked for every picture of a project; a third of the time)
        return bool(_info(place).is_file)
    except OSError:
        return False


def listing(folder: Location) -> dict[bytes, Status | None]:
    """List a folder of an object store: names in order, each with its status; None for a subfolder.

    Raises:
        MissingError: the object store does not respond, or nothing exists there.
    """
    from pyarrow.fs import FileSelector

    system = file_system(folder)
    with reaching(folder):
        infos = system.get_file_info(FileSelector(folder.path, allow_not_found=True))
    named = {os.fsencode(info.base_name): status_of(info) if info.is_file else None for info in infos}
    return dict(sorted(named.items()))


def stream(path: bytes) -> BinaryIO:
    """Open a file or an object for random access.

    Raises:
        OSError: it does not exist, or the object store does not respond.
    """
    place = address(path)
    if place is None:
        return _opened(path)
    system = file_system(place)
    with reaching(place):
        return cast(BinaryIO, io.BufferedReader(system.open_input_file(place.path), _READ_AHEAD))


def beginning(path: bytes, most: int) -> bytes:
    """First bytes of a file or an object, at most the given number.

    Raises:
        OSError: it does not exist, or the object store does not respond.
    """
    place = address(path)
    if place is None:
        with _opened(path) as file:
            return file.read(most)
    system = file_system(place)
    with reaching(place), system.open_input_stream(place.path) as file:
        return bytes(file.read(most))


def _opened(path: bytes) -> BinaryIO:
    """Open a regular file of this machine; a pipe, which might block for ever, is refused."""
    file = Path(os.fsdecode(path))
    if file.exists() and not file.is_file():
        raise OSError(errno.EINVAL, "not a regular file", str(file))
    return file.open("rb")


def answers(place: Location) -> bool:
    """Whether the bucket of an object responds, so that an error concerns the object alone."""
    try:
        return bool(_info(Location(place.scheme, place.bucket)))
    except OSError:
        return False


def _info(place: Location) -> FileInfo:
    from pyarrow.fs import FileType

    system = file_system(place)
    with reaching(place):
        info = system.get_file_info(place.path)
    if info.type is FileType.NotFound:
        raise FileNotFoundError(f"{place}: does not exist")
    return info
