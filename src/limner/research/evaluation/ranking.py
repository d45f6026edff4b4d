"""Ranks and metrics: recall, median rank, reciprocal rank, and average precision of relations.

Ties are frequent (empty features, collapsed embeddings), so ranks are stored as counts and the tie policy is
explicit.
"""

from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain
from math import comb, isqrt
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from limner.arrays import Some
from limner.devices import cores
from limner.errors import ConfigError, DataError, NumericsError, ShapeError, counted, unknown
from limner.research.datasets.pairs import duplicate_groups

if TYPE_CHECKING:
    from limner.research.evaluation.uncertainty import Interval, Values, Weights

Ties = Literal["mean", "pessimistic", "optimistic"]
Relevant = Sequence[Sequence[int]]
"""For each query, the columns of its relevant pictures."""
Scores = NDArray[np.floating]
Score = Callable[[Some, Some], Any]
"""(Q rows, P columns) → (Q, P) scores of those texts and pictures, as an array or as a tensor on its device.
The table of all scores need not exist."""
ALL = slice(None)
Counts = NDArray[np.int64]
Ranks = NDArray[np.float64]
METRIC_KINDS = ("R", "ER", "StR", "MedR", "MRR")
BLOCK_CELLS = 1 << 24
_CACHED_CELLS = 1 << 18
SLICES_ALONE = 8
"""With fewer slices than this, one thread counts them all: starting more threads would take longer."""


@dataclass(frozen=True)
class Ranking:
    """Rank of the best relevant picture of each query, with ties counted separately.

    Attributes:
        better: (N,) irrelevant pictures that score above the best relevant one.
        equal: (N,) irrelevant pictures that tie with it.
        tied: (N,) relevant pictures at that score, itself included.
        size: M, number of pictures in the gallery.
    """

    better: Counts
    equal: Counts
    tied: Counts
    size: int

    def __len__(self) -> int:
        """Number of queries, N."""
        return len(self.better)

    @property
    def tie_share(self) -> float:
        """Share of queries whose rank depends on the tie policy."""
        return float(np.mean(self.equal > 0))

    def ranks(self, ties: Ties = "mean") -> Ranks:
        """1-based ranks, (N,); half-integers under ``mean``.

        Args:
            ties: how many of the tied pictures count as better: half ("mean"), all ("pessimistic"), none
                ("optimistic").
        Raises:
            ConfigError: the policy is unknown.
        Source: docs/methods/evaluation.md §1.
        """
        share = {"mean": 0.5, "pessimistic": 1.0, "optimistic": 0.0}
        if ties not in share:
            raise ConfigError("ranking: " + unknown("tie policy", ties, get_args(Ties)))
        ranks: Ranks = 1.0 + self.better + share[ties] * self.equal
        return ranks

    def expected_hits(self, k: int) -> Ranks:
        """Probability that a relevant picture is among the first k if ties are ordered at random, (N,).

        Args:
            k: at least 1.
        """
        _positive("expected recall", k)
        hits = np.zeros(len(self))
        rows = np.stack([self.better, self.equal, self.tied]).T.tolist()
        for row, (better, equal, tied) in enumerate(rows):
            places = k - better
            if places > 0:
                hits[row] = 1.0 - comb(equal, places) / comb(equal + tied, min(places, equal + tied))
        return hits


