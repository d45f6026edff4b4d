"""All pictures of a library in memory, in order of their paths: pages of a list, and records by id.

A list of 100,000 pictures is scrolled through, and the tables are too slow to be asked for every page. One
scan fills it, and it is made anew when the library changes.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, date, datetime
from functools import cached_property
from typing import Literal, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from limner.errors import DataError
from limner.library.library import picture_of
from limner.library.occasions import NONE, occasions
from limner.library.scan import BoolArray, IntArray
from limner.library.store import PICTURES, PICTURES_SCHEMA, PLACES, PLACES_SCHEMA, PRESENT, Store
from limner.pictures.places import Place
from limner.records import Picture, Record

Shape = Literal["landscape", "portrait", "square"]
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
        occasion: id of a picture of the same occasion, or "".
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
    """The present pictures of a library, as they were when it was read."""

    def __init__(self, table: pa.Table, places: Mapping[str, Place] | None = None) -> None:
        """Use `read`.

        Args:
            table: columns of `pictures`, every row with at least one path.
            places: id → where it was taken, where that is known.
        """
        self._places = places or {}
        first = pc.list_element(table["paths"], 0) if len(table) else table["id"]
        self._table = table.take(pc.sort_indices(first)).combine_chunks()
        self.ids: list[str] = self._table["id"].to_pylist()
        self._rows = {picture: row for row, picture in enumerate(self.ids)}

    @classmethod
    def read(cls, store: Store) -> Catalogue:
        """The catalogue of a library's tables.

        Raises:
            DataError: a table is damaged.
        """
        batches = store.scan(PICTURES, PICTURES_SCHEMA.names, PRESENT)
        located = store.rows(PLACES, PLACES_SCHEMA.names) if store.has(PLACES) else ()
        places = {picture: (north, east) for picture, north, east in located}
        return cls(pa.Table.from_batches(batches, PICTURES_SCHEMA), places)

    def __len__(self) -> int:
        """Number of pictures."""
        return len(self.ids)

    def __contains__(self, picture: object) -> bool:
        """Whether a picture is in it."""
        return picture in self._rows

    def pictures(self, ids: Sequence[str]) -> list[Picture]:
        """Records by id, in that order.

        Raises:
            DataError: there is no such picture.
        """
        absent = next((one for one in ids if one not in self._rows), None)
        if absent is not None:
            raise DataError(
                f"library: no picture {absent[:80]!r}; it was deleted, or is of another library; index again"
            )
        return self._take(np.array([self._rows[one] for one in ids], dtype=np.int64))

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
        if not words and only == Only():
            stop = min(offset + limit, len(self))
            return len(self), self._take(np.arange(min(offset, stop), stop))
        found = self._found(words, only, used)
        return len(found), self._take(found[offset : offset + limit])

    def _found(self, words: str, only: Only, used: Collection[str]) -> IntArray:
        """Rows that fit, in order."""
        fits = np.ones(len(self), dtype=bool)
        if words:
            fits &= pc.match_substring(self._words, words).to_numpy(zero_copy_only=False)
        if only.folder:
            inside = np.zeros(len(self), dtype=bool)
            below = only.folder.rstrip(os.sep) + os.sep
            paths = self._table["paths"].combine_chunks()
            held = pc.starts_with(pc.list_flatten(paths), below).to_numpy(zero_copy_only=False)
            inside[pc.list_parent_indices(paths).to_numpy()[held]] = True
            fits &= inside
        if only.dated is not None:
            fits &= (self._days != "") == only.dated
        if only.after:
            fits &= self._days >= only.after.isoformat()
        if only.before:
            fits &= (self._days != "") & (self._days <= only.before.isoformat())
        if only.shape:
            fits &= self._shapes == only.shape
        if only.used is not None:
            rows = [self._rows[one] for one in used if one in self._rows]
            fits &= np.isin(np.arange(len(self)), rows) == only.used
        if only.captioned is not None:
            fits &= self._captioned == only.captioned
        if only.occasion:
            fits &= np.isin(np.arange(len(self)), self._same_occasion(only.occasion))
        return np.flatnonzero(fits)

    def same_occasion(self, picture: str) -> list[Picture]:
        """Pictures of the occasion of one, itself included, in the order in which they were taken.

        Raises:
            DataError: there is no such picture.
        """
        return self._take(self._same_occasion(picture))

    def _same_occasion(self, picture: str) -> IntArray:
        self.pictures([picture])
        row = self._rows[picture]
        own = self._occasions[row]
        if own == NONE:
            return np.array([row])
        rows = np.flatnonzero(self._occasions == own)
        return rows[
            np.argsort(
                self._table["taken"].take(rows).fill_null("").to_numpy(zero_copy_only=False), kind="stable"
            )
        ]

    def occasions_of(self, ids: Sequence[str]) -> IntArray:
        """(R,) number of the occasion of each picture, −1 where none is known."""
        return self._occasions[[self._rows[one] for one in ids]]

    def facets(self, used: Collection[str], sources: Sequence[str] = ("",)) -> Facets:
        """What there is to choose from, with the number of pictures of each.

        Args:
            used: ids of the pictures that count as used.
            sources: folders at or below which folders are named; "" names all.
        """
        roots = tuple(one.rstrip(os.sep) + os.sep for one in sources)
        months = Counter(day[:7] for day in self._days if day)
        return Facets(
            folders={one: count for one, count in self._folders.items() if (one + os.sep).startswith(roots)},
            months=dict(sorted(months.items())),
            undated=int((self._days == "").sum()),
            shapes={shape: int((self._shapes == shape).sum()) for shape in get_args(Shape)},
            used=sum(one in self._rows for one in used),
            uncaptioned=int((~self._captioned).sum()),
        )

    @cached_property
    def files(self) -> int:
        """Number of files that hold the pictures."""
        return int(pc.sum(pc.list_value_length(self._table["paths"])).as_py() or 0)

    @property
    def captioned(self) -> int:
        """Number of pictures with words of their own."""
        return int(self._captioned.sum())

    @cached_property
    def _captioned(self) -> BoolArray:
        lengths = pc.fill_null(pc.list_value_length(self._table["captions"]), 0)
        return np.asarray(pc.greater(lengths, 0).to_numpy(), dtype=bool)

    @cached_property
    def _days(self) -> NDArray[np.str_]:
        """Day on which each was taken, as 2019-07-21; "" where that is not stated."""
        days = pc.fill_null(pc.utf8_slice_codeunits(self._table["taken"], 0, 10), "")
        return np.array(days.to_pylist(), dtype="U10")

    @cached_property
    def _shapes(self) -> NDArray[np.str_]:
        wide, high = (self._table[name].to_numpy() for name in ("width_px", "height_px"))
        near = np.maximum(wide, high) <= SQUARE * np.minimum(wide, high)
        return np.where(near, "square", np.where(wide > high, "landscape", "portrait"))

    @cached_property
    def _folders(self) -> dict[str, int]:
        """Every folder that holds pictures, or at least two folders with some → number of its pictures."""
        own: Counter[str] = Counter()
        for paths in self._table["paths"].to_pylist():
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
    def _occasions(self) -> IntArray:
        """(M,) number of the occasion of each."""
        texts = self._table["taken"].to_pylist()
        # The local clock, whatever its zone: an occasion is a stretch of somebody's day.
        stamps = [
            None if text is None else datetime.fromisoformat(text).replace(tzinfo=UTC) for text in texts
        ]
        taken = np.array([np.nan if one is None else one.timestamp() for one in stamps], dtype=np.float64)
        spots = np.full((len(self), 2), np.nan)
        for row, picture in enumerate(self.ids):
            if picture in self._places:
                spots[row] = self._places[picture]
        first = self._table["paths"].to_pylist()
        numbers: dict[str, int] = {}
        folders = [numbers.setdefault(paths[0].rpartition(os.sep)[0], len(numbers)) for paths in first]
        return occasions(taken, spots, np.array(folders, dtype=np.int64))

    @cached_property
    def alike(self) -> list[list[int]]:
        """Rows that show the same: near-duplicates, and single pictures that several files hold."""
        groups: dict[str, list[int]] = {}
        for row, group in enumerate(self._table["group"].to_pylist()):
            groups.setdefault(group, []).append(row)
        files = pc.list_value_length(self._table["paths"]).to_numpy()
        return [rows for rows in groups.values() if len(rows) > 1 or files[rows[0]] > 1]

    def duplicates(self, offset: int, limit: int) -> list[tuple[str, list[Picture]]]:
        """Groups of pictures that show the same, each with its id; see `alike`."""
        groups = (self._take(np.array(rows)) for rows in self.alike[offset : offset + limit])
        return [(pictures[0].group, pictures) for pictures in groups]

    def _take(self, rows: IntArray) -> list[Picture]:
        return [picture_of(row) for row in self._table.take(rows).to_pylist()]

    @cached_property
    def _words(self) -> pa.Array:
        """Per picture, its file names and captions in lower case."""
        said = []
        for paths, captions in zip(
            *(self._table[name].to_pylist() for name in ("paths", "captions")), strict=True
        ):
            names = [path.rpartition(os.sep)[2] for path in paths]
            # Python's own lower case, as the question gets it; Arrow's differs for a few letters.
            said.append("\n".join([*names, *(one["text"] for one in captions or ())]).lower())
        return pa.array(said, pa.large_string())
