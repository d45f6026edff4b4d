"""Ranks and what is read off them: recall, median rank, reciprocal rank.

Scores tie more often than one thinks (empty features, collapsed embeddings), so a rank is kept as
counts and the tie policy is explicit. Nothing here makes scores, draws pools or resamples.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import comb
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from limner.errors import ConfigError, DataError, NumericsError, ShapeError, unknown

Ties = Literal["mean", "pessimistic", "optimistic"]
Outside = Literal["error", "miss"]
Relevant = NDArray[np.bool_] | Sequence[Sequence[int]]
Counts = NDArray[np.int64]
Ranks = NDArray[np.float64]
BLOCK_CELLS = 1 << 24


@dataclass(frozen=True)
class Ranking:
    """Where the best relevant picture of each query stands, ties kept apart.

    Attributes:
        better: (N,) irrelevant pictures that score above the best relevant one; -1 for a query
            without a relevant picture in the pool.
        equal: (N,) irrelevant pictures that tie with it.
        tied: (N,) relevant pictures at that score, itself included.
        size: M, pictures in the pool.
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
        """1-based ranks, (N,); half-integers under ``mean``, infinity for a query that cannot hit.

        Args:
            ties: mean counts half of the tied pictures, pessimistic all, optimistic none.
        Raises:
            ConfigError: no such policy.
        Source: SPEC 1.7.
        """
        share = {"mean": 0.5, "pessimistic": 1.0, "optimistic": 0.0}
        if ties not in share:
            raise ConfigError("ranking: " + unknown("tie policy", ties, get_args(Ties)))
        ranks = 1.0 + self.better + share[ties] * self.equal
        return np.where(self.better < 0, np.inf, ranks)

    def expected_hits(self, k: int) -> Ranks:
        """Share of tie orders that put a relevant picture among the first k, (N,) in [0, 1].

        Args:
            k: at least 1.
        """
        _positive("expected recall", k)
        hits = np.zeros(len(self))
        rows = zip(self.better.tolist(), self.equal.tolist(), self.tied.tolist(), strict=True)
        for row, (better, equal, tied) in enumerate(rows):
            places = k - better
            if better >= 0 and places > 0:
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
        if self.kind not in ("R", "ER", "StR", "MedR", "MRR"):
            raise ConfigError("metric: " + unknown("metric", self.kind, ("R", "ER", "StR", "MedR", "MRR")))
        if self.kind in ("MedR", "MRR"):
            if self.k:
                raise ConfigError(f"metric: {self.kind} takes no cut-off, found {self.k}; write {self.kind}")
        else:
            _positive(f"metric {self.kind}@k", self.k)

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

    def __call__(self, ranking: Ranking, ties: Ties = "mean") -> float:
        """The metric of N queries: a fraction, or a rank for MedR.

        Raises:
            DataError: no queries.
        """
        if not len(ranking):
            raise DataError(f"metric {self}: no queries; a metric of nothing is not defined")
        values = self.values(ranking, ties)
        return float(np.median(values) if self.statistic == "median" else values.mean())


def rank(
    scores: NDArray[np.floating],
    relevant: Relevant,
    *,
    pool: Sequence[int] | None = None,
    outside: Outside = "error",
) -> Ranking:
    """Rank every query's relevant pictures among the gallery, or among a pool of it.

    Args:
        scores: (N, M) rows are texts, columns are pictures, finite.
        relevant: (N, M) True where the picture is right, or per query the columns that are.
        pool: columns that take part, all different; None for all.
        outside: a query without a relevant picture in the pool is an error, or counts as a miss.
    Raises:
        ShapeError: scores and relevance do not fit.
        NumericsError: a score is not finite, naming the row.
        DataError: a query has nothing to find, or the pool names a column twice or beyond M.
    Source: SPEC 1.7.
    """
    if scores.ndim != 2:
        raise ShapeError(f"rank: scores has shape {scores.shape}, expected (N, M)")
    rows, size = scores.shape
    return rank_blocks(
        lambda start, stop: scores[start:stop], (rows, size), relevant, pool=pool, outside=outside
    )


