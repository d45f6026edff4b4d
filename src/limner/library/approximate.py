"""Search in a library of more pictures than fit in memory: what seems nearest, then an exact search of that.

Lance's index gives several times as many candidates as are wanted, for each text and channel. Their vectors
are read in full, and `limner.library.search` ranks them as it does a small library. Means and spreads are
those of all pictures, see `limner.library.population`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from limner.library.catalogue import BoolArray
from limner.library.channels import EncodedChannel
from limner.library.population import Statistics, read_statistics
from limner.library.search import Hits, Index, Likeness, Request
from limner.library.store import PICTURES, STATISTICS, Approximation, SpaceInfo
from limner.library.vector_table import VectorTable
from limner.library.vectors import Float64Array, Gallery, HalfArray, Moments, Space

if TYPE_CHECKING:
    from limner.library.library import Library

SEVERAL = 4
"""Candidates of a text and channel for each picture wanted, where that is more than what was measured."""
Vectors = tuple[list[str], HalfArray]


@dataclass(frozen=True)
class PartOfSpace(Space):
    """Vectors of some pictures, with what is known of all.

    Attributes:
        whole: of all vectors of the space.
    """

    whole: Statistics = field(kw_only=True)

    @cached_property
    def moments(self) -> Moments:
        """Moments of all vectors."""
        return self.whole.moments

    @cached_property
    def held(self) -> int:
        """Pictures that have a vector."""
        return self.whole.held


class Part(Index):
    """Candidates out of all pictures, searched as an index of their own.

    `Hits.evidence` is of all pictures: those seen enter exactly, and pictures of the sample that were not
    seen stand for all others. It is exact where the sample is the whole library. Else the error is that of
    a mean of so many pictures drawn by chance, of exp(score) below what was seen.

    Args:
        gallery: the candidates.
        seen: everything that was compared, in the spaces of the channels.
        rest: the sample.
        pictures: number of all.
    """

    def __init__(self, gallery: Gallery, seen: Index | None, rest: Index, pictures: int) -> None:
        super().__init__(gallery)
        self._seen, self._rest, self._all = seen or self, rest, pictures

    @property
    def pictures(self) -> int:
        """Number of pictures of the library."""
        return self._all

    def search(self, channels: Sequence[EncodedChannel], k: int, *, exclude: BoolArray | None = None) -> Hits:
        """As of `Index`, among the candidates."""
        hits = super().search(channels, k, exclude=exclude)
        barred: set[str] = set()
        if exclude is not None:
            barred = {self.gallery.ids[row] for row in np.flatnonzero(exclude).tolist()}
        known = all(one.space in self._seen.gallery.spaces for one in channels)
        seen = self._seen if known else self
        return replace(hits, evidence=self._evidence(channels, seen, barred))

    def _evidence(self, channels: Sequence[EncodedChannel], seen: Index, barred: set[str]) -> Float64Array:
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


def _mass(index: Index, channels: Sequence[EncodedChannel], without: set[str]) -> Float64Array:
    """(N,) log Σ exp(score) over all but some of an index's pictures."""
    exclude = np.array([one in without for one in index.gallery.ids], dtype=bool)
    count = int(np.count_nonzero(~exclude))
    if not count:
        return np.full(len(channels[0].texts), -np.inf)
    return np.asarray(Index.search(index, channels, 1, exclude=exclude).evidence + np.log(count))


