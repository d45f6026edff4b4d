"""Ranks and what is read off them: recall, median rank, reciprocal rank; average precision of relations.

Scores tie more often than one thinks (empty features, collapsed embeddings), so a rank is kept as
counts and the tie policy is explicit. Nothing here makes scores, draws pools or resamples.
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
"""Per query the columns of the pictures that are right."""
Scores = NDArray[np.floating]
Score = Callable[[Some, Some], Any]
"""(Q rows, P columns) → (Q, P) scores of those texts and pictures, as an array or as a tensor on the device
that made them. The table of all of them need not exist anywhere."""
ALL = slice(None)
Counts = NDArray[np.int64]
Ranks = NDArray[np.float64]
METRIC_KINDS = ("R", "ER", "StR", "MedR", "MRR")
BLOCK_CELLS = 1 << 24
_CACHED_CELLS = 1 << 18
SLICES_ALONE = 8
"""Slices of so many cells below which one thread counts them: to begin others takes longer."""


@dataclass(frozen=True)
class Ranking:
    """Where the best relevant picture of each query stands, ties kept apart.

    Attributes:
        better: (N,) irrelevant pictures that score above the best relevant one.
        equal: (N,) irrelevant pictures that tie with it.
        tied: (N,) relevant pictures at that score, itself included.
        size: M, pictures in the gallery.
    """

    better: Counts
    equal: Counts
    tied: Counts
    size: int

    def __len__(self) -> int:
        """N, the number of queries."""
        return len(self.better)

    @property
    def tie_share(self) -> float:
        """Share of queries whose rank depends on the tie policy."""
        return float(np.mean(self.equal > 0))

    def ranks(self, ties: Ties = "mean") -> Ranks:
        """1-based ranks, (N,); half-integers under ``mean``.

        Args:
            ties: mean counts half of the tied pictures, pessimistic all, optimistic none.
        Raises:
            ConfigError: no such policy.
        Source: docs/methods/evaluation.md §1.
        """
        share = {"mean": 0.5, "pessimistic": 1.0, "optimistic": 0.0}
        if ties not in share:
            raise ConfigError("ranking: " + unknown("tie policy", ties, get_args(Ties)))
        ranks: Ranks = 1.0 + self.better + share[ties] * self.equal
        return ranks

    def expected_hits(self, k: int) -> Ranks:
        """Share of tie orders that put a relevant picture among the first k, (N,) in [0, 1].

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
    """A measure by name: R@k, ER@k (expected under ties), StR@k, MedR, MRR.

    Attributes:
        kind: R, ER, StR, MedR or MRR.
        k: cut-off of the three recalls, 0 for the others.
    """

    kind: str
    k: int = 0

    def __post_init__(self) -> None:
        """Check that kind and cut-off go together."""
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
        """The metric a name stands for: ``Metric.parse(str(metric)) == metric``.

        Raises:
            ConfigError: the name is not one.
        """
        kind, at, cut = name.partition("@")
        if at and not (cut.isascii() and cut.isdigit() and not cut.startswith("0")):
            raise ConfigError(f"metric: {name!r} has cut-off {cut!r}, expected an integer such as R@10")
        return cls(kind, int(cut) if at else 0)

    @property
    def higher_is_better(self) -> bool:
        """Its own direction."""
        return self.kind != "MedR"

    @property
    def statistic(self) -> Literal["mean", "median"]:
        """How the per-query values become one number."""
        return "median" if self.kind == "MedR" else "mean"

    def values(self, ranking: Ranking, ties: Ties = "mean") -> Ranks:
        """The per-query values, (N,), whose mean (median for MedR) is the metric.

        Args:
            ranking: of the relevant pictures; for StR of the pictures of the query's own story.
            ties: the policy; expected recall has none.
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
            ranking: as in `values`.
            groups: (N,) such as the story of each query.
            resamples: of the bootstrap.
        """
        from limner.research.evaluation.uncertainty import interval

        return interval(self.values(ranking), groups, self.statistic, resamples=resamples)

    def __call__(self, ranking: Ranking, ties: Ties = "mean") -> float:
        """The metric of N queries: a fraction, or a rank for MedR.

        Raises:
            DataError: no queries.
        """
        if not len(ranking):
            raise DataError(f"metric {self}: no queries; a metric of nothing is not defined")
        values = self.values(ranking, ties)
        return float(np.median(values) if self.statistic == "median" else values.mean())


