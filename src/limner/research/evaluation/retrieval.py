"""Ranks of texts' pictures and answers to c-way questions, from pairs and what scores them block by block.

It never asks who makes the scores, holds no table of all texts with all pictures, and writes no file.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from limner.errors import ConfigError, DataError
from limner.research.datasets.pairs import Pair, duplicate_groups, text_id
from limner.research.evaluation.ranking import (
    ALL,
    Ranks,
    Score,
    Scores,
    different,
    host,
    leading,
    rank,
    rank_blocks,
)
from limner.research.evaluation.results import TOP, About, PoolRanks, Result

POOL_COUNT = 10
POOL_SIZE = 500


@dataclass(frozen=True)
class RankingPool:
    """One pool and the queries that belong to it.

    Attributes:
        pictures: (P,) columns of the score table, ascending; one per picture, but in `draw_legacy`.
        queries: (Q,) rows whose picture is in the pool.
        seed: what drew it; None for what is not drawn.
    """

    pictures: NDArray[np.int64]
    queries: NDArray[np.int64]
    seed: int | None = None


def draw(columns: NDArray[np.int64], *, size: int = POOL_SIZE, count: int = POOL_COUNT) -> list[RankingPool]:
    """Sample pools of different pictures without replacement, with the seeds 0…count−1.

    Args:
        columns: (N,) the column of each query's picture, as `different` numbers them.
        size: pictures per pool.
        count: pools.
    Raises:
        ConfigError: a size or count below 1.
        DataError: fewer pictures than a pool needs.
    Source: docs/methods/evaluation.md §2.
    """
    total = int(columns.max()) + 1
    if size < 1 or count < 1:
        raise ConfigError(f"pools: {count} pools of {size}, expected at least 1 of 1")
    if size > total:
        raise DataError(
            f"pools: {total} different pictures, expected at least {size} for a pool of {size};"
            " use all of them or a smaller pool"
        )
    pools = []
    for seed in range(count):
        pictures = np.sort(np.random.default_rng(seed).choice(np.arange(total), size=size, replace=False))
        pools.append(RankingPool(pictures, np.flatnonzero(np.isin(columns, pictures)), seed))
    return pools


def draw_legacy(
    columns: NDArray[np.int64], *, size: int = POOL_SIZE, count: int = POOL_COUNT
) -> list[RankingPool]:
    """The pools of the CMCM release, to compare with its figures alone: they repeat pictures.

    A pool holds the picture of each of its rows, as often as the rows name it. All copies of a query's
    picture have the same score; one of them is right, the others tie with it.

    Args:
        columns: see `draw`.
        size: rows per pool.
        count: pools that are drawn.
    Returns:
        The first `size` rows, or all if there are fewer, with no seed; then `count` draws of `size` rows with
        replacement, by the seeds 0…count−1.
    Raises:
        ConfigError: a size or count below 1.
    Source: docs/methods/evaluation.md §2. Departs: ties count half, where the release leaves them to the
        order of the sort.
    """
    if size < 1 or count < 1:
        raise ConfigError(f"pools: {count} pools of {size}, expected at least 1 of 1")
    total = len(columns)
    chosen: dict[int | None, NDArray[np.int64]] = {None: np.arange(min(size, total))}
    for seed in range(count):
        chosen[seed] = np.random.default_rng(seed).integers(total, size=size)
    pools = []
    for number, rows in chosen.items():
        queries = rows[np.argsort(columns[rows], kind="stable")]
        pools.append(RankingPool(columns[queries], queries, number))
    return pools


_QUERIES = 512  # that one of several processes ranks at a time
Number = TypeVar("Number", bound=np.generic)
Refine = Callable[[Scores, NDArray[np.int64], NDArray[np.int64]], Scores]
"""(Q, P) plain scores in a pool, their (Q,) rows and its (P,) columns → (Q, P) refined scores."""


def measure(
    about: About,
    pairs: Sequence[Pair],
    relations: Sequence[str],
    *,
    score: Score | None = None,
    refine: Refine | None = None,
    probabilities: Mapping[str, NDArray[np.floating]] | None = None,
    pool_size: int = POOL_SIZE,
    pool_count: int = POOL_COUNT,
    share: slice = ALL,
    summed: Callable[[NDArray[Any]], NDArray[Any]] = np.asarray,
) -> Result:
    """Rank every text's picture in the shared pools and in the full set, plain and refined.

    Probabilities are kept for every row; of a pair that is repeated only the first row is a query. In the
    legacy protocol the pools are those of `draw_legacy`, and there is no full set.

    Args:
        about: what is measured, and by which protocol.
        pairs: (N,) all rows of the part, with groups filled in.
        relations: whose labels are kept.
        score: rows are those of `pairs`, columns the M different pictures in order of first appearance
            (by `Pair.image_id`); asked for blocks. None for a system that retrieves nothing.
        refine: scores of a pool → refined scores; None if nothing refines.
        probabilities: relation → (N,) predicted for each pair.
        pool_size: pictures per pool; a set with fewer gets the full set alone.
        pool_count: pools drawn, seeds 0…count−1.
        share: of several processes, the blocks of queries that this one ranks against all pictures.
        summed: array → its sum over all processes, all but one of which have 0.
    Raises:
        ShapeError: a block has another shape than was asked for.
        DataError: a pair has no group or lacks a label.
    Source: docs/methods/evaluation.md §2; docs/methods/cmcm.md §4.2.
    """
    lost = next((pair for pair in pairs if any(name not in pair.labels for name in relations)), None)
    if lost is not None:
        raise DataError(f"{about.data}: pair {lost.id!r} lacks a label; split the set first")
    copies, queries, columns, first = different_pairs(about, pairs)
    pools: list[PoolRanks] = []
    top: list[tuple[str, ...]] = []
    refined_top: list[tuple[str, ...]] = []
    if score is not None:
        legacy = about.protocol == "legacy"
        drawn = draw(columns, size=pool_size, count=pool_count) if len(first) >= pool_size else []
        for pool in draw_legacy(columns, size=pool_size, count=pool_count) if legacy else drawn:
            found = _scored(score, refine, queries[pool.queries], pool.pictures, columns[pool.queries])
            pools.append(found.ranks(queries[pool.queries], len(pool.pictures), pool.seed))
        every = np.arange(len(pairs)), np.arange(len(first)), columns[np.array(copies)]
        full = _Scored(*map(summed, _shared(score, refine, *every, share=share).parts))
        pools += [] if legacy else [full.of(queries).ranks(queries, len(first), None)]
        names = [pairs[row].id for row in queries[first]]
        top, refined_top = (
            [tuple(names[column] for column in row) for row in best.tolist()]
            for best in (full.top, full.refined_top)
        )
    return Result(
        about=about,
        ids=tuple(pair.id for pair in pairs),
        groups=tuple(pair.group for pair in pairs),
        pairs=tuple(copies),
        labels={name: tuple(pair.labels[name] for pair in pairs) for name in relations},
        probabilities={name: tuple(values.tolist()) for name, values in (probabilities or {}).items()},
        pools=tuple(pools),
        top=tuple(top),
        refined_top=tuple(refined_top),
    )


def different_pairs(
    about: About, pairs: Sequence[Pair]
) -> tuple[list[int], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Different pairs of a part.

    Returns:
        (N,) number of every row's pair, (Q,) first row of every pair, (Q,) column of its picture, and (M,)
        the first query of every picture.
    """
    lost = next((pair.id for pair in pairs if not pair.group), None)
    if lost is not None or not pairs:
        raise DataError(f"{about.data}: pair {lost!r} has no group; split the set first")
    copies = duplicate_groups([[(text_id(pair.text), pair.image_id)] for pair in pairs])
    rows = np.unique(np.array(copies, np.int64), return_index=True)[1]
    columns, first = different([pairs[row].image_id for row in rows])
    return copies, rows, columns, first


