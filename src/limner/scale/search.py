"""Channels, and exact search: all steps of a text are compared with all pictures, in one product per channel.

A channel compares step texts with pictures in one space. Its cosine s becomes evidence, the logarithm of
P(s | the picture fits) / P(s | any other picture), modelled as linear in s and in s standardised over the
gallery for this text. Evidence of channels adds up; a channel absent for a picture adds 0, so absence neither
helps nor hurts.

A pass over everything keeps all rows that may be among the best, by bounds on the rounding; float32 scores of
those decide, so that the answer equals that of a full float32 scan. Vectors of few pictures are held in
float32; of more, a few become float32 at a time, within the cache of a core. It neither encodes nor decodes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from limner.arrays import FloatArray, expect, scores, sum_errors
from limner.errors import ConfigError, NumericsError
from limner.scale.catalogue import BoolArray, IntArray
from limner.scale.vectors import (
    ALONE_PRODUCTS,
    Float64Array,
    HalfArray,
    TableGallery,
    TableSpace,
    over_blocks,
    single,
)
from limner.store.search import (
    EncodedChannel,
    Nearest,
    Request,
    Scored,
    SimilarityQuery,
)

BLOCK_ROWS = 16_384
"""Number of pictures scored at a time, so that their scores fit a core's cache; so many stay in float32."""

GATHERED_ROWS = 512
"""Number of scattered rows that one thread reads."""

CACHED_BYTES = 1 << 20
"""Number of rows converted to float32 at a time."""

SMALLEST_GATHER = 8
"""Number of rows below which a product on one core is not worthwhile."""


@dataclass(frozen=True)
class RoughMatches:
    """Rows that may be among the best of some texts, in any order, with approximate scores.

    Attributes:
        texts, rows: (R,) indices of text and row.
        values: (R,) rough scores.
    """

    texts: IntArray
    rows: IntArray
    values: FloatArray

    def where(self, kept: BoolArray | IntArray) -> RoughMatches:
        """Select rows by a mask or by indices."""
        return RoughMatches(self.texts[kept], self.rows[kept], self.values[kept])


class RoughTop:
    """Rows whose exact score may be among the best, for N texts."""

    def __init__(self, kept: int, slack: Float64Array) -> None:
        """Start without rows.

        Args:
            kept: number of rows for each text.
            slack: (N,) how far below the last of these a row's rough score may be so that its exact score may
                still belong to them; above 0.
        """
        self._kept, self._slack = kept, slack.astype(np.float32)
        self._floor: FloatArray = np.full(len(slack), -np.inf, dtype=np.float32)
        self._found: list[RoughMatches] = []
        self._waiting, self._room = 0, 2 * kept * len(slack)

    def near(self, values: FloatArray, start: int) -> RoughMatches:
        """Select the rows of a block that may be among the best; thread-safe.

        Args:
            values: (N, R) rough scores.
            start: row of the first.
        """
        floor = self._floor
        if self._kept < values.shape[1] and np.isneginf(floor).any():
            floor = np.partition(values, -self._kept, axis=1)[:, -self._kept] - self._slack
            self._floor = np.maximum(self._floor, floor)  # a lost update only loosens the bound
        texts, places = np.divmod(np.flatnonzero(values > floor[:, None]), values.shape[1])
        return RoughMatches(texts, places + start, values[texts, places])

    def add(self, found: RoughMatches) -> None:
        """Add the result of `near` for a block."""
        self._found.append(found)
        self._waiting += len(found.rows)
        if self._waiting > self._room:
            self._room = 2 * max(self._room, len(self.cut().rows))

    def cut(self) -> RoughMatches:
        """Drop rows that cannot be among the best; return the others, sorted by text and row."""
        none = np.zeros(0, dtype=np.int64)
        pieces = [RoughMatches(none, none, np.zeros(0, dtype=np.float32)), *self._found]
        every = RoughMatches(
            np.concatenate([one.texts for one in pieces]),
            np.concatenate([one.rows for one in pieces]),
            np.concatenate([one.values for one in pieces]),
        )
        every = every.where(np.argsort(every.texts, kind="stable"))
        bounds = np.searchsorted(every.texts, np.arange(len(self._floor) + 1))
        floor = self._floor.copy()
        for text, (first, last) in enumerate(pairwise(bounds)):
            if self._kept < last - first:
                values = every.values[first:last]
                floor[text] = np.partition(values, -self._kept)[-self._kept] - self._slack[text]
        self._floor = np.maximum(self._floor, floor)
        left = every.where(every.values > floor[every.texts])
        self._found, self._waiting = [left], len(left.rows)
        return left


