"""Search in a library larger than memory: approximate retrieval of candidates, then exact re-ranking.

Lance's index retrieves several times as many candidates as needed, for each text and channel. Their full
vectors are read, and `limner.scale.search` ranks them as it ranks a small library. Means and standard
deviations are those of all pictures, computed once by `limner.scale.vector_index`. The evidence of the whole
library needs the score of every picture; a random sample stands for the pictures that were not retrieved.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from limner.arrays import FloatArray
from limner.errors import DataError
from limner.scale.catalogue import BoolArray, IntArray
from limner.scale.search import TableIndex
from limner.scale.store import PICTURES, STATISTICS, Approximation, TableStore, among, vectors_name
from limner.scale.vectors import Float64Array, HalfArray, TableGallery, TableMoments, TableSpace
from limner.store import SpaceInfo
from limner.store.search import EncodedChannel, Nearest, Request, SimilarityQuery

if TYPE_CHECKING:
    from limner.scale.library import PictureStore

SEVERAL = 4
"""Number of candidates per text, channel and requested picture, if that is more than the measured number."""
METRIC, COLUMN = "cosine", "vector"
BLOCK_ROWS = 8_192
LOOKED_UP = 2_000
"""Pictures looked up at a time."""
UNIT = 0.02
"""Maximum deviation of a stored row's length from 1."""
IDS = "pictures"
Vectors = tuple[list[str], HalfArray]


class VectorTable:
    """Vectors of a space at the time of opening; later writes are not visible.

    Attributes:
        space: name of the space.
        rows: number of vectors, those of deleted pictures included.
        version: version of the table.
    """

    def __init__(self, store: TableStore, space: str) -> None:
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
        """Retrieve the rows nearest to each of N texts by their compressed vectors, in one request.

        Args:
            texts: (N, D) float32, N ≥ 1, no row all zeros.
            k: rows per text, ≥ 1; fewer if the searched partitions contain fewer.
            probes: number of partitions to search; None compares all full vectors.
        Returns:
            (K,) row numbers of this version per text, nearest first.
        Raises:
            DataError: the table or its index is damaged, or another process removed this version.
        """
        found = self._nearest(["_distance"], texts, k, probes)
        rows, distance = (found[name].to_numpy() for name in ("_rowid", "_distance"))
        text = found["query_index"].to_numpy() if "query_index" in found.column_names else rows * 0
        order = np.lexsort((rows, distance, text))
        ends = np.searchsorted(text[order], np.arange(1, len(texts)))
        return np.split(rows[order].astype(np.int64), ends)

    def near(self, texts: FloatArray, k: int, probes: int | None) -> Vectors:
        """Ids and vectors of all rows that `nearest` finds for any of the texts, in order of row numbers.

        Raises:
            DataError: as `nearest`; a vector is not of unit length.
        """
        found = self._nearest(["id", COLUMN, "_distance"], texts, k, probes)
        first = np.unique(found["_rowid"].to_numpy(), return_index=True)[1]
        return self._checked(found.take(first))

    def _nearest(self, columns: list[str], texts: FloatArray, k: int, probes: int | None) -> pa.Table:
        asked: dict[str, Any] = {"column": COLUMN, "q": texts, "k": k, "metric": METRIC}
        asked |= {"use_index": False} if probes is None else {"nprobes": probes}
        with self._reading():
            return self._table.scanner(
                columns, nearest=asked, with_row_id=True, disable_scoring_autoprojection=True
            ).to_table()

    def of(self, ids: Sequence[str]) -> Vectors:
        """Ids and vectors of pictures, in any order, without pictures that have no vector.

        Raises:
            DataError: as `near`.
        """
        found = [
            self._table.scanner(["id", COLUMN], among("id", ids[start : start + LOOKED_UP]))
            for start in range(0, len(ids), LOOKED_UP)
        ]
        with self._reading():
            tables = [one.to_table() for one in found]
        return self._checked(pa.concat_tables(tables) if tables else self._table.schema.empty_table())

    def drawn(self, count: int, rng: np.random.Generator) -> HalfArray:
        """Random vectors (count, D) without repeats; all if there are fewer."""
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

    def _checked(self, found: pa.Table) -> Vectors:
        column = found[COLUMN].combine_chunks()
        width = column.type.list_size
        vectors = column.flatten().to_numpy(zero_copy_only=False).reshape(-1, width)
        lengths = np.einsum("rd,rd->r", vectors, vectors, dtype=np.float32)
        if not (np.abs(lengths - 1) < 2 * UNIT).all():
            raise DataError(
                f"{self._name}: a vector is not of unit length;"
                " 'limner verify LIBRARY --repair' removes it, 'limner index' computes it again"
            )
        return found["id"].to_pylist(), vectors

    def _reading(self) -> AbstractContextManager[None]:
        return self._store.reading(self._name)


