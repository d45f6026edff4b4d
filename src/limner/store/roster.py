"""Which picture lies in which row of a library's cache, and its ids as numbers, not as text.

Rows are numbered in order of arrival and never change: a picture whose vector changes gets another row behind
all others, and the old one is dead. Galleries are in order of ids all the same, by `View.order`.
"""

from __future__ import annotations

import binascii
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, overload

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from limner.checksums import arrays_file, read_arrays
from limner.errors import DataError
from limner.files import replacing
from limner.store.scan import BoolArray, IntArray
from limner.store.store import Piece

ID_BYTES = 32
RawIds = NDArray[np.bytes_]
"""(R,) SHA-256 of each picture, 32 bytes."""
Places = NDArray[np.int32]
"""Rows of the cache."""
Groups = NDArray[np.uint64]
"""Near-duplicate groups: the first 64 bits of the id that names each."""

STATE = "state.safetensors"
_FORMAT = 1
_CHUNK = 65_536


def raw_ids(column: pa.Array) -> RawIds:
    """Ids of a column of text, (R,).

    Raises:
        DataError: one is no SHA-256.
    """
    if not len(column):
        return np.zeros(0, f"S{ID_BYTES}")
    _, offsets, letters = column.buffers()
    ends = np.frombuffer(offsets, np.int32)[column.offset :][: len(column) + 1]
    try:
        if column.null_count or (np.diff(ends) != 2 * ID_BYTES).any():
            raise binascii.Error
        raw = binascii.unhexlify(memoryview(letters)[int(ends[0]) : int(ends[-1])])
        return np.frombuffer(raw, f"S{ID_BYTES}")
    except binascii.Error:
        raise DataError("library: an id of a picture is no SHA-256 in hexadecimal digits") from None


def raw_of(ids: Iterable[object]) -> RawIds:
    """As `raw_ids`, of text; what is no such id becomes one that no picture has."""
    found = bytearray()
    for one in ids:
        try:
            raw = bytes.fromhex(one) if isinstance(one, str) else b""
        except ValueError:
            raw = b""
        found += raw if len(raw) == ID_BYTES and raw.hex() == one else bytes(ID_BYTES)
    return np.array(np.frombuffer(found, np.uint8)).view(f"S{ID_BYTES}")


def text_of(raw: NDArray[Any]) -> list[str]:
    """Ids as text."""
    letters = np.ascontiguousarray(raw).tobytes().hex()
    return [letters[start : start + 2 * ID_BYTES] for start in range(0, len(letters), 2 * ID_BYTES)]


def group_numbers(names: RawIds) -> Groups:
    """(R,) groups by the ids that name them."""
    first = names.view(np.uint8).reshape(-1, ID_BYTES)[:, :8]
    return np.ascontiguousarray(first).view(">u8")[:, 0].astype(np.uint64)


def ranks(raw: RawIds, order: NDArray[np.integer[Any]], wanted: RawIds) -> tuple[IntArray, BoolArray]:
    """Where ids stand among others in their order: (K,) ranks, and whether they are there.

    Args:
        raw: (P,) ids in any order.
        order: (M,) rows of `raw` such that their ids ascend.
        wanted: (K,).
    """
    low, high = np.zeros(len(wanted), np.int64), np.full(len(wanted), len(order))
    while (open_ := np.flatnonzero(low < high)).size:
        middle = (low[open_] + high[open_]) // 2
        less = raw[order[middle]] < wanted[open_]
        low[open_[less]], high[open_[~less]] = middle[less] + 1, middle[~less]
    there = low < len(order)
    there[there] = raw[order[low[there]]] == wanted[there]
    return low, there


class Ids(Sequence[str]):
    """Ids of M pictures in their order, kept as bytes and given as text."""

    def __init__(self, raw: RawIds, order: NDArray[np.integer[Any]]) -> None:
        """Take the ids and their order.

        Args:
            raw: (P,).
            order: (M,) rows of `raw` such that their ids ascend.
        """
        self._raw, self._order = raw, order

    def __len__(self) -> int:
        """M."""
        return len(self._order)

    @overload
    def __getitem__(self, row: int) -> str: ...
    @overload
    def __getitem__(self, row: slice) -> list[str]: ...
    def __getitem__(self, row: int | slice) -> str | list[str]:
        """One id, or a run of them."""
        if isinstance(row, slice):
            return text_of(self._raw[self._order[row]])
        place = int(self._order[row])
        return text_of(self._raw[place : place + 1])[0]

    def __iter__(self) -> Iterator[str]:
        """All ids; few are text at a time."""
        for start in range(0, len(self), _CHUNK):
            yield from self[start : start + _CHUNK]

    def __contains__(self, picture: object) -> bool:
        """Whether there is such an id."""
        return bool(self.rows([picture])[0] >= 0)

    def __eq__(self, other: object) -> bool:
        """Whether another sequence holds the same ids."""
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    def index(self, value: object, start: int = 0, stop: int | None = None) -> int:
        """Row of an id.

        Raises:
            ValueError: there is no such id.
        """
        row = int(self.rows([value])[0])
        if not start <= row < (len(self) if stop is None else stop):
            raise ValueError(f"{value!r} is not among the ids")
        return row

    def rows(self, ids: Iterable[object]) -> IntArray:
        """(K,) rows of ids; −1 where there is none."""
        found, there = ranks(self._raw, self._order, raw_of(ids))
        return np.where(there, found, -1)