@dataclass(frozen=True)
class _Scored:
    """Stored part of the scores of Q queries in a pool.

    Attributes:
        plain: (Q,) ranks.
        refined: (Q,), or (0,) where nothing refines.
        gaps: (Q,) how far the best picture lies above the second, or (0,) in a pool of one.
        top: (Q, TOP or fewer) best columns.
        refined_top: the same after refinement, or (0, 0).
    """

    plain: Ranks
    refined: Ranks
    gaps: Ranks
    top: NDArray[np.int64]
    refined_top: NDArray[np.int64]

    @property
    def parts(self) -> tuple[NDArray[Any], ...]:
        """All of them, in order."""
        return self.plain, self.refined, self.gaps, self.top, self.refined_top

    def of(self, rows: NDArray[np.int64]) -> "_Scored":
        """Those of some queries."""

        def taken(part: NDArray[Number]) -> NDArray[Number]:
            return part[rows] if len(part) else part

        ranks = taken(self.plain), taken(self.refined), taken(self.gaps)
        return _Scored(*ranks, taken(self.top), taken(self.refined_top))

    def ranks(self, queries: NDArray[np.int64], pictures: int, seed: int | None) -> PoolRanks:
        """As stored."""
        return PoolRanks(
            seed=seed,
            pictures=pictures,
            queries=tuple(queries.tolist()),
            plain=tuple(self.plain.tolist()),
            refined=tuple(self.refined.tolist()),
            gaps=tuple(self.gaps.tolist()),
        )