@dataclass(frozen=True)
class Statistics:
    """Statistics of all vectors of a space.

    Attributes:
        moments: moments of the vectors of present pictures.
        held: number of vectors.
        ids: (n,) pictures of the sample that have a vector, 64 hexadecimal digits, ascending.
        vectors: (n, D) vectors of the sample.
    """

    moments: TableMoments
    held: int
    ids: NDArray[np.bytes_]
    vectors: HalfArray


def read_statistics(
    store: TableStore, spaces: Sequence[str]
) -> tuple[NDArray[np.bytes_], dict[str, Statistics]]:
    """Read the ids of the sample and the statistics of some spaces, as `write_statistics` stored them.

    Raises:
        DataError: the statistics are damaged or missing.
    """
    wanted = ", ".join(f"'{one}'" for one in (IDS, *spaces))
    held = dict(store.rows(STATISTICS, ["id", "data"], f"id IN ({wanted})"))
    try:
        found = {name: np.load(io.BytesIO(data), allow_pickle=False) for name, data in held.items()}
        statistics = {
            space: Statistics(
                TableMoments(found[space]["mean"], found[space]["covariance"]),
                int(found[space]["held"]),
                found[space]["ids"],
                found[space]["vectors"],
            )
            for space in spaces
        }
        return found[IDS]["ids"], statistics
    # a damaged zip file of arrays can raise any error of zipfile, zlib, struct or tokenize
    except Exception as error:
        reason = " ".join(str(error).split())[:80]
        raise DataError(
            f"table {STATISTICS!r}: damaged or not complete ({reason}); run 'limner index' again"
        ) from error


@dataclass(frozen=True)
class SpaceSubset(TableSpace):
    """Vectors of some pictures, with the statistics of all.

    Attributes:
        whole: statistics of all vectors of the space.
    """

    whole: Statistics = field(kw_only=True)

    @cached_property
    def moments(self) -> TableMoments:
        """Moments of all vectors."""
        return self.whole.moments

    @cached_property
    def held(self) -> int:
        """Number of pictures that have a vector."""
        return self.whole.held


class CandidateIndex(TableIndex):
    """Index of the candidates.

    `Nearest.evidence` covers all pictures: compared ones enter exactly, and the other pictures of the sample
    stand for all that were not compared. It is exact if the sample is the whole library; otherwise its error
    is that of a mean of exp(score) over a random sample.

    Args:
        gallery: the candidates.
        seen: all compared pictures, in the spaces of the channels.
        rest: the sample.
        pictures: number of all pictures.
    """

    def __init__(
        self, gallery: TableGallery, seen: TableIndex | None, rest: TableIndex, pictures: int
    ) -> None:
        super().__init__(gallery)
        self._seen, self._rest, self._all = seen or self, rest, pictures

    @property
    def pictures(self) -> int:
        """Number of pictures of the library."""
        return self._all

    def search(
        self, channels: Sequence[EncodedChannel], k: int, *, exclude: BoolArray | None = None
    ) -> Nearest:
        """Search like `Index`, but only among the candidates."""
        hits = super().search(channels, k, exclude=exclude)
        barred: set[str] = set()
        if exclude is not None:
            barred = {self.gallery.ids[row] for row in np.flatnonzero(exclude).tolist()}
        known = all(one.space in self._seen.gallery.spaces for one in channels)
        seen = self._seen if known else self
        return replace(hits, evidence=self._evidence(channels, seen, barred))

    def _evidence(
        self, channels: Sequence[EncodedChannel], seen: TableIndex, barred: set[str]
    ) -> Float64Array:
        met = seen.gallery.ids
        own, counted = _mass(seen, channels, barred), len(met) - len(barred.intersection(met))
        others = self._all - len(barred) - counted
        if others > 0:
            away = barred.union(met)
            sampled = len(self._rest.gallery) - len(away.intersection(self._rest.gallery.ids))
            if sampled:
                mass = _mass(self._rest, channels, away) + np.log(others / sampled)
                own = np.logaddexp(own, mass)
        return np.asarray(own - np.log(max(self._all - len(barred), 1)))


