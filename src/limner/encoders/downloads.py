"""Fetches one published file: bounded in size and time, checked by hash, whole or not at all.

Called only when a user asks for weights (``limner models get NAME``). It chooses no addresses and
never runs as a side effect of anything else.
"""

from __future__ import annotations

import hashlib
import http.client
import re
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

from limner.errors import CheckpointError, DataError, MissingError
from limner.files import replacing

_CHUNK = 1 << 18
_STALL_S = 30.0
_LIMIT_BYTES = 4 << 30
_LIMIT_S = 3600.0

Progress = Callable[[int, int], None]


def fetch(
    url: str,
    folder: Path,
    sha256: str = "",
    *,
    limit_bytes: int = _LIMIT_BYTES,
    limit_s: float = _LIMIT_S,
    stall_s: float = _STALL_S,
    progress: Progress | None = None,
) -> Path:
    """Download a file into a folder under its published name.

    A file of that name with the right hash is kept and nothing is fetched.

    Args:
        url: http or https; its last part names the file.
        folder: created if need be.
        sha256: hash or its beginning (at least 8 hex digits); by default the one in the file name,
            as in ``resnet50-0676ba61.pth``.
        limit_bytes: more is refused.
        limit_s: seconds for all of it.
        stall_s: seconds without a byte.
        progress: called with bytes so far and bytes in all (0 where unknown).
    Returns:
        Path of the complete file.
    Raises:
        DataError: no hash is known, or the address is not http or https.
        MissingError: the server refuses, stalls, is too slow, or sends too much.
        CheckpointError: the hash differs, of the download or of a file already there.
    """
    parts = urlsplit(url)
    name = parts.path.rpartition("/")[2]
    if parts.scheme not in {"http", "https"} or not name:
        raise DataError(f"{url}: expected an http or https address of a file")
    due = (sha256 or _hash_in(name)).lower()
    if not re.fullmatch("[0-9a-f]{8,64}", due):
        raise DataError(f"{url}: no SHA-256 is known for it; pass one, at least 8 hex digits")
    target = folder / name
    if target.exists():
        if _file_hash(target).startswith(due):
            return target
        raise CheckpointError(f"{target}: SHA-256 does not begin with {due}; remove it and run again")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with replacing(target) as draft, draft.open("wb") as out:
            found = _copy(
                url,
                out.write,
                limit_bytes=limit_bytes,
                deadline=time.monotonic() + limit_s,
                stall_s=stall_s,
                progress=progress,
            )
            if not found.startswith(due):
                raise CheckpointError(
                    f"{url}: SHA-256 is {found[:16]}…, expected {due}; nothing kept, run again"
                )
    except MissingError:
        raise
    except OSError as error:
        raise MissingError(
            f"{target}: cannot be written ({error.strerror or error}); choose another folder"
        ) from error
    return target


def _copy(
    url: str,
    write: Callable[[bytes], int],
    *,
    limit_bytes: int,
    deadline: float,
    stall_s: float,
    progress: Progress | None,
) -> str:
    """Stream the body into ``write``; returns its SHA-256."""
    digest, received = hashlib.sha256(), 0
    try:
        with _opener().open(url, timeout=min(stall_s, max(0.1, deadline - time.monotonic()))) as response:
            announced = int(response.headers.get("Content-Length") or 0)
            if announced > limit_bytes:
                raise MissingError(f"{url}: {announced} bytes, at most {limit_bytes} allowed; nothing kept")
            # read1 returns what has come, so that a server that drips meets the deadline below.
            while chunk := response.read1(_CHUNK):
                received += len(chunk)
                if received > limit_bytes:
                    raise MissingError(f"{url}: more than {limit_bytes} bytes; nothing kept")
                if time.monotonic() > deadline:
                    raise MissingError(f"{url}: too slow, {received} bytes in the time allowed; nothing kept")
                digest.update(chunk)
                write(chunk)
                if progress is not None:
                    progress(received, announced)
    except urllib.error.HTTPError as error:
        error.close()
        reason = " ".join(str(error.reason).split())
        raise MissingError(f"{url}: the server answered {error.code} {reason}; try again later") from error
    except urllib.error.URLError as error:
        raise MissingError(f"{url}: cannot be reached ({error.reason}); check the network") from error
    except TimeoutError as error:
        raise MissingError(f"{url}: nothing came for {stall_s:g} s; try again later") from error
    except (ConnectionError, http.client.HTTPException, ValueError) as error:
        raise MissingError(f"{url}: broken off ({error}); try again") from error
    if announced and received < announced:
        raise MissingError(f"{url}: broken off after {received} of {announced} bytes; try again")
    return digest.hexdigest()


def _opener() -> urllib.request.OpenerDirector:
    """Follows redirects, but to http and https only: no files, no FTP, no inline data."""
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler(),
        urllib.request.HTTPHandler(),
        urllib.request.HTTPSHandler(),
        urllib.request.HTTPRedirectHandler(),
        urllib.request.HTTPErrorProcessor(),
        urllib.request.HTTPDefaultErrorHandler(),
        urllib.request.UnknownHandler(),
    ):
        opener.add_handler(handler)
    return opener


def _hash_in(name: str) -> str:
    """The hash prefix that torch hub's file names carry, or nothing."""
    found = re.search(r"-([0-9a-f]{8,64})\.[a-z]+$", name)
    return found[1] if found else ""


def _file_hash(path: Path) -> str:
    """SHA-256 of a file."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
