"""All candidates of all steps: what either reading of a step found, and what looks like fixed pictures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from limner.library.channels import EncodedChannel, Evidence
from limner.library.scan import BoolArray
from limner.library.search import Hits, Index, Scored
from limner.storyboard.coherence import CosinePairwise, Walk, WalkedPairwise, groups_of
from limner.storyboard.lattice import Float64Array, Indifferent, IntArray


@dataclass(frozen=True)
class Pool:
    """All candidates of all steps.

    Attributes:
        rows: (C,) gallery rows, ascending.
        groups: (C,) near-duplicate groups.
        items: (S, K) candidate numbers of each step; filled up with 0 where `unary` is −inf.
        unary: (S, K) nats.
        scored: exact scores of all candidates: (S, C) of the steps, or (2S, C) of both readings of them.
        pair: what candidates say for each other.
    """

    rows: IntArray
    groups: IntArray
    items: IntArray
    unary: Float64Array
    scored: Scored
    pair: CosinePairwise | WalkedPairwise | Indifferent

    def column(self, step: int, row: int) -> int:
        """Where a gallery row stands in a step's list."""
        number = int(np.searchsorted(self.rows, row))
        return int(np.flatnonzero((self.items[step] == number) & (self.unary[step] > -np.inf))[0])

    def support(self, pinned: Sequence[int]) -> Float64Array:
        """(S, K) mean nats that fixed pictures, given as gallery rows, add to each candidate."""
        if not pinned:
            return np.zeros(self.unary.shape)
        fixed = np.searchsorted(self.rows, np.unique(pinned))
        mean = self.pair.block(np.arange(len(self.rows)), fixed).mean(axis=1)
        return np.asarray(mean[self.items], dtype=np.float64)

    def weighing(self, context: float, weight: float) -> Pool:
        """The steps read alone and in context, mixed, and pictures agreeing with a weight.

        Args:
            context: share of the reading in context, 0 to 1.
            weight: times the evidence of two pictures for each other.
        """
        scored = self.scored.mixed(len(self.unary), context)
        unary = np.take_along_axis(scored.scores.astype(np.float64), self.items, axis=1)
        unary = np.where(self.unary > -np.inf, unary, -np.inf)
        return replace(self, unary=unary, scored=scored, pair=self.pair.weighing(weight))

    def walking(self, pinned: Sequence[int], walk: Walk | None) -> Pool:
        """Fixed pictures, given as gallery rows, speak for what walks from them reach; None for no walk."""
        if walk is None or not pinned or not isinstance(self.pair, CosinePairwise):
            return self
        return replace(self, pair=WalkedPairwise(self.pair, np.searchsorted(self.rows, pinned), walk))


def pool_of(
    index: Index,
    readings: Sequence[EncodedChannel],
    hits: Hits,
    *,
    fixed: Mapping[int, int],
    guided: bool,
    pair_space: str | None,
    pair_evidence: Evidence,
    count: int,
    barred: BoolArray,
    near: IntArray | None = None,
) -> Pool:
    """Each step's list: what either reading found, the fixed pictures, and what looks most like them.

    Args:
        index: of the gallery.
        readings: channels with the S steps read alone and then in context.
        hits: what they found.
        fixed: step → gallery row of the picture fixed there.
        guided: whether some of them guide the others, who may then be like one that no channel knows.
        pair_space: gallery space that compares pictures; None where they say nothing of each other.
        pair_evidence: how its cosine becomes nats.
        count: pictures like the fixed ones to add.
        barred: (M,) True for pictures that must not be shown.
        near: (2S, K) gallery rows to consider as well, per step and reading.
    """
    found = hits.rows if near is None else np.concatenate([hits.rows, near], axis=1)
    steps = len(hits.rows) // 2
    extra = np.unique(np.array(list(fixed.values()), dtype=np.int64))
    if pair_space is not None and fixed:
        space = index.gallery.space(pair_space)
        seen = extra[space.present[extra]]
        if len(seen):
            vectors = space.vectors(seen)
            look = EncodedChannel("look", pair_space, pair_evidence, vectors)
            extra = np.union1d(extra, index.search([look], count, exclude=barred).rows)
    lists = [np.unique(np.concatenate([found[s], found[steps + s], extra])) for s in range(steps)]
    rows = np.unique(np.concatenate(lists)) if lists else np.zeros(0, dtype=np.int64)
    items = np.zeros((steps, max(map(len, lists), default=0)), dtype=np.int64)
    unary = np.full(items.shape, -np.inf)
    scored = index.score(readings, rows)
    for s, own in enumerate(lists):
        items[s, : len(own)] = np.searchsorted(rows, own)
        unary[s, : len(own)] = scored.scores[s, items[s, : len(own)]]
    if not guided:  # a picture that no channel knows is never chosen for want of a better one
        known = np.zeros((steps, len(rows)), dtype=bool)
        for channel in readings:
            known |= np.outer(channel.texts[:steps].any(axis=1), scored.present[channel.name])
        for step, row in fixed.items():
            known[step, np.searchsorted(rows, row)] = True
        unary[~np.take_along_axis(known, items, axis=1)] = -np.inf
    pair: CosinePairwise | Indifferent = Indifferent()
    if pair_space is not None:
        pair = CosinePairwise(index, pair_space, rows, pair_evidence, 1.0)
    return Pool(rows, groups_of(index.gallery, rows), items, unary, scored, pair)
