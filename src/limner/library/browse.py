"""All pictures of a library in memory, in order of their paths: pages of a list, and records by id.

A list of 100,000 pictures is scrolled through, and the tables are too slow to be asked for every page. One
scan fills it, and it is made anew when the library changes.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from limner.errors import DataError
from limner.library.library import picture_of
from limner.library.scan import IntArray
from limner.library.store import PICTURES, PICTURES_SCHEMA, PRESENT, Store
from limner.records import Picture


class Catalogue:
    """The present pictures of a library, as they were when it was read."""

    def __init__(self, table: pa.Table) -> None:
        """Use `read`.

        Args:
            table: columns of `pictures`, every row with at least one path.
        """
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
        return cls(pa.Table.from_batches(batches, PICTURES_SCHEMA))

    def __len__(self) -> int:
        """Number of pictures."""
        return len(self.ids)

    def __contains__(self, picture: str) -> bool:
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

    def page(self, offset: int, limit: int, words: str = "") -> tuple[int, list[Picture]]:
        """A part of the list.

        Args:
            offset: pictures to pass by, ≥ 0.
            limit: pictures at most, ≥ 0.
            words: only pictures whose file name or captions contain this, in upper or lower case.
        Returns:
            how many pictures there are in all, and those of the page.
        """
        words = " ".join(words.split()).lower()
        if not words:
            stop = min(offset + limit, len(self))
            return len(self), self._take(np.arange(min(offset, stop), stop))
        found = np.flatnonzero(pc.match_substring(self._words, words).to_numpy(zero_copy_only=False))
        return len(found), self._take(found[offset : offset + limit])

    @cached_property
    def files(self) -> int:
        """Number of files that hold the pictures."""
        return int(pc.sum(pc.list_value_length(self._table["paths"])).as_py() or 0)

    @cached_property
    def captioned(self) -> int:
        """Number of pictures with words of their own."""
        lengths = pc.fill_null(pc.list_value_length(self._table["captions"]), 0)
        return int(pc.sum(pc.greater(lengths, 0)).as_py() or 0)

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
