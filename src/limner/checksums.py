"""Checksums of stored files (XXH3), in the files or in a list of their folder.

They detect accidental corruption when a file is read. They do not protect against attackers, who can write a
checksum wherever they can write a file. The list is written so that it is correct even if the process is
killed at any moment.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
import xxhash
from numpy.typing import NDArray
from safetensors import safe_open
from safetensors.numpy import save

from limner.errors import DataError
from limner.files import locked, make_folder, write_text

_SEALED = re.compile(rb'\{"checksum":"([0-9a-f]{32})",')
_CHUNK = 1 << 20
_DIFFERS = "its checksum differs from its content"
_MARK = b"limner-checksum-1"
_TAIL = len(_MARK) + 16


def checksum(data: bytes) -> str:
    """Checksum of bytes: 128 bits as 32 hexadecimal digits."""
    return xxhash.xxh3_128_hexdigest(data)


def file_checksum(path: Path) -> str:
    """Checksum of a file's bytes, see `checksum`."""
    found = xxhash.xxh3_128()
    with path.open("rb") as file:
        while part := file.read(_CHUNK):
            found.update(part)
    return found.hexdigest()


def rows_checksum(*rows: NDArray) -> int:  # type: ignore[type-arg]
    """Checksum of arrays as they are stored in memory, one after the other: 64 bits.

    Args:
        rows: contiguous arrays of any type and shape.
    """
    found = xxhash.xxh3_64()
    for part in rows:
        found.update(part.data.cast("B") if part.size else b"")
    return found.intdigest()


def arrays_checksum(arrays: Mapping[str, NDArray], about: Mapping[str, str]) -> str:  # type: ignore[type-arg]
    """Checksum of named arrays with their metadata, independent of their file.

    Args:
        arrays: contiguous arrays; name, type, shape and values all count.
        about: metadata by name.
    """
    found = xxhash.xxh3_128()
    for name in sorted(arrays):
        own = arrays[name]
        found.update(repr((name, own.dtype.str, own.shape, rows_checksum(own))).encode())
    for name in sorted(about):
        found.update(repr((name, about[name])).encode("utf-8", "surrogatepass"))
    return found.hexdigest()


def arrays_file(arrays: Mapping[str, NDArray], about: Mapping[str, str]) -> bytes:  # type: ignore[type-arg]
    """Bytes of a safetensors file that contains its `arrays_checksum`; read by `read_arrays`."""
    return save(dict(arrays), {**about, "checksum": arrays_checksum(arrays, about)})


def read_arrays(path: Path) -> tuple[dict[str, NDArray], dict[str, str]]:  # type: ignore[type-arg]
    """Read the arrays of a safetensors file, with their metadata; earlier versions wrote no checksum.

    Raises:
        DataError: the file cannot be read, is not a safetensors file, or is damaged; the message is only the
            reason.
    """
    try:
        with safe_open(path, framework="np") as file:
            about = file.metadata() or {}
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  (no mapping)
    except Exception as error:  # a damaged header can cause any error
        raise DataError(" ".join(str(error).split())[:80]) from error
    due = about.pop("checksum", None)
    if due not in (None, arrays_checksum(arrays, about)):
        raise DataError(_DIFFERS)
    return arrays, about


def has_checksum(path: Path) -> bool:
    """Whether a safetensors file has a checksum; earlier versions wrote none."""
    with safe_open(path, framework="np") as file:
        return "checksum" in (file.metadata() or {})


def tail_of(parts: Iterable[NDArray]) -> bytes:  # type: ignore[type-arg]
    """Checksum that `seal_bytes` appends, for bytes in several parts."""
    found = xxhash.xxh3_128()
    for part in parts:
        found.update(part.data)
    return _MARK + found.digest()


def seal_bytes(data: bytes) -> bytes:
    """Append the checksum to bytes of any kind; `unseal_bytes` removes it."""
    return data + _MARK + xxhash.xxh3_128_digest(data)


def unseal_bytes(data: bytes) -> bytes | None:
    """Content without the checksum of `seal_bytes`; None if it is damaged or has no checksum."""
    content = data[:-_TAIL]
    return content if seal_bytes(content) == data else None


def unseal_array(data: NDArray[np.uint8]) -> NDArray[np.uint8] | None:
    """Content like `unseal_bytes`, without a copy, for a memory-mapped file."""
    content = data[:-_TAIL]
    return content if data[-_TAIL:].tobytes() == tail_of([content]) else None


def seal(json_object: str) -> str:
    """Insert the checksum of a JSON object as its first key; `unseal` removes it.

    Args:
        json_object: text of an object with at least one key.
    """
    head, body = json_object[:1], json_object[1:]
    if head != "{" or not body.lstrip().startswith('"'):
        raise ValueError("only a JSON object with at least one key can get a checksum")
    return f'{{"checksum":"{checksum(body.encode("utf-8"))}",{body}'


def unseal(data: bytes, where: Path, hint: str) -> bytes:
    """JSON object without the checksum of `seal`; one without a checksum is returned as it is.

    Args:
        data: content of the file.
        where: path of the file, for messages.
        hint: advice for a damaged file.
    Raises:
        DataError: the checksum differs from the content.
    """
    found = _SEALED.match(data)
    if found is None:
        return data
    body = data[found.end() :]
    if checksum(body).encode() != found[1]:
        raise DataError(f"{where}: damaged ({_DIFFERS}); {hint}")
    return b"{" + body


def is_sealed(data: bytes) -> bool:
    """Whether a file begins with its own checksum."""
    return _SEALED.match(data) is not None


NOTES = "digests.json"
_HINT = "it is only a list of checksums: remove it; the next file that is written begins a new one"


@contextmanager
def noting(folder: Path, name: str, content: bytes | None = None) -> Iterator[None]:
    """Record the checksum of a file that the block writes atomically.

    Args:
        folder: folder of the list; created if missing.
        name: path of the file in the folder, with slashes.
        content: content of the file; None for a file that contains its checksum.
    """
    make_folder(folder)
    file = folder / name
    due = [] if content is None else [checksum(content)]
    if due and file.is_file():  # until it is replaced, the old content is valid too
        _change(folder, name, [*due, file_checksum(file)])
    yield
    _change(folder, name, due)


def forget(folder: Path, name: str) -> None:
    """Remove a deleted file from the list."""
    if (folder / NOTES).is_file():
        _change(folder, name, None)


def noted(folder: Path) -> dict[str, list[str]]:
    """Valid checksums by name of the file; empty for a file that contains its checksum.

    Raises:
        DataError: the list is damaged.
    """
    path = folder / NOTES
    try:
        files = json.loads(unseal(path.read_bytes(), path, _HINT))["files"]
        return {str(name): [str(one) for one in due] for name, due in files.items()}
    except FileNotFoundError:
        return {}
    except DataError:
        raise
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise DataError(f"{path}: damaged ({str(error)[:60]}); {_HINT}") from error


def is_sound(file: Path, due: list[str]) -> bool | None:
    """Whether an existing file has a recorded checksum; None if it contains its own."""
    return file_checksum(file) in due if due else None


def _change(folder: Path, name: str, due: list[str] | None) -> None:
    with locked(folder / "lock"):
        before: dict[str, list[str]] = {}
        with suppress(DataError):  # a damaged list is created again
            before = noted(folder)
        after = {key: one for key, one in before.items() if key != name}
        if due is not None:
            after[name] = due
        if after != before:
            write_text(folder / NOTES, seal(json.dumps({"files": dict(sorted(after.items()))}, indent=0)))