@dataclass(frozen=True)
class Metric:
    """A metric by name: R@k, ER@k (expected under ties), StR@k, MedR, MRR.

    Attributes:
        kind: R, ER, StR, MedR or MRR.
        k: cut-off of the three recalls, 0 for the others.
    """

    kind: str
    k: int = 0

    def __post_init__(self) -> None:
        """Check that the cut-off suits the kind."""
        if self.kind not in METRIC_KINDS:
            raise ConfigError("metric: " + unknown("metric", self.kind, METRIC_KINDS))
        if self.kind not in ("MedR", "MRR"):
            _positive(f"metric {self.kind}@k", self.k)
        elif self.k:
            raise ConfigError(f"metric: {self.kind} takes no cut-off, found {self.k}; write {self.kind}")

    def __str__(self) -> str:
        return f"{self.kind}@{self.k}" if self.k else self.kind

    @classmethod
    def parse(cls, name: str) -> "Metric":
        """Parse a name; ``Metric.parse(str(metric)) == metric``.

        Raises:
            ConfigError: unknown metric.
        """
        kind, at, cut = name.partition("@")
        if at and not (cut.isascii() and cut.isdigit() and not cut.startswith("0")):
            raise ConfigError(f"metric: {name!r} has cut-off {cut!r}, expected an integer such as R@10")
        return cls(kind, int(cut) if at else 0)

    @property
    def higher_is_better(self) -> bool:
        """Whether higher values are better."""
        return self.kind != "MedR"

    @property
    def statistic(self) -> Literal["mean", "median"]:
        """How the queries' values are aggregated."""
        return "median" if self.kind == "MedR" else "mean"

    def values(self, ranking: Ranking, ties: Ties = "mean") -> Ranks:
        """The values of the queries, (N,), whose mean (median for MedR) is the metric.

        Args:
            ranking: ranking of the relevant pictures; for StR, of the pictures of the query's story.
            ties: tie policy; not used for expected recall.
        """
        if self.kind == "ER":
            return ranking.expected_hits(self.k)
        ranks = ranking.ranks(ties)
        if self.kind == "MedR":
            return ranks
        if self.kind == "MRR":
            return 1.0 / ranks
        return (ranks <= self.k).astype(np.float64)

    def interval(self, ranking: Ranking, groups: Sequence[Hashable], resamples: int) -> "Interval":
        """The metric with its bootstrap interval by group.

        Args:
            ranking: see `values`.
            groups: (N,) group of each query, such as its story.
            resamples: number of bootstrap resamples.
        """
        from limner.research.evaluation.uncertainty import interval

        return interval(self.values(ranking), groups, self.statistic, resamples=resamples)

    def __call__(self, ranking: Ranking, ties: Ties = "mean") -> float:
        """The metric of N queries: a fraction, or a rank for MedR.

        Raises:
            DataError: there are no queries.
        """
        if not len(ranking):
            raise DataError(f"metric {self}: no queries; expected at least one")
        values = self.values(ranking, ties)
        return float(np.median(values) if self.statistic == "median" else values.mean())


def host(table: Any) -> Scores:  # noqa: ANN401  (see `Score`)
    """Convert a block to an array on the CPU."""
    return table if isinstance(table, np.ndarray) else np.asarray(table.cpu())


def leading(table: Any, count: int) -> tuple[Counts, Ranks]:  # noqa: ANN401  (see `Score`)
    """The best columns of each row and their scores, best first; ties by column.

    Args:
        table: (Q, P) scores.
        count: number of columns, at least 1; P if that is less.
    Returns:
        (Q, count) columns and (Q, count) scores.
    """
    rows, size = table.shape
    count = min(count, size)
    # The `count` stretches with the largest maxima contain the best `count` scores: for any score elsewhere,
    # at least `count` others are larger, or equal and further left.
    length = isqrt(max(size - 1, 0)) + 1
    whole = size // length
    parts = [table[:, : whole * length].reshape(rows, whole, length)]
    if size > whole * length:
        parts.append(table[:, None, whole * length :])
    tops = [host(part.max(2) if isinstance(part, np.ndarray) else part.amax(2)) for part in parts]
    maxima = np.concatenate(tops, axis=1)
    stretches = np.sort(np.argsort(-maxima, kind="stable")[:, :count])
    near = (stretches[:, :, None] * length + np.arange(length)).reshape(rows, stretches.shape[1] * length)
    lines, there = np.arange(rows)[:, None], near < size
    found = np.where(there, host(table[lines, np.minimum(near, size - 1)]), -np.inf)
    order = np.argsort(-found, kind="stable")[:, :count]
    return near[lines, order], found[lines, order].astype(np.float64)


