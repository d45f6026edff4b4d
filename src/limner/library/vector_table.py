"""The vectors of one space as one version of their table: by row, by picture, and those nearest to others.

Nothing is held in memory. Where the table has a search index, Lance looks only into the parts of it that lie
nearest, and compares rows that came after the index one by one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from limner.arrays import FloatArray
from limner.errors import DataError
from limner.library.catalogue import IntArray
from limner.library.store import among, vectors_name
from limner.library.vectors import HalfArray

if TYPE_CHECKING:
    from limner.library.store import Store

METRIC, COLUMN = "cosine", "vector"
BLOCK_ROWS = 8_192
LOOKED_UP = 2_000
"""Pictures looked up at a time."""
UNIT = 0.02
"""How far the length of a stored row may be from 1."""


class VectorTable:
    """A space of a library as it was when opened; later writes do not show.

    Attributes:
        space: its name.
        rows: number of vectors, those of deleted pictures included.
        version: of the table.
    """

    def __init__(self, store: Store, space: str) -> None:
        """Open the latest version.

        Raises:
            DataError: the table is damaged.
        """
        self._store, self.space, self._name = store, space, vectors_name(space)
        self._table: Any = store.at(self._name)
        with self._reading():
            self.rows, self.version = int(self._table.count_rows()), int(self._table.version)

    def indexed(self) -> int:
        """Vectors in the search index; 0 without one."""
        with self._reading():
            for one in self._table.describe_indices():
                if COLUMN in one.field_names:
                    return int(one.num_rows_indexed)
        return 0

    def nearest(self, texts: FloatArray, k: int, probes: int | None) -> list[IntArray]:
        """The rows nearest to each of N texts by their compressed vectors, all in one request.

        Args:
            texts: (N, D) float32, N ≥ 1, no row all zeros.
            k: rows per text, ≥ 1; fewer come where the parts looked into hold fewer.
            probes: parts of the index to look into; None compares all vectors in full.
        Returns:
            per text (K,) row numbers of this version, nearest first.
        Raises:
            DataError: the table or its index is damaged, or another process removed this version.
        """
        asked: dict[str, Any] = {"column": COLUMN, "q": texts, "k": k, "metric": METRIC}
        asked |= {"use_index": False} if probes is None else {"nprobes": probes}
        with self._reading():
            found = self._table.scanner(
                ["_distance"], nearest=asked, with_row_id=True, disable_scoring_autoprojection=True
            ).to_table()
        rows, distance = (found[name].to_numpy() for name in ("_rowid", "_distance"))
        text = found["query_index"].to_numpy() if "query_index" in found.column_names else rows * 0
        order = np.lexsort((rows, distance, text))
        ends = np.searchsorted(text[order], np.arange(1, len(texts)))
        return np.split(rows[order].astype(np.int64), ends)

    def at(self, rows: IntArray) -> tuple[list[str], HalfArray]:
        """R ids and (R, D) vectors of some rows.

        Raises:
            DataError: as `nearest`; a vector is not of unit length.
        """
        with self._reading():
            # Lance offers no other way to take rows by what `nearest` names them.
            found = self._table._take_rows(rows.tolist(), columns=["id", COLUMN])
        return self._checked(found)

    def of(self, ids: Sequence[str]) -> tuple[list[str], HalfArray]:
        """As `at`, of pictures, in any order; those without a vector are not among them."""
        found = [
            self._table.scanner(["id", COLUMN], among("id", ids[start : start + LOOKED_UP]))
            for start in range(0, len(ids), LOOKED_UP)
        ]
        with self._reading():
            tables = [one.to_table() for one in found]
        return self._checked(pa.concat_tables(tables) if tables else self._table.schema.empty_table())

    def drawn(self, count: int, rng: np.random.Generator) -> HalfArray:
        """(count, D) vectors drawn by chance, without repeats; all where there are fewer."""
        places = np.sort(rng.permutation(self.rows)[:count])
        with self._reading():
            return self._checked(self._table.take(places.tolist(), columns=["id", COLUMN]))[1]

    def batches(self) -> Iterator[tuple[IntArray, list[str], HalfArray]]:
        """All rows in blocks: row numbers, ids and vectors."""
        with self._reading():
            scanner = self._table.scanner(["id", COLUMN], with_row_id=True, batch_size=BLOCK_ROWS)
            for batch in scanner.to_batches():
                rows = batch.column("_rowid").to_numpy().astype(np.int64)
                yield rows, *self._checked(pa.Table.from_batches([batch]))

    def _checked(self, found: pa.Table) -> tuple[list[str], HalfArray]:
        column = found[COLUMN].combine_chunks()
        width = column.type.list_size
        vectors = column.flatten().to_numpy(zero_copy_only=False).reshape(-1, width)
        lengths = np.einsum("rd,rd->r", vectors, vectors, dtype=np.float32)
        if not (np.abs(lengths - 1) < 2 * UNIT).all():
            raise DataError(
                f"{self._name}: a vector is not of unit length;"
                " 'limner verify LIBRARY --repair' takes it out, 'limner index' makes it again"
            )
        return found["id"].to_pylist(), vectors

    def _reading(self) -> AbstractContextManager[None]:
        return self._store.reading(self._name)