class Approximate:
    """A library with search indices, ready to be asked; it stays as it was when opened.

    Attributes:
        pictures: number of present pictures.
    """

    def __init__(self, library: Library, spaces: Sequence[str]) -> None:
        """Read the statistics of some spaces.

        Args:
            library: that `usable` is true of.
            spaces: those that will be asked.
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
        self._rest = Index(Gallery(ids, ids, self._spaces(ids, held)))

    @staticmethod
    def usable(library: Library, spaces: Iterable[str]) -> bool:
        """Whether a library is large, and the search indices of some spaces were built and measured."""
        settings = library.settings
        if not all(one in settings.searches for one in spaces) or not library.store.has(STATISTICS):
            return False
        return len(library) >= settings.approximate_from

    def held(self, space: str) -> int:
        """Pictures that have a vector of a space."""
        return self._statistics[space].held

    def among(
        self, requests: Sequence[Request], ids: Sequence[str] = (), like: Likeness | None = None
    ) -> Part:
        """The candidates of some searches as an index.

        Args:
            requests: searches that will be made of the index.
            ids: pictures that must be in it, such as fixed and banned ones, as far as there are such.
            like: a search for pictures like some others that will be made as well; none in a space that the
                library lacks.
        Returns:
            near-duplicates, presence and all spaces of the candidates are known.
        Raises:
            DataError: a table or index is damaged, or another process has changed the library meanwhile.
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
        seen = Index(Gallery(everything, everything, self._spaces(everything, found)))
        kept = {*named}
        for channels, k in requests:
            rows = seen.search(channels, min(k + len(named), max(len(everything), 1))).rows
            kept |= {everything[row] for row in np.unique(rows)}
        groups = self._groups(sorted(kept))
        chosen = sorted(groups)
        rest = {space: self._tables[space].of(chosen) for space in self._tables if space not in found}
        gallery = Gallery(chosen, [groups[one] for one in chosen], self._spaces(chosen, found | rest))
        return Part(gallery, seen if found else None, self._rest, self.pictures)

    def _found(self, requests: Sequence[Request], more: int) -> dict[str, Vectors]:
        """Space → candidates of all requests in it."""
        rows: dict[str, list[np.ndarray[tuple[int], np.dtype[np.int64]]]] = {}
        for channels, k in requests:
            for channel in channels:
                own = rows.setdefault(channel.space, [])
                texts = channel.texts[channel.texts.any(axis=1)]
                if len(texts):
                    # Evidence that falls with the cosine is largest where the cosine is least.
                    falling = channel.evidence.slope + channel.evidence.z_slope < 0
                    own += self._nearest(channel.space, -texts if falling else texts, k + more)
        return {
            space: self._tables[space].at(np.unique(np.concatenate([np.zeros(0, np.int64), *own])))
            for space, own in rows.items()
        }

    def _nearest(
        self, space: str, texts: np.ndarray[tuple[int, int], np.dtype[np.float32]], k: int
    ) -> list[np.ndarray[tuple[int], np.dtype[np.int64]]]:
        table, asked = self._tables[space], self._searches[space]
        # Vectors of deleted pictures are found as well, and dropped.
        spare = table.rows / max(self.held(space), 1)
        wanted = min(table.rows, int(np.ceil(max(asked.candidates, SEVERAL * k) * spare)))
        return table.nearest(texts, wanted, probes_for(asked, wanted)) if wanted else []

    def _groups(self, ids: Sequence[str]) -> dict[str, str]:
        """Present pictures of some → the near-duplicate group of each."""
        rows = self._store.lookup(PICTURES, "id", ids, ["id", "group", "paths"])
        return {row["id"]: row["group"] for row in rows if row["paths"]}

    def _spaces(self, ids: Sequence[str], found: dict[str, Vectors]) -> dict[str, Space]:
        """Vectors of some pictures, in their order."""
        place = {one: row for row, one in enumerate(ids)}
        spaces: dict[str, Space] = {}
        for space, (met, vectors) in found.items():
            info: SpaceInfo = self._infos[space]
            matrix, present = np.zeros((len(ids), info.dim), np.float16), np.zeros(len(ids), dtype=bool)
            real = [(place[one], row) for row, one in enumerate(met) if one in place]
            if real:
                to, source = np.array(real).T
                matrix[to], present[to] = vectors[source], True
            spaces[space] = PartOfSpace(
                matrix=matrix,
                present=present,
                fingerprint=info.fingerprint,
                whole=self._statistics[space],
            )
        return spaces


def probes_for(asked: Approximation, wanted: int) -> int | None:
    """Parts of an index to look into for so many vectors; None where there is no index.

    What was measured is at least; where more vectors are wanted than those parts hold, more are looked into.
    """
    if not asked.partitions:
        return None
    needed = int(np.ceil(4 * wanted * asked.partitions / max(asked.rows, 1)))
    return min(asked.partitions, max(asked.probes, needed))


def _joined(one: Vectors, other: Vectors) -> Vectors:
    return one[0] + other[0], np.concatenate([one[1], other[1]]) if other[0] else one[1]


def _without(ids: Sequence[str], met: Sequence[str]) -> list[str]:
    known = set(met)
    return [one for one in ids if one not in known]