def rank_blocks(
    score_rows: Callable[[int, int], NDArray[np.floating]],
    shape: tuple[int, int],
    relevant: Relevant,
    *,
    pool: Sequence[int] | None = None,
    outside: Outside = "error",
    block: int | None = None,
) -> Ranking:
    """As `rank`, with scores made block by block, so that N × M never has to exist.

    Args:
        score_rows: (start, stop) → (stop − start, M) scores of those queries.
        shape: (N, M).
        relevant: as in `rank`.
        pool: as in `rank`.
        outside: as in `rank`.
        block: queries per block; by default as many as keep a block at 16 M scores.
    """
    rows, size = shape
    lists = _columns(relevant, rows, size)
    keep = None if pool is None else _pool(pool, size)
    step = block or max(1, BLOCK_CELLS // max(size, 1))
    if outside not in get_args(Outside):
        raise ConfigError("rank: " + unknown("choice of outside", outside, get_args(Outside)))
    counts = np.zeros((3, rows), dtype=np.int64)
    for start in range(0, rows, step):
        stop = min(start + step, rows)
        table = np.asarray(score_rows(start, stop))
        if table.shape != (stop - start, size):
            raise ShapeError(
                f"rank: rows {start}:{stop} have shape {table.shape}, expected {stop - start, size}"
            )
        _all_finite(table, start)
        right = np.zeros(table.shape, dtype=bool)
        for offset, columns in enumerate(lists[start:stop]):
            right[offset, columns] = True
        if keep is not None:
            table, right = table[:, keep], right[:, keep]
        counts[:, start:stop] = _count(table, right)
    lost = np.flatnonzero(counts[0] < 0)
    if len(lost) and outside == "error":
        raise DataError(
            f"rank: query {lost[0]} has no relevant picture in the pool ({len(lost)} of {rows} queries);"
            " leave such queries out, or pass outside='miss' to count them as misses"
        )
    return Ranking(counts[0], counts[1], counts[2], size if keep is None else len(keep))


def _count(table: NDArray[np.floating], right: NDArray[np.bool_]) -> Counts:
    """(3, rows): better, equal, tied of SPEC 1.7; better is -1 where nothing is relevant."""
    if not table.shape[1]:
        return np.repeat(np.array([[-1], [0], [0]], dtype=np.int64), len(table), axis=1)
    best = np.where(right, table, -np.inf).max(axis=1, keepdims=True)
    ties = table == best
    better = ((table > best) & ~right).sum(axis=1)
    counts = np.stack([better, (ties & ~right).sum(axis=1), (ties & right).sum(axis=1)])
    counts[:, ~right.any(axis=1)] = np.array([[-1], [0], [0]])
    return counts


def _all_finite(table: NDArray[np.floating], start: int) -> None:
    finite = np.isfinite(table).all(axis=1)
    if not finite.all():
        row = int(np.argmin(finite))
        column = int(np.argmin(np.isfinite(table[row])))
        raise NumericsError(
            f"rank: score of query {start + row} and picture {column} is {table[row, column]},"
            " expected a finite number; check the encoder's input for that row"
        )


def _columns(relevant: Relevant, rows: int, size: int) -> list[NDArray[np.int64]]:
    if isinstance(relevant, np.ndarray):
        if relevant.shape != (rows, size) or relevant.dtype != np.bool_:
            raise ShapeError(
                f"rank: relevance has shape {relevant.shape} of {relevant.dtype},"
                f" expected {rows, size} of bool"
            )
        return [np.flatnonzero(row) for row in relevant]
    if len(relevant) != rows:
        raise ShapeError(f"rank: relevance for {len(relevant)} queries, scores for {rows}")
    lists = [np.asarray(columns, dtype=np.int64) for columns in relevant]
    for row, columns in enumerate(lists):
        if len(columns) and not (columns.min() >= 0 and columns.max() < size):
            raise DataError(f"rank: query {row} names a picture outside 0…{size - 1}: {columns.tolist()}")
    return lists


def _pool(pool: Sequence[int], size: int) -> NDArray[np.int64]:
    keep = np.asarray(pool, dtype=np.int64)
    if len(np.unique(keep)) != len(keep):
        raise DataError(
            f"rank: the pool names {len(keep) - len(np.unique(keep))} pictures twice; de-duplicate it"
        )
    if len(keep) and not (keep.min() >= 0 and keep.max() < size):
        raise DataError(f"rank: the pool names a picture outside 0…{size - 1}")
    return keep


def _positive(where: str, k: int) -> None:
    if k < 1:
        raise ConfigError(f"{where}: cut-off {k}, expected an integer of at least 1")
