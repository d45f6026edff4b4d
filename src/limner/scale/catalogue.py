"""The list of a library's pictures as one Arrow table: records by id, sorted pages, and filters.

It is built once from the table of pictures and memory-mapped from a file. Arrays that a query needs, with one
value per picture, are computed for it and not kept.
"""

from __future__ import annotations

import binascii
import os
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import date
from functools import cached_property, partial
from itertools import pairwise
from pathlib import Path
from typing import Any, BinaryIO, Literal, get_args, overload

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from limner.checksums import checksum
from limner.errors import DataError
from limner.files import composed_text
from limner.language import folded
from limner.pictures.places import places
from limner.records import Picture
from limner.scale.cache import Cache
from limner.scale.store import COORDINATES, FILES, PICTURES, PICTURES_SCHEMA, PRESENT, TableState, TableStore
from limner.store import Facets, Only, Taken

Shape = Literal["landscape", "portrait", "square"]
Order = Literal["path", "newest", "oldest"]
BoolArray = NDArray[np.bool_]
IntArray = NDArray[np.int64]
RawIds = NDArray[np.bytes_]
"""(R,) SHA-256 of each picture, 32 bytes."""
Groups = NDArray[np.uint64]
"""Near-duplicate groups: the first 64 bits of the id of each group."""
ID_BYTES = 32
_CHUNK = 65_536
_FORMAT = 6
_IDS = b"ids"
_TEXTS = pa.large_list(pa.struct([("text", pa.large_string()), ("source", pa.large_string())]))
_CLASSES = pa.large_list(pa.struct([("name", pa.large_string()), ("probability", pa.float64())]))
_WIDER = {"paths": pa.large_list(pa.large_string()), "captions": _TEXTS, "labels": _CLASSES}
_LARGE = pa.schema(
    [
        (one.name, _WIDER.get(one.name) or (pa.large_string() if one.type == pa.string() else one.type))
        for one in PICTURES_SCHEMA
    ]
)
"""Columns of `pictures`, with text types that may exceed 2 GiB."""
SQUARE = 1.05
"""Maximum ratio of the sides of a picture that counts as square."""


