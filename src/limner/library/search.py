"""Exact search: all steps of a text against all pictures, in one product per channel.

A bfloat16 pass scores everything and keeps a few times more than asked; float32 scores of those
decide. A bound on the rounding proves that the answer equals a full float32 scan, and where the
bound does not suffice the doubtful rows are scored too. It neither encodes nor decodes.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from limner.arrays import FloatArray, expect
from limner.errors import ConfigError, NumericsError
from limner.library.channels import EncodedChannel
from limner.library.gallery import (
    ROUNDOFF,
    BoolArray,
    Coarse,
    Gallery,
    Moments,
    Pool,
    coarse,
    exact_scores,
    moments,
    over_blocks,
    widened,
)

IntArray = NDArray[np.int64]
Float64Array = NDArray[np.float64]

BLOCK_ROWS = 16_384


@dataclass(frozen=True)
class Scored:
    """Exact scores of some pictures for N texts.

    Attributes:
        scores: (N, R) float32 nats, the sum of the shares.
        shares: channel → (N, R) float32 nats; 0 where the picture lacks the channel.
        present: channel → (R,) True where the picture has the channel.
    """

    scores: FloatArray
    shares: dict[str, FloatArray]
    present: dict[str, BoolArray]

    def of(self, places: IntArray) -> "Scored":
        """Some of the pictures, by their places here."""
        return Scored(
            self.scores[:, places],
            {name: share[:, places] for name, share in self.shares.items()},
            {name: here[places] for name, here in self.present.items()},
        )

    def mixed(self, count: int, context: float) -> "Scored":
        """Of (2N, R) scores, N texts read alone and then in context: the N mixtures of both.

        Args:
            count: N.
            context: share of the reading in context, 0 to 1.
        """
        part = np.float32(context)

        def mix(both: FloatArray) -> FloatArray:
            return both[:count] + part * (both[count:] - both[:count])

        return Scored(mix(self.scores), {name: mix(own) for name, own in self.shares.items()}, self.present)


@dataclass(frozen=True)
class Hits:
    """The best pictures for N texts, best first; equal scores in order of row.

    Attributes:
        rows: (N, K) rows of the gallery; K is what was asked for or all there is, if less.
        scores: (N, K) float32 nats, the sum of the shares.
        shares: channel → (N, K) float32 nats; 0 where the picture lacks the channel.
        present: channel → (N, K) True where the picture has the channel.
        evidence: (N,) log of the mean of exp(score) over all pictures searched, nats: how well the
            collection as a whole answers the text. −inf where no picture was searched. The
            pictures returned enter exactly, the rest with bfloat16 cosines.
    """

    rows: IntArray
    scores: FloatArray
    shares: dict[str, FloatArray]
    present: dict[str, BoolArray]
    evidence: Float64Array


@dataclass(frozen=True)
class _Plan:
    """One channel of one search: evidence = (scale · cosine + shift) · weight.

    The weight of a picture is 0 without the channel, `Channel.beside` where an earlier channel judges it too,
    else 1. Texts that the same channels read share a row of `weight`: (P, M), and (N,) `kind` says which.
    """

    channel: EncodedChannel
    scale: Float64Array
    shift: Float64Array
    weight: FloatArray
    kind: IntArray

    def weights(self, start: int, stop: int) -> FloatArray:
        """Weights of some pictures, (1 or N, R)."""
        part = self.weight[:, start:stop]
        return part if len(part) == 1 else part[self.kind]


class Index:
    """A gallery made ready for search; what is computed once per gallery is kept.

    Args:
        gallery: the pictures.
        block_rows: pictures scored at a time; their scores should fit a core's cache.
    """

    def __init__(self, gallery: Gallery, *, block_rows: int = BLOCK_ROWS) -> None:
        if block_rows < 1:
            raise ConfigError(f"index: block_rows is {block_rows}, expected at least 1")
        self.gallery = gallery
        self._block_rows = block_rows
        self._moments: dict[str, Moments] = {}
        self._coarse: dict[str, Coarse] = {}
        self._latest: tuple[tuple[EncodedChannel, ...], IntArray, Scored] | None = None

    def moments(self, space: str) -> Moments:
        """Moments of one space, read or computed on first use."""
        if space not in self._moments:
            stored = self.gallery.space(space)
            self._moments[space] = stored.derived.moments(stored) if stored.derived else moments(stored)
        return self._moments[space]

    def search(
        self,
        channels: Sequence[EncodedChannel],
        k: int,
        *,
        oversample: int = 4,
        exclude: BoolArray | None = None,
    ) -> Hits:
        """The k best pictures for each of N texts.

        Args:
            channels: at least one, each with the same N texts.
            k: pictures per text, at least 1.
            oversample: the coarse pass keeps this many times k.
            exclude: (M,) True for pictures that must not be found; they do not count in `evidence`
                either. Means and spreads of cosines stay those of the whole gallery.
        Returns:
            The same rows as a float32 scan of everything.
        Raises:
            ConfigError: no channel, two of one name, or a number below 1.
            DataError: a channel's space is not in the gallery.
            ShapeError: widths or numbers of texts differ.
            NumericsError: a vector or score is not finite.
        """
        if k < 1 or oversample < 1:
            raise ConfigError(f"index.search: k is {k} and oversample {oversample}, expected at least 1")
        plans = self._plans(channels)
        count, pictures = len(channels[0].texts), len(self.gallery)
        usable = np.ones(pictures, dtype=bool)
        if exclude is not None:
            expect("index.search", exclude=(exclude, str(pictures)))
            usable = ~np.asarray(exclude, dtype=bool)
        available = int(np.count_nonzero(usable))
        width = min(k, available)
        if width == 0 or count == 0:
            nothing = np.zeros(0, dtype=np.int64)
            scored = self._score(plans, nothing)
            return _hits(
                nothing, scored, nothing.reshape(1, 0).repeat(count, axis=0), np.full(count, -np.inf)
            )
        kept = min(k * oversample, available)
        rough = self._scan(plans, usable, kept)
        rows, best, union, scored = self._rerank(plans, rough, width)
        unsure = (best[:, -1] < rough.lowest + rough.error) & (kept < available)
        if unsure.any():
            doubtful = best[:, -1].astype(np.float64) - rough.error
            rows = self._rescan(plans, usable, np.where(unsure, doubtful, np.inf), rows, best)
            union = np.unique(rows)
            scored = self._score(plans, union)
        self._latest = tuple(channels), union, scored
        hits = _hits(union, scored, rows, np.zeros(count))
        return Hits(hits.rows, hits.scores, hits.shares, hits.present, rough.evidence(hits, available))

    def score(self, channels: Sequence[EncodedChannel], rows: IntArray) -> Scored:
        """Exact scores of given pictures for every text.

        Args:
            channels: as in `search`.
            rows: (R,) rows of the gallery.
        Returns:
            Scores and shares, (N, R).
        Raises:
            As `search`.
        """
        wanted = np.asarray(rows, dtype=np.int64)
        if self._latest is not None:
            # Whoever has just searched asks for much the same rows again.
            asked, known, scored = self._latest
            same = len(asked) == len(channels) and all(a is b for a, b in zip(asked, channels, strict=True))
            if same and len(known):
                place = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
                if np.array_equal(known[place], wanted):
                    return scored.of(place)
        return self._score(self._plans(channels), wanted)

    def _plans(self, channels: Sequence[EncodedChannel]) -> list[_Plan]:
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
                mean, std = self.moments(channel.space).of_cosines(channel.texts)
                count = int(np.count_nonzero(space.present))
                mean, std = channel.evidence.steadied(mean, std, count)
            scale, shift = channel.evidence.affine(mean, std)
            if not (np.isfinite(scale).all() and np.isfinite(shift).all()):
                raise NumericsError(f"index channel {channel.name}: its calibration is not finite")
            scale, shift = scale * read[:, place], shift * read[:, place]
            weight = np.where(covered, np.float32(channel.beside), np.float32(1)) * space.present
            covered |= kinds[:, place, None] & space.present
            plans.append(_Plan(channel, scale, shift, weight.astype(np.float32), kind.ravel()))
        return plans

    def _blocks(
        self, plans: list[_Plan], usable: BoolArray
    ) -> Iterator[tuple[int, tuple[FloatArray, Float64Array]]]:
        """First row of each block, its coarse scores (N, R), −inf where not usable, and their log Σ exp."""
        parts = []
        for plan in plans:
            rough = self._copy(plan.channel.space)
            query, _ = rough.query(plan.channel.texts)
            scale, shift = (part.astype(np.float32)[:, None] for part in (plan.scale, plan.shift))
            uneven = None if (plan.weight == 1).all() else plan
            parts.append((rough, query, scale, shift, uneven))
        barred = None if usable.all() else ~usable

        def score(start: int, stop: int) -> tuple[FloatArray, Float64Array]:
            total: FloatArray | None = None
            for rough, query, scale, shift, uneven in parts:
                share = widened(rough.matrix[start:stop] @ query)
                share *= scale
                share += shift
                if uneven is not None:
                    share *= uneven.weights(start, stop)
                total = share if total is None else np.add(total, share, out=total)
            if total is None:
                raise ConfigError("index: no channel")
            if barred is not None:
                total[:, barred[start:stop]] = -np.inf
            return total, _log_sum_exp(total)

        return over_blocks(len(self.gallery), self._block_rows, score)

    def _copy(self, space: str) -> Coarse:
        if space not in self._coarse:
            stored = self.gallery.space(space)
            rough = stored.derived.coarse(space, stored) if stored.derived else coarse(space, stored)
            self._coarse[space] = rough
        return self._coarse[space]

    def _scan(self, plans: list[_Plan], usable: BoolArray, kept: int) -> "_Rough":
        """Coarse pass: the best `kept` rows per text, and the sum of everything."""
        count = len(plans[0].channel.texts)
        pools = [Pool(kept) for _ in range(count)]
        mass: Float64Array = np.full(count, -np.inf)
        for start, (total, part) in self._blocks(plans, usable):
            mass = np.logaddexp(mass, part)
            for pool, values in zip(pools, total, strict=True):
                pool.add(values, start)
        error = np.zeros(count)
        for plan in plans:
            _, bound = self._copy(plan.channel.space).query(plan.channel.texts)
            # The product itself is rounded to bfloat16 too: at most ROUNDOFF of a cosine below 1.
            error += np.abs(plan.scale) * (bound + ROUNDOFF * 1.02) + 1e-5 * (1 + np.abs(plan.shift))
        best = [pool.best() for pool in pools]
        values = np.stack([own for own, _ in best]).astype(np.float64)
        return _Rough(np.stack([rows for _, rows in best]), values, mass, error)

    def _rerank(
        self, plans: list[_Plan], rough: "_Rough", width: int
    ) -> tuple[IntArray, FloatArray, IntArray, Scored]:
        """The best `width` of each text's own rows by exact score; all rows scored for that, and as what."""
        # Two scores that differ by more than both errors cannot change places.
        reach = -np.sort(-rough.values, axis=1)[:, width - 1] - 2 * rough.error
        hopeful = rough.values >= reach[:, None]
        union = np.unique(rough.rows[hopeful])
        where = np.minimum(np.searchsorted(union, rough.rows), len(union) - 1)
        scored = self._score(plans, union)
        exact = np.take_along_axis(scored.scores, where, axis=1)
        exact = np.where(hopeful, exact, np.float32(-np.inf))
        order = np.lexsort((rough.rows, -exact), axis=1)[:, :width]
        rows = np.take_along_axis(rough.rows, order, axis=1)
        return rows, np.take_along_axis(exact, order, axis=1), union, scored

    def _rescan(
        self, plans: list[_Plan], usable: BoolArray, floor: Float64Array, rows: IntArray, best: FloatArray
    ) -> IntArray:
        """Score exactly every row whose coarse score reaches a text's floor."""
        width = rows.shape[1]
        limit = floor.astype(np.float32)[:, None]
        for start, (total, _) in self._blocks(plans, usable):
            found = np.flatnonzero((total >= limit).any(axis=0)) + start
            if not len(found):
                continue
            fresh = np.broadcast_to(found, (len(rows), len(found)))
            exact = self._score(plans, found).scores
            # A row kept from before comes back; it must count once.
            exact = np.where(_contained(found, rows), -np.inf, exact)
            both = np.concatenate([rows, fresh], axis=1)
            values = np.concatenate([best, exact], axis=1)
            order = np.lexsort((both, -values), axis=1)[:, :width]
            rows, best = np.take_along_axis(both, order, axis=1), np.take_along_axis(values, order, axis=1)
        return rows

    def _score(self, plans: list[_Plan], rows: IntArray) -> Scored:
        shares: dict[str, FloatArray] = {}
        present: dict[str, BoolArray] = {}
        total: FloatArray = np.zeros((len(plans[0].channel.texts), len(rows)), dtype=np.float32)
        for plan in plans:
            space = self.gallery.space(plan.channel.space)
            cosines = exact_scores(plan.channel.texts, space.matrix, rows)
            weight = plan.weight[:, rows]
            # Where a fuller channel says it all, this one says nothing.
            here: BoolArray = np.asarray((weight > 0).any(axis=0))
            nats = plan.scale[:, None] * cosines + plan.shift[:, None]
            share = np.where(here, nats * weight[plan.kind], 0.0).astype(np.float32)
            shares[plan.channel.name], present[plan.channel.name] = share, here
            total += share
        if not np.isfinite(total).all():
            raise NumericsError("index: a score is not finite; check the channels' calibration")
        return Scored(total, shares, present)