def rank(scores: NDArray[np.floating], relevant: Relevant, *, first: int = 0) -> Ranking:
    """Rank the relevant pictures of each query in the gallery.

    Args:
        scores: (N, M) finite scores, rows are texts, columns are pictures.
        relevant: (N,) for each query the columns of its relevant pictures.
        first: number of the first query, for messages.
    Raises:
        ShapeError: the sizes of scores and relevance differ.
        NumericsError: a score is not finite; the message names the query.
        DataError: a query has no relevant picture.
    Source: docs/methods/evaluation.md §1.
    """
    if scores.ndim != 2:
        raise ShapeError(f"rank: scores has shape {scores.shape}, expected (N, M)")
    rows, size = scores.shape
    return rank_blocks(lambda start, stop: scores[start:stop], (rows, size), relevant, first=first)


def rank_blocks(
    score_rows: Callable[[int, int], Any],
    shape: tuple[int, int],
    relevant: Relevant,
    *,
    block: int | None = None,
    first: int = 0,
) -> Ranking:
    """`rank` with scores computed in blocks, so that the N × M table never exists.

    Args:
        score_rows: (start, stop) → (stop − start, M) scores of those queries, as an array, or as a tensor,
            which is counted on its device.
        shape: (N, M).
        relevant: see `rank`.
        block: number of queries per block; by default a block has about 16 M scores.
        first: number of the first query, for messages.
    """
    rows, size = shape
    right = _columns(relevant, rows, size)
    lost = np.flatnonzero(np.diff(right.starts) == 0)
    if len(lost):
        raise DataError(
            f"rank: query {first + lost[0]} has no relevant picture ({len(lost)} of {rows} queries); leave"
            " such queries out"
        )
    step = block or max(1, BLOCK_CELLS // max(size, 1))
    counts = np.zeros((3, rows), dtype=np.int64)
    for start in range(0, rows, step):
        stop = min(start + step, rows)
        table = score_rows(start, stop)
        if tuple(table.shape) != (stop - start, size):
            raise ShapeError(
                f"rank: rows {start}:{stop} have shape {tuple(table.shape)}, expected {stop - start, size}"
            )
        count = _count if isinstance(table, np.ndarray) else _count_on_device
        counts[:, start:stop] = count(table, right.slice(start, stop), first + start)
    return Ranking(counts[0], counts[1], counts[2], size)


@dataclass(frozen=True)
class _Right:
    """The relevant columns of all queries, concatenated.

    Attributes:
        columns: (P,) columns, those of query 0 first.
        starts: (N + 1,) start of each query in `columns`.
    """

    columns: NDArray[np.int64]
    starts: NDArray[np.int64]

    def owners(self) -> NDArray[np.int64]:
        """(P,) query of each entry of `columns`."""
        return np.repeat(np.arange(len(self.starts) - 1), np.diff(self.starts))

    def slice(self, start: int, stop: int) -> "_Right":
        """The entries of queries start to stop."""
        first, last = self.starts[start], self.starts[stop]
        return _Right(self.columns[first:last], self.starts[start : stop + 1] - first)


def _count(table: NDArray[np.floating], right: _Right, start: int) -> Counts:
    """(3, rows): better, equal, tied, as in `Ranking`.

    No relevant picture scores above the best relevant one, so all pictures above it are irrelevant, and only
    ties must be checked. Works on slices that fit the cache, on all cores.
    """
    rows, size = table.shape
    counts, sums = np.empty((3, rows), dtype=np.int64), np.empty(rows, table.dtype)
    step = max(1, _CACHED_CELLS // max(size, 1))
    owners = right.owners()
    own = table[owners, right.columns]
    best = np.maximum.reduceat(own, right.starts[:-1])[:, None]
    tied = np.bincount(owners, own == best[owners, 0], minlength=rows).astype(np.int64)

    kind = np.uint16 if size < 1 << 16 else np.int64  # two-byte integers are summed fastest

    def count(lows: range) -> None:
        held = np.empty((min(step, rows), size), dtype=bool)
        for low in lows:
            some = np.ascontiguousarray(table[low : low + step])
            np.einsum("rc->r", some, out=sums[low : low + step])  # while the slice is in the cache
            top, found = best[low : low + step], held[: len(some)]
            flags = found.view(np.uint8)
            np.greater(some, top, out=found)
            np.add.reduce(flags, axis=1, dtype=kind, out=counts[0, low : low + step])
            np.equal(some, top, out=found)
            np.add.reduce(flags, axis=1, dtype=kind, out=counts[1, low : low + step])

    lows, workers = range(0, rows, step), cores()
    if len(lows) < SLICES_ALONE or workers == 1:
        count(lows)
    else:
        with ThreadPoolExecutor(workers) as pool:
            list(pool.map(count, [lows[first::workers] for first in range(workers)]))
    _look_at(table, np.flatnonzero(~np.isfinite(sums)), start)
    counts[1] -= tied
    counts[2] = tied
    return counts


def _count_on_device(table: Any, right: _Right, start: int) -> Counts:  # noqa: ANN401  (a tensor)
    """`_count` for a tensor, on its device."""
    owners = right.owners()
    own = host(table[owners, right.columns])
    best = np.maximum.reduceat(own, right.starts[:-1])
    tied = np.bincount(owners, own == best[owners], minlength=len(table)).astype(np.int64)
    top = table.new_tensor(best)[:, None]
    better, equal = host((table > top).sum(1)), host((table == top).sum(1))
    _look_at(table, np.flatnonzero(host(table.isfinite().all(1)) == 0), start)
    return np.stack([better, equal - tied, tied])


def _look_at(table: Any, doubtful: NDArray[np.int64], start: int) -> None:  # noqa: ANN401  (see `Score`)
    """Check rows whose sum is not finite: either a score is not finite, or only the sum overflowed."""
    for row in doubtful.tolist():
        values = host(table[row])
        if not np.isfinite(values).all():
            column = int(np.argmin(np.isfinite(values)))
            raise NumericsError(
                f"rank: score of query {start + row} and picture {column} is {values[column]},"
                " expected a finite number; check the encoder's input for that row"
            )


def _columns(relevant: Relevant, rows: int, size: int) -> _Right:
    """Check and concatenate the relevant columns of all queries."""
    if len(relevant) != rows:
        raise ShapeError(f"rank: relevance for {counted(len(relevant), 'query')}, scores for {rows}")
    lists = [set(columns) for columns in relevant]  # repeated columns are one picture
    starts = np.cumsum([0, *map(len, lists)])
    right = _Right(np.fromiter(chain.from_iterable(lists), np.int64), starts)
    wrong = np.flatnonzero((right.columns < 0) | (right.columns >= size))
    if len(wrong):
        row = int(right.owners()[wrong[0]])
        raise DataError(f"rank: query {row} names a picture outside 0…{size - 1}: {list(relevant[row])}")
    return right


def _positive(where: str, k: int) -> None:
    if k < 1:
        raise ConfigError(f"{where}: cut-off {k}, expected an integer of at least 1")


Labels = NDArray[np.integer] | NDArray[np.floating] | NDArray[np.bool_] | Sequence[int]


def different(picture_of: Sequence[Hashable]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Number pictures by first appearance.

    Args:
        picture_of: (N,) id of each query's picture.
    Returns:
        (N,) column of each query's picture, and (M,) first row of each picture.
    Raises:
        DataError: there are no queries.
    """
    if not picture_of:
        raise DataError("pictures: no queries; a gallery needs at least one")
    columns = np.array(duplicate_groups([[name] for name in picture_of]), np.int64)
    return columns, np.unique(columns, return_index=True)[1]


def average_precision(scores: "Values", labels: Labels) -> float:
    """Average precision of one relation; rows with equal scores share a threshold.

    AP = Σ over thresholds of (increase of recall) × (precision). Constant scores give the prevalence.

    Args:
        scores: (N,) finite scores, higher is more probable; or (S, N) for S seeds, whose average precisions
            are averaged.
        labels: (N,) 0 or 1, at least one 1.
    Raises:
        NumericsError: a score is not finite.
        DataError: there is no positive.
    Source: docs/methods/evaluation.md §5.
    """
    runs, truth = _checked(scores, labels)
    every = np.arange(len(truth))
    once = np.ones((1, len(truth)), dtype=np.int64)
    return float(precision_statistic(runs, truth, every)(once)[0])


def prevalence(labels: Labels, groups: Sequence[Hashable], *, resamples: int) -> "Interval":
    """Share of positives, which is the average precision of random scores, with its interval by group."""
    from limner.research.evaluation.uncertainty import interval

    return interval(np.asarray(labels, dtype=np.float64), groups, resamples=resamples)


def disagreement_ceiling(pairs: Sequence[Hashable], labels: Labels) -> float:
    """Upper bound on average precision when copies of a pair have different labels.

    All copies of a pair must get the same score; the best one is the share of positives among them. The bound
    is loose if there are few copies.

    Args:
        pairs: (N,) id of each row's (text, picture) pair.
        labels: (N,) 0 or 1.
    Source: docs/methods/evaluation.md §5.
    """
    truth = np.asarray(labels, dtype=np.float64)
    owner = np.array(duplicate_groups([[pair] for pair in pairs]))
    shares = np.bincount(owner, truth) / np.bincount(owner)
    return average_precision(shares[owner], labels)


def precision_statistic(
    scores: "Values", labels: Labels, owner: NDArray[np.int64]
) -> "Callable[[Weights], Values]":
    """Average precision as a statistic for `uncertainty.bootstrap`.

    Args:
        scores: (N,) or (S, N), see `average_precision`.
        labels: (N,) 0 or 1.
        owner: (N,) group number of each row.
    Returns:
        (R, G) counts of groups → (R,) average precision, averaged over seeds; NaN without a positive.
    """
    runs, truth = _checked(scores, labels)
    sorted_runs = []
    for run in runs:
        order = np.argsort(-run, kind="stable")
        ends = np.flatnonzero(np.append(np.diff(run[order]) != 0, True))
        sorted_runs.append((owner[order], truth[order], ends))

    def precisions(weights: "Weights") -> "Values":
        means: Values = np.mean([_weighted(weights, *one) for one in sorted_runs], axis=0)
        return means

    return precisions


def _checked(scores: "Values", labels: Labels) -> "tuple[Values, NDArray[np.float64]]":
    """Check the arguments; returns (S, N) scores and (N,) labels."""
    runs = np.atleast_2d(np.asarray(scores, dtype=np.float64))
    truth = np.asarray(labels, dtype=np.float64)
    if not truth.any():
        raise DataError("average precision: no positive row; the relation cannot be measured here")
    if not np.isfinite(runs).all():
        run, row = np.argwhere(~np.isfinite(runs))[0]
        raise NumericsError(f"average precision: score of row {row} (seed {run}) is {runs[run, row]}")
    return runs, truth


def _weighted(
    weights: "Weights", owner: NDArray[np.int64], truth: NDArray[np.float64], ends: NDArray[np.int64]
) -> "Values":
    """Average precision for rows in falling order of score, with row i counted weights[r, owner[i]] times."""
    counts = weights[:, owner]
    seen = np.cumsum(counts, axis=1)[:, ends]
    found = np.cumsum(counts * truth, axis=1)[:, ends]
    gained = np.diff(found, axis=1, prepend=0.0)
    precision = np.divide(found, seen, out=np.zeros_like(found), where=seen > 0)
    total = found[:, -1]
    summed: Values = (gained * precision).sum(axis=1)
    return np.divide(summed, total, out=np.full_like(summed, np.nan), where=total > 0)