class Ids(Sequence[str]):
    """Ids of M pictures in ascending order, stored as bytes and returned as text."""

    def __init__(self, raw: RawIds) -> None:
        """Wrap ids as bytes.

        Args:
            raw: (M,) ascending, all different.
        """
        self.raw = raw

    def __len__(self) -> int:
        """M."""
        return len(self.raw)

    @overload
    def __getitem__(self, row: int) -> str: ...
    @overload
    def __getitem__(self, row: slice) -> list[str]: ...
    def __getitem__(self, row: int | slice) -> str | list[str]:
        """One id, or a slice of them."""
        if isinstance(row, slice):
            return text_of(self.raw[row])
        place = range(len(self))[row]
        return text_of(self.raw[place : place + 1])[0]

    def __iter__(self) -> Iterator[str]:
        """Iterate over the ids, a few of them converted to text at a time."""
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
            ValueError: the id is unknown.
        """
        row = int(self.rows([value])[0])
        if not start <= row < (len(self) if stop is None else stop):
            raise ValueError(f"{value!r} is not among the ids")
        return row

    def rows(self, ids: Iterable[object]) -> IntArray:
        """Rows (K,) of ids; −1 for unknown ids."""
        return self.rows_of(raw_of(ids))

    def rows_of(self, wanted: RawIds) -> IntArray:
        """Rows of ids as bytes, see `rows`."""
        place = np.searchsorted(self.raw, wanted)
        there = place < len(self)
        there[there] = self.raw[place[there]] == wanted[there]
        return np.where(there, place, -1)


class Catalogue:
    """The existing pictures of a library at the time of reading: one Arrow table.

    Rows are sorted by id. Columns are those of `pictures`, with ids and groups as bytes; `by_path`, the row
    numbers sorted by first path; `said`, file names and captions in lower case and composed form; and
    `places`, numbers of the places where a picture was taken.

    Attributes:
        ids: ids of the pictures, ascending.
        stamp: hash of the list of ids.
    """

    def __init__(self, table: pa.RecordBatch) -> None:
        """Wrap a table; use `read`."""
        self._table = table
        self.ids = Ids(self._raw("id"))
        self.stamp = table.schema.metadata[_IDS].decode()

    @classmethod
    def read(cls, store: TableStore, cache: Cache | Path, state: TableState | None = None) -> Catalogue:
        """Build or load the catalogue of a library's tables.

        Args:
            store: the tables.
            cache: cache of the Arrow table, or its folder.
            state: state of the table of pictures; None for the present one.
        Raises:
            DataError: a table is damaged.
        """
        cache = cache if isinstance(cache, Cache) else Cache(cache)
        state = state or store.state(PICTURES)
        stated = [store.state(name).stamp for name in (FILES, COORDINATES)]
        key = checksum(repr((_FORMAT, state.stamp, stated)).encode())
        made = cache.kept(PICTURES, key, ".arrow", partial(_write, store, state))
        return cls(pa.ipc.open_file(pa.py_buffer(made)).get_batch(0))

    def __len__(self) -> int:
        """Number of pictures."""
        return len(self._table)

    def __contains__(self, picture: object) -> bool:
        """Whether a picture is in it."""
        return picture in self.ids

    @property
    def groups(self) -> Groups:
        """Near-duplicate groups (M,)."""
        return group_numbers(self._raw("group"))

    def pictures(self, ids: Sequence[str]) -> list[Picture]:
        """Records by id, in that order.

        Raises:
            DataError: there is no such picture.
        """
        return self._take(self._rows(ids))

    def words(self) -> Iterator[tuple[str, str]]:
        """Id and each file name and caption of every picture, in lower case."""
        for picture, lines in zip(self.ids, self._table["said"].to_pylist(), strict=True):
            yield from ((picture, line) for line in lines.split("\n"))

    @cached_property
    def taken(self) -> Taken:
        """When and where the pictures were taken."""
        known = pc.if_else(pc.equal(_days(self._table), ""), "0", _days(self._table))
        days = pc.cast(pc.replace_substring(known, "-", ""), pa.int64()).to_numpy()
        return Taken({one: row for row, one in enumerate(self.ids)}, days, *_located(self._table))

    def under(self, places: Sequence[str]) -> list[Picture]:
        """Pictures with a file at one of the paths, or below one of them, in order of ids."""
        paths = self._table["paths"]
        files = pc.list_flatten(paths)
        named = pc.is_in(files, pa.array(places, files.type))
        inside = np.zeros(len(self), dtype=bool)
        inside[pc.list_parent_indices(paths).filter(named).to_numpy()] = True
        for folder in set(places).difference(files.filter(named).to_pylist()):
            inside |= _fitting(self._table, "", Only(folder=folder))
        return self._take(np.flatnonzero(inside))

    def folders_of(self, ids: Iterable[str]) -> IntArray:
        """(K,) number of the folder of each picture's first file; see `in_folder`."""
        return np.asarray(self._folder_numbers[self.ids.rows(ids)])

    def folder_name(self, number: int) -> str:
        """Name of a folder, without its parents."""
        return str(self._folder_codes.dictionary[number].as_py()).rpartition(os.sep)[2]

    def in_folder(self, number: int) -> list[str]:
        """Ids of the pictures whose first file is in a folder, in order of time, then of path."""
        rows = self._by_time
        return text_of(self._raw("id")[rows[self._folder_numbers[rows] == number]])

    @cached_property
    def folder_sizes(self) -> IntArray:
        """Number of pictures of each folder, by number."""
        return np.bincount(self._folder_numbers).astype(np.int64)

    @cached_property
    def _folder_numbers(self) -> IntArray:
        """(M,) number of the folder of each picture's first file."""
        return np.asarray(self._folder_codes.indices.to_numpy(zero_copy_only=False), dtype=np.int64)

    @cached_property
    def _folder_codes(self) -> pa.DictionaryArray:
        """(M,) folder of each picture's first file."""
        return _split(_first_of(self._table))[0].dictionary_encode()

    def _rows(self, ids: Sequence[str]) -> IntArray:
        """(K,) rows of pictures; raises as `pictures`."""
        rows = self.ids.rows(ids)
        if (rows < 0).any():
            absent = ids[int(np.argmin(rows))]
            raise DataError(
                f"library: no picture {absent[:80]!r}; it was deleted, or is of another library; index again"
            )
        return rows

    def _raw(self, name: str) -> RawIds:
        """(M,) ids or groups as stored."""
        return np.frombuffer(self._table[name].buffers()[1], f"S{ID_BYTES}", len(self))

    def page(
        self,
        offset: int,
        limit: int,
        words: str = "",
        *,
        only: Only | None = None,
        used: Collection[str] = frozenset(),
        order: Order = "path",
    ) -> tuple[int, list[Picture]]:
        """A part of the list.

        Args:
            offset: number of pictures to skip, ≥ 0.
            limit: maximum number of pictures, ≥ 0.
            words: only pictures whose file name or captions contain this, in upper or lower case, or that
                were taken at a place of this name.
            only: further conditions; None for none.
            used: ids of the pictures that count as used.
            order: by path, or by capture time, with unknown times last.
        Returns:
            Number of all pictures that match, and the pictures of the page.
        Raises:
            DataError: the picture of `only.occasion` is not in the library.
        """
        found = self._listed(words, only or Only(), used, order)
        return len(found), self._take(found[offset : offset + limit])

    def months(
        self, words: str, only: Only, used: Collection[str], order: Literal["newest", "oldest"]
    ) -> dict[str, int]:
        """Months of a list in order of time, as 2019-07, "" if none is known → number of their pictures.

        Arguments and errors as for `page`.
        """
        listed = self._listed(words, only, used, order)
        return _counts(pc.utf8_slice_codeunits(_days(self._table).take(pa.array(listed)), 0, 7))

    def _listed(
        self, words: str, only: Only, used: Collection[str], order: Order
    ) -> NDArray[np.integer[Any]]:
        """Rows that match, in order."""
        words = composed_text(" ".join(words.split())).lower()
        rows = self._order if order == "path" else self._by_time
        if order == "newest":
            known = len(self) - self._table["taken"].null_count
            rows = np.concatenate([rows[:known][::-1], rows[known:]])
        return rows[self._fits(words, only, used)[rows]] if words or only != Only() else rows

    def passing(self, only: Only, used: Collection[str] = frozenset()) -> list[str]:
        """Ids of the pictures that meet conditions; `used` and errors as for `page`."""
        return text_of(self._raw("id")[self._fits("", only, used)])

    def _fits(self, words: str, only: Only, used: Collection[str]) -> BoolArray:
        """Mask (M,) of the rows that match."""
        fits = _fitting(self._table, words, only)
        if only.used is not None:
            inside = np.zeros(len(self), dtype=bool)
            rows = self.ids.rows(used)
            inside[rows[rows >= 0]] = True
            fits &= inside == only.used
        if only.occasion:
            inside = np.zeros(len(self), dtype=bool)
            inside[self._same_occasion(only.occasion)] = True
            fits &= inside
        return fits

    def same_occasion(self, picture: str) -> list[Picture]:
        """Pictures taken on the same day as a given one, including it, in order of time.

        Raises:
            DataError: the picture does not exist.
        """
        inside = np.isin(np.arange(len(self)), self._same_occasion(picture))
        rows = self._records(self._order[inside[self._order]])
        return [picture_of(row) for row in sorted(rows, key=lambda row: row["taken"] or "")]

    def _same_occasion(self, picture: str) -> IntArray:
        row = self._rows([picture])
        day = (self._records(row)[0]["taken"] or "")[:10]
        if not day:
            return row
        return np.flatnonzero(_flags(pc.equal(_days(self._table), day)))

    def facets(self, used: Collection[str], sources: Sequence[str] = ("",)) -> Facets:
        """Count the pictures of each value of the filters.

        Args:
            used: ids of the pictures that count as used.
            sources: folders at or below which folders are listed; "" lists all.
        """
        roots = tuple(one.rstrip(os.sep) + os.sep for one in sources)
        months = _counts(pc.utf8_slice_codeunits(_days(self._table), 0, 7))
        shapes = _counts(pa.array(_shapes(self._table)))
        undated = months.pop("", 0)
        return Facets(
            folders={one: count for one, count in self._folders.items() if (one + os.sep).startswith(roots)},
            months=dict(sorted(months.items())),
            undated=undated,
            shapes={shape: shapes.get(shape, 0) for shape in get_args(Shape)},
            used=int((self.ids.rows(used) >= 0).sum()),
            uncaptioned=len(self) - self.captioned,
        )

    @cached_property
    def files(self) -> int:
        """Number of files of all pictures."""
        return int(_files(self._table).sum())

    @cached_property
    def captioned(self) -> int:
        """Number of pictures with a caption."""
        return int(_captioned(self._table).sum())

    @cached_property
    def _folders(self) -> dict[str, int]:
        """Number of pictures in every folder that contains pictures, or at least two subfolders with
        pictures.
        """
        single = _files(self._table) == 1
        own = Counter(_counts(_split(_first_of(self._table).filter(pa.array(single)))[0]))
        for paths in self._table["paths"].filter(pa.array(~single)).to_pylist():
            own.update({path.rpartition(os.sep)[0] for path in paths})
        below: Counter[str] = Counter()
        parts: dict[str, set[str]] = {}
        for folder, count in own.items():
            inner = folder
            while inner:
                below[inner] += count
                outer = inner.rpartition(os.sep)[0]
                parts.setdefault(outer, set()).add(inner)
                inner = outer
        return {one: below[one] for one in sorted(below) if one in own or len(parts.get(one, ())) > 1}

    @property
    def _order(self) -> NDArray[np.int32]:
        """(M,) rows in order of first paths."""
        return np.asarray(self._table["by_path"].to_numpy())

    @cached_property
    def _by_time(self) -> NDArray[np.integer[Any]]:
        """(M,) rows in order of when they were taken, then of paths; unknown ones last."""
        taken = self._table["taken"].take(pa.array(self._order))
        places: NDArray[np.uint64] = pc.sort_indices(taken).to_numpy()
        return self._order[places]

    @cached_property
    def _alike(self) -> tuple[NDArray[np.integer[Any]], IntArray]:
        """Rows of all pictures in `duplicates`, group by group, and the start of each group."""
        groups = self.groups[self._order]
        place = np.argsort(groups, kind="stable")
        begins = np.flatnonzero(np.r_[True, np.diff(groups[place]) != 0][: len(self)])
        count, first = np.diff(np.r_[begins, len(self)]), place[begins]
        several = np.flatnonzero((count > 1) | (_files(self._table)[self._order[first]] > 1))
        several = several[np.argsort(first[several])]
        ends = np.cumsum(np.r_[0, count[several]])
        inner = np.arange(ends[-1]) - np.repeat(ends[:-1], count[several])
        return self._order[place[np.repeat(begins[several], count[several]) + inner]], ends

    @property
    def alike(self) -> int:
        """Number of groups of duplicates: near-duplicates, and single pictures with several files."""
        return len(self._alike[1]) - 1

    def duplicates(self, offset: int, limit: int) -> list[tuple[str, list[Picture]]]:
        """Groups of duplicates, each with its id; see `alike`."""
        rows, ends = self._alike
        some = ends[offset : offset + limit + 1]
        groups = (self._take(rows[start:end]) for start, end in pairwise(some))
        return [(pictures[0].group, pictures) for pictures in groups]

    def _records(self, rows: NDArray[np.integer[Any]]) -> list[dict[str, Any]]:
        # pa.array would import pandas where that is installed
        held = [None, pa.py_buffer(np.ascontiguousarray(rows, np.int64))]
        places = pa.Array.from_buffers(pa.int64(), len(rows), held)
        found = self._table.select(PICTURES_SCHEMA.names).take(places).to_pylist()
        return [row | {"id": row["id"].hex(), "group": row["group"].hex()} for row in found]

    def _take(self, rows: NDArray[np.integer[Any]]) -> list[Picture]:
        return [picture_of(row) for row in self._records(rows)]