def _hits(union: IntArray, scored: Scored, rows: IntArray, evidence: Float64Array) -> Hits:
    """Rows of each text, taken from what was scored for all texts: the (R,) sorted rows `union`."""
    where = np.searchsorted(union, rows)
    # Products of other shapes may differ in the last digit: order by what is handed out.
    order = np.lexsort((rows, -np.take_along_axis(scored.scores, where, axis=1)), axis=1)
    rows, where = np.take_along_axis(rows, order, axis=1), np.take_along_axis(where, order, axis=1)
    shares = {name: np.take_along_axis(part, where, axis=1) for name, part in scored.shares.items()}
    present = {name: part[where] for name, part in scored.present.items()}
    return Hits(rows, np.take_along_axis(scored.scores, where, axis=1), shares, present, evidence)


@dataclass(frozen=True)
class _Rough:
    """What the coarse pass found: (N, K) rows and scores, (N,) log mass and error bounds."""

    rows: IntArray
    values: Float64Array
    mass: Float64Array
    error: Float64Array

    @property
    def lowest(self) -> Float64Array:
        """(N,) smallest score kept: no row left out is above it."""
        return np.asarray(np.min(self.values, axis=1), dtype=np.float64)

    def evidence(self, hits: Hits, available: int) -> Float64Array:
        """(N,) log mean exp, with the pictures returned at their exact scores."""
        shown = np.array([np.isin(a, b) for a, b in zip(self.rows, hits.rows, strict=True)])
        replaced = np.exp(np.where(shown, self.values, -np.inf) - self.mass[:, None]).sum(axis=1)
        exact = np.exp(hits.scores.astype(np.float64) - self.mass[:, None]).sum(axis=1)
        evidence: Float64Array = (
            self.mass + np.log(np.maximum(1.0 - replaced, 0.0) + exact) - np.log(available)
        )
        return evidence


def _log_sum_exp(total: FloatArray) -> Float64Array:
    """(N,) log Σ exp over each row of (N, R)."""
    top = total.max(axis=1)
    top = np.where(np.isneginf(top), np.float32(0), top)
    part = total - top[:, None]
    # NumPy adds float32 pairwise along a row: exact enough, and far faster than a cast to float64.
    mass = np.exp(part, out=part).sum(axis=1).astype(np.float64)
    logs: Float64Array = np.log(mass, out=np.full(len(mass), -np.inf), where=mass > 0)
    return logs + top


def _contained(found: IntArray, rows: IntArray) -> BoolArray:
    """(N, R) True where a found row is already among a text's own rows."""
    return np.array([np.isin(found, own) for own in rows], dtype=bool).reshape(len(rows), len(found))