def host(table: Any) -> Scores:  # noqa: ANN401  (see `Score`)
    """A block as an array, wherever it was made."""
    return table if isinstance(table, np.ndarray) else np.asarray(table.cpu())


def leading(table: Any, count: int) -> tuple[Counts, Ranks]:  # noqa: ANN401  (see `Score`)
    """The best columns of every row and their scores, best first; of equal ones the first column.

    Args:
        table: (Q, P) of numbers.
        count: at least 1; P where that is less.
    Returns:
        (Q, count) columns and (Q, count) scores.
    """
    rows, size = table.shape
    count = min(count, size)
    # As many stretches as there are places, those with the largest maxima, hold all of the best: of any other
    # score there are that many which are larger, or equal and further left.
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
    """Rank every query's relevant pictures among the gallery.

    Args:
        scores: (N, M) rows are texts, columns are pictures, finite.
        relevant: (N,) per query the columns of the pictures that are right.
        first: number of the first query in messages.
    Raises:
        ShapeError: scores and relevance do not fit.
        NumericsError: a score is not finite, naming the row.
        DataError: a query has nothing to find.
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
    """As `rank`, with scores made block by block, so that N × M never has to exist.

    Args:
        score_rows: (start, stop) → (stop − start, M) scores of those queries, as `Score` gives them; counted
            on the device they lie on.
        shape: (N, M).
        relevant: as in `rank`.
        block: queries per block; by default as many as keep a block at 16 M scores.
        first: number of the first query in messages.
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
    """The relevant columns of every query, end to end.

    Attributes:
        columns: (P,) columns, those of query 0 first.
        starts: (N + 1,) where each query's begin.
    """

    columns: NDArray[np.int64]
    starts: NDArray[np.int64]

    def owners(self) -> NDArray[np.int64]:
        """(P,) the query of every column."""
        return np.repeat(np.arange(len(self.starts) - 1), np.diff(self.starts))

    def slice(self, start: int, stop: int) -> "_Right":
        """Those of some queries."""
        first, last = self.starts[start], self.starts[stop]
        return _Right(self.columns[first:last], self.starts[start : stop + 1] - first)