def _table(store: TableStore, state: TableState) -> pa.RecordBatch:
    """Read all existing pictures into a catalogue's table."""
    batches = store.scan_state(state, PICTURES_SCHEMA.names, PRESENT)
    # Lance does not keep the requested order of columns.
    held = pa.Table.from_batches((one.select(PICTURES_SCHEMA.names) for one in batches), PICTURES_SCHEMA)
    order, columns = pc.sort_indices(held["id"]), {}
    for name, kind in zip(
        _LARGE.names, _LARGE.types, strict=True
    ):  # one column at a time, because a column is in memory twice
        column = held[name].cast(kind).combine_chunks()
        held = held.drop_columns([name])
        columns[name] = column.take(order)
    table = pa.RecordBatch.from_pydict(columns)
    ids = raw_ids(table["id"])
    made = columns | {
        "id": _bytes(ids),
        "group": _bytes(raw_ids(table["group"])),
        "by_path": pc.sort_indices(_first_of(table)).cast(pa.int32()),
        "said": _said(table),
        "places": _places(store, table["id"].to_pylist()),
    }
    about = {_IDS: checksum(np.ascontiguousarray(ids).tobytes())}
    return pa.RecordBatch.from_pydict(made).replace_schema_metadata(about)


def coordinates_of(store: TableStore, ids: Iterable[str] | None = None) -> dict[str, tuple[float, float]]:
    """Latitude and longitude by id, of the pictures whose files state where they were taken; None for all."""
    if not store.has(COORDINATES):
        return {}
    wanted = (key for (key,) in store.rows(COORDINATES, ["id"])) if ids is None else ids
    column = "key" if ids is None else "sha256"
    rows = store.lookup(FILES, column, wanted, ["key", "path", "sha256", "status"])
    files = {row["key"]: row for row in rows if row["status"] == "ok"}
    found = {row["id"]: row for row in store.lookup(COORDINATES, "id", files)}
    stated = sorted(found.keys(), key=lambda key: files[key]["path"], reverse=True)
    return {files[key]["sha256"]: (found[key]["latitude"], found[key]["longitude"]) for key in stated}


