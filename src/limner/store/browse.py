"""The pictures of a library in order of their paths: pages of a list, conditions, and records by id.

Nothing of them is held in memory: their columns are mapped from files, see `limner.store.columns`, and what
a question needs of each picture is an array that goes with the answer.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from datetime import date
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from limner.errors import DataError
from limner.records import Picture, Record
from limner.store.columns import Columns, first_of, parts_of, raw_column, split
from limner.store.library import picture_of
from limner.store.roster import ID_BYTES, RawIds, group_numbers, raw_of, text_of
from limner.store.scan import BoolArray, IntArray
from limner.store.store import PICTURES, PICTURES_SCHEMA, Store

Shape = Literal["landscape", "portrait", "square"]
Number = TypeVar("Number", bound=np.generic)
SQUARE = 1.05
"""A picture whose longer side exceeds the other by no more counts as square."""


class Only(Record):
    """Conditions that a picture must meet; those that are not set hold for all.

    Attributes:
        folder: that one of its files lies in, or in a folder below.
        after, before: first and last day on which it may have been taken.
        dated: whether the day is known.
        shape: of the upright picture.
        used: whether it is used.
        captioned: whether it has words of its own.
        occasion: id of a picture taken on the same day, or "".
    """

    folder: str = ""
    after: date | None = None
    before: date | None = None
    dated: bool | None = None
    shape: Shape | None = None
    used: bool | None = None
    captioned: bool | None = None
    occasion: str = ""


class Facets(Record):
    """What the pictures of a library can be chosen by, with the number of pictures of each.

    Attributes:
        folders: those that hold pictures, or several folders with some, by path.
        months: as 2019-07, in order.
        undated: pictures of which the day is not known.
        shapes: of the upright pictures.
        used: pictures that are used.
        uncaptioned: pictures without words of their own.
    """

    folders: dict[str, int]
    months: dict[str, int]
    undated: int
    shapes: dict[Shape, int]
    used: int
    uncaptioned: int


class Catalogue:
    """The present pictures of a library, as they were when it was read.

    Rows are numbered through its parts, see `limner.store.columns`.
    """

    def __init__(self, parts: Sequence[pa.RecordBatch], key: str, columns: Columns, store: Store) -> None:
        """Use `read`."""
        self._parts, self._key, self._columns, self._store = parts, key, columns, store
        self._ends = np.cumsum([0, *map(len, parts)])

    @classmethod
    def read(cls, store: Store, cache: Path) -> Catalogue:
        """The catalogue of a library's tables.

        Args:
            store: the tables.
            cache: folder of the cache.
        Raises:
            DataError: a table is damaged.
        """
        columns = Columns(cache / PICTURES)
        return cls(*parts_of(store, columns), columns, store)

    def __len__(self) -> int:
        """Number of pictures."""
        return int(self._ends[-1])

    def __contains__(self, picture: object) -> bool:
        """Whether a picture is in it."""
        return bool(self._find(raw_of([picture]))[0] >= 0)

    def pictures(self, ids: Sequence[str]) -> list[Picture]:
        """Records by id, in that order.

        Raises:
            DataError: there is no such picture.
        """
        return self._take(self._rows(ids))

    def _rows(self, ids: Sequence[str]) -> IntArray:
        """(K,) rows of pictures; errors as `pictures`."""
        rows = self._find(raw_of(ids))
        if (rows < 0).any():
            absent = ids[int(np.argmin(rows))]
            raise DataError(
                f"library: no picture {absent[:80]!r}; it was deleted, or is of another library; index again"
            )
        return rows

    def _find(self, wanted: RawIds) -> IntArray:
        """(K,) rows of pictures; −1 where one is not there."""
        rows = np.full(len(wanted), -1, np.int64)
        for start, part in zip(self._ends, self._parts, strict=False):
            ids, by_id = raw_column(part, "id"), part["by_id"].to_numpy()
            place = by_id[np.minimum(np.searchsorted(ids, wanted, sorter=by_id), len(ids) - 1)]
            there = ids[place] == wanted
            rows[there] = start + place[there]
        return rows

    def page(
        self,
        offset: int,
        limit: int,
        words: str = "",
        *,
        only: Only | None = None,
        used: Collection[str] = frozenset(),
    ) -> tuple[int, list[Picture]]:
        """A part of the list.

        Args:
            offset: pictures to pass by, ≥ 0.
            limit: pictures at most, ≥ 0.
            words: only pictures whose file name or captions contain this, in upper or lower case.
            only: further conditions; None for none.
            used: ids of the pictures that count as used.
        Returns:
            how many pictures there are in all, and those of the page.
        Raises:
            DataError: the picture of `only.occasion` is not there.
        """
        words, only = " ".join(words.split()).lower(), only or Only()
        found = self._order
        if words or only != Only():
            found = found[self._fits(words, only, used)[found]]
        return len(found), self._take(found[offset : offset + limit])

    def passing(self, only: Only, used: Collection[str] = frozenset()) -> list[str]:
        """Ids of the pictures that meet conditions; `used` and errors as of `page`."""
        raw = [raw_column(part, "id") for part in self._parts]
        return text_of(np.concatenate([np.zeros(0, f"S{ID_BYTES}"), *raw])[self._fits("", only, used)])

    def _fits(self, words: str, only: Only, used: Collection[str]) -> BoolArray:
        """(M,) rows that fit."""
        fits = self._each(lambda part: _part_fits(part, words, only), np.bool_)
        if only.used is not None:
            inside = np.zeros(len(self), dtype=bool)
            rows = self._find(raw_of(used))
            inside[rows[rows >= 0]] = True
            fits &= inside == only.used
        if only.occasion:
            inside = np.zeros(len(self), dtype=bool)
            inside[self._same_occasion(only.occasion)] = True
            fits &= inside
        return fits

    def same_occasion(self, picture: str) -> list[Picture]:
        """Pictures taken on the day of one, itself included, in the order in which they were taken.

        Raises:
            DataError: there is no such picture.
        """
        inside = np.isin(np.arange(len(self)), self._same_occasion(picture))
        rows = self._records(self._order[inside[self._order]])
        return [picture_of(row) for row in sorted(rows, key=lambda row: row["taken"] or "")]

    def _same_occasion(self, picture: str) -> IntArray:
        row = self._rows([picture])
        day = (self._records(row)[0]["taken"] or "")[:10]
        if not day:
            return row
        return np.flatnonzero(self._each(lambda part: _flags(pc.equal(_days(part), day)), np.bool_))

    def facets(self, used: Collection[str], sources: Sequence[str] = ("",)) -> Facets:
        """What there is to choose from, with the number of pictures of each.

        Args:
            used: ids of the pictures that count as used.
            sources: folders at or below which folders are named; "" names all.
        """
        roots = tuple(one.rstrip(os.sep) + os.sep for one in sources)
        months: Counter[str] = Counter()
        shapes: Counter[str] = Counter()
        for part in self._parts:
            months.update(_counts(pc.utf8_slice_codeunits(_days(part), 0, 7)))
            shapes.update(_counts(pa.array(_shapes(part))))
        undated = months.pop("", 0)
        return Facets(
            folders={one: count for one, count in self._folders.items() if (one + os.sep).startswith(roots)},
            months=dict(sorted(months.items())),
            undated=undated,
            shapes={shape: shapes[shape] for shape in get_args(Shape)},
            used=int((self._find(raw_of(used)) >= 0).sum()),
            uncaptioned=len(self) - self.captioned,
        )

    @cached_property
    def files(self) -> int:
        """Number of files that hold the pictures."""
        return int(self._each(_files, np.int64).sum())

    @cached_property
    def captioned(self) -> int:
        """Number of pictures with words of their own."""
        return int(self._each(_captioned, np.bool_).sum())

    @cached_property
    def _folders(self) -> dict[str, int]:
        """Every folder that holds pictures, or at least two folders with some → number of its pictures."""
        own: Counter[str] = Counter()
        for part in self._parts:
            single = _files(part) == 1
            own.update(_counts(split(first_of(part).filter(pa.array(single)))[0]))
            for paths in part["paths"].filter(pa.array(~single)).to_pylist():
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

    @cached_property
    def _order(self) -> IntArray:
        """(M,) rows in order of first paths."""

        def made() -> Iterator[pa.RecordBatch]:
            order = pc.sort_indices(pa.chunked_array(map(first_of, self._parts), pa.string()))
            yield pa.record_batch({"row": order.cast(pa.int64())})

        return self._kept("order", made)

    def _kept(self, name: str, made: Callable[[], Iterator[pa.RecordBatch]]) -> IntArray:
        """(M,) numbers that are computed from all pictures."""
        (found,) = self._columns.kept(f"{self._key}.{name}", made)
        return np.asarray(found["row"].to_numpy())

    @cached_property
    def _alike(self) -> tuple[IntArray, IntArray]:
        """Rows of all pictures that `duplicates` names, group by group, and where each group begins."""
        groups = self._each(lambda part: group_numbers(raw_column(part, "group")), np.uint64)[self._order]
        place = np.argsort(groups, kind="stable")
        begins = np.flatnonzero(np.r_[True, np.diff(groups[place]) != 0][: len(self)])
        count, first = np.diff(np.r_[begins, len(self)]), place[begins]
        several = np.flatnonzero((count > 1) | (self._each(_files, np.int64)[self._order[first]] > 1))
        several = several[np.argsort(first[several])]
        ends = np.cumsum(np.r_[0, count[several]])
        inner = np.arange(ends[-1]) - np.repeat(ends[:-1], count[several])
        return self._order[place[np.repeat(begins[several], count[several]) + inner]], ends

    @property
    def alike(self) -> int:
        """Number of groups of pictures that show the same: near-duplicates, and single pictures that several
        files hold.
        """
        return len(self._alike[1]) - 1

    def duplicates(self, offset: int, limit: int) -> list[tuple[str, list[Picture]]]:
        """Groups of pictures that show the same, each with its id; see `alike`."""
        rows, ends = self._alike
        some = ends[offset : offset + limit + 1]
        groups = (self._take(rows[start:end]) for start, end in pairwise(some))
        return [(pictures[0].group, pictures) for pictures in groups]

    def _each(self, made: Callable[[pa.RecordBatch], Any], kind: type[Number]) -> NDArray[Number]:
        """(M,) what a function finds for the rows of each part."""
        return np.concatenate([np.zeros(0, kind), *map(made, self._parts)])

    def _of_parts(self, rows: IntArray) -> Iterator[tuple[IntArray, pa.RecordBatch, IntArray]]:
        """Places in `rows` of those of each part, the part, and its rows there."""
        part_of = np.searchsorted(self._ends, rows, side="right") - 1
        for number in np.unique(part_of).tolist():
            places = np.flatnonzero(part_of == number)
            yield places, self._parts[number], rows[places] - self._ends[number]

    def _records(self, rows: IntArray) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = [{}] * len(rows)
        for places, part, own in self._of_parts(rows):
            records = part.select(PICTURES_SCHEMA.names).take(pa.array(own)).to_pylist()
            for place, row in zip(places.tolist(), records, strict=True):
                found[place] = row | {"id": row["id"].hex(), "group": row["group"].hex()}
        return found

    def _take(self, rows: IntArray) -> list[Picture]:
        return [picture_of(row) for row in self._records(rows)]


def _part_fits(part: pa.RecordBatch, words: str, only: Only) -> BoolArray:
    """(R,) rows that meet the conditions that tell by the row itself."""
    fits = np.ones(len(part), dtype=bool)
    if words:
        fits &= _flags(pc.match_substring(part["said"], words))
    if only.folder:
        paths, inside = part["paths"], np.zeros(len(part), dtype=bool)
        held = _flags(pc.starts_with(paths.values, only.folder.rstrip(os.sep) + os.sep))
        inside[pc.list_parent_indices(paths).to_numpy()[held]] = True
        fits &= inside
    if only.dated is not None:
        fits &= _flags(pc.not_equal(_days(part), "")) == only.dated
    if only.after or only.before:
        after, before = (only.after or date.min).isoformat(), (only.before or date.max).isoformat()
        fits &= _flags(pc.greater_equal(_days(part), after)) & _flags(pc.less_equal(_days(part), before))
    if only.shape:
        fits &= _shapes(part) == only.shape
    if only.captioned is not None:
        fits &= _captioned(part) == only.captioned
    return fits


def _flags(column: pa.Array) -> BoolArray:
    return np.asarray(column.to_numpy(zero_copy_only=False), dtype=bool)


def _captioned(part: pa.RecordBatch) -> BoolArray:
    return np.asarray(pc.fill_null(pc.list_value_length(part["captions"]), 0).to_numpy() > 0)


def _files(part: pa.RecordBatch) -> IntArray:
    return np.asarray(pc.list_value_length(part["paths"]).to_numpy(), dtype=np.int64)


def _days(part: pa.RecordBatch) -> pa.Array:
    """Day on which each was taken, as 2019-07-21; "" where that is not stated."""
    return pc.fill_null(pc.utf8_slice_codeunits(part["taken"], 0, 10), "")


def _shapes(part: pa.RecordBatch) -> NDArray[np.str_]:
    wide, high = (part[name].to_numpy() for name in ("width_px", "height_px"))
    near = np.maximum(wide, high) <= SQUARE * np.minimum(wide, high)
    return np.where(near, "square", np.where(wide > high, "landscape", "portrait"))


def _counts(values: pa.Array) -> dict[str, int]:
    return {one["values"]: one["counts"] for one in pc.value_counts(values).to_pylist()}