@dataclass(frozen=True)
class SpaceFile:
    """Where the vectors of a space are.

    Attributes:
        fingerprint, dim: as in `limner.store.store.SpaceInfo`.
        file: name in the folder of the cache.
    """

    fingerprint: str
    dim: int
    file: str


@dataclass(frozen=True)
class View:
    """A cache as it follows one state of the tables.

    Attributes:
        stamp: of this state.
        ids_file: name of the file of ids.
        rows: of all files, the dead ones included: P.
        tables: name → the pieces that it follows.
        spaces: those that it holds.
        order: (M,) rows of the pictures that some file still holds, in order of their ids.
        groups: (M,) of them.
        present: space → (M,) whether each has a vector.
    """

    stamp: str
    ids_file: str
    rows: int
    tables: dict[str, dict[int, Piece]]
    spaces: dict[str, SpaceFile]
    order: Places
    groups: Groups
    present: dict[str, BoolArray]


@dataclass
class Ledger:
    """What is needed to bring a cache up to date, beside a `View`.

    Attributes:
        order: (U,) rows of all pictures that a table names, in order of their ids.
        groups: (P,) of the pictures.
        homes: table → (P,) number of the piece that holds each picture's row, or −1.
    """

    order: Places
    groups: Groups
    homes: dict[str, Places]


def read_view(cache: Path) -> View | None:
    """The state of a cache; None where there is none.

    Raises:
        DataError: it is damaged; the reason alone.
    """
    if not (cache / STATE).exists():
        return None
    arrays, about = read_arrays(cache / STATE)
    try:
        told = json.loads(about["view"])
        if told["format"] != _FORMAT:
            return None
        return View(
            told["stamp"],
            told["ids_file"],
            told["rows"],
            {
                name: {int(number): Piece(tuple(data), cut) for number, (data, cut) in pieces.items()}
                for name, pieces in told["tables"].items()
            },
            {name: SpaceFile(**one) for name, one in told["spaces"].items()},
            arrays["order"],
            arrays["groups"],
            {name: arrays[f"present {name}"] for name in told["spaces"]},
        )
    except (KeyError, ValueError, TypeError) as error:
        raise DataError(f"not what this version writes ({error})") from error


def read_ledger(cache: Path, view: View) -> Ledger:
    """What belongs to a state.

    Raises:
        DataError: it is absent or damaged; the reason alone.
    """
    arrays, _ = read_arrays(cache / _ledger_name(view.stamp))
    return Ledger(arrays["order"], arrays["groups"], {name: arrays[f"home {name}"] for name in view.tables})


def write_state(cache: Path, view: View, ledger: Ledger) -> None:
    """Make a state the one that counts: from then on, `read_view` returns it.

    Raises:
        StorageError: the disk is full, or cannot be written.
    """
    about = {
        "format": _FORMAT,
        "stamp": view.stamp,
        "ids_file": view.ids_file,
        "rows": view.rows,
        "tables": {
            name: {str(number): [one.data, one.cut] for number, one in pieces.items()}
            for name, pieces in view.tables.items()
        },
        "spaces": {name: asdict(one) for name, one in view.spaces.items()},
    }
    arrays: dict[str, NDArray[Any]] = {"order": ledger.order, "groups": ledger.groups}
    arrays |= {f"home {name}": home for name, home in ledger.homes.items()}
    _write(cache / _ledger_name(view.stamp), arrays, {})
    arrays = {"order": view.order, "groups": view.groups}
    arrays |= {f"present {name}": own for name, own in view.present.items()}
    _write(cache / STATE, arrays, {"view": json.dumps(about)})


def own_files(view: View) -> set[str]:
    """Beginnings of the names of all files of a state."""
    spaces = {f"{one.file}." for one in view.spaces.values()}
    return {STATE, _ledger_name(view.stamp), f"{view.ids_file}.", *spaces}


def _ledger_name(stamp: str) -> str:
    return f"ledger-{stamp}.safetensors"


def _write(path: Path, arrays: dict[str, NDArray[Any]], about: dict[str, str]) -> None:
    content = arrays_file({name: np.ascontiguousarray(one) for name, one in arrays.items()}, about)
    with replacing(path, sync=False, wanted=len(content)) as draft:
        draft.write_bytes(content)