def _places(store: TableStore, ids: Sequence[str]) -> pa.Array:
    """(M,) numbers of the places of each picture."""
    stated = coordinates_of(store)
    known = dict(zip(stated, places().near(list(stated.values())), strict=True)) if stated else {}
    return pa.array([known.get(one, ()) for one in ids], pa.large_list(pa.int64()))


def _located(table: pa.RecordBatch) -> tuple[IntArray, IntArray]:
    """(L,) rows of pictures, and numbers of their places."""
    held = table["places"]
    return pc.list_parent_indices(held).to_numpy(), pc.list_flatten(held).to_numpy()


def _write(store: TableStore, state: TableState, file: BinaryIO) -> None:
    """Write the table as an Arrow file."""
    table = _table(store, state)
    with pa.ipc.new_file(file, table.schema) as writer:
        writer.write_batch(table)


def _first_of(table: pa.RecordBatch) -> pa.Array:
    """(M,) first path of each picture."""
    return table["paths"].values.take(table["paths"].offsets[:-1])


def _split(paths: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Folders and file names of paths; the folder is "" if a path has none."""
    parts = pc.split_pattern(paths, os.sep, max_splits=1, reverse=True)
    ends = parts.offsets
    folder = pc.if_else(pc.equal(pc.list_value_length(parts), 2), parts.values.take(ends[:-1]), "")
    return folder, parts.values.take(pc.subtract(ends[1:], 1))


def _bytes(raw: RawIds) -> pa.Array:
    return pa.FixedSizeBinaryArray.from_buffers(pa.binary(ID_BYTES), len(raw), [None, pa.py_buffer(raw)])


def _said(table: pa.RecordBatch) -> pa.Array:
    paths, captions = table["paths"], table["captions"]
    parts = ((paths.offsets, _split(paths.values)[1]), (captions.offsets, captions.values.field("text")))
    line = pa.scalar("\n", pa.large_string())
    joined = [
        pc.binary_join(pa.ListArray.from_arrays(offsets.cast(pa.int32()), texts), line)
        for offsets, texts in parts
    ]
    said = pc.binary_join_element_wise(*joined, line)
    # Python's lower case, as for the query; Arrow's differs for a few letters
    few = (said.slice(start, _CHUNK).to_pylist() for start in range(0, len(said), _CHUNK))
    lower = [pa.array([composed_text(one).lower() for one in some], pa.large_string()) for some in few]
    return pa.concat_arrays([pa.array([], pa.large_string()), *lower])


def _fitting(table: pa.RecordBatch, words: str, only: Only) -> BoolArray:
    """Mask (M,) of the rows that match conditions on a single row."""
    fits = np.ones(len(table), dtype=bool)
    if words:
        rows, numbers = _located(table)
        fits &= _flags(pc.match_substring(table["said"], words))
        if len(rows):
            called = places().called(np.unique(numbers).tolist()).get(folded(words), [])
            fits[rows[np.isin(numbers, called)]] = True
    if only.folder:
        paths, inside = table["paths"], np.zeros(len(table), dtype=bool)
        named = composed_text(only.folder.rstrip(os.sep) + os.sep)
        held = _flags(pc.starts_with(pc.utf8_normalize(paths.values, "NFC"), named))
        inside[pc.list_parent_indices(paths).to_numpy()[held]] = True
        fits &= inside
    if only.dated is not None:
        fits &= _flags(pc.not_equal(_days(table), "")) == only.dated
    if only.after or only.before:
        after, before = (only.after or date.min).isoformat(), (only.before or date.max).isoformat()
        fits &= _flags(pc.greater_equal(_days(table), after)) & _flags(pc.less_equal(_days(table), before))
    if only.shape:
        fits &= _shapes(table) == only.shape
    if only.captioned is not None:
        fits &= _captioned(table) == only.captioned
    return fits


def _flags(column: pa.Array) -> BoolArray:
    return np.asarray(column.to_numpy(zero_copy_only=False), dtype=bool)


def _captioned(table: pa.RecordBatch) -> BoolArray:
    return np.asarray(pc.fill_null(pc.list_value_length(table["captions"]), 0).to_numpy() > 0)


def _files(table: pa.RecordBatch) -> IntArray:
    return np.asarray(pc.list_value_length(table["paths"]).to_numpy(), dtype=np.int64)


def _days(table: pa.RecordBatch) -> pa.Array:
    """Day on which each picture was taken, as 2019-07-21; "" if unknown."""
    return pc.fill_null(pc.utf8_slice_codeunits(table["taken"], 0, 10), "")


def _shapes(table: pa.RecordBatch) -> NDArray[np.str_]:
    wide, high = (table[name].to_numpy() for name in ("width_px", "height_px"))
    near = np.maximum(wide, high) <= SQUARE * np.minimum(wide, high)
    return np.where(near, "square", np.where(wide > high, "landscape", "portrait"))


def _counts(values: pa.Array) -> dict[str, int]:
    return {one["values"]: one["counts"] for one in pc.value_counts(values).to_pylist()}


def picture_of(row: dict[str, Any]) -> Picture:
    """Convert a row of `pictures` to a record."""
    labels = tuple((label["name"], label["probability"]) for label in row["labels"] or ())
    return Picture.model_validate({**row, "labels": labels})


def raw_ids(column: pa.Array) -> RawIds:
    """Convert a column of R ids from text to bytes.

    Raises:
        DataError: an id is not a SHA-256.
    """
    if not len(column):
        return np.zeros(0, f"S{ID_BYTES}")
    _, offsets, letters = column.buffers()
    kind = np.int64 if pa.types.is_large_string(column.type) else np.int32
    ends = np.frombuffer(offsets, kind)[column.offset :][: len(column) + 1]
    try:
        if column.null_count or (np.diff(ends) != 2 * ID_BYTES).any():
            raise binascii.Error
        raw = binascii.unhexlify(memoryview(letters)[int(ends[0]) : int(ends[-1])])
        return np.frombuffer(raw, f"S{ID_BYTES}")
    except binascii.Error:
        raise DataError("library: an id of a picture is not a SHA-256 in hexadecimal digits") from None


def raw_of(ids: Iterable[object]) -> RawIds:
    """Convert ids from text to bytes; a malformed id becomes one that no picture has."""
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
    """Numbers (R,) of groups from their ids."""
    first = names.view(np.uint8).reshape(-1, ID_BYTES)[:, :8]
    return np.ascontiguousarray(first).view(">u8")[:, 0].astype(np.uint64)