def _shared(
    score: Score,
    refine: Refine | None,
    rows: NDArray[np.int64],
    pictures: NDArray[np.int64],
    columns: NDArray[np.int64],
    *,
    share: slice,
) -> _Scored:
    """Rank a share of the blocks of queries against all pictures, all others 0; see `_scored`."""
    count, best = len(rows), min(TOP, len(pictures))
    finer = 0 if refine is None else count
    kept = _Scored(
        np.zeros(count),
        np.zeros(finer),
        np.zeros(count if len(pictures) > 1 else 0),
        np.zeros((count, best), np.int64),
        np.zeros((finer, best), np.int64),
    )
    for start in range(0, count, _QUERIES)[share]:
        some = slice(start, start + _QUERIES)
        found = _scored(score, refine, rows[some], pictures, columns[some], whole=True)
        for whole, part in zip(kept.parts, found.parts, strict=True):
            if len(whole):
                whole[some] = part
    return kept


def _scored(
    score: Score,
    refine: Refine | None,
    rows: NDArray[np.int64],
    pictures: NDArray[np.int64],
    columns: NDArray[np.int64],
    *,
    whole: bool = False,
) -> _Scored:
    """Rank some queries in one pool, a block of queries at a time.

    Args:
        score: score of the part.
        refine: see `measure`.
        rows: (Q,) queries.
        pictures: (P,) columns of the pool, ascending.
        columns: (Q,) the one relevant column of each query.
        whole: whether these are all pictures.
    """
    right = np.searchsorted(pictures, columns)[:, None].tolist()
    refined, values, top, refined_top = [np.empty(0)], [np.empty((0, 2))], [], []

    def block(start: int, stop: int) -> Any:  # noqa: ANN401  (see `Score`)
        some = rows[start:stop]
        table = score(some, ALL if whole else pictures)
        if table.shape[1] == len(pictures):  # else `rank_blocks` says what is wrong
            best, best_scores = leading(table, TOP)
            top.append(best)
            values.append(best_scores[:, :2])
            if refine is not None:
                finer = refine(host(table), some, pictures)
                refined.append(rank(finer, right[start:stop], first=start).ranks())
                if whole:
                    refined_top.append(leading(finer, TOP)[0])
        return table

    plain = rank_blocks(block, (len(rows), len(pictures)), right).ranks()
    gaps = np.empty(0)
    if len(pictures) > 1:
        first, second = np.concatenate(values).T
        gaps = first - second
    fine = np.concatenate(refined_top) if refined_top else np.empty((0, 0), np.int64)
    return _Scored(plain, np.concatenate(refined), gaps, np.concatenate(top), fine)
