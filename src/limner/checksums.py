"""Checksums of what is stored (XXH3), so that a flipped bit is found when it is read and not believed.

They tell chance from content, not an attacker from an owner: whoever can write a file can write its checksum.
"""

import re
from collections.abc import Mapping
from pathlib import Path

import xxhash
from numpy.typing import NDArray

from limner.errors import DataError

_SEALED = re.compile(rb'\{"checksum":"([0-9a-f]{32})",')
_CHUNK = 1 << 20


def checksum(data: bytes) -> str:
    """Of some bytes: 32 hexadecimal digits, 128 bits."""
    return xxhash.xxh3_128_hexdigest(data)


def file_checksum(path: Path) -> str:
    """Of a file's bytes, see `checksum`."""
    found = xxhash.xxh3_128()
    with path.open("rb") as file:
        while part := file.read(_CHUNK):
            found.update(part)
    return found.hexdigest()


def rows_checksum(rows: NDArray) -> int:  # type: ignore[type-arg]
    """Of the numbers of an array as they lie in memory: 64 bits.

    Args:
        rows: contiguous, of any kind and shape.
    """
    return xxhash.xxh3_64_intdigest(rows.data.cast("B") if rows.size else b"")


def arrays_checksum(arrays: Mapping[str, NDArray], about: Mapping[str, str]) -> str:  # type: ignore[type-arg]
    """Of named arrays and what is said about them, whatever file they are in.

    Args:
        arrays: contiguous; name, kind, shape and numbers all count.
        about: texts by name.
    """
    found = xxhash.xxh3_128()
    for name in sorted(arrays):
        own = arrays[name]
        found.update(repr((name, own.dtype.str, own.shape, rows_checksum(own))).encode())
    for name in sorted(about):
        found.update(repr((name, about[name])).encode("utf-8", "surrogatepass"))
    return found.hexdigest()


def seal(json_object: str) -> str:
    """A JSON object with the checksum of its text as its first key; read by `unseal`.

    Args:
        json_object: of one key or more.
    """
    head, body = json_object[:1], json_object[1:]
    if head != "{" or not body.lstrip().startswith('"'):
        raise ValueError("only a JSON object of one key or more is sealed")
    return f'{{"checksum":"{checksum(body.encode("utf-8"))}",{body}'


def unseal(data: bytes, where: Path, hint: str) -> bytes:
    """The JSON object that `seal` was given; one that was never sealed comes back as it is.

    Args:
        data: of the file.
        where: the file, for the message.
        hint: what to do where it is damaged.
    Raises:
        DataError: it is not as it was written.
    """
    found = _SEALED.match(data)
    if found is None:
        return data
    body = data[found.end() :]
    if checksum(body).encode() != found[1]:
        raise DataError(f"{where}: damaged (its checksum differs from its content); {hint}")
    return b"{" + body


def is_sealed(data: bytes) -> bool:
    """Whether a file's beginning says that it has a checksum of its own."""
    return _SEALED.match(data) is not None