class Float32Cosines:
    """Cosines of some texts with all rows of a space that are held in float32."""

    def __init__(self, texts: FloatArray, rows: FloatArray) -> None:
        """Set texts and rows.

        Args:
            texts: (N, D) rows of length at most 1.
            rows: (M, D) rows of length at most 1.
        """
        self._texts, self._rows = texts, rows
        self.errors = sum_errors(texts)

    def rough(self, start: int, stop: int) -> FloatArray:
        """(N, R) cosines with a range of rows, within `errors` of those of `exact`."""
        return self._texts @ self._rows[start:stop].T

    def exact(self, rows: IntArray) -> FloatArray:
        """(N, R) cosines with some rows.

        Raises:
            NumericsError: a cosine is not finite.
        """
        return scores(self._texts, self._rows[rows])


class Float16Cosines:
    """Cosines of texts with the stored float16 rows of a space, converted to float32 a few at a time."""

    def __init__(self, texts: FloatArray, rows: HalfArray) -> None:
        """Set texts and rows.

        Args:
            texts: (N, D) rows of length at most 1.
            rows: (M, D) rows to compare them with.
        """
        self._texts, self._rows = np.array(texts), rows
        self.errors = sum_errors(texts)

    def rough(self, start: int, stop: int) -> FloatArray:
        """(N, R) cosines with a range of rows, within `errors` of those of `exact`.

        Raises:
            NumericsError: a row is not finite.
        """
        matrix = self._rows
        step = max(CACHED_BYTES // (4 * matrix.shape[1]), 1)
        table: FloatArray = np.empty((len(self._texts), stop - start), dtype=np.float32)
        for first in range(start, stop, step):
            last = min(first + step, stop)
            table[:, first - start : last - start] = self._texts @ single(matrix[first:last]).T
        if not np.isfinite(float(table.sum())):
            raise NumericsError(
                f"space: a row from {start} to {stop - 1} is not finite; index its pictures again"
            )
        return table

    def exact(self, rows: IntArray) -> FloatArray:
        """(N, R) cosines with some rows, in float32.

        Raises:
            NumericsError: a cosine is not finite.
        """
        return exact_scores(self._texts, self._rows, rows)


def exact_scores(texts: FloatArray, matrix: HalfArray, rows: IntArray) -> FloatArray:
    """Cosines of every text with some rows, in float32.

    Args:
        texts: (N, D) rows of unit length.
        matrix: (M, D) rows.
        rows: (R,) row numbers.
    Returns:
        (N, R).
    Raises:
        NumericsError: a score is not finite.
    """
    step = ALONE_PRODUCTS // max(texts.size, 1)
    if step < SMALLEST_GATHER:
        step = GATHERED_ROWS
    table: FloatArray = np.empty((len(texts), len(rows)), dtype=np.float32)

    def fill(first: int, last: int) -> None:
        chosen = rows[first:last]
        some = single(matrix[chosen])
        for start in range(first, last, step):
            stop = min(start + step, last)
            table[:, start:stop] = texts @ some[start - first : stop - first].T

    for _ in over_blocks(len(rows), GATHERED_ROWS, fill):
        pass
    if not np.isfinite(table).all():
        raise NumericsError("space: a cosine is not finite; check the vectors")
    return table


@dataclass(frozen=True)
class _TablePlan:
    """A channel in a search: evidence = (scale · cosine + shift) · weight.

    The weight of a picture is 0 without the channel, `Channel.beside` if an earlier channel scores it too,
    else 1. Texts that are read by the same channels share a row of `weight` (P, M); `kind` (N,) is the row of
    each text.
    """

    channel: EncodedChannel
    cosines: Float32Cosines | Float16Cosines
    scale: Float64Array
    shift: Float64Array
    weight: FloatArray
    kind: IntArray

    def rough(self, start: int, stop: int) -> FloatArray:
        """(N, R) evidence of the pictures of a block by rough cosines."""
        share = self.cosines.rough(start, stop)
        share *= self.scale.astype(np.float32)[:, None]
        share += self.shift.astype(np.float32)[:, None]
        weight = self.weight[:, start:stop]
        if (weight != 1).any():
            share *= weight if len(weight) == 1 else weight[self.kind]
        return share

    def error(self) -> Float64Array:
        """(N,) bounds of the errors of `rough`."""
        return np.abs(self.scale) * self.cosines.errors + 1e-5 * (1 + np.abs(self.shift))

    def exact(self, rows: IntArray) -> tuple[FloatArray, BoolArray]:
        """(N, R) evidence of some pictures, and (R,) mask of those that have the channel."""
        cosines = self.cosines.exact(rows)
        weight = self.weight[:, rows]
        # No evidence where a channel with more information makes this one redundant.
        here: BoolArray = np.asarray((weight > 0).any(axis=0))
        nats = self.scale[:, None] * cosines + self.shift[:, None]
        return np.where(here, nats * weight[self.kind], 0.0).astype(np.float32), here


class TableIndex:
    """A gallery prepared for search; caches the last scores.

    Args:
        gallery: the pictures.
    """

    def __init__(self, gallery: TableGallery) -> None:
        self.gallery = gallery
        self._latest: tuple[tuple[EncodedChannel, ...], IntArray, Scored] | None = None

    @property
    def pictures(self) -> int:
        """Number of all pictures."""
        return len(self.gallery)

    def held(self, space: str) -> int:
        """Number of pictures that have a vector in a space."""
        return self.gallery.space(space).held

    def among(
        self, requests: Sequence[Request], ids: Sequence[str] = (), like: SimilarityQuery | None = None
    ) -> TableIndex:
        """This index, which already has all pictures; `limner.scale.approximate` retrieves candidates
        instead.

        Args:
            requests: searches that will be made.
            ids: pictures that must be there.
            like: search for pictures similar to given ones; None for none.
        """
        return self

    def search(
        self, channels: Sequence[EncodedChannel], k: int, *, exclude: BoolArray | None = None
    ) -> Nearest:
        """The k best pictures for each of N texts.

        Args:
            channels: at least one, each with the same N texts.
            k: pictures per text, at least 1.
            exclude: (M,) True for pictures that must not be found; they do not count in `evidence`
                either. Means and spreads of cosines stay those of the whole gallery.
        Returns:
            The same rows as a float32 scan of everything.
        Raises:
            ConfigError: there is no channel, two have one name, or k is below 1.
            DataError: a channel's space is missing in the gallery.
            ShapeError: widths or numbers of texts differ.
            NumericsError: a vector or score is not finite.
        """
        if k < 1:
            raise ConfigError(f"index.search: k is {k}, expected at least 1")
        plans = self._plans(channels)
        count, pictures = len(channels[0].texts), len(self.gallery)
        usable = np.full(pictures, True)
        if exclude is not None:
            expect("index.search", exclude=(exclude, str(pictures)))
            usable = ~exclude
        available = int(np.count_nonzero(usable))
        width = min(k, available)
        near, mass = self._scan(plans, usable, width)
        union = np.unique(near.rows)
        scored = self._score(plans, union)
        self._latest = tuple(channels), union, scored
        rows: IntArray = np.zeros((count, width), dtype=np.int64)
        evidence: Float64Array = np.full(count, -np.inf)
        for text in range(count if width else 0):
            own = near.where(near.texts == text)
            exact = scored.scores[text, np.searchsorted(union, own.rows)]
            best = np.lexsort((own.rows, -exact))[:width]
            rows[text] = own.rows[best]
            shown, others = (np.exp(part[best] - mass[text]).sum() for part in (exact, own.values))
            evidence[text] = mass[text] + np.log(max(1.0 - others, 0.0) + shown) - np.log(available)
        where = np.searchsorted(union, rows)
        return Nearest(
            rows,
            np.take_along_axis(scored.scores, where, axis=1),
            {name: np.take_along_axis(part, where, axis=1) for name, part in scored.shares.items()},
            {name: part[where] for name, part in scored.present.items()},
            evidence,
        )

    def score(self, channels: Sequence[EncodedChannel], rows: IntArray) -> Scored:
        """Exact scores of given pictures for every text.

        Args:
            channels: see `search`.
            rows: (R,) rows of the gallery.
        Returns:
            Scores and shares, (N, R).
        Raises:
            As `search`.
        """
        wanted = np.asarray(rows, dtype=np.int64)
        if self._latest is not None:
            # most requests after a search are for its rows
            asked, known, scored = self._latest
            if [*map(id, asked)] == [*map(id, channels)] and len(known):
                place = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
                if np.array_equal(known[place], wanted):
                    return scored.of(place)
        return self._score(self._plans(channels), wanted)

    def _plans(self, channels: Sequence[EncodedChannel]) -> list[_TablePlan]:
        names = [channel.name for channel in channels]
        if not names or len(set(names)) != len(names):
            raise ConfigError(f"index: channels are {names}, expected at least one and no name twice")
        for channel in channels:
            expect(
                f"index channel {channel.name}",
                first=(channels[0].texts[:, :1], "N 1"),
                texts=(channel.texts, "N D"),
                matrix=(self.gallery.space(channel.space).matrix, "M D"),
            )
            if not np.isfinite(channel.texts).all():
                raise NumericsError(f"index channel {channel.name}: a text vector is not finite")
        read = np.stack([channel.texts.any(axis=1) for channel in channels], axis=1)  # (N, channels)
        kinds, kind = np.unique(read, axis=0, return_inverse=True)
        covered = np.zeros((len(kinds), len(self.gallery)), dtype=bool)
        plans = []
        for place, channel in enumerate(channels):
            space = self.gallery.space(channel.space)
            if channel.evidence.z_slope == 0:
                mean = std = np.zeros(len(channel.texts))
            else:
                mean, std = space.moments.of_cosines(channel.texts)
                mean, std = channel.evidence.steadied(mean, std, space.held)
            scale, shift = channel.evidence.affine(mean, std)
            if not (np.isfinite(scale).all() and np.isfinite(shift).all()):
                raise NumericsError(f"index channel {channel.name}: its calibration is not finite")
            scale, shift = scale * read[:, place], shift * read[:, place]
            present = np.asarray(space.present)
            weight = np.where(covered, np.float32(channel.beside), np.float32(1)) * present
            covered |= kinds[:, place, None] & present
            cosines = self._cosines(channel.texts, space)
            plans.append(_TablePlan(channel, cosines, scale, shift, weight, kind.ravel()))
        return plans

    def _cosines(self, texts: FloatArray, space: TableSpace) -> Float32Cosines | Float16Cosines:
        if len(self.gallery) <= BLOCK_ROWS:
            return Float32Cosines(texts, space.single)
        return Float16Cosines(
            texts, np.asarray(space.matrix)
        )  # a memory map takes longer over each selection

    def _blocks(
        self, plans: list[_TablePlan], usable: BoolArray, pools: RoughTop
    ) -> Iterator[tuple[int, tuple[Float64Array, RoughMatches]]]:
        """Of each block: its first row, log Σ exp of rough scores (N,), and rows that may be the best."""
        barred = ~usable

        def score(start: int, stop: int) -> tuple[Float64Array, RoughMatches]:
            total = plans[0].rough(start, stop)
            for plan in plans[1:]:
                total += plan.rough(start, stop)
            total[:, barred[start:stop]] = -np.inf
            near = pools.near(total, start)
            return _log_sum_exp(total), near

        if len(self.gallery) <= BLOCK_ROWS:
            return iter([(0, score(0, len(self.gallery)))] if len(self.gallery) else [])
        return over_blocks(len(self.gallery), BLOCK_ROWS, score)

    def _scan(
        self, plans: list[_TablePlan], usable: BoolArray, width: int
    ) -> tuple[RoughMatches, Float64Array]:
        """Rows that may be among the best `width` of a text, and log Σ exp of all rough scores."""
        errors = np.sum([plan.error() for plan in plans], axis=0)
        # Scores that differ by more than the sum of both errors keep their order.
        pools = RoughTop(width, 2 * errors)
        mass: Float64Array = np.full(len(errors), -np.inf)
        for _, (part, near) in self._blocks(plans, usable, pools):
            mass = np.logaddexp(mass, part)
            pools.add(near)
        return pools.cut(), mass

    def _score(self, plans: list[_TablePlan], rows: IntArray) -> Scored:
        found = {plan.channel.name: plan.exact(rows) for plan in plans}
        total: FloatArray = np.sum([share for share, _ in found.values()], axis=0)
        if not np.isfinite(total).all():
            raise NumericsError("index: a score is not finite; check the channels' calibration")
        return Scored(
            total,
            {name: share for name, (share, _) in found.items()},
            {name: here for name, (_, here) in found.items()},
        )


def _log_sum_exp(total: FloatArray) -> Float64Array:
    """(N,) log Σ exp over each row of (N, R)."""
    top = total.max(axis=1)
    top = np.where(np.isneginf(top), np.float32(0), top)
    part = total - top[:, None]
    # NumPy adds float32 pairwise along a row, which is precise enough and much faster than converting to
    # float64.
    mass = np.exp(part, out=part).sum(axis=1).astype(np.float64)
    logs: Float64Array = np.log(mass, out=np.full(len(mass), -np.inf), where=mass > 0)
    return logs + top
