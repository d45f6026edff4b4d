"""Checksums of what is stored (XXH3), and notes of them in a folder.

So a flipped bit is found when it is read, and not believed, and a noted file that was altered is named.
They tell chance from content, not an attacker from an owner: whoever can write a file can write its checksum.
The notes are written after the file: a kill at any moment leaves notes that fit.
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
    """Of some bytes: 32 hexadecimal digits, 128 bits."""
    return xxhash.xxh3_128_hexdigest(data)


def file_checksum(path: Path) -> str:
    """Of a file's bytes, see `checksum`."""
    found = xxhash.xxh3_128()
    with path.open("rb") as file:
        while part := file.read(_CHUNK):
            found.update(part)
    return found.hexdigest()


def rows_checksum(*rows: NDArray) -> int:  # type: ignore[type-arg]
    """Of the numbers of arrays as they lie in memory, one after the other: 64 bits.

    Args:
        rows: contiguous, of any kind and shape.
    """
    found = xxhash.xxh3_64()
    for part in rows:
        found.update(part.data.cast("B") if part.size else b"")
    return found.intdigest()


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


def arrays_file(arrays: Mapping[str, NDArray], about: Mapping[str, str]) -> bytes:  # type: ignore[type-arg]
    """A safetensors file with its `arrays_checksum` in it; read by `read_arrays`."""
    return save(dict(arrays), {**about, "checksum": arrays_checksum(arrays, about)})


def read_arrays(path: Path) -> tuple[dict[str, NDArray], dict[str, str]]:  # type: ignore[type-arg]
    """Arrays of a safetensors file, and what is said about them; earlier versions wrote no checksum.

    Raises:
        DataError: it cannot be read, is no such file, or is not as it was written; the reason alone.
    """
    try:
        with safe_open(path, framework="np") as file:
            about = file.metadata() or {}
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  (no mapping)
    except Exception as error:  # a damaged header may say anything
        raise DataError(" ".join(str(error).split())[:80]) from error
    due = about.pop("checksum", None)
    if due not in (None, arrays_checksum(arrays, about)):
        raise DataError(_DIFFERS)
    return arrays, about


def has_checksum(path: Path) -> bool:
    """Whether a safetensors file has one; earlier versions wrote none."""
    with safe_open(path, framework="np") as file:
        return "checksum" in (file.metadata() or {})


def tail_of(parts: Iterable[NDArray]) -> bytes:  # type: ignore[type-arg]
    """What `seal_bytes` puts after bytes that lie in several parts."""
    found = xxhash.xxh3_128()
    for part in parts:
        found.update(part.data)
    return _MARK + found.digest()


def seal_bytes(data: bytes) -> bytes:
    """Bytes of any kind with their checksum at the end; read by `unseal_bytes`."""
    return data + _MARK + xxhash.xxh3_128_digest(data)


def unseal_bytes(data: bytes) -> bytes | None:
    """What `seal_bytes` was given; None where it is not as it was written, or was never sealed."""
    content = data[:-_TAIL]
    return content if seal_bytes(content) == data else None


def unseal_array(data: NDArray[np.uint8]) -> NDArray[np.uint8] | None:
    """As `unseal_bytes`, without a copy: of a file that is mapped into memory."""
    content = data[:-_TAIL]
    return content if data[-_TAIL:].tobytes() == tail_of([content]) else None


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
        raise DataError(f"{where}: damaged ({_DIFFERS}); {hint}")
    return b"{" + body


def is_sealed(data: bytes) -> bool:
    """Whether a file's beginning says that it has a checksum of its own."""
    return _SEALED.match(data) is not None


NOTES = "digests.json"
_HINT = "a mere note: remove it; what is written next is noted in a new one"


@contextmanager
def noting(folder: Path, name: str, content: bytes | None = None) -> Iterator[None]:
    """Note a file that the block writes, whole or not at all.

    Args:
        folder: that keeps the notes; made if absent.
        name: of the file, relative to it, with slashes.
        content: of the file; None of one that has its checksum within.
    """
    make_folder(folder)
    file = folder / name
    due = [] if content is None else [checksum(content)]
    if due and file.is_file():  # until it is replaced it holds what it held
        _change(folder, name, [*due, file_checksum(file)])
    yield
    _change(folder, name, due)


def forget(folder: Path, name: str) -> None:
    """A file was removed on purpose."""
    if (folder / NOTES).is_file():
        _change(folder, name, None)


def noted(folder: Path) -> dict[str, list[str]]:
    """Name of each file → the checksums that it may have; none of a file that has its own within.

    Raises:
        DataError: the notes are damaged.
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
    """Whether a file that is there holds what was noted; None where that is in the file itself."""
    return file_checksum(file) in due if due else None


def _change(folder: Path, name: str, due: list[str] | None) -> None:
    with locked(folder / "lock"):
        before: dict[str, list[str]] = {}
        with suppress(DataError):  # damaged notes are made anew
            before = noted(folder)
        after = {key: one for key, one in before.items() if key != name}
        if due is not None:
            after[name] = due
        if after != before:
            write_text(folder / NOTES, seal(json.dumps({"files": dict(sorted(after.items()))}, indent=0)))