def _mass(index: TableIndex, channels: Sequence[EncodedChannel], without: set[str]) -> Float64Array:
    """Log Σ exp(score) (N,) over the pictures of an index except some."""
    exclude = np.array([one in without for one in index.gallery.ids], dtype=bool)
    count = int(np.count_nonzero(~exclude))
    if not count:
        return np.full(len(channels[0].texts), -np.inf)
    return np.asarray(TableIndex.search(index, channels, 1, exclude=exclude).evidence + np.log(count))


class ApproximateIndex:
    """Snapshot of a library that has search indices.

    Attributes:
        pictures: number of present pictures.
    """

    def __init__(self, library: PictureStore, spaces: Sequence[str]) -> None:
        """Read the statistics of some spaces.

        Args:
            library: library for which `usable` is true.
            spaces: spaces that will be searched.
        Raises:
            DataError: a table is damaged.
        """
        self._store, self._infos = library.store, library.settings.spaces
        self._searches = library.settings.searches
        self._tables = {space: VectorTable(library.store, space) for space in spaces}
        self.pictures = len(library)
        sample, self._statistics = read_statistics(library.store, spaces)
        self._gone = library.store.count(PICTURES) > self.pictures
        ids = [one.decode() for one in sample]
        held = {
            space: ([one.decode() for one in known.ids], known.vectors)
            for space, known in self._statistics.items()
        }
        self._rest = TableIndex(TableGallery(ids, ids, self._spaces(ids, held)))

    @staticmethod
    def usable(library: PictureStore, spaces: Iterable[str]) -> bool:
        """Whether a library is large, and has measured search indices of the spaces."""
        settings = library.settings
        if not all(one in settings.searches for one in spaces) or not library.store.has(STATISTICS):
            return False
        return len(library) >= settings.approximate_from

    def held(self, space: str) -> int:
        """Pictures that have a vector of a space."""
        return self._statistics[space].held

    def among(
        self, requests: Sequence[Request], ids: Sequence[str] = (), like: SimilarityQuery | None = None
    ) -> CandidateIndex:
        """Retrieve the candidates of some searches as an index.

        Args:
            requests: searches that will be run on the index.
            ids: pictures that must be in it, such as fixed and banned ones, if they exist.
            like: search for pictures similar to given ones that will be run too; ignored if the library lacks
                its space.
        Returns:
            Index of the candidates, with all their spaces and near-duplicate groups.
        Raises:
            DataError: a table or index is damaged, or another process has changed the library in the
                meantime.
        """
        if like is not None and like.space in self._tables:
            shown = self._tables[like.space].of(like.ids)[1].astype(np.float32)
            look = EncodedChannel("look", like.space, like.evidence, shown)
            requests = [*requests, *([([look], like.k)] if len(shown) else [])]
        named = list(dict.fromkeys(ids))
        found = self._found(requests, len(named))
        everything = sorted({one for met, _ in found.values() for one in met}.union(named))
        if self._gone:
            present = self._groups(everything)
            everything = [one for one in everything if one in present]
        for space, (met, vectors) in found.items():
            found[space] = _joined((met, vectors), self._tables[space].of(_without(everything, met)))
        seen = TableIndex(TableGallery(everything, everything, self._spaces(everything, found)))
        kept = {*named}
        for channels, k in requests:
            rows = seen.search(channels, min(k + len(named), max(len(everything), 1))).rows
            kept |= {everything[row] for row in np.unique(rows)}
        groups = self._groups(sorted(kept))
        chosen = sorted(groups)
        rest = {space: self._tables[space].of(chosen) for space in self._tables if space not in found}
        gallery = TableGallery(chosen, [groups[one] for one in chosen], self._spaces(chosen, found | rest))
        return CandidateIndex(gallery, seen if found else None, self._rest, self.pictures)

    def _found(self, requests: Sequence[Request], more: int) -> dict[str, Vectors]:
        """Candidates of all requests, by space."""
        found: dict[str, Vectors] = {}
        for channels, k in requests:
            for channel in channels:
                own = found.setdefault(channel.space, self._tables[channel.space].of(()))
                texts = channel.texts[channel.texts.any(axis=1)]
                if len(texts):
                    # if evidence decreases with the cosine, the smallest cosine has the most evidence
                    falling = channel.evidence.slope + channel.evidence.z_slope < 0
                    near = self._near(channel.space, -texts if falling else texts, k + more)
                    found[channel.space] = _joined(own, near)
        return found

    def _near(self, space: str, texts: FloatArray, k: int) -> Vectors:
        table, asked = self._tables[space], self._searches[space]
        # vectors of deleted pictures are retrieved too, and dropped
        spare = table.rows / max(self.held(space), 1)
        wanted = min(table.rows, int(np.ceil(max(asked.candidates, SEVERAL * k) * spare)))
        return table.near(texts, wanted, probes_for(asked, wanted)) if wanted else table.of(())

    def _groups(self, ids: Sequence[str]) -> dict[str, str]:
        """Near-duplicate groups of the given pictures, as far as they exist."""
        rows = self._store.lookup(PICTURES, "id", ids, ["id", "group", "paths"])
        return {row["id"]: row["group"] for row in rows if row["paths"]}

    def _spaces(self, ids: Sequence[str], found: dict[str, Vectors]) -> dict[str, TableSpace]:
        """Vectors of some pictures, in the order of these."""
        place = {one: row for row, one in enumerate(ids)}
        spaces: dict[str, TableSpace] = {}
        for space, (met, vectors) in found.items():
            info: SpaceInfo = self._infos[space]
            matrix, present = np.zeros((len(ids), info.dim), np.float16), np.zeros(len(ids), dtype=bool)
            real = [(place[one], row) for row, one in enumerate(met) if one in place]
            if real:
                to, source = np.array(real).T
                matrix[to], present[to] = vectors[source], True
            spaces[space] = SpaceSubset(
                matrix=matrix,
                present=present,
                fingerprint=info.fingerprint,
                whole=self._statistics[space],
            )
        return spaces


def probes_for(asked: Approximation, wanted: int) -> int | None:
    """Number of partitions to search for so many vectors; None without an index.

    At least the measured number; more if these partitions contain fewer vectors than wanted.
    """
    if not asked.partitions:
        return None
    needed = int(np.ceil(4 * wanted * asked.partitions / max(asked.rows, 1)))
    return min(asked.partitions, max(asked.probes, needed))


def _joined(one: Vectors, other: Vectors) -> Vectors:
    """Join two sets of vectors, with each picture once."""
    known = set(one[0])
    more = [row for row, picture in enumerate(other[0]) if picture not in known]
    if not more:
        return one
    return one[0] + [other[0][row] for row in more], np.concatenate([one[1], other[1][more]])


def _without(ids: Sequence[str], met: Sequence[str]) -> list[str]:
    known = set(met)
    return [one for one in ids if one not in known]