def _count(table: NDArray[np.floating], right: _Right, start: int) -> Counts:
    """(3, rows): better, equal, tied, as in `Ranking`.

    A relevant picture never scores above the best one, so all that score above are irrelevant and only the
    ties need telling apart. Slices that stay in the cache are compared whole, on every core.
    """
    rows, size = table.shape
    counts, sums = np.empty((3, rows), dtype=np.int64), np.empty(rows, table.dtype)
    step = max(1, _CACHED_CELLS // max(size, 1))
    owners = right.owners()
    own = table[owners, right.columns]
    best = np.maximum.reduceat(own, right.starts[:-1])[:, None]
    tied = np.bincount(owners, own == best[owners, 0], minlength=rows).astype(np.int64)

    kind = np.uint16 if size < 1 << 16 else np.int64  # numbers of two bytes add up the quickest

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
    """As `_count`, of a tensor, which stays where it is."""
    owners = right.owners()
    own = host(table[owners, right.columns])
    best = np.maximum.reduceat(own, right.starts[:-1])
    tied = np.bincount(owners, own == best[owners], minlength=len(table)).astype(np.int64)
    top = table.new_tensor(best)[:, None]
    better, equal = host((table > top).sum(1)), host((table == top).sum(1))
    _look_at(table, np.flatnonzero(host(table.isfinite().all(1)) == 0), start)
    return np.stack([better, equal - tied, tied])


def _look_at(table: Any, doubtful: NDArray[np.int64], start: int) -> None:  # noqa: ANN401  (see `Score`)
    """Refuse a score that is not finite; a sum is finite only if its terms are, but it may overflow."""
    for row in doubtful.tolist():
        values = host(table[row])
        if not np.isfinite(values).all():
            column = int(np.argmin(np.isfinite(values)))
            raise NumericsError(
                f"rank: score of query {start + row} and picture {column} is {values[column]},"
                " expected a finite number; check the encoder's input for that row"
            )


def _columns(relevant: Relevant, rows: int, size: int) -> _Right:
    """The columns of all queries end to end, checked."""
    if len(relevant) != rows:
        raise ShapeError(f"rank: relevance for {counted(len(relevant), 'query')}, scores for {rows}")
    lists = [set(columns) for columns in relevant]  # a column that is named twice is one picture
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
        picture_of: per query (N,) the id of its picture; equal ids are one picture.
    Returns:
        (N,) the column of each query's picture, and (M,) the first row of each picture.
    Raises:
        DataError: no queries.
    """
    if not picture_of:
        raise DataError("pictures: no queries; a gallery needs at least one")
    columns = np.array(duplicate_groups([[name] for name in picture_of]), np.int64)
    return columns, np.unique(columns, return_index=True)[1]


def average_precision(scores: "Values", labels: Labels) -> float:
    """Average precision of one relation; rows of equal score are one threshold.

    AP = Σ over thresholds of (share of the positives gained there) × (precision down to there). Constant
    scores give the prevalence.

    Args:
        scores: (N,) finite, more is more probable; or (S, N) of S seeds, whose precisions are averaged.
        labels: (N,) 0 or 1, at least one of them 1.
    Raises:
        NumericsError: a score is not finite.
        DataError: no positive.
    Source: docs/methods/evaluation.md §5.
    """
    runs, truth = _checked(scores, labels)
    every = np.arange(len(truth))
    once = np.ones((1, len(truth)), dtype=np.int64)
    return float(precision_statistic(runs, truth, every)(once)[0])


def prevalence(labels: Labels, groups: Sequence[Hashable], *, resamples: int) -> "Interval":
    """Share of positives, which is what chance gives in average precision, with its interval."""
    from limner.research.evaluation.uncertainty import interval

    return interval(np.asarray(labels, dtype=np.float64), groups, resamples=resamples)


def disagreement_ceiling(pairs: Sequence[Hashable], labels: Labels) -> float:
    """The best average precision open to anyone who sees the pair and not the annotator.

    Copies of one pair must get one score; the share of positives among them is the best one. Pairs that
    occur once cannot disagree, so this is an upper bound, and a loose one where copies are few.

    Args:
        pairs: (N,) identity of each row's (text, picture) pair.
        labels: (N,).
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
        scores: (N,) or (S, N), as in `average_precision`.
        labels: (N,).
        owner: (N,) group number of every row.
    Returns:
        Counts of every group, (R, G) → (R,) mean over the seeds of the precision; NaN without a positive.
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
    """(S, N) scores and (N,) labels."""
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
    """Rows in falling order of score, row i counted weights[r, owner[i]] times."""
    counts = weights[:, owner]
    seen = np.cumsum(counts, axis=1)[:, ends]
    found = np.cumsum(counts * truth, axis=1)[:, ends]
    gained = np.diff(found, axis=1, prepend=0.0)
    precision = np.divide(found, seen, out=np.zeros_like(found), where=seen > 0)
    total = found[:, -1]
    summed: Values = (gained * precision).sum(axis=1)
    return np.divide(summed, total, out=np.full_like(summed, np.nan), where=total > 0)
